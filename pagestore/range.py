"""A range of a relation: the records between two keys, as words, as Arrow and as numpy arrays."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from .catalog import Info
from .errors import SchemaError
from .path import naming_path
from .source import Source
from .tree import Pages, Tree, read, scan
from .words import Schema, decode, to_numpy

BATCH_ROWS = 65536


class Range:
    """The records of a relation with lo <= key < hi; both bounds are words of a key's prefix, () is unbounded."""

    def __init__(self, source: Source, info: Info, lo: tuple[int, ...] = (), hi: tuple[int, ...] = ()):
        self._source, self.info = source, info
        self._lo, self._hi = lo, hi

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def schema(self) -> Schema:
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
        """The map and the tree, in that order of arguments; applying buffered edits may make the map anew."""
        source = self._source
        tree = source.tree(self.info.name)
        return source.pages, tree

    def words(self, columns: tuple[int, ...] | None = None, rows: int = BATCH_ROWS) -> Iterator[np.ndarray]:
        """Batches int64[columns, <= rows] of stored words: the key columns, then the values."""
        pages, tree = self.view()
        with naming_path(pages, tree):
            for batch in scan(pages, tree, self._lo, self._hi, columns, rows):
                yield batch
                _ = self._source.pages  # says so if it was closed, for then they may be others

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """Arrow record batches of at most `rows` records, in the schema's column order."""
        for batch in self.words(rows=rows):
            yield from self.record_batches(batch)

    def to_arrow(self) -> pa.Table:
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
        """Stream to whoever speaks Arrow: pandas, polars, DuckDB, pyarrow."""
        reader = pa.RecordBatchReader.from_batches(self.schema.arrow, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def record_batch(self, words: np.ndarray) -> pa.RecordBatch:
        """Stored words int64[C, n] as an Arrow record batch of the schema, of at most 2 GiB of texts a column."""
        return pa.RecordBatch.from_arrays(self._arrays(words), schema=self.schema.arrow)

    def record_batches(self, words: np.ndarray) -> Iterator[pa.RecordBatch]:
        """As `record_batch`, in as many batches as the texts take."""
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
