"""A sink of Spark's streams, and so of its declarative pipelines: each batch is a refresh of the views.

    spark.dataSource.register(ViewsSink)
    stream.writeStream.format("ivm").options(path=..., name=..., rules=..., relation="edge").start()

The rows of a stream without `_change_type` are new ones. Tasks stage their rows in files beside the workspace, named at
random. The commit, in a process of its own, takes those that its tasks name, so what a task left that was tried again
is never read; it is swept after a day.
"""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ivm.errors import OptionError
from ivm.spark.cell import read_table, write_table
from ivm.spark.changes import CHANGE, as_inserted
from ivm.spark.follow import AUTO, refresh

NEEDED = "path", "name", "rules", "relation"
SWEPT_AFTER = 86_400  # seconds
QUERY = "sql.streaming.queryId"  # the property by which a task knows its streaming query, which a checkpoint keeps


class ViewsSink(DataSource):
    """`format("ivm")`, for streams only: options path, name, rules, relation, and incremental."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "ivm"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "ViewsWriter":
        """A writer. Raises OptionError for an option that is missing, or an output mode but append."""
        for option in NEEDED:
            if option not in self.options:
                raise OptionError(f"format ivm needs the options {', '.join(NEEDED)}: {option} is missing")
        if overwrite:
            raise OptionError("format ivm takes changes as they come: use the output mode append")
        return ViewsWriter(*(self.options[option] for option in NEEDED), self.options.get("incremental", AUTO))


@dataclass
class Staged(WriterCommitMessage):
    """The file that a task wrote, if it had rows, and the query that it belongs to."""

    file: str | None
    query: str | None


@dataclass
class ViewsWriter(DataSourceStreamArrowWriter):
    """Stages the rows of a batch, and refreshes the views with them."""

    path: str
    views: str
    rules: str
    relation: str
    incremental: str

    @property
    def _folder(self) -> Path:
        return Path(self.path + ".staged")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """One task's rows, in a file of its own."""
        context = TaskContext.get()
        query = context.getLocalProperty(QUERY) if context else None
        batches = [batch for batch in iterator if batch.num_rows]
        if not batches:
            return Staged(None, query)
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / uuid4().hex
        file.write_bytes(write_table(pa.Table.from_batches(batches)))
        return Staged(str(file), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Refresh the views with the rows of all tasks. A batch of the query that was taken is not taken again."""
        staged = [(Path(m.file), m.query) for m in messages if isinstance(m, Staged) and m.file]
        files = [file for file, _ in staged]
        if staged:
            rows = pa.concat_tables([read_table(file.read_bytes()) for file in files])
            changes = {self.relation: rows if CHANGE in rows.column_names else as_inserted(rows)}
            refresh(Path(self.path), self.views, self.rules, changes, self.incremental, batchId, staged[0][1])
        self._sweep(files)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what the tasks staged."""
        self._sweep([Path(m.file) for m in messages if isinstance(m, Staged) and m.file])

    def _sweep(self, files: list[Path]) -> None:
        """Remove files that are done with, and those that tasks left long ago."""
        for file in files:
            file.unlink(missing_ok=True)
        for entry in os.scandir(self._folder) if self._folder.exists() else ():
            if time.time() - entry.stat().st_mtime > SWEPT_AFTER:
                Path(entry.path).unlink(missing_ok=True)
