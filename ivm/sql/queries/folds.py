"""The aggregates by name: how the value of each follows from the rows of a group.

    count(*)           v:part1[g] = n <- agg<<n = count()>> body.           or the sum of multiplicities
    avg(x)             v:part1[g] = a <- agg<<a = avg(x)>> body.            rows whose x is null are left out
    covar_pop(y, x)    (var_pop(x + y) - var_pop(x - y)) / 4
    string_agg(x, s ORDER BY y DESC)    concat(x, -y, s)

Rows with multiplicities weigh as much in counts, sums and averages; for all other aggregates they are numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NamedTuple

from sqlglot import exp

from ivm.lang.ir import Value
from ivm.sql.conversions import convert
from ivm.sql.errors import SqlError
from ivm.sql.queries.expressions import Expressions
from ivm.sql.queries.numbering import Key, copies, ordered_terms, ordering, put_together, told_apart
from ivm.sql.rules import Body, Builder, Column, Table
from ivm.sql.terms import Atom, Call, Fold, Lit, Rule, Term, Typed, Var
from ivm.sql.types import BIGINT, BOOLEAN, DOUBLE, HUGEINT, INTEGER, VARCHAR, SqlType

UINTEGER = SqlType("UINTEGER")

MOMENTS: dict[type[exp.Expr], str] = {
    exp.Stddev: "stddev", exp.StddevSamp: "stddev", exp.StddevPop: "stddev_pop", exp.Variance: "variance",
    exp.VariancePop: "var_pop",
}  # fmt: skip
PAIRS = (exp.CovarPop, exp.CovarSamp, exp.RegrCount, exp.RegrAvgx, exp.RegrAvgy, exp.RegrSxx, exp.RegrSyy, exp.RegrSxy,
         exp.RegrR2, exp.RegrIntercept)  # fmt: skip
HINTS: dict[type[exp.Expr], str] = {
    exp.Corr: "it has no value where one side does not vary: write covar_pop(x, y) / nullif(stddev_pop(x) * "
    "stddev_pop(y), 0), which is null there",
    exp.RegrSlope: "it has no value where x does not vary: write covar_pop(y, x) / nullif(var_pop(x), 0)",
    exp.ApproxDistinct: "count(DISTINCT x) is exact and kept",
    exp.Mode: "which of several most frequent values it gives is not defined: number them by count(*)",
}


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


class Group:
    """The groups of a body: `key` are the variables that identify one, the first of them those of a query around."""

    def __init__(self, builder: Builder, body: Body, key: list[Typed], around: Sequence[str] = ()) -> None:
        self.builder, self.rows, self.key, self.around = builder, body, key, [*around]
        self.single = False

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the group."""
        names = [f"g{n}" for n in range(len(self.key))]
        null = [self.builder.may_be_null(self.rows, one) for one in self.key]
        return tuple(Column(n, one.type, b) for n, one, b in zip(names, self.key, null, strict=True))

    def table_of(self, type_: SqlType, nullable: bool = False) -> Table:
        """Return a new function of the group."""
        columns = (*self.columns(), Column("value", type_, nullable))
        return Table(self.builder.helper(), columns, (*range(len(self.key)),), function=True)


