"""The literals of one conjunction, sorted by who handles them, and laid out by a key order.

    F(x, y) <- G(x, z), H(y, z), I(x, y, z), R(z).        order [x, y, z]

    level     x            y            z
    tries     G I          H I          G H I R
    sensors   -            H            G H R            (I and G at x follow the order: dropped)

An atom whose arguments do not follow the order reads a permuted index.  Constants and repeated variables become levels
of their own, held by a bound.  What no trie holds (values, computed variables, other comparisons) is done on the
batches.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ivm.errors import ConstructError
from ivm.join.kernels.join_layout import EQ
from ivm.lang.ir import Atom, Compare, Const, Disjunct, Negation, Predicate, Rule, Term, Var
from ivm.lang.traverse import atoms, variables
from ivm.plan.constants import Encode
from ivm.plan.expression import risk
from ivm.plan.index import Index
from ivm.plan.linear import Linear, linear, pinned
from ivm.plan.plan import Bound, Plan, Read, Trie
from pagestore.host import KEYS_MAX


@dataclass
class Arguments:
    """An atom while it is planned: which variable each of its columns holds; None where it is cut."""

    atom: Atom
    names: list[str | None]
    negated: bool


class Conjunction:
    """The literals of one disjunct, sorted by who handles them: tries, bounds, or batches."""

    def __init__(
        self,
        rule: Rule,
        disjunct: Disjunct,
        predicates: Mapping[str, Predicate],
        stored_keys: Mapping[str, int],
        encode: Encode,
    ) -> None:
        self.rule, self.predicates, self.stored_keys, self.encode = rule, predicates, stored_keys, encode
        self.atoms: list[Arguments] = []
        self.reads: list[tuple[int, int, str]] = []  # atom, column, variable
        self.equal: dict[str, tuple[str | None, int]] = {}  # variable held at another's value, or a constant
        self.filters: list[Compare] = []
        self.computed: list[tuple[str, Term]] = []
        self.bounds: list[Linear] = []
        self._fresh = 0
        positive = [x for x in disjunct if isinstance(x, Atom)]
        negative = [x for x in disjunct if isinstance(x, Negation)]
        self.keys = {a.name for x in positive for a in x.args if isinstance(a, Var)}
        self.keys |= {
            a.name for n in negative for x in n.body if isinstance(x, Atom) for a in x.args if isinstance(a, Var)
        }
        self.used_once = self._used_once(disjunct)
        self.keys |= {
            x.value.name
            for x in atoms(disjunct)
            if isinstance(x.value, Var) and self._stored_as_key(x) and x.value.name not in self.used_once
        }
        self.keys |= self._joined_values(disjunct)
        for atom in positive:
            self._add_atom(atom, negated=False)
        for negation in negative:
            self._add_negation(negation)
        self.keys |= {n for a in self.atoms for n in a.names if n is not None}
        self.holding = {n: [a for a in self.atoms if not a.negated and n in a.names] for n in self.keys}
        self.enumerated = {n for n, holding in self.holding.items() if holding}
        self._add_comparisons([x for x in disjunct if isinstance(x, Compare)])
        self._check_negated()

    def _used_once(self, disjunct: Disjunct) -> set[str]:
        """Variables that occur once and matter to nobody: the atom's trie can be cut before them.

        Not in an aggregate, which counts every binding.
        """
        if self.rule.aggregate:
            return set()
        counts: dict[str, int] = {}
        nodes: list = [t for literal in disjunct for t in _occurrences(literal)]
        nodes += [t for head in self.rule.heads for t in head.terms]
        for node in nodes:
            for v in variables(node):
                counts[v.name] = counts.get(v.name, 0) + 1
        return {name for name, n in counts.items() if n == 1}

    def _joined_values(self, disjunct: Disjunct) -> set[str]:
        """Values of functions that others pin down: they are sought, not compared in all combinations.

        If an index by them has room for all keys of their function.
        """
        positive = [x for x in disjunct if isinstance(x, Atom)]
        values = Counter(x.value.name for x in positive if isinstance(x.value, Var) and len(x.args) < KEYS_MAX)
        found = {name for name, times in values.items() if times > 1}
        within = [{v.name for v in variables(x)} for x in positive]
        bound = {name for names in within for name in names}
        comparisons = [linear(x, self.rule.types, self.encode) for x in disjunct if isinstance(x, Compare)]
        for names in pinned(x for x in comparisons if x and x.seekable and x.times.keys() <= bound):
            if len(names) > 1 and not any(names <= own for own in within):
                found |= names & values.keys()
        return found

    def _name(self) -> str:
        """A fresh variable, held by an equality."""
        self._fresh += 1
        return f"${self._fresh}"

    def _add_atom(self, atom: Atom, negated: bool) -> None:
        value = atom.value
        as_key = value is not None and self._is_key(atom, value)
        read = value is not None and not as_key and value.name not in self.used_once  # type: ignore[union-attr]
        names: list[str | None] = []
        for term in atom.args:
            names.append(self._argument(term, names, whole=negated or read))
        if as_key:
            assert value is not None
            names.append(self._argument(value, names, whole=negated))
        if all(name is None for name in names):  # it has to hold something: enumerate its first column
            names[0] = self._argument(atom.terms[0], [], whole=True)
        if read:
            assert isinstance(value, Var)
            self.reads.append((len(self.atoms), len(atom.args), self._read_as(value.name)))
        self.atoms.append(Arguments(atom, names, negated))

    def _is_key(self, atom: Atom, value: Var | Const) -> bool:
        return isinstance(value, Const) or value.name in self.keys or self._stored_as_key(atom)

    def _stored_as_key(self, atom: Atom) -> bool:
        """A derived function keeps its value behind its keys as one more key (see views/heads.py)."""
        return self.stored_keys[atom.predicate] > len(atom.args)

    def _argument(self, term: Var | Const, before: list[str | None], whole: bool) -> str | None:
        if isinstance(term, Const):
            name = self._name()
            self.equal[name] = (None, self.encode(term))
            return name
        if term.name in self.used_once and not whole:
            return None
        if term.name in before:
            name = self._name()
            self.equal[name] = (term.name, 0)
            return name
        return term.name

    def _read_as(self, variable: str) -> str:
        """The name a read value gets: a second reading of one variable must equal the first."""
        if all(variable != name for _, _, name in self.reads):
            return variable
        name = self._name()
        self.filters.append(Compare("=", Var(variable), Var(name)))
        return name

    def _add_negation(self, negation: Negation) -> None:
        if len(negation.body) != 1 or negation.exists or not isinstance(negation.body[0], Atom):
            raise ConstructError(
                negation.where,
                "a negation is evaluated of one atom whose variables are bound outside; derive the rest as a view "
                "of its own and negate that",
            )
        self._add_atom(negation.body[0], negated=True)

    def _add_comparisons(self, comparisons: list[Compare]) -> None:
        """Bounds between keys go into the join; a new variable is computed; the rest filters."""
        known = self.keys | {name for _, _, name in self.reads}
        waiting = sorted(comparisons, key=lambda x: (risk(x), str(x)))  # not by where they stand in the text
        while waiting:
            literal = next((x for x in waiting if self._is_ready(x, known)), None)
            if literal is None:
                raise ConstructError(
                    waiting[0].where, "the variables of this comparison are defined by each other only"
                )
            waiting.remove(literal)
            target = self._defines(literal, known)
            if target is None:
                self._compare(literal)
            else:
                self.computed.append((target.name, literal.right if literal.left == target else literal.left))
                known.add(target.name)

    def _is_ready(self, literal: Compare, known: set[str]) -> bool:
        return known.issuperset(v.name for v in variables(literal)) or self._defines(literal, known) is not None

    @staticmethod
    def _defines(literal: Compare, known: set[str]) -> Var | None:
        if literal.op != "=":
            return None
        for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if isinstance(side, Var) and side.name not in known and {v.name for v in variables(other)} <= known:
                return side
        return None

    def _check_negated(self) -> None:
        for a in self.atoms:
            for name in a.names:
                if a.negated and name not in self.enumerated and name not in self.equal:
                    raise ConstructError(
                        a.atom.where,
                        f"`{name}` is computed and then negated, which is evaluated for sums with a constant only; "
                        "derive the computed values as a view of their own and negate against that",
                    )

    def _compare(self, literal: Compare) -> None:
        form = linear(literal, self.rule.types, self.encode)
        if form is None or not form.seekable or not form.times.keys() <= self.keys:
            self.filters.append(literal)
        elif not self._holds(form):
            self.bounds.append(form)

    def _holds(self, form: Linear) -> bool:
        """Take an equation for the one thing that gives a variable its value, if it is."""
        name = next((n for n in reversed(form.times) if n not in self.enumerated and n not in self.equal), None)
        if name is None or form.op != "=" or (form.constant and self.rule.types.get(name) != "int64"):
            return False
        sign, others = form.times[name], [n for n in form.times if n != name]
        if len(others) > 1 or any(form.times[n] == sign for n in others):
            return False
        self.equal[name] = (others[0] if others else None, -sign * form.constant)
        return True

    # -- laid out

    def plan(self, order: Sequence[str], cost: float = 0.0, considered: int = 0) -> Plan:
        """Everything laid out by a key order."""
        level = {name: i for i, name in enumerate(order)}
        tries = tuple(self._trie(a, level) for a in self.atoms)
        self._check_width(tries)
        held = [(n, () if o is None else ((level[o], 1),), c) for n, (o, c) in self.equal.items()]
        bounds = [Bound(level[n], EQ, others, c) for n, others, c in held] + [b.bound(level) for b in self.bounds]
        reads = tuple(
            Read(a, _column(tries[a].index, self.stored_keys[self.atoms[a].atom.predicate], column), name)
            for a, column, name in self.reads
        )
        return Plan(
            tuple(order), tries, tuple(bounds), reads, tuple(self.computed), tuple(self.filters), cost, considered
        )

    def _check_width(self, tries: Iterable[Trie]) -> None:
        for trie, arguments in zip(tries, self.atoms, strict=True):
            if len(trie.index.order) > KEYS_MAX and list(trie.index.order) != sorted(trie.index.order):
                raise ConstructError(
                    arguments.atom.where,
                    f"the value of {arguments.atom.predicate} is joined, and an index by it needs "
                    f"{len(trie.index.order)} columns, where there can be {KEYS_MAX}; derive a view of fewer keys and "
                    "join that",
                )

    def _trie(self, arguments: Arguments, level: Mapping[str, int]) -> Trie:
        levels = sorted(level[n] for n in arguments.names if n is not None)
        return Trie(self.index(arguments, level), tuple(levels), arguments.negated, str(arguments.atom))

    def index(self, arguments: Arguments, level: Mapping[str, int]) -> Index:
        """The index that an atom reads where variables stand at these levels."""
        used = sorted((level[n], c) for c, n in enumerate(arguments.names) if n is not None)
        columns = [c for _, c in used]
        columns += [c for c in range(len(arguments.names)) if c not in columns]
        predicate = self.predicates[arguments.atom.predicate]
        columns += [c for c in range(self.stored_keys[predicate.name]) if c not in columns]
        return Index(predicate.name, tuple(columns))


def _occurrences(literal: Atom | Compare | Negation) -> list:
    """Every term of a literal, negated ones twice so that no variable of them counts as used once."""
    if isinstance(literal, Atom):
        return list(literal.terms)
    if isinstance(literal, Compare):
        return [literal.left, literal.right] * 2
    return [t for inner in literal.body for t in _occurrences(inner)] * 2


def _column(index: Index, stored_keys: int, column: int) -> int:
    """Where a predicate's column stands in an index: keys in the index's order, then the values."""
    if column in index.order:
        return index.order.index(column)
    return len(index.order) + column - stored_keys
