"""A range of a relation: the records between two keys, as words, as Arrow and as numpy arrays."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from pagestore.errors import SchemaError
from pagestore.pages.layout import WORD_MAX, WORD_MIN
from pagestore.pages.page_map import Pages
from pagestore.relations.frames import Frames
from pagestore.relations.source import Source
from pagestore.trees.page_path import naming_path
from pagestore.trees.reading import read, read_batches
from pagestore.trees.tree import Tree
from pagestore.values.codec import decode, encode, to_numpy
from pagestore.values.dictionary import TextFinder
from pagestore.values.types import Column, Schema
from pagestore.versions.catalog import Info

BATCH_ROWS = 65536


class Range(Frames):
    """The records of a relation with lo <= key < hi; both bounds are words of a key's prefix, () is unbounded."""

    def __init__(self, source: Source, info: Info, lo: tuple[int, ...] = (), hi: tuple[int, ...] = ()):
        self._source, self.info = source, info
        self._lo, self._hi = lo, hi

    @property
    def name(self) -> str:
        """The name of the relation."""
        return self.info.name

    @property
    def schema(self) -> Schema:
        """The schema of the relation. Raises SchemaError for a hidden tree of words."""
        if self.info.schema is None:
            raise SchemaError(f"{self.name!r} is a tree of raw words and has no schema")
        return self.info.schema

    @property
    def source(self) -> Source:
        """The snapshot or transaction that the relation reads from."""
        return self._source

    @property
    def bounded(self) -> bool:
        """Whether this is a range, and not the whole relation."""
        return bool(self._lo or self._hi)

    @property
    def tree(self) -> Tree:
        """The tree of words behind the relation, whole."""
        return self._source.tree(self.name)

    def view(self) -> tuple[Pages, Tree]:
        """The map and the tree, as functions of trees take them; applying buffered edits may replace the map."""
        source = self._source
        tree = source.tree(self.info.name)
        return source.pages, tree

    def words(self, columns: tuple[int, ...] | None = None, rows: int = BATCH_ROWS) -> Iterator[np.ndarray]:
        """Batches int64[columns, <= rows] of stored words: the key columns, then the values."""
        pages, tree = self.view()
        with naming_path(pages, tree):
            for batch in read_batches(pages, tree, self._lo, self._hi, columns, rows):
                yield batch
                _ = self._source.pages  # raises if it was closed: the pages may be others now

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Arrow record batches of at most `rows` records, in the schema's column order."""
        for batch in self.words(rows=rows):
            yield from self.record_batches(batch)

    def to_arrow(self) -> pa.Table:
        """All records as an Arrow table, in the schema's column order."""
        words = self._all_words()
        blocks = (words[:, at : at + BATCH_ROWS] for at in range(0, words.shape[1], BATCH_ROWS))
        return pa.Table.from_batches(chain.from_iterable(map(self.record_batches, blocks)), self.schema.arrow)

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Columns by name: the native dtype where there is one, objects for decimals, texts and bytes."""
        words = self._all_words()
        return {
            column.name: to_numpy(column.type, words[place], self._source.dictionary)
            for column, place in zip(self.schema.columns, self.schema.places, strict=True)
        }

    def _all_words(self) -> np.ndarray:
        """The stored words of all records, int64[C, n]."""
        pages, tree = self.view()
        with naming_path(pages, tree):
            return read(pages, tree, self._lo, self._hi)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Stream to any program that reads Arrow: pandas, polars, DuckDB, pyarrow."""
        reader = pa.RecordBatchReader.from_batches(self.schema.arrow, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def record_batch(self, words: np.ndarray) -> pa.RecordBatch:
        """Stored words int64[C, n] as an Arrow record batch of the schema, of at most 2 GiB of texts a column."""
        return pa.RecordBatch.from_arrays(self._arrays(words), schema=self.schema.arrow)

    def record_batches(self, words: np.ndarray) -> Iterator[pa.RecordBatch]:
        """As `record_batch`, cut into more batches where texts need it."""
        arrays, n = self._arrays(words), words.shape[1]
        if n > 1 and [array.type for array in arrays] != self.schema.arrow.types:
            yield from self.record_batches(words[:, : n // 2])
            yield from self.record_batches(words[:, n // 2 :])
        else:
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

    def _arrays(self, words: np.ndarray) -> list[pa.Array]:
        return [
            decode(column.type, words[place], self._source.dictionary)
            for column, place in zip(self.schema.columns, self.schema.places, strict=True)
        ]

    def _inside(self, key: tuple[int, ...]) -> bool:
        return key >= self._lo and (not self._hi or key < self._hi)

    def _bound(self, values: Any) -> tuple[int, ...]:
        row = values if isinstance(values, tuple) else (values,)
        if len(row) > len(self.schema.key):
            raise SchemaError(f"{row!r} has more values than {self.name!r} has key columns ({self.schema.key})")
        return self._words_of(row)

    def _refuse_order(self, low: tuple[int, ...], high: tuple[int, ...], alone: bool = False) -> None:
        """Raise SchemaError where bounds rely on the order of texts: both must have one text, or that of this range.

        A bound that stands `alone` must have the text of this range.
        """
        own = shared_prefix(self._lo, self._hi)
        for place, column in enumerate(self.schema.stored[: max(len(low), len(high))]):
            if column.type.interned:
                given = {bound[: place + 1] for bound in (low, high) if len(bound) > place}
                both = not alone and min(len(low), len(high)) > place
                if len(given) > 1 or not (both or given == {own[: place + 1]}):
                    raise self._no_order(column)

    def _no_order(self, column: Column) -> SchemaError:
        return SchemaError(
            f"{column.name!r} of {self.name!r} is a {column.type}, kept by the id that the store gave it, so that no "
            f"range is in its order: take all records of one with prefix(...), or bound what stands behind it, both "
            "bounds with the same one; or filter what iterating gives"
        )

    def _words_of(self, row: tuple[Any, ...]) -> tuple[int, ...]:
        """Words of a record or a prefix of one, in stored order: the key, then the values."""
        schema = self.schema
        if schema.plain and are_words(row):
            return row
        finder = TextFinder(self._source.dictionary)
        return tuple(int(encode(column, [value], finder)[0]) for column, value in zip(schema.stored, row, strict=False))


def shared_prefix(lo: tuple[int, ...], hi: tuple[int, ...]) -> tuple[int, ...]:
    """The words that all keys between two bounds begin with.

    >>> shared_prefix((7, 5, 1), (7, 5, 9)), shared_prefix((7, 5), (7, 6)), shared_prefix((7,), ())
    ((7, 5), (7, 5), ())
    """
    n = next((i for i, pair in enumerate(zip(lo, hi, strict=False)) if pair[0] != pair[1]), min(len(lo), len(hi)))
    return lo[: n + (n < len(lo) and hi[n:] == (lo[n] + 1,))]


def are_ints(row: tuple[Any, ...]) -> bool:
    """Whether a tuple is nothing but int."""
    for value in row:  # noqa: SIM110
        if type(value) is not int:
            return False
    return True


def are_words(row: tuple[Any, ...]) -> bool:
    """Whether a tuple is nothing but int of 64 bits; a loop, since a generator takes three times as long."""
    for value in row:  # noqa: SIM110
        if type(value) is not int or not WORD_MIN <= value <= WORD_MAX:
            return False
    return True
