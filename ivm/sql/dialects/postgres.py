"""PostgreSQL's functions and operators, in a session in UTC."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from ivm.sql.dialects.operators import (
    PADDED,
    ROWS,
    by_places,
    cast_as,
    column_defined,
    divided,
    either_way,
    like_with_backslash,
    numbered_columns,
    refuse_padded,
    refuse_unread,
    shifted,
)
from ivm.sql.dialects.table import Meaning, duckdb, table
from ivm.sql.errors import SqlError
from ivm.sql.functions.dialects import RANGED
from ivm.sql.functions.lists import SHIFTED
from ivm.sql.literals import list_items
from ivm.terms.dialects import NAMED_READ, named_pieces

SAME = """
now clock_timestamp statement_timestamp transaction_timestamp
    abs coalesce nullif greatest least ceil ceiling floor sign sqrt cbrt gcd lcm factorial pi
    sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh cot degrees radians
    char_length_ lower left right ltrim rtrim repeat_ replace strpos starts_with ascii md5
    regexp_replace make_timestamp make_time isfinite age
    count sum avg stddev stddev_pop stddev_samp variance var_pop var_samp covar_pop covar_samp
    regr_count regr_avgx regr_avgy regr_sxx regr_sxy regr_syy
    bool_and bool_or bit_and bit_or bit_xor array_agg percentile_cont percentile_disc mode any_value
    row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value grouping
    array_append array_prepend unnest exists
