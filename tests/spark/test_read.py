"""A DataFrame is a relation, or a view, as of one version."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ivm
import pagestore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = [(x, y) for x in range(40) for y in range(x, x + 5)]
RULES = """
    edge(x, y) -> int(x), int(y).
    two(x, z) <- edge(x, y), edge(y, z).
    degree[x] = d <- agg<<d = count()>> edge(x, y).
"""


@pytest.fixture(scope="module")
def graph_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 1 has rules, version 2 edges, version 3 fewer; a branch goes on from version 2."""
    path = tmp_path_factory.mktemp("read") / "graph.pages"
    with ivm.open(path, page_size=4096) as workspace:
        workspace.install(RULES)
        with workspace.transaction() as txn:
            txn.insert("edge", ROWS)
        workspace.store.branch("other")
        with workspace.transaction() as txn:
            txn.delete("edge", ROWS[:10])
        with workspace.store.transaction(branch="other") as txn:
            txn["edge"].insert([(1000, 1001)])
        workspace.store.tag("first", 2)
    return path


def read(spark: "SparkSession", path: Path | str, relation: str, **options: Any) -> "DataFrame":
    return spark.read.format("pagestore").options(relation=relation, **options).load(str(path))


def rows(frame: "DataFrame") -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


@pytest.mark.parametrize("name", ["edge", "two", "degree"])
def test_relations_and_views_are_read_whole(
    spark: "SparkSession", graph_store: Path, name: str
) -> None:
    with pagestore.open(graph_store, mode="r") as store:
        assert rows(read(spark, graph_store, name, numPartitions=3)) == sorted(
            store.snapshot()[name]
        )


def test_parts_are_ranges_of_keys(spark: "SparkSession", tmp_path: Path) -> None:
    with pagestore.open(tmp_path / "s.pages", page_size=4096) as store, store.transaction() as txn:
        txn.create("square", "x: int64, y: int64", key="x").insert(
            [(x, x * x) for x in range(20_000)]
        )
    frame = read(spark, tmp_path / "s.pages", "square", numPartitions=4, keyFrom=100, keyTo=15_000)
    parts = frame.rdd.glom().map(lambda part: (part[0].x, part[-1].x, len(part))).collect()
    assert len(parts) == 4 and sum(n for _, _, n in parts) == 14_900
    assert max(n for _, _, n in parts) < 2 * min(n for _, _, n in parts)
    assert [low for low, _, _ in parts] == [100, *(high + 1 for _, high, _ in parts[:-1])]


def test_versions(spark: "SparkSession", graph_store: Path) -> None:
    with pagestore.open(graph_store, mode="r") as store:
        when = store.at(2).timestamp
    for options in (
        {"versionAsOf": 2},
        {"versionAsOf": "first"},
        {"timestampAsOf": when.isoformat()},
    ):
        assert read(spark, graph_store, "edge", **options).count() == len(ROWS)
    assert read(spark, graph_store, "edge").count() == len(ROWS) - 10
    assert read(spark, graph_store, "edge", branch="other").count() == len(ROWS) + 1
    later = (when + timedelta(hours=1)).isoformat()
    assert (
        read(spark, graph_store, "edge", branch="other", timestampAsOf=later).count()
        == len(ROWS) + 1
    )


def test_a_dataframe_stays_at_the_version_that_it_was_made_with(
    spark: "SparkSession", tmp_path: Path
) -> None:
    with pagestore.open(tmp_path / "s.pages", retain=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([1, 2])
        frame = read(spark, tmp_path / "s.pages", "r")
        with store.transaction() as txn:
            txn["r"].insert([3])
        store.tag("keep", 1)
        assert (frame.count(), read(spark, tmp_path / "s.pages", "r").count()) == (2, 3)
        store.untag("keep")
        store.vacuum(1)
        with pytest.raises(
            Exception, match="no longer retained: read again, and keep versions for longer"
        ):
            frame.collect()


def test_columns_are_pruned_in_the_order_that_is_asked_for(
    spark: "SparkSession", graph_store: Path
) -> None:
    frame = read(spark, graph_store, "edge", columns="y, x", versionAsOf=2)
    assert frame.columns == ["y", "x"]
    assert rows(frame) == sorted((y, x) for x, y in ROWS)


def test_ranges_of_keys_that_are_texts(spark: "SparkSession", tmp_path: Path) -> None:
    words = [f"{letter}{n}" for letter in "zyxabc" for n in range(300)]
    with pagestore.open(tmp_path / "s.pages", page_size=4096) as store, store.transaction() as txn:
        txn.create("word", "word: string, n: int64, note: string?", key=["word", "n"]).insert(
            [(word, len(word), None if n % 2 else word) for n, word in enumerate(words)]
        )
        expected = sorted(txn["word"].range("b", "y"))
    path = tmp_path / "s.pages"
    assert (
        sorted(map(tuple, read(spark, path, "word", keyFrom="b", keyTo="y").collect())) == expected
    )
    assert read(spark, path, "word", numPartitions=3).count() == len(words)
    one = read(spark, path, "word", keyFrom='["a5", 2]', keyTo='["a5", 3]')
    assert [row.word for row in one.collect()] == ["a5"]


def test_sql_reads_a_version(spark: "SparkSession", graph_store: Path) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW old_edges USING pagestore "
        f"OPTIONS (path '{graph_store}', relation 'edge', versionAsOf '2')"
    )
    assert spark.sql("SELECT count(*) FROM old_edges WHERE x < 10").collect() == [(50,)]


