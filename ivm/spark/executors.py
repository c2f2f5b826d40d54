"""Executors of the cells' work: in this process, one cell after another, or in tasks of Spark.

    stage(batch, cell, messages) -> messages        what each cell does between two shuffles

Both run the same stages in the same order, so tests in one process also cover Spark.

`import pagestore` sets PYSPARK_PYTHON, the interpreter of Spark's Python processes, unless it is
set; here is what remains to be done for a session that began before, and how these processes report
an error:

    Failed to create Python data source instance: Traceback ... 40 lines ... MissingError: version 2
        has no ...
    Failed to create Python data source instance: pagestore.errors.MissingError: version 2 has no
        ...
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from ivm.errors import IvmError
from ivm.spark.cell import TICK, Batch, Message, failure_of
from pagestore.errors import PagestoreError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Stage = Callable[[Batch, int, list[Message]], list[Message]]
SCHEMA = pa.schema([("cell", pa.int32()), ("channel", pa.int32()), ("payload", pa.binary())])
# Spark's worker reads it when it reports an error, after which it ends
HIDE = "SPARK_HIDE_TRACEBACK"
IN_WORKER = "SPARK_PYTHON_RUNTIME"  # set by Spark in its workers
UNNAMED = "python3"  # Spark's default interpreter
SQL_SCHEMA = "cell int, channel int, payload binary"


class Executor(Protocol):
    """Runs the stages of a batch over all cells, here or in tasks of Spark."""

    def run(
        self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int
    ) -> list[Message]:
        """Return the last stage's messages. The first one gets those in Parquet files, or a tick
        for each cell.
        """


class Rounds(NamedTuple):
    """The result of a batch: the error if refused, cells' accounts, reached cells' versions."""

    failure: Exception | None
    accounts: dict[int, list[dict[str, Any]]]
    versions: dict[int, int]

    def raise_failure(self) -> None:
        """Raise the error with which the batch was refused, if it was."""
        if self.failure:
            raise self.failure


def through(
    run: Executor,
    batch: Batch,
    rounds: Sequence[Stage],
    files: Sequence[str] | None,
    cells: int | None = None,
) -> Rounds:
    """Run the rounds of a batch by an executor, and gather what the cells report."""
    left = run.run(batch, rounds, files, cells or batch.layout.cells)
    failure = next(filter(None, map(failure_of, left)), None)
    told = {} if failure else {message.cell: json.loads(message.payload) for message in left}
    return Rounds(
        failure,
        {cell: told_by.get("rounds", []) for cell, told_by in told.items()},
        {cell: told_by["version"] for cell, told_by in told.items() if "version" in told_by},
    )


class Here:
    """Runs the cells one after another in this process."""

    def run(
        self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int
    ) -> list[Message]:
        """See Executor."""
        if files is None:
            waiting = ticks(range(cells))
        else:
            waiting = [m for file in files for m in read_messages(pq.read_table(file))]
        for stage in stages:
            waiting = [
                sent for cell, messages in by_cell(waiting) for sent in stage(batch, cell, messages)
            ]
        return waiting


class OnSpark:
    """Runs each cell in a task of Spark: one job for all stages, with a shuffle before each."""

    def __init__(self, spark: "SparkSession") -> None:
        use_this_python(spark)
        self.spark = spark

    def run(
        self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int
    ) -> list[Message]:
        """See Executor."""
        if files is None:
            frame = self.spark.createDataFrame(write_messages(ticks(range(cells))), SQL_SCHEMA)
        elif files:
            frame = self.spark.read.schema(SQL_SCHEMA).parquet(
                *(Path(file).as_uri() for file in files)
            )
        else:
            return []
        for stage in stages:
            frame = frame.repartitionById(cells, "cell").mapInArrow(_task(batch, stage), SQL_SCHEMA)
        return read_messages(frame.toArrow())


def mapped(
    frame: "DataFrame", send: Callable[[pa.Table], list[Message]], schema: str
) -> "DataFrame":
    """Convert each partition's rows to messages."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with sentence_first():
            messages = send(pa.Table.from_batches(parts)) if (parts := [*batches]) else []
        for message in messages:
            yield write_messages([message]).to_batches()[0]

    return frame.mapInArrow(run, schema)


def streaming_query() -> str | None:
    """Return the id of the streaming query whose batch this thread handles, else None."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return context.getLocalProperty("sql.streaming.queryId") if context else None


def _task(
    batch: Batch, stage: Stage
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting = [message for part in batches for message in read_messages(part)]
        for cell, messages in by_cell(waiting):
            with sentence_first():
                messages_made = stage(batch, cell, messages)
            for sent in messages_made:
                yield write_messages([sent]).to_batches()[0]

    return run


def ticks(cells: Iterable[int]) -> list[Message]:
    """Return an empty message for each cell, which only makes it run."""
    return [Message(cell, TICK, b"{}") for cell in cells]


def by_cell(messages: Iterable[Message]) -> list[tuple[int, list[Message]]]:
    """Group messages by the cell that they go to, in order of cells."""
    by_number: dict[int, list[Message]] = defaultdict(list)
    for message in messages:
        by_number[message.cell].append(message)
    return sorted(by_number.items())


def write_messages(messages: Sequence[Message]) -> pa.Table:
    """Return messages as a table."""
    columns = zip(*messages, strict=True) if messages else ([], [], [])
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def read_messages(table: Any) -> list[Message]:
    """Return the messages of a table that `write_messages` made."""
    return [
        Message(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]


# -- Spark's Python processes


def use_this_python(spark: "SparkSession") -> None:
    """Let a session begun before PYSPARK_PYTHON was set run its tasks in this interpreter."""
    with suppress(AttributeError):  # Spark Connect has no context
        context: Any = spark.sparkContext
        if context.pythonExec == UNNAMED and context.master.startswith("local"):
            context.pythonExec = sys.executable


@contextmanager
def sentence_first() -> Iterator[None]:
    """Make Spark report our errors by their message: in a worker without the traceback, in
    `foreachBatch` before it.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, PagestoreError | IvmError) or (
            isinstance(error, OSError) and error.errno is None
        ):
            if IN_WORKER in os.environ:
                os.environ[HIDE] = "1"
            elif streaming_query() is not None:
                _lead(error)
        raise


def _lead(error: BaseException) -> None:
    """Give an error a copy of itself as its first cause, since Python shows causes first, and Spark
    what Python shows.

    The copy has no traceback, so the message comes first.
    """
    first = error
    while first.__cause__ is not None:
        first = first.__cause__
    with suppress(Exception):  # an error of another package may refuse to be copied
        first.__cause__ = copy(error)
