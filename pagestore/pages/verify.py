"""How kernels reach pages: a page is verified when it is first touched.

    root ──▶ enter ──▶ page ──▶ child ──▶ page ──▶ child ──▶ page        each at its level, with the columns wanted

``seen[page]`` is 0 until the page is verified, then its number of columns, or SEEN_MAX if it has
more. One comparison thus says that the page was verified and has every column that the caller will
read: a page reached through another tree may have fewer. To read more than SEEN_MAX columns, the
page's own header is checked each time.

For a bad page `enter` and `child` return ``-page_id``; every kernel passes a negative page up as
its status, and the Python wrapper raises CorruptionError. If the disk lost a write, the page is
intact but old: its birth is not the one that its parent records.

crc32c of pages, one word per step: by the processor's instruction, or by tables if it has none.

The instruction takes three cycles, and one can begin every cycle. So `stamp` interleaves three
pages, each an independent chain; and `checksum` three parts of a page, whose checksums it then
joins: zeros after a part multiply its checksum, a polynomial, by a power of x.
"""

import numpy as np

from pagestore.pages.layout import (
    BIRTH,
    BIRTH_MASK,
    CRC,
    ENTRY_COUNT,
    HEADER,
    ID,
    INDEX,
    LEAF,
    PAGE_MASK,
    PAGE_SIZE_MAX,
    PAGE_SIZE_MIN,
    SCAN,
    TYPE,
    WORD,
    Pages,
    pointer_birth,
    pointer_columns,
)
from pagestore.pages.page import birth_at, columns_of, field, folds_of, records_max, type_word
from pagestore.pages.scan_tree import ENTRIES_MIN, tree_start
from pagestore.runtime.intrinsics import crc_of_word, has_crc_instruction
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import Bytes, MappedWords, Words

KIND_AND_LEVEL = 0xFF0F  # bits of a type word
FOLDS_AND_TREE = 24  # from this bit on, the type words of a tree's pages are the same
SEEN_MAX = 255  # a byte
DEPTH_MAX = 15  # of a ScanTree

columns_below = kernel(pointer_columns)
birth_of = kernel(pointer_birth)


@kernel
def enter(pages: Pages, root: int, level: int, columns: int):
    """Return the first word of the page that pointer `root` leads to, verified to be of `level`,
    or ``-page_id``.
    """
    page_id = root & PAGE_MASK
    if page_id == 0 or page_id >= pages.seen.shape[0]:
        return -max(page_id, 1)
    if pages.seen[page_id] < columns:
        return look(pages, page_id, level, columns, 0, birth_of(root))
    return page_id * pages.page_words


@kernel
def child(pages: Pages, page: int, keys: int, slot: int, level: int, columns: int):
    """Like `enter`, for the child at a slot of an index page; if its number is out of range, the
    parent is bad.
    """
    words = pages.words
    page_id = field(words, page, keys, slot)
    if page_id <= 0 or page_id >= pages.seen.shape[0]:
        return -words[page + ID]
    if pages.seen[page_id] < columns:
        kin, birth = words[page + TYPE] >> FOLDS_AND_TREE, birth_at(words, page, keys, slot)
        return look(pages, page_id, level, columns, kin, birth)
    return page_id * pages.page_words


@kernel
def columns_at(root: int, keys: int, level: int):
    """Return how many columns a kernel that reads no folds reads of the pages at a level below a
    pointer.
    """
    return keys + 1 if level > 0 else max(keys, columns_below(root))


@kernel
def look(pages: Pages, page_id: int, level: int, columns: int, kin: int, birth: int):
    """Like `enter`, for a page that is not verified yet, or has too few columns.

    `kin` holds the folds and tree id, `birth` the birth that the parent expects; 0 means any.
    """
    words, seen, page_words = pages.words, pages.seen, pages.page_words
    page = page_id * page_words
    if (
        seen[page_id] == 0
        and is_meant(words, page, page_id, level, kin, birth)
        and is_whole(words, page, page_words)
    ):
        seen[page_id] = min(columns_of(words, page), SEEN_MAX)
    enough = seen[page_id] >= columns or (
        seen[page_id] == SEEN_MAX and columns_of(words, page) >= columns
    )
    return page if enough else -page_id


