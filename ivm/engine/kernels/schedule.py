"""Apply a few edits and maintain everything that depends on them, in one call.

    queue of edge ──flush──▶ edge, its index ──probe──▶ bindings that go and come ──copy──▶ queue of triangle ──flush──▶

    steps       FLUSH edge      FOLLOW plan 0       FLUSH triangle          + (3, 5) goes into edge;
    queues      edge: 1 edit    edge: none          triangle: 2 edits       plan 0 finds two triangles with it

The steps of a schedule alternate: the queue of a group of trees (a relation, its permuted indices) is flushed; a plan
whose relations changed is probed, and the bindings found go into the queues of its heads. A step that fails or finds
too many bindings is left to Python, and so are all later steps.

A plan that scans a relation needs no probe: SCAN finds the changed rows that its conditions let pass, for one plan
after the other, and these are its bindings. Where a plan begins with a part of a key, the branches are found that a
change makes or removes. Bindings get the columns that heads and filters compute (terms.py), and if one fails, the step
is left.

A view of the first or last records of ranges is followed by seeks (RANGED, ranges.py). Whether the keys of a function
have one value is only counted (CHECK): a transaction in which they do not is refused as a whole.

An aggregate may have a state, whose queue is flushed first; FOLD then computes the rows of the groups that changed in
it (states.py):

    queue of state of least ──flush──▶ (7, 3; 1) (7, 5; 2) ──fold──▶ queue of least  + (7; 3) ──flush──▶

Groups of arguments of the kernel that takes the steps of a schedule (see pagestore/runtime/types.py).
"""

from typing import NamedTuple

from ivm.engine.kernels.numbers import BROKEN, PARTS_MAX, cut
from ivm.engine.kernels.ranges import MEASURED, POINTS, Ranged, RangeRoom, follow_range
from ivm.engine.kernels.states import StateRoom, States, follow_state, is_prefix
from ivm.engine.kernels.terms import compute
from ivm.engine.recursion.kernels.facts import (
    DONE,
    EXAMINED,
    IN_ROUNDS,
    ROUNDS,
    VIEW_QUEUE,
    VIEW_TREE,
    VIEW_TREES_END,
    VIEWS,
    VIEWS_END,
    WORK,
    WRITE,
    FactsRoom,
    Strata,
    StrataTrees,
    changed_sources,
    count_changes,
    note_changes,
    queue_facts,
    queue_fresh,
)
from ivm.engine.recursion.kernels.maintain import Probing, maintain_at
from ivm.maintenance.kernels.probe import COMPOSED, OPERATIONS, Branches, Composing, ProbeTable, probe_next_at
from ivm.maintenance.kernels.reach import Conditions, holds
from pagestore.compiled import (
    ADD,
    CHANGES,
    ERASE,
    GAIN,
    HEIGHT,
    INSERT,
    KEYS,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    ROOT,
    TAKEN,
    WORD_MIN,
    FlushRoom,
    PageAccounts,
    Queues,
    Table,
    Words,
    field,
    finish_commit,
    flush_queue,
    kernel,
    next_leaf,
    seek,
    tree_at,
)

# columns of `steps`: its kind, and the number of its group, plan, fold, stratum, range or function
FLUSH, FOLLOW, SCAN, FOLD, RECUR, RANGED, CHECK = range(7)
UNTOUCHED = -1  # operations of a plan or a range that no change reached
STOPPED = -1  # a recursion that cannot be followed in the room that there is
KIND, OF = range(2)
# columns of `plans`: the spans of its probes, of the trees that they read, of those whose changes they begin with, and
# of its heads, and of the terms that it computes; how many columns of a binding, or of a row that it scans, are read;
# its conditions, of these columns
(
    PROBES, PROBES_END, INDICES, INDICES_END, SOURCES, SOURCES_END, HEADS, HEADS_END, TERMS, TERMS_END, COLUMNS,
    CONDITIONS,
) = range(12)  # fmt: skip
# columns of `sources`: a tree, and of how many words of its keys a branch is; 0 for a whole key
TREE, DEPTH = range(2)
# columns of `heads`: its group, what a binding does there, which columns of it are copied, how a number is cut
GROUP, HOW, COPIED, COPIED_END, CUT = range(5)
NOTHING, PLACE = -1, -2  # columns that are not copied: a zero, and the place of a part
# a binding is a row, or is counted; its last column is added up, or is complemented, so that the greatest is the first,
# or is cut into parts, each of which is added up
ROWS, COUNTED, SUMMED, FALLING, PARTED = range(5)
EXCESS_FREE = 50_000  # operations, some milliseconds: a plan that takes more may be made anew (replan.py)
# columns of `functions`: the tree of a view whose keys may get two values, and how many words a key has
FUNCTION, ARGUMENTS = range(2)


