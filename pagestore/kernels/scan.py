"""Fold any interval of keys out of a tree's folds; rank and select (*Scans*).

    root        [ ....l=======r.... ]      whole children between the two that hold the bounds
    level 1       [..l====]  [==r...]      what is behind the lower bound, what is before the upper one
    leaves          [..===]  [==..]        and within each page the same again, by its ScanTree

The accumulator `acc` is int64[2 F + 2]: the fold so far, F spare words, then whether there is one and how
many applications it took.  Pieces are taken in key order, so an operator need not be commutative.
"""

import numpy as np
from numba import njit

from pagestore.kernels.borrow import borrowed
from pagestore.kernels.fold import COUNT, MAX, MIN, SUM, combine, lift_entry
from pagestore.kernels.page import bits, child_slot, column, enter, field, locate
from pagestore.kernels.scantree import tree_column, tree_start
from pagestore.layout import COUNT as ENTRIES
from pagestore.layout import HEIGHT_MAX, SCAN


@njit(cache=True, nogil=True)
def acc_words(folds):
    return 2 * folds + 2


@njit(cache=True, nogil=True)
def take(scans, first, end, acc):
    """Combine the fold in the spare words into the accumulator."""
    folds = scans.shape[0]
    if acc[2 * folds]:
        acc[2 * folds + 1] += combine(scans, first, end, acc, 0, 1, acc, folds, 1)
        return
    for f in range(first, end):
        acc[f] = acc[folds + f]
    acc[2 * folds] = 1


@njit(cache=True, nogil=True)
def fold_entries(words, page, level, keys, scans, first, end, lo, hi, acc):
    """Entries lo..hi one by one; a few of them, at the edges of an interval."""
    if lo >= hi:
        return
    folds = scans.shape[0]
    op = scans[first, 0]
    if end == first + 1 and COUNT <= op <= MAX and (op != COUNT or level > 0):
        base, start, width = column(words, page, keys + 1 + first if level > 0 else scans[first, 1])
        result = base + bits(words, start, width, lo)
        for i in range(lo + 1, hi):
            value = base + bits(words, start, width, i)
            if op == MAX:
                result = max(result, value)
            elif op == MIN:
                result = min(result, value)
            else:
                result += value
        acc[folds + first] = result
        acc[2 * folds + 1] += hi - lo - 1
        take(scans, first, end, acc)
        return
    if op == SUM and end == first + 2:
        sum_entries(words, page, level, keys, scans, first, lo, hi, acc)
        acc[2 * folds + 1] += hi - lo - 1
        take(scans, first, end, acc)
        return
    for i in range(lo, hi):
        for f in range(first, end):
            acc[folds + f] = lift_entry(words, page, level, keys, scans, f, i)
        take(scans, first, end, acc)


@njit(cache=True, nogil=True)
def sum_entries(words, page, level, keys, scans, first, lo, hi, acc):
    """The exact sum of entries lo..hi into the spare words: by halves of words, which add up without a carry."""
    folds = scans.shape[0]
    base, start, width = column(words, page, keys + 1 + first if level > 0 else scans[first, 1])
    top_base, top_start, top_width = column(words, page, keys + 2 + first if level > 0 else 0)
    low = 0
    middle = 0
    high = 0
    for i in range(lo, hi):
        value = base + bits(words, start, width, i)
        low += value & 0xFFFFFFFF
        middle += value >> 32 & 0xFFFFFFFF
        high += top_base + bits(words, top_start, top_width, i) if level > 0 else value >> 63
    middle += low >> 32
    acc[folds + first] = middle << 32 | low & 0xFFFFFFFF
    acc[folds + first + 1] = high + (middle >> 32)


