"""The join over flat tries where every operation writes a trace row: leapfrogging, with a note per
operation.

    a    1 4 6 9        open at 1 and 2; a seeks 2 and lands on 4; b seeks 4 and lands on 5; a seeks 5, lands on 6, ...
    b    2 5 6 8        notes of a: (2, 4) (5, 6) ...        notes of b: (4, 5) (6, 6) ...

Two slices are leapfrogged without a branch: each step writes a possible note, and counts it only if
it happened.

Certificates: trace rows that prove which candidates a level has, without recording each operation.

    a    1 4 6 9        Both share only 6. The last to begin is b (2), the first to end is b (8):
    b    2 5 6 8        a is sensitive to [2, 8] and b to (-inf, +inf), cut at keys where rows would cover too many.

Where several operations may share a row (granularity above 1), this is enough, and the level can be
found by merging.

Rank bitmap: the number of keys of a slice below any value, from a bit per value and a running count
per 64 bits.

With the ranks of one slice, leapfrogging it with another needs no search and no merge, and the
operations at a key of the other depend only on that key and the one before. So the bitmap of a
slice that recurs is built once.

    keys 1 3 64 70, at 500 in `data`    bits of 0..63 {1, 3}, 500; of 64..127 {64, 70}, 502    rank of 65: 503

Turn notes into trace rows: columns, or words into which the columns are packed.

    context (x = 3), notes (2, 4) (5, 6)      columns   3 3 | 2 5 | 4 6      words   3·2·4   3·5·6, bits concatenated

Words are sorted and stored in a third of the time that columns take. Where a word has too few bits,
a tail follows.
"""

from ivm.join.kernels.bounds import set_bounds
from ivm.join.kernels.flat_layout import (
    AT,
    BASE,
    CODE_AT,
    CODE_HIGH,
    CODE_LOW,
    END,
    INVARIANT,
    KEPT,
    MARK,
    MARK_LOW,
    MOVES,
    NEXT,
    NOTED,
    NOTES,
    NOUGHT,
    PASSED,
    RANKED,
    RANKS,
    ROOM,
    SKEWED,
    SOURCE,
    STAMP,
    START,
    STOP,
    TAIL,
    TRIED,
    FlatOutput,
    FlatRun,
    FlatTries,
    bind,
    onward,
)
from ivm.join.kernels.intersect import part_slice
from ivm.join.kernels.leapfrog import ahead
from ivm.join.kernels.tries import (
    BINDING,
    BOUND_START,
    CROWD,
    GRANULARITY,
    HIGH,
    LOW,
    PART_START,
    ROW_COUNT,
    SEEKS,
    SENSOR,
    SOURCES,
    WIDTH,
    crowded,
    place_of,
)
from pagestore.compiled import (
    WORD_MAX,
    WORD_MIN,
    Table,
    Words,
    code_of,
    inlined,
    kernel,
    on_demand,
    population,
)


@on_demand(FlatTries, FlatRun, Words, FlatOutput, int)
def leapfrog(tries, run, bits, output, level):
    """Compute candidates by leapfrogging, and write its operations as trace rows.  Return how
    many candidates.
    """
    data, place = tries
    plan, state, steps, cursors, scratch = run
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
        leave(plan, state, output.codes, output.rows, s, scratch, at, step, cursors[o, NOTED])
    return n


@kernel
def notes(step: Words, k: int):
    """Return where in `scratch` the k-th part of a level notes its intervals: starts, then
    step[ROOM] further ends.
    """
    return step[NOTES] + 2 * k * step[ROOM]


@kernel
def note(scratch: Words, step: Words, cursors: Table, k: int, o: int, a: int, b: int):
    """Note an operation of a level's k-th part: sought a, landed on b."""
    at = notes(step, k) + cursors[o, NOTED]
    scratch[at] = a
    scratch[at + step[ROOM]] = b
    cursors[o, NOTED] += 1


@kernel
def open_parts(
    data: Words, plan: Words, state: Words, step: Words, cursors: Table, scratch: Words, level: int
):
    """Open the parts of a level at its lower bound, up to one without keys.  Return whether all
    have keys.
    """
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
        note(
            scratch, step, cursors, p - start, o, low, data[i] if i < cursors[o, END] else WORD_MAX
        )
        if i == cursors[o, END]:
            return False
    return True


