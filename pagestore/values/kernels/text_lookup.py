"""Look texts up in the trees of a dictionary: from a hash to the id, and to the words that are compared.

    hash ──▶ PLACES ──▶ id ──▶ TEXTS (id, 0), (id, 1), ...    the parts of a text are adjacent, mostly in one leaf

UNREADABLE means a text that no kernel can read: a long one, which Python unpacks, or a damaged one, which Python
reports.
"""

from pagestore.pages.layout import ENTRY_COUNT, WORD_MAX, WORD_MIN
from pagestore.pages.page import field, lower
from pagestore.runtime.intrinsics import as_array, bytes_at, words_at
from pagestore.runtime.kernel import inlined, kernel
from pagestore.trees.kernels.batch_lookup import READY, WORDS, WORDS_AT
from pagestore.trees.kernels.point_lookup import find_record, find_slot
from pagestore.values.kernels.text_hash import ROOM, hash_text
from pagestore.values.kernels.text_words import FIRST, copy_word, is_below, part_of

UNREADABLE = WORD_MIN
LENGTH = 0xFFFF  # the bits of part 0 that hold it
LONG = 1024  # bytes; a text of this length or more is not stored in records


@kernel
def find_text(places, texts, data, length, room):
    """Return the id of a text of `length` bytes at address `data`, 0 if there is none; or ``-page_id``, or UNREADABLE.

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
def match_texts(texts, ids, order, offsets, data, size, same):
    """Set same[i] to whether ids[i] is the id of text i in `size` bytes at address `data`, in Arrow's layout.

    For the i in `order`; where their ids ascend, a leaf that holds several is searched for once.  Returns 1, or a
    negative status of `is_text`.
    """
    data, page, slot = bytes_at(data, size), 0, 0
    for k in range(order.shape[0]):
        i = order[k]
        status, page, slot = is_text(texts, page, slot, ids[i], data, offsets[i], offsets[i + 1] - offsets[i])
        if status < 0:
            return status
        same[i] = status == 1
    return 1


@kernel
def measure_texts(texts, ids, places, offsets):
    """Set places[:, i] to where text ids[i] begins, and offsets[i + 1] to the length of the first i + 1 texts together.

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
def copy_texts(texts, ids, places, offsets, data):
    """Copy the texts found by `measure_texts` to data[offsets[i] : offsets[i + 1]].  Returns the same statuses."""
    ready = words_at(texts, READY)
    words = words_at(ready[WORDS_AT], ready[WORDS])
    for i in range(ids.shape[0]):
        page, slot, at, end = places[0, i], places[1, i], offsets[i], offsets[i + 1]
        copy_word(data, at, end, field(words, page, 2, slot) >> 16 & ~(-1 << 8 * FIRST), FIRST)
        at, part = at + FIRST, 1
        while at < end:
            page, slot = next_part(ready, words, page, slot, ids[i], part)
            if slot < 0:
                return page if page < 0 else UNREADABLE
            copy_word(data, at, end, field(words, page, 2, slot), 8)
            at, part = at + 8, part + 1
    return 1


@kernel
def is_text(texts, page, slot, id_, data, start, length):
    """Return (1 or 0, page, slot): whether a text is data[start : start + length], and where it begins.

    `page` and `slot` are a hint as in `head_of`.  Instead of 1 or 0 it may be ``-page_id``, or UNREADABLE.
    """
    ready = words_at(texts, READY)
    words = words_at(ready[WORDS_AT], ready[WORDS])
    page, slot = at, place = head_of(ready, words, page, slot, id_)
    if slot >= 0 and length >= LONG:
        return (UNREADABLE if field(words, page, 2, slot) & LENGTH == LENGTH else 0), page, slot
    for part in range((length + 9) >> 3):
        if part:
            at, place = next_part(ready, words, at, place, id_, part)
        if place < 0:
            return (at if at < 0 else UNREADABLE), 0, 0
        if field(words, at, 2, place) != part_of(data, start, length, part):
            return 0, page, slot
    return 1, page, slot


@kernel
def compare_text(texts, id_, data, length):
    """Return 1 if a text is below data[:length], else 0; or ``-page_id``, or UNREADABLE."""
    ready = words_at(texts, READY)
    words = words_at(ready[WORDS_AT], ready[WORDS])
    page, slot = head_of(ready, words, 0, 0, id_)
    mine = field(words, page, 2, slot) & LENGTH if slot >= 0 else 0
    if mine >= LONG:
        return UNREADABLE
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
def head_of(ready, words, page, slot, id_):
    """Return (page, slot) of the first part of a text, slot -1 where there is none; or (``-page_id``, -1).

    `page` is a leaf to search first, from `slot` on, where the first part of another text is; or 0.
    """
    if page > 0 and field(words, page, 0, slot) <= id_ <= field(words, page, 0, words[page + ENTRY_COUNT] - 1):
        slot = lower(words, page, 0, slot, words[page + ENTRY_COUNT], id_)
        if field(words, page, 0, slot) == id_ and field(words, page, 1, slot) == 0:
            return page, slot
    return find_slot(ready, as_array((id_, 0)))


@inlined
def next_part(ready, words, page, slot, id_, part):
    """Return (page, slot) of a part of a text, given those of the part before it; as `head_of`."""
    slot += 1
    if slot < words[page + ENTRY_COUNT]:
        there = field(words, page, 0, slot) == id_ and field(words, page, 1, slot) == part
        return page, slot if there else -1
    return find_slot(ready, as_array((id_, part)))
