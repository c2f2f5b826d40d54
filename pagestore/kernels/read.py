"""Batches out of a tree: many keys at once, a range as columns, the pages of a tree."""

import numpy as np

from pagestore.kernels.borrow import borrowed
from pagestore.kernels.cursor import (
    CURSOR_WORDS,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    above,
    next_leaf,
    seek,
)
from pagestore.kernels.enter import child, columns_at, enter
from pagestore.kernels.kernel import allocating, kernel
from pagestore.kernels.machine import LINE, as_array, bytes_at, either, prefetch, word_at, words_at
from pagestore.kernels.page import (
    NARROW,
    bits,
    child_slot,
    column,
    field,
    halve,
    locate,
    lower,
    run_end,
    unpack,
)
from pagestore.layout import COUNT, GREATEST, HEADER, ID, PAGES

GROUP = 64  # keys that take a step side by side: more loads than a core keeps under way, and few pages
VECTORS = 16  # so many columns or more are looked into by vectors
ALIKE = 4  # keys in one leaf for which it is loaded at once
RUN_SHORT = 31  # equal entries that are looked through in step
FAR = 2 * 64 * LINE  # bits that are worth to be prefetched
NEAR = 32  # entries that a good guess is off at most; sixteen to a first column put it off by 20

# numbers that a single look-up needs; LIKE: where a leaf of the tree begins that was read before, 0 if none was
WORDS_AT, WORDS, SEEN_AT, SEEN, PAGE_WORDS, ROOT, HEIGHT, VALUES, LIKE, READY = range(10)

# rows of a group's `place`: the leaf of each key, what may hold it there, whether it does so far; a search and
# its probes; a key
PAGE, LOW, END, EQUAL, X, SIZE, RUN, BASE, START, WIDTH, FOUND, AT, KEY, PLACE_ROWS = range(14)


@kernel
def get_records(words, seen, page_words, root, height, keys, values, wanted, order, places, found, out):
    """Look up wanted[K, n]: sets found[n] and out[V, n].  Returns 1, or ``-page_id``.

    Takes GROUP keys at a time, neighbours in `order`, in steps: down to their leaves, through each column, to their
    values. What a step will look at comes from memory while other groups take theirs, which are a step behind each.
    Any order is right, an ascending one is fast.  places[K + 2, PLACE_ROWS, GROUP], wider for longer keys, is scratch.
    """
    count = order.shape[0] if height else 0
    groups, steps = (count + GROUP - 1) // GROUP, keys + 2
    for turn in range(groups + steps - 1 if groups else 0):
        for step in range(max(0, turn - groups + 1), min(turn + 1, steps)):
            number = turn - step
            group, place = order[number * GROUP : (number + 1) * GROUP], places[number % steps]
            if step == 0:
                status = leaves(words, seen, page_words, root, height, keys, wanted, group, place)
                if status < 0:
                    return status
                like = places[max(number - 1, 0) % steps, PAGE, 0]  # which has come since
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
def leaves(words, seen, page_words, root, height, keys, wanted, group, place):
    """Make place[PAGE, g] the leaf that key wanted[:, group[g]] belongs to, for all g.  Returns 1, or ``-page_id``."""
    status = place[PAGE] = enter(words, seen, page_words, root, height - 1, columns_at(root, keys, height - 1))
    for level in range(height - 2, -1, -1):
        if status > 0:
            columns = columns_at(root, keys, level)
            status = children(words, seen, page_words, level, columns, keys, wanted, group, place[KEY], place[PAGE])
    return status


@kernel
def prefetch_leaves(words, pages, n, like):
    """Begin to load leaves: those of ALIKE keys or more as far as the first column reaches in leaf `like`, or heads."""
    _, start, width = column(words, like, 0)
    reach = start - like + (words[like + COUNT] * width >> 6)
    last = 0
    for g in range(n):
        if pages[g] != last:
            last = pages[g]
            far = reach if g + ALIKE <= n and pages[g + ALIKE - 1] == last else 2 * LINE
            for i in range(last, last + far, LINE):
                prefetch(words, i)


