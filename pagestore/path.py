"""The way from a tree's root to one of its pages, for the messages about a bad one."""

from collections.abc import Iterator
from contextlib import contextmanager

from .errors import CorruptionError
from .kernels.page import enter, field
from .layout import COUNT
from .tree import Pages, Tree


def path_to(pages: Pages, tree: Tree, page: int) -> tuple[int, ...]:
    """Pages from the root to `page`, both included; () if it is not in the tree. O(index pages)."""
    return _below(pages, tree.root, tree.height - 1, tree.spec.keys, page) if tree.root else ()


def _below(pages: Pages, at: int, level: int, keys: int, page: int) -> tuple[int, ...]:
    if at == page:
        return (at,)
    start = enter(*pages, at, level) if level else -1
    if start < 0:
        return ()
    for slot in range(int(pages.words[start + COUNT])):
        way = _below(pages, int(field(pages.words, start, keys, slot)), level - 1, keys, page)
        if way:
            return (at, *way)
    return ()


@contextmanager
def naming_path(pages: Pages, tree: Tree) -> Iterator[None]:
    """Add the path from the root to a CorruptionError that names a page of this tree."""
    try:
        yield
    except CorruptionError as error:
        raise with_path(error, pages, tree) from None


def with_path(error: CorruptionError, pages: Pages, tree: Tree) -> CorruptionError:
    """The error, and the path from the root if it names a page of this tree."""
    if error.page is None or error.path:
        return error
    return CorruptionError(page=error.page, tree=error.tree, path=path_to(pages, tree, error.page))
