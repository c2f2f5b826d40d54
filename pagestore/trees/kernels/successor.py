"""The successor of a page whose edits are done: shifted, cut into several, or joined with a
sibling.

    [a b c d]  +  x after b    ──▶  [a b x c d]             bits shifted, the page's runs stay encoded
    [a b c d]  +  many          ──▶  [a x y] [b z c d]       decoded, and cut evenly
    [a]        -  b c d         ──▶  [a | e f g]             too small: it takes in the next sibling

The entry of each page written goes to the node buffer above. What remains above the old root
becomes the new root.
"""

from pagestore.pages.build import (
    ENDS,
    anchor,
    body_words,
    cuts,
    emit,
    entry_columns,
    hand_up,
    shift_page,
    words_needed,
)
from pagestore.pages.layout import (
    BIRTH,
    ENTRY_COUNT,
    HEIGHT_MAX,
    ID,
    Entries,
    FreshPage,
    Kept,
    Pages,
    ParentEntry,
    Shape,
)
from pagestore.pages.page import birth_at, field, folds_of, records_max
from pagestore.pages.scan_tree import SHIFTED
from pagestore.pages.verify import child, enter
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import MappedWords, Table, Words
from pagestore.trees.kernels.arguments import Edits, Output, Run
from pagestore.trees.kernels.node_buffer import (
    AHEAD_EDIT,
    CHANGED,
    DEAD,
    EDIT,
    END,
    ENTRIES,
    NEW_HEIGHT,
    NEW_ROOT,
    OK,
    PAGE,
    PAGE_ID,
    RUNS,
    SIZE,
    SLOT,
    STATUS,
    USED,
    birth_in,
    copy_run,
    decode_noted,
    pointer,
    prepend,
    read_columns,
    refuse,
)


@kernel
def take_in(words: MappedWords, page: int, scans: Table, level: int, walk: Table, tally: Words):
    """Make an entered page the current node of its level; return False, and say so in the tally,
    if it is corrupt.
    """
    if page > 0 and folds_of(words, page) != scans.shape[0]:
        page = -words[page + ID]
    if page < 0:
        refuse(-page, tally)
        return False
    walk[PAGE, level] = page
    walk[PAGE_ID, level] = words[page + ID]
    walk[ENTRIES, level] = words[page + ENTRY_COUNT]
    walk[SLOT, level] = 0
    walk[CHANGED, level] = walk[SIZE, level] > 0
    walk[RUNS, level] = -1 if walk[SIZE, level] > 0 else 0
    walk[AHEAD_EDIT, level] = -1
    return True


@kernel
def key_below(words: MappedWords, page: int, slot: int, keys: int, edits: Table, e: int):
    """Return whether the key of edit e is below the separator at `slot`."""
    for c in range(keys):
        separator = field(words, page, c, slot)
        if edits[c, e] != separator:
            return edits[c, e] < separator
    return False


@kernel
def edits_below(
    words: MappedWords, page: int, slot: int, keys: int, edits: Table, lo: int, hi: int
):
    """Return the first edit in [lo, hi) that is not below the separator at `slot`; gallops."""
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
def drop(page_id: int, born: int, dead: Table, tally: Words):
    """Add a page and its birth to the list of replaced pages.

    There is room for as many as a tree with pages of the right size may need.
    """
    if tally[DEAD] == dead.shape[0]:
        refuse(page_id, tally)
        return
    dead[tally[DEAD], 0] = page_id
    dead[tally[DEAD], 1] = born
    tally[DEAD] += 1


