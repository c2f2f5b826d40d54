"""Slices as bitmaps over a common universe: intersected a word at a time, each built once for many bindings.

Below an outer variable, the slices that do not change share some keys, the *universe* (`ground`), numbered from 1. The
other slices of the level change with inner variables; each becomes a bitmap over the universe, whose bit 0 is unused.
Where a slice recurs while others change, its bitmap is reused:

    cliques(x, y, z, w): the universe is the successors of x; under it the bitmaps of y and z, each built once, serve
    all (y, z)
"""

from ivm.join.kernels.leaf_slices import ahead
from pagestore.compiled import kernel, lowest, population

# columns of `ground`, a row for each level
(
    OVERLAYS,  # the address of `overlay`, 0 where there are no bitmaps
    STAYING,  # a bit for each part whose slice defines the universe
    CHANGER,  # the level whose binding changes the universe
    LAID,  # its stamp when the universe was built
    LISTED,  # where the keys of the universe are listed in `scratch`
    LISTED_STOP,  # their end
    LISTED_MAX,  # the most keys for which bitmaps are built
    LEAST,  # the key of the first entry in `numbers`
    NUMBERS,  # where in `numbers` the number of each key is, 0 for none
    MET,  # where in `bits` the intersection so far is
    ROWS,  # where the first bitmap is, its owner before it
    ROWS_STOP,  # the end of the last
    ROWS_MAX,  # the end of their space
    GROUND,
) = range(14)

LEAP = 8  # gallop through a slice this many times longer than the universe


@kernel
def clear(ground, scratch, numbers, bits):
    """Delete the universe and its bitmaps."""
    width = row_words(ground) + 1
    for i in range(ground[LISTED], ground[LISTED_STOP]):
        numbers[ground[NUMBERS] + (scratch[i] - ground[LEAST])] = 0
    for row in range(ground[ROWS], ground[ROWS_STOP], width):
        numbers[bits[row]] = 0
    ground[ROWS_STOP] = ground[ROWS]
    ground[LISTED_STOP] = ground[LISTED]


@kernel
def lay(ground, scratch, numbers, n):
    """Number the n listed keys as the universe.  Return False if there are too many."""
    if n > ground[LISTED_MAX]:
        return False
    ground[LISTED_STOP] = ground[LISTED] + n
    for i in range(n):
        numbers[ground[NUMBERS] + (scratch[ground[LISTED] + i] - ground[LEAST])] = i + 1
    return True


@kernel
def row_words(ground):
    """Return the number of words of a bitmap."""
    return ((ground[LISTED_STOP] - ground[LISTED]) >> 6) + 1


@kernel
def row_of(ground, data, lo, hi, owner, scratch, numbers, bits):
    """Return where in `bits` the bitmap of data[lo:hi] is, building it if numbers[owner] is 0; -1 if it has no room."""
    if numbers[owner]:
        return numbers[owner]
    words = row_words(ground)
    row = ground[ROWS_STOP] + 1
    if row + words > ground[ROWS_MAX]:
        return -1
    bits[row - 1] = owner
    numbers[owner] = row
    ground[ROWS_STOP] = row + words
    for w in range(row, row + words):
        bits[w] = 0
    listed, stop = ground[LISTED], ground[LISTED_STOP]
    if hi - lo > LEAP * (stop - listed):
        for j in range(listed, stop):
            x = scratch[j]
            if lo < hi and data[lo] < x:
                lo = ahead(data, lo, hi, x)
            if lo < hi and data[lo] == x:
                number = j - listed + 1
                bits[row + (number >> 6)] |= 1 << (number & 63)
        return row
    for i in range(lo, hi):
        number = numbers[ground[NUMBERS] + (data[i] - ground[LEAST])]
        bits[row + (number >> 6)] |= 1 << (number & 63)
    return row


@kernel
def meet_rows(ground, bits, a, b):
    """Intersect two bitmaps, one of which may be an earlier intersection.  Return where the result is."""
    at = ground[MET]
    for w in range(row_words(ground)):
        bits[at + w] = bits[a + w] & bits[b + w]
    return at


@kernel
def met(ground, bits, lo, hi, scratch, base, counted):
    """Write the intersection's keys, of those listed in [lo, hi), to scratch[base:], or count them; return how many."""
    first, last = lo - ground[LISTED] + 1, hi - ground[LISTED]
    start, stop = ground[MET] + (first >> 6), ground[MET] + (last >> 6)
    bits[start] &= -1 << (first & 63)
    bits[stop] &= ~(-2 << (last & 63))
    n = 0
    if counted:
        for w in range(start, stop + 1):
            n += population(bits[w])
        return n
    for w in range(start, stop + 1):
        word = bits[w]
        before = ground[LISTED] + ((w - ground[MET]) << 6) - 1
        while word:
            scratch[base + n] = scratch[before + lowest(word)]
            word &= word - 1
            n += 1
    return n
