"""Run a plan over the pages of trees: bindings and trace rows, batch by batch (*Leapfrog Triejoin*).

The join does not depend on how trace rows are used.  The change oracle, if any, is one more trie; without it
the join returns every binding of the body.

A guard against running out of memory: an evaluation that finds too many rows raises RoomError in time.

Linux grants memory that it does not have, and kills the process that uses it. So the rows of one evaluation may take
what the user allows, by default a share of the total memory, and no more than is left, since sorting and storing them
takes as much again. The machine, control groups, and limits of the process bound the memory; where the process's limit
is exceeded the system refuses memory, which `within_memory` turns into a RoomError as well.
"""

import errno
import gc
import logging
import os
import resource
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator, contextmanager
from contextvars import ContextVar
from functools import lru_cache
from math import inf
from pathlib import Path
from threading import Lock
from traceback import clear_frames
from typing import NamedTuple, Self

import numpy as np

from ivm.errors import RoomError
from ivm.join.kernels import leapfrog as kernel
from ivm.join.kernels import tries
from ivm.join.plan_arrays import Regions, Sensors, Shape, plan_array, slices_room, state_array, tree_words
from pagestore.compiled import Table, Tables, TypedKernel, Words, raise_for
from pagestore.errors import OutOfMemoryError
from pagestore.host import Coded, Coding, Pages, Tree, columns_of, pooled, refuse_stopped

FILLING = logging.getLogger("ivm.filling")  # which view is filled, at INFO; how many rows were found for it, at DEBUG
FILLED = "filled"  # its last message
CHECK_BYTES = 1 << 26  # bytes between two checks of the memory left; a check takes 0.2 ms
SURE = 0.05  # of a limit; what took less does not say yet whether all will exceed it
SHARE = 0.25  # the part of the memory that the rows of one evaluation may take, unless IVM_MEMORY_SHARE is set
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
UNLIMITED = 1 << 60
REMEDY = (
    "ask for fewer rows at once (one more condition, or a variable that the relations share), or for an aggregate, "
    "which is counted and not listed"
)
MAPPING = " to map the store's file: allow the process an address space (ulimit -v) of several times the file's size"
RECORDING = '. To be matched, a view records less with a coarser granularity, and nothing with maintenance="probe"'


class Limit(NamedTuple):
    """A bound on the memory of this process: whose it is, the total in bytes, and the bytes left."""

    whose: str
    whole: int
    left: int


class Stopped(Exception):
    """Raised in an evaluation that has taken more operations than its Budget, to make a better plan."""


class Budget:
    """The operations that an evaluation may take, over all its threads.

    After `most` of them, `limit` is called with how many it took, and returns up to how many it may go on: with fewer
    it is Stopped.  An evaluation that proceeds by shares is so as soon as all of them are expected to take more.  What
    has done its last step is not.  `likely` estimates them before.
    """

    def __init__(self, most: float, limit: Callable[[int], float], likely: Callable[[], float] = float) -> None:
        self.spent = 0
        self._most, self._free, self._limit, self._likely, self._lock = most, most, limit, likely, Lock()
        self._stopped = False
        self._fixed, self._part, self._shared = 0, 1.0, False

    def spend(self, operations: int, done: bool = False) -> None:
        """Count some operations, which may have been the last.  Raises Stopped."""
        with self._lock:
            self.spent += operations
            if not done:
                self._stop_at(self._expected())

    def _expected(self) -> float:
        return self._fixed + (self.spent - self._fixed) / self._part

    def refuse(self, least: float) -> None:
        """Raise Stopped if more operations are needed than may be taken."""
        with self._lock:
            self._stop_at(least)

    def _stop_at(self, expected: float) -> None:
        if expected > self._most and not self._stopped:
            self._most = self._limit(self.spent)
            sure = self._part == 1 or self.spent > SURE * self._most
            self._stopped = self._most <= expected and sure
        if self._stopped:
            raise Stopped

    def share(self, part: float) -> None:
        """Note that a part of all operations is taken once those of the next share are, apart from those before."""
        if not self._shared:
            self._fixed, self._shared = self.spent, True
        self._part = part

    def may_exceed(self) -> bool:
        """Return whether more operations are likely than may be taken before the limit is asked."""
        return self._likely() > self._free

    def is_ample(self) -> bool:
        """Return whether twice of what all shares are expected to take may be taken."""
        return 2 * self._expected() <= self._most

    def lift(self) -> None:
        """Set no limit any more, since what was found so far has been used."""
        with self._lock:
            self._most = inf


