"""Functions of numbers that are not operators: of floats, of bits and of whole numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from math import factorial, pi

from sqlglot import exp

from ivm.sql.conversions import call, convert, unless_null
from ivm.sql.errors import SqlError
from ivm.sql.functions.times import Value
from ivm.sql.terms import Lit, Term, Typed
from ivm.sql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, INTEGERS, INTERVAL, SqlType

_SCALED: dict[type[exp.Expr], float] = {exp.Degrees: 180 / pi, exp.Radians: pi / 180}
_INFINITE = call("ratio", Lit(1.0, "float64"), Lit(0.0, "float64"))


def _infinite(node: exp.Expr, value: Value) -> Typed:
    """isfinite, isinf and isnan.  NaN, the quotient of zeros, is greater than all numbers, which
    tells it from them.
    """
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    number = value(node.expressions[0] if isinstance(node, exp.Anonymous) else node.this)
    if number.type == INTERVAL:
        raise SqlError(f"{name} takes a number or a moment, and this is INTERVAL", node)
    largest = Lit(sys.float_info.max, "float64")
    finite: Term = call("!=", call("is_null", number.term), Lit(True, "bool"))
    if number.type.is_float:
        finite = call("<=", call("abs", number.term), largest)
    if name == "isnan":
        finite = (
            call(">", number.term, _INFINITE)
            if number.type.is_float
            else call("!=", number.term, number.term)
        )
    elif name == "isinf":
        finite = (
            call("=", call("abs", number.term), _INFINITE)
            if number.type.is_float
            else call("not", finite)
        )
    return Typed(unless_null(number, finite, "bool"), BOOLEAN, number.nullable)


def _whole_pair(node: exp.Expr, value: Value) -> tuple[Typed, Typed]:
    left, right = (value(item) for item in node.expressions)
    if not (left.type.is_integer and right.type.is_integer):
        raise SqlError(f"{node.name.lower()} takes whole numbers", node)
    return left, right


def _divisor(node: exp.Expr, value: Value) -> Typed:
    left, right = _whole_pair(node, value)
    return Typed(
        call("gcd", left.term, right.term), _wide(left, right), left.nullable or right.nullable
    )


def _multiple(node: exp.Expr, value: Value) -> Typed:
    left, right = _whole_pair(node, value)
    part = call(
        "/", left.term, call("greatest", call("gcd", left.term, right.term), Lit(1, "int64"))
    )
    return Typed(
        call("abs", call("*", part, right.term)),
        _wide(left, right),
        left.nullable or right.nullable,
    )


def _wide(left: Typed, right: Typed) -> SqlType:
    return HUGEINT if HUGEINT in (left.type, right.type) else BIGINT


def _count_of_bits(node: exp.Expr, value: Value) -> Typed:
    number = value(node.expressions[0] if isinstance(node, exp.Anonymous) else node.this)
    if not number.type.is_integer or number.type.wide:
        raise SqlError(
            f"bit_count takes a whole number of 64 bits, and this is {number.type}", node
        )
    width = {3: 8, 5: 16, 10: 32}.get(INTEGERS[number.type.name], 64)
    bits = number.term if width == 64 else call("bit_and", number.term, Lit(2**width - 1, "int64"))
    return Typed(call("bit_count", bits), SqlType("TINYINT"), number.nullable)


def _of_floats(node: exp.Expr, value: Value) -> Typed:
    """`cot(x)`, `fdiv(x, y)`, `even(x)`: functions of DOUBLE."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else node.key
    given = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    args = [convert(value(one), DOUBLE, node) for one in given]
    return Typed(
        _OF_FLOATS[name](*(one.term for one in args)), DOUBLE, any(arg.nullable for arg in args)
    )


def _even(number: Term) -> Term:
    """Return the nearest even number away from zero."""
    two = Lit(2.0, "float64")
    up = call("*", call("ceil", call("/", call("abs", number), two)), two)
    return call(
        "if", call("<", number, Lit(0.0, "float64")), call("-", Lit(0.0, "float64"), up), up
    )


def _remainder(number: Term, by: Term) -> Term:
    """Return the remainder that has the sign of the number that divides."""
    rest = call("fmod", number, by)
    apart = call("<", call("*", call("sign", rest), call("sign", by)), Lit(0, "int64"))
    return call("if", apart, call("+", rest, by), rest)


