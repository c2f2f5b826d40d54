"""Edits by key that were made before, with other values: each is a look-up, and an edit of rows.

    INSERT INTO t VALUES (?, ?)               the values as the columns have them; no row has the key
    UPDATE t SET n = n + ? WHERE id = ?       the row of the key, with a value replaced
    DELETE FROM t WHERE id = ?

Only what certainly succeeds is done here.  Whatever else there is, a value of another type, a null
where none may be, a key that a row has, is left to the translation of the statement, which has the
words for what is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlglot import exp

from ivm.answer import ListedAnswer
from ivm.errors import IvmError
from ivm.sql.catalog import Catalog
from ivm.sql.edits.literals import Row
from ivm.sql.edits.target import Places, Target, is_default
from ivm.sql.literals import constant, converted, literal
from ivm.sql.prepared.cache import Kinds, Statement
from ivm.sql.prepared.rows import is_any_there, rows_at, unchanged_catalog
from ivm.sql.prepared.seeks import TYPES, word_type
from ivm.sql.prepared.shape import number_of
from ivm.sql.rules import Column
from ivm.sql.session import Reader
from ivm.sql.system.session import BESIDE, MOMENTARY
from ivm.sql.terms import Lit, Typed
from ivm.sql.types import BIGINT, BOOLEAN, DATE, DOUBLE, VARCHAR, SqlType
from pagestore.errors import PagestoreError

if TYPE_CHECKING:
    from ivm.transaction import Transaction

KEPT = {VARCHAR: str, DATE: date, BOOLEAN: bool}  # types whose values are stored as they are given
SIGNS: dict[type[exp.Expr], int] = {exp.Add: 1, exp.Sub: -1}
CLAUSES: dict[type[exp.Expr], set[str]] = {
    exp.Insert: {"this", "expression"},
    exp.Update: {"this", "expressions", "where"},
    exp.Delete: {"this", "where"},
}


class Unusual(Exception):
    """A statement, or a value of it, that is not done here."""


class Source(NamedTuple):
    """Where a value comes from: the values of the statement, by number, or a constant; `place` is
    that of a column to whose value a number is added, `sign` times.
    """

    number: int | None = None
    constant: Any = None
    place: int | None = None
    sign: int = 1

    def value(self, values: Sequence[Any], old: Row | None) -> Any:
        """Return the value; of a sum null if `old`, the row before, is None or has a null there."""
        own = self.constant if self.number is None else values[self.number]
        if self.place is None:
            return own
        before = None if old is None else old[self.place]
        return None if before is None else before + self.sign * own

    def column(self, columns: Sequence[Sequence[Any]], rows: int) -> Sequence[Any]:
        """Return the values for many values of the statement, given by columns."""
        return [self.constant] * rows if self.number is None else columns[self.number]


class KeyedEdit(NamedTuple):
    """An edit of a table: `rows` are those of an INSERT, `changed` the values that UPDATE gives to
    columns, by place; DELETE has neither.
    """

    node: exp.Expr  # for the place of errors
    name: str
    columns: tuple[Column, ...]
    key: Places  # of the columns of the primary key; none for a bag
    where: tuple[Source, ...] = ()  # the values of the key
    rows: tuple[tuple[Source, ...], ...] = ()
    changed: tuple[tuple[int, Source], ...] = ()

    def run(self, txn: Transaction, given: Sequence[Sequence[Any]]) -> int | None:
        """Edit the table in a transaction, by several lists of values if it is an INSERT; return
        the number of rows, None if nothing was done.
        """
        try:
            return self._insert(txn, given) if self.rows else self._by_key(txn, *given)
        except (Unusual, IvmError, PagestoreError):
            return None

    def _insert(self, txn: Transaction, given: Sequence[Sequence[Any]]) -> int:
        """Add the rows for each list of values.  O(rows * height)."""
        by_number, count = [*zip(*given, strict=True)], len(given)
        columns = [list[Any]() for _ in self.columns]
        for row in self.rows:
            for own, source in zip(columns, row, strict=True):
                own += source.column(by_number, count)
        stored = [*map(fitted, self.columns, columns)]
        count *= len(self.rows)
        if not self.key:
            txn.insert(self.name, columns=stored)
            return count
        keys = {self.columns[place].name: stored[place] for place in self.key}
        if len({*zip(*keys.values(), strict=True)}) < count or is_any_there(txn, self.name, keys):
            raise Unusual
        txn.set(self.name, columns=stored)
        return count

    def _by_key(self, txn: Transaction, values: Sequence[Any]) -> int:
        """Change or remove the row of the key, if there is one."""
        key = tuple([source.value(values, None) for source in self.where])
        (old,) = rows_at(txn, self.name, [key])
        new = {  # which must fit without a row, too
            place: fitted(self.columns[place], [source.value(values, old)])[0]
            for place, source in self.changed
        }
        if old is None:
            return 0
        if new:
            txn.set(self.name, [tuple([new.get(p, value) for p, value in enumerate(old)])])
        else:
            txn.delete(self.name, [key])
        return 1


def made_again(
    txn: Transaction, statement: Statement, kinds: Kinds, values: Sequence[Any]
) -> ListedAnswer | None:
    """Make an edit in a transaction that was made before; return its answer, how many rows it
    changed, or None if nothing was done.
    """
    import pyarrow as pa

    catalog = unchanged_catalog(txn)
    plan: KeyedEdit | None = catalog and statement.plan(kinds, catalog)
    count = None if plan is None else plan.run(txn, [values])
    return None if count is None else ListedAnswer([(count,)], pa.schema({"Count": pa.int64()}))


def fitted(column: Column, values: Sequence[Any]) -> Sequence[Any]:
    """Return values as a column stores them.  Raises Unusual, SqlError for one that it does not."""
    kinds, type_ = {*map(type, values)}, column.type
    if type(None) in kinds:
        if not column.nullable:
            raise Unusual
        kinds.discard(type(None))
    own = int if type_.is_integer and type_.range else KEPT.get(type_)
    finite = type_ == DOUBLE and kinds == {float} and all(map(math.isfinite, filter(None, values)))
    if not finite and not kinds <= {own}:
        values = [_converted(value, type_) for value in values]
    if own is int:
        least, most = map(int, type_.range or ())
        found = [one for one in values if one is not None] if None in values else values
        if found and not least <= min(found) <= max(found) <= most:
            raise Unusual
    return values


def _converted(value: Any, type_: SqlType) -> Any:
    known = constant(literal(value))
    if known is None:
        raise Unusual
    return _of_column(known, type_)


def _of_column(value: Typed, type_: SqlType) -> Any:
    found = converted(value, type_, None).term
    assert isinstance(found, Lit)
    return found.value


# -- from a statement


def edit_of(
    node: exp.Expr, kinds: Sequence[type], reader: Reader, catalog: Catalog
) -> KeyedEdit | None:
    """Return a statement as an edit by key; None for any other.

    Values are places of its text, `kinds` their types.  Raises SqlError for what is wrong.
    """
    others = node.args.keys() - CLAUSES[type(node)]
    if any(map(node.args.get, others)) or MOMENTARY in node.meta or BESIDE in node.meta:
        return None
    table = node.this.this if isinstance(node.this, exp.Schema) else node.this
    target = Target(cast(Any, None), reader, catalog, table, node)  # which edits nothing
    edit = KeyedEdit(node, target.name, tuple(target.columns), target.key)
    try:
        if isinstance(node, exp.Insert):
            return edit._replace(rows=(*_rows(target, node),))
        if target.bag:
            return None
        return edit._replace(
            where=_where(target, node, kinds),
            changed=(*_changed(target, node, kinds),) if isinstance(node, exp.Update) else (),
        )
    except Unusual:
        return None


def _rows(target: Target, node: exp.Insert) -> Iterator[tuple[Source, ...]]:
    """Yield the rows of VALUES, whole ones.  Raises Unusual."""
    named = node.this.expressions if isinstance(node.this, exp.Schema) else []
    places = target.places(named, node)
    if not isinstance(node.expression, exp.Values):
        raise Unusual
    defaults: list[Source] = [
        Source() if place in places else _default(target, place, node)
        for place in range(len(target.columns))
    ]
    for row in node.expression.expressions:
        items = row.expressions if isinstance(row, exp.Tuple) else [row]
        if len(items) != len(places):
            raise Unusual
        sources = [*defaults]
        for place, item in zip(places, items, strict=True):
            sources[place] = _value(target, place, item)
        yield tuple(sources)


def _value(target: Target, place: int, node: exp.Expr) -> Source:
    """Return where a value that the statement gives comes from.  Raises Unusual."""
    if is_default(node):
        return _default(target, place, node)
    target.refuse_numbers([place], node)
    if isinstance(node, exp.Placeholder):
        return Source(number_of(node.name))
    known = constant(node)
    if known is None:
        raise Unusual
    return Source(constant=_of_column(known, target.columns[place].type))


def _default(target: Target, place: int, node: exp.Expr) -> Source:
    """Return a column's default.  Raises Unusual for one that is computed for each row."""
    if not target.has_lasting_default(place):
        raise Unusual
    return Source(constant=target.default(place, node))


