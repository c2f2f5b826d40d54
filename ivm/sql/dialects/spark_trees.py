"""Meanings of Spark's functions that depend on what is written: units, patterns, places."""

from __future__ import annotations

import re

from sqlglot import exp

from ivm.sql.dialects.operators import cast_as, printed, refuse_unread, unit_name
from ivm.sql.dialects.table import duckdb
from ivm.sql.errors import SqlError
from ivm.terms.dialects import java_pieces

DATE = "spark_cast(:d, 'DATE')"
# a TIMESTAMP_NTZ has no zone, so it is not read in that of the session
MOMENT = "by_type(:t, 'timestamp', :t, CAST(spark_cast(:t, 'TIMESTAMPTZ') AS TIMESTAMP))"
NOT_NULL = "FILTER (WHERE :x IS NOT NULL)"
SET = f"coalesce(list(DISTINCT :x ORDER BY :x) {NOT_NULL}, [])"
_MONTHS, _DAYS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}, {"DAY": 1, "WEEK": 7}
REMAINDER = "CASE WHEN :y = 0 THEN failing(:x % :y, 'remainder by zero') ELSE :x % :y END"
OVERLAY = (
    "spark_concat(spark_substring(:s, 1, :n - 1), :r, spark_substring(:s, :n + :m, 2147483647))"
)


# -- texts


def joined(node: exp.Anonymous) -> exp.Expr:
    """concat: null if one of its arguments is; lists are joined, too."""
    text: exp.Expr = node.expressions[0]
    if len(node.expressions) == 1:
        return duckdb("by_type(:x, 'list', :x, spark_text(:x))", {"x": text})
    for item in node.expressions[1:]:
        text = strict(exp.DPipe(this=text, expression=item))
    return text


def strict(node: exp.Expr) -> exp.Expr:
    """Return `||`, of values as Spark writes them."""
    return duckdb("spark_concat(:a, :b)", {"a": node.this, "b": node.expression})


def joined_with(node: exp.Anonymous) -> exp.Expr:
    """concat_ws, of texts and of lists of texts."""
    separator, *rest = node.expressions
    names = [f":a{n}" for n in range(len(rest))]
    shown = ", ".join(
        f"by_type({one}, 'list', array_to_string({one}, :s), spark_text({one}))" for one in names
    )
    return duckdb(
        f"concat_ws(spark_text(:s), {shown})",
        {"s": separator, **{f"a{n}": one for n, one in enumerate(rest)}},
    )


def pieces(node: exp.Anonymous) -> exp.Expr:
    """split: by a pattern, or into letters."""
    text, pattern = node.expressions
    if not isinstance(pattern, exp.Literal):
        raise SqlError("split takes a pattern that is written out", node)
    if not pattern.name:
        return duckdb(
            "CASE WHEN spark_text(:s) = '' THEN list_value('') ELSE regexp_extract_all(spark_text(:s), '(?s).') END",
            {"s": text},
        )
    plain = re.fullmatch(r"[^\\.\[\]{}()*+?^$|]+", pattern.name)
    return duckdb(
        f"string_split{'' if plain else '_regex'}(spark_text(:s), :p)", {"s": text, "p": pattern}
    )


def formatted(node: exp.Anonymous) -> exp.Expr:
    """format_string, in which a null is the text null."""
    no_null = "CASE WHEN :{{0}} IS NULL THEN failing(0, 'format_string takes no null with %d and %f') ELSE {} END"
    return printed(
        node,
        {
            "s": "coalesce(spark_text(:{0}), 'null')",
            "d": no_null.format("by_type(:{0}, 'integer', :{0})"),
            "f": no_null.format("by_type(:{0}, 'float decimal', CAST(:{0} AS DOUBLE))"),
        },
    )


