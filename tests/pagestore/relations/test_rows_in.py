"""Rows in every form that people have them in: taken for what they are, at every place that
takes rows.
"""

import sqlite3
import sys
from collections import namedtuple
from dataclasses import make_dataclass
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ivm
import pagestore
from pagestore.errors import SchemaError, WordError
from pagestore.values.row_formats import rows_as_columns
from pagestore.values.types import Schema

duckdb, pd, pl = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))

NAMES = ("x", "y", "z")
Named, Other = namedtuple("Named", NAMES), namedtuple("Other", ["a", "b", "c"])
Swapped = namedtuple("Swapped", ["z", "x", "y"])
Point, Turned = make_dataclass("Point", NAMES), make_dataclass("Turned", ["y", "z", "x"])


def sqlite_rows(rows, names=NAMES):
    with sqlite3.connect(":memory:") as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("create table t (x, y, z)")
        connection.executemany("insert into t values (?, ?, ?)", rows)
        return connection.execute(f"select {', '.join(names)} from t order by rowid").fetchall()


def arrow(rows):
    return pa.table(dict(zip(NAMES, map(pa.array, zip(*rows, strict=True)), strict=True)))


def records(rows):
    return np.array(rows, [("x", "i8"), ("y", "i8"), ("z", "i8")])


ROWS = {
    "tuples": list,
    "lists": lambda rows: [list(row) for row in rows],
    "tuples and lists": lambda rows: [list(row) if i % 2 else row for i, row in enumerate(rows)],
    "a tuple of tuples": tuple,
    "a generator": iter,
    "dicts": lambda rows: [dict(zip(NAMES, row, strict=True)) for row in rows],
    "dicts, turned": lambda rows: [{"z": z, "y": y, "x": x} for x, y, z in rows],
    "named tuples": lambda rows: [Named(*row) for row in rows],
    "named tuples, turned": lambda rows: [Swapped(z, x, y) for x, y, z in rows],
    "named tuples of other names": lambda rows: [Other(*row) for row in rows],
    "dataclasses": lambda rows: [Point(*row) for row in rows],
    "dataclasses, turned": lambda rows: [Turned(y, z, x) for x, y, z in rows],
    "sqlite": sqlite_rows,
    "sqlite, turned": lambda rows: sqlite_rows(rows, ("y", "x", "z")),
    "records": lambda rows: list(records(rows)),
    "a structured array": records,
    "a structured array, turned": lambda rows: records(rows)[["z", "x", "y"]],
    "an array of rows": np.array,
    "a dict of lists": lambda rows: dict(zip(NAMES, map(list, zip(*rows, strict=True)),
    strict=True)),
    "a dict of arrays": lambda rows: dict(zip(NAMES, map(np.array, zip(*rows, strict=True)),
    strict=True)),
    "a list of arrays": lambda rows: list(np.array(rows).T),
    "a list of Arrow arrays": lambda rows: arrow(rows).columns,
    "an array and lists": lambda rows: [np.array([r[0] for r in rows]), [r[1] for r in rows],
    [r[2] for r in rows]],
    "series": lambda rows: [pd.Series(column) for column in zip(*rows, strict=True)],
    "series of polars": lambda rows: [pl.Series(column) for column in zip(*rows, strict=True)],
    "Arrow": arrow,
    "a batch of Arrow": lambda rows: arrow(rows).combine_chunks().to_batches()[0],
    "a reader of Arrow": lambda rows: arrow(rows).to_reader(1),
    "pandas": lambda rows: arrow(rows).to_pandas(),
    "pandas of objects": lambda rows: arrow(rows).to_pandas().astype(object),
    "pandas with an index": lambda rows: arrow(rows).to_pandas().set_index("y"),
    "pandas with a counted index": lambda rows: pd.DataFrame(
        {"y": [r[1] for r in rows], "z": [r[2] for r in rows]}, index=pd.RangeIndex(len(rows),
        name="x")
    ),
    "polars": lambda rows: pl.from_arrow(arrow(rows)),
    "duckdb": lambda rows: duckdb.from_arrow(arrow(rows)),
}  # fmt: skip
COUNTED = "pandas with a counted index"


def check(form, rows):
    with ivm.open(":memory:") as ws:
        ws.install("r(x, y, z) -> int(x), int(y), int(z).")
        for edit in ("insert", "set", "delete"):
            with ws.store.transaction() as txn:
                stored = txn.create("s", "x: int64, y: int64, z: int64", if_not_exists=True)
                getattr(stored, edit)(ROWS[form](rows))
                assert list(stored) == ([] if edit == "delete" else sorted(rows))
            with ws.transaction() as txn:
                getattr(txn, edit)("r", ROWS[form](rows))
            assert sorted(ws["r"]) == ([] if edit == "delete" else sorted(rows))
        with ws.store.transaction() as txn:
            txn["s"].insert(rows[1:])
            if form not in ("a generator", "duckdb"):
                assert txn["s"].get_many(ROWS[form](rows))[0].tolist() == [
                    False,
                    *[True] * (len(rows) - 1),
                ]


@pytest.mark.parametrize("form", ROWS)
def test_rows_are_rows(form):
    check(form, [(i, 10 + i * i, -i) for i in range(3)])  # as many as there are columns
    check(form, [(i, 10 + i * i, -i) for i in range(5)])


@given(st.integers(2, 3), st.data())
def test_square_lists_are_rows(n, data):
    rows = data.draw(
        st.lists(
            st.lists(st.integers(0, 9), min_size=n, max_size=n),
            min_size=n,
            max_size=n,
            unique_by=tuple,
        )
    )
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        relation = txn.create("r", ", ".join(f"{name}: int64" for name in NAMES[:n]))
        relation.insert(rows)
        assert list(relation) == sorted(map(tuple, rows))
        relation.clear()
        relation.insert(columns=rows)
        assert list(relation) == sorted({*zip(*rows, strict=True)})


