"""Probing: the delta of each trie first in the order, against the other tries' permuted indices.

A binding of the old body that holds an erased branch is gone, one of the new body that holds an inserted branch is
new; for a negated trie it is the other way round.  Needs no sensitivity index.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial

import numpy as np

from ivm.kernels import leapfrog as names
from ivm.kernels import probe as kernel
from ivm.plan import Index, Plan
from ivm.shape import plan_array, state_array
from ivm.surgery import Surgeries
from pagestore.apply import one_batch
from pagestore.compiled import raise_for
from pagestore.threads import together
from pagestore.tree import ERASE, INSERT, Pages, Tree

ACTIONS = np.array([ERASE, INSERT])
SMALL = 1 << 12  # bindings of one run of the join; a delta mostly finds few
FOUND = 1 << 13
SHARE = 128  # branches that a thread of its own takes at least; half a millisecond of work

Found = tuple[np.ndarray, np.ndarray, int]


def probe_all(
    plan: Plan, pages: Pages, old: Mapping[Index, Tree], new: Mapping[Index, Tree],
    changed: Sequence[Surgeries | None], threads: int = 1,
) -> Found:  # fmt: skip
    """(actions int64[n], bindings int64[C, n], iterator operations): what each trie's branches bind, in any order.

    `changed` are the branches each trie loses and gains, or None; many are shared out among threads.  Raises
    CorruptionError.
    """
    threads = min(threads, sum(part.shape[1] for both in changed for part in both or ()) // SHARE)
    if threads < 2:
        return prober(plan).run(pages, old, new, changed)

    def run(number: int) -> Found:
        return prober(plan, number).run(pages, old, new, [both and _share(both, number, threads) for both in changed])

    found = together([partial(run, number) for number in range(threads)])
    return *one_batch([(actions, rows) for actions, rows, _ in found]), sum(operations for *_, operations in found)


def _share(both: Surgeries, number: int, of: int) -> Surgeries:
    """One of as many parts, each in order."""
    cut = [slice(part.shape[1] * number // of, part.shape[1] * (number + 1) // of) for part in both]
    return Surgeries(both.erased[:, cut[0]], both.inserted[:, cut[1]])


@lru_cache(256)
def prober(plan: Plan, number: int = 0) -> "Prober":
    """The one Prober of a plan and a thread's number."""
    return Prober(plan)


class Prober:
    """The probes of a plan as arrays, with buffers that are used again, so that a small delta allocates nothing."""

    def __init__(self, plan: Plan) -> None:
        self._tries = [[trie.index for trie in probing.tries] for probing in plan.probes]
        self._columns = len(plan.columns)
        pieces: list[np.ndarray] = []
        rows = []
        for t, probing in enumerate(plan.probes):
            shape = probing.shape
            back = np.array([probing.columns.index(name) for name in plan.columns], np.int64)
            none = shape.no_sensors
            sections = plan_array(shape, none, 1), state_array(shape, none, False), _pins(probing, t), back
            at = np.cumsum([sum(map(len, pieces)), *map(len, sections)])
            rows.append([at[0], at[1], at[1], at[2], at[2], 1 + probing.tries[t].levels[-1], at[3]])
            pieces += sections
        self._static = np.concatenate(pieces)
        self._probes = np.array(rows, np.int64)
        self._levels = max(probing.shape.levels for probing in plan.probes)
        self._state = np.empty(int((self._probes[:, kernel.STATE_END] - self._probes[:, kernel.STATE]).max()), np.int64)
        self._start = np.empty(self._levels + 1, np.int64)
        width = max(len(probing.columns) for probing in plan.probes)
        self._out = np.empty((width, SMALL), np.int64)
        self._rows = np.empty((0, 1, 1), np.int64)
        self._found, self._signs = np.empty((self._columns, FOUND), np.int64), np.empty(FOUND, np.int64)
        self._runs = np.empty(0, np.int64)

    def run(
        self, pages: Pages, old: Mapping[Index, Tree], new: Mapping[Index, Tree], changed: Sequence[Surgeries | None]
    ) -> Found:
        """As `probe_all`, in this thread."""
        if len(self._runs) < 4 * pages.page_words:
            self._runs = np.empty(4 * pages.page_words, np.int64)
        spans, branches = self._branches(changed)
        progress = np.zeros(kernel.PROGRESS, np.int64)
        regions = np.empty((self._levels + 1) * int(spans[:, :, 1].max()), np.int64)
        trees = self._trees(old, new)
        parts = []
        while progress[kernel.STEP] < 2 * len(self._probes):
            n = raise_for(
                kernel.probe_next(
                    *pages, self._static, self._probes, self._columns, trees, branches, spans, ACTIONS, progress,
                    self._state, regions, self._start, self._out, self._rows, self._runs, self._found, self._signs,
                )
            )  # fmt: skip
            parts.append((self._signs[:n].copy(), self._found[:, :n].copy()))
        return *one_batch(parts), int(progress[kernel.OPERATIONS])

    def _branches(self, changed: Sequence[Surgeries | None]) -> tuple[np.ndarray, np.ndarray]:
        """Where the branches of each step begin and how many there are, int64[P, 2, 2], and their words."""
        pieces, spans, at = [], [], 0
        for surgeries in changed:
            for rows in surgeries or ():
                spans += [at, rows.shape[1]]
                pieces.append(rows.ravel())
                at += rows.size
            if surgeries is None:
                spans += [0, 0, 0, 0]
        return np.array(spans, np.int64).reshape(-1, 2, 2), np.concatenate(pieces)

    def _trees(self, old: Mapping[Index, Tree], new: Mapping[Index, Tree]) -> np.ndarray:
        flat: list[int] = []
        for tries in self._tries:
            for trees in (old, new):
                for index in tries:
                    tree = trees[index]
                    flat += (tree.root, tree.height, tree.spec.keys)
        return np.array(flat, np.int64).reshape(len(self._tries), 2, -1)


def _pins(plan: Plan, t: int) -> np.ndarray:
    """How a branch of trie t fills the levels down to its last: its own words, and levels held by an equality."""
    trie = plan.tries[t]
    held = {b.level: b for b in plan.bounds if b.kind == names.EQ}
    pins = []
    for level in range(trie.levels[-1] + 1):
        if level in trie.levels:
            pins.append((trie.levels.index(level), -1, 0))
        else:
            pins.append((-1, held[level].other, held[level].constant))
    return np.array(pins, np.int64).ravel()
