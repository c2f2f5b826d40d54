"""Limits of one evaluation: how much memory its rows and how many operations its joins may take,
and, where its rows are counted, whether it is to end.

Linux grants memory that it does not have, and kills the process that uses it. So the rows of one
evaluation may take what the user allows, by default a share of the total memory, and no more than
is left, since sorting and storing them takes as much again. The machine, control groups, and limits
of the process bound the memory; where the process's limit is exceeded the system refuses memory,
which `within_memory` turns into a RoomError as well.
"""

import errno
import gc
import logging
import os
import resource
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ContextDecorator, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from math import inf
from pathlib import Path
from threading import Lock
from traceback import clear_frames
from typing import Generic, NamedTuple, TypeVar

from ivm.errors import LimitError, OptionError, RoomError, Where
from pagestore.errors import OutOfMemoryError
from pagestore.host import Stoppable, refuse_stopped
from pagestore.host import Stopped as Ended

T = TypeVar("T")
# which view is filled, at INFO; how many rows were found for it, at DEBUG
FILLING = logging.getLogger("ivm.filling")
FILLED = "filled"  # its last message
EVALUATING = "evaluating the rule"  # the step that most refusals name
SLICE_BYTES = 1 << 24  # of texts that are worked on at once
CHECK_BYTES = 1 << 26  # bytes between two checks of the memory left; a check takes 0.2 ms
SURE = 0.05  # of a limit; what took less does not say yet whether all will exceed it
# the part of the memory that the rows of one evaluation may take, unless IVM_MEMORY_SHARE is set
SHARE = 0.25
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
UNLIMITED = 1 << 60
REMEDY = (
    "ask for fewer rows at once (one more condition, or a variable that the relations share), or "
    "for an aggregate, which is counted and not listed"
)
MAPPING = " to map the store's file: allow the process an address space (ulimit -v) of several times the file's size"
RECORDING = '. To be matched, a view records less with a coarser granularity, and nothing with maintenance="probe"'


class Limit(NamedTuple):
    """A bound on this process's memory: whose it is, the total in bytes, and the bytes left."""

    whose: str
    whole: int
    left: int


class Stopped(Exception):
    """Raised when an evaluation took more operations than its Budget, to plan better."""


class Budget:
    """The operations that an evaluation may take, over all its threads.

    After `most` of them, `limit` is called with how many it took, and returns up to how many it may
    go on: with fewer it is Stopped.  An evaluation that proceeds by shares is so as soon as all of
    them are expected to take more.  What has done its last step is not.  `likely` estimates them
    before.
    """

    def __init__(
        self, most: float, limit: Callable[[int], float], likely: Callable[[], float] = float
    ) -> None:
        self.spent = 0
        self._most, self._free, self._limit, self._likely = most, most, limit, likely
        self._lock = Lock()
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
        """Note that a part of all operations is taken once those of the next share are, apart
        from those before.
        """
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
        """Set no limit any more, since what was found so far is used.  Raises Stopped if another
        thread is: then nothing may be used.
        """
        with self._lock:
            if self._stopped:
                raise Stopped
            self._most = inf