def test_columns_by_name():
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        relation = txn.create("r", "x: int64, y: string", key="x")
        relation.insert(columns=[[1, 2], ["a", "b"]])
        relation.set(columns={"y": ["c"], "x": [2]})
        relation.set(columns=(range(5, 6), np.array(["d"])))
        assert list(relation) == [(1, "a"), (2, "c"), (5, "d")]
        relation.delete(columns=[[1, 5]])
        assert list(relation) == [(2, "c")]
        with pytest.raises(SchemaError, match="1 columns for a relation of 2"):
            relation.insert(columns=[[1]])
        with pytest.raises(
            SchemaError, match="columns of several lengths: 'x' 2, 'y' 1; all columns need the same"
        ):
            relation.insert(columns=[[1, 2], ["a"]])
        with pytest.raises(SchemaError, match="not both"):
            relation.insert([(1, "a")], columns=[[1], ["a"]])


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("Ulm", r"'Ulm' is not a list of rows; give tuples, columns or a table, as \[\('Ulm',\)\]"),
        (b"Ulm", "b'Ulm' is not a list of rows"),
        (
            {"x": 1, "y": "a"},
            r"column 'x' is 1, and no list of values; one row .* as \[\{'x': 1, …\}\]",
        ),
        ({"x": [1], "y": "a"}, "column 'y' is 'a', and no list of values"),
        ({"x": 1}, "column 'x' is 1, and no list"),
        ((1, "a"), r"row 0 is 1; a record is a tuple \(x: int64, y: string\)"),
        ([{"x": 1, "y": "a"}, (2, "b")], "row 1 is .*, and row 0 a dict"),
        ([Point(1, 2, 3)], "row 0: the relation has no column 'z', which is left out first"),
        ([{"x": 1, "y": "a"}, {"x": 1}], "row 1: column 'y' is missing"),
        ([[1, 2, 3], [4, 5, 6]], "row 0 has 3 values; .*a list of columns is given by columns="),
        ([{1, 2}], r"row 0 is \{1, 2\}; a record is a tuple"),
        (
            (1, np.array([7, 8])),
            r"column 0 is 1, and no list of values; one row .* as \[\(1, …\)\]",
        ),
        (("a", range(2)), "column 0 is 'a', and no list of values"),
    ],
)
def test_what_is_no_row(rows, says):
    with ivm.open(":memory:") as ws:
        ws.install("r[x] = y -> int(x), string(y).")
        with ws.store.transaction() as txn:
            relation = txn.create("s", "x: int64, y: string", key="x")
            for edit in (relation.insert, relation.set):
                with pytest.raises(SchemaError, match=says):
                    edit(rows)
        with ws.transaction() as txn, pytest.raises(SchemaError, match=says):
            txn.insert("r", rows)


def test_one_value_a_row_where_there_is_one_column():
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        town = txn.create("town", "name: string")
        town.insert(["Ulm", "Bonn"])
        town.insert(np.array(["Kiel"]))
        town.insert(pd.Series(["Jena"]))
        assert list(town) == [("Bonn",), ("Jena",), ("Kiel",), ("Ulm",)]
        with pytest.raises(SchemaError, match=r"as \[\('Rom',\)\]"):
            town.insert("Rom")
        with pytest.raises(SchemaError, match="'Rom' is not a list of rows"):
            town.delete("Rom")


def test_all_that_is_wrong_with_a_frame_is_told_at_once():
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "paid": [0.1, 3.5],
            "day": ["2020-01-31", "x"],
            "n": [1.5, 2],
            "extra": [1, 2],
        }
    )
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        relation = txn.create(
            "r", "id: int64, paid: decimal(9,2), day: date, n: int64, b: bool", key="id"
        )
        with pytest.raises(SchemaError) as told:
            relation.insert(frame)
        for form in (frame.to_dict("list"), pa.Table.from_pandas(frame)):
            with pytest.raises(SchemaError, match="4 problems, and nothing is changed"):
                relation.insert(form)
        assert len(relation) == 0
        lines = str(told.value).splitlines()
        assert lines[0] == "4 problems, and nothing is changed:" and len(lines) == 5
        for line, part in zip(
            lines[1:],
            [
                "'b' is missing and the relation has no column 'extra'",
                "'paid', row 0: 0.1 is a float",
                "'day', row 0: '2020-01-31' is not a valid date",
                "'n', row 0: 1.5 does not fit int64; round it",
            ],
            strict=True,
        ):
            assert part in line
        with pytest.raises(WordError, match="2 problems"):
            relation.insert([(1, 0.1, None, 1, True)])


def test_the_row_of_a_stream_is_the_row_of_all():
    table = pa.table({"x": [1.0, 2.0, 3.0, 4.5]})
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        relation = txn.create("r", "x: int64")
        for form in (table, table.to_reader(1), table.to_reader(2)):
            with pytest.raises(WordError, match="row 3: 4.5 does not fit int64"):
                relation.insert(form)
            assert len(relation) == 0


def test_rows_are_taken_while_another_thread_imports_pandas(monkeypatch):
    # as far as its import has come
    monkeypatch.setitem(sys.modules, "pandas", ModuleType("pandas"))
    columns = rows_as_columns([(1, 2), (3, 4)], Schema.parse("x: int64, y: int64"), False)
    assert [[*column] for column in columns] == [[1, 3], [2, 4]]