def hashed(node: exp.Anonymous) -> exp.Expr:
    """sha2, by the number of bits."""
    text, bits = node.expressions
    names = {
        "0": "sha256",
        "256": "sha256",
        "224": "spark_sha224",
        "384": "spark_sha384",
        "512": "spark_sha512",
    }
    if bits.name not in names:
        raise SqlError(f"sha2 takes 224, 256, 384 or 512 bits, and this is {bits.name}", node)
    return duckdb(f"{names[bits.name]}(spark_text(:s))", {"s": text})


def replaced(node: exp.Anonymous) -> exp.Expr:
    """regexp_replace: all matches, where $1 stands for a group."""
    text, pattern, new = node.expressions
    if not isinstance(new, exp.Literal):
        raise SqlError("what regexp_replace puts in is a text that is written out", node)
    shown = re.sub(r"\\(.)|\$([0-9])", lambda mark: mark[1] or f"\\{mark[2]}", new.name)
    return duckdb(
        "regexp_replace(spark_text(:s), :p, :r, 'g')",
        {"s": text, "p": pattern, "r": exp.Literal.string(shown)},
    )


# -- dates

_PARTS = {
    **dict.fromkeys(("YEAR", "Y", "YEARS", "YR", "YRS"), f"CAST(year({DATE}) AS INTEGER)"),
    **dict.fromkeys(("QUARTER", "QTR"), f"CAST(quarter({DATE}) AS INTEGER)"),
    **dict.fromkeys(("MONTH", "MON", "MONS", "MONTHS"), f"CAST(month({DATE}) AS INTEGER)"),
    **dict.fromkeys(("WEEK", "W", "WEEKS"), f"CAST(week({DATE}) AS INTEGER)"),
    **dict.fromkeys(("DAY", "D", "DAYS"), f"CAST(day({DATE}) AS INTEGER)"),
    **dict.fromkeys(("DOW", "DAYOFWEEK"), f"CAST(dayofweek({DATE}) AS INTEGER) + 1"),
    **dict.fromkeys(("DOW_ISO", "DAYOFWEEK_ISO"), f"CAST(isodow({DATE}) AS INTEGER)"),
    "DOY": f"CAST(dayofyear({DATE}) AS INTEGER)", "YEAROFWEEK": f"CAST(isoyear({DATE}) AS INTEGER)",
    **{name: f"CAST({part}({MOMENT}) AS INTEGER)" for part, names in (("hour",
        "HOUR H HOURS HR HRS"), ("minute", "MINUTE MIN M MINS MINUTES")) for name in names.split()},
    **dict.fromkeys(("SECOND", "S", "SEC", "SECONDS", "SECS"),
    f"CAST((epoch_us({MOMENT}) - 60000000 * "
                    f"CAST(floor(epoch_us({MOMENT}) / 60000000) AS BIGINT)) / 1000000 AS "
                    f"DECIMAL(8,6))"),
}  # fmt: skip
_WEEKDAYS = {
    name[:size].upper(): n
    for n, name in enumerate(
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"), 1
    )
    for size in (2, 3, 9)
}
TRUNC = {"YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "MONTH": "month",
    "MM": "month",
          "MON": "month", "WEEK": "week"}  # fmt: skip
DATE_TRUNC = {**TRUNC, "DAY": "day", "DD": "day", "HOUR": "hour", "MINUTE": "minute",
    "SECOND": "second",
               "MILLISECOND": "millisecond", "MICROSECOND": "microsecond"}  # fmt: skip
_STEPS = {"DAY": "days", "WEEK": "weeks", "MONTH": "months", "QUARTER": "months", "YEAR": "years",
    "HOUR": "hours",
          "MINUTE": "minutes", "SECOND": "seconds"}  # fmt: skip
_SIZES = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6,
    "HOUR": 3600 * 10**6,
          "DAY": 86400 * 10**6, "DAYOFYEAR": 86400 * 10**6, "WEEK": 7 * 86400 * 10**6}  # fmt: skip


