"""Bounds of a level: the interval that comparisons allow, and the next value that they and the
oracle admit.

y >= x + 3, y <= 20, y != 9    with x = 5    ──▶    LOW = 8, HIGH = 20; admit(8) = 8, admit(9) = 10

The change oracle as a trie: a union of regions, never expanded (*Matching tree surgery
operations*).

Level d of the union holds rows (v_0 .. v_{d-1}, a, b): every binding with that prefix and v_d in
[a, b], whatever comes after.  All levels share one array regions[L + 1, R]; level d has columns
starts[d] to starts[d + 1], sorted, and its intervals of one prefix are disjoint.  While the join is
at level l, spans[l, d] is the range of level d's rows that agree with the binding so far.
"""

from ivm.join.kernels.tries import (
    BINDING,
    BOUND_START,
    BOUND_WORDS,
    BOUNDS,
    CONSTANT,
    COVERED,
    EQ,
    GE,
    HALF,
    HIGH,
    KIND,
    LE,
    LOW,
    NE,
    OTHER,
    SPANS,
)
from pagestore.compiled import WORD_MAX, WORD_MIN, Table, Words, kernel


@kernel
def bound_value(plan: Words, state: Words, at: int):
    """Return the other side of a constraint, clamped to 64 bits, and whether it had to be
    clamped.
    """
    constant = plan[at + CONSTANT]
    if plan[at + OTHER] < 0:
        return constant, False
    if plan[at + OTHER + 1] < 0 or plan[at + OTHER + 2] >= 0:
        return added_up(plan, state, at)
    value = state[state[BINDING] + plan[at + OTHER]]
    total = value + constant
    if (value ^ total) & (constant ^ total) < 0:
        return WORD_MAX if constant > 0 else WORD_MIN, True
    return total, False


@kernel
def added_up(plan: Words, state: Words, at: int):
    """Return `bound_value` of several variables, by half words, since a partial sum may exceed
    64 bits.
    """
    high, low = plan[at + CONSTANT] >> 32, plan[at + CONSTANT] & HALF
    for other in range(at + OTHER, at + BOUND_WORDS, 2):
        if plan[other] >= 0:
            value, sign = state[state[BINDING] + plan[other]], plan[other + 1]
            high += sign * (value >> 32)
            low += sign * (value & HALF)
    high += low >> 32
    if high > WORD_MAX >> 32:
        return WORD_MAX, True
    if high < WORD_MIN >> 32:
        return WORD_MIN, True
    return high << 32 | low & HALF, False


@kernel
def set_bounds(plan: Words, state: Words, level: int):
    """Compute [low, high] of a level from its constraints; an impossible one leaves low > high."""
    low, high = WORD_MIN, WORD_MAX
    for b in range(plan[plan[BOUND_START] + level], plan[plan[BOUND_START] + level + 1]):
        at = plan[BOUNDS] + BOUND_WORDS * b
        kind = plan[at + KIND]
        value, clamped = bound_value(plan, state, at)
        if clamped and (
            kind == EQ or (kind == GE and value == WORD_MAX) or (kind == LE and value == WORD_MIN)
        ):
            low, high = WORD_MAX, WORD_MIN
            break
        if kind == EQ or kind == GE:
            low = max(low, value)
        if kind == EQ or kind == LE:
            high = min(high, value)
    state[state[LOW] + level] = low
    state[state[HIGH] + level] = high


@kernel
def admit(plan: Words, state: Words, regions: Table, region_start: Words, level: int, x: int):
    """Return (found, least value >= x that bounds and oracle admit at this level)."""
    while True:
        found, x = oracle_seek(regions, region_start, state, state[SPANS], state[COVERED], level, x)
        if not found or x > state[state[HIGH] + level]:
            return False, x
        excluded = False
        for b in range(plan[plan[BOUND_START] + level], plan[plan[BOUND_START] + level + 1]):
            at = plan[BOUNDS] + BOUND_WORDS * b
            if plan[at + KIND] == NE:
                value, clamped = bound_value(plan, state, at)
                excluded = excluded or (value == x and not clamped)
        if not excluded:
            return True, x
        if x == WORD_MAX:
            return False, x
        x += 1


@kernel
def first_at_least(values: Words, lo: int, hi: int, x: int):
    """Return the first index in [lo, hi) of a sorted slice with a value >= x."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if values[middle] < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


@kernel
def oracle_open(
    regions: Table, starts: Words, state: Words, spans: int, covered: int, level: int, binding: int
):
    """Narrow the spans to the value just bound at level - 1; set state[covered + level] if all
    bindings below are in.

    `spans`, `covered` and `binding` are offsets into `state`.
    """
    levels = starts.shape[0] - 1
    if level == 0:
        for d in range(levels):
            state[spans + 2 * d] = starts[d]
            state[spans + 2 * d + 1] = starts[d + 1]
        return
    state[covered + level] = state[covered + level - 1]
    if state[covered + level]:
        return
    x = state[binding + level - 1]
    above = spans + 2 * (level - 1) * levels
    here = above + 2 * levels
    hi = state[above + 2 * (level - 1) + 1]
    # row `level` of level - 1 is b
    at = first_at_least(regions[level], state[above + 2 * (level - 1)], hi, x)
    state[covered + level] = at < hi and regions[level - 1, at] <= x
    for d in range(level, levels):
        hi = state[above + 2 * d + 1]
        lo = first_at_least(regions[level - 1], state[above + 2 * d], hi, x)
        state[here + 2 * d] = lo
        state[here + 2 * d + 1] = (
            hi if x == WORD_MAX else first_at_least(regions[level - 1], lo, hi, x + 1)
        )


@kernel
def oracle_seek(
    regions: Table, starts: Words, state: Words, spans: int, covered: int, level: int, x: int
):
    """Return (found, least value >= x at this level inside the union)."""
    if state[covered + level]:
        return True, x
    levels = starts.shape[0] - 1
    here = spans + 2 * level * levels
    found = False
    best = WORD_MAX
    hi = state[here + 2 * level + 1]
    at = first_at_least(regions[level + 1], state[here + 2 * level], hi, x)
    if at < hi:
        found = True
        best = max(x, regions[level, at])
    for d in range(level + 1, levels):
        hi = state[here + 2 * d + 1]
        at = first_at_least(regions[level], state[here + 2 * d], hi, x)
        if at < hi:
            found = True
            best = min(best, regions[level, at])
    return found, best


@kernel
def merge_intervals(rows: Table, n: int, level: int):
    """Make the first n intervals of each prefix disjoint, in place; rows[level + 2, n] are
    sorted.  Return how many.
    """
    out = 0
    for i in range(1, n):
        joins = rows[level, i] <= rows[level + 1, out]
        for c in range(level):
            joins = joins and rows[c, i] == rows[c, out]
        if joins:
            rows[level + 1, out] = max(rows[level + 1, out], rows[level + 1, i])
        else:
            out += 1
            for c in range(level + 2):
                rows[c, out] = rows[c, i]
    return min(n, out + 1)
