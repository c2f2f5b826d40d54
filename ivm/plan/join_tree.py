"""The structure of an acyclic conjunction: its relations as a join tree, and the conditions on
their columns.

    total[r] = t <- agg<<t = sum(v)>> sale(i, s, p, v), store(s, r), part(p, 7).

    join tree     sale ── store        sale and store share s, sale and part share p
                       └─ part
    conditions    part: the column that the constant is compared with

Relations that share no variable are neighbours where a comparison links them.  A cycle is opened
where a relation is looked up by its key: what else it shares is compared.

    order(o, c), customer(c, n), line(o, s), supplier(s, n)       supplier(s, n'), n = n'
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import chain, combinations, permutations
from typing import NamedTuple

from ivm.join.kernels.tries import EQ, GE, LE, NE
from ivm.plan.plan import Bound, Index, Link, Plan
from pagestore.host import WORD_MAX, WORD_MIN

EVERY = WORD_MIN, WORD_MAX  # word
# of a conjunction: a join tree is found in the square of their number, and walked by recursion
ATOMS_MAX = 128


class Source(NamedTuple):
    """An atom as columns: the relation, the column of each variable, and whether it is negated."""

    predicate: str
    places: Mapping[str, int]
    levels: frozenset[str]
    negated: bool


def sources_of(plan: Plan) -> list[Source]:
    """Return the atoms of a plan as columns of their relations."""
    sources = []
    for t, trie in enumerate(plan.tries):
        names = [
            parted(name) if (t, name) in plan.apart else name
            for name in (plan.variables[level] for level in trie.levels)
        ]
        places = dict(zip(names, trie.index.order, strict=False))
        places |= {
            r.variable: _relation_column(trie.index, r.column) for r in plan.reads if r.trie == t
        }
        sources.append(Source(trie.index.predicate, places, frozenset(names), trie.negated))
    return sources


def parted(name: str) -> str:
    """Return what a variable is called in a relation where it is compared, not looked up."""
    return name + "'"


def opened(plan: Plan, keys: Mapping[str, int], needed: frozenset[str]) -> Plan | None:
    """Return a cyclic plan with the variables at which its cycle is opened, so that each key leads
    to one row whose columns are needed; None if no such variable, or two, are enough.
    """
    sources = [(t, s) for t, s in enumerate(sources_of(plan)) if not s.negated]
    core = [sources[n] for n in _ears([frozenset(s.places) for _, s in sources])[1]]
    uses = Counter(name for _, source in core for name in source.places)
    spare = [
        (t, name)
        for t, source in core
        for name, column in source.places.items()
        if uses[name] > 1 and column >= keys[source.predicate]
    ]
    pairs = (pair for pair in combinations(spare, 2) if pair[0][1] != pair[1][1])
    for apart in chain(combinations(spare, 1), pairs):
        one, compared = replace(plan, apart=apart), {name for _, name in apart}
        read = needed.union(compared, map(parted, compared))
        if is_supported(one) and not lists_pairs(one, keys, read):
            return one
    return None


def negated_in(plan: Plan) -> list[Source]:
    """Return the negated atoms of a plan, each once."""
    sources = sources_of(plan)
    return [
        source for n, source in enumerate(sources) if source.negated and source not in sources[:n]
    ]


def _relation_column(index: Index, column: int) -> int:
    """Return the relation's column at a position of an index's records: its keys, then the
    columns that are left.
    """
    if column < len(index.order):
        return index.order[column]
    left = (c for c in range(len(index.order) + column + 1) if c not in index.order)
    return [c for _, c in zip(range(column - len(index.order) + 1), left, strict=False)][-1]


def join_tree(
    names: Sequence[frozenset[str]], links: Iterable[Link] = ()
) -> list[tuple[int, int]] | None:
    """Return the edges of a join tree of sets of variables; None if they are cyclic, or if some
    share nothing.

    Trees that share nothing become one by links.

    >>> join_tree([frozenset("xy"), frozenset("yz"), frozenset("zw")]), join_tree([*map(frozenset, ("xy", "yz", "zx"))])
    ([(0, 1), (1, 2)], None)
    """
    edges, left = _ears(names)
    if len(left) < 2:
        return edges
    return edges + linking if (linking := _linking(names, left, edges, links)) else None


def _ears(names: Sequence[frozenset[str]]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return edges from relations whose shared variables another one has, which are taken away one
    after the other, and the relations that are left: a cyclic core, or one of each tree.
    """
    left, edges = [*range(len(names))], list[tuple[int, int]]()
    uses = Counter(chain.from_iterable(names))
    going = True
    while going and len(left) > 1:
        going = False
        for ear in left:
            shared = {name for name in names[ear] if uses[name] > 1}
            ways = (i for i in reversed(left) if i != ear and shared and shared <= names[i])
            if (parent := next(ways, None)) is not None:
                edges.append((ear, parent))
                left.remove(ear)
                uses.subtract(names[ear])
                going = True
                break
    return edges, left


