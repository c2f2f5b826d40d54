"""A cursor: a place in a tree, kept as CURSOR_WORDS words of an int64 array from index o on.

    0     1     2          3     4     5     6
    page  slot  entries |  page  slot  page  slot ...      (level 1, level 2, ...)

`page` is the index of a page's first word.  The cursor of an exhausted or empty tree has page -1.
Many cursors share one flat array, because a view costs a kernel more than an index.  Every function
takes the tree as a TreeRef (arguments.py), and returns a negative status for a corrupt page:
``-page_id``.

Find the record at or after a key, or the last one before it, for many keys in one call.

    records   2  5  9  14          at or after 5: 5        before 5: 2        at or after 6: 9        before 2: none

An index entry holds exactly the least key below its child.  So the last record before a key is
below the last entry before the key, at each level.

Read ranges of records, leaf after leaf; list the pages of a tree; count the records with a prefix.

cursor ──▶ leaf 11, slot 3 .. end ──▶ leaf 12 ──▶ ... ──▶ the first key that is not below the upper
bound
"""

import numpy as np

from pagestore.pages.layout import ENTRY_COUNT, HEIGHT_MAX, ID, PAGE_MASK, Pages
from pagestore.pages.page import child_slot, field, locate, unpack
from pagestore.pages.verify import child, columns_at, enter
from pagestore.runtime.intrinsics import borrowed
from pagestore.runtime.kernel import allocating, kernel
from pagestore.runtime.types import Flags, MappedWords, Table, Words
from pagestore.trees.kernels.arguments import TreeRef

LEAF_PAGE, LEAF_SLOT, LEAF_ENTRIES, PATH = range(4)
CURSOR_WORDS = PATH + 2 * (HEIGHT_MAX - 1)
AT_END = -1

# words of a tree in an array
ROOT, HEIGHT, KEYS, VALUES, TREE_ID, TREE_WORDS = range(6)


@kernel
def tree_at(pages: Pages, words: Words, o: int):
    """Return the TreeRef of the tree whose ROOT, HEIGHT and KEYS begin at words[o]."""
    return TreeRef(pages, words[o + ROOT], words[o + HEIGHT], words[o + KEYS])


@kernel
def root_of(tree: TreeRef):
    """Return the first word of the root, verified; or ``-page_id``."""
    level = tree.height - 1
    return enter(tree.pages, tree.root, level, columns_at(tree.root, tree.keys, level))


@kernel
def child_of(tree: TreeRef, page: int, slot: int, level: int):
    """Return the first word of the child at a slot of an index page, which is of `level`,
    verified; or ``-page_id``.
    """
    return child(tree.pages, page, tree.keys, slot, level, columns_at(tree.root, tree.keys, level))


@kernel
def seek(tree: TreeRef, key: Words, m: int, cursors: Words, o: int):
    """Move to the first record whose first m columns are at least ``key[:m]``.

    Returns 1 on a record, 0 at the end, ``-page_id`` for a corrupt page.  O(height * log page).
    """
    cursors[o + LEAF_PAGE] = AT_END
    if tree.height == 0:
        return 0
    return descend(tree, root_of(tree), tree.height - 1, key, m, cursors, o)


@kernel
def descend(tree: TreeRef, page: int, level: int, key: Words, m: int, cursors: Words, o: int):
    """Go down from a page to the lower bound of ``key[:m]``, stepping into the next leaf if need
    be.
    """
    words = tree.pages.words
    while level > 0 and page > 0:
        slot = child_slot(words, page, key, m, tree.keys, 0)
        cursors[o + PATH + 2 * level - 2] = page
        cursors[o + PATH + 2 * level - 1] = slot
        level -= 1
        page = child_of(tree, page, slot, level)
    if page < 0:
        return page
    slot, _ = locate(words, page, key, m, 0)
    cursors[o + LEAF_PAGE] = page
    cursors[o + LEAF_SLOT] = slot
    cursors[o + LEAF_ENTRIES] = words[page + ENTRY_COUNT]
    if slot == words[page + ENTRY_COUNT]:
        return next_leaf(tree, cursors, o)
    return 1


@kernel
def next_leaf(tree: TreeRef, cursors: Words, o: int):
    """Move to the first record of the next leaf; status as for `seek`."""
    level = 1
    while level < tree.height:
        page = cursors[o + PATH + 2 * level - 2]
        slot = cursors[o + PATH + 2 * level - 1] + 1
        if slot < tree.pages.words[page + ENTRY_COUNT]:
            cursors[o + PATH + 2 * level - 1] = slot
            return leftmost(tree, child_of(tree, page, slot, level - 1), level - 1, cursors, o)
        level += 1
    cursors[o + LEAF_PAGE] = AT_END
    return 0