def _where(target: Target, node: exp.Expr, kinds: Sequence[type]) -> tuple[Source, ...]:
    """Return where the values of a key come from.  Raises Unusual for another condition."""
    found: dict[int, Source] = {}
    left = [node.args["where"].this] if node.args.get("where") else []
    while left:
        one = left.pop()
        if isinstance(one, exp.Paren):
            left.append(one.this)
        elif isinstance(one, exp.And):
            left += [one.this, one.expression]
        elif not isinstance(one, exp.EQ):
            raise Unusual
        else:
            sides = one.this, one.expression
            column, given = sides if isinstance(one.this, exp.Column) else sides[::-1]
            place = _own(target, column)
            if place in found or not isinstance(given, exp.Placeholder):
                raise Unusual
            number = number_of(given.name)
            type_ = TYPES.get(kinds[number])
            if type_ is None or word_type(target.columns[place].type) != type_:
                raise Unusual
            found[place] = Source(number)
    if {*found} != {*target.key}:
        raise Unusual
    return tuple(found[place] for place in target.key)


def _own(target: Target, node: exp.Expr) -> int:
    """Return the place of a column of the table.  Raises Unusual, SqlError."""
    if not isinstance(node, exp.Column) or node.text("table") not in ("", target.alias):
        raise Unusual
    return target.known(node.name, node)


def _changed(
    target: Target, node: exp.Update, kinds: Sequence[type]
) -> Iterator[tuple[int, Source]]:
    """Yield what SET assigns to each column.  Raises Unusual."""
    if any(map(is_default, node.find_all(exp.Var, exp.Column))):
        raise Unusual
    for place, value in target.assignments(node.expressions).items():
        if place in target.key:
            raise Unusual
        sign = SIGNS.get(type(value))
        if sign is None:
            yield place, _value(target, place, value)
            continue
        type_ = target.columns[place].type
        if _own(target, value.this) != place or word_type(type_) != BIGINT or not type_.range:
            raise Unusual
        yield place, _whole(value.expression, kinds)._replace(place=place, sign=sign)


def _whole(node: exp.Expr, kinds: Sequence[type]) -> Source:
    """Return where a whole number comes from.  Raises Unusual for anything else."""
    if isinstance(node, exp.Placeholder) and kinds[number_of(node.name)] is int:
        return Source(number_of(node.name))
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return Source(constant=int(node.name))
    raise Unusual
