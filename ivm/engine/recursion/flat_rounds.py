"""Evaluate a recursive stratum from scratch in memory, if its bodies are plain (flat_bodies.py), with several threads.

path(x, z) <- path(x, y), edge(y, z).               threads take ranges of x, since a path has the same x as the
                                                    path it derives from
same(x, y) <- edge(a, x), same(a, b), edge(b, y).   threads share large rounds (shared_rounds.py)
"""

from collections import deque
from functools import partial
from itertools import pairwise

import numpy as np

from ivm.engine.recursion.flat_bodies import FlatBodies, NotPlain
from ivm.engine.recursion.flat_facts import Base, FlatFacts
from ivm.engine.recursion.kernels import arguments
from ivm.engine.recursion.kernels import flat_rounds as kernel
from ivm.engine.recursion.limits import ROUNDS_MAX, Limits
from pagestore.host import WORD_MAX, WORD_MIN, sort_order, together

RANGED_MIN = 1 << 10  # facts; ranges of fewer are not worth a thread
RANGES = 2  # ranges per thread, since some derive more facts than others


class FlatRounds:
    """One evaluation of a stratum."""

    def __init__(self, bodies: FlatBodies, limits: Limits, threads: int) -> None:
        """Raises NotPlain."""
        if bodies.fold and limits.rounds_max not in (None, ROUNDS_MAX):
            raise NotPlain  # ranks of aggregated values are not numbers of rounds
        self._bodies, self._limits, self._threads = bodies, limits, threads
        self.below = bodies.below  # how many rows are read into memory
        self.operations = 0

    def run(self, base: Base) -> dict[str, np.ndarray] | None:
        """Derive all facts from `base`, by view: words int64[K, n], a value if aggregated, then the rank.

        Return None if a value overflows, is better than one that it derives from, or memory is short. Raises
        LimitError.
        """
        arrays = self._bodies.arrays()
        column = min(self._bodies.kept, default=None)
        found = None if column is None else self._ranges(arrays, base, column)
        if not found:
            found = [FlatFacts(self._bodies, arrays, base, self._limits, self._threads)]
            status = found[0].derive()
            if status == kernel.LIMIT:
                by_rank = np.bincount(found[0].ranks)[1:].tolist()
                self._limits.check([*by_rank, 1], found[0].count + 1)
            if status != kernel.DONE:
                return None
        self.operations = sum(facts.operations for facts in found)
        return {name: self._table(found, p, column) for p, name in enumerate(self._bodies.names)}

    def _ranges(self, arrays: arguments.Bodies, base: Base, column: int) -> list[FlatFacts]:
        """Derive facts for each range of a column that every fact copies from its parent.

        Return [] if threads do not help, or if a range cannot be evaluated.
        """
        words = np.concatenate([rows[column] for _, rows in base] or [np.empty(0, np.int64)])
        cuts = _cuts(words, RANGES * self._threads)
        if self._threads == 1 or self._limits.rows_max is not None or len(cuts) < self._threads:
            return []
        left = deque(pairwise([WORD_MIN, *cuts, WORD_MAX]))
        found: dict[int, FlatFacts] = {}

        def work() -> bool:
            """Evaluate ranges until none is left; return whether all could be evaluated."""
            while True:
                try:
                    low, high = left.popleft()
                except IndexError:
                    return True
                chosen = [(name, rows[:, (rows[column] >= low) & (rows[column] < high)]) for name, rows in base]
                found[low] = FlatFacts(self._bodies, arrays, chosen, self._limits, threads=1)
                if found[low].derive() != kernel.DONE:
                    return False

        done = all(together([work] * self._threads))
        return [facts for _, facts in sorted(found.items())] if done else []

    def _table(self, found: list[FlatFacts], p: int, column: int | None) -> np.ndarray:
        """Return all facts of a predicate, sorted: words and ranks int64[C, n]."""
        if len(found) == 1:
            cuts = _cuts(found[0].sample(p), self._threads)
            tasks = [partial(found[0].table, p, low, high) for low, high in pairwise([None, *cuts, None])]
        else:
            tasks = [partial(facts.table, p) for facts in found]
        table = np.concatenate(together(tasks), axis=1)
        if len(found) > 1 and column != 0:
            table = table.take(sort_order(table[: self._bodies.keys[p]]), axis=1)
        return table


def _cuts(words: np.ndarray, parts: int) -> list[int]:
    """Return the words at which all ranges but the first begin, of about equal size; none if there are few words."""
    if len(words) < RANGED_MIN or parts == 1:
        return []
    cuts: list[int] = np.unique(np.sort(words)[:: -(-len(words) // parts)])[1:].tolist()
    return cuts
