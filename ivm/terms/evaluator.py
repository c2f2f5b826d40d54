"""Evaluate terms and comparisons over batches: columns of words in, a column of words or a mask
out.

A *primitive* of the paper (z = x + y) is computed here, on whole batches.  Arithmetic of int64 and
decimals is exact or fails if its type cannot hold the result; a quotient of decimals is exact,
rounded once to a float64. float64 is the machine's, and a NaN fails.  A sum is computed as a whole,
by halves of words, so only its result must fit its type; a sum that is only compared need not fit.

A term may fail for a binding that another literal excludes.  So a failure raises no exception here:
each binding has a code next to its word, which is 0, or the place of the operator and the reason.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from ivm.errors import RangeError
from ivm.join.groups import greatest
from ivm.join.kernels.tries import HALF
from ivm.lang import ir
from ivm.lang.functions import FUNCTIONS, call_may_fail
from ivm.lang.nulls import tests_null
from ivm.lang.rewrite.numbers import LISTED_MAX
from ivm.lang.types import arithmetic, has_ids, scale, shown, word_range
from ivm.terms.conditions import SAME, Choice, Filter, compared
from ivm.terms.encoder import Encoder
from ivm.terms.numbers import evaluate
from ivm.terms.operands import Operands
from pagestore.host import NULL, WORD_MIN, float_values, float_words

BY_ZERO, BEYOND, NAN = 1, 2, 3  # why a term fails: the lowest two bits of a code
EXACT = 2.0**53  # below it a float holds every whole number
PLACE_BITS = 20  # the bits of the operator's column in a code; the line is above them
Codes = np.ndarray | None  # int64[n], 0 where a term does not fail; None if it fails nowhere
Applied = tuple[np.ndarray, Codes, np.ndarray | None]  # words, codes, and where they are null


class Batch:
    """n bindings: a column of words int64[n] for each variable, and codes for the variables
    whose terms failed; and what functions were applied to, so that each is applied once.
    """

    __slots__ = "applied", "columns", "failures", "n"

    def __init__(
        self, n: int, columns: dict[str, np.ndarray], failures: dict[str, np.ndarray]
    ) -> None:
        self.n, self.columns, self.failures = n, columns, failures
        self.applied = dict[ir.Call, Applied]()

    def only(self, which: np.ndarray) -> "Batch":
        """Return the bindings that a mask bool[n], or indices, choose."""
        columns = {name: column[which] for name, column in self.columns.items()}
        # also where there are no columns
        left = int(np.count_nonzero(which)) if which.dtype == bool else len(which)
        return Batch(left, columns, {name: codes[which] for name, codes in self.failures.items()})


class Evaluator:
    """Evaluates terms and comparisons of one rule, given its variables' types and an encoder of
    constants.

    The variables `nulls` may be null: arithmetic with null is null, and a comparison with null does
    not hold.
    """

    def __init__(
        self, types: Mapping[str, ir.Type], encode: Encoder, nulls: frozenset[str] = frozenset()
    ) -> None:
        self._types, self._encode, self._nulls = types, encode, nulls

    def words(self, term: ir.Term, batch: Batch) -> tuple[np.ndarray, Codes]:
        """Return the words int64[n] of a term, and its codes; one that fails is arbitrary."""
        if isinstance(term, ir.Var):
            return batch.columns[term.name], batch.failures.get(term.name)
        if isinstance(term, ir.Const):
            return _repeated(self._encode(term), batch.n), None
        if (number := ir.given_number(term)) is not None:
            return _repeated(self._encode.given(number), batch.n), None
        if isinstance(term, ir.Call):
            return self._applied(term, batch)[:2]
        words, codes = self._computed(term, batch)
        null = self._null(term, batch)
        if null is None:
            return words, codes
        return np.where(null, NULL, words), codes if codes is None else np.where(null, 0, codes)

    def _null(self, term: ir.Term, batch: Batch) -> np.ndarray | None:
        """Return where a term is null, bool[n]; None if it is nowhere."""
        if isinstance(term, ir.Var):
            null = batch.columns[term.name] == NULL if term.name in self._nulls else None
        elif isinstance(term, ir.Const):
            null = np.ones(batch.n, bool) if term.value is None else None
        elif isinstance(term, ir.Call):
            null = self._null_call(term, batch)
        else:
            null = _any([self._null(term.left, batch), self._null(term.right, batch)])
        return null if null is not None and null.any() else None

    def _computed(self, term: ir.Binary, batch: Batch) -> tuple[np.ndarray, Codes]:
        """As `words`, for an operation none of whose operands is null."""
        if self._adds(term):
            high, low, codes = self._sum(term, batch)
            high, low = high + (low >> 32), low & HALF
            return self._fitting(term, (high << 32) + low, high != high.astype(np.int32), codes)
        (left, before), (right, behind) = (
            self.words(term.left, batch),
            self.words(term.right, batch),
        )
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

    def holds(self, comparison: ir.Compare, batch: Batch) -> tuple[np.ndarray, Codes]:
        """Return where a comparison holds, bool[n], and its codes; arbitrary where it fails.
        Words sort as values.
        """
        holds, codes = self._compared(comparison, batch)
        if comparison.op == SAME or tests_null(comparison):
            return holds, codes
        for side in (comparison.left, comparison.right):
            null = self._null(side, batch)
            if null is not None:
                holds, codes = holds & ~null, codes if codes is None else np.where(null, 0, codes)
        return holds, codes

    def _compared(self, comparison: ir.Compare, batch: Batch) -> tuple[np.ndarray, Codes]:
        """As `holds`, without regard to nulls."""
        left, right = comparison.left, comparison.right
        if comparison.op not in ("=", "!=", SAME) and has_ids(self._type(left)):
            return self._texts_hold(left, comparison.op, right, batch), None
        sums = any(isinstance(side, ir.Binary) and self._adds(side) for side in (left, right))
        if not sums or comparison.op == SAME:  # whose words are those of null where a term is
            (a, before), (b, behind) = self.words(left, batch), self.words(right, batch)
            return COMPARE[comparison.op](a, b), either(before, behind)
        (high, low, before), (more, rest, behind) = self._sum(left, batch), self._sum(right, batch)
        high, low = high - more, low - rest
        high += low >> 32
        return COMPARE[comparison.op](np.where(high == 0, low & HALF, high), 0), either(
            before, behind
        )

    def passes(self, filter_: Filter, batch: Batch) -> tuple[np.ndarray, Codes]:
        """Return where a filter holds, as `holds`; a choice's comparisons are evaluated once."""
        if not isinstance(filter_, Choice):
            return self.holds(filter_, batch)
        masks = {one: self.holds(one, batch)[0] for one in dict.fromkeys(compared([filter_]))}
        found = np.zeros(batch.n, bool)
        for option in filter_.options:
            found |= np.logical_and.reduce([masks[one] for one in option])
        return found, None

    def _texts_hold(self, left: ir.Term, op: str, right: ir.Term, batch: Batch) -> np.ndarray:
        """Return where a comparison of texts holds, bool[n]; a constant may be unknown."""
        low, high = self._encode.constant(left), self._encode.constant(right)
        if low is not None:
            if high is not None:
                return np.full(batch.n, COMPARE[op](_ordered(low), _ordered(high)))
            left, op, right, high = right, ir.MIRRORED[op], left, low
        keys = self._encode.keys(self.words(left, batch)[0])
        if high is None or isinstance(high.value, Decimal):
            holds: np.ndarray = COMPARE[op](keys, self._encode.keys(self.words(right, batch)[0]))
            return holds
        below = keys < self._encode.threshold(_utf8(high), behind=op in ("<=", ">"))
        return below if op in ("<", "<=") else ~below

    def _null_call(self, term: ir.Call, batch: Batch) -> np.ndarray | None:
        """Return where a function's application is null, bool[n]; None if it is nowhere."""
        if FUNCTIONS[term.name].strict:
            return _any([self._null(arg, batch) for arg in term.args])
        return None if term.name in ("is_null", "same") else self._applied(term, batch)[2]

    def _argument(self, term: ir.Term, batch: Batch) -> Applied:
        """Return the words of a term, its codes, and where it is null."""
        if isinstance(term, ir.Call):
            return self._applied(term, batch)
        return *self.words(term, batch), self._null(term, batch)

    def _applied(self, term: ir.Call, batch: Batch) -> Applied:
        """Return the words and codes of a function's application, and where it is null: there
        its word is NULL.  A function is applied once to a batch.
        """
        found = batch.applied.get(term)
        if found is None:
            found = batch.applied[term] = self._apply(term, batch)
        return found

    def _apply(self, term: ir.Call, batch: Batch) -> Applied:
        """As `_applied`, without regard to what was applied before."""
        args = [self._argument(arg, batch) for arg in term.args]
        nulls = [null if null is not None and null.any() else None for _, _, null in args]
        types = tuple(self._type(arg) for arg in term.args)
        operands = Operands(
            batch.n, [words for words, _, _ in args], nulls, types, self._type(term), self._encode
        )
        function = FUNCTIONS[term.name]
        if not function.strict and function.compute is not None:
            words, codes = function.compute(operands, [codes for _, codes, _ in args])
            return words, codes, None if term.name in ("is_null", "same") else words == NULL
        codes = None
        for _, more, _ in args:
            codes = either(codes, more)
        null = _any(nulls)
        skipped = _any([null, None if codes is None else codes != 0])  # these words are not values
        if term.name in COMPARE:
            words = self._applied_comparison(term, operands, skipped)
        else:
            words, fails = evaluate(term.name, operands, skipped)
            codes = either(codes, _coded(term, fails, NAN))
        if null is None:
            return words, codes, None
        return (
            np.where(null, NULL, words),
            codes if codes is None else np.where(null, 0, codes),
            null,
        )

    def _applied_comparison(
        self, term: ir.Call, operands: Operands, skipped: np.ndarray | None
    ) -> np.ndarray:
        """Return 1 where a comparison holds, int64[n]; arbitrary where its sides are `skipped`."""
        if skipped is not None:
            words = np.zeros(operands.n, np.int64)
            words[~skipped] = self._applied_comparison(term, operands.only(~skipped), None)
            return words
        left, right = operands.words
        if has_ids(operands.types[0]) and term.name not in ("=", "!="):
            left, right = self._encode.keys(left), self._encode.keys(right)
        holds: np.ndarray = COMPARE[term.name](left, right).astype(np.int64)
        return holds

    def complaint(self, term: ir.Binary | ir.Call, code: int, batch: Batch) -> RangeError:
        """Return the error of a term that fails though its operands do not, in a batch of one."""
        if code & 3 != BEYOND:
            return refusal(term, code)
        if isinstance(term, ir.Call):
            return refusal(term, code)
        if self._adds(term):
            high, low, _ = self._sum(term, batch)
            exact = (int(high[0]) << 32) + int(low[0])
        else:
            (left,), (right,) = (
                self.words(side, batch)[0].tolist() for side in (term.left, term.right)
            )
            exact = left * right if term.op == "*" else -left
        return refusal(term, code, shown(exact, self._type(term)), self._type(term))

    def _type(self, term: ir.Term) -> ir.Type:
        return type_of(term, self._types)

    def _adds(self, term: ir.Term) -> bool:
        return isinstance(term, ir.Binary) and term.op in "+-" and self._type(term) != "float64"

    def _sum(self, term: ir.Term, batch: Batch) -> tuple[np.ndarray, np.ndarray, Codes]:
        """Return the halves of a sum's words, and codes; the lower may have more than 32 bits."""
        if isinstance(term, ir.Binary) and self._adds(term):
            (high, low, before), (more, rest, behind) = (
                self._sum(term.left, batch),
                self._sum(term.right, batch),
            )
            if term.op == "+":
                return high + more, low + rest, either(before, behind)
            return high - more, low - rest, either(before, behind)
        words, codes = self.words(term, batch)
        return words >> 32, words & HALF, codes

    def _fitting(
        self, term: ir.Binary, words: np.ndarray, beyond: np.ndarray, codes: Codes
    ) -> tuple[np.ndarray, Codes]:
        """Add failure codes for words beyond 64 bits (`beyond`) or out of their type's range."""
        least, greatest = word_range(self._type(term))
        if least > WORD_MIN:
            beyond = beyond | (words < least) | (words > greatest)
        return words, either(codes, _coded(term, beyond, BEYOND))


