"""Functions of terms over batches: words in, words out.

Numbers, dates and truth values are computed on columns of words. Texts are computed once for each
distinct combination of arguments, and the results are interned together.  What fails has a mask;
its word is arbitrary.  Where an argument is null the result is null, which the caller sees to,
except for the functions that are not strict.
"""

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from functools import partial
from typing import Any

import numpy as np

from ivm.errors import UnregisteredError
from ivm.lang.functions import FUNCTIONS, USERS, declare_function, define
from ivm.lang.ir import Const, Type
from ivm.lang.rewrite import numbers
from ivm.lang.types import DIGITS_MAX, TEXTS, has_ids, scale, word_range
from ivm.terms.decimals import (
    LONG,
    checked,
    decimal_type,
    is_long,
    quotient_type,
    rounded_type,
    whole_type,
)
from ivm.terms.operands import Mask, Operands, Result, by_text, reading, shown
from ivm.terms.readings import exact, identifier, json_text, number, truth, whole
from pagestore.host import NULL, WORD_MAX, WORD_MIN, flags_of, float_words, of_numbers

# of any float, and after its point as many as a float's own least digit has
ALL_DIGITS = Context(prec=700)

Codes = np.ndarray | None


def evaluate(name: str, operands: Operands, null: Mask = None) -> Result:
    """Return the words int64[n] of a function's results, arbitrary where it is `null`, and where
    it fails, bool[n].
    """
    if null is not None:
        words, fails = np.zeros(operands.n, np.int64), operands.none()
        if not null.all():
            words[~null], fails[~null] = evaluate(name, operands.only(~null))
        return words, fails
    if name in USERS:
        return _by_user(name, operands)
    compute = LONG[name] if name in LONG and is_long(operands) else FUNCTIONS[name].compute
    assert compute is not None
    with np.errstate(all="ignore"):
        result: Result = compute(operands)
    return result


def register_function(name: str, function: Callable[..., Any], signature: str) -> None:
    """Make `function` a function of terms in this process: `name[x, y]` in rules.

    `signature` names the types of its arguments and of its result, as columns are declared: "float,
    string -> int". The function takes an Arrow array for each argument, all of the same length and
    without nulls, and returns an Arrow array, or what `pyarrow.array` takes, of as many results; a
    null, or a NaN, fails as a division by zero does. It must be pure: the same arguments always
    give the same result, in every process. A process that evaluates rules, at a transaction, a
    query or a check, registers their functions first; reading views needs none.

    Registering a name again replaces the function. Raises OptionError for a name that is taken, or
    has another signature, and RuleTypeError for an unknown type.

    >>> import pyarrow.compute as pc
    >>> register_function("initial", lambda names: pc.utf8_slice_codeunits(names, 0, 1), "string -> string")
    """
    declare_function(name, signature)
    _REGISTERED[name] = function


def is_registered(name: str) -> bool:
    """Return whether this process has a function of users."""
    return name in _REGISTERED


_REGISTERED: dict[str, Callable[..., Any]] = {}


def _by_user(name: str, x: Operands) -> Result:
    import pyarrow as pa

    if name not in _REGISTERED:
        remedy = f"call ivm.register_function({name!r}, function, {USERS[name]!r}) first"
        raise UnregisteredError(
            f"rules call the function {name}, which this process has not registered: {remedy}"
        )
    if not x.n:
        return np.zeros(0, np.int64), x.none()
    given = [x.encode.decode(type_, words) for type_, words in zip(x.types, x.words, strict=True)]
    found = _REGISTERED[name](*given)
    found = found if isinstance(found, pa.Array | pa.ChunkedArray) else pa.array(found)
    if len(found) != x.n:
        raise UnregisteredError(
            f"the function {name} returned {len(found):,} results for {x.n:,} arguments"
        )
    fails = flags_of(found.is_null(nan_is_null=pa.types.is_floating(found.type)))
    words = np.zeros(x.n, np.int64)
    if not fails.all():
        words[~fails] = x.encode.words(x.gives, found.filter(of_numbers(pa.bool_(), ~fails)))
    return words, fails


# -- choices: what may have a value though an argument is null


