"""Cells as tasks of Spark, views of its tables, and the sink of its streams, with one session
for all.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ivm
import pagestore
from ivm.errors import FunctionConflictError, OptionError, RecomputeError, UnknownViewError
from ivm.spark import Cells, Feed, materialize
from ivm.spark.follow import PROGRESS
from ivm.sql.errors import SqlError
from tests.ivm.spark.test_cells import VALUES
from tests.ivm.spark.test_follow import RULES, edges, found, truth
from tests.support.file_systems import hdfs_by_default
from tests.support.programs.typed_programs import POOLS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_cells_on_spark_are_those_of_one_store(spark: "SparkSession", tmp_path: Path) -> None:
    one = ivm.open(":memory:")
    one.install(RULES)
    rows = {(n % 17, n * 7 % 19) for n in range(120)}
    with one.transaction() as txn:
        txn.insert("edge", [*rows])
    table = spark.createDataFrame(edges(*rows))
    with Cells.create(
        tmp_path / "c", RULES, 4, spark, {"edge": table}, options={"threads": 1}
    ) as cells:
        gone = sorted(rows)[:9]
        change = edges(*gone, (1, 1), (2, 1), _change_type=["delete"] * 9 + ["insert"] * 2)
        names = pa.table({"x": [1, 2], "n": ["a", None]})
        pinned = cells.read("tri")
        with hdfs_by_default(spark):
            applied = cells.apply(1, {"edge": spark.createDataFrame(change), "name": names})
        assert sorted(map(tuple, pinned.collect())) == sorted(one["tri"])
        with one.transaction() as txn:
            txn.delete("edge", gone), txn.insert("edge", [(1, 1), (2, 1)]), txn.set("name", names)
        assert applied.new and applied.received.keys() <= {0, 1, 2, 3}
        assert not cells.apply(1, {"edge": change}).new
        for name in ("edge", "name", "tri", "deg"):
            assert (
                [*cells[name]]
                == sorted(map(tuple, cells.read(name).collect()))
                == sorted(one[name])
            )
        assert cells.read("edge", changed=True).count() == len([*cells.changes("edge")])
        assert cells.check() == []
        cells.reshard(2)
        assert [*cells["tri"]] == sorted(one["tri"])
    with Cells.open(tmp_path / "c") as cells, pytest.raises(OptionError, match="without spark="):
        cells.read("tri")


def test_every_type_to_spark_and_back(spark: "SparkSession", tmp_path: Path) -> None:
    """Rows of cells as a DataFrame, which comes back as a batch, with a key that was 10 less."""
    columns = {f"c{n}": type_ for n, type_ in enumerate(POOLS)}
    text = f"""p(n, {", ".join(columns)}) -> int(n), {", ".join(f"{t}({c})" for c, t in columns.items())}.
        {" ".join(f"v_{c}({c}) <- p(_, {', '.join(c if c == d else '_' for d in columns)})." for c in columns)}"""
    rows = [(n, *(pool[n % len(pool)] for pool in POOLS.values())) for n in range(6)]
    with Cells.create(tmp_path / "c", text, 2, spark, options={"threads": 1}) as cells:
        schema = cells["p"].to_arrow().schema
        table = pa.table(
            [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)],
            schema,
        )
        cells.apply(0, {"p": table})
        frame = cells.read("p")
        cells.apply(1, {"p": frame.withColumn("n", frame.n + 10)})
        found, expected = cells["p"].to_arrow().to_pylist(), table.to_pylist()
        assert (
            found[:6] == expected and [{**row, "n": row["n"] - 10} for row in found[6:]] == expected
        )
        assert all(
            len(cells[f"v_{c}"]) == len(pool)
            for c, pool in zip(columns, POOLS.values(), strict=True)
        )


def test_streams_into_cells(spark: "SparkSession", tmp_path: Path) -> None:
    """Each has numbers of its own, by the id that Spark gives it, also where a table was loaded
    and rows are Arrow.
    """
    with Cells.create(
        tmp_path / "c", RULES, 2, spark, {"edge": edges((1, 2))}, options={"threads": 1}
    ) as cells:

        def run(name: str, *rows: tuple[int, int]) -> None:
            spark.createDataFrame(edges(*rows)).write.mode("append").parquet(str(tmp_path / name))
            stream = (
                spark.readStream.schema("x long, y long").parquet(str(tmp_path / name)).writeStream
            )
            if name == "first":
                stream = stream.foreachBatch(
                    lambda frame, number: cells.apply(number, {"edge": frame})
                )
            else:
                stream = stream.foreachBatch(
                    lambda frame, number: cells.apply(number, {"edge": frame.toArrow()})
                )
            stream = stream.option("checkpointLocation", str(tmp_path / f"point of {name}"))
            stream.trigger(availableNow=True).start().awaitTermination()

        run("first", (2, 3))
        run("second", (1, 3))
        run("first", (3, 4))
        assert list(cells["edge"]) == [(1, 2), (1, 3), (2, 3), (3, 4)]
        assert list(cells["tri"]) == [(1, 2, 3)] and cells.done == 1


def test_an_error_in_a_batch_of_a_stream_begins_with_its_sentence(
    spark: "SparkSession", tmp_path: Path
) -> None:
    """Before the traceback, of views and of cells; the error of a batch that is applied by
    itself has no copy.
    """
    spark.createDataFrame(edges((1, 2))).write.parquet(str(tmp_path / "rows"))
    with Cells.create(tmp_path / "c", RULES, 2, options={"threads": 1}) as cells:
        ways: list[Callable[[Any, int], object]] = [
            lambda frame, number: cells.apply(number, {"edges": frame}),
            lambda frame, number: materialize(
                spark, "graph", RULES, {"edges": frame}, tmp_path / "v.pages"
            ),
        ]
        for number, way in enumerate(ways):
            stream = (
                spark.readStream.schema("x long, y long")
                .parquet(str(tmp_path / "rows"))
                .writeStream
            )
            stream = stream.foreachBatch(way).option(
                "checkpointLocation", str(tmp_path / f"point {number}")
            )
            with pytest.raises(Exception, match="foreach batch sink") as caught:
                stream.trigger(availableNow=True).start().awaitTermination()
            with pytest.raises(Exception, match="edges") as alone:
                way(spark.createDataFrame(edges((1, 2))), 7)
            assert alone.value.__cause__ is None
            sentence = f"{type(alone.value).__module__}.{type(alone.value).__name__}: {alone.value}"
            assert f"Return Message: {sentence}\n" in str(caught.value)


def test_what_rules_refuse_on_spark_is_taken_back(spark: "SparkSession", tmp_path: Path) -> None:
    text = VALUES + "only[s] = p <- sale(s, _, _, p)."
    with Cells.create(tmp_path / "c", text, 3, spark, options={"threads": 1}) as cells:
        sale = {"shop": ["a", "a"], "day": [pa.scalar(0, pa.date32()).as_py()] * 2, "item": [1, 2]}
        with pytest.raises(FunctionConflictError, match="only"):
            cells.apply(1, {"sale": pa.table({**sale, "price": [1.0, 2.0]})})
        assert len(cells["sale"]) == 0 and cells.done == -1
        cells.apply(1, {"sale": pa.table({**sale, "price": [2.0, 2.0]})})
        assert len(cells["sale"]) == 2 and len(cells["only"]) == 1


ZONED = [  # what a query may do with a TIMESTAMP in any zone, and what it may not
    ("SELECT k, max(ts) AS m, count(DISTINCT ts) AS c FROM t GROUP BY k", True),
    ("SELECT id, CASE WHEN id > 1 THEN ts END AS h FROM t WHERE ts IS NOT NULL", True),
    ("SELECT a.id, b.id AS o FROM t a JOIN t b ON a.ts < b.ts", True),
    ("SELECT id, hour(n) AS h, n < '2024-07-01' AS b FROM t", True),
    *(
        (f"SELECT id, {one} AS h FROM t", False)
        for one in (
            "CAST(ts AS DATE)", "hour(ts)", "date_trunc('day', ts)", "CAST(ts AS STRING)", "ts = n",
            "date_format(ts, 'HH')", "ts > '2024-07-01'", "CAST(n AS TIMESTAMP)", "datediff(ts, n)",
            "TIMESTAMP '2024-01-01 00:00:00'", "ts + INTERVAL 1 DAY", "to_date(ts)",
            "ts BETWEEN '2024-01-01' AND '2024-05-01'", "concat('a', ts)", "greatest(ts, n)",
            "coalesce(ts, DATE '2024-01-01')", "from_unixtime(id)", "to_timestamp('2024-01-01')",
        )
    ),
]  # fmt: skip


def test_what_depends_on_the_sessions_zone_is_refused(
    spark: "SparkSession", tmp_path: Path
) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        moment = "'2024-0{}-01 23:30:00'"
        rows = ", ".join(
            f"({n}L, 'a', TIMESTAMP {moment.format(n)}, TIMESTAMP_NTZ {moment.format(n)})"
            for n in (1, 7)
        )
        table = spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, k, ts, n)")
        table.createOrReplaceTempView("t")
        for number, (query, answered) in enumerate(ZONED):
            path = tmp_path / f"{number}.pages"
            if answered:
                views = materialize(spark, "v", query, {"t": table}, path)
                assert sorted(views.read("v").collect()) == sorted(spark.sql(query).collect())
            else:
                with pytest.raises(SqlError, match="the session's time zone, America/New_York"):
                    materialize(spark, "v", query, {"t": table}, path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_views_of_tables_of_spark(spark: "SparkSession", tmp_path: Path) -> None:
    path, rows = tmp_path / "v.pages", {(n % 7, n * 3 % 11) for n in range(60)}
    views = materialize(spark, "graph", RULES, {"edge": spark.createDataFrame(edges(*rows))}, path)
    assert sorted(map(tuple, views.read("tri").collect())) == truth(rows)[0]
    assert views.new and views.changes("deg").count() == len(truth(rows)[1])
    change = spark.createDataFrame(edges((0, 1), (99, 0), _change_type=["insert", "insert"]))
    views = materialize(spark, "graph", RULES, {"edge": change}, path, incremental="strict")
    assert found(path) == truth(rows | {(0, 1), (99, 0)})
    assert (99, 1, "insert", views.version) in map(tuple, views.changes("deg").collect())
    with pytest.raises(UnknownViewError):
        views.read("nothing")
    with pytest.raises(RecomputeError):
        materialize(spark, "graph", RULES + " p(x) <- edge(x, _).", {}, path, incremental="strict")
    views = materialize(
        spark, "feed", RULES, {"edge": Feed(str(path), "edge")}, tmp_path / "w.pages"
    )
    assert found(tmp_path / "w.pages") == found(path)


def test_views_and_cells_of_a_query(spark: "SparkSession", tmp_path: Path) -> None:
    """Whose rows may be equal, and whose tables Spark makes, with null and without a key."""
    frame = spark.createDataFrame([("a", 1), ("a", 2), (None, 3)], "shop string, cents int")
    query, path = "SELECT shop FROM sale WHERE cents > 1 OR shop = 'a'", tmp_path / "v.pages"
    views = materialize(spark, "v", query, {"sale": frame}, path)
    assert sorted(map(str, views.read("v").collect())) == [
        "Row(shop='a')",
        "Row(shop='a')",
        "Row(shop=None)",
    ]
    change = spark.createDataFrame(
        [("a", 2, "delete"), ("b", 9, "insert")], "shop string, cents int, _change_type string"
    )
    views = materialize(spark, "v", query, {"sale": change}, path, incremental="strict")
    assert sorted(tuple(row)[:2] for row in views.changes("v").collect()) == [
        ("a", "delete"),
        ("b", "insert"),
    ]
    total = "SELECT shop, sum(cents) AS cents, count(*) AS n FROM sale GROUP BY shop"
    sale = frame.where("shop IS NOT NULL")
    with Cells.create(
        tmp_path / "c", total, 2, spark, {"sale": sale}, options={"threads": 1}
    ) as cells:
        cells.apply(0, {"sale": spark.createDataFrame([("b", 4)], "shop string, cents int")})
        assert sorted(map(tuple, cells.read("answer").collect())) == [("a", 3, 2), ("b", 4, 1)]
    with pytest.raises(SqlError, match="sale has the row shop = 'a', cents = 1 twice"):
        Cells.create(tmp_path / "d", total, 2, spark, {"sale": sale.union(sale)})


def test_a_stream_into_views(spark: "SparkSession", tmp_path: Path) -> None:
    """As a sink, which pipelines take, and by foreachBatch; a batch that comes again is not
    taken again.
    """
    from ivm.spark.sink import ViewsSink, ViewsWriter

    spark.dataSource.register(ViewsSink)
    folder, path = tmp_path / "in", tmp_path / "v.pages"
    options = {"path": str(path), "name": "graph", "rules": RULES, "relation": "edge"}

    def run() -> None:
        stream = spark.readStream.schema("x long, y long").parquet(str(folder))
        sink = stream.writeStream.format("ivm").options(
            **options, checkpointLocation=str(tmp_path / "point")
        )
        sink.trigger(availableNow=True).start().awaitTermination()

    spark.createDataFrame(edges((1, 2), (2, 3))).coalesce(1).write.parquet(str(folder))
    stream_rows = {(1, 2), (2, 3)}
    with pytest.raises(Exception, match="rules is missing"):
        broken = (
            spark.readStream.schema("x long, y long").parquet(str(folder)).writeStream.format("ivm")
        )
        broken = broken.options(
            path="p", name="n", relation="edge", checkpointLocation=str(tmp_path / "broken")
        )
        broken.trigger(availableNow=True).start().awaitTermination()
    run()
    assert found(path)[1] == truth(stream_rows)[1]
    writer = ViewsWriter(str(path), "graph", RULES, "edge", "auto")
    staged = writer.write(iter(edges((7, 7), _change_type=["insert"]).to_batches()))
    with pagestore.open(path, mode="r") as store:
        [staged.query] = json.loads(store.snapshot().properties[PROGRESS])["batches"]
    writer.commit([staged, None], 0)  # as when a driver ends between the commit and its note of it
    assert found(path)[1] == truth(stream_rows)[1]
    writers = [ViewsWriter(str(path), "graph", RULES, "edge", "auto") for _ in range(2)]
    changes = [edges((n, n), _change_type=["insert"]).to_batches() for n in (7, 8)]
    later = [writer.write(iter(rows)) for writer, rows in zip(writers, changes, strict=True)]
    later[0].query = staged.query
    [plain] = edges((6, 6)).to_batches()
    writer.commit(later[:1], 1)
    assert (7, 1) in found(path)[1]
    writer.commit(later[1:], 0)  # of a query with another checkpoint
    writer.commit([writer.write(iter([plain]))], 1)  # rows of a stream, without a kind of change
    assert [*dict(found(path)[1])] == [1, 2, 6, 7, 8]
    assert not (tmp_path / "v.pages.staged").exists()
