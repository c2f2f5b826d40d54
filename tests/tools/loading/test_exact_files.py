"""Values of each kind, in files of each format, into columns of each type: all arrive exactly, or
the load is refused.

What is right tests/support/exact.py says, value by value, in plain Python; a value that has a place
in the column must not be refused either. The message names the column and, of files that have
lines, the line.
"""

import csv
import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagestore
from pagestore.values.types import Type
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.load import load
from tests.support.exact import Refused, read, spelt, taken
from tests.support.tables import plain

WANTED = [
    "int64", "uint64", "float64", "bool", "decimal(9,2)", "decimal(18,0)", "date", "time",
    "timestamp",
    "timestamp(Europe/Berlin)", "duration", "string", "bytes",
]  # fmt: skip
MICROSECOND = timedelta(microseconds=1)
MOMENT, DAY = datetime(1970, 1, 1), 86_400_000_000
WHOLE = [0, 7, -7, 2**53, 2**53 + 1, 2**63 - 1, -(2**63) + 1]
FLOATS = [0.0, 7.0, 0.5, -3.25, 0.1, 1e22, 5e-324, 2.0**63]
TEXTS = ["Ulm", "7", "7.0", "0x1F", "1e3", "true", "2020-01-31", "007", "12:30", "1_0", "ä"]
SOURCES: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "whole": (pa.int64(), lambda c: c.choice([*WHOLE, c.randrange(10**10)])),
    "unsigned": (pa.uint64(), lambda c: c.choice([0, 2**63, 2**64 - 2, 2**53 + 1])),
    "floats": (pa.float64(), lambda c: c.choice([*FLOATS, c.random() * 1e6])),
    "decimals": (
        pa.decimal128(20, 3),
        lambda c: Decimal(c.choice([7000, 7250, 1239, c.randrange(10**19)])).scaleb(-3),
    ),
    "booleans": (pa.bool_(), lambda c: c.random() < 0.5),
    "dates": (pa.date32(), lambda c: date(2020, 1, 1) + timedelta(c.randrange(9000))),
    "times": (pa.time64("us"), lambda c: time(c.randrange(24), 30, 0, c.choice([0, 5]))),
    "moments": (
        pa.timestamp("us"),
        lambda c: MOMENT + c.choice([0, DAY, c.randrange(10**15)]) * MICROSECOND,
    ),
    "zoned": (
        pa.timestamp("us", "UTC"),
        lambda c: MOMENT.replace(tzinfo=UTC) + c.randrange(10**15) * MICROSECOND,
    ),
    "durations": (pa.duration("us"), lambda c: c.randrange(-(10**14), 10**14) * MICROSECOND),
    "texts": (pa.string(), lambda c: c.choice(TEXTS)),
}


# --- files --------------------------------------------------------------------------------------


def write_json(
    path: Path, values: list[Any], kind: pa.DataType, listed: bool
) -> Callable[[Any, Type], Any]:
    def literal(value: Any) -> str:
        return spelt(value) if isinstance(value, int | float | Decimal) else json.dumps(str(value))

    rows = [f'{{"k": {row}, "v": {literal(value)}}}' for row, value in enumerate(values)]
    path.write_text("[" + ",\n".join(rows) + "]" if listed else "\n".join(rows))
    return lambda value, wanted: read(spelt(value), wanted, literal(value)[0] == '"')


def write_csv(
    path: Path, values: list[Any], kind: pa.DataType, quoted: bool
) -> Callable[[Any, Type], Any]:
    with open(path, "w", newline="") as out:
        writer = csv.writer(out, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL)
        writer.writerows([("k", "v"), *((row, spelt(value)) for row, value in enumerate(values))])
    return lambda value, wanted: read(spelt(value), wanted, None)


def write_parquet(
    path: Path, values: list[Any], kind: pa.DataType, _: bool
) -> Callable[[Any, Type], Any]:
    pq.write_table(_table(values, kind), path)
    return taken


def write_arrow(
    path: Path, values: list[Any], kind: pa.DataType, encoded: bool
) -> Callable[[Any, Type], Any]:
    table = _table(values, kind)
    table = table.set_column(1, "v", table["v"].dictionary_encode()) if encoded else table
    with pa.ipc.new_file(str(path), table.schema) as out:
        out.write_table(table)
    return taken


def _table(values: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"k": list(range(len(values))), "v": pa.array(values, kind)})


FORMATS = {"json": write_json, "csv": write_csv, "parquet": write_parquet, "arrow": write_arrow}


def right(values: list[Any], truth: Callable[[Any, Type], Any], wanted: Type) -> list[Any] | int:
    """What a column keeps of values, or the place of the first that it refuses."""
    found = []
    for place, value in enumerate(values):
        try:
            found.append(truth(value, wanted))
        except (Refused, ValueError):
            return place
    return found


def check(form: str, source: str, wanted: str, chance: random.Random, folder: Path) -> None:
    kind, draw = SOURCES[source]
    values = [draw(chance) for _ in range(chance.choice([1, 3, 30]))]
    path = folder / f"in.{form}"
    expected = right(
        values, FORMATS[form](path, values, kind, chance.random() < 0.5), Type.parse(wanted)
    )
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        txn.create("r", f"k: int64, v: {wanted}?", key="k")
        try:
            load(txn, "r", path, mode="append")
        except DatasetError as error:
            assert isinstance(expected, int), (values, str(error))
            assert ("column v" in str(error) and "line" in str(error)) or form in (
                "parquet",
                "arrow",
            ), str(error)
            return
        found = [plain(value) for _, value in sorted(txn["r"])]
        assert not isinstance(expected, int), (values[expected], found[expected])
        assert found == [plain(value) for value in expected]


@pytest.mark.parametrize("form", FORMATS)
def test_each_kind_into_each_column(form: str, tmp_path: Path) -> None:
    chance = random.Random(form)
    for source in SOURCES:
        for wanted in WANTED:
            check(form, source, wanted, chance, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(200))
def test_campaign(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for form in FORMATS:
        for source in SOURCES:
            for wanted in WANTED:
                check(form, source, wanted, chance, tmp_path)
