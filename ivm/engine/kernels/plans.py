"""Follow plans, as steps of a schedule (schedule.py), and make edits of heads of the bindings that
go and come.

A plan with probes begins with the branches that its relations gained and lost. One that scans a
relation needs none: the changed rows that its conditions let pass are its bindings. Where a plan
begins with a part of a key, the branches are found that a change makes or removes. Bindings get the
columns that heads and filters compute (terms.py), and if one fails, the step is left.

A plan without probes is matched with its sensitivity indices, which are trees with queues, too. The
step replaces the intervals that were hit; if there are not enough pages for that, it leaves all
indices as they were.

Groups of arguments of the kernel that takes the steps of a schedule (see
pagestore/runtime/types.py).
"""

from typing import NamedTuple

from ivm.engine.kernels.terms import compute
from ivm.views.kernels.exact_sums import BROKEN, PARTS_MAX, cut
from ivm.ways.kernels.match import (
    HITS,
    INDEX_GROUP,
    INDEX_TREE,
    REGIONS,
    SHORT,
    Matched,
    MatchRoom,
    match_at,
)
from ivm.ways.kernels.match import OPERATIONS as MATCH_OPERATIONS
from ivm.ways.kernels.probe import (
    COMPOSED,
    OPERATIONS,
    Branches,
    Composing,
    Found,
    ProbeTable,
    probe_next_at,
)
from ivm.ways.kernels.ranges import RangeRoom
from ivm.ways.kernels.reach import Conditions, holds
from ivm.ways.kernels.states import StateRoom, is_prefix
from ivm.ways.recursion.kernels.facts import FactsRoom, Strata
from pagestore.compiled import (
    ADD,
    CHANGES,
    ERASE,
    HEIGHT,
    INSERT,
    KEYS,
    LEAF_PAGE,
    LEAF_SLOT,
    ROOT,
    TAKEN,
    WORD_MIN,
    FlushRoom,
    PageAccounts,
    Pages,
    Queues,
    Table,
    Tables,
    Words,
    field,
    flush_queue,
    kernel,
    seek,
    tree_at,
)

# columns of `plans`: where its rows of other tables begin and end, which are its probes (of a
# matched plan, its words in `static`), the trees that it reads, those whose changes it begins with,
# its heads, the terms that it computes, and its sensors; how many columns of a binding, or of a row
# that it scans, are read; its conditions, of these columns
(
    PROBES, PROBES_END, INDICES, INDICES_END, SOURCES, SOURCES_END, HEADS, HEADS_END, TERMS,
    TERMS_END, SENSED, SENSED_END, COLUMNS, CONDITIONS,
) = range(14)  # fmt: skip
# columns of `sources`: a tree, and of how many words of its keys a branch is; 0 for a whole key
TREE, DEPTH = range(2)
# columns of `heads`: its group, what a binding does there, which columns of it are copied, how a
# number is cut
GROUP, HOW, COPIED, COPIED_END, CUT = range(5)
NOTHING, PLACE = -1, -2  # columns that are not copied: a zero, and the place of a part
# a binding is a row, or is counted; its last column is added up, or is complemented, so that the
# greatest is the first, or is cut into parts, each of which is added up
ROWS, COUNTED, SUMMED, FALLING, PARTED = range(5)
# rows; a relation with more changes may make it cheaper to evaluate a view anew, which Python
# decides
LARGE = 64


class ScheduleTable(NamedTuple):
    """The steps of a schedule and the tables they refer to; schedule.py names the columns of each
    table.

    steps[S, 2], plans[P, 14] and heads[H, 5] refer to spans of the other arrays: probes[Q, PROBE]
    and the words `static` are those of all plans, indices are numbers of trees, sources[B, 2] those
    with changes, sensed[N, 2] groups and trees of sensitivity indices, terms[T, TERM] what is
    computed (terms.py), copies are columns of bindings, folds[F, FOLD] are views with a state
    (states.py), ranges[R, RANGE] views of ranges (ranges.py), functions[F, 2] those that are
    checked, and conditions are those of plans.
    """

    static: Words
    steps: Table
    plans: Table
    probes: Table
    indices: Words
    sources: Table
    heads: Table
    terms: Table
    sensed: Table
    copies: Words
    folds: Table
    conditions: Conditions
    ranges: Table
    functions: Table
    strata: Strata


