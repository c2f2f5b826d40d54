"""Full evaluation over flat tries: compute each level's candidates at once, by intersecting sorted
slices.

A flat trie stores, for each depth, its keys consecutively, and where the children of each begin:

    (1,2) (1,5) (4,2)        depth 0: keys 1 4, children 0 2 3        depth 1: keys 2 5 2

`place[A, D]` gives (first key, keys, first child offset) of an atom at a depth, as indices into
`data`. For a dense first column it also gives its least key and a table: for every number from the
least key on, the place of the first key >= it. The joins are those of Leapfrog Triejoin; what it
enumerates one by one is computed here slice by slice, because a slice in memory is merged without a
branch to mispredict. A trace is recorded operation by operation, as there, or certified
(`certify`): where several operations may share an interval, the shared keys of a level suffice.

Slices that do not change with the variable before are *loop-invariant*.  The intersection of a
level's loop-invariant slices is cached from the second time that it is needed, and marked in a
table of bytes by which the others are filtered: an outer intersection is done once, and the
innermost loop has no branch. Where slices recur while others change, they are bitmaps, see
intersect.py.

A level may *collect*: where no lower level reads the variables before it, and they are not
requested, its candidates under all their values are merged first, each with the number of bindings
it represents.

    ends(x, w) <- edge(x, y), edge(y, z), edge(z, w).        under each x: the y, the z collected, the w collected

Collecting levels: the union of a level's candidates under all values before it, each with a count.

    two(x, z) <- edge(x, y), edge(y, z).        x = 1:  y = 2 gives z 3 5    y = 4 gives z 5 6    ──▶  3 ×1, 5 ×2, 6 ×1

This is possible where no lower level reads a variable and its values are not requested.
"""

from ivm.join.kernels.bounds import set_bounds
from ivm.join.kernels.flat_layout import (
    AT,
    BASE,
    CERTIFIES,
    COLLECTED,
    COLLECTED_BASE,
    COLLECTOR,
    COLLECTS,
    COUNT_LOW,
    END,
    FORETELLS,
    NEXT,
    OWNERS,
    RECORDS,
    SORTS,
    SPARSE,
    STAMP,
    START,
    STOP,
    TALLIES,
    TIMES,
    BitRows,
    FlatOutput,
    FlatRun,
    FlatTries,
    KeyTables,
    bind,
    rewind,
)
from ivm.join.kernels.flat_trace import certify, foretell, leapfrog
from ivm.join.kernels.intersect import (
    CHANGER,
    LAID,
    LISTED,
    LISTED_STOP,
    MET,
    OVERLAYS,
    STAYING,
    clear,
    lay,
    meet,
    meet_rows,
    met,
    narrowed,
    row_of,
    row_words,
    share,
    unequal,
)
from ivm.join.kernels.tries import (
    BINDING,
    CROWD,
    DONE,
    EMITTED,
    ENTER,
    HIGH,
    LEVEL,
    LEVELS,
    LOW,
    MATCHED,
    NEXTS,
    OPENS,
    PART_START,
    PAUSE,
    PHASE,
    ROW_COUNT,
    SEARCH,
    SEEKS,
    SENSORS,
    VALUES_MET,
    crowded,
    place_of,
)
from pagestore.compiled import WORD_MAX, WORD_MIN, Table, Words, kernel, on_demand


@kernel
def run_flat(
    tries: FlatTries, run: FlatRun, tables: KeyTables, rows_of_bits: BitRows, output: FlatOutput
):
    """Run until done, a buffer is full, or state[PAUSE] is reached; state[PHASE] == DONE means that
    nothing is left.

    Return 1, or 0 for a count that does not fit a word.
    """
    plan, state, steps, cursors = run.plan, run.state, run.steps, run.cursors
    scratch, counts = run.scratch, tables.counts
    last, level = plan[LEVELS] - 1, state[LEVEL]
    empty_buffers(plan, state)
    while level >= 0:
        if state[PHASE] == ENTER:
            if state[OPENS] + state[NEXTS] >= state[PAUSE] or crowded(
                plan, state, output.rows, output.room
            ):
                break
            gather(tries, run, tables, rows_of_bits, output, level)
            state[PHASE] = MATCHED if steps[level, COLLECTS] < level else SEARCH
        if state[PHASE] == MATCHED:
            address = steps[level, FORETELLS]
            if address and not foretell(address, tries, run, output, level):
                break
            if not collect(steps, scratch, counts[level], level):
                return 0
            state[PHASE] = SEARCH
            level -= 1
            continue
        if level == last:
            emit_slice(plan, state, steps, scratch, counts, output.out, output.times)
            if steps[last, NEXT] < steps[last, STOP]:
                break
        elif steps[level, NEXT] < steps[level, STOP]:
            x = scratch[steps[level, NEXT]]
            steps[level, NEXT] += 1
            steps[level, TIMES] = steps[level - 1, TIMES] if level else 1
            if steps[level, COLLECTS] < level:
                steps[level, TIMES] = counts[level, x - steps[level, COUNT_LOW]]
                counts[level, x - steps[level, COUNT_LOW]] = 0
            bind(tries, run, level, x)
            level += 1
            state[PHASE] = ENTER
            continue
        level = level_after(plan, steps, cursors, scratch, counts, level)
    state[LEVEL] = level
    if level < 0:
        state[PHASE] = DONE
    return 1


