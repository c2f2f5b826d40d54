"""Queries answered: rules evaluated once, and rows in SQL's order and as often as it has them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from sqlglot import exp

from ivm.answer import Answer
from ivm.errors import RangeError, RuleTypeError
from ivm.lang.program import Program
from ivm.memory import MemoryUse
from ivm.names import MULTIPLICITY
from ivm.sql.errors import SqlError, written
from ivm.sql.queries.clauses import Rows
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Body, Builder, kept_interval
from ivm.sql.terms import VARIABLE, Atom, Define, Rule, Term, Typed, Var, substitute, variables
from ivm.sql.trees import Trees
from ivm.sql.types import BIGINT, INTERVAL, type_of_store
from ivm.wide import as_shown, is_encoded, repeated, side_by_side
from pagestore.host import KEYS_MAX, flags_of, numbers_of

if TYPE_CHECKING:
    import pyarrow as pa

ANSWER = "sql:answer"
MISFIT = re.compile(r" is (\S+), where (.+?) is wanted")  # see ivm/lang/infer.py
KINDS = {
    "number": "a number", "countable": "a number, a date or a timestamp", "string": "a text",
    "a date or a timestamp": "a date or a timestamp", "a number": "a number",
    "a number, a date or a timestamp": "a number, a date or a timestamp",
    "an int64 or a decimal": "a whole number or a DECIMAL",
}  # fmt: skip
PART = re.compile(r":part\d+$")
# functions of decimals of more than 18 digits
LONG = re.compile(r"decimal:(add|subtract|multiply|joined)\b")
Ask = Callable[[Program], Answer]  # evaluates rules; the answer is the head of the last one


class Finished(NamedTuple):
    """All rules of a query; whether its rows have multiplicities, and its columns."""

    rules: list[Rule]
    weighs: bool
    columns: list[tuple[str, Typed]]
    notes: list[str]
    costs: list[str]  # those of the notes that say what an edit costs beyond its change
    # the relations that have the columns, if one cannot have all of them
    wide: tuple[str, ...] = ()
    keys: int = 0  # how many columns of each of these tell the rows apart, and are not shown
    # how many of the first columns tell the rows apart: as few as are known to
    leading: int = 0
    # for each of these, the rules that it follows from, its own last
    groups: tuple[list[Rule], ...] = ()


def are_as_stored(rows: Rows) -> bool:
    """Return whether the columns of rows are shown as they are stored."""
    return not any(is_encoded(str(value.type)) for _, value in rows.columns)


def finish(
    builder: Builder, rows: Rows, name: str, names: Sequence[str], more: Sequence[Typed] = ()
) -> Finished:
    """Add the rules of a query's rows under a name; `more` values become columns after the others.

    If the columns are too many for one relation, each of several has some of them, after those that
    identify a row.
    """
    shown = [_writable(n) for n in (*names, *(f"sql order {n}" for n in range(len(more))))]
    values = [*(shown_time(v) for _, v in rows.columns), *more]
    identity = [] if len(values) <= KEYS_MAX else builder.identity(rows.body)
    if not 0 < len(identity) < KEYS_MAX or not builder.determines(
        rows.body, [v.term for v in identity]
    ):
        encoded = not are_as_stored(rows)
        view = builder.helper() if encoded else name
        finished = _finish(builder, rows.body, view, list(zip(shown, values, strict=True)))
        columns = typed(finished.columns[: len(rows.columns)], rows)
        return finished._replace(
            columns=columns, wide=(view,) * encoded, groups=(finished.rules,) * encoded
        )
    base, parts, columns = [*builder.rules], list[str](), list[tuple[str, Typed]]()
    groups = list[list[Rule]]()
    keys = [(f"sql key {n}", v) for n, v in enumerate(identity)]
    size, added, weighs = KEYS_MAX - len(keys), list[Rule](), bool(rows.body.weights)
    for first in range(0, len(values), size):
        builder.rules, view = [*base], builder.helper()
        some = list(zip(shown, values, strict=True))[first : first + size]
        columns += _finish(builder, rows.body, view, [*keys, *some]).columns[len(keys) :]
        parts.append(view)
        groups.append(builder.rules)
        added += builder.rules[len(base) :]
    builder.rules = [*base, *added]
    notes = [
        *builder.costs,
        *builder.notes,
        f"{len(values)} columns are kept in {len(parts)} relations",
    ]
    columns = typed(columns[: len(rows.columns)], rows)
    return Finished(
        builder.rules,
        weighs,
        columns,
        notes,
        builder.costs,
        tuple(parts),
        len(keys),
        groups=(*groups,),
    )


def typed(columns: list[tuple[str, Typed]], rows: Rows) -> list[tuple[str, Typed]]:
    """Return columns with the types of a query's rows."""
    return [
        (n, v._replace(type=column.type))
        for (n, v), (_, column) in zip(columns, rows.columns, strict=True)
    ]


