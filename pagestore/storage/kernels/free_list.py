"""Which pages are free, a byte each, and how they differ from those of a checkpoint.

    free[page]        1 for a page that may be allocated
    summary           LOWEST: no page below may be allocated; MANY: how many may

The difference is two lists, as in a record, edited in O(1) per page:

    lists[ADDED]      n, page, page, ...      free, and not in the checkpoint
    lists[REMOVED]    n, page, page, ...      in use, and free in the checkpoint
    place[page]       index of a page in ADDED; minus its index in REMOVED; 0 if it is in neither
"""

import numpy as np

from pagestore.runtime.intrinsics import words_at
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import Bytes, HalfWords, Table, Words

LOWEST, MANY = range(2)
ADDED, REMOVED = range(2)


@kernel
def allocate(free: Bytes, summary: Words, top: int, pages: Words):
    """Allocate the lowest free pages below `top`, as many as fit in `pages`; return how many were
    found.

    O(pages + gaps between them / 8).
    """
    n, page, eights = 0, summary[LOWEST], free.view(np.int64)
    while n < pages.shape[0] and page < top:
        if page & 7 == 0 and eights[page >> 3] == 0:
            page += 8
            continue
        if free[page]:
            free[page], pages[n] = 0, page
            n += 1
        page += 1
    summary[LOWEST] = page
    summary[MANY] -= n
    return n


@kernel
def allocate_run(free: Bytes, summary: Words, top: int, n: int):
    """Allocate the lowest n adjacent free pages below `top`; return the first, or -1 if there
    are none.
    """
    run = 0
    for page in range(summary[LOWEST], top):
        run = run + 1 if free[page] else 0
        if run == n:
            free[page + 1 - n : page + 1] = 0
            summary[MANY] -= n
            return page + 1 - n
    return -1


@kernel
def take_back(pages: Words, free: Bytes, summary: Words):
    """Mark pages as free to be allocated, again or for the first time."""
    for page in pages:
        summary[MANY] += 1 - free[page]
        summary[LOWEST] = min(summary[LOWEST], page)
        free[page] = 1


@kernel
def count(address: int, n: int, used: Words, lists: Table, place: HalfWords):
    """Count n pages at an address as free, then others as used; both lists have room for all of
    them.
    """
    move(words_at(address, n), ADDED, lists, place)
    move(used, REMOVED, lists, place)


@kernel
def move(pages: Words, into: int, lists: Table, place: HalfWords):
    """Remove pages from the other list; add those that are not in it to list `into`."""
    sign = 1 - 2 * into
    for page in pages:
        at = place[page] * sign
        if at == 0:
            n = lists[into, 0] + 1
            lists[into, 0], lists[into, n], place[page] = n, page, sign * n
        elif at < 0:
            other, n = lists[1 - into], lists[1 - into, 0]
            other[-at], place[other[n]] = other[n], place[page]
            other[0], place[page] = n - 1, 0
