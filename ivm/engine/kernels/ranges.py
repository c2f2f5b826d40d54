"""Follow an aggregate over ranges whose result is the first or the last record of each (ivm/views/ranges.py).

    nx[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.        a: 1 4 9          nx: (1; 4) (4; 9)

    +a(6)     4 and 6 are the points without a record between them and 6: each seeks the first record above it

A point is computed once, however many changes reach it.
"""

from typing import NamedTuple

from pagestore.compiled import (
    CHANGES,
    CURSOR_WORDS,
    ERASE,
    INSERT,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    SET,
    WORD_MAX,
    WORD_MIN,
    Pages,
    Table,
    Words,
    before,
    field,
    inlined,
    kernel,
    next_leaf,
    seek,
    tree_at,
)

# columns of `ranges`: the trees of points and of measured records, the group of the view, how many words a group has;
# what is added to a point for either end of its range, and whether that end is open; whether rows of points are told
# apart by more than group and point, how many of their words are visible, whether the last record is the result, which
# word of it, and which words of points are the view's keys
(
    POINTS, MEASURED, VIEW, GROUP, LOW, LOW_OPEN, HIGH, HIGH_OPEN, WHOLE, WIDTH, LAST, RESULT, KEYED, KEYED_END, RANGE
) = range(15)  # fmt: skip
MOVED_MAX = 256  # points computed for one change of many; with more, all changes are left to Python
BROKEN = -1


class RangeRoom(NamedTuple):
    """Working memory: a point, a prefix that is sought, and two cursors."""

    point: Words
    sought: Words
    cursors: Words


class Ranged(NamedTuple):
    """Trees before and after a transaction, and how a view follows from them: a row of `ranges`, and the columns."""

    pages: Pages
    before: Table
    now: Table
    span: Words
    copies: Words


@kernel
def follow_range(ranged, queues, room):
    """Queue the edits of a view, and return how many points were computed.

    Returns BROKEN, queueing nothing, if they are too many or a page is corrupt.
    """
    first = queues.waits[ranged.span[VIEW]]
    if erase_points(ranged, queues, room):
        begin = queues.waits[ranged.span[VIEW]]
        if compute_points(ranged, queues, room, begin):
            return queues.waits[ranged.span[VIEW]] - begin
    queues.waits[ranged.span[VIEW]] = first
    return BROKEN


@kernel
def erase_points(ranged, queues, room):
    """Queue the erasure of points that are gone, first, as others may have the same keys; return whether all fit."""
    t = ranged.span[POINTS]
    actions, rows = queues.deltas[t, 0], queues.deltas[t, 1:]
    for i in range(queues.tallies[t, CHANGES]):
        there = is_there(ranged, room, actions[i], rows, i)
        if there < 0 or (there == 0 and not edit(ranged, queues, room.point, ERASE, 0)):
            return False
    return True


@kernel
def compute_points(ranged, queues, room, begin):
    """Compute the points that have come, and those in whose ranges records have changed; return whether all fit."""
    t = ranged.span[POINTS]
    actions, rows = queues.deltas[t, 0], queues.deltas[t, 1:]
    for i in range(queues.tallies[t, CHANGES]):
        there = is_there(ranged, room, actions[i], rows, i)
        if there < 0 or (there == 1 and not compute(ranged, queues, room, begin)):
            return False
    t = ranged.span[MEASURED]
    actions, rows = queues.deltas[t, 0], queues.deltas[t, 1:]
    for i in range(queues.tallies[t, CHANGES]):
        low, high = touched(ranged, room, rows, i, ranged.now[t] if actions[i] == INSERT else ranged.before[t])
        if low <= high and not compute_between(ranged, queues, room, rows, i, low, high, begin):
            return False
    return True


@kernel
def compute_between(ranged, queues, room, rows, i, low, high, begin):
    """Compute the points from `low` to `high` of the group that row i is of; return whether all fit."""
    span, sought, cursors = ranged.span, room.sought, room.cursors
    points, group = tree_at(ranged.pages, ranged.now[span[POINTS]], 0), span[GROUP]
    for c in range(group):
        sought[c] = rows[c, i]
    sought[group] = low
    found = seek(points, sought, group + 1, cursors, 0)
    while found == 1:
        page, slot = cursors[LEAF_PAGE], cursors[LEAF_SLOT]
        for c in range(span[WIDTH] if span[WHOLE] else group + 1):
            room.point[c] = field(points.pages.words, page, c, slot)
        for c in range(group):
            if room.point[c] != rows[c, i]:
                return True
        if room.point[group] > high:
            return True
        if not compute(ranged, queues, room, begin):
            return False
        cursors[LEAF_SLOT] = slot + 1
        if slot + 1 == cursors[LEAF_ENTRIES]:
            found = next_leaf(points, cursors, 0)
    return found == 0


