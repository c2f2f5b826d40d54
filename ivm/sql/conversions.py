"""Values of one type as values of another, as CAST and comparisons need them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from decimal import Decimal
from typing import NamedTuple

from sqlglot import exp

from ivm.sql.errors import SqlError
from ivm.sql.literals import EXACT_MOST, converted, number
from ivm.sql.terms import Call, Lit, Term, Typed, Var
from ivm.sql.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DIGITS,
    DOUBLE,
    FEW,
    FLOAT,
    INTEGER,
    INTERVAL,
    JSON,
    KINDS,
    LONG,
    MOST,
    NULL,
    OF_TIMES,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    SqlType,
    as_decimal,
    common,
    list_of,
)

CONCAT = "string:concat"
# that of Spark's session, where it is not UTC, while a view of it is translated
SESSION_ZONE: ContextVar[str | None] = ContextVar("session_zone", default=None)


def call(name: str, *args: Term) -> Call:
    """Return the call of a function of rules, by its name there."""
    return Call(name, args)


def concat(*parts: Term) -> Term:
    """Return texts one after the other, as one call."""
    flat = [
        piece
        for part in parts
        for piece in (part.args if isinstance(part, Call) and part.name == CONCAT else (part,))
    ]
    return flat[0] if len(flat) == 1 else Call(CONCAT, tuple(flat))


def is_null_constant(value: Typed) -> bool:
    """Return whether a value is the constant NULL."""
    return isinstance(value.term, Lit) and value.term.value is None


def convert(
    value: Typed, type_: SqlType, node: exp.Expr | None = None, tried: bool | None = None
) -> Typed:
    """Return a value in another type, as CAST does, or TRY_CAST if it is `tried`; None if neither
    is written, and lists have no text.  Raises SqlError if there is none.
    """
    if TIMESTAMPTZ in (value.type, type_) and value.type not in (type_, NULL):
        refuse_other_zones(node)
    result = _converted(value, type_, node, tried)
    if not tried or _always_fits(value.type, type_):
        return result
    return Typed(call("try", result.term), type_, True)


def _always_fits(own: SqlType, type_: SqlType) -> bool:
    """Return whether every value of a type is one of another."""
    if (
        type_ in (own, VARCHAR)
        or (type_ == DOUBLE and own.is_number)
        or (own == DATE and type_ == TIMESTAMP)
    ):
        return True
    if own.is_integer and type_.is_integer:
        return common(own, type_) == type_
    return (own == TIMESTAMP and type_ == DATE) or (own == BOOLEAN and type_.is_integer)


def _converted(value: Typed, type_: SqlType, node: exp.Expr | None, tried: bool | None) -> Typed:
    given, null = value.type, is_null_constant(value)
    if type_.is_nested and given in (VARCHAR, JSON) and not null:
        shape = Lit(json.dumps(_shape(type_)), "string")
        how = [] if given == JSON else [Lit(int(bool(tried)), "int64")]
        read = call("list:of_json" if given == JSON else "list:read", value.term, shape, *how)
        return convert(Typed(read, _of_texts(type_), True), type_, node, tried)
    of_json = type_ == JSON and given not in (VARCHAR, JSON, NULL)
    if (of_json or (type_ == VARCHAR and given.is_nested)) and tried is not None and not null:
        text = shown(value._replace(nullable=False), node, AS_JSON if of_json else PLAIN)
        return Typed(unless_null(value, text), type_, value.nullable)
    if (
        isinstance(value.term, Lit)
        and (null or not (given.is_nested or type_.is_nested))
        and (given != JSON or type_ in (VARCHAR, JSON))
    ):
        return converted(value, type_, node)
    if given == type_:
        return value
    if given == NULL:  # as a column of a subquery that is null throughout
        return Typed(Lit(None, type_.store), type_, True)
    if given.is_nested or type_.is_nested:
        return _nested(value, type_, node, tried)
    if type_.words:
        if given != VARCHAR and not given.words:
            raise SqlError(f"{given} is not converted to {type_}: CAST it to VARCHAR first", node)
        word = convert(value, VARCHAR, node)
        return Typed(
            in_words(call("string:place", word_list(type_), word.term), type_),
            type_,
            value.nullable,
        )
    term = value.term if _is_alike(given, type_) else _conversion(value, type_, node)
    return Typed(fitted(term, given, type_), type_, value.nullable)


def _shape(type_: SqlType) -> object:
    """Return of what a nested type has values, as list:read takes it; None for any other."""
    if type_.name == "STRUCT":
        return [type_.name, {name: _shape(of) for name, of in type_.fields}]
    of = [type_.element] if type_.element else [of for _, of in type_.fields]
    return [type_.name, *map(_shape, of)] if of else None


def _of_texts(type_: SqlType) -> SqlType:
    """Return a nested type with texts in place of its values that are not nested."""
    if type_.element is not None:
        return list_of(_of_texts(type_.element))
    fields = tuple((name, _of_texts(of)) for name, of in type_.fields)
    return type_._replace(fields=fields) if fields else VARCHAR


def refuse_other_zones(node: exp.Expr | None) -> None:
    """Raise SqlError if the session's zone is not UTC, for a value that depends on it."""
    if zone := SESSION_ZONE.get():
        raise SqlError(
            f"this depends on the session's time zone, {zone}, and views are in UTC: set "
            "spark.sql.session.timeZone to UTC, or take TIMESTAMP_NTZ",
            node,
        )