"""
_TEXT = (
    "by_type({0}, 'boolean', CASE WHEN {0} THEN 't' WHEN NOT {0} THEN 'f' END, postgres_text({0}))"
)
_JSON_TYPES = (
    "CASE json_type(:j) WHEN 'OBJECT' THEN 'object' WHEN 'ARRAY' THEN 'array' WHEN 'NULL' THEN "
    "'null' WHEN 'VARCHAR' THEN 'string' WHEN 'BOOLEAN' THEN 'boolean' ELSE CASE WHEN "
    "json_type(:j) IS NOT NULL THEN 'number' END END"
)
_SECOND = "CAST(EXTRACT(MICROSECOND FROM {0}) / {1} AS DECIMAL(14,6))"

_LOGARITHM = "ln(CASE WHEN {0} = 0 THEN failing({0}, 'a logarithm of zero') ELSE {0} END)"
_LENGTH = "CASE WHEN :n < 0 THEN failing(:n, 'a negative length') ELSE :n END"
# of nulls alone, an empty text
_LISTED = "CASE WHEN :l IS NOT NULL AND :s IS NOT NULL THEN coalesce({}, '') END"
CALLS: dict[str, Meaning] = {
    # numbers
    "round(x)": "by_type(:x, 'float', spark_bround(:x, 0), round(:x))",
    "round(x, n)": "by_type(:x, 'float', spark_round(:x, :n), round(:x, :n))",
    "trunc(x)": "trunc(:x)",
    "trunc(x, n)": lambda node: _cut(*node.expressions),
    "ln(x)": _LOGARITHM.format(":x"),
    "log|log10(x)": "log10(CASE WHEN :x = 0 THEN failing(:x, 'a logarithm of zero') ELSE :x END)",
    "log(b, x)": f"postgres_divide({_LOGARITHM.format(':x')}, {_LOGARITHM.format(':b')})",
    "power|pow(x, y)": "postgres_power(:x, :y)", "exp(x)": "postgres_exp(:x)",
    "mod(x, y)": ":x % :y",
    "div(x, y)": "by_type(:x, 'integer', by_type(:y, 'integer', :x // :y, "
                 "trunc(postgres_divide(:x, :y))), trunc(postgres_divide(:x, :y)))",
    "width_bucket(x, a, b, n)": "CASE WHEN :n <= 0 OR :a = :b THEN failing(:n, 'no buckets') "
                                "WHEN :a < :b AND :x < :a OR :a > :b AND :x > :a THEN 0 "
                                "WHEN :a < :b AND :x >= :b OR :a > :b AND :x <= :b THEN :n + 1 "
                                "ELSE CAST(floor((:x - :a) * :n / (:b - :a)) AS BIGINT) + 1 END",
    "num_nulls(*x)": lambda node: _counted(node, "IS NULL"),
    "num_nonnulls(*x)": lambda node: _counted(node, "IS NOT NULL"),
    # texts
    "length|char_length|character_length(s)": "length(:s)", "octet_length(s)": "strlen(:s)",
    "bit_length(s)": "8 * strlen(:s)", "upper(s)": "postgres_upper(:s)",
    "initcap(s)": "postgres_initcap(:s)",
    "concat(*x)": lambda node: _joined(node.expressions, "concat("),
    "concat_ws(s, *x)": lambda node: _joined(node.expressions[1:], "concat_ws(:s, ",
    {"s": node.expressions[0]}),
    "substr|substring(s, a)": "postgres_substring(:s, :a, 2147483647)",
    "substr|substring(s, a, n)": f"postgres_substring(:s, :a, {_LENGTH})",
    "trim|btrim(s)": "trim(:s)", "btrim(s, c)": "trim(:s, :c)",
    **{f"{name}(s, n)": f"spark_{name}(:s, :n, ' ')" for name in ("lpad", "rpad")},
    **{f"{name}(s, n, c)": f"spark_{name}(:s, :n, :c)" for name in ("lpad", "rpad")},
    "repeat(s, n)": "repeat(:s, CASE WHEN :n < 0 THEN 0 ELSE :n END)",
    "reverse(s)": "postgres_reverse(:s)",
    "chr(n)": "chr(CASE WHEN :n = 0 THEN failing(:n, 'a letter of code 0') ELSE :n END)",
    "split_part(s, d, n)": "CASE WHEN :n = 0 THEN failing(:s, 'a part of number 0') WHEN :d = '' "
                           "THEN CASE WHEN abs(:n) = 1 THEN :s WHEN :n IS NOT NULL THEN left(:s, 0) END "
                           "ELSE split_part(:s, :d, :n) END",
    "translate(s, a, b)": "text_translate(:s, :a, :b)",
    "to_hex(x)": "lower(text_digits(by_type(:x, 'bigint', :x, CASE WHEN :x < 0 THEN CAST(:x AS "
                 "BIGINT) + 4294967296 ELSE :x END), 16))",
    "quote_literal(x)": "CASE WHEN contains(postgres_text(:x), '\\') THEN 'E' ELSE '' END || '''' || "
                        "replace(replace(postgres_text(:x), '''', ''''''), '\\', '\\\\') || ''''",
    "generate_series(*a)": lambda node: _series(node), "format(f, *a)": lambda node: _formatted(node),
    "format(f)": lambda node: _formatted(node),
    "string_to_array(s, d)": "CASE WHEN :s = '' THEN CAST([] AS VARCHAR[]) "
                             "WHEN :d = '' AND :s > '' THEN [:s] ELSE string_split(:s, coalesce(:d, '')) END",
    "array_to_string(l, s)": _LISTED.format("array_to_string(:l, :s)"),
    "array_to_string(l, s, r)": _LISTED.format("array_to_string(list_transform(:l, e -> "
                                "coalesce(postgres_text(e), :r)), :s)"),
    # patterns
    "regexp_like(s, p)": "regexp_matches(:s, :p)",
    "regexp_count(s, p)": "len(regexp_extract_all(:s, :p))",
    "regexp_substr(s, p)": "CASE WHEN regexp_matches(:s, :p) THEN regexp_extract(:s, :p) END",
    "regexp_match(s, p)": lambda node: _matched(node),
    "regexp_split_to_array(s, p)": "string_split_regex(:s, :p)",
    # dates
    "date_part(u, t)": lambda node: _date_part(*node.expressions),
    "date_trunc(u, t)": lambda node: _truncated(*node.expressions),
    "make_date(y, m, d)": "spark_cast(spark_concat(lpad(CAST(:y AS VARCHAR), 4, '0'), '-', :m, "
                          "'-', :d), 'DATE')",
    "to_char(t, f)": lambda node: _shown(*node.expressions),
    "to_date(s, f)": lambda node: _read(node, "DATE"),
    "to_timestamp(s, f)": lambda node: _read(node, "TIMESTAMPTZ"),
    "to_timestamp(n)": "to_timestamp(:n)",
    # arrays and JSON
    "cardinality(l)": "len(:l)",
    "array_length|array_upper(l, n)": lambda node: _length(*node.expressions),
    "array_position(l, x)": "list_position(:l, :x)",
    "array_remove(l, x)": "list_filter(:l, e -> e IS DISTINCT FROM :x)",
    "json_typeof|jsonb_typeof(j)": _JSON_TYPES,
    "json_array_length|jsonb_array_length(j)": "json_array_length(CASE WHEN json_type(:j) = 'ARRAY' "
                                               "THEN :j WHEN :j IS NOT NULL THEN failing(:j, 'no array') END)",
    "array(q)": lambda node: _of_rows(node, node.expressions[0]),
    "array_cat(l, m)": "postgres_concat(:l, :m)",
    "json_extract_path_text|jsonb_extract_path_text(j, *p)": lambda node: _path(node,
    "json_extract_string"),
    "json_extract_path|jsonb_extract_path(j, *p)": lambda node: _path(node, "json_extract"),
    "json_build_object|jsonb_build_object(*a)": "json_object(*a)",
    "json_build_array|jsonb_build_array(*a)": "json_array(*a)",
    "to_json|to_jsonb(x)": "to_json(:x)",
    # aggregates
    **{f"{name}(y, x)": f"nullif({name}(:y, :x), CAST('nan' AS DOUBLE))"
       for name in ("corr", "regr_slope", "regr_intercept")},
    "regr_r2(y, x)": "CASE WHEN regr_sxx(:y, :x) > 0 THEN CASE WHEN regr_syy(:y, :x) > 0 "
                     "THEN regr_r2(:y, :x) ELSE 1.0::DOUBLE END END",
    "min(x)": "min(:x)", "max(x)": "max(:x)", "every(x)": "bool_and(:x)",
    "json_agg|jsonb_agg(x)": "to_json(list(:x))",
}  # fmt: skip

INSTEAD = {
    "timeofday": "write CAST(now() AS text)",
    "random|gen_random_uuid|uuid_generate_v4|setseed": "rows follow from what is stored, and not "
                                                       "from chance",
    "date_bin": "write date_trunc, or time_bucket in dialect 'duckdb'",
    "make_interval": "write INTERVAL '3 days'",
    "justify_days|justify_hours|justify_interval": "intervals are the time between two moments, "
                                                   "whose parts EXTRACT takes",
    "encode|decode|sha256|sha224|sha384|sha512|convert_from|convert_to": "bytea is not a text "
                                                                         "here; md5(x) takes texts",
    "to_number": "write CAST(x AS NUMERIC(p, s))",
    "regexp_matches|regexp_split_to_table|string_to_table": "write regexp_match, or "
                                                            "unnest(string_to_array(s, ','))",
    "nextval|currval|lastval": "rows follow from what is stored: INSERT the number itself",
    "jsonb_path_query|jsonb_array_elements|json_array_elements|jsonb_each|json_each|json_object_keys": "write "
        "j -> 'a' and json_array_length(j)",
    "array_replace|array_fill|array_dims|array_ndims": "arrays have one dimension: unnest and "
                                                       "array_agg",
    "quote_ident|pg_typeof|scale|row_to_json": "it tells of names and types; those of a view do "
                                               "not change",
    "xmlagg|xpath|ts_rank|to_tsvector|to_tsquery|similarity": "it has no meaning here",
}  # fmt: skip
MARKS = re.compile(r"%(?:(\d+)\$)?s|%%")


def _cut(number: exp.Expr, digits: exp.Expr) -> exp.Expr:
    if not isinstance(digits, exp.Literal) or not digits.name.isdigit():
        raise SqlError("trunc takes a constant number of digits", digits)
    unit = 10 ** int(digits.name)
    return duckdb(
        f"by_type(:x, 'decimal', CAST(trunc(:x * {unit}) / {unit} AS DECIMAL(18,{digits.name})), "
        f"'integer', :x, trunc(:x * {unit}) / {unit})",
        {"x": number},
    )


def _counted(node: exp.Anonymous, test: str) -> exp.Expr:
    parts = " + ".join(
        f"CASE WHEN :a{n} {test} THEN 1 ELSE 0 END" for n in range(len(node.expressions))
    )
    return duckdb(parts, {f"a{n}": arg for n, arg in enumerate(node.expressions)})


def _joined(given: list[exp.Expr], head: str, more: dict[str, exp.Expr] | None = None) -> exp.Expr:
    shown = ", ".join(_TEXT.format(f":a{n}") for n in range(len(given)))
    return duckdb(
        f"{head}{shown})", {**{f"a{n}": arg for n, arg in enumerate(given)}, **(more or {})}
    )


def _formatted(node: exp.Anonymous) -> exp.Expr:
    """format, with %s and %1$s; a null is an empty text."""
    form, *values = node.expressions
    if not isinstance(form, exp.Literal) or "%" in MARKS.sub("", form.name):
        raise SqlError("format takes a text that is written out, with %s for each value", node)
    parts, place, given, after = list[str](), 0, dict[str, exp.Expr](), 0
    for mark in [*MARKS.finditer(form.name), None]:
        plain = form.name[place : mark.start() if mark else None]
        place = mark.end() if mark else place
        plain += "%" if mark and mark[0] == "%%" else ""
        given[f"p{len(parts)}"] = exp.Literal.string(plain)
        parts.append(f":p{len(parts)}")
        if mark and mark[0] != "%%":
            after = int(mark[1]) if mark[1] else after + 1
            if after > len(values):
                raise SqlError("format has fewer values than places", node)
            given[f"a{after}"] = values[after - 1]
            parts.append(_TEXT.format(f":a{after}"))
    return duckdb(f"concat({', '.join(parts)})", given)


def _matched(node: exp.Anonymous) -> exp.Expr:
    """regexp_match: the groups of the first match, or all of it if the pattern has none."""
    text, pattern = node.expressions
    if not isinstance(pattern, exp.Literal):
        raise SqlError("regexp_match takes a pattern that is written out", node)
    groups = range(1, _groups(pattern, node) + 1) or [0]
    shown = ", ".join(f"regexp_extract(:s, :p, {n})" for n in groups)
    return duckdb(f"CASE WHEN regexp_matches(:s, :p) THEN [{shown}] END", {"s": text, "p": pattern})


def _groups(pattern: exp.Expr, node: exp.Expr) -> int:
    """Return how many groups a pattern has, each of which a match has.  Raises SqlError."""
    plain = re.sub(r"\\.|\[[^]]*\]", "", pattern.name)
    bare = re.sub(r"\([^()]*\)", "", plain)
    if "(" in plain and (re.search(r"\)(?:[?*]|\{0)", plain) or "|" in bare):
        words = "a group that may have no match is null: write (x|) for (x)?"
        raise SqlError(words, node)
    try:
        return re.compile(pattern.name).groups
    except re.error as error:
        raise SqlError(f"the pattern {pattern.name!r} is not read: {error}", node) from None


def _known_form(form: exp.Expr, words: tuple[str, ...] | None = None) -> None:
    known = "YYYY, MM, DD, Mon, Month, HH24, HH12, AM, MI, SS, MS and US"
    refuse_unread(form, named_pieces, words, f"{known}; other letters are in double quotes")


def _shown(moment: exp.Expr, form: exp.Expr) -> exp.Expr:
    known = named_pieces(form.name) is not None if isinstance(form, exp.Literal) else False
    words = "to_char of numbers is not evaluated: write CAST(x AS text), or round(x, n)"
    if not known and not re.fullmatch(r"[FM0-9,.$SGDLBPRTHVE ]*", form.name):
        _known_form(form)
    shown = "postgres_to_char(:t, :f)" if known else "refused('the pattern of to_char is not read')"
    return duckdb(
        f"by_type(:t, 'date timestamp timestamptz null', {shown}, refused('{words}'))",
        {"t": moment, "f": form},
    )


def _read(node: exp.Anonymous, type_: str) -> exp.Expr:
    text, form = node.expressions
    _known_form(form, NAMED_READ)
    return duckdb(f"CAST(postgres_read_moment(:s, :f) AS {type_})", {"s": text, "f": form})


def _truncated(unit: exp.Expr, moment: exp.Expr) -> exp.Expr:
    if not isinstance(unit, exp.Literal) or not unit.name.isalpha():
        raise SqlError("the unit is a text that is written out, as 'month'", unit)
    years = {"century": 100, "centuries": 100, "millennium": 1000}.get(name := unit.name.lower())
    shown = f"date_trunc('{name}', :t)"
    if years:  # the first is of the year 1
        shown = f"make_timestamp((year(:t) - 1) // {years} * {years} + 1, 1, 1, 0, 0, 0)"
        shown = f"by_type(:t, 'timestamptz', CAST({shown} AS TIMESTAMPTZ), {shown})"
    return duckdb(shown, {"t": moment})


def _length(values: exp.Expr, dimension: exp.Expr) -> exp.Expr:
    if dimension.name != "1":
        raise SqlError("arrays have one dimension: write array_length(l, 1)", dimension)
    return duckdb("nullif(len(:l), 0)", {"l": values})


def _path(node: exp.Anonymous, name: str) -> exp.Expr:
    value, *steps = node.expressions
    if not all(isinstance(step, exp.Literal) for step in steps):
        raise SqlError("a path in JSON is written out", node)
    return duckdb(f"{name}(:j, :p)", {"j": value, "p": _steps([step.name for step in steps])})


def _steps(names: list[str]) -> exp.Expr:
    """Return a path in JSON by the names of its steps, of which a number is a place in a list."""
    shown = "".join(f"[{step}]" if step.isdigit() else f'."{step}"' for step in names)
    return exp.Literal.string(f"${shown}")


# -- operators


def _cast(node: exp.Cast) -> exp.Expr:
    """CAST, to VARCHAR(n) of at most n letters."""
    types = exp.DataType.Type
    if not _is_full(node):
        refuse_padded(node, node.to)
    if node.to.this != types.VARCHAR or not node.to.expressions:
        return cast_as("postgres", node)
    return duckdb(
        "left(postgres_cast(:x, 'VARCHAR'), :n)", {"x": node.this, "n": node.to.expressions[0].this}
    )


def _is_full(node: exp.Cast) -> bool:
    """Return whether a cast is of a text as long as CHAR(n), without blanks at its end, that is
    compared with a column or an expression: then it is like any text.
    """
    around, text = node.parent, node.this.name
    if node.to.this not in PADDED or not (
        isinstance(around, exp.EQ) and isinstance(node.this, exp.Literal)
    ):
        return False
    (length,) = [one.this for one in node.to.expressions] or [exp.Literal.number(1)]
    other = around.expression if node.arg_key == "this" else around.this
    full = str(len(text)) == length.name and not text.endswith(" ")
    return full and not isinstance(other, exp.Literal | exp.Cast)


def _series(node: exp.Anonymous) -> exp.Expr:
    given = {f"a{n}": value for n, value in enumerate(node.expressions)}
    call = f"generate_series({', '.join(f':{name}' for name in given)})"
    chosen = isinstance(node.parent, exp.Select | exp.Alias)  # where it gives rows
    return duckdb(f"unnest({call})" if chosen else call, given, node)


def _strict(node: exp.DPipe) -> exp.Expr:
    return duckdb("postgres_concat(:a, :b)", {"a": node.this, "b": node.expression})


def _substring(node: exp.Substring) -> exp.Expr:
    start, length = node.args["start"], node.args.get("length")
    if isinstance(start, exp.Literal) and start.is_string:
        group = min(_groups(start, node), 1)
        return duckdb(
            f"CASE WHEN regexp_matches(:s, :p) THEN regexp_extract(:s, :p, {group}) END",
            {"s": node.this, "p": start},
        )
    return duckdb(
        f"postgres_substring(:s, :a, {_LENGTH if length else '2147483647'})",
        {"s": node.this, "a": start, **({"n": length} if length else {})},
    )


def _overlaid(node: exp.Overlay) -> exp.Expr:
    """OVERLAY, from a place within the text."""
    length = node.args.get("for_")
    start = "CASE WHEN :a < 1 THEN failing(:a, 'a place before the text') ELSE :a END"
    return duckdb(
        f"postgres_substring(:s, 1, {start} - 1) || :p || "
        f"postgres_substring(:s, :a + {':n' if length else 'length(:p)'}, 2147483647)",
        {
            "s": node.this, "p": node.expression, "a": node.args["from_"],
            **({"n": length} if length else {}),
        },
    )  # fmt: skip


def _ignoring_case(node: exp.Expr) -> exp.Expr:
    pattern = node.expression
    if isinstance(pattern, exp.Literal):
        return exp.RegexpLike(this=node.this, expression=exp.Literal.string(f"(?i){pattern.name}"))
    return duckdb("regexp_matches(:s, concat('(?i)', :p))", {"s": node.this, "p": pattern})


def _similar(node: exp.SimilarTo) -> exp.Expr:
    """SIMILAR TO, in whose pattern `%` and `_` stand for letters, and a dot for itself."""
    pattern = node.expression
    if not isinstance(pattern, exp.Literal):
        raise SqlError("SIMILAR TO takes a pattern that is written out", node)
    signs = {"%": "(?s:.*)", "_": "(?s:.)"}
    shown = re.sub(
        r"\\.|[%_.^$]", lambda sign: signs.get(sign[0]) or re.escape(sign[0][-1]), pattern.name
    )
    return duckdb("regexp_full_match(:s, :p)", {"s": node.this, "p": exp.Literal.string(shown)})


def _date_part(unit: exp.Expr, moment: exp.Expr) -> exp.Expr:
    made = exp.Extract(this=exp.Var(this=unit.name), expression=moment)
    return _part(made) or made


def _part(node: exp.Extract) -> exp.Expr | None:
    """EXTRACT, whose seconds have a fraction."""
    unit, moment = node.name.upper().rstrip("S"), node.expression
    divisors = {"SECOND": 1000000, "MILLISECOND": 1000, "MICROSECOND": 1}
    if unit not in (*divisors, "EPOCH"):
        return None
    shown = _SECOND.format("CAST(:t AS TIMESTAMP)", divisors.get(unit, 1000000))
    of_time = _SECOND.format(":t", divisors.get(unit, 1000000))
    if unit == "EPOCH":
        shown = f"EXTRACT({unit} FROM :t)"
        of_time = f"EXTRACT(HOUR FROM :t) * 3600 + EXTRACT(MINUTE FROM :t) * 60 + {of_time}"
    return duckdb(
        f"by_type(:t, 'date timestamp timestamptz', {shown}, 'time', {of_time}, "
        f"EXTRACT({unit} FROM :t))",
        {"t": moment},
    )


def _of_rows(node: exp.Expr, query: exp.Expr) -> exp.Expr:
    if not isinstance(query.unnest(), exp.Query):
        raise SqlError("array(...) takes a query: values are written as ARRAY[1, 2]", node)
    return exp.Array(expressions=[query])


def _in_list(node: exp.Binary) -> exp.Expr | None:
    """Return a comparison with ANY or ALL of an array, null if there is none."""
    listed = node.expression
    if not isinstance(listed, exp.Any | exp.All):
        return by_places(node)
    inner = listed.this.unnest()
    if isinstance(inner, exp.Query | exp.Array | exp.Placeholder | exp.Parameter) or _chooses(node):
        return None
    return duckdb("CASE WHEN :l IS NOT NULL THEN :c END", {"l": inner, "c": node.copy()})


def _chooses(node: exp.Expr) -> bool:
    """Return whether a condition chooses rows, for which null is false."""
    while isinstance(node.parent, exp.And | exp.Paren):
        node = node.parent
    return isinstance(node.parent, exp.Where | exp.Having | exp.Join)


def _at_place(node: exp.Bracket) -> exp.Expr | None:
    """A place in an array, or a part of it: there is nothing before 1."""
    place = node.expressions[0]
    if isinstance(place, exp.Slice):
        low, high = place.this, place.expression
        if low is None or high is None or place.args.get("step"):
            return None
        return duckdb(
            "list_slice(:l, CASE WHEN :a < 1 THEN 1 ELSE :a END, CASE WHEN :b < 0 THEN 0 ELSE :b END)",
            {"l": node.this, "a": low, "b": high},
        )
    if len(node.expressions) > 1 or (isinstance(place, exp.Literal) and place.name != "-1"):
        return None
    first = exp.Literal.number(0 if node.meta.get(SHIFTED) else 1)
    return duckdb("CASE WHEN :n >= :f THEN :x END", {"n": place, "f": first, "x": node.copy()})


def _ranged(node: exp.Expr) -> None:
    node.meta[RANGED] = True


def _containing(node: exp.Expr) -> exp.Expr:
    left, right = node.this, node.expression
    if isinstance(node, exp.ArrayContainedBy):
        left, right = right, left
    whole = "list_count(:b) = len(:b) AND list_has_all(:a, :b)"  # null is in no array
    text = "list_has_any(:a, :b)" if isinstance(node, exp.ArrayOverlaps) else whole
    words = "refused('@> and <@ take arrays: compare j ->> key with a value')"
    text = f"CASE WHEN :a IS NOT NULL AND :b IS NOT NULL THEN {text} END"
    return duckdb(f"by_type(:a, 'list', {text}, {words})", {"a": left, "b": right})


def _of_json(node: exp.Expr) -> None:
    """`->` and `->>`, of JSON only, as all that is JSON is here."""
    node.set("only_json_types", None)


def _at_path(node: exp.Expr) -> exp.Expr:
    """`#>` and `#>>`, by a path '{a,b}'."""
    path = node.expression
    names = list_items(path.name) if isinstance(path, exp.Literal) else None
    if names is None or None in names:
        raise SqlError("a path in JSON is written out, as '{a,b}'", node)
    steps = _steps([one for one in names if one is not None])
    name = "json_extract_string" if isinstance(node, exp.JSONBExtractScalar) else "json_extract"
    return duckdb(f"{name}(:j, :p)", {"j": node.this, "p": steps})


def name_column(table: exp.Table | exp.Unnest) -> None:
    """Let the column of a function in FROM have the function's other name, if it has one."""
    alias = table.args.get("alias")
    is_call = isinstance(table, exp.Unnest) or isinstance(table.this, exp.Func)
    if is_call and isinstance(alias, exp.TableAlias) and alias.this and not alias.columns:
        alias.set("columns", [alias.this.copy()])


