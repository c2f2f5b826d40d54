"""Column types: their names in declarations, the types each literal can take, the result type of
each operator.

    a declaration says      int     float     boolean   date   datetime    decimal, decimal(p, s)   string
    the column's type is    int64   float64   bool      date   timestamp   decimal(18,2) or (p,s)   string

An int literal fits int64, decimal and float64; a literal like 3.50 is a decimal, and a float64 if
one is expected; 3.5e0 is always a float64.  An int literal also fits uint64, and counts
microseconds as a duration; a text fits bytes, as UTF-8; a date fits a timestamp, as midnight, and a
timestamp at midnight fits a date; a timestamp fits one with a zone, as local time.  Nothing else
converts implicitly.
"""

import operator
import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal, localcontext
from functools import cache
from math import inf, isinf
from zoneinfo import ZoneInfo

from ivm.errors import RuleTypeError, Where
from ivm.lang.ir import Const, Type, Value
from pagestore.host import WORD_MAX, WORD_MIN, YEARS

ALIASES = {
    "int": "int64", "int64": "int64", "float": "float64", "float64": "float64", "bool": "bool",
    "boolean": "bool", "date": "date", "datetime": "timestamp", "timestamp": "timestamp",
    "decimal": "decimal(18,2)", "string": "string", "bytes": "bytes", "uint64": "uint64",
    "time": "time",
    "duration": "duration",
    # of LogiQL, Soufflé and SQL; what is smaller than a word is kept in one, and held to its range
    # by a constraint
    **{f"{sign}int{size}": "int64" for sign in ("", "u") for size in ("8", "16", "32", "[8]",
    "[16]", "[32]")},
    "int[64]": "int64", "uint[64]": "uint64", "float32": "float64", "float[32]": "float64",
    "float[64]": "float64",
    "number": "int64", "unsigned": "int64", "symbol": "string", "integer": "int64",
    "bigint": "int64",
    "double": "float64",
}  # fmt: skip
LITERALS = {  # the types of literals, by the class of their values
    bool: "bool", float: "float64", str: "string", datetime: "timestamp", date: "date", time: "time",
}  # fmt: skip
RANGES = {  # the least and the greatest value of the types that are smaller than a word
    name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if name.startswith("int") else (0, 2**bits - 1)
    for bits in (8, 16, 32)
    for name in (f"int{bits}", f"int[{bits}]", f"uint{bits}", f"uint[{bits}]")
}
KNOWN = (
    "int, uint64, float, bool, date, time, datetime, `timestamp(zone)`, duration, decimal, "
    "decimal(p, s), string and bytes"
)
DIGITS_MAX = 18  # of a decimal whose word is a number
WIDE_MAX = 38  # of a decimal whose word is an id, since a word does not have its digits
LITERAL_MAX = 1000  # digits of a literal, and of the result of arithmetic on literals
UNORDERED = ("bool",)
TEXTS = "string", "bytes"
UNSIGNED_MAX = 2**64 - 1


def column_type(text: str, where: Where) -> Type:
    """Return the type that a declaration names.  Raises RuleTypeError."""
    if text in ALIASES:
        return ALIASES[text]
    digits = decimal_scale(text)
    if zone_of(text):
        return text
    if digits is None:
        raise RuleTypeError(where, f"{text} is not a type: there are {KNOWN}")
    if not digits <= precision(text) <= WIDE_MAX or precision(text) == 0:
        reason = f"decimal(p, s) needs 1 <= p <= {WIDE_MAX} and s <= p"
        raise RuleTypeError(where, f"{text} is not kept: {reason}")
    return text


def is_named(name: str) -> bool:
    """Return whether a name is that of a type, possibly without its numbers."""
    return name in ALIASES or name.startswith("timestamp(")


@cache
def zone_of(type_: Type) -> str | None:
    """Return the time zone of a timestamp type, None for types without one."""
    match = re.fullmatch(r"timestamp\(([\w+:/-]+)\)", type_, re.ASCII)
    return match and match[1]


@cache
def _decimal(type_: Type) -> tuple[int, int] | None:
    match = re.fullmatch(r"decimal\((\d+),(\d+)\)", type_)
    return (int(match[1]), int(match[2])) if match else None


@cache
def scale(type_: Type) -> int | None:
    """Return the digits after the point of a decimal type whose words are numbers, or None."""
    digits = _decimal(type_)
    return digits[1] if digits and digits[0] <= DIGITS_MAX else None


@cache
def wide_scale(type_: Type) -> int | None:
    """Return the digits after the point of a decimal type of more than 18 digits, whose words are
    ids; else None.

    >>> wide_scale("decimal(38,2)"), wide_scale("decimal(18,2)"), scale("decimal(38,2)")
    (2, None, None)
    """
    return None if scale(type_) is not None else decimal_scale(type_)


def decimal_scale(type_: Type) -> int | None:
    """Return the digits after the point of any decimal type, None for others."""
    digits = _decimal(type_)
    return digits and digits[1]


