"""Rank and select: how many records are below a key, and which record has a given number below it.

    root      | 0 (3 records) | 40 (5) | 90 (2) |        rank of 95: 3 + 5, and those below 95 in the third leaf
                                                         select(6): 3 <= 6 < 8, so in the second leaf, place 6 - 3

Both go by the count folds of index pages and of ScanTrees: O(height * log entries). Records that count
as often as a value column says are found by the sum of that column in the same way (`find_weighted`).
"""

from pagestore.pages.enter import child, enter
from pagestore.pages.layout import ENTRY_COUNT, ID
from pagestore.pages.page import bits, child_slot, column, field, locate
from pagestore.pages.scan_tree import tree_column, tree_start
from pagestore.runtime.kernel import kernel
from pagestore.trees.kernels.range_fold import columns_folded, fold_page, scan_header


@kernel
def fold_before(words, seen, page_words, root, level, keys, scans, first, end, key, m, acc):
    """Fold all records below a root that are before the upper bound, on the way down."""
    page = enter(words, seen, page_words, root, level, columns_folded(root, keys, end, level))
    for d in range(level, -1, -1):
        if page < 0:
            return page
        if d == 0:
            slot, _ = locate(words, page, key, m, 0)
        else:
            slot = child_slot(words, page, key, m, keys, 0)
        fold_page(words, page, d, keys, scans, first, end, 0, slot, acc)
        if d:
            page = child(words, seen, page_words, page, keys, slot, d - 1, columns_folded(root, keys, end, d - 1))
    return 1


@kernel
def select(words, seen, page_words, root, height, keys, count_row, rank):
    """Return (page, slot) of the record with `rank` records before it, by its count folds; or (``-page_id``, 0)."""
    end = count_row + 1
    page = enter(words, seen, page_words, root, height - 1, columns_folded(root, keys, end, height - 1))
    for level in range(height - 1, 0, -1):
        if page < 0:
            return page, 0
        slot, rank = go_down(words, page, keys + 1 + count_row, count_row, rank)
        if slot == words[page + ENTRY_COUNT]:
            return -words[page + ID], 0
        page = child(words, seen, page_words, page, keys, slot, level - 1, columns_folded(root, keys, end, level - 1))
    if page > 0 and (rank < 0 or rank >= words[page + ENTRY_COUNT]):
        return -words[page + ID], 0
    return page, rank


@kernel
def go_down(words, page, c, row, rank):
    """Return the entry that holds a rank, and the rank within it: down the ScanTree of a row, then along column c.

    Wrong counts lead at most to the slot after the last entry.
    """
    header = scan_header(words, page, row + 1)
    depth = header & 255
    slot = 0
    if depth:
        area = page + (header >> 8 & 0xFFFFFF)
        base, start, width = tree_column(words, page, area, 1 + row)
        k = 1
        while not k >> depth:
            k <<= 1
            below = base + bits(words, start, width, k - 1)
            if rank >= below:
                rank -= below
                k += 1
        slot = tree_start(words, page, area, words[page + ENTRY_COUNT], depth, k - (1 << depth))
    base, start, width = column(words, page, c)
    while slot < words[page + ENTRY_COUNT]:
        below = base + bits(words, start, width, slot)
        if rank < below:
            break
        rank -= below
        slot += 1
    return slot, rank


@kernel
def select_records(words, seen, page_words, root, height, keys, columns, count_row, ranks, out):
    """Write the records of ranks[n], all within the tree, to out[C, n].  Returns 1 or ``-page_id``.  O(n log count)."""
    for i in range(ranks.shape[0]):
        page, slot = select(words, seen, page_words, root, height, keys, count_row, ranks[i])
        if page < 0:
            return page
        for c in range(columns):
            out[c, i] = field(words, page, c, slot)
    return 1


@kernel
def find_weighted(words, seen, page_words, root, height, keys, columns, row, weight, ranks, out):
    """Do as `select_records`, with a record counted as often as its column `weight` says, which scan row `row` sums."""
    end = row + 1
    for i in range(ranks.shape[0]):
        rank = ranks[i]
        page = enter(words, seen, page_words, root, height - 1, columns_folded(root, keys, end, height - 1))
        slot = 0
        for level in range(height - 1, -1, -1):
            if page < 0:
                return page
            slot, rank = go_down(words, page, weight if level == 0 else keys + 1 + row, row, rank)
            if slot == words[page + ENTRY_COUNT]:
                return -words[page + ID]
            if level:
                below = columns_folded(root, keys, end, level - 1)
                page = child(words, seen, page_words, page, keys, slot, level - 1, below)
        for c in range(columns):
            out[c, i] = field(words, page, c, slot)
    return 1
