"""Run all probes of a rule in one call: join the delta of each trie with the other tries' indices.

    triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).        +edge(3, 5)

    probe 0: x = 3, y = 5, then z        probe 1: y = 3, z = 5, then x        probe 2: x = 3, z = 5, then y

A probe is a join under an oracle of single values.  `static` holds the constants: the plans, the
initial state of a run, and for each probe how a branch fills the levels.  Erased branches are
joined with the old trees, inserted ones with the new.

Groups of arguments of the kernel that probes (see pagestore/runtime/types.py).

The symmetric difference of two sorted lists of rows.
"""

from typing import NamedTuple

from ivm.join.kernels.leapfrog import leapfrog
from ivm.join.kernels.tries import DONE, EMITTED, LEVELS, NEXTS, OPENS, PHASE, SEEKS, TREES
from pagestore.compiled import (
    SET,
    Flags,
    Pages,
    Table,
    Tables,
    Words,
    compose_few,
    function_pointer,
    kernel,
)


class ProbeTable(NamedTuple):
    """The probes of a plan: constant words, a row for each probe (see probe.py), columns of a
    binding.
    """

    static: Words
    probes: Table
    columns: int


class Branches(NamedTuple):
    """The changes of tries, in one array: for each trie the actions of its branches, then their
    words by column.

    spans[B, 3] say where the branches of a trie begin in `words`, how many there are, and the
    distance between columns. actions[2] is the action of a binding that is found in the old trees,
    and of one in the new trees.
    """

    words: Words
    spans: Table
    actions: Words


class ProbeRun(NamedTuple):
    """The state of a probe: `progress` (see probe.py), the state of its join, its oracle, and its
    output buffers.

    regions and start are an oracle of single values, out[C, n] bindings as the join finds them;
    rows and runs are as for `leapfrog`.
    """

    progress: Words
    state: Words
    regions: Words
    start: Words
    out: Table
    rows: Tables
    runs: Table


class Found(NamedTuple):
    """Bindings found, bindings[C, n], and signs[n]: the action of each."""

    signs: Words
    bindings: Table


class Composing(NamedTuple):
    """Buffers to sort and compose a few bindings: order[2 n], fresh[n], and the output."""

    order: Words
    fresh: Flags
    found: Found


# columns of `probes`, a row for each probe: offsets into `static`, how many levels are pinned, the
# span of its branches, and whether their trie is negated, so that an inserted branch erases
# bindings
PLAN, PLAN_END, STATE, STATE_END, PINS, BACK, TRIES, TRIES_END, PINNED, BRANCHES, NEGATED = range(
    11
)
# a pin, for each level up to the last that is pinned: the word of a branch that it takes, or else
# the level (-1 for none) to whose value it adds a constant
WORD, OTHER, CONSTANT, PIN = range(4)
# words of `progress`: the step (one per probe on the old trees, then one per probe on the new
# ones); whether it has begun; operations of the steps done; whether the bindings found are
# composed, as a few are in the same call
STEP, BEGUN, OPERATIONS, COMPOSED, PROGRESS = range(5)


@kernel
def probe_next(pages, table, trees, branches, run, found, composing):
    """Fill `found` until all is done or it is full (see arguments.py).  Return how many bindings,
    or ``-page_id``.

    If there are only a few in all, they are sorted and composed, in composing.found. trees[2, I, 3]
    are the trees that the probes read, in the old and in the new version.
    """
    static, probes, progress = table.static, table.probes, run.progress
    n, first = 0, progress[STEP] == 0 and progress[BEGUN] == 0
    while progress[STEP] < 2 * probes.shape[0]:
        side, p = progress[STEP] // probes.shape[0], progress[STEP] % probes.shape[0]
        wanted = branches.actions[side ^ probes[p, NEGATED]]
        count = matching(branches, probes[p, BRANCHES], wanted)
        if count == 0:
            progress[STEP] += 1
            continue
        plan = static[probes[p, PLAN] : probes[p, PLAN_END]]
        levels = plan[LEVELS]
        state = run.state[: probes[p, STATE_END] - probes[p, STATE]]
        pinned = run.regions[: (levels + 1) * count].reshape((levels + 1, count))
        start = run.start[: levels + 1]
        if not progress[BEGUN]:
            begin(static, probes, p, trees[side], state)
            pin(static, probes, p, branches, wanted, pinned, start)
            progress[BEGUN] = 1
        while state[PHASE] != DONE:
            if n + run.out.shape[1] > found.signs.shape[0]:
                return n
            status = leapfrog(pages, plan, state, pinned, start, run.out, run.rows, run.runs)
            if status < 0:
                return status
            n = take(
                static,
                probes[p, BACK],
                table.columns,
                run.out,
                state[EMITTED],
                branches.actions[side],
                found,
                n,
            )
        progress[OPERATIONS] += state[OPENS] + state[SEEKS] + state[NEXTS]
        progress[BEGUN] = 0
        progress[STEP] += 1
    if first and 2 * n <= composing.order.shape[0]:
        progress[COMPOSED] = 1
        n = compose_bindings(table.columns, found, composing, n)
    return n


