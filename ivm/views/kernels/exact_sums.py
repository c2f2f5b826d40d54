"""Exact sums of numbers in digits of 32 bits, rounded once to a float64, as views/exact_sum.py
rounds them.

    digits   ... d1  d0 | fraction        0.75 = 48 * 2^-6 is 48 at place 35        (18.5 + 3) / 4: divide, then round

A float64 is cut into its digits at places that count from 2^-1126, a whole number at places 0 and
1; with squares and counts where an aggregate asks for them (see exact_sum.py).
"""

from typing import NamedTuple

from pagestore.compiled import WORD_MAX, Words, kernel

UNIT = 1126  # places of floats count from 2 to the power of minus this
PLACE_MAX = 68  # the last of a finite number
SQUARES, COUNTED = 128, 512  # places where squares begin, and of the number of summands
HALF = 0xFFFFFFFF
FRACTION = 10  # digits after the point: more than what is divided by and what is rounded to
DIGITS = 96  # with room for the places of floats and a carry
PARTS_MAX = 5  # of one number that is cut
MANTISSA = 53
EXPONENT_BIAS = 1075
# how a number is cut: it is a float, its square is wanted (of whole numbers only), it is counted
FLOATS, SQUARED, IS_COUNTED = 1, 2, 4
BROKEN = -1
# results of sums of parts: the sum as a float64 or as a word, a mean, a variance of all or of a
# sample
TOTAL, SUM, MEAN, VARIANCE, SAMPLED = range(5)
# words of `totals`: the number of summands, their sum and that of their squares if a variance is
# wanted, and of parts
SUMMANDS, NUMBERS, SQUARE, ADDED, TOTALS = range(5)
EXACT_BITS = 52  # below them sums of squares are exact


class SumRoom(NamedTuple):
    """Working memory: digits[DIGITS] of a sum, what it is divided by, parts of a number, and
    totals[TOTALS].
    """

    digits: Words
    divisors: Words
    parts: Words
    totals: Words


class Rounding(NamedTuple):
    """How parts are rounded: to which result, whether they are of floats, and by what the words of
    a decimal are divided, the product of two numbers.
    """

    kind: int
    floats: int
    low: int
    high: int


# -- parts of a number


@kernel
def cut(word: int, how: int, parts: Words):
    """Write the parts of a number as (place, amount) to parts[2 m]; return m, or BROKEN for one
    left to Python.
    """
    n = cut_float(word, parts) if how & FLOATS else cut_whole(word, parts)
    if n < 0:
        return BROKEN
    if how & SQUARED:
        size = abs(word)
        if size < 0 or size >> 31:
            return BROKEN
        square = size * size
        n = add_part(parts, n, SQUARES, square & HALF)
        n = add_part(parts, n, SQUARES + 1, square >> 32)
    if how & IS_COUNTED:
        n = add_part(parts, n, COUNTED, 1)
    return n


@kernel
def cut_whole(word: int, parts: Words):
    """Cut a whole number; zero has one part, 0 at place 0."""
    n = add_part(parts, 0, 0, word & HALF)
    n = add_part(parts, n, 1, word >> 32)
    if n == 0:
        parts[0], parts[1], n = 0, 0, 1
    return n


@kernel
def cut_float(word: int, parts: Words):
    """Cut the word of a float64; BROKEN for infinite ones and the least ones, which have fewer
    bits.
    """
    if word == 0:
        parts[0], parts[1] = 0, 0
        return 1
    negative = word < 0
    bits = ~word if negative else word
    exponent = bits >> 52
    if exponent == 0 or exponent == 0x7FF:
        return BROKEN
    size = bits & (1 << 52) - 1 | 1 << 52
    exponent += UNIT - EXPONENT_BIAS
    shift, place, sign = exponent & 31, exponent >> 5, -1 if negative else 1
    low = (size & HALF) << shift
    high = ((size >> 32) << shift) + (low >> 32 & HALF)
    n = add_part(parts, 0, place, sign * (low & HALF))
    n = add_part(parts, n, place + 1, sign * (high & HALF))
    return add_part(parts, n, place + 2, sign * (high >> 32))


@kernel
def add_part(parts: Words, n: int, place: int, amount: int):
    """Append a part unless it is 0; return how many there are."""
    if amount == 0:
        return n
    parts[2 * n], parts[2 * n + 1] = place, amount
    return n + 1


# -- sums


@kernel
def begin_sum(room: SumRoom):
    """Begin a sum of parts."""
    room.digits[:] = 0
    room.totals[:] = 0
    room.totals[SUMMANDS] = 1


@kernel
def add_part_of(room: SumRoom, kind: int, place: int, amount: int):
    """Add a part to a sum; return whether that was possible."""
    totals = room.totals
    totals[ADDED] += 1
    if place == COUNTED:
        totals[SUMMANDS] = amount
    elif kind != VARIANCE and kind != SAMPLED:
        if place <= PLACE_MAX:
            add_at(room.digits, place, amount)
        return place <= PLACE_MAX or place >= SQUARES  # else it is infinite
    elif (place & ~SQUARES) > 1 or abs(amount) >> EXACT_BITS - 32 * (place & 1):
        return False
    else:
        totals[SQUARE if place >= SQUARES else NUMBERS] += amount << 32 * (place & 1)
    return True


@kernel
def rounded(room: SumRoom, how: Rounding):
    """Return (1, the word) of a sum of parts, (0, 0) if there is no result, or (BROKEN, 0)."""
    totals, kind = room.totals, how.kind
    count, total, square = totals[SUMMANDS], totals[NUMBERS], totals[SQUARE]
    freedom = count - int(kind == SAMPLED)
    if totals[ADDED] == 0 or freedom == 0:
        return 0, 0
    if count >> 31:
        return BROKEN, 0
    if kind == SUM:
        return whole(room.digits)
    if kind == VARIANCE or kind == SAMPLED:
        if abs(total) >> 31 or float(count) * float(square) >= float(1 << 62):
            return BROKEN, 0
        add_at(room.digits, 0, count * square - total * total)
        return divided(room, how, count, freedom)
    return divided(room, how, count if kind == MEAN else 1, 1)


