"""Names of columns that a query does not name: DuckDB's text of the expression, as `sum(a)`."""

import re
from itertools import takewhile
from typing import Any

from sqlglot import exp

from ivm.lang.aggregate import OPERATIONS
from ivm.sql.keywords import KEYWORDS
from ivm.sql.literals import sql_type

_INFIX: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.IntDiv: "//", exp.Mod: "%",
    exp.DPipe: "||", exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">",
    exp.GTE: ">=", exp.Like: "~~", exp.ILike: "~~*", exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM", exp.BitwiseAnd: "&", exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<", exp.BitwiseRightShift: ">>",
}  # fmt: skip
HIDDEN = "rows of a list"  # in the name of a table that `*` does not have
_PARTS = {  # of dates, which are words of the grammar and shown as they are written
    "YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND", "WEEK",
    "QUARTER", "DECADE", "CENTURY", "MILLENNIUM",
}  # fmt: skip
# the aggregates that are those of rules
AGGREGATES = {getattr(exp, of.sql): op for op, of in OPERATIONS.items() if of.sql}
_FUNCTIONS: dict[type[exp.Expr], str] = {
    **AGGREGATES, exp.StddevSamp: "stddev_samp", exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and", exp.LogicalOr: "bool_or", exp.Substring: "substring",
    exp.Pow: "power", exp.Ceil: "ceil", exp.Length: "length", exp.AnyValue: "any_value",
    exp.DateDiff: "date_diff", exp.CountIf: "count_if", exp.Quantile: "quantile",
    exp.BitwiseAndAgg: "bit_and", exp.BitwiseOrAgg: "bit_or", exp.BitwiseXorAgg: "bit_xor",
    exp.ArrayAgg: "list", exp.ApproxDistinct: "approx_count_distinct", exp.Split: "string_split",
    exp.PercentileDisc: "quantile_disc", exp.StrPosition: "position", exp.Mod: "mod",
    exp.BitwiseXor: "xor", exp.Transform: "list_transform", exp.ArrayFilter: "list_filter",
}  # fmt: skip
_ADDED: dict[type[exp.Expr], str] = {  # arguments that the parser adds
    exp.SHA2: "length", exp.UnixToTime: "scale", exp.RegexpExtract: "group", exp.Log: "this",
    exp.RegexpExtractAll: "group", exp.Encode: "charset",
}  # fmt: skip


def output_name(node: exp.Expr) -> str:
    """Return the name of a column of a select list.

    >>> from sqlglot import parse_one
    >>> [output_name(e) for e in parse_one("SELECT a AS b, t.c, sum(d), e + 1, count(*)", dialect="duckdb").selects]
    ['b', 'c', 'sum(d)', '(e + 1)', 'count_star()']
    """
    if isinstance(node, exp.Alias):
        return node.alias
    return node.name if isinstance(node, exp.Column) else text(node)


def text(node: exp.Expr) -> str:  # noqa: C901 - a case for each kind of node
    """Return DuckDB's text of an expression."""
    if (shown := _operator(node)) is not None or (shown := _renamed(node)) is not None:
        return shown
    match node:
        case exp.Paren():
            return text(node.this)
        case exp.Column():
            return ".".join(_identifier(part.name) for part in node.parts)
        case exp.Literal() | exp.Null() | exp.Boolean():
            return _constant(node)
        case exp.Neg():
            if not isinstance(node.this, exp.Literal):
                return f"(-({text(node.this)}))"
            return f"-{text(node.this)}"
        case exp.Not():
            return _negated(node)
        case exp.Is() if isinstance(node.expression, exp.Boolean):
            return (
                f"(CAST({text(node.this)} AS BOOLEAN) IS NOT DISTINCT FROM {text(node.expression)})"
            )
        case exp.Is():
            return f"({text(node.this)} IS {'NOT NULL' if _is_not_null(node) else 'NULL'})"
        case exp.Between():
            return f"({text(node.this)} BETWEEN {text(node.args['low'])} AND {text(node.args['high'])})"
        case exp.In():
            return _within(node)
        case exp.Cast():
            return f"{'TRY_' * isinstance(node, exp.TryCast)}CAST({text(node.this)} AS {sql_type_text(node.to)})"
        case exp.Interval():
            return _interval(node)
        case exp.Case():
            return _case(node)
        case exp.Filter():
            return f"{text(node.this)} FILTER (WHERE {text(node.expression.this)})"
        case exp.Window():
            return _window(node)
        case exp.Subquery():
            return f"({_query(node.this)})"
        case exp.Count() if isinstance(node.this, exp.Star) or node.this is None:
            return "count_star()"
        case exp.WithinGroup():
            return _within_group(node)
        case exp.DateDiff():
            return _difference(node)
        case exp.Distinct():
            return f"DISTINCT {', '.join(map(text, node.expressions))}"
        case exp.Coalesce():
            return f"COALESCE({', '.join(map(text, (node.this, *node.expressions)))})"
        case exp.Grouping() | exp.GroupingId():
            return f"GROUPING({', '.join(map(text, node.expressions))})"
        case exp.Array():
            return f"list_value({', '.join(map(text, node.expressions))})"
        case exp.AnonymousAggFunc():
            return f"{node.name.lower()}({', '.join(map(text, node.expressions))})"
        case exp.Anonymous() if node.name == "quotient":
            return f"({' / '.join(map(text, node.expressions))})"
        case exp.Anonymous():
            return f"{_identifier(node.name.lower())}({', '.join(map(text, node.expressions))})"
        case exp.Func() | exp.Mod() | exp.BitwiseXor():
            return _function(node)
    return node.sql(dialect="duckdb")


