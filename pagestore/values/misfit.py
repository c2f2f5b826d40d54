"""Explain why a value does not fit into a column, with a remedy."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from numbers import Integral, Number
from typing import Any

import numpy as np

from pagestore.values.types import DIGITS_MAX, Type

SHOWN = 60  # characters of a value
WHOLE = {"int64": (-(2**63), 2**63 - 1), "uint64": (0, 2**64 - 1)}
FINER = "is finer than microseconds; cut or round it"


class Misfit(Exception):
    """A value that a column does not accept: its row (None: the whole column), and the message."""

    def __init__(self, row: int | None, said: str) -> None:
        super().__init__(said)
        self.row, self.said = row, said

    def at(self, row: int) -> Misfit:
        """Return the same misfit for another row."""
        return Misfit(row, self.said)

    def among(self, there: np.ndarray) -> Misfit:
        """Return the misfit with its row counted among all rows, if it was counted among those
        of there, bool[n].
        """
        return self if self.row is None else Misfit(int(np.flatnonzero(there)[self.row]), self.said)


def misfit_of(type_: Type, row: int, value: Any, text: str = "") -> Misfit:
    """Return the misfit of a value that a column's type refuses; a time value may be given as
    `text` instead.
    """
    shown = text or repr(value)
    shown = shown if len(shown) <= SHOWN else shown[:SHOWN] + "…"
    if text:
        return Misfit(row, f"{shown} does not fit {type_}; {_remedy_of_time(type_, text)}")
    if isinstance(value, bool) or not isinstance(value, Number):
        return Misfit(row, f"{shown} is not a valid {type_}; {_conversion(type_, value)}")
    if type_.name == "decimal":
        return Misfit(row, f"{shown} {_no_decimal(type_, value)}")
    if type_.name in ("int64", "uint64"):
        least, most = WHOLE[type_.name]
        inside = is_finite(value) and least <= value <= most  # type: ignore[operator]
        remedy = "round it to a whole number" if inside else f"it holds {least} to {most}"
        return Misfit(row, f"{shown} does not fit {type_}; {remedy}")
    if type_.name == "float64":
        return Misfit(
            row, f"{shown} is not exactly a float64; give float({shown}) if the nearest one will do"
        )
    return Misfit(row, f"{shown} is not a valid {type_}; {_conversion(type_, value)}")


def is_finite(value: Any) -> bool:
    """Return whether a value is a number, and neither infinite nor NaN."""
    if isinstance(value, Decimal):
        return value.is_finite()
    return isinstance(value, Integral) or (isinstance(value, float) and isfinite(value))


def _no_decimal(type_: Type, value: Any) -> str:
    """Explain why a number is not a decimal of a type."""
    if not is_finite(value):
        return f"is not a valid {type_}: leave it out, or make it a null"
    written = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    before, room = digits_before(written), type_.precision - type_.scale
    if before > room:
        digits = before + type_.scale
        if digits <= DIGITS_MAX:
            remedy = f"declare decimal({digits},{type_.scale})"
        else:
            remedy = "no decimal has so many"
        return f"has {before} digits before the point and {type_} has {room}; {remedy}"
    digits = decimals_of(written)
    if digits > type_.scale:
        wider = f", or declare decimal({room + digits},{digits})" * (room + digits <= DIGITS_MAX)
        return f"has {digits} decimals and {type_} keeps {type_.scale}; round it{wider}"
    return f"is a float that no {type_} is exactly; give Decimal('{written}')"


def digits_before(value: Decimal) -> int:
    """Return the number of digits of a finite decimal before the point, without leading zeros."""
    return max(0, value.adjusted() + 1) if value else 0


def decimals_of(value: Decimal) -> int:
    """Return the number of digits after the point that a finite decimal needs.

    >>> decimals_of(Decimal("1.50")), decimals_of(Decimal("1E+3"))
    (1, 0)
    """
    _, digits, exponent = value.as_tuple()
    significant = "".join(map(str, digits)).rstrip("0")
    return max(0, len(significant) - len(digits) - int(exponent)) if significant else 0


def _remedy_of_time(type_: Type, text: str) -> str:
    if type_.kind.value is date:
        return "a date is midnight: take the day of it"
    digits = text.rpartition(".")[2]
    if text.endswith(" ns") or (len(digits) > 6 and digits[6:].strip("0")):
        return "cut or round it to microseconds"
    return "it is out of range"


def _conversion(type_: Type, value: Any) -> str:
    """Explain how to convert a value of another kind to a type."""
    if value is None:
        return "drop or replace it"
    kind = type_.kind.value
    special = {Decimal: "decimal.Decimal(…)", bytes: "….encode()", bool: "… == 'true'"}
    if isinstance(value, str) and kind is not str:
        reads = f"{kind.__name__}{'.fromisoformat' * (kind in (date, time, datetime))}(…)"
        return f"convert the text, as by {special.get(kind, reads)}"
    if kind is str:
        if isinstance(value, bytes | bytearray):
            return "convert it, as by ….decode()"
        return "convert it, as by str(…)"
    if isinstance(value, bool) and kind in (int, float, Decimal):
        return "convert it, as by int(…)"
    if kind is bool and isinstance(value, Number):
        return "convert it, as by … != 0"
    if isinstance(value, Number) and kind in (date, time, datetime, timedelta):
        return "say what it counts, as by timedelta(seconds=…)"
    if isinstance(value, datetime) and kind in (date, time):
        return f"take its .{kind.__name__}()"
    return "convert it first"
