"""Make fresh pages from decoded columns: how many entries fit, one page, a run of even pages.

Entries come from a `node` buffer, int64[C, capacity]: the records of a leaf, or the (keys, child,
folds, birth) of an index page.  Writing goes to `arena`, whose page number s is page `ids[s]` of
the file.

Make a fresh page from an old one by moving bits, for the few edits that most pages take at a time.

    old     |a b c d e f g h|      runs of entries that stay: 0..3 to 0, 4..8 to 4
    fresh   |a b c x e f g h|      and between them the new entries, from a node buffer

A column keeps its base and width as long as the new values fit, so its runs move by a funnel shift,
a word at a time, and nothing is decoded. A column with a value that does not fit is decoded,
measured and packed; the others still move. Only measuring the whole page finds columns that are
wider than their values need, so header word AGE counts the edits since the last time; it may reach
a quarter of the entries.
"""

from pagestore.pages.layout import (
    AGE,
    BIRTH,
    ENTRY_COUNT,
    HEADER,
    ID,
    INDEX,
    INDEX_COLUMNS_MAX,
    LEAF,
    TYPE,
    Entries,
    FreshPage,
    Kept,
    ParentEntry,
    Shape,
)
from pagestore.pages.page import (
    column,
    columns_of,
    field,
    pack,
    records_max,
    type_word,
    unpack,
    width_of,
    word_from,
)
from pagestore.pages.scan_tree import SCAN_TREE, grow_scan_tree, layout_of, scan_room
from pagestore.pages.scan_tree_edit import patch_scan_tree
from pagestore.runtime.kernel import kernel, on_demand
from pagestore.runtime.types import MappedWords, Table, Words

# rows of the last level of `node`, which no tree is high enough to use: scratch, a word for each
# column or entry
KEY, RECORD, ENDS, LOW, HIGH = range(5)

BLOCK = 64  # entries measured at once


@kernel
def body_words(page_words: int, columns: int, scans: Table, level: int):
    """Return how many words of a page columns may fill: not header, descriptors, ScanTree and
    the free last word.
    """
    room = page_words - HEADER - 2 * columns - 1
    return room - scan_room(page_words, scans, level) if scans.shape[0] else room


@kernel
def births_at(keys: int, folds: int):
    """Return the column of an index page that holds its children's births; -1 if the page would
    be too wide with it.
    """
    return keys + 1 + folds if keys + 1 + folds < INDEX_COLUMNS_MAX else -1


@kernel
def entry_columns(keys: int, values: int, folds: int, level: int):
    """Return how many columns pages of a level have."""
    if level == 0:
        return keys + values
    return keys + 1 + folds + (births_at(keys, folds) >= 0)


@kernel
def anchor(columns: int, folds: int, level: int):
    """Return the column of an index page that holds its children (base 0, so that a fresh child's
    id fits); else -1.

    A page with INDEX_COLUMNS_MAX columns may lack births, so this column does not follow from
    `columns`: also -1.
    """
    return columns - 2 - folds if level > 0 and columns < INDEX_COLUMNS_MAX else -1


@kernel
def measured(values: Words, lo: int, hi: int, anchored: bool):
    """Return (base, width) of the narrowest column that holds values[lo:hi]; the base of an
    anchored one is 0.
    """
    low, high = bounds(values, lo, hi)
    if anchored:
        low = 0
    return low, width_of(low, high)


@kernel
def bounds(values: Words, lo: int, hi: int):
    """Return the least and the greatest of values[lo:hi], in a loop that the compiler can
    vectorize.
    """
    part = values[lo:hi]
    low = high = part[0]
    for i in range(1, part.shape[0]):
        value = part[i]
        low = min(low, value)
        high = max(high, value)
    return low, high


@kernel
def words_needed(node: Table, columns: int, scans: Table, level: int, lo: int, hi: int):
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
def write_page(fresh: FreshPage, kind_word: int, columns: int, entries: Entries):
    """Encode entries as a page of the arena; its checksum is stamped when it is written to the
    file.
    """
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


@on_demand(FreshPage, Shape, int, Entries, bool, ParentEntry, MappedWords, Kept, Words)
def scan_tree(fresh, shape, level, entries, decoded, parent, words, kept, work):
    """Write the ScanTree of a page, and the page's folds to its parent; like `hand_up`, for
    trees with scans.
    """
    if decoded or not patch_scan_tree(fresh, shape, level, entries, words, kept, work):
        grow_scan_tree(fresh, shape, level, entries, decoded, words, kept, work)
    _, _, _, nodes, _, stride = layout_of(fresh.page_words, shape.scans.shape[0])
    for f in range(shape.scans.shape[0]):
        parent.node[shape.keys + 1 + f, parent.at] = work[nodes + 1 + f * stride]
    return 1


@kernel
def cuts(
    node: Table, columns: int, n: int, page_words: int, scans: Table, level: int, spare: Table
):
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
        and max(
            words_needed(node, columns, scans, level, 0, half),
            words_needed(node, columns, scans, level, half, n),
        )
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


PATIENCE = 4  # a page of n entries is measured anew after n / PATIENCE edits


