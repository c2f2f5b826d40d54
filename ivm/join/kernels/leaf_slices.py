"""The last level of a join: leapfrogging over the decoded slices that its iterators have in their current leaves.

    runs[0]   2 5 7 8 12        target 2:   part 0 at 2, part 1 seeks 2 and lands on 5
    runs[1]   5 8 9 12          target 5:   part 0 seeks 5, both are at 5: a binding; part 0 goes on to 7, ...

It performs the same operations as `leapfrog.search` and `leapfrog.move_on`, without decoding a key twice.
"""

from ivm.join.kernels.emit import crowded, emit, record
from ivm.join.kernels.join_layout import (
    ABSENT_START,
    AT,
    BINDING,
    BOUND_START,
    COVERED,
    EMITTED,
    FAILED,
    LEVEL,
    NEXT,
    NEXTS,
    PART_START,
    PARTS,
    PHASE,
    RUNS,
    SEARCH,
    SEEKS,
    TARGET,
    TREES,
    VALUES,
)
from ivm.join.kernels.oracle import first_at_least
from ivm.join.kernels.trie_iterator import RUN_END, iterator_of, place_of, sensor_of
from pagestore.compiled import LEAF_ENTRIES, LEAF_PAGE, LEAF_SLOT, WORD_MAX, kernel, unpack

# a decoded slice: its page, first slot, length, and the position of the iterator in it
HELD_PAGE, HELD_SLOT, STOP, AT_KEY, SLICE = range(5)


@kernel
def plain(plan, state, level):
    """Return whether the level only joins two or more atoms with unique keys: no oracle, bounds, negation or values
    to read.
    """
    p, end = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    whole = (
        state[state[COVERED] + level] != 0
        and end - p > 1
        and plan[plan[BOUND_START] + level + 1] == plan[plan[BOUND_START] + level]
        and plan[plan[ABSENT_START] + level + 1] == plan[plan[ABSENT_START] + level]
        and plan[VALUES] == 0
    )
    while whole and p < end:
        whole = ends_key(state, plan[plan[PARTS] + 2 * p], plan[plan[PARTS] + 2 * p + 1])
        p += 1
    return whole


@kernel
def ends_key(state, atom, depth):
    """Return whether this is the last depth of a whole key, so that the keys of a slice are unique."""
    return depth + 1 >= state[state[TREES] + 3 * atom + 2]


@kernel
def intersect(words, plan, state, out, rows, runs):
    """Leapfrog over the slices that all iterators of a level have in their current leaves.

    Performs the same operations as `search` and `move_on`, and stops where an iterator has to leave its slice or
    a buffer is full: with phase SEARCH at a target, with phase NEXT after a binding, or with phase FAILED
    where a run ends in its leaf.
    """
    level = state[LEVEL]
    start, end = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    slices, m = state[RUNS], end - start
    recorded = load_runs(words, plan, state, start, m, runs)
    if m == 2 and not recorded:
        merge(state, level, runs, out)
    phase, k, x = SEARCH, 0, state[TARGET]
    while state[EMITTED] < out.shape[1] and not crowded(plan, state, rows, m + 1):
        s = slices + SLICE * k
        at, stop = state[s + AT_KEY], state[s + STOP]
        if runs[k, at] < x:
            at = ahead(runs[k], at, stop, x)
            if at == stop:
                if ends_here(state, iterator_of(plan, state, start + k)):
                    state[SEEKS] += 1
                    record(plan, state, rows, sensor_of(plan, start + k), x, WORD_MAX)
                    phase = FAILED
                break
            state[SEEKS] += 1
            state[s + AT_KEY] = at
            record(plan, state, rows, sensor_of(plan, start + k), x, runs[k, at])
        key = runs[k, at]
        k += 1
        if key > x:
            x, k = key, 0
        if k < m:
            continue
        state[state[BINDING] + level] = x
        emit(words, plan, state, out)
        k, at = 0, state[slices + AT_KEY] + 1
        if state[EMITTED] == out.shape[1] or at == state[slices + STOP]:
            phase = NEXT
            break
        state[NEXTS] += 1
        state[slices + AT_KEY] = at
        record(plan, state, rows, sensor_of(plan, start), x, runs[0, at])
        x = runs[0, at]
    leave_runs(plan, state, start, m, runs)
    state[TARGET] = x
    state[PHASE] = phase
    return 1


