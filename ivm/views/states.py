"""The trees of state that aggregates have in addition to their views, and which aggregates of a rule share one.

    kind       a record               for
    alone      (0; the row's values)  count and sum of f[], whose view has the result as its key
    parts      (s..., place; t, eta)  total, avg, variance and the like: exact sums of summands and of their squares
    values     (s..., v...; eta)      all others: the variables that order, then those that are the result
    inverted   (s...; x, eta)         users' operators with an inverse (invertible.py)

s is the group's key, 0 for an aggregate without keys, and eta is the number of assignments.

    lo[x] = a, hi[x] = b, mid[x] = c <- agg<<a = min(v), b = max(v), c = median(v)>> cost(x, v).

has one tree of values (x, v; eta) for all three.  It counts records, so that a group is found by rank; median also
needs the sum of eta.  A max that shares its state with no other stores ~v, which reverses the order.  levels.py says
how groups of several levels of detail share a state.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ivm.lang.aggregate import MOMENTS, PARTED, SQUARED, serves_levels
from ivm.lang.ir import Aggregate, Atom, Rule, Type, Value, Var
from ivm.lang.types import TEXTS
from ivm.views.levels import Wanted, chains
from pagestore.host import CARRY, CHECKSUM, COUNT, MAX, MIN, SUM, THEN, Spec, has_inverse, is_operator, operator_code

APART = "$apart:"  # prefix of a state's name, before the first view that it serves
ALONE, PARTS, VALUES, INVERTED = "alone", "parts", "values", "inverted"
WEIGHED = ("median", "quantile", "top", "bottom")  # these find an assignment by the number of those before it
LOWER = ("min", "argmin", "first", "bottom")  # these use the first assignments of a group
UPPER = ("max", "argmax", "last", "top")
ENDS = {MIN: LOWER, MAX: UPPER}


class State(NamedTuple):
    """A tree of state: its name, its kind, the numbers of words of a group's key and of a value, and its operations.

    `texts` are the positions of texts among a value's words; `falling` says that values are complemented.  If it
    serves several levels of detail, `levels` are the variables of its key, and `folded` says whether coarser groups
    need the least value of a range (MIN) or the greatest (MAX).
    """

    name: str
    kind: str
    group: int
    values: int
    ops: tuple[str, ...] = ()
    texts: tuple[int, ...] = ()
    falling: bool = False
    levels: tuple[Var, ...] = ()
    folded: tuple[int, ...] = ()

    @property
    def squared(self) -> bool:
        """Whether parts of squares are stored, too."""
        return any(op in SQUARED for op in self.ops)

    @property
    def counted(self) -> bool:
        """Whether the number of assignments is stored as a part."""
        return any(op in MOMENTS for op in self.ops)

    @property
    def visible(self) -> int:
        """The number of words of a record that can affect a view: with the support, if assignments are counted."""
        spec = self.spec
        asked = self.kind == ALONE or (self.kind == VALUES and not {*WEIGHED, "concat"}.isdisjoint(self.ops))
        return spec.keys + spec.values - (not asked)

    @property
    def spec(self) -> Spec:
        """The shape of the tree."""
        if self.kind == ALONE:
            return Spec(0, 1, self.values)
        if self.kind == PARTS:
            return Spec(0, self.group + 1, 2, ((COUNT, 0),))
        if self.kind == INVERTED:
            return Spec(0, self.group, 2)
        keys = self.group + self.values
        scans = [(COUNT, 0)]
        if any(op in WEIGHED for op in self.ops):
            scans += [(SUM, keys), (CARRY, keys)]
        if "concat" in self.ops:
            scans.append((CHECKSUM, keys + 1))
        for end in self.folded:
            scans += self.scan_of(end)
        scans += [(operator_code(op), keys - 1) for op in dict.fromkeys(self.ops) if is_operator(op)]
        return Spec(0, keys, 1, (*scans,))

    def scan_of(self, end: int) -> tuple[tuple[int, int], ...]:
        """Return the scan for the least (`end` is MIN) or greatest (MAX) value in a range."""
        first, *others = range(self.group, self.group + self.values)
        return (end, first), *((THEN, column) for column in others)


class Fold(NamedTuple):
    """How a view's rows are computed from a state: the operation, its constants, the type of its argument and whether
    it numbers the rows of a group; `grouped` is False if there is one group.

    With several levels of detail, the view's group is the state's key without the last `between` words, and `order` has
    the position of each of the view's keys in it; it is empty if the order is the same.
    """

    op: str
    state: State
    type: Type
    constants: tuple[Value, ...] = ()
    numbered: bool = False
    grouped: bool = True
    between: int = 0
    order: tuple[int, ...] = ()

    @property
    def group(self) -> int:
        """The number of words of the state's records that identify the view's groups."""
        return self.state.group - self.between

    @property
    def rows_max(self) -> int:
        """The most rows that a group has in the view."""
        (most,) = self.constants if self.numbered else (1,)
        assert isinstance(most, int)
        return most

    @property
    def is_text_ordered(self) -> bool:
        """Whether the order of texts matters, which is not that of their words."""
        return bool(self.state.texts) and self.op not in ("count_distinct", "concat")


def states_of(rule: Rule) -> list[State | None]:
    """Return the state of each head's aggregate, the same one if shared; None if none is needed."""
    wanted = [_wanted(rule, head, one) for head, one in zip(rule.heads, rule.aggregates, strict=True)]
    serving = [_serves_levels(rule, one.op, key) for key, one in zip(wanted, rule.aggregates, strict=True)]
    keyed = chains(wanted, serving) if rule.levels else {}
    return [key and _state(rule, wanted, n, keyed) for n, key in enumerate(wanted)]


