"""A plan: one conjunction in the form that the join and maintenance use.

F(x, y) <- G(x, z), H(y, z).        order [x, y, z]

tries      G at levels 0, 2        H at levels 1, 2
sensors    G at z (depth 1)        H at y (depth 0), at z (depth 1)

Indices of a relation: its columns in the order in which a plan reads them.

edge(x, y) by x, y    Index("edge", (0, 1))    the tree "edge"
edge(x, y) by y, x    Index("edge", (1, 0))    the tree "$index:edge:1.0"

An index of a function of several values holds only the columns that a plan uses, and those of the
function's key.

customer[c] = (n, e, a) by e       Index("customer", (2, 0))    the tree "$index:customer:2.0"
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ivm.join.kernels.tries import EQ, GE, LE, NE
from ivm.join.plan_arrays import Sensors, Shape, bound_table
from ivm.lang.ir import Predicate, Term, Type, variables
from ivm.lang.nulls import tests_null
from ivm.terms.conditions import Choice, Filter, applies_functions, compared, is_sure
from pagestore.host import NULL

MIRRORED = {GE: LE, LE: GE, NE: NE}


class Upkeep(Enum):
    """How the bindings of a plan follow changes of what it reads."""

    PROBE = "changed rows are joined with the other relations"
    MATCH = (
        "changed rows hit intervals of sensitivity indices, and what these cover is evaluated again"
    )
    ALONE = "changed rows of the only relation are the changed bindings"
    NEVER = "it is evaluated once"


@dataclass(frozen=True)
class Way:
    """How a plan, or a rule that has none, is evaluated; `ivm/ways` has a room for each way."""

    upkeep: Upkeep = Upkeep.MATCH


class Scan(Way):
    """The rows of one relation, each a binding: one pass over it serves all plans that scan it."""


class Distinct(Way):
    """The distinct first columns of one relation."""


class Columns(Way):
    """An acyclic body: the blocks of one relation look up the others."""


class Tries(Way):
    """Any body: the Leapfrog Triejoin."""


class Rounds(Way):
    """A body of a stratum of views that read themselves."""


class Ranges(Way):
    """An aggregate over ranges, by a seek or a scan for each point: a rule without plans."""


class Texts(Way):
    """The texts of a concat's groups: a rule without plans."""


class Constants(Way):
    """Rows that a rule lists: it reads nothing, and has no plans."""


class Index(NamedTuple):
    """A relation and an order of its columns; in its own order, the index is the relation."""

    predicate: str
    order: tuple[int, ...]


def permuted(index: Index) -> bool:
    """Return whether an index has a tree of its own, distinct from the relation's."""
    return index.order != tuple(range(len(index.order)))


@lru_cache(1024)
def tree_name(index: Index) -> str:
    """Return the name of an index's tree in the store."""
    if not permuted(index):
        return index.predicate
    return f"$index:{index.predicate}:{'.'.join(map(str, index.order))}"


@dataclass(frozen=True)
class Trie:
    """An atom of the body for the join: an index, and the level of each of its first columns.

    The other columns of the index are arguments that occur nowhere else, where the trie is cut, or
    values.  `text` is the atom as written.
    """

    index: Index
    levels: tuple[int, ...]
    negated: bool
    text: str


class Bound(NamedTuple):
    """A bound: the level's value `kind` (EQ, GE, LE, NE) constant + sum of sign * value for
    (level, sign) in others.
    """

    level: int
    kind: int
    others: tuple[tuple[int, int], ...]
    constant: int

    @property
    def excludes_null(self) -> bool:
        """Whether the word of null does not satisfy it, whatever other variables are."""
        if self.kind == NE:
            return self.constant == NULL and not self.others
        return self.kind in (EQ, GE) and self.constant > NULL and not self.others


class Link(NamedTuple):
    """A comparison of two variables, perhaps of two relations: `name` is `kind` (GE, LE, NE)
    `other` + constant.
    """

    name: str
    kind: int
    other: str
    constant: int

    def among(self, names: frozenset[str], others: frozenset[str]) -> "Link | None":
        """Return it with its first variable among some names, the second among others; None if
        they are not there.
        """
        if self.name in names and self.other in others:
            return self
        if self.name in others and self.other in names:
            return Link(self.other, MIRRORED[self.kind], self.name, -self.constant)
        return None


