"""Apply edits to a tree, and what they change to the trees beside it, which hold its columns in other orders.

    edits ──▶ (x, y) ──delta──┬──▶ (y, x)
                              └──▶ ...

One call for all of them, where the edits are few: a transaction of one edit spends its time on calls.
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
    """Take edits to the first of some trees, and what they changed there on to the others (see arguments.py).

    tallies[T] come back as from `apply_edits`, actions and rows of what changed in deltas[T, 1 + C]. The trees use the
    arena, the pages and the rows for pages replaced one after the other. Stops at a tree that did not go well, or took
    in only some of its edits, or none since less than `output.reserve` pages are left; returns how many trees are done.
    `reordering.moving` and `fresh` are room for twice as many edits as are few, `order` for four times as many.
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
    """As `apply_indexed`, whose address is `apply`; the pages that it made are written, unless a tree did not go well.

    tallies[0, WRITTEN] says how many are: after a first stage that wrote some, only the others are. What could not be
    written through `writer` (see storage/page_writer.py) is left in the arena.
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
    """A word of some tallies, summed up."""
    found = 0
    for t in range(tallies.shape[0]):
        found += tallies[t, word]
    return found


@kernel
def moved(keys, columns, places, n, delta, reordering):
    """Put a delta's columns in another order.

    Its actions stand in moving[1, 0] then, rows in moving[1, 1:], sorted and one a key; returns how many.
    """
    moving = reordering.moving
    given = moving[0]
    for i in range(n):
        given[0, i] = delta[0, i]
        for c in range(columns):
            given[1 + c, i] = delta[1 + places[c], i]
    order = reordering.order[: 2 * n]
    return compose_few(keys, columns, given[0], given[1:], order, reordering.fresh, moving[1, 0], moving[1, 1:])
