"""The versions that a store retains, and where their records are.

The newest entries are in every commit's own record (`recent`), so that a commit edits no tree for them; beyond
RECENT_MAX entries, the older half moves to a tree of the store's own lineage, version -> (page, words,
time, branch).
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.layout import FIRST_PAGE, PAGE_MASK
from pagestore.pages.page_map import Pages
from pagestore.storage.mapping import Run
from pagestore.storage.meta import NUMBER_END
from pagestore.storage.pager import STORE_LINEAGE, Pager
from pagestore.storage.word_list import WordList, word_list
from pagestore.trees.apply import apply, compose_edits
from pagestore.trees.kernels.apply_layout import ERASE, INSERT
from pagestore.trees.lookup import get
from pagestore.trees.reading import read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.versions.commit_record import is_time, lie_within

VERSION_TREE = Spec(3, 1, 4)
RECENT_MAX = 64


class Entry(NamedTuple):
    """A retained version: its record's run, its time (microseconds since 1970, UTC) and its branch."""

    version: int
    page: int
    words: int
    timestamp: int
    branch: int

    @classmethod
    def of(cls, row: Iterable[int]) -> "Entry":
        """Return the entry of a row of a record or tree. Raises CorruptionError for one that no commit makes."""
        entry = cls(*row)
        numbers = lie_within((entry.version, entry.words - 1, entry.branch), 0, NUMBER_END)
        if not numbers or not FIRST_PAGE <= entry.page < PAGE_MASK or not is_time(entry.timestamp):
            raise CorruptionError(f"the history has an entry that cannot be: {tuple(entry)}")
        return entry

    @property
    def run(self) -> Run:
        """The run with the version's record."""
        return Run(self.page, self.words)


WIDTH = len(Entry._fields)


class VersionTable:
    """The retained versions of a store, ascending."""

    def __init__(self, recent: list[Entry], words: WordList, tree: Tree):
        self.recent, self.words, self.tree = recent, words, tree  # `words` are the recent entries', for a record
        self._old: list[Entry] | None = None  # cached entries of the tree

    def __len__(self) -> int:
        return self.tree.count + len(self.recent)

    def find(self, pages: Pages, version: int) -> Entry | None:
        """Return the entry of a version, None if it is not retained. O(log versions)."""
        at = bisect_left(self.recent, (version,))
        if at < len(self.recent) and self.recent[at].version == version:
            return self.recent[at]
        if not self.tree.count or (self.recent and version > self.recent[0].version):
            return None
        if self._old is not None:
            at = bisect_left(self._old, (version,))
            return self._old[at] if at < len(self._old) and self._old[at].version == version else None
        found, values = get(pages, self.tree, np.array([[version]]))
        return Entry.of((version, *values[:, 0].tolist())) if found[0] else None

    def old(self, pages: Pages) -> list[Entry]:
        """Return the entries in the tree. O(versions) the first time."""
        if self._old is None:
            batches = read_batches(pages, self.tree) if self.tree.count else ()
            self._old = [Entry.of(row) for batch in batches for row in batch.T.tolist()]
        return self._old

    def entries(self, pages: Pages) -> list[Entry]:
        """Return all entries, ascending. O(versions) the first time."""
        return self.old(pages) + self.recent if self.tree.count else self.recent

    def readable(self, pages: Pages) -> list[Entry]:
        """Return all entries, or only the recent ones if the tree is damaged."""
        try:
            return self.entries(pages)
        except CorruptionError:
            return self.recent

    def newest(self, pages: Pages) -> int:
        """Return the newest version."""
        return (self.recent or self.old(pages))[-1].version

    def newest_first(self, pages: Pages) -> Iterator[Entry]:
        """Yield entries from the newest back; reads the tree only after the recent ones."""
        yield from reversed(self.recent)
        yield from reversed(self.old(pages))

    def add(self, entry: Entry) -> None:
        """Append the entry of the version that is being made."""
        self.recent.append(entry)
        self.words.extend(entry)

    def spill(self, pager: Pager) -> None:
        """Move the older half of the recent entries to the tree if there are too many."""
        if len(self.recent) <= RECENT_MAX:
            return
        n = RECENT_MAX // 2
        moved, self.recent, self.words = self.recent[:n], self.recent[n:], self.words[n * WIDTH :]
        if self._old is not None:
            self._old += moved
        self._edit(pager, INSERT, np.array(moved, np.int64).T)

    def without(self, pager: Pager, doomed: Sequence[Entry]) -> "VersionTable":
        """Return a copy without some versions; erases those in the tree in one batch."""
        n, gone = len(doomed), {*doomed}
        if self.recent[:n] == [*doomed]:  # mostly the oldest are dropped
            kept, words = self.recent[n:], self.words[n * WIDTH :]
        else:
            kept = [entry for entry in self.recent if entry not in gone]
            words = word_list(*kept)
        left = VersionTable(kept, words, self.tree)
        left._old = None if self._old is None else list(self._old)
        if len(self.recent) - len(kept) < n:
            old = self.old(pager.pages)
            left._old = [entry for entry in old if entry not in gone]
            left._edit(pager, ERASE, np.array([entry for entry in old if entry in gone], np.int64).T)
        return left

    def _edit(self, pager: Pager, action: int, rows: np.ndarray) -> None:
        actions, edits = compose_edits(np.full(rows.shape[1], action), rows, VERSION_TREE)
        with pager.retiring_into(STORE_LINEAGE):
            self.tree = apply(pager, self.tree, actions, edits)[0]