@kernel
def shift_page(words, kept, entries, columns, anchored, least, room, fresh):
    """Write the fresh page that replaces an old one; return whether that was possible (see
    arguments.py).

    The new entries are in the node buffer, between the runs that are kept. It is impossible if too
    much changed, if the old page is of format 1 and has no births, or if the columns would take
    less than `least` or more than `room` words. Column `anchored` has base 0 (-1: no column has).
    """
    old, runs_at, runs, node, n = kept.old, kept.row, kept.runs, entries.node, entries.hi
    arena, page, page_words = fresh.arena, fresh.page, fresh.page_words
    entries = words[old + ENTRY_COUNT]
    kept = 0
    for r in range(runs):
        kept += node[runs_at + 1, r] - node[runs_at, r]
    age = words[old + AGE] + max(n, entries) - kept
    if PATIENCE * age > n or n > records_max(page_words) or columns_of(words, old) != columns:
        return False
    at = HEADER + 2 * columns
    for c in range(columns):
        base, _, width = column(words, old, c)
        if not fits(node, runs_at, runs, n, node[c], base, width):
            decode_runs(words, old, node, c, runs_at, runs)
            base, width = measured(node[c], 0, n, c == anchored)
        arena[page + HEADER + 2 * c] = base
        arena[page + HEADER + 2 * c + 1] = at << 8 | width
        at += (n * width + 63) >> 6
    used = at - HEADER - 2 * columns
    if used < least or used > room:
        return False
    for i in range(HEADER):
        arena[page + i] = 0
    arena[page + ID] = fresh.page_id
    arena[page + BIRTH] = fresh.birth
    arena[page + TYPE] = words[old + TYPE]
    arena[page + ENTRY_COUNT] = n
    arena[page + AGE] = age
    for c in range(columns):
        move_column(words, old, node, c, runs_at, runs, n, arena, page)
    arena[page + at : page + page_words] = 0
    return True


@kernel
def fits(node: Table, runs_at: int, runs: int, n: int, values: Words, base: int, width: int):
    """Return whether all values between the runs fit in `width` bits as offsets from `base`."""
    if width == 64:
        return True
    i = 0
    for r in range(runs + 1):
        stop = node[runs_at + 2, r] if r < runs else n
        while i < stop:
            if (values[i] - base) >> width:
                return False
            i += 1
        if r < runs:
            i += node[runs_at + 1, r] - node[runs_at, r]
    return True


@kernel
def decode_runs(words: MappedWords, old: int, node: Table, c: int, runs_at: int, runs: int):
    """Decode the runs of column c of the old page to their places in the buffer."""
    for r in range(runs):
        unpack(words, old, c, node[runs_at, r], node[runs_at + 1, r], node[c], node[runs_at + 2, r])


@kernel
def move_column(words, old, node, c, runs_at, runs, n, arena, page):
    """Write column c, whose descriptor is already in the fresh page."""
    base, start, width = column(arena, page, c)
    old_base, old_start, old_width = column(words, old, c)
    if base != old_base or width != old_width:
        pack(arena, start, base, width, node[c], 0, n)
        return
    if width == 0:
        return
    begin, source = start << 6, old_start << 6
    i = 0
    for r in range(runs + 1):
        stop = node[runs_at + 2, r] if r < runs else n
        while i < stop:
            put_bits(arena, begin + i * width, width, node[c, i] - base)
            i += 1
        if r < runs:
            first, end = node[runs_at, r], node[runs_at + 1, r]
            move_bits(
                words, source + first * width, arena, begin + i * width, (end - first) * width
            )
            i += end - first
    end = begin + n * width
    if end & 63:
        arena[end >> 6] &= ~(-1 << (end & 63))


@kernel
def put_bits(target: Words, to: int, width: int, value: int):
    """Write `value`, which has at most `width` bits, from bit `to` on; the bits after them are
    lost.
    """
    k, shift = to >> 6, to & 63
    target[k] = target[k] & ~(-1 << shift) | value << shift
    if shift + width > 64:
        target[k + 1] = value >> (64 - shift) & ~(-1 << shift)


@kernel
def move_bits(source: MappedWords, at: int, target: Words, to: int, count: int):
    """Copy `count` bits from bit `at` of the source to bit `to` of the target; the target bits
    after them are lost.

    Read at most one word past the source bits.
    """
    shift = to & 63
    if shift:
        k = to >> 6
        target[k] = target[k] & ~(-1 << shift) | word_from(source, at >> 6, at & 63) << shift
        at += 64 - shift
        to += 64 - shift
        count -= 64 - shift
    if count <= 0:
        return
    whole = count >> 6
    shift = at & 63
    k = at >> 6
    out = target[to >> 6 : (to >> 6) + whole]
    if shift == 0:
        from_ = source[k : k + whole]
        for i in range(whole):
            out[i] = from_[i]
    else:
        left = 64 - shift
        mask = ~(-1 << left)
        here, next_ = source[k : k + whole], source[k + 1 : k + 1 + whole]
        for i in range(whole):
            out[i] = here[i] >> shift & mask | next_[i] << left
    if count & 63:
        target[(to >> 6) + whole] = word_from(source, (at >> 6) + whole, at & 63)