def widest(type_: Type) -> Type:
    """Return the decimal type of most digits whose words are those of a decimal type; other
    types as they are.
    """
    digits = decimal_scale(type_)
    most = DIGITS_MAX if scale(type_) is not None else WIDE_MAX
    return type_ if digits is None else f"decimal({most},{digits})"


def has_ids(type_: Type) -> bool:
    """Return whether words are ids of the dictionary, not ordered as the values: of texts and of
    long decimals.
    """
    return type_ in TEXTS or wide_scale(type_) is not None


def precision(type_: Type) -> int:
    """Return the digits of a decimal type."""
    digits = _decimal(type_)
    assert digits is not None
    return digits[0]


@cache
def word_range(type_: Type) -> tuple[int, int]:
    """Return the least and the greatest word of an ordered type: dates have years 1 to 9999,
    decimals their digits.

    >>> word_range("decimal(3,1)")
    (-999, 999)
    """
    if type_ in YEARS:
        return YEARS[type_]
    if scale(type_) is not None:
        return 1 - 10 ** precision(type_), 10 ** precision(type_) - 1
    return WORD_MIN, WORD_MAX


def ends(type_: Type) -> tuple[Value, Value]:
    """Return the least and the greatest value of an ordered type.

    >>> ends("decimal(3,1)")
    (Decimal('-99.9'), Decimal('99.9'))
    """
    if type_ == "date":
        return date.min, date.max
    if type_ == "timestamp":
        return datetime.min, datetime.max
    least, greatest = word_range(type_)
    digits = scale(type_)
    if digits is None:
        return (least, greatest)
    return (Decimal(least).scaleb(-digits), Decimal(greatest).scaleb(-digits))


def shown(word: int, type_: Type) -> str:
    """Return a word as text, even if it is out of range for its type.

    >>> shown(1234, "decimal(3,1)"), shown(2932897, "date")
    ('123.4', 'day 2932897 from 1970-01-01')
    """
    digits = scale(type_)
    if digits is not None:
        with localcontext(prec=1000):
            return f"{Decimal(word).scaleb(-digits):f}"
    unit = {"date": "day ", "timestamp": "microsecond "}.get(type_)
    return f"{unit}{word} from 1970-01-01" if unit else str(word)


def common(a: Type, b: Type) -> Type | None:
    """Return the type of a variable in columns of both types, or None: decimals need only agree
    in scale, and words.
    """
    if a == b:
        return a
    if (
        decimal_scale(a) is not None
        and decimal_scale(a) == decimal_scale(b)
        and has_ids(a) == has_ids(b)
    ):
        return max(a, b, key=precision)
    return None


def is_flexible(const: Const) -> bool:
    """Return whether the literal takes the type of its context."""
    return const.type == "int64" or decimal_scale(const.type) is not None


def adapt(const: Const, type_: Type) -> Const:
    """Convert the literal to the wanted type. Raises RuleTypeError if it lacks the value."""
    value, digits = const.value, decimal_scale(type_)
    if value is None:
        return Const(None, type_, where=const.where)
    if common(const.type, type_) is None or digits is not None:
        value = _converted(const, type_)
    least, most = (0, UNSIGNED_MAX) if type_ == "uint64" else (WORD_MIN, WORD_MAX)
    if isinstance(value, int) and not least <= value <= most:
        raise RuleTypeError(
            const.where, f"{value} does not fit {'uint64' if type_ == 'uint64' else '64 bits'}"
        )
    return Const(value, type_, where=const.where)


def stands_for_null(const: Const) -> bool:
    """Return whether a value has the encoding of null, so that no nullable column can hold it."""
    value = (
        const.value // timedelta(microseconds=1)
        if isinstance(const.value, timedelta)
        else const.value
    )
    return const.type in ("int64", "duration") and value == WORD_MIN


def takes(const: Const, type_: Type) -> bool:
    """Return whether a literal that is not flexible fits a type.

    A text fits bytes, a timestamp one with a zone, a date a timestamp (midnight), a timestamp at
    midnight a date."""
    if const.type == "timestamp" and isinstance(const.value, datetime) and type_ == "date":
        return const.value.time() == time.min
    return (const.type, type_) in (("string", "bytes"), ("date", "timestamp")) or (
        const.type == "timestamp" and zone_of(type_) is not None
    )


def _converted(const: Const, type_: Type) -> Value:
    value, digits = const.value, decimal_scale(type_)
    if isinstance(value, str) and takes(const, type_):
        return value.encode()
    if isinstance(value, datetime) and takes(const, type_):
        return value.date() if type_ == "date" else _in_zone(value, type_, const.where)
    if isinstance(value, date) and takes(const, type_):
        return datetime.combine(value, time.min)
    if const.type == "int64" and isinstance(value, int) and type_ == "uint64":
        return value
    if const.type == "int64" and isinstance(value, int) and type_ == "duration":
        if not WORD_MIN <= value <= WORD_MAX:
            raise RuleTypeError(const.where, f"{value} microseconds are more than a duration holds")
        return timedelta(microseconds=value)
    if not is_flexible(const) or not isinstance(value, int | Decimal):
        raise _misfit(const, type_)
    if type_ == "float64":
        return _as_float(value, const.where)
    if digits is None:
        raise _misfit(const, type_)
    value = Decimal(value)
    if value.copy_abs() >= Decimal(10) ** (precision(type_) - digits):
        raise RuleTypeError(const.where, f"{value} has more digits before the point than {type_}")
    rounded = value.quantize(Decimal(1).scaleb(-digits), context=Context(prec=LITERAL_MAX))
    if rounded != value:
        raise RuleTypeError(const.where, f"{value} has more digits after the point than {type_}")
    return rounded


