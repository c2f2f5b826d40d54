"""The bytes of a page: where each header word is and what it says.

    word   0        1     2      3                                4       5      6     7     8 .. 8+2C         ..        W-1
         +--------+----+-------+--------------------------------+-------+------+-----+-----+---------------+-----------+---+
         | crc32c | id | birth | kind level columns folds  tree | count | scan | age | 0   | C descriptors | columns   | 0 |
         +--------+----+-------+--------------------------------+-------+------+-----+-----+---------------+-----------+---+

A page is ``W = page_size / 8`` little-endian 64-bit words.  Word 0 holds, in its low half, the
crc32c of all bytes after it.  Word 3 packs kind (bits 0-3), level (8-15), columns (their low 8 bits
in 16-23, the others in 4-7), folds (24-31) and the tree's id (32-63).  Each column has two
descriptor words, ``base`` and ``offset << 8 | width``: value i is ``base`` plus the ``width`` bits
found ``i * width`` bits after the start of word ``offset`` of the page.  A column is as wide as its
values need, or as they needed AGE edits ago (build.py).  The last word of a page stays free: a
reader may touch one word past a column.

An index page (level >= 1) has the K key columns (the least key of each child's subtree), the
child's page id, one fold of the child's subtree for each scan of the tree, and the child's birth.
Pages of format 1 have no births, nor do pages that would exceed INDEX_COLUMNS_MAX with them.

Kernels take a tree's root as one word, its *pointer*:

    bits 0-33 page    34-43 columns of a leaf, 0: unknown    44-62 birth, its low bits; 0: unknown

Groups of arguments of the kernels that make pages (see runtime/types.py).

node buffer     x y z a b c .          a fresh page replaces an old one: runs of the old page's entries
old page        a b c d e              stay, and the new entries are in the node buffer between them

The map of a store's file, as every kernel that reads it takes it: `kernel(*pages, ...)`.

    words   | meta | meta | page 2 | page 3 | ...      page p begins at words[p * page_words]
    seen    |  0   |  0   |   3    |   0    | ...      page 2 was verified and has 3 columns

Both arrays are shared with other threads; a longer file gets longer ones (storage/mapping.py).
"""

from typing import NamedTuple

from pagestore.runtime.types import Bytes, MappedWords, Table, Words

WORD = 8
WORD_MIN, WORD_MAX = -(1 << 63), (1 << 63) - 1  # the bounds of int64

HEADER = 8  # words before the column descriptors
CRC, ID, BIRTH, TYPE, ENTRY_COUNT, SCAN, AGE = range(7)
STAMP = SCAN  # the same word, in a page of a run
LEAF, INDEX, RUN = 1, 2, 3  # kinds of pages

PAGE_SIZE_MIN, PAGE_SIZE_MAX, PAGE_SIZE_DEFAULT = 4096, 65536, 8192
FIRST_PAGE = 2  # pages 0 and 1 belong to the two meta slots
HEIGHT_MAX = 10
RECORDS_A_WORD = 2  # a page of W words holds 2 W records at most
COLUMNS_MAX = 1023  # of a record: a pointer has ten bits for them
# of an index page, which has few key columns, and whose number of folds is a byte
INDEX_COLUMNS_MAX = 255
KEYS_MAX = 64  # words of a key, at most

PAGE_BITS, COLUMN_BITS, BIRTH_BITS = 34, 10, 19  # of a pointer
BIRTH_AT = PAGE_BITS + COLUMN_BITS
PAGE_MASK, BIRTH_MASK = (1 << PAGE_BITS) - 1, (1 << BIRTH_BITS) - 1


def page_type(kind: int, level: int, columns: int, folds: int, tree_id: int) -> int:
    """Pack the type word of a page.

    >>> page_type(LEAF, 0, 2, 0, 7) == 1 | 2 << 16 | 7 << 32
    True
    >>> page_type_fields(page_type(LEAF, 0, 1000, 0, 7))
    (1, 0, 1000, 0, 7)
    """
    return (
        kind | columns >> 8 << 4 | level << 8 | (columns & 255) << 16 | folds << 24 | tree_id << 32
    )


def page_type_fields(word: int) -> tuple[int, int, int, int, int]:
    """Unpack the type word: (kind, level, columns, folds, tree id)."""
    return word & 15, word >> 8 & 255, page_columns(word), word >> 24 & 255, word >> 32


def page_columns(word: int) -> int:
    """Return how many columns a page with this type word has."""
    return word >> 16 & 255 | (word & 0xF0) << 4


def pointer_to(page: int, columns: int, birth: int) -> int:
    """Pack the pointer to a root.

    >>> pointer = pointer_to(77, 3, 5)
    >>> pointer & PAGE_MASK, pointer_columns(pointer), pointer_birth(pointer)
    (77, 3, 5)
    """
    return page | columns << PAGE_BITS | (birth & BIRTH_MASK) << BIRTH_AT


def pointer_columns(pointer: int) -> int:
    """Return the number of columns of the leaves below a pointer; 0 if unknown."""
    return pointer >> PAGE_BITS & COLUMNS_MAX


def pointer_birth(pointer: int) -> int:
    """Return the low BIRTH_BITS of the version that wrote the root; 0 if unknown."""
    return pointer >> BIRTH_AT


class Shape(NamedTuple):
    """What a tree's pages hold: words of a key and of a record's values, folds scans[F, 3], the
    tree's number.
    """

    keys: int
    values: int
    scans: Table
    tree_id: int


class FreshPage(NamedTuple):
    """A page in the making: it begins at word `page` of the arena, and will be page `page_id` of
    the file.
    """

    arena: Words
    page: int
    page_words: int
    page_id: int
    birth: int


class Entries(NamedTuple):
    """Entries lo..hi of a node buffer int64[C, capacity]."""

    node: Table
    lo: int
    hi: int


class Kept(NamedTuple):
    """What a fresh page keeps of the page that it replaces, which begins at word `old` of the map;
    -1 for no page.

    `runs` columns (first, end, place) of a node buffer, from row `row` on, say which entries stay,
    and where.
    """

    old: int
    row: int
    runs: int


class ParentEntry(NamedTuple):
    """Entry `at` of the parent's node buffer, for a fresh page's least key, number, folds and
    birth.
    """

    node: Table
    at: int


class FoldColumn(NamedTuple):
    """Word `f` of the folds of the ScanTree that begins at word `area` of the arena and has 2 **
    depth leaves.
    """

    area: int
    depth: int
    f: int


class Pages(NamedTuple):
    """The words of the file int64[n], the columns of each verified page uint8[n], and the words
    of a page.
    """

    words: MappedWords
    seen: Bytes
    page_words: int
