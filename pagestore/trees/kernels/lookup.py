"""Look up many keys of a tree at once.

Look up one key, at the speed of memory.

    root ──▶ leaf:  the separators around the leaf say about where in it the key is: its probe is
    loaded together
                    with the leaf's header, so that a look-up waits for the leaf once

A mispredicted branch costs as much as the rest, so halving has none.
"""

from pagestore.pages.layout import ENTRY_COUNT, HEADER, WORD_MAX, Pages
from pagestore.pages.page import NARROW, bits, child_slot, column, field, halve, lower, run_end
from pagestore.runtime.intrinsics import (
    as_array,
    bytes_at,
    either,
    mapped_at,
    prefetch,
    word_at,
    words_at,
)
from pagestore.runtime.kernel import inlined, kernel
from pagestore.runtime.types import LINE, MappedWords, Table, Words
from pagestore.trees.kernels.arguments import TreeRef
from pagestore.trees.kernels.cursor import above, child_of, root_of

GROUP = 64  # keys that take a step together: more loads than a core keeps in flight, and few pages
VECTORS = 16  # columns searched at once; from this many on, with vector instructions
ALIKE = 4  # keys in one leaf from which on its first column is prefetched whole
RUN_SHORT = 31  # equal entries that are searched in step
FAR = 2 * 64 * LINE  # bits that are worth prefetching
NEAR = 32  # entries that a good guess is off at most; with sixteen to a first word it is off by 20

# numbers that a single look-up needs; LIKE: where a leaf begins that was read before, 0 if none was
WORDS_AT, WORDS, SEEN_AT, SEEN, PAGE_WORDS, ROOT, HEIGHT, VALUES, LIKE, READY = range(10)

# rows of a group's `place`: the leaf of each key, its candidate entries, whether they are equal so
# far; a search and its probes; a key
PAGE, LOW, END, EQUAL, X, SIZE, RUN, BASE, START, WIDTH, FOUND, AT, KEY, PLACE_ROWS = range(14)


@kernel
def get_records(tree, values, wanted, order, places, found, out):
    """Look up wanted[K, n]: set found[n] and out[V, n].  Returns 1, or ``-page_id``.

    Takes GROUP keys at a time, neighbours in `order`, in steps: down to their leaves, through each
    column, to their values. A step's data is loaded while other groups take their steps, each one
    step after the group before. Any order is right, an ascending one is fast.  places[K + 2,
    PLACE_ROWS, GROUP], wider for longer keys, is scratch.
    """
    words, keys = tree.pages.words, tree.keys
    count = order.shape[0] if tree.height else 0
    groups, steps = (count + GROUP - 1) // GROUP, keys + 2
    for turn in range(groups + steps - 1 if groups else 0):
        for step in range(max(0, turn - groups + 1), min(turn + 1, steps)):
            number = turn - step
            group, place = order[number * GROUP : (number + 1) * GROUP], places[number % steps]
            if step == 0:
                status = leaves(tree, wanted, group, place)
                if status < 0:
                    return status
                like = places[max(number - 1, 0) % steps, PAGE, 0]  # which is loaded by now
                prefetch_leaves(words, place[PAGE], group.shape[0], like)
            elif step <= keys:
                locate_column(words, step - 1, keys + values, wanted, group, place)
            else:
                for g in range(group.shape[0]):
                    found[group[g]] = place[EQUAL, g]
                    for v in range(values if place[EQUAL, g] else 0):
                        out[v, group[g]] = field(words, place[PAGE, g], keys + v, place[LOW, g])
    return 1


@kernel
def leaves(tree: TreeRef, wanted: Table, group: Words, place: Table):
    """Make place[PAGE, g] the leaf that key wanted[:, group[g]] belongs to, for all g.  Returns
    1, or ``-page_id``.
    """
    status = place[PAGE] = root_of(tree)
    for level in range(tree.height - 2, -1, -1):
        if status > 0:
            status = children(tree, level, wanted, group, place[KEY], place[PAGE])
    return status


