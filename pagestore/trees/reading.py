"""Read the records of a tree in key order, in batches or all at once; count them; list a tree's pages.

tree        (0, a) (2, b) (4, c) (5, d) (6, e)
read_batches(pages, tree, lo=(2,), hi=(6,), rows=2)      [[2, 4], [b, c]] then [[5], [d]]"""

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.page_map import Pages
from pagestore.runtime.arguments import Bytes, Door, MappedWords, Table, Words
from pagestore.runtime.buffers import pooled
from pagestore.trees.kernels import cursor as k_cursor
from pagestore.trees.kernels import read_range as k_read_range
from pagestore.trees.kernels.cursor import CURSOR_WORDS
from pagestore.trees.tree import Tree, checked

MAP = MappedWords, Bytes, int  # the fields of Pages
SEEK = Door(k_cursor.seek, *MAP, int, int, int, Words, int, Words, int)
READ = Door(k_read_range.read_range, *MAP, int, Words, Words, int, Words, Table)
PAGES = Door(k_read_range.tree_pages, *MAP, int, int, int, Words)


BATCH_ROWS, BATCH_WORDS = 1 << 16, 1 << 23  # at most, of a batch
LARGE_WORDS = 1 << 25  # at most, of a large batch


def batch_rows(columns: int, rows: int = BATCH_ROWS, words: int = BATCH_WORDS) -> int:
    """Return how many records of `columns` words make a batch of at most `rows` rows and `words` words.

    >>> batch_rows(9), batch_rows(1000)
    (65536, 8388)
    """
    return max(1, min(rows, words // max(1, columns)))


def read_batches(
    pages: Pages,
    tree: Tree,
    lo: tuple[Any, ...] = (),
    hi: tuple[Any, ...] = (),
    columns: tuple[int, ...] | None = None,
    rows: int | None = None,
) -> Iterator[np.ndarray]:
    """Yield batches[C, <= rows] of the records with lo <= key < hi in order; prefixes allowed, () is unbounded.

    Without `rows` a batch has BATCH_ROWS of them, and BATCH_WORDS words at most.

    Raises CorruptionError, at the latest when all are read and their number is not the tree's count.
    """
    spec = tree.spec
    wanted = np.array(range(spec.columns) if columns is None else columns, np.int64)
    stop = np.array(hi or (0,), np.int64)
    cursor = np.zeros(CURSOR_WORDS, np.int64)
    rows = max(1, min(batch_rows(len(wanted)) if rows is None else rows, tree.count))
    start = np.array(lo or (0,), np.int64)
    checked(SEEK.call(*pages, tree.pointer, tree.height, spec.keys, start, len(lo), cursor, 0), spec)
    n, found = rows, 0
    while n == rows:
        out = pooled(len(wanted), rows)
        n = checked(READ.call(*pages, spec.keys, wanted, stop, len(hi), cursor, out), spec)
        found += n
        if found > tree.count or (n < rows and found != tree.count and not (lo or hi)):
            fact = f"it leads to {found} records, and the tree has {tree.count}"
            raise CorruptionError(fact, page=tree.root, tree=spec.tree_id)
        if n:
            yield out[:, :n]


def read_blocks(pages: Pages, tree: Tree, rows: int, every: int) -> Iterator[np.ndarray]:
    """Yield every `every`-th block [C, <= rows] of `rows` records; between them only leaf headers are read."""
    spec, none, cursor = tree.spec, np.zeros(1, np.int64), np.zeros(CURSOR_WORDS, np.int64)
    checked(SEEK.call(*pages, tree.pointer, tree.height, spec.keys, none, 0, cursor, 0), spec)
    blocks = (np.arange(spec.columns), rows), (none[:0], rows * (every - 1))
    for columns, most in cycle(blocks):
        out = np.empty((len(columns), most), np.int64)
        n = checked(READ.call(*pages, spec.keys, columns, none, 0, cursor, out), spec)
        if n and len(columns):
            yield out[:, :n]
        if n < most:
            return


def read(
    pages: Pages, tree: Tree, lo: tuple[Any, ...] = (), hi: tuple[Any, ...] = (), columns: tuple[int, ...] | None = None
) -> np.ndarray:
    """Return all records with lo <= key < hi, int64[C, n]; they are counted first, so that each is written once."""
    wanted = tuple(range(tree.spec.columns)) if columns is None else columns
    n = count(pages, tree, lo, hi) if lo or hi else tree.count
    return next(read_batches(pages, tree, lo, hi, wanted, n), np.empty((len(wanted), 0), np.int64))


def count(pages: Pages, tree: Tree, lo: tuple[Any, ...] = (), hi: tuple[Any, ...] = ()) -> int:
    """Count the records with lo <= key < hi, by the counts in leaf headers.  O(leaves)."""
    return sum(block.shape[1] for block in read_batches(pages, tree, lo, hi, (), tree.count))


def pages_of(pages: Pages, tree: Tree) -> np.ndarray:
    """Return the ids of all pages of a tree, each parent before its children."""
    out = np.empty(64, np.int64)
    while True:
        n = checked(PAGES.call(*pages, tree.pointer, tree.height, tree.spec.keys, out), tree.spec)
        if n <= len(out):
            return out[:n]
        out = np.empty(n, np.int64)