class Aggregate:
    """One aggregate: how its value follows from the rows of a body."""

    def __init__(self, grouping: Group, body: Body, values: Expressions, one: Wanted) -> None:
        self.grouping, self.body, self.values, self.one = grouping, body, values, one
        self.builder = grouping.builder
        self.key: list[Typed] = grouping.key
        self.total = one.condition is None and not grouping.single

    def made(self) -> Made:
        """Add the rules of the aggregate; return the function of the group that has it.  Raises SqlError."""
        node = self.one.node
        for kinds, make in _KINDS:
            if isinstance(node, kinds):
                return make(self)
        shown = node.sql(dialect="duckdb")
        hint = HINTS.get(type(node), "docs/sql.md lists those that are")
        raise SqlError(f"{shown[:60]}: this aggregate is not kept; {hint}", node)

    # -- arguments

    def arguments(self) -> list[exp.Expr]:
        """Return the arguments as written."""
        inner = self.one.node.this
        if isinstance(inner, exp.Order):
            inner = inner.this
        if not isinstance(inner, exp.Distinct):
            return [inner]
        return [
            part for one in inner.expressions for part in (one.expressions if isinstance(one, exp.Tuple) else [one])
        ]

    def orders(self, upward: bool = True) -> list[Term]:
        """Return variables in whose order ORDER BY has the rows, all of them ascending."""
        found: list[Term] = []
        for one in self.one.order:
            value = self.builder.define(self.body, self.values.value(one.this))
            found += ordered_terms(self.builder, self.body, Key(*ordering(value, one)), upward)
        return found

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

    def tuples(self, nodes: list[exp.Expr]) -> None:
        """Read distinct tuples of arguments, which may be null."""
        self._distinct([self.builder.define(self.body, self.values.value(node)) for node in nodes])

    def present(self, node: exp.Expr) -> Typed:
        """Return an argument as a variable that is not null."""
        return self._present(self.values.value(node))

    def listed(self, value: Typed) -> list[Term]:
        """Return a value and what ORDER BY orders it by, as variables of rows that are listed one by one."""
        rows = [value, *(Typed(term, BIGINT, False) for term in self.orders())]
        rows = self._distinct(rows) if self.one.distinct else self.numbered(rows)
        return [one.term for one in rows]

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

    def computed(
        self, type_: SqlType, parts: list[Made], term: Callable[..., Term], *, default: Value = None,
        nullable: bool = False,
    ) -> Made:  # fmt: skip
        """Return a function that is computed from other functions of the group."""
        table = self.grouping.table_of(type_, nullable)
        body, values = Body(), list[Term]()
        keys = [self.builder.variable(c.type, c.nullable) for c in table.columns[:-1]]
        for part in parts:
            values.append(self.builder.scan(part.table, body, keys)[-1].term)
        result = self.builder.define(body, Typed(term(*values), type_, nullable))
        head = Atom(table.name, tuple(k.term for k in keys), (result.term,))
        self.builder.emit(Rule((head,), tuple(body.literals)))
        return Made(table, self.total, Lit(default, type_.store))


# -- the aggregates by name


def _count(one: Aggregate) -> Made:
    nodes, inner = one.arguments(), one.one.node.this
    if isinstance(inner, exp.Distinct) and isinstance(inner.expressions[0], exp.Tuple):
        one.tuples(nodes)  # a tuple of nulls is a value
    elif not isinstance(nodes[0], exp.Star) and not (len(nodes) == 1 and isinstance(nodes[0], exp.Literal)):
        one.variables(nodes)
    weight = one.builder.weight(one.body)
    if weight is None:
        return one.fold("count", BIGINT, default=0)
    return one.fold("sum", BIGINT, weight, default=0)


def _count_if(one: Aggregate) -> Made:
    one.total = False
    one.body.literals += one.values.condition(one.one.node.this)
    weight = one.builder.weight(one.body)
    return one.fold("count", HUGEINT, default=0) if weight is None else one.fold("sum", HUGEINT, weight, default=0)


def _sum(one: Aggregate) -> Made:
    value = one.argument()
    if value.type == BOOLEAN:
        value = one.builder.define(one.body, convert(value, INTEGER))
    if not value.type.is_number:
        raise SqlError(f"sum takes numbers, and this is {value.type}: CAST it", one.one.node)
    type_ = SqlType("DECIMAL", 38, value.type.scale) if value.type.is_decimal else HUGEINT
    if value.type.is_float:
        return one.fold("total", DOUBLE, one.weighed(value))
    return one.fold("sum", type_, one.weighed(value))


def _avg(one: Aggregate) -> Made:
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


def _extreme(one: Aggregate) -> Made:
    op = "min" if isinstance(one.one.node, exp.Min) else "max"
    value = one.argument()
    if value.type == BOOLEAN:
        return _of_truths(one, value, op)
    return one.fold(op, value.type, value.term)


def _of_truths(one: Aggregate, value: Typed, op: str) -> Made:
    number = one.builder.define(one.body, convert(value, INTEGER))
    made = one.fold(op, INTEGER, number.term)
    return one.computed(BOOLEAN, [made], lambda n: Call("=", (n, Lit(1, "int64"))))


def _every(one: Aggregate) -> Made:
    value = one.argument()
    return _of_truths(one, value, "min" if isinstance(one.one.node, exp.LogicalAnd) else "max")


