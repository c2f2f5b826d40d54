"""Update folds in place, on pages where values change but no entry is inserted or deleted.

    leaf    [5 9 4] sum 18, max 9        the 9 becomes 7: the sum by the difference, -2; the maximum is folded again
    path    up to the root, as long as folds change

Only counts, sums, minima and maxima are updated this way; other folds are refolded along the paths of the edits.
"""

from pagestore.pages.arguments import FoldColumn
from pagestore.pages.fold_operators import CARRY, MAX, MIN, SUM, group_end
from pagestore.pages.layout import ENTRY_COUNT, SCAN
from pagestore.pages.page import bits, column, pack, unpack_bits
from pagestore.pages.scan_tree import APPLIED, layout_of, stored, tree_column
from pagestore.runtime.kernel import inlined, kernel

DIFFERING = 48  # bits; the differences of a whole page of values this narrow add up within a word


@kernel
def in_place(words, kept, node, scans, n):
    """Return whether folds are plain (count, sum, min or max of one word) and entries keep their number and places."""
    same = n == words[kept.old + ENTRY_COUNT]
    for r in range(kept.runs):
        same &= node[kept.row, r] == node[kept.row + 2, r]
    f = 0
    while same and f < scans.shape[0]:
        after = f + 1 + (scans[f, 0] == SUM)
        same = scans[f, 0] <= MAX and group_end(scans, f, scans.shape[0]) == after
        f = after
    return same


@kernel
def change_folds(fresh, shape, level, entries, words, kept, work):
    """Update the copy of the old page's tree, and node 1 of `work`; return whether all folds fit."""
    arena, page, keys, scans = fresh.arena, fresh.page, shape.keys, shape.scans
    folds = scans.shape[0]
    starts, _, _, nodes, _, stride = layout_of(fresh.page_words, folds)
    depth, area = arena[page + SCAN] & 255, page + (arena[page + SCAN] >> 8 & 0xFFFFFF)
    read_starts(arena, page, area, depth, starts, work)
    for f in range(folds):
        op, c = scans[f, 0], keys + 1 + f if level > 0 else scans[f, 1]
        if not stored(scans, f, level):
            work[nodes + 1 + f * stride] = entries.hi
            continue
        if op == SUM and not differences_fit(words, kept.old, level, c, arena, page):
            return False
        changing = FoldColumn(area, depth, f)
        if op == MIN or op == MAX:
            fits = change_extremes(words, kept, entries, c, fresh, folds, changing, op == MIN, work)
        else:
            fits = op == CARRY or change_sums(words, kept, entries, c, fresh, folds, changing, op == SUM, work)
        if not fits:
            return False
        base, start, width = tree_column(arena, page, area, 1 + f)
        work[nodes + 1 + f * stride] = base + bits(arena, start, width, 0)
    return True


@inlined
def leaf_of(work, starts, i, j):
    """Return the leaf of a ScanTree that folds entry i, searching from leaf j."""
    while work[starts + j + 1] <= i:
        j += 1
    while work[starts + j] > i:
        j -= 1
    return j


@kernel
def differences_fit(words, old, level, c, arena, page):
    """Return whether the sum of a column's differences fits a word and, on an index page, all high words are equal."""
    fits = column(words, old, c)[2] <= DIFFERING and column(arena, page, c)[2] <= DIFFERING
    if level > 0:
        base, _, width = column(words, old, c + 1)
        new_base, _, new_width = column(arena, page, c + 1)
        fits &= base == new_base and width == 0 and new_width == 0
    return fits


@kernel
def change_sums(words, kept, entries, c, fresh, folds, changing, wide, work):
    """Add the differences of column c to the folds; return False if one does not fit, or its high word would change.

    leaf 2: 5 9 4 = 18        the 9 becomes 7: difference[leaf 2] = -2, as in each node above it
    """
    old, runs_at, runs, node, n = kept.old, kept.row, kept.runs, entries.node, entries.hi
    arena, page, f = fresh.arena, fresh.page, changing.f
    starts, _, sizes, nodes, _, stride = layout_of(fresh.page_words, folds)
    base, start, width = column(words, old, c)
    leaves = 1 << changing.depth
    ratio = leaves / n
    difference, fold = work[sizes : sizes + 2 * leaves], work[nodes + f * stride : nodes + f * stride + 2 * leaves]
    difference[:] = 0
    applied = 0
    i = 0
    for r in range(runs + 1):
        stop = node[runs_at, r] if r < runs else n
        while i < stop:
            k = leaves + leaf_of(work, starts, i, int(i * ratio))
            difference[k] += node[c, i] - base - bits(words, start, width, i)
            applied += 2
            i += 1
        i = node[runs_at + 1, r] if r < runs else n
    for k in range(leaves - 1, 0, -1):
        difference[k] = difference[2 * k] + difference[2 * k + 1]
        applied += difference[k] != 0
    work[APPLIED] += applied
    base, start, width = tree_column(arena, page, changing.area, 1 + f)
    unpack_bits(arena, base, start, width, 0, 2 * leaves - 1, fold, 1)
    wrong = 0
    for k in range(1, 2 * leaves):
        x, y = fold[k], difference[k]
        total = x + y
        fold[k] = total
        if wide:
            wrong |= (y >> 63) + (((x & y) | ((x | y) & ~total)) >> 63 & 1)
        if width < 64:
            wrong |= (total - base) >> width
    if wrong:
        return False
    pack(arena, start, base, width, fold, 1, 2 * leaves)
    return True


