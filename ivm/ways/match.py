"""Find the changes of a conjunction's bindings, in the regions that the oracle gives (*Maintaining
rule bodies*).

    delta F <- (Body[G, H, I] ... Body[G', H', I'])(x, y, z, Delta), ChangeOracle(x, y, z).

Surgeries on the body's tries are matched with the sensitivity indices. The intervals that they hit
are removed from the indices and evaluated again on the old and the new version; the new one records
fresh sensitivity. A trie that follows the key order needs no index: its changed branches are the
regions to evaluate.

The whole trace of a plan: the interval that every iterator operation was sensitive to
(*Aspiration*).
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import inf
from typing import NamedTuple

import numpy as np

from ivm.join.join import Join
from ivm.join.plan_arrays import change_oracle, laid_out, plan_array, state_array
from ivm.memory import Budget
from ivm.plan import costs
from ivm.plan.plan import Index, Plan, Scan, Trie, Upkeep, indices_of, sensors_of, tree_name
from ivm.views.delta import (
    Delta,
    Transition,
    matches,
    net_changes,
    region_columns,
    regions,
    renewal,
    surgeries,
)
from ivm.ways.kernels import match
from ivm.ways.kernels.probe import mark_lone
from ivm.ways.probe import probe_all, probe_by_shares, probed
from pagestore.compiled import Table, TypedKernel, ascends
from pagestore.host import ERASE, INSERT, Pages, Snapshot, Tree, distinct

ASCENDS = TypedKernel(ascends, Table)
MARK = TypedKernel(mark_lone)


class Change(NamedTuple):
    """The result of maintaining one plan.

    `delta` holds bindings (rows as Plan.columns), `renewals` the edits of each sensitivity index,
    `operations` counts iterator operations on both versions, `matched` the intervals that surgeries
    hit.
    """

    delta: Delta
    renewals: list[tuple[np.ndarray, np.ndarray]]
    operations: int
    matched: int


def maintain(
    pages: Pages,
    plan: Plan,
    transition: Transition,
    indices: Sequence[Tree],
    granularity: int = 1,
    threads: int = 1,
    budget: Budget | None = None,
) -> Change | None:
    """Return the change of a plan's bindings from old to new trees; None if no surgery touches its
    trace.

    A plan with probes is probed instead of matched, and a body of one atom needs neither. `indices`
    holds the sensitivity index of each of
    plan.sensors. Raises CorruptionError, RangeError, and Stopped by a budget of bindings that
    probes find. O(trace distance * granularity * log n).
    """
    if plan.way.upkeep is Upkeep.ALONE:
        return maintain_single_atom(pages, plan, transition)
    if plan.way.upkeep is Upkeep.PROBE:
        return maintain_by_probing(pages, plan, transition, threads, budget)
    contributions, matched = _match(pages, plan, transition, indices)
    oracle = change_oracle(plan.shape.levels, contributions)
    if oracle is None:
        return None
    before = Join(
        pages,
        plan.shape,
        [transition.old[t.index] for t in plan.tries],
        regions=oracle,
        batch=BATCH_ROWS,
    )
    after = Join(
        pages,
        plan.shape,
        [transition.new[t.index] for t in plan.tries],
        regions=oracle,
        sensors=plan.sensor_arrays,
        granularity=granularity,
        batch=BATCH_ROWS,
    )
    rows_before = before.bindings()
    rows_after, recorded = after.all()
    renewals = [
        renewal(index, hit, fresh)
        for index, hit, fresh in zip(indices, matched, recorded, strict=True)
    ]
    return Change(
        binding_difference(rows_before, rows_after),
        renewals,
        before.operations + after.operations,
        sum(hit.shape[1] for hit in matched),
    )


def is_alone(plan: Plan) -> bool:
    """Return whether the changed branches of a plan's only relation are its bindings."""
    return plan.way.upkeep is Upkeep.ALONE and (isinstance(plan.way, Scan) or not plan.reads)


def is_matched(plan: Plan) -> bool:
    """Return whether surgeries on a plan's tries are matched with its sensitivity indices."""
    return plan.way.upkeep is Upkeep.MATCH


def maintain_single_atom(pages: Pages, plan: Plan, transition: Transition) -> Change | None:
    """Return the change of a body of one atom: the branches erased and inserted in its trie.
    O(delta * log n).
    """
    (trie,) = plan.tries
    (old, new, deltas), depth = transition, len(trie.levels)
    delta = deltas[trie.index]
    if depth < new[trie.index].spec.keys:
        change = surgeries(pages, delta, old[trie.index], new[trie.index], depth)
    else:
        change = net_changes(
            delta.actions, delta.rows[[*range(depth), *(read.column for read in plan.reads)]]
        )
    return Change(change, [], len(delta.actions), 0) if change else None


