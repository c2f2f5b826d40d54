"""Read the records of a tree in key order, in batches or all at once; count them; list a tree's
pages.

tree        (0, a) (2, b) (4, c) (5, d) (6, e)
read_batches(pages, tree, lo=(2,), hi=(6,), rows=2)      [[2, 4], [b, c]] then [[5], [d]]

Read blocks of records that are far from each other, which leaves the pages between them alone:

Blocks(pages, tree, most=2, rows=2).read(1)      [[a]] then [[d]], if 5 is the first key of a leaf

Read the records of a tree from the last key to the first, leaf by leaf.

An index entry holds exactly the least key below its child, so the leaf before a place begins with
the key of the entry before the one that led there:

    level 1      | 2  5 | 9  14 |          before 9: the last entry, 5, of the page before
    leaves       2 3  5 7  9 11  14 20     5 7

Look up keys in a tree, many in one call or single ones at little cost, and count the records with a
prefix.

get(pages, tree, keys[K, n])             found[n], values[V, n]; in key order, each page is read once
RecordFinder(pages, tree).find(key)      the values or None; its kernel's arguments are packed once
count_prefixes(pages, tree, prefixes)    how many records begin with each prefix
first_from(pages, tree, prefixes)        found[n], the records at or after each; last_before, those before it
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.layout import ENTRY_COUNT, WORD_MAX, WORD_MIN, Pages
from pagestore.pages.page import unpack
from pagestore.runtime.buffers import pooled
from pagestore.runtime.kernel import TypedKernel
from pagestore.runtime.parallel import together
from pagestore.runtime.types import Flags, Key, MappedWords, Table, Tables, Words
from pagestore.sorting.tuples import near_order
from pagestore.trees.kernels import cursor as k_cursor
from pagestore.trees.kernels import lookup as k_lookup
from pagestore.trees.kernels.arguments import TreeRef
from pagestore.trees.kernels.cursor import AT_END, CURSOR_WORDS, LEAF_PAGE, LEAF_SLOT, PATH
from pagestore.trees.scratch import scratch
from pagestore.trees.tree import CHILD, ENTER, Tree, checked

SEEK = TypedKernel(k_cursor.seek)
READ = TypedKernel(k_cursor.read_range)
PAGES = TypedKernel(k_cursor.tree_pages)


BATCH_ROWS, BATCH_WORDS = 1 << 16, 1 << 23  # at most, of a batch
LARGE_WORDS = 1 << 25  # at most, of a large batch
SPREAD = 4  # index entries for each block of records that are far from each other


def batch_rows(columns: int, rows: int = BATCH_ROWS, words: int = BATCH_WORDS) -> int:
    """Return how many records of `columns` words make a batch of at most `rows` rows and `words`
    words.

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
    """Yield batches[C, <= rows] of the records with lo <= key < hi in order; prefixes allowed, ()
    is unbounded.

    Without `rows` a batch has BATCH_ROWS of them, and BATCH_WORDS words at most.

    Raises CorruptionError, at the latest when all are read and their number is not the tree's
    count.
    """
    spec, ref = tree.spec, tree.on(pages)
    places = np.array(range(spec.columns) if columns is None else columns, np.int64)
    stop = np.array(hi or (0,), np.int64)
    cursor = np.zeros(CURSOR_WORDS, np.int64)
    rows = max(1, min(batch_rows(len(places)) if rows is None else rows, tree.count))
    start = np.array(lo or (0,), np.int64)
    checked(SEEK.call(ref, start, len(lo), cursor, 0), spec)
    n, records = rows, 0
    while n == rows:
        out = pooled(len(places), rows)
        n = checked(READ.call(ref, places, stop, len(hi), cursor, out), spec)
        records += n
        if records > tree.count or (n < rows and records != tree.count and not (lo or hi)):
            fact = f"it leads to {records} records, and the tree has {tree.count}"
            raise CorruptionError(fact, page=tree.root, tree=spec.tree_id)
        if n:
            yield out[:, :n]


