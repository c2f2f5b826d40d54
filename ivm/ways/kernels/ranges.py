"""Follow an aggregate over ranges: the first or the last record of each, a fold, or a sum
(ivm/ways/ranges.py).

    nx[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.        a: 1 4 9          nx: (1; 4) (4; 9)

    +a(6)     4 and 6 are the points without a record between them and 6: each seeks the first record above it

A point is computed once, however many changes reach it.
"""

from typing import NamedTuple

from ivm.views.kernels.exact_sums import (
    BROKEN,
    COUNTED,
    MEAN,
    SQUARES,
    SUM,
    VARIANCE,
    Rounding,
    SumRoom,
    add_part_of,
    begin_sum,
    rounded,
)
from pagestore.compiled import (
    CHANGES,
    CURSOR_WORDS,
    ERASE,
    INSERT,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    SCANS,
    SCANS_END,
    SET,
    WORD_MAX,
    WORD_MIN,
    Bounds,
    FoldWords,
    Pages,
    Queues,
    Table,
    TreeRef,
    Words,
    before,
    field,
    fold_intervals_at,
    inlined,
    kernel,
    next_leaf,
    seek,
    tree_at,
)

# columns of `ranges`: the trees of points and of measured records, the group of the view, how many
# words a group has; what is added to a point for either end of its range, and whether that end is
# open; whether rows of points are told apart by more than group and point, how many of their words
# are visible, whether the last record is the result, which word of it, and which words of points
# are the view's keys; whether the records are folded or their parts are added, the group and the
# fold of the measured tree; to what sums are rounded, and between which words; and how many words
# have the order in which the record beside a point is sought, 0 if it is that of one
(
    POINTS, MEASURED, VIEW, GROUP, LOW, LOW_OPEN, HIGH, HIGH_OPEN, WHOLE, WIDTH, LAST, RESULT,
    KEYED, KEYED_END, BY, QUEUE, FIRST_FOLD, END_FOLD, KIND, FLOATS, UNIT_LOW, UNIT_HIGH, LEAST,
    GREATEST, ORDERED, RANGE,
) = range(26)  # fmt: skip
SOUGHT, FOLDED, ADDED = range(3)
MOVED_MAX = 256  # points computed for one change of many; with more, all changes are left to Python


class FoldRoom(NamedTuple):
    """Working memory of folds: bounds[K, 2], results out[F, 1], and the address of
    `fold_intervals`.
    """

    bounds: Table
    out: Table
    full: Words
    work: Words
    fold: int


class RangeRoom(NamedTuple):
    """Working memory: a point, a prefix that is sought, and two cursors; that of folds and sums."""

    point: Words
    sought: Words
    cursors: Words
    folds: FoldRoom
    sums: SumRoom


class Ranged(NamedTuple):
    """Trees before and after a transaction, and how a view follows from them: a row of `ranges`,
    and the columns.
    """

    pages: Pages
    before: Table
    queues: Queues
    span: Words
    copies: Words


@kernel
def follow_range(ranged: Ranged, room: RangeRoom):
    """Queue the edits of a view, and return how many points were computed.

    Returns BROKEN, queueing nothing, if they are too many or a page is corrupt.
    """
    queues = ranged.queues
    first = queues.waits[ranged.span[VIEW]]
    if erase_points(ranged, room):
        begin = queues.waits[ranged.span[VIEW]]
        if compute_points(ranged, room, begin):
            return queues.waits[ranged.span[VIEW]] - begin
    queues.waits[ranged.span[VIEW]] = first
    return BROKEN


@kernel
def erase_points(ranged: Ranged, room: RangeRoom):
    """Queue the erasure of points that are gone, first, as others may have the same keys; return
    whether all fit.
    """
    queues = ranged.queues
    t = ranged.span[POINTS]
    actions, rows = queues.deltas[t, 0], queues.deltas[t, 1:]
    for i in range(queues.tallies[t, CHANGES]):
        there = is_there(ranged, room, actions[i], rows, i)
        if there < 0 or (there == 0 and not edit(ranged, room.point, ERASE, 0)):
            return False
    return True


