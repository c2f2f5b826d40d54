"""What a set T has and its subset S has not, by counting (*Efficient iteration of complements*).

    T   0 1 2 3 4 5 6 7        missing(i) = i - (records of S below T[i])
    S   0 1 2   4 5   7        0 0 0 0 1 1 1 2  (2 behind the end): it steps up behind each missing record,

so the next one is found by galloping and halving over ranks, however many records the two share.
"""

import numpy as np

from pagestore.pages.page import field
from pagestore.runtime.borrowed import borrowed
from pagestore.runtime.compiler import allocating, kernel
from pagestore.trees.kernels.range_fold import acc_words
from pagestore.trees.kernels.rank_select import fold_before, select

# words of `state`
RANK, STOP, MISSING, PROBES = range(4)


@kernel
def rank_below(words, seen, page_words, root, height, keys, scans, row, key, acc):
    """How many records of a tree are below a whole key; or ``-page_id``."""
    folds = scans.shape[0]
    if height == 0:
        return 0
    acc[2 * folds] = 0
    status = fold_before(words, seen, page_words, root, height - 1, keys, scans, row, row + 1, key, keys, acc)
    if status < 0:
        return status
    return acc[row] if acc[2 * folds] else 0


@kernel
def missing_before(
    words, seen, page_words, root, height, row, i, end,
    part_words, part_seen, part_root, part_height, part_scans, part_row, part_count,
    keys, key, acc, state,
):  # fmt: skip
    """How many of the first i records of T are not in S, at least 0 where S is no subset; or ``-page_id``."""
    if i == end:
        return max(0, i - part_count)
    state[PROBES] += 1
    page, slot = select(words, seen, page_words, root, height, keys, row, i)
    if page < 0:
        return page
    for c in range(keys):
        key[c] = field(words, page, c, slot)
    below = rank_below(part_words, part_seen, page_words, part_root, part_height, keys, part_scans, part_row, key, acc)
    return below if below < 0 else max(0, i - below)


@allocating
def next_missing(
    words, seen, page_words, root, height, row, end,
    part_words, part_seen, part_root, part_height, part_scans, part_row, part_count,
    keys, columns, state, out,
):  # fmt: skip
    """Fill out[C, n] with the next records of T outside S, from rank state[RANK] to state[STOP].

    state[MISSING] counts the missing ones before state[RANK].  Returns how many; fewer than n means the
    end; ``-page_id`` for a corrupt page.  O(log) probes of O(log) a record.
    """
    words, seen, part_words, part_seen = borrowed(words), borrowed(seen), borrowed(part_words), borrowed(part_seen)
    part_scans, state, out = borrowed(part_scans), borrowed(state), borrowed(out)
    key = np.empty(keys, np.int64)
    acc = np.empty(acc_words(part_scans.shape[0]), np.int64)
    n = 0
    while n < out.shape[1] and state[RANK] < state[STOP]:
        low, step = state[RANK], 1  # missing(low) is still state[MISSING]
        while True:  # gallop to a rank behind the missing record
            high = min(low + step, state[STOP])
            found = missing_before(
                words, seen, page_words, root, height, row, high, end,
                part_words, part_seen, part_root, part_height, part_scans, part_row, part_count,
                keys, key, acc, state,
            )  # fmt: skip
            if found < 0:
                return found
            if found > state[MISSING]:
                break
            low = high
            if low == state[STOP]:
                state[RANK] = low
                return n
            step <<= 1
        while high - low > 1:
            middle = (low + high) >> 1
            found = missing_before(
                words, seen, page_words, root, height, row, middle, end,
                part_words, part_seen, part_root, part_height, part_scans, part_row, part_count,
                keys, key, acc, state,
            )  # fmt: skip
            if found < 0:
                return found
            if found > state[MISSING]:
                high = middle
            else:
                low = middle
        page, slot = select(words, seen, page_words, root, height, keys, row, low)
        if page < 0:
            return page
        for c in range(columns):
            out[c, n] = field(words, page, c, slot)
        n += 1
        state[RANK] = low + 1
        state[MISSING] += 1
    return n
