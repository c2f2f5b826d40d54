"""Groups of arguments of the kernels that make pages (see runtime/arguments.py).

node buffer     x y z a b c .          a fresh page replaces an old one: runs of the old page's entries
old page        a b c d e              stay, and the new entries are in the node buffer between them
"""

from typing import NamedTuple

from pagestore.runtime.arguments import Table, Words


class Shape(NamedTuple):
    """What a tree's pages hold: words of a key and of a record's values, folds scans[F, 3], the tree's number."""

    keys: int
    values: int
    scans: Table
    tree_id: int


class FreshPage(NamedTuple):
    """A page in the making: it begins at word `page` of the arena, and will be page `page_id` of the file."""

    arena: Words
    page: int
    page_words: int
    page_id: int
    birth: int


class Entries(NamedTuple):
    """Entries lo..hi of a node buffer int64[C, capacity]."""

    node: Table
    lo: int
    hi: int


class Kept(NamedTuple):
    """What a fresh page keeps of the page that it replaces, which begins at word `old` of the map; -1 for no page.

    `runs` columns (first, end, place) of a node buffer, from row `row` on, say which entries stay, and where.
    """

    old: int
    row: int
    runs: int


class ParentEntry(NamedTuple):
    """Entry `at` of the parent's node buffer, for a fresh page's least key, number, folds and birth."""

    node: Table
    at: int


class FoldColumn(NamedTuple):
    """Word `f` of the folds of the ScanTree that begins at word `area` of the arena and has 2 ** depth leaves."""

    area: int
    depth: int
    f: int