def shown_time(value: Typed) -> Typed:
    """Return the time between two timestamps in microseconds, and any other value as it is."""
    return kept_interval(value)._replace(type=BIGINT) if value.type == INTERVAL else value


def _finish(
    builder: Builder, body: Body, name: str, outputs: Sequence[tuple[str, Typed]]
) -> Finished:
    """Add the rule of a body's rows under a name."""
    body = body.copy()
    columns: list[tuple[str, Typed]] = []
    renamed: dict[str, Term] = {}
    heads: list[Var] = []
    for column, value in outputs:
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
    terms = tuple(
        next((Var(old) for old, new in renamed.items() if new == head), head) for head in heads
    )
    if len(terms) > KEYS_MAX:
        raise SqlError(
            f"{name} has {len(terms)} columns, and {KEYS_MAX} is the most that tell the rows of a "
            "view apart: select fewer columns"
        )
    weighs = not builder.is_set(body, terms)
    leading = len(terms)
    while not weighs and leading > 1 and builder.determines(body, terms[: leading - 1]):
        leading -= 1
    if weighs:
        head, body, folds = builder.counted(name, terms, body)
        (fold,) = folds
        renamed[fold.result] = Var(MULTIPLICITY)
        builder.rule(head, body, (replace(fold, result=MULTIPLICITY),))
    else:
        builder.rule(Atom(name, terms), body)
    builder.rules[-1] = _with_names(builder.rules[-1], renamed)
    return Finished(
        [*builder.rules],
        weighs,
        columns,
        [*builder.costs, *builder.notes],
        builder.costs,
        leading=leading,
    )


def _with_names(rule: Rule, names: dict[str, Term]) -> Rule:
    """Return a rule with some variables renamed."""
    required = {*variables(*(substitute(Var(name), names) for name in rule.required))}
    return Rule(
        tuple(substitute(head, names) for head in rule.heads),
        tuple(substitute(literal, names) for literal in rule.body),
        tuple(
            replace(fold, args=tuple(substitute(arg, names) for arg in fold.args))
            for fold in rule.folds
        ),
        frozenset(required),
    )


def _writable(name: str) -> str:
    """Return a column's name as rules can write it."""
    return "".join("?" if letter in "`$\n\r" else letter for letter in name) or "?"


class Understood(NamedTuple):
    """A query as rules: several sets of them if its columns are in several relations."""

    builder: Builder
    rows: Rows
    finished: Finished
    parts: tuple[Trees, ...]

    def answer(self, asks: Iterable[Callable[[], Answer]]) -> Answer:
        """Return the rows as SQL has them, given what evaluates the rules of each part."""
        started, rows, finished = time.perf_counter(), self.rows, self.finished
        asked = []
        for trees, ask in zip(self.parts, asks, strict=True):
            try:
                asked.append(ask().to_arrow())
            except RangeError as error:
                raise in_words(error, self.builder, trees) from error
            except RuleTypeError as error:
                place = error.where.line, error.where.column
                raise misfit(error, trees.origins.get(place)) from error
        table = side_by_side(asked, finished.keys, finished.weighs) if finished.wide else asked[0]
        width = len(rows.columns)
        if finished.weighs:
            _count(table)
            table = repeated(table)
        if rows.order:
            table = _sorted(table, width, rows.order)
        first, end = rows.some
        table = table.slice(first, None if end is None else max(end - first, 0))
        table = as_shown(table.select(list(range(width))), [str(v.type) for _, v in rows.columns])
        table = table.rename_columns([n for n, _ in rows.columns])
        return Answer(table, time.perf_counter() - started)


