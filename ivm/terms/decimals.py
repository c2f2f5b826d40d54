"""Functions of terms over decimals of more than 18 digits, whose words are ids of the dictionary.

    decimal:add["9999999999999999999.5", 0.50] = 10000000000000000000.0       decimal["1e20", 2, 38] has 38 digits
    decimal:part[x, 0], ..., decimal:part[x, 3]      32 bits each, the last with the sign; sums of them are int64
    decimal:part[y, 0], decimal:part[y, 1]           the same of a number of one word
    decimal:joined[2, a, b, c, d]                    (a + 2^32 b + 2^64 c + 2^96 d) / 10^2

Each is computed once for each distinct combination of arguments, exactly; what has more than 38
digits fails.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np

from ivm.lang.functions import define
from ivm.lang.ir import Const, Type
from ivm.lang.types import DIGITS_MAX, WIDE_MAX, decimal_scale, precision, scale, wide_scale, widest
from ivm.terms.operands import Operands, Result, by_text
from ivm.terms.readings import EXACT, exact

MASK = (1 << 32) - 1


def is_long(x: Operands) -> bool:
    """Return whether an argument or the result of a function is a decimal of over 18 digits."""
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
        return checked(found, digits, precision(gives)) if digits is not None else found

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


# -- types of results, by the types of the arguments and those that are constants


def rounded_type(types: Sequence[Type], constants: Sequence[Const | None]) -> Type:
    """Return the type of a number that is rounded to so many digits."""
    digits = decimal_scale(types[0])
    if digits is None:
        return types[0]
    return widest(_of_scale(types[0], max(0, min(_digits(constants), digits))))


def whole_type(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    """Return the type of a number without digits after the point."""
    return widest(_of_scale(types[0], 0))


def _of_scale(type_: Type, digits: int) -> Type:
    """Return the decimal type of as many words as another with so many digits after the point;
    others as they are.
    """
    if decimal_scale(type_) is None:
        return type_
    return f"decimal({WIDE_MAX if scale(type_) is None else DIGITS_MAX},{digits})"


def decimal_type(_types: Sequence[Type], constants: Sequence[Const | None]) -> Type:
    """Return the decimal type with so many digits after the point, of 18 or 38 digits."""
    most = constants[2].value if len(constants) > 2 and constants[2] is not None else DIGITS_MAX
    most = most if isinstance(most, int) and DIGITS_MAX <= most <= WIDE_MAX else DIGITS_MAX
    return f"decimal({most},{max(0, min(_digits(constants), most))})"


def _sum_type(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    return f"decimal({WIDE_MAX},{max(decimal_scale(type_) or 0 for type_ in types)})"


def _product_type(types: Sequence[Type], _: Sequence[Const | None]) -> Type:
    return f"decimal({WIDE_MAX},{min(sum(decimal_scale(type_) or 0 for type_ in types), WIDE_MAX)})"


def _joined_type(_: Sequence[Type], constants: Sequence[Const | None]) -> Type:
    value = constants[0].value if constants[0] is not None else 0
    return f"decimal({WIDE_MAX},{max(0, min(value, WIDE_MAX)) if isinstance(value, int) else 0})"


def quotient_type(types: Sequence[Type], constants: Sequence[Const | None]) -> Type:
    """Return the decimal type of a quotient with so many digits after the point."""
    most = WIDE_MAX if any(wide_scale(type_) is not None for type_ in types) else DIGITS_MAX
    return f"decimal({most},{max(0, min(_digits(constants[1:]), most))})"


def _digits(constants: Sequence[Const | None]) -> int:
    """Return the second argument, a constant number of digits; 0 if there is none."""
    value = constants[1].value if len(constants) > 1 and constants[1] is not None else 0
    return value if isinstance(value, int) else 0


# fmt: off
define("decimal:add", "exact number, exact number -> decimal?",
    _by_value(lambda a, b: EXACT.add(a, b)), gives=_sum_type)
define("decimal:subtract", "exact number, exact number -> decimal?",
    _by_value(lambda a, b: EXACT.subtract(a, b)), gives=_sum_type)
define("decimal:multiply", "exact number, exact number -> decimal?",
    _by_value(lambda a, b: EXACT.multiply(a, b)), gives=_product_type)
define("decimal:quotient", "exact number, exact number -> decimal(38,0)?", _by_value(_quotient))
define("decimal:mod", "exact number, exact number -> decimal?", _by_value(_remainder),
    gives=_sum_type)
define("decimal:part", "exact number, int64 -> int64", _part)
define("decimal:joined", "int64, int64... -> decimal?", _joined, gives=_joined_type)
# fmt: on
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
