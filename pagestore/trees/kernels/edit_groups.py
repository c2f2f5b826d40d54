"""Apply edits to a tree, and its delta to its permuted indices, which hold its columns in other
orders.

    edits ──▶ (x, y) ──delta──┬──▶ (y, x)
                              └──▶ ...

One call does all of them if the edits are few: a transaction of one edit spends its time on calls.

Compose the edits of a batch before they reach a tree: one edit a key, in key order.

Flush an edit queue: compose its edits, apply them to its tree and its permuted indices, write the
pages.

    waiting[g]   + (3, 5)   - (3, 5)   + (1, 2)
        │ compose_few          one edit a key, in key order
        ▼
    + (1, 2)     ──▶ apply_indexed ──▶ arena ──▶ file           trees[t] is new, deltas[t] says what changed

For kernels that carry a few edits through several groups of trees: Python takes longer between two
calls than the calls take. `trees/edit.py` prepares all this for a host's kernel.
"""

from pagestore.pages.layout import Pages, Shape
from pagestore.pages.verify import mark
from pagestore.runtime.kernel import function_pointer, kernel
from pagestore.runtime.types import Flags, Table, Tables, Words
from pagestore.sorting.codes import merge_order
from pagestore.storage.kernels.write import FD, write_pages
from pagestore.trees.kernels import node_buffer
from pagestore.trees.kernels.arguments import (
    Changes,
    Edits,
    FlushRoom,
    IndexedTrees,
    Output,
    PageAccounts,
    Part,
    Queues,
    Reordering,
    Room,
    Run,
)
from pagestore.trees.kernels.cursor import HEIGHT, KEYS, ROOT, TREE_ID, VALUES, tree_at
from pagestore.trees.kernels.edit import apply_edits, reserved
from pagestore.trees.kernels.node_buffer import (
    ADD,
    ALL,
    DEAD,
    DELTA,
    EDIT,
    ERASE,
    INSERT,
    OK,
    SET,
    SHORT,
    STATUS,
    USED,
    WHOLE,
    WRITTEN,
)


@kernel
def apply_indexed(pages, trees, edits, part, output, deltas, tallies, room, reordering):
    """Apply edits to the first tree, and its delta to the others (see arguments.py).

    Sets tallies[T] as `apply_edits` does, and deltas[T, 1 + C] to actions and rows of the deltas.
    The trees use the arena, the pages and the rows for replaced pages one after the other. Stops at
    a tree that failed, or took only some of its edits, or none since fewer than `output.reserve`
    pages are left; returns how many trees are done. `reordering.moving` and `fresh` have room for 2
    * FEW edits, `order` for 4 * FEW.
    """
    n, used, gone, page_words = edits.actions.shape[0], 0, 0, pages.page_words
    ids, dead, moving = output.ids, output.dead, reordering.moving
    for t in range(trees.rows.shape[0]):
        row = trees.rows[t]
        tree = tree_at(pages, row, 0)
        if ids.shape[0] - used < output.reserve or dead.shape[0] - gone < output.reserve:
            tallies[t, :] = 0
            tallies[t, STATUS] = SHORT
            return t
        left = Output(
            output.arena[used * page_words :], ids[used:], dead[gone:], output.birth, output.reserve
        )
        changes = Changes(deltas[t, 0], deltas[t, 1:])
        run = Run(room.node, room.walk, tallies[t], room.work)
        if t == 0:
            shape = Shape(row[KEYS], row[VALUES], trees.scans, row[TREE_ID])
            apply_edits(tree, shape, edits, part, left, changes, run)
        else:
            columns = row[KEYS] + row[VALUES]
            n = moved(row[KEYS], columns, trees.places[t], tallies[0, DELTA], deltas[0], reordering)
            again = Edits(moving[1, 0, :n], moving[1, 1:], columns)
            shape = Shape(row[KEYS], row[VALUES], trees.scans[:0], row[TREE_ID])
            apply_edits(tree, shape, again, Part(WHOLE, 0, ALL), left, changes, run)
        if tallies[t, STATUS] != OK or tallies[t, EDIT] < n:
            return t
        used += tallies[t, USED]
        gone += tallies[t, DEAD]
    return trees.rows.shape[0]


