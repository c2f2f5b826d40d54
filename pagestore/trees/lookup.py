"""Look up keys in a tree, many in one call or single ones at little cost, and count the records with a prefix.

get(pages, tree, keys[K, n])             found[n], values[V, n]; in key order, each page is read once
RecordFinder(pages, tree).find(key)      the values or None; its kernel's arguments are packed once
count_prefixes(pages, tree, prefixes)    how many records begin with each prefix
first_from(pages, tree, prefixes)        found[n], the records at or after each; last_before, those before it"""

from functools import partial

import numpy as np

from pagestore.pages.layout import KEYS_MAX
from pagestore.pages.page_map import Pages
from pagestore.runtime.arguments import Bytes, Door, Flags, Key, MappedWords, Table, Tables, Words
from pagestore.runtime.parallel import together
from pagestore.sorting.tuples import near_order
from pagestore.trees.kernels import batch_lookup as k_batch_lookup
from pagestore.trees.kernels import neighbours as k_neighbours
from pagestore.trees.kernels import point_lookup as k_point_lookup
from pagestore.trees.kernels import read_range as k_read_range
from pagestore.trees.scratch import scratch
from pagestore.trees.tree import Tree, checked

UNORDERED = 192  # keys; up to here, looking them up unsorted is faster than sorting
SHARE = 1 << 13  # keys that are worth a thread; a millisecond of work

MAP = MappedWords, Bytes, int  # the fields of Pages
GET = Door(k_batch_lookup.get_records, *MAP, int, int, int, int, Table, Words, Tables, Flags, Table)
FIND = [Door(k_point_lookup.find_record, int, Key(n), int) for n in range(KEYS_MAX + 1)]
COUNT = Door(k_read_range.count_prefixes, *MAP, int, int, int, Table, int, Words)
NEIGHBOURS = Door(k_neighbours.find_neighbours, *MAP, int, int, int, int, Table, int, Flags, Table)


def get(pages: Pages, tree: Tree, keys: np.ndarray, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Look up keys[K, n]: (found bool[n], values int64[V, n]; 0 where not found).  O(n log count).

    Many keys are looked up in key order, so that each page is read once; still more are divided among threads.
    """
    spec = tree.spec
    n = keys.shape[1]
    keys = np.ascontiguousarray(keys, np.int64)
    found, out = np.zeros(n, bool), np.zeros((spec.values, n), np.int64)
    shape = (tree.pointer, tree.height, spec.keys, spec.values)

    def look_up(some: np.ndarray) -> int:
        places = np.empty((spec.keys + 2, k_batch_lookup.PLACE_ROWS, max(k_batch_lookup.GROUP, spec.keys)), np.int64)
        status: int = GET.call(*pages, *shape, keys, some, places, found, out)
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
    """Return the order int64[n] in which keys[K, n] are looked up fastest: key order, but for a few.  O(n)."""
    return near_order(keys) if keys.shape[1] > UNORDERED else np.arange(keys.shape[1])


def packed_tree(pages: Pages, tree: Tree) -> np.ndarray:
    """Pack the map and the tree into one array, for kernels that look up a single key.

    It holds addresses: its user must keep `pages` alive."""
    places = (pages.words.ctypes.data, len(pages.words), pages.seen.ctypes.data, len(pages.seen))
    return np.array([*places, pages.page_words, tree.pointer, tree.height, tree.spec.values, 0], np.int64)


class RecordFinder:
    """Looks up single keys in one tree; its kernel's arguments are packed once, so that a call costs little more."""

    def __init__(self, pages: Pages, tree: Tree) -> None:
        self.pages, self.tree = pages, tree  # keeps alive what `_ready` points to
        self._ready = packed_tree(pages, tree)
        self._at, self._values = self._ready.ctypes.data, tree.spec.values
        self._find = FIND[tree.spec.keys].call

    def find(self, key: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the value words of a whole key, or None.  As `get`, but allocates no array.  O(log count).

        The key is a tuple of int; OverflowError for one of more than 64 bits.
        """
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
    """Count the records, up to `most`, that start with each of prefixes[m, n]: int64[n].  O(n log count)."""
    prefixes = np.ascontiguousarray(prefixes, np.int64)
    counts = np.zeros(prefixes.shape[1], np.int64)
    shape = (tree.pointer, tree.height, tree.spec.keys)
    checked(COUNT.call(*pages, *shape, prefixes, most, counts), tree.spec)
    return counts


def first_from(pages: Pages, tree: Tree, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first record at or after each of prefixes[m, n] of keys: (found bool[n], records int64[C, n]).

    O(n log count).
    """
    return _neighbours(pages, tree, prefixes, 0)


def last_before(pages: Pages, tree: Tree, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the last record below each of prefixes[m, n] of keys: (found bool[n], records int64[C, n]).

    O(n log count).
    """
    return _neighbours(pages, tree, prefixes, 1)


def _neighbours(pages: Pages, tree: Tree, prefixes: np.ndarray, backward: int) -> tuple[np.ndarray, np.ndarray]:
    spec, n = tree.spec, prefixes.shape[1]
    prefixes = np.ascontiguousarray(prefixes, np.int64)
    found, out = np.zeros(n, bool), np.zeros((spec.columns, n), np.int64)
    shape = (tree.pointer, tree.height, spec.keys, spec.columns)
    checked(NEIGHBOURS.call(*pages, *shape, prefixes, backward, found, out), spec)
    return found, out
