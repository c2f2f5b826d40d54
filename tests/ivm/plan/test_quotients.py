"""Quotients of decimals are floats: the exact quotient, rounded once."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ivm
from ivm.errors import RangeError
from ivm.terms.evaluator import _ratio

WORDS = st.one_of(
    st.integers(-30, 30), st.integers(-(2**63), 2**63 - 1), st.integers(2**53 - 3, 2**53 + 3)
)


@given(st.lists(st.tuples(WORDS, WORDS.filter(bool)), min_size=1), st.integers(-18, 18))
def test_a_ratio_is_rounded_once(pairs, power):
    left, right = np.array(pairs, np.int64).T
    exact = [float(Fraction(a, b) * Fraction(10) ** power) for a, b in pairs]
    assert _ratio(left, right, power).tolist() == exact


def test_the_share_of_each_in_a_sum_follows_edits():
    with ivm.open(":memory:") as ws:
        ws.install("""
            a[k] = v -> int(k), decimal(9, 2)(v).
            s[] = t <- agg<<t = sum(v)>> a[_] = v.
            share[k] = x <- x = a[k] / s[].
            half[k] = x <- x = a[k] / 2.
            back[k] = x <- x = 1 / a[k], a[k] > 0.00.
        """)
        ws.exec("+a[1] = 2.00. +a[2] = 6.00.")
        assert list(ws["share"]) == [(1, 0.25), (2, 0.75)]
        ws.exec("^a[2] = 3.00.")
        assert list(ws["share"]) == [(1, 0.4), (2, 0.6)]
        assert list(ws["half"]) == [(1, 1.0), (2, 1.5)]
        assert list(ws["back"]) == [(1, 0.5), (2, float(Decimal(1) / 3))]
        assert list(ws.query("q(k) <- a[k] / s[] > 0.5.")) == [(2,)]
        with pytest.raises(RangeError, match="division by zero"):
            ws.exec("^a[1] = -3.00.")
        assert ws.check() == []
