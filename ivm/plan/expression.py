"""Evaluate terms and comparisons over batches: columns of words in, a column of words or a mask out.

A *primitive* of the paper (z = x + y) is computed here, on whole batches.  Arithmetic of int64 and decimals is exact or
fails if its type cannot hold the result; a quotient of decimals is exact, rounded once to a float64.
float64 is the machine's, and a NaN fails.  A sum is computed as a whole, by halves of words, so only its result must
fit its type; a sum that is only compared need not fit.

A term may fail for a binding that another literal excludes.  So a failure raises no exception here: each binding has a
code next to its word, which is 0, or the place of the operator and the reason.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from ivm.errors import RangeError
from ivm.join.kernels.join_layout import HALF
from ivm.lang.ir import MIRRORED, Atom, Binary, Compare, Const, Literal, Negation, Term, Type, Var
from ivm.lang.types import TEXTS, arithmetic, scale, shown, word_range
from ivm.plan.constants import Encoder
from ivm.plan.linear import COMPARE
from pagestore.host import WORD_MIN, float_values, float_words

BY_ZERO, BEYOND, NAN = 1, 2, 3  # why a term fails: the lowest two bits of a code
EXACT = 2.0**53  # below it a float holds every whole number
PLACE_BITS = 20  # the bits of the operator's column in a code; the line is above them
Codes = np.ndarray | None  # int64[n], 0 where a term does not fail; None if it fails nowhere


class Batch(NamedTuple):
    """n bindings: a column of words int64[n] for each variable, and codes for the variables whose terms failed."""

    n: int
    columns: dict[str, np.ndarray]
    failures: dict[str, np.ndarray]

    def only(self, which: np.ndarray) -> "Batch":
        """Return the bindings that a mask bool[n], or indices, choose."""
        columns = {name: column[which] for name, column in self.columns.items()}
        left = len(next(iter(columns.values())))
        return Batch(left, columns, {name: codes[which] for name, codes in self.failures.items()})


class Evaluator:
    """Evaluates terms and comparisons of one rule, given its variables' types and an encoder of constants."""

    def __init__(self, types: Mapping[str, Type], encode: Encoder) -> None:
        self._types, self._encode = types, encode

    def words(self, term: Term, batch: Batch) -> tuple[np.ndarray, Codes]:
        """Return the words int64[n] of a term, and its codes; where it fails, the word is arbitrary."""
        if isinstance(term, Var):
            return batch.columns[term.name], batch.failures.get(term.name)
        if isinstance(term, Const):
            return np.full(batch.n, self._encode(term), np.int64), None
        if self._adds(term):
            high, low, codes = self._sum(term, batch)
            high, low = high + (low >> 32), low & HALF
            return self._fitting(term, (high << 32) + low, high != high.astype(np.int32), codes)
        (left, before), (right, behind) = self.words(term.left, batch), self.words(term.right, batch)
        codes = either(before, behind)
        if term.op == "/":
            zero = right == 0 if self._type(term.right) != "float64" else float_values(right) == 0
            codes = either(codes, _coded(term, zero, BY_ZERO))
            if self._type(term) == "float64" != self._type(term.left):
                power = (scale(self._type(term.right)) or 0) - (scale(self._type(term.left)) or 0)
                return float_words(_ratio(left, right, power)), codes
        if self._type(term) == "float64":
            words, nan = _floats(term.op, float_values(left), float_values(right))
            return words, either(codes, _coded(term, nan, NAN))
        return self._fitting(term, *(_quotient if term.op == "/" else _product)(left, right), codes)

    def holds(self, comparison: Compare, batch: Batch) -> tuple[np.ndarray, Codes]:
        """Return where a comparison holds, bool[n], and its codes; arbitrary where it fails.  Words sort as values."""
        left, right = comparison.left, comparison.right
        if comparison.op not in ("=", "!=") and self._type(left) in TEXTS:
            return self._texts_hold(left, comparison.op, right, batch), None
        if not any(isinstance(side, Binary) and self._adds(side) for side in (left, right)):
            (a, before), (b, behind) = self.words(left, batch), self.words(right, batch)
            return COMPARE[comparison.op](a, b), either(before, behind)
        (high, low, before), (more, rest, behind) = self._sum(left, batch), self._sum(right, batch)
        high, low = high - more, low - rest
        high += low >> 32
        return COMPARE[comparison.op](np.where(high == 0, low & HALF, high), 0), either(before, behind)

    def _texts_hold(self, left: Term, op: str, right: Term, batch: Batch) -> np.ndarray:
        """Return where a comparison of texts holds, bool[n]; a constant need not be in the dictionary."""
        if isinstance(left, Const):
            if isinstance(right, Const):
                return np.full(batch.n, COMPARE[op](_utf8(left), _utf8(right)))
            left, op, right = right, MIRRORED[op], left
        keys = self._encode.keys(self.words(left, batch)[0])
        if not isinstance(right, Const):
            holds: np.ndarray = COMPARE[op](keys, self._encode.keys(self.words(right, batch)[0]))
            return holds
        below = keys < self._encode.threshold(_utf8(right), behind=op in ("<=", ">"))
        return below if op in ("<", "<=") else ~below

    def complaint(self, term: Binary, code: int, batch: Batch) -> RangeError:
        """Return the error for a term that fails while its operands do not, in a batch of one binding."""
        if code & 3 != BEYOND:
            return refusal(term, code)
        if self._adds(term):
            high, low, _ = self._sum(term, batch)
            exact = (int(high[0]) << 32) + int(low[0])
        else:
            (left,), (right,) = (self.words(side, batch)[0].tolist() for side in (term.left, term.right))
            exact = left * right if term.op == "*" else -left
        return refusal(term, code, f"{shown(exact, self._type(term))}, ", self._type(term))

    def _type(self, term: Term) -> Type:
        return type_of(term, self._types)

    def _adds(self, term: Term) -> bool:
        return isinstance(term, Binary) and term.op in "+-" and self._type(term) != "float64"

    def _sum(self, term: Term, batch: Batch) -> tuple[np.ndarray, np.ndarray, Codes]:
        """Return the halves of a sum's words, and codes; the lower half may have more than 32 bits."""
        if isinstance(term, Binary) and self._adds(term):
            (high, low, before), (more, rest, behind) = self._sum(term.left, batch), self._sum(term.right, batch)
            if term.op == "+":
                return high + more, low + rest, either(before, behind)
            return high - more, low - rest, either(before, behind)
        words, codes = self.words(term, batch)
        return words >> 32, words & HALF, codes

    def _fitting(self, term: Binary, words: np.ndarray, beyond: np.ndarray, codes: Codes) -> tuple[np.ndarray, Codes]:
        """Add failure codes for words that are beyond 64 bits (`beyond`) or out of range for their type."""
        least, greatest = word_range(self._type(term))
        if least > WORD_MIN:
            beyond = beyond | (words < least) | (words > greatest)
        return words, either(codes, _coded(term, beyond, BEYOND))


