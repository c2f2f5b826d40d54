"""Functions of terms over batches: words in, words out.

Numbers, dates and truth values are computed on columns of words. Texts are computed once for each distinct combination
of arguments, and the results are interned together.  What fails has a mask; its word is arbitrary.  Where an argument
is null the result is null, which the caller sees to, except for the functions in CHOICES.
"""

import hashlib
import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ivm.lang.ir import Type
from ivm.lang.types import DIGITS_MAX, TEXTS, scale, word_range
from pagestore.host import NULL, WORD_MAX, WORD_MIN, float_values, float_words

DAY = 86_400_000_000  # microseconds
Mask = np.ndarray | None  # bool[n]; None if it is False everywhere
Codes = np.ndarray | None


class Operands(NamedTuple):
    """The arguments of a function in n bindings: words int64[n] and where they are null, their types, the result's."""

    n: int
    words: list[np.ndarray]
    nulls: list[Mask]
    types: tuple[Type, ...]
    gives: Type
    encode: Any  # plan/expression.py's Encoder

    def only(self, which: np.ndarray) -> "Operands":
        """Return the bindings that a mask bool[n] chooses, in which no argument is null."""
        return self._replace(n=int(which.sum()), words=[w[which] for w in self.words], nulls=[None] * len(self.words))

    def floats(self, place: int) -> np.ndarray:
        """Return an argument's values as float64[n]."""
        return as_floats(self.words[place], self.types[place])

    def values(self, place: int) -> list[Any]:
        """Return an argument's values as objects of Python."""
        found: list[Any] = self.encode.decode(self.types[place], self.words[place]).to_pylist()
        return found

    def none(self) -> np.ndarray:
        """Return that nothing fails, bool[n]."""
        return np.zeros(self.n, bool)


def as_floats(words: np.ndarray, type_: Type) -> np.ndarray:
    """Return the values of numbers as float64[n]."""
    if type_ == "float64":
        return float_values(words)
    digits = scale(type_)
    return words.astype(np.float64) if not digits else words / 10.0**digits