class ScheduleRoom(NamedTuple):
    """Working memory of a schedule: the trees before its first step, and the old and new trees that
    a plan reads.

    before[T, TREE_WORDS] are rows of trees, versions the words (root, height, keys) of a plan's
    trees in either version, spans[B, 3] and actions[2] as for `probe_next`; operations[P + R] count
    those of each plan and range, hits[P] the intervals that were hit, and `matching` is as for
    `match`. key[K] and cursor[CURSOR_WORDS] are of a look-up, conflicts[1] counts keys with two
    values.

    For recursive strata: recursion[S, 3] count operations, rounds and facts examined, gains[T] the
    records that trees gained, `taken` the pages taken before; the others are what `maintain` takes,
    and its address.
    """

    before: Table
    versions: Words
    spans: Table
    actions: Words
    operations: Words
    hits: Words
    matching: MatchRoom
    key: Words
    cursor: Words
    conflicts: Words
    ranges: RangeRoom
    states: StateRoom
    recursion: Table
    facts: FactsRoom
    recursive_spans: Table
    placed: Words
    gains: Words
    taken: Words
    maintain: int


class Flushing(NamedTuple):
    """What `flush_queue` takes except the number of a queue."""

    accounts: PageAccounts
    queues: Queues
    room: FlushRoom
    apply: int


@kernel
def follow(pages, queues, room, schedule, working, run, found, composed, probe, p):
    """Probe plan p with the changes of its relations, and queue the bindings found; False if
    Python has to do it.
    """
    plan, deltas = schedule.plans[p], queues.deltas
    some = working.spans[: plan[SOURCES_END] - plan[SOURCES]]
    total = changed(pages, plan, schedule.sources, queues, working, some)
    if total <= 0:
        return total == 0
    indices = plan[INDICES_END] - plan[INDICES]
    trees = working.versions[: 6 * indices].reshape((2, indices, 3))
    place(plan, schedule.indices, working.before, queues.trees, trees)
    table = ProbeTable(
        schedule.static, schedule.probes[plan[PROBES] : plan[PROBES_END]], plan[COLUMNS]
    )
    branches = Branches(deltas.reshape(deltas.size), some, working.actions)
    composing = Composing(room.reordering.order, room.reordering.fresh, composed)
    run.progress[:] = 0
    n = probe_next_at(probe, pages, table, trees, branches, run, found, composing)
    if n < 0 or not run.progress[COMPOSED]:
        return False
    n = gather(plan, schedule, 0, n, composed.signs, composed.bindings, composed)
    if n < 0 or not queue(plan, schedule, n, composed, queues, working.states.sums.parts):
        return False
    working.operations[p] = run.progress[OPERATIONS]
    return True


@kernel
def match(pages, flushing, schedule, working, probing, p):
    """Match the changes of plan p's relations, renew its sensitivity indices, and queue the
    bindings found.

    False if Python has to do it: then nothing has changed.
    """
    plan = schedule.plans[p]
    queues = flushing.queues
    composed = probing.composing.found
    room = working.matching
    some = working.spans[: plan[SOURCES_END] - plan[SOURCES]]
    room.tally[SHORT] = 0
    if has_large(plan, schedule.sources, queues):
        return False
    total = changed(pages, plan, schedule.sources, queues, working, some)
    if total <= 0:
        return total == 0
    indices = plan[INDICES_END] - plan[INDICES]
    trees = working.versions[: 6 * indices].reshape((2, indices, 3))
    place(plan, schedule.indices, working.before, queues.trees, trees)
    words = schedule.static[plan[PROBES] : plan[PROBES_END]]
    sensed = schedule.sensed[plan[SENSED] : plan[SENSED_END]]
    branches = Branches(queues.deltas.reshape(queues.deltas.size), some, working.actions)
    matched = Matched(words, sensed, queues.trees)
    n = match_at(
        room.match,
        pages,
        matched,
        trees,
        branches,
        room,
        probing.run,
        probing.found,
        probing.composing,
    )
    if n < 0 or room.tally[REGIONS] == 0:
        return n == 0
    n = gather(plan, schedule, 0, n, composed.signs, composed.bindings, composed)
    if n < 0 or not has_room(
        plan, schedule, n, composed.bindings, queues, working.states.sums.parts
    ):
        return False
    if not renew(pages, flushing, working, sensed):
        return False
    working.operations[p], working.hits[p] = room.tally[MATCH_OPERATIONS], room.tally[HITS]
    return queue(plan, schedule, n, composed, queues, working.states.sums.parts)


@kernel
def scan(pages, queues, schedule, working, found, p):
    """Queue the changes of a relation that plan p lets pass; if they are too many, queue nothing
    and return False.
    """
    plan = schedule.plans[p]
    source = schedule.sources[plan[SOURCES]]
    t, begin, n = source[TREE], 0, queues.tallies[source[TREE], CHANGES]
    if source[DEPTH] and n:
        begin, n = n, branches_of(pages, queues, working, t, source[DEPTH], n)
    if n < 0 or n > found.signs.shape[0]:
        return False
    reached = n if source[DEPTH] else reaches(plan, schedule, n, queues.deltas[t, 1:])
    if not reached:
        return True
    working.operations[p] = queues.tallies[t, CHANGES]
    n = gather(plan, schedule, begin, n, queues.deltas[t, 0], queues.deltas[t, 1:], found)
    return n >= 0 and queue(plan, schedule, n, found, queues, working.states.sums.parts)