class Sink(NamedTuple):
    """What takes bindings out of memory while an evaluation goes on, once `is_due`, given the bytes of one thread's.

    `take` is called with batches int64[L + V, n], and with how many bindings each binding represents, if that is known.
    """

    is_due: Callable[[int], bool]
    take: Callable[[list[np.ndarray], list[np.ndarray]], object]


class TraceSink(NamedTuple):
    """What takes trace rows out of memory while an evaluation goes on, like a Sink, given the bytes of their columns.

    `take` is called with the parts of each sensor.
    """

    is_due: Callable[[int], bool]
    take: Callable[[list[list[np.ndarray | Coded]]], object]


NO_SINK = Sink(lambda held: False, lambda batches, times: None)
NO_TRACE_SINK = TraceSink(lambda held: False, lambda parts: None)


class MemoryUse:
    """The rows that one evaluation holds, over all its threads, and the step that makes them.

    `recording` says whether it also keeps its trace.
    """

    def __init__(self, recording: bool = False, step: str = "finding rows") -> None:
        self.rows = 0
        self._recording, self._step, self._allowed = recording, step, _allowed.get()
        self._size = self._looked = 0
        self._often = CHECK_BYTES if self._allowed is None else min(CHECK_BYTES, self._allowed // 8)
        self._lock = Lock()

    def begin(self) -> "MemoryUse":
        """Let RoomErrors of this thread report these rows from now on."""
        _newest.set(self)
        return self

    def add(self, rows: int, size: int) -> None:
        """Count some rows, and the bytes that they take.

        Raises RoomError if they take too large a share of the memory, or more than is left.
        """
        if FILLING.isEnabledFor(logging.DEBUG):
            found = self.rows + rows
            FILLING.debug("%s", f"{found:,} row{'s' * (found != 1)}", extra={"rows": found})
        with self._lock:
            self.rows += rows
            self._size += size
            if self._size <= self._looked + self._often:
                return
            self._looked = self._size
        self._look()

    def release(self, size: int) -> None:
        """Take back some bytes, of rows that are no longer in memory."""
        with self._lock:
            self._size -= size
            self._looked = min(self._looked, self._size)

    def hold(self, rows: int, size: int) -> None:
        """Count these rows and bytes in place of those so far.  Raises RoomError like `add`."""
        more, self.rows = size - self._size, 0
        self.add(rows, more)

    def _look(self) -> None:
        for limit in limits():
            if limit.left < self._looked:
                why = f"{shown_bytes(limit.left)} of {limit.whose} are left, too little to go on"
            elif self._allowed is not None:
                if self._looked <= self._allowed:
                    continue
                why = (
                    f"one evaluation may take {shown_bytes(self._allowed)} (memory={self._allowed} when it was opened)"
                )
            elif self._looked > (share := _share()) * limit.whole:
                why = (
                    f"one evaluation may take {100 * share:.0f} % of {limit.whose}, {shown_bytes(limit.whole)} "
                    "(IVM_MEMORY_SHARE=0.5 allows half)"
                )
            else:
                continue
            raise RoomError(f"{self._step}: {self.found()}; {why}; {REMEDY}{RECORDING * self._recording}")

    def found(self) -> str:
        """Return how many rows were found so far, for a message."""
        return f"{self.rows:,} rows so far take {shown_bytes(self._size)}"


_newest: ContextVar[MemoryUse] = ContextVar("newest")  # whose rows are found in this thread
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)  # the bytes that the user allows, if any