def maintain_by_probing(
    pages: Pages, plan: Plan, transition: Transition, threads: int = 1, budget: Budget | None = None
) -> Change | None:
    """Return the change found by probing (see probe.py); None if no branch changed.

    Many rows are probed by shares, each as large as all before it, so that a few tell what all will
    cost before a budget of costs is spent in vain; and so are few rows if that budget may not
    suffice.  Raises Stopped by it.
    """
    budget, (old, new, deltas) = budget or Budget(inf, float), transition

    def branches(given: Sequence[Delta]) -> list[Delta]:
        budget.spend(costs.ROW * sum(len(delta.actions) for delta in given))
        pairs = zip(probed(plan), given, strict=True)
        return [
            surgeries(pages, delta, old[index], new[index], depth) if delta else delta
            for (index, depth), delta in pairs
        ]

    whole = [deltas.get(index, NO_CHANGE) for index, _ in probed(plan)]
    most, few = max(len(delta.actions) for delta in whole), 1 << FIRST
    at_once = few if most > few and budget.may_exceed() else WHOLE
    if most > at_once:
        shares = map(branches, _shares(whole, at_once, budget))
        delta, operations = probe_by_shares(plan, pages, transition, shares, threads, budget)
        return Change(delta, [], operations, 0)
    changed = branches(whole)
    if not any(changed):
        return None
    delta, operations = probe_all(plan, pages, transition, changed, threads, budget)
    return Change(delta, [], operations, 0)


