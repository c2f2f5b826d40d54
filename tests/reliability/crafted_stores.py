"""Stores with right checksums that lie: words of pages, records and slots changed, and stamped
anew.

Whatever is asked of such a store is answered, rightly or not, or refused by an error of
pagestore's: no signal, no other exception, little memory and time. Inputs run in child processes,
many in each; one that dies says at which.

    python -m tests.reliability.crafted_stores SEED AMOUNT
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
from crc32c import crc32c

import pagestore
from pagestore.errors import PagestoreError
from pagestore.pages.layout import CRC, ENTRY_COUNT, HEADER, ID, RUN, SCAN, TYPE
from pagestore.storage.meta import SIZE, SLOT_SIZE

PAGE = 4096
WORDS = PAGE // 8
CHILD_INPUTS = 2000
SECONDS, MEMORY = 20, 3 << 30  # that an input may take at most, and a child's addresses
SLOT_WORDS = SIZE // 8
BOUNDS = [(0,), (5,), (1 << 60,)], [(5,), (1 << 59,), (1 << 61,)]  # of intervals
SPECIAL = [
    0,
    1,
    2,
    3,
    7,
    63,
    64,
    65,
    255,
    256,
    511,
    4096,
    *(1 << n for n in (16, 31, 32, 40, 62)),
    -1,
    -2,
    -(1 << 63),
]


def run(seed: int, amount: int) -> Counter[str]:
    """Ask so many crafted stores everything; how often each thing came of it. Raises AssertionError
    at the first that does not end in a value or an error of pagestore's.
    """
    outcomes: Counter[str] = Counter()
    for first in range(0, amount, CHILD_INPUTS):
        outcomes += child(seed, first, min(CHILD_INPUTS, amount - first))
    return outcomes


def child(seed: int, first: int, count: int) -> Counter[str]:
    """Run inputs in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            __name__ if __name__ != "__main__" else "tests.reliability.crafted_stores",
        ]
        done = subprocess.run(
            [*command, "--child", str(seed), str(first), str(count), folder],
            capture_output=True,
            text=True,
        )
        at = Path(folder, "at")
        where = f"seed {seed}, input {at.read_text() if at.exists() else 'none'}"
        assert done.returncode >= 0, (
            f"{where}: {signal.Signals(-done.returncode).name}\n{done.stderr}"
        )
        assert done.returncode == 0, f"{where}:\n{done.stderr}"
        return Counter(json.loads(done.stdout.splitlines()[-1]))


def inputs(seed: int, first: int, count: int, folder: Path) -> Counter[str]:
    """Run inputs in this process, which may not survive that."""
    path, outcomes = folder / "crafted.pages", Counter()
    write(path)
    data = path.read_bytes()
    for number in range(4):
        ask(path, Random(number), 1)  # kernels are loaded before memory is bounded
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number in range(first, first + count):
        Path(folder, "at").write_text(str(number))
        random = Random(f"{seed} {number}")
        path.write_bytes(crafted(data, random))
        signal.alarm(SECONDS)
        outcomes += ask(path, random)
        signal.alarm(0)
    return outcomes


# --- the store, and how it is made to lie
# -----------------------------------------------------------------------------


def write(path: Path) -> None:
    """A small store with a bit of everything."""
    random = Random(7)
    path.unlink(missing_ok=True)
    with pagestore.open(path, page_size=PAGE, sync="off", retain=3, threads=1) as store:
        for step in range(4):
            with store.transaction(f"step {step}") as txn:
                if not step:
                    txn.create(
                        "big", "k: int64, v: int64", key="k", scans=["count", "sum:v", "max:v,k"]
                    )
                    txn.create("pair", "a: int64, b: int64", scans=["count", "min:b", "checksum"])
                    txn.create("note", "k: int64, t: string, f: float64, b: bool", key="k")
                    txn.create_intervals("span", "a: int64, b: int64", ("a", "b"))
                    txn["note"].insert([(99, "long " * 400, 0.5, True)])
                many = 70 if step else 250
                txn["big"].insert(
                    [(random.getrandbits(62), random.getrandbits(40)) for _ in range(many)]
                )
                txn["pair"].insert([(random.randrange(9), random.randrange(99)) for _ in range(30)])
                txn["note"].set([(k, f"{step} {k}", k / 3, k > 1) for k in range(step, step + 4)])
                txn["span"].insert([(a, a + random.randrange(90)) for a in range(0, 500, 9)])
                txn.properties["step"] = str(step)
            if step == 1:
                store.tag("second")
        store.branch("side")


