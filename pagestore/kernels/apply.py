"""Apply a sorted batch of edits to a tree: one descent, fresh pages only where something changed.

The walk keeps, for every level, the node it is in and a buffer of the entries its successor will
have: new ones decoded, and runs of the old node's that are only noted.  A leaf's edits are merged into
the buffer of level 0; children without edits go on as runs, so their subtrees stay shared.  Most
successors are then made from the old page by shifting bits (shift.py).  Else the runs are decoded; a
buffer too large for a page is cut into several, one too small takes in its next sibling, or its
previous one.  The entries of the pages written go to the buffer above.
"""

from pagestore.kernels.build import (
    ENDS,
    KEY,
    RECORD,
    anchor,
    births_at,
    body_words,
    cuts,
    emit,
    entry_columns,
    hand_up,
    words_needed,
)
from pagestore.kernels.enter import child, enter
from pagestore.kernels.kernel import kernel
from pagestore.kernels.machine import LINE, prefetch
from pagestore.kernels.page import (
    birth_at,
    child_slot,
    columns_of,
    field,
    folds_of,
    lower,
    records_max,
    run_end,
    unpack,
)
from pagestore.kernels.scantree import SHIFTED
from pagestore.kernels.shift import shift_page
from pagestore.layout import BIRTH, COUNT, HEIGHT_MAX, ID, pointer_to

INSERT, ERASE, SET, ADD = range(4)  # the paper's update-actions

# status of a run; one for which there are too few pages, or too few rows of a dead list, does not begin
OK, CORRUPT, NEGATIVE, OVERFLOW, SHORT = range(5)

# rows of `walk`, one column per level
# RUNS: runs of entries copied so far from this one page to its one successor; -1 when there are others
# AHEAD: the entry that the edit number AHEAD_EDIT goes below, which was looked up before its turn; -1 for none was
PAGE, PAGE_ID, ENTRIES, SLOT, END, SIZE, CHANGED, RUNS, AHEAD, AHEAD_EDIT, ROWS = range(11)

# words of `tally`
STATUS, EVIDENCE, USED, DEAD, DELTA, EDIT, GAIN, ROOT, HEIGHT, WRITTEN, WORDS = range(11)


# stages of a run: the entries of the root below the root, then the root and what comes above it
BELOW, ROOT_ON = 1, 2
WHOLE = BELOW | ROOT_ON
ALL = (1 << 63) - 1  # behind the last entry of any root
SAMPLES = 64  # places in the root where a part of a batch may end


def reserve_of(height, n, columns, page_words):
    """Pages that a batch of n edits needs at most, behind those that it may fill, to leave a tree whole."""
    return 3 * (height + 2) + 2 * n * (columns + 1) // page_words


reserved = kernel(reserve_of)
pointer = kernel(pointer_to)


@kernel
def apply_edits(
    words, seen, page_words, root, height, keys, values, scans, actions, edits, visible, stages, first, last,
    arena, ids, birth, tree_id, reserve, node, dead, delta_actions, delta, walk, tally, work,
):  # fmt: skip
    """Run the batch; `tally` comes back with status, the pointer to the new root, its height, and what was used.

    Stops early (tally[EDIT] < len(actions)) when arena or dead list run low: the tree is whole then,
    and the caller goes on with the rest.

    Of a large batch, several runs side by side may each take the edits BELOW the entries first to last of the root;
    one of them, to which `adopt` adds what the others came to, goes on with ROOT_ON.
    """
    shape = (keys, values, birth, tree_id)
    top = max(height, 1) - 1
    if stages & BELOW:
        tally[:] = 0
        walk[:, :] = 0
        walk[END, top] = actions.shape[0]
        if height > 0:
            page = enter(words, seen, page_words, root, top, read_columns(keys, values, scans, top))
            if not take_in(words, page, scans, top, walk, tally):
                return
        walk[SLOT, top] = first
        walk[ENTRIES, top] = min(last, walk[ENTRIES, top])
        go_below(
            words, seen, page_words, shape, scans, top, actions, edits, visible, arena, ids, reserve,
            node, dead, delta_actions, delta, walk, tally, work,
        )  # fmt: skip
    if stages & ROOT_ON and tally[STATUS] == OK:
        finish(words, seen, page_words, shape, scans, top, top, edits, arena, ids, node, dead, walk, tally, work)
        grow(words, seen, page_words, root, shape, scans, top, arena, ids, node, dead, walk, tally, work)


