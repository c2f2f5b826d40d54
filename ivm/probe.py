"""Probing: the delta of each trie first in the order, against the other tries' permuted indices.

A binding of the old body that holds an erased branch is gone, one of the new body that holds an inserted branch is
new; for a negated trie it is the other way round.  Needs no sensitivity index.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from ivm.kernels import leapfrog as names
from ivm.kernels import probe as kernel
from ivm.plan import Index, Plan
from ivm.shape import Shape, plan_array, slices_room, state_array, tree_words
from ivm.surgery import Delta, settled
from pagestore.apply import one_batch
from pagestore.compiled import raise_for
from pagestore.order import FEW
from pagestore.threads import together
from pagestore.tree import ERASE, INSERT, Pages, Tree

ACTIONS = np.array([ERASE, INSERT])
SMALL = 1 << 12  # bindings of one run of the join; a delta mostly finds few
FOUND = 1 << 14
SHARE = 128  # branches that a thread of its own takes at least; half a millisecond of work


class Found(NamedTuple):
    """Bindings that go and come, each once and in order if they are `netted`, and iterator operations."""

    delta: Delta
    operations: int
    netted: bool


def probe_all(
    plan: Plan, pages: Pages, old: Mapping[Index, Tree], new: Mapping[Index, Tree],
    changed: Sequence[Delta], threads: int = 1,
) -> tuple[Delta, int]:  # fmt: skip
    """The change of bindings (rows as Plan.columns), and iterator operations: what each trie's branches bind.

    `changed` are the branches lost and gained by each of what is `probed`; many are shared out among threads.  Raises
    CorruptionError.
    """
    if threads > 1:
        threads = min(threads, prober(plan).work(changed) // SHARE)
    if threads < 2:
        delta, operations, netted = prober(plan).run(pages, old, new, changed)
        return delta if netted else settled(*delta), operations

    def run(number: int) -> Found:
        return prober(plan, number).run(pages, old, new, [_share(branches, number, threads) for branches in changed])

    found = together([partial(run, number) for number in range(threads)])
    return settled(*one_batch([part.delta for part in found])), sum(part.operations for part in found)


def _share(branches: Delta, number: int, of: int) -> Delta:
    """One of as many parts."""
    n = len(branches.actions)
    part = slice(n * number // of, n * (number + 1) // of)
    return Delta(branches.actions[part], branches.rows[:, part])


@lru_cache(256)
def probed(plan: Plan) -> list[tuple[Index, int]]:
    """The branches that a plan's probes begin with: of which index, and how deep; each once."""
    firsts = [probing.tries[t] for t, probing in enumerate(plan.probes)]
    return list(dict.fromkeys((trie.index, len(trie.levels)) for trie in firsts))


@lru_cache(256)
def prober(plan: Plan, number: int = 0) -> "Prober":
    """The one Prober of a plan and a thread's number."""
    return Prober(plan)


class Probes(NamedTuple):
    """The probes of a plan as kernels take them (see kernels/probe.py), and what room they need."""

    static: np.ndarray
    rows: np.ndarray
    indices: list[Index]  # of the trees that are read
    columns: int  # of a binding
    levels: int
    width: int
    state: int
    atoms: int  # that meet at a last level


@lru_cache(256)
def probes_of(plan: Plan) -> Probes:
    """Lay the probes of a plan out."""
    indices = list({trie.index: None for probing in plan.probes for trie in probing.tries})
    shapes = [_shape(probing, t) for t, probing in enumerate(plan.probes)]
    pieces: list[np.ndarray] = []
    rows = []
    for t, (probing, shape) in enumerate(zip(plan.probes, shapes, strict=True)):
        back = np.array([probing.columns.index(name) for name in plan.columns], np.int64)
        none = shape.no_sensors
        which = np.array([indices.index(trie.index) for trie in probing.tries], np.int64)
        sections = plan_array(shape, none, 1), state_array(shape, none, False), _pins(probing, t), back, which
        at = np.cumsum([sum(map(len, pieces)), *map(len, sections)]).tolist()
        trie = probing.tries[t]
        branches = probed(plan).index((trie.index, len(trie.levels)))
        rows.append([at[0], at[1], at[1], at[2], at[2], *at[3:], 1 + trie.levels[-1], branches, int(trie.negated)])
        pieces += sections
    table = np.array(rows, np.int64)
    return Probes(
        np.concatenate(pieces), table, indices, len(plan.columns), max(shape.levels for shape in shapes),
        max(len(p.columns) for p in plan.probes), int((table[:, kernel.STATE_END] - table[:, kernel.STATE]).max()),
        max(shape.innermost for shape in shapes),
    )  # fmt: skip


