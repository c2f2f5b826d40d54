"""The bodies of a recursive stratum, in arrays for the kernel that evaluates it in memory
(kernels/rounds.py).

    path(x, z) <- path(x, y), edge(y, z).       edge sorted by its first column, with a hash table; path in chains

A body is plain if, starting from any of its facts, each further atom shares variables with only one
earlier atom, so that no two atoms are intersected, and if it computes only sums of integers. An
atom may also share variables with several if those before it list few rows, since looking all of
them up then costs less than intersecting:

    points(v, h) <- load(v, b, f), points(b, g), held(g, f, h).     from held: load by f, few; points by b and g

Others are evaluated in rounds of probes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ivm.join.kernels import tries
from ivm.lang.ir import Binary, Const, Term, Var, variables
from ivm.lang.types import has_ids
from ivm.plan.plan import Index, Plan
from ivm.rules.installed import Installed, index_columns
from ivm.rules.rule import InstalledStratum
from ivm.terms.encoder import Encoder
from ivm.ways.recursion.facts import Body
from ivm.ways.recursion.kernels import rounds as kernel
from pagestore.compiled import TypedKernel
from pagestore.host import WORD_MAX, Transaction, Tree, begins, read_batches, sort_order

HASH_ROWS = TypedKernel(kernel.hash_rows)

TESTS = {tries.EQ: kernel.EQ, tries.GE: kernel.GE, tries.LE: kernel.LE, tries.NE: kernel.NE}


# rows that atoms may list for a fact, in the mean, before one that shares variables with several
FAN_OUT_MAX = 64


class NotPlain(Exception):
    """Raised for a body that cannot be evaluated in memory."""


class Atom(NamedTuple):
    """An atom of a body: its predicate, and the variable of each column that is used."""

    predicate: str
    columns: dict[int, int]
    negated: bool


class Test(NamedTuple):
    """A condition on a variable: its kind, and a sum of a constant and up to two variables, each
    with a sign.
    """

    kind: int
    variable: int
    constant: int
    others: tuple[tuple[int, int], ...]


class FlatBodies:
    """All bodies of one stratum."""

    def __init__(
        self,
        txn: Transaction,
        installed: Installed,
        stratum: InstalledStratum,
        bodies: Sequence[Body],
        encode: Encoder,
        below: Mapping[Index, Tree] | None = None,
    ) -> None:
        """Read relations from the trees `below`, if given, rather than from the transaction.
        Raises NotPlain.
        """
        self._txn, self._installed, self._encode, self._below = txn, installed, encode, below or {}
        self.names = sorted(stratum.recursive)  # predicate p of the kernel is names[p]
        layouts = [installed.layouts[name] for name in self.names]
        self.keys = np.array([layout.keys for layout in layouts], np.int64)
        self.folds = bool(layouts[0].shown)
        aggregate = stratum.rules[0].definition.aggregate
        self.fold = 0 if aggregate is None else 1 if aggregate.op == "min" else -1
        if aggregate and any(
            has_ids(installed.program.predicates[name].types[-1]) for name in self.names
        ):
            raise NotPlain  # the words of texts are not in text order
        self.words = int(self.keys.max()) + self.folds
        self._lists: list[int] = []
        self._steps: list[list[int]] = []
        self._tests: list[list[int]] = []
        self._indices: list[list[int]] = [[-1, 0, 0]]
        self._relations: dict[tuple[str, tuple[int, ...]], int] = {}
        rows: dict[int, list[list[int]]] = {p: [] for p in range(len(self.names))}
        # key columns that each fact copies from its only parent
        self.kept = set(range(int(self.keys.min())))
        self.depth = self.variables = 1
        self.constants: list[int] = []  # that facts may contain, in addition to words of relations
        self.computes_keys = False
        for body in bodies:
            for predicate, row in self._lay_body(body) if body.own else ():
                rows[predicate].append(row)
        self.below = sum(txn.tree(name).count for name in {name for name, _ in self._relations})
        self._of = np.cumsum([0, *(len(found) for found in rows.values())], dtype=np.int64)
        self._bodies = [row for found in rows.values() for row in found]

    def columns(self, p: int) -> int:
        """Return how many words a fact of a predicate has in its tree: keys, a value if
        aggregated, and the rank.
        """
        return int(self.keys[p]) + self.folds + 1

    # -- layout

    def _lay_body(self, body: Body) -> Iterator[tuple[int, list[int]]]:
        """Yield, for each recursive atom of a body, its predicate and the body's row when it
        starts with that atom.
        """
        plan, aggregate = body.plan, body.rule.aggregate
        if plan.filters:
            raise NotPlain
        number = {name: i for i, name in enumerate(plan.columns)}
        for name, _ in plan.computed:
            number[name] = len(number)
        self.variables = max(self.variables, len(number))
        atoms = self._atoms(plan, number)
        tests = [Test(TESTS.get(b.kind, -1), b.level, b.constant, b.others) for b in plan.bounds]
        tests += [self._computed(body, number, name, term) for name, term in plan.computed]
        head = body.rule.heads[0]
        shown = head.args if aggregate else head.terms
        terms = [number[term.name] for term in shown if isinstance(term, Var)]
        value = number[aggregate.argument.name] if aggregate and aggregate.argument else -1
        self._note_computing(tests, terms)
        own = [a for a in atoms if a.predicate in self.names and not a.negated]
        others = [a for a in atoms if a not in own]
        self.kept = {c for c in self.kept if len(own) == 1 and own[0].columns.get(c) == terms[c]}
        for nth, waiting in enumerate(own):
            first = len(self._steps)
            kept = self._relations.copy(), self._indices.copy()
            try:
                self._lay_steps(waiting, nth, own, others, tests)
            except NotPlain:
                del self._steps[first:]
                self._relations, self._indices = kept
                self._lay_steps(waiting, nth, own, others, tests, relations_first=True)
            self.depth = max(self.depth, len(self._steps) - first)
            row = [first, len(self._steps), self.names.index(body.view), self._listed(terms)]
            yield self.names.index(waiting.predicate), [*row, len(terms), value]

    def _atoms(self, plan: Plan, number: Mapping[str, int]) -> list[Atom]:
        """Return the atoms of a plan, with the numbers of their variables."""
        atoms = []
        for t, trie in enumerate(plan.tries):
            columns = dict(zip(trie.index.order, trie.levels, strict=False))
            layout = self._installed.layouts[trie.index.predicate]
            for read in plan.reads:
                if read.trie == t:
                    columns[index_columns(trie.index, layout)[read.column]] = number[read.variable]
            atoms.append(Atom(trie.index.predicate, columns, trie.negated))
        return atoms

    def _note_computing(self, tests: Sequence[Test], terms: Sequence[int]) -> None:
        """Note what tests compute of the head's terms: constants, or keys from other variables."""
        kinds = kernel.COMPUTE, kernel.EQ
        computing = [t for t in tests if t.kind in kinds and t.variable in terms]
        self.constants += [t.constant for t in computing if not t.others]
        self.computes_keys |= any(
            t.others and (t.constant or len(t.others) > 1 or t.others[0][1] < 0) for t in computing
        )

    def _computed(self, body: Body, number: Mapping[str, int], name: str, term: Term) -> Test:
        types = body.rule.types
        if types[name] != "int64" or not body.plan.nulls.isdisjoint(
            v.name for v in variables(term)
        ):
            raise NotPlain
        signs, constant = self._sum(term, 1, types)
        if len(signs) > 2:
            raise NotPlain
        return Test(
            kernel.COMPUTE, number[name], constant, tuple((number[v], sign) for v, sign in signs)
        )

    def _sum(
        self, term: Term, sign: int, types: Mapping[str, str]
    ) -> tuple[list[tuple[str, int]], int]:
        match term:
            case Var() if types[term.name] == "int64":
                return [(term.name, sign)], 0
            case Const() if term.type == "int64":
                return [], sign * self._encode(term)
            case Binary() if term.op in "+-":
                left, a = self._sum(term.left, sign, types)
                right, b = self._sum(term.right, sign if term.op == "+" else -sign, types)
                if abs(a + b) > WORD_MAX:
                    raise NotPlain
                return left + right, a + b
        raise NotPlain

    def _lay_steps(
        self,
        waiting: Atom,
        nth: int,
        recursive: Sequence[Atom],
        others: Sequence[Atom],
        tests: Sequence[Test],
        relations_first: bool = False,
    ) -> None:
        known = {*waiting.columns.values()}
        holders = [known.copy()]
        left = [
            (a, kernel.EARLIER if i < nth else kernel.NOT_LATER)
            for i, a in enumerate(recursive)
            if i != nth
        ]
        left += [(a, kernel.ANY) for a in others if not a.negated]
        absent, waiting_tests = [a for a in others if a.negated], list(tests)
        # atoms that list rows, and the columns by which they are looked up
        listed: list[tuple[str, list[int]]] = []
        step = [kernel.WAITING, 0, 0, 0, *self._taken(waiting, set()), 0, 0, kernel.ANY]
        while True:
            step[kernel.TESTS], step[kernel.TEST_COUNT] = self._due_tests(
                waiting_tests, absent, known, holders
            )
            self._steps.append(step)
            if not left:
                break
            atom, before = max(left, key=lambda one: self._priority(one[0], known, relations_first))
            left.remove((atom, before))
            bound = [column for column, v in sorted(atom.columns.items()) if v in known]
            shared = {atom.columns[column] for column in bound}
            if not bound or not (
                any(shared <= holder for holder in holders) or self._list_few(listed)
            ):
                raise NotPlain
            if len(bound) < len(atom.columns):
                listed.append((atom.predicate, bound))
            by = self._listed([word for column in bound for word in (column, atom.columns[column])])
            if atom.predicate in self.names:
                if self.folds:
                    before = kernel.ANY
                    bound = [c for c in bound if c < self.keys[self.names.index(atom.predicate)]]
                kind, of = kernel.FACTS, self._index(atom.predicate, bound)
            else:
                kind = kernel.RELATION
                of = self._relations.setdefault(
                    (atom.predicate, tuple(bound)), len(self._relations)
                )
            step = [kind, of, by, len(bound), *self._taken(atom, {*bound}), 0, 0, before]
            known |= {*atom.columns.values()}
            holders.append({*atom.columns.values()})
        if waiting_tests or absent:
            raise NotPlain

    def _priority(
        self, atom: Atom, known: set[int], relations_first: bool
    ) -> tuple[bool, int, bool]:
        """Return the priority of an atom: those with all variables known come first, then those
        with the most.
        """
        n = sum(v in known for v in atom.columns.values())
        return n == len(atom.columns), n, relations_first and atom.predicate not in self.names

    def _list_few(self, listed: Sequence[tuple[str, list[int]]]) -> bool:
        """Return whether atoms, looked up by columns, are relations that list few rows a fact."""
        rows = 1.0
        for predicate, bound in listed:
            if predicate in self.names:
                return False
            keys = self._read(predicate, tuple(bound))[:, bound].T
            sizes = np.diff(np.flatnonzero(begins(keys)), append=keys.shape[1])
            # the more rows a key has, the more facts have it
            rows *= float((sizes**2).sum()) / max(1, keys.shape[1])
        return rows <= FAN_OUT_MAX

    def _taken(self, atom: Atom, bound: set[int]) -> tuple[int, int]:
        """Return where in `lists` the columns are that give variables values, and how many."""
        words: list[int] = []
        seen: set[int] = set()
        for column, variable in sorted(atom.columns.items()):
            if column in bound:
                continue
            is_recursive = atom.predicate in self.names and self.folds
            value = is_recursive and column == self.keys[self.names.index(atom.predicate)]
            how = kernel.EQUAL if variable in seen else kernel.ASSIGN
            words += [self.words - 1 if value else column, how, variable]
            seen.add(variable)
        return self._listed(words), len(words) // 3

    def _due_tests(
        self, tests: list[Test], absent: list[Atom], known: set[int], holders: list[set[int]]
    ) -> tuple[int, int]:
        """Append the tests whose variables are known now, and those that compute others; return
        where and how many.
        """
        first = len(self._tests)
        ready = True
        while ready:
            ready = False
            for test in [*tests]:
                if not known.issuperset(v for v, _ in test.others):
                    continue
                if test.variable not in known and test.kind not in (kernel.COMPUTE, kernel.EQ):
                    continue
                kind = kernel.EQ if test.variable in known else kernel.COMPUTE
                kind = test.kind if test.kind not in (kernel.COMPUTE, kernel.EQ) else kind
                (a, s), (b, t) = (*test.others, (-1, 0), (-1, 0))[:2]
                self._tests.append([kind, test.variable, test.constant, a, s, b, t])
                if kind == kernel.COMPUTE:
                    known.add(test.variable)
                    for holder in holders:
                        if holder.issuperset(v for v, _ in test.others):
                            holder.add(test.variable)
                tests.remove(test)
                ready = True
        for atom in [*absent]:
            if known.issuperset(atom.columns.values()):
                bound = sorted(atom.columns)
                of = self._relations.setdefault(
                    (atom.predicate, tuple(bound)), len(self._relations)
                )
                at = self._listed(
                    [word for column in bound for word in (column, atom.columns[column])]
                )
                self._tests.append([kernel.ABSENT, of, 0, at, 0, len(bound), 0])
                absent.remove(atom)
        return first, len(self._tests) - first

    def _index(self, predicate: str, columns: Sequence[int]) -> int:
        p, bound = self.names.index(predicate), list(columns)
        for number, (of, at, n) in enumerate(self._indices):
            if number and of == p and self._lists[at : at + n] == bound:
                return number
        self._indices.append([p, self._listed(bound), len(bound)])
        return len(self._indices) - 1

    def _listed(self, words: Sequence[int]) -> int:
        self._lists += words
        return len(self._lists) - len(words)

    def arrays(self) -> kernel.Bodies:
        """Return the bodies as the kernel takes them, with the relations that they read."""
        pieces: list[np.ndarray] = []
        relations, at = [], 0
        for (predicate, bound), _ in sorted(self._relations.items(), key=lambda item: item[1]):
            rows = self._read(predicate, bound)
            n, width = rows.shape
            size = 1 << int(2 * n + 1).bit_length()
            relations.append([at, n, width, at + rows.size, size - 1])
            pieces += [rows.ravel(), np.zeros(size, np.int64)]
            at += rows.size + size
        data = np.concatenate([*pieces, np.zeros(1, np.int64)])
        for (_, bound), number in self._relations.items():
            start, n, width, table, mask = relations[number]
            HASH_ROWS.call(data, start, n, width, np.array(bound, np.int64), table, mask)
        return kernel.Bodies(
            self._of,
            _table(self._bodies, kernel.BODY),
            _table(self._steps, kernel.STEP),
            _table(self._tests, kernel.TEST_WORDS),
            np.array([*self._lists, 0], np.int64),
            _table(self._indices, 3),
            _table(relations, 5),
            data,
        )

    def _read(self, predicate: str, bound: tuple[int, ...]) -> np.ndarray:
        """Return the rows int64[n, C] of a relation, sorted by some columns."""
        visible = self._installed.layouts[predicate].visible
        tree = self._below.get(
            self._installed.stored[predicate].indices[0], self._txn.tree(predicate)
        )
        batches = read_batches(self._txn.pages, tree, columns=tuple(range(visible)))
        table = np.concatenate([*batches, np.empty((visible, 0), np.int64)], axis=1)
        if bound != tuple(range(len(bound))):
            table = table.take(sort_order(np.ascontiguousarray(table[list(bound)])), axis=1)
        return np.ascontiguousarray(table.T)


def _table(rows: Sequence[Sequence[int]], width: int) -> np.ndarray:
    return np.array(rows, np.int64).reshape(-1, width)
