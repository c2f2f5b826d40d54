"""Values of SQL's types at every door of a table: the least and the greatest are held, and the next
ones refused.

A door takes a path, the name of a table (k BIGINT, x of some type), and rows.
"""

import json
import re
from collections.abc import Callable
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from ivm.errors import IvmError
from pagestore.admin.backup import restore_backup
from pagestore.errors import PagestoreError
from pagestore.values.types import NARROW, SINGLE, SINGLE_MOST
from pagestore_tools.cli import main
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.dataset import Reading
from pagestore_tools.loading.load import Spread, load
from tests.support.cluster import HereCluster

Row = tuple[int, Any]
Door = Callable[[Path, str, list[Row]], Any]
WIDEST = float(np.finfo(np.float32).max)
HELD: dict[str, list[Any]] = {
    **{name: [least, 0, most] for name, (least, most) in NARROW.items()},
    SINGLE: [-WIDEST, 0.1, 1e-60, inf, SINGLE_MOST],
    "DECIMAL(5,2)": [Decimal("-999.99"), Decimal("999.99")],
}
BEYOND: dict[str, list[Any]] = {
    **{name: [least - 1, most + 1] for name, (least, most) in NARROW.items()},
    SINGLE: [1e39, -float(np.nextafter(SINGLE_MOST, inf))],
    "DECIMAL(5,2)": [Decimal("1000.00")],
}
BEYOND["UBIGINT"].pop()  # no column of the store holds it
REFUSALS = (IvmError, PagestoreError, DatasetError)


def shown(type_: str) -> str:
    """The name of the table of a type."""
    return f"t_{type_.partition('(')[0].lower()}"


