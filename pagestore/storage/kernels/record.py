"""Lay records out in the pages of a run, and write a commit from its lists to the file in one call.

The content of a commit is given as words, with the addresses of its lists in place of the lists:

    said        HEAD words    address and length of each list    the message
    gathered    HEAD words    number and rows of each list       the message

Groups of arguments of the kernel that writes a commit's record (see runtime/types.py).
"""

from typing import NamedTuple

import numpy as np

from pagestore.pages.layout import AGE, BIRTH, CRC, ENTRY_COUNT, HEADER, ID, RUN, STAMP, TYPE, WORD
from pagestore.pages.page import type_word
from pagestore.pages.verify import ONES, add, crc_of, mark
from pagestore.runtime.intrinsics import words_at
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import Bytes, HalfWords, Table, Words
from pagestore.storage.kernels.free_list import count
from pagestore.storage.kernels.write import FD, write_pages

COMMIT = 1
HEAD = 19
# words of the head: those that change with each commit, and the sum of the checksums of the pages
# written
NUMBER, VERSION, ADMINISTRATIVE, PARENT, BRANCH, TIMESTAMP, LAST_VERSION = range(1, 8)
CHECKSUM = 12
HEIGHT_BITS = 8  # low bits of a word for a tree's height; its root's birth is above them
STAMPS = (1 << 31) - 1  # bits of the checksum of a record and its birth that are its stamp
# words of a row; the last two lists are the pages added and removed
WIDTHS = 4, 4, 5, 5, 3, 2, 1, 1
# numbers of the lists
ROOTS, SYSTEM, BRANCHES, RECENT, DEAD, PAGES_OF, ADDED_TO, REMOVED_FROM = range(len(WIDTHS))
LISTS = HEAD + 2 * len(WIDTHS)  # where the message begins
# words of the state of a record that is to be finished: whether it may be; up to which birth pages
# belong to another lineage; whether it lists the pages written; then, of the result: pages of trees
# written; rows of roots; words of the list of pages written; pages of the record that were written,
# -1 if it was not finished
READY, ORIGIN, LISTED, MADE_PAGES, ROOT_ROWS, EXTENT_WORDS, RECORDED = range(7)
# words of the state of a record that is the next of a series: whether it is; whether no pages of
# commits before it are listed; its sequence, its version and its time; the number of recent
# versions; where its free pages begin
IN_SERIES, ALONE, NEXT_SEQUENCE, NEXT_VERSION, NEXT_TIME, RECENT_ROWS, IDS_FROM, FINISH_WORDS = (
    range(7, 15)
)


class Span(NamedTuple):
    """Words in memory: their address and their number."""

    address: int
    length: int


class Counting(NamedTuple):
    """What a commit changes in the free list: pages freed, pages used, and the lists that count
    them (free_list.py).
    """

    freed: Span
    used: Words
    lists: Table
    place: HalfWords


class RecordRun(NamedTuple):
    """Where a record is written: a buffer for its words, its run's first page, its birth, an
    arena, page numbers.
    """

    record: Words
    page: int
    birth: int
    arena: Words
    ids: Words


class Finish(NamedTuple):
    """The record of a commit, laid out before the edits that it is of; trees/kernels/finish.py adds
    what they decide.

    `said` are the words of the commit, `roots` rows of trees before the edits with room for more,
    `extents` room for the list of pages written, `used` for the pages themselves, `state` the words
    from READY on; those from IN_SERIES on are for `begin_commit`. A tree in `checked` that changed
    leaves it to Python.
    """

    state: Words
    said: Words
    roots: Words
    extents: Words
    used: Words
    checked: Words
    freed: Span
    lists: Table
    place: HalfWords
    run: RecordRun


@kernel
def gather(said: Words, record: Words):
    """Put a commit's words together; return how many they are, or -1 if they do not fit in
    `record`.
    """
    n = HEAD
    for i in range(HEAD):
        record[i] = said[i]
    for t in range(len(WIDTHS)):
        rows = words_at(said[HEAD + 2 * t], said[HEAD + 2 * t + 1])
        if n + 1 + rows.shape[0] > record.shape[0]:
            return -1
        record[n] = rows.shape[0] // WIDTHS[t]
        n = append(record, n + 1, rows)
    return append(record, n, said[LISTS:]) if n + said.shape[0] - LISTS <= record.shape[0] else -1


@kernel
def append(record: Words, n: int, words: Words):
    """Append words to the n words of a record; return the new number."""
    for i in range(words.shape[0]):
        record[n + i] = words[i]
    return n + words.shape[0]


@kernel
def lay_out(record, words, page, birth, purpose, arena, ids, page_words):
    """Lay a record out in the pages of a run of `words` words, to be written to pages ids[n], from
    `page` on.

    Zeros fill up the run. Its pages have the record's stamp, which shows that they belong together,
    and which pointers to the run contain, too. A commit of one page needs none, since it identifies
    itself.
    """
    room, kind = page_words - HEADER, type_word(RUN, 0, 0, 0, purpose)
    alone = purpose == COMMIT and ids.shape[0] == 1
    stamp = 0 if alone else (add(crc_of(record, 0, record.shape[0]) ^ ONES, birth) ^ ONES) & STAMPS
    for i in range(ids.shape[0]):
        begin, to = i * room, arena[i * page_words : (i + 1) * page_words]
        ids[i] = page + i
        to[CRC] = to[AGE] = to[HEADER - 1] = 0
        to[STAMP] = stamp
        to[ID], to[BIRTH], to[TYPE], to[ENTRY_COUNT] = (
            page + i,
            birth,
            kind,
            WORD * min(room, words - begin),
        )
        here = record[begin : begin + room]
        for j in range(here.shape[0]):
            to[HEADER + j] = here[j]
        to[HEADER + here.shape[0] :] = 0


@kernel
def write_commit(
    writer: Words, said: Span, counting: Counting, run: RecordRun, page_words: int, seen: Bytes
):
    """Update the lists of free pages by those freed and used, then write the commit's record, with
    them, to its run.

    `said` is the span of the words of the commit (see arguments.py for the rest). Return how many
    pages were written: 0 if the writer is closed; -1 if the run is too short.
    """
    lists = counting.lists
    count(counting.freed.address, counting.freed.length, counting.used, lists, counting.place)
    words = words_at(said.address, said.length)
    for t in range(2):
        words[LISTS - 4 + 2 * t] = np.int64(lists.ctypes.data) + WORD * (t * lists.shape[1] + 1)
        words[LISTS - 4 + 2 * t + 1] = lists[t, 0]
    length = gather(words, run.record)
    if length < 0:
        return length
    lay_out(
        run.record[:length],
        run.record.shape[0],
        run.page,
        run.birth,
        COMMIT,
        run.arena,
        run.ids,
        page_words,
    )
    mark(run.arena, run.ids, seen, page_words)
    return write_pages(writer, run.arena, run.ids, page_words) if writer[FD] >= 0 else 0