OPERATORS: dict[type[exp.Expr], Callable[..., exp.Expr | None]] = {
    exp.Cast: _cast, exp.Div: lambda node: divided("postgres", node), exp.DPipe: _strict,
    exp.ColumnDef: column_defined, exp.Values: numbered_columns,
    exp.Like: like_with_backslash, exp.ILike: like_with_backslash,
    exp.Substring: _substring, exp.RegexpILike: _ignoring_case, exp.SimilarTo: _similar,
    exp.Extract: _part, exp.ArrayContainsAll: _containing, exp.ArrayContainedBy: _containing,
    exp.ArrayOverlaps: _containing, exp.JSONBExtractScalar: _at_path, exp.JSONBExtract: _at_path,
    exp.JSONExtract: _of_json, exp.JSONExtractScalar: _of_json, exp.Between: either_way,
    **dict.fromkeys(ROWS, _in_list), exp.In: by_places, exp.Bracket: _at_place,
    exp.Overlay: _overlaid, **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), _ranged),
    exp.Pow: lambda node: duckdb("postgres_power(:a, :b)", {"a": node.this, "b": node.expression}),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), lambda node: shifted(node,
        "postgres_")),
}  # fmt: skip
TABLE = table("PostgreSQL", "postgres", SAME, CALLS, OPERATORS, INSTEAD)