@kernel
def mark(arena: Words, ids: Words, seen: Bytes, page_words: int):
    """Mark pages ids[n], just written from an arena, as verified; pages of runs, which no tree
    enters, stay at 0.
    """
    for i in range(ids.shape[0]):
        seen[ids[i]] = min(columns_of(arena, i * page_words), SEEN_MAX)


@kernel
def is_meant(words: MappedWords, page: int, page_id: int, level: int, kin: int, birth: int):
    """Return whether a page's number, kind, level, tree and birth agree with its parent."""
    kind = words[page + TYPE]
    if words[page + ID] != page_id or kind & KIND_AND_LEVEL != type_word(
        INDEX if level else LEAF, level, 0, 0, 0
    ):
        return False
    if kin and kind >> FOLDS_AND_TREE != kin:
        return False
    return birth == 0 or (words[page + BIRTH] ^ birth) & BIRTH_MASK == 0


@kernel
def is_whole(words: MappedWords, page: int, page_words: int):
    """Return whether a page's bytes match its checksum, and its columns and its ScanTree lie
    inside it.
    """
    if words[page + CRC] != checksum(words, page, page_words):
        return False
    n, columns = words[page + ENTRY_COUNT], columns_of(words, page)
    first = HEADER + 2 * columns
    if n < 1 or n > records_max(page_words) or columns == 0:
        return False
    return lie_inside(words, page, page + HEADER, columns, n, first, page_words) and (
        words[page + SCAN] & 255 == 0 or scan_tree_is_whole(words, page, n, page_words)
    )


@kernel
def lie_inside(words, page, descriptors, columns, n, first, page_words):
    """Return whether columns of n entries lie between word `first` of a page and its last one,
    which stays free.
    """
    if descriptors - page + 2 * columns > page_words:
        return False
    for c in range(columns):
        offset, width = words[descriptors + 2 * c + 1] >> 8, words[descriptors + 2 * c + 1] & 255
        if width > 64 or offset < first or offset + (n * width + 63 >> 6) > page_words - 1:
            return False
    return True


@kernel
def scan_tree_is_whole(words: MappedWords, page: int, n: int, page_words: int):
    """Return whether a page's ScanTree lies inside the page and the starts of its leaves ascend."""
    header, folds = words[page + SCAN], folds_of(words, page)
    depth, at = header & 255, header >> 8 & 0xFFFFFF
    if depth > DEPTH_MAX or ENTRIES_MIN << depth > records_max(page_words) or at < HEADER:
        return False
    leaves, area, first = 1 << depth, page + at, at + 2 * (1 + folds)
    if not lie_inside(words, page, area, 1, leaves, first, page_words):
        return False
    if not lie_inside(words, page, area + 2, folds, 2 * leaves - 1, first, page_words):
        return False
    for j in range(leaves):
        start = tree_start(words, page, area, n, depth, j)
        if (
            start < 0
            or start >= tree_start(words, page, area, n, depth, j + 1)
            or (start > 0 and j == 0)
        ):
            return False
    return tree_start(words, page, area, n, depth, leaves - 1) < n