@kernel
def finish(
    pages: Pages, shape: Shape, level: int, top: int, edits: Edits, output: Output, run: Run
):
    """Finish the consumed node of a level: write its successor, or first take in a sibling.

    Returns the level to continue with.
    """
    words, node, walk, tally = pages.words, run.node, run.walk, run.tally
    keys, values, folds = shape.keys, shape.values, shape.scans.shape[0]
    parent = level + 1
    if not walk[CHANGED, level]:
        walk[SIZE, level] = 0
        if level < top:
            slot = walk[SLOT, parent] - 1
            copy_run(
                words,
                entry_columns(keys, values, folds, parent),
                slot,
                slot + 1,
                node[parent],
                walk,
                parent,
            )
        return parent
    if level < top:
        walk[CHANGED, parent] = 1
    if walk[ENTRIES, level]:
        drop(walk[PAGE_ID, level], words[walk[PAGE, level] + BIRTH], output.dead, tally)
        if shift_out(pages, shape, level, top, output, run):
            return parent
        decode_noted(words, entry_columns(keys, values, folds, level), node[level], walk, level)
    if level < top and underfull(pages.page_words, shape, level, node[level], walk[SIZE, level]):
        slot = walk[SLOT, parent]
        if slot < walk[ENTRIES, parent]:
            end = walk[END, parent]
            if tally[EDIT] < end and slot + 1 < walk[ENTRIES, parent]:
                end = first_not_below(
                    words, walk[PAGE, parent], slot + 1, keys, edits.rows, tally[EDIT], end
                )
            walk[SLOT, parent] = slot + 1
            walk[END, level] = end
            sibling = child(
                pages, walk[PAGE, parent], keys, slot, level, read_columns(shape, level)
            )
            take_in(words, sibling, shape.scans, level, walk, tally)
            walk[CHANGED, level] = 1
            return level
        if walk[SIZE, parent] > 0:
            pull_back(pages, shape, level, output, run)
            if tally[STATUS] != OK:
                return level
    write_out(pages, shape, level, output, run)
    return parent


@kernel
def first_not_below(
    words: MappedWords, page: int, slot: int, keys: int, edits: Table, lo: int, hi: int
):
    """Return the first edit in [lo, hi) that is not below the separator at `slot`; edit lo need
    not be below it.
    """
    if not key_below(words, page, slot, keys, edits, lo):
        return lo
    return edits_below(words, page, slot, keys, edits, lo, hi)


@kernel
def underfull(page_words: int, shape: Shape, level: int, buffer: Table, size: int):
    """Return whether the buffer would fill less than a third of a page, by words and by entries."""
    if size == 0:
        return True
    scans = shape.scans
    columns = entry_columns(shape.keys, shape.values, scans.shape[0], level)
    room = body_words(page_words, columns, scans, level)
    least = least_words(page_words, room, size)
    return (
        size <= room and least > 0 and words_needed(buffer, columns, scans, level, 0, size) < least
    )


@kernel
def least_words(page_words: int, room: int, size: int):
    """Return the least words for `size` entries to make a page with siblings: a third of the
    room, 0 for many.
    """
    return 0 if 3 * size >= records_max(page_words) else (room + 2) // 3


@kernel
def shift_out(pages: Pages, shape: Shape, level: int, top: int, output: Output, run: Run):
    """Write the successor of the current page by shifting its bits, if that is possible (see
    pages/build.py).
    """
    node = run.node
    walk = run.walk
    tally = run.tally
    page_words = pages.page_words
    folds = shape.scans.shape[0]
    runs, n = walk[RUNS, level], walk[SIZE, level]
    if runs <= 0 or tally[USED] == output.ids.shape[0]:
        return False
    columns = entry_columns(shape.keys, shape.values, folds, level)
    room = body_words(page_words, columns, shape.scans, level)
    least = least_words(page_words, room, n) if level < top else 0
    kept, entries = Kept(walk[PAGE, level], columns + 1, runs), Entries(node[level], 0, n)
    fresh = next_page(page_words, output, tally)
    if not shift_page(
        pages.words, kept, entries, columns, anchor(columns, folds, level), least, room, fresh
    ):
        return False
    parent = ParentEntry(node[level + 1], walk[SIZE, level + 1])
    hand_up(fresh, shape, level, entries, False, parent, pages.words, kept, run.work)
    arrived(shape, level, parent.node, walk, tally)
    walk[SIZE, level] = 0
    run.work[SHIFTED] += 1
    return True


@kernel
def next_page(page_words: int, output: Output, tally: Words):
    """Return the next page that a run makes."""
    used = tally[USED]
    return FreshPage(output.arena, used * page_words, page_words, output.ids[used], output.birth)


@kernel
def arrived(shape: Shape, level: int, above: Table, walk: Table, tally: Words):
    """Count a page of a level that is in the arena, and its entry in the buffer above."""
    at = walk[SIZE, level + 1]
    tally[USED] += 1
    above[entry_columns(shape.keys, 0, shape.scans.shape[0], level + 1), at] = tally[USED]
    walk[SIZE, level + 1] = at + 1