@kernel
def prefetch_leaves(words: MappedWords, pages: Words, n: int, like: int):
    """Prefetch leaves: for ALIKE keys or more as far as the first column reaches in leaf `like`,
    else headers.
    """
    _, start, width = column(words, like, 0)
    reach = start - like + (words[like + ENTRY_COUNT] * width >> 6)
    last = 0
    for g in range(n):
        if pages[g] != last:
            last = pages[g]
            far = reach if g + ALIKE <= n and pages[g + ALIKE - 1] == last else 2 * LINE
            for i in range(last, last + far, LINE):
                prefetch(words, i)


@kernel
def children(tree: TreeRef, level: int, wanted: Table, group: Words, key: Words, pages: Words):
    """Replace index page pages[g] by its child, of that level, for key wanted[:, group[g]], for all
    g.

    Next keys whose first word is between the child's separators take the same child; the search for
    another one starts there, if it is later.  Returns 1, or ``-page_id``.
    """
    words, keys = tree.pages.words, tree.keys
    last = slot = g = 0
    while g < group.shape[0]:
        page = pages[g]
        for c in range(keys):
            key[c] = wanted[c, group[g]]
        if page == last and not above(words, page, slot, key, keys):
            slot = child_behind(words, page, key, keys, slot)
        else:
            slot = child_slot(words, page, key, keys, keys, 0)
        last = page
        below = child_of(tree, page, slot, level)
        if below < 0:
            return below
        low = field(words, page, 0, slot)
        high = field(words, page, 0, slot + 1) if slot + 1 < words[page + ENTRY_COUNT] else WORD_MAX
        pages[g] = below
        g += 1
        while g < group.shape[0] and pages[g] == page and low < wanted[0, group[g]] < high:
            pages[g] = below
            g += 1
    return 1


@kernel
def child_behind(words: MappedWords, page: int, key: Words, keys: int, slot: int):
    """Find the child of a whole key like `child_slot`, galloping from `slot`, before which it is
    not.
    """
    entries, step = words[page + ENTRY_COUNT], 1
    while slot + step < entries and not above(words, page, slot + step, key, keys):
        slot += step
        step <<= 1
    end = min(entries, slot + step)
    while slot + 1 < end:
        middle = (slot + end) >> 1
        if above(words, page, middle, key, keys):
            end = middle
        else:
            slot = middle
    return slot


@kernel
def locate_many(words: MappedWords, m: int, wanted: Table, group: Words, place: Table):
    """Locate each key wanted[:m, group[g]] in page place[PAGE, g] like `locate`; set place[LOW]
    and place[EQUAL].
    """
    # apart, so that it is compiled without the search for a run
    locate_column(words, 0, m, wanted, group, place)
    for c in range(1, m):
        locate_column(words, c, m, wanted, group, place)


@kernel
def locate_column(
    words: MappedWords, c: int, columns: int, wanted: Table, group: Words, place: Table
):
    """Do the step of column c in `locate_many`, after the columns before it; prefetch the next one
    of `columns`.

    All g take each step together.  Their loads do not wait for each other, so cache misses overlap.
    """
    n = group.shape[0]
    pages = place[PAGE]
    low = place[LOW]
    end = place[END]
    equal = place[EQUAL]
    x = place[X]
    size = place[SIZE]
    if c:  # the run of entries that are equal so far
        for g in range(n):
            place[RUN, g] = low[g]
            value = wanted[c - 1, group[g]]
            x[g], size[g] = value + (value < WORD_MAX), equal[g] * min(end[g] - low[g], RUN_SHORT)
        lower_many(words, c - 1, n, place)
        for g in range(n):
            run = place[RUN, g]
            if low[g] - run == RUN_SHORT or x[g] == WORD_MAX:
                low[g] = run_end(words, pages[g], c - 1, run, end[g], wanted[c - 1, group[g]])
            low[g], end[g] = run, low[g]
    else:
        for g in range(n):
            low[g], end[g], equal[g] = 0, words[pages[g] + ENTRY_COUNT], 1
    for g in range(n):
        x[g], size[g] = wanted[c, group[g]], equal[g] * (end[g] - low[g])
    lower_many(words, c, n, place)
    for g in range(n):
        # or one before, which does no harm; after the last page is not a memory
        there = min(low[g], end[g] - 1)
        value = place[BASE, g] + bits(words, place[START, g], place[WIDTH, g], there)
        equal[g] &= (low[g] < end[g]) & (value == x[g])
    for g in range(n if c + 1 < columns else 0):
        _, start, width = column(words, pages[g], c + 1)
        prefetch(words, start + (low[g] * width >> 6))
        prefetch(words, start + (low[g] * width >> 6) + LINE)


