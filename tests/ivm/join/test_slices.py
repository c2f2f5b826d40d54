"""Slices of sorted rows, and of trees of orders, hold the rows that a comparison of all pairs
finds, each once.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.join import slices
from ivm.join.groups import Lookup
from ivm.join.kernels.tries import GE, LE, NE
from ivm.join.slices import Side, Slices
from pagestore.host import distinct
from tests.support.programs.amounts import times

FAR = [-(2**63), -(2**63) + 1, 2**63 - 2, 2**63 - 1]
WORDS = st.one_of(st.integers(-4, 9), st.integers(-4, 9), st.sampled_from(FAR))
CONSTANTS = st.sampled_from([0, 0, 0, 1, -3, 2**61])


def holds(value: int, kind: int, other: int) -> bool:
    return value >= other if kind == GE else value <= other if kind == LE else value != other


def arrays(words: list[list[int]], n: int) -> np.ndarray:
    return np.array(words, np.int64).reshape(len(words), n)


@st.composite
def tables(draw):
    n, m, keys, columns = (draw(st.integers(*ends)) for ends in ((0, 30), (0, 8), (0, 2), (1, 3)))
    kinds = st.sampled_from([GE, LE, GE, LE, NE])
    sides = draw(
        st.lists(
            st.builds(Side, st.integers(0, columns - 1), kinds, CONSTANTS), min_size=1, max_size=4
        )
    )
    few, words = st.integers(0, 2), draw(st.sampled_from([WORDS, st.integers(0, 12)]))
    table = [
        draw(st.lists(few if k < keys else words, min_size=n, max_size=n))
        for k in range(keys + columns)
    ]
    sought = [
        draw(st.lists(few if k < keys else words, min_size=m, max_size=m))
        for k in range(keys + len(sides))
    ]
    weights = draw(st.one_of(st.none(), st.lists(st.integers(1, 5), min_size=n, max_size=n)))
    return arrays(table, n), arrays(sought, m), keys, sides, weights


@settings(max_examples=times(75), deadline=None)
@given(tables(), st.sampled_from([0, 3, slices.NEAR]))
def test_slices_beside_all_pairs(drawn, near):
    table, sought, keys, sides, weights = drawn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "NEAR", near)
        made = Slices(
            table[:keys],
            table[keys:],
            sides,
            None if weights is None else np.array(weights, np.int64),
        )
        parts = [*made.find([*sought[:keys]], [*sought[keys:]])]
    found = []
    for part in parts:
        for number, start, repeated, weight in zip(
            part.which, part.start, part.times, part.weights, strict=True
        ):
            rows = part.order.rows[start : start + repeated].tolist()
            assert weight == (repeated if weights is None else sum(weights[row] for row in rows))
            found += [(int(number), row) for row in rows]
    assert len(found) == len({*found})

    def wanted(i: int, row: int) -> bool:
        values = sought[keys:, i].tolist()
        return bool((table[:keys, row] == sought[:keys, i]).all()) and all(
            holds(int(table[keys + side.column, row]), side.kind, value + side.constant)
            for side, value in zip(sides, values, strict=True)
        )

    pairs = [
        (i, row) for i in range(sought.shape[1]) for row in range(table.shape[1]) if wanted(i, row)
    ]
    if parts and made.exact:
        assert sorted(found) == pairs
    assert {*pairs} <= {*found}


def test_one_long_interval_does_not_make_all_others_be_looked_at():
    """Without the tree, each of the 20,000 intervals would be compared with half of the others."""
    drawn = np.random.default_rng(3)
    start = drawn.integers(0, 10**7, 20_000)
    end = start + drawn.integers(0, 50, 20_000)
    end[0] = 10**7
    made = Slices(
        np.empty((0, 20_000), np.int64), np.stack([start, end]), [Side(0, LE, 0), Side(1, GE, 0)]
    )
    parts = [*made.find([], [end, start])]
    assert made.exact
    pairs = sum(int(part.times.sum()) for part in parts)
    assert pairs == np.count_nonzero((start[:, None] <= end) & (end[:, None] >= start)) < 100_000
    assert sum(len(part.which) for part in parts) < 20 * 20_000


@pytest.mark.parametrize("spread", [3, 1000, 1 << 20, 1 << 62])
@pytest.mark.parametrize("columns", [1, 2, 3])
def test_keys_are_found_however_far_apart_and_however_many_are_sought(spread, columns):
    """By their codes, or by hashes if these are many for the keys that there are."""
    drawn = np.random.default_rng(spread % 97 + columns)
    ends = -spread, spread
    keys = distinct(drawn.integers(*ends, (columns, 50)))
    lookup, place = Lookup(keys), {tuple(key): n for n, key in enumerate(keys.T.tolist())}
    for n in (1, 10, 100_000, 3):
        sought = drawn.integers(*ends, (columns, n))
        sought[:, ::2] = keys[:, drawn.integers(0, keys.shape[1], len(range(0, n, 2)))]
        found = [place.get(tuple(key), -1) for key in sought.T.tolist()]
        matches = lookup.find([*sought])
        assert (matches.times == [one >= 0 for one in found]).all()
        which, rows = lookup.one_of([*sought])
        which = np.arange(n) if which is None else which
        assert lookup.order[rows].tolist() == [one for one in found if one >= 0]
        assert which.tolist() == [i for i, one in enumerate(found) if one >= 0]
