"""Batches out of a tree: many keys at once, a range as columns, the pages of a tree."""

import numpy as np
from numba import njit

from pagestore.kernels.borrow import borrowed
from pagestore.kernels.cursor import (
    CURSOR_WORDS,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    PATH,
    next_leaf,
    seek,
)
from pagestore.kernels.page import child_slot, enter, field, locate, unpack
from pagestore.layout import COUNT


@njit(cache=True, nogil=True)
def get_records(words, seen, page_words, root, height, keys, values, wanted, found, out):
    """Look up wanted[K, n]: sets found[n] and out[V, n].  Returns 1, or ``-page_id``.

    A key in the leaf of its predecessor is found without a descent, so sorted keys are cheap.
    """
    words, seen = borrowed(words), borrowed(seen)
    wanted, found, out = borrowed(wanted), borrowed(found), borrowed(out)
    cursor = np.empty(CURSOR_WORDS, np.int64)
    cursor[LEAF_PAGE] = -1
    key = np.empty(keys, np.int64)
    for i in range(wanted.shape[1]):
        for c in range(keys):
            key[c] = wanted[c, i]
        page, slot, equal = cursor[LEAF_PAGE], 0, False
        if page >= 0:
            slot, equal = locate(words, page, key, keys, 0)
        if page < 0 or slot == cursor[LEAF_ENTRIES] or (slot == 0 and not equal):
            page = leaf_of(words, seen, page_words, root, height, keys, key)
            if page < 0:
                return page
            if page == 0:
                found[i] = 0
                continue
            cursor[LEAF_PAGE] = page
            cursor[LEAF_ENTRIES] = words[page + COUNT]
            slot, equal = locate(words, page, key, keys, 0)
        found[i] = equal
        if equal:
            for v in range(values):
                out[v, i] = field(words, page, keys + v, slot)
    return 1


@njit(cache=True, nogil=True)
def leaf_of(words, seen, page_words, root, height, keys, key):
    """The leaf a whole key belongs to; 0 in an empty tree."""
    if height == 0:
        return 0
    page = enter(words, seen, page_words, root)
    for _ in range(height - 1):
        if page < 0:
            return page
        slot = child_slot(words, page, key, keys, keys, 0)
        page = enter(words, seen, page_words, field(words, page, keys, slot))
    return page


@njit(cache=True, nogil=True)
def count_prefixes(words, seen, page_words, root, height, keys, wanted, most, counts):
    """How many records, up to `most`, start with each of wanted[m, n].  Returns 1, or ``-page_id``."""
    words, seen, wanted, counts = borrowed(words), borrowed(seen), borrowed(wanted), borrowed(counts)
    cursor = np.empty(CURSOR_WORDS, np.int64)
    m = wanted.shape[0]
    key = np.empty(m, np.int64)
    for i in range(wanted.shape[1]):
        for c in range(m):
            key[c] = wanted[c, i]
        counts[i] = 0
        status = seek(words, seen, page_words, root, height, keys, key, m, cursor, 0)
        while status == 1 and counts[i] < most and starts_with(words, cursor, key, m):
            counts[i] += 1
            cursor[LEAF_SLOT] += 1
            if cursor[LEAF_SLOT] == cursor[LEAF_ENTRIES]:
                status = next_leaf(words, seen, page_words, keys, cursor, 0)
        if status < 0:
            return status
    return 1


@njit(cache=True, nogil=True)
def starts_with(words, cursor, key, m):
    for c in range(m):
        if field(words, cursor[LEAF_PAGE], c, cursor[LEAF_SLOT]) != key[c]:
            return False
    return True


@njit(cache=True, nogil=True)
def read_range(words, seen, page_words, keys, columns, stop, stop_m, cursor, out):
    """Decode records from a cursor (see `cursor.seek`) on, up to key ``stop[:stop_m]``, into out[C, n].

    Returns how many; fewer than n means the range is done.  A negative number is ``-page_id``.
    """
    words, seen, columns = borrowed(words), borrowed(seen), borrowed(columns)
    stop, cursor, out = borrowed(stop), borrowed(cursor), borrowed(out)
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


@njit(cache=True, nogil=True)
def tree_pages(words, seen, page_words, root, height, keys, out):
    """Page ids of a tree, root first, into `out`; returns how many there are (or ``-page_id``).

    When `out` is too small the count still comes back, so the caller can grow it.
    """
    if height == 0:
        return 0
    n = 0
    cursor = np.zeros(CURSOR_WORDS, np.int64)
    stack = np.zeros(height, np.int64)
    level = height - 1
    stack[level] = root
    while level < height:
        if level >= 0 and stack[level] > 0:
            page = 0
            if n < out.shape[0]:
                out[n] = stack[level]
            n += 1
            if level == 0:
                stack[0] = 0
                level = 1
                continue
            page = enter(words, seen, page_words, stack[level])
            if page < 0:
                return page
            cursor[PATH + 2 * level - 2] = page
            cursor[PATH + 2 * level - 1] = 0
            stack[level] = 0
        else:
            page = cursor[PATH + 2 * level - 2]
            slot = cursor[PATH + 2 * level - 1]
            if slot == words[page + COUNT]:
                level += 1
                continue
            cursor[PATH + 2 * level - 1] = slot + 1
            stack[level - 1] = field(words, page, keys, slot)
            level -= 1
    return n
