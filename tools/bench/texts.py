"""Benchmarks keys that are texts: scans in order, ranges, prefixes and look-ups, and what nullable columns cost.

python -m pagestore_tools.bench texts --quick
"""

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pagestore

from .harness import Row, Side, Work

CALLS = 1_000
BATCH = 100_000
RANGE, PREFIX = 100, 1_000  # texts that a range and a prefix hold
DIGITS = 9  # of the number that a text begins with: its last three are those of one prefix
FILLING = "abcdefghijklmnopqrstuvwxyz-/"  # a text has 3 to 31 letters of it after its number, as 12 to 40 bytes


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield all rows of the benchmark, over relations with `size` records."""
    size = options.size
    keys, numbers, relations = texts(size), np.arange(size), {}
    with ExitStack() as held:
        store = held.enter_context(pagestore.open(folder / "texts.pages", sync="off", retain=2))
        for mark in ("", "?"):
            with store.transaction() as txn:
                relation = txn.create(f"ids{mark}", f"id: string, n: int64{mark}", key="id")
                relation.insert(pa.table({"id": keys, "n": numbers}))
        for side, name in (("pagestore", "ids"), ("pagestore, nullable", "ids?")):
            relations[side] = held.enter_context(store.snapshot())[name]
        other, pages = _lmdb(folder, keys, held), store.stat().relations
        counts = [Side(name, partial(pages.__getitem__, relation.name)) for name, relation in relations.items()]
        yield Row("pages", counts, 1, "pages", told=True)
        sides = [Side(name, lambda r=relation: r.to_arrow().num_rows) for name, relation in relations.items()]  # type: ignore[misc]
        walk = Side("LMDB", lambda: sum(1 for _ in other) if other.first() else 0)
        yield Row("scan in order to Arrow", [*sides, *[walk] * bool(other)], 5, things=(size, "texts"))
        for name, ours, theirs, calls in _looks(other, keys):
            sides = [Side(side, partial(ours, relation)) for side, relation in relations.items()]
            yield Row(name, [*sides, *[Side("LMDB", theirs)] * bool(other)], 7, "µs", 1e6 / calls)


def texts(size: int) -> pa.Array:
    """Return `size` distinct texts of 12 to 40 bytes, in order: a number, then letters."""
    numbers = pc.utf8_lpad(pa.array(np.arange(size)).cast(pa.string()), DIGITS, "0")
    tails = pa.array([(FILLING * 2)[at : at + length] for at in range(28) for length in range(3, 32)])
    chosen = np.random.default_rng(1).integers(0, len(tails), size)
    return pc.binary_join_element_wise(numbers, tails.take(pa.array(chosen)), "")


def _lmdb(folder: Path, keys: pa.Array, held: ExitStack) -> Any:
    """Return a cursor of LMDB over the same texts; None where it is not installed."""
    if importlib.util.find_spec("lmdb") is None:
        return None
    import lmdb

    other = held.enter_context(lmdb.open(str(folder / "lmdb"), map_size=1 << 34, sync=False))
    with other.begin(write=True) as txn:
        pairs = ((text.encode(), number.to_bytes(8, "big")) for number, text in enumerate(keys.to_pylist()))
        txn.cursor().putmulti(pairs, append=True)
    return held.enter_context(other.begin(buffers=True)).cursor()


def _looks(other: Any, keys: pa.Array) -> Iterator[tuple[str, Callable[..., int], Callable[[], int], int]]:
    """Yield looks at random places: a name, what a relation does, what LMDB does, how often."""
    starts = np.random.default_rng(2).integers(0, len(keys) - RANGE, CALLS).tolist()
    ends = [(keys[at].as_py(), keys[at + RANGE].as_py()) for at in starts]
    begins = [f"{at // PREFIX:0{DIGITS - 3}}" for at in starts]
    some = [keys[at].as_py() for at in starts]
    many = keys.take(pa.array(np.random.default_rng(3).integers(0, len(keys), BATCH)))

    def walked(low: str, ends: Callable[[bytes], bool]) -> int:
        """Return how many texts the cursor passes from one on until one is after the end; each is taken as bytes."""
        there, count = other.set_range(low.encode()), 0
        while there and not ends(bytes(other.key())):
            count, there = count + 1, other.next()
        return count

    def found(texts: list[str]) -> list[int]:
        return [int.from_bytes(other.get(text.encode()), "big") for text in texts]

    yield (
        f"range of {RANGE} texts",
        lambda r: sum(r.range((low,), (high,)).to_arrow().num_rows for low, high in ends),
        lambda: sum(walked(low, high.encode().__le__) for low, high in ends),
        CALLS,
    )
    yield (
        f"prefix of {PREFIX:,} texts",
        lambda r: sum(r.starts_with(begin).to_arrow().num_rows for begin in begins),
        lambda: sum(walked(begin, f"{begin}~".encode().__le__) for begin in begins),  # after all of its texts
        CALLS,
    )
    yield "get one by a text", lambda r: sum(r.get(text) for text in some), lambda: sum(found(some)), CALLS
    yield (
        "get by texts in a batch, each",
        lambda r: int(r.get_many([many])[0].sum()),
        lambda: len(found(many.to_pylist())),
        BATCH,
    )


TEXTS = Work("text bench", rows, 10_000_000, 1_000_000)
