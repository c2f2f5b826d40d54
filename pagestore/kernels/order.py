"""Tuples of words as single words that sort alike: each column as narrow as its values, side by side.

The least and the greatest word, which stand for no bound, get the codes below and above all others, so that they
do not make a column 64 bits wide.
"""

from pagestore.kernels.kernel import kernel
from pagestore.kernels.page import width_of
from pagestore.layout import GREATEST, LEAST

WORD_BITS = 63  # of a word that is not negative
LOW, HIGH, WIDTH, CODING = range(4)  # rows of a coding of K columns


@kernel
def order_tuples(columns, coding, words, order, some, spare, counts):
    """Make order[n] the stable order of columns[K, n] as tuples; False, and nothing is done, if a word is too narrow.

    coding[CODING, K], words[n] and, as `order_words` says, some[n], spare[n] and `counts` are room.  O(n).
    """
    coding[LOW, :], coding[HIGH, :] = GREATEST, LEAST
    value_bounds(columns, coding[LOW], coding[HIGH])
    bits = code_widths(coding)
    if bits > WORD_BITS:
        return False
    encode_tuples(columns, coding[LOW], coding[HIGH], coding[WIDTH], words)
    order_words(words, bits, order, some, spare, counts)
    return True


@kernel
def order_words(words, bits, order, some, spare, counts):
    """Make order[n] the stable order of words[n], which have so many bits.

    Sorts as many bits at a time as fit a word with the place of it, which goes with them. some[n], spare[n] and
    counts[1 << digit] are room.
    """
    n = words.shape[0]
    places = width_of(0, n)
    room, place = WORD_BITS - places, (1 << places) - 1
    for i in range(n):
        order[i] = i
    for at in range(0, bits, room):
        for i in range(n):
            some[i] = (words[order[i]] >> at & (1 << room) - 1) << places | i
        if sort_words(some, spare, places, places + min(room, bits - at), counts):
            some, spare = spare, some
        for i in range(n):
            spare[i] = order[some[i] & place]
        for i in range(n):
            order[i] = spare[i]


@kernel
def value_bounds(columns, low, high):
    """Widen low[K]..high[K] to the values of columns[K, n], but for LEAST and GREATEST; low > high where none came."""
    for c in range(columns.shape[0]):
        least, greatest = low[c], high[c]
        for i in range(columns.shape[1]):
            x = columns[c, i]
            if x != LEAST and x != GREATEST:
                least = min(least, x)
                greatest = max(greatest, x)
        low[c], high[c] = least, greatest


@kernel
def code_widths(coding):
    """Fill in how wide the codes of each column are, of bounds from `value_bounds`; returns what all take."""
    bits = 0
    for c in range(coding.shape[1]):
        if coding[LOW, c] > coding[HIGH, c]:
            coding[LOW, c] = coding[HIGH, c] = 0
        coding[WIDTH, c] = width_of(coding[LOW, c] - 2, coding[HIGH, c])
        bits += coding[WIDTH, c]
    return bits


@kernel
def encode_tuples(columns, low, high, width, out):
    """The last 63 bits of the codes of tuples, each column's side by side."""
    for i in range(out.shape[0]):  # the first column may be 64 bits wide
        out[i] = code_of(columns[0, i], low[0], high[0]) & GREATEST
    for c in range(1, columns.shape[0]):
        for i in range(out.shape[0]):
            out[i] = (out[i] << width[c] | code_of(columns[c, i], low[c], high[c])) & GREATEST


@kernel
def code_of(x, low, high):
    """0 for LEAST, the values of a column from 1 on, then GREATEST."""
    if x == LEAST:
        return 0
    return high - low + 2 if x == GREATEST else x - low + 1


@kernel
def bucket_of(x, low, high, width, lead):
    """The leading bits of a code, which may have 64."""
    return code_of(x, low, high) >> (width - lead) & (1 << lead) - 1


@kernel
def count_leads(first, low, high, width, lead, counts):
    """Count the tuples of each bucket: the leading bits of the codes of column 0, first[n]."""
    for i in range(first.shape[0]):
        counts[bucket_of(first[i], low[0], high[0], width[0], lead)] += 1


@kernel
def deal(first, low, high, width, lead, codes, at, out):
    """Put the codes of tuples into their buckets, at[b] onwards, and `at` behind them."""
    for i in range(first.shape[0]):
        bucket = bucket_of(first[i], low[0], high[0], width[0], lead)
        out[at[bucket]] = codes[i]
        at[bucket] += 1


@kernel
def decode_tuples(codes, low, high, width, lead, bucket, columns, at):
    """What `encode_tuples` was given, of one bucket, to columns[:, at:]."""
    shift = 0
    for c in range(columns.shape[0] - 1, -1, -1):
        mask = (1 << width[c]) - 1 if width[c] < 63 else GREATEST
        greatest = high[c] - low[c] + 2
        above = bucket << (width[0] - lead) if c == 0 else 0
        for i in range(codes.shape[0]):
            code = codes[i] >> shift & mask | above
            x = low[c] + code - 1
            if code == 0:
                x = LEAST
            elif code == greatest:
                x = GREATEST
            columns[c, at + i] = x
        shift += width[c]


@kernel
def sort_words(words, spare, first, bits, counts):
    """Sort words by their bits from `first` on, stably; all but the last `bits` are alike.  Are they in `spare` now?

    counts[1 << digit] is room: a pass looks at so many bits, and writes as many runs side by side.
    """
    moved = False
    for shift in range(first, bits, width_of(1, counts.shape[0])):
        if moved:
            moved = not pass_on(spare, words, shift, counts)
        else:
            moved = pass_on(words, spare, shift, counts)
    return moved


@kernel
def pass_on(words, out, shift, counts):
    """Sort words by the digit at `shift` to `out`, stably.  False, and nothing is done, where all have the same."""
    if words.shape[0] < 2:
        return False
    mask = counts.shape[0] - 1
    counts[:] = 0
    for i in range(words.shape[0]):
        counts[words[i] >> shift & mask] += 1
    if counts[words[0] >> shift & mask] == words.shape[0]:
        return False
    at = 0
    for d in range(counts.shape[0]):
        at += counts[d]
        counts[d] = at - counts[d]
    for i in range(words.shape[0]):
        d = words[i] >> shift & mask
        out[counts[d]] = words[i]
        counts[d] += 1
    return True


@kernel
def drop_repeats(words):
    """Keep each of some sorted words, which are not negative, once, in front.  Returns how many there are."""
    n = 0
    last = -1
    for i in range(words.shape[0]):
        word = words[i]
        words[n] = word
        n += word != last
        last = word
    return n