ONES = 0xFFFFFFFF  # the initial value of a crc, and its final xor
POLYNOMIAL = 0x82F63B78
SMALLEST = (PAGE_SIZE_MIN // WORD).bit_length() - 1  # log2 of the words of the smallest page


def _tables() -> np.ndarray:
    """Compute eight tables of the reflected Castagnoli polynomial: eight bytes per step
    ("slicing by eight").
    """
    table = np.empty((8, 256), np.int64)
    crc = np.arange(256)
    for _ in range(8):
        crc = crc >> 1 ^ (crc & 1) * POLYNOMIAL
    table[0] = crc
    for k in range(1, 8):
        table[k] = table[k - 1] >> 8 ^ table[0][table[k - 1] & 255]
    return table


TABLES = _tables()


def product_of(x: int, y: int) -> int:
    """Return the product of two polynomials modulo that of crc32c; the highest bit is the
    coefficient of 1.
    """
    product = 0
    for i in range(31, -1, -1):
        product ^= y & -(x >> i & 1)
        y = y >> 1 ^ POLYNOMIAL & -(y & 1)
    return product


multiplied = kernel(product_of)


def _powers() -> np.ndarray:
    """Compute, for pages of each size, by what the zeros after the first and the second of three
    parts multiply.
    """
    powers = np.zeros((2 * (PAGE_SIZE_MAX // PAGE_SIZE_MIN), 2), np.int64)
    size = PAGE_SIZE_MIN // WORD
    while size <= PAGE_SIZE_MAX // WORD:
        n = (size - 1) // 3
        powers[size >> SMALLEST] = _power(64 * (size - 1 - n)), _power(64 * (size - 1 - 2 * n))
        size *= 2
    return powers


def _power(n: int) -> int:
    """Return the power of x by which n zero bits multiply a checksum, by squaring."""
    found, square = 1 << 31, 1 << 30
    while n:
        if n & 1:
            found = product_of(found, square)
        square, n = product_of(square, square), n >> 1
    return found


POWERS = _powers()


@kernel
def look_up(crc: int, word: int):
    """Like `crc_of_word`, by tables."""
    x = word ^ crc
    return (
        TABLES[7, x & 255]
        ^ TABLES[6, x >> 8 & 255]
        ^ TABLES[5, x >> 16 & 255]
        ^ TABLES[4, x >> 24 & 255]
        ^ TABLES[3, x >> 32 & 255]
        ^ TABLES[2, x >> 40 & 255]
        ^ TABLES[1, x >> 48 & 255]
        ^ TABLES[0, x >> 56 & 255]
    )


@kernel
def add(crc: int, word: int):
    """Extend the crc32c `crc` of some bytes by one word."""
    return crc_of_word(crc, word) if has_crc_instruction() else look_up(crc, word)


@kernel
def checksum(words: MappedWords | Words, page: int, page_words: int):
    """Return the crc32c of the bytes of a page after its first word; pages smaller than a
    store's are summed as one.
    """
    if page_words >> SMALLEST == 0 or not has_crc_instruction():
        return crc_of(words, page + 1, page + page_words)
    n = (page_words - 1) // 3
    first, second = words[page + 1 : page + 1 + n], words[page + 1 + n : page + 1 + 2 * n]
    third = words[page + 1 + 2 * n : page + page_words]
    a = b = c = ONES
    for i in range(n):
        a, b, c = crc_of_word(a, first[i]), crc_of_word(b, second[i]), crc_of_word(c, third[i])
    for i in range(n, third.shape[0]):
        c = crc_of_word(c, third[i])
    powers = POWERS[page_words >> SMALLEST]
    return multiplied(powers[0], a ^ ONES) ^ multiplied(powers[1], b ^ ONES) ^ c ^ ONES


@kernel
def crc_of(words: MappedWords | Words, begin: int, end: int):
    """Return the crc32c of the bytes of words[begin:end]."""
    crc = ONES
    for i in range(begin, end):
        crc = add(crc, words[i])
    return crc ^ ONES


@kernel
def stamp(arena: Words, lo: int, hi: int, page_words: int):
    """Write the checksums into pages lo..hi of an arena."""
    if not has_crc_instruction():
        for page in range(lo * page_words, hi * page_words, page_words):
            arena[page + CRC] = checksum(arena, page, page_words)
        return
    rest = hi - (hi - lo) % 3
    for page in range(lo * page_words, rest * page_words, 3 * page_words):
        stamp_three(arena, page, page + page_words, page + 2 * page_words, page_words)
    for page in range(rest * page_words, hi * page_words, page_words):
        arena[page + CRC] = checksum(arena, page, page_words)


@kernel
def stamp_three(arena: Words, p: int, q: int, r: int, page_words: int):
    """Write the checksums into the pages that begin at words p, q and r."""
    a = b = c = ONES
    # unlike indices into the arena, indices into slices need no check for being negative
    end = page_words
    first, second, third = arena[p + 1 : p + end], arena[q + 1 : q + end], arena[r + 1 : r + end]
    for i in range(page_words - 1):
        a, b, c = add(a, first[i]), add(b, second[i]), add(c, third[i])
    arena[p + CRC], arena[q + CRC], arena[r + CRC] = a ^ ONES, b ^ ONES, c ^ ONES
