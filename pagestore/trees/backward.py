"""Read the records of a tree from the last key to the first, leaf by leaf.

An index entry holds exactly the least key below its child, so the leaf before a place begins with the key of the entry
before the one that led there:

    level 1      | 2  5 | 9  14 |          before 9: the last entry, 5, of the page before
    leaves       2 3  5 7  9 11  14 20     5 7
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pagestore.pages.layout import ENTRY_COUNT, WORD_MAX
from pagestore.pages.page import unpack
from pagestore.pages.page_map import Pages
from pagestore.runtime.arguments import Door, MappedWords, Words
from pagestore.trees.kernels.cursor import AT_END, CURSOR_WORDS, LEAF_PAGE, LEAF_SLOT, PATH
from pagestore.trees.reading import SEEK, read
from pagestore.trees.tree import Tree, checked

UNPACK = Door(unpack, MappedWords, int, int, int, int, Words, int)

Bound = tuple[Any, ...]  # words of a key or of a prefix of one; () is unbounded


def read_backward(pages: Pages, tree: Tree, lo: Bound = (), hi: Bound = ()) -> Iterator[np.ndarray]:
    """Yield batches[C, n] of the records with lo <= key < hi, the greatest key first; prefixes allowed.

    A batch has the records of one leaf. O(height) page reads a leaf. Raises CorruptionError.
    """
    while tree.count:
        low = _leaf_below(pages, tree, hi)
        if low is None:
            return
        batch = read(pages, tree, max(low, lo), hi)
        if batch.shape[1]:
            yield batch[:, ::-1]
        if low <= lo:
            return
        hi = low


def _leaf_below(pages: Pages, tree: Tree, hi: Bound) -> Bound | None:
    """Return the least key of the leaf that has the greatest key below `hi`; () for a root leaf, None for no leaf."""
    cursor = _sought(pages, tree, hi)
    inside = not hi or cursor[LEAF_PAGE] == AT_END or cursor[LEAF_SLOT] > 0
    if tree.height == 1:
        return () if inside else None
    if inside:
        return _separator(pages, tree, cursor, 1, _slot(cursor, 1))
    level = next((level for level in range(1, tree.height) if _slot(cursor, level) > 0), None)
    if level is None:
        return None
    low = _separator(pages, tree, cursor, level, _slot(cursor, level) - 1)
    for below in range(level - 1, 0, -1):  # to the last leaf of the subtree that begins with `low`
        cursor = _sought(pages, tree, low)
        entries = int(pages.words[cursor[PATH + 2 * below - 2] + ENTRY_COUNT])
        low = _separator(pages, tree, cursor, below, entries - 1)
    return low


def _sought(pages: Pages, tree: Tree, key: Bound) -> np.ndarray:
    """Return a cursor at the first record at or after a key, or for () after the last one."""
    spec = tree.spec
    cursor = np.zeros(CURSOR_WORDS, np.int64)
    key = key or (WORD_MAX,) * spec.keys
    words = np.array(key, np.int64)
    checked(SEEK.call(*pages, tree.pointer, tree.height, spec.keys, words, len(key), cursor, 0), spec)
    return cursor


def _slot(cursor: np.ndarray, level: int) -> int:
    return int(cursor[PATH + 2 * level - 1])


def _separator(pages: Pages, tree: Tree, cursor: np.ndarray, level: int, slot: int) -> Bound:
    """Return the key of an entry of the index page on a cursor's path at a level."""
    page, out = int(cursor[PATH + 2 * level - 2]), np.zeros(tree.spec.keys, np.int64)
    for column in range(tree.spec.keys):
        UNPACK.call(pages.words, page, column, slot, slot + 1, out, column)
    return tuple(out.tolist())
