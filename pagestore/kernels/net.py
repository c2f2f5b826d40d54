"""Compose the edits of one key, in order, into one edit."""

from numba import njit

from pagestore.kernels.apply import ADD, ERASE, INSERT, SET


@njit(cache=True, nogil=True)
def compose(keys, columns, fresh, actions, edits):
    """Fold edits[C, n], stably sorted by key, in place; `fresh` marks the first edit of each key.

    Returns how many remain, or -1 - i for an edit i that adds to a key that the batch also sets.
    """
    out = -1
    for i in range(actions.shape[0]):
        before, now = actions[out], actions[i]
        if fresh[i]:
            out += 1
            actions[out] = now
            for c in range(columns):
                edits[c, out] = edits[c, i]
        elif (now == ADD) != (before == ADD):
            return -1 - i
        elif now == ADD:
            for c in range(keys, columns):
                edits[c, out] += edits[c, i]
        elif now == INSERT and before != ERASE:
            continue  # the record is there already
        else:
            actions[out] = SET if now == INSERT else now
            for c in range(keys, columns):
                edits[c, out] = edits[c, i]
    return out + 1
