"""Batches of edits before they reach a tree: are they sorted, and what do those of one key come to?"""


from pagestore.kernels.apply import ADD, ERASE, INSERT, SET
from pagestore.kernels.kernel import kernel

GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)  # Ciura's


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
    """As `compose` for n edits, a few in any order, into out_edits; order[n] and `fresh` are room to work in."""
    shell_order(edits[:keys], order)
    for i in range(order.shape[0]):
        e = order[i]
        out_actions[i] = actions[e]
        for c in range(columns):
            out_edits[c, i] = edits[c, e]
        fresh[i] = i == 0
        for c in range(keys):
            fresh[i] |= i > 0 and out_edits[c, i] != out_edits[c, i - 1]
    return compose(keys, columns, fresh, out_actions[: order.shape[0]], out_edits)


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
def shell_order(keys, order):
    """Stable order[n] of the first n tuples of keys[K, m], a few, by insertion over ever smaller gaps."""
    n = order.shape[0]
    for i in range(n):
        order[i] = i
    for gap in GAPS:
        for i in range(gap, n):
            e, at = order[i], i
            while at >= gap and follows(keys, order[at - gap], e):
                order[at] = order[at - gap]
                at -= gap
            order[at] = e


@kernel
def follows(keys, a, b):
    """Does tuple a come behind tuple b, of two equal ones the second?"""
    for c in range(keys.shape[0]):
        if keys[c, a] != keys[c, b]:
            return keys[c, a] > keys[c, b]
    return a > b
