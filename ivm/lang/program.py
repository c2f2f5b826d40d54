"""A program: its predicates, its rules in order of evaluation, its edits, on every step of its way
from text to plans.

Dependencies between rules: strata, the order of evaluation, and which views read a predicate.

    near(x, y) <- edge(x, y).
    reach(x, y) <- near(x, y).                  a stratum of two rules: reach reads itself
    reach(x, z) <- reach(x, y), near(y, z).
    far(x) <- cut(x), !reach(x, 1).             reads reach, which is complete before

A stratum is one rule, or all rules of mutually recursive views. It comes after the strata that it
reads.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from re import fullmatch
from typing import Any, NamedTuple

import numpy as np

from ivm.errors import ConstructError, RuleWarning, UninstallError
from ivm.lang.ir import Atom, Const, Edit, Negation, Placed, Predicate, Rule, atoms
from ivm.lang.syntax_tree import Statement
from ivm.names import declared_name, is_made, named_part

ATOMS_MAX = 256  # per conjunction: choosing its key order takes the fourth power of their number


@dataclass(frozen=True)
class DerivedEdit(Placed):
    """`+ head <- body`, `-` or `^`: an edit for each row of the answer of `query`.

    `columns` are the columns of the predicate that a row has, those of the key if it is only a key.
    """

    action: str
    predicate: str
    columns: tuple[str, ...]
    query: "Program"


@dataclass(frozen=True)
class Program:
    """Predicates by name, rules each after those it reads from, edits as written; what a pass takes
    and returns.

    `statements` are those that no pass has made predicates, rules or edits of yet. `stored` are the
    predicates that the store declares and the text does not, `answer` is the head of the last rule,
    which a query returns, `merged` says that in some rule atoms of single columns of one row were
    merged into one atom, `lean` that what aggregates read has fewer rows or columns than it had in
    earlier releases, `sure` that some helper has no view of what fails, since nothing does,
    `partial` that the state of a min or max may keep a few values of each group, `factored` that an
    aggregate reads helpers of parts that no variable connects, `guarded` that an aggregating
    rule excludes nulls itself, so that no groups of nulls only are counted, and `sought` that a
    negation of a function is looked up by its key. For queries, `seeds`
    has the rows of predicates that a rewriting added, and `notes` says what it did. `warnings` are
    about the text. `text` is what a store keeps for statements that did not come from one.
    """

    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    edits: tuple[Edit | DerivedEdit, ...] = ()
    answer: str | None = None
    merged: bool = False
    lean: bool = False
    partial: bool = False
    sure: bool = False
    factored: bool = False
    guarded: bool = False
    sought: bool = False
    statements: tuple[Statement, ...] = ()
    stored: tuple[str, ...] = ()
    seeds: Mapping[str, Sequence[tuple[Const, ...]] | np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    warnings: tuple[RuleWarning, ...] = field(default=(), compare=False)
    text: str = field(default="", compare=False, repr=False)

    def over(self, known: "Program") -> dict[str, Predicate]:
        """Return the predicates of `known`, and this program's."""
        return {**known.predicates, **self.predicates}

    def defining(self, predicates: Mapping[str, Predicate], known: "Program") -> "Program":
        """Return this program with those of some predicates that are not of `known`."""
        added = {
            name: one for name, one in predicates.items() if known.predicates.get(name) is not one
        }
        return replace(self, predicates=added)

    def including(self, part: "Program") -> "Program":
        """Return this program with `part`, compiled against it, but without its edits."""
        tied = self.tied_to(part.rules)
        rules = in_order((*tied, *part.rules))
        return Program(
            {**self.predicates, **part.predicates}, rules if tied else (*self.rules, *rules)
        )

    def tied_to(self, rules: Iterable[Rule]) -> tuple[Rule, ...]:
        """Return the rules of this program that may share strata or views with others, which were
        added to it.

        They are none unless one of those derives a predicate of this program, since no rule of it
        reads another: so the cost of a question, or of a view, does not depend on how many views
        there are.
        """
        derived = (name for rule in rules for name in rule.writes)
        return self.rules if any(name in self.predicates for name in derived) else ()

    def excluding(self, part: "Program") -> "Program":
        """Return this program without `part`.  Raises UninstallError if a remaining rule reads a
        removed predicate.
        """
        gone = {id(rule) for rule in part.rules}
        rules = tuple(rule for rule in self.rules if id(rule) not in gone)
        views = {name for rule in rules for name in rule.writes}
        predicates = {
            name: predicate
            for name, predicate in self.predicates.items()
            if name in views or (predicate.extensional and name not in part.predicates)
        }
        missing = readers(self.predicates.keys() - predicates.keys(), rules)
        if missing:
            uses = "; ".join(
                f"{name} is read by {', '.join(views)}" for name, views in missing.items()
            )
            raise UninstallError(f"{uses}: uninstall the readers first")
        return Program(predicates, rules)

    def refuse_long(self) -> None:
        """Raise ConstructError for a conjunction of more than ATOMS_MAX atoms."""
        for rule in self.rules:
            bodies = [*rule.body]
            for body in bodies:
                bodies += [part.body for part in body if isinstance(part, Negation)]
                atoms = sum(isinstance(part, Atom) for part in body)
                if atoms > ATOMS_MAX:
                    reason = (
                        f"{atoms} atoms in one conjunction, and {ATOMS_MAX} are the most: "
                        f"derive parts of it as views"
                    )
                    raise ConstructError(
                        rule.where, f"written out, this rule has {reason} of their own"
                    )


