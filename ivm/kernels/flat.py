"""Full evaluation over tries laid out flat: each level's candidates at once, by intersecting sorted slices.

A flat trie keeps, for each depth, its keys one behind the other and where the children of each begin:

    (1,2) (1,5) (4,2)        depth 0: keys 1 4, children 0 2 3        depth 1: keys 2 5 2

`place[A, D]` gives (first key, keys, first child offset) of an atom at a depth, as indices into `data`; of a first
column without many holes also where a table has, for every number from its least key on, the place of the first key
that is not below, and that least key. The
joins are those of Leapfrog Triejoin; what it enumerates one by one is gathered here slice by slice, because a slice in
memory is merged without a branch to mispredict. A trace is recorded operation by operation, as it is there, or
certified (`certify`): where several operations may share an interval, what a level has in common is enough to know it.

Slices that stay while the variable before moves are *steady*.  What the steady slices of a level share is kept
from the second time on that it is needed, and marked in a table of bytes by which the others are filtered: an
outer intersection is done once, and the innermost loop has no branch. Where slices come again while others change
they are bits, see kernels/overlay.py.

A level may *collect*: where nothing below reads the variables before it, and nobody asks for them, all its
candidates under all their values are brought together first, each with how many bindings it stands for.

    ends(x, w) <- edge(x, y), edge(y, z), edge(z, w).        under each x: the y, the z collected, the w collected
"""

from ivm.kernels.leapfrog import (
    ATOM_DEPTH,
    BINDING,
    BOUND_START,
    BOUND_WORDS,
    BOUNDS,
    CROWD,
    DEPTHS,
    DONE,
    EMITTED,
    ENTER,
    GRANULARITY,
    HIGH,
    INT_MAX,
    INT_MIN,
    KIND,
    LEVEL,
    LEVELS,
    LOW,
    MATCHED,
    NE,
    NEXTS,
    OPENS,
    PART_START,
    PARTS,
    PHASE,
    ROW_COUNT,
    SEARCH,
    SEEKS,
    SENSOR,
    SENSORS,
    SOURCES,
    WIDTH,
    ahead,
    bound_value,
    crowded,
    place_of,
    set_bounds,
)
from ivm.kernels.overlay import (
    CHANGER,
    LAID,
    LISTED,
    LISTED_STOP,
    MET,
    OVERLAYS,
    STAYING,
    clear,
    lay,
    meet_rows,
    met,
    row_of,
    row_words,
)
from ivm.kernels.ranks import lay_ranks, ranked
from pagestore.compiled import kernel
from pagestore.kernels.kernel import inlined, late
from pagestore.kernels.order import code_of

# columns of `place` and of `cursors`, a row for each atom and depth
FIRST_KEY, KEYS, CHILDREN, TABLE, LEAST, PLACE = range(6)
# the slice an iterator is in, where in it, operations noted there; and where in `numbers` the rows of its slices are
# noted, by the place in `data` of the key above
START, END, AT, NOTED, OWNERS, CURSOR = range(6)

# columns of `steps`, a row for each level
(
    RECORDS,  # the address of `leapfrog` where each operation of this level leaves a trace row, 0 elsewhere
    STEADY,  # a bit for each of the level's parts whose slice is steady
    MOVES,  # the level whose binding changes one of them; -1 for none
    MARKS,  # is what they share marked in a table?
    MARK_LOW,  # the key of its first byte
    BASE,  # where the level's candidates begin in `scratch`
    NEXT,  # the candidate to come
    STOP,  # behind the last candidate
    KEPT_BASE,  # where the keys that the steady slices share are kept in `scratch`
    KEPT_STOP,  # behind them
    STAMP,  # how often the level was bound
    TRIED,  # the stamp of level MOVES at the last gathering
    KEPT,  # the stamp of level MOVES when the steady slices were kept, 0 when they are not
    COLLECTS,  # the first of the levels whose values this one brings together; its own if it does not
    SORTS,  # the address of `sort_slice` where it does
    COLLECTOR,  # the level that collects under the values of this one and those after; -1 for none
    COLLECTED_BASE,  # where a collecting level's candidates begin in `scratch`
    COLLECTED,  # behind them
    COUNT_LOW,  # the key of its first count
    TALLIES,  # is it only counted, not listed, what a level collects?
    TIMES,  # how many bindings the value that is bound stands for
    NOTES,  # where in `scratch` the operations of a level that records are noted
    ROOM,  # and for how many of a part there is room
    RANKS,  # where in `bits` the ranks of the steady slice of two are; -1 for none
    PASSED,  # keys of both slices that were merged under the stamp of level MOVES
    CERTIFIES,  # the address of `certify` where several operations of this level share a trace row, 0 elsewhere
    FORETELLS,  # the address of `foretell` where a level that collects leaves the rows of the next
    STEP,
) = range(28)

