"""GROUP BY: each aggregate becomes a function of the group, and the groups' rows join them.

    SELECT a, count(*), sum(b), min(b) FROM t GROUP BY a

    v:part1[a] = n, v:part2[a] = s, v:part3[a] = m <-
      agg<<n = count(), s = sum(c), m = sum(d)>> t[k] = (a, b?), c = coalesce[b, 0], d = if[is_null[b], 0, 1].

    v:part1[a] = n, v:part2[a] = s, v:part3[a] = m, sum = if[m = 0, null["int64"], s]

Aggregates of the same rows are one rule, which reads them once. One that skips nulls otherwise has
no row for a group of nulls only, which a union adds.

    v:part4[a] = s <- agg<<s = min(b)>> t[k] = (a, b).        rows whose b is null are left out,
    v:part5[a] = s <- v:part4[a] = s.                         so that a group may have none: null
    v:part5[a] = s <- v:part1[a] = _, !v:part4[a] = _, s = null["int64"].

Without GROUP BY there is one group, which has a row even if nothing is in it.  A `DISTINCT`
aggregate reads a helper view of distinct values.  Rows with multiplicities weigh as much in counts,
sums and averages; for all other aggregates they are numbered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.names import ONE
from ivm.sql.queries.expressions import Expressions, Subqueries
from ivm.sql.queries.folds.aggregate import Aggregate, Group, Made, join_around, together, wanted
from ivm.sql.queries.folds.kinds import made
from ivm.sql.queries.scope import Scope, text_of
from ivm.sql.rules import Body, Builder, Column, Table, column_of
from ivm.sql.terms import (
    Atom,
    Call,
    Define,
    Either,
    Lit,
    Literal,
    Rule,
    Typed,
    Var,
    bound,
    variables,
)
from ivm.sql.types import INTEGER

AGGREGATES = (exp.AggFunc, exp.GroupConcat, exp.Filter, exp.WithinGroup, exp.AnyValue)
WINDOW_ONLY = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue,
    exp.LastValue, exp.NthValue, exp.PercentRank, exp.CumeDist,
)  # fmt: skip


def aggregates_in(nodes: Sequence[exp.Expr | None]) -> list[exp.Expr]:
    """Return the aggregates of expressions, each once; not of subqueries, nor window functions."""
    by_text: dict[str, exp.Expr] = {}
    for node in nodes:
        if node is not None:
            _collect(node, by_text)
    return list(by_text.values())


def _collect(whole: exp.Expr, by_text: dict[str, exp.Expr]) -> None:
    left = [whole]
    while left:
        node = left.pop()
        if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
            continue
        if isinstance(node, exp.Window):  # its own function is none, but aggregates inside are
            left += reversed(_window_parts(node))
        elif is_aggregate(node):
            by_text.setdefault(text_of(node), node)
        else:
            left += reversed([*node.iter_expressions()])


def _window_parts(node: exp.Window) -> list[exp.Expr]:
    inner = node.this
    while isinstance(inner, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        inner = inner.this
    parts = [*inner.iter_expressions(), *(node.args.get("partition_by") or ())]
    if order := node.args.get("order"):
        parts += [item.this for item in order.expressions]
    return parts


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate, with its FILTER and WITHIN GROUP."""
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        return is_aggregate(node.this)
    return isinstance(node, AGGREGATES) and not isinstance(node, WINDOW_ONLY)


