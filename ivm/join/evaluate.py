"""Evaluate a plan in full, over flat tries or over pages, whichever costs less; threads take
ranges of values.
"""

from collections.abc import Sequence
from functools import partial
from itertools import chain, repeat
from math import inf
from operator import itemgetter
from typing import NamedTuple, TypeVar

import numpy as np

from ivm.join.flat import Flat, FlatJoin, Layout, flatten, is_flat_cheaper
from ivm.join.join import STOCK_MAX, Bindings, Holding, Join, Part, Run, by_sensor, concatenated
from ivm.join.kernels.tries import EQ
from ivm.join.plan_arrays import ALL, Sensors, Shape
from ivm.memory import Budget, Held, MemoryUse, Sink, within_memory
from pagestore.host import WORD_MAX, WORD_MIN, Pages, Tree, begins, read_batches, together

T = TypeVar("T")
RANGES_PER_THREAD = 8  # so that no thread waits long for another one's last range
# records of the smallest relation at level 0; with fewer, one thread does all
PARALLEL_FROM = 1 << 14


class Evaluation(NamedTuple):
    """The result of a full evaluation.

    `parts` hold all bindings in order, in batches, `recorded` the trace rows [C, m] of each sensor,
    also in batches; `operations` counts iterator operations, `met` int64[L] the values that each
    level had, if that is known.
    """

    parts: list[Bindings]
    recorded: list[list[Part]]
    operations: int
    met: np.ndarray = np.empty(0, np.int64)

    @property
    def bindings(self) -> np.ndarray:
        """All bindings int64[L + V, n] in one array."""
        return concatenated([part.rows for part in self.parts])


@within_memory("finding rows")
def evaluate(
    pages: Pages,
    shape: Shape,
    trees: Sequence[Tree],
    *,
    sensors: Sensors | None = None,
    granularity: int = 1,
    threads: int = 1,
    listed: frozenset[int] | None = None,
    budget: Budget | None = None,
    sink: Sink[Bindings] | None = None,
    trace_sink: Sink[list[Part]] | None = None,
) -> Evaluation:
    """Run a plan in full; threads take ranges of its first variable, since the kernels run without
    the GIL.

    `listed` are the levels whose values must be listed; None means all.  A `sink` takes those
    bindings that do not fit into memory, and a `trace_sink` trace rows.  Raises CorruptionError,
    RangeError, RoomError, and Stopped by a budget.
    """
    memory = MemoryUse(recording=sensors is not None).begin()
    budget = budget or Budget(inf, float)
    if sensors is None and _is_reading(shape):
        return _read(pages, shape, trees[0], listed, Holding(memory, budget, sink))
    flat = flatten(pages, shape, trees) if is_flat_cheaper(shape, trees) else None
    layout = Layout(flat, shape, sensors, listed, granularity) if flat else None
    ranges = (
        first_ranges(pages, shape, trees, RANGES_PER_THREAD * threads, flat)
        if threads > 1
        else [ALL]
    )

    def new() -> Run:
        join = (
            FlatJoin(layout)
            if layout
            else Join(pages, shape, trees, sensors=sensors, granularity=granularity)
        )
        join.memory, join.budget = memory, budget
        return join

    joins = [new() for _ in range(threads if len(ranges) > 1 else 1)]
    if len(joins) > 1:
        for join in joins:
            join.stock(STOCK_MAX)  # here, since pooled memory belongs to this thread
    held = [Holding(memory, budget, sink, trace_sink) for _ in joins]
    jobs = iter(ranges)

    def work(join: Run, held: Holding) -> list[tuple[int, np.ndarray]]:
        counts = []
        for first in jobs:
            ranged = join if first == ALL else join.over(first)
            ranged.gather(held, first)
            counts.append((ranged.operations, ranged.met))
        return counts

    counts = [*chain(*together([*map(partial, repeat(work), joins, held)]))]
    return Evaluation(
        _in_order([part.bindings for part in held]),
        by_sensor(_in_order([part.trace for part in held])),
        sum(operations for operations, _ in counts),
        np.sum([met for _, met in counts], axis=0),
    )


def _in_order(held: Sequence[Held[T]]) -> list[T]:
    """Return the batches that threads hold, in the order of their ranges."""
    batches = [batch for part in held for batch in part.batches]
    return [batch for _, batch in sorted(batches, key=itemgetter(0))]


def _is_reading(shape: Shape) -> bool:
    """Return whether the plan only reads one atom, in its index's order and without conditions."""
    (first, *others), levels = shape.argument_level, shape.levels
    return (
        not others
        and not len(shape.bounds)
        and not len(shape.absent)
        and [*first] == [*range(levels)]
    )


def _read(
    pages: Pages, shape: Shape, tree: Tree, listed: frozenset[int] | None, held: Holding
) -> Evaluation:
    """Read the bindings from one index: its records, or their distinct `levels` first columns."""
    levels, width = shape.levels, shape.levels + len(shape.reads)
    chosen = [level for level in range(levels) if listed is None or level in listed]
    columns = (*chosen, *shape.reads[:, 2].tolist())
    whole, last = levels >= tree.spec.keys, np.empty((0, 0), np.int64)
    for batch in read_batches(
        pages, tree, columns=(*columns,) if whole else (*range(levels), *columns[len(chosen) :])
    ):
        if not whole:  # adjacent records may have equal prefixes
            fresh = begins(batch[:levels])
            fresh[:1] &= not np.array_equal(last, batch[:levels, :1])
            last = batch[:levels, -1:].copy()
            rows = batch.compress(fresh, axis=1)
        elif len(columns) == width:
            rows = batch
        else:
            rows = np.zeros((width, batch.shape[1]), np.int64)
            rows[[*chosen, *range(levels, width)]] = batch
        held.add(ALL, Bindings(rows), [])
    parts = [part for _, part in held.bindings.batches]
    return Evaluation(parts or [Bindings(np.empty((width, 0), np.int64))], [], levels * tree.count)


def first_ranges(
    pages: Pages, shape: Shape, trees: Sequence[Tree], wanted: int, flat: Flat | None = None
) -> list[tuple[int, int]]:
    """Cut the first variable's values into some `wanted` ranges [lo, hi] of as many records."""
    held = shape.bounds[: shape.bound_start[1], 0]
    tries = shape.parts[: shape.part_start[1], 0].tolist()
    if (held == EQ).any() or not tries:
        return [ALL]
    smallest = min(tries, key=lambda t: trees[t].count)
    if trees[smallest].count < PARALLEL_FROM:
        return [ALL]
    if flat:
        cuts = flat.cuts(
            smallest * shape.argument_level.shape[1],
            wanted,
            single_depth=shape.depths[smallest] == 1,
        )
    else:
        keys = np.concatenate(
            [batch[0] for batch in read_batches(pages, trees[smallest], columns=(0,))]
        )
        cuts = keys[len(keys) * np.arange(1, wanted) // wanted]
    inner = [cut for cut in np.unique(cuts).tolist() if cut > WORD_MIN]  # no word is below WORD_MIN
    return list(zip([WORD_MIN, *inner], [*(cut - 1 for cut in inner), WORD_MAX], strict=True))