# columns of `codes`, a row for each column of a sensor's trace rows, a and b first: its range, its first bit where rows
# are words, the level that it comes from, -1 behind the last, how many bits tails have, -1 where rows are columns; and
# in that of a, has it a bit more that says whether b is another, and what a word without a and b adds to its values
CODE_LOW, CODE_HIGH, CODE_AT, SOURCE, TAIL, MARK, NOUGHT, CODE = range(8)

SKEWED = 8  # a slice so many times longer than another is galloped through
RANKED = 8  # 64 ranks are laid in a quarter of the time that merging takes to pass a key
SPARSE = 16  # so many times fewer keys than counts are sorted, and not looked for among the counts


@kernel
def run_flat(
    data, place, plan, state, steps, cursors, scratch, marks, counts, grounds, numbers, bits, codes, room, out, times,
    rows,
):  # fmt: skip
    """Run until done or a buffer is full; state[PHASE] == DONE says that nothing is left.

    Bindings go to out[L, n] in order, how often each is to be counted to times[n], trace rows of sensor s to
    rows[s, :, n] as codes[S, C, CODE] say, where one level leaves at most `room`. marks[L, m] are a byte and
    counts[L, m] a word for each key; for grounds[L, GROUND], numbers and bits see kernels/overlay.py. Returns 1, or 0
    for a count that does not fit a word.
    """
    last = plan[LEVELS] - 1
    state[EMITTED] = state[CROWD] = 0
    for s in range(plan[SENSORS]):
        state[state[ROW_COUNT] + s] = 0
    level = state[LEVEL]
    while level >= 0:
        if state[PHASE] == ENTER:
            if crowded(plan, state, rows, room):
                break
            gather(data, place, plan, state, steps, cursors, scratch, marks, grounds, numbers, bits, codes, rows, level)
            state[PHASE] = MATCHED if steps[level, COLLECTS] < level else SEARCH
        if state[PHASE] == MATCHED:
            if steps[level, FORETELLS] and not foretell(
                steps[level, FORETELLS], data, place, plan, state, steps, cursors, scratch, codes, rows, room, level
            ):
                break
            if not collect(steps, scratch, counts[level], level):
                return 0
            state[PHASE] = SEARCH
            level -= 1
            continue
        if level == last:
            emit_slice(plan, state, steps, scratch, counts, out, times)
            if steps[last, NEXT] < steps[last, STOP]:
                break
        elif steps[level, NEXT] < steps[level, STOP]:
            x = scratch[steps[level, NEXT]]
            steps[level, NEXT] += 1
            steps[level, TIMES] = steps[level - 1, TIMES] if level else 1
            if steps[level, COLLECTS] < level:
                steps[level, TIMES] = counts[level, x - steps[level, COUNT_LOW]]
                counts[level, x - steps[level, COUNT_LOW]] = 0
            bind(data, place, plan, state, steps, cursors, level, x)
            level += 1
            state[PHASE] = ENTER
            continue
        collector = steps[level, COLLECTOR]
        if collector >= 0 and steps[collector, COLLECTED] > steps[collector, COLLECTED_BASE]:
            arrange(plan, steps, cursors, scratch, counts[collector], collector)
            level = collector
        else:
            level = steps[level, COLLECTS] - 1
    state[LEVEL] = level
    if level < 0:
        state[PHASE] = DONE
    return 1


