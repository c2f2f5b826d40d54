"""A tree is a value: a root page, a height, a record count and what its words mean.

`apply` takes a sorted batch of edits and returns a new tree; the old one stays what it was, and the
two share every page that did not change.  The paper's *update-actions* are INSERT, ERASE, SET, ADD.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache, partial
from itertools import chain
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np

from pagestore.errors import CorruptionError, OrderError
from pagestore.kernels import bulk as k_bulk
from pagestore.kernels import cursor as k_cursor
from pagestore.kernels import read as k_read
from pagestore.kernels.apply import ADD, ERASE, INSERT, SET
from pagestore.kernels.cursor import CURSOR_WORDS
from pagestore.kernels.fold import COUNT, MAX, MIN, SUM
from pagestore.kernels.kernel import compiled
from pagestore.kernels.scantree import BUDGET, WORDS_PAID
from pagestore.layout import COLUMNS_MAX, HEADER, HEIGHT_MAX, PAGES, pointer_to
from pagestore.operators import address_of
from pagestore.order import FEW, Coded, ascending, count_of, near_order
from pagestore.pool import pooled
from pagestore.scratch import scratch
from pagestore.threads import together

__all__ = [
    "ADD", "COUNT", "ERASE", "INSERT", "MAX", "MIN", "SET", "SUM", "Finder", "Pages", "Spec", "Tree",
    "bulk", "bulk_all", "count", "count_prefixes", "get", "pages_of", "read", "scan",
]  # fmt: skip

PARALLEL_FROM = 1 << 14  # records from which trees are built side by side
SHARE = 1 << 13  # keys that a thread of its own looks up at least; a millisecond of work
BULK_PAGES = 256  # that bulk writes at once
RECORDS_MIN, ENTRIES_MIN = 2, 4  # that a leaf, and an index page, must hold however wide they are
UNSHARED = nullcontext()


class Pages(NamedTuple):
    """What every reading kernel knows: the map, how many columns verified pages have, and the words of a page."""

    words: np.ndarray
    seen: np.ndarray
    page_words: int


class Spec(NamedTuple):
    """The shape of a tree: how many key and value words a record has, and which scans it carries.

    A scan is (operator, column); its fold of each subtree stands in the index pages.
    """

    tree_id: int
    keys: int
    values: int
    scans: tuple[tuple[int, int], ...] = ()

    @property
    def columns(self) -> int:
        return self.keys + self.values

    def fits(self, page_words: int) -> bool:
        """Whether pages of so many words hold such records, and entries with so many folds, all words being wide."""
        folds = len(self.scans)
        entry = self.keys + 1 + folds  # births fit in, or are left out
        if max(self.columns, entry) > COLUMNS_MAX:
            return False
        room = page_words - page_words // k_bulk.SPARE - HEADER - 1 - (min(folds, WORDS_PAID) * page_words // BUDGET)
        descriptors = 3  # words a column: two, and what the rounding to whole words takes
        return room >= max((RECORDS_MIN + descriptors) * self.columns, (ENTRIES_MIN + descriptors) * entry)


class Tree(NamedTuple):
    """A version of a tree.  Root 0 is the empty tree; height 1 means that the root is a leaf.

    Kernels take the pointer to the root, which says more of it than its page (see layout.py).
    """

    pointer: int
    height: int
    count: int  # type: ignore[assignment]  # a tuple's own count() is never asked for
    spec: Spec

    @classmethod
    def empty(cls, spec: Spec) -> "Tree":
        return cls(0, 0, 0, spec)

    @classmethod
    def at(cls, page: int, height: int, count: int, spec: Spec, birth: int) -> "Tree":
        """The tree whose root is a page that a version wrote; 0 for a version that is not known."""
        return cls(pointer_to(page, spec.columns, birth), height, count, spec)

    @property
    def root(self) -> int:
        """The page of the root."""
        return self.pointer & PAGES


class Pager(Protocol):
    """Where fresh pages come from and go (see pager.py)."""

    version: int
    threads: int

    @property
    def pages(self) -> Pages: ...
    def reserve(self, n: int) -> np.ndarray: ...
    def write(self, arena: np.ndarray, ids: np.ndarray) -> None: ...
    def make_room(self, top: int) -> np.ndarray: ...
    def outlet(self, top: int) -> np.ndarray: ...
    def wrote(self, arena: np.ndarray, ids: np.ndarray, written: int) -> None: ...
    def release(self, ids: np.ndarray) -> None: ...
    def retire(self, dead: np.ndarray) -> None: ...


@cache
def scan_array(spec: Spec) -> np.ndarray:
    """The scans of a tree as kernels take them, int64[F, 3] (see kernels/fold.py)."""
    return np.array([(op, column, address_of(op)) for op, column in spec.scans], np.int64).reshape(-1, 3)


def bulk(pager: Pager, spec: Spec, batches: Iterable[np.ndarray], turn: AbstractContextManager = UNSHARED) -> Tree:
    """Build a tree from batches[C, n] that ascend strictly by key over all; streams.

    A sixteenth of each page stays free for the first edits.

    Pages are had and written within `turn`, for others may use the pager meanwhile.
    Raises OrderError naming the first record out of order.  Memory is bounded by the arena.
    """
    pages, room = pager.pages, scratch()
    room.fit(pages.page_words, BULK_PAGES, spec.columns, len(spec.scans), 0)
    arena, work = room.arena, room.work
    node = np.empty_like(room.node)  # of its own: `batches` may apply edits while records wait here
    sizes = np.zeros(HEIGHT_MAX, np.int64)
    last = np.zeros(spec.keys, np.int64)
    shape = (pages.page_words, spec.keys, spec.values, scan_array(spec))
    count = 0
    for batch in batches:
        batch = np.ascontiguousarray(batch, np.int64)
        progress = np.zeros(3, np.int64)
        while progress[k_bulk.TAKEN] < batch.shape[1]:
            with turn:
                ids = pager.reserve(BULK_PAGES)
            k_bulk.load_records(
                *shape, batch, arena, ids, pager.version, spec.tree_id, node, sizes, last, progress, work
            )  # fmt: skip
            with turn:
                _flush(pager, arena, ids, int(progress[k_bulk.USED]))
            if progress[k_bulk.UNSORTED]:
                row = int(progress[k_bulk.TAKEN])
                raise OrderError(
                    f"record {count + row}: key {tuple(batch[: spec.keys, row].tolist())} is not above its "
                    "predecessor; sort the input by its key and drop duplicates"
                )
        count += batch.shape[1]
    with turn:
        return _finish_bulk(pager, spec, shape, arena, node, work, sizes, count)


def bulk_all(pager: Pager, loads: Sequence[tuple[Spec, Sequence[np.ndarray | Coded]]]) -> list[Tree]:
    """A tree of each spec and parts[C, n], in any order, of its records; on as many threads as the pager has."""
    turn, jobs = Lock(), iter(enumerate(loads))

    def work() -> list[tuple[int, Tree]]:
        return [(i, bulk(pager, spec, ascending(parts), turn)) for i, (spec, parts) in jobs]

    many = sum(count_of(part) for _, parts in loads for part in parts) >= PARALLEL_FROM
    found = together([work] * min(pager.threads if many else 1, len(loads)))
    return [tree for _, tree in sorted(chain(*found))]


def _finish_bulk(
    pager: Pager,
    spec: Spec,
    shape: tuple,
    arena: np.ndarray,
    node: np.ndarray,
    work: np.ndarray,
    sizes: np.ndarray,
    count: int,
) -> Tree:
    sizes[-1] = 0
    if not count:
        return Tree.empty(spec)
    level = 0
    progress = np.zeros(3, np.int64)
    while level == 0 or sizes[level] > 1 or sizes[level + 1 :].any():
        ids = pager.reserve(BULK_PAGES)
        k_bulk.finish_level(*shape, arena, ids, pager.version, spec.tree_id, level, node, sizes, progress, work)
        _flush(pager, arena, ids, int(progress[k_bulk.USED]))
        level += not sizes[level]
    return Tree.at(int(node[level, spec.keys, 0]), level, count, spec, pager.version)


def _flush(pager: Pager, arena: np.ndarray, ids: np.ndarray, used: int) -> None:
    pager.write(arena, ids[:used])
    pager.release(ids[used:])


def get(pages: Pages, tree: Tree, keys: np.ndarray, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Look up keys[K, n]: (found bool[n], values int64[V, n]; 0 where not found).  O(n log count).

    Many keys are looked up in their order, so that each page is read once; more still are shared out among threads.
    """
    spec = tree.spec
    n = keys.shape[1]
    keys = np.ascontiguousarray(keys, np.int64)
    found, out = np.zeros(n, bool), np.zeros((spec.values, n), np.int64)
    shape = (tree.pointer, tree.height, spec.keys, spec.values)

    def look_up(some: np.ndarray) -> int:
        places = np.empty((spec.keys + 2, k_read.PLACE_ROWS, max(k_read.GROUP, spec.keys)), np.int64)
        return k_read.get_records(*pages, *shape, keys, some, places, found, out)

    order = near_order(keys) if n > FEW else np.arange(n)
    if threads < 2 or n < 2 * SHARE:  # to cut one share takes as long as to look a few keys up
        checked(look_up(order), spec)
        return found, out
    shares = np.array_split(order, min(threads, n // SHARE))
    for status in together([partial(look_up, some) for some in shares]):
        checked(status, spec)
    return found, out


def ready(pages: Pages, tree: Tree) -> np.ndarray:
    """Map and tree as numbers, for kernels that are called for a single key; whoever has it keeps `pages`, too."""
    places = (pages.words.ctypes.data, len(pages.words), pages.seen.ctypes.data, len(pages.seen))
    return np.array([*places, pages.page_words, tree.pointer, tree.height, tree.spec.values, 0], np.int64)


class Finder:
    """Looks up single keys in one tree; what its kernel needs stands ready, so that a call costs little more."""

    def __init__(self, pages: Pages, tree: Tree) -> None:
        self.pages, self.tree = pages, tree  # keeps alive what `_ready` points to
        self._ready = ready(pages, tree)
        self._at, self._values = self._ready.ctypes.data, tree.spec.values
        self._find = compiled(k_read.find_record, f"(int64, UniTuple(int64, {tree.spec.keys}), int64)")

    def find(self, key: tuple[int, ...]) -> tuple[int, ...] | None:
        """The value words of a whole key, or None.  As `get`, without an array a call.  O(log count).

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
    """How many records, counted up to `most`, start with each of prefixes[m, n]: int64[n].  O(n log count)."""
    prefixes = np.ascontiguousarray(prefixes, np.int64)
    counts = np.zeros(prefixes.shape[1], np.int64)
    shape = (tree.pointer, tree.height, tree.spec.keys)
    checked(k_read.count_prefixes(*pages, *shape, prefixes, most, counts), tree.spec)
    return counts


def scan(
    pages: Pages,
    tree: Tree,
    lo: tuple = (),
    hi: tuple = (),
    columns: tuple[int, ...] | None = None,
    rows: int = 65536,
) -> Iterator[np.ndarray]:
    """Batches[C, <= rows] of the records with lo <= key < hi in order; prefixes allowed, () is unbounded.

    Raises CorruptionError; at the latest where all are read and are not as many as the tree has.
    """
    spec = tree.spec
    wanted = np.array(range(spec.columns) if columns is None else columns, np.int64)
    stop = np.array(hi or (0,), np.int64)
    cursor = np.zeros(CURSOR_WORDS, np.int64)
    rows = max(1, min(rows, tree.count))
    start = np.array(lo or (0,), np.int64)
    checked(k_cursor.seek(*pages, tree.pointer, tree.height, spec.keys, start, len(lo), cursor, 0), spec)
    n, found = rows, 0
    while n == rows:
        out = pooled(len(wanted), rows)
        n = checked(k_read.read_range(*pages, spec.keys, wanted, stop, len(hi), cursor, out), spec)
        found += n
        if found > tree.count or (n < rows and found != tree.count and not (lo or hi)):
            fact = f"it leads to {found} records, and the tree has {tree.count}"
            raise CorruptionError(fact, page=tree.root, tree=spec.tree_id)
        if n:
            yield out[:, :n]


def read(
    pages: Pages, tree: Tree, lo: tuple = (), hi: tuple = (), columns: tuple[int, ...] | None = None
) -> np.ndarray:
    """All records with lo <= key < hi at once, int64[C, n]; counted first, so that each is written once."""
    wanted = tuple(range(tree.spec.columns)) if columns is None else columns
    n = count(pages, tree, lo, hi) if lo or hi else tree.count
    return next(scan(pages, tree, lo, hi, wanted, n), np.empty((len(wanted), 0), np.int64))


def count(pages: Pages, tree: Tree, lo: tuple = (), hi: tuple = ()) -> int:
    """How many records have lo <= key < hi, by the counts in their leaves' headers.  O(leaves)."""
    return sum(block.shape[1] for block in scan(pages, tree, lo, hi, (), tree.count))


def pages_of(pages: Pages, tree: Tree) -> np.ndarray:
    """Ids of all pages of a tree, each parent before its children."""
    out = np.empty(64, np.int64)
    while True:
        n = checked(k_read.tree_pages(*pages, tree.pointer, tree.height, tree.spec.keys, out), tree.spec)
        if n <= len(out):
            return out[:n]
        out = np.empty(n, np.int64)


def checked(status: int, spec: Spec) -> int:
    """Pass a count or status through; a negative one names a corrupt page."""
    if status < 0:
        raise CorruptionError(page=-int(status), tree=spec.tree_id)
    return int(status)
