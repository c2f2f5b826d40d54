"""Probing: join the delta of each trie, first in the key order, with the other tries' permuted
indices.

A binding of the old body with an erased branch is erased, one of the new body with an inserted
branch is inserted; for a negated trie it is the other way round.  Needs no sensitivity index.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from math import inf
from typing import NamedTuple

import numpy as np

from ivm.join.kernels import tries
from ivm.join.plan_arrays import Shape, plan_array, slices_room, state_array, tree_words
from ivm.memory import Budget, MemoryUse, within_memory
from ivm.names import is_unread
from ivm.plan import costs
from ivm.plan.plan import Index, Plan
from ivm.views.delta import Delta, Transition, net_changes
from ivm.ways.kernels import probe as kernel
from pagestore.compiled import Tables, TypedKernel, raise_for
from pagestore.host import ERASE, FEW, INSERT, Edits, Pages, one_batch, together

ACTIONS = np.array([ERASE, INSERT])
SMALL = 1 << 11  # bindings of one run of the join; a delta usually finds few
FOUND = 1 << 12
SHARE = 128  # the fewest branches worth a thread; half a millisecond of work
SHARES_PER_THREAD = 2  # so that the others wait less for a slow thread

PROBE = TypedKernel(
    kernel.probe_next,
    Pages,
    kernel.ProbeTable,
    Tables,
    kernel.Branches,
    kernel.ProbeRun,
    kernel.Found,
    kernel.Composing,
)


class Found(NamedTuple):
    """Erased, then inserted bindings, a part for each call of the kernel, and iterator operations.

    If they are `composed` there is one part, sorted and without duplicates.
    """

    parts: list[Edits]
    operations: int
    composed: bool


@within_memory("finding rows that change")
def probe_all(
    plan: Plan,
    pages: Pages,
    transition: Transition,
    changed: Sequence[Delta],
    threads: int = 1,
    budget: Budget | None = None,
) -> tuple[Delta, int]:
    """Return the change of bindings (rows as Plan.columns) that contain changed branches, and
    iterator operations.

    `changed` are the branches erased and inserted, for each entry of `probed`; many are divided
    among threads.  Raises CorruptionError, RoomError, and Stopped by a `budget` of costs.
    """
    moved = _moved(plan, changed) if plan.moves else ()
    probing = Probing(plan, pages, transition, threads, budget, moved).run(
        _with_moves(plan, moved, changed), compose=True
    )
    delta = Delta(*one_batch(probing.parts))
    return delta if probing.composed else net_changes(*delta), probing.operations


@within_memory("finding rows that change")
def probe_by_shares(
    plan: Plan,
    pages: Pages,
    transition: Transition,
    shares: Iterable[Sequence[Delta]],
    threads: int,
    budget: Budget,
) -> tuple[Delta, int]:
    """Return the same for branches that come share by share, none more than once in each."""
    probing = Probing(plan, pages, transition, threads, budget)
    shares_probed = [probing.run(changed) for changed in shares]
    parts = [part for share in shares_probed for part in share.parts]
    return net_changes(*one_batch(parts)), sum(share.operations for share in shares_probed)


class Probing:
    """Runs the probes of a plan, within the memory that bindings may take and a budget of costs."""

    def __init__(
        self,
        plan: Plan,
        pages: Pages,
        transition: Transition,
        threads: int,
        budget: Budget | None,
        moved: tuple[int, ...] = (),
    ) -> None:
        """`moved` are the tries whose one value is exchanged."""
        self._moved = moved
        self._plan, self._pages, self._transition = plan, pages, transition
        self._threads = threads
        self._memory, self._budget = MemoryUse().begin(), budget or Budget(inf, float)

    def run(self, changed: Sequence[Delta], compose: bool = False) -> Found:
        """Return what changed branches find; if `compose`, sorted and composed, if it is little."""
        laid = probes_of(self._plan, self._moved)
        given = _probe_input(laid, self._transition, changed)
        threads = max(1, min(self._threads, given.work // SHARE))
        shares = iter(
            _shares(given.spans, SHARES_PER_THREAD * threads) if threads > 1 else [given.spans]
        )
        args = self._pages, given, shares, self._memory, self._budget
        if threads == 1:
            return prober(self._plan, self._moved).run(*args, compose=compose)
        probers = [prober(self._plan, self._moved, number) for number in range(threads)]
        results = together([partial(share.run, *args) for share in probers])
        return Found(
            [part for result in results for part in result.parts],
            sum(result.operations for result in results),
            False,
        )


class ProbeInput(NamedTuple):
    """The trees probed and the branches to probe with, as ways/kernels/probe.py takes them."""

    trees: np.ndarray
    branches: np.ndarray
    spans: np.ndarray
    work: int  # how many branches, counted for every trie


def _probe_input(laid: "Probes", transition: Transition, changed: Sequence[Delta]) -> ProbeInput:
    """Put branches into one array: n branches' n actions, then the n words of each level."""
    pieces, spans, at = [], [], 0
    for actions, rows in changed:
        spans.append((at, len(actions), len(actions)))
        pieces += [actions, rows.ravel()]
        at += len(actions) + rows.size
    sides = transition.old, transition.new
    both = tree_words([trees[index] for trees in sides for index in laid.indices])
    work = sum(spans[number][1] for number in laid.rows[:, kernel.BRANCHES].tolist())
    return ProbeInput(
        np.array(both, np.int64).reshape(2, -1, 3),
        np.concatenate(pieces),
        np.array(spans, np.int64),
        work,
    )


