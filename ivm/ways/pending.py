"""The rows of a view that is being filled: edits wait for its tree in memory, or beyond what is
allowed in sorted runs.

    edits    +1 at 5, +1 at 2, +1 at 5    +1 at 9, +1 at 5
    runs     2: 1   5: 2                  5: 1   9: 1        in temporary files, each with one row for a key
    rows     2: 1   5: 3   9: 1                              merged by windows, and stored as they come

So a projection, a grouping or a sort may be larger than the memory that an evaluation may take.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ivm.errors import RangeError, RoomError
from ivm.join.groups import added
from ivm.join.join import concatenated
from ivm.lang.ir import Predicate
from ivm.lang.types import shown, word_range
from ivm.memory import RECORDING, REMEDY, MemoryUse, exceeds_memory, memory_to_take, shown_bytes
from ivm.names import named_part
from ivm.plan.plan import Plan
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule
from ivm.views.edit_composition import SumOverflow, counted, sum_by_key
from ivm.views.layouts import INVERTED, PLAIN, Layout
from pagestore.errors import EditError
from pagestore.host import (
    ADD,
    NULL,
    Coded,
    Edits,
    Pages,
    Runs,
    Spec,
    Tree,
    ascending,
    begins,
    compose_edits,
    in_order,
    one_batch,
)

if TYPE_CHECKING:
    import pyarrow as pa

# rows of a sorted view: some MiB a batch, which the system maps by large pages
BATCH_ROWS = 1 << 18
# edits take one in so many of the bytes allowed: sorting and storing them takes as much again,
# twice
WAITING_SHARE = 4
SUMMED = 8  # times the bytes of edits that are free where these are added up in arrays
KEPT = 1 << 18  # bytes that stay in memory in any case
RUNS_MAX = 16  # times the bytes allowed: with more on the disk, an evaluation is senseless
ANSWER_MAX = 4  # the same for the answer to a question, which is a table in memory at last


class Source(Protocol):
    """A snapshot or a transaction, from which rules read."""

    @property
    def pages(self) -> Pages:
        """The page map of the store's file."""

    def tree(self, name: str) -> Tree:
        """Return the tree of a relation, view or index."""

    def decode(self, type_: str, words: np.ndarray) -> pa.Array:
        """Return words of a column as its values."""