@kernel
def collect(steps, scratch, counts, level):
    """Add a level's candidates to those it has collected.  False if a count does not fit a word."""
    n, low = steps[level, COLLECTED], steps[level, COUNT_LOW]
    times = steps[level - 1, TIMES]
    if steps[level, TALLIES]:
        return tally(steps[level], scratch, counts, times)
    fits = True
    for i in range(steps[level, NEXT], steps[level, STOP]):
        x = scratch[i]
        count = counts[x - low]
        scratch[n] = x
        n += count == 0
        counts[x - low] = count + times
        fits &= count <= INT_MAX - times
    steps[level, COLLECTED] = n
    return fits


@kernel
def tally(step, scratch, counts, times):
    """Add how many candidates a level has to what it has collected, under one key.  False if they do not fit a word."""
    n = step[STOP] - step[NEXT]
    if n == 0:
        return True
    if times > (INT_MAX - counts[0]) // n:
        return False
    scratch[step[COLLECTED_BASE]] = step[COUNT_LOW]
    step[COLLECTED] = step[COLLECTED_BASE] + 1
    counts[0] += n * times
    return True


@late("int64(int64[::1], int64, int64)", allocates=True)
def sort_slice(words, begin, end):
    """Sort words[begin:end]; returns how many they are."""
    words[begin:end].sort()
    return end - begin


@kernel
def arrange(plan, steps, cursors, scratch, counts, level):
    """Make what a level has collected its candidates, in order."""
    base, stop, low = steps[level, COLLECTED_BASE], steps[level, COLLECTED], steps[level, COUNT_LOW]
    if SPARSE * (stop - base) < counts.shape[0]:
        sort_slice(steps[level, SORTS], scratch, base, stop)
    else:
        n = base
        for i in range(counts.shape[0]):
            scratch[n] = low + i
            n += counts[i] != 0
    steps[level, NEXT], steps[level, STOP] = base, stop
    steps[level, COLLECTED] = base
    rewind(plan, cursors, level)


@kernel
def emit_slice(plan, state, steps, scratch, counts, out, times):
    """Write as many of the last level's candidates as there is room for, each with the binding before it."""
    last = plan[LEVELS] - 1
    n, at = state[EMITTED], steps[last, NEXT]
    take = min(steps[last, STOP] - at, out.shape[1] - n)
    for c in range(last):
        x = state[state[BINDING] + c]
        for i in range(n, n + take):
            out[c, i] = x
    for i in range(take):
        out[last, n + i] = scratch[at + i]
    if steps[last, COLLECTS] < last:
        low = steps[last, COUNT_LOW]
        for i in range(take):
            times[n + i] = counts[last, scratch[at + i] - low]
            counts[last, scratch[at + i] - low] = 0
    else:
        for i in range(n, n + take):
            times[i] = steps[last - 1, TIMES] if last else 1
    state[EMITTED] = n + take
    steps[last, NEXT] = at + take


@kernel
def bind(data, place, plan, state, steps, cursors, level, x):
    """Bind a candidate; the atoms that go on below move to it."""
    state[state[BINDING] + level] = x
    steps[level, STAMP] += 1
    for p in range(plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]):
        atom, depth = plan[plan[PARTS] + 2 * p], plan[plan[PARTS] + 2 * p + 1]
        if depth + 1 < plan[plan[ATOM_DEPTH] + atom]:
            o = atom * plan[DEPTHS] + depth
            i = cursors[o, AT]
            if data[i] < x:
                i = onward(data, place, o, i, cursors[o, END], x)
                cursors[o, AT] = i
            below = place[o, CHILDREN] + i - place[o, FIRST_KEY]
            cursors[o + 1, START] = place[o + 1, FIRST_KEY] + data[below]
            cursors[o + 1, END] = place[o + 1, FIRST_KEY] + data[below + 1]


@kernel
def onward(data, place, o, i, end, x):
    """As `ahead`, in a table where there is one."""
    if place[o, TABLE]:
        return end if data[end - 1] < x else data[place[o, TABLE] + (x - place[o, LEAST])]
    return ahead(data, i, end, x)


