"""The demo's view over four cells: how many flights each airport has had by planes of each maker."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import ivm
from ivm.spark import Cells
from ivm.spark.changes import take_changes

from .narrator import Narrator

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CELLS = 4
VIEW = "made[d, name] = n <- agg<<n = count()>> flight(_, _, _, p, _, d, _), maker[p] = name."


def over_cells(
    workspace: ivm.Workspace,
    changes: Mapping[str, pa.Table],
    folder: Path,
    spark: "SparkSession | None",
    tell: Narrator,
) -> bool:
    """Maintain a view over cells through a batch of changes; return whether its rows equal those of one store.

    `workspace` has the relations flight and maker, `changes` are tables of them with `_change_type`.
    """
    tell.heading("10. A view over four cells", "HyperCube shards" + (", tasks of Spark" if spark else ""))
    tables = {name: workspace[name].to_arrow() for name in ("flight", "maker")}
    text = "\n".join(str(workspace.predicates[name]) for name in tables)
    with ivm.open(":memory:") as one, Cells.create(folder, f"{text}\n{VIEW}", CELLS, spark, tables) as cells:
        one.install(f"{text}\n{VIEW}")
        applied = cells.apply(1, changes)
        with one.store.transaction() as txn:
            for name, rows in tables.items():
                txn[name].insert(rows)
            for name, table in changes.items():
                take_changes(txn[name], table, list(txn[name].schema.names))
        equal = [*cells["made"]] == sorted(one["made"])
        tell.grid(("cell", "rows received"), [(f"{n}", f"{rows:,}") for n, rows in sorted(applied.received.items())])
        tell.say(f"{len(cells['made']):,} rows of the view: {'equal' if equal else 'NOT EQUAL'} to those of one store.")
        return equal
