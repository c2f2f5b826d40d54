"""Edits by key that were made before, with other values: each is a look-up, and an edit of rows.

    INSERT INTO t VALUES (?, ?)               the values as the columns have them; no row has the key
    UPDATE t SET n = n + ? WHERE id = ?       the row of the key, with a value replaced
    UPDATE ... WHERE id = ? AND n >= ?        the same, if the row meets the condition
    DELETE FROM t WHERE id = ?
    INSERT ... ON CONFLICT, MERGE             either, by whether a row has the key

Only what certainly succeeds is done here.  Whatever else there is, a value of another type, a null
where none may be, a key that a row has, is left to the translation of the statement, which has the
words for what is wrong.

Of many lists of values, each finds the rows as those before it left them, which no tree has yet: its
conditions are met or not by these, and what a key has in the end is stored once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from ivm.answer import ListedAnswer
from ivm.errors import IvmError
from ivm.sql.edits.literals import Row
from ivm.sql.edits.target import Places
from ivm.sql.literals import constant, converted, literal
from ivm.sql.prepared.cache import Kinds, Statement
from ivm.sql.prepared.rows import is_any_there, rows_at, unchanged_catalog
from ivm.sql.rules import Column
from ivm.sql.terms import Lit, Typed
from ivm.sql.types import BOOLEAN, DATE, DOUBLE, NULL, VARCHAR, SqlType
from pagestore.errors import PagestoreError
from pagestore.host import WORD_MAX

if TYPE_CHECKING:
    import pyarrow as pa

    from ivm.transaction import Transaction

KEPT = {VARCHAR: str, DATE: date, BOOLEAN: bool}  # types whose values are stored as they are given


class Unusual(Exception):
    """A statement, or a value of it, that is not done here."""


class Source(NamedTuple):
    """Where a value comes from: the values of the statement, by number, or a constant; `place` is
    that of a column to whose value a number is added, `sign` times, or nothing if there is none.
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
        if before is None or (own is None and self.number is None):
            return before
        if type(own) is not int:  # of many lists only the first was looked at
            raise Unusual
        return before + self.sign * own

    def column(self, columns: Sequence[Sequence[Any]], rows: int) -> Sequence[Any]:
        """Return the values for many values of the statement, given by columns."""
        return [self.constant] * rows if self.number is None else columns[self.number]


class Check(NamedTuple):
    """A comparison of values of the statement and of the row that its key has."""

    holds: Callable[[Any, Any], bool]
    left: Source
    right: Source

    def is_met(self, values: Sequence[Any], old: Row) -> bool:
        """Return whether it holds, which it does of no null.  Raises Unusual for a number that is no
        word, UnicodeEncodeError.
        """
        left, right = self.left.value(values, old), self.right.value(values, old)
        for side in (left, right):
            if type(side) is str:
                side.encode()
            elif side is not None and (type(side) is not int or not -WORD_MAX <= side < WORD_MAX):
                raise Unusual
        return left is not None and right is not None and self.holds(left, right)


class Case(NamedTuple):
    """What an edit does with the row of a key, if it meets all `checks`: columns of it get other
    values, by place, or it is `gone`; where no row has the key, a `new` one is added, if there is
    one.
    """

    where: tuple[Source, ...]  # the values of the key
    changed: tuple[tuple[int, Source], ...] | None = ()  # None if no row may have the key
    gone: bool = False
    new: tuple[Source, ...] = ()
    checks: tuple[Check, ...] = ()


class Done(NamedTuple):
    """What an edit did: how many rows it changed, and the rows that RETURNING is about."""

    changed: int
    rows: list[Row]


