"""The concatenation of a column's texts over a range of keys, read on demand (*ropes*, Boehm 1995).

A rope is an immutable tree of texts that shares common parts with others. The pages of a relation
are such a tree: a range of it is O(log n) subtrees, two versions of it share all pages but those on
the paths to what changed. So a rope is the range, and nothing is folded or stored for it
(docs/decisions/0014-concat.md).

    key    1       2        3      4             a relation with the column text
    text   "To"    " be "   "or"   " not"        range((2,), (4,)).scan("concat:text")  is the rope  " be " + "or"
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pagestore.relations.range import Range
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.values.codec import decode
from pagestore.values.types import Column

PIECES = 4096  # texts read at a time


class Rope:
    """Texts in key order as one text. Made in O(1); iterating yields the pieces, lazily, and `str`
    joins all.

    `rope[a:b]` is a part as a plain text and reads no piece after it; `length` counts characters,
    and reads them all. A column of bytes has `bytes(rope)`, and counts bytes. A rope reads the
    version that it was made at for as long as its snapshot is open.

    >>> import pagestore
    >>> store = pagestore.open(":memory:")
    >>> with store.transaction() as txn:
    ...     word = txn.create("word", "n: int64, text: string", key="n")
    ...     word.insert([(1, "To"), (2, " be "), (3, "or"), (4, " not")])
    >>> rope = store.snapshot()["word"].range((2,), (4,)).scan("concat:text")
    >>> str(rope), list(rope), rope.length, rope[1:5]
    (' be or', [' be ', 'or'], 6, 'be o')
    >>> store.close()
    """

    def __init__(self, relation: Range, column: Column):
        self._relation, self._column = relation, column

    def __iter__(self) -> Iterator[Any]:
        for texts in self._texts():
            yield from texts.to_pylist()

    def __getitem__(self, part: slice) -> Any:
        """Return the characters from one place to another, as for a str; O(log n + pieces)."""
        if not isinstance(part, slice):
            raise TypeError(f"rope[{part!r}]: a rope gives slices, as rope[a:b]")
        start, stop = part.start or 0, part.stop
        if part.step is not None or start < 0 or (stop or 0) < 0:
            return self._whole()[part]
        pieces, at = list[Any](), 0
        for piece in self:
            if stop is not None and at >= stop:
                break
            pieces.append(piece[max(0, start - at) : None if stop is None else stop - at])
            at += len(piece)
        return self._joined(pieces)

    def __str__(self) -> str:
        if self._bytes:
            raise TypeError(f"{self._column.name!r} is a column of bytes; use bytes(rope)")
        return str(self._whole())

    def __bytes__(self) -> bytes:
        whole = self._whole()
        return bytes(whole if self._bytes else whole.encode())

    def __repr__(self) -> str:
        return f"<rope of {self._column.name!r} over {self._relation!r}>"

    @property
    def length(self) -> int:
        """The number of characters, or bytes; O(records), without making the text."""
        # imported here: it takes as long to import as the rest of pyarrow
        import pyarrow.compute as pc

        return sum(
            pc.sum(pc.binary_length(t) if self._bytes else pc.utf8_length(t)).as_py()
            for t in self._texts()
        )

    @property
    def _bytes(self) -> bool:
        return self._column.type.name == "bytes"

    def _whole(self) -> Any:
        return self._joined(iter(self))

    def _joined(self, pieces: Iterable[Any]) -> Any:
        return (b"" if self._bytes else "").join(pieces)

    def _texts(self) -> Iterator[pa.Array]:
        relation, place = self._relation, self._relation.schema.stored.index(self._column)
        for words in relation.words(columns=(place,), rows=PIECES):
            yield decode(self._column.type, words[0], relation.source.dictionary).drop_null()
