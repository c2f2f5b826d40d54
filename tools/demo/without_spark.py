"""Prepare the demo's tables by pyarrow alone, without Java: the same rows as by Spark.

Of recipes it supports what the demo needs: columns with types, bounds, nulls that drop their rows, duplicates.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ..loading.manifest import write_manifest
from ..spark.report import Report
from .flights import MISSING, Table


def prepare(table: Table, raw: Path, out: Path) -> Report:
    """Make one table as a folder `out`/name with one sorted file and a manifest."""
    recipe, folder = table.recipe, out / table.name
    report = Report(table.name, str(folder), str(out / f"{table.name}.quarantine"))
    rows = wanted = _read(table, raw)
    if table.choice:
        wanted = rows.filter(table.choice.expression)
    kept = typed = pa.table({name: wanted[one.source] for name, one in recipe.columns.items()})
    for name, one in recipe.columns.items():
        if one.least is not None and one.most is not None:
            low, high = (pa.scalar(bound).cast(one.type.arrow) for bound in (one.least, one.most))
            inside = pc.and_(pc.greater_equal(kept[name], low), pc.less_equal(kept[name], high))
            kept = kept.filter(pc.fill_null(inside, True))
    whole = kept.drop_null()
    distinct = whole.group_by(list(recipe.columns)).aggregate([])
    report.raw, report.unwanted = len(rows), len(rows) - len(wanted)
    report.quarantined, report.dropped = len(typed) - len(kept), len(kept) - len(whole)
    report.duplicates = len(whole) - len(distinct)
    folder.mkdir(parents=True)
    ordered = distinct.sort_by([(name, "ascending") for name in recipe.key])
    pq.write_table(ordered, folder / "part-00000.zstd.parquet", compression="zstd")
    report.take(write_manifest(folder, table.name, recipe.key, {n: one.type for n, one in recipe.columns.items()}))
    return report


def _read(table: Table, raw: Path) -> pa.Table:
    """Return the typed columns of the raw file that the table uses."""
    types = {one.source: one.type.arrow for one in table.recipe.columns.values()}
    chosen = dict.fromkeys(table.choice.columns, pa.int64()) if table.choice else {}
    options = pyarrow.csv.ConvertOptions(
        include_columns=[*{**types, **chosen}],
        column_types={**chosen, **types},
        null_values=[MISSING],
        strings_can_be_null=True,
    )
    return pyarrow.csv.read_csv(raw / table.raw, convert_options=options)