@kernel
def empty_buffers(plan: Words, state: Words):
    """Forget the bindings and the rows of the trace that the caller has taken."""
    state[EMITTED] = state[CROWD] = 0
    for s in range(plan[SENSORS]):
        state[state[ROW_COUNT] + s] = 0


@kernel
def level_after(
    plan: Words, steps: Table, cursors: Table, scratch: Words, counts: Table, level: int
):
    """Return the level to go on with after the last candidate of one: its collector's, if that
    has collected values, else the level above.
    """
    collector = steps[level, COLLECTOR]
    if collector >= 0 and steps[collector, COLLECTED] > steps[collector, COLLECTED_BASE]:
        arrange(plan, steps, cursors, scratch, counts[collector], collector)
        return collector
    return steps[level, COLLECTS] - 1


@kernel
def emit_slice(
    plan: Words, state: Words, steps: Table, scratch: Words, counts: Table, out: Table, times: Words
):
    """Write as many of the last level's candidates as fit in the buffer, each with the binding
    before it.
    """
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
def gather(tries, run, tables, rows_of_bits, output, level):
    """Compute the candidates of a level: the keys within its bounds that all its slices share."""
    data, plan, state, steps = tries.data, run.plan, run.state, run.steps
    cursors, scratch = run.cursors, run.scratch
    set_bounds(plan, state, level)
    base = steps[level, BASE]
    steps[level, NEXT] = steps[level, STOP] = base
    low, high = state[state[LOW] + level], state[state[HIGH] + level]
    if low > high:
        return
    if steps[level, RECORDS]:
        n = leapfrog(steps[level, RECORDS], tries, run, rows_of_bits.bits, output, level)
    else:
        n = -1
        address = rows_of_bits.grounds[level, OVERLAYS]
        if address:
            n = overlay(address, data, run, rows_of_bits, level, low, high)
        if n < 0:
            n = meet(data, plan, state, steps, cursors, scratch, tables.marks, level, low, high)
        state[OPENS] += plan[plan[PART_START] + level + 1] - plan[plan[PART_START] + level]
        state[NEXTS] += n
        if steps[level, CERTIFIES]:
            certify(steps[level, CERTIFIES], data, run, output, level)
    n = unequal(plan, state, scratch, level, base, n)
    state[state[VALUES_MET] + level] += n
    steps[level, STOP] = base + n
    rewind(plan, cursors, level)


@on_demand(Words, FlatRun, BitRows, int, int, int)
def overlay(data, run, rows_of_bits, level, low, high):
    """Compute candidates by bitmaps over the universe of a level.  Return how many; -1 if the
    bitmaps do not fit.
    """
    plan, state, steps, cursors, scratch = run
    grounds, numbers, bits = rows_of_bits
    ground = grounds[level]
    start, stop = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    stamp = steps[ground[CHANGER], STAMP]
    if abs(ground[LAID]) != stamp:
        clear(ground, scratch, numbers, bits)
        listed = ground[LISTED]
        parts = ground[STAYING]
        n = share(
            data, plan, state, cursors, scratch, start, stop, parts, WORD_MIN, WORD_MAX, listed
        )
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
def collect(steps: Table, scratch: Words, counts: Words, level: int):
    """Add a level's candidates to those it has collected.  Return False if a count does not fit
    a word.
    """
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
        fits &= count <= WORD_MAX - times
    steps[level, COLLECTED] = n
    return fits


@kernel
def tally(step: Words, scratch: Words, counts: Words, times: int):
    """Add the number of a level's candidates to a single count.  Return False if that does not
    fit a word.
    """
    n = step[STOP] - step[NEXT]
    if n == 0:
        return True
    if times > (WORD_MAX - counts[0]) // n:
        return False
    scratch[step[COLLECTED_BASE]] = step[COUNT_LOW]
    step[COLLECTED] = step[COLLECTED_BASE] + 1
    counts[0] += n * times
    return True


@on_demand(Words, int, int, allocates=True)
def sort_slice(words: Words, begin: int, end: int):
    """Sort words[begin:end]; return their number."""
    words[begin:end].sort()
    return end - begin


@kernel
def arrange(plan: Words, steps: Table, cursors: Table, scratch: Words, counts: Words, level: int):
    """Make the keys that a level has collected its candidates, in order."""
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