@kernel
def leftmost(tree: TreeRef, page: int, level: int, cursors: Words, o: int):
    """Go down to the first record below a page of the given level."""
    while level > 0 and page > 0:
        cursors[o + PATH + 2 * level - 2] = page
        cursors[o + PATH + 2 * level - 1] = 0
        level -= 1
        page = child_of(tree, page, 0, level)
    if page < 0:
        return page
    cursors[o + LEAF_PAGE] = page
    cursors[o + LEAF_SLOT] = 0
    cursors[o + LEAF_ENTRIES] = tree.pages.words[page + ENTRY_COUNT]
    return 1


@kernel
def first(tree: TreeRef, cursors: Words, o: int):
    """Move to the first record of a tree; status as for `seek`."""
    cursors[o + LEAF_PAGE] = AT_END
    if tree.height == 0:
        return 0
    return leftmost(tree, root_of(tree), tree.height - 1, cursors, o)


@kernel
def forward(tree: TreeRef, key: Words, m: int, cursors: Words, o: int):
    """Move on, beyond the current leaf, to the first record at or after ``key[:m]``; status as for
    `seek`.

    Climbs only as far as needed: O(log of the leaves passed).
    """
    words, height = tree.pages.words, tree.height
    level = 1
    while level < height:
        page = cursors[o + PATH + 2 * level - 2]
        slot = cursors[o + PATH + 2 * level - 1]
        entries = words[page + ENTRY_COUNT]
        if level + 1 == height or above(words, page, entries - 1, key, m):
            break
        level += 1
    if level >= height:
        cursors[o + LEAF_PAGE] = AT_END
        return 0
    slot = child_slot(words, page, key, m, tree.keys, slot)
    cursors[o + PATH + 2 * level - 1] = slot
    return descend(tree, child_of(tree, page, slot, level - 1), level - 1, key, m, cursors, o)


@kernel
def above(words: MappedWords, page: int, slot: int, key: Words, m: int):
    """Return whether the first m columns of the entry's key are above ``key[:m]``."""
    for c in range(m):
        value = field(words, page, c, slot)
        if value != key[c]:
            return value > key[c]
    return False


@kernel
def before(tree: TreeRef, key: Words, m: int):
    """Return (page, slot) of the last record whose first m columns are below ``key[:m]``, or of the
    last one if m is 0.

    (0, 0) for none, (``-page_id``, 0) for a corrupt page.  O(height * log page).
    """
    words, height = tree.pages.words, tree.height
    if height == 0:
        return 0, 0
    page = root_of(tree)
    for level in range(height - 1, -1, -1):
        if page < 0:
            return page, 0
        slot = words[page + ENTRY_COUNT]
        if m:
            slot, _ = locate(words, page, key, m, 0)
        if slot == 0:
            return 0, 0
        if level == 0:
            return page, slot - 1
        page = child_of(tree, page, slot - 1, level - 1)
    return page, 0


@kernel
def borrowed_tree(tree: TreeRef):
    """Return the tree over borrowed arrays."""
    pages = Pages(borrowed(tree.pages.words), borrowed(tree.pages.seen), tree.pages.page_words)
    return TreeRef(pages, tree.root, tree.height, tree.keys)


@allocating
def find_neighbours(
    tree: TreeRef, columns: int, places: Table, backward: int, found: Flags, out: Table
):
    """Find for each of places[m, n] the record at or after it, or if `backward` the one before it:
    found[n], out[C, n].

    Returns 1, or ``-page_id``.  O(n log count).
    """
    tree, places = borrowed_tree(tree), borrowed(places)
    found, out = borrowed(found), borrowed(out)
    cursor = np.empty(CURSOR_WORDS, np.int64)
    m = places.shape[0]
    key = np.empty(m, np.int64)
    for i in range(places.shape[1]):
        for c in range(m):
            key[c] = places[c, i]
        if backward:
            page, slot = before(tree, key, m)
            if page < 0:
                return page
        else:
            status = seek(tree, key, m, cursor, 0)
            if status < 0:
                return status
            page, slot = (cursor[LEAF_PAGE], cursor[LEAF_SLOT]) if status else (0, 0)
        found[i] = page > 0
        if page > 0:
            for c in range(columns):
                out[c, i] = field(tree.pages.words, page, c, slot)
    return 1