def _moment(one: Aggregate) -> Made:
    op = MOMENTS[type(one.one.node)]
    value = one.numbered([one.number(one.one.node)])[0]
    if op in ("stddev", "variance"):
        one.total = False  # a group of one row has none
    return one.fold(op, DOUBLE, value.term)


def _median(one: Aggregate) -> Made:
    return _continuous(one, one.numbered([one.number(one.one.node)])[0], 0.5)


def _continuous(one: Aggregate, value: Typed, share: float) -> Made:
    """Return a value between two, in a straight line; that of decimals is a decimal, cut after its last digit."""
    if not value.type.is_number:
        raise SqlError(f"quantile_cont takes numbers, and this is {value.type}: quantile_disc takes any", one.one.node)
    type_ = value.type if value.type.is_decimal else DOUBLE
    return one.fold("quantile_cont", type_, value.term, Lit(share, "float64"))


def _quantile(one: Aggregate) -> Made:
    node = one.one.node
    if one.one.order:
        share, argument = node.this, one.one.order[0].this
        if one.one.order[0].args.get("desc") and not isinstance(node, exp.PercentileCont):
            raise SqlError("a quantile in descending order is that of 1 - share in ascending order", node)
    else:
        share, argument = node.args.get("quantile") or node.expression, node.this
    if not isinstance(share, exp.Literal):
        raise SqlError("the share of a quantile is a constant", node)
    value = one.numbered(one.variables([argument]))[0]
    if isinstance(node, exp.PercentileCont):
        down = bool(one.one.order and one.one.order[0].args.get("desc"))
        return _continuous(one, value, float(1 - Decimal(share.this)) if down else float(share.this))
    return one.fold("quantile", value.type, value.term, Lit(float(share.this), "float64"))


def _joined(one: Aggregate) -> Made:
    node = one.one.node
    separator = node.args.get("separator")
    text = separator.this if isinstance(separator, exp.Literal) else ","
    if not one.one.order:
        raise SqlError(
            "string_agg without ORDER BY has no order that is kept: write string_agg(x, ',' ORDER BY y)", node
        )
    value = one.present(one.arguments()[0])
    if value.type != VARCHAR:
        value = one.builder.define(one.body, convert(value, VARCHAR, node))
    return one.fold("concat", VARCHAR, *one.listed(value), Lit(text, "string"))


def _end(one: Aggregate) -> Made:
    """FIRST and LAST in an order, where a null is a value, and any_value, where it is none."""
    node = one.one.node
    if not one.one.order:
        raise SqlError(f"{node.key} without ORDER BY has no order that is kept: write {node.key}(x ORDER BY y)", node)
    op = "last" if isinstance(node, exp.Last) else "first"
    value = one.builder.define(one.body, one.values.value(one.arguments()[0]))
    if value.type == BOOLEAN:
        raise SqlError(f"{node.key} of truth values is not kept: CAST them to INTEGER", node)
    parts = told_apart(one.builder, one.body, value)
    orders = [Typed(term, BIGINT, False) for term in one.orders()]
    listed = one.numbered([*(Typed(p, value.type, False) for p in parts), *orders])
    by = [v.term for v in listed[len(parts) :]]
    made = [one.fold(op, value.type if n == len(parts) - 1 else INTEGER, v.term, *by)
            for n, v in enumerate(listed[: len(parts)])]  # fmt: skip
    if len(made) == 1:
        return made[0]

    def together(*terms: Term) -> Term:
        found = [Typed(term, value.type, False) for term in terms]
        return put_together(one.builder, Body(), found, define=False).term

    return one.computed(value.type, made, together, nullable=True)


def _arg_extreme(one: Aggregate) -> Made:
    op = "argmin" if isinstance(one.one.node, exp.ArgMin) else "argmax"
    value, by = one.variables([one.one.node.this, one.one.node.expression])
    return one.fold(op, value.type, value.term, by.term)


def _any(one: Aggregate) -> Made:
    value = one.argument()
    if one.one.order:
        return one.fold("first", value.type, *one.listed(value))
    if value.type == BOOLEAN:
        return _of_truths(one, value, "min")
    return one.fold("min", value.type, value.term)