@njit(cache=True, nogil=True)
def fold_page(words, page, level, keys, scans, first, end, lo, hi, acc):
    """Entries lo..hi of a page by its ScanTree: at most two nodes of each depth and two cut leaves."""
    folds = scans.shape[0]
    if lo >= hi:
        return
    if level == 0 and scans[first, 0] == COUNT:
        acc[folds + first] = hi - lo
        take(scans, first, end, acc)
        return
    header = words[page + SCAN]
    depth = header & 255
    if depth == 0:
        fold_entries(words, page, level, keys, scans, first, end, lo, hi, acc)
        return
    area = page + (header >> 8 & 0xFFFFFF)
    entries = words[page + ENTRIES]
    i, a = leaf_behind(words, page, area, entries, depth, lo)
    j, b = leaf_before(words, page, area, entries, depth, hi)
    if i > j:
        fold_entries(words, page, level, keys, scans, first, end, lo, hi, acc)
        return
    fold_entries(words, page, level, keys, scans, first, end, lo, a, acc)
    fold_nodes(words, page, area, scans, first, end, (1 << depth) + i, (1 << depth) + j, acc)
    fold_entries(words, page, level, keys, scans, first, end, b, hi, acc)


@njit(cache=True, nogil=True)
def leaf_behind(words, page, area, entries, depth, slot):
    """First leaf of a ScanTree that starts at `slot` or behind it, and where; looks where an even cut would put it."""
    j = (slot << depth) // entries
    while j > 0 and tree_start(words, page, area, entries, depth, j - 1) >= slot:
        j -= 1
    start = tree_start(words, page, area, entries, depth, j)
    while start < slot:
        j += 1
        start = tree_start(words, page, area, entries, depth, j)
    return j, start


@njit(cache=True, nogil=True)
def leaf_before(words, page, area, entries, depth, slot):
    """Last leaf (or L) of a ScanTree that starts at `slot` or before it, and where."""
    j = (slot << depth) // entries
    while not j >> depth and tree_start(words, page, area, entries, depth, j + 1) <= slot:
        j += 1
    start = tree_start(words, page, area, entries, depth, j)
    while start > slot:
        j -= 1
        start = tree_start(words, page, area, entries, depth, j)
    return j, start


@njit(cache=True, nogil=True)
def fold_nodes(words, page, area, scans, first, end, left, right, acc):
    """Leaf nodes left..right of a heap: upwards from left, then the right-hand ones downwards, all in key order."""
    if end == first + 1 and scans[first, 0] <= MAX:
        plain_nodes(words, page, area, scans, first, left, right, acc)
        return
    waiting = 0  # bit d: a node of depth d from below waits on the right
    d = 0
    a, b = left, right
    while a < b:
        if a & 1:
            take_node(words, page, area, scans, first, end, a, acc)
            a += 1
        if b & 1:
            waiting |= 1 << d
        a >>= 1
        b >>= 1
        d += 1
    while d > 0:
        d -= 1
        if waiting >> d & 1:
            take_node(words, page, area, scans, first, end, (right >> d) - 1, acc)


@njit(cache=True, nogil=True)
def plain_nodes(words, page, area, scans, first, left, right, acc):
    """As `fold_nodes` for COUNT, MIN and MAX of one word, which may take both sides at once."""
    if left >= right:
        return
    folds = scans.shape[0]
    op = scans[first, 0]
    base, start, width = tree_column(words, page, area, 1 + first)
    result = 0
    n = 0
    while left < right:
        for side in range(2):
            k = left if side == 0 else right - 1
            if (k & 1) == (1 - side) and left < right:
                value = base + bits(words, start, width, k - 1)
                if n == 0:
                    result = value
                elif op == MAX:
                    result = max(result, value)
                elif op == MIN:
                    result = min(result, value)
                else:
                    result += value
                n += 1
                if side == 0:
                    left += 1
                else:
                    right -= 1
        left >>= 1
        right >>= 1
    acc[folds + first] = result
    acc[2 * folds + 1] += n - 1
    take(scans, first, first + 1, acc)


@njit(cache=True, nogil=True)
def take_node(words, page, area, scans, first, end, k, acc):
    """Combine the stored fold of node k into the accumulator."""
    folds = scans.shape[0]
    for f in range(first, end):
        base, start, width = tree_column(words, page, area, 1 + f)
        acc[folds + f] = base + bits(words, start, width, k - 1)
    take(scans, first, end, acc)