def fitted(term: Term, own: SqlType, type_: SqlType) -> Term:
    """Return a number of one type as one of another, without a value beyond the range of that."""
    if type_.range is None or type_.holds(own):
        return term
    low, high = (Lit(int(one) if type_.is_integer else one, type_.store) for one in type_.range)
    return call("within", term, low, high)


def _is_alike(own: SqlType, type_: SqlType) -> bool:
    """Return whether each value of a type is stored as the same value of another type is."""
    if {FLOAT, UUID, JSON, INTERVAL} & {own, type_}:
        return (own, type_) in ((FLOAT, DOUBLE), (UUID, VARCHAR), (JSON, VARCHAR))
    if own.is_decimal and type_.is_decimal:
        return (own.scale, own.wide) == (type_.scale, type_.wide) and (
            not own.wide or own.precision <= type_.precision
        )
    return own.store == type_.store


def _nested(value: Typed, type_: SqlType, node: exp.Expr | None, tried: bool | None) -> Typed:
    """Return a list, a struct or a map as one of another type, whose values are converted one by
    one; where it is `tried`, those that have no value there are null.  Raises SqlError.
    """
    given = value.type
    if _written_alike(given, type_):
        return value._replace(type=type_)
    if given.fields and given.name != "MAP" and type_.name == "STRUCT":
        return _by_fields(value, type_, node, tried)
    if given.element is not None and type_.element is not None:
        made = convert(of_json(Var("x"), given.element, node), type_.element, node, tried)
        return Typed(for_each(value.term, as_json(made, node)), type_, value.nullable)
    if given.name != "MAP" or type_.name != "MAP":
        more = " by itself" if type_ in (VARCHAR, JSON) else ""
        raise SqlError(f"{given} is not converted to {type_}{more}", node)
    keys, values = (
        convert(column_of(value, n), list_of(type_.fields[n][1]), node, tried and bool(n))
        for n in (0, 1)
    )
    return Typed(call("list:pairs", keys.term, values.term), type_, value.nullable)


def column_of(pairs: Typed, place: int) -> Typed:
    """Return the list of the keys of a map, or that of its values."""
    term = call("list:column", pairs.term, Lit(place, "int64"))
    return Typed(term, list_of(pairs.type.fields[place][1]), pairs.nullable)


def for_each(values: Term, term: Term) -> Term:
    """Return the list of what a term over `x`, a list of one value, is of each value of a list."""
    return call("list:each", values, Lit(json.dumps(_written(term), default=str), "string"))


def _written(term: Term) -> object:
    """Return a term over `x` as JSON has it for list:each."""
    if isinstance(term, Lit):
        return {term.store: term.value}
    return term.name if isinstance(term, Var) else [term.name, *map(_written, term.args)]


