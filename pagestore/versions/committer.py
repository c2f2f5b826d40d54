"""Commits: how a transaction's trees become a version, in an order that survives a crash at any
point.

    1. versions beyond retention are locked against readers and dropped (version_table.py)
    2. the commit's record is written: roots, dead list, free space, recent versions
    3. fdatasync                                  (sync="full")
    4. the meta slot that is not the newest one is written
    5. fdatasync                                  (sync="full" and "commit")
    6. freed pages may be reused

Steps 1 and 2 are `commit`, after which the next transaction may do the same; the others are
`complete`, which one thread does for all commits made so far, while the others wait. So commits of
several threads share syncs, and a slot leads to the last one of a group. The commits of a group
have the same sequence, since that counts what slots led to.

Until 4 is on disk the store is in its previous state, and nothing it needs was overwritten, since
pages freed by commit n are reused at the earliest by commit n + 1. With sync="commit" steps 2 and 4
may reach the disk in any order, so the record lists the pages of the commit and the sum of their
checksums; opening after a crash verifies them and falls back to the commit before.

Any exception in these steps, from the disk or a signal, poisons the handle, since what is on disk
is then unknown. An exception before them costs only the transaction: its pager, with the free
pages, is discarded, and made anew from the last commit when the next transaction begins.
"""

import time
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from pagestore.errors import CorruptionError, PoisonedError
from pagestore.pages.layout import FIRST_PAGE
from pagestore.runtime.forks import thread_lock
from pagestore.storage.free_list import FreeList
from pagestore.storage.kernels.write import FD
from pagestore.storage.mapping import FULL, Mapping, Run, extents_of
from pagestore.storage.meta import FORMAT, SLOT_SIZE, Meta, slot_of, sync_all
from pagestore.storage.pager import AHEAD_PAGES, NO_ORIGIN, STORE_LINEAGE, Pager, Work
from pagestore.storage.records import CATALOG, WordList, empty_list, word_list
from pagestore.storage.records import SETTINGS as SETTINGS_RUN
from pagestore.trees.edit import EditQueues
from pagestore.trees.tree import Spec, Tree
from pagestore.values.dictionary import TEXT_TREES
from pagestore.versions.catalog import MAIN_ID, Catalog, Settings
from pagestore.versions.commit_record import (
    Commit,
    RecordRoom,
    checksum_of,
    divide,
    free_pages_of,
    lie_within,
)
from pagestore.versions.kernel_commit import (
    Draft,
    KernelCommit,
    KernelCommitBuffers,
    UnreadCommits,
    lay_out,
)
from pagestore.versions.locks import FileLock, SyncedCommits, VersionLocks
from pagestore.versions.offers import Offers
from pagestore.versions.shared_syncs import Newest, SharedSyncs
from pagestore.versions.store_state import (
    Head,
    StoreState,
    Version,
    excess_versions,
    older_than_shown,
    roots_of,
)
from pagestore.versions.sync_queue import SyncQueue
from pagestore.versions.version_table import (
    DEAD,
    RECENT_MAX,
    VERSION_TREE,
    DeadList,
    Entry,
    Reclaim,
    VersionTable,
)

DEAD_LISTS_CACHED = 256
# pages of commits that were not synced, after which the next transaction waits for that
GROUP_PAGES = 1 << 12
SYNCS = ("full", "commit", "off")
LOOK_AGAIN = 0.1  # seconds between checks that the file is in its place


class Interrupted(Exception):
    """The poison of a handle during a commit, in case an exception ends the commit unnoticed."""


