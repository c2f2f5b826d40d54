"""The last chapters of the demo: Spark reads a view at two versions, its changes, and maintains one
over cells.

The demo's view over four cells: how many flights each airport has had by planes of each maker.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import ivm
from ivm.spark import Cells
from ivm.spark.changes import take_changes

from ..spark.session import session
from .narrator import Narrator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


VIEW = "departures"


def spark_reads(file: Path, folder: Path, tell: Narrator) -> bool:
    """Tell the chapter; return whether Spark's rows equal those of the store."""
    tell("starting Spark")
    with ivm.open(file, mode="r") as workspace, session("ivm demo") as spark:
        sound = _two_versions(spark, workspace, file, tell)
        newest = workspace.store.version
        # the flights of the closed airport
        reopened = workspace.store.diff(newest, newest - 1, "flight").read_all()
        return over_cells(workspace, {"flight": reopened}, folder / "cells", spark, tell) and sound


def _two_versions(
    spark: "SparkSession", workspace: ivm.Workspace, file: Path, tell: Narrator
) -> bool:
    newest = workspace.store.version
    tell.heading("9. Spark reads the store", 'spark.read.format("pagestore")')

    def read(**options: Any) -> "DataFrame":
        return spark.read.format("pagestore").options(relation=VIEW, **options).load(str(file))

    before, after = (
        sorted(map(tuple, read(versionAsOf=v).collect())) for v in (newest - 1, newest)
    )
    changes = (
        read(readChangeFeed=True, startingVersion=newest).groupBy("_change_type").count().collect()
    )
    counts = {row["_change_type"]: row["count"] for row in changes}
    tell.grid(
        ("version", "rows of departures"),
        [(f"{newest - 1}", f"{len(before):,}"), (f"{newest}", f"{len(after):,}")],
    )
    told = " and ".join(f"{count:,} of {kind}" for kind, count in sorted(counts.items()))
    with workspace.at(newest - 1) as old:
        equal = before == sorted(old[VIEW]) and after == sorted(workspace[VIEW])
    equal = equal and counts.get("insert", 0) - counts.get("delete", 0) == len(after) - len(before)
    tell.say(
        f"The view's change feed has {told}. {'Equal' if equal else 'NOT EQUAL'} to what the store "
        f"says."
    )
    return equal


CELLS = 4
CELL_VIEW = "made[d, name] = n <- agg<<n = count()>> flight(_, _, _, p, _, d, _), maker[p] = name."


def over_cells(
    workspace: ivm.Workspace,
    changes: Mapping[str, pa.Table],
    folder: Path,
    spark: "SparkSession | None",
    tell: Narrator,
) -> bool:
    """Maintain a view over cells through a batch of changes; return whether its rows equal those of
    one store.

    `workspace` has the relations flight and maker, `changes` are tables of them with
    `_change_type`.
    """
    tell.heading(
        "10. A view over four cells", "HyperCube shards" + (", tasks of Spark" if spark else "")
    )
    tables = {name: workspace[name].to_arrow() for name in ("flight", "maker")}
    text = "\n".join(str(workspace.predicates[name]) for name in tables)
    with (
        ivm.open(":memory:") as one,
        Cells.create(folder, f"{text}\n{CELL_VIEW}", CELLS, spark, tables) as cells,
    ):
        one.install(f"{text}\n{CELL_VIEW}")
        applied = cells.apply(1, changes)
        with one.store.transaction() as txn:
            for name, rows in tables.items():
                txn[name].insert(rows)
            for name, table in changes.items():
                take_changes(txn[name], table, list(txn[name].schema.names))
        equal = [*cells["made"]] == sorted(one["made"])
        tell.grid(
            ("cell", "rows received"),
            [(f"{n}", f"{rows:,}") for n, rows in sorted(applied.received.items())],
        )
        tell.say(
            f"{len(cells['made']):,} rows of the view: {'equal' if equal else 'NOT EQUAL'} to "
            f"those of one store."
        )
        return equal
