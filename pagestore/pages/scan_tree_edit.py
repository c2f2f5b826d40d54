"""The ScanTree of a page that was shifted: folds change along the paths of its edits, the rest is
copied.

    leaf    [6..13]     a deleted entry is subtracted from its leaf's fold, an inserted one is added:
              |         sums by their inverse; if the maximum itself is deleted, the leaf is folded again
    path    [0..13]     folded again as far up as the fold below has changed
              |
    root    [0..24]

If that unbalances the tree, a fold does not fit the bits of its column, or there is more than one
edit per leaf, nothing is written and the tree is made as for any other page (scan_tree.py).

Where values change but no entry is inserted or deleted, leaves keep their places, and the folds of
plain operators are updated in place: differences are added to sums, and most edits leave a maximum
alone.

Update folds in place, on pages where values change but no entry is inserted or deleted.

    leaf    [5 9 4] sum 18, max 9        the 9 becomes 7: the sum by the difference, -2; the maximum is folded again
    path    up to the root, as long as folds change

Only counts, sums, minima and maxima are updated this way; other folds are refolded along the paths
of the edits.
"""

from pagestore.pages.layout import ENTRY_COUNT, SCAN, FoldColumn, FreshPage, Kept
from pagestore.pages.operators import (
    CARRY,
    MAX,
    MIN,
    SUM,
    USER,
    combine,
    fold_run,
    group_end,
    lift_decoded,
    lift_entry,
)
from pagestore.pages.page import bits, column, pack, unpack_bits
from pagestore.pages.scan_tree import APPLIED, decode_folded, layout_of, stored, tree_column
from pagestore.runtime.kernel import inlined, kernel
from pagestore.runtime.types import MappedWords, Table, Words


@kernel
def patch_scan_tree(fresh, shape, level, entries, words, kept, work):
    """Write the ScanTree of a shifted page; return whether that was possible.  Arguments as for
    `grow_scan_tree`.

    Leave the fold of the whole page in node 1 of `work`.
    """
    scans, arena, page = shape.scans, fresh.arena, fresh.page
    page_words, n = fresh.page_words, entries.hi
    old = kept.old
    starts, _, sizes, _, _, _ = layout_of(page_words, scans.shape[0])
    header = words[old + SCAN]
    depth, area, planted = header & 255, header >> 8 & 0xFFFFFF, header >> 32
    leaves = 1 << depth
    if depth == 0 or n > 2 * planted or 2 * n < planted:
        return False
    if in_place(words, kept, entries.node, scans, n):
        for i in range(area, page_words):
            arena[page + i] = words[old + i]
        arena[page + SCAN] = header
        if change_folds(fresh, shape, level, entries, words, kept, work):
            return True
        arena[page + area : page + page_words] = 0
        arena[page + SCAN] = 0
    if kept.runs > leaves:
        return False
    read_tree(words, old, old + area, level, scans, depth, page_words, work)
    touched = edit_leaves(words, kept, shape, level, entries, leaves, page_words, work)
    moved = move_starts(starts, sizes, leaves, work)
    if moved and not balanced(starts, n, depth, work):
        return False
    refold_leaves(fresh, shape, level, entries, depth, touched, work)
    count = rejoin_paths(level, scans, touched, page_words, work)
    if not fit(words, old, old + area, level, scans, n, depth, moved, count, page_words, work):
        return False
    for i in range(area, page_words):
        arena[page + i] = words[old + i]
    arena[page + SCAN] = header
    write_patched(arena, page, area, level, scans, n, depth, moved, count, page_words, work)
    return True


@kernel
def write_patched(arena, page, area, level, scans, n, depth, moved, count, page_words, work):
    """Write the starts of leaves, where they moved, and the folds of `count` changed nodes into
    the copied tree.
    """
    starts, changed, _, nodes, _, stride = layout_of(page_words, scans.shape[0])
    leaves = 1 << depth
    if moved:
        base, start, width = tree_column(arena, page, page + area, 0)
        pack(arena, start, base, width, work, starts, starts + leaves)
    for f in range(scans.shape[0]):
        if stored(scans, f, level):
            base, start, width = tree_column(arena, page, page + area, 1 + f)
            for i in range(count):
                k = work[changed + i]
                set_bits(arena, start, width, k - 1, work[nodes + k + f * stride] - base)
        else:
            work[nodes + 1 + f * stride] = n