@kernel
def has_large(plan: Words, sources: Table, queues: Queues):
    """Return whether a relation of a plan has so many changes that Python decides how they are
    followed.
    """
    for i in range(plan[SOURCES], plan[SOURCES_END]):
        if queues.tallies[sources[i, TREE], CHANGES] > LARGE:
            return True
    return False


@kernel
def reaches(plan: Words, schedule: ScheduleTable, n: int, rows: Table):
    """Return 1 if any of n rows passes a plan's conditions, else 0."""
    for i in range(n):
        if holds(schedule.conditions, plan[CONDITIONS], rows, i):
            return 1
    return 0


@kernel
def changed(
    pages: Pages, plan: Words, sources: Table, queues: Queues, working: ScheduleRoom, spans: Table
):
    """Find the branches that a plan is probed with; return how many, or BROKEN for too many or a
    corrupt page.
    """
    deltas, total = queues.deltas, 0
    stride = deltas.shape[2]
    for i in range(plan[SOURCES], plan[SOURCES_END]):
        span, t = spans[i - plan[SOURCES]], sources[i, TREE]
        n, begin = queues.tallies[t, CHANGES], 0
        if sources[i, DEPTH] and n:
            begin = n * (1 + i - plan[SOURCES])
            n = branches_of(pages, queues, working, t, sources[i, DEPTH], begin)
            if n < 0:
                return BROKEN
        span[0], span[1], span[2] = t * deltas.shape[1] * stride + begin, n, stride
        total += n
    return total


@kernel
def branches_of(
    pages: Pages, queues: Queues, working: ScheduleRoom, t: int, depth: int, begin: int
):
    """Find the branches of a depth that the changes of tree t make or remove, and write them after
    these, from `begin`.

    Returns how many, or BROKEN for too many or a corrupt page.
    """
    actions = queues.deltas[t, 0]
    rows = queues.deltas[t, 1:]
    n = queues.tallies[t, CHANGES]
    key = working.key
    if begin + n > actions.shape[0]:
        return BROKEN
    found = 0
    for i in range(n):
        if i > 0 and is_prefix(rows, i, key, depth):
            continue
        for c in range(depth):
            key[c] = rows[c, i]
        old = has(pages, working.before[t], key, depth, working.cursor)
        new = has(pages, queues.trees[t], key, depth, working.cursor)
        if old < 0 or new < 0:
            return BROKEN
        if old != new:
            actions[begin + found] = INSERT if new else ERASE
            for c in range(depth):
                rows[c, begin + found] = key[c]
            found += 1
    return found


@kernel
def has(pages: Pages, words: Words, key: Words, m: int, cursor: Words):
    """Return whether a tree, given by its words, has records that begin with key[:m]; BROKEN for
    a corrupt page.
    """
    found = seek(tree_at(pages, words, 0), key, m, cursor, 0)
    if found <= 0:
        return BROKEN if found else 0
    for c in range(m):
        if field(pages.words, cursor[LEAF_PAGE], c, cursor[LEAF_SLOT]) != key[c]:
            return 0
    return 1


@kernel
def place(plan: Words, indices: Words, old: Table, new: Table, versions: Tables):
    """Copy root, height and keys of the trees that a plan reads, in the order of its indices, to
    versions[2, I, 3].
    """
    for i in range(versions.shape[1]):
        of = indices[plan[INDICES] + i]
        for v, tree in enumerate((old[of], new[of])):
            versions[v, i, ROOT] = tree[ROOT]
            versions[v, i, HEIGHT] = tree[HEIGHT]
            versions[v, i, KEYS] = tree[KEYS]


@kernel
def gather(plan, schedule, begin, n, signs, rows, found):
    """Copy those of n bindings, from `begin` on, that pass a plan's conditions to `found`, with
    what the plan computes.

    Returns how many, or BROKEN if something cannot be computed.
    """
    left = 0
    for i in range(begin, begin + n):
        if not holds(schedule.conditions, plan[CONDITIONS], rows, i):
            continue
        found.signs[left] = signs[i]
        for c in range(plan[COLUMNS]):
            found.bindings[c, left] = rows[c, i]
        passes = compute(schedule.terms, plan[TERMS], plan[TERMS_END], found.bindings, left)
        if passes < 0:
            return BROKEN
        left += passes
    return left


@kernel
def queue(plan: Words, schedule: ScheduleTable, n: int, found: Found, queues: Queues, parts: Words):
    """Queue n bindings as edits of a plan's heads; if they are too many, queue nothing and return
    False.

    A row may go and come if only a value has changed that it does not show: it goes first.
    """
    if not has_room(plan, schedule, n, found.bindings, queues, parts):
        return False
    for h in range(plan[HEADS], plan[HEADS_END]):
        for side in range(2):
            action = INSERT if side else ERASE
            for i in range(n):
                if found.signs[i] == action:
                    put(
                        schedule.heads[h], schedule.copies, found.bindings, i, action, queues, parts
                    )
    return True


