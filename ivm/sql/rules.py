"""Rules as they are collected while a query is translated: bodies, helper views, and what
identifies a row.

A `Body` is a conjunction under construction.  It is `weighted` if a row of it may occur several
times, as the multiplicities say that its atoms read.  A `Table` is a stored relation or a helper
view; `Builder.store` makes a helper view of a body, either a set of rows or rows with
multiplicities:

    v:h1(a, b) <- body.                          if a, b identify the rows of the body
    v:h1[a, b] = n <- agg<<n = count()>> body.   otherwise

The body of a subquery may use variables of the query around it.  A helper view of such a body has
them as columns; if no atom of the body binds them, their values are taken from the body around it,
projected (`v:h2(a) <- outer body.`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from sqlglot import exp

from ivm.names import ONE, PART
from ivm.sql.errors import SqlError
from ivm.sql.terms import (
    Atom,
    Call,
    Define,
    Either,
    Fold,
    Lit,
    Literal,
    Not,
    Rule,
    Term,
    Test,
    Typed,
    Var,
    atoms,
    bound,
    substitute,
    variables,
)
from ivm.sql.trees import Trees
from ivm.sql.types import BIGINT, INTERVAL, SqlType
from pagestore.host import KEYS_MAX


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, its type in SQL, and whether it may be null."""

    name: str
    type: SqlType
    nullable: bool


@dataclass(frozen=True)
class Table:
    """A relation that rules read: `key` are the positions of the columns that identify a row.

    It is a function of these columns if `function`, else a relation of all columns.  If it
    `weighs`, its rows have multiplicities, as the value of a function of all columns.  If its
    columns are too many for one relation, `parts` are several, each with the positions of its
    columns, those of the key among them; the first one weighs.
    """

    name: str
    columns: tuple[Column, ...]
    key: tuple[int, ...]
    function: bool = False
    weighs: bool = False
    parts: tuple[tuple[Table, tuple[int, ...]], ...] = ()


class Schema(NamedTuple):
    """What names of tables mean: stored tables and kept views, and views that are expanded."""

    table: Callable[[str], Table | None]
    view: Callable[[str], exp.Expr | None]
    names: Callable[[], list[str]]


@dataclass
class Body:
    """A conjunction; `required` are variables that are not null, `weights` hold multiplicities."""

    outer: Body | None = None
    literals: list[Literal] = field(default_factory=list)
    required: set[str] = field(default_factory=set)
    weights: list[Term] = field(default_factory=list)
    # of atoms: key, all variables
    keys: list[tuple[frozenset[str], frozenset[str]]] = field(default_factory=list)
    # the variables that its atoms and definitions bind
    columns: dict[str, Typed] = field(default_factory=dict)
    scans: list[tuple[Table, list[Typed]]] = field(default_factory=list)

    def copy(self) -> Body:
        """Return a body that can grow independently."""
        return Body(
            self.outer,
            [*self.literals],
            {*self.required},
            [*self.weights],
            [*self.keys],
            {**self.columns},
            [*self.scans],
        )

    def extend(self, other: Body) -> None:
        """Add all of another body."""
        self.literals += other.literals
        self.required |= other.required
        self.weights += other.weights
        self.keys += other.keys
        self.columns |= other.columns
        self.scans += other.scans


