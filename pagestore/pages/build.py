"""Fresh pages out of decoded columns: how many entries fit, one page, a run of even pages.

Entries wait in a `node` buffer, int64[C, capacity]: the records of a leaf, or the (keys, child,
folds, birth) of an index page.  Writing goes to `arena`, whose page number s is page `ids[s]` of the file.
"""

from pagestore.pages.layout import BIRTH, COLUMNS_MAX, COUNT, HEADER, ID, INDEX, LEAF, TYPE
from pagestore.pages.page import field, pack, records_max, type_word, width_of
from pagestore.pages.scan_tree import SCAN_TREE, grow_scan_tree, layout_of, scan_room
from pagestore.pages.scan_tree_patch import patch_scan_tree
from pagestore.runtime.compiler import kernel, late

# rows of the last level of `node`, which no tree is high enough to use: scratch, a word for each column or entry
KEY, RECORD, ENDS, LOW, HIGH = range(5)

BLOCK = 64  # entries measured at once


@kernel
def body_words(page_words, columns, scans, level):
    """Words of a page that columns may fill: all but header, descriptors, ScanTree and the free last word."""
    room = page_words - HEADER - 2 * columns - 1
    return room - scan_room(page_words, scans, level) if scans.shape[0] else room


@kernel
def births_at(keys, folds):
    """The column of an index page that holds its children's births; -1 if the page would be too wide with it."""
    return keys + 1 + folds if keys + 1 + folds < COLUMNS_MAX else -1


@kernel
def entry_columns(keys, values, folds, level):
    """How many columns pages of a level have."""
    if level == 0:
        return keys + values
    return keys + 1 + folds + (births_at(keys, folds) >= 0)


@kernel
def anchor(columns, folds, level):
    """The column of an index page that holds its children: its base is 0, so that a fresh child's id fits.  Else -1.

    A page with COLUMNS_MAX columns may lack births, so that this column cannot be told from `columns`: -1, too.
    """
    return columns - 2 - folds if level > 0 and columns < COLUMNS_MAX else -1


@kernel
def measured(values, lo, hi, anchored):
    """(base, width) of the narrowest column that holds values[lo:hi]; the base of an anchored one is 0."""
    low, high = bounds(values, lo, hi)
    if anchored:
        low = 0
    return low, width_of(low, high)


@kernel
def bounds(values, lo, hi):
    """The least and the greatest of values[lo:hi]; the loop is plain enough for the compiler to vectorize."""
    part = values[lo:hi]
    low = high = part[0]
    for i in range(1, part.shape[0]):
        value = part[i]
        low = min(low, value)
        high = max(high, value)
    return low, high


@kernel
def words_needed(node, columns, scans, level, lo, hi):
    """Words that entries lo..hi take, each column as narrow as its values allow."""
    anchored = anchor(columns, scans.shape[0], level)
    total = 0
    for c in range(columns):
        _, width = measured(node[c], lo, hi, c == anchored)
        total += ((hi - lo) * width + 63) >> 6
    return total


@kernel
def fill(node, columns, lo, hi, page_words, scans, level, spare):
    """End of the longest run of entries from lo on that one page holds (greedy)."""
    room = body_words(page_words, columns, scans, level)
    low, high = spare[LOW], spare[HIGH]
    for c in range(columns):
        low[c] = high[c] = node[c, lo]
    if level > 0:
        low[anchor(columns, scans.shape[0], level)] = 0
    hi = min(hi, lo + records_max(page_words))
    at, step = lo, BLOCK
    while at < hi and step:
        end = min(hi, at + step)
        bits = 0
        for c in range(columns):
            least, greatest = bounds(node[c], at, end)
            least, greatest = min(low[c], least), max(high[c], greatest)
            low[columns + c], high[columns + c] = least, greatest
            bits += width_of(least, greatest)
        if (end - lo) * bits > (room - columns) * 64:
            step >>= 1
            continue
        for c in range(columns):
            low[c], high[c] = low[columns + c], high[columns + c]
        at = end
    return at


@kernel
def write_page(arena, slot, page_words, page_id, birth, kind_word, node, columns, lo, hi):
    """Encode entries lo..hi as page `slot` of the arena; its checksum is stamped when the page is written."""
    page = slot * page_words
    for i in range(page, page + HEADER):
        arena[i] = 0
    arena[page + ID] = page_id
    arena[page + BIRTH] = birth
    arena[page + TYPE] = kind_word
    arena[page + COUNT] = hi - lo
    at = page + HEADER + 2 * columns
    anchored = anchor(columns, kind_word >> 24 & 255, kind_word >> 8 & 255)
    for c in range(columns):
        base, width = measured(node[c], lo, hi, c == anchored)
        arena[page + HEADER + 2 * c] = base
        arena[page + HEADER + 2 * c + 1] = (at - page) << 8 | width
        at = pack(arena, at, base, width, node[c], lo, hi)
    for i in range(at, page + page_words):
        arena[i] = 0


