"""Bulk load: what a folder of Parquet becomes, in order or not, and what is refused."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagestore
from pagestore_tools.cli import main
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.dataset import Reading
from pagestore_tools.loading.load import load
from pagestore_tools.relation_commands.load import HELP


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """`folder(table, table)` writes part files as a Spark job would."""

    def write(*tables: pa.Table) -> Path:
        path = tmp_path / "job"
        path.mkdir()
        for number, table in enumerate(tables):
            pq.write_table(table, path / f"part-{number:05}-c000.zstd.parquet")
        (path / "_SUCCESS").touch()
        return path

    return write


@pytest.fixture
def store(tmp_path: Path):
    with pagestore.open(tmp_path / "test.pages", sync="off") as opened:
        yield opened


def table(**columns: list) -> pa.Table:
    return pa.table(columns)


def test_sorted_files_stream_in(store, folder) -> None:
    path = folder(table(x=[1, 1], y=[2, 3]), table(x=[2], y=[1]))
    with store.transaction() as txn:
        report = load(txn, "edge", path, ["x", "y"])
    assert list(store.snapshot()["edge"]) == [(1, 2), (1, 3), (2, 1)]
    assert (report.rows, report.files, report.collapsed, report.sorted) == (3, 2, 0, False)


def test_unsorted_files_are_sorted_in_bounded_memory(store, folder) -> None:
    random = np.random.default_rng(1)
    rows = random.permutation(200_000)
    path = folder(*(table(x=part, y=-part) for part in np.split(rows, 4)))
    with store.transaction() as txn:
        report = load(txn, "r", path, ["x"], memory=1 << 20)
    assert report.sorted
    words = store.snapshot()["r"].to_numpy()
    assert (words["x"] == np.arange(200_000)).all()
    assert (words["y"] == -np.arange(200_000)).all()


def test_text_keys_are_sorted_by_their_ids(store, folder) -> None:
    path = folder(table(k=["b", "a"], v=[1.5, 2.5]))
    with store.transaction() as txn:
        load(txn, "r", path, ["k"])
    assert sorted(store.snapshot()["r"]) == [("a", 2.5), ("b", 1.5)]


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1]])
def test_identical_rows_collapse(store, folder, order: list[int]) -> None:
    rows = [(1, "a"), (1, "a"), (2, "b")]
    path = folder(*(table(x=[rows[i][0]], s=[rows[i][1]]) for i in order))
    with store.transaction() as txn:
        report = load(txn, "r", path, ["x"])
    assert (report.rows, report.collapsed) == (2, 1)


@pytest.mark.parametrize("first", [1, 9])
def test_one_key_with_two_values_is_refused(store, folder, first: int) -> None:
    path = folder(table(x=[first, 5, 5], s=["p", "a", "b"]))
    with (
        pytest.raises(DatasetError, match=r"key \(x=5\) has both \(s=a\) and \(s=b\).*keep one"),
        store.transaction() as txn,
    ):
        load(txn, "r", path, ["x"])
    assert "r" not in store.snapshot()
    assert store.check() == []


def test_rows_with_nulls_are_dropped_when_asked(store, folder) -> None:
    path = folder(table(x=[1, None, 3]))
    with store.transaction() as txn:
        report = load(txn, "r", path, ["x"], reading=Reading(nulls="drop"))
    assert (report.rows, report.dropped) == (2, 1)


def test_an_empty_job_makes_an_empty_relation(store, folder) -> None:
    path = folder(table(x=pa.array([], pa.int64())))
    with store.transaction() as txn:
        assert load(txn, "r", path, ["x"]).rows == 0
    assert list(store.snapshot()["r"]) == []


def test_a_key_that_is_no_column(store, folder) -> None:
    with (
        pytest.raises(DatasetError, match="no column z for the key; there are x"),
        store.transaction() as txn,
    ):
        load(txn, "r", folder(table(x=[1])), ["z"])


def test_the_command_loads_and_says_what_went_wrong(folder, tmp_path: Path, capsys) -> None:
    file, path = tmp_path / "c.pages", folder(table(x=[3, 1]))
    assert main.pagestore(["load", str(file), "r", str(path), "--key", "x"]) == 0
    assert "r: 2 rows from 1 file in" in capsys.readouterr().out
    assert main.pagestore(["load", str(file), "r", str(path), "--key", "x"]) == 1
    assert "pagestore load: there is a relation 'r' already" in capsys.readouterr().err
    with pagestore.open(file, mode="r") as opened:
        assert list(opened.snapshot()["r"]) == [(1,), (3,)]


def test_the_key_may_be_written_with_spaces(folder, tmp_path: Path) -> None:
    file, path = tmp_path / "k.pages", folder(table(x=[1, 2], y=[3, 4]))
    assert main.pagestore(["load", str(file), "r", str(path), "--key", "y, x", "--quiet"]) == 0
    with pagestore.open(file, mode="r") as opened:
        assert opened.snapshot()["r"].schema.key == ("y", "x")


def test_the_command_answers_as_the_others_do(folder, tmp_path: Path, capsys) -> None:
    path = folder(table(x=[3, 1]))
    (path / "_SUCCESS").unlink()
    assert (
        main.pagestore(["load", str(tmp_path / "j.pages"), "r", str(path), "--key", "x", "--json"])
        == 0
    )
    out, err = capsys.readouterr()
    data = json.loads(out)
    assert (data["relation"], data["rows"], data["sorted"], len(data["notes"])) == ("r", 2, True, 1)
    assert err.startswith("note: ")
    assert (
        main.pagestore(["load", str(tmp_path / "q.pages"), "r", str(path), "--key", "x", "--quiet"])
        == 0
    )
    assert capsys.readouterr() == ("", "")


def test_a_load_that_fails_leaves_no_new_store(folder, tmp_path: Path, capsys) -> None:
    file, path = tmp_path / "f.pages", folder(table(x=[1, None]))
    failing = ["load", str(file), "r", str(path), "--key", "x"]
    assert main.pagestore(failing) == 1
    assert not file.exists() and "column x is null" in capsys.readouterr().err
    pagestore.open(file).close()
    assert main.pagestore(failing) == 1
    assert file.exists()  # an empty one that was there stays
    assert main.pagestore([*failing, "--nulls", "drop"]) == 0
    assert main.pagestore(failing) == 1
    with pagestore.open(file, mode="r") as opened:
        assert list(opened.snapshot()["r"]) == [(1,)]


def test_what_spark_wrote(store, spark, tmp_path: Path) -> None:
    rows = spark.sql(
        "select id, id % 7 part, cast(id / 4 as decimal(9, 2)) price, "
        "timestamp_micros(id * 1000003) at, string(id) name from range(5000)"
    )
    rows.repartitionByRange(3, "id").sortWithinPartitions("id").write.parquet(
        str(tmp_path / "sorted")
    )
    rows.write.partitionBy("part").parquet(str(tmp_path / "parts"))
    with store.transaction() as txn:
        ordered = load(txn, "ordered", tmp_path / "sorted", ["id"], reading=Reading(utc=True))
        parts = load(txn, "parts", tmp_path / "parts", ["id"], reading=Reading(utc=True))
    assert (ordered.sorted, parts.sorted, ordered.notes, parts.notes) == (False, True, [], [])
    one, other = (store.snapshot()[name].to_arrow() for name in ("ordered", "parts"))
    assert other.select(one.column_names).equals(one)
    assert one.slice(4001, 1).to_pylist()[0]["name"] == "4001"


def test_nulls_are_kept_in_columns_of_values(store, folder) -> None:
    path = folder(
        table(x=[1, 2, 3], y=["a", None, "b"], z=[1, 2, 3]),
        table(x=[4], y=["c"], z=pa.array([None], pa.int64())),
    )
    with store.transaction() as txn:
        load(txn, "r", path, ["x"])
        assert str(txn["r"].schema) == "x: int64, y: string?, z: int64?"
        assert list(txn["r"]) == [(1, "a", 1), (2, None, 2), (3, "b", 3), (4, "c", None)]
        load(
            txn,
            "filled",
            path,
            ["x"],
            reading=Reading(nulls="refuse", fill={"y": "none", "z": "-1"}),
        )
        assert str(txn["filled"].schema) == "x: int64, y: string, z: int64"
        assert list(txn["filled"]) == [(1, "a", 1), (2, "none", 2), (3, "b", 3), (4, "c", -1)]
        for place, (refused, complaint) in enumerate(
            [
                (
                    {"nulls": "refuse"},
                    "column y is null in row 1: nulls are refused; fill them with --fill y=VALUE",
                ),
                ({"fill": {"q": "1"}}, "no column q to fill; there are x, y, z"),
                ({"fill": {"z": "one"}}, "'one' is not a value of column z"),
            ]
        ):
            with pytest.raises(DatasetError, match=complaint):
                load(txn, f"refused {place}", path, ["x"], reading=Reading(**refused))


def test_nulls_are_filled_by_the_command(folder, tmp_path: Path) -> None:
    path = folder(table(x=[1, None], y=[None, 2]))
    command = ["load", str(tmp_path / "s.pages"), "r", str(path), "--key", "x", "--quiet"]
    with pytest.raises(SystemExit):
        main.pagestore([*command, "--fill", "y"])
    assert main.pagestore([*command, "--fill", "x=0", "--fill", "y=7"]) == 0
    with pagestore.open(tmp_path / "s.pages", mode="r") as opened:
        assert list(opened.snapshot()["r"]) == [(0, 2), (1, 7)]


def test_folders_may_lack_values(tmp_path: Path) -> None:
    for day, hour in ((1, 1), (2, "__HIVE_DEFAULT_PARTITION__")):
        (tmp_path / f"in/day={day}/hour={hour}").mkdir(parents=True)
        pq.write_table(table(x=[day]), tmp_path / f"in/day={day}/hour={hour}/a.parquet")
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        load(txn, "r", tmp_path / "in", ["x"])
        assert str(txn["r"].schema) == "x: int64, day: int64, hour: int64?"
        assert list(txn["r"]) == [(1, 1, 1), (2, 2, None)]


def test_the_examples_of_the_help_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("new").mkdir()
    Path("sales.csv").write_text("id,price\n1,5\n2,6\n")
    Path("new/a.csv").write_text("id,price\n3,7\n")
    Path("fixed.jsonl").write_text('{"id": 2, "price": 8}\n{"id": 4, "price": 9}\n')
    Path("gone.csv").write_text("id\n1\n")
    Path("b.csv").write_text("id,price\n5,7\n6,free\n")
    examples = re.findall(r"^  pagestore (load .+?)(?:   .*)?$", HELP, re.MULTILINE)
    assert len(examples) == 5
    for example in examples:
        assert main.pagestore(shlex.split(example.replace("sales.parquet", "sales.csv"))) == 0
    with pagestore.open("shop.pages", mode="r") as store:
        assert list(store.snapshot()["sale"]) == [(2, 8), (3, 7), (4, 9), (5, 7)]