def part_of(unit: str, moment: exp.Expr) -> exp.Expr:
    """Return a part of a date or a timestamp.  Raises SqlError for a unit that has none."""
    if unit.upper() not in _PARTS:
        raise SqlError(
            f"{unit} is not a part of a date that is evaluated: YEAR, QUARTER, MONTH, WEEK, DAY, "
            "DOW, DOY, HOUR, MINUTE and SECOND are",
            moment,
        )
    return duckdb(_PARTS[unit.upper()], {"d": moment, "t": moment})


def moved(unit: exp.Expr, count: exp.Expr, moment: exp.Expr) -> exp.Expr:
    """dateadd of a unit: a timestamp, also of a date."""
    step = _STEPS.get(unit_name(unit))
    if step is None:
        raise SqlError(f"{unit.name} is not a unit that is added: {', '.join(_STEPS)} are", moment)
    times = " * 3" * (unit_name(unit) == "QUARTER")
    return duckdb(
        f"CAST(by_type(:t, 'text date', CAST(spark_cast(:t, 'TIMESTAMPTZ') AS TIMESTAMP), :t) + "
        f"to_{step}(:n{times}) AS TIMESTAMPTZ)",
        {"t": moment, "n": count},
    )


def difference(unit: exp.Expr, start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """Return how many whole units lie between two moments, below 0 if the end comes first."""
    name, values = unit_name(unit), {"a": start, "b": end}
    start_, end_ = (MOMENT.replace(":t", f":{arg}") for arg in "ab")
    if name in _SIZES:
        return duckdb(f"(epoch_us({end_}) - epoch_us({start_})) // {_SIZES[name]}", values)
    months = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}.get(name)
    if months is None:
        raise SqlError(
            f"{unit.name} is not a unit of a difference: {', '.join(_SIZES)}, MONTH, QUARTER and "
            f"YEAR are",
            unit,
        )
    return duckdb(f"date_sub('month', {start_}, {end_}) // {months}", values)


def months_between(node: exp.Anonymous) -> exp.Expr:
    """months_between, rounded to eight digits unless its third argument is false."""
    shown = (MOMENT.replace(":t", f":{arg}") for arg in "ab")
    values = zip("abr", (*node.expressions, exp.true()), strict=False)
    return duckdb(f"spark_months_between({', '.join(shown)}, :r)", dict(values))


def next_day(day: exp.Expr, name: exp.Expr) -> exp.Expr:
    """next_day, by the name of a day."""
    number = _WEEKDAYS.get(name.name.upper()) if isinstance(name, exp.Literal) else None
    if number is None:
        raise SqlError("next_day takes the name of a day that is written out, as 'MON'", name)
    return duckdb(f"{DATE} + 7 - CAST((isodow({DATE}) - {number} + 7) % 7 AS INTEGER)", {"d": day})


def truncated(node: exp.Anonymous, units: dict[str, str], type_: str) -> exp.Expr:
    """trunc, whose unit comes last, and date_trunc, whose unit comes first; null for others."""
    unit, moment = node.expressions[:: -1 if type_ == "DATE" else 1]
    if not isinstance(unit, exp.Literal):
        raise SqlError("the unit is a text that is written out, as 'MONTH'", unit)
    if unit.name.upper() not in units:
        return duckdb(f"CAST(NULL AS {type_})")
    inner = DATE if type_ == "DATE" else "spark_cast(:d, 'TIMESTAMPTZ')"
    return duckdb(
        f"CAST(date_trunc('{units[unit.name.upper()]}', {inner}) AS {type_})", {"d": moment}
    )


def known_form(form: exp.Expr, letters: str | None = None) -> None:
    """Raise SqlError for a pattern of dates that is not read, or has others than some letters."""
    known = "yyyy, MM, MMM, dd, E, HH, hh, a, mm, ss and SSS"
    refuse_unread(form, java_pieces, letters, f"{known}; other letters are in quotes")


