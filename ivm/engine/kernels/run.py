"""Apply a few edits and maintain everything that depends on them, in one call.

    queue of edge ──flush──▶ edge, its index ──probe──▶ bindings that go and come ──copy──▶ queue of
    triangle ──flush──▶

    steps       FLUSH edge      FOLLOW plan 0       FLUSH triangle          + (3, 5) goes into edge;
    queues      edge: 1 edit    edge: none          triangle: 2 edits       plan 0 finds two triangles with it

The steps of a schedule alternate: the queue of a group of trees (a relation, its permuted indices)
is flushed; a plan whose relations changed is probed (FOLLOW) or matched, or scans a relation, and
the bindings found go into the queues of its heads (plans.py). A step that fails or finds too many
bindings is left to Python, and so are all later steps.

A view of the first or last records of ranges is followed by seeks (RANGED, ranges.py). Whether the
keys of a function have one value is only counted (CHECK): a transaction in which they do not is
refused as a whole.

An aggregate may have a state, whose queue is flushed first; FOLD then computes the rows of the
groups that changed in it (states.py):

    queue of state of least ──flush──▶ (7, 3; 1) (7, 5; 2) ──fold──▶ queue of least  + (7; 3) ──flush──▶

If the state keeps a few values of each group, edits of others are left out before it is flushed
(CUT).
"""

from ivm.engine.kernels.plans import (
    Flushing,
    ScheduleRoom,
    ScheduleTable,
    follow,
    give_back,
    match,
    put_back,
    scan,
)
from ivm.views.kernels.exact_sums import BROKEN
from ivm.ways.kernels.probe import Branches, Composing
from ivm.ways.kernels.ranges import MEASURED, POINTS, Ranged, follow_range
from ivm.ways.kernels.states import States, follow_state, leave_out
from ivm.ways.recursion.kernels.facts import (
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
    Strata,
    StrataTrees,
    changed_sources,
    count_changes,
    note_changes,
    queue_facts,
    queue_fresh,
)
from ivm.ways.recursion.kernels.maintain import Probing, maintain_at
from pagestore.compiled import (
    CHANGES,
    GAIN,
    HEIGHT,
    INSERT,
    KEYS,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    ROOT,
    TAKEN,
    Pages,
    Queues,
    Table,
    Words,
    begin_commit,
    field,
    finish_commit,
    flush_queue,
    kernel,
    next_leaf,
    seek,
    tree_at,
)

# columns of `steps`: its kind, and the number of its group, plan, fold, stratum, range or function
FLUSH, FOLLOW, SCAN, FOLD, RECUR, RANGED, CHECK, MATCH, CUT = range(9)
UNTOUCHED = -1  # operations of a plan or a range that no change reached
STOPPED = -1  # a recursion that cannot be followed in the room that there is
KIND, OF = range(2)
# operations, some milliseconds: a plan that takes more may be made anew (replan.py)
EXCESS_FREE = 50_000
# columns of `functions`: the tree of a view whose keys may get two values, and how many words a key
# has
FUNCTION, ARGUMENTS = range(2)


@kernel
def run_steps(
    begin, pages, accounts, queues, room, apply, schedule, working, run, found, composed, probe
):
    """Run the steps of a schedule from step `begin` on; return how many are done, including those
    before `begin`.

    accounts, queues, room and apply are as for `flush_queue`, run and found as for `probe_next`,
    whose address is `probe`; `composed` is a buffer for the bindings that it sorts and composes.
    working.operations[P + R] count the iterator operations of each plan's probes, and the points
    computed for each range.
    """
    accounts = begin_commit(accounts, queues)
    if begin == 0:
        remember(queues.trees, working.before)
        forget_counts(working)
    composing = Composing(room.reordering.order, room.reordering.fresh, composed)
    flushing = Flushing(accounts, queues, room, apply)
    probing = Probing(run, found, composing, probe)
    states = States(pages, queues, schedule.folds, schedule.copies, working.states)
    for s in range(begin, schedule.steps.shape[0]):
        of = schedule.steps[s, OF]
        if schedule.steps[s, KIND] == FLUSH:
            if queues.waits[of] and not flush_queue(pages, accounts, queues, room, apply, of):
                return s
        elif schedule.steps[s, KIND] == SCAN:
            if not scan(pages, queues, schedule, working, composed, of):
                return s
        elif schedule.steps[s, KIND] == FOLD:
            if not follow_state(states, of):
                return s
        elif schedule.steps[s, KIND] == CUT:
            if not leave_out(states, of):
                return s
        elif schedule.steps[s, KIND] == RECUR:
            if not recur(pages, flushing, schedule, working, probing, of):
                return s
        elif schedule.steps[s, KIND] == RANGED:
            if not run_range(pages, queues, schedule, working, of):
                return s
        elif schedule.steps[s, KIND] == CHECK:
            working.conflicts[0] += count_conflicts(pages, queues, schedule, working, of)
        elif schedule.steps[s, KIND] == MATCH:
            if not match(pages, flushing, schedule, working, probing, of):
                return s
        elif not follow(pages, queues, room, schedule, working, run, found, composed, probe, of):
            return s
    if is_cheap(working) and working.conflicts[0] == 0:
        finish_commit(pages, accounts, queues)
    return schedule.steps.shape[0]


