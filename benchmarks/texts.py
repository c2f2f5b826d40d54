"""Benchmarks keys that are texts: scans in order, ranges, prefixes and look-ups, and what
nullable columns cost.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pagestore
from pagestore_tools.bench.harness import Row, Side, Work, installed

CALLS = 1_000
BATCH = 100_000
RANGE, PREFIX = 100, 1_000  # texts that a range and a prefix hold
DIGITS = 9  # of the number that a text begins with: its last three are those of one prefix
# a text has 3 to 31 letters of it after its number, as 12 to 40 bytes
FILLING = "abcdefghijklmnopqrstuvwxyz-/"


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield all rows of the benchmark, over relations with `size` records."""
    keys, numbers = texts(options.size), np.arange(options.size)
    with ExitStack() as held:
        store = held.enter_context(pagestore.open(folder / "texts.pages", sync="off", retain=2))
        with store.transaction() as txn:
            for mark in ("", "?"):
                relation = txn.create(f"ids{mark}", f"id: string, n: int64{mark}", key="id")
                relation.insert(pa.table({"id": keys, "n": numbers}))
        snapshot, pages = held.enter_context(store.snapshot()), store.stat().relations
        relations = {"pagestore": snapshot["ids"], "pagestore, nullable": snapshot["ids?"]}
        counts = [
            Side(side, partial(pages.__getitem__, relation.name))
            for side, relation in relations.items()
        ]
        yield Row("pages", counts, 1, "pages", told=True)
        others = [_Lmdb(folder / "lmdb", keys, held)] if installed("lmdb") else []
        for name, ours, theirs, row in _looks(keys):
            sides = [Side(side, partial(ours, relation)) for side, relation in relations.items()]
            yield Row(
                name, [*sides, *(Side("LMDB", partial(theirs, other)) for other in others)], **row
            )


def texts(size: int) -> pa.Array:
    """Return `size` distinct texts of 12 to 40 bytes, in order: a number, then letters."""
    numbers = pc.utf8_lpad(pa.array(np.arange(size)).cast(pa.string()), DIGITS, "0")
    tails = pa.array(
        [(FILLING * 2)[at : at + length] for at in range(28) for length in range(3, 32)]
    )
    chosen = np.random.default_rng(1).integers(0, len(tails), size)
    return pc.binary_join_element_wise(numbers, tails.take(pa.array(chosen)), "")


class _Lmdb:
    """A cursor of LMDB over the same texts, with their numbers as values."""

    def __init__(self, file: Path, keys: pa.Array, held: ExitStack) -> None:
        import lmdb

        other = held.enter_context(lmdb.open(str(file), map_size=1 << 34, sync=False))
        with other.begin(write=True) as txn:
            pairs = (
                (text.encode(), number.to_bytes(8, "big"))
                for number, text in enumerate(keys.to_pylist())
            )
            txn.cursor().putmulti(pairs, append=True)
        self.cursor: Any = held.enter_context(other.begin(buffers=True)).cursor()

    def walk(self, low: str, high: str) -> int:
        """Return how many texts there are from one up to another; each is taken as bytes."""
        there, end, count = self.cursor.set_range(low.encode()), high.encode(), 0
        while there and bytes(self.cursor.key()) < end:
            count, there = count + 1, self.cursor.next()
        return count

    def numbers(self, texts: list[str]) -> list[int]:
        return [int.from_bytes(self.cursor.get(text.encode()), "big") for text in texts]


def _looks(
    keys: pa.Array,
) -> Iterator[tuple[str, Callable[[Any], int], Callable[[_Lmdb], int], dict[str, Any]]]:
    """Yield looks at random places: a name, what a relation does, what LMDB does, and how often."""
    starts = np.random.default_rng(2).integers(0, len(keys) - RANGE, CALLS).tolist()
    ends = [(keys[at].as_py(), keys[at + RANGE].as_py()) for at in starts]
    begins = [f"{at // PREFIX:0{DIGITS - 3}}" for at in starts]
    some = [low for low, _ in ends]
    many = keys.take(pa.array(np.random.default_rng(3).integers(0, len(keys), BATCH)))
    each = {"rounds": 7, "unit": "µs", "scale": 1e6 / CALLS}
    yield (
        "scan in order to Arrow",
        lambda r: r.to_arrow().num_rows,
        lambda other: sum(1 for _ in other.cursor) if other.cursor.first() else 0,
        {"things": (len(keys), "texts")},
    )
    yield (
        f"range of {RANGE} texts",
        lambda r: sum(r.range((low,), (high,)).to_arrow().num_rows for low, high in ends),
        lambda other: sum(other.walk(low, high) for low, high in ends),
        each,
    )
    yield (
        f"prefix of {PREFIX:,} texts",
        lambda r: sum(r.starts_with(begin).to_arrow().num_rows for begin in begins),
        # after all of its texts
        lambda other: sum(other.walk(begin, f"{begin}~") for begin in begins),
        each,
    )
    yield (
        "get one by a text",
        lambda r: sum(r.get(text) for text in some),
        lambda other: sum(other.numbers(some)),
        each,
    )
    yield (
        "get by texts in a batch, each",
        lambda r: int(r.get_many([many])[0].sum()),
        lambda other: len(other.numbers(many.to_pylist())),
        each | {"scale": 1e6 / BATCH},
    )


TEXTS = Work("text bench", rows, 10_000_000, 1_000_000)
