"""Functions and operators of SQL as terms of rules, with DuckDB's types of their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from itertools import chain

from sqlglot import exp

from ivm.sql.conversions import (
    alike,
    amount,
    call,
    common_type,
    convert,
    fitted,
    in_order,
    is_constant_of,
    is_null_constant,
)
from ivm.sql.errors import SqlError, written
from ivm.sql.functions import dialects, numbers, rows, texts, times
from ivm.sql.literals import NoValueError, sql_type
from ivm.sql.terms import Call, Lit, Term, Typed, Var
from ivm.sql.types import (
    BIGINT,
    BITS,
    BOOLEAN,
    DATE,
    DIGITS,
    DOUBLE,
    FEW,
    FLOAT,
    INTEGER,
    INTERVAL,
    LONG,
    MOST,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNSIGNED,
    VARCHAR,
    SqlType,
    added,
    as_decimal,
    common,
)

Value = times.Value
QUOTIENT = "quotient"  # the function as which `/` of PostgreSQL and SQLite is kept
CLOCK = (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Rand, exp.Uuid)
INSTEAD = {  # of functions that people know, what to write
    "hash": "its numbers are DuckDB's own; take md5(x) or sha256(x)",
    "round_even": "write bround(x, n) in dialect 'spark'",
    "to_base": "write to_hex(x), or bin(x)",
}

_BITS: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "bit_and", exp.BitwiseOr: "bit_or", exp.BitwiseXor: "bit_xor",
    exp.BitwiseNot: "bit_not",
    exp.BitwiseLeftShift: "shift_left", exp.BitwiseRightShift: "shift_right",
}  # fmt: skip


def translate(node: exp.Expr, value: Value) -> Typed:
    """Return the term of an operator or a function.  Raises SqlError for one that is not known."""
    for kinds, made in _FAMILIES:
        if isinstance(node, kinds):
            return made(node, value)
    if (call_ := _as_named(node)) is not None and (named := _NAMED.get(call_.name.lower())):
        return named(call_, value)
    shown = written(node)
    if isinstance(node, exp.Order):
        raise SqlError(
            f"ORDER BY is not evaluated here: {shown[:60]}; the first value of an order is "
            "first(x ORDER BY y)",
            node,
        )
    if isinstance(node, exp.Star):
        raise SqlError("* stands alone: columns are chosen by COLUMNS('regular expression')", node)
    if isinstance(node, exp.Tuple):
        raise SqlError(
            f"{shown[:60]}: a column has one value: write a struct, {{'a': ...}}, or several "
            f"columns",
            node,
        )
    by_chance = ("now", "random", "today", "uuid", "nextval")
    if isinstance(node, CLOCK) or node.name.lower() in by_chance:
        raise SqlError(
            f"{shown}: rows follow from what is stored, and not from a clock or chance; give the "
            "value as a parameter",
            node,
        )
    raise unknown(node)


def _as_named(node: exp.Expr) -> exp.Anonymous | None:
    """Return a call of a function by its name; of one that the parser knows, and that is
    translated by a name here.
    """
    if isinstance(node, exp.Anonymous) or not isinstance(node, exp.Func):
        return node if isinstance(node, exp.Anonymous) else None
    name = next((one for one in node.sql_names() if one.lower() in _NAMED), None)
    given = [node.args.get(key) for key in node.arg_types if node.args.get(key)] if name else []
    members = (one if isinstance(one, list) else [one] for one in given)
    made = exp.Anonymous(this=name, expressions=[*chain(*members)])
    made.meta.update(node.meta)  # its place in the text
    return made if name else None


def unknown(node: exp.Expr, more: Sequence[str] = ()) -> SqlError:
    """Return the error of a function that is not known; `more` are others that could be meant."""
    shown = written(node)
    called = (
        node.name if isinstance(node, exp.Anonymous) else node.meta.get("name") or node.key.upper()
    )
    name = shown.partition("(")[0]
    name = str(called) if called.lower() + "(" in shown.lower() or name == "CAST" else name
    known = get_close_matches(name.lower(), [*names(), *more], 1, 0.75)
    hint = (
        f": did you mean {known[0]}?"
        if known and known[0] != name.lower()
        else "; docs/sql.md lists those that are"
    )
    hint = f": {INSTEAD[name.lower()]}" if name.lower() in INSTEAD else hint
    return SqlError(f"{name}: this function is not known, in {shown[:60]}{hint}", node)


def names() -> list[str]:
    """Return the names of the functions that are known, in lower case."""
    kinds = {kind for own, _ in _FAMILIES for kind in own if issubclass(kind, exp.Func)}
    return sorted(
        {name.lower() for kind in kinds for name in kind.sql_names()}
        | {*_NAMED} - {*dialects.NAMED} - rows.PRIVATE
    )


# -- arithmetic


def _arithmetic(node: exp.Expr, value: Value) -> Typed:
    operation = "+" if isinstance(node, exp.Add) else "-" if isinstance(node, exp.Sub) else "*"
    left, right = value(node.this), value(node.expression)
    if not (is_null_constant(left) or is_null_constant(right)):
        return _computed(operation, left, right, node)
    if not (left.type.is_number and right.type.is_number):
        return _null_beside(left, right)
    first, second = (
        side._replace(term=Var("x")) if is_null_constant(side) else side for side in (left, right)
    )
    type_ = _computed(operation, first, second, node).type
    return Typed(Lit(None, type_.store), type_, True)


def _computed(operation: str, left: Typed, right: Typed, node: exp.Expr) -> Typed:
    nullable = left.nullable or right.nullable
    if operation == "*" and INTERVAL in (left.type, right.type):
        return times.multiplied(left, right, node)
    if operation != "*" and {left.type, right.type} & {INTERVAL, DATE, TIMESTAMP, TIMESTAMPTZ}:
        return times.moved(operation, left, right, node)
    for side in (left, right):
        if not side.type.is_number:
            raise SqlError(f"`{operation}` takes numbers, and this is {side.type}", node)
    type_ = common(left.type, right.type)
    assert type_ is not None
    if type_.is_decimal:
        return _decimal(operation, left, right, node)
    if type_ == FLOAT and node.meta.get(dialects.RANGED) and left.type != right.type:
        type_ = DOUBLE  # of PostgreSQL's REAL and another
    if type_.is_integer:
        type_ = _integer_type(left, right)
    left, right = convert(left, type_, node), convert(right, type_, node)
    if (
        isinstance(left.term, Lit)
        and isinstance(right.term, Lit)
        and type_.is_integer
        and not type_.wide
    ):
        whole = _folded(operation, left.term.value, right.term.value)
        if not is_constant_of(type_, Lit(whole, "int64")):
            raise NoValueError(f"{written(node)} has no value: {whole} is beyond {type_}", node)
        return Typed(Lit(whole, "int64"), type_, nullable)
    if type_.is_float and node.meta.get(dialects.RANGED):
        return dialects.ranged(operation, left, right)
    term = call(operation, left.term, right.term)
    return Typed(
        call("float:single", term) if type_ == FLOAT else _in_type(term, type_), type_, nullable
    )


def _null_beside(left: Typed, right: Typed) -> Typed:
    """Return what an operation with a constant null gives: null, in the type of the other side."""
    type_ = right.type if left.type == NULL else left.type
    return Typed(Lit(None, type_.store), type_, True)


def _in_type(term: Term, type_: SqlType) -> Term:
    """Return arithmetic without a value beyond its type; that of INTEGER has 64 bits, since the
    join seeks by it.
    """
    return term if type_ == INTEGER else _checked(term, type_)


def _folded(operation: str, left: object, right: object) -> int:
    assert isinstance(left, int) and isinstance(right, int)
    return left + right if operation == "+" else left - right if operation == "-" else left * right


def _integer_type(left: Typed, right: Typed) -> SqlType:
    if left.type.wide or right.type.wide:
        return LONG
    for one, other in ((left, right), (right, left)):
        if one.bare and not other.bare and is_constant_of(other.type, one.term):
            return other.type
    return added(left.type, right.type)


def _decimal(operation: str, left: Typed, right: Typed, node: exp.Expr) -> Typed:
    nullable = left.nullable or right.nullable
    first, second = as_decimal(left.type), as_decimal(right.type)
    wide = first.wide or second.wide
    if operation == "*":
        scale = first.scale + second.scale
        if scale > MOST:
            raise SqlError(
                f"a product of {left.type} and {right.type} has more than {MOST} digits after the "
                "point: CAST one of them to fewer",
                node,
            )
        most = (
            DIGITS if max(first.precision, second.precision) <= DIGITS and scale < DIGITS else MOST
        )
        if most == MOST and not wide and scale > FEW:
            wide = True
            left = convert(left, first._replace(precision=MOST, wide=True))
            right = convert(right, second._replace(precision=MOST, wide=True))
        type_ = SqlType("DECIMAL", min(first.precision + second.precision, most), scale, wide=wide)
        return Typed(call("*", left.term, right.term), type_, nullable)
    scale = max(first.scale, second.scale)
    whole = max(first.precision - first.scale, second.precision - second.scale)
    type_ = SqlType("DECIMAL", min(whole + scale + 1, MOST), scale, wide=wide)
    if not wide:
        same = SqlType("DECIMAL", 38, scale)
        left, right = convert(left, same), convert(right, same)
    return Typed(call(operation, left.term, right.term), type_, nullable)


def _divided(node: exp.Expr, value: Value) -> Typed:
    left, right = value(node.this), value(node.expression)
    for side in (left, right):
        if not side.type.is_number and side.type != NULL:
            sign = "/" if isinstance(node, exp.Div) else "//"
            raise SqlError(f"`{sign}` takes numbers, and this is {side.type}", node)
    nullable = left.nullable or right.nullable
    type_ = FLOAT if common(left.type, right.type) == FLOAT else DOUBLE
    left, right = convert(left, type_, node), convert(right, type_, node)
    name = "float:ratio" if isinstance(node, exp.Div) else "ratio"
    term: Term = call(name, left.term, right.term)
    term = term if isinstance(node, exp.Div) else _unless_zero(term, right)
    return Typed(call("float:single", term) if type_ == FLOAT else term, type_, nullable)


def _quotient(node: exp.Expr, value: Value) -> Typed:
    """Return `/` of a dialect in which it gives an integer for integers."""
    left, right = node.expressions
    whole = value(left).type.is_integer and value(right).type.is_integer
    made = (exp.IntDiv if whole else exp.Div)(this=left, expression=right)
    return _whole_divided(made, value) if whole else _divided(made, value)


def _whole_divided(node: exp.Expr, value: Value) -> Typed:
    """`//`: of integers the quotient without its fraction, of other numbers the quotient, or an
    error if by zero.
    """
    left, right = value(node.this), value(node.expression)
    if not all(side.type == NULL or side.type.is_integer for side in (left, right)):
        return _divided(node, value)
    if NULL in (left.type, right.type):
        return _null_beside(left, right)
    type_ = _integer_type(left, right)
    # which rules refuse as a constant, even without rows
    if isinstance(right.term, Lit) and right.term.value == 0:
        right = right._replace(term=call("int", right.term))
    name = "decimal:quotient" if type_.wide else "/"
    return Typed(call(name, left.term, right.term), type_, left.nullable or right.nullable)


def _remainder(node: exp.Expr, value: Value) -> Typed:
    left, right = value(node.this), value(node.expression)
    if NULL in (left.type, right.type):
        return _null_beside(left, right)
    nullable = left.nullable or right.nullable
    if left.type.is_integer and right.type.is_integer and not (left.type.wide or right.type.wide):
        return Typed(call("mod", left.term, right.term), _integer_type(left, right), nullable)
    if not (left.type.is_number and right.type.is_number):
        raise SqlError(f"`%` takes numbers, and this is {left.type} and {right.type}", node)
    if left.type.is_float or right.type.is_float:
        type_ = common(left.type, right.type) or DOUBLE
        left, right = convert(left, type_, node), convert(right, type_, node)
        term = call("fmod", left.term, right.term)
        return Typed(call("float:single", term) if type_ == FLOAT else term, type_, nullable)
    first, second = as_decimal(left.type), as_decimal(right.type)
    scale = max(first.scale, second.scale)
    whole = max(first.precision - first.scale, second.precision - second.scale)
    if scale and whole + scale > MOST:  # which DuckDB takes as DOUBLE
        left, right = convert(left, DOUBLE, node), convert(right, DOUBLE, node)
        return Typed(_unless_zero(call("fmod", left.term, right.term), right), DOUBLE, nullable)
    wide = left.type.wide or right.type.wide
    type_ = SqlType("DECIMAL", whole + scale, scale, wide=wide)
    if not scale and (wide or (left.type.is_integer and right.type.is_integer)):
        type_ = common(left.type, right.type) or type_
    if wide or whole + 2 * scale > DIGITS:
        exact = Typed(
            call("decimal:mod", left.term, right.term), type_._replace(wide=True), nullable
        )
        return convert(exact, type_, node)
    unit = Lit(10**scale, "int64")
    units = [call("int", call("*", side.term, unit)) for side in (left, right)]
    term = call("divide", call("mod", *units), unit, Lit(scale, "int64"))
    return Typed(term, type_, nullable)


def _unless_zero(term: Term, divisor: Typed) -> Term:
    """Return a quotient or a remainder of floats that has no value where the divisor is 0."""
    zero = Lit(0.0, "float64")
    return call("if", call("=", divisor.term, zero), call("ratio", zero, divisor.term), term)


def _minus(node: exp.Expr, value: Value) -> Typed:
    inner = value(node.this)
    if inner.type == INTERVAL:
        return times.multiplied(inner, Typed(Lit(-1, "int64"), INTEGER, False), node)
    if inner.type == NULL:
        return inner
    if not inner.type.is_number:
        raise SqlError(f"`-` takes a number, and this is {inner.type}", node)
    if inner.type.is_integer:
        return Typed(
            _in_type(call("-", Lit(0, "int64"), inner.term), inner.type), inner.type, inner.nullable
        )
    zero = (
        Lit(0.0, "float64")
        if inner.type.is_float
        else Lit(Decimal(0).scaleb(-inner.type.scale), inner.type.store)
    )
    return Typed(call("-", zero, inner.term), inner.type, inner.nullable)


# -- choices


def _case(node: exp.Expr, value: Value) -> Typed:
    if isinstance(node, exp.If):
        whens, default = [(node.this, node.args["true"])], node.args.get("false")
    else:
        operand = node.this
        whens = [
            (exp.EQ(this=operand, expression=arg.this) if operand else arg.this, arg.args["true"])
            for arg in node.args["ifs"]
        ]
        default = node.args.get("default")
    values = [value(one) for _, one in whens]
    last = value(default) if default is not None else Typed(Lit(None, "int64"), NULL, True)
    # fields are in the order of ELSE
    type_ = common_type([last, *values] if last.type.fields else [*values, last], node)
    last = convert(last, type_, node) if type_ != NULL else last
    branches, nullable = list[tuple[Term, Term]](), last.nullable
    for (condition, _), one in zip(whens, values, strict=True):
        test = _truth(value(condition), condition)
        one = convert(one, type_, node) if type_ != NULL else one
        branches.append((test.term, one.term))
        nullable = nullable or one.nullable
    return Typed(_chosen(branches, last.term), type_, nullable)


def _chosen(branches: Sequence[tuple[Term, Term]], last: Term) -> Term:
    """Return the value of the first branch whose condition is true, else the last; of many
    branches, group by group.
    """
    size = 20
    if len(branches) > size:
        groups = [branches[n : n + size] for n in range(0, len(branches), size)]
        return _chosen(
            [(call("or", *(test for test, _ in group)), _chosen(group, last)) for group in groups],
            last,
        )
    found = last
    for test, term in reversed(branches):
        found = call("if", test, term, found)
    return found


def _coalesce(node: exp.Expr, value: Value) -> Typed:
    values = [value(part) for part in (node.this, *node.expressions)]
    type_ = common_type(values, node)
    values = [convert(part, type_, node) for part in values if not is_null_constant(part)]
    if not values:
        return Typed(Lit(None, type_.store), type_, True)
    kept = []
    for part in values:
        kept.append(part)
        if not part.nullable:
            break
    if len(kept) == 1:
        return kept[0]
    return Typed(
        call("coalesce", *(part.term for part in kept)), type_, all(part.nullable for part in kept)
    )


def _nullif(node: exp.Expr, value: Value) -> Typed:
    own = value(node.this)
    left, right = alike(node, own, value(node.expression))
    null = Lit(None, own.type.store)
    return Typed(call("if", call("=", left.term, right.term), null, own.term), own.type, True)


def _extreme(node: exp.Expr, value: Value) -> Typed:
    name = "greatest" if isinstance(node, exp.Greatest) else "least"
    values = [value(one) for one in (node.this, *node.expressions)]
    type_ = common_type(values, node)
    values = [convert(one, type_, node) for one in values if not is_null_constant(one)]
    if not values:
        return Typed(Lit(None, type_.store), type_, True)
    operation = ">" if name == "greatest" else "<"
    found = values[0]
    for one in values[1:]:
        term = call(
            "if",
            call(operation, *(_rank(each, node) for each in (one, found))),
            one.term,
            found.term,
        )
        if found.nullable or one.nullable:
            term = call("if", call("is_null", found.term), one.term, term)
        found = Typed(term, type_, found.nullable and one.nullable)
    return found._replace(type=type_)


def _rank(value: Typed, node: exp.Expr) -> Term:
    """Return a value as one that is in the order of its type."""
    return (
        convert(value, INTEGER, node).term if value.type == BOOLEAN else in_order(value, node).term
    )


def _same(node: exp.Expr, value: Value) -> Typed:
    left, right = alike(node, value(node.this), value(node.expression))
    term = call("same", left.term, right.term)
    return Typed(term if isinstance(node, exp.NullSafeEQ) else call("not", term), BOOLEAN, False)


def _is(node: exp.Expr, value: Value) -> Typed:
    inner, other = value(node.this), node.expression
    if isinstance(other, exp.Boolean) and inner.type.is_number:
        inner = convert(inner, BOOLEAN, node)
    if isinstance(other, exp.Null):
        if not inner.nullable:
            return Typed(Lit(False, "bool"), BOOLEAN, False)
        term = amount(inner) if inner.type == INTERVAL else inner.term
        return Typed(call("is_null", term), BOOLEAN, False)
    return Typed(call("same", inner.term, value(other).term), BOOLEAN, False)


def _junction(node: exp.Expr, value: Value) -> Typed:
    parts = [_truth(value(one), one) for one in operands(node)]
    name = "and" if isinstance(node, exp.And) else "or"
    return Typed(
        call(name, *(one.term for one in parts)), BOOLEAN, any(part.nullable for part in parts)
    )


def operands(node: exp.Expr) -> list[exp.Expr]:
    """Return what a chain of ANDs, or of ORs, joins, from the left to the right."""
    kind, last = type(node), list[exp.Expr]()
    while type(node) is kind:
        last.append(node.expression)
        node = node.this
    return [node, *reversed(last)]


def _not(node: exp.Expr, value: Value) -> Typed:
    inner = _truth(value(node.this), node.this)
    return Typed(call("not", inner.term), BOOLEAN, inner.nullable)


def _truth(value: Typed, node: exp.Expr) -> Typed:
    """Return a condition, which a number is where it is not 0.  SqlError for another type."""
    if value.type not in (BOOLEAN, NULL) and not value.type.is_number:
        raise SqlError(
            f"a condition is wanted, and this is {value.type}: compare it with a value", node
        )
    return convert(value, BOOLEAN, node)


def _between(node: exp.Expr, value: Value) -> Typed:
    both = exp.And(
        this=exp.GTE(this=node.this, expression=node.args["low"]),
        expression=exp.LTE(this=node.this, expression=node.args["high"]),
    )
    return value(both)


def _in(node: exp.Expr, value: Value) -> Typed:
    found: exp.Expr | None = None
    for item in node.expressions:
        test = exp.EQ(this=node.this, expression=item)
        found = test if found is None else exp.Or(this=found, expression=test)
    if found is None:
        raise SqlError("IN takes a list of values or a subquery", node)
    return value(found)


def _cast(node: exp.Expr, value: Value) -> Typed:
    assert isinstance(node, exp.Cast)
    type_, inner = sql_type(node.to), value(node.this)
    if not isinstance(node, exp.TryCast):
        return convert(inner, type_, node, tried=False)
    try:
        return convert(inner, type_, node, tried=True)
    except NoValueError:
        return Typed(Lit(None, type_.store), type_, True)


def _tried(node: exp.Expr, value: Value) -> Typed:
    """TRY: null where the expression has no value."""
    try:
        operand = value(node.this)
    except NoValueError:
        return Typed(Lit(None, "int64"), NULL, True)
    return Typed(call("try", _checked(operand.term, operand.type)), operand.type, True)


def _checked(term: Term, type_: SqlType) -> Term:
    """Return what is computed of integers, without a value beyond its type."""
    return fitted(term, BIGINT, type_) if type_.is_integer and isinstance(term, Call) else term


def _type_of(node: exp.Expr, value: Value) -> Typed:
    return Typed(Lit(str(value(node.this).type), "string"), VARCHAR, False)


# -- numbers


def _rounded(node: exp.Expr, value: Value) -> Typed:
    number = value(node.this)
    digits = value(node.args["decimals"]) if node.args.get("decimals") is not None else None
    if digits is not None and not isinstance(digits.term, Lit):
        raise SqlError("round takes a constant number of digits", node)
    places = (
        int(str(digits.term.value)) if digits is not None and isinstance(digits.term, Lit) else 0
    )
    if number.type.is_integer:
        if number.type.name in UNSIGNED:
            number = convert(number, BIGINT, node)
        if places >= 0:
            return number
        return number._replace(
            term=fitted(call("round", number.term, Lit(places, "int64")), BIGINT, number.type)
        )
    type_ = number.type
    if type_.is_decimal:
        scale = min(places, type_.scale)
        if places >= type_.scale and digits is not None:
            return number
        more = places < 0 and not type_.scale
        type_ = type_._replace(scale=max(scale, 0), precision=min(type_.precision + more, MOST))
    term = call("round", number.term, Lit(places, "int64"))
    return Typed(call("float:single", term) if type_ == FLOAT else term, type_, number.nullable)


def _stepped(node: exp.Expr, value: Value) -> Typed:
    number = value(node.this)
    name = "floor" if isinstance(node, exp.Floor) else "ceil"
    if number.type.is_integer:
        number = convert(number, DOUBLE, node)
    type_ = number.type._replace(scale=0)
    return Typed(call(name, number.term), type_, number.nullable)


def _absolute(node: exp.Expr, value: Value) -> Typed:
    number = value(node.this)
    if not number.type.is_number:
        raise SqlError(f"abs takes a number, and this is {number.type}", node)
    return number._replace(term=_checked(call("abs", number.term), number.type))


def _cut(node: exp.Expr, value: Value) -> Typed:
    number = value(node.this)
    if node.args.get("decimals") is not None:
        raise SqlError("trunc takes one argument: write floor or round with digits", node)
    if number.type.is_integer:
        return number
    type_ = number.type._replace(scale=0)
    upward = call(
        "<", number.term, convert(Typed(Lit(0, "int64"), INTEGER, False), number.type).term
    )
    term = call("if", upward, call("ceil", number.term), call("floor", number.term))
    return Typed(term, type_, number.nullable)


def _bits(node: exp.Expr, value: Value) -> Typed:
    args = [value(node.this)] + (
        [value(node.expression)] if node.args.get("expression") is not None else []
    )
    if any(arg.type != NULL and (arg.type.wide or not arg.type.is_integer) for arg in args):
        raise SqlError("operators of bits take integers of 64 bits", node)
    if NULL in (args[0].type, args[-1].type):
        return _null_beside(args[0], args[-1])
    type_ = _integer_type(*args) if len(args) > 1 else args[0].type
    nullable, terms = any(one.nullable for one in args), [one.term for one in args]
    if isinstance(node, exp.BitwiseLeftShift):
        terms[0] = call("within", terms[0], Lit(0, "int64"), Lit(2**63 - 1, "int64"))
    if isinstance(node, exp.BitwiseRightShift):
        return Typed(_shifted(terms[0], terms[1], type_), type_, nullable)
    if isinstance(node, exp.BitwiseNot) and type_.name in UNSIGNED and type_.range is not None:
        return Typed(
            fitted(call("-", Lit(int(type_.range[1]), "int64"), terms[0]), BIGINT, type_),
            type_,
            nullable,
        )
    return Typed(_checked(call(_BITS[type(node)], *terms), type_), type_, nullable)


def _shifted(number: Term, by: Term, type_: SqlType) -> Term:
    """Return a number shifted to the right: 0 if by less than 0, or by all its type's bits."""
    least, most = Lit(0, "int64"), Lit(BITS[type_.name] + (type_.name not in UNSIGNED), "int64")
    within = call("and", call(">=", by, least), call("<", by, most))
    term = call("if", within, call("shift_right", number, by), least)
    return call(
        "if", call("or", call("is_null", number), call("is_null", by)), Lit(None, "int64"), term
    )


