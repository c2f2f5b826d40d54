"""TODO: pagestore/trees/kernels/successor.py."""

from pagestore.pages.build import ENDS, anchor, body_words, cuts, emit, entry_columns, hand_up, words_needed
from pagestore.pages.enter import child, enter
from pagestore.pages.layout import BIRTH, COUNT, HEIGHT_MAX, ID
from pagestore.pages.page import birth_at, field, folds_of, records_max
from pagestore.pages.scan_tree import SHIFTED
from pagestore.pages.shift import shift_page
from pagestore.runtime.compiler import kernel
from pagestore.trees.kernels.apply_layout import (
    AHEAD_EDIT,
    CHANGED,
    DEAD,
    EDIT,
    END,
    ENTRIES,
    HEIGHT,
    OK,
    PAGE,
    PAGE_ID,
    ROOT,
    RUNS,
    SIZE,
    SLOT,
    STATUS,
    USED,
)
from pagestore.trees.kernels.node_buffer import birth_in, copy_run, decode_noted, pointer, prepend, read_columns, refuse


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
    """Write the successor of the current page by shifting its bits, if that is possible (see pages/shift.py)."""
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
def slot_of(page_id, ids, used):
    """1 + the arena slot of a fresh page, 0 for a page of the map."""
    for s in range(used):
        if ids[s] == page_id:
            return s + 1
    return 0
