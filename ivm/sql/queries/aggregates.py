"""GROUP BY: each aggregate becomes a function of the group, and the groups' rows join them.

    SELECT a, count(*), sum(b) FROM t GROUP BY a

    v:part1[a] = n <- agg<<n = count()>> t[k] = (a, b).       every group has a row
    v:part2[a] = s <- agg<<s = sum(b)>> t[k] = (a, b).        rows whose b is null are left out,
    v:part3[a] = s <- v:part2[a] = s.                         so that a group may have none: null
    v:part3[a] = s <- v:part1[a] = _, !v:part2[a] = _, s = null["int64"].

Without GROUP BY there is one group, which has a row even if nothing is in it.  A `DISTINCT` aggregate reads a helper
view of distinct values.  Rows with multiplicities weigh as much in counts, sums and averages; for all other aggregates
they are numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from sqlglot import exp

from ivm.lang.ir import Value
from ivm.sql.conversions import convert
from ivm.sql.errors import SqlError
from ivm.sql.queries.expressions import Expressions, Subqueries
from ivm.sql.queries.scope import Scope
from ivm.sql.rules import ONE, Body, Builder, Column, Table, column_of
from ivm.sql.terms import Atom, Call, Define, Fold, Lit, Not, Rule, Term, Test, Typed, Var
from ivm.sql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, INTEGER, VARCHAR, SqlType

AGGREGATES = (exp.AggFunc, exp.GroupConcat, exp.Filter, exp.WithinGroup, exp.AnyValue)
WINDOW_ONLY = (
    exp.RowNumber, exp.Rank, exp.DenseRank, exp.Ntile, exp.Lag, exp.Lead, exp.FirstValue, exp.LastValue, exp.NthValue,
    exp.PercentRank, exp.CumeDist,
)  # fmt: skip
MOMENTS: dict[type[exp.Expr], str] = {
    exp.Stddev: "stddev", exp.StddevSamp: "stddev", exp.StddevPop: "stddev_pop", exp.Variance: "variance",
    exp.VariancePop: "var_pop",
}  # fmt: skip


def aggregates_in(nodes: Sequence[exp.Expr | None]) -> list[exp.Expr]:
    """Return the aggregates of some expressions, each once; not those of subqueries, nor window functions."""
    found: dict[str, exp.Expr] = {}
    for node in nodes:
        if node is not None:
            _collect(node, found)
    return list(found.values())


def _collect(node: exp.Expr, found: dict[str, exp.Expr]) -> None:
    if isinstance(node, exp.Subquery | exp.Select | exp.SetOperation):
        return
    if isinstance(node, exp.Window):  # its own function is none, but aggregates inside are
        for part in _window_parts(node):
            _collect(part, found)
        return
    if is_aggregate(node):
        found.setdefault(node.sql(), node)
        return
    for child in node.iter_expressions():
        _collect(child, found)


def _window_parts(node: exp.Window) -> list[exp.Expr]:
    inner = node.this
    while isinstance(inner, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        inner = inner.this
    parts = [*inner.iter_expressions(), *(node.args.get("partition_by") or ())]
    if order := node.args.get("order"):
        parts += [one.this for one in order.expressions]
    return parts


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate, with its FILTER and WITHIN GROUP."""
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        return is_aggregate(node.this)
    return isinstance(node, AGGREGATES) and not isinstance(node, WINDOW_ONLY)


class Made(NamedTuple):
    """An aggregate as a function of the group; `total` if each group has a row, else `default` is the value."""

    table: Table
    total: bool
    default: Lit


class Wanted(NamedTuple):
    """An aggregate without FILTER and the like: the function, its argument, and what surrounds it."""

    node: exp.Expr
    condition: exp.Expr | None
    distinct: bool
    order: list[exp.Ordered]


def wanted(node: exp.Expr) -> Wanted:
    """Take an aggregate apart."""
    condition, order = None, list[exp.Ordered]()
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    if isinstance(node, exp.IgnoreNulls):
        node = node.this
    if isinstance(node, exp.WithinGroup):
        order, node = node.expression.expressions, node.this
    inner = node.this
    if isinstance(inner, exp.Order):
        order, inner = inner.expressions, inner.this
    distinct = isinstance(inner, exp.Distinct)
    return Wanted(node, condition, distinct, order)