def evaluate(name: str, operands: Operands, null: Mask = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the words int64[n] of a function's results, arbitrary where it is `null`, and where it fails, bool[n]."""
    if null is not None:
        words, fails = np.zeros(operands.n, np.int64), operands.none()
        if not null.all():
            words[~null], fails[~null] = evaluate(name, operands.only(~null))
        return words, fails
    if name in TEXT_FUNCTIONS:
        return _by_text(TEXT_FUNCTIONS[name], operands)
    with np.errstate(all="ignore"):
        return NUMERIC[name](operands)


# -- choices: what may have a value though an argument is null


def _no_codes(codes: list[Codes], n: int) -> list[np.ndarray]:
    return [np.zeros(n, np.int64) if one is None else one for one in codes]


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
    for place, (words, code) in enumerate(zip(operands.words, _no_codes(codes, operands.n), strict=True)):
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


def _junction(deciding: int) -> Callable[[Operands, list[Codes]], tuple[np.ndarray, Codes]]:
    """Return `and` (0 decides) or `or` (1 decides) in three values.  A term that fails decides nothing."""

    def junction(operands: Operands, codes: list[Codes]) -> tuple[np.ndarray, Codes]:
        n = operands.n
        decided, null, failed = np.zeros(n, bool), np.zeros(n, bool), np.zeros(n, np.int64)
        for place, (words, code) in enumerate(zip(operands.words, _no_codes(codes, n), strict=True)):
            own = _nulls(operands, place)
            decided |= ~own & (words == deciding) & (code == 0)
            null |= own
            failed = np.where(failed != 0, failed, code)
        words = np.where(decided, deciding, np.where(null, NULL, 1 - deciding))
        return words, _joined(np.where(decided, 0, failed))

    return junction


CHOICES: dict[str, Callable[[Operands, list[Codes]], tuple[np.ndarray, Codes]]] = {
    "if": _if, "coalesce": _coalesce, "is_null": _is_null, "same": _same, "and": _junction(0), "or": _junction(1),
}  # fmt: skip


# -- numbers


def _abs(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    if x.types[0] == "float64":
        return float_words(np.abs(x.floats(0))), x.none()
    return np.abs(x.words[0]), x.words[0] == WORD_MIN


def _sign(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    return np.sign(x.floats(0)).astype(np.int64), x.none()


def _mod(x: Operands) -> tuple[np.ndarray, np.ndarray]:
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


def _round(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    places = x.words[1] if len(x.words) > 1 else np.zeros(x.n, np.int64)
    digits = scale(x.types[0])
    if x.types[0] == "float64":
        power = 10.0 ** np.abs(places)
        value = x.floats(0)
        up = np.where(places < 0, value / power, value * power)
        whole = np.trunc(up) + np.sign(up) * (np.abs(up - np.trunc(up)) >= 0.5)
        found = np.where(places < 0, whole * power, whole / power)
        near = np.abs(np.abs(up - np.trunc(up)) - 0.5) < 1e-9 * np.maximum(1.0, np.abs(up))
        for i in np.flatnonzero(near & np.isfinite(value)).tolist():  # the product may have rounded a half
            found[i] = float(_quantized(Decimal(float(value[i])), int(places[i])))
        return float_words(np.where(np.isfinite(found), found, value)), x.none()
    place = int(places[0]) if x.n else 0
    less = (digits or 0) - max(0, min(place, digits or 0))
    words = _rounded_words(x.words[0], less) if less else x.words[0]
    if place < 0:
        whole = _rounded_words(words, -place)
        unit, most = 10 ** min(-place, DIGITS_MAX), word_range(x.gives)[1]
        fails = np.abs(whole) > most // unit
        return np.where(fails, 0, whole) * unit, fails
    return words, x.none()


def _stepped(up: bool) -> Callable[[Operands], tuple[np.ndarray, np.ndarray]]:
    def stepped(x: Operands) -> tuple[np.ndarray, np.ndarray]:
        if x.types[0] == "float64":
            return float_words((np.ceil if up else np.floor)(x.floats(0))), x.none()
        unit = 10 ** (scale(x.types[0]) or 0)
        return -(-x.words[0] // unit) if up else x.words[0] // unit, x.none()

    return stepped


def _shifted(left: bool) -> Callable[[Operands], tuple[np.ndarray, np.ndarray]]:
    def shifted(x: Operands) -> tuple[np.ndarray, np.ndarray]:
        words, by = x.words
        fails = (by < 0) | (by > 63)
        by = np.where(fails, 0, by)
        if not left:
            return np.right_shift(words, by), fails
        found = np.left_shift(words, by)
        return found, fails | (np.right_shift(found, by) != words)

    return shifted


def _power(x: Operands) -> tuple[np.ndarray, np.ndarray]:
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


def _divide(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    """Return decimal quotients, halves rounded away from zero, by integers of any size."""
    power = (scale(x.gives) or 0) - (scale(x.types[0]) or 0) + (scale(x.types[1]) or 0)
    left, right = (words.astype(object) for words in x.words[:2])
    fails = x.words[1] == 0
    over, under = abs(left) * 10 ** max(0, power), abs(np.where(fails, 1, right)) * 10 ** max(0, -power)
    sizes = (2 * over + under) // (2 * under)
    fails |= (sizes > word_range(x.gives)[1]).astype(bool)
    signs = np.where((x.words[0] < 0) == (x.words[1] < 0), 1, -1)
    return np.where(fails, 0, sizes).astype(np.int64) * signs, fails


def _extreme(greatest: bool) -> Callable[[Operands], tuple[np.ndarray, np.ndarray]]:
    """Return the least or the greatest of arguments of one type; texts by their order, not by their words."""

    def extreme(x: Operands) -> tuple[np.ndarray, np.ndarray]:
        texts = x.types[0] in TEXTS
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


def _float(operate: Callable[..., Any]) -> Callable[[Operands], tuple[np.ndarray, np.ndarray]]:
    def floats(x: Operands) -> tuple[np.ndarray, np.ndarray]:
        found = operate(*(x.floats(n) for n in range(len(x.words))))
        nan = np.isnan(found)
        return float_words(np.where(nan, 0.0, found)), nan

    return floats


# -- conversions


def _int(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    type_, words = x.types[0], x.words[0]
    if type_ in TEXTS:
        return _by_text(_int_of_text, x)
    if type_ == "float64":
        found = np.rint(x.floats(0))
        fails = ~((found >= -(2.0**63)) & (found < 2.0**63))
        return np.where(fails, 0, found).astype(np.int64), fails
    digits = scale(type_)
    return (_rounded_words(words, digits) if digits else words), x.none()


def _to_float(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    if x.types[0] in TEXTS:
        return _by_text(lambda text: float(text.strip()), x)
    return float_words(x.floats(0)), x.none()


def _to_decimal(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    wanted, own, words = scale(x.gives) or 0, scale(x.types[0]), x.words[0]
    if x.types[0] in TEXTS:
        return _by_text(lambda text, places: _quantized(Decimal(text.strip()), places), x)
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
    return value.quantize(Decimal(1).scaleb(-places), rounding="ROUND_HALF_UP")


def _int_of_text(text: str) -> int:
    found = int(Decimal(text.strip()).quantize(Decimal(1), rounding="ROUND_HALF_UP"))
    if not WORD_MIN <= found <= WORD_MAX:
        raise ValueError
    return found


def _to_date(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    if x.types[0] in TEXTS:
        return _by_text(lambda text: date.fromisoformat(text.strip()), x)
    return x.words[0] // DAY if x.types[0] != "date" else x.words[0], x.none()


def _to_datetime(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    if x.types[0] in TEXTS:
        return _by_text(lambda text: datetime.fromisoformat(text.strip()), x)
    return x.words[0] * DAY if x.types[0] == "date" else x.words[0], x.none()


def _to_string(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    return _by_text(shown, x)


def shown(value: Any) -> str:
    """Return a value as SQL shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return text.rstrip("0") if "." in text else text
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return value.decode()
    return str(value)


# -- dates and times


def _moments(x: Operands) -> np.ndarray:
    """Return the first argument as datetime64[us][n]."""
    words = x.words[0] * DAY if x.types[0] == "date" else x.words[0]
    return words.view("datetime64[us]")


def _part(name: str) -> Callable[[Operands], tuple[np.ndarray, np.ndarray]]:
    def part(x: Operands) -> tuple[np.ndarray, np.ndarray]:
        import pyarrow as pa
        import pyarrow.compute as pc

        moments = pa.array(_moments(x))
        if name == "weekday":  # 0 is Sunday
            found = pc.day_of_week(moments, count_from_zero=True, week_start=7)  # type: ignore[attr-defined,unused-ignore]
        elif name == "isoweekday":
            found = pc.day_of_week(moments, count_from_zero=False, week_start=1)  # type: ignore[attr-defined,unused-ignore]
        elif name == "epoch":
            return np.floor_divide(_moments(x).view(np.int64), 1_000_000), x.none()
        else:
            own = {"week": "iso_week", "yearday": "day_of_year"}.get(name, name)
            found = getattr(pc, own)(moments)
        return found.to_numpy(zero_copy_only=False).astype(np.int64), x.none()

    return part


def _truncate(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    units = x.values(1)
    found, fails = np.zeros(x.n, np.int64), x.none()
    moments = _moments(x)
    for unit in set(units):
        chosen = np.array([one == unit for one in units])
        words = _truncated(moments[chosen], unit)
        if words is None:
            fails |= chosen
        else:
            found[chosen] = words
    return found, fails


def _truncated(moments: np.ndarray, unit: str) -> np.ndarray | None:
    short = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s"}.get(unit.lower())
    if short:
        return moments.astype(f"datetime64[{short}]").astype("datetime64[us]").view(np.int64)
    if unit.lower() == "week":  # begins on Monday; the epoch was a Thursday
        days = moments.astype("datetime64[D]").view(np.int64)
        found: np.ndarray = (days - (days + 3) % 7) * DAY
        return found
    if unit.lower() in ("quarter", "decade", "century"):
        months = {"quarter": 3, "decade": 120, "century": 1200}[unit.lower()]
        count = moments.astype("datetime64[M]").view(np.int64)
        first = count - (count + 1970 * 12) % months
        return first.view("datetime64[M]").astype("datetime64[us]").view(np.int64)
    return None


def _add_months(x: Operands) -> tuple[np.ndarray, np.ndarray]:
    moments, more = _moments(x), x.words[1]
    month = moments.astype("datetime64[M]")
    day = (moments.astype("datetime64[D]") - month.astype("datetime64[D]")).view(np.int64)
    time = moments.view(np.int64) - moments.astype("datetime64[D]").view(np.int64) * DAY
    fails = np.abs(more) > 120_000
    later = (month.view(np.int64) + np.where(fails, 0, more)).view("datetime64[M]")
    length = ((later + 1).astype("datetime64[D]") - later.astype("datetime64[D]")).view(np.int64)
    days = later.astype("datetime64[D]").view(np.int64) + np.minimum(day, length - 1)
    fails |= (later < np.datetime64("0001-01")) | (later > np.datetime64("9999-12"))
    return (days if x.types[0] == "date" else days * DAY + time), fails


# -- texts


def _by_text(function: Callable[..., Any], x: Operands) -> tuple[np.ndarray, np.ndarray]:
    """Evaluate a function of Python once for each distinct combination of arguments."""
    rows = np.stack(x.words) if x.words else np.zeros((0, x.n), np.int64)
    distinct, inverse = np.unique(rows, axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    columns = [x._replace(words=list(distinct)).values(n) for n in range(len(x.words))]
    found, fails = list[Any](), np.zeros(distinct.shape[1], bool)
    for place, row in enumerate(zip(*columns, strict=True)):
        try:
            found.append(function(*(v.decode() if isinstance(v, bytes) else v for v in row)))
        except (ValueError, InvalidOperation, OverflowError):
            found.append(None)
            fails[place] = True
    kept = [one for one, fail in zip(found, fails.tolist(), strict=True) if not fail]
    words = np.zeros(distinct.shape[1], np.int64)
    if kept:
        words[~fails] = x.encode.words(x.gives, kept)
    return words[inverse], fails[inverse]


def _substring(text: str, start: int, length: int | None = None) -> str:
    """Return a part of a text, counted from 1, or from its end if `start` is negative."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    if start == 0 and length is not None:
        length -= 1
    if length is None:
        return text[max(0, begin) :]
    if length < 0:
        begin, length = begin + length, -length
    return text[max(0, begin) : max(0, begin + length)]


def _right(text: str, count: int) -> str:
    return text[max(0, len(text) - count) :] if count >= 0 else text[-count:]


def _pad(text: str, count: int, filling: str, left: bool) -> str:
    if count <= len(text):
        return text[: max(0, count)]
    if not filling:
        raise ValueError
    more = (filling * count)[: count - len(text)]
    return more + text if left else text + more


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


@lru_cache(maxsize=256)
def _pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile("".join({"%": ".*", "_": "."}.get(c) or re.escape(c) for c in pattern), re.DOTALL | flags)


def _split_part(text: str, separator: str, number: int) -> str:
    """Return the part of a text with a number from 1, or from the end below 0; empty if it has fewer."""
    parts = text.split(separator) if separator else [text]
    if not number:
        raise ValueError
    return parts[number - 1 if number > 0 else number] if -len(parts) <= number <= len(parts) else ""


def _refused() -> str:
    raise ValueError


TEXT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string:length": len,
    "string:lower": str.lower,
    "string:upper": str.upper,
    "string:reverse": lambda text: text[::-1],
    "string:trim": lambda text, letters=" ": text.strip(letters),
    "string:ltrim": lambda text, letters=" ": text.lstrip(letters),
    "string:rtrim": lambda text, letters=" ": text.rstrip(letters),
    "string:concat": lambda *texts: "".join(texts),
    "string:substring": _substring,
    "string:left": lambda text, count: text[:count],
    "string:right": _right,
    "string:lpad": lambda text, count, filling: _pad(text, count, filling, True),
    "string:rpad": lambda text, count, filling: _pad(text, count, filling, False),
    "string:replace": _replace,
    "string:repeat": lambda text, count: text * max(0, count),
    "string:position": lambda text, part: text.find(part) + 1,
    "string:starts_with": str.startswith,
    "string:ends_with": str.endswith,
    "string:contains": lambda text, part: part in text,
    "string:like": lambda text, pattern: _pattern(pattern).fullmatch(text) is not None,
    "string:ilike": lambda text, pattern: _pattern(pattern, re.IGNORECASE).fullmatch(text) is not None,
    "string:split_part": _split_part,
    "string:ord": lambda text: ord(text[:1] or _refused()),
    "string:chr": lambda code: chr(code).encode().decode(),
    "string:sha256": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "string:md5": lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
}
NUMERIC: dict[str, Callable[[Operands], tuple[np.ndarray, np.ndarray]]] = {
    "not": lambda x: (1 - x.words[0], x.none()),
    "abs": _abs,
    "sign": _sign,
    "mod": _mod,
    "round": _round,
    "floor": _stepped(False),
    "ceil": _stepped(True),
    "sqrt": _float(np.sqrt),
    "exp": _float(np.exp),
    "ln": _float(np.log),
    "pow": _float(np.power),
    "ratio": _float(np.divide),
    "power": _power,
    "divide": _divide,
    "in": lambda x: (np.any([x.words[0] == other for other in x.words[1:]], axis=0).astype(np.int64), x.none()),
    "least": _extreme(False),
    "greatest": _extreme(True),
    **{name: _float(getattr(np, name)) for name in ("log10", "log2", "sin", "cos", "tan")},
    "asin": _float(np.arcsin),
    "acos": _float(np.arccos),
    "atan": _float(np.arctan),
    "atan2": _float(np.arctan2),
    "bit_and": lambda x: (x.words[0] & x.words[1], x.none()),
    "bit_or": lambda x: (x.words[0] | x.words[1], x.none()),
    "bit_xor": lambda x: (x.words[0] ^ x.words[1], x.none()),
    "bit_not": lambda x: (~x.words[0], x.none()),
    "shift_left": _shifted(True),
    "shift_right": _shifted(False),
    "int": _int,
    "float": _to_float,
    "decimal": _to_decimal,
    "string": _to_string,
    "date": _to_date,
    "datetime": _to_datetime,
    "datetime:truncate": _truncate,
    "datetime:add_months": _add_months,
    **{
        f"datetime:{name}": _part(name)
        for name in (
            "year", "month", "day", "hour", "minute", "second", "quarter", "week", "weekday", "isoweekday", "yearday",
            "epoch",
        )
    },
}  # fmt: skip
