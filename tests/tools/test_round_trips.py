"""Random tables with nulls go in by every door and out by every other, equal to what pandas and
DuckDB make of them.

RULES has what becomes of nulls: their rows are dropped, or they are kept in columns of values, or
filled.
"""

import json
import random
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from pagestore.values.types import Type
from pagestore_tools.cli import main

TYPES = {
    "id": "int64", "name": "string", "pieces": "int64", "price": "decimal(9,2)", "day": "date",
    "ok": "bool",
    "score": "float64",
}  # fmt: skip
SCHEMA = pa.schema([(name, Type.parse(kind).arrow) for name, kind in TYPES.items()])
RULES = {"drop": lambda table: table.drop_null(), "keep": lambda table: table}
MARKS = {"drop": "", "keep": "?"}  # of the types of values


def random_table(chance: random.Random, rows: int) -> pa.Table:
    def some(value: object) -> object:
        return None if chance.random() < 0.1 else value

    return pa.table(
        {
            "id": chance.sample(range(10 * rows), rows),
            "name": [
                "".join(chance.choices('aß日,;"\n ', k=chance.randrange(1, 5))) + "x"
                for _ in range(rows)
            ],
            "pieces": [some(chance.randrange(-(2**62), 2**62)) for _ in range(rows)],
            "price": [
                some(Decimal(chance.randrange(-(10**9) + 1, 10**9)) / 100) for _ in range(rows)
            ],
            "day": [
                some(date(2000, 1, 1) + timedelta(chance.randrange(9000))) for _ in range(rows)
            ],
            "ok": [some(chance.random() < 0.5) for _ in range(rows)],
            "score": [some(chance.random() * 10 ** chance.randrange(-9, 9)) for _ in range(rows)],
        },
        SCHEMA,
    )


def write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()))


def write_arrow(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(str(path), table.schema) as out:
        out.write_table(table, max_chunksize=13)


WRITERS = {
    "parquet": pq.write_table,
    "csv": pyarrow.csv.write_csv,
    "jsonl": write_json,
    "arrow": write_arrow,
}
READERS = {
    "parquet": pq.read_table,
    "csv": lambda path: pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(column_types=SCHEMA),
    ),
    "json": lambda path: pyarrow.json.read_json(path),
    "arrow": lambda path: pa.ipc.open_file(path).read_all(),
}


def in_order(table: pa.Table) -> list[dict]:
    """The rows by their key; of JSON with the types that it lacks."""
    rows = table.sort_by("id").to_pylist()
    for row in rows:
        row["price"] = Decimal(row["price"]) if isinstance(row["price"], str) else row["price"]
        row["day"] = row["day"].date() if hasattr(row["day"], "date") else row["day"]
    return rows


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("form", WRITERS)
def test_in_by_a_file_and_out_by_all(form: str, rule: str, tmp_path: Path) -> None:
    table = random_table(random.Random(form), 300)
    WRITERS[form](table, tmp_path / f"in.{form}")
    file = tmp_path / "s.pages"
    with pagestore.open(file) as store, store.transaction() as txn:
        marked = {name: kind + MARKS[rule] * (name != "id") for name, kind in TYPES.items()}
        txn.create("r", ", ".join(f"{name}: {kind}" for name, kind in marked.items()), key="id")
    assert (
        main.pagestore(
            ["load", str(file), "r", str(tmp_path / f"in.{form}"), "--append", "--nulls", rule]
        )
        == 0
    )
    expected = in_order(RULES[rule](table))
    for out in READERS:
        assert (
            main.pagestore(["print", str(file), "r", "-o", str(tmp_path / f"out.{out}"), "--quiet"])
            == 0
        )
        assert in_order(READERS[out](tmp_path / f"out.{out}")) == expected
    with pagestore.open(file, mode="r") as store:
        relation = store.snapshot()["r"]
        assert in_order(relation.to_arrow()) == in_order(
            pa.Table.from_pylist(relation.to_arrow().to_pylist(), SCHEMA)
        )
        assert in_order(relation.to_arrow()) == expected
        against_pandas(relation, RULES[rule](table))
        against_duckdb(relation, RULES[rule](table))
        against_polars(relation, RULES[rule](table))


def against_pandas(relation: pagestore.Relation, table: pa.Table) -> None:
    pandas = pytest.importorskip("pandas")
    frame = table.to_pandas(types_mapper={pa.int64(): pandas.Int64Dtype()}.get).sort_values("id")
    ours = relation.to_pandas().sort_values("id")
    for name in TYPES:
        one, other = (
            [None if pandas.isna(v) else v for v in rows[name].tolist()] for rows in (ours, frame)
        )
        assert one == other


def against_duckdb(relation: pagestore.Relation, given: pa.Table) -> None:
    duckdb = pytest.importorskip("duckdb")
    expected = duckdb.sql("from given order by id").fetchall()
    assert duckdb.sql("from relation order by id").fetchall() == expected
    assert relation.to_duckdb().order("id").fetchall() == expected


def against_polars(relation: pagestore.Relation, given: pa.Table) -> None:
    polars = pytest.importorskip("polars")
    expected = polars.from_arrow(given).sort("id").rows()
    assert relation.to_polars().sort("id").rows() == expected
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        again = txn.create("r", relation.schema)
        again.insert(polars.from_arrow(given))
        assert again.to_polars().sort("id").rows() == expected


def test_a_view_goes_out_as_a_relation_does(tmp_path: Path) -> None:
    file = tmp_path / "s.pages"
    table = random_table(random.Random(2), 200).select(["id", "price"])
    pq.write_table(table, tmp_path / "in.parquet")
    assert (
        main.pagestore(
            [
                "load",
                str(file),
                "paid",
                str(tmp_path / "in.parquet"),
                "--key",
                "id",
                "--nulls",
                "drop",
            ]
        )
        == 0
    )
    with ivm.open(file) as ws:
        ws.install("paid[i] = p -> int(i), decimal(9,2)(p). high[i] = p <- paid[i] = p, p > 0.00.")
    assert main.ivm(["print", str(file), "high", "-o", str(tmp_path / "out.parquet")]) == 0
    found = pq.read_table(tmp_path / "out.parquet")
    assert [*zip(*found.to_pydict().values(), strict=True)] == sorted(
        (row["id"], row["price"]) for row in table.drop_null().to_pylist() if row["price"] > 0
    )
