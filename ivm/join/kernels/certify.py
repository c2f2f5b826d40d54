"""Certificates: trace rows that prove which candidates a level has, without recording each operation.

    a    1 4 6 9        Both share only 6. The last to begin is b (2), the first to end is b (8):
    b    2 5 6 8        a is sensitive to [2, 8] and b to (-inf, +inf), cut at keys where rows would cover too many.

Where several operations may share a row (granularity above 1), this is enough, and the level can be found by merging.
"""

from ivm.join.kernels.bounds import set_bounds
from ivm.join.kernels.emit import crowded
from ivm.join.kernels.flat_cursors import bind
from ivm.join.kernels.flat_layout import BASE, END, NEXT, NOTES, ROOM, START, STOP
from ivm.join.kernels.intersect import part_slice
from ivm.join.kernels.join_layout import BOUND_START, GRANULARITY, HIGH, LOW, PART_START, SENSOR
from ivm.join.kernels.trace_rows import leave
from ivm.join.kernels.trie_iterator import place_of
from pagestore.compiled import WORD_MAX, WORD_MIN, Table, Tables, Words, inlined, kernel, late


@late(Words, Words, Words, Words, Table, Words, Tables, Tables, int)
def certify(data, plan, state, step, cursors, scratch, codes, rows, level):
    """Call `certificate`; compiled on demand."""
    return certificate(data, plan, state, step, cursors, scratch, codes, rows, level)


@late(Words, Table, Words, Words, Table, Table, Words, Tables, Tables, int, int)
def foretell(data, place, plan, state, steps, cursors, scratch, codes, rows, room, level):
    """Write the next level's trace rows under each candidate before collecting.  Return False if the buffer is full."""
    bounded = plan[plan[BOUND_START] + level + 1] < plan[plan[BOUND_START] + level + 2]
    set_bounds(plan, state, level + 1)
    while steps[level, NEXT] < steps[level, STOP]:
        if crowded(plan, state, rows, room):
            return False
        bind(data, place, plan, state, steps, cursors, level, scratch[steps[level, NEXT]])
        steps[level, NEXT] += 1
        if bounded:
            set_bounds(plan, state, level + 1)
        if state[state[LOW] + level + 1] <= state[state[HIGH] + level + 1]:
            certificate(data, plan, state, steps[level + 1], cursors, scratch, codes, rows, level + 1)
    steps[level, NEXT] = steps[level, BASE]
    return True


@inlined
def certificate(data, plan, state, step, cursors, scratch, codes, rows, level):
    """Write trace rows that prove which candidates a level has, each for fewer keys than `granularity`.

    S is the greatest first key of a part, L the least last key: one part has nothing before S, and one nothing after L.
    So outside [S, L] no other part has to be sensitive, and inside it all are:

        ├──────────┼ S ─────────┼ L               the part that begins last
                   ┼ S ─────────┼ L ────────┤     the part that ends first
                   ┼ S ─────────┼ L               others

    If the shortest slice has too many keys for one row, its keys cut [S, L]. In a leapfrog join an iterator moves at
    most twice between two moves of another, so up to 2 * `granularity` moves may begin in a row. Return the number of
    these keys, 0 if one row is enough.
    """
    low, high = state[state[LOW] + level], state[state[HIGH] + level]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    if stop == start + 1:  # a single part is sensitive over the whole range
        i, i_end = cuts(data, plan, cursors, start, low, high)
        s = plan[plan[SENSOR] + place_of(plan, start)]
        certified(data, plan, state, step, scratch, codes, rows, s, low, high, i, i_end)
        return i_end - i
    late = early = shortest = start
    first, last, length = WORD_MIN, WORD_MAX, WORD_MAX
    for p in range(start, stop):
        o = place_of(plan, p)
        i, n = cursors[o, START], cursors[o, END] - cursors[o, START]
        if n < length:
            length, shortest = n, p
        if n > 0 and data[i] > first:
            first, late = data[i], p
        if n > 0 and data[i + n - 1] < last:
            last, early = data[i + n - 1], p
    begin, end = max(first, low), min(last, high)
    if length == 0:
        late, early, begin, end = shortest, shortest, 1, 0
    i, i_end = cuts(data, plan, cursors, shortest, begin, end)
    for p in range(start, stop):
        a = low if p == late else begin
        b = high if p == early else min(first, high) if p == late and begin > end else end
        certified(data, plan, state, step, scratch, codes, rows, plan[plan[SENSOR] + place_of(plan, p)], a, b, i, i_end)
    return i_end - i


@kernel
def cuts(data, plan, cursors, p, low, high):
    """Return where in `data` the keys of a part from low to high are if they may be too many for a row, else (0, 0)."""
    o = place_of(plan, p)
    if cursors[o, END] - cursors[o, START] < plan[GRANULARITY]:
        return 0, 0
    return part_slice(data, plan, cursors, p, low, high)


@kernel
def certified(data, plan, state, step, scratch, codes, rows, s, a, b, i, i_end):
    """Write trace rows that cover [a, b] for a part, cut after every granularity - 1 of the keys data[i:i_end].

    Writes nothing if the part has no sensor or a > b.
    """
    if s < 0 or a > b:
        return
    shared, n = plan[GRANULARITY] - 1, step[NOTES]
    scratch[n] = a
    i += shared - 1
    while i < i_end - 1:  # a range would need a division for its length
        scratch[n + step[ROOM]] = data[i]
        n += 1
        scratch[n] = data[i] + 1
        i += shared
    scratch[n + step[ROOM]] = b
    leave(plan, state, codes, rows, s, scratch, step[NOTES], step, n + 1 - step[NOTES])
