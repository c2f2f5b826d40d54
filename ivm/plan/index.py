"""The indices of a relation: its columns in the orders that plans read them in."""

from functools import lru_cache
from typing import NamedTuple


class Index(NamedTuple):
    """A relation with its columns in another order; the identity is the relation itself."""

    predicate: str
    order: tuple[int, ...]


def permuted(index: Index) -> bool:
    """Whether an index is a tree of its own, and not the relation itself."""
    return list(index.order) != sorted(index.order)


@lru_cache(1024)
def tree_name(index: Index) -> str:
    """The name of an index's tree in the store."""
    if not permuted(index):
        return index.predicate
    return f"$index:{index.predicate}:{'.'.join(map(str, index.order))}"
