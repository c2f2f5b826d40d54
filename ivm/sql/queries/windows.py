"""Window functions, by ranges of the values that order rows, or by the numbers of rows.

Where keys of ORDER BY are numbers or dates, `lag`, `lead` and frames of a few ROWS seek the next rows
(partitions.py), `first_value` and `last_value` the ends of a partition, a frame of RANGE and `rank`
are ranges of one key, and an edit costs the rows of the answer that change.  All else follows from
the numbers of rows in their partitions (row_numbers.py): `row_number`, other frames of ROWS.  An
edit numbers the partitions that it changes anew, and changes the rows whose number differs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.lang.ir import MIRRORED
from ivm.sql.conversions import alike, convert
from ivm.sql.errors import SqlError
from ivm.sql.functions.known import reading
from ivm.sql.functions.scalar import unknown
from ivm.sql.queries.aggregates import WINDOW_ONLY
from ivm.sql.queries.clauses import Clauses
from ivm.sql.queries.expressions import Expressions
from ivm.sql.queries.folds import kinds
from ivm.sql.queries.folds.aggregate import (
    Aggregate,
    Group,
    Wanted,
    argument_of,
    join_around,
    wanted,
)
from ivm.sql.queries.partitions import STEPS, Partition, most_of, reaches_end
from ivm.sql.queries.row_numbers import MOST, copies, numbered
from ivm.sql.queries.scope import Scope, text_of
from ivm.sql.rules import Body
from ivm.sql.terms import Call, Lit, Literal, Term, Test, Typed, Var, substitute, variables
from ivm.sql.types import BIGINT, DOUBLE, INTEGER, NULL

FIRST = Lit(1, "int64")  # number of a row
NUMBER = exp.column("number", "window row")  # the number of a row, as an expression of aggregates


def apply(select: Clauses, nodes: list[exp.Window], named: dict[str, exp.Window]) -> None:
    """Give the window functions of a query values, by atoms in its body."""
    join_around(select.expressions(), nodes)
    _refuse_duplicates(select)
    partitions: dict[str, _Functions] = {}
    most = most_of(select, nodes)
    for node in nodes:
        whole = with_named(node, named)
        by, order = whole.args.get("partition_by") or [], whole.args.get("order")
        text = f"{[text_of(p) for p in by]} {text_of(order) if order else ''}"
        if text not in partitions:
            partitions[text] = _Functions(select, by, order.expressions if order else [])
            partitions[text].most = most
        with select.builder.folding(node):
            select.replaced[text_of(node)] = partitions[text].value(whole)
    if most > 1 and any(partition.is_numbered for partition in partitions.values()):
        select.builder.costs.append(
            "window functions: an edit numbers the partitions that it changes anew, O(rows of the "
            "partition)"
            if most == MOST
            else "window functions: an edit among the first rows numbers them anew, O(these)"
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


class _Functions(Partition):
    """The window functions of one PARTITION BY and ORDER BY."""

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
        if isinstance(function, exp.IgnoreNulls):
            if isinstance(function.this, exp.Lag | exp.Lead | exp.NthValue):
                return self._nth_known(function.this, node)
            if isinstance(function.this, exp.FirstValue | exp.LastValue):
                return self._last_known(function.this, node)
        if isinstance(function, exp.RespectNulls):
            function = function.this
        match function:
            case exp.RowNumber():
                return self.number()
            case exp.Rank():
                return self._rank()
            case exp.DenseRank():
                return self._dense()
            case exp.PercentRank():
                return self._percent()
            case exp.CumeDist():
                last = self.peers("max") if self.keys else self.count()
                return Typed(_share(last.term, self.count().term), DOUBLE, False)
            case exp.Ntile():
                return self._ntile(function)
            case exp.Lag() | exp.Lead():
                return self._moved(function)
            case exp.FirstValue() | exp.LastValue() | exp.NthValue():
                return self._at_place(function, node)
        if isinstance(function, exp.Anonymous):
            names = (name.lower() for kind in WINDOW_ONLY for name in kind.sql_names())
            raise unknown(function, [*names])
        return self._aggregate(function, node)

    def _dense(self) -> Typed:
        if not self.keys:
            return _number(FIRST)
        outputs = [(f"c{n}", v) for n, v in enumerate([*self.by, *(k.value for k in self.keys)])]
        distinct, columns = self.builder.as_atom(self.body, outputs, distinct=True)
        by, values = columns[: len(self.by)], columns[len(self.by) :]
        keys = [k._replace(value=v) for k, v in zip(self.keys, values, strict=True)]
        table = numbered(self.builder, distinct, by, keys, columns)
        given = [*self.around, *self.by, *(k.value for k in self.keys)]
        return self.builder.scan(table, self.body, given)[-1]

    def _rank(self) -> Typed:
        if (key := self._sought_key()) is None:
            return self.peers("min") if self.keys else _number(FIRST)
        rows = Wanted(exp.Count(this=exp.Star()), None, False, [])
        before = self._within(rows, key, {">" if self.keys[0].desc else "<": key.term}, "key")
        return _number(Call("+", (before.term, FIRST)))

    def _percent(self) -> Typed:
        rank, count = self._rank().term, self.count().term
        share = _share(Call("-", (rank, FIRST)), Call("-", (count, FIRST)))
        more = Call("if", (Call(">", (count, FIRST)), share, Lit(0.0, "float64")))
        return Typed(more, DOUBLE, False)

    def _ntile(self, node: exp.Ntile) -> Typed:
        parts = self.select.evaluate(node.this)
        number = parts.term.value if isinstance(parts.term, Lit) else None
        if not isinstance(number, int) or number < 1:
            raise SqlError("ntile takes a constant number of parts, 1 or more", node)
        before, count = Call("-", (self.number().term, FIRST)), self.count().term
        each = self.builder.define(self.body, _number(Call("/", (count, parts.term)))).term
        larger = Call("mod", (count, parts.term))  # so many parts have one row more
        first = Call("/", (before, Call("+", (each, FIRST))))
        later = Call("/", (Call("-", (before, larger)), Call("greatest", (each, FIRST))))
        return _number(Call("+", (Call("greatest", (first, later)), FIRST)))

    def _moved(self, node: exp.Lag | exp.Lead) -> Typed:
        value = self._argument(node)
        offset, default = self._offset(node), self._default(node, value)
        back = isinstance(node, exp.Lag)
        steps = int(str(offset.value))
        if 0 < abs(steps) <= STEPS and self.near:
            return self._beside(value, abs(steps), back == (steps > 0), default)
        move = Call("-" if back else "+", (self.number().term, offset))
        return self._read(value, _number(move), default)

    def _argument(self, node: exp.Expr) -> Typed:
        return self.builder.define(self.body, self.select.evaluate(node.this))

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
        none = Typed(Lit(None, value.type.store), NULL, True)
        last = none if default is None else self.select.evaluate(default)
        is_null = last.type == NULL
        return last._replace(type=value.type) if is_null else convert(last, value.type, node)

    def _at_place(self, function: exp.Expr, node: exp.Window) -> Typed:
        """Read the first, the last or the n-th row of the frame."""
        value, last = self._argument(function), isinstance(function, exp.LastValue)
        is_end = not isinstance(function, exp.NthValue) and reaches_end(node, last)
        if is_end and self.near:
            return self._outermost(value, last)
        low, high = self._whole_frame(function, node)
        first = FIRST if low is None else Call("greatest", (low.term, FIRST))
        place = _number(first)
        if last:
            count = self.count().term
            place = _number(count if high is None else Call("least", (high.term, count)))
        elif isinstance(function, exp.NthValue):
            n = self.select.evaluate(function.args["offset"])
            if low is None and isinstance(n.term, Lit) and isinstance(n.term.value, int):
                return self._at_number(value, n.term.value, high)
            place = Typed(Call("+", (first, Call("-", (n.term, FIRST)))), BIGINT, n.nullable)
        place = self.builder.define(self.body, place)
        ends = [Test(Call("<=", (place.term, high.term)))] if high is not None else []
        ends += [Test(Call(">=", (place.term, first)))] if low is not None else []
        return self._read(value, place, Typed(Lit(None, value.type.store), value.type, True), ends)

    def _whole_frame(
        self, function: exp.Expr, node: exp.Window
    ) -> tuple[Typed | None, Typed | None]:
        """Return the ends of a frame without EXCLUDE.  Raises SqlError for another."""
        low, high, exclude = self._frame(node)
        if exclude:
            raise SqlError(f"EXCLUDE is kept for aggregates, and not for {function.key}", node)
        return low, high

    def _last_known(self, function: exp.Expr, node: exp.Window) -> Typed:
        """IGNORE NULLS: read the first or the last row of the frame whose value is not null."""
        value, number = self._argument(function), self.number()
        low, high = self._whole_frame(function, node)
        fold = exp.Max if isinstance(function, exp.LastValue) else exp.Min
        agg = Wanted(fold(this=NUMBER), _known(function), False, [])
        is_whole = low is high is None
        known = {text_of(NUMBER): number}
        place = self._whole(agg, known) if is_whole else self._framed(agg, low, high)
        return self._read(value, place, self._default(function, value))

    def _nth_known(self, function: exp.Expr, node: exp.Window) -> Typed:
        """IGNORE NULLS: read the row that is so many further, of those whose value is not null."""
        value, offset = self._argument(function), self._offset(function).value
        if not isinstance(offset, int) or offset < 1:
            raise SqlError(f"{function.key} with IGNORE NULLS takes an offset of 1 or more", node)
        before: Typed | None = self.number()
        high, inside = None, list[Literal]()
        if isinstance(function, exp.NthValue):
            before, high = self._whole_frame(function, node)
        rank: Term = Lit(1 - offset if isinstance(function, exp.Lag) else offset, "int64")
        if before is not None:
            beyond = 0 if isinstance(function, exp.Lead) else 1
            last = _number(Call("-", (before.term, Lit(beyond, "int64"))))
            rank = Call("+", (self._known_up_to(function, last).term, rank))
        place = self._place_of_known(function, value, _number(rank))
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
        table = self._relation(source, [*groups, own_rank, number], len(groups) + 1)
        return self._or_empty(table, [*groups, rank], Typed(Lit(None, "int64"), BIGINT, True))

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
        low = self._bound(kind, start, start_side, node, "min")
        high = self._bound(kind, end, end_side, node, "max")
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
        limit = _number(Call("-" if back else "+", (own.term, offset)))
        if kind == "ROWS":
            return limit
        return self._reached(own, limit, ">=" if op == "min" else "<=", op)

    def _reached_by_value(self, bound: exp.Expr, back: bool, node: exp.Window, op: str) -> Typed:
        """Return the number of the first or last row of a frame of RANGE with an offset."""
        key = self.keys[0]
        own, limit = self._moved_key(bound, back, node)
        own = self.builder.bound(self.body, own)
        may_be_null = self.builder.may_be_null(self.body, own)
        # a frame that begins after all keys, or ends before them, begins or ends at the nulls there
        beyond = may_be_null and back is key.nulls_first is (op == "max")
        found = self._reached(own, limit, ">=" if (op == "min") != key.desc else "<=", op, beyond)
        if not may_be_null:
            return found
        nulls = Call("if", (Call("is_null", (own.term,)), self.peers(op).term, found.term))
        return self.builder.bound(self.body, _number(nulls))

    def _moved_key(self, bound: exp.Expr, back: bool, node: exp.Window) -> tuple[Typed, Typed]:
        """Return the key of a row, and the one that is an offset before or after it."""
        order = node.args["order"].expressions if node.args.get("order") else []
        if len(order) != 1:
            raise SqlError("RANGE with an offset needs one expression in ORDER BY", node)
        key = self.keys[0]
        moved = (exp.Sub if back != key.desc else exp.Add)(
            this=order[0].this.copy(), expression=bound.copy()
        )
        return alike(node, key.value, self.select.evaluate(moved))

    def _reached(
        self, value: Typed, limit: Typed, comparison: str, op: str, or_null: bool = False
    ) -> Typed:
        """Return the first or last number in a row's partition on a side of a limit, or a null."""
        agg = Wanted((exp.Min if op == "min" else exp.Max)(this=NUMBER), None, False, [])

        def test(point: list[Typed], row: dict[str, Typed]) -> list[Term]:
            reached, own = Call(comparison, (row["own"].term, point[0].term)), row["own"].term
            return [Call("or", (reached, Call("is_null", (own,)))) if or_null else reached]

        found = self._over(agg, [limit], {"own": value}, test)
        none = Lit(MOST if op == "min" else 0, "int64")
        return self.builder.bound(self.body, _number(Call("coalesce", (found.term, none))))

    def _ends(self, node: exp.Window) -> dict[str, Term] | None:
        """Return the limits of the keys in a frame of RANGE, by how they compare with these; None
        where the numbers of rows are needed.
        """
        given, key = node.args["spec"].args if node.args.get("spec") else {}, self._sought_key()
        if key is None or (given.get("kind") or "RANGE").upper() != "RANGE" or given.get("exclude"):
            return None
        ends = dict[str, Term]()
        for end, at, sign in (("start", "UNBOUNDED", ">="), ("end", "CURRENT ROW", "<=")):
            bound, limit = given.get(end) or at, key
            if isinstance(bound, exp.Expr):
                back = str(given.get(f"{end}_side")).upper() == "PRECEDING"
                key_there, limit = self._moved_key(bound, back, node)
                if key_there.term != key.term or {*variables(limit.term)} != {*variables(key.term)}:
                    return None
            if bound != "UNBOUNDED":
                ends[MIRRORED[sign] if self.keys[0].desc else sign] = limit.term
        return ends or None

    def _within(self, agg: Wanted, own: Typed, ends: dict[str, Term], by: str) -> Typed:
        """Return an aggregate of the rows whose values of `own`, their keys or numbers (`n`),
        compare so with limits, which follow from a row's own one.
        """
        (name,) = variables(own.term)

        def test(point: list[Typed], row: dict[str, Typed]) -> list[Term]:
            at = {name: point[0].term}
            return [Call(s, (row[by].term, substitute(end, at))) for s, end in ends.items()]

        holds_own = all(s in (">=", "<=") and end == own.term for s, end in ends.items())
        more = {} if by == "n" else {by: own}
        return self._over(agg, [own], more, test, holds_own, by == "n")

    def _aggregate(self, function: exp.Expr, node: exp.Window) -> Typed:
        agg, ends = wanted(function), self._ends(node)
        if ends is not None:
            return self._within(agg, self.keys[0].value, ends, "key")
        plain = isinstance(agg.node, exp.Sum | exp.Count | exp.Min | exp.Max | exp.Avg)
        offsets = self._offsets(node) if plain else None  # of rows in no order
        if offsets and self.near:
            return self._beside_each(agg, offsets)
        low, high, exclude = self._frame(node)
        if low is high is None and not exclude:
            return self._whole(agg)
        return self._framed(agg, low, high, exclude)

    def _translator(self, body: Body, replaced: dict[str, Typed]) -> Expressions:
        scope = replace(self.select.scope, body=body)
        return self.select.queries.expressions(scope, {**self.select.replaced, **replaced})

    def _whole(self, agg: Wanted, replaced: dict[str, Typed] | None = None) -> Typed:
        """Return an aggregate of the whole partition."""
        source, zero = self.body.copy(), Typed(Lit(0, "int64"), INTEGER, False)
        values = self._translator(source, replaced or {})
        if agg.condition is not None:
            source.literals += values.condition(agg.condition)
        keys = [*self.groups] or [self.builder.define(source, zero)]
        group = Group(self.builder, source, keys, self.builder.carried(self.body))
        made = kinds.made(Aggregate(group, source, values, agg))
        keys = [*self.groups] or [self.builder.define(self.body, zero)]
        if made.total:
            return self.builder.scan(made.table, self.body, keys)[-1]
        return self._or_empty(made.table, keys, made.empty)

    def _framed(
        self, agg: Wanted, low: Typed | None, high: Typed | None, exclude: str = ""
    ) -> Typed:
        """Return an aggregate of the rows with numbers in a range, but for what EXCLUDE names."""
        ends = {">=": low, "<=": high}
        terms = {sign: self.builder.resolve(end.term) for sign, end in ends.items() if end}
        if not exclude and all(
            {*variables(t)} == {*variables(self.number().term)} for t in terms.values()
        ):
            return self._within(agg, self.number(), terms, "n")
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

        return self._over(agg, [*bounds, *own, *equals], {}, test)

    def _over(
        self,
        agg: Wanted,
        points: Sequence[Typed],
        more: dict[str, Typed],
        test: Callable[[list[Typed], dict[str, Typed]], list[Term]],
        holds_own: bool = False,
        numbered: bool = True,
    ) -> Typed:
        """Return an aggregate of the rows of the partition that pass a test of them and of the
        row's own `points`; a row passes its own test if it `holds_own`.

        The test takes the points as variables and the values of a row: its number "n" if rows are
        `numbered`, and those in `more`.
        """
        builder, groups = self.builder, self.groups
        apart = [self.number()] if numbered else self.identity
        points = [builder.bound(self.body, p) for p in points]
        source, inputs = self._source(agg, {text_of(NUMBER): apart[0]} if numbered else {})
        told, row = len(groups) + len(apart), [*groups, *apart, *more.values(), *inputs.values()]
        rows, frame, own = self._relation(source, row, told), Body(), [*groups, *points]
        point = builder.scan(self._relation(self.body, own, len(own)), frame)[: len(own)]
        number, *values = builder.scan(rows, frame, point[: len(groups)])[told - 1 : len(row)]
        known = {"n": number, **dict(zip(more, values, strict=False))}
        frame.literals += [Test(term) for term in test(point[len(groups) :], known)]
        replaced = dict(zip(inputs, values[len(more) :], strict=True))
        return self._of_frame(agg, frame, point, replaced, own, holds_own)

    def _beside_each(self, agg: Wanted, offsets: range) -> Typed:
        """Return an aggregate of the rows at some offsets from each."""
        frame, near, (source, inputs) = Body(), self.near[True], self._source(agg, {})
        pairs = (self.near[n < 0].away(abs(n)) for n in offsets)
        pair = self.builder.scan(near.pairs(pairs, len(offsets) == 1), frame)
        key, values = pair[: len(self._own)], self._values(source, [*inputs.values()])
        row = self.builder.scan(values, frame, near.there(pair))[len(key) :]
        replaced = dict(zip(inputs, row, strict=False))
        return self._of_frame(agg, frame, key, replaced, self._own, 0 in offsets)

    def _source(self, agg: Wanted, given: dict[str, Typed]) -> tuple[Body, dict[str, Typed]]:
        """Return the body of the rows that an aggregate reads, and what it reads of them."""
        source = self.body.copy()
        values = self._translator(source, given)
        if agg.condition is not None:
            source.literals += values.condition(agg.condition)
        return source, {
            text_of(node): self.builder.define(source, values.value(node))
            for node in inputs_of(agg)
        }

    def _of_frame(
        self,
        agg: Wanted,
        frame: Body,
        key: list[Typed],
        replaced: dict[str, Typed],
        own: list[Typed],
        holds_own: bool,
    ) -> Typed:
        """Return the aggregate of a body that joins the rows of the frame with what it belongs to;
        `own` are the values of a row that are the key there.
        """
        translator = self.select.queries.expressions(Scope(frame), replaced)
        group, whole = Group(self.builder, frame, key), agg._replace(condition=None)
        made = kinds.made(Aggregate(group, frame, translator, whole))
        if holds_own and made.total and agg.condition is None:
            return self.builder.scan(made.table, self.body, own)[-1]
        return self._or_empty(made.table, own, made.empty)


