"""Why a row is not in a view: what fails in each rule, and the smallest sets of insertions that
would bring the row.

    tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).         edge(1, 2), edge(1, 3)

    tri(1, 2, 3)    fails at edge(2, 3)      insert edge(2, 3)

Of a rule's body, bound to the row, as few literals as possible are left out so that the rest has a
binding.  What was left out fails there.  If only atoms were left out, their facts bring the row:
rows of relations are inserted, facts of views are looked into in turn.  A value that nothing
determines stays a variable.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, count, product
from typing import Any, NamedTuple

from ivm.lang.ir import Atom, Compare, Const, Disjunct, Literal, Rule, Var, renamed, variables
from ivm.names import is_helper
from ivm.why.derivations import Derivations, Values, results_of, with_values

SUBSETS_MAX = 200  # of the literals of one body that are left out
PLACES_MAX = 10  # bindings that are told for one rule
GOALS_MAX = 60  # facts of views that are looked into for insertions
INSERTIONS_MAX = 3  # in one set
SETS_MAX = 50
Insertions = frozenset[Atom]  # of constants, and variables for values that nothing determines


class Failure(NamedTuple):
    """Which literals of a rule's body fail, and under which values of variables all else holds."""

    rule: Rule
    fails: tuple[Literal, ...]
    values: Values