def _linking(
    names: Sequence[frozenset[str]],
    roots: Sequence[int],
    edges: Sequence[tuple[int, int]],
    links: Iterable[Link],
) -> list[tuple[int, int]]:
    """Return edges that make trees one by links; none if their roots share variables, or links
    do not suffice.
    """
    tree = [*range(len(names))]  # the root of the tree of each
    for ear, parent in reversed(edges):
        tree[ear] = tree[parent]
    ties = list[tuple[int, int]]()
    apart = sum(len(names[root]) for root in roots) == len(
        frozenset().union(*(names[root] for root in roots))
    )
    for link in links if apart else ():
        pairs = permutations(range(len(names)), 2)
        ends = next(
            ((a, b) for a, b in pairs if link.name in names[a] and link.other in names[b]), None
        )
        if ends and tree[ends[0]] != tree[ends[1]]:
            ties.append(ends)
            old, new = (tree[end] for end in ends)
            tree = [new if root == old else root for root in tree]
    return ties if len({*tree}) == 1 else []


def _edges(
    plan: Plan, sources: Sequence[Source], links: Iterable[Link]
) -> list[tuple[int, int]] | None:
    """Return the edges of a join tree, as `join_tree` does; an atom of constants alone is below
    any of the others.
    """
    constants = {plan.variables[b.level] for b in plan.bounds if b.kind == EQ and not b.others}
    uses = Counter(name for source in sources for name in source.places)
    alone = [
        n
        for n, s in enumerate(sources)
        if all(name in constants and uses[name] == 1 for name in s.places)
    ]
    alone = alone if len(alone) < len(sources) else []
    others = [n for n in range(len(sources)) if n not in alone]
    edges = join_tree([frozenset(sources[n].places) for n in others], links)
    if edges is None:
        return None
    return [*((others[a], others[b]) for a, b in edges), *((n, others[0]) for n in alone)]


def links_of(plan: Plan) -> list[Link]:
    """Return the bounds and filters of a plan that may link two relations."""
    return [link for bound in plan.bounds if (link := link_of(plan, bound))] + [
        link for _, link in plan.links
    ]


def link_of(plan: Plan, bound: Bound) -> Link | None:
    """Return a bound of two variables, other than an equation, as a link; None for others."""
    if bound.kind == EQ or [sign for _, sign in bound.others] != [1]:
        return None
    return Link(
        plan.variables[bound.level], bound.kind, plan.variables[bound.others[0][0]], bound.constant
    )


def is_linked(plan: Plan, ranges: bool = False) -> bool:
    """Return whether a supported plan needs links to be one tree; with `ranges`, whether it
    needs some of `!=`.
    """
    links = [link for link in links_of(plan) if ranges and link.kind != NE]
    return _edges(plan, [s for s in sources_of(plan) if not s.negated], links) is None


def is_supported(plan: Plan) -> bool:
    """Return whether a plan's bindings can be found by columns: it is acyclic, and negations
    have what they look up.
    """
    if len(plan.tries) > ATOMS_MAX:
        return False
    sources = sources_of(plan)
    positive = [s for s in sources if not s.negated]
    bound = frozenset().union(*(s.places for s in positive))
    if len(positive) < 2 and len(sources) < 2:
        return False
    if _edges(plan, positive, links_of(plan)) is None:
        return False
    fixed = [
        (plan.variables[b.level], names_of_bound(plan, b)) for b in plan.bounds if b.kind == EQ
    ]
    for source in sources:
        columns = frozenset(source.places)
        held = {name for name, names in fixed if names <= columns}
        if source.negated and not (columns & bound and columns - bound <= held):
            return False
    names = [names_of_bound(plan, b) for b in plan.bounds]
    return all(
        one <= bound or any(s.negated and one <= frozenset(s.places) for s in sources)
        for one in names
    )


