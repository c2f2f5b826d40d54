"""Fold any interval of keys out of a tree's folds; rank and select (*Scans*).

    root        [ ....l=======r.... ]      whole children between the two with the bounds
    level 1       [..l====]  [==r...]      what is after the lower bound, what is before the upper one
    leaves          [..===]  [==..]        and within each page the same again, by its ScanTree

The accumulator `acc` is int64[2 F + 2]: the fold so far, F spare words, then whether there is one
and how many applications it took.  Pieces are taken in key order, so an operator need not be
commutative; those that `is_plain` accepts are, and take them in any order.

Rank and select: how many records are below a key, and which record has a given number below it.

    root      | 0 (3 records) | 40 (5) | 90 (2) |        rank of 95: 3 + 5, and those below 95 in the third leaf
                                                         select(6): 3 <= 6 < 8, so in the second
                                                         leaf, place 6 - 3

Both go by the count folds of index pages and of ScanTrees: O(height * log entries). Records that
count as often as a value column says are found by the sum of that column in the same way
(`find_weighted`).
"""

from pagestore.pages.layout import ENTRY_COUNT, HEIGHT_MAX, ID, SCAN, WORD_MIN
from pagestore.pages.operators import COUNT, MAX, MIN, SUM, combine, lift_entry
from pagestore.pages.page import NARROW, bits, child_slot, column, field, folds_of, locate, narrow
from pagestore.pages.scan_tree import tree_column, tree_start
from pagestore.pages.verify import child, columns_at, enter
from pagestore.runtime.intrinsics import prefetch, words_at
from pagestore.runtime.kernel import function_pointer, inlined, kernel
from pagestore.runtime.types import LINE, MappedWords, Table, Tables, Words
from pagestore.trees.kernels.arguments import Bounds, FoldWords, TreeRef
from pagestore.trees.kernels.lookup import (
    EQUAL,
    LOW,
    PAGE,
    PLACE_ROWS,
    READY,
    locate_many,
    unpacked,
)

GROUP = 32  # intervals whose bounds are searched together
UNBOUNDED = -1
ADDING = 48  # bits of the widest values whose sum over a page fits a word
HALF = 0xFFFFFFFF
PROBES = 32  # parts of a leaf's keys; five halvings probe at their ends


@kernel
def acc_words(folds: int):
    return 2 * folds + 2


@kernel
def take(scans: Table, first: int, end: int, acc: Words):
    """Combine the fold in the spare words into the accumulator."""
    folds = scans.shape[0]
    if acc[2 * folds]:
        acc[2 * folds + 1] += combine(scans, first, end, acc, 0, 1, acc, folds, 1)
        return
    for f in range(first, end):
        acc[f] = acc[folds + f]
    acc[2 * folds] = 1


@inlined
def fold_page(words, page, level, keys, scans, first, end, lo, hi, acc):
    """Fold entries lo..hi of a page by its ScanTree: at most two nodes of each depth and two cut
    leaves.
    """
    if lo >= hi:
        return
    if is_plain(scans, first, end):
        fold_plain(words, page, level, keys, scans, first, lo, hi, acc)
        return
    area, depth, i, a, j, b = parts(words, page, end, lo, hi)
    fold_entries(words, page, level, keys, scans, first, end, lo, a, acc)
    fold_nodes(words, page, area, scans, first, end, (1 << depth) + i, (1 << depth) + j, acc)
    fold_entries(words, page, level, keys, scans, first, end, b, hi, acc)


@inlined
def is_plain(scans: Table, first: int, end: int):
    """Return whether a scan is COUNT, SUM, MIN or MAX of one column."""
    op = scans[first, 0]
    return op <= MAX and end == first + 1 + (op == SUM)


@inlined
def scan_header(words: MappedWords, page: int, end: int):
    """Return the word that locates a page's ScanTree; 0 for none, and for one without the fold
    words before `end`.
    """
    return words[page + SCAN] if folds_of(words, page) >= end else 0


