"""Which edits changed the rows of a view between two versions.

    + tri(1, 2, 3)      + edge(1, 3)                      its proof in the new version has a row that is new
    - tri(4, 5, 6)      - edge(5, 6)                      its proof in the old version has a row that is gone
    + total["ada"] = 9  + paid["ada", 2] = 4              rows of its group that came and went

What is so for a row that came is so for one that went, with the versions exchanged.  A row that
came has a proof in which something is new: a fact of a relation, which is an edit; a negation that
something violated before; or an aggregate whose group is another one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ivm.lang.ir import Negation, Type
from ivm.why.derivations import DECIDING, Body, Derivations, Fact, Step, facts_of, with_values
from ivm.why.proofs import Proofs

Prove = Callable[[Fact], Proofs]


class Edit(NamedTuple):
    """A row of a relation that was inserted, or deleted."""

    inserted: bool
    fact: Fact


class Side(NamedTuple):
    """What is known of one of the two versions."""

    derivations: Derivations
    prove: Prove


class Causes:
    """Finds the edits between two versions by which facts came and went."""

    def __init__(self, old: Side, new: Side) -> None:
        self._sides = {False: old, True: new}
        self._known: dict[tuple[Fact, bool], frozenset[Edit]] = {}

    def of(self, fact: Fact, inserted: bool) -> frozenset[Edit]:
        """Return the edits by which a fact came (`inserted`), or went, that has a proof in one
        version only.
        """
        if (fact, inserted) not in self._known:
            self._known[fact, inserted] = frozenset()
            self._known[fact, inserted] = frozenset(self._found(fact, inserted))
        return self._known[fact, inserted]

    def _found(self, fact: Fact, side: bool) -> set[Edit]:
        """Walk down a proof on one side, as far as its facts are missing on the other."""
        here, there = self._sides[side], self._sides[not side]
        if here.derivations.is_base(fact.predicate):
            return {Edit(side, fact)}
        proofs = here.prove(fact)
        steps = dict.fromkeys([fact], proofs.steps[0]) | proofs.chosen
        edits, waiting, seen = set[Edit](), [fact], {fact}
        while waiting:
            one = waiting.pop()
            if one not in steps:
                edits |= self.of(one, side)
                continue
            step = steps[one]
            if _decides(step) or not step.rule.aggregates:
                below = {*step.facts}
                missing = below - there.derivations.present(below)
                waiting += missing - seen
                seen |= missing
                edits |= self._of_negations(step.bodies, step.rule.types, side)
                if _decides(step) and not missing:
                    edits |= self._of_better(one, side)
            else:
                edits |= self._of_group(one, step, side)
        return edits

    def _of_group(self, fact: Fact, step: Step, side: bool) -> set[Edit]:
        """Return the edits of bindings that only one side has in the group of an aggregate."""
        there, rule = self._sides[not side].derivations, step.rule
        head = next(head for head in rule.heads if head.predicate == fact.predicate)
        here, other = {*step.bodies}, set[Body]()
        if rule in there.program.rules:
            other = {*there.groups(rule, head, [fact])[0]}
        edits = [self._of_body(body, rule.types, side) for body in here - other]
        return set[Edit]().union(
            *edits, *(self._of_body(body, rule.types, not side) for body in other - here)
        )

    def _of_better(self, fact: Fact, side: bool) -> set[Edit]:
        """Return the edits by which a better value of a minimum or a maximum went, or came on
        the other side.
        """
        there = self._sides[not side].derivations
        others = [
            Fact(fact.predicate, row)
            for _, row in there.rows(fact.predicate, [dict(enumerate(fact.row[:-1]))])
        ]
        return set[Edit]().union(*(self.of(other, not side) for other in others))

    def _of_negations(
        self, bodies: Iterable[Body], types: Mapping[str, Type], side: bool
    ) -> set[Edit]:
        """Return the edits because of which negations hold on one side that something violated
        on the other.
        """
        there = self._sides[not side].derivations
        edits = set[Edit]()
        for negation in (one for body in bodies for one in body if isinstance(one, Negation)):
            for _, values in there.bindings(negation.body, types, [], [()]):
                edits |= self._of_body(with_values(negation.body, values, types), types, not side)
        return edits

    def _of_body(self, body: Body, types: Mapping[str, Type], side: bool) -> set[Edit]:
        """Return the edits that make a conjunction without variables hold on one side only."""
        facts = facts_of(body)
        missing = {*facts} - self._sides[not side].derivations.present(facts)
        return self._of_negations([body], types, side).union(
            *(self.of(fact, side) for fact in missing)
        )


def _decides(step: Step) -> bool:
    return bool(step.rule.aggregate and step.rule.aggregate.op in DECIDING)
