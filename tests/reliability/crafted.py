"""Dumps and backups as a stranger may have made them: restored, or refused by a named error,
whatever they hold.

Good ones of tiny stores are taken apart into blocks, changed, and put together again with right
checksums, so that what is wrong is met behind them; or bytes are flipped and cut off. Many inputs
run in one child process, with bounded memory, so that the parent sees a signal and the input that
did it.

    python -m tests.reliability.crafted 1 100000
"""

import io
import os
import pickle
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import zstandard
from crc32c import crc32c

import pagestore
from pagestore.admin import backup, dump
from pagestore.admin.framing import BLOCK, MAGIC_SIZE, RAW
from pagestore.errors import PagestoreError

CHUNK = 4000  # inputs of a child process
SECONDS = 20  # that one input may take, also where others work beside
DATA = 1 << 30  # bytes of memory that a child may take beyond what its parent has
PAGE = 4096
WORDS = (
    -1,
    0,
    1,
    2,
    3,
    7,
    15,
    100,
    255,
    1 << 16,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 62,
    -(1 << 62),
    -(1 << 63),
)
FOLDER = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None


class Input(NamedTuple):
    """What is restored: a dump, or a backup and its increments."""

    kind: str
    how: str
    parts: list[bytes]


Goods = dict[str, list[list[bytes]]]  # by kind


def run(seed: int, amount: int) -> Counter:
    """Restore so many crafted inputs; counts what came of them.

    Raises AssertionError that names the seed, the index and a file with the first input whose
    outcome is wrong: a signal, more memory or time than allowed, an error of another kind,
    something left behind, a store that fsck complains of.
    """
    counts: Counter = Counter()
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        Path(folder, "goods").write_bytes(pickle.dumps(goods()))
        for first in range(0, amount, CHUNK):
            counts += _in_child(Path(folder), seed, first, min(CHUNK, amount - first))
    return counts


def _in_child(folder: Path, seed: int, first: int, amount: int) -> Counter:
    """Run some inputs in a process of their own, which has no more memory than it needs."""
    words = [sys.executable, "-m", "tests.reliability.crafted", "in", folder, seed, first, amount]
    done = subprocess.run([*map(str, words)], cwd=Path(__file__).parents[2], capture_output=True)
    if done.returncode:
        index, crafted = pickle.loads((folder / "input").read_bytes())
        kept = Path(tempfile.gettempdir(), f"crafted-{seed}-{index}")
        kept.write_bytes(pickle.dumps(crafted))
        how = f"signal {-done.returncode}" if done.returncode < 0 else done.stderr.decode()
        raise AssertionError(
            f"seed {seed}, input {index}, a {crafted.kind} with {crafted.how} (in {kept}): {how}"
        )
    return pickle.loads(done.stdout)


def _child(folder: Path, seed: int, first: int, amount: int) -> Counter:
    """Run inputs one after the other; the one under way is in a file."""
    held = int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) << 10
    # maps of files are not memory
    resource.setrlimit(resource.RLIMIT_DATA, (held + DATA, held + DATA))
    # fsck looks at every page that a store says it has
    backup.SPAN_MIN, backup.SPAN = 1 << 16, 1 << 8
    goods_ = pickle.loads((folder / "goods").read_bytes())
    counts: Counter = Counter()
    with tempfile.TemporaryDirectory(dir=folder) as inner, Targets(Path(inner)) as targets:
        for index in range(first, first + amount):
            crafted = craft(goods_, seed, index)
            (folder / "input").write_bytes(pickle.dumps((index, crafted)))
            signal.alarm(SECONDS)
            counts[f"{crafted.kind}: {targets.restore(crafted)}"] += 1
    return counts


# --- what came of it ----------------------------------------------------------------------------


