"""The two meta slots, which identify a store and its newest commit.

Slot s is the 4 KiB sector at byte 4096 * s of the file; the slots alternate, so the previous
commit's slot stays intact while the newest is written. A slot is 96 bytes, little-endian, the rest
of its sector zero:

    byte  0       8        12         16    32         40        48      56      64    72      76  92       96
          +-------+--------+----------+-----+----------+---------+-------+-------+-----+-------+---+--------+
          | magic | format | page size| uuid| sequence | version | state | words | top | flags | 0 | crc32c |
          +-------+--------+----------+-----+----------+---------+-------+-------+-----+-------+---+--------+

`sequence` counts commits, administrative ones (tags, branches, vacuum) included; the slot with the
higher one is the newest. `state` is the first page of the newest commit's run and `words` its
length. Pages from `top` on were never used. Flag bit 0 says that the store was closed cleanly: then
both slots hold the same commit, and an unreadable slot was damaged later. Flag bit 1 says that a
sync has failed which covered more than the newest commit: all pages of the file are written again
before anything is built on them. The checksum covers bytes 0 to 91.
"""

import struct
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from pagestore.pages.layout import FIRST_PAGE, PAGE_MASK, PAGE_SIZE_MAX, PAGE_SIZE_MIN, WORD
from pagestore.runtime.lazy import crc32c
from pagestore.storage.file import File

MAGIC = b"pageSTR\x00"
FORMAT, OLDEST = 4, 1  # the format that is written, and the oldest that is read
SLOT_SIZE = 4096
# above every number of a version or commit: readers lock byte VERSION_LOCK + version
NUMBER_END = 1 << 61
CLEAN_FLAG, DOUBT_FLAG = 1, 2

_SLOT = struct.Struct("<8sII16sqqqqqq12x")
_CHECKSUM = struct.Struct("<I")


class Meta(NamedTuple):
    """The contents of one slot."""

    page_size: int
    uuid: bytes
    sequence: int
    version: int
    state: int
    words: int
    top: int
    clean: bool
    format: int = FORMAT
    in_doubt: bool = False

    @property
    def place(self) -> tuple[int, int, int]:
        """What tells commits apart: after a failed write two may have had the same number."""
        return self.sequence, self.state, self.words

    def pack(self) -> bytes:
        """Return the slot's bytes, without the zeros that fill its sector."""
        flags = CLEAN_FLAG * self.clean | DOUBT_FLAG * self.in_doubt
        body = _SLOT.pack(MAGIC, self.format, *self[:7], flags)
        return body + _CHECKSUM.pack(crc32c.crc32c(body))


SIZE = _SLOT.size + _CHECKSUM.size
SEQUENCE = 4  # the word of a slot with the sequence


def sequence_in(words: np.ndarray) -> int:
    """The higher sequence of the slots in a map int64[n] that a writer may be changing."""
    return max(int(words[SEQUENCE]), int(words[SLOT_SIZE // WORD + SEQUENCE]))


def slot_of(sequence: int) -> int:
    """Return the slot that commit number `sequence` writes."""
    return sequence & 1


def unpack(data: bytes) -> Meta | str:
    """Return the slot in `data`, or a few words that say what is wrong with it.

    >>> meta = Meta(8192, bytes(16), 7, 3, 2, 100, 9, False)
    >>> unpack(meta.pack()) == meta
    True
    >>> unpack(b"x" + meta.pack()[1:])
    'bad magic'
    """
    if len(data) < SIZE:
        return "cut off"
    magic, format_version, *fields = _SLOT.unpack_from(data)
    if magic != MAGIC:
        return "empty" if not any(data[:SIZE]) else "bad magic"
    if crc32c.crc32c(data[: _SLOT.size]) != _CHECKSUM.unpack_from(data, _SLOT.size)[0]:
        return "bad checksum"
    if not OLDEST <= format_version <= FORMAT:
        return f"format {format_version}, and this library reads formats {OLDEST} to {FORMAT}"
    *fields, flags = fields
    page_size, identity, sequence, version, state, words, top = fields
    if page_size & (page_size - 1) or not PAGE_SIZE_MIN <= page_size <= PAGE_SIZE_MAX:
        return f"pages of {page_size} bytes"
    if (
        min(sequence, version, state, words) < 0
        or version >= NUMBER_END
        or not FIRST_PAGE <= top <= PAGE_MASK
    ):
        return f"commit {sequence} of version {version} with {top} pages"
    clean, in_doubt = bool(flags & CLEAN_FLAG), bool(flags & DOUBT_FLAG)
    return Meta(
        page_size, identity, sequence, version, state, words, top, clean, format_version, in_doubt
    )


def sync_all(file: File, meta: Meta) -> None:
    """Sync commits that may not have been synced. If that fails, mark all as in doubt in the
    newest slot, `meta`.
    """
    try:
        file.fdatasync()
    except OSError:
        with suppress(OSError):
            file.pwrite(
                meta._replace(clean=False, in_doubt=True).pack(), SLOT_SIZE * slot_of(meta.sequence)
            )
        raise
