"""A sink of Spark's streams, and so of its declarative pipelines: each batch is a refresh of the
views.

    spark.dataSource.register(ViewsSink)
    stream.writeStream.format("ivm").options(path=..., name=..., rules=..., relation="edge").start()

The rows of a stream without `_change_type` are insertions. Tasks stage their rows in files next to
the workspace (staging.py). The commit, in a process of its own, applies those that its tasks name.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ivm.errors import OptionError
from ivm.spark.changes import CHANGE
from ivm.spark.executors import sentence_first
from ivm.spark.follow import AUTO, Incremental, refresh
from ivm.spark.staging import Staged, clear_jobs, files_of, new_job, query_of, stage, staged_batches
from pagestore.host import as_inserted, local_path

NEEDED = "path", "name", "rules", "relation"


class ViewsSink(DataSource):
    """`format("ivm")`, for streams only: options path, name, rules, relation, and incremental."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "ivm"

    @sentence_first()
    def streamWriter(self, schema: StructType, overwrite: bool) -> "ViewsWriter":
        """Return a writer. Raises OptionError for a missing option, or a mode but append."""
        for option in NEEDED:
            if option not in self.options:
                raise OptionError(
                    f"format ivm needs the options {', '.join(NEEDED)}: {option} is missing"
                )
        if overwrite:
            raise OptionError("format ivm takes changes as they come: use the output mode append")
        return ViewsWriter(
            *(self.options[option] for option in NEEDED),
            cast(Incremental, self.options.get("incremental", AUTO)),
        )


@dataclass
class ViewsWriter(DataSourceStreamArrowWriter):
    """Stages the rows of a batch, and refreshes the views with them."""

    path: str
    views: str
    rules: str
    relation: str
    incremental: Incremental
    folder: Path = field(init=False)

    def __post_init__(self) -> None:
        self.path = local_path(self.path)
        self.folder = new_job(Path(f"{self.path}.staged").absolute())

    @sentence_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage a task's rows."""
        return stage(iterator, self.folder)

    @sentence_first()
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Refresh the views with the rows of all tasks; skip a batch that was applied before."""
        try:
            if files := files_of(messages):
                rows = pa.Table.from_batches(staged_batches(files))
                changes = {
                    self.relation: rows if CHANGE in rows.column_names else as_inserted(rows)
                }
                query = query_of(messages)
                refresh(
                    Path(self.path),
                    self.views,
                    self.rules,
                    changes,
                    self.incremental,
                    batchId,
                    query,
                )
        finally:
            clear_jobs(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files that tasks reported; `clear` deletes others after a week."""
        clear_jobs(messages)
