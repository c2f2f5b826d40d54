"""The commit of a small transaction: one call of a kernel makes its edits and writes its record.

    lay out                             kernel                                      commit
    the record without what the   ──▶   edits; roots, replaced and used pages   ──▶   the next state, and a slot that
    edits decide, and a page for it     go into the record, which is written        leads to the record

All that takes longer is left to `Committer.commit`, which writes another record: dropping versions,
a catalog, settings or texts that change, free pages written anew, a record of several pages.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple, Protocol

import numpy as np

from pagestore.pages.layout import HEADER
from pagestore.storage.kernels.record import (
    CHECKSUM,
    DEAD,
    EXTENT_WORDS,
    FINISH_WORDS,
    HEAD,
    LISTED,
    MADE_PAGES,
    ORIGIN,
    READY,
    RECORDED,
    ROOT_ROWS,
    Finish,
    RecordRun,
    Span,
)
from pagestore.storage.mapping import Run
from pagestore.storage.pager import Pager
from pagestore.storage.records import to_word_list
from pagestore.trees.edit import PAGES_MAX
from pagestore.trees.tree import Tree
from pagestore.versions.catalog import Catalog, Settings
from pagestore.versions.commit_record import Commit
from pagestore.versions.store_state import Head, StoreState
from pagestore.versions.version_table import RECENT_MAX, Entry


class Draft(NamedTuple):
    """The result of a transaction, to be committed."""

    branch: int
    trees: dict[int, Tree]
    catalog: Catalog
    before: Catalog
    next_tree: int
    next_text: int
    message: str
    rewrite_catalog: bool = False
    settings: Settings | None = None  # instead of the store's, if they change


class UnreadCommits(Protocol):
    """Commits made that the state of the committer lacks: those of a series."""

    slot: np.ndarray  # the slot that leads to the newest of them, as int64 words
    # the words of the dead lists of their versions, as far as these are retained
    dead: dict[int, bytes]

    @property
    def newest(self) -> tuple[int, int]:
        """The sequence and the version of the newest of them."""

    def state_after(self, before: StoreState) -> StoreState:
        """Return the state of the newest of them; end them and return `before` if another
        process has committed.
        """

    def end(self) -> None:
        """Leave the next commit to a transaction."""


class KernelCommitBuffers:
    """The arrays for laying records out, used by one commit after the other."""

    def __init__(self, page_words: int) -> None:
        words = [FINISH_WORDS, 2 * PAGES_MAX, 1 + PAGES_MAX, page_words - HEADER, page_words, 1]
        self.state, self.extents, self.used, self.record, self.arena, self.ids = (
            np.zeros(n, np.int64) for n in words
        )


class KernelCommit:
    """A record that was laid out, and what is to follow from it."""

    def __init__(
        self,
        state: StoreState,
        pager: Pager,
        room: KernelCommitBuffers,
        sequence: int,
        timestamp: int,
        listed: bool,
        draft: Draft,
        page: int,
        trees: int,
        checked: np.ndarray,
    ) -> None:
        """Lay out the record of a draft, in a page of its own; see `lay_out`."""
        self._pager, self._room, self._draft = pager, room, draft
        before, version, branch = state.commit, state.last_version + 1, draft.branch
        head, space = state.heads[branch], pager.free_list
        self.record = record = Commit(
            sequence, version, 0, head.version, branch, timestamp, version,
            draft.next_tree, state.next_branch, draft.next_text, space.top, before.catalog,
            before.settings, before.checkpoint, system=before.system, message=draft.message,
        )  # fmt: skip
        self.run = run = Run(page, len(room.record))
        self.versions = versions = state.versions.without(pager, ())
        versions.add(Entry(version, page, run.words, record.timestamp, branch))
        self.heads = heads = {**state.heads, branch: Head(version, run, head.origin)}
        record.recent = versions.words
        for number, (made, (first, words), origin) in heads.items():
            record.branches.extend((number, made, first, words, origin))
        self._said = said = record.gather_arguments()  # keeps the memory that kernels see
        self._roots = before.roots + array("q", bytes(32 * trees))
        freed, lists, place = space.make_room(1 + PAGES_MAX)
        room.state[READY], room.state[ORIGIN], room.state[LISTED] = 1, pager.origin, listed
        room.state[RECORDED], room.state[ROOT_ROWS], room.state[EXTENT_WORDS] = (
            -1,
            len(before.roots) // 4,
            0,
        )
        self.finish = Finish(
            room.state,
            np.frombuffer(said, np.int64),
            np.frombuffer(self._roots, np.int64),
            room.extents,
            room.used,
            checked,
            Span(*freed.buffer_info()),
            lists,
            place,
            RecordRun(room.record, page, pager.version, room.arena, room.ids),
        )

    def is_of(self, draft: Draft, sequence: int) -> bool:
        """Return whether the kernel has written the record, and it is that of a draft: nothing was
        done after it.

        Meanwhile another thread may have written the slot of its `sequence`, which is then that of
        a later one.
        """
        pager, said, here = self._pager, self.finish.said, self._draft
        return bool(
            self.finish.state[RECORDED] >= 0
            and self.record.sequence == sequence
            and draft.catalog is here.catalog
            and draft[4:] == here[4:]
            and pager.has_taken(1 + self.finish.state[MADE_PAGES])
            and len(pager.retired) == said[HEAD + 2 * DEAD + 1]
        )

    def discard(self) -> None:
        """Give back the page of a record that is not wanted, and count those that it says are
        used as before.
        """
        state, space = self.finish.state, self._pager.free_list
        self._pager.release(np.array([self.run.page]))
        if state[RECORDED] >= 0:
            made = 1 + int(state[MADE_PAGES])
            space.counted(made)
            space.uncount(self.finish.used[:made])

    def complete(self) -> np.ndarray:
        """Write what the kernel could not write, take over what it found out, and return the pages
        used.

        Raises OSError.
        """
        pager, room, record, (state, said, *_) = self._pager, self._room, self.record, self.finish
        file = pager.mapping.file
        pager.free_list.counted(1 + int(state[MADE_PAGES]))
        if state[RECORDED] == 1:
            file.wrote(room.ids)
        else:
            file.write_pages(room.arena, room.ids, len(room.arena))
        used = pager.hand_over()
        record.roots = self._roots[: 4 * int(state[ROOT_ROWS])]
        record.dead = pager.retired
        if state[LISTED]:
            record.written = to_word_list(room.extents[: state[EXTENT_WORDS]])
            record.checksum = int(said[CHECKSUM])
        record.added, record.removed = pager.free_list.difference()
        return used


def lay_out(
    state: StoreState,
    pager: Pager,
    room: KernelCommitBuffers,
    sequence: int,
    timestamp: int,
    listed: bool,
    draft: Draft,
    page: int,
    trees: int,
    checked: np.ndarray,
) -> KernelCommit | None:
    """Lay out the record of a transaction in a page, before its only edits, which are of some
    trees; else return None.

    If it is `listed`, the record lists the pages written. `checked` are numbers of trees among
    those edited; if one of them changes, the kernel writes no record.
    """
    versions, space, before = state.versions, pager.free_list, state.commit
    pages = pager.mapping.pages
    if (
        before.administrative
        or before.version != state.heads[draft.branch].version
        or draft.catalog is not draft.before
        or draft.rewrite_catalog
        or draft.next_text != state.next_text
        or len(versions.recent) > RECENT_MAX
        or not pager.is_fresh()
        or space.top > len(pages.seen)
        or space.checkpoint_due()
    ):
        return None
    words = (
        before.length()
        + space.changed()
        + 5 * len(state.heads)
        + 5
        + 4 * trees
        + len(draft.message)
    )
    if words > len(room.record):
        return None
    return KernelCommit(
        state, pager, room, sequence, timestamp, listed, draft, page, trees, checked
    )
