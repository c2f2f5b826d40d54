"""The keys that several sorted slices share.

    a    1 4 6 7 9         ──▶  share: 4 7         merged without a branch, or, where b is much longer, sought in b
    b    2 4 5 7 8

Slices that do not change with the level before are *loop-invariant*. Their shared keys are cached
when they are needed for the second time, and marked in a table of bytes, by which the other slices
are filtered.

Slices as bitmaps over a common universe: intersected a word at a time, each built once for many
bindings.

Below an outer variable, the slices that do not change share some keys, the *universe* (`ground`),
numbered from 1. The other slices of the level change with inner variables; each becomes a bitmap
over the universe, whose bit 0 is unused. Where a slice recurs while others change, its bitmap is
reused:

    cliques(x, y, z, w): the universe is the successors of x; under it the bitmaps of y and z, each
    built once, serve all (y, z)
"""

from ivm.join.kernels.bounds import bound_value
from ivm.join.kernels.flat_layout import (
    BASE,
    END,
    INVARIANT,
    KEPT,
    KEPT_BASE,
    KEPT_STOP,
    MARK_LOW,
    MARKS,
    MOVES,
    SKEWED,
    STAMP,
    START,
    TRIED,
)
from ivm.join.kernels.leapfrog import ahead
from ivm.join.kernels.tries import (
    BOUND_START,
    BOUND_WORDS,
    BOUNDS,
    KIND,
    NE,
    PART_START,
    SEEKS,
    place_of,
)
from pagestore.compiled import WORD_MAX, WORD_MIN, Bytes, Table, Words, kernel, lowest, population


@kernel
def meet(data, plan, state, steps, cursors, scratch, marks, level, low, high):
    """Compute candidates by intersecting the slices of a level.  Return how many."""
    base = steps[level, BASE]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    every = (1 << (stop - start)) - 1
    if not keep(data, plan, state, steps, cursors, scratch, marks, level):
        n = share(data, plan, state, cursors, scratch, start, stop, every, low, high, base)
    else:
        kept, kept_stop = narrowed(
            scratch, steps[level, KEPT_BASE], steps[level, KEPT_STOP], low, high
        )
        moving = every & ~steps[level, INVARIANT]
        if moving == 0:
            for i in range(kept, kept_stop):
                scratch[base + i - kept] = scratch[i]
            n = kept_stop - kept
        else:
            first = smallest(plan, cursors, start, stop, moving)
            moving &= ~(1 << (first - start))
            lo, hi = part_slice(data, plan, cursors, first, low, high)
            if steps[level, MARKS] and hi - lo <= SKEWED * (kept_stop - kept):
                n = marked(data, lo, hi, marks[level], steps[level, MARK_LOW], scratch, base)
                state[SEEKS] += hi - lo - n
            else:
                n = intersect(data, lo, hi, scratch, kept, kept_stop, scratch, base, state)
            n = share_on(
                data, plan, state, cursors, scratch, start, stop, moving, low, high, base, n
            )
    return n


@kernel
def share(data, plan, state, cursors, scratch, start, stop, which, low, high, at):
    """Write the keys that some parts (the bits of `which`) share to scratch[at:].  Return how
    many.
    """
    first = smallest(plan, cursors, start, stop, which)
    which &= ~(1 << (first - start))
    lo, hi = part_slice(data, plan, cursors, first, low, high)
    if which == 0:
        for i in range(lo, hi):
            scratch[at + i - lo] = data[i]
        return hi - lo
    second = smallest(plan, cursors, start, stop, which)
    which &= ~(1 << (second - start))
    other_lo, other_hi = part_slice(data, plan, cursors, second, low, high)
    n = intersect(data, lo, hi, data, other_lo, other_hi, scratch, at, state)
    return share_on(data, plan, state, cursors, scratch, start, stop, which, low, high, at, n)


@kernel
def share_on(data, plan, state, cursors, scratch, start, stop, which, low, high, at, n):
    """Keep the keys of scratch[at : at + n] that the parts `which` also have.  Return how many
    are left.
    """
    for p in range(start, stop):
        if which >> (p - start) & 1 and n:
            lo, hi = part_slice(data, plan, cursors, p, low, high)
            n = intersect(scratch, at, at + n, data, lo, hi, scratch, at, state)
    return n


@kernel
def smallest(plan: Words, cursors: Table, start: int, stop: int, which: int):
    """Return the part with the shortest slice among the parts `which` (a bit each)."""
    best, length = start, WORD_MAX
    for p in range(start, stop):
        o = place_of(plan, p)
        if which >> (p - start) & 1 and cursors[o, END] - cursors[o, START] < length:
            best, length = p, cursors[o, END] - cursors[o, START]
    return best


@kernel
def part_slice(data: Words, plan: Words, cursors: Table, p: int, low: int, high: int):
    """Return the slice of a part's keys within the bounds."""
    o = place_of(plan, p)
    return narrowed(data, cursors[o, START], cursors[o, END], low, high)


@kernel
def narrowed(keys: Words, lo: int, hi: int, low: int, high: int):
    """Return the subslice with low <= key <= high."""
    if lo < hi and keys[lo] < low:
        lo = ahead(keys, lo, hi, low)
    if lo < hi and keys[hi - 1] > high:
        hi = ahead(keys, lo, hi, high + 1) if keys[lo] <= high else lo
    return lo, hi


