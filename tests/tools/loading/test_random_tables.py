"""Random tables with nulls, of all types, go in by every door in every mode and out by every other,
in each version.

What comes out is what a dict, pandas and DuckDB (tests/support/tables.py) make of the same edits.
Doors of libraries that are not installed are skipped, and a test says which.
"""

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from pagestore.errors import SchemaError
from pagestore.values.types import Schema
from pagestore_tools.cli import main, rows
from pagestore_tools.loading import opened
from tests.support.tables import (
    KEY,
    KINDS,
    Row,
    Truths,
    is_installed,
    plain,
    plain_rows,
    random_rows,
    random_schema,
    rows_of,
    table_of,
)

SAMPLES, STEPS = 12, 6
LIBRARIES = [name for name in ("pandas", "polars", "duckdb", "pyspark") if is_installed(name)]


@pytest.mark.parametrize("name", ["pandas", "polars", "duckdb", "pyspark"])
def test_the_doors_of_a_library(name: str) -> None:
    """Which is skipped, by its name, where a library is not installed, and so the others say
    nothing of it.
    """
    pytest.importorskip(name)
    assert name in LIBRARIES


# --- doors in, from Python ----------------------------------------------------------------------


def from_pandas(table: pa.Table) -> Any:
    import pandas

    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def from_polars(table: pa.Table) -> Any:
    import polars

    return polars.from_arrow(table)


def from_duckdb(table: pa.Table) -> Any:
    import duckdb

    return duckdb.from_arrow(table)


PYTHON: dict[str, Callable[[pa.Table], Any]] = {
    "tuples": lambda table: [*zip(*(column.to_pylist() for column in table.columns), strict=True)],
    "dicts": lambda table: table.to_pylist(),
    "columns": lambda table: table.to_pydict(),
    "table": lambda table: table,
    "other order": lambda table: table.select(table.column_names[::-1]),
    "chunks": lambda table: pa.Table.from_batches(table.to_batches(3), table.schema),
    "reader": lambda table: table.to_reader(3),
    "dataset": pa.dataset.dataset,
    "scanner": lambda table: pa.dataset.dataset(table).scanner(),
    "pandas": from_pandas,
    "polars": from_polars,
    "duckdb": from_duckdb,
}


def edit_from_python(file: Path, mode: str, table: pa.Table, door: str, on: list[str]) -> None:
    with pagestore.open(file) as store, store.transaction() as txn:
        if mode == "replace":
            txn["r"].clear()
        method = {"delete": txn["r"].delete, "set": txn["r"].set}.get(mode, txn["r"].insert)
        given = table.select(on)
        if given.num_rows or door not in ("tuples", "dicts", "columns"):
            method(PYTHON[door](given))


# --- doors in, by files -------------------------------------------------------------------------


def write(form: str, table: pa.Table, path: Path) -> None:
    """A file as `print` writes it."""
    with open(path, "wb") as out:
        rows.WRITERS[form](out, table.to_reader(7), lambda count: None)


FILES = {"parquet": rows.PARQUET, "csv": rows.CSV, "jsonl": rows.JSON, "arrow": rows.ARROW}
OPTIONS = {"insert": "--append", "set": "--upsert", "replace": "--replace"}


def load(file: Path, mode: str, table: pa.Table, form: str, on: list[str]) -> None:
    table = table.select(on)
    path = file.parent / f"in.{form}"
    write(FILES[form], table, path)
    option = OPTIONS.get(mode, "--delete")
    assert (
        main.pagestore(["load", str(file), "r", str(path), option, "--empty-is-null", "--quiet"])
        == 0
    )


# --- doors out ----------------------------------------------------------------------------------


def through_python(relation: pagestore.Relation) -> dict[str, list[Row]]:
    """The rows as they come out of each method that gives them."""
    names = relation.schema.names
    found = {
        "iterated": plain_rows(relation),
        "arrow": rows_of(relation.to_arrow()),
        "batches": rows_of(pa.Table.from_batches(relation.batches(5), relation.schema.arrow)),
        "stream": rows_of(pa.RecordBatchReader.from_stream(relation).read_all()),
        "backwards": plain_rows(reversed(relation)),
    }
    if "pandas" in LIBRARIES:
        found["pandas"] = plain_rows(relation.to_pandas().itertuples(index=False))
    if "polars" in LIBRARIES:
        found["polars"] = plain_rows(relation.to_polars().select(names).rows())
    if "duckdb" in LIBRARIES:
        import duckdb

        found["duckdb"] = rows_of(relation.to_duckdb().to_arrow_table())
        found["duckdb by name"] = rows_of(duckdb.sql("from relation").to_arrow_table())
    return found


