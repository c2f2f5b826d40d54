"""The ScanTree of a page: a binary tree of folds over runs of its entries (*Adapting scan-trees*).

    node 1      [           0..24           ]      a heap: node k has children 2k and 2k + 1
    nodes 2,3   [   0..13    ][    13..24   ]      the leaves are nodes L..2L-1, L a power of two;
    leaves 4-7  [0..6][6..13][13..19][19..24]      leaf j folds the entries starts[j]..starts[j + 1]

A leaf folds a dozen entries or so (ENTRIES_MIN to twice that when the tree is built) and no node
folds more than twice as many as its sibling.  When a page is rewritten with a few edits its tree is
carried over: leaves without an edit keep their folds, and if the balance is lost the smallest
unbalanced subtree is rebuilt, so an edit costs O(log B) applications, amortised.

On the page the tree fills the room that `scan_room` keeps at its end, as narrow columns: how far
starts[j] is from the even cut n * j // L, then fold word f of nodes 1..2L-1.  Header word SCAN says
where and how deep:

    bits 0-7  log2 L (0: no tree)     bits 8-31  word offset in the page     bits 32-63  entries when built

A tree that does not fit into its room loses its lowest level until it does.  `work` is scratch of
`work_words` words: first the counters, then starts and nodes under construction.
"""

from pagestore.pages.layout import ENTRY_COUNT, SCAN
from pagestore.pages.operators import CARRY, CHECKSUM, COUNT, combine, fold_run
from pagestore.pages.page import bits, pack, unpack, width_of
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import MappedWords, Table, Words

ENTRIES_MIN = 9  # entries of a leaf when its tree is built: at least this, less than twice this
BUDGET = 20  # each fold word may take a 20th of a page
WORDS_PAID = 5  # more fold words than this get no more room: all together take five 20ths at most

# words of `work`: number of applications, number of pages made from old ones by build.py, address
# of `build.scan_tree`
APPLIED, SHIFTED, SCAN_TREE = range(3)
AREA = 8  # where the arrays in `work` begin
EMPTY, DIRTY, CLEAN = range(3)  # the fold of a node is not computed yet, out of date, up to date


@kernel
def leaves_max(page_words: int):
    """Return more leaves than the ScanTree of any page has: a page has 2 * page_words entries at
    most.
    """
    leaves = 1
    while leaves * ENTRIES_MIN <= 2 * page_words:
        leaves <<= 1
    return leaves


@kernel
def work_words(page_words: int, folds: int):
    """Return the words of scratch: starts, states, weights and nodes of the largest tree, and
    spare words.
    """
    leaves = leaves_max(page_words)
    return AREA + (leaves + 1) + 2 * (2 * leaves) + folds * 2 * leaves + 2 * folds


@kernel
def scan_room(page_words: int, scans: Table, level: int):
    """Return how many words at the end of a page its ScanTree may take; 0 if all folds are
    counts of records.
    """
    paid = 0
    for f in range(scans.shape[0]):
        op = scans[f, 0]
        if op != CARRY and (op != COUNT or level > 0):
            paid += 1
    return min(paid, WORDS_PAID) * page_words // BUDGET


@kernel
def layout_of(page_words: int, folds: int):
    """Return where starts, states, weights, nodes and spare words begin in `work`, and the
    stride of a fold word.
    """
    leaves = leaves_max(page_words)
    starts = AREA
    states = starts + leaves + 1
    weights = states + 2 * leaves
    nodes = weights + 2 * leaves
    return starts, states, weights, nodes, nodes + folds * 2 * leaves, 2 * leaves


@kernel
def grow_scan_tree(fresh, shape, level, entries, decoded, words, kept, work):
    """Write the ScanTree of a fresh page, which holds some entries of a node buffer (see
    arguments.py).

    If not `decoded`, the buffer lacks the entries kept from the old page, and those to be folded
    are decoded first. Leave the fold of the whole page in node 1 of `work`.
    """
    scans, page_words = shape.scans, fresh.page_words
    _, states, _, _, _, _ = layout_of(page_words, scans.shape[0])
    room = scan_room(page_words, scans, level)
    source = -1 if decoded else fresh.page
    n = entries.hi - entries.lo
    depth = 0
    planted = n
    if kept.old >= 0 and room:
        depth, planted = carry_tree(words, kept, entries.node, level, scans, n, page_words, work)
    if depth == 0:
        planted = n
        while room and n >> (depth + 1) >= ENTRIES_MIN:
            depth += 1
        work[states + 1] = EMPTY
        plant(fresh, source, shape, level, entries, 1, 0, n, depth, work)
    else:
        refresh_carried(fresh, source, shape, level, entries, depth, work)
    if depth:
        write_tree(scans, level, n, depth, planted, room, fresh.arena, fresh.page, page_words, work)