def _shape(probing: Plan, t: int) -> Shape:
    """The shape of the probe that begins with the branches of trie t: they are there, so that none looks for them,
    unless for a value.
    """
    return probing.shape if any(read.trie == t for read in probing.reads) else probing.shape.given(t)


class Prober:
    """The probes of a plan, with buffers that are used again, so that a small delta allocates nothing."""

    def __init__(self, plan: Plan) -> None:
        self._laid = laid = probes_of(plan)
        self._state = np.empty(laid.state, np.int64)
        self._start = np.empty(laid.levels + 1, np.int64)
        self._out = np.empty((laid.width, SMALL), np.int64)
        self._rows = np.empty((0, 1, 1), np.int64)
        self._found, self._signs = np.empty((laid.columns, FOUND), np.int64), np.empty(FOUND, np.int64)
        self._runs, self._regions = np.empty((0, 0), np.int64), np.empty(0, np.int64)
        self._order, self._fresh = np.empty(2 * FEW, np.int64), np.empty(FEW, bool)
        self._net_signs, self._net_found = np.empty(FEW, np.int64), np.empty((laid.columns, FEW), np.int64)

    def work(self, changed: Sequence[Delta]) -> int:
        """How many branches are to be probed, counted for every trie."""
        counts = [len(branches.actions) for branches in changed]
        return sum(counts[number] for number in self._laid.rows[:, kernel.BRANCHES].tolist())

    def run(
        self, pages: Pages, old: Mapping[Index, Tree], new: Mapping[Index, Tree], changed: Sequence[Delta]
    ) -> Found:
        """As `probe_all`, in this thread."""
        laid = self._laid
        if self._runs.shape[1] < 2 * pages.page_words:
            self._runs = slices_room(laid.atoms, pages.page_words)
        spans, branches, most = _laid_out(changed)
        if len(self._regions) < (laid.levels + 1) * most:
            self._regions = np.empty((laid.levels + 1) * most, np.int64)
        both = tree_words([*map(old.__getitem__, laid.indices), *map(new.__getitem__, laid.indices)])
        trees = np.array(both, np.int64).reshape(2, -1, 3)
        progress = np.zeros(kernel.PROGRESS, np.int64)
        parts = []
        while progress[kernel.STEP] < 2 * len(laid.rows):
            n = raise_for(
                kernel.probe_next(
                    *pages, laid.static, laid.rows, laid.columns, trees, branches, spans, ACTIONS, progress,
                    self._state, self._regions, self._start, self._out, self._rows, self._runs,
                    self._found, self._signs, self._order, self._fresh, self._net_signs, self._net_found,
                )
            )  # fmt: skip
            if progress[kernel.NETTED]:
                delta = Delta(self._net_signs[:n].copy(), self._net_found[:, :n].copy())
                return Found(delta, int(progress[kernel.OPERATIONS]), True)
            parts.append((self._signs[:n].copy(), self._found[:, :n].copy()))
        return Found(Delta(*one_batch(parts)), int(progress[kernel.OPERATIONS]), False)


def _laid_out(changed: Sequence[Delta]) -> tuple[np.ndarray, np.ndarray, int]:
    """Where some branches begin, how many and how far apart they are, int64[B, 3]; their words; the most of them.

    The words of n branches are their n actions, then the n words of each level.
    """
    pieces, spans, at, most = [], [], 0, 0
    for actions, rows in changed:
        n = len(actions)
        spans.append((at, n, n))
        pieces += [actions, rows.ravel()]
        at += n + rows.size
        most = max(most, n)
    return np.array(spans, np.int64), np.concatenate(pieces), most


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