def understood(queries: Queries, rows: Rows) -> Understood:
    """Return the rules of a query.  Raises SqlError."""
    if not rows.columns:
        raise SqlError("the query has no columns")
    builder = queries.builder
    bind(builder, rows.body)
    names = [n for n, _ in rows.columns]
    finished = finish(builder, rows, ANSWER, names, [v for v, _, _ in rows.order])
    parts = finished.groups if finished.wide else [finished.rules]
    return Understood(builder, rows, finished, tuple(Trees().add(rules) for rules in parts))


def answer(queries: Queries, rows: Rows, ask: Ask) -> Answer:
    """Evaluate a query once."""
    return answered(queries, rows, ask)[1]


def answered(queries: Queries, rows: Rows, ask: Ask) -> tuple[Understood, Answer]:
    """Return a query as rules, and their answer."""
    question = understood(queries, rows)
    return question, question.answer([partial(ask, trees.program) for trees in question.parts])


def _count(table: pa.Table) -> None:
    """Raise RoomError if rows that are repeated as often as their last column says take more memory
    than an evaluation may take.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    counts = numbers_of(table.column(table.num_columns - 1), np.int64)
    rows = int(counts.sum())
    size = 8 * table.num_columns * rows
    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            lengths = numbers_of(pc.binary_length(column).cast(pa.int64()), np.int64)
            size += int(lengths @ (counts * flags_of(column.is_valid())))
    MemoryUse(step="repeating rows").add(rows, size)


def in_words(error: RangeError, builder: Builder, trees: Trees, name: str = "") -> RangeError:
    """Return the error of a value that rules cannot compute, said of the expression of SQL that
    is at its place.

    The `builder` made the rules of the `trees`, for the view of a name.  Errors of other rules are
    returned as they are.
    """
    if PART.sub("", error.of) not in ("query", builder.name):
        return error
    origin = trees.origins.get((error.line, error.column))
    fold = builder.folded.get(trees.head(error.line) or error.of) if origin is None else None
    node = fold if origin is None else origin
    shown = "a value" if node is None else written(node)
    if node is not None and node.name.lower() == "failing":
        shown = f"{shown} ({node.expressions[1].name})"
    return RangeError(f"{name}: " * bool(name) + f"{shown} {_problem(error, fold)}")


def misfit(error: RuleTypeError, node: exp.Expr | None, whole: exp.Expr | None = None) -> SqlError:
    """Return the error of a type that does not fit, in an expression or in a whole statement."""
    place = whole if node is None else node
    words = MISFIT.search(error.reason)
    shown = "a function" if node is None else written(node)
    if words is None:
        return SqlError(f"{shown} does not take values of such types: CAST them", place)
    given, taken = (
        KINDS.get(kind) or str(type_of_store(kind))
        for kind in (words[1], words[2].partition(",")[0])
    )
    return SqlError(f"{shown} takes {taken}, and this is {given}: CAST it", place)


def _problem(error: RangeError, fold: exp.Expr | None) -> str:
    """Return what is wrong with a value, which may be of an aggregate, and what to write."""
    null = ", or write TRY(...), which gives null there" if fold is None else ""
    if error.total:
        type_ = {"int64": "BIGINT", "int32": "INTEGER"}.get(error.type, error.type.upper())
        wider = (
            f"DECIMAL(38, {error.type[:-1].partition(',')[2]})"
            if "decimal" in error.type
            else "HUGEINT"
        )
        return f"is {error.total}, beyond {type_}: CAST what it reads AS {wider}{null}"
    if LONG.match(error.term):
        return f"has more than 38 digits: CAST what it reads AS DOUBLE{null}"
    return "has no value in a row: TRY(...) and TRY_CAST give null there"


def bind(builder: Builder, body: Body) -> None:
    """Add an atom to a body that has none, since a rule needs one."""
    if not any(isinstance(literal, Atom) for literal in body.literals):
        builder.one(body)


def _sorted(table: pa.Table, width: int, order: Sequence[tuple[Typed, bool, bool]]) -> pa.Table:
    """Return rows in the order of the columns after the first, nulls first or last as each says."""
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
