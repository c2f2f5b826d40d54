"""The change oracle as a trie: a union of regions, never expanded (*Matching tree surgery operations*).

Level d of the union holds rows (v_0 .. v_{d-1}, a, b): every binding with that prefix and v_d in [a, b],
whatever comes after.  All levels share one array regions[L + 1, R]; level d has columns starts[d] to
starts[d + 1], sorted, and its intervals of one prefix are disjoint.  While the join is at level l,
spans[l, d] is the range of level d's rows that agree with the binding so far.
"""

from pagestore.compiled import WORD_MAX, kernel


@kernel
def first_at_least(values, lo, hi, x):
    """Return the first index in [lo, hi) of a sorted slice with a value >= x."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if values[middle] < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


@kernel
def oracle_open(regions, starts, state, spans, covered, level, binding):
    """Narrow the spans to the value just bound at level - 1; set state[covered + level] if all bindings below are in.

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
    at = first_at_least(regions[level], state[above + 2 * (level - 1)], hi, x)  # row `level` of level - 1 is b
    state[covered + level] = at < hi and regions[level - 1, at] <= x
    for d in range(level, levels):
        hi = state[above + 2 * d + 1]
        lo = first_at_least(regions[level - 1], state[above + 2 * d], hi, x)
        state[here + 2 * d] = lo
        state[here + 2 * d + 1] = hi if x == WORD_MAX else first_at_least(regions[level - 1], lo, hi, x + 1)


@kernel
def oracle_seek(regions, starts, state, spans, covered, level, x):
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
def merge_intervals(rows, level):
    """Make the intervals of each prefix disjoint, in place; rows[level + 2, n] are sorted.  Return how many."""
    n = rows.shape[1]
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