@kernel
def compute_points(ranged: Ranged, room: RangeRoom, begin: int):
    """Compute the points that have come, and those in whose ranges records have changed; return
    whether all fit.
    """
    queues = ranged.queues
    t = ranged.span[POINTS]
    actions, rows = queues.deltas[t, 0], queues.deltas[t, 1:]
    for i in range(queues.tallies[t, CHANGES]):
        there = is_there(ranged, room, actions[i], rows, i)
        if there < 0 or (there == 1 and not compute(ranged, room, begin)):
            return False
    t = ranged.span[MEASURED]
    actions, rows = queues.deltas[t, 0], queues.deltas[t, 1:]
    for i in range(queues.tallies[t, CHANGES]):
        if ranged.span[ORDERED]:
            if not compute_beside(ranged, room, rows, i, begin):
                return False
            continue
        tree = ranged.queues.trees[t] if actions[i] == INSERT else ranged.before[t]
        low, high = touched(ranged, room, rows, i, tree)
        if low <= high and not compute_between(ranged, room, rows, i, low, high, begin):
            return False
    return True


@kernel
def compute_between(
    ranged: Ranged, room: RangeRoom, rows: Table, i: int, low: int, high: int, begin: int
):
    """Compute the points from `low` to `high` of the group that row i is of; return whether all
    fit.
    """
    span, sought, cursors = ranged.span, room.sought, room.cursors
    points, group = tree_at(ranged.pages, ranged.queues.trees[span[POINTS]], 0), span[GROUP]
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
        if not compute(ranged, room, begin):
            return False
        cursors[LEAF_SLOT] = slot + 1
        if slot + 1 == cursors[LEAF_ENTRIES]:
            found = next_leaf(points, cursors, 0)
    return found == 0


@kernel
def compute_beside(ranged: Ranged, room: RangeRoom, rows: Table, i: int, begin: int):
    """Compute the point beside row i, for which that is nearest; return whether it fits."""
    span, group = ranged.span, ranged.span[GROUP]
    tree = tree_at(ranged.pages, ranged.queues.trees[span[POINTS]], 0)
    for c in range(span[ORDERED]):
        room.sought[c] = rows[c, i]
    page, slot = beside(tree, room, span[ORDERED], not span[LAST])
    if page <= 0:
        return page == 0
    for c in range(group):
        if field(tree.pages.words, page, c, slot) != rows[c, i]:
            return True
    for c in range(span[WIDTH]):
        room.point[c] = field(tree.pages.words, page, c, slot)
    return compute(ranged, room, begin)


@kernel
def beside(tree: TreeRef, room: RangeRoom, m: int, is_before: int):
    """Return the page and slot of the last record before room.sought[:m], or of the first after
    it; the page is 0 if there is none, BROKEN if one is corrupt.
    """
    if is_before:
        return before(tree, room.sought, m)
    m = step_beyond(room.sought, m)
    status = seek(tree, room.sought, m, room.cursors, CURSOR_WORDS) if m else 0
    if status <= 0:
        return status, 0
    return room.cursors[CURSOR_WORDS + LEAF_PAGE], room.cursors[CURSOR_WORDS + LEAF_SLOT]


@kernel
def touched(ranged: Ranged, room: RangeRoom, rows: Table, i: int, words: Words):
    """Return (low, high), the points whose result record i of the measured tree `words` may be; low
    > high for none, and all points if a page is corrupt, as it is then found to be when these are
    computed.
    """
    span, sought, group = ranged.span, room.sought, ranged.span[GROUP]
    key, tree = rows[group + int(span[BY] == ADDED), i], tree_at(ranged.pages, words, 0)
    low, low_beyond = shifted(key, -span[HIGH], span[HIGH_OPEN], WORD_MIN)
    high, high_beyond = shifted(key, -span[LOW], span[LOW_OPEN], WORD_MAX)
    if low_beyond > 0 or high_beyond < 0:
        return 1, 0
    if span[BY] != SOUGHT:
        return low, high
    for c in range(group + 1):
        sought[c] = rows[c, i]
    page, slot = 0, 0
    if span[LAST]:
        m = step_beyond(sought, group + 1)
        if m and seek(tree, sought, m, room.cursors, CURSOR_WORDS) == 1:
            cursor = room.cursors[CURSOR_WORDS:]
            page, slot = cursor[LEAF_PAGE], cursor[LEAF_SLOT]
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
def compute(ranged: Ranged, room: RangeRoom, begin: int):
    """Queue the result of room.point, or the erasure of its row; return whether it fits."""
    queues = ranged.queues
    if is_computed(ranged, room.point, begin):
        return True
    if queues.waits[ranged.span[VIEW]] - begin == MOVED_MAX:
        return False
    found, word = result(ranged, room)
    return found >= 0 and edit(ranged, room.point, SET if found == 1 else ERASE, word)


