"""Encode tuples of words as one or two words with the same order: columns side by side, as narrow
as their values.

The least and the greatest word, which mean "no bound", get the codes below and above all others, so
that they do not make a column 64 bits wide. A word has 63 bits, so that it is not negative; the
bits of a tuple beyond its word are its tail.

    bits      │◂──────────── 63 ────────────▸│◂── tail bits ──▸│
    codes     │  column 0  │  column 1  │  column 2  │ column 3 │

Order tuples: check whether they ascend already, else merge their ascending runs.

keys           3 5 9 | 2 7 | 4        three runs that ascend
first round    2 3 5 7 9 | 4          neighbours are merged two by two
second         2 3 4 5 7 9
"""

from pagestore.pages.layout import WORD_MAX, WORD_MIN
from pagestore.pages.page import width_of
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import Table, Words

WORD_BITS = 63
LOW, HIGH, WIDTH, CODING = range(4)  # rows of a coding of K columns


@kernel
def order_tuples(columns, coding, words, order, some, spare, counts):
    """Set order[n] to the stable order of columns[K, n] as tuples; return False, doing nothing, if
    they exceed a word.

    coding[CODING, K], words[n], some[n], spare[n] and `counts` (see `order_words`) are scratch.
    O(n).
    """
    coding[LOW, :], coding[HIGH, :] = WORD_MAX, WORD_MIN
    value_bounds(columns, coding[LOW], coding[HIGH])
    bits = code_widths(coding)
    if bits > WORD_BITS:
        return False
    encode_tuples(columns, coding[LOW], coding[HIGH], coding[WIDTH], 0, words, words[:0])
    order_words(words, bits, order, some, spare, counts)
    return True


@kernel
def order_words(words: Words, bits: int, order: Words, some: Words, spare: Words, counts: Words):
    """Set order[n] to the stable order of words[n], which have `bits` bits.

    Each round sorts by as many bits as fit into a word together with the tuple's place. some[n],
    spare[n] and counts[1 << digit] are scratch.
    """
    n = words.shape[0]
    places = width_of(0, n)
    room, place = WORD_BITS - places, (1 << places) - 1
    for i in range(n):
        order[i] = i
    for at in range(0, bits, room):
        for i in range(n):
            some[i] = (words[order[i]] >> at & (1 << room) - 1) << places | i
        if sort_words(
            some, some[:0], spare, spare[:0], places, places + min(room, bits - at), counts
        ):
            some, spare = spare, some
        for i in range(n):
            spare[i] = order[some[i] & place]
        for i in range(n):
            order[i] = spare[i]


@kernel
def value_bounds(columns: Table, low: Words, high: Words):
    """Widen low[K]..high[K] to the values of columns[K, n] except WORD_MIN and WORD_MAX.

    If there is no value, low stays above high.
    """
    for c in range(columns.shape[0]):
        least, greatest = low[c], high[c]
        for i in range(columns.shape[1]):
            x = columns[c, i]
            if x != WORD_MIN and x != WORD_MAX:
                least = min(least, x)
                greatest = max(greatest, x)
        low[c], high[c] = least, greatest


@kernel
def code_widths(coding: Table):
    """Fill in the width of each column's codes from the bounds of `value_bounds`; return the sum
    of the widths.
    """
    bits = 0
    for c in range(coding.shape[1]):
        if coding[LOW, c] > coding[HIGH, c]:
            coding[LOW, c] = coding[HIGH, c] = 0
        coding[WIDTH, c] = width_of(coding[LOW, c] - 2, coding[HIGH, c])
        bits += coding[WIDTH, c]
    return bits


@kernel
def encode_tuples(
    columns: Table, low: Words, high: Words, width: Words, tail: int, words: Words, tails: Words
):
    """Write the codes of tuples columns[K, n] to words[n] and their tails of `tail` bits to
    tails[n]; [0] if none.
    """
    words[:] = 0
    tails[:] = 0
    at = 0
    for c in range(columns.shape[0] - 1, -1, -1):
        below = min(max(tail - at, 0), width[c])  # bits of the column that are in the tail
        if below:
            mask = (1 << below) - 1
            for i in range(tails.shape[0]):
                tails[i] |= (code_of(columns[c, i], low[c], high[c]) & mask) << at
        if below < width[c]:
            mask = (1 << width[c] - below) - 1
            shift = max(at - tail, 0)
            for i in range(words.shape[0]):
                words[i] |= (code_of(columns[c, i], low[c], high[c]) >> below & mask) << shift
        at += width[c]


@kernel
def code_of(x: int, low: int, high: int):
    """Return the code of x: 0 for WORD_MIN, 1 or more for the column's values, the highest for
    WORD_MAX.
    """
    if x == WORD_MIN:
        return 0
    return high - low + 2 if x == WORD_MAX else x - low + 1


@kernel
def count_leads(words: Words, shift: int, counts: Words):
    """Count the tuples of each bucket; words[n] without their last `shift` bits are the buckets'
    numbers.
    """
    for i in range(words.shape[0]):
        counts[words[i] >> shift] += 1


@kernel
def count_firsts(first: Words, low: Words, high: Words, width: Words, lead: int, counts: Words):
    """Like `count_leads`, where the `lead` leading bits of column 0, first[n], are the buckets'
    numbers.
    """
    for i in range(first.shape[0]):
        counts[code_of(first[i], low[0], high[0]) >> (width[0] - lead) & (1 << lead) - 1] += 1