@kernel
def run_range(
    pages: Pages, queues: Queues, schedule: ScheduleTable, working: ScheduleRoom, of: int
):
    """Follow the changes that a range reads; return whether it could be followed."""
    ranged = Ranged(pages, working.before, queues, schedule.ranges[of], schedule.copies)
    n = follow_range(ranged, working.ranges)
    if n > 0 or (n != BROKEN and changes_of_range(queues, ranged.span)):
        working.operations[schedule.plans.shape[0] + of] = n
    return n != BROKEN


@kernel
def forget_counts(working: ScheduleRoom):
    """Reset what a run counts: operations, hits, gains and conflicts."""
    working.operations[:] = UNTOUCHED
    working.hits[:] = 0
    working.recursion[:] = 0
    working.gains[:] = 0
    working.conflicts[0] = 0


@kernel
def is_cheap(working: ScheduleRoom):
    """Return whether the plans took so few operations that none of them can be one that Python
    should plan anew.
    """
    total = 0
    for count in working.operations:
        total += max(count, 0)
    for s in range(working.recursion.shape[0]):
        total += working.recursion[s, 0]
    return total <= EXCESS_FREE


@kernel
def changes_of_range(queues: Queues, span: Words):
    """Return whether the points or the measured records of a range have changed."""
    return queues.tallies[span[POINTS], CHANGES] > 0 or queues.tallies[span[MEASURED], CHANGES] > 0


@kernel
def remember(trees: Table, before: Table):
    """Copy the roots of trees to `before`, since they will change."""
    for t in range(trees.shape[0]):
        before[t, ROOT], before[t, HEIGHT], before[t, KEYS] = (
            trees[t, ROOT],
            trees[t, HEIGHT],
            trees[t, KEYS],
        )


@kernel
def count_conflicts(
    pages: Pages, queues: Queues, schedule: ScheduleTable, working: ScheduleRoom, f: int
):
    """Return how many rows that function f gained have a key with another value, too, or are in
    a corrupt page.
    """
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
    """Find out how a recursive stratum changes, and queue the edits of its views; False leaves
    it to Python.
    """
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
        if queue_fresh(strata, facts, queues) and flush_views(
            pages, flushing, working, strata, number
        ):
            status = maintain_at(
                working.maintain, pages, strata, trees, changes, facts, probing, number
            )
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
def flush_views(
    pages: Pages, flushing: Flushing, working: ScheduleRoom, strata: Strata, number: int
):
    """Flush the queues of a stratum's views between rounds, counting what their trees gain;
    return whether all were.
    """
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
def finish_views(
    pages: Pages, flushing: Flushing, working: ScheduleRoom, strata: Strata, number: int
):
    """Flush what is left of views that were written between rounds, and note all their changes
    together.
    """
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
def undo(flushing: Flushing, working: ScheduleRoom, strata: Strata, number: int):
    """Let the trees of a stratum's views be what they were, and the pages written since then be
    free.
    """
    queues = flushing.queues
    give_back(flushing.accounts, working)
    for v in range(strata.strata[number, VIEWS], strata.strata[number, VIEWS_END]):
        queues.waits[strata.views[v, VIEW_QUEUE]] = 0
        for t in range(strata.views[v, VIEW_TREE], strata.views[v, VIEW_TREES_END]):
            put_back(queues, working, t)