def _renamed(node: exp.Expr) -> str | None:  # noqa: C901 - a case for each kind of node
    """Return the text of a function that DuckDB shows by another name; None for others."""
    match node:
        case exp.Any() | exp.All():
            inner, word = node.this.unnest(), type(node).__name__.upper()
            shown = (
                _query(inner) if isinstance(inner, exp.Query) else f"SELECT unnest({text(inner)})"
            )
            return f"{word}({shown})"
        case exp.GenerateSeries() if (
            "name" in node.meta
            and node.args["start"].this == "0"
            and "start" not in (node.args["start"].meta)
        ):  # range(n)
            return f"{_identifier(str(node.meta['name']).lower())}({text(node.args['end'])})"
        case exp.Bracket():
            places = node.expressions
            if len(places) == 1 and isinstance(places[0], exp.Literal) and places[0].is_int:
                return f"{text(node.this)}[{int(places[0].name) + 1}]"
        case exp.In() if (field := node.args.get("field")) is not None:
            return f"contains({text(field)}, {text(node.this)})"
        case exp.Lambda():
            return f"(lambda {', '.join(parameter.name for parameter in node.expressions)}: {text(node.this)})"
        case exp.Identifier():
            return _identifier(node.name)
        case exp.Tuple():
            return f'"row"({", ".join(map(text, node.expressions))})'
        case exp.ArraySort():
            return f"{str(node.meta.get('name', 'list_sort')).lower()}({text(node.this)})"
        case exp.JSONObject():
            pairs = ", ".join(
                f"{text(item.this)}, {text(item.expression)}" for item in node.expressions
            )
            return f"json_object({pairs})"
        case exp.Exists():
            return f"EXISTS({_query(node.this)})"
        case exp.RegexpLike():
            return f"regexp_matches({text(node.this)}, {text(node.expression)})"
        case exp.SimilarTo():
            return f"regexp_full_match({text(node.this)}, {text(node.expression)})"
        case exp.Extract():
            unit = node.name if node.name.upper() in _PARTS else node.name.lower()
            return f"date_part('{unit}', {text(node.expression)})"
        case exp.If():
            parts = [node.this, node.args.get("true"), node.args.get("false")]
            return f'"if"({", ".join(text(p) for p in parts if p is not None)})'
        case exp.BitwiseNot():
            return f"(~({text(node.this)}))"
        case exp.IgnoreNulls():
            shown = text(node.this)
            return shown if isinstance(node.this, exp.AnyValue) else f"{shown[:-1]} IGNORE NULLS)"
        case exp.TimestampTrunc() | exp.DateTrunc():
            unit = node.args["unit"]
            name = str(node.meta.get("name", "date_trunc")).lower()
            return f"{name}('{unit.meta.get('name', unit.name.lower())}', {text(node.this)})"
    return None


def _operator(node: exp.Expr) -> str | None:
    """Return the text of an operator with two operands; None for any other expression."""
    if isinstance(node, exp.Like | exp.ILike) and node.args.get("negate"):
        return f"({text(node.this)} !{_INFIX[type(node)]} {text(node.expression)})"
    # of a chain a + b + c ..., what follows its first operand, the last one first
    later: list[str] = []
    while type(node) in _INFIX and "start" not in node.meta and not node.args.get("negate"):
        later.append(f" {_INFIX[type(node)]} {text(node.expression)})")
        node = node.this
    if later:
        return f"{'(' * len(later)}{text(node)}{''.join(reversed(later))}"
    for kind, shown in ((exp.And, "AND"), (exp.Or, "OR")):
        if isinstance(node, kind):
            return f"({f' {shown} '.join(map(text, _flat(node, kind)))})"
    return None


