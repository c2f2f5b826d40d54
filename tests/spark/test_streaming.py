"""Streams read what is committed, version by version, and write each micro-batch once."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ivm
import pagestore
from pagestore.errors import VersionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery


@pytest.fixture
def store(tmp_path: Path) -> "Edited":
    return Edited(tmp_path / "s.pages")


class Edited:
    """A workspace with edges and a view of them, edited a version at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with ivm.open(path, retain="all") as workspace:
            workspace.install("edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z).")

    def edit(self, insert: list[tuple[int, int]] = [], delete: list[tuple[int, int]] = []) -> None:  # noqa: B006
        with ivm.open(self.path) as workspace, workspace.transaction() as txn:
            txn.insert("edge", insert)
            txn.delete("edge", delete)


def stream(
    spark: "SparkSession", path: Path, relation: str = "edge", **options: Any
) -> "DataFrame":
    return (
        spark.readStream.format("pagestore").options(relation=relation, **options).load(str(path))
    )


def run(
    frame: "DataFrame", checkpoint: Path, seen: "Callable[[DataFrame, int], None]"
) -> "StreamingQuery":
    """Read what is available, and return when all is."""
    writer = frame.writeStream.foreachBatch(seen).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    return query


def collected(frame: "DataFrame", checkpoint: Path) -> list[list[tuple[Any, ...]]]:
    """The rows of each batch."""
    batches: list[list[tuple[Any, ...]]] = []
    run(frame, checkpoint, lambda rows, _: batches.append(sorted(map(tuple, rows.collect()))))
    return batches


def test_a_stream_goes_on_where_it_ended(
    spark: "SparkSession", store: Edited, tmp_path: Path
) -> None:
    store.edit([(1, 2), (2, 3)])
    frame = stream(spark, store.path, "two", readChangeFeed=True, maxVersionsPerTrigger=1)
    frame = frame.select("x", "z", "_change_type", "_commit_version")
    assert collected(frame, tmp_path / "check") == [[(1, 3, "insert", 2)]]
    store.edit([(3, 4)])
    with pagestore.open(store.path) as opened, opened.transaction() as txn:
        txn.create("other", "x: int64")  # a version that changes no view
    store.edit([(9, 9)], [(1, 2)])
    found = collected(frame, tmp_path / "check")
    assert found == [[(2, 4, "insert", 3)], [(1, 3, "delete", 5), (9, 9, "insert", 5)]]
    assert collected(frame, tmp_path / "check") == []


def test_rows_that_come_and_a_row_that_goes(
    spark: "SparkSession", store: Edited, tmp_path: Path
) -> None:
    store.edit([(1, 2)])
    store.edit([(2, 3), (3, 4)])
    store.edit([(5, 6)])
    frame = stream(spark, store.path, startingVersion=3, maxRowsPerTrigger=1)
    assert collected(frame, tmp_path / "check") == [[(2, 3), (3, 4)], [(5, 6)]]
    store.edit([], [(1, 2)])
    with pytest.raises(Exception, match="version 5 took rows from 'edge'.*readChangeFeed=true"):
        collected(frame, tmp_path / "check")


def test_versions_that_are_gone_are_an_error(
    spark: "SparkSession", store: Edited, tmp_path: Path
) -> None:
    frame = stream(spark, store.path, readChangeFeed=True)
    store.edit([(1, 2)])
    assert len(collected(frame, tmp_path / "check")) == 1
    for x in range(3):
        store.edit([(x, x)])
    with pagestore.open(store.path) as opened:
        opened.vacuum(1)
    with pytest.raises(Exception, match="no longer retained; keep versions for longer"):
        collected(frame, tmp_path / "check")
    store.path.rename(tmp_path / "away.pages")
    Edited(store.path)
    with pytest.raises(Exception, match="the stream's checkpoint is of"):
        collected(frame, tmp_path / "check")


def test_a_batch_that_is_written_again_changes_nothing(
    spark: "SparkSession", store: Edited, tmp_path: Path
) -> None:
    """The checkpoint forgets that batch 1 was committed, as a driver does that dies before it
    notes it.
    """
    store.edit([(1, 2)])
    target = tmp_path / "target.pages"

    def copy() -> None:
        frame = stream(spark, store.path, readChangeFeed=True, startingVersion=1).drop(
            "_commit_timestamp"
        )
        writer = frame.writeStream.format("pagestore").option(
            "checkpointLocation", str(tmp_path / "check")
        )
        query = writer.options(path=str(target), relation="log").trigger(availableNow=True).start()
        query.awaitTermination(120)
        assert query.exception() is None

    copy()
    store.edit([(2, 3)])
    copy()
    (tmp_path / "check" / "commits" / "1").unlink()
    (tmp_path / "check" / "commits" / ".1.crc").unlink(missing_ok=True)
    copy()
    with pagestore.open(target, mode="r") as opened:
        assert [*opened.snapshot()["log"]] == [(1, 2, "insert", 2), (2, 3, "insert", 3)]
        assert opened.version == 2
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".staged")]


def test_a_checkpoint_of_another_copy_is_refused(store: Edited, tmp_path: Path) -> None:
    """Of another store, of one that went another way, or of one that is not so far."""
    pytest.importorskip(
        "pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'"
    )
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from pagestore_tools.spark.source.source import PagestoreSource

    def reader() -> Any:
        source = PagestoreSource(
            {"path": str(store.path), "relation": "edge", "readChangeFeed": "true"}
        )
        return source.streamReader(source.schema())

    copy, limit = tmp_path / "copy.pages", ReadAllAvailable()
    store.edit([(1, 2)])
    shutil.copy(store.path, copy)
    store.edit([(2, 3)])
    offset = (stream := reader()).latestOffset(stream.initialOffset(), limit)
    assert stream.latestOffset(offset, limit) == offset == json.loads(json.dumps(offset))
    before = {name: offset[name] for name in ("version", "store")}  # as an earlier release noted it
    store.edit([(3, 4)])
    for known in offset, before:
        stream = reader()
        later = stream.latestOffset(known, limit)
        assert later["version"] == offset["version"] + 1
        assert [part.commits for part in stream.partitions(known, later)]
    shutil.copy(copy, store.path)
    with pytest.raises(
        VersionError,
        match="the stream has read version 3, and the newest of .* is 2: this is an old",
    ):
        reader().latestOffset(offset, limit)
    store.edit([(7, 8)])
    store.edit([(8, 9)])
    for attempt in (
        lambda: reader().latestOffset(offset, limit),
        lambda: reader().partitions(offset, offset),
    ):
        with pytest.raises(
            VersionError,
            match="this is a copy that went another way; give it the store that it read",
        ):
            attempt()
    Edited(Path(shutil.move(store.path, tmp_path / "old.pages")).with_name("s.pages"))
    with pytest.raises(VersionError, match="the stream's checkpoint is of"):
        reader().latestOffset(offset, limit)


def test_the_output_mode_complete_overwrites(
    spark: "SparkSession", store: Edited, tmp_path: Path
) -> None:
    target = tmp_path / "target.pages"
    for edges in [(1, 2), (1, 3), (2, 3)], [(2, 4)]:
        store.edit(edges)
        counts = stream(spark, store.path).groupBy("x").count()
        writer = counts.writeStream.format("pagestore").outputMode("complete")
        writer = writer.options(
            path=str(target), relation="degree", key="x", checkpointLocation=str(tmp_path / "check")
        )
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(120)
        assert query.exception() is None
    with pagestore.open(target, mode="r") as opened:
        assert [*opened.snapshot()["degree"]] == [(1, 2), (2, 2)]