class Grouping:
    """The groups of a body, and the aggregates over them."""

    def __init__(
        self, builder: Builder, scope: Scope, subqueries: Subqueries, groups: list[Typed], single: bool,
    ) -> None:  # fmt: skip
        """`groups` are the values of GROUP BY; if `single`, there is one group even without rows."""
        self.builder, self.scope, self.subqueries, self.single = builder, scope, subqueries, single
        body = scope.body
        self.groups = [builder.define(body, one) for one in groups]
        self._dummy = False
        if single and not builder.carried(body):
            builder.uses_one = self._dummy = True
            new = builder.variable(INTEGER, False)
            body.literals.append(Atom(ONE, (new.term,)))
            assert isinstance(new.term, Var)
            body.columns[new.term.name] = new
            self.groups = [new]
        self.around = builder.carried(body, [one.term for one in self.groups])
        self.key = [*(self._outer(name) for name in self.around), *self.groups]

    def _outer(self, name: str) -> Typed:
        """Return a variable of the query around, which is not null if this query requires it."""
        value = column_of(self.scope.body.outer, name)
        return value._replace(nullable=value.nullable and name not in self.scope.body.required)

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the group."""
        names = [f"g{n}" for n in range(len(self.key))]
        null = [self.builder.may_be_null(self.scope.body, one) for one in self.key]
        return tuple(Column(n, one.type, b) for n, one, b in zip(names, self.key, null, strict=True))

    def evaluate(self, nodes: Sequence[exp.Expr]) -> tuple[Body, dict[str, Typed], list[Typed]]:
        """Return a body of one row for each group, its aggregates by their text, and the groups' columns."""
        made = {node.sql(): self._made(node) for node in nodes}
        base = self._base([*made.values()])
        body = Body(self.scope.body.outer)
        given = [self._outer(name) for name in self.around]
        key = self.builder.scan(base, body, given)[: len(self.key)]
        values = {}
        for text, one in made.items():
            table = one.table if one.total and not self.single else self._completed(one, base)
            if table is base:
                atom = body.literals[0]
                assert isinstance(atom, Atom)
                values[text] = next(t for t in body.columns.values() if t.term == atom.values[-1])
            else:
                values[text] = self.builder.scan(table, body, key)[-1]
        own = key[len(self.around) :]
        return body, values, [] if self._dummy else own

    def _base(self, made: list[Made]) -> Table:
        """Return a table that has each group once."""
        body, builder = self.scope.body, self.builder
        if self._dummy:
            return Table(ONE, (Column("g", INTEGER, False),), ())
        if self.single:
            return self._domain()
        for one in made:
            if one.total:
                return one.table
        name = builder.helper()
        builder.rule(Atom(name, tuple(one.term for one in self.key)), body)
        return Table(name, self.columns(), (*range(len(self.key)),))

    def _domain(self) -> Table:
        """Return a table of the values that the query around has for this subquery's variables."""
        outer = self.scope.body.outer
        assert outer is not None
        terms = tuple(one.term for one in self.key)
        columns = tuple(
            Column(f"g{n}", outer_value.type, outer_value.nullable)
            for n, outer_value in enumerate(self._in_domain(one) for one in self.around)
        )
        name = self.builder.projected(self.builder.closed(outer, self.around), terms, outer)
        return Table(name, columns, (*range(len(self.key)),))

    def _in_domain(self, name: str) -> Typed:
        """Return a variable of the query around as that has it."""
        outer = self.scope.body.outer
        value = column_of(outer, name)
        return value._replace(nullable=value.nullable and (outer is None or name not in outer.required))

    def _completed(self, one: Made, base: Table) -> Table:
        """Return a function that has the default for groups without a row."""
        builder, name = self.builder, self.builder.helper()
        value = one.table.columns[-1]
        column = replace(value, nullable=value.nullable or one.default.value is None)
        keys = tuple(builder.variable(c.type, c.nullable) for c in base.columns[: len(self.key)])
        result = builder.variable(value.type, value.nullable)
        there = Body()
        builder.scan(one.table, there, [*keys, result])
        head = Atom(name, tuple(k.term for k in keys), (result.term,))
        builder.emit(Rule((head,), tuple(there.literals)))
        missing = Body()
        builder.scan(base, missing, keys)
        none = Body()
        builder.scan(one.table, none, keys)
        assert isinstance(result.term, Var)
        lacking = (*missing.literals, Not(tuple(none.literals)), Define(result.term, one.default))
        builder.emit(Rule((head,), lacking))
        columns = (*base.columns[: len(self.key)], column)
        return Table(name, columns, (*range(len(self.key)),), function=True)

    # -- one aggregate

    def _made(self, node: exp.Expr) -> Made:
        one = wanted(node)
        body = self.scope.body.copy()
        scope = Scope(body, self.scope.sources, self.scope.parent, self.scope.aliases)
        values = Expressions(self.builder, scope, self.subqueries)
        if one.condition is not None:
            body.literals += values.condition(one.condition)
        return _Aggregate(self, body, values, one).made()

    def table_of(self, type_: SqlType, nullable: bool = False) -> Table:
        """Return a new function of the group."""
        columns = (*self.columns(), Column("value", type_, nullable))
        return Table(self.builder.helper(), columns, (*range(len(self.key)),), function=True)


