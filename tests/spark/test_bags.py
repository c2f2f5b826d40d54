"""Relations without a key, read and written by Spark: equal rows as often as they are there."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ivm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[int | None, str | None]
HELD: list[Row] = [(1, "a"), (1, "a"), (2, None)]
ROWS: list[Row] = [(1, "a"), (None, "b"), (3, None), (1, "a"), (None, "b"), (1, "ä"), (1, "a")]
SCHEMA = "a bigint, s string"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A workspace with a table without a key, and a view of it."""
    with ivm.open(tmp_path / "s.pages", retain="all") as ws:
        ws.sql("CREATE TABLE t (a BIGINT, s VARCHAR); CREATE TABLE n (a BIGINT)")
        ws.sql(
            "CREATE MATERIALIZED VIEW counted AS SELECT a, s, count(*) AS n FROM t GROUP BY a, s"
        )
        ws.insert("t", HELD)
    return tmp_path / "s.pages"


def expect(path: Path, rows: Iterable[Row]) -> None:
    expected = Counter(rows)
    with ivm.open(path) as ws:
        assert Counter(ws["t"]) == expected and len(ws["t"]) == expected.total()
        assert {(a, s): n for a, s, n in ws.sql("SELECT * FROM counted")} == expected
        assert ws.check() == [] and ws.store.check() == []


def write(
    frame: "DataFrame", path: Path, mode: str = "append", relation: str = "t", **options: Any
) -> None:
    frame.write.format("pagestore").mode(mode).options(relation=relation, **options).save(str(path))


def read(spark: "SparkSession", path: Path, **options: Any) -> Counter[Any]:
    frame = spark.read.format("pagestore").options(relation="t", **options).load(str(path))
    assert frame.count() == len(frame.collect())
    return Counter(map(tuple, frame.collect()))


def test_a_batch_adds_and_takes_away_each_row(spark: "SparkSession", path: Path) -> None:
    frame = spark.createDataFrame(ROWS, SCHEMA).repartition(3)
    write(frame, path)
    expect(path, HELD + ROWS)
    write(frame, path, operation="delete")
    expect(path, HELD)
    with pytest.raises(
        Exception, match="'t' is a bag, which has no key by which rows are replaced"
    ):
        write(frame, path, operation="upsert")
    write(frame, path, mode="overwrite")
    expect(path, ROWS)
    write(frame, path)
    expect(path, ROWS + ROWS)
    write(spark.range(2).selectExpr("7 as a"), path, relation="n")
    with ivm.open(path) as ws:
        assert list(ws["n"]) == [(7,), (7,)]


def test_a_stream_adds_each_row(spark: "SparkSession", path: Path) -> None:
    source = path.with_name("source")
    for part in (ROWS, ROWS[:3]):
        spark.createDataFrame(part, SCHEMA).write.mode("append").parquet(str(source))
        query = (
            spark.readStream.schema(SCHEMA)
            .parquet(str(source))
            .writeStream.format("pagestore")
            .option("relation", "t")
            .option("checkpointLocation", str(path.with_name("check")))
            .trigger(availableNow=True)
            .start(str(path))
        )
        query.awaitTermination(120)
        assert query.exception() is None
    expect(path, HELD + ROWS + ROWS[:3])


def test_spark_reads_each_row(spark: "SparkSession", path: Path) -> None:
    with ivm.open(path) as ws:
        ws.insert("t", ROWS)
        ws.sql("DELETE FROM t WHERE s = 'b'")
    now = Counter([row for row in HELD + ROWS if row[1] != "b"])
    assert read(spark, path) == read(spark, path, numPartitions=3) == now
    assert read(spark, path, keyFrom="1", keyTo="3") == Counter(
        row for row in now.elements() if row[0] in (1, 2)
    )
    assert read(spark, path, columns="s").total() == now.total()
    feed = spark.read.format("pagestore").options(
        relation="t", readChangeFeed=True, startingVersion=0
    )
    changes = Counter((row.a, row.s, row._change_type) for row in feed.load(str(path)).collect())
    gone = {(a, s): n for (a, s, kind), n in changes.items() if kind == "delete"}
    assert gone == {(None, "b"): 2}
    came = Counter({(a, s): n for (a, s, kind), n in changes.items() if kind == "insert"})
    assert came == Counter(HELD + ROWS)
    stream = spark.readStream.format("pagestore").options(
        relation="t", readChangeFeed=True, startingVersion=0
    )
    seen: list[Any] = []
    query = (
        stream.load(str(path))
        .writeStream.foreachBatch(lambda rows, _: seen.extend(rows.collect()))
        .option("checkpointLocation", str(path.with_name("check")))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    assert Counter((row.a, row.s, row._change_type) for row in seen) == changes