def shown(moment: exp.Expr, form: exp.Expr) -> exp.Expr:
    """date_format, by a pattern that is written out."""
    known_form(form)
    return duckdb(
        "spark_date_format(CAST(spark_cast(:t, 'TIMESTAMPTZ') AS TIMESTAMP), :f)",
        {"t": moment, "f": form},
    )


def read(node: exp.Anonymous, type_: str) -> exp.Expr:
    """to_date and to_timestamp, by a pattern that is written out."""
    text, form = node.expressions
    known_form(form, "yuMdHhmsSaE")
    return duckdb(
        f"by_type(:s, 'text null', CAST(spark_read_moment(:s, :f) AS {type_}), spark_cast(:s, "
        f"'{type_}'))",
        {"s": text, "f": form},
    )


def half_even(number: exp.Expr, digits: exp.Expr) -> exp.Expr:
    """bround with digits: halves to the even neighbour."""
    if not isinstance(digits, exp.Literal) or not digits.name.isdigit():
        raise SqlError("bround takes a constant number of digits", digits)
    rounded = f"CAST(spark_bround(:x, {digits.name}) AS DECIMAL(18,{digits.name}))"
    return duckdb(
        f"by_type(:x, 'decimal', {rounded}, spark_bround(:x, {digits.name}))", {"x": number}
    )


def chosen(node: exp.Anonymous) -> exp.Expr:
    """elt: one of several values by its number."""
    place, *values = node.expressions
    whens = " ".join(f"WHEN {n} THEN :a{n}" for n in range(1, len(values) + 1))
    never = "CASE WHEN :n IS NOT NULL THEN failing('', 'elt has no value of this number') END"
    return duckdb(
        f"CASE (:n) {whens} ELSE {never} END",
        {"n": place, **{f"a{n}": value for n, value in enumerate(values, 1)}},
    )


# -- lists, structs, maps and aggregates


def sequence(first: exp.Expr, last: exp.Expr, step: exp.Expr | None = None) -> exp.Expr:
    """sequence, of whole numbers, or of dates by an INTERVAL of days or months."""
    given, sign = {"a": first, "b": last}, 1
    if isinstance(step, exp.Neg):
        step, sign = step.this, -1
    if isinstance(step, exp.Interval):
        unit, size = step.text("unit").upper().removesuffix("S"), step.this.name
        months, days = _MONTHS.get(unit, 0), _DAYS.get(unit, 0)
        if not (size.isdigit() and int(size) and months + days) or sign < 0:
            raise SqlError("sequence of dates goes forward, by an INTERVAL of days or months", step)
        by = int(size) * (months + days)
        more, most = (
            f"to_{'months' if months else 'days'}(CAST(e * {by} AS INTEGER))",
            28 if months else 1,
        )
        return duckdb(
            f"list_filter(list_transform(range(0, (:b - :a) // {by * most} + 1), "
            f"e -> CAST(:a + {more} AS DATE)), e -> e <= :b)",
            given,
        )
    if step is not None and not (step.is_int and int(step.name)):
        raise SqlError("sequence takes a step that is written out", step)
    if step is not None or (first.is_int and last.is_int):
        sign *= (
            int(step.name) if step is not None else 1 if int(first.name) <= int(last.name) else -1
        )
        return duckdb(f"range(:a, :b + {1 if sign > 0 else -1}, {sign})", given)
    numbers = "CASE WHEN :a <= :b THEN range(:a, :b + 1) ELSE range(:a, :b - 1, -1) END"
    return duckdb(
        f"by_type(:a, 'date', list_transform(range(0, :b - :a + 1), "
        f"e -> CAST(:a + to_days(CAST(e AS INTEGER)) AS DATE)), {numbers})",
        given,
    )


