"""The ScanTree of a page that was shifted: folds change along the paths of its edits, the rest is copied.

    leaf    [6..13]     a deleted entry is subtracted from its leaf's fold, an inserted one is added:
              |         sums by their inverse; if the maximum itself is deleted, the leaf is folded again
    path    [0..13]     folded again as far up as the fold below has changed
              |
    root    [0..24]

If that unbalances the tree, a fold does not fit the bits of its column, or there is more than one edit per leaf,
nothing is written and the tree is made as for any other page (scan_tree.py).

Where values change but no entry is inserted or deleted, leaves keep their places, and the folds of plain operators
are updated in place: differences are added to sums, and most edits leave a maximum alone.
"""

from pagestore.pages.fold_operators import MAX, MIN, USER, combine, fold_run, group_end, lift_decoded, lift_entry
from pagestore.pages.layout import ENTRY_COUNT, SCAN
from pagestore.pages.page import pack, unpack_bits
from pagestore.pages.scan_tree import APPLIED, decode_folded, layout_of, stored, tree_column
from pagestore.pages.scan_tree_in_place import change_folds, in_place, read_starts, set_bits
from pagestore.runtime.kernel import kernel


@kernel
def patch_scan_tree(fresh, shape, level, entries, words, kept, work):
    """Write the ScanTree of a shifted page; return whether that was possible.  Arguments as for `grow_scan_tree`.

    Leave the fold of the whole page in node 1 of `work`.
    """
    scans, arena, page, page_words, n = shape.scans, fresh.arena, fresh.page, fresh.page_words, entries.hi
    old = kept.old
    starts, changed, sizes, nodes, _, stride = layout_of(page_words, scans.shape[0])
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
    return True


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

    Leave their nodes in `changed`, ascending; -k if leaf k must be folded again.  Leave in `sizes` by how many
    entries each leaf grew.
    """
    old, runs_at, runs, node, keys, scans = kept.old, kept.row, kept.runs, entries.node, shape.keys, shape.scans
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
                known = take_entry(words, old, level, keys, scans, i, nodes + k, stride, spare, work)
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
    """Subtract entry i of the old page from a leaf's fold; return False if the leaf must be folded again."""
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
    """Add entry `at` of the buffer to a leaf's fold; return False if order matters, so it must be folded again."""
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
def negate(work, at, width):
    """Negate a sum of one word, or of two, in place."""
    if width > 1:
        work[at + 1] = ~work[at + 1] + (work[at] == 0)
    work[at] = -work[at]


@kernel
def move_starts(starts, sizes, leaves, work):
    """Shift the starts of leaves by the growth of those before them; return whether any leaf's size changed."""
    moved = False
    shift = 0
    for j in range(leaves):
        work[starts + j] += shift
        shift += work[sizes + j]
        moved |= work[sizes + j] != 0
    return moved


@kernel
def balanced(starts, n, depth, work):
    """Return whether no leaf is empty, and no node folds more than twice as many entries as its sibling."""
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
            work[APPLIED] += fold_run(node, level, keys, scans, a, b, work, nodes + k, stride, spare)
            work[changed + i] = k


@kernel
def rejoin_paths(level, scans, touched, page_words, work):
    """Fold the nodes above the touched leaves again, as long as folds change; return the length of `changed`.

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
                work[APPLIED] += combine(scans, 0, folds, work, spare, 1, work, nodes + 2 * k + 1, stride)
                if replace(level, scans, nodes + k, stride, spare, work):
                    work[changed + end] = k
                    end += 1
        lo, hi = hi, end
    return hi


@kernel
def replace(level, scans, place, stride, spare, work):
    """Replace the fold at `place` by the one in `spare`; return whether a word stored on the page changed."""
    other = False
    for f in range(scans.shape[0]):
        other |= work[place + f * stride] != work[spare + f] and stored(scans, f, level)
        work[place + f * stride] = work[spare + f]
    return other


@kernel
def fit(words, old, area, level, scans, n, depth, moved, count, page_words, work):
    """Return whether the new starts and folds fit their columns; turn moved starts into distances from the even cut."""
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
