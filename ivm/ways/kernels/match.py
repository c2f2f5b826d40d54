"""Match the changes of a plan's relations with its sensitivity indices, and join both versions
there, in one call.

    triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).        + edge(3, 5)

    trace of edge(y, z)     y = 3, z in [4, 7], x = 1         is hit: the operation would act otherwise
    region                  x = 1, y = 3, z in [4, 7]         both versions are joined there
    intervals               those hit are erased, those that the new version records are inserted

`maintain` (ivm/ways/match.py) does the same in Python, and does what is too much for the kernel's
room.

Groups of arguments of the kernel that matches (see pagestore/runtime/types.py).
"""

from typing import NamedTuple

from ivm.join.kernels.bounds import merge_intervals
from ivm.join.kernels.leapfrog import leapfrog
from ivm.join.kernels.tries import (
    DONE,
    EMITTED,
    LEVELS,
    NEXTS,
    OPENS,
    PAUSE,
    PHASE,
    ROW_COUNT,
    SEEKS,
    SENSORS,
    TREES,
    VALUES,
)
from ivm.ways.kernels.probe import Branches, Composing, Found, ProbeRun, compose_bindings
from pagestore.compiled import (
    ERASE,
    INSERT,
    IntervalTree,
    Pages,
    Table,
    Tables,
    Words,
    compose_few,
    function_pointer,
    kernel,
    stab,
    tree_at,
)

LEFT = -1  # Python matches instead: there is too little room, or a page is corrupt
# of either version: a quarter of a millisecond, which is lost if more is needed
OPERATIONS_MAX = 1 << 13
# header of a plan's words: numbers, then offsets of its sections. For each span of branches,
# SPANS_OF has the sensor whose surgeries they are, or -1 - depth if they are regions themselves;
# ATOM_TREES has the number of each atom's tree
(
    ATOMS, SPANS, READING, RECORDING, READING_STATE, RECORDING_STATE, ATOM_TREES, SPANS_OF,
    SENSED, PLACES, HEADER,
) = range(11)  # fmt: skip
# words of a sensor: how many columns its index has, how many of them are before the interval, its
# level, and where its PLACES begin: the columns of the index that hold the variables of earlier
# levels, then the two of the interval
COLUMNS, ALPHAS, LEVEL, PLACED, SENSE = range(5)
# columns of `sensed`: the group of a sensitivity index, and its tree
INDEX_GROUP, INDEX_TREE = range(2)
# words of `tally`: intervals hit, regions, iterator operations, and whether pages for the indices
# ran out
HITS, REGIONS, OPERATIONS, SHORT, TALLY = range(5)


class Matched(NamedTuple):
    """A plan that is matched: its words, a row of `sensed` for each of its sensors, and rows of
    trees to refer to.
    """

    words: Words
    sensed: Table
    trees: Table


class MatchRoom(NamedTuple):
    """Working memory of `match`, and what it found: for each sensor intervals hit and recorded, and
    a tally.

    hits[S, C, H] are the intervals that surgeries hit, hit[S] how many, recorded[S, C, R] those
    that the new version records, new[S] how many. regions[L + 1, N] are those that are joined.
    stabbed[C, H], pieces[2, L + 1, N], actions[2, max(H, N)], key, path and visits are scratch; the
    first of `actions` is INSERT throughout. `match` is the address of the kernel.
    """

    hits: Tables
    hit: Words
    recorded: Tables
    new: Words
    regions: Table
    stabbed: Table
    pieces: Tables
    actions: Table
    key: Words
    path: Table
    visits: Words
    tally: Words
    match: int


@kernel
def match(pages, plan, versions, branches, room, run, found, composing):
    """Find how the bindings of a plan change, in composing.found; return how many do, or LEFT.

    versions[2, I, 3] are the trees that the plan reads, old and new; branches.spans[B, 3] the
    surgeries of each trie and depth. Of `run` only state, start, out, rows and runs are used;
    `composing` must have room for as many rows as room.hits and room.regions. O((hits + operations)
    * log n).
    """
    room.tally[:] = 0
    if not find_hits(pages, plan, branches, room, composing):
        return LEFT
    room.tally[REGIONS] = unite(plan.words, branches, room, run.start, composing)
    if room.tally[REGIONS] <= 0:
        return room.tally[REGIONS]
    n = join(pages, plan.words, versions, 0, room, run, found, 0)
    if n >= 0:
        n = join(pages, plan.words, versions, 1, room, run, found, n)
    if n < 0 or 2 * n > composing.order.shape[0]:
        return LEFT
    shape = plan.words[plan.words[READING] :]
    return compose_bindings(shape[LEVELS] + shape[VALUES], found, composing, n)


match_at = function_pointer(
    match, Pages, Matched, Tables, Branches, MatchRoom, ProbeRun, Found, Composing
)


