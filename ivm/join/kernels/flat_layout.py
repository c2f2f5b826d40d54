"""The tables of a join over flat tries: what their columns mean.

place      a row for each atom and depth    where its keys, and its children's first keys, stand in `data`
cursors    a row for each atom and depth    the slice of keys that its iterator is in, and where in it
steps      a row for each level             how its candidates are found, and where they are kept
codes      a row for each trace column      how its values are packed into words

edge(x, y): 1 2, 1 5, 4 2      data   | 1 4 | 0 2 3 | 2 5 2 |      place[depth 0] = (0, 2, 2, ...): keys 0..2, and
                                         keys  children  keys       the children of keys[i] begin at data[2 + i]
"""

# Columns of `place`, indices into `data`.
(
    FIRST_KEY,  # where the keys begin
    KEYS,  # how many they are
    CHILDREN,  # where it says at which key of the next depth the children of each key begin
    TABLE,  # of a first column without many holes: where it says, for each number from LEAST on, which key is not below
    LEAST,
    PLACE,
) = range(6)

# Columns of `cursors`.
(
    START,  # the slice of keys that the iterator is in
    END,
    AT,  # where in it the iterator stands
    NOTED,  # operations noted in that slice
    OWNERS,  # where in `numbers` the rows of bits of its slices are noted, by the place in `data` of the key above
    CURSOR,
) = range(6)

# Columns of `codes`; the ends of a trace row's interval, a and b, come first.
(
    CODE_LOW,  # the least value of the column
    CODE_HIGH,  # the greatest
    CODE_AT,  # its first bit, where rows are words
    SOURCE,  # the level that its values come from; -1 behind the last column
    TAIL,  # how many bits the tail of a word has; -1 where rows are columns
    MARK,  # in the row of a: does a bit more say whether b is another?
    NOUGHT,  # in the row of a: what a word without a and b adds to its values
    CODE,
) = range(8)

SKEWED = 8  # a slice that is this many times longer than another is galloped through
RANKED = 8  # laying 64 ranks takes a quarter of the time that merging takes to pass a key
SPARSE = 16  # this many times fewer keys than counts are sorted, and not looked for among the counts

# Columns of `steps`.
(
    RECORDS,  # the address of `leapfrog` where each operation of this level leaves a trace row, 0 elsewhere
    STEADY,  # a bit for each of the level's parts whose slice is steady
    MOVES,  # the last level whose binding changes a steady slice; -1 for none
    MARKS,  # is the intersection of the steady slices marked in a table?
    MARK_LOW,  # the key of the table's first byte
    BASE,  # where the level's candidates begin in `scratch`
    NEXT,  # the next candidate
    STOP,  # behind the last candidate
    KEPT_BASE,  # where the keys that the steady slices share are kept in `scratch`
    KEPT_STOP,  # behind these keys
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
