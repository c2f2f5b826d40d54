"""The compiled layer: what a host's own numba kernels may call. VERSION changes with any signature.

A kernel takes a tree as a TreeRef: (pages, root, height, keys), which is `tree.on(snapshot.pages)`.
Its Pages have the words of the file. Its root is a pointer that also encodes how many columns
leaves have and which version wrote the root; a page's number alone, `tree.root`, will do, but then
a cursor checks only the key columns of a leaf. A cursor is CURSOR_WORDS words of an int64 array
from index o on. Functions return 1 on a record, 0 at the end, and `-page` for a corrupt page, which
`raise_for` turns into an exception:

    first(tree, cursors, o)                  to the first record
    seek(tree, key, m, cursors, o)           to the first with m columns >= key
    forward(tree, key, m, cursors, o)        as seek, from where the cursor is
    next_leaf(tree, cursors, o)              to the next leaf's first record
    before(tree, key, m)                     (page, slot) of the last with m columns below key, (0, 0)
                                             if there is none, or (-page, 0)
    tree_at(pages, words, o)                 the tree with ROOT, HEIGHT, KEYS in an array
    field(words, page, c, slot)              column c of an entry of a page
    unpack(words, page, c, lo, hi, out, at)  of entries lo to hi into out[at:]
    gallop(words, page, c, lo, hi, x)        first entry >= x in that column
    run_end(words, page, c, lo, hi, x)       first entry > x, given entry lo is not
    lowest(word), population(word)           the lowest bit set; how many are set
    float_of_bits(word), float_to_bits(value)          a float64 and its bits
    borrowed(array)                          the array without reference counts
    call_operator(address, a, b)             a registered operator of two words
    start_delta(old, new, state)             to the first difference of two trees
    next_changes(tree, columns, state, actions, out)   the next differences (trees/compare.py)
    fold_intervals_at(address, tree, folds, bounds, out, full, work)
        folds intervals of keys, by the address of fold_intervals (trees/kernels/folds.py); folds are
        FoldWords, bounds Bounds, and work has work_words(folds, n) words
    find_weighted(tree, columns, row, weight, ranks, out)   records by rank, each counted several times
    stab(index, key, x, path, out, n, visits)
        appends to out[C, m] the n records so far and those of an IntervalTree (a TreeRef of some
        height, columns, alphas, fold word) with key[:alphas] whose interval meets [x, key[alphas]];
        returns how many, even beyond m; path[CURSOR_WORDS, 3], visits[1]
    compose_few, ascends, code_of(value, ...)
        one edit a key; whether keys ascend; the bits of a value in a packed tuple
    flush_queue(pages, accounts, queues, room, apply, g)
        applies an edit queue to its trees, for a host's kernel (trees/edit.py)
    begin_commit(accounts, queues)
        returns the accounts to go on with: first in a host's kernel that makes commits in series
    finish_commit(pages, accounts, queues)
        writes the record of the commit, if nothing else is to change (trees/kernels/finish.py)

A kernel is a function with one of these decorators. Its signature declares the types of its
arguments: int, bool, float, Words, MappedWords, Bytes, Flags, Table, ByteTable, Tables
(runtime/types.py), and named tuples of these, such as TreeRef, PageAccounts, Queues, FlushRoom and
its Reordering.

    @kernel                  njit, as the kernels here are compiled: cached, no GIL, no references
                             counted; of its indices only a lone constant, as in a[-1], may be negative
    @allocating, @inlined    as kernel, for one that makes arrays; copied to where it is called
    function_pointer(kernel), @on_demand()      kernels that others call by their address
    TypedKernel(kernel)      a kernel that Python calls; types that its signature leaves open follow

A cursor's words:

    cursors[o + LEAF_PAGE]       where the leaf's words begin
    cursors[o + LEAF_SLOT]       the record in it
    cursors[o + LEAF_ENTRIES]    how many records it has
    cursors[o + PATH]            from here on (page, slot) of level 1, 2, ...: 2 * (height - 1) words are used

    INSERT, ERASE, SET, ADD      the actions of edits
    WORD_MIN, WORD_MAX           the bounds of int64
    words[o + ROOT], words[o + HEIGHT], words[o + KEYS]     a tree in an array, such as a row of the trees of queues
    queues[g, SCANS], queues[g, SCANS_END]                  the rows of the folds of group g's first tree
    tallies[t, CHANGES]          how many rows of deltas[t] a flush has written
    tallies[t, GAIN]             how many more records tree t has
    accounts.taken[TAKEN]        what a flush has taken; a host that puts it and the trees back undoes the flush

docs/embedding.md has a worked host.
"""

