"""Files that tasks write next to a store, for the driver's commit, which reads those that the
tasks' messages name.

graph.pages
graph.pages.staged/JOB/3-17.arrow      partition 3, attempt 17: a task that is retried writes another file

JOB is a random name. Both writers stage in this way: `format("pagestore")` and the sink of views. A
job's folder is deleted by its commit or its failure. What a killed job or a straggling task leaves
is deleted after a week.
"""

import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

SWEPT_AFTER = 7 * 24 * 60 * 60  # seconds since anything was written to a job's folder
# the property with the id of a task's streaming query, which a checkpoint keeps
QUERY = "sql.streaming.queryId"
JOB = re.compile("[0-9a-f]{32}")  # nothing else is deleted: `stagingPath` may name a shared folder


@dataclass
class Staged(WriterCommitMessage):
    """What a task wrote: a file, unless there were no rows, and the streaming query that it
    belongs to, if any.
    """

    file: str | None
    rows: int
    query: str | None


def new_job(staging: Path) -> Path:
    """Return the folder of a new job; the first task that has rows makes it."""
    return staging / uuid4().hex


def stage(batches: Iterable[pa.RecordBatch], folder: Path) -> Staged:
    """Write a task's rows to a file of its own. Raises OSError, leaving no file."""
    context = TaskContext.get()
    task = f"{context.partitionId()}-{context.taskAttemptId()}" if context else uuid4().hex
    file, rows, writer = folder / f"{task}.arrow", 0, None
    try:
        for batch in (batch for batch in batches if batch.num_rows):
            if writer is None:
                _make(folder)
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                writer = pa.ipc.new_file(str(file), batch.schema, options=options)
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return Staged(
        str(file) if writer else None, rows, context.getLocalProperty(QUERY) if context else None
    )


def _make(folder: Path) -> None:
    """Make a job's folder, though the end of another job may remove its parent at any moment."""
    while not folder.is_dir():
        with suppress(FileNotFoundError):
            folder.mkdir(parents=True, exist_ok=True)


def files_of(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    """Return the staged files, by partition."""
    return [message.file for message in messages if isinstance(message, Staged) and message.file]


def query_of(messages: Sequence[WriterCommitMessage | None]) -> str | None:
    """Return the streaming query that tasks belong to; None if no task reports one."""
    return next(
        (message.query for message in messages if isinstance(message, Staged) and message.query),
        None,
    )


def staged_batches(files: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, in order."""
    for file in files:
        with pa.memory_map(file) as source, pa.ipc.open_file(source) as reader:
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place)


def clear_jobs(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Delete the folders of the jobs whose tasks sent messages, and old ones (see `clear`)."""
    for folder in {Path(file).parent for file in files_of(messages)}:
        clear(folder)


def clear(folder: Path) -> None:
    """Delete a job's folder, and those from over a week ago; others may be doing the same."""
    shutil.rmtree(folder, ignore_errors=True)
    staging = folder.parent
    with suppress(OSError):
        for other in (entry for entry in staging.iterdir() if JOB.fullmatch(entry.name)):
            with suppress(OSError):
                if _last_written(other) < time.time() - SWEPT_AFTER:
                    _remove(other)
        staging.rmdir()  # if it is empty


def _last_written(job: Path) -> float:
    """Return when something in a job's folder was last written, in seconds since 1970."""
    times = [job.stat().st_mtime]
    for file in job.iterdir() if job.is_dir() else ():
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times)


def _remove(job: Path) -> None:
    """Remove a job's folder, or the single file that sinks of views left up to release 0.2."""
    if job.is_dir():
        shutil.rmtree(job, ignore_errors=True)
    else:
        job.unlink(missing_ok=True)
