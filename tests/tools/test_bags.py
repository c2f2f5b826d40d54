"""Rows without a key, at every door: they come in and go out as often as they were given, each
equal row again.
"""

import io
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from pagestore.admin.backup import restore_backup
from pagestore.errors import SchemaError
from pagestore.host import INSERT
from pagestore_tools.cli import main
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.dataset import Reading
from pagestore_tools.loading.load import Spread, load
from tests.support.cluster import HereCluster

Row = tuple[int | None, str | None]
HELD: list[Row] = [(1, "a"), (1, "a"), (2, None)]
ROWS: list[Row] = [(1, "a"), (None, "b"), (3, None), (1, "a"), (None, "b"), (1, "ä"), (1, "a")]
TABLE = pa.table({"a": [a for a, _ in ROWS], "s": [s for _, s in ROWS]})
SELECTED = "SELECT a, s FROM other"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A workspace with a table without a key, and views of it."""
    with ivm.open(tmp_path / "s.pages", retain="all") as ws:
        ws.sql("CREATE TABLE t (a BIGINT, s VARCHAR); CREATE TABLE other (a BIGINT, s VARCHAR)")
        ws.sql(
            "CREATE MATERIALIZED VIEW counted AS SELECT a, s, count(*) AS n FROM t GROUP BY a, s"
        )
        ws.sql("CREATE MATERIALIZED VIEW same AS SELECT s, a FROM t")
        ws.insert("t", HELD)
        ws.insert("other", ROWS)
    return tmp_path / "s.pages"


def expect(path: Path, rows: Iterable[Row]) -> None:
    """Check that the table has these rows, and that its views do."""
    expected = Counter(rows)
    with ivm.open(path) as ws:
        assert Counter(ws["t"]) == expected and len(ws["t"]) == expected.total()
        assert Counter((a, s) for s, a in ws["same"]) == expected
        assert {
            (a, s): n for a, s, n in _tuples(ws.sql("SELECT * FROM counted").to_arrow())
        } == expected
        assert ws.check() == [] and ws.store.check() == []


def file_of(path: Path, kind: str, table: pa.Table = TABLE) -> Path:
    file = path.with_name(f"rows.{kind}")
    match kind:
        case "parquet":
            pq.write_table(table, file, row_group_size=2)
        case "csv":
            pyarrow.csv.write_csv(table, file)
        case "jsonl":
            file.write_text(pl.from_arrow(table).write_ndjson())  # type: ignore[union-attr]
        case _:
            with pa.ipc.new_file(str(file), table.schema) as out:
                out.write_table(table)
    return file


def in_workspace(insert: Callable[[ivm.Workspace, Path], Any]) -> Callable[[Path], None]:
    def enter(path: Path) -> None:
        with ivm.open(path) as ws:
            insert(ws, path)

    return enter


def loading(mode: str, kind: str = "parquet", cluster: bool = False) -> Callable[[Path], None]:
    def enter(path: Path) -> None:
        spread = Spread(HereCluster(2), path.with_name("segments")) if cluster else None
        with pagestore.open(path) as store, store.transaction() as txn:
            reading = Reading(empty_is_null=kind == "csv")
            report = load(txn, "t", file_of(path, kind), mode=mode, reading=reading, spread=spread)
            assert (report.rows, report.inserted) == (len(ROWS), len(ROWS))

    return enter


def in_store(insert: Callable[[pagestore.Transaction], Any]) -> Callable[[Path], None]:
    def enter(path: Path) -> None:
        with pagestore.open(path) as store, store.transaction() as txn:
            insert(txn)

    return enter


def _prepared(path: Path) -> None:
    with pagestore.open(path) as store:
        prepared = store.prepare("t")
        for row in ROWS:
            prepared.insert(*row)
        prepared.commit()


def _by_rules(path: Path) -> None:
    with ivm.open(path) as ws:
        ws.insert("t", [row for row in ROWS if None in row])  # a text has no nulls
        ws.exec('+t[1, "a"] = 3. +t[1, "ä"] = 1.')


def _by_command(path: Path) -> None:
    assert (
        main.pagestore(
            ["load", str(path), "t", str(file_of(path, "csv")), "--append", "--empty-is-null"]
        )
        == 0
    )


IN: dict[str, Callable[[Path], None]] = {
    "a list": in_workspace(lambda ws, _: ws.insert("t", ROWS)),
    "rows with names": in_workspace(lambda ws, _: ws.insert("t", TABLE.to_pylist())),
    "columns": in_workspace(lambda ws, _: ws.insert("t", TABLE.to_pydict())),
    "Arrow": in_workspace(lambda ws, _: ws.insert("t", TABLE)),
    "a reader": in_workspace(lambda ws, _: ws.insert("t", TABLE.to_reader(2))),
    "pandas": in_workspace(
        lambda ws, _: ws.insert("t", TABLE.to_pandas(types_mapper=pd.ArrowDtype))
    ),
    "polars": in_workspace(lambda ws, _: ws.insert("t", pl.from_arrow(TABLE))),
    "DuckDB": in_workspace(lambda ws, _: ws.insert("t", duckdb.from_arrow(TABLE))),
    "VALUES": in_workspace(
        lambda ws, _: [ws.sql("INSERT INTO t VALUES (?, ?)", row) for row in ROWS]
    ),
    "a query": in_workspace(lambda ws, _: ws.sql(f"INSERT INTO t {SELECTED}")),
    "BY NAME": in_workspace(lambda ws, _: ws.sql("INSERT INTO t BY NAME SELECT s, a FROM other")),
    "MERGE": in_workspace(
        lambda ws, _: ws.sql(
            "MERGE INTO t USING other ON false WHEN NOT MATCHED THEN INSERT VALUES (a, s)"
        )
    ),
    **{
        f"COPY {kind}": in_workspace(
            lambda ws, path, kind=kind: ws.sql(f"COPY t FROM '{file_of(path, kind)}'")
        )
        for kind in ("parquet", "csv")
    },
    "rules": _by_rules,
    "a transaction": in_store(lambda txn: txn["t"].insert(ROWS)),
    "a transaction, row by row": in_store(lambda txn: [txn["t"].insert([row]) for row in ROWS]),
    "prepared rows": _prepared,
    **{
        f"load --append {kind}": loading("append", kind)
        for kind in ("parquet", "csv", "jsonl", "arrow")
    },
    "the command": _by_command,
}


@pytest.mark.parametrize("door", IN)
def test_rows_come_in_as_often_as_they_are_given(path: Path, door: str) -> None:
    IN[door](path)
    expect(path, HELD + ROWS)
    IN[door](path)
    expect(path, HELD + ROWS + ROWS)


@pytest.mark.parametrize("cluster", [False, True])
def test_rows_replace_all_others(path: Path, cluster: bool) -> None:
    loading("replace", cluster=cluster)(path)
    expect(path, ROWS)
    with pagestore.open(path) as store, store.transaction() as txn:
        txn["t"].clear()
        txn["t"].bulk(TABLE.to_batches(2))
    expect(path, ROWS)


DELETED: dict[str, tuple[Callable[[Path], Any], list[Row]]] = {
    "rows of a file": (lambda path: _deleted(path, TABLE.slice(0, 2)), [ROWS[0], ROWS[1]]),
    "more than there are": (lambda path: _deleted(path, pa.concat_tables([TABLE] * 3)),
    HELD[:2] + ROWS),
    "the first column of a file": (
        lambda path: _deleted(path, TABLE.select(["a"]).slice(0, 1)),
        [r for r in HELD + ROWS if r[0] == 1],
    ),
    "the last column of a file": (
        lambda path: _deleted(path, TABLE.select(["s"]).slice(2, 1)),
        [r for r in HELD + ROWS if r[1] is None],
    ),
    "one of each": (in_workspace(lambda ws, _: ws.delete("t", [(1, "a"), (9, "z")])), [(1, "a")]),
    "every one": (in_store(lambda txn: txn["t"].delete([(1, "a")], every=True)), [(1, "a")] * 5),
    "SQL": (in_workspace(lambda ws, _: ws.sql("DELETE FROM t WHERE s = 'a'")), [(1, "a")] * 5),
    "rules": (in_workspace(lambda ws, _: ws.exec('-t[1, "a"] = 2.')), [(1, "a")] * 2),
}  # fmt: skip


def _deleted(path: Path, table: pa.Table) -> None:
    before = _rows(path)
    with pagestore.open(path) as store, store.transaction() as txn:
        report = load(txn, "t", file_of(path, "parquet", table), mode="delete")
    assert report.deleted == before - _rows(path)


def _rows(path: Path) -> int:
    with pagestore.open(path, mode="r") as store, store.snapshot() as snap:
        return len(snap["t"])


@pytest.mark.parametrize("door", DELETED)
def test_rows_go_as_often_as_they_are_given(path: Path, door: str) -> None:
    delete, gone = DELETED[door]
    IN["Arrow"](path)
    delete(path)
    expect(path, (Counter(HELD + ROWS) - Counter(gone)).elements())


REFUSED: dict[str, tuple[type[Exception], Callable[[Path], Any]]] = {
    "set": (SchemaError, in_store(lambda txn: txn["t"].set(ROWS))),
    "add": (SchemaError, in_store(lambda txn: txn["t"].add(ROWS))),
    "set in a workspace": (SchemaError, in_workspace(lambda ws, _: ws.set("t", ROWS))),
    "load --upsert": (DatasetError, loading("upsert")),
    "words without how often": (
        SchemaError, in_store(lambda txn: txn.apply("t", [INSERT], txn["t"].encode(ROWS[:1]))),
    ),
    "words in bulk": (
        SchemaError, in_store(lambda txn: (txn["t"].clear(), txn.bulk(txn["t"].info,
        [txn["t"].encode(ROWS[:1])]))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("door", REFUSED)
def test_what_needs_a_key_is_refused_and_changes_nothing(path: Path, door: str) -> None:
    kind, enter = REFUSED[door]
    with pytest.raises(kind):
        enter(path)
    expect(path, HELD)


OUT: dict[str, Callable[[ivm.Workspace, Path], Iterable[Any]]] = {
    "iteration": lambda ws, _: ws["t"],
    "Arrow": lambda ws, _: _tuples(ws["t"].to_arrow()),
    "batches": lambda ws, _: _tuples(pa.Table.from_batches(ws["t"].batches(rows=2))),
    "pandas": lambda ws, _: _tuples(pa.Table.from_pandas(ws["t"].to_pandas(), TABLE.schema)),
    "polars": lambda ws, _: pl.DataFrame(ws["t"].to_arrow()).rows(),
    "DuckDB": lambda ws, _: duckdb.from_arrow(ws["t"].to_arrow()).fetchall(),
    "SQL": lambda ws, _: _tuples(ws.sql("SELECT * FROM t").to_arrow()),
    "a filter": lambda ws, _: _tuples(
        ws.sql("SELECT * FROM t WHERE a IS NULL OR a > 0").to_arrow()
    ),
    "a join": lambda ws, _: _tuples(
        ws.sql("SELECT t.a, t.s FROM t CROSS JOIN (SELECT 1)").to_arrow()
    ),
    "an older version": lambda ws, _: _tuples(
        ws.sql(f"SELECT * FROM t FOR VERSION AS OF {ws.store.version}").to_arrow()
    ),
    "COPY": lambda ws, path: _copied(ws, path.with_name("out.parquet")),
    "changes": lambda ws, _: HELD + _changed(ws),
}


def _tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return [*zip(*(column.to_pylist() for column in table.columns), strict=True)]


def _copied(ws: ivm.Workspace, file: Path) -> list[tuple[Any, ...]]:
    ws.sql(f"COPY t TO '{file}'")
    return _tuples(pq.read_table(file))


def _changed(ws: ivm.Workspace) -> list[tuple[Any, ...]]:
    table = ws.store.diff(ws.store.version - 2, ws.store.version, "t").read_all()
    return _tuples(table.filter(pc.equal(table["_change_type"], "insert")).select(["a", "s"]))


@pytest.mark.parametrize("door", OUT)
def test_rows_go_out_as_often_as_they_are_there(path: Path, door: str) -> None:
    IN["Arrow"](path)
    with ivm.open(path) as ws:
        assert Counter(map(tuple, OUT[door](ws, path))) == Counter(HELD + ROWS)


def test_copies_and_branches_hold_the_same_rows(path: Path) -> None:
    IN["Arrow"](path)
    dumped, backup = io.BytesIO(), path.with_name("s.backup")
    with pagestore.open(path) as store:
        store.branch("try")
        with store.transaction(branch="try") as txn:
            txn["t"].insert(ROWS)
        assert len(store.snapshot("try")["t"]) == len(HELD + ROWS + ROWS)
        store.dump(dumped)
        store.backup(backup)
        store.vacuum()
    dumped.seek(0)
    with pagestore.open(path.with_name("restored.pages")) as store:
        store.restore(dumped)
    restore_backup(path.with_name("backup.pages"), [backup])
    for name in ("s.pages", "restored.pages", "backup.pages"):
        expect(path.with_name(name), HELD + ROWS)
