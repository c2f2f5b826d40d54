"""Aggregates over the rows in a range of each row: seeks and range folds in place of a join of rows with rows.

    nx[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.                     the first record of a behind x

    peak[d] = n <- agg<<n = max(v)>> day(d), sale(e, v), e <= d, e > d - 7.
    peak$folds0[e] = n <- agg<<n = max(v)>> sale(e, v).
    peak[d] = n <- agg<<n = max(s)>> day(d), peak$folds0[e] = s, e <= d, e > d - 7.        a fold of a range of records

    week[d] = n <- agg<<n = sum(v)>> day(d), sale(e, v), e <= d, e > d - 7.
    week$parts0[place, e] = n <- agg<<(place, n) = $parts(v)>> sale(e, v).                 parts by place (exact_sum.py)
    week[d] = n <- agg<<n = sum(s)>> day(d), week$parts0[_, e] = s, e <= d, e > d - 7.     a fold for each place

A rule is so rewritten if its conjunction falls into two parts: *points*, which hold the keys of the head, and what is
*measured*, which holds the argument.  They may share variables, the group, and are else tied only by comparisons of one
variable of each.  Its state is of the size of the parts, where the join has a row for each pair.  If the keys do not
tell points apart, the rule aggregates once more:

    pairs[] = n <- agg<<n = count()>> a(x), a(z), z > x.
    pairs$range0[x] = n <- agg<<n = count()>> a(x), a(z), z > x.
    pairs[] = n <- agg<<n = sum(m)>> a(x), pairs$range0[x] = m.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from itertools import permutations
from typing import NamedTuple

from ivm.join.kernels.join_layout import GE
from ivm.lang.aggregate import MOMENTS, PARTED, SQUARED, result_types
from ivm.lang.ir import (
    MIRRORED,
    Aggregate,
    Atom,
    Compare,
    Const,
    Disjunct,
    Literal,
    Predicate,
    Range,
    Rule,
    Type,
    Var,
)
from ivm.lang.neighbours import is_neighbour
from ivm.lang.traverse import variables
from ivm.lang.types import TEXTS
from ivm.plan.constants import Encode
from ivm.plan.expression import may_fail
from ivm.plan.join_order import Distinct
from ivm.plan.linear import FAR, KINDS, Linear, linear
from pagestore.host import KEYS_MAX, is_operator, is_semilattice

KeysOf = Callable[[str], int]  # how many of a predicate's columns tell its rows apart
Pays = Callable[[Disjunct, Disjunct], bool]  # of points and what is measured
FEW_POINTS = 64  # with fewer by this factor than there are rows to measure, a question is a join
FOLDS = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}  # what an operation folds by, over its own results
REPEATED = ("count", "sum", "total", "variance", "stddev")  # and operators of users
PARTED_BY = ("sum", "total", *MOMENTS)  # what follows from parts that add up
FIRST = ("min", "argmin", "first")  # what is found by seeking, if it orders by the key of the range
LAST = ("max", "argmax", "last")


class Parts(NamedTuple):
    """A conjunction in two parts, the comparisons between them, and the range that these say."""

    points: Disjunct
    measured: Disjunct
    links: tuple[Compare, ...]
    point: Var
    key: Var
    group: tuple[Var, ...]
    low: int | None
    high: int | None


def lift_ranges(
    rule: Rule,
    predicates: dict[str, Predicate],
    keys_of: KeysOf,
    encode: Encode,
    recursive: Container[str],
    pays: Pays | None = None,
) -> Iterator[Rule]:
    """The rule, or for aggregates over ranges rules that are evaluated by ranges, after their helpers.

    Adds the helpers to `predicates`.  Views in `recursive` are left to their rounds.  `pays` says for what is evaluated
    once whether so many points are worth the helpers.
    """
    is_other = not rule.aggregates or any(head.predicate in recursive for head in rule.heads)
    if is_other or len(rule.body) != 1 or may_fail(rule.body[0], set(), rule.types):
        yield rule
        return
    rewriting = _Rewriting(rule, predicates, keys_of, pays)
    left = []
    for head, aggregate in zip(rule.heads, rule.aggregates, strict=True):
        made = rewriting.ranged(head, aggregate, encode)
        if made:
            yield from made
        else:
            left.append((head, aggregate))
    if left:
        heads, aggregates = zip(*left, strict=True)
        yield replace(rule, heads=heads, aggregates=aggregates)


class _Rewriting:
    """Rewrites the aggregates of one rule; helpers of the same body are shared."""

    def __init__(self, rule: Rule, predicates: dict[str, Predicate], keys_of: KeysOf, pays: Pays | None) -> None:
        self._rule, self._predicates, self._keys_of, self._pays = rule, predicates, keys_of, pays
        self._known: dict[object, Atom] = {}

    def ranged(self, head: Atom, aggregate: Aggregate, encode: Encode) -> list[Rule]:
        """The rules for one aggregate; none if it is not over a range."""
        parts = self._parts(head, aggregate, encode)
        if parts is None or (self._pays and not is_neighbour(head.predicate) and not self._pays(*parts[:2])):
            return []
        keys, core = {*variables(*head.args)}, (*parts.group, parts.point)
        once = self._tells_apart(parts.points, keys)  # else a key's points count several times
        if (keys == {*core} and (once or not _is_repeated(aggregate.op))) or (once and keys):
            return self._rules(head, aggregate, parts, keys != {*core})
        if aggregate.op not in FOLDS:
            return []
        result = Var(f"{aggregate.result.name}$", where=aggregate.where)
        inner = Atom(self._name("range"), core, result, where=head.where)
        types = self._rule.types
        self._define(inner, {**types, result.name: types[aggregate.result.name]})
        folded = Aggregate(FOLDS[aggregate.op], aggregate.result, (result,), where=aggregate.where)
        outer = replace(
            self._rule,
            heads=(head,),
            aggregates=(folded,),
            body=((*parts.points, inner),),
            types={**types, result.name: types[aggregate.result.name]},
        )
        return [*self._rules(inner, replace(aggregate, result=result), parts, False), outer]

    # -- what is a range

    def _parts(self, head: Atom, aggregate: Aggregate, encode: Encode) -> Parts | None:
        """The parts of the body; None if it is not of that form, or the aggregate is of another kind."""
        taken = aggregate.arguments
        if not is_operator(aggregate.op) and (
            aggregate.op not in (*FOLDS, *FIRST, *LAST, *PARTED_BY) or len(taken) > 2
        ):
            return None
        forms = {x: form for x in self._rule.body[0] if (form := self._link(x, encode))}
        keys = variables(*head.args)
        ends = dict.fromkeys(pair for form in forms.values() for pair in permutations(map(Var, form.times)))
        found = (self._split(forms, point, key, keys) for point, key in ends)
        for parts in found:
            if parts is None:
                continue
            points, measured = ({v for x in part for v in variables(x)} for part in parts[:2])
            own = taken[:1] if is_operator(aggregate.op) else taken
            if {*keys} <= points and {*own} <= measured - points and self._is_kept(aggregate, parts):
                return parts
        return None

    def _link(self, literal: Literal, encode: Encode) -> Linear | None:
        """A comparison as a sum, if it may bound a range."""
        if not isinstance(literal, Compare) or literal.op in ("=", "!="):
            return None
        form = linear(literal, self._rule.types, encode)
        opposite = form is not None and sorted(form.times.values()) == [-1, 1]
        return form if opposite and form and abs(form.constant) < FAR else None

    def _is_kept(self, aggregate: Aggregate, parts: Parts) -> bool:
        """Can a range of one tree say what the aggregate is?"""
        taken = aggregate.arguments
        if len(parts.group) + 3 > KEYS_MAX // 2:
            return False
        if is_operator(aggregate.op):
            return not aggregate.by or _order_within(aggregate, parts)[:1] == (parts.key,)
        if aggregate.by:
            return taken[1:] == (parts.key,) and taken[0] != parts.key
        return aggregate.op in FOLDS or aggregate.op in PARTED_BY

    def _split(self, forms: Mapping[Literal, Linear], point: Var, key: Var, keys: tuple[Var, ...]) -> Parts | None:
        """The parts of the body, given which variables are compared, and which are the head's keys."""
        links = [x for x, form in forms.items() if {*form.times} == {point.name, key.name}]
        literals = [x for x in self._rule.body[0] if x not in links]
        sides = _sides([x for x in literals if isinstance(x, Atom)], {point, *keys}, key)
        if sides is None:
            return None
        bound = [{v for x in side for v in variables(x)} for side in sides]
        for x in literals:
            if not isinstance(x, Atom):
                side = next((s for s in (0, 1) if bound[s].issuperset(variables(x))), None)
                if side is None:
                    return None
                sides[side].append(x)
        if key in bound[0] or point in bound[1]:
            return None
        group = tuple(v for v in variables(*sides[1]) if v in bound[0])
        low, high = _ends([forms[x] for x in links], key)
        ordered = [tuple(x for x in literals if x in side) for side in sides]
        comparisons = tuple(x for x in links if isinstance(x, Compare))
        return Parts(ordered[0], ordered[1], comparisons, point, key, group, low, high)

    def _tells_apart(self, part: Disjunct, keys: set[Var]) -> bool:
        """Do these variables tell the bindings of a part apart?"""
        bound = {v for x in part for v in variables(x)}
        if keys == bound:
            return True
        if sum(isinstance(x, Atom) for x in part) != 1:
            return False
        (atom,) = (x for x in part if isinstance(x, Atom))
        own = {*variables(*atom.terms[: self._keys_of(atom.predicate)])}
        return own <= keys and bound <= {*variables(atom)}

    # -- the rules

    def _rules(self, head: Atom, aggregate: Aggregate, parts: Parts, whole: bool) -> list[Rule]:
        """The rule that is evaluated by ranges, after the helpers that it reads."""
        helpers: list[Rule] = []
        core = (*parts.group, parts.point)
        told = tuple(v for v in variables(*head.args) if v not in core) if whole else ()
        points = self._part(parts.points, (*core, *told), "points", helpers, len(core))
        types = {**self._rule.types, aggregate.result.name: self._rule.types[self._result_of(aggregate)]}
        taken, known = aggregate.arguments, (*parts.group, parts.key)
        if taken == (parts.key,) and aggregate.op in ("min", "max"):
            measured = self._part(parts.measured, known, "from", helpers)
        elif aggregate.op in (*FIRST, *LAST) and self._is_sought(aggregate, parts):
            least = len(known) + (not self._tells_apart(parts.measured, {*known}))
            measured = self._part(parts.measured, (*known, taken[0]), "from", helpers, least)
        elif aggregate.op in PARTED_BY:
            measured, folded = self._parted(aggregate, parts, helpers)
            types[folded.name] = types[taken[0].name]  # what its parts add up to
            aggregate = replace(aggregate, arguments=(folded,))
        else:
            measured, folded = self._folded(_within_key(aggregate, parts), parts, helpers, types)
            aggregate = replace(aggregate, arguments=(folded, *(taken[1:] if aggregate.op in (*FIRST, *LAST) else ())))
        span = Range(parts.point, parts.key, parts.group, parts.low, parts.high, whole)
        body: Disjunct = (points, measured, *parts.links)
        return [
            *helpers,
            replace(self._rule, heads=(head,), aggregates=(aggregate,), body=(body,), types=types, range=span),
        ]

    def _is_sought(self, aggregate: Aggregate, parts: Parts) -> bool:
        """Is what is taken that of the first or the last record?  Of several with one key, texts would be compared."""
        (taken, *by), known = aggregate.arguments, {*parts.group, parts.key}
        return bool(by) and (self._rule.types[taken.name] not in TEXTS or self._tells_apart(parts.measured, known))

    def _result_of(self, aggregate: Aggregate) -> str:
        return aggregate.result.name.removesuffix("$")

    def _part(self, part: Disjunct, columns: tuple[Var, ...], kind: str, helpers: list[Rule], least: int = 0) -> Atom:
        """The atom that is a part, or one of a helper that has these columns, of which the first `least` come first."""
        if len(part) == 1 and self._serves(part[0], columns[:least] or columns):
            (atom,) = part
            assert isinstance(atom, Atom)
            return atom
        if (part, columns) not in self._known:
            atom = Atom(self._name(kind), columns, where=self._rule.where)
            self._define(atom, self._rule.types)
            helpers.append(replace(self._rule, heads=(atom,), aggregates=(), body=(part,)))
            self._known[part, columns] = atom
        return self._known[part, columns]

    def _serves(self, literal: Literal, columns: tuple[Var, ...]) -> bool:
        """Is there an index of a relation, or the relation itself, that is in the order of these columns?"""
        if not isinstance(literal, Atom) or len({*literal.terms}) < len(literal.terms):
            return False
        if not all(isinstance(term, Var) for term in literal.terms):
            return False
        own = self._keys_of(literal.predicate)
        in_front = literal.terms[: len(columns)] == columns
        return len(literal.terms) <= KEYS_MAX // 2 and not (in_front and len(columns) > own)

    def _folded(
        self, aggregate: Aggregate, parts: Parts, helpers: list[Rule], types: dict[str, Type]
    ) -> tuple[Atom, Var]:
        """The atom of a helper that aggregates what is measured for each key of the range, and its value.

        Adds the type of this.
        """
        value = Var("folded$", where=aggregate.where)
        folded = replace(aggregate, result=value)
        types |= result_types(folded, self._rule.types)
        head = self._helper("folds", (*parts.group, parts.key), value, folded, parts, helpers, {**types})
        return head, value

    def _parted(self, aggregate: Aggregate, parts: Parts, helpers: list[Rule]) -> tuple[Atom, Var]:
        """The atom of a helper that has the parts of what is measured, by place and by key of the range.

        It carries what any aggregate of the rule needs of these summands.
        """
        place, value = (Var(name, where=aggregate.where) for name in ("place$", "folded$"))
        ops = [one.op for one in self._rule.aggregates if one.arguments == aggregate.arguments]
        kept = (any(op in SQUARED for op in ops), any(op in MOMENTS for op in ops))
        constants = tuple(Const(one, "bool", where=aggregate.where) for one in kept)
        parted = replace(aggregate, op=PARTED, result=value, constants=constants, place=place)
        types = {**self._rule.types, place.name: "int64", value.name: "int64"}
        head = self._helper("parts", (*parts.group, place, parts.key), value, parted, parts, helpers, types)
        return head, value

    def _helper(
        self, kind: str, keys: tuple[Var, ...], value: Var, aggregate: Aggregate, parts: Parts, helpers: list[Rule],
        types: dict[str, Type],
    ) -> Atom:  # fmt: skip
        """The head of a rule that aggregates what is measured, which is made unless there is one."""
        known = (parts.measured, keys, aggregate.op, aggregate.arguments, value)
        if known not in self._known:
            atom = Atom(self._name(kind), keys, value, where=self._rule.where)
            self._define(atom, types)
            helpers.append(
                replace(self._rule, heads=(atom,), aggregates=(aggregate,), body=(parts.measured,), types=types)
            )
            self._known[known] = atom
        return self._known[known]

    def _name(self, kind: str) -> str:
        name = f"{self._rule.heads[0].predicate}${kind}"
        return f"{name}{sum(f'${kind}' in known for known in self._predicates)}"

    def _define(self, atom: Atom, known: Mapping[str, Type]) -> None:
        names = [v.name for v in variables(*atom.args)]
        types = tuple(known[name] for name in names)
        value = known[atom.value.name] if isinstance(atom.value, Var) else None
        columns = (*names, "folded$") if value else (*names,)
        self._predicates[atom.predicate] = Predicate(atom.predicate, types, value, False, columns, where=atom.where)