def read_csv(path: Path, schema: Schema) -> list[Row]:
    """A CSV file that was printed; an empty text is a null, as there is none in what the tests
    draw.
    """
    with open(path, newline="") as source:
        head, *lines = csv.reader(source)
    assert head == [*schema.names]
    return sorted(map(tuple, lines))


def spelt_rows(expected: list[Row], schema: Schema, path: Path) -> list[Row]:
    """What a CSV file of the rows has, as Arrow spells values."""
    write(rows.CSV, table_of(expected, schema), path)
    return read_csv(path, schema)


def through_files(
    file: Path, schema: Schema, expected: list[Row], command: Callable, words: list[str]
) -> None:
    """Print to each format, and read it again."""
    out = {form: file.parent / f"out.{form}" for form in ("parquet", "arrow", "csv", "json", "txt")}
    for path in out.values():
        assert command([*words, "-o", str(path), "--quiet"]) == 0
    assert rows_of(pq.read_table(out["parquet"])) == expected
    assert rows_of(pa.ipc.open_file(out["arrow"]).read_all()) == expected
    assert read_csv(out["csv"], schema) == spelt_rows(expected, schema, file.parent / "truth.csv")
    lines = [json.loads(line) for line in out["json"].read_text().splitlines()]
    assert [set(line) for line in lines] == [set(schema.names)] * len(expected)
    for name, kind in zip(schema.names, schema.arrow.types, strict=True):
        values = [row[schema.names.index(name)] for row in expected]
        assert sum(line[name] is None for line in lines) == values.count(None)
        if kind in (pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.bool_()):
            assert sorted(map(repr, values)) == sorted(repr(line[name]) for line in lines)
    head, *body = out["txt"].read_text().splitlines()
    assert len(body) == len(expected) and all(name in head for name in schema.names)


def through_rules(file: Path, schema: Schema, expected: list[Row], name: str) -> None:
    """A question that names a column has the rows in which it is not a null, as pandas and
    DuckDB drop them.
    """
    at = [schema.names.index(one) for one in (*KEY, name)]
    there = plain_rows([row[i] for i in at] for row in expected if row[at[-1]] is not None)
    column = f"r:{name}" if name.isalpha() else f"`r:{name}`"
    question = f"q(c, i, v) <- {column}[c, i] = v."
    with ivm.open(file, mode="r") as workspace:
        if "uint64?" in (KINDS[one][0] for one in schema.names):
            with pytest.raises(
                SchemaError, match="rules cannot read 'r': its column many is uint64"
            ):
                workspace.query(question)
            return
        assert rows_of(workspace.query(question).to_arrow()) == there
    out = file.parent / "q.parquet"
    assert main.ivm(["query", str(file), question, "-o", str(out), "--quiet"]) == 0
    assert rows_of(pq.read_table(out)) == there


def changes(before: list[Row], after: list[Row]) -> list[Row]:
    """Rows that came and went, with what became of them."""
    gone = [("delete", *row) for row in before if row not in after]
    return plain_rows([*gone, *(("insert", *row) for row in after if row not in before)])


def through_versions(
    file: Path, schema: Schema, kept: dict[int, list[Row]], chance: random.Random
) -> None:
    """Versions, differences, and the feed of changes, here and after a dump."""
    dumped, again = file.parent / "r.dump", file.parent / "again.pages"
    assert main.pagestore(["dump", str(file), "-o", str(dumped), "--quiet", "--all-versions"]) == 0
    assert main.pagestore(["restore", str(dumped), str(again), "--quiet"]) == 0
    for path in (file, again):
        with pagestore.open(path, mode="r") as store:
            assert store.check() == []
            for version, expected in kept.items():
                assert rows_of(store.at(version)["r"].to_arrow()) == expected
            one, other = chance.choice([*kept]), chance.choice([*kept])
            found = store.diff(one, other, "r").read_all().select(["_change_type", *schema.names])
            assert rows_of(found) == changes(kept[one], kept[other])
    if "pyspark" in LIBRARIES:
        assert fed(file, schema, min(kept), max(kept)) == [
            (version, *row)
            for version in sorted(kept)[1:]
            for row in changes(kept[version - 1], kept[version])
        ]


