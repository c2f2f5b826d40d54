"""Blocks of a dump or backup: a header of 24 bytes (kind, checksum, lengths) and a zstandard frame
each.

Such a file may come from a stranger: nothing in it is used before it is verified, and no block
unpacks to more than PLAIN_MAX bytes, however small it is.
"""

import struct
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

from pagestore.errors import CorruptionError, FormatError, PagestoreError, SchemaError
from pagestore.runtime.lazy import crc32c, zstandard
from pagestore.runtime.lazy import pyarrow as pa

BLOCK = struct.Struct("<4sIQQ")
MAGIC_SIZE = 12
PLAIN_MAX = 1 << 27  # bytes of a block, unpacked
PACKED_MAX = PLAIN_MAX + PLAIN_MAX // 128  # what zstandard cannot shrink grows by less
PIECE = 1 << 24
# kinds that are not packed, so a text of many of these blocks is not a larger than its file
RAW = (b"PART",)


# the errors of decoding bytes in memory
def faults() -> tuple[type[Exception], ...]:
    """Return the exceptions that reading a damaged block raises."""
    return PagestoreError, pa.ArrowException, ValueError, OverflowError, OSError, struct.error


class Block(NamedTuple):
    """A block that was read: its unpacked content, and the file offsets where its header begins
    and where it ends.
    """

    kind: bytes
    data: bytes
    at: int
    end: int
    what: str

    def damaged(self, fact: object) -> CorruptionError:
        """Return the CorruptionError that says what is wrong with the block."""
        return _damaged(self.what, self.at, self.kind, fact)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn an error raised while the block is decoded into the block's CorruptionError.

        A relation that is too wide for the store's pages is not damage: its SchemaError passes."""
        try:
            yield
        except faults() as error:
            if isinstance(error, SchemaError) and error.page_size:
                raise
            raise self.damaged(error) from None

    def numbers(self, form: struct.Struct) -> tuple[Any, ...]:
        """Return the whole block as numbers. Raises CorruptionError."""
        with self.reading():
            return form.unpack(self.data)


def write_block(out: IO[bytes], kind: bytes, data: bytes) -> None:
    """Write one block. Raises FormatError for more bytes than a block may hold."""
    if len(data) > PLAIN_MAX:
        raise FormatError(
            f"a block {kind.decode()} of {len(data)} bytes; one holds {PLAIN_MAX} at most"
        )
    packed = data if kind in RAW else zstandard.compress(data)
    out.write(BLOCK.pack(kind, crc32c.crc32c(packed), len(packed), len(data)))
    out.write(packed)


def read_blocks(
    source: IO[bytes], kinds: Container[bytes], what: str = "dump", at: int = MAGIC_SIZE
) -> Iterator[Block]:
    """Yield the blocks of a dump or backup from byte `at` on; raise CorruptionError where it is
    cut off or damaged.
    """
    kind = b""
    while kind != b"DONE":
        header = read_bytes(source, BLOCK.size)
        if len(header) < BLOCK.size:
            raise CorruptionError(
                f"the {what} is cut off at byte {at + len(header)}; make it again"
            )
        kind, checksum, length, plain = BLOCK.unpack(header)
        fault = _header_fault(kind, length, plain, kinds)
        if fault:
            raise _damaged(what, at, kind, fault)
        packed = read_bytes(source, length)
        if len(packed) < length:
            raise CorruptionError(
                f"the {what} is cut off at byte {at + BLOCK.size + len(packed)}; make it again"
            )
        if crc32c.crc32c(packed) != checksum:
            raise _damaged(what, at, kind, "its checksum does not match its bytes")
        try:
            data = packed if kind in RAW else _unpacked(packed, plain)
        except (zstandard.ZstdError, ValueError) as error:
            raise _damaged(what, at, kind, error) from None
        yield Block(kind, data, at, at + BLOCK.size + length, what)
        at += BLOCK.size + length


def _header_fault(kind: bytes, length: int, plain: int, kinds: Container[bytes]) -> str | None:
    """Return what is wrong with a block's header, or None."""
    if kind not in kinds:
        return "there is no such kind of block"
    if plain > PLAIN_MAX or length > PACKED_MAX:
        return f"it says that it has {plain} bytes, {length} packed, and a block holds {PLAIN_MAX} at most"
    if kind in RAW and plain != length:
        return f"it says that it has {plain} bytes, and holds {length}"
    return None


def _unpacked(packed: bytes, plain: int) -> bytes:
    """Return the content of a frame: `plain` bytes. Raises ZstdError, ValueError."""
    if zstandard.frame_content_size(packed) != plain:
        raise ValueError(f"its frame does not say that it unpacks to {plain} bytes")
    data = zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
    if len(data) != plain:
        raise ValueError(f"it unpacks to {len(data)} bytes, not {plain}")
    return data


def _damaged(what: str, at: int, kind: bytes, fact: object) -> CorruptionError:
    name = kind.decode("ascii", "backslashreplace")
    return CorruptionError(
        f"the {what} is damaged in the block at byte {at} ({name}): {fact}; make it again"
    )


def read_bytes(source: IO[bytes], count: int) -> bytes:
    """Read up to `count` bytes, fewer only at the end; takes memory for those read only: a
    header may be damaged.
    """
    parts = []
    while count and (part := source.read(min(count, PIECE))):
        parts.append(part)
        count -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
