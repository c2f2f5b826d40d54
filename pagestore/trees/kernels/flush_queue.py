"""Flush the edits that wait for a group of trees: net them, apply them to the first and beside it, write the pages.

    waiting[g] ──▶ one edit a key ──▶ apply_indexed ──▶ arena ──▶ file        trees[t] is new, deltas[t] what changed

For kernels that carry a few edits through several groups: what Python does between two calls takes longer than the
calls. A kernel of a host's has all this under `trees/edit_queues.py`.
"""

from pagestore.pages.enter import mark
from pagestore.runtime.compiler import kernel
from pagestore.storage.kernels.write import FD, write_pages
from pagestore.trees.kernels import apply_layout
from pagestore.trees.kernels.apply import reserved
from pagestore.trees.kernels.apply_indexed import HEIGHT, KEYS, ROOT, VALUES, apply_indexed_at, total
from pagestore.trees.kernels.apply_layout import ALL, WHOLE
from pagestore.trees.kernels.compose_edits import compose_few

# columns of `groups`: which trees, which rows of `scans` the first one has, columns that are reported
FIRST, END, SCANS, SCANS_END, VISIBLE = range(5)
# words of `taken`: pages written, pages that are dead, births of the oldest and newest of these
WRITTEN, GONE, OLDEST, NEWEST, TAKEN = range(5)
CHANGES = apply_layout.DELTA  # the word of a tally that says how many rows of `deltas` there are


@kernel
def settle(
    words, seen, page_words, page_writer, birth, lineage, ids, taken, retired, groups, trees, places, scans,
    waiting, waits,    deltas, tallies, arena, node, dead, walk, work, moving, order, fresh, apply, g,
):  # fmt: skip
    """Flush group g; returns whether it was done, otherwise nothing has happened.

    waiting[G, 1 + C, n] are actions and rows of edits, waits[G] how many there are, in any order. Afterwards trees[T]
    have their new roots and heights, tallies[T] and deltas[T, 1 + C, 2 * n] are as from `apply_indexed`. Pages ids[n]
    that are still to be had begin at taken[WRITTEN], rows of `retired` (lineage, page, birth) at taken[GONE]. `apply`
    is the address of `apply_indexed`.
    """
    first, end = groups[g, FIRST], groups[g, END]
    keys, columns, height = trees[first, KEYS], trees[first, KEYS] + trees[first, VALUES], 0
    for t in range(first, end):
        height = max(height, trees[t, HEIGHT])
    edits, free = moving[0], ids[taken[WRITTEN] :]
    n = compose_few(keys, columns, waiting[g, 0], waiting[g, 1:], order[: 2 * waits[g]], fresh, edits[0], edits[1:])
    if n < 0 or page_writer[FD] < 0:
        return False
    some = tallies[first:end]
    done = apply_indexed_at(
        apply, words, seen, page_words, trees[first:end], places[first:end],
        scans[groups[g, SCANS] : groups[g, SCANS_END]], edits[0, :n], edits[1:], groups[g, VISIBLE], WHOLE, 0, ALL,
        arena, free, birth, reserved(height, n, columns, page_words), node, dead, deltas[first:end], walk, some, work,
        moving, order, fresh,
    )  # fmt: skip
    used, gone = total(some, apply_layout.USED), total(some, apply_layout.DEAD)
    whole = done == end - first and taken[GONE] + gone <= retired.shape[0]
    if not whole or write_pages(page_writer, arena, free[:used], page_words) < used:
        some[:] = 0
        return False
    mark(arena, free[:used], seen, page_words)
    note(free[:used], lineage, dead[:gone], taken, retired)
    for t in range(first, end):
        trees[t, ROOT], trees[t, HEIGHT] = tallies[t, apply_layout.ROOT], tallies[t, apply_layout.HEIGHT]
    waits[g] = 0
    return True


@kernel
def note(ids, lineage, dead, taken, retired):
    """Take the books of pages ids[n] that were written, and of the `dead` ones that they replace."""
    for i in range(dead.shape[0]):
        row = retired[taken[GONE] + i]
        row[0], row[1], row[2] = lineage, dead[i, 0], dead[i, 1]
        taken[OLDEST] = min(taken[OLDEST], dead[i, 1])
        taken[NEWEST] = max(taken[NEWEST], dead[i, 1])
    taken[WRITTEN] += ids.shape[0]
    taken[GONE] += dead.shape[0]
