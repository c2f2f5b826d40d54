"""The words of a statement where the parser keeps one form for several: columns are named by them.

Nodes keep it under `name` in their `meta`: functions, types of casts, the direction of an order,
and intervals.
"""

import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError

CALLED = re.compile(r"(\w+)\s*\(\s*$")  # the name of a function, before its first argument
TYPED = re.compile(
    r"[\s)\]]*(?:::|\bas\b)\s*(\w+(?: precision)?(?:\s*\([\d\s,]+\))?)", re.IGNORECASE
)  # after what is cast
BEFORE = re.compile(r"(\w+)\s*$")  # the type of a literal
DIRECTED = re.compile(
    r"[\s)\]]*?(\s+asc\b|\s+desc\b|)(\s+nulls\s+(?:first|last)\b|)", re.IGNORECASE
)
FALLING = re.compile(r"[\s)\]]*?(\s+desc\b)(\s+nulls\s+(?:first|last)\b|)", re.IGNORECASE)
INTERVAL = re.compile(r"\binterval\s+('[^']*'|\d+)", re.IGNORECASE)
BRACKET = re.compile(r"[\s)\]]*(?:not\s+)?in\s*\[", re.IGNORECASE)  # after what is sought in a list
TRUNCATED = re.compile(r"\bdate_?trunc\s*\(\s*'(\w+)'", re.IGNORECASE)
GRAMMAR = {  # types that are words of the grammar, which are shown by their own names
    "bigint", "bit", "boolean", "char", "character", "dec", "decimal", "float", "int", "integer",
    "interval", "nchar", "numeric", "real", "smallint", "time", "timestamp", "varchar",
}  # fmt: skip


# by the id of a node: where it begins and where it ends in the text
Spans = dict[int, tuple[int, int]]


def remember(nodes: Sequence[exp.Expr], text: str) -> None:
    """Keep in all nodes of a statement how its text spells them.  Each node comes before those
    inside it.

    What is in brackets after IN becomes a list, in which a null is a value.
    """
    spans = _spans(nodes)
    intervals = INTERVAL.findall(text)
    units = {name.upper(): name for name in TRUNCATED.findall(text)}
    for node in nodes:
        if isinstance(node, exp.Cast):
            _keep(node.to, _type(node, text, spans))
        elif isinstance(node, exp.TimestampTrunc | exp.DateTrunc):
            _keep(node.args["unit"], units.get(node.args["unit"].name.upper()))
            _keep(node, _function(node, text, spans))
        elif (
            isinstance(node, exp.In)
            and id(node.this) in spans
            and BRACKET.match(text, spans[id(node.this)][1] + 1)
        ):
            node.set("field", exp.Array(expressions=node.expressions))
            node.set("expressions", None)
        elif isinstance(node, exp.Func):
            _keep(node, _function(node, text, spans))
        elif isinstance(node, exp.Ordered):
            _keep(node, _direction(node, text, spans))
        elif isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
            number = re.compile(f"'?{re.escape(node.this.name)}\\b")
            _keep(node, next((shown for shown in intervals if number.match(shown)), None))


def _spans(nodes: Sequence[exp.Expr]) -> Spans:
    spans: Spans = {}
    for node in reversed(nodes):
        span = spans.get(id(node))
        if node._meta and "start" in node._meta:
            bounds = node._meta["start"], node._meta["end"]
            span = spans[id(node)] = bounds if span is None else _joined(span, bounds)
        if span is not None and node.parent is not None:
            around = spans.get(id(node.parent))
            spans[id(node.parent)] = span if around is None else _joined(span, around)
    return spans


def _joined(span: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return min(span[0], other[0]), max(span[1], other[1])


def _keep(node: exp.Expr, name: str | None) -> None:
    if name is not None:
        node.meta["name"] = name


def _function(node: exp.Expr, text: str, spans: Spans) -> str | None:
    if "start" in node.meta:
        return text[node.meta["start"] : node.meta["end"] + 1]
    first = spans[id(node)][0] if isinstance(node, exp.AggFunc) and id(node) in spans else None
    match = CALLED.search(text[:first]) if first is not None else None
    return match and match[1]


def _type(node: exp.Cast, text: str, spans: Spans) -> str | None:
    """Return the type of a cast if its word is none of the grammar."""
    last = spans[id(node.this)][1] if id(node.this) in spans else None
    match = TYPED.match(text, last + 1) if last is not None else None
    if match is None and isinstance(node.this, exp.Literal) and "start" in node.this.meta:
        match = BEFORE.search(text[: node.this.meta["start"]])
    if match is None or match[1].lower() in (
        *GRAMMAR - {"decimal", "dec", "numeric"},
        "double precision",
    ):
        return None
    word, _, sizes = match[1].partition("(")
    try:
        same = exp.DataType.build(match[1], dialect="duckdb").this == node.to.this
    except (SqlglotError, ValueError):
        return None
    if word.strip().lower() in GRAMMAR:
        name = {"dec": "DECIMAL", "numeric": "DECIMAL", "char": "VARCHAR", "character": "VARCHAR"}
        word = name.get(word.strip().lower(), word.strip().upper())
    shown = (
        f"{word.strip()}({', '.join(size.strip() for size in sizes.rstrip(')').split(','))})"
        if sizes
        else word.strip()
    )
    return shown if same else None


def _direction(node: exp.Ordered, text: str, spans: Spans) -> str | None:
    last = spans[id(node.this)][1] if id(node.this) in spans else None
    pattern = FALLING if node.args.get("desc") else DIRECTED
    match = pattern.match(text, last + 1) if last is not None else None
    if match is None:
        return None
    return "".join(" " + " ".join(part.upper().split()) for part in match.groups() if part)