def _no_codes(codes: list[Codes], n: int) -> list[np.ndarray]:
    return [np.zeros(n, np.int64) if code is None else code for code in codes]


def _joined(codes: np.ndarray) -> Codes:
    return codes if codes.any() else None


def _nulls(operands: Operands, place: int) -> np.ndarray:
    null = operands.nulls[place]
    return np.zeros(operands.n, bool) if null is None else null


def _if(operands: Operands, codes: list[Codes]) -> tuple[np.ndarray, Codes]:
    condition, yes, no = operands.words
    chosen = (condition == 1) & ~_nulls(operands, 0)
    of, then, other = _no_codes(codes, operands.n)
    return np.where(chosen, yes, no), _joined(np.where(of != 0, of, np.where(chosen, then, other)))


def _coalesce(operands: Operands, codes: list[Codes]) -> tuple[np.ndarray, Codes]:
    found, failed = np.full(operands.n, NULL), np.zeros(operands.n, np.int64)
    open_ = np.ones(operands.n, bool)
    for place, (words, code) in enumerate(
        zip(operands.words, _no_codes(codes, operands.n), strict=True)
    ):
        found, failed = np.where(open_, words, found), np.where(open_, code, failed)
        open_ &= _nulls(operands, place)
    return np.where(open_, NULL, found), _joined(failed)


def _is_null(operands: Operands, codes: list[Codes]) -> tuple[np.ndarray, Codes]:
    return _nulls(operands, 0).astype(np.int64), codes[0]


def _same(operands: Operands, codes: list[Codes]) -> tuple[np.ndarray, Codes]:
    first, second = _nulls(operands, 0), _nulls(operands, 1)
    same = (first & second) | (~first & ~second & (operands.words[0] == operands.words[1]))
    of, other = _no_codes(codes, operands.n)
    return same.astype(np.int64), _joined(np.where(of != 0, of, other))


def _try(operands: Operands, codes: list[Codes]) -> tuple[np.ndarray, Codes]:
    """Return the argument, null where it fails."""
    words = operands.words[0]
    return words if codes[0] is None else np.where(codes[0] != 0, NULL, words), None


def _junction(deciding: int) -> Callable[[Operands, list[Codes]], tuple[np.ndarray, Codes]]:
    """Return `and` (0 decides) or `or` (1 decides) in three values. What fails decides nothing."""

    def junction(operands: Operands, codes: list[Codes]) -> tuple[np.ndarray, Codes]:
        n = operands.n
        decided, null, failed = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, np.int64)
        for place, (words, code) in enumerate(
            zip(operands.words, _no_codes(codes, n), strict=True)
        ):
            own = _nulls(operands, place)
            decided |= ~own & (words == deciding) & (code == 0)
            null |= own
            failed = np.where(failed != 0, failed, code)
        words = np.where(decided, deciding, np.where(null, NULL, 1 - deciding))
        return words, _joined(np.where(decided, 0, failed))

    return junction


# -- numbers


def _abs(x: Operands) -> Result:
    if x.types[0] == "float64":
        return float_words(np.abs(x.floats(0))), x.none()
    return np.abs(x.words[0]), x.words[0] == WORD_MIN


def _sign(x: Operands) -> Result:
    return np.nan_to_num(np.sign(x.floats(0))).astype(np.int64), x.none()


def _mod(x: Operands) -> Result:
    left, right = x.words
    fails = right == 0
    return np.fmod(left, np.where(fails | (right == -1), 1, right)), fails


