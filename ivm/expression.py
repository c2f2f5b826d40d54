"""Terms and comparisons over batches: columns of words in, a column of words or a mask out.

A *primitive* of the paper (z = x + y) is computed here, on whole batches.  int64 and decimal arithmetic
is exact or refused, and so is what its type does not hold; float64 is the machine's, and a NaN is refused.
"""

import operator
from collections.abc import Callable, Mapping

import numpy as np

from ivm.constants import Encode
from ivm.errors import RangeError
from ivm.lang.rule import Binary, Compare, Const, Term, Type, Var
from ivm.lang.types import arithmetic, shown, word_range
from ivm.linear import COMPARE, linear
from pagestore.words import float_values, float_words

Columns = Mapping[str, np.ndarray]

class Evaluator:
    """Evaluates terms of one rule: its variables' types, and how a constant becomes a word."""

    def __init__(self, types: Mapping[str, Type], encode: Encode, place: str) -> None:
        self._types, self._encode, self._place = types, encode, place

    def type_of(self, term: Term) -> Type:
        if isinstance(term, Var):
            return self._types[term.name]
        if isinstance(term, Const):
            return term.type
        result = arithmetic(term.op, self.type_of(term.left), self.type_of(term.right))
        assert result is not None, f"{self._place}: an ill-typed term was let through"
        return result

    def words(self, term: Term, columns: Columns, n: int) -> np.ndarray:
        """The words int64[n] of a term.  Raises RangeError for an overflow, a NaN or a division by zero."""
        if isinstance(term, Var):
            return columns[term.name]
        if isinstance(term, Const):
            return np.full(n, self._encode(term), np.int64)
        left, right = self.words(term.left, columns, n), self.words(term.right, columns, n)
        if self.type_of(term) == "float64":
            return self._floats(term, float_values(left), float_values(right))
        return self._integers(term, left, right)

    def mask(self, comparison: Compare, columns: Columns, n: int) -> np.ndarray:
        """bool[n]: where the comparison holds.  The order of words is the order of values.

        Sums do not fail, whatever their parts come to; other terms as `words` says.
        """
        if isinstance(comparison.left, Binary) or isinstance(comparison.right, Binary):
            form = linear(comparison, self._types, self._encode)
            if form is not None:
                return form.holds(columns, n)
        left, right = self.words(comparison.left, columns, n), self.words(comparison.right, columns, n)
        return COMPARE[comparison.op](left, right)

    def _floats(self, term: Binary, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        if term.op == "/" and not right.all():
            raise RangeError(f"{self._place}: division by zero in `{term}`; exclude it with a comparison")
        operate = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[term.op]
        with np.errstate(all="ignore"):
            result = operate(left, right)
        if np.isnan(result).any():
            raise RangeError(f"{self._place}: `{term}` is not a number for some binding")
        return float_words(result)

    def _integers(self, term: Binary, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        if term.op == "/":
            if not right.all():
                raise RangeError(f"{self._place}: division by zero in `{term}`; exclude it with a comparison")
            return self._fitting(term, _exact(_truncated, left, right))
        operate = {"+": np.add, "-": np.subtract, "*": np.multiply}[term.op]
        with np.errstate(all="ignore"):
            result = operate(left, right)
            rough = operate(left.astype(np.float64), right.astype(np.float64))
        if np.abs(rough).max(initial=0.0) < 2.0**62:
            return self._fitting(term, result)
        exact_operate = {"+": operator.add, "-": operator.sub, "*": operator.mul}[term.op]
        return self._fitting(term, _exact(exact_operate, left, right))

    def _fitting(self, term: Binary, exact: np.ndarray) -> np.ndarray:
        """The words of exact results, which are Python's integers where 64 bits may be too few."""
        type_ = self.type_of(term)
        least, greatest = word_range(type_)
        for value in (exact.min(initial=0), exact.max(initial=0)):
            if not least <= value <= greatest:
                found = f"`{term}` is {shown(int(value), type_)}"
                raise RangeError(f"{self._place}: {found}, beyond {type_}; exclude it with a comparison")
        return exact.astype(np.int64, copy=False)


def _exact(operate: Callable[[int, int], int], left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """An operation of Python's integers, which have as many bits as they need: object[n]."""
    return np.array([operate(a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True)], object)


def _truncated(a: int, b: int) -> int:
    """Integer division towards zero."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def risk(node: Term | Compare) -> int:
    """How a term may fail: 0 not at all, 1 by a result that does not fit, 2 by a division by zero."""
    if isinstance(node, Compare):
        return max(risk(node.left), risk(node.right))
    if not isinstance(node, Binary):
        return 0
    divides = node.op == "/" and not (isinstance(node.right, Const) and node.right.value)
    return max(1 + divides, risk(node.left), risk(node.right))