@kernel
def emit(
    arena, used, page_words, ids, birth, tree_id, level, keys, values, scans, node, lo, hi, parent, at,
    words, old, runs, work,
):  # fmt: skip
    """Write entries lo..hi as one page and append its entry (keys, child, folds, birth) to `parent` at `at`.

    `old` is the page of the map that this one replaces, or -1; `runs` says how many runs of entries were copied
    from it, whose folds the ScanTree may carry over.
    """
    folds = scans.shape[0]
    columns = entry_columns(keys, values, folds, level)
    kind_word = type_word(INDEX if level else LEAF, level, columns, folds, tree_id)
    write_page(arena, used, page_words, ids[used], birth, kind_word, node, columns, lo, hi)
    hand_up(
        arena, used, page_words, ids[used], level, keys, columns, scans, node, lo, hi, True, parent, at,
        words, old, runs, work,
    )  # fmt: skip


@kernel
def hand_up(
    arena, used, page_words, page_id, level, keys, columns, scans, node, lo, hi, decoded, parent, at,
    words, old, runs, work,
):  # fmt: skip
    """Give the encoded page its ScanTree, and `parent` its entry; as `emit`.

    `decoded` says whether `node` holds all entries lo..hi, or only those that are new.
    """
    page = used * page_words
    for c in range(keys):
        parent[c, at] = field(arena, page, c, 0)
    parent[keys, at] = page_id
    births = births_at(keys, scans.shape[0])
    if births >= 0:
        parent[births, at] = arena[page + BIRTH]
    if scans.shape[0]:
        scan_tree(
            work[SCAN_TREE], words, old, columns + 1, runs, node, level, keys, scans, lo, hi, decoded, arena, page,
            page_words, work, parent, at,
        )  # fmt: skip


@late(
    "int64(Array(int64, 1, 'C', readonly=True), int64, int64, int64, int64[:, ::1], int64, int64, int64[:, ::1], int64,"
    "int64, boolean, int64[::1], int64, int64, int64[::1], int64[:, ::1], int64)"
)
def scan_tree(
    words, old, runs_at, runs, node, level, keys, scans, lo, hi, decoded, arena, page, page_words, work, parent, at
):
    """Give a page of a tree with scans its ScanTree, and `parent` the folds of the whole page; as `hand_up`."""
    if decoded or not patch_scan_tree(
        words, old, runs_at, runs, node, level, keys, scans, hi, arena, page, page_words, work
    ):
        grow_scan_tree(
            words, old, runs_at, runs, node, level, keys, scans, lo, hi, decoded, arena, page, page_words, work
        )
    _, _, _, nodes, _, stride = layout_of(page_words, scans.shape[0])
    for f in range(scans.shape[0]):
        parent[keys + 1 + f, at] = work[nodes + 1 + f * stride]
    return 1


@kernel
def cuts(node, columns, n, page_words, scans, level, spare):
    """Cut n entries into pages: as few as greedy filling needs, then as even as that allows.

    Writes the end of each piece to spare[ENDS] and returns how many there are.
    """
    ends = spare[ENDS]
    if n == 0:
        return 0
    room = body_words(page_words, columns, scans, level)
    most = records_max(page_words)
    if n <= most and words_needed(node, columns, scans, level, 0, n) <= room:
        ends[0] = n
        return 1
    half = n // 2
    if (
        half < most
        and max(words_needed(node, columns, scans, level, 0, half), words_needed(node, columns, scans, level, half, n))
        <= room
    ):  # the common case: a page that became too full is cut in half
        ends[0] = half
        ends[1] = n
        return 2
    pieces = 0
    lo = 0
    while lo < n:
        lo = fill(node, columns, lo, n, page_words, scans, level, spare)
        ends[pieces] = lo
        pieces += 1
    if pieces == 1:
        return 1
    lo = 0
    for p in range(pieces):
        hi = n * (p + 1) // pieces
        if fill(node, columns, lo, hi, page_words, scans, level, spare) < hi:
            return pieces  # uneven values: keep the greedy cut
        lo = hi
    for p in range(pieces):
        ends[p] = n * (p + 1) // pieces
    return pieces
