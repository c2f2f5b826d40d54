"""Sort the literals of a conjunction by what evaluates them, and lay them out by a key order.

    F(x, y) <- G(x, z), H(y, z), I(x, y, z), R(z).        order [x, y, z]

    level     x            y            z
    tries     G I          H I          G H I R
    sensors   -            H            G H R            (G at x, and I, follow the order and need none)

An atom whose arguments do not follow the order reads a permuted index.  Constants and repeated
variables get levels of their own, fixed by a bound.  Functions' values, computed variables and
other comparisons are evaluated on batches of bindings.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from ivm.errors import ConstructError
from ivm.join.kernels.tries import EQ
from ivm.lang.ir import (
    Atom,
    Compare,
    Const,
    Disjunct,
    Literal,
    Negation,
    Predicate,
    Rule,
    Term,
    Var,
    atoms,
    variables,
)
from ivm.lang.nulls import names_of_null_words, names_of_nulls, tests_null
from ivm.plan.linear import Linear, linear, pinned
from ivm.plan.plan import Bound, Distinct, Index, Link, Plan, Read, Scan, Trie, permuted
from ivm.terms.conditions import SAME, Choice, Filter, is_sure
from ivm.terms.encoder import Encode
from ivm.terms.evaluator import risk
from pagestore.host import KEYS_MAX, NULL

SCANNED = "a change of the relation is all that is read"


@dataclass
class Arguments:
    """An atom during planning: each column's key variable, None where its trie is cut."""

    atom: Atom
    names: list[str | None]
    negated: bool

    @cached_property
    def text(self) -> str:
        """The atom as it is written."""
        return str(self.atom)


