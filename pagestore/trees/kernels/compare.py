"""Walk two versions of a tree at once and report where they differ (*Delta-iterators*).

Each side has a head: a record, or a whole subtree named by an index entry (page id, least key).
Equal page ids mean equal content, so two such heads are skipped together; otherwise the head that
starts first is opened if it is a subtree and reported if it is a record.

`state` is int64[2, 4 + 3 * levels]: level of the head's page (-1 at the end), height, pages read,
where to prefetch (0: nowhere), and for each level (page, slot, entries).

The records of a set T that its subset S lacks, found by counting (*Efficient iteration of
complements*).

    T   0 1 2 3 4 5 6 7        missing(i) = i - (records of S below T[i])
    S   0 1 2   4 5   7        0 0 0 0 1 1 1 2  (2 after the end): it steps up after each missing record,

so the next one is found by galloping and halving over ranks, however many records the two share.
"""

from pagestore.pages.layout import ENTRY_COUNT, ID, PAGE_MASK
from pagestore.pages.page import bits, column, columns_of, field, word_from
from pagestore.pages.verify import child, columns_at, enter
from pagestore.runtime.intrinsics import prefetch
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import LINE, MappedWords, Table, Words
from pagestore.trees.kernels.arguments import CountedTree, FoldWords, TreeRef
from pagestore.trees.kernels.folds import fold_before, select
from pagestore.trees.kernels.node_buffer import ERASE, INSERT

LEVEL, HEIGHT, READ, AHEAD, STACK = range(5)
BLOCK = 16  # words that are compared between two tests
# of a leaf: after comparing each, one of the next leaf is prefetched; a whole leaf is too much at
# once
PARTS = 4


@kernel
def start_delta(old: TreeRef, new: TreeRef, state: Table):
    """Open both roots, unless they are the same page.  Returns 1, or ``-page_id``."""
    state[:, :] = 0
    for tree, side in ((old, state[0]), (new, state[1])):
        side[HEIGHT] = tree.height
        side[LEVEL] = (
            tree.height if tree.height and old.root & PAGE_MASK != new.root & PAGE_MASK else -1
        )
    for tree, side in ((old, state[0]), (new, state[1])):
        if side[LEVEL] > 0:
            level = tree.height - 1
            page = enter(tree.pages, tree.root, level, columns_at(tree.root, 0, level))
            if page < 0:
                return page
            open_page(tree.pages.words, tree.pages.page_words, page, side)
    return 1


@kernel
def open_page(words: MappedWords, page_words: int, page: int, side: Words):
    """Go down one level, to the first entry of a verified page."""
    side[LEVEL] -= 1
    at = STACK + 3 * side[LEVEL]
    side[at] = page
    side[at + 1] = 0
    side[at + 2] = words[page + ENTRY_COUNT]
    side[READ] += 1
    if side[LEVEL] == 0:  # the other side's leaf is mostly next, and then both are read to the end
        for i in range(page, page + page_words, LINE):
            prefetch(words, i)


@kernel
def step(side: Words, n: int):
    """Move past the head and the n - 1 entries after it in its page; up if the page is
    exhausted.
    """
    while side[LEVEL] < side[HEIGHT]:
        at = STACK + 3 * side[LEVEL]
        side[at + 1] += n
        if side[at + 1] < side[at + 2]:
            return
        side[LEVEL] += 1
        n = 1
    side[LEVEL] = -1


@kernel
def compare(words: MappedWords, old: Words, new: Words, columns: int):
    """Compare the heads as tuples of their first columns; return the sign of the difference."""
    a = STACK + 3 * old[LEVEL]
    b = STACK + 3 * new[LEVEL]
    for c in range(columns):
        x = field(words, old[a], c, old[a + 1])
        y = field(words, new[b], c, new[b + 1])
        if x != y:
            return -1 if x < y else 1
    return 0