def _by_fields(value: Typed, type_: SqlType, node: exp.Expr | None, tried: bool | None) -> Typed:
    """Return a struct whose fields are those of another with their names, or in their places."""
    named = value.type.name == "STRUCT"
    own, to = (
        {name.lower() if named else n: n for n, (name, _) in enumerate(fields)}
        for fields in (value.type.fields, type_.fields)
    )
    if not own.keys() & to.keys() or (not named and len(own) != len(to)):
        raise SqlError(f"{value.type} and {type_} do not have the same fields", node)
    parts: list[Term] = []
    for key, place in to.items():
        given = part(value, own[key], node) if key in own else Typed(Lit(None, "int64"), NULL, True)
        made = convert(given, type_.fields[place][1], node, tried)
        parts += [Lit(",", "string"), as_json(made, node)]
    return Typed(unless_null(value, concat(*parts[1:])), type_, value.nullable)


def unless_null(value: Typed, term: Term, store: str = "string") -> Term:
    """Return a term of a type of columns, null where a value is null."""
    null = call("is_null", value.term)
    return call("if", null, Lit(None, store), term) if value.nullable else term


class Style(NamedTuple):
    """How lists, structs and maps are written as texts."""

    brackets: dict[str, str]
    between: str
    pair: str
    name: Callable[[str], str]
    null: str


_ESCAPES = str.maketrans({"'": r"\'", "\\": r"\\"})
BRACKETS = {"LIST": "[]", "STRUCT": "{}", "TUPLE": "()", "MAP": "{}"}
PLAIN = Style(BRACKETS, ", ", "=", lambda name: f"'{name.translate(_ESCAPES)}': ", "NULL")
AS_JSON = Style(BRACKETS | {"TUPLE": "[]"}, ",", ":", lambda name: json.dumps(name) + ":", "null")


def shown(value: Typed, node: exp.Expr | None, style: Style = PLAIN) -> Term:
    """Return a value as it is written within the text, or the JSON, of a list, struct or map."""
    left, right = (Lit(mark, "string") for mark in style.brackets.get(value.type.name, ("", "")))
    text = concat(left, _inner(value, node, style), right)
    if value.type.fields:
        text = unless_null(value, text)
    return call("coalesce", text, Lit(style.null, "string")) if value.nullable else text


def _inner(value: Typed, node: exp.Expr | None, style: Style) -> Term:
    of, between = value.type, Lit(style.between, "string")
    if of.name in ("STRUCT", "TUPLE"):
        texts: list[Term] = []
        for place, (name, _) in enumerate(of.fields):
            label = Lit(style.name(name) if name else "", "string")
            texts += [between, label, shown(part(value, place, node), node, style)]
        alone = len(of.fields) == 1 and style is PLAIN and of.name == "TUPLE"
        return concat(*texts[1:], Lit("," * alone, "string"))
    if of.is_nested:
        member = of_json(Var("x"), of.element or SqlType("TUPLE", fields=of.fields), node)
        if of.element is None:
            key, text = (shown(part(member, n, node), node, style) for n in (0, 1))
            if style is AS_JSON:
                key = as_json(convert(part(member, 0, node), VARCHAR, node, False), node)
            text = concat(key, Lit(style.pair, "string"), text)
        else:
            text = shown(member, node, style)
        each = for_each(value.term, as_json(Typed(text, VARCHAR, False), node))
        return call("list:joined", each, between)
    if of == NULL:
        return Lit(style.null, "string")
    if of == JSON:
        return value.term
    if style is PLAIN:
        return call("string:quoted", convert(value, VARCHAR, node).term)
    if of.wide or (of.is_decimal and of.precision > EXACT_MOST):
        return call("string", value.term)
    if of.is_float or (of.is_decimal and of.scale):
        return call("text:json_of_float", convert(value, DOUBLE, node).term)
    return nested_text(value._replace(nullable=False), node)


def part(struct: Typed, place: int, node: exp.Expr | None) -> Typed:
    """Return a field of a struct by its place from 0."""
    at = Lit(place + 1, "int64")
    return of_json(call("list:part", struct.term, at, at), struct.type.fields[place][1], node)