@kernel
def carry(begin, pages, accounts, queues, room, apply, schedule, working, run, found, composed, probe):
    """Run the steps of a schedule from step `begin` on; return how many are done, including those before `begin`.

    accounts, queues, room and apply are as for `flush_queue`, run and found as for `probe_next`, whose address is
    `probe`; `composed` is a buffer for the bindings that it sorts and composes. working.operations[P + R] count the
    iterator operations of each plan's probes, and the points computed for each range.
    """
    if begin == 0:
        remember(queues.trees, working.before)
        working.operations[:] = UNTOUCHED
        working.recursion[:] = 0
        working.gains[:] = 0
        working.conflicts[0] = 0
    for s in range(begin, schedule.steps.shape[0]):
        of = schedule.steps[s, OF]
        if schedule.steps[s, KIND] == FLUSH:
            if queues.waits[of] and not flush_queue(pages, accounts, queues, room, apply, of):
                return s
        elif schedule.steps[s, KIND] == SCAN:
            if not scan(pages, queues, schedule, working, composed, of):
                return s
        elif schedule.steps[s, KIND] == FOLD:
            if not follow_state(States(pages, queues, schedule.folds, schedule.copies, working.states), of):
                return s
        elif schedule.steps[s, KIND] == RECUR:
            composing = Composing(room.reordering.order, room.reordering.fresh, composed)
            flushing = Flushing(accounts, queues, room, apply)
            if not recur(pages, flushing, schedule, working, Probing(run, found, composing, probe), of):
                return s
        elif schedule.steps[s, KIND] == RANGED:
            ranged = Ranged(pages, working.before, queues, schedule.ranges[of], schedule.copies)
            n = follow_range(ranged, working.ranges)
            if n == BROKEN:
                return s
            if n > 0 or changes_of_range(queues, ranged.span):
                working.operations[schedule.plans.shape[0] + of] = n
        elif schedule.steps[s, KIND] == CHECK:
            working.conflicts[0] += count_conflicts(pages, queues, schedule, working, of)
        elif not follow(pages, queues, room, schedule, working, run, found, composed, probe, of):
            return s
    if is_cheap(working) and working.conflicts[0] == 0:
        finish_commit(pages, accounts, queues)
    return schedule.steps.shape[0]


@kernel
def is_cheap(working):
    """Return whether the plans took so few operations that none of them can be one that Python should plan anew."""
    total = 0
    for count in working.operations:
        total += max(count, 0)
    for s in range(working.recursion.shape[0]):
        total += working.recursion[s, 0]
    return total <= EXCESS_FREE


@kernel
def changes_of_range(queues, span):
    """Return whether the points or the measured records of a range have changed."""
    return queues.tallies[span[POINTS], CHANGES] > 0 or queues.tallies[span[MEASURED], CHANGES] > 0


@kernel
def remember(trees, before):
    """Copy the roots of trees to `before`, since they will change."""
    for t in range(trees.shape[0]):
        before[t, ROOT], before[t, HEIGHT], before[t, KEYS] = trees[t, ROOT], trees[t, HEIGHT], trees[t, KEYS]


@kernel
def follow(pages, queues, room, schedule, working, run, found, composed, probe, p):
    """Probe plan p with the changes of its relations, and queue the bindings found; False leaves it to Python."""
    plan, deltas = schedule.plans[p], queues.deltas
    some = working.spans[: plan[SOURCES_END] - plan[SOURCES]]
    total = changed(pages, plan, schedule.sources, queues, working, some)
    if total <= 0:
        return total == 0
    indices = plan[INDICES_END] - plan[INDICES]
    trees = working.versions[: 6 * indices].reshape((2, indices, 3))
    place(plan, schedule.indices, working.before, trees[0])
    place(plan, schedule.indices, queues.trees, trees[1])
    table = ProbeTable(schedule.static, schedule.probes[plan[PROBES] : plan[PROBES_END]], plan[COLUMNS])
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
def scan(pages, queues, schedule, working, found, p):
    """Queue the changes of a relation that plan p lets pass; if they are too many, queue nothing and return False."""
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
def reaches(plan, schedule, n, rows):
    """Return 1 if any of n rows passes a plan's conditions, else 0."""
    for i in range(n):
        if holds(schedule.conditions, plan[CONDITIONS], rows, i):
            return 1
    return 0