def _known(function: exp.Expr) -> exp.Expr:
    """Return the condition that the argument of a function is not null."""
    return exp.Not(this=exp.Is(this=function.this.copy(), expression=exp.Null()))


def _share(of: Term, whole: Term) -> Term:
    return Call("/", (Call("float", (of,)), Call("float", (whole,))))


def _number(term: Term) -> Typed:
    return Typed(term, BIGINT, False)


def with_named(node: exp.Window, named: dict[str, exp.Window]) -> exp.Window:
    """Return a window with what the one that it names has.  SqlError if none has the name."""
    alias = node.args.get("alias")
    if alias is None:
        return node
    name = alias.name.lower()
    if name not in named:
        raise SqlError(f"no window {alias.name} is defined: add WINDOW {alias.name} AS (...)", node)
    whole, rest = node.copy(), {one: named[one] for one in named if one != name}
    parent = with_named(named[name], rest)
    for key in ("partition_by", "order", "spec"):
        if not whole.args.get(key):
            whole.set(key, parent.args.get(key))
    return whole


def inputs_of(agg: Wanted) -> list[exp.Expr]:
    """Return the expressions that an aggregate reads, without constants."""
    inner = argument_of(agg.node)
    inner = inner.this if isinstance(inner, exp.Order) else inner
    parts = inner.expressions if isinstance(inner, exp.Distinct) else [inner]
    if isinstance(agg.node, (exp.ArgMax, exp.ArgMin, *kinds.PAIRS)) or isinstance(
        agg.node.expression, exp.Column
    ):
        parts = [*parts, agg.node.expression]
    found = [
        part
        for one_ in parts
        for part in (one_.expressions if isinstance(one_, exp.Tuple) else [one_])
    ]
    found += [o.this for o in agg.order]
    return [
        node for node in found if node is not None and not isinstance(node, exp.Star | exp.Literal)
    ]


def refuse_own_order(function: exp.Expr) -> None:
    """Raise SqlError for an ORDER BY among the arguments of a function that is not an aggregate."""
    inner = function.this if isinstance(function, exp.IgnoreNulls | exp.RespectNulls) else function
    if isinstance(inner, WINDOW_ONLY) and any(
        isinstance(node, exp.Order) for node in inner.iter_expressions()
    ):
        name = str(inner.meta.get("name") or inner.sql_name()).lower()
        raise SqlError(
            f"{name} takes no ORDER BY among its arguments: write it as OVER (... ORDER BY ...)",
            inner,
        )
