"""Groups of arguments of the kernel that writes a commit's record (see runtime/arguments.py)."""

from typing import NamedTuple

from pagestore.runtime.arguments import HalfWords, Table, Words


class Span(NamedTuple):
    """Words in memory: their address and their number."""

    address: int
    length: int


class Counting(NamedTuple):
    """What a commit changes in the free list: pages freed, pages used, and the lists that count them (free_list.py)."""

    freed: Span
    used: Words
    lists: Table
    place: HalfWords


class RecordRun(NamedTuple):
    """Where a record is written: a buffer for its words, its run's first page, its birth, an arena, page numbers."""

    record: Words
    page: int
    birth: int
    arena: Words
    ids: Words