def stored(type_: str, value: Any) -> Any:
    """What a column holds of a value."""
    return float(np.float32(value)) if type_ == SINGLE else value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A workspace with a table for each type, with a key and without one, under a view."""
    with ivm.open(tmp_path / "s.pages") as ws:
        for type_ in HELD:
            ws.sql(f"CREATE TABLE {shown(type_)} (k BIGINT PRIMARY KEY, x {type_})")
            ws.sql(f"CREATE TABLE {shown(type_)}_bag (k BIGINT, x {type_} NOT NULL)")
        ws.sql("CREATE MATERIALIZED VIEW v AS SELECT x, count(*) AS n FROM t_tinyint GROUP BY x")
    return tmp_path / "s.pages"


def columns(rows: list[Row]) -> dict[str, list[Any]]:
    return {"k": [k for k, _ in rows], "x": [x for _, x in rows]}


def in_workspace(insert: Callable[[ivm.Workspace, str, list[Row]], Any]) -> Door:
    def enter(path: Path, table: str, rows: list[Row]) -> None:
        with ivm.open(path) as ws:
            insert(ws, table, rows)

    return enter


def in_store(insert: Callable[[pagestore.Transaction, str, list[Row]], Any]) -> Door:
    def enter(path: Path, table: str, rows: list[Row]) -> None:
        with pagestore.open(path) as store, store.transaction() as txn:
            insert(txn, table, rows)

    return enter


def loading(kind: str, cluster: bool = False) -> Door:
    def enter(path: Path, table: str, rows: list[Row]) -> None:
        file = path.with_name(f"rows.{kind}")
        if kind == "parquet":
            pq.write_table(pa.table(columns(rows)), file)
        elif kind == "csv":
            file.write_text("k,x\n" + "".join(f"{k},{x}\n" for k, x in rows))
        else:
            lines = ({"k": k, "x": x} for k, x in rows)
            file.write_text("".join(json.dumps(one, default=float) + "\n" for one in lines))
        spread = Spread(HereCluster(2), path.with_name("segments")) if cluster else None
        mode = "replace" if cluster else "append"
        with pagestore.open(path) as store, store.transaction() as txn:
            load(txn, table, [file], mode=mode, reading=Reading(), spread=spread)

    return enter


def _prepared(path: Path, table: str, rows: list[Row]) -> None:
    with ivm.open(path) as ws:
        prepared = ws.prepare(table)
        for k in range(-9, -1):  # so that the commits are of a series
            prepared.insert(k, 0)
            prepared.commit()
        ws.delete(table, [(k, 0) for k in range(-9, -1)])
        for row in rows:
            prepared.insert(*row)
        prepared.commit()


def _by_rules(ws: ivm.Workspace, table: str, rows: list[Row]) -> None:
    bag = ws[table].info.bag
    for k, x in rows:
        shown = str(Decimal(x)) if type(x) is float and x != inf else str(x)
        shown += ".0" * (type(x) is float and "." not in shown)
        ws.exec(f"+{table}[{k}, {shown}] = 1." if bag else f"+{table}[{k}] = {shown}.")


def _query(ws: ivm.Workspace, table: str, rows: list[Row]) -> None:
    type_ = "DOUBLE" if type(rows[-1][1]) is float else "DECIMAL(38,2)"
    ws.sql(f"CREATE OR REPLACE TABLE other (k BIGINT, x {type_})")
    ws.insert("other", [(k, x if type_ == "DOUBLE" else Decimal(x)) for k, x in rows])
    ws.sql(f"INSERT INTO {table} SELECT * FROM other")


DOORS: dict[str, Door] = {
    "a list": in_workspace(lambda ws, table, rows: ws.insert(table, rows)),
    "columns": in_workspace(lambda ws, table, rows: ws.insert(table, columns(rows))),
    "numpy": in_workspace(
        lambda ws, table, rows: ws.insert(table, {n: np.array(c) for n, c in columns(rows).items()})
    ),
    "Arrow": in_workspace(lambda ws, table, rows: ws.insert(table, pa.table(columns(rows)))),
    "pandas": in_workspace(lambda ws, table, rows: ws.insert(table, pd.DataFrame(columns(rows)))),
    "polars": in_workspace(lambda ws, table, rows: ws.insert(table, pl.DataFrame(columns(rows)))),
    "VALUES": in_workspace(
        lambda ws, table, rows: [ws.sql(f"INSERT INTO {table} VALUES (?, ?)", r) for r in rows]
    ),
    "a query": in_workspace(_query),
    "rules": in_workspace(_by_rules),
    "a transaction": in_store(lambda txn, table, rows: txn[table].insert(rows)),
    "bulk": in_store(lambda txn, table, rows: txn[table].bulk([pa.table(columns(rows))])),
    "prepared rows": _prepared,
    "load csv": loading("csv"),
    "load parquet": loading("parquet"),
    "load jsonl": loading("jsonl"),
    "load on a cluster": loading("parquet", cluster=True),
}
ONLY_KEYED: dict[str, Door] = {
    "set": in_workspace(lambda ws, table, rows: ws.set(table, rows)),
    "update": in_store(lambda txn, table, rows: txn[table].update(dict(rows))),
}
OF_BAGS = ("a list", "a query", "rules", "load csv", "load on a cluster")
CASES = [(d, True) for d in (*DOORS, *ONLY_KEYED)] + [(d, False) for d in OF_BAGS]
INEXACT = {"rules": ("FLOAT",), "load jsonl": ("DECIMAL(5,2)",), "pandas": ("DECIMAL(5,2)",)}


def rows_of(path: Path, table: str) -> list[Row]:
    with ivm.open(path) as ws:
        assert ws.check() == []
        return sorted((k, x) for k, x in ws[table])


@pytest.mark.parametrize(("door", "keyed"), CASES)
def test_the_values_of_a_type(path: Path, door: str, keyed: bool) -> None:
    enter = (DOORS | ONLY_KEYED)[door]
    for type_, values in HELD.items():
        table = shown(type_) + "_bag" * (not keyed)
        rows = [*enumerate(values)]
        if type_ in INEXACT.get(door, ()):
            rows = rows[1:2]
        enter(path, table, rows)
        assert rows_of(path, table) == [(k, stored(type_, x)) for k, x in rows], type_


@pytest.mark.parametrize(("door", "keyed"), CASES)
def test_the_values_beyond_a_type(path: Path, door: str, keyed: bool) -> None:
    enter = (DOORS | ONLY_KEYED)[door]
    for type_, values in BEYOND.items():
        table = shown(type_) + "_bag" * (not keyed)
        for value in values:
            with pytest.raises(REFUSALS) as refused:
                enter(path, table, [(1, type(value)(0)), (2, value)][door == "rules" :])
            said = str(refused.value)
            assert type_.replace(",", ", ") in said or type_.lower() in said.lower(), said
            assert re.search(rf"\bx\b|{type(value)(value)}", said), said
            if door not in ("VALUES", "prepared rows"):  # of which each row is a commit
                assert rows_of(path, table) == [], (type_, value)
            with ivm.open(path) as ws:
                ws.sql(f"DELETE FROM {table}")


def test_sums_stay_within_the_type(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.sql("CREATE TABLE t (k BIGINT PRIMARY KEY, x TINYINT NOT NULL)")
        ws.insert("t", [(1, 100)])
        with ws.store.transaction() as txn:
            txn["t"].add([(1, 27)])
        with (
            pytest.raises(PagestoreError, match="128 does not fit TINYINT"),
            ws.store.transaction() as txn,
        ):
            txn["t"].add([(1, 1)])
        assert list(ws["t"]) == [(1, 127)]


def test_bad_rows_go_aside(path: Path) -> None:
    for kind, load_ in (
        ("csv", loading("csv")),
        ("parquet", loading("parquet")),
        ("jsonl", loading("jsonl")),
    ):
        with pytest.raises(REFUSALS):
            load_(path, "t_tinyint", [(1, 1), (2, 200), (3, -129)])
        file, bad = path.with_name(f"rows.{kind}"), path.with_name("bad.jsonl")
        given = ["load", str(path), "t_tinyint", str(file), "--append", "--bad", str(bad)]
        assert main.pagestore(given) == 0
        found = [json.loads(line) for line in bad.read_text().splitlines()]
        assert [int(one["value"]) for one in found] == [200, -129]
        assert all("TINYINT: it holds -128 to 127" in one["reason"] for one in found)
        assert rows_of(path, "t_tinyint") == [(1, 1)]


def test_types_stay_when_tables_change_and_stores_are_copied(path: Path) -> None:
    with ivm.open(path) as ws:
        ws.sql("DROP MATERIALIZED VIEW v")
        ws.sql("ALTER TABLE t_tinyint RENAME COLUMN x TO y; ALTER TABLE t_tinyint RENAME TO r")
        ws.sql("ALTER TABLE r ADD COLUMN z USMALLINT DEFAULT 7; ALTER TABLE r ADD COLUMN w BIGINT")
        ws.sql("ALTER TABLE r DROP COLUMN w; CREATE TABLE made AS SELECT 7::UTINYINT AS x")
        ws.store.backup(path.with_name("s.backup"))
        with path.with_name("dumped").open("wb") as out:
            ws.store.dump(out)
        ws.store.vacuum()
        ws.store.branch("try")
        with (
            pytest.raises(PagestoreError, match="TINYINT"),
            ws.store.transaction(branch="try") as txn,
        ):
            txn["r"].insert([(1, 200, 7)])
    restore_backup(path.with_name("backup.pages"), [path.with_name("s.backup")])
    with (
        pagestore.open(path.with_name("restored.pages")) as store,
        path.with_name("dumped").open("rb") as source,
    ):
        store.restore(source)
    for name in ("s.pages", "backup.pages", "restored.pages"):
        with ivm.open(path.with_name(name)) as ws:
            for table, row, type_ in (
                ("r", (1, -129, 7), "TINYINT"),
                ("r", (1, 7, -1), "USMALLINT"),
                ("made", (256,), "UTINYINT"),
            ):
                with pytest.raises(PagestoreError, match=f"does not fit {type_}; it holds"):
                    ws.insert(table, [row])
            ws.insert("r", [(1, -128, 65535), (2, None, None)])


def test_a_float_is_found_by_the_value_that_was_given(path: Path) -> None:
    with ivm.open(path) as ws:
        ws.insert("t_float", [(1, 0.1), (2, 0.2)])
        ws.insert("t_float_bag", [(1, 0.1), (2, 0.2)])
        for table in ("t_float", "t_float_bag"):
            ws.delete(table, [(1, 0.1), (2, 1e39)])
            assert [k for k, _ in ws[table]] == [2]
        ws.exec("-t_float[2] = 0.2.")
        assert len(ws["t_float"]) == 0