def collected(value: exp.Expr) -> exp.Expr:
    """collect_list, also of DISTINCT values."""
    if isinstance(value, exp.Distinct):
        return duckdb(SET, {"x": value.expressions[0]})
    return duckdb(f"coalesce(list(:x) {NOT_NULL}, [])", {"x": value})


def in_order(values: exp.Expr, up: exp.Expr) -> exp.Expr:
    """sort_array, by true or false."""
    if not isinstance(up, exp.Boolean):
        raise SqlError("sort_array takes true or false", up)
    order = "'ASC', 'NULLS FIRST'" if up.this else "'DESC', 'NULLS LAST'"
    return duckdb(f"list_sort(:l, {order})", {"l": values})


def fields(pairs: list[tuple[str, exp.Expr]]) -> exp.Expr:
    """Return a struct of names and values."""
    fields = ", ".join(
        f"{exp.Literal.string(name).sql()}: :a{n}" for n, (name, _) in enumerate(pairs)
    )
    return duckdb(f"{{{fields}}}", {f"a{n}": value for n, (_, value) in enumerate(pairs)})


def struct(node: exp.Anonymous) -> exp.Expr:
    """struct, whose fields have the names of columns, or col1, col2 and so on."""
    pairs = []
    for n, item in enumerate(node.expressions, 1):
        name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else f"col{n}"
        pairs.append((name, item.unalias()))
    return fields(pairs)


def named_struct(node: exp.Anonymous) -> exp.Expr:
    """named_struct, of names each followed by a value."""
    names, values = node.expressions[::2], node.expressions[1::2]
    if len(names) != len(values) or not all(
        isinstance(one, exp.Literal) and one.is_string and one.name for one in names
    ):
        raise SqlError("named_struct takes names, which are texts, each followed by a value", node)
    return fields([(name.name, one) for name, one in zip(names, values, strict=True)])


def map_of(node: exp.Anonymous) -> exp.Expr:
    """map, of keys each followed by a value."""
    keys, values = node.expressions[::2], node.expressions[1::2]
    if len(keys) != len(values):
        raise SqlError("map takes keys, each followed by a value", node)
    pairs = ", ".join(f":k{n}: :v{n}" for n in range(len(keys)))
    both = {f"k{n}": one for n, one in enumerate(keys)} | {
        f"v{n}": one for n, one in enumerate(values)
    }
    return duckdb(f"MAP {{{pairs}}}", both)


def type_names(name: str) -> str:
    """Return the text of an expression that gives a type's name in Spark."""
    kinds = {"text": "string", "timestamptz": "timestamp", "timestamp": "timestamp_ntz"}
    others = "replace(replace(replace(lower(typeof(:{0})), 'integer', 'int'), '\"', ''), ' ', '')"
    pairs = ", ".join(f"'{kind}', '{shown}'" for kind, shown in kinds.items())
    return f"by_type(:{name}, {pairs}, 'integer float decimal date boolean', {others.format(name)})"


def counted(node: exp.Anonymous) -> exp.Expr:
    """count(a, b): rows in which none is null."""
    tests = " AND ".join(f":a{n} IS NOT NULL" for n in range(len(node.expressions)))
    return duckdb(
        f"count(CASE WHEN {tests} THEN 1 END)",
        {f"a{n}": item for n, item in enumerate(node.expressions)},
    )


def end(node: exp.Anonymous, name: str) -> exp.Expr:
    """first and last, with or without nulls, also over a window."""
    value, ignores = (*node.expressions, exp.false())[:2]
    if not isinstance(ignores, exp.Boolean) or len(node.expressions) > 2:
        raise SqlError(f"{name} takes true or false as its second argument", node)
    around = node.parent.parent if isinstance(node.parent, exp.IgnoreNulls) else node.parent
    if isinstance(around, exp.Window):
        last = duckdb(f"{name}_value(:x)", {"x": value})
        return exp.IgnoreNulls(this=last) if ignores.this else last
    return duckdb(f"{name}(:x) {NOT_NULL if ignores.this else ''}", {"x": value})