@kernel
def gather(data, place, plan, state, steps, cursors, scratch, marks, grounds, numbers, bits, codes, rows, level):
    """Find the candidates of a level: the keys that its slices, within the bounds, have in common."""
    set_bounds(plan, state, level)
    base = steps[level, BASE]
    steps[level, NEXT] = steps[level, STOP] = base
    low, high = state[state[LOW] + level], state[state[HIGH] + level]
    if low > high:
        return
    if steps[level, RECORDS]:
        n = leapfrog(steps[level, RECORDS], data, place, plan, state, steps, cursors, scratch, bits, codes, rows, level)
    else:
        n = -1
        if grounds[level, OVERLAYS]:
            n = overlay(
                grounds[level, OVERLAYS], data, plan, state, steps, cursors, scratch, grounds[level], numbers, bits,
                level, low, high,
            )  # fmt: skip
        if n < 0:
            n = meet(data, plan, state, steps, cursors, scratch, marks, level, low, high)
        state[OPENS] += plan[plan[PART_START] + level + 1] - plan[plan[PART_START] + level]
        state[NEXTS] += n
        if steps[level, CERTIFIES]:
            certify(steps[level, CERTIFIES], data, plan, state, steps[level], cursors, scratch, codes, rows, level)
    steps[level, STOP] = base + unequal(plan, state, scratch, level, base, n)
    rewind(plan, cursors, level)


@kernel
def rewind(plan, cursors, level):
    """Put the iterators of a level at the start of their slices: its candidates come in order."""
    for p in range(plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]):
        o = place_of(plan, p)
        cursors[o, AT] = cursors[o, START]


@late(
    "int64(int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1],"
    "int64[:, :, ::1], int64[:, :, ::1], int64)"
)
def leapfrog(data, place, plan, state, steps, cursors, scratch, bits, codes, rows, level):
    """Candidates by leapfrogging, whose operations leave trace rows.  Returns how many."""
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
    """Where in `scratch` the k-th part of a level notes its operations: begins, and step[ROOM] further on ends."""
    return step[NOTES] + 2 * k * step[ROOM]


@kernel
def note(scratch, step, cursors, k, o, a, b):
    """Note an operation of a level's k-th part: sought a, landed on b."""
    at = notes(step, k) + cursors[o, NOTED]
    scratch[at] = a
    scratch[at + step[ROOM]] = b
    cursors[o, NOTED] += 1


@kernel
def leave(plan, state, codes, rows, s, scratch, at, step, n):
    """Leave n operations noted from scratch[at] on as trace rows of sensor s, if there is one."""
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
def leave_words(state, codes, rows, row, scratch, at, ends, n):
    """As `leave`, each row a word, or a word and a tail."""
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
def coded(code, tail, x):
    """What the code x of a column adds to the word and to the tail of a row, see pagestore/kernels/order.py."""
    at = code[CODE_AT]
    if at >= tail:
        return x << at - tail, 0
    return x >> tail - at, x << at & (1 << tail) - 1


@kernel
def leave_columns(plan, state, rows, row, s, scratch, at, ends, n):
    """As `leave`, each row a column."""
    for c in range(plan[WIDTH]):
        source = plan[plan[SOURCES] + s * plan[WIDTH] + c]
        if source >= 0:
            for r in range(row, row + n):
                rows[c, r] = state[state[BINDING] + source]
        elif source > -3:
            begins = at if source == -1 else ends
            for r in range(n):
                rows[c, row + r] = scratch[begins + r]


@late(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[:, :, ::1],"
    "int64[:, :, ::1], int64)"
)
def certify(data, plan, state, step, cursors, scratch, codes, rows, level):
    """As `certificate`."""
    return certificate(data, plan, state, step, cursors, scratch, codes, rows, level)


