"""Window functions, which follow from the numbers of rows in their partitions (see numbering.py).

`rank` is the least number among equals, `lag` reads the row numbered one less, a running sum is a range of numbers.  An
edit numbers the partitions that it changes anew, and changes the rows whose number differs.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.conversions import convert
from ivm.sql.errors import SqlError
from ivm.sql.queries.aggregates import MOMENTS, copies
from ivm.sql.queries.clauses import Clauses
from ivm.sql.queries.numbering import Key, numbered, ordering, outer_value
from ivm.sql.queries.scope import Scope
from ivm.sql.rules import Body, Column, Table
from ivm.sql.terms import Atom, Call, Define, Fold, Lit, Literal, Not, Rule, Term, Test, Typed, Var
from ivm.sql.types import BIGINT, DOUBLE, HUGEINT, INTEGER, NULL, SqlType

_PLACED = (exp.FirstValue, exp.LastValue, exp.Lag, exp.Lead)


def apply(select: Clauses, nodes: list[exp.Window], named: dict[str, exp.Expr]) -> None:
    """Give the window functions of a query values, by atoms in its body."""
    _refuse_duplicates(select)
    partitions: dict[str, _Partition] = {}
    for node in nodes:
        whole = _with_named(node, named)
        by, order = whole.args.get("partition_by") or [], whole.args.get("order")
        text = f"{[p.sql() for p in by]} {order.sql() if order else ''}"
        if text not in partitions:
            partitions[text] = _Partition(select, by, order.expressions if order else [])
        select.replaced[node.sql()] = partitions[text].value(whole)
    select.builder.notes.append(
        "window functions: an edit numbers the partitions that it changes anew, O(rows of the partition)"
    )


def _refuse_duplicates(select: Clauses) -> None:
    """Number the rows of a body that may be equal, so that each has an identity."""
    body = select.scope.body
    if not body.weights:
        return
    values: list[Typed] = []
    for source in select.scope.sources if select.grouped is None else []:
        values += [v for n, v in source.columns if select.needs is None or select.needs.wants(source.alias, n)]
    values += [*(select.grouped or {}).values(), *select.replaced.values()]
    builder = select.builder
    own = [builder.define(body, v) for v in values]
    wanted = list({v.term: v for v in own if isinstance(v.term, Var) and v.term.name in body.columns}.values())
    found, columns = copies(builder, body, [(f"c{n}", v) for n, v in enumerate(wanted)])
    renamed = {old.term: new for old, new in zip(wanted, columns, strict=True)}
    _rename(select, found, renamed)


def _rename(select: Clauses, body: Body, renamed: dict[Term, Typed]) -> None:
    builder = select.builder

    def new(value: Typed) -> Typed:
        return renamed.get(builder.resolve(value.term), value)

    for source in select.scope.sources:
        source.columns = [(n, new(v)) for n, v in source.columns]
    if select.grouped is not None:
        select.grouped = {builder.resolve(t): new(v) for t, v in select.grouped.items()}
    select.replaced = {t: new(v) for t, v in select.replaced.items()}
    select.go_on(body)


def _with_named(node: exp.Window, named: dict[str, exp.Expr]) -> exp.Window:
    alias = node.args.get("alias")
    if alias is None:
        return node
    name = alias.name.lower()
    if name not in named:
        raise SqlError(f"no window {alias.name} is defined: add WINDOW {alias.name} AS (...)", node)
    whole = node.copy()
    for key in ("partition_by", "order", "spec"):
        if not whole.args.get(key):
            whole.set(key, named[name].args.get(key))
    return whole


class _Partition:
    """The window functions of one PARTITION BY and ORDER BY."""

    def __init__(self, select: Clauses, by: list[exp.Expr], order: list[exp.Expr]) -> None:
        self.select, self.builder, self.body = select, select.builder, select.scope.body
        self.by = [self.builder.define(self.body, select.evaluate(one)) for one in by]
        self.keys = [
            Key(*ordering(select.evaluate(one.this if isinstance(one, exp.Ordered) else one), one)) for one in order
        ]
        self.keys = [k._replace(value=self.builder.define(self.body, k.value)) for k in self.keys]
        self.identity = self.builder.identity(self.body)
        self.around = [outer_value(self.body, n) for n in self.builder.carried(self.body)]
        self._number: Typed | None = None
        self._peers: dict[str, Typed] = {}

    @property
    def groups(self) -> list[Typed]:
        """The values that identify a partition."""
        return [*self.around, *self.by]

    def number(self) -> Typed:
        """Return the number of a row in its partition."""
        if self._number is None:
            table = numbered(self.builder, self.body, self.by, self.keys, self.identity)
            self._number = self.builder.scan(table, self.body, [*self.around, *self.identity])[-1]
        return self._number

    def peers(self, op: str) -> Typed:
        """Return the least or greatest number of the rows that the order does not tell apart."""
        if op not in self._peers:
            number = self.number()
            groups = [*self.groups, *(k.value for k in self.keys)]
            self._peers[op] = self._folded(op, BIGINT, groups, number.term, self.body)
        return self._peers[op]

    def _folded(self, op: str, type_: SqlType, groups: Sequence[Typed], argument: Term | None, body: Body) -> Typed:
        """Return an aggregate of the rows of each group, which each row reads."""
        result, name = self.builder.variable(type_, False).term, self.builder.helper()
        assert isinstance(result, Var)
        dummy = not groups
        inner = body.copy()
        keys = [*groups]
        if dummy:
            keys = [self.builder.define(inner, Typed(Lit(0, "int64"), INTEGER, False))]
        fold = Fold(op, result.name, () if argument is None else (argument,))
        self.builder.rule(Atom(name, tuple(k.term for k in keys), (result,)), inner, (fold,))
        columns = tuple(Column(f"g{n}", k.type, self.builder.may_be_null(inner, k)) for n, k in enumerate(keys))
        table = Table(name, (*columns, Column("value", type_, False)), (*range(len(keys)),), True)
        return self.builder.scan(table, self.body, [] if dummy else keys)[-1]

    def count(self) -> Typed:
        """Return the number of rows of the partition."""
        if "count" not in self._peers:
            self._peers["count"] = self._folded("count", BIGINT, self.groups, None, self.body)
        return self._peers["count"]

    # -- functions

    def value(self, node: exp.Window) -> Typed:
        """Return the value of a window function."""
        function = node.this
        if isinstance(function, exp.IgnoreNulls) and isinstance(function.this, _PLACED):
            return self._last_known(function.this, node)
        if isinstance(function, exp.RespectNulls):
            function = function.this
        match function:
            case exp.RowNumber():
                return self.number()
            case exp.Rank():
                return self.peers("min") if self.keys else Typed(Lit(1, "int64"), BIGINT, False)
            case exp.DenseRank():
                return self._dense()
            case exp.PercentRank():
                return self._percent()
            case exp.CumeDist():
                last = self.peers("max") if self.keys else self.count()
                return Typed(Call("/", (_float(last.term), _float(self.count().term))), DOUBLE, False)
            case exp.Ntile():
                return self._ntile(function)
            case exp.Lag() | exp.Lead():
                return self._moved(function)
            case exp.FirstValue() | exp.LastValue() | exp.NthValue():
                return self._at_place(function, node)
        return self._aggregate(function, node)

    def _dense(self) -> Typed:
        if not self.keys:
            return Typed(Lit(1, "int64"), BIGINT, False)
        outputs = [(f"c{n}", v) for n, v in enumerate([*self.by, *(k.value for k in self.keys)])]
        distinct, columns = self.builder.as_atom(self.body, outputs, distinct=True)
        by, values = columns[: len(self.by)], columns[len(self.by) :]
        keys = [k._replace(value=v) for k, v in zip(self.keys, values, strict=True)]
        table = numbered(self.builder, distinct, by, keys, columns)
        given = [*self.around, *self.by, *(k.value for k in self.keys)]
        return self.builder.scan(table, self.body, given)[-1]

    def _percent(self) -> Typed:
        rank = self.peers("min") if self.keys else Typed(Lit(1, "int64"), BIGINT, False)
        count, one = self.count().term, Lit(1, "int64")
        share = Call("/", (_float(Call("-", (rank.term, one))), _float(Call("-", (count, one)))))
        return Typed(Call("if", (Call(">", (count, one)), share, Lit(0.0, "float64"))), DOUBLE, False)

    def _ntile(self, node: exp.Ntile) -> Typed:
        parts = self.select.evaluate(node.this)
        if not isinstance(parts.term, Lit) or not isinstance(parts.term.value, int) or parts.term.value < 1:
            raise SqlError("ntile takes a constant number of parts, 1 or more", node)
        k, n, count, one = parts.term, self.number().term, self.count().term, Lit(1, "int64")
        small = self.builder.define(self.body, Typed(Call("/", (count, k)), BIGINT, False)).term
        large = Call("-", (count, Call("*", (small, k))))  # so many parts have one row more
        large_ = self.builder.define(self.body, Typed(large, BIGINT, False)).term
        in_large = Call("*", (large_, Call("+", (small, one))))
        before = Call("-", (n, one))
        first = Call("+", (Call("/", (before, Call("+", (small, one)))), one))
        width = Call("if", (Call("<", (small, one)), one, small))
        after = Call("+", (Call("+", (Call("/", (Call("-", (before, in_large)), width)), large_)), one))
        return Typed(Call("if", (Call("<=", (n, in_large)), first, after)), BIGINT, False)

    def _moved(self, node: exp.Lag | exp.Lead) -> Typed:
        value = self.builder.define(self.body, self.select.evaluate(node.this))
        offset = 1
        if (given := node.args.get("offset")) is not None:
            term = self.select.evaluate(given).term
            if not isinstance(term, Lit) or not isinstance(term.value, int):
                raise SqlError(f"{node.key} takes a constant offset", node)
            offset = term.value
        default = node.args.get("default")
        last = self.select.evaluate(default) if default is not None else Typed(Lit(None, value.type.store), NULL, True)
        last = convert(last, value.type, node) if last.type != NULL else last._replace(type=value.type)
        move = Call("-" if isinstance(node, exp.Lag) else "+", (self.number().term, Lit(offset, "int64")))
        return self._read(value, Typed(move, BIGINT, False), last)

    def _at_place(self, function: exp.Expr, node: exp.Window) -> Typed:
        value = self.builder.define(self.body, self.select.evaluate(function.this))
        low, high = self._frame(node)
        null = Typed(Lit(None, value.type.store), value.type, True)
        if isinstance(function, exp.LastValue):
            place = high if high is not None else self.count()
        else:
            place = low if low is not None else Typed(Lit(1, "int64"), BIGINT, False)
        if isinstance(function, exp.NthValue):
            n = self.select.evaluate(function.args["offset"])
            place = Typed(Call("+", (place.term, Call("-", (n.term, Lit(1, "int64"))))), BIGINT, False)
        inside: list[Literal] = []
        place = self.builder.define(self.body, place)
        if high is not None:
            inside.append(Test(Call("<=", (place.term, high.term))))
        if low is not None:
            inside.append(Test(Call(">=", (place.term, low.term))))
        return self._read(value, place, null, inside)

    def _last_known(self, function: exp.Expr, node: exp.Window) -> Typed:
        """IGNORE NULLS: read the nearest row of the frame, or before or after the own, whose value is not null."""
        value, number = self.builder.define(self.body, self.select.evaluate(function.this)), self.number()
        low, high = self._frame(node)
        if isinstance(function, exp.Lag | exp.Lead):
            if function.args.get("offset") is not None or function.args.get("default") is not None:
                raise SqlError("IGNORE NULLS is kept for lag and lead of one row, without a default", node)
            back = isinstance(function, exp.Lag)
            beside = Typed(Call("-" if back else "+", (number.term, Lit(1, "int64"))), BIGINT, False)
            low, high = (None, beside) if back else (beside, None)
        source, none = self.body.copy(), Lit(None, "int64")
        self.builder.require(source, self.builder.define(source, value))
        op = "max" if isinstance(function, exp.LastValue | exp.Lag) else "min"
        if low is None and high is None:
            place = self._whole(op, BIGINT, number, source, none)
        else:
            place = self._framed(op, BIGINT, number, source, none, low, high)
        return self._read(value, place, Typed(Lit(None, value.type.store), value.type, True))

    def _read(self, value: Typed, place: Typed, default: Typed, inside: Sequence[Literal] = ()) -> Typed:
        """Return the value of the row at a place of the partition, or a default if there is none."""
        builder, number = self.builder, self.number()
        place = builder.define(self.body, place)
        groups = self.groups
        values = builder.helper()
        head = Atom(values, (*(g.term for g in groups), number.term), (value.term,))
        builder.rule(head, self.body)
        group_columns = tuple(Column(f"g{n}", g.type, builder.may_be_null(self.body, g)) for n, g in enumerate(groups))
        null = builder.may_be_null(self.body, value)
        table = Table(values, (*group_columns, Column("n", BIGINT, False), Column("v", value.type, null)),
                      (*range(len(groups) + 1),), True)  # fmt: skip
        moved, wanted = builder.helper(), [*groups, number]
        there = self.body.copy()
        there.literals += inside
        found = builder.scan(table, there, [*groups, place])[-1]
        keys = tuple(v.term for v in wanted)
        builder.rule(Atom(moved, keys, (found.term,)), there)
        missing = self.body.copy()
        none = Body()
        builder.scan(table, none, [*groups, place])
        missing.literals.append(Not((*none.literals, *inside)))
        other = builder.variable(default.type, default.nullable)
        assert isinstance(other.term, Var)
        missing.literals.append(Define(other.term, default.term))
        builder.rule(Atom(moved, keys, (other.term,)), missing)
        result = Table(moved, (*group_columns, Column("n", BIGINT, False),
                               Column("v", value.type, null or default.nullable)),
                       (*range(len(groups) + 1),), True)  # fmt: skip
        return builder.scan(result, self.body, wanted)[-1]

    # -- aggregates over frames

    def _frame(self, node: exp.Window) -> tuple[Typed | None, Typed | None]:
        """Return the numbers of the first and the last row of the frame; None for the partition's own."""
        spec = node.args.get("spec")
        if spec is None:
            return None, self.peers("max") if self.keys else None
        if spec.args.get("exclude"):
            raise SqlError("EXCLUDE is not kept in windows", node)
        kind = (spec.args.get("kind") or "RANGE").upper()
        start, start_side = spec.args.get("start"), spec.args.get("start_side")
        end, end_side = spec.args.get("end"), spec.args.get("end_side")
        end = "CURRENT ROW" if end is None else end
        return self._bound(kind, start, start_side, node, "min"), self._bound(kind, end, end_side, node, "max")

    def _bound(self, kind: str, bound: object, side: object, node: exp.Window, op: str) -> Typed | None:
        if bound == "UNBOUNDED":
            return None
        if bound == "CURRENT ROW":
            return self.number() if kind == "ROWS" else (self.peers(op) if self.keys else None)
        if kind != "ROWS":
            raise SqlError(f"{kind} with an offset is not kept in windows: rules say it, see docs/rules.md", node)
        assert isinstance(bound, exp.Expr)
        offset = self.select.evaluate(bound).term
        if not isinstance(offset, Lit) or not isinstance(offset.value, int):
            raise SqlError("a frame has constant bounds", node)
        sign = "-" if str(side).upper() == "PRECEDING" else "+"
        return Typed(Call(sign, (self.number().term, offset)), BIGINT, False)

    def _aggregate(self, function: exp.Expr, node: exp.Window) -> Typed:
        condition = None
        if isinstance(function, exp.Filter):
            condition, function = function.expression.this, function.this
        if isinstance(function, exp.IgnoreNulls):
            function = function.this
        low, high = self._frame(node)
        if _counts_distinct(function) and condition is None and low is None and high is None:
            return self._distinct_count(function)
        op, type_, value = self._operation(function, node)
        empty = Lit(0 if isinstance(function, exp.Count) else None, type_.store)
        source = self.body.copy()
        if condition is not None:
            scope = Scope(source, self.select.scope.sources, self.select.scope.parent, self.select.scope.aliases)
            translator = self.select.queries.expressions(scope, self.select.replaced, self.select.grouped)
            source.literals += translator.condition(condition)
        if value is not None:
            value = self.builder.require(source, self.builder.define(source, value))
        if low is None and high is None:
            return self._whole(op, type_, value, source, empty)
        return self._framed(op, type_, value, source, empty, low, high)

    def _distinct_count(self, function: exp.Expr) -> Typed:
        """COUNT(DISTINCT x) of the whole partition."""
        source = self.body.copy()
        value = self.builder.define(source, self.select.evaluate(function.this.expressions[0]))
        outputs = [*self.by, self.builder.require(source, value)]
        distinct, columns = self.builder.as_atom(source, [(f"c{n}", v) for n, v in enumerate(outputs)], distinct=True)
        return self._whole("count", BIGINT, None, distinct, Lit(0, "int64"), [*self.around, *columns[:-1]])

    def _operation(self, function: exp.Expr, node: exp.Window) -> tuple[str, SqlType, Typed | None]:
        if isinstance(function, exp.Count):
            if isinstance(function.this, exp.Star) or function.this is None:
                return "count", BIGINT, None
            if isinstance(function.this, exp.Distinct):
                raise SqlError("DISTINCT is not kept in windows", node)
            return "count", BIGINT, self.select.evaluate(function.this)
        if not isinstance(function, (exp.Sum, exp.Avg, exp.Min, exp.Max, *MOMENTS)):
            raise SqlError(f"{function.sql(dialect='duckdb')[:40]} is not kept as a window function", node)
        if isinstance(function.this, exp.Distinct):
            raise SqlError("DISTINCT is not kept in windows", node)
        value = self.select.evaluate(function.this)
        if isinstance(function, exp.Min | exp.Max):
            return ("min" if isinstance(function, exp.Min) else "max"), value.type, value
        if not value.type.is_number:
            raise SqlError(f"{function.key} takes numbers, and this is {value.type}", node)
        if isinstance(function, exp.Sum):
            if value.type.is_float:
                return "total", DOUBLE, value
            return "sum", SqlType("DECIMAL", 38, value.type.scale) if value.type.is_decimal else HUGEINT, value
        return ("avg" if isinstance(function, exp.Avg) else MOMENTS[type(function)]), DOUBLE, value

    def _whole(
        self,
        op: str,
        type_: SqlType,
        value: Typed | None,
        source: Body,
        empty: Lit,
        groups: Sequence[Typed] | None = None,
    ) -> Typed:
        """Return an aggregate of the whole partition; `groups` are the partition's values in `source`."""
        result, name = self.builder.variable(type_, False).term, self.builder.helper()
        assert isinstance(result, Var)
        keys = [*(self.groups if groups is None else groups)] or [
            self.builder.define(source, Typed(Lit(0, "int64"), INTEGER, False))
        ]
        fold = Fold(op, result.name, () if value is None else (value.term,))
        self.builder.rule(Atom(name, tuple(k.term for k in keys), (result,)), source, (fold,))
        columns = tuple(Column(f"g{n}", k.type, self.builder.may_be_null(source, k)) for n, k in enumerate(keys))
        table = Table(name, (*columns, Column("value", type_, False)), (*range(len(keys)),), True)
        keys = [*self.groups]
        if not keys:
            zero = self.builder.define(self.body, Typed(Lit(0, "int64"), INTEGER, False))
            keys = [zero]
        return self._or_empty(table, keys, type_, empty)

    def _or_empty(self, table: Table, keys: Sequence[Typed], type_: SqlType, empty: Lit) -> Typed:
        """Return the value of a function of some keys of the body, `empty` where it has none."""
        builder, name = self.builder, self.builder.helper()
        there = self.body.copy()
        found = builder.scan(table, there, [*keys])[-1]
        terms = tuple(k.term for k in keys)
        builder.rule(Atom(name, terms, (found.term,)), there)
        missing, none = self.body.copy(), Body()
        builder.scan(table, none, [*keys])
        missing.literals.append(Not(tuple(none.literals)))
        other = builder.variable(type_, True).term
        assert isinstance(other, Var)
        missing.literals.append(Define(other, empty))
        builder.rule(Atom(name, terms, (other,)), missing)
        columns = tuple(Column(f"k{n}", k.type, builder.may_be_null(self.body, k)) for n, k in enumerate(keys))
        full = Table(name, (*columns, Column("value", type_, empty.value is None)), (*range(len(keys)),), True)
        return builder.scan(full, self.body, [*keys])[-1]

    def _framed(
        self, op: str, type_: SqlType, value: Typed | None, source: Body, empty: Lit,
        low: Typed | None, high: Typed | None,
    ) -> Typed:  # fmt: skip
        """Return an aggregate of the rows whose numbers are in a range."""
        builder, groups, number = self.builder, self.groups, self.number()
        bounds = [builder.define(self.body, b) for b in (low, high) if b is not None]
        group_columns = tuple(Column(f"g{n}", g.type, builder.may_be_null(self.body, g)) for n, g in enumerate(groups))
        rows = builder.helper()
        if value is None:
            value = builder.define(source, Typed(Lit(1, "int64"), INTEGER, False))
        builder.rule(Atom(rows, (*(g.term for g in groups), number.term), (value.term,)), source)
        points = builder.helper()
        bound_terms = tuple(b.term for b in bounds)
        builder.rule(Atom(points, (*(g.term for g in groups), *bound_terms)), self.body)
        frame = Body()
        point_columns = (*group_columns, *(Column(f"b{n}", BIGINT, False) for n in range(len(bounds))))
        point = builder.scan(Table(points, point_columns, (*range(len(point_columns)),)), frame)
        table = Table(rows, (*group_columns, Column("n", BIGINT, False), Column("v", value.type, False)),
                      (*range(len(groups) + 1),), True)  # fmt: skip
        *_, n, argument = builder.scan(table, frame, point[: len(groups)])
        ends = point[len(groups) :]
        if low is not None:
            frame.literals.append(Test(Call(">=", (n.term, ends[0].term))))
        if high is not None:
            frame.literals.append(Test(Call("<=", (n.term, ends[-1].term))))
        result, name = builder.variable(type_, False).term, builder.helper()
        assert isinstance(result, Var)
        fold = Fold(op, result.name, () if op == "count" else (argument.term,))
        builder.emit(Rule((Atom(name, tuple(v.term for v in point), (result,)),), tuple(frame.literals), (fold,)))
        folded = Table(name, (*point_columns, Column("value", type_, False)), (*range(len(point_columns)),), True)
        return self._or_empty(folded, [*groups, *bounds], type_, empty)


def _counts_distinct(function: exp.Expr) -> bool:
    distinct = function.this if isinstance(function, exp.Count) else None
    return isinstance(distinct, exp.Distinct) and len(distinct.expressions) == 1


def _float(term: Term) -> Term:
    return Call("float", (term,))