def _shares(deltas: Sequence[Delta], at_once: int, budget: Budget) -> Iterator[list[Delta]]:
    """Yield changed rows by shares, as long as what they cost lets expect that all cost no more
    than a budget.

    The first share has all rows of relations of which few have changed, no more than `at_once`, the
    next one a few of the others, and each share after it as many as all before, or all that are
    left where these are likely to cost little.  Raises Stopped.
    """
    lengths = [0 if len(delta.actions) <= at_once else len(delta.actions) for delta in deltas]
    if not all(lengths):
        yield [NO_CHANGE if n else delta for delta, n in zip(deltas, lengths, strict=True)]
    done, before, step = 0, 0, 1 << max(0, max(lengths).bit_length() - FIRST)
    while step:
        places = [
            places[places % before != 0] if before else places
            for places in (np.arange(0, n, step) for n in lengths)
        ]
        done += sum(map(len, places))
        budget.share(done / sum(lengths))
        yield [
            Delta(delta.actions[at], delta.rows[:, at]) if len(at) else NO_CHANGE
            for delta, at in zip(deltas, places, strict=True)
        ]
        before, step = step, min(1 if budget.is_ample() else step, step // 2)


WHOLE = 64  # changed rows of a relation; more are always probed by shares
FIRST = 2  # the first share has up to 2^FIRST rows of a relation
BATCH_ROWS = 1 << 12  # rows of the buffers; maintenance usually finds fewer bindings
NO_CHANGE = Delta(np.empty(0, np.int64), np.empty((0, 0), np.int64))


def _match(
    pages: Pages, plan: Plan, transition: Transition, indices: Sequence[Tree]
) -> tuple[list[tuple[int, np.ndarray]], list[np.ndarray]]:
    """Return the regions that tries contribute to the oracle, and the rows matched in each
    sensitivity index.
    """
    sensors = {(s.trie, s.depth): i for i, s in enumerate(plan.sensors)}
    matched = [np.empty((index.spec.columns, 0), np.int64) for index in indices]
    contributions, (old, new, deltas) = [], transition
    for t, trie in enumerate(plan.tries):
        delta = deltas.get(trie.index)
        if not delta:
            continue
        for depth in _sensed_depths(trie):
            branches = distinct(
                surgeries(pages, delta, old[trie.index], new[trie.index], depth + 1).rows
            )
            i = sensors.get((t, depth))
            if i is None:
                # the trie follows the key order: level == depth
                rows = np.concatenate([branches, branches[-1:]])
                contributions.append((depth, rows))
            elif branches.shape[1]:
                matched[i] = matches(pages, indices[i], branches)
                contributions.append((plan.sensors[i].level, regions(plan.sensors[i], matched[i])))
    return contributions, matched


class Matching(NamedTuple):
    """A matched plan as a kernel takes it (kernels/match.py), and the sizes of its buffers.

    `branches` are the (index, depth) whose surgeries are matched, `indices` those of the trees that
    are read; `state` and the next three are as in `Probes`, `trace` is the shape of the plan's
    sensors: how many, and their columns.
    """

    words: np.ndarray
    branches: list[tuple[Index, int]]
    indices: list[Index]
    columns: int
    levels: int
    width: int
    state: int
    atoms: int
    trace: tuple[int, int]


@lru_cache(256)
def matching_of(plan: Plan, granularity: int) -> Matching:
    """Return a plan that is matched as a kernel takes it."""
    shape, recording, indices = plan.shape, plan.sensor_arrays, indices_of(plan)
    sensors = plan.sensors
    numbered = {(sensor.trie, sensor.depth): number for number, sensor in enumerate(sensors)}
    sensed = [(t, depth) for t, trie in enumerate(plan.tries) for depth in _sensed_depths(trie)]
    places = [*map(region_columns, sensors)]
    starts = [sum(map(len, places[:number])) for number in range(len(places))]
    states = state_array(shape, shape.no_sensors, False), state_array(shape, recording, False)
    sections = {
        match.READING: plan_array(shape, shape.no_sensors, 1),
        match.RECORDING: plan_array(shape, recording, granularity),
        match.READING_STATE: states[0],
        match.RECORDING_STATE: states[1],
        match.ATOM_TREES: np.array([indices.index(trie.index) for trie in plan.tries], np.int64),
        match.SPANS_OF: np.array(
            [numbered.get((t, depth), -1 - depth) for t, depth in sensed], np.int64
        ),
        match.SENSED: np.array(
            [(len(s.columns), s.depth, s.level, at) for s, at in zip(sensors, starts, strict=True)],
            np.int64,
        ),
        match.PLACES: np.array([place for columns in places for place in columns], np.int64),
    }
    words = laid_out(
        match.HEADER, {match.ATOMS: len(plan.tries), match.SPANS: len(sensed)}, sections
    )
    return Matching(
        words,
        [(plan.tries[t].index, depth + 1) for t, depth in sensed],
        indices,
        len(plan.columns),
        shape.levels,
        len(plan.columns),
        max(map(len, states)),
        shape.innermost,
        (len(sensors), recording.sources.shape[1]),
    )


def _sensed_depths(trie: Trie) -> range:
    """Return the depths of a trie at which a join is sensitive to it: a negated one is only
    looked up as a whole.
    """
    return range(len(trie.levels))[-1:] if trie.negated else range(len(trie.levels))


def binding_difference(before: np.ndarray, after: np.ndarray) -> Delta:
    """Return the rows [C, n] only in `before` (erased) or only in `after` (inserted), in order;
    rows may repeat.

    O(n) where both ascend, as bindings do, and O(n log n) for the rows of a trace.
    """
    before, after = np.ascontiguousarray(before), np.ascontiguousarray(after)
    if ASCENDS.call(before) and ASCENDS.call(after):
        only_before, only_after = np.empty(before.shape[1], bool), np.empty(after.shape[1], bool)
        MARK.call(before, after, only_before, only_after)
        before, after = before[:, np.flatnonzero(only_before)], after[:, np.flatnonzero(only_after)]
    actions = np.repeat([ERASE, INSERT], [before.shape[1], after.shape[1]])
    return net_changes(actions, np.concatenate([before, after], axis=1))


def trace_of(snap: Snapshot, plan: Plan) -> np.ndarray:
    """Return the trace rows int64[columns, n] of a plan at a version, by (trie, depth).

    A row holds the number of its (trie, depth), the interval [a, b] of an operation, and the
    binding of the levels before. O(evaluating the plan).
    """
    sensors = plan.trace_sensors
    trees = [snap.tree(tree_name(trie.index)) for trie in plan.tries]
    _, recorded = Join(snap.pages, plan.shape, trees, sensors=sensors_of(plan, sensors)).all()
    width = len(plan.variables) + 2
    blocks = []
    for i, rows in enumerate(recorded):
        block = np.zeros((width, rows.shape[1]), np.int64)
        block[0] = i
        block[1 : 1 + len(rows)] = rows
        blocks.append(block)
    return np.concatenate(blocks, axis=1)


def distance(before: np.ndarray, after: np.ndarray) -> int:
    """Return how many rows are in only one of two traces of a plan."""
    return len(binding_difference(before, after).actions)
