"""Groups of arguments of the kernels that read and edit trees (see runtime/types.py and
pages/layout.py).
"""

from typing import NamedTuple

from pagestore.pages.layout import Pages
from pagestore.runtime.types import Flags, Table, Tables, Words
from pagestore.storage.kernels.record import Finish


class TreeRef(NamedTuple):
    """A tree as kernels take it: the map with its pages, the pointer to its root, its height, its
    key columns.

    Where only a number fits, in an array, a tree is the words ROOT, HEIGHT and KEYS of TREE_WORDS;
    `tree_at` reads them.
    """

    pages: Pages
    root: int
    height: int
    keys: int


class Edits(NamedTuple):
    """Edits in key order, one a key: actions[n] and rows[C, n]; changes of the first `visible`
    columns are reported.
    """

    actions: Words
    rows: Table
    visible: int


class Part(NamedTuple):
    """Which stages of a run to do, and below which entries of the root."""

    stages: int
    first: int
    last: int


class Output(NamedTuple):
    """Where a run writes: pages ids[n] that it may make in the arena, rows (page, birth) of `dead`
    for replaced pages.

    A run takes no more edits once fewer than `reserve` pages, or rows, are left.
    """

    arena: Words
    ids: Words
    dead: Table
    birth: int
    reserve: int


class Loading(NamedTuple):
    """The state of a bulk load: node buffers [level, C, n], the entries waiting in each, scratch
    words.

    The last of `sizes` says whether something was loaded; see build.py for the words of `progress`.
    """

    node: Tables
    sizes: Words
    progress: Words
    work: Words


class FreshPages(NamedTuple):
    """Pages ids[n] that a bulk load may make in the arena, of page_words words; their birth is
    `birth`.
    """

    arena: Words
    ids: Words
    birth: int
    page_words: int


class Changes(NamedTuple):
    """The effective delta: actions[n], and the rows[C, n] erased or inserted."""

    actions: Words
    rows: Table


class Run(NamedTuple):
    """The state of a run: node buffers [level, C, n], `walk` and `tally` (see node_buffer.py),
    scratch words.
    """

    node: Tables
    walk: Table
    tally: Words
    work: Words


class IndexedTrees(NamedTuple):
    """A tree and its permuted indices: rows[T, TREE_WORDS], see cursor.py, and places[T, C], which
    columns each takes.

    `scans` are the folds of the first; the others have none.
    """

    rows: Table
    places: Table
    scans: Table


class Room(NamedTuple):
    """Scratch of runs, used for one tree after the other: as in Run, but the tally is each
    tree's own.
    """

    node: Tables
    walk: Table
    work: Words


class Reordering(NamedTuple):
    """Room for edits put in another order: moving[2, 1 + C, n], order[2 n] and flags fresh[n]."""

    moving: Tables
    order: Words
    fresh: Flags


class PageAccounts(NamedTuple):
    """Pages that a host's kernel writes, and its records of pages written and replaced.

    Pages ids[n] may be written through `writer`, from ids[taken[MADE]] on; rows (lineage, page,
    birth) of replaced pages go to `retired`, from row taken[GONE] on. The pages have the birth
    `birth`. `finish` is the record of the commit that the kernel may write at its end.
    """

    writer: Words
    birth: int
    lineage: int
    ids: Words
    taken: Words
    retired: Table
    finish: Finish


class Queues(NamedTuple):
    """Edit queues, one for each group of trees, and the results for the trees.

    queues[G, QUEUE_WORDS] are the trees and folds of each group, waiting[G, 1 + C, n] actions and
    rows of its edits in any order, waits[G] their numbers. trees, places and scans are as in
    IndexedTrees, for all groups; tallies[T] and deltas[T, 1 + C, 2 n] are the results for each
    tree.
    """

    queues: Table
    trees: Table
    places: Table
    scans: Table
    waiting: Tables
    waits: Words
    deltas: Tables
    tallies: Table


class FlushRoom(NamedTuple):
    """Scratch for flushing a queue: an arena for new pages, rows for replaced ones; see Room."""

    arena: Words
    dead: Table
    room: Room
    reordering: Reordering


class FoldWords(NamedTuple):
    """Words first..end of the folds scans[F, 3] that a tree carries."""

    scans: Table
    first: int
    end: int


class Bounds(NamedTuple):
    """The bounds of n intervals, words[K, 2 n]: lower ones of `low` columns, then upper ones of
    `high` columns.
    """

    words: Table
    low: int
    high: int


class CountedTree(NamedTuple):
    """A tree that counts its records: the fold word `row` of its scans[F, 3] is the count."""

    tree: TreeRef
    scans: Table
    row: int
    records: int


class IntervalTree(NamedTuple):
    """An interval index: its columns, how many come before the intervals, and the fold word of
    their greatest end.
    """

    tree: TreeRef
    columns: int
    alphas: int
    row: int
