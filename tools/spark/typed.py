"""Convert raw rows to typed columns, and find the problems of each row.

    state        the row
    unwanted     is excluded by `where`
    bad          has reasons: it goes into quarantine, as it was read
    dropped      has a null in a column whose nulls are dropped
    good         is any other

A value that its type cannot hold exactly is bad, like 1.5 in a column of integers. So is a row for
which SQL of the recipe fails, like cast('x' as int): each expression is evaluated once, in a try.
"""

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pagestore.host import Type

from ..loading.casts import DatasetError
from .recipe import DROP, KEEP, QUARANTINE, WITHOUT, Recipe, Wanted
from .source.types import held, spark_type

STATE, REASONS, ROW, PREFER, UNREAD = "$state", "$reasons", "$row", "$prefer", "$unread"
TRIED, TYPED, VALUE = "$tried", "$typed", "value"
WANTED, LACKING = "$wanted", "$lacking"
UNWANTED, BAD, DROPPED, GOOD = "unwanted", "bad", "dropped", "good"
WIDE = "decimal(38,18)"
WHOLE = "decimal(38,0)"
NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
DAY = r"\d{4,}-\d\d?-\d\d?"
TIME = r"[T ]\d\d?:\d\d(:\d\d(\.\d{1,6}0*)?)?"
SPELT = {  # the forms of texts that Spark reads exactly, by its types
    T.LongType: r"[+-]?\d+", T.DoubleType: rf"{NUMBER}|(?i:[+-]?inf(inity)?|nan)",
    T.DecimalType: NUMBER, T.BooleanType: "(?i:true|false)|[01]", T.DateType: rf"{DAY}({TIME})?",
    T.TimestampNTZType: rf"{DAY}({TIME})?", T.TimestampType: rf"{DAY}({TIME})?",
}  # fmt: skip
ZONE = r"\s*(Z|UTC|[+-]\d\d?(:?\d\d){0,2}|[A-Za-z_]+/[A-Za-z_/]+)"
UTC = {"UTC", "Etc/UTC", "+00:00"}  # zones of columns in which times without a zone are UTC
JSON_OPTIONS = {"ignoreNullFields": "false"}


class Tried(NamedTuple):
    """The result of an SQL expression for each row: a value, and whether it failed, which makes
    the value null.
    """

    value: Column
    failed: Column
    type: T.DataType


def column(name: str) -> Column:
    """Return the column of exactly this name, whatever its characters."""
    return F.col(f"`{name.replace('`', '``')}`")


def with_types(recipe: Recipe, rows: DataFrame) -> Recipe:
    """Return the recipe, with all columns of the rows if it names none.

    Raises DatasetError for a column of a type that no relation holds, or a fill that does not fit
    its column.
    """
    names = [name for name in rows.columns if name != UNREAD]
    columns = recipe.columns or {
        name: _as_it_is(name, rows.schema[name].dataType, recipe) for name in names
    }
    for name in recipe.key:
        if name not in columns:
            raise DatasetError(
                f"{recipe.name}: no column {name} for the key; there are {', '.join(columns)}"
            )
    _verify_fills(recipe, rows.sparkSession)
    return recipe._replace(columns=columns)


def _verify_fills(recipe: Recipe, spark: SparkSession) -> None:
    """Raise DatasetError for a fill that does not fit its column."""
    reasons = []
    for name, column in recipe.columns.items():
        if column.fill is not None:
            raw = Tried(F.lit(column.fill), F.lit(False), T.StringType())
            plain = column._replace(least=None, most=None)
            reasons.append(_reason(name, plain, raw, _cast(raw.value, column.type), {}).alias(name))
    for name, reason in (
        spark.range(1).select(*reasons).collect()[0].asDict().items() if reasons else ()
    ):
        if reason is not None:
            raise DatasetError(
                f"{recipe.name}: column {name}: fill = {recipe.columns[name].fill!r}: {reason}"
            )


def _as_it_is(name: str, kind: T.DataType, recipe: Recipe) -> Wanted:
    stored = held(kind)
    if stored is None or stored.name in WITHOUT:
        raise DatasetError(
            f"{recipe.name}: column {name} is of type {kind.simpleString()}, which no relation "
            "holds: say with columns which ones are taken, and by which expressions"
        )
    in_key = name in recipe.key
    nulls = QUARANTINE if in_key else KEEP
    return Wanted(stored._replace(nullable=not in_key), f"`{name.replace('`', '``')}`", nulls)


