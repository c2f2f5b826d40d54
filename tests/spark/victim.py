"""A driver that is killed, with its tasks' processes: `python -m tests.spark.victim batch|stream
FOLDER`.

It writes until it finds a file `stop` in the folder, tries again what failed, and goes on where
another one was killed.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pagestore_tools.spark.session import _environment
from tests.spark import pipeline

ROWS = 200  # of each batch
FAILED = PySparkException, Py4JError, OSError  # by which Spark says that a process was killed


@contextmanager
def session() -> Iterator[SparkSession]:
    """A local session that tries a task four times, as a cluster does."""
    with tempfile.TemporaryDirectory() as folder, _environment(Path(folder)):
        builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", False)
        for name in "spark.driver.host", "spark.driver.bindAddress":
            builder = builder.config(name, "127.0.0.1")
        builder = builder.config("spark.sql.session.timeZone", "UTC").config(
            "spark.local.dir", folder
        )
        found = builder.config("spark.sql.shuffle.partitions", 2).getOrCreate()
        found.sparkContext.setLogLevel("OFF")
        try:
            yield found
        finally:
            found.stop()


class Failures:
    """A file with a line for each failure of a task, batch or query. A driver adds to what the
    one before it wrote.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.file, self.tasks = folder / "failures", 0
        self._status: Any = spark.sparkContext._jsc.sc().statusStore()

    def note(self, more: int = 0) -> None:
        """Add the tasks that have failed since the last time, and so many others."""
        # of the only executor of a local session
        tasks = self._status.executorList(True).apply(0).failedTasks()
        with self.file.open("a") as file:
            file.write("failed\n" * (tasks - self.tasks + more))
        self.tasks = tasks


def register_if_lost(spark: SparkSession, error: Exception) -> None:
    """Spark looks for sources once; where the process that looks is killed, it takes it that
    there are none.
    """
    if "DATA_SOURCE_NOT_FOUND" in str(error):
        from pagestore_tools.spark.found import DefaultSource

        spark.dataSource.register(DefaultSource)


def write_batch(spark: SparkSession, folder: Path, number: int) -> bool:
    """Write a numbered batch; whether Spark says that it is written."""
    frame = spark.range(0, ROWS, 1, 2).selectExpr(f"{number}L as batch", "id", "uuid() as attempt")
    writer = frame.write.format("pagestore").mode("append").options(relation="r", lockTimeout=60)
    try:
        writer.options(txnAppId="victim", txnVersion=number).save(str(folder / "batches.pages"))
    except FAILED as error:
        print("tried again", str(error).partition("\n")[0][:200], flush=True)
        register_if_lost(spark, error)
        return False
    return True


def write_batches(spark: SparkSession, folder: Path) -> None:
    """Write numbered batches, each until it is written; what is, stands in the file
    `acknowledged`.
    """
    acknowledged = folder / "acknowledged"
    number = len(acknowledged.read_text().splitlines()) if acknowledged.exists() else 0
    failures = Failures(spark, folder)
    while not (folder / "stop").exists():
        written = write_batch(spark, folder, number)
        failures.note(not written)
        if written:
            with acknowledged.open("a") as file:
                file.write(f"{number}\n")
            number += 1


def stream(spark: SparkSession, folder: Path) -> None:
    """Run the streams of pipeline.py; verify them at the end."""
    failures = Failures(spark, folder)
    while not (folder / "stop").exists():
        try:
            queries = pipeline.start(spark, folder)
            while all(query.isActive for query in queries) and not (folder / "stop").exists():
                failures.note()
                time.sleep(0.1)
        except FAILED as error:
            print("failed to begin", str(error).partition("\n")[0][:200], flush=True)
            register_if_lost(spark, error)
        failures.note(more=1)
        print("begun again, or stopped", flush=True)
        for query in spark.streams.active:
            query.stop()
    pipeline.finish(spark, folder)
    print("exact", pipeline.verify(spark, folder), flush=True)


if __name__ == "__main__":
    with session() as spark:
        {"batch": write_batches, "stream": stream}[sys.argv[1]](spark, Path(sys.argv[2]))