@contextmanager
def allowing(memory: int | None) -> Iterator[None]:
    """Let evaluations in the block take up to `memory` bytes, a share of the total memory if None.

    Raises RoomError if the block is refused memory by the system, wherever that is.
    """
    token = _allowed.set(memory)
    try:
        with within_memory("evaluating rules"):
            yield
    finally:
        _allowed.reset(token)


def memory_allowed(known: Iterable[Limit] | None = None) -> int:
    """Return the bytes that one evaluation may take, if so many are left; `known` are all limits, if they are."""
    allowed = _allowed.get()
    return int(_share() * min(limit.whole for limit in known or limits())) if allowed is None else allowed


def memory_to_take() -> int:
    """Return the bytes that one evaluation may take, of those that are left."""
    known = [*limits()]
    return min(memory_allowed(known), *(limit.left for limit in known))


def exceeds_memory(size: int, always: int) -> bool:
    """Return whether bytes are more than one evaluation may take; up to `always` may be taken in any case."""
    return size > always and size > memory_allowed()


class within_memory(ContextDecorator):
    """Raise RoomError if the block is refused memory, with the step and the rows so far: `rows`, or those found."""

    def __init__(self, step: str, rows: int | Callable[[], int] | None = None) -> None:
        self._step, self._rows = step, rows

    def __enter__(self) -> None:
        """Begin the block; nothing is kept, so that blocks may nest."""

    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        if error is None or not _is_refusal(error):
            return
        rows = self._rows() if callable(self._rows) else self._rows
        found = _newest.get(MemoryUse()).found() if rows is None else f"{rows:,} rows so far"
        mapping = MAPPING if isinstance(error, OutOfMemoryError | OSError) else ""
        clear_frames(error.__traceback__)  # they hold what was evaluated, and who has the error may need its memory
        gc.collect()
        raise RoomError(f"{self._step}: the system refused memory{mapping}; {found}; {REMEDY}") from None


def _is_refusal(error: BaseException) -> bool:
    """Return whether memory was refused to an array, to the map of a file, or to the stack of a thread."""
    return (
        (isinstance(error, MemoryError) and not isinstance(error, RoomError))
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and "can't start new thread" in str(error))
    )


def memory_left() -> int:
    """Return the bytes that the process may still use."""
    return min(limit.left for limit in limits())


def limits() -> Iterator[Limit]:
    """Yield all limits on the memory of this process; those that the system does not report are left out."""
    yield Limit("memory", UNLIMITED, UNLIMITED)
    try:
        machine = _fields(PROC / "meminfo")
        swap, total = machine["SwapFree:"], machine["MemTotal:"]
        yield Limit("the machine's memory", 1024 * total, 1024 * (machine["MemAvailable:"] + swap))
        yield from _control_groups()
        yield from _of_process()
    except (OSError, KeyError, ValueError):
        return


def _control_groups() -> Iterator[Limit]:
    """Yield the limits of the process's control group, and of its ancestors, in version 2 or 1."""
    for folder, names in _folders((PROC / "self" / "cgroup").read_text(), GROUPS):
        yield from _group(folder, *names)


@lru_cache(maxsize=4)
def _folders(groups: str, root: Path) -> list[tuple[Path, tuple[str, str, str]]]:
    """Return the folders of control groups, given what the system says of a process, and which files limit memory."""
    found = list[tuple[Path, tuple[str, str, str]]]()
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            names = ("memory.max", "memory.current", "inactive_file")
            roots = [root, root / "unified"]
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            roots = [root / "memory", root / controllers]
        else:
            continue
        for one in dict.fromkeys(roots):
            group = one / path.lstrip("/")
            found += ((folder, names) for folder in (group, *group.parents) if folder.is_relative_to(one))
    return found


