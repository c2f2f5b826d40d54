"""Window functions, which follow from the numbers of rows in their partitions (see row_numbers.py).

`rank` is the least number among equals, `lag` reads the row numbered one less, a running sum is a
range of numbers.  An edit numbers the partitions that it changes anew, and changes the rows whose
number differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.sql.conversions import alike, convert
from ivm.sql.errors import SqlError
from ivm.sql.functions.known import reading
from ivm.sql.functions.scalar import unknown
from ivm.sql.queries.aggregates import WINDOW_ONLY
from ivm.sql.queries.clauses import Clauses
from ivm.sql.queries.expressions import Expressions
from ivm.sql.queries.folds import kinds
from ivm.sql.queries.folds.aggregate import Aggregate, Group, Wanted, join_around, wanted
from ivm.sql.queries.row_numbers import MOST, Key, copies, numbered, ordering
from ivm.sql.queries.scope import Scope, text_of
from ivm.sql.queries.sets import own
from ivm.sql.queries.window_syntax import inputs_of, refuse_own_order, with_named
from ivm.sql.rules import Body, Column, Table, outer_value
from ivm.sql.terms import Atom, Call, Define, Fold, Lit, Literal, Not, Term, Test, Typed, Var
from ivm.sql.types import BIGINT, DOUBLE, INTEGER, NULL, SqlType
from pagestore.host import KEYS_MAX

NUMBER = exp.column("number", "window row")  # the number of a row, as an expression of aggregates


def apply(select: Clauses, nodes: list[exp.Window], named: dict[str, exp.Expr]) -> None:
    """Give the window functions of a query values, by atoms in its body."""
    join_around(select.expressions(), nodes)
    _refuse_duplicates(select)
    partitions: dict[str, _Partition] = {}
    for node in nodes:
        whole = with_named(node, named)
        by, order = whole.args.get("partition_by") or [], whole.args.get("order")
        text = f"{[text_of(p) for p in by]} {text_of(order) if order else ''}"
        if text not in partitions:
            partitions[text] = _Partition(select, by, order.expressions if order else [])
        with select.builder.folding(node):
            select.replaced[text_of(node)] = partitions[text].value(whole)
    select.builder.costs.append(
        "window functions: an edit numbers the partitions that it changes anew, O(rows of the "
        "partition)"
    )


def _refuse_duplicates(select: Clauses) -> None:
    """Number the rows of a body that may be equal, so that each has an identity."""
    body = select.scope.body
    if not body.weights:
        return
    values: list[Typed] = []
    for source in select.scope.sources if select.grouped is None else []:
        values += [
            v
            for n, v in source.columns
            if select.needs is None or select.needs.wants(source.alias, n)
        ]
    values += [*(select.grouped or {}).values(), *select.replaced.values()]
    builder = select.builder
    own = [builder.define(body, v) for v in values]
    wanted = list(
        {v.term: v for v in own if isinstance(v.term, Var) and v.term.name in body.columns}.values()
    )
    found, columns = copies(builder, body, [(f"c{n}", v) for n, v in enumerate(wanted)])
    renamed = {old.term: new for old, new in zip(wanted, columns, strict=True)}
    computed = {
        builder.resolve(v.term): renamed[o.term]
        for v, o in zip(values, own, strict=True)
        if o.term in renamed
    }
    _rename(select, found, {**computed, **renamed})


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


class _Partition:
    """The window functions of one PARTITION BY and ORDER BY."""

    def __init__(self, select: Clauses, by: list[exp.Expr], order: list[exp.Expr]) -> None:
        self.select, self.builder, self.body = select, select.builder, select.scope.body
        self.by = [self.builder.bound(self.body, select.evaluate(one)) for one in by]
        self.keys = [
            Key(*ordering(select.evaluate(one.this if isinstance(one, exp.Ordered) else one), one))
            for one in order
        ]
        self.keys = [k._replace(value=self.builder.bound(self.body, k.value)) for k in self.keys]
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
            if self._is_numbered_whole():
                self.body.literals.clear()  # the numbers have the same rows
            self._number = self.builder.scan(table, self.body, [*self.around, *self.identity])[-1]
        return self._number

    def _is_numbered_whole(self) -> bool:
        """Return whether the body is one atom, whose columns all tell its rows apart."""
        (first, *others), own = self.body.literals, {v.term for v in self.identity}
        return not others and isinstance(first, Atom) and not first.values and {*first.keys} == own

    def peers(self, op: str) -> Typed:
        """Return the least or greatest number of the rows that the order does not tell apart."""
        if op not in self._peers:
            number = self.number()
            groups = [*self.groups, *(k.value for k in self.keys)]
            self._peers[op] = self._folded(op, BIGINT, groups, number.term, self.body)
        return self._peers[op]

    def _folded(
        self, op: str, type_: SqlType, groups: Sequence[Typed], argument: Term | None, body: Body
    ) -> Typed:
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
        columns = tuple(
            Column(f"g{n}", k.type, self.builder.may_be_null(inner, k)) for n, k in enumerate(keys)
        )
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
        refuse_own_order(node.this)
        inner = node.this
        while isinstance(inner, exp.IgnoreNulls | exp.RespectNulls | exp.Filter | exp.WithinGroup):
            inner = inner.this
        with reading(inner):
            return self._of(node.this, node)

    def _of(self, function: exp.Expr, node: exp.Window) -> Typed:  # noqa: C901 - a case for each function
        if isinstance(function, exp.IgnoreNulls) and isinstance(
            function.this, exp.Lag | exp.Lead | exp.NthValue
        ):
            return self._nth_known(function.this, node)
        if isinstance(function, exp.IgnoreNulls) and isinstance(
            function.this, exp.FirstValue | exp.LastValue
        ):
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
                return Typed(
                    Call("/", (_float(last.term), _float(self.count().term))), DOUBLE, False
                )
            case exp.Ntile():
                return self._ntile(function)
            case exp.Lag() | exp.Lead():
                return self._moved(function)
            case exp.FirstValue() | exp.LastValue() | exp.NthValue():
                return self._at_place(function, node)
        if isinstance(function, exp.Anonymous):
            raise unknown(
                function, [name.lower() for kind in WINDOW_ONLY for name in kind.sql_names()]
            )
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
        return Typed(
            Call("if", (Call(">", (count, one)), share, Lit(0.0, "float64"))), DOUBLE, False
        )

    def _ntile(self, node: exp.Ntile) -> Typed:
        parts = self.select.evaluate(node.this)
        if (
            not isinstance(parts.term, Lit)
            or not isinstance(parts.term.value, int)
            or parts.term.value < 1
        ):
            raise SqlError("ntile takes a constant number of parts, 1 or more", node)
        k, n, count, one = parts.term, self.number().term, self.count().term, Lit(1, "int64")
        small = self.builder.define(self.body, Typed(Call("/", (count, k)), BIGINT, False)).term
        large = Call("-", (count, Call("*", (small, k))))  # so many parts have one row more
        large_ = self.builder.define(self.body, Typed(large, BIGINT, False)).term
        in_large = Call("*", (large_, Call("+", (small, one))))
        before = Call("-", (n, one))
        first = Call("+", (Call("/", (before, Call("+", (small, one)))), one))
        width = Call("if", (Call("<", (small, one)), one, small))
        after = Call(
            "+", (Call("+", (Call("/", (Call("-", (before, in_large)), width)), large_)), one)
        )
        return Typed(Call("if", (Call("<=", (n, in_large)), first, after)), BIGINT, False)

    def _moved(self, node: exp.Lag | exp.Lead) -> Typed:
        value = self.builder.define(self.body, self.select.evaluate(node.this))
        move = Call(
            "-" if isinstance(node, exp.Lag) else "+", (self.number().term, self._offset(node))
        )
        return self._read(value, Typed(move, BIGINT, False), self._default(node, value))

    def _offset(self, node: exp.Expr) -> Lit:
        """Return by how many rows a function moves, 1 unless it says so."""
        given = node.args.get("offset")
        term = Lit(1, "int64") if given is None else self.select.evaluate(given).term
        if not isinstance(term, Lit) or not isinstance(term.value, int):
            raise SqlError(f"{node.key} takes a constant offset", node)
        return term

    def _default(self, node: exp.Expr, value: Typed) -> Typed:
        """Return what a function gives where there is no row, null unless it says so."""
        default = node.args.get("default")
        last = (
            self.select.evaluate(default)
            if default is not None
            else Typed(Lit(None, value.type.store), NULL, True)
        )
        return (
            convert(last, value.type, node) if last.type != NULL else last._replace(type=value.type)
        )

    def _at_place(self, function: exp.Expr, node: exp.Window) -> Typed:
        """Read the first, the last or the n-th row of the frame."""
        value = self.builder.define(self.body, self.select.evaluate(function.this))
        low, high, exclude = self._frame(node)
        if exclude:
            raise SqlError(f"EXCLUDE is kept for aggregates, and not for {function.key}", node)
        null = Typed(Lit(None, value.type.store), value.type, True)
        first = Lit(1, "int64") if low is None else Call("greatest", (low.term, Lit(1, "int64")))
        if isinstance(function, exp.LastValue):
            count = self.count().term
            place = Typed(
                count if high is None else Call("least", (high.term, count)), BIGINT, False
            )
        elif isinstance(function, exp.NthValue):
            n = self.select.evaluate(function.args["offset"])
            place = Typed(
                Call("+", (first, Call("-", (n.term, Lit(1, "int64"))))), BIGINT, n.nullable
            )
        else:
            place = Typed(first, BIGINT, False)
        place = self.builder.define(self.body, place)
        inside: list[Literal] = []
        if high is not None:
            inside.append(Test(Call("<=", (place.term, high.term))))
        if low is not None:
            inside.append(Test(Call(">=", (place.term, first))))
        return self._read(value, place, null, inside)

    def _last_known(self, function: exp.Expr, node: exp.Window) -> Typed:
        """IGNORE NULLS: read the first or the last row of the frame whose value is not null."""
        value, number = (
            self.builder.define(self.body, self.select.evaluate(function.this)),
            self.number(),
        )
        low, high, exclude = self._frame(node)
        if exclude:
            raise SqlError("EXCLUDE with IGNORE NULLS is not kept", node)
        fold = exp.Max if isinstance(function, exp.LastValue) else exp.Min
        one = Wanted(fold(this=NUMBER), _known(function), False, [])
        place = (
            self._whole(one, {text_of(NUMBER): number})
            if low is high is None
            else self._framed(one, low, high)
        )
        return self._read(value, place, self._default(function, value))

    def _nth_known(self, function: exp.Expr, node: exp.Window) -> Typed:
        """IGNORE NULLS: read the row that is so many further, of those whose value is not null."""
        value, offset = (
            self.builder.define(self.body, self.select.evaluate(function.this)),
            self._offset(function).value,
        )
        if not isinstance(offset, int) or offset < 1:
            raise SqlError(f"{function.key} with IGNORE NULLS takes an offset of 1 or more", node)
        before: Typed | None = self.number()
        high, inside = None, list[Literal]()
        if isinstance(function, exp.NthValue):
            before, high, exclude = self._frame(node)
            if exclude:
                raise SqlError("EXCLUDE with IGNORE NULLS is not kept", node)
        rank: Term = Lit(1 - offset if isinstance(function, exp.Lag) else offset, "int64")
        if before is not None:
            beyond = 0 if isinstance(function, exp.Lead) else 1
            last = Typed(Call("-", (before.term, Lit(beyond, "int64"))), BIGINT, False)
            rank = Call("+", (self._known_up_to(function, last).term, rank))
        place = self._place_of_known(function, value, Typed(rank, BIGINT, False))
        if high is not None:
            inside.append(Test(Call("<=", (place.term, high.term))))
        return self._read(value, place, self._default(function, value), inside)

    def _known_up_to(self, function: exp.Expr, last: Typed) -> Typed:
        """Return how many rows up to a number have a value that is not null."""
        return self._framed(Wanted(exp.Count(this=NUMBER), _known(function), False, []), None, last)

    def _place_of_known(self, function: exp.Expr, value: Typed, rank: Typed) -> Typed:
        """Return the number of the row that is so many among those whose value is not null, null
        if there is none.
        """
        builder, number, groups = self.builder, self.number(), self.groups
        own_rank, rank = self._known_up_to(function, number), builder.bound(self.body, rank)
        source = self.body.copy()
        builder.require(source, value)
        names = [*(f"g{n}" for n in range(len(groups))), "rank", "n"]
        table = self._relation(source, names, [*groups, own_rank, number], len(groups) + 1)
        return self._or_empty(table, [*groups, rank], Lit(None, "int64"))

    def _read(
        self, value: Typed, place: Typed, default: Typed, inside: Sequence[Literal] = ()
    ) -> Typed:
        """Return the value of the row at a place of the partition, or a default without one."""
        builder, number = self.builder, self.number()
        place = builder.define(self.body, place)
        groups = self.groups
        values = builder.helper()
        head = Atom(values, (*(g.term for g in groups), number.term), (value.term,))
        builder.rule(head, self.body)
        group_columns = tuple(
            Column(f"g{n}", g.type, builder.may_be_null(self.body, g)) for n, g in enumerate(groups)
        )
        null = builder.may_be_null(self.body, value)
        table = Table(
            values,
            (*group_columns, Column("n", BIGINT, False), Column("v", value.type, null)),
            (*range(len(groups) + 1),),
            True,
        )
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
        result = Table(
            moved,
            (
                *group_columns,
                Column("n", BIGINT, False),
                Column("v", value.type, null or default.nullable),
            ),
            (*range(len(groups) + 1),),
            True,
        )
        return builder.scan(result, self.body, wanted)[-1]

    # -- aggregates over frames

    def _frame(self, node: exp.Window) -> tuple[Typed | None, Typed | None, str]:
        """Return the numbers of the first and the last row of the frame, None for the
        partition's own, and EXCLUDE.
        """
        spec = node.args.get("spec")
        if spec is None:
            return None, self.peers("max") if self.keys else None, ""
        kind = (spec.args.get("kind") or "RANGE").upper()
        start, start_side = spec.args.get("start"), spec.args.get("start_side")
        end, end_side = spec.args.get("end"), spec.args.get("end_side")
        end = "CURRENT ROW" if end is None else end
        low, high = (
            self._bound(kind, start, start_side, node, "min"),
            self._bound(kind, end, end_side, node, "max"),
        )
        exclude = str(spec.args.get("exclude") or "").upper()
        return low, high, "" if exclude == "NO OTHERS" else exclude

    def _bound(
        self, kind: str, bound: object, side: object, node: exp.Window, op: str
    ) -> Typed | None:
        if bound == "UNBOUNDED":
            return None
        if bound == "CURRENT ROW":
            return self.number() if kind == "ROWS" else (self.peers(op) if self.keys else None)
        assert isinstance(bound, exp.Expr)
        back = str(side).upper() == "PRECEDING"
        if kind == "RANGE":
            return self._reached_by_value(bound, back, node, op)
        offset = self.select.evaluate(bound).term
        if not isinstance(offset, Lit) or not isinstance(offset.value, int):
            raise SqlError("a frame has constant bounds", node)
        own = self._dense() if kind == "GROUPS" else self.number()
        limit = Typed(Call("-" if back else "+", (own.term, offset)), BIGINT, False)
        return (
            limit
            if kind == "ROWS"
            else self._reached(own, limit, ">=" if op == "min" else "<=", op)
        )

    def _reached_by_value(self, bound: exp.Expr, back: bool, node: exp.Window, op: str) -> Typed:
        """Return the number of the first or last row of a frame of RANGE with an offset."""
        order = node.args["order"].expressions if node.args.get("order") else []
        if len(order) != 1:
            raise SqlError("RANGE with an offset needs one expression in ORDER BY", node)
        key = self.keys[0]
        moved = (exp.Sub if back != key.desc else exp.Add)(
            this=order[0].this.copy(), expression=bound.copy()
        )
        own, limit = alike(node, key.value, self.select.evaluate(moved))
        own = self.builder.bound(self.body, own)
        found = self._reached(own, limit, ">=" if (op == "min") != key.desc else "<=", op)
        if not self.builder.may_be_null(self.body, own):
            return found
        nulls = Call("if", (Call("is_null", (own.term,)), self.peers(op).term, found.term))
        return self.builder.bound(self.body, Typed(nulls, BIGINT, False))

    def _reached(self, value: Typed, limit: Typed, comparison: str, op: str) -> Typed:
        """Return the first (min) or last (max) number in a row's partition on a side of a limit."""
        one = Wanted((exp.Min if op == "min" else exp.Max)(this=NUMBER), None, False, [])

        def test(point: list[Typed], row: dict[str, Typed]) -> list[Term]:
            return [Call(comparison, (row["own"].term, point[0].term))]

        found = self._over(one, [limit], {"own": value}, test)
        none = Lit(MOST if op == "min" else 0, "int64")
        return self.builder.bound(
            self.body, Typed(Call("coalesce", (found.term, none)), BIGINT, False)
        )

    def _aggregate(self, function: exp.Expr, node: exp.Window) -> Typed:
        low, high, exclude = self._frame(node)
        one = wanted(function)
        return (
            self._whole(one)
            if low is high is None and not exclude
            else self._framed(one, low, high, exclude)
        )

    def _translator(self, body: Body, replaced: dict[str, Typed]) -> Expressions:
        scope = replace(self.select.scope, body=body)
        return self.select.queries.expressions(scope, {**self.select.replaced, **replaced})

    def _whole(self, one: Wanted, replaced: dict[str, Typed] | None = None) -> Typed:
        """Return an aggregate of the whole partition."""
        source, zero = self.body.copy(), Typed(Lit(0, "int64"), INTEGER, False)
        values = self._translator(source, replaced or {})
        if one.condition is not None:
            source.literals += values.condition(one.condition)
        keys = [*self.groups] or [self.builder.define(source, zero)]
        group = Group(self.builder, source, keys, self.builder.carried(self.body))
        made = kinds.made(Aggregate(group, source, values, one))
        keys = [*self.groups] or [self.builder.define(self.body, zero)]
        if made.total:
            return self.builder.scan(made.table, self.body, keys)[-1]
        return self._or_empty(made.table, keys, made.default)

    def _framed(
        self, one: Wanted, low: Typed | None, high: Typed | None, exclude: str = ""
    ) -> Typed:
        """Return an aggregate of the rows with numbers in a range, but for what EXCLUDE names."""
        bounds = [b for b in (low, high) if b is not None]
        own = [self.number()] if exclude in ("CURRENT ROW", "TIES") else []
        equals = (
            [self.peers("min"), self.peers("max")]
            if exclude in ("GROUP", "TIES") and self.keys
            else []
        )

        def test(point: list[Typed], row: dict[str, Typed]) -> list[Term]:
            n, terms = row["n"].term, [p.term for p in point]
            found: list[Term] = [Call(">=", (n, terms[0]))] if low is not None else []
            found += [Call("<=", (n, terms[len(bounds) - 1]))] if high is not None else []
            if exclude == "CURRENT ROW":
                found.append(Call("!=", (n, terms[len(bounds)])))
            elif equals:
                first, last = terms[-2:]
                beside: list[Term] = [Call("<", (n, first)), Call(">", (n, last))]
                found.append(
                    Call("or", (*beside, *(Call("=", (n, terms[len(bounds)])) for _ in own)))
                )
            return found

        return self._over(one, [*bounds, *own, *equals], {}, test)

    def _over(
        self,
        one: Wanted,
        points: Sequence[Typed],
        more: dict[str, Typed],
        test: Callable[[list[Typed], dict[str, Typed]], list[Term]],
    ) -> Typed:
        """Return an aggregate of the rows of the partition that pass a test of them and of the
        row's own `points`.

        The test takes the points as variables and the values of a row: its number "n", and those in
        `more`.
        """
        builder, groups, number = self.builder, self.groups, self.number()
        points = [builder.bound(self.body, p) for p in points]
        source = self.body.copy()
        values = self._translator(source, {text_of(NUMBER): number})
        if one.condition is not None:
            source.literals += values.condition(one.condition)
        inputs = {
            text_of(node): builder.define(source, values.value(node)) for node in inputs_of(one)
        }
        names = [
            *(f"g{n}" for n in range(len(groups))),
            "n",
            *more,
            *(f"v{n}" for n in range(len(inputs))),
        ]
        rows = self._relation(
            source, names, [*groups, number, *more.values(), *inputs.values()], len(groups) + 1
        )
        names = [*names[: len(groups)], *(f"p{n}" for n in range(len(points)))]
        frame = Body()
        point = builder.scan(
            self._relation(self.body, names, [*groups, *points], len(names)), frame
        )
        row = builder.scan(rows, frame, point[: len(groups)])[len(groups) :]
        known = {"n": row[0], **dict(zip(more, row[1:], strict=False))}
        frame.literals += [Test(term) for term in test(point[len(groups) :], known)]
        replaced = dict(zip(inputs, row[1 + len(more) :], strict=True))
        translator = self.select.queries.expressions(Scope(frame), replaced)
        made = kinds.made(
            Aggregate(Group(builder, frame, point), frame, translator, one._replace(condition=None))
        )
        return self._or_empty(made.table, [*groups, *points], made.default)

    def _relation(
        self, body: Body, names: Sequence[str], values: Sequence[Typed], key: int
    ) -> Table:
        """Return a helper view of some variables of a body, whose first `key` columns tell its
        rows apart.
        """
        body = body.copy()
        values = [own(self.builder, body, v) for v in values]
        columns = tuple(
            Column(n, v.type, self.builder.may_be_null(body, v))
            for n, v in zip(names, values, strict=True)
        )
        if len(columns) > KEYS_MAX:
            raise SqlError(
                f"a window needs {len(columns)} columns in one step, and {KEYS_MAX} is the most"
            )
        name = self.builder.helper()
        self.builder.rule(Atom(name, tuple(v.term for v in values)), body)
        return Table(name, columns, (*range(key),))

    def _or_empty(self, table: Table, keys: Sequence[Typed], empty: Lit) -> Typed:
        """Return the value of a function of some keys of the body, `empty` where it has none."""
        builder, name, value = self.builder, self.builder.helper(), table.columns[-1]
        there = self.body.copy()
        found = builder.scan(table, there, [*keys])[-1]
        terms = tuple(k.term for k in keys)
        builder.rule(Atom(name, terms, (found.term,)), there)
        missing, none = self.body.copy(), Body()
        builder.scan(table, none, [*keys])
        missing.literals.append(Not(tuple(none.literals)))
        other = builder.variable(value.type, True).term
        assert isinstance(other, Var)
        missing.literals.append(Define(other, empty))
        builder.rule(Atom(name, terms, (other,)), missing)
        columns = tuple(
            Column(f"k{n}", k.type, builder.may_be_null(self.body, k)) for n, k in enumerate(keys)
        )
        nullable = empty.value is None or value.nullable
        full = Table(
            name, (*columns, replace(value, nullable=nullable)), (*range(len(keys)),), True
        )
        return builder.scan(full, self.body, [*keys])[-1]


def _known(function: exp.Expr) -> exp.Expr:
    """Return the condition that the argument of a function is not null."""
    return exp.Not(this=exp.Is(this=function.this.copy(), expression=exp.Null()))


def _float(term: Term) -> Term:
    return Call("float", (term,))
