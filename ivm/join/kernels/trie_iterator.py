"""Trie iterators over pages: open, seek_lub and the end of a run (*Leapfrog Triejoin*, section 3).

    edge(x, y)    leaf   x   1 1 1 4 4 9        depth 0 is at slot 0: x = 1, its run ends at slot 3
                         y   2 5 8 2 7 1        open depth 1: y = 2, run 0..3       seek_lub(6) lands on slot 2: y = 8

An atom has an iterator for each of its depths: a pagestore cursor in the state of the run, followed by where its run
of equal parent keys ends in the current leaf. `forward` follows a run into the next leaf.
"""

from ivm.join.kernels.join_layout import AT, DEPTHS, ITERATORS, PARTS, SENSOR, TREES
from pagestore.compiled import (
    CURSOR_WORDS,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    PATH,
    TREE_HEIGHT,
    WORD_MAX,
    field,
    forward,
    gallop,
    kernel,
    run_end,
    seek,
)

# after the cursor of an iterator: the end of its run in the current leaf; where it was opened last, and
# the end of the run there, since many bindings open the same slice
RUN_END, FROM_PAGE, FROM_SLOT, FROM_END = range(CURSOR_WORDS, CURSOR_WORDS + 4)
ITERATOR_WORDS = CURSOR_WORDS + 4


@kernel
def iterator(plan, state, atom, depth):
    """Return the offset in `state` of the iterator of an atom at a depth."""
    return state[ITERATORS] + (atom * plan[DEPTHS] + depth) * ITERATOR_WORDS


@kernel
def iterator_of(plan, state, p):
    """Return the offset in `state` of the iterator of a part."""
    return state[ITERATORS] + place_of(plan, p) * ITERATOR_WORDS


@kernel
def place_of(plan, p):
    """Return the row of a part (an atom at a depth) in tables with a row for each: sensors, keys, cursors."""
    return plan[plan[PARTS] + 2 * p] * plan[DEPTHS] + plan[plan[PARTS] + 2 * p + 1]


@kernel
def sensor_of(plan, p):
    """Return the sensor of a part, or -1."""
    return plan[plan[SENSOR] + place_of(plan, p)]


@kernel
def land(words, plan, state, atom, depth, status):
    """Store the key where an iterator landed; return it, the end of its sensitivity, or WORD_MAX at the end."""
    if status == 0:
        return WORD_MAX
    o = iterator(plan, state, atom, depth)
    x = field(words, state[o + LEAF_PAGE], depth, state[o + LEAF_SLOT])
    state[state[AT] + atom * plan[DEPTHS] + depth] = x
    return x


@kernel
def open_trie(words, seen, page_words, plan, state, atom, depth, x):
    """Open the next level of an atom at its first key >= x.  Return 1 on a key, 0 if there is none, or ``-page_id``."""
    o = iterator(plan, state, atom, depth)
    if depth == 0:
        tree, at = state[TREES] + 3 * atom, state[AT] + atom * plan[DEPTHS]
        state[at] = x
        key = state[at : at + 1]
        status = seek(words, seen, page_words, state[tree], state[tree + 1], state[tree + 2], key, 1, state, o)
        state[o + RUN_END] = state[o + LEAF_ENTRIES]
        return status
    parent = o - ITERATOR_WORDS
    for i in range(PATH + 2 * state[parent + TREE_HEIGHT] - 2):
        state[o + i] = state[parent + i]
    page, slot = state[o + LEAF_PAGE], state[o + LEAF_SLOT]
    if state[o + FROM_PAGE] != page or state[o + FROM_SLOT] != slot:
        above = state[state[AT] + atom * plan[DEPTHS] + depth - 1]
        state[o + FROM_PAGE], state[o + FROM_SLOT] = page, slot
        state[o + FROM_END] = run_end(words, page, depth - 1, slot, state[parent + RUN_END], above)
    state[o + RUN_END] = state[o + FROM_END]
    return seek_trie(words, seen, page_words, plan, state, atom, depth, x)


@kernel
def seek_trie(words, seen, page_words, plan, state, atom, depth, x):
    """Move an iterator to its first key >= x (*seek_lub*).  Return 1 on a key, 0 at the end, or ``-page_id``."""
    o = iterator(plan, state, atom, depth)
    end = state[o + RUN_END]
    slot = gallop(words, state[o + LEAF_PAGE], depth, state[o + LEAF_SLOT], end, x)
    if slot < end:
        state[o + LEAF_SLOT] = slot
        return 1
    keys = state[state[TREES] + 3 * atom + 2]
    if end < state[o + LEAF_ENTRIES] or depth >= keys:
        return 0  # the run ends in this leaf; and a function has one value per key
    at = state[AT] + atom * plan[DEPTHS]
    key = state[at : at + depth + 1]
    key[depth] = x
    status = forward(words, seen, page_words, keys, key, depth + 1, state, o)
    if status <= 0:
        return status
    page, slot = state[o + LEAF_PAGE], state[o + LEAF_SLOT]
    end = state[o + LEAF_ENTRIES]
    for d in range(depth):
        if field(words, page, d, slot) != key[d]:
            return 0
        end = run_end(words, page, d, slot, end, key[d])
    state[o + RUN_END] = end
    return 1
