"""Nulls: which variables of a rule may be null, and the conditions that exclude null where it may
not be.

    email[c] = e -> int(c), string?(e).

    p(c) <- q(c), email[c] = e.            means    p(c) <- q(c), email[c] = e, e != null.
    p(c) <- q(c), !email[c] = _.           means    p(c) <- q(c), !(email[c] = e, e != null).
    p(c, e) <- q(c), email[c] = e?.        stays as it is; the second column of p may be null
    p(c) <- email[c] = e?, e < "b".        means    p(c) <- email[c] = e, e < "b", e != null.

A rule without marks sees no null. A marked argument, `e?`, may be null; null joins null if all of a
variable's arguments are marked. Comparisons hold only for values, so conditions are added for their
variables; an equation that defines a variable does not compare. In the result, `x != null` and `x =
null` compare words, and so do joins.

    t[x] = s <- agg<<s = sum(v)>> r(x, v?).         aggregates skip nulls, and a group of nulls only has a null

    t$some[x] = s <- agg<<s = sum(v)>> r(x, v), v != null.
    t$group[x] = n <- agg<<n = count()>> r(x, v).
    t[x] = s <- t$some[x] = s ; t$group[x] = _, !t$some[x] = _, s = null.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ivm.lang import ir
from ivm.lang.functions import FUNCTIONS
from ivm.lang.program import Program, in_order
from ivm.lang.types import stands_for_null
from ivm.names import is_made

Known = Mapping[str, ir.Predicate]
Nulls = Mapping[str, bool]  # for each variable that is bound, whether it may be null
# a column of these that is never null may hold the word of null as a value
COLLIDING = ("int64", "duration")
NEVER = ir.Compare("<", ir.Const(0, "int64"), ir.Const(0, "int64"))  # for comparisons with null
SKIPPED_ONLY = ("top", "bottom", "concat")  # a group of nulls only has no row of these
# the value of a group of nulls only; null for others
ABSENT: dict[str, int | None] = {"count": 0, "count_distinct": 0}


def without_nulls(rule: ir.Rule, known: Known) -> ir.Rule:
    """Return the rule with conditions that exclude null values."""
    named = any(leaf.value is None for leaf in ir.constants(rule))
    if not named and not any(
        known[a.predicate].nullable for disjunct in rule.body for a in _atoms(disjunct)
    ):
        return rule
    unnamed = ir.unnamed_in(rule)
    guards = _Guards(known, rule.types, unnamed)
    return replace(rule, body=tuple(guards.conjunction(disjunct, {}) for disjunct in rule.body))


def _atoms(literals: ir.Disjunct) -> Iterator[ir.Atom]:
    for literal in literals:
        if isinstance(literal, ir.Negation):
            yield from _atoms(literal.body)
        elif isinstance(literal, ir.Atom):
            yield literal


class _Guards:
    """Adds conditions `x != null` to conjunctions."""

    def __init__(self, known: Known, types: Mapping[str, ir.Type], unnamed: set[str]) -> None:
        self._known, self._types, self._unnamed = known, types, unnamed

    def conjunction(self, literals: ir.Disjunct, outer: Nulls) -> ir.Disjunct:
        """Return a conjunction with conditions; `outer` has variables bound around a negation."""
        guarded: list[ir.Literal] = []
        shared = self._shared(literals, outer)
        for literal in literals:
            guarded.append(literal)
            if isinstance(literal, ir.Atom):
                guarded += self._of_atom(literal, shared)
        if any(isinstance(literal, ir.Compare) for literal in literals):
            guarded += self._of_comparisons(literals, tuple(guarded), outer)
        guarded = [*dict.fromkeys(guarded)]
        if not any(isinstance(literal, ir.Negation) for literal in literals):
            return (*guarded,)
        nulls = may_be_null((*guarded,), self._known, outer)
        return tuple(
            replace(x, body=self.conjunction(x.body, nulls)) if isinstance(x, ir.Negation) else x
            for x in guarded
        )

    def _of_comparisons(
        self, literals: ir.Disjunct, guarded: ir.Disjunct, outer: Nulls
    ) -> Iterator[ir.Compare]:
        """Yield the conditions for the comparisons of a conjunction, whose atoms are guarded."""
        nulls = may_be_null(guarded, self._known, outer)
        defining = {
            id(equation) for equation, _, _ in _definitions(literals, self._bound(literals, outer))
        }
        for literal in literals:
            if not isinstance(literal, ir.Compare) or id(literal) in defining:
                continue
            if tests_null(literal):
                yield NEVER
                continue
            for v in _strict(literal.left, literal.right):
                if nulls.get(v.name):
                    yield _guard(v, self._types[v.name])

    @staticmethod
    def _bound(literals: ir.Disjunct, outer: Nulls) -> set[str]:
        return {v.name for x in literals if isinstance(x, ir.Atom) for v in ir.variables(x)}.union(
            outer
        )

    def _of_atom(self, atom: ir.Atom, shared: set[str]) -> Iterator[ir.Compare]:
        """Yield the conditions for the arguments of an atom in columns that may be null."""
        predicate = self._known[atom.predicate]
        for place, term in enumerate(atom.terms):
            if isinstance(term, ir.Const):
                if term.value is None or (place in predicate.nullable and stands_for_null(term)):
                    yield NEVER  # no row has this value
            elif isinstance(term, ir.Var) and (
                term.name in shared
                or (place in predicate.nullable and self._asks(predicate, place, term))
            ):
                yield replace(_guard(term, predicate.types[place]), where=atom.where)

    def _asks(self, predicate: ir.Predicate, place: int, term: ir.Var) -> bool:
        """Return whether an argument asks for a value: `_` does only as the value of a function."""
        is_value = predicate.value is not None and place == len(predicate.keys)
        return not term.marked and (is_value or term.name not in self._unnamed)

    def _shared(self, literals: ir.Disjunct, outer: Nulls) -> set[str]:
        """Return variables that are null in some places only, and whose other places may hold
        the word of null.
        """
        places: dict[str, set[bool]] = {name: {null} for name, null in outer.items()}
        for literal in literals:
            if isinstance(literal, ir.Atom):
                for place, term in enumerate(literal.terms):
                    if isinstance(term, ir.Var):
                        places.setdefault(term.name, set()).add(
                            place in self._known[literal.predicate].nullable
                        )
        return {
            name
            for name, places_of in places.items()
            if len(places_of) > 1 and self._types[name] in COLLIDING
        }


def _strict(*terms: ir.Term) -> tuple[ir.Var, ...]:
    """Return the variables that make some of the terms null where they are null."""
    names: list[ir.Var] = []
    for term in terms:
        match term:
            case ir.Var():
                names.append(term)
            case ir.Binary():
                names += _strict(term.left, term.right)
            case ir.Call() if FUNCTIONS[term.name].strict:
                names += _strict(*term.args)
    return tuple(dict.fromkeys(names))


def _guard(variable: ir.Var, type_: ir.Type) -> ir.Compare:
    return ir.Compare(
        "!=", replace(variable, marked=False), ir.Const(None, type_), where=variable.where
    )


def tests_null(comparison: ir.Compare) -> bool:
    """Return whether a comparison is `x = null` or `x != null`, which compares words."""
    return any(
        isinstance(side, ir.Const) and side.value is None
        for side in (comparison.left, comparison.right)
    )


def may_be_null(literals: ir.Disjunct, known: Known, outer: Nulls | None = None) -> dict[str, bool]:
    """Return for each variable that a conjunction with conditions binds, or that `outer` has,
    whether it may be null.

    >>> from ivm.lang.ir import Atom, Binary, Compare, Predicate, Var
    >>> known = {"a": Predicate("a", ("int64", "int64"), None, True, ("x", "y"), nullable=(1,))}
    >>> x, y, z = map(Var, "xyz")
    >>> may_be_null((Atom("a", (x, y)), Compare("=", z, Binary("+", x, y))), known)
    {'x': False, 'y': True, 'z': True}
    """
    nulls = dict(outer or {})
    for literal in literals:
        if isinstance(literal, ir.Atom):
            nullable = {*known[literal.predicate].nullable}
            for place, term in enumerate(literal.terms):
                if isinstance(term, ir.Var):
                    nulls[term.name] = place in nullable and nulls.get(term.name, True)
    values = _values(literals)
    nulls |= {v.name: False for v in values if v.name in nulls}
    for _, target, source in _definitions(literals, {*nulls}):
        nulls[target.name] = target not in values and is_nullable(source, nulls)
    return nulls


def names_of_nulls(literals: ir.Disjunct, known: Known) -> frozenset[str]:
    """Return the variables of a conjunction that may be null."""
    return frozenset(name for name, null in may_be_null(literals, known).items() if null)


def names_of_null_words(
    literals: ir.Disjunct, known: Known, nulls: frozenset[str]
) -> frozenset[str]:
    """Return the variables that may be null where an atom of a conjunction is read, before the
    others are joined, in whose columns they may not be; `nulls` may be after that.
    """
    atoms = [literal for literal in literals if isinstance(literal, ir.Atom)]
    read = {v.name for a in atoms for place in known[a.predicate].nullable
            if isinstance(v := a.terms[place], ir.Var)}  # fmt: skip
    return nulls | (read - {v.name for v in _values(literals)})


def _values(literals: ir.Disjunct) -> set[ir.Var]:
    """Return the variables of which a conjunction says that they are not null."""
    tests = (x for x in literals if isinstance(x, ir.Compare) and x.op == "!=" and tests_null(x))
    return {x.left for x in tests if isinstance(x.left, ir.Var)}


def nullable_places(
    heads: Sequence[ir.Atom], bodies: Sequence[ir.Disjunct], known: Known
) -> list[list[int]]:
    """Return for each head the places of its terms that may be null in some of the conjunctions."""
    nulls = [may_be_null(body, known) for body in bodies]
    terms = (enumerate(head.terms) for head in heads)
    return [[p for p, term in some if any(is_nullable(term, n) for n in nulls)] for some in terms]


def with_nullable_helpers(program: Program, known: Program) -> Program:
    """Note which columns of the helper views of a program may be null."""
    predicates = program.over(known)
    for rule in in_order(program.rules):
        for head in (*rule.heads, *([rule.failed] if rule.failed else [])):
            helper = predicates[head.predicate]
            if is_made(helper.name):
                (places,) = nullable_places([head], rule.body, predicates)
                nullable = {*helper.nullable, *places}
                predicates[helper.name] = replace(helper, nullable=(*sorted(nullable),))
    return replace(program, predicates={name: predicates[name] for name in program.predicates})


def is_nullable(term: ir.Term, nulls: Nulls) -> bool:
    """Return whether a term may be null, given its variables: arithmetic with null is null."""
    match term:
        case ir.Var():
            return nulls.get(term.name, False)
        case ir.Const():
            return term.value is None
        case ir.Binary():
            return is_nullable(term.left, nulls) or is_nullable(term.right, nulls)
        case ir.Call():
            null = [is_nullable(arg, nulls) for arg in term.args]
            if term.name in ("is_null", "same", "try"):
                return term.name == "try"
            if term.name == "coalesce":
                return all(null)
            return any(null[1:] if term.name == "if" else null)


def _definitions(
    literals: ir.Disjunct, bound: set[str]
) -> list[tuple[ir.Compare, ir.Var, ir.Term]]:
    """Return the equations that define variables, in an order in which each has what it needs,
    and these variables.
    """
    known, definitions = {*bound}, list[tuple[ir.Compare, ir.Var, ir.Term]]()
    equations = (x for x in literals if isinstance(x, ir.Compare) and x.op == "=")
    sides = [side for x in equations for side in ((x, x.left, x.right), (x, x.right, x.left))]
    waiting = [
        (x, target, source, {v.name for v in ir.variables(source)})
        for x, target, source in sides
        if isinstance(target, ir.Var)
    ]
    while one := next((o for o in waiting if o[1].name not in known and o[3] <= known), None):
        definitions.append(one[:3])
        known.add(one[1].name)
    return definitions


# -- aggregates


def guarded_in(rule: ir.Rule) -> frozenset[ir.Term]:
    """Return the terms for which each conjunction of a rule says `is_null[x] = false`."""
    said = [
        {
            literal.left.args[0]
            for literal in disjunct
            if isinstance(literal, ir.Compare)
            and literal.op == "="
            and isinstance(literal.left, ir.Call)
            if literal.left.name == "is_null" and literal.right == ir.Const(False, "bool")
        }
        for disjunct in rule.body
    ]
    return frozenset(said[0]).intersection(*said[1:]) if said else frozenset()


def skipping_nulls(rule: ir.Rule, known: Known, recursive: bool, guarding: bool) -> list[ir.Rule]:
    """Return the rules of an aggregating rule whose aggregates skip nulls, each after those that it
    reads.

    Arguments that name only the order of a group's rows, since none is written, may be null. In a
    recursion a group of nulls only has no row, nor, if `guarding`, where the rule itself excludes
    the nulls, so that there is no such group.
    """
    nulls: dict[str, bool] = {}
    for disjunct in rule.body:
        for name, null in may_be_null(disjunct, known).items():
            nulls[name] = nulls.get(name, False) or null
    skipped = [
        tuple(v for v in aggregate.written if nulls.get(v.name)) for aggregate in rule.aggregates
    ]
    counting = tuple(
        replace(aggregate, arguments=()) if aggregate.op == "count" else aggregate
        for aggregate in rule.aggregates
    )
    rule = replace(rule, aggregates=counting)
    if not any(skipped):
        return [rule]
    whole = [n for n, some in enumerate(skipped) if not some]
    made = [_only(rule, whole)] if whole else []
    groups: dict[tuple[ir.Var, ...], ir.Atom] = {}
    guarded = guarded_in(rule) if guarding else frozenset()
    for n, some in enumerate(skipped):
        if some:
            body = tuple(
                (*disjunct, *(_guard(v, rule.types[v.name]) for v in some))
                for disjunct in rule.body
            )
            rule_of_n = replace(_only(rule, [n]), body=body)
            op = rule.aggregates[n].op
            alone = recursive or op in SKIPPED_ONLY or rule.aggregates[n].absent is not None
            alone = alone or guarded.issuperset(some)
            made += [rule_of_n] if alone else _with_null_groups(rule_of_n, rule, groups)
    return made


def _only(rule: ir.Rule, numbers: Sequence[int]) -> ir.Rule:
    """Return a rule with some of its heads and their aggregates."""
    return replace(
        rule,
        heads=tuple(rule.heads[n] for n in numbers),
        aggregates=tuple(rule.aggregates[n] for n in numbers),
    )


def _with_null_groups(
    rule: ir.Rule, whole: ir.Rule, groups: dict[tuple[ir.Var, ...], ir.Atom]
) -> Iterator[ir.Rule]:
    """Yield a rule that skips nulls, under another name; one that counts all groups of the
    `whole` rule, unless `groups` has it; and the rule of the view.
    """
    (head,), (aggregate,) = rule.heads, rule.aggregates
    result, other, count = (
        replace(aggregate.result, name=f"{aggregate.result.name}{end}") for end in ("", "$", "$$")
    )
    types = {**rule.types, other.name: rule.types[result.name], count.name: "int64"}
    note = f"{rule.text}  (of what is not null)"
    yield replace(rule, heads=(replace(head, predicate=f"{head.predicate}$some"),), text=note)
    keys = tuple(v for v in head.args if isinstance(v, ir.Var))
    if keys not in groups:
        groups[keys] = ir.Atom(f"{head.predicate}$group", head.args, count, where=head.where)
        counted = (ir.Aggregate("count", count, where=aggregate.where),)
        yield replace(
            whole,
            heads=(groups[keys],),
            aggregates=counted,
            types=types,
            text=f"{rule.text}  (its groups)",
        )
    some, none = (
        ir.marked(ir.Atom(f"{head.predicate}$some", head.args, v, where=head.where))
        for v in (result, other)
    )
    absent = ir.Compare("=", result, ir.Const(ABSENT.get(aggregate.op), rule.types[result.name]))
    group = ir.marked(replace(groups[keys], value=count))
    body: tuple[ir.Disjunct, ...] = (
        (some,),
        (group, ir.Negation((none,), (other,), where=head.where), absent),
    )
    yield replace(rule, body=body, aggregates=(), types=types)