def _group(folder: Path, most: str, taken: str, files: str) -> Iterator[Limit]:
    """Yield the limit of one control group, if it has one. File cache that can be dropped counts as free."""
    if (folder / most).exists() and (limit := (folder / most).read_text().strip()) != "max" and int(limit) < UNLIMITED:
        used = int((folder / taken).read_text()) - _fields(folder / "memory.stat")[files]
        yield Limit("the control group's memory", int(limit), int(limit) - used)


def _of_process() -> Iterator[Limit]:
    """Yield the limits of the process (`ulimit -v` and `-d`)."""
    pages = [int(word) for word in (PROC / "self" / "statm").read_text().split()]
    for number, name, used in (
        (resource.RLIMIT_AS, "the address space that ulimit -v allows", pages[0]),
        (resource.RLIMIT_DATA, "the data that ulimit -d allows", pages[5]),
    ):
        limit = resource.getrlimit(number)[0]
        if limit != resource.RLIM_INFINITY:
            yield Limit(name, limit, limit - used * resource.getpagesize())


def _share() -> float:
    """Return the share of the memory that the rows of one evaluation may take."""
    try:
        return min(1.0, max(0.0, float(os.environ["IVM_MEMORY_SHARE"])))
    except (KeyError, ValueError):
        return SHARE


def _fields(file: Path) -> dict[str, int]:
    return {name: int(value) for name, value, *_ in map(str.split, file.read_text().splitlines())}


def shown_bytes(count: int) -> str:
    """Return a number of bytes for a message."""
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"


BATCH = 1 << 16
TRACED = 1 << 14  # trace rows of a batch: they are copied out, and the buffer stays in the cache
STOCK_MAX = 16  # the most batches whose memory is allocated at once
STOCK_SHARE = 4  # these take at most one in so many of the bytes that the user allows
BATCH_MIN = 1 << 8  # rows of a batch in any case
STRIDE = 1 << 20  # operations between two checks of the budget, and for signals: some 10 ms

LEAPFROG = TypedKernel(kernel.leapfrog, Pages, Words, Words, Table, Words, Table, Tables, Table)


