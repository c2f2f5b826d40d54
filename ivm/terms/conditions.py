"""Filters of bindings: a comparison, or a choice of several comparisons of which one must hold."""

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple, TypeGuard

import numpy as np

from ivm.lang.functions import call_may_fail
from ivm.lang.ir import Call, Compare, Const, Term, Var, renamed

SAME = "=="  # compares words: null is the same as null
FEW = 4  # a function over all rows costs as much as to take out a share below one of these


class Choice(NamedTuple):
    """A filter that holds where all comparisons of one of its options hold; none can fail."""

    options: tuple[tuple[Compare, ...], ...]

    def __str__(self) -> str:
        return f"({' ; '.join(', '.join(map(str, option)) for option in self.options)})"


Filter = Compare | Choice


def is_sure(comparison: Compare, known: Container[str]) -> bool:
    """Return whether a comparison cannot fail, and has only variables that are known."""

    def given(term: Term) -> bool:
        if isinstance(term, Call):
            return not call_may_fail(term) and all(map(given, term.args))
        return isinstance(term, Const) or (isinstance(term, Var) and term.name in known)

    return given(comparison.left) and given(comparison.right)


def applies_functions(one: Filter) -> bool:
    """Return whether a filter applies functions, and so comes after those that do not."""
    return any(isinstance(s, Call) for x in compared([one]) for s in (x.left, x.right))


def leaves_few(keep: np.ndarray | None) -> TypeGuard[np.ndarray]:
    """Return whether bool[n] leaves so few rows that functions are applied to these alone."""
    return keep is not None and FEW * int(np.count_nonzero(keep)) < len(keep)


def compared(filters: Iterable[Filter]) -> Iterator[Compare]:
    """Yield the comparisons of some filters."""
    for filter_ in filters:
        yield from chain(*filter_.options) if isinstance(filter_, Choice) else (filter_,)


def renamed_filter(one: Filter, names: Mapping[Var, Var]) -> Filter:
    """Return a filter with its variables renamed."""
    if isinstance(one, Choice):
        return Choice(
            tuple(tuple(renamed(part, names) for part in option) for option in one.options)
        )
    compare: Compare = renamed(one, names)
    return compare
