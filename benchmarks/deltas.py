"""What edits and differences of trees take, counted in pages: aggregates over sizes of a group,
delta iterators over sizes of a change, and what cascading trees would save.

The paper plans *cascading trees* and says what they cost: O(δ B^(-1/2) log δ) pages for δ changes
and B records a page. Here they are simulated as a tree of fan-out √B whose inner pages hold changes
until there are too many, which then move one level down together:

    root            [.. changes ..]        a commit writes the root, and what overflows below it
    √B children     [.. changes ..] ...
    leaves          [.. records ..] ...
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from math import ceil, isqrt, log, log2
from pathlib import Path

import numpy as np

import pagestore
from benchmarks.picture import Picture, Spread, spread
from pagestore.host import ERASE, Delta, Spec, bulk
from pagestore.tooling import apply
from pagestore_tools.bench.graphs import changes, skewed
from pagestore_tools.bench.harness import workspace_with
from pagestore_tools.bench.meter import Meter

TIMES = 10  # that a row goes and comes back
PAGE = 400  # records of a leaf, about as many as an edge's tree has
AGGREGATES = {  # over rows with a key, a text and a float
    "count": ("count()", "r[_] = (_, _)"),
    "sum": ("sum(y)", "r[y] = (_, _)"),
    "total": ("total(w)", "r[_] = (_, w)"),
    "min": ("min(y)", "r[y] = (_, _)"),
    "median": ("median(y)", "r[y] = (_, _)"),
    "count_distinct": ("count_distinct(t)", "r[_] = (t, _)"),
    "concat": ('concat(t, y, " ")', "r[y] = (t, _)"),
}
BATCHES = 1, 10, 100, 1_000  # changes of a transaction
REPLACED = 20  # batches of the largest size that are recorded


def of_aggregate(kind: str, n: int, folder: Path) -> Spread:
    """Return the pages that a transaction reads and writes which deletes the least row of a group
    of n, or inserts it again.
    """
    declared = "r[y] = (t, w) -> int(y), string(t), float(w)."
    facts = {"r": [np.arange(n), [f"t{y % 100}" for y in range(n)], 1 / (1 + np.arange(n))]}
    operation, atom = AGGREGATES[kind]
    found = list[int]()
    with workspace_with(folder / f"{kind}-{n}", declared, facts) as workspace:
        workspace.install(f"v[] = a <- agg<<a = {operation}>> {atom}.", "rule")
        for turn in range(2 * TIMES):
            y = turn // 2 % 3
            with Meter(workspace.store) as meter, workspace.transaction() as txn:
                (txn.insert if turn % 2 else txn.delete)("r", [(y, f"t{y}", 1 / (1 + y))])
            found.append(meter.counts["pages read"] + meter.counts["pages written"])
    return spread(found[2:])  # the first also does what installing left to do


def draw_aggregates(sizes: Sequence[int], folder: Path) -> str:
    """Return the picture of pages of an edit against the size of the group."""
    lines = {kind: [of_aggregate(kind, n, folder) for n in sizes] for kind in AGGREGATES}
    print("\n| pages of an edit | " + " | ".join(f"{n:,}" for n in sizes) + " |")
    print("|---|" + "---|" * len(sizes))
    for kind, line in lines.items():
        print(f"| {kind} | {' | '.join(f'{one.middle:.0f}' for one in line)} |")
    return GROUPS.drawn(sizes, lines)


def pages_compared(n: int, delta: int, scattered: bool) -> int:
    """Return the pages that a delta iterator reads of two versions of a tree of n records, of which
    `delta` went: every so many, or neighbours.
    """
    with pagestore.open(":memory:") as store:
        txn, spec = store.transaction(), Spec(90, 2, 0)
        keys = np.arange(n)
        old = bulk(
            txn.pager,
            spec,
            np.array_split(np.stack([keys, keys]), range(1 << 18, n, 1 << 18), axis=1),
        )
        gone = keys[:: n // delta][:delta] if scattered else keys[n // 3 :][:delta]
        new, *_ = apply(txn.pager, old, np.full(delta, ERASE), np.stack([gone, gone]))
        walk = Delta(txn.pages, old, new)
        assert sum(len(actions) for actions, _ in walk) == delta
        txn.rollback()
    return walk.pages_read


def draw_deltas(sizes: Sequence[int]) -> str:
    """Return the picture of pages that delta iterators read against the size of the change."""
    points = {
        f"{n:,} records, {'scattered' if scattered else 'neighbours'}": [
            (delta, pages_compared(n, delta, scattered))
            for delta in (k * 10**power for power in range(5) for k in (1, 3))
            if delta <= n // 10
        ]
        for n in sizes
        for scattered in (True, False)
    }
    least = log2(sizes[0])
    return DELTAS.scattered(
        points, {f"δ log₂ n, for n = {sizes[0]:,}": lambda delta: delta * least}
    )


class BTree:
    """Counts the pages that commits write of a B-tree over n records."""

    def __init__(self, n: int, page: int = PAGE) -> None:
        self.leaves = max(1, n // page)
        self._page, self.height = page, 1 + ceil(log(self.leaves, page)) if self.leaves > 1 else 1

    def commit(self, places: Iterable[float]) -> int:
        """Write changes at places from 0 to before 1 of the order of keys; return the pages."""
        written, level = 0, {int(place * self.leaves) for place in places}
        for _ in range(self.height):
            written += len(level)
            level = {page // self._page for page in level}
        return written


class CascadingTree:
    """Counts the pages that commits write of a cascading tree over n records."""

    def __init__(self, n: int, page: int = PAGE) -> None:
        self.leaves, self._fan, self._room = max(1, n // page), isqrt(page), page
        self.height = 1 + ceil(log(self.leaves, self._fan)) if self.leaves > 1 else 1
        self._waiting = defaultdict[tuple[int, int], list[float]](list)  # by level and page

    def commit(self, places: Iterable[float]) -> int:
        """Write changes; return the pages."""
        written = {(self.height - 1, 0)}
        self._waiting[self.height - 1, 0] += places
        self._overflow(self.height - 1, 0, written)
        return len(written)

    def _overflow(self, level: int, page: int, written: set[tuple[int, int]]) -> None:
        """Move changes down while there are too many for a page, those of the fullest child."""
        here = self._waiting[level, page]
        while level and len(here) > self._room:
            ((child, _),) = Counter(self._child(level, place) for place in here).most_common(1)
            moved = [place for place in here if self._child(level, place) == child]
            here[:] = [place for place in here if self._child(level, place) != child]
            written.add((level - 1, child))
            if level > 1:
                self._waiting[level - 1, child] += moved
                self._overflow(level - 1, child, written)

    def _child(self, level: int, place: float) -> int:
        return int(place * self.leaves) // self._fan ** (level - 1)


def recorded(edges: np.ndarray) -> np.ndarray:
    """Return where changes fall in the order of an edge's tree, from 0 to 1: those of `ivm bench`,
    which replaces edges of a skewed graph.
    """
    words = np.sort(edges[0].astype(np.int64) << 32 | edges[1])
    found = [np.concatenate(pair, axis=1) for pair in islice(changes(edges, BATCHES[-1]), REPLACED)]
    rows = np.concatenate(found, axis=1).astype(np.int64)
    rows = rows[:, np.random.default_rng(5).permutation(rows.shape[1])]
    return np.searchsorted(words, rows[0] << 32 | rows[1]) / (len(words) + 1)


def cascade(n: int, places: np.ndarray, batch: int) -> tuple[float, float]:
    """Return the pages that a transaction of so many changes writes of a B-tree over n records,
    and of a cascading tree; of the first half of the changes they are not counted.
    """
    trees, written = (BTree(n), CascadingTree(n)), np.zeros(2)
    some = np.split(places, range(batch, len(places), batch))
    for number, one in enumerate(some):
        pages = [tree.commit(one.tolist()) for tree in trees]
        written += pages if 2 * number >= len(some) else 0
    plain, cascading = written / (len(some) - len(some) // 2)
    return float(plain), float(cascading)


def print_cascades(n: int) -> None:
    """Print what cascading trees would save of the transactions of `ivm bench`, and cost."""
    places, plain, cascading = recorded(skewed(n)), BTree(n), CascadingTree(n)
    heights = f"{plain.height} pages, of a cascading tree {cascading.height}"
    print(f"\n{n:,} edges: a look-up reads {heights}\n")
    print("| changed rows | pages written, B-tree | cascading | ratio |\n|---|---|---|---|")
    for batch in BATCHES:
        ours, theirs = cascade(n, places, batch)
        print(f"| {batch:,} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.1f} |")


GROUPS = Picture(
    "One row of a group goes or comes back", "rows of the group",
    "pages read and written by the transaction; median and quartiles",
)  # fmt: skip
DELTAS = Picture(
    "What differs between two versions of a tree",
    "changed records δ",
    "pages read by the delta iterator",
)
