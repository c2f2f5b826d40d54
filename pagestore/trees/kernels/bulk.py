"""Build a tree bottom-up from sorted records, pages that are full but for a sixteenth, streaming.

Level 0 of `node` takes the records, every level above the entries of the pages below it.  A level is
written out greedily while more than a page's worth waits; the rest is cut evenly at the end.
"""

from pagestore.pages.build import ENDS, cuts, emit, entry_columns, fill
from pagestore.pages.page import records_max
from pagestore.runtime.compiler import kernel

SPARE = 16  # one part of so many of a page stays free, so that the first edits of it do not cut it in two

# words of `progress`
USED, TAKEN, UNSORTED = range(3)


@kernel
def load_records(
    page_words, keys, values, scans, records, arena, ids, birth, tree_id, node, sizes, last, progress, work
):
    """Take in records[C, n] from progress[TAKEN] on; stops when the arena is full.

    `last` holds the newest key; a record not above it stops the load with progress[UNSORTED] = 1.
    """
    columns = keys + values
    n = records.shape[1]
    batch = 2 * records_max(page_words)
    progress[USED] = 0
    while progress[TAKEN] < n:
        if progress[USED] + sizes.shape[0] + 4 > ids.shape[0]:
            return
        lo = progress[TAKEN]
        hi = min(n, lo + batch - sizes[0])
        progress[TAKEN] = ascending(records, keys, lo, hi, last, sizes[-1] > 0, node[-1][0])
        if progress[TAKEN] < hi:
            progress[UNSORTED] = 1
            return
        for c in range(columns):
            waiting, come = node[0, c, sizes[0] :], records[c, lo:hi]
            for i in range(come.shape[0]):
                waiting[i] = come[i]
        sizes[0] += hi - lo
        sizes[-1] = 1  # something was loaded
        if sizes[0] >= batch:
            spill(page_words, keys, values, scans, arena, ids, birth, tree_id, node, sizes, progress, work)


@kernel
def ascending(records, keys, lo, hi, last, started, room):
    """The first of some records that is not above the one before it, which is `last` for the first; hi if all are.

    Makes the newest the new last; room[hi - lo] is scratch.
    """
    if started:
        c = 0
        while c < keys and records[c, lo] == last[c]:
            c += 1
        if c == keys or records[c, lo] < last[c]:
            return lo
    above = room[: hi - lo - 1]
    above[:] = 0
    for c in range(keys - 1, -1, -1):  # how many columns records share cannot be foretold: a branch costs more than all
        before, here = records[c, lo : hi - 1], records[c, lo + 1 : hi]
        for i in range(above.shape[0]):
            above[i] = (before[i] < here[i]) | ((before[i] == here[i]) & above[i])
    for i in range(above.shape[0]):
        if not above[i]:
            return lo + 1 + i
    for c in range(keys):
        last[c] = records[c, hi - 1]
    return hi


@kernel
def spill(page_words, keys, values, scans, arena, ids, birth, tree_id, node, sizes, progress, work):
    """Write one page from every level that has two pages' worth of entries waiting."""
    level = 0
    while sizes[level] >= 2 * records_max(page_words):
        columns = entry_columns(keys, values, scans.shape[0], level)
        lo = 0
        while sizes[level] - lo > records_max(page_words):
            end = fill(node[level], columns, lo, sizes[level], filled(page_words), scans, level, node[-1])
            if progress[USED] + sizes.shape[0] >= ids.shape[0]:
                break
            put(
                page_words, keys, values, scans, arena, ids, birth, tree_id, level, node, lo, end, sizes, progress, work
            )  # fmt: skip
            lo = end
        for c in range(columns):
            for i in range(lo, sizes[level]):
                node[level, c, i - lo] = node[level, c, i]
        sizes[level] -= lo
        level += 1


@kernel
def filled(page_words):
    """Words of a page that are filled, or kept free for all time."""
    return page_words - page_words // SPARE


@kernel
def put(page_words, keys, values, scans, arena, ids, birth, tree_id, level, node, lo, hi, sizes, progress, work):
    used = progress[USED]
    emit(
        arena, used, page_words, ids, birth, tree_id, level, keys, values, scans,
        node[level], lo, hi, node[level + 1], sizes[level + 1], arena, -1, 0, work,
    )  # fmt: skip
    sizes[level + 1] += 1
    progress[USED] = used + 1


@kernel
def finish_level(page_words, keys, values, scans, arena, ids, birth, tree_id, level, node, sizes, progress, work):
    """Write what waits on a level, cut evenly, from its page progress[TAKEN] on; nothing waits when all is written."""
    columns = entry_columns(keys, values, scans.shape[0], level)
    spare = node[-1]
    ends = spare[ENDS]
    progress[USED] = 0
    pages = cuts(node[level], columns, sizes[level], filled(page_words), scans, level, spare)
    while progress[TAKEN] < pages:
        if progress[USED] == ids.shape[0]:
            return
        p = progress[TAKEN]
        lo = ends[p - 1] if p else 0
        put(
            page_words, keys, values, scans, arena, ids, birth, tree_id, level, node, lo, ends[p], sizes, progress, work
        )  # fmt: skip
        progress[TAKEN] = p + 1
    progress[TAKEN] = sizes[level] = 0