@inlined
def parts(words: MappedWords, page: int, end: int, lo: int, hi: int):
    """Split entries lo..hi into entries lo..a, leaves i..j of the ScanTree and entries b..hi.

    Returns (area, depth, i, a, j, b); without whole leaves i = j and a = b = hi.
    """
    header = scan_header(words, page, end)
    area, depth = page + (header >> 8 & 0xFFFFFF), header & 255
    if depth:
        entries = words[page + ENTRY_COUNT]
        i, a = leaf_behind(words, page, area, entries, depth, lo)
        j, b = leaf_before(words, page, area, entries, depth, hi)
        if i < j:
            return area, depth, i, a, j, b
    return area, depth, 0, hi, 0, hi


@inlined
def fold_plain(words, page, level, keys, scans, first, lo, hi, acc):
    """Fold a page like `fold_page`, for COUNT, SUM, MIN and MAX of one word, in registers until the
    page is done.

    A sum adds up by halves of words, without a carry. MIN is the MAX of complements.
    """
    folds = scans.shape[0]
    op = scans[first, 0]
    flip = -1 if op == MIN else 0
    n = acc[2 * folds]
    low, middle, high = 0 if op <= SUM else WORD_MIN, 0, 0
    if n:
        low, middle, high = added(
            op, acc[first], acc[first + 1] if op == SUM else 0, low, middle, high
        )
    if level == 0 and op == COUNT:
        low += hi - lo
        n += 1
    else:
        area, depth, i, a, j, b = parts(words, page, first + 1 + (op == SUM), lo, hi)
        base, start, width = column(words, page, keys + 1 + first if level > 0 else scans[first, 1])
        top_base, top_start, top_width = 0, start, 0
        if op == SUM and level > 0:
            top_base, top_start, top_width = column(words, page, keys + 2 + first)
        narrowly = width <= (ADDING if op == SUM else NARROW)
        if level > 0:  # children's sums: if their high words are equal, no low one needs a carry
            narrowly = narrowly and (op > SUM or (op == SUM and top_width == 0))
        for side in range(2):
            at, stop = (lo, a) if side == 0 else (b, hi)
            n += stop - at
            if narrowly and at < stop:
                part, halves, top = folded_narrow(words, op, base, start, width, flip, at, stop)
                if op == SUM:
                    low, middle = low + part, middle + halves
                    high += (stop - at) * top_base if level > 0 else top
                else:
                    low = max(low, part)
                continue
            for k in range(at, stop):
                value = base + bits(words, start, width, k)
                top = top_base + bits(words, top_start, top_width, k) if level > 0 else value >> 63
                low, middle, high = added(op, value, top, low, middle, high)
        if i < j:
            low, middle, high, nodes = folded_nodes(
                words, page, op, area, first, depth, i, j, low, middle, high
            )
            n += nodes
    put_plain(op, flip, low, middle, high, first, acc)
    acc[2 * folds] = 1
    acc[2 * folds + 1] += n - 1


@inlined
def put_plain(op: int, flip: int, low: int, middle: int, high: int, first: int, acc: Words):
    """Put a fold that was kept in registers into `acc`: a count, a sum of two words, or an
    extreme.
    """
    if op <= SUM:
        middle += low >> 32
        acc[first] = middle << 32 | low & HALF
        if op == SUM:
            acc[first + 1] = high + (middle >> 32)
    else:
        acc[first] = low ^ flip


@inlined
def folded_narrow(
    words: MappedWords, op: int, base: int, start: int, width: int, flip: int, at: int, stop: int
):
    """Fold entries at..stop of a narrow column, one load each: a sum by halves and its high
    words, or a maximum.
    """
    if op == SUM:
        total = 0
        for k in range(at, stop):
            total += narrow(words, start, width, k)
        many = stop - at
        return (
            many * (base & HALF) + (total & HALF),
            many * (base >> 32 & HALF) + (total >> 32),
            many * (base >> 63),
        )
    most = WORD_MIN
    for k in range(at, stop):
        most = max(most, narrow(words, start, width, k) ^ flip)
    return base + (most ^ flip) ^ flip, 0, 0