@allocating
def count_prefixes(tree: TreeRef, wanted: Table, most: int, counts: Words):
    """Count the records, up to `most`, that start with each of wanted[m, n].  Returns 1, or
    ``-page_id``.

    A prefix in the leaf where the one before it ended is found without a descent, so ascending ones
    are cheap.
    """
    tree, wanted, counts = borrowed_tree(tree), borrowed(wanted), borrowed(counts)
    words = tree.pages.words
    cursor = np.empty(CURSOR_WORDS, np.int64)
    m = wanted.shape[0]
    key = np.empty(m, np.int64)
    status = 0
    for i in range(wanted.shape[1]):
        # the cursor may be among the records of a prefix that was counted up to `most`
        again = i > 0
        for c in range(m):
            again &= key[c] == wanted[c, i]
            key[c] = wanted[c, i]
        counts[i] = counts[i - 1] if again else 0
        if again:
            continue
        page, slot = cursor[LEAF_PAGE], cursor[LEAF_SLOT]
        if status == 1 and not above(words, page, slot, key, m):
            cursor[LEAF_SLOT], _ = locate(words, page, key, m, slot)
            status = int(cursor[LEAF_SLOT] < cursor[LEAF_ENTRIES])
        else:
            status = 0
        if status == 0:
            status = seek(tree, key, m, cursor, 0)
        while status == 1 and counts[i] < most and starts_with(words, cursor, key, m):
            counts[i] += 1
            cursor[LEAF_SLOT] += 1
            if cursor[LEAF_SLOT] == cursor[LEAF_ENTRIES]:
                status = next_leaf(tree, cursor, 0)
        if status < 0:
            return status
    return 1


@kernel
def starts_with(words: MappedWords, cursor: Words, key: Words, m: int):
    for c in range(m):
        if field(words, cursor[LEAF_PAGE], c, cursor[LEAF_SLOT]) != key[c]:
            return False
    return True


@kernel
def read_range(tree: TreeRef, columns: Words, stop: Words, stop_m: int, cursor: Words, out: Table):
    """Decode records from a cursor (see `cursor.seek`) on, up to key ``stop[:stop_m]``, into out[C,
    n].

    Returns how many; fewer than n means the range is done.  A negative number is ``-page_id``.
    """
    words, n = tree.pages.words, 0
    while n < out.shape[1] and cursor[LEAF_PAGE] >= 0:
        page, slot, entries = cursor[LEAF_PAGE], cursor[LEAF_SLOT], cursor[LEAF_ENTRIES]
        end = entries
        if stop_m:
            end, _ = locate(words, page, stop, stop_m, 0)
        take = min(end - slot, out.shape[1] - n)
        if take > 0:
            for c in range(columns.shape[0]):
                unpack(words, page, columns[c], slot, slot + take, out[c], n)
            n += take
            cursor[LEAF_SLOT] = slot + take
        if end < entries and cursor[LEAF_SLOT] >= end:
            cursor[LEAF_PAGE] = -1
        elif cursor[LEAF_SLOT] == entries:
            status = next_leaf(tree, cursor, 0)
            if status < 0:
                return status
    return n


@allocating
def tree_pages(tree: TreeRef, out: Words):
    """Write the page ids of a tree, root first, to `out`; return how many there are (or
    ``-page_id``).

    If `out` is too small the count is still returned, so the caller can grow it.  A tree that has
    more pages than the file reaches some of them twice: then the root's page is reported as bad.
    """
    (words, seen, _), root, height, keys = tree
    # by level: the index page passed through, the slot of its next child
    way = np.empty((height, 2), np.int64)
    n, level, page_id = 0, height - 1, root & PAGE_MASK
    page = enter(tree.pages, root, level, keys + 1) if height > 1 else 0
    while 0 <= level < height:
        if page < 0:
            return page
        if n == seen.shape[0]:
            return -(root & PAGE_MASK)
        if n < out.shape[0]:
            out[n] = page_id
        n += 1
        if level:
            way[level, 0], way[level, 1] = page, 0
        level = max(level, 1)
        while level < height and way[level, 1] == words[way[level, 0] + ENTRY_COUNT]:
            level += 1
        if level < height:
            parent, slot = way[level, 0], way[level, 1]
            page_id = field(words, parent, keys, slot)
            way[level, 1] += 1
            level -= 1
            if level:
                page = child(tree.pages, parent, keys, slot, level, keys + 1)
            elif page_id <= 0 or page_id >= seen.shape[0]:
                page = -words[parent + ID]
    return n