@kernel
def go_below(
    words, seen, page_words, shape, scans, top, actions, edits, visible, arena, ids, reserve,
    node, dead, delta_actions, delta, walk, tally, work,
):  # fmt: skip
    """Take the edits down, up to where the root's new entries are complete."""
    keys, values = shape[0], shape[1]
    level = top
    while top == 0 or level < top or walk[SLOT, top] < walk[ENTRIES, top]:
        if level == 0:
            merge_leaf(words, keys, values, actions, edits, visible, node, delta_actions, delta, walk, tally)
            if tally[STATUS] != OK or top == 0:
                return
        elif walk[SLOT, level] < walk[ENTRIES, level]:
            stop_if_short(ids, dead, reserve, walk, tally)
            if descend(words, seen, page_words, shape, scans, edits, level, node, walk, tally):
                level -= 1
            if tally[STATUS] != OK:
                return
            continue
        stop_if_short(ids, dead, reserve, walk, tally)
        level = finish(
            words, seen, page_words, shape, scans, level, top, edits, arena, ids, node, dead, walk, tally, work
        )
        if tally[STATUS] != OK:
            return


@kernel
def adopt(words, keys, folds, top, node, walk, other_node, other_walk):
    """Append the root's entries of the run to the right to those of this one. Their pages must have been written."""
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
def cut_edits(words, seen, page_words, root, level, keys, edits, page_edits, cuts):
    """Cut a batch where entries of the root begin, into parts of about as much work.

    Fills cuts[2, P + 1] with the entry and the edit that each part begins at, and their ends; returns how many parts
    that makes, at most P, or ``-page_id``. An entry with edits below takes as long as `page_edits` of them.
    """
    page = enter(words, seen, page_words, root, level, keys + 1)
    if page < 0:
        return page
    wanted, n, entries = cuts.shape[1] - 1, edits.shape[1], words[page + COUNT]
    step = 1 + entries // (SAMPLES * wanted)
    parts, total = 1, 0
    cuts[:, 0] = 0
    for measured in range(2):
        work = e = 0
        for slot in range(step, entries + step, step):
            end = first_not_below(words, page, slot, keys, edits, e, n) if slot < entries and e < n else n
            work += end - e + page_edits * min(end - e, step)
            e = end
            if measured and parts < wanted and wanted * work >= parts * total and cuts[1, parts - 1] < e < n:
                cuts[0, parts], cuts[1, parts] = slot, e
                parts += 1
        total = work
    cuts[0, parts], cuts[1, parts] = entries, n
    return parts


@kernel
def stop_if_short(ids, dead, reserve, walk, tally):
    """Take no more edits once arena or dead list hold no more than what finishing needs."""
    if tally[USED] + reserve > ids.shape[0] or tally[DEAD] + reserve > dead.shape[0]:
        walk[END, :] = tally[EDIT]


@kernel
def read_columns(keys, values, scans, level):
    """How many columns of a page are read; its children's births it may lack."""
    return keys + values if level == 0 else keys + 1 + scans.shape[0]


@kernel
def take_in(words, page, scans, level, walk, tally):
    """Make a page that was entered the current node of its level; False, and the tally says why, where it is none."""
    if page > 0 and folds_of(words, page) != scans.shape[0]:
        page = -words[page + ID]
    if page < 0:
        refuse(-page, tally)
        return False
    walk[PAGE, level] = page
    walk[PAGE_ID, level] = words[page + ID]
    walk[ENTRIES, level] = words[page + COUNT]
    walk[SLOT, level] = 0
    walk[CHANGED, level] = walk[SIZE, level] > 0
    walk[RUNS, level] = -1 if walk[SIZE, level] > 0 else 0
    walk[AHEAD_EDIT, level] = -1
    return True


@kernel
def key_below(words, page, slot, keys, edits, e):
    """Is the key of edit e below the separator at `slot`?"""
    for c in range(keys):
        separator = field(words, page, c, slot)
        if edits[c, e] != separator:
            return edits[c, e] < separator
    return False