def _written_alike(own: SqlType, wanted: SqlType) -> bool:
    """Return whether the JSON of each value of a type is that of a value of another type."""
    if own in (wanted, NULL):
        return True
    if own.element is not None and wanted.element is not None:
        return _written_alike(own.element, wanted.element)
    if own.fields or wanted.fields:
        kinds = {own.name, wanted.name}
        alike_ = len(kinds) == 1 or kinds == {"STRUCT", "TUPLE"}
        pairs = list(zip(own.fields, wanted.fields, strict=False))
        same = all(a.lower() == b.lower() or "TUPLE" in kinds for (a, _), (b, _) in pairs)
        return (
            alike_
            and same
            and len(own.fields) == len(wanted.fields)
            and all(_written_alike(a, b) for (_, a), (_, b) in pairs)
        )
    if own.is_integer and wanted.is_integer:
        return common(own, wanted) == wanted
    if own.is_decimal and wanted.is_decimal:
        return own.scale == wanted.scale and own.precision <= wanted.precision
    nested = own.is_nested or wanted.is_nested
    return own.store == wanted.store == "string" and not wanted.words and not nested


def _conversion(value: Typed, type_: SqlType, node: exp.Expr | None) -> Term:  # noqa: C901 - a line for each pair of types
    term, given = value.term, value.type
    if (
        given == VARCHAR
        and (name := "int" if type_.is_integer else KINDS[type_.name].reads)
        and not type_.wide
    ):
        return call("float:single", call(name, term)) if type_ == FLOAT else call(name, term)
    if given == BOOLEAN and type_.is_number:
        return _of_bool(value, type_, node)
    if given == JSON and type_ not in (VARCHAR, JSON):
        text = call("try", call("string:json", term, Lit("$", "string")))
        return convert(Typed(text, VARCHAR, True), type_, node).term
    if type_ == FLOAT and given.is_number:
        return (
            call("float:narrow", term)
            if given == DOUBLE
            else call("float:single", call("float", term))
        )
    if given == FLOAT and type_ == VARCHAR:
        return call("string:single", term)
    if given == INTERVAL:
        return _interval_text(value, type_, node)
    if given == TIMESTAMPTZ and type_ == VARCHAR:
        return concat(call("string", term), Lit("+00", "string"))
    if type_.is_float and given.is_number:
        return call("float", term)
    if type_.wide or (given.wide and (type_.is_decimal or type_.is_integer)):
        return _long(term, given, type_, node)
    if type_.is_decimal and given.is_integer and type_.scale:
        return call("*", term, _one(-type_.scale, f"decimal(18,{type_.scale})"))
    if type_.is_decimal and given.is_decimal and given.scale < type_.scale:
        return call("*", term, _one(given.scale - type_.scale, "decimal"))
    if type_ == BOOLEAN and given.is_number:
        return call("!=", term, Lit(0, "int64"))
    if type_.is_integer and given.is_number:
        return call("int", term)
    if type_.is_decimal and (given.is_number or given == VARCHAR):
        return call("decimal", term, Lit(type_.scale, "int64"))
    if type_ == VARCHAR and given not in (BLOB, INTERVAL):
        return _plain_text(call("string", term), given)
    if maker := OF_TIMES.get((given, type_)):
        return call(maker, term)
    if type_ == TIMESTAMPTZ and given in (DATE, TIMESTAMP):
        return call("datetime:utc", call("datetime", term))
    hint = ": EXTRACT takes parts of an interval" if given == INTERVAL else ""
    raise SqlError(f"{given} is not converted to {type_}{hint}", node)


def _plain_text(text: Term, given: SqlType) -> Term:
    """Return the text of a value, in which DuckDB leaves out the 0 of a decimal below 1 by type."""
    if not given.is_decimal or given.precision != given.scale:
        return text
    return call("string:replace", text, Lit("0.", "string"), Lit(".", "string"))


def _one(exponent: int, type_: str) -> Lit:
    """Return the number 1 with as many digits after the point as -exponent says."""
    return Lit(Decimal(1).quantize(Decimal(1).scaleb(exponent)), type_)


def _of_bool(value: Typed, type_: SqlType, node: exp.Expr | None) -> Term:
    """Return 1 for true and 0 for false, as a number of a type."""
    bit = unless_null(value, call("if", value.term, Lit(1, "int64"), Lit(0, "int64")), "int64")
    return convert(Typed(bit, INTEGER, value.nullable), type_, node).term