@kernel
def gather(plan, schedule, begin, n, signs, rows, found):
    """Copy those of n bindings, from `begin` on, that pass a plan's conditions to `found`, with what the plan computes.

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
def count_conflicts(pages, queues, schedule, working, f):
    """Return how many rows that function f gained have a key with another value, too, or are in a corrupt page."""
    t, keys = schedule.functions[f, FUNCTION], schedule.functions[f, ARGUMENTS]
    actions, rows, n = queues.deltas[t, 0], queues.deltas[t, 1:], 0
    tree, key, cursor = tree_at(pages, queues.trees[t], 0), working.key, working.cursor
    for i in range(queues.tallies[t, CHANGES]):
        if actions[i] != INSERT:
            continue
        for c in range(keys):
            key[c] = rows[c, i]
        found = seek(tree, key, keys, cursor, 0)
        if found == 1:
            cursor[LEAF_SLOT] += 1
            if cursor[LEAF_SLOT] == cursor[LEAF_ENTRIES]:
                found = next_leaf(tree, cursor, 0)
        same = found == 1
        for c in range(keys if same else 0):
            same &= field(pages.words, cursor[LEAF_PAGE], c, cursor[LEAF_SLOT]) == key[c]
        n += same or found < 0
    return n


@kernel
def recur(pages, flushing, schedule, working, probing, number):
    """Find out how a recursive stratum changes, and queue the edits of its views; False leaves it to Python."""
    strata, facts, queues = schedule.strata, working.facts, flushing.queues
    deltas, spans = queues.deltas, working.recursive_spans
    total = changed_sources(strata, number, queues.tallies, deltas, spans)
    if total <= 0:
        return total == 0
    changes = Branches(deltas.reshape(deltas.size), spans, working.actions)
    trees = StrataTrees(working.before, queues.trees, working.placed)
    facts.state[IN_ROUNDS] = 0
    for word in range(TAKEN):
        working.taken[word] = flushing.accounts.taken[word]
    status = maintain_at(working.maintain, pages, strata, trees, changes, facts, probing, number)
    writes = status == WRITE
    while status == WRITE:
        status = STOPPED
        if queue_fresh(strata, facts, queues) and flush_views(pages, flushing, working, strata, number):
            status = maintain_at(working.maintain, pages, strata, trees, changes, facts, probing, number)
    if status != DONE or not queue_facts(strata, facts, queues, number):
        undo(flushing, working, strata, number)
        return False
    if writes and not finish_views(pages, flushing, working, strata, number):
        undo(flushing, working, strata, number)
        return False
    done = working.recursion[number]
    done[0], done[1], done[2] = facts.state[WORK], facts.state[ROUNDS], facts.state[EXAMINED]
    return True


@kernel
def flush_views(pages, flushing, working, strata, number):
    """Flush the queues of a stratum's views between rounds, counting what their trees gain; return whether all were."""
    accounts, queues, room, apply = flushing
    for v in range(strata.strata[number, VIEWS], strata.strata[number, VIEWS_END]):
        g = strata.views[v, VIEW_QUEUE]
        if queues.waits[g]:
            if not flush_queue(pages, accounts, queues, room, apply, g):
                return False
            for t in range(strata.views[v, VIEW_TREE], strata.views[v, VIEW_TREES_END]):
                working.gains[t] += queues.tallies[t, GAIN]
    return True


@kernel
def finish_views(pages, flushing, working, strata, number):
    """Flush what is left of views that were written between rounds, and note all their changes together."""
    queues = flushing.queues
    for v in range(strata.strata[number, VIEWS], strata.strata[number, VIEWS_END]):
        if count_changes(strata, working.facts, v) > queues.waiting.shape[2]:
            return False
    if not flush_views(pages, flushing, working, strata, number):
        return False
    for v in range(strata.strata[number, VIEWS], strata.strata[number, VIEWS_END]):
        note_changes(strata, working.facts, queues, flushing.room.reordering, v)
        for t in range(strata.views[v, VIEW_TREE], strata.views[v, VIEW_TREES_END]):
            queues.tallies[t, GAIN] = working.gains[t]
    return True


@kernel
def undo(flushing, working, strata, number):
    """Let the trees of a stratum's views be what they were, and the pages written since then be free."""
    queues = flushing.queues
    for word in range(TAKEN):
        flushing.accounts.taken[word] = working.taken[word]
    for v in range(strata.strata[number, VIEWS], strata.strata[number, VIEWS_END]):
        queues.waits[strata.views[v, VIEW_QUEUE]] = 0
        for t in range(strata.views[v, VIEW_TREE], strata.views[v, VIEW_TREES_END]):
            tree, before = queues.trees[t], working.before[t]
            tree[ROOT], tree[HEIGHT] = before[ROOT], before[HEIGHT]
            queues.tallies[t, :] = 0
            working.gains[t] = 0


