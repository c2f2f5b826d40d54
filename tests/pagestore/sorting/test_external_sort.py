"""The external sort against numpy's, with so little memory that it must spill."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pagestore.host import external_sort


@given(
    st.lists(st.lists(st.tuples(*[st.integers(-3, 3)] * 3), max_size=40), max_size=8),
    st.integers(1, 2),
)
def test_spilled_runs_merge_to_what_one_sort_gives(parts: list[list[tuple]], keys: int) -> None:
    batches = [np.array(part, np.int64).reshape(-1, 3).T for part in parts]
    out = [
        tuple(row)
        for batch in external_sort(batches, keys, memory=1000)
        for row in batch.T.tolist()
    ]
    rows = [row for part in parts for row in part]
    assert [row[:keys] for row in out] == sorted(row[:keys] for row in rows)
    assert sorted(out) == sorted(rows)
