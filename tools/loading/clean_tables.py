"""From raw CSV to typed, sorted Parquet with pyarrow: which rows and columns a table takes from its raw file.

`tools/spark/pipeline.py` makes the same rows with Spark. The null policy of both: a row that lacks a value in
a column of the table is dropped, and so is one outside the table's bounds; duplicates become one row.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

MISSING = "NA"
ARROW_TYPES = {
    "bigint": pa.int64(),
    "double": pa.float64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
}


class Table(NamedTuple):
    """One table to make: `columns` maps its names, in order, to (raw column, SQL type)."""

    name: str
    raw: str
    columns: Mapping[str, tuple[str, str]]
    key: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]] = MappingProxyType({})  # raw column -> least, most
    missing: str | None = None  # take only rows that lack a value in this raw column

    def raw_types(self) -> dict[str, str]:
        """The raw columns that are read, and their SQL types."""
        types = dict(self.columns.values())
        return types | {
            column: "double" for column in (*self.bounds, *filter(None, [self.missing])) if column not in types
        }


class Counts(NamedTuple):
    """Rows of a raw file, and rows of the table made from it."""

    raw: int
    kept: int


def write_sorted(table: Table, raw: Path, out: Path) -> Counts:
    """Make one table with pyarrow alone, as a folder `out`/name with one sorted file and _SUCCESS."""
    types = table.raw_types()
    options = pyarrow.csv.ConvertOptions(
        include_columns=list(types),
        column_types={column: ARROW_TYPES[sql] for column, sql in types.items()},
        null_values=[MISSING],
        strings_can_be_null=True,
    )
    rows = pyarrow.csv.read_csv(raw / table.raw, convert_options=options)
    kept = rows
    for column, (least, most) in table.bounds.items():
        kept = kept.filter((pc.field(column) >= least) & (pc.field(column) <= most))
    if table.missing:
        kept = kept.filter(pc.field(table.missing).is_null())
    kept = pa.table({name: kept[column] for name, (column, _) in table.columns.items()}).drop_null()
    kept = kept.group_by(list(table.columns)).aggregate([]).sort_by([(name, "ascending") for name in table.key])
    folder = out / table.name
    folder.mkdir(parents=True)
    pq.write_table(kept, folder / "part-00000.zstd.parquet", compression="zstd")
    (folder / "_SUCCESS").touch()
    return Counts(len(rows), len(kept))
