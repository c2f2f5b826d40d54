"""Make fresh pages from decoded columns: how many entries fit, one page, a run of even pages.

Entries come from a `node` buffer, int64[C, capacity]: the records of a leaf, or the (keys, child,
folds, birth) of an index page.  Writing goes to `arena`, whose page number s is page `ids[s]` of the file.
"""

from pagestore.pages.arguments import Entries, FreshPage, Kept, ParentEntry, Shape
from pagestore.pages.layout import BIRTH, ENTRY_COUNT, HEADER, ID, INDEX, INDEX_COLUMNS_MAX, LEAF, TYPE
from pagestore.pages.page import field, pack, records_max, type_word, width_of
from pagestore.pages.scan_tree import SCAN_TREE, grow_scan_tree, layout_of, scan_room
from pagestore.pages.scan_tree_patch import patch_scan_tree
from pagestore.runtime.arguments import MappedWords, Words
from pagestore.runtime.kernel import kernel, late

# rows of the last level of `node`, which no tree is high enough to use: scratch, a word for each column or entry
KEY, RECORD, ENDS, LOW, HIGH = range(5)

BLOCK = 64  # entries measured at once


@kernel
def body_words(page_words, columns, scans, level):
    """Return how many words of a page columns may fill: not header, descriptors, ScanTree and the free last word."""
    room = page_words - HEADER - 2 * columns - 1
    return room - scan_room(page_words, scans, level) if scans.shape[0] else room


@kernel
def births_at(keys, folds):
    """Return the column of an index page that holds its children's births; -1 if the page would be too wide with it."""
    return keys + 1 + folds if keys + 1 + folds < INDEX_COLUMNS_MAX else -1


@kernel
def entry_columns(keys, values, folds, level):
    """Return how many columns pages of a level have."""
    if level == 0:
        return keys + values
    return keys + 1 + folds + (births_at(keys, folds) >= 0)


@kernel
def anchor(columns, folds, level):
    """Return the column of an index page that holds its children (base 0, so that a fresh child's id fits); else -1.

    A page with INDEX_COLUMNS_MAX columns may lack births, so this column does not follow from `columns`: also -1.
    """
    return columns - 2 - folds if level > 0 and columns < INDEX_COLUMNS_MAX else -1


@kernel
def measured(values, lo, hi, anchored):
    """Return (base, width) of the narrowest column that holds values[lo:hi]; the base of an anchored one is 0."""
    low, high = bounds(values, lo, hi)
    if anchored:
        low = 0
    return low, width_of(low, high)


@kernel
def bounds(values, lo, hi):
    """Return the least and the greatest of values[lo:hi], in a loop that the compiler can vectorize."""
    part = values[lo:hi]
    low = high = part[0]
    for i in range(1, part.shape[0]):
        value = part[i]
        low = min(low, value)
        high = max(high, value)
    return low, high


@kernel
def words_needed(node, columns, scans, level, lo, hi):
    """Return how many words entries lo..hi take, each column as narrow as its values allow."""
    anchored = anchor(columns, scans.shape[0], level)
    total = 0
    for c in range(columns):
        _, width = measured(node[c], lo, hi, c == anchored)
        total += ((hi - lo) * width + 63) >> 6
    return total


@kernel
def fill(node, columns, lo, hi, page_words, scans, level, spare):
    """Return the end of the longest run of entries from lo that fits on one page (greedy)."""
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
def write_page(fresh, kind_word, columns, entries):
    """Encode entries as a page of the arena; its checksum is stamped when it is written to the file."""
    arena, page, page_words = fresh.arena, fresh.page, fresh.page_words
    node, lo, hi = entries.node, entries.lo, entries.hi
    for i in range(page, page + HEADER):
        arena[i] = 0
    arena[page + ID] = fresh.page_id
    arena[page + BIRTH] = fresh.birth
    arena[page + TYPE] = kind_word
    arena[page + ENTRY_COUNT] = hi - lo
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
def emit(fresh, shape, level, entries, parent, words, kept, work):
    """Write entries as one page, and the entry of that page to its parent (see arguments.py).

    `words` is the map that `kept.old` indexes: folds of the old page's ScanTree may be reused.
    """
    folds = shape.scans.shape[0]
    columns = entry_columns(shape.keys, shape.values, folds, level)
    kind_word = type_word(INDEX if level else LEAF, level, columns, folds, shape.tree_id)
    write_page(fresh, kind_word, columns, entries)
    hand_up(fresh, shape, level, entries, True, parent, words, kept, work)


@kernel
def hand_up(fresh, shape, level, entries, decoded, parent, words, kept, work):
    """Write the ScanTree of an encoded page, and the page's entry to its parent; like `emit`.

    `decoded` says whether the node buffer holds all entries, or only those that are new.
    """
    arena, page, keys, above, at = fresh.arena, fresh.page, shape.keys, parent.node, parent.at
    for c in range(keys):
        above[c, at] = field(arena, page, c, 0)
    above[keys, at] = fresh.page_id
    births = births_at(keys, shape.scans.shape[0])
    if births >= 0:
        above[births, at] = arena[page + BIRTH]
    if shape.scans.shape[0]:
        scan_tree(work[SCAN_TREE], fresh, shape, level, entries, decoded, parent, words, kept, work)


@late(FreshPage, Shape, int, Entries, bool, ParentEntry, MappedWords, Kept, Words)
def scan_tree(fresh, shape, level, entries, decoded, parent, words, kept, work):
    """Write the ScanTree of a page, and the page's folds to its parent; like `hand_up`, for trees with scans."""
    if decoded or not patch_scan_tree(fresh, shape, level, entries, words, kept, work):
        grow_scan_tree(fresh, shape, level, entries, decoded, words, kept, work)
    _, _, _, nodes, _, stride = layout_of(fresh.page_words, shape.scans.shape[0])
    for f in range(shape.scans.shape[0]):
        parent.node[shape.keys + 1 + f, parent.at] = work[nodes + 1 + f * stride]
    return 1


@kernel
def cuts(node, columns, n, page_words, scans, level, spare):
    """Cut n entries into pages: as few as greedy filling needs, then as even as that allows.

    Write the end of each piece to spare[ENDS] and return the number of pieces.
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
