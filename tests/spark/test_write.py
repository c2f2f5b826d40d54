"""A DataFrame becomes rows of a relation in one transaction, which is committed once."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ivm
import pagestore
from pagestore_tools.spark.source.options import WRITING, Options
from pagestore_tools.spark.source.write import (
    ONCE,
    ONCE_KEPT,
    PROPERTY,
    Job,
    is_applied,
    record_applied,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id bigint, name string, paid decimal(9,2)"


def write(
    frame: "DataFrame", path: Path, relation: str = "r", mode: str = "append", **options: Any
) -> None:
    frame.write.format("pagestore").mode(mode).options(relation=relation, **options).save(str(path))


def rows(path: Path, relation: str = "r", version: int | None = None) -> list[tuple[Any, ...]]:
    with pagestore.open(path, mode="r") as store:
        assert store.check() == []
        return list((store.snapshot() if version is None else store.at(version))[relation])


def test_the_life_of_a_relation(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "s.pages"
    first = spark.createDataFrame(
        [(2, "b", None), (1, "a", None), (3, None, None)], SCHEMA
    ).repartition(2)
    write(first, path, key="id")
    assert rows(path) == [(1, "a", None), (2, "b", None), (3, None, None)]
    with pagestore.open(path, mode="r") as store:
        assert str(store.snapshot()["r"].schema) == "id: int64, name: string?, paid: decimal(9,2)?"
    write(
        spark.createDataFrame([("b", 2), ("B", 3)], "name string, id int").selectExpr(
            "name", "id", "cast(cast(id as decimal(5,1)) / 2 as decimal(9,2)) as paid"
        ),
        path,
        operation="upsert",
    )
    assert [(i, n, float(p or 0)) for i, n, p in rows(path)] == [
        (1, "a", 0.0),
        (2, "b", 1.0),
        (3, "B", 1.5),
    ]
    write(spark.createDataFrame([(1,), (9,)], "id bigint"), path, operation="delete")
    assert [row[0] for row in rows(path)] == [2, 3]
    write(spark.createDataFrame([(7, "x", None)], SCHEMA), path, mode="overwrite")
    assert rows(path) == [(7, "x", None)]
    with pagestore.open(path, mode="r") as store:
        assert store.version == 4 and store.history()[0].message == "spark: overwrite r"
    assert [*tmp_path.iterdir()] == [path]


def test_views_follow_in_the_same_version(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "s.pages"
    with ivm.open(path) as workspace:
        workspace.install("edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z).")
    write(spark.createDataFrame([(1, 2), (2, 3), (3, 4)], "x int, y int"), path, "edge")
    assert rows(path, "two") == [(1, 3), (2, 4)]
    write(spark.createDataFrame([(2, 3)], "x int, y int"), path, "edge", operation="delete")
    assert rows(path, "two") == []
    write(spark.createDataFrame([(5, 6), (6, 7)], "x int, y int"), path, "edge", mode="overwrite")
    assert rows(path, "two") == [(5, 7)]
    with ivm.open(path) as workspace:
        assert workspace.store.version == 4 and workspace.check() == []
    with pytest.raises(
        Exception, match="'two' is a view, which ivm keeps: write to edge, and it follows"
    ):
        write(spark.createDataFrame([(2, 3)], "x int, z int"), path, "two")


def test_a_branch_is_written_to(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "s.pages"
    with pagestore.open(path) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([1])
        store.branch("try")
    write(spark.range(5, 6).toDF("x"), path, branch="try")
    with pagestore.open(path, mode="r") as store:
        assert [len(store.snapshot(name)["r"]) for name in ("main", "try")] == [1, 2]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            "id bigint, name string, paid boolean",
            {},
            "'paid' is boolean, and the relation's is decimal.*cast it to decimal",
        ),
        ("id bigint, name string", {}, "'r' has a column 'paid'"),
        (
            "id bigint, name string, paid decimal(9,2), more int",
            {},
            r"a column 'more', and 'r' has not .*: leave it out, as in drop\(\"more\"\), or "
            r".*\"more: int64\?\"",
        ),
        (SCHEMA, {"key": "name"}, "the key of 'r' is id, not name"),
        (SCHEMA, {"operation": "merge"}, "operation='merge': one of insert, upsert, delete"),
        (SCHEMA, {"operation": "delete", "mode": "overwrite"}, "goes with the mode append"),
        (SCHEMA, {"relation": "new", "key": "no"}, "the key has a column 'no'"),
        (SCHEMA, {"relation": "new", "operation": "delete"}, "no relation 'new' to delete from"),
        (SCHEMA, {"branch": "none"}, "there is no branch 'none'"),
        (SCHEMA, {"txnAppId": "a"}, "txnAppId and txnVersion go together"),
        (SCHEMA, {"mode": "errorifexists"}, "cannot be written in the .ErrorIfExists. mode"),
    ],
)
def test_what_is_refused_before_any_task_runs(
    spark: "SparkSession", tmp_path: Path, columns: str, options: dict[str, Any], message: str
) -> None:
    path = tmp_path / "s.pages"
    with pagestore.open(path) as store, store.transaction() as txn:
        txn.create("r", "id: int64, name: string?, paid: decimal(9,2)?", key="id")
    with pytest.raises(Exception, match=message):
        write(spark.createDataFrame([], columns), path, **options)
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize(
    ("values", "operation", "message"),
    [
        (
            [(1, "b")],
            "insert",
            r"key \(id=1\) has both \(name=a\) and \(name=b\): .*operation=upsert",
        ),
        (
            [(2, "b"), (2, "c")],
            "upsert",
            r"key \(id=2\) has both .*: keep one of them with dropDuplicates",
        ),
        ([(None, "b")], "insert", "column 'id', row 0: .*null"),
    ],
)
def test_a_refused_commit_leaves_all_as_it_was(
    spark: "SparkSession",
    tmp_path: Path,
    values: list[tuple[Any, ...]],
    operation: str,
    message: str,
) -> None:
    path = tmp_path / "s.pages"
    with pagestore.open(path) as store, store.transaction() as txn:
        txn.create("r", "id: int64, name: string", key="id").insert([(1, "a")])
    with pytest.raises(Exception, match=message):
        write(
            spark.createDataFrame(values, "id bigint, name string").coalesce(1),
            path,
            operation=operation,
        )
    assert rows(path) == [(1, "a")] and [*tmp_path.iterdir()] == [path]


def test_a_task_that_fails_leaves_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "s.pages"
    frame = spark.range(0, 100, 1, 2).selectExpr("id", "if(id = 99, raise_error('no'), id) as y")
    with pytest.raises(Exception, match="no"):
        write(frame, path)
    assert [*tmp_path.iterdir()] == []


def test_a_store_that_is_open_for_writing(spark: "SparkSession", tmp_path: Path) -> None:
    path, frame = tmp_path / "s.pages", spark.range(1).toDF("x")
    for exclusive, message in (True, "close that"), (False, "end the transaction there, or wait"):
        opened = pagestore.open(path, exclusive=exclusive)
        with opened as store, store.transaction(), pytest.raises(Exception, match=message):
            write(frame, path, lockTimeout=0.1)
    write(frame, path, lockTimeout=0.1)
    assert rows(path) == [(0,)]


def test_a_numbered_write_is_applied_once(spark: "SparkSession", tmp_path: Path) -> None:
    path = tmp_path / "s.pages"
    for number, value in (1, 10), (1, 11), (2, 12), (0, 13):
        write(spark.range(value, value + 1).toDF("x"), path, txnAppId="nightly", txnVersion=number)
    assert rows(path) == [(10,), (12,)]


def test_a_commit_that_is_repeated_does_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    import pyarrow as pa

    from ivm.spark.staging import Staged
    from pagestore_tools.spark.source.write import RelationWriter, target_of

    options = Options({"path": str(tmp_path / "s.pages"), "relation": "r"}, WRITING)
    writer = RelationWriter(target_of(options, spark.range(1).schema, False), options)
    for _ in range(2):
        writer._folder.mkdir(parents=True)
        file, batch = str(writer._folder / "0-0.arrow"), pa.record_batch({"id": [1, 2]})
        with pa.ipc.new_file(file, batch.schema) as out:
            out.write_batch(batch)
        writer.commit([Staged(file, 2, None), Staged(None, 0, None)])
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert store.version == 1 and len(store.snapshot()["r"]) == 2


def test_few_jobs_without_a_number_are_remembered(tmp_path: Path) -> None:
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        record_applied(txn, "r", Job("query", 5))
        for job in range(ONCE_KEPT + 10):
            record_applied(txn, "r", Job(f"{ONCE}{job}", 0))
        assert is_applied(txn, "r", Job("query", 5)) and not is_applied(txn, "r", Job("query", 6))
        assert not is_applied(txn, "other", Job("query", 5))
        assert not is_applied(txn, "r", Job(f"{ONCE}9", 0)) and is_applied(
            txn, "r", Job(f"{ONCE}10", 0)
        )
        assert len(txn.properties[PROPERTY]) < 2000
