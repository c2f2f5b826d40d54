"""The versions that a store retains, and where their records are.

The newest entries are in every commit's own record (`recent`), so that a commit edits no tree for
them; beyond RECENT_MAX entries, the older half moves to a tree of the store's own lineage, version
-> (page, words, time, branch).

When a page may be reused: exactly when no retained version can reach it.

A page that is born in version b and replaced in version d is needed by the versions v of its
lineage with b <= v < d. The record of version d lists it. Dropping version k, with retained
neighbours p < k < q, frees what only k needed:

    version      p         k         q
              ---+---------+---------+---
                      b--------d          p < b <= k and k < d <= q

so a drop reads the list of q and no page that is kept. The part of k's own list that p still needs
moves to a tree of the store's own: (lineage, d, page) -> b. If only the newest versions are
retained, that tree is empty.

A branch does not free pages born up to its origin: they belong to the lineage below, whose version
`origin` is retained as long as the branch is.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.layout import FIRST_PAGE, HEIGHT_MAX, PAGE_MASK, Pages
from pagestore.runtime.lazy import sortedcontainers
from pagestore.storage.mapping import Run, run_pages
from pagestore.storage.meta import NUMBER_END
from pagestore.storage.pager import AHEAD_PAGES, NO_ORIGIN, STORE_LINEAGE, Pager
from pagestore.storage.records import WordList, empty_list, rows, word_list
from pagestore.trees.edit import apply, compose_edits
from pagestore.trees.kernels.edit import reserve_of
from pagestore.trees.kernels.node_buffer import ERASE, INSERT
from pagestore.trees.read import get, read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.versions.commit_record import is_time, lie_within

VERSION_TREE = Spec(3, 1, 4)
RECENT_MAX = 64


class Entry(NamedTuple):
    """A retained version: its record's run, time (microseconds since 1970, UTC) and branch."""

    version: int
    page: int
    words: int
    timestamp: int
    branch: int

    @classmethod
    def of(cls, row: Iterable[int]) -> "Entry":
        """A row of a record or tree. Raises CorruptionError for one that no commit makes."""
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
        # `words` are the recent entries', for a record
        self.recent, self.words, self.tree = recent, words, tree
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
            return (
                self._old[at] if at < len(self._old) and self._old[at].version == version else None
            )
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

    def add(self, entry: Entry) -> None:
        """Append the entry of the version that is being made."""
        self.recent.append(entry)
        self.words.extend(entry)

    def spill(self, pager: Pager) -> None:
        """Move the older half of the recent entries, which are too many, to the tree."""
        n = RECENT_MAX // 2
        moved, self.recent, self.words = self.recent[:n], self.recent[n:], self.words[n * WIDTH :]
        if self._old is not None:
            self._old += moved
        self._edit(pager, INSERT, np.array(moved, np.int64).T)

    def room(self, doomed: int, edits: int, page_words: int) -> int:
        """Return the most pages for edits of the tree by a commit that drops `doomed`, and of
        the dead tree.
        """
        spilt = RECENT_MAX // 2 if len(self.recent) >= RECENT_MAX else 0
        held = self.tree.count  # records, and thus pages at most
        dropped = min(doomed, HEIGHT_MAX + 20 * held // page_words) if held else 0
        most = (
            2 * n + reserve_of(HEIGHT_MAX, n, VERSION_TREE.columns, page_words)
            for n in (spilt, dropped, edits)
            if n
        )
        return sum(pages + AHEAD_PAGES for pages in most)

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
            left._edit(
                pager, ERASE, np.array([entry for entry in old if entry in gone], np.int64).T
            )
        return left

    def _edit(self, pager: Pager, action: int, rows: np.ndarray) -> None:
        actions, edits = compose_edits(np.full(rows.shape[1], action), rows, VERSION_TREE)
        with pager.retiring_into(STORE_LINEAGE):
            self.tree = apply(pager, self.tree, actions, edits)[0]


DEAD = Spec(4, 3, 1)

DeadList = WordList  # rows: lineage, page, birth


class Reclaim:
    """Drop versions one by one and collect the freed pages; `finish` updates the tree.

    `retained` are all versions, ascending; `dead_of` returns the dead list of one.
    """

    def __init__(
        self,
        pager: Pager,
        tree: Tree,
        retained: Sequence[Entry],
        dead_of: Callable[[int], DeadList],
    ):
        self._pager, self._tree, self._retained, self._dead_of = pager, tree, [*retained], dead_of
        # SortedDict if any, since creating one takes as long as dropping a version;
        self._moved: Any = {}
        # rows to add: (lineage, d, page) -> b
        self._gone: set[tuple[int, int, int]] = set()  # rows to erase
        self.freed = empty_list()

    def drop_first(self, entries: Sequence[Entry]) -> int:
        """Drop those of some versions that are the oldest and are each followed by the next one;
        return how many.

        All that the next version replaced is freed. Others are for `drop`. O(pages freed).
        """
        retained, page_words = self._retained, self._pager.pages.page_words
        if self._tree.count or self._moved:
            return 0
        n, most = 0, min(len(entries), len(retained) - 1)
        while n < most and retained[n] is entries[n]:
            k, q = retained[n], retained[n + 1]
            if q.version != k.version + 1 or q.branch != k.branch:
                break
            self.freed += self._dead_of(q.version)[1::3]
            self.freed.extend(range(k.page, k.page + run_pages(k.words, page_words)))
            n += 1
        del retained[:n]
        return n

    def drop(self, entry: Entry, origin: int) -> None:
        """Drop a version of a branch that began at `origin`, freeing what only this version needs.

        O(pages freed + dead list of the next version + versions of other branches in between).
        """
        retained, branch = self._retained, entry.branch
        at = p = q = bisect_left(retained, entry)
        del retained[at]
        while p and retained[p - 1].branch != branch:
            p -= 1
        while q < len(retained) and retained[q].branch != branch:
            q += 1
        # k has the same neighbours in both lineages
        if p == q == at and (p or origin == NO_ORIGIN):
            self._drop((branch, STORE_LINEAGE), entry.version, p, q, NO_ORIGIN)
        else:
            self._drop((branch,), entry.version, p, q, origin)
            self._drop((STORE_LINEAGE,), entry.version, at, at, NO_ORIGIN)
        pages = entry.run.ids(self._pager.pages.page_words)
        if pages.stop > len(self._pager.pages.seen):
            raise CorruptionError(
                f"the record of version {entry.version} is said to be beyond the file's end"
            )
        self.freed.extend(pages)

    def _drop(self, lineages: tuple[int, ...], k: int, at: int, to: int, origin: int) -> None:
        """Drop k from lineages between its neighbours, retained before `at` and from `to` on."""
        p = self._retained[at - 1].version if at else origin
        if to < len(self._retained):
            self._free_between(lineages, p, k, self._retained[to].version)
        if p >= 0:  # there is a version before k
            self._moved = self._moved or sortedcontainers.SortedDict()
            for line, page, birth in rows(self._dead_of(k), 3):
                if line in lineages and birth <= p:
                    self._moved[line, k, page] = birth

    @property
    def edits(self) -> int:
        """The number of edits of the dead tree that `finish` makes."""
        return len(self._moved) + len(self._gone)

    def finish(self) -> Tree:
        """Return the dead tree after all drops."""
        if self._moved or self._gone:
            added = [(*key, birth) for key, birth in self._moved.items()]
            gone = [(*key, 0) for key in self._gone]
            actions = np.array([INSERT] * len(added) + [ERASE] * len(gone))
            actions, edits = compose_edits(actions, np.array(added + gone, np.int64).T, DEAD)
            before = len(self._pager.retired)
            with self._pager.retiring_into(STORE_LINEAGE):
                self._tree = apply(self._pager, self._tree, actions, edits)[0]
            # no reader uses this tree, so its pages need not wait
            replaced = self._pager.retired[before:]
            self.freed += replaced[1::3]
            del self._pager.retired[before:]
        return self._tree

    def _free_between(self, lineages: tuple[int, ...], p: int, k: int, q: int) -> None:
        dead = self._dead_of(q)
        # the common case: k is the oldest, q the next; all is freed
        if p < 0 and q == k + 1 and len(lineages) == 2:
            self.freed += dead[1::3]
        else:
            self.freed.extend(
                page for line, page, birth in rows(dead, 3) if line in lineages and p < birth <= k
            )
        if self._moved or self._tree.count:
            for key in chain.from_iterable(
                self._keys_between(lineage, p, k, q) for lineage in lineages
            ):
                self.freed.append(key[2])
                if self._moved.pop(key, None) is None:
                    self._gone.add(key)

    def _keys_between(self, lineage: int, p: int, k: int, q: int) -> list[tuple[int, int, int]]:
        """Return keys, in the tree or to be added, of pages that die in (k, q] and only k needs:
        p < b <= k.
        """
        first, end = (lineage, k + 1), (lineage, q + 1)
        if self._moved:
            keys = [(*key, self._moved[key]) for key in self._moved.irange(first, end)]
        else:
            keys = []
        if self._tree.count:
            for batch in read_batches(self._pager.pages, self._tree, first, end):
                keys += [tuple(row) for row in batch.T.tolist() if tuple(row[:3]) not in self._gone]
        return [row[:3] for row in keys if p < row[3] <= k]
