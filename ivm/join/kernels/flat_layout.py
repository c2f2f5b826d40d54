"""TODO: ivm/join/kernels/flat_layout.py."""

# columns of `place` and of `cursors`, a row for each atom and depth
FIRST_KEY, KEYS, CHILDREN, TABLE, LEAST, PLACE = range(6)
# the slice an iterator is in, where in it, operations noted there; and where in `numbers` the rows of its slices are
# noted, by the place in `data` of the key above
START, END, AT, NOTED, OWNERS, CURSOR = range(6)
# columns of `codes`, a row for each column of a sensor's trace rows, a and b first: its range, its first bit where rows
# are words, the level that it comes from, -1 behind the last, how many bits tails have, -1 where rows are columns; and
# in that of a, has it a bit more that says whether b is another, and what a word without a and b adds to its values
CODE_LOW, CODE_HIGH, CODE_AT, SOURCE, TAIL, MARK, NOUGHT, CODE = range(8)
SKEWED = 8  # a slice so many times longer than another is galloped through
RANKED = 8  # 64 ranks are laid in a quarter of the time that merging takes to pass a key
SPARSE = 16  # so many times fewer keys than counts are sorted, and not looked for among the counts

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
