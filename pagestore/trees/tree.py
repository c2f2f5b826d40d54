"""A tree is a value: a root page, a height, a record count and what its words mean.

`apply` takes a sorted batch of edits and returns a new tree; the old one stays what it was, and the
two share every page that did not change.  The paper's *update-actions* are INSERT, ERASE, SET, ADD.

The path from a tree's root to one of its pages, for error messages about a bad page.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.layout import (
    COLUMNS_MAX,
    ENTRY_COUNT,
    HEADER,
    INDEX_COLUMNS_MAX,
    PAGE_MASK,
    PAGE_SIZE_MAX,
    PAGE_SIZE_MIN,
    WORD,
    Pages,
    Shape,
    pointer_to,
)
from pagestore.pages.operators import address_of
from pagestore.pages.page import field
from pagestore.pages.scan_tree import BUDGET, WORDS_PAID
from pagestore.pages.verify import child, enter
from pagestore.runtime.kernel import TypedKernel
from pagestore.runtime.types import MappedWords
from pagestore.trees.kernels import build as k_bulk
from pagestore.trees.kernels.arguments import TreeRef

# entries that a leaf and an index page must hold, however wide they are
LEAF_RECORDS_MIN, INDEX_ENTRIES_MIN = 2, 4


class Spec(NamedTuple):
    """The shape of a tree: how many key and value words a record has, and which scans it carries.

    A scan is (operator, column); its fold of each subtree is stored in the index pages.
    """

    tree_id: int
    keys: int
    values: int
    scans: tuple[tuple[int, int], ...] = ()

    @property
    def columns(self) -> int:
        """Return how many words a record has: those of its key, then those of its values."""
        return self.keys + self.values

    def fits(self, page_words: int) -> bool:
        """Whether pages hold enough records and index entries, however wide their words."""
        folds = len(self.scans)
        entry = self.keys + 1 + folds  # births fit in, or are left out
        if self.columns > COLUMNS_MAX or entry > INDEX_COLUMNS_MAX:
            return False
        room = (
            page_words
            - page_words // k_bulk.SPARE
            - HEADER
            - 1
            - (min(folds, WORDS_PAID) * page_words // BUDGET)
        )
        descriptors = 3  # words a column: two, and what the rounding to whole words takes
        return room >= max(
            (LEAF_RECORDS_MIN + descriptors) * self.columns,
            (INDEX_ENTRIES_MIN + descriptors) * entry,
        )

    @property
    def page_size_min(self) -> int | None:
        """Return the least page size in bytes that it fits; None if it fits none.

        >>> Spec(1, 1, 99).page_size_min, Spec(1, 1, 999).page_size_min, Spec(1, 1, 9999).page_size_min
        (8192, 65536, None)
        """
        sizes = (PAGE_SIZE_MIN << n for n in range((PAGE_SIZE_MAX // PAGE_SIZE_MIN).bit_length()))
        return next((size for size in sizes if self.fits(size // WORD)), None)


class Tree(NamedTuple):
    """A version of a tree.  Root 0 is the empty tree; height 1 means that the root is a leaf.

    Kernels take it `on` the map of its pages: the pointer to the root holds more than its page
    number (see pages/layout.py).
    """

    pointer: int
    height: int
    count: int  # type: ignore[assignment]  # hides tuple.count(), which nobody calls
    spec: Spec

    @classmethod
    def empty(cls, spec: Spec) -> "Tree":
        """Return the tree without records."""
        return cls(0, 0, 0, spec)

    @classmethod
    def at(cls, page: int, height: int, count: int, spec: Spec, birth: int) -> "Tree":
        """Return the tree whose root is `page`, written by version `birth`, 0 if unknown."""
        return cls(pointer_to(page, spec.columns, birth), height, count, spec)

    @property
    def root(self) -> int:
        """Return the page of the root."""
        return self.pointer & PAGE_MASK

    def on(self, pages: Pages) -> TreeRef:
        """Return the tree as kernels take it, with the map of its pages."""
        pages.words  # noqa: B018 - a map that is no longer valid raises its error here
        return TreeRef(pages, self.pointer, self.height, self.spec.keys)


class FreshPager(Protocol):
    """An allocator of fresh pages."""

    version: int

    @property
    def pages(self) -> Pages:
        """The map, for kernels."""

    def reserve(self, n: int) -> np.ndarray:
        """Return n fresh pages, ascending."""

    def write(self, arena: np.ndarray, ids: np.ndarray) -> None:
        """Write the first n pages of an arena to ids[n]."""

    def release(self, ids: np.ndarray) -> None:
        """Give back reserved pages."""


class Pager(FreshPager, Protocol):
    """An allocator of fresh pages that also takes replaced ones (see storage/pager.py)."""

    threads: int

    def reserve_consecutive(self, n: int) -> np.ndarray:
        """Return n consecutive fresh pages."""

    def make_room(self, top: int) -> np.ndarray:
        """Let the file hold pages below `top`; returns the page writer for them."""

    def page_writer(self, top: int) -> np.ndarray:
        """Return the page writer for pages below `top`, or one that is closed."""

    def wrote(self, arena: np.ndarray, ids: np.ndarray, written: int) -> None:
        """A kernel has written ids[:written] from an arena; write the others."""

    def retire(self, dead: np.ndarray) -> None:
        """Note replaced pages, as rows (page, birth)."""


@cache
def shape_of(spec: Spec) -> Shape:
    """Return the shape of a tree as kernels take it."""
    return Shape(spec.keys, spec.values, fold_array(spec), spec.tree_id)


@cache
def fold_array(spec: Spec) -> np.ndarray:
    """Return the scans of a tree as kernels take them, int64[F, 3] (see pages/operators.py)."""
    return np.array([(op, column, address_of(op)) for op, column in spec.scans], np.int64).reshape(
        -1, 3
    )


def checked(status: int, spec: Spec) -> int:
    """Pass a count or status through. Raises CorruptionError for a negative one: a bad page."""
    if status < 0:
        raise CorruptionError(page=-int(status), tree=spec.tree_id)
    return int(status)


CHILD = TypedKernel(child)
ENTER = TypedKernel(enter)
FIELD = TypedKernel(field, MappedWords, int, int, int)


def path_to(pages: Pages, tree: Tree, page: int) -> tuple[int, ...]:
    """Return the pages from the root to `page`, or () if it is not in the tree. O(index pages)."""
    level, keys = tree.height - 1, tree.spec.keys
    start = (
        ENTER.call(pages, tree.pointer, level, keys + 1) if tree.root != page and level > 0 else 0
    )
    return _below(pages, tree.root, start, level, keys, page, set()) if tree.root else ()


def _below(
    pages: Pages, at: int, start: int, level: int, keys: int, page: int, passed: set[int]
) -> tuple[int, ...]:
    """Return the path from index page `at`, whose words begin at `start`; `passed` pages do not
    lead to `page`.
    """
    if at == page:
        return (at,)
    if start <= 0 or at in passed:
        return ()
    passed.add(at)
    for slot in range(int(pages.words[start + ENTRY_COUNT])):
        below = int(FIELD.call(pages.words, start, keys, slot))
        if below != page and level > 1:
            first = CHILD.call(pages, start, keys, slot, level - 1, keys + 1)
        else:
            first = 0
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
