"""Follow aggregates that have a tree of state (views/layouts.py): compute the rows of the groups
that changed there.

    state of low, mid   - (7, 3; 1)   + (7, 5; 1)    one group, 7:    low: its first record    mid: its middle

A group is found by seeks and by folds of the state's tree, so its size does not matter. What takes
more than words, such as a variance of large numbers or of floats, is left to Python.

A state that keeps a few values of each group (ways/kept_extremes.py) has marks; edits from their group's
mark on are left out before the state is edited. A group with nothing before its mark is left to
Python, which fills it again:

    state of least      (7, 5; 2) (7, 6; MORE)      + 4: goes in      + 9: left out      - 5 - 5: left to Python
"""

from typing import NamedTuple

from ivm.views.kernels.exact_sums import (
    BROKEN,
    UNIT,
    Rounding,
    SumRoom,
    add_number,
    add_part_of,
    begin_sum,
    divided,
    quotient,
    rounded,
    truncated,
)
from ivm.ways.kernels.ranges import FoldRoom, fold_records, step_beyond
from pagestore.compiled import (
    CHANGES,
    ERASE,
    INSERT,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    SET,
    Pages,
    Queues,
    Table,
    Words,
    before,
    field,
    find_weighted,
    first,
    kernel,
    next_leaf,
    seek,
    tree_at,
)

# columns of `folds`: the trees of the state and of the view, their groups; how many words a group
# has, and which of them are the view's keys (in `copies`); whether the view has no keys, and the
# word that it then has for no value; what is computed, from which column or fold; whether that is
# complemented; constants: a share, the most rows, what a word is divided by, whether it is a float;
# which support a mark has, 0 if the state has no marks
(
    STATE, VIEW_TREE, QUEUE, VIEW, GROUP, KEYED, KEYED_END, BARE, HAS_ABSENT, ABSENT, KIND,
    COLUMN, FIRST_FOLD, END_FOLD, COMPLEMENTED, ABOVE, BELOW, ROWS_MAX, UNIT_LOW, UNIT_HIGH,
    FLOATS, UPPER, MARK, FOLD,
) = range(24)  # fmt: skip
# what is computed: a column of the first or the last record, a word of a fold; by rank: a record,
# the mean of two, what is between two, the first or last few; from PARTS on, a result of parts
# (numbers.py)
FIRST, LAST, FOLDED, PLACED, MIDDLE, BETWEEN, NUMBERED, PARTS = range(8)
EXACT = 1 << 52  # words below it add up to a float without rounding
FINE = 62  # bits after the point of a share of the way between two words


class StateRoom(NamedTuple):
    """Working memory: a group's key, what is sought, a cursor; ranks[1] and records[C, 1] found
    by them.
    """

    key: Words
    sought: Words
    cursor: Words
    ranks: Words
    records: Table
    folds: FoldRoom
    sums: SumRoom


class States(NamedTuple):
    """What views follow from: trees, the rows of `folds`, the columns of keys, and working
    memory.
    """

    pages: Pages
    queues: Queues
    folds: Table
    copies: Words
    room: StateRoom


@kernel
def follow_state(states: States, f: int):
    """Queue the rows of each group that changed in the state of view f, and the erasure of those
    that it lost.

    Returns False, queueing nothing, if they are too many, a page is corrupt, or Python has to
    compute one.
    """
    queues, of, key = states.queues, states.folds[f], states.room.key
    rows, at = queues.deltas[of[STATE], 1:], queues.waits[of[VIEW]]
    for i in range(queues.tallies[of[STATE], CHANGES]):
        if i > 0 and is_prefix(rows, i, key, of[GROUP]):
            continue
        for c in range(of[GROUP]):
            key[c] = rows[c, i]
        if not (follow_rows(states, of) if of[KIND] == NUMBERED else follow_row(states, of)):
            queues.waits[of[VIEW]] = at
            return False
    return True


@kernel
def leave_out(states: States, f: int):
    """Drop the edits in the queue of the state of view f that are not before the mark of their
    group.

    Returns False, dropping none, if a page is corrupt.
    """
    queues, of, key = states.queues, states.folds[f], states.room.key
    edits, keys, left, found, mark = queues.waiting[of[QUEUE]], of[GROUP], 0, 0, 0
    for i in range(queues.waits[of[QUEUE]]):
        if i == 0 or not is_prefix(edits[1:], i, key, keys):
            for c in range(keys):
                key[c] = edits[1 + c, i]
            found, mark = mark_of(states, of)
            if found < 0:
                return False
        if not found or edits[1 + keys, i] < mark:
            for row in range(keys + 3):  # an action, the group, a value, a number
                edits[row, left], edits[row, i] = edits[row, i], edits[row, left]
            left += 1
    queues.waits[of[QUEUE]] = left
    return True


@kernel
def is_prefix(rows: Table, i: int, key: Words, keys: int):
    """Return whether row i begins with a key."""
    for c in range(keys):
        if rows[c, i] != key[c]:
            return False
    return True


