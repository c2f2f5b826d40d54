"""The smallest edits that give a view the rows that a user wants; each is tried before it is told.

    total["ada"] is 15, from paid("ada", 1) = 5 and paid("ada", 2) = 10

    total["ada"] = 20      ^paid["ada", 1] = 10     ^paid["ada", 2] = 15     +paid["ada", 101] = 5

Edits are tried in versions that are never committed, the fewest first. If some do not bring the
wish, others are tried together with them. A row that is to go has a proof: a row of the proof goes,
or a negation in it fails. A row that is to come needs other rows, or that some go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ivm.errors import EditError, IvmError
from ivm.lang.ir import Atom, Const, Disjunct, Negation, Rule, Var, as_read, atoms, show
from ivm.names import MULTIPLICITY, is_helper
from ivm.why.derivations import Derivations, Fact, results_of, with_values, written_atom
from ivm.why.missing import Insertions, Missing
from ivm.why.proofs import prove
from ivm.why.trials import Trials
from ivm.why.why import Asker
from pagestore.errors import PagestoreError

if TYPE_CHECKING:
    import pyarrow as pa

EDITS_MAX = 3  # in one suggestion
TRIED_MAX = 400  # trials for one wish
FOLLOWED_MAX = 6  # sets of one size that are tried together with others
LACKING_MAX = 8  # sets of facts of which one rule lacks each
VALUES_MAX = 4  # that are tried for what nothing determines
Edits = frozenset[str]


class Suggestion(NamedTuple):
    """Edits that bring about a wish, and what they change: of each relation and view a table with
    its columns and `_change_type`. `commit` makes them, as that of a `Preview`.
    """

    edits: tuple[str, ...]
    changes: Mapping[str, pa.Table]
    commit: Callable[[], int]

    def __str__(self) -> str:
        return " ".join(self.edits)


@dataclass
class Wishes:
    """Looks for the edits that bring about a wish; `begin` begins a trial, `edit` makes edits in it,
    and `commit` returns what commits them at a version.
    """

    asker: Asker
    threads: int
    begin: Callable[[], Any]
    edit: Callable[[Any, str], None]
    commit: Callable[[int, str], Callable[[], int]]

    def find(self, wish: str) -> list[Suggestion]:
        """See Workspace.make."""
        text = wish.strip()
        self.gone = text.startswith("-")
        self.goal = self.asker.goal(text.lstrip("+-"), None)
        if self.asker.derivations.is_base(self.goal.predicate):
            raise EditError(f"{self.goal.predicate} is a relation: edit it itself, by exec")
        by_size: list[list[Edits]] = [[frozenset()], *([] for _ in range(EDITS_MAX))]
        seen, self.left = {frozenset[str]()}, TRIED_MAX
        for size, sets in enumerate(by_size):
            sets.sort(key=sorted)
            tried = [self._tried(edits) for edits in sets]
            if any(tried):
                suggestions = [candidate for candidate in tried if candidate and candidate.edits]
                return sorted(suggestions, key=_amount)
            for edits in sets[:FOLLOWED_MAX]:
                for more in self._following(edits):
                    both = edits | more
                    if both not in seen and size < len(both) <= EDITS_MAX:
                        seen.add(both)
                        by_size[len(both)].append(both)
        return []

    def _tried(self, edits: Edits) -> Suggestion | None:
        """Return a suggestion of edits if they bring the wish."""
        with self._trial(edits) as ways:
            if ways is None or (ways.row(self.goal) is None) != self.gone:
                return None
            trial = ways.trial
            commit = self.commit(trial.version, " ".join(sorted(edits)))
            return Suggestion((*sorted(edits),), trial.all_changes(), commit)

    def _following(self, edits: Edits) -> list[Edits]:
        """Return what may be done in addition to edits that do not bring the wish."""
        with self._trial(edits) as ways:
            row = ways and ways.row(self.goal)
            if ways is None or (self.gone and row is None):
                return []
            return [*(ways.drop(row) if row and self.gone else ways.bring(self.goal))]

    @contextmanager
    def _trial(self, edits: Edits) -> Iterator[_Ways | None]:
        """Give a trial with edits; None if they violate what is declared, if what rules compute
        fails, or if enough was tried.
        """
        self.left -= 1
        if self.left < 0:
            yield None
            return
        with self.begin() as trial:
            try:
                self.edit(trial, " ".join(sorted(edits)))
                trial.follow()
                derivations = self.asker.derivations.over(trial.sketch)
                ways = _Ways(derivations, trial, self.asker, self.threads)
            except (IvmError, PagestoreError):
                ways = None
            yield ways


def _amount(suggestion: Suggestion) -> tuple[int, tuple[str, ...]]:
    """Return how many rows a suggestion changes, and its edits."""
    return sum(table.num_rows for table in suggestion.changes.values()), suggestion.edits


@dataclass
class _Ways:
    """Edits that may bring a fact, or take one away, in one trial."""

    derivations: Derivations
    trial: Any
    asker: Asker
    threads: int
    brought: set[Atom] = field(default_factory=set)

    def row(self, goal: Atom) -> Fact | None:
        """Return a fact that a goal names, if there is one."""
        given = {i: term.value for i, term in enumerate(goal.terms) if isinstance(term, Const)}
        rows = self.derivations.rows(goal.predicate, [given])
        return Fact(goal.predicate, rows[0][1]) if rows else None

    def drop(self, fact: Fact) -> Iterator[Edits]:
        """Yield edits each of which breaks one proof of a fact."""
        if self.derivations.is_base(fact.predicate):
            if not is_helper(fact.predicate):
                yield frozenset([f"-{self._text(fact)}."])
            return
        sketch = self.trial.sketch
        proofs = prove(self.derivations, self.asker.installed, sketch, fact, 1)
        for step in (*proofs.steps[:1], *proofs.chosen.values()):
            for below in step.facts:
                if self.derivations.is_base(below.predicate):
                    yield from self.drop(below)
            for negation in step.absent:
                missing = Missing(self.derivations)
                goals = [literal for literal in negation.body if isinstance(literal, Atom)]
                for some in missing.sets_of_all(goals, 2, frozenset()):
                    yield from self._inserted(some)

    def bring(self, goal: Atom) -> Iterator[Edits]:
        """Yield edits that may bring a goal: insertions, deletions of what must not be there,
        changes of what an aggregate takes, and once what may bring each fact of a view that a rule
        lacks.
        """
        self.brought.add(goal)
        missing = Missing(self.derivations)
        for some in missing.explain(goal):
            yield from self._inserted(some)
        for failure in missing.failures:
            for literal in failure.fails:
                bound = with_values(literal, failure.values, failure.rule.types)
                for atom in atoms(bound.body) if isinstance(bound, Negation) else ():
                    if (there := self.row(atom)) is not None:
                        yield from self.drop(there)
        for rule, head, disjunct in missing.ways(goal.predicate):
            if rule.aggregates:
                yield from self._fold(rule, head, disjunct, goal)
                continue
            for goals in islice(missing.goals_of(rule, head, disjunct, goal), LACKING_MAX):
                for inner in goals:
                    if not self.derivations.is_base(inner.predicate) and inner not in self.brought:
                        yield from self.bring(inner)

    def _fold(self, rule: Rule, head: Atom, disjunct: Disjunct, goal: Atom) -> Iterator[Edits]:
        """Yield edits of what an aggregate takes, so that it may have the goal's result."""
        folded, results = rule.aggregates[0], results_of(rule)
        place = next(i for i, term in enumerate(head.terms) if term in results)
        target = goal.terms[place]
        terms = [Var(f"_{i}") if i == place else t for i, t in enumerate(goal.terms)]
        now = self.row(_like(goal, terms))
        if not isinstance(target, Const):
            return
        by = target.value
        if folded.op == "sum" and now is not None:
            by = target.value - now.row[place]
        row = tuple(None if isinstance(t, Var) else t.value for t in terms)
        for body in self.derivations.groups(rule, head, [Fact(goal.predicate, row)])[0]:
            for written, bound in zip(atoms(disjunct), atoms(body), strict=False):
                if not self.derivations.is_base(bound.predicate):
                    continue
                fact = Fact(bound.predicate, _row(bound))
                yield from self.drop(fact)
                for at, term in enumerate(written.terms):
                    if folded.arguments and term == folded.arguments[0]:
                        value = fact.row[at] + by if folded.op == "sum" else by
                        changed = Fact(fact.predicate, (*fact.row[:at], value, *fact.row[at + 1 :]))
                        yield self._changed(fact, changed)
        plain = replace(rule, aggregates=())
        made = [
            folded.arguments[0] if i == place and folded.arguments else t
            for i, t in enumerate(head.terms)
        ]
        value = [
            Const(by, target.type) if i == place and folded.arguments else t
            for i, t in enumerate(terms)
        ]
        missing = Missing(self.derivations)
        for goals in missing.goals_of(plain, _like(head, made), disjunct, _like(goal, value)):
            for some in missing.sets_of_all(goals, 2, frozenset([goal])):
                yield from self._inserted(some)
        bound = with_values(disjunct, _values(made, value), rule.types)
        if all(self.derivations.is_base(atom.predicate) for atom in atoms(bound)):
            yield from self._inserted(frozenset(atoms(bound)))

    def _inserted(self, some: Insertions) -> Iterator[Edits]:
        """Yield insertions with values for what nothing determines; none into what rules keep for
        themselves.
        """
        if any(is_helper(atom.predicate) for atom in some):
            return
        trials = Trials(
            lambda: self.trial.sketch, self.asker.installed, self.derivations, self.threads
        )
        for rows in islice(trials.filled(some), VALUES_MAX):
            facts = [Fact(atom.predicate, _row(atom)) for atom in rows]
            yield frozenset(f"{self._sign(fact)}{self._text(fact)}." for fact in facts)

    def _changed(self, old: Fact, new: Fact) -> Edits:
        sign = self._sign(new)
        edits = [f"{sign}{self._text(new)}."]
        return frozenset(edits if sign == "^" else [*edits, f"-{self._text(old)}."])

    def _sign(self, fact: Fact) -> str:
        predicate = self.derivations.program.predicates[fact.predicate]
        return "+" if predicate.value is None and predicate.key_count is None else "^"

    def _text(self, fact: Fact) -> str:
        predicate = self.derivations.program.predicates[fact.predicate]
        terms = tuple(map(Const, fact.row, map(as_read, predicate.types)))
        if predicate.bag or predicate.columns[-1:] == (MULTIPLICITY,):
            return show(Atom(fact.predicate, terms[:-1]))
        return written_atom(Atom(fact.predicate, terms), predicate)


def _like(atom: Atom, terms: Iterable[Any]) -> Atom:
    """Return an atom with other terms."""
    given = [*terms]
    if atom.value is None:
        return replace(atom, args=(*given,))
    return replace(atom, args=(*given[:-1],), value=given[-1])


def _values(terms: Iterable[Any], given: Iterable[Any]) -> dict[str, Any]:
    """Return the values that variables have where terms are matched with constants."""
    pairs = zip(terms, given, strict=True)
    return {t.name: c.value for t, c in pairs if isinstance(t, Var) and isinstance(c, Const)}


def _row(atom: Atom) -> tuple[Any, ...]:
    """Return the constants of an atom."""
    return tuple(term.value for term in atom.terms if isinstance(term, Const))
