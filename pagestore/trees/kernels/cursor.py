"""A cursor: a place in a tree, kept as CURSOR_WORDS words of an int64 array from index o on.

    0     1     2        3       4            5     6     7     8
    page  slot  entries  height  columns   |  page  slot  page  slot ...      (level 1, level 2, ...)

`page` is the index of a page's first word, `columns` how many a leaf must have.  The cursor of an exhausted or
empty tree has page -1.  Many cursors share one flat array, because a view costs a kernel more than an index.  Every
function returns a negative status for a corrupt page: ``-page_id``.

Find the record at or after a key, or the last one before it, for many keys in one call.

    records   2  5  9  14          at or after 5: 5        before 5: 2        at or after 6: 9        before 2: none

An index entry holds exactly the least key below its child.  So the last record before a key is below the last entry
before the key, at each level.

Read ranges of records, leaf after leaf; list the pages of a tree; count the records with a prefix.

cursor ──▶ leaf 11, slot 3 .. end ──▶ leaf 12 ──▶ ... ──▶ the first key that is not below the upper bound
"""

import numpy as np

from pagestore.pages.layout import ENTRY_COUNT, HEIGHT_MAX, ID, PAGE_MASK
from pagestore.pages.page import child_slot, field, locate, unpack
from pagestore.pages.verify import child, columns_at, enter
from pagestore.runtime.intrinsics import borrowed
from pagestore.runtime.kernel import allocating, kernel

LEAF_PAGE, LEAF_SLOT, LEAF_ENTRIES, TREE_HEIGHT, LEAF_COLUMNS, PATH = range(6)
CURSOR_WORDS = PATH + 2 * (HEIGHT_MAX - 1)
AT_END = -1


@kernel
def seek(words, seen, page_words, root, height, keys, key, m, cursors, o):
    """Move to the first record whose first m columns are at least ``key[:m]``.

    Returns 1 on a record, 0 at the end, ``-page_id`` for a corrupt page.  O(height * log page).
    """
    cursors[o + TREE_HEIGHT] = height
    cursors[o + LEAF_PAGE] = AT_END
    if height == 0:
        return 0
    cursors[o + LEAF_COLUMNS] = columns_at(root, keys, 0)
    page = enter(words, seen, page_words, root, height - 1, columns_at(root, keys, height - 1))
    return descend(words, seen, page_words, page, height - 1, keys, key, m, cursors, o)


@kernel
def descend(words, seen, page_words, page, level, keys, key, m, cursors, o):
    """Go down from a page to the lower bound of ``key[:m]``, stepping into the next leaf if need be."""
    while level > 0 and page > 0:
        slot = child_slot(words, page, key, m, keys, 0)
        cursors[o + PATH + 2 * level - 2] = page
        cursors[o + PATH + 2 * level - 1] = slot
        level -= 1
        page = child_at(words, seen, page_words, page, keys, slot, level, cursors, o)
    if page < 0:
        return page
    slot, _ = locate(words, page, key, m, 0)
    cursors[o + LEAF_PAGE] = page
    cursors[o + LEAF_SLOT] = slot
    cursors[o + LEAF_ENTRIES] = words[page + ENTRY_COUNT]
    if slot == words[page + ENTRY_COUNT]:
        return next_leaf(words, seen, page_words, keys, cursors, o)
    return 1


@kernel
def child_at(words, seen, page_words, page, keys, slot, level, cursors, o):
    """Do as `child`, with as many columns as the cursor's tree has at that level."""
    return child(words, seen, page_words, page, keys, slot, level, keys + 1 if level else cursors[o + LEAF_COLUMNS])


@kernel
def next_leaf(words, seen, page_words, keys, cursors, o):
    """Move to the first record of the next leaf; status as for `seek`."""
    level = 1
    height = cursors[o + TREE_HEIGHT]
    while level < height:
        page = cursors[o + PATH + 2 * level - 2]
        slot = cursors[o + PATH + 2 * level - 1] + 1
        if slot < words[page + ENTRY_COUNT]:
            cursors[o + PATH + 2 * level - 1] = slot
            page = child_at(words, seen, page_words, page, keys, slot, level - 1, cursors, o)
            return leftmost(words, seen, page_words, page, level - 1, keys, cursors, o)
        level += 1
    cursors[o + LEAF_PAGE] = AT_END
    return 0


@kernel
def leftmost(words, seen, page_words, page, level, keys, cursors, o):
    """Go down to the first record below a page of the given level."""
    while level > 0 and page > 0:
        cursors[o + PATH + 2 * level - 2] = page
        cursors[o + PATH + 2 * level - 1] = 0
        level -= 1
        page = child_at(words, seen, page_words, page, keys, 0, level, cursors, o)
    if page < 0:
        return page
    cursors[o + LEAF_PAGE] = page
    cursors[o + LEAF_SLOT] = 0
    cursors[o + LEAF_ENTRIES] = words[page + ENTRY_COUNT]
    return 1


@kernel
def first(words, seen, page_words, root, height, keys, cursors, o):
    """Move to the first record of a tree; status as for `seek`."""
    cursors[o + TREE_HEIGHT] = height
    cursors[o + LEAF_PAGE] = AT_END
    if height == 0:
        return 0
    cursors[o + LEAF_COLUMNS] = columns_at(root, keys, 0)
    page = enter(words, seen, page_words, root, height - 1, columns_at(root, keys, height - 1))
    return leftmost(words, seen, page_words, page, height - 1, keys, cursors, o)


