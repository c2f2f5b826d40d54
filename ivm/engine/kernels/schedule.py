"""Apply a few edits and maintain everything that depends on them, in one call.

    queue of edge ──flush──▶ edge, its index ──probe──▶ bindings that go and come ──copy──▶ queue of triangle ──flush──▶

    steps       FLUSH edge      FOLLOW plan 0       FLUSH triangle          + (3, 5) goes into edge;
    queues      edge: 1 edit    edge: none          triangle: 2 edits       plan 0 finds two triangles with it

The steps of a schedule alternate: the queue of a group of trees (a relation, its permuted indices) is flushed; a plan
whose relations changed is probed, and the bindings found go into the queues of its heads. A step that fails or finds
too many bindings is left to Python, and so are all later steps.

A plan that scans a relation needs no probe: SCAN finds the changed rows that its conditions let pass, for one plan
after the other, and these are its bindings.

A view of the first or last records of ranges is followed by seeks (RANGED, ranges.py). Whether the keys of a function
have one value is only counted (CHECK): a transaction in which they do not is refused as a whole.

A view of least values has a state, whose queue is flushed first; FOLD then seeks the first record of each group that
changed there:

    queue of state of least ──flush──▶ (7, 3; 1) (7, 5; 2) ──fold──▶ queue of least  + (7; 3) ──flush──▶

Groups of arguments of the kernel that takes the steps of a schedule (see pagestore/runtime/types.py).
"""

from typing import NamedTuple

from ivm.engine.kernels.ranges import BROKEN, Ranged, RangeRoom, follow_range
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
    SET,
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
STOPPED = -1  # a recursion that cannot be followed in the room that there is
KIND, OF = range(2)
# columns of `plans`: the spans of its probes, of the trees that they read, of those whose changes they begin with, and
# of its heads; how many columns a binding has; its conditions, of bindings or of the rows of a relation that it scans
PROBES, PROBES_END, INDICES, INDICES_END, SOURCES, SOURCES_END, HEADS, HEADS_END, COLUMNS, CONDITIONS = range(10)
# columns of `heads`: its group, what a binding does there, which columns of it are copied
GROUP, HOW, COPIED, COPIED_END = range(4)
# a binding is a row, or is counted; its last column is added up, or is complemented, so that the greatest is the first
ROWS, COUNTED, SUMMED, FALLING = range(4)
# columns of `folds`: the tree of the state, the words of a group's key in it, whether values are complemented, and the
# group of the view
STATE, KEY_WORDS, COMPLEMENTED, VIEW = range(4)
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
        working.operations[:] = 0
        working.recursion[:] = 0
        working.gains[:] = 0
        working.conflicts[0] = 0
    for s in range(begin, schedule.steps.shape[0]):
        of = schedule.steps[s, OF]
        if schedule.steps[s, KIND] == FLUSH:
            if queues.waits[of] and not flush_queue(pages, accounts, queues, room, apply, of):
                return s
        elif schedule.steps[s, KIND] == SCAN:
            if not scan(queues, schedule, working, of):
                return s
        elif schedule.steps[s, KIND] == FOLD:
            if not fold(pages, queues, schedule, working, of):
                return s
        elif schedule.steps[s, KIND] == RECUR:
            composing = Composing(room.reordering.order, room.reordering.fresh, composed)
            flushing = Flushing(accounts, queues, room, apply)
            if not recur(pages, flushing, schedule, working, Probing(run, found, composing, probe), of):
                return s
        elif schedule.steps[s, KIND] == RANGED:
            ranged = Ranged(pages, working.before, queues.trees, schedule.ranges[of], schedule.copies)
            n = follow_range(ranged, queues, working.ranges)
            if n == BROKEN:
                return s
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
        total += count
    for s in range(working.recursion.shape[0]):
        total += working.recursion[s, 0]
    return total <= EXCESS_FREE


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
    if not changed(plan, schedule.sources, queues.tallies, deltas, some):
        return True
    indices = plan[INDICES_END] - plan[INDICES]
    trees = working.versions[: 6 * indices].reshape((2, indices, 3))
    place(plan, schedule.indices, working.before, trees[0])
    place(plan, schedule.indices, queues.trees, trees[1])
    table = ProbeTable(schedule.static, schedule.probes[plan[PROBES] : plan[PROBES_END]], plan[COLUMNS])
    branches = Branches(deltas.reshape(deltas.size), some, working.actions)
    composing = Composing(room.reordering.order, room.reordering.fresh, composed)
    run.progress[:] = 0
    n = probe_next_at(probe, pages, table, trees, branches, run, found, composing)
    if n < 0 or not run.progress[COMPOSED] or not queue(plan, schedule, n, composed, queues):
        return False
    working.operations[p] = run.progress[OPERATIONS]
    return True


@kernel
def scan(queues, schedule, working, p):
    """Queue the changes of a relation that plan p lets pass; if they are too many, queue nothing and return False."""
    plan, t = schedule.plans[p], schedule.sources[schedule.plans[p, SOURCES]]
    n, actions, rows = queues.tallies[t, CHANGES], queues.deltas[t, 0], queues.deltas[t, 1:]
    working.operations[p] = n
    if not has_room(plan, schedule, n, rows, queues):
        return False
    for i in range(n):
        if not holds(schedule.conditions, plan[CONDITIONS], rows, i):
            continue
        for h in range(plan[HEADS], plan[HEADS_END]):
            put(schedule.heads[h], schedule.copies, rows, i, actions[i], queues)
    return True