def fed(file: Path, schema: Schema, first: int, last: int) -> list[Row]:
    """What the change feed of Spark's data source tells, read without Spark."""
    from pagestore_tools.spark.source.source import PagestoreSource

    asked = {
        "path": str(file),
        "relation": "r",
        "readChangeFeed": "true",
        "startingVersion": str(first + 1),
    }
    source = PagestoreSource({**asked, "endingVersion": str(last)})
    reader = source.reader(source.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    if not batches:
        return []
    table = pa.Table.from_batches(batches).select(
        ["_commit_version", "_change_type", *schema.names]
    )
    return rows_of(table)


# --- all of them --------------------------------------------------------------------------------


def some_rows(chance: random.Random, truths: Truths, mode: str) -> list[Row]:
    """Rows for an edit: some of keys that exist, some that exist themselves."""
    fresh = random_rows(chance, truths.schema, chance.choice([0, 3, 25]))
    held = chance.sample([*truths.held.values()], len(truths.held) // 3)
    if mode == "insert":  # a file's key must not be there with other values
        fresh = [row for row in fresh if truths.key(row) not in truths.held]
    return [*{truths.key(row): row for row in [*fresh, *held]}.values()]


def some_columns(chance: random.Random, schema: Schema) -> list[str]:
    """Columns by which rows are deleted: all, the key, its beginning, or any."""
    some = chance.sample(schema.names, chance.randrange(1, len(schema.names) + 1))
    return [*chance.choice([schema.names, KEY, KEY[:1], some, some])]


def as_spelt(table: pa.Table, form: str) -> list[Row]:
    """The rows that a file tells of: CSV and JSON have bytes as hexadecimal digits."""
    found = table.to_pylist()
    for row in found if form in ("csv", "jsonl") else ():
        if row.get("raw") is not None:
            row["raw"] = row["raw"].hex().encode()
    return [tuple(map(plain, row.values())) for row in found]


def follow(seed: int, folder: Path, steps: int = STEPS) -> None:
    chance, file = random.Random(seed), folder / "s.pages"
    schema = random_schema(chance)
    truths = Truths(schema)
    with pagestore.open(file, sync="off", retain="all") as store, store.transaction() as txn:
        txn.create("r", schema)
    kept = {1: truths.rows()}
    doors = [
        door for door in PYTHON if door not in ("pandas", "polars", "duckdb") or door in LIBRARIES
    ]
    for _ in range(steps):
        mode = chance.choice(["insert", "set", "replace", "delete", "delete"])
        table = table_of(some_rows(chance, truths, mode), schema)
        on = some_columns(chance, schema) if mode == "delete" else [*schema.names]
        by_file = (
            chance.random() < 0.5
            or not {*KEY} <= {*on}
            or len(on) not in (len(KEY), len(schema.names))
        )
        door = chance.choice([*FILES] if by_file else doors)
        if door == "duckdb" and "lag" in schema.names:
            continue  # an interval of DuckDB, which has months, is not a duration
        if mode == "insert" and door in ("csv", "jsonl") and "raw" in schema.names:
            continue  # what is there would have other bytes
        if by_file:
            load(file, mode, table, door, on)
        else:
            edit_from_python(file, mode, table, door, on)
        truths.change(mode, as_spelt(table, door), on)
        with pagestore.open(file, mode="r") as store:
            expected, relation = truths.rows(), store.snapshot()["r"]
            kept[store.version] = expected
            for way, found in through_python(relation).items():
                assert found == expected, (mode, door, way)
    through_files(file, schema, expected, main.pagestore, ["print", str(file), "r"])
    for name in (name for name in schema.names if name not in KEY):
        through_rules(file, schema, expected, name)
    through_versions(file, schema, kept, chance)


@pytest.mark.parametrize("seed", range(SAMPLES))
def test_in_by_every_door_and_out_by_all(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "BATCH_ROWS", 7)
    follow(seed, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(SAMPLES, 500))
def test_campaign(seed: int, tmp_path: Path) -> None:
    follow(seed, tmp_path, 12)
