"""Expressions of SQL as terms, and conditions as literals of a body.

A condition becomes the literals that hold where it is true: neither false nor null. `NOT` is pushed
inwards, since `NOT (a < b)` is true where `a >= b` is, so three values are needed only where a
condition is a value.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import chain
from typing import NamedTuple

from sqlglot import exp

from ivm.lang.ir import NEGATED
from ivm.sql.conversions import (
    SESSION_ZONE,
    alike,
    amount,
    convert,
    in_order,
    is_null_constant,
    plain_constants,
    refuse_other_zones,
)
from ivm.sql.errors import SqlError, written
from ivm.sql.functions import clock
from ivm.sql.functions import scalar as fn
from ivm.sql.functions.known import reading
from ivm.sql.functions.times import INTERVALS
from ivm.sql.literals import constant
from ivm.sql.queries import list_rows
from ivm.sql.queries.scope import Scope, as_table, inner_query, text_of
from ivm.sql.rules import Body, Builder, is_null
from ivm.sql.terms import (
    Call,
    Either,
    Lit,
    Literal,
    Place,
    Term,
    Test,
    Typed,
    Var,
    originated,
    variables,
)
from ivm.sql.types import BOOLEAN, INTEGER, INTERVAL, NULL, TIMESTAMPTZ, SqlType

COMPARE: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
# that give one of their values, or compare them
CHOICES = (
    exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least, exp.Is, exp.NullSafeEQ,
    exp.NullSafeNEQ, exp.Cast, exp.Between, exp.In, exp.And, exp.Or, exp.Not,
)  # fmt: skip
MANY = 128  # constants of IN that are a table sooner than an equation each
GIVEN = "given"  # in the meta of a place of a value: what stands for it
NEVER: list[Literal] = [Test(Call("=", (Lit(1, "int64"), Lit(0, "int64"))))]


class Subqueries(NamedTuple):
    """How subqueries become literals and terms, in a scope (see subqueries.py)."""

    exists: Callable[[exp.Expr, Scope, bool], list[Literal]]
    within: Callable[[Typed, exp.Expr, Scope, bool], list[Literal]]
    scalar: Callable[[exp.Expr, Scope], Typed]
    # whether a value is among constants; None where a condition reads no helper views
    among: Callable[[Typed, list[Typed], Scope, bool], list[Literal] | None] | None = None


class Expressions:
    """Translates expressions in a scope; `replaced` are expressions that have values already, by
    their text.

    If the scope is grouped, columns must be among the grouped terms, which have these values.
    """

    def __init__(
        self,
        builder: Builder,
        scope: Scope,
        subqueries: Subqueries,
        replaced: dict[str, Typed] | None = None,
    ) -> None:
        self.builder, self.scope, self.subqueries = builder, scope, subqueries
        self.replaced = replaced or {}
        self._aliases: list[str] = []  # that are being expanded
        self._known: dict[
            int, tuple[exp.Expr, Typed]
        ] = {}  # by their ids: parts of what is translated, and their values
        self._depth = 0

    @property
    def body(self) -> Body:
        """The body to which subqueries add atoms."""
        return self.scope.body

    # -- values

    def value(self, node: exp.Expr) -> Typed:
        """Return the term of an expression.  Raises SqlError."""
        if self.replaced and (known := self.replaced.get(text_of(node))):
            return known
        if id(node) in self._known:
            return self._known[id(node)][1]
        self._depth += 1
        try:
            place: Place | None = node.meta.get(GIVEN)
            found = self._first_value(node) if place is None else _typed(place, node)
            self._known[id(node)] = node, found
            return found
        finally:
            self._depth -= 1
            if not self._depth:
                self._known.clear()

    def _first_value(self, node: exp.Expr) -> Typed:
        for operand in _deep_operands(node, self._known):
            self._known[id(operand)] = operand, self.builder.define(self.body, self.value(operand))
        with reading(node):
            return self._value(node)

    def _value(self, node: exp.Expr) -> Typed:
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Paren):
            return self.value(node.this)
        if isinstance(node, exp.Subquery | exp.Select):
            return self.subqueries.scalar(node, self.scope)
        if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")):
            return self._marked(node)
        if isinstance(node, exp.Window):
            raise SqlError(f"a window function has no place here: {written(node)}", node)
        if isinstance(node, exp.AggFunc):
            raise SqlError(f"an aggregate has no place here: {written(node)}", node)
        if (literal := _constant(node)) is not None:
            return literal
        if (listed := _listed(node)) is not None:
            return self.value(listed)
        if (within := _within(node) or _contained(node) or list_rows.of_members(node)) is not None:
            return self.value(within)
        if operation := COMPARE.get(type(node)):
            if isinstance(node.expression, exp.Any | exp.All):
                return self._of_rows(node, operation)
            return self._compared(node, operation)
        value = self._translated(node)
        return value._replace(term=originated(value.term, node))

    def _translated(self, node: exp.Expr) -> Typed:
        """Return the term of a function; a moment of a zone that is not UTC is only chosen."""
        if (moment := clock.read(node, self.builder, self.body)) is not None:
            return moment
        if SESSION_ZONE.get() is None or isinstance(node, CHOICES):
            return _without_intervals(fn.translate(node, self.value), node)
        types = list[SqlType]()

        def value(node: exp.Expr) -> Typed:
            known = self.value(node)
            types.append(known.type)
            return known

        typed = _without_intervals(fn.translate(node, value), node)
        if TIMESTAMPTZ in (typed.type, *types):
            refuse_other_zones(node)
        return typed

    def _column(self, node: exp.Column) -> Typed:
        """Return a column, or the expression of the select list that has its name."""
        expression = self.scope.aliases.get(node.name.lower()) if not node.table else None
        try:
            column, scope = self.scope.column(node)
        except SqlError:
            if (struct := self._struct(node)) is not None:
                return struct
            if expression is None or node.name.lower() in self._aliases:
                raise
            return self._named(node, expression)
        term = self.builder.resolve(column.term)
        if scope.grouped is not None:
            if term not in scope.grouped:
                if expression is not None and node.name.lower() not in self._aliases:
                    return self._named(node, expression)
                raise SqlError(
                    f"{node.name} is neither grouped nor in an aggregate: add it to GROUP BY, or "
                    f"write any_value({node.name})",
                    node,
                )
            column = scope.grouped[term]
            term = column.term
        if scope is not self.scope:
            return self.builder.bound(scope.body, column)
        return column._replace(term=term, nullable=self.builder.may_be_null(self.body, column))

    def _named(self, node: exp.Column, expression: exp.Expr) -> Typed:
        """Return the value of an expression of the select list that a column names."""
        self._aliases.append(node.name.lower())
        try:
            return self.value(expression)
        finally:
            self._aliases.pop()

    def _struct(self, node: exp.Column) -> Typed | None:
        """Return a field of a struct, which parses as a column after the name of a table; None
        if there is none.
        """
        *tables, last = (part for part in node.parts)
        for size in range(1, len(tables) + 1):
            column = exp.Column(this=tables[size - 1], table=tables[size - 2] if size > 1 else None)
            try:
                self.scope.column(column)
            except SqlError:
                continue
            path: exp.Expr = column.copy()
            for name in (*tables[size:], last):
                path = exp.Dot(this=path, expression=name.copy())
            return self.value(path)
        return None

    def _compared(self, node: exp.Expr, operation: str) -> Typed:
        left, right = self._sides(node)
        if left.type == NULL:
            return Typed(Lit(None, "bool"), BOOLEAN, True)
        if operation not in ("=", "!="):
            left, right = _ordered(left, right, node)
        return Typed(
            Call(operation, (left.term, right.term)), BOOLEAN, left.nullable or right.nullable
        )

    def _sides(self, node: exp.Expr) -> tuple[Typed, Typed]:
        """Return what a comparison compares, in a type in which they compare."""
        return alike(node, *self._given_types(node))

    def _given_types(self, node: exp.Expr) -> tuple[Typed, Typed]:
        """Return what a comparison compares; a value that is given has the type of the other."""
        sides = node.this, node.expression
        for side, other in (sides, sides[::-1]):
            if (place := _untyped(side)) is not None:
                place.compare_with(self.value(other))
        return self.value(sides[0]), self.value(sides[1])

    def _marked(self, node: exp.Expr) -> Typed:
        """Return EXISTS or IN as a value: whether the subquery has rows, in three values for IN."""
        query = node.this if isinstance(node, exp.Exists) else node.args["query"]
        if isinstance(node, exp.Exists):
            return Typed(self._positive(_counted(query, "some_rows")), BOOLEAN, False)
        left = self.value(node.this)
        rows = _counted(query, "in_rows", "in_value")
        key = exp.column("in_value", "in_rows")
        is_in = self._positive(rows.where(exp.EQ(this=key, expression=node.this.copy())))
        nulls = self._positive(rows.where(exp.Is(this=key.copy(), expression=exp.Null())))
        some = self._positive(rows)
        unknown: Term = nulls
        if left.nullable:
            unknown = Call("or", (nulls, Call("and", (some, Call("is_null", (left.term,))))))
        null = Lit(None, "bool")
        term = Call(
            "if", (is_in, Lit(True, "bool"), Call("if", (unknown, null, Lit(False, "bool"))))
        )
        return Typed(term, BOOLEAN, True)

    def _of_rows(self, node: exp.Expr, operation: str) -> Typed:
        """Return `x > ANY (query)` in three values, and `x > ALL (query)` as its opposite."""
        every = isinstance(node.expression, exp.All)
        kind = next(
            kind
            for kind, form in COMPARE.items()
            if form == (NEGATED[operation] if every else operation)
        )
        test = kind(this=node.this.copy(), expression=exp.column("any_value", "any_rows"))
        rows = _counted(list_rows.as_query(node.expression), "any_rows", "any_value")
        holds = self._positive(rows.where(test))
        unknown = self._positive(rows.where(exp.Is(this=test.copy(), expression=exp.Null())))
        (yes, no), null = (Lit(not every, "bool"), Lit(every, "bool")), Lit(None, "bool")
        return Typed(Call("if", (holds, yes, Call("if", (unknown, null, no)))), BOOLEAN, True)

    def _positive(self, query: exp.Select) -> Term:
        count = self.subqueries.scalar(query, self.scope)
        return Call(">", (count.term, Lit(0, "int64")))

    # -- conditions

    def require(self, node: exp.Expr) -> None:
        """Let the body hold only where a condition is true; equal columns, and values of
        subqueries, become one variable.
        """
        for test in conjuncts(node):
            found = self._unified(test) if isinstance(test, exp.EQ) else None
            for literal in self.condition(test) if found is None else found:
                self.body.literals += literal, *self._implied(literal)

    def _implied(self, literal: Literal) -> list[Literal]:
        """Return what alternatives over several tables say of each, which reduces it before it is
        joined: `t.a = 1 OR t.a = 2`, of `t.a = 1 AND u.b = 3 OR t.a = 2 AND u.b = 4`.
        """
        term = self.builder.resolve(literal.term) if isinstance(literal, Test) else None
        if not isinstance(term, Call) or term.name != "or" or len(self.body.scans) < 2:
            return []
        implied, used = list[Literal](), {*variables(term)}
        for _, row in self.body.scans:
            columns = {*variables(*(self.builder.resolve(cell.term) for cell in row))}
            parts = [
                [t for t in _compared(part) if columns.issuperset(variables(t))]
                for part in term.args
            ]
            if all(parts) and not columns.issuperset(used):
                implied.append(Test(Call("or", tuple(map(_all, parts)))))
        return implied

    def _unified(self, node: exp.EQ) -> list[Literal] | None:
        """Make the sides of an equation one variable; return the literals that are left to hold,
        or None for an equation of other sides.
        """
        kinds = exp.Column | exp.Subquery
        if not all(isinstance(x, kinds) or GIVEN in x.meta for x in (node.this, node.expression)):
            return None
        left, right = self._given_types(node)
        same = left.type.store == right.type.store and left.type.name != "NULL"
        if same and self.builder.unify(self.body, left.term, right.term):
            return []
        return self._compares(node, "=", left, right)

    def condition(self, node: exp.Expr, wanted: bool = True) -> list[Literal]:
        """Return literals that hold where a condition is true, or, if not `wanted`, false."""
        with reading(node):
            return self._condition(node, wanted)

    def _condition(self, node: exp.Expr, wanted: bool) -> list[Literal]:  # noqa: C901 - a case for each kind of node
        match node:
            case exp.Paren():
                return self.condition(node.this, wanted)
            case exp.Not():
                return self.condition(node.this, not wanted)
            case exp.And() | exp.Or():
                parts = [self.condition(operand, wanted) for operand in fn.operands(node)]
                return [*chain(*parts)] if isinstance(node, exp.And) == wanted else either(parts)
            case exp.Between():
                both = exp.And(
                    this=exp.GTE(this=node.this, expression=node.args["low"]),
                    expression=exp.LTE(this=node.this, expression=node.args["high"]),
                )
                return self.condition(both, wanted)
            case exp.Is() if isinstance(node.expression, exp.Null):
                return self._null(node.this, wanted)
            case exp.Exists():
                return self.subqueries.exists(node.this, self.scope, wanted)
            case exp.In() if node.args.get("query") and isinstance(node.this, exp.Tuple):
                return self.subqueries.exists(_of_tuple(node, wanted), self.scope, wanted)
            case exp.In() if node.args.get("query"):
                return self.subqueries.within(
                    self.value(node.this), node.args["query"], self.scope, wanted
                )
            case exp.In(args={"field": exp.Array(expressions=[_, *_] as parts)}) if wanted:
                return self._listed(exp.In(this=node.this, expressions=parts), True)
            case exp.In() if not node.args.get("field"):
                return self._listed(node, wanted)
        if isinstance(node, exp.Binary) and isinstance(node.expression, exp.Any | exp.All):
            if (listed := _listed(node)) is not None:
                return self.condition(listed, wanted)
            return self._quantified(node, wanted)
        if operation := COMPARE.get(type(node)):
            return self._comparison(node, operation if wanted else NEGATED[operation])
        return self._truth(self.value(node), node, wanted)

    def _null(self, node: exp.Expr, wanted: bool) -> list[Literal]:
        value = self.value(node)
        if not value.nullable:
            return [*NEVER] if wanted else []
        return [Test(is_null(amount(value) if value.type == INTERVAL else value.term, wanted))]

    def _comparison(self, node: exp.Expr, operation: str) -> list[Literal]:
        return self._compares(node, operation, *self._given_types(node))

    def _compares(self, node: exp.Expr, operation: str, left: Typed, right: Typed) -> list[Literal]:
        left, right = alike(node, left, right)
        if left.type == NULL or (isinstance(right.term, Lit) and right.term.value is None):
            return [*NEVER]
        if operation not in ("=", "!="):
            left, right = _ordered(left, right, node)
        return [Test(Call(operation, (left.term, right.term)))]

    def _listed(self, node: exp.In, wanted: bool) -> list[Literal]:
        """`x IN (a, b)`: one of several equations, or a row of a table of many constants."""
        left, tests = self.value(node.this), list[list[Literal]]()
        pairs = dict[Typed, list[Typed]]()  # values by what they are compared with
        for place in filter(None, map(_untyped, node.expressions)):
            place.compare_with(left)
        known = plain_constants(node, left) if len(node.expressions) >= MANY else None
        for right in [] if known else [*map(self.value, node.expressions)]:
            value, right = alike(node, left, right)
            if right.type != NULL and not is_null_constant(right):
                pairs.setdefault(value, []).append(right)
            elif not wanted:
                return [*NEVER]
        for value, listed in [known] if known else pairs.items():
            constants = [right for right in listed if isinstance(right.term, Lit)]
            among = self.subqueries.among if len(constants) >= MANY else None
            if among and (rows := among(value, constants, self.scope, wanted)) is not None:
                tests.append(rows)
                listed = [right for right in listed if not isinstance(right.term, Lit)]
            for right in listed:
                tests.append([Test(Call("=" if wanted else "!=", (value.term, right.term)))])
        if not wanted:
            return [literal for test in tests for literal in test]
        return either(tests) if tests else [*NEVER]

    def _quantified(self, node: exp.Expr, wanted: bool) -> list[Literal]:
        """`x > ALL (query)` and `x = ANY (query)`, by the rows that decide."""
        operation = COMPARE.get(type(node))
        if operation is None:
            raise SqlError("ANY and ALL stand after a comparison", node)
        inner, every = list_rows.as_query(node.expression), isinstance(node.expression, exp.All)
        if every != wanted:  # some row for which the comparison is true, or false
            return self._deciding(node, inner, NEGATED[operation] if every else operation, True)
        opposite = operation if not wanted else NEGATED[operation]
        return self._deciding(node, inner, opposite, False)

    def _deciding(
        self, node: exp.Expr, inner: exp.Expr, operation: str, some: bool
    ) -> list[Literal]:
        kind = next(kind for kind, form in COMPARE.items() if form == operation)
        key = exp.column("any_value", "any_rows")
        holds: exp.Expr = kind(this=node.this.copy(), expression=key)
        if not some:  # no row for which the opposite is true or unknown
            null = exp.Is(
                this=kind(this=node.this.copy(), expression=key.copy()), expression=exp.Null()
            )
            holds = exp.Or(this=holds, expression=null)
        rows = exp.select("1").from_(as_table(inner, "any_rows", ["any_value"])).where(holds)
        return self.subqueries.exists(rows, self.scope, some)

    def _truth(self, value: Typed, node: exp.Expr, wanted: bool) -> list[Literal]:
        if value.type == NULL:
            return [*NEVER]
        if value.type != BOOLEAN:
            if not value.type.is_integer:
                raise SqlError(
                    f"a condition is wanted, and this is {value.type}: compare it with a value",
                    node,
                )
            operation = "!=" if wanted else "="
            return [Test(Call(operation, (value.term, Lit(0, "int64"))))]
        if isinstance(value.term, Lit):
            return [] if value.term.value is wanted else [*NEVER]
        return [Test(value.term if wanted else negated(value.term))]


def _untyped(node: exp.Expr) -> Place | None:
    """Return the place of a value that is given, if its type is not known yet."""
    place: Place | None = node.meta.get(GIVEN)
    return place if place is not None and place.typed is None else None


def _typed(place: Place, node: exp.Expr) -> Typed:
    """Return what stands for a value that is given."""
    if place.typed is None:
        raise SqlError("the type of this value is not known", node)
    return place.typed


def _counted(query: exp.Expr, name: str, *columns: str) -> exp.Select:
    """Return the query of how many rows another has, as a table of a name."""
    return exp.select("count(*)").from_(as_table(query, name, columns))


def _ordered(left: Typed, right: Typed, node: exp.Expr) -> tuple[Typed, Typed]:
    """Return values of one type as numbers or texts in their order.  SqlError if it has none."""
    if left.type == right.type == BOOLEAN:
        return convert(left, INTEGER), convert(right, INTEGER)
    return in_order(left, node), in_order(right, node)


def _listed(node: exp.Expr) -> exp.In | None:
    """Return `x = ANY([a, b])` as `x IN (a, b)`; None for another node."""
    if not isinstance(node, exp.EQ) or not isinstance(node.expression, exp.Any):
        return None
    inner = node.expression.this.unnest()
    if isinstance(inner, exp.Array):
        return exp.In(this=node.this, expressions=inner.expressions)
    return None


def _constant(node: exp.Expr) -> Typed | None:
    """Return the value of a constant; None for what is none."""
    value = constant(node)
    if value is not None and value.type == TIMESTAMPTZ:
        refuse_other_zones(node)
    return value


def _within(node: exp.Expr) -> exp.Expr | None:
    """Return `x = ANY (query)` as `x IN (query)`, and `x <> ALL (query)` as its opposite; None
    for another node.
    """
    kind = exp.Any if isinstance(node, exp.EQ) else exp.All
    if not isinstance(node, exp.EQ | exp.NEQ) or not isinstance(node.expression, kind):
        return None
    test = exp.In(
        this=node.this.copy(), query=exp.Subquery(this=list_rows.as_query(node.expression).copy())
    )
    return test if isinstance(node, exp.EQ) else exp.not_(test)


def _contained(node: exp.Expr) -> exp.Expr | None:
    """Return `x IN l` of a list as list_contains(l, x); None for another node."""
    field = node.args.get("field") if isinstance(node, exp.In) else None
    return (
        None if field is None else exp.ArrayContains(this=field.copy(), expression=node.this.copy())
    )


def _without_intervals(value: Typed, node: exp.Expr) -> Typed:
    """Return the value of a function.  Raises SqlError if it takes an INTERVAL as another type."""
    if value.type != INTERVAL and isinstance(value.term, Call):
        for arg in value.term.args:
            if isinstance(arg, Call) and arg.name in INTERVALS:
                raise SqlError(
                    f"{written(node)} takes no INTERVAL: EXTRACT takes parts of one", node
                )
    return value


def _deep_operands(node: exp.Expr, known: Container[int]) -> list[exp.Expr]:
    """Return every 32nd of the operands on the left of a long chain like a + b + c ..., the
    innermost first.

    As variables of their own they keep terms, and the calls that read them, from nesting as deep as
    the chain is long. What is `known`, by the ids of the nodes, ends the chain.
    """
    operands, depth = list[exp.Expr](), 0
    while isinstance(node, exp.Binary) and not isinstance(node, exp.Connector | exp.Dot):
        node, depth = node.this, depth + 1
        if id(node) in known:
            break
        if depth % 32 == 0 and isinstance(node, exp.Binary):
            operands.append(node)
    return operands[::-1]


def negated(term: Term) -> Term:
    """Return the opposite of a condition."""
    if isinstance(term, Call) and term.name in NEGATED:
        return Call(NEGATED[term.name], term.args)
    return term.args[0] if isinstance(term, Call) and term.name == "not" else Call("not", (term,))


def either(parts: Sequence[list[Literal]]) -> list[Literal]:
    """Return literals that hold where one of several conditions does."""
    if any(not part for part in parts):
        return []
    kept = [part for part in parts if part != NEVER]
    if len(kept) < 2:
        return kept[0] if kept else [*NEVER]
    # a condition, and no alternatives of the rule
    if all(isinstance(test, Test) for part in kept for test in part):
        terms = [_all([test.term for test in part if isinstance(test, Test)]) for part in kept]
        return [Test(Call("or", tuple(terms)))]
    flat: list[tuple[Literal, ...]] = []
    for part in kept:
        flat += part[0].parts if len(part) == 1 and isinstance(part[0], Either) else [tuple(part)]
    return [Either(tuple(flat))]


def _of_tuple(node: exp.In, wanted: bool) -> exp.Select:
    """Return `(a, b) IN (SELECT x, y ...)` as the query of an EXISTS; of NOT EXISTS, where null
    may be any value.
    """
    query = node.args["query"]
    size = len(inner_query(query).selects)  # type: ignore[attr-defined]
    if size != len(node.this.expressions):
        raise SqlError(f"IN compares {len(node.this.expressions)} values with {size} columns", node)
    names = [f"in_{place}" for place in range(size)]
    rows = exp.select("1").from_(as_table(query, "in_rows", names))
    for place, value in enumerate(node.this.expressions):
        same: exp.Expr = exp.EQ(this=value.copy(), expression=exp.column(f"in_{place}", "in_rows"))
        if not wanted:
            same = exp.Or(this=same, expression=exp.Is(this=same.copy(), expression=exp.Null()))
        rows = rows.where(same)
    return rows


def _all(terms: list[Term]) -> Term:
    return terms[0] if len(terms) == 1 else Call("and", tuple(terms))


def _compared(term: Term) -> list[Term]:
    """Return the comparisons with constants, which never fail, that a condition is or consists of."""
    if isinstance(term, Call) and term.name == "and":
        return [*chain(*map(_compared, term.args))]
    return [term] if _is_compared(term) else []


def _is_compared(term: Term) -> bool:
    if not isinstance(term, Call) or (term.name != "or" and term.name not in NEGATED):
        return False
    return all(map(_is_compared if term.name == "or" else _is_plain, term.args))


def _is_plain(term: Term) -> bool:
    return isinstance(term, Var | Lit)


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a condition that AND joins, those with subqueries last.

    What all alternatives of an OR have in common is a part: `a AND (b OR c)` is `a AND b OR a AND
    c`, by whose `a` tables may be joined.
    """
    parts: list[exp.Expr] = []
    left = [node]
    while left:
        part = left.pop(0).unnest()
        if isinstance(part, exp.And):
            left[:0] = [part.this, part.expression]
        elif isinstance(part, exp.Or):
            parts += _without_common(part)
        else:
            parts.append(part)
    return sorted(parts, key=lambda part: part.find(exp.Select) is not None)


def _without_common(node: exp.Or) -> list[exp.Expr]:
    """Return what all alternatives of an OR have in common, and an OR of what is left of them."""
    alternatives = [dict.fromkeys(conjuncts(test.unnest())) for test in fn.operands(node)]
    common = [test for test in alternatives[0] if all(test in other for other in alternatives)]
    if not common:
        return [node]
    left = [[test for test in part if test not in common] for part in alternatives]
    return [*common, *([exp.or_(*(exp.and_(*part) for part in left))] if all(left) else [])]