class _Aggregate:
    """One aggregate: how its value follows from the rows of a body."""

    def __init__(self, grouping: Grouping, body: Body, values: Expressions, one: Wanted) -> None:
        self.grouping, self.body, self.values, self.one = grouping, body, values, one
        self.builder = grouping.builder
        self.key: list[Typed] = grouping.key
        self.total = one.condition is None and not grouping.single

    def made(self) -> Made:
        node = self.one.node
        for kinds, make in _KINDS:
            if isinstance(node, kinds):
                return make(self)
        shown = node.sql(dialect="duckdb")
        raise SqlError(f"{shown[:60]}: this aggregate is not kept; docs/sql.md lists those that are", node)

    # -- arguments

    def arguments(self) -> list[exp.Expr]:
        """Return the arguments as written."""
        inner = self.one.node.this
        if isinstance(inner, exp.Order):
            inner = inner.this
        return list(inner.expressions) if isinstance(inner, exp.Distinct) else [inner]

    def argument(self, type_: SqlType | None = None) -> Typed:
        """Return the argument as a variable that is not null, of distinct values if these are wanted."""
        return self.variables(self.arguments()[:1], type_)[0]

    def variables(self, nodes: list[exp.Expr], type_: SqlType | None = None) -> list[Typed]:
        """Return arguments as variables, none of which is null."""
        found = []
        for node in nodes:
            value = self.values.value(node)
            value = convert(value, type_, node) if type_ is not None else value
            found.append(self._present(value))
        if self.one.distinct:
            return self._distinct(found)
        return found

    def _present(self, value: Typed) -> Typed:
        if self.builder.may_be_null(self.body, value):
            self.total = False
        return self.builder.require(self.body, self.builder.define(self.body, value))

    def _distinct(self, found: list[Typed]) -> list[Typed]:
        around = len(self.grouping.around)
        outputs = [(f"c{n}", one) for n, one in enumerate([*self.key[around:], *found])]
        self.body, columns = self.builder.as_atom(self.body, outputs, distinct=True)
        self.key = [*self.key[:around], *columns[: len(self.key) - around]]
        return columns[len(self.key) - around :]

    def number(self, node: exp.Expr) -> Typed:
        """Return the argument, which must be a number."""
        value = self.argument()
        if not value.type.is_number:
            raise SqlError(f"{node.key} takes numbers, and this is {value.type}: CAST it", node)
        return value

    # -- rules

    def fold(self, op: str, type_: SqlType, *args: Term, default: Value = None) -> Made:
        """Return a function by one aggregate of the rules."""
        table = self.grouping.table_of(type_)
        self.emit(table, Fold(op, "r", args))
        return Made(table, self.total, Lit(default, type_.store))

    def emit(self, table: Table, fold: Fold) -> None:
        """Add the rule of an aggregate."""
        result = self.builder.variable(BIGINT, False).term
        assert isinstance(result, Var)
        head = Atom(table.name, tuple(one.term for one in self.key), (result,))
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
        """Return variables of a body without multiplicities: rows that occur several times are numbered."""
        if not self.body.weights:
            return outputs
        around = len(self.grouping.around)
        listed = [(f"c{n}", one) for n, one in enumerate([*self.key[around:], *outputs])]
        self.body, columns = copies(self.builder, self.body, listed)
        self.key = [*self.key[:around], *columns[: len(self.key) - around]]
        return columns[len(self.key) - around :]

    def computed(self, type_: SqlType, parts: list[Made], term: Callable[..., Term], *, default: Value = None) -> Made:
        """Return a function that is computed from other functions of the group."""
        table = self.grouping.table_of(type_)
        body, values = Body(), list[Term]()
        keys = [self.builder.variable(c.type, c.nullable) for c in table.columns[:-1]]
        for part in parts:
            values.append(self.builder.scan(part.table, body, keys)[-1].term)
        result = self.builder.define(body, Typed(term(*values), type_, False))
        head = Atom(table.name, tuple(k.term for k in keys), (result.term,))
        self.builder.emit(Rule((head,), tuple(body.literals)))
        return Made(table, self.total, Lit(default, type_.store))


