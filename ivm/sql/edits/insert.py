"""INSERT: rows that are added, left out, or put in place of others.

    a key that exists      without a clause        an error
                           DO NOTHING, OR IGNORE   the row is left out
                           DO UPDATE, OR REPLACE   the row that exists gets new values

A key is the primary key, or the columns of a UNIQUE without a null.  A clause acts on the key that
it names; where it names none, DO NOTHING acts on all, and DO UPDATE on the only one.  Of several
rows with one key the first counts; so those of a query need an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa
from sqlglot import exp

from ivm.sql.edits.literals import Row, constants, rows_of
from ivm.sql.edits.target import Places, Target, is_default, row_at
from ivm.sql.errors import SqlError
from ivm.sql.literals import constant
from ivm.sql.queries.constants import COMPUTED_MAX

EXCLUDED = "excluded"  # how SQL names the rows that were not inserted


class Conflict(NamedTuple):
    """What becomes of rows whose values of one of the `keys` exist: nothing, or what is
    `assigned` to those there.
    """

    keys: list[Places]
    assigned: dict[int, exp.Expr] | None = None
    where: exp.Expr | None = None

    def values(self, row: Row) -> list[tuple[Places, Row]]:
        """Return the values of the keys of a row, without those that have a null."""
        return [(key, values) for key in self.keys if None not in (values := row_at(row, key))]


def insert(target: Target, node: exp.Insert, given: pa.Table | None = None) -> int:
    """INSERT: return the number of rows that are new or have new values; `given` are a file's."""
    source = node.expression
    named = node.this.expressions if isinstance(node.this, exp.Schema) else []
    if node.args.get("by_name"):
        named = [exp.to_identifier(name) for name in target.names_of(source)]
    places = target.places(named, node)
    if not isinstance(source, exp.Values) and source is not None:
        target.refuse_numbers(places, node)
    others = ("conflict", "alternative", "ignore", "overwrite", "returning")
    if given is not None:
        if len(places) == len(target.columns) and not any(map(node.args.get, others)):
            names = [target.names[n] for n in places]
            return target.add_table(given.rename_columns(names).select(target.names), node)
        listed = rows_of(given)
    elif source is None:
        listed = [tuple(target.default(n, node) for n in places)]
    elif isinstance(source, exp.Values):
        listed = _values(target, source, places)
    else:
        listed = target.rows(source, [target.columns[n] for n in places])
    rows = target.checked([target.whole(row, places, node) for row in listed], node)
    conflict = conflict_of(target, node, places)
    if node.args.get("overwrite"):
        target.clear()
    return target.add(rows, node) if conflict is None else _add_unless(target, rows, conflict, node)


def _values(target: Target, node: exp.Values, places: list[int]) -> list[Row]:
    """Return rows of VALUES: constants at once, other expressions by a query."""
    rows, computed = list[Row](), count(1)
    for row in node.expressions:
        items = row.expressions if isinstance(row, exp.Tuple) else [row]
        if len(items) != len(places):
            raise target.misfit(len(items), len(places), row)
        pairs = zip(items, places, strict=True)
        rows.append(tuple(_value(target, item, place, computed) for item, place in pairs))
    return rows


def _value(target: Target, node: exp.Expr, place: int, computed: Iterator[int]) -> Any:
    if is_default(node):
        return target.default(place, node)
    target.refuse_numbers([place], node)
    column, inner = target.columns[place], node
    while isinstance(inner, exp.Paren):
        inner = inner.this
    value = constant(inner)
    if value is not None and target.takes(value, column):
        return target.constant(value, place, node)
    if next(computed) > COMPUTED_MAX:
        raise SqlError(
            f"INSERT computes at most {COMPUTED_MAX:,} values of VALUES: write the others as "
            "constants, or INSERT a SELECT",
            node,
        )
    return target.rows(exp.select(node.copy()), [column])[0][0]


def _add_unless(target: Target, rows: list[Row], conflict: Conflict, node: exp.Insert) -> int:
    """Add the rows that do not conflict, and update those that the others conflict with; return
    how many of both.
    """
    exist = [target.met(key, rows) for key in conflict.keys]
    before: dict[tuple[Places, Row], Row] = {}
    fresh, refused = list[Row](), list[Row]()
    for row, *there in zip(rows, *exist, strict=True):
        values = conflict.values(row)
        if first := next((before[value] for value in values if value in before), None):
            _refuse_unordered(target, node, first, row)
            continue
        (refused if any(there) else fresh).append(row)
        if conflict.assigned is not None or not any(there):
            before |= dict.fromkeys(values, row)
    pairs = []
    if conflict.assigned is not None and refused:
        same = (
            exp.EQ(
                this=exp.column(name, target.alias, quoted=True),
                expression=exp.column(name, EXCLUDED, quoted=True),
            )
            for name in (target.names[place] for place in conflict.keys[0])
        )
        query = exp.Select().from_(target.table())
        query = query.join(constants(refused, target.columns, EXCLUDED), on=exp.and_(*same))
        query = query if conflict.where is None else query.where(conflict.where)
        pairs = target.pairs(query, conflict.assigned)
    return target.add(fresh, node) + target.replace(pairs, node)