class Builder:
    """The rules of one view or query, with names for its variables and helper views."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: list[Rule] = []
        self.costs: list[str] = []  # what an edit costs beyond its change
        self.notes: list[str] = []
        self.uses_one = False
        # whether it may read the moment that kept views answer for, and whether it does
        self.may_read_clock = self.reads_clock = False
        # for errors: the aggregates of SQL that helper views are of
        self.folded: dict[str, Any] = {}
        self._same: dict[str, Term] = {}
        self._projected: dict[str, str] = {}
        self._bound: dict[Term, Typed] = {}
        self._variables = self._helpers = 0

    # -- names

    def variable(self, type_: SqlType, nullable: bool) -> Typed:
        """Return a new variable."""
        self._variables += 1
        return Typed(Var(f"_x{self._variables}"), type_, nullable)

    def helper(self) -> str:
        """Return the name of a new helper view."""
        self._helpers += 1
        return f"{self.name}{PART}{self._helpers}"

    def is_own(self, name: str) -> bool:
        """Return whether a name is that of a helper view."""
        return name.startswith(f"{self.name}{PART}")

    @contextmanager
    def folding(self, node: Any) -> Iterator[None]:
        """Note that the helper views that are named meanwhile are of an aggregate."""
        before = self._helpers
        yield
        for n in range(before + 1, self._helpers + 1):
            self.folded.setdefault(f"{self.name}:part{n}", node)

    # -- bodies

    def scan(self, table: Table, body: Body, given: Sequence[Typed | None] = ()) -> list[Typed]:
        """Add an atom of a table to a body; return its columns, those `given` or new variables."""
        given = (*given, *(None,) * (len(table.columns) - len(given)))
        row = [
            value or self.variable(c.type, c.nullable)
            for value, c in zip(given, table.columns, strict=True)
        ]
        for part, places in table.parts or ((table, tuple(range(len(row)))),):
            self._add_atom(part, body, tuple(row[place].term for place in places))
        body.scans.append((table, row))
        key = frozenset(variables(*(row[i].term for i in table.key)))
        body.keys.append((key, frozenset(variables(*(value.term for value in row)))))
        owned = {*_owned_by_outer(body)}
        body.columns |= {
            value.term.name: value
            for value in row
            if isinstance(value.term, Var) and value.term.name not in owned
        }
        return row

    def _add_atom(self, table: Table, body: Body, terms: tuple[Term, ...]) -> None:
        nullable = tuple(c.nullable for c in table.columns)
        if table.weighs:
            weight = self.variable(BIGINT, False)
            body.weights.append(weight.term)
            atom = Atom(table.name, terms, (weight.term,), (*nullable, False), True)
        elif table.function:
            order = [*table.key, *(i for i in range(len(terms)) if i not in table.key)]
            terms, nullable = tuple(terms[i] for i in order), tuple(nullable[i] for i in order)
            atom = Atom(table.name, terms[: len(table.key)], terms[len(table.key) :], nullable)
        else:
            order = [*table.key] if len(table.key) == len(terms) else [*range(len(terms))]
            atom = Atom(
                table.name, tuple(terms[i] for i in order), (), tuple(nullable[i] for i in order)
            )
        body.literals.append(atom)

    def one(self, body: Body) -> None:
        """Add an atom that holds once to a body."""
        self.uses_one = True
        body.literals.append(Atom(ONE, (None,)))

    def numbers(self, first: int, end: int, step: int = 1) -> Table:
        """Return a helper view of the numbers from one up to, and without, another."""
        name, number, bounds = self.helper(), self.variable(BIGINT, False).term, (first, end, step)
        assert isinstance(number, Var)
        listed = Call("int:range", tuple(Lit(bound, "int64") for bound in bounds))
        self.emit(Rule((Atom(name, (number,)),), (Define(number, listed),)))
        return Table(name, (Column("n", BIGINT, False),), (0,))

    def define(self, body: Body, value: Typed) -> Typed:
        """Return a variable with the value of a term, which the body defines if it is not a
        variable already.
        """
        value = kept_interval(value)
        term = self.resolve(value.term)
        if isinstance(term, Var):
            return value._replace(term=term)
        new = self.variable(value.type, value.nullable)
        assert isinstance(new.term, Var)
        body.literals.append(Define(new.term, term))
        body.columns[new.term.name] = new
        return new

    def bound(self, body: Body, value: Typed) -> Typed:
        """Return a value as a variable that an atom of a body binds, by which other atoms join also
        where it is null.

        A computed value becomes a function of what identifies the body's rows.
        """
        term = self.resolve(value.term)
        if isinstance(term, Var) and (term.name not in body.columns or self._in_atom(body, term)):
            return value._replace(term=term)
        known = self._bound.get(term)
        if known is not None and known.term in [Var(name) for name in body.columns]:
            return known
        keys = [
            *(outer_value(body, name) for name in self.carried(body, [term])),
            *self.identity(body),
        ]
        inner = body.copy()
        defined = self.define(inner, value)
        self._bound[term] = self.scan(self.function(inner, keys, defined), body, keys)[-1]
        return self._bound[term]

    def test(self, body: Body, term: Term) -> None:
        """Add a condition to a body."""
        body.literals.append(Test(term))

    def unify(self, body: Body, left: Term, right: Term) -> bool:
        """Make two variables one, which is not null; return False if neither is of the body."""
        left, right = self.resolve(left), self.resolve(right)
        if not (isinstance(left, Var) and isinstance(right, Var)):
            return False
        if left != right:
            if left.name not in body.columns:
                left, right = right, left
            if left.name not in body.columns:
                return False
            self._same[left.name] = right
            kept = body.columns.pop(left.name)
            if right.name not in {*_owned_by_outer(body)}:
                body.columns.setdefault(right.name, kept._replace(term=right))
        self.require(body, column_of(body, right.name))
        return True

    def require(self, body: Body, value: Typed) -> Typed:
        """Let a body hold only where a value is not null; return the value."""
        term = self.resolve(value.term)
        if value.nullable:
            if isinstance(term, Var) and self._in_atom(body, term):
                body.required.add(term.name)
            else:
                body.literals.append(Test(is_null(term, False)))
                if isinstance(term, Var):
                    body.required.add(term.name)
        return Typed(term, value.type, False)

    def _in_atom(self, body: Body, variable: Var) -> bool:
        """Return whether an atom of a body has a variable as argument, where it can ask for it."""
        return any(
            isinstance(literal, Atom) and variable in map(self._resolved, literal.terms)
            for literal in body.literals
        )

    def _resolved(self, term: Term | None) -> Term | None:
        return None if term is None else self.resolve(term)

    def resolve(self, term: Term) -> Term:
        """Return a term with its variables replaced by those that they were unified with."""
        same = self._same
        while names := same.keys() & ([term.name] if isinstance(term, Var) else variables(term)):
            term = substitute(term, {name: same[name] for name in names})
        return term

    def resolved(self, one: Literal) -> Literal:
        """Return a literal with its variables replaced."""
        names = {*variables(one)} & self._same.keys()
        return substitute(one, {name: self.resolve(Var(name)) for name in names}) if names else one

    def names_of(self, names: Iterable[str]) -> set[str]:
        """Return the variables that some names stand for, after what was equated."""
        same = self._same
        return {
            v
            for name in names
            for v in (variables(self.resolve(Var(name))) if name in same else (name,))
        }

    def may_be_null(self, body: Body, value: Typed) -> bool:
        """Return whether a value may be null in the rows of a body."""
        if not value.nullable:
            return False
        return not {*variables(self.resolve(value.term))} <= self.names_of(
            body.required
        ) or not isinstance(self.resolve(value.term), Var)

    # -- what identifies rows

    def closure(self, body: Body, known: Iterable[str]) -> set[str]:
        """Return the variables that others determine."""
        return _closed(self.names_of(known), self._dependencies(body))

    def _dependencies(self, body: Body) -> list[tuple[set[str], set[str]]]:
        """Return which variables of a body determine which others."""
        pairs = [(set[str](), {*self.carried(body)})]
        pairs += [(self.names_of(key), self.names_of(all_)) for key, all_ in body.keys]
        defined = (self.resolved(one) for one in body.literals if isinstance(one, Define))
        pairs += [
            ({*variables(one.term)}, {one.var.name}) for one in defined if isinstance(one, Define)
        ]
        return pairs

    def is_set(self, body: Body, outputs: Iterable[Term]) -> bool:
        """Return whether outputs tell all rows of a body apart."""
        return not body.weights and self.determines(body, outputs)

    def determines(self, body: Body, outputs: Iterable[Term]) -> bool:
        """Return whether outputs determine all that atoms of a body bind; equal rows may be
        several all the same.
        """
        known = self.closure(
            body, {n.name for n in map(self.resolve, outputs) if isinstance(n, Var)}
        )
        return all(self.names_of(key) <= known for key, _ in body.keys)

    def tells_apart(self, body: Body, key: Iterable[Typed], identity: Iterable[Typed]) -> None:
        """Note that at most one row of a body, which has the identity, has the values of a key."""
        names = (frozenset(variables(*(value.term for value in some))) for some in (key, identity))
        body.keys.append((*names,))  # type: ignore[arg-type]

    def identity(self, body: Body) -> list[Typed]:
        """Return the variables that tell the rows of a body apart, as few as are found."""
        names = list(
            dict.fromkeys(
                n for key, _ in body.keys for n in sorted(self.names_of(key), key=_number)
            )
        )
        return self.fewest(body, [body.columns[name] for name in names if name in body.columns])

    def fewest(self, body: Body, values: list[Typed]) -> list[Typed]:
        """Return as few of the values as are found that determine all of them, rather the first."""
        dependencies = self._dependencies(body)
        names = [self.names_of(variables(value.term)) for value in values]
        closed = _closed({*chain(*names)}, dependencies)
        kept = [*range(len(values))]
        for place in reversed(range(len(values))):
            rest = [other for other in kept if other != place]
            if closed <= _closed({*chain(*(names[other] for other in rest))}, dependencies):
                kept = rest
        return [values[place] for place in kept]

    # -- subqueries: variables of the query around

    def carried(self, body: Body, outputs: Iterable[Term] = ()) -> list[str]:
        """Return the variables of bodies around this one that it uses."""
        owned = list(dict.fromkeys(_owned_by_outer(body)))
        if not owned:
            return []
        used = {*variables(*map(self.resolved, body.literals), *map(self.resolve, outputs))}
        return [name for name in owned if name in used]

    def closed(self, body: Body, wanted: Iterable[str] = ()) -> tuple[Literal, ...]:
        """Return the literals of a body, with an atom for the values of the variables of bodies
        around it, if only these bind one: together, since by others the atom may be joined.
        """
        literals = tuple(self.resolved(literal) for literal in body.literals)
        used = _free(literals) | {*wanted}
        if used <= bound(literals) or body.outer is None:
            return literals or self._of_one()
        names = used - bound(literals) | used.intersection(_owned_by_outer(body))
        return (self.domain(body.outer, sorted(names, key=_number)), *literals)

    def _of_one(self) -> tuple[Literal, ...]:
        self.uses_one = True
        return (Atom(ONE, (None,)),)

    def domain(self, outer: Body, names: list[str]) -> Atom:
        """Return an atom of a helper view with the values of variables in the rows of a body."""
        columns = [column_of(outer, name) for name in names]
        name = self.projected(self.closed(outer, names), tuple(Var(n) for n in names), outer)
        nullable = tuple(self.may_be_null(outer, column) for column in columns)
        return Atom(name, tuple(Var(n) for n in names), (), nullable)

    def projected(self, literals: tuple[Literal, ...], terms: tuple[Term, ...], body: Body) -> str:
        """Return a helper view that projects literals of a body, the same one for the same."""
        rule = Rule((Atom("", terms),), literals, (), frozenset(self.names_of(body.required)))
        key = Trees().add((rule,)).text  # in which 0.0 is not -0.0, other than among terms
        if key not in self._projected:
            self._projected[key] = self.helper()
            self.emit(replace(rule, heads=(Atom(self._projected[key], terms),)))
        return self._projected[key]

    def apart(self, literals: Iterable[Literal], kept: set[str]) -> tuple[Literal, ...]:
        """Return literals with other names for the variables that are not kept."""
        resolved = tuple(self.resolved(literal) for literal in literals)
        names: dict[str, Term] = {}
        for name in dict.fromkeys(variables(*resolved)):
            if name not in kept:
                self._variables += 1
                names[name] = Var(f"_x{self._variables}")
        return tuple(substitute(literal, names) for literal in resolved)

    # -- helper views

    def emit(self, rule: Rule) -> None:
        """Add a rule."""
        self.rules.append(rule)

    def leave_out(self, rules: Sequence[Rule]) -> None:
        """Leave out those of some rules whose heads no other rule reads."""
        given = {id(rule) for rule in rules}
        kept = [rule for rule in self.rules if id(rule) not in given]
        more = kept
        while more:
            read = {name for rule in more for literal in rule.body for name in atoms(literal)}
            more = [
                rule
                for rule in rules
                if id(rule) in given and not read.isdisjoint(h.name for h in rule.heads)
            ]
            given -= {id(rule) for rule in more}
        self.rules = [rule for rule in self.rules if id(rule) not in given]

    def function(
        self,
        body: Body,
        keys: Sequence[Typed],
        value: Typed,
        op: str | None = None,
        args: tuple[Term, ...] = (),
    ) -> Table:
        """Make a helper view that is a function of some values of a body: to another, or to an
        aggregate of that type.
        """
        name, folds = self.helper(), tuple[Fold, ...]()
        if op is not None:
            value = self.variable(value.type, False)
            assert isinstance(value.term, Var)
            folds = (Fold(op, value.term.name, args),)
        row = [*keys, value]
        self.rule(Atom(name, tuple(k.term for k in keys), (value.term,)), body, folds)
        columns = (Column(f"k{n}", v.type, self.may_be_null(body, v)) for n, v in enumerate(row))
        return Table(name, (*columns,), (*range(len(keys)),), function=True)

    def completed(
        self,
        table: Table,
        body: Body,
        keys: Sequence[Typed],
        empty: Typed,
        lacking: Table | None = None,
    ) -> Table:
        """Return a function with a table's values, and `empty` for the rows of a body, told apart by
        its keys, that have none: those that `lacking`, if it is given, lacks; then the table itself
        gets these.
        """
        name, none, missing, value = table.name, Body(), body.copy(), table.columns[-1]
        if lacking is None:
            there = Body()
            row = self.scan(table, there)
            name = self.function(there, row[:-1], row[-1]).name
        self.scan(lacking or table, none, [*keys])
        missing.literals.append(Not(tuple(none.literals)))
        other = self.define(missing, empty)
        self.rule(Atom(name, tuple(k.term for k in keys), (other.term,)), missing)
        columns = (Column(f"k{n}", k.type, self.may_be_null(body, k)) for n, k in enumerate(keys))
        nullable = empty.nullable or value.nullable
        row_ = (*columns, replace(value, nullable=nullable))
        return Table(name, row_, (*range(len(keys)),), function=True)

    def rule(self, head: Atom, body: Body, folds: tuple[Fold, ...] = ()) -> None:
        """Add a rule with a body's literals."""
        self.rules_of((head,), body, folds)

    def rules_of(self, heads: tuple[Atom, ...], body: Body, folds: tuple[Fold, ...] = ()) -> None:
        """Add a rule of several heads with a body's literals."""
        names = {*variables(*heads)} & {*_owned_by_outer(body)}
        literals = self.closed(body, names)
        self.emit(Rule(heads, literals, folds, frozenset(self.names_of(body.required))))

    def stored(
        self, body: Body, outputs: Sequence[tuple[str, Typed]], distinct: bool = False
    ) -> Table:
        """Make a helper view of some columns of a body; return it, with the columns that the body
        carries first.

        It is a set if `distinct`, or if the columns tell the rows apart, else its rows have
        multiplicities.
        """
        body = body.copy()
        values = [(n, self.define(body, value)) for n, value in outputs]
        values = self._apart(body, values)
        around = [
            (name, column_of(body.outer, name))
            for name in self.carried(body, [v.term for _, v in values])
        ]
        row = [*around, *values]
        columns = tuple(Column(n, value.type, self.may_be_null(body, value)) for n, value in row)
        name, terms = self.helper(), tuple(self.resolve(value.term) for _, value in row)
        if len(terms) > KEYS_MAX:
            return self._in_parts(body, columns, terms, distinct)
        if distinct or self.is_set(body, terms):
            self.rule(Atom(name, terms), body)
            return Table(name, columns, self._key(body, terms, distinct))
        self.rule(*self.counted(name, terms, body))
        return Table(name, columns, tuple(range(len(columns))), weighs=True)

    def _in_parts(
        self, body: Body, columns: tuple[Column, ...], terms: tuple[Term, ...], distinct: bool
    ) -> Table:
        """Make helper views of some of the columns each, after those that determine the others."""
        key = self.determining(body, terms)
        weighs = bool(body.weights)
        if len(key) >= KEYS_MAX or (distinct and weighs):
            raise SqlError(
                f"{self.name} needs {len(terms)} columns in one step "
                f"({', '.join(c.name for c in columns)}), and "
                f"{KEYS_MAX} is the most that tell rows apart: select fewer columns"
            )
        parts: list[tuple[Table, tuple[int, ...]]] = []
        for places in chunks(len(terms), key, weighs):
            held = tuple(columns[p] for p in places)
            part = Table(self.helper(), held, (*range(len(key)),), weighs=weighs and not parts)
            chosen = tuple(terms[p] for p in places)
            self.rule(
                *(
                    self.counted(part.name, chosen, body)
                    if part.weighs
                    else (Atom(part.name, chosen), body)
                )
            )
            parts.append((part, places))
        return Table("", columns, tuple(key), weighs=weighs, parts=tuple(parts))

    def determining(self, body: Body, terms: Sequence[Term]) -> list[int]:
        """Return the positions of a few terms that determine a body's rows; all if none do."""
        names = [
            {term.name} if isinstance(term, Var) else set() for term in map(self.resolve, terms)
        ]
        dependencies = self._dependencies(body)
        keyed = {name for key, _ in body.keys for name in self.names_of(key)}
        kept = list(range(len(terms)))
        for place in reversed(range(len(terms))):
            rest = [i for i in kept if i != place]
            if keyed <= _closed({name for i in rest for name in names[i]}, dependencies):
                kept = rest
        return kept

    def _apart(self, body: Body, values: list[tuple[str, Typed]]) -> list[tuple[str, Typed]]:
        """Give each output a variable of its own."""
        seen: set[Term] = set()
        values_apart = []
        for name, value in values:
            if value.term in seen:
                new = self.variable(value.type, value.nullable)
                assert isinstance(new.term, Var)
                body.literals.append(Define(new.term, value.term))
                body.columns[new.term.name] = value = new
            seen.add(value.term)
            values_apart.append((name, value))
        return values_apart

    def counted(
        self, name: str, terms: tuple[Term, ...], body: Body
    ) -> tuple[Atom, Body, tuple[Fold, ...]]:
        """Return the head, the body and the aggregate of rows with their multiplicities."""
        result = self.variable(BIGINT, False).term
        assert isinstance(result, Var)
        weight = self.weight(body)
        fold = Fold("count", result.name) if weight is None else Fold("sum", result.name, (weight,))
        return Atom(name, terms, (result,), (), True), body, (fold,)

    def weight(self, body: Body) -> Term | None:
        """Return a variable of the multiplicity of a body's rows, None if it is 1."""
        if not body.weights:
            return None
        product = body.weights[0]
        for factor in body.weights[1:]:
            product = Call("*", (product, factor))
        return self.define(body, Typed(product, BIGINT, False)).term

    def _key(self, body: Body, terms: tuple[Term, ...], distinct: bool) -> tuple[int, ...]:
        """Return the positions of as few columns as are found to tell the rows of a set apart."""
        return tuple(range(len(terms)) if distinct else self.determining(body, terms))

    def again(
        self, table: Table, outer: Body | None, around: Sequence[str] = ()
    ) -> tuple[Body, list[Typed]]:
        """Return a body of one atom of a helper view and its columns; the first columns are
        variables of the outer.
        """
        body = Body(outer)
        given = [column_of(outer, name) for name in around]
        return body, self.scan(table, body, given)[len(given) :]

    def as_atom(
        self, body: Body, outputs: Sequence[tuple[str, Typed]], distinct: bool = False
    ) -> tuple[Body, list[Typed]]:
        """Store some columns of a body, and return a body that reads them, and the columns."""
        around = self.carried(body, [value.term for _, value in outputs])
        return self.again(self.stored(body, outputs, distinct), body.outer, around)


