"""The whole trace of a plan: the interval that every iterator operation was sensitive to (*Aspiration*)."""

from collections.abc import Sequence

import numpy as np

from ivm.join.join import Join
from ivm.maintenance.maintain import binding_difference
from ivm.plan.index import tree_name
from ivm.plan.plan import Plan, sensors_of
from pagestore.host import Snapshot


def trace_of(snap: Snapshot, plan: Plan) -> np.ndarray:
    """Return the trace rows int64[columns, n] of a plan at a version, by (trie, depth).

    A row holds the number of its (trie, depth), the interval [a, b] of an operation, and the binding of the levels
    before. O(evaluating the plan).
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


def distance(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> int:
    """Return how many rows are in only one of two traces; `before[i]` and `after[i]` are the trace rows of plan i."""
    return sum(len(binding_difference(a, b).actions) for a, b in zip(before, after, strict=True))
