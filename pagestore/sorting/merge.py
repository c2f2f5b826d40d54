"""Order tuples: check whether they ascend already, else merge their ascending runs.

keys           3 5 9 | 2 7 | 4        three runs that ascend
first round    2 3 5 7 9 | 4          neighbours are merged two by two
second         2 3 4 5 7 9"""

from pagestore.runtime.kernel import kernel


@kernel
def ascends(keys):
    """Return whether the tuples keys[K, n] ascend strictly, as most batches do: then nothing has to move."""
    for i in range(1, keys.shape[1]):
        c = 0
        while c < keys.shape[0] and keys[c, i] == keys[c, i - 1]:
            c += 1
        if c == keys.shape[0] or keys[c, i] < keys[c, i - 1]:
            return False
    return True


@kernel
def merge_order(keys, order):
    """Set order[:n] to the stable order of the first n tuples of keys[K, m], where order has 2n words.

    O(n log r) for r ascending runs; the tuples that probes find have few of them.
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
    """Return the end of the ascending run that begins at `start`, among the n places from order[at] on."""
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
    """Return whether tuple a sorts after tuple b; of two equal ones, the one with the higher index does."""
    for c in range(keys.shape[0]):
        if keys[c, a] != keys[c, b]:
            return keys[c, a] > keys[c, b]
    return a > b
