"""Evaluate an acyclic conjunction by columns: filter each relation, look up keys, and sum out what no head needs.

    total[r] = t <- agg<<t = sum(v)>> sale(i, s, p, v), store(s, r), part(p, 7).

    join tree     sale ── store          sale is the root, whose blocks pass by
                       └─ part
    store         s -> r                 looked up for each row of sale
    part          s such that ... 7      leaves rows of sale out, and has no column that is needed
    bindings      (r, v), of which each stands for as many as its `times` says

A relation other than the root becomes a table over the variables that it shares with its parent and those that are
needed above, with the number of bindings that each row represents (Yannakakis; factorised evaluation).  So a count of
paths is a product of sums, not a list.  Cyclic conjunctions are left to the Leapfrog Triejoin.

Where a comparison links two relations, rows of one look up a range of the other, in O((n + m + found) log n), and where
only their number matters, it is counted:

    later[] = n <- agg<<n = count()>> a(i, t), b(j, u), u >= t, u <= t + 50.       a slice of b in the order of u
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, permutations
from math import inf
from typing import NamedTuple

import numpy as np

from ivm.errors import RangeError
from ivm.join.groups import FAR, Lookup, Matches, summed
from ivm.join.join import MemoryUse, concatenated
from ivm.join.kernels.tries import EQ, GE, LE, NE
from ivm.join.slices import Found, Side, Slices
from ivm.lang.ir import Type, Var, variables
from ivm.plan.expression import COMPARE, Batch, Encoder, Evaluator, Linear
from ivm.plan.plan import Bound, Filter, Index, Plan, compared
from ivm.plan.scan import EVERY_KEY, Range, prefixes, text_keys, text_ranges
from pagestore.host import WORD_MAX, WORD_MIN, Pages, Tree, distinct, read_batches

OPS = {EQ: "=", NE: "!=", GE: ">=", LE: "<="}
MIRRORED = {GE: LE, LE: GE, NE: NE}
STRICT = {(LE, -1): "<", (GE, 1): ">"}  # by the kind and the constant of a bound
ATOMS_MAX = 32  # of a conjunction: a join tree is found in the cube of their number, and walked by recursion
EVERY = WORD_MIN, WORD_MAX  # word
TOO_MANY = "more than 2^62 bindings: a row would follow from more than 64 bits count"
SLICE = 1 << 20  # bindings that one block may become at a time, where a key has several rows


class Source(NamedTuple):
    """An atom as columns: the relation, the column of each variable, and whether it is negated."""

    predicate: str
    places: Mapping[str, int]
    levels: frozenset[str]
    negated: bool


class Condition(NamedTuple):
    """What bindings must satisfy, given the columns of some variables; a bound of two may be a link."""

    names: frozenset[str]
    holds: Callable[[Batch], np.ndarray]
    link: "Link | None" = None


class Link(NamedTuple):
    """A bound of two variables, which may be of two relations: `name` is `kind` (GE, LE, NE) `other` + constant."""

    name: str
    kind: int
    other: str
    constant: int

    def among(self, names: frozenset[str], others: frozenset[str]) -> "Link | None":
        """Return it with its first variable among some names, the second among others; None if they are not there."""
        if self.name in names and self.other in others:
            return self
        if self.name in others and self.other in names:
            return Link(self.other, MIRRORED[self.kind], self.name, -self.constant)
        return None


Part = tuple[Batch, np.ndarray | None]  # bindings, and how many each represents; None for one


def sources_of(plan: Plan) -> list[Source]:
    """Return the atoms of a plan as columns of their relations."""
    found = []
    for t, trie in enumerate(plan.tries):
        names = [plan.variables[level] for level in trie.levels]
        places = dict(zip(names, trie.index.order, strict=False))
        places |= {r.variable: _relation_column(trie.index, r.column) for r in plan.reads if r.trie == t}
        found.append(Source(trie.index.predicate, places, frozenset(names), trie.negated))
    return found


def _relation_column(index: Index, column: int) -> int:
    """Return the relation's column at a position of an index's records: its keys, then the columns that are left."""
    if column < len(index.order):
        return index.order[column]
    left = (c for c in range(len(index.order) + column + 1) if c not in index.order)
    return [c for _, c in zip(range(column - len(index.order) + 1), left, strict=False)][-1]


def join_tree(names: Sequence[frozenset[str]], links: Iterable[Link] = ()) -> list[tuple[int, int]] | None:
    """Return the edges of a join tree of sets of variables; None if they are cyclic, or if some share nothing.

    Trees that share nothing become one by links.

    >>> join_tree([frozenset("xy"), frozenset("yz"), frozenset("zw")]), join_tree([*map(frozenset, ("xy", "yz", "zx"))])
    ([(0, 1), (1, 2)], None)
    """
    left, edges = [*range(len(names))], list[tuple[int, int]]()
    while len(left) > 1:
        for one in left:
            shared = names[one].intersection(frozenset().union(*(names[i] for i in left if i != one)))
            parent = next((i for i in left if i != one and shared and shared <= names[i]), None)
            if parent is not None:
                edges.append((one, parent))
                left.remove(one)
                break
        else:
            return edges + linking if (linking := _linking(names, left, edges, links)) else None
    return edges


def _linking(
    names: Sequence[frozenset[str]], roots: Sequence[int], edges: Sequence[tuple[int, int]], links: Iterable[Link]
) -> list[tuple[int, int]]:
    """Return edges that make trees one by links; none if their roots share variables, or links do not suffice."""
    tree = [*range(len(names))]  # the root of the tree of each
    for one, parent in reversed(edges):
        tree[one] = tree[parent]
    found = list[tuple[int, int]]()
    apart = sum(len(names[root]) for root in roots) == len(frozenset().union(*(names[root] for root in roots)))
    for link in links if apart else ():
        pairs = permutations(range(len(names)), 2)
        ends = next(((a, b) for a, b in pairs if link.name in names[a] and link.other in names[b]), None)
        if ends and tree[ends[0]] != tree[ends[1]]:
            found.append(ends)
            old, new = (tree[end] for end in ends)
            tree = [new if root == old else root for root in tree]
    return found if len({*tree}) == 1 else []


def links_of(plan: Plan) -> list[Link]:
    """Return the bounds of a plan that may link two relations."""
    return [link for bound in plan.bounds if (link := _link(plan, bound))]


def _link(plan: Plan, bound: Bound) -> Link | None:
    if bound.kind == EQ or [sign for _, sign in bound.others] != [1]:
        return None
    return Link(plan.variables[bound.level], bound.kind, plan.variables[bound.others[0][0]], bound.constant)


def is_linked(plan: Plan, ranges: bool = False) -> bool:
    """Return whether a supported plan needs links to be one tree; with `ranges`, whether it needs some of `!=`."""
    links = [link for link in links_of(plan) if ranges and link.kind != NE]
    return join_tree([frozenset(s.places) for s in sources_of(plan) if not s.negated], links) is None


def is_supported(plan: Plan) -> bool:
    """Return whether a plan's bindings can be found by columns: it is acyclic, and negations have what they look up."""
    if len(plan.tries) > ATOMS_MAX:
        return False
    sources = sources_of(plan)
    positive = [s for s in sources if not s.negated]
    bound = frozenset().union(*(s.places for s in positive))
    if len(positive) < 2 and len(sources) < 2:
        return False
    if join_tree([frozenset(s.places) for s in positive], links_of(plan)) is None:
        return False
    fixed = [(plan.variables[b.level], _names(plan, b)) for b in plan.bounds if b.kind == EQ]
    for source in sources:
        own = frozenset(source.places)
        held = {name for name, names in fixed if names <= own}
        if source.negated and not (own & bound and own - bound <= held):
            return False
    names = [_names(plan, b) for b in plan.bounds]
    return all(one <= bound or any(s.negated and one <= frozenset(s.places) for s in sources) for one in names)