@late(
    "int64(int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], "
    "int64[:, :, ::1], int64[:, :, ::1], int64, int64)"
)
def foretell(data, place, plan, state, steps, cursors, scratch, codes, rows, room, level):
    """Leave the next level's trace rows under each candidate before they are collected.  False if they need room."""
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
    """Leave trace rows that say why a level has the candidates it has, each for fewer keys than `granularity`.

    One part has nothing before its first key S, and one nothing behind its last key L, which are the greatest and the
    least there are. So what is outside of [S, L] no other part has to be sensitive to, and inside all are:

        ├──────────┼ S ─────────┼ L               the part that begins last
                   ┼ S ─────────┼ L ────────┤     the part that ends first
                   ┼ S ─────────┼ L               others

    The keys of the shortest slice, where they are too many for a row, cut [S, L]. Leapfrogging, an iterator moves not
    more than twice between two moves of another, so 2 * `granularity` moves may begin in a row. Returns the keys there.
    """
    low, high = state[state[LOW] + level], state[state[HIGH] + level]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    if stop == start + 1:  # one alone is sensitive wherever it begins and ends
        i, i_end = cuts(data, plan, cursors, start, low, high)
        s = plan[plan[SENSOR] + place_of(plan, start)]
        certified(data, plan, state, step, scratch, codes, rows, s, low, high, i, i_end)
        return i_end - i
    late = early = shortest = start
    first, last, length = INT_MIN, INT_MAX, INT_MAX
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
    """Where in `data` the keys of a part from low to high are, where they are too many for a row."""
    o = place_of(plan, p)
    if cursors[o, END] - cursors[o, START] < plan[GRANULARITY]:
        return 0, 0
    return part_slice(data, plan, cursors, p, low, high)


@kernel
def certified(data, plan, state, step, scratch, codes, rows, s, a, b, i, i_end):
    """Let a part be sensitive to [a, b], cut behind as many of the keys data[i:i_end] as may share a row.

    Leaves nothing of a part that has no sensor, or where a > b.
    """
    if s < 0 or a > b:
        return
    shared, n = plan[GRANULARITY] - 1, step[NOTES]
    scratch[n] = a
    i += shared - 1
    while i < i_end - 1:  # a range would divide to know how many
        scratch[n + step[ROOM]] = data[i]
        n += 1
        scratch[n] = data[i] + 1
        i += shared
    scratch[n + step[ROOM]] = b
    leave(plan, state, codes, rows, s, scratch, step[NOTES], step, n + 1 - step[NOTES])


@kernel
def open_parts(data, plan, state, step, cursors, scratch, level):
    """Open the parts of a level at its lower bound, up to one that has nothing there.  Has none nothing?"""
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
        note(scratch, step, cursors, p - start, o, low, data[i] if i < cursors[o, END] else INT_MAX)
        if i == cursors[o, END]:
            return False
    return True


@kernel
def search(data, place, plan, state, step, cursors, scratch, level, n):
    """Leapfrog on from where the parts stand, n candidates found so far, an operation at a time.  Returns how many."""
    high = state[state[HIGH] + level]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    x = INT_MIN
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
            note(scratch, step, cursors, p - start, o, x, data[i] if i < end else INT_MAX)
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
        note(scratch, step, cursors, 0, o, x, data[i] if i < cursors[o, END] else INT_MAX)
        if i == cursors[o, END]:
            return n
        x = data[i]
    return n


