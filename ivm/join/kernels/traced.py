"""The join over flat tries where every operation writes a trace row: leapfrogging, with a note per operation.

    a    1 4 6 9        open at 1 and 2; a seeks 2 and lands on 4; b seeks 4 and lands on 5; a seeks 5, lands on 6, ...
    b    2 5 6 8        notes of a: (2, 4) (5, 6) ...        notes of b: (4, 5) (6, 6) ...

Two slices are leapfrogged without a branch: each step writes a possible note, and counts it only if it happened.
"""

from ivm.join.kernels.flat_cursors import onward
from ivm.join.kernels.flat_layout import (
    AT,
    BASE,
    END,
    KEPT,
    MARK_LOW,
    MOVES,
    NOTED,
    NOTES,
    PASSED,
    RANKED,
    RANKS,
    ROOM,
    SKEWED,
    STAMP,
    START,
    STEADY,
    TRIED,
)
from ivm.join.kernels.join_layout import HIGH, LOW, PART_START, SEEKS, SENSOR
from ivm.join.kernels.leaf_slices import ahead
from ivm.join.kernels.rank_bitmap import lay_ranks, ranked
from ivm.join.kernels.trace_rows import leave
from ivm.join.kernels.trie_iterator import place_of
from pagestore.compiled import WORD_MAX, WORD_MIN, Table, Tables, Words, kernel, late


@late(Words, Table, Words, Words, Table, Table, Words, Words, Tables, Tables, int)
def leapfrog(data, place, plan, state, steps, cursors, scratch, bits, codes, rows, level):
    """Compute candidates by leapfrogging, and write its operations as trace rows.  Return how many candidates."""
    step = steps[level]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    n = 0
    if open_parts(data, plan, state, step, cursors, scratch, level):
        if step[RANKS] >= 0 and rank(data, plan, steps, cursors, bits, level):
            n = follow(data, plan, state, step, cursors, scratch, bits, level)
        elif stop - start == 2:
            n = alternate(data, plan, state, step, cursors, scratch, level)
        n = search(data, place, plan, state, step, cursors, scratch, level, n)
    for p in range(start, stop):
        o = place_of(plan, p)
        state[SEEKS] += cursors[o, NOTED]
        s, at = plan[plan[SENSOR] + o], notes(step, p - start)
        leave(plan, state, codes, rows, s, scratch, at, step, cursors[o, NOTED])
    return n


@kernel
def notes(step, k):
    """Return where in `scratch` the k-th part of a level notes its intervals: starts, then step[ROOM] further ends."""
    return step[NOTES] + 2 * k * step[ROOM]


@kernel
def note(scratch, step, cursors, k, o, a, b):
    """Note an operation of a level's k-th part: sought a, landed on b."""
    at = notes(step, k) + cursors[o, NOTED]
    scratch[at] = a
    scratch[at + step[ROOM]] = b
    cursors[o, NOTED] += 1


@kernel
def open_parts(data, plan, state, step, cursors, scratch, level):
    """Open the parts of a level at its lower bound, up to one without keys.  Return whether all have keys."""
    low = state[state[LOW] + level]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    for p in range(start, stop):
        cursors[place_of(plan, p), NOTED] = 0
    for p in range(start, stop):
        o = place_of(plan, p)
        i = cursors[o, START]
        if i < cursors[o, END] and data[i] < low:
            i = ahead(data, i, cursors[o, END], low)
        cursors[o, AT] = i
        note(scratch, step, cursors, p - start, o, low, data[i] if i < cursors[o, END] else WORD_MAX)
        if i == cursors[o, END]:
            return False
    return True


@kernel
def search(data, place, plan, state, step, cursors, scratch, level, n):
    """Continue leapfrogging, with n candidates so far, one operation at a time.  Return how many candidates."""
    high = state[state[HIGH] + level]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    x = WORD_MIN
    for p in range(start, stop):
        o = place_of(plan, p)
        x = max(x, data[cursors[o, AT]])
    p = start
    while x <= high:
        o = place_of(plan, p)
        i, end = cursors[o, AT], cursors[o, END]
        if data[i] < x:
            i = onward(data, place, o, i, end, x)
            cursors[o, AT] = i
            note(scratch, step, cursors, p - start, o, x, data[i] if i < end else WORD_MAX)
            if i == end:
                return n
        if data[i] > x:
            x = data[i]
            p = start
            continue
        p += 1
        if p < stop:
            continue
        scratch[step[BASE] + n] = x
        n += 1
        if x == high:
            return n
        p = start
        o = place_of(plan, p)
        i = cursors[o, AT] + 1
        cursors[o, AT] = i
        note(scratch, step, cursors, 0, o, x, data[i] if i < cursors[o, END] else WORD_MAX)
        if i == cursors[o, END]:
            return n
        x = data[i]
    return n