def _utf8(text: Const) -> bytes:
    """Return the UTF-8 of a text, or the bytes, for comparison."""
    return text.value if isinstance(text.value, bytes) else str(text.value).encode()


def either(codes: Codes, others: Codes) -> Codes:
    """Combine two columns of codes; the first takes precedence."""
    if codes is None or others is None:
        return others if codes is None else codes
    return np.where(codes != 0, codes, others)


def _coded(term: Binary, fails: np.ndarray, why: int) -> Codes:
    if not fails.any():
        return None
    code = (term.where.line << PLACE_BITS | min(term.where.column, (1 << PLACE_BITS) - 1)) << 2 | why
    return np.where(fails, code, 0)


def place(code: int) -> tuple[int, int]:
    """Return the line and the column of the operator in a code."""
    return (code >> 2) >> PLACE_BITS, (code >> 2) & ((1 << PLACE_BITS) - 1)


def refusal(term: Binary, code: int, value: str = "", type_: Type = "its type") -> RangeError:
    """Return the error for a term that fails for a binding that no other literal excludes."""
    found = {
        BY_ZERO: f"division by zero in `{term}`",
        NAN: f"`{term}` is not a number for some binding",
        BEYOND: f"`{term}` is {value}beyond {type_}",
    }[code & 3]
    return RangeError(f"{term.where}: {found}; exclude it with a comparison")