@kernel
def lower_many(words: MappedWords, c: int, n: int, place: Table):
    """Search like `lower` for each g < n: move low[g] to the first of size[g] entries whose column
    c is at least x[g].

    Few or wide columns are searched one by one, others with vector instructions; a probe of no
    entry is one before, which does no harm.
    """
    low = place[LOW, :n]
    x = place[X, :n]
    size = place[SIZE, :n]
    base = place[BASE, :n]
    found = place[FOUND, :n]
    start, width = place[START, :n], place[WIDTH, :n]
    left = widest = 0
    for g in range(n):
        base[g], start[g], width[g] = column(words, place[PAGE, g], c)
        left, widest = max(left, size[g]), max(widest, width[g])
    while left > 0 and (n < VECTORS or widest > NARROW):
        for g in range(n):
            half = size[g] + 1 >> 1
            value = base[g] + bits(words, start[g], width[g], low[g] + half - 1)
            low[g] += either(value < x[g], half, 0)
            size[g] -= half
        left >>= 1
    while left > 0:
        for g in range(n):
            found[g] = low[g] + (size[g] + 1 >> 1) - 1
        narrow_many(words, start, width, found, place[AT, :n])
        for g in range(n):
            half = size[g] + 1 >> 1
            low[g] += either(base[g] + found[g] < x[g], half, 0)
            size[g] -= half
        left >>= 1


@kernel
def narrow_many(words: MappedWords, start: Words, width: Words, found: Words, at: Words):
    """Replace each entry number found[g] by its value, read like `narrow`; at[g] is scratch.

    One loop loads; the compiler vectorizes the others.
    """
    n = found.shape[0]
    for g in range(n):
        at[g] = 64 * start[g] + found[g] * width[g]
    for g in range(n):
        found[g] = word_at(words, at[g] >> 3)
    for g in range(n):
        found[g] = found[g] >> (at[g] & 7) & (1 << width[g]) - 1


@kernel
def find_record(ready: int, key: tuple[int, ...], out: int):
    """Look up one key, a tuple, and write its V value words to address `out`.  Returns 1, 0 or
    ``-page_id``.

    Each argument costs time, so map, verified pages and tree are numbers at one address.
    """
    place, wanted = words_at(ready, READY), as_array(key)
    page, slot = find_slot(place, wanted)
    if page < 0 or slot < 0:
        return min(page, 0)
    words = words_at(place[WORDS_AT], place[WORDS])
    keys = wanted.shape[0]
    values = words_at(out, place[VALUES])
    for v in range(values.shape[0]):
        values[v] = field(words, page, keys + v, slot)
    return 1


@kernel
def unpacked(ready: Words, keys: int):
    """Return the tree of which `ready` has the numbers."""
    words, seen = mapped_at(ready[WORDS_AT], ready[WORDS]), bytes_at(ready[SEEN_AT], ready[SEEN])
    return TreeRef(Pages(words, seen, ready[PAGE_WORDS]), ready[ROOT], ready[HEIGHT], keys)