@kernel
def keep(data, plan, state, steps, cursors, scratch, marks, level):
    """Return whether the shared keys of a level's loop-invariant slices are cached; cache them
    when needed again.
    """
    invariant, moves = steps[level, INVARIANT], steps[level, MOVES]
    if invariant == 0:
        return False
    stamp = steps[moves, STAMP] if moves >= 0 else 1
    if steps[level, KEPT] == stamp:
        return True
    if steps[level, TRIED] != stamp:
        steps[level, TRIED] = stamp
        return False
    base, mark_low = steps[level, KEPT_BASE], steps[level, MARK_LOW]
    if steps[level, MARKS]:
        for i in range(base, steps[level, KEPT_STOP]):
            marks[level, scratch[i] - mark_low] = 0
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    n = share(data, plan, state, cursors, scratch, start, stop, invariant, WORD_MIN, WORD_MAX, base)
    if steps[level, MARKS]:
        for i in range(base, base + n):
            marks[level, scratch[i] - mark_low] = 1
    steps[level, KEPT_STOP] = base + n
    steps[level, KEPT] = stamp
    return True


@kernel
def marked(keys: Words, lo: int, hi: int, marks: Bytes, mark_low: int, out: Words, n: int):
    """Copy the keys of a slice that are marked.  Return how many."""
    start = n
    for i in range(lo, hi):
        x = keys[i]
        out[n] = x
        n += marks[x - mark_low]
    return n - start


@kernel
def intersect(
    a: Words, i: int, i_end: int, b: Words, j: int, j_end: int, out: Words, n: int, state: Words
):
    """Write the keys that two slices share to `out` from n on (where `a` may begin).  Return how
    many.
    """
    start = n
    if i_end - i > j_end - j:
        if i_end - i > SKEWED * (j_end - j):
            return sifted(b, j, j_end, a, i, i_end, out, n, state)
    elif j_end - j > SKEWED * (i_end - i):
        return sifted(a, i, i_end, b, j, j_end, out, n, state)
    if i < i_end and j < j_end:  # usually one slice starts far after the other
        if a[i] < b[j]:
            i = ahead(a, i, i_end, b[j])
        elif b[j] < a[i]:
            j = ahead(b, j, j_end, a[i])
    steps = i + j
    while i < i_end and j < j_end:
        x, y = a[i], b[j]
        out[n] = x
        n += x == y
        i += x <= y
        j += y <= x
    state[SEEKS] += i + j - steps - 2 * (n - start)
    return n - start


@kernel
def sifted(
    a: Words, i: int, i_end: int, b: Words, j: int, j_end: int, out: Words, n: int, state: Words
):
    """Intersect two slices like `intersect`, galloping through b, which is much longer."""
    start = n
    while i < i_end and j < j_end:
        x = a[i]
        if b[j] < x:
            j = ahead(b, j, j_end, x)
            state[SEEKS] += 1
            if j == j_end:
                break
        if b[j] == x:  # write only now, since `out` may begin where b does
            out[n] = x
            n += 1
        i += 1
    return n - start


@kernel
def unequal(plan: Words, state: Words, scratch: Words, level: int, base: int, n: int):
    """Remove the candidates that a constraint != excludes.  Return how many are left."""
    for b in range(plan[plan[BOUND_START] + level], plan[plan[BOUND_START] + level + 1]):
        at = plan[BOUNDS] + BOUND_WORDS * b
        if plan[at + KIND] == NE:
            value, clamped = bound_value(plan, state, at)
            left = 0
            for i in range(n):
                x = scratch[base + i]
                scratch[base + left] = x
                left += x != value or clamped
            n = left
    return n


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
def clear(ground: Words, scratch: Words, numbers: Words, bits: Words):
    """Delete the universe and its bitmaps."""
    width = row_words(ground) + 1
    for i in range(ground[LISTED], ground[LISTED_STOP]):
        numbers[ground[NUMBERS] + (scratch[i] - ground[LEAST])] = 0
    for row in range(ground[ROWS], ground[ROWS_STOP], width):
        numbers[bits[row]] = 0
    ground[ROWS_STOP] = ground[ROWS]
    ground[LISTED_STOP] = ground[LISTED]


@kernel
def lay(ground: Words, scratch: Words, numbers: Words, n: int):
    """Number the n listed keys as the universe.  Return False if there are too many."""
    if n > ground[LISTED_MAX]:
        return False
    ground[LISTED_STOP] = ground[LISTED] + n
    for i in range(n):
        numbers[ground[NUMBERS] + (scratch[ground[LISTED] + i] - ground[LEAST])] = i + 1
    return True


@kernel
def row_words(ground: Words):
    """Return the number of words of a bitmap."""
    return ((ground[LISTED_STOP] - ground[LISTED]) >> 6) + 1


@kernel
def row_of(ground, data, lo, hi, owner, scratch, numbers, bits):
    """Return where in `bits` the bitmap of data[lo:hi] is, building it if numbers[owner] is 0;
    -1 if it has no room.
    """
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
def meet_rows(ground: Words, bits: Words, a: int, b: int):
    """Intersect two bitmaps, one of which may be an earlier intersection.  Return where the
    result is.
    """
    at = ground[MET]
    for w in range(row_words(ground)):
        bits[at + w] = bits[a + w] & bits[b + w]
    return at


@kernel
def met(ground: Words, bits: Words, lo: int, hi: int, scratch: Words, base: int, counted: int):
    """Write the intersection's keys, of those listed in [lo, hi), to scratch[base:], or count
    them; return how many.
    """
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
