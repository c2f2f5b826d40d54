"""Stab an interval index: every record (alpha..., a, b, gamma...) with a <= x <= b (*Interval trees*).

Records are in key order, so all with a <= x are one run; the max fold of b in the index pages says
below which children that run can hold an end at or behind x.
"""

import numpy as np
from numba import njit

from pagestore.kernels.borrow import borrowed
from pagestore.kernels.page import child_slot, column, enter, field, locate, bits, unpack
from pagestore.layout import COUNT, HEIGHT_MAX


@njit(cache=True, nogil=True)
def stab_points(words, seen, page_words, root, height, keys, columns, alphas, fold, points, out):
    """Write the records matched by points[alphas + 1, n] to out[C, m], in point and key order.

    A record is written once for each point it holds.  Returns how many matched, even beyond m, or
    ``-page_id``.  O((matches + 1) log n) pages a point.
    """
    words, seen, points, out = borrowed(words), borrowed(seen), borrowed(points), borrowed(out)
    n = 0
    if height == 0:
        return 0
    key = np.empty(alphas + 1, np.int64)
    for p in range(points.shape[1]):
        for c in range(alphas + 1):
            key[c] = points[c, p]
        n = stab(words, seen, page_words, root, height, keys, columns, alphas, fold, key, out, n)
        if n < 0:
            return n
    return n


@njit(cache=True, nogil=True)
def run_behind(words, page, key, m):
    """End of the entries whose first m columns are at most ``key[:m]``."""
    lo = 0
    hi = words[page + COUNT]
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


@njit(cache=True, nogil=True)
def stab(words, seen, page_words, root, height, keys, columns, alphas, fold, key, out, n):
    """One point: depth-first over the children that can match; `n` records stand in `out` already."""
    x = key[alphas]
    path = np.zeros((HEIGHT_MAX, 3), np.int64)  # page, slot, end by level
    level = height - 1
    page_id = root
    while True:
        page = enter(words, seen, page_words, page_id)
        if page < 0:
            return page
        end = run_behind(words, page, key, alphas + 1)
        if level == 0:
            n = matches(words, page, columns, alphas, key, end, out, n)
        else:
            path[level, 0] = page
            path[level, 1] = child_slot(words, page, key, alphas, keys, 0) if alphas else 0
            path[level, 2] = end
        # the next child that can hold an end at or behind x
        level = max(level, 1)
        while True:
            if level == height:
                return n
            page, slot, end = path[level, 0], path[level, 1], path[level, 2]
            while slot < end and field(words, page, fold, slot) < x:
                slot += 1
            if slot < end:
                path[level, 1] = slot + 1
                page_id = field(words, page, keys, slot)
                level -= 1
                break
            level += 1


@njit(cache=True, nogil=True)
def matches(words, page, columns, alphas, key, end, out, n):
    """The records of a leaf before `end` that have the point's alphas and reach its x."""
    slot, _ = locate(words, page, key, alphas, 0)
    x = key[alphas]
    base, start, width = column(words, page, alphas + 1)
    for i in range(slot, end):
        if base + bits(words, start, width, i) >= x:
            if n < out.shape[1]:
                for c in range(columns):
                    out[c, n] = field(words, page, c, i)
            n += 1
    return n
