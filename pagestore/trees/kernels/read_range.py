"""Read ranges of records, leaf after leaf; list the pages of a tree; count the records with a prefix.

cursor ──▶ leaf 11, slot 3 .. end ──▶ leaf 12 ──▶ ... ──▶ the first key that is not below the upper bound
"""

import numpy as np

from pagestore.pages.enter import child, enter
from pagestore.pages.layout import ENTRY_COUNT, ID, PAGE_MASK
from pagestore.pages.page import field, locate, unpack
from pagestore.runtime.intrinsics import borrowed
from pagestore.runtime.kernel import allocating, kernel
from pagestore.trees.kernels.cursor import CURSOR_WORDS, LEAF_ENTRIES, LEAF_PAGE, LEAF_SLOT, above, next_leaf, seek


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