def _interval_text(value: Typed, type_: SqlType, node: exp.Expr | None) -> Term:
    """Return the text of the time between two timestamps.  Raises SqlError for another interval,
    or another type.
    """
    elapsed = not isinstance(value.term, Call) or value.term.name == "elapsed"
    if type_ != VARCHAR or not elapsed:
        what = "the time between two timestamps" if elapsed else "such an INTERVAL"
        raise SqlError(
            f"{what} is not converted to {type_}: take its parts by EXTRACT, as its epoch", node
        )
    return call("string:elapsed", amount(value))


def _long(term: Term, own: SqlType, type_: SqlType, node: exp.Expr | None) -> Term:
    """Return a number of 38 digits as another, or another number or a text as one of 38 digits."""
    if not (own.is_number or own == VARCHAR):
        raise SqlError(f"{own} is not converted to {type_}", node)
    if not type_.wide:
        if type_.is_integer:
            return call("int", term)
        return call("decimal", term, Lit(type_.scale, "int64"))
    if own.is_float:
        term = call("float:nearest", term) if type_.is_integer else term
    return call("decimal", term, Lit(type_.scale, "int64"), Lit(type_.precision or MOST, "int64"))


def alike(node: exp.Expr, left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """Return two values in a type in which they compare. Raises SqlError if there is none."""
    target = common(left.type, right.type)
    moments = {left.type, right.type} == {TIMESTAMP, TIMESTAMPTZ}
    for value, other in ((right, left), (left, right)):
        text = value.type == VARCHAR and common(left.type, right.type) is None
        if isinstance(value.term, Lit) and (text or moments):
            target = other.type
    if left.type == right.type == INTERVAL:
        return _microseconds(left, node), _microseconds(right, node)
    if target is None:
        raise SqlError(f"{left.type} and {right.type} are not compared: CAST one of them", node)
    if target.is_decimal:  # whose digits after the point all count
        scale = max(as_decimal(left.type).scale, as_decimal(right.type).scale)
        if scale > target.scale or (scale > FEW and target.precision > DIGITS):
            target = SqlType("DECIMAL", MOST, scale, wide=True)
    return convert(left, target, node), convert(right, target, node)


def plain_constants(node: exp.In, left: Typed) -> tuple[Typed, list[Typed]] | None:
    """Return a value and many constants in a type in which they compare, if all are texts as it is,
    or whole numbers as it is; these are read at once.
    """
    texts = [item.this if type(item) is exp.Literal else "" for item in node.expressions]
    if left.type == VARCHAR and all(item.is_string for item in node.expressions):
        return left, [Typed(Lit(text, "string"), VARCHAR, False) for text in texts]
    if not left.type.is_integer or not all(text.isdecimal() for text in texts):
        return None
    longest = max(texts, key=len)
    if len(longest) > 18 or any(item.is_string for item in node.expressions):
        return None
    value, first = alike(node, left, number(longest, node))
    store = first.type.store
    return value, [Typed(Lit(int(text), store), first.type, False) for text in texts]


def _microseconds(value: Typed, node: exp.Expr) -> Typed:
    if is_of_months(value):
        raise SqlError(
            "an interval of months is not compared, since months differ in length: add it to a date",
            node,
        )
    return Typed(amount(value), BIGINT, value.nullable)


def is_of_months(interval: Typed) -> bool:
    """Return whether an interval is one of months, and not of microseconds."""
    return isinstance(interval.term, Call) and interval.term.name not in ("micros", "elapsed")


def amount(interval: Typed) -> Term:
    """Return how many months or microseconds an interval has; a column has the latter."""
    return interval.term.args[0] if isinstance(interval.term, Call) else interval.term


def common_type(values: Sequence[Typed], node: exp.Expr) -> SqlType:
    """Return the type of several values that are alternatives. Raises SqlError if there is none."""
    shared = NULL
    for one in sorted(values, key=_is_taken_later):
        text = one.type == VARCHAR and shared not in (NULL, VARCHAR) and not shared.words
        whole = one.bare and shared.is_integer and is_constant_of(shared, one.term)
        if whole or (text and isinstance(one.term, Lit)):
            continue
        new = common(shared, one.type)
        if new is None:
            raise SqlError(
                f"{shared} and {one.type} are not alternatives of one value: CAST one of them", node
            )
        shared = new
    return shared


def _is_taken_later(value: Typed) -> int:
    """Return 0 for a value with a type of its own, 1 for a bare number, 2 for a constant text."""
    return 2 if value.type == VARCHAR and isinstance(value.term, Lit) else int(value.bare)


def is_constant_of(type_: SqlType, term: Term) -> bool:
    """Return whether a term is a constant whose value is one of a type of integers."""
    if not isinstance(term, Lit) or not isinstance(term.value, int):
        return False
    least, most = type_.range or (Decimal(-(2**63)), Decimal(2**63 - 1))
    return least <= term.value <= most


def as_json(value: Typed, node: exp.Expr | None) -> Term:
    """Return the text of a value in a list that is kept as JSON; decimals are texts there."""
    if value.type in (BLOB, LONG, INTERVAL):
        raise SqlError(f"a list of {value.type} is not kept: CAST its values", node)
    if value.type.is_decimal:
        value = convert(value, VARCHAR, node)
    return nested_text(ranged(value), node)


def ranged(value: Typed) -> Typed:
    """Return a computed number as one that is within its type, since readers of lists, structs and
    maps have no more bits.
    """
    computed = isinstance(value.term, Call) and value.term.name != "within"
    if not computed or not value.type.is_integer:
        return value
    return value._replace(term=fitted(value.term, BIGINT, value.type))


def nested_text(value: Typed, node: exp.Expr | None) -> Term:
    """Return the JSON of a value, "null" where it is null."""
    value = convert(value, TIMESTAMP, node) if value.type == TIMESTAMPTZ else value
    quoted = not (value.type.is_number or value.type == BOOLEAN or value.type.is_nested)
    shown = bracketed(value.term) if value.type.is_nested else convert(value, VARCHAR, node).term
    if value.type.is_float:
        for written, name in (("inf", "Infinity"), ("nan", "NaN"), ("e+", "e")):
            shown = call("string:replace", shown, Lit(written, "string"), Lit(name, "string"))
    elif quoted:
        quote = Lit('"', "string")
        of_text = value.type.store == "string"
        shown = call("text:json_of_text", shown) if of_text else concat(quote, shown, quote)
    return call("coalesce", shown, Lit("null", "string")) if value.nullable else shown


def bracketed(values: Term) -> Term:
    """Return a list that is kept as JSON with the brackets around it."""
    return concat(Lit("[", "string"), values, Lit("]", "string"))


def of_json(values: Term, element: SqlType, node: exp.Expr | None) -> Typed:
    """Return the first value of a list that is kept as JSON; null if it has none."""
    if element == NULL:
        return Typed(Lit(None, NULL.store), NULL, True)
    text = Typed(call("string:json", bracketed(values), Lit("$[0]", "string")), VARCHAR, True)
    if element == BOOLEAN:
        return Typed(call("try", call("=", text.term, Lit("true", "string"))), BOOLEAN, True)
    if element.is_nested:
        inner = call("-", call("string:length", text.term), Lit(2, "int64"))
        return Typed(
            call("try", call("string:substring", text.term, Lit(2, "int64"), inner)), element, True
        )
    if element.store == "string":
        return Typed(call("try", text.term), element, True)
    return Typed(call("try", convert(text, element, node).term), element, True)


def word_list(type_: SqlType) -> Lit:
    """Return the words of an ENUM as a list that is kept as JSON."""
    return Lit(json.dumps(type_.words, ensure_ascii=False)[1:-1], "string")


def in_order(value: Typed, node: exp.Expr | None) -> Typed:
    """Return the place of a word of an ENUM, by which words are in order; any other value as it is.

    Raises SqlError for lists, structs and maps: the order of their texts is not that of their
    values.
    """
    if value.type.is_nested:
        raise SqlError(
            f"{value.type} is compared by = and <> only, and has no order that is kept: take one "
            "of its values, as l[1], s.a or m['k']",
            node,
        )
    if not value.type.words:
        return value
    if isinstance(value.term, Lit):
        place = None if value.term.value is None else value.type.words.index(str(value.term.value))
        return Typed(Lit(place, "int64"), INTEGER, value.nullable)
    return Typed(call("string:place", word_list(value.type), value.term), INTEGER, value.nullable)


def in_words(place: Term, type_: SqlType) -> Term:
    """Return the word of an ENUM at a place."""
    return call("string:word", word_list(type_), place)
