"""Rank bitmap: the number of keys of a slice below any value, from a bit per value and a running count per 64 bits.

With the ranks of one slice, leapfrogging it with another needs no search and no merge, and the operations at a key
of the other depend only on that key and the one before. So the bitmap of a slice that recurs is built once.

    keys 1 3 64 70, at 500 in `data`    bits of 0..63 {1, 3}, 500; of 64..127 {64, 70}, 502    rank of 65: 503
"""

from pagestore.compiled import kernel, population


@kernel
def lay_ranks(data, start, end, low, bits, at):
    """Write the ranks of keys data[start:end], not empty, to bits[at:], whose first bit is that of key `low`."""
    first, last = (data[start] - low) >> 6, (data[end - 1] - low) >> 6
    for w in range(first, last + 1):
        bits[at + 2 * w] = 0
    for i in range(start, end):
        x = data[i] - low
        bits[at + 2 * (x >> 6)] |= 1 << (x & 63)
    n = start
    for w in range(first, last + 1):
        bits[at + 2 * w + 1] = n
        n += population(bits[at + 2 * w])


@kernel
def ranked(bits, at, low, x):
    """Return where in `data` the first key >= x is, for x from the first key to the last."""
    w = at + 2 * ((x - low) >> 6)
    return bits[w + 1] + population(bits[w] & ~(-1 << ((x - low) & 63)))