class Conjunction:
    """The literals of one disjunct, sorted by what evaluates them; `plan` lays them out by a key
    order.

    `keys` are the variables that become levels of the join; `equal` maps those that an equality
    fixes to (another variable or None, a constant), whose sum is the value.
    """

    def __init__(
        self,
        rule: Rule,
        disjunct: Disjunct,
        predicates: Mapping[str, Predicate],
        stored_keys: Mapping[str, int],
        encode: Encode,
        whole: Collection[str] = (),
    ) -> None:
        """`stored_keys` has the number of key words of each stored predicate; no atom of a `whole`
        predicate is cut.

        Raises ConstructError, with the place, for a literal that cannot be evaluated.
        """
        self._whole = whole
        self.rule, self.predicates, self.stored_keys = rule, predicates, stored_keys
        self.encode = encode
        self.disjunct = disjunct
        self.atoms: list[Arguments] = []
        self.reads: list[tuple[int, int, str]] = []  # (atom, column, variable)
        self.equal: dict[str, tuple[str | None, int]] = {}
        self.bounds: list[Linear] = []
        # bounds that hold for nearly all values, so that they pin none
        self.not_null: list[Linear] = []
        self.computed: list[tuple[str, Term]] = []
        self.filters: list[Filter] = []
        self.links: list[tuple[Filter, Link]] = []
        self._fresh = 0
        self.nulls = names_of_nulls(disjunct, predicates)
        self._null_words = names_of_null_words(disjunct, predicates, self.nulls)
        # The text alone decides which variables are keys. Atoms add fresh ones, for constants and
        # repeated variables; after that it is known which variables atoms enumerate, and so which
        # comparisons the join can seek by.
        self.used_once = used_once(rule, disjunct, bool(whole), predicates)
        # values of functions that are negated by their keys
        self._unread = {v for x in disjunct if isinstance(x, Negation) for v in x.exists}
        self.keys = self._keys_in_atoms(disjunct) | self._joined_values(disjunct)
        for literal in disjunct:
            if isinstance(literal, Atom):
                self._add_atom(literal, negated=False)
        for literal in disjunct:
            if isinstance(literal, Negation):
                self._add_negation(literal)
        self.keys |= {name for atom in self.atoms for name in atom.names if name is not None}
        self._add_comparisons([literal for literal in disjunct if isinstance(literal, Compare)])
        self._check_negated()

    @cached_property
    def holding(self) -> dict[str, list[Arguments]]:
        """Map each key variable to the positive atoms that hold it; complete with all atoms."""
        return {
            name: [a for a in self.atoms if not a.negated and name in a.names] for name in self.keys
        }

    @cached_property
    def enumerated(self) -> set[str]:
        """Return the key variables that some positive atom enumerates."""
        return {name for name, holding in self.holding.items() if holding}

    # -- literals

    def _keys_in_atoms(self, disjunct: Disjunct) -> set[str]:
        """Return the variables in key columns of atoms, negated ones included."""
        positive = [x for x in disjunct if isinstance(x, Atom)]
        negated = [
            x for n in disjunct if isinstance(n, Negation) for x in n.body if isinstance(x, Atom)
        ]
        terms = chain.from_iterable(atom.args for atom in (*positive, *negated))
        keyed = {term.name for term in terms if isinstance(term, Var) and term not in self._unread}
        values = [
            atom.value
            for atom in atoms(disjunct)
            if isinstance(atom.value, Var)
            and atom.value not in self._unread
            and self._stores_value_as_key(atom)
        ]
        return keyed | {value.name for value in values if value.name not in self.used_once}

    def _joined_values(self, disjunct: Disjunct) -> set[str]:
        """Return the variables of functions' values that the join seeks, since other atoms or
        comparisons fix them.

        Filtering by them afterwards would enumerate all combinations. A value can be sought only if
        an index by it has room for all keys of its function.
        """
        positive = [x for x in disjunct if isinstance(x, Atom) and x.predicate not in self._whole]
        values = Counter(
            x.value.name for x in positive if isinstance(x.value, Var) and len(x.args) < KEYS_MAX
        )
        shared = {name for name, times in values.items() if times > 1}
        within = [{v.name for v in variables(x)} for x in positive]
        bound = {name for names in within for name in names}
        comparisons = [
            linear(x, self.rule.types, self.encode) for x in disjunct if isinstance(x, Compare)
        ]
        for names in pinned(
            [x for x in comparisons if x and x.seekable and x.times.keys() <= bound]
        ):
            if len(names) > 1 and not any(names <= held for held in within):
                shared |= names & values.keys()
        return shared

    def _fresh_name(self) -> str:
        """Return a fresh variable name, for a column that an equality fixes."""
        self._fresh += 1
        return f"${self._fresh}"

    def _add_atom(self, atom: Atom, negated: bool) -> None:
        value = None if atom.value in self._unread else atom.value
        as_key = value is not None and self._is_key(atom, value)
        read = isinstance(value, Var) and not as_key and value.name not in self.used_once
        whole = negated or read or atom.predicate in self._whole
        names: list[str | None] = []
        for term in atom.args:
            names.append(self._argument(term, names, whole))
        if as_key:
            assert value is not None
            names.append(
                self._argument(value, names, whole=negated or atom.predicate in self._whole)
            )
        # a trie has at least one level: enumerate the first column
        if all(name is None for name in names):
            names[0] = self._argument(atom.terms[0], [], whole=True)
        if read:
            assert isinstance(value, Var)
            self.reads.append((len(self.atoms), len(atom.args), self._read_as(value.name)))
        self.atoms.append(Arguments(atom, names, negated))

    def _is_key(self, atom: Atom, value: Var | Const) -> bool:
        return (
            isinstance(value, Const) or value.name in self.keys or self._stores_value_as_key(atom)
        )

    def _stores_value_as_key(self, atom: Atom) -> bool:
        """Return whether the atom is of a derived function, which stores its value as a key (see
        views/heads.py).
        """
        return self.stored_keys[atom.predicate] > len(atom.args)

    def _argument(self, term: Var | Const, before: list[str | None], whole: bool) -> str | None:
        """Return the key variable for a column, given those of the columns before; None if the trie
        may be cut there.

        `whole` says that no column may be cut.
        """
        if isinstance(term, Const):
            name = self._fresh_name()
            self.equal[name] = (None, self.encode(term))
            return name
        if term in self._unread or (term.name in self.used_once and not whole):
            return None
        if term.name in before:
            name = self._fresh_name()
            self.equal[name] = (term.name, 0)
            return name
        return term.name

    def _read_as(self, variable: str) -> str:
        """Name a read value: a variable that is read twice gets a fresh name and a filter that
        compares both.
        """
        if all(variable != name for _, _, name in self.reads):
            return variable
        name = self._fresh_name()
        self.filters.append(Compare(SAME, Var(variable), Var(name)))
        return name

    def _add_negation(self, negation: Negation) -> None:
        if len(negation.body) != 1 or not isinstance(negation.body[0], Atom):
            raise ConstructError(
                negation.where,
                "a negation is evaluated of one atom whose variables are bound outside; derive the "
                "rest as a view of its own and negate that",
            )
        self._add_atom(negation.body[0], negated=True)

    def _add_comparisons(self, comparisons: list[Compare]) -> None:
        """Sort comparisons into bounds, which the join seeks by, definitions of computed
        variables, and filters.
        """
        known = self.keys | {name for _, _, name in self.reads}
        # independent of the order in the text
        waiting = sorted(comparisons, key=lambda x: (risk(x), str(x)))
        while waiting:
            literal = next((x for x in waiting if self._is_ready(x, known)), None)
            if literal is None:
                raise ConstructError(
                    waiting[0].where,
                    "the variables of this comparison are defined by each other only",
                )
            waiting.remove(literal)
            target = self._defines(literal, known)
            if target is None:
                self._compare(literal)
            else:
                self.computed.append(
                    (target.name, literal.right if literal.left == target else literal.left)
                )
                known.add(target.name)

    def _is_ready(self, literal: Compare, known: set[str]) -> bool:
        return (
            known.issuperset(v.name for v in variables(literal))
            or self._defines(literal, known) is not None
        )

    @staticmethod
    def _defines(literal: Compare, known: set[str]) -> Var | None:
        """Return the variable that an equation computes from known ones, if there is one."""
        if literal.op != "=":
            return None
        for side, other in ((literal.left, literal.right), (literal.right, literal.left)):
            if (
                isinstance(side, Var)
                and side.name not in known
                and {v.name for v in variables(other)} <= known
            ):
                return side
        return None

    def _check_negated(self) -> None:
        """Raise ConstructError if a negated atom holds a computed variable."""
        for a in self.atoms:
            for name in a.names:
                fixed = name is None or name in self.enumerated or name in self.equal
                if a.negated and not fixed:
                    raise ConstructError(
                        a.atom.where,
                        f"`{name}` is computed and then negated, which is evaluated for sums with "
                        f"a constant only; "
                        "derive the computed values as a view of their own and negate against that",
                    )

    def _compare(self, literal: Compare) -> None:
        """Add a comparison of known variables as an equality, a bound or a filter."""
        if (
            literal.op == "!="
            and tests_null(literal)
            and isinstance(literal.left, Var)
            and literal.left.name in self.keys
        ):
            # null is the least word
            self.not_null.append(Linear({literal.left.name: 1}, ">=", -(NULL + 1)))
            return
        form = linear(literal, self.rule.types, self.encode)
        if form is None or not form.seekable or not form.times.keys() <= self.keys:
            self.filters.append(literal)
            link = form.link() if form and self.nulls.isdisjoint(form.times) else None
            if link and isinstance(literal.left, Var) and isinstance(literal.right, Var):
                self.links.append((literal, link))
        elif not self.nulls.isdisjoint(form.times) or not self._fixes(form):
            self.bounds.append(form)

    def _fixes(self, form: Linear) -> bool:
        """Add an equation to `equal` if nothing else gives a variable its value; return whether
        it was added.
        """
        name = next(
            (n for n in reversed(form.times) if n not in self.enumerated and n not in self.equal),
            None,
        )
        if (
            name is None
            or form.op != "="
            or (form.constant and self.rule.types.get(name) != "int64")
        ):
            return False
        sign, others = form.times[name], [n for n in form.times if n != name]
        if len(others) > 1 or any(form.times[n] == sign for n in others):
            return False
        self.equal[name] = (others[0] if others else None, -sign * form.constant)
        return True

    # -- layout

    def plan(self, order: Sequence[str], cost: float = 0.0, considered: int = 0) -> Plan:
        """Return the plan for a key order, with `cost` and `considered` recorded in it.  Raises
        ConstructError.
        """
        level = {name: i for i, name in enumerate(order)}
        tries = tuple(self._trie(a, level) for a in self.atoms)
        self._check_width(tries)
        equalities = [
            Bound(level[name], EQ, () if other is None else ((level[other], 1),), constant)
            for name, (other, constant) in self.equal.items()
        ]
        bounds = equalities + [form.bound(level) for form in (*self.bounds, *self.not_null)]
        reads = tuple(
            Read(a, _column(tries[a].index, column), name) for a, column, name in self.reads
        )
        return Plan(
            tuple(order), tries, tuple(bounds), reads, tuple(self.computed), tuple(self.filters),
            cost, considered, nulls=self._null_words, links=tuple(self.links),
        )  # fmt: skip

    def _check_width(self, tries: Iterable[Trie]) -> None:
        """Raise ConstructError if a permuted index has more columns than a key can."""
        for trie, arguments in zip(tries, self.atoms, strict=True):
            if len(trie.index.order) > KEYS_MAX and permuted(trie.index):
                raise ConstructError(
                    arguments.atom.where,
                    f"the value of {arguments.atom.predicate} is joined, and an index by it needs "
                    f"{len(trie.index.order)} columns, where there can be {KEYS_MAX}; derive a "
                    "view of fewer keys and join that",
                )

    def in_own_order(self, order: Sequence[str], t: int) -> tuple[str, ...]:
        """Return an order with variables also for columns that nothing reads, where rows are found
        by their key and their other columns follow in order: what is read is then the relation, and
        not an index of some columns.

            fact[i] = (a, b, c, v) is read by i, a, v        the order [i, a, v] becomes [i, a, $0.2, $0.3, v]

        A row has one value for each.  The order begins with the variables of atom t, and no others
        among them.
        """
        if not self._with_unread:
            return (*order,)
        placed, level = [*order], {name: place for place, name in enumerate(order)}
        begun = 1 + max(level[name] for name in self.atoms[t].names if name)
        for number, a in self._with_unread:
            columns = [c for _, c in self._used(a, level)]
            keys = self.predicates[a.atom.predicate].key_count
            if columns != sorted(columns) or columns[:keys] != [*range(keys or 0)]:
                continue
            before = {
                c: next(name for name in a.names[c:] if name)
                for c in range(columns[-1])
                if a.names[c] is None
            }
            if number == t or all(level[name] >= begun for name in before.values()):
                for c, name in before.items():
                    placed.insert(placed.index(name), f"${number}.{c}")
        return (*placed,)

    @cached_property
    def _with_unread(self) -> list[tuple[int, Arguments]]:
        """The atoms of functions of several values of which columns are read, but some before
        these are not.
        """
        unread = [(n, a) for n, a in enumerate(self.atoms) if not a.negated and None in a.names]
        keyed = (
            (n, a) for n, a in unread if self.predicates[a.atom.predicate].key_count is not None
        )
        return [(n, a) for n, a in keyed if any(a.names[a.names.index(None) :])]

    def _used(self, arguments: Arguments, level: Mapping[str, int]) -> list[tuple[int, int]]:
        """Return the levels of an atom, each with its column."""
        places = [(level[name], c) for c, name in enumerate(arguments.names) if name is not None]
        for number, other in self._with_unread:
            if other is not arguments:
                continue
            unread = {f"${number}.{c}": c for c, name in enumerate(arguments.names) if name is None}
            places += [(level[name], c) for name, c in unread.items() if name in level]
        return sorted(places)

    def _trie(self, arguments: Arguments, level: Mapping[str, int]) -> Trie:
        used = self._used(arguments, level)
        levels = tuple([place for place, _ in used])
        return Trie(
            self._index(arguments, [c for _, c in used]), levels, arguments.negated, arguments.text
        )

    def index(self, arguments: Arguments, level: Mapping[str, int]) -> Index:
        """Return the index that an atom reads, given the level of each variable."""
        return self._index(arguments, [c for _, c in self._used(arguments, level)])

    def _index(self, arguments: Arguments, first: Sequence[int]) -> Index:
        predicate = self.predicates[arguments.atom.predicate]
        keys = self.stored_keys[predicate.name]
        others = [c for c in range(max(len(arguments.names), keys)) if c not in first]
        index = Index(predicate.name, (*first, *others))
        if permuted(index) and predicate.key_count is not None:  # the key identifies rows
            return Index(predicate.name, (*first, *(c for c in others if c < keys)))
        return index


