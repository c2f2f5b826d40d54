"""The last chapters of the demo: Spark reads a view at two versions, its changes, and maintains one over cells."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import ivm

from ..spark.session import session
from .narrator import Narrator
from .over_cells import over_cells

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIEW = "departures"


def spark_reads(file: Path, folder: Path, tell: Narrator) -> bool:
    """Tell the chapter; return whether Spark's rows equal those of the store."""
    tell("starting Spark")
    with ivm.open(file, mode="r") as workspace, session("ivm demo") as spark:
        sound = _two_versions(spark, workspace, file, tell)
        newest = workspace.store.version
        reopened = workspace.store.diff(newest, newest - 1, "flight").read_all()  # the flights of the closed airport
        return over_cells(workspace, {"flight": reopened}, folder / "cells", spark, tell) and sound


def _two_versions(spark: "SparkSession", workspace: ivm.Workspace, file: Path, tell: Narrator) -> bool:
    newest = workspace.store.version
    tell.heading("9. Spark reads the store", 'spark.read.format("pagestore")')

    def read(**options: Any) -> "DataFrame":
        return spark.read.format("pagestore").options(relation=VIEW, **options).load(str(file))

    before, after = (sorted(map(tuple, read(versionAsOf=v).collect())) for v in (newest - 1, newest))
    changes = read(readChangeFeed=True, startingVersion=newest).groupBy("_change_type").count().collect()
    counts = {row["_change_type"]: row["count"] for row in changes}
    tell.grid(
        ("version", "rows of departures"),
        [(f"{newest - 1}", f"{len(before):,}"), (f"{newest}", f"{len(after):,}")],
    )
    told = " and ".join(f"{count:,} of {kind}" for kind, count in sorted(counts.items()))
    with workspace.at(newest - 1) as old:
        equal = before == sorted(old[VIEW]) and after == sorted(workspace[VIEW])
    equal = equal and counts.get("insert", 0) - counts.get("delete", 0) == len(after) - len(before)
    tell.say(f"The view's change feed has {told}. {'Equal' if equal else 'NOT EQUAL'} to what the store says.")
    return equal
