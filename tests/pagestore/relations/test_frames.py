"""Rows go to other libraries and to notebooks, and come from them, by the names of their
columns.
"""

import importlib
import random
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import ivm
import pagestore
from pagestore.errors import SchemaError, WordError

SCHEMA = "id: int64, name: string, born: date, at: timestamp, paid: decimal(9,2), ok: bool, score: float64, raw: bytes"
NAMES = [part.split(":")[0].strip() for part in SCHEMA.split(", ")]


def rows_of(chance: random.Random, n: int) -> list[tuple]:
    return [
        (
            key,
            "".join(chance.choices("aß日<&\n", k=3)),
            date(2000 + chance.randrange(20), 1, 31),
            datetime(2013, 1, 1, chance.randrange(24), 0, 0, chance.randrange(10**6)),
            Decimal(chance.randrange(10**6)) / 100,
            chance.random() < 0.5,
            chance.random(),
            bytes([chance.randrange(256)]),
        )
        for key in range(n)
    ]


@pytest.fixture
def store():
    with pagestore.open(":memory:") as store:
        yield store


@pytest.fixture
def relation(store):
    with store.transaction() as txn:
        txn.create("r", SCHEMA, key="id").insert(rows_of(random.Random(7), 40))
    return store.snapshot()["r"]


def table_of(rows: list[tuple]) -> pa.Table:
    arrow = pagestore.open(":memory:").transaction().create("r", SCHEMA, key="id").schema.arrow
    return pa.table([[row[i] for row in rows] for i in range(len(NAMES))], arrow)


SOURCES = {  # from an Arrow table to rows as somebody has them
    "table": lambda table: table,
    "batch": lambda table: table.to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=7),
    "data set": lambda table: ds.dataset(table),
    "scanner": lambda table: ds.dataset(table).scanner(columns=table.column_names),
    "dicts": lambda table: table.to_pylist(),
    "dict of columns": lambda table: table.to_pydict(),
    "pandas": lambda table: table.to_pandas(date_as_object=True),
    "pandas with an index": lambda table: table.to_pandas().sample(frac=1, random_state=1),
    "polars": lambda table: importlib.import_module("polars").from_arrow(table),
    "duckdb": lambda table: importlib.import_module("duckdb").from_arrow(table),
}


@pytest.mark.parametrize("source", SOURCES)
def test_rows_come_by_name_from_what_people_have(source: str, store) -> None:
    pytest.importorskip(source.split()[0]) if source.split()[0] in (
        "pandas",
        "polars",
        "duckdb",
    ) else None
    rows = rows_of(random.Random(source), 30)
    table = table_of(rows)
    with store.transaction() as txn:
        relation = txn.create("r", SCHEMA, key="id")
        relation.insert(SOURCES[source](table.select(NAMES[::-1])))
        assert list(relation) == rows
        relation.delete(SOURCES[source](table.select(["id"]).slice(5)))
        assert list(relation) == rows[:5]
        for wrong, says in [
            (table.drop_columns(["born"]), "'born'"),
            (table.append_column("more", [[1] * 30]), "'more'"),
        ]:
            with pytest.raises(SchemaError, match=says):
                relation.set(SOURCES[source](wrong))
        assert list(relation) == rows[:5]


def test_a_reader_that_brings_a_bad_row_at_last_adds_none(store) -> None:
    batches = [pa.record_batch({"x": [1, 2]}), pa.record_batch({"x": [3, None]})]
    with store.transaction() as txn:
        relation = txn.create("r", "x: int64")
        with pytest.raises(WordError, match="a null"):
            relation.insert(pa.RecordBatchReader.from_batches(batches[0].schema, batches))
        assert list(relation) == []


def test_rows_go_to_pandas_polars_and_duckdb(relation) -> None:
    rows = list(relation)
    for library, frame, found in [
        ("pandas", "to_pandas", lambda frame: pa.table(frame).select(NAMES)),
        ("polars", "to_polars", lambda frame: frame.to_arrow()),
        ("duckdb", "to_duckdb", lambda frame: frame.to_arrow_table()),
    ]:
        if importlib.util.find_spec(library):
            table = found(getattr(relation, frame)())
            assert table.column_names == NAMES
            assert [*zip(*table.to_pydict().values(), strict=True)] == rows


def test_duckdb_reads_a_relation_by_the_name_of_its_variable(relation) -> None:
    duckdb = pytest.importorskip("duckdb")
    found = duckdb.sql("select name, count(*) as n from relation group by all order by all")
    assert found.columns == ["name", "n"]
    assert sum(n for _, n in found.fetchall()) == 40
    assert duckdb.sql("from relation").columns == NAMES


def test_a_library_that_is_missing_is_named(relation, monkeypatch) -> None:
    monkeypatch.setitem(importlib.import_module("sys").modules, "polars", None)
    with pytest.raises(ImportError, match="polars is not installed: pip install polars"):
        relation.to_polars()


def test_html_for_notebooks(relation, store) -> None:
    html = relation._repr_html_()
    assert (
        html.count("<tr>") == 11
        and "... and 30 more rows" in html
        and "<small>decimal(9,2)</small>" in html
    )
    with store.transaction() as txn:
        txn.create("<b>", "x: string").insert(["<script>"])
    assert "<script>" not in store.snapshot()["<b>"]._repr_html_()
    assert (
        "<td>&lt;b&gt;</td><td>x: string</td><td>x</td><td>1</td>" in store.snapshot()._repr_html_()
    )
    with ivm.open(":memory:") as ws:
        ws.install("e(x, y) -> int(x), int(y). p(x) <- e(x, _). +e(1, 2).")
        assert (
            "<td>p</td><td>view</td><td>x: int64</td><td>1</td>"
            in ws._repr_html_()
            == ws.at(1)._repr_html_()
        )
        answer = ws.query("q(x) <- p(x).")
        assert "<td>1</td>" in answer._repr_html_() and answer.to_arrow().to_pydict() == {"x": [1]}


def test_a_store_in_memory(tmp_path) -> None:
    with pagestore.open(":memory:", page_size=4096, retain="all") as store:
        with store.transaction() as txn:
            relation = txn.create("r", "x: int64, s: string", key="x", scans=["count"])
            relation.insert([np.arange(100_000), [str(x % 7) for x in range(100_000)]])
        with store.transaction() as txn:
            txn["r"].delete([(x,) for x in range(0, 100_000, 2)])
        assert (
            len(store.snapshot()["r"].range((0,), (10,))) == 5 and len(store.at(1)["r"]) == 100_000
        )
        assert store.check() == [] and store.stat() and str(store.path) == ":memory:"
        with open(tmp_path / "a.dump", "wb") as out:
            store.dump(out, [1, 2])
        store.compact()
        with pytest.raises(
            pagestore.PagestoreError, match="a store in memory stays in its process"
        ):
            importlib.import_module("pickle").dumps(store.snapshot())
    with pagestore.open(":memory:") as other, open(tmp_path / "a.dump", "rb") as source:
        assert list(other.snapshot()) == []
        assert len(other.restore(source)) == 2 and len(other.snapshot()["r"]) == 50_000
    with pytest.raises(ValueError, match="a store in memory is new"):
        pagestore.open(":memory:", mode="r")
    assert [path.name for path in tmp_path.iterdir()] == ["a.dump"]
