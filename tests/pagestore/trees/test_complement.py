"""T without S against sets, and the probes counted."""

from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagestore.errors import MissingError, OrderError, SchemaError
from pagestore.pages.operators import CHECKSUM, COUNT
from pagestore.trees.build import bulk
from pagestore.trees.compare import Complement, accountable, accounted, pays, subset
from pagestore.trees.tree import Spec, Tree
from tests.support.memory import MemoryPager
from tests.support.programs.amounts import times

SPEC = Spec(7, 1, 0, ((COUNT, 0),))


def sets(whole, part):
    pager = MemoryPager(4096, 1 << 12)
    trees = [
        bulk(pager, SPEC, [rows[None, :]]) if len(rows) else Tree.empty(SPEC)
        for rows in (whole, part)
    ]
    return pager.pages, *trees


def listed(complement):
    return [x for batch in complement for x in batch[0].tolist()]


@settings(max_examples=times(15))
@given(st.integers(0, 2**32), st.integers(0, 8000), st.floats(0, 1), st.integers(1, 50))
def test_what_is_missing(seed, n, share, rows):
    rng = np.random.default_rng(seed)
    whole = np.unique(rng.integers(0, 3 * n + 1, n))
    part = whole[rng.random(len(whole)) < share]
    pages, t, s = sets(whole, part)
    assert listed(Complement(pages, t, pages, s, rows=rows)) == np.setdiff1d(whole, part).tolist()
    lo, hi = sorted(rng.integers(-5, 3 * n + 5, 2).tolist())
    inside = np.setdiff1d(whole, part)
    inside = inside[(inside >= lo) & (inside < hi)]
    assert listed(Complement(pages, t, pages, s, (lo,), (hi,), rows=rows)) == inside.tolist()
    assert subset(pages, t, pages, s)


@pytest.mark.parametrize("n", [10**3, 10**4, 10**5])
@pytest.mark.parametrize("missing", [0, 1, 5, 40])
def test_probes_of_a_sparse_complement(n, missing):
    """O((missing + 1) log n) probes, not n look-ups."""
    rng = np.random.default_rng(n + missing)
    whole = 3 * np.arange(n)
    gone = rng.choice(n, missing, replace=False)
    complement = Complement(*(parts := sets(whole, np.delete(whole, gone)))[:2], parts[0], parts[2])
    assert listed(complement) == sorted(whole[gone].tolist())
    assert complement.probes <= 2 * missing * (log2(n / max(1, missing)) + 3)


def test_what_is_no_subset():
    pages, t, s = sets(np.arange(0, 20, 2), np.arange(1, 31, 2))
    assert not subset(pages, t, pages, s)
    with pytest.raises(OrderError, match="a subset of 15 records in a set of 10"):
        Complement(pages, t, pages, s)
    with pytest.raises(MissingError, match='"count" scan'):
        Complement(pages, t._replace(spec=SPEC._replace(scans=())), pages, s)


@settings(max_examples=times(20))
@given(st.integers(0, 2**32), st.integers(0, 300), st.integers(0, 300), st.booleans())
def test_checksums_tell_a_subset(seed, n, m, is_part):
    """Iterating ends without an error for any two sets, and the checksums tell whether its
    result is right.
    """
    rng = np.random.default_rng(seed)
    whole = np.unique(rng.integers(0, 600, n))
    part = (
        whole[rng.random(len(whole)) < 0.9]
        if is_part
        else np.unique(rng.integers(0, 600, min(m, len(whole))))
    )
    pager, spec = MemoryPager(4096, 1 << 12), SPEC._replace(scans=((COUNT, 0), (CHECKSUM, 1)))
    t, s = (
        bulk(pager, spec, [rows[None, :]]) if len(rows) else Tree.empty(spec)
        for rows in (whole, part)
    )
    assert accountable(t, s) and not accountable(t, s._replace(spec=SPEC))
    missing = np.array([listed(Complement(pager.pages, t, pager.pages, s))], np.int64)
    assert accounted(pager.pages, t, pager.pages, s, missing) == subset(
        pager.pages, t, pager.pages, s
    )


def test_rows_of_another_width_are_refused():
    pager = MemoryPager(4096, 1 << 12)
    with pytest.raises(SchemaError, match=r"a tree of 1 columns is built of int64\[1, 3\]"):
        bulk(pager, SPEC, [np.zeros((2, 3), np.int64)])


def test_probes_pay_where_little_is_missing():
    """A missing record costs two probes for each doubling of the gap: nearly all must be there."""
    assert pays(1_000_000, 999_990)
    assert not pays(1_000_000, 500_000)
    assert not pays(1_000_000, 999_990, 100)  # beside a pass over 100 records
    assert not pays(10, 11)  # what is not a subset
