"""Raw rows as typed columns, and what is wrong with each of them.

    state        what becomes of the row
    unwanted     `where` leaves it out
    bad          there are reasons: it goes into quarantine, as it was read
    dropped      it has a null in a column whose nulls are dropped
    good         all others

A value that would change on the way into its type is bad, as 1.5 in a column of integers.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pagestore.values.types import DIGITS_MAX, Type

from ..loading.problems import DatasetError
from .recipe import DROP, KEEP, QUARANTINE, Recipe, Wanted

STATE, REASONS, ROW, PREFER, UNREAD = "$state", "$reasons", "$row", "$prefer", "$unread"
WANTED, LACKING = "$wanted", "$lacking"
UNWANTED, BAD, DROPPED, GOOD = "unwanted", "bad", "dropped", "good"
SQL = {
    "int64": "bigint", "float64": "double", "bool": "boolean", "date": "date", "timestamp": "timestamp_ntz",
    "string": "string", "bytes": "binary",
}  # fmt: skip
HELD: list[tuple[tuple[type[T.DataType], ...], str]] = [
    ((T.ByteType, T.ShortType, T.IntegerType, T.LongType), "int64"),
    ((T.FloatType, T.DoubleType), "float64"),
    ((T.StringType, T.CharType, T.VarcharType), "string"),
    ((T.BooleanType,), "bool"),
    ((T.DateType,), "date"),
    ((T.TimestampNTZType,), "timestamp"),
    ((T.TimestampType,), "timestamp(UTC)"),
    ((T.BinaryType,), "bytes"),
]
WIDE = "decimal(38,18)"
ZONED = r"([+-]\d\d(:?\d\d)?|[A-Z])\s*$"  # the end of a time that names its zone
JSON_OPTIONS = {"ignoreNullFields": "false"}


def column(name: str) -> Column:
    """The column of just that name, whatever letters it has."""
    return F.col(f"`{name.replace('`', '``')}`")


def settled(recipe: Recipe, rows: DataFrame) -> Recipe:
    """The recipe, which takes all columns of the rows where it names none.

    Raises DatasetError with a column of a type that no relation holds.
    """
    names = [name for name in rows.columns if name != UNREAD]
    columns = recipe.columns or {name: _as_it_is(name, rows.schema[name].dataType, recipe) for name in names}
    for name in recipe.key:
        if name not in columns:
            raise DatasetError(f"{recipe.name}: no column {name} for the key; there are {', '.join(columns)}")
    return recipe._replace(columns=columns)


def _as_it_is(name: str, kind: T.DataType, recipe: Recipe) -> Wanted:
    held = next((text for kinds, text in HELD if isinstance(kind, kinds)), None)
    if isinstance(kind, T.DecimalType) and kind.precision <= DIGITS_MAX:
        held = f"decimal({kind.precision},{kind.scale})"
    if held is None:
        raise DatasetError(f"{recipe.name}: column {name} is of type {kind.simpleString()}, which no relation holds: "
                           "say with columns which ones are taken, and by which expressions")  # fmt: skip
    in_key = name in recipe.key
    nulls = QUARANTINE if in_key else KEEP
    return Wanted(Type.parse(held)._replace(nullable=not in_key), f"`{name.replace('`', '``')}`", nulls)


def classify(rows: DataFrame, recipe: Recipe) -> DataFrame:
    """The typed columns of a settled recipe, and STATE, REASONS, ROW (JSON, of bad rows) and PREFER."""
    sources = rows.select(*[F.expr(one.source).alias(name) for name, one in recipe.columns.items()]).schema
    values = {name: _value(one) for name, one in recipe.columns.items()}
    raw = {name: F.expr(one.source) for name, one in recipe.columns.items()}
    reasons = F.array_compact(F.array(*[
        _reason(name, one, raw[name], values[name], sources[name].dataType) for name, one in recipe.columns.items()
    ]))  # fmt: skip
    read = F.to_json(F.struct(*[column(name) for name in rows.columns if name != UNREAD]), JSON_OPTIONS)
    lacking = [values[name].isNull() for name, one in recipe.columns.items() if one.nulls == DROP]
    wanted = F.coalesce(F.expr(recipe.where), F.lit(False)) if recipe.where else F.lit(True)
    if UNREAD in rows.columns:
        line = F.col(UNREAD)
        reasons = F.when(line.isNotNull(), F.array(F.lit("the line does not read"))).otherwise(reasons)
        read = F.when(line.isNotNull(), F.to_json(F.struct(line.alias("line")))).otherwise(read)
        wanted = wanted | line.isNotNull()
    is_bad = F.size(REASONS) > 0
    state = F.when(~F.col(WANTED), UNWANTED).when(is_bad, BAD).when(F.col(LACKING), DROPPED).otherwise(GOOD)
    typed = rows.select(
        *[value.alias(name) for name, value in values.items()],
        reasons.alias(REASONS),
        read.alias(ROW),
        (F.expr(recipe.prefer) if recipe.prefer else F.lit(None)).alias(PREFER),
        wanted.alias(WANTED),
        reduce(or_, lacking, F.lit(False)).alias(LACKING),
    )
    kept = [column(name) for name in recipe.columns]
    row = F.when(F.col(WANTED) & is_bad, F.col(ROW)).alias(ROW)
    return typed.select(*kept, REASONS, row, PREFER, state.alias(STATE))


def sql_type(kind: Type) -> str:
    """Spark's name of a type."""
    if kind.zone:
        return "timestamp"
    return f"decimal({kind.precision},{kind.scale})" if kind.name == "decimal" else SQL[kind.name]


