"""Spark DataFrames that cells read and write."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import pagestore
from ivm.lang.ir import Predicate
from ivm.spark import stages
from ivm.spark.cell import Batch, Message
from ivm.spark.changes import schema_of
from ivm.spark.executors import SQL_SCHEMA, read_messages, ticks, write_messages
from ivm.spark.workers import sentence_first

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def mapped(frame: "DataFrame", send: Callable[[pa.Table], list[Message]], schema: str) -> "DataFrame":
    """Convert each partition's rows to messages."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with sentence_first():
            messages = send(pa.Table.from_batches(parts)) if (parts := [*batches]) else []
        for message in messages:
            yield write_messages([message]).to_batches()[0]

    return frame.mapInArrow(run, schema)


def reading(spark: "SparkSession", batch: Batch, predicate: Predicate, changed: bool) -> "DataFrame":
    """Return the rows of all cells, or their changes, read by a task for each cell."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema, name = as_spark_has(schema_of(predicate, changed)), predicate.name

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for message in (message for part in batches for message in read_messages(part)):
            with sentence_first():
                rows = stages.rows_of(batch, message.cell, [], name, changed)
            for found in rows:
                yield from stages.table_of(found).cast(schema).to_batches()

    start: Any = spark.createDataFrame(write_messages(ticks(range(batch.layout.cells))), SQL_SCHEMA)
    return start.repartitionById(batch.layout.cells, "cell").mapInArrow(run, from_arrow_schema(schema))


def reading_file(spark: "SparkSession", path: str, version: int, predicate: Predicate) -> "DataFrame":
    """Return a relation of a store at a version, read by one task, batch by batch."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema, name = as_spark_has(schema_of(predicate)), predicate.name

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in batches:
            with sentence_first(), pagestore.open(path, mode="r") as store:
                for found in store.at(version)[name].batches() if part.num_rows else ():
                    yield pa.Table.from_batches([found]).cast(schema).combine_chunks().to_batches()[0]

    return spark.range(1, numPartitions=1).mapInArrow(run, from_arrow_schema(schema))


def as_spark_has(schema: pa.Schema) -> pa.Schema:
    """Return a relation's schema in the types of Spark DataFrames made in Python; each value casts to its type there.

    The types are those of `format("pagestore")`: uint64 becomes decimal(20,0), a timestamp with a zone becomes UTC.
    """
    return pa.schema([pa.field(field.name, _arrow_of_spark(field.type)) for field in schema])


def _arrow_of_spark(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_uint64(type_):
        return pa.decimal128(20, 0)
    if pa.types.is_time(type_):
        return pa.time64("ns")
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(type_) and type_.tz else type_
