"""From raw CSV to typed, sorted Parquet with Spark: the job that runs before a bulk load.

It casts types, so a value that does not parse becomes null; applies the null policy of `tools/loading/clean_tables.py`;
drops duplicates; partitions by ranges of the key and sorts within partitions. So the part files, in order of their
names, ascend by key as a whole, and the loader need not sort.
"""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ..loading.clean_tables import MISSING, Counts, Table


def write_sorted(spark: SparkSession, table: Table, raw: Path, out: Path, partitions: int = 2) -> Counts:
    """Make one table as the folder `out`/name of zstd Parquet."""
    rows = spark.read.csv(str(raw / table.raw), header=True, nullValue=MISSING)
    kept = _kept(table, rows).cache()
    ordered = kept.repartitionByRange(partitions, *table.key).sortWithinPartitions(*table.key)
    ordered.write.parquet(str(out / table.name))
    counts = Counts(rows.count(), kept.count())
    kept.unpersist()
    return counts


def _kept(table: Table, rows: DataFrame) -> DataFrame:
    for column, (least, most) in table.bounds.items():
        rows = rows.where(F.col(column).try_cast("double").between(least, most))
    if table.missing:
        rows = rows.where(F.col(table.missing).isNull())
    columns = [F.col(column).try_cast(sql).alias(name) for name, (column, sql) in table.columns.items()]
    return rows.select(*columns).dropna().distinct()
