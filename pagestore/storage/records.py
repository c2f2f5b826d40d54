"""Records as int64 words, read in the order in which they were written (see docs/format.md).

    first word    the purpose of the record: COMMIT, CATALOG, SETTINGS, FREE or TEXT
    a list        its number of rows, then the rows
    a text        its length in bytes, then its UTF-8 bytes, padded with zeros to whole words

>>> out = RecordWriter(SETTINGS)
>>> out.put(7)
>>> out.put_text("main")
>>> source = RecordReader(np.array(out.words), SETTINGS)
>>> source.take(), source.take_text()
(7, 'main')

Lists of words, row by row, as in commit records.

An `array` is packed, which a list is not, and is made faster than a numpy array, which takes a
microsecond.
"""

from array import array
from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np

from pagestore.errors import CorruptionError, SchemaError
from pagestore.storage.kernels.record import COMMIT

WordList: TypeAlias = "array[int]"
empty_list = partial(array, "q")  # a list without rows


def word_list(*rows: Iterable[int]) -> WordList:
    """Concatenate rows to one list.

    >>> word_list((3, 2), (9, 1))
    array('q', [3, 2, 9, 1])
    """
    # from a list: with a known length an array is made in half the time
    return array("q", [*chain(*rows)])


def to_word_list(words: np.ndarray | memoryview) -> WordList:
    """Return int64[n] as a list."""
    return array("q", words.tobytes())


def rows(words: Iterable[int], width: int) -> Iterable[tuple[int, ...]]:
    """Iterate over the rows of a list.

    >>> [*rows(word_list((3, 2), (9, 1)), 2)]
    [(3, 2), (9, 1)]
    """
    return zip(*(iter(words),) * width, strict=True)


CATALOG, SETTINGS, FREE, TEXT = range(COMMIT + 1, 6)  # purposes of runs


class RecordWriter:
    """Builds a record: words and texts, in order."""

    def __init__(self, purpose: int):
        self.words = word_list((purpose,))

    def put(self, *words: int) -> None:
        """Append words."""
        self.words.extend(words)

    def put_list(self, rows: WordList, width: int) -> None:
        """Append a list of rows of `width` words each."""
        self.words.append(len(rows) // width)
        self.words += rows

    def put_bytes(self, data: bytes) -> None:
        """Append bytes, like a text."""
        put_text(self.words, data)

    def put_text(self, text: str, what: str = "text") -> None:
        """Append a text; `what` names it in errors. Raise SchemaError for a value that is not a
        text in UTF-8.
        """
        self.put_bytes(utf8(text, what))


def utf8(text: str, what: str) -> bytes:
    """Return the UTF-8 bytes of a text; `what` names it in errors. Raise SchemaError for a value
    that has none.

    >>> utf8("caf\\udce9", "tag")
    Traceback (most recent call last):
    pagestore.errors.SchemaError: 'caf\\udce9' cannot be a tag: it is not a text that UTF-8 can hold
    """
    try:
        return str.encode(text)
    except (TypeError, UnicodeEncodeError):
        # not a str; a surrogate, as for a stray byte of a command line
        raise SchemaError(
            f"{text!r} cannot be a {what}: it is not a text that UTF-8 can hold"
        ) from None


def put_text(words: WordList, text: bytes) -> None:
    """Append a text to the words of a record."""
    words.append(len(text))
    if text:
        words.frombytes(text + bytes(-len(text) % 8))


class RecordReader:
    """Reads a record back in the order it was written."""

    def __init__(self, content: np.ndarray, purpose: int):
        self.words = memoryview(np.ascontiguousarray(content, np.int64).data)
        self.at = 0
        if self.take() != purpose:
            raise CorruptionError(
                f"a record of kind {purpose} was expected, this one is of kind {int(content[0])}"
            )

    def take(self) -> int:
        """Read the next word. Raise CorruptionError at the end."""
        if self.at >= len(self.words):
            raise CorruptionError("a record ends too early")
        self.at += 1
        return self.words[self.at - 1]

    def take_many(self, n: int) -> memoryview:
        """Read the next n words. Raise CorruptionError."""
        if n < 0 or self.at + n > len(self.words):
            raise CorruptionError("a record ends too early")
        self.at += n
        return self.words[self.at - n : self.at]

    def take_list(self, width: int) -> WordList:
        """Read the next list, of rows of `width` words. Raise CorruptionError."""
        return to_word_list(self.take_many(self.take() * width))

    def take_bytes(self) -> bytes:
        """Read the next bytes. Raise CorruptionError."""
        n = self.take()
        if n < 0:
            raise CorruptionError(f"a record says that a text has {n} bytes")
        return self.take_many(-(-n // 8)).tobytes()[:n]

    def take_text(self) -> str:
        """Read the next text. Raise CorruptionError."""
        return text_of(self.take_bytes())


def text_of(data: bytes) -> str:
    """Decode a text from bytes of a record. Raise CorruptionError."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptionError(f"a record has {data[:32]!r} where a text in UTF-8 belongs") from None
