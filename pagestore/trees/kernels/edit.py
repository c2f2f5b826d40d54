"""Apply a sorted batch of edits to a tree: one descent, fresh pages only where something changed.

The walk keeps, for every level, its node and a buffer of the entries that the node's successor will
have: new ones decoded, and runs of the old node's that are only noted.  A leaf's edits are merged
into the buffer of level 0; children without edits are kept as runs, so their subtrees stay shared.
Most successors are then made from the old page by shifting bits (pages/build.py).  Else the runs
are decoded; a buffer too large for a page is cut into several, one too small takes in its next
sibling, or its previous one.  The entries of the pages written go to the buffer above.

Merge a leaf with its edits: make the new records and the delta.

    leaf     1 a   3 b   5 c          edits    INSERT 2 x    ERASE 3    SET 5 c
    buffer   run 0..1   2 x   run 2..3         delta    INSERT 2 x    ERASE 3 b

Records between two edits that change something move as runs; an edit that changes nothing moves
nothing.
"""

from pagestore.pages.build import ENDS, KEY, RECORD, entry_columns
from pagestore.pages.layout import ENTRY_COUNT, Pages, Shape
from pagestore.pages.page import child_slot, field, lower, run_end
from pagestore.pages.verify import child, enter
from pagestore.runtime.intrinsics import prefetch
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import LINE, MappedWords, Table, Words
from pagestore.trees.kernels.arguments import Changes, Edits, Output, Part, Run, TreeRef
from pagestore.trees.kernels.node_buffer import (
    ADD,
    AHEAD,
    AHEAD_EDIT,
    BELOW,
    CHANGED,
    DEAD,
    DELTA,
    EDIT,
    END,
    ENTRIES,
    ERASE,
    EVIDENCE,
    GAIN,
    INSERT,
    NEGATIVE,
    OK,
    OVERFLOW,
    PAGE,
    ROOT_ON,
    RUNS,
    SIZE,
    SLOT,
    STATUS,
    USED,
    copy_run,
    read_columns,
)
from pagestore.trees.kernels.successor import edits_below, finish, first_not_below, grow, take_in

SAMPLES = 64  # places in the root considered for the end of a part


def reserve_of(height, n, columns, page_words):
    """Return how many pages to reserve so that a batch of n edits that runs short can still
    leave the tree whole.
    """
    return 3 * (height + 2) + 2 * n * (columns + 1) // page_words


reserved = kernel(reserve_of)


@kernel
def apply_edits(
    tree: TreeRef, shape: Shape, edits: Edits, part: Part, output: Output, delta: Changes, run: Run
):
    """Run the batch; `run.tally` then has the status, the pointer to the new root, its height, and
    what was used.

    Stops early (tally[EDIT] < len(actions)) when arena or dead list run low: the tree is whole
    then, and the caller continues with the rest.

    Of a large batch, several runs in parallel may each take the edits BELOW the entries first to
    last of the root; one of them, to which `adopt` adds the results of the others, continues with
    ROOT_ON.
    """
    pages, walk, tally = tree.pages, run.walk, run.tally
    top = max(tree.height, 1) - 1
    if part.stages & BELOW:
        tally[:] = 0
        walk[:, :] = 0
        walk[END, top] = edits.actions.shape[0]
        if tree.height > 0:
            page = enter(pages, tree.root, top, read_columns(shape, top))
            if not take_in(pages.words, page, shape.scans, top, walk, tally):
                return
        walk[SLOT, top] = part.first
        walk[ENTRIES, top] = min(part.last, walk[ENTRIES, top])
        go_below(pages, shape, top, edits, output, delta, run)
    if part.stages & ROOT_ON and tally[STATUS] == OK:
        finish(pages, shape, top, top, edits, output, run)
        grow(pages, tree.root, shape, top, output, run)


@kernel
def go_below(
    pages: Pages, shape: Shape, top: int, edits: Edits, output: Output, delta: Changes, run: Run
):
    """Apply the edits below the root, until the root's new entries are complete."""
    walk, tally = run.walk, run.tally
    level = top
    while top == 0 or level < top or walk[SLOT, top] < walk[ENTRIES, top]:
        if level == 0:
            merge_leaf(pages.words, shape, edits, delta, run)
            if tally[STATUS] != OK or top == 0:
                return
        elif walk[SLOT, level] < walk[ENTRIES, level]:
            stop_if_short(output, walk, tally)
            if descend(pages, shape, edits.rows, level, run):
                level -= 1
            if tally[STATUS] != OK:
                return
            continue
        stop_if_short(output, walk, tally)
        level = finish(pages, shape, level, top, edits, output, run)
        if tally[STATUS] != OK:
            return