def is_exchangeable(plan: Plan, name: str, keys: Mapping[str, int]) -> bool:
    """Return whether bindings with some rows of a relation are those of the plan over these rows instead of it."""
    tree, sources = JoinTree(plan, keys), [source for source in sources_of(plan) if source.predicate == name]
    return len(sources) == 1 and not sources[0].negated and not tree.is_cut(sources[0])


def lists_pairs(plan: Plan, keys: Mapping[str, int], needed: frozenset[str]) -> bool:
    """Return whether keys lead to several rows that bindings need, whichever relation's blocks pass by."""
    tree = JoinTree(plan, keys)
    return all(tree.expanding(needed, root) for root in range(len(tree.sources)))


def _names(plan: Plan, bound: Bound) -> frozenset[str]:
    return frozenset(plan.variables[level] for level in (bound.level, *(other for other, _ in bound.others)))


def conditions_of(plan: Plan, types: Mapping[str, Type], encode: Encoder) -> list[Condition]:
    """Return a plan's bounds and `sure` filters as conditions on columns."""
    found, evaluator = list[Condition](), Evaluator(types, encode, plan.null_words)
    for b in plan.bounds:
        name = plan.variables[b.level]
        op = STRICT.get((b.kind, b.constant), "" if b.constant else OPS[b.kind])
        if op and [sign for _, sign in b.others] == [1]:
            holds = partial(_pair_holds, name, op, plan.variables[b.others[0][0]])
        elif b.others:
            times = {name: 1}
            for other, sign in b.others:
                times[plan.variables[other]] = times.get(plan.variables[other], 0) - sign
            form = Linear(times, OPS[b.kind], -b.constant)
            holds = partial(_linear_holds, form)
        else:
            holds = partial(_constant_holds, name, OPS[b.kind], b.constant)
        found.append(Condition(_names(plan, b), holds, _link(plan, b)))
    for one in plan.sure:
        names = frozenset(v.name for v in variables(*compared([one])))
        found.append(Condition(names, partial(_passes, evaluator, one)))
    return found


