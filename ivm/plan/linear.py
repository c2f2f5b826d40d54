"""Comparisons as sums of words: `y = v + x - 1` is y - v - x + 1 = 0, so the join can seek each
variable by the others.

Words of int64, dates, timestamps and decimals of one scale add up as their values do.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from ivm.join.kernels.tries import EQ, GE, LE, NE, OTHERS
from ivm.lang.functions import COUNTED
from ivm.lang.ir import MIRRORED, Binary, Call, Compare, Const, Term, Type, Var
from ivm.lang.types import has_ids, scale
from ivm.plan.plan import Bound, Link
from ivm.terms.conditions import SAME
from ivm.terms.encoder import Encode

KINDS = {"=": (EQ, 0), "!=": (NE, 0), "<": (LE, -1), "<=": (LE, 0), ">": (GE, 1), ">=": (GE, 0)}
MOMENTS = "timestamp", "timestamp(UTC)"
FAR = 1 << 62  # for constants of this size, a bound may not fit 64 bits


class Linear(NamedTuple):
    """A comparison `constant + times[x] * x + times[y] * y + ... op 0`."""

    times: dict[str, int]
    op: str
    constant: int

    @property
    def seekable(self) -> bool:
        """Return whether the join can seek each variable by the others."""
        few = len(self.times) <= 1 + OTHERS and all(abs(n) == 1 for n in self.times.values())
        return few and abs(self.constant) < FAR

    def bound(self, level: Mapping[str, int]) -> Bound:
        """Return the comparison as a bound on its last variable, given the level of each."""
        last = max(self.times, key=level.__getitem__)
        sign = self.times[last]
        others = tuple((level[n], -sign * s) for n, s in self.times.items() if n != last)
        kind, shift = KINDS[self.op if sign > 0 else MIRRORED[self.op]]
        return Bound(level[last], kind, others, shift - sign * self.constant)

    def link(self) -> Link | None:
        """Return a comparison of two variables, but for `=`, as one of words; None for others."""
        if sorted(self.times.values()) != [-1, 1] or KINDS.get(self.op, (EQ, 0))[0] == EQ:
            return None
        (name, sign), (other, _) = self.times.items()
        kind, shift = KINDS[self.op if sign > 0 else MIRRORED[self.op]]
        return Link(name, kind, other, shift - sign * self.constant)

    def side(self) -> tuple[frozenset[tuple[str, int]], str]:
        """Return the signed variables and operator, normalised: `x - y < 3` and `y - x > 1` have
        equal variables.
        """
        sign = 1 if self.times[min(self.times)] > 0 else -1
        names = frozenset((name, sign * s) for name, s in self.times.items())
        return names, self.op if sign > 0 else MIRRORED[self.op]


def linear(literal: Compare, types: Mapping[str, Type], encode: Encode) -> Linear | None:
    """Convert a comparison to a sum; None if it has other operations or no variable, or compares
    the order of texts.

    Words are the same where two variables, or one and a constant, are equal or both null; a sum
    with null is another.
    """
    difference = _as_words(literal.left, types), _as_words(literal.right, types)
    if literal.op == SAME:
        sums = any(isinstance(side, Binary) for side in difference)
        return None if sums else linear(replace(literal, op="="), types, encode)
    if literal.op not in ("=", "!=") and any(_is_text(side, types) for side in difference):
        return None
    if any(isinstance(side, Binary) for side in difference) and not _add_up(difference, types):
        return None
    times: dict[str, int] = {}
    total = 0
    for side, sign in zip(difference, (1, -1), strict=True):
        constant = _gather(side, sign, times, encode)
        if constant is None:
            return None
        total += constant
    times = {name: n for name, n in times.items() if n}
    return Linear(times, literal.op, total) if times else None


def pinned(forms: Iterable[Linear]) -> list[frozenset[str]]:
    """Return sets of variables, each of which has one value, or a range with two ends, once the
    others are bound.
    """
    kinds_of: dict[frozenset[tuple[str, int]], set[int]] = {}
    for form in forms:
        names, op = form.side()
        kinds_of.setdefault(names, set()).add(KINDS[op][0])
    return [
        frozenset(name for name, _ in names)
        for names, kinds in kinds_of.items()
        if EQ in kinds or {GE, LE} <= kinds
    ]


def between(forms: Iterable[Linear]) -> dict[str, list[frozenset[str]]]:
    """Return, for variables that are compared with others on both sides, the pairs of these, each a
    lower and an upper end.
    """
    low, high = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for link in filter(None, map(Linear.link, forms)):
        greater, less = (link.name, link.other) if link.kind == GE else (link.other, link.name)
        if link.kind in (GE, LE):
            low[greater].add(less)
            high[less].add(greater)
    return {
        name: [frozenset((a, b)) for a in low[name] for b in high[name] if a != b]
        for name in low.keys() & high.keys()
    }


def _add_up(terms: Iterable[Term], types: Mapping[str, Type]) -> bool:
    leaves = chain.from_iterable(map(_leaves, terms))
    kinds = (types[leaf.name] if isinstance(leaf, Var) else leaf.type for leaf in leaves)
    return all(kind in (*COUNTED, *MOMENTS) or scale(kind) is not None for kind in kinds)


def _as_words(term: Term, types: Mapping[str, Type]) -> Term:
    """Return a term without the functions that make a moment one of another type, of which the word
    is the same.
    """
    if isinstance(term, Binary):
        sides = _as_words(term.left, types), _as_words(term.right, types)
        return replace(term, left=sides[0], right=sides[1])
    if isinstance(term, Call) and term.name in ("datetime", "datetime:utc"):
        inside = _as_words(term.args[0], types)
        kinds = {types[x.name] if isinstance(x, Var) else x.type for x in _leaves(inside)}
        if kinds & {*MOMENTS} and not isinstance(inside, Call):
            return inside
    return term


def _is_text(term: Term, types: Mapping[str, Type]) -> bool:
    if isinstance(term, Var):
        return term.name in types and has_ids(types[term.name])
    return isinstance(term, Const) and has_ids(term.type)


def _leaves(term: Term) -> Iterable[Var | Const]:
    if isinstance(term, Binary):
        return chain(_leaves(term.left), _leaves(term.right))
    return () if isinstance(term, Call) else (term,)


def _gather(term: Term, sign: int, times: dict[str, int], encode: Encode) -> int | None:
    """Add a term's variables to `times`; return its constant, or None if it is not a sum."""
    if isinstance(term, Const):
        return sign * encode(term)
    if isinstance(term, Var):
        times[term.name] = times.get(term.name, 0) + sign
        return 0
    if isinstance(term, Call) or term.op not in "+-":
        return None
    left = _gather(term.left, sign, times, encode)
    right = _gather(term.right, sign if term.op == "+" else -sign, times, encode)
    return None if left is None or right is None else left + right
