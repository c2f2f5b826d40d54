"""SQLite's functions and operators, with values of one type in each column."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from ivm.sql.dialects.operators import ROWS, by_places, cast_as, divided, numbered_columns, printed
from ivm.sql.dialects.table import Meaning, duckdb, table
from ivm.sql.errors import SqlError

SAME = """
    abs coalesce ifnull nullif
    sqrt_ exp sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh degrees radians pi sign
    count sum avg min max row_number rank dense_rank percent_rank cume_dist ntile lag lead
    first_value last_value nth_value json_array_length
"""
_POSITIVE = "CASE WHEN {0} > 0 THEN {1} END"
_TEXT = "by_type(:d, 'text null', :d, 'date timestamp timestamptz', sqlite_text(:d))"
_VALUE = "by_type(:{0}, 'boolean', CAST(:{0} AS INTEGER), 'decimal', CAST(sqlite_text(:{0}) AS JSON), :{0})"
_TYPES = (
    "'integer boolean', {0} 'integer' END, 'float', {0} 'real' END, 'decimal', {0} "
    "CASE WHEN contains(sqlite_text(:x), '.') THEN 'real' ELSE 'integer' END END, 'null', 'null', "
    "{0} 'text' END"
)
_PARTS = (
    "CASE WHEN :a = 0 THEN sqlite_text(:s) ELSE sqlite_substring(sqlite_text(:s), :a, 2147483647) "
    "END",
    "sqlite_substring(sqlite_text(:s), :a, :n)",
)
_JSON = (
    "CASE WHEN json_valid(sqlite_text(:j)) THEN {0} "
    "WHEN :j IS NOT NULL THEN failing({0}, 'a text that is not JSON') END"
)
_JSON_TYPES = (
    "CASE json_type(:j{0}) WHEN 'OBJECT' THEN 'object' WHEN 'ARRAY' THEN 'array' WHEN 'VARCHAR' "
    "THEN 'text' "
    "WHEN 'BIGINT' THEN 'integer' WHEN 'UBIGINT' THEN 'integer' WHEN 'DOUBLE' THEN 'real' "
    "WHEN 'NULL' THEN 'null' WHEN 'BOOLEAN' THEN {1} END"
)

CALLS: dict[str, Meaning] = {
    "iif|if(c, a, b)": "CASE WHEN :c THEN :a ELSE :b END",
    "iif|if(c, a)": "CASE WHEN :c THEN :a END", "likely|unlikely(x)": ":x",
    "likelihood(x, p)": ":x",
    "typeof(x)": f"by_type(:x, {_TYPES})".format("CASE WHEN :x IS NULL THEN 'null' ELSE"),
    # numbers
    "max(a, *b)": lambda node: _extreme(node, "greatest"),
    "min(a, *b)": lambda node: _extreme(node, "least"),
    "round(x)": "spark_round(:x, 0)",
    "round(x, n)": "CASE WHEN :n IS NOT NULL THEN spark_round(:x, greatest(:n, 0)) END",
    "ceil|ceiling(x)": "ceil(:x)", "floor(x)": "floor(:x)", "trunc(x)": "trunc(:x)",
    "sqrt(x)": "CASE WHEN :x >= 0 THEN sqrt(:x) END",
    "ln(x)": _POSITIVE.format(":x", "ln(:x)"),
    "log|log10(x)": _POSITIVE.format(":x", "log10(:x)"),
    "log2(x)": _POSITIVE.format(":x", "log2(:x)"),
    "log(b, x)": "CASE WHEN :x > 0 AND :b > 1 THEN ln(:x) / ln(:b) END",
    "pow|power(x, y)": "power(:x, :y)",
    "mod(x, y)": "CASE WHEN :y <> 0 THEN CAST(:x AS DOUBLE) % :y END",
    # texts
    "length(s)": "length(sqlite_text(:s))", "octet_length(s)": "strlen(sqlite_text(:s))",
    "lower(s)": "sqlite_lower(sqlite_text(:s))",
    "upper(s)": "sqlite_upper(sqlite_text(:s))",
    **{f"{name}(s)": f"{name}(sqlite_text(:s))" for name in ("trim", "ltrim", "rtrim")},
    **{f"{name}(s, c)": f"{name}(sqlite_text(:s), :c)" for name in ("ltrim", "rtrim")},
    "substr(s, a)": _PARTS[0], "substr(s, a, n)": _PARTS[1],
    "replace(s, a, b)": "replace(sqlite_text(:s), sqlite_text(:a), sqlite_text(:b))",
    "instr(s, p)": "strpos(sqlite_text(:s), sqlite_text(:p))",
    "unicode(s)": "nullif(unicode(sqlite_text(:s)), -1)",
    "hex(s)": "coalesce(hex(sqlite_text(:s)), '')",
    "char(*n)": lambda node: _letters(node.expressions),
    "quote(x)": "coalesce(by_type(:x, 'text', sqlite_concat('''', replace(:x, '''', ''''''), "
                "''''), sqlite_text(:x)), 'NULL')",
    "printf|format(f, *a)": lambda node: _printed(node),
    "concat(*a)": lambda node: _each(node.expressions, "concat(",
    "coalesce(sqlite_text(:{0}), '')"),
    "concat_ws(s, *a)": lambda node: _each(node.expressions[1:], "concat_ws(:s, ",
    "sqlite_text(:{0})",
                                           {"s": node.expressions[0]}),
    "like(p, s)": "sqlite_lower(sqlite_text(:s)) LIKE sqlite_lower(sqlite_text(:p))",
    "glob(p, s)": lambda node: _glob(exp.Glob(this=node.expressions[1],
    expression=node.expressions[0])),
    # dates, which are texts
    "date(d, *m)": lambda node: _shown("%Y-%m-%d", node.expressions),
    "date(d)": lambda node: _shown("%Y-%m-%d", node.expressions),
    "time(d)": lambda node: _shown("%H:%M:%S", node.expressions),
    "time(d, *m)": lambda node: _shown("%H:%M:%S", node.expressions),
    "datetime(d)": lambda node: _shown("%Y-%m-%d %H:%M:%S", node.expressions),
    "datetime(d, *m)": lambda node: _shown("%Y-%m-%d %H:%M:%S", node.expressions),
    "strftime(f, *d)": lambda node: _shown(_form(node.expressions[0]), node.expressions[1:]),
    "julianday(*d)": lambda node: exp.cast(_shown("%J", node.expressions), "DOUBLE"),
    "unixepoch(*d)": lambda node: exp.cast(_shown("%s", node.expressions), "BIGINT"),
    # JSON
    "json(j)": "json(sqlite_text(:j))",
    "json_valid(j)": "coalesce(json_valid(sqlite_text(:j)), false)",
    "json_array(*x)": lambda node: _each(node.expressions, "json_array(", _VALUE),
    "json_object(*x)": lambda node: _object(node.expressions),
    "json_extract(j, p)": _JSON.format("json_extract_string(sqlite_text(:j), :p)"),
    "json_type(j)": _JSON_TYPES.format("", "CAST(:j AS VARCHAR)").replace(":j", "sqlite_text(:j)"),
    "json_type(j, p)": _JSON.format(_JSON_TYPES.format(", :p", "json_extract_string(:j, :p)")),
    # aggregates
    "total(x)": "coalesce(CAST(sum(:x) AS DOUBLE), 0.0)",
    "json_group_object(k, x)": "coalesce(json_group_object(sqlite_text(:k), by_type(:x, 'boolean', "
                               "CAST(:x AS INTEGER), 'decimal', refused('a DECIMAL has JSON of its "
                               "own: CAST it to REAL'), :x)), '{}')",
    "json_group_array(x)": "coalesce(json_group_array(by_type(:x, 'boolean', CAST(:x AS INTEGER), 'decimal', "
                           "refused('a DECIMAL has JSON of its own: CAST it to REAL'), :x)), '[]')",
}  # fmt: skip

INSTEAD = {
    "random|randomblob": "rows follow from what is stored, and not from chance",
    "changes|total_changes|last_insert_rowid|sqlite_version": "it tells of a connection; an edit "
    "returns its count",
    "soundex|zeroblob|load_extension|unhex": "it has no meaning for rows that are kept",
    "regexp": "write x GLOB 'pattern', or use dialect 'duckdb' with regexp_matches(x, 'pattern')",
    "json_each|json_tree": "take the list apart in a column of its own, with UNNEST in dialect "
    "'duckdb'",
}
MODIFIERS = re.compile(
    r"unixepoch|[+-]?\d+(\.\d+)? (second|minute|hour|day|month|year)s?|start of (day|month|year)"
    "|weekday [0-6]",
    re.IGNORECASE,
)
CODES = re.compile(r"(?:[^%]|%[dfHjJmMsSwYWFTR%])*")


def _extreme(node: exp.Anonymous, name: str) -> exp.Expr:
    """max and min of several arguments: null if one of them is."""
    names = [f":a{n}" for n in range(len(node.expressions))]
    nulls = " OR ".join(f"{item} IS NULL" for item in names)
    values = {f"a{n}": item for n, item in enumerate(node.expressions)}
    return duckdb(f"CASE WHEN {nulls} THEN NULL ELSE {name}({', '.join(names)}) END", values)


def _letters(codes: list[exp.Expr]) -> exp.Expr:
    return _each(codes, "concat(", "chr(coalesce(:{0}, 0))")


def _object(given: list[exp.Expr]) -> exp.Expr:
    """json_object, whose names are texts."""
    values = {f"a{n}": item for n, item in enumerate(given)}
    named = "coalesce(sqlite_text(:{0}), failing('', 'a name of json_object must be a text'))"
    shown = [(_VALUE if n % 2 else named).format(f"a{n}") for n in range(len(given))]
    return duckdb(f"json_object({', '.join(shown)})", values)


def _each(
    given: list[exp.Expr], head: str, each: str, more: dict[str, exp.Expr] | None = None
) -> exp.Expr:
    shown = ", ".join(each.format(f"a{n}") for n in range(len(given)))
    return duckdb(
        f"{head}{shown})", {**{f"a{n}": item for n, item in enumerate(given)}, **(more or {})}
    )


def _printed(node: exp.Anonymous) -> exp.Expr:
    """printf, in which null is an empty text or 0."""
    return printed(
        node,
        {
            "s": "coalesce(sqlite_text(:{0}), '')",
            "d": "coalesce(sqlite_cast(:{0}, 'BIGINT'), 0)",
            "f": "coalesce(sqlite_cast(:{0}, 'DOUBLE'), 0)",
        },
    )


def _form(form: exp.Expr) -> str:
    if not isinstance(form, exp.Literal) or not CODES.fullmatch(form.name):
        raise SqlError(
            "strftime takes a text that is written out, of %Y %m %d %H %M %S %f %j %J %s %w %W",
            form,
        )
    return form.name


def _shown(form: str, given: list[exp.Expr]) -> exp.Expr:
    """Return the text of a moment, null if it is none."""
    if not given or given[0].name.lower() == "now":
        raise SqlError(
            "rows follow from what is stored, and not from a clock; give the moment as a parameter",
            given[0] if given else None,
        )
    moment, *modifiers = given
    seconds = bool(modifiers) and modifiers[0].name.strip().lower() == "unixepoch"
    for n, modifier in enumerate(modifiers):
        word = modifier.name.strip()
        if (
            not isinstance(modifier, exp.Literal)
            or not MODIFIERS.fullmatch(word)
            or (n and word.lower() == "unixepoch")
        ):
            raise SqlError(
                "a modifier of a date is written out, as '+1 month', 'start of month' or 'weekday "
                "1'; 'unixepoch' is the first",
                modifier,
            )
    names = [f":m{n}" for n in range(len(modifiers))]
    values = {
        "d": moment,
        "f": exp.Literal.string(form),
        **{f"m{n}": one for n, one in enumerate(modifiers)},
    }
    text = "sqlite_text(:d)" if seconds else _TEXT
    return duckdb(f"TRY(sqlite_date({', '.join([text, ':f', *names])}))", values)


# -- operators


def _like(node: exp.Expr) -> exp.Expr:
    """LIKE, for which letters of ASCII are alike in both cases."""
    return exp.Like(
        this=duckdb("sqlite_lower(sqlite_text(:s))", {"s": node.this}),
        expression=_lower(node.expression),
    )


def _glob(node: exp.Glob) -> exp.Expr:
    """GLOB, as a regular expression."""
    pattern = node.expression
    if not isinstance(pattern, exp.Literal):
        raise SqlError("GLOB takes a pattern that is written out", node)
    signs = {"*": "(?s:.*)", "?": "(?s:.)"}

    def part(match: re.Match[str]) -> str:
        if len(match[0]) == 1:
            return signs.get(match[0]) or re.escape(match[0])
        inner = match[1].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]")
        return f"[{inner}]"

    shown = re.sub(r"\[(\^?\]?[^\]]*)\]|.", part, pattern.name, flags=re.DOTALL)
    return duckdb(
        "regexp_full_match(sqlite_text(:s), :p)", {"s": node.this, "p": exp.Literal.string(shown)}
    )


def _lower(pattern: exp.Expr) -> exp.Expr:
    if isinstance(pattern, exp.Literal):
        return exp.Literal.string(re.sub("[A-Z]+", lambda match: match[0].lower(), pattern.name))
    return duckdb("sqlite_lower(sqlite_text(:p))", {"p": pattern})


def _moved_bits(node: exp.Expr, sign: int) -> exp.Expr:
    """`<<` and `>>` of 64 bits, by as many places as one likes, also less than none."""
    places = exp.paren(node.expression)
    return duckdb(
        "CASE WHEN :x IS NULL THEN NULL WHEN :n >= 64 THEN 0 WHEN :n <= -64 THEN CASE WHEN :x < 0 "
        "THEN -1 ELSE 0 END WHEN :n < 0 THEN shift_right(CAST(:x AS BIGINT), 0 - :n) ELSE "
        "shift_left(CAST(:x AS BIGINT), :n) END",
        {"x": node.this, "n": places if sign > 0 else duckdb("(0 - :n)", {"n": places})},
    )


def _joined(node: exp.DPipe) -> exp.Expr:
    return duckdb("sqlite_concat(:a, :b)", {"a": node.this, "b": node.expression})


def _listed(node: exp.GroupConcat) -> exp.Expr:
    inner, separator = node.this, node.args.get("separator") or exp.Literal.string(",")
    of = inner.this if isinstance(inner, exp.Order) else inner
    of = of.expressions[0] if isinstance(of, exp.Distinct) else of
    text = duckdb("sqlite_text(:x)", {"x": of})
    new = node.copy()
    if of is inner:
        new.set("this", text)
    else:
        target = new.this.this if isinstance(inner, exp.Order) else new.this
        if isinstance(target, exp.Distinct):
            target.set("expressions", [text])
        else:
            new.this.set("this", text)
    new.set("separator", separator.copy())
    return new


def _substring(node: exp.Substring) -> exp.Expr:
    given = [node.this, node.args["start"], node.args.get("length")]
    meaning = _PARTS[0] if given[2] is None else _PARTS[1]
    return duckdb(meaning, dict(zip("san", filter(None, given), strict=False)))


def _trimmed(node: exp.Trim) -> exp.Expr | None:
    node.set("this", duckdb("sqlite_text(:s)", {"s": node.this}))
    return None


def _remainder(node: exp.Mod) -> exp.Expr:
    """`%` of whole numbers, as which it takes others, too, and gives a REAL then; null by 0."""
    left, right = (f"sqlite_cast(:{arg}, 'BIGINT')" for arg in "ab")
    rest = f"CASE WHEN {right} <> 0 THEN {left} % {right} END"
    real = f"CAST({rest} AS DOUBLE)"
    text = f"by_type(:a, 'float decimal', {real}, by_type(:b, 'float decimal', {real}, {rest}))"
    return duckdb(text, {"a": node.this, "b": node.expression})


def _whole(node: exp.DataType) -> exp.Expr | None:
    """Return the type of whole numbers, which have 64 bits under any name."""
    whole = exp.DataType.Type
    names = (whole.INT, whole.TINYINT, whole.SMALLINT, whole.MEDIUMINT)
    if node.this in names and isinstance(node.parent, exp.Cast):
        return exp.DataType.build("BIGINT")
    return None


def _cast(node: exp.Cast) -> exp.Expr:
    """CAST to one of SQLite's types: of any other name it makes a number there."""
    types = exp.DataType.Type
    if node.to.this in (
        types.DATE,
        types.TIME,
        types.TIMESTAMP,
        types.TIMESTAMPTZ,
        types.DATETIME,
        types.BOOLEAN,
    ):
        raise SqlError(
            f"a cast to {node.to.sql()} makes a number in SQLite: write date(x), datetime(x) or x "
            f"<> 0",
            node,
        )
    return cast_as("sqlite", node)


