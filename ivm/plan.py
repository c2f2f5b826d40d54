"""From one conjunction to arrays: key order, indices, bounds, sensors.

    F(x, y) <- G(x, z), H(y, z), I(x, y, z), R(z).        order [x, y, z]

    level     x            y            z
    tries     G I          H I          G H I R
    sensors   -            H            G H R            (I and G at x follow the order: dropped)

The order is chosen by cost among all permutations of the key variables, or where those are too many among
the ones that begin cheaply; an atom whose arguments do not follow it reads a permuted index.  Constants
and repeated variables become levels of their own, held by a bound.  What no trie holds (values, computed
variables, other comparisons) is done on the batches.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, permutations
from typing import NamedTuple

import numpy as np

from ivm.errors import ConstructError
from ivm.kernels.leapfrog import EQ, GE, LE, NE
from ivm.lang.rule import (
    Atom,
    Binary,
    Compare,
    Const,
    Disjunct,
    Negation,
    Predicate,
    Rule,
    Term,
    Var,
    atoms,
    variables,
)
from ivm.shape import Sensors, Shape
from pagestore.words import KEYS_MAX

AUTO, MATCH, PROBE = "auto", "match", "probe"
ONCE = "once"  # of a question: nothing is kept, so nothing is recorded
RENEWAL_OPERATIONS = 16  # renewing an interval in its index takes about as long as so many operations
MERGED = 8  # operations that a binding costs that comes several times and has to be merged with its like
# so many times longer than estimated may a trace be for each variable but the first: joined columns are seldom
# independent, and what is wrong at one level is multiplied at the next
CORRELATED = 16
ORDERS_MAX = 5  # variables of a rule whose permutations are all tried, in milliseconds
BEGUN_MAX = 1 << 10  # of more, how many orders are begun at a time; over the square of the variables


class Index(NamedTuple):
    """A relation with its columns in another order; the identity is the relation itself."""

    predicate: str
    order: tuple[int, ...]


@dataclass(frozen=True)
class Trie:
    """An atom of the body as the join sees it: an index, and the level of each argument that counts.

    Columns of the index behind them are arguments that occur nowhere else (the trie is cut there) or
    values.  `text` is the atom as written.
    """

    index: Index
    levels: tuple[int, ...]
    negated: bool
    text: str


class Bound(NamedTuple):
    """level `kind` (EQ, GE, LE, NE) the value at level `other` (-1: none) plus `constant`."""

    level: int
    kind: int
    other: int
    constant: int


class Sensor(NamedTuple):
    """A sensitivity index: of which trie and depth, and the level of each of its columns but a and b."""

    trie: int
    depth: int
    level: int
    columns: tuple[int, ...]  # levels; -1 for a, -2 for b


class Read(NamedTuple):
    """A value read off a trie's record at a binding."""

    trie: int
    column: int
    variable: str


