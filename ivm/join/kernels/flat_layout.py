"""The tables of a join over flat tries: what their columns mean.

place      a row for each atom and depth    where its keys, and its children's first keys, are in `data`
cursors    a row for each atom and depth    the slice of keys that its iterator is in, and where in it
steps      a row for each level             how its candidates are found, and where they are kept
codes      a row for each trace column      how its values are packed into words

edge(x, y): 1 2, 1 5, 4 2      data   | 1 4 | 0 2 3 | 2 5 2 |      place[depth 0] = (0, 2, 2, ...): keys 0..2, and
                                         keys  children  keys       the children of keys[i] begin at data[2 + i]

Groups of arguments of the join over flat tries (see pagestore/runtime/types.py).

The slices that the iterators of a join over flat tries are in, and how a binding moves the
iterators below it.

edge   depth 0    keys 1 4        children 0 2 3        binding x = 4 puts the iterator of depth 1
       depth 1    keys 2 5 | 2                          into the slice [2] = keys 2..3
"""

from typing import NamedTuple

from ivm.join.kernels.leapfrog import ahead
from ivm.join.kernels.tries import ATOM_DEPTH, BINDING, DEPTHS, PART_START, PARTS, place_of
from pagestore.compiled import ByteTable, Table, Tables, Words, kernel

# Columns of `place`, indices into `data`.
(
    FIRST_KEY,  # where the keys begin
    KEYS,  # their number
    # where the array begins that gives, for each key, the first of its children at the next depth
    CHILDREN,
    # of a dense first column: where the table of the first key >= each number from LEAST on begins
    TABLE,
    LEAST,
    PLACE,
) = range(6)

# Columns of `cursors`.
(
    START,  # the slice of keys that the iterator is in
    END,
    AT,  # the iterator's position in it
    NOTED,  # operations noted in that slice
    # where in `numbers` the bitmaps of its slices are listed, by the place in `data` of the parent
    # key
    OWNERS,
    CURSOR,
) = range(6)

# Columns of `codes`; the ends of a trace row's interval, a and b, come first.
(
    CODE_LOW,  # the least value of the column
    CODE_HIGH,  # the greatest
    CODE_AT,  # its first bit, where rows are words
    SOURCE,  # the level that its values come from; -1 after the last column
    TAIL,  # how many bits the tail of a word has; -1 where rows are columns
    MARK,  # in the row of a: whether one more bit says that b differs from a
    NOUGHT,  # in the row of a: the constant to which a word adds its shifted values
    CODE,
) = range(8)

SKEWED = 8  # gallop through a slice that is this many times longer than another
RANKED = 8  # writing 64 ranks takes a quarter of the time that merging takes to pass a key
# with this many times fewer keys than counts, sort the keys instead of scanning the counts
SPARSE = 16

# Columns of `steps`.
(
    # the address of `leapfrog` where each operation of this level writes a trace row, 0 elsewhere
    RECORDS,
    INVARIANT,  # a bit for each of the level's parts whose slice is loop-invariant
    MOVES,  # the last level whose binding changes a loop-invariant slice; -1 for none
    MARKS,  # whether the intersection of the loop-invariant slices is marked in a table
    MARK_LOW,  # the key of the table's first byte
    BASE,  # where the level's candidates begin in `scratch`
    NEXT,  # the next candidate
    STOP,  # the end of the candidates
    KEPT_BASE,  # where the keys that the loop-invariant slices share are cached in `scratch`
    KEPT_STOP,  # the end of these keys
    STAMP,  # how often the level was bound
    TRIED,  # the stamp of level MOVES at the last gathering
    KEPT,  # the stamp of level MOVES when the shared keys were cached, 0 when they are not
    # the first of the levels whose values this one merges; its own number if it does not collect
    COLLECTS,
    SORTS,  # the address of `sort_slice` if it collects
    COLLECTOR,  # the level that collects under the values of this one and those after; -1 for none
    COLLECTED_BASE,  # where a collecting level's candidates begin in `scratch`
    COLLECTED,  # their end
    COUNT_LOW,  # the key of its first count
    TALLIES,  # whether collected candidates are only counted, not listed
    TIMES,  # how many bindings the bound value represents
    NOTES,  # where in `scratch` the operations of a level that records are noted
    ROOM,  # how many notes fit for each part
    RANKS,  # where in `bits` the ranks of the loop-invariant one of two slices are; -1 for none
    PASSED,  # keys of both slices that were merged under the stamp of level MOVES
    # the address of `certify` where several operations of this level share a trace row, 0 elsewhere
    CERTIFIES,
    # the address of `foretell` where this level collects, and writes the trace rows of the next
    FORETELLS,
    STEP,
) = range(28)


class FlatTries(NamedTuple):
    """The tries of all atoms in one array, and where each depth of each is in it: place[A * D,
    PLACE].
    """

    data: Words
    place: Table


class FlatRun(NamedTuple):
    """The state of a run.

    plan and state are as for `leapfrog` over pages, steps[L, STEP] the facts of each level,
    cursors[A * D, CURSOR] the slice that each iterator is in; `scratch` holds candidates and cached
    keys. flat_layout.py names the columns.
    """

    plan: Words
    state: Words
    steps: Table
    cursors: Table
    scratch: Words


class KeyTables(NamedTuple):
    """For each level, marks[L, m]: a byte for each key, 1 if shared; counts[L, m]: a word for
    each key collected.
    """

    marks: ByteTable
    counts: Table


class BitRows(NamedTuple):
    """Slices as bitmaps: universes grounds[L, GROUND], the row number of each slice, the bits
    (see intersect.py).
    """

    grounds: Table
    numbers: Words
    bits: Words


class FlatOutput(NamedTuple):
    """Output buffers: bindings out[L, n], how often each counts times[n], and trace rows.

    Trace rows of sensor s go to rows[s, :, n], packed by codes[s, C, CODE]; one level writes at
    most `room` rows.
    """

    out: Table
    times: Words
    rows: Tables
    codes: Tables
    room: int


@kernel
def bind(tries: FlatTries, run: FlatRun, level: int, x: int):
    """Bind a candidate, and move the atoms that have further depths to the slice below it."""
    data, place = tries
    plan, state, steps, cursors, _ = run
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
def onward(data: Words, place: Table, o: int, i: int, end: int, x: int):
    """Seek forward like `ahead`, by the table of first keys if there is one."""
    if place[o, TABLE]:
        return end if data[end - 1] < x else data[place[o, TABLE] + (x - place[o, LEAST])]
    return ahead(data, i, end, x)


@kernel
def rewind(plan: Words, cursors: Table, level: int):
    """Put the iterators of a level at the start of their slices, since its candidates are bound
    in order.
    """
    for p in range(plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]):
        o = place_of(plan, p)
        cursors[o, AT] = cursors[o, START]
