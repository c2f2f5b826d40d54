"""Sweep sensitivity indices bit by bit: erase intervals that the trace no longer has.

A change erases the intervals that it hits; those of contexts that it ended stay. Evaluating these
one level deep tells which rows the trace still has. No transaction pays for all.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

import numpy as np

from ivm.join.join import Join
from ivm.join.plan_arrays import change_oracle
from ivm.plan.plan import Plan, Trie, indices_of, sensors_of
from ivm.rules.rule import InstalledRule
from ivm.views.delta import renewal
from ivm.ways.tries import record
from ivm.ways.way import Context
from pagestore.host import read_batches

GROWN = 64  # rows that an index gains between two sweeps
SHARE = 3  # rows swept for each that it has gained
BATCH = 128  # rows that are swept together
STALE = 8  # no sweep is needed before one of so many rows may be stale

Sizes: TypeAlias = Mapping[str, tuple[int, ...]]  # see `Context.built`
Counts: TypeAlias = Callable[[Iterable[str]], list[int]]  # the rows of some trees


def grown(rule: InstalledRule, number: int, counts: Counts, sizes: Sizes) -> int:
    """Return how many intervals of a plan may be stale: what its indices gained since the last
    sweep, or their share of what the body lost, less the pause.
    """
    if not (names := rule.sensitivity_names(number)):
        return 0
    rows, body, pause, *_ = *sizes.get(names[0], (0, 0)), 0
    left = sum(counts([index.predicate for index in indices_of(rule.plans[number])]))
    return max(sum(counts(names)) - rows, rows * (body - left) // max(1, body)) - pause


def sweep(context: Context, rule: InstalledRule, number: int) -> None:
    """Erase stale intervals of a plan, if there may be some. O(how many * log n)."""
    txn, plan, names = context.txn, rule.plans[number], rule.sensitivity_names(number)
    gained = grown(rule, number, txn.counts, context.built)
    if gained <= GROWN:
        return
    if SHARE * gained >= sum(txn.counts(names)):
        record(context, rule, number, {index: context.tree(index) for index in indices_of(plan)})
        return
    s, *key = context.built[names[0]][3:] or (0,)
    seen, stale, operations, most = 0, 0, 0, SHARE * gained
    while seen < most and operations < 64 * most and any(txn.counts(names)):
        index, n = txn.tree(names[s]), 0
        for rows in islice(read_batches(txn.pages, index, (*key,), rows=BATCH), 1):
            key, n = rows[:, -1:].ravel().tolist(), rows.shape[1]
            operations += _renew(context, rule, number, s, rows) if n else 0
        seen, stale = seen + n, stale + index.count - txn.tree(names[s]).count
        s, key = (s, key) if n == BATCH else ((s + 1) % len(names), [])
    body, total = sum(txn.counts([i.predicate for i in indices_of(plan)])), sum(txn.counts(names))
    pause = max(0, total * (seen - STALE * stale) // (2 * STALE * max(1, seen)))
    context.built[names[0]] = total, body, pause, s, *key


def _renew(context: Context, rule: InstalledRule, number: int, s: int, rows: np.ndarray) -> int:
    """Replace rows of sensor s by what their contexts record; return the iterator operations."""
    txn, plan, names = context.txn, rule.plans[number], rule.sensitivity_names(number)
    (level, columns), (cut, tries) = plan.sensors[s][2:], upto(plan, plan.sensors[s].level)
    contexts = rows[[columns.index(before) for before in (*range(level), level - 1)]]
    recording = sensors_of(cut, [sensor for sensor in cut.sensors if sensor.level == level])
    trees, oracle = [context.tree(trie.index) for trie in tries], [(level - 1, contexts)]
    join = Join(txn.pages, cut.shape, trees, sensors=recording, granularity=rule.granularity,
        regions=change_oracle(level + 1, oracle), batch=1 << 12)  # fmt: skip
    same_level = [i for i, sensor in enumerate(plan.sensors) if sensor.level == level]
    for i, recorded in zip(same_level, join.all()[1], strict=True):
        swept = rows if i == s else recorded[:, :0]
        txn.apply(names[i], *renewal(txn.tree(names[i]), swept, recorded))
    return join.operations


@lru_cache(64)
def upto(plan: Plan, level: int) -> tuple[Plan, list[Trie]]:
    """Return a plan that ends after a level, and the tries whose parts it has."""
    tries = [trie for trie in plan.tries if trie.levels[-1 if trie.negated else 0] <= level]
    parts = [replace(trie, levels=tuple(x for x in trie.levels if x <= level)) for trie in tries]
    bounds = (*(bound for bound in plan.bounds if bound.level <= level),)
    names = plan.variables[: level + 1]
    return replace(plan, variables=names, tries=(*parts,), bounds=bounds, reads=()), tries