@kernel
def edits_below(words, page, slot, keys, edits, lo, hi):
    """First edit in [lo, hi) that is not below the separator at `slot`; gallops."""
    step = 1
    while lo + step < hi and key_below(words, page, slot, keys, edits, lo + step):
        lo += step
        step <<= 1
    hi = min(hi, lo + step)
    lo += 1
    while lo < hi:
        middle = (lo + hi) >> 1
        if key_below(words, page, slot, keys, edits, middle):
            lo = middle + 1
        else:
            hi = middle
    return lo


@kernel
def copy_run(words, columns, lo, hi, buffer, walk, level):
    """Append entries lo..hi of the current page of a level to its buffer.

    They are noted as a run and stay encoded, unless entries of another page are in the buffer as well.
    """
    at = walk[SIZE, level]
    walk[SIZE, level] = at + hi - lo
    r = walk[RUNS, level]
    row = columns + 1
    if lo >= hi:
        return
    if r < 0:
        decode(words, walk[PAGE, level], columns, lo, hi, buffer, at)
    elif r > 0 and buffer[row + 1, r - 1] == lo and buffer[row + 2, r - 1] + lo - buffer[row, r - 1] == at:
        buffer[row + 1, r - 1] = hi
    else:
        buffer[row, r] = lo
        buffer[row + 1, r] = hi
        buffer[row + 2, r] = at
        walk[RUNS, level] = r + 1


@kernel
def decode(words, page, columns, lo, hi, buffer, at):
    """Decode entries lo..hi of a page into a buffer; they are not fresh (the row behind the columns).

    Children of a page of format 1 have births that nobody knows.
    """
    there = min(columns, columns_of(words, page))
    for c in range(there):
        unpack(words, page, c, lo, hi, buffer[c], at)
    for c in range(there, columns):
        buffer[c, at : at + hi - lo] = 0
    for i in range(at, at + hi - lo):
        buffer[columns, i] = 0


@kernel
def decode_noted(words, columns, buffer, walk, level):
    """Decode the runs noted for a level, so that its buffer holds all of its entries."""
    row = columns + 1
    for r in range(walk[RUNS, level]):
        decode(words, walk[PAGE, level], columns, buffer[row, r], buffer[row + 1, r], buffer, buffer[row + 2, r])


@kernel
def descend(words, seen, page_words, shape, scans, edits, level, node, walk, tally):
    """Copy the children without edits, take in the next one with edits; False if there is none."""
    keys, values = shape[0], shape[1]
    page, slot, entries = walk[PAGE, level], walk[SLOT, level], walk[ENTRIES, level]
    columns = entry_columns(keys, 0, scans.shape[0], level)
    e = tally[EDIT]
    end = walk[END, level]
    target = entries
    if e < end:
        target = child_of(words, page, keys, edits, e, slot, level, node, walk)
    copy_run(words, columns, slot, target, node[level], walk, level)
    walk[SLOT, level] = target
    if target == entries:
        return False
    if target + 1 < entries:
        end = edits_below(words, page, target + 1, keys, edits, e, end)
    walk[SLOT, level] = target + 1
    walk[END, level - 1] = end
    if level == 1 and end < walk[END, level]:
        walk[AHEAD, level] = child_of(words, page, keys, edits, end, target + 1, level, node, walk)
        walk[AHEAD_EDIT, level] = end
        ahead = field(words, page, keys, walk[AHEAD, level]) * page_words
        for i in range(ahead, ahead + page_words, LINE):
            prefetch(words, i)
    below = child(words, seen, page_words, page, keys, target, level - 1, read_columns(keys, values, scans, level - 1))
    return take_in(words, below, scans, level - 1, walk, tally)


@kernel
def child_of(words, page, keys, edits, e, slot, level, node, walk):
    """The entry, from `slot` on, that edit e goes below."""
    if walk[AHEAD_EDIT, level] == e:
        return walk[AHEAD, level]
    spare = node[-1]
    key = spare[KEY]
    for c in range(keys):
        key[c] = edits[c, e]
    return child_slot(words, page, key, keys, keys, slot)


@kernel
def report(action, words, page, slot, columns, delta_actions, delta, tally):
    """Append a stored record to the effective delta."""
    d = tally[DELTA]
    delta_actions[d] = action
    for c in range(columns):
        delta[c, d] = field(words, page, c, slot)
    tally[DELTA] = d + 1


