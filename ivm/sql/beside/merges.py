"""What SQL says of tables after a merge of branches: columns, defaults, indices and constraints.

    base    t (k, a)                     merged    t (k, a, d DEFAULT 4, e) CHECK (d > 0)
    theirs  t (k, a, d DEFAULT 4) CHECK (d > 0)
    ours    t (k, a, e)

Views stay on the branch that they were made on. Constraints are of their tables, and come along.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ivm.errors import ConstraintError
from ivm.lang.program import Program
from ivm.names import CATALOG, tables_of_sql
from ivm.sql.catalog import Catalog
from ivm.sql.constraints import as_rules, violated
from ivm.sql.errors import SqlError
from ivm.sql.tables import default_value
from ivm.sql.types import parsed

Said = Mapping[str, Any]


def merged_catalog(txn: Any, base: Said, theirs: Said, ours: Said) -> str:
    """Return what SQL says of a store, merged from three versions; `txn` has merged relations."""
    merged = {
        kind: _either(both, *(said.get(kind, {}) for said in (base, theirs, ours)))
        for kind, both in (("tables", partial(_merged_table, txn)), ("types", None))
    }
    return json.dumps({"views": {}, "kept": {}} | {**ours} | merged)


def default_of(source: Any, name: str, column: str) -> Any:
    """Return the value of the DEFAULT of a table's column; None if there is none. Raises SqlError
    for one that is computed.
    """
    for saved in tables_of_sql(source.properties).get(name, {}).get("columns", ()):
        if saved["name"] == column:
            return default_value(saved["default"], parsed(saved["type"]))
    return None


def constraints_again(txn: Any, name: str) -> Program | None:
    """Return the rules of the constraints that the catalog says a table has, and note them there;
    None if there are none.
    """
    catalog = Catalog(txn)
    trees, texts = as_rules(catalog, name, catalog.constraints(name))
    catalog.tables[name]["constraints"] = texts
    txn.properties[CATALOG] = catalog.saved()
    return trees.program if texts else None


@contextmanager
def said_of(txn: Any, name: str) -> Iterator[None]:
    """Let errors of a table's constraints be in SQL's words."""
    try:
        yield
    except ConstraintError as error:
        catalog = Catalog(txn)
        texts = catalog.tables[name]["constraints"]
        if error.constraint not in texts:
            raise
        columns = [column.name for column in catalog.columns(name)]
        raise SqlError(violated(name, texts[error.constraint], error, columns)) from error


def _either(
    both: Callable[..., Any] | None, base: Said, theirs: Said, ours: Said
) -> dict[str, Any]:
    """Return entries as either side changed them; `both` merges one that both changed, else it is
    as theirs has it.
    """
    merged = {**ours}
    for name in dict.fromkeys([*base, *theirs]):
        was, new, here = (side.get(name) for side in (base, theirs, ours))
        if new not in (was, here):
            merged[name] = both(name, was, new, here) if both and here != was and new else new
    return {name: entry for name, entry in merged.items() if entry is not None}


def _merged_table(txn: Any, name: str, was: Said | None, new: Said, here: Said | None) -> Said:
    """Return what SQL says of a table that both sides changed, by its merged columns."""
    if name not in txn or here is None:
        return new
    sides = was or {}, new, here
    columns, indices, demands = (
        _either(None, *map(find, sides))
        for find in (
            lambda side: {column["name"]: column for column in side.get("columns", ())},
            lambda side: side.get("indices", {}),
            lambda side: {text: text for text in side.get("constraints", {}).values()},
        )
    )
    if {*demands} == {*here.get("constraints", {}).values()}:
        demands = here.get("constraints", {})
    shown = [columns[name] for name in txn[name].schema.names if name in columns]
    return {**new, **here, "columns": shown, "indices": indices, "constraints": demands}