class Sensor(NamedTuple):
    """A sensitivity index of a trie's depth; the interval is on the values of `level`."""

    trie: int
    depth: int
    level: int
    columns: tuple[int, ...]  # the level that each column holds; -1 for a, -2 for b


class Read(NamedTuple):
    """A value that is read from the trie's record at which a binding ends."""

    trie: int
    column: int
    variable: str


class Move(NamedTuple):
    """A probe of the exchanged value of a lone row (moves.py): its trie, and whether the bindings
    that it finds go if the value rises, and come if it falls, or the reverse.
    """

    trie: int
    rises: bool
    plan: "Plan"


@dataclass(frozen=True, eq=False)
class Plan:
    """One conjunction, ready to run.

    A row of its bindings holds the key variables by level, then `reads`; `computed` and `filters`
    are evaluated on batches of rows.  `cost` is the estimate for the chosen order, `considered` how
    many orders were compared.

    `way` is how the plan is evaluated and how its bindings are kept up to date, `choice` the
    reason, for people. `probes` holds one plan per trie, which starts with the trie's variables,
    `moves` those of a trie whose one value is exchanged.
    The variables `nulls` may be null. `pace` is the estimate of the operations that probing a
    changed row takes; 0 if none was made. `estimates` are those of the rows that each of its
    `steps` finds.  `links` are the filters that compare two variables as words.  By columns a cycle
    is opened at the variables `apart` of some tries: they are compared, not looked up.
    """

    variables: tuple[str, ...]
    tries: tuple[Trie, ...]
    bounds: tuple[Bound, ...]
    reads: tuple[Read, ...]
    computed: tuple[tuple[str, Term], ...]
    filters: tuple[Filter, ...]
    cost: float = 0.0
    considered: int = 0
    probes: tuple["Plan", ...] = ()
    choice: str = ""
    way: Way = field(default_factory=Tries)
    nulls: frozenset[str] = frozenset()
    pace: float = 0.0
    estimates: tuple[float, ...] = ()
    links: tuple[tuple[Filter, Link], ...] = ()
    moves: tuple[Move, ...] = ()
    apart: tuple[tuple[int, str], ...] = ()

    def going(
        self, way: type[Way], choice: str, probes: tuple["Plan", ...] = (), once: bool = False
    ) -> "Plan":
        """Return this plan with a way, its upkeep, and the reason; if evaluated `once`, it
        follows no change.
        """
        if once:
            upkeep = Upkeep.NEVER
        elif way is not Rounds and len(self.tries) == 1 and not self.bounds:
            upkeep = Upkeep.ALONE
        else:
            upkeep = Upkeep.PROBE if probes else Upkeep.MATCH
        return replace(self, way=way(upkeep), choice=choice, probes=probes)

    @property
    def steps(self) -> tuple[str, ...]:
        """What finds rows one after the other: the variables in order, or by columns the atoms,
        then all together.
        """
        if isinstance(self.way, Scan):
            return (self.tries[0].text,)
        if isinstance(self.way, Columns):
            return (*(trie.text for trie in self.tries if not trie.negated), "bindings")
        return self.variables

    @property
    def is_scanned(self) -> bool:
        """Whether the one relation of the plan is read from its first key to its last."""
        return isinstance(self.way, Scan | Distinct)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of a batch of bindings."""
        return self.variables + tuple(read.variable for read in self.reads)

    @cached_property
    def sure(self) -> tuple[Filter, ...]:
        """The filters of what a binding holds that cannot fail, so that they may be applied early;
        those that apply functions come last.
        """
        known = {*self.columns}
        sure = (f for f in self.filters if isinstance(f, Choice) or is_sure(f, known))
        return tuple(sorted(sure, key=applies_functions))

    @cached_property
    def null_words(self) -> frozenset[str]:
        """The variables of which a batch may hold the word of null: also those whose null a
        filter or a bound excludes, which may be applied after functions of them.
        """
        tests = (test for test in compared(self.filters) if tests_null(test))
        bounded = (self.variables[b.level] for b in self.bounds if b.excludes_null)
        return self.nulls.union((v.name for v in variables(*tests)), bounded)

    @cached_property
    def sensors(self) -> tuple[Sensor, ...]:
        """A sensor for each trie and depth out of the key order (*Sensitivity indices*)."""
        if self.probes or self.way.upkeep is Upkeep.NEVER:
            return ()
        sensors = []
        for t, trie in enumerate(self.tries):
            depths = range(len(trie.levels))
            for depth in depths[-1:] if trie.negated else depths:
                level = trie.levels[depth]
                alphas = trie.levels[:depth]
                if trie.levels[: depth + 1] != tuple(range(depth + 1)):
                    gammas = tuple(g for g in range(level) if g not in alphas)
                    sensors.append(Sensor(t, depth, level, (*alphas, -1, -2, *gammas)))
        return tuple(sensors)

    @cached_property
    def shape(self) -> Shape:
        """The plan as arrays for the kernel."""
        levels = len(self.variables)
        depth_max = max((len(t.levels) for t in self.tries), default=1)
        arguments = np.full((len(self.tries), depth_max), -1, np.int64)
        for t, trie in enumerate(self.tries):
            arguments[t, : len(trie.levels)] = trie.levels
        parts = [
            [
                (t, trie.levels.index(v))
                for t, trie in enumerate(self.tries)
                if v in trie.levels and not trie.negated
            ]
            for v in range(levels)
        ]
        absent = [
            [t for t, trie in enumerate(self.tries) if trie.negated and trie.levels[-1] == v]
            for v in range(levels)
        ]
        bounds = [[b for b in self.bounds if b.level == v] for v in range(levels)]
        reads = [(r.trie, len(self.tries[r.trie].levels) - 1, r.column) for r in self.reads]
        return Shape(
            arguments,
            _starts(parts),
            _table(parts, 2),
            _starts(absent),
            _table(absent, 1).ravel(),
            _starts(bounds),
            bound_table([b[1:] for group in bounds for b in group]),
            _table([reads], 3),
        )

    @cached_property
    def sensor_arrays(self) -> Sensors:
        """All sensors of the plan as arrays for the kernel."""
        return sensors_of(self, self.sensors)

    @cached_property
    def trace_sensors(self) -> tuple[Sensor, ...]:
        """A sensor for every trie and depth, needed or not: the whole trace (*Aspiration*)."""
        return tuple(
            Sensor(t, depth, trie.levels[depth], (-1, -2, *range(trie.levels[depth])))
            for t, trie in enumerate(self.tries)
            for depth in range(len(trie.levels))
        )


def sensors_of(plan: Plan, sensors: Sequence[Sensor]) -> Sensors:
    """Return sensors as arrays: the join looks up by atom and depth which index it writes to."""
    sensor = np.full(plan.shape.argument_level.shape, -1, np.int64)
    width = max((len(s.columns) for s in sensors), default=1)
    sources = np.full((len(sensors), width), -3, np.int64)
    for i, s in enumerate(sensors):
        sensor[s.trie, s.depth] = i
        sources[i, : len(s.columns)] = s.columns
    return Sensors(sensor, sources)


def type_of(plan: Plan, level: int, predicates: Mapping[str, Predicate]) -> Type:
    """Return the type of a level's variable."""
    trie = next(trie for trie in plan.tries if level in trie.levels)
    return predicates[trie.index.predicate].types[trie.index.order[trie.levels.index(level)]]


def _starts(groups: Sequence[Sequence[object]]) -> np.ndarray:
    return np.cumsum([0, *map(len, groups)], dtype=np.int64)


def _table(groups: Sequence[Sequence[object]], width: int) -> np.ndarray:
    return np.array([row for group in groups for row in group], np.int64).reshape(-1, width)


@lru_cache(256)
def indices_of(plan: Plan) -> list[Index]:
    """Return every index that a plan or its probes read, each once."""
    plans = dict.fromkeys((plan, *plan.probes, *(move.plan for move in plan.moves)))
    return list(dict.fromkeys(trie.index for p in plans for trie in p.tries))
