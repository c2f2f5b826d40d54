"""Large rounds of a recursion in memory, which threads share (kernels/shared_rounds.py)."""

from collections.abc import Callable
from functools import partial

import numpy as np

from ivm.engine.recursion.kernels import arguments
from ivm.engine.recursion.kernels import flat_rounds as kernel
from ivm.engine.recursion.kernels import shared_rounds as shared
from pagestore.compiled import Door, Table, Words
from pagestore.host import together

SHARED_MIN = 1 << 11  # queued facts; joining fewer takes no longer than waking threads
ASIDE = 1 << 15  # facts that a thread puts aside before all are added: these fit in its cache
APART = 16  # words between what two threads write, so that they share no cache line

PROPOSE = Door(shared.propose, arguments.Bodies, arguments.Facts, arguments.Run, int, int, int)
CHOOSE = Door(shared.choose, arguments.Facts, Words, Table, Table, Words, int)
PLACE = Door(shared.place, arguments.Facts, Words, Table, Table, int, int)
LEARN = Door(shared.learn, arguments.Facts, Words, Words, int)
CHAIN = Door(shared.chain, arguments.Bodies, arguments.Facts, int, int, int, int)


class SharedRounds:
    """The buffers of one evaluation's threads: a run each, and facts that they put aside."""

    def __init__(
        self, bodies: arguments.Bodies, run: arguments.Run, keys: np.ndarray, words: int, threads: int
    ) -> None:
        self._bodies, self._run, self._keys, self._threads = bodies, run, keys, threads
        self._aside = np.zeros((threads * threads * (ASIDE // threads), words + kernel.ASIDE), np.int64)
        self._recent = np.zeros((threads, 2 * ASIDE), np.int64)
        # Each thread's own table of numbered facts has those that it put aside, and the first `_learnt` of all facts.
        self._dense: list[np.ndarray] = []
        self._learnt = 0

    def round(self, facts: arguments.Facts, grow: Callable[[], arguments.Facts | None]) -> int:
        """Join all queued facts, and add the facts derived; `grow` increases the capacity, if there is memory.

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
            tasks = [partial(PROPOSE.call, self._bodies, known[p], runs[p], p, len(runs), waiting) for p in parts]
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

    def _own_dense(self, facts: arguments.Facts) -> list[np.ndarray]:
        """Return each thread's table of numbered facts; all share one unless it is written in `propose`."""
        progress = self._run.progress
        if progress[kernel.FOLD] or not progress[kernel.SPAN]:
            return [facts.dense] * self._threads
        if not self._dense:
            self._dense = [np.zeros(len(facts.dense), np.int64) for _ in range(self._threads)]
        known = [facts._replace(dense=dense) for dense in self._dense]
        together([partial(LEARN.call, own, progress, self._keys, self._learnt) for own in known])
        self._learnt = int(progress[kernel.SIZE])
        return self._dense

    def _runs(self, starts: list[int]) -> list[arguments.Run]:
        """Return a run for each thread, which takes the queued facts from its start on."""
        runs = []
        for aside, recent, start in zip(np.split(self._aside, self._threads), self._recent, starts, strict=True):
            puts = np.zeros(self._threads + APART, np.int64)[: self._threads]
            progress, values, at, costs, ranks = (np.append(own, np.zeros(APART, np.int64)) for own in self._run[:5])
            progress[[kernel.OPERATIONS, kernel.NEXT]] = 0, start
            runs.append(arguments.Run(progress, values, at, costs, ranks, aside, puts, recent))
        return runs

    def _add(self, facts: arguments.Facts, counts: np.ndarray) -> bool:
        """Add the facts that were put aside; return whether the limits allow it."""
        progress, parts = self._run.progress, range(self._threads)
        again = [np.zeros(int(counts[:, p].sum()) + APART, np.int64) for p in parts]
        chosen, waiting = zip(
            *together([partial(CHOOSE.call, facts, progress, self._aside, counts, again[p], p) for p in parts]),
            strict=True,
        )
        if sum(chosen) and not progress[kernel.FOLD] and progress[kernel.LEVEL] >= progress[kernel.RANK_MAX]:
            return False
        size = int(progress[kernel.SIZE])
        *firsts, end = (size + np.cumsum([0, *chosen])).tolist()
        together([partial(PLACE.call, facts, progress, self._aside, counts, firsts[p], p) for p in parts])
        if len(self._bodies.indices) > 1:
            together([partial(CHAIN.call, self._bodies, facts, size, end, p, len(parts)) for p in parts])
        progress[kernel.SIZE] = end
        progress[kernel.WAIT] += end - size
        rows = np.concatenate([rows[:n] for rows, n in zip(again, waiting, strict=True)])
        behind = progress[kernel.RING] + progress[kernel.WAIT] + np.arange(len(rows))
        facts.ring[behind % len(facts.ring)] = rows
        progress[kernel.WAIT] += len(rows)
        return bool(end <= progress[kernel.SIZE_MAX])