class MemoryUse:
    """The rows, or `what` else, that one evaluation holds, over all its threads, and the step
    that makes them.

    `recording` says whether it also keeps its trace.
    """

    def __init__(
        self, recording: bool = False, step: str = "finding rows", what: str = "rows"
    ) -> None:
        self.rows, self._what = 0, what
        self._recording, self._step, self._allowed = recording, step, _allowed.get()
        self.size = self._looked = 0
        self._often = CHECK_BYTES if self._allowed is None else min(CHECK_BYTES, self._allowed // 8)
        self._lock = Lock()

    def begin(self) -> "MemoryUse":
        """Let RoomErrors of this thread report these rows from now on."""
        _newest.set(self)
        return self

    def add(self, rows: int, size: int) -> None:
        """Count some rows, and the bytes that they take.

        Raises RoomError if they take too large a share of the memory, or more than is left, and
        the Stopped of `refuse_stopped`.
        """
        if self.rows:
            refuse_stopped()  # between two batches
        if FILLING.isEnabledFor(logging.DEBUG):
            total = self.rows + rows
            FILLING.debug("%s", f"{total:,} row{'s' * (total != 1)}", extra={"rows": total})
        with self._lock:
            self.rows += rows
            self.size += size
            if self.size <= self._looked + self._often:
                return
            self._looked = self.size
        self._look()

    def release(self, size: int) -> None:
        """Take back some bytes, of rows that are no longer in memory."""
        with self._lock:
            self.size -= size
            self._looked = min(self._looked, self.size)

    def hold(self, rows: int, size: int) -> None:
        """Count these rows and bytes in place of those so far.  Raises RoomError like `add`."""
        more, self.rows = size - self.size, 0
        self.add(rows, more)

    def _look(self) -> None:
        for limit in limits():
            if limit.left < self._looked:
                why = f"{shown_bytes(limit.left)} of {limit.whose} are left, too little to go on"
            elif self._allowed is not None:
                if self._looked <= self._allowed:
                    continue
                why = (
                    f"one evaluation may take {shown_bytes(self._allowed)} "
                    f"(memory={self._allowed} when it was opened)"
                )
            elif self._looked > (share := _share()) * limit.whole:
                why = (
                    f"one evaluation may take {100 * share:.0f} % of {limit.whose}, "
                    f"{shown_bytes(limit.whole)} (IVM_MEMORY_SHARE=0.5 allows half)"
                )
            else:
                continue
            raise RoomError(
                f"{self._step}: {self.found()}; {why}; {REMEDY}{RECORDING * self._recording}"
            )

    def found(self) -> str:
        """Return how many rows were found so far, for a message."""
        return f"{self.rows:,} {self._what} so far take {shown_bytes(self.size)}"


class Sink(Generic[T]):
    """What takes batches out of memory while an evaluation goes on, once its `threads` together
    hold too much.

    `exceeds` says of bytes whether they are too many to stay in memory; `take` is called with the
    batches of one thread.  A thread that holds little of it goes on, since others hold the most and
    give theirs: together they hold half more than may stay, and a batch each, at most.
    """

    def __init__(
        self,
        exceeds: Callable[[int], bool] = lambda held: False,
        take: Callable[[list[T]], object] = lambda batches: None,
        threads: int = 1,
    ) -> None:
        self.take, self._exceeds, self._least = take, exceeds, 2 * threads
        self._held, self._lock = 0, Lock()

    def count(self, more: int) -> None:
        """Count bytes that a thread holds from now on, or no longer if they are negative."""
        with self._lock:
            self._held += more

    def is_due(self, size: int) -> bool:
        """Return whether a thread that holds `size` bytes gives them."""
        return self._exceeds(self._held) and self._exceeds(self._least * size)


class Held(Generic[T]):
    """The batches that one thread of an evaluation holds, each with the range of values that it
    is from, until a sink takes them, which lifts the budget.

    `none` returns none of what a batch has, in memory of its own.
    """

    def __init__(
        self, memory: MemoryUse, budget: Budget, sink: Sink[T] | None, none: Callable[[T], T]
    ) -> None:
        self.batches = list[tuple[tuple[int, int], T]]()
        self._memory, self._budget, self._sink, self._none = memory, budget, sink or Sink(), none
        self._size = 0

    def add(self, first: tuple[int, int], batch: T, rows: int, size: int) -> None:
        """Hold a batch, of some rows and bytes.  Raises RoomError, and Stopped."""
        self.batches.append((first, batch))
        self._memory.add(rows, size)
        self._size += size
        self._sink.count(size)
        if self._sink.is_due(self._size):
            self._budget.lift()
            self._sink.take([batch for _, batch in self.batches])
            self.batches = [(first, self._none(batch))]
            self._memory.release(self._size)
            self._sink.count(-self._size)
            self._size = 0


_newest: ContextVar[MemoryUse] = ContextVar("newest")  # whose rows are found in this thread


# the bytes that the user allows, if any
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)


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
    """Return the bytes that one evaluation may take, if so many are left; `known` are all
    limits, if they are.
    """
    allowed = _allowed.get()
    if allowed is None:
        return int(_share() * min(limit.whole for limit in known or limits()))
    return allowed


