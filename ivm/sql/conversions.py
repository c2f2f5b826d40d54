"""Values of one type as values of another, as CAST and comparisons need them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from ivm.sql.errors import SqlError
from ivm.sql.literals import converted
from ivm.sql.terms import Call, Lit, Term, Typed
from ivm.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTERVAL,
    MOST,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    SqlType,
    common,
)


def call(name: str, *args: Term) -> Call:
    """Return a call."""
    return Call(name, args)


def is_null_constant(value: Typed) -> bool:
    """Return whether a value is the constant NULL."""
    return isinstance(value.term, Lit) and value.term.value is None


def convert(value: Typed, type_: SqlType, node: exp.Expr | None = None) -> Typed:
    """Return a value in another type, as CAST does.  Raises SqlError if there is no such conversion."""
    if isinstance(value.term, Lit):
        return converted(value, type_, node)
    own = value.type
    if own == type_:
        return value
    if own.element != type_.element:
        raise SqlError(f"{own} is not converted to {type_}", node)
    if own.store == type_.store and type_ != FLOAT and (not own.is_decimal or own.precision <= type_.precision):
        return value._replace(type=type_)
    if own.is_decimal and own._replace(precision=type_.precision) == type_ and own.precision <= type_.precision:
        return value._replace(type=type_)
    return Typed(_conversion(value.term, own, type_, node), type_, value.nullable)


def single(term: Term) -> Term:
    """Return a double with the 24 binary digits that a FLOAT has (Veltkamp's splitting)."""
    wide = call("*", term, Lit(float(2**29 + 1), "float64"))
    return call("-", wide, call("-", wide, term))


def _conversion(term: Term, own: SqlType, type_: SqlType, node: exp.Expr | None) -> Term:
    if type_ == FLOAT:
        return single(_conversion(term, own, DOUBLE, node) if own != DOUBLE else term)
    if own == FLOAT and type_ == VARCHAR:
        raise SqlError("a FLOAT is not converted to VARCHAR: CAST it to DOUBLE or DECIMAL", node)
    if type_.is_float and own.is_number:
        return call("float", term)
    if type_.wide or (own.wide and (type_.is_decimal or type_.is_integer)):
        return _long(term, own, type_, node)
    if type_.is_decimal and own.is_integer and type_.scale:
        return call("*", term, Lit(Decimal(10) ** 0 * Decimal(1).scaleb(0).quantize(Decimal(1).scaleb(-type_.scale)),
                                   f"decimal(18,{type_.scale})"))  # fmt: skip
    if type_.is_decimal and own.is_decimal and own.scale < type_.scale:
        return call("*", term, Lit(Decimal(1).quantize(Decimal(1).scaleb(own.scale - type_.scale)), "decimal"))
    if type_.is_integer and own == BOOLEAN:
        return call("if", term, Lit(1, "int64"), Lit(0, "int64"))
    if type_ == BOOLEAN and own.is_number:
        return call("!=", term, Lit(0, "int64"))
    if type_.is_integer and (own.is_number or own == VARCHAR):
        return call("int", term)
    if type_.is_decimal and (own.is_number or own == VARCHAR):
        return call("decimal", term, Lit(type_.scale, "int64"))
    if type_.is_float and own == VARCHAR:
        return call("float", term)
    if type_ == VARCHAR:
        return call("string", term)
    if type_ == DATE and own in (TIMESTAMP, VARCHAR):
        return call("date", term)
    if type_ == TIMESTAMP and own in (DATE, VARCHAR):
        return call("datetime", term)
    raise SqlError(f"{own} is not converted to {type_}", node)


def _long(term: Term, own: SqlType, type_: SqlType, node: exp.Expr | None) -> Term:
    """Return a number of 38 digits as another, or another number or a text as one of 38 digits."""
    if own == BOOLEAN:
        term = call("if", term, Lit(1, "int64"), Lit(0, "int64"))
    elif not (own.is_number or own == VARCHAR):
        raise SqlError(f"{own} is not converted to {type_}", node)
    if not type_.wide:
        return call("int", term) if type_.is_integer else call("decimal", term, Lit(type_.scale, "int64"))
    if own.is_float:
        term = call("round", term) if type_.is_integer else term
    return call("decimal", term, Lit(type_.scale, "int64"), Lit(type_.precision or MOST, "int64"))


def alike(node: exp.Expr, left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Return two values in one type, in which they are compared.  Raises SqlError if there is none."""
    wanted = common(left.type, right.type)
    if wanted is None and isinstance(left.term, Lit) and left.type == VARCHAR:
        wanted = right.type
    elif wanted is None and isinstance(right.term, Lit) and right.type == VARCHAR:
        wanted = left.type
    elif {left.type, right.type} == {TIMESTAMP, TIMESTAMPTZ} and isinstance(left.term, Lit):
        wanted = right.type
    elif {left.type, right.type} == {TIMESTAMP, TIMESTAMPTZ} and isinstance(right.term, Lit):
        wanted = left.type
    if left.type == right.type == INTERVAL:
        return _microseconds(left, node), _microseconds(right, node)
    if wanted is None:
        raise SqlError(f"{left.type} and {right.type} are not compared: CAST one of them", node)
    if left.type.is_number and right.type.is_number and not wanted.is_float:
        return convert(left, wanted, node), convert(right, wanted, node)
    return convert(left, wanted, node), convert(right, wanted, node)


def _microseconds(value: Typed, node: exp.Expr) -> Typed:
    if not isinstance(value.term, Call) or value.term.name not in ("micros", "elapsed"):
        raise SqlError("an interval of months is not compared, since months differ in length: add it to a date", node)
    return Typed(value.term.args[0], BIGINT, value.nullable)


def common_type(values: Sequence[Typed], node: exp.Expr) -> SqlType:
    """Return the type of several values that are alternatives.  Raises SqlError if there is none."""
    found = NULL
    for one in values:
        if isinstance(one.term, Lit) and one.type == VARCHAR and found not in (NULL, VARCHAR):
            continue
        if isinstance(one.term, Lit) and one.type.is_integer and found.is_integer and not one.type.wide:
            continue
        new = common(found, one.type)
        if new is None:
            raise SqlError(f"{found} and {one.type} are not alternatives of one value: CAST one of them", node)
        found = new
    return found
