"""Lists, structs, maps and words of an ENUM, as terms of rules.

A list is kept as the JSON of its values without the brackets around it, a struct as that of its
fields, and a map as that of its pairs: `[1, 2]` is `1,2`, `{'a': 1, 'b': 'x'}` is `1,"x"`, and `MAP
{'k': 1}` is `["k",1]`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from sqlglot import exp

from ivm.sql.conversions import (
    as_json,
    call,
    column_of,
    common_type,
    concat,
    convert,
    of_json,
    part,
    unless_null,
    word_list,
)
from ivm.sql.errors import SqlError, nearest, written
from ivm.sql.functions.times import Value
from ivm.sql.terms import Lit, Term, Typed, Var
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
         "list_median": "median", "list_any_value": "first", "list_product": "product", "list_bool_and": "min",
         "list_bool_or": "max"}  # fmt: skip
_ARGUMENTS = ("this", "expression", "expressions")
ENDS = {"list_first": 1, "list_last": -1}  # their values, which may be null


def text_of(text: str) -> Lit:
    """Return a text as a constant."""
    return Lit(text, "string")


def _whole(number: int) -> Lit:
    return Lit(number, "int64")


def joined(parts: list[Term]) -> Term:
    """Return texts, each of which is JSON, as one text with commas between them."""
    commas = [one for part in parts for one in (text_of(","), part)]
    return concat(*commas[1:]) if parts else text_of("")


def arguments(node: exp.Expr, most: int | None = None) -> list[exp.Expr]:
    """Return the arguments of a function, whatever the parser calls them, at most so many;
    others are not read.
    """
    nodes: list[exp.Expr] = []
    for key in ("expressions",) if isinstance(node, exp.Anonymous) else _ARGUMENTS:
        if most is None or len(nodes) < most:
            given = node.args.get(key)
            nodes += (
                [given]
                if isinstance(given, exp.Expr)
                else (given or [])[: None if most is None else most - len(nodes)]
            )
    return nodes


def _list(node: exp.Expr, value: Value, where: exp.Expr) -> Typed:
    return _as_list(value(node), where)


def _as_list(found: Typed, where: exp.Expr) -> Typed:
    if found.type == NULL:
        return convert(found, list_of(NULL), where)
    if found.type.element is None:
        raise SqlError(f"a list is wanted, and this is {found.type}", where)
    return found


def _element(found: Typed) -> SqlType:
    assert found.type.element is not None
    return found.type.element


# -- lists


def _listed(node: exp.Expr, value: Value) -> Typed:
    """`[a, b]`: a list, as JSON without the brackets around it."""
    found = [value(item) for item in node.expressions]
    if not found:
        return Typed(text_of(""), list_of(NULL), False)
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
    text, by = (convert(value(argument), VARCHAR, node) for argument in arguments(node, 2))
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
    given = arguments(node, 1 + whole)
    if whole:
        name = f"list_{given[1].name.lower()}"
        if name in ("list_count", "list_unique"):
            return _counted(exp.Anonymous(this=name, expressions=given[:1]), value)
    if name not in FOLDS | ENDS:
        raise SqlError(f"{written(node)[:60]}: lists have {', '.join(sorted(FOLDS | ENDS))}", node)
    values = _list(given[0], value, node)
    if name in ENDS:
        place = _whole(ENDS[name])
        return of_json(call("list:part", values.term, place, place), _element(values), node)
    if name.startswith("list_bool_"):
        values = convert(values, list_of(BOOLEAN), node)
    fold, own = FOLDS[name], _element(values)
    if own == NULL:
        return Typed(Lit(None, NULL.store), NULL, True)
    if fold in ("sum", "avg", "median", "product") and not own.is_number:
        raise SqlError(f"{name} takes a list of numbers, and this is {values.type}", node)
    if own.is_nested:
        raise SqlError(f"{name} of {values.type} is not kept: take one of its values", node)
    type_ = own if fold in ("min", "max", "first") else DOUBLE
    if fold == "sum" and not own.is_float:
        type_ = SqlType("DECIMAL", 38, own.scale) if own.is_decimal else HUGEINT
    kind = "numbers" if own.is_number else "words"
    return of_json(
        call("try", call("list:fold", values.term, text_of(fold), text_of(kind))), type_, node
    )


def _counted(node: exp.Expr, value: Value) -> Typed:
    """The length of a list or a map, and how many different values a list has."""
    (given,) = arguments(node, 1)
    operand = value(given)
    own = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    name = {
        "list_unique": "list:unique",
        "array_unique": "list:unique",
        "list_count": "list:count",
    }.get(own)
    plain = own not in ("list_unique", "array_unique", "cardinality")
    return Typed(
        call(name or "list:length", operand.term), BIGINT if plain else UBIGINT, operand.nullable
    )


def _sorted(node: exp.Expr, value: Value) -> Typed:
    """list_sort(l), list_sort(l, 'DESC', 'NULLS FIRST') and list_reverse_sort(l)."""
    given = arguments(node, 1)
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
    return values._replace(term=call("list:sort", values.term, text_of(how)))


def _reversed(node: exp.Expr, value: Value) -> Typed:
    values = _list(arguments(node, 1)[0], value, node)
    return values._replace(term=call("list:reverse", values.term))


def _flat(node: exp.Expr, value: Value) -> Typed:
    values = _list(arguments(node, 1)[0], value, node)
    if _element(values).element is None:
        raise SqlError(f"flatten takes a list of lists, and this is {values.type}", node)
    return Typed(call("list:flat", values.term), _element(values), values.nullable)


def _found(node: exp.Expr, value: Value) -> Typed:
    """list_contains(l, x) and list_position(l, x)."""
    given = arguments(node, 2)
    if (
        isinstance(given[0], exp.Array)
        and given[0].expressions
        and isinstance(node, exp.ArrayContains)
    ):
        return _among(
            value(exp.In(this=given[1], expressions=given[0].expressions)), value(given[1])
        )
    values, sought = _with_member(_list(given[0], value, node), value(given[1]), node)
    if isinstance(node, exp.ArrayContains) or node.name.lower() in ("list_has", "array_has"):
        return _contains(values, sought, node)
    return Typed(
        call("try", call("list:position", values.term, as_json(sought, node))),
        SqlType("INTEGER"),
        True,
    )


def _contains(values: Typed, sought: Typed, node: exp.Expr) -> Typed:
    term = call("list:contains", values.term, as_json(sought._replace(nullable=False), node))
    if sought.nullable:  # of no values at all, null is none
        term = call("if", call("=", values.term, text_of("")), Lit(False, "bool"), term)
    return Typed(term, BOOLEAN, values.nullable or sought.nullable)


def _among(found: Typed, sought: Typed) -> Typed:
    """Return whether a list contains a value, as IN found it: a null in the list may be any."""
    if not found.nullable:
        return found
    term = unless_null(sought, call("coalesce", found.term, Lit(False, "bool")), "bool")
    return Typed(term, BOOLEAN, sought.nullable)


def _compared(node: exp.Expr, value: Value) -> Typed:
    """list_has_any(l, m) and list_has_all(l, m)."""
    one, other = (_list(each, value, node) for each in arguments(node, 2))
    if isinstance(node, exp.ArrayContainedBy):
        one, other = other, one
    every = isinstance(
        node, exp.ArrayContainsAll | exp.ArrayContainedBy
    ) or node.name.lower().endswith("has_all")
    name = "list:all_in" if every else "list:any_in"
    return Typed(
        call(name, one.term, convert(other, one.type, node).term),
        BOOLEAN,
        one.nullable or other.nullable,
    )


def together(node: exp.Expr, lists: list[Typed]) -> Typed:
    """Return one list of the values of several, of a common type.  SqlError if there is none."""
    type_ = common_type(lists, node)
    found = [convert(list_, type_, node) for list_ in lists]
    term = reduce(lambda left, right: call("list:concat", left, right), (one.term for one in found))
    return Typed(term, type_, any(one.nullable for one in found))


def _longer(node: exp.Expr, value: Value) -> Typed:
    """list_concat(l, m), list_append(l, x) and list_prepend(x, l), where NULL is an empty list; the
    whole of NULLs alone is NULL.
    """
    is_whole = isinstance(node, exp.ArrayConcat) or node.name.lower() == "list_cat"
    given = arguments(node, None if is_whole else 2)
    if is_whole:
        if all(value(one).type == NULL for one in given):
            return value(given[0])
        return together(node, [_or_empty(one, value, node) for one in given])
    first = isinstance(node, exp.ArrayPrepend) or (
        isinstance(node, exp.Anonymous) and "prepend" in node.name.lower()
    )
    if isinstance(node, exp.Anonymous) and first:
        given = given[::-1]
    values, one = _with_member(_or_empty(given[0], value, node), value(given[1]), node)
    single = Typed(as_json(one, node), values.type, False)
    return together(node, [single, values] if first else [values, single])


def _with_member(values: Typed, member: Typed, node: exp.Expr) -> tuple[Typed, Typed]:
    """Return a list and a value as a list of the type of both, and a member of it."""
    type_ = common_type([Typed(Var("x"), _element(values), True), member], node)
    return convert(values, list_of(type_), node), convert(member, type_, node)


def _or_empty(node: exp.Expr, value: Value, where: exp.Expr) -> Typed:
    """Return a list, without values where it is null."""
    found = value(node)
    if found.type == NULL:
        return Typed(text_of(""), list_of(NULL), False)
    found = _as_list(found, where)
    if found.nullable:
        return found._replace(term=call("coalesce", found.term, text_of("")), nullable=False)
    return found


def _chosen(node: exp.Expr, value: Value) -> Typed:
    """list_distinct(l), list_intersect(l, m), list_where(l, which), list_select(l, places)."""
    name = node.name.lower().partition("_")[2]
    first, *rest = [_list(each, value, node) for each in arguments(node, 1 + (name != "distinct"))]
    if name == "distinct":
        return first._replace(term=call("list:distinct", first.term))
    (second,) = rest
    if name == "intersect":
        type_ = common_type([first, second], node)
        first, second = convert(first, type_, node), convert(second, type_, node)
        in_other = call("coalesce", second.term, text_of(""))
        return first._replace(term=call("list:intersect", first.term, in_other))
    if name == "where" and _element(second) not in (BOOLEAN, NULL):
        raise SqlError(f"{node.name} takes a list of BOOLEAN, and this is {second.type}", node)
    places = second if name == "where" else convert(second, list_of(BIGINT), node)
    term = call(f"list:{name}", first.term, places.term)
    return Typed(term, first.type, first.nullable or second.nullable)


def _resized(node: exp.Expr, value: Value) -> Typed:
    """list_resize(l, n, x): the first n values, and x, or null, where l has fewer."""
    given = arguments(node, 3)
    values, length = _list(given[0], value, node), convert(value(given[1]), BIGINT, node)
    more = Typed(text_of("null"), JSON, False)
    if len(given) > 2:
        more = more._replace(term=as_json(convert(value(given[2]), _element(values), node), node))
    size = call("coalesce", length.term, _whole(0))
    return values._replace(term=call("list:resize", values.term, size, more.term))


def _zipped(node: exp.Expr, value: Value) -> Typed:
    """list_zip(l, m, shortest): rows of the values at each place, also beyond the end of a list
    unless it is to end with the shortest.
    """
    given = [value(each) for each in arguments(node)]
    ends = given.pop().term if given[-1].type == BOOLEAN else Lit(False, "bool")
    lists = [_as_list(each, node) for each in given]
    texts = [
        concat(text_of("["), call("coalesce", list_.term, text_of("")), text_of("]"))
        for list_ in lists
    ]
    fields = tuple(("", _element(list_)) for list_ in lists)
    shortest = call("if", call("coalesce", ends, Lit(False, "bool")), _whole(1), _whole(0))
    term = call("list:zip", joined(texts), shortest)
    return Typed(term, list_of(SqlType("TUPLE", fields=fields)), False)


def _texts(node: exp.Expr, value: Value) -> Typed:
    """array_to_string(l, ', ')."""
    values, by = _list(node.this, value, node), convert(value(node.expression), VARCHAR, node)
    return Typed(call("try", call("list:joined", values.term, by.term)), VARCHAR, True)


def _sliced(node: exp.Expr, value: Value) -> Typed:
    """list_slice(l, first, last, step), and list_extract(l, place)."""
    given = arguments(node, 4 if node.name.lower().endswith("_slice") else 2)
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
    places = [convert(place, BIGINT, node) for place in places]
    part = _part(values, places if len(places) > 1 else places * 2)
    return part if len(given) > 2 else of_json(part.term, _element(values), node)


def _part(values: Typed, places: list[Typed]) -> Typed:
    """Return the values of a list from one place to another, or each so-many-th of them."""
    name = "list:part" if len(places) == 2 else "list:steps"
    nullable = values.nullable or any(place.nullable for place in places)
    return Typed(call(name, values.term, *(one.term for one in places)), values.type, nullable)


def letter_at(text: Typed, place: Typed) -> Typed:
    """Return the letter at a place of a text, from 1, or from -1 backwards; empty beyond."""
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
    part = _part(values, [convert(bound, BIGINT, node) for bound in bounds])
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
    for item in node.expressions:
        if isinstance(item, exp.PropertyEQ):
            found.append((item.this.name, item.expression))
        elif isinstance(item, exp.Alias):
            found.append((item.alias, item.this))
        else:
            raise SqlError(
                f"{written(node)[:60]}: each field of a struct has a name, as in {{'a': x}}", node
            )
    return found


def _known(value: Typed, node: exp.Expr) -> Typed:
    if value.type == NULL:
        raise SqlError("NULL has no type that is known here: CAST it to one", node)
    return value


def _row(node: exp.Expr, value: Value) -> Typed:
    """row(a, b): a struct whose fields have no names."""
    values = [_known(value(item), node) for item in node.expressions]
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
    return part(struct, place, node)


def _of_struct(node: exp.Expr, value: Value) -> Typed:
    """`(s).a`, struct_extract(s, 'a')."""
    struct, name = value(node.this), node.expression
    return field(struct, name.name, node)


def _map(node: exp.Expr, value: Value) -> Typed:
    """`MAP {'a': x}`, and map(keys, values)."""
    keys, values = node.args.get("keys"), node.args.get("values")
    if isinstance(node, exp.Map) and (keys is None) != (values is None):
        raise SqlError("map takes a list of keys and one of values: MAP {'key': value}", node)
    keys, values = keys or exp.Array(), values or exp.Array()
    if isinstance(node, exp.ToMap):
        pairs = [(item.this, item.expression) for item in node.this.expressions]
        keys, values = (exp.Array(expressions=[pair[n] for pair in pairs]) for n in (0, 1))
    return _paired(_list(keys, value, node), _list(values, value, node))


def _paired(keys: Typed, values: Typed) -> Typed:
    term = call("list:pairs", keys.term, values.term)
    return Typed(term, map_of(_element(keys), _element(values)), keys.nullable or values.nullable)


def _of_entries(node: exp.Expr, value: Value) -> Typed:
    """map_from_entries(l), of a list of structs of a key and a value."""
    pairs = _list(node.this, value, node)
    if len(fields := _element(pairs).fields) != 2:
        raise SqlError(f"map_from_entries takes pairs, and this is {pairs.type}", node)
    pairs = pairs._replace(type=SqlType("MAP", fields=fields))
    return _paired(column_of(pairs, 0), column_of(pairs, 1))


def _entries(node: exp.Expr, value: Value) -> Typed:
    """map_entries(m)."""
    pairs = _pairs_of(node.expressions[0], value, node)
    return pairs._replace(type=list_of(pairs.type._replace(name="STRUCT")))


def _merged(node: exp.Expr, value: Value) -> Typed:
    """map_concat(m, n): of a key in several maps, the value in the last."""
    given = [value(item) for item in node.expressions]
    type_ = common_type(given, node)
    maps = [convert(one, type_, node).term for one in given]
    absent = call("and", *(call("is_null", one) for one in maps))
    held = [call("coalesce", map_, text_of("")) for map_ in maps]
    term = call("if", absent, Lit(None, "string"), reduce(partial(call, "list:overlaid"), held))
    return Typed(term, type_, True)


def _pairs_of(node: exp.Expr, value: Value, where: exp.Expr) -> Typed:
    pairs = value(node)
    if pairs.type == NULL:
        return convert(pairs, map_of(NULL, NULL), where)
    if pairs.type.name != "MAP":
        raise SqlError(f"a map is wanted, and this is {pairs.type}", where)
    return pairs


def of_key(pairs: Typed, key: Typed, node: exp.Expr) -> Typed:
    """Return the value of a key in a map; null if it has none."""
    key = later_place(key, node.meta.get(SHIFTED, False))
    return of_json(_at_key(pairs, key, node), pairs.type.fields[1][1], node)


def _at_key(pairs: Typed, key: Typed, node: exp.Expr) -> Term:
    sought = as_json(convert(key, pairs.type.fields[0][1], node)._replace(nullable=False), node)
    return call("try", call("list:of_key", pairs.term, sought))


def _listed_value(node: exp.Expr, value: Value) -> Typed:
    """element_at(m, k) and map_extract(m, k): a list of the value of a key, without values if
    there is no such key.
    """
    pairs, key = (value(argument) for argument in arguments(node)[:2])
    if pairs.type.name != "MAP":
        raise SqlError(
            f"{node.name.lower()} takes a map, and this is {pairs.type}: write l[1]", node
        )
    term = unless_null(pairs, call("coalesce", _at_key(pairs, key, node), text_of("")), "string")
    return Typed(term, list_of(pairs.type.fields[1][1]), pairs.nullable)


def _columns(node: exp.Expr, value: Value) -> Typed:
    """map_keys(m) and map_values(m)."""
    place = 0 if isinstance(node, exp.MapKeys) else 1
    return column_of(_pairs_of(arguments(node, 1)[0], value, node), place)


def _has_key(node: exp.Expr, value: Value) -> Typed:
    """map_contains(m, k), and map_contains_value(m, x)."""
    given = arguments(node, 2)
    place = int(node.name.lower() == "map_contains_value")
    held = column_of(_pairs_of(given[0], value, node), place)
    return _contains(*_with_member(held, value(given[1]), node), node)


# -- words of an ENUM


def _code(node: exp.Expr, value: Value) -> Typed:
    word = value(node.expressions[0])
    if not word.type.words:
        raise SqlError(f"enum_code takes a value of an ENUM, and this is {word.type}", node)
    return Typed(
        call("string:place", word_list(word.type), word.term), SqlType("UTINYINT"), word.nullable
    )


FAMILIES: list[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr, Value], Typed]]] = [
    ((exp.Array,), _listed), ((exp.GenerateSeries,), _range),
    ((exp.Split, exp.RegexpSplit), _split), ((exp.RegexpExtractAll,), _matches),
    ((exp.ArrayMax, exp.ArrayMin), _fold), ((exp.ArraySort,), _sorted), ((exp.Flatten,), _flat),
    ((exp.ArrayContains,), _found),
    ((exp.ArrayContainsAll, exp.ArrayContainedBy, exp.ArrayOverlaps), _compared),
    ((exp.ArrayConcat, exp.ArrayAppend, exp.ArrayPrepend), _longer), ((exp.ArrayToString,), _texts),
    ((exp.Struct,), _struct), ((exp.Dot, exp.StructExtract), _of_struct),
    ((exp.Map, exp.ToMap), _map), ((exp.MapKeys,), _columns), ((exp.MapFromEntries,), _of_entries),
]  # fmt: skip
_BY_WORDS = {
    " ".join(FOLDS | ENDS): _fold,
    "list_aggregate list_aggr array_aggregate array_aggr": _fold,
    "list_unique array_unique cardinality list_count": _counted,
    "list_reverse array_reverse": _reversed, "list_reverse_sort array_reverse_sort": _sorted,
    "list_position array_position list_indexof list_has array_has": _found,
    "list_has_any list_has_all array_has_any array_has_all": _compared,
    "list_distinct list_intersect list_where list_select array_distinct array_intersect array_where "
    "array_select": _chosen,
    "list_resize array_resize": _resized, "list_zip array_zip": _zipped,
    "list_append list_prepend array_append array_prepend list_cat": _longer,
    "list_slice array_slice list_extract array_extract list_element map_extract_value "
    "struct_extract": _sliced,
    "element_at map_extract": _listed_value, "map_contains map_contains_value": _has_key,
    "map_values": _columns, "map_entries": _entries, "map_concat": _merged, "row": _row,
    "regexp_split_to_array str_split_regex": _split, "enum_code": _code,
}  # fmt: skip
NAMED = {name: of for names, of in _BY_WORDS.items() for name in names.split()}