@kernel
def result(ranged: Ranged, room: RangeRoom):
    """Return (1, the word) of the record that is the result of room.point, (0, 0) for none, or
    (BROKEN, 0).
    """
    span, point, sought, group = ranged.span, room.point, room.sought, ranged.span[GROUP]
    tree = tree_at(ranged.pages, ranged.queues.trees[span[MEASURED]], 0)
    low, low_beyond = shifted(point[group], span[LOW], span[LOW_OPEN], WORD_MIN)
    high, high_beyond = shifted(point[group], span[HIGH], span[HIGH_OPEN], WORD_MAX)
    if low_beyond > 0 or high_beyond < 0 or low > high:
        return 0, 0
    for c in range(group):
        sought[c] = point[c]
    if span[BY] == FOLDED:
        found = fold_between(ranged, room, group, low, high)
        return found, room.folds.out[0, 0] if found > 0 else 0
    if span[BY] == ADDED:
        return sum_of_parts(ranged, room, low, high)
    if span[ORDERED]:
        for c in range(group, span[ORDERED]):
            sought[c] = point[c]
        page, slot = beside(tree, room, span[ORDERED], span[LAST])
    elif span[LAST]:
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


# -- folds and sums of ranges


@kernel
def fold_between(ranged: Ranged, room: RangeRoom, m: int, low: int, high: int):
    """Fold the measured records that begin with room.sought[:m] and then have a word from low to
    high.

    Returns 1, 0 if there are none, or BROKEN.
    """
    span, sought, bounds = ranged.span, room.sought, room.folds.bounds
    sought[m] = high
    for c in range(m):
        bounds[c, 0] = sought[c]
    bounds[m, 0] = low
    end = step_beyond(sought, m + 1)
    for c in range(end):
        bounds[c, 1] = sought[c]
    for c in range(m):
        sought[c] = bounds[c, 0]
    tree = tree_at(ranged.pages, ranged.queues.trees[span[MEASURED]], 0)
    folds = (span[FIRST_FOLD], span[END_FOLD])
    return fold_records(tree, ranged.queues, span[QUEUE], folds, m + 1, end, room.folds)


@kernel
def fold_records(tree, queues, group, span, low, high, room):
    """Fold the records of a tree, the first of its group, between the first `low` and `high` words
    of room.bounds.

    Returns 1, 0 if there are none, or BROKEN; the words are in room.out.
    """
    scans = queues.scans[queues.queues[group, SCANS] : queues.queues[group, SCANS_END]]
    folds, bounds = FoldWords(scans, span[0], span[1]), Bounds(room.bounds, low, high)
    status = fold_intervals_at(room.fold, tree, folds, bounds, room.out, room.full, room.work)
    return BROKEN if status < 0 else room.full[0]


