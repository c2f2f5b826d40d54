"""Filters of bindings: a comparison, or a choice of several comparisons of which one must hold."""

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from ivm.lang.ir import Compare, Const, Var, renamed

SAME = "=="  # compares words: null is the same as null


class Choice(NamedTuple):
    """A filter that holds where all comparisons of one of its options hold; none has arithmetic."""

    options: tuple[tuple[Compare, ...], ...]

    def __str__(self) -> str:
        return f"({' ; '.join(', '.join(map(str, option)) for option in self.options)})"


Filter = Compare | Choice


def is_sure(comparison: Compare, known: Container[str]) -> bool:
    """Return whether a comparison has no arithmetic, and only variables that are known."""
    sides = comparison.left, comparison.right
    return all(
        isinstance(side, Const) or (isinstance(side, Var) and side.name in known) for side in sides
    )


def compared(filters: Iterable[Filter]) -> Iterator[Compare]:
    """Yield the comparisons of some filters."""
    for one in filters:
        yield from chain(*one.options) if isinstance(one, Choice) else (one,)


def renamed_filter(one: Filter, names: Mapping[Var, Var]) -> Filter:
    """Return a filter with its variables renamed."""
    if isinstance(one, Choice):
        return Choice(
            tuple(tuple(renamed(part, names) for part in option) for option in one.options)
        )
    found: Compare = renamed(one, names)
    return found
