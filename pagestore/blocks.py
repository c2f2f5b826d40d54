"""Blocks of a dump or backup: a header of 24 bytes (kind, checksum, lengths) and a zstandard frame each."""

import struct
from collections.abc import Container, Iterator
from typing import IO

import zstandard
from crc32c import crc32c
from zstandard import frame_content_size

from .errors import CorruptionError

BLOCK = struct.Struct("<4sIQQ")
MAGIC_SIZE = 12
PIECE = 1 << 24


def write_block(out: IO[bytes], kind: bytes, data: bytes) -> None:
    packed = zstandard.compress(data)
    out.write(BLOCK.pack(kind, crc32c(packed), len(packed), len(data)))
    out.write(packed)


def read_blocks(source: IO[bytes], kinds: Container[bytes], what: str = "dump") -> Iterator[tuple[bytes, bytes]]:
    """The blocks of a dump or backup, behind its magic; CorruptionError at the place where it ends or is damaged."""
    at = MAGIC_SIZE
    while True:
        header = source.read(BLOCK.size)
        if len(header) < BLOCK.size:
            raise CorruptionError(f"the {what} is cut off at byte {at + len(header)}; make it again")
        kind, checksum, length, plain = BLOCK.unpack(header)
        packed = _read(source, length)
        if len(packed) < length:
            raise CorruptionError(f"the {what} is cut off at byte {at + BLOCK.size + len(packed)}; make it again")
        if crc32c(packed) != checksum or kind not in kinds or frame_content_size(packed) != plain:
            raise CorruptionError(f"the {what} is damaged in the block at byte {at}; make it again")
        at += BLOCK.size + length
        yield kind, zstandard.decompress(packed)
        if kind == b"DONE":
            return


def _read(source: IO[bytes], count: int) -> bytes:
    """Up to `count` bytes, fewer only at the end; no more memory than there are, since a header may be damaged."""
    parts = []
    while count and (part := source.read(min(count, PIECE))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
