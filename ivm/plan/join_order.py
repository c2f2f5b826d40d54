"""The key order of a conjunction, chosen by cost.

All permutations of its variables are weighed, or where those are too many the ones that begin cheaply
(docs/decisions/0020-many-variables.md).  Variables that others or constants hold stand as soon as they can.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, permutations
from math import prod
from typing import NamedTuple

from ivm.lang.traverse import variables
from ivm.plan.conjunction import Conjunction
from ivm.plan.linear import pinned

MERGED = 8  # operations that a binding costs that has to be sorted, or merged with its like
SORTED = 2  # times its own cost that an order is charged at most for bindings which have to be sorted
ORDERS_MAX = 5  # variables of a rule whose permutations are all tried, in milliseconds
BEGUN_MAX = 1 << 10  # of more, how many orders are begun at a time; over the square of the variables

Distinct = Callable[[str, tuple[int, ...]], float]  # estimated distinct tuples of some columns of a predicate


class Begun(NamedTuple):
    """An order as far as it is chosen: its variables, with those they hold, estimated bindings of them, and cost."""

    names: tuple[str, ...]
    bound: tuple[str, ...]
    bindings: float = 1.0
    cost: float = 0.0


class JoinOrders:
    """The orders of a conjunction, and what evaluating it in one of them is estimated to cost."""

    def __init__(self, conjunction: Conjunction, distinct: Distinct) -> None:
        self._conjunction, self._distinct = conjunction, distinct
        self._atoms, self._equal = conjunction.atoms, conjunction.equal
        names = dict.fromkeys(n for a in self._atoms for n in a.names if n is not None)
        self._free = [n for n in names if n not in self._equal]
        self._pinned = pinned(conjunction.bounds)

    def cheapest(self) -> tuple[tuple[str, ...], float, int]:
        """The cheapest order, its cost, and how many were compared."""
        weighed = [(self._cost(order), order) for order in map(self._with_held, self._candidates(()))]
        cost, order = min(weighed, key=lambda one: one[0] + self._sorting(*one))
        return order, cost, len(weighed)

    def below(self, t: int) -> tuple[tuple[str, ...], float]:
        """The cheapest order that starts with the variables of an atom, and its cost below one binding of them."""
        own = [n for n in self._free if n in self._atoms[t].names]
        start = self._with_held(own)
        best = min(map(self._with_held, self._candidates(own)), key=self._cost)
        below = (self._cost(best) - self._cost(start)) / max(1.0, self._bindings(start))
        return best, max(1.0, below)

    def _with_held(self, names: Sequence[str]) -> tuple[str, ...]:
        return tuple(placed for name in (None, *names) for placed in self._placed(name))

    def _placed(self, name: str | None) -> Iterator[str]:
        """A variable (or what comes before all) and those that are held by it."""
        if name is not None:
            yield name
        for held, (other, _) in self._equal.items():
            if other == name:
                yield from self._placed(held)

    # -- which orders

    def _candidates(self, own: Sequence[str]) -> Iterable[Sequence[str]]:
        """The orders to choose from: some variables as they are, and the others in turns."""
        rest = [n for n in self._free if n not in own]
        if len(self._free) <= ORDERS_MAX:
            return ([*own, *tail] for tail in permutations(rest))
        return chain.from_iterable(self._cheaply_begun(own, rest, tied) for tied in (True, False))

    def _cheaply_begun(self, own: Sequence[str], rest: Sequence[str], tied: bool) -> Iterator[tuple[str, ...]]:
        """JoinOrders grown one variable at a time, from the cheapest order of each set of variables, of few such sets.

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
            begun = [longer for one in cheapest for longer in self._longer(one, rest, tied)]
        return (one.names for one in begun)

    def _longer(self, begun: Begun, rest: Sequence[str], tied: bool) -> Iterator[Begun]:
        """The same with each variable that may come next."""
        left = [n for n in rest if n not in begun.names]
        holding = self._conjunction.holding
        near = {n for name in begun.names for a in holding[name] for n in a.names} if tied else set()
        for name in [n for n in left if n in near or (tied and self._is_pinned(n, begun.bound))] or left:
            placed = tuple(self._placed(name))
            operations, bindings, _ = zip(*self._levels(placed, begun.bound), strict=True)
            cost = begun.cost + begun.bindings * sum(operations) + self._turning(name, begun.bound)
            yield Begun((*begun.names, name), (*begun.bound, *placed), begun.bindings * bindings[-1], cost)

    # -- what they cost

    def _cost(self, order: Sequence[str]) -> float:
        """Estimated iterator operations: at each level, bindings so far times the smallest fan-out times tries.

        An index in another order than the relation's costs two passes: to build it, and to keep it.  Bindings that
        are projected are to be brought together on the way (see join/kernels/flat_join.py), or else merged in the end.
        """
        levels = list(self._levels(order))
        cost = sum(operations for operations, *_ in levels)
        level = {name: i for i, name in enumerate(order)}
        if len(level) == len({n for a in self._atoms for n in a.names if n is not None}):
            cost += 0 if self._collected(order) else MERGED * levels[-1][1]
            indices = {self._conjunction.index(a, level) for a in self._atoms}
            cost += sum(2 * self._distinct(i.predicate, i.order) for i in indices if list(i.order) != sorted(i.order))
        return cost

    def _sorting(self, cost: float, order: Sequence[str]) -> float:
        """What an order of this cost is charged for heads whose rows do not come sorted in it.

        There may be as many as the smallest fan-outs let through, since what is joined in cycles is seldom
        independent: a graph with 60 expected cliques has 30 million. That is a bound, so it counts for so much only.
        """
        level = {name: i for i, name in enumerate(order)}
        heads = [[level[v.name] for v in variables(head) if v.name in level] for head in self._conjunction.rule.heads]
        if all(levels == sorted(levels) for levels in heads):
            return 0.0
        most = prod(smallest for *_, smallest in self._levels(order))
        return min(MERGED * most, SORTED * cost)

    def _levels(self, order: Sequence[str], bound: Collection[str] = ()) -> Iterator[tuple[float, float, float]]:
        """(operations, bindings, smallest fan-out) at each level of an order, for each binding of those bound."""
        distinct = self._distinct
        bindings, bound = 1.0, {*bound}
        for name in order:
            fans, domains = [], []
            for a in self._conjunction.holding[name]:
                before = tuple(c for c, n in enumerate(a.names) if n in bound)
                here = (*before, a.names.index(name))
                below = distinct(a.atom.predicate, before) if before else 1.0
                fans.append(distinct(a.atom.predicate, tuple(sorted(here))) / max(below, 1.0))
                domains.append(distinct(a.atom.predicate, (a.names.index(name),)))
            bound.add(name)
            if name in self._equal or self._is_pinned(name, bound):
                fans, domains = [1.0, *fans], [max([1.0, *domains]), *domains]
            smallest = min(fans, default=1.0)
            operations = bindings * smallest * len(fans)
            bindings *= smallest
            for fan in sorted(fans)[1:]:
                bindings *= min(1.0, fan / max(max(domains), 1.0))
            yield operations, bindings, smallest

    def _is_pinned(self, name: str, bound: Collection[str]) -> bool:
        """Does a comparison leave a variable one value, or a few?"""
        return any(name in names and all(n in bound for n in names if n != name) for names in self._pinned)

    def _bindings(self, order: Sequence[str]) -> float:
        """Estimated bindings of the variables of an order."""
        return [bindings for _, bindings, _ in self._levels(order)][-1]

    def _turning(self, name: str, bound: Collection[str]) -> float:
        """What the indices cost that this variable, next in the order, is the first to ask for."""
        cost = 0.0
        for a in self._conjunction.holding[name]:
            names = [n for n in a.names if n is not None]
            known = sum(n in bound for n in names)
            if names[known] != name and all(n in bound for n in names[:known]):
                stored = self._conjunction.stored_keys[a.atom.predicate]
                cost += 2 * self._distinct(a.atom.predicate, tuple(range(stored)))
        return cost

    def _collected(self, order: Sequence[str]) -> bool:
        """Can every variable that the heads leave out be counted while the next one is collected?"""
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
