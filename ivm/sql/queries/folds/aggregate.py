"""One aggregate of the rows of a group: its arguments as variables, and the rules that fold them
(see kinds.py).

Rows with multiplicities weigh as much in counts, sums and averages; for all other aggregates they
are numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from sqlglot import exp

from ivm.lang.ir import Value
from ivm.sql.conversions import convert
from ivm.sql.errors import SqlError, written
from ivm.sql.queries.expressions import Expressions
from ivm.sql.queries.row_numbers import Key, copies, ordered_terms, ordering, parts_of, without_null
from ivm.sql.queries.scope import text_of
from ivm.sql.rules import Body, Builder, Column, Table
from ivm.sql.terms import Atom, Call, Define, Fold, Lit, Literal, Rule, Term, Typed, Var, variables
from ivm.sql.types import BIGINT, BOOLEAN, INTEGER, NULL, SqlType


class Made(NamedTuple):
    """An aggregate as a function of the group; `total` if each group has a row, else `default`
    is the value, as it is where `present` is 0 if that is given: how many values are not null.
    """

    table: Table
    total: bool
    default: Lit
    present: Table | None = None

    @property
    def empty(self) -> Typed:
        """The value of a group that has no row in the table, with its type."""
        return Typed(self.default, self.table.columns[-1].type, self.default.value is None)


class Wanted(NamedTuple):
    """An aggregate without FILTER and the like: the function, its argument, and what is around."""

    node: exp.Expr
    condition: exp.Expr | None
    distinct: bool
    order: list[exp.Ordered]


def wanted(node: exp.Expr) -> Wanted:
    """Return an aggregate without FILTER, ORDER BY and DISTINCT, and what each of these says."""
    condition, order = None, list[exp.Ordered]()
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    if isinstance(node, exp.IgnoreNulls):
        node = node.this
    if isinstance(node, exp.WithinGroup):
        order, node = node.expression.expressions, node.this
    inner = argument_of(node)
    if isinstance(inner, exp.Order):
        order, inner = inner.expressions, inner.this
    if isinstance(inner, exp.Distinct):
        _refuse_other_order(node, inner, order)
    return Wanted(node, condition, isinstance(inner, exp.Distinct), order)


def _refuse_other_order(node: exp.Expr, inner: exp.Distinct, order: list[exp.Ordered]) -> None:
    """Raise SqlError for distinct values in the order of others, of which each may have several."""
    given = [text_of(part) for item in inner.expressions for part in (item, *item.expressions)]
    for key in order:
        if text_of(key.this) not in given:
            raise SqlError(
                f"{written(node)[:60]}: distinct values are ordered by themselves "
                f"alone: ORDER BY {given[0]}, or leave DISTINCT out",
                key,
            )


def argument_of(node: exp.Expr) -> exp.Expr:
    """Return the first argument of an aggregate, with its DISTINCT and its ORDER BY."""
    if isinstance(node, exp.AnonymousAggFunc) and not node.expressions:
        raise SqlError(f"{node.name}() lacks its argument", node)
    inner: exp.Expr = node.expressions[0] if isinstance(node, exp.AnonymousAggFunc) else node.this
    return inner


def join_around(values: Expressions, nodes: Sequence[exp.Expr]) -> None:
    """Let a body join the values of the query around that folds over its rows read: they tell its
    groups apart, too.

    Columns of a subquery in a fold that this query does not know are left to that subquery.
    """
    builder, body, terms = values.builder, values.scope.body, list[Term]()
    if body.outer is None:
        return
    for column in [column for node in nodes for column in node.find_all(exp.Column)]:
        with suppress(SqlError):
            terms.append(values.value(column).term)
    carried = builder.carried(body, terms)
    if {*carried} - {*builder.carried(body)}:
        body.literals.append(builder.domain(body.outer, carried))


class Group:
    """The groups of a body: `key` are the variables that identify one, the first of them those
    of a query around.
    """

    presents = False  # whether it reads the second function of a `Made`

    def __init__(
        self, builder: Builder, body: Body, key: list[Typed], around: Sequence[str] = ()
    ) -> None:
        self.builder, self.rows, self.key, self.around = builder, body, key, [*around]
        self.single = False

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the group."""
        names = [f"g{n}" for n in range(len(self.key))]
        null = [self.builder.may_be_null(self.rows, value) for value in self.key]
        return tuple(
            Column(n, value.type, b) for n, value, b in zip(names, self.key, null, strict=True)
        )

    def table_of(self, type_: SqlType, nullable: bool = False) -> Table:
        """Return a new function of the group."""
        columns = (*self.columns(), Column("value", type_, nullable))
        return Table(self.builder.helper(), columns, (*range(len(self.key)),), function=True)


