"""Convert raw rows to load-ready Parquet with Spark, by a recipe (recipe.py).

    read         rows of CSV, JSON, Parquet, JDBC or a table; lines that do not parse are marked
    classify     typed columns, and the problems of each row              (typed.py)
    merge        one row for each key; keys with several values are conflicts
    write        ranges of the key, sorted, as Parquet with a manifest; bad rows, with the reasons, as JSON lines

Each step is a function over DataFrames; `prepare` does all, and returns a report.

The report of a preparation, as text and as JSON.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from ..loading.manifest import Manifest, write_manifest
from .recipe import CSV, JDBC, JSON, TABLE, Recipe, Report, check_places, places_of
from .typed import (
    BAD,
    DROPPED,
    GOOD,
    PREFER,
    REASONS,
    ROW,
    STATE,
    UNREAD,
    UNWANTED,
    classify,
    column,
    with_types,
)

NAME = "_report.json"
EXAMPLES = 3


DEFAULTS = {
    # files with other columns are refused
    CSV: {"header": "true", "escape": '"', "enforceSchema": "false"},
    # so that no digit is lost before the columns' types are known
    JSON: {"primitivesAsString": "true"},
}
CONFLICT = "key conflict"
COUNT, LEAST, MOST, DIFFERENT = "$count", "$least", "$most", "$different"
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",  # times without a zone are in UTC
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # it would evaluate failing parts outside of their try
    "spark.sql.subexpressionElimination.enabled": "false",
}
MAKING = ".making"  # a folder next to the tables
ROW_GROUP_OPTION = "parquet.block.row.count.limit"


def prepare(
    spark: SparkSession,
    recipe: Recipe,
    out: Path,
    rows: DataFrame | None = None,
    overwrite: bool = False,
) -> Report:
    """Make the folder out/NAME of sorted Parquet with a manifest, and out/NAME.quarantine if rows
    are bad.

    `rows` replace the recipe's sources. The folders are made in out/.making and moved into place
    when complete: a job that fails or is killed leaves the old ones. Raises DatasetError for a
    recipe that does not fit the rows, and if a folder exists and `overwrite` is false. O(rows log
    rows), in memory that Spark bounds.
    """
    check_places(recipe, out, overwrite)
    folder, quarantine = places = places_of(recipe, out)
    making = out.resolve() / MAKING
    made, bad = (making / place.name for place in places)
    try:
        for frame in bad, made:
            shutil.rmtree(frame, ignore_errors=True)  # left by a job that was killed
        report = Report(recipe.name, str(folder), str(quarantine))
        with _settings(spark):
            _make(spark, recipe, rows, report, made, bad)
        for frame, place in (bad, quarantine), (made, folder):
            _move(frame, place)
    finally:
        for frame in bad, made:
            shutil.rmtree(frame, ignore_errors=True)
        with suppress(OSError):
            making.rmdir()
    return report


def _make(
    spark: SparkSession,
    recipe: Recipe,
    rows: DataFrame | None,
    report: Report,
    made: Path,
    bad: Path,
) -> None:
    """Write the folders, with the report in `made`."""
    raw = read(spark, recipe) if rows is None else rows
    recipe = with_types(recipe, raw)
    classified = classify(raw, recipe).persist()
    merged = merge(classified, recipe).persist()
    try:
        _count(classified, report)
        _count_keys(merged, recipe, report)
        if report.quarantined:
            bad_rows(classified, merged, recipe).write.text(bad.as_uri())
        write_sorted(unique(merged, recipe), recipe, made)
    finally:
        merged.unpersist()
        classified.unpersist()
    report.take(describe(recipe, made))
    (made / NAME).write_text(report.to_json())


@contextmanager
def _settings(spark: SparkSession) -> Iterator[None]:
    """Apply SETTINGS to a session while the block runs, whatever a cluster's defaults are."""
    before = {name: spark.conf.get(name) for name in SETTINGS}
    try:
        for name, value in SETTINGS.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            spark.conf.set(name, str(was))