def _constant(node: exp.Expr) -> str:
    if isinstance(node, exp.Literal):
        return "'" + node.this.replace("'", "''") + "'" if node.is_string else str(node.this)
    return "NULL" if isinstance(node, exp.Null) else "true" if node.this else "false"


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    parts, left = list[exp.Expr](), [node]
    while left:
        node_left = left.pop()
        if isinstance(node_left, kind):
            left += [node_left.expression, node_left.this]
        else:
            parts.append(node_left)
    return parts


def _identifier(name: str) -> str:
    plain = re.fullmatch("[A-Za-z_][A-Za-z_0-9]*", name) and name.lower() not in KEYWORDS
    return name if plain else '"' + name.replace('"', '""') + '"'


def _negated(node: exp.Not) -> str:
    inner = node.this
    if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Boolean):
        return text(inner).replace("IS NOT DISTINCT FROM", "IS DISTINCT FROM")
    if isinstance(inner, exp.Is):
        return f"({text(inner.this)} IS NOT NULL)"
    if isinstance(inner, exp.Like | exp.ILike):
        shown = "!~~*" if isinstance(inner, exp.ILike) else "!~~"
        return f"({text(inner.this)} {shown} {text(inner.expression)})"
    return f"(NOT {text(inner)})"


def _is_not_null(node: exp.Is) -> bool:
    return isinstance(node.expression, exp.Not)


def _within(node: exp.In) -> str:
    if query := node.args.get("query"):
        return f"({text(node.this)} = ANY{text(query)})"
    return f"({text(node.this)} IN ({', '.join(map(text, node.expressions))}))"


def sql_type_text(node: exp.DataType) -> str:
    """Return DuckDB's name of a type, as it is written unless it is a word of the grammar."""
    if written := node.meta.get("name"):
        return str(written)
    try:
        shown = sql_type(node)
    except ValueError:
        return node.sql(dialect="duckdb")
    return str(shown) if shown.words or shown.fields else str(shown).replace(",", ", ")


def _case(node: exp.Case) -> str:
    same = f"{text(node.this)} = " if node.this else ""
    whens = [
        f"WHEN ({f'({same}{text(case.this)})' if same else text(case.this)}) THEN "
        f"({text(case.args['true'])})"
        for case in node.args["ifs"]
    ]
    default = text(node.args["default"]) if node.args.get("default") is not None else "NULL"
    return f"CASE  {' '.join(whens)} ELSE {default} END"


_UNITS = {
    "SECOND": "{}",
    "MILLISECOND": "{}",
    "HOUR": "BIGINT",
    "MINUTE": "BIGINT",
    "MICROSECOND": "BIGINT",
}


def _interval(node: exp.Interval) -> str:
    """INTERVAL '1 day' as a cast of a text, INTERVAL 1 DAY as a function of a number."""
    unit = str(node.args["unit"].name if node.args.get("unit") else "").upper().rstrip("S")
    written = str(node.meta.get("name", ""))
    if not unit or " " in written:
        return f"CAST({written or text(node.this)} AS INTERVAL)"
    number = f"CAST({written or text(node.this).strip(chr(39))} AS DOUBLE)"
    whole = _UNITS.get(unit, "INTEGER")
    return f"to_{unit.lower()}s({number if whole == '{}' else f'CAST(trunc({number}) AS {whole})'})"


def _query(node: exp.Expr) -> str:
    """Return DuckDB's text of a simple subquery."""
    given = {key for key, value in node.args.items() if value} - {
        "expressions",
        "from_",
        "joins",
        "where",
    }
    joins = node.args.get("joins") or []
    if (
        not isinstance(node, exp.Select)
        or given
        or any(join.args.get("on") or join.args.get("side") for join in joins)
    ):
        return node.sql(dialect="duckdb")
    items = [
        f"{text(i.this)} AS {_identifier(i.alias)}" if isinstance(i, exp.Alias) else text(i)
        for i in node.selects
    ]
    shown = f"SELECT {', '.join(items)}"
    if source := node.args.get("from_"):
        shown += f" FROM {', '.join(item.this.sql(dialect='duckdb') for item in (source, *joins))}"
    return shown + (f" WHERE {text(where.this)}" if (where := node.args.get("where")) else "")


