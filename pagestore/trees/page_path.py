"""The path from a tree's root to one of its pages, for error messages about a bad page."""

from collections.abc import Iterator
from contextlib import contextmanager

from pagestore.errors import CorruptionError
from pagestore.pages.enter import child, enter
from pagestore.pages.layout import ENTRY_COUNT
from pagestore.pages.page import field
from pagestore.pages.page_map import Pages
from pagestore.runtime.arguments import Bytes, Door, MappedWords
from pagestore.trees.tree import Tree

MAP = MappedWords, Bytes, int  # the fields of Pages
CHILD = Door(child, *MAP, int, int, int, int, int)
ENTER = Door(enter, *MAP, int, int, int)
FIELD = Door(field, MappedWords, int, int, int)


def path_to(pages: Pages, tree: Tree, page: int) -> tuple[int, ...]:
    """Return the pages from the root to `page`, both included; () if it is not in the tree. O(index pages)."""
    level, keys = tree.height - 1, tree.spec.keys
    start = ENTER.call(*pages, tree.pointer, level, keys + 1) if tree.root != page and level > 0 else 0
    return _below(pages, tree.root, start, level, keys, page, set()) if tree.root else ()


def _below(pages: Pages, at: int, start: int, level: int, keys: int, page: int, passed: set[int]) -> tuple[int, ...]:
    """Return the path from index page `at`, whose words begin at `start`; `passed` pages do not lead to `page`."""
    if at == page:
        return (at,)
    if start <= 0 or at in passed:
        return ()
    passed.add(at)
    for slot in range(int(pages.words[start + ENTRY_COUNT])):
        below = int(FIELD.call(pages.words, start, keys, slot))
        first = CHILD.call(*pages, start, keys, slot, level - 1, keys + 1) if below != page and level > 1 else 0
        way = _below(pages, below, first, level - 1, keys, page, passed)
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
    """Return the error, with the path from the root if it names a page of this tree."""
    if error.page is None or error.path:
        return error
    return CorruptionError(page=error.page, tree=error.tree, path=path_to(pages, tree, error.page))