class KeyedEdit(NamedTuple):
    """An edit of a table: `rows` are those that an INSERT adds, any others are `cases`."""

    node: exp.Expr  # for the place of errors
    name: str
    columns: tuple[Column, ...]
    key: Places  # of the columns of the primary key; none for a bag
    rows: tuple[tuple[Source, ...], ...] = ()
    cases: tuple[Case, ...] = ()
    returning: Places = ()  # the columns that RETURNING has, of `schema`
    schema: pa.Schema | None = None

    def run(self, txn: Transaction, given: Sequence[Sequence[Any]]) -> Done | None:
        """Edit the table in a transaction, by one or several lists of values; return what was done,
        None if nothing was.
        """
        try:
            return self._insert(txn, given) if self.rows else self._by_keys(txn, given)
        except (Unusual, IvmError, PagestoreError, UnicodeEncodeError):
            return None

    def answer(self, done: Done) -> ListedAnswer:
        """Return how many rows were changed, or what RETURNING says of them."""
        import pyarrow as pa

        if self.schema is None:
            return ListedAnswer([(done.changed,)], pa.schema({"Count": pa.int64()}))
        rows = [tuple([row[place] for place in self.returning]) for row in done.rows]
        return ListedAnswer(rows, self.schema)

    def _insert(self, txn: Transaction, given: Sequence[Sequence[Any]]) -> Done:
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
            return Done(count, [])
        keys = {self.columns[place].name: stored[place] for place in self.key}
        if len({*zip(*keys.values(), strict=True)}) < count or is_any_there(txn, self.name, keys):
            raise Unusual
        txn.set(self.name, columns=stored)
        return Done(count, [])

    def _by_keys(self, txn: Transaction, given: Sequence[Sequence[Any]]) -> Done:
        """Change, remove or add the row of each key.  O(keys * height)."""
        work = self.work(given)
        keys = [key for key, _, _ in work]
        if len(self.cases) > 1 and len({*keys}) < len(keys):  # a statement edits no row twice
            raise Unusual
        rows, olds, done = RowsNow(txn, self, keys), list[Row](), 0
        for key, case, values in work:
            old = rows.now[key]
            rows.now[key] = new = self.after(case, values, old)
            done += new is not old
            olds += [old] if case.gone and old and not new else []
        if rows.store() and self.schema is not None:
            olds += [row for row in rows_at(txn, self.name, keys) if row is not None]
        return Done(done, olds)

    def work(self, given: Iterable[Sequence[Any]]) -> list[tuple[Row, Case, Sequence[Any]]]:
        """Return the keys that lists of values edit, each with what is done and its values."""
        return [
            (
                tuple(self._fitted(zip(self.key, case.where, strict=True), values, None).values())
                if case.new
                else tuple([source.value(values, None) for source in case.where]),
                case,
                values,
            )
            for values in given
            for case in self.cases
        ]

    def after(self, case: Case, values: Sequence[Any], old: Row | None) -> Row | None:
        """Return the row that a key has after an edit; `old` itself if nothing is done."""
        changed = self._changed(case, values, old)
        new = self._fitted(enumerate(case.new), values, None) if case.new else {}
        if old is None:
            return tuple(new.values()) or None
        for check in case.checks:
            if not check.is_met(values, old):
                return old
        if case.gone:
            return None
        row = [*old]
        for place, value in changed.items():
            row[place] = value
        return tuple(row) if changed else old

    def _changed(self, case: Case, values: Sequence[Any], old: Row | None) -> dict[int, Any]:
        """Return the new values of the row that a key has, or that do not need one."""
        if case.changed is None:
            if old is not None:
                raise Unusual
            return {}
        if old is None:
            return self._fitted([one for one in case.changed if one[1].place is None], values, old)
        return self._fitted(case.changed, values, old)

    def _fitted(
        self, sources: Iterable[tuple[int, Source]], values: Sequence[Any], old: Row | None
    ) -> dict[int, Any]:
        return {
            place: _fitted_one(self.columns[place], source.value(values, old))
            for place, source in sources
        }


class RowsNow:
    """The rows that keys of a table have, as edits so far leave them, which are stored at the end."""

    def __init__(self, txn: Transaction, edit: KeyedEdit, keys: list[Row]) -> None:
        self._txn, self._name = txn, edit.name
        self.now = dict(zip(keys, rows_at(txn, edit.name, keys), strict=True))
        self._before = {**self.now}

    def store(self) -> bool:
        """Edit the table; return whether rows were set."""
        before = self._before
        changed = [(key, row) for key, row in self.now.items() if row is not before[key]]
        if put := [row for _, row in changed if row is not None]:
            self._txn.set(self._name, put)
        if gone := [key for key, row in changed if row is None]:
            self._txn.delete(self._name, gone)
        return bool(put)