class Targets:
    """Stores to restore into; an empty one is used again as long as it stays empty."""

    def __init__(self, folder: Path):
        self.folder, self.number = folder / "stores", 0
        self.folder.mkdir()

    def __enter__(self) -> "Targets":
        self.store = self._empty()
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()

    def restore(self, crafted: Input, good: bool = False) -> str:
        """Restore an input and look at what is there: "restored", or the name of the error,
        which no good one gives.
        """
        restored = (
            self._dump(*crafted.parts) if crafted.kind == "dump" else self._backup(crafted.parts)
        )
        assert not good or restored == "restored"
        return restored

    def _empty(self) -> pagestore.Store:
        self.number += 1
        return pagestore.open(self.folder / f"{self.number}", page_size=PAGE, sync="off")

    def _dump(self, data: bytes) -> str:
        try:
            self.store.restore(io.BytesIO(data))
        except PagestoreError as error:
            assert self.store.version == 0, (
                f"a dump that was refused left a version behind: {error}"
            )
            assert self.store.check() == []
            return type(error).__name__
        assert self.store.check() == []
        for info in self.store.history():
            with self.store.at(info.version) as snapshot:
                _look_at(snapshot)
        _write_to(self.store)
        self.store.close()
        self.store.path.unlink()
        self.store = self._empty()
        return "restored"

    def _backup(self, parts: list[bytes]) -> str:
        path = self.folder / "backup"
        before = sorted(self.folder.iterdir())
        try:
            backup.restore_backup(path, [*map(io.BytesIO, parts)])
        except PagestoreError as error:
            assert sorted(self.folder.iterdir()) == before, (
                f"a backup that was refused left a file behind: {error}"
            )
            return type(error).__name__
        with pagestore.open(path, sync="off") as store:
            assert store.check() == [] and store.recovery is None
            readable = True
            with store.snapshot() as snapshot:
                try:
                    _look_at(snapshot)
                except PagestoreError:  # texts are looked at when they are read
                    readable = False
            if readable:
                _write_to(store)
        path.unlink()
        return "restored" if readable else "restored, a text does not read"


def _look_at(snapshot: pagestore.Snapshot) -> None:
    """Read all there is, as users would."""
    for name, info in snapshot._version.catalog.relations.items():
        count = sum(batch.shape[1] for batch in snapshot[name].words())
        assert count == snapshot.tree(name).count
        if info.schema:
            relation = snapshot[name]
            assert len(list(relation)) == len(relation) == count
            for scan in relation.scans:
                relation.scan(scan)
    assert all(isinstance(value, str | bytes) for value in snapshot.properties.values())


def _write_to(store: pagestore.Store) -> None:
    """Commit something, which takes free pages, trees and texts."""
    with store.transaction() as txn:
        for name in [*txn]:
            txn[name].delete([row for row, _ in zip(txn[name], range(3), strict=False)])
        if "a new one" not in txn:
            txn.create("a new one", "k: int64, s: string", key="k").insert(
                [(n, f"new {n}") for n in range(300)]
            )
    assert store.check() == []


# --- good ones ----------------------------------------------------------------------------------


@cache
def goods() -> Goods:
    """Dumps, and backups with their increments, of small stores."""
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        path = Path(folder, "good")
        with pagestore.open(path, page_size=PAGE, sync="off", retain="all") as store:
            dumps, backups = [_dumped(store, [])], [[_backed_up(store)]]
            for n in range(4):
                with store.transaction(message=f"edit {n}") as txn:
                    _edit(txn, n)
                dumps.append(_dumped(store, None))
                backups += [[_backed_up(store)], [*backups[-1], _backed_up(store, n)]]
            store.tag("two", 2)
            dumps += [_dumped(store, [1, 2, 4]), _dumped(store, None, ["item"])]
            chosen = {
                "dump": [[data] for data in dumps],
                "backup": [parts for parts in backups if len(parts) < 4],
            }
        with Targets(Path(folder)) as targets:
            for kind, inputs in chosen.items():
                for parts in inputs:
                    targets.restore(Input(kind, "as it is", parts), good=True)
        return chosen


def _edit(txn: pagestore.Transaction, n: int) -> None:
    """What is in a store: every type, scans, intervals, long texts, hidden words, properties."""
    rng = np.random.default_rng(n)
    if not n:
        txn.create("edge", "x: int64, y: int64", scans=["count", "sum:y", "checksum"])
        txn.create(
            "item",
            "name: string, price: decimal(9,2), blob: bytes",
            key="name",
            scans=["max:price"],
        )
        txn.create("event", "at: timestamp, day: date, on: bool, v: float64", key=["at", "day"])
        txn.create_intervals("booked", "room: int64, a: int64, b: int64", ("a", "b"))
        txn.create_words("$hidden", 2, 1)
    txn["edge"].insert(list(rng.integers(0, 60, (2, 700 if n == 1 else 30))))
    txn["item"].set(
        [
            (f"name {n} {i}" * (120 if i == 3 else 1), Decimal(i), bytes([200, i, n]))
            for i in range(5)
        ]
    )
    txn["event"].insert(
        [(datetime(2000 + n, 1, 1 + i), date(1999, 1, 1 + i), bool(i % 2), i / 3) for i in range(6)]
    )
    txn["booked"].insert([(i % 3, 10 * i + n, 10 * i + 25) for i in range(20)])
    ids = txn.encode("string", [f"hidden {n}"])
    txn.apply("$hidden", np.array([0]), np.array([ids, [n], [n]]))
    txn.properties["n"] = str(n) if n % 2 else bytes([255, n])


