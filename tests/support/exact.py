"""What a column keeps of a value, and of a text, in plain Python: just that value, or nothing at
all.
"""

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from pagestore.values.types import Type


class Refused(Exception):
    """A value has no place in a column."""


def taken(value: Any, wanted: Type) -> Any:
    """What a column keeps of a typed value. Raises Refused."""
    name = wanted.name
    if isinstance(value, bool) or name == "bool":
        return _if(isinstance(value, bool) and name == "bool", value)
    if isinstance(value, int | float | Decimal):
        return _number(Decimal(value), wanted)
    if isinstance(value, datetime):
        if name == "date":
            return _if(not value.tzinfo and value.time() == time(), value.date())
        return _if(name == "timestamp" and bool(value.tzinfo) == bool(wanted.zone), value)
    if isinstance(value, date) and name == "timestamp":
        return _if(not wanted.zone, datetime.combine(value, time()))
    kinds = {"date": date, "time": time, "duration": timedelta, "string": str, "bytes": bytes}
    return _if(name in kinds and isinstance(value, kinds[name]), value)


def _if(right: bool, value: Any) -> Any:
    if not right:
        raise Refused
    return value


def _number(number: Decimal, wanted: Type) -> Any:
    if wanted.name in ("int64", "uint64"):
        least, most = (0, 2**64 - 2) if wanted.name == "uint64" else (-(2**63) + 1, 2**63 - 1)
        return _if(number == number.to_integral_value() and least <= number <= most, number)
    if wanted.name == "decimal":
        fits = abs(number) < Decimal(10) ** (wanted.precision - wanted.scale)
        return _if(fits and number.scaleb(wanted.scale) % 1 == 0, number)
    return _if(wanted.name == "float64" and Decimal(float(number)) == number, float(number))


def read(text: str, wanted: Type, quoted: bool | None) -> Any:
    """What a column keeps of a text; of one in JSON that is `quoted` or not. Raises Refused."""
    name = wanted.name
    if name in ("string", "bytes"):
        return _if(quoted is not False, text if name == "string" else text.encode())
    if name == "bool":
        known = {
            "true": True,
            "false": False,
            **({"1": True, "0": False} if quoted is None else {}),
        }
        text = text.lower() if quoted is None else text
        return _if(not quoted and text in known, known.get(text))
    if name in ("int64", "uint64", "float64", "decimal"):
        _if(not quoted or name == "decimal", 0)
        _if(bool(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text)), 0)
        if name == "float64":
            whole = text.lstrip("-").isdigit()
            exact = Decimal(text) in (Decimal(float(text)), Decimal(repr(float(text))))
            return _if(not whole or exact, float(text))
        return _number(Decimal(text), wanted)
    return _if(quoted is not False, _moment(text, wanted))


def _moment(text: str, wanted: Type) -> Any:
    if wanted.name == "duration":
        match = re.fullmatch(r"(?:(-?\d+) days?, )?(\d+):(\d\d):(\d\d(?:\.\d+)?)", text) or _if(
            False, None
        )
        seconds = int(match[2]) * 3600 + int(match[3]) * 60
        return timedelta(int(match[1] or 0), seconds, int(Decimal(match[4]) * 10**6))
    if wanted.name == "time":
        _if(bool(re.fullmatch(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", text)), 0)
        return time.fromisoformat(text)
    _if(
        bool(
            re.fullmatch(
                r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d:\d\d)?)?", text
            )
        ),
        0,
    )
    value = datetime.fromisoformat(text)
    return taken(value, wanted)


def spelt(value: Any) -> str:
    """A value as a text."""
    return (
        str(value).lower()
        if isinstance(value, bool)
        else repr(value)
        if isinstance(value, float)
        else str(value)
    )
