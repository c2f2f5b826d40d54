"""Run a plan over the pages of trees: bindings and trace rows, batch by batch (*Leapfrog
Triejoin*).

The join does not depend on how trace rows are used.  The change oracle, if any, is one more trie;
without it the join returns every binding of the body.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from math import inf, prod
from typing import NamedTuple, Self

import numpy as np

from ivm.join import plan_arrays
from ivm.join.kernels import leapfrog as kernel
from ivm.join.kernels import tries
from ivm.memory import Budget, Held, MemoryUse, Sink, _allowed, within_memory
from pagestore.compiled import Table, Tables, TypedKernel, Words, raise_for
from pagestore.host import Coded, Coding, Pages, Tree, columns_of, pooled

BATCH = 1 << 16
TRACED = 1 << 14  # trace rows of a batch: they are copied out, and the buffer stays in the cache
STOCK_MAX = 16  # the most batches whose memory is allocated at once
STOCK_SHARE = 4  # these take at most one in so many of the bytes that the user allows
BATCH_MIN = 1 << 8  # rows of a batch in any case
STRIDE = 1 << 20  # operations between two checks of the budget, and for signals: some 10 ms

LEAPFROG = TypedKernel(kernel.leapfrog, Pages, Words, Words, Table, Words, Table, Tables, Table)


Range = tuple[int, int]  # the values lo to hi, inclusive, of a first variable
Part = np.ndarray | Coded  # trace rows [C, n] of a sensor


class Bindings(NamedTuple):
    """Bindings int64[L + V, n] in order.

    With `times` int64[n], binding i represents times[i] bindings that differ only in levels that
    were not requested.
    """

    rows: np.ndarray
    times: np.ndarray | None = None


class Holding:
    """The bindings, and the trace rows of each sensor, that one thread of an evaluation holds."""

    def __init__(
        self,
        memory: MemoryUse,
        budget: Budget,
        sink: Sink[Bindings] | None = None,
        trace_sink: Sink[list[Part]] | None = None,
    ) -> None:
        self.bindings = Held(memory, budget, sink, _no_bindings)
        self.trace = Held(memory, budget, trace_sink, lambda parts: [*map(_none_of, parts)])

    def add(self, first: Range, bindings: Bindings, trace: list[Part]) -> None:
        """Hold a batch of a range.  Raises RoomError, and Stopped."""
        rows, times = bindings
        size = rows.nbytes + (0 if times is None else times.nbytes)
        self.bindings.add(first, bindings, rows.shape[1], size)
        self.trace.add(first, trace, 0, sum(part.nbytes for part in trace))


def by_sensor(batches: Iterable[list[Part]]) -> list[list[Part]]:
    """Return the parts of each sensor in all batches."""
    return [[*parts] for parts in zip(*batches, strict=True)]


class Run(ABC):
    """A resumable run of a kernel.  Iterating gives (bindings int64[L + V, n], trace rows [C, n] by
    sensor).

    `operations` counts the iterator operations so far; `times`, unless empty, has one array per
    batch so far: how many bindings each binding represents. Rows of a sensor that has a coding are
    words and, where it has a tail, tails. Raises CorruptionError.
    """

    def __init__(
        self,
        shape: plan_arrays.Shape,
        sensors: plan_arrays.Sensors | None,
        granularity: int,
        covered: bool,
        batch: int,
        room: int,
    ) -> None:
        sensors = sensors or shape.no_sensors
        self._arguments = shape, sensors, granularity
        self._plan = plan_arrays.plan_array(shape, sensors, granularity)
        self._fresh = plan_arrays.state_array(shape, sensors, covered).copy()
        self._state = self._fresh.copy()
        self._widths, sources = sensors.widths, sensors.sources.shape
        self._size = (
            shape.levels + len(shape.reads),
            _fitting(batch, shape.levels + len(shape.reads)),
        )
        self._stock: list[np.ndarray] = []
        self._stocked = 0
        self._out, self._rows = (
            self._buffer(),
            np.empty((*sources, _fitting(min(batch, TRACED), prod(sources)) + room), np.int64),
        )
        self._codings: Sequence[Coding | None] = [None] * len(self._widths)
        self.times: list[np.ndarray] = []
        self.memory, self.budget = MemoryUse(), Budget(inf, float)

    def stock(self, buffers: int) -> None:
        """Allocate that many batches of bindings, as one block, since the system backs large
        blocks by large pages.
        """
        self._stock = list(pooled(buffers, *self._size))
        self._stocked += buffers

    def over(self, first: Range) -> Self:
        """Restart with the first variable within `first`, inclusive.  Cached slices stay cached."""
        shape, sensors, granularity = self._arguments
        self._plan = plan_arrays.plan_array(shape.ranged, sensors, granularity).copy()
        at = self._plan[tries.BOUNDS] + tries.CONSTANT
        self._plan[[at, at + tries.BOUND_WORDS]] = first
        self._state = self._fresh.copy()
        self.times = []
        return self

    @abstractmethod
    def _advance(self) -> None:
        """Run until done, a buffer is full, or some millions of operations are done."""

    @property
    def operations(self) -> int:
        """Iterator operations so far: opens, seeks and nexts."""
        return int(self._state[[tries.OPENS, tries.SEEKS, tries.NEXTS]].sum())

    @property
    def met(self) -> np.ndarray:
        """How many values each level had so far, int64[L]."""
        return self._state[self._state[tries.VALUES_MET] :][
            : self._size[0] - len(self._arguments[0].reads)
        ].copy()

    def __iter__(self) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        state = self._state
        start = state[tries.ROW_COUNT]
        while state[tries.PHASE] != tries.DONE:
            state[tries.PAUSE] = self.operations + STRIDE
            self._advance()
            counts = state[start : start + len(self._widths)].tolist()
            rows = [
                self._rows[s, :width, :n]
                for s, (width, n) in enumerate(zip(self._widths, counts, strict=True))
            ]
            yield self._out[:, : state[tries.EMITTED]], rows

    def batches(self) -> list[tuple[np.ndarray, list[Part]]]:
        """Return all batches.  Raises RoomError, and Stopped."""
        held = Holding(self.memory, self.budget)
        self.gather(held)
        self.times = [b.times for _, b in held.bindings.batches if b.times is not None]
        pairs = zip(held.bindings.batches, held.trace.batches, strict=True)
        return [(bindings.rows, trace) for (_, bindings), (_, trace) in pairs]

    @within_memory("finding rows")
    def gather(self, held: "Holding", first: Range = plan_arrays.ALL) -> None:
        """Let all batches, which are those of a range, be held; one that fills a quarter of its
        buffer keeps it, others are copied.  Raises RoomError, and Stopped.
        """
        self.memory.begin()
        spent = 0
        for out, rows in self:
            if 4 * out.shape[1] > self._size[1]:
                self._out = self._buffer()
            else:
                out = out.copy()
            self.budget.spend(self.operations - spent)
            spent = self.operations
            times = self.times.pop() if self.times else None
            held.add(first, Bindings(out, times), [*map(_kept, rows, self._codings)])

    def _buffer(self) -> np.ndarray:
        """Return memory for a batch of bindings; each new block doubles the number of batches,
        up to STOCK_MAX.
        """
        if not self._stock:
            self.stock(min(max(1, self._stocked), STOCK_MAX))
        return self._stock.pop()

    def bindings(self) -> np.ndarray:
        """Return all bindings at once, int64[L + V, n]."""
        return concatenated([out for out, _ in self.batches()])

    def all(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return all bindings and all trace rows at once."""
        batches = self.batches()
        trace = zip(*(rows for _, rows in batches), strict=True)
        return concatenated([out for out, _ in batches]), [
            concatenated([*map(columns_of, parts)]) for parts in trace
        ]


