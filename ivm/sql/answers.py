"""Queries of SQL answered: rules evaluated once, and rows in the order and as often as SQL has them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from ivm.answer import Answer
from ivm.bag import MULTIPLICITY, repeated
from ivm.sql.errors import SqlError
from ivm.sql.queries.clauses import Rows
from ivm.sql.queries.query import Queries
from ivm.sql.rules import KEYS_MAX, Body, Builder
from ivm.sql.terms import VARIABLE, Atom, Define, Rule, Term, Typed, Var, substitute, variables

if TYPE_CHECKING:
    import pyarrow as pa

ANSWER = "sql:answer"
Ask = Callable[[str], Answer]  # evaluates rules; the answer is the head of the last one


class Finished(NamedTuple):
    """The text of all rules of a query; whether its rows have multiplicities, and its columns."""

    text: str
    weighs: bool
    columns: list[tuple[str, Typed]]
    notes: list[str]
    uses_one: bool


def finish(builder: Builder, rows: Rows, name: str, names: Sequence[str], more: Sequence[Typed] = ()) -> Finished:
    """Add the rule of a query's rows under a name; `more` values become columns after the others."""
    body = rows.body.copy()
    values = [v for _, v in rows.columns]
    columns: list[tuple[str, Typed]] = []
    renamed: dict[str, Term] = {}
    heads: list[Var] = []
    shown = [_writable(n) for n in (*names, *(f"sql order {n}" for n in range(len(more))))]
    for column, value in zip(shown, [*values, *more], strict=True):
        if VARIABLE.fullmatch(column) or column == MULTIPLICITY:
            raise SqlError(f"no column can be named {column}: give it another alias")
        term = builder.resolve(value.term)
        nullable = builder.may_be_null(body, value)
        if isinstance(term, Var) and term.name not in renamed and term.name in body.columns:
            renamed[term.name] = Var(column)
        else:
            body.literals.append(Define(Var(column), term))
            body.columns[column] = Typed(Var(column), value.type, nullable)
        heads.append(Var(column))
        columns.append((column, value._replace(nullable=nullable)))
    terms = tuple(next((Var(old) for old, new in renamed.items() if new == head), head) for head in heads)
    if len(terms) > KEYS_MAX:
        raise SqlError(
            f"{name} has {len(terms)} columns, and {KEYS_MAX} is the most that tell the rows of a view apart: select "
            "fewer columns"
        )
    weighs = not builder.is_set(body, terms)
    if weighs:
        head, body, folds = builder.counted(name, terms, body)
        (fold,) = folds
        renamed[fold.result] = Var(MULTIPLICITY)
        builder.rule(head, body, (replace(fold, result=MULTIPLICITY),))
    else:
        builder.rule(Atom(name, terms), body)
    builder.rules[-1] = _with_names(builder.rules[-1], renamed)
    return Finished(builder.text(), weighs, columns[: len(values)], builder.notes, builder.uses_one)


def _with_names(rule: Rule, names: dict[str, Term]) -> Rule:
    """Return a rule with some variables renamed."""
    required = {v for name in rule.required for v in variables(substitute(Var(name), names))}
    return Rule(
        tuple(substitute(head, names) for head in rule.heads),
        tuple(substitute(one, names) for one in rule.body),
        tuple(replace(fold, args=tuple(substitute(arg, names) for arg in fold.args)) for fold in rule.folds),
        frozenset(required),
    )


def _writable(name: str) -> str:
    """Return a column's name as rules can write it."""
    return "".join("?" if letter in "`$\n\r" else letter for letter in name) or "?"


def answer(queries: Queries, rows: Rows, ask: Ask) -> Answer:
    """Evaluate a query once."""
    started = time.perf_counter()
    if not rows.columns:
        raise SqlError("the query has no columns")
    bind(queries.builder, rows.body)
    finished = finish(queries.builder, rows, ANSWER, [n for n, _ in rows.columns], [v for v, _, _ in rows.order])
    table = ask(finished.text).to_arrow()
    width = len(rows.columns)
    if finished.weighs:
        table = repeated(table)
    if rows.order:
        table = _sorted(table, width, rows.order)
    table = table.select(list(range(width))).rename_columns([n for n, _ in rows.columns])
    return Answer(table, time.perf_counter() - started)


def bind(builder: Builder, body: Body) -> None:
    """Add an atom to a body that has none, since a rule needs one."""
    if not any(isinstance(one, Atom) for one in body.literals):
        builder.one(body)


def _sorted(table: pa.Table, width: int, order: Sequence[tuple[Typed, bool, bool]]) -> pa.Table:
    """Return rows in the order of the columns after the first ones, nulls first or last as each says."""
    import pyarrow as pa
    import pyarrow.compute as pc

    keys: list[tuple[str, str]] = []
    for n, (_, desc, nulls_first) in enumerate(order):
        column = table.column(width + n)
        flags = pc.is_null(column)  # type: ignore[attr-defined,unused-ignore]
        for name, values, way in (
            (f"sql null {n}", flags.cast(pa.int8()), "descending" if nulls_first else "ascending"),
            (f"sql key {n}", column, "descending" if desc else "ascending"),
        ):
            table = table.append_column(name, values)
            keys.append((name, way))
    return table.sort_by(keys)
