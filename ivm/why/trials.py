"""Whether insertions bring a row: they are made in a version that is never committed, as a preview
makes them.

Values that nothing determines are tried: such as nothing has, and those next to the constants of
rules.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice, product
from typing import Any
from zoneinfo import ZoneInfo

from ivm.engine.engine import Engine
from ivm.errors import IvmError
from ivm.lang.ir import Atom, Const, Var, constants
from ivm.rules.installed import Installed
from ivm.rules.stored import built_sizes
from ivm.terms.encoder import Encoder
from ivm.transaction import Transaction
from ivm.why.derivations import Derivations, Sketch, with_values
from ivm.why.missing import Insertions
from pagestore.errors import PagestoreError
from pagestore.host import EphemeralTransaction, Type

OF_ONE = 60  # values that are tried for one set of insertions
OF_ALL = 300  # for all sets of one question
# values that rows hardly have, by class: small ones first, which fit more columns
FRESH: dict[type, tuple[Any, ...]] = {
    int: (101, 1_000_000_007), float: (101.5,), Decimal: (Decimal(7),), str: ("new",),
    bytes: (b"new",), bool: (True, False), date: (date(2999, 1, 1),), time: (time(23, 59),),
    timedelta: (timedelta(days=3),), datetime: (datetime(2999, 1, 1),),
}  # fmt: skip


@dataclass
class Trials:
    """Tries insertions in one version."""

    sketch: Sketch
    installed: Installed
    derivations: Derivations
    threads: int
    _tried: int = 0
    _known: dict[Insertions, bool] = field(default_factory=dict)

    def bring(self, insertions: Insertions, goal: Atom) -> bool:
        """Return whether insertions bring a row, with some values for their variables."""
        if insertions not in self._known:
            self._known[insertions] = any(
                self._brings(rows, goal) for rows in self.filled(insertions)
            )
        return self._known[insertions]

    def filled(self, insertions: Insertions) -> Iterator[list[Atom]]:
        """Yield insertions with values for their variables."""
        atoms = sorted(insertions, key=str)
        types: dict[Var, str] = {}
        for atom in atoms:
            stored = self.derivations.program.predicates[atom.predicate].types
            types |= {
                term: type_
                for term, type_ in zip(atom.terms, stored, strict=True)
                if isinstance(term, Var)
            }
        names = {v.name: type_ for v, type_ in types.items()}
        choices = [[*self._values(type_, number)] for number, type_ in enumerate(names.values())]
        for values in islice(product(*choices), min(OF_ONE, OF_ALL - self._tried)):
            self._tried += 1
            yield [
                with_values(atom, dict(zip(names, values, strict=True)), names) for atom in atoms
            ]

    def _values(self, type_: str, number: int) -> Iterator[Any]:
        """Yield values of a type for the variable of a number: one that nothing has, and those
        next to constants.
        """
        given = [
            constant.value
            for rule in self.derivations.program.rules
            for constant in constants(rule)
            if constant.type == type_
        ]
        parsed = Type.parse(type_)
        zone = ZoneInfo(parsed.zone) if parsed.zone else None
        for fresh in FRESH[parsed.kind.value]:
            yield _moved(fresh.replace(tzinfo=zone) if zone else fresh, number)
        for value in dict.fromkeys(given):
            yield from _near(value) if value is not None else ()

    def _brings(self, insertions: list[Atom], goal: Atom) -> bool:
        """Return whether a version with some rows more has the goal."""
        with self.sketch() as sketch:
            try:
                self._insert(sketch, insertions)
            except (IvmError, PagestoreError):
                # they violate what is declared, or what rules compute fails
                return False
            given = {
                place: term.value
                for place, term in enumerate(goal.terms)
                if isinstance(term, Const)
            }
            return bool(self.derivations.over(sketch).rows(goal.predicate, [given]))

    def _insert(self, sketch: EphemeralTransaction, insertions: list[Atom]) -> None:
        """Add rows, each in place of one with its key if it gives that, and let views follow."""
        txn = Transaction(sketch, self.installed, None)
        for atom in insertions:
            row = tuple(term.value for term in atom.terms if isinstance(term, Const))
            predicate = self.derivations.program.predicates[atom.predicate]
            is_function = predicate.value is not None or predicate.key_count is not None
            if sketch[atom.predicate].info.bag:  # the last value says how many equal rows there are
                txn.insert(atom.predicate, [row[:-1]])
            else:
                (txn.set if is_function else txn.insert)(atom.predicate, [row])
        engine = Engine(
            sketch, self.installed, Encoder(sketch), self.threads, built=built_sizes(sketch)
        )
        engine.apply_edits(txn.composed())


def _near(value: Any) -> tuple[Any, ...]:
    """Return a value, and one on either side of it."""
    match value:
        case bool():
            return value, not value
        case int() | float() | Decimal():
            return value, value + 1, value - 1
        case date():
            return value, value + timedelta(days=1), value - timedelta(days=1)
        case str():
            return value, value + "a", ""
    return (value,)


def _moved(value: Any, number: int) -> Any:
    """Return another value for each number, but for those of types that have few."""
    match value:
        case bool() | time():
            return value
        case str():
            return f"{value}{number or ''}"
        case date() | timedelta():
            return value + timedelta(days=number)
        case bytes():
            return value + bytes(number)
    return value + number
