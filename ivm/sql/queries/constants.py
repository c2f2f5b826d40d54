"""Many rows of constants as one table, a rule for thousands of them.

VALUES (7, 'a'), (9, 'b'), ...     v:part1(n, a, b) <- n = int:range[0, 4096, 1],
                                       a = int[string:word['"7","9",...', n]], b = ...
x IN (7, 9, ...)                   v:part1(x) <- v:part2(n), x = int[...]
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.conversions import common_type, convert
from ivm.sql.errors import SqlError
from ivm.sql.literals import constant, converted
from ivm.sql.queries import subqueries
from ivm.sql.queries.clauses import Rows, Translator
from ivm.sql.queries.scope import Scope
from ivm.sql.rules import Body, Builder, Column, Table, chunks
from ivm.sql.terms import Atom, Call, Lit, Literal, Typed
from ivm.sql.types import BIGINT, NULL, VARCHAR, SqlType

FEW = 32  # rows or values that a rule or an equation each is made of sooner
COMPUTED_MAX = 2_000  # rows that are a rule each
SIZE = 1 << 12  # rows of one rule, whose constants are read as one text
# types that texts are read as, and numbers
READ = ("VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP", "TIME", "UUID", "NULL")


def rows(
    queries: Translator, given: Sequence[list[exp.Expr]], node: exp.Expr, outer: Scope | None
) -> Rows | None:
    """Return the rows of VALUES as those of one table; None for few, for what has to be computed,
    and for constants of other types than texts are read as.  Raises SqlError for many of these.
    """
    if len(given) < FEW:
        return None
    listed = [[constant(item.unnest()) for item in column] for column in zip(*given, strict=True)]
    known = [[value for value in column if value is not None] for column in listed]
    types = [common_type(column, node) for column in known]
    if known != listed or not all(map(_is_read, types)):
        if len(given) > COMPUTED_MAX:
            raise SqlError(
                f"VALUES of {len(given):,} rows takes constants, and computes at most "
                f"{COMPUTED_MAX:,} rows: put the others into a table",
                node,
            )
        return None
    builder, body = queries.builder, Body(outer.body if outer else None)
    stored = [n for n, type_ in enumerate(types) if type_ != NULL]
    shown = [Typed(Lit(None, NULL.store), NULL, True) for _ in types]
    number = builder.variable(BIGINT, False)
    for places in chunks(len(stored), (), 1) or [()]:
        placed = [stored[n] for n in places]
        columns = [_in(types[n], known[n], node) for n in placed]
        table = _table(builder, [types[n] for n in placed], columns, len(given), True)
        for n, value in zip(placed, builder.scan(table, body, [number])[1:], strict=True):
            shown[n] = value
    return Rows(body, [(f"col{n}", value) for n, value in enumerate(shown)])


def among(
    queries: Translator, left: Typed, values: Sequence[Typed], scope: Scope, holds: bool
) -> list[Literal] | None:
    """Return literals that hold where a value is among constants of its type, of which none is
    null, or is known not to be; None for a type that texts are not read as.
    """
    builder, type_ = queries.builder, values[0].type
    if not _is_read(type_):
        return None
    distinct = [*dict.fromkeys(_in(type_, values, None))]
    table = _table(builder, [type_], [distinct], len(distinct), False)
    body = Body(scope.body)
    (value,) = builder.scan(table, body)
    return subqueries.among(queries, left, value, body, scope, holds)


def _is_read(type_: SqlType) -> bool:
    return type_.is_number or type_.name in READ


def _in(type_: SqlType, values: Sequence[Typed], node: exp.Expr | None) -> list[str | None]:
    """Return constants in a type as the texts that are read as them."""
    if type_ == VARCHAR or type_.is_integer:
        given = [value.term.value for value in values if value.type == type_]  # type: ignore[union-attr]
        if len(given) == len(values) and None not in given:
            return [*map(str, given)]
    texts = [converted(converted(value, type_, node), VARCHAR, node).term for value in values]
    return [text.value for text in texts]  # type: ignore[union-attr,misc]


def _table(
    builder: Builder,
    types: Sequence[SqlType],
    columns: Sequence[Sequence[str | None]],
    count: int,
    numbered: bool,
) -> Table:
    """Return a table of constants, with their number before them if they are `numbered`."""
    named = [
        Column(f"c{n}", type_, None in texts)
        for n, (type_, texts) in enumerate(zip(types, columns, strict=True))
    ]
    first = [Column("number", BIGINT, False)] * numbered
    table = Table(builder.helper(), (*first, *named), (0,) if numbered else (*range(len(named)),))
    for start in range(0, count, SIZE):
        body, end = Body(), min(count, start + SIZE)
        n = builder.scan(builder.numbers(start, end), body)[0].term
        place = Call("-", (n, Lit(start, "int64")))
        terms = []
        for column, texts in zip(named, columns, strict=True):
            listed = json.dumps(texts[start:end], ensure_ascii=False)[1:-1]
            text = Call("string:word", (Lit(listed, "string"), place))
            read = Call("try", (text,)) if column.nullable else text
            value = convert(Typed(read, VARCHAR, column.nullable), column.type)
            terms.append(builder.define(body, value).term)
        builder.rule(Atom(table.name, (*(n,) * numbered, *terms)), body)
    return table
