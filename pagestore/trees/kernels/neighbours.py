"""Find the record at or after a key, or the last one before it, for many keys in one call.

    records   2  5  9  14          at or after 5: 5        before 5: 2        at or after 6: 9        before 2: none

An index entry holds exactly the least key below its child.  So the last record before a key is below the last entry
before the key, at each level.
"""

import numpy as np

from pagestore.pages.enter import child, columns_at, enter
from pagestore.pages.layout import ENTRY_COUNT
from pagestore.pages.page import field, locate
from pagestore.runtime.intrinsics import borrowed
from pagestore.runtime.kernel import allocating, kernel
from pagestore.trees.kernels.cursor import CURSOR_WORDS, LEAF_PAGE, LEAF_SLOT, seek


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