@kernel
def children(words, seen, page_words, level, columns, keys, wanted, group, key, pages):
    """Put the child, of that level, that key wanted[:, group[g]] belongs to in place of index page pages[g], for all g.

    Keys that are clearly between the separators around a child follow it there; the next one is looked for from there
    on, if it is behind.  Returns 1, or ``-page_id``.
    """
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
        below = child(words, seen, page_words, page, keys, slot, level, columns)
        if below < 0:
            return below
        low = field(words, page, 0, slot)
        high = field(words, page, 0, slot + 1) if slot + 1 < words[page + COUNT] else GREATEST
        pages[g] = below
        g += 1
        while g < group.shape[0] and pages[g] == page and low < wanted[0, group[g]] < high:
            pages[g] = below
            g += 1
    return 1


@kernel
def child_behind(words, page, key, keys, slot):
    """As `child_slot` for a whole key that belongs to the child at `slot` or to one behind it; gallops."""
    entries, step = words[page + COUNT], 1
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
def locate_many(words, m, wanted, group, place):
    """As `locate`, for key wanted[:m, group[g]] in page place[PAGE, g], for all g: place[LOW] and place[EQUAL]."""
    locate_column(words, 0, m, wanted, group, place)  # apart, so that it is compiled without a run to look for
    for c in range(1, m):
        locate_column(words, c, m, wanted, group, place)


@kernel
def locate_column(words, c, columns, wanted, group, place):
    """As `locate_many`, from what columns before c found on; begins to load what the next of so many columns has there.

    All g take each step side by side.  Their loads do not wait for each other, so cache misses overlap.
    """
    n = group.shape[0]
    pages, low, end, equal, x, size = place[PAGE], place[LOW], place[END], place[EQUAL], place[X], place[SIZE]
    if c:  # the run of entries that are equal so far
        for g in range(n):
            place[RUN, g] = low[g]
            value = wanted[c - 1, group[g]]
            x[g], size[g] = value + (value < GREATEST), equal[g] * min(end[g] - low[g], RUN_SHORT)
        lower_many(words, c - 1, n, place)
        for g in range(n):
            run = place[RUN, g]
            if low[g] - run == RUN_SHORT or x[g] == GREATEST:
                low[g] = run_end(words, pages[g], c - 1, run, end[g], wanted[c - 1, group[g]])
            low[g], end[g] = run, low[g]
    else:
        for g in range(n):
            low[g], end[g], equal[g] = 0, words[pages[g] + COUNT], 1
    for g in range(n):
        x[g], size[g] = wanted[c, group[g]], equal[g] * (end[g] - low[g])
    lower_many(words, c, n, place)
    for g in range(n):
        there = min(low[g], end[g] - 1)  # or one before, which does no harm; behind the last page is no memory
        value = place[BASE, g] + bits(words, place[START, g], place[WIDTH, g], there)
        equal[g] &= (low[g] < end[g]) & (value == x[g])
    for g in range(n if c + 1 < columns else 0):
        _, start, width = column(words, pages[g], c + 1)
        prefetch(words, start + (low[g] * width >> 6))
        prefetch(words, start + (low[g] * width >> 6) + LINE)


@kernel
def lower_many(words, c, n, place):
    """As `lower`, for each g < n: moves low[g] to the first of size[g] entries whose column c is at least x[g].

    Few, and wide ones, are looked into one by one, others by vectors; a probe of no entry is one before, which does no
    harm.
    """
    low, x, size, base, found = place[LOW, :n], place[X, :n], place[SIZE, :n], place[BASE, :n], place[FOUND, :n]
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
def narrow_many(words, start, width, found, at):
    """As `narrow`, of entry found[g] for each g, put in its place; at[g] is room.

    One loop loads, and of the others the compiler makes vectors.
    """
    n = found.shape[0]
    for g in range(n):
        at[g] = 64 * start[g] + found[g] * width[g]
    for g in range(n):
        found[g] = word_at(words, at[g] >> 3)
    for g in range(n):
        found[g] = found[g] >> (at[g] & 7) & (1 << width[g]) - 1