@kernel
def find_hits(
    pages: Pages, plan: Matched, branches: Branches, room: MatchRoom, composing: Composing
):
    """Find the intervals that surgeries hit, each once; return False if they are too many or a
    page is corrupt.
    """
    words = plan.words
    room.hit[:] = 0
    for b in range(words[SPANS]):
        s = words[words[SPANS_OF] + b]
        if s < 0 or branches.spans[b, 1] == 0:
            continue
        o = words[SENSED] + SENSE * s
        tree = tree_at(pages, plan.trees[plan.sensed[s, INDEX_TREE]], 0)
        index = IntervalTree(tree, words[o + COLUMNS], words[o + ALPHAS], 0)
        n = stab_branches(index, branches, b, room) if tree.height > 0 else 0
        if n < 0 or n > room.stabbed.shape[1]:
            return False
        room.hit[s] = sort_rows(words[o + COLUMNS], n, room, room.stabbed, room.hits[s], composing)
        room.tally[HITS] += room.hit[s]
    return True


@kernel
def stab_branches(index: IntervalTree, branches: Branches, b: int, room: MatchRoom):
    """Write what the branches of span b stab to room.stabbed; return how many, even beyond it,
    or ``-page_id``.
    """
    at, of, apart = branches.spans[b]
    n = 0
    for i in range(of):
        for c in range(index.alphas + 1):
            room.key[c] = branches.words[at + (1 + c) * apart + i]
        n = stab(index, room.key, room.key[index.alphas], room.path, room.stabbed, n, room.visits)
        if n < 0:
            return n
    return n


@kernel
def sort_rows(columns: int, n: int, room: MatchRoom, rows: Table, out: Table, composing: Composing):
    """Sort rows[C, n] into `out`, without duplicates; return how many are left."""
    order = composing.order[: 2 * n]
    return compose_few(
        columns, columns, room.actions[0], rows, order, composing.fresh, room.actions[1], out
    )


@kernel
def unite(words: Words, branches: Branches, room: MatchRoom, start: Words, composing: Composing):
    """Unite the regions to be joined, level by level, in room.regions; return how many there
    are, or LEFT.
    """
    pieces, total = room.pieces, 0
    start[0] = 0
    for level in range(words[words[READING] + LEVELS]):
        n = 0
        for b in range(words[SPANS]):
            n = add_regions(words, branches, b, level, room, n)
            if n < 0:
                return LEFT
        if n > 0:
            n = sort_rows(level + 2, n, room, pieces[0], pieces[1], composing)
            n = merge_intervals(pieces[1], n, level)
        if total + n > room.regions.shape[1]:
            return LEFT
        for c in range(level + 2):
            for i in range(n):
                room.regions[c, total + i] = pieces[1, c, i]
        total += n
        start[level + 1] = total
    return total


@kernel
def add_regions(words: Words, branches: Branches, b: int, level: int, room: MatchRoom, n: int):
    """Add the regions of span b at a level to the n pieces so far: its branches, or the intervals
    that these hit.

    Returns how many pieces there are, or LEFT if they are too many.
    """
    at, of, apart = branches.spans[b]
    s, pieces = words[words[SPANS_OF] + b], room.pieces[0]
    o = words[SENSED] + SENSE * s
    if level != (words[o + LEVEL] if s >= 0 else -1 - s):
        return n
    count = room.hit[s] if s >= 0 else of
    if n + count > pieces.shape[1]:
        return LEFT
    for c in range(level + 2):
        if s >= 0:
            place = words[words[PLACES] + words[o + PLACED] + c]
            for i in range(count):
                pieces[c, n + i] = room.hits[s, place, i]
        else:
            column = at + (1 + min(c, level)) * apart
            for i in range(count):
                pieces[c, n + i] = branches.words[column + i]
    return n + count


@kernel
def join(pages, words, versions, side, room, run, found, n):
    """Join the old or the new version in the regions, and add its bindings to the n found so far;
    the new one records.

    Returns how many there are, or LEFT.
    """
    plan = words[words[READING + side] :]
    begin = words[READING_STATE + side]
    end = words[READING_STATE + side + 1]
    state, rows = run.state[: end - begin], room.recorded if side else run.rows
    for i in range(end - begin):
        state[i] = words[begin + i]
    for a in range(words[ATOMS]):
        for i in range(3):
            state[state[TREES] + 3 * a + i] = versions[side, words[words[ATOM_TREES] + a], i]
    state[PAUSE] = OPERATIONS_MAX
    start = run.start[: plan[LEVELS] + 1]
    status = leapfrog(pages, plan, state, room.regions, start, run.out, rows, run.runs)
    if status < 0 or state[PHASE] != DONE or n + state[EMITTED] > found.signs.shape[0]:
        return LEFT
    for i in range(state[EMITTED]):
        found.signs[n + i] = INSERT if side else ERASE
        for c in range(plan[LEVELS] + plan[VALUES]):
            found.bindings[c, n + i] = run.out[c, i]
    for s in range(plan[SENSORS]):
        room.new[s] = state[state[ROW_COUNT] + s]
    room.tally[OPERATIONS] += state[OPENS] + state[SEEKS] + state[NEXTS]
    return n + state[EMITTED]