def _closed(known: set[str], dependencies: list[tuple[set[str], set[str]]]) -> set[str]:
    """Return the variables that known ones determine, themselves among them."""
    before = -1
    while len(known) != before:
        before = len(known)
        for key, others in dependencies:
            if key <= known:
                known |= others
    return known


def chunks(count: int, key: Sequence[int], more: int = 0) -> list[tuple[int, ...]]:
    """Return the positions of columns in parts of at most KEYS_MAX, with `more` before, each
    with the key first.
    """
    others, size = [place for place in range(count) if place not in key], KEYS_MAX - len(key) - more
    return [(*key, *others[first : first + size]) for first in range(0, len(others), size)]


def kept_interval(value: Typed) -> Typed:
    """Return a value as columns have it: the time between two timestamps is a number of
    microseconds.

    Raises SqlError for any other interval.
    """
    if value.type != INTERVAL or not isinstance(value.term, Call):
        return value
    if value.term.name != "elapsed":
        raise SqlError(
            "a column of intervals has the time between two timestamps: take EXTRACT(EPOCH FROM "
            "...) of any other, or date_diff"
        )
    return value._replace(term=value.term.args[0])


def is_null(term: Term, holds: bool) -> Term:
    """Return the condition that a term is null, or is not."""
    return Call("=", (Call("is_null", (term,)), Lit(holds, "bool")))


def _owned_by_outer(body: Body) -> Iterable[str]:
    outer = body.outer
    while outer is not None:
        yield from outer.columns
        outer = outer.outer


def column_of(body: Body | None, name: str) -> Typed:
    """Return the column that has a variable's name in a body or one around it."""
    while body is not None:
        if name in body.columns:
            return body.columns[name]
        body = body.outer
    raise AssertionError(name)


def outer_value(body: Body, name: str) -> Typed:
    """Return a variable of a body around this one, which is not null if this body requires it."""
    value = column_of(body.outer, name)
    return value._replace(nullable=value.nullable and name not in body.required)


def _number(name: str) -> int:
    return int(name[2:])


def _free(literals: Iterable[Literal]) -> set[str]:
    """Return the variables that a body uses and that no negation in it binds for itself."""
    names: set[str] = set()
    for literal in literals:
        if isinstance(literal, Not):
            names |= _free(literal.body) - bound(literal.body)
        elif isinstance(literal, Either):
            names |= {v for part in literal.parts for v in _free(part)}
        else:
            names |= {*variables(literal)}
    return names


def renamed(table: Table, name: str) -> Table:
    """Return a table of the same columns with another name."""
    return replace(table, name=name)