@kernel
def rank(data, plan, steps, cursors, bits, level):
    """Are the ranks of the steady slice of a level laid?  They are once merging has passed as much as that takes."""
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
    """Leapfrog two slices, one with ranks, up to where the other nears the end of one.  Returns how many matches.

    A step takes the key y where the other stands: the steady iterator seeks it unless it is there or ahead, and if it
    is the first one and they match, goes on to its next key; then the other moves by one, which ends an operation where
    it comes to stand at the steady one's key x or beyond.
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
    at, room, base, low, ranks = notes(step, steady), step[ROOM], step[BASE], step[MARK_LOW], step[RANKS]
    other = notes(step, 1 - steady)
    m, k, n = at + cursors[a, NOTED], other + cursors[b, NOTED], base
    y = data[j]
    while y < last and j < j_last:
        i = ranked(bits, ranks, low, y)
        z = data[i]
        scratch[m] = y
        scratch[m + room] = z
        m += x < y
        x = z
        scratch[n] = y
        n += y == z
        if steady == 0:
            i += y == z
            x = data[i]
            scratch[m] = y
            scratch[m + room] = x
            m += y == z
        j += 1
        y = data[j]
        scratch[k] = x
        scratch[k + room] = y
        k += x <= y
    cursors[a, AT], cursors[b, AT] = i, j
    cursors[a, NOTED], cursors[b, NOTED] = m - at, k - other
    return n - base


@kernel
def alternate(data, plan, state, step, cursors, scratch, level):
    """Leapfrog two slices of similar length up to where one nears its end, without a branch.  Returns how many matches.

    A step moves the iterator that is behind, or of two on one key the first; that ends an operation where it comes to
    stand at the other's key or beyond.
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
    if data[i] < data[j]:  # mostly one slice starts far behind the other
        i = leap(data, i, i_last, data[j], scratch, step, cursors, 0, a)
    elif data[j] < data[i]:
        j = leap(data, j, j_last, data[i], scratch, step, cursors, 1, b)
    at, room, base = step[NOTES], step[ROOM], step[BASE]
    m, k, n = at + cursors[a, NOTED], at + 2 * room + cursors[b, NOTED], base
    while i < i_last and j < j_last:
        x, y = data[i], data[j]
        scratch[n] = x
        n += x == y
        i += x <= y
        j += y < x
        to_x, to_y = data[i], data[j]
        scratch[m] = y
        scratch[m + room] = to_x
        m += (x <= y) & (to_x >= y)
        scratch[k] = x
        scratch[k + room] = to_y
        k += (y < x) & (to_y >= x)
    cursors[a, AT], cursors[b, AT] = i, j
    cursors[a, NOTED], cursors[b, NOTED] = m - at, k - at - 2 * room
    return n - base


@kernel
def leap(data, i, i_last, x, scratch, step, cursors, k, o):
    """Seek x, but not beyond i_last.  Returns where; an operation is noted if it ends there."""
    i = ahead(data, i, i_last, x)
    if data[i] >= x:
        note(scratch, step, cursors, k, o, x, data[i])
    return i


@late(
    "int64(int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int64[::1],"
    "int64[::1], int64, int64, int64)"
)
def overlay(data, plan, state, steps, cursors, scratch, ground, numbers, bits, level, low, high):
    """Candidates as bits over the ground of a level.  Returns how many, -1 where there is no room for rows."""
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    stamp = steps[ground[CHANGER], STAMP]
    if abs(ground[LAID]) != stamp:
        clear(ground, scratch, numbers, bits)
        listed = ground[LISTED]
        n = share(data, plan, state, cursors, scratch, start, stop, ground[STAYING], INT_MIN, INT_MAX, listed)
        ground[LAID] = stamp if lay(ground, scratch, numbers, n) else -stamp
    if ground[LAID] < 0:
        return -1
    lo, hi = narrowed(scratch, ground[LISTED], ground[LISTED_STOP], low, high)
    if lo == hi:
        return 0
    found = -1
    for p in range(start, stop):
        if not ground[STAYING] >> (p - start) & 1:
            o = place_of(plan, p)
            i, end = cursors[o, START], cursors[o, END]
            owner = cursors[o, OWNERS] + cursors[o - 1, AT]
            if not numbers[owner]:
                state[SEEKS] += end - i
            row = row_of(ground, data, i, end, owner, scratch, numbers, bits)
            if row < 0:
                return -1
            state[SEEKS] += row_words(ground)
            found = meet_rows(ground, bits, row, found) if found >= 0 else row
    if found != ground[MET]:
        meet_rows(ground, bits, found, found)
    return met(ground, bits, lo, hi, scratch, steps[level, BASE], steps[level, TALLIES])