@kernel
def find_record(ready, key, out):
    """Look up one key, a tuple, and write its V value words to address `out`.  Returns 1, 0 or ``-page_id``.

    A call costs by its arguments, so map, verified pages and tree come as numbers, at one address.  What the leaf is
    asked comes from memory all at once: the separators around it say where in it the key is about, and the leaf that
    was read before, whichever, where such a leaf has its columns.
    """
    ready, wanted = words_at(ready, READY), as_array(key)
    words, seen = words_at(ready[WORDS_AT], ready[WORDS]), bytes_at(ready[SEEN_AT], ready[SEEN])
    root, keys, page_words = ready[ROOT], wanted.shape[0], ready[PAGE_WORDS]
    top, c, part = ready[HEIGHT] - 1, 0, 0.5
    page = enter(words, seen, page_words, root, top, columns_at(root, keys, top)) if top >= 0 else 0
    for level in range(top, -1, -1):
        if page < 0:
            return page
        prefetch(words, page + HEADER)
        if level == 0 and ready[LIKE]:
            prefetch_near(words, page, ready[LIKE], keys + ready[VALUES], part)
        slot, equal = locate_near(words, page, wanted, keys, c, part)
        if level:
            slot = slot if equal else max(slot - 1, 0)
            c, part = between(words, page, slot, wanted, keys)
            page = child(words, seen, page_words, page, keys, slot, level - 1, columns_at(root, keys, level - 1))
            continue
        ready[LIKE] = page
        if equal:
            values = words_at(out, ready[VALUES])
            for v in range(values.shape[0]):
                values[v] = field(words, page, keys + v, slot)
            return 1
    return 0


@kernel
def between(words, page, slot, key, keys):
    """The first column that a child's separator and the next one differ in, and how far between them the key is."""
    if slot + 1 < words[page + COUNT]:
        for c in range(keys):
            low, high = field(words, page, c, slot), field(words, page, c, slot + 1)
            if low != high:
                part = (float(key[c]) - float(low)) / max(float(high) - float(low), 1.0)
                return c, min(max(part, 0.0), 1.0)
    return 0, 0.5


@kernel
def prefetch_near(words, page, like, columns, part):
    """Begin to load the entries within NEAR of a part of a page, where another page has its columns."""
    guess = int(part * words[like + COUNT])
    for c in range(columns):
        _, start, width = column(words, like, c)
        begin = page - like + start
        for i in range(max(guess - NEAR, 0) * width >> 6, ((guess + NEAR) * width >> 6) + LINE, LINE):
            prefetch(words, begin + i)


@kernel
def locate_near(words, page, key, m, near_c, part):
    """As `locate`, of a key that is about at that part of the page by column near_c, and equal in those before it."""
    lo, hi = 0, words[page + COUNT]
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
def near(words, page, c, lo, hi, x, guess):
    """As `lower`, where that is within NEAR of a guess; where it is not, as `lower_far`, two probes later."""
    base, start, width = column(words, page, c)
    first, last = max(lo, min(guess, hi) - NEAR), min(hi, max(guess, lo) + NEAR)
    if first > lo and base + bits(words, start, width, first - 1) >= x:
        return lower_far(words, page, c, lo, first - 1, x)
    if last < hi and base + bits(words, start, width, last) < x:
        return lower_far(words, page, c, last + 1, hi, x)
    return halve(words, base, start, width, first, last, x)


@kernel
def lower_far(words, page, c, lo, hi, x):
    """As `lower`, of entries that are not in the cache: waits once for every three halvings."""
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


