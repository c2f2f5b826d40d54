"""All that write to one store from Spark stage in one folder: what one of them leaves hinders
none of the others.
"""

import os
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'")

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import LongType, StructField, StructType

import ivm
from ivm.spark import staging
from ivm.spark.sink import ViewsWriter
from ivm.spark.staging import SWEPT_AFTER, Staged
from pagestore_tools.spark.source.options import WRITING, Options
from pagestore_tools.spark.source.write import (
    RelationStreamWriter,
    RelationWriter,
    Target,
    target_of,
)

RULES = "edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z)."
COLUMNS = StructType([StructField(name, LongType(), False) for name in "xy"])
Writer = DataSourceArrowWriter | DataSourceStreamArrowWriter


def options_of(path: Path) -> Options:
    return Options({"path": str(path), "relation": "edge"}, WRITING)


def target(path: Path) -> Target:
    return target_of(options_of(path), COLUMNS, False)


WRITERS: dict[str, Callable[[Path], Writer]] = {
    "batch": lambda path: RelationWriter(target(path), options_of(path)),
    "stream": lambda path: RelationStreamWriter(target(path)),
    "sink of views": lambda path: ViewsWriter(str(path), "graph", RULES, "edge", "auto"),
}


def staged(writer: Writer, *rows: tuple[int, int]) -> Staged:
    """What a task of a writer leaves, and tells of."""
    x, y = zip(*rows, strict=True)
    message = writer.write(iter([pa.record_batch({"x": x, "y": y})]))
    assert isinstance(message, Staged)
    message.query = "query"
    return message


def commit(writer: Writer, number: int, *messages: Staged) -> None:
    """Spark's commit, of a batch with a number in streams."""
    if isinstance(writer, DataSourceArrowWriter):
        writer.commit([*messages, None])
    else:
        writer.commit([*messages, None], number)


def age(path: Path) -> None:
    """Make all below a path as old as what is swept."""
    long_ago = time.time() - SWEPT_AFTER - 60
    for one in (*path.rglob("*"), path):
        os.utime(one, (long_ago, long_ago))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with ivm.open(tmp_path / "g.pages") as workspace:
        workspace.install(RULES, "graph")
    return tmp_path / "g.pages"


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("killed", WRITERS)
def test_what_any_writer_leaves_hinders_no_other(path: Path, killed: str, name: str) -> None:
    folder, numbers = Path(f"{path}.staged"), count()
    staged(WRITERS[killed](path), (9, 9))
    age(folder)
    kept = Path(staged(WRITERS[killed](path), (8, 8)).file or "")
    for row in (1, 2), (2, 3):
        writer = WRITERS[name](path)
        commit(writer, next(numbers), staged(writer, row), Staged(None, 0, "query"))
        assert [*folder.rglob("*.arrow")] == [kept]
    age(folder)
    writer = WRITERS[name](path)
    commit(writer, next(numbers), staged(writer, (3, 4)))
    with ivm.open(path) as workspace:
        assert [*workspace["edge"]] == [(1, 2), (2, 3), (3, 4)]
        assert [*workspace["two"]] == [(1, 3), (2, 4)] and workspace.check() == []
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("name", WRITERS)
def test_a_failed_commit_leaves_nothing(path: Path, name: str) -> None:
    writer = WRITERS[name](path)
    message = staged(writer, (1, 2))
    with ivm.open(path) as workspace:
        workspace.uninstall("graph")
    path.unlink()
    path.mkdir()
    with pytest.raises(Exception, match=r"g\.pages"):
        commit(writer, 0, message)
    assert [*path.parent.iterdir()] == [path]


@pytest.mark.parametrize("name", WRITERS)
def test_what_an_earlier_release_left_is_swept_and_what_others_keep_there_is_not(
    path: Path, name: str
) -> None:
    """The sink of views left files where there are folders now; `stagingPath` may name a folder
    with much else.
    """
    folder = Path(f"{path}.staged")
    (folder / "reports").mkdir(parents=True)
    (folder / "reports" / "2024.csv").touch()
    (folder / "notes").touch()
    (folder / ("a" * 32)).write_text("rows")
    age(folder)
    writer = WRITERS[name](path)
    commit(writer, 0, staged(writer, (1, 2)))
    assert sorted(one.name for one in folder.rglob("*")) == ["2024.csv", "notes", "reports"]


def test_a_job_begins_while_another_removes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when one ends between the making of the two folders."""
    folder, make, left = tmp_path / "s.staged" / ("b" * 32), os.mkdir, [3]

    def removed_again(path: str, *more: int) -> None:
        make(path, *more)
        if Path(path) == folder.parent and left[0]:
            left[0] -= 1
            folder.parent.rmdir()

    monkeypatch.setattr(os, "mkdir", removed_again)
    message = staging.stage([pa.record_batch({"x": [1]})], folder)
    assert message.rows == 1 and Path(message.file or "").parent == folder and left == [0]
