"""Look texts up in the trees of a dictionary: from a hash to the id, and to the words that are
compared.

    hash ──▶ PLACES ──▶ id ──▶ TEXTS (id, 0), (id, 1), ...    the parts of a text are adjacent, mostly in one leaf

Where a kernel takes the address of the packed tree of texts, the address and the length of the
tables of symbols follow it, by which packed texts are read (text_symbols.py).

UNREADABLE means a text that no kernel can read: a long one, which Python unpacks, or a damaged one,
which Python reports.

Ranks of texts: how many texts of a dictionary are below each.

Enter texts in a hash table, so that a text repeated in a million rows is looked up once.

    slots      2**k words: 32 bits of a text's hash, then its place in the pool plus one; 0 where free
    pool       for each text: its length in bytes, its id or 0, its words

A slot and its place in the pool are prefetched while other texts are hashed, so that few lookups
wait for memory.
"""

import numpy as np

from pagestore.pages.layout import ENTRY_COUNT, WORD_MAX, WORD_MIN
from pagestore.pages.page import field, lower
from pagestore.runtime.intrinsics import as_array, bytes_at, prefetch, words_at
from pagestore.runtime.kernel import inlined, kernel
from pagestore.runtime.types import Bytes, Flags, Table, Words
from pagestore.trees.kernels.folds import select
from pagestore.trees.kernels.lookup import READY, WORDS, WORDS_AT, find_record, find_slot, unpacked
from pagestore.values.kernels.text_hash import (
    FIRST,
    ROOM,
    copy_word,
    hash_text,
    is_below,
    part_of,
    word_from,
)
from pagestore.values.kernels.text_symbols import ESCAPE, PACKED, SIZES, TABLE_BYTES, TABLE_WORDS

UNREADABLE = WORD_MIN
# of the numbers behind a packed tree of texts
SYMBOLS_AT, SYMBOLS, WITH_SYMBOLS = READY, READY + 1, READY + 2
LENGTH = 0x7FFF  # the bits of part 0 that hold it
LONG = 1024  # bytes; a text of this length or more is not stored in records


@kernel
def find_text(places: int, texts: int, data: int, length: int, room: int):
    """Return the id of a text of `length` bytes at address `data`, 0 if there is none; or
    ``-page_id``, or UNREADABLE.

    `places` and `texts` are addresses of packed trees, and `room` that of ROOM words of scratch.
    """
    text, found = bytes_at(data, length), words_at(room, 1)
    place = hash_text(text, 0, length, words_at(room, ROOM))
    while True:
        status = find_record(places, (place,), room)
        if status <= 0:
            return status
        id_ = found[0]
        status = is_text(texts, 0, 0, id_, text, 0, length)[0]
        if status:
            return id_ if status == 1 else status
        if place == WORD_MAX:
            return UNREADABLE
        place += 1


@kernel
def match_texts(
    texts: int, ids: Words, order: Words, offsets: Words, data: int, size: int, same: Flags
):
    """Set same[i] to whether ids[i] is the id of text i in `size` bytes at address `data`, in
    Arrow's layout.

    For the i in `order`; where their ids ascend, a leaf that holds several is searched for once.
    Returns 1, or a negative status of `is_text`.
    """
    data, page, slot = bytes_at(data, size), 0, 0
    for k in range(order.shape[0]):
        i = order[k]
        status, page, slot = is_text(
            texts, page, slot, ids[i], data, offsets[i], offsets[i + 1] - offsets[i]
        )
        if status < 0:
            return status
        same[i] = status == 1
    return 1


@kernel
def measure_texts(texts: int, ids: Words, places: Table, offsets: Words):
    """Set places[:, i] to where text ids[i] begins, and offsets[i + 1] to the length of the first i
    + 1 texts together.

    Returns 1, ``-page_id``, or UNREADABLE.
    """
    ready = words_at(texts, READY)
    words, page, slot = words_at(ready[WORDS_AT], ready[WORDS]), 0, 0
    for i in range(ids.shape[0]):
        page, slot = head_of(ready, words, page, slot, ids[i])
        if slot < 0:
            return page if page < 0 else UNREADABLE
        length = field(words, page, 2, slot) & LENGTH
        if length >= LONG:
            return UNREADABLE
        places[0, i], places[1, i], offsets[i + 1] = page, slot, offsets[i] + length
    return 1


