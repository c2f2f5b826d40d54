"""Statements on branches, and rows of older versions in a query: `t FOR VERSION AS OF 3`,
`t AT (VERSION => 3)`, and `changes(v, 3, 7)`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError, nearest
from ivm.sql.rules import Column
from ivm.sql.types import VARCHAR
from ivm.wide import Wide, changes, read
from pagestore.errors import PagestoreError
from pagestore.host import Store

if TYPE_CHECKING:
    import pyarrow as pa

CHANGE = Column("_change_type", VARCHAR, False)  # "insert" or "delete"


BRANCH = re.compile(
    r"""(?P<action>create|drop|merge|rebase)\s+branch\s+(?P<name>"[^"]+"|'[^']+'|\w+)
    (?:\s+(?P<word>from|into|onto)\s+(?P<other>"[^"]+"|'[^']+'|\w+))?
    (?:\s+on\s+conflict\s+(?P<rule>\w+))?""",
    re.IGNORECASE | re.VERBOSE,
)
# the word before what else is named
TAKES = {"create": "from", "drop": None, "merge": "into", "rebase": "onto"}


def run_branch(store: Store, said: dict[str, str | None], node: exp.Expr) -> None:
    """CREATE BRANCH a [FROM b], DROP BRANCH a, MERGE BRANCH a [INTO b] [ON CONFLICT rule], and
    REBASE BRANCH a [ONTO b] [ON CONFLICT rule].

    Raises SqlError for parts that a statement does not have, or for what the store refuses.
    """
    action = str(said["action"]).lower()
    name, other = ((said[part] or "").strip("\"'") for part in ("name", "other"))
    if (said["word"] or TAKES[action] or "").lower() != (TAKES[action] or "") or (
        said["rule"] and action not in ("merge", "rebase")
    ):
        raise SqlError(
            "write CREATE BRANCH a FROM b, DROP BRANCH a, MERGE BRANCH a INTO b ON CONFLICT ours, "
            "or REBASE BRANCH a ONTO b ON CONFLICT ours",
            node,
        )
    try:
        if action == "create":
            start = int(other) if other.isdigit() else other
            store.branch(name, None if said["other"] is None else start)
        elif action == "drop":
            store.delete_branch(name)
        else:
            do = store.merge if action == "merge" else store.rebase
            do(name, other or None, said["rule"] and said["rule"].lower())
    except PagestoreError as error:
        raise SqlError(str(error), node) from error


def version_of(table: exp.Table) -> exp.Expr | None:
    """Return the version that a table of a query is read in; None for the newest."""
    version: exp.Expr | None = table.args.get("version") or table.args.get("when")
    return version


def is_changes(table: exp.Table) -> bool:
    """Return whether a FROM names `changes(view, 3, 7)`."""
    return isinstance(table.this, exp.Anonymous) and table.this.name.lower() == "changes"


def _number(node: exp.Expr, where: exp.Expr) -> int | str:
    if not isinstance(node, exp.Literal):
        raise SqlError("a version is a number, or the name of a tag or branch as a text", where)
    return str(node.this) if node.is_string else int(node.this)


def known(catalog: Catalog, name: str, node: exp.Expr) -> str:
    """Return the stored name of a table or a kept view.  Raises SqlError."""
    table = catalog.find(name)
    if table is None or (table not in catalog.source and table not in catalog.kept):
        raise SqlError(f"no table or kept view {name} exists{nearest(name, catalog.names())}", node)
    return table


def rows_of(
    store: Store, catalog: Catalog, table: exp.Table, version: exp.Expr
) -> tuple[list[Column], pa.Table]:
    """Return the columns and the stored rows of a table in an older version.  Raises SqlError."""
    kept = known(catalog, table.name, table)
    with store.at(_number(version.expression, table)) as snap:
        if read(snap, kept) is None:
            raise SqlError(f"{kept} does not exist in that version", table)
        return stored(catalog, snap, kept)


def stored(catalog: Catalog, source: Any, name: str) -> tuple[list[Column], pa.Table]:
    """Return the columns of a table or a kept view, and its rows in a version as they are stored.

    It exists there.
    """
    relation = read(source, name)
    rows = (relation.as_stored if isinstance(relation, Wide) else relation).to_arrow()
    return in_order(catalog.columns(name), rows)


def rows_of_changes(
    store: Store, catalog: Catalog, table: exp.Table
) -> tuple[list[Column], pa.Table]:
    """Return the columns and the rows that differ between two versions.  Raises SqlError."""
    arguments = table.this.expressions
    if len(arguments) != 3:
        raise SqlError("changes takes a table and two versions, as in changes(v, 3, 7)", table)
    if isinstance(arguments[0], exp.Column) and arguments[0].table:
        raise SqlError(f"changes takes the name of a table alone: {arguments[0].name}", table)
    kept = known(catalog, arguments[0].name, table)
    first, second = (_number(version, table) for version in arguments[1:])
    with store.at(first) as old, store.at(second) as new:
        rows = changes(old, new, kept, as_stored=True)
    if rows is None:
        raise SqlError(f"{kept} exists in neither version", table)
    columns = [*catalog.columns(kept), CHANGE]
    table.set("alias", table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(kept)))
    return in_order(columns, rows)


def in_order(columns: list[Column], rows: pa.Table) -> tuple[list[Column], pa.Table]:
    """Return the columns that the rows have, and the rows with these."""
    kept = [c for c in columns if c.name in rows.column_names]
    return kept, rows.select([c.name for c in kept])
