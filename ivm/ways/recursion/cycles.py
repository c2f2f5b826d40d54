"""Detect recursion through sums that would never end: a value that becomes better along its own
derivation.

    d[y] = r <- agg<<r = min(c)>> (start(y), c = 0 ; d[x] = m, cost[x, y] = w, c = m + w).

    cost    1 ─(1)─▶ 2 ─(-3)─▶ 1          d[1] = 0, d[2] = 1, d[1] = -2, d[2] = -1, d[1] = -4, ...

Where a value is better than one that it derives from, later rounds record which fact each new one
derives from. Whenever rounds have doubled, facts that have just become better are traced back; if a
fact recurs on the way, what is added between the two occurrences makes it better, and will do so
each time. This holds only if values are only added to: a bound or a quotient may make them
converge, and so may the rounding of floats.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ivm.ways.recursion.facts import total
from pagestore.host import begins, sort_order

# rounds before the parents of facts are recorded; facts are traced back when rounds have doubled
ROUNDS_FIRST = 8
FACTS_MAX = 1 << 22  # recorded facts; if there are more, only the last rounds are kept
STARTS = 4  # facts of a view that are traced back
TIMES, TIMES_OF_FLOATS = 2, 16  # how often a fact must occur on the path


class Fact(NamedTuple):
    """A fact of a stratum: its view and its key."""

    name: str
    key: tuple[int, ...]


class Trail:
    """The parents of the facts of the last rounds.

    A round has for each view a table int64[K + 1 + width, n]: the keys that became new or better,
    and for each its parent: the number of a view and a key there, from the round before.
    """

    def __init__(self, keys: Mapping[str, int]) -> None:
        self._keys, self._names = keys, sorted(keys)
        self._width = max(keys.values())
        self._open: dict[str, list[np.ndarray]] = {}
        self._rounds: deque[dict[str, np.ndarray]] = deque()
        self._count = 0  # facts of all rounds

    def add(
        self, view: str, keys: np.ndarray, cost: np.ndarray, parents: list[tuple[str, np.ndarray]]
    ) -> None:
        """Add facts derived in the open round: keys[K, n] with costs, and the facts that were read.

        The parent is the first of the facts read that is of the round before.
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
        """Return facts each derived from the one before, and the first from the last, found
        `times` times; or None.
        """
        for name, table in self._rounds[-1].items() if self._rounds else ():
            for i in range(0, table.shape[1], -(-table.shape[1] // STARTS)):
                if path := self._followed(
                    Fact(name, tuple(table[: self._keys[name], i].tolist())), times
                ):
                    return path
        return None

    def _followed(self, fact: Fact, times: int) -> list[Fact] | None:
        """Trace a fact of the last round back until one has occurred `times` times; return the
        cycle or None.
        """
        path, seen = [fact], Counter([fact])
        for tables in reversed(self._rounds):
            table, width = tables.get(fact.name), self._keys[fact.name]
            if table is None:
                column = []
            else:
                column = table[:, _among(table[:width], np.array([fact.key]).T)].T.tolist()
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
        """Return which keys are of the last round, bool[n]; all if there is no round yet."""
        if not self._rounds:
            return np.ones(keys.shape[1], bool)
        table = self._rounds[-1].get(name)
        return np.zeros(keys.shape[1], bool) if table is None else _among(keys, table[: len(keys)])


def _among(keys: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return which of keys[K, n] are among others[K, m], bool[n]."""
    row = np.dtype([("", np.int64)] * len(keys))
    left, right = (np.ascontiguousarray(words.T).view(row).ravel() for words in (keys, others))
    return np.isin(left, right)
