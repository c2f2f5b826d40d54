"""Groups of arguments of the kernels that edit trees (see runtime/arguments.py and pages/arguments.py)."""

from typing import NamedTuple

from pagestore.pages.page_map import Pages
from pagestore.runtime.arguments import Flags, Table, Tables, Words


class Edits(NamedTuple):
    """Edits in key order, one a key: actions[n] and rows[C, n]; changes of the first `visible` columns are reported."""

    actions: Words
    rows: Table
    visible: int


class Part(NamedTuple):
    """Which stages of a run are taken, and which entries of the root it goes below."""

    stages: int
    first: int
    last: int


class Output(NamedTuple):
    """Where a run writes: pages ids[n] that it may make in the arena, rows (page, birth) of `dead` for those replaced.

    A run takes no more edits once fewer than `reserve` pages, or rows, are left.
    """

    arena: Words
    ids: Words
    dead: Table
    birth: int
    reserve: int


class Loading(NamedTuple):
    """The state of a bulk load: node buffers [level, C, n], how many entries wait in each, scratch words.

    The last of `sizes` says whether something was loaded; see bulk.py for the words of `progress`.
    """

    node: Tables
    sizes: Words
    progress: Words
    work: Words


class FreshPages(NamedTuple):
    """Pages ids[n] that a bulk load may make in the arena, of page_words words; they bear the birth."""

    arena: Words
    ids: Words
    birth: int
    page_words: int


class Changes(NamedTuple):
    """The effective delta: actions[n], and rows[C, n] of what went or came."""

    actions: Words
    rows: Table


class Run(NamedTuple):
    """The state of a run: node buffers [level, C, n], `walk` and `tally` (see apply_layout.py), scratch words."""

    node: Tables
    walk: Table
    tally: Words
    work: Words


class IndexedTrees(NamedTuple):
    """A tree and the trees beside it: rows[T, TREE_WORDS], the columns places[T, C] that each takes of the first.

    `scans` are the folds of the first; the others have none.
    """

    rows: Table
    places: Table
    scans: Table


class Room(NamedTuple):
    """What runs work in, one tree after the other: as in Run, whose tally each tree has for itself."""

    node: Tables
    walk: Table
    work: Words


class Reordering(NamedTuple):
    """Room for edits put in another order: moving[2, 1 + C, n], order[2 n] and flags fresh[n]."""

    moving: Tables
    order: Words
    fresh: Flags


class PageBooks(NamedTuple):
    """Pages that a host's kernel writes, and the books that it keeps of them.

    Pages ids[n] may be written through `writer`, from ids[taken[WRITTEN]] on; rows (lineage, page, birth) of pages
    replaced go to `retired`, from row taken[GONE] on. The pages bear the birth.
    """

    writer: Words
    birth: int
    lineage: int
    ids: Words
    taken: Words
    retired: Table


class Queues(NamedTuple):
    """Edit queues, one for each group of trees, and what became of the trees.

    queues[G, QUEUE_WORDS] say which trees and folds a group has, waiting[G, 1 + C, n] are actions and rows of its edits
    in any order, waits[G] how many. trees, places and scans are as in IndexedTrees, for all groups; tallies[T] and
    deltas[T, 1 + C, 2 n] what changed in each tree.
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
    """What the flushing of a queue works in: an arena for the pages made, rows for those replaced; see Room."""

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
    """The bounds of n intervals, words[K, 2 n]: lower ones of `low` columns, then upper ones of `high` columns."""

    words: Table
    low: int
    high: int


class Descent(NamedTuple):
    """A tree as folds descend it: pointer to the root, height, key columns, the end of the fold words that are read."""

    root: int
    height: int
    keys: int
    end: int


class CountedTree(NamedTuple):
    """A tree that counts its records: the fold word `row` of its scans[F, 3] is the count."""

    pages: Pages
    root: int
    height: int
    scans: Table
    row: int
    records: int


class IntervalTree(NamedTuple):
    """An interval index: its columns, how many come before the intervals, and the fold word of their greatest end."""

    root: int
    height: int
    keys: int
    columns: int
    alphas: int
    row: int