def _move(made: Path, place: Path) -> None:
    """Replace the folder at `place` by the new one, or delete it if none was made."""
    old = made.with_name(f"{made.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if place.exists():
        place.rename(old)
    if made.exists():
        made.rename(place)
    shutil.rmtree(old, ignore_errors=True)


def read(spark: SparkSession, recipe: Recipe) -> DataFrame:
    """Return the raw rows of a recipe's sources; for text formats, a column UNREAD has the lines
    that do not parse.
    """
    reader = spark.read.format(recipe.format).options(
        **{**DEFAULTS.get(recipe.format, {}), **recipe.options}
    )
    if recipe.format == TABLE:
        return spark.table(recipe.sources[0])
    if recipe.format == JDBC:
        return reader.load()
    reader = reader.options(mode="PERMISSIVE", columnNameOfCorruptRecord=UNREAD)
    paths = [*recipe.sources]
    if recipe.format == CSV:
        texts = [T.StructField(name, T.StringType()) for name in reader.load(paths).columns]
        reader = reader.schema(T.StructType([*texts, T.StructField(UNREAD, T.StringType())]))
    return reader.load(paths)


def merge(classified: DataFrame, recipe: Recipe) -> DataFrame:
    """Group the good rows by key: their number, and the least and the greatest of their values.

    The two differ if a key has several values. With `prefer`, both are those of the preferred row.
    """
    values = [column(name) for name in recipe.columns if name not in recipe.key]
    both = F.struct(*values) if values else F.struct(F.lit(True).alias("there"))
    good = classified.where(F.col(STATE) == GOOD)
    if recipe.prefer is None:
        folds = F.min(both), F.max(both)
    else:
        best = F.max(F.struct(F.col(PREFER).alias("order"), both.alias("values"))).getField(
            "values"
        )
        folds = best, best
    by_key = good.groupBy(*map(column, recipe.key))
    different = F.min(both).eqNullSafe(F.max(both))
    return by_key.agg(
        F.count(F.lit(1)).alias(COUNT),
        folds[0].alias(LEAST),
        folds[1].alias(MOST),
        (~different).alias(DIFFERENT),
    )


def unique(merged: DataFrame, recipe: Recipe) -> DataFrame:
    """Return the rows of keys that have one value, in the order of the recipe's columns."""
    return merged.where(_is_unique()).select(*_merged_columns(recipe, LEAST))


def bad_rows(classified: DataFrame, merged: DataFrame, recipe: Recipe) -> DataFrame:
    """Return the rejected rows as JSON lines, with reasons and the row: as read, or for key
    conflicts, as typed.
    """
    bad = classified.where(F.col(STATE) == BAD).select(REASONS, ROW)
    conflicting = F.broadcast(merged.where(~_is_unique()).select(*map(column, recipe.key)))
    good = classified.where(F.col(STATE) == GOOD).join(conflicting, [*recipe.key], "left_semi")
    row = F.to_json(F.struct(*map(column, recipe.columns)), {"ignoreNullFields": "false"})
    conflicts = good.select(F.array(F.lit(CONFLICT)).alias(REASONS), row.alias(ROW))
    line = F.concat(
        F.lit('{"reasons":'), F.to_json(REASONS), F.lit(',"row":'), F.col(ROW), F.lit("}")
    )
    return bad.unionByName(conflicts).select(line)


def write_sorted(rows: DataFrame, recipe: Recipe, folder: Path) -> None:
    """Write rows as Parquet whose keys ascend across all files, in the order of their names.

    Ranges are of the whole key, so that even a first column with one frequent value is split.
    """
    key = [*map(column, recipe.key)]
    partitions = recipe.partitions or rows.sparkSession.sparkContext.defaultParallelism
    ordered = rows.repartitionByRange(partitions, *key).sortWithinPartitions(*key)
    writer = ordered.write.option(ROW_GROUP_OPTION, recipe.row_group).option("compression", "zstd")
    writer.parquet(folder.absolute().as_uri())


def describe(recipe: Recipe, folder: Path) -> Manifest:
    """Write the manifest of a folder that `write_sorted` wrote."""
    return write_manifest(
        folder, recipe.name, recipe.key, {name: one.type for name, one in recipe.columns.items()}
    )


def _is_unique() -> Column:
    return F.col(LEAST).eqNullSafe(F.col(MOST))


def _merged_columns(recipe: Recipe, side: str) -> list[Column]:
    return [
        column(name) if name in recipe.key else F.col(side).getField(name).alias(name)
        for name in recipe.columns
    ]


def _count(classified: DataFrame, report: Report) -> None:
    """Count the raw rows by their state, and the bad ones by their reasons."""
    groups = classified.groupBy(STATE, REASONS).agg(
        F.count(F.lit(1)).alias(COUNT), F.min(ROW).alias(ROW)
    )
    for state, reasons, count, row in sorted(groups.collect(), key=str):
        report.raw += count
        report.unwanted += count * (state == UNWANTED)
        report.dropped += count * (state == DROPPED)
        for reason in reasons if state == BAD else ():
            report.reason(reason, count, row)
        report.quarantined += count * (state == BAD)


def _count_keys(merged: DataFrame, recipe: Recipe, report: Report) -> None:
    """Count duplicates and conflicts, with examples."""
    again, different = F.col(COUNT) > 1, F.col(DIFFERENT)
    sums = {
        "duplicates": F.when(~different, F.col(COUNT) - 1),
        "superseded": F.when(different & _is_unique(), F.col(COUNT) - 1),
        "conflicts": F.when(~_is_unique(), 1),
        "conflict_rows": F.when(~_is_unique(), F.col(COUNT)),
    }
    [counts] = merged.agg(
        *[F.coalesce(F.sum(sum_), F.lit(0)).alias(name) for name, sum_ in sums.items()]
    ).collect()
    report.duplicates, report.superseded, report.conflicts, report.conflict_rows = counts
    report.quarantined += report.conflict_rows
    for kind, condition in (
        ("duplicates", again & ~different),
        ("superseded", different & _is_unique()),
        ("conflicts", ~_is_unique()),
    ):
        if getattr(report, kind):
            examples = (
                merged.where(condition).orderBy(*map(column, recipe.key)).limit(EXAMPLES).collect()
            )
            report.examples[kind] = [_example(row, recipe, kind) for row in examples]


def _example(row: Any, recipe: Recipe, kind: str) -> str:
    key = ", ".join(f"{name}={row[name]}" for name in recipe.key)
    if kind != "conflicts":
        return f"key ({key}) in {row[COUNT]} rows"
    one, other = (
        ", ".join(f"{name}={value}" for name, value in row[side].asDict().items())
        for side in (LEAST, MOST)
    )
    return f"key ({key}) has both ({one}) and ({other}) in {row[COUNT]} rows"