@inlined
def folded_nodes(words, page, op, area, first, depth, i, j, low, middle, high):
    """Add leaves i..j of a ScanTree to a fold by the fewest of its nodes; return the fold and
    the number of nodes.
    """
    base, start, width = tree_column(words, page, area, 1 + first)
    top_base, top_start, top_width = (
        tree_column(words, page, area, 2 + first) if op == SUM else (0, start, 0)
    )
    n, left, right = 0, (1 << depth) + i, (1 << depth) + j
    while left < right:
        if left & 1:
            top = top_base + bits(words, top_start, top_width, left - 1)
            low, middle, high = added(
                op, base + bits(words, start, width, left - 1), top, low, middle, high
            )
            n, left = n + 1, left + 1
        if right & 1:
            right -= 1
            top = top_base + bits(words, top_start, top_width, right - 1)
            low, middle, high = added(
                op, base + bits(words, start, width, right - 1), top, low, middle, high
            )
            n += 1
        left >>= 1
        right >>= 1
    return low, middle, high, n


@inlined
def added(op: int, value: int, top: int, low: int, middle: int, high: int):
    """Add a word and its high word to a fold of COUNT or SUM in halves, or to a MIN or MAX in
    `low`.
    """
    if op <= SUM:
        return low + (value & HALF), middle + (value >> 32 & HALF), high + top
    return max(low, ~value if op == MIN else value), middle, high


@kernel
def fold_entries(words, page, level, keys, scans, first, end, lo, hi, acc):
    """Fold entries lo..hi one by one; a few of them, at the edges of an interval."""
    folds = scans.shape[0]
    for i in range(lo, hi):
        for f in range(first, end):
            acc[folds + f] = lift_entry(words, page, level, keys, scans, f, i)
        take(scans, first, end, acc)


@inlined
def leaf_behind(words: MappedWords, page: int, area: int, entries: int, depth: int, slot: int):
    """Return the first leaf of a ScanTree that starts at or after `slot`, and its start;
    searches from an even cut.
    """
    if slot == 0:
        return 0, 0
    j = (slot << depth) // entries
    while j > 0 and tree_start(words, page, area, entries, depth, j - 1) >= slot:
        j -= 1
    start = tree_start(words, page, area, entries, depth, j)
    while start < slot:
        j += 1
        start = tree_start(words, page, area, entries, depth, j)
    return j, start


@inlined
def leaf_before(words: MappedWords, page: int, area: int, entries: int, depth: int, slot: int):
    """Return the last leaf (or L) of a ScanTree that starts at or before `slot`, and its start."""
    if slot == entries:
        return 1 << depth, entries
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
    """Fold leaf nodes left..right of a heap: upwards from left, then the right ones downwards,
    all in key order.
    """
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
def take_node(
    words: MappedWords, page: int, area: int, scans: Table, first: int, end: int, k: int, acc: Words
):
    """Combine the stored fold of node k into the accumulator."""
    folds = scans.shape[0]
    for f in range(first, end):
        base, start, width = tree_column(words, page, area, 1 + f)
        acc[folds + f] = base + bits(words, start, width, k - 1)
    take(scans, first, end, acc)


