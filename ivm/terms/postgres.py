"""Numbers and texts as PostgreSQL has them: arithmetic of floats that fails beyond their range, and how
numbers are written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from ivm.lang.functions import define
from ivm.terms.operands import Operands, Result, by_value, no_value
from pagestore.host import float_words


def _ranged(operate: Callable[..., Any], zeros: int | None) -> Callable[[Operands], Result]:
    """Return arithmetic of floats that fails where finite numbers have no finite result, or one
    of 0 though none of the first so many is 0; None if 0 is always right.
    """

    def ranged(x: Operands) -> Result:
        given = [x.floats(n) for n in range(len(x.words))]
        result = operate(*given)
        known = ~np.logical_or.reduce([np.isnan(value) for value in given])
        lost = np.isinf(result)
        if zeros is not None:
            lost |= (result == 0) & np.logical_and.reduce([known, *(a != 0 for a in given[:zeros])])
        lost &= np.logical_and.reduce([np.isfinite(value) for value in given])
        return float_words(result), lost | known & np.isnan(result)

    return ranged


def c_number(value: float, single: bool = False) -> str:
    """Return a float as PostgreSQL shows it, by the fewest digits that tell it from others.

    >>> [c_number(value) for value in (2.0, 1e15, 1e-5, 9007199254740993.0, float("inf"))]
    ['2', '1e+15', '1e-05', '9.007199254740992e+15', 'Infinity']
    >>> [c_number(value, True) for value in (float(np.float32(0.1)), 16777216.0)]
    ['0.1', '1.6777216e+07']
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign, digits, last = Decimal(str(np.float32(value)) if single else repr(value)).as_tuple()
    shown, minus = "".join(map(str, digits)).rstrip("0") or "0", "-" * sign
    exponent = len(digits) + int(last) - 1 if value else 0
    if -5 < exponent < (6 if single else 15):
        return f"{minus}{Decimal((0, tuple(map(int, shown)), exponent - len(shown) + 1)):f}"
    return f"{minus}{shown[0]}{'.' * (len(shown) > 1)}{shown[1:]}e{exponent:+03d}"


def _shortened(value: float, digits: int) -> str:
    return f"{Decimal(f'{value:.{digits}g}'):f}"


def _moment(text: str) -> str:
    """Round the fraction of a second to six digits."""
    return re.sub(r"\.[0-9]{7,}", lambda result: _fraction(result[0]), text)


def _fraction(shown: str) -> str:
    rounded = f"{Decimal(f'0{shown}'):.6f}"
    return rounded[1:] if rounded[0] == "0" else no_value()


def _clock(text: str) -> str:
    """Return the time of day that a text shows, perhaps after a date."""
    result = re.fullmatch(r"(?:[0-9]+-[0-9]+-[0-9]+ +)?((?!24)[0-9]+:.*)", _moment(text))
    return result[1] if result else no_value()


def _single(value: Any) -> Any:
    return value.astype(np.float32).astype(np.float64)


for _name, _operate, _zeros in (
    ("+", np.add, None), ("-", np.subtract, None), ("*", np.multiply, 2),
    ("quotient", np.divide, 1), ("power", np.power, 1),
):  # fmt: skip
    define(f"postgres:{_name}", "float64, float64 -> float64?", _ranged(_operate, _zeros))
define("postgres:exp", "float64 -> float64?", _ranged(np.exp, 0))
define("postgres:as_single", "float64 -> float64?", _ranged(_single, 1))
by_value("postgres:number", "float64 -> string?", c_number)
by_value("postgres:single", "float64 -> string?", lambda value: c_number(value, True))
by_value("postgres:shortened", "float64, int64 -> string?", _shortened)
by_value("postgres:moment", "string -> string?", _moment)
by_value("postgres:clock", "string -> string?", _clock)
by_value("postgres:reverse", "string -> string?", lambda text: text[::-1])