def _rounded_words(words: np.ndarray, digits: int) -> np.ndarray:
    """Return words without their last digits, halves away from zero."""
    if digits > DIGITS_MAX:  # more than half of any word
        return np.zeros_like(words)
    unit = 10**digits
    whole, rest = np.abs(words // unit), np.abs(np.fmod(words, unit))
    whole -= (words < 0) & (rest > 0)  # `//` rounds down
    found: np.ndarray = np.sign(words) * (whole + (2 * rest >= unit))
    return found


def _round(x: Operands) -> Result:
    places = x.words[1] if len(x.words) > 1 else np.zeros(x.n, np.int64)
    digits = scale(x.types[0])
    if x.types[0] == "float64":
        power = 10.0 ** np.abs(places)
        value = x.floats(0)
        up = np.where(places < 0, value / power, value * power)
        whole = np.trunc(up) + np.sign(up) * (np.abs(up - np.trunc(up)) >= 0.5)
        found = np.where(places < 0, whole * power, whole / power)
        near = np.abs(np.abs(up - np.trunc(up)) - 0.5) < 1e-9 * np.maximum(1.0, np.abs(up))
        # the product may have rounded a half
        for i in np.flatnonzero(near & np.isfinite(value)).tolist():
            found[i] = float(_quantized(Decimal(float(value[i])), int(places[i])))
        return float_words(np.where(np.isfinite(found), found, value)), x.none()
    place = int(places[0]) if x.n else 0
    less = (digits or 0) - min(place, digits or 0)
    words = _rounded_words(x.words[0], less) if less else x.words[0]
    if place < 0:
        unit, most = 10 ** min(-place, DIGITS_MAX), word_range(x.gives)[1]
        fails = np.abs(words) > most // unit
        return np.where(fails, 0, words) * unit, fails
    return words, x.none()


def _stepped(up: bool) -> Callable[[Operands], Result]:
    def stepped(x: Operands) -> Result:
        if x.types[0] == "float64":
            return float_words((np.ceil if up else np.floor)(x.floats(0))), x.none()
        unit = 10 ** (scale(x.types[0]) or 0)
        return -(-x.words[0] // unit) if up else x.words[0] // unit, x.none()

    return stepped


def _trunc(x: Operands) -> Result:
    if x.types[0] == "float64":
        return _fitting(np.trunc(x.floats(0)))
    unit = 10 ** (scale(x.types[0]) or 0)
    return np.sign(x.words[0]) * (np.abs(x.words[0]) // unit) if unit > 1 else x.words[0], x.none()


def _fitting(values: np.ndarray) -> Result:
    """Return whole floats as int64, and which of them are beyond."""
    fails = ~((values >= -(2.0**63)) & (values < 2.0**63))
    return np.where(fails, 0, values).astype(np.int64), fails


def _shifted(left: bool) -> Callable[[Operands], Result]:
    def shifted(x: Operands) -> Result:
        words, by, fails = _distances(x)
        if not left:
            return np.right_shift(words, by), fails
        found = np.left_shift(words, by)
        return found, fails | (np.right_shift(found, by) != words)

    return shifted


def _shifted_unsigned(x: Operands) -> Result:
    words, by, fails = _distances(x)
    return np.right_shift(words.view(np.uint64), by.view(np.uint64)).view(np.int64), fails


def _shifted_around(shift: Callable[..., np.ndarray], kind: type) -> Callable[[Operands], Result]:
    """Return a shift of Soufflé, whose distance is taken modulo 64: none fails."""

    def shifted(x: Operands) -> Result:
        columns: list[np.ndarray] = [np.ascontiguousarray(words).view(kind) for words in x.words]
        return shift(columns[0], columns[1] & kind(63)).view(np.int64), x.none()

    return shifted


def _distances(x: Operands) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return words, how far each is shifted, 0 to 63, and which distances are not allowed."""
    words, by = x.words
    fails = (by < 0) | (by > 63)
    return np.ascontiguousarray(words), np.where(fails, 0, by), fails


def _powered(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    return "int64" if set(types) == {"int64"} else "float64"


def _power(x: Operands) -> Result:
    """Return powers: of int64 exactly, of others as floats."""
    if x.gives == "float64":
        return _float(np.power)(x)
    base, exponent = x.words
    rough = np.power(base.astype(np.float64), exponent.astype(np.float64))
    fails = (exponent < 0) | (np.abs(rough) > 2.0**64)
    found = np.power(np.where(fails, 0, base), np.where(fails, 1, exponent))
    for i in np.flatnonzero(~fails & (np.abs(rough) >= 2.0**62)).tolist():
        fails[i] = not WORD_MIN <= int(base[i]) ** int(exponent[i]) <= WORD_MAX
    return found, fails


def _divide(x: Operands) -> Result:
    """Return decimal quotients, halves rounded away from zero, by integers of any size."""
    power = (scale(x.gives) or 0) - (scale(x.types[0]) or 0) + (scale(x.types[1]) or 0)
    left, right = (words.astype(object) for words in x.words[:2])
    fails = x.words[1] == 0
    over = abs(left) * 10 ** max(0, power)
    under = abs(np.where(fails, 1, right)) * 10 ** max(0, -power)
    sizes = (2 * over + under) // (2 * under)
    fails |= (sizes > word_range(x.gives)[1]).astype(bool)
    signs = np.where((x.words[0] < 0) == (x.words[1] < 0), 1, -1)
    return np.where(fails, 0, sizes).astype(np.int64) * signs, fails


def _logical(of: Callable[..., Any]) -> Callable[[Operands], Result]:
    """Return a function of truth values as numbers: every number but 0 is true."""

    def logical(x: Operands) -> Result:
        return of([words != 0 for words in x.words]).astype(np.int64), x.none()

    return logical


def _extreme(greatest: bool) -> Callable[[Operands], Result]:
    """Return the least or greatest of arguments of one type; texts by their order, not words."""

    def extreme(x: Operands) -> Result:
        texts = has_ids(x.types[0])
        best = x.words[0]
        for words in x.words[1:]:
            if texts:
                keys = x.encode.keys(np.concatenate([words, best]))
                better = keys[: x.n] > keys[x.n :] if greatest else keys[: x.n] < keys[x.n :]
            else:
                better = words > best if greatest else words < best
            best = np.where(better, words, best)
        return best, x.none()

    return extreme


def _float(operate: Callable[..., Any]) -> Callable[[Operands], Result]:
    def floats(x: Operands) -> Result:
        given = [x.floats(n) for n in range(len(x.words))]
        found = operate(*given)
        return float_words(found), np.isnan(found) & ~np.logical_or.reduce(
            [np.isnan(one) for one in given]
        )

    return floats


# -- numbers of a range (lang/rewrite/numbers.py)


def _count(x: Operands) -> Result:
    """Return how many numbers there are from one to another by steps; one more than may be
    listed if there are more.
    """
    if x.types[0] == "float64":
        return _count_floats(*(x.floats(n) for n in range(3))), x.none()
    low, high, step = x.words
    low, high = np.where(step < 0, high, low), np.where(step < 0, low, high)
    size = (high.astype(np.uint64) - low.astype(np.uint64) - np.uint64(1)) // _size(
        step
    ) + np.uint64(1)
    most = numbers.LISTED_MAX + 1
    return np.where(step == 0, most, np.where(high > low, np.minimum(size, most), 0)).astype(
        np.int64
    ), x.none()


def _count_floats(low: np.ndarray, high: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return as `_count` does, by bisection, since each number, low + n * step, is rounded."""
    most = numbers.LISTED_MAX + 1
    size, above = np.zeros(len(low), np.int64), np.full(len(low), most)
    for _ in range(most.bit_length()):
        middle = (size + above + 1) // 2
        last = low + (middle - 1) * step
        inside = np.where(step > 0, last < high, last > high)
        size, above = np.where(inside, middle, size), np.where(inside, above, middle - 1)
    return np.where(step == 0, most, size)


def _size(step: np.ndarray) -> np.ndarray:
    """Return absolute values, uint64[n]; 1 for 0."""
    words = np.where(step == 0, 1, step).astype(np.uint64)
    return np.where(step < 0, np.uint64(0) - words, words)


def _nth(x: Operands) -> Result:
    low, _, step, block, unit, size = x.words
    if x.types[0] == "float64":
        found = x.floats(0) + (block + unit) * x.floats(2)
        return float_words(np.where(np.isnan(found), 0.0, found)), size > numbers.LISTED_MAX
    return low + (block + unit) * step, size > numbers.LISTED_MAX


def _is_nth(x: Operands) -> Result:
    value, low, high, step = x.words
    if x.types[0] == "float64":
        value, low, high, step = (x.floats(n) for n in range(4))
        nth = np.rint((value - low) / step)
        inside = np.where(
            step > 0, (low <= value) & (value < high), (high < value) & (value <= low)
        )
        return (inside & (low + nth * step == value)).astype(np.int64), step == 0
    inside = np.where(step > 0, (low <= value) & (value < high), (high < value) & (value <= low))
    first = np.where(step > 0, low, value).astype(np.uint64)
    last = np.where(step > 0, value, low).astype(np.uint64)
    return (inside & ((last - first) % _size(step) == 0)).astype(np.int64), step == 0


# -- conversions


def _rounded_number(x: Operands) -> Result:
    if x.types[0] == "float64":
        return _fitting(np.rint(x.floats(0)))
    digits = scale(x.types[0])
    return (_rounded_words(x.words[0], digits) if digits else x.words[0]), x.none()


_int = reading(whole, _rounded_number)


def _to_number(x: Operands) -> Result:
    return _int(x) if x.types[0] in TEXTS else _trunc(x)


def _to_decimal(x: Operands) -> Result:
    wanted, own, words = scale(x.gives) or 0, scale(x.types[0]), x.words[0]
    if x.types[0] in TEXTS:
        return by_text(lambda text, places: checked(exact(text), places, DIGITS_MAX), x)
    if x.types[0] == "float64":
        value = x.floats(0) * 10.0**wanted
        whole = np.trunc(value) + np.sign(value) * (np.abs(value - np.trunc(value)) >= 0.5)
        fails = ~(np.abs(whole) < 1e18)
        return np.where(fails, 0, whole).astype(np.int64), fails
    more = wanted - (own or 0)
    if more <= 0:
        return (_rounded_words(words, -more) if more else words), x.none()
    fails = np.abs(words) >= 10 ** max(0, 18 - more)
    return np.where(fails, 0, words) * 10**more, fails


def _quantized(value: Decimal, places: int) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), "ROUND_HALF_UP", ALL_DIGITS)


def _within(x: Operands) -> Result:
    """Return numbers that are not beyond two bounds; others fail."""
    words, low, high = x.words
    return words, (words < low) | (words > high)


def _single(narrow: bool) -> Callable[[Operands], Result]:
    """Return doubles with the digits of 32 bits; if it is `narrow`, it fails where only 64 bits
    reach so far.
    """

    def single(x: Operands) -> Result:
        value = x.floats(0)
        found = value.astype(np.float32).astype(np.float64)
        return float_words(found), np.isinf(found) & np.isfinite(value) & narrow

    return single


def _to_string(x: Operands) -> Result:
    return by_text(shown, x)


# fmt: off
define("if", "bool, alike, alike -> alike", _if, strict=False)
define("coalesce", "alike... -> alike", _coalesce, strict=False)
define("is_null", "any -> bool", _is_null, strict=False)
define("same", "alike, alike -> bool", _same, strict=False)
define("try", "any -> any", _try, strict=False)
define("and", "bool... -> bool", _junction(0), strict=False)
define("or", "bool... -> bool", _junction(1), strict=False)
define("not", "bool -> bool", lambda x: (1 - x.words[0], x.none()))
define("abs", "number -> number?", _abs, also="int:abs float:abs decimal:abs")
define("sign", "number -> int64", _sign, sql="sign -> TINYINT")
define("mod", "int64, int64 -> int64?", _mod, also="int:mod")
define("round", "number, int64? -> number?", _round, gives=rounded_type)
define("floor", "number -> number", _stepped(False), gives=whole_type)
define("ceil", "number -> number?", _stepped(True), gives=whole_type, also="ceiling")
define("trunc", "number -> int64?", _trunc, also="ftoi ftou")
define("sqrt", "float64 -> float64?", _float(np.sqrt), also="float:sqrt", sql="sqrt")
define("exp", "float64 -> float64", _float(np.exp), sql="exp")
define("ln", "float64 -> float64?", _float(np.log), also="log")
define("pow", "float64, float64 -> float64?", _float(np.power), also="float:pow", sql="pow power")
define("ratio", "float64, float64 -> float64?", _float(np.divide))
define("float:ratio", "float64, float64 -> float64",
    lambda x: (float_words(np.divide(x.floats(0), x.floats(1))), x.none()))
define("fmod", "float64, float64 -> float64",
    lambda x: (float_words(np.fmod(x.floats(0), x.floats(1))), x.none()))
define("power", "number, number -> number?", _power, gives=_powered)
define("divide", "number, number, int64 -> decimal?", _divide, gives=quotient_type)
define("in", "alike, alike... -> bool",
    lambda x: (np.any([x.words[0] == other for other in x.words[1:]], axis=0).astype(np.int64), x.none()))
define("least", "alike... -> alike", _extreme(False), also="min")
define("greatest", "alike... -> alike", _extreme(True), also="max")
for _name in ("sin", "cos", "tan", "sinh", "cosh", "tanh"):
    _inverse = getattr(np, f"arc{_name}")
    define(_name, "float64 -> float64?", _float(getattr(np, _name)), sql=_name)
    define(f"a{_name}", "float64 -> float64?", _float(_inverse), sql=f"a{_name}")
define("log10", "float64 -> float64?", _float(np.log10))
define("log2", "float64 -> float64?", _float(np.log2))
define("atan2", "float64, float64 -> float64", _float(np.arctan2), sql="atan2")
define("bit_and", "int64, int64 -> int64", lambda x: (x.words[0] & x.words[1], x.none()),
    also="band")
define("bit_or", "int64, int64 -> int64", lambda x: (x.words[0] | x.words[1], x.none()), also="bor")
define("bit_xor", "int64, int64 -> int64", lambda x: (x.words[0] ^ x.words[1], x.none()),
    also="bxor")
define("bit_not", "int64 -> int64", lambda x: (~x.words[0], x.none()), also="bnot")
define("shift_left", "int64, int64 -> int64?", _shifted(True))
define("shift_right", "int64, int64 -> int64?", _shifted(False))
define("shift_right_unsigned", "int64, int64 -> int64?", _shifted_unsigned,
    sql="text_shift_right_unsigned")
define("bshl", "int64, int64 -> int64", _shifted_around(np.left_shift, np.int64))
define("bshr", "int64, int64 -> int64", _shifted_around(np.right_shift, np.int64))
define("bshru", "int64, int64 -> int64", _shifted_around(np.right_shift, np.uint64))
define("land", "int64, int64... -> int64", _logical(np.logical_and.reduce))
define("lor", "int64, int64... -> int64", _logical(np.logical_or.reduce))
define("lxor", "int64, int64... -> int64", _logical(np.logical_xor.reduce))
define("lnot", "int64 -> int64", lambda x: ((x.words[0] == 0).astype(np.int64), x.none()))
define("int", "any -> int64?", _int, also="itou utoi float:int:convert string:int64:convert")
define("to_number", "any -> int64?", _to_number, also="to_unsigned")
define("float", "any -> float64?", reading(number, lambda x: (float_words(x.floats(0)), x.none())),
    also="to_float itof utof int:float:convert")
define("float:nearest", "float64 -> float64",
    lambda x: (float_words(np.rint(x.floats(0))), x.none()))
define("float:single", "float64 -> float64", _single(False))
define("float:narrow", "float64 -> float64?", _single(True))
define("within", "alike, alike, alike -> alike?", _within)
define("decimal", "any, int64, int64? -> decimal?", _to_decimal, gives=decimal_type)
define("string", "any -> string", _to_string, also="to_string int64:string:convert")
define("bool", "any -> bool?",
    reading(truth, lambda x: (np.where(x.floats(0) != 0, 1, 0), x.none())))
define("string:uuid", "string -> string?", partial(by_text, identifier))
define("string:whole_json", "string -> string?", partial(by_text, json_text))
define("gcd", "int64, int64 -> int64?", lambda x: (np.gcd(*x.words), np.gcd(*x.words) < 0))
define("bit_count", "int64 -> int64",
    lambda x: (np.array([int(n).bit_count() for n in x.words[0].view(np.uint64)], np.int64), x.none()))
define("$count", "alike countable, alike countable, step -> int64", _count)
define("$nth", "alike countable, alike countable, step, int64, int64, int64 -> alike countable?",
    _nth)
define("$within", "alike countable, alike countable, alike countable, step -> bool?", _is_nth)
# fmt: on
