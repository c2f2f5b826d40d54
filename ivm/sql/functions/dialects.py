"""What tables of dialects are written with, besides DuckDB's functions: names that DuckDB does not
have.

by_type(x, 'decimal', a, 'integer text', b, c)     a, b or, for all other types, c, by the type of x
refused('words')                                   an error of the statement
failing(x, 'words')                                an error of the row, of the type of x
spark_cast(x, 'INTEGER'), spark_text(x) ...        as in the dialect
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from sqlglot import exp

from ivm.sql.conversions import call, concat, convert, is_null_constant
from ivm.sql.errors import SqlError
from ivm.sql.functions.times import Value
from ivm.sql.literals import NoValueError, number, sql_type
from ivm.sql.terms import Lit, Term, Typed
from ivm.sql.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    KINDS,
    MOST,
    NULL,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    SqlType,
    as_decimal,
    decimal,
    parsed,
)

RANGED = "ranged"  # of a node `+`, `-` or `*`: whether a float beyond its range is an error


def kind(type_: SqlType) -> str:
    """Return the word by which `by_type` knows a type."""
    if type_.element is not None:
        return "list"
    if type_.is_integer or type_.is_float or type_.is_decimal:
        return "integer" if type_.is_integer else "float" if type_.is_float else "decimal"
    words = {
        "VARCHAR": "text", "ENUM": "text", "UUID": "text", "TUPLE": "struct",
        TIMESTAMPTZ.name: "timestamptz",
    }  # fmt: skip
    return words.get(type_.name, type_.name.lower())


def _by_type(node: exp.Expr, value: Value) -> Typed:
    inner, *rest = node.expressions
    type_ = value(inner).type
    own = {kind(type_), type_.name.lower()}
    while len(rest) > 1:
        kinds, found, *rest = rest
        if own & {*kinds.name.split()}:
            return value(found)
    if not rest:
        raise SqlError(f"{type_} is not what this function takes", node)
    return value(rest[0])


def _stored_as(node: exp.Expr, value: Value) -> Typed:
    """stored_as(x, 'INTEGER[]'): the text that is stored of a list, a struct or a map, as one."""
    return value(node.expressions[0])._replace(type=parsed(node.expressions[1].name))


def _refused(node: exp.Expr, _value: Value) -> Typed:
    raise SqlError(node.expressions[0].name, node)


def _failing(node: exp.Expr, value: Value) -> Typed:
    like, words = value(node.expressions[0]), node.expressions[1].name
    return like._replace(term=_never(like, words, node))


def _never(like: Typed, words: str, node: exp.Expr) -> Term:
    """Return a term of the type of a value that fails, whatever the value."""
    shown = like.term if like.type.is_nested else convert(like, VARCHAR, node).term
    value = call("coalesce", shown, Lit("", "string"))
    text = call("string:concat", Lit(f"{words}: ", "string"), value)
    return call("if", call("=", call("int", text), Lit(0, "int64")), like.term, like.term)


def _same_type(node: exp.Expr, value: Value) -> Typed:
    """as_type(x, y): x as a value of the type of y."""
    given, like = (value(one) for one in node.expressions)
    return convert(given, like.type, node)


# -- casts


def _as_text(value: Typed, dialect: str, node: exp.Expr) -> Typed:
    """Return a value as a text, where a DOUBLE is written as the dialect does."""
    of_decimal = node.name == "sqlite_cast" and "DECIMAL" in node.expressions[-1].name
    if dialect == "sqlite" and (value.type.is_decimal or (value.type.is_float and of_decimal)):
        return _sqlite_decimal(value, node)
    if value.type == FLOAT and dialect == "postgres":
        return _of_text("postgres:single", value, VARCHAR)
    if value.type == FLOAT:  # as the double that has its digits
        value = value._replace(term=call("float", call("string:single", value.term)))
    if value.type.is_float:
        return _of_text(f"{dialect}:number", value, VARCHAR)
    if value.type.is_decimal:  # with the zero before the point, which DuckDB may leave out
        value = value._replace(type=value.type._replace(precision=MOST + 1))
    if value.type == TIMESTAMPTZ and dialect != "postgres":
        value = convert(value, TIMESTAMP, node)
    if dialect == "sqlite" and value.type == BOOLEAN:
        value = convert(value, INTEGER, node)
    return convert(value, VARCHAR, node)


def _sqlite_decimal(value: Typed, node: exp.Expr) -> Typed:
    """Return the text of a number of DECIMAL, of which SQLite keeps a whole one as INTEGER."""
    if isinstance(value.term, Lit) and node.name != "sqlite_cast":
        return _as_text(convert(value, DOUBLE, node), "sqlite", node)
    if value.type.is_float or not isinstance(node.unnest(), exp.Column):
        raise SqlError("a DECIMAL that is computed has a text of its own: CAST it to REAL", node)
    return _of_text("sqlite:decimal", value, VARCHAR)


def _cut(value: Typed, node: exp.Expr) -> Typed:
    """Return a number without its fraction."""
    zero = convert(Typed(Lit(0, "int64"), INTEGER, False), value.type, node)
    below = call("<", value.term, zero.term)
    term = call("if", below, call("ceil", value.term), call("floor", value.term))
    return Typed(term, value.type._replace(scale=0), value.nullable)


def _of_text(term: str, value: Typed, type_: SqlType) -> Typed:
    return Typed(call(term, value.term), type_, value.nullable)


def _spark_cast(value: Typed, wanted: SqlType, node: exp.Expr) -> Typed:
    """Cast as Spark does by `spark.sql.ansi.enabled`: fractions are cut, a text is all a number."""
    own = value.type
    if wanted == VARCHAR:
        return _as_text(value, "spark", node)
    if own == VARCHAR and not is_null_constant(value):
        return _spark_read(value, wanted, node)
    if wanted.is_integer and (own.is_float or own.is_decimal):
        return convert(_cut(value, node), wanted, node)
    if own in (TIMESTAMP, TIMESTAMPTZ) and wanted.is_number:
        return _spark_seconds(value, wanted, node)
    if own.is_number and wanted == TIMESTAMPTZ:
        seconds = convert(value, DOUBLE, node).term
        micros = call("int", call("floor", call("*", seconds, Lit(1e6, "float64"))))
        if own.is_integer:
            micros = call("*", value.term, Lit(10**6, "int64"))
        return convert(Typed(call("+", _epoch(), micros), TIMESTAMP, value.nullable), wanted, node)
    if own.is_float and wanted.is_decimal:
        exact = call("decimal", value.term, Lit(wanted.scale, "int64"))
        return convert(Typed(exact, decimal(18, wanted.scale), value.nullable), wanted, node)
    return convert(value, wanted, node)


def _epoch() -> Term:
    from ivm.sql.functions.times import EPOCH

    return Lit(EPOCH, "timestamp")


def _spark_seconds(value: Typed, wanted: SqlType, node: exp.Expr) -> Typed:
    """Return the seconds since 1970, of which a whole number has those that are over."""
    micros = call("-", convert(value, TIMESTAMP, node).term, _epoch())
    seconds = call("ratio", call("float", micros), Lit(1e6, "float64"))
    if not wanted.is_integer:
        return convert(Typed(seconds, DOUBLE, value.nullable), wanted, node)
    return convert(Typed(call("int", call("floor", seconds)), BIGINT, value.nullable), wanted, node)


_TRUTHS = ("t true y yes 1", "f false n no 0")


def _spark_read(value: Typed, wanted: SqlType, node: exp.Expr) -> Typed:
    if wanted.is_integer:
        return convert(_of_text("spark:whole", value, BIGINT), wanted, node)
    if wanted.is_float:
        return convert(_of_text("spark:float", value, DOUBLE), wanted, node)
    if reads := KINDS[wanted.name].spark_reads:
        own = TIMESTAMP if wanted == TIMESTAMPTZ else wanted
        return convert(_of_text(reads, value, own), wanted, node)
    text = value._replace(term=call("string:trim", value.term))
    if wanted == BOOLEAN:
        word = call("string:lower", text.term)
        yes, no = ([Lit(one, "string") for one in words.split()] for words in _TRUTHS)
        known, truth = call("in", word, *yes, *no), call("in", word, *yes)
        wrong = _never(Typed(truth, BOOLEAN, value.nullable), "no truth value", node)
        return Typed(call("if", known, truth, wrong), BOOLEAN, value.nullable)
    return convert(text, wanted, node)


def _postgres_cast(value: Typed, wanted: SqlType, node: exp.Expr) -> Typed:
    if wanted == VARCHAR:
        return _as_text(value, "postgres", node)
    if value.type == VARCHAR and not is_null_constant(value):
        text = value._replace(term=call("string:trim", value.term, Lit(" \t\n\r\f\v", "string")))
        if wanted == BOOLEAN:
            return _of_text("postgres:truth", text, BOOLEAN)
        if wanted.is_integer:
            return convert(_of_text("spark:whole", text, BIGINT), wanted, node)
        if wanted in _MOMENTS:
            text = text._replace(term=call(_MOMENTS[wanted], text.term))
        return convert(text, wanted, node)
    if value.type.is_float and wanted.is_decimal:
        digits = Lit(6 if value.type == FLOAT else 15, "int64")
        text = Typed(call("postgres:shortened", value.term, digits), VARCHAR, value.nullable)
        return convert(text, wanted, node)
    if value.type == DOUBLE and wanted == FLOAT:
        return _of_text("postgres:as_single", value, FLOAT)
    if value.type == BOOLEAN and wanted.is_number and wanted != INTEGER:
        raise SqlError(
            f"PostgreSQL has no cast from boolean to {wanted}: CAST it to integer first", node
        )
    return convert(value, wanted, node)


_MOMENTS = {
    TIMESTAMP: "postgres:moment", TIMESTAMPTZ: "postgres:moment", TIME: "postgres:clock",
}  # fmt: skip


def _sqlite_cast(value: Typed, wanted: SqlType, node: exp.Expr) -> Typed:
    """Cast as SQLite does: a text is the number with which it begins, and fractions are cut."""
    own = value.type
    if wanted == VARCHAR:
        return _as_text(value, "sqlite", node.expressions[0])
    if own == VARCHAR and wanted.is_integer and not is_null_constant(value):
        return convert(_of_text("sqlite:whole", value, BIGINT), wanted, node)
    if own == VARCHAR and (wanted.is_float or wanted.is_decimal) and not is_null_constant(value):
        return _of_text("sqlite:real", value, DOUBLE)
    if wanted.is_integer and own.is_float:
        most = Lit(float(2**63), "float64")
        low, high = (Lit(one, "int64") for one in (-(2**63) + 1, 2**63 - 1))
        whole = convert(_cut(value, node), wanted, node).term
        beyond = call("if", call(">", value.term, Lit(0.0, "float64")), high, low)
        term = call("if", call(">=", call("abs", value.term), most), beyond, whole)
        return Typed(term, wanted, value.nullable)
    if wanted.is_integer and own.is_decimal:
        return convert(_cut(value, node), wanted, node)
    return value if wanted.is_decimal and own.is_number else convert(value, wanted, node)


_CASTS: dict[str, Callable[[Typed, SqlType, exp.Expr], Typed]] = {
    "spark": _spark_cast, "postgres": _postgres_cast, "sqlite": _sqlite_cast,
}  # fmt: skip


def converts(value: Typed, type_: SqlType) -> bool:
    """Return whether dialects may differ in what a value is in a column of a type."""
    own = value.type
    if is_null_constant(value):
        return False
    if type_ == BOOLEAN:
        return own.is_number and not (isinstance(value.term, Lit) and value.term.value in (0, 1))
    fraction = own.is_float or own.is_decimal
    if type_ == VARCHAR:
        return fraction or own == BOOLEAN
    return fraction and type_.is_integer


def given(value: Typed, type_: SqlType, dialect: str, node: exp.Expr) -> Typed:
    """Return a value as INSERT and UPDATE of a dialect give it to a column of a type.  Raises
    SqlError for one that SQLite would keep as it is.
    """
    if dialect not in _CASTS or not converts(value, type_):
        return value
    if dialect == "sqlite" and type_ != VARCHAR:
        raw = value.term.value if isinstance(value.term, Lit) else None
        whole = isinstance(raw, int | float | Decimal) and raw % 1 == 0
        if type_ == BOOLEAN or not whole:
            raise SqlError(
                f"SQLite keeps a number that is no {type_} in a column of that type: write "
                f"{'x <> 0' if type_ == BOOLEAN else 'CAST(x AS INTEGER), or round(x)'}",
                node,
            )
    return _CASTS[dialect](value, type_, node)


def _cast(node: exp.Expr, value: Value) -> Typed:
    """spark_cast(x, 'INTEGER') and the like; PostgreSQL's 'DECIMAL' has the value's digits."""
    inner, type_ = node.expressions
    if type_.name == "DECIMAL" and node.name.lower() == "postgres_cast":
        return _of_any_digits(value(inner), node)
    wanted = sql_type(exp.DataType.build(type_.name, dialect="duckdb", udt=True))
    return _CASTS[node.name.lower().partition("_")[0]](value(inner), wanted, node)


def _of_any_digits(value: Typed, node: exp.Expr) -> Typed:
    if value.type.is_integer:
        return convert(value, as_decimal(value.type), node)
    if value.type.is_decimal or value.type.is_float or is_null_constant(value):
        return value
    if value.type == VARCHAR and isinstance(value.term, Lit):
        try:
            return number(str(value.term.value).strip(), node)
        except (ValueError, ArithmeticError):
            raise SqlError(f"{value.term.value!r} is not a number", node) from None
    raise SqlError(f"a number of {value.type} has any number of digits: write NUMERIC(p, s)", node)


def _try_cast(node: exp.Expr, value: Value) -> Typed:
    """try_spark_cast(x, 'INTEGER'): null where the cast has no value."""
    inner, type_ = node.expressions
    wanted = sql_type(exp.DataType.build(type_.name, dialect="duckdb", udt=True))
    try:
        found = _spark_cast(value(inner), wanted, node)
    except SqlError:
        if isinstance(value(inner).term, Lit):
            return Typed(Lit(None, wanted.store), wanted, True)
        raise
    return Typed(call("try", found.term), wanted, True)


def _text_of(node: exp.Expr, value: Value) -> Typed:
    """spark_text(x) and the like."""
    inner = node.expressions[0]
    return _as_text(value(inner), node.name.lower().partition("_")[0], inner)


# -- operators


def _divided(node: exp.Expr, value: Value) -> Typed:
    """spark_divide(x, y) and the like: `/`, whose quotient of decimals is one, and of integers
    may be an integer.
    """
    dialect = node.name.lower().partition("_")[0]
    left, right = (value(one) for one in node.expressions)
    for one in (left, right):
        if not one.type.is_number and not is_null_constant(one):
            raise SqlError(f"`/` takes numbers, and this is {one.type}: CAST it", node)
    if isinstance(right.term, Lit) and right.term.value == 0:
        if dialect == "sqlite":
            return Typed(Lit(None, "int64"), NULL, True)
        raise NoValueError("`/` divides by zero", node)
    nullable = left.nullable or right.nullable
    integers = left.type.is_integer and right.type.is_integer
    if dialect != "spark" and integers:
        type_ = BIGINT if BIGINT in (left.type, right.type) else INTEGER
        found = Typed(call("/", left.term, right.term), type_, nullable)
    elif dialect == "spark" and not integers and not (left.type.is_float or right.type.is_float):
        found = _exact_quotient(left, right)
    else:
        over, under = (convert(one, DOUBLE, node) for one in (left, right))
        found = Typed(call("ratio", over.term, under.term), DOUBLE, nullable)
        if dialect == "postgres":
            pair = (left, right) if left.type == right.type else (over, under)
            found = ranged("quotient", *pair)
    return _unless_zero(right, found, dialect, node)


def ranged(operation: str, left: Typed, right: Typed) -> Typed:
    """Return arithmetic of floats of one type, which fails beyond its range."""
    term = call(f"postgres:{operation}", left.term, right.term)
    nullable = left.nullable or right.nullable
    if left.type == FLOAT:
        term = call("postgres:as_single", term)
    return Typed(term, left.type, nullable)


def _unless_zero(divisor: Typed, found: Typed, dialect: str, node: exp.Expr) -> Typed:
    """Return a quotient that is null for a divisor of 0 in SQLite, and an error elsewhere."""
    if is_null_constant(divisor) or (isinstance(divisor.term, Lit) and divisor.term.value):
        return found
    zero = convert(Typed(Lit(0, "int64"), INTEGER, False), divisor.type, node)
    is_zero = call("=", divisor.term, zero.term)
    if dialect == "sqlite":
        return Typed(call("if", is_zero, Lit(None, found.type.store), found.term), found.type, True)
    zero = convert(Typed(Lit(0, "int64"), INTEGER, False), found.type, node)
    return found._replace(
        term=call("if", is_zero, _never(zero, "division by zero", node), found.term)
    )


def _exact_quotient(left: Typed, right: Typed) -> Typed:
    """Return the quotient of decimals with the digits that Spark gives it."""
    first, second = _digits(left), _digits(right)
    scale = max(6, first.scale + second.precision + 1)
    precision = first.precision - first.scale + second.scale + scale
    if precision > 38:
        scale = max(38 - (precision - scale), min(scale, 6))
    return _quotient(left, right, scale)


def _digits(value: Typed) -> SqlType:
    """Return the decimal type that Spark has for a number: a constant has its own digits, and a
    sum those of a word.
    """
    if isinstance(value.term, Lit) and value.type.is_integer:
        return SqlType("DECIMAL", len(str(abs(int(str(value.term.value))))), 0)
    own = as_decimal(value.type)
    return own if own.wide else own._replace(precision=min(own.precision, 18))


def _quotient(left: Typed, right: Typed, scale: int) -> Typed:
    """Return a quotient of decimals with so many digits after the point, halves away from zero."""
    wide = scale > 9 or left.type.wide or right.type.wide
    if wide and not left.type.wide:
        left = convert(left, SqlType("DECIMAL", MOST, as_decimal(left.type).scale, wide=True))
    term = call("divide", left.term, right.term, Lit(scale, "int64"))
    return Typed(term, SqlType("DECIMAL", MOST, scale, wide=wide), left.nullable or right.nullable)


def _shifted(node: exp.Expr, value: Value) -> Typed:
    """shift_left(x, n) and shift_right(x, n): `<<` and `>>`, which keep 32 bits of an INTEGER and
    64 of a BIGINT; postgres_shift_left 16 of a SMALLINT.
    """
    number_, count = (value(one) for one in node.expressions)
    of_16 = number_.type.name == "SMALLINT" and node.name.startswith("postgres")
    bits = 64 if number_.type.name == "BIGINT" else 16 if of_16 else 32
    type_ = {64: BIGINT, 32: INTEGER, 16: number_.type}[bits]
    nullable = number_.nullable or count.nullable
    places = call("bit_and", count.term, Lit(63 if bits == 64 else 31, "int64"))
    if node.name.endswith("right"):
        return Typed(call("bshr", number_.term, places), type_, nullable)
    if bits == 64:
        return Typed(call("bshl", number_.term, places), BIGINT, nullable)
    most = Lit(2**bits - 1, "int64")
    moved = call("bit_and", call("bshl", call("bit_and", number_.term, most), places), most)
    beyond = call(">=", moved, Lit(2 ** (bits - 1), "int64"))
    signed = call("if", beyond, call("-", moved, Lit(2**bits, "int64")), moved)
    return Typed(signed, type_, nullable)


def _joined(node: exp.Expr, value: Value) -> Typed:
    """spark_concat(x, y) and the like: `||`, of values as the dialect writes; null if one is."""
    dialect = node.name.lower().partition("_")[0]
    values = [value(one) for one in node.expressions]
    like = next((each for each in values if each.type.element is not None), None)
    if dialect == "postgres" and like is not None:
        none = like._replace(term=Lit(None, like.type.store), nullable=True)
        pairs = zip(node.expressions, values, strict=True)
        lists = [v if v.type.element else value(exp.Array(expressions=[e])) for e, v in pairs]
        known = [none if v.type == NULL else x for v, x in zip(values, lists, strict=True)]
        return _lists_joined(known, node)
    if like is not None:
        first, *rest = node.expressions
        for part in rest:
            first = exp.DPipe(this=first, expression=part)
        return value(first)
    texts = [_as_text(one, dialect, own) for one, own in zip(values, node.expressions, strict=True)]
    return Typed(concat(*(one.term for one in texts)), VARCHAR, any(one.nullable for one in texts))


def _lists_joined(values: list[Typed], node: exp.Expr) -> Typed:
    """Return each list of several, null if all are."""
    from ivm.sql.functions.lists import together

    empty = Lit("", "string")
    is_null = call("and", *(call("is_null", each.term) for each in values))
    given = [
        each._replace(term=call("coalesce", each.term, empty), nullable=False) for each in values
    ]
    joined, nullable = together(node, given), all(each.nullable for each in values)
    term = (
        call("if", is_null, Lit(None, joined.type.store), joined.term) if nullable else joined.term
    )
    return joined._replace(term=term, nullable=nullable)


def _average(node: exp.Expr, value: Value) -> Typed:
    """spark_average(sum, count): the mean, of decimals with four more digits; else a DOUBLE."""
    total, count = (value(one) for one in node.expressions)
    if not total.type.is_decimal:
        over, under = (convert(one, DOUBLE, node) for one in (total, count))
        return Typed(call("ratio", over.term, under.term), DOUBLE, True)
    scale = min(total.type.scale + 4, MOST)
    return _quotient(total, count, scale)


def _moved(node: exp.Expr, value: Value) -> Typed:
    """spark_moved(d, '+', interval): a date that is moved by days or months is a date."""
    moment, sign, interval = node.expressions
    kind_ = exp.Add if sign.name == "+" else exp.Sub
    own = value(moment)
    operand = value(kind_(this=moment, expression=interval))
    whole = (
        isinstance(interval, exp.Interval)
        and str(interval.args["unit"].name).upper().rstrip("S") in _DAYS
    )
    if own.type == DATE and whole:
        return convert(operand, DATE, node)
    return convert(operand, TIMESTAMPTZ, node) if own.type == DATE else operand


_DAYS = ("DAY", "WEEK", "MONTH", "QUARTER", "YEAR")


def _between(node: exp.Expr, value: Value) -> Typed:
    """spark_minus(x, y): a difference, which of dates is the time between them."""
    left, right = node.expressions
    if value(left).type == value(right).type == DATE:
        left, right = (exp.cast(one, "TIMESTAMP") for one in (left, right))
    return value(exp.Sub(this=left, expression=right))


NAMED: dict[str, Callable[[exp.Expr, Value], Typed]] = {
    "by_type": _by_type, "stored_as": _stored_as, "refused": _refused, "failing": _failing,
    "as_type": _same_type, **{f"{dialect}_cast": _cast for dialect in _CASTS},
    **{f"{dialect}_text": _text_of for dialect in _CASTS},
    **{f"{dialect}_divide": _divided for dialect in _CASTS},
    **{f"{dialect}_concat": _joined for dialect in _CASTS}, "try_spark_cast": _try_cast,
    "spark_average": _average, "spark_moved": _moved, "spark_minus": _between,
    **{f"{name}shift_{side}": _shifted for name in ("", "postgres_") for side in ("left", "right")},
}  # fmt: skip
