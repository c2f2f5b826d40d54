"""Row counts and hot values of relations, by which shares are chosen."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ivm.lang.ir import Predicate
from ivm.spark.changes import as_changes, schema_of
from ivm.spark.routing import hash_value
from ivm.spark.shares import Hot

HOT_FROM = 1000  # rows; a value that fewer have is not worth splitting


class Sizes(NamedTuple):
    """Row counts by relation, and hashes of hot values by relation and column."""

    sizes: dict[str, float]
    hot: Hot


def measure(tables: Mapping[str, Any], predicates: Mapping[str, Predicate], cells: int) -> Sizes:
    """Measure tables or DataFrames, by relation. A value is hot if it has more rows than a cell's fair share."""
    sizes: dict[str, float] = {}
    hot: dict[tuple[str, int], frozenset[int]] = {}
    for name, table in tables.items():
        schema = schema_of(predicates[name])
        if hasattr(table, "mapInArrow"):
            sizes[name] = max(1, table.count())
            found = [_frequent_in_frame(table, column, limit(sizes[name], cells)) for column in schema.names]
        else:
            rows = as_changes(table, predicates[name])
            sizes[name] = max(1, rows.num_rows)
            found = [[value for value, n in counts(rows[c]) if n > limit(sizes[name], cells)] for c in schema.names]
        for place, values in enumerate(found) if len(schema) > 1 else ():
            if values:
                hot[name, place] = frozenset(hash_value(value, schema.field(place).type) for value in values)
    return Sizes(sizes, hot)


def limit(rows: float, cells: int) -> float:
    """Return how many rows a value may have without being hot."""
    return max(HOT_FROM, rows / cells)


def counts(column: pa.ChunkedArray) -> list[tuple[Any, int]]:
    """Return the values and how many rows have each."""
    counted = pc.value_counts(column)
    return list(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True))


def _frequent_in_frame(frame: Any, column: str, least: float) -> list[Any]:
    from pyspark.sql import functions as F

    counted = frame.groupBy(column).agg(F.count("*").alias("n of rows")).where(F.col("n of rows") > least)
    return [row[0] for row in counted.where(F.col(column).isNotNull()).collect()]
