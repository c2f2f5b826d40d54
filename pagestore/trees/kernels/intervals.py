"""Stab an interval index: every record (alpha..., a, b, gamma...) that meets [lo, hi] (*Interval
trees*).

Records are in key order, so all with a <= hi are one run; the max folds of b, in index pages and in
the ScanTree of each page, lead from one end at or after lo to the next.
"""

import numpy as np

from pagestore.pages.layout import ENTRY_COUNT, HEIGHT_MAX
from pagestore.pages.page import bits, child_slot, column, field, locate
from pagestore.pages.scan_tree import tree_column, tree_start
from pagestore.pages.verify import child, enter
from pagestore.runtime.intrinsics import borrowed
from pagestore.runtime.kernel import allocating, kernel
from pagestore.runtime.types import MappedWords, Table, Words
from pagestore.trees.kernels.arguments import IntervalTree
from pagestore.trees.kernels.cursor import borrowed_tree
from pagestore.trees.kernels.folds import leaf_before, scan_header


@allocating
def stab_points(index: IntervalTree, points: Table, out: Table, visits: Words):
    """Write the records that meet one of points[alphas + 2, n] to out[C, m], in point and key
    order.

    A point (alpha..., lo, hi) wants records with those alphas, a <= hi and lo <= b; the index's
    fold word `row` is the max of b.  A record is written once for each point that it meets.
    Returns how many did, even beyond m, or ``-page_id``; adds the number of folds and records read
    to visits[0].  O((matches + 1) log n) a point.
    """
    index = IntervalTree(borrowed_tree(index.tree), index.columns, index.alphas, index.row)
    points, out, visits, alphas = borrowed(points), borrowed(out), borrowed(visits), index.alphas
    n = 0
    if index.tree.height == 0:
        return 0
    key = np.empty(alphas + 1, np.int64)
    path = np.zeros((HEIGHT_MAX, 3), np.int64)  # page, slot, end by level
    for p in range(points.shape[1]):
        for c in range(alphas):
            key[c] = points[c, p]
        x = points[alphas, p]
        key[alphas] = points[alphas + 1, p]
        n = stab(index, key, x, path, out, n, visits)
        if n < 0:
            return n
    return n


@kernel
def upper_bound(words: MappedWords, page: int, key: Words, m: int):
    """Return the first entry whose first m columns are above ``key[:m]``."""
    lo = 0
    hi = words[page + ENTRY_COUNT]
    for c in range(m):
        base, start, width = column(words, page, c)
        a, b = lo, hi  # first entry above key[c]
        while a < b:
            middle = (a + b) >> 1
            if base + bits(words, start, width, middle) <= key[c]:
                a = middle + 1
            else:
                b = middle
        above = a
        a, b = lo, above  # first entry not below key[c]
        while a < b:
            middle = (a + b) >> 1
            if base + bits(words, start, width, middle) < key[c]:
                a = middle + 1
            else:
                b = middle
        lo, hi = a, above
        if c + 1 == m or lo == hi:
            return hi
    return hi


@kernel
def stab(index: IntervalTree, key: Words, x: int, path: Table, out: Table, n: int, visits: Words):
    """Stab one point: depth-first over the children that can match; `out` has `n` records
    already.
    """
    (pages, root, height, keys), columns, alphas, row = index
    words, level, with_fold = pages.words, height - 1, keys + 2 + row
    page = enter(pages, root, level, with_fold if level else columns)
    while True:
        if page < 0:
            return page
        end = upper_bound(words, page, key, alphas + 1)
        if level == 0:
            n = matches(words, page, columns, alphas, row, key, x, end, out, n, visits)
        else:
            path[level, 0] = page
            path[level, 1] = child_slot(words, page, key, alphas, keys, 0) if alphas else 0
            path[level, 2] = end
        # the next child that can hold an end at or after x
        level = max(level, 1)
        while True:
            if level == height:
                return n
            page, end = path[level, 0], path[level, 2]
            slot = next_reaching(words, page, keys + 1 + row, row, path[level, 1], end, x, visits)
            if slot < end:
                path[level, 1] = slot + 1
                level -= 1
                page = child(pages, page, keys, slot, level, with_fold if level else columns)
                break
            level += 1


@kernel
def matches(words, page, columns, alphas, row, key, x, end, out, n, visits):
    """Write the records of a leaf before `end` that have the point's alphas and reach x."""
    slot, _ = locate(words, page, key, alphas, 0)
    slot = next_reaching(words, page, alphas + 1, row, slot, end, x, visits)
    while slot < end:
        if n < out.shape[1]:
            for c in range(columns):
                out[c, n] = field(words, page, c, slot)
        n += 1
        slot = next_reaching(words, page, alphas + 1, row, slot + 1, end, x, visits)
    return n


@kernel
def next_reaching(
    words: MappedWords, page: int, c: int, row: int, slot: int, end: int, x: int, visits: Words
):
    """Return the first entry in [slot, end) whose column c is at least x, else `end`; O(log B)
    by the ScanTree.
    """
    header = scan_header(words, page, row + 1)
    depth = header & 255
    if depth == 0 or slot >= end:
        return along(words, page, c, slot, end, x, visits)
    area = page + (header >> 8 & 0xFFFFFF)
    entries = words[page + ENTRY_COUNT]
    leaves = 1 << depth
    j, _ = leaf_before(words, page, area, entries, depth, slot)
    stop = min(end, tree_start(words, page, area, entries, depth, j + 1))
    slot = along(words, page, c, slot, stop, x, visits)
    if slot < stop or stop == end:
        return slot if slot < stop else end
    base, start, width = tree_column(words, page, area, 1 + row)
    k = leaves + j + 1
    while k & (k - 1):  # else we are past the right edge
        while k & 1 == 0:  # the largest subtree that starts here
            k >>= 1
        visits[0] += 1
        if base + bits(words, start, width, k - 1) >= x:
            while k < leaves:
                k <<= 1
                visits[0] += 1
                if base + bits(words, start, width, k - 1) < x:
                    k += 1
            slot = tree_start(words, page, area, entries, depth, k - leaves)
            return along(words, page, c, slot, end, x, visits) if slot < end else end
        k += 1
    return end


@kernel
def along(words: MappedWords, page: int, c: int, slot: int, end: int, x: int, visits: Words):
    """Return the first entry in [slot, end) whose column c is at least x, else `end`; one by
    one.
    """
    base, start, width = column(words, page, c)
    first = slot
    while slot < end and base + bits(words, start, width, slot) < x:
        slot += 1
    visits[0] += slot - first + 1
    return slot if slot < end else end
