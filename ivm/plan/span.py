"""The evaluation form of a range aggregate: the indices of points and of measured records, and the words it uses.

peak[d] = n <- agg<<n = max(s)>> day(d), peak$folds0[e] = s, e <= d, e > d - 7.

points     day             group and point are the first words
measured   peak$folds0     group and key are the first words; a range goes from point + low to point + high
           week$parts0     group, place and key are the first words, if parts are added up
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ivm.lang.ir import Atom, Rule, Type, Var
from ivm.lang.traverse import variables
from ivm.lang.types import TEXTS
from ivm.plan.index import Index, permuted
from ivm.plan.rewrite.ranges import FIRST, LAST, PARTED_BY

SEEK_FIRST, SEEK_LAST, FOLD, ADDED, COMPARED = "first", "last", "fold", "added", "compared"
FOLDED_BY = {"count": "sum"}  # other operations have a scan of their own name


class Span(NamedTuple):
    """A range aggregate over indices.

    The first `group` words of a record are the group.  `keys` are the positions of the view's keys in a record of
    points, which are its first words unless `whole`; users see the first `width` words of it.  `result` is the position
    of the word of a measured record that is returned, or folded by the scan `scan`, named as users name scans.  `type`
    is the type that the operation `op` aggregates.

    Kinds: the first or last record of the range, a fold of its records, a fold of the parts of each place (ADDED), or a
    comparison of its texts (COMPARED).
    """

    points: Index
    measured: Index
    group: int
    low: int | None
    high: int | None
    whole: bool
    width: int
    keys: tuple[int, ...]
    kind: str
    result: int
    op: str
    type: Type
    scan: str = ""

    @property
    def indices(self) -> tuple[Index, Index]:
        """The index of points, and that of measured records."""
        return self.points, self.measured

    @property
    def lead(self) -> list[int]:
        """The positions of group and key in a measured record."""
        return [*range(self.group), self.group + (self.kind == ADDED)]


def span_of(rule: Rule, stored: Mapping[str, tuple[int, int]]) -> Span:
    """Return the span of a rule with a range; `stored` has the key words and visible words of each predicate."""
    span, (points, measured, *_) = rule.range, rule.body[0]
    (aggregate,) = rule.aggregates
    assert span and isinstance(points, Atom) and isinstance(measured, Atom)
    asked = aggregate.argument
    assert asked
    type_, scan = rule.types[asked.name], f"{FOLDED_BY.get(aggregate.op, aggregate.op)}:folded$"
    kind, lead = FOLD, (*span.group, span.key)
    if aggregate.arguments[-1] == span.key and aggregate.op in (*FIRST, *LAST):
        kind, scan = SEEK_FIRST if aggregate.op in FIRST else SEEK_LAST, ""
    elif aggregate.op in PARTED_BY:
        kind, scan, lead = ADDED, "sum:folded$", variables(*measured.args)
    elif type_ in TEXTS:
        kind, scan = COMPARED, "count"
    if aggregate.by and not {*measured.terms[: stored[measured.predicate][0]]} <= {*lead}:
        lead = (*lead, asked)
    shown = variables(*rule.heads[0].args)
    of_points = _index(points, (*span.group, span.point), shown, *stored[points.predicate])
    of_measured = _index(measured, lead, (asked,), *stored[measured.predicate])
    places = _columns(of_points, *stored[points.predicate])
    keys = tuple(places.index(points.terms.index(v)) for v in shown)
    result = _columns(of_measured, *stored[measured.predicate]).index(measured.terms.index(asked))
    return Span(
        of_points, of_measured, len(span.group), span.low, span.high, span.whole, len(places), keys, kind, result,
        aggregate.op, type_, scan,
    )  # fmt: skip


def _index(atom: Atom, lead: Sequence[Var], needed: Iterable[Var], keys: int, visible: int) -> Index:
    """Return the index of an atom's relation that begins with the columns `lead` and also has those `needed`."""
    columns = [atom.terms.index(v) for v in lead]
    order = [*columns, *(c for c in range(keys) if c not in columns)]
    if _holds_named(keys, visible):
        order = [*dict.fromkeys([*order, *map(atom.terms.index, needed)])]
    own = Index(atom.predicate, tuple(range(keys)))
    return own if columns == [*range(len(columns))] and len(columns) <= keys else Index(atom.predicate, tuple(order))


def _holds_named(keys: int, visible: int) -> bool:
    """Return whether an index holds only the columns it names, because the relation has several values."""
    return visible - keys > 1


def _columns(index: Index, keys: int, visible: int) -> list[int]:
    """Return the relation's columns in the order of an index's records."""
    if not permuted(index):
        return [*range(visible)]
    return [*index.order, *(c for c in range(visible) if c not in index.order and not _holds_named(keys, visible))]
