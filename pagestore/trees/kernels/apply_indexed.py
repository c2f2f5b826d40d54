"""Apply edits to a tree, and what they change to the trees beside it, which hold its columns in other orders.

    edits ──▶ (x, y) ──delta──┬──▶ (y, x)
                              └──▶ ...

One call for all of them, where the edits are few: a transaction of one edit spends its time on calls.
"""

from pagestore.pages.enter import mark
from pagestore.runtime.compiler import addressed, by_address, kernel
from pagestore.storage.kernels.write import FD, write_pages
from pagestore.trees.kernels.apply import apply_edits
from pagestore.trees.kernels.apply_layout import ALL, DEAD, DELTA, EDIT, OK, SHORT, STATUS, USED, WHOLE, WRITTEN
from pagestore.trees.kernels.compose_edits import compose_few

# columns of `trees`
TREE_ID, ROOT, HEIGHT, KEYS, VALUES, TREE_WORDS = range(6)


@addressed
def apply_indexed(
    words, seen, page_words, trees, places, scans, actions, edits, visible, stages, first, last,
    arena, ids, birth, reserve, node, dead, deltas, walk, tallies, work, moving, order, fresh,
):  # fmt: skip
    """Take edits to the first of trees[T, 5], and what changed there on to the others; places[T, C] are their columns.

    tallies[T] come back as from `apply_edits`, with actions and rows of what changed in deltas[T, 1 + C]. Arena, `ids`
    and `dead` are used by one tree after the other. Stops at a tree that did not go well, or took in only some of its
    edits, or none since less than `reserve` pages are left; returns how many trees are done. `moving` and
    `fresh` are room for twice as many edits as are few, `order` for four times as many.
    """
    n, used, gone = actions.shape[0], 0, 0
    for t in range(trees.shape[0]):
        tree = trees[t]
        if ids.shape[0] - used < reserve or dead.shape[0] - gone < reserve:
            tallies[t, :] = 0
            tallies[t, STATUS] = SHORT
            return t
        if t == 0:
            apply_edits(
                words, seen, page_words, tree[ROOT], tree[HEIGHT], tree[KEYS], tree[VALUES], scans, actions, edits,
                visible, stages, first, last, arena, ids, birth, tree[TREE_ID], reserve, node, dead,
                deltas[0, 0], deltas[0, 1:], walk, tallies[0], work,
            )  # fmt: skip
        else:
            columns = tree[KEYS] + tree[VALUES]
            n = moved(tree[KEYS], columns, places[t], tallies[0, DELTA], deltas[0], moving, order, fresh)
            apply_edits(
                words, seen, page_words, tree[ROOT], tree[HEIGHT], tree[KEYS], tree[VALUES], scans[:0],
                moving[1, 0, :n], moving[1, 1:], columns, WHOLE, 0, ALL,
                arena[used * page_words :], ids[used:], birth, tree[TREE_ID], reserve, node, dead[gone:],
                deltas[t, 0], deltas[t, 1:], walk, tallies[t], work,
            )  # fmt: skip
        if tallies[t, STATUS] != OK or tallies[t, EDIT] < n:
            return t
        used += tallies[t, USED]
        gone += tallies[t, DEAD]
    return trees.shape[0]


apply_indexed_at = by_address(
    apply_indexed,
    "int64(Array(int64, 1, 'C', True), uint8[::1], int64, int64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1],"
    "int64[:, ::1], int64, int64, int64, int64, int64[::1], int64[::1], int64, int64, int64[:, :, ::1], int64[:, ::1],"
    "int64[:, :, ::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[:, :, ::1], int64[::1], boolean[::1])",
)


@kernel
def apply_and_write(
    page_writer, apply, words, seen, page_words, trees, places, scans, actions, edits, visible, stages, first, last,
    arena, ids, birth, reserve, node, dead, deltas, walk, tallies, work, moving, order, fresh,
):  # fmt: skip
    """As `apply_indexed`, whose address is `apply`; the pages that it made are written, unless a tree did not go well.

    tallies[0, WRITTEN] says how many are: after a first stage that wrote some, only the others are. What could not be
    written through `page_writer` is left in the arena.
    """
    done = apply_indexed_at(
        apply, words, seen, page_words, trees, places, scans, actions, edits, visible, stages, first, last,
        arena, ids, birth, reserve, node, dead, deltas, walk, tallies, work, moving, order, fresh,
    )  # fmt: skip
    last = min(done, trees.shape[0] - 1)
    if tallies[last, STATUS] == OK and page_writer[FD] >= 0:
        begin, end = tallies[0, WRITTEN], total(tallies[: last + 1], USED)
        n = write_pages(page_writer, arena[begin * page_words :], ids[begin:end], page_words)
        mark(arena[begin * page_words :], ids[begin : begin + n], seen, page_words)
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
def moved(keys, columns, places, n, delta, moving, order, fresh):
    """Put a delta's columns in another order.

    Its actions stand in moving[1, 0] then, rows in moving[1, 1:], sorted and one a key; returns how many.
    """
    given = moving[0]
    for i in range(n):
        given[0, i] = delta[0, i]
        for c in range(columns):
            given[1 + c, i] = delta[1 + places[c], i]
    return compose_few(keys, columns, given[0], given[1:], order[: 2 * n], fresh, moving[1, 0], moving[1, 1:])