from pagestore.errors import CorruptionError
from pagestore.pages.layout import WORD_MAX, WORD_MIN, Pages
from pagestore.pages.page import field, gallop, run_end, unpack
from pagestore.runtime.intrinsics import (
    borrowed,
    call_operator,
    float_of_bits,
    float_to_bits,
    lowest,
    population,
)
from pagestore.runtime.kernel import (
    TypedKernel,
    allocating,
    function_pointer,
    inlined,
    kernel,
    on_demand,
)
from pagestore.runtime.types import Bytes, ByteTable, Flags, MappedWords, Table, Tables, Words
from pagestore.sorting.codes import ascends, code_of
from pagestore.trees.kernels.arguments import (
    Bounds,
    FlushRoom,
    FoldWords,
    IntervalTree,
    PageAccounts,
    Queues,
    Reordering,
    TreeRef,
)
from pagestore.trees.kernels.compare import next_changes, start_delta
from pagestore.trees.kernels.cursor import (
    CURSOR_WORDS,
    HEIGHT,
    KEYS,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    PATH,
    ROOT,
    before,
    first,
    forward,
    next_leaf,
    seek,
    tree_at,
)
from pagestore.trees.kernels.edit_groups import (
    CHANGES,
    SCANS,
    SCANS_END,
    TAKEN,
    compose_few,
    flush_queue,
)
from pagestore.trees.kernels.finish import begin_commit, finish_commit
from pagestore.trees.kernels.folds import find_weighted, fold_intervals_at, work_words
from pagestore.trees.kernels.intervals import stab
from pagestore.trees.kernels.node_buffer import ADD, ERASE, GAIN, INSERT, SET

VERSION = 4

__all__ = [
    "ADD", "CHANGES", "CURSOR_WORDS", "ERASE", "GAIN", "HEIGHT", "INSERT", "KEYS",
    "LEAF_ENTRIES", "LEAF_PAGE", "LEAF_SLOT", "PATH", "ROOT", "SCANS", "SCANS_END", "SET",
    "TAKEN", "VERSION", "WORD_MAX", "WORD_MIN", "Bounds", "ByteTable", "Bytes", "Flags",
    "FlushRoom", "FoldWords", "IntervalTree", "MappedWords", "PageAccounts", "Pages", "Queues",
    "Reordering", "Table", "Tables", "TreeRef", "TypedKernel", "Words", "allocating", "ascends",
    "before", "begin_commit", "borrowed", "call_operator", "code_of", "compose_few", "field",
    "find_weighted", "finish_commit", "first", "float_of_bits", "float_to_bits", "flush_queue",
    "fold_intervals_at", "forward", "function_pointer", "gallop", "inlined", "kernel", "lowest",
    "next_changes", "next_leaf", "on_demand", "population", "raise_for", "run_end", "seek",
    "stab", "start_delta", "tree_at", "unpack", "work_words",
]  # fmt: skip


def raise_for(status: int, tree: int | None = None) -> int:
    """Return a kernel's status or count. Raises CorruptionError naming the page for a negative one."""
    if status < 0:
        raise CorruptionError(page=-int(status), tree=tree)
    return int(status)