def copies(builder: Builder, body: Body, outputs: list[tuple[str, Typed]]) -> tuple[Body, list[Typed]]:
    """Return a body that has each row as often as it occurs, by numbering equal rows from 1."""
    around = builder.carried(body, [one.term for _, one in outputs])
    table = builder.stored(body, outputs)
    if not table.weighs:
        return builder.again(table, body.outer, around)
    name = builder.helper()
    columns = (*table.columns, Column("n", BIGINT, False))
    copy = Table(name, columns, (*range(len(columns)),))
    numbers = _numbers(builder, table)
    body_, number = Body(), builder.variable(BIGINT, False)
    row = builder.scan(table, body_)
    body_.literals.append(Atom(numbers, (number.term,)))
    body_.literals.append(Test(Call("<=", (number.term, body_.weights[0]))))
    builder.emit(Rule((Atom(name, (*(v.term for v in row), number.term)),), tuple(body_.literals)))
    found, values = builder.again(copy, body.outer, around)
    return found, values[:-1]


def _numbers(builder: Builder, table: Table) -> str:
    """Return a helper view of the numbers from 1 to the greatest multiplicity of a table."""
    builder.uses_one = True
    most, name, rows = builder.helper(), builder.helper(), Body()
    builder.scan(table, rows)
    one, greatest, number, after = (builder.variable(BIGINT, False).term for _ in range(4))
    assert isinstance(one, Var) and isinstance(greatest, Var) and isinstance(number, Var) and isinstance(after, Var)
    fold = Fold("max", greatest.name, (rows.weights[0],))
    builder.emit(Rule((Atom(most, (one,), (greatest,)),), (*rows.literals, Atom(ONE, (one,))), (fold,)))
    builder.emit(Rule((Atom(name, (number,)),), (Atom(ONE, (one,)), Define(number, Call("+", (one, Lit(1, "int64")))))))
    more = (
        Atom(name, (number,)),
        Atom(most, (one,), (greatest,)),
        Test(Call("<", (number, greatest))),
        Define(after, Call("+", (number, Lit(1, "int64")))),
    )
    builder.emit(Rule((Atom(name, (after,)),), more))
    return name


# -- the aggregates by name


def _count(one: _Aggregate) -> Made:
    nodes = one.arguments()
    if not isinstance(nodes[0], exp.Star) and not (len(nodes) == 1 and isinstance(nodes[0], exp.Literal)):
        one.variables(nodes)
    weight = one.builder.weight(one.body)
    if weight is None:
        return one.fold("count", BIGINT, default=0)
    return one.fold("sum", BIGINT, weight, default=0)


def _count_if(one: _Aggregate) -> Made:
    one.total = False
    one.body.literals += one.values.condition(one.one.node.this)
    weight = one.builder.weight(one.body)
    return one.fold("count", HUGEINT, default=0) if weight is None else one.fold("sum", HUGEINT, weight, default=0)


def _sum(one: _Aggregate) -> Made:
    value = one.argument()
    if value.type == BOOLEAN:
        value = one.builder.define(one.body, convert(value, INTEGER))
    if not value.type.is_number:
        raise SqlError(f"sum takes numbers, and this is {value.type}: CAST it", one.one.node)
    type_ = SqlType("DECIMAL", 38, value.type.scale) if value.type.is_decimal else HUGEINT
    if value.type.is_float:
        return one.fold("total", DOUBLE, one.weighed(value))
    return one.fold("sum", type_, one.weighed(value))


def _avg(one: _Aggregate) -> Made:
    value = one.number(one.one.node)
    weight = one.builder.weight(one.body)
    if weight is None:
        return one.fold("avg", DOUBLE, value.term)
    op = "total" if value.type.is_float else "sum"
    total = one.fold(op, value.type, one.weighed(value))
    count = one.fold("sum", BIGINT, weight)
    float_ = value.type.is_float
    return one.computed(
        DOUBLE, [total, count],
        lambda s, n: Call("/", (s if float_ else Call("float", (s,)), Call("float", (n,)))),
    )  # fmt: skip


def _extreme(one: _Aggregate) -> Made:
    op = "min" if isinstance(one.one.node, exp.Min) else "max"
    value = one.argument()
    if value.type == BOOLEAN:
        return _of_truths(one, value, op)
    return one.fold(op, value.type, value.term)


def _of_truths(one: _Aggregate, value: Typed, op: str) -> Made:
    number = one.builder.define(one.body, convert(value, INTEGER))
    made = one.fold(op, INTEGER, number.term)
    return one.computed(BOOLEAN, [made], lambda n: Call("=", (n, Lit(1, "int64"))))