def _shares(spans: np.ndarray, of: int) -> list[np.ndarray]:
    """Divide every span of branches into `of` shares."""
    ends = spans[:, 1] * np.arange(of + 1)[:, None] // of
    shares = np.repeat(spans[None], of, axis=0)
    shares[:, :, 0] += ends[:-1]
    shares[:, :, 1] = ends[1:] - ends[:-1]
    return list(shares)


@lru_cache(256)
def probed(plan: Plan) -> list[tuple[Index, int]]:
    """Return (index, depth) of the branches that a plan's probes begin with, each once."""
    firsts = [probing.tries[t] for t, probing in enumerate(plan.probes)]
    return list(dict.fromkeys((trie.index, len(trie.levels)) for trie in firsts))


def _moved(plan: Plan, changed: Sequence[Delta]) -> tuple[int, ...]:
    """Return the tries with moves whose one value is exchanged, given changes as `probed`."""
    given = dict(zip(probed(plan), changed, strict=True))
    actions = {t: given[plan.tries[t].index, 1].actions.tolist() for t, *_ in plan.moves}
    return tuple(t for t in actions if sorted(actions[t]) == sorted((ERASE, INSERT)))


def _with_moves(plan: Plan, moved: tuple[int, ...], changed: Sequence[Delta]) -> list[Delta]:
    """Return changes as `probed`, and for each move of some tries the branch that it begins with:
    its value under which bindings are found, then the other.
    """
    begun, given = [*changed], dict(zip(probed(plan), changed, strict=True))
    for move in plan.moves:
        if move.trie in moved:
            actions, rows = given[plan.tries[move.trie].index, 1]
            went, came = (rows[0, actions == action][0] for action in ACTIONS)
            goes = (came > went) == move.rises
            action, values = (ERASE, (went, came)) if goes else (INSERT, (came, went))
            begun.append(Delta(np.array([action]), np.array(values)[:, None]))
    return begun


@lru_cache(256)
def prober(plan: Plan, moved: tuple[int, ...] = (), _number: int = 0) -> "Prober":
    """Return the Prober of a plan, some of whose tries have `moved`, for a thread; it is cached."""
    return Prober(probes_of(plan, moved))


class Probes(NamedTuple):
    """The probes of a plan as kernels take them (see ways/kernels/probe.py), and the sizes of
    their buffers.
    """

    static: np.ndarray
    rows: np.ndarray
    indices: list[Index]  # of the trees that are read
    columns: int  # of a binding
    levels: int
    width: int
    state: int
    atoms: int  # joined at a last level