@kernel
def plant(fresh, source, shape, level, entries, root, first, n, depth, work):
    """Fold entries first..first + n into the subtree of node `root` with 2 ** depth leaves, evenly
    cut.

    The entries are decoded from page `source` of the arena, unless it is -1.
    """
    scans, node, lo = shape.scans, entries.node, entries.lo
    starts, _, _, nodes, spare, stride = layout_of(fresh.page_words, scans.shape[0])
    leaves = 1 << depth
    leaf = root << depth
    j = leaf - (1 << log2(leaf))  # number of the first leaf
    if source >= 0:
        decode_folded(fresh.arena, source, node, level, shape.keys, scans, first, first + n)
    for k in range(leaves):
        a = first + n * k // leaves
        b = first + n * (k + 1) // leaves
        work[starts + j + k] = a
        work[APPLIED] += fold_run(
            node, level, shape.keys, scans, lo + a, lo + b, work, nodes + leaf + k, stride, spare
        )
    for d in range(depth - 1, -1, -1):
        for k in range(root << d, (root << d) + (1 << d)):
            join(scans, nodes, stride, k, work)


@kernel
def decode_folded(
    arena: Words, page: int, node: Table, level: int, keys: int, scans: Table, lo: int, hi: int
):
    """Decode the columns of entries lo..hi that the scans fold."""
    for f in range(scans.shape[0]):
        op, c = scans[f, 0], scans[f, 1]
        if level > 0:
            unpack(arena, page, keys + 1 + f, lo, hi, node[keys + 1 + f], lo)
        elif op == CHECKSUM:
            for k in range(c):
                unpack(arena, page, k, lo, hi, node[k], lo)
        elif op != COUNT and op != CARRY:
            unpack(arena, page, c, lo, hi, node[c], lo)


@kernel
def join(scans: Table, nodes: int, stride: int, k: int, work: Words):
    """Compute the fold of node k from its children's."""
    folds = scans.shape[0]
    for f in range(folds):
        work[nodes + k + f * stride] = work[nodes + 2 * k + f * stride]
    work[APPLIED] += combine(
        scans, 0, folds, work, nodes + k, stride, work, nodes + 2 * k + 1, stride
    )


@kernel
def carry_tree(words, kept, node, level, scans, n, page_words, work):
    """Copy starts and folds from the old page's tree; return (depth, entries when built), with
    depth 0 if impossible.

    A leaf is CLEAN if its entries lie in one copied run and none was inserted between them.
    """
    old, runs_at, runs = kept.old, kept.row, kept.runs
    starts, states, weights, _, _, _ = layout_of(page_words, scans.shape[0])
    header = words[old + SCAN]
    depth, area, planted = header & 255, old + (header >> 8 & 0xFFFFFF), header >> 32
    if depth == 0 or n > 2 * planted or 2 * n < planted:
        return 0, n
    leaves = 1 << depth
    entries = words[old + ENTRY_COUNT]
    base, at, width = tree_column(words, old, area, 0)
    r = 0
    begin = 0
    work[starts] = 0
    for j in range(leaves):
        end = entries
        if j + 1 < leaves:
            end = (entries * (j + 1) >> depth) + base + bits(words, at, width, j + 1)
        while r < runs and node[runs_at + 1, r] <= begin:
            r += 1
        whole = r < runs and node[runs_at, r] <= begin and end <= node[runs_at + 1, r]
        while r < runs and node[runs_at + 1, r] <= end:
            r += 1
        if j + 1 == leaves:
            moved = n
        elif r < runs:
            moved = node[runs_at + 2, r] + max(0, end - node[runs_at, r])
        else:
            moved = n
        work[starts + j + 1] = moved
        size = moved - work[starts + j]
        work[weights + leaves + j] = size
        work[states + leaves + j] = CLEAN if whole and size == end - begin else DIRTY
        begin = end
    carry_nodes(words, old, area, level, scans, leaves, page_words, work)
    return depth, planted


@kernel
def carry_nodes(words, old, area, level, scans, leaves, page_words, work):
    """Derive states and weights of inner nodes from the leaves', and copy the folds of all
    nodes.
    """
    folds = scans.shape[0]
    _, states, weights, nodes, _, stride = layout_of(page_words, folds)
    for k in range(leaves - 1, 0, -1):
        work[weights + k] = work[weights + 2 * k] + work[weights + 2 * k + 1]
        clean = work[states + 2 * k] == CLEAN and work[states + 2 * k + 1] == CLEAN
        work[states + k] = CLEAN if clean else DIRTY
    for f in range(folds):
        at_node = nodes + f * stride
        if stored(scans, f, level):
            base, at, width = tree_column(words, old, area, 1 + f)
            for k in range(1, 2 * leaves):
                work[at_node + k] = base + bits(words, at, width, k - 1)
        else:
            for k in range(1, 2 * leaves):
                work[at_node + k] = work[weights + k]