@kernel
def change_extremes(words, kept, entries, c, fresh, folds, changing, least, work):
    """Update the greatest (or least) values of column c; return False if one does not fit.

    A leaf changes if the new value exceeds its fold, and is folded again if the old value was the fold.  Minima
    are computed as maxima: x ^ -1 = -x - 1 reverses the order.
    """
    old, runs_at, runs, node, n = kept.old, kept.row, kept.runs, entries.node, entries.hi
    arena, page = fresh.arena, fresh.page
    starts, states, _, _, _, _ = layout_of(fresh.page_words, folds)
    base, start, width = column(words, old, c)
    tree_base, tree_at, tree_width = tree_column(arena, page, changing.area, 1 + changing.f)
    flip = -1 if least else 0
    leaves = 1 << changing.depth
    ratio = leaves / n
    again = work[states : states + leaves]
    again[:] = 0
    applied = 0
    i = 0
    for r in range(runs + 1):
        stop = node[runs_at, r] if r < runs else n
        while i < stop:
            j = leaf_of(work, starts, i, int(i * ratio))
            fold = tree_base + bits(arena, tree_at, tree_width, leaves + j - 1) ^ flip
            gone, come = base + bits(words, start, width, i) ^ flip, node[c, i] ^ flip
            applied += 1
            again[j] |= gone == fold and come < fold
            k = leaves + j
            while k > 0 and come > fold:
                if not put_fold(arena, tree_base, tree_at, tree_width, k, come ^ flip):
                    return False
                applied += 1
                k >>= 1
                fold = tree_base + bits(arena, tree_at, tree_width, k - 1) ^ flip  # unused for node 0
            i += 1
        i = node[runs_at + 1, r] if r < runs else n
    base, start, width = column(arena, page, c)
    for j in range(leaves):
        if again[j]:
            lo, hi = work[starts + j], work[starts + j + 1]
            fold = base + bits(arena, start, width, lo) ^ flip
            for i in range(lo + 1, hi):
                fold = max(fold, base + bits(arena, start, width, i) ^ flip)
            applied += hi - lo - 1
            k = leaves + j
            while k > 0 and fold ^ flip != tree_base + bits(arena, tree_at, tree_width, k - 1):
                if not put_fold(arena, tree_base, tree_at, tree_width, k, fold ^ flip):
                    return False
                applied += 1
                fold = max(fold, tree_base + bits(arena, tree_at, tree_width, (k ^ 1) - 1) ^ flip)
                k >>= 1
    work[APPLIED] += applied
    return True


@kernel
def put_fold(arena, base, at, width, k, value):
    """Replace the fold of node k; return whether it fits."""
    if width < 64 and (value - base) >> width:
        return False
    set_bits(arena, at, width, k - 1, value - base)
    return True


@kernel
def read_starts(words, old, area, depth, starts, work):
    """Decode the starts of leaves, followed by the number of entries."""
    leaves, entries = 1 << depth, words[old + ENTRY_COUNT]
    base, start, width = tree_column(words, old, area, 0)
    unpack_bits(words, base, start, width, 0, leaves, work, starts)
    for j in range(leaves):
        work[starts + j] += entries * j >> depth
    work[starts + leaves] = entries


@kernel
def set_bits(words, start, width, i, value):
    """Replace entry i of a column of `width` bits per value."""
    if width == 0:
        return
    k = start + (i * width >> 6)
    shift = i * width & 63
    mask = ~(-2 << (width - 1))
    words[k] = words[k] & ~(mask << shift) | value << shift
    if shift + width > 64:
        mask = ~(-1 << (shift + width - 64))
        words[k + 1] = words[k + 1] & ~mask | value >> (64 - shift) & mask
