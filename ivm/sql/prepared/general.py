"""Questions that are compiled for any values of the places where these are only compared.

SELECT city, sum(n) FROM sale WHERE n > :given0 GROUP BY city LIMIT :given1

given0    a place in the plan: each value is put there when the question is asked
given1    a constant: for another value the question is compiled again
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.answer import Answer
from ivm.errors import IvmError
from ivm.lang.ir import Const
from ivm.sql.answers import Understood, understood
from ivm.sql.conversions import alike
from ivm.sql.errors import SqlError
from ivm.sql.literals import constant, literal
from ivm.sql.prepared.cache import Asked, KeptQuestion, Statement
from ivm.sql.prepared.seeks import COMPARED, compared_with
from ivm.sql.prepared.shape import number_of
from ivm.sql.queries.expressions import GIVEN
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder
from ivm.sql.session import Reader
from ivm.sql.system.session import BESIDE, MOMENTARY
from ivm.sql.terms import Lit, Place, Typed, Var
from ivm.sql.types import BIGINT, DATE, TIMESTAMP, VARCHAR, SqlType
from pagestore.errors import PagestoreError

CONDITIONS: tuple[type[exp.Expr], ...] = (*COMPARED, exp.And, exp.Or, exp.Not, exp.Paren)
CLAUSES = exp.Where, exp.Having, exp.Join, exp.Qualify
# what a query has around its conditions, by which no column is named
AROUND = exp.Subquery, exp.Exists, exp.From, exp.CTE, exp.With, exp.SetOperation, exp.In
PARTS = "where", "having", "joins", "qualify", "from_", "with_"  # of a SELECT that may have them
ITSELF = Var("x")
NONE_FREE = frozenset[int]()
SLOW_MOST = 3  # answers in a row that take long until a question is compiled for its values
SHORT = 0.02  # seconds that an answer may take, though it took less when it was compiled


def ask_given(
    asked: Asked,
    reader: Reader,
    statement: Statement,
    dialect: str,
    values: list[Any],
    own: tuple[type, ...],
    texts: tuple[str, ...],
    read_places: Callable[[], list[exp.Expr]],
    read_constants: Callable[[], list[tuple[exp.Expr, bool]]],
) -> Answer | None:
    """Answer a question that is compiled for any values; None if it is not, or if evaluating it
    takes so long that compiling it for its values is the lesser part.

    `own` are the types of the values, and `texts` what they are written as.  The text is read as
    statements with places for its values, and with the values.
    """
    free = statement.free.get(own)
    if free == NONE_FREE:
        return None
    with suppress(SqlglotError, PagestoreError, IvmError):
        if free and (kept := asked.questions.get(_key(statement, dialect, own, texts))):
            if (given := _given(kept.types, values)) is None:
                return None
            started = time.perf_counter()
            answer = kept.answer(reader, given)
            is_slow = time.perf_counter() - started > 2 * statement.seconds + SHORT
            statement.slow = statement.slow + 1 if is_slow else 0
            if statement.slow == SLOW_MOST:
                statement.free[own] = NONE_FREE
            if answer is not None:
                return answer
        if reader.edited is not None:
            return None
        statement.free[own] = NONE_FREE  # unless it is found to be compiled for any values
        (node, *others), ((original, _), *_) = read_places(), read_constants()
        if not others and isinstance(node, exp.Query) and BESIDE not in node.meta:
            answer, first = _ask_first(reader, node, original, values)
            if first is not None:
                statement.free[own] = frozenset(first.types)
                asked.keep(_key(statement, dialect, own, texts), first)
            return answer
    return None


def _key(statement: Statement, dialect: str, own: tuple[type, ...], texts: tuple[str, ...]) -> Any:
    """Return by what a question is kept: all but the values that may be any."""
    free = statement.free[own]
    return statement.text, dialect, own, tuple("" if n in free else t for n, t in enumerate(texts))


def _ask_first(
    reader: Reader, node: exp.Expr, original: exp.Expr, values: list[Any]
) -> tuple[Answer | None, KeptQuestion | None]:
    """Return the answer of a question for some values, and it compiled for any; None if all of
    them are constants in it.  The `original` has the values.
    """
    places = _with_places(node, values)
    if not places or not _means(node, original, values):
        return None, None
    with reader.catalog() as catalog:  # within it, both are of one version
        queries = Queries(Builder("sql"), catalog.schema())
        rules = understood(queries, queries.query(node, None, top=True))
        types = {n: place.typed.type for n, place in places.items() if place.typed is not None}
        given = _given(types, values) if all(map(_has_places, types.values())) else None
        if not given:
            return None, None
        answer = rules.answer([partial(reader.ask, trees.program, given) for trees in rules.parts])
    kept = compiled(reader, node, rules)
    return answer, None if kept is None else kept._replace(types=types)


def compiled(reader: Reader, node: exp.Expr, rules: Understood) -> KeptQuestion | None:
    """Return a query that was asked, with its plans; None if it means another thing the next time."""
    catalogs = [catalog for _, catalog in reader.asked]
    same = len(catalogs) == len(rules.parts) and all(c is catalogs[0] for c in catalogs)
    if MOMENTARY in node.meta or not same:
        return None
    questions = tuple(question for question, _ in reader.asked)
    return KeptQuestion(questions, catalogs[0], reader.host.store.texts_removed, node, rules)


def _given(types: Mapping[int, SqlType], values: Sequence[Any]) -> dict[int, Const] | None:
    """Return the constants of places by their numbers; None if a value is not one of its place's
    type.
    """
    given = dict[int, Const]()
    for number, type_ in types.items():
        if (const := _of_type(values[number], type_)) is None:
            return None
        given[number] = const
    return given


def _with_places(node: exp.Expr, values: Sequence[Any]) -> dict[int, Place]:
    """Let values that are only compared with what has a type of its own stand for places, and
    others be constants; return the places by their numbers.
    """
    leaves = [(number_of(leaf.name), leaf) for leaf in node.find_all(exp.Placeholder)]
    bound = {number for number, leaf in leaves if not _is_compared(leaf)}
    places = {number: Place(number) for number, _ in leaves if number not in bound}
    for number, leaf in leaves:
        if number in places:
            leaf.meta[GIVEN] = places[number]
        else:
            leaf.replace(literal(values[number]))
    return places


def _is_compared(place: exp.Expr) -> bool:
    """Return whether a place is a side of a comparison in a condition, by which nothing is named."""
    test, other = compared_with(place)
    if isinstance(place.parent, exp.In) and place.arg_key == "expressions":
        test, other = place.parent, place.parent.this
    if test is None or other is None or other.find(exp.Placeholder):
        return False
    if not other.find(exp.Column, exp.AggFunc):
        return False
    while isinstance(test.parent, CONDITIONS):
        test = test.parent
    return isinstance(test.parent, CLAUSES) and not _is_shown(test.parent)


def _is_shown(clause: exp.Expr) -> bool:
    """Return whether a clause is part of an expression that a query shows, groups or sorts by, or
    of anything else that may have its text as a name.
    """
    outer = clause.parent
    if outer is None:
        return False
    if isinstance(outer, exp.Select):
        known = clause.arg_key in PARTS
    else:
        known = isinstance(outer, (*AROUND, *CONDITIONS, *CLAUSES))
    return not known or _is_shown(outer)


def _means(node: exp.Expr, original: exp.Expr, values: Sequence[Any]) -> bool:
    """Return whether a tree with places is the original once their values are put there, so that
    no dialect reads such a value as anything else.
    """
    whole = node.copy()
    for leaf in [*whole.find_all(exp.Placeholder)]:
        leaf.replace(literal(values[number_of(leaf.name)]))
    return bool(whole.sql(dialect="duckdb") == original.sql(dialect="duckdb"))


def _has_places(type_: SqlType) -> bool:
    """Return whether the words of a type are those of its values, which have an order."""
    plain = type_ in (VARCHAR, DATE, TIMESTAMP) or type_.name == "DOUBLE"
    whole = type_.is_integer and type_.store == BIGINT.store
    return plain or whole or (type_.is_decimal and not type_.wide)


def _of_type(value: Any, type_: SqlType) -> Const | None:
    """Return a value as the constant that is compared with a column of a type; None if the column
    is compared in another type.
    """
    with suppress(SqlError):
        given = constant(node := literal(value))
        column = Typed(ITSELF, type_, False)
        column, given = (column, given) if given is None else alike(node, column, given)
        if given is not None and column.term == ITSELF and isinstance(given.term, Lit):
            value, store = given.term.value, given.term.store
            return None if value is None or store != type_.store else Const(value, store)
    return None
