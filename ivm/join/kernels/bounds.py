"""Bounds of a level: the interval that comparisons allow, and the next value that they and the oracle admit.

y >= x + 3, y <= 20, y != 9    with x = 5    ──▶    LOW = 8, HIGH = 20; admit(8) = 8, admit(9) = 10
"""

from ivm.join.kernels.join_layout import (
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
from ivm.join.kernels.oracle import oracle_seek
from pagestore.compiled import WORD_MAX, WORD_MIN, kernel


@kernel
def bound_value(plan, state, at):
    """Return the other side of a constraint, clamped to 64 bits, and whether it had to be clamped."""
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
def added_up(plan, state, at):
    """Do `bound_value` for several variables, by half words: a partial sum may exceed 64 bits though the total fits."""
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
def set_bounds(plan, state, level):
    """Compute [low, high] of a level from its constraints; an impossible one leaves low > high."""
    low, high = WORD_MIN, WORD_MAX
    for b in range(plan[plan[BOUND_START] + level], plan[plan[BOUND_START] + level + 1]):
        at = plan[BOUNDS] + BOUND_WORDS * b
        kind = plan[at + KIND]
        value, clamped = bound_value(plan, state, at)
        if clamped and (kind == EQ or (kind == GE and value == WORD_MAX) or (kind == LE and value == WORD_MIN)):
            low, high = WORD_MAX, WORD_MIN
            break
        if kind == EQ or kind == GE:
            low = max(low, value)
        if kind == EQ or kind == LE:
            high = min(high, value)
    state[state[LOW] + level] = low
    state[state[HIGH] + level] = high


@kernel
def admit(plan, state, regions, region_start, level, x):
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
