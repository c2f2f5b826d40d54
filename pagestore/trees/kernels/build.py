"""Build a tree bottom-up from a stream of sorted records, with pages that are full but for a
sixteenth.

Level 0 of `node` takes the records, every level above the entries of the pages below it.  A level
is written out greedily while more than a page's worth waits; the rest is cut evenly at the end.
"""

from pagestore.pages.build import ENDS, cuts, emit, entry_columns, fill
from pagestore.pages.layout import Entries, FreshPage, Kept, ParentEntry, Shape
from pagestore.pages.page import records_max
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import Table, Words
from pagestore.trees.kernels.arguments import FreshPages, Loading

# columns; of wider records as many wait as take the room of a full page of WIDE / 4 columns
WIDE = 255
SPARE = 16  # one part in SPARE of a page stays free, so that its first edits do not split it

# words of `progress`
USED, TAKEN, UNSORTED = range(3)


@kernel
def load_records(shape: Shape, records: Table, pages: FreshPages, last: Words, loading: Loading):
    """Take in records[C, n] from progress[TAKEN] on; stops when the arena is full (see
    arguments.py).

    `last` holds the newest key; a record not above it stops the load with progress[UNSORTED] = 1.
    """
    node, sizes, progress, keys = loading.node, loading.sizes, loading.progress, shape.keys
    columns = keys + shape.values
    n = records.shape[1]
    batch = 2 * waiting_max(pages.page_words, columns)
    progress[USED] = 0
    while progress[TAKEN] < n:
        if progress[USED] + sizes.shape[0] + 4 > pages.ids.shape[0]:
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
            spill(shape, pages, loading)


@kernel
def ascending(records: Table, keys: int, lo: int, hi: int, last: Words, started: bool, room: Words):
    """Return the first of records lo..hi that is not above the one before it, `last` for the first;
    hi if all are.

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
    # all columns: how many are equal is unpredictable, so a branch would cost more
    for c in range(keys - 1, -1, -1):
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
def spill(shape: Shape, pages: FreshPages, loading: Loading):
    """Write one page from every level that has two pages' worth of entries waiting."""
    node, sizes, page_words = loading.node, loading.sizes, pages.page_words
    level = 0
    columns = shape.keys + shape.values
    while sizes[level] >= 2 * waiting_max(page_words, columns):
        lo, most = 0, waiting_max(page_words, columns)
        while sizes[level] - lo > most:
            end = fill(
                node[level],
                columns,
                lo,
                sizes[level],
                filled(page_words),
                shape.scans,
                level,
                node[-1],
            )
            if loading.progress[USED] + sizes.shape[0] >= pages.ids.shape[0]:
                break
            put(shape, pages, level, lo, end, loading)
            lo = end
        for c in range(columns):
            for i in range(lo, sizes[level]):
                node[level, c, i - lo] = node[level, c, i]
        sizes[level] -= lo
        level += 1
        columns = entry_columns(shape.keys, shape.values, shape.scans.shape[0], level)


@kernel
def waiting_max(page_words: int, columns: int):
    """Return how many entries of `columns` columns may wait beyond a full page."""
    return (
        records_max(page_words)
        if columns <= WIDE
        else records_max(page_words) * WIDE // (4 * columns)
    )


@kernel
def filled(page_words: int):
    """Return the words of a page without its spare part."""
    return page_words - page_words // SPARE


@kernel
def put(shape: Shape, pages: FreshPages, level: int, lo: int, hi: int, loading: Loading):
    """Write entries lo..hi of a level as one page, and append its entry to the level above."""
    node = loading.node
    sizes = loading.sizes
    used = loading.progress[USED]
    page_words = pages.page_words
    fresh = FreshPage(pages.arena, used * page_words, page_words, pages.ids[used], pages.birth)
    entries, parent = Entries(node[level], lo, hi), ParentEntry(node[level + 1], sizes[level + 1])
    emit(fresh, shape, level, entries, parent, pages.arena, Kept(-1, 0, 0), loading.work)
    sizes[level + 1] += 1
    loading.progress[USED] = used + 1


@kernel
def finish_level(shape: Shape, pages: FreshPages, level: int, loading: Loading):
    """Write the entries waiting on a level, cut evenly, from its page progress[TAKEN] on; when
    done, none waits.
    """
    node, sizes, progress = loading.node, loading.sizes, loading.progress
    columns = entry_columns(shape.keys, shape.values, shape.scans.shape[0], level)
    spare = node[-1]
    ends = spare[ENDS]
    progress[USED] = 0
    count = cuts(
        node[level], columns, sizes[level], filled(pages.page_words), shape.scans, level, spare
    )
    while progress[TAKEN] < count:
        if progress[USED] == pages.ids.shape[0]:
            return
        p = progress[TAKEN]
        put(shape, pages, level, ends[p - 1] if p else 0, ends[p], loading)
        progress[TAKEN] = p + 1
    progress[TAKEN] = sizes[level] = 0
