"""What edits by key do: parts of a statement, as data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, NamedTuple

from ivm.sql.edits.target import Places
from ivm.sql.functions.dialects import converts
from ivm.sql.literals import constant, converted, literal
from ivm.sql.prepared.rows import Unusual
from ivm.sql.rules import Column
from ivm.sql.terms import Lit, Typed
from ivm.sql.types import BOOLEAN, DATE, DOUBLE, NULL, VARCHAR, SqlType

KEPT = {VARCHAR: str, DATE: date, BOOLEAN: bool}  # types whose values are stored as they are given


class Source(NamedTuple):
    """Where a value comes from: the values of the statement, by number, or a constant; `place` is
    that of a column to whose value a number is added, `sign` times, or nothing if there is none.
    """

    number: int | None = None
    constant: Any = None
    place: int | None = None
    sign: int = 1

    def value(self, values: Sequence[Any]) -> Any:
        """Return its own value."""
        return self.constant if self.number is None else values[self.number]

    def column(self, columns: Sequence[Sequence[Any]], rows: int) -> Sequence[Any]:
        """Return the values for many values of the statement, given by columns."""
        return [self.constant] * rows if self.number is None else columns[self.number]


class Case(NamedTuple):
    """What an edit does with the row of a key, if it meets all `tests`: columns of it get other
    values, by place, or it is `gone`; where no row has the key, a `new` one is added, if there is
    one.
    """

    where: tuple[Source, ...]  # the values of the key
    changed: tuple[tuple[int, Source], ...] | None = ()  # None if no row may have the key
    gone: bool = False
    new: tuple[Source, ...] = ()
    # the sides of comparisons of values and of the row, the second with the bits for less, equal and
    # greater (kernels/decide.py)
    tests: tuple[tuple[int, Source], ...] = ()


@dataclass(frozen=True, eq=False)
class Keyed:
    """An edit of a table by its keys, in one or several cases."""

    name: str
    columns: tuple[Column, ...]
    key: Places  # of the columns of the primary key; none for a bag
    cases: tuple[Case, ...]


def fitted(column: Column, values: Sequence[Any]) -> Sequence[Any]:
    """Return values as a column stores them.  Raises Unusual, SqlError for one that it does not."""
    kinds, type_ = {*map(type, values)}, column.type
    if type(None) in kinds:
        if not column.nullable:
            raise Unusual
        kinds.discard(type(None))
    class_, least, most = stored_as_given(type_)
    finite = type_ == DOUBLE and kinds == {float} and all(map(math.isfinite, filter(None, values)))
    if not finite and not kinds <= {class_}:
        values = [_converted(value, type_) for value in values]
    if class_ is int:
        numbers = [n for n in values if n is not None] if None in values else values
        if numbers and not least <= min(numbers) <= max(numbers) <= most:
            raise Unusual
    return values


@cache
def stored_as_given(type_: SqlType) -> tuple[Any, int, int]:
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
    if (type_.is_nested and value.type != NULL) or converts(value, type_):
        raise Unusual
    stored = converted(value, type_, None).term
    assert isinstance(stored, Lit)
    return stored.value