def _of_one_kind(node: exp.Expr) -> exp.Expr | None:
    """A comparison, which never takes a text that is written out for a number."""
    first, others = node.this, node.iter_expressions()
    if isinstance(first, exp.Literal) and any(
        isinstance(other, exp.Literal) and other.is_string != first.is_string for other in others
    ):
        raise SqlError("SQLite takes no text for a number here: write both as numbers", node)
    return by_places(node) if isinstance(node, ROWS) else None


def _no_operator(node: exp.Expr) -> exp.Expr:
    raise SqlError("SQLite has no operator ^: write pow(x, y)", node)


def _no_limit(node: exp.Expr) -> None:
    """LIMIT and OFFSET, of which a negative one is as none."""
    if not node.expression.is_string:
        text = "CASE WHEN :n >= 0 THEN :n WHEN :n < 0 THEN NULL ELSE '' END"
        node.set("expression", duckdb(text, {"n": node.expression}))


def _chr(node: exp.Chr) -> exp.Expr:
    return _letters(node.expressions)


def _of_json(node: exp.Expr) -> exp.Expr | None:
    """`->` and `->>`, of a text that is JSON."""
    if node.this.unnest().meta.get("json"):
        return None
    made = duckdb(_JSON.format(":x"), {"j": node.this, "x": node.copy()})
    made.meta["json"] = True
    return made


OPERATORS: dict[type[exp.Expr], Callable[..., exp.Expr | None]] = {
    exp.Cast: _cast, exp.BitwiseXor: _no_operator, exp.Div: lambda node: divided("sqlite", node),
    exp.Mod: _remainder, exp.DPipe: _joined, exp.Values: numbered_columns,
    exp.BitwiseLeftShift: lambda node: _moved_bits(node, 1),
    exp.BitwiseRightShift: lambda node: _moved_bits(node, -1), exp.Like: _like, exp.Glob: _glob,
    exp.GroupConcat: _listed, exp.Trim: _trimmed, exp.Substring: _substring, exp.DataType: _whole,
    exp.Chr: _chr, **dict.fromkeys((*ROWS, exp.Between), _of_one_kind), exp.JSONExtract: _of_json,
    exp.JSONExtractScalar: _of_json, exp.Limit: _no_limit, exp.Offset: _no_limit,
}  # fmt: skip
TABLE = table("SQLite", "sqlite", SAME, CALLS, OPERATORS, INSTEAD)
