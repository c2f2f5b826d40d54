"""Comparisons as sums of words: `y = v + x - 1` is y - v - x + 1 = 0, and any variable of it can be sought by the rest.

Words of int64, dates, timestamps and decimals of one scale add up as their values do.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from ivm.constants import Encode
from ivm.kernels.leapfrog import EQ, GE, LE, NE, OTHERS
from ivm.lang.rule import Binary, Compare, Const, Term, Type, Var
from ivm.lang.types import scale
from ivm.plan import Bound

KINDS = {"=": (EQ, 0), "!=": (NE, 0), "<": (LE, -1), "<=": (LE, 0), ">": (GE, 1), ">=": (GE, 0)}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
FAR = 1 << 62  # constants beyond are not added up within 64 bits


class Linear(NamedTuple):
    """`op` compares 0 with a constant and variables, each added (1) or taken away (-1)."""

    signs: dict[str, int]
    op: str
    constant: int

    def bound(self, level: Mapping[str, int]) -> Bound:
        """What the last of the variables has to be."""
        last = max(self.signs, key=level.__getitem__)
        sign = self.signs[last]
        others = tuple((level[n], -sign * s) for n, s in self.signs.items() if n != last)
        kind, shift = KINDS[self.op if sign > 0 else FLIPPED[self.op]]
        return Bound(level[last], kind, others, shift - sign * self.constant)

    def side(self) -> tuple[frozenset[tuple[str, int]], str]:
        """The variables, alike for what is below and above them, and the operation as seen from the first of them."""
        sign = self.signs[min(self.signs)]
        names = frozenset((name, sign * s) for name, s in self.signs.items())
        return names, self.op if sign > 0 else FLIPPED[self.op]


def linear(literal: Compare, types: Mapping[str, Type], encode: Encode) -> Linear | None:
    """A comparison as a sum, if it is one of few variables."""
    difference = literal.left, literal.right
    if any(isinstance(side, Binary) for side in difference) and not _add_up(difference, types):
        return None
    signs: dict[str, int] = {}
    total = 0
    for side, sign in zip(difference, (1, -1), strict=True):
        constant = _gather(side, sign, signs, encode)
        if constant is None:
            return None
        total += constant
    signs = {name: sign for name, sign in signs.items() if sign}
    if not 0 < len(signs) <= 1 + OTHERS or any(abs(sign) > 1 for sign in signs.values()) or abs(total) >= FAR:
        return None
    return Linear(signs, literal.op, total)


def pinned(forms: Iterable[Linear]) -> list[frozenset[str]]:
    """Sets of variables of which each is one value, or between two, once the others are bound."""
    found: dict[frozenset[tuple[str, int]], set[int]] = {}
    for form in forms:
        names, op = form.side()
        found.setdefault(names, set()).add(KINDS[op][0])
    return [frozenset(name for name, _ in names) for names, kinds in found.items() if EQ in kinds or {GE, LE} <= kinds]


def _add_up(terms: Iterable[Term], types: Mapping[str, Type]) -> bool:
    leaves = chain.from_iterable(map(_leaves, terms))
    kinds = (types[leaf.name] if isinstance(leaf, Var) else leaf.type for leaf in leaves)
    return all(kind in ("int64", "date", "timestamp") or scale(kind) is not None for kind in kinds)


def _leaves(term: Term) -> Iterable[Var | Const]:
    if isinstance(term, Binary):
        return chain(_leaves(term.left), _leaves(term.right))
    return (term,)


def _gather(term: Term, sign: int, signs: dict[str, int], encode: Encode) -> int | None:
    """Add a term to the signs of its variables; returns its constant, or None for one that is no sum."""
    if isinstance(term, Const):
        return sign * encode(term)
    if isinstance(term, Var):
        signs[term.name] = signs.get(term.name, 0) + sign
        return 0
    if term.op not in "+-":
        return None
    left = _gather(term.left, sign, signs, encode)
    right = _gather(term.right, sign if term.op == "+" else -sign, signs, encode)
    return None if left is None or right is None else left + right
