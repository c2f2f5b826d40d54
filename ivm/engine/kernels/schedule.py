"""A few edits carried through all that reads what they change, in one call.

    waiting[g] ──settle──▶ trees, deltas ──follow──▶ bindings that go and come ──heads──▶ waiting[h] ──settle──▶ ...

The steps of a schedule alternate: a group of trees (a relation, its permuted indices) takes the edits that wait for it;
a plan whose bodies' branches changed is probed, and what is found waits for the groups of its heads. A step that does
not go well, or finds more than a few, is left to Python, and so are those behind it.
"""

from ivm.maintenance.kernels.probe import NETTED, OPERATIONS, probe_next_at
from pagestore.compiled import ADD, CHANGES, HEIGHT, INSERT, KEYS, ROOT, kernel, settle

# columns of `steps`: what it is, and of which group or plan
FLUSH, FOLLOW = range(2)
KIND, OF = range(2)
# columns of `plans`: where its probes stand, the trees that they read, those whose changes they begin with, its heads;
# how many columns a binding has
PROBES, PROBES_END, INDICES, INDICES_END, SOURCES, SOURCES_END, HEADS, HEADS_END, COLUMNS = range(9)
# columns of `heads`: which group it is, whether its rows are counted, which columns of a binding they copy
GROUP, COUNTED, COPIED, COPIED_END = range(4)


@kernel
def carry(
    begin, words, seen, page_words, page_writer, birth, lineage, ids, taken, retired, groups, trees, places, scans,
    waiting, waits, deltas, tallies, arena, node, dead, walk, work, moving, order, fresh, apply, static, steps, plans, probes,
    indices, sources, heads, copies, before, both, spans, actions, progress, state, regions, start, out, rows, runs,
    found, signs, net_signs, net_found, operations, probe,
):  # fmt: skip
    """Take the steps of a schedule from step `begin` on; returns how many were taken, those before it among them.

    For groups, trees and edits see `settle`; operations[P] are those of each plan's probes, and `probe` is the address
    of `probe_next`.
    """
    if begin == 0:
        for t in range(trees.shape[0]):
            before[t, ROOT], before[t, HEIGHT], before[t, KEYS] = trees[t, ROOT], trees[t, HEIGHT], trees[t, KEYS]
        operations[:] = 0
    for s in range(begin, steps.shape[0]):
        of = steps[s, OF]
        if steps[s, KIND] == FLUSH:
            if waits[of] and not settle(
                words, seen, page_words, page_writer, birth, lineage, ids, taken, retired, groups, trees, places, scans,
                waiting, waits, deltas, tallies, arena, node, dead, walk, work, moving, order, fresh, apply, of,
            ):  # fmt: skip
                return s
            continue
        plan = plans[of]
        if not changed(plan, sources, tallies, deltas, spans):
            continue
        some = spans[: plan[SOURCES_END] - plan[SOURCES]]
        versions = both[: 6 * (plan[INDICES_END] - plan[INDICES])].reshape((2, plan[INDICES_END] - plan[INDICES], 3))
        place(plan, indices, before, versions[0])
        place(plan, indices, trees, versions[1])
        progress[:] = 0
        columns = plan[COLUMNS]
        n = probe_next_at(
            probe, words, seen, page_words, static, probes[plan[PROBES] : plan[PROBES_END]], columns, versions,
            deltas.reshape(deltas.size), some, actions, progress, state, regions, start, out, rows, runs,
            found, signs, order, fresh, net_signs, net_found,
        )  # fmt: skip
        if n < 0 or not progress[NETTED] or not handed(plan, heads, copies, n, net_signs, net_found, waiting, waits):
            return s
        operations[of] = progress[OPERATIONS]
    return steps.shape[0]


@kernel
def changed(plan, sources, tallies, deltas, spans):
    """Find the branches that a plan is probed with; returns how many there are."""
    total, tree_words, stride = 0, deltas.shape[1] * deltas.shape[2], deltas.shape[2]
    for i in range(plan[SOURCES], plan[SOURCES_END]):
        span, t = spans[i - plan[SOURCES]], sources[i]
        span[0], span[1], span[2] = t * tree_words, tallies[t, CHANGES], stride
        total += span[1]
    return total


@kernel
def place(plan, indices, trees, version):
    """Say what a join knows of the trees that a plan reads."""
    for i in range(version.shape[0]):
        tree = trees[indices[plan[INDICES] + i]]
        version[i, 0], version[i, 1], version[i, 2] = tree[ROOT], tree[HEIGHT], tree[KEYS]


@kernel
def handed(plan, heads, copies, n, signs, found, waiting, waits):
    """Let n bindings wait as edits of the heads; False, and nothing waits, if they are too many."""
    for h in range(plan[HEADS], plan[HEADS_END]):
        if waits[heads[h, GROUP]] + n * (plan[HEADS_END] - plan[HEADS]) > waiting.shape[2]:
            return False
    for h in range(plan[HEADS], plan[HEADS_END]):
        head = heads[h]
        edits, at, width = waiting[head[GROUP]], waits[head[GROUP]], head[COPIED_END] - head[COPIED]
        for c in range(width):
            column = copies[head[COPIED] + c]
            for i in range(n):
                edits[1 + c, at + i] = found[column, i]
        for i in range(n):
            edits[0, at + i] = ADD if head[COUNTED] else signs[i]
            if head[COUNTED]:
                edits[1 + width, at + i] = 1 if signs[i] == INSERT else -1
        waits[head[GROUP]] = at + n
    return True