@kernel
def fold_intervals(
    tree: TreeRef, folds: FoldWords, bounds: Bounds, out: Table, full: Words, work: Words
):
    """Fold the records of n intervals, bounds.words[:low, i] <= key < bounds.words[:high, n + i]
    (see arguments.py).

    No columns mean unbounded.  Writes out[f, i] and full[i], whether there was a record at all;
    `work` has work_words(F, n).  Takes GROUP intervals at a time: down to all bounds together, then
    one fold after the other. Returns the applications, or ``-page_id``.  O(log n) applications, 2 *
    height pages each.
    """
    words, scans, first = tree.pages.words, folds.scans, folds.first
    end, low, high = folds.end, bounds.low, bounds.high
    acc = work[: acc_words(scans.shape[0])]
    acc[2 * scans.shape[0] + 1] = 0
    rest, width = work[acc.shape[0] :], 2 * min(GROUP, full.shape[0])
    group, rest = rest[:width], rest[width:]
    place, rest = rest[: PLACE_ROWS * width].reshape(PLACE_ROWS, width), rest[PLACE_ROWS * width :]
    ways = rest[: 2 * HEIGHT_MAX * width].reshape(HEIGHT_MAX, 2, width)
    n = full.shape[0] if tree.height else 0
    full[:], out[:, :] = 0, 0
    for begin in range(0, n, GROUP):
        size = min(GROUP, n - begin)
        for g in range(size):
            group[g], group[size + g] = begin + g, n + begin + g
        together = size if low == high else 0
        for at in range(0, size + 1 if not together else 1, size):
            status = descend_many(
                tree,
                end,
                low if at == 0 else high,
                bounds.words,
                group[at : at + size + together],
                at,
                scans[first, 0] != COUNT,
                place,
                ways,
            )
            if status < 0:
                return status
        for g in range(0 if low else size, 2 * size if high else size):
            if scans[first, 0] != COUNT:
                prefetch_column(words, ways[0, 0, g], scans[first, 1], ways[0, 1, g])
        for g in range(size):
            acc[2 * scans.shape[0]] = 0
            fold_between(tree, folds, ways, g, size + g, acc)
            full[begin + g] = acc[2 * scans.shape[0]]
            for f in range(first, end if full[begin + g] else first):
                out[f - first, begin + g] = acc[f]
    return acc[2 * scans.shape[0] + 1]


fold_intervals_at = function_pointer(fold_intervals)


@kernel
def fold_one(room: int, low: int, high: int):
    """Fold one interval like `fold_intervals`, with everything in one array at address `room`.

    It holds the numbers of a look-up (see `lookup.find_record`), then keys, first, end, F and the
    scans; then the bounds int64[K, 2], the fold words, whether there was a record, and
    work_words(F, 1).  Returns 1 if there was one, 0 if not, or ``-page_id``.
    """
    ready = words_at(room, READY + 4)
    keys, first, end, folds = ready[READY], ready[READY + 1], ready[READY + 2], ready[READY + 3]
    at = room + 8 * (READY + 4)
    scans = words_at(at, 3 * folds).reshape(folds, 3)
    at += 24 * folds
    bounds = words_at(at, 2 * keys).reshape(keys, 2)
    at += 16 * keys
    out = words_at(at, end - first).reshape(end - first, 1)
    at += 8 * (end - first)
    full, work = words_at(at, 1), words_at(at + 8, work_words(folds, 1))
    tree, some = unpacked(ready, keys), FoldWords(scans, first, end)
    status = fold_intervals(tree, some, Bounds(bounds, low, high), out, full, work)
    return status if status < 0 else full[0]


@inlined
def prefetch_column(words: MappedWords, page: int, c: int, slot: int):
    """Prefetch what folding a leaf from a slot on, or up to it, reads of column c."""
    _, start, width = column(words, page, c)
    around = start + (slot * width >> 6)
    for i in range(around - 2 * LINE, around + 3 * LINE, LINE):
        prefetch(words, i)