def _ordered(const: ir.Const) -> Any:
    """Return what a constant whose words are ids is ordered by: bytes, or the decimal."""
    return const.value if isinstance(const.value, Decimal) else _utf8(const)


def _utf8(text: ir.Const) -> bytes:
    """Return the UTF-8 of a text, or the bytes, for comparison."""
    return text.value if isinstance(text.value, bytes) else str(text.value).encode()


def either(codes: Codes, others: Codes) -> Codes:
    """Combine two columns of codes; the first takes precedence."""
    if codes is None or others is None:
        return others if codes is None else codes
    return np.where(codes != 0, codes, others)


def _coded(term: ir.Binary | ir.Call, fails: np.ndarray, why: int) -> Codes:
    if not fails.any():
        return None
    code = (
        term.where.line << PLACE_BITS | min(term.where.column, (1 << PLACE_BITS) - 1)
    ) << 2 | why
    return np.where(fails, code, 0)


def _any(masks: Iterable[np.ndarray | None]) -> np.ndarray | None:
    """Return where some of the masks bool[n] hold; None if they all are None."""
    found: np.ndarray | None = None
    for mask in masks:
        found = mask if found is None else found if mask is None else found | mask
    return found


def place(code: int) -> tuple[int, int]:
    """Return the line and the column of the operator in a code."""
    return (code >> 2) >> PLACE_BITS, (code >> 2) & ((1 << PLACE_BITS) - 1)


