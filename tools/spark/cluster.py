"""Spark as a cluster that builds relations: tasks of Python, and a shuffle that sorts words into ranges."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Batches = Iterator[np.ndarray]
ROWS = 1 << 16  # of a batch that is passed to Spark


class SparkCluster:
    """The cluster of a session; `parallelism` is how many tasks it runs at once."""

    def __init__(self, spark: SparkSession, parallelism: int = 0) -> None:
        self.spark = spark
        self.parallelism = parallelism or spark.sparkContext.defaultParallelism

    def each(self, task: Callable[[Argument], Result], arguments: Sequence[Argument]) -> list[Result]:
        """Return the task's result for each argument, in order."""
        found: list[Result] = self.spark.sparkContext.parallelize(arguments, len(arguments)).map(task).collect()
        return found

    def ranges(
        self, words: Callable[[Argument], Batches], arguments: Sequence[Argument], columns: int, keys: int,
        build: Callable[[Batches], Result],
    ) -> list[Result]:  # fmt: skip
        """Return the result of `build` for each range of all arguments' rows int64[C, n], ascending by key."""
        names = [f"c{i}" for i in range(columns)]
        schema = pa.schema([(name, pa.int64()) for name in names])

        def rows(pickled: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in pickled:
                for argument in batch.column(0).to_pylist():
                    for some in words(pickle.loads(argument)):
                        for at in range(0, some.shape[1], ROWS):
                            yield pa.record_batch([pa.array(column[at : at + ROWS]) for column in some], schema)

        def built(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            made = build(np.array([column.to_numpy() for column in batch.columns]) for batch in batches)
            yield pa.record_batch([pa.array([pickle.dumps(made)])], ["made"])

        long = T.StructType([T.StructField(name, T.LongType(), False) for name in names])
        frame = self.spark.createDataFrame([(pickle.dumps(one),) for one in arguments], "task binary")
        spread = frame.repartition(len(arguments)).mapInArrow(rows, long)
        ordered = spread.repartitionByRange(self.parallelism, *names[:keys]).sortWithinPartitions(*names[:keys])
        return [pickle.loads(row[0]) for row in ordered.mapInArrow(built, "made binary").collect()]