@dataclass(frozen=True, eq=False)
class Plan:
    """One conjunction, ready to run.

    A row of its bindings holds the key variables by level, then `reads`; `computed` and `filters` are
    done on batches of rows.  `cost` is the estimate that chose the order, `considered` how many orders
    were compared.  With `probes`, one plan for each trie that starts with the trie's variables, deltas are
    probed; without, they are matched with sensitivity indices; `once` means that no delta will come.
    `choice` says why.
    """

    variables: tuple[str, ...]
    tries: tuple[Trie, ...]
    bounds: tuple[Bound, ...]
    reads: tuple[Read, ...]
    computed: tuple[tuple[str, Term], ...]
    filters: tuple[Compare, ...]
    cost: float = 0.0
    considered: int = 0
    probes: tuple["Plan", ...] = ()
    choice: str = ""
    once: bool = False

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of a batch of bindings."""
        return self.variables + tuple(read.variable for read in self.reads)

    @cached_property
    def sensors(self) -> tuple[Sensor, ...]:
        """One for each trie and depth that does not follow the key order (*Sensitivity indices*)."""
        if self.probes or self.once:
            return ()
        found = []
        for t, trie in enumerate(self.tries):
            depths = range(len(trie.levels))
            for depth in depths[-1:] if trie.negated else depths:
                level = trie.levels[depth]
                alphas = trie.levels[:depth]
                if trie.levels[: depth + 1] != tuple(range(depth + 1)):
                    gammas = tuple(g for g in range(level) if g not in alphas)
                    found.append(Sensor(t, depth, level, (*alphas, -1, -2, *gammas)))
        return tuple(found)

    @cached_property
    def shape(self) -> Shape:
        """The plan as the kernel takes it."""
        levels = len(self.variables)
        depth_max = max((len(t.levels) for t in self.tries), default=1)
        arguments = np.full((len(self.tries), depth_max), -1, np.int64)
        for t, trie in enumerate(self.tries):
            arguments[t, : len(trie.levels)] = trie.levels
        parts = [
            [
                (t, trie.levels.index(v))
                for t, trie in enumerate(self.tries)
                if v in trie.levels and not trie.negated
            ]
            for v in range(levels)
        ]
        absent = [
            [t for t, trie in enumerate(self.tries) if trie.negated and trie.levels[-1] == v]
            for v in range(levels)
        ]
        bounds = [[b[1:] for b in self.bounds if b.level == v] for v in range(levels)]
        reads = [(r.trie, len(self.tries[r.trie].levels) - 1, r.column) for r in self.reads]
        return Shape(
            arguments, _starts(parts), _table(parts, 2), _starts(absent), _table(absent, 1).ravel(),
            _starts(bounds), _table(bounds, 3), np.array(reads, np.int64).reshape(-1, 3),
        )  # fmt: skip

    @cached_property
    def sensor_arrays(self) -> Sensors:
        """All sensors of the plan as the kernel takes them."""
        return sensors_of(self, self.sensors)

    @cached_property
    def trace_sensors(self) -> tuple[Sensor, ...]:
        """A sensor for every trie and depth, dropped ones too: the whole trace (*Aspiration*)."""
        return tuple(
            Sensor(t, depth, trie.levels[depth], (-1, -2, *range(trie.levels[depth])))
            for t, trie in enumerate(self.tries)
            for depth in range(len(trie.levels))
        )


def sensors_of(plan: Plan, sensors: Sequence[Sensor]) -> Sensors:
    """Lay sensors out as arrays."""
    sensor = np.full(plan.shape.argument_level.shape, -1, np.int64)
    width = max((len(s.columns) for s in sensors), default=1)
    sources = np.full((len(sensors), width), -3, np.int64)
    for i, s in enumerate(sensors):
        sensor[s.trie, s.depth] = i
        sources[i, : len(s.columns)] = s.columns
    return Sensors(sensor, sources)


def _starts(groups: list[list]) -> np.ndarray:
    return np.cumsum([0, *map(len, groups)], dtype=np.int64)


def _table(groups: list[list], width: int) -> np.ndarray:
    return np.array([row for group in groups for row in group], np.int64).reshape(-1, width)


Distinct = Callable[[str, tuple[int, ...]], float]  # estimated distinct tuples of some columns of a predicate
Encode = Callable[[Const], int]


class Begun(NamedTuple):
    """An order as far as it is chosen: its variables, with those they hold, estimated bindings of them, and cost."""

    names: tuple[str, ...]
    bound: tuple[str, ...]
    bindings: float = 1.0
    cost: float = 0.0


class Orders(NamedTuple):
    """The key orders chosen for a conjunction: of its plan, and of each probe if it is probed."""

    plan: Sequence[str]
    probes: Sequence[Sequence[str]] = ()


def orders_of(plan: Plan) -> Orders:
    return Orders(plan.variables, [probe.variables for probe in plan.probes])


def make_plans(
    rule: Rule,
    predicates: Mapping[str, Predicate],
    stored_keys: Mapping[str, int],
    distinct: Distinct,
    encode: Encode,
    saved: Sequence[Orders] = (),
    maintenance: str = AUTO,
) -> tuple[Plan, ...]:
    """A plan for each disjunct of a rule; `saved` holds the key orders chosen earlier.

    `stored_keys` says how many key words each predicate has in the store, `maintenance` whether deltas are
    matched, probed, the cheaper of the two, or will not come.  Raises ConstructError, with the place, for what is not
    evaluated yet.
    """
    plans = []
    for i, disjunct in enumerate(rule.body):
        conjunction = Conjunction(rule, disjunct, predicates, stored_keys, encode)
        if saved:
            probes = tuple(conjunction.plan(distinct, order) for order in saved[i].probes)
            plans.append(replace(conjunction.plan(distinct, saved[i].plan), probes=probes))
        else:
            plans.append(_maintained(conjunction, conjunction.plan(distinct), distinct, maintenance))
    return tuple(plans)


def _maintained(conjunction: "Conjunction", plan: Plan, distinct: Distinct, maintenance: str) -> Plan:
    """The plan with its way of maintenance chosen.

    A changed row matches about (trace rows / rows) intervals of each trie; each match descends all levels on
    both versions and renews its interval.  Probing costs about the bindings below the row, in one version; it stores
    nothing, so a trace is recorded only if matching is the cheaper even where the trace is longer than it seems.
    """
    if maintenance == ONCE:
        return replace(plan, once=True, choice="evaluated once")
    columns = max((len(sensor.columns) for sensor in plan.sensors), default=0)
    if maintenance == MATCH and columns > KEYS_MAX:
        raise ConstructError(
            conjunction.rule.where,
            f"matching keeps intervals with {columns} columns of {len(plan.variables)} variables, and a key has "
            f'at most {KEYS_MAX}; install it with maintenance="probe", or derive a part of it as a view of its own',
        )
    if maintenance == MATCH:
        return replace(plan, choice="matched, as asked for")
    if maintenance == AUTO and not plan.sensors:
        return replace(
            plan, choice="matched: all tries follow the key order, so no sensitivity index is needed"
        )
    probes, costs = zip(*(conjunction.probe(t, distinct) for t in range(len(plan.tries))), strict=True)
    if maintenance == PROBE:
        return replace(plan, probes=probes, choice="probed, as asked for")
    rows = [max(1.0, distinct(t.index.predicate, t.index.order)) for t in plan.tries]
    sensed = {s.trie for s in plan.sensors}
    per_match = 2 * len(plan.variables) + RENEWAL_OPERATIONS
    matching = sum(per_match * plan.cost / len(plan.tries) / rows[t] for t in sensed)
    probing = sum(costs)
    figures = f"about {matching:,.0f} operations a row by matching, {probing:,.0f} by probing"
    if columns > KEYS_MAX or probing <= CORRELATED ** (len(plan.variables) - 1) * matching:
        return replace(plan, probes=probes, choice=f"probed: {figures}")
    return replace(plan, choice=f"matched: {figures}")


@dataclass
class Arguments:
    """An atom while it is planned: which variable each of its columns holds; None where it is cut."""

    atom: Atom
    names: list[str | None]
    negated: bool


class Conjunction:
    """The literals of one disjunct, sorted by who handles them: tries, bounds, or batches."""

    def __init__(
        self,
        rule: Rule,
        disjunct: Disjunct,
        predicates: Mapping[str, Predicate],
        stored_keys: Mapping[str, int],
        encode: Encode,
    ) -> None:
        self.rule, self.predicates, self.stored_keys, self.encode = rule, predicates, stored_keys, encode
        self.atoms: list[Arguments] = []
        self.reads: list[tuple[int, int, str]] = []  # atom, column, variable
        self.equal: dict[str, tuple[str | None, int]] = {}  # variable held at another's value, or a constant
        self.filters: list[Compare] = []
        self.computed: list[tuple[str, Term]] = []
        self.bounds: list[tuple[str, int, str | None, int]] = []
        self._fresh = 0
        positive = [x for x in disjunct if isinstance(x, Atom)]
        negative = [x for x in disjunct if isinstance(x, Negation)]
        self.keys = {a.name for x in positive for a in x.args if isinstance(a, Var)}
        self.keys |= {
            a.name
            for n in negative
            for x in n.body
            if isinstance(x, Atom)
            for a in x.args
            if isinstance(a, Var)
        }
        self.used_once = self._used_once(disjunct)
        self.keys |= {
            x.value.name
            for x in atoms(disjunct)
            if isinstance(x.value, Var) and self._stored_as_key(x) and x.value.name not in self.used_once
        }
        for atom in positive:
            self._add_atom(atom, negated=False)
        for negation in negative:
            self._add_negation(negation)
        self.keys |= {n for a in self.atoms for n in a.names if n is not None}
        self.holding = {n: [a for a in self.atoms if not a.negated and n in a.names] for n in self.keys}
        self.enumerated = {n for n, holding in self.holding.items() if holding}
        self._add_comparisons([x for x in disjunct if isinstance(x, Compare)])
        self._check_negated()

    def _used_once(self, disjunct: Disjunct) -> set[str]:
        """Variables that occur once and matter to nobody: the atom's trie can be cut before them.

        Not in an aggregate, which counts every binding.
        """
        if self.rule.aggregate:
            return set()
        counts: dict[str, int] = {}
        nodes: list = [t for literal in disjunct for t in _occurrences(literal)]
        nodes += [t for head in self.rule.heads for t in head.terms]
        for node in nodes:
            for v in variables(node):
                counts[v.name] = counts.get(v.name, 0) + 1
        return {name for name, n in counts.items() if n == 1}

    def _name(self) -> str:
        """A fresh variable, held by an equality."""
        self._fresh += 1
        return f"${self._fresh}"

    def _add_atom(self, atom: Atom, negated: bool) -> None:
        value = atom.value
        as_key = value is not None and self._is_key(atom, value)
        read = value is not None and not as_key and value.name not in self.used_once  # type: ignore[union-attr]
        names: list[str | None] = []
        for term in atom.args:
            names.append(self._argument(term, names, whole=negated or read))
        if as_key:
            assert value is not None
            names.append(self._argument(value, names, whole=negated))
        if all(name is None for name in names):  # it has to hold something: enumerate its first column
            names[0] = self._argument(atom.terms[0], [], whole=True)
        if read:
            assert isinstance(value, Var)
            self.reads.append((len(self.atoms), len(atom.args), self._read_as(value.name)))
        self.atoms.append(Arguments(atom, names, negated))

    def _is_key(self, atom: Atom, value: Var | Const) -> bool:
        return isinstance(value, Const) or value.name in self.keys or self._stored_as_key(atom)

    def _stored_as_key(self, atom: Atom) -> bool:
        """A derived function keeps its value behind its keys as one more key (see heads.py)."""
        return self.stored_keys[atom.predicate] > len(atom.args)

    def _argument(self, term: Var | Const, before: list[str | None], whole: bool) -> str | None:
        if isinstance(term, Const):
            name = self._name()
            self.equal[name] = (None, self.encode(term))
            return name
        if term.name in self.used_once and not whole:
            return None
        if term.name in before:
            name = self._name()
            self.equal[name] = (term.name, 0)
            return name
        return term.name

    def _read_as(self, variable: str) -> str:
        """The name a read value gets: a second reading of one variable must equal the first."""
        if all(variable != name for _, _, name in self.reads):
            return variable
        name = self._name()
        self.filters.append(Compare("=", Var(variable), Var(name)))
        return name

    def _add_negation(self, negation: Negation) -> None:
        if len(negation.body) != 1 or negation.exists or not isinstance(negation.body[0], Atom):
            raise ConstructError(
                negation.where,
                "a negation is evaluated of one atom whose variables are bound outside; derive the rest as a view "
                "of its own and negate that",
            )
        self._add_atom(negation.body[0], negated=True)

    def _add_comparisons(self, comparisons: list[Compare]) -> None:
        """Bounds between keys go into the join; a new variable is computed; the rest filters."""
        known = self.keys | {name for _, _, name in self.reads}
        waiting = list(comparisons)
        while waiting:
            rest = []
            for literal in waiting:
                target = self._defines(literal, known)
                if target is not None:
                    self.computed.append(
                        (target.name, literal.right if literal.left == target else literal.left)
                    )
                    known.add(target.name)
                elif {v.name for v in variables(literal)} <= known:
                    self._compare(literal)
                else:
                    rest.append(literal)
            if len(rest) == len(waiting):
                raise ConstructError(
                    rest[0].where, "the variables of this comparison are defined by each other only"
                )
            waiting = rest

    @staticmethod
    def _defines(literal: Compare, known: set[str]) -> Var | None:
        if literal.op != "=":
            return None
        for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if (
                isinstance(side, Var)
                and side.name not in known
                and {v.name for v in variables(other)} <= known
            ):
                return side
        return None

    def _check_negated(self) -> None:
        for a in self.atoms:
            for name in a.names:
                if a.negated and name not in self.enumerated and name not in self.equal:
                    raise ConstructError(
                        a.atom.where,
                        f"`{name}` is computed and then negated, which is evaluated for sums with a constant only; "
                        "derive the computed values as a view of their own and negate against that",
                    )

    def _compare(self, literal: Compare) -> None:
        left, right = self._offset(literal.left), self._offset(literal.right)
        if left is None or right is None or left[0] == right[0]:  # a variable and itself, or two constants
            self.filters.append(literal)
            return
        op = literal.op
        (a, plus_a), (b, plus_b) = left, right
        if a is None or (op == "=" and b is not None and self._held_by(b)):
            a, plus_a, b, plus_b, op = b, plus_b, a, plus_a, _flip(op)
        assert a is not None
        constant = plus_b - plus_a
        if abs(constant) >= 1 << 62:
            self.filters.append(literal)  # too far to be added up within 64 bits
        elif op == "=" and self._held_by(a):
            self.equal[a] = (b, constant)
        else:
            self.bounds.append((a, *_kind(op, b, constant)))

    def _held_by(self, name: str) -> bool:
        """Does nothing but an equality give this variable its value?"""
        return name not in self.enumerated and name not in self.equal

    def _offset(self, term: Term) -> tuple[str | None, int] | None:
        """A term as (key variable or None, constant), or None if it is something else."""
        if isinstance(term, Const):
            return None, self.encode(term)
        if isinstance(term, Var):
            return (term.name, 0) if term.name in self.keys else None
        if (
            isinstance(term, Binary)
            and term.op in "+-"
            and isinstance(term.right, Const)
            and isinstance(term.left, Var)
        ):
            exact = self.rule.types.get(term.left.name) == "int64" and term.left.name in self.keys
            if exact:
                return term.left.name, self.encode(term.right) * (1 if term.op == "+" else -1)
        return None

    # -- key order

    def plan(self, distinct: Distinct, order: Sequence[str] | None = None) -> Plan:
        """Choose the key order (or take the one given) and lay everything out by it."""
        cost, considered = 0.0, 0
        if order is None:
            cost, order, considered = self._choose(distinct)
        level = {name: i for i, name in enumerate(order)}
        tries = tuple(self._trie(a, level) for a in self.atoms)
        bounds = [Bound(level[n], EQ, -1 if o is None else level[o], c) for n, (o, c) in self.equal.items()]
        bounds += [_oriented(level, *b) for b in self.bounds]
        reads = tuple(
            Read(a, _column(tries[a].index, self.stored_keys[self.atoms[a].atom.predicate], column), name)
            for a, column, name in self.reads
        )
        return Plan(
            tuple(order),
            tries,
            tuple(bounds),
            reads,
            tuple(self.computed),
            tuple(self.filters),
            cost,
            considered,
        )

    def probe(self, t: int, distinct: Distinct) -> tuple[Plan, float]:
        """The cheapest plan that starts with the variables of a trie, and its cost below one binding of them."""
        own = [n for n in self._free_names() if n in self.atoms[t].names]
        fixed = self._cost(self._with_held(own), distinct)
        orders = map(self._with_held, self._orders(own, distinct))
        best = min(orders, key=lambda o: self._cost(o, distinct))
        below = (self._cost(best, distinct) - fixed) / max(
            1.0, self._bindings(self._with_held(own), distinct)
        )
        return self.plan(distinct, best), max(1.0, below)

    def _free_names(self) -> list[str]:
        """The variables that no equality holds, by first appearance."""
        names = (n for a in self.atoms for n in a.names)
        return list(dict.fromkeys(n for n in names if n is not None and n not in self.equal))

    def _trie(self, arguments: Arguments, level: dict[str, int]) -> Trie:
        levels = sorted(level[n] for n in arguments.names if n is not None)
        return Trie(self._index(arguments, level), tuple(levels), arguments.negated, str(arguments.atom))

    def _index(self, arguments: Arguments, level: dict[str, int]) -> Index:
        used = sorted((level[n], c) for c, n in enumerate(arguments.names) if n is not None)
        columns = [c for _, c in used]
        columns += [c for c in range(len(arguments.names)) if c not in columns]
        predicate = self.predicates[arguments.atom.predicate]
        columns += [c for c in range(self.stored_keys[predicate.name]) if c not in columns]
        return Index(predicate.name, tuple(columns))

    def _choose(self, distinct: Distinct) -> tuple[float, tuple[str, ...], int]:
        """The cheapest order; held variables (constants, repeated ones) stand as soon as they can."""
        best: tuple[float, tuple[str, ...]] | None = None
        considered = 0
        for names_in_order in self._orders((), distinct):
            order = self._with_held(names_in_order)
            cost = self._cost(order, distinct)
            considered += 1
            if best is None or cost < best[0]:
                best = cost, order
        assert best is not None
        return *best, considered

    def _with_held(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(placed for name in (None, *names) for placed in self._placed(name))

    def _placed(self, name: str | None) -> Iterator[str]:
        """A variable (or what comes before all) and those that are held by it."""
        if name is not None:
            yield name
        for held, (other, _) in self.equal.items():
            if other == name:
                yield from self._placed(held)

    def _orders(self, own: Sequence[str], distinct: Distinct) -> Iterable[Sequence[str]]:
        """The orders to choose from: some variables as they are, and the others in turns."""
        names = self._free_names()
        rest = [n for n in names if n not in own]
        if len(names) <= ORDERS_MAX:
            return ([*own, *tail] for tail in permutations(rest))
        searches = (self._cheaply_begun(own, rest, distinct, tied) for tied in (True, False))
        return chain.from_iterable(searches)

    def _cheaply_begun(
        self, own: Sequence[str], rest: Sequence[str], distinct: Distinct, tied: bool
    ) -> Iterator[tuple[str, ...]]:
        """Orders grown one variable at a time, from the cheapest order of each set of variables, of few such sets.

        What a product costs shows only behind it, when what looked dearer is forgotten already: the hub of a star
        beside its ends.  So with `tied` the next variable shares an atom with one before, as long as any does;
        without, products of small relations are found too.
        """
        width = max(1, BEGUN_MAX // max(1, len(rest)) ** 2)
        begun = [Begun(tuple(own), self._with_held(own))]
        for _ in rest:
            sets: dict[frozenset[str], Begun] = {}
            for one in sorted(begun, key=lambda b: b.cost):
                sets.setdefault(frozenset(one.names), one)
            cheapest = list(sets.values())[:width]
            begun = [longer for one in cheapest for longer in self._longer(one, rest, distinct, tied)]
        return (one.names for one in begun)

    def _longer(self, begun: Begun, rest: Sequence[str], distinct: Distinct, tied: bool) -> Iterator[Begun]:
        """The same with each variable that may come next."""
        left = [n for n in rest if n not in begun.names]
        near = {n for name in begun.names for a in self.holding[name] for n in a.names} if tied else set()
        for name in [n for n in left if n in near] or left:
            placed = tuple(self._placed(name))
            operations, bindings = zip(*self._levels(placed, distinct, begun.bound), strict=True)
            cost = begun.cost + begun.bindings * sum(operations) + self._turning(name, begun.bound, distinct)
            yield Begun((*begun.names, name), (*begun.bound, *placed), begun.bindings * bindings[-1], cost)

    def _turning(self, name: str, bound: Collection[str], distinct: Distinct) -> float:
        """What the indices cost that this variable, next in the order, is the first to ask for."""
        cost = 0.0
        for a in self.holding[name]:
            names = [n for n in a.names if n is not None]
            known = sum(n in bound for n in names)
            if names[known] != name and all(n in bound for n in names[:known]):
                cost += 2 * distinct(a.atom.predicate, tuple(range(self.stored_keys[a.atom.predicate])))
        return cost

    def _cost(self, order: Sequence[str], distinct: Distinct) -> float:
        """Estimated iterator operations: at each level, bindings so far times the smallest fan-out times tries.

        An index in another order than the relation's costs two passes: to build it, and to keep it.  Bindings that
        are projected are to be brought together on the way (see kernels/flat.py), or else merged in the end.
        """
        levels = list(self._levels(order, distinct))
        cost = sum(operations for operations, _ in levels)
        level = {name: i for i, name in enumerate(order)}
        if len(level) == len({n for a in self.atoms for n in a.names if n is not None}):
            cost += 0 if self._collected(order) else MERGED * levels[-1][1]
            indices = {self._index(a, level) for a in self.atoms}
            cost += sum(
                2 * distinct(i.predicate, i.order) for i in indices if list(i.order) != sorted(i.order)
            )
        return cost

    def _collected(self, order: Sequence[str]) -> bool:
        """Can every variable that the heads leave out be counted while the next one is collected?"""
        shown = {v.name for head in self.rule.heads for v in variables(head)}
        level = {name: i for i, name in enumerate(order)}
        first_collected = list(range(len(order)))
        left = {level[name] for name in order if name not in shown and name not in self.equal}
        atoms = [[level[n] for n in a.names if n is not None] for a in self.atoms]
        for at in range(len(order)):
            read = {i for levels in atoms if max(levels) > at for i in levels}
            first = at
            while first - 1 in left - read and (first == at or first_collected[first] == first):
                first -= 1
            first_collected[at] = first
            left -= set(range(first, at))
        return not left

    def _bindings(self, order: Sequence[str], distinct: Distinct) -> float:
        """Estimated bindings of the variables of an order."""
        return [bindings for _, bindings in self._levels(order, distinct)][-1]

    def _levels(
        self, order: Sequence[str], distinct: Distinct, bound: Collection[str] = ()
    ) -> Iterator[tuple[float, float]]:
        """(operations, bindings) at each level of an order, for each binding of those bound before."""
        bindings, bound = 1.0, {*bound}
        for name in order:
            fans, domains = [], []
            for a in self.holding[name]:
                before = tuple(c for c, n in enumerate(a.names) if n in bound)
                here = (*before, a.names.index(name))
                below = distinct(a.atom.predicate, before) if before else 1.0
                fans.append(distinct(a.atom.predicate, tuple(sorted(here))) / max(below, 1.0))
                domains.append(distinct(a.atom.predicate, (a.names.index(name),)))
            bound.add(name)
            if name in self.equal:
                fans, domains = [1.0, *fans], [max([1.0, *domains]), *domains]
            smallest = min(fans, default=1.0)
            operations = bindings * smallest * len(fans)
            bindings *= smallest
            for fan in sorted(fans)[1:]:
                bindings *= min(1.0, fan / max(max(domains), 1.0))
            yield operations, bindings


def _occurrences(literal: Atom | Compare | Negation) -> list:
    """Every term of a literal, negated ones twice so that no variable of them counts as used once."""
    if isinstance(literal, Atom):
        return list(literal.terms)
    if isinstance(literal, Compare):
        return [literal.left, literal.right] * 2
    return [t for inner in literal.body for t in _occurrences(inner)] * 2


def _kind(op: str, other: str | None, constant: int) -> tuple[int, str | None, int]:
    kinds = {"=": (EQ, 0), "!=": (NE, 0), "<": (LE, -1), "<=": (LE, 0), ">": (GE, 1), ">=": (GE, 0)}
    kind, shift = kinds[op]
    return kind, other, constant + shift


def _flip(op: str) -> str:
    return {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(op, op)


def _oriented(level: dict[str, int], name: str, kind: int, other: str | None, constant: int) -> Bound:
    """A bound stands at the later of its two levels."""
    if other is None:
        return Bound(level[name], kind, -1, constant)
    if level[other] <= level[name]:
        return Bound(level[name], kind, level[other], constant)
    return Bound(level[other], {GE: LE, LE: GE}.get(kind, kind), level[name], -constant)


def _column(index: Index, stored_keys: int, column: int) -> int:
    """Where a predicate's column stands in an index: keys in the index's order, then the values."""
    if column in index.order:
        return index.order.index(column)
    return len(index.order) + column - stored_keys