def memory_to_take() -> int:
    """Return the bytes that one evaluation may take, of those that are left."""
    known = [*limits()]
    return min(memory_allowed(known), *(limit.left for limit in known))


def slices(count: int, passed: Callable[[], int]) -> Iterator[slice]:
    """Yield slices of `count` rows of texts: of few rows at first, then of as many as take about
    SLICE_BYTES, by the bytes that have `passed` so far.
    """
    at, size, before = 0, 16, passed()
    while at < count:
        yield slice(at, at + size)
        refuse_stopped()
        at, now = at + size, passed()
        size = max(1, min(8 * size, SLICE_BYTES * size // max(1, now - before)))
        before = now


def exceeds_memory(size: int, always: int) -> bool:
    """Return whether bytes are more than an evaluation may take, which is `always` at least."""
    return size > always and size > memory_allowed()


def within_seconds(seconds: float | None) -> AbstractContextManager[None]:
    """Let the block take some seconds, or any time.  Raises LimitError after them, OptionError."""
    return nullcontext() if seconds is None else _within(seconds)


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    if not isinstance(seconds, int | float) or not seconds > 0:
        raise OptionError(f"timeout={seconds!r}: give a number of seconds above 0, or None")
    work = Stoppable(seconds)
    try:
        with work.running():
            yield
    except Ended:
        if not work.is_late:
            raise
        raise LimitError(
            f"this took longer than timeout={seconds:g} seconds: ask for less, or allow more"
        ) from None


class within_memory(ContextDecorator):
    """Raise RoomError if the block is refused memory, with the step and the rows so far: `rows`,
    or those found.  If the place `where` a rule stands is given, each RoomError begins with it.
    """

    def __init__(
        self, step: str, rows: int | Callable[[], int] | None = None, where: Where | None = None
    ) -> None:
        self._step, self._rows, self._where = step, rows, where

    def __enter__(self) -> None:
        """Begin the block; nothing is kept, so that blocks may nest."""

    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        place = "" if self._where is None or error is None else f"{self._where}: "
        if place and isinstance(error, RoomError):
            raise RoomError(f"{place}{error}") from None
        if error is None or not _is_refusal(error):
            return
        rows = self._rows() if callable(self._rows) else self._rows
        progress = _newest.get(MemoryUse()).found() if rows is None else f"{rows:,} rows so far"
        mapping = MAPPING if isinstance(error, OutOfMemoryError | OSError) else ""
        # they hold what was evaluated, and who has the error may need its memory
        clear_frames(error.__traceback__)
        gc.collect()
        raise RoomError(
            f"{place}{self._step}: the system refused memory{mapping}; {progress}; {REMEDY}"
        ) from None


def _is_refusal(error: BaseException) -> bool:
    """Return whether memory was refused to an array, a file's map or a thread's stack."""
    return (
        (isinstance(error, MemoryError) and not isinstance(error, RoomError))
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and "can't start new thread" in str(error))
    )


def memory_left() -> int:
    """Return the bytes that the process may still use."""
    return min(limit.left for limit in limits())


def limits() -> Iterator[Limit]:
    """Yield all limits on the memory of this process, but for those it does not report."""
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
    """Return the folders of control groups, given what the system says of a process, and which
    files limit memory.
    """
    folders = list[tuple[Path, tuple[str, str, str]]]()
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
            folders += (
                (folder, names) for folder in (group, *group.parents) if folder.is_relative_to(one)
            )
    return folders


def _group(folder: Path, most: str, taken: str, files: str) -> Iterator[Limit]:
    """Yield the limit of one control group, if it has one. Its file cache counts as free."""
    if (
        (folder / most).exists()
        and (limit := (folder / most).read_text().strip()) != "max"
        and int(limit) < UNLIMITED
    ):
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