probe_next_at = function_pointer(
    probe_next, Pages, ProbeTable, Tables, Branches, ProbeRun, Found, Composing
)


@kernel
def matching(branches: Branches, b: int, wanted: int):
    """Return how many branches of span b have the action `wanted`."""
    at, of, _ = branches.spans[b]
    count = 0
    for i in range(at, at + of):
        count += branches.words[i] == wanted
    return count


@kernel
def compose_bindings(columns: int, found: Found, composing: Composing, n: int):
    """Sort n bindings, without duplicates and without those both erased and inserted; return how
    many are left.
    """
    signs, bindings = composing.found.signs, composing.found.bindings
    order = composing.order[: 2 * n]
    n = compose_few(
        columns, columns, found.signs, found.bindings, order, composing.fresh, signs, bindings
    )
    left = 0
    for i in range(n):
        if signs[i] != SET:
            signs[left] = signs[i]
            for c in range(columns):
                bindings[c, left] = bindings[c, i]
            left += 1
    return left


@kernel
def begin(static: Words, probes: Table, p: int, trees: Table, run: Words):
    """Initialise the state of a probe."""
    for i in range(run.shape[0]):
        run[i] = static[probes[p, STATE] + i]
    for a in range(probes[p, TRIES_END] - probes[p, TRIES]):
        for i in range(trees.shape[1]):
            run[run[TREES] + a * trees.shape[1] + i] = trees[static[probes[p, TRIES] + a], i]


@kernel
def pin(static, probes, p, branches, wanted, regions, start):
    """Make an oracle of the branches with an action: single values at each level down to the
    last that is pinned.
    """
    at, of, apart = branches.spans[probes[p, BRANCHES]]
    words, count = branches.words, regions.shape[1]
    last = probes[p, PINNED] - 1
    for level in range(last + 1):
        o = probes[p, PINS] + PIN * level
        if static[o + WORD] >= 0:
            word = at + (1 + static[o + WORD]) * apart
            n = 0
            for i in range(of):
                if words[at + i] == wanted:
                    regions[level, n] = words[word + i]
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
def take(static, back, columns, out, emitted, action, found, n):
    """Append bindings in the column order of the rule's plan."""
    for c in range(columns):
        source = static[back + c]
        for i in range(emitted):
            found.bindings[c, n + i] = out[source, i]
    for i in range(emitted):
        found.signs[n + i] = action
    return n + emitted


@kernel
def mark_lone(before: Table, after: Table, only_before: Flags, only_after: Flags):
    """Mark the rows of before[C, n] and after[C, m] that the other lacks: bool[n], bool[m].

    Both ascend strictly.  O(n + m).
    """
    n, m = before.shape[1], after.shape[1]
    i = j = 0
    while i < n and j < m:
        side = compared(before, i, after, j)
        only_before[i] = side < 0
        only_after[j] = side > 0
        i, j = i + (side <= 0), j + (side >= 0)
    only_before[i:] = True
    only_after[j:] = True


@kernel
def compared(rows: Table, i: int, others: Table, j: int):
    """Return -1, 0 or 1 if row i comes before, equals or comes after row j of the others."""
    for c in range(rows.shape[0]):
        if rows[c, i] != others[c, j]:
            return -1 if rows[c, i] < others[c, j] else 1
    return 0
