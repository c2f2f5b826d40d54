"""Small commits of the same relations, one after the other: what they need stays laid out in arrays
between them.

    a transaction      objects of Python ──▶ record ──▶ kernel ──▶ slot ──▶ objects of Python
    in a series        arrays            ──▶           kernel ──▶ slot

A commit of a series is on the disk like any other, and no object says so. Whoever reads the store
next, or writes to it in another way, reads the record of the newest commit, as if another process
had made it (`state_after`).

What does not fit is done by a transaction, from the start: until a commit's record is written
whole, only free pages have changed. So a series that fails in whatever way just ends, and free
pages are read anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.layout import CRC, FIRST_PAGE, HEADER, WORD, Pages
from pagestore.runtime.lazy import crc32c
from pagestore.storage.kernels.record import (
    BRANCHES,
    CHECKSUM,
    EXTENT_WORDS,
    FINISH_WORDS,
    HEAD,
    LISTED,
    MADE_PAGES,
    READY,
    RECENT,
    RECORDED,
    ROOT_ROWS,
    ROOTS,
    Finish,
    RecordRun,
    Span,
)
from pagestore.storage.kernels.record import ORIGIN as SINCE
from pagestore.storage.kernels.write import FD
from pagestore.storage.mapping import Run, extents_of, run_pages
from pagestore.storage.meta import FORMAT, SEQUENCE, SLOT_SIZE, sequence_in
from pagestore.storage.pager import NO_ORIGIN
from pagestore.storage.records import WordList, empty_list, rows
from pagestore.trees.edit import PAGES_MAX, EditQueues
from pagestore.trees.kernels.arguments import PageAccounts
from pagestore.trees.kernels.edit_groups import GONE
from pagestore.trees.tree import Tree
from pagestore.versions.catalog import MAIN_ID, RETAIN_ALL
from pagestore.versions.commit_record import TIME_END, Commit, checksum_of, lie_within
from pagestore.versions.committer import Committer
from pagestore.versions.locks import Writer
from pagestore.versions.offers import Joint
from pagestore.versions.store_state import Head, StoreState, batch_of
from pagestore.versions.version_table import DEAD, RECENT_MAX, Entry, VersionTable

TOP, CHECKPOINT = 11, 17  # words of a record's head
SLOT_WORDS, SLOT_TOP = range(SEQUENCE + 3, SEQUENCE + 5)
FREED_MAX = 1 << 10  # pages that the versions of one commit may free
GROUP_EXTENTS = 1 << 9  # runs of pages of a group of commits
OTHER_SEQUENCE = SLOT_SIZE // WORD + SEQUENCE
ROW = 5  # words of an entry of the recent versions
put_3, put_8 = Struct("3q").pack_into, Struct("8q").pack_into  # numpy takes as long for each word
Edit = tuple[int, tuple[Any, ...]]  # an action, and a row or a key to erase
MICROSECONDS = 100_000  # between checks that the file is in its place, unless a commit is synced
NAMED = tuple.__new__  # makes a named tuple without its constructor, which Python would run
NONE_FREED = Span(0, 0)
NO_PAGES = np.zeros(0, np.int64)


class Made(NamedTuple):
    """The newest commit of a series."""

    sequence: int
    version: int
    page: int
    timestamp: int


class Views(NamedTuple):
    """Views of arrays that a kernel shares, for single words: numpy takes longer."""

    state: memoryview
    taken: memoryview
    retired: memoryview


class Short(NamedTuple):
    """How a kernel commits edits of one relation, in a series.

    `queues` are for all trees that change, that of the relation in group `group`; `checked` are
    numbers of trees: a commit that changes one of them is left to a transaction. `call` gets what
    `EditQueues.begin` returns, then `more`; its kernel begins with `begin_commit`, and ends with
    `finish_commit` if there is nothing for Python to do. `done` is called after each commit.
    `words` makes words of the values of edits, and returns None for those of a transaction; without
    it they are words.
    """

    queues: EditQueues
    group: int
    checked: np.ndarray
    call: Callable[..., object]
    more: tuple[object, ...] = ()
    done: Callable[[], None] | None = None
    words: Callable[[list[Edit]], list[Edit] | None] | None = None


class Series:
    """Commits of the edits in some queues, by one handle, which holds the writer's lock for each."""

    _under_way = False  # whether a commit is, or was broken off
    _spent = _at = 0  # pages used of those at hand, since the pager was told, and in all
    _look = 0
    _pool = _written = (
        NO_PAGES  # at hand; of a checkpoint that the next commit is the first to have
    )
    _freed = NONE_FREED
    _accounts: PageAccounts | None = None  # what the kernel takes, until pages or lists change

    def __init__(
        self, committer: Committer, subject: object, short: Short, trees: Mapping[int, Tree]
    ) -> None:
        """Lay out what follows from the newest commit, whose trees by number are `trees`, if
        `may_begin`.

        `subject` says what the edits are of. Raises OSError if the disk is full.
        """
        queues, self._group, self._checked, self._call, more, self._done, self._words_of = short
        state, page_words = committer.state, committer.mapping.pages.page_words
        self._committer, self._pager = committer, committer.pager
        self._file, self._words = committer.mapping.file, page_words - HEADER
        self.queues, self.subject = queues, subject
        self._record = record = state.commit  # keeps memory that kernels see
        self.made = Made(state.sequence, state.last_version, state.run.page, record.timestamp)
        self._lay_out_lists(state, len(queues.numbers))
        self._keys = queues.keys(self._group)
        changing = [trees[number] for number in queues.numbers]
        (arrays, self._taken, self._retired), working, apply, self._least = queues.begin_series(
            changing, page_words
        )
        # what the kernel takes after pages and accounts, each time
        self._given = arrays, working, apply, *more
        self._lay_out_slot(committer.meta(record, state.run, clean=False).pack())
        self._extents = np.zeros(2 * (GROUP_EXTENTS + PAGES_MAX), np.int64)
        self._used, self._room = np.zeros(1 + PAGES_MAX, np.int64), np.zeros(self._words, np.int64)
        self._arena, self._record_id = np.zeros(page_words, np.int64), np.zeros(1, np.int64)
        retain, old = state.settings.retain, state.versions.tree.count
        self._drops, self._retain = retain != RETAIN_ALL and not old, retain
        self._most = RECENT_MAX + 1
        if retain != RETAIN_ALL:
            self._most = min(self._most, retain + batch_of(retain) - 1 - old)
        self.dead: dict[int, bytes] = {}  # the words of each version's dead list
        self._dropped: set[int] = set()  # the versions that the next commit drops
        self._supply()
        self._continue_group()

    def _lay_out_slot(self, slot: bytes) -> None:
        """Lay out the meta slot of the next commit, and the state that its kernel continues from."""
        self._state = np.zeros(FINISH_WORDS, np.int64)
        self._state[[READY, SINCE]] = 1, NO_ORIGIN
        self._state[LISTED] = self._committer.sync == "commit"
        self._state[ROOT_ROWS] = len(self._record.roots) // 4
        self._views = Views(*map(memoryview, (self._state, self._taken, self._retired)))  # type: ignore[arg-type]
        self.slot = np.frombuffer(bytearray(slot), np.int64)
        self.slot[SLOT_WORDS] = self._words
        self._slot = memoryview(self.slot).cast("B")  # type: ignore[arg-type]
        self._body, self._crc = self._slot[: -WORD // 2], self._slot[-WORD // 2 :].cast("I")

    def _lay_out_lists(self, state: StoreState, trees: int) -> None:
        """Lay out the words of the next record, and the lists that change with each."""
        record = state.commit
        numbers = state.next_tree, state.next_branch, state.next_text
        kept = *numbers, record.top, record.catalog, record.settings, record.checkpoint
        about = 0, state.last_version, 0, 0, MAIN_ID, 0, 0, *kept
        before = Commit(*about, system=record.system)
        self._said = np.array(before.gather_arguments(), np.int64)
        self._roots = np.zeros(len(record.roots) + 4 * trees, np.int64)
        self._roots[: len(record.roots)] = record.roots
        self._recent = np.zeros(ROW * (RECENT_MAX + 2), np.int64)
        self._recent[: len(record.recent)] = record.recent
        self._versions = len(record.recent) // ROW
        self._branches = np.array((MAIN_ID, 0, 0, self._words, NO_ORIGIN), np.int64)
        lists = (ROOTS, self._roots), (RECENT, self._recent), (BRANCHES, self._branches)
        for number, words in lists:
            self._said[HEAD + 2 * number : HEAD + 2 * number + 2] = words.ctypes.data, len(words)

    def _continue_group(self) -> None:
        """List the pages of commits that no slot leads to yet: the slot of the next makes them
        durable, too.
        """
        group = self._committer.group
        if group and self._state[LISTED]:
            written = np.setdiff1d(
                np.concatenate(group), np.array(self._pager.free_list.pending, np.int64)
            )
            self._extents = np.concatenate([self._extents, np.zeros(2 * len(written), np.int64)])
            self._list(written)

    def _list(self, written: np.ndarray) -> None:
        """List pages in the record of the next commit, besides those that the commit writes."""
        words, n = extents_of(written), int(self._state[EXTENT_WORDS])
        self._extents[n : n + len(words)], self._state[EXTENT_WORDS] = words, n + len(words)
        self._said[CHECKSUM] += checksum_of(self._committer.mapping, written)

    def _supply(self) -> None:
        """Take free pages, enough for one commit, and extend the file for them. Raises OSError
        if the disk is full.
        """
        pager = self._pager
        self._tell()
        pager.spare = self._committer.reserve
        self._pool, self._at = pager.at_hand(self._least, PAGES_MAX), 0
        self._ids, self._last = memoryview(self._pool), len(self._pool) - self._least  # type: ignore[arg-type]
        self._writer = pager.make_room(int(self._pool.max()) + 1)
        self._look_at(pager.mapping.pages)
        self._said[TOP] = self.slot[SLOT_TOP] = pager.free_list.top
        self._make_room()

    def _look_at(self, pages: Pages) -> None:
        """Read pages and meta slots from a map of the file from now on."""
        self._pages, self._accounts = pages, None
        self._slots = memoryview(pages.words[: 1 + OTHER_SEQUENCE])  # type: ignore[arg-type]

    def _make_room(self) -> None:
        """Enlarge the lists of free pages for what commits use until the next call, and for what
        one commit frees.
        """
        freed, self._lists, self._place = self._pager.free_list.make_room(
            len(self._pool) + FREED_MAX
        )
        self._freed, self._accounts = Span(*freed.buffer_info()) if freed else NONE_FREED, None

    def _tell(self) -> None:
        """Tell the pager which pages were used; the kernel has counted them, and those freed."""
        if self._spent:
            self._pager.spend(self._spent)
            self._pager.free_list.counted(self._spent)
            if self._freed is not NONE_FREED:
                self._freed, self._accounts = NONE_FREED, None
            self._spent = 0

    def _remap(self) -> bool:
        """Use the file's newest map; return False if there is none, since the store was closed."""
        mapping = self._committer.mapping
        if mapping.valid:
            self._writer = self._file.page_writer
            self._look_at(mapping.pages)
        return mapping.valid and bool(self._writer[FD] >= 0)

    def commit(self, edits: list[Edit], waiting: Sequence[Writer], joint: Joint) -> None:
        """Make edits a version, `joint`, which has none if a transaction must do that, from the
        start.

        What `waiting` writers offer, and other processes, is made in the same commit if that is of
        other keys. The caller holds the writer's lock and the committer's, and passes exceptions to `fail`.
        """
        committer, made = self._committer, self.made
        if self._under_way or (committer.mapping.pages is not self._pages and not self._remap()):
            return
        if committer.shared and not committer.shared.is_newest(made.version):
            return  # another process has committed
        known = committer.slot_sequence, committer.next_sequence - 1  # the latter is being written
        # read last, as in Handle
        newest, other = self._slots[SEQUENCE], self._slots[OTHER_SEQUENCE]
        if (newest if newest > other else other) not in known:
            return
        words = self._words_of(edits) if self._words_of else edits
        if words and (waiting or joint.offers):
            words = self._united(words, waiting, joint)
        if (
            committer.failure
            or committer.poison
            or not (words and self.queues.put(words, self._group))
        ):
            return
        self._under_way = True
        slot, next_sequence = known
        sequence = 1 + (slot if slot > next_sequence else next_sequence)
        now = time.time_ns() // 1000
        if not made.timestamp + 1 < now < TIME_END:
            now = committer.locks.time_of(made.version + 1, made.timestamp)
        if committer.sync != "off" or now >= self._look:
            self._file.check_place()
            self._look = now + MICROSECONDS
        if self._at > self._last:
            self._supply()  # first, since it counts what earlier commits freed
        if self._versions >= self._most and not self._drop():
            self._under_way = False
            self.end()
            return
        next_ = NAMED(Made, (sequence, made.version + 1, self._ids[self._at], now))
        if not self._make(next_, joint):  # what has failed shows when a transaction does the same
            self.end()
            return
        self._adopt(next_, joint)
        if self._done:
            self._done()

    def _united(self, edits: list[Edit], waiting: Sequence[Writer], joint: Joint) -> list[Edit]:
        """Return edits in words, and those that writers offer of keys that nobody before them has.

        So each row is as if the writers had come one after the other.
        """
        united, width = [*edits], self._keys
        keys = {row[:width] for _, row in edits}

        def joins(offered: list[Edit]) -> bool | None:
            """Take edits in, if they are of other keys; return None if a transaction is to make them."""
            words = self._words_of(offered) if self._words_of else offered
            if not words:
                return None
            written = {row[:width] for _, row in words}
            fits = keys.isdisjoint(written)
            if fits:
                united.extend(words)
            keys.update(written)
            return fits

        for writer in waiting:
            assert writer.offer
            fits = joins(writer.offer.edits)
            if fits is None:
                break
            if fits:
                writer.joint = joint
        joint.offered = [offered for offered in joint.offers if joins(offered.edits)]
        return united

    def _make(self, made: Made, joint: Joint) -> bool:
        """Make the edits and write the record by one kernel call; return whether all was done."""
        (sequence, version, _, now), (state, taken, retired) = made, self._views
        if joint.offered and self._committer.offers:
            joint.tried = True
            self._committer.offers.take(joint.offered, version, now)
        alone = not self._committer.group
        if self._written is not NO_PAGES and state[LISTED]:
            state[EXTENT_WORDS] = self._said[CHECKSUM] = 0
            self._list(self._written)
            alone = False
        put_8(
            state, WORD * RECORDED, -1, 1, alone, sequence, version, now, self._versions, self._at
        )
        self._call(self._pages, self._accounts or self._arranged(), *self._given)
        if state[RECORDED] != 1:
            # else nothing was counted or dropped, and the pages are free
            self._under_way = state[RECORDED] >= 0
            return False
        self.dead[version] = bytes(retired[: taken[GONE]])
        return True

    def _arranged(self) -> PageAccounts:
        """Return the pages at hand, and the lists of free pages, as the kernel takes them until
        either changes.
        """
        run = RecordRun(self._room, 0, 0, self._arena, self._record_id)
        record = self._state, self._said, self._roots, self._extents, self._used, self._checked
        finish = Finish(*record, self._freed, self._lists, self._place, run)
        pages = self._writer, 0, MAIN_ID, self._pool, self._taken, self._retired
        self._accounts = accounts = PageAccounts(*pages, finish)
        return accounts

    def _adopt(self, made: Made, joint: Joint) -> None:
        """Continue from a commit whose record was written, and write its slot, unless that is
        done after a sync.
        """
        committer, count = self._committer, 1 + self._views.state[MADE_PAGES]
        used = self._used[:count]
        committer.poison = committer.interrupted  # until the outcome is known
        self._file.wrote(used)
        put_3(self._slot, WORD * SEQUENCE, made.sequence, made.version, made.page)
        self._crc[0] = crc32c.crc32c(self._body)
        if committer.sync == "off":
            self._file.pwrite(self._slot, SLOT_SIZE * (made.sequence & 1))
        self._versions += 1
        self._at += count
        self._spent += count
        self.made = made
        if self._freed is not NONE_FREED:
            self._tell()
        committer.made += 1
        joint.version, joint.number = made.version, committer.made
        if committer.sync == "off":
            committer.durable, committer.slot_sequence = committer.made, made.sequence
            committer.slot_version = made.version
            committer.completed += 1
            if self._dropped:
                self._pager.free_list.reuse_pending(len(self._pager.free_list.pending))
                committer.locks.unlock(self._dropped)
        else:
            self._join_group(used)
        self._dropped = set()
        self._written = NO_PAGES
        self._under_way = False
        committer.poison = None

    def _join_group(self, used: np.ndarray) -> None:
        """Add a commit to those that no slot leads to: with sync="commit", later ones list it."""
        committer, n = self._committer, int(self._state[EXTENT_WORDS])
        apart = self._written is NO_PAGES
        committer.note_unsynced(used.copy() if apart else np.concatenate([self._written, used]))
        if self._state[LISTED]:
            page, words = int(used[0]), self._pages.words
            self._extents[n : n + 2], self._state[EXTENT_WORDS] = (page, 1), n + 2
            self._said[CHECKSUM] += words[page * self._pages.page_words + CRC]

    def _drop(self) -> bool:
        """Prepare the next commit to drop the oldest versions; return False if only a
        transaction can do that.
        """
        committer, space = self._committer, self._pager.free_list
        # not the newest, nor that to which the newest slot leads, which others read until the next
        n = min(
            self._versions - max(1, self._retain - 1), committer.slot_version - int(self._recent[0])
        )
        if n < 1 or not self._drops:
            return n < 1 and self._versions <= RECENT_MAX
        entries = [NAMED(Entry, row) for row in rows(self._recent[: ROW * (n + 1)].tolist(), ROW)]
        doomed, first, due = entries[:n], entries[0].version, space.checkpoint_due()
        if committer.group and due:
            return False
        if [entry.version for entry in entries] != [*range(first, first + n + 1)]:
            return False
        freed = self._freed_by(entries)
        if len(freed) > FREED_MAX or not lie_within(freed, FIRST_PAGE, space.top):
            return False
        locked = committer.locks.lock(doomed, self.made.version)
        if locked != doomed:
            committer.locks.unlock([entry.version for entry in locked])
            return False
        self._dropped = {*range(first, first + n)}
        space.free(freed)
        if due:
            self._checkpoint()
        self._make_room()
        self._versions -= n
        self._recent[: ROW * self._versions] = self._recent[
            ROW * n : ROW * (n + self._versions)
        ].copy()
        for version in self._dropped:
            self.dead.pop(version, None)
        return True

    def _freed_by(self, entries: list[Entry]) -> WordList:
        """Return the pages that dropping all but the last of consecutive versions frees."""
        freed, page_words, dead_of = empty_list(), self._pages.page_words, self._committer.dead_of
        dead = [self.dead.get(entry.version) for entry in entries[1:]]
        kept = [words for words in dead if words is not None]
        freed.frombytes(b"".join(kept))
        freed = freed[1::3]
        if len(kept) < len(dead):
            for entry, words in zip(entries[1:], dead, strict=True):
                if words is None:
                    freed.extend(dead_of(entry.version)[1::3])
        for entry in entries[:-1]:
            if entry.words + HEADER <= page_words:  # mostly
                freed.append(entry.page)
            else:
                freed.extend(range(entry.page, entry.page + run_pages(entry.words, page_words)))
        return freed

    def _checkpoint(self) -> None:
        """Write all free pages anew, for the next commit; if that fails, they are read anew from
        the one before.

        Raises OSError if the disk is full.
        """
        pager = self._pager
        self._tell()
        pager.version = self.made.version + 1
        run, self._written = pager.write_free_pages(
            Run(*self._said[CHECKPOINT : CHECKPOINT + 2].tolist())
        )
        self._said[CHECKPOINT : CHECKPOINT + 2] = run
        self._supply()

    @property
    def newest(self) -> tuple[int, int]:
        """The sequence and the version of the newest commit."""
        return self.made.sequence, self.made.version

    def state_after(self, before: StoreState) -> StoreState:
        """Return the state of the newest commit, given that of an earlier one of the series, or the
        one before it.

        If another process has committed since, that commit's record may be gone: the series ends,
        and `before` is returned, which is then no longer the newest state in any case.
        """
        _, version, page, _ = self.made
        if version == before.last_version:
            return before
        run = Run(page, self._words)
        try:
            record = Commit.read(self._committer.mapping, run, version)
        except CorruptionError:
            if not self._is_overtaken:
                raise
        if self._is_overtaken:
            self._committer.series, self._committer.is_pager_current = None, False
            return before
        versions = VersionTable(
            [*map(Entry.of, rows(record.recent, ROW))], record.recent, before.versions.tree
        )
        after = before._replace(sequence=record.sequence, last_version=version, versions=versions)
        return after._replace(heads={MAIN_ID: Head(version, run)}, commit=record, run=run)

    @property
    def _is_overtaken(self) -> bool:
        """Whether another process has committed after the newest commit made here."""
        committer, lock = self._committer, self._committer.file_lock
        own = max(committer.slot_sequence, committer.next_sequence - 1)  # written, or being written
        return (
            not (lock is None or lock.lasting) and sequence_in(committer.mapping.pages.words) > own
        )

    def end(self) -> None:
        """Leave the next commit to a transaction."""
        if self._dropped or self._under_way:
            self.fail()
        else:
            self._tell()
            self._committer.end_series(True)

    def fail(self, error: BaseException | None = None) -> bool:
        """Give up the commit under way, whose pages are free again, and leave the next one to a
        transaction.

        Return whether an error is to be raised: a transaction cannot do better.
        """
        committer = self._committer
        if error and committer.poison:
            committer.give_up(error)
        else:
            committer.locks.unlock(self._dropped)
        committer.end_series(False)
        return not isinstance(error, OSError) or committer.cause is not None


def may_begin(committer: Committer) -> bool:
    """Return whether the next commits may be a series: one branch, and nothing is left over."""
    state, space, mapping = committer.state, committer.pager.free_list, committer.mapping
    return bool(
        not state.commit.administrative
        and state.heads.keys() == {MAIN_ID}
        and state.heads[MAIN_ID].version == state.last_version == state.commit.version
        and not state.settings.tags
        and not state.system[DEAD.tree_id].count
        and len(state.versions.recent) <= RECENT_MAX
        and committer.format == FORMAT
        and committer.is_pager_current
        and committer.pager.is_fresh()
        and space.top <= len(mapping.pages.seen)
        and mapping.file.page_writer[FD] >= 0
    )