@kernel
def pull_back(pages: Pages, shape: Shape, level: int, output: Output, run: Run):
    """Put the entries of the previous sibling, already in the parent's buffer, before the node's
    own.
    """
    words, page_words, node = pages.words, pages.page_words, run.node
    walk, tally = run.walk, run.tally
    keys, values, scans = shape.keys, shape.values, shape.scans
    above, width = node[level + 1], entry_columns(keys, values, scans.shape[0], level + 1)
    decode_noted(words, width, above, walk, level + 1)
    last = walk[SIZE, level + 1] - 1
    page_id, fresh = above[keys, last], above[width, last]
    columns = entry_columns(keys, values, scans.shape[0], level)
    walk[SIZE, level + 1] = last
    walk[RUNS, level] = walk[RUNS, level + 1] = -1
    if fresh:
        walk[SIZE, level] = prepend(
            output.arena, (fresh - 1) * page_words, columns, node[level], walk[SIZE, level]
        )
        if fresh == tally[USED]:
            tally[USED] -= 1
        else:
            drop(page_id, output.birth, output.dead, tally)
        return
    there = pointer(page_id, 0, birth_in(above, keys, scans, last))
    page = enter(pages, there, level, read_columns(shape, level))
    if page < 0 or folds_of(words, page) != scans.shape[0]:
        refuse(page_id, tally)
        return
    walk[SIZE, level] = prepend(words, page, columns, node[level], walk[SIZE, level])
    drop(page_id, words[page + BIRTH], output.dead, tally)


@kernel
def write_out(pages: Pages, shape: Shape, level: int, output: Output, run: Run):
    """Cut the buffer of a level into pages and append their entries to the buffer above."""
    node, walk, tally = run.node, run.walk, run.tally
    columns = entry_columns(shape.keys, shape.values, shape.scans.shape[0], level)
    n = walk[SIZE, level]
    lo = 0
    above, spare = node[level + 1], node[-1]
    ends = spare[ENDS]
    pieces = cuts(node[level], columns, n, pages.page_words, shape.scans, level, spare)
    if tally[USED] + pieces > output.ids.shape[0]:
        refuse(walk[PAGE_ID, level], tally)
        return
    alone = pieces == 1 and walk[RUNS, level] > 0
    kept = Kept(walk[PAGE, level] if alone else -1, columns + 1, walk[RUNS, level])
    for p in range(pieces):
        entries = Entries(node[level], lo, ends[p])
        parent = ParentEntry(above, walk[SIZE, level + 1])
        fresh = next_page(pages.page_words, output, tally)
        emit(fresh, shape, level, entries, parent, pages.words, kept, run.work)
        arrived(shape, level, above, walk, tally)
        lo = ends[p]
    walk[SIZE, level] = 0


@kernel
def grow(pages: Pages, root: int, shape: Shape, top: int, output: Output, run: Run):
    """Make the new root of the entries above the old root: none, one, or levels until one is
    left.
    """
    words, node, walk, tally, keys = pages.words, run.node, run.walk, run.tally, shape.keys
    tally[NEW_ROOT] = root
    tally[NEW_HEIGHT] = top + 1 if root else 0
    if not walk[CHANGED, top]:
        return
    level = top + 1
    while walk[SIZE, level] > 1:
        write_out(pages, shape, level, output, run)
        level += 1
    if walk[SIZE, level] == 0:
        tally[NEW_ROOT] = 0
        tally[NEW_HEIGHT] = 0
        return
    page_id, known = node[level, keys, 0], birth_in(node[level], keys, shape.scans, 0)
    while level > 1:  # an index page with one child cannot be the root
        fresh = slot_of(page_id, output.ids, tally[USED])
        born = output.birth
        if fresh:
            below, its_birth = only_child(output.arena, (fresh - 1) * pages.page_words, keys)
        else:
            page = enter(pages, pointer(page_id, 0, known), level - 1, keys + 1)
            if page < 0:
                refuse(page_id, tally)
                return
            below, its_birth = only_child(words, page, keys)
            born = words[page + BIRTH]
        if below == 0:
            break
        drop(page_id, born, output.dead, tally)
        page_id, known = below, its_birth
        level -= 1
    if level > HEIGHT_MAX:
        refuse(page_id, tally)
    tally[NEW_ROOT] = pointer(page_id, keys + shape.values, known)
    tally[NEW_HEIGHT] = level


@kernel
def only_child(source: MappedWords | Words, page: int, keys: int):
    """Return the child of an index page that has just one, else 0, and its birth."""
    if source[page + ENTRY_COUNT] > 1:
        return 0, 0
    return field(source, page, keys, 0), birth_at(source, page, keys, 0)


@kernel
def slot_of(page_id: int, ids: Words, used: int):
    """Return 1 + the arena slot of a fresh page, 0 for a page of the map."""
    for s in range(used):
        if ids[s] == page_id:
            return s + 1
    return 0