def _quotient(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return quotients truncated towards zero, arbitrary where the divisor is zero, and which exceed 64 bits."""
    beyond = (left == WORD_MIN) & (right == -1)
    right = np.where((right == 0) | beyond, 1, right)
    quotient = left // right
    return quotient + ((quotient < 0) & (quotient * right != left)), beyond


def _ratio(left: np.ndarray, right: np.ndarray, power: int) -> np.ndarray:
    """Return left / right * 10**power, rounded once; arbitrary where the divisor is zero. Operands that no float holds
    exactly are divided again as Python integers.
    """
    right = np.where(right == 0, 1, right)
    above, below = 10 ** max(0, power), 10 ** max(0, -power)
    a, b = left.astype(np.float64) * above, right.astype(np.float64) * below
    ratio: np.ndarray = a / b
    for i in np.flatnonzero((np.abs(a) >= EXACT) | (np.abs(b) >= EXACT)).tolist():
        ratio[i] = int(left[i]) * above / (int(right[i]) * below)
    return ratio


def _product(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return products, and which exceed 64 bits; those near the limit are checked with Python integers."""
    with np.errstate(all="ignore"):
        product = left * right
        beyond = np.abs(left.astype(np.float64) * right.astype(np.float64)) >= 2.0**62
    for i in np.flatnonzero(beyond).tolist():
        beyond[i] = int(product[i]) != int(left[i]) * int(right[i])
    return product, beyond


def _floats(op: str, left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    operate = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[op]
    with np.errstate(all="ignore"):
        result = operate(left, right)
    nan = np.isnan(result)
    return float_words(np.where(nan, 0.0, result)), nan


def type_of(term: Term, types: Mapping[str, Type]) -> Type:
    """Return the type of a term in a checked rule."""
    if isinstance(term, Var):
        return types[term.name]
    if isinstance(term, Const):
        return term.type
    result = arithmetic(term.op, type_of(term.left, types), type_of(term.right, types))
    assert result is not None, f"{term.where}: an ill-typed term was let through"
    return result


def binaries(*nodes: Term | Literal) -> Iterator[Binary]:
    """Yield every arithmetic operation in some terms or literals."""
    for node in nodes:
        match node:
            case Binary():
                yield node
                yield from binaries(node.left, node.right)
            case Compare():
                yield from binaries(node.left, node.right)
            case Negation():
                yield from binaries(*node.body)


def risk(node: Term | Compare) -> int:
    """Return how a term may fail: 0 never, 1 by a result out of range for its type, 2 by a division by zero, too."""
    operations = [*binaries(node)]
    divides = any(x.op == "/" and not (isinstance(x.right, Const) and x.right.value) for x in operations)
    return bool(operations) + divides


def may_fail(literals: tuple[Literal, ...], held: set[Var], types: Mapping[str, Type]) -> bool:
    """Return whether arithmetic in some literals may fail; other atoms bind the variables `held`.

    A sum or difference of numbers that is only compared cannot fail.
    """
    held = held.union(v for x in literals if isinstance(x, Atom) for v in x.terms if isinstance(v, Var))
    for x in literals:
        if isinstance(x, Negation) and may_fail(x.body, held, types):
            return True
        if isinstance(x, Compare):
            defines = x.op == "=" and any(isinstance(v, Var) and v not in held for v in (x.left, x.right))
            if any(b.op in "*/" or defines or type_of(b, types) == "float64" for b in binaries(x)):
                return True
    return False
