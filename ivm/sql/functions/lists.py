"""Lists, structs, maps, words of an ENUM, and JSON, as terms of rules.

A list is kept as the JSON of its values without the brackets around it, a struct as that of its
fields, and a map as that of its pairs: `[1, 2]` is `1,2`, `{'a': 1, 'b': 'x'}` is `1,"x"`, and `MAP
{'k': 1}` is `["k",1]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce

from sqlglot import exp

from ivm.sql.conversions import (
    as_json,
    bracketed,
    call,
    common_type,
    concat,
    convert,
    nested_text,
    of_json,
    word_list,
)
from ivm.sql.errors import SqlError, nearest
from ivm.sql.functions.times import Value
from ivm.sql.literals import constant
from ivm.sql.terms import Lit, Term, Typed
from ivm.sql.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    HUGEINT,
    JSON,
    NULL,
    UBIGINT,
    VARCHAR,
    SqlType,
    list_of,
    map_of,
)

SHIFTED = "shifted"  # of a node `l[place]`: whether the parser has taken 1 from the place
FOLDS = {"list_min": "min", "list_max": "max", "list_sum": "sum", "list_avg": "avg",
    "list_median": "median",
         "list_any_value": "first", "list_product": "product"}  # fmt: skip
ENDS = {"list_first": 1, "list_last": -1}  # their values, which may be null


def _text(text: str) -> Lit:
    return Lit(text, "string")


def _whole(number: int) -> Lit:
    return Lit(number, "int64")


def joined(parts: list[Term]) -> Term:
    """Return texts, each of which is JSON, as one text with commas between them."""
    commas = [one for part in parts for one in (_text(","), part)]
    return concat(*commas[1:]) if parts else _text("")


def _arguments(node: exp.Expr, most: int | None = None) -> list[exp.Expr]:
    """Return the arguments of a function, whatever the parser calls them, at most so many;
    others are not read.
    """
    found: list[exp.Expr] = []
    for key in (
        ("expressions",)
        if isinstance(node, exp.Anonymous)
        else ("this", "expression", "expressions")
    ):
        if most is None or len(found) < most:
            given = node.args.get(key)
            found += (
                [given]
                if isinstance(given, exp.Expr)
                else (given or [])[: None if most is None else most - len(found)]
            )
    return found


def _list(node: exp.Expr, value: Value, where: exp.Expr) -> Typed:
    return _as_list(value(node), where)


def _as_list(found: Typed, where: exp.Expr) -> Typed:
    if found.type.element is None:
        raise SqlError(f"a list is wanted, and this is {found.type}", where)
    return found


def _element(found: Typed) -> SqlType:
    assert found.type.element is not None
    return found.type.element


# -- lists


def _listed(node: exp.Expr, value: Value) -> Typed:
    """`[a, b]`: a list, as JSON without the brackets around it."""
    found = [value(one) for one in node.expressions]
    if not found:
        return Typed(_text(""), list_of(NULL), False)
    type_ = common_type(found, node)
    return Typed(
        joined([as_json(convert(one, type_, node), node) for one in found]), list_of(type_), False
    )


def _range(node: exp.Expr, value: Value) -> Typed:
    """range(n) and generate_series(a, b) as lists of whole numbers."""
    given = [node.args.get(key) for key in ("start", "end", "step")]
    start, end, step = (
        value(one) if one is not None else Typed(_whole(n), BIGINT, False)
        for one, n in zip(given, (0, 0, 1), strict=True)
    )
    if not all(one.type.is_integer for one in (start, end, step)):
        raise SqlError(
            "a list of dates is kept where UNNEST reads it: a range of whole numbers is one itself",
            node,
        )
    last: Term = end.term
    if not node.args.get("is_end_exclusive"):
        last = call("+", last, call("sign", step.term))
    nullable = any(one.nullable for one in (start, end, step))
    return Typed(call("list:range", start.term, last, step.term), list_of(BIGINT), nullable)


def _split(node: exp.Expr, value: Value) -> Typed:
    text, by = (convert(value(one), VARCHAR, node) for one in _arguments(node, 2))
    name = "list:split" if isinstance(node, exp.Split) else "list:split_by"
    term: Term = call(name, text.term, by.term)
    if by.nullable:  # without a separator a text has one part
        term = call(
            "if", call("is_null", by.term), as_json(text._replace(nullable=False), node), term
        )
    return Typed(term, list_of(VARCHAR), text.nullable)


def _matches(node: exp.Expr, value: Value) -> Typed:
    text, pattern = convert(value(node.this), VARCHAR, node), value(node.expression)
    group = int(node.args["group"].name) if node.args.get("group") is not None else 0
    term = call("list:matches", text.term, pattern.term, _whole(group))
    return Typed(term, list_of(VARCHAR), text.nullable or pattern.nullable)


def _fold(node: exp.Expr, value: Value) -> Typed:
    """list_sum(l), list_max(l) and the like."""
    name = "list_max" if isinstance(node, exp.ArrayMax) else "list_min"
    name = name if isinstance(node, exp.ArrayMax | exp.ArrayMin) else node.name.lower()
    whole = name in ("list_aggregate", "list_aggr", "array_aggregate", "array_aggr")
    given = _arguments(node, 1 + whole)
    if whole:
        name = f"list_{given[1].name.lower()}"
        if name in ("list_count", "list_unique"):
            return _counted(exp.Anonymous(this=name, expressions=given[:1]), value)
    if name not in FOLDS | ENDS:
        raise SqlError(
            f"{node.sql(dialect='duckdb')[:60]}: lists have {', '.join(sorted(FOLDS | ENDS))}", node
        )
    values = _list(given[0], value, node)
    if name in ENDS:
        place = _whole(ENDS[name])
        return of_json(call("list:part", values.term, place, place), _element(values), node)
    fold, own = FOLDS[name], _element(values)
    if fold in ("sum", "avg", "median", "product") and not own.is_number:
        raise SqlError(f"{name} takes a list of numbers, and this is {values.type}", node)
    if own.is_nested:
        raise SqlError(f"{name} of {values.type} is not kept: take one of its values", node)
    type_ = own if fold in ("min", "max", "first") else DOUBLE
    if fold == "sum" and not own.is_float:
        type_ = SqlType("DECIMAL", 38, own.scale) if own.is_decimal else HUGEINT
    kind = "numbers" if own.is_number else "words"
    return of_json(
        call("try", call("list:fold", values.term, _text(fold), _text(kind))), type_, node
    )


def _counted(node: exp.Expr, value: Value) -> Typed:
    """The length of a list or a map, and how many different values a list has."""
    (given,) = _arguments(node, 1)
    found = value(given)
    own = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    name = {
        "list_unique": "list:unique",
        "array_unique": "list:unique",
        "list_count": "list:count",
    }.get(own)
    plain = own not in ("list_unique", "array_unique", "cardinality")
    return Typed(
        call(name or "list:length", found.term), BIGINT if plain else UBIGINT, found.nullable
    )


def _sorted(node: exp.Expr, value: Value) -> Typed:
    """list_sort(l), list_sort(l, 'DESC', 'NULLS FIRST') and list_reverse_sort(l)."""
    given = _arguments(node, 1)
    values = _list(given[0], value, node)
    own = _element(values)
    if own.is_nested or own.words:
        raise SqlError(
            f"{values.type} is not sorted: sort the rows before list(... ORDER BY ...)", node
        )
    if isinstance(node, exp.ArraySort):
        down = node.args.get("asc") is not None and not node.args["asc"].this
        first = bool(node.args.get("nulls_first") is not None and node.args["nulls_first"].this)
    else:
        down, first = True, False
    how = " ".join(["numbers"] * own.is_number + ["down"] * down + ["first"] * first)
    return values._replace(term=call("list:sort", values.term, _text(how)))


def _reversed(node: exp.Expr, value: Value) -> Typed:
    values = _list(_arguments(node, 1)[0], value, node)
    return values._replace(term=call("list:reverse", values.term))


def _flat(node: exp.Expr, value: Value) -> Typed:
    values = _list(_arguments(node, 1)[0], value, node)
    if _element(values).element is None:
        raise SqlError(f"flatten takes a list of lists, and this is {values.type}", node)
    return Typed(call("list:flat", values.term), _element(values), values.nullable)


def _found(node: exp.Expr, value: Value) -> Typed:
    """list_contains(l, x) and list_position(l, x)."""
    given = _arguments(node, 2)
    if (
        isinstance(given[0], exp.Array)
        and given[0].expressions
        and isinstance(node, exp.ArrayContains)
    ):
        return _among(
            value(exp.In(this=given[1], expressions=given[0].expressions)), value(given[1])
        )
    values = _list(given[0], value, node)
    sought = convert(value(given[1]), _element(values), node)
    if isinstance(node, exp.ArrayContains) or node.name.lower() in ("list_has", "array_has"):
        found = call("list:contains", values.term, as_json(sought._replace(nullable=False), node))
        if sought.nullable:  # of no values at all, null is none
            found = call("if", call("=", values.term, _text("")), Lit(False, "bool"), found)
        return Typed(found, BOOLEAN, values.nullable or sought.nullable)
    return Typed(
        call("try", call("list:position", values.term, as_json(sought, node))),
        SqlType("INTEGER"),
        True,
    )


def _among(found: Typed, sought: Typed) -> Typed:
    """Return whether a list contains a value, as IN found it, for which a null in the list would
    be any value.
    """
    if not found.nullable:
        return found
    known = call("coalesce", found.term, Lit(False, "bool"))
    term = (
        call("if", call("is_null", sought.term), Lit(None, "bool"), known)
        if sought.nullable
        else known
    )
    return Typed(term, BOOLEAN, sought.nullable)


def _compared(node: exp.Expr, value: Value) -> Typed:
    """list_has_any(l, m) and list_has_all(l, m)."""
    one, other = (_list(each, value, node) for each in _arguments(node, 2))
    every = isinstance(node, exp.ArrayContainsAll) or node.name.lower().endswith("has_all")
    name = "list:all_in" if every else "list:any_in"
    return Typed(
        call(name, one.term, convert(other, one.type, node).term),
        BOOLEAN,
        one.nullable or other.nullable,
    )


def together(node: exp.Expr, lists: list[Typed]) -> Typed:
    """Return one list of the values of several, converted to a common type.  Raises SqlError if
    they have none.
    """
    type_ = common_type(lists, node)
    found = [convert(one, type_, node) for one in lists]
    term = reduce(lambda left, right: call("list:concat", left, right), (one.term for one in found))
    return Typed(term, type_, any(one.nullable for one in found))


def _longer(node: exp.Expr, value: Value) -> Typed:
    """list_concat(l, m), list_append(l, x) and list_prepend(x, l), where NULL is an empty list."""
    given = _arguments(node, None if isinstance(node, exp.ArrayConcat) else 2)
    if isinstance(node, exp.ArrayConcat):
        return together(node, [_or_empty(one, value, node) for one in given])
    first = isinstance(node, exp.ArrayPrepend) or (
        isinstance(node, exp.Anonymous) and "prepend" in node.name.lower()
    )
    if isinstance(node, exp.Anonymous) and first:
        given = given[::-1]
    values, one = _or_empty(given[0], value, node), value(given[1])
    if _element(values) == NULL:
        values = values._replace(type=list_of(one.type))
    single = Typed(as_json(convert(one, _element(values), node), node), values.type, False)
    return together(node, [single, values] if first else [values, single])


def _or_empty(node: exp.Expr, value: Value, where: exp.Expr) -> Typed:
    """Return a list, without values where it is null."""
    found = value(node)
    if found.type == NULL:
        return Typed(_text(""), list_of(NULL), False)
    found = _as_list(found, where)
    return (
        found._replace(term=call("coalesce", found.term, _text("")), nullable=False)
        if found.nullable
        else found
    )


def _texts(node: exp.Expr, value: Value) -> Typed:
    """array_to_string(l, ', ')."""
    values, by = _list(node.this, value, node), convert(value(node.expression), VARCHAR, node)
    return Typed(call("try", call("list:joined", values.term, by.term)), VARCHAR, True)


def _sliced(node: exp.Expr, value: Value) -> Typed:
    """list_slice(l, first, last, step), and list_extract(l, place)."""
    given = _arguments(node, 4 if node.name.lower().endswith("_slice") else 2)
    values = value(given[0])
    if values.type.name == "MAP":
        return of_key(values, value(given[1]), node)
    if len(given) == 2 and isinstance(given[1], exp.Literal) and values.type.fields:
        return field(values, given[1].name, node)
    places = [value(one) for one in given[1:]]
    if values.type == VARCHAR and len(places) == 1 and places[0].type.is_integer:
        return letter_at(values, places[0])
    values = _as_list(values, node)
    if not all(one.type.is_integer or one.type == NULL for one in places):
        raise SqlError("the place of a value in a list is a whole number", node)
    places = [convert(one, BIGINT, node) for one in places]
    part = _part(values, places if len(places) > 1 else places * 2)
    return part if len(given) > 2 else of_json(part.term, _element(values), node)


def _part(values: Typed, places: list[Typed]) -> Typed:
    """Return the values of a list from one place to another, or each so-many-th of them."""
    name = "list:part" if len(places) == 2 else "list:steps"
    nullable = values.nullable or any(one.nullable for one in places)
    return Typed(call(name, values.term, *(one.term for one in places)), values.type, nullable)


def letter_at(text: Typed, place: Typed) -> Typed:
    """Return the letter at a place of a text, counted from 1, or from -1 backwards; empty if it
    has none there.
    """
    return Typed(
        call("string:substring", text.term, place.term, _whole(1)),
        VARCHAR,
        text.nullable or place.nullable,
    )


def later_place(place: Typed, shifted: bool) -> Typed:
    """Return a place as it was written, from one of which the parser may have taken 1."""
    if not shifted or not place.type.is_integer:
        return place
    at = place.term.value if isinstance(place.term, Lit) else None
    return place._replace(
        term=_whole(at + 1) if isinstance(at, int) else call("+", place.term, _whole(1))
    )


def at_place(values: Typed, place: exp.Expr, value: Value, node: exp.Expr) -> Typed:
    """`values[2]`, `values[2:4]` and `values[4:2:-1]` of a list that is kept."""
    if isinstance(place, exp.Slice):
        ends, step = (place.this, place.expression), place.args.get("step")
        steps = [] if step is None else [value(step)]
        back = any(isinstance(one.term, Lit) and str(one.term.value) < "0" for one in steps)
        bounds = [
            value(one) if one is not None else Typed(_whole(end), BIGINT, False)
            for one, end in zip(ends, (-1, 1) if back else (1, -1), strict=True)
        ] + steps
        if steps and None in ends and not isinstance(steps[0].term, Lit):
            raise SqlError("with a step that is not a constant, both ends are written", node)
    else:
        bounds = [later_place(value(place), node.meta.get(SHIFTED, True))] * 2
    if not all(one.type.is_integer or one.type == NULL for one in bounds):
        raise SqlError("the place of a value in a list is a whole number", node)
    part = _part(values, [convert(one, BIGINT, node) for one in bounds])
    return part if isinstance(place, exp.Slice) else of_json(part.term, _element(values), node)


# -- structs and maps


def _struct(node: exp.Expr, value: Value) -> Typed:
    """`{'a': x}` and struct_pack(a := x)."""
    pairs = _pairs(node)
    if not pairs:
        raise SqlError("a struct without fields has no type: name one, as in {'a': x}", node)
    values = [value(one) for _, one in pairs]
    fields = tuple((name, v.type) for (name, _), v in zip(pairs, values, strict=True))
    return Typed(
        joined([as_json(v, node) for v in values]), SqlType("STRUCT", fields=fields), False
    )


def _pairs(node: exp.Expr) -> list[tuple[str, exp.Expr]]:
    """Return the names and the values of the fields of a struct that is written out."""
    found = []
    for one in node.expressions:
        if isinstance(one, exp.PropertyEQ):
            found.append((one.this.name, one.expression))
        elif isinstance(one, exp.Alias):
            found.append((one.alias, one.this))
        else:
            raise SqlError(
                f"{node.sql(dialect='duckdb')[:60]}: each field of a struct has a name, as in "
                f"{{'a': x}}",
                node,
            )
    return found


def _known(value: Typed, node: exp.Expr) -> Typed:
    if value.type == NULL:
        raise SqlError("NULL has no type that is known here: CAST it to one", node)
    return value


def _row(node: exp.Expr, value: Value) -> Typed:
    """row(a, b): a struct whose fields have no names."""
    values = [_known(value(one), node) for one in node.expressions]
    return Typed(
        joined([as_json(v, node) for v in values]),
        SqlType("TUPLE", fields=tuple(("", v.type) for v in values)),
        False,
    )


def field(struct: Typed, name: str, node: exp.Expr) -> Typed:
    """Return a field of a struct by its name, or by its number from 1.  Raises SqlError."""
    names = [own for own, _ in struct.type.fields]
    if struct.type.name not in ("STRUCT", "TUPLE"):
        raise SqlError(f"a struct is wanted before .{name}, and this is {struct.type}", node)
    place = next((n for n, own in enumerate(names) if own.lower() == name.lower()), None)
    if place is None and name.isdigit() and 1 <= int(name) <= len(names):
        place = int(name) - 1
    if place is None:
        raise SqlError(f"{struct.type} has no field {name}{nearest(name, names)}", node)
    part = call("list:part", struct.term, _whole(place + 1), _whole(place + 1))
    return of_json(part, struct.type.fields[place][1], node)


def _of_struct(node: exp.Expr, value: Value) -> Typed:
    """`(s).a`, struct_extract(s, 'a')."""
    struct, name = value(node.this), node.expression
    return field(struct, name.name, node)


def _map(node: exp.Expr, value: Value) -> Typed:
    """`MAP {'a': x}` and map(['a'], [x])."""
    if isinstance(node, exp.ToMap):
        pairs = [(one.this, one.expression) for one in node.this.expressions]
    else:
        keys, values = node.args.get("keys"), node.args.get("values")
        if not (isinstance(keys, exp.Array) and isinstance(values, exp.Array)):
            raise SqlError("map takes two lists that are written out: MAP {'key': value}", node)
        pairs = list(zip(keys.expressions, values.expressions, strict=True))
    if not pairs:
        return Typed(_text(""), map_of(NULL, NULL), False)
    made = [[_known(value(key), node), value(one)] for key, one in pairs]
    types = [common_type([pair[n] for pair in made], node) for n in (0, 1)]
    pairs_of = [
        [convert(one, t, node) for one, t in zip(pair, types, strict=True)] for pair in made
    ]
    shown = [joined([_key(key, node), as_json(one, node)]) for key, one in pairs_of]
    return Typed(joined([bracketed(one) for one in shown]), map_of(*types), False)


def _key(key: Typed, node: exp.Expr) -> Term:
    """Return a key of a map as JSON, which has no value where it is null."""
    shown = as_json(key._replace(nullable=False), node)
    if not key.nullable:
        return shown
    return call("if", call("is_null", key.term), call("string:word", _text(""), _whole(0)), shown)


def of_key(pairs: Typed, key: Typed, node: exp.Expr) -> Typed:
    """Return the value of a key in a map; null if it has none."""
    key = later_place(key, node.meta.get(SHIFTED, False))
    (_, keys), (_, values) = pairs.type.fields
    sought = as_json(convert(key, keys, node)._replace(nullable=False), node)
    found = call("try", call("list:of_key", pairs.term, sought))
    return of_json(found, values, node)


def _listed_value(node: exp.Expr, value: Value) -> Typed:
    """element_at(m, k) and map_extract(m, k): a list of the value of a key, without values if
    there is no such key.
    """
    pairs, key = (value(one) for one in _arguments(node)[:2])
    if pairs.type.name != "MAP":
        raise SqlError(
            f"{node.name.lower()} takes a map, and this is {pairs.type}: write l[1]", node
        )
    (_, keys), (_, values) = pairs.type.fields
    sought = as_json(convert(key, keys, node)._replace(nullable=False), node)
    term: Term = call("coalesce", call("try", call("list:of_key", pairs.term, sought)), _text(""))
    return Typed(_unless_null(pairs, term, "string"), list_of(values), pairs.nullable)


def _columns(node: exp.Expr, value: Value) -> Typed:
    """map_keys(m) and map_values(m)."""
    pairs = value(_arguments(node, 1)[0])
    if pairs.type.name != "MAP":
        raise SqlError(f"a map is wanted, and this is {pairs.type}", node)
    place = 0 if isinstance(node, exp.MapKeys) else 1
    term = call("list:column", pairs.term, _whole(place))
    return Typed(term, list_of(pairs.type.fields[place][1]), pairs.nullable)


def _has_key(node: exp.Expr, value: Value) -> Typed:
    pairs, key = (value(one) for one in _arguments(node, 2))
    if pairs.type.name != "MAP":
        raise SqlError(f"a map is wanted, and this is {pairs.type}", node)
    keys = call("list:column", pairs.term, _whole(0))
    sought = as_json(convert(key, pairs.type.fields[0][1], node)._replace(nullable=False), node)
    return Typed(call("list:contains", keys, sought), BOOLEAN, pairs.nullable or key.nullable)


# -- words of an ENUM


def _code(node: exp.Expr, value: Value) -> Typed:
    word = value(node.expressions[0])
    if not word.type.words:
        raise SqlError(f"enum_code takes a value of an ENUM, and this is {word.type}", node)
    return Typed(
        call("string:place", word_list(word.type), word.term), SqlType("UTINYINT"), word.nullable
    )


# -- JSON


_PATH = re.compile(r'\$(?:\.(?:"(?:[^"\\]|\\.)*"|[^."\[\]*]+)|\[-?\d+\])*')
_STEPS = (exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript)
_FROM_END = re.compile(r"\[#-(\d+)\]")


def _path(node: exp.Expr) -> str:
    """Return a path in JSON that is a constant, from the root `$` on. SqlError for others."""
    if isinstance(node, exp.Literal):
        text = node.name
    elif isinstance(node, exp.JSONPath):
        if not all(
            isinstance(one, _STEPS) and not isinstance(one.this, exp.Expr)
            for one in node.expressions
        ):
            raise SqlError(
                "a path in JSON leads to one value: name it step by step, as in $.name[0]",
                node.parent,
            )
        text = node.sql(dialect="duckdb").strip("'")
    elif (
        (found := constant(node)) is not None
        and isinstance(found.term, Lit)
        and isinstance(found.term.value, int)
    ):
        text = f"$[{found.term.value}]"
    else:
        raise SqlError("the path in JSON is a text that is written out", node)
    if text.lstrip("-").isdigit() and not (isinstance(node, exp.Literal) and node.is_string):
        return f"$[{text}]"
    # a pointer, by which a number is the place in a list or the name in an object
    if text.startswith("/"):
        return text
    if not text.startswith("$"):
        return f'$."{text}"'
    text = _FROM_END.sub(r"[-\1]", text)
    if not _PATH.fullmatch(text):
        raise SqlError(
            f'{text}: a path in JSON is $ with .name, ."name", [place] or [#-place] after it', node
        )
    return text


def _at(node: exp.Expr, value: Value) -> Typed:
    """`text -> 'a'`, `text ->> '$.a'`, json_extract and the like: a value in JSON, null where
    there is none.
    """
    inner, place = _arguments(node, 2)
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    as_text = isinstance(node, exp.JSONExtractScalar) or name in (
        "json_extract_string",
        "json_extract_path_text",
    )
    path = _path(place)
    while isinstance(inner, exp.JSONExtract | exp.JSONExtractScalar) and not inner.expressions:
        before = _path(inner.expression)
        if "/" in (before[0], path[0]):  # pointers are followed one by one
            break
        inner, path = inner.this, before + path.removeprefix("$")
    text = convert(value(inner), VARCHAR, node)
    found = call("string:json" if as_text else "json:at", text.term, _text(path))
    if name == "json_exists":
        missing = call("is_null", call("try", found))
        return Typed(_unless_null(text, call("not", missing), "bool"), BOOLEAN, text.nullable)
    return Typed(call("try", found), VARCHAR if as_text else JSON, True)


def _unless_null(text: Typed, term: Term, store: str) -> Term:
    return call("if", call("is_null", text.term), Lit(None, store), term) if text.nullable else term


_OF_JSON: dict[str, tuple[str, SqlType]] = {
    "json_array_length": ("json:length", UBIGINT), "json_type": ("json:kind", VARCHAR),
    "json_keys": ("json:keys", list_of(VARCHAR)), "json": ("json:at", JSON),
}  # fmt: skip
_NODES: dict[type[exp.Expr], str] = {
    exp.JSONType: "json_type",
    exp.JSONKeys: "json_keys",
    exp.ParseJSON: "json",
}


def _about(node: exp.Expr, value: Value) -> Typed:
    """json_type, json_keys and json_array_length, of a text or of the value at a path in it;
    json and json_valid.
    """
    own = _NODES.get(type(node)) or node.name.lower()
    given = _arguments(node, 1 if own in ("json", "json_valid") else 2)
    text = convert(value(given[0]), VARCHAR, node)
    if own == "json_valid":
        return Typed(call("json:valid", text.term), BOOLEAN, text.nullable)
    name, type_ = _OF_JSON[own]
    if len(given) > 1 and isinstance(given[1], exp.Literal) and not given[1].is_string:
        raise SqlError(f"{own} takes a path that is a text, as in '$[{given[1].name}]'", node)
    path = _path(given[1]) if len(given) > 1 else "$"
    found = call(name, text.term, _text(path))
    return Typed(found if path == "$" else call("try", found), type_, text.nullable or path != "$")


def _object(node: exp.Expr, value: Value) -> Typed:
    """json_object('a', x) and json_array(x, y)."""
    parts: list[Term] = []
    for one in node.expressions:
        if isinstance(one, exp.JSONKeyValue):
            if (named := value(one.this)).type != VARCHAR:
                raise SqlError(f"keys of JSON are texts, and this is {named.type}: CAST it", node)
            key = as_json(named, node)
            parts.append(concat(key, _text(":"), to_json(one.expression, value)))
        else:
            parts.append(to_json(one, value))
    left, right = "{}" if isinstance(node, exp.JSONObject) else "[]"
    return Typed(concat(_text(left), joined(parts), _text(right)), JSON, False)


def to_json(node: exp.Expr, value: Value) -> Term:
    """Return the JSON of a value, "null" where it is null.  Raises SqlError for types whose JSON
    is not kept.
    """
    if isinstance(node, exp.Struct):
        pairs = [
            exp.JSONKeyValue(this=exp.Literal.string(name), expression=one)
            for name, one in _pairs(node)
        ]
        return _object(exp.JSONObject(expressions=pairs), value).term
    found = value(node)
    if found.type == NULL:
        return _text("null")
    if found.type == JSON:
        return call("coalesce", found.term, _text("null")) if found.nullable else found.term
    if found.type.is_decimal:
        found = convert(found, DOUBLE, node)
    own = found.type.element
    if found.type.fields or (own is not None and (own.is_nested or own.is_decimal)):
        raise SqlError(
            f"JSON of {found.type} is not kept: write json_object('name', value, ...)", node
        )
    return nested_text(found, node)


def _as_json(node: exp.Expr, value: Value) -> Typed:
    given = node.expressions[0]
    found = value(given)
    term = to_json(given, value)
    return Typed(_unless_null(found, term, "string"), JSON, found.nullable)


FAMILIES: list[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr, Value], Typed]]] = [
    ((exp.Array,), _listed),
    ((exp.GenerateSeries,), _range),
    ((exp.Split, exp.RegexpSplit), _split),
    ((exp.RegexpExtractAll,), _matches),
    ((exp.ArrayMax, exp.ArrayMin), _fold),
    ((exp.ArraySort,), _sorted),
    ((exp.Flatten,), _flat),
    ((exp.ArrayContains,), _found),
    ((exp.ArrayContainsAll, exp.ArrayOverlaps), _compared),
    ((exp.ArrayConcat, exp.ArrayAppend, exp.ArrayPrepend), _longer),
    ((exp.ArrayToString,), _texts),
    ((exp.Struct,), _struct),
    ((exp.Dot, exp.StructExtract), _of_struct),
    ((exp.Map, exp.ToMap), _map),
    ((exp.MapKeys,), _columns),
    ((exp.JSONExtract, exp.JSONExtractScalar), _at),
    ((exp.JSONType, exp.JSONKeys, exp.ParseJSON), _about),
    ((exp.JSONObject, exp.JSONArray), _object),
]
NAMED: dict[str, Callable[[exp.Expr, Value], Typed]] = {
    **dict.fromkeys(FOLDS | ENDS, _fold),
    **dict.fromkeys(("list_aggregate", "list_aggr", "array_aggregate", "array_aggr"), _fold),
    **dict.fromkeys(("list_unique", "array_unique", "cardinality", "list_count"), _counted),
    **dict.fromkeys(("list_reverse", "array_reverse"), _reversed),
    **dict.fromkeys(("list_reverse_sort", "array_reverse_sort"), _sorted),
    **dict.fromkeys(("list_position", "array_position", "list_indexof", "list_has", "array_has"),
    _found),
    **dict.fromkeys(("list_has_any", "list_has_all", "array_has_any", "array_has_all"), _compared),
    **dict.fromkeys(("list_append", "list_prepend", "array_append", "array_prepend"), _longer),
    **dict.fromkeys(("list_slice", "array_slice", "list_extract", "array_extract", "list_element",
                     "map_extract_value", "struct_extract"), _sliced),
    **dict.fromkeys(("element_at", "map_extract"), _listed_value),
    **dict.fromkeys(("regexp_split_to_array", "str_split_regex"), _split),
    **dict.fromkeys(("json_extract_string", "json_extract_path_text", "json_extract_path",
    "json_extract",
                     "json_exists"), _at),
    **dict.fromkeys(("json_array_length", "json_valid"), _about),
    "row": _row, "map_values": _columns, "map_contains": _has_key, "enum_code": _code,
    "to_json": _as_json,
}  # fmt: skip
