"""Rewrite aggregates over a range of rows for each row: use seeks and range folds instead of a
join.

    nx[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.                     the first record of a after x

    peak[d] = n <- agg<<n = max(v)>> day(d), sale(e, v), e <= d, e > d - 7.
    peak$folds0[e] = n <- agg<<n = max(v)>> sale(e, v).
    peak[d] = n <- agg<<n = max(s)>> day(d), peak$folds0[e] = s, e <= d, e > d - 7.        a fold of a range of records

    week[d] = n <- agg<<n = sum(v)>> day(d), sale(e, v), e <= d, e > d - 7.
    week$parts0[place, e] = n <- agg<<(place, n) = $parts(v)>> sale(e, v).                 parts by place (exact_sum.py)
    week[d] = n <- agg<<n = sum(s)>> day(d), week$parts0[_, e] = s, e <= d, e > d - 7.     a fold for each place

A rule is rewritten if its conjunction has two parts: *points*, which hold the keys of the head, and
a *measured* part, which holds the argument.  They may share variables, the group, and are otherwise
connected only by comparisons of one variable of each.  The state has the size of the parts, while
the join has a row for each pair.  If the keys do not identify points, the rule aggregates once
more:

    pairs[] = n <- agg<<n = count()>> a(x), a(z), z > x.
    pairs$range0[x] = n <- agg<<n = count()>> a(x), a(z), z > x.
    pairs[] = n <- agg<<n = sum(m)>> a(x), pairs$range0[x] = m.

What comes before a row, or after it, in the order of several columns is such a range, too, of which
the last or the first record is sought.  Points and measured records are then of one relation:

    near[k] = l <- agg<<l = argmax(m, b, m)>> r[k] = (p, a), r[m] = (p, b),
        if[b = a, m < k, b < a] = true.

The evaluation form of a range aggregate: the indices of points and of measured records, and the
words it uses.

peak[d] = n <- agg<<n = max(s)>> day(d), peak$folds0[e] = s, e <= d, e > d - 7.

points     day             group and point are the first words
measured   peak$folds0     group and key are the first words; a range goes from point + low to point + high
           week$parts0     group, place and key are the first words, if parts are added up
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import NamedTuple

from ivm.join.kernels.tries import GE
from ivm.lang.aggregate import MEANS, PARTED, SQUARED, result_types
from ivm.lang.columns import is_neighbour
from ivm.lang.ir import (
    MIRRORED,
    Aggregate,
    Atom,
    Call,
    Compare,
    Const,
    Disjunct,
    Literal,
    Predicate,
    Range,
    Rule,
    Term,
    Type,
    Var,
    variables,
)
from ivm.lang.program import Program, recursive_names
from ivm.lang.types import has_ids
from ivm.names import plain_result
from ivm.plan.linear import FAR, KINDS, Linear, linear
from ivm.plan.plan import Index, permuted
from ivm.plan.statistics import Distinct
from ivm.terms.encoder import Encode
from ivm.terms.evaluator import may_fail
from pagestore.host import KEYS_MAX, is_operator, is_semilattice

TRUE = Const(True, "bool")
Keys = Mapping[str, int]  # how many of a predicate's first columns identify its rows
FEW_POINTS = 64  # if measured rows exceed points by this factor, a query uses a join
# how results of an operation are combined
FOLDS = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
REPEATED = ("count", "sum", "total", "variance", "stddev")  # and users' operators
PARTED_BY = ("sum", "total", *MEANS)  # computed from parts that add up
FIRST = ("min", "argmin", "first")  # found by a seek, if ordered by the key of the range
LAST = ("max", "argmax", "last")


class Parts(NamedTuple):
    """A conjunction in two parts, the comparisons between them, and the range that these define."""

    points: Disjunct
    measured: Disjunct
    links: tuple[Compare, ...]
    point: Var
    key: Var
    group: tuple[Var, ...]
    low: int | None
    high: int | None
    ties: tuple[tuple[Var, Var], ...] = ()


def lift_ranges(
    program: Program,
    keys: Keys,
    encode: Encode,
    distinct: Distinct | None = None,
    ordered: bool = True,
) -> Program:
    """Replace aggregates over ranges by helpers and rules that are evaluated by ranges, also over
    rows in the order of several columns if `ordered`.

    Recursive views are not changed. For a query, `distinct` decides whether the number of points is
    worth the helpers.
    """
    recursive, predicates = recursive_names(program.rules), dict(program.predicates)
    rules = list[Rule]()
    for rule in program.rules:
        rewriting = _Rewriting(rule, predicates, keys, distinct, ordered)
        rules += _lifted(rule, rewriting, encode, recursive)
    return replace(program, predicates=predicates, rules=tuple(rules))


def _lifted(
    rule: Rule, rewriting: "_Rewriting", encode: Encode, recursive: Container[str]
) -> Iterator[Rule]:
    is_other = not rule.aggregates or any(head.predicate in recursive for head in rule.heads)
    if is_other or len(rule.body) != 1 or may_fail(rule.body[0], set(), rule.types):
        yield rule
        return
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


@dataclass
class _Rewriting:
    """Rewrites the aggregates of one rule; helpers of the same body are shared."""

    _rule: Rule
    _predicates: dict[str, Predicate]
    _keys: Keys
    _distinct: Distinct | None
    _ordered: bool
    _known: dict[object, Atom] = field(default_factory=dict)

    def ranged(self, head: Atom, aggregate: Aggregate, encode: Encode) -> list[Rule]:
        """Return the rules for one aggregate; none if it is not over a range."""
        parts = self._parts(head, aggregate, encode) or self._in_order(head, aggregate)
        if parts is None:
            return []
        if (
            self._distinct
            and not is_neighbour(head.predicate)
            and not _pays_once(self._distinct, parts)
        ):
            return []
        keys, core = {*variables(*head.args)}, (*parts.group, parts.point)
        once = self._tells_apart(parts.points, keys)  # else several points of a key count
        if (keys == {*core} and (once or not _is_repeated(aggregate.op))) or (once and keys):
            return self._rules(head, aggregate, parts, keys != {*core})
        if aggregate.op not in FOLDS:
            return []
        result = Var(f"{aggregate.result.name}$", where=aggregate.where)
        inner = Atom(self._name("range"), core, result, where=head.where)
        types = self._rule.types
        self._define(inner, {**types, result.name: types[aggregate.result.name]})
        folded = replace(aggregate, op=FOLDS[aggregate.op], arguments=(result,))
        outer = replace(
            self._rule,
            heads=(head,),
            aggregates=(folded,),
            body=((*parts.points, inner),),
            types={**types, result.name: types[aggregate.result.name]},
        )
        return [
            *self._rules(inner, replace(aggregate, result=result, absent=None), parts, False),
            outer,
        ]

    # -- recognition of ranges

    def _parts(self, head: Atom, aggregate: Aggregate, encode: Encode) -> Parts | None:
        """Return the parts of the body; None if it does not have that form, or for another kind
        of aggregate.
        """
        taken = aggregate.arguments
        if not is_operator(aggregate.op) and (
            aggregate.op not in (*FOLDS, *FIRST, *LAST, *PARTED_BY) or len(taken) > 2
        ):
            return None
        forms = {x: form for x in self._rule.body[0] if (form := self._link(x, encode))}
        keys = variables(*head.args)
        ends = dict.fromkeys(
            pair for form in forms.values() for pair in permutations(map(Var, form.times))
        )
        splits = (self._split(forms, point, key, keys) for point, key in ends)
        for parts in splits:
            if parts is None:
                continue
            points, measured = ({v for x in part for v in variables(x)} for part in parts[:2])
            own = taken[:1] if is_operator(aggregate.op) else taken
            if (
                {*keys} <= points
                and {*own} <= measured - points
                and self._is_kept(aggregate, parts)
            ):
                return parts
        return None

    def _in_order(self, head: Atom, aggregate: Aggregate) -> Parts | None:
        """Return the parts of a body of two atoms of one relation, of which one is before the other
        in the order of several columns that tell rows apart, if the aggregate takes the nearest;
        else None.
        """
        body, (taken, *by) = self._rule.body[0], aggregate.arguments or (aggregate.result,)
        atoms, core = [x for x in body if isinstance(x, Atom)], {*by, taken}
        sign = "<" if aggregate.op in LAST else ">"
        if not self._ordered or len(atoms) != 2 or len(body) != 3 or len(aggregate.arguments) < 3:
            return None
        for points, measured in permutations(atoms):
            pairs = zip(measured.terms, points.terms, strict=False)
            other = {a: b for a, b in pairs if isinstance(a, Var) and isinstance(b, Var)}
            ends = [(other[key], key) for key in by if key in other]
            group = tuple(v for v in variables(points) if other.get(v) == v)
            test = Compare("=", _beyond(ends, sign), TRUE)
            if (
                test in body
                and aggregate.op in (*FIRST, *LAST)
                and points.predicate == measured.predicate
                and {*variables(*head.args)} <= {*variables(points)}
                and core <= other.keys() - {*group}
                and all(len({*variables(x)}) == len(x.terms) for x in atoms)
                and {*variables(points)} & {*variables(measured)} == {*group}
                and not any(has_ids(self._rule.types[key.name]) for _, key in ends)
                and len(group) + len(ends) < KEYS_MAX // 2
                and self._tells_apart((points,), {*group, *(point for point, _ in ends)})
            ):
                (point, key), *ties = ends
                return Parts(
                    (points,), (measured,), (test,), point, key, group, None, None, (*ties,)
                )
        return None

    def _link(self, literal: Literal, encode: Encode) -> Linear | None:
        """Return a comparison as a sum, if it can bound a range."""
        if not isinstance(literal, Compare) or literal.op in ("=", "!="):
            return None
        form = linear(literal, self._rule.types, encode)
        opposite = form is not None and sorted(form.times.values()) == [-1, 1]
        return form if opposite and form and abs(form.constant) < FAR else None

    def _is_kept(self, aggregate: Aggregate, parts: Parts) -> bool:
        """Return whether the aggregate can be computed from a range of one tree."""
        taken = aggregate.arguments
        if len(parts.group) + 3 > KEYS_MAX // 2:
            return False
        if is_operator(aggregate.op):
            return not aggregate.by or _order_within(aggregate, parts)[:1] == (parts.key,)
        if aggregate.by:
            return taken[1:] == (parts.key,) and taken[0] != parts.key
        return aggregate.op in FOLDS or aggregate.op in PARTED_BY

    def _split(
        self, forms: Mapping[Literal, Linear], point: Var, key: Var, keys: tuple[Var, ...]
    ) -> Parts | None:
        """Split the body into parts, given the compared variables and the head's keys."""
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
        """Return whether these variables identify the bindings of a part."""
        bound = {v for x in part for v in variables(x)}
        if keys == bound:
            return True
        if sum(isinstance(x, Atom) for x in part) != 1:
            return False
        (atom,) = (x for x in part if isinstance(x, Atom))
        keyed = {*variables(*atom.terms[: self._keys[atom.predicate]])}
        return keyed <= keys and bound <= {*variables(atom)}

    # -- the rules

    def _rules(self, head: Atom, aggregate: Aggregate, parts: Parts, whole: bool) -> list[Rule]:
        """Return the helpers, then the rule that is evaluated by ranges."""
        helpers: list[Rule] = []
        core = (*parts.group, parts.point)
        if parts.ties:
            span = Range(parts.point, parts.key, parts.group, None, None, True, parts.ties)
            ordered = ((*parts.points, *parts.measured, *parts.links),)
            one = replace(self._rule, heads=(head,), aggregates=(aggregate,), body=ordered)
            return [replace(one, range=span)]
        told = tuple(v for v in variables(*head.args) if v not in core) if whole else ()
        points = self._part(parts.points, (*core, *told), "points", helpers, len(core))
        types = {
            **self._rule.types,
            aggregate.result.name: self._rule.types[plain_result(aggregate.result.name)],
        }
        taken, known = aggregate.arguments, (*parts.group, parts.key)
        if taken == (parts.key,) and aggregate.op in ("min", "max"):
            measured = self._part(parts.measured, known, "from", helpers)
        elif aggregate.op in (*FIRST, *LAST) and self._is_sought(aggregate, parts):
            least = len(known) + (not self._tells_apart(parts.measured, {*known}))
            measured = self._part(parts.measured, (*known, taken[0]), "from", helpers, least)
        elif aggregate.op in PARTED_BY:
            measured, folded = self._parted(aggregate, parts, helpers)
            types[folded.name] = types[taken[0].name]  # the type of the sum of parts
            aggregate = replace(aggregate, arguments=(folded,))
        else:
            measured, folded = self._folded(_within_key(aggregate, parts), parts, helpers, types)
            aggregate = replace(
                aggregate,
                arguments=(folded, *(taken[1:] if aggregate.op in (*FIRST, *LAST) else ())),
            )
        span = Range(parts.point, parts.key, parts.group, parts.low, parts.high, whole)
        body: Disjunct = (points, measured, *parts.links)
        return [
            *helpers,
            replace(
                self._rule,
                heads=(head,),
                aggregates=(aggregate,),
                body=(body,),
                types=types,
                range=span,
            ),
        ]

    def _is_sought(self, aggregate: Aggregate, parts: Parts) -> bool:
        """Return whether the first or last record has the result; several texts with one key
        must be compared.
        """
        (taken, *by), known = aggregate.arguments, {*parts.group, parts.key}
        return bool(by) and (
            not has_ids(self._rule.types[taken.name]) or self._tells_apart(parts.measured, known)
        )

    def _part(
        self,
        part: Disjunct,
        columns: tuple[Var, ...],
        kind: str,
        helpers: list[Rule],
        least: int = 0,
    ) -> Atom:
        """Return the part's own atom, or an atom of a helper with these columns; the first
        `least` must come first.
        """
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
        """Return whether a relation or an index of it can have these columns first."""
        if not isinstance(literal, Atom) or len({*literal.terms}) < len(literal.terms):
            return False
        if not all(isinstance(term, Var) for term in literal.terms):
            return False
        keys = self._keys[literal.predicate]
        in_front = literal.terms[: len(columns)] == columns
        return len(literal.terms) <= KEYS_MAX // 2 and not (in_front and len(columns) > keys)

    def _folded(
        self, aggregate: Aggregate, parts: Parts, helpers: list[Rule], types: dict[str, Type]
    ) -> tuple[Atom, Var]:
        """Return the atom of a helper that aggregates the measured part for each key of the range,
        and its value.

        Adds the value's type to `types`.
        """
        value = Var("folded$", where=aggregate.where)
        folded = replace(aggregate, result=value)
        types |= result_types(folded, self._rule.types)
        head = self._helper(
            "folds", (*parts.group, parts.key), value, folded, parts, helpers, {**types}
        )
        return head, value

    def _parted(self, aggregate: Aggregate, parts: Parts, helpers: list[Rule]) -> tuple[Atom, Var]:
        """Return the atom of a helper with the measured summands' parts by place and key of the
        range, and its value.

        It keeps all that any aggregate of the rule needs of these summands.
        """
        place, value = (Var(name, where=aggregate.where) for name in ("place$", "folded$"))
        ops = [one.op for one in self._rule.aggregates if one.arguments == aggregate.arguments]
        kept = (any(op in SQUARED for op in ops), any(op in MEANS for op in ops))
        constants = tuple(Const(value, "bool", where=aggregate.where) for value in kept)
        parted = replace(aggregate, op=PARTED, result=value, constants=constants, place=place)
        types = {**self._rule.types, place.name: "int64", value.name: "int64"}
        head = self._helper(
            "parts", (*parts.group, place, parts.key), value, parted, parts, helpers, types
        )
        return head, value

    def _helper(
        self,
        kind: str,
        keys: tuple[Var, ...],
        value: Var,
        aggregate: Aggregate,
        parts: Parts,
        helpers: list[Rule],
        types: dict[str, Type],
    ) -> Atom:
        """Return the head of a rule that aggregates the measured part, adding the rule if it
        does not exist.
        """
        known = (parts.measured, keys, aggregate.op, aggregate.arguments, value)
        if known not in self._known:
            atom = Atom(self._name(kind), keys, value, where=self._rule.where)
            self._define(atom, types)
            helpers.append(
                replace(
                    self._rule,
                    heads=(atom,),
                    aggregates=(aggregate,),
                    body=(parts.measured,),
                    types=types,
                )
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
        self._predicates[atom.predicate] = Predicate(
            atom.predicate, types, value, False, columns, where=atom.where
        )


def _pays_once(distinct: Distinct, parts: Parts) -> bool:
    """Return whether a query has enough points for helpers of the measured part."""
    return FEW_POINTS * _rows(distinct, parts.points) >= _rows(distinct, parts.measured)


def _rows(distinct: Distinct, part: Disjunct) -> float:
    """Estimate the most rows of a part: those of its smallest atom, or 1 if it has a constant."""
    equated = [
        x for x in part if isinstance(x, Compare) and x.op == "=" and isinstance(x.right, Const)
    ]
    held = [x for x in part if isinstance(x, Atom)]
    if equated or any(isinstance(term, Const) for x in held for term in x.terms):
        return 1.0
    return min(distinct(x.predicate, tuple(range(len(x.terms)))) for x in held)


def _is_repeated(op: str) -> bool:
    """Return whether an aggregate changes if each assignment is repeated."""
    return op in REPEATED or (is_operator(op) and not is_semilattice(op))


def _within_key(aggregate: Aggregate, parts: Parts) -> Aggregate:
    """Return the aggregate over the assignments with one key of the range."""
    op, (taken, *order) = aggregate.op, aggregate.arguments or (None,)
    if is_operator(op):
        assert taken
        rest = _order_within(aggregate, parts)[1:]
        return replace(aggregate, arguments=(taken, *rest), by=len(rest))
    if order:
        op = "min" if op in FIRST else "max"
    return replace(aggregate, op=op, arguments=aggregate.arguments[:1], by=0)


def _order_within(aggregate: Aggregate, parts: Parts) -> tuple[Var, ...]:
    """Return the variables that order an aggregate and differ among the assignments of a point."""
    same = {*parts.group, *(v for x in parts.points for v in variables(x))}
    return tuple(
        v for v in aggregate.arguments[len(aggregate.arguments) - aggregate.by :] if v not in same
    )


def _beyond(ends: Sequence[tuple[Var, Var]], sign: str) -> Term:
    """Return the condition that values come beyond others, compared from the first pair on."""
    beyond: Term = TRUE
    for place, (point, key) in enumerate(reversed(ends)):
        less, equal = Call(sign, (key, point)), Call("=", (key, point))
        beyond = Call("if", (equal, beyond, less)) if place else less
    return beyond


def _sides(atoms: list[Atom], points: set[Var], key: Var) -> list[list[Literal]] | None:
    """Divide the atoms into those of points and measured ones; None if some belong to both."""
    measured = [x for x in atoms if key in variables(x)]
    sides = [
        [x for x in atoms if x not in measured and not points.isdisjoint(variables(x))],
        measured,
    ]
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
    """Return the range of key - point, in words, that comparisons allow."""
    lows: list[int] = []
    highs: list[int] = []
    for form in forms:
        sign = form.times[key.name]
        kind, shift = KINDS[form.op if sign > 0 else MIRRORED[form.op]]
        (lows if kind == GE else highs).append(shift - sign * form.constant)
    return max(lows, default=None), min(highs, default=None)


SEEK_FIRST, SEEK_LAST, FOLD, ADDED, COMPARED = "first", "last", "fold", "added", "compared"
FOLDED_BY = {"count": "sum"}  # other operations have a scan of their own name


class Span(NamedTuple):
    """A range aggregate over indices.

    The first `group` words of a record are the group.  `keys` are the positions of the view's keys
    in a record of points, which are its first words unless `whole`; users see the first `width`
    words of it.  `result` is the position of the word of a measured record that is returned, or
    folded by the scan `scan`, named as users name scans.  `type` is the type that the operation
    `op` aggregates.

    Kinds: the first or last record of the range, a fold of its records, a fold of the parts of each
    place (ADDED), or a comparison of its texts (COMPARED). With `ties` the range is what comes after
    a point, or before it, in the order of so many words behind the first of its key.
    """

    points: Index
    measured: Index
    group: int
    low: int | None
    high: int | None
    whole: bool
    width: int
    keys: tuple[int, ...]
    kind: str
    result: int
    op: str
    type: Type
    scan: str = ""
    ties: int = 0

    @property
    def indices(self) -> tuple[Index, Index]:
        """The index of points, and that of measured records."""
        return self.points, self.measured

    @property
    def lead(self) -> list[int]:
        """The positions of group and key, with its ties, in a measured record."""
        key = self.group + (self.kind == ADDED)
        return [*range(self.group), *range(key, key + 1 + self.ties)]


def span_of(rule: Rule, stored: Mapping[str, tuple[int, int]]) -> Span:
    """Return the span of a rule with a range; `stored` has the key words and visible words of
    each predicate.
    """
    span, (points, measured, *_) = rule.range, rule.body[0]
    (aggregate,) = rule.aggregates
    assert span and isinstance(points, Atom) and isinstance(measured, Atom)
    argument = aggregate.argument
    assert argument
    type_, scan = rule.types[argument.name], f"{FOLDED_BY.get(aggregate.op, aggregate.op)}:folded$"
    core = (*span.group, span.point, *(point for point, _ in span.ties))
    kind, lead = FOLD, (*span.group, span.key, *(key for _, key in span.ties))
    if aggregate.arguments[-1] == lead[-1] and aggregate.op in (*FIRST, *LAST):
        kind, scan = SEEK_FIRST if aggregate.op in FIRST else SEEK_LAST, ""
    elif aggregate.op in PARTED_BY:
        kind, scan, lead = ADDED, "sum:folded$", variables(*measured.args)
    elif has_ids(type_):
        kind, scan = COMPARED, "count"
    if aggregate.by and not {*measured.terms[: stored[measured.predicate][0]]} <= {*lead}:
        lead = (*dict.fromkeys((*lead, argument)),)
    shown = variables(*rule.heads[0].args)
    of_points = _index(points, core, shown, *stored[points.predicate])
    of_measured = _index(measured, lead, (argument,), *stored[measured.predicate])
    places = _columns(of_points, *stored[points.predicate])
    keys = tuple(places.index(points.terms.index(v)) for v in shown)
    result = _columns(of_measured, *stored[measured.predicate]).index(
        measured.terms.index(argument)
    )
    return Span(
        of_points, of_measured, len(span.group), span.low, span.high, span.whole, len(places), keys,
        kind, result, aggregate.op, type_, scan, len(span.ties),
    )  # fmt: skip


def _index(
    atom: Atom, lead: Sequence[Var], needed: Iterable[Var], keys: int, visible: int
) -> Index:
    """Return the index of an atom's relation that begins with the columns `lead` and also has
    those `needed`.
    """
    columns = [atom.terms.index(v) for v in lead]
    order = [*columns, *(c for c in range(keys) if c not in columns)]
    if _holds_named(keys, visible):
        order = [*dict.fromkeys([*order, *map(atom.terms.index, needed)])]
    stored = Index(atom.predicate, tuple(range(keys)))
    if columns == [*range(len(columns))] and len(columns) <= keys:
        return stored
    return Index(atom.predicate, tuple(order))


def _holds_named(keys: int, visible: int) -> bool:
    """Return whether an index has only the columns it names, of a relation of several values."""
    return visible - keys > 1


def _columns(index: Index, keys: int, visible: int) -> list[int]:
    """Return the relation's columns in the order of an index's records."""
    if not permuted(index):
        return [*range(visible)]
    return [
        *index.order,
        *(c for c in range(visible) if c not in index.order and not _holds_named(keys, visible)),
    ]
