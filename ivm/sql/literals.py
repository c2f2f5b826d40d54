"""Constants that statements write as constants of rules, the types that they name, and values of
Python as constants of SQL.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from math import isfinite, isinf
from typing import Any

import numpy as np
from sqlglot import exp

from ivm.lang.ir import Value
from ivm.sql import types
from ivm.sql.errors import SqlError
from ivm.sql.terms import Lit, Typed
from ivm.terms import readings
from ivm.terms.decimals import as_decimal, checked
from ivm.terms.lists import json_of_number, shown_json
from ivm.terms.operands import shown
from ivm.terms.readings import EXACT

_ITEM = r'\s*"(?:[^"\\]|\\.)*"\s*|(?:[^{},"\\]|\\.)+'
_LIST = re.compile(rf"\{{(?:\s*|(?:{_ITEM})(?:,(?:{_ITEM}))*)\}}", re.DOTALL)


class LongNumber(float):
    """A number of more digits than a decimal has, as a DOUBLE; as a decimal it is exact."""

    def __new__(cls, text: str) -> LongNumber:
        """Keep the text."""
        made = super().__new__(cls, text)
        made.text = text
        return made

    text: str


BITS_MOST = 127  # of an integer of 38 digits
EXACT_MOST = 15  # digits that a DOUBLE holds, as which JSON has decimals of no more
_T = exp.DataType.Type
_NAMES = {_T[word]: name for name, kind in types.KINDS.items() for word in kind.parsed.split()}


def sql_type(node: exp.DataType) -> types.SqlType:
    """Return the type that a text names, as `DECIMAL(12, 2)`.  SqlError if it is not stored."""
    if node.this in (_T.DECIMAL, _T.BIGDECIMAL, _T.MONEY):
        given = [size.name for size in node.expressions]
        if len(given) > 2 or not all(map(str.isdecimal, given)):
            raise SqlError(f"DECIMAL({', '.join(given)}) is sized by numbers: DECIMAL(8, 2)", node)
        sizes = [*map(int, given)]
        precision, scale = (*sizes, 0)[:2] if sizes else (18, 3)
        if precision > types.MOST:
            raise SqlError(f"DECIMAL({precision}) has too many digits: at most {types.MOST}", node)
        if scale > precision:
            raise SqlError(
                f"DECIMAL({precision},{scale}) has more digits after the point than in all", node
            )
        return types.decimal(precision, scale)
    if node.this in _NAMES:
        return types.LONG if node.this == _T.INT128 else types.SqlType(_NAMES[node.this])
    if node.this == _T.ENUM and node.expressions:
        words = tuple(word.name for word in node.expressions)
        if twice := [word for word in words if words.count(word) > 1]:
            raise SqlError(f"ENUM has the word {twice[0]!r} twice", node)
        return types.SqlType("ENUM", words=words)
    sized = node.args.get("values")
    if node.this in (_T.LIST, _T.ARRAY) and len(node.expressions) == 1 and not sized:
        return types.list_of(sql_type(node.expressions[0]))
    if node.this == _T.STRUCT and all(isinstance(item, exp.ColumnDef) for item in node.expressions):
        return types.SqlType(
            "STRUCT",
            fields=tuple((field.name, sql_type(field.args["kind"])) for field in node.expressions),
        )
    if node.this == _T.MAP and len(node.expressions) == 2:
        return types.map_of(*map(sql_type, node.expressions))
    shown = node.sql(dialect="duckdb")
    if node.this == _T.USERDEFINED:
        raise SqlError(
            f"no type {shown} exists: CREATE TYPE {shown} AS ENUM (...), or take one of SQL's", node
        )
    others = "lists of any length" if sized else "numbers, texts, dates, times and BOOLEAN"
    raise SqlError(f"columns of type {shown} are not stored; there are {others}", node)


def constant(node: exp.Expr) -> Typed | None:
    """Return a literal, a negative number or a cast of a literal; None for any other expression."""
    match node:
        case exp.Null():
            return Typed(Lit(None, "int64"), types.NULL, True)
        case exp.Boolean():
            return Typed(Lit(bool(node.this), "bool"), types.BOOLEAN, False)
        case exp.Literal() if node.is_string:
            return Typed(Lit(str(node.this), "string"), types.VARCHAR, False)
        case exp.Literal():
            return number(str(node.this), node)
        case exp.Neg() if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number(f"-{node.this.this}", node)
        case exp.Cast() if not isinstance(node, exp.TryCast):
            inner, type_ = constant(node.this), sql_type(node.to)
            known = inner is not None and type_ != types.INTERVAL and not type_.is_nested
            return converted(inner._replace(bare=False), type_, node) if inner and known else None
    return None


def number(text: str, node: exp.Expr) -> Typed:
    """Return a number: an integer, a decimal if it has a point, a double if it has an exponent."""
    if sum_ := re.fullmatch(r"(.*e[+-]?\d+)([+-])(.*)", text, re.IGNORECASE):
        raise SqlError(f"{text} is read as one number: write {' '.join(sum_.groups())}", node)
    if "e" in text.lower():
        return Typed(Lit(float(text), "float64"), types.DOUBLE, False)
    if "." in text:
        digits = text.lstrip("-").replace(".", "").lstrip("0")
        scale = len(text.partition(".")[2])
        precision = max(
            len(digits), scale + 1 if text.lstrip("-").startswith("0") or scale == 0 else scale
        )
        if precision > types.MOST:
            return Typed(Lit(LongNumber(text), "float64"), types.DOUBLE, False)
        type_ = types.decimal(precision, scale)
        return Typed(
            Lit(Decimal(text), type_.store if type_.wide else f"decimal({types.DIGITS},{scale})"),
            type_,
            False,
        )
    if len(text.lstrip("-0")) > types.MOST:
        raise SqlError(
            f"{text[:20]}... is too large: integers have at most {types.MOST} digits", node
        )
    value = int(text)
    if not -(2**63) <= value < 2**63:
        return Typed(Lit(Decimal(value), types.LONG.store), types.LONG, False)
    type_ = types.INTEGER if -(2**31) <= value < 2**31 else types.BIGINT
    return Typed(Lit(value, "int64"), type_, False, bare=True)


def converted(value: Typed, type_: types.SqlType, node: exp.Expr | None) -> Typed:
    """Return a constant in another type, as CAST does.  Raises SqlError if its type has no values
    there, and NoValueError if it does not fit.
    """
    assert isinstance(value.term, Lit)
    raw, own = value.term.value, value.type
    if raw is None:
        return Typed(Lit(None, type_.store), type_, True)
    if own not in TAKEN_FROM.get(type_, (own,)):
        raise SqlError(f"{own} is not converted to {type_}", node)
    writer = _WRITERS.get(type_)
    try:
        given = writer(raw, own) if writer else raw
        return Typed(Lit(_converted(given, type_), type_.store), type_, False)
    except (ValueError, InvalidOperation, OverflowError):
        raise NoValueError(f"{raw!r} is not a value of type {type_}", node) from None


class NoValueError(SqlError):
    """A constant has no value of a type; under TRY it is null."""


def _converted(value: object, type_: types.SqlType) -> Value:
    if type_.is_integer or type_.is_decimal:
        return _exact(value, type_)
    if type_.is_float:
        return _float(value, type_)
    if type_ == types.VARCHAR:
        return shown(value)
    if type_.words:
        return type_.words[type_.words.index(value)]  # ValueError for a number, too
    if type_ == types.BLOB:
        return value if isinstance(value, bytes) else _bytes(shown(value))
    if isinstance(value, str) and type_ in _READERS:
        return _READERS[type_](value)
    if type_ == types.BOOLEAN:
        return bool(_plain(value))
    return _moment(value, type_)


# of which types constants are converted to these: no text of any other value is one of theirs
TAKEN_FROM = {
    types.UUID: (types.VARCHAR, types.UUID), types.BLOB: (types.VARCHAR, types.BLOB),
    types.TIME: (types.VARCHAR, types.TIME, types.TIMESTAMP),
}  # fmt: skip
_READERS: dict[types.SqlType, Callable[[str], Value]] = {
    types.BOOLEAN: readings.truth, types.DATE: readings.day, types.TIMESTAMP: readings.moment,
    types.TIMESTAMPTZ: readings.zoned,
    types.TIME: readings.clock, types.UUID: readings.identifier, types.JSON: readings.json_text,
}  # fmt: skip


def _as_text(value: object, type_: types.SqlType) -> str:
    if type_ == types.FLOAT:
        return str(float(str(np.float32(str(value)))))
    if (
        type_.is_decimal and type_.precision == type_.scale
    ):  # DuckDB writes no zero before the point
        return shown(value).replace("0.", ".", 1)
    return shown(value) + "+00" * (type_ == types.TIMESTAMPTZ)


def _as_json(value: object, type_: types.SqlType) -> str:
    if type_ in (types.VARCHAR, types.JSON) or type_.is_integer or type_ == types.BOOLEAN:
        return shown(value)
    if type_.is_float or (type_.scale and type_.precision <= EXACT_MOST):
        return json_of_number(float(str(value)))
    return shown(value) if type_.is_decimal else shown_json(shown(value))


_WRITERS = {types.VARCHAR: _as_text, types.JSON: _as_json}


def _plain(value: object) -> int | float | Decimal | str:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | Decimal | str):
        return value
    raise ValueError


def _exact(value: object, type_: types.SqlType) -> int | Decimal:
    """Return a whole number or a decimal of a type.  Raises ValueError if it has none."""
    given = _plain(value.text if isinstance(value, LongNumber) else value)
    if type_.is_integer and isinstance(given, str):
        exact = Decimal(readings.whole(given))
    elif type_.is_integer and isinstance(given, float):
        exact = Decimal(round(given))  # halves to even
    else:
        exact = as_decimal(given, type_.scale)
    if type_.is_decimal or type_.wide:
        exact = checked(exact, type_.scale, type_.precision or types.MOST)
    least, most = type_.range or (exact, exact)
    whole = int(exact.quantize(Decimal(1), "ROUND_HALF_UP", EXACT)) if type_.is_integer else exact
    if not least <= whole <= most:
        raise ValueError
    return Decimal(whole) if type_.wide else whole


def _float(value: object, type_: types.SqlType) -> float:
    given = _plain(value)
    found = readings.number(given) if isinstance(given, str) else float(given)
    if type_ != types.FLOAT:
        return found
    with np.errstate(over="ignore"):
        single = float(np.float32(found))
    if isinf(single) and not isinf(found) and not isinstance(given, str):
        raise ValueError
    return single


def list_items(text: str) -> list[str | None] | None:
    """Return the items of a list as PostgreSQL writes it, `{a,"b,c",NULL}`; None for any other."""
    if not _LIST.fullmatch(text):
        return None
    items = [
        (quoted, re.sub(r"\\(.)", r"\1", item.strip()[quoted : -1 if quoted else None]))
        for item in re.findall(_ITEM, text[1:-1] if text[1:-1].strip() else "")
        for quoted in [item.lstrip().startswith('"')]
    ]
    return [None if item.upper() == "NULL" and not quoted else item for quoted, item in items]


def _bytes(text: str) -> bytes:
    """Return the bytes that a text shows, `\\x` before two digits of those that are no letters."""
    if not text.isascii():
        raise ValueError
    return re.sub(
        rb"\\x([0-9a-fA-F]{2})", lambda escape: bytes.fromhex(escape[1].decode()), text.encode()
    )


def _moment(value: object, type_: types.SqlType) -> Value:
    if isinstance(value, time) and type_ == types.TIME:
        return value
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise ValueError
    value = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    if type_ == types.TIMESTAMPTZ:
        return value.replace(tzinfo=UTC)  # a time without a zone is one in UTC
    return value.date() if type_ == types.DATE else value.time() if type_ == types.TIME else value


def literal(value: Any) -> exp.Expr:
    """Return a value of Python as a literal of SQL. Raises SqlError for one without a type."""
    if value is None or type(value).__name__ in ("NaTType", "NAType"):  # those of pandas
        return exp.null()
    if hasattr(value, "item") and type(value).__module__ == "numpy":
        return literal(value.item() if value.ndim == 0 else value.tolist())
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[*map(_item, value)])
    if isinstance(value, dict):
        return _fields(value)
    if isinstance(value, int | float | Decimal):
        return _number(value)
    text, name = _text_and_type(value)
    shown = exp.Literal.string(text)
    if name == "VARCHAR":
        return shown
    return exp.Cast(this=shown, to=exp.DataType.build(name, dialect="duckdb"))


def _item(value: Any) -> exp.Expr:
    """Return an item of a list, whose type is that of the list: a float stays one in it."""
    made = literal(value)
    return exp.cast(made, "DOUBLE") if isinstance(value, float) else made


def _fields(value: dict[Any, Any]) -> exp.Expr:
    """Return a dict as a struct, or as a map if a key is not a text."""
    if all(isinstance(key, str) for key in value):
        pairs = [
            exp.PropertyEQ(this=exp.to_identifier(key), expression=literal(item))
            for key, item in value.items()
        ]
        return exp.Struct(expressions=pairs)
    return exp.Map(keys=literal([*value]), values=literal([*value.values()]))


def _number(value: int | float | Decimal) -> exp.Expr:
    if isinstance(value, int) and value.bit_length() > BITS_MOST:
        raise SqlError("a parameter is too large: integers have at most 38 digits")
    if not isinstance(value, int) and not isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
    # abs rounds to 28 digits
    shown = f"{value.copy_abs():f}" if isinstance(value, Decimal) else repr(abs(value))
    if isinstance(value, float) and "e" not in shown:
        shown += "e0"  # which makes it a DOUBLE
    return exp.Literal.number(shown) if value >= 0 else exp.Neg(this=exp.Literal.number(shown))


def _text_and_type(value: Any) -> tuple[str, str]:
    """Return a value as the text and the type of a literal.  Raises SqlError."""
    if isinstance(value, str):
        return str(value), "VARCHAR"
    if isinstance(value, bytes | bytearray | memoryview):
        return "".join(f"\\x{byte:02X}" for byte in bytes(value)), "BLOB"
    if isinstance(value, datetime):
        if getattr(value, "nanosecond", 0):
            raise SqlError(f"{value}: a TIMESTAMP has microseconds: round it with .floor('us')")
        return value.isoformat(" "), "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
    for kind, name in ((date, "DATE"), (time, "TIME"), (uuid.UUID, "UUID")):
        if isinstance(value, kind):
            return str(value), name
    shown = type(value).__name__
    raise SqlError(
        f"a parameter of type {shown} has no type of SQL: give a number, a text, bytes, a date, a "
        "list or a dict"
    )