def _value(one: Wanted) -> Column:
    """The value of a column; null where it does not fit."""
    raw = F.expr(one.source)
    typed = raw.try_cast(sql_type(one.type))
    if one.fill is None:
        return typed
    return F.when(raw.isNull(), F.lit(one.fill).cast(sql_type(one.type))).otherwise(typed)


def _reason(name: str, one: Wanted, raw: Column, value: Column, source: T.DataType) -> Column:
    """What is wrong with a column's value, the first thing that is; null where nothing is."""
    kind = str(one.type).rstrip("?")
    tests = [(raw.isNotNull() & value.isNull(), f"{name} does not fit {kind}")]
    changed = _changed(raw, value, source, one.type)
    if changed is not None:
        tests.append((raw.isNotNull() & changed, f"{name} does not fit {kind} without a loss"))
    if one.nulls == QUARANTINE:
        tests.append((value.isNull(), f"{name} is null"))
    if one.type.name == "float64":
        tests.append((F.isnan(value), f"{name} is NaN, which has no place in an order"))
    if one.type.name in ("date", "timestamp"):
        tests.append((~F.year(value).between(1, 9999), f"{name} is outside the years 1 to 9999"))
    if one.type.name == "string":
        tests.append((~F.is_valid_utf8(value), f"{name} is no UTF-8"))
    if one.type.name == "int64" and one.type.nullable:
        tests.append((value == F.lit(-(2**63)), f"{name} is -2^63, which stands for null"))
    for bound, is_beyond, side in ((one.least, value.__lt__, "below"), (one.most, value.__gt__, "above")):
        if bound is not None:
            limit = F.expr(bound).cast(sql_type(one.type))
            tests.append((is_beyond(limit), f"{name} is {side} {bound}"))
    found = F.lit(None).cast("string")
    for condition, reason in reversed(tests):
        found = F.when(condition, reason).otherwise(found)
    return found


def _changed(raw: Column, value: Column, source: T.DataType, kind: Type) -> Column | None:
    """Whether a value is another one in its type; None where it never is."""
    if isinstance(source, T.StringType):
        if kind.name == "decimal":
            return value.cast(WIDE) != raw.try_cast(WIDE)
        if kind.name == "date":
            return value.cast("timestamp_ntz") != raw.try_cast("timestamp_ntz")
        if kind.name == "timestamp" and not kind.zone:
            return raw.rlike(r"\d:\d.*" + ZONED)
        return None
    if kind.name == "string" or source.simpleString() == sql_type(kind):
        return None
    return ~value.try_cast(source).eqNullSafe(raw)
