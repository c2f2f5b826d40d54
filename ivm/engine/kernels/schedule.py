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
    GAIN,
    HEIGHT,
    INSERT,
    KEYS,
    ROOT,
    TAKEN,
    FlushRoom,
    PageAccounts,
    Queues,
    Table,
    Words,
    flush_queue,
    kernel,
)

# columns of `steps`: its kind, and the number of its group, plan or stratum
FLUSH, FOLLOW, SCAN, RECUR = range(4)
STOPPED = -1  # a recursion that cannot be followed in the room that there is
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
        working.recursion[:] = 0
        working.gains[:] = 0
    for s in range(begin, schedule.steps.shape[0]):
        of = schedule.steps[s, OF]
        if schedule.steps[s, KIND] == FLUSH:
            if queues.waits[of] and not flush_queue(pages, accounts, queues, room, apply, of):
                return s
        elif schedule.steps[s, KIND] == SCAN:
            if not scan(queues, schedule, working, of):
                return s
        elif schedule.steps[s, KIND] == RECUR:
            composing = Composing(room.reordering.order, room.reordering.fresh, composed)
            flushing = Flushing(accounts, queues, room, apply)
            if not recur(pages, flushing, schedule, working, Probing(run, found, composing, probe), of):
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
    strata: Strata


class ScheduleRoom(NamedTuple):
    """Working memory of a schedule: the trees before its first step, and the old and new trees that a plan reads.

    before[T, TREE_WORDS] are rows of trees, versions the words (root, height, keys) of a plan's trees in either
    version, spans[B, 3] and actions[2] as for `probe_next`; operations[P] count those of each plan.

    For recursive strata: recursion[S, 3] count operations, rounds and facts examined, gains[T] the records that trees
    gained, `taken` the pages taken before; the others are what `maintain` takes, and its address.
    """

    before: Table
    versions: Words
    spans: Table
    actions: Words
    operations: Words
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
