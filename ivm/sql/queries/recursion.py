"""WITH RECURSIVE: a view that reads itself.

    WITH RECURSIVE r AS (SELECT ... UNION SELECT ... FROM r ...)      two rules for one view

`UNION ALL` keeps equal rows of different derivations apart, which a recursive view does not.
Unless columns that each step copies from one row alone tell the first rows apart, rows get a column
more, the keys of the rows that they follow from:

    v:part1(x, path) <- ..., path = string[k].
    v:part1(x, more) <- v:part1(_, path), ..., more = string:concat[path, "/", string[k]].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sqlglot import exp

from ivm.sql.conversions import convert
from ivm.sql.errors import SqlError, counted
from ivm.sql.queries.clauses import Rows, Translator
from ivm.sql.queries.row_numbers import copies
from ivm.sql.queries.scope import LAST, Scope
from ivm.sql.queries.sets import own
from ivm.sql.rules import Body, Builder, Column, Table
from ivm.sql.terms import Atom, Call, Lit, Typed, variables
from ivm.sql.types import MOST, VARCHAR
from pagestore.host import KEYS_MAX

PATH = Column("path", VARCHAR, False)
# what makes several rows of one
SEVERAL = (exp.Join, exp.Lateral, exp.Unnest, exp.Explode, exp.Values, exp.SetOperation)


def reads_itself(cte: exp.CTE) -> bool:
    """Return whether a CTE names itself."""
    return any(t.name.lower() == cte.alias.lower() for t in cte.this.find_all(exp.Table))


def cte(queries: Translator, node: exp.CTE, names: list[str]) -> Callable[[Scope | None], Rows]:
    """Return a function that gives the rows of a recursive CTE; its rules are added at once."""
    union = node.this
    if not isinstance(union, exp.Union):
        raise SqlError(f"{node.alias} reads itself: write `first rows UNION further rows`", node)
    for key in LAST:
        if clause := union.args.get(key):
            word = key.upper() + " BY" * (key == "order")
            raise SqlError(
                f"{word} in a recursive query: limit it by WHERE, or in what reads it", clause
            )
    builder = queries.builder
    first, step = queries.query(union.this, None).named(names, node), union.expression
    if any(isinstance(part, exp.AggFunc | exp.Window) for part in step.walk()):
        raise SqlError(
            f"{node.alias} aggregates itself: aggregate what it derives in a query of its own", node
        )
    paths = not union.args.get("distinct") and not _is_apart(builder, first, node, step)
    if paths and first.body.weights:
        body, values = copies(builder, first.body, first.columns)
        first = Rows(body, [(n, v) for (n, _), v in zip(first.columns, values, strict=True)])
    if paths and any(step.find_all(exp.Distinct, exp.Group)):
        raise SqlError(
            f"{node.alias} by UNION ALL takes a row once in each step: write UNION", step
        )
    columns = [Column(n, v.type, builder.may_be_null(first.body, v)) for n, v in first.columns]
    if len(columns) + paths > KEYS_MAX:
        raise SqlError(
            f"{node.alias} has {len(columns)} columns, and {KEYS_MAX - paths} is the most"
        )
    own_rows = _Recursive(builder, builder.helper(), columns, paths)
    further = _further(queries, node, step, own_rows)
    for part, own_paths in ((first, []), (further, own_rows.paths)):
        body = part.body.copy()
        values = [
            _widest(convert(v, c.type, node))
            for (_, v), c in zip(part.columns, own_rows.columns, strict=True)
        ]
        if paths:
            body, values = _with_path(builder, node, body, values, own_paths)
        terms = tuple(own(builder, body, value).term for value in values)
        builder.rule(Atom(own_rows.name, terms), body)
    return own_rows.read


@dataclass
class _Recursive:
    """The rows of a recursive CTE, and the `paths` of those that its step reads."""

    builder: Builder
    name: str
    columns: list[Column]
    with_path: bool
    paths: list[Typed] = field(default_factory=list)

    def read(self, scope: Scope | None) -> Rows:
        """Return the rows, for a query or for the step."""
        columns = (*self.columns, *[PATH] * self.with_path)
        body = Body(scope.body if scope else None)
        values = self.builder.scan(Table(self.name, columns, (*range(len(columns)),)), body)
        self.paths += values[len(self.columns) :]
        return Rows(body, [(c.name, v) for c, v in zip(self.columns, values, strict=False)])

    def admit_nulls(self, of: Rows) -> bool:
        """Let columns be null that are null in some rows; return whether all could be already."""
        null = [
            c.nullable or self.builder.may_be_null(of.body, v)
            for c, (_, v) in zip(self.columns, of.columns, strict=True)
        ]
        before, self.columns = (
            self.columns,
            [replace(c, nullable=n) for c, n in zip(self.columns, null, strict=True)],
        )
        return before == self.columns


def _widest(value: Typed) -> Typed:
    """Return a decimal as one of all digits, which the sums of further rows are."""
    if not value.type.is_decimal:
        return value
    sizes = (value.type.scale, MOST) if value.type.wide else (value.type.scale,)
    return value._replace(
        term=Call("decimal", (value.term, *(Lit(size, "int64") for size in sizes)))
    )


def _further(queries: Translator, node: exp.CTE, step: exp.Expr, rows: _Recursive) -> Rows:
    """Return the rows of the step, in which the name of the CTE has `rows`.

    What the step makes null of rows that are not may be null in those that it reads: it is
    translated once more then.
    """
    name = node.alias.lower()
    before, rules = queries.ctes.get(name), len(queries.builder.rules)
    queries.ctes[name] = rows.read
    try:
        further = queries.query(step, None)
        if len(further.columns) != len(rows.columns):
            have = f"{counted(len(rows.columns), 'column')} first and {len(further.columns)} after"
            raise SqlError(f"{node.alias} has {have}", node)
        while not rows.admit_nulls(further):
            unread, rows.paths = queries.builder.rules[rules:], []
            further = queries.query(step, None)
            queries.builder.leave_out(unread)
        return further
    finally:
        if before is not None:
            queries.ctes[name] = before


def _with_path(
    builder: Builder, node: exp.CTE, body: Body, values: list[Typed], before: list[Typed]
) -> tuple[Body, list[Typed]]:
    """Return rows with their path: the paths of the rows before, and the keys of the others."""
    if body.weights:
        raise SqlError(
            f"{node.alias} by UNION ALL reads rows that may be equal, which is not kept: write "
            f"UNION",
            node,
        )
    paths = [builder.resolve(value.term) for value in before]
    # an outer join has them as identity
    parts = [path for path in paths if {*variables(path)} <= body.columns.keys()]
    known = {*variables(*parts)}
    for one in builder.identity(body):
        if not {*variables(one.term)} & known:
            shown = one.term if one.type.is_nested else convert(one, VARCHAR, node).term
            parts.append(Call("coalesce", (shown, Lit("\\N", "string"))) if one.nullable else shown)
    spaced = [term for part in parts for term in (Lit("/", "string"), part)]
    path = Call("string:concat", (*spaced, Lit("/", "string")))
    return body, [*values, builder.define(body, Typed(path, VARCHAR, False))]


def _is_apart(builder: Builder, first: Rows, node: exp.CTE, step: exp.Expr) -> bool:
    """Return whether UNION ALL derives as UNION does: each row leads to at most one, and what it
    copies tells the first rows apart.
    """
    name = node.alias.lower()
    if [t.name.lower() for t in step.find_all(exp.Table)] != [name] or any(step.find_all(*SEVERAL)):
        return False
    if not isinstance(step, exp.Select) or not isinstance(step.args["from_"].this, exp.Table):
        return builder.is_set(first.body, [])
    copied = [
        value.term
        for (own_name, value), item in zip(first.columns, step.expressions, strict=False)
        if isinstance(item, exp.Column) and item.name.lower() == own_name.lower()
    ]
    return builder.is_set(first.body, copied)
