"""Make a fresh page from an old one by moving bits, for the few edits that most pages take at a time.

    old     |a b c d e f g h|      runs of entries that stay: 0..3 to 0, 4..8 to 4
    fresh   |a b c x e f g h|      and between them the new entries, from a node buffer

A column keeps its base and width as long as the new values fit, so its runs move by a funnel shift, a word at
a time, and nothing is decoded. A column with a value that does not fit is decoded, measured and packed; the
others still move. Only measuring the whole page finds columns that are wider than their values need, so header
word AGE counts the edits since the last time; it may reach a quarter of the entries.
"""

from pagestore.pages.build import measured
from pagestore.pages.layout import AGE, BIRTH, ENTRY_COUNT, HEADER, ID, TYPE
from pagestore.pages.page import column, columns_of, pack, records_max, unpack, word_from
from pagestore.runtime.kernel import kernel

PATIENCE = 4  # a page of n entries is measured anew after n / PATIENCE edits


@kernel
def shift_page(words, kept, entries, columns, anchored, least, room, fresh):
    """Write the fresh page that replaces an old one; return whether that was possible (see arguments.py).

    The new entries are in the node buffer, between the runs that are kept. It is impossible if too much changed,
    if the old page is of format 1 and has no births, or if the columns would take less than `least` or more than
    `room` words. Column `anchored` has base 0 (-1: no column has).
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
def fits(node, runs_at, runs, n, values, base, width):
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
def decode_runs(words, old, node, c, runs_at, runs):
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
            move_bits(words, source + first * width, arena, begin + i * width, (end - first) * width)
            i += end - first
    end = begin + n * width
    if end & 63:
        arena[end >> 6] &= ~(-1 << (end & 63))


@kernel
def put_bits(target, to, width, value):
    """Write `value`, which has at most `width` bits, from bit `to` on; the bits after them are lost."""
    k, shift = to >> 6, to & 63
    target[k] = target[k] & ~(-1 << shift) | value << shift
    if shift + width > 64:
        target[k + 1] = value >> (64 - shift) & ~(-1 << shift)


@kernel
def move_bits(source, at, target, to, count):
    """Copy `count` bits from bit `at` of the source to bit `to` of the target; the target bits after them are lost.

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
