"""Sweep sensitivity indices bit by bit: erase intervals that the trace no longer has.

    an index   ... │ the next rows, their contexts │ ...        contexts that the join reaches no more
                     ▲                                          record nothing, the others their trace
                     └─ where the last sweep ended

A change erases the intervals that it hits, and those of contexts that it ended stay. Evaluating
them anew, one level deep, tells which rows the trace still has; the others go. So many rows are
swept as the index has grown, and some more, so that no transaction pays for all.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from ivm.join.join import Join
from ivm.join.plan_arrays import change_oracle
from ivm.plan.plan import Plan, indices_of, sensors_of
from ivm.rules.rule import InstalledRule
from ivm.views.delta import renewal
from ivm.ways.tries import record
from ivm.ways.way import Context
from pagestore.host import read_batches

GROWN = 64  # rows that an index gains between two sweeps
SHARE = 3  # rows swept for each that it has gained
BATCH = 128  # rows that are swept together
STEPS = 64  # iterator operations for each row to be swept, after which the rest waits
STALE = 8  # no sweep is needed before one of so many rows may be stale
BINDINGS = 1 << 12  # of a batch of the join

Sizes: TypeAlias = Mapping[str, tuple[int, ...]]  # see `Context.built`
Counts: TypeAlias = Callable[[Iterable[str]], list[int]]  # the rows of some trees


def grown(rule: InstalledRule, number: int, counts: Counts, sizes: Sizes) -> int:
    """Return how many intervals of a plan's indices may have become stale since the last sweep.

    Only changes leave such rows: what the indices gained, or their share of what the body lost,
    bounds them. So many as the last sweep found that the indices may gain before do not count.
    """
    names = rule.sensitivity_names(number)
    if not names:
        return 0
    rows, body, pause, *_ = *sizes.get(names[0], (0, 0)), 0
    left = sum(counts([index.predicate for index in indices_of(rule.plans[number])]))
    return max(sum(counts(names)) - rows, rows * (body - left) // max(1, body)) - pause


def sweep(context: Context, rule: InstalledRule, number: int) -> None:
    """Erase stale intervals of a plan's indices, if they have grown; of small ones all, as they are
    recorded anew. O(what they have grown by * log n).
    """
    txn, plan, names = context.txn, rule.plans[number], rule.sensitivity_names(number)
    gained = grown(rule, number, txn.counts, context.built)
    if gained <= GROWN:
        return
    if SHARE * gained >= sum(txn.counts(names)):
        record(context, rule, number, {index: context.tree(index) for index in indices_of(plan)})
        return
    s, *key = context.built[names[0]][3:] or (0,)
    seen = stale = operations = 0
    most = SHARE * gained
    while seen < most and operations < STEPS * most and any(txn.counts(names)):
        index = txn.tree(names[s])
        rows = next(read_batches(txn.pages, index, (*key,), rows=BATCH), None)
        if rows is None or rows.shape[1] == 0:
            s, key = (s + 1) % len(names), []
            continue
        operations += _renew(context, rule, number, s, rows)
        seen, stale = seen + rows.shape[1], stale + index.count - txn.tree(names[s]).count
        s, key = (s, rows[:, -1].tolist()) if rows.shape[1] == BATCH else ((s + 1) % len(names), [])
    body = sum(txn.counts([index.predicate for index in indices_of(plan)]))
    total = sum(txn.counts(names))
    pause = max(0, total * (seen - STALE * stale) // (2 * STALE * max(1, seen)))
    context.built[names[0]] = total, body, pause, s, *key


def _renew(context: Context, rule: InstalledRule, number: int, s: int, rows: np.ndarray) -> int:
    """Evaluate the contexts of some rows of sensor s at its level, and replace the rows by what is
    recorded; return the iterator operations.
    """
    txn, plan, names = context.txn, rule.plans[number], rule.sensitivity_names(number)
    sensor = plan.sensors[s]
    cut, tries = upto(plan, sensor.level)
    contexts = rows[[sensor.columns.index(level) for level in range(sensor.level)]]
    regions = change_oracle(
        sensor.level + 1, [(sensor.level - 1, np.concatenate([contexts, contexts[-1:]]))]
    )
    join = Join(
        txn.pages,
        cut.shape,
        [context.tree(plan.tries[t].index) for t in tries],
        sensors=sensors_of(cut, [one for one in cut.sensors if one.level == sensor.level]),
        granularity=rule.granularity,
        regions=regions,
        batch=BINDINGS,
    )
    same_level = [i for i, one in enumerate(plan.sensors) if one.level == sensor.level]
    for i, recorded in zip(same_level, join.all()[1], strict=True):
        swept = rows if i == s else recorded[:, :0]
        txn.apply(names[i], *renewal(txn.tree(names[i]), swept, recorded))
    return join.operations


@lru_cache(64)
def upto(plan: Plan, level: int) -> tuple[Plan, list[int]]:
    """Return a plan that ends after a level, and which of the tries it has."""
    tries = {
        t: replace(trie, levels=tuple(one for one in trie.levels if one <= level))
        for t, trie in enumerate(plan.tries)
        if trie.levels[-1 if trie.negated else 0] <= level
    }
    bounds = tuple(bound for bound in plan.bounds if bound.level <= level)
    cut = replace(
        plan,
        variables=plan.variables[: level + 1],
        tries=(*tries.values(),),
        bounds=bounds,
        reads=(),
    )
    return cut, [*tries]
