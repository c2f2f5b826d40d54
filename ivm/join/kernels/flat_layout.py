"""The tables of a join over flat tries: what their columns mean.

place      a row for each atom and depth    where its keys, and its children's first keys, are in `data`
cursors    a row for each atom and depth    the slice of keys that its iterator is in, and where in it
steps      a row for each level             how its candidates are found, and where they are kept
codes      a row for each trace column      how its values are packed into words

edge(x, y): 1 2, 1 5, 4 2      data   | 1 4 | 0 2 3 | 2 5 2 |      place[depth 0] = (0, 2, 2, ...): keys 0..2, and
                                         keys  children  keys       the children of keys[i] begin at data[2 + i]
"""

# Columns of `place`, indices into `data`.
(
    FIRST_KEY,  # where the keys begin
    KEYS,  # their number
    CHILDREN,  # where the array begins that gives, for each key, the first of its children at the next depth
    TABLE,  # of a dense first column: where the table of the first key >= each number from LEAST on begins
    LEAST,
    PLACE,
) = range(6)

# Columns of `cursors`.
(
    START,  # the slice of keys that the iterator is in
    END,
    AT,  # the iterator's position in it
    NOTED,  # operations noted in that slice
    OWNERS,  # where in `numbers` the bitmaps of its slices are listed, by the place in `data` of the parent key
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
SPARSE = 16  # with this many times fewer keys than counts, sort the keys instead of scanning the counts

# Columns of `steps`.
(
    RECORDS,  # the address of `leapfrog` where each operation of this level writes a trace row, 0 elsewhere
    STEADY,  # a bit for each of the level's parts whose slice is loop-invariant
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
    COLLECTS,  # the first of the levels whose values this one merges; its own number if it does not collect
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
    CERTIFIES,  # the address of `certify` where several operations of this level share a trace row, 0 elsewhere
    FORETELLS,  # the address of `foretell` where this level collects, and writes the trace rows of the next
    STEP,
) = range(28)