@dataclass
class Missing:
    """Looks for what a goal, an atom of constants and variables, lacks in one version."""

    derivations: Derivations
    failures: list[Failure] = field(default_factory=list)
    complete: bool = True  # whether the search for insertions saw all that there may be
    _goals: int = 0

    def explain(
        self, goal: Atom, true: Callable[[list[Insertions]], list[Insertions]] = list
    ) -> list[Insertions]:
        """Note what fails for a goal; return the smallest sets of insertions that would bring it,
        none if unknown.

        `true` is asked which ones of some sets do: a sum or a negation of what is inserted is not
        foreseen.
        """
        for rule, head, disjunct in self.ways(goal.predicate):
            self.failures += self._fails(rule, head, disjunct, goal)
        for size in range(1, INSERTIONS_MAX + 1):
            self._goals = 0
            sets = dict.fromkeys(filter(None, self._sets(goal, size, frozenset())))
            sets_true = true(sorted(sets, key=lambda goals: sorted(map(str, goals)))[:SETS_MAX])
            self.complete &= len(sets_true) == len(sets)
            if sets_true:
                return sets_true
        return []

    def ways(self, name: str) -> Iterator[tuple[Rule, Atom, Disjunct]]:
        """Yield each rule of a view with its head and each of its bodies."""
        for rule in self.derivations.program.rules:
            for head in rule.heads:
                if head.predicate == name:
                    yield from ((rule, head, disjunct) for disjunct in rule.body)

    def _bound(self, rule: Rule, head: Atom, goal: Atom) -> tuple[list[Var], list[Any]]:
        """Return the head's variables that the goal gives values, except the results of
        aggregates, and the values.
        """
        results = results_of(rule)
        pairs = [
            (term, given.value)
            for term, given in zip(head.terms, goal.terms, strict=True)
            if isinstance(term, Var) and isinstance(given, Const) and term not in results
        ]
        return [term for term, _ in pairs], [value for _, value in pairs]

    def _fails(self, rule: Rule, head: Atom, disjunct: Disjunct, goal: Atom) -> list[Failure]:
        """Return the bindings of a body under which the fewest literals fail."""
        terms, row = self._bound(rule, head, goal)
        conditions_first = sorted(disjunct, key=lambda literal: isinstance(literal, Atom))
        for left_out in _subsets(conditions_first, len(disjunct)):
            rest = _checkable([literal for literal in disjunct if literal not in left_out], terms)
            bindings = self.derivations.bindings(rest, rule.types, terms, [row])
            if bindings and left_out:
                return [
                    literal
                    for _, values in bindings[:PLACES_MAX]
                    for literal in self._within(rule, left_out, values)
                ]
            if bindings:
                return []
        return []

    def _within(self, rule: Rule, fails: tuple[Literal, ...], values: Values) -> list[Failure]:
        """Return a failure; where facts of helper views fail, which no author wrote, what fails
        in their rules.
        """
        helpers = [fail for fail in fails if isinstance(fail, Atom) and is_helper(fail.predicate)]
        failures = [
            failure
            for atom in helpers
            for way in self.ways(atom.predicate)
            for failure in self._fails(*way, with_values(atom, values, rule.types))
        ]
        shown = tuple(one for one in fails if one not in helpers)
        if shown:
            return [Failure(rule, shown, values), *failures]
        return failures or [Failure(rule, fails, values)]

    def _sets(self, goal: Atom, size: int, above: frozenset[Atom]) -> list[Insertions]:
        """Return sets of at most `size` insertions by which a goal would follow; none that needs
        a goal `above` it.
        """
        if self.derivations.is_base(goal.predicate):
            return [frozenset([goal])]
        self._goals += 1
        if self._goals > GOALS_MAX:
            self.complete = False
            return []
        sets: dict[Insertions, None] = {}
        for rule, head, disjunct in self.ways(goal.predicate):
            if any(
                isinstance(goal.terms[i], Const)
                for i, v in enumerate(head.terms)
                if v in results_of(rule)
            ):
                continue  # which rows bring a given sum is not looked for
            for goals in self.goals_of(rule, head, disjunct, goal):
                if any(lacking in above or lacking == goal for lacking in goals):
                    continue
                for some in self.sets_of_all(goals, size, above | {goal}):
                    sets[some] = None
        return [*sets]

    def sets_of_all(
        self, goals: Sequence[Atom], size: int, above: frozenset[Atom]
    ) -> Iterator[Insertions]:
        """Yield the unions of one set for each goal."""
        base = frozenset(goal for goal in goals if self.derivations.is_base(goal.predicate))
        views = [goal for goal in goals if goal not in base]
        if len(base) > size:
            return
        if views and len(goals) > 1 and any(map(variables, goals)):
            # an insertion for one goal may serve another, whose values are not determined
            self.complete = False
            if _shares_unknown(goals):
                return
        parts = [self._sets(goal, size, above) for goal in views]
        for some in product(*parts):
            union = base.union(*_apart(some, {*variables(*goals)}))
            if len(union) <= size:
                yield union

    def goals_of(
        self, rule: Rule, head: Atom, disjunct: Disjunct, goal: Atom
    ) -> Iterator[tuple[Atom, ...]]:
        """Yield sets of facts that a body lacks, each for a binding of the rest of it."""
        terms, row = self._bound(rule, head, goal)
        atoms = [literal for literal in disjunct if isinstance(literal, Atom)]
        for left_out in _subsets(atoms, len(atoms)):
            others = [literal for literal in disjunct if literal not in left_out]
            rest = _checkable(others, terms)
            unchecked = [other for other in others if other not in rest]
            for _, values in self.derivations.bindings(rest, rule.types, terms, [row]):
                lacking = [with_values(literal, values, rule.types) for literal in left_out]
                for number, names in enumerate(_identified(lacking)):
                    if number >= SUBSETS_MAX:
                        self.complete = False
                        break
                    conditions = [
                        _replaced(with_values(literal, values, rule.types), names)
                        for literal in unchecked
                    ]
                    decided = [condition for condition in conditions if not variables(condition)]
                    if any(map(_never_holds, conditions)):
                        continue
                    if not decided or self.derivations.bindings(
                        [*rest, *decided], rule.types, terms, [row]
                    ):
                        yield (*dict.fromkeys(_replaced(literal, names) for literal in lacking),)


def _apart(sets: Sequence[Insertions], shared: set[Var]) -> Iterator[Insertions]:
    """Yield sets of insertions with other names for shared variables, but for `shared` ones."""
    taken = {*shared}
    for goals in sets:
        new = sorted({*variables(*goals)} - shared, key=str)
        free = (Var(f"_{n}") for n in count(1) if Var(f"_{n}") not in {*taken, *new})
        names = {v: next(free) for v in new if v in taken}
        taken.update(new, names.values())
        yield frozenset(_replaced(atom, names) for atom in goals)