@kernel
def deal(
    words: Words, tails: Words, shift: int, tail: int, at: Words, out: Words, tails_out: Words
):
    """Distribute tuples to their buckets: bucket b is filled from at[b] on, and at[b] advances.

    Without tails_out only the last 63 bits of each tuple are kept; the bucket's number has the
    others."""
    fold = tails.shape[0] > 0 and tails_out.shape[0] == 0
    for i in range(words.shape[0]):
        n = at[words[i] >> shift]
        at[words[i] >> shift] += 1
        out[n] = (words[i] << tail | tails[i]) & WORD_MAX if fold else words[i]
        if tails_out.shape[0]:
            tails_out[n] = tails[i]


@kernel
def decode_tuples(words, tails, low, high, width, tail, marked, above, columns, at):
    """Decode what `encode_tuples` has encoded, to columns[:, at:].

    The code of column `marked` has one more bit after it; `above` are bits of column 0 that the
    words may lack.
    """
    shift = 0
    for c in range(columns.shape[0] - 1, -1, -1):
        mask = (1 << width[c]) - 1 if width[c] < 64 else -1
        greatest = high[c] - low[c] + 2
        for i in range(words.shape[0]):
            if shift >= tail:
                code = words[i] >> (shift - tail) & mask
            elif shift + width[c] <= tail:
                code = tails[i] >> shift & mask
            else:
                code = (tails[i] >> shift | words[i] << (tail - shift)) & mask
            if c == 0:
                code |= above
            if c == marked:
                code >>= 1
            x = low[c] + code - 1
            if code == 0:
                x = WORD_MIN
            elif code == greatest:
                x = WORD_MAX
            columns[c, at + i] = x
        shift += width[c]


@kernel
def sort_words(words, others, spare, others_spare, first, bits, counts):
    """Sort words stably by bits first..bits; higher bits are equal.  Return whether the result is
    in `spare`.

    others[n], or [0], move with them. counts[1 << digit] is scratch: a pass sorts by `digit` bits
    at most, and writes 2 ** digit runs side by side; the passes share the bits evenly.
    """
    if first >= bits:
        return False
    passes = -(-(bits - first) // width_of(1, counts.shape[0]))
    digit = -(-(bits - first) // passes)
    moved = False
    for shift in range(first, bits, digit):
        if moved:
            moved = not pass_on(spare, others_spare, words, others, shift, counts[: 1 << digit])
        else:
            moved = pass_on(words, others, spare, others_spare, shift, counts[: 1 << digit])
    return moved


@kernel
def pass_on(words: Words, others: Words, out: Words, others_out: Words, shift: int, counts: Words):
    """Sort words stably by the digit at `shift` to `out`; return False, doing nothing, if all
    have the same digit.
    """
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
        if others.shape[0]:
            others_out[counts[d]] = others[i]
        counts[d] += 1
    return True


@kernel
def drop_repeats(words: Words, tails: Words):
    """Move the distinct ones of sorted tuples to the front; return their number."""
    n = 0
    last, last_tail = -1, 0
    for i in range(words.shape[0]):
        word = words[i]
        words[n] = word
        differs = word != last
        last = word
        if tails.shape[0]:
            tail = tails[i]
            tails[n] = tail
            differs |= tail != last_tail
            last_tail = tail
        n += differs
    return n


@kernel
def ascends(keys: Table):
    """Return whether the tuples keys[K, n] ascend strictly, as most batches do: then nothing has
    to move.
    """
    for i in range(1, keys.shape[1]):
        c = 0
        while c < keys.shape[0] and keys[c, i] == keys[c, i - 1]:
            c += 1
        if c == keys.shape[0] or keys[c, i] < keys[c, i - 1]:
            return False
    return True


@kernel
def merge_order(keys: Table, order: Words):
    """Set order[:n] to the stable order of the first n tuples of keys[K, m], where order has 2n
    words.

    O(n log r) for r ascending runs; the tuples that probes find have few of them.
    """
    n = order.shape[0] >> 1
    for i in range(n):
        order[i] = i
    at, runs = 0, 2
    while runs > 1:
        runs, to, start = 0, n - at, 0
        while start < n:
            middle = run_behind(keys, order, at, start, n)
            if middle - start == n:
                to = at
            else:
                end = run_behind(keys, order, at, middle, n)
                merge_runs(keys, order, at + start, at + middle, at + end, to + start)
                middle = end
            start = middle
            runs += 1
        at = to
    for i in range(n if at else 0):
        order[i] = order[n + i]


@kernel
def run_behind(keys: Table, order: Words, at: int, start: int, n: int):
    """Return the end of the ascending run that begins at `start`, among the n places from
    order[at] on.
    """
    end = min(start + 1, n)
    while end < n and not follows(keys, order[at + end - 1], order[at + end]):
        end += 1
    return end


@kernel
def merge_runs(keys: Table, order: Words, a: int, b: int, end: int, out: int):
    """Merge order[a:b] and order[b:end] to order[out:]."""
    b_start = b
    while a < b_start and b < end:
        later = follows(keys, order[a], order[b])
        order[out] = order[b if later else a]
        a, b = a + (not later), b + later
        out += 1
    while a < b_start:
        order[out] = order[a]
        a, out = a + 1, out + 1
    while b < end:
        order[out] = order[b]
        b, out = b + 1, out + 1


@kernel
def follows(keys: Table, a: int, b: int):
    """Return whether tuple a sorts after tuple b; of two equal ones, the one with the higher
    index does.
    """
    for c in range(keys.shape[0]):
        if keys[c, a] != keys[c, b]:
            return keys[c, a] > keys[c, b]
    return a > b
