"""Functions of terms over decimals of more than 18 digits, whose words are ids of the dictionary.

    decimal:add["9999999999999999999.5", 0.50] = 10000000000000000000.0       decimal["1e20", 2, 38] has 38 digits
    decimal:part[x, 0], ..., decimal:part[x, 3]      32 bits each, the last with the sign; sums of them are int64
    decimal:part[y, 0], decimal:part[y, 1]           the same of a number of one word
    decimal:joined[2, a, b, c, d]                    (a + 2^32 b + 2^64 c + 2^96 d) / 10^2

Each is computed once for each distinct combination of arguments, exactly; what has more than 38
digits fails.
"""

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

from ivm.lang.types import WIDE_MAX, decimal_scale, precision, wide_scale
from ivm.terms.operands import Operands, Result, by_text
from ivm.terms.readings import EXACT, exact

MASK = (1 << 32) - 1


def is_long(x: Operands) -> bool:
    """Return whether an argument or the result of a function is a decimal of more than 18
    digits.
    """
    return any(wide_scale(type_) is not None for type_ in (*x.types, x.gives))


def _by_value(function: Callable[..., Any]) -> Callable[[Operands], Result]:
    return lambda x: by_text(_fitting(function, x.gives), x)


def _fitting(function: Callable[..., Any], gives: str) -> Callable[..., Any]:
    """Return a function whose results are of a type: halves are rounded away from zero;
    ValueError if one is not.
    """
    digits = decimal_scale(gives)

    def fitting(*args: Any) -> Any:
        found = function(*args)
        if digits is not None:
            return checked(found, digits, precision(gives))
        return found

    return fitting


def checked(value: Any, digits: int, most: int = WIDE_MAX) -> Decimal:
    """Return a number with so many digits after the point, halves rounded away from zero.

    Raises ValueError if it has more than `most` digits then.

    >>> checked(Decimal("-1.25"), 1)
    Decimal('-1.3')
    """
    given = Decimal(value) if not isinstance(value, Decimal) else value
    if not given.is_finite():
        raise ValueError
    found = given.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, EXACT)
    if found.copy_abs() >= Decimal(10) ** (most - digits):
        raise ValueError
    return found


def as_decimal(value: Any, digits: int, *_: int) -> Decimal:
    """Return a number or a text as a decimal; a float times 10^digits is a float, as in DuckDB."""
    if isinstance(value, float):
        return (
            Decimal(value * 10.0**digits)
            .quantize(Decimal(1), ROUND_HALF_UP, EXACT)
            .scaleb(-digits, EXACT)
        )
    return exact(value) if isinstance(value, str) else Decimal(value)


def _whole(value: Any) -> int:
    return int(as_decimal(value, 0).quantize(Decimal(1), ROUND_HALF_UP, EXACT))


def _rounded(value: Decimal, places: int = 0) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, EXACT)


def _quotient(a: Any, b: Any) -> int:
    """Return a quotient cut after the point.  Raises ValueError for a division by zero."""
    if not b:
        raise ValueError
    size, unit = (Decimal(one).copy_abs() for one in (a, b))
    whole = int(EXACT.divide_int(size, unit))
    return whole if (a < 0) == (b < 0) else -whole


def _remainder(a: Any, b: Any) -> Decimal:
    if not b:
        raise ValueError
    return EXACT.remainder(Decimal(a), Decimal(b))


def _divided(a: Any, b: Any, _: int) -> Decimal:
    if not b:
        raise ValueError
    return EXACT.divide(Decimal(a), Decimal(b))


def _part(x: Operands) -> Result:
    """Return 32 bits of each number times 10^scale, the highest part with the sign."""
    words, place = x.words
    if wide_scale(x.types[0]) is None:
        return np.where(place == 0, words & MASK, words >> 32), x.none()
    digits = wide_scale(x.types[0]) or 0

    def part(value: Decimal, number: int) -> int:
        units = int(value.scaleb(digits, EXACT))
        return units >> 96 if number > 2 else units >> 32 * max(number, 0) & MASK

    return by_text(part, x)


def _joined(x: Operands) -> Result:
    digits = decimal_scale(x.gives) or 0

    def joined(_: int, *parts: int) -> Decimal:
        units = sum(part << 32 * place for place, part in enumerate(parts))
        if abs(units) >= 10**WIDE_MAX:
            raise ValueError
        return Decimal(units).scaleb(-digits, EXACT)

    return by_text(joined, x)


DECIMAL_FUNCTIONS: dict[str, Callable[[Operands], Result]] = {
    "decimal:add": _by_value(lambda a, b: EXACT.add(a, b)),
    "decimal:subtract": _by_value(lambda a, b: EXACT.subtract(a, b)),
    "decimal:multiply": _by_value(lambda a, b: EXACT.multiply(a, b)),
    "decimal:quotient": _by_value(_quotient),
    "decimal:mod": _by_value(_remainder),
    "decimal:part": _part,
    "decimal:joined": _joined,
}
_BY_VALUE: dict[str, Callable[..., Any]] = {
    "decimal": as_decimal,
    "int": _whole,
    "to_number": int,
    "trunc": int,
    "float": float,
    "abs": Decimal.copy_abs,  # `abs` rounds to 28 digits
    "sign": lambda value: (value > 0) - (value < 0),
    "round": _rounded,
    "floor": lambda value: value.quantize(Decimal(1), ROUND_FLOOR, EXACT),
    "ceil": lambda value: value.quantize(Decimal(1), ROUND_CEILING, EXACT),
    "power": lambda a, b: float(a) ** float(b),
    "divide": _divided,
}
# where one takes or gives a long decimal
LONG = {name: _by_value(function) for name, function in _BY_VALUE.items()}