@kernel
def read_tree(words, old, area, level, scans, depth, page_words, work):
    """Decode starts and folds of the old page's tree; set the growth of all leaves to 0."""
    starts, _, sizes, nodes, _, stride = layout_of(page_words, scans.shape[0])
    leaves = 1 << depth
    read_starts(words, old, area, depth, starts, work)
    work[sizes : sizes + leaves] = 0
    for f in range(scans.shape[0]):
        if stored(scans, f, level):
            base, start, width = tree_column(words, old, area, 1 + f)
            unpack_bits(words, base, start, width, 0, 2 * leaves - 1, work, nodes + f * stride + 1)


@kernel
def edit_leaves(words, kept, shape, level, entries, leaves, page_words, work):
    """Update the folds of leaves; return how many were touched.

    Leave their nodes in `changed`, ascending; -k if leaf k must be folded again.  Leave in `sizes`
    by how many entries each leaf grew.
    """
    old, runs_at, runs = kept.old, kept.row, kept.runs
    node, keys, scans = entries.node, shape.keys, shape.scans
    starts, changed, sizes, nodes, spare, stride = layout_of(page_words, scans.shape[0])
    touched = 0
    leaf = 0
    i = 0
    at = 0
    for r in range(runs + 1):
        gone = node[runs_at, r] if r < runs else words[old + ENTRY_COUNT]
        come = node[runs_at + 2, r] if r < runs else entries.hi
        while i < gone or at < come:
            while leaf + 1 < leaves and work[starts + leaf + 1] <= i:
                leaf += 1
            k = leaves + leaf
            if touched == 0 or abs(work[changed + touched - 1]) != k:
                work[changed + touched] = k
                touched += 1
            known = True
            if i < gone:
                known = take_entry(
                    words, old, level, keys, scans, i, nodes + k, stride, spare, work
                )
                work[sizes + leaf] -= 1
                i += 1
            if at < come:
                known &= put_entry(node, level, keys, scans, at, nodes + k, stride, spare, work)
                work[sizes + leaf] += 1
                at += 1
            if not known:
                work[changed + touched - 1] = -k
        if r < runs:
            at += node[runs_at + 1, r] - i
            i = node[runs_at + 1, r]
    return touched


@kernel
def take_entry(words, old, level, keys, scans, i, leaf, stride, spare, work):
    """Subtract entry i of the old page from a leaf's fold; return False if the leaf must be
    folded again.
    """
    known = True
    f = 0
    while f < scans.shape[0]:
        op, after = scans[f, 0], group_end(scans, f, scans.shape[0])
        if op >= USER:
            known = False
        elif stored(scans, f, level):
            same = True
            for g in range(f, after):
                work[spare + g] = lift_entry(words, old, level, keys, scans, g, i)
                same &= work[spare + g] == work[leaf + g * stride]
            if op == MIN or op == MAX:
                known &= not same
            else:
                negate(work, spare + f, after - f)
                work[APPLIED] += combine(scans, f, after, work, leaf, stride, work, spare, 1)
        f = after
    return known


@kernel
def put_entry(node, level, keys, scans, at, leaf, stride, spare, work):
    """Add entry `at` of the buffer to a leaf's fold; return False if order matters, so it must
    be folded again.
    """
    known = True
    f = 0
    while f < scans.shape[0]:
        after = group_end(scans, f, scans.shape[0])
        if scans[f, 0] >= USER:
            known = False
        elif stored(scans, f, level):
            for g in range(f, after):
                work[spare + g] = lift_decoded(node, level, keys, scans, g, at)
            work[APPLIED] += combine(scans, f, after, work, leaf, stride, work, spare, 1)
        f = after
    return known


@kernel
def negate(work: Words, at: int, width: int):
    """Negate a sum of one word, or of two, in place."""
    if width > 1:
        work[at + 1] = ~work[at + 1] + (work[at] == 0)
    work[at] = -work[at]