class ScanConjunction(Conjunction):
    """The literals of a body of one relation, whose rows are read in the order of the relation's
    own key.

        total[b] = t <- agg<<t = sum(d)>> r(a, b, c, d), c < 7.        r has the key (a)

        levels [a]        reads b, c, d        filter c < 7

    All comparisons are filters, and no index is permuted: a change of the relation is all that
    maintenance needs.
    """

    @staticmethod
    def applies(disjunct: Disjunct) -> bool:
        """Return whether a disjunct reads one relation only, once."""
        literals = [literal for literal in disjunct if not isinstance(literal, Compare)]
        return len(literals) == 1 and isinstance(literals[0], Atom)

    def _keys_in_atoms(self, disjunct: Disjunct) -> set[str]:
        (atom,) = (literal for literal in disjunct if isinstance(literal, Atom))
        keys = atom.terms[: self.stored_keys[atom.predicate]]
        return {term.name for term in keys if isinstance(term, Var)}

    def _joined_values(self, disjunct: Disjunct) -> set[str]:
        return set()

    def _add_atom(self, atom: Atom, negated: bool) -> None:
        names, terms = list[str](), atom.terms
        for term in terms[: self.stored_keys[atom.predicate]]:
            names.append(self._column(term, names))
        unread, keys = used_once(self.rule, self.disjunct, True, self.predicates), len(names)
        for place, term in enumerate(terms[keys:], keys):
            if not isinstance(term, Var) or term.name not in unread:
                names.append(self._column(term, names))
                self.reads.append((0, place, names[-1]))
        del names[keys:]
        while not self.reads and len(names) > 1 and names[-1] in self.used_once:
            names.pop()  # bindings are the distinct prefixes of keys
        self.atoms.append(Arguments(atom, [*names], negated))

    def _column(self, term: Var | Const, known: Sequence[str]) -> str:
        """Return the variable of a column: a fresh one, and a filter, for a constant or a
        repeated variable.
        """
        if isinstance(term, Var) and term.name not in known:
            return term.name
        name = self._fresh_name()
        self.filters.append(Compare(SAME, Var(name), term))
        return name

    def _compare(self, literal: Compare) -> None:
        self.filters.append(literal)

    def scan(self, once: bool = False) -> Plan:
        """Return the only plan."""
        (atom,) = self.atoms
        keys, index = self.stored_keys[atom.atom.predicate], atom.atom.predicate
        names = [name for name in atom.names if name is not None]  # all are
        trie = Trie(Index(index, (*range(keys),)), (*range(len(names)),), False, str(atom.atom))
        reads = tuple(Read(0, place, name) for _, place, name in self.reads)
        computed, filters = tuple(self.computed), tuple(self.filters)
        plan = Plan((*names,), (trie,), (), reads, computed, filters, nulls=self.nulls)
        return plan.going(Scan if len(names) == keys else Distinct, SCANNED, once=once)