@kernel
def search(data, place, plan, state, step, cursors, scratch, level, n):
    """Continue leapfrogging, with n candidates so far, one operation at a time.  Return how many
    candidates.
    """
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
def rank(data: Words, plan: Words, steps: Table, cursors: Table, bits: Words, level: int):
    """Return whether the loop-invariant slice's ranks are built; build them once merging has
    cost as much.
    """
    step = steps[level]
    stamp = steps[step[MOVES], STAMP] if step[MOVES] >= 0 else 1
    if step[KEPT] == stamp:
        return True
    if step[TRIED] != stamp:
        step[TRIED] = stamp
        step[PASSED] = 0
    p, invariant = plan[plan[PART_START] + level], step[INVARIANT] >> 1
    a, b = place_of(plan, p + invariant), place_of(plan, p + 1 - invariant)
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

    A step takes the other iterator's key y: the loop-invariant iterator seeks y unless it is at or
    after it, and if it is the first part and they match, goes on to its next key; then the other
    moves by one, which ends an operation if it reaches the loop-invariant one's key x or passes it.
    """
    p = plan[plan[PART_START] + level]
    high = state[state[HIGH] + level]
    invariant = step[INVARIANT] >> 1
    a, b = place_of(plan, p + invariant), place_of(plan, p + 1 - invariant)
    i, j = cursors[a, AT], cursors[b, AT]
    i_last, j_last = cursors[a, END] - 1, cursors[b, END] - 1
    if (
        data[i_last] > high
        or data[j_last] > high
        or j == j_last
        or j_last - j >= SKEWED * (i_last - i)
    ):
        return 0
    x, last = data[i], data[i_last]
    if data[j] < x:
        j = leap(data, j, j_last, x, scratch, step, cursors, 1 - invariant, b)
    room, low, ranks = step[ROOM], step[MARK_LOW], step[RANKS]
    notes_a, notes_b, found = notes(step, invariant), notes(step, 1 - invariant), step[BASE]
    # where the next note of either goes
    to_a, to_b = notes_a + cursors[a, NOTED], notes_b + cursors[b, NOTED]
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
        if invariant == 0:
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
def alternate(
    data: Words, plan: Words, state: Words, step: Words, cursors: Table, scratch: Words, level: int
):
    """Leapfrog two slices of similar length, without a branch, up to near the end of one.  Return
    how many matches.

    A step moves the iterator with the lesser key, or the first on equal keys; that ends an
    operation if it reaches the other's key or passes it.
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
    # where the next note of either goes
    to_a, to_b = notes_a + cursors[a, NOTED], notes_b + cursors[b, NOTED]
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
    """Seek x, at most to i_last.  Return the position reached; note the operation if it ends
    there.
    """
    i = ahead(data, i, i_last, x)
    if data[i] >= x:
        note(scratch, step, cursors, k, o, x, data[i])
    return i


@on_demand(Words, FlatRun, FlatOutput, int)
def certify(data, run, output, level):
    """Call `certificate`; compiled on demand."""
    return certificate(data, run, output, level)


@on_demand(FlatTries, FlatRun, FlatOutput, int)
def foretell(tries, run, output, level):
    """Write the next level's trace rows under each candidate before collecting.  Return False if
    the buffer is full.
    """
    plan, state, steps, _, scratch = run
    bounded = plan[plan[BOUND_START] + level + 1] < plan[plan[BOUND_START] + level + 2]
    set_bounds(plan, state, level + 1)
    while steps[level, NEXT] < steps[level, STOP]:
        if crowded(plan, state, output.rows, output.room):
            return False
        bind(tries, run, level, scratch[steps[level, NEXT]])
        steps[level, NEXT] += 1
        if bounded:
            set_bounds(plan, state, level + 1)
        if state[state[LOW] + level + 1] <= state[state[HIGH] + level + 1]:
            certificate(tries.data, run, output, level + 1)
    steps[level, NEXT] = steps[level, BASE]
    return True


@inlined
def certificate(data: Words, run: FlatRun, output: FlatOutput, level: int):
    """Write trace rows that prove which candidates a level has, each for fewer keys than
    `granularity`.

    S is the greatest first key of a part, L the least last key: one part has nothing before S, and
    one nothing after L. So outside [S, L] no other part has to be sensitive, and inside it all are:

        ├──────────┼ S ─────────┼ L               the part that begins last
                   ┼ S ─────────┼ L ────────┤     the part that ends first
                   ┼ S ─────────┼ L               others

    If the shortest slice has too many keys for one row, its keys cut [S, L]. In a leapfrog join an
    iterator moves at most twice between two moves of another, so up to 2 * `granularity` moves may
    begin in a row. Return the number of these keys, 0 if one row is enough.
    """
    plan, state, cursors = run.plan, run.state, run.cursors
    low, high = state[state[LOW] + level], state[state[HIGH] + level]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    if stop == start + 1:  # a single part is sensitive over the whole range
        i, i_end = cuts(data, plan, cursors, start, low, high)
        s = plan[plan[SENSOR] + place_of(plan, start)]
        certified(data, run, output, level, s, low, high, i, i_end)
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
        s = plan[plan[SENSOR] + place_of(plan, p)]
        certified(data, run, output, level, s, a, b, i, i_end)
    return i_end - i


