"""Tuples of words as single words that sort alike: each column as narrow as its values, side by side.

The least and the greatest word, which stand for no bound, get the codes below and above all others, so that they
do not make a column 64 bits wide.
"""

from pagestore.kernels.kernel import kernel

LEAST, GREATEST = -9223372036854775808, 9223372036854775807


@kernel
def value_bounds(columns, low, high):
    """Least and greatest value of each of columns[K, n] but LEAST and GREATEST; low > high where there is none."""
    for c in range(columns.shape[0]):
        least, greatest = GREATEST, LEAST
        for i in range(columns.shape[1]):
            x = columns[c, i]
            if x != LEAST and x != GREATEST:
                least = min(least, x)
                greatest = max(greatest, x)
        low[c], high[c] = least, greatest


@kernel
def encode_tuples(columns, low, high, width, out):
    """Codes of tuples: for each column 0 for LEAST, its values from 1 on, then GREATEST."""
    out[:] = 0
    for c in range(columns.shape[0]):
        for i in range(out.shape[0]):
            x = columns[c, i]
            code = x - low[c] + 1
            if x == LEAST:
                code = 0
            elif x == GREATEST:
                code = high[c] - low[c] + 2
            out[i] = out[i] << width[c] | code


@kernel
def decode_tuples(codes, low, high, width, columns):
    """What `encode_tuples` was given."""
    shift = 0
    for c in range(columns.shape[0] - 1, -1, -1):
        mask = (1 << width[c]) - 1
        greatest = high[c] - low[c] + 2
        for i in range(codes.shape[0]):
            code = codes[i] >> shift & mask
            x = low[c] + code - 1
            if code == 0:
                x = LEAST
            elif code == greatest:
                x = GREATEST
            columns[c, i] = x
        shift += width[c]
