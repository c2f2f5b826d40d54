"""Evaluate an acyclic conjunction by columns: filter each relation, look up keys, and sum out what
no head needs.

    total[r] = t <- agg<<t = sum(v)>> sale(i, s, p, v), store(s, r), part(p, 7).

    join tree     sale ── store          sale is the root, whose blocks pass by
                       └─ part
    store         s -> r                 looked up for each row of sale
    part          s such that ... 7      leaves rows of sale out, and has no column that is needed
    bindings      (r, v), of which each stands for as many as its `times` says

A relation other than the root becomes a table over the variables that it shares with its parent and
those that are needed above, with the number of bindings that each row represents (Yannakakis;
factorised evaluation).  So a count of paths is a product of sums, not a list.  Cyclic conjunctions
are left to the Leapfrog Triejoin, and so is what a negated atom excludes, if it has variables of
several relations: it is counted and subtracted.

Where a comparison links two relations, rows of one look up a range of the other, in O((n + m +
found) log n), and where only their number matters, it is counted:

    later[] = n <- agg<<n = count()>> a(i, t), b(j, u), u >= t, u <= t + 50.       a slice of b in the order of u
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cache, cached_property
from itertools import chain, repeat
from math import inf
from typing import NamedTuple

import numpy as np

from ivm.errors import RangeError
from ivm.join.flat import FlatJoin, Layout, flat_of, is_room_for
from ivm.join.groups import FAR, TOO_MANY, Lookup, Matches, refuse_overflow, summed
from ivm.join.join import concatenated, together
from ivm.join.kernels.tries import NE
from ivm.join.slices import Found, Side, Slices
from ivm.lang.ir import Type, Var
from ivm.memory import MemoryUse
from ivm.plan import costs
from ivm.plan.join_tree import EVERY, JoinTree, Source, intervals_of, negated_in
from ivm.plan.key_ranges import Range, after_prefix, narrowed, prefixes, text_keys, text_ranges
from ivm.plan.plan import Index, Plan, Trie
from ivm.terms.encoder import Encoder
from ivm.terms.evaluator import Batch
from ivm.ways.conditions import Condition, Part, conditions_of, passing
from pagestore.host import Pages, Tree, distinct, read_batches

SLICE = 1 << 20  # bindings that one block may become at a time, where a key has several rows
# of a table; the relation that looks it up is read by these alone, if an index leads with them
FEW_KEYS = 64
RANGED = 2  # as far from a changed row, keys are mostly so few
# words that each row of a table takes, next to its columns, while it is put in the order of its
# keys
LOOKED_UP = 6
ACTION = ""  # the column of bindings with the action of the changed row that is in each


class Changed(NamedTuple):
    """Rows int64[C, n] of a relation that bindings have instead of all its rows, and the action
    of each, int64[n].
    """

    predicate: str
    rows: np.ndarray
    actions: np.ndarray


# the columns of a relation in the order of a tree that has its rows
Sorted = tuple[Sequence[int], Tree]


class ColumnJoin:
    """Evaluates one plan; `trees` are the relations' own trees, `needed` the variables that
    bindings must have.

    Of a relation that has `changed` only those rows are joined, and bindings have a column ACTION.
    `indices` are other trees of relations, of which ranges are read where that saves reading the
    relation.
    """

    def __init__(
        self,
        pages: Pages,
        plan: Plan,
        trees: Mapping[str, Tree],
        needed: frozenset[str],
        types: Mapping[str, Type],
        encode: Encoder,
        changed: Changed | None = None,
        indices: Mapping[str, Sequence[Sorted]] = {},
    ) -> None:
        self._pages, self._trees, self._needed, self._indices = pages, trees, needed, indices
        self._negated = negated_in(plan)
        self._given = conditions_of(plan, types, encode)
        self.tree = JoinTree(plan, {name: tree.spec.keys for name, tree in trees.items()})
        self._intervals = narrowed(intervals_of(plan), plan, encode)
        self._texts = text_ranges(plan.filters, types)
        self._encode = encode
        self._read = [0]  # shared with the joins that this one is made of
        # of the tables that are looked up; shared as well
        self.memory = MemoryUse(step="joining by columns")
        # rows of each relation that its conditions left; bindings
        self.met = [0] * (len(self.tree.sources) + 1)
        self._rows = dict[str, np.ndarray]()
        # of a relation: variables and keys of the one above
        self._sought = dict[int, tuple[list[str], np.ndarray]]()
        if changed:
            self._rows[changed.predicate] = np.concatenate([changed.rows, changed.actions[None]])
            self._needed |= {ACTION}
            self.tree = self.tree.having(changed.predicate, ACTION, len(changed.rows))

    def parts(self) -> Iterator[Part]:
        """Yield all bindings, with columns for the needed variables.  Raises CorruptionError,
        RangeError, RoomError.
        """
        self.memory.begin()
        for batch, times in self._net() or self._stream(self.root, -1, self._needed):
            self.met[-1] += batch.n
            yield batch, times

    @property
    def read(self) -> int:
        """How many rows of relations were read."""
        return self._read[0]

    @cached_property
    def root(self) -> int:
        """The relation whose blocks pass by: where fewest keys lead to several rows, the changed
        or the largest one.
        """
        several = self.tree.multiplies()
        return min(range(len(self.tree.sources)), key=lambda node: self._unfit(node, several))

    def summary(self) -> tuple[str, list[str], list[str]]:
        """Return the relation whose blocks pass by, those that are looked up, and the variables
        that are summed out.
        """
        names = frozenset().union(*(s.places for s in self.tree.sources))
        others = [s.predicate for n, s in enumerate(self.tree.sources) if n != self.root]
        return self.tree.sources[self.root].predicate, others, sorted(names - self._needed)

    def whole(self) -> int:
        """Estimate how many rows are read of relations that are read whole."""
        rows = 0
        for node, (parent, distance) in self._above.items():
            source = self.tree.sources[node]
            near = [n for n in self.tree.near[node] if n != self.root]
            near = [n for n in near if self.tree.sources[n].predicate in self._rows]
            near += [parent] if self._leads(node) and distance <= RANGED else []
            ranges = any(self._leading(source, self.tree.shared(n, node)) for n in near)
            if source.predicate not in self._rows and not ranges:
                rows += self._trees[source.predicate].count
        return rows + sum(self._trees[source.predicate].count for source in self._negated)

    def _leads(self, node: int) -> bool:
        """Return whether the keys that are sought in a relation follow from changed rows."""
        return node != self.root and self.tree.sources[self.root].predicate in self._rows

    @cached_property
    def _above(self) -> dict[int, tuple[int, int]]:
        """The relation above each, and its distance from the root."""
        above, waiting = {self.root: (-1, 0)}, [self.root]
        for node in waiting:  # grows
            below = [child for child in self.tree.near[node] if child not in above]
            above |= dict.fromkeys(below, (node, above[node][1] + 1))
            waiting += below
        return above

    def _unfit(self, node: int, multiplies: bool) -> tuple[int, float]:
        name = self.tree.sources[node].predicate
        several = self.tree.expanding(self._needed, node) if multiplies else 0
        return several, -inf if name in self._rows else -self._trees[name].count

    # -- conditions

    @cached_property
    def _conditions(self) -> list[Condition]:
        """What bindings must satisfy, negated atoms included."""
        return [c for c in self._given if c.names <= self._bound] + self._absences

    @cached_property
    def _bound(self) -> frozenset[str]:
        return frozenset().union(*(s.places for s in self.tree.sources))

    @cached_property
    def _absences(self) -> list[Condition]:
        """The conditions that negated atoms have no row for a binding."""
        return [*map(self._absence, self._negated)]

    @cached_property
    def _late(self) -> list[Condition]:
        """The conditions on variables that no relation has together."""
        held = [source.places.keys() for source in self.tree.sources]
        return [c for c in self._conditions if not any(c.names <= names for names in held)]

    def _absence(self, source: Source) -> Condition:
        names = [*self._looked_up(source)]

        @cache  # made when it is needed
        def lookup() -> Lookup:
            return Lookup(self._rows_of(source, names))

        return Condition(
            frozenset(names),
            lambda batch: lookup().find([batch.columns[n] for n in names]).times == 0,
        )

    def _looked_up(self, source: Source) -> frozenset[str]:
        """Return the variables by which a binding looks up a negated atom."""
        return self._bound.intersection(source.places)

    def _rows_of(self, source: Source, names: Sequence[str]) -> np.ndarray:
        """Return the columns of some variables in the rows of an atom that pass its conditions."""
        conditions = [c for c in self._given if c.names <= source.places.keys()]
        columns = frozenset(names).union(*(c.names for c in conditions))
        return np.concatenate(
            [_table(batch, names) for batch in self._blocks(source, columns, conditions)], axis=1
        )

    def _conditions_at(self, node: int, parent: int) -> list[Condition]:
        """Return the conditions that hold variables of several relations, and can be evaluated
        here and no lower.
        """
        lower = [self.tree.below(child, node) for child in self.tree.near[node] if child != parent]
        here = self.tree.below(node, parent)
        return [c for c in self._late if c.names <= here and not any(c.names <= n for n in lower)]

    def _linked(
        self, node: int, parent: int, above: frozenset[str], late: Sequence[Condition]
    ) -> list[Condition]:
        """Return the conditions by which rows of a relation look up those of one below it, instead
        of comparing them.

        Where a key leads to one row, comparing is as good, and so it is where all that is not equal
        is listed.
        """
        here, other = (frozenset(self.tree.sources[n].places) for n in (node, parent))
        linked = [c for c in late if c.link and c.link.among(here - other, other - here)]
        shared = self.tree.shared(node, parent)
        if shared and self.tree.identifying(node) <= {*shared}:
            return []
        if shared and self.tree.kept(node, parent, above):
            return [c for c in linked if c.link and c.link.kind != NE]
        return linked

    # -- one relation and what is below it

    def _stream(self, node: int, parent: int, above: frozenset[str]) -> Iterator[Part]:
        """Yield a subtree's bindings, with columns for the variables `above` that are in it."""
        source, late = self.tree.sources[node], self._conditions_at(node, parent)
        below = [child for child in self.tree.near[node] if child != parent]
        linked = {child: self._linked(child, node, above, late) for child in below}
        late = [c for c in late if not any(c in conditions for conditions in linked.values())]
        needed = above.union(*(c.names for c in late))
        local = [c for c in self._conditions if c.names <= source.places.keys()]
        local += self._within(node)
        few = None
        if (node in self._sought or source.predicate in self._rows) and not any(linked.values()):
            few = self._reached(node, below, needed, local)
        children = [
            Within(self, child, node, needed, linked[child])
            if linked[child]
            else Child(self, child, node, needed)
            for child in below
        ]
        children.sort(key=lambda child: child.share)
        columns = needed.union(*(c.names for c in local), *(child.sought for child in children))
        for batch in few or self._blocks(source, columns, local, children):
            self.met[node] += batch.n
            parts: Iterable[Part] = [(batch, None)]
            for place, child in enumerate(children):
                after = needed.union(*(other.sought for other in children[place + 1 :]))
                parts = child.joined(parts, after)
            for rows, times in parts:
                yield passing(late, rows, times)

    def _reached(
        self, node: int, below: Sequence[int], needed: frozenset[str], local: Sequence[Condition]
    ) -> list[Batch]:
        """Return the rows of a relation that changed rows lead to, and note the keys that they
        seek below it.
        """
        source = self.tree.sources[node]
        shared = {child: self.tree.shared(child, node) for child in below}
        columns = needed.union(*(c.names for c in local), *shared.values())
        few = [*self._blocks(source, columns, local, keys=self._sought.get(node))]
        for child, names in ((child, names) for child, names in shared.items() if names):
            keys = np.concatenate([_table(batch, names) for batch in few], axis=1)
            self._sought[child] = names, distinct(keys)
        return few

    def _within(self, node: int) -> list[Condition]:
        """Return the condition that a relation's rows have keys which are sought, if known."""
        if node not in self._sought:
            return []
        names, keys = self._sought[node]
        lookup = Lookup(keys)

        def is_sought(batch: Batch) -> np.ndarray:
            return lookup.find([batch.columns[n] for n in names]).times > 0

        return [Condition(frozenset(names), is_sought)]

    def _blocks(
        self,
        source: Source,
        columns: frozenset[str],
        conditions: Sequence[Condition],
        children: Sequence["Child"] = (),
        keys: tuple[list[str], np.ndarray] | None = None,
    ) -> Iterator[Batch]:
        """Yield the rows of a relation that pass conditions and may find some in `children`; one
        batch at least.

        If these have some `keys` of some variables, and the keys are few, only rows with them are
        read.
        """
        cut = self.tree.is_cut(source)
        names = [*source.levels] if cut else [name for name in source.places if name in columns]
        read = [source.places[name] for name in names] or [0]
        none = np.empty((len(read), 0), np.int64)
        blocks = self._rows_found(source, read, children, keys)
        if cut:  # a binding is a distinct tuple of the variables
            blocks = iter([distinct(np.concatenate([none, *blocks], axis=1))])
        block: np.ndarray | None = next(blocks, none)
        while block is not None:
            self._read[0] += block.shape[1]
            batch = Batch(block.shape[1], dict(zip(names, block, strict=False)), {})
            yield passing(conditions, batch, None)[0]
            block = next(blocks, None)

    def _rows_found(
        self,
        source: Source,
        columns: Sequence[int],
        children: Sequence["Child"],
        keys: tuple[list[str], np.ndarray] | None,
    ) -> Iterator[np.ndarray]:
        """Yield blocks of columns of a relation: ranges of keys that constants leave, or few
        that a child has.
        """
        if source.predicate in self._rows:
            return iter([self._rows[source.predicate][[*columns]]])
        tree = self._trees[source.predicate]
        ranges = self._ranges(source, tree)
        known = [keys] if keys else []
        known += [(child.sought, child.few) for child in children if child.few is not None]
        most = min(FEW_KEYS, tree.count // costs.RANGE_ROWS)
        for names, few in known if not all(lo and hi for lo, hi in ranges) else ():
            if few.shape[1] <= most and (leading := self._leading(source, names, columns)):
                order, index = leading
                sought = [source.places[name] for name in names]
                wanted = few[[sought.index(column) for column in order[: len(sought)]]].T.tolist()
                at = tuple(map(order.index, columns))
                among = (
                    read_batches(self._pages, index, (*key,), after_prefix(key), at)
                    for key in sorted(wanted)
                )
                return together(chain.from_iterable(among))
        return chain.from_iterable(
            read_batches(self._pages, tree, lo, hi, (*columns,)) for lo, hi in ranges
        )

    def _leading(
        self, source: Source, names: Sequence[str], columns: Sequence[int] = ()
    ) -> Sorted | None:
        """Return a tree of a relation with some columns whose order begins with those of some
        variables, if any.
        """
        tree, first = self._trees[source.predicate], {source.places[name] for name in names}
        trees = [(range(tree.spec.columns), tree), *self._indices.get(source.predicate, ())]
        for order, one in trees:
            if first and {*order[: len(first)]} == first and {*columns} <= {*order}:
                return order, one
        return None

    def _ranges(self, source: Source, tree: Tree) -> list[Range]:
        """Return the ranges of keys of a relation that constants leave."""
        names = {column: name for name, column in source.places.items()}
        keys = (names.get(column, "") for column in range(tree.spec.keys))
        whole = prefixes([self._intervals.get(key, EVERY) for key in keys])
        texts = self._texts.get(Var(names.get(0, "")))
        return text_keys(whole, texts, tree.count, self._encode)

    def table(
        self, node: int, parent: int, names: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the rows int64[C, n] of a subtree by some variables, and how many bindings each
        represents.
        """
        tells_apart = self.tree.identifying(node) <= {*names}
        rows, weighed = _gathered(
            self._stream(node, parent, frozenset(names)), names, tells_apart, self.memory
        )
        if not weighed:
            return rows, None
        rows = summed(rows, len(names), sorting=True)
        refuse_overflow(rows[-1], rows.shape[1])
        return rows[:-1], None if (rows[-1] == 1).all() else rows[-1]

    # -- negated atoms that are counted

    @cached_property
    def counted(self) -> list[Source]:
        """The negated atoms whose bindings are counted and subtracted, since looking them up
        would list more.
        """
        late = [c for c in self._late if not c.link and c not in self._absences]
        needed = self._needed.union(*(c.names for c in late))
        sources = list[Source]()
        for source in self._negated if not self._rows else ():
            names = self._looked_up(source)
            core = [self.tree.sources[node] for node in self.tree.around(names)]
            words = sum(
                self._trees[leaf.predicate].count * len(leaf.places) for leaf in (source, *core)
            )
            if (
                len(core) > 1
                and is_room_for(words)
                and self._listing(needed | names) > self._listing(needed)
            ):
                sources.append(source)
        return sources

    def _listing(self, needed: frozenset[str]) -> int:
        """Return how many relations have several rows for a key that are listed, if these
        variables are needed.
        """
        return self.tree.expanding(needed, self.root)

    def _net(self) -> list[Part]:
        """Return the bindings as those without the `counted` atoms, minus those that these exclude;
        none if none is.

            q[] = n <- agg<<n = count()>> e(a, b), e(b, c), !e(a, c).        paths, minus those of triangles

        None also if there are so many without these atoms that a word cannot count them.
        """
        if not self.counted:
            return []
        names = sorted(self._needed)
        join = self._with(self.counted)
        try:
            stream = join._stream(self.root, -1, self._needed)
            parts = [_gathered(stream, names, False, self.memory)[0]]
            # one that holds, where those before it do not
            for place, atom in enumerate(self.counted):
                rows, _ = _gathered(
                    self._with(self.counted[place:])._matched(atom), names, False, self.memory
                )
                parts.append(np.concatenate([rows[:-1], -rows[-1:]]))
            rows = concatenated(parts)
            refuse_overflow(np.abs(rows[-1]), rows.shape[1])
        except RangeError:
            return []
        self.met[:-1] = join.met[:-1]
        rows = summed(rows, len(names), sorting=True)
        rows = rows.compress(rows[-1] != 0, axis=1)
        return [(Batch(rows.shape[1], dict(zip(names, rows, strict=False)), {}), rows[-1])]

    def _with(self, left_out: Sequence[Source]) -> "ColumnJoin":
        """Return the join without some negated atoms."""
        other = copy(self)
        for name in ("_conditions", "_absences", "_late"):  # cached
            vars(other).pop(name, None)
        other._negated = [s for s in self._negated if s not in left_out]
        other.met = [0] * len(self.met)
        return other

    def _matched(self, atom: Source) -> Iterator[Part]:
        """Yield the bindings for which an atom has a row: a cyclic join of relations, with all
        that hangs on these.
        """
        names = self._looked_up(atom)
        core = self.tree.around(names)
        self.tree = self.tree.without(core)
        inner = frozenset(name for part in core for name in self.tree.sources[part].places)
        sides = [names, *(frozenset(self.tree.sources[node].places) for node in core)]
        inner = frozenset(name for name in inner if sum(name in side for side in sides) > 1)
        below = [self.tree.below(node, -1) for node in core]
        spanning = [c for c in self._conditions if not any(c.names <= part for part in below)]
        needed = self._needed.union(*(c.names for c in spanning))
        corners = [Corner(self, node, inner, needed) for node in core]
        looked_up = [corner for corner in corners if corner.adds]
        listed = inner & needed.union(*(corner.sought for corner in looked_up))
        tables = [(corner.sought, corner.keys) for corner in corners]
        for batch, times in _cyclic([*tables, ([*names], self._rows_of(atom, [*names]))], listed):
            early = [c for c in spanning if c.names <= batch.columns.keys()]
            parts: Iterable[Part] = [passing(early, batch, times)]
            for place, corner in enumerate(looked_up):
                parts = corner.joined(
                    parts, needed.union(*(other.sought for other in looked_up[place + 1 :]))
                )
            for rows, weights in parts:
                yield passing([c for c in spanning if c not in early], rows, weights)


def _gathered(
    parts: Iterable[Part], names: Sequence[str], tells_apart: bool, memory: MemoryUse
) -> tuple[np.ndarray, bool]:
    """Return bindings by some variables, and whether a last column says how many each represents.

    They are added up on the way, but not in the end. Count the memory of a table in which these
    bindings are looked up.
    """
    gathered, weighed, summed_up, rows, held = list[np.ndarray](), False, 0, 0, 0
    for batch, times in parts:
        weighed = times is not None or not tells_apart
        weights = np.ones(batch.n, np.int64) if times is None and weighed else times
        gathered.append(_table(batch, names, weights))
        count = sum(part.shape[1] for part in gathered)
        if weighed and count > 2 * summed_up + SLICE:
            gathered = [summed(concatenated(gathered), len(names), sorting=True)]
            summed_up = count = gathered[0].shape[1]
        size = LOOKED_UP * 8 * count + sum(part.nbytes for part in gathered)
        memory.add(count - rows, size - held)
        rows, held = count, size
    return concatenated(gathered), weighed


def _cyclic(
    tables: Sequence[tuple[Sequence[str], np.ndarray]], listed: frozenset[str]
) -> Iterator[Part]:
    """Yield the bindings of relations, given as variables and rows int64[C, n], with columns for
    those `listed`.
    """
    left, order = {name for names, _ in tables for name in names}, list[str]()
    while left:  # a variable of most atoms that have one which is bound, of these one of most atoms
        near = [{*names} for names, _ in tables if not order or {*names} & {*order}]
        best = max(sorted(left), key=lambda n: (sum(n in names for names in near), n in listed))
        order.append(best)
        left.remove(best)
    tries, rows = list[Trie](), list[np.ndarray]()
    for names, table in tables:
        places = sorted(range(len(names)), key=lambda place: order.index(names[place]))
        at = (*(order.index(names[place]) for place in places),)
        tries.append(Trie(Index("", (*places,)), at, False, ""))
        rows.append(distinct(table[places]))
    if not all(table.shape[1] for table in rows):
        yield Batch(0, dict.fromkeys(listed, np.empty(0, np.int64)), {}), None
        return
    shape = Plan((*order,), (*tries,), (), (), (), ()).shape
    levels = frozenset(map(order.index, listed))
    join = FlatJoin(Layout(flat_of(shape, rows), shape, listed=levels))
    batches = [out for out, _ in join.batches()]
    for out, times in zip(batches, join.times or repeat(None), strict=False):
        yield Batch(out.shape[1], {name: out[order.index(name)] for name in listed}, {}), times


class Child:
    """The table of a subtree, which rows of the relation above look up by the variables `sought`.

    `few` are its distinct keys int64[K, n], if they are few.
    """

    few: np.ndarray | None = None

    def __init__(self, join: ColumnJoin, node: int, parent: int, needed: frozenset[str]) -> None:
        self.sought = join.tree.shared(node, parent)
        self._kept = join.tree.kept(node, parent, needed)
        self._hold(*join.table(node, parent, [*self.sought, *self._kept]))

    def _hold(self, rows: np.ndarray, times: np.ndarray | None) -> None:
        self.lookup = Lookup(
            rows[: len(self.sought)] if self.sought else np.zeros((1, rows.shape[1]), np.int64)
        )
        if self.sought and rows.shape[1] <= FEW_KEYS:
            self.few = distinct(rows[: len(self.sought)])
        self._columns = rows[len(self.sought) :].take(self.lookup.order, axis=1)
        self._times = None if times is None else times[self.lookup.order]

    @property
    def share(self) -> float:
        """Estimate the share of rows that find something."""
        return self.lookup.share

    def joined(self, parts: Iterable[Part], after: frozenset[str]) -> Iterator[Part]:
        """Yield bindings of the relation above with those of this subtree, and columns for the
        variables `after`.
        """
        for batch, times in parts:
            keys = [batch.columns[name] for name in self.sought] or [np.zeros(batch.n, np.int64)]
            if self.lookup.unique:
                yield self._taken(batch, times, *self.lookup.one_of(keys), after)
                continue
            for which, rows in self.lookup.find(keys).pairs(SLICE):
                yield self._taken(batch, times, which, rows, after)

    def _taken(
        self,
        batch: Batch,
        times: np.ndarray | None,
        which: np.ndarray | None,
        rows: np.ndarray,
        after: frozenset[str],
    ) -> Part:
        """Return some bindings, None for all, each with one of the table's rows."""
        columns = {name: column for name, column in batch.columns.items() if name in after}
        if which is not None:
            columns = {name: column.take(which) for name, column in columns.items()}
            times = times if times is None else times[which]
        kept = zip(self._kept, self._columns, strict=True)
        columns |= {name: column.take(rows) for name, column in kept}
        if self._times is not None:
            weights = self._times[rows]
            if times is not None:
                refuse_overflow(weights, int(times.max(initial=0)))
            times = weights if times is None else times * weights
        return Batch(len(rows), columns, {}), times


class Corner(Child):
    """The table of a relation of a cycle, with what hangs on it, which bindings look up by
    variables of the cycle.
    """

    def __init__(
        self, join: ColumnJoin, node: int, inner: frozenset[str], needed: frozenset[str]
    ) -> None:
        self.sought = [name for name in join.tree.sources[node].places if name in inner]
        self._kept = sorted((join.tree.below(node, -1) & needed) - inner)
        rows, times = join.table(node, -1, [*self.sought, *self._kept])
        self.keys, self.adds = rows[: len(self.sought)], bool(self._kept) or times is not None
        self._hold(rows, times)


class Within(Child):
    """The table of a subtree that rows of the relation above look up by a key, which may be
    empty, and by links.
    """

    share = inf  # the others find less

    def __init__(
        self,
        join: ColumnJoin,
        node: int,
        parent: int,
        needed: frozenset[str],
        linked: Sequence[Condition],
    ) -> None:
        here, other = (frozenset(join.tree.sources[n].places) for n in (node, parent))
        links = [
            link for c in linked if c.link and (link := c.link.among(here - other, other - here))
        ]
        self._conditions, self._key, self._read = linked, join.tree.shared(node, parent), join._read
        self._shown = join.tree.kept(node, parent, needed)
        self.counted, self._ends = not self._shown, [link.other for link in links]
        inner = [*dict.fromkeys(link.name for link in links)]
        self.sought = [*dict.fromkeys([*self._key, *self._ends])]
        self._kept = [*inner, *(name for name in self._shown if name not in inner)]
        rows, self._times = join.table(node, parent, [*self._key, *self._kept])
        if self._times is not None and self._times.sum(dtype=np.float64) >= FAR:
            raise RangeError(TOO_MANY)
        self._columns = rows[len(self._key) :]
        sides = [Side(inner.index(link.name), link.kind, link.constant) for link in links]
        self._slices = Slices(
            rows[: len(self._key)], self._columns[: len(inner)], sides, self._times, self.counted
        )

    def joined(self, parts: Iterable[Part], after: frozenset[str]) -> Iterator[Part]:
        """Yield bindings of the relation above with those of this subtree linked to them."""
        for batch, times in parts:
            if self.counted and times is None:
                times = np.ones(batch.n, np.int64)
            total, none = np.zeros(batch.n, np.int64), np.empty(0, np.int64)
            for matches in self._found(batch):
                if self.counted and self._slices.exact:
                    total[matches.which] += matches.weights
                else:
                    yield from self._listed(batch, times, matches, after)
            if times is None or not self.counted:
                yield self._taken(batch, times, none, none, after)
                continue
            refuse_overflow(total, int(times.max(initial=0)))
            which = np.flatnonzero(total)
            columns = {n: column.take(which) for n, column in batch.columns.items() if n in after}
            yield Batch(len(which), columns, {}), times[which] * total[which]

    def _found(self, batch: Batch) -> Iterator[Found]:
        key, ends = ([batch.columns[name] for name in names] for names in (self._key, self._ends))
        return self._slices.find(key, ends)

    def _listed(
        self, batch: Batch, times: np.ndarray | None, found: Found, after: frozenset[str]
    ) -> Iterator[Part]:
        """Yield the pairs of slices, but for those that miss a condition left to them."""
        exact = self._slices.exact
        columns = after if exact else after.union(*(c.names for c in self._conditions))
        for which, places in Matches(found.times, found.start).pairs(SLICE):
            self._read[0] += len(which)
            part = self._taken(batch, times, found.which[which], found.order.rows[places], columns)
            all_, times_ = part if exact else passing(self._conditions, *part)
            left = {n: all_.columns[n] for n in after.union(self._shown) & all_.columns.keys()}
            yield Batch(all_.n, left, all_.failures), times_


def _table(batch: Batch, names: Sequence[str], last: np.ndarray | None = None) -> np.ndarray:
    """Return some columns of a batch as rows int64[C, n], with a last column if it is given."""
    columns = [batch.columns[name] for name in names] + ([] if last is None else [last])
    return np.stack(columns) if columns else np.empty((0, batch.n), np.int64)
