"""Files that tasks leave beside the store for the driver's commit, which reads the ones that tasks told it of.

graph.pages
graph.pages.staged/JOB/3-17.arrow      partition 3, by the attempt 17: a task that is tried again writes another file

A job's folder goes with its commit or its failure. What a killed job or a straggling task leaves is swept when it is
old.
"""

import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

SWEPT_AFTER = 7 * 24 * 60 * 60  # seconds since anything was written to a job's folder
QUERY = "sql.streaming.queryId"  # the property by which a task knows its streaming query


@dataclass
class Staged(WriterCommitMessage):
    """What a task wrote: a file, unless there were no rows, and the streaming query that it belongs to, if any."""

    file: str | None
    rows: int
    query: str | None


def stage(batches: Iterable[pa.RecordBatch], folder: Path) -> Staged:
    """Write a task's rows to a file of its own. Raises OSError, and leaves no file then."""
    context = TaskContext.get()
    assert context is not None
    file = folder / f"{context.partitionId()}-{context.taskAttemptId()}.arrow"
    rows, writer = 0, None
    try:
        for batch in batches:
            if writer is None:
                folder.mkdir(parents=True, exist_ok=True)
                options = pa.ipc.IpcWriteOptions(compression="lz4")
                writer = pa.ipc.new_file(str(file), batch.schema, options=options)
            writer.write_batch(batch)
            rows += batch.num_rows
        if writer is not None:
            writer.close()
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return Staged(str(file) if writer else None, rows, context.getLocalProperty(QUERY))


def staged_batches(files: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """The rows of files, in their order."""
    for file in files:
        with pa.memory_map(file) as source, pa.ipc.open_file(source) as reader:
            for place in range(reader.num_record_batches):
                yield reader.get_batch(place)


def clear(folder: Path) -> None:
    """Remove a job's files, and those of other jobs that are old; other processes may be doing the same."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        for other in folder.parent.iterdir():
            if _last_written(other) < time.time() - SWEPT_AFTER:
                shutil.rmtree(other, ignore_errors=True)
        folder.parent.rmdir()  # if it is empty


def _last_written(folder: Path) -> float:
    """When a file in a folder was last written to, in seconds since 1970."""
    times = [folder.stat().st_mtime]
    for file in folder.iterdir():
        with suppress(OSError):
            times.append(file.stat().st_mtime)
    return max(times)
