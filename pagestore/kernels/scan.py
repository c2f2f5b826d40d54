"""Fold any interval of keys out of a tree's folds; rank and select (*Scans*).

    root        [ ....l=======r.... ]      whole children between the two that hold the bounds
    level 1       [..l====]  [==r...]      what is behind the lower bound, what is before the upper one
    leaves          [..===]  [==..]        and within each page the same again, by its ScanTree

The accumulator `acc` is int64[2 F + 2]: the fold so far, F spare words, then whether there is one and how
many applications it took.  Pieces are taken in key order, so an operator need not be commutative.
"""

import numpy as np
from numba import carray

from pagestore.kernels.borrow import borrowed
from pagestore.kernels.fold import COUNT, MAX, MIN, SUM, combine, lift_entry
from pagestore.kernels.kernel import kernel
from pagestore.kernels.machine import pointer, prefetch
from pagestore.kernels.page import NARROW, bits, child_slot, column, enter, field, locate, narrow
from pagestore.kernels.read import (
    EQUAL,
    HEIGHT,
    LINE,
    LOW,
    PAGE_WORDS,
    PLACE_ROWS,
    READY,
    ROOT,
    SEEN,
    SEEN_AT,
    WORDS,
    WORDS_AT,
    locate_many,
)
from pagestore.kernels.scantree import tree_column, tree_start
from pagestore.layout import COUNT as ENTRIES
from pagestore.layout import HEIGHT_MAX, SCAN

GROUP = 32  # intervals whose bounds are looked for side by side
UNBOUNDED = -1
ADDING = 48  # bits of values of which a page's worth adds up within a word


@kernel
def acc_words(folds):
    return 2 * folds + 2


@kernel
def take(scans, first, end, acc):
    """Combine the fold in the spare words into the accumulator."""
    folds = scans.shape[0]
    if acc[2 * folds]:
        acc[2 * folds + 1] += combine(scans, first, end, acc, 0, 1, acc, folds, 1)
        return
    for f in range(first, end):
        acc[f] = acc[folds + f]
    acc[2 * folds] = 1


@kernel
def fold_entries(words, page, level, keys, scans, first, end, lo, hi, acc):
    """Entries lo..hi one by one; a few of them, at the edges of an interval."""
    if lo >= hi:
        return
    folds = scans.shape[0]
    op = scans[first, 0]
    if end == first + 1 and COUNT <= op <= MAX and (op != COUNT or level > 0):
        base, start, width = column(words, page, keys + 1 + first if level > 0 else scans[first, 1])
        result = plain_entries(words, base, start, width, op, lo, hi)
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


@kernel
def plain_entries(words, base, start, width, op, lo, hi):
    """MIN, MAX or sum of entries lo..hi of a column, in loops that the compiler can widen."""
    result = bits(words, start, width, lo) if width <= NARROW else base + bits(words, start, width, lo)
    if width <= NARROW and op == MAX:
        for i in range(lo + 1, hi):
            result = max(result, narrow(words, start, width, i))
        return base + result
    if width <= NARROW and op == MIN:
        for i in range(lo + 1, hi):
            result = min(result, narrow(words, start, width, i))
        return base + result
    if width <= NARROW:
        for i in range(lo + 1, hi):
            result += narrow(words, start, width, i)
        return (hi - lo) * base + result  # wraps, and so back
    for i in range(lo + 1, hi):
        value = base + bits(words, start, width, i)
        if op == MAX:
            result = max(result, value)
        elif op == MIN:
            result = min(result, value)
        else:
            result += value
    return result


@kernel
def sum_entries(words, page, level, keys, scans, first, lo, hi, acc):
    """The exact sum of entries lo..hi into the spare words: by halves of words, which add up without a carry."""
    folds = scans.shape[0]
    base, start, width = column(words, page, keys + 1 + first if level > 0 else scans[first, 1])
    top_base, top_start, top_width = column(words, page, keys + 2 + first if level > 0 else 0)
    low = 0
    middle = 0
    high = 0
    if level == 0 and width <= ADDING:
        for i in range(lo, hi):
            low += narrow(words, start, width, i)
        n = hi - lo
        middle = n * (base >> 32 & 0xFFFFFFFF) + (low >> 32)
        low = n * (base & 0xFFFFFFFF) + (low & 0xFFFFFFFF)
        high = n * (base >> 63)
        lo = hi
    for i in range(lo, hi):
        value = base + bits(words, start, width, i)
        low += value & 0xFFFFFFFF
        middle += value >> 32 & 0xFFFFFFFF
        high += top_base + bits(words, top_start, top_width, i) if level > 0 else value >> 63
    middle += low >> 32
    acc[folds + first] = middle << 32 | low & 0xFFFFFFFF
    acc[folds + first + 1] = high + (middle >> 32)


@kernel
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


@kernel
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


@kernel
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