@kernel
def meet(data, plan, state, steps, cursors, scratch, marks, level, low, high):
    """Candidates by intersecting the slices of a level.  Returns how many."""
    base = steps[level, BASE]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    every = (1 << (stop - start)) - 1
    if not keep(data, plan, state, steps, cursors, scratch, marks, level):
        n = share(data, plan, state, cursors, scratch, start, stop, every, low, high, base)
    else:
        kept, kept_stop = narrowed(scratch, steps[level, KEPT_BASE], steps[level, KEPT_STOP], low, high)
        moving = every & ~steps[level, STEADY]
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
            n = share_on(data, plan, state, cursors, scratch, start, stop, moving, low, high, base, n)
    return n


@kernel
def share(data, plan, state, cursors, scratch, start, stop, which, low, high, at):
    """Write the keys that some parts (a bit each) have in common to scratch[at:].  Returns how many."""
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
    """Keep of scratch[at : at + n] what some more parts have.  Returns how many are left."""
    for p in range(start, stop):
        if which >> (p - start) & 1 and n:
            lo, hi = part_slice(data, plan, cursors, p, low, high)
            n = intersect(scratch, at, at + n, data, lo, hi, scratch, at, state)
    return n


@kernel
def smallest(plan, cursors, start, stop, which):
    """The part with the shortest slice among some (a bit each)."""
    best, length = start, INT_MAX
    for p in range(start, stop):
        o = place_of(plan, p)
        if which >> (p - start) & 1 and cursors[o, END] - cursors[o, START] < length:
            best, length = p, cursors[o, END] - cursors[o, START]
    return best


@kernel
def part_slice(data, plan, cursors, p, low, high):
    """The keys of a part within the bounds."""
    o = place_of(plan, p)
    return narrowed(data, cursors[o, START], cursors[o, END], low, high)


@kernel
def narrowed(keys, lo, hi, low, high):
    """The part of a slice with low <= key <= high."""
    if lo < hi and keys[lo] < low:
        lo = ahead(keys, lo, hi, low)
    if lo < hi and keys[hi - 1] > high:
        hi = ahead(keys, lo, hi, high + 1) if keys[lo] <= high else lo
    return lo, hi


@kernel
def keep(data, plan, state, steps, cursors, scratch, marks, level):
    """Is what the steady slices of a level share kept?  It is from the second time on that it is needed."""
    steady, moves = steps[level, STEADY], steps[level, MOVES]
    if steady == 0:
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
    n = share(data, plan, state, cursors, scratch, start, stop, steady, INT_MIN, INT_MAX, base)
    if steps[level, MARKS]:
        for i in range(base, base + n):
            marks[level, scratch[i] - mark_low] = 1
    steps[level, KEPT_STOP] = base + n
    steps[level, KEPT] = stamp
    return True


@kernel
def marked(keys, lo, hi, marks, mark_low, out, n):
    """Copy the keys of a slice that are marked.  Returns how many."""
    start = n
    for i in range(lo, hi):
        x = keys[i]
        out[n] = x
        n += marks[x - mark_low]
    return n - start


@kernel
def intersect(a, i, i_end, b, j, j_end, out, n, state):
    """The keys that two slices share, to `out` from n on (which may be where a begins).  Returns how many."""
    start = n
    if i_end - i > j_end - j:
        if i_end - i > SKEWED * (j_end - j):
            return sifted(b, j, j_end, a, i, i_end, out, n, state)
    elif j_end - j > SKEWED * (i_end - i):
        return sifted(a, i, i_end, b, j, j_end, out, n, state)
    if i < i_end and j < j_end:  # mostly one slice starts far behind the other
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
def sifted(a, i, i_end, b, j, j_end, out, n, state):
    """As `intersect`, leaping through b, the much longer slice."""
    start = n
    while i < i_end and j < j_end:
        x = a[i]
        if b[j] < x:
            j = ahead(b, j, j_end, x)
            state[SEEKS] += 1
            if j == j_end:
                break
        if b[j] == x:  # nothing is written before: b may be where `out` begins
            out[n] = x
            n += 1
        i += 1
    return n - start


@kernel
def unequal(plan, state, scratch, level, base, n):
    """Leave out the candidates that a constraint != excludes.  Returns how many are left."""
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