def _fitting(batch: int, columns: int) -> int:
    """Return how many rows a batch has, at most `batch`, such that a whole stock is a part of
    what the user allows.
    """
    allowed = _allowed.get()
    if allowed is None:
        return batch
    return min(batch, max(BATCH_MIN, allowed // (STOCK_SHARE * STOCK_MAX * 8 * max(1, columns))))


def _kept(rows: np.ndarray, coding: Coding | None) -> Part:
    if coding is None:
        return rows.copy()
    return Coded(coding, rows[0].copy(), rows[1].copy() if coding.tail else rows[1, :0].copy())


def _no_bindings(bindings: Bindings) -> Bindings:
    rows, times = bindings
    return Bindings(rows[:, :0].copy(), None if times is None else times[:0].copy())


def _none_of(part: Part) -> Part:
    if isinstance(part, Coded):
        return Coded(part.coding, part.words[:0].copy(), part.tails[:0].copy())
    return part[:, :0].copy()


def concatenated(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate parts [C, n] in order."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def together(blocks: Iterable[np.ndarray], least: int = 1 << 16) -> Iterator[np.ndarray]:
    """Yield blocks [C, n] of which only the last has fewer than `least` rows.

    >>> [block.shape for block in together([np.zeros((2, n)) for n in (5, 1, 2, 3, 4)], 4)]
    [(2, 5), (2, 6), (2, 4)]
    """
    gathered, rows = list[np.ndarray](), 0
    for block in blocks:
        gathered.append(block.copy())  # it may be part of a large array
        rows += block.shape[1]
        if rows >= least:
            yield concatenated(gathered)
            gathered, rows = [], 0
    if gathered:
        yield concatenated(gathered)


class Join(Run):
    """One evaluation of a plan by the Leapfrog Triejoin, over the pages of its trees."""

    def __init__(
        self,
        pages: Pages,
        shape: plan_arrays.Shape,
        trees: Sequence[Tree],
        *,
        sensors: plan_arrays.Sensors | None = None,
        granularity: int = 1,
        regions: plan_arrays.Regions | None = None,
        batch: int = BATCH,
    ) -> None:
        super().__init__(
            shape, sensors, granularity, regions is None, batch, 2 * len(shape.parts) + 8
        )
        self._pages = pages
        at = int(self._fresh[tries.TREES])
        self._fresh[at : at + 3 * len(trees)] = plan_arrays.tree_words(trees)
        self._state = self._fresh.copy()
        self._regions = regions or shape.everything
        self._runs = plan_arrays.slices_room(shape.innermost, pages.page_words)

    def _advance(self) -> None:
        raise_for(
            LEAPFROG.call(
                self._pages,
                self._plan,
                self._state,
                *self._regions,
                self._out,
                self._rows,
                self._runs,
            )
        )