class Aggregate:
    """One aggregate: how its value follows from the rows of a body."""

    def __init__(self, grouping: Group, body: Body, values: Expressions, call: Wanted) -> None:
        self.grouping, self.body, self.values, self.call = grouping, body, values, call
        self.builder = grouping.builder
        self.key: list[Typed] = grouping.key
        self.total = call.condition is None and not grouping.single

    # -- arguments

    def arguments(self) -> list[exp.Expr]:
        """Return the arguments as written."""
        inner = argument_of(self.call.node)
        if isinstance(inner, exp.Order):
            inner = inner.this
        if not isinstance(inner, exp.Distinct):
            return [inner]
        return [
            part
            for item in inner.expressions
            for part in (item.expressions if isinstance(item, exp.Tuple) else [item])
        ]

    def orders(self, upward: bool = True) -> list[Term]:
        """Return variables in whose order ORDER BY has the rows, all of them ascending."""
        terms: list[Term] = []
        for item in self.call.order:
            value = self.builder.define(self.body, self.values.value(item.this))
            terms += ordered_terms(self.builder, self.body, Key(*ordering(value, item)), upward)
        return terms

    def argument(self, type_: SqlType | None = None) -> Typed:
        """Return the argument as a variable that is not null, of distinct values if wanted."""
        return self.variables(self.arguments()[:1], type_)[0]

    def filled(self, for_mean: bool = False) -> tuple[Typed, Typed | None]:
        """Return the argument of a sum as a variable that is not null, and, if all rows of a group
        are read, though it may be null, another that is 1 or 0: whether it is a value, else 0.

        A mean is a quotient of such sums where a word holds them and a join has the rows.
        """
        value = self.values.value(self.arguments()[0])
        if (
            not (self.total and self.grouping.presents)
            or (for_mean and not (self._is_joined and value.type.has_short_sums))
            or self.call.distinct
            or not value.type.is_number
            or value.type.wide
            or not self.builder.may_be_null(self.body, value)
        ):
            return self.argument(), None
        return self.builder.define(self.body, without_null(value)), self.flag(value)

    @property
    def _is_joined(self) -> bool:
        return sum(isinstance(literal, Atom) for literal in self.body.literals) > 1

    def flag(self, value: Typed) -> Typed:
        """Return a variable that is 1 in rows where a value is not null, else 0."""
        ones = Lit(0, "int64"), Lit(1, "int64")
        term = Call("if", (Call("is_null", (value.term,)), *ones))
        return self.builder.define(self.body, Typed(term, INTEGER, False))

    def variables(self, nodes: list[exp.Expr], type_: SqlType | None = None) -> list[Typed]:
        """Return arguments as variables, none of which is null."""
        values = []
        for node in nodes:
            value = self.values.value(node)
            value = convert(value, type_, node) if type_ is not None else value
            values.append(self._present(value))
        return self.distinct(values) if self.call.distinct else values

    def tuples(self, nodes: list[exp.Expr]) -> None:
        """Read distinct tuples of arguments, which may be null."""
        self.distinct([self.builder.define(self.body, self.values.value(node)) for node in nodes])

    def present(self, node: exp.Expr) -> Typed:
        """Return an argument as a variable that is not null."""
        return self._present(self.values.value(node))

    def listed(self, value: Typed) -> list[Term]:
        """Return a value and what ORDER BY orders it by, as variables of rows one by one."""
        rows = [value, *self.places()]
        rows = self.distinct(rows) if self.call.distinct else self.numbered(rows)
        return [row.term for row in rows]

    def places(self) -> list[Typed]:
        """Return variables that order the rows: those of ORDER BY, or that tell rows apart."""
        if self.call.order:
            return [Typed(term, BIGINT, False) for term in self.orders()]
        if isinstance(self.call.node, exp.GroupConcat | exp.ArrayAgg | exp.First | exp.Last):
            name = self.call.node.sql(dialect="duckdb")
            if self.body.weights or self.call.distinct:
                what = (
                    "distinct values have no order"
                    if self.call.distinct
                    else "rows without a key have no order"
                )
                raise SqlError(
                    f"{name[:60]} without ORDER BY: {what}; add ORDER BY", self.call.node
                )
            self.builder.notes.append(
                f"{name[:60]} without ORDER BY: rows are taken in the order of their keys"
            )
        return self.identity()

    def identity(self) -> list[Typed]:
        """Return variables that tell the rows of a group apart, and order them as their keys."""
        rows = [
            value
            for value in self.builder.identity(self.body)
            if value.term not in [k.term for k in self.key]
        ]
        return [part for row in rows for part in parts_of(self.builder, self.body, row)]

    def of_truths(self, value: Typed, op: str) -> Made:
        """Return the least or greatest of truth values."""
        number = self.builder.define(self.body, convert(value, INTEGER))
        made = self.fold(op, INTEGER, number.term)
        return self.computed(BOOLEAN, [made], lambda n: Call("=", (n, Lit(1, "int64"))))

    def _present(self, value: Typed) -> Typed:
        value = convert(value, INTEGER) if value.type == NULL else value
        if self.builder.may_be_null(self.body, value):
            self.total = False
        return self.builder.require(self.body, self.builder.define(self.body, value))

    def distinct(self, found: list[Typed]) -> list[Typed]:
        """Let the body have distinct values of these and of the group; return them."""
        around = len(self.grouping.around)
        outputs = [(f"c{n}", value) for n, value in enumerate([*self.key[around:], *found])]
        self.body, columns = self.builder.as_atom(self.body, outputs, distinct=True)
        self.key = [*self.key[:around], *columns[: len(self.key) - around]]
        return columns[len(self.key) - around :]

    def joined(self, table: Table, *values: Typed) -> Typed:
        """Return what a function of the key and some values has for each row, also where the key
        is null.
        """
        bound = self.builder.bound
        self.key = [
            bound(self.body, value) if self.builder.may_be_null(self.body, value) else value
            for value in self.key
        ]
        return self.builder.scan(table, self.body, [*self.key, *values])[-1]

    def by_value(self, value: Typed) -> tuple[Typed, Typed]:
        """Let the body have a group's values once, with their numbers of rows; return both."""
        table = self.grouping.table_of(BIGINT)
        *groups, last = table.columns
        columns = (*groups, Column("x", value.type, False), last)
        counts = Table(table.name, columns, (*range(len(groups) + 1),), function=True)
        weight, around = self.builder.weight(self.body), len(self.grouping.around)
        key, self.key = self.key, [*self.key, value]
        self.emit(counts, Fold("count", "r") if weight is None else Fold("sum", "r", (weight,)))
        self.body = Body(self.body.outer)
        *self.key, value, number = self.builder.scan(counts, self.body, key[:around])
        return value, number

    def number(self, node: exp.Expr) -> Typed:
        """Return the argument, which must be a number."""
        return self.as_number(self.argument())

    def as_number(self, value: Typed) -> Typed:
        """Return an argument that must be a number.  Raises SqlError."""
        node = self.call.node
        if not value.type.is_number:
            raise SqlError(f"{node.key} takes numbers, and this is {value.type}: CAST it", node)
        return value

    # -- rules

    def fold(self, op: str, type_: SqlType, *args: Term, default: Value = None) -> Made:
        """Return a function by one aggregate of the rules."""
        table = self.grouping.table_of(type_)
        self.emit(table, Fold(op, "r", args))
        return Made(table, self.total, Lit(default, type_.store))

    def sum(self, op: str, type_: SqlType, value: Typed, flag: Typed | None) -> Made:
        """Return the sum of what `filled` returned."""
        made = self.fold(op, type_, self.weighed(value))
        if flag is None:
            return made
        return made._replace(present=self.fold("sum", BIGINT, self.weighed(flag)).table)

    def emit(self, table: Table, fold: Fold) -> None:
        """Add the rule of an aggregate."""
        result = self.builder.variable(BIGINT, False).term
        assert isinstance(result, Var)
        head = Atom(table.name, tuple(value.term for value in self.key), (result,))
        self.builder.rule(head, self.body, (Fold(fold.op, result.name, fold.args, fold.place),))

    def weighed(self, value: Typed) -> Term:
        """Return a number times the multiplicity of its row, as a variable."""
        weight = self.builder.weight(self.body)
        if weight is None:
            return self.builder.define(self.body, value).term
        factor = Call("float", (weight,)) if value.type.is_float else weight
        product = Typed(Call("*", (value.term, factor)), value.type, value.nullable)
        return self.builder.define(self.body, product).term

    def numbered(self, outputs: list[Typed]) -> list[Typed]:
        """Return variables of a body without multiplicities: rows that repeat are numbered."""
        if not self.body.weights:
            return outputs
        around = len(self.grouping.around)
        listed = [(f"c{n}", value) for n, value in enumerate([*self.key[around:], *outputs])]
        self.body, columns = copies(self.builder, self.body, listed)
        self.key = [*self.key[:around], *columns[: len(self.key) - around]]
        return columns[len(self.key) - around :]

    def computed(
        self,
        type_: SqlType,
        parts: list[Made],
        term: Callable[..., Term],
        *,
        default: Value = None,
        nullable: bool = False,
    ) -> Made:
        """Return a function that is computed from other functions of the group."""
        body, values = Body(), list[Term]()
        keys = [self.builder.variable(c.type, c.nullable) for c in self.grouping.columns()]
        for part in parts:
            values.append(self.builder.scan(part.table, body, keys)[-1].term)
        result = self.builder.define(body, Typed(term(*values), type_, nullable))
        table = self.builder.function(body, keys, result)
        return Made(table, self.total, Lit(default, type_.store))


def together(rules: Sequence[Rule]) -> list[Rule]:
    """Return aggregating rules with those made one rule that read the same rows, so that these
    are read once.

    Parts of a body that nothing connects are summed on their own, which rules of one aggregate are.
    """
    merged: dict[object, Rule] = {}
    for rule in rules:
        read = tuple([literal for literal in rule.body if not isinstance(literal, Define)])
        required = rule.required.intersection(variables(*read))
        key = (frozenset(read), required) if rule.folds and _is_connected(rule.body) else id(rule)
        if (before := merged.get(key)) is not None:
            rule = Rule(
                before.heads + rule.heads,
                (*dict.fromkeys(before.body + rule.body),),
                before.folds + rule.folds,
                before.required | rule.required,
            )
        merged[key] = rule
    return [*merged.values()]


def _is_connected(body: Sequence[Literal]) -> bool:
    """Return whether all literals that bind or test variables share some with others."""
    left = [names for x in body if (names := {*variables(x)})]
    reached = left.pop() if left else set[str]()
    while near := [names for names in left if not names.isdisjoint(reached)]:
        left = [names for names in left if names.isdisjoint(reached)]
        reached = reached.union(*near)
    return not left