@kernel
def adopt(words, keys, folds, top, node, walk, other_node, other_walk):
    """Append the new root entries of the next run to those of this run. Their pages must have
    been written.
    """
    columns = entry_columns(keys, 0, folds, top)
    source, runs = other_node[top], max(other_walk[RUNS, top], 0)
    i = 0
    for r in range(runs + 1):
        stop = source[columns + 3, r] if r < runs else other_walk[SIZE, top]
        at = walk[SIZE, top]
        for j in range(i, stop):
            for c in range(columns):
                node[top, c, at + j - i] = source[c, j]
            node[top, columns, at + j - i] = 0
        walk[SIZE, top] = at + stop - i
        if r < runs:
            lo, hi = source[columns + 1, r], source[columns + 2, r]
            copy_run(words, columns, lo, hi, node[top], walk, top)
            i = stop + hi - lo
    walk[CHANGED, top] |= other_walk[CHANGED, top]


@kernel
def cut_edits(tree: TreeRef, edits: Table, page_edits: int, cuts: Table):
    """Cut a batch where entries of the root begin, into parts of about equal work.

    Fills cuts[2, P + 1] with the entry and the edit that each part begins at, and their ends;
    returns the number of parts, at most P, or ``-page_id``. An entry with edits below costs as much
    as `page_edits` of them.
    """
    words, keys = tree.pages.words, tree.keys
    page = enter(tree.pages, tree.root, tree.height - 1, keys + 1)
    if page < 0:
        return page
    wanted, n, entries = cuts.shape[1] - 1, edits.shape[1], words[page + ENTRY_COUNT]
    step = 1 + entries // (SAMPLES * wanted)
    parts, total = 1, 0
    cuts[:, 0] = 0
    for measured in range(2):
        work = e = 0
        for slot in range(step, entries + step, step):
            end = (
                first_not_below(words, page, slot, keys, edits, e, n)
                if slot < entries and e < n
                else n
            )
            work += end - e + page_edits * min(end - e, step)
            e = end
            if (
                measured
                and parts < wanted
                and wanted * work >= parts * total
                and cuts[1, parts - 1] < e < n
            ):
                cuts[0, parts], cuts[1, parts] = slot, e
                parts += 1
        total = work
    cuts[0, parts], cuts[1, parts] = entries, n
    return parts


@kernel
def stop_if_short(output: Output, walk: Table, tally: Words):
    """Take no more edits once arena or dead list have only the room that finishing needs."""
    if (
        tally[USED] + output.reserve > output.ids.shape[0]
        or tally[DEAD] + output.reserve > output.dead.shape[0]
    ):
        walk[END, :] = tally[EDIT]


@kernel
def descend(pages: Pages, shape: Shape, edits: Table, level: int, run: Run):
    """Copy the children without edits and enter the next one with edits; return False if there
    is none.
    """
    words, page_words, node = pages.words, pages.page_words, run.node
    walk, tally = run.walk, run.tally
    keys, scans = shape.keys, shape.scans
    page, slot, entries = walk[PAGE, level], walk[SLOT, level], walk[ENTRIES, level]
    columns = entry_columns(keys, 0, scans.shape[0], level)
    e = tally[EDIT]
    end = walk[END, level]
    target = entries
    if e < end:
        target = child_of_edit(words, page, keys, edits, e, slot, level, node, walk)
    copy_run(words, columns, slot, target, node[level], walk, level)
    walk[SLOT, level] = target
    if target == entries:
        return False
    if target + 1 < entries:
        end = edits_below(words, page, target + 1, keys, edits, e, end)
    walk[SLOT, level] = target + 1
    walk[END, level - 1] = end
    if level == 1 and end < walk[END, level]:
        walk[AHEAD, level] = child_of_edit(
            words, page, keys, edits, end, target + 1, level, node, walk
        )
        walk[AHEAD_EDIT, level] = end
        ahead = field(words, page, keys, walk[AHEAD, level]) * page_words
        for i in range(ahead, ahead + page_words, LINE):
            prefetch(words, i)
    below = child(pages, page, keys, target, level - 1, read_columns(shape, level - 1))
    return take_in(words, below, scans, level - 1, walk, tally)


@kernel
def child_of_edit(words, page, keys, edits, e, slot, level, node, walk):
    """Return the entry, from `slot` on, that edit e goes below."""
    if walk[AHEAD_EDIT, level] == e:
        return walk[AHEAD, level]
    spare = node[-1]
    key = spare[KEY]
    for c in range(keys):
        key[c] = edits[c, e]
    return child_slot(words, page, key, keys, keys, slot)