@kernel
def report_buffer(action, buffer, slot, columns, delta_actions, delta, tally):
    """Append a record of a buffer to the effective delta."""
    d = tally[DELTA]
    delta_actions[d] = action
    for c in range(columns):
        delta[c, d] = buffer[c, slot]
    tally[DELTA] = d + 1


@kernel
def new_values(words, page, slot, stored, keys, values, action, edits, e, record, tally):
    """Values the record has after edit e, in `record`; returns whether the record exists then."""
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
def differs(words, page, slot, record, lo, hi):
    for c in range(lo, hi):
        if field(words, page, c, slot) != record[c]:
            return True
    return False


@kernel
def merge_leaf(words, keys, values, actions, edits, visible, node, delta_actions, delta, walk, tally):
    """Append the current leaf, with its edits done, to the buffer of level 0.

    Records between two effective edits move as column runs.  A leaf whose edits change nothing moves
    nothing (unless records carried over from its neighbour wait in the buffer).
    """
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
            at, stored = follow(words, page, keys, edits, first, e, at, ends)
        exists = new_values(words, page, at, stored, keys, values, actions[e], edits, e, record, tally)
        if tally[STATUS] != OK:
            return
        if stored != exists or (stored and differs(words, page, at, record, keys, columns)):
            copy_run(words, columns, copied, at, buffer, walk, 0)
            copied = at
            shown = stored != exists or differs(words, page, at, record, keys, visible)
            if stored:
                copied += 1
                if shown:
                    report(ERASE, words, page, at, columns, delta_actions, delta, tally)
            if exists:
                size = walk[SIZE, 0]
                for c in range(columns):
                    buffer[c, size] = record[c]
                if shown:
                    report_buffer(INSERT, buffer, size, columns, delta_actions, delta, tally)
                walk[SIZE, 0] = size + 1
            tally[GAIN] += int(exists) - int(stored)
            walk[CHANGED, 0] = 1
        e += 1
    tally[EDIT] = e
    if walk[CHANGED, 0]:
        copy_run(words, columns, copied, entries, buffer, walk, 0)


@kernel
def follow(words, page, keys, edits, first, e, at, ends):
    """First entry from `at` on that is not below the key of edit e, and whether it equals it.

    `ends` holds where the runs end that share the first 1, 2, ... columns with the key of the edit before: only
    columns from the first that differs are searched. Edit `first` has none before it.
    """
    c = 0
    hi = words[page + COUNT]
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


@kernel
def refuse(page_id, tally):
    """Stop at a page that is not what it should be."""
    tally[STATUS] = CORRUPT
    tally[EVIDENCE] = page_id


@kernel
def drop(page_id, born, dead, tally):
    """Note that the tree does without a page from now on, and which version made it.

    There is room for what a tree with pages of the right size may need.
    """
    if tally[DEAD] == dead.shape[0]:
        refuse(page_id, tally)
        return
    dead[tally[DEAD], 0] = page_id
    dead[tally[DEAD], 1] = born
    tally[DEAD] += 1


@kernel
def finish(words, seen, page_words, shape, scans, level, top, edits, arena, ids, node, dead, walk, tally, work):
    """The current node of a level is consumed: write its successor, or first take in a sibling.

    Returns the level to go on with.
    """
    keys, values = shape[0], shape[1]
    parent = level + 1
    if not walk[CHANGED, level]:
        walk[SIZE, level] = 0
        if level < top:
            slot = walk[SLOT, parent] - 1
            columns = entry_columns(keys, values, scans.shape[0], parent)
            copy_run(words, columns, slot, slot + 1, node[parent], walk, parent)
        return parent
    if level < top:
        walk[CHANGED, parent] = 1
    if walk[ENTRIES, level]:
        drop(walk[PAGE_ID, level], words[walk[PAGE, level] + BIRTH], dead, tally)
        if shift_out(words, page_words, shape, scans, level, top, arena, ids, node, walk, tally, work):
            return parent
        decode_noted(words, entry_columns(keys, values, scans.shape[0], level), node[level], walk, level)
    if level < top and underfull(page_words, keys, values, scans, level, node[level], walk[SIZE, level]):
        slot = walk[SLOT, parent]
        if slot < walk[ENTRIES, parent]:
            end = walk[END, parent]
            if tally[EDIT] < end and slot + 1 < walk[ENTRIES, parent]:
                end = first_not_below(words, walk[PAGE, parent], slot + 1, keys, edits, tally[EDIT], end)
            walk[SLOT, parent] = slot + 1
            walk[END, level] = end
            wanted = read_columns(keys, values, scans, level)
            take_in(
                words, child(words, seen, page_words, walk[PAGE, parent], keys, slot, level, wanted), scans, level,
                walk, tally,
            )  # fmt: skip
            walk[CHANGED, level] = 1
            return level
        if walk[SIZE, parent] > 0:
            pull_back(words, seen, page_words, shape, scans, level, arena, node, dead, walk, tally)
            if tally[STATUS] != OK:
                return level
    write_out(words, page_words, shape, scans, level, arena, ids, node, walk, tally, work)
    return parent