@kernel
def follow_row(states: States, of: Words):
    """Queue the row of the group room.key, or its erasure; return whether that was possible."""
    found, word = result(states, of)
    if found < 0:
        return False
    if not of[BARE]:
        return edit(states, of, SET if found else ERASE, 0, word)
    pages, queues, cursor = states.pages, states.queues, states.room.cursor
    if not found and of[HAS_ABSENT] and first(state_of(states, of), cursor, 0) == 0:
        found, word = 1, of[ABSENT]
    old = first(tree_at(pages, queues.trees[of[VIEW_TREE]], 0), cursor, 0)
    if old < 0 or (
        old
        and not edit(
            states, of, ERASE, 0, field(pages.words, cursor[LEAF_PAGE], 0, cursor[LEAF_SLOT])
        )
    ):
        return False
    return not found or edit(states, of, INSERT, 0, word)


@kernel
def follow_rows(states: States, of: Words):
    """Queue the numbered rows of the group room.key, and the erasure of those beyond; return
    whether they fit.
    """
    weight, before_it = weigh(states, of)
    if weight < 0:
        return False
    for n in range(of[ROWS_MAX]):
        word = 0
        if n < weight:
            found, word = ranked(states, of, before_it + (weight - 1 - n if of[UPPER] else n))
            if found < 0:
                return False
        if not edit(states, of, SET if n < weight else ERASE, n + 1, word):
            return False
    return True


@kernel
def edit(states: States, of: Words, action: int, number: int, word: int):
    """Queue an edit of the row of the group room.key, with its number if that is not 0; return
    whether it fits.
    """
    edits = states.queues.waiting[of[VIEW]]
    at = states.queues.waits[of[VIEW]]
    keys = of[KEYED_END] - of[KEYED]
    if at == edits.shape[1]:
        return False
    edits[0, at] = action
    for c in range(keys):
        edits[1 + c, at] = states.room.key[states.copies[of[KEYED] + c]]
    if number:
        edits[1 + keys, at], keys = number, keys + 1
    edits[1 + keys, at] = word
    states.queues.waits[of[VIEW]] = at + 1
    return True


# -- the result of the group room.key: (1, its word), (0, 0) for none, or (BROKEN, 0)


@kernel
def result(states: States, of: Words):
    """Return the result of the group room.key."""
    kind = of[KIND]
    if kind == FIRST:
        found, word = end_record(states, of)
    elif kind == LAST:
        found, word = last_record(states, of)
    elif kind == FOLDED:
        found = folded(states, of, of[GROUP], True)
        word = states.room.folds.out[of[COLUMN], 0] if found > 0 else 0
    elif kind == PLACED or kind == MIDDLE or kind == BETWEEN:
        found, word = by_rank(states, of)
    else:
        found, word = of_parts(states, of)
    return found, ~word if found > 0 and of[COMPLEMENTED] else word


@kernel
def end_record(states: States, of: Words):
    """Return a column of the group's first record."""
    tree, key, cursor = state_of(states, of), states.room.key, states.room.cursor
    found = seek(tree, key, of[GROUP], cursor, 0) if of[GROUP] else first(tree, cursor, 0)
    if found <= 0:
        return (BROKEN if found else 0), 0
    page, slot = cursor[LEAF_PAGE], cursor[LEAF_SLOT]
    if of[MARK] and is_mark(states, of, page, slot):
        return BROKEN, 0
    return column_of(states, of, page, slot)


@kernel
def last_record(states: States, of: Words):
    """Return a column of the group's last record."""
    page, slot = last_place(states, of)
    if page <= 0:
        return (BROKEN if page else 0), 0
    return column_of(states, of, page, slot)


@kernel
def mark_of(states: States, of: Words):
    """Return (1, the value of the group's mark), (0, 0) if it has none, or (BROKEN, 0)."""
    page, slot = last_place(states, of)
    if page <= 0 or not is_mark(states, of, page, slot):
        return (BROKEN if page < 0 else 0), 0
    return column_of(states, of, page, slot)


@kernel
def is_mark(states: States, of: Words, page: int, slot: int):
    """Return whether a record, whose values follow a group and one more key, is a mark."""
    return field(states.pages.words, page, of[GROUP] + 1, slot) >= of[MARK]


@kernel
def last_place(states: States, of: Words):
    """Return (page, slot) of the last record that is not after the group, as `before` does."""
    sought = states.room.sought
    for c in range(of[GROUP]):
        sought[c] = states.room.key[c]
    return before(state_of(states, of), sought, step_beyond(sought, of[GROUP]))


@kernel
def column_of(states: States, of: Words, page: int, slot: int):
    """Return a column of a record, if that is one of the group."""
    for c in range(of[GROUP]):
        if field(states.pages.words, page, c, slot) != states.room.key[c]:
            return 0, 0
    return 1, field(states.pages.words, page, of[COLUMN], slot)


@kernel
def state_of(states: States, of: Words):
    """Return the tree of a state."""
    return tree_at(states.pages, states.queues.trees[of[STATE]], 0)


