"""A streaming write: each micro-batch is one transaction, applied once, identified by query and batch id."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from ivm.spark.staging import Staged, clear_jobs, files_of, new_job, query_of, stage

from .applied import Job
from .options import OptionsError
from .sentences import sentences_first
from .target import Target


@sentences_first
class RelationStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches; Spark makes a new one for the tasks of each batch, and for its commit."""

    def __init__(self, target: Target) -> None:
        self._target, self._folder = target, new_job(target.staging)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage a task's rows."""
        return stage(iterator, self._folder)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Apply the rows that the tasks staged, unless the query did so before it was restarted."""
        from .commit import commit

        try:
            commit(self._target, Job(_query(messages), batchId), files_of(messages))
        finally:
            clear_jobs(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files that tasks reported; `clear` deletes others after a week."""
        clear_jobs(messages)


def _query(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return the id of the query that tasks belong to, which a checkpoint keeps."""
    if (query := query_of(messages)) is None:
        raise OptionsError("no task of the batch said which streaming query it belongs to: give a checkpointLocation")
    return query
