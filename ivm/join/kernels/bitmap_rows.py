"""Slices as rows of bits over a common ground: intersected a word at a time, each laid once for many bindings.

Below an outer variable, the slices that stay share some keys, the *ground*, which are numbered from 1 on. Whatever
else meets at the level moves with variables further in, and is needed as bits over the ground, bit 0 being no key's.
Where a slice comes again while others change, its row is there already:

    cliques(x, y, z, w): the ground is what follows x; under it the rows of y and of z, each laid once, for all (y, z)
"""

from ivm.join.kernels.leaf_slices import ahead
from pagestore.compiled import kernel, lowest, population

# columns of `ground`, a row for each level
(
    OVERLAYS,  # the address of `overlay`, 0 where there are no rows
    STAYING,  # a bit for each part whose slice is of the ground
    CHANGER,  # the level whose binding changes the ground
    LAID,  # its stamp when the ground was laid
    LISTED,  # where the keys of the ground are listed in `scratch`
    LISTED_STOP,  # behind them
    LISTED_MAX,  # of more keys no rows are laid
    LEAST,  # the key of the first number
    NUMBERS,  # where in `numbers` the number of each key is, 0 for none
    MET,  # where in `bits` the rows met so far are
    ROWS,  # where the first row is, its owner before it
    ROWS_STOP,  # behind the last
    ROWS_MAX,  # and where there is no more room
    GROUND,
) = range(14)

LEAP = 8  # a slice so many times longer than the ground is leapt through


@kernel
def clear(ground, scratch, numbers, bits):
    """Forget the ground and its rows."""
    width = row_words(ground) + 1
    for i in range(ground[LISTED], ground[LISTED_STOP]):
        numbers[ground[NUMBERS] + (scratch[i] - ground[LEAST])] = 0
    for row in range(ground[ROWS], ground[ROWS_STOP], width):
        numbers[bits[row]] = 0
    ground[ROWS_STOP] = ground[ROWS]
    ground[LISTED_STOP] = ground[LISTED]


@kernel
def lay(ground, scratch, numbers, n):
    """Number the n keys listed as the ground.  False if there are too many."""
    if n > ground[LISTED_MAX]:
        return False
    ground[LISTED_STOP] = ground[LISTED] + n
    for i in range(n):
        numbers[ground[NUMBERS] + (scratch[ground[LISTED] + i] - ground[LEAST])] = i + 1
    return True


@kernel
def row_words(ground):
    """Words of a row."""
    return ((ground[LISTED_STOP] - ground[LISTED]) >> 6) + 1


@kernel
def row_of(ground, data, lo, hi, owner, scratch, numbers, bits):
    """Where in `bits` the row of a slice data[lo:hi] is; -1 where it has no room.  numbers[owner] says so, or 0."""
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
    """Meet two rows, of which one may be what was met before.  Returns where that is."""
    at = ground[MET]
    for w in range(row_words(ground)):
        bits[at + w] = bits[a + w] & bits[b + w]
    return at


@kernel
def met(ground, bits, lo, hi, scratch, base, counted):
    """Write the keys met, of those listed from lo to hi, to scratch[base:], or just count them.  Returns how many."""
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