@kernel
def first_not_below(words, page, slot, keys, edits, lo, hi):
    if not key_below(words, page, slot, keys, edits, lo):
        return lo
    return edits_below(words, page, slot, keys, edits, lo, hi)


@kernel
def underfull(page_words, keys, values, scans, level, buffer, size):
    """Would the buffer fill less than a third of a page, by words and by entries?"""
    if size == 0:
        return True
    columns = entry_columns(keys, values, scans.shape[0], level)
    room = body_words(page_words, columns, scans, level)
    least = least_words(page_words, room, size)
    return size <= room and least > 0 and words_needed(buffer, columns, scans, level, 0, size) < least


@kernel
def least_words(page_words, room, size):
    """Words that so many entries must take to make a page with siblings: a third of the room, 0 if they are many."""
    return 0 if 3 * size >= records_max(page_words) else (room + 2) // 3


@kernel
def shift_out(words, page_words, shape, scans, level, top, arena, ids, node, walk, tally, work):
    """Write the successor of the current page by shifting its bits, if that is possible (see shift.py)."""
    keys, values, birth, _ = shape
    runs, n = walk[RUNS, level], walk[SIZE, level]
    if runs <= 0 or tally[USED] == ids.shape[0]:
        return False
    columns = entry_columns(keys, values, scans.shape[0], level)
    room = body_words(page_words, columns, scans, level)
    least = least_words(page_words, room, n) if level < top else 0
    used = tally[USED]
    if not shift_page(
        words, walk[PAGE, level], node[level], columns, anchor(columns, scans.shape[0], level), columns + 1, runs, n,
        least, room, arena, used * page_words, page_words, ids[used], birth,
    ):  # fmt: skip
        return False
    above, at = node[level + 1], walk[SIZE, level + 1]
    hand_up(
        arena, used, page_words, ids[used], level, keys, columns, scans, node[level], 0, n, False, above, at,
        words, walk[PAGE, level], runs, work,
    )  # fmt: skip
    arrived(scans, keys, level, above, walk, tally)
    walk[SIZE, level] = 0
    work[SHIFTED] += 1
    return True


@kernel
def arrived(scans, keys, level, above, walk, tally):
    """One page of a level is in the arena, and its entry in the buffer above."""
    at = walk[SIZE, level + 1]
    tally[USED] += 1
    above[entry_columns(keys, 0, scans.shape[0], level + 1), at] = tally[USED]
    walk[SIZE, level + 1] = at + 1


@kernel
def pull_back(words, seen, page_words, shape, scans, level, arena, node, dead, walk, tally):
    """Put the entries of the previous sibling, already in the parent's buffer, before our own."""
    keys, values, birth, _ = shape
    above, width = node[level + 1], entry_columns(keys, values, scans.shape[0], level + 1)
    decode_noted(words, width, above, walk, level + 1)
    last = walk[SIZE, level + 1] - 1
    page_id, fresh = above[keys, last], above[width, last]
    columns = entry_columns(keys, values, scans.shape[0], level)
    walk[SIZE, level + 1] = last
    walk[RUNS, level] = walk[RUNS, level + 1] = -1
    if fresh:
        walk[SIZE, level] = prepend(arena, (fresh - 1) * page_words, columns, node[level], walk[SIZE, level])
        if fresh == tally[USED]:
            tally[USED] -= 1
        else:
            drop(page_id, birth, dead, tally)
        return
    there = pointer(page_id, 0, birth_in(above, keys, scans, last))
    page = enter(words, seen, page_words, there, level, read_columns(keys, values, scans, level))
    if page < 0 or folds_of(words, page) != scans.shape[0]:
        refuse(page_id, tally)
        return
    walk[SIZE, level] = prepend(words, page, columns, node[level], walk[SIZE, level])
    drop(page_id, words[page + BIRTH], dead, tally)


