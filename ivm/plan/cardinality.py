"""Estimate distinct values from a sample of each relation, for the planner to compare key orders."""

from typing import Any

import numpy as np

from pagestore.host import distinct, read_blocks

SAMPLE_ROWS = 1 << 15
BLOCK_ROWS = 1 << 10


class Cardinality:
    """Distinct tuples of columns of a relation; each relation is sampled once.

    A sample consists of evenly spread blocks of neighbouring records, so that prefixes repeat in it as often as in the
    relation.
    """

    def __init__(self, source: Any) -> None:
        """`source` is a snapshot, a sketch or a transaction."""
        self._source = source
        self._samples: dict[str, tuple[np.ndarray, float]] = {}
        self._known: dict[tuple[str, tuple[int, ...]], float] = {}

    def distinct(self, predicate: str, columns: tuple[int, ...]) -> float:
        """Estimate the distinct tuples of some columns of a predicate; 1000 (32 of one column) if it has no rows."""
        key = predicate, tuple(sorted(columns))  # seven columns have 5,040 orders, but only 128 sets
        if key not in self._known:
            self._known[key] = self._count(*key)
        return self._known[key]

    def _count(self, predicate: str, columns: tuple[int, ...]) -> float:
        if predicate not in self._source or not self._source.tree(predicate).count:
            return float(1000.0 ** min(1.0, len(columns) / 2))
        sample, scale = self._sample(predicate)
        seen = distinct(sample[list(columns)]).shape[1]
        saturated = seen < 0.1 * sample.shape[1]  # values repeat, so more rows would add few new ones
        return float(seen) if saturated else seen * scale

    def _sample(self, predicate: str) -> tuple[np.ndarray, float]:
        if predicate not in self._samples:
            tree = self._source.tree(predicate)
            every = max(1, tree.count // SAMPLE_ROWS)
            sample = np.concatenate([*read_blocks(self._source.pages, tree, BLOCK_ROWS, every)], axis=1)
            self._samples[predicate] = sample, tree.count / sample.shape[1]
        return self._samples[predicate]
