"""Messages of the protocol as bytes: a letter, the length, and fields."""

import struct
from collections.abc import Sequence
from typing import BinaryIO

from ..clients import FIRST_LONGEST, LONGEST


class ProtocolError(Exception):
    """A client broke the protocol: the connection ends."""


def message(letter: bytes, *fields: bytes) -> bytes:
    """Return a message."""
    body = b"".join(fields)
    return letter + struct.pack(">i", len(body) + 4) + body


def text(value: str) -> bytes:
    """Return a text as a field, which ends with a zero."""
    return value.encode(errors="replace").replace(b"\0", b"") + b"\0"


def exactly(stream: BinaryIO, count: int) -> bytes:
    """Return so many bytes of a stream.  Raises EOFError if it ends before."""
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


def first(stream: BinaryIO) -> tuple[int, bytes]:
    """Return the code and the body of a first message, which has no letter."""
    length, code = struct.unpack(">ii", exactly(stream, 8))
    if not 8 <= length <= FIRST_LONGEST:
        raise ProtocolError(f"a first message of {length} bytes")
    return code, exactly(stream, length - 8)


def following(stream: BinaryIO) -> tuple[bytes, "Fields"]:
    """Return the letter and the fields of a message."""
    letter, length = struct.unpack(">ci", exactly(stream, 5))
    if not 4 <= length <= LONGEST:
        raise ProtocolError(f"a message of {length} bytes")
    return letter, Fields(exactly(stream, length - 4))


class Fields:
    """The fields of a message, read one after the other.  Raises ProtocolError at its end."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def take(self, count: int) -> bytes:
        """Return so many bytes."""
        if not 0 <= count <= len(self._body) - self._at:
            raise ProtocolError("a message ends within a field")
        self._at += count
        return self._body[self._at - count : self._at]

    def text(self) -> str:
        """Return a text that ends with a zero."""
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError("a text does not end")
        data = self._body[self._at : end]
        self._at = end + 1
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ProtocolError("a text is not UTF-8") from None

    def int16(self) -> int:
        """Return a number of two bytes."""
        return int.from_bytes(self.take(2), signed=True)

    def int32(self) -> int:
        """Return a number of four bytes."""
        return int.from_bytes(self.take(4), signed=True)

    def int16s(self) -> list[int]:
        """Return numbers after how many there are."""
        return [self.int16() for _ in range(self.int16())]

    def values(self) -> list[bytes | None]:
        """Return values after how many there are; -1 is the length of a null."""
        lengths = range(self.int16())
        return [None if (n := self.int32()) == -1 else self.take(n) for _ in lengths]

    @property
    def rest(self) -> bytes:
        """The bytes that were not read."""
        return self._body[self._at :]


def row(values: Sequence[bytes | None]) -> bytes:
    """Return the message of a row."""
    parts = [struct.pack(">h", len(values))]
    for value in values:
        parts.append(
            b"\xff\xff\xff\xff" if value is None else struct.pack(">i", len(value)) + value
        )
    return message(b"D", *parts)


def error(code: str, words: str, position: int | None = None, severity: str = "ERROR") -> bytes:
    """Return the message of an error with its SQLSTATE; `position` counts letters from 1."""
    fields = [("S", severity), ("V", severity), ("C", code), ("M", words)]
    fields += [("P", str(position))] if position else []
    return message(b"E", *(letter.encode() + text(value) for letter, value in fields), b"\0")