apply_indexed_at = function_pointer(
    apply_indexed, Pages, IndexedTrees, Edits, Part, Output, Tables, Table, Room, Reordering
)


@kernel
def apply_and_write(
    writer, apply, pages, trees, edits, part, output, deltas, tallies, room, reordering
):
    """Call `apply_indexed` by its address `apply`, then write the pages that it made, unless a tree
    failed.

    tallies[0, WRITTEN] counts the pages written; those that an earlier stage wrote are not written
    again. Pages that could not be written through `writer` (see storage/file.py) are left in the
    arena.
    """
    done = apply_indexed_at(
        apply, pages, trees, edits, part, output, deltas, tallies, room, reordering
    )
    last = min(done, trees.rows.shape[0] - 1)
    if tallies[last, STATUS] == OK and writer[FD] >= 0:
        begin, end = tallies[0, WRITTEN], total(tallies[: last + 1], USED)
        arena, ids = output.arena[begin * pages.page_words :], output.ids[begin:end]
        n = write_pages(writer, arena, ids, pages.page_words)
        mark(arena, ids[:n], pages.seen, pages.page_words)
        tallies[0, WRITTEN] = begin + n
    return done


@kernel
def total(tallies: Table, word: int):
    """Return the sum of one word of the tallies."""
    found = 0
    for t in range(tallies.shape[0]):
        found += tallies[t, word]
    return found


@kernel
def moved(keys: int, columns: int, places: Words, n: int, delta: Table, reordering: Reordering):
    """Make edits of a permuted index out of a delta.

    Writes their actions to moving[1, 0], their rows to moving[1, 1:], sorted and one a key; returns
    how many.
    """
    moving = reordering.moving
    given = moving[0]
    for i in range(n):
        given[0, i] = delta[0, i]
        for c in range(columns):
            given[1 + c, i] = delta[1 + places[c], i]
    order = reordering.order[: 2 * n]
    return compose_few(
        keys, columns, given[0], given[1:], order, reordering.fresh, moving[1, 0], moving[1, 1:]
    )


@kernel
def compose(keys: int, columns: int, fresh: Flags, actions: Words, edits: Table):
    """Fold edits[C, n], stably sorted by key, in place; `fresh` marks the first edit of each key.

    Returns how many remain, -1 - i for an edit i that adds to a key that the batch also sets, or
    -1 - n - i (of n edits) for an edit i with which the sum leaves 64 bits.
    """
    out = -1
    for i in range(actions.shape[0]):
        before, now = actions[max(out, 0)], actions[i]
        if fresh[i]:
            out += 1
            if out < i:  # mostly none was dropped before
                actions[out] = now
                for c in range(columns):
                    edits[c, out] = edits[c, i]
        elif (now == ADD) != (before == ADD):
            return -1 - i
        elif now == ADD:
            for c in range(keys, columns):
                total = edits[c, out] + edits[c, i]
                if (edits[c, out] ^ total) & (edits[c, i] ^ total) < 0:
                    return -1 - actions.shape[0] - i
                edits[c, out] = total
        elif now == INSERT and before != ERASE:
            continue  # the record exists already
        else:
            actions[out] = SET if now == INSERT else now
            for c in range(keys, columns):
                edits[c, out] = edits[c, i]
    return out + 1


@kernel
def compose_few(keys, columns, actions, edits, order, fresh, out_actions, out_edits):
    """Compose n edits like `compose`, a few in any order, into out_edits; order[2n] and fresh[n]
    are scratch.
    """
    merge_order(edits[:keys], order)
    return compose_ordered(
        keys, columns, actions, edits, order[: order.shape[0] >> 1], fresh, out_actions, out_edits
    )


