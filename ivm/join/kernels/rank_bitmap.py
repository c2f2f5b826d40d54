"""How many keys of a slice are less than any other: a bit for each key, and before each 64 of them how many there were.

With the ranks of one slice at hand, leapfrogging it with another needs no search and no merge, and what it does at a
key of the other follows from that key and the one before alone. So a slice that comes again is laid once.

    keys 1 3 64 70, at 500 in `data`    bits of 0..63 {1, 3}, 500; of 64..127 {64, 70}, 502    rank of 65: 503
"""

from pagestore.compiled import kernel, population


@kernel
def lay_ranks(data, start, end, low, bits, at):
    """Lay the ranks of keys data[start:end], of which there are some, at bits[at:], where key `low` would be first."""
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
    """Where the first key that is not below x is in `data`: for x from the first key to the last."""
    w = at + 2 * ((x - low) >> 6)
    return bits[w + 1] + population(bits[w] & ~(-1 << ((x - low) & 63)))