@kernel
def move_starts(starts: int, sizes: int, leaves: int, work: Words):
    """Shift the starts of leaves by the growth of those before them; return whether any leaf's
    size changed.
    """
    moved = False
    shift = 0
    for j in range(leaves):
        work[starts + j] += shift
        shift += work[sizes + j]
        moved |= work[sizes + j] != 0
    return moved


@kernel
def balanced(starts: int, n: int, depth: int, work: Words):
    """Return whether no leaf is empty, and no node folds more than twice as many entries as its
    sibling.
    """
    work[starts + (1 << depth)] = n
    for d in range(1, depth + 1):
        half = 1 << (d - 1)
        for j in range(0, 1 << depth, 2 * half):
            a, b, c = work[starts + j], work[starts + j + half], work[starts + j + 2 * half]
            x, y = b - a, c - b
            if x > 2 * y or y > 2 * x or min(x, y) < half:
                return False
    return True


@kernel
def refold_leaves(fresh, shape, level, entries, depth, touched, work):
    """Fold the leaves again that `changed` has as -k."""
    node, keys, scans = entries.node, shape.keys, shape.scans
    starts, changed, _, nodes, spare, stride = layout_of(fresh.page_words, scans.shape[0])
    work[starts + (1 << depth)] = entries.hi
    for i in range(touched):
        k = -work[changed + i]
        if k > 0:
            a, b = work[starts + k - (1 << depth)], work[starts + k - (1 << depth) + 1]
            decode_folded(fresh.arena, fresh.page, node, level, keys, scans, a, b)
            work[APPLIED] += fold_run(
                node, level, keys, scans, a, b, work, nodes + k, stride, spare
            )
            work[changed + i] = k


@kernel
def rejoin_paths(level: int, scans: Table, touched: int, page_words: int, work: Words):
    """Fold the nodes above the touched leaves again, as long as folds change; return the length of
    `changed`.

    Append the nodes that changed to `changed`, after the touched leaves.
    """
    folds = scans.shape[0]
    _, changed, _, nodes, spare, stride = layout_of(page_words, folds)
    lo = 0
    hi = touched
    while lo < hi and work[changed + lo] > 1:
        end = hi
        parent = 0
        for i in range(lo, hi):
            k = work[changed + i] >> 1
            if k != parent:
                parent = k
                for f in range(folds):
                    work[spare + f] = work[nodes + 2 * k + f * stride]
                work[APPLIED] += combine(
                    scans, 0, folds, work, spare, 1, work, nodes + 2 * k + 1, stride
                )
                if replace(level, scans, nodes + k, stride, spare, work):
                    work[changed + end] = k
                    end += 1
        lo, hi = hi, end
    return hi


@kernel
def replace(level: int, scans: Table, place: int, stride: int, spare: int, work: Words):
    """Replace the fold at `place` by the one in `spare`; return whether a word stored on the
    page changed.
    """
    other = False
    for f in range(scans.shape[0]):
        other |= work[place + f * stride] != work[spare + f] and stored(scans, f, level)
        work[place + f * stride] = work[spare + f]
    return other


@kernel
def fit(words, old, area, level, scans, n, depth, moved, count, page_words, work):
    """Return whether the new starts and folds fit their columns; turn moved starts into
    distances from the even cut.
    """
    starts, changed, _, nodes, _, stride = layout_of(page_words, scans.shape[0])
    if moved:
        base, _, width = tree_column(words, old, area, 0)
        for j in range(1 << depth):
            work[starts + j] -= n * j >> depth
            if (work[starts + j] - base) >> width:
                return False
    for f in range(scans.shape[0]):
        base, _, width = tree_column(words, old, area, 1 + f)
        if width < 64 and stored(scans, f, level):
            for i in range(count):
                if (work[nodes + work[changed + i] + f * stride] - base) >> width:
                    return False
    return True


DIFFERING = 48  # bits; the differences of a whole page of values this narrow add up within a word