@kernel
def equal_run(words: MappedWords, page_words: int, old: Words, new: Words, keys: int, columns: int):
    """Count the entries of the heads' pages that are equal from the heads on: children, or records
    by column.

    After each part of a leaf, one part of the next leaf is prefetched, on either side.
    """
    if old[LEVEL]:
        return equal_children(words, old, new, keys, 0)
    page, slot, other, place = old[STACK], old[STACK + 1], new[STACK], new[STACK + 1]
    n, part = min(old[STACK + 2] - slot, new[STACK + 2] - place), old[STACK + 2] // PARTS + 1
    for i in range(0, n, part):
        most = same = min(part, n - i)
        for c in range(columns):
            same = equal_values(words, page, slot + i, other, place + i, c, same)
        if same < most:
            return i + same
        for side in (old, new):
            prefetch_part(words, page_words, side)
    return n


@kernel
def equal_children(words: MappedWords, old: Words, new: Words, keys: int, skip: int):
    """Count the children of the heads' pages, from `skip` after the heads on, that are the same
    pages.
    """
    at = STACK + 3 * old[LEVEL]
    slot, place = old[at + 1] + skip, new[at + 1] + skip
    return equal_values(
        words, old[at], slot, new[at], place, keys, min(old[at + 2] - slot, new[at + 2] - place)
    )


@kernel
def equal_values(words: MappedWords, page: int, slot: int, other: int, place: int, c: int, n: int):
    """Count how many of n values of column c are equal from two slots of two pages on."""
    base, start, width = column(words, page, c)
    other_base, other_start, other_width = column(words, other, c)
    if base == other_base and width == other_width:
        same = equal_bits(
            words, 64 * start + slot * width, 64 * other_start + place * width, n * width
        )
        return same // width if width else n
    i = 0
    gap = other_base - base
    while i < n and bits(words, start, width, slot + i) == gap + bits(
        words, other_start, other_width, place + i
    ):
        i += 1
    return i


@kernel
def equal_bits(words: MappedWords, a: int, b: int, n: int):
    """Count how many of n bits are equal from bits a and b on; tests a BLOCK of words at once."""
    x, y, left, right = a >> 6, b >> 6, a & 63, b & 63
    i = 0
    while i + 64 * BLOCK <= n:
        differs = 0
        for k in range(BLOCK):  # plain, so that the compiler vectorizes it
            differs |= word_from(words, x + k, left) ^ word_from(words, y + k, right)
        if differs:
            break
        i += 64 * BLOCK
        x += BLOCK
        y += BLOCK
    while i < n:
        differs = word_from(words, x, left) ^ word_from(words, y, right)
        if differs:
            while not differs & 1:
                differs >>= 1
                i += 1
            break
        i += 64
        x += 1
        y += 1
    return min(i, n)


@kernel
def report(
    words: MappedWords, side: Words, action: int, columns: int, actions: Words, out: Table, n: int
):
    at = STACK + 3 * side[LEVEL]
    actions[n] = action
    for c in range(columns):
        out[c, n] = field(words, side[at], c, side[at + 1])
    step(side, 1)


@kernel
def next_changes(tree: TreeRef, columns: int, state: Table, actions: Words, out: Table):
    """Fill actions[n] and out[C, n] with the next changes in key order; `tree` is either one.

    Returns how many; 0 when there are no more, ``-page_id`` for a corrupt page.  A changed value is
    ERASE then INSERT, so a batch may end one short of n.
    """
    words, page_words, keys, n = tree.pages.words, tree.pages.page_words, tree.keys, 0
    old, new = state[0], state[1]
    for side in (old, new):  # `start_delta` entered the roots without knowing the number of columns
        at = STACK + 3 * side[LEVEL]
        if side[LEVEL] >= 0 and columns_of(words, side[at]) < (
            keys + 1 if side[LEVEL] else columns
        ):
            return -words[side[at] + ID]
    while n + 2 <= actions.shape[0]:
        if old[LEVEL] < 0 and new[LEVEL] < 0:
            break
        order = order_of_heads(words, old, new, keys)
        if order == 0 and old[LEVEL] == new[LEVEL]:
            level = old[LEVEL]
            same = equal_run(words, page_words, old, new, keys, columns)
            if same:
                step(old, same)
                step(new, same)
                continue
            if level == 0:
                report(words, old, ERASE, columns, actions, out, n)
                report(words, new, INSERT, columns, actions, out, n + 1)
                n += 2
                continue
            if level == 1:
                look_ahead(words, page_words, keys, old, new)
        left = order < 0 or (order == 0 and old[LEVEL] >= new[LEVEL])
        side = old if left else new
        if side[LEVEL] == 0:
            report(words, side, ERASE if left else INSERT, columns, actions, out, n)
            n += 1
            continue
        at, level = STACK + 3 * side[LEVEL], side[LEVEL] - 1
        wanted = keys + 1 if level else columns
        page = child(tree.pages, side[at], keys, side[at + 1], level, wanted)
        if page < 0:
            return page
        open_page(words, page_words, page, side)
    return n