@kernel
def fold_nodes(words, page, area, scans, first, end, left, right, acc):
    """Leaf nodes left..right of a heap: upwards from left, then the right-hand ones downwards, all in key order."""
    if end == first + 1 and scans[first, 0] <= MAX:
        plain_nodes(words, page, area, scans, first, left, right, acc)
        return
    if end == first + 2 and scans[first, 0] == SUM:
        sum_nodes(words, page, area, scans, first, left, right, acc)
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


@kernel
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
            if (left if side == 0 else right) & 1:
                right -= side
                value = base + bits(words, start, width, (left if side == 0 else right) - 1)
                left += 1 - side
                if n == 0:
                    result = value
                elif op == MAX:
                    result = max(result, value)
                elif op == MIN:
                    result = min(result, value)
                else:
                    result += value
                n += 1
        left >>= 1
        right >>= 1
    acc[folds + first] = result
    acc[2 * folds + 1] += n - 1
    take(scans, first, first + 1, acc)


@kernel
def sum_nodes(words, page, area, scans, first, left, right, acc):
    """As `plain_nodes` for an exact sum, by halves of words."""
    if left >= right:
        return
    folds = scans.shape[0]
    base, start, width = tree_column(words, page, area, 1 + first)
    top_base, top_start, top_width = tree_column(words, page, area, 2 + first)
    low = 0
    middle = 0
    high = 0
    n = 0
    while left < right:
        for side in range(2):
            if (left if side == 0 else right) & 1:
                right -= side
                k = (left if side == 0 else right) - 1
                left += 1 - side
                value = base + bits(words, start, width, k)
                low += value & 0xFFFFFFFF
                middle += value >> 32 & 0xFFFFFFFF
                high += top_base + bits(words, top_start, top_width, k)
                n += 1
        left >>= 1
        right >>= 1
    middle += low >> 32
    acc[folds + first] = middle << 32 | low & 0xFFFFFFFF
    acc[folds + first + 1] = high + (middle >> 32)
    acc[2 * folds + 1] += n - 1
    take(scans, first, first + 2, acc)


@kernel
def take_node(words, page, area, scans, first, end, k, acc):
    """Combine the stored fold of node k into the accumulator."""
    folds = scans.shape[0]
    for f in range(first, end):
        base, start, width = tree_column(words, page, area, 1 + f)
        acc[folds + f] = base + bits(words, start, width, k - 1)
    take(scans, first, end, acc)


@kernel
def scan_intervals(
    words, seen, page_words, root, height, keys, scans, first, end, bounds, low, high, out, full, work
):
    """Fold words first..end of the records of n intervals; bounds[:low, i] <= key < bounds[:high, n + i].

    No columns mean unbounded.  Writes out[f, i] and full[i], whether there was a record at all; `work` has
    work_words(F).  Returns the applications, or ``-page_id``.  O(log n) applications, 2 * height pages each.

    GROUP intervals at a time: down to all bounds side by side, then one fold after the other.
    """
    words, seen, scans, bounds = borrowed(words), borrowed(seen), borrowed(scans), borrowed(bounds)
    out, full, work = borrowed(out), borrowed(full), borrowed(work)
    acc = work[: acc_words(scans.shape[0])]
    acc[2 * scans.shape[0] + 1] = 0
    rest = work[acc.shape[0] :]
    group, pages = rest[: 2 * GROUP], rest[2 * GROUP : 4 * GROUP]
    places = rest[4 * GROUP : (4 + 2 * PLACE_ROWS) * GROUP].reshape(PLACE_ROWS, 2 * GROUP)
    ways = rest[(4 + 2 * PLACE_ROWS) * GROUP :].reshape(HEIGHT_MAX, 2, 2 * GROUP)
    n = full.shape[0] if height else 0
    full[:], out[:, :] = 0, 0
    for begin in range(0, n, GROUP):
        size = min(GROUP, n - begin)
        for g in range(size):
            group[g], group[size + g] = begin + g, n + begin + g
        together = size if low == high else 0
        for at in range(0, size + 1 if not together else 1, size):
            status = descend_many(
                words, seen, page_words, root, height, keys, low if at == 0 else high, bounds,
                group[at : at + size + together], at, pages, places, ways,
            )  # fmt: skip
            if status < 0:
                return status
        for g in range(0 if low else size, 2 * size if high else size):
            if scans[first, 0] != COUNT:
                prefetch_leaf(words, ways[0, 0, g], page_words, scans[first, 1], ways[0, 1, g])
        for g in range(size):
            acc[2 * scans.shape[0]] = 0
            scan_between(words, height, keys, scans, first, end, ways, g, size + g, acc)
            full[begin + g] = acc[2 * scans.shape[0]]
            for f in range(first, end if full[begin + g] else first):
                out[f - first, begin + g] = acc[f]
    return acc[2 * scans.shape[0] + 1]


