"""Batches of edits before they reach a tree: are they sorted, and what do those of one key come to?"""

from pagestore.kernels.apply import ADD, ERASE, INSERT, SET
from pagestore.kernels.kernel import kernel


@kernel
def compose(keys, columns, fresh, actions, edits):
    """Fold edits[C, n], stably sorted by key, in place; `fresh` marks the first edit of each key.

    Returns how many remain, -1 - i for an edit i that adds to a key that the batch also sets, or
    -1 - n - i (of n edits) for an edit i with which the sum leaves 64 bits.
    """
    out = -1
    for i in range(actions.shape[0]):
        before, now = actions[max(out, 0)], actions[i]
        if fresh[i]:
            out += 1
            if out < i:  # mostly none went before
                actions[out] = now
                for c in range(columns):
                    edits[c, out] = edits[c, i]
        elif (now == ADD) != (before == ADD):
            return -1 - i
        elif now == ADD:
            for c in range(keys, columns):
                total = edits[c, out] + edits[c, i]
                if (edits[c, out] ^ total) & (edits[c, i] ^ total) < 0:
                    return -1 - actions.shape[0] - i
                edits[c, out] = total
        elif now == INSERT and before != ERASE:
            continue  # the record is there already
        else:
            actions[out] = SET if now == INSERT else now
            for c in range(keys, columns):
                edits[c, out] = edits[c, i]
    return out + 1


@kernel
def compose_few(keys, columns, actions, edits, order, fresh, out_actions, out_edits):
    """As `compose` for n edits, a few in any order, into out_edits; order[2n] and fresh[n] are room to work in."""
    merge_order(edits[:keys], order)
    return compose_ordered(keys, columns, actions, edits, order[: order.shape[0] >> 1], fresh, out_actions, out_edits)


@kernel
def compose_ordered(keys, columns, actions, edits, order, fresh, out_actions, out_edits):
    """As `compose` for the edits order[n], which is stable, into out_edits; fresh[n] is room to work in."""
    n = order.shape[0]
    for i in range(n):
        out_actions[i] = actions[order[i]]
        fresh[i] = i == 0
    for c in range(columns):  # column by column, for loops so plain that the compiler widens them
        given, taken = edits[c], out_edits[c]
        for i in range(n):
            taken[i] = given[order[i]]
        if c < keys:
            for i in range(1, n):
                fresh[i] |= taken[i] != taken[i - 1]
    return compose(keys, columns, fresh, out_actions[:n], out_edits)


@kernel
def ascends(keys):
    """Do the tuples keys[K, n] ascend strictly?  Most batches come sorted, and then nothing has to move."""
    for i in range(1, keys.shape[1]):
        c = 0
        while c < keys.shape[0] and keys[c, i] == keys[c, i - 1]:
            c += 1
        if c == keys.shape[0] or keys[c, i] < keys[c, i - 1]:
            return False
    return True


@kernel
def merge_order(keys, order):
    """Make order[:n] a stable order of n tuples keys[K, m]; order[2n] is room.  O(n log r) for r runs that ascend.

    What probes find comes in a few such runs.
    """
    n = order.shape[0] >> 1
    for i in range(n):
        order[i] = i
    at, runs = 0, 2
    while runs > 1:
        runs, to, start = 0, n - at, 0
        while start < n:
            middle = run_behind(keys, order, at, start, n)
            if middle - start == n:
                to = at
            else:
                end = run_behind(keys, order, at, middle, n)
                merge_runs(keys, order, at + start, at + middle, at + end, to + start)
                middle = end
            start = middle
            runs += 1
        at = to
    for i in range(n if at else 0):
        order[i] = order[n + i]


@kernel
def run_behind(keys, order, at, start, n):
    """Where the run ends that ascends from `start` on, of n that begin at order[at]; n if there is none."""
    end = min(start + 1, n)
    while end < n and not follows(keys, order[at + end - 1], order[at + end]):
        end += 1
    return end


@kernel
def merge_runs(keys, order, a, b, end, out):
    """Merge order[a:b] and order[b:end] to order[out:]."""
    b_start = b
    while a < b_start and b < end:
        later = follows(keys, order[a], order[b])
        order[out] = order[b if later else a]
        a, b = a + (not later), b + later
        out += 1
    while a < b_start:
        order[out] = order[a]
        a, out = a + 1, out + 1
    while b < end:
        order[out] = order[b]
        b, out = b + 1, out + 1


@kernel
def follows(keys, a, b):
    """Does tuple a come behind tuple b, of two equal ones the second?"""
    for c in range(keys.shape[0]):
        if keys[c, a] != keys[c, b]:
            return keys[c, a] > keys[c, b]
    return a > b