@kernel
def cuts(data: Words, plan: Words, cursors: Table, p: int, low: int, high: int):
    """Return where in `data` the keys of a part from low to high are if they may be too many for
    a row, else (0, 0).
    """
    o = place_of(plan, p)
    if cursors[o, END] - cursors[o, START] < plan[GRANULARITY]:
        return 0, 0
    return part_slice(data, plan, cursors, p, low, high)


@kernel
def certified(data, run, output, level, s, a, b, i, i_end):
    """Write trace rows that cover [a, b] for a part, cut after every granularity - 1 of the keys
    data[i:i_end].

    Writes nothing if the part has no sensor or a > b.
    """
    if s < 0 or a > b:
        return
    plan, state, steps, _, scratch = run
    step = steps[level]
    shared, n = plan[GRANULARITY] - 1, step[NOTES]
    scratch[n] = a
    i += shared - 1
    while i < i_end - 1:  # a range would need a division for its length
        scratch[n + step[ROOM]] = data[i]
        n += 1
        scratch[n] = data[i] + 1
        i += shared
    scratch[n + step[ROOM]] = b
    at, count = step[NOTES], n + 1 - step[NOTES]
    leave(plan, state, output.codes, output.rows, s, scratch, at, step, count)


@kernel
def lay_ranks(data: Words, start: int, end: int, low: int, bits: Words, at: int):
    """Write the ranks of keys data[start:end], not empty, to bits[at:], whose first bit is that
    of key `low`.
    """
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
def ranked(bits: Words, at: int, low: int, x: int):
    """Return where in `data` the first key >= x is, for x from the first key to the last."""
    w = at + 2 * ((x - low) >> 6)
    return bits[w + 1] + population(bits[w] & ~(-1 << ((x - low) & 63)))


@kernel
def leave(plan, state, codes, rows, s, scratch, at, step, n):
    """Write n operations noted from scratch[at] on as trace rows of sensor s, if s >= 0."""
    if s < 0 or n == 0:
        return
    row = state[state[ROW_COUNT] + s]
    if codes[s, 0, TAIL] < 0:
        leave_columns(plan, state, rows[s], row, s, scratch, at, at + step[ROOM], n)
    else:
        leave_words(state, codes[s], rows[s], row, scratch, at, at + step[ROOM], n)
    state[state[ROW_COUNT] + s] = row + n
    state[CROWD] = max(state[CROWD], row + n)


@kernel
def leave_words(
    state: Words, codes: Table, rows: Table, row: int, scratch: Words, at: int, ends: int, n: int
):
    """Write trace rows like `leave`, each row a word, or a word and a tail."""
    tail, word, rest = codes[0, TAIL], codes[0, NOUGHT], 0
    for c in range(2, codes.shape[0]):
        if codes[c, SOURCE] < 0:
            break
        x = state[state[BINDING] + codes[c, SOURCE]]
        if tail:
            above, below = coded(codes[c], tail, x - codes[c, CODE_LOW] + 1)
            word |= above
            rest |= below
        else:
            word += x << codes[c, CODE_AT]
    a, b = codes[0], codes[1]
    for r in range(n):
        x = code_of(scratch[at + r], a[CODE_LOW], a[CODE_HIGH])
        y = code_of(scratch[ends + r], b[CODE_LOW], b[CODE_HIGH])
        if a[MARK]:
            x = x << 1 | (x != y)
        if tail:
            x, below_x = coded(a, tail, x)
            y, below_y = coded(b, tail, y)
            rows[0, row + r] = word | x | y
            rows[1, row + r] = rest | below_x | below_y
        else:
            rows[0, row + r] = word | x << a[CODE_AT] | y << b[CODE_AT]


@inlined
def coded(code: Words, tail: int, x: int):
    """Return what the code x of a column adds to the word and the tail of a row, see
    pagestore/sorting/codes.py.
    """
    at = code[CODE_AT]
    if at >= tail:
        return x << at - tail, 0
    return x >> tail - at, x << at & (1 << tail) - 1


@kernel
def leave_columns(plan, state, rows, row, s, scratch, at, ends, n):
    """Write trace rows like `leave`, as columns of words."""
    for c in range(plan[WIDTH]):
        source = plan[plan[SOURCES] + s * plan[WIDTH] + c]
        if source >= 0:
            for r in range(row, row + n):
                rows[c, r] = state[state[BINDING] + source]
        elif source > -3:
            begins = at if source == -1 else ends
            for r in range(n):
                rows[c, row + r] = scratch[begins + r]