def _function(node: exp.Expr) -> str:
    """Return the text of a function by the name that it was written with; its ORDER BY comes
    after its arguments.
    """
    written = node.meta.get("name") or _FUNCTIONS.get(type(node))
    shown = str(written or (node.sql_name() if isinstance(node, exp.Func) else node.key)).lower()
    args, order, added = list[exp.Expr](), "", _ADDED.get(type(node))
    for key in node.arg_types:
        if key == added and (shown not in ("log", "regexp_extract") or node.text(key) == "0"):
            continue
        value = node.args.get(key)
        if isinstance(value, list):
            args += value
        elif isinstance(value, exp.Order):
            args += [value.this] if value.this else []
            order = f" ORDER BY {', '.join(map(_ordered, value.expressions))}"
        elif isinstance(value, exp.Expr):
            args.append(value)
    return f"{_identifier(shown)}({', '.join(map(text, args))}{order})"


def _difference(node: exp.DateDiff) -> str:
    unit = node.args.get("unit")
    parts = [
        f"'{unit.name.lower()}'" if unit is not None else "'day'",
        text(node.expression),
        text(node.this),
    ]
    return f"{str(node.meta.get('name', 'date_diff')).lower()}({', '.join(parts)})"


def _ordered(node: exp.Expr) -> str:
    """Return an item of ORDER BY, with its direction and its nulls as they are written."""
    return text(node.this) + str(node.meta.get("name", " DESC" * bool(node.args.get("desc"))))


def _within_group(node: exp.WithinGroup) -> str:
    """percentile_cont(0.5) WITHIN GROUP (ORDER BY x), as a quantile with an order."""
    call, order = node.this, ", ".join(map(_ordered, node.expression.expressions))
    quantile = isinstance(call, exp.PercentileCont | exp.PercentileDisc)
    name = _FUNCTIONS[type(call)] if quantile else call.meta.get("name", call.key)
    shown, first = str(name).lower(), call.this
    if isinstance(call, exp.Anonymous):
        shown = call.name.lower().replace("percentile_", "quantile_")
        first = next(iter(call.expressions), None)
    if first is None:
        return f"{_identifier(shown)}() WITHIN GROUP ( ORDER BY {order})"
    return f"{shown}({text(first)} ORDER BY {order})"


def _window(node: exp.Window) -> str:
    parts = []
    given = _window_clauses(node)
    if by := given.get("partition_by"):
        parts.append(f"PARTITION BY {', '.join(map(text, by))}")
    if order := given.get("order"):
        parts.append(f"ORDER BY {', '.join(map(_ordered, order.expressions))}")
    if spec := given.get("spec"):
        bounds = [
            _bound(spec.args.get(key), spec.args.get(f"{key}_side")) for key in ("start", "end")
        ]
        shown = f"{str(spec.args.get('kind') or 'RANGE').upper()} BETWEEN {' AND '.join(bounds)}"
        shown += f" EXCLUDE {spec.args['exclude'].name.upper()}" if spec.args.get("exclude") else ""
        parts += [shown] if shown != _USUAL else []
    shown = text(node.this).replace("count_star()", "count()")
    name, bracket, rest = shown.partition("(")
    return f"{name.strip(chr(34))}{bracket}{rest} OVER ({' '.join(parts)})"


def _window_clauses(node: exp.Expr) -> dict[str, Any]:
    """Return what a window says, and what those before it in WINDOW say that it names."""
    select, alias = node.find_ancestor(exp.Select), node.args.get("alias")
    name, named = alias and alias.name.lower(), select.args.get("windows") if select else None
    before = takewhile(lambda window: window is not node, named or ())
    parent = (_window_clauses(window) for window in before if window.name.lower() == name)
    return {**next(parent, {}), **{key: value for key, value in node.args.items() if value}}


_USUAL = "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def _bound(bound: object, side: object) -> str:
    if bound is None or str(bound).upper() == "CURRENT ROW":
        return "CURRENT ROW"
    return (
        f"{text(bound) if isinstance(bound, exp.Expr) else str(bound).upper()} {str(side).upper()}"
    )


# without parentheses they would be columns
WORDS = ("current_schema", "current_catalog", "current_user", "session_user", "current_role")


def called(node: exp.Expr) -> str | None:
    """Return the name of a function without arguments; None for anything else."""
    if isinstance(node, exp.Column):
        plain = not node.table and not node.this.args.get("quoted")
        return node.name.lower() if plain and node.name.lower() in WORDS else None
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.key if isinstance(node, exp.Func) else None