class ChoiceConjunction(ScanConjunction):
    """The disjuncts of a rule as one: they hold the same atom, and differ by comparisons that
    cannot fail.

    n[b] = t <- agg<<t = count()>> r(a, b, c), c < 7 ; r(a, b, c), c > 9.        filter (c < 7 ; c > 9)
    """

    @staticmethod
    def joins(rule: Rule) -> bool:
        """Return whether a rule has the same atom in all its conjunctions, and cannot fail where
        these differ.
        """
        if len(rule.body) < 2 or not all(map(ScanConjunction.applies, rule.body)):
            return False
        (atom, *others) = {*atoms(chain(*rule.body))}
        common = set.intersection(*map(set, rule.body))
        held = {v.name for v in variables(atom)}
        left = (x for x in chain(*rule.body) if isinstance(x, Compare) and x not in common)
        return not others and all(is_sure(x, held) for x in left)

    def __init__(
        self,
        rule: Rule,
        predicates: Mapping[str, Predicate],
        stored_keys: Mapping[str, int],
        encode: Encode,
    ) -> None:
        self._common = tuple(
            x for x in rule.body[0] if all(x in disjunct for disjunct in rule.body)
        )
        left = (tuple(x for x in disjunct if x not in self._common) for disjunct in rule.body)
        self._options = tuple(tuple(x for x in option if isinstance(x, Compare)) for option in left)
        super().__init__(
            rule, (*self._common, *chain(*self._options)), predicates, stored_keys, encode
        )
        self.nulls = names_of_nulls(self._common, predicates)
        self._null_words = names_of_null_words(self._common, predicates, self.nulls)

    def _add_comparisons(self, comparisons: list[Compare]) -> None:
        super()._add_comparisons([x for x in comparisons if x in self._common])
        if all(self._options):
            self.filters.append(Choice(self._options))


