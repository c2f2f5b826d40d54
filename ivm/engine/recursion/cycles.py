"""Recursion through sums that would never end: a value that becomes better along its own derivation.

    d[y] = r <- agg<<r = min(c)>> (start(y), c = 0 ; d[x] = m, cost[x, y] = w, c = m + w).

    cost    1 ─(1)─▶ 2 ─(-3)─▶ 1          d[1] = 0, d[2] = 1, d[1] = -2, d[2] = -1, d[1] = -4, ...

Where a value is better than one that it follows from, it is noted from some round on which fact each new one follows
from. Now and then facts that have just become better are followed back; if one comes again on the way, what is added
between the two makes it better, and will do so each time. That is so only if values are added to, and nothing else: a
bound or a quotient may bring them to rest, and so may the rounding of floats.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ivm.engine.recursion.facts import total
from pagestore.host import begins, sort_order

ROUNDS_FIRST = 8  # after which it is noted what facts follow from; they are followed back when rounds have doubled
FACTS_MAX = 1 << 22  # that are noted; of more, only the last rounds
STARTS = 4  # facts of a view that are followed back
TIMES, TIMES_OF_FLOATS = 2, 16  # how often a fact has to come


class Fact(NamedTuple):
    """A fact of a stratum: its view and its key."""

    name: str
    key: tuple[int, ...]


class Trail:
    """What the facts of the last rounds follow from.

    A round has for each view a table int64[K + 1 + width, n]: the keys that became new or better, and for each the
    number of another view and a key there, from the round before.
    """

    def __init__(self, keys: Mapping[str, int]) -> None:
        self._keys, self._names = keys, sorted(keys)
        self._width = max(keys.values())
        self._open: dict[str, list[np.ndarray]] = {}
        self._rounds: deque[dict[str, np.ndarray]] = deque()
        self._count = 0  # facts of all rounds

    def add(self, view: str, keys: np.ndarray, cost: np.ndarray, parents: list[tuple[str, np.ndarray]]) -> None:
        """Add what was derived in a round that is not complete: keys[K, n] with costs, and the facts that were read.

        Of several facts that were read, the first one that is of the round before is followed.
        """
        n = keys.shape[1]
        origin, left = np.full((1 + self._width, n), -1), np.ones(n, bool)
        for name, read in parents:
            chosen = left if len(parents) == 1 else left & self._is_new(name, read)
            origin[0, chosen] = self._names.index(name)
            origin[1 : 1 + len(read), chosen] = read[:, chosen]
            left = left & ~chosen
        self._open.setdefault(view, []).append(np.concatenate([keys, cost[None], origin]))

    def complete(self, fresh: Mapping[str, np.ndarray]) -> None:
        """Complete a round, given the keys that became new or better."""
        tables = {}
        for name, keys in fresh.items():
            width = len(keys)
            table = np.concatenate(self._open[name], axis=1)
            table = table.take(sort_order(np.ascontiguousarray(table[: width + 1])), axis=1)
            table = table[:, begins(table[:width])]
            table = np.concatenate([table[:width], table[width + 1 :]])
            tables[name] = table[:, _among(table[:width], keys)]
        self._open = {}
        self._rounds.append(tables)
        self._count += total(tables)
        while len(self._rounds) > 1 and self._count > FACTS_MAX:
            self._count -= total(self._rounds.popleft())

    def cycle(self, times: int) -> list[Fact] | None:
        """Facts each of which follows from the one before it, and the first from the last, so many times; or None."""
        for name, table in self._rounds[-1].items() if self._rounds else ():
            for i in range(0, table.shape[1], -(-table.shape[1] // STARTS)):
                if found := self._followed(Fact(name, tuple(table[: self._keys[name], i].tolist())), times):
                    return found
        return None

    def _followed(self, fact: Fact, times: int) -> list[Fact] | None:
        """Follow a fact of the last round back until one has come so many times."""
        path, seen = [fact], Counter([fact])
        for tables in reversed(self._rounds):
            table, width = tables.get(fact.name), self._keys[fact.name]
            column = [] if table is None else table[:, _among(table[:width], np.array([fact.key]).T)].T.tolist()
            if not column or column[0][width] < 0:
                return None
            name = self._names[column[0][width]]
            fact = Fact(name, tuple(column[0][width + 1 :][: self._keys[name]]))
            path.append(fact)
            seen[fact] += 1
            if seen[fact] == times:
                newest = path.index(fact)
                return path[newest + 1 : path.index(fact, newest + 1) + 1][::-1]
        return None

    def _is_new(self, name: str, keys: np.ndarray) -> np.ndarray:
        """Which keys are of the last round; all, before there is one."""
        if not self._rounds:
            return np.ones(keys.shape[1], bool)
        table = self._rounds[-1].get(name)
        if table is None:
            return np.zeros(keys.shape[1], bool)
        return _among(keys, table[: len(keys)])


def _among(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of keys[K, n] are among others[K, m], bool[n]."""
    row = np.dtype([("", np.int64)] * len(keys))
    left, right = (np.ascontiguousarray(one.T).view(row).ravel() for one in (keys, others))
    return np.isin(left, right)