@inlined
def prefetch_leaf(words: MappedWords, page: int, page_words: int, folded: bool, few: bool):
    """Prefetch what is read of a leaf next: its ScanTree, and of few leaves the keys that
    halving probes.
    """
    header = words[page + SCAN]
    if folded and header & 255:
        for i in range(page + (header >> 8 & 0xFFFFFF), page + page_words, LINE):
            prefetch(words, i)
    if few:
        _, start, width = column(words, page, 0)
        span = words[page + ENTRY_COUNT] * width
        for k in range(1, PROBES):
            prefetch(words, start + (span * k // PROBES >> 6))


@kernel
def work_words(folds: int, n: int):
    """Return the words of scratch of `fold_intervals`: accumulator, keys of a group, their
    place, paths.
    """
    return acc_words(folds) + (1 + PLACE_ROWS + 2 * HEIGHT_MAX) * 2 * min(GROUP, n)


@kernel
def descend_many(tree, end, m, bounds, group, at, folded, place, ways):
    """Find the path to each of bounds[:m, group[g]]: ways[level, 0, at + g] is a page, ways[level,
    1, at + g] a slot.

    In a leaf, the slot of the first record at or after the bound; in an index page, the child that
    holds that place.  Slot UNBOUNDED of the root if m is 0.  The fold words before `end` are read
    afterwards, and if `folded` the ScanTrees of leaves.  Returns 1, or ``-page_id``.
    """
    words, page_words = tree.pages.words, tree.pages.page_words
    n, pages = group.shape[0], place[PAGE]
    pages[:n] = folded_root(tree, end)
    for level in range(tree.height - 1, -1, -1):
        for g in range(n):
            if pages[g] < 0:
                return pages[g]
            ways[level, 0, at + g] = pages[g]
        if m == 0:
            ways[level, 1, at : at + n] = UNBOUNDED
            return 1
        # header, descriptors and the ScanTree's half, of both
        for g in range(n if level == 0 and n <= 2 else 0):
            for i in (0, LINE, page_words - LINE if folded else 0):
                prefetch(words, pages[g] + i)
        for g in range(n if level == 0 else 0):
            prefetch_leaf(words, pages[g], page_words, folded, n <= 2)
        locate_many(words, m, bounds, group, place)
        for g in range(n):
            slot = place[LOW, g]
            if level:
                slot = max(slot - 1 + (place[EQUAL, g] if m == tree.keys else 0), 0)
                pages[g] = folded_child(tree, end, pages[g], slot, level - 1)
            ways[level, 1, at + g] = slot
    return 1


@kernel
def folded_root(tree: TreeRef, end: int):
    """Return the root like `root_of`, after verifying that the fold words before `end` can be
    read.
    """
    level = tree.height - 1
    return enter(tree.pages, tree.root, level, columns_folded(tree, end, level))


@kernel
def folded_child(tree: TreeRef, end: int, page: int, slot: int, level: int):
    """Return a child like `child_of`, after verifying that the fold words before `end` can be
    read.
    """
    return child(tree.pages, page, tree.keys, slot, level, columns_folded(tree, end, level))


@kernel
def columns_folded(tree: TreeRef, end: int, level: int):
    """Return how many columns of the pages of a level are read to fold the words before `end`."""
    return tree.keys + 1 + end if level else columns_at(tree.root, tree.keys, 0)


@kernel
def fold_between(tree: TreeRef, folds: FoldWords, ways: Tables, lower: int, upper: int, acc: Words):
    """Fold what lies between two paths: up along the lower one to where they part, then down along
    the upper one.

    A plain operator begins where they part: the leaves may still be on their way to the cache.
    """
    words, scans, first, end = tree.pages.words, folds.scans, folds.first, folds.end
    level = tree.height - 1
    while level > 0 and ways[level, 1, lower] == ways[level, 1, upper] != UNBOUNDED:
        level -= 1
    behind, before = ways[level, 1, lower] != UNBOUNDED, ways[level, 1, upper] != UNBOUNDED
    if before and ways[level, 1, lower] > ways[level, 1, upper]:
        return
    downwards = is_plain(scans, first, end)
    for i in range(2 * level + 1):
        step = level + ((i + 1) >> 1) * (1 - 2 * (i & 1)) if downwards else i
        if (step < level and not behind) or (step > level and not before):
            continue
        d = min(step, 2 * level - step)
        page = ways[d, 0, lower if step < level else upper]
        lo = max(ways[d, 1, lower] + (d > 0), 0) if step <= level else 0
        hi = ways[d, 1, upper] if step >= level and before else words[page + ENTRY_COUNT]
        fold_page(words, page, d, tree.keys, scans, first, end, lo, hi, acc)


@kernel
def fold_before(tree: TreeRef, folds: FoldWords, key: Words, m: int, acc: Words):
    """Fold all records of a tree, not an empty one, that are before the upper bound, on the way
    down.
    """
    words, scans, first, end = tree.pages.words, folds.scans, folds.first, folds.end
    page = folded_root(tree, end)
    for d in range(tree.height - 1, -1, -1):
        if page < 0:
            return page
        if d == 0:
            slot, _ = locate(words, page, key, m, 0)
        else:
            slot = child_slot(words, page, key, m, tree.keys, 0)
        fold_page(words, page, d, tree.keys, scans, first, end, 0, slot, acc)
        if d:
            page = folded_child(tree, end, page, slot, d - 1)
    return 1


@kernel
def select(tree: TreeRef, count_row: int, rank: int):
    """Return (page, slot) of the record with `rank` records before it, by its count folds; or
    (``-page_id``, 0).
    """
    words, end = tree.pages.words, count_row + 1
    page = folded_root(tree, end)
    for level in range(tree.height - 1, 0, -1):
        if page < 0:
            return page, 0
        slot, rank = go_down(words, page, tree.keys + 1 + count_row, count_row, rank)
        if slot == words[page + ENTRY_COUNT]:
            return -words[page + ID], 0
        page = folded_child(tree, end, page, slot, level - 1)
    if page > 0 and (rank < 0 or rank >= words[page + ENTRY_COUNT]):
        return -words[page + ID], 0
    return page, rank


@kernel
def go_down(words: MappedWords, page: int, c: int, row: int, rank: int):
    """Return the entry that holds a rank, and the rank within it: down the ScanTree of a row, then
    along column c.

    Wrong counts lead at most to the slot after the last entry.
    """
    header = scan_header(words, page, row + 1)
    depth = header & 255
    slot = 0
    if depth:
        area = page + (header >> 8 & 0xFFFFFF)
        base, start, width = tree_column(words, page, area, 1 + row)
        k = 1
        while not k >> depth:
            k <<= 1
            below = base + bits(words, start, width, k - 1)
            if rank >= below:
                rank -= below
                k += 1
        slot = tree_start(words, page, area, words[page + ENTRY_COUNT], depth, k - (1 << depth))
    base, start, width = column(words, page, c)
    while slot < words[page + ENTRY_COUNT]:
        below = base + bits(words, start, width, slot)
        if rank < below:
            break
        rank -= below
        slot += 1
    return slot, rank


@kernel
def select_records(tree: TreeRef, columns: int, count_row: int, ranks: Words, out: Table):
    """Write the records of ranks[n], all within the tree, to out[C, n].  Returns 1 or
    ``-page_id``.  O(n log count).
    """
    for i in range(ranks.shape[0]):
        page, slot = select(tree, count_row, ranks[i])
        if page < 0:
            return page
        for c in range(columns):
            out[c, i] = field(tree.pages.words, page, c, slot)
    return 1


@kernel
def find_weighted(tree: TreeRef, columns: int, row: int, weight: int, ranks: Words, out: Table):
    """Select like `select_records`, a record counting as often as its column `weight`, which
    scan `row` sums, says.
    """
    words, end = tree.pages.words, row + 1
    for i in range(ranks.shape[0]):
        rank = ranks[i]
        page, slot = folded_root(tree, end), 0
        for level in range(tree.height - 1, -1, -1):
            if page < 0:
                return page
            slot, rank = go_down(
                words, page, weight if level == 0 else tree.keys + 1 + row, row, rank
            )
            if slot == words[page + ENTRY_COUNT]:
                return -words[page + ID]
            if level:
                page = folded_child(tree, end, page, slot, level - 1)
        for c in range(columns):
            out[c, i] = field(words, page, c, slot)
    return 1