@allocating
def count_prefixes(words, seen, page_words, root, height, keys, wanted, most, counts):
    """How many records, up to `most`, start with each of wanted[m, n].  Returns 1, or ``-page_id``.

    A prefix in the leaf where the one before it ended is found without a descent, so ascending ones are cheap.
    """
    words, seen, wanted, counts = borrowed(words), borrowed(seen), borrowed(wanted), borrowed(counts)
    cursor = np.empty(CURSOR_WORDS, np.int64)
    m = wanted.shape[0]
    key = np.empty(m, np.int64)
    status = 0
    for i in range(wanted.shape[1]):
        again = i > 0  # the cursor may stand among the records of a prefix that was counted up to `most`
        for c in range(m):
            again &= key[c] == wanted[c, i]
            key[c] = wanted[c, i]
        counts[i] = counts[i - 1] if again else 0
        if again:
            continue
        page, slot = cursor[LEAF_PAGE], cursor[LEAF_SLOT]
        if status == 1 and not above(words, page, slot, key, m):
            cursor[LEAF_SLOT], _ = locate(words, page, key, m, slot)
            status = int(cursor[LEAF_SLOT] < cursor[LEAF_ENTRIES])
        else:
            status = 0
        if status == 0:
            status = seek(words, seen, page_words, root, height, keys, key, m, cursor, 0)
        while status == 1 and counts[i] < most and starts_with(words, cursor, key, m):
            counts[i] += 1
            cursor[LEAF_SLOT] += 1
            if cursor[LEAF_SLOT] == cursor[LEAF_ENTRIES]:
                status = next_leaf(words, seen, page_words, keys, cursor, 0)
        if status < 0:
            return status
    return 1


@kernel
def starts_with(words, cursor, key, m):
    for c in range(m):
        if field(words, cursor[LEAF_PAGE], c, cursor[LEAF_SLOT]) != key[c]:
            return False
    return True


@kernel
def read_range(words, seen, page_words, keys, columns, stop, stop_m, cursor, out):
    """Decode records from a cursor (see `cursor.seek`) on, up to key ``stop[:stop_m]``, into out[C, n].

    Returns how many; fewer than n means the range is done.  A negative number is ``-page_id``.
    """
    n = 0
    while n < out.shape[1] and cursor[LEAF_PAGE] >= 0:
        page, slot, entries = cursor[LEAF_PAGE], cursor[LEAF_SLOT], cursor[LEAF_ENTRIES]
        end = entries
        if stop_m:
            end, _ = locate(words, page, stop, stop_m, 0)
        take = min(end - slot, out.shape[1] - n)
        if take > 0:
            for c in range(columns.shape[0]):
                unpack(words, page, columns[c], slot, slot + take, out[c], n)
            n += take
            cursor[LEAF_SLOT] = slot + take
        if end < entries and cursor[LEAF_SLOT] >= end:
            cursor[LEAF_PAGE] = -1
        elif cursor[LEAF_SLOT] == entries:
            status = next_leaf(words, seen, page_words, keys, cursor, 0)
            if status < 0:
                return status
    return n


@allocating
def tree_pages(words, seen, page_words, root, height, keys, out):
    """Page ids of a tree, root first, into `out`; returns how many there are (or ``-page_id``).

    When `out` is too small the count still comes back, so the caller can grow it.  A tree that has more pages than the
    file comes to some of them again: it is the root's page that is said to be bad then.
    """
    way = np.empty((height, 2), np.int64)  # by level: the index page that was come through, the slot of its next child
    n, level, page_id = 0, height - 1, root & PAGES
    page = enter(words, seen, page_words, root, level, keys + 1) if height > 1 else 0
    while 0 <= level < height:
        if page < 0:
            return page
        if n == seen.shape[0]:
            return -(root & PAGES)
        if n < out.shape[0]:
            out[n] = page_id
        n += 1
        if level:
            way[level, 0], way[level, 1] = page, 0
        level = max(level, 1)
        while level < height and way[level, 1] == words[way[level, 0] + COUNT]:
            level += 1
        if level < height:
            parent, slot = way[level, 0], way[level, 1]
            page_id = field(words, parent, keys, slot)
            way[level, 1] += 1
            level -= 1
            if level:
                page = child(words, seen, page_words, parent, keys, slot, level, keys + 1)
            elif page_id <= 0 or page_id >= seen.shape[0]:
                page = -words[parent + ID]
    return n
