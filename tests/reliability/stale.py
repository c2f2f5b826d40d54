"""Lost writes: each page of a store put back to what it held after an earlier commit, and to zeros,
one at a time.

A store so hurt reads right wherever it reads, and `check` names the page if anything reaches it.
What a transaction has written that was rolled back is left out: its births are those of the next
one.

    python -m tests.reliability.stale SEED AMOUNT
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pagestore
from pagestore.admin.check import Check
from pagestore.errors import CorruptionError, ExistsError, RetainedError
from pagestore.pages.layout import FIRST_PAGE
from pagestore.storage.meta import Meta, unpack

PAGE = 4096
SCANS = ["count", "sum:v", "max:v,k", "checksum"]


def run(seed: int, amount: int) -> Counter[str]:
    """Hurt stores in so many ways; how often each thing came of it. Raises AssertionError at the
    first wrong one.
    """
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path, number = Path(folder) / "stale.pages", seed
        while outcomes.total() < amount:
            older = workload(path, Random(number))
            data, truth, reached = path.read_bytes(), read(path), reached_by(path)
            hurts = [
                (page, content) for page, contents in older.items() for content in sorted(contents)
            ]
            for page, content in Random(number).sample(
                hurts, min(len(hurts), amount - outcomes.total())
            ):
                hurt = bytearray(data)
                hurt[page * PAGE : (page + 1) * PAGE] = content
                path.write_bytes(hurt)
                kind = "zeros" if not any(content) else "an older content"
                where = f"seed {number}: page {page} of {len(data) // PAGE} is {kind}"
                outcomes[f"{kind}, {judged(path, page, truth, reached, where)}"] += 1
            number += 1
    return outcomes


def judged(path: Path, page: int, truth: dict, reached: dict[int, str], where: str) -> str:
    """What came of a store whose page is not the one that was written."""
    needed = page in reached or page < FIRST_PAGE
    where += f", reached by {reached.get(page, 'nobody')}"
    try:
        with pagestore.open(path, mode="r") as store:
            found = store.check()
            wrong = names(store, truth, page, where)
    except CorruptionError as error:
        assert page == error.page or f"page {page}:" in str(error), f"{where}: opening says {error}"
        return "refused"
    named = any(page in (violation.page, *violation.path) for violation in found)
    assert named or not needed, f"{where}: check says {found}"
    assert needed or not found, f"{where}, and check says {found}"
    assert needed or not wrong, f"{where}, and reading fails"
    return "an error in reading" if wrong else "found by check" if found else "free"


def names(store: pagestore.Store, truth: dict, page: int, where: str) -> bool:
    """Whether something did not read; what reads must be right, and what does not must name the
    page.
    """
    failed = False
    for version, content in truth.items():
        for name, expected in content.items():
            try:
                found = answer(store, version, name)
            except CorruptionError as error:
                failed = True
                assert page == error.page or f"page {page}:" in str(error), (
                    f"{where}: {version} {name}: {error}"
                )
            else:
                assert found == expected, (
                    f"{where}: version {version}, {name} reads {str(found)[:200]}"
                )
    return failed


QUESTIONS = ("rows", "gets", "folds", "texts", "long", "stab", "one", "diff", "settings")


def read(path: Path) -> dict[int, dict[str, Any]]:
    """All answers of a store, by version and question."""
    with pagestore.open(path, mode="r") as store:
        versions = [line.version for line in store.history()]
        return {
            version: {name: answer(store, version, name) for name in QUESTIONS}
            for version in versions
        }


def answer(store: pagestore.Store, version: int, name: str) -> Any:
    """What a version says to a question, by one kernel or another."""
    if name == "settings":
        return store.tags, store.branches, store.retain, [line.version for line in store.history()]
    with store.at(version) as snapshot:
        if name not in ("rows", "gets", "folds", "diff"):
            relation = {"texts": "note", "long": "essay"}.get(name, name)
            if relation == "stab":
                return snapshot["span"].stab(500) if "span" in snapshot else None
            return list(snapshot[relation]) if relation in snapshot else None
        if "big" not in snapshot:
            return None
        big = snapshot["big"]
        if name == "rows":
            return list(big)
        if name == "gets":
            keys = [(key,) for key in range(0, 1 << 62, 1 << 57)]
            return [row.tolist() for row in big.get_many(keys)[1].values()], [
                big.get(key) for key in keys
            ]
        if name == "folds":
            middle = big.range((1 << 60,), (1 << 61,)).scan("max:v,k")
            return (
                big.scan("sum:v"),
                middle,
                big.rank((1 << 61,)),
                big.select(len(big) // 2) if big else None,
            )
    before = max((line.version for line in store.history() if line.version < version), default=None)
    if before is None or "big" not in store.at(before):
        return None
    return sorted(map(str, store.diff(before, version, "big").read_all().to_pylist()))


def reached_by(path: Path) -> dict[int, str]:
    """The pages that anything reaches, free ones and such that wait left out."""
    with pagestore.open(path, mode="r") as store:
        check = Check(store._handle)
        assert check.run() == []
        return check.owner


def workload(path: Path, random: Random) -> dict[int, set[bytes]]:
    """Write a store by random transactions; what each of its pages has held before, by its
    number.
    """
    path.unlink(missing_ok=True)
    contents: dict[int, set[bytes]] = {}
    many = random.random() < 0.15  # more versions than one commit lists
    keys: list[int] = []
    with pagestore.open(
        path, page_size=PAGE, sync="off", retain="all" if many else random.choice([1, 2, 4])
    ) as store:
        commit = -1
        for step in range(90 if many else random.randrange(4, 30)):
            with suppress(ExistsError, RetainedError):  # of a tag or branch
                change(store, random, step, keys, 4 if many else 40)
            if store._handle.state.sequence != commit:
                commit = store._handle.state.sequence
                note(path, contents)
    data = path.read_bytes()
    for number, page in pages(data):
        contents[number] = (contents[number] | {bytes(PAGE)}) - {page}
        if number < FIRST_PAGE:  # closing the store changes a flag
            contents[number] = {
                old for old in contents[number] if commit_of(old) != commit_of(page)
            }
    return {number: contents[number] for number, _ in pages(data)}


def commit_of(slot: bytes) -> int:
    """Which commit a meta slot says."""
    meta = unpack(slot)
    return meta.sequence if isinstance(meta, Meta) else -1


def change(store: pagestore.Store, random: Random, step: int, keys: list[int], size: int) -> None:
    """One transaction, or one change of what belongs to the store itself."""
    kind = random.random() if step else 1
    if kind < 0.08:
        store.tag(f"tag {random.randrange(4)}")
    elif kind < 0.1 and store.tags:
        store.untag(random.choice([*store.tags]))
    elif kind < 0.14:
        store.vacuum(keep_versions=random.randrange(1, 4))
    elif kind < 0.18:
        name = f"side {random.randrange(2)}"
        store.delete_branch(name) if name in store.branches else store.branch(name)
    else:
        with store.transaction(branch=random.choice([*store.branches])) as txn:
            if "big" not in txn:
                create(txn)
            edit(txn, random, step, keys, size)
            if random.random() < 0.1:
                txn.rollback()


def create(txn: pagestore.Transaction) -> None:
    txn.create("big", "k: int64, v: int64", key="k", scans=SCANS)
    txn.create("one", "k: int64, v: int64", key="k")
    txn.create("note", "k: int64, t: string", key="k")
    txn.create("essay", "k: int64, t: string", key="k")
    txn.create_intervals("span", "a: int64, b: int64", ("a", "b"))


def edit(txn: pagestore.Transaction, random: Random, step: int, keys: list[int], size: int) -> None:
    """Random edits of some of the relations."""
    if random.random() < 0.7:
        fresh = [random.getrandbits(62) for _ in range(random.choice([1, size, 4 * size]))]
        keys += fresh
        txn["big"].insert([(key, random.getrandbits(50)) for key in fresh])
        txn["big"].delete([(random.choice(keys),) for _ in range(random.choice([0, 1, size]))])
    if random.random() < 0.5:
        txn["one"].set([(7, step), (random.randrange(60), 0)])
    if random.random() < 0.4:
        txn["note"].set([(random.randrange(30), f"{step} " * random.randrange(20))])
    if random.random() < 0.2:
        txn["essay"].set([(random.randrange(3), f"{random.getrandbits(40)} {step} " * 300)])
    if random.random() < 0.3:
        start = random.randrange(1000)
        txn["span"].insert([(start, start + random.randrange(300))])
    if random.random() < 0.1:
        txn.properties["step"] = f"{step} " * random.choice([1, 900])


def note(path: Path, contents: dict[int, set[bytes]]) -> None:
    """Remember what the pages hold at this moment."""
    for number, page in pages(path.read_bytes()):
        contents.setdefault(number, set()).add(page)


def pages(data: bytes) -> Iterator[tuple[int, bytes]]:
    for at in range(0, len(data), PAGE):
        yield at // PAGE, data[at : at + PAGE]


if __name__ == "__main__":
    for outcome, count in sorted(run(int(sys.argv[1]), int(sys.argv[2])).items()):
        print(f"{count:8,} {outcome}")
