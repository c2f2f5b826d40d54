"""A batch write: tasks stage rows, and the driver commits them in one transaction."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ivm.spark.staging import Staged, clear, files_of, new_job, stage

from .applied import ONCE, Job
from .options import Options, OptionsError
from .sentences import sentences_first
from .target import Target


@sentences_first
class RelationWriter(DataSourceArrowWriter):
    """Writes a DataFrame; Spark makes one, and copies it to tasks and to the driver's commit."""

    def __init__(self, target: Target, options: Options) -> None:
        self._target = target
        self._folder = new_job(target.staging)
        self._job = job_of(options) or Job(ONCE + self._folder.name, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage a task's rows."""
        return stage(iterator, self._folder)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Apply the rows that the tasks staged, exactly once however often it is called."""
        from .commit import commit

        try:
            commit(self._target, self._job, files_of(messages))
        finally:
            clear(self._folder)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the rows that the tasks staged."""
        clear(self._folder)


def job_of(options: Options) -> Job | None:
    """Return the job named by the options, like those of Delta, or None. Raises OptionsError if only one is given."""
    application, number = options.text("txnAppId"), options.number("txnVersion")
    if (application is None) != (number is None):
        raise OptionsError("txnAppId and txnVersion go together: they say which write this is, and of which job")
    return None if application is None else Job(application, number)