@kernel
def changed(pages, plan, sources, queues, working, spans):
    """Find the branches that a plan is probed with; return how many, or BROKEN for too many or a corrupt page."""
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
def branches_of(pages, queues, working, t, depth, begin):
    """Find the branches of a depth that the changes of tree t make or remove, and write them after these, from `begin`.

    Returns how many, or BROKEN for too many or a corrupt page.
    """
    actions, rows, n, key = queues.deltas[t, 0], queues.deltas[t, 1:], queues.tallies[t, CHANGES], working.key
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
def has(pages, words, key, m, cursor):
    """Return whether a tree, given by its words, has records that begin with key[:m]; BROKEN for a corrupt page."""
    found = seek(tree_at(pages, words, 0), key, m, cursor, 0)
    if found <= 0:
        return BROKEN if found else 0
    for c in range(m):
        if field(pages.words, cursor[LEAF_PAGE], c, cursor[LEAF_SLOT]) != key[c]:
            return 0
    return 1


@kernel
def place(plan, indices, trees, version):
    """Copy root, height and keys of the trees that a plan reads, in the order of its indices."""
    for i in range(version.shape[0]):
        tree = trees[indices[plan[INDICES] + i]]
        version[i, ROOT], version[i, HEIGHT], version[i, KEYS] = tree[ROOT], tree[HEIGHT], tree[KEYS]


@kernel
def queue(plan, schedule, n, found, queues, parts):
    """Queue n bindings as edits of a plan's heads; if they are too many, queue nothing and return False.

    A row may go and come if only a value has changed that it does not show: it goes first.
    """
    if not has_room(plan, schedule, n, found.bindings, queues, parts):
        return False
    for h in range(plan[HEADS], plan[HEADS_END]):
        for side in range(2):
            action = INSERT if side else ERASE
            for i in range(n):
                if found.signs[i] == action:
                    put(schedule.heads[h], schedule.copies, found.bindings, i, action, queues, parts)
    return True


@kernel
def has_room(plan, schedule, n, bindings, queues, parts):
    """Return whether the heads of a plan can take n bindings: there is room, and each value to add has a negative."""
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
def put(head, copies, bindings, i, action, queues, parts):
    """Queue what binding i does in a head when it appears (INSERT) or disappears."""
    g, width, weight = head[GROUP], head[COPIED_END] - head[COPIED], 1 if action == INSERT else -1
    edits, at = queues.waiting[g], queues.waits[g]
    many = 1
    if head[HOW] == PARTED:
        many, width = cut(bindings[copies[head[COPIED_END] - 1], i], head[CUT], parts), width - 1
    for k in range(many):
        for c in range(width):
            column = copies[head[COPIED] + c]
            edits[1 + c, at] = bindings[column, i] if column >= 0 else parts[2 * k] if column == PLACE else 0
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


class ScheduleTable(NamedTuple):
    """The steps of a schedule and the tables they refer to; schedule.py names the columns of each table.

    steps[S, 2], plans[P, 12] and heads[H, 5] refer to spans of the other arrays: probes[Q, PROBE] and the words
    `static` are those of all plans, indices are numbers of trees, sources[B, 2] those with changes, terms[T, TERM]
    what is computed (terms.py), copies are columns of bindings, folds[F, FOLD] are views with a state (states.py),
    ranges[R, RANGE] views of ranges (ranges.py), functions[F, 2] those that are checked, and conditions are those of
    plans.
    """

    static: Words
    steps: Table
    plans: Table
    probes: Table
    indices: Words
    sources: Table
    heads: Table
    terms: Table
    copies: Words
    folds: Table
    conditions: Conditions
    ranges: Table
    functions: Table
    strata: Strata


class ScheduleRoom(NamedTuple):
    """Working memory of a schedule: the trees before its first step, and the old and new trees that a plan reads.

    before[T, TREE_WORDS] are rows of trees, versions the words (root, height, keys) of a plan's trees in either
    version, spans[B, 3] and actions[2] as for `probe_next`; operations[P + R] count those of each plan and
    range. key[K] and cursor[CURSOR_WORDS] are of a look-up, conflicts[1] counts keys with two values.

    For recursive strata: recursion[S, 3] count operations, rounds and facts examined, gains[T] the records that trees
    gained, `taken` the pages taken before; the others are what `maintain` takes, and its address.
    """

    before: Table
    versions: Words
    spans: Table
    actions: Words
    operations: Words
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