def _collated(node: exp.Expr, value: Value) -> Typed:
    if node.expression.name.upper() in ("C", "POSIX", "BINARY"):
        return value(node.this)
    raise SqlError(
        f"{written(node)[:60]}: texts compare by code points; compare lower(x), or "
        "strip_accents(x)",
        node,
    )


_FAMILIES: list[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr, Value], Typed]]] = [
    ((exp.Add, exp.Sub, exp.Mul), _arithmetic), ((exp.Div,), _divided),
    ((exp.IntDiv,), _whole_divided), ((exp.Mod,), _remainder), ((exp.Neg,), _minus),
    *times.FAMILIES, *texts.FAMILIES, *numbers.FAMILIES, ((exp.Case, exp.If), _case),
    ((exp.Coalesce,), _coalesce), ((exp.Nullif,), _nullif), ((exp.Greatest, exp.Least), _extreme),
    ((exp.NullSafeEQ, exp.NullSafeNEQ), _same), ((exp.Is,), _is), ((exp.And, exp.Or), _junction),
    ((exp.Not,), _not), ((exp.Between,), _between), ((exp.In,), _in), ((exp.Cast,), _cast),
    ((exp.Date,), lambda node, value: _cast(exp.Cast(this=node.this, to=exp.DataType.build("DATE")), value)),
    ((exp.Try,), _tried), ((exp.Typeof,), _type_of), ((exp.Collate,), _collated),
    ((*_BITS,), _bits), ((exp.Round,), _rounded), ((exp.Floor, exp.Ceil), _stepped),
    ((exp.Abs,), _absolute), ((exp.Trunc,), _cut),
]  # fmt: skip
_NAMED: dict[str, Callable[[exp.Expr, Value], Typed]] = {
    **times.NAMED, **texts.NAMED, **numbers.NAMED, **dialects.NAMED,
    **rows.NAMED, QUOTIENT: _quotient,
}  # fmt: skip