class Blocks:
    """Blocks of neighbouring records, which begin with leaves about as far from each other."""

    def __init__(self, pages: Pages, tree: Tree, most: int, rows: int) -> None:
        """`most` blocks at the most, with at most `rows` records in all.  O(most * height) pages
        are read.
        """
        self._tree, self._ref = tree, tree.on(pages)
        keys = _spread_keys(pages, tree, SPREAD * most)
        starts = np.arange(n := min(most, len(keys))) * len(keys) // n
        self._keys, self._rows = keys[starts], max(1, rows // n)
        self._cursors = np.zeros((n, CURSOR_WORDS), np.int64)
        for key, cursor in zip(self._keys, self._cursors, strict=True):
            checked(SEEK.call(self._ref, key, len(key), cursor, 0), tree.spec)

    def read(self, *columns: int) -> Iterator[np.ndarray]:
        """Yield some columns of each block, int64[C, n]."""
        places, last = np.array(columns, np.int64), len(self._keys) - 1
        for at, cursor in enumerate(self._cursors.copy()):
            out = np.empty((len(columns), self._rows), np.int64)
            stop, words = self._keys[min(at + 1, last)], self._tree.spec.keys * (at < last)
            n = checked(READ.call(self._ref, places, stop, words, cursor, out), self._tree.spec)
            yield out[:, :n]


def _spread_keys(pages: Pages, tree: Tree, enough: int) -> np.ndarray:
    """Return the keys int64[n, K] of all entries of the uppermost index level that has `enough` of
    them, or of the lowest one; the least word for a tree without index pages.
    """
    spec, found = tree.spec, list[int]()
    keys, columns = np.full((spec.keys, 1), WORD_MIN), spec.keys + 1 + len(spec.scans)
    for level in range(tree.height - 1, 0, -1):
        if found:
            slots = [
                (page, slot) for page in found for slot in range(pages.words[page + ENTRY_COUNT])
            ]
            found = [
                CHILD.call(pages, page, spec.keys, slot, level, columns) for page, slot in slots
            ]
        else:
            found = [ENTER.call(pages, tree.pointer, level, columns)]
        for page in found:
            checked(page, spec)
        keys = np.concatenate([_keys_in(pages, page, spec.keys) for page in found], axis=1)
        if keys.shape[1] >= enough:
            break
    return np.ascontiguousarray(keys.T)


def _keys_in(pages: Pages, page: int, keys: int) -> np.ndarray:
    """Return the keys int64[K, n] of a page's entries."""
    n = int(pages.words[page + ENTRY_COUNT])
    out = np.empty((keys, n), np.int64)
    for column in range(keys):
        UNPACK.call(pages.words, page, column, 0, n, out[column], 0)
    return out


def read(
    pages: Pages,
    tree: Tree,
    lo: tuple[Any, ...] = (),
    hi: tuple[Any, ...] = (),
    columns: tuple[int, ...] | None = None,
) -> np.ndarray:
    """Return all records with lo <= key < hi, int64[C, n]; they are counted first, so that each
    is written once.
    """
    places = tuple(range(tree.spec.columns)) if columns is None else columns
    n = count(pages, tree, lo, hi) if lo or hi else tree.count
    return next(read_batches(pages, tree, lo, hi, places, n), np.empty((len(places), 0), np.int64))


def count(pages: Pages, tree: Tree, lo: tuple[Any, ...] = (), hi: tuple[Any, ...] = ()) -> int:
    """Count the records with lo <= key < hi, by the counts in leaf headers.  O(leaves)."""
    return sum(block.shape[1] for block in read_batches(pages, tree, lo, hi, (), tree.count))


def pages_of(pages: Pages, tree: Tree) -> np.ndarray:
    """Return the ids of all pages of a tree, each parent before its children."""
    out = np.empty(64, np.int64)
    while True:
        n = checked(PAGES.call(tree.on(pages), out), tree.spec)
        if n <= len(out):
            return out[:n]
        out = np.empty(n, np.int64)


UNPACK = TypedKernel(unpack, MappedWords, int, int, int, int, Words, int)

Bound = tuple[Any, ...]  # words of a key or of a prefix of one; () is unbounded


def read_backward(pages: Pages, tree: Tree, lo: Bound = (), hi: Bound = ()) -> Iterator[np.ndarray]:
    """Yield batches[C, n] of the records with lo <= key < hi, the greatest key first; prefixes
    allowed.

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
    """Return the least key of the leaf that has the greatest key below `hi`; () for a root leaf,
    None for no leaf.
    """
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
    checked(SEEK.call(tree.on(pages), words, len(key), cursor, 0), spec)
    return cursor


def _slot(cursor: np.ndarray, level: int) -> int:
    return int(cursor[PATH + 2 * level - 1])


def _separator(pages: Pages, tree: Tree, cursor: np.ndarray, level: int, slot: int) -> Bound:
    """Return the key of an entry of the index page on a cursor's path at a level."""
    page, out = int(cursor[PATH + 2 * level - 2]), np.zeros(tree.spec.keys, np.int64)
    for column in range(tree.spec.keys):
        UNPACK.call(pages.words, page, column, slot, slot + 1, out, column)
    return tuple(out.tolist())


UNORDERED = 192  # keys; up to here, looking them up unsorted is faster than sorting
SHARE = 1 << 13  # keys that are worth a thread; a millisecond of work

GET = TypedKernel(k_lookup.get_records, TreeRef, int, Table, Words, Tables, Flags, Table)
FIND = [
    TypedKernel(k_lookup.find_record, int, Key(n), int) for n in range(17)
]  # longer keys are looked up in batches
COUNT = TypedKernel(k_cursor.count_prefixes)
NEIGHBOURS = TypedKernel(k_cursor.find_neighbours)


def get(
    pages: Pages, tree: Tree, keys: np.ndarray, threads: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Look up keys[K, n]: (found bool[n], values int64[V, n]; 0 where not found).  O(n log count).

    Many keys are looked up in key order, so that each page is read once; still more are divided
    among threads.
    """
    spec = tree.spec
    n = keys.shape[1]
    keys = np.ascontiguousarray(keys, np.int64)
    found, out = np.zeros(n, bool), np.zeros((spec.values, n), np.int64)
    ref = tree.on(pages)

    def look_up(some: np.ndarray) -> int:
        places = np.empty(
            (spec.keys + 2, k_lookup.PLACE_ROWS, max(k_lookup.GROUP, spec.keys)), np.int64
        )
        status: int = GET.call(ref, spec.values, keys, some, places, found, out)
        return status

    order = lookup_order(keys)
    if threads < 2 or n < 2 * SHARE:  # dividing takes as long as looking a few keys up
        checked(look_up(order), spec)
        return found, out
    shares = np.array_split(order, min(threads, n // SHARE))
    for status in together([partial(look_up, some) for some in shares]):
        checked(status, spec)
    return found, out


def lookup_order(keys: np.ndarray) -> np.ndarray:
    """Return the order int64[n] in which keys[K, n] are looked up fastest: key order, but for a
    few.  O(n).
    """
    return near_order(keys) if keys.shape[1] > UNORDERED else np.arange(keys.shape[1])


def packed_tree(pages: Pages, tree: Tree) -> np.ndarray:
    """Pack the map and the tree into one array, for kernels that look up a single key.

    It holds addresses: its user must keep `pages` alive."""
    places = (pages.words.ctypes.data, len(pages.words), pages.seen.ctypes.data, len(pages.seen))
    return np.array(
        [*places, pages.page_words, tree.pointer, tree.height, tree.spec.values, 0], np.int64
    )


class RecordFinder:
    """Looks up single keys in one tree; its kernel's arguments are packed once, so that a call
    costs little more.
    """

    def __init__(self, pages: Pages, tree: Tree) -> None:
        self.pages, self.tree = pages, tree  # keeps alive what `_ready` points to
        self._ready = packed_tree(pages, tree)
        self._at, self._values = self._ready.ctypes.data, tree.spec.values
        self._find = FIND[tree.spec.keys].call if tree.spec.keys < len(FIND) else None

    def find(self, key: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the value words of a whole key, or None.  As `get`, but allocates no array.  O(log
        count).

        The key is a tuple of int; OverflowError for one of more than 64 bits.
        """
        if self._find is None:
            present, values = get(self.pages, self.tree, np.array(key, np.int64).reshape(-1, 1))
            return tuple(values[:, 0].tolist()) if present[0] else None
        if not self._values:
            status, found = self._find(self._at, key, 0), ()
        else:
            place, address = scratch().place(self._values)
            status = self._find(self._at, key, address)
            found = tuple(place[: self._values].tolist())
        if status > 0:
            return found
        checked(status, self.tree.spec)
        return None


def count_prefixes(pages: Pages, tree: Tree, prefixes: np.ndarray, most: int = 1) -> np.ndarray:
    """Count up to `most` records that start with each of prefixes[m, n]. O(n log count)."""
    prefixes = np.ascontiguousarray(prefixes, np.int64)
    counts = np.zeros(prefixes.shape[1], np.int64)
    checked(COUNT.call(tree.on(pages), prefixes, most, counts), tree.spec)
    return counts


def first_from(pages: Pages, tree: Tree, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first record at or after each of prefixes[m, n] of keys: (found bool[n], records
    int64[C, n]).

    O(n log count).
    """
    return _neighbours(pages, tree, prefixes, 0)


def last_before(pages: Pages, tree: Tree, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the last record below each of prefixes[m, n] of keys: (found bool[n], records int64[C,
    n]).

    O(n log count).
    """
    return _neighbours(pages, tree, prefixes, 1)


def _neighbours(
    pages: Pages, tree: Tree, prefixes: np.ndarray, backward: int
) -> tuple[np.ndarray, np.ndarray]:
    spec, n = tree.spec, prefixes.shape[1]
    prefixes = np.ascontiguousarray(prefixes, np.int64)
    found, out = np.zeros(n, bool), np.zeros((spec.columns, n), np.int64)
    checked(NEIGHBOURS.call(tree.on(pages), spec.columns, prefixes, backward, found, out), spec)
    return found, out