class PendingRows(dict[str, list[Edits]]):
    """Inserting edits that wait for the trees of their views, by view; each view has some,
    though they may be empty.
    """

    def __init__(
        self,
        source: Source,
        installed: Installed,
        spills: bool = True,
        step: str = "sorting rows",
        most: int = 0,
        answer: str | None = None,
    ) -> None:
        """With `spills` edits that take too much memory go to the disk, up to `most` times the
        bytes allowed; those of the view that is a question's `answer`, less.

        Errors name the `step` that makes them.
        """
        super().__init__()
        self.rules: Sequence[InstalledRule] = ()  # that are filled together and not yet done
        self.scanned = set[Plan]()  # their plans that a scan has filled
        # the state filled last, and its records
        self.newest: tuple[str, np.ndarray] = ("", np.empty((0, 0), np.int64))
        self._most, self._answer = most or RUNS_MAX, answer
        self._source, self._installed, self.spills = source, installed, spills
        self._runs: dict[str, Runs] = {}
        self._held: dict[str, int] = {}  # bytes
        self._found = 0
        self._step, self._memory = step, MemoryUse(step=step).begin()

    @cached_property
    def _allowed(self) -> int:
        """The bytes that an evaluation may take; to know them takes a fourth of a millisecond."""
        return memory_to_take()

    def exceed(self, held: int) -> bool:
        """Return whether bytes are too many to stay in memory."""
        return held > KEPT and self.spills and held > self.room

    @property
    def room(self) -> int:
        """The bytes that may stay in memory."""
        return self._allowed // WAITING_SHARE

    def add(self, view: str, edits: Edits) -> None:
        """Add edits of a view; if all take too much memory, write those of the view with most.
        Raises RoomError.
        """
        _, rows = edits
        if rows.shape[1] or view not in self:
            self.setdefault(view, []).append(edits)
            self._held[view] = self._held.get(view, 0) + rows.nbytes
            self._found += rows.shape[1]
            if self.exceed(sum(self._held.values())):
                self._spill(max(self._held, key=self._held.__getitem__))
            self._memory.hold(self._found, sum(self._held.values()))

    def is_spilled(self, view: str) -> bool:
        """Return whether edits of a view are on the disk."""
        return view in self._runs

    def rows(self, view: str) -> Iterable[np.ndarray]:
        """Take the edits of a view out; return its rows, one for each key and in key order.
        Raises RangeError.
        """
        parts, runs = self.pop(view), self._runs.pop(view, None)
        del self._held[view]
        if runs is None:
            return self._composed(view, parts, in_arrays=True)
        runs.add(concatenated([*self._composed(view, parts)]))
        return self._merged(view, runs, parts[0][0])

    def _merged(self, view: str, runs: Runs, action: np.ndarray) -> Iterator[np.ndarray]:
        for rows in runs.merged(self.room):
            yield from self._composed(view, [(np.broadcast_to(action[:1], rows.shape[1]), rows)])

    def _spill(self, view: str) -> None:
        """Add up the edits of each key of a view; if many are left, write all but one as a run."""
        parts, layout = self[view], self._installed.layouts[view]
        if layout.fold and layout.fold.state.kind == INVERTED:
            count = sum(len(actions) for actions, _ in parts)
            refuse_beyond(
                self._allowed,
                self._step,
                f"{count:,} rows so far of {view}",
                self._held[view],
                "memory",
            )
            return
        rows = concatenated([*self._composed(view, parts)])
        action = next(actions[:1] for actions, _ in parts if len(actions))
        if rows.nbytes > self.room // 2:
            runs = self._runs.setdefault(view, Runs(self._spec(view).keys))
            runs.add(rows[:, :-1])
            rows = rows[:, -1:].copy()
            amount = f"{runs.rows:,} rows so far of {view}"
            most = ANSWER_MAX if view == self._answer else self._most
            refuse_beyond(most * self._allowed, self._step, amount, runs.nbytes)
        self[view] = [(np.broadcast_to(action, rows.shape[1]), rows)]
        self._held[view] = rows.nbytes

    def _spec(self, view: str) -> Spec:
        fold = self._installed.layouts[view].fold
        return fold.state.spec if fold else self._source.tree(view).spec

    def _composed(
        self, view: str, parts: list[Edits], in_arrays: bool = False
    ) -> Iterable[np.ndarray]:
        of = self._installed.program.predicates[view]
        return compose_rows(self._source, of, parts, self._spec(view), in_arrays)


