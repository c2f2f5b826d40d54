"""Compute columns of bindings: constants and arithmetic, and the filters that need them.

    net[x] = n <- price[x] = p, tax[x] = t, n = p - t, n * 2 < p.         p t | n = p - t    c = 2    m = n * c    m < p

A row of `terms` is one operation, on columns before it. What may fail (a division by zero, a result
that its type cannot hold) is left to Python if it does.
"""

from ivm.views.kernels.exact_sums import BROKEN
from pagestore.compiled import WORD_MAX, WORD_MIN, Table, float_of_bits, float_to_bits, kernel

# columns of `terms`: the operation, the columns that it takes and the one that it makes; the least
# and the greatest word of the result, of a quotient of decimals what its sides are multiplied by;
# of a test, the comparisons that pass, and whether others do instead
OPERATION, LEFT, RIGHT, TARGET, LEAST, GREATEST, OUTSIDE, TERM = range(8)
# ADD to DIVIDE of floats are FLOAT + these
CONSTANT, ADD, SUBTRACT, MULTIPLY, DIVIDE, RATIO, TEST, FLOAT = range(8)
EXACT = 2.0**53


@kernel
def compute(terms: Table, begin: int, end: int, rows: Table, i: int):
    """Do the operations begin..end for binding i; return 1, 0 if a test excludes it, or BROKEN
    if one fails.
    """
    for t in range(begin, end):
        term = terms[t]
        if term[OPERATION] == CONSTANT:
            rows[term[TARGET], i] = term[LEAST]
            continue
        left, right = rows[term[LEFT], i], rows[term[RIGHT], i]
        if term[OPERATION] == TEST:
            sign = int(left > right) - int(left < right)
            if (term[LEAST] <= sign <= term[GREATEST]) == (term[OUTSIDE] != 0):
                return 0
            continue
        done, word = False, 0
        if term[OPERATION] == RATIO:
            done, word = ratio(left, right, float(term[LEAST]), float(term[GREATEST]))
        elif term[OPERATION] > FLOAT:
            done, word = of_floats(term[OPERATION] - FLOAT, left, right)
        else:
            done, word = of_words(term[OPERATION], left, right)
            done = done and term[LEAST] <= word <= term[GREATEST]
        if not done:
            return BROKEN
        rows[term[TARGET], i] = word
    return 1


@kernel
def of_words(operation: int, left: int, right: int):
    """Return (True, the result) of an operation of whole numbers, or (False, 0) if it fails."""
    if operation == ADD:
        result = left + right
        return (left ^ result) & (right ^ result) >= 0, result
    if operation == SUBTRACT:
        result = left - right
        return (left ^ right) & (left ^ result) >= 0, result
    if operation == MULTIPLY:
        if abs(float(left)) * abs(float(right)) >= 2.0**62:
            return False, 0
        return True, left * right
    if right == 0 or (left == WORD_MIN and right == -1):
        return False, 0
    result = left // right
    return True, result + int(result < 0 and result * right != left)


@kernel
def ratio(left: int, right: int, above: float, below: float):
    """Return (True, the word) of a quotient of decimals as a float64; (False, 0) if it is not
    that of exact floats.
    """
    a, b = float(left) * above, float(right) * below
    if right == 0 or abs(a) >= EXACT or abs(b) >= EXACT:
        return False, 0
    return True, float_word(a / b)


@kernel
def of_floats(operation: int, left: int, right: int):
    """Return (True, the word) of an operation of float64 words, or (False, 0) if it fails."""
    a, b = float_value(left), float_value(right)
    if operation == ADD:
        result = a + b
    elif operation == SUBTRACT:
        result = a - b
    elif operation == MULTIPLY:
        result = a * b
    elif b == 0.0:
        return False, 0
    else:
        result = a / b
    # it is itself unless it is not a number
    return (True, float_word(result)) if result == result else (False, 0)


@kernel
def float_value(word: int):
    """Return the float64 of a word (pagestore/values/codec.py)."""
    return float_of_bits(word ^ (word >> 63 & WORD_MAX))


@kernel
def float_word(value: float):
    """Return the word of a float64 that is a number."""
    bits = float_to_bits(value + 0.0)
    return bits ^ (bits >> 63 & WORD_MAX)
