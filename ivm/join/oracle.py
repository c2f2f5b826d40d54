"""The change oracle: a union of regions where bindings may have changed, which the join takes as one more trie.

A_co = {[6, end]}, B_co = {[2, 2]}        ChangeOracle = [2, 2] u [6, +inf]
"""

from collections.abc import Iterable

import numpy as np

from ivm.join.kernels.oracle import merge_intervals
from ivm.join.plan_arrays import Regions
from pagestore.compiled import Door, Table
from pagestore.host import distinct

MERGE = Door(merge_intervals, Table, int)


def change_oracle(levels: int, contributions: Iterable[tuple[int, np.ndarray]]) -> Regions | None:
    """Return the union of contributions (level, rows int64[level + 2, n]); None if it is empty.

    A row holds the values of the levels before, then an interval [a, b] of the level's values.  O(n log n).
    """
    by_level: dict[int, list[np.ndarray]] = {}
    for level, rows in contributions:
        if rows.shape[1]:
            by_level.setdefault(level, []).append(rows)
    if not by_level:
        return None
    start = np.zeros(levels + 1, np.int64)
    merged = []
    for level in range(levels):
        parts = by_level.get(level)
        n = 0
        if parts:
            rows = np.ascontiguousarray(distinct(np.concatenate(parts, axis=1)))
            n = MERGE.call(rows, level)
            block = np.zeros((levels + 1, n), np.int64)
            block[: level + 2] = rows[:, :n]
            merged.append(block)
        start[level + 1] = start[level] + n
    return Regions(np.concatenate(merged, axis=1), start)
