"""A cursor: a place in a tree, kept as CURSOR_WORDS words of an int64 array from index o on.

    0     1     2        3       4            5     6     7     8
    page  slot  entries  height  columns   |  page  slot  page  slot ...      (level 1, level 2, ...)

`page` is the index of a page's first word, `columns` how many a leaf must have.  The cursor of an exhausted or
empty tree has page -1.  Many cursors share one flat array, because a view costs a kernel more than an index.  Every
function returns a negative status for a corrupt page: ``-page_id``.
"""

from pagestore.pages.enter import child, columns_at, enter
from pagestore.pages.layout import ENTRY_COUNT, HEIGHT_MAX
from pagestore.pages.page import child_slot, field, locate
from pagestore.runtime.kernel import kernel

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