@kernel
def prepend(source, page, columns, buffer, size):
    """Move the buffer's entries up and decode a page before them; returns the new size."""
    count = source[page + COUNT]
    for c in range(columns + 1):  # the row behind the columns says which children are fresh
        for i in range(size - 1, -1, -1):
            buffer[c, i + count] = buffer[c, i]
    decode(source, page, columns, 0, count, buffer, 0)
    return size + count


@kernel
def write_out(words, page_words, shape, scans, level, arena, ids, node, walk, tally, work):
    """Cut the buffer of a level into pages and append their entries to the buffer above."""
    keys, values, birth, tree_id = shape
    columns = entry_columns(keys, values, scans.shape[0], level)
    n = walk[SIZE, level]
    lo = 0
    above, spare = node[level + 1], node[-1]
    ends = spare[ENDS]
    pieces = cuts(node[level], columns, n, page_words, scans, level, spare)
    if tally[USED] + pieces > ids.shape[0]:
        refuse(walk[PAGE_ID, level], tally)
        return
    alone = pieces == 1 and walk[RUNS, level] > 0
    for p in range(pieces):
        at = walk[SIZE, level + 1]
        emit(
            arena, tally[USED], page_words, ids, birth, tree_id, level, keys, values, scans,
            node[level], lo, ends[p], above, at,
            words, walk[PAGE, level] if alone else -1, walk[RUNS, level], work,
        )  # fmt: skip
        arrived(scans, keys, level, above, walk, tally)
        lo = ends[p]
    walk[SIZE, level] = 0


@kernel
def grow(words, seen, page_words, root, shape, scans, top, arena, ids, node, dead, walk, tally, work):
    """Entries above the old root become the new root: none, one, or levels until one is left."""
    keys = shape[0]
    tally[ROOT] = root
    tally[HEIGHT] = top + 1 if root else 0
    if not walk[CHANGED, top]:
        return
    level = top + 1
    while walk[SIZE, level] > 1:
        write_out(words, page_words, shape, scans, level, arena, ids, node, walk, tally, work)
        level += 1
    if walk[SIZE, level] == 0:
        tally[ROOT] = 0
        tally[HEIGHT] = 0
        return
    page_id, known = node[level, keys, 0], birth_in(node[level], keys, scans, 0)
    while level > 1:  # an index page with one child is no root
        fresh = slot_of(page_id, ids, tally[USED])
        born = shape[2]
        if fresh:
            below, its_birth = only_child(arena, (fresh - 1) * page_words, keys)
        else:
            page = enter(words, seen, page_words, pointer(page_id, 0, known), level - 1, keys + 1)
            if page < 0:
                refuse(page_id, tally)
                return
            below, its_birth = only_child(words, page, keys)
            born = words[page + BIRTH]
        if below == 0:
            break
        drop(page_id, born, dead, tally)
        page_id, known = below, its_birth
        level -= 1
    if level > HEIGHT_MAX:
        refuse(page_id, tally)
    tally[ROOT] = pointer(page_id, keys + shape[1], known)
    tally[HEIGHT] = level


@kernel
def only_child(source, page, keys):
    """The child of an index page that has just one, else 0, and its birth."""
    if source[page + COUNT] > 1:
        return 0, 0
    return field(source, page, keys, 0), birth_at(source, page, keys, 0)


@kernel
def birth_in(buffer, keys, scans, i):
    """The birth of the child of entry i of a buffer; 0 where it is not known."""
    births = births_at(keys, scans.shape[0])
    return buffer[births, i] if births >= 0 else 0


@kernel
def slot_of(page_id, ids, used):
    """1 + the arena slot of a fresh page, 0 for a page of the map."""
    for s in range(used):
        if ids[s] == page_id:
            return s + 1
    return 0
