"""Constants of SQL as constants of rules."""

from __future__ import annotations

import json
import re
import struct
import uuid
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, InvalidOperation

from sqlglot import exp

from ivm.lang.ir import Value
from ivm.sql.errors import SqlError
from ivm.sql.terms import Lit, Typed
from ivm.sql.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DIGITS,
    DOUBLE,
    FLOAT,
    INTEGER,
    INTERVAL,
    JSON,
    LONG,
    MOST,
    NULL,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    SqlType,
    decimal,
    sql_type,
)

_EXACT = Context(prec=400)  # digits, also of a float
TRUE = ("true", "t", "yes", "y", "1", "on")
FALSE = ("false", "f", "no", "n", "0", "off")


class LongNumber(float):
    """A number of more digits than a decimal has, as a DOUBLE; as a decimal it is exact."""

    def __new__(cls, text: str) -> LongNumber:
        """Keep the text."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


def constant(node: exp.Expr) -> Typed | None:
    """Return a literal, a negative number or a cast of a literal; None for any other expression."""
    match node:
        case exp.Null():
            return Typed(Lit(None, "int64"), NULL, True)
        case exp.Boolean():
            return Typed(Lit(bool(node.this), "bool"), BOOLEAN, False)
        case exp.Literal() if node.is_string:
            return Typed(Lit(str(node.this), "string"), VARCHAR, False)
        case exp.Literal():
            return number(str(node.this), node)
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.this}", node)
        case exp.Cast() if not isinstance(node, exp.TryCast):
            inner, type_ = constant(node.this), sql_type(node.to)
            return converted(inner, type_, node) if inner is not None and type_ != INTERVAL else None
    return None


def number(text: str, node: exp.Expr) -> Typed:
    """Return a number: an integer, a decimal if it has a point, a double if it has an exponent."""
    if "e" in text.lower():
        return Typed(Lit(float(text), "float64"), DOUBLE, False)
    if "." in text:
        digits = text.lstrip("-").replace(".", "").lstrip("0")
        scale = len(text.partition(".")[2])
        precision = max(len(digits), scale + 1 if text.lstrip("-").startswith("0") or scale == 0 else scale)
        if precision > MOST:
            return Typed(Lit(LongNumber(text), "float64"), DOUBLE, False)
        type_ = decimal(precision, scale)
        return Typed(Lit(Decimal(text), type_.store if type_.wide else f"decimal({DIGITS},{scale})"), type_, False)
    value = int(text)
    if not -(2**63) <= value < 2**63:
        if abs(value) >= 10**MOST:
            raise SqlError(f"{text} is too large: integers have at most {MOST} digits", node)
        return Typed(Lit(Decimal(value), LONG.store), LONG, False)
    type_ = INTEGER if -(2**31) <= value < 2**31 else BIGINT
    return Typed(Lit(value, "int64"), type_, False)


def converted(value: Typed, type_: SqlType, node: exp.Expr | None) -> Typed:
    """Return a constant in another type, as CAST does.  Raises SqlError if it does not fit."""
    assert isinstance(value.term, Lit)
    found = value.term.value
    if found is None:
        return Typed(Lit(None, type_.store), type_, True)
    try:
        return Typed(Lit(_converted(found, type_), type_.store), type_, False)
    except (ValueError, InvalidOperation, OverflowError):
        raise SqlError(f"{found!r} is not a value of type {type_}", node) from None


def _converted(value: object, type_: SqlType) -> Value:
    if type_.is_integer:
        return _integer(value, type_)
    if type_.is_decimal:
        text = value.text if isinstance(value, LongNumber) else repr(value)
        exact = Decimal(text) if isinstance(value, float) else Decimal(str(_plain(value)))
        return _fitting(exact.quantize(Decimal(1).scaleb(-type_.scale), "ROUND_HALF_UP", _EXACT), type_)
    if type_.is_float:
        found = float(str(_plain(value)))
        return found if type_ != FLOAT else struct.unpack("f", struct.pack("f", found))[0]
    if type_ in (VARCHAR, JSON):
        return _text(value)
    if type_.words:
        return type_.words[type_.words.index(_text(value))]
    if type_.is_nested:
        found = json.loads(_text(value))
        if not isinstance(found, list):
            raise ValueError
        return _text(value).strip()[1:-1]
    if type_ == BLOB:
        return value if isinstance(value, bytes) else _bytes(_text(value))
    if type_ == UUID:
        return str(uuid.UUID(str(value)))
    if type_ == BOOLEAN:
        return _truth(value)
    if type_ == TIMESTAMPTZ:
        moment = _moment(value, TIMESTAMP)
        assert isinstance(moment, datetime)
        return moment.replace(tzinfo=UTC)  # a time without a zone is one in UTC
    if type_ in (DATE, TIMESTAMP, TIME):
        return _moment(value, type_)
    raise ValueError


def _plain(value: object) -> Value:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | Decimal | str):
        return value
    raise ValueError


def _integer(value: object, type_: SqlType) -> int | Decimal:
    exact = Decimal(str(_plain(value)).strip())
    rounding = "ROUND_HALF_EVEN" if isinstance(value, float) else "ROUND_HALF_UP"
    whole = int(exact.quantize(Decimal(1), rounding, _EXACT))
    if type_.wide:
        return _fitting(Decimal(whole), type_)
    if not -(2**63) <= whole < 2**63:
        raise ValueError
    return whole


def _fitting(value: Decimal, type_: SqlType) -> Decimal:
    if type_.wide and value.copy_abs() >= Decimal(10) ** ((type_.precision or MOST) - type_.scale):
        raise ValueError
    return value


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return str(value)


def _bytes(text: str) -> bytes:
    """Return the bytes that a text shows, `\\x` before two digits of those that are no letters."""
    if not text.isascii():
        raise ValueError
    return re.sub(rb"\\x([0-9a-fA-F]{2})", lambda found: bytes.fromhex(found[1].decode()), text.encode())


def _truth(value: object) -> bool:
    if isinstance(value, str):
        if value.strip().lower() in TRUE:
            return True
        if value.strip().lower() in FALSE:
            return False
        raise ValueError
    return bool(_plain(value))


def _moment(value: object, type_: SqlType) -> Value:
    if isinstance(value, str):
        text = value.strip()
        if type_ == TIME:
            return time.fromisoformat(text)
        found = datetime.fromisoformat(text) if len(text) > 10 else datetime.combine(_date(text), time())
        return _moment(found, type_)
    if isinstance(value, time) and type_ == TIME:
        return value
    if isinstance(value, datetime):
        value = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return value.date() if type_ == DATE else value.time() if type_ == TIME else value
    if isinstance(value, date) and type_ != TIME:
        return value if type_ == DATE else datetime.combine(value, time())
    raise ValueError


def _date(text: str) -> date:
    year, month, day = text.split("-")
    return date(int(year), int(month), int(day))