def zone_named(name: str, where: Where) -> tzinfo:
    """Return a time zone by its name, or its offset as +02:00.  Raises RuleTypeError."""
    try:
        offset = re.fullmatch(r"([+-])(\d\d):(\d\d)", name)
        minutes = offset and int(f"{offset[1]}1") * (60 * int(offset[2]) + int(offset[3]))
        return ZoneInfo(name) if minutes is None else timezone(timedelta(minutes=minutes))
    except (KeyError, ValueError, OSError):
        reason = f"{name} is not a time zone that this machine knows"
        raise RuleTypeError(where, reason) from None


def _in_zone(value: datetime, type_: Type, where: Where) -> datetime:
    """Convert a local time to a moment, the first if it is ambiguous.  Raises RuleTypeError if
    it does not exist.
    """
    name = zone_of(type_) or ""
    zone = zone_named(name, where)
    try:
        moment = value.replace(tzinfo=zone)
        there = moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == value
    except OverflowError as error:
        raise RuleTypeError(where, f"{value} in the time zone {name}: {error}") from None
    if not there:
        raise RuleTypeError(where, f"the clocks of {name} leave {value} out")
    return moment


def _as_float(value: int | Decimal, where: Where) -> float:
    try:
        number = float(value)
    except OverflowError:  # raised for an int; a decimal becomes inf
        number = inf
    if isinf(number):
        raise RuleTypeError(where, f"{value} is beyond the range of float64")
    return number


def _misfit(const: Const, type_: Type) -> RuleTypeError:
    shown = f'"{const.value}"' if isinstance(const.value, str) else str(const.value)
    hint = how_written(type_)
    shown = shown.lower() if const.type == "bool" else shown
    return RuleTypeError(
        const.where, f"{shown} is of type {const.type}, where {type_} is wanted{hint}"
    )


def how_written(type_: Type) -> str:
    """Return the end of an error message on how dates, times and timestamps are written; "" for
    other types.

    >>> how_written("date"), how_written("int64")
    ('; a date is written #2013-01-31#', '')
    """
    texts = {"date": "#2013-01-31#", "time": "#17:05:00#", "timestamp": "#2013-01-31 17:05:00#"}
    text = texts.get("timestamp" if zone_of(type_) else type_)
    return f"; a {type_} is written {text}" if text else ""


def folded(op: str, left: Const, right: Const, where: Where) -> Const | None:
    """Return `left op right` as a literal, exact; None if none holds it, as a quotient."""
    a, b = left.value, right.value
    if (
        not (is_flexible(left) and is_flexible(right))
        or not isinstance(a, int | Decimal)
        or b is None
    ):
        return None
    if op == "/":
        if not (isinstance(a, int) and isinstance(b, int) and b):
            return None
        return Const(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), "int64", where=where)
    with localcontext(prec=LITERAL_MAX):
        value = {"+": operator.add, "-": operator.sub, "*": operator.mul}[op](a, b)
    if abs(value) >= 10**LITERAL_MAX:
        raise RuleTypeError(
            where, f"the literals make a number of more than {LITERAL_MAX:,} digits"
        )
    if isinstance(value, int):
        return Const(value, "int64", where=where)
    return Const(value, f"decimal({DIGITS_MAX},{-value.as_tuple().exponent})", where=where)


def arithmetic(op: str, left: Type, right: Type) -> Type | None:
    """Return the type of `left op right`, or None if there is no such operation.

    Int division truncates towards zero; a quotient of decimals is a float.  Dates differ by days,
    timestamps by microseconds.
    """
    if left == right and left in ("int64", "float64"):
        return left
    if left in ("date", "timestamp") or right in ("date", "timestamp"):
        return _moment(op, left, right)
    return _decimals(op, left, right)


def _moment(op: str, left: Type, right: Type) -> Type | None:
    if op == "-" and left == right:
        return "int64"
    if op in "+-" and right == "int64":
        return left
    return right if op == "+" and left == "int64" else None


def _decimals(op: str, left: Type, right: Type) -> Type | None:
    scales = scale(left), scale(right)
    if (
        op == "/"
        and scales != (None, None)
        and all(s is not None or t == "int64" for s, t in zip(scales, (left, right), strict=True))
    ):
        return "float64"
    if op in "+-" and None not in scales and scales[0] == scales[1]:
        return f"decimal({DIGITS_MAX},{scales[0]})"
    if op != "*" or any(
        s is None and t != "int64" for s, t in zip(scales, (left, right), strict=True)
    ):
        return None
    digits = (scales[0] or 0) + (scales[1] or 0)
    return f"decimal({DIGITS_MAX},{digits})" if digits <= DIGITS_MAX else None
