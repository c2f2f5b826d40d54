"""A checked text: what it declares and derives, its rules in order of evaluation, its edits."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ivm.errors import ConstructError, UninstallError
from ivm.lang.dependencies import in_order, readers
from ivm.lang.ir import Atom, Edit, Negation, Predicate, Rule
from ivm.lang.traverse import writes

ATOMS_MAX = 256  # choosing the key orders of a conjunction takes the fourth power of their number


@dataclass(frozen=True)
class Program:
    """Predicates by name, rules each behind those it reads from, edits as written; a query's answer.

    `merged` says that some rule reads columns of one row, which it names one by one, by one atom.
    """

    predicates: Mapping[str, Predicate] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    edits: tuple[Edit, ...] = ()
    answer: str | None = None
    merged: bool = False

    def including(self, part: "Program") -> "Program":
        """This program with `part`, which was compiled against it, but without the edits of `part`."""
        return Program({**self.predicates, **part.predicates}, in_order((*self.rules, *part.rules)))

    def lifted(self, lift: Callable[[Rule, dict[str, Predicate]], Iterable[Rule]]) -> "Program":
        """This program with each rule replaced by those that `lift` makes of it; `lift` adds helpers' predicates."""
        predicates = dict(self.predicates)
        rules = tuple(lifted for rule in self.rules for lifted in lift(rule, predicates))
        return replace(self, predicates=predicates, rules=rules)

    def excluding(self, part: "Program") -> "Program":
        """This program without `part`.  Raises UninstallError if a rule that stays reads a predicate that does not."""
        gone = {id(rule) for rule in part.rules}
        rules = tuple(rule for rule in self.rules if id(rule) not in gone)
        views = {name for rule in rules for name in writes(rule)}
        predicates = {
            name: predicate
            for name, predicate in self.predicates.items()
            if name in views or (predicate.extensional and name not in part.predicates)
        }
        missing = readers(self.predicates.keys() - predicates.keys(), rules)
        if missing:
            uses = "; ".join(f"{name} is read by {', '.join(views)}" for name, views in missing.items())
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
                        f"{atoms} atoms in one conjunction, and {ATOMS_MAX} are the most: derive parts of it as views"
                    )
                    raise ConstructError(rule.where, f"written out, this rule has {reason} of their own")