def _dumped(store: pagestore.Store, *what: object) -> bytes:
    out = io.BytesIO()
    store.dump(out, *what)
    return out.getvalue()


def _backed_up(store: pagestore.Store, since: int | None = None) -> bytes:
    out = io.BytesIO()
    store.backup(out, since)
    return out.getvalue()


# --- crafted ones -------------------------------------------------------------------------------


Blocks = list[tuple[bytes, bytes]]


def craft(goods: Goods, seed: int, index: int) -> Input:
    """One input of good ones, by its seed and index."""
    rng = random.Random(seed * 1_000_003 + index)
    kind = rng.choice(("dump", "backup"))
    parts = list(rng.choice(goods[kind]))
    which = rng.randrange(len(parts))
    change = rng.choice((_bytes_changed, _cut, *[_blocks_changed] * 6, _other))
    if change is _other:  # a part of another backup, or of none
        others = rng.choice(goods[rng.choice((kind, kind, "dump", "backup"))])
        parts[which] = rng.choice(others)
        if kind == "backup":
            rng.shuffle(parts)
    else:
        parts[which] = change(parts[which], rng)
    return Input(kind, change.__name__.strip("_"), parts)


def _bytes_changed(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))] + rng.randbytes(rng.choice((0, 0, 0, 30)))


def _other(data: bytes, rng: random.Random) -> bytes:
    raise NotImplementedError


