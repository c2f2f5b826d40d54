"""One page as arrays: read and write narrow columns, and search the keys of a page.

A kernel gets the whole map as ``words`` and addresses a page by the index of its first word.
Columns are read through two descriptor words (see layout.py), so a lookup hoists them once and
then touches only the words that hold the bits it needs.
"""

from pagestore.pages.layout import (
    ENTRY_COUNT,
    HEADER,
    RECORDS_A_WORD,
    TYPE,
    WORD_MAX,
    page_columns,
    page_type,
)
from pagestore.runtime.intrinsics import either, word_at
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import MappedWords, Words

NARROW = 57  # bits; a value of this width or less is read with one load

type_word, columns_in = kernel(page_type), kernel(page_columns)


@kernel
def records_max(page_words: int):
    """Return the most records that a page may hold, which bounds the scratch of every kernel."""
    return RECORDS_A_WORD * page_words


@kernel
def columns_of(words: MappedWords | Words, page: int):
    """Return how many columns a page has."""
    return columns_in(words[page + TYPE])


@kernel
def folds_of(words: MappedWords, page: int):
    """Return how many folds an entry of the page's tree has."""
    return words[page + TYPE] >> 24 & 255


@kernel
def column(words: MappedWords | Words, page: int, c: int):
    """Return (base, index of the first word, width) of a column."""
    at = page + HEADER + 2 * c
    offset = words[at + 1]
    return words[at], page + (offset >> 8), offset & 255


@kernel
def bits(words: MappedWords | Words, start: int, width: int, i: int):
    """Return the `width` bits of entry i, as a word."""
    if width <= NARROW:
        return narrow(words, start, width, i)
    at = i * width
    byte, shift = 8 * start + (at >> 3), at & 7
    low = word_at(words, byte) >> shift & ~(-2 << (63 - shift))
    high = word_at(words, byte + 8) << 1 << (63 - shift)
    return (low | high) & ~(-2 << (width - 1))


@kernel
def narrow(words: MappedWords | Words, start: int, width: int, i: int):
    """Like `bits`, for widths up to NARROW: one load, since 8 bytes from the value's first byte
    on hold all of it.
    """
    return bits_at(words, 64 * start + i * width, (1 << width) - 1)


@kernel
def field(words: MappedWords | Words, page: int, c: int, i: int):
    """Return value i of column c."""
    base, start, width = column(words, page, c)
    return base + bits(words, start, width, i)


@kernel
def birth_at(words: MappedWords, page: int, keys: int, slot: int):
    """Return which version wrote the child at a slot of an index page; 0 if the page has no
    births.
    """
    last = keys + 1 + folds_of(words, page)
    return field(words, page, last, slot) if columns_of(words, page) > last else 0


@kernel
def unpack(words: MappedWords | Words, page: int, c: int, lo: int, hi: int, out: Words, at: int):
    """Decode entries lo..hi of column c into ``out[at:]``, in a loop that the compiler can
    vectorize.
    """
    base, start, width = column(words, page, c)
    unpack_bits(words, base, start, width, lo, hi, out, at)


@kernel
def unpack_bits(words, base, start, width, lo, hi, out, at):
    """Like `unpack`, for a column that begins at word `start` and has `width` bits per value."""
    values = out[at : at + hi - lo]
    if width > NARROW:
        for i in range(values.shape[0]):
            values[i] = base + bits(words, start, width, lo + i)
        return
    for i in range(values.shape[0]):
        values[i] = base + narrow(words, start, width, lo + i)


@kernel
def width_of(low: int, high: int):
    """Return how many bits hold every value of [low, high] as an offset from low; a wrapped
    difference takes 64.
    """
    span = high - low
    if span < 0:
        return 64
    width = 0
    while span:
        span >>= 1
        width += 1
    return width


@kernel
def word_from(words: MappedWords, i: int, bit: int):
    """Return the 64 bits that begin at a bit of words[i]."""
    return word_at(words, 8 * i) >> bit & ~(-2 << (63 - bit)) | word_at(words, 8 * i + 8) << 1 << (
        63 - bit
    )


