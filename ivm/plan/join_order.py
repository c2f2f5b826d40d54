"""Choose the key order of a conjunction by cost.

All permutations of its variables are compared, or, if they are too many, those that a beam search
finds (docs/decisions/0020-many-variables.md).  A variable that an equality fixes directly follows
the one that fixes it.

    r(x, y), s(y, z)    y = 7 is in a fifth of r and of s: [x, y, z] has more bindings than if all y were alike,
                        since a binding of (x, y) has y = 7 as often as a row of r has it (heavy
                        hitters)
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain, permutations
from math import inf, prod
from typing import NamedTuple

from ivm.lang.ir import variables
from ivm.plan import costs
from ivm.plan.conjunction import Arguments, Conjunction
from ivm.plan.linear import between, pinned
from ivm.plan.plan import permuted
from ivm.plan.statistics import Distinct, Heavy, none_heavy

FAR = 2.0**40  # more rows than relations have: a product comes after all that is joined
# for n variables, above costs.PERMUTED_MAX: BEAM_WIDTH / n² prefixes are extended at a time
BEAM_WIDTH = 1 << 10


class Begun(NamedTuple):
    """A prefix of an order: its variables, `bound` with what they fix, and estimates."""

    names: tuple[str, ...]
    bound: frozenset[str]
    bindings: float = 1.0
    cost: float = 0.0


class Step(NamedTuple):
    """Estimates of a level: the smallest fan-out, the number of fan-outs, the share of values
    that all tries have.
    """

    smallest: float
    fans: int
    shared: float


class JoinOrders:
    """Compares the key orders of a conjunction by the estimated cost of evaluating it.

    If that is done `once`, the search ends when it has cost about as much as it can still save.
    """

    def __init__(
        self,
        conjunction: Conjunction,
        distinct: Distinct,
        heavy: Heavy = none_heavy,
        once: bool = False,
    ) -> None:
        self._conjunction, self._distinct, self._heavy = conjunction, distinct, heavy
        self._once, self._most = once, inf
        self._atoms, self._equal = conjunction.atoms, conjunction.equal
        names = dict.fromkeys(n for a in self._atoms for n in a.names if n is not None)
        self._free = [n for n in names if n not in self._equal]
        self._pinned, self._between = pinned(conjunction.bounds), between(conjunction.bounds)
        self._steps: dict[tuple[str, frozenset[str]], Step] = {}
        self._indexed: dict[tuple[str, frozenset[str]], float] = {}
        self._known_placed: dict[str | None, tuple[str, ...]] = {}
        self._known_nearest: dict[tuple[str | None, ...], tuple[str, ...]] = {}

    @property
    def basis(self) -> Hashable:
        """What orders and their costs depend on, but for the rows of relations."""
        rule, keys = self._conjunction.rule, self._conjunction.keys
        return (
            tuple((a.atom.predicate, a.negated, *a.names) for a in self._atoms),
            tuple((name, other) for name, (other, _) in self._equal.items()),
            frozenset(map(frozenset, self._pinned)),
            tuple((name, *ends) for name, ends in self._between.items()),
            tuple(tuple(v.name for v in variables(h) if v.name in keys) for h in rule.heads),
            all(aggregate.op == "count" for aggregate in rule.aggregates),
        )

    @cached_property
    def cheapest(self) -> tuple[tuple[str, ...], float, int]:
        """The cheapest order, its estimated cost, and how many orders were compared."""
        best, found, considered = inf, (self._with_held(self._free), inf), 0
        for order in map(self._with_held, self._candidates(())):
            considered += 1
            cost = self._cost(order, best)
            if cost < best and (whole := cost + self._sorting(cost, order)) < best:
                best, found = whole, (order, cost)
        return *found, considered

    def beats(self, most: float) -> bool:
        """Return whether some order costs less than another way, which costs `most`; for an
        evaluation that is done once, no if to find out costs more than it can save.
        """
        if self._once and most < costs.EXTENDED * len(self._free) ** 2 / 2:
            return False
        self._most = min(self._most, most)
        return self.cheapest[1] < most

    def nearest(self, t: int) -> tuple[str, ...]:
        """Return an order that starts with the variables of atom t, and goes on to the atom with
        the fewest rows for what is bound, each by its columns in order, so that few indices are
        permuted.  O(atoms²), of which only the atoms that hold a variable just bound are estimated
        again; once for atoms of the same variables.
        """
        names = (*self._atoms[t].names,)
        if names not in self._known_nearest:
            self._known_nearest[names] = (*self._nearest(t),)
        return self._known_nearest[names]

    def _nearest(self, t: int) -> list[str]:
        order, best = list[str](), t
        left = {n: rows for n, rows in self._unbound.items() if n != t}
        while True:
            known = len(order)
            for name in self._atoms[best].names:
                if (
                    name
                    and name not in order
                    and self._equal.get(name, (None, 0))[0] in (None, *order)
                ):
                    order.append(name)
            if not left or len(order) == len(self._places):
                break
            bound = self._equal.keys() | {*order}
            for n in {n for name in order[known:] for n in self._places[name]} & left.keys():
                left[n] = self._rows_for(self._atoms[n], bound)
            best = min(left, key=left.__getitem__)
            del left[best]
        rest = [n for n in self._places if n not in order]
        while rest:  # each is fixed by another variable, or by a constant
            ready = next(n for n in rest if self._equal[n][0] in (None, *order))
            order.append(ready)
            rest = [n for n in rest if n != ready]
        return order

    @cached_property
    def _unbound(self) -> dict[int, float]:
        """The rows of each positive atom, where only what equations fix is bound."""
        return {
            n: self._rows_for(a, self._equal.keys())
            for n, a in enumerate(self._atoms)
            if not a.negated
        }

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """The atoms that hold each variable."""
        found: dict[str, list[int]] = {}
        for n, a in enumerate(self._atoms):
            for name in dict.fromkeys(a.names):
                if name is not None:
                    found.setdefault(name, []).append(n)
        return found

    def _rows_for(self, a: Arguments, bound: Collection[str]) -> float:
        """Estimate the rows of an atom for one binding of some variables."""
        predicate, columns = a.atom.predicate, tuple(c for c, n in enumerate(a.names) if n in bound)
        keys = self._conjunction.stored_keys[predicate]
        if {*range(keys)}.issubset(columns):
            return 1.0
        rows = self.rows(predicate)
        return rows / max(1.0, self._distinct(predicate, columns)) if columns else FAR * rows

    def below(self, t: int) -> tuple[tuple[str, ...], float]:
        """Return the cheapest order that starts with the variables of atom t, and its cost per
        binding of these.
        """
        own = [n for n in self._free if n in self._atoms[t].names]
        start = self._with_held(own)
        least, best = inf, self._with_held([*own, *(n for n in self._free if n not in own)])
        for order in map(self._with_held, self._candidates(own)):
            if (cost := self._cost(order, least)) < least:
                least, best = cost, order
        below = (least - self._cost(start)) / max(1.0, self.bindings(start)[-1])
        return best, max(1.0, below)

    def pace(self, orders: Sequence[Sequence[str]]) -> float:
        """Return the most operations a row of any atom t takes on average, joined in orders[t]."""
        pairs = zip(self._atoms, orders, strict=False)
        begun = {(1 + max(map(o.index, filter(None, a.names))), (*o,)) for a, o in pairs}
        return max(self._pace(*one) for one in begun)

    def _pace(self, own: int, order: Sequence[str]) -> float:
        levels = [*self._levels(order)]
        return sum(operations for operations, *_ in levels[own:]) / max(1.0, levels[own - 1][1])

    def _with_held(self, names: Sequence[str]) -> tuple[str, ...]:
        if self._equal:
            return tuple(chain.from_iterable(map(self._placed, (None, *names))))
        return (*names,)

    def _placed(self, name: str | None) -> tuple[str, ...]:
        """Return a variable and those that it fixes; for None, those that constants fix."""
        if name not in self._known_placed:
            held = [n for n, (other, _) in self._equal.items() if other == name]
            own = () if name is None else (name,)
            self._known_placed[name] = (*own, *chain.from_iterable(map(self._placed, held)))
        return self._known_placed[name]

    # -- candidate orders

    def _candidates(self, own: Sequence[str]) -> Iterable[Sequence[str]]:
        """Return the orders to compare: they begin with `own`, and permute the others."""
        rest = [n for n in self._free if n not in own]
        width = max(1, BEAM_WIDTH // max(1, len(rest)) ** 2)
        if self._once and len(rest) > 2:
            narrow = [*self._cheaply_begun(own, rest, True, 1)]
            saved = min(self._most, *(self._cost(self._with_held(order)) for order in narrow))
            worth = int(saved / (costs.EXTENDED * len(rest) ** 2))
            if worth <= 1:
                return narrow
            width = min(width, worth)
        if len(self._free) <= costs.PERMUTED_MAX:
            return ([*own, *tail] for tail in permutations(rest))
        joined = [a for a in self._atoms if any(self._beside[n] != {n} for n in a.names if n)]
        if len(joined) < 2:
            return self._of_one_atom(own, rest)
        # from rows that are given, a product is hardly ever the best way
        ways = (True,) if own else (True, False)
        return chain.from_iterable(self._cheaply_begun(own, rest, tied, width) for tied in ways)

    def _of_one_atom(self, own: Sequence[str], rest: Sequence[str]) -> list[tuple[str, ...]]:
        """Return the orders of a scan beside relations of one column that nothing is joined with:
        the relation's own, each with another variable first, which may have bounds, and those in
        which the heads' rows are sorted.
        """
        atoms = sorted(self._atoms, key=lambda a: len(a.names))
        names = [n for a in atoms for n in a.names if n and n in rest]
        heads = [[v.name for v in variables(h)] for h in self._conjunction.rule.heads]
        first: list[list[str]] = [[], *([n] for n in names), *heads]
        ahead = [n for a in atoms[:-1] for n in a.names if n and n in rest]
        return [
            (*dict.fromkeys([*own, *ahead, *(n for n in one if n in rest), *names]),)
            for one in first
        ]

    def _cheaply_begun(
        self, own: Sequence[str], rest: Sequence[str], tied: bool, width: int
    ) -> Iterator[tuple[str, ...]]:
        """Search orders by a beam: extend the cheapest prefix of each set of variables, for the
        `width` cheapest sets.

        A product of two relations looks cheap as a prefix, and its cost shows only after better
        prefixes have been dropped. So with `tied` the next variable shares an atom with an earlier
        one, if any does; without it, products of small relations are found, too.
        """
        begun = [Begun(tuple(own), frozenset(self._with_held(own)))]
        rest = [name for name in rest if name in self._together]
        for _ in rest:
            cheapest: dict[frozenset[str], Begun] = {}
            for one in sorted(begun, key=lambda b: b.cost):
                if len(cheapest) == width:
                    break
                cheapest.setdefault(frozenset(one.names), one)
            begun = [
                longer for one in cheapest.values() for longer in self._longer(one, rest, tied)
            ]
        return (one.names for one in begun)

    def _longer(self, begun: Begun, rest: Sequence[str], tied: bool) -> Iterator[Begun]:
        """Yield a prefix extended by each variable that may come next."""
        left = [n for n in rest if n not in begun.names]
        near = set[str]().union(*(self._beside[name] for name in begun.names)) if tied else ()
        for name in [
            n for n in left if n in near or (tied and self._is_pinned(n, begun.bound))
        ] or left:
            _, bound, bindings, cost = begun
            for one in self._together[name]:
                cost += self._indexing(one, bound)
                for placed in self._placed(one):
                    step = self._step(placed, bound)
                    cost += bindings * step.smallest * step.fans
                    bindings *= step.smallest * step.shared
                    bound = bound.union((placed,))
            yield Begun((*begun.names, *self._together[name]), bound, bindings, cost)

    @cached_property
    def _together(self) -> dict[str, tuple[str, ...]]:
        """The variables that the search places, each with those that it places with it: the same
        atoms hold these, and no comparison or heavy hitter tells them apart; they come as in the
        atom with the most rows.
        """
        apart = {name for form in self._conjunction.bounds for name in form.times}
        apart |= {other for other, _ in self._equal.values() if other}
        apart |= {n for a in self._atoms for n in a.names if n and self._skew(n, a)[1]}
        few = len(self._free) <= costs.PERMUTED_MAX
        alike: dict[object, list[str]] = {}
        for name in self._free:
            key = name if few or name in apart else (*self._places[name],)
            alike.setdefault(key, []).append(name)
        for names in alike.values():
            if len(names) > 1:
                holding = [self._atoms[n] for n in self._places[names[0]]]
                most = max(holding, key=lambda a: self.rows(a.atom.predicate))
                names.sort(key=most.names.index)
        return {names[0]: (*names,) for names in alike.values()}

    # -- costs

    def _cost(self, order: Sequence[str], most: float = inf) -> float:
        """Estimate iterator operations: at each level, bindings so far times the smallest fan-out
        times tries; infinite if these alone exceed `most`.

        A permuted index adds two passes over its relation, to build and to maintain it.  Bindings
        that a projection makes equal must be merged, unless the join can count them (see
        join/kernels/flat_join.py).
        """
        cost, found = 0.0, 1.0
        for operations, bindings, _ in self._levels(order):
            cost, found = cost + operations, bindings
            if cost > most:
                return inf
        level = {name: i for i, name in enumerate(order)}
        if len(level) == len({n for a in self._atoms for n in a.names if n is not None}):
            cost += 0 if self._collected(order) else costs.MERGE_OPERATIONS * found
            indices = {self._conjunction.index(a, level) for a in self._atoms}
            cost += sum(2 * self._distinct(i.predicate, i.order) for i in indices if permuted(i))
        return cost

    def _sorting(self, cost: float, order: Sequence[str]) -> float:
        """Estimate the cost of sorting for an order, if it does not produce some head's rows
        sorted.

        The smallest fan-outs bound the number of rows. The estimate of bindings would be far too
        low, since the columns of a cyclic join are seldom independent: a graph with 60 expected
        cliques has 30 million. As the bound may be far too high, the cost is limited.
        """
        level = {name: i for i, name in enumerate(order)}
        heads = [
            [level[v.name] for v in variables(head) if v.name in level]
            for head in self._conjunction.rule.heads
        ]
        if all(levels == sorted(levels) for levels in heads):
            return 0.0
        most = prod(smallest for *_, smallest in self._levels(order))
        return min(costs.MERGE_OPERATIONS * most, costs.SORTING_SHARE_MAX * cost)

    def _levels(self, order: Sequence[str]) -> Iterator[tuple[float, float, float]]:
        """Yield (operations, bindings, smallest fan-out) at each level of an order."""
        bindings, bound = 1.0, set[str]()
        for name in order:
            step = self._step(name, bound)
            bound.add(name)
            operations = bindings * step.smallest * step.fans
            bindings *= step.smallest * step.shared
            yield operations, bindings, step.smallest

    def _step(self, name: str, bound: Collection[str]) -> Step:
        """Return the estimates of a level, given the variables bound before; only those near the
        variable matter.
        """
        key = name, self._near[name].intersection(bound)
        if key not in self._steps:
            self._steps[key] = self._estimated(*key)
        return self._steps[key]

    @cached_property
    def _near(self) -> dict[str, frozenset[str]]:
        """The variables with which each one shares an atom or a comparison that may fix it."""
        positive = [a for a in self._atoms if not a.negated]
        together = [(a, b) for a in positive for n in a.names if n for b in self._skew(n, a)[1]]
        groups: list[AbstractSet[str]] = [
            {n for a in one for n in a.names if n} for one in together
        ]
        groups += [*({n for n in a.names if n} for a in self._atoms), *self._pinned]
        groups += [ends | {name} for name, pairs in self._between.items() for ends in pairs]
        names = {name for group in groups for name in group}
        return {
            name: frozenset().union(*(group for group in groups if name in group)) - {name}
            for name in names
        }

    @cached_property
    def _beside(self) -> dict[str, set[str]]:
        """The variables of the atoms that hold each one."""
        return {
            name: {n for a in holding for n in a.names if n is not None}
            for name, holding in self._conjunction.holding.items()
        }

    @cached_property
    def _skewed_columns(self) -> dict[int, tuple[int, ...]]:
        """The columns of each atom, by its id, that have heavy hitters, as other atoms have that
        hold their variables.
        """
        return {
            id(a): tuple(c for c, n in enumerate(a.names) if n and self._skew(n, a)[1])
            for a in self._atoms
        }

    def _estimated(self, name: str, bound: Collection[str]) -> Step:
        distinct, fans, holding = self._distinct, list[float](), self._conjunction.holding[name]
        for a in holding:
            names, predicate = a.names, a.atom.predicate
            before = tuple([c for c, n in enumerate(names) if n in bound])
            here = (*before, names.index(name))
            below = distinct(predicate, before) if before else 1.0
            mean = most = distinct(predicate, tuple(sorted(here))) / max(below, 1.0)
            for column in self._skewed_columns[id(a)]:
                if column in before:
                    most = max(most, self._skewed(a, column, here, mean, bound))
            fans.append(most)
        if name in self._equal or self._is_pinned(name, bound):
            fans.append(1.0)
        shared = 1.0
        if len(fans) > 1:
            domain = max(
                1.0, *(distinct(a.atom.predicate, (a.names.index(name),)) for a in holding)
            )
            shared = prod(min(1.0, fan / domain) for fan in sorted(fans)[1:])
        smallest = min(fans, default=1.0)
        if any(all(n in bound for n in ends) for ends in self._between.get(name, ())):
            smallest = min(smallest, smallest**0.5)  # how wide the range is is not known
        return Step(smallest, len(fans), shared)

    def _skewed(
        self, a: Arguments, column: int, here: tuple[int, ...], mean: float, bound: Collection[str]
    ) -> float:
        """Return how many values an atom has for a binding, if the atoms that hold the variable of
        a bound column, and more that is bound, have its heavy hitters in as many bindings as in
        rows; `mean` for other values.
        """
        name = a.names[column]
        own, others = self._skew(name, a) if name else ({}, [])
        entered = [
            (b.atom.predicate, b.names.index(name))
            for b in others
            if any(n in bound for n in b.names if n != name)
        ]
        if not own or not entered:
            return mean
        heavy = [self._heavy(*one) for one in entered]
        values = [max(1.0, self._distinct(predicate, (place,))) for predicate, place in entered]
        average = [
            self.rows(predicate) / n for (predicate, _), n in zip(entered, values, strict=True)
        ]
        most = self._distinct(a.atom.predicate, here[-1:])
        rest = tuple(c for c in here[:-1] if c != column)
        rest_values = self._distinct(a.atom.predicate, rest) if rest else 1.0
        left = max(0.0, min(values) - len(own)) * prod(average)  # bindings with other values
        total, fans = left, left * mean
        for word, rows in own.items():
            bindings = prod(
                found.get(word, each) for found, each in zip(heavy, average, strict=True)
            )
            total += bindings
            fans += bindings * max(mean, min(most, rows / rest_values))
        return fans / max(1.0, total)

    def _skew(self, name: str, a: Arguments) -> tuple[Mapping[int, float], list[Arguments]]:
        """Return the heavy hitters of a variable in an atom, and the other atoms that have some;
        none if these lack.
        """
        others = [b for b in self._conjunction.holding[name] if b is not a]
        if (
            not others
            or name not in a.names
            or not (own := self._heavy(a.atom.predicate, a.names.index(name)))
        ):
            return {}, []
        return own, [b for b in others if self._heavy(b.atom.predicate, b.names.index(name))]

    def _is_pinned(self, name: str, bound: Collection[str]) -> bool:
        """Return whether comparisons with bound variables leave a variable one value or few."""
        return any(
            name in names and all(n in bound for n in names if n != name) for names in self._pinned
        )

    def bindings(self, order: Sequence[str]) -> tuple[float, ...]:
        """Estimate the bindings of the first variables of an order, for each level."""
        return tuple(bindings for _, bindings, _ in self._levels(order))

    def rows(self, predicate: str) -> float:
        """Return the rows of a predicate, if it has any; else how many are assumed."""
        return self._distinct(predicate, tuple(range(self._conjunction.stored_keys[predicate])))

    def _indexing(self, name: str, bound: Collection[str]) -> float:
        """Return the cost of the permuted indices that an order needs with this variable next."""
        key = name, self._near[name].intersection(bound)
        if key not in self._indexed:
            self._indexed[key] = sum(
                self._permuting(*key, a) for a in self._conjunction.holding[name]
            )
        return self._indexed[key]

    def _permuting(self, name: str, bound: AbstractSet[str], a: Arguments) -> float:
        """Return the cost of an atom's permuted index, needed if this variable comes next."""
        names = [n for n in a.names if n is not None]
        first = next(place for place, n in enumerate(names) if n not in bound)
        if names[first] == name or not bound.isdisjoint(names[first:]):
            return 0.0
        return 2 * self.rows(a.atom.predicate)

    def _collected(self, order: Sequence[str]) -> bool:
        """Return whether the join can count every variable that the heads leave out while it
        collects the next one.

        It cannot for aggregates of values, which need each binding, in any order.
        """
        if any(aggregate.op != "count" for aggregate in self._conjunction.rule.aggregates):
            return False
        shown = {v.name for head in self._conjunction.rule.heads for v in variables(head)}
        level = {name: i for i, name in enumerate(order)}
        first_collected = list(range(len(order)))
        left = {level[name] for name in order if name not in shown and name not in self._equal}
        atoms = [[level[n] for n in a.names if n is not None] for a in self._atoms]
        for at in range(len(order)):
            read = {i for levels in atoms if max(levels) > at for i in levels}
            first = at
            while first - 1 in left - read and (first == at or first_collected[first] == first):
                first -= 1
            first_collected[at] = first
            left -= set(range(first, at))
        return not left