def refusal(
    term: ir.Binary | ir.Call, code: int, value: str = "", type_: ir.Type = "its type"
) -> RangeError:
    """Return the error for a term that fails for a binding that no other literal excludes."""
    if isinstance(term, ir.Call) and term.name in ("$nth", "$within"):
        reason = f"a range has more than {LISTED_MAX:,} numbers, or a step of 0"
        return RangeError(f"{term.where}: {reason}; exclude it with a comparison")
    found = {
        BY_ZERO: f"division by zero in `{term}`",
        NAN: f"`{term}` {'has no value' if isinstance(term, ir.Call) else 'is not a number'} for some "
        f"binding",
        BEYOND: f"`{term}` is {value}{', ' * bool(value)}beyond {type_}",
    }[code & 3]
    said, where = f"{term.where}: {found}; exclude it with a comparison", term.where
    of, line, column = where
    return RangeError(
        said,
        of=of,
        line=line,
        column=column,
        term=str(term),
        total=value,
        type=type_ if value else "",
    )


def _repeated(word: int, n: int) -> np.ndarray:
    """Return a word n times.  Several share memory and are read-only, so who gives them to a kernel
    copies them; a single one would be in one piece already, and so not be copied.
    """
    return np.broadcast_to(np.int64(word), n) if n > 1 else np.full(n, word, np.int64)


