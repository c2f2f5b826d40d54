"""Plan a rule: the key order of each conjunction, and whether its deltas are matched or probed."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from math import prod
from typing import NamedTuple

from ivm.errors import ConstructError
from ivm.join.kernels.tries import EQ, GE, LE
from ivm.lang import ir
from ivm.lang.nulls import names_of_nulls
from ivm.names import is_membership, is_unread
from ivm.plan import costs
from ivm.plan.conjunction import ChoiceConjunction, Conjunction, ScanConjunction, used_once
from ivm.plan.join_order import JoinOrders
from ivm.plan.join_tree import is_linked, is_supported, lists_pairs, names_of_bound, opened
from ivm.plan.moves import moves_of, order_of
from ivm.plan.plan import Columns, Move, Plan, Rounds, Scan, Trie, Tries, Upkeep, Way, permuted
from ivm.plan.statistics import Distinct, Heavy, none_heavy
from ivm.terms.conditions import SAME, Choice, Filter, compared, is_sure
from ivm.terms.encoder import Encode
from pagestore.host import KEYS_MAX

AUTO, MATCH, PROBE = "auto", "match", "probe"
ONCE = "once"  # for a query: there will be no delta, so no sensitivity is recorded
IN_PLACE = "probed: all tries follow the key order, so no other index is needed"


class Chosen(NamedTuple):
    """The key orders chosen for a conjunction: for its plan, for each probe and then for moves;
    whether it is evaluated by columns.
    """

    plan: Sequence[str]
    probes: Sequence[Sequence[str]] = ()
    in_columns: bool = False


def chosen_of(plan: Plan) -> Chosen:
    """Return the key orders of a plan and its probes, to be saved."""
    return Chosen(
        plan.variables,
        [probe.variables for probe in plan.probes] + [*dict.fromkeys(map(order_of, plan.moves))],
        isinstance(plan.way, Columns),
    )


def keep_alike(plan: Plan, other: Plan) -> bool:
    """Return whether the same indices are kept for two plans, and hold the same."""
    return chosen_of(plan) == chosen_of(other) and plan.sensors == other.sensors


def make_plans(
    rule: ir.Rule,
    predicates: Mapping[str, ir.Predicate],
    stored_keys: Mapping[str, int],
    distinct: Distinct,
    encode: Encode,
    saved: Sequence[Chosen] = (),
    maintenance: str = AUTO,
    scans: bool = True,
    heavy: Heavy = none_heavy,
    searched: dict[Hashable, JoinOrders] | None = None,
) -> tuple[Plan, ...]:
    """Return a plan for each disjunct of a rule; `saved` holds the key orders chosen earlier, and
    `searched` the orders of bodies alike, which it adds to.

    `stored_keys` has the number of key words of each stored predicate; `maintenance` is MATCH,
    PROBE, AUTO for the cheaper of both, or ONCE. With `scans` a body of one relation is read in the
    order that it is stored in.  Raises ConstructError, with the place, for a literal that cannot be
    evaluated.
    """
    if rule.aggregates and ChoiceConjunction.joins(rule):  # see rewrite/aggregates.py
        return (
            ChoiceConjunction(rule, predicates, stored_keys, encode).scan(once=maintenance == ONCE),
        )

    def scan(disjunct: ir.Disjunct) -> Plan:
        return ScanConjunction(rule, disjunct, predicates, stored_keys, encode).scan(
            once=maintenance == ONCE
        )

    plans, merged = list[Plan](), None
    for disjunct in rule.body:
        if scans and ScanConjunction.applies(disjunct):
            merged = merged or _Scans(rule, predicates, scan)
            merged.add(disjunct, plans)
            continue
        conjunction = Conjunction(rule, disjunct, predicates, stored_keys, encode)
        if saved:
            chosen = saved[len(plans)]
            atoms = len(conjunction.atoms)
            orders = (tuple(order) for order in (chosen.plan, *chosen.probes[:atoms]))
            plan, *probes = map(cache(conjunction.plan), orders)
            _check_saved(probes)
            moved = {*map(tuple, chosen.probes[atoms:])}
            moves = _moves(conjunction, probes, lambda _: True) if moved else ()
            plan = replace(plan, moves=tuple(move for move in moves if order_of(move) in moved))
            tree = _as_tree(conjunction, plan) if chosen.in_columns else None
            plans.append((tree or plan).going(Columns if tree else Tries, "", (*probes,)))
        else:
            plans.append(_cheapest(conjunction, distinct, heavy, maintenance, searched))
    if merged:
        merged.merge(plans)
    return tuple(plans)


def _check_saved(probes: Sequence[Plan]) -> None:
    """Raise ValueError if a probe, whose order may have been damaged in a store, does not begin
    with its own trie.
    """
    for t, probe in enumerate(probes):
        levels, equal = probe.tries[t].levels, {b.level for b in probe.bounds if b.kind == EQ}
        if not equal.union(levels).issuperset(range(levels[-1] + 1)):
            raise ValueError(
                f"the order {', '.join(probe.variables)} does not begin with {probe.tries[t].text}"
            )


class _Alike(NamedTuple):
    """Conjunctions that read the same of one atom: the place of their plan, and the comparisons
    and nulls of each.
    """

    place: int
    options: list[list[ir.Compare]]
    nulls: list[frozenset[str]]


class _Scans:
    """Adds scans of one rule to its plans; those that differ by filters that cannot fail become
    one with choices.
    """

    def __init__(
        self,
        rule: ir.Rule,
        predicates: Mapping[str, ir.Predicate],
        scan: Callable[[ir.Disjunct], Plan],
    ) -> None:
        """`scan` returns the plan of a conjunction."""
        self._rule, self._predicates, self._scan = rule, predicates, scan
        self._alike = dict[object, _Alike]()
        literals = ir.literals_of(rule.body)
        self._names = {id(x): frozenset(v.name for v in ir.variables(x)) for x in literals}
        self._sure = {
            id(x) for x in literals if isinstance(x, ir.Compare) and is_sure(x, self._names[id(x)])
        }
        same = dict[ir.Atom, ir.Atom]()
        self._atoms = {id(x): same.setdefault(x, x) for x in literals if isinstance(x, ir.Atom)}
        self._unused = {id(x): used_once(rule, (x,), True, predicates) for x in same}

    def add(self, disjunct: ir.Disjunct, plans: list[Plan]) -> None:
        """Add the plan of a conjunction, or note that it is like that of another one."""
        atom = next(self._atoms[id(x)] for x in disjunct if isinstance(x, ir.Atom))
        compared = [x for x in disjunct if isinstance(x, ir.Compare)]
        names = frozenset().union(*(self._names[id(x)] for x in compared))
        if not all(id(x) in self._sure for x in compared) or not names <= self._names[id(atom)]:
            plans.append(self._scan(disjunct))
            return
        key = id(atom), names & self._unused[id(atom)]  # these are read
        if key not in self._alike:
            plans.append(self._scan(disjunct))
            if not isinstance(plans[-1].way, Scan):
                return
            self._alike[key] = _Alike(len(plans) - 1, [], [])
        self._alike[key].options.append(compared)
        if self._predicates[atom.predicate].nullable:
            self._alike[key].nulls.append(names_of_nulls(disjunct, self._predicates))

    def merge(self, plans: list[Plan]) -> None:
        """Make one plan of those that are alike."""
        for place, options, nulls in self._alike.values():
            if len(options) > 1:
                its = [one for one in plans[place].filters if one not in options[0]]  # of the atom
                filters = (*its, *_either(options))
                plans[place] = replace(
                    plans[place], filters=filters, nulls=frozenset().union(*nulls)
                )


def _either(options: Sequence[Sequence[ir.Compare]]) -> Iterator[Filter]:
    """Yield filters that hold where all of one option hold: those that all options have, and
    choices between others.
    """
    number = dict[ir.Compare, int]()
    numbers = {
        id(x): number.setdefault(x, len(number))
        for x in {id(x): x for x in chain(*options)}.values()
    }
    groups = [dict.fromkeys(numbers[id(x)] for x in option) for option in options]
    shared = set(groups[0]).intersection(*groups)
    one_of = [*number]
    yield from (one_of[n] for n in groups[0] if n in shared)
    left = [*dict.fromkeys(tuple(n for n in option if n not in shared) for option in groups)]
    if not all(left):
        return
    columns = [[*dict.fromkeys(column)] for column in zip(*left, strict=False)]
    # any of each column
    if {*map(len, left)} == {len(columns)} and prod(map(len, columns)) == len(left):
        yield from (Choice(tuple((one_of[n],) for n in column)) for column in columns)
    else:
        yield Choice(tuple(tuple(one_of[n] for n in option) for option in left))


class Recursive(NamedTuple):
    """The plans of a recursive stratum's rule: one per conjunction, and searches for other
    derivations of rows.
    """

    plans: tuple[Plan, ...]
    searches: tuple[Plan, ...]


def make_recursive_plans(
    rule: ir.Rule,
    predicates: Mapping[str, ir.Predicate],
    stored_keys: Mapping[str, int],
    distinct: Distinct,
    encode: Encode,
    recursive: frozenset[str],
    saved: Sequence[Chosen] = (),
    maintenance: str = AUTO,
    heavy: Heavy = none_heavy,
) -> Recursive:
    """Return the plans of a rule of a stratum with the views `recursive`; otherwise as
    `make_plans`.

    All deltas are probed, those of the stratum's own views in rounds. A search begins with the
    variables of the head. For ONCE there are neither probes of other relations nor searches.
    `saved` has the plans, then the searches.
    """
    plans, searches, once = [], [], maintenance == ONCE
    for i, disjunct in enumerate(rule.body):
        atoms = [x for x in disjunct if isinstance(x, ir.Atom) and x.predicate in recursive]
        body = (*atoms, *(x for x in disjunct if x not in atoms))
        (head,) = rule.heads
        conjunction = Conjunction(rule, body, predicates, stored_keys, encode, recursive)
        goal = ir.Atom(head.predicate, head.args, where=head.where) if rule.aggregates else head
        given = (goal, *_compared_with(goal, body, conjunction))
        search = Conjunction(rule, given, predicates, stored_keys, encode, recursive)
        if saved:
            orders, first = saved[i].probes, saved[len(rule.body) + i].plan if not once else ()
            plan = conjunction.plan(saved[i].plan)
        else:
            weighed = JoinOrders(conjunction, distinct, heavy)
            probed = len(atoms) if once else len(conjunction.atoms)
            orders = [weighed.below(t)[0] for t in range(probed)]
            first = () if once else JoinOrders(search, distinct, heavy).below(0)[0]
            plan = conjunction.plan(orders[0]) if atoms else conjunction.plan(*weighed.cheapest)
        probes = tuple(map(conjunction.plan, orders))
        choice = "probed, in rounds" if atoms else "probed, before the rounds"
        plans.append(plan.going(Rounds, choice, probes, once))
        if not once:
            searching = search.plan(first)
            searches.append(searching.going(Rounds, "", (searching,)))
    for plan in (*plans, *searches) if saved else ():
        _check_saved(plan.probes)
    return Recursive(tuple(plans), tuple(searches))


def _compared_with(goal: ir.Atom, body: ir.Disjunct, conjunction: Conjunction) -> ir.Disjunct:
    """Return a body for a search, where the goal gives variables that the body computes and
    compares both.

    Where a computed value is null the goal's is null, too, and equations hold of values alone.
    """
    given = {v.name for v in ir.variables(goal)} & conjunction.nulls
    computed = {(name, term) for name, term in conjunction.computed if name in given}

    def same(literal: ir.Literal) -> ir.Literal:
        if not isinstance(literal, ir.Compare) or literal.op != "=":
            return literal
        sides = (literal.left, literal.right), (literal.right, literal.left)
        is_computed = any(
            isinstance(side, ir.Var) and (side.name, other) in computed for side, other in sides
        )
        return replace(literal, op=SAME) if is_computed else literal

    return tuple(map(same, body))


def _cheapest(
    conjunction: Conjunction,
    distinct: Distinct,
    heavy: Heavy,
    maintenance: str,
    searched: dict[Hashable, JoinOrders] | None,
) -> Plan:
    """Return the cheapest plan, how it is maintained, and how many rows each step is to find."""
    orders = JoinOrders(conjunction, distinct, heavy, maintenance == ONCE)
    if searched is not None:
        orders = searched.setdefault(orders.basis, orders)
    plan = _chosen(conjunction, orders, distinct, maintenance)
    estimates = orders.bindings([name for name in plan.variables if not is_unread(name)])
    if isinstance(plan.way, Columns):
        positive = [a.atom.predicate for a in conjunction.atoms if not a.negated]
        estimates = (*map(orders.rows, positive), estimates[-1])
    return replace(plan, estimates=estimates)


def _chosen(
    conjunction: Conjunction, orders: JoinOrders, distinct: Distinct, maintenance: str
) -> Plan:
    """Return the cheapest plan, with the choice of its maintenance.

    Probing costs about one operation per binding of a changed row, in one version, and stores no
    trace.  So AUTO chooses matching only if it is cheaper even with a trace that is much longer
    than estimated.
    """
    if maintenance != MATCH and (
        planned := _in_columns(conjunction, orders, distinct, maintenance)
    ):
        return planned
    plan = conjunction.plan(*orders.cheapest)
    once = maintenance == ONCE
    linked = _is_found_by_links(conjunction, plan.going(Tries, "", once=once), orders, distinct)
    way = Columns if linked else Tries
    if once:
        return plan.going(way, "evaluated once", once=True)
    columns = max((len(sensor.columns) for sensor in plan.sensors), default=0)
    if maintenance == MATCH and columns > KEYS_MAX:
        raise ConstructError(
            conjunction.rule.where,
            f"matching keeps intervals with {columns} columns of {len(plan.variables)} variables, "
            f"and a key has "
            f'at most {KEYS_MAX}; install it with maintenance="probe", or derive a part of it as a '
            f"view of its own",
        )
    if maintenance == AUTO and not plan.sensors:
        return _in_place(conjunction, plan, way)
    probed, each = zip(*map(orders.below, range(len(plan.tries))), strict=True)
    probes = tuple(map(conjunction.plan, probed))
    plan = replace(plan, pace=orders.pace(probed))
    if maintenance == MATCH:
        return plan.going(Tries, "matched, as requested")
    moving = replace(plan, moves=_moves(conjunction, probes, _lone(distinct)))
    if maintenance == PROBE:
        return moving.going(way, "probed, as requested", probes)
    matching, moved = _matching(plan, distinct), {move.trie for move in moving.moves}
    probing = sum(operations for t, operations in enumerate(each) if t not in moved)
    figures = f"about {matching:,.0f} operations a row by matching, {probing:,.0f} by probing"
    if columns > KEYS_MAX or probing <= costs.CORRELATED ** (len(plan.variables) - 1) * matching:
        return moving.going(way, f"probed: {figures}", probes)
    return plan.going(Tries, f"matched: {figures}")


def _lone(distinct: Distinct) -> Callable[[Trie], bool]:
    """Return what tells whether the relation of a trie has one row."""
    return lambda trie: distinct(trie.index.predicate, trie.index.order) <= 1


def _moves(
    conjunction: Conjunction, probes: Sequence[Plan], is_lone: Callable[[Trie], bool]
) -> tuple[Move, ...]:
    """Return the moves of a conjunction, given its probes."""
    if not any(bound.others for bound in probes[0].bounds):
        return ()
    needed = {v.name for v in ir.variables(*compared(probes[0].filters))}
    return (*moves_of(conjunction, probes, needed | _needed(conjunction, probes[0]), is_lone),)


def _in_place(conjunction: Conjunction, plan: Plan, way: type[Way]) -> Plan:
    """Return a plan all of whose tries follow the key order: each begins with the first variables,
    so it is a probe of every one of them.
    """
    probe = conjunction.plan(plan.variables)
    return plan.going(way, IN_PLACE, (probe,) * len(plan.tries))


def _in_columns(
    conjunction: Conjunction, orders: JoinOrders, distinct: Distinct, maintenance: str
) -> Plan | None:
    """Return the plan of a conjunction that is evaluated by columns; None if its join is better.

    A range with two ends that depends on another relation is sought by the join, and columns would
    be filtered by it only after all that is equal is paired.  Constants may leave a query little to
    read, and a membership any rule.
    """
    positive = [t for t, a in enumerate(conjunction.atoms) if not a.negated]
    ways = {t: orders.nearest(t) for t in positive[: None if maintenance != ONCE else 1]}
    laid = cache(conjunction.plan)  # atoms of the same variables share one
    begun = {t: laid(conjunction.in_own_order(order, t)) for t, order in ways.items()}
    plans = [*dict.fromkeys(begun.values())]
    if not (tree := _as_tree(conjunction, plans[0])):
        return None
    if tree.apart:
        plans = [replace(plan, apart=tree.apart) for plan in plans]
    ranges = Counter(b.level for b in plans[0].bounds if b.others and b.kind in (GE, LE))
    if (
        max(ranges.values(), default=0) > 1
        or any(not plans[0].nulls.isdisjoint(names_of_bound(plans[0], b)) for b in plans[0].bounds)
        or is_linked(plans[0])
    ):
        return None
    flat = not plans[0].reads and len(positive) == len(conjunction.atoms) == 2
    if flat and _lists_pairs(conjunction, plans[0]):
        return None  # flat tries list the pairs of two relations faster
    once = maintenance == ONCE
    first = plans[0].going(Columns, "evaluated once", once=once)
    if _reads_little(first, orders, distinct):
        return None
    if once:
        return first
    sizes = {a.atom.predicate: conjunction.stored_keys[a.atom.predicate] for a in conjunction.atoms}
    held = {name: distinct(name, (*range(keys),)) for name, keys in sizes.items()}
    kept = [sum(held[t.index.predicate] for t in plan.tries if permuted(t.index)) for plan in plans]
    # for it indices are kept
    least = [plan for plan, rows in zip(plans, kept, strict=True) if rows == min(kept)]
    plan = min(least, key=lambda one: len(one.sensors)) if len(least) > 1 else least[0]
    if maintenance == AUTO and not plan.sensors:
        return _in_place(conjunction, plan, Columns)
    for t in range(len(plan.tries)):
        ways[t] = ways.get(t) or orders.nearest(t)
        begun[t] = begun.get(t) or laid(conjunction.in_own_order(ways[t], t))
    choice = (
        "probed, as requested" if maintenance == PROBE else "probed, from each atom to the nearest"
    )
    probes = tuple(begun[t] for t in range(len(begun)))
    pace = orders.pace([ways[t] for t in range(len(ways))])
    moves = _moves(conjunction, probes, _lone(distinct))
    return replace(plan, pace=pace, moves=moves).going(Columns, choice, probes)


def _as_tree(conjunction: Conjunction, plan: Plan) -> Plan | None:
    """Return a plan whose relations are a join tree, if need be with its cycle opened; else None."""
    if is_supported(plan):
        return plan
    return opened(plan, conjunction.stored_keys, _needed(conjunction, plan))


def _is_found_by_links(
    conjunction: Conjunction, plan: Plan, orders: JoinOrders, distinct: Distinct
) -> bool:
    """Return whether some relations of a plan share no variable, and its bindings are found by
    ranges, or counted.
    """
    if not is_supported(plan) or not is_linked(plan) or _reads_little(plan, orders, distinct):
        return False
    return not (is_linked(plan, ranges=True) and _lists_pairs(conjunction, plan))


def _lists_pairs(conjunction: Conjunction, plan: Plan) -> bool:
    """Return whether keys lead to several rows; those of functions do not, though these may be
    stored with their values, to find two of one key.
    """
    stored, atoms = conjunction.stored_keys, (a.atom for a in conjunction.atoms)
    keys = {a.predicate: min(stored[a.predicate], len(a.args)) for a in atoms}
    return lists_pairs(plan, keys, _needed(conjunction, plan))


def _needed(conjunction: Conjunction, plan: Plan) -> frozenset[str]:
    """Return the variables from which the heads follow."""
    rule = conjunction.rule
    return frozenset(
        v.name
        for v in ir.variables(*rule.heads, *rule.aggregates, *(term for _, term in plan.computed))
    )


def _reads_little(plan: Plan, orders: JoinOrders, distinct: Distinct) -> bool:
    """Return whether constants of a query, or memberships, leave a join less to do than passing
    over the relations.
    """
    few = any(is_membership(trie.index.predicate) for trie in plan.tries)
    constant = plan.way.upkeep is Upkeep.NEVER and any(
        b.kind == EQ and not b.others for b in plan.bounds
    )
    rows = sum(distinct(trie.index.predicate, trie.index.order) for trie in plan.tries)
    return (few or constant) and orders.beats(rows / costs.COLUMN_ROWS)


def _matching(plan: Plan, distinct: Distinct) -> float:
    """Estimate the operations of matching one changed row of each trie that has sensors.

    A row matches about (trace rows / rows) intervals; for each match, both versions are joined at
    all levels and the interval is renewed.
    """
    per_match = 2 * len(plan.variables) + costs.RENEWAL_OPERATIONS
    tries = [plan.tries[t] for t in {sensor.trie for sensor in plan.sensors}]
    rows = [max(1.0, distinct(trie.index.predicate, trie.index.order)) for trie in tries]
    return sum(per_match * plan.cost / len(plan.tries) / n for n in rows)