class Committer:
    """The writer's half of a store: free space, and the sequence of commits."""

    shared: SharedSyncs | None = None  # with other processes, if these share syncs (sync_modes.py)
    offers: Offers | None = None  # of other processes, if syncs are shared
    # says which version, of which time, has what other processes have offered to the next commit
    taking: Callable[[int, int], None] | None = None
    series: UnreadCommits | None = None  # the commits that `state` lacks, if there are any
    prepared: object = None  # what the newest transaction was of, if a series may follow
    poison: BaseException | None = None
    failure: BaseException | None = None  # of writing a slot: what that leads to may be lost
    made = durable = 0  # commits made here, and those of them that are durable
    completed = 0  # times that commits were made durable
    next_sequence = 0  # the least sequence of a commit
    is_pager_current = False  # whether the pager's free pages are those of the last commit
    _look = 0.0  # when to check next that the file is in its place

    def __init__(
        self,
        mapping: Mapping,
        state: StoreState,
        meta: Meta,
        sync: str,
        locks: VersionLocks,
        threads: int = 1,
        synced: SyncedCommits | None = None,
        file_lock: FileLock | None = None,
        gather: float = 0.0,
    ):
        """Continue from a state; unless `file_lock` is held, another process may be changing the
        file.

        Other processes are told by `synced` of durable commits, if they may commit between two
        transactions. Before a sync, commits of other threads are waited for `gather` seconds.
        """
        self.mapping, self.state, self.sync = mapping, state, sync
        self.locks, self.threads = locks, threads
        self._synced, self.file_lock, self._gather = synced, file_lock, gather
        self.page_size, self.uuid, self.format = meta.page_size, meta.uuid, meta.format
        # its lock is held while commits are made durable; never taken with `lock` held
        self.syncs = SyncQueue()
        # held while something changes what will be committed, or commits it
        self.lock = thread_lock()
        # whether the next record says which pages may reach the disk after its slot
        self.lists = sync == "commit"
        # pages: enough for dropping versions, mostly
        self.reserve = 32 + 16_000 // mapping.pages.page_words
        # of the newest slot
        self._slotted = state
        self.slot_sequence, self.slot_version = state.sequence, state.last_version
        # the state in both slots, if the store was closed cleanly
        self._closed = state if meta.clean else None
        self.interrupted = Interrupted("a commit was interrupted")
        self.group: list[np.ndarray] = []  # pages of commits that no slot leads to
        self._dead: dict[int, DeadList] = {}  # cache of the dead lists of versions
        # of relations
        self.queues: dict[Spec, EditQueues] | None = (
            {} if mapping.file.page_writer[FD] >= 0 else None
        )
        self._room_of_records = RecordRoom()
        self._short_room = KernelCommitBuffers(mapping.pages.page_words)
        # whether the state was read while no other process could write
        self.is_ready = file_lock is None or file_lock.held
        if self.is_ready:
            self._open_pager()
        else:
            self.pager = Pager(mapping, FreeList(state.commit.top), threads, Work(self.lock))

    def _open_pager(self) -> None:
        """Make a pager with the free pages of the last commit."""
        commit = self.state.commit
        space = FreeList(
            commit.top, free_pages_of(self.mapping, commit), commit.added, commit.removed
        )
        self.pager = Pager(self.mapping, space, self.threads, Work(self.lock))
        self.pager.retired = commit.dead_of_next()
        self.is_pager_current = True

    def follow(self, state: StoreState, meta: Meta, newest: Newest | None = None) -> None:
        """Continue from a commit of another process, by the writer's lock, or after an exception
        again by the next one.

        If syncs are shared, `newest` says what may not be durable."""
        with self.lock:
            before, made = self.state.commit, self.made
            same = before.checkpoint == state.commit.checkpoint and state.sequence > before.sequence
            self.is_pager_current = self.is_pager_current and self.is_ready and same
            self.is_ready = False
            self._closed = state if meta.clean else None
            self._slotted, self.format = state, meta.format
            slot = newest.slot if newest else meta
            self.slot_sequence, self.slot_version = slot.sequence, slot.version
            if self.is_pager_current:
                self.pager.give_back()
                self.pager.free_list.follow(
                    state.commit.top, state.commit.added, state.commit.removed
                )
                self.pager.retired = state.commit.dead_of_next()
            made += self.go_on(state, newest)
            assert self.file_lock
            # last, without calls, at which a signal could raise something
            self.state, self.made, self.file_lock.busy, self.is_ready = (
                state,
                made,
                made != self.made,
                True,
            )

    def go_on(self, _state: StoreState, _newest: Newest | None) -> bool:
        """Prepare to make the commit followed durable; return whether no slot leads to it."""
        return False

    def begin(self, branch: int) -> None:
        """Start the transaction that makes the next version on a branch."""
        self._begin(self.state.last_version + 1, branch, self.state.heads[branch].origin)

    def _begin(self, version: int, lineage: int, origin: int, owns: bool = True) -> None:
        if not (self.is_pager_current or self.is_following) or (
            self.group and sum(map(len, self.group)) > GROUP_PAGES
        ):
            self.flush()  # a new pager takes all pages that the newest commit says are free
        with self.lock:  # else the store might be closed meanwhile
            if self.failure or self.poison or self.pager.poison:
                self.check()
            now = time.monotonic()
            # a check takes nearly as long as an unsynced commit
            if self.sync != "off" or now >= self._look:
                self.mapping.file.check_place()
                self._look = now + LOOK_AGAIN
            if not self.is_pager_current:
                # a transaction that still uses the old pager must stop
                self.pager.work.broken = True
                self._open_pager()
            self.is_pager_current, self.pager.spare = False, 0
            self.pager.begin(version, lineage, origin, owns)

    def leave(self) -> None:
        """End a transaction that changed nothing; the pager remains valid if the transaction
        took no page either.
        """
        self.is_pager_current = self.pager.is_untouched()

    def check(self) -> None:
        """Raise PoisonedError if a write has failed."""
        # as the property `cause`, without a call of it
        if cause := self.failure or self.poison or self.pager.poison:
            raise PoisonedError(
                f"an earlier write failed ({cause}); store.reopen() goes back to the last commit"
            )

    @property
    def cause(self) -> BaseException | None:
        """What a write failed with: the handle is of no further use; None if none has failed."""
        return self.failure or self.poison or self.pager.poison

    @property
    def is_complete(self) -> bool:
        """Whether all commits are in a slot, and as durable as they will be."""
        return self.durable == self.made

    @property
    def is_following(self) -> bool:
        """Whether the newest commit is another process's, to which no slot leads."""
        return False

    def flush(self) -> None:
        """Return once all commits that were made are durable."""
        self.complete(self.made)

    def complete(self, number: int) -> None:
        """Return once the first `number` commits that were made here are durable, in their order.

        Waits for the sync under way, if there is one, and makes another one for all commits made
        until then. Raises PoisonedError if the sync of another thread has failed.
        """
        if self.durable < number:
            self.syncs.await_sync(number, self)

    def sync_made(self) -> None:
        """Make all commits durable; the caller holds the lock of `syncs`. See `complete`."""
        if self.failure:
            self.check()
        try:
            self._complete()
        except BaseException as error:
            self.give_up(error)
            raise

    def give_up(self, error: BaseException) -> None:
        """Commit nothing more, since it is unknown what is on the disk; let other processes do so."""
        # the others use the pages of commits that no slot leads to
        self.locks.end_after(self.slot_version)
        self.failure = self.failure or error
        self.locks.unlock(self.locks.going)
        if self.file_lock:
            self.file_lock.busy = False

    def _complete(self) -> None:
        """Make all commits durable, by steps 3 to 6; the caller holds the lock of `syncs`."""
        if self._gather:
            time.sleep(self._gather)
        with self.lock:
            state, made, space = self.state, self.made, self.pager.free_list
            going = self.locks.going
            series, format_, self.format = self.series, self.format, FORMAT
            freed, self.group = len(space.pending), []
            sequence, version = series.newest if series else (state.sequence, state.last_version)
            slot = (
                bytes(series.slot)
                if series and version > state.last_version  # else it has made no commit yet
                else self.meta(state.commit, state.run, clean=False).pack()
            )
            self.next_sequence = sequence + 1
        self._sync_slot(slot, sequence, format_)
        with self.lock:
            self._slotted, self.durable = state, made
            self.slot_sequence, self.slot_version = sequence, version
            self.completed += 1
            space.reuse_pending(freed)
            if going:
                self.locks.unlock(going)
            if self.file_lock:
                self.file_lock.busy = made != self.made and self.file_lock.held

    def _sync_slot(self, slot: bytes, sequence: int, format_: int) -> None:
        """Make a sequence's commits durable, by steps 3 to 5; before, the file had some format."""
        file, last = self.mapping.file, self._slotted
        if self.sync == "full":
            file.fdatasync()
        file.pwrite(slot, SLOT_SIZE * slot_of(sequence))
        if self.sync != "off":
            file.fdatasync()
        # else a library for the old format would take the commit before for the newest
        if format_ != FORMAT:
            file.pwrite(
                self.meta(last.commit, last.run, clean=False).pack(),
                SLOT_SIZE * slot_of(last.sequence),
            )
        if self._synced and self.sync != "off":
            self._synced.add(sequence)

    def note_unsynced(self, used: np.ndarray) -> None:
        """Note the pages of a commit of a series that no slot leads to yet."""
        self.group.append(used)
        if self.file_lock:
            self.file_lock.busy = True

    def catch_up(self) -> StoreState:
        """Return the state of the newest commit, also if it is one of a series."""
        with self.lock:
            if self.series:
                self.state = self.series.state_after(self.state)
            return self.state

    def end_series(self, whole: bool) -> None:
        """Leave the next commit to a transaction; unless `whole`, free pages are read anew."""
        with self.lock:
            self.catch_up()
            if self.series:
                if len(self._dead) + len(self.series.dead) > DEAD_LISTS_CACHED:
                    self._dead.clear()
                self._dead |= {
                    version: array("q", words) for version, words in self.series.dead.items()
                }
            self.series, self.is_pager_current = None, self.is_pager_current and whole

    def lay_out(
        self, draft: Draft, page: int, trees: int, checked: np.ndarray
    ) -> KernelCommit | None:
        """Lay out the record of a small transaction, unless it drops versions."""
        state, listed = self.state, self.sync == "commit"
        if (
            draft.settings
            or (listed and self.group)
            or excess_versions(state, self.mapping.pages, draft.branch)
        ):
            return None
        return lay_out(
            state,
            self.pager,
            self._short_room,
            self._sequence(),
            self.locks.time_of(state.last_version + 1, state.commit.timestamp),
            listed,
            draft,
            page,
            trees,
            checked,
        )

    def commit(self, draft: Draft, short: KernelCommit | None = None) -> Version:
        """Commit the next version; if `short` is the record of just this, adopt that.

        O(pages written + relations), two syncs at most.
        """
        if short and short.is_of(draft, self._sequence()):
            record, run, catalog = short.record, self._publish_short(short), draft.catalog
        else:
            record, run, catalog = self._commit(draft, short)
        if self.sync == "off":
            self.sync_made()
        return Version(
            record.version,
            draft.branch,
            record.parent,
            record.timestamp,
            draft.message,
            run,
            draft.trees,
            catalog,
        )

    def _commit(self, draft: Draft, short: KernelCommit | None) -> tuple[Commit, Run, Catalog]:
        """Write the record of a draft whatever another says; return it, its run and the catalog."""
        if short:
            short.discard()
        state, branch, trees = self.state, draft.branch, draft.trees
        parent, version, system = state.heads[branch].version, state.last_version + 1, state.system
        catalog = self._write_catalog(draft)
        timestamp = self.locks.time_of(version, state.commit.timestamp)
        if [*map(trees.get, TEXT_TREES)] != [*map(system.get, TEXT_TREES)]:
            system = {**system, **{number: trees[number] for number in TEXT_TREES}}
        record = Commit(
            self._sequence(),
            version,
            0,
            parent,
            branch,
            timestamp,
            version,
            draft.next_tree,
            state.next_branch,
            draft.next_text,
            catalog=catalog.run,
            roots=roots_of(trees, TEXT_TREES),
            message=draft.message,
        )
        settings = draft.settings or state.settings
        excess = excess_versions(state, self.mapping.pages, branch)
        if excess:
            run = self._publish_dropping(excess, parent, record, system, settings)
        else:
            run = self._publish(record, system, {**state.heads}, settings)
        return record, run, catalog

    def _publish_short(self, short: KernelCommit) -> Run:
        """Adopt a record that a kernel has written."""
        self.poison = self.interrupted
        try:
            used = short.complete()
        except OSError as error:
            self.poison = None if error.errno in FULL else error
            raise
        if self.sync == "commit":
            self.group.append(used)
        self._adopt(
            short.record,
            short.heads,
            short.versions,
            self.state.system,
            self.state.settings,
            short.run,
        )
        return short.run

    def _publish_dropping(
        self,
        excess: Sequence[Entry],
        parent: int,
        record: Commit,
        system: dict[int, Tree],
        settings: Settings,
    ) -> Run:
        """Publish a commit that drops those of some versions that nobody reads."""
        state, doomed = self.state, list[Entry]()
        try:
            # until its slot is written, which a sync or a pause of this process may precede
            old = older_than_shown(excess, parent, self.slot_version)
            doomed = self.locks.lock(old, parent)
            try:
                reclaim = self.plan(doomed)
            except CorruptionError:
                # versions that lead to a damaged page are kept; `check` names them
                doomed = [entry for entry in doomed if self._readable(entry)]
                reclaim = self.plan(doomed)
            return self._publish(record, system, {**state.heads}, settings, doomed, reclaim)
        except BaseException:
            self.locks.unlock({entry.version for entry in doomed})
            raise

    def administer(
        self,
        settings: Settings | None = None,
        heads: dict[int, Head] | None = None,
        doomed: Sequence[Entry] = (),
        next_branch: int | None = None,
        freed: Sequence[int] = (),
        shrink: bool = False,
    ) -> None:
        """Commit a change of the store's own data: tags, branches, retention, dropped versions.

        `freed` are the pages of a deleted branch's newest version.
        """
        state = self.state
        self._begin(state.last_version, STORE_LINEAGE, NO_ORIGIN, owns=False)
        if shrink:  # rewritten further to the front
            settings = (settings or state.settings)._replace()
            self.pager.give_back()
        settings_ = settings or state.settings
        record = Commit(
            self._sequence(),
            state.last_version,
            1,
            timestamp=state.commit.timestamp,
            last_version=state.last_version,
            next_tree=state.next_tree,
            next_branch=next_branch or state.next_branch,
            next_text=state.next_text,
        )
        reclaim = self.plan(doomed)
        reclaim.freed.extend(freed)
        self._publish(
            record, state.system, heads or state.heads, settings_, doomed, reclaim, shrink
        )
        self.flush()

    def _sequence(self) -> int:
        """Return the sequence of the next commit: one more than that of the newest slot, written
        or being written.
        """
        return max(self.next_sequence, self.slot_sequence + 1)

    def plan(self, doomed: Sequence[Entry]) -> Reclaim:
        """Compute what dropping versions frees; reads only. Raises CorruptionError if a dead
        list cannot be read.
        """
        state = self.state
        retained = state.versions.entries(self.mapping.pages) if doomed else ()
        reclaim = Reclaim(self.pager, state.system[DEAD.tree_id], retained, self.dead_of)
        simple = len(state.heads) == 1 and state.heads[MAIN_ID].origin == NO_ORIGIN
        for entry in doomed[reclaim.drop_first(doomed) if simple else 0 :]:
            reclaim.drop(entry, state.heads[entry.branch].origin)
        # the pager may be an old one
        if doomed and not lie_within(reclaim.freed, FIRST_PAGE, state.commit.top):
            raise CorruptionError(
                "the list of what dropping a version frees has pages that the store has not"
            )
        return reclaim

    def _readable(self, entry: Entry) -> bool:
        """Return whether everything needed to drop a version can be read."""
        try:
            self.plan([entry])
        except CorruptionError:
            return False
        return True

    # --- the protocol ---------------------------------------------------------------------------

    def _publish(
        self,
        record: Commit,
        system: dict[int, Tree],
        heads: dict[int, Head],
        settings: Settings,
        doomed: Sequence[Entry] = (),
        reclaim: Reclaim | None = None,
        shrink: bool = False,
    ) -> Run:
        """Write a commit's record, by steps 1 and 2; no slot leads to it yet."""
        pager, space, state = self.pager, self.pager.free_list, self.state
        freed = reclaim.freed if reclaim else empty_list()
        pager.retract()
        room = self._room(record, doomed, reclaim.edits if reclaim else 0)
        if pager.frugal or space.top + room + pager.spare > len(self.mapping.pages.seen):
            self._make_room(room)
        self.poison = self.interrupted  # until the outcome is known
        try:
            dead_tree = reclaim.finish() if reclaim else system[DEAD.tree_id]
            if state.commit.administrative:
                freed.extend(state.run.ids(self.mapping.pages.page_words))
            versions = state.versions.without(pager, doomed)
            if len(versions.recent) > RECENT_MAX:
                versions.spill(pager)
            if (
                dead_tree is not system[DEAD.tree_id]
                or versions.tree is not system[VERSION_TREE.tree_id]
            ):
                system = {**system, DEAD.tree_id: dead_tree, VERSION_TREE.tree_id: versions.tree}
            record.system = state.commit.system if system == state.system else roots_of(system)
            same = settings is state.settings
            record.settings = (
                state.commit.settings if same else self._write_settings(settings, freed)
            )
            record.dead, newest = pager.retired, versions.newest(self.mapping.pages)
            if newest != state.last_version:  # that was dropped with its branch
                record.dead = divide(pager.retired, newest, freed)
            if freed:
                space.free(freed)
            record.checkpoint = state.commit.checkpoint
            kept = self._checkpoint(record, shrink) if shrink or space.checkpoint_due() else []
            run = self._write_record(record, versions, heads, kept)
        except BaseException as error:
            full = isinstance(error, OSError) and error.errno in FULL
            self.poison = None if full else error  # None: only free pages were written
            raise
        for entry in doomed:
            self._dead.pop(entry.version, None)
        self._adopt(record, heads, versions, system, settings, run)
        return run

    def _adopt(
        self,
        record: Commit,
        heads: dict[int, Head],
        versions: VersionTable,
        system: dict[int, Tree],
        settings: Settings,
        run: Run,
    ) -> None:
        """Continue from a commit whose record was written."""
        self.pager.retired = record.dead_of_next()
        if not record.administrative:
            self._dead[record.version] = record.dead
        self.state = StoreState(
            record.sequence,
            record.last_version,
            record.next_tree,
            record.next_branch,
            record.next_text,
            heads,
            versions,
            system,
            settings,
            record,
            run,
        )
        self.made += 1
        if self.file_lock:
            self.file_lock.busy = True
        self.is_pager_current, self.poison = True, None

    def _make_room(self, pages: int) -> None:
        """Extend the file by `pages` pages, so that a full disk is noticed here, not half-way.

        Otherwise many free pages inside the file suffice; few do not, since a record takes adjacent
        pages. A commit that frees space tries in any case.
        """
        space, spare = self.pager.free_list, self.pager.spare
        try:
            self.mapping.grow(space.top + pages, spare)
            self.pager.frugal = False
        except OSError:
            self.pager.frugal = True
            self.pager.retract()
            if spare and len(space) + len(self.pager.allocated()) < pages + spare:
                raise

    def _room(self, record: Commit, doomed: Sequence[Entry], edits: int) -> int:
        """Return the most pages that a commit may need for its records, trees and allocations in
        advance.

        `edits` are those of the dead tree.
        """
        pager, page_words = self.pager, self.mapping.pages.page_words
        words = (
            len(record.roots) + len(pager.retired) + len(record.message) + 4 * len(pager.free_list)
        )
        words += 6000  # for lists of bounded length
        return (
            4 * words // page_words
            + 18
            + AHEAD_PAGES
            + self.state.versions.room(len(doomed), edits, page_words)
        )

    def dead_of(self, version: int) -> DeadList:
        """Return the dead list of a retained version."""
        dead = self._dead.get(version)
        if dead is None:
            if len(self._dead) >= DEAD_LISTS_CACHED:
                self._dead.clear()
            entry = self.state.versions.find(self.mapping.pages, version)
            assert entry is not None
            dead = self._dead[version] = Commit.read_dead(self.mapping, entry.run, version)
        return dead

    def _write_catalog(self, draft: Draft) -> Catalog:
        """Write the catalog if it changed; return the current one."""
        catalog, before = draft.catalog, draft.before
        if not draft.rewrite_catalog and (catalog is before or catalog.same_as(before)):
            return before
        self.pager.retire_run(before.run)
        catalog = catalog.copy()
        catalog.run = self.pager.write_run(catalog.encode(), CATALOG)
        return catalog

    def _write_settings(self, settings: Settings, freed: WordList) -> Run:
        """Write settings that have changed; return their run."""
        freed.extend(self.state.commit.settings.ids(self.mapping.pages.page_words))
        return self.pager.write_run(settings.encode(), SETTINGS_RUN)

    def _checkpoint(self, record: Commit, shrink: bool) -> list[np.ndarray]:
        """Write all free pages anew, since the difference has grown long, or pages at the end may
        be cut off.

        Returns the pages that the transaction has kept so far; the free list has recorded them.
        """
        pager, space, before = self.pager, self.pager.free_list, record.checkpoint
        kept = [pager.hand_over()]
        space.use(kept[0])
        if shrink:
            pager.give_back()
            space.trim()
            if not (before.page or space.checkpoint_due()):
                return kept
        record.checkpoint, written = pager.write_free_pages(before)
        return [*kept, written]

    def _write_record(
        self, record: Commit, versions: VersionTable, heads: dict[int, Head], kept: list[np.ndarray]
    ) -> Run:
        """Write the commit's record, which holds the place of its own run and the free space
        without it.

        `kept` are pages already recorded as kept by the transaction.
        """
        pager, space, page_words = self.pager, self.pager.free_list, self.mapping.pages.page_words
        taken = pager.taken()
        words = record.length() + 5 * (len(versions.recent) + 1 + len(heads)) + space.changed()
        words += taken + 2 * AHEAD_PAGES  # reserving the record's own run may free this many
        if self.lists:
            words += 2 * (sum(map(len, [*kept, *self.group])) + taken)
        words += 2 + 2 * words // (page_words // 2)  # reserving the run changes the lists
        run = pager.reserve_run(words)
        used = pager.hand_over()
        if not record.administrative:
            versions.add(
                Entry(record.version, run.page, run.words, record.timestamp, record.branch)
            )
            heads[record.branch] = Head(record.version, run, heads[record.branch].origin)
        record.top, record.recent = space.top, versions.words
        if record.top > len(self.mapping.pages.seen):
            # pages allocated in advance may lie after all that was written
            self.mapping.grow(record.top)
        record.branches.fromlist(
            [
                word
                for branch, (version, (page, count), origin) in heads.items()
                for word in (branch, version, page, count, origin)
            ]
        )
        if self.lists:
            self.group += [*kept, used]
            # what the group freed is written again later
            gone = np.array([*run.ids(page_words), *space.pending])
            written = np.setdiff1d(np.concatenate(self.group), gone)
            record.written, record.checksum = (
                word_list(extents_of(written)),
                checksum_of(self.mapping, written),
            )
        self._room_of_records.write(pager, run, record, used)
        return run

    def meta(self, record: Commit, run: Run, clean: bool) -> Meta:
        """Return the meta slot that leads to a commit."""
        return Meta(
            self.page_size,
            self.uuid,
            record.sequence,
            record.last_version,
            *run,
            record.top,
            clean,
            self.format,
        )

    def close(self) -> None:
        """Truncate the file after the last page and the reserve, and mark both slots clean. Nobody
        may be writing.

        The reserve is for commits that free space when others have filled the disk.
        """
        if self.cause:
            return
        file, state = self.mapping.file, self.state
        size, least = file.size(), (state.commit.top + self.reserve) * self.page_size
        if size > least:
            file.truncate(least)
        if state is self._closed:
            return  # nothing was committed
        if size < least:
            with suppress(OSError):  # the disk is full
                file.fallocate(size, least - size)
        slot = self.meta(state.commit, state.run, clean=True)
        if self.sync == "off":
            sync_all(file, slot)
        else:
            file.fdatasync()
        for at in (1 - slot_of(state.sequence), slot_of(state.sequence)):
            file.pwrite(slot.pack(), SLOT_SIZE * at)
            file.fdatasync()