@kernel
def compose_ordered(keys, columns, actions, edits, order, fresh, out_actions, out_edits):
    """Compose the edits order[n], a stable order, like `compose`, into out_edits; fresh[n] is
    scratch.
    """
    n = order.shape[0]
    for i in range(n):
        out_actions[i] = actions[order[i]]
        fresh[i] = i == 0
    for c in range(columns):  # column by column, in loops that the compiler vectorizes
        given, taken = edits[c], out_edits[c]
        for i in range(n):
            taken[i] = given[order[i]]
        if c < keys:
            for i in range(1, n):
                fresh[i] |= taken[i] != taken[i - 1]
    return compose(keys, columns, fresh, out_actions[:n], out_edits)


# columns of `queues`: which trees a group has, which rows of `scans` its first tree has, columns
# that are reported
FIRST, END, SCANS, SCANS_END, VISIBLE, QUEUE_WORDS = range(6)
# words of `taken`: pages written, pages replaced, births of the oldest and newest of these
MADE, GONE, OLDEST, NEWEST, TAKEN = range(5)
CHANGES = node_buffer.DELTA  # the word of a tally with the number of rows of `deltas`


@kernel
def flush_queue(
    pages: Pages, accounts: PageAccounts, queues: Queues, room: FlushRoom, apply: int, g: int
):
    """Flush the queue of group g (see arguments.py); return whether it was done; if not, nothing is
    changed.

    Sets the new roots and heights of the group's trees, and tallies and deltas as `apply_indexed`
    does, whose address is `apply`.
    """
    table, taken, waits, reordering = queues.queues, accounts.taken, queues.waits, room.reordering
    first, end = table[g, FIRST], table[g, END]
    rows, some, height = queues.trees[first:end], queues.tallies[first:end], 0
    keys, columns, moving = rows[0, KEYS], rows[0, KEYS] + rows[0, VALUES], reordering.moving[0]
    for t in range(end - first):
        height = max(height, rows[t, HEIGHT])
    waiting = queues.waiting[g]
    order = reordering.order[: 2 * waits[g]]
    free = accounts.ids[taken[MADE] :]
    n = compose_few(
        keys, columns, waiting[0], waiting[1:], order, reordering.fresh, moving[0], moving[1:]
    )
    if n < 0 or accounts.writer[FD] < 0:
        return False
    trees = IndexedTrees(
        rows, queues.places[first:end], queues.scans[table[g, SCANS] : table[g, SCANS_END]]
    )
    edits = Edits(moving[0, :n], moving[1:], table[g, VISIBLE])
    output = Output(
        room.arena, free, room.dead, accounts.birth, reserved(height, n, columns, pages.page_words)
    )
    done = apply_indexed_at(
        apply,
        pages,
        trees,
        edits,
        Part(WHOLE, 0, ALL),
        output,
        queues.deltas[first:end],
        some,
        room.room,
        reordering,
    )
    used, gone = total(some, node_buffer.USED), total(some, node_buffer.DEAD)
    whole = done == end - first and taken[GONE] + gone <= accounts.retired.shape[0]
    if not whole or write_pages(accounts.writer, room.arena, free[:used], pages.page_words) < used:
        some[:] = 0
        return False
    mark(room.arena, free[:used], pages.seen, pages.page_words)
    note_pages(accounts, used, room.dead[:gone])
    for t in range(end - first):
        rows[t, ROOT], rows[t, HEIGHT] = (
            some[t, node_buffer.NEW_ROOT],
            some[t, node_buffer.NEW_HEIGHT],
        )
    waits[g] = 0
    return True


@kernel
def note_pages(accounts: PageAccounts, used: int, dead: Table):
    """Note the number of pages written, and the pages replaced."""
    taken, retired = accounts.taken, accounts.retired
    for i in range(dead.shape[0]):
        row = retired[taken[GONE] + i]
        row[0], row[1], row[2] = accounts.lineage, dead[i, 0], dead[i, 1]
        taken[OLDEST] = min(taken[OLDEST], dead[i, 1])
        taken[NEWEST] = max(taken[NEWEST], dead[i, 1])
    taken[MADE] += used
    taken[GONE] += dead.shape[0]
