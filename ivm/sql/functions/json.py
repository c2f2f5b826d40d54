"""JSON as terms of rules: the value at a path, what is said of it, and values as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from ivm.sql.conversions import AS_JSON, as_json, call, concat, convert, shown, unless_null
from ivm.sql.errors import SqlError
from ivm.sql.functions.lists import arguments, joined, text_of
from ivm.sql.functions.times import Value
from ivm.sql.literals import constant
from ivm.sql.terms import Lit, Term, Typed
from ivm.sql.types import BOOLEAN, JSON, UBIGINT, VARCHAR, SqlType, list_of

_PATH = re.compile(r'\$(?:\.(?:"(?:[^"\\]|\\.)*"|[^."\[\]*]+)|\[-?\d+\])*')
_STEPS = (exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript)
_FROM_END = re.compile(r"\[#-(\d+)\]")


def _path(node: exp.Expr) -> str:
    """Return a path in JSON that is a constant, from the root `$` on. SqlError for others."""
    if isinstance(node, exp.Literal):
        text = node.name
    elif isinstance(node, exp.JSONPath):
        if not all(
            isinstance(item, _STEPS) and not isinstance(item.this, exp.Expr)
            for item in node.expressions
        ):
            raise SqlError(
                "a path in JSON leads to one value: name it step by step, as in $.name[0]",
                node.parent,
            )
        text = node.sql(dialect="duckdb").strip("'")
    elif (
        (literal := constant(node)) is not None
        and isinstance(literal.term, Lit)
        and isinstance(literal.term.value, int)
    ):
        text = f"$[{literal.term.value}]"
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
    inner, place = arguments(node, 2)
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
    term = call("string:json" if as_text else "json:at", text.term, text_of(path))
    if name == "json_exists":
        missing = call("is_null", call("try", term))
        return Typed(unless_null(text, call("not", missing), "bool"), BOOLEAN, text.nullable)
    return Typed(call("try", term), VARCHAR if as_text else JSON, True)


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
    given = arguments(node, 1 if own in ("json", "json_valid") else 2)
    text = convert(value(given[0]), VARCHAR, node)
    if own == "json_valid":
        return Typed(call("json:valid", text.term), BOOLEAN, text.nullable)
    name, type_ = _OF_JSON[own]
    if len(given) > 1 and isinstance(given[1], exp.Literal) and not given[1].is_string:
        raise SqlError(f"{own} takes a path that is a text, as in '$[{given[1].name}]'", node)
    path = _path(given[1]) if len(given) > 1 else "$"
    term = call(name, text.term, text_of(path))
    return Typed(term if path == "$" else call("try", term), type_, text.nullable or path != "$")


def _object(node: exp.Expr, value: Value) -> Typed:
    """json_object('a', x) and json_array(x, y)."""
    parts: list[Term] = []
    for item in node.expressions:
        if isinstance(item, exp.JSONKeyValue):
            if (named := value(item.this)).type != VARCHAR:
                raise SqlError(f"keys of JSON are texts, and this is {named.type}: CAST it", node)
            key = as_json(named, node)
            parts.append(concat(key, text_of(":"), shown(value(item.expression), node, AS_JSON)))
        else:
            parts.append(shown(value(item), node, AS_JSON))
    left, right = "{}" if isinstance(node, exp.JSONObject) else "[]"
    return Typed(concat(text_of(left), joined(parts), text_of(right)), JSON, False)


def _as_json(node: exp.Expr, value: Value) -> Typed:
    operand = value(node.expressions[0])
    term = shown(operand._replace(nullable=False), node, AS_JSON)
    return Typed(unless_null(operand, term), JSON, operand.nullable)


FAMILIES: list[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr, Value], Typed]]] = [
    ((exp.JSONExtract, exp.JSONExtractScalar), _at),
    ((exp.JSONType, exp.JSONKeys, exp.ParseJSON), _about),
    ((exp.JSONObject, exp.JSONArray), _object),
]
_BY_WORDS = {
    "json_array_length json_valid": _about, "to_json json_quote": _as_json,
    "json_extract_string json_extract_path_text json_extract_path json_extract json_exists": _at,
}  # fmt: skip
NAMED = {name: of for names, of in _BY_WORDS.items() for name in names.split()}