def together(sets: Sequence[Insertions]) -> list[Insertions]:
    """Return the smallest of sets of insertions, each with most of its atoms made one."""
    joined: dict[Insertions, None] = {}
    for insertions in sets:
        ways = (
            [_replaced(atom, names) for atom in insertions]
            for names in _identified(sorted(insertions, key=str))
        )
        atoms_ = sorted({*min(ways, key=lambda way: len({*way}))}, key=str)
        names = {v: Var(f"_{n}") for n, v in enumerate(dict.fromkeys(variables(*atoms_)), 1)}
        joined[frozenset(_replaced(atom, names) for atom in atoms_)] = None
    least = min(map(len, joined), default=0)
    return [insertions for insertions in joined if len(insertions) == least]


def _subsets(literals: Sequence[Literal], most: int) -> Iterator[tuple[Literal, ...]]:
    """Yield subsets of literals, the smallest first."""
    number = 0
    for size in range(most + 1):
        for some in combinations(literals, size):
            number += 1
            if number > SUBSETS_MAX:
                return
            yield some


def _checkable(literals: Sequence[Literal], given: Iterable[Var]) -> list[Literal]:
    """Return the literals whose variables are all bound by their atoms, by equations, or given."""
    known = {*given, *variables(*(literal for literal in literals if isinstance(literal, Atom)))}
    rest = [literal for literal in literals if not isinstance(literal, Atom)]
    while True:
        more = [side for literal in rest for side in _defines(literal, known)]
        if not more:
            break
        known |= {*more}
    return [
        literal
        for literal in literals
        if isinstance(literal, Atom) or known.issuperset(variables(literal))
    ]


def _defines(literal: Literal, known: set[Var]) -> list[Var]:
    """Return the variable that an equation defines from known ones."""
    if not isinstance(literal, Compare) or literal.op != "=":
        return []
    sides = ((literal.left, literal.right), (literal.right, literal.left))
    return [
        a
        for a, b in sides
        if isinstance(a, Var) and a not in known and known.issuperset(variables(b))
    ]


def _never_holds(literal: Literal) -> bool:
    """Return whether a comparison of a term with itself excludes all its values."""
    return (
        isinstance(literal, Compare)
        and literal.op in ("!=", "<", ">")
        and literal.left == literal.right
    )


def _identified(atoms: Sequence[Atom]) -> Iterator[Mapping[Var, Var | Const]]:
    """Yield what variables are replaced by so that some of the atoms become one, in each way;
    first nothing.
    """

    def merged(
        rest: Sequence[Atom], kept: Sequence[Atom], names: Mapping[Var, Var | Const]
    ) -> Iterator[Any]:
        if not rest:
            yield names
            return
        first, *others = rest
        yield from merged(others, [*kept, first], names)
        for goals in kept:
            more = _unified(_replaced(goals, names), _replaced(first, names))
            if more is not None:
                yield from merged(
                    others,
                    kept,
                    {**{v: _replaced(term, more) for v, term in names.items()}, **more},
                )

    yield from merged(atoms, [], {})


def _unified(atom: Atom, other: Atom) -> dict[Var, Var | Const] | None:
    """Return what must replace variables to make two atoms equal; None if they cannot be."""
    names: dict[Var, Var | Const] = {}
    if atom.predicate != other.predicate:
        return None
    for pair in zip(atom.terms, other.terms, strict=True):
        a, b = (_replaced(term, names) for term in pair)
        if a != b:
            old, new = (a, b) if isinstance(a, Var) else (b, a)
            if not isinstance(old, Var):
                return None
            names = {v: new if term == old else term for v, term in names.items()} | {old: new}
    return names


def _replaced(node: Any, names: Mapping[Var, Var | Const]) -> Any:
    """Return a literal with variables replaced by others or by constants."""
    constants = {v.name: term for v, term in names.items() if isinstance(term, Const)}
    types = {name: constant.type for name, constant in constants.items()}
    node = renamed(node, {v: term for v, term in names.items() if isinstance(term, Var)})
    return with_values(node, {name: constant.value for name, constant in constants.items()}, types)


def _shares_unknown(goals: Sequence[Atom]) -> bool:
    """Return whether a variable occurs in several goals."""
    unknown = [v for goal in goals for v in variables(goal)]
    return len(unknown) > len({*unknown})
