"""The records of a set T that its subset S lacks, found by counting (*Efficient iteration of complements*).

    T   0 1 2 3 4 5 6 7        missing(i) = i - (records of S below T[i])
    S   0 1 2   4 5   7        0 0 0 0 1 1 1 2  (2 after the end): it steps up after each missing record,

so the next one is found by galloping and halving over ranks, however many records the two share.
"""

from pagestore.pages.page import field
from pagestore.runtime.kernel import kernel
from pagestore.trees.kernels.rank_select import fold_before, select

# words of `state`
RANK, STOP, MISSING, PROBES = range(4)


@kernel
def next_missing(whole, part, keys, key, acc, state, out):
    """Fill out[C, n] with the next records of T outside S, from rank state[RANK] to state[STOP].

    state[MISSING] counts the missing ones before state[RANK]; key[keys] and acc[acc_words(F)] are scratch.
    Returns how many records; fewer than n means the end; ``-page_id`` for a corrupt page.  O(log) probes of O(log) a
    record.
    """
    pages = whole.pages
    n = 0
    while n < out.shape[1] and state[RANK] < state[STOP]:
        low, high = gallop_missing(whole, part, keys, key, acc, state)
        if high <= 0:
            return high if high < 0 else n
        while high - low > 1:
            middle = (low + high) >> 1
            found = missing_before(whole, part, middle, keys, key, acc, state)
            if found < 0:
                return found
            if found > state[MISSING]:
                high = middle
            else:
                low = middle
        page, slot = select(pages.words, pages.seen, pages.page_words, whole.root, whole.height, keys, whole.row, low)
        if page < 0:
            return page
        for c in range(out.shape[0]):
            out[c, n] = field(pages.words, page, c, slot)
        n += 1
        state[RANK] = low + 1
        state[MISSING] += 1
    return n


@kernel
def gallop_missing(whole, part, keys, key, acc, state):
    """Return ranks low and high with the next missing record in low..high; high is 0 at the end, or ``-page_id``."""
    low, step = state[RANK], 1  # missing(low) is still state[MISSING]
    while True:
        high = min(low + step, state[STOP])
        found = missing_before(whole, part, high, keys, key, acc, state)
        if found < 0:
            return low, found
        if found > state[MISSING]:
            return low, high
        low = high
        if low == state[STOP]:
            state[RANK] = low
            return low, 0
        step <<= 1


@kernel
def missing_before(whole, part, i, keys, key, acc, state):
    """Return how many of the first i records of T are not in S, at least 0 where S is no subset; or ``-page_id``."""
    if i == whole.records:
        return max(0, i - part.records)
    state[PROBES] += 1
    pages = whole.pages
    page, slot = select(pages.words, pages.seen, pages.page_words, whole.root, whole.height, keys, whole.row, i)
    if page < 0:
        return page
    for c in range(keys):
        key[c] = field(pages.words, page, c, slot)
    below = rank_below(part, keys, key, acc)
    return below if below < 0 else max(0, i - below)


@kernel
def rank_below(tree, keys, key, acc):
    """Return how many records of a tree are below a whole key; or ``-page_id``."""
    pages, folds, row = tree.pages, tree.scans.shape[0], tree.row
    if tree.height == 0:
        return 0
    acc[2 * folds] = 0
    status = fold_before(
        pages.words, pages.seen, pages.page_words, tree.root, tree.height - 1, keys, tree.scans, row, row + 1, key,
        keys, acc,
    )  # fmt: skip
    if status < 0:
        return status
    return acc[row] if acc[2 * folds] else 0
