"""All probes of a rule in one call: the delta of each trie joined first, against the other tries' indices.

    triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).        +edge(3, 5)

    probe 0: x = 3, y = 5, then z        probe 1: y = 3, z = 5, then x        probe 2: x = 3, z = 5, then y

A probe is a join under an oracle of single values.  `static` holds what stays: the plans, the states a run starts
from, and for each probe how a branch fills the levels.  Erased branches are joined with the old trees, inserted
ones with the new.
"""

from ivm.join.kernels.join_layout import DONE, EMITTED, LEVELS, NEXTS, OPENS, PHASE, SEEKS, TREES
from ivm.join.kernels.leapfrog import leapfrog
from pagestore.compiled import SET, addressed, by_address, compose_few, kernel

# columns of `probes`, a row for each probe: offsets into `static`, how many levels are pinned, which of the branches it
# takes, and whether their trie is negated, so that an inserted branch takes bindings away
PLAN, PLAN_END, STATE, STATE_END, PINS, BACK, TRIES, TRIES_END, PINNED, BRANCHES, NEGATED = range(11)
# a pin, for each level up to the last that is pinned: which word of a branch it takes, or the value of which other
# level (-1 for none) plus a constant
WORD, OTHER, CONSTANT, PIN = range(4)
# words of `progress`: a step a probe for what was erased, then a step each for what was inserted; whether the step has
# begun; operations of the steps done; whether what was found is netted, which a few bindings are where they are found
STEP, BEGUN, OPERATIONS, NETTED, PROGRESS = range(5)


@addressed
def probe_next(
    words, seen, page_words, static, probes, columns, trees, branches, spans, actions,
    progress, state, regions, start, out, rows, runs, found, signs, order, fresh, net_signs, net_found,
):  # fmt: skip
    """Fill found[C, n] and signs[n] until all is done or they are full.  Returns how many, or ``-page_id``.

    A few that are all come netted and sorted, in net_found and net_signs.

    trees[2, I, 3] are those of the old and the new version, spans[B, 3] where some branches begin in `branches`, how
    many they are, and how far apart their actions, then words, begin; actions[2] is what a binding found by either
    step is.
    """
    n, all_ = 0, progress[STEP] == 0 and progress[BEGUN] == 0
    while progress[STEP] < 2 * probes.shape[0]:
        side, p = progress[STEP] // probes.shape[0], progress[STEP] % probes.shape[0]
        at, of, apart = spans[probes[p, BRANCHES]]
        wanted = actions[side ^ probes[p, NEGATED]]
        count = 0
        for i in range(at, at + of):
            count += branches[i] == wanted
        if count == 0:
            progress[STEP] += 1
            continue
        plan = static[probes[p, PLAN] : probes[p, PLAN_END]]
        levels = plan[LEVELS]
        run = state[: probes[p, STATE_END] - probes[p, STATE]]
        pinned = regions[: (levels + 1) * count].reshape((levels + 1, count))
        if not progress[BEGUN]:
            begin(static, probes, p, trees[side], run)
            pin(static, probes, p, branches, at, of, apart, wanted, pinned, start)
            progress[BEGUN] = 1
        while run[PHASE] != DONE:
            if n + out.shape[1] > found.shape[1]:
                return n
            status = leapfrog(words, seen, page_words, plan, run, pinned, start[: levels + 1], out, rows, runs)
            if status < 0:
                return status
            n = take(static, probes[p, BACK], columns, out, run[EMITTED], actions[side], found, signs, n)
        progress[OPERATIONS] += run[OPENS] + run[SEEKS] + run[NEXTS]
        progress[BEGUN] = 0
        progress[STEP] += 1
    if all_ and 2 * n <= order.shape[0]:
        progress[NETTED] = 1
        n = net_few(columns, signs, found, order[: 2 * n], fresh, net_signs, net_found)
    return n


probe_next_at = by_address(
    probe_next,
    "int64(Array(int64, 1, 'C', True), uint8[::1], int64, int64[::1], int64[:, ::1], int64, int64[:, :, ::1],"
    "int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1],"
    "int64[:, :, ::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], boolean[::1], int64[::1], int64[:, ::1])",
)


@kernel
def net_few(columns, signs, found, order, fresh, net_signs, net_found):
    """Sort bindings, each once, without those that both went and came; returns how many are left."""
    n = compose_few(columns, columns, signs, found, order, fresh, net_signs, net_found)
    left = 0
    for i in range(n):
        if net_signs[i] != SET:
            net_signs[left] = net_signs[i]
            for c in range(columns):
                net_found[c, left] = net_found[c, i]
            left += 1
    return left


@kernel
def begin(static, probes, p, trees, run):
    """Put the state of a probe at its start."""
    for i in range(run.shape[0]):
        run[i] = static[probes[p, STATE] + i]
    for a in range(probes[p, TRIES_END] - probes[p, TRIES]):
        for i in range(trees.shape[1]):
            run[run[TREES] + a * trees.shape[1] + i] = trees[static[probes[p, TRIES] + a], i]


@kernel
def pin(static, probes, p, branches, at, of, apart, wanted, regions, start):
    """Lay the branches with an action out as an oracle: single values at each level down to the last that is pinned."""
    count = regions.shape[1]
    last = probes[p, PINNED] - 1
    for level in range(last + 1):
        o = probes[p, PINS] + PIN * level
        if static[o + WORD] >= 0:
            word = at + (1 + static[o + WORD]) * apart
            n = 0
            for i in range(of):
                if branches[at + i] == wanted:
                    regions[level, n] = branches[word + i]
                    n += 1
            continue
        for i in range(count):
            if static[o + OTHER] >= 0:
                regions[level, i] = regions[static[o + OTHER], i] + static[o + CONSTANT]
            else:
                regions[level, i] = static[o + CONSTANT]
    for i in range(count):
        regions[last + 1, i] = regions[last, i]
    for level in range(regions.shape[0]):
        start[level] = count if level > last else 0


@kernel
def take(static, back, columns, out, emitted, action, found, signs, n):
    """Append bindings in the column order of the rule's plan."""
    for c in range(columns):
        source = static[back + c]
        for i in range(emitted):
            found[c, n + i] = out[source, i]
    for i in range(emitted):
        signs[n + i] = action
    return n + emitted
