"""Enter texts in a hash table, so that a text repeated in a million rows is looked up once.

    slots      2**k words: 32 bits of a text's hash, then its place in the pool plus one; 0 where free
    pool       for each text: its length in bytes, its id or 0, its words

A slot and its place in the pool are prefetched while other texts are hashed, so that few lookups wait for memory.
"""

import numpy as np

from pagestore.runtime.intrinsics import bytes_at, prefetch
from pagestore.runtime.kernel import inlined, kernel
from pagestore.values.kernels.text_lookup import LONG
from pagestore.values.kernels.text_words import word_from

COUNT, WORDS = range(2)  # in `used`: the number of texts, and of words of the pool
LENGTH, ID, TEXT = range(3)  # offsets from a place in the pool
HALF = 0xFFFFFFFF
ODD = np.int64(-7046029254386353131)  # 2**64 divided by the golden ratio, as hashes by multiplication take it
BLOCK = 32  # texts that are hashed before the first of them is looked up


@kernel
def enter_texts(slots, pool, used, offsets, data, size, first, ids, fresh):
    """Set ids[i] to the id of text i in `size` bytes at address `data`, in Arrow's layout, from i = `first` on.

    For a text without an id it is ~place; fresh[k] is the i of the k-th text entered by this call.  Returns the i
    reached, which is less than n if an array is full; or -1 at a long text.
    """
    data, before = bytes_at(data, size), used[COUNT]
    for begin in range(first, ids.shape[0], BLOCK):
        end = min(begin + BLOCK, ids.shape[0])
        if not hash_block(slots, pool, offsets, data, begin, end, ids):
            return -1
        for i in range(begin, end):
            start, length, tag = offsets[i], offsets[i + 1] - offsets[i], ids[i]
            at, place = find(slots, pool, tag, data, start, length)
            if place < 0:
                place, after = used[WORDS], used[WORDS] + TEXT + (length + 7 >> 3)
                if 2 * used[COUNT] >= slots.shape[0] or after > pool.shape[0]:
                    return i
                add(pool, place, data, start, length)
                slots[at] = tag << 32 | place + 1
                fresh[used[COUNT] - before] = i
                used[COUNT], used[WORDS] = used[COUNT] + 1, after
            ids[i] = pool[place + ID] or ~place
    return ids.shape[0]


@kernel
def spread_slots(slots, wider):
    """Copy the slots of a table to an empty, wider one."""
    mask = wider.shape[0] - 1
    for slot in slots:
        if slot:
            at = slot >> 32 & mask
            while wider[at]:
                at = at + 1 & mask
            wider[at] = slot


@inlined
def hash_block(slots, pool, offsets, data, begin, end, tags):
    """Set the tags of some texts, and prefetch their slots and places; return False if a text is long."""
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
def tag_of(data, start, length):
    """Return 32 bits that depend on all bytes of a text."""
    mixed = length
    for at in range(0, length, 8):
        mixed = (mixed ^ word_from(data, start + at, length - at)) * ODD
        mixed ^= mixed >> 29
    return mixed * ODD >> 32 & HALF


@inlined
def find(slots, pool, tag, data, start, length):
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
def is_text_at(pool, place, data, start, length):
    """Return whether this text is at a place."""
    if pool[place + LENGTH] != length:
        return False
    for at in range(0, length, 8):
        if pool[place + TEXT + (at >> 3)] != word_from(data, start + at, length - at):
            return False
    return True


@inlined
def add(pool, place, data, start, length):
    """Write a text that has no id yet to a place."""
    pool[place + LENGTH], pool[place + ID] = length, 0
    for at in range(0, length, 8):
        pool[place + TEXT + (at >> 3)] = word_from(data, start + at, length - at)