@lru_cache(256)
def probes_of(plan: Plan, moved: tuple[int, ...] = ()) -> Probes:
    """Return the probes of a plan as kernels take them: those of moves for tries that `moved`,
    whose branches come after those of `probed`.
    """
    begun = [(t, probing) for t, probing in enumerate(plan.probes) if t not in moved]
    given = [probed(plan).index((p.tries[t].index, len(p.tries[t].levels))) for t, p in begun]
    moves = [(move.trie, move.plan) for move in plan.moves if move.trie in moved]
    given += range(len(probed(plan)), len(probed(plan)) + len(moves))
    begun += moves
    indices = list({trie.index: None for _, probing in begun for trie in probing.tries})
    shapes = [_shape(probing, t) for t, probing in begun]
    read = [name for name in plan.columns if not is_unread(name)]
    # else they would tell bindings apart
    columns = [read[0] if is_unread(name) else name for name in plan.columns]
    pieces: list[np.ndarray] = []
    rows = []
    for (t, probing), shape, branches in zip(begun, shapes, given, strict=True):
        back = np.array([probing.columns.index(name) for name in columns], np.int64)
        none = shape.no_sensors
        which = np.array([indices.index(trie.index) for trie in probing.tries], np.int64)
        sections = (
            plan_array(shape, none, 1),
            state_array(shape, none, False),
            _pins(probing, t),
            back,
            which,
        )
        at = np.cumsum([sum(map(len, pieces)), *map(len, sections)]).tolist()
        trie = probing.tries[t]
        ends = at[0], at[1], at[1], at[2], at[2], *at[3:]
        rows.append([*ends, 1 + trie.levels[-1], branches, int(trie.negated)])
        pieces += sections
    table = np.array(rows, np.int64)
    return Probes(
        np.concatenate(pieces),
        table,
        indices,
        len(plan.columns),
        max(shape.levels for shape in shapes),
        max(len(p.columns) for _, p in begun),
        int((table[:, kernel.STATE_END] - table[:, kernel.STATE]).max()),
        max(shape.innermost for shape in shapes),
    )


def _shape(probing: Plan, t: int) -> Shape:
    """Return the shape of the probe that begins with the branches of trie t.  These exist, so it
    does not look them up, unless it reads a value there.
    """
    return (
        probing.shape if any(read.trie == t for read in probing.reads) else probing.shape.given(t)
    )


class Prober:
    """The probes of a plan, with buffers that are reused: a small delta allocates nothing."""

    def __init__(self, laid: Probes) -> None:
        self._laid = laid
        self._table = kernel.ProbeTable(laid.static, laid.rows, laid.columns)
        words = partial(np.empty, dtype=np.int64)
        self._run = kernel.ProbeRun(
            words(kernel.PROGRESS),
            words(laid.state),
            words(0),
            words(laid.levels + 1),
            words((laid.width, SMALL)),
            words((0, 1, 1)),
            words((0, 0)),
        )
        self._found = kernel.Found(words(FOUND), words((laid.columns, FOUND)))
        few = kernel.Found(words(FEW), words((laid.columns, FEW)))
        self._composing = kernel.Composing(words(2 * FEW), np.empty(FEW, bool), few)

    def run(
        self,
        pages: Pages,
        given: ProbeInput,
        shares: Iterator[np.ndarray],
        memory: MemoryUse,
        budget: Budget,
        compose: bool = False,
    ) -> Found:
        """Probe the shares that no other thread takes; if `compose`, sort and compose the
        bindings if they are few.
        """
        laid, composing = self._laid, self._composing
        if self._run.runs.shape[1] < 2 * pages.page_words:
            self._run = self._run._replace(runs=slices_room(laid.atoms, pages.page_words))
        if not compose:
            composing = composing._replace(order=composing.order[:0])
        parts: list[Edits] = []
        operations, composed = 0, False
        for spans in shares:
            room = (laid.levels + 1) * int(spans[:, 1].max())
            if len(self._run.regions) < room:
                self._run = self._run._replace(regions=np.empty(room, np.int64))
            branches, run = kernel.Branches(given.branches, spans, ACTIONS), self._run
            progress = self._run.progress
            progress.fill(0)
            counted = 0
            while progress[kernel.STEP] < 2 * len(laid.rows):
                n = raise_for(
                    PROBE.call(
                        pages, self._table, given.trees, branches, run, self._found, composing
                    )
                )
                composed = bool(progress[kernel.COMPOSED])
                signs, results = composing.found if composed else self._found
                parts.append((signs[:n].copy(), results[:, :n].copy()))
                memory.add(n, 8 * n * (1 + laid.columns))
                done = bool(progress[kernel.STEP] == 2 * len(laid.rows))
                budget.spend(
                    costs.OPERATION * (int(progress[kernel.OPERATIONS]) - counted)
                    + costs.BOUND * n,
                    done,
                )
                counted = int(progress[kernel.OPERATIONS])
            operations += counted
        return Found(parts, operations, composed)


def _pins(plan: Plan, t: int) -> np.ndarray:
    """Return how a branch of trie t fills levels down to its last: by words, or an equality."""
    trie = plan.tries[t]
    held = {b.level: b for b in plan.bounds if b.kind == tries.EQ}
    pins = []
    for level in range(trie.levels[-1] + 1):
        if level in trie.levels:
            pins.append((trie.levels.index(level), -1, 0))
        else:
            ((other, _),) = held[level].others or ((-1, 1),)
            pins.append((-1, other, held[level].constant))
    return np.array(pins, np.int64).ravel()
