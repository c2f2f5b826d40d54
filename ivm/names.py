"""Names that the compiler and SQL make, and how to tell them from those that users gave."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from typing import Any

ONE = "sql:one"  # a relation with the one row 0, which rules of SQL read
CATALOG = "ivm.sql"  # the property of the store in which SQL lists its views
AMONG = "$among"  # in the names of helpers with the constants of a membership
MULTIPLICITY = "rows()"  # the name of the column that says how often a row occurs


def is_helper(name: str, blocks: Container[str] | None = None) -> bool:
    """Return whether a relation is none of those that users named: one of a rewriting of rules, or of SQL's own.

    With the names of all `blocks`, a name like that of a part of a wide view counts only if there is such a block.

    >>> [name for name in ("item", "total:part2", "item$1", "sql:one", "car:parts") if is_helper(name)]
    ['total:part2', 'item$1', 'sql:one']
    >>> is_helper("car:part2", ["total"]), is_helper("total:part2", ["total"])
    (False, True)
    """
    part = re.fullmatch(r"(.*):part\d+", name, re.DOTALL)
    return "$" in name or name == ONE or (part is not None and (blocks is None or part[1] in blocks))


def tables_of_sql(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return what SQL says of the tables that it created or altered, by name, of a version's properties."""
    found: dict[str, Any] = json.loads(properties.get(CATALOG) or "{}").get("tables", {})
    return found


def wide_names(source: Any) -> list[str]:
    """Return the names of the views that are in several relations, or with lists or intervals, of a version."""
    return [name for name, kept in kept_views(source).items() if kept.get("wide")]


def names_of(source: Any, blocks: Container[str]) -> list[str]:
    """Return the names of the relations and views of a version that users made; `blocks` has the blocks' names."""
    return [name for name in (*source, *wide_names(source)) if not is_helper(name, blocks)]


def stored_as(source: Any, name: str) -> list[str]:
    """Return the names of the relations that have the rows of a relation or view: several for a wide view."""
    return [name] if name in source else kept_views(source).get(name, {}).get("wide") or [name]


def kept_views(source: Any) -> dict[str, Any]:
    """Return what SQL saved of each kept view."""
    saved = source.properties.get(CATALOG)
    return dict(json.loads(saved).get("kept", {})) if saved else {}


def is_membership(predicate: str) -> bool:
    """Return whether a predicate is a helper with the constants of `x in (1, 5)` (rewrite/memberships.py)."""
    return AMONG in predicate


def is_unread(variable: str) -> bool:
    """Return whether a variable is that of a column which nothing reads (Conjunction.in_own_order)."""
    return variable[0] == "$" and "." in variable