@kernel
def round_groups(
    places: Words,
    amounts: Words,
    starts: Words,
    room: SumRoom,
    how: Rounding,
    words: Words,
    there: Words,
):
    """Set words[g] and there[g] to the result of each group of parts, the first at starts[g]."""
    for g in range(starts.shape[0]):
        end = starts[g + 1] if g + 1 < starts.shape[0] else places.shape[0]
        fits = True
        begin_sum(room)
        for i in range(starts[g], end):
            fits = fits and add_part_of(room, how.kind, places[i], amounts[i])
        there[g] = BROKEN
        if fits:
            there[g], words[g] = rounded(room, how)


@kernel
def divided(room: SumRoom, how: Rounding, by: int, more: int):
    """Return the word of room.digits divided by two numbers, and as words of a decimal are."""
    divisors = room.divisors
    divisors[0], divisors[1] = by, more
    divisors[2] = divisors[4] = how.low
    divisors[3] = divisors[5] = how.high
    n = 6 if how.kind == VARIANCE or how.kind == SAMPLED else 4
    return quotient(room.digits, divisors[:n], -UNIT if how.floats else 0)


@kernel
def whole(digits: Words):
    """Return (1, the number), or (BROKEN, 0) if no word holds it, nor its negative. Destroys the
    digits.
    """
    negative = is_negative(digits)
    for i in range(FRACTION + 2, digits.shape[0]):
        if digits[i]:
            return BROKEN, 0
    if digits[FRACTION + 1] >> 31:
        return BROKEN, 0
    word = digits[FRACTION + 1] << 32 | digits[FRACTION]
    return 1, -word if negative else word


@kernel
def add_number(room: SumRoom, floats: int, word: int, times: int):
    """Add a number so many times, from 0 to 2^62, to room.digits; return whether that was
    possible.
    """
    n = cut(word, floats, room.parts)
    for k in range(n):
        place, amount = room.parts[2 * k], room.parts[2 * k + 1]
        add_product(room.digits, place, amount, times & HALF)
        add_product(room.digits, place + 1, amount, times >> 32)
    return n >= 0


@kernel
def add_product(digits: Words, place: int, amount: int, times: int):
    """Add the product of two numbers of 32 bits, the first of either sign, at a place."""
    sign, product = -1 if amount < 0 else 1, abs(amount) * times
    add_at(digits, place, sign * (product & HALF))
    add_at(digits, place + 1, sign * (product >> 32 & HALF))


@kernel
def add_at(digits: Words, place: int, amount: int):
    """Add an amount, of either sign, at a place."""
    digits[FRACTION + place] += amount & HALF
    digits[FRACTION + place + 1] += amount >> 32


@kernel
def quotient(digits: Words, divisors: Words, exponent: int):
    """Return (1, the word of digits[DIGITS] * 2^exponent / divisors[n], rounded once), or (BROKEN,
    0) if it is beyond the floats, or among the least. Destroys the digits.
    """
    negative = is_negative(digits)
    rest = 0
    for i in range(divisors.shape[0]):
        rest |= divide(digits, divisors[i])
    top = DIGITS - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return (BROKEN if rest else 1), 0
    length = 32 * top
    while digits[top] >> (length - 32 * top):
        length += 1
    mantissa = 0
    for b in range(length - 1, length - 1 - MANTISSA, -1):
        mantissa = mantissa << 1 | bit(digits, b)
    below = length - 1 - MANTISSA
    for b in range(below):
        rest |= bit(digits, b)
    if bit(digits, below) and (rest or mantissa & 1):
        mantissa += 1
    if mantissa >> MANTISSA:
        mantissa, below = mantissa >> 1, below + 1
    scale = below + 1 - 32 * FRACTION + exponent + EXPONENT_BIAS
    if scale < 1 or scale > 2046:
        return BROKEN, 0
    word = scale << 52 | mantissa & (1 << 52) - 1
    return 1, ~word if negative else word


@kernel
def bit(digits: Words, b: int):
    return digits[b >> 5] >> (b & 31) & 1


@kernel
def is_negative(digits: Words):
    """Carry, so that each digit has 32 bits, and make the number positive; return whether it was
    negative.
    """
    carry = carried(digits)
    if carry >= 0:
        return False
    for i in range(digits.shape[0]):
        digits[i] = -digits[i]
    digits[digits.shape[0] - 1] += -carry << 32
    carried(digits)
    return True


@kernel
def carried(digits: Words):
    """Carry from digit to digit; return what is left over."""
    carry = 0
    for i in range(digits.shape[0]):
        total = digits[i] + carry
        digits[i], carry = total & HALF, total >> 32
    return carry


@kernel
def divide(digits: Words, by: int):
    """Divide by a number from 1 to 2^31; return whether something is left."""
    rest = 0
    for i in range(digits.shape[0] - 1, -1, -1):
        total = rest << 32 | digits[i]
        if total and by > 1:
            digits[i], rest = total // by, total % by
    return int(rest != 0)


@kernel
def truncated(word: int):
    """Return the whole part of the word of a float64 below 2^53."""
    negative = word < 0
    bits = ~word if negative else word
    shift = EXPONENT_BIAS - (bits >> 52)
    size = bits & (1 << 52) - 1 | 1 << 52
    whole = 0 if shift > MANTISSA else size >> shift if shift >= 0 else WORD_MAX
    return -whole if negative else whole
