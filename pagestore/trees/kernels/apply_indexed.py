"""Apply edits to a tree, and its delta to its permuted indices, which hold its columns in other orders.

    edits ──▶ (x, y) ──delta──┬──▶ (y, x)
                              └──▶ ...

One call does all of them if the edits are few: a transaction of one edit spends its time on calls.
"""

from pagestore.pages.arguments import Shape
from pagestore.pages.enter import mark
from pagestore.pages.page_map import Pages
from pagestore.runtime.arguments import Table, Tables
from pagestore.runtime.kernel import addressed, by_address, kernel
from pagestore.storage.kernels.write import FD, write_pages
from pagestore.trees.kernels.apply import apply_edits
from pagestore.trees.kernels.apply_layout import ALL, DEAD, DELTA, EDIT, OK, SHORT, STATUS, USED, WHOLE, WRITTEN
from pagestore.trees.kernels.arguments import Changes, Edits, IndexedTrees, Output, Part, Reordering, Room, Run
from pagestore.trees.kernels.compose_edits import compose_few

# columns of `trees`
TREE_ID, ROOT, HEIGHT, KEYS, VALUES, TREE_WORDS = range(6)


@addressed
def apply_indexed(pages, trees, edits, part, output, deltas, tallies, room, reordering):
    """Apply edits to the first tree, and its delta to the others (see arguments.py).

    Sets tallies[T] as `apply_edits` does, and deltas[T, 1 + C] to actions and rows of the deltas. The trees use the
    arena, the pages and the rows for replaced pages one after the other. Stops at a tree that failed, or took only
    some of its edits, or none since fewer than `output.reserve` pages are left; returns how many trees are done.
    `reordering.moving` and `fresh` have room for 2 * FEW edits, `order` for 4 * FEW.
    """
    n, used, gone, page_words = edits.actions.shape[0], 0, 0, pages.page_words
    ids, dead, moving = output.ids, output.dead, reordering.moving
    for t in range(trees.rows.shape[0]):
        row = trees.rows[t]
        if ids.shape[0] - used < output.reserve or dead.shape[0] - gone < output.reserve:
            tallies[t, :] = 0
            tallies[t, STATUS] = SHORT
            return t
        left = Output(output.arena[used * page_words :], ids[used:], dead[gone:], output.birth, output.reserve)
        changes = Changes(deltas[t, 0], deltas[t, 1:])
        run = Run(room.node, room.walk, tallies[t], room.work)
        if t == 0:
            shape = Shape(row[KEYS], row[VALUES], trees.scans, row[TREE_ID])
            apply_edits(pages, row[ROOT], row[HEIGHT], shape, edits, part, left, changes, run)
        else:
            columns = row[KEYS] + row[VALUES]
            n = moved(row[KEYS], columns, trees.places[t], tallies[0, DELTA], deltas[0], reordering)
            again = Edits(moving[1, 0, :n], moving[1, 1:], columns)
            shape = Shape(row[KEYS], row[VALUES], trees.scans[:0], row[TREE_ID])
            apply_edits(pages, row[ROOT], row[HEIGHT], shape, again, Part(WHOLE, 0, ALL), left, changes, run)
        if tallies[t, STATUS] != OK or tallies[t, EDIT] < n:
            return t
        used += tallies[t, USED]
        gone += tallies[t, DEAD]
    return trees.rows.shape[0]


apply_indexed_at = by_address(apply_indexed, Pages, IndexedTrees, Edits, Part, Output, Tables, Table, Room, Reordering)


@kernel
def apply_and_write(writer, apply, pages, trees, edits, part, output, deltas, tallies, room, reordering):
    """Call `apply_indexed` by its address `apply`, then write the pages that it made, unless a tree failed.

    tallies[0, WRITTEN] counts the pages written; those that an earlier stage wrote are not written again. Pages that
    could not be written through `writer` (see storage/page_writer.py) are left in the arena.
    """
    done = apply_indexed_at(apply, pages, trees, edits, part, output, deltas, tallies, room, reordering)
    last = min(done, trees.rows.shape[0] - 1)
    if tallies[last, STATUS] == OK and writer[FD] >= 0:
        begin, end = tallies[0, WRITTEN], total(tallies[: last + 1], USED)
        arena, ids = output.arena[begin * pages.page_words :], output.ids[begin:end]
        n = write_pages(writer, arena, ids, pages.page_words)
        mark(arena, ids[:n], pages.seen, pages.page_words)
        tallies[0, WRITTEN] = begin + n
    return done


@kernel
def total(tallies, word):
    """Return the sum of one word of the tallies."""
    found = 0
    for t in range(tallies.shape[0]):
        found += tallies[t, word]
    return found


@kernel
def moved(keys, columns, places, n, delta, reordering):
    """Make edits of a permuted index out of a delta.

    Writes their actions to moving[1, 0], their rows to moving[1, 1:], sorted and one a key; returns how many.
    """
    moving = reordering.moving
    given = moving[0]
    for i in range(n):
        given[0, i] = delta[0, i]
        for c in range(columns):
            given[1 + c, i] = delta[1 + places[c], i]
    order = reordering.order[: 2 * n]
    return compose_few(keys, columns, given[0], given[1:], order, reordering.fresh, moving[1, 0], moving[1, 1:])