def _blocks_changed(data: bytes, rng: random.Random) -> bytes:
    """Blocks changed, doubled, dropped, in another order, their headers right."""
    magic, blocks = data[:MAGIC_SIZE], apart(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        how = rng.randrange(10)
        i, j = rng.randrange(len(blocks)), rng.randrange(len(blocks))
        kind, content = blocks[i]
        if how == 0:
            del blocks[i : i + 1 if len(blocks) > 1 else i]
        elif how == 1:
            blocks.insert(j, (kind, content))
        elif how == 2:
            blocks[i], blocks[j] = blocks[j], blocks[i]
        elif how == 3:
            blocks[i] = rng.choice((dump.KINDS, backup.KINDS))[rng.randrange(3)], content
        else:
            changes = _CHANGES.get(kind, (_word,))
            blocks[i] = kind, changes[how % len(changes)](content, rng)
    return together(magic, blocks, rng)


def apart(data: bytes) -> Blocks:
    """The blocks of a dump or backup: kind and content."""
    at, blocks = MAGIC_SIZE, []
    while at < len(data):
        kind, _, length, _ = BLOCK.unpack_from(data, at)
        packed = data[at + BLOCK.size : at + BLOCK.size + length]
        blocks.append((kind, packed if kind in RAW else zstandard.decompress(packed)))
        at += BLOCK.size + length
    return blocks


def together(magic: bytes, blocks: Blocks, rng: random.Random | None = None) -> bytes:
    """The bytes of blocks; now and then a header says something else, its checksum still being
    right.
    """
    out, wrong = [magic], rng.randrange(12 * len(blocks)) if rng else -1
    for i, (kind, content) in enumerate(blocks):
        packed = content if kind in RAW else zstandard.compress(content)
        lengths = [len(packed), len(content)]
        if rng and i == wrong:
            if rng.randrange(2):
                lengths[rng.randrange(2)] = rng.choice(WORDS) & (1 << 64) - 1
            else:  # a frame that says another size, or none, or goes on
                packed = rng.choice(
                    (_streamed(content), packed + packed, packed + b"x", packed[:-1])
                )
                lengths[0] = len(packed)
        out += [BLOCK.pack(kind, crc32c(packed), *lengths), packed]
    return b"".join(out)


def _streamed(content: bytes) -> bytes:
    """A frame that does not say how much it holds."""
    packer = zstandard.ZstdCompressor().compressobj()
    return packer.compress(content) + packer.flush()


def _word(content: bytes, rng: random.Random) -> bytes:
    """One word of a record is another."""
    if len(content) < 8:
        return rng.randbytes(8)
    out = bytearray(content)
    at = 8 * rng.randrange(len(content) // 8)
    (word,) = struct.unpack_from("<q", out, at)
    near = rng.choice((word + 1, word - 1, word ^ 1 << rng.randrange(63), *rng.sample(WORDS, 3)))
    struct.pack_into("<Q", out, at, near & (1 << 64) - 1)
    return bytes(out)


def _length(content: bytes, rng: random.Random) -> bytes:
    longer = content + rng.randbytes(rng.choice((1, 8, 80)))
    return rng.choice((content[: rng.randrange(len(content) + 1)], longer, b""))


def _flipped(content: bytes, rng: random.Random) -> bytes:
    return _bytes_changed(content, rng) if content else b"x"


def _batch(content: bytes, rng: random.Random) -> bytes:
    """An Arrow stream of rows that are other ones, or not rows of words at all."""
    try:
        table = pa.ipc.open_stream(content).read_all()
        columns = [column.combine_chunks() for column in table.columns]
    except (pa.ArrowException, OSError, ValueError):  # the block was changed before
        return content
    names, n = table.column_names, table.num_rows
    how, place = rng.randrange(11), rng.randrange(len(columns))
    options = None
    if how == 0:
        columns, names = columns[:place] + columns[place + 1 :], names[:place] + names[place + 1 :]
    elif how == 1:
        columns, names = [*columns, columns[place]], [*names, f"c{len(names)}"]
    elif how == 2:
        columns = [column.take(pa.array([*range(n)][::-1], pa.int64())) for column in columns]
    elif how == 3:
        columns = [pa.concat_arrays([column, column]) for column in columns]
    elif how == 4:
        columns[place] = columns[place].cast(pa.string() if n < 1 else columns[place].type)
        names[place] = "another"
    elif how == 5 and n:
        columns[place] = pa.array([None, *columns[place][1:].to_pylist()], columns[place].type)
    elif how == 6:
        columns = [column[: rng.randrange(n + 1)] for column in columns]
    elif how == 7:
        options = pa.ipc.IpcWriteOptions(compression=rng.choice(("zstd", "lz4")))
    elif n and columns[place].type == pa.int64() and not columns[place].null_count:
        values = columns[place].to_numpy().copy()
        values[rng.randrange(n)] = rng.choice((*WORDS, 5))
        columns[place] = pa.array(values)
    elif n and columns[place].type == pa.large_binary() and not columns[place].null_count:
        columns[place] = _other_texts(columns[place], rng)
    if not columns or len({len(column) for column in columns}) > 1:
        return content
    batch, sink = pa.RecordBatch.from_arrays(columns, names), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        for _ in range(rng.choice((1, 1, 1, 1, 0, 2))):
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def _other_texts(texts: pa.Array, rng: random.Random) -> pa.Array:
    values = texts.to_pylist()
    values[rng.randrange(len(values))] = rng.choice((b"", b"\xff\xfe", values[0], b"x" * 5000))
    return pa.array(values, pa.large_binary())


def _pages(content: bytes, rng: random.Random) -> bytes:
    """Pages with other ids or words, most of them with right checksums."""
    if len(content) < 8:
        return content
    (n,) = struct.unpack_from("<q", content)
    if not 0 < n < 1000 or len(content) != 8 + n * (8 + PAGE):
        return _word(content, rng)
    words = np.frombuffer(content, np.int64).copy()
    ids, pages = words[1 : 1 + n], words[1 + n :].reshape(n, -1)
    i, how = rng.randrange(n), rng.randrange(12)
    if how == 0:
        ids[i] = rng.choice((*WORDS, int(ids[i]) + 1, 5000, 1 << 20))
    elif how == 1:
        j = rng.randrange(n)
        pages[[i, j]] = pages[[j, i]]
    else:
        page = pages[i]
        used = np.flatnonzero(page)
        at = int(rng.choice(used)) if rng.randrange(4) else rng.randrange(1, len(page))
        near = (int(page[at]) + 1, int(page[at]) ^ 1 << rng.randrange(63), *rng.sample(WORDS, 2))
        page[at] = np.uint64(rng.choice(near) & (1 << 64) - 1).astype(np.int64)
        if how == 2:
            page[1] = ids[i]
    if how != 3:
        for page_id, page in zip(ids.tolist(), pages, strict=True):
            page[1] = page_id if rng.randrange(50) else page[1]
            page[0] = crc32c(page[1:].tobytes())
    return words.tobytes()


_CHANGES = {
    b"TEXT": (_batch, _word, _flipped, _batch, _length),
    b"ROWS": (_batch, _word, _flipped, _batch, _batch),
    b"PAGE": (_pages, _pages, _pages, _pages, _length, _pages),
    b"HEAD": (_word, _word, _length),
    b"VERS": (_word, _word, _flipped, _word, _length),
    b"TREE": (_word, _flipped, _length),
}


def main() -> None:
    if sys.argv[1] == "in":
        sys.stdout.buffer.write(pickle.dumps(_child(Path(sys.argv[2]), *map(int, sys.argv[3:]))))
    else:
        for outcome, count in sorted(run(*map(int, sys.argv[1:])).items()):
            print(f"{count:8} {outcome}")


if __name__ == "__main__":
    from tests.reliability import crafted  # what is pickled is known by the module's own name

    crafted.main()