def classify(rows: DataFrame, recipe: Recipe) -> DataFrame:
    """Return the typed columns of a recipe from `with_types`, and STATE, REASONS, ROW (JSON, of bad
    rows) and PREFER.

    Spark evaluates common subexpressions before the try, unless its setting
    `spark.sql.subexpressionElimination.enabled` is false, as `prepare` sets it.
    """
    names = rows.columns
    rows, tried = _tried(rows, recipe)
    typed = {name: f"{TYPED}{i}" for i, name in enumerate(recipe.columns)}
    rows = rows.withColumns(
        {typed[name]: _value(one, tried[one.source]) for name, one in recipe.columns.items()}
    )
    values = {name: F.col(place) for name, place in typed.items()}
    reasons = _reasons(recipe, tried, values)
    read = F.to_json(F.struct(*[column(name) for name in names if name != UNREAD]), JSON_OPTIONS)
    lacking = [values[name].isNull() for name, one in recipe.columns.items() if one.nulls == DROP]
    passes = F.lit(True)
    if recipe.where:
        passes = F.coalesce(tried[recipe.where].value, F.lit(False)) | tried[recipe.where].failed
    if UNREAD in names:
        line = F.col(UNREAD)
        reasons = F.when(line.isNotNull(), F.array(F.lit("the line does not read"))).otherwise(
            reasons
        )
        read = F.when(line.isNotNull(), F.to_json(F.struct(line.alias("line")))).otherwise(read)
        passes = passes | line.isNotNull()
    is_bad = F.size(REASONS) > 0
    state = (
        F.when(~F.col(WANTED), UNWANTED)
        .when(is_bad, BAD)
        .when(F.col(LACKING), DROPPED)
        .otherwise(GOOD)
    )
    classified = rows.select(
        *[value.alias(name) for name, value in values.items()],
        reasons.alias(REASONS),
        read.alias(ROW),
        (tried[recipe.prefer].value if recipe.prefer else F.lit(None)).alias(PREFER),
        passes.alias(WANTED),
        reduce(or_, lacking, F.lit(False)).alias(LACKING),
    )
    kept = [column(name) for name in recipe.columns]
    row = F.when(F.col(WANTED) & is_bad, F.col(ROW)).alias(ROW)
    return classified.select(*kept, REASONS, row, PREFER, state.alias(STATE))


def _tried(rows: DataFrame, recipe: Recipe) -> tuple[DataFrame, dict[str, Tried]]:
    """Add a column for each expression of a recipe: its value in a struct, or null if it fails."""
    columns = recipe.columns.values()
    texts = [column.source for column in columns] + [
        bound for column in columns for bound, _, _ in _bounds(column)
    ]
    names = {
        text: f"{TRIED}{i}"
        for i, text in enumerate(dict.fromkeys([*texts, recipe.where, recipe.prefer]))
        if text
    }
    tried = rows.withColumns(
        {name: _attempt(rows.sparkSession, text) for text, name in names.items()}
    )
    types = {name: tried.schema[name].dataType for name in names.values()}
    return tried, {
        text: Tried(F.col(name).getField(VALUE), F.col(name).isNull(), types[name][VALUE].dataType)
        for text, name in names.items()
    }


def _attempt(spark: SparkSession, text: str) -> Column:
    """Return a struct of an expression's value; null if it fails. Spark has this in Java only."""
    value = F.struct(F.expr(text).alias(VALUE))
    java = getattr(spark, "_jvm", None)
    if java is None:  # Spark Connect, where a failure ends the job
        return value
    sql = java.org.apache.spark.sql
    attempt = sql.catalyst.expressions.TryEval(sql.classic.ExpressionUtils.expression(value._jc))
    return Column(sql.classic.ExpressionUtils.column(attempt))


def _bounds(one: Wanted) -> list[tuple[str, str, str]]:
    """Return the bounds of a column's values: SQL of its type, the recipe's text, and the side."""
    given = ((one.least, "below"), (one.most, "above"))
    return [
        (f"cast(({text}) as {sql_type(one.type)})", text, side)
        for text, side in given
        if text is not None
    ]


def sql_type(kind: Type) -> str:
    """Return Spark's name of a type."""
    return str(spark_type(kind).simpleString())


def _value(one: Wanted, raw: Tried) -> Column:
    """Return the value of a column; null if it does not fit."""
    typed = _cast(raw.value, one.type)
    if _is_of_another_sort(raw.type, one.type):
        # Spark casts 7 to true, and to the seventh second of 1970
        typed = F.lit(None).cast(sql_type(one.type))
    if one.fill is None:
        return typed
    return F.when(raw.value.isNull(), _cast(F.lit(one.fill), one.type)).otherwise(typed)


def _cast(value: Column, kind: Type) -> Column:
    return value.try_cast(sql_type(kind))