def distinct(node: exp.Distinct) -> exp.Expr | None:
    """count(DISTINCT a, b): rows of values, none of which is null."""
    if (
        len(node.expressions) < 2
        or node.parent is None
        or not isinstance(node.parent, exp.Anonymous)
    ):
        return None
    given = {f"a{n}": item for n, item in enumerate(node.expressions)}
    tests = " AND ".join(f":{name} IS NOT NULL" for name in given)
    row = duckdb(
        f"CASE WHEN {tests} THEN row({', '.join(f':{name}' for name in given)}) END", given
    )
    return exp.Distinct(expressions=[row])


# -- operators


def cast(node: exp.Cast) -> exp.Expr | None:
    """CAST as Spark does it; None for DATE '2024-01-31' and the like."""
    typed = isinstance(node.this, exp.Literal) and not (
        isinstance(node, exp.TryCast) and node.this.is_string
    )
    if typed and not node.args.get("safe") and not isinstance(node, exp.TryCast):
        return None  # DATE '2024-01-31'
    if isinstance(node.this, exp.Literal) and not node.this.is_string and "." not in node.this.name:
        if not node.args.get("safe") and node.this.name in ("0", "1"):
            return exp.Cast(this=node.this, to=node.to)
        return cast_as("try_spark" if node.args.get("safe") else "spark", node)
    return cast_as("try_spark" if node.args.get("safe") else "spark", node)


def moved_or_not(node: exp.Expr) -> exp.Expr | None:
    """`+` and `-` of a date and an interval, and `-` of dates."""
    left, right = node.this, node.expression
    sign = "+" if isinstance(node, exp.Add) else "-"
    if isinstance(left, exp.Interval) and sign == "+":
        left, right = right, left
    if isinstance(right, exp.Interval) and not isinstance(left, exp.Interval):
        moved = duckdb("spark_moved(:a, :s)", {"a": left, "s": exp.Literal.string(sign)})
        moved.append("expressions", right.copy())
        return moved
    if sign == "+" or isinstance(left, exp.Literal) or isinstance(right, exp.Literal):
        return None
    return duckdb("spark_minus(:a, :b)", {"a": left, "b": right})


def interval(node: exp.Interval) -> exp.Expr | None:
    """INTERVAL '1-2' YEAR TO MONTH and INTERVAL '1 02:03:04' DAY TO SECOND."""
    unit = node.args.get("unit")
    if not isinstance(unit, exp.IntervalSpan):
        return None
    first, last = unit.this.name.upper(), unit.expression.name.upper()
    text = node.this.name
    if (first, last) == ("YEAR", "MONTH") and (match := re.fullmatch(r"([+-]?)(\d+)-(\d+)", text)):
        count = int(match[2]) * 12 + int(match[3])
        return exp.Interval(
            this=exp.Literal.string(f"{match[1]}{count}"), unit=exp.Var(this="MONTH")
        )
    units = ["DAY", "HOUR", "MINUTE", "SECOND"]
    numbers = re.fullmatch(r"([+-]?)([0-9 :.]+)", text)
    pattern = (
        units[units.index(first) : units.index(last) + 1]
        if first in units and last in units
        else []
    )
    parts = re.split("[ :]", numbers[2]) if numbers else []
    if not pattern or len(parts) != len(pattern):
        raise SqlError(
            f"INTERVAL '{text}' {first} TO {last} is not read: write the sum of several intervals",
            node,
        )
    micros = sum(round(float(one) * _SIZES[name]) for one, name in zip(parts, pattern, strict=True))
    sign = "-" if numbers and numbers[1] == "-" else ""
    return exp.Interval(
        this=exp.Literal.string(f"{sign}{micros}"), unit=exp.Var(this="MICROSECOND")
    )


def extract(node: exp.Extract) -> exp.Expr:
    """EXTRACT, with Spark's numbers of days."""
    return part_of(node.name, node.expression)


