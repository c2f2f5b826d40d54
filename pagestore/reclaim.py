"""When a page may be reused: exactly when no retained version can reach it.

A page that is born in version b and replaced in version d is needed by the versions v of its lineage with
b <= v < d. The record of version d lists it. Dropping version k, whose retained neighbours are p < k < q,
frees what only k needed:

    version      p         k         q
              ---+---------+---------+---
                      b--------d          p < b <= k and k < d <= q

so a drop reads the list of q and nothing of the pages that stay. When k itself goes, the part of its list
that p still needs moves to a tree of the store's own: (lineage, d, page) -> b. With nothing but the newest
versions retained that tree is empty.

A branch leaves alone what was born up to its origin: those pages belong to the lineage below, whose version
`origin` is retained as long as the branch is.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .apply import apply, net
from .flat import Flat, rows
from .history import Entry
from .pager import NO_ORIGIN, STORE_LINEAGE, Pager
from .tree import ERASE, INSERT, Spec, Tree, scan

DEAD = Spec(4, 3, 1)

DeadList = Flat  # rows: lineage, page, birth


class Span(NamedTuple):
    """A version k to be dropped between its retained neighbours; q is None when nothing newer is there."""

    lineage: int
    p: int
    k: int
    q: int | None


class Reclaim:
    """Drops versions one by one and gathers what that frees; `finish` brings the tree up to date.

    `dead_of` gives the dead list of a retained version.
    """

    def __init__(self, pager: Pager, tree: Tree, dead_of: Callable[[int], DeadList]):
        self._pager, self._tree, self._dead_of = pager, tree, dead_of
        self._moved: dict[tuple[int, int, int], int] = {}  # rows to add: (lineage, d, page) -> b
        self._gone: set[tuple[int, int, int]] = set()  # rows to erase
        self.freed: list[int] = []

    def drop(self, entry: Entry, spans: list[Span]) -> None:
        """Free what only this version needs. O(pages freed + dead list of the next version)."""
        own = self._dead_of(entry.version)
        for span in spans:
            if span.q is not None:
                self._free_between(span.lineage, span.p, span.k, span.q)
            lineage, p, k, _ = span
            if p >= 0:  # what was born at all
                mine = [(page, birth) for line, page, birth in rows(own, 3) if line == lineage and birth <= p]
                self._moved |= {(lineage, k, page): birth for page, birth in mine}
        self.freed += entry.run.ids(self._pager.pages.page_words)

    def finish(self) -> Tree:
        """The dead tree after all drops."""
        added = [(*key, birth) for key, birth in self._moved.items()]
        gone = [(*key, 0) for key in self._gone]
        if added or gone:
            actions = np.array([INSERT] * len(added) + [ERASE] * len(gone))
            actions, edits = net(actions, np.array(added + gone, np.int64).T, DEAD)
            before = len(self._pager.retired)
            with self._pager.of(STORE_LINEAGE):
                self._tree = apply(self._pager, self._tree, actions, edits)[0]
            replaced = self._pager.retired[before:]  # no reader looks at this tree, so its pages need not wait
            self.freed += replaced[1::3]
            del self._pager.retired[before:]
        return self._tree

    def _free_between(self, lineage: int, p: int, k: int, q: int) -> None:
        dead = self._dead_of(q)
        lineages, births = dead[0::3], dead[2::3]
        if lineages.count(lineage) == len(lineages) and p < min(births, default=k) and max(births, default=k) <= k:
            self.freed += dead[1::3]  # mostly all of it
        elif lineage in lineages:
            self.freed += [page for line, page, birth in rows(dead, 3) if line == lineage and p < birth <= k]
        for key in self._rows_between(lineage, p, k, q):
            self.freed.append(key[2])
            if self._moved.pop(key, None) is None:
                self._gone.add(key)

    def _rows_between(self, lineage: int, p: int, k: int, q: int) -> list[tuple[int, int, int]]:
        """Keys in the tree, or on their way there, that die in (k, q] and that only k still needs: p < b <=
        k.
        """
        if not (self._moved or self._tree.count):
            return []
        found = [(*key, birth) for key, birth in self._moved.items() if key[0] == lineage and k < key[1] <= q]
        if self._tree.count:
            for batch in scan(self._pager.pages, self._tree, (lineage, k + 1), (lineage, q + 1)):
                found += [tuple(row) for row in batch.T.tolist() if tuple(row[:3]) not in self._gone]
        return [row[:3] for row in found if p < row[3] <= k]


def spans_of(entry: Entry, retained: list[Entry], origins: dict[int, int]) -> list[Span]:
    """Where a version stands in the lineages it belongs to: its branch, and the whole store.

    O(versions of other branches in between).
    """
    at = bisect_left(retained, entry)
    p = at - 1
    while p >= 0 and retained[p].branch != entry.branch:
        p -= 1
    q = at + 1
    while q < len(retained) and retained[q].branch != entry.branch:
        q += 1
    return [
        _span(entry.branch, entry.version, retained, p, q, origins.get(entry.branch, NO_ORIGIN)),
        _span(STORE_LINEAGE, entry.version, retained, at - 1, at + 1, NO_ORIGIN),
    ]


def _span(lineage: int, k: int, retained: list[Entry], p: int, q: int, below: int) -> Span:
    before = retained[p].version if p >= 0 else below
    return Span(lineage, before, k, retained[q].version if q < len(retained) else None)