@kernel
def copy_texts(texts: int, ids: Words, places: Table, offsets: Words, data: Bytes):
    """Copy the texts found by `measure_texts` to data[offsets[i] : offsets[i + 1]].  Returns the
    same statuses.
    """
    ready = words_at(texts, WITH_SYMBOLS)
    words = words_at(ready[WORDS_AT], ready[WORDS])
    symbols = words_at(ready[SYMBOLS_AT], ready[SYMBOLS])
    for i in range(ids.shape[0]):
        page, slot, at, end = places[0, i], places[1, i], offsets[i], offsets[i + 1]
        head = field(words, page, 2, slot)
        if head & PACKED:
            status = copy_packed(ready, words, symbols, page, slot, ids[i], data, at, end)
            if status < 0:
                return status
            continue
        copy_word(data, at, head >> 16, FIRST)
        at, part = at + FIRST, 1
        while at < end:
            page, slot = next_part(ready, words, page, slot, ids[i], part)
            if slot < 0:
                return page if page < 0 else UNREADABLE
            copy_word(data, at, field(words, page, 2, slot), 8)
            at, part = at + 8, part + 1
    return 1


@kernel
def is_text(texts: int, page: int, slot: int, id_: int, data: Bytes, start: int, length: int):
    """Return (1 or 0, page, slot): whether a text is data[start : start + length], and where it
    begins.

    `page` and `slot` are a hint as in `head_of`.  Instead of 1 or 0 it may be ``-page_id``, or
    UNREADABLE.
    """
    ready = words_at(texts, WITH_SYMBOLS)
    words = words_at(ready[WORDS_AT], ready[WORDS])
    page, slot = at, place = head_of(ready, words, page, slot, id_)
    head = field(words, page, 2, slot) if slot >= 0 else 0
    if slot >= 0 and length >= LONG:
        return (UNREADABLE if head & LENGTH == LENGTH else 0), page, slot
    if head & PACKED:
        differ = 1
        if head & LENGTH == length:
            symbols = words_at(ready[SYMBOLS_AT], ready[SYMBOLS])
            differ = differs(ready, words, symbols, page, slot, id_, data, start, length)
        return (differ if differ < 0 else int(differ == 0)), page, slot
    for part in range((length + 9) >> 3):
        if part:
            at, place = next_part(ready, words, at, place, id_, part)
        if place < 0:
            return (at if at < 0 else UNREADABLE), 0, 0
        if field(words, at, 2, place) != part_of(data, start, length, part):
            return 0, page, slot
    return 1, page, slot


@kernel
def compare_text(texts: int, id_: int, data: Bytes, length: int):
    """Return 1 if a text is below data[:length], else 0; or ``-page_id``, or UNREADABLE."""
    ready = words_at(texts, WITH_SYMBOLS)
    words = words_at(ready[WORDS_AT], ready[WORDS])
    page, slot = head_of(ready, words, 0, 0, id_)
    head = field(words, page, 2, slot) if slot >= 0 else 0
    mine = head & LENGTH
    if mine >= LONG:
        return UNREADABLE
    if head & PACKED:
        shared = min(mine, length)
        symbols = words_at(ready[SYMBOLS_AT], ready[SYMBOLS])
        differ = differs(ready, words, symbols, page, slot, id_, data, 0, shared)
        if differ:
            return differ & 1 if differ > 0 else differ
        return int(mine < length)
    for part in range((min(mine, length) + 9) >> 3):
        if part:
            page, slot = next_part(ready, words, page, slot, id_, part)
        if slot < 0:
            return page if page < 0 else UNREADABLE
        word, other = field(words, page, 2, slot), part_of(data, 0, length, part)
        if part == 0:
            word, other = word & ~LENGTH, other & ~LENGTH
        if word != other:
            return is_below(word, other)
    return mine < length


@inlined
def head_of(ready: Words, words: Words, page: int, slot: int, id_: int):
    """Return (page, slot) of the first part of a text, slot -1 where there is none; or
    (``-page_id``, -1).

    `page` is a leaf to search first, from `slot` on, where the first part of another text is; or 0.
    """
    if page > 0 and field(words, page, 0, slot) <= id_ <= field(
        words, page, 0, words[page + ENTRY_COUNT] - 1
    ):
        slot = lower(words, page, 0, slot, words[page + ENTRY_COUNT], id_)
        if field(words, page, 0, slot) == id_ and field(words, page, 1, slot) == 0:
            return page, slot
    return find_slot(ready, as_array((id_, 0)))