@kernel
def scan_one(ready, low, high, work):
    """As `scan_intervals` for one interval, with everything in two arrays.

    `ready` holds what a look-up has (see `read.find_record`), then keys, first, end and the scans; `work` holds
    bounds int64[K, 2], the fold words, whether there was a record, then work_words(F).
    """
    ready, work = borrowed(ready), borrowed(work)
    words = carray(pointer(ready[WORDS_AT]), (ready[WORDS],), np.int64)
    seen = carray(pointer(ready[SEEN_AT]), (ready[SEEN],), np.uint8)
    keys, first, end = ready[READY], ready[READY + 1], ready[READY + 2]
    scans = ready[READY + 3 :].reshape((ready.shape[0] - READY - 3) // 3, 3)
    full = 2 * keys + end - first
    bounds, out = work[: 2 * keys].reshape(keys, 2), work[2 * keys : full].reshape(end - first, 1)
    return scan_intervals(
        words, seen, ready[PAGE_WORDS], ready[ROOT], ready[HEIGHT], keys, scans, first, end, bounds, low, high,
        out, work[full : full + 1], work[full + 1 :],
    )  # fmt: skip


@kernel
def prefetch_leaf(words, page, page_words, c, slot):
    """Begin to load what folding a leaf from a slot on, or up to it, reads: its ScanTree and column c around it."""
    header = words[page + SCAN]
    for i in range(page + (header >> 8 & 0xFFFFFF) if header & 255 else page + page_words, page + page_words, LINE):
        prefetch(words, i)
    _, start, width = column(words, page, c)
    around = start + (slot * width >> 6)
    for i in range(around - 2 * LINE, around + 3 * LINE, LINE):
        prefetch(words, i)


@kernel
def work_words(folds):
    """Words of scratch that `scan_intervals` takes: accumulator, keys of a group, pages, places, ways."""
    return acc_words(folds) + (4 + 2 * PLACE_ROWS + 4 * HEIGHT_MAX) * GROUP


@kernel
def descend_many(words, seen, page_words, root, height, keys, m, bounds, group, at, pages, places, ways):
    """The way to each bound bounds[:m, group[g]]: ways[level, 0, at + g] is a page, ways[level, 1, at + g] a slot.

    Of a leaf, the slot of the first record at or behind the bound; of an index page, the child that holds that
    place.  Slot UNBOUNDED of the root if m is 0.  Returns 1, or ``-page_id``.
    """
    n = group.shape[0]
    pages[:n] = enter(words, seen, page_words, root)
    for level in range(height - 1, -1, -1):
        for g in range(n):
            if pages[g] < 0:
                return pages[g]
            ways[level, 0, at + g] = pages[g]
        if m == 0:
            ways[level, 1, at : at + n] = UNBOUNDED
            return 1
        locate_many(words, pages, m, bounds, group, places)
        for g in range(n):
            slot = places[LOW, g]
            if level:
                slot = max(slot - 1 + (places[EQUAL, g] if m == keys else 0), 0)
                pages[g] = enter(words, seen, page_words, field(words, pages[g], keys, slot))
            ways[level, 1, at + g] = slot
    return 1


@kernel
def scan_between(words, height, keys, scans, first, end, ways, lower, upper, acc):
    """Fold what lies between two ways: up along the lower one to where they part, then down along the upper one."""
    level = height - 1
    while level > 0 and ways[level, 1, lower] == ways[level, 1, upper] != UNBOUNDED:
        level -= 1
    page, left, right = ways[level, 0, lower], ways[level, 1, lower], ways[level, 1, upper]
    behind, before = left != UNBOUNDED, right != UNBOUNDED
    if not before:
        right = words[page + ENTRIES]
    if left > right:
        return
    if level == 0:
        fold_page(words, page, level, keys, scans, first, end, max(left, 0), right, acc)
        return
    for d in range(level if behind else 0):
        side, slot = ways[d, 0, lower], ways[d, 1, lower] + (d > 0)
        fold_page(words, side, d, keys, scans, first, end, slot, words[side + ENTRIES], acc)
    fold_page(words, page, level, keys, scans, first, end, left + 1, right, acc)
    for d in range(level - 1 if before else -1, -1, -1):
        fold_page(words, ways[d, 0, upper], d, keys, scans, first, end, 0, ways[d, 1, upper], acc)


@kernel
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


@kernel
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


@kernel
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


@kernel
def select_records(words, seen, page_words, root, height, keys, columns, count_row, ranks, out):
    """The records of ranks[n], each within the tree, as out[C, n].  Returns 1, or ``-page_id``.  O(n log count)."""
    for i in range(ranks.shape[0]):
        page, slot = select(words, seen, page_words, root, height, keys, count_row, ranks[i])
        if page < 0:
            return page
        for c in range(columns):
            out[c, i] = field(words, page, c, slot)
    return 1