NOTHING = Program()


class Stratum(NamedTuple):
    """Rules that are evaluated together, and the recursive views among them: none for a rule
    that is not recursive.
    """

    rules: tuple[Rule, ...]
    recursive: frozenset[str] = frozenset()


def strata_of(rules: Sequence[Rule]) -> list[Stratum]:
    """Group all rules into strata, each after those that it reads; within a stratum, rules keep
    their order.
    """
    defining: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        for name in rule.writes:
            defining.setdefault(name, []).append(number)
    below = [[n for name in rule.reads for n in defining.get(name, ())] for rule in rules]
    if not any(below):
        return [Stratum((rule,)) for rule in rules]
    stratum_of, order = _tied_rules(below)
    recursive: dict[int, set[str]] = {}
    for number, rule in enumerate(rules):
        within = {n for n in below[number] if stratum_of[n] == stratum_of[number]}
        names = {name for n in within for name in rules[n].writes if name in rule.reads}
        recursive.setdefault(stratum_of[number], set()).update(names)
    if any(recursive.values()):
        # rules of a recursive view that read none of them are in the stratum, too
        for s, names in recursive.items():
            for name in names:
                for number in defining[name]:
                    stratum_of[number] = s
        order = _sorted(below, stratum_of)
    members: dict[int, list[int]] = {}
    for number, s in enumerate(stratum_of):
        members.setdefault(s, []).append(number)
    return [
        Stratum(tuple(rules[number] for number in members[s]), frozenset(recursive[s]))
        for s in order
    ]


def in_order(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """Sort the rules so that each follows those of the views it reads, but its stratum's."""
    return tuple(rule for stratum in strata_of(rules) for rule in stratum.rules)


def recursive_names(rules: Sequence[Rule]) -> dict[str, frozenset[str]]:
    """Map each recursive view to all recursive views of its stratum."""
    last = {name: number for number, rule in enumerate(rules) for name in rule.writes}
    if all(last.get(name, -1) < n for n, rule in enumerate(rules) for name in rule.reads):
        return {}  # each rule reads what those before it write
    return {name: stratum.recursive for stratum in strata_of(rules) for name in stratum.recursive}


def _tied_rules(below: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Number the rules, equally if they depend on one another; rule i reads below[i]. Return
    these numbers of strata, and in which order strata are evaluated.
    """
    stratum_of = list(range(len(below)))
    while True:
        try:
            return stratum_of, _sorted(below, stratum_of)
        except CycleError as error:
            tied = set(error.args[1])
            stratum_of = [min(tied) if s in tied else s for s in stratum_of]


def _sorted(below: Sequence[Sequence[int]], stratum_of: Sequence[int]) -> list[int]:
    """Return strata in order of evaluation. Raises CycleError if some depend on one another."""
    graph: dict[int, list[int]] = {}
    for number, rules in enumerate(below):
        s = stratum_of[number]
        graph.setdefault(s, []).extend(stratum_of[n] for n in rules if stratum_of[n] != s)
    return list(TopologicalSorter(graph).static_order())


def readers(names: Iterable[str], rules: Iterable[Rule]) -> dict[str, tuple[str, ...]]:
    """Map each of the names that a rule reads to the views that read it, by their public names."""
    readers_of: dict[str, dict[str, None]] = {}
    names_read = set(names)
    for rule in rules:
        for name in names_read.intersection(rule.reads):
            readers_of.setdefault(name, {}).update(
                dict.fromkeys(named_part(view) for view in rule.writes)
            )
    return {
        declared_name(name): tuple(views)
        for name, views in sorted(readers_of.items())
        if not is_made(declared_name(name))
    }


# -- equivalent rules


def shape_of(rule: Rule) -> Rule:
    """Return a rule without the numbers in helper views' names, to find equivalent rules."""
    return replace(
        rule,
        heads=tuple(map(_unnumbered, rule.heads)),
        failed=rule.failed and _unnumbered(rule.failed),
        body=tuple(tuple(map(_unnumbered, disjunct)) for disjunct in rule.body),
    )


def sketch_of(rule: Rule) -> tuple[tuple[str, ...], ...]:
    """Return what equivalent rules have in common, which is found sooner than their shape: names
    in heads and body.
    """
    return tuple(map(_plain_name, rule.writes)), tuple(map(_plain_name, rule.reads))


def _plain_name(name: str) -> str:
    """Return a name without the number of a helper view."""
    numbered = fullmatch(r"(.*\$.*?)\d+(\$\w+)?", name) if is_made(name) else None
    return f"{numbered[1]}{numbered[2] or ''}" if numbered else name


def _unnumbered(literal: Any) -> Any:
    match literal:
        case Atom():
            name = _plain_name(literal.predicate)
            return literal if name == literal.predicate else replace(literal, predicate=name)
        case Negation():
            return replace(literal, body=tuple(map(_unnumbered, literal.body)))
    return literal


def names_in_body(rule: Rule) -> Iterator[str]:
    """Yield the predicates that a rule reads, once for each occurrence."""
    return (atom.predicate for disjunct in rule.body for atom in atoms(disjunct))
