"""Evaluate a recursive stratum from scratch in memory, if its bodies are plain (flat_bodies.py),
with several threads.

path(x, z) <- path(x, y), edge(y, z).               threads take ranges of x, since a path has the same x as the
                                                    path it derives from
same(x, y) <- edge(a, x), same(a, b), edge(b, y).   threads share large rounds (shared_rounds.py)

Derive the facts of a recursive stratum in memory, in rounds (kernels/rounds.py).

Large rounds of a recursion in memory, which threads share (kernels/shared_rounds.py).
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import prod
from threading import Lock

import numpy as np

from ivm.memory import memory_allowed, memory_left
from ivm.ways.pending import PendingRows
from ivm.ways.recursion.facts import ROUNDS_MAX, Limits
from ivm.ways.recursion.flat_bodies import FlatBodies, NotPlain
from ivm.ways.recursion.kernels import rounds as kernel
from ivm.ways.recursion.kernels import shared_rounds as shared
from pagestore.compiled import TypedKernel
from pagestore.host import INSERT, WORD_MAX, WORD_MIN, Edits, sort_order, together

FACTS_MIN, FACTS_MAX = 1 << 14, 1 << 26  # initial capacity, and the most: beyond, rounds use pages
GROWTHS = 4, 2  # by which the capacity may grow, the first for which there is memory
SAMPLED = 1 << 14
NUMBERS_MAX = 1 << 24  # words of a table of numbered facts
NUMBERS_SHARE = 4  # these tables take at most one in so many of the bytes allowed

RUN = TypedKernel(kernel.run_rounds)
RELINK = TypedKernel(kernel.relink)
SEED = TypedKernel(kernel.seed)

# facts derived from no others: a view, and words int64[K, n]
Base = Sequence[tuple[str, np.ndarray]]


class FlatFacts:
    """The facts derived from given base facts, or from a range of them."""

    def __init__(
        self,
        bodies: FlatBodies,
        arrays: kernel.Bodies,
        base: Base,
        limits: Limits,
        threads: int,
        memory: int,
    ) -> None:
        self._bodies, self._arrays, self._base, self.threads = bodies, arrays, base, threads
        self._memory = memory
        self._progress = progress = np.zeros(kernel.PROGRESS, np.int64)
        progress[kernel.SIZE_MAX] = limits.rows_max or WORD_MAX
        progress[kernel.RANK_MAX] = (0 if bodies.fold else limits.rounds_max) or WORD_MAX
        progress[kernel.FOLD] = bodies.fold
        progress[kernel.SHARED_MIN] = SHARED_MIN if threads > 1 else WORD_MAX
        self._number()
        facts = max(FACTS_MIN, 2 * sum(rows.shape[1] for _, rows in base))
        self._facts = self._room(facts if self._size(facts) < self._memory else FACTS_MIN)

    def derive(self) -> int:
        """Derive all facts. Return DONE, or the status that says why that was impossible."""
        bodies, progress = self._bodies, self._progress
        values, none = np.zeros(bodies.variables + bodies.words, np.int64), np.zeros(0, np.int64)
        empty = none.reshape(0, 1)
        at, costs, ranks = (np.zeros(bodies.depth, np.int64) for _ in range(3))
        run = kernel.Run(progress, values, at, costs, ranks, empty, none, none)
        shared = SharedRounds(self._arrays, run, bodies.keys, bodies.words, self.threads)
        todo = [(bodies.names.index(name), rows) for name, rows in self._base]
        while todo or progress[kernel.WAIT]:
            if todo:
                p, rows = todo[0]
                terms = np.arange(bodies.keys[p])
                status = SEED.call(
                    self._arrays, self._facts, run, p, np.ascontiguousarray(rows), terms
                )
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
        # free memory
        self._facts = self._facts._replace(nexts=empty, begins=empty, ring=none, dense=none)
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
        """Return the facts of a predicate with low <= first word < high, sorted: words and ranks
        int64[C, n].
        """
        bodies, rows = self._bodies, self._facts.rows[: self.count]
        if len(bodies.names) > 1:
            rows = rows[rows[:, bodies.words + kernel.PREDICATE] == p]
        if low is not None:
            rows = rows[rows[:, 0] >= low]
        if high is not None:
            rows = rows[rows[:, 0] < high]
        values = [bodies.words - 1] if bodies.folds else []
        table = np.ascontiguousarray(
            rows[:, [*range(bodies.keys[p]), *values, bodies.words + kernel.RANK]].T
        )
        return table.take(sort_order(table[: bodies.keys[p]]), axis=1)

    def waiting(self, p: int) -> np.ndarray:
        """Return the keys int64[K, n] of a predicate's facts not joined with others yet."""
        bodies = self._bodies
        facts = self._facts
        (wait, begin) = self._progress[[kernel.WAIT, kernel.RING]].tolist()
        rows = facts.rows[facts.ring[(begin + np.arange(wait)) % len(facts.ring)]]
        keys: np.ndarray = rows[rows[:, bodies.words + kernel.PREDICATE] == p, : bodies.keys[p]].T
        return keys

    def _number(self) -> None:
        """Number facts by their words, if all words lie in a span that is small enough."""
        bodies, arrays = self._bodies, self._arrays
        most = int(bodies.keys.max())
        self._progress[kernel.MOST_KEYS], self._dense = most, np.zeros(1, np.int64)
        columns = [rows[: bodies.keys[bodies.names.index(name)]] for name, rows in self._base]
        parts = [
            *columns,
            *(arrays.data[at : at + n * width] for at, n, width, *_ in arrays.relations.tolist()),
        ]
        ends = [
            int(end) for part in parts if part.size for end in (part.min(), part.max())
        ] + bodies.constants
        span = max(ends, default=0) - min(ends, default=0) + 1
        room = len(bodies.names) * span**most
        words = room + 1 if bodies.fold else room // 64 + 1
        # threads that share rounds have their own
        tables = 1 if bodies.fold or self.threads == 1 else 1 + self.threads
        if (
            bodies.computes_keys
            or words > NUMBERS_MAX
            or 8 * words * tables > self._memory // NUMBERS_SHARE
        ):
            return
        self._progress[[kernel.SPAN, kernel.LOW]] = span, min(ends, default=0)
        self._dense = np.zeros(words, np.int64)
        self._memory -= 8 * words * tables

    def _room(self, facts: int) -> kernel.Facts:
        rows, nexts, begins, waiting = (np.zeros(shape, np.int64) for shape in self._shapes(facts))
        return kernel.Facts(rows, nexts, begins, waiting, self._dense)

    def _shapes(self, facts: int) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the arrays that hold so many facts."""
        indices = len(self._arrays.indices)
        size = 1 << int(2 * facts - 1).bit_length()
        # improved values are queued again in a shared round
        waiting = (2 if self._bodies.fold else 1) * facts + 1
        return (
            (facts, self._bodies.words + kernel.FACT),
            (indices, facts),
            (indices, size),
            (waiting,),
        )

    def _size(self, facts: int) -> int:
        """Return the bytes of the arrays that hold so many facts."""
        return 8 * sum(map(prod, self._shapes(facts)))

    def _grow(self) -> kernel.Facts | None:
        """Return larger arrays with the same facts; None if there is too little memory.

        Old and new arrays must fit together, and as much again must stay free, for the tables that
        are made of facts in the end: these take no more than the arrays, whose indices are freed
        before.
        """
        old, progress = self._facts, self._progress
        count, left = len(old.rows), memory_left() // 2
        sizes = [(growth, self._size(growth * count)) for growth in GROWTHS]
        most = self._memory - self._size(count)
        growth = next((growth for growth, size in sizes if size < min(most, left)), 0)
        if count >= FACTS_MAX or not growth:
            return None
        size, wait, begin = progress[[kernel.SIZE, kernel.WAIT, kernel.RING]].tolist()
        try:
            self._facts = new = self._room(growth * count)
        except MemoryError:
            return None
        new.rows[:size] = old.rows[:size]
        new.ring[:wait] = np.roll(old.ring, -begin)[:wait]
        progress[kernel.RING] = 0
        first, parts = int(not progress[kernel.SPAN]), self.threads
        relink = partial(RELINK.call, self._arrays, new, self._bodies.keys, size, first)
        together([partial(relink, part, parts) for part in range(parts)])
        return new


RANGED_MIN = 1 << 10  # facts; ranges of fewer are not worth a thread
RANGES = 2  # ranges per thread, since some derive more facts than others
PIECES = 8  # of a range that does not fit into memory: only its own facts are derived twice


class FlatRounds:
    """One evaluation of a recursive stratum in memory, round by round, over flat tries."""

    def __init__(
        self, bodies: FlatBodies, limits: Limits, threads: int, wait: Callable[[], PendingRows]
    ) -> None:
        """Take what makes an empty `PendingRows`, which keeps facts until their trees are built.
        Raises NotPlain.
        """
        if bodies.fold and limits.rounds_max not in (None, ROUNDS_MAX):
            raise NotPlain  # ranks of aggregated values are not numbers of rounds
        self._bodies, self._limits, self._threads, self._wait = bodies, limits, threads, wait
        self._memory = memory_allowed()
        self.below = bodies.below  # how many rows are read into memory
        self._restart()

    def _restart(self) -> None:
        """Begin the evaluation anew: forget all facts that were derived so far, and their ranks."""
        # words int64[C, n] by view: keys, a value if aggregated, the rank
        self.found = self._wait()
        for p, name in enumerate(self._bodies.names):
            self.found.add(name, _inserted(np.empty((self._bodies.columns(p), 0), np.int64)))
        self.operations, self.by_rank = 0, np.zeros(1, np.int64)  # how many facts have each rank
        # if memory was short: keys to be joined with others
        self.unfinished: dict[str, np.ndarray] | None = None

    def run(self, base: Base) -> bool:
        """Derive all facts from `base`; return whether that was possible.

        It is not if a value overflows or is better than one that it derives from. If memory is
        short, facts are derived for one range after the other of a column that every fact copies
        from its parent. Without such a column `unfinished` has the facts whose consequences are
        missing; facts of `base` may be missing as well.  Raises LimitError.
        """
        arrays, status = self._bodies.arrays(), kernel.LIMIT
        column = min(self._bodies.kept, default=None) if self._limits.rows_max is None else None
        if column is not None and self._threads > 1:
            cuts = _cuts(_words(base, column), RANGES * self._threads)
            if len(cuts) >= self._threads:
                status = self._ranges(arrays, base, column, cuts)
        if status not in (kernel.DONE, kernel.GROW):
            status = self._whole(arrays, base, keep=column is None)
            if status == kernel.GROW and column is not None:
                status = self._ranges(arrays, base, column, _pieces(_words(base, column)))
        return status in (kernel.DONE, kernel.GROW)

    def _whole(self, arrays: kernel.Bodies, base: Base, keep: bool) -> int:
        """Derive all facts with all threads; return why that stopped. If memory is short, `keep`
        those derived.
        """
        self._restart()
        facts = FlatFacts(self._bodies, arrays, base, self._limits, self._threads, self._memory)
        status = facts.derive()
        if status == kernel.LIMIT:
            self._limits.check([*np.bincount(facts.ranks)[1:].tolist(), 1], facts.count + 1)
        if status == kernel.DONE or (status == kernel.GROW and keep):
            self._take(facts, status == kernel.DONE)
        return status

    def _take(self, facts: FlatFacts, finished: bool) -> None:
        """Add facts to those that were found."""
        counts = np.bincount(facts.ranks, minlength=len(self.by_rank))
        counts[: len(self.by_rank)] += self.by_rank
        self.by_rank, self.operations = counts, self.operations + facts.operations
        for p, name in enumerate(self._bodies.names):
            cuts = _cuts(facts.sample(p), facts.threads)
            tasks = [
                partial(facts.table, p, low, high) for low, high in pairwise([None, *cuts, None])
            ]
            for table in together(tasks):
                self.found.add(name, _inserted(table))
        if not finished:
            known, self.unfinished = self.unfinished or {}, {}
            for p, name in enumerate(self._bodies.names):
                keys = [known[name]] if name in known else []
                self.unfinished[name] = np.concatenate([*keys, facts.waiting(p)], axis=1)

    def _ranges(self, arrays: kernel.Bodies, base: Base, column: int, cuts: Sequence[int]) -> int:
        """Derive facts for each range of a column that every fact copies from its parent; return
        why that stopped.

        A range that does not fit into memory is cut into pieces. If one of a single word does not
        fit, no other is begun.
        """
        self._restart()
        left, lock = deque(pairwise([WORD_MIN, *cuts, WORD_MAX])), Lock()
        # as much again is for facts that wait for their trees
        memory = self._memory // (2 * self._threads)

        def derive(low: int, high: int) -> int:
            """Evaluate a range, or leave its pieces to be evaluated."""
            chosen = [
                (name, rows[:, (rows[column] >= low) & (rows[column] < high)])
                for name, rows in base
            ]
            facts = FlatFacts(self._bodies, arrays, chosen, self._limits, 1, memory)
            status = facts.derive()
            if status == kernel.GROW and (pieces := _pieces(_words(chosen, column))):
                left.extendleft(reversed([*pairwise([low, *pieces, high])]))
                return kernel.DONE
            with lock:
                if status in (kernel.DONE, kernel.GROW):
                    self._take(facts, status == kernel.DONE)
            return status

        def work() -> int:
            """Evaluate ranges until none is left; return why the last one stopped."""
            while True:
                try:
                    low, high = left.popleft()
                except IndexError:
                    return kernel.DONE
                status = derive(low, high)
                if status != kernel.DONE:
                    left.clear()
                    return status

        ends = {*together([work] * self._threads)}
        others = ends - {kernel.DONE, kernel.GROW}
        return min(others) if others else max(ends)


def _inserted(rows: np.ndarray) -> Edits:
    """Return edits that insert rows."""
    return np.broadcast_to(INSERT, rows.shape[1]), rows


def _words(base: Base, column: int) -> np.ndarray:
    """Return the words of a column of all base facts."""
    return np.concatenate([rows[column] for _, rows in base] or [np.empty(0, np.int64)])


def _pieces(words: np.ndarray) -> list[int]:
    """Return the words at which all pieces but the first begin; none if there is one word."""
    distinct = np.unique(words)
    cuts: list[int] = distinct[:: -(-len(distinct) // PIECES) or 1][1:].tolist()
    return cuts


def _cuts(words: np.ndarray, parts: int) -> list[int]:
    """Return the words at which all ranges but the first begin, of about equal size; none if
    there are few words.
    """
    if len(words) < RANGED_MIN or parts == 1:
        return []
    cuts: list[int] = np.unique(np.sort(words)[:: -(-len(words) // parts)])[1:].tolist()
    return cuts


SHARED_MIN = 1 << 11  # queued facts; joining fewer takes no longer than waking threads
ASIDE = 1 << 15  # facts that a thread puts aside before all are added: these fit in its cache
APART = 16  # words between what two threads write, so that they share no cache line

PROPOSE = TypedKernel(shared.propose)
CHOOSE = TypedKernel(shared.choose)
PLACE = TypedKernel(shared.place)
LEARN = TypedKernel(shared.learn)
CHAIN = TypedKernel(shared.chain)


class SharedRounds:
    """The buffers of one evaluation's threads: a run each, and facts that they put aside."""

    def __init__(
        self, bodies: kernel.Bodies, run: kernel.Run, keys: np.ndarray, words: int, threads: int
    ) -> None:
        self._bodies, self._run, self._keys, self._threads = bodies, run, keys, threads
        self._aside = np.zeros(
            (threads * threads * (ASIDE // threads), words + kernel.ASIDE), np.int64
        )
        self._recent = np.zeros((threads, 2 * ASIDE), np.int64)
        # Each thread's own table of numbered facts has those that it put aside, and the first
        # `_learnt` of all facts.
        self._dense: list[np.ndarray] = []
        self._learnt = 0

    def round(self, facts: kernel.Facts, grow: Callable[[], kernel.Facts | None]) -> int:
        """Join all queued facts, and add the facts derived; `grow` increases the capacity, if there
        is memory.

        Return DONE, or why it stopped.
        """
        progress = self._run.progress
        waiting, parts = int(progress[kernel.WAIT]), range(self._threads)
        at = [part * shared.BLOCK for part in parts]
        status = kernel.GROW
        while status == kernel.GROW:
            while progress[kernel.SIZE] + len(self._aside) > len(facts.rows):
                grown = grow()
                if grown is None:
                    return kernel.GROW
                facts = grown
            runs = self._runs(at)
            known = [facts._replace(dense=dense) for dense in self._own_dense(facts)]
            tasks = [
                partial(PROPOSE.call, self._bodies, known[p], runs[p], p, len(runs), waiting)
                for p in parts
            ]
            status = int(max(together(tasks)))
            if status > kernel.GROW:
                return status
            at = [int(run.progress[kernel.NEXT]) for run in runs]
            progress[kernel.OPERATIONS] += sum(run.progress[kernel.OPERATIONS] for run in runs)
            if not self._add(facts, np.stack([run.puts for run in runs])):
                return kernel.LIMIT
        progress[kernel.RING] = (progress[kernel.RING] + waiting) % len(facts.ring)
        progress[kernel.WAIT] -= waiting
        return kernel.DONE

    def _own_dense(self, facts: kernel.Facts) -> list[np.ndarray]:
        """Return each thread's table of numbered facts; all share one if `propose` writes none."""
        progress = self._run.progress
        if progress[kernel.FOLD] or not progress[kernel.SPAN]:
            return [facts.dense] * self._threads
        if not self._dense:
            self._dense = [np.zeros(len(facts.dense), np.int64) for _ in range(self._threads)]
        known = [facts._replace(dense=dense) for dense in self._dense]
        together([partial(LEARN.call, part, progress, self._keys, self._learnt) for part in known])
        self._learnt = int(progress[kernel.SIZE])
        return self._dense

    def _runs(self, starts: list[int]) -> list[kernel.Run]:
        """Return a run for each thread, which takes the queued facts from its start on."""
        runs = []
        for aside, recent, start in zip(
            np.split(self._aside, self._threads), self._recent, starts, strict=True
        ):
            puts = np.zeros(self._threads + APART, np.int64)[: self._threads]
            progress, values, at, costs, ranks = (
                np.append(column, np.zeros(APART, np.int64)) for column in self._run[:5]
            )
            progress[[kernel.OPERATIONS, kernel.NEXT]] = 0, start
            runs.append(kernel.Run(progress, values, at, costs, ranks, aside, puts, recent))
        return runs

    def _add(self, facts: kernel.Facts, counts: np.ndarray) -> bool:
        """Add the facts that were put aside; return whether the limits allow it."""
        progress, parts = self._run.progress, range(self._threads)
        again = [np.zeros(int(counts[:, p].sum()) + APART, np.int64) for p in parts]
        chosen, waiting = zip(
            *together(
                [
                    partial(CHOOSE.call, facts, progress, self._aside, counts, again[p], p)
                    for p in parts
                ]
            ),
            strict=True,
        )
        if (
            sum(chosen)
            and not progress[kernel.FOLD]
            and progress[kernel.LEVEL] >= progress[kernel.RANK_MAX]
        ):
            return False
        size = int(progress[kernel.SIZE])
        *firsts, end = (size + np.cumsum([0, *chosen])).tolist()
        together(
            [partial(PLACE.call, facts, progress, self._aside, counts, firsts[p], p) for p in parts]
        )
        if len(self._bodies.indices) > 1:
            together(
                [partial(CHAIN.call, self._bodies, facts, size, end, p, len(parts)) for p in parts]
            )
        progress[kernel.SIZE] = end
        progress[kernel.WAIT] += end - size
        rows = np.concatenate([rows[:n] for rows, n in zip(again, waiting, strict=True)])
        behind = progress[kernel.RING] + progress[kernel.WAIT] + np.arange(len(rows))
        facts.ring[behind % len(facts.ring)] = rows
        progress[kernel.WAIT] += len(rows)
        return bool(end <= progress[kernel.SIZE_MAX])
