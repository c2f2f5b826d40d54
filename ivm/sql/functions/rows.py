"""Functions of SQL that call one function of terms unchanged: those whose row in `ivm/terms` has a name
in SQL.

    by_value("string:hamming", "string, string -> int64?", ..., sql="hamming mismatches")
    define("sign", "number -> int64", ..., sql="sign -> TINYINT")

Arguments are converted to the types that the row takes; the result has DuckDB's type for that of the
row, unless the row names another.  Functions of dialects have their own names, as spark_initcap.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

from ivm.lang.functions import FUNCTIONS, Function
from ivm.sql.conversions import call, convert, is_null_constant
from ivm.sql.errors import SqlError
from ivm.sql.functions.times import Value
from ivm.sql.terms import Typed
from ivm.sql.types import BIGINT, BOOLEAN, DATE, DOUBLE, TIMESTAMP, TIMESTAMPTZ, VARCHAR, SqlType

DIALECTS = ("spark", "postgres", "sqlite", "text")
TYPES = {one.store: one for one in (VARCHAR, BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP)}
MOMENTS = (DATE, TIMESTAMP, TIMESTAMPTZ)


def _translated(name: str, gives: SqlType, node: exp.Expr, value: Value) -> Typed:
    """Return the function of terms of a name, of the arguments of a call."""
    function, given = FUNCTIONS[name], node.expressions
    if not function.admits(len(given)):
        words = f"{node.name.lower()} takes {function.arity}, and here it has {len(given)}"
        raise SqlError(words, node)
    args = [_argument(function, place, value(one), node) for place, one in enumerate(given)]
    nullable = any(arg.nullable for arg in args)
    return Typed(call(name, *(one.term for one in args)), gives, nullable)


def _argument(function: Function, place: int, given: Typed, node: exp.Expr) -> Typed:
    """Return an argument in the type that a function takes there.  Raises SqlError."""
    kind, words = function.kind(place), ""
    if is_null_constant(given):
        return convert(given, TYPES.get(kind, DOUBLE), node)
    if kind == "timestamp" and given.type not in MOMENTS:
        words = "a date or a timestamp"
    elif kind == "int64" and not given.type.is_integer:
        words = "a whole number"
    elif kind == "number" and not given.type.is_number:
        words = "a number"
    if words:
        name = node.name.lower()
        own = name.partition("_")[2] if name in PRIVATE else name
        raise SqlError(f"{own} takes {words}, and this is {given.type}", node)
    return convert(given, TYPES[kind], node) if kind in TYPES else given


def _names() -> dict[str, Callable[[exp.Expr, Value], Typed]]:
    """Return the translations of functions by their names in SQL."""
    found: dict[str, Callable[[exp.Expr, Value], Typed]] = {}
    for name, function in FUNCTIONS.items():
        words, _, type_ = function.sql.partition(" -> ")
        if name.partition(":")[0] in DIALECTS:
            words = f"{words} {name.replace(':', '_')}"
        if words:
            gives = SqlType(type_) if type_ else TYPES[str(function.gives)]
            found |= dict.fromkeys(words.split(), partial(_translated, name, gives))
    return found


NAMED = _names()
PRIVATE = {name for name in NAMED if name.partition("_")[0] in DIALECTS}  # of tables of dialects
