"""A streaming write: each micro-batch is one transaction, applied once by the query's id and the batch's."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from .applied import Job
from .batch_write import files_of
from .options import OptionsError
from .staging import Staged, clear, stage
from .target import Target


class RelationStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches; Spark makes it anew for the tasks of each batch, and for its commit."""

    def __init__(self, target: Target) -> None:
        self._target, self._name = target, uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage a task's rows."""
        return stage(iterator, self._target.staging / self._name)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Apply what the tasks staged; nothing if a query that was started again did so before it ended."""
        from .commit import commit

        try:
            commit(self._target, Job(_query(messages), batchId), files_of(messages))
        finally:
            _clear(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Remove what the tasks staged, as far as they told of it; the rest is swept when it is old."""
        _clear(messages)


def _query(messages: Sequence[WriterCommitMessage | None]) -> str:
    """The id of the query that tasks belong to, which a checkpoint keeps."""
    for one in messages:
        if isinstance(one, Staged) and one.query:
            return one.query
    raise OptionsError("no task of the batch said which streaming query it belongs to: give a checkpointLocation")


def _clear(messages: Sequence[WriterCommitMessage | None]) -> None:
    for folder in {Path(file).parent for file in files_of(messages)}:
        clear(folder)