@kernel
def pack(words: Words, start: int, base: int, width: int, values: Words, lo: int, hi: int):
    """Encode ``values[lo:hi]`` as offsets from base, `width` bits each, from word `start` on.

    Return the index after the last word written.
    """
    if width == 0:
        return start
    word = 0
    filled = 0
    part = values[lo:hi]
    for i in range(part.shape[0]):
        value = part[i] - base
        word |= value << filled
        filled += width
        if filled >= 64:
            words[start] = word
            start += 1
            filled -= 64
            word = 0
            if filled:
                shift = width - filled
                word = value >> shift & ~(-2 << (63 - shift))
    if filled:
        words[start] = word
        start += 1
    return start


@kernel
def lower(words: MappedWords, page: int, c: int, lo: int, hi: int, x: int):
    """Return the first i in [lo, hi) whose column c is at least x; else hi.  O(log(hi - lo))."""
    base, start, width = column(words, page, c)
    return halve(words, base, start, width, lo, hi, x)


@kernel
def halve(words: MappedWords, base: int, start: int, width: int, lo: int, hi: int, x: int):
    """Like `lower`, for a column whose base, start and width are known.

    Probe three entries at once, whose loads do not wait for each other, until few entries are left.
    Offsets are kept in bits, since a multiplication would delay the next load.
    """
    n = hi - lo
    if width > NARROW:
        while n > 1:
            half = n >> 1
            lo += either(base + bits(words, start, width, lo + half - 1) < x, half, 0)
            n -= half
        return lo + (n > 0 and base + bits(words, start, width, lo) < x)
    at, mask = 64 * start + lo * width, (1 << width) - 1
    while n > 3:
        part = n >> 2
        span = part * width
        middle = at + 2 * span - width
        up = base + bits_at(words, middle, mask) < x
        value = either(up, bits_at(words, middle + span, mask), bits_at(words, middle - span, mask))
        further = base + value < x
        at += either(up, 2 * span, 0) + either(further, span, 0)
        lo += either(up, 2 * part, 0) + either(further, part, 0)
        n -= 3 * part
    while n > 0:
        half = (n + 1) >> 1
        below = base + bits_at(words, at + (half - 1) * width, mask) < x
        at += either(below, half * width, 0)
        lo += either(below, half, 0)
        n -= half
    return lo


@kernel
def bits_at(words: MappedWords | Words, at: int, mask: int):
    """Return the bits of `mask`, up to NARROW, from bit `at` of the map on."""
    return word_at(words, at >> 3) >> (at & 7) & mask


@kernel
def gallop(words: MappedWords, page: int, c: int, lo: int, hi: int, x: int):
    """Like `lower`, in O(log distance): double the step, then halve it."""
    base, start, width = column(words, page, c)
    if lo >= hi or base + bits(words, start, width, lo) >= x:
        return lo
    step = 1
    while lo + step < hi and base + bits(words, start, width, lo + step) < x:
        lo += step
        step <<= 1
    return halve(words, base, start, width, lo + 1, min(hi, lo + step), x)


@kernel
def run_end(words: MappedWords, page: int, c: int, lo: int, hi: int, x: int):
    """Return the first i in [lo, hi) whose column c exceeds x, given that entry lo does not, by
    galloping.
    """
    return gallop(words, page, c, lo, hi, x + 1) if x < WORD_MAX else hi


@kernel
def locate(words: MappedWords, page: int, key: Words, m: int, lo: int):
    """Return the first entry from `lo` on whose first m columns are at least ``key[:m]``, and
    whether they equal it.

    Narrow by one column at a time, so that every probe stays inside one column's words.
    """
    hi = words[page + ENTRY_COUNT]
    for c in range(m):
        if c:
            hi = run_end(words, page, c - 1, lo, hi, key[c - 1])
        lo = lower(words, page, c, lo, hi, key[c])
        if lo == hi or field(words, page, c, lo) != key[c]:
            return lo, False
    return lo, lo < hi


@kernel
def child_slot(words: MappedWords, page: int, key: Words, m: int, keys: int, lo: int):
    """Return the entry of an index page whose subtree holds the place of ``key[:m]`` (its lower
    bound).

    With a whole key that is the last entry whose separator is not above it.  With a prefix (m <
    keys) the first equal record may still be below the entry before the first equal separator.
    """
    slot, equal = locate(words, page, key, m, lo)
    if equal and m == keys:
        return slot
    return max(slot - 1, lo)