@inlined
def next_part(ready: Words, words: Words, page: int, slot: int, id_: int, part: int):
    """Return (page, slot) of a part of a text, given those of the part before it; as `head_of`."""
    slot += 1
    if slot < words[page + ENTRY_COUNT]:
        there = field(words, page, 0, slot) == id_ and field(words, page, 1, slot) == part
        return page, slot if there else -1
    return find_slot(ready, as_array((id_, part)))


@inlined
def copy_packed(
    ready: Words,
    words: Words,
    symbols: Words,
    page: int,
    slot: int,
    id_: int,
    data: Bytes,
    at: int,
    end: int,
):
    """Write a packed text whose first part is at (page, slot) to data[at:end]; return 1, or a
    status as `measure_texts`.
    """
    table, word, left, part = first_codes(words, symbols, page, slot)
    while at < end:
        symbol, size, page, slot, word, left, part = next_symbol(
            ready, words, symbols, table, page, slot, id_, word, left, part
        )
        if size <= 0:
            return page if page < 0 else UNREADABLE
        copy_word(data, at, symbol, size)
        at += size
    return 1


@inlined
def differs(
    ready: Words,
    words: Words,
    symbols: Words,
    page: int,
    slot: int,
    id_: int,
    data: Bytes,
    start: int,
    length: int,
):
    """Return 0 if the first `length` bytes of a packed text are data[start : start + length]; else
    3 if they are below these and 2 if above, or a status as `measure_texts`.
    """
    table, word, left, part = first_codes(words, symbols, page, slot)
    at = 0
    while at < length:
        symbol, size, page, slot, word, left, part = next_symbol(
            ready, words, symbols, table, page, slot, id_, word, left, part
        )
        if size <= 0:
            return page if page < 0 else UNREADABLE
        size = min(size, length - at)
        mine, other = symbol << 64 - 8 * size, word_from(data, start + at, size) << 64 - 8 * size
        if mine != other:
            return 2 + is_below(mine, other)
        at += size
    return 0


@inlined
def first_codes(words: Words, symbols: Words, page: int, slot: int):
    """Return (table, word, left, part): where in `symbols` the table of a packed text begins, -1 if
    it does not exist, and the codes in its first part, for `next_symbol`.
    """
    head = field(words, page, 2, slot)
    table = ((head >> 16 & 255) - 1) * TABLE_WORDS
    there = table + TABLE_WORDS <= symbols.shape[0]
    return table if there else -1, head >> 8 * TABLE_BYTES, 8 - TABLE_BYTES, 0


@inlined
def next_symbol(
    ready: Words,
    words: Words,
    symbols: Words,
    table: int,
    page: int,
    slot: int,
    id_: int,
    word: int,
    left: int,
    part: int,
):
    """Return a symbol of a packed text and its size, and (page, slot, word, left, part) after it:
    `word` has `left` codes yet of the part at (page, slot). Size 0 where nothing can be read.
    """
    escaped = False
    while table >= 0:
        if left == 0:
            page, slot = next_part(ready, words, page, slot, id_, part + 1)
            if slot < 0:
                break
            word, left, part = field(words, page, 2, slot), 8, part + 1
        code, word, left = word & 255, word >> 8, left - 1
        if escaped:
            return code, 1, page, slot, word, left, part
        if code != ESCAPE:
            return (
                symbols[table + code],
                symbols[table + SIZES + code],
                page,
                slot,
                word,
                left,
                part,
            )
        escaped = True
    return 0, 0, page, slot, word, left, part


ORDER_KEYS, ORDER_ID = 1, 1  # of a record (label) -> id


@kernel
def rank_text(order: int, texts: int, data: int, length: int, low: int, high: int):
    """Return how many texts are below the one of `length` bytes at address `data`, known to be
    `low` to `high`.

    `order` and `texts` are addresses of packed trees, and the order's first scan is a count.
    Returns ``-page_id`` for a bad page, UNREADABLE where it would compare a long text.  O(log
    texts) steps of O(log texts).
    """
    ready, text = words_at(order, READY), bytes_at(data, length)
    tree = unpacked(ready, ORDER_KEYS)
    while low < high:
        middle = (low + high) >> 1
        page, slot = select(tree, 0, middle)
        below = (
            compare_text(texts, field(tree.pages.words, page, ORDER_ID, slot), text, length)
            if page > 0
            else page
        )
        if below < 0:
            return below
        if below:
            low = middle + 1
        else:
            high = middle
    return low