def _every(one: _Aggregate) -> Made:
    value = one.argument()
    return _of_truths(one, value, "min" if isinstance(one.one.node, exp.LogicalAnd) else "max")


def _moment(one: _Aggregate) -> Made:
    op = MOMENTS[type(one.one.node)]
    value = one.numbered([one.number(one.one.node)])[0]
    if op in ("stddev", "variance"):
        one.total = False  # a group of one row has none
    return one.fold(op, DOUBLE, value.term)


def _median(one: _Aggregate) -> Made:
    return _middle(one, one.numbered([one.number(one.one.node)])[0])


def _middle(one: _Aggregate, value: Typed) -> Made:
    """Return a median; that of decimals is one, cut after its last digit."""
    made = one.fold("median", DOUBLE, value.term)
    if not value.type.is_decimal:
        return made
    type_ = value.type
    half = Lit(Decimal(5).scaleb(-type_.scale - 1), f"decimal(18,{type_.scale + 1})")
    zero = Lit(Decimal(0).scaleb(-type_.scale), type_.store)

    def cut(middle: Term) -> Term:
        finer = Call("decimal", (middle, Lit(type_.scale + 1, "int64")))
        down, up = (Call("decimal", (Call(op, (finer, half)), Lit(type_.scale, "int64"))) for op in "-+")
        above, below = (Call(op, (middle, Lit(0.0, "float64"))) for op in "><")
        return Call("if", (above, down, Call("if", (below, up, zero))))

    return one.computed(type_, [made], cut)


def _quantile(one: _Aggregate) -> Made:
    node = one.one.node
    if one.one.order:
        share, argument = node.this, one.one.order[0].this
        if one.one.order[0].args.get("desc") and not isinstance(node, exp.PercentileCont):  # a median is in the middle
            raise SqlError("a quantile in descending order is that of 1 - share in ascending order", node)
    else:
        share, argument = node.args.get("quantile") or node.expression, node.this
    if not isinstance(share, exp.Literal):
        raise SqlError("the share of a quantile is a constant", node)
    value = one.numbered(one.variables([argument]))[0]
    if isinstance(node, exp.PercentileCont):
        if float(share.this) != 0.5:
            raise SqlError("quantile_cont is kept for 0.5 only; quantile_disc takes any share", node)
        return _middle(one, value)
    return one.fold("quantile", value.type, value.term, Lit(float(share.this), "float64"))


def _joined(one: _Aggregate) -> Made:
    node = one.one.node
    separator = node.args.get("separator")
    text = separator.this if isinstance(separator, exp.Literal) else ","
    orders = one.one.order
    if any(o.args.get("desc") for o in orders):
        raise SqlError("string_agg is kept in ascending order only", node)
    arguments = one.variables([*one.arguments(), *(o.this for o in orders)])
    if arguments[0].type != VARCHAR:
        arguments[0] = one.builder.define(one.body, convert(arguments[0], VARCHAR, node))
    if not one.one.order:
        raise SqlError(
            "string_agg without ORDER BY has no order that is kept: write string_agg(x, ',' ORDER BY y)", node
        )
    arguments = one.numbered(arguments)
    return one.fold("concat", VARCHAR, *(a.term for a in arguments), Lit(text, "string"))


def _arg_extreme(one: _Aggregate) -> Made:
    op = "argmin" if isinstance(one.one.node, exp.ArgMin) else "argmax"
    value, by = one.variables([one.one.node.this, one.one.node.expression])
    return one.fold(op, value.type, value.term, by.term)


def _any(one: _Aggregate) -> Made:
    if one.one.order:
        raise SqlError("any_value with ORDER BY is not kept: write arg_min(x, y) or arg_max(x, y)", one.one.node)
    value = one.argument()
    if value.type == BOOLEAN:
        return _of_truths(one, value, "min")
    return one.fold("min", value.type, value.term)


_KINDS: list[tuple[tuple[type[exp.Expr], ...], Callable[[_Aggregate], Made]]] = [
    ((exp.Count,), _count),
    ((exp.CountIf,), _count_if),
    ((exp.Sum,), _sum),
    ((exp.Avg,), _avg),
    ((exp.Min, exp.Max), _extreme),
    ((exp.LogicalAnd, exp.LogicalOr), _every),
    ((*MOMENTS,), _moment),
    ((exp.Median,), _median),
    ((exp.PercentileCont, exp.PercentileDisc, exp.Quantile), _quantile),
    ((exp.GroupConcat,), _joined),
    ((exp.ArgMax, exp.ArgMin), _arg_extreme),
    ((exp.AnyValue,), _any),
]