_OF_FLOATS: dict[str, Callable[..., Term]] = {
    "cot": lambda x: call("ratio", Lit(1.0, "float64"), call("tan", x)),
    "fdiv": lambda x, y: call("floor", call("float:ratio", x, y)),
    "fmod": _remainder,
    "even": _even,
}


def _factorial(node: exp.Expr, value: Value) -> Typed:
    """factorial(n) for n from 0 to 20, since its value has 64 bits here."""
    number = value(node.this)
    if not number.type.is_integer:
        raise SqlError(f"factorial takes a whole number, and this is {number.type}", node)
    words = Lit(",".join(f'"{factorial(n)}"' for n in range(21)), "string")
    return Typed(call("int", call("string:word", words, number.term)), HUGEINT, number.nullable)


def _operator(node: exp.Expr, value: Value) -> Typed:
    """add(x, y) and the like: operators under their names."""
    kind = _OPERATORS[node.name.lower()]
    if len(node.expressions) == 1 and kind is exp.Sub:
        return value(exp.Neg(this=node.expressions[0]))
    left, right = node.expressions
    return value(kind(this=left, expression=right))


_OPERATORS: dict[str, type[exp.Expr]] = {
    "add": exp.Add, "subtract": exp.Sub, "multiply": exp.Mul, "divide": exp.IntDiv,
}  # fmt: skip


def _negative(node: exp.Expr, value: Value) -> Typed:
    """signbit(x)."""
    number, zero = convert(value(node.expressions[0]), DOUBLE, node), Lit(0.0, "float64")
    return Typed(call("<", number.term, zero), BOOLEAN, number.nullable)


def _natural(node: exp.Expr, value: Value) -> Typed:
    number = convert(value(node.this), DOUBLE, node)
    return Typed(_of_zero(number.term, call("ln", number.term)), DOUBLE, number.nullable)


def _of_zero(number: Term, logarithm: Term) -> Term:
    """Return a logarithm that is -inf of 0."""
    zero, least = Lit(0.0, "float64"), call("ratio", Lit(-1.0, "float64"), Lit(0.0, "float64"))
    return call("if", call("=", number, zero), least, logarithm)


def _logarithm(node: exp.Expr, value: Value) -> Typed:
    """log(x) and log10(x), to the base 10, and log2(x)."""
    base, argument = (
        (node.this, node.expression)
        if node.args.get("expression")
        else (exp.Literal.number(10), node.this)
    )
    name = {"2": "log2", "10": "log10"}.get(base.name)
    number = convert(value(argument), DOUBLE, node)
    if name is None:
        other = convert(value(base), DOUBLE, node)
        term = call("ratio", _of_zero(number.term, call("ln", number.term)), call("ln", other.term))
        return Typed(term, DOUBLE, number.nullable or other.nullable)
    return Typed(_of_zero(number.term, call(name, number.term)), DOUBLE, number.nullable)


def _scaled(node: exp.Expr, value: Value) -> Typed:
    number = convert(value(node.this), DOUBLE, node)
    return Typed(
        call("*", number.term, Lit(_SCALED[type(node)], "float64")), DOUBLE, number.nullable
    )


def _pi(_node: exp.Expr, _value: Value) -> Typed:
    return Typed(Lit(pi, "float64"), DOUBLE, False)


def _cube_root(node: exp.Expr, value: Value) -> Typed:
    number = convert(value(node.this), DOUBLE, node)
    root = call("pow", call("abs", number.term), Lit(1 / 3, "float64"))
    return Typed(call("*", call("float", call("sign", number.term)), root), DOUBLE, number.nullable)


FAMILIES: list[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr, Value], Typed]]] = [
    ((exp.Cot,), _of_floats), ((exp.Factorial,), _factorial), ((*_SCALED,), _scaled),
    ((exp.Pi,), _pi), ((exp.Cbrt,), _cube_root), ((exp.Ln,), _natural), ((exp.Log,), _logarithm),
    ((exp.IsNan, exp.IsInf), _infinite), ((exp.BitwiseCount,), _count_of_bits),
]  # fmt: skip
NAMED: dict[str, Callable[[exp.Expr, Value], Typed]] = {
    **dict.fromkeys(("isfinite", "isinf", "isnan"), _infinite),
    **dict.fromkeys(("gcd", "greatest_common_divisor"), _divisor),
    **dict.fromkeys(("lcm", "least_common_multiple"), _multiple),
    **dict.fromkeys(_OF_FLOATS, _of_floats),
    **dict.fromkeys(_OPERATORS, _operator),
    "bit_count": _count_of_bits,
    "signbit": _negative,
}