TEXT_COUNT, POOL_WORDS = range(2)  # in `used`: the number of texts, and of words of the pool
SIZE, ID, TEXT = range(3)  # offsets from a place in the pool
HALF = 0xFFFFFFFF
# 2**64 divided by the golden ratio, as hashes by multiplication take it
ODD = np.int64(-7046029254386353131)
BLOCK = 32  # texts that are hashed before the first of them is looked up


@kernel
def enter_texts(slots, pool, used, offsets, data, size, first, ids, fresh):
    """Set ids[i] to the id of text i in `size` bytes at address `data`, in Arrow's layout, from i =
    `first` on.

    For a text without an id it is ~place; fresh[k] is the i of the k-th text entered by this call.
    Returns the i reached, which is less than n if an array is full; or -1 at a long text.
    """
    data, before = bytes_at(data, size), used[TEXT_COUNT]
    for begin in range(first, ids.shape[0], BLOCK):
        end = min(begin + BLOCK, ids.shape[0])
        if not hash_block(slots, pool, offsets, data, begin, end, ids):
            return -1
        for i in range(begin, end):
            start, length, tag = offsets[i], offsets[i + 1] - offsets[i], ids[i]
            at, place = find(slots, pool, tag, data, start, length)
            if place < 0:
                place, after = used[POOL_WORDS], used[POOL_WORDS] + TEXT + (length + 7 >> 3)
                if 2 * used[TEXT_COUNT] >= slots.shape[0] or after > pool.shape[0]:
                    return i
                add(pool, place, data, start, length)
                slots[at] = tag << 32 | place + 1
                fresh[used[TEXT_COUNT] - before] = i
                used[TEXT_COUNT], used[POOL_WORDS] = used[TEXT_COUNT] + 1, after
            ids[i] = pool[place + ID] or ~place
    return ids.shape[0]


@kernel
def spread_slots(slots: Words, wider: Words):
    """Copy the slots of a table to an empty, wider one."""
    mask = wider.shape[0] - 1
    for slot in slots:
        if slot:
            at = slot >> 32 & mask
            while wider[at]:
                at = at + 1 & mask
            wider[at] = slot


@inlined
def hash_block(
    slots: Words, pool: Words, offsets: Words, data: Bytes, begin: int, end: int, tags: Words
):
    """Set the tags of some texts, and prefetch their slots and places; return False if a text is
    long.
    """
    mask = slots.shape[0] - 1
    for i in range(begin, end):
        if offsets[i + 1] - offsets[i] >= LONG:
            return False
        tags[i] = tag_of(data, offsets[i], offsets[i + 1] - offsets[i])
        prefetch(slots, tags[i] & mask)
    for i in range(begin, end):
        prefetch(pool, max(0, (slots[tags[i] & mask] & HALF) - 1))
    return True


@inlined
def tag_of(data: Bytes, start: int, length: int):
    """Return 32 bits that depend on all bytes of a text."""
    mixed = length
    for at in range(0, length, 8):
        mixed = (mixed ^ word_from(data, start + at, length - at)) * ODD
        mixed ^= mixed >> 29
    return mixed * ODD >> 32 & HALF


@inlined
def find(slots: Words, pool: Words, tag: int, data: Bytes, start: int, length: int):
    """Return (slot, place in the pool) of a text; if it is absent, a free slot and -1."""
    mask = slots.shape[0] - 1
    at = tag & mask
    while slots[at]:
        place = (slots[at] & HALF) - 1
        if slots[at] >> 32 & HALF == tag and is_text_at(pool, place, data, start, length):
            return at, place
        at = at + 1 & mask
    return at, -1


@inlined
def is_text_at(pool: Words, place: int, data: Bytes, start: int, length: int):
    """Return whether this text is at a place."""
    if pool[place + SIZE] != length:
        return False
    for at in range(0, length, 8):
        if pool[place + TEXT + (at >> 3)] != word_from(data, start + at, length - at):
            return False
    return True


@inlined
def add(pool: Words, place: int, data: Bytes, start: int, length: int):
    """Write a text that has no id yet to a place."""
    pool[place + SIZE], pool[place + ID] = length, 0
    for at in range(0, length, 8):
        pool[place + TEXT + (at >> 3)] = word_from(data, start + at, length - at)