def is_exchangeable(plan: Plan, name: str, keys: Mapping[str, int]) -> bool:
    """Return whether bindings with some rows of a relation are those of the plan over these rows
    instead of it.
    """
    tree = JoinTree(plan, keys)
    sources = [source for source in sources_of(plan) if source.predicate == name]
    return len(sources) == 1 and not sources[0].negated and not tree.is_cut(sources[0])


def lists_pairs(plan: Plan, keys: Mapping[str, int], needed: frozenset[str]) -> bool:
    """Return whether keys lead to several rows that bindings need, whatever passes by."""
    tree = JoinTree(plan, keys)
    return all(tree.expanding(needed, root) for root in range(len(tree.sources)))


def names_of_bound(plan: Plan, bound: Bound) -> frozenset[str]:
    """Return the variables that a bound compares."""
    return frozenset(
        plan.variables[level] for level in (bound.level, *(other for other, _ in bound.others))
    )


def intervals_of(plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the least and the most word of each variable that is compared with constants."""
    intervals = dict[str, tuple[int, int]]()
    for bound in plan.bounds:
        if not bound.others and bound.kind != NE:
            name, word = plan.variables[bound.level], bound.constant
            least, most = intervals.get(name, EVERY)
            least = least if bound.kind == LE else max(least, word)
            intervals[name] = least, most if bound.kind == GE else min(most, word)
    return intervals


class JoinTree:
    """The positive atoms of a plan as a tree, with the number of key columns of each relation."""

    def __init__(self, plan: Plan, keys: Mapping[str, int]) -> None:
        self.sources = [s for s in sources_of(plan) if not s.negated]
        self._keys = keys
        self._constants = frozenset(
            plan.variables[b.level] for b in plan.bounds if b.kind == EQ and not b.others
        )
        self.near: list[list[int]] = [[] for _ in self.sources]
        for a, b in _edges(plan, self.sources, links_of(plan)) or ():
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
        own = (
            name for name, column in source.places.items() if column < keys or self.is_cut(source)
        )
        return frozenset(own) - self._constants

    def shared(self, node: int, parent: int) -> list[str]:
        """Return the variables that a relation shares with its parent."""
        return [name for name in self.sources[node].places if name in self.sources[parent].places]

    def kept(self, node: int, parent: int, needed: frozenset[str]) -> list[str]:
        """Return the needed variables of a subtree that the relation above lacks."""
        return sorted((self.below(node, parent) & needed) - self.sources[parent].places.keys())

    def multiplies(self) -> bool:
        """Return whether a relation has several rows for a key of a neighbour."""
        edges = ((child, node) for node, near in enumerate(self.near) for child in near)
        return any(not self.identifying(a) <= {*self.shared(a, b)} for a, b in edges)

    def expanding(self, needed: frozenset[str], node: int, parent: int = -1) -> int:
        """Count relations below one with several rows for a key, of which columns are needed."""
        number = 0
        for child in self.near[node]:
            if child != parent:
                several = not self.identifying(child) <= {*self.shared(child, node)}
                number += several and bool(self.kept(child, node, needed))
                number += self.expanding(needed, child, node)
        return number

    def around(self, names: frozenset[str]) -> list[int]:
        """Return neighbouring relations that have all of some variables together, and none that is
        not needed for that.

        Empty if links are among what connects them.
        """
        left = {*range(len(self.sources))}

        def is_spare(node: int) -> bool:
            others = frozenset().union(*(self.sources[n].places for n in left if n != node))
            return (
                len(left.intersection(self.near[node])) < 2
                and names & self.sources[node].places.keys() <= others
            )

        while (spare := next(filter(is_spare, sorted(left)), None)) is not None:
            left.remove(spare)
        edges = ((a, b) for a in left for b in left.intersection(self.near[a]))
        return sorted(left) if all(self.shared(a, b) for a, b in edges) else []

    def having(self, predicate: str, name: str, column: int) -> "JoinTree":
        """Return the tree with another column for a predicate's relation, by a variable's name."""
        other = copy(self)
        other.sources = [
            s._replace(places={**s.places, name: column}) if s.predicate == predicate else s
            for s in self.sources
        ]
        return other

    def without(self, core: Sequence[int]) -> "JoinTree":
        """Return the trees that are left when the edges between some relations go."""
        other = copy(self)
        other.near = [
            [n for n in near if not {n, node} <= {*core}] for node, near in enumerate(self.near)
        ]
        return other