@kernel
def sum_of_parts(ranged: Ranged, room: RangeRoom, low: int, high: int):
    """Return the result for the group room.sought of what is added up in its range, place by
    place.
    """
    span, sought, group, place = ranged.span, room.sought, ranged.span[GROUP], WORD_MIN
    tree, out = tree_at(ranged.pages, ranged.queues.trees[span[MEASURED]], 0), room.folds.out
    cursor = room.cursors[CURSOR_WORDS:]
    begin_sum(room.sums)
    while True:
        sought[group] = place
        found = seek(tree, sought, group + 1, room.cursors, CURSOR_WORDS)
        if found <= 0:
            break
        page, slot, same = cursor[LEAF_PAGE], cursor[LEAF_SLOT], True
        for c in range(group):
            same &= field(tree.pages.words, page, c, slot) == sought[c]
        if not same:
            break
        sought[group] = place = field(tree.pages.words, page, group, slot)
        wanted = place < SQUARES or span[KIND] >= VARIANCE
        wanted = wanted or (span[KIND] == MEAN and place == COUNTED)
        full = fold_between(ranged, room, group + 1, low, high) if wanted else 0
        if full < 0 or (full > 0 and out[1, 0] != out[0, 0] >> 63):
            return BROKEN, 0
        if full > 0 and not add_part_of(room.sums, span[KIND], place, out[0, 0]):
            return BROKEN, 0
        place += 1
    if found < 0:
        return BROKEN, 0
    rounding = Rounding(span[KIND], span[FLOATS], span[UNIT_LOW], span[UNIT_HIGH])
    found, word = rounded(room.sums, rounding)
    if span[KIND] == SUM and not span[LEAST] <= word <= span[GREATEST]:
        return BROKEN, 0
    return found, word


# -- points and their edits


@kernel
def is_there(ranged: Ranged, room: RangeRoom, action: int, rows: Table, i: int):
    """Take the point of row i of the changes of points; return whether it exists now, or BROKEN."""
    span, lead = ranged.span, ranged.span[GROUP] + 1
    for c in range(span[WIDTH] if span[WHOLE] else lead):
        room.point[c] = rows[c, i]
    if span[WHOLE]:
        return 1 if action == INSERT else 0
    tree, o = tree_at(ranged.pages, ranged.queues.trees[span[POINTS]], 0), CURSOR_WORDS
    found = seek(tree, room.point, lead, room.cursors, o)
    if found != 1:
        return found
    for c in range(lead):
        page, slot = room.cursors[o + LEAF_PAGE], room.cursors[o + LEAF_SLOT]
        if field(tree.pages.words, page, c, slot) != room.point[c]:
            return 0
    return 1


@kernel
def edit(ranged: Ranged, point: Words, action: int, word: int):
    """Queue an edit of a point's row; return whether there is room."""
    queues = ranged.queues
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
def is_computed(ranged: Ranged, point: Words, begin: int):
    """Return whether a point's row is among the edits of the queue from `begin` on."""
    queues = ranged.queues
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
def shifted(word: int, by: int, is_open: int, otherwise: int):
    """Return word + by, clamped to 64 bits, and -1 or 1 if it was clamped; (`otherwise`, 0) for
    an open end.
    """
    if is_open:
        return otherwise, 0
    if by >= 0 and word > WORD_MAX - by:
        return WORD_MAX, 1
    if by < 0 and word < WORD_MIN - by:
        return WORD_MIN, -1
    return word + by, 0


@inlined
def step_beyond(prefix: Words, m: int):
    """Make of prefix[:m] the least prefix beyond all records that begin with it; return its
    length, 0 for none.
    """
    while m and prefix[m - 1] == WORD_MAX:
        m -= 1
    if m:
        prefix[m - 1] += 1
    return m


@kernel
def count_before(keys: Table, probes: Table, past: int, out: Words):
    """Set out[n] to how many of the ascending keys[m, N] are below each of the ascending
    probes[m, n], or if `past` up to it.  O(n log(N / n)).
    """
    at, end = 0, keys.shape[1]
    for i in range(probes.shape[1]):
        step, doubles = 1, True
        while step:
            if at + step <= end and is_before(keys, at + step - 1, probes, i, past):
                at += step
                step = 2 * step if doubles else step // 2
            else:
                step, doubles = step // 2, False
        out[i] = at


@inlined
def is_before(keys: Table, k: int, probes: Table, i: int, past: int):
    """Return whether a key is below a probe, or if `past` up to it."""
    for c in range(keys.shape[0]):
        if keys[c, k] != probes[c, i]:
            return keys[c, k] < probes[c, i]
    return past != 0