@kernel
def load_runs(words, plan, state, start, m, runs):
    """Decode the slices of m parts from `start` on; return whether any of them is recorded."""
    recorded = False
    for k in range(m):
        depth = plan[plan[PARTS] + 2 * (start + k) + 1]
        load_run(words, state, state[RUNS] + SLICE * k, iterator_of(plan, state, start + k), depth, runs[k])
        recorded |= sensor_of(plan, start + k) >= 0
    return recorded


@kernel
def leave_runs(plan, state, start, m, runs):
    """Move the iterators on the pages to their positions in the decoded slices."""
    for k in range(m):
        s = state[RUNS] + SLICE * k
        state[iterator_of(plan, state, start + k) + LEAF_SLOT] = state[s + HELD_SLOT] + state[s + AT_KEY]
        state[state[AT] + place_of(plan, start + k)] = runs[k, state[s + AT_KEY]]


@kernel
def ends_here(state, o):
    """Return whether an iterator's run ends in its current leaf, so that the slice is all that is left of it."""
    return state[o + RUN_END] < state[o + LEAF_ENTRIES]


@kernel
def load_run(words, state, s, o, depth, run):
    """Decode the rest of the run of iterator o in its leaf, unless it is decoded already.

    The slice at `s` says where in `run` the iterator is, and where its run stops.
    """
    page, slot, end = state[o + LEAF_PAGE], state[o + LEAF_SLOT], state[o + RUN_END]
    if state[s + HELD_PAGE] != page or state[s + HELD_SLOT] > slot or state[s + HELD_SLOT] + state[s + STOP] != end:
        state[s + HELD_PAGE], state[s + HELD_SLOT], state[s + STOP] = page, slot, end - slot
        unpack(words, page, depth, slot, end, run, 0)
    state[s + AT_KEY] = slot - state[s + HELD_SLOT]


@kernel
def merge(state, level, runs, out):
    """Intersect two slices of similar length without a branch to mispredict, as far as buffers allow.

    Emit the matches and count the operations that leapfrogging takes for them. Stop before the last entry of one of
    the slices; `intersect` continues from there.
    """
    a_slice, b_slice = state[RUNS], state[RUNS] + SLICE
    a_run, b_run = runs[0], runs[1]
    i, i_end, j, j_end = state[a_slice + AT_KEY], state[a_slice + STOP], state[b_slice + AT_KEY], state[b_slice + STOP]
    n = start = state[EMITTED]
    seeks = behind = before = 0
    if a_run[i] < b_run[j]:  # usually one slice starts far after the other
        k = ahead(a_run, i, i_end, b_run[j])
        seeks, i = (1, k) if k < i_end else (0, i)
    elif b_run[j] < a_run[i]:
        k = ahead(b_run, j, j_end, a_run[i])
        seeks, j = (1, k) if k < j_end else (0, j)
    if max(i_end - i, j_end - j) < 16 * min(i_end - i, j_end - j):
        i_last, j_last = i_end - 1, j_end - 1
        n_last = out.shape[1] - 1
        while i < i_last and j < j_last and n < n_last:
            a, b = a_run[i], b_run[j]
            out[level, n] = a
            n += a == b
            behind = int(a > b) - int(a < b)
            seeks += (behind != before) & (behind != 0)
            before = behind
            i += a <= b
            j += b < a
        for c in range(level):
            value = state[state[BINDING] + c]
            for k in range(start, n):
                out[c, k] = value
    state[a_slice + AT_KEY], state[b_slice + AT_KEY] = i, j
    state[TARGET] = max(a_run[i], b_run[j])
    state[EMITTED] = n
    state[SEEKS] += seeks
    state[NEXTS] += n - start


@kernel
def ahead(run, i, end, x):
    """Return the first index in [i, end) with run >= x, given run[i] < x; scan a few entries, then gallop."""
    i += 1
    near = min(end, i + 8)
    while i < near and run[i] < x:
        i += 1
    if i < near or i == end:
        return i
    step = 1
    while i + step < end and run[i + step] < x:
        i += step
        step <<= 1
    return first_at_least(run, i, min(end, i + step), x)
