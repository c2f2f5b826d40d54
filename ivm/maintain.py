"""Old and new under the oracle: the changes of a conjunction's bindings (*Maintaining rule bodies*).

    delta F <- (Body[G, H, I] ... Body[G', H', I'])(x, y, z, Delta), ChangeOracle(x, y, z).

Surgeries on the body's tries are matched with the sensitivity indices; what they match, whole
intervals, is removed from the indices and evaluated again on both versions, the new one recording
fresh sensitivity.  A trie that follows the key order needs no index: its branches are regions as such.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ivm import sensitivity
from ivm.join import Join
from ivm.kernels.leapfrog import EQ
from ivm.oracle import change_oracle
from ivm.plan import Index, Plan
from ivm.shape import Regions
from ivm.surgery import Delta, surgeries
from pagestore.tree import ERASE, INSERT, Pages, Spec, Tree, net


class Change(NamedTuple):
    """What maintenance of one plan found out.

    `delta` are bindings (rows as Plan.columns), `renewals` the edits of each sensitivity index,
    `operations` the iterator operations on both versions, `matched` the intervals that surgeries hit.
    """

    delta: Delta
    renewals: list[tuple[np.ndarray, np.ndarray]]
    operations: int
    matched: int


def maintain(
    pages: Pages,
    plan: Plan,
    old: Mapping[Index, Tree],
    new: Mapping[Index, Tree],
    deltas: Mapping[Index, Delta],
    indices: Sequence[Tree],
    granularity: int = 1,
) -> Change | None:
    """The change of a plan's bindings from old to new trees; None if no surgery touches its trace.

    Matching is described above; a plan with probes is probed instead.

    `deltas` holds the changes of every index that changed, `indices` the sensitivity index of each of
    plan.sensors.  O(trace distance * granularity * log n).
    """
    if plan.probes:
        return probe(pages, plan, old, new, deltas)
    contributions, matched = _match(pages, plan, old, new, deltas, indices)
    oracle = change_oracle(plan.shape.levels, contributions)
    if oracle is None:
        return None
    before = Join(pages, plan.shape, [old[t.index] for t in plan.tries], regions=oracle, batch=SMALL)
    after = Join(
        pages, plan.shape, [new[t.index] for t in plan.tries],
        regions=oracle, sensors=plan.sensor_arrays, granularity=granularity, batch=SMALL,
    )  # fmt: skip
    rows_before = before.bindings()
    rows_after, recorded = after.all()
    renewals = [
        sensitivity.renewal(index, hit, fresh)
        for index, hit, fresh in zip(indices, matched, recorded, strict=True)
    ]
    return Change(
        difference(rows_before, rows_after),
        renewals,
        before.operations + after.operations,
        sum(hit.shape[1] for hit in matched),
    )


def probe(
    pages: Pages,
    plan: Plan,
    old: Mapping[Index, Tree],
    new: Mapping[Index, Tree],
    deltas: Mapping[Index, Delta],
) -> Change | None:
    """Join the delta of each trie first in the order, against the other tries' permuted indices.

    A binding of the old body that holds an erased branch is gone, one of the new body that holds an
    inserted branch is new; for a negated trie it is the other way round.  Needs no sensitivity index.
    """
    erased: list[np.ndarray] = []
    inserted: list[np.ndarray] = []
    operations = 0
    for t, probing in enumerate(plan.probes):
        trie = probing.tries[t]
        delta = deltas.get(trie.index)
        if not delta:
            continue
        changed = surgeries(pages, delta, old[trie.index], new[trie.index], len(trie.levels))
        gone, came = (changed.inserted, changed.erased) if trie.negated else changed
        back = [probing.columns.index(name) for name in plan.columns]
        for branches, trees, found in ((gone, old, erased), (came, new, inserted)):
            if branches.shape[1]:
                oracle = _pinned(probing, t, branches)
                join = Join(
                    pages, probing.shape, [trees[x.index] for x in probing.tries], regions=oracle, batch=SMALL
                )
                found.append(join.bindings()[back])
                operations += join.operations
    if not erased and not inserted:
        return None
    none = [np.empty((len(plan.columns), 0), np.int64)]
    delta = difference(*(np.concatenate(none + found, axis=1) for found in (erased, inserted)))
    return Change(delta, [], operations, 0)


def _pinned(plan: Plan, t: int, branches: np.ndarray) -> Regions:
    """The branches of the trie that a probe starts from as an oracle: single values at its last level.

    Levels before it that are not its own are held by an equality.
    """
    trie = plan.tries[t]
    last = trie.levels[-1]
    rows = np.zeros((plan.shape.levels + 1, branches.shape[1]), np.int64)
    for depth, level in enumerate(trie.levels):
        rows[level] = branches[depth]
    for bound in sorted(plan.bounds):
        if bound.kind == EQ and bound.level < last and bound.level not in trie.levels:
            rows[bound.level] = rows[bound.other] + bound.constant if bound.other >= 0 else bound.constant
    rows[last + 1] = rows[last]
    start = np.zeros(plan.shape.levels + 1, np.int64)
    start[last + 1 :] = branches.shape[1]
    return Regions(rows, start)


SMALL = 1 << 12  # rows of the buffers; maintenance mostly finds few


def _match(
    pages: Pages,
    plan: Plan,
    old: Mapping[Index, Tree],
    new: Mapping[Index, Tree],
    deltas: Mapping[Index, Delta],
    indices: Sequence[Tree],
) -> tuple[list[tuple[int, np.ndarray]], list[np.ndarray]]:
    """Contributions to the oracle, and the rows each sensitivity index loses to them."""
    sensors = {(s.trie, s.depth): i for i, s in enumerate(plan.sensors)}
    matched = [np.empty((index.spec.columns, 0), np.int64) for index in indices]
    contributions = []
    for t, trie in enumerate(plan.tries):
        delta = deltas.get(trie.index)
        if not delta:
            continue
        depths = range(len(trie.levels))
        for depth in depths[-1:] if trie.negated else depths:
            branches = surgeries(pages, delta, old[trie.index], new[trie.index], depth + 1).all
            i = sensors.get((t, depth))
            if i is None:
                rows = np.concatenate([branches, branches[-1:]])  # the trie follows the order: level == depth
                contributions.append((depth, rows))
            elif branches.shape[1]:
                matched[i] = sensitivity.matches(pages, indices[i], branches)
                contributions.append(
                    (plan.sensors[i].level, sensitivity.regions(plan.sensors[i], matched[i]))
                )
    return contributions, matched


def difference(before: np.ndarray, after: np.ndarray) -> Delta:
    """Rows [C, n] that are only before, and only after, in order; rows may repeat."""
    actions = np.repeat([ERASE, INSERT], [before.shape[1], after.shape[1]])
    spec = Spec(0, len(before), 0)
    actions, rows = net(actions, np.concatenate([before, after], axis=1), spec)
    changed = (actions == ERASE) | (actions == INSERT)
    return Delta(actions[changed], rows[:, changed])