def pays_once(distinct: Distinct, points: Disjunct, measured: Disjunct) -> bool:
    """Are there enough points for a question to make helpers of all that is measured?  Else it joins the few."""
    return FEW_POINTS * _rows(distinct, points) >= _rows(distinct, measured)


def _rows(distinct: Distinct, part: Disjunct) -> float:
    """About how many rows a part has at most: those of its smallest atom, or few where a constant is asked for."""
    asked = [x for x in part if isinstance(x, Compare) and x.op == "=" and isinstance(x.right, Const)]
    held = [x for x in part if isinstance(x, Atom)]
    if asked or any(isinstance(term, Const) for x in held for term in x.terms):
        return 1.0
    return min(distinct(x.predicate, tuple(range(len(x.terms)))) for x in held)


def _is_repeated(op: str) -> bool:
    """Does an aggregate change if each assignment is there twice?"""
    return op in REPEATED or (is_operator(op) and not is_semilattice(op))


def _within_key(aggregate: Aggregate, parts: Parts) -> Aggregate:
    """What is aggregated of the assignments that have one key of the range."""
    op, (taken, *order) = aggregate.op, aggregate.arguments or (None,)
    if is_operator(op):
        assert taken
        rest = _order_within(aggregate, parts)[1:]
        return replace(aggregate, arguments=(taken, *rest), by=len(rest))
    if order:
        op = "min" if op in FIRST else "max"
    return replace(aggregate, op=op, arguments=aggregate.arguments[:1], by=0)