@njit(cache=True, nogil=True)
def scan_interval(
    words, seen, page_words, root, height, keys, scans, first, end, lo, lo_m, hi, hi_m, path, acc
):
    """Fold words first..end of the records with ``lo[:lo_m] <= key < hi[:hi_m]``; 0 columns mean unbounded.

    Starts from an empty `acc`.  Returns 1, or ``-page_id``.  O(log n) applications, 2 * height pages.
    """
    folds = scans.shape[0]
    acc[2 * folds] = 0
    page_id = root
    for level in range(height - 1, -1, -1):
        page = enter(words, seen, page_words, page_id)
        if page < 0:
            return page
        left, right = bounds(words, page, level, keys, lo, lo_m, hi, hi_m)
        if level == 0 or left != right or left < 0 or right == words[page + ENTRIES]:
            break
        page_id = field(words, page, keys, left)
    else:
        return 1  # an empty tree
    if left > right:
        return 1
    if level == 0:
        fold_page(words, page, level, keys, scans, first, end, left, right, acc)
        return 1
    if left >= 0:
        status = fold_behind(
            words,
            seen,
            page_words,
            field(words, page, keys, left),
            level - 1,
            keys,
            scans,
            first,
            end,
            lo,
            lo_m,
            path,
            acc,
        )
        if status < 0:
            return status
    fold_page(words, page, level, keys, scans, first, end, left + 1, right, acc)
    if right < words[page + ENTRIES]:
        return fold_before(
            words,
            seen,
            page_words,
            field(words, page, keys, right),
            level - 1,
            keys,
            scans,
            first,
            end,
            hi,
            hi_m,
            acc,
        )
    return 1


@njit(cache=True, nogil=True)
def bounds(words, page, level, keys, lo, lo_m, hi, hi_m):
    """Of a leaf: the slots of the interval.  Of an index page: the children that hold its two bounds, or -1
    and the number of entries where it is unbounded."""
    left, right = 0 if level == 0 else -1, words[page + ENTRIES]
    if level == 0:
        if lo_m:
            left, _ = locate(words, page, lo, lo_m, 0)
        if hi_m:
            right, _ = locate(words, page, hi, hi_m, 0)
        return left, right
    if lo_m:
        left = child_slot(words, page, lo, lo_m, keys, 0)
    if hi_m:
        right = child_slot(words, page, hi, hi_m, keys, 0)
    return left, right


@njit(cache=True, nogil=True)
def fold_behind(words, seen, page_words, page_id, level, keys, scans, first, end, key, m, path, acc):
    """All below a page from the lower bound on: down to the leaf, then fold on the way up."""
    for d in range(level, -1, -1):
        page = enter(words, seen, page_words, page_id)
        if page < 0:
            return page
        path[2 * d] = page
        if d == 0:
            path[0] = page
            path[1], _ = locate(words, page, key, m, 0)
        else:
            slot = child_slot(words, page, key, m, keys, 0)
            path[2 * d + 1] = slot + 1
            page_id = field(words, page, keys, slot)
    for d in range(level + 1):
        page = path[2 * d]
        fold_page(words, page, d, keys, scans, first, end, path[2 * d + 1], words[page + ENTRIES], acc)
    return 1


@njit(cache=True, nogil=True)
def fold_before(words, seen, page_words, page_id, level, keys, scans, first, end, key, m, acc):
    """All below a page before the upper bound, folded on the way down."""
    for d in range(level, -1, -1):
        page = enter(words, seen, page_words, page_id)
        if page < 0:
            return page
        if d == 0:
            slot, _ = locate(words, page, key, m, 0)
        else:
            slot = child_slot(words, page, key, m, keys, 0)
        fold_page(words, page, d, keys, scans, first, end, 0, slot, acc)
        if d:
            page_id = field(words, page, keys, slot)
    return 1