@inlined
def find_slot(ready: Words, wanted: Words):
    """Return (page, slot) of a key, slot -1 if it is absent; or (``-page_id``, -1).

    All that is needed of the leaf is loaded at once: the separators around it say about where in it
    the key is, and the leaf that was read last, whichever it was, where a leaf has its columns.
    """
    tree = unpacked(ready, wanted.shape[0])
    words, keys, top, c, part = tree.pages.words, tree.keys, tree.height - 1, 0, 0.5
    page = root_of(tree) if top >= 0 else 0
    slot, equal = 0, False
    for level in range(top, -1, -1):
        if page < 0:
            break
        prefetch(words, page + HEADER)
        if level == 0 and ready[LIKE]:
            prefetch_near(words, page, ready[LIKE], keys + ready[VALUES], part)
        slot, equal = locate_near(words, page, wanted, keys, c, part)
        if level:
            slot = slot if equal else max(slot - 1, 0)
            c, part = between(words, page, slot, wanted, keys)
            page = child_of(tree, page, slot, level - 1)
        else:
            ready[LIKE] = page
    return page, slot if page > 0 and equal else -1


@kernel
def between(words: MappedWords, page: int, slot: int, key: Words, keys: int):
    """Return the first column in which a child's separator and the next differ, and how far
    between them the key is.
    """
    if slot + 1 < words[page + ENTRY_COUNT]:
        for c in range(keys):
            low, high = field(words, page, c, slot), field(words, page, c, slot + 1)
            if low != high:
                part = (float(key[c]) - float(low)) / max(float(high) - float(low), 1.0)
                return c, min(max(part, 0.0), 1.0)
    return 0, 0.5


@kernel
def prefetch_near(words: MappedWords, page: int, like: int, columns: int, part: float):
    """Prefetch the entries within NEAR of a relative place in a page, with the columns where
    page `like` has them.
    """
    guess = int(part * words[like + ENTRY_COUNT])
    for c in range(columns):
        _, start, width = column(words, like, c)
        begin = page - like + start
        for i in range(
            max(guess - NEAR, 0) * width >> 6, ((guess + NEAR) * width >> 6) + LINE, LINE
        ):
            prefetch(words, begin + i)


@kernel
def locate_near(words: MappedWords, page: int, key: Words, m: int, near_c: int, part: float):
    """Locate a key like `locate`, which is near `part` of the page by column near_c, and equal
    in the ones before.
    """
    lo, hi = 0, words[page + ENTRY_COUNT]
    guess = int(part * hi)
    for c in range(m):
        if c:
            hi = run_end(words, page, c - 1, lo, hi, key[c - 1])
        if c == near_c:
            lo = near(words, page, c, lo, hi, key[c], guess)
        else:
            lo = lower(words, page, c, lo, hi, key[c])
        if lo == hi or field(words, page, c, lo) != key[c]:
            return lo, False
    return lo, True


@kernel
def near(words: MappedWords, page: int, c: int, lo: int, hi: int, x: int, guess: int):
    """Search like `lower`: fast if the result is within NEAR of `guess`, else by `lower_far`
    after two probes.
    """
    base, start, width = column(words, page, c)
    first, last = max(lo, min(guess, hi) - NEAR), min(hi, max(guess, lo) + NEAR)
    if first > lo and base + bits(words, start, width, first - 1) >= x:
        return lower_far(words, page, c, lo, first - 1, x)
    if last < hi and base + bits(words, start, width, last) < x:
        return lower_far(words, page, c, last + 1, hi, x)
    return halve(words, base, start, width, first, last, x)


@kernel
def lower_far(words: MappedWords, page: int, c: int, lo: int, hi: int, x: int):
    """Search like `lower` among entries that are not in the cache: wait once for every three
    halvings.
    """
    base, start, width = column(words, page, c)
    n = hi - lo
    while n > 1:
        if n * width > FAR:
            for k in range(1, 8):
                prefetch(words, start + ((lo + (n * k >> 3)) * width >> 6))
        for _ in range(3):
            half = n >> 1  # with 0 the probe is one before, which does no harm
            lo += either(base + bits(words, start, width, lo + half - 1) < x, half, 0)
            n -= half
    return lo + (n > 0 and base + bits(words, start, width, lo) < x)