def state_names(rule: Rule) -> list[str]:
    """Return the name of each head's state, empty if none is needed."""
    return [state.name if state else "" for state in states_of(rule)]


def _state(rule: Rule, wanted: list[Wanted | None], number: int, keyed: dict[Wanted, tuple[Var, ...]]) -> State:
    """Return the state of the aggregate with a number; `keyed` has the keys of states for several levels of detail."""
    own = wanted[number]
    assert own
    (kind, group, values), levels = own, keyed.get(own, ())
    sharing = [n for n, other in enumerate(wanted) if other == own or (levels and _is_level(other, own, keyed))]
    if kind == INVERTED:
        sharing = [n for n in sharing if rule.aggregates[n].op == rule.aggregates[number].op]
    ops = tuple(rule.aggregates[n].op for n in sharing)
    texts = tuple(n for n, v in enumerate(values) if rule.types[v.name] in TEXTS) if kind == VALUES else ()
    served = [(group_of(rule.heads[n], rule.aggregates[n]), rule.aggregates[n].op) for n in sharing]
    coarse = {op for keys, op in served if len(keys) < len(levels)}
    folded = () if texts else tuple(end for end, ops in ENDS.items() if not coarse.isdisjoint(ops))
    name = f"{APART}{rule.heads[sharing[0]].predicate}"
    if kind == ALONE:
        values = values or (rule.aggregates[sharing[0]].result,)
    words = 1 + (ops[0] == "sum") if kind == ALONE else len(values)
    key = levels or group
    return State(name, kind, max(1, len(key)), words, ops, texts, not levels and ops == ("max",), levels, folded)


def _serves_levels(rule: Rule, op: str, wanted: Wanted | None) -> bool:
    """Return whether an aggregate can use the state of finer groups; texts within an order prevent it."""
    if wanted is None or wanted[0] != VALUES or not serves_levels(op):
        return False
    return op in ("min", "max") or all(rule.types[v.name] not in TEXTS for v in wanted[2])


def _is_level(other: Wanted | None, own: Wanted, keyed: dict[Wanted, tuple[Var, ...]]) -> bool:
    """Return whether the same state of several levels serves another aggregate."""
    return other is not None and other[2] == own[2] and keyed.get(other) == keyed[own]


def _wanted(rule: Rule, head: Atom, aggregate: Aggregate) -> Wanted | None:
    """Return what an aggregate stores: the kind, the group's key and the variables of a value; None for no state."""
    group, op = group_of(head, aggregate), aggregate.op
    if op in ("count", "sum", PARTED):
        return None if head.args else (ALONE, (aggregate.result,), ())
    if op in (*MOMENTS, "total"):
        return PARTS, group, aggregate.arguments
    if has_inverse(op):
        return INVERTED, group, aggregate.arguments
    return VALUES, group, value_of(aggregate, group)


def group_of(head: Atom, aggregate: Aggregate) -> tuple[Var, ...]:
    """Return the variables of a group's key."""
    args = head.args if aggregate.place is None else head.args[:-1]
    return tuple(arg for arg in args if isinstance(arg, Var))  # all are


def value_of(aggregate: Aggregate, group: Sequence[Var]) -> tuple[Var, ...]:
    """Return the variables of a value in the order of its words: those that order, then the results."""
    taken = aggregate.arguments[: len(aggregate.arguments) - aggregate.by]
    order = aggregate.arguments[len(taken) :]
    if aggregate.op not in ("argmin", "argmax", "top", "bottom"):
        order = tuple(v for v in order if v not in group)
    return order if order[-1:] == taken else order + taken
