"""Indices of a relation: its columns in the order in which a plan reads them.

edge(x, y) by x, y    Index("edge", (0, 1))    the tree "edge"
edge(x, y) by y, x    Index("edge", (1, 0))    the tree "$index:edge:1.0"

An index of a function of several values holds only the columns that a plan uses, and those of the function's key.

customer[c] = (n, e, a) by e       Index("customer", (2, 0))    the tree "$index:customer:2.0"
"""

from functools import lru_cache
from typing import NamedTuple


class Index(NamedTuple):
    """A relation and an order of its columns; in the original order, the index is the relation itself."""

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