def _quotient(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return quotients truncated towards zero, arbitrary where the divisor is zero, and which
    exceed 64 bits.
    """
    # numpy multiplies instead of dividing by one number
    if len(right) and right.strides == (0,) and right[0] > 0:
        quotient = left // right[0]
        if left.min() < 0:
            quotient += (quotient < 0) & (quotient * right[0] != left)
        return quotient, np.broadcast_to(False, len(left))
    beyond = (left == WORD_MIN) & (right == -1)
    right = np.where((right == 0) | beyond, 1, right)
    quotient = left // right
    return quotient + ((quotient < 0) & (quotient * right != left)), beyond


def _ratio(left: np.ndarray, right: np.ndarray, power: int) -> np.ndarray:
    """Return left / right * 10**power, rounded once; arbitrary where the divisor is zero. Operands
    that no float holds exactly are divided again as Python integers.
    """
    right = np.where(right == 0, 1, right)
    above, below = 10 ** max(0, power), 10 ** max(0, -power)
    a, b = left.astype(np.float64) * above, right.astype(np.float64) * below
    ratio: np.ndarray = a / b
    for i in np.flatnonzero((np.abs(a) >= EXACT) | (np.abs(b) >= EXACT)).tolist():
        ratio[i] = int(left[i]) * above / (int(right[i]) * below)
    return ratio


def _product(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return products, and which exceed 64 bits; those near the limit are checked exactly."""
    if greatest(left) * greatest(right) < 1 << 62:
        return left * right, np.broadcast_to(False, len(left))
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
    return float_words(result), np.isnan(result) & ~np.isnan(left) & ~np.isnan(right)


def type_of(term: ir.Term, types: Mapping[str, ir.Type]) -> ir.Type:
    """Return the type of a term in a checked rule."""
    if isinstance(term, ir.Var):
        return types[term.name]
    if isinstance(term, ir.Const):
        return term.type
    if isinstance(term, ir.Call):
        gives = FUNCTIONS[term.name].gives
        if isinstance(gives, str):
            return gives
        kinds = [type_of(arg, types) for arg in term.args]
        return gives(kinds, [arg if isinstance(arg, ir.Const) else None for arg in term.args])
    result = arithmetic(term.op, type_of(term.left, types), type_of(term.right, types))
    assert result is not None, f"{term.where}: an ill-typed term was let through"
    return result


def binaries(*nodes: ir.Term | ir.Literal) -> Iterator[ir.Binary | ir.Call]:
    """Yield every operation and function that may fail in some terms or literals."""
    for node in nodes:
        match node:
            case ir.Binary():
                yield node
                yield from binaries(node.left, node.right)
            case ir.Call():
                if call_may_fail(node):
                    yield node
                yield from binaries(*node.args)
            case ir.Compare():
                yield from binaries(node.left, node.right)
            case ir.Negation():
                yield from binaries(*node.body)


def risk(node: ir.Term | ir.Compare) -> int:
    """Return how a term may fail: 0 never, 1 by a result out of range for its type, 2 by a
    division by zero, too.
    """
    operations = [*binaries(node)]
    divides = any(
        isinstance(x, ir.Call)
        or (x.op == "/" and not (isinstance(x.right, ir.Const) and x.right.value))
        for x in operations
    )
    return bool(operations) + divides


def may_fail(
    literals: tuple[ir.Literal, ...], held: set[ir.Var], types: Mapping[str, ir.Type]
) -> bool:
    """Return whether arithmetic in some literals may fail; other atoms bind the variables `held`.

    A sum or difference of numbers that is only compared cannot fail.
    """
    held = held.union(
        v for x in literals if isinstance(x, ir.Atom) for v in x.terms if isinstance(v, ir.Var)
    )
    for x in literals:
        if isinstance(x, ir.Negation) and may_fail(x.body, held, types):
            return True
        if isinstance(x, ir.Compare):
            defines = x.op == "=" and any(
                isinstance(v, ir.Var) and v not in held for v in (x.left, x.right)
            )
            if any(
                isinstance(b, ir.Call) or b.op in "*/" or defines or type_of(b, types) == "float64"
                for b in binaries(x)
            ):
                return True
    return False


COMPARE = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge, SAME: operator.eq,
}  # fmt: skip