def in_turn(
    txn: Transaction, edits: Sequence[KeyedEdit], given: Sequence[Sequence[Sequence[Any]]]
) -> list[bool] | None:
    """Make edits for each of many lists of values, or none of them where one would change no row;
    return for each list whether they were made, or None if nothing is done.

    `given` has the lists for each edit.  O(keys * height).
    """
    keys: dict[str, list[Row]] = {}
    try:
        works = [edit.work(lists) for edit, lists in zip(edits, given, strict=True)]
        for edit, work in zip(edits, works, strict=True):
            keys.setdefault(edit.name, []).extend([key for key, _, _ in work])
        by_name = {edit.name: edit for edit in edits}
        tables = {
            name: RowsNow(txn, e, [*dict.fromkeys(keys[name])]) for name, e in by_name.items()
        }
        steps = [(edit, tables[edit.name].now) for edit in edits]
        made = [_all_made(steps, work) for work in zip(*works, strict=True)]
        for table in tables.values():
            table.store()
    except (Unusual, IvmError, PagestoreError, UnicodeEncodeError):
        return None
    return made


def _all_made(steps: Sequence[tuple[KeyedEdit, dict[Row, Row | None]]], work: Any) -> bool:
    """Make an edit after the other; return whether each changed a row, or undo them."""
    undo = list[tuple[dict[Row, Row | None], Row, Row | None]]()
    for (edit, now), (key, case, values) in zip(steps, work, strict=True):
        old = now[key]
        now[key] = new = edit.after(case, values, old)
        if new is old:
            for rows, before, row in reversed(undo):
                rows[before] = row
            return False
        undo.append((now, key, old))
    return True


def made_again(
    txn: Transaction, statement: Statement, kinds: Kinds, values: Sequence[Any]
) -> ListedAnswer | None:
    """Make an edit in a transaction that is given; return its answer, None if nothing was done."""
    catalog = unchanged_catalog(txn)
    plan: KeyedEdit | None = catalog and statement.plan(kinds, catalog)
    done = None if plan is None else plan.run(txn, [values])
    return None if plan is None or done is None else plan.answer(done)


def fitted(column: Column, values: Sequence[Any]) -> Sequence[Any]:
    """Return values as a column stores them.  Raises Unusual, SqlError for one that it does not."""
    kinds, type_ = {*map(type, values)}, column.type
    if type(None) in kinds:
        if not column.nullable:
            raise Unusual
        kinds.discard(type(None))
    own, least, most = _stored_as_given(type_)
    finite = type_ == DOUBLE and kinds == {float} and all(map(math.isfinite, filter(None, values)))
    if not finite and not kinds <= {own}:
        values = [_converted(value, type_) for value in values]
    if own is int:
        found = [one for one in values if one is not None] if None in values else values
        if found and not least <= min(found) <= max(found) <= most:
            raise Unusual
    return values


def _fitted_one(column: Column, value: Any) -> Any:
    """Return a value as a column stores it, as `fitted` does."""
    kind, least, most = _stored_as_given(column.type)
    if type(value) is kind and (kind is not int or least <= value <= most):
        return value
    return fitted(column, [value])[0]


@cache
def _stored_as_given(type_: SqlType) -> tuple[Any, int, int]:
    """Return of which class values are that a type stores as they are, and the bounds of numbers."""
    if type_.is_integer and type_.range:
        least, most = map(int, type_.range)
        return int, least, most
    return KEPT.get(type_), 0, 0


def _converted(value: Any, type_: SqlType) -> Any:
    known = constant(literal(value))
    if known is None:
        raise Unusual
    return of_column(known, type_)


def of_column(value: Typed, type_: SqlType) -> Any:
    """Return a constant as a column of a type stores it.  Raises SqlError if it has no value there."""
    if type_.is_nested and value.type != NULL:
        raise Unusual
    found = converted(value, type_, None).term
    assert isinstance(found, Lit)
    return found.value