def markers_among(found: list[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Return what tells the sets of GROUP BY apart, and the other aggregates."""
    markers: list[exp.Expr] = [n for n in found if isinstance(n, exp.Grouping | exp.GroupingId)]
    return markers, [node for node in found if node not in markers]


class Grouping(Group):
    """The groups of a body, and the aggregates over them."""

    presents = True

    def __init__(
        self,
        builder: Builder,
        scope: Scope,
        subqueries: Subqueries,
        groups: list[Typed],
        single: bool,
        nodes: Sequence[exp.Expr],
    ) -> None:
        """`groups` are values of GROUP BY, `nodes` aggregates; if `single`, no rows are a group."""
        body = scope.body
        super().__init__(builder, body, [])
        self.scope, self.subqueries, self.single, self.nodes = scope, subqueries, single, nodes
        self.groups = [builder.define(body, part) for part in groups]
        join_around(Expressions(builder, scope, subqueries), nodes)
        self._dummy = False
        if single and not builder.carried(body):
            builder.uses_one = self._dummy = True
            new = builder.variable(INTEGER, False)
            assert isinstance(new.term, Var)
            is_read = any(isinstance(part, Atom) for part in body.literals)
            none = Define(new.term, Lit(0, "int64"))
            body.literals.append(none if is_read else Atom(ONE, (new.term,)))
            body.columns[new.term.name] = new
            self.groups = [new]
        self.around = builder.carried(body, [part.term for part in self.groups])
        self.key = [*(self._outer(name) for name in self.around), *self.groups]

    def _of_needed(self, rule: Rule) -> Rule:
        """Return an aggregate over alternatives as one over a helper view of what tells their rows
        apart and what it reads, since rules would keep a column of each variable of the tables.
        """
        if not rule.folds or not any(isinstance(literal, Either) for literal in rule.body):
            return rule
        body, builder = self.scope.body, self.builder
        after = {literal.var.name: literal for literal in rule.body if isinstance(literal, Define)}
        left: list[Literal] = [literal for literal in rule.body if not isinstance(literal, Define)]
        before = list[Literal]()
        while left:
            before.append(left.pop(0))
            left += [after.pop(name) for name in variables(before[-1]) if name in after]
        terms = [term for head in rule.heads for term in head.keys]
        terms += [term for fold in rule.folds for term in fold.args]
        terms += [literal.term for literal in (*builder.identity(body), *after.values())]  # type: ignore[attr-defined]
        read = variables(*terms)
        there, known = bound(before), builder.closure(body, read)
        read += sorted(there - known)
        names = [name for name in dict.fromkeys(read) if name not in after]
        if not there.issuperset(names):
            return rule
        row = tuple(Var(name) for name in names)
        nullable = tuple(self._may_be_null(name) for name in names)
        kept = Atom(builder.projected(tuple(before), row, body), row, (), nullable)
        return replace(rule, body=(kept, *after.values()))

    def _may_be_null(self, name: str) -> bool:
        """Return whether a variable of the body may be null, which no multiplicity is."""
        if name in self.around:
            return self._outer(name).nullable
        body = self.scope.body
        return name in body.columns and self.builder.may_be_null(body, body.columns[name])

    def _outer(self, name: str) -> Typed:
        """Return a variable of the query around, which is not null if this query requires it."""
        value = column_of(self.scope.body.outer, name)
        return value._replace(nullable=value.nullable and name not in self.scope.body.required)

    def evaluate(self) -> tuple[Body, dict[str, Typed], list[Typed]]:
        """Return a body of one row for each group, aggregates by text, and the groups' columns."""
        before = len(self.builder.rules)
        each = {text_of(node): self._made(node) for node in self.nodes}
        if len(self.builder.rules) > before + 1:
            self.builder.rules[before:] = together(self.builder.rules[before:])
        for place in range(before, len(self.builder.rules)):
            self.builder.rules[place] = self._of_needed(self.builder.rules[place])
        base = self._base([*each.values()])
        body = Body(self.scope.body.outer)
        given = [self._outer(name) for name in self.around]
        key = self.builder.scan(base, body, given)[: len(self.key)]
        values = {}
        for text, one in each.items():
            table = one.table if one.total and not self.single else self._completed(one, base)
            if table is base:
                atom = body.literals[0]
                assert isinstance(atom, Atom)
                value = next(t for t in body.columns.values() if t.term == atom.values[-1])
            else:
                value = self.builder.scan(table, body, key)[-1]
            values[text] = self._unless_null(value, one, body, key)
        key_here = key[len(self.around) :]
        fewest = self.builder.fewest(self.scope.body, self.groups)
        if len(fewest) < len(key_here):
            places = [self.groups.index(value) for value in fewest]
            self.builder.tells_apart(body, [key_here[place] for place in places], key_here)
        return body, values, [] if self._dummy else key_here

    def _unless_null(self, value: Typed, of: Made, body: Body, key: list[Typed]) -> Typed:
        """Return the value of an aggregate, null for a group whose values all are."""
        if of.present is None:
            return value
        present = self.builder.scan(of.present, body, key)[-1]
        none = Call("=", (present.term, Lit(0, "int64")))
        term = Call("if", (none, of.default, value.term))
        return self.builder.define(body, Typed(term, value.type, True))

    def _base(self, made: list[Made]) -> Table:
        """Return a table that has each group once."""
        body, builder = self.scope.body, self.builder
        if self._dummy:
            return Table(ONE, (Column("g", INTEGER, False),), ())
        if self.single:
            return self._domain()
        for aggregate in made:
            if aggregate.total:
                return aggregate.table
        name = builder.helper()
        builder.rule(Atom(name, tuple(value.term for value in self.key)), body)
        return Table(name, self.columns(), (*range(len(self.key)),))

    def _domain(self) -> Table:
        """Return a table of the values that the query around has for this subquery's variables."""
        outer = self.scope.body.outer
        assert outer is not None
        terms = tuple(value.term for value in self.key)
        columns = tuple(
            Column(f"g{n}", outer_value.type, outer_value.nullable)
            for n, outer_value in enumerate(self._in_domain(value) for value in self.around)
        )
        name = self.builder.projected(self.builder.closed(outer, self.around), terms, outer)
        return Table(name, columns, (*range(len(self.key)),))

    def _in_domain(self, name: str) -> Typed:
        """Return a variable of the query around as that has it."""
        outer = self.scope.body.outer
        value = column_of(outer, name)
        return value._replace(
            nullable=value.nullable and (outer is None or name not in outer.required)
        )

    def _completed(self, aggregate: Made, base: Table) -> Table:
        """Return a function that has the default for groups without a row."""
        missing = Body()
        keys = self.builder.scan(base, missing)[: len(self.key)]
        return self.builder.completed(aggregate.table, missing, keys, aggregate.empty)

    # -- one aggregate

    def _made(self, node: exp.Expr) -> Made:
        aggregate = wanted(node)
        body = self.scope.body.copy()
        scope = Scope(body, self.scope.sources, self.scope.parent, self.scope.aliases)
        values = Expressions(self.builder, scope, self.subqueries)
        if aggregate.condition is not None:
            body.literals += values.condition(aggregate.condition)
        with self.builder.folding(node):
            return made(Aggregate(self, body, values, aggregate))