def _order_within(aggregate: Aggregate, parts: Parts) -> tuple[Var, ...]:
    """The variables that an aggregate is ordered by and that differ among the assignments of a point."""
    same = {*parts.group, *(v for x in parts.points for v in variables(x))}
    return tuple(v for v in aggregate.arguments[len(aggregate.arguments) - aggregate.by :] if v not in same)


def _sides(atoms: list[Atom], points: set[Var], key: Var) -> list[list[Literal]] | None:
    """The atoms of points and those that are measured; None if some belong to both."""
    measured = [x for x in atoms if key in variables(x)]
    sides = [[x for x in atoms if x not in measured and not points.isdisjoint(variables(x))], measured]
    waiting = [x for x in atoms if x not in sides[0] and x not in measured]
    if not all(sides):
        return None
    while waiting:
        bound = [{v for x in side for v in variables(x)} for side in sides]
        own = [bound[0] - bound[1], bound[1] - bound[0]]
        tied = [(x, [not s.isdisjoint(variables(x)) for s in own]) for x in waiting]
        if any(all(sides_of) for _, sides_of in tied):
            return None
        x, side = next(((x, s.index(True)) for x, s in tied if any(s)), (waiting[0], 0))
        sides[side].append(x)
        waiting.remove(x)
    return [[*side] for side in sides]


def _ends(forms: list[Linear], key: Var) -> tuple[int | None, int | None]:
    """The range of the key less the point, in words, that comparisons leave."""
    lows: list[int] = []
    highs: list[int] = []
    for form in forms:
        sign = form.times[key.name]
        kind, shift = KINDS[form.op if sign > 0 else MIRRORED[form.op]]
        (lows if kind == GE else highs).append(shift - sign * form.constant)
    return max(lows, default=None), min(highs, default=None)