@kernel
def folded(states: States, of: Words, low: int, whole: bool):
    """Fold the records of the group, or those before it, into room.folds.out; return 1, 0 for
    none, or BROKEN.
    """
    room, bounds, high = states.room, states.room.folds.bounds, of[GROUP]
    for c in range(high):
        bounds[c, 0] = room.sought[c] = room.key[c]
    if whole:
        high = step_beyond(room.sought, high)
    for c in range(high):
        bounds[c, 1] = room.sought[c]
    span = of[FIRST_FOLD], of[END_FOLD]
    return fold_records(state_of(states, of), states.queues, of[QUEUE], span, low, high, room.folds)


# -- results by rank


@kernel
def weigh(states: States, of: Words):
    """Return how many assignments the group has, and how many come before it; (BROKEN, 0) for a
    corrupt page.
    """
    room, before_it = states.room, 0
    if of[GROUP]:
        found = folded(states, of, 0, False)
        if found < 0:
            return BROKEN, 0
        before_it = room.folds.out[0, 0] if found else 0
    found = folded(states, of, of[GROUP], True)
    return (room.folds.out[0, 0] if found > 0 else found), before_it


@kernel
def ranked(states: States, of: Words, rank: int):
    """Return the value of the assignment with a rank among all of the state."""
    room, tree = states.room, state_of(states, of)
    room.ranks[0] = rank
    found = find_weighted(tree, tree.keys, of[FIRST_FOLD], tree.keys, room.ranks[:1], room.records)
    return (BROKEN if found < 0 else 1), room.records[tree.keys - 1, 0]


@kernel
def by_rank(states: States, of: Words):
    """Return a quantile of the group, or what is between two of its values."""
    weight, begin = weigh(states, of)
    if weight <= 0:
        return weight, 0
    if weight >> 31:
        return BROKEN, 0
    if of[KIND] == PLACED:
        if float(weight) * max(of[ABOVE], 1) >= EXACT:
            return BROKEN, 0
        return ranked(
            states, of, begin + max((weight * of[ABOVE] + of[BELOW] - 1) // of[BELOW] - 1, 0)
        )
    place = float(of[ABOVE]) / float(of[BELOW]) * (weight - 1)
    low = (weight - 1) // 2 if of[KIND] == MIDDLE else int(place)
    high = weight // 2 if of[KIND] == MIDDLE else low + int(place > low)
    found, least = ranked(states, of, begin + low)
    more, most = ranked(states, of, begin + high)
    if found < 0 or more < 0:
        return BROKEN, 0
    if of[KIND] == MIDDLE:
        return mean_of_two(states, of, least, most)
    return between(states, of, least, most, place - low)


@kernel
def mean_of_two(states: States, of: Words, low: int, high: int):
    """Return the mean of two numbers, as a float64."""
    sums = states.room.sums
    if of[FLOATS] and low == high:
        return 1, low
    sums.digits[:] = 0
    if not add_number(sums, of[FLOATS], low, 1) or not add_number(sums, of[FLOATS], high, 1):
        return BROKEN, 0
    return divided(sums, rounding(of), 2, 1)


@kernel
def between(states: States, of: Words, low: int, high: int, share: float):
    """Return the word that is a share of the way from one word to another; a decimal's is cut
    after its last digit.
    """
    sums, is_decimal = states.room.sums, of[UNIT_LOW] > 0
    fine = int(share * (1 << FINE))
    if (of[FLOATS] or is_decimal) and (low == high or share == 0):
        return 1, low
    if float(fine) != share * (1 << FINE):
        return BROKEN, 0
    if is_decimal and not (low > -(EXACT >> 1) and high < EXACT >> 1):
        return BROKEN, 0
    sums.digits[:] = 0
    if not add_number(sums, of[FLOATS], low, (1 << FINE) - fine) or not add_number(
        sums, of[FLOATS], high, fine
    ):
        return BROKEN, 0
    found, word = quotient(sums.digits, sums.divisors[:0], -FINE - (UNIT if of[FLOATS] else 0))
    return found, truncated(word) if is_decimal and found > 0 else word


# -- results of parts


@kernel
def of_parts(states: States, of: Words):
    """Return the sum, mean or variance of the group, whose parts are its records."""
    room, tree, cursor, group = states.room, state_of(states, of), states.room.cursor, of[GROUP]
    begin_sum(room.sums)
    found = seek(tree, room.key, group, cursor, 0)
    while found == 1:
        page, slot = cursor[LEAF_PAGE], cursor[LEAF_SLOT]
        same = True
        for c in range(group):
            same &= field(tree.pages.words, page, c, slot) == room.key[c]
        if not same:
            break
        place = field(tree.pages.words, page, group, slot)
        amount = field(tree.pages.words, page, group + 1, slot)
        if not add_part_of(room.sums, of[KIND] - PARTS, place, amount):
            return BROKEN, 0
        cursor[LEAF_SLOT] = slot + 1
        if slot + 1 == cursor[LEAF_ENTRIES]:
            found = next_leaf(tree, cursor, 0)
    if found < 0:
        return BROKEN, 0
    return rounded(room.sums, rounding(of))


@kernel
def rounding(of: Words):
    """Return how a sum is rounded."""
    return Rounding(of[KIND] - PARTS, of[FLOATS], max(of[UNIT_LOW], 1), max(of[UNIT_HIGH], 1))