@kernel
def refresh_carried(fresh, source, shape, level, entries, depth, work):
    """Bring a carried tree up to date: rebuild unbalanced subtrees, fold the other dirty nodes.

    Go top down for balance, so that of nested subtrees the largest is rebuilt; then bottom up for
    the folds.  A subtree with fewer entries than leaves counts as unbalanced too.
    """
    scans, node, keys, lo = shape.scans, entries.node, shape.keys, entries.lo
    starts, states, weights, nodes, spare, stride = layout_of(fresh.page_words, scans.shape[0])
    leaves = 1 << depth
    for d in range(depth):
        below = depth - d
        for k in range(1 << d, 2 << d):
            if work[states + k] == DIRTY:
                x, y = work[weights + 2 * k], work[weights + 2 * k + 1]
                if x > 2 * y or y > 2 * x or min(x, y) < 1 << below:
                    first, n = work[starts + (k << below) - leaves], work[weights + k]
                    plant(fresh, source, shape, level, entries, k, first, n, below, work)
                    mark_clean(states, k, below, work)
    for k in range(2 * leaves - 1, 0, -1):
        if work[states + k] == DIRTY:
            if k < leaves:
                join(scans, nodes, stride, k, work)
            else:
                a, b = work[starts + k - leaves], work[starts + k - leaves + 1]
                if source >= 0:
                    decode_folded(fresh.arena, source, node, level, keys, scans, a, b)
                work[APPLIED] += fold_run(
                    node, level, keys, scans, lo + a, lo + b, work, nodes + k, stride, spare
                )


@kernel
def log2(k: int):
    """Return the floor of the binary logarithm: the depth of node k."""
    d = 0
    while k > 1:
        k >>= 1
        d += 1
    return d


@kernel
def mark_clean(states: int, k: int, depth: int, work: Words):
    """Mark a whole subtree as CLEAN."""
    for d in range(depth + 1):
        for i in range(k << d, (k << d) + (1 << d)):
            work[states + i] = CLEAN


@kernel
def write_tree(scans, level, n, depth, planted, room, arena, page, page_words, work):
    """Encode starts and folds at the end of the page, without the lowest levels if the room is
    short.
    """
    folds = scans.shape[0]
    starts, _, _, nodes, spare, stride = layout_of(page_words, folds)
    for j in range(1 << depth):
        work[starts + j] -= n * j >> depth
    while True:
        leaves = 1 << depth
        low_start, high_start = span(work, starts, leaves)
        need = 2 * (1 + folds) + (leaves * width_of(low_start, high_start) + 63 >> 6)
        for f in range(folds):
            if stored(scans, f, level):
                low, high = span(work, nodes + f * stride + 1, 2 * leaves - 1)
                width = width_of(low, high)
                # put the values in mid-range, so that later ones may be lower or higher
                if 0 < width < 63:
                    low -= ((1 << width) - 1 - (high - low)) >> 1
                work[spare + f], work[spare + folds + f] = low, width
                need += ((2 * leaves - 1) * work[spare + folds + f] + 63) >> 6
        if need <= room:
            break
        depth -= 1
        if depth == 0:
            return
        for j in range(1 << depth):
            work[starts + j] = work[starts + 2 * j]
    area = page_words - 1 - need
    arena[page + SCAN] = planted << 32 | area << 8 | depth
    at = page + area + 2 * (1 + folds)
    at = write_column(
        arena,
        page,
        page + area,
        at,
        low_start,
        width_of(low_start, high_start),
        work,
        starts,
        leaves,
    )
    for f in range(folds):
        low, width = (
            (work[spare + f], work[spare + folds + f]) if stored(scans, f, level) else (0, 0)
        )
        at = write_column(
            arena,
            page,
            page + area + 2 + 2 * f,
            at,
            low,
            width,
            work,
            nodes + f * stride + 1,
            2 * leaves - 1,
        )


@kernel
def stored(scans: Table, f: int, level: int):
    """Return whether the page stores the nodes of fold word f; counts of records follow from
    where leaves start.
    """
    return level > 0 or scans[f, 0] != COUNT


@kernel
def span(values: Words, lo: int, n: int):
    """Return the least and the greatest of n values from lo on."""
    low = values[lo]
    high = low
    for i in range(lo + 1, lo + n):
        low = min(low, values[i])
        high = max(high, values[i])
    return low, high


@kernel
def write_column(arena, page, descriptor, at, low, width, values, lo, n):
    """Write a column, encoded like the page's own: its descriptor and its bits; return the next
    free word.
    """
    arena[descriptor] = low
    arena[descriptor + 1] = (at - page) << 8 | width
    return pack(arena, at, low, width, values, lo, lo + n)


@kernel
def tree_column(words: MappedWords | Words, page: int, area: int, c: int):
    """Return (base, index of the first word, width) of a ScanTree's column: 0 for the starts, 1
    + f for fold word f.
    """
    offset = words[area + 2 * c + 1]
    return words[area + 2 * c], page + (offset >> 8), offset & 255


@kernel
def tree_start(words: MappedWords, page: int, area: int, entries: int, depth: int, j: int):
    """Return the first entry of leaf j of a page's ScanTree; for j = L, the number of entries."""
    if j >> depth:
        return entries
    base, at, width = tree_column(words, page, area, 0)
    return (entries * j >> depth) + base + bits(words, at, width, j)
