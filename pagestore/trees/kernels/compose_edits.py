"""Compose the edits of a batch before they reach a tree: one edit a key, in key order."""

from pagestore.runtime.kernel import kernel
from pagestore.sorting.merge import merge_order
from pagestore.trees.kernels.apply_layout import ADD, ERASE, INSERT, SET


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
            if out < i:  # mostly none was dropped before
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
            continue  # the record exists already
        else:
            actions[out] = SET if now == INSERT else now
            for c in range(keys, columns):
                edits[c, out] = edits[c, i]
    return out + 1


@kernel
def compose_few(keys, columns, actions, edits, order, fresh, out_actions, out_edits):
    """Do as `compose` for n edits, a few in any order, into out_edits; order[2n] and fresh[n] are scratch."""
    merge_order(edits[:keys], order)
    return compose_ordered(keys, columns, actions, edits, order[: order.shape[0] >> 1], fresh, out_actions, out_edits)


@kernel
def compose_ordered(keys, columns, actions, edits, order, fresh, out_actions, out_edits):
    """Do as `compose` for the edits order[n], a stable order, into out_edits; fresh[n] is scratch."""
    n = order.shape[0]
    for i in range(n):
        out_actions[i] = actions[order[i]]
        fresh[i] = i == 0
    for c in range(columns):  # column by column, in loops that the compiler vectorizes
        given, taken = edits[c], out_edits[c]
        for i in range(n):
            taken[i] = given[order[i]]
        if c < keys:
            for i in range(1, n):
                fresh[i] |= taken[i] != taken[i - 1]
    return compose(keys, columns, fresh, out_actions[:n], out_edits)
