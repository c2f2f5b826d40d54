"""The record at or behind a place and the one before it, on pages of all levels, against sorted
rows.
"""

from bisect import bisect_left

import numpy as np
import pytest

from pagestore.trees.build import bulk
from pagestore.trees.read import first_from, last_before
from pagestore.trees.tree import Spec, Tree
from tests.support.memory import MemoryPager


@pytest.mark.parametrize("n", [0, 1, 7, 300, 20_000])
def test_neighbours_are_those_of_sorted_rows(n):
    rng = np.random.default_rng(n)
    pager = MemoryPager(4096, 1 << 12)
    keys = np.unique(rng.integers(-n, n + 1, (2, n)) // np.array([[40], [1]]), axis=1)
    rows = np.concatenate([keys, rng.integers(0, 1 << 40, (1, keys.shape[1]))])
    tree = bulk(pager, Spec(0, 2, 1), [rows]) if n else Tree.empty(Spec(0, 2, 1))
    records = [tuple(row) for row in rows.T.tolist()]
    for width in (0, 1, 2):
        places = rng.integers(-n - 2, n + 3, (width, 200)) // np.array([[40], [1]])[:width]
        places[:, :2] = [-(2**63), 2**63 - 1]
        before, behind = (
            last_before(pager.pages, tree, places),
            first_from(pager.pages, tree, places),
        )
        prefixes = [record[:width] for record in records]
        for i, place in enumerate(map(tuple, places.T.tolist())):
            at = bisect_left(prefixes, place) if width else 0
            agree(behind, i, records[at : at + 1])
            # before no prefix: the last of all
            agree(before, i, records[:at][-1:] if width else records[-1:])


def agree(found: tuple[np.ndarray, np.ndarray], i: int, wanted: list[tuple[int, ...]]) -> None:
    there, rows = found
    assert [tuple(rows[:, i].tolist())] * bool(there[i]) == wanted