def _refuse_unordered(target: Target, node: exp.Insert, first: Row, row: Row) -> None:
    """Raise SqlError for two rows with one key if nothing says which is first."""
    source = node.expression
    if first != row and isinstance(source, exp.Query) and not source.args.get("order"):
        rows = f"{first} and {row}"
        raise SqlError(
            f"the query has two rows with one key of {target.name}, {rows}: say by ORDER BY which "
            "is first, or select one of them",
            node,
        )


def conflict_of(target: Target, node: exp.Insert, places: list[int]) -> Conflict | None:
    """Return what a statement says of keys that exist.  Raises SqlError."""
    clause = node.args.get("conflict")
    word = "IGNORE" if node.args.get("ignore") else str(node.args.get("alternative") or "").upper()
    if word in ("", "ABORT") and clause is None:  # SQLite's word for what is always done
        return None
    if word not in ("", "IGNORE", "REPLACE"):
        raise SqlError(
            f"INSERT OR {word} is not evaluated: a statement that fails changes nothing", node
        )
    if word and clause is not None:
        raise SqlError(
            f"OR {word} and ON CONFLICT are two answers to one question: leave one out", node
        )
    if not target.keys:
        raise SqlError(
            f"{target.name} has no PRIMARY KEY and no UNIQUE, so that no row conflicts: write "
            f"INSERT alone",
            node,
        )
    if clause is None:
        if word == "IGNORE":
            return Conflict(target.keys)
        if target.dialect == "sqlite":  # whose row is another one
            places = [*range(len(target.names))]
        named = {n: exp.column(target.names[n], EXCLUDED, quoted=True) for n in places}
        return Conflict([_only_key(target, "INSERT OR REPLACE", node)], {**named})
    return _clause(target, clause)


def _clause(target: Target, node: exp.OnConflict) -> Conflict:
    """Return what ON CONFLICT says."""
    if node.args.get("duplicate"):
        raise SqlError(
            "ON DUPLICATE KEY UPDATE: write ON CONFLICT (key) DO UPDATE SET x = excluded.x", node
        )
    if node.args.get("constraint"):
        raise SqlError("ON CONFLICT ON CONSTRAINT: name the columns, as in ON CONFLICT (id)", node)
    if node.args.get("index_predicate"):
        raise SqlError("ON CONFLICT (...) WHERE: a condition comes after DO UPDATE SET ...", node)
    named = node.args.get("conflict_keys")
    keys = [_named_key(target, named, node)] if named else target.keys
    if node.args["action"].name.upper() == "DO NOTHING":
        return Conflict(keys)
    key = keys[0] if named else _only_key(target, "DO UPDATE", node)
    where = node.args.get("where")
    assigned = {
        place: _of_target(target, value)
        for place, value in target.assignments(node.expressions).items()
    }
    return Conflict(
        [key], assigned, None if where is None else _of_target(target, where.this.copy())
    )


def _named_key(target: Target, nodes: list[exp.Expr], node: exp.Expr) -> Places:
    """Return the key that ON CONFLICT names, in any order of its columns."""
    columns = [item.this if isinstance(item, exp.Ordered) else item for item in nodes]
    if not all(isinstance(column, exp.Column | exp.Identifier) for column in columns):
        raise SqlError("ON CONFLICT names the columns of a key, not expressions", node)
    key = tuple(sorted({target.known(column.name, node) for column in columns}))
    if key not in target.keys:
        raise SqlError(
            f"ON CONFLICT {_shown(target, key)}: neither the PRIMARY KEY nor a UNIQUE has these "
            f"columns; {_known(target)}",
            node,
        )
    return key


def _only_key(target: Target, words: str, node: exp.Expr) -> Places:
    if len(target.keys) > 1:
        raise SqlError(
            f"{words}: {_known(target)}: say which, as in ON CONFLICT "
            f"{_shown(target, target.keys[0])} DO UPDATE SET ...",
            node,
        )
    return target.keys[0]


def _known(target: Target) -> str:
    return f"{target.name} has {' and '.join(_shown(target, key) for key in target.keys)}"


def _shown(target: Target, key: Places) -> str:
    return f"({', '.join(target.names[place] for place in key)})"


def _of_target(target: Target, node: exp.Expr) -> exp.Expr:
    """Return an expression in which names without a table are columns of the row that exists."""
    names = {name.lower() for name in target.names}
    for column in [*node.find_all(exp.Column)]:
        if (
            not column.table
            and column.name.lower() in names
            and column.find_ancestor(exp.Select) is None
        ):
            column.set("table", exp.to_identifier(target.alias, quoted=True))
    return node
