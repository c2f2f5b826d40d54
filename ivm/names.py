"""Names that the compiler and SQL make, and how to tell them from those that users gave.

item$1, item$among2       a helper of the rules of item: users cannot write `$` in a name
item$all                  all rows of a relation that is declared and derived
$apart:total, $index:...  trees that are kept for rules, beside those of relations and views
total:part2               the second helper of a view of SQL
item:price                the column price of item, as rules read it
x$                        the result of an aggregate that differs from what its author called x
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from datetime import datetime
from typing import Any

ONE = "sql:one"  # a relation with the one row 0, which rules of SQL read
# relations of one row each: the moment that kept views answer for, and its day
CLOCK, TODAY = CLOCKS = "sql:clock", "sql:today"
CATALOG = "ivm.sql"  # the property of the store in which SQL lists its views
# suffix of a relation's rows of transactions in rules that say which of them stay, or follow
ASSERTED = "$asserted"
BODY = "$body"  # ends the name of a view of what an aggregate ranges over
CONSTRAINTS = ":constraints"  # ends the name of the block of rules that a table's constraints are
CONSTRAINT = "constraint$"  # begins the name of a view of what violates a constraint
# suffix of the view of all rows of a relation that is declared and derived: lang/declarations.py
WHOLE = "$all"
APART = "$apart:"  # prefix of the state of aggregates
PART = ":part"  # before the number of a helper of a view of SQL
AMONG = "$among"  # in the names of helpers with the constants of a membership
MULTIPLICITY = "rows()"  # the name of the column that says how often a row occurs


BESIDE = "sql_beside_"  # begins the name of what a question reads beside the tables


def is_helper(name: str, blocks: Container[str] | None = None) -> bool:
    """Return whether a relation is none of those that users named: one of a rewriting of rules, or
    of SQL's own.

    With the names of all `blocks`, a name like that of a part of a wide view counts only if there
    is such a block.

    >>> [name for name in ("item", "total:part2", "item$1", "sql:one", "car:parts") if is_helper(name)]
    ['total:part2', 'item$1', 'sql:one']
    >>> is_helper("car:part2", ["total"]), is_helper("total:part2", ["total"])
    (False, True)
    """
    part = re.fullmatch(r"(.*):part\d+", name, re.DOTALL)
    return (
        "$" in name
        or name.startswith(BESIDE)
        or name in (ONE, *CLOCKS)
        or (part is not None and (blocks is None or part[1] in blocks))
    )


def moment_of(source: Any) -> datetime | None:
    """Return the moment that the kept views of a version answer for; None if it has no clock."""
    moment: datetime | None = next(iter(source[CLOCK]))[0] if CLOCK in source else None
    return moment


def tables_of_sql(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return what SQL says of its tables, by name, in a version's properties."""
    tables: dict[str, Any] = json.loads(properties.get(CATALOG) or "{}").get("tables", {})
    return tables


def wide_names(source: Any) -> list[str]:
    """Return the names of the views that are in several relations, or with lists or intervals,
    of a version.
    """
    return [name for name, kept in kept_views(source).items() if kept.get("wide")]


def names_of(source: Any, blocks: Container[str]) -> list[str]:
    """Return the names of the relations and views of a version that users made; `blocks` has the
    blocks' names.
    """
    return [name for name in (*source, *wide_names(source)) if not is_helper(name, blocks)]


def stored_as(source: Any, name: str) -> list[str]:
    """Return the names of the relations that have a relation's or view's rows."""
    return [name] if name in source else kept_views(source).get(name, {}).get("wide") or [name]


def kept_views(source: Any) -> dict[str, Any]:
    """Return what SQL saved of each kept view."""
    saved = source.properties.get(CATALOG)
    return dict(json.loads(saved).get("kept", {})) if saved else {}


def is_parameter(name: str) -> bool:
    """Return whether a variable of a question is a parameter, `$who`."""
    return name.startswith("$")


def may_have_parameters(text: str) -> bool:
    """Return whether a text of rules may have parameters."""
    return "$" in text


def is_membership(predicate: str) -> bool:
    """Return whether a predicate is a helper with the constants of `x in (1, 5)`."""
    return AMONG in predicate


def is_unread(variable: str) -> bool:
    """Return whether a variable is a column's that nothing reads (Conjunction.in_own_order)."""
    return variable[0] == "$" and "." in variable


def is_made(name: str) -> bool:
    """Return whether rules got a name from the compiler: that of a helper, an index, a state, or
    a variable.
    """
    return "$" in name


def is_tree_of_rules(name: str) -> bool:
    """Return whether a tree is kept for rules, and is neither a relation nor a view."""
    return name.startswith("$")


def named_part(name: str) -> str:
    """Return the name that users gave with which a made one begins.

    >>> named_part("item$among2"), named_part("item")
    ('item', 'item')
    """
    return name.partition("$")[0]


def is_whole(name: str) -> bool:
    """Return whether a view has all rows of a relation that is declared and derived."""
    return name.endswith(WHOLE)


def declared_name(name: str) -> str:
    """Return the name of the relation of which a view may have all rows."""
    return name.removesuffix(WHOLE)


def view_of_state(name: str) -> str:
    """Return the view that gave an aggregate's state its name; other names as they are."""
    return name.removeprefix(APART)


def plain_result(name: str) -> str:
    """Return what its author called the result of an aggregate."""
    return name.removesuffix("$")


def split_column(name: str) -> tuple[str, str]:
    """Return the relation and the column that a name with a colon gives; no relation if there is no
    colon.

    >>> split_column("item:price"), split_column("item")
    (('item', 'price'), ('', 'item'))
    """
    relation, _, column = name.rpartition(":")
    return relation, column


def is_part(name: str) -> bool:
    """Return whether a name is like that of a helper of a view of SQL."""
    return PART in name


def view_of_part(name: str) -> str:
    """Return the view of SQL of which a relation is a helper; the name itself if it is none."""
    return name.partition(PART)[0]


def shown_part(name: str) -> str:
    """Return what people read of a helper of a view of SQL.

    >>> shown_part("total:part2")
    'part 2 of total'
    """
    view, _, number = name.rpartition(PART)
    return f"part {number} of {view}"


def asserted_of(name: str) -> str:
    """Return the relation of whose rows of transactions a rule reads; "" for other names."""
    return name.removesuffix(ASSERTED) if name.endswith(ASSERTED) else ""


def is_body(view: str) -> bool:
    """Return whether a view has what an aggregate ranges over."""
    return view.endswith(BODY)


def is_constraint(view: str) -> bool:
    """Return whether a view has the rows that violate a constraint; its helper views are none."""
    return view.startswith(CONSTRAINT) and view.count("$") == 1
