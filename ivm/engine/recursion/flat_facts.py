"""Derive the facts of a recursive stratum in memory, in rounds (kernels/flat_rounds.py)."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from ivm.engine.recursion.flat_bodies import FlatBodies
from ivm.engine.recursion.kernels import arguments, hash_tables
from ivm.engine.recursion.kernels import flat_rounds as kernel
from ivm.engine.recursion.limits import Limits
from ivm.engine.recursion.shared_rounds import SHARED_MIN, SharedRounds
from ivm.join.memory_guard import memory_left
from pagestore.compiled import Door, Table, Words
from pagestore.host import WORD_MAX, sort_order, together

FACTS_MIN, FACTS_MAX = 1 << 14, 1 << 26  # initial capacity, and the most: beyond, rounds use pages
GROWTH = 4
SAMPLED = 1 << 14
NUMBERS_MAX = 1 << 24  # words of a table of numbered facts

RUN = Door(kernel.run_rounds, arguments.Bodies, arguments.Facts, arguments.Run)
RELINK = Door(hash_tables.relink, arguments.Bodies, arguments.Facts, Words, int, int, int, int)
SEED = Door(kernel.seed, arguments.Bodies, arguments.Facts, arguments.Run, int, Table, Words)

Base = Sequence[tuple[str, np.ndarray]]  # facts derived from no others: a view, and words int64[K, n]


class FlatFacts:
    """The facts derived from given base facts, or from a range of them."""

    def __init__(self, bodies: FlatBodies, arrays: arguments.Bodies, base: Base, limits: Limits, threads: int) -> None:
        self._bodies, self._arrays, self._base, self._threads = bodies, arrays, base, threads
        self._progress = progress = np.zeros(kernel.PROGRESS, np.int64)
        progress[kernel.SIZE_MAX] = limits.rows_max or WORD_MAX
        progress[kernel.RANK_MAX] = (0 if bodies.fold else limits.rounds_max) or WORD_MAX
        progress[kernel.FOLD] = bodies.fold
        progress[kernel.SHARED_MIN] = SHARED_MIN if threads > 1 else WORD_MAX
        self._number()
        self._facts = self._room(max(FACTS_MIN, 2 * sum(rows.shape[1] for _, rows in base)))

    def derive(self) -> int:
        """Derive all facts. Return DONE, or the status that says why that was impossible."""
        bodies, progress = self._bodies, self._progress
        values, none = np.zeros(bodies.variables + bodies.words, np.int64), np.zeros(0, np.int64)
        empty = none.reshape(0, 1)
        at, costs, ranks = (np.zeros(bodies.depth, np.int64) for _ in range(3))
        run = arguments.Run(progress, values, at, costs, ranks, empty, none, none)
        shared = SharedRounds(self._arrays, run, bodies.keys, bodies.words, self._threads)
        todo = [(bodies.names.index(name), rows) for name, rows in self._base]
        while todo or progress[kernel.WAIT]:
            if todo:
                p, rows = todo[0]
                terms = np.arange(bodies.keys[p])
                status = SEED.call(self._arrays, self._facts, run, p, np.ascontiguousarray(rows), terms)
                if status == kernel.DONE:
                    todo.pop(0)
                    progress[kernel.OPERATIONS] = 0
            else:
                status = RUN.call(self._arrays, self._facts, run)
            if status == kernel.SHARE:
                status = shared.round(self._facts, self._grow)
            if status == kernel.GROW and self._grow():
                continue
            if status != kernel.DONE:
                return int(status)
        self._facts = self._facts._replace(nexts=empty, begins=empty, ring=none, dense=none)  # free memory
        return kernel.DONE

    @property
    def count(self) -> int:
        """How many facts there are."""
        return int(self._progress[kernel.SIZE])

    @property
    def operations(self) -> int:
        """How many rows were read."""
        return int(self._progress[kernel.OPERATIONS])

    @property
    def ranks(self) -> np.ndarray:
        """The ranks int64[n] of all facts."""
        return self._facts.rows[: self.count, self._bodies.words + kernel.RANK]

    def sample(self, p: int) -> np.ndarray:
        """Return the first words of an evenly spaced sample of a predicate's facts."""
        rows = self._facts.rows[: self.count : 1 + self.count // SAMPLED]
        first: np.ndarray = rows[rows[:, self._bodies.words + kernel.PREDICATE] == p, 0]
        return first

    def table(self, p: int, low: int | None = None, high: int | None = None) -> np.ndarray:
        """Return the facts of a predicate with low <= first word < high, sorted: words and ranks int64[C, n]."""
        bodies, rows = self._bodies, self._facts.rows[: self.count]
        if len(bodies.names) > 1:
            rows = rows[rows[:, bodies.words + kernel.PREDICATE] == p]
        if low is not None:
            rows = rows[rows[:, 0] >= low]
        if high is not None:
            rows = rows[rows[:, 0] < high]
        values = [bodies.words - 1] if bodies.folds else []
        table = np.ascontiguousarray(rows[:, [*range(bodies.keys[p]), *values, bodies.words + kernel.RANK]].T)
        return table.take(sort_order(table[: bodies.keys[p]]), axis=1)

    def _number(self) -> None:
        """Number facts by their words, if all words lie in a span that is small enough."""
        bodies, arrays = self._bodies, self._arrays
        most = int(bodies.keys.max())
        self._progress[kernel.MOST_KEYS], self._dense = most, np.zeros(1, np.int64)
        columns = [rows[: bodies.keys[bodies.names.index(name)]] for name, rows in self._base]
        parts = [*columns, *(arrays.data[at : at + n * width] for at, n, width, *_ in arrays.relations.tolist())]
        ends = [int(end) for part in parts if part.size for end in (part.min(), part.max())] + bodies.constants
        span = max(ends, default=0) - min(ends, default=0) + 1
        room = len(bodies.names) * span**most
        if bodies.computes_keys or room > (NUMBERS_MAX if bodies.fold else 64 * NUMBERS_MAX):
            return
        self._progress[[kernel.SPAN, kernel.LOW]] = span, min(ends, default=0)
        self._dense = np.zeros(room + 1 if bodies.fold else room // 64 + 1, np.int64)

    def _room(self, facts: int) -> arguments.Facts:
        indices = len(self._arrays.indices)
        size = 1 << int(2 * facts - 1).bit_length()
        waiting = (2 if self._bodies.fold else 1) * facts + 1  # improved values are queued again in a shared round
        return arguments.Facts(
            np.zeros((facts, self._bodies.words + kernel.FACT), np.int64), np.zeros((indices, facts), np.int64),
            np.zeros((indices, size), np.int64), np.zeros(waiting, np.int64), self._dense,
        )  # fmt: skip

    def _grow(self) -> arguments.Facts | None:
        """Increase the capacity, if there is memory for that and as much again for the trees that facts become."""
        old, progress = self._facts, self._progress
        nbytes = old.rows.nbytes + old.nexts.nbytes + old.begins.nbytes
        if len(old.rows) >= FACTS_MAX or 2 * GROWTH * nbytes >= memory_left():
            return None
        size, wait, begin = progress[[kernel.SIZE, kernel.WAIT, kernel.RING]].tolist()
        self._facts = new = self._room(GROWTH * len(old.rows))
        new.rows[:size] = old.rows[:size]
        new.ring[:wait] = np.roll(old.ring, -begin)[:wait]
        progress[kernel.RING] = 0
        first, parts = int(not progress[kernel.SPAN]), self._threads
        relink = partial(RELINK.call, self._arrays, new, self._bodies.keys, size, first)
        together([partial(relink, part, parts) for part in range(parts)])
        return new