@kernel
def touched(ranged, room, rows, i, words):
    """Return (low, high), the points whose result record i of the measured tree `words` may be; low > high for none,
    and all points if a page is corrupt, as it is then found to be when these are computed.
    """
    span, sought, group = ranged.span, room.sought, ranged.span[GROUP]
    key, tree = rows[group, i], tree_at(ranged.pages, words, 0)
    low, low_beyond = shifted(key, -span[HIGH], span[HIGH_OPEN], WORD_MIN)
    high, high_beyond = shifted(key, -span[LOW], span[LOW_OPEN], WORD_MAX)
    if low_beyond > 0 or high_beyond < 0:
        return 1, 0
    for c in range(group + 1):
        sought[c] = rows[c, i]
    page, slot = 0, 0
    if span[LAST]:
        m = step_beyond(sought, group + 1)
        if m and seek(tree, sought, m, room.cursors, CURSOR_WORDS) == 1:
            page, slot = room.cursors[CURSOR_WORDS + LEAF_PAGE], room.cursors[CURSOR_WORDS + LEAF_SLOT]
    else:
        page, slot = before(tree, sought, group + 1)
    if page <= 0:
        return low, high
    for c in range(group):
        if field(tree.pages.words, page, c, slot) != rows[c, i]:
            return low, high
    other = field(tree.pages.words, page, group, slot)
    if span[LAST]:  # a range that reaches the next record has that, or a later one, as its last
        end, beyond = shifted(other, -span[HIGH] - 1, 0, 0)
        if span[HIGH_OPEN] or beyond < 0:
            return 1, 0
        return low, min(high, end)
    end, beyond = shifted(other, -span[LOW] + 1, 0, 0)
    if span[LOW_OPEN] or beyond > 0:
        return 1, 0
    return max(low, end), high


@kernel
def compute(ranged, queues, room, begin):
    """Queue the result of room.point, or the erasure of its row; return whether it fits."""
    if is_computed(ranged, queues, room.point, begin):
        return True
    if queues.waits[ranged.span[VIEW]] - begin == MOVED_MAX:
        return False
    found, word = result(ranged, room)
    return found >= 0 and edit(ranged, queues, room.point, SET if found == 1 else ERASE, word)


@kernel
def result(ranged, room):
    """Return (1, the word) of the record that is the result of room.point, (0, 0) for none, or (BROKEN, 0)."""
    span, point, sought, group = ranged.span, room.point, room.sought, ranged.span[GROUP]
    tree = tree_at(ranged.pages, ranged.now[span[MEASURED]], 0)
    low, low_beyond = shifted(point[group], span[LOW], span[LOW_OPEN], WORD_MIN)
    high, high_beyond = shifted(point[group], span[HIGH], span[HIGH_OPEN], WORD_MAX)
    if low_beyond > 0 or high_beyond < 0 or low > high:
        return 0, 0
    for c in range(group):
        sought[c] = point[c]
    if span[LAST]:
        sought[group] = high
        page, slot = before(tree, sought, step_beyond(sought, group + 1))
    else:
        sought[group] = low
        status = seek(tree, sought, group + 1, room.cursors, CURSOR_WORDS)
        page, slot = room.cursors[CURSOR_WORDS + LEAF_PAGE], room.cursors[CURSOR_WORDS + LEAF_SLOT]
        page = page if status == 1 else status
    if page <= 0:
        return page, 0
    for c in range(group):
        if field(tree.pages.words, page, c, slot) != point[c]:
            return 0, 0
    if not low <= field(tree.pages.words, page, group, slot) <= high:
        return 0, 0
    return 1, field(tree.pages.words, page, span[RESULT], slot)


# -- points and their edits


@kernel
def is_there(ranged, room, action, rows, i):
    """Take the point of row i of the changes of points; return whether it exists now, or BROKEN."""
    span, lead = ranged.span, ranged.span[GROUP] + 1
    for c in range(span[WIDTH] if span[WHOLE] else lead):
        room.point[c] = rows[c, i]
    if span[WHOLE]:
        return 1 if action == INSERT else 0
    tree, o = tree_at(ranged.pages, ranged.now[span[POINTS]], 0), CURSOR_WORDS
    found = seek(tree, room.point, lead, room.cursors, o)
    if found != 1:
        return found
    for c in range(lead):
        if field(tree.pages.words, room.cursors[o + LEAF_PAGE], c, room.cursors[o + LEAF_SLOT]) != room.point[c]:
            return 0
    return 1


@kernel
def edit(ranged, queues, point, action, word):
    """Queue an edit of a point's row; return whether there is room."""
    span, view = ranged.span, ranged.span[VIEW]
    edits, at, keys = queues.waiting[view], queues.waits[view], span[KEYED_END] - span[KEYED]
    if at == edits.shape[1]:
        return False
    edits[0, at] = action
    for c in range(keys):
        edits[1 + c, at] = point[ranged.copies[span[KEYED] + c]]
    edits[1 + keys, at] = word
    queues.waits[view] = at + 1
    return True


@kernel
def is_computed(ranged, queues, point, begin):
    """Return whether a point's row is among the edits of the queue from `begin` on."""
    span, edits = ranged.span, queues.waiting[ranged.span[VIEW]]
    for at in range(begin, queues.waits[span[VIEW]]):
        same = True
        for c in range(span[KEYED_END] - span[KEYED]):
            same &= edits[1 + c, at] == point[ranged.copies[span[KEYED] + c]]
        if same:
            return True
    return False


# -- words


@inlined
def shifted(word, by, is_open, otherwise):
    """Return word + by, clamped to 64 bits, and -1 or 1 if it was clamped; (`otherwise`, 0) for an open end."""
    if is_open:
        return otherwise, 0
    if by >= 0 and word > WORD_MAX - by:
        return WORD_MAX, 1
    if by < 0 and word < WORD_MIN - by:
        return WORD_MIN, -1
    return word + by, 0


@inlined
def step_beyond(prefix, m):
    """Make of prefix[:m] the least prefix beyond all records that begin with it; return its length, 0 for none."""
    while m and prefix[m - 1] == WORD_MAX:
        m -= 1
    if m:
        prefix[m - 1] += 1
    return m