@kernel
def order_of_heads(words: MappedWords, old: Words, new: Words, keys: int):
    """Compare the heads' keys as `compare` does; a side that has ended comes last."""
    if old[LEVEL] < 0:
        return 1
    return -1 if new[LEVEL] < 0 else compare(words, old, new, keys)


@kernel
def look_ahead(words: MappedWords, page_words: int, keys: int, old: Words, new: Words):
    """Note which two leaves after the heads are compared next."""
    same = equal_children(words, old, new, keys, 1)
    for side in (old, new):
        page, slot, entries = side[STACK + 3], side[STACK + 4] + 1 + same, side[STACK + 5]
        side[AHEAD] = field(words, page, keys, slot) * page_words if slot < entries else 0


@kernel
def prefetch_part(words: MappedWords, page_words: int, side: Words):
    """Prefetch one more part of the next leaf."""
    at, part = side[AHEAD], page_words // PARTS
    if at:
        for i in range(at, at + part, LINE):
            prefetch(words, i)
        side[AHEAD] = at + part if (at + part) % page_words else 0


# words of `state`
RANK, STOP, MISSING, PROBES = range(4)


@kernel
def next_missing(
    whole: CountedTree, part: CountedTree, key: Words, acc: Words, state: Words, out: Table
):
    """Fill out[C, n] with the next records of T outside S, from rank state[RANK] to state[STOP].

    state[MISSING] counts the missing ones before state[RANK]; key[keys] and acc[acc_words(F)] are
    scratch. Returns how many records; fewer than n means the end; ``-page_id`` for a corrupt page.
    O(log) probes of O(log) a record.
    """
    n = 0
    while n < out.shape[1] and state[RANK] < state[STOP]:
        low, high = gallop_missing(whole, part, key, acc, state)
        if high <= 0:
            return high if high < 0 else n
        while high - low > 1:
            middle = (low + high) >> 1
            found = missing_before(whole, part, middle, key, acc, state)
            if found < 0:
                return found
            if found > state[MISSING]:
                high = middle
            else:
                low = middle
        page, slot = select(whole.tree, whole.row, low)
        if page < 0:
            return page
        for c in range(out.shape[0]):
            out[c, n] = field(whole.tree.pages.words, page, c, slot)
        n += 1
        state[RANK] = low + 1
        state[MISSING] += 1
    return n


@kernel
def gallop_missing(whole: CountedTree, part: CountedTree, key: Words, acc: Words, state: Words):
    """Return ranks low and high with the next missing record in low..high; high is 0 at the end,
    or ``-page_id``.
    """
    low, step = state[RANK], 1  # missing(low) is still state[MISSING]
    while True:
        high = min(low + step, state[STOP])
        found = missing_before(whole, part, high, key, acc, state)
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
def missing_before(
    whole: CountedTree, part: CountedTree, i: int, key: Words, acc: Words, state: Words
):
    """Return how many of the first i records of T are not in S, at least 0 where S is not a
    subset; or ``-page_id``.
    """
    if i == whole.records:
        return max(0, i - part.records)
    state[PROBES] += 1
    page, slot = select(whole.tree, whole.row, i)
    if page < 0:
        return page
    for c in range(key.shape[0]):
        key[c] = field(whole.tree.pages.words, page, c, slot)
    below = rank_below(part, key, acc)
    return below if below < 0 else max(0, i - below)


@kernel
def rank_below(counted: CountedTree, key: Words, acc: Words):
    """Return how many records of a tree are below a whole key; or ``-page_id``."""
    folds, row = counted.scans.shape[0], counted.row
    if counted.tree.height == 0:
        return 0
    acc[2 * folds] = 0
    status = fold_before(
        counted.tree, FoldWords(counted.scans, row, row + 1), key, key.shape[0], acc
    )
    if status < 0:
        return status
    return acc[row] if acc[2 * folds] else 0
