"""Fresh pages for the writer.

A committed page is never modified. A transaction reserves pages, writes each once at its final
place, and they become reachable with the commit; until then nobody else reads them. The birth
version of a page says what happens to it when it is no longer needed:

    born in this transaction   ──▶ released: reused by this transaction or, after it, by the next
    born before                ──▶ on the dead list of the version being made; free when no version needs it

A *lineage* is a sequence of versions that share pages: 0 is all versions of the store (its own
trees and the dictionary), any other is a branch.

A step of a transaction: either it is completed, or the transaction can only be rolled back.

A step changes a transaction's trees and page counts in many places. An exception that no step
raises by itself (a signal's, an interrupt, a failed write) may come between any two of them; the
page counts are unknown then, so the transaction cannot be committed. A rollback relies on none of
them: the free pages are read again from the last commit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast

import numpy as np

from pagestore.errors import (
    EditError,
    ExistsError,
    MissingError,
    OrderError,
    SchemaError,
    TransactionError,
    WordError,
)
from pagestore.pages.layout import BIRTH, STAMP, TYPE, Pages, page_columns
from pagestore.pages.verify import SEEN_MAX
from pagestore.runtime.forks import thread_lock
from pagestore.storage.file import CLOSED
from pagestore.storage.free_list import FreeList
from pagestore.storage.mapping import FULL, LENGTH_BITS, Mapping, Run, pages_of_run, run_pages
from pagestore.storage.records import FREE, RecordWriter, WordList, to_word_list, word_list

# steps that raise these are undone
REFUSALS = EditError, ExistsError, MissingError, OrderError, SchemaError, WordError

Owner = TypeVar("Owner")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Work:
    """The lock of the free-page records, which a step holds, and whether a step was interrupted."""

    def __init__(self, lock: Any = None) -> None:
        # held during a step, so that a store is not closed in the middle of one;
        # threading.Condition, too, calls `_is_owned`
        self.lock: Any = lock or thread_lock()
        self.broken = False
        # what a caller's iterator raised: it does not interrupt a step
        self.given: BaseException | None = None

    def check(self) -> None:
        """Raise TransactionError if a step was interrupted, or another transaction has read the
        free pages anew.
        """
        if self.broken:
            raise TransactionError(
                "the transaction was interrupted in the midst of a change; roll it back, begin anew"
            )

    @contextmanager
    def step(self) -> Iterator[None]:
        """Make the block a step, unless it is within one; see the decorator `step`. Raises
        TransactionError.
        """
        nested = self.lock._is_owned()
        with self.lock:
            if nested:
                yield
                return
            self.check()
            self.broken = True
            try:
                yield
            except BaseException as error:
                self.broken = not isinstance(error, REFUSALS) and error is not self.given
                self.given = None
                raise
            self.broken = False


def step(
    change: Callable[Concatenate[Owner, Arguments], Result],
) -> Callable[Concatenate[Owner, Arguments], Result]:
    """Decorate a method that changes what a transaction will commit, of an object with a
    `pager`. Steps may nest.
    """

    @wraps(change)
    def whole(self: Any, *args: Any, **named: Any) -> Result:
        work: Work = self.pager.work
        if work.lock._is_owned():  # within another step
            return change(self, *args, **named)
        with work.step():
            return change(self, *args, **named)

    return cast(Callable[Concatenate[Owner, Arguments], Result], whole)


STORE_LINEAGE = 0
NO_ORIGIN = -1
# free pages allocated at once: few, so that pages in front that were just freed are soon reused
POOL_PAGES = 64
REUSE_PAGES = 64  # with this many released pages, a transaction reuses them
# pages allocated beyond the request, so that not every small transaction has to allocate
AHEAD_PAGES = 8
# replaced pages that are recorded one by one, since that is faster than calls of numpy
FEW_DEAD = 16
SPARE_PAGES = 96  # allocated pages at the end of the file that may be kept for the next transaction


class Mark(NamedTuple):
    """A point in a transaction to rewind to: lengths of the pager's lists, and pages used of the
    open segment.
    """

    consumed: int
    opened: int
    released: int
    retired: int


class Pager:
    """Allocates pages for one transaction after another.

    `version` is the one being made, `lineage` where retired pages belong and `origin` the version
    that the lineage branched off from: pages born up to then belong to the lineage below, and are
    kept. Large batches of edits are applied by `threads` threads.
    """

    def __init__(
        self, mapping: Mapping, space: FreeList, threads: int = 1, work: Work | None = None
    ):
        self.mapping = mapping
        self.free_list = space
        self.threads = threads
        self.work = work or Work()
        self.spare = 0  # pages that the file must have allocated after the written ones
        # whether to allocate no page that is not needed, since the disk is full
        self.frugal = False
        self.version = 0
        self.lineage, self.origin = STORE_LINEAGE, NO_ORIGIN
        self.poison: OSError | None = None
        self.retired: WordList = word_list()  # rows: lineage, page, birth
        self._owns = True  # whether pages born in `version` are this transaction's own
        # allocated pages; those from start to position were handed out
        self._pool = np.zeros(0, np.int64)
        self._start = self._position = 0
        self._consumed: list[np.ndarray] = []  # pages handed out before those
        self._released: list[np.ndarray] = []  # pages handed out, and given back
        self._marks = 0

    @property
    def pages(self) -> Pages:
        """The map, for kernels."""
        return self.mapping.pages

    def reserve(self, n: int) -> np.ndarray:
        """Reserve n pages for this transaction, ascending, adjacent if possible. O(1) mostly."""
        ids = self.at_hand(n, n)
        self._position += n
        return ids

    def at_hand(self, least: int, most: int) -> np.ndarray:
        """Return `least` to `most` pages for a kernel; the caller reports to `took` how many it
        has written.
        """
        if self._position + least > len(self._pool):
            self._refill(min(2 * least, most))
        return self._pool[self._position : self._position + most]

    def write(self, arena: np.ndarray, ids: np.ndarray) -> None:
        """Write the first pages of an arena to ids[n], checksums included; neighbours in one call.

        Raise OSError(ENOSPC) if the disk is full, which changes nothing, since these pages are free
        until the commit; another OSError poisons the handle.
        """
        if len(ids):
            file, page_words = self.mapping.file, self.pages.page_words
            self._put(max(ids.tolist()) + 1, file.write_pages, arena, ids, page_words)

    def _put(
        self,
        top: int,
        write: Callable[..., None],
        arena: np.ndarray,
        ids: np.ndarray,
        page_words: int,
    ) -> None:
        """Write pages below `top` by a function, and mark them verified. Raises as `write` does."""
        self._grow(top)
        try:
            write(arena, ids, page_words)
        except OSError as error:
            if error.errno not in FULL:
                self.poison = error
            raise
        kinds: Any = arena[TYPE : len(ids) * page_words : page_words]
        self.pages.seen[ids] = np.minimum(page_columns(kinds), SEEN_MAX)

    def _grow(self, top: int) -> None:
        """Grow the file to hold pages below `top` and `spare` more; on failure `spare` free
        pages inside will do.
        """
        try:
            self.mapping.grow(top, self.spare)
        except OSError:
            if len(self.free_list) < self.spare:
                raise
            self.mapping.grow(top)

    def make_room(self, top: int) -> np.ndarray:
        """Grow the file to hold pages below `top`; return the page writer for them, which
        several threads may use.
        """
        if top + self.spare > len(self.mapping.pages.seen):
            self._grow(top)
        return self.mapping.file.page_writer

    def page_writer(self, top: int) -> np.ndarray:
        """Return the page writer for pages below `top`; CLOSED if the file does not hold them."""
        return self.mapping.file.page_writer if top <= len(self.mapping.pages.seen) else CLOSED

    def wrote(self, arena: np.ndarray, ids: np.ndarray, written: int) -> None:
        """Note that a kernel has written pages ids[:written] from an arena; write the others of
        ids, like `write`.
        """
        self.mapping.file.wrote(ids[:written])
        if written < len(ids):
            self.write(arena[written * self.pages.page_words :], ids[written:])

    def took(
        self, ids: np.ndarray, written: int, dead: np.ndarray, oldest: int, newest: int
    ) -> None:
        """Note that a kernel has written the first `written` of pages `ids`, which `at_hand`
        returned.

        They replace the pages in the rows of `dead` (lineage, page, birth), born from version
        `oldest` to `newest`.
        """
        self._position += written
        self.mapping.file.wrote(ids[:written])
        if newest >= self.version or oldest <= self.origin:
            self._bury(dead, oldest, newest)
        else:
            self.retired.frombytes(dead.tobytes())

    def spend(self, n: int) -> None:
        """Note that commits, and no transaction, used the first n of the allocated pages."""
        self._start = self._position = self._position + n

    def release(self, ids: np.ndarray) -> None:
        """Give back pages that were reserved in this transaction. O(1) for those reserved last."""
        n = len(ids)
        if not n:
            return
        behind = self._position - n
        if (
            ids.base is self._pool
            and behind >= self._start
            and ids[-1] == self._pool[self._position - 1]
        ):
            self._position = behind
        else:
            self._released.append(ids)

    def retire(self, dead: np.ndarray) -> None:
        """Record pages that this transaction replaced, as rows (page, birth) int64[n, 2]. O(n)."""
        if len(dead) <= FEW_DEAD:
            few: list[int] = []
            for page, birth in dead.tolist():
                if not self.origin < birth < self.version:
                    break
                few += self.lineage, page, birth
            else:
                self.retired.extend(few)
                return
        if len(dead):
            rows, births = np.empty((len(dead), 3), np.int64), dead[:, 1]
            rows[:, 0], rows[:, 1:] = self.lineage, dead
            self._bury(rows, np.minimum.reduce(births), np.maximum.reduce(births))

    def _bury(self, dead: np.ndarray, oldest: int, newest: int) -> None:
        """Record rows of a dead list, born in versions `oldest` to `newest`; release pages of
        this transaction.
        """
        if newest >= self.version or oldest <= self.origin:
            _, pages, births = dead.T
            born = self._owns & (births == self.version)
            self._released.append(pages[born])
            dead = dead[~born & (births > self.origin)]
        self.retired.frombytes(dead.tobytes())

    def retire_pages(self, ids: np.ndarray) -> None:
        """Like `retire`, with the births from the pages' headers."""
        self.retire(np.stack([ids, self.pages.words[ids * self.pages.page_words + BIRTH]], axis=1))

    @contextmanager
    def retiring_into(self, lineage: int, origin: int = 0) -> Iterator[None]:
        """Retire pages into another lineage inside the block."""
        before = self.lineage, self.origin
        self.lineage, self.origin = lineage, origin
        try:
            yield
        finally:
            self.lineage, self.origin = before

    def write_run(self, record: WordList, purpose: int) -> Run:
        """Write a record to consecutive fresh pages; `purpose` is stored in place of a tree id."""
        run = self.reserve_run(len(record))
        return self.fill_run(run, record, purpose)

    def reserve_run(self, words: int) -> Run:
        """Reserve consecutive pages for a record of `words` words."""
        n = run_pages(words, self.mapping.pages.page_words)
        if n == 1:
            at = self._position
            if at == len(self._pool):
                self._refill(1)
                at = self._position
            self._position = at + 1
            return Run(int(self._pool[at]), words)
        return Run(int(self.reserve_consecutive(n)[0]), words)

    def next_run(self) -> int:
        """Return where a long run of pages will probably begin: after the last used page.
        O(allocated pages).
        """
        self._close_segment()
        allocated = self.allocated()
        self._pool = self._pool[: len(self._pool) - self.free_list.retract(allocated)]
        self.give_back()
        return self.free_list.top

    def reserve_consecutive(self, n: int) -> np.ndarray:
        """Reserve n consecutive pages for this transaction. O(pages up to there)."""
        self._close_segment()
        self.give_back()
        first = self.free_list.allocate_run(n)
        ids = np.arange(first, first + n)
        self._consumed.append(ids)
        return ids

    def fill_run(self, run: Run, record: WordList, purpose: int) -> Run:
        """Write a record to the run reserved for it, padded with zeros; return the run with the
        record's stamp.
        """
        page_words = self.pages.page_words
        arena, ids = pages_of_run(run, record, self.version, purpose, page_words)
        self._put(run.page + len(ids), self.mapping.file.write_pages, arena, ids, page_words)
        return Run(run.page, run.length | int(arena[STAMP]) << LENGTH_BITS)

    def write_free_pages(self, before: Run) -> tuple[Run, np.ndarray]:
        """Write all free pages anew, in place of an earlier run; return the run, and its pages,
        counted as used.
        """
        space = self.free_list
        space.free(word_list(before.ids(self.pages.page_words)))
        run = self.reserve_run(2 * len(space.extents(self.allocated())) + 512)
        used = self.hand_over()
        space.use(used)  # before the difference is computed anew
        out = RecordWriter(FREE)
        out.put_list(to_word_list(space.checkpoint(self.allocated()).ravel()), 2)
        return self.fill_run(run, out.words, FREE), used

    def retire_run(self, run: Run) -> None:
        """Note that the pages of a record are free once no version that has them is retained."""
        self.retire_pages(np.array(run.ids(self.pages.page_words), np.int64))

    def mark(self) -> Mark:
        """Return a point to `rewind` to; until `unmark`, pages that a rewind would need are not
        reused. O(1).
        """
        self._marks += 1
        return Mark(
            len(self._consumed),
            self._position - self._start,
            len(self._released),
            len(self.retired),
        )

    def rewind(self, mark: Mark) -> None:
        """Undo the reservations, releases and retirements since the mark. O(calls since)."""
        self._close_segment()
        since = self._consumed[mark.consumed :]
        if since:
            since[0] = since[0][mark.opened :]
        self._released[mark.released :] = since
        del self.retired[mark.retired :]

    def unmark(self) -> None:
        """Let pages be reused again that only a rewind to the last mark would have needed."""
        self._marks -= 1

    def begin(self, version: int, lineage: int, origin: int, owns: bool = True) -> None:
        """Start the transaction that makes `version`, or, unless it `owns` the pages of that
        version, adds to it.
        """
        self.version, self.lineage, self.origin, self._owns = version, lineage, origin, owns
        self._retired_before = len(self.retired)

    def is_untouched(self) -> bool:
        """Return whether the transaction has taken and retired no page."""
        return not (self.taken() or self._released) and len(self.retired) == self._retired_before

    def is_fresh(self) -> bool:
        """Return whether the transaction has taken and retired no page, and `retract` has
        nothing to do at its end.
        """
        if (
            self._position > self._start
            or self._consumed
            or self._released
            or self.retired
            or self.frugal
        ):
            return False
        return len(self._pool) - self._position <= SPARE_PAGES or bool(
            self._pool[-1] < self.free_list.top - 1
        )

    def has_taken(self, n: int) -> bool:
        """Return whether the transaction has taken n adjacent pages, and given none back."""
        return self._position - self._start == n and not (self._consumed or self._released)

    def taken(self) -> int:
        """Return how many pages were handed out, an upper bound of those the transaction keeps."""
        before = sum(map(len, self._consumed)) if self._consumed else 0
        return before + self._position - self._start

    def hand_over(self) -> np.ndarray:
        """Return the pages that the transaction keeps, and forget them."""
        if self._consumed or self._released:
            self._close_segment()
            kept = self._kept()
        else:  # mostly all pages are of one pool
            kept = self._pool[self._start : self._position]
            self._start = self._position
        self._consumed, self._released, self._marks = [], [], 0
        return kept

    def retract(self) -> None:
        """Give back allocated pages at the end of the file if they are many, or the disk is
        full. O(pages).
        """
        most = 0 if self.frugal else SPARE_PAGES
        if len(self._pool) - self._position > most and self._pool[-1] == self.free_list.top - 1:
            self._pool = self._pool[
                : len(self._pool) - self.free_list.retract(self._pool[self._position :])
            ]

    def allocated(self) -> np.ndarray:
        """Return the allocated pages that were not handed out yet."""
        return self._pool[self._position :]

    def give_back(self) -> None:
        """Give the allocated pages back to the free list, between transactions."""
        self.free_list.take_back(self.allocated())
        self._pool = np.zeros(0, np.int64)
        self._start = self._position = 0

    def _refill(self, n: int) -> None:
        """Make a new pool of at least n pages: the rest of the old one, released pages, free pages."""
        self._close_segment()
        if not self._marks and sum(map(len, self._released)) >= REUSE_PAGES:
            self._consumed = [self._kept()]
        left = self.allocated()
        ready = 0 if self.free_list.appending else len(self.free_list)
        ahead = 0 if self.frugal else AHEAD_PAGES
        more = self.free_list.allocate(
            max(n + ahead - len(left), min(n + POOL_PAGES - len(left), ready))
        )
        self._pool = np.concatenate([left, more])
        self._pool.sort()
        self._start = self._position = 0

    def _kept(self) -> np.ndarray:
        """Return the pages handed out except the released ones, which become free again."""
        parts = self._consumed
        kept = parts[0] if len(parts) == 1 else np.concatenate([self._pool[:0], *parts])
        if self._released:
            self.free_list.take_back(np.concatenate(self._released))
            self._released = []
            kept = kept[~self.free_list.is_free(kept)]
        return kept

    def _close_segment(self) -> None:
        if self._position > self._start:
            self._consumed.append(self._pool[self._start : self._position])
            self._start = self._position
