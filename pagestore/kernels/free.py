"""What changes in a set of pages, ascending, when some come and go."""

from pagestore.kernels.kernel import kernel


@kernel
def move(pages, out, into, left, merged):
    """Take pages out of `out`; those that it has not go into `into`. All three ascend, each page once.

    Some few `pages` need not: they are sorted here. What stays stands in left[:n], what `into` becomes in merged[:m];
    returns (n, m). O(all).
    """
    sort_few(pages)
    o, i, n, m = 0, 0, 0, 0
    for p in range(pages.shape[0]):
        page = pages[p]
        while o < out.shape[0] and out[o] < page:
            left[n] = out[o]
            o += 1
            n += 1
        if o < out.shape[0] and out[o] == page:
            o += 1
            continue
        while i < into.shape[0] and into[i] < page:
            merged[m] = into[i]
            i += 1
            m += 1
        i += i < into.shape[0] and into[i] == page
        merged[m] = page
        m += 1
    for k in range(o, out.shape[0]):
        left[n] = out[k]
        n += 1
    for k in range(i, into.shape[0]):
        merged[m] = into[k]
        m += 1
    return n, m


@kernel
def sort_few(values):
    """In place, by insertion: O(n) for what ascends."""
    for i in range(1, values.shape[0]):
        value, at = values[i], i
        while at > 0 and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value