def substring(node: exp.Substring) -> exp.Expr:
    """SUBSTRING with FROM and FOR."""
    length = node.args.get("length") or exp.Literal.number(2147483647)
    return duckdb(
        "spark_substring(spark_text(:s), :a, :n)",
        {"s": node.this, "a": node.args["start"], "n": length},
    )


def at_place(node: exp.Bracket) -> exp.Expr | None:
    """`l[0]`: the first value of a list, or the value of a key of a map."""
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        return None
    inside = (
        "CASE WHEN :n BETWEEN 0 AND len(:l) - 1 THEN list_extract(:l, :n + 1) WHEN :n IS NULL OR "
        ":l IS NULL "
        "THEN NULL ELSE failing(list_extract(:l, 1), 'a list has no value at this place') END"
    )
    (place,) = node.expressions
    if isinstance(place, exp.Literal) and place.is_string:
        return duckdb(":l[(:n)]", {"l": node.this, "n": place})
    return duckdb(f"by_type(:l, 'map', :l[(:n)], {inside})", {"l": node.this, "n": place})


def _text(node: exp.Expr) -> exp.Expr:
    """Return what a cast to STRING gives."""
    return duckdb("spark_text(:s)", {"s": node})


def remainder(node: exp.Mod) -> exp.Expr:
    """`%`, which has no value for 0, also of a DOUBLE."""
    return duckdb(REMAINDER, {"x": node.this, "y": node.expression}, node)


def trimmed(node: exp.Trim) -> None:
    """TRIM, of a text."""
    node.set("this", _text(node.this))


def overlay(node: exp.Overlay) -> exp.Expr:
    """OVERLAY with PLACING and FROM."""
    size = node.args.get("for_") or duckdb("length(:r)", {"r": node.expression})
    return duckdb(
        OVERLAY, {"s": _text(node.this), "r": node.expression, "n": node.args["from_"], "m": size}
    )


def position(node: exp.StrPosition) -> exp.Expr:
    """POSITION with IN."""
    start = node.args.get("position") or exp.Literal.number(1)
    return duckdb(
        "spark_locate(spark_text(:s), :p, :n)",
        {"s": node.this, "p": node.args["substr"], "n": start},
    )


def listed(node: exp.GroupConcat) -> exp.Expr | None:
    """listagg, whose separator is empty unless given."""
    if node.args.get("separator") is not None:
        return None
    return exp.GroupConcat(this=node.this, separator=exp.Literal.string(""))


def stepped(node: exp.Expr) -> exp.Expr:
    """ceil and floor, with digits or without."""
    name = "ceil" if isinstance(node, exp.Ceil) else "floor"
    if node.args.get("decimals") is None:
        return duckdb(f"CAST({name}(:x) AS BIGINT)", {"x": node.this})
    digits = node.args["decimals"]
    if not isinstance(digits, exp.Literal) or not digits.name.isdigit():
        raise SqlError(f"{name} takes a constant number of digits", node)
    unit = 10 ** int(digits.name)
    return duckdb(
        f"by_type(:x, 'decimal', CAST({name}(:x * {unit}) / {unit}.0 AS "
        f"DECIMAL(18,{digits.name})), {name}(:x * {unit}) / {unit})",
        {"x": node.this},
    )


def no_json(node: exp.Expr) -> exp.Expr:
    """Raise SqlError: Spark has other functions for JSON."""
    raise SqlError("Spark has no operator -> for JSON: write get_json_object(j, '$.a')", node)


def any_of(node: exp.Any) -> exp.Expr | None:
    """any(x) as an aggregate, which parses as `x = ANY (...)` does."""
    compared = isinstance(node.parent, exp.Binary) and node.arg_key == "expression"
    if compared or isinstance(node.this, exp.Query):
        return None
    return duckdb("bool_or(:x)", {"x": node.this})