@kernel
def in_place(words: MappedWords, kept: Kept, node: Table, scans: Table, n: int):
    """Return whether folds are plain (count, sum, min or max of one word) and entries keep their
    number and places.
    """
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
    """Update the copy of the old page's tree, and node 1 of `work`; return whether all folds
    fit.
    """
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
            fits = op == CARRY or change_sums(
                words, kept, entries, c, fresh, folds, changing, op == SUM, work
            )
        if not fits:
            return False
        base, start, width = tree_column(arena, page, area, 1 + f)
        work[nodes + 1 + f * stride] = base + bits(arena, start, width, 0)
    return True


@inlined
def leaf_of(work: Words, starts: int, i: int, j: int):
    """Return the leaf of a ScanTree that folds entry i, searching from leaf j."""
    while work[starts + j + 1] <= i:
        j += 1
    while work[starts + j] > i:
        j -= 1
    return j


@kernel
def differences_fit(words: MappedWords, old: int, level: int, c: int, arena: Words, page: int):
    """Return whether the sum of a column's differences fits a word and, on an index page, all
    high words are equal.
    """
    fits = column(words, old, c)[2] <= DIFFERING and column(arena, page, c)[2] <= DIFFERING
    if level > 0:
        base, _, width = column(words, old, c + 1)
        new_base, _, new_width = column(arena, page, c + 1)
        fits &= base == new_base and width == 0 and new_width == 0
    return fits


@kernel
def change_sums(words, kept, entries, c, fresh, folds, changing, wide, work):
    """Add the differences of column c to the folds; return False if one does not fit, or its high
    word would change.

    leaf 2: 5 9 4 = 18        the 9 becomes 7: difference[leaf 2] = -2, as in each node above it
    """
    old, runs_at, runs, node, n = kept.old, kept.row, kept.runs, entries.node, entries.hi
    arena, page, f = fresh.arena, fresh.page, changing.f
    starts, _, sizes, nodes, _, stride = layout_of(fresh.page_words, folds)
    base, start, width = column(words, old, c)
    leaves = 1 << changing.depth
    ratio = leaves / n
    difference = work[sizes : sizes + 2 * leaves]
    fold = work[nodes + f * stride : nodes + f * stride + 2 * leaves]
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

    A leaf changes if the new value exceeds its fold, and is folded again if the old value was the
    fold.  Minima are computed as maxima: x ^ -1 = -x - 1 reverses the order.
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
                # unused for node 0
                fold = tree_base + bits(arena, tree_at, tree_width, k - 1) ^ flip
            i += 1
        i = node[runs_at + 1, r] if r < runs else n
    return refold_extremes(fresh, c, folds, changing, flip, applied, work)


@kernel
def refold_extremes(
    fresh: FreshPage, c: int, folds: int, changing: FoldColumn, flip: int, applied: int, work: Words
):
    """Fold the marked leaves of column c again, and their paths as far up as folds change; return
    False if one does not fit.
    """
    arena, page, leaves = fresh.arena, fresh.page, 1 << changing.depth
    starts, again, _, _, _, _ = layout_of(fresh.page_words, folds)
    base, start, width = column(arena, page, c)
    tree_base, tree_at, tree_width = tree_column(arena, page, changing.area, 1 + changing.f)
    for j in range(leaves):
        if work[again + j]:
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
def put_fold(arena: Words, base: int, at: int, width: int, k: int, value: int):
    """Replace the fold of node k; return whether it fits."""
    if width < 64 and (value - base) >> width:
        return False
    set_bits(arena, at, width, k - 1, value - base)
    return True


@kernel
def read_starts(
    words: MappedWords | Words, old: int, area: int, depth: int, starts: int, work: Words
):
    """Decode the starts of leaves, followed by the number of entries."""
    leaves, entries = 1 << depth, words[old + ENTRY_COUNT]
    base, start, width = tree_column(words, old, area, 0)
    unpack_bits(words, base, start, width, 0, leaves, work, starts)
    for j in range(leaves):
        work[starts + j] += entries * j >> depth
    work[starts + leaves] = entries


@kernel
def set_bits(words: Words, start: int, width: int, i: int, value: int):
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