def _reasons(recipe: Recipe, tried: Mapping[str, Tried], values: Mapping[str, Column]) -> Column:
    """Return all problems of a row, as texts."""
    reasons = [
        _reason(name, column, tried[column.source], values[name], tried)
        for name, column in recipe.columns.items()
    ]
    others = [
        F.when(tried[text].failed, f"{text} fails")
        for text in (recipe.where, recipe.prefer)
        if text
    ]
    return F.array_compact(F.array(*reasons, *others))


def _reason(
    name: str, one: Wanted, raw: Tried, value: Column, tried: Mapping[str, Tried]
) -> Column:
    """Return the first problem of a column's value; null if there is none."""
    kind = str(one.type).rstrip("?")
    tests = [
        (raw.failed, f"{name} fails: {one.source}"),
        (raw.value.isNotNull() & value.isNull(), f"{name} does not fit {kind}"),
    ]
    changed = _changed(raw.value, value, raw.type, one.type)
    if changed is not None:
        tests.append(
            (raw.value.isNotNull() & changed, f"{name} does not fit {kind} without a loss")
        )
    if one.nulls == QUARANTINE:
        tests.append((value.isNull(), f"{name} is null"))
    if one.type.name == "float64":
        tests.append((F.isnan(value), f"{name} is NaN, which has no place in an order"))
    if _sort_of(spark_type(one.type)) == "moment":
        tests.append((~F.year(value).between(1, 9999), f"{name} is outside the years 1 to 9999"))
    if one.type.name == "string":
        tests.append((~F.is_valid_utf8(value), f"{name} is not UTF-8"))
    if one.type.name == "int64" and one.type.nullable:
        tests.append((value == F.lit(-(2**63)), f"{name} is -2^63, which stands for null"))
    for sql, text, side in _bounds(one):
        bound = tried[sql]
        tests.append((bound.failed, f"{name}: {text} fails"))
        tests.append(
            (
                value < bound.value if side == "below" else value > bound.value,
                f"{name} is {side} {text}",
            )
        )
    reason_column = F.lit(None).cast("string")
    for condition, reason in reversed(tests):
        reason_column = F.when(condition, reason).otherwise(reason_column)
    return reason_column


def _changed(raw: Column, value: Column, source: T.DataType, kind: Type) -> Column | None:
    """Return whether a value changes in its type; None if it never does."""
    if isinstance(source, T.StringType):
        return _misread(raw, value, kind)
    if (
        kind.name == "string"
        or source.simpleString() == sql_type(kind)
        or _is_of_another_sort(source, kind)
    ):
        return None
    return ~value.try_cast(source).eqNullSafe(raw)


def _misread(raw: Column, value: Column, kind: Type) -> Column | None:
    """Return whether Spark reads a text as something else, like 12:30 as today, and 1d as 1."""
    type_ = type(spark_type(kind))
    if type_ not in SPELT:
        return None
    zone = "" if not kind.zone else ZONE + "?" if kind.zone in UTC else ZONE
    misread = ~raw.rlike(rf"^\s*({SPELT[type_]}){zone}\s*$")
    if type_ is T.DecimalType:
        # more decimals than the column keeps
        beyond = raw.rlike(rf"^[^eE]*\.\d{{{kind.scale}}}\d*[1-9]\d*\s*$")
        return misread | beyond | (value.cast(WIDE) != raw.try_cast(WIDE))
    if type_ is T.DateType:
        return misread | (value.cast("timestamp_ntz") != raw.try_cast("timestamp_ntz"))
    if kind.name == "float64":
        endless = F.abs(value) == F.lit(float("inf"))
        lost = (endless & ~raw.rlike("(?i)inf")) | ((value == 0) & raw.rlike("^[^eE]*[1-9]"))
        return (
            misread
            | lost
            | (raw.rlike(r"^\s*[+-]?\d+\s*$") & (value.try_cast(WHOLE) != raw.try_cast(WHOLE)))
        )
    return misread


def _is_of_another_sort(source: T.DataType, kind: Type) -> bool:
    """Return whether two types differ in sort: numbers, booleans, times; texts may be any."""
    sort = _sort_of(spark_type(kind))
    return not isinstance(source, T.StringType) and sort not in ("other", _sort_of(source))


def _sort_of(source: T.DataType) -> str:
    """Return the sort of a type: numbers, booleans, times or others."""
    if isinstance(source, T.NumericType):
        return "number"
    if isinstance(source, T.BooleanType):
        return "boolean"
    if isinstance(source, T.DateType | T.TimestampType | T.TimestampNTZType):
        return "moment"
    return "other"