@kernel
def forward(words, seen, page_words, keys, key, m, cursors, o):
    """Move on, beyond the current leaf, to the first record at or after ``key[:m]``; status as for `seek`.

    Climbs only as far as needed: O(log of the leaves passed).
    """
    height = cursors[o + TREE_HEIGHT]
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
    slot = child_slot(words, page, key, m, keys, slot)
    cursors[o + PATH + 2 * level - 1] = slot
    page = child_at(words, seen, page_words, page, keys, slot, level - 1, cursors, o)
    return descend(words, seen, page_words, page, level - 1, keys, key, m, cursors, o)


@kernel
def above(words, page, slot, key, m):
    """Return whether the first m columns of the entry's key are above ``key[:m]``."""
    for c in range(m):
        value = field(words, page, c, slot)
        if value != key[c]:
            return value > key[c]
    return False


@kernel
def before(words, seen, page_words, root, height, keys, key, m):
    """Return (page, slot) of the last record whose first m columns are below ``key[:m]``, or of the last one if m is 0.

    (0, 0) for none, (``-page_id``, 0) for a corrupt page.  O(height * log page).
    """
    if height == 0:
        return 0, 0
    page = enter(words, seen, page_words, root, height - 1, columns_at(root, keys, height - 1))
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
        page = child(words, seen, page_words, page, keys, slot - 1, level - 1, columns_at(root, keys, level - 1))
    return page, 0


@allocating
def find_neighbours(words, seen, page_words, root, height, keys, columns, places, backward, found, out):
    """Find for each of places[m, n] the record at or after it, or if `backward` the one before it: found[n], out[C, n].

    Returns 1, or ``-page_id``.  O(n log count).
    """
    words, seen, places = borrowed(words), borrowed(seen), borrowed(places)
    found, out = borrowed(found), borrowed(out)
    cursor = np.empty(CURSOR_WORDS, np.int64)
    m = places.shape[0]
    key = np.empty(m, np.int64)
    for i in range(places.shape[1]):
        for c in range(m):
            key[c] = places[c, i]
        if backward:
            page, slot = before(words, seen, page_words, root, height, keys, key, m)
            if page < 0:
                return page
        else:
            status = seek(words, seen, page_words, root, height, keys, key, m, cursor, 0)
            if status < 0:
                return status
            page, slot = (cursor[LEAF_PAGE], cursor[LEAF_SLOT]) if status else (0, 0)
        found[i] = page > 0
        if page > 0:
            for c in range(columns):
                out[c, i] = field(words, page, c, slot)
    return 1


@allocating
def count_prefixes(words, seen, page_words, root, height, keys, wanted, most, counts):
    """Count the records, up to `most`, that start with each of wanted[m, n].  Returns 1, or ``-page_id``.

    A prefix in the leaf where the one before it ended is found without a descent, so ascending ones are cheap.
    """
    words, seen, wanted, counts = borrowed(words), borrowed(seen), borrowed(wanted), borrowed(counts)
    cursor = np.empty(CURSOR_WORDS, np.int64)
    m = wanted.shape[0]
    key = np.empty(m, np.int64)
    status = 0
    for i in range(wanted.shape[1]):
        again = i > 0  # the cursor may be among the records of a prefix that was counted up to `most`
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
            status = seek(words, seen, page_words, root, height, keys, key, m, cursor, 0)
        while status == 1 and counts[i] < most and starts_with(words, cursor, key, m):
            counts[i] += 1
            cursor[LEAF_SLOT] += 1
            if cursor[LEAF_SLOT] == cursor[LEAF_ENTRIES]:
                status = next_leaf(words, seen, page_words, keys, cursor, 0)
        if status < 0:
            return status
    return 1


@kernel
def starts_with(words, cursor, key, m):
    for c in range(m):
        if field(words, cursor[LEAF_PAGE], c, cursor[LEAF_SLOT]) != key[c]:
            return False
    return True


@kernel
def read_range(words, seen, page_words, keys, columns, stop, stop_m, cursor, out):
    """Decode records from a cursor (see `cursor.seek`) on, up to key ``stop[:stop_m]``, into out[C, n].

    Returns how many; fewer than n means the range is done.  A negative number is ``-page_id``.
    """
    n = 0
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
            status = next_leaf(words, seen, page_words, keys, cursor, 0)
            if status < 0:
                return status
    return n


@allocating
def tree_pages(words, seen, page_words, root, height, keys, out):
    """Write the page ids of a tree, root first, to `out`; return how many there are (or ``-page_id``).

    If `out` is too small the count is still returned, so the caller can grow it.  A tree that has more pages than the
    file reaches some of them twice: then the root's page is reported as bad.
    """
    way = np.empty((height, 2), np.int64)  # by level: the index page passed through, the slot of its next child
    n, level, page_id = 0, height - 1, root & PAGE_MASK
    page = enter(words, seen, page_words, root, level, keys + 1) if height > 1 else 0
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
                page = child(words, seen, page_words, parent, keys, slot, level, keys + 1)
            elif page_id <= 0 or page_id >= seen.shape[0]:
                page = -words[parent + ID]
    return n