@kernel
def rank(data, plan, steps, cursors, bits, level):
    """Return whether the loop-invariant slice's ranks are built; build them once merging has cost as much."""
    step = steps[level]
    stamp = steps[step[MOVES], STAMP] if step[MOVES] >= 0 else 1
    if step[KEPT] == stamp:
        return True
    if step[TRIED] != stamp:
        step[TRIED] = stamp
        step[PASSED] = 0
    p, steady = plan[plan[PART_START] + level], step[STEADY] >> 1
    a, b = place_of(plan, p + steady), place_of(plan, p + 1 - steady)
    start, end = cursors[a, START], cursors[a, END]
    step[PASSED] += end - start + cursors[b, END] - cursors[b, START]
    if step[PASSED] < (data[end - 1] - data[start]) >> RANKED:
        return False
    lay_ranks(data, start, end, step[MARK_LOW], bits, step[RANKS])
    step[KEPT] = stamp
    return True


@kernel
def follow(data, plan, state, step, cursors, scratch, bits, level):
    """Leapfrog two slices, one with ranks, up to near the end of either.  Return how many matches.

    A step takes the other iterator's key y: the loop-invariant iterator seeks y unless it is at or after it, and if it
    is the first part and they match, goes on to its next key; then the other moves by one, which ends an operation if
    it reaches the loop-invariant one's key x or passes it.
    """
    p = plan[plan[PART_START] + level]
    high = state[state[HIGH] + level]
    steady = step[STEADY] >> 1
    a, b = place_of(plan, p + steady), place_of(plan, p + 1 - steady)
    i, j = cursors[a, AT], cursors[b, AT]
    i_last, j_last = cursors[a, END] - 1, cursors[b, END] - 1
    if data[i_last] > high or data[j_last] > high or j == j_last or j_last - j >= SKEWED * (i_last - i):
        return 0
    x, last = data[i], data[i_last]
    if data[j] < x:
        j = leap(data, j, j_last, x, scratch, step, cursors, 1 - steady, b)
    room, low, ranks = step[ROOM], step[MARK_LOW], step[RANKS]
    notes_a, notes_b, found = notes(step, steady), notes(step, 1 - steady), step[BASE]
    to_a, to_b = notes_a + cursors[a, NOTED], notes_b + cursors[b, NOTED]  # where the next note of either goes
    y = data[j]
    while y < last and j < j_last:
        i = ranked(bits, ranks, low, y)
        z = data[i]
        scratch[to_a] = y
        scratch[to_a + room] = z
        to_a += x < y
        x = z
        scratch[found] = y
        found += y == z
        if steady == 0:
            i += y == z
            x = data[i]
            scratch[to_a] = y
            scratch[to_a + room] = x
            to_a += y == z
        j += 1
        y = data[j]
        scratch[to_b] = x
        scratch[to_b + room] = y
        to_b += x <= y
    cursors[a, AT], cursors[b, AT] = i, j
    cursors[a, NOTED], cursors[b, NOTED] = to_a - notes_a, to_b - notes_b
    return found - step[BASE]


@kernel
def alternate(data, plan, state, step, cursors, scratch, level):
    """Leapfrog two slices of similar length, without a branch, up to near the end of one.  Return how many matches.

    A step moves the iterator with the lesser key, or the first on equal keys; that ends an operation if it reaches the
    other's key or passes it.
    """
    p = plan[plan[PART_START] + level]
    high = state[state[HIGH] + level]
    a, b = place_of(plan, p), place_of(plan, p + 1)
    i, j = cursors[a, AT], cursors[b, AT]
    i_last, j_last = cursors[a, END] - 1, cursors[b, END] - 1
    if i_last - i >= SKEWED * (j_last - j) or j_last - j >= SKEWED * (i_last - i):
        return 0
    if data[i_last] > high or data[j_last] > high:
        return 0
    if data[i] < data[j]:  # usually one slice starts far after the other
        i = leap(data, i, i_last, data[j], scratch, step, cursors, 0, a)
    elif data[j] < data[i]:
        j = leap(data, j, j_last, data[i], scratch, step, cursors, 1, b)
    room, notes_a, notes_b, found = step[ROOM], notes(step, 0), notes(step, 1), step[BASE]
    to_a, to_b = notes_a + cursors[a, NOTED], notes_b + cursors[b, NOTED]  # where the next note of either goes
    while i < i_last and j < j_last:
        x, y = data[i], data[j]
        scratch[found] = x
        found += x == y
        i += x <= y
        j += y < x
        next_x, next_y = data[i], data[j]
        scratch[to_a] = y
        scratch[to_a + room] = next_x
        to_a += (x <= y) & (next_x >= y)
        scratch[to_b] = x
        scratch[to_b + room] = next_y
        to_b += (y < x) & (next_y >= x)
    cursors[a, AT], cursors[b, AT] = i, j
    cursors[a, NOTED], cursors[b, NOTED] = to_a - notes_a, to_b - notes_b
    return found - step[BASE]


@kernel
def leap(data, i, i_last, x, scratch, step, cursors, k, o):
    """Seek x, at most to i_last.  Return the position reached; note the operation if it ends there."""
    i = ahead(data, i, i_last, x)
    if data[i] >= x:
        note(scratch, step, cursors, k, o, x, data[i])
    return i