@pytest.mark.parametrize(
    ("relation", "options", "message"),
    [
        ("edgy", {}, "has no relation 'edgy'; it has degree, edge, two"),
        ("edge", {"versionAsOf": 9}, "9"),
        ("edge", {"versionAsOf": 1, "timestampAsOf": "2026-01-01"}, "exclude each other"),
        ("edge", {"timestampAsOf": "yesterday"}, "a time such as"),
        ("edge", {"timestampAsOf": "1990-01-01"}, "no retained version is as old as"),
        ("edge", {"branch": "none"}, "there is no branch 'none'; there is main, other"),
        ("edge", {"columns": "x,z"}, "'z' is not there; 'edge' has x, y"),
        ("edge", {"keyFrom": "a"}, "keyFrom: 'a' is not a valid int64, as key column 'x' is"),
        ("edge", {"versionAsOff": 1}, "there is no option versionasoff; did you mean versionAsOf"),
        ("edge", {"numPartitions": 0}, "a number from 1 on is wanted"),
    ],
)
def test_what_is_refused(
    spark: "SparkSession", graph_store: Path, relation: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        read(spark, graph_store, relation, **options).count()


def test_a_store_that_a_node_does_not_see(spark: "SparkSession", tmp_path: Path) -> None:
    with pytest.raises(Exception, match="a store is one file, which must be at this path"):
        read(spark, tmp_path / "none.pages", "edge")
    with pytest.raises(Exception, match="a file of a mounted file system"):
        read(spark, "s3://bucket/none.pages", "edge")


def test_a_path_holds_in_whatever_folder_a_task_is(
    graph_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(
        "pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'"
    )
    from pagestore_tools.spark.source.source import PagestoreSource

    monkeypatch.chdir(graph_store.parent)
    source = PagestoreSource({"path": graph_store.name, "relation": "edge"})
    readers = [source.reader(source.schema())]
    feed = PagestoreSource(
        {
            "path": graph_store.name,
            "relation": "edge",
            "readChangeFeed": "true",
            "startingVersion": "3",
        }
    )
    readers.append(feed.reader(feed.schema()))
    parts = [(reader, part) for reader in readers for part in reader.partitions()]
    monkeypatch.chdir("/")
    assert [sum(batch.num_rows for batch in reader.read(part)) for reader, part in parts] == [
        len(ROWS) - 10,
        10,
    ]


def test_texts_of_a_concat_are_read(spark: "SparkSession", tmp_path: Path) -> None:
    with ivm.open(tmp_path / "s.pages", retain="all") as workspace:
        workspace.install(
            'e(x, y) -> int(x), string(y). t[x] = r <- agg<<r = concat(y, "/")>> e(x, y).'
        )
        workspace.exec('+e(1, "b"). +e(1, "a"). +e(2, "c").')
        version = workspace.store.version
        workspace.exec('+e(1, "d"). -e(2, "c").')
    assert rows(read(spark, tmp_path / "s.pages", "t")) == [(1, "a/b/d")]
    assert rows(read(spark, tmp_path / "s.pages", "t", columns="r")) == [("a/b/d",)]
    feed = read(spark, tmp_path / "s.pages", "t", readChangeFeed=True, startingVersion=version + 1)
    changes = [(1, "a/b", "delete"), (1, "a/b/d", "insert"), (2, "c", "delete")]
    assert rows(feed.select("x", "r", "_change_type")) == sorted(changes)
