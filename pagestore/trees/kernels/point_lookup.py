"""Look up one key, at the speed of memory.

    root ──▶ leaf:  the separators around the leaf say about where in it the key is: its probe is loaded together
                    with the leaf's header, so that a look-up waits for the leaf once

A mispredicted branch costs as much as the rest, so halving has none.
"""

from pagestore.pages.enter import child, columns_at, enter
from pagestore.pages.layout import ENTRY_COUNT, HEADER
from pagestore.pages.page import bits, column, field, halve, lower, run_end
from pagestore.runtime.intrinsics import LINE, as_array, bytes_at, either, prefetch, words_at
from pagestore.runtime.kernel import inlined, kernel
from pagestore.trees.kernels.batch_lookup import (
    FAR,
    HEIGHT,
    LIKE,
    NEAR,
    PAGE_WORDS,
    READY,
    ROOT,
    SEEN,
    SEEN_AT,
    VALUES,
    WORDS,
    WORDS_AT,
)


@kernel
def find_record(ready, key, out):
    """Look up one key, a tuple, and write its V value words to address `out`.  Returns 1, 0 or ``-page_id``.

    Each argument costs time, so map, verified pages and tree are numbers at one address.
    """
    ready, wanted = words_at(ready, READY), as_array(key)
    page, slot = find_slot(ready, wanted)
    if page < 0 or slot < 0:
        return min(page, 0)
    words, keys, values = words_at(ready[WORDS_AT], ready[WORDS]), wanted.shape[0], words_at(out, ready[VALUES])
    for v in range(values.shape[0]):
        values[v] = field(words, page, keys + v, slot)
    return 1


@inlined
def find_slot(ready, wanted):
    """Return (page, slot) of a key, slot -1 if it is absent; or (``-page_id``, -1).

    All that is needed of the leaf is loaded at once: the separators around it say about where in it the key is, and
    the leaf that was read last, whichever it was, where a leaf has its columns.
    """
    words, seen = words_at(ready[WORDS_AT], ready[WORDS]), bytes_at(ready[SEEN_AT], ready[SEEN])
    root, keys, page_words = ready[ROOT], wanted.shape[0], ready[PAGE_WORDS]
    top, c, part = ready[HEIGHT] - 1, 0, 0.5
    page = enter(words, seen, page_words, root, top, columns_at(root, keys, top)) if top >= 0 else 0
    slot, equal = 0, False
    for level in range(top, -1, -1):
        if page < 0:
            break
        prefetch(words, page + HEADER)
        if level == 0 and ready[LIKE]:
            prefetch_near(words, page, ready[LIKE], keys + ready[VALUES], part)
        slot, equal = locate_near(words, page, wanted, keys, c, part)
        if level:
            slot = slot if equal else max(slot - 1, 0)
            c, part = between(words, page, slot, wanted, keys)
            page = child(words, seen, page_words, page, keys, slot, level - 1, columns_at(root, keys, level - 1))
        else:
            ready[LIKE] = page
    return page, slot if page > 0 and equal else -1


@kernel
def between(words, page, slot, key, keys):
    """Return the first column in which a child's separator and the next differ, and how far between them the key is."""
    if slot + 1 < words[page + ENTRY_COUNT]:
        for c in range(keys):
            low, high = field(words, page, c, slot), field(words, page, c, slot + 1)
            if low != high:
                part = (float(key[c]) - float(low)) / max(float(high) - float(low), 1.0)
                return c, min(max(part, 0.0), 1.0)
    return 0, 0.5


@kernel
def prefetch_near(words, page, like, columns, part):
    """Prefetch the entries within NEAR of a relative place in a page, with the columns where page `like` has them."""
    guess = int(part * words[like + ENTRY_COUNT])
    for c in range(columns):
        _, start, width = column(words, like, c)
        begin = page - like + start
        for i in range(max(guess - NEAR, 0) * width >> 6, ((guess + NEAR) * width >> 6) + LINE, LINE):
            prefetch(words, begin + i)


@kernel
def locate_near(words, page, key, m, near_c, part):
    """Do as `locate` for a key that by column near_c is about at `part` of the page, and equal in those before it."""
    lo, hi = 0, words[page + ENTRY_COUNT]
    guess = int(part * hi)
    for c in range(m):
        if c:
            hi = run_end(words, page, c - 1, lo, hi, key[c - 1])
        if c == near_c:
            lo = near(words, page, c, lo, hi, key[c], guess)
        else:
            lo = lower(words, page, c, lo, hi, key[c])
        if lo == hi or field(words, page, c, lo) != key[c]:
            return lo, False
    return lo, True


@kernel
def near(words, page, c, lo, hi, x, guess):
    """Do as `lower`, fast if the result is within NEAR of `guess`; else as `lower_far`, after two probes."""
    base, start, width = column(words, page, c)
    first, last = max(lo, min(guess, hi) - NEAR), min(hi, max(guess, lo) + NEAR)
    if first > lo and base + bits(words, start, width, first - 1) >= x:
        return lower_far(words, page, c, lo, first - 1, x)
    if last < hi and base + bits(words, start, width, last) < x:
        return lower_far(words, page, c, last + 1, hi, x)
    return halve(words, base, start, width, first, last, x)


@kernel
def lower_far(words, page, c, lo, hi, x):
    """Do as `lower` for entries that are not in the cache: waits once for every three halvings."""
    base, start, width = column(words, page, c)
    n = hi - lo
    while n > 1:
        if n * width > FAR:
            for k in range(1, 8):
                prefetch(words, start + ((lo + (n * k >> 3)) * width >> 6))
        for _ in range(3):
            half = n >> 1  # with 0 the probe is one before, which does no harm
            lo += either(base + bits(words, start, width, lo + half - 1) < x, half, 0)
            n -= half
    return lo + (n > 0 and base + bits(words, start, width, lo) < x)