def used_once(
    rule: Rule, disjunct: Disjunct, recursive: bool, predicates: Mapping[str, Predicate]
) -> set[str]:
    """Return the variables that occur once in a rule's head and a disjunct; an atom's trie can be
    cut before them.

    An aggregate counts every binding unless it is recursive. So only variables in the values of a
    function of several values qualify: its key identifies the binding.
    """
    terms = [term for literal in disjunct for term in _occurrences(literal)]
    terms += [argument for aggregate in rule.aggregates for argument in aggregate.arguments * 2]
    terms += [term for head in rule.heads for term in head.terms]
    counts = Counter(
        v.name for term in terms for v in ((term,) if isinstance(term, Var) else variables(term))
    )
    once = {name for name, n in counts.items() if n == 1}
    if rule.aggregates and not recursive:
        held = [(x, predicates[x.predicate].key_count) for x in disjunct if isinstance(x, Atom)]
        values = (x.args[keys:] for x, keys in held if keys is not None)
        once &= {v.name for v in variables(*chain.from_iterable(values))}
    return once


def _occurrences(literal: Literal) -> list[Term]:
    """Return the terms of a literal, twice for a comparison or negation, so that their variables
    are not used once.
    """
    if isinstance(literal, Atom):
        return list(literal.terms)
    if isinstance(literal, Compare):
        return [literal.left, literal.right] * 2
    return [t for inner in literal.body for t in _occurrences(inner)] * 2


def _column(index: Index, column: int) -> int:
    """Return the position of a predicate's column in an index record: keys in the index's order,
    then the values.
    """
    if column in index.order:
        return index.order.index(column)
    return len(index.order) + sum(c not in index.order for c in range(column))
