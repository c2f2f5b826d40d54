"""How the free pages differ from those of a checkpoint: two lists, as a record has them, edited in O(1) a page.

    lists[ADDED]      n, page, page, ...      free, and not in the checkpoint
    lists[REMOVED]    n, page, page, ...      in use, and free in the checkpoint
    place[page]       where in `added` a page stands; minus where in `removed`; 0 for one that is in neither
"""

from pagestore.kernels.kernel import kernel
from pagestore.kernels.machine import words_at

ADDED, REMOVED = range(2)


@kernel
def count(address, n, used, lists, place):
    """Count n pages at an address as free, then others as used; both lists have room for all of them."""
    move(words_at(address, n), ADDED, lists, place)
    move(used, REMOVED, lists, place)


@kernel
def move(pages, into, lists, place):
    """Take pages out of the other list; those that it has not go into this one."""
    sign = 1 - 2 * into
    for page in pages:
        at = place[page] * sign
        if at == 0:
            n = lists[into, 0] + 1
            lists[into, 0], lists[into, n], place[page] = n, page, sign * n
        elif at < 0:
            other, n = lists[1 - into], lists[1 - into, 0]
            other[-at], place[other[n]] = other[n], place[page]
            other[0], place[page] = n - 1, 0