def _of_pairs(one: Aggregate) -> Made:
    """Covariances and regressions, of the pairs (y, x) without a null."""
    node = one.one.node
    pair = one.variables([node.this, node.expression])
    if isinstance(node, exp.RegrCount):
        weight = one.builder.weight(one.body)
        return (
            one.fold("count", UINTEGER, default=0) if weight is None else one.fold("sum", UINTEGER, weight, default=0)
        )
    if any(not v.type.is_number for v in pair):
        raise SqlError(f"{node.key} takes numbers: CAST them", node)
    y, x = one.numbered([one.builder.define(one.body, convert(v, DOUBLE, node)) for v in pair])
    return _MOMENTS_OF_PAIRS[type(node)](one, y, x)


def _covariance(one: Aggregate, y: Typed, x: Typed, op: str = "var_pop", times: bool = False) -> Made:
    parts = []
    for sign in "+-":
        both = one.builder.define(one.body, Typed(Call(sign, (x.term, y.term)), DOUBLE, False))
        parts.append(one.fold(op, DOUBLE, both.term))
    if op == "variance":
        one.total = False  # a group of one row has none
    four = Lit(4.0, "float64")
    if not times:
        return one.computed(DOUBLE, parts, lambda a, b: Call("/", (Call("-", (a, b)), four)))
    parts.append(one.fold("count", BIGINT))
    return one.computed(
        DOUBLE, parts, lambda a, b, n: Call("*", (Call("/", (Call("-", (a, b)), four)), Call("float", (n,))))
    )


def _squares(one: Aggregate, value: Typed) -> Made:
    parts = [one.fold("var_pop", DOUBLE, value.term), one.fold("count", BIGINT)]
    return one.computed(DOUBLE, parts, lambda v, n: Call("*", (v, Call("float", (n,)))))


def _line(one: Aggregate, y: Typed, x: Typed) -> Made:
    """regr_intercept: null where x does not vary."""
    means = [one.fold("avg", DOUBLE, v.term) for v in (y, x)]
    parts = [*means, _covariance(one, y, x), one.fold("var_pop", DOUBLE, x.term)]
    zero, null = Lit(0.0, "float64"), Lit(None, "float64")

    def term(mean_y: Term, mean_x: Term, covariance: Term, variance: Term) -> Term:
        slope = Call("ratio", (covariance, variance))
        found = Call("-", (mean_y, Call("*", (slope, mean_x))))
        return Call("if", (Call("=", (variance, zero)), null, found))

    return one.computed(DOUBLE, parts, term, nullable=True)


def _fit(one: Aggregate, y: Typed, x: Typed) -> Made:
    """regr_r2: null where x does not vary, 1 where y does not."""
    parts = [_covariance(one, y, x), *(one.fold("var_pop", DOUBLE, v.term) for v in (y, x))]
    zero, null = Lit(0.0, "float64"), Lit(None, "float64")

    def term(covariance: Term, of_y: Term, of_x: Term) -> Term:
        share = Call("ratio", (Call("*", (covariance, covariance)), Call("*", (of_x, of_y))))
        varied = Call("if", (Call("=", (of_y, zero)), Lit(1.0, "float64"), share))
        return Call("if", (Call("=", (of_x, zero)), null, varied))

    return one.computed(DOUBLE, parts, term, nullable=True)


_MOMENTS_OF_PAIRS: dict[type[exp.Expr], Callable[[Aggregate, Typed, Typed], Made]] = {
    exp.CovarPop: _covariance,
    exp.CovarSamp: lambda one, y, x: _covariance(one, y, x, "variance"),
    exp.RegrSxy: lambda one, y, x: _covariance(one, y, x, times=True),
    exp.RegrSxx: lambda one, y, x: _squares(one, x),
    exp.RegrSyy: lambda one, y, x: _squares(one, y),
    exp.RegrAvgx: lambda one, y, x: one.fold("avg", DOUBLE, x.term),
    exp.RegrAvgy: lambda one, y, x: one.fold("avg", DOUBLE, y.term),
    exp.RegrIntercept: _line,
    exp.RegrR2: _fit,
}
_KINDS: list[tuple[tuple[type[exp.Expr], ...], Callable[[Aggregate], Made]]] = [
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
    ((exp.First, exp.Last), _end),
    (PAIRS, _of_pairs),
]
