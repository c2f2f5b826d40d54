"""The slices that the iterators of a join over flat tries are in, and how a binding moves the iterators below it.

edge   depth 0    keys 1 4        children 0 2 3        binding x = 4 puts the iterator of depth 1
       depth 1    keys 2 5 | 2                          into the slice [2] = keys 2..3
"""

from ivm.join.kernels.flat_layout import AT, CHILDREN, END, FIRST_KEY, LEAST, STAMP, START, TABLE
from ivm.join.kernels.join_layout import ATOM_DEPTH, BINDING, DEPTHS, PART_START, PARTS
from ivm.join.kernels.leaf_slices import ahead
from ivm.join.kernels.trie_iterator import place_of
from pagestore.compiled import kernel


@kernel
def bind(data, place, plan, state, steps, cursors, level, x):
    """Bind a candidate, and move the atoms that have further depths to the slice below it."""
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
    """Do as `ahead`, with the table of first keys if there is one."""
    if place[o, TABLE]:
        return end if data[end - 1] < x else data[place[o, TABLE] + (x - place[o, LEAST])]
    return ahead(data, i, end, x)


@kernel
def rewind(plan, cursors, level):
    """Put the iterators of a level at the start of their slices, since its candidates are bound in order."""
    for p in range(plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]):
        o = place_of(plan, p)
        cursors[o, AT] = cursors[o, START]
