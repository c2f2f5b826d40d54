"""Apply a few edits and maintain everything that depends on them, in one call.

    queue of edge ──flush──▶ edge, its index ──probe──▶ bindings that go and come ──copy──▶ queue of triangle ──flush──▶

    steps       FLUSH edge      FOLLOW plan 0       FLUSH triangle          + (3, 5) goes into edge;
    queues      edge: 1 edit    edge: none          triangle: 2 edits       plan 0 finds two triangles with it

The steps of a schedule alternate: the queue of a group of trees (a relation, its permuted indices) is flushed; a plan
whose relations changed is probed, and the bindings found go into the queues of its heads. A step that fails or finds
too many bindings is left to Python, and so are all later steps.

A plan that scans a relation needs no probe: SCAN finds the changed rows that its conditions let pass, for one plan
after the other, and these are its bindings.

Groups of arguments of the kernel that takes the steps of a schedule (see pagestore/runtime/types.py).
"""

from typing import NamedTuple

from ivm.maintenance.kernels.probe import COMPOSED, OPERATIONS, Branches, Composing, ProbeTable, probe_next_at
from ivm.maintenance.kernels.reach import Conditions, holds
from pagestore.compiled import ADD, CHANGES, HEIGHT, INSERT, KEYS, ROOT, Table, Words, flush_queue, kernel

# columns of `steps`: its kind, and the number of its group or plan
FLUSH, FOLLOW, SCAN = range(3)
KIND, OF = range(2)
# columns of `plans`: the spans of its probes, of the trees that they read, of those whose changes they begin with, and
# of its heads; how many columns a binding has
PROBES, PROBES_END, INDICES, INDICES_END, SOURCES, SOURCES_END, HEADS, HEADS_END, COLUMNS = range(9)
# columns of `heads`: its group, whether its rows are counted, which columns of a binding they copy
GROUP, COUNTED, COPIED, COPIED_END = range(4)


@kernel
def carry(begin, pages, accounts, queues, room, apply, schedule, working, run, found, composed, probe):
    """Run the steps of a schedule from step `begin` on; return how many are done, including those before `begin`.

    accounts, queues, room and apply are as for `flush_queue`, run and found as for `probe_next`, whose address is
    `probe`; `composed` is a buffer for the bindings that it sorts and composes. working.operations[P] count the
    iterator operations of each plan's probes.
    """
    if begin == 0:
        remember(queues.trees, working.before)
        working.operations[:] = 0
    for s in range(begin, schedule.steps.shape[0]):
        of = schedule.steps[s, OF]
        if schedule.steps[s, KIND] == FLUSH:
            if queues.waits[of] and not flush_queue(pages, accounts, queues, room, apply, of):
                return s
        elif schedule.steps[s, KIND] == SCAN:
            if not scan(queues, schedule, working, of):
                return s
        elif not follow(pages, queues, room, schedule, working, run, found, composed, probe, of):
            return s
    return schedule.steps.shape[0]


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
    plan, heads, copies = schedule.plans[p], schedule.heads, schedule.copies
    waiting, waits, t = queues.waiting, queues.waits, schedule.sources[plan[SOURCES]]
    n, actions, rows = queues.tallies[t, CHANGES], queues.deltas[t, 0], queues.deltas[t, 1:]
    working.operations[p] = n
    for h in range(plan[HEADS], plan[HEADS_END]):
        if waits[heads[h, GROUP]] + n * (plan[HEADS_END] - plan[HEADS]) > waiting.shape[2]:
            return False
    for i in range(n):
        if not holds(schedule.conditions, plan[PROBES], rows, i):
            continue
        for h in range(plan[HEADS], plan[HEADS_END]):
            head = heads[h]
            edits, at, width = waiting[head[GROUP]], waits[head[GROUP]], head[COPIED_END] - head[COPIED]
            for c in range(width):
                edits[1 + c, at] = rows[copies[head[COPIED] + c], i]
            edits[0, at] = ADD if head[COUNTED] else actions[i]
            if head[COUNTED]:
                edits[1 + width, at] = 1 if actions[i] == INSERT else -1
            waits[head[GROUP]] = at + 1
    return True


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
    heads, copies, waiting, waits = schedule.heads, schedule.copies, queues.waiting, queues.waits
    for h in range(plan[HEADS], plan[HEADS_END]):
        if waits[heads[h, GROUP]] + n * (plan[HEADS_END] - plan[HEADS]) > waiting.shape[2]:
            return False
    for h in range(plan[HEADS], plan[HEADS_END]):
        head = heads[h]
        edits, at, width = waiting[head[GROUP]], waits[head[GROUP]], head[COPIED_END] - head[COPIED]
        for c in range(width):
            column = copies[head[COPIED] + c]
            for i in range(n):
                edits[1 + c, at + i] = found.bindings[column, i]
        for i in range(n):
            edits[0, at + i] = ADD if head[COUNTED] else found.signs[i]
            if head[COUNTED]:
                edits[1 + width, at + i] = 1 if found.signs[i] == INSERT else -1
        waits[head[GROUP]] = at + n
    return True


class ScheduleTable(NamedTuple):
    """The steps of a schedule and the tables they refer to; schedule.py names the columns of each table.

    steps[S, 2], plans[P, 9] and heads[H, 4] refer to spans of the other arrays: probes[Q, PROBE] and the words `static`
    are those of all plans, indices and sources are numbers of trees, copies are columns of bindings, and conditions
    are those of the plans that scan.
    """

    static: Words
    steps: Table
    plans: Table
    probes: Table
    indices: Words
    sources: Words
    heads: Table
    copies: Words
    conditions: Conditions


class ScheduleRoom(NamedTuple):
    """Working memory of a schedule: the trees before its first step, and the old and new trees that a plan reads.

    before[T, TREE_WORDS] are rows of trees, versions the words (root, height, keys) of a plan's trees in either
    version, spans[B, 3] and actions[2] as for `probe_next`; operations[P] count those of each plan.
    """

    before: Table
    versions: Words
    spans: Table
    actions: Words
    operations: Words
