"""The symmetric difference of two sorted lists of rows."""

from pagestore.compiled import kernel


@kernel
def mark_lone(before, after, only_before, only_after):
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
def compared(rows, i, others, j):
    """Return -1, 0 or 1 if row i comes before, equals or comes after row j of the others."""
    for c in range(rows.shape[0]):
        if rows[c, i] != others[c, j]:
            return -1 if rows[c, i] < others[c, j] else 1
    return 0
