"""Spark's Python processes run this interpreter, and what Spark says of our errors begins with
their sentences.
"""

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'")

from pyspark.serializers import read_int
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.util import handle_worker_exception

import pagestore
from ivm.spark import executors
from ivm.spark.sink import ViewsSink, ViewsWriter
from ivm.spark.staging import Staged
from pagestore_tools.spark.session import _java_home
from pagestore_tools.spark.source.changes import ChangeFeedReader, Commit, Commits
from pagestore_tools.spark.source.options import READING, Options
from pagestore_tools.spark.source.source import PagestoreSource
from tests.spark.test_staging import COLUMNS, WRITERS, path, staged

__all__ = ["path"]  # the fixture
ROOT = Path(__file__).parents[2]
OTHER = StructType([StructField("z", LongType(), False)])


def source(path: Path, **options: Any) -> PagestoreSource:
    return PagestoreSource(
        {"path": str(path), "relation": "edge", **{name: str(one) for name, one in options.items()}}
    )


def reader(path: Path, **options: Any) -> Any:
    return source(path, **options).reader(source(path, **options).schema())


def stream(path: Path) -> Any:
    return source(path).streamReader(source(path).schema())


def gone(path: Path, made: Any) -> Any:
    """What was made of a store that is not there any more."""
    path.unlink()
    return made


FAILING: dict[str, Callable[[Path], object]] = {
    "an unknown option": lambda path: source(path, version=1).schema(),
    "no such relation": lambda path: source(path, relation="edges").schema(),
    "no store": lambda path: source(path.with_name("no.pages")).schema(),
    "another schema": lambda path: source(path).reader(OTHER),
    "another schema of a stream": lambda path: source(path).streamReader(OTHER),
    "parts": lambda path: gone(path, reader(path)).partitions(),
    "rows": lambda path: [*gone(path, reader(path)).read(reader(path).partitions()[0])],
    "commits": lambda path: reader(path, readChangeFeed=True, startingVersion=77).partitions(),
    "changes": lambda path: [
        *ChangeFeedReader(
            Options({"path": str(path), "relation": "edge"}, READING), 1, COLUMNS
        ).read(Commits([Commit(8, 9, pagestore.open(path, mode="r").snapshot().timestamp)]))
    ],
    "an offset": lambda path: stream(path).latestOffset(
        {"version": 1, "store": "other"}, ReadAllAvailable()
    ),
    "a batch of a stream": lambda path: stream(path).partitions(
        {"version": 1, "store": "o"}, {"version": 1}
    ),
    "a write": lambda path: source(path).writer(OTHER, False),
    "a write of a stream": lambda path: source(path).streamWriter(OTHER, True),
    "a commit": lambda path: of_a_null(path),
    "a commit of a stream": lambda path: cast(Any, WRITERS["stream"](path)).commit(
        [Staged(None, 0, None)], 1
    ),
    "a sink without options": lambda path: ViewsSink({"path": str(path)}).streamWriter(
        COLUMNS, False
    ),
    "a sink of a view": lambda path: committed(
        path, ViewsWriter(str(path), "graph", "", "two", "auto")
    ),
}


def committed(path: Path, writer: ViewsWriter) -> None:
    writer.commit([staged(writer, (1, 2))], 1)


def of_a_null(path: Path) -> None:
    """A commit of a row whose key is null."""
    writer: Any = WRITERS["batch"](path)
    writer.commit(
        [writer.write(iter([pa.record_batch({"x": pa.array([None], pa.int64()), "y": [1]})]))]
    )


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of a worker, as Spark sets it."""
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")
    monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")
    monkeypatch.delenv(executors.HIDE, raising=False)
    yield
    os.environ.pop(executors.HIDE, None)


def reported(error: Exception) -> str:
    """What a worker of Spark says of an error that is being handled."""
    handle_worker_exception(error, out := io.BytesIO())
    out.seek(0)
    read_int(out), read_int(out)
    return out.read().decode()


@pytest.mark.parametrize("what", FAILING)
def test_an_error_of_ours_is_its_sentence(path: Path, what: str, worker: None) -> None:
    try:
        FAILING[what](path)
    except Exception as error:
        said = reported(error)
        assert said == f"{type(error).__module__}.{type(error).__name__}: {error}\n".removeprefix(
            "builtins."
        )
    else:
        raise AssertionError("nothing failed")


def test_other_errors_keep_their_tracebacks(path: Path, worker: None) -> None:
    for error in ZeroDivisionError("by zero"), OSError(5, "input/output error"):
        try:
            with executors.sentence_first():
                raise error
        except (ZeroDivisionError, OSError) as found:
            assert "test_workers.py" in reported(found)


def test_nothing_is_set_outside_a_worker(path: Path) -> None:
    with pytest.raises(pagestore.PagestoreError):
        source(path, version=1).schema()
    assert executors.HIDE not in os.environ


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({}, True),
        ({"PYSPARK_PYTHON": "/opt/python"}, False),
        ({"PYSPARK_GATEWAY_PORT": "1"}, False),
        ({"SPARK_PYTHON_RUNTIME": "PYTHON_WORKER"}, False),
    ],
)
def test_spark_is_told_this_interpreter(
    environment: dict[str, str], named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_PYTHON_RUNTIME":
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    pagestore._name_python_to_spark()
    assert os.environ.get("PYSPARK_PYTHON") == (
        sys.executable if named else environment.get("PYSPARK_PYTHON")
    )


@pytest.mark.parametrize(
    ("was", "master", "is_"),
    [
        ("python3", "local[2]", sys.executable),
        ("/opt/python", "local[2]", "/opt/python"),
        ("python3", "yarn", "python3"),
    ],
)
def test_a_session_that_began_before(was: str, master: str, is_: str) -> None:
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=was, master=master))
    executors.use_this_python(session)
    assert session.sparkContext.pythonExec == is_
    executors.use_this_python(cast(Any, object()))  # as one of Spark Connect, which has no context


SCRIPT = """
import sys
import ivm
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
reads = spark.read.format("pagestore")
print(reads.options(relation="edge").load(sys.argv[1]).collect())
try:
    reads.options(relation="edges").load(sys.argv[1])
except Exception as error:
    print(error)
"""


def test_an_environment_that_is_not_activated(path: Path, tmp_path: Path) -> None:
    """The first python3 of PATH has none of our packages."""
    folder, keep = tmp_path / "path", ("JAVA_HOME", "HOME", "JAVA_TOOL_OPTIONS", "TMPDIR")
    folder.mkdir()
    (folder / "pyspark_pagestore").symlink_to(ROOT / "tools" / "spark" / "found")
    (folder / "python3").write_text("#!/bin/sh\nexit 1\n")
    (folder / "python3").chmod(0o755)
    environment = {name: os.environ[name] for name in keep if name in os.environ}
    if "JAVA_HOME" not in environment and shutil.which("java") is None:
        environment["JAVA_HOME"] = str(_java_home(tmp_path / "java"))
    java = Path(shutil.which("java") or "/bin/java").parent
    environment |= {"PATH": f"{folder}:{java}:/usr/bin:/bin", "PYTHONPATH": f"{folder}:{ROOT}"}
    command = [sys.executable, "-c", SCRIPT, str(path)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    rows, *error = done.stdout.splitlines()
    assert rows == "[]" and "Traceback" not in done.stdout
    assert (
        "data source instance: pagestore.errors.MissingError: version 1 has no relation 'edges'"
        in error[0]
    )
