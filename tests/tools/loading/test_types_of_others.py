"""Parquet of Spark and DuckDB: types that Parquet's own do not tell are those that were meant,
or refused by name.
"""

import datetime as dt
import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagestore
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.dataset import Reading
from pagestore_tools.loading.load import load

MOMENT = dt.datetime(2024, 1, 2, 3, 4, 5, 678)


def by_spark(file: Path, columns: dict[str, tuple[str, pa.Array]], **options: bool) -> Path:
    """Write columns as Spark does, with its types in the footer."""
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, (kind, _) in columns.items()
    ]
    note = json.dumps({"type": "struct", "fields": fields})
    table = pa.table({name: array for name, (_, array) in columns.items()})
    pq.write_table(
        table.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": note}),
        file,
        **options,
    )
    return file


def loaded(file: Path, columns: tuple[str, ...] = ()) -> tuple[str, list[tuple]]:
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        load(txn, "r", file, key=["id"], reading=Reading(columns=columns))
        return str(txn["r"].schema), [*txn["r"]]


@pytest.mark.parametrize("int96", [True, False])
def test_timestamps_of_spark_are_moments(int96: bool, tmp_path: Path) -> None:
    moments = pa.array([MOMENT, None], pa.timestamp("us"))
    columns = {
        "id": ("long", pa.array([1, 2])),
        "t": ("timestamp", moments if int96 else moments.cast(pa.timestamp("us", "UTC"))),
        "i": ("interval day to second", pa.array([-5_000_000, None])),
    }  # fmt: skip
    if not int96:
        columns["n"] = ("timestamp_ntz", moments)
    file = by_spark(tmp_path / "a.parquet", columns, use_deprecated_int96_timestamps=int96)
    schema, rows = loaded(file)
    assert schema == "id: int64, t: timestamp(UTC)?, i: duration?" + ", n: timestamp?" * (not int96)
    assert rows[0][:3] == (1, MOMENT.replace(tzinfo=dt.UTC), dt.timedelta(seconds=-5))
    assert rows[1][1:] == (None,) * (len(columns) - 1)


def test_intervals_and_variants_are_refused_by_name(tmp_path: Path) -> None:
    variant = pa.array([{"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}])
    for kind, array, said in [
        (
            "interval year to month",
            pa.array([14], pa.int32()),
            "column x is an interval of months: write it as a number",
        ),
        ("variant", variant, "column x is a VARIANT: take out its values, or write it as text"),
    ]:
        file = by_spark(tmp_path / "a.parquet", {"id": ("long", pa.array([1])), "x": (kind, array)})
        with pytest.raises(DatasetError, match=said):
            loaded(file)
        assert loaded(file, ("id",)) == ("id: int64", [(1,)])


def test_intervals_and_variants_of_duckdb_are_refused_by_name(tmp_path: Path) -> None:
    for value, said in ("INTERVAL 1 MONTH", "an INTERVAL"), ("{'a': 1}::VARIANT", "a VARIANT"):
        duckdb.execute(f"COPY (SELECT 1 AS id, {value} AS x) TO '{tmp_path}/a.parquet'")
        with pytest.raises(DatasetError, match=f"column x is {said}"):
            loaded(tmp_path / "a.parquet")
        assert loaded(tmp_path / "a.parquet", ("id",)) == ("id: int64", [(1,)])