class Run(ABC):
    """A resumable run of a kernel.  Iterating gives (bindings int64[L + V, n], trace rows [C, n] by sensor).

    `operations` counts the iterator operations so far; `times`, unless empty, has one array per batch so far: how many
    bindings each binding represents. Rows of a sensor that has a coding are words and, where it has a tail, tails.
    Raises CorruptionError.
    """

    def __init__(
        self, shape: Shape, sensors: Sensors | None, granularity: int, covered: bool, batch: int, room: int
    ) -> None:
        sensors = sensors or shape.no_sensors
        self._arguments = shape, sensors, granularity
        self._plan = plan_array(shape, sensors, granularity)
        self._fresh = state_array(shape, sensors, covered).copy()
        self._state = self._fresh.copy()
        self._widths = sensors.widths
        self._size = shape.levels + len(shape.reads), _fitting(batch, shape.levels + len(shape.reads))
        self._stock: list[np.ndarray] = []
        self._stocked = 0
        self._out, self._rows = self._buffer(), np.empty((*sensors.sources.shape, min(batch, TRACED) + room), np.int64)
        self._codings: Sequence[Coding | None] = [None] * len(self._widths)
        self.times: list[np.ndarray] = []
        self.memory, self.budget, self.sink, self.trace_sink = MemoryUse(), Budget(inf, float), NO_SINK, NO_TRACE_SINK

    def stock(self, buffers: int) -> None:
        """Allocate that many batches of bindings, as one block, since the system backs large blocks by large pages."""
        self._stock = list(pooled(buffers, *self._size))
        self._stocked += buffers

    def over(self, first: tuple[int, int]) -> Self:
        """Restart with the first variable within `first`, inclusive.  What is cached of slices stays cached."""
        shape, sensors, granularity = self._arguments
        self._plan = plan_array(shape.ranged, sensors, granularity).copy()
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
        return self._state[self._state[tries.VALUES_MET] :][: self._size[0] - len(self._arguments[0].reads)].copy()

    def __iter__(self) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        state = self._state
        start = state[tries.ROW_COUNT]
        while state[tries.PHASE] != tries.DONE:
            state[tries.PAUSE] = self.operations + STRIDE
            self._advance()
            counts = state[start : start + len(self._widths)].tolist()
            rows = [self._rows[s, :width, :n] for s, (width, n) in enumerate(zip(self._widths, counts, strict=True))]
            yield self._out[:, : state[tries.EMITTED]], rows

    @within_memory("finding rows")
    def batches(self) -> list[tuple[np.ndarray, list[np.ndarray | Coded]]]:
        """Return all batches; one that fills a quarter of its buffer keeps it, others are copied.

        Raises RoomError, and Stopped.
        """
        kept, spent, held, traced = list[tuple[np.ndarray, list[np.ndarray | Coded]]](), 0, 0, 0
        self.memory.begin()
        for out, rows in self:
            refuse_stopped()
            if 4 * out.shape[1] > self._size[1]:
                self._out = self._buffer()
            else:
                out = out.copy()
            trace = [*map(_kept, rows, self._codings)]
            kept.append((out, trace))
            self.memory.add(out.shape[1], out.nbytes + sum(part.nbytes for part in trace))
            self.budget.spend(self.operations - spent)
            spent, held = self.operations, held + out.nbytes
            if self.sink.is_due(held):
                self.budget.lift()
                self.sink.take([rows for rows, _ in kept], self.times)
                kept = [(rows[:, :0].copy(), trace) for rows, trace in kept] if self._widths else []
                self.times = [times[:0].copy() for times in self.times[: len(kept)]]
                self.memory.release(held)
                held = 0
            traced += 8 * sum(width * part.shape[1] for width, part in zip(self._widths, rows, strict=True))
            if self.trace_sink.is_due(traced):
                self.budget.lift()
                self.trace_sink.take([[*parts] for parts in zip(*(trace for _, trace in kept), strict=True)])
                self.memory.release(sum(part.nbytes for _, trace in kept for part in trace))
                kept, traced = [(rows, [*map(_none_of, trace)]) for rows, trace in kept], 0
        return kept

    def _buffer(self) -> np.ndarray:
        """Return memory for a batch of bindings; each new block doubles the number of batches, up to STOCK_MAX."""
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
        return concatenated([out for out, _ in batches]), [concatenated([*map(columns_of, parts)]) for parts in trace]


def _fitting(batch: int, columns: int) -> int:
    """Return how many rows a batch has, at most `batch`, such that a whole stock is a part of what the user allows."""
    allowed = _allowed.get()
    if allowed is None:
        return batch
    return min(batch, max(BATCH_MIN, allowed // (STOCK_SHARE * STOCK_MAX * 8 * max(1, columns))))


def _kept(rows: np.ndarray, coding: Coding | None) -> np.ndarray | Coded:
    if coding is None:
        return rows.copy()
    return Coded(coding, rows[0].copy(), rows[1].copy() if coding.tail else rows[1, :0].copy())


def _none_of(part: np.ndarray | Coded) -> np.ndarray | Coded:
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
    """One evaluation over pages."""

    def __init__(
        self,
        pages: Pages,
        shape: Shape,
        trees: Sequence[Tree],
        *,
        sensors: Sensors | None = None,
        granularity: int = 1,
        regions: Regions | None = None,
        batch: int = BATCH,
    ) -> None:
        super().__init__(shape, sensors, granularity, regions is None, batch, 2 * len(shape.parts) + 8)
        self._pages = pages
        at = int(self._fresh[tries.TREES])
        self._fresh[at : at + 3 * len(trees)] = tree_words(trees)
        self._state = self._fresh.copy()
        self._regions = regions or shape.everything
        self._runs = slices_room(shape.innermost, pages.page_words)

    def _advance(self) -> None:
        raise_for(
            LEAPFROG.call(self._pages, self._plan, self._state, *self._regions, self._out, self._rows, self._runs)
        )