@kernel
def has_room(
    plan: Words, schedule: ScheduleTable, n: int, bindings: Table, queues: Queues, parts: Words
):
    """Return whether the heads of a plan can take n bindings: there is room, and each value to
    add has a negative.
    """
    heads = schedule.heads
    for h in range(plan[HEADS], plan[HEADS_END]):
        most = n * (plan[HEADS_END] - plan[HEADS]) * (PARTS_MAX if heads[h, HOW] == PARTED else 1)
        if queues.waits[heads[h, GROUP]] + most > queues.waiting.shape[2]:
            return False
        if heads[h, HOW] == SUMMED or heads[h, HOW] == PARTED:
            values = bindings[schedule.copies[heads[h, COPIED_END] - 1]]
            for i in range(n):
                if heads[h, HOW] == SUMMED and values[i] == WORD_MIN:
                    return False
                if heads[h, HOW] == PARTED and cut(values[i], heads[h, CUT], parts) < 0:
                    return False
    return True


@kernel
def put(
    head: Words, copies: Words, bindings: Table, i: int, action: int, queues: Queues, parts: Words
):
    """Queue what binding i does in a head when it appears (INSERT) or disappears."""
    g, width, weight = head[GROUP], head[COPIED_END] - head[COPIED], 1 if action == INSERT else -1
    edits, at = queues.waiting[g], queues.waits[g]
    many = 1
    if head[HOW] == PARTED:
        many, width = cut(bindings[copies[head[COPIED_END] - 1], i], head[CUT], parts), width - 1
    for k in range(many):
        for c in range(width):
            column = copies[head[COPIED] + c]
            edits[1 + c, at] = (
                bindings[column, i] if column >= 0 else parts[2 * k] if column == PLACE else 0
            )
        edits[0, at] = ADD
        if head[HOW] == PARTED:
            edits[1 + width, at], edits[2 + width, at] = weight * parts[2 * k + 1], weight
        elif head[HOW] == ROWS:
            edits[0, at] = action
        else:
            edits[1 + width, at] = weight
            if head[HOW] == SUMMED:
                edits[width, at] *= weight
            elif head[HOW] == FALLING:
                edits[width, at] = ~edits[width, at]
        at += 1
    queues.waits[g] = at


@kernel
def renew(pages: Pages, flushing: Flushing, working: ScheduleRoom, sensed: Table):
    """Erase the intervals that were hit, and insert those recorded; if that is impossible, undo
    it and return False.
    """
    accounts, queues, room, apply = flushing
    matching = working.matching
    for s in range(sensed.shape[0]):
        if matching.hit[s] + matching.new[s] > queues.waiting.shape[2]:
            return False
    for word in range(TAKEN):
        working.taken[word] = accounts.taken[word]
    for s in range(sensed.shape[0]):
        g = sensed[s, INDEX_GROUP]
        put_intervals(queues, g, ERASE, matching.hits[s], matching.hit[s])
        put_intervals(queues, g, INSERT, matching.recorded[s], matching.new[s])
        if queues.waits[g] and not flush_queue(pages, accounts, queues, room, apply, g):
            matching.tally[SHORT] = 1
            break
    if matching.tally[SHORT]:
        give_back(accounts, working)
        for s in range(sensed.shape[0]):
            queues.waits[sensed[s, INDEX_GROUP]] = 0
            put_back(queues, working, sensed[s, INDEX_TREE])
    return matching.tally[SHORT] == 0


@kernel
def put_intervals(queues: Queues, g: int, action: int, rows: Table, n: int):
    """Queue n intervals, rows[C, n], of a sensitivity index."""
    edits, at = queues.waiting[g], queues.waits[g]
    for i in range(n):
        edits[0, at + i] = action
    for c in range(min(rows.shape[0], edits.shape[0] - 1)):
        for i in range(n):
            edits[1 + c, at + i] = rows[c, i]
    queues.waits[g] = at + n


@kernel
def give_back(accounts: PageAccounts, working: ScheduleRoom):
    """Free the pages that were written since their numbers were copied to `working.taken`."""
    for word in range(TAKEN):
        accounts.taken[word] = working.taken[word]


@kernel
def put_back(queues: Queues, working: ScheduleRoom, t: int):
    """Make tree t what it was before the first step."""
    tree, before = queues.trees[t], working.before[t]
    tree[ROOT], tree[HEIGHT] = before[ROOT], before[HEIGHT]
    queues.tallies[t, :] = 0
    working.gains[t] = 0
