"""The 8-byte blake2b digest of texts (RFC 7693), as in hashlib, for many texts in one call.

Texts as words: eight bytes of a text at a time, and the words that a dictionary stores of it.
"""

import numpy as np

from pagestore.runtime.intrinsics import bytes_at, put_word, word_at
from pagestore.runtime.kernel import inlined, kernel
from pagestore.runtime.types import Bytes, Words

BLOCK = 128  # bytes that are mixed in at a time
BLOCK_WORDS = 16
ROUNDS = 12
STATE = BLOCK_WORDS  # where the eight words of the state are in a room, after a block
MIXED = STATE + 8  # and the sixteen working words
ROOM = MIXED + 16  # words
START = np.array(
    [
        0x6A09E667F3BCC908,
        0xBB67AE8584CAA73B,
        0x3C6EF372FE94F82B,
        0xA54FF53A5F1D36F1,
        0x510E527FADE682D1,
        0x9B05688C2B3E6C1F,
        0x1F83D9ABFB41BD6B,
        0x5BE0CD19137E2179,
    ],
    np.uint64,
).view(np.int64)
PARAMETERS = 0x01010000 + 8  # no key, one leaf, eight bytes
ORDERS = np.array(
    [
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
        [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
        [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
        [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
        [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
        [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
        [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
        [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
        [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    ]
)  # the order in which the words of a block are mixed in, by round


@kernel
def hash_texts(offsets: Words, data: int, size: int, room: Words, out: Words):
    """Set out[n] to the hashes of Arrow texts in `size` bytes at address `data`; room[ROOM] is
    scratch.
    """
    data = bytes_at(data, size)
    for i in range(out.shape[0]):
        out[i] = hash_text(data, offsets[i], offsets[i + 1] - offsets[i], room)


@kernel
def hash_text(data: Bytes, start: int, length: int, room: Words):
    """Return the first word of the digest of a text."""
    for i in range(8):
        room[STATE + i] = START[i]
    room[STATE] ^= PARAMETERS
    done = 0
    while True:
        for i in range(BLOCK_WORDS):
            room[i] = word_from(data, start + done + 8 * i, length - done - 8 * i)
        last = length - done <= BLOCK
        done = length if last else done + BLOCK
        mix_block(room, done, last)
        if last:
            return room[STATE]


@inlined
def mix_block(room: Words, done: int, last: bool):
    """Mix a block into the state; `done` counts the text's bytes up to the end of the block."""
    for i in range(8):
        room[MIXED + i], room[MIXED + 8 + i] = room[STATE + i], START[i]
    room[MIXED + 12] ^= done
    if last:
        room[MIXED + 14] = ~room[MIXED + 14]
    for turn in range(ROUNDS):
        order = turn % ORDERS.shape[0]
        for k in range(4):
            mix(
                room,
                k,
                4 + k,
                8 + k,
                12 + k,
                room[ORDERS[order, 2 * k]],
                room[ORDERS[order, 2 * k + 1]],
            )
        for k in range(4):
            c, d = 8 + (k + 2) % 4, 12 + (k + 3) % 4
            mix(
                room,
                k,
                4 + (k + 1) % 4,
                c,
                d,
                room[ORDERS[order, 8 + 2 * k]],
                room[ORDERS[order, 9 + 2 * k]],
            )
    for i in range(8):
        room[STATE + i] ^= room[MIXED + i] ^ room[MIXED + 8 + i]


@inlined
def mix(room: Words, a: int, b: int, c: int, d: int, x: int, y: int):
    """Mix two words of a block into four of the state."""
    a, b, c, d = MIXED + a, MIXED + b, MIXED + c, MIXED + d
    room[a] += room[b] + x
    room[d] = turned(room[d] ^ room[a], 32)
    room[c] += room[d]
    room[b] = turned(room[b] ^ room[c], 24)
    room[a] += room[b] + y
    room[d] = turned(room[d] ^ room[a], 16)
    room[c] += room[d]
    room[b] = turned(room[b] ^ room[c], 63)


@inlined
def turned(word: int, bits: int):
    """Rotate the bits of a word to the right."""
    return (word >> bits) & ((1 << (64 - bits)) - 1) | word << (64 - bits)


FIRST = 6  # bytes in part 0 of a text, after its length


@inlined
def word_from(data: Bytes, start: int, left: int):
    """Return the eight bytes of data[start:], of which `left` belong to a text, with zeros after
    these.
    """
    if left >= 8:
        return word_at(data, start)
    if left <= 0:
        return 0
    if start + left >= 8:  # bytes before it are readable; bytes after it may not be
        return word_at(data, start + left - 8) >> 64 - 8 * left & ~(-1 << 8 * left)
    word = np.int64(0)
    for i in range(left):
        word |= np.int64(data[start + i]) << 8 * i
    return word


@inlined
def part_of(data: Bytes, start: int, length: int, part: int):
    """Return the word that a dictionary stores as a part of the text data[start : start +
    length].
    """
    if part == 0:
        return word_from(data, start, min(length, FIRST)) << 16 | length
    at = 8 * part - 2
    return word_from(data, start + at, length - at)


@kernel
def is_below(word: int, other: int):
    """Return whether a word is below another one, comparing their bytes from the first to the
    last.
    """
    differ = word ^ other
    at = 0
    while not differ >> at & 255:
        at += 8
    return (word >> at & 255) < (other >> at & 255)


@inlined
def copy_word(data: Bytes, at: int, word: int, size: int):
    """Write `size` bytes of a word to data[at:], and what follows them in the word to bytes that
    are written later; less where the array ends.
    """
    if at + 8 <= data.shape[0]:
        put_word(data, at, word)
    else:
        for i in range(min(size, data.shape[0] - at)):
            data[at + i] = word >> 8 * i & 255