@kernel
def merge_leaf(words: MappedWords, shape: Shape, edits: Edits, delta: Changes, run: Run):
    """Append the current leaf, with its edits applied, to the buffer of level 0.

    Records between two effective edits move as column runs.  A leaf whose edits change nothing
    moves nothing (unless records carried over from its neighbour wait in the buffer).
    """
    keys, values, actions = shape.keys, shape.values, edits.actions
    rows, visible = edits.rows, edits.visible
    node, walk, tally = run.node, run.walk, run.tally
    columns = keys + values
    page, entries = walk[PAGE, 0], walk[ENTRIES, 0]
    spare = node[-1]
    buffer, ends, record = node[0], spare[ENDS], spare[RECORD]
    copied = 0
    at = 0
    first = e = tally[EDIT]
    while e < walk[END, 0]:
        stored = False
        if at < entries:
            at, stored = follow(words, page, keys, rows, first, e, at, ends)
        exists = new_values(
            words, page, at, stored, keys, values, actions[e], rows, e, record, tally
        )
        if tally[STATUS] != OK:
            return
        if stored != exists or (stored and differs(words, page, at, record, keys, columns)):
            copy_run(words, columns, copied, at, buffer, walk, 0)
            copied = at
            shown = stored != exists or differs(words, page, at, record, keys, visible)
            if stored:
                copied += 1
                if shown:
                    report(ERASE, words, page, at, columns, delta, tally)
            if exists:
                size = walk[SIZE, 0]
                for c in range(columns):
                    buffer[c, size] = record[c]
                if shown:
                    report_buffer(INSERT, buffer, size, columns, delta, tally)
                walk[SIZE, 0] = size + 1
            tally[GAIN] += int(exists) - int(stored)
            walk[CHANGED, 0] = 1
        e += 1
    tally[EDIT] = e
    if walk[CHANGED, 0]:
        copy_run(words, columns, copied, entries, buffer, walk, 0)


@kernel
def report(action, words, page, slot, columns, delta, tally):
    """Append a stored record to the effective delta."""
    d = tally[DELTA]
    delta.actions[d] = action
    for c in range(columns):
        delta.rows[c, d] = field(words, page, c, slot)
    tally[DELTA] = d + 1


@kernel
def report_buffer(
    action: int, buffer: Table, slot: int, columns: int, delta: Changes, tally: Words
):
    """Append a record of a buffer to the effective delta."""
    d = tally[DELTA]
    delta.actions[d] = action
    for c in range(columns):
        delta.rows[c, d] = buffer[c, slot]
    tally[DELTA] = d + 1


@kernel
def new_values(words, page, slot, stored, keys, values, action, edits, e, record, tally):
    """Write the record's values after edit e to `record`; return whether the record then exists."""
    for c in range(keys):
        record[c] = edits[c, e]
    for c in range(keys, keys + values):
        record[c] = edits[c, e]
        if stored and action == INSERT:
            record[c] = field(words, page, c, slot)
        elif stored and action == ADD:
            old = field(words, page, c, slot)
            total = old + edits[c, e]
            if (old ^ total) & (edits[c, e] ^ total) < 0:
                tally[STATUS] = OVERFLOW
                tally[EVIDENCE] = e
            record[c] = total
    if action == ADD:
        support = record[keys + values - 1]
        if support < 0:
            tally[STATUS] = NEGATIVE
            tally[EVIDENCE] = e
        return support > 0
    return action != ERASE


@kernel
def differs(words: MappedWords, page: int, slot: int, record: Words, lo: int, hi: int):
    """Return whether a stored record differs from another in columns lo to hi."""
    for c in range(lo, hi):
        if field(words, page, c, slot) != record[c]:
            return True
    return False


@kernel
def follow(
    words: MappedWords, page: int, keys: int, edits: Table, first: int, e: int, at: int, ends: Words
):
    """Return the first entry from `at` on that is not below the key of edit e, and whether it
    equals it.

    `ends` are the ends of the runs that share the first 1, 2, ... columns with the key of the edit
    before: only columns from the first that differs are searched. Edit `first` has none before it.
    """
    c = 0
    hi = words[page + ENTRY_COUNT]
    while e > first and edits[c, e] == edits[c, e - 1]:
        hi = ends[c]
        c += 1
    while c < keys:
        x = edits[c, e]
        at = lower(words, page, c, at, hi, x)
        if at == hi or field(words, page, c, at) != x:
            ends[c:keys] = at
            return at, False
        hi = run_end(words, page, c, at, hi, x)
        ends[c] = hi
        c += 1
    return at, True
