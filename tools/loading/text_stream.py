"""Read the bytes of a text file: decompressed, converted to UTF-8, without a byte order mark."""

import codecs
import re
from pathlib import Path

import pyarrow as pa

from .casts import DatasetError

MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
PACKINGS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
CHUNK = 1 << 20


class TextStream:
    """A text file converted to UTF-8, for pyarrow and others. `share` is the fraction of the
    file that was read.
    """

    def __init__(self, file: Path, encoding: str | None = None) -> None:
        self.file, self.closed = file, False
        self._size = max(1, file.stat().st_size)
        self._raw = open(file, "rb")  # noqa: SIM115 - closed by close()
        packing = re.search(r"\.(gz|bz2|zst|lz4)$", file.name.lower())
        self._bytes = (
            pa.CompressedInputStream(self._raw, PACKINGS[packing[1]]) if packing else self._raw
        )
        head = self._unpacked(4)
        mark = next((mark for mark in MARKS if head.startswith(mark)), b"")
        self.encoding = codecs.lookup(encoding or MARKS.get(mark, "utf-8")).name
        self._decoder = (
            None if self.encoding == "utf-8" else codecs.getincrementaldecoder(self.encoding)()
        )
        # whose decoder consumes the mark
        self._ahead = head if self.encoding == "utf-16" else head[len(mark) :]
        self._rest = b""

    @property
    def share(self) -> float:
        """The fraction of the file that was read."""
        return min(1.0, self._raw.tell() / self._size) if not self.closed else 1.0

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, or all that are left. Raises DatasetError."""
        if self.closed:  # a reader that reads ahead may still call
            return b""
        if size < 0:
            return b"".join(iter(lambda: self.read(CHUNK), b""))
        while len(self._rest) < size and (more := self._next(size - len(self._rest))):
            self._rest += more
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _unpacked(self, size: int) -> bytes:
        try:
            taken: bytes = self._bytes.read(size)
            return taken
        except (OSError, EOFError, pa.ArrowException) as error:
            raise DatasetError(
                f"{self.file} is damaged, or was cut short: {error}: let it be written again"
            ) from None

    def _next(self, size: int) -> bytes:
        """Return the next bytes, in UTF-8; empty only at the end."""
        while True:
            taken = self._ahead or self._unpacked(size)
            self._ahead = b""
            if self._decoder is None:
                return taken
            try:
                decoded = self._decoder.decode(taken, final=not taken)
            except UnicodeError as error:
                why = getattr(error, "reason", error)
                raise DatasetError(
                    f"{self.file} is not written in {self.encoding}: {why}: "
                    "name another with --encoding"
                ) from None
            if decoded or not taken:
                return decoded.encode(errors="surrogatepass")

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._raw.close()

    def __enter__(self) -> "TextStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