@njit(cache=True, nogil=True)
def scan_one(words, seen, page_words, root, height, keys, scans, first, end, place, lo_m, hi_m):
    """`scan_interval` with all arrays in one: place[:K] and place[K:2K] are the bounds, then `path`, then `acc`."""
    words, seen, scans, place = borrowed(words), borrowed(seen), borrowed(scans), borrowed(place)
    acc = place[2 * keys + 2 * HEIGHT_MAX :]
    acc[2 * scans.shape[0] + 1] = 0
    return scan_interval(
        words, seen, page_words, root, height, keys, scans, first, end,
        place[:keys], lo_m, place[keys : 2 * keys], hi_m, place[2 * keys : 2 * keys + 2 * HEIGHT_MAX], acc,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def scan_intervals(words, seen, page_words, root, height, keys, scans, first, end, lo, hi, out, full, acc):
    """Fold the intervals from lo[:, i] to hi[:, i], int64[m, n]: out[f, i] for its fold words, full[i] whether
    there was a record at all.  Returns the applications, or ``-page_id``."""
    words, seen, scans, lo, hi = borrowed(words), borrowed(seen), borrowed(scans), borrowed(lo), borrowed(hi)
    out, full, acc = borrowed(out), borrowed(full), borrowed(acc)
    folds = scans.shape[0]
    path = np.empty(2 * HEIGHT_MAX, np.int64)
    low, high = np.empty(max(1, lo.shape[0]), np.int64), np.empty(max(1, hi.shape[0]), np.int64)
    acc[2 * folds + 1] = 0
    for i in range(full.shape[0]):
        for c in range(lo.shape[0]):
            low[c] = lo[c, i]
        for c in range(hi.shape[0]):
            high[c] = hi[c, i]
        status = scan_interval(
            words, seen, page_words, root, height, keys, scans, first, end,
            low, lo.shape[0], high, hi.shape[0], path, acc,
        )  # fmt: skip
        if status < 0:
            return status
        full[i] = acc[2 * folds]
        for f in range(first, end):
            out[f - first, i] = acc[f]
    return acc[2 * folds + 1]


@njit(cache=True, nogil=True)
def select(words, seen, page_words, root, height, keys, count_row, rank):
    """(page, slot) of the record with `rank` records before it, by the count fold of that row; or (``-page_id``, 0)."""
    page_id = root
    for _ in range(height - 1):
        page = enter(words, seen, page_words, page_id)
        if page < 0:
            return page, 0
        slot, rank = count_down(words, page, keys, count_row, rank)
        page_id = field(words, page, keys, slot)
    return enter(words, seen, page_words, page_id), rank


@njit(cache=True, nogil=True)
def count_down(words, page, keys, count_row, rank):
    """The child that holds the record of a rank, and its rank in there: down the ScanTree, then along a leaf."""
    header = words[page + SCAN]
    depth = header & 255
    slot = 0
    if depth:
        area = page + (header >> 8 & 0xFFFFFF)
        base, start, width = tree_column(words, page, area, 1 + count_row)
        k = 1
        while not k >> depth:
            k <<= 1
            below = base + bits(words, start, width, k - 1)
            if rank >= below:
                rank -= below
                k += 1
        slot = tree_start(words, page, area, words[page + ENTRIES], depth, k - (1 << depth))
    base, start, width = column(words, page, keys + 1 + count_row)
    below = base + bits(words, start, width, slot)
    while rank >= below:
        rank -= below
        slot += 1
        below = base + bits(words, start, width, slot)
    return slot, rank


@njit(cache=True, nogil=True)
def select_records(words, seen, page_words, root, height, keys, columns, count_row, ranks, out):
    """The records of ranks[n], each within the tree, as out[C, n].  Returns 1, or ``-page_id``.  O(n log count)."""
    for i in range(ranks.shape[0]):
        page, slot = select(words, seen, page_words, root, height, keys, count_row, ranks[i])
        if page < 0:
            return page
        for c in range(columns):
            out[c, i] = field(words, page, c, slot)
    return 1