class Recording:
    """Trace rows of a full evaluation beyond the memory allowed: sorted runs by sensor."""

    def __init__(self) -> None:
        self._runs: dict[int, Runs] = {}
        self._lock = Lock()

    @cached_property
    def _allowed(self) -> int:
        return memory_to_take()

    def exceeds(self, held: int) -> bool:
        """Return whether bytes are too many to stay in memory."""
        return held > KEPT and held > self._allowed // WAITING_SHARE

    def take(self, parts: list[list[np.ndarray | Coded]]) -> None:
        """Write parts[C, n] of each sensor as runs, without rows that repeat.  Raises RoomError."""
        with self._lock:
            for sensor, some in enumerate(parts):
                if rows := [*ascending(some)]:
                    runs = self._runs.setdefault(sensor, Runs(len(rows[0])))
                    runs.add(concatenated(rows))
            rows, held = (
                sum(getattr(runs, name) for runs in self._runs.values())
                for name in ("rows", "nbytes")
            )
            amount = f"{rows:,} rows so far that matching needs"
            refuse_beyond(
                RUNS_MAX * self._allowed,
                "recording a trace",
                amount,
                held,
                remedy=REMEDY + RECORDING,
            )

    @property
    def is_spilled(self) -> bool:
        """Return whether trace rows are on the disk."""
        return bool(self._runs)

    def rows(self, sensor: int) -> Iterator[np.ndarray]:
        """Yield the rows of a sensor's runs in order, each once.  O(rows log rows)."""
        if sensor in self._runs:
            for rows in self._runs.pop(sensor).merged(self._allowed // WAITING_SHARE):
                yield rows.compress(begins(rows), axis=1)


def refuse_beyond(
    most: int,
    step: str,
    amount: str,
    held: int,
    where: str = "temporary files",
    remedy: str = REMEDY,
) -> None:
    """Raise RoomError if the `amount` that a step found takes more than `most` bytes."""
    if held > most:
        raise RoomError(
            f"{step}: {amount} take {shown_bytes(held)} in {where}; one evaluation may take "
            f"{shown_bytes(most)} there; {remedy}"
        )


def whole_groups(batches: Iterable[np.ndarray], columns: int) -> Iterator[np.ndarray]:
    """Yield rows[C, n] in key order such that no two batches have rows of one group, the first
    columns.

    >>> [batch.tolist() for batch in whole_groups([np.array([[1, 2]]), np.array([[2, 3]])], 1)]
    [[[1]], [[2, 2]], [[3]]]
    """
    left: list[np.ndarray] = []  # of one group
    for batch in batches:
        first = begins(batch[:columns]) if columns else np.zeros(batch.shape[1], bool)
        if left:
            first[:1] = (batch[:columns, :1] != left[-1][:columns, -1:]).any(axis=0)
        last = int(np.flatnonzero(first)[-1]) if first.any() else 0
        if last or (left and first[:1].any()):
            yield np.concatenate([*left, batch[:, :last]], axis=1)
            left = []
        left.append(batch[:, last:])
    if left:
        yield np.concatenate(left, axis=1)


def adds_up(layout: Layout) -> bool:
    """Return whether edits of a view add to the value of their key."""
    return layout.kind != PLAIN and not (layout.fold and layout.fold.state.kind == INVERTED)


def head_spec(layout: Layout, columns: int) -> Spec:
    """Return the shape of the tree that a view's edits go to, given how many columns they have."""
    return layout.fold.state.spec if layout.fold else Spec(0, layout.keys, columns - layout.keys)


def compose_rows(
    source: Source, predicate: Predicate, parts: list[Edits], spec: Spec, in_arrays: bool = False
) -> Iterable[np.ndarray]:
    """Return batches of the rows that inserting edits make in an empty tree, one per key and in key
    order; O(n log n).

    Rows that are already in order are returned as they are; what adds up may be added `in_arrays`,
    which need memory. Raises RangeError for a sum beyond 64 bits.
    """
    rows = [rows for _, rows in parts if rows.shape[1]] or [parts[0][1]]
    # ranges of keys, made by several threads
    rows.sort(key=lambda part: part[: spec.keys, :1].T.tolist())
    if in_order(rows, spec.keys):
        return rows
    if not spec.values:
        return ascending(rows, BATCH_ROWS)
    adds = in_arrays and all((how == ADD).all() for how, _ in parts)
    fits = adds and not exceeds_memory(SUMMED * sum(part.nbytes for part in rows), KEPT)
    if fits and (sums := added(rows, spec.keys)) is not None:
        return [sums]
    sole = counted(parts, spec, BATCH_ROWS)
    if sole is not None:
        return sole
    try:
        return [compose_edits(*one_batch(parts), spec)[1]]
    except EditError:  # a partial sum exceeds 64 bits, but the total may fit
        pass
    try:
        return [sum_by_key(concatenated(rows), spec.keys)]
    except SumOverflow as overflow:
        raise out_of_range(source, predicate, overflow) from None


def checked_sums(
    source: Source, predicate: Predicate, parts: Iterable[np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield parts of a view's rows; like `check_sums`."""
    for rows in parts:
        check_sums(source, predicate, rows)
        yield rows


def check_sums(source: Source, predicate: Predicate, *parts: np.ndarray) -> None:
    """Raise RangeError if a sum, in rows[C, n] of a view, is out of the range of its type."""
    assert predicate.value is not None
    least, greatest = word_range(predicate.value)
    keys = len(predicate.keys)
    absent = NULL if predicate.nullable else least  # a sum of nothing may be null
    for rows in parts:
        beyond = ((rows[keys] < least) & (rows[keys] != absent)) | (rows[keys] > greatest)
        for i in np.flatnonzero(beyond).tolist():
            raise out_of_range(source, predicate, SumOverflow(rows[:keys, i], int(rows[keys, i])))


def out_of_range(source: Source, predicate: Predicate, overflow: SumOverflow) -> RangeError:
    """Return the error for a sum that its type cannot hold."""
    assert predicate.value is not None
    words = overflow.key[: len(predicate.keys), None]
    key = [source.decode(t, word)[0].as_py() for t, word in zip(predicate.keys, words, strict=True)]
    group = f"{named_part(predicate.name)}[{', '.join(map(repr, key))}]"
    total = shown(overflow.total, predicate.value)
    remedy = "make its groups smaller, or use total, which adds floats"
    said = f"{group}: the sum is {total}, beyond {predicate.value}; {remedy}"
    return RangeError(said, of=predicate.name, total=total, type=predicate.value)