@kernel
def fold(pages, queues, schedule, working, f):
    """Queue the first value of each group that changed in a state, or the erasure of a group that has none.

    Returns False, queueing nothing, if they are too many or a page is corrupt.
    """
    t, keys, view = schedule.folds[f, STATE], schedule.folds[f, KEY_WORDS], schedule.folds[f, VIEW]
    edits, at, rows, n = queues.waiting[view], queues.waits[view], queues.deltas[t, 1:], queues.tallies[t, CHANGES]
    tree, key, cursor = tree_at(pages, queues.trees[t], 0), working.key, working.cursor
    if at + n > edits.shape[1]:
        return False
    for i in range(n):
        if i > 0 and is_prefix(rows, i, key, keys):
            continue
        for c in range(keys):
            key[c] = edits[1 + c, at] = rows[c, i]
        found = seek(tree, key, keys, cursor, 0)
        if found < 0:
            return False
        page, slot, there = cursor[LEAF_PAGE], cursor[LEAF_SLOT], found == 1
        for c in range(keys if there else 0):
            there &= field(pages.words, page, c, slot) == key[c]
        value = field(pages.words, page, keys, slot) if there else 0
        edits[0, at] = SET if there else ERASE
        edits[1 + keys, at] = ~value if there and schedule.folds[f, COMPLEMENTED] else value
        at += 1
    queues.waits[view] = at
    return True


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
def is_prefix(rows, i, key, keys):
    """Return whether row i begins with a key."""
    for c in range(keys):
        if rows[c, i] != key[c]:
            return False
    return True


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
def changed(plan, sources, tallies, deltas, spans):
    """Find the branches that a plan is probed with; return how many there are."""
    total, tree_words, stride = 0, deltas.shape[1] * deltas.shape[2], deltas.shape[2]
    for i in range(plan[SOURCES], plan[SOURCES_END]):
        span, t = spans[i - plan[SOURCES]], sources[i]
        span[0], span[1], span[2] = t * tree_words, tallies[t, CHANGES], stride
        total += span[1]
    return total


@kernel
def place(plan, indices, trees, version):
    """Copy root, height and keys of the trees that a plan reads, in the order of its indices."""
    for i in range(version.shape[0]):
        tree = trees[indices[plan[INDICES] + i]]
        version[i, ROOT], version[i, HEIGHT], version[i, KEYS] = tree[ROOT], tree[HEIGHT], tree[KEYS]


@kernel
def queue(plan, schedule, n, found, queues):
    """Queue n bindings as edits of a plan's heads; if they are too many, queue nothing and return False."""
    if not has_room(plan, schedule, n, found.bindings, queues):
        return False
    for h in range(plan[HEADS], plan[HEADS_END]):
        for i in range(n):
            if holds(schedule.conditions, plan[CONDITIONS], found.bindings, i):
                put(schedule.heads[h], schedule.copies, found.bindings, i, found.signs[i], queues)
    return True


@kernel
def has_room(plan, schedule, n, bindings, queues):
    """Return whether the heads of a plan can take n bindings: there is room, and each value to add has a negative."""
    heads = schedule.heads
    for h in range(plan[HEADS], plan[HEADS_END]):
        if queues.waits[heads[h, GROUP]] + n * (plan[HEADS_END] - plan[HEADS]) > queues.waiting.shape[2]:
            return False
        if heads[h, HOW] == SUMMED:
            values = bindings[schedule.copies[heads[h, COPIED_END] - 1]]
            for i in range(n):
                if values[i] == WORD_MIN:
                    return False
    return True


@kernel
def put(head, copies, bindings, i, action, queues):
    """Queue what binding i does in a head when it appears (INSERT) or disappears."""
    edits, at, width = queues.waiting[head[GROUP]], queues.waits[head[GROUP]], head[COPIED_END] - head[COPIED]
    for c in range(width):
        edits[1 + c, at] = bindings[copies[head[COPIED] + c], i]
    edits[0, at] = action
    if head[HOW] != ROWS:
        edits[0, at] = ADD
        edits[1 + width, at] = 1 if action == INSERT else -1
    if head[HOW] == SUMMED and action != INSERT:
        edits[width, at] = -edits[width, at]
    if head[HOW] == FALLING:
        edits[width, at] = ~edits[width, at]
    queues.waits[head[GROUP]] = at + 1


class ScheduleTable(NamedTuple):
    """The steps of a schedule and the tables they refer to; schedule.py names the columns of each table.

    steps[S, 2], plans[P, 10] and heads[H, 4] refer to spans of the other arrays: probes[Q, PROBE] and the words
    `static` are those of all plans, indices and sources are numbers of trees, copies are columns of bindings,
    folds[F, 4] are views with a state, ranges[R, RANGE] views of ranges (ranges.py), functions[F, 2] those that are
    checked, and conditions are those of plans.
    """

    static: Words
    steps: Table
    plans: Table
    probes: Table
    indices: Words
    sources: Words
    heads: Table
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