def crafted(data: bytes, random: Random) -> bytes:
    """The store with one to three changes, and the checksums that go with them."""
    hurt = np.frombuffer(bytearray(data), np.int64)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        page = random.randrange(len(data) // PAGE)
        if page < 2:
            craft_slot(hurt[page * SLOT_SIZE // 8 :][:SLOT_WORDS], random)
        else:
            craft_page(hurt[page * WORDS : (page + 1) * WORDS], random, len(data) // PAGE)
    return hurt.tobytes()


def craft_slot(slot: np.ndarray, random: Random) -> None:
    """Change a meta slot."""
    at = random.randrange(1, SLOT_WORDS - 1)
    slot[at] = changed(int(slot[at]), random)
    body = slot.tobytes()[: SIZE - 4]
    slot[-1] = int.from_bytes(body[-4:] + crc32c(body).to_bytes(4, "little"), "little", signed=True)


def craft_page(words: np.ndarray, random: Random, top: int) -> None:
    """Change words of a page: of its header, its descriptors, where its ScanTree begins, or
    anywhere.
    """
    kind, columns = int(words[TYPE]) & 255, int(words[TYPE]) >> 16 & 255
    places = [range(ID, HEADER)]
    if kind == RUN:
        places += [range(HEADER, HEADER + max(1, int(words[ENTRY_COUNT]) // 8))] * 4
    else:
        places += [range(HEADER, HEADER + 2 * columns)] * 3 + [range(HEADER + 2 * columns, WORDS)]
        if int(words[SCAN]) & 255:
            area = int(words[SCAN]) >> 8 & 0xFFFFFF
            places += [range(area, min(area + 12, WORDS)), [SCAN]]
    for _ in range(random.choice([1, 1, 2])):
        at = random.choice(random.choice([place for place in places if len(place)]))
        if at >= WORDS:
            continue
        word = changed(int(words[at]), random)
        if kind != RUN and HEADER <= at < HEADER + 2 * columns and random.random() < 0.3:
            # another column's
            word = int(words[HEADER + 2 * random.randrange(columns) + (at - HEADER) % 2])
        if random.random() < 0.1:
            word = random.randrange(top + 1)  # a page's number
        words[at] = word
    words[CRC] = crc32c(words[1:].tobytes())


def changed(word: int, random: Random) -> int:
    """Another word instead of one."""
    kind = random.randrange(5)
    if kind == 0:
        word = random.choice(SPECIAL)
    elif kind == 1:
        word ^= 1 << random.randrange(64)
    elif kind == 2:
        word += random.choice([-256, -8, -1, 1, 8, 256, 1 << 32])
    elif kind == 3:
        shift = 8 * random.randrange(8)
        word = word & ~(255 << shift) | random.randrange(256) << shift
    else:
        word = random.getrandbits(64)
    return (word + (1 << 63)) % (1 << 64) - (1 << 63)


# --- everything that is asked
# -----------------------------------------------------------------------------------------


def ask(path: Path, random: Random, share: float = 0.5) -> Counter[str]:
    """Open a store and ask it a share of all questions: read it, write it, check it; what came
    of that.
    """
    outcomes: Counter[str] = Counter()
    mode = random.choice(["r", "rw"])
    try:
        with pagestore.open(path, mode, sync="off", threads=1) as store:
            questions = Questions(outcomes, random, share)
            if mode == "rw" and random.random() < 0.7:
                edit(store, random, questions)
            read(store, random, questions)
            questions.rarely("check", store.check)
            if mode == "rw":
                questions.rarely("vacuum", lambda: store.vacuum(keep_versions=1))
                questions.rarely("write", store.compact)
    except PagestoreError as error:
        outcomes[f"open: {type(error).__name__}"] += 1
    return outcomes


class Questions:
    """Asks a share of the questions, and counts what came of each."""

    def __init__(self, outcomes: Counter[str], random: Random, share: float) -> None:
        self.outcomes, self.random, self.share = outcomes, random, share

    def ask(self, name: str, question: Callable[[], object]) -> None:
        if self.random.random() >= self.share:
            return
        try:
            question()
            self.outcomes[f"{name}: a value"] += 1
        except PagestoreError as error:
            self.outcomes[f"{name}: {type(error).__name__}"] += 1

    def rarely(self, name: str, question: Callable[[], object]) -> None:
        if self.random.random() < 0.25:
            self.ask(name, question)


def read(store: pagestore.Store, random: Random, questions: Questions) -> None:
    """Read a version by all kernels that read, and what differs from another."""
    versions: list[int] = []
    questions.ask("history", lambda: versions.extend(line.version for line in store.history()))
    version = random.choice(versions or [store.version])
    try:
        with store.at(version) as snapshot:
            for name in snapshot:
                read_relation(snapshot[name], name, questions)
    except PagestoreError as error:
        questions.outcomes[f"version: {type(error).__name__}"] += 1
    if versions:
        name, other = random.choice(["big", "pair", "note"]), random.choice(versions)
        questions.ask("diff", lambda: store.diff(version, other, name).read_all())
    questions.rarely("stat", store.stat)


def read_relation(relation: pagestore.Relation, name: str, questions: Questions) -> None:
    ask, keys = (
        questions.ask,
        [(k, k) if name in ("pair", "span") else (k,) for k in (5, 99, 1 << 60)],
    )
    ask("rows", lambda: list(relation))
    ask("words", lambda: [*relation.words()])
    ask("range", lambda: len(relation.range((3,), (1 << 61,))))
    ask("get", lambda: [key in relation for key in keys])
    if name in ("big", "note"):
        ask("get", lambda: relation.get_many(keys))
        ask("get", lambda: [relation.get(key) for key in keys])
    for scan in relation.scans:
        ask("scan", lambda scan=scan: relation.scan(scan))
        ask("scan", lambda scan=scan: relation.scan_many(scan, *BOUNDS))
    if "count" in relation.scans:
        ask("rank", lambda: [relation.rank((k,)) for k in (3, 1 << 60)])
        ask("select", lambda: [relation.select(rank) for rank in range(0, len(relation), 50)])
    if name == "span":
        ask("stab", lambda: [relation.stab(x) for x in (0, 300, 900)])


def edit(store: pagestore.Store, random: Random, questions: Questions) -> None:
    """Some transactions, each of which may fail."""

    def once() -> None:
        with store.transaction() as txn:
            for name in [*txn]:
                if name == "big":
                    txn[name].insert(
                        [(random.getrandbits(62), 1) for _ in range(random.choice([1, 40]))]
                    )
                    txn[name].delete(
                        [row[:1] for row in txn[name].range_head(random.choice([1, 30]))]
                    )
                elif name in ("pair", "span"):
                    txn[name].insert(
                        [(k, k + 3) for k in random.sample(range(500), random.choice([1, 30]))]
                    )
                elif name == "note":
                    txn[name].set([(random.randrange(9), f"new {random.random()}", 1.0, False)])

    def create() -> None:
        with store.transaction() as txn:
            txn.create("fresh", "k: int64, v: int64", key="k").insert(
                [(k, k) for k in range(random.choice([3, 900]))]
            )

    for question in (
        once,
        create,
        once,
        lambda: store.tag("late"),
        lambda: store.delete_branch("side"),
    ):
        questions.ask("write", question)


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        try:
            found = inputs(*map(int, sys.argv[2:5]), Path(sys.argv[5]))
        except BaseException:
            traceback.print_exc()
            sys.exit(1)
        print(json.dumps(found))
        sys.stdout.flush()
        os._exit(0)  # what crafted stores have left behind need not be cleared up
    for outcome, times in sorted(run(int(sys.argv[1]), int(sys.argv[2])).items()):
        print(f"{times:10,} {outcome}")
