"""When a page may be reused: exactly when no retained version can reach it.

A page that is born in version b and replaced in version d is needed by the versions v of its lineage with
b <= v < d. The record of version d lists it. Dropping version k, with retained neighbours p < k < q,
frees what only k needed:

    version      p         k         q
              ---+---------+---------+---
                      b--------d          p < b <= k and k < d <= q

so a drop reads the list of q and no page that is kept. The part of k's own list that p still needs moves to a tree of
the store's own: (lineage, d, page) -> b. If only the newest versions are retained, that tree is empty.

A branch does not free pages born up to its origin: they belong to the lineage below, whose version `origin` is retained
as long as the branch is.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.runtime.lazy import sortedcontainers
from pagestore.storage.pager import NO_ORIGIN, STORE_LINEAGE, Pager
from pagestore.storage.word_list import WordList, empty_list, rows
from pagestore.trees.apply import apply, compose_edits
from pagestore.trees.kernels.apply_layout import ERASE, INSERT
from pagestore.trees.reading import read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.versions.version_table import Entry

DEAD = Spec(4, 3, 1)

DeadList = WordList  # rows: lineage, page, birth


class Reclaim:
    """Drop versions one by one and collect the freed pages; `finish` updates the tree.

    `retained` are all versions, ascending; `dead_of` returns the dead list of one.
    """

    def __init__(self, pager: Pager, tree: Tree, retained: Sequence[Entry], dead_of: Callable[[int], DeadList]):
        self._pager, self._tree, self._retained, self._dead_of = pager, tree, [*retained], dead_of
        self._moved: Any = {}  # SortedDict if any, since creating one takes as long as dropping a version;
        # rows to add: (lineage, d, page) -> b
        self._gone: set[tuple[int, int, int]] = set()  # rows to erase
        self.freed = empty_list()

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
        if p == q == at and (p or origin == NO_ORIGIN):  # k has the same neighbours in both lineages
            self._drop((branch, STORE_LINEAGE), entry.version, p, q, NO_ORIGIN)
        else:
            self._drop((branch,), entry.version, p, q, origin)
            self._drop((STORE_LINEAGE,), entry.version, at, at, NO_ORIGIN)
        pages = entry.run.ids(self._pager.pages.page_words)
        if pages.stop > len(self._pager.pages.seen):
            raise CorruptionError(f"the record of version {entry.version} is said to be beyond the file's end")
        self.freed.extend(pages)

    def _drop(self, lineages: tuple[int, ...], k: int, at: int, to: int, origin: int) -> None:
        """Drop k from lineages, where the retained versions before `at` and from `to` on are its neighbours."""
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
            replaced = self._pager.retired[before:]  # no reader uses this tree, so its pages need not wait
            self.freed += replaced[1::3]
            del self._pager.retired[before:]
        return self._tree

    def _free_between(self, lineages: tuple[int, ...], p: int, k: int, q: int) -> None:
        dead = self._dead_of(q)
        if p < 0 and q == k + 1 and len(lineages) == 2:  # the common case: k is the oldest, q the next; all is freed
            self.freed += dead[1::3]
        else:
            self.freed.extend(page for line, page, birth in rows(dead, 3) if line in lineages and p < birth <= k)
        if self._moved or self._tree.count:
            for key in chain.from_iterable(self._keys_between(lineage, p, k, q) for lineage in lineages):
                self.freed.append(key[2])
                if self._moved.pop(key, None) is None:
                    self._gone.add(key)

    def _keys_between(self, lineage: int, p: int, k: int, q: int) -> list[tuple[int, int, int]]:
        """Return keys, in the tree or to be added, of pages that die in (k, q] and only k needs: p < b <= k."""
        first, end = (lineage, k + 1), (lineage, q + 1)
        found = [(*key, self._moved[key]) for key in self._moved.irange(first, end)] if self._moved else []
        if self._tree.count:
            for batch in read_batches(self._pager.pages, self._tree, first, end):
                found += [tuple(row) for row in batch.T.tolist() if tuple(row[:3]) not in self._gone]
        return [row[:3] for row in found if p < row[3] <= k]