def _intervals(plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the least and the most word of each variable that is compared with constants."""
    found = dict[str, tuple[int, int]]()
    for bound in plan.bounds:
        if not bound.others and bound.kind != NE:
            name, word = plan.variables[bound.level], bound.constant
            least, most = found.get(name, EVERY)
            least = least if bound.kind == LE else max(least, word)
            found[name] = least, most if bound.kind == GE else min(most, word)
    return found


def _passes(evaluator: Evaluator, filter_: Filter, batch: Batch) -> np.ndarray:
    return evaluator.passes(filter_, batch)[0]


def _pair_holds(left: str, op: str, right: str, batch: Batch) -> np.ndarray:
    holds: np.ndarray = COMPARE[op](batch.columns[left], batch.columns[right])
    return holds


def _linear_holds(form: Linear, batch: Batch) -> np.ndarray:
    return form.holds(batch.columns, batch.n)


def _constant_holds(name: str, op: str, constant: int, batch: Batch) -> np.ndarray:
    holds: np.ndarray = COMPARE[op](batch.columns[name], constant)
    return holds


class JoinTree:
    """The positive atoms of a plan as a tree, with the number of key columns of each relation."""

    def __init__(self, plan: Plan, keys: Mapping[str, int]) -> None:
        self.sources = [s for s in sources_of(plan) if not s.negated]
        self._keys = keys
        self._constants = frozenset(plan.variables[b.level] for b in plan.bounds if b.kind == EQ and not b.others)
        self.near: list[list[int]] = [[] for _ in self.sources]
        for a, b in join_tree([frozenset(s.places) for s in self.sources], links_of(plan)) or ():
            self.near[a].append(b)
            self.near[b].append(a)

    def below(self, node: int, parent: int) -> frozenset[str]:
        """Return the variables of the subtree of a relation."""
        inner = (self.below(child, node) for child in self.near[node] if child != parent)
        return frozenset(self.sources[node].places).union(*inner)

    def is_cut(self, source: Source) -> bool:
        """Return whether a relation's key has columns that no variable of the binding holds."""
        keys = self._keys[source.predicate]
        return not source.negated and not {*range(keys)}.issubset(source.places.values())

    def identifying(self, node: int) -> frozenset[str]:
        """Return the variables that tell the rows of a relation apart."""
        source = self.sources[node]
        keys = self._keys[source.predicate]
        own = (name for name, column in source.places.items() if column < keys or self.is_cut(source))
        return frozenset(own) - self._constants

    def shared(self, node: int, parent: int) -> list[str]:
        """Return the variables that a relation shares with its parent."""
        return [name for name in self.sources[node].places if name in self.sources[parent].places]

    def kept(self, node: int, parent: int, needed: frozenset[str]) -> list[str]:
        """Return the needed variables of a subtree that the relation above lacks."""
        return sorted((self.below(node, parent) & needed) - self.sources[parent].places.keys())

    def expanding(self, needed: frozenset[str], node: int, parent: int = -1) -> int:
        """Count the relations below one with several rows for a key, of which columns are needed."""
        found = 0
        for child in self.near[node]:
            if child != parent:
                several = not self.identifying(child) <= {*self.shared(child, node)}
                found += several and bool(self.kept(child, node, needed))
                found += self.expanding(needed, child, node)
        return found


class ColumnJoin:
    """Evaluates one plan; `trees` are the relations' own trees, `needed` the variables that bindings must have.

    Instead of a relation's tree, some rows int64[C, n] of it may be `given`.
    """

    def __init__(
        self, pages: Pages, plan: Plan, trees: Mapping[str, Tree], needed: frozenset[str],
        types: Mapping[str, Type], encode: Encoder, given: Mapping[str, np.ndarray] = {},
    ) -> None:  # fmt: skip
        self._pages, self._trees, self._needed, self._rows = pages, trees, needed, given
        self._negated = [s for s in sources_of(plan) if s.negated]
        self._given = conditions_of(plan, types, encode)
        self.tree = JoinTree(plan, {name: tree.spec.keys for name, tree in trees.items()})
        self._intervals, self._texts, self._encode = _intervals(plan), text_ranges(plan.filters, types), encode
        self.read = 0  # rows of all relations
        self.met = [0] * (len(self.tree.sources) + 1)  # rows of each relation that its conditions left; bindings

    def parts(self) -> Iterator[Part]:
        """Yield all bindings, with columns for the needed variables.  Raises CorruptionError, RangeError."""
        for batch, times in self._stream(self.root, -1, self._needed):
            self.met[-1] += batch.n
            yield batch, times

    @cached_property
    def root(self) -> int:
        """The relation whose blocks pass by: the largest of those from which fewest keys lead to several rows."""
        return min(range(len(self.tree.sources)), key=self._unfit)

    def summary(self) -> tuple[str, list[str], list[str]]:
        """Return the relation whose blocks pass by, those that are looked up, and the variables that are summed out."""
        names = frozenset().union(*(s.places for s in self.tree.sources))
        others = [s.predicate for n, s in enumerate(self.tree.sources) if n != self.root]
        return self.tree.sources[self.root].predicate, others, sorted(names - self._needed)

    def _unfit(self, node: int) -> tuple[int, int]:
        name = self.tree.sources[node].predicate
        count = self._rows[name].shape[1] if name in self._rows else self._trees[name].count
        return self.tree.expanding(self._needed, node), -count

    # -- conditions

    @cached_property
    def _conditions(self) -> list[Condition]:
        """What bindings must satisfy, negated atoms included."""
        bound = frozenset().union(*(s.places for s in self.tree.sources))
        found = [c for c in self._given if c.names <= bound]
        return found + [self._absence(s, bound, self._given) for s in self._negated]

    @cached_property
    def _late(self) -> list[Condition]:
        """The conditions on variables that no relation has together."""
        return [c for c in self._conditions if not any(c.names <= s.places.keys() for s in self.tree.sources)]

    def _absence(self, source: Source, bound: frozenset[str], conditions: Sequence[Condition]) -> Condition:
        """Return the condition that a negated atom has no row for a binding."""
        names = [name for name in source.places if name in bound]
        own = [c for c in conditions if c.names <= source.places.keys()]
        columns = frozenset(names).union(*(c.names for c in own))
        rows = [_table(batch, names) for batch in self._blocks(source, columns, own)]
        lookup = Lookup(np.concatenate(rows, axis=1))
        return Condition(frozenset(names), lambda batch: lookup.find([batch.columns[n] for n in names]).times == 0)

    def _conditions_at(self, node: int, parent: int) -> list[Condition]:
        """Return the conditions that hold variables of several relations, and can be evaluated here and no lower."""
        lower = [self.tree.below(child, node) for child in self.tree.near[node] if child != parent]
        here = self.tree.below(node, parent)
        return [c for c in self._late if c.names <= here and not any(c.names <= names for names in lower)]

    def _linked(self, node: int, parent: int, above: frozenset[str], late: Sequence[Condition]) -> list[Condition]:
        """Return the conditions by which rows of a relation look up those of one below it, instead of comparing them.

        Where a key leads to one row, comparing is as good, and so it is where all that is not equal is listed.
        """
        here, other = (frozenset(self.tree.sources[n].places) for n in (node, parent))
        found = [c for c in late if c.link and c.link.among(here - other, other - here)]
        shared = self.tree.shared(node, parent)
        if shared and self.tree.identifying(node) <= {*shared}:
            return []
        if shared and self.tree.kept(node, parent, above):
            return [c for c in found if c.link and c.link.kind != NE]
        return found

    # -- one relation and what is below it

    def _stream(self, node: int, parent: int, above: frozenset[str]) -> Iterator[Part]:
        """Yield the bindings of a subtree, with columns for the variables `above` that are in it."""
        source, late = self.tree.sources[node], self._conditions_at(node, parent)
        below = [child for child in self.tree.near[node] if child != parent]
        linked = {child: self._linked(child, node, above, late) for child in below}
        late = [c for c in late if not any(c in conditions for conditions in linked.values())]
        needed = above.union(*(c.names for c in late))
        children = [
            Within(self, child, node, needed, linked[child]) if linked[child] else Child(self, child, node, needed)
            for child in below
        ]
        children.sort(key=lambda child: child.share)
        local = [c for c in self._conditions if c.names <= source.places.keys()]
        columns = needed.union(*(c.names for c in local), *(child.sought for child in children))
        for batch in self._blocks(source, columns, local):
            self.met[node] += batch.n
            parts: Iterable[Part] = [(batch, None)]
            for place, child in enumerate(children):
                after = needed.union(*(other.sought for other in children[place + 1 :]))
                parts = child.joined(parts, after)
            for found, times in parts:
                yield _passing(late, found, times)

    def _blocks(self, source: Source, columns: frozenset[str], conditions: Sequence[Condition]) -> Iterator[Batch]:
        """Yield the rows of a relation that pass conditions; one batch at least."""
        tree, cut = self._trees[source.predicate], self.tree.is_cut(source)
        names = [*source.levels] if cut else [name for name in source.places if name in columns]
        read = [source.places[name] for name in names] or [0]
        none = np.empty((len(read), 0), np.int64)
        ranges = self._ranges(source, tree)
        batches = (read_batches(self._pages, tree, lo, hi, tuple(read)) for lo, hi in ranges)
        blocks: Iterator[np.ndarray] = chain.from_iterable(batches)
        if source.predicate in self._rows:
            blocks = iter([self._rows[source.predicate][read]])
        if cut:  # a binding is a distinct tuple of the variables
            blocks = iter([distinct(np.concatenate([none, *blocks], axis=1))])
        block: np.ndarray | None = next(blocks, none)
        while block is not None:
            self.read += block.shape[1]
            batch = Batch(block.shape[1], dict(zip(names, block, strict=False)), {})
            yield _passing(conditions, batch, None)[0]
            block = next(blocks, None)

    def _ranges(self, source: Source, tree: Tree) -> list[Range]:
        """Return the ranges of keys of a relation that constants leave."""
        names = {column: name for name, column in source.places.items()}
        whole = prefixes(self._intervals.get(names.get(column, ""), EVERY) for column in range(tree.spec.keys))
        texts = self._texts.get(Var(names.get(0, "")))
        return [whole] if whole != EVERY_KEY or texts is None else text_keys(texts, tree.count, self._encode)

    def table(self, node: int, parent: int, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the rows int64[C, n] of a subtree by some variables, and how many bindings each represents."""
        memory, tells_apart = MemoryUse(step="joining by columns").begin(), self.tree.identifying(node) <= {*names}
        parts, weighed, summed_up = list[np.ndarray](), False, 0
        for batch, times in self._stream(node, parent, frozenset(names)):
            weighed = times is not None or not tells_apart
            parts.append(_table(batch, names, _weights(batch, times) if weighed else None))
            count = sum(part.shape[1] for part in parts)
            if weighed and count > 2 * summed_up + SLICE:
                parts = [summed(concatenated(parts), len(names), sorting=True)]
                summed_up = count = parts[0].shape[1]
            memory.hold(count, sum(part.nbytes for part in parts))
        rows = concatenated(parts)
        if not weighed:
            return rows, None
        rows = summed(rows, len(names), sorting=True)
        _refuse_overflow(rows[-1], rows.shape[1])
        return rows[:-1], None if (rows[-1] == 1).all() else rows[-1]


class Child:
    """The table of a subtree, which rows of the relation above look up by the variables `sought`."""

    def __init__(self, join: ColumnJoin, node: int, parent: int, needed: frozenset[str]) -> None:
        self.sought, self._kept = join.tree.shared(node, parent), join.tree.kept(node, parent, needed)
        rows, times = join.table(node, parent, [*self.sought, *self._kept])
        self.lookup = Lookup(rows[: len(self.sought)])
        self._columns = rows[len(self.sought) :].take(self.lookup.order, axis=1)
        self._times = None if times is None else times[self.lookup.order]

    @property
    def share(self) -> float:
        """Estimate the share of rows that find something."""
        return self.lookup.share

    def joined(self, parts: Iterable[Part], after: frozenset[str]) -> Iterator[Part]:
        """Yield bindings of the relation above with those of this subtree, and columns for the variables `after`."""
        for batch, times in parts:
            matches = self.lookup.find([batch.columns[name] for name in self.sought])
            if self.lookup.unique:
                which = np.flatnonzero(matches.times)
                yield self._taken(batch, times, which, matches.start[which], after)
                continue
            for which, rows in _expanded(matches):
                yield self._taken(batch, times, which, rows, after)

    def _taken(
        self, batch: Batch, times: np.ndarray | None, which: np.ndarray, rows: np.ndarray, after: frozenset[str]
    ) -> Part:
        columns = {name: column.take(which) for name, column in batch.columns.items() if name in after}
        columns |= {name: column.take(rows) for name, column in zip(self._kept, self._columns, strict=True)}
        times = times if times is None else times[which]
        if self._times is not None:
            own = self._times[rows]
            if times is not None:
                _refuse_overflow(own, int(times.max(initial=0)))
            times = own if times is None else times * own
        return Batch(len(which), columns, {}), times


class Within(Child):
    """The table of a subtree that rows of the relation above look up by a key, which may be empty, and by links."""

    share = inf  # the others find less

    def __init__(
        self, join: ColumnJoin, node: int, parent: int, needed: frozenset[str], linked: Sequence[Condition]
    ) -> None:
        here, other = (frozenset(join.tree.sources[n].places) for n in (node, parent))
        links = [link for c in linked if c.link and (link := c.link.among(here - other, other - here))]
        self._conditions, self._key = linked, join.tree.shared(node, parent)
        self._shown = join.tree.kept(node, parent, needed)
        self._counted, self._ends = not self._shown, [link.other for link in links]
        inner = [*dict.fromkeys(link.name for link in links)]
        self.sought = [*dict.fromkeys([*self._key, *self._ends])]
        self._kept = [*inner, *(name for name in self._shown if name not in inner)]
        rows, self._times = join.table(node, parent, [*self._key, *self._kept])
        if self._times is not None and self._times.sum(dtype=np.float64) >= FAR:
            raise RangeError(TOO_MANY)
        self._columns = rows[len(self._key) :]
        sides = [Side(inner.index(link.name), link.kind, link.constant) for link in links]
        self._slices = Slices(rows[: len(self._key)], self._columns[: len(inner)], sides, self._times, self._counted)

    def joined(self, parts: Iterable[Part], after: frozenset[str]) -> Iterator[Part]:
        """Yield bindings of the relation above with those of this subtree that are linked to them."""
        for batch, times in parts:
            if self._counted and times is None:
                times = np.ones(batch.n, np.int64)
            total, none = np.zeros(batch.n, np.int64), np.empty(0, np.int64)
            for found in self._found(batch):
                if self._counted and self._slices.exact:
                    total[found.which] += found.weights
                else:
                    yield from self._listed(batch, times, found, after)
            if times is None or not self._counted:
                yield self._taken(batch, times, none, none, after)
                continue
            _refuse_overflow(total, int(times.max(initial=0)))
            which = np.flatnonzero(total)
            columns = {name: column.take(which) for name, column in batch.columns.items() if name in after}
            yield Batch(len(which), columns, {}), times[which] * total[which]

    def _found(self, batch: Batch) -> Iterator[Found]:
        key, ends = ([batch.columns[name] for name in names] for names in (self._key, self._ends))
        return self._slices.find(key, ends)

    def _listed(self, batch: Batch, times: np.ndarray | None, found: Found, after: frozenset[str]) -> Iterator[Part]:
        """Yield the pairs of slices; those that miss a condition which the slices leave are left out."""
        exact = self._slices.exact
        columns = after if exact else after.union(*(c.names for c in self._conditions))
        shown = after.union(self._shown)
        for which, places in _expanded(Matches(found.times, found.start)):
            part = self._taken(batch, times, found.which[which], found.order.rows[places], columns)
            all_, times_ = part if exact else _passing(self._conditions, *part)
            yield all_._replace(columns={name: all_.columns[name] for name in shown & all_.columns.keys()}), times_


def _expanded(matches: Matches) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield bindings and the rows that they match, a slice of about SLICE pairs at a time."""
    ends = np.cumsum(matches.times)
    total, begin = int(ends[-1]) if len(ends) else 0, 0
    cuts = np.searchsorted(ends, np.arange(SLICE, total, SLICE)) + 1
    for end in [*np.unique(cuts).tolist(), len(ends)]:
        count = matches.times[begin:end]
        which = np.repeat(np.arange(begin, end), count)
        before = np.repeat(np.cumsum(count) - count, count)
        yield which, np.repeat(matches.start[begin:end], count) + np.arange(len(which)) - before
        begin = end


def _refuse_overflow(times: np.ndarray, by: int) -> None:
    """Raise RangeError if counts of bindings, each multiplied by `by`, may exceed 2^62."""
    if float(times.max(initial=0)) * by >= FAR:
        raise RangeError(TOO_MANY)


def _passing(conditions: Iterable[Condition], batch: Batch, times: np.ndarray | None) -> Part:
    """Return the bindings that satisfy conditions."""
    keep: np.ndarray | None = None
    for condition in conditions:
        holds = condition.holds(batch)
        keep = holds if keep is None else keep & holds
    if keep is None or keep.all():
        return batch, times
    which = np.flatnonzero(keep)
    columns = {name: column.take(which) for name, column in batch.columns.items()}
    return Batch(len(which), columns, {}), times if times is None else times[which]


def _table(batch: Batch, names: Sequence[str], last: np.ndarray | None = None) -> np.ndarray:
    """Return some columns of a batch as rows int64[C, n], with a last column if it is given."""
    columns = [batch.columns[name] for name in names] + ([] if last is None else [last])
    return np.stack(columns) if columns else np.empty((0, batch.n), np.int64)


def _weights(batch: Batch, times: np.ndarray | None) -> np.ndarray:
    return np.ones(batch.n, np.int64) if times is None else times
