"""Flush an edit queue: compose its edits, apply them to its tree and its permuted indices, write the pages.

    waiting[g]   + (3, 5)   - (3, 5)   + (1, 2)
        │ compose_few          one edit a key, in key order
        ▼
    + (1, 2)     ──▶ apply_indexed ──▶ arena ──▶ file           trees[t] is new, deltas[t] says what changed

For kernels that carry a few edits through several groups of trees: Python takes longer between two calls than the calls
take. `trees/edit_queues.py` prepares all this for a host's kernel.
"""

from pagestore.pages.enter import mark
from pagestore.runtime.kernel import kernel
from pagestore.storage.kernels.write import FD, write_pages
from pagestore.trees.kernels import apply_layout
from pagestore.trees.kernels.apply import reserved
from pagestore.trees.kernels.apply_indexed import HEIGHT, KEYS, ROOT, VALUES, apply_indexed_at, total
from pagestore.trees.kernels.apply_layout import ALL, WHOLE
from pagestore.trees.kernels.arguments import Edits, IndexedTrees, Output, Part
from pagestore.trees.kernels.compose_edits import compose_few

# columns of `queues`: which trees a group has, which rows of `scans` its first tree has, columns that are reported
FIRST, END, SCANS, SCANS_END, VISIBLE, QUEUE_WORDS = range(6)
# words of `taken`: pages written, pages replaced, births of the oldest and newest of these
WRITTEN, GONE, OLDEST, NEWEST, TAKEN = range(5)
CHANGES = apply_layout.DELTA  # the word of a tally with the number of rows of `deltas`


@kernel
def flush_queue(pages, books, queues, room, apply, g):
    """Flush the queue of group g (see arguments.py); return whether it was done; if not, nothing is changed.

    Sets the new roots and heights of the group's trees, and tallies and deltas as `apply_indexed` does, whose address
    is `apply`.
    """
    table, taken, waits, reordering = queues.queues, books.taken, queues.waits, room.reordering
    first, end = table[g, FIRST], table[g, END]
    rows, some, height = queues.trees[first:end], queues.tallies[first:end], 0
    keys, columns, moving = rows[0, KEYS], rows[0, KEYS] + rows[0, VALUES], reordering.moving[0]
    for t in range(end - first):
        height = max(height, rows[t, HEIGHT])
    waiting, order, free = queues.waiting[g], reordering.order[: 2 * waits[g]], books.ids[taken[WRITTEN] :]
    n = compose_few(keys, columns, waiting[0], waiting[1:], order, reordering.fresh, moving[0], moving[1:])
    if n < 0 or books.writer[FD] < 0:
        return False
    trees = IndexedTrees(rows, queues.places[first:end], queues.scans[table[g, SCANS] : table[g, SCANS_END]])
    edits = Edits(moving[0, :n], moving[1:], table[g, VISIBLE])
    output = Output(room.arena, free, room.dead, books.birth, reserved(height, n, columns, pages.page_words))
    done = apply_indexed_at(
        apply, pages, trees, edits, Part(WHOLE, 0, ALL), output, queues.deltas[first:end], some, room.room, reordering
    )
    used, gone = total(some, apply_layout.USED), total(some, apply_layout.DEAD)
    whole = done == end - first and taken[GONE] + gone <= books.retired.shape[0]
    if not whole or write_pages(books.writer, room.arena, free[:used], pages.page_words) < used:
        some[:] = 0
        return False
    mark(room.arena, free[:used], pages.seen, pages.page_words)
    enter_books(books, used, room.dead[:gone])
    for t in range(end - first):
        rows[t, ROOT], rows[t, HEIGHT] = some[t, apply_layout.ROOT], some[t, apply_layout.HEIGHT]
    waits[g] = 0
    return True


@kernel
def enter_books(books, used, dead):
    """Note the number of pages written, and the pages replaced."""
    taken, retired = books.taken, books.retired
    for i in range(dead.shape[0]):
        row = retired[taken[GONE] + i]
        row[0], row[1], row[2] = books.lineage, dead[i, 0], dead[i, 1]
        taken[OLDEST] = min(taken[OLDEST], dead[i, 1])
        taken[NEWEST] = max(taken[NEWEST], dead[i, 1])
    taken[WRITTEN] += used
    taken[GONE] += dead.shape[0]
