"""A range of a relation: the records between two keys, as words, as Arrow and as numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, cast

import numpy as np

from pagestore.errors import SchemaError
from pagestore.pages.layout import WORD_MAX, WORD_MIN
from pagestore.pages.page_map import Pages
from pagestore.relations.frames import Frames
from pagestore.relations.source import Source
from pagestore.relations.text_keys import Bound, TextRange, Words
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.trees.backward import read_backward
from pagestore.trees.page_path import naming_path
from pagestore.trees.reading import batch_rows, read, read_batches
from pagestore.trees.tree import Tree
from pagestore.values.codec import decode, text_of, to_numpy, values_of, word_of_value, word_without_texts
from pagestore.values.types import Schema
from pagestore.versions.catalog import Info
from pagestore.versions.hosts import Computed, computed_column

TUPLES_ROWS = 4096  # records that are converted to tuples at a time


class Range(Frames):
    """The records of a relation with lo <= key < hi, in key order.

    Both bounds are prefixes of a key, () is unbounded; they are words, and bytes where the key has a text.
    """

    def __init__(self, source: Source, info: Info, lo: Bound = (), hi: Bound = ()):
        self._source, self.info = source, info
        self._lo, self._hi = lo, hi

    @property
    def _texts(self) -> tuple[int, ...]:
        """The places of the texts in the key."""
        schema = self.info.schema
        return schema.text_keys if schema else ()

    def _text_range(self, pages: Pages, tree: Tree, lo: Bound | None = None, hi: Bound | None = None) -> TextRange:
        """Return the TextRange of this range, or of one with other bounds; the key must have texts."""
        lo, hi = self._lo if lo is None else lo, self._hi if hi is None else hi
        return TextRange(pages, tree, self._source.dictionary, self._texts, lo, hi, self._source.threads)

    def _stored(self, pages: Pages, tree: Tree) -> tuple[Words, Words] | None:
        """Return the bounds in words; None if the records between them are not contiguous in the tree."""
        return (
            self._text_range(pages, tree).stored() if self._texts else cast(tuple[Words, Words], (self._lo, self._hi))
        )

    @property
    def name(self) -> str:
        """The name of the relation."""
        return self.info.name

    @property
    def schema(self) -> Schema:
        """The schema of the relation. Raises SchemaError for a hidden tree of words."""
        if self.info.schema is None:
            raise SchemaError(f"{self.name!r} is a tree of raw words and has no schema")
        return self._read_as or self.info.schema

    @cached_property
    def _computed(self) -> Computed | None:
        """The column whose values a host computes when they are read, if there is one."""
        return computed_column(self._source, self.info.name)

    @property
    def computed_place(self) -> int | None:
        """The place of that column among the columns, if there is one."""
        schema, computed = self.info.schema, self._computed
        return schema.places.index(computed.place) if schema and computed else None

    @cached_property
    def _read_as(self) -> Schema | None:
        """The schema of the records as they are read, if it differs from the stored one."""
        schema, computed, place = self.info.schema, self._computed, self.computed_place
        if schema is None or computed is None or place is None:
            return None
        column = schema.columns[place]._replace(type=computed.type_)
        return Schema((*schema.columns[:place], column, *schema.columns[place + 1 :]), schema.key)

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
        """The whole tree of words that stores the relation."""
        return self._source.tree(self.name)

    def view(self) -> tuple[Pages, Tree]:
        """Return the page map and the tree, to call functions of trees; applying buffered edits may replace the map."""
        source = self._source
        tree = source.tree(self.info.name)
        return source.pages, tree

    def words(self, columns: tuple[int, ...] | None = None, rows: int | None = None) -> Iterator[np.ndarray]:
        """Yield batches int64[columns, <= rows] of stored words in key order: the key columns, then the values.

        Without `rows`, a batch has 65,536 of them, or fewer of many columns."""
        pages, tree = self.view()
        if rows is None:
            rows = batch_rows(tree.spec.columns if columns is None else len(columns))
        with naming_path(pages, tree):
            for batch in self._read_batches(pages, tree, columns, rows):
                yield batch
                _ = self._source.pages  # raises if it was closed: the pages may have been reused

    def _words_backward(self, rows: int = TUPLES_ROWS) -> Iterator[np.ndarray]:
        """As `words`, the greatest key first; where the tree has the order of the keys, a batch is of one leaf."""
        pages, tree = self.view()
        with naming_path(pages, tree):
            for batch in self._read_backward(pages, tree, rows):
                yield batch
                _ = self._source.pages  # raises if it was closed: the pages may have been reused

    def _read_backward(self, pages: Pages, tree: Tree, rows: int) -> Iterator[np.ndarray]:
        stored = self._stored(pages, tree) if self._kept_in_order(pages, tree) else None
        if stored is None:
            return self._text_range(pages, tree).batches(rows, backward=True)
        return read_backward(pages, tree, *stored)

    def _read_batches(
        self, pages: Pages, tree: Tree, columns: tuple[int, ...] | None, rows: int
    ) -> Iterator[np.ndarray]:
        if self._texts:
            batches = self._text_range(pages, tree).batches(rows)
            return batches if columns is None else (batch[list(columns)] for batch in batches)
        return read_batches(pages, tree, self._lo, self._hi, columns, rows)

    def batches(self, rows: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches of at most `rows` records (as `words`), in the schema's column order."""
        for batch in self.words(rows=rows):
            yield from self.record_batches(batch)

    def to_arrow(self) -> pa.Table:
        """Return all records as an Arrow table, in the schema's column order."""
        words = self._all_words()
        return pa.Table.from_batches(self.record_batches(words) if words.shape[1] else (), self.schema.arrow)

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Return columns by name: the native dtype where one exists, objects for decimals, texts and bytes."""
        words = self._all_words()
        if self._computed:
            return dict(zip(self.schema.names, (one.to_numpy(False) for one in self._arrays(words)), strict=True))
        return {
            column.name: to_numpy(column.type, words[place], self._source.dictionary)
            for column, place in zip(self.schema.columns, self.schema.places, strict=True)
        }

    def _all_words(self) -> np.ndarray:
        """Return the stored words of all records, int64[C, n]."""
        pages, tree = self.view()
        with naming_path(pages, tree):
            return self._text_range(pages, tree).read() if self._texts else read(pages, tree, self._lo, self._hi)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield records as tuples, lazily, read in batches."""
        for words in self.words(rows=TUPLES_ROWS):
            yield from self._tuples(words)

    def __reversed__(self) -> Iterator[tuple[Any, ...]]:
        """Yield records as tuples, the last key first, lazily: by leaf, or as `batches` where texts are compared."""
        for words in self._words_backward():
            yield from self._tuples(words)

    def first(self, default: Any = None) -> Any:
        """Return the record with the least key, or `default` if there is none.

        >>> import pagestore, tempfile
        >>> with pagestore.open(tempfile.mkdtemp() + "/s.pages") as store, store.transaction() as txn:
        ...     word = txn.create("word", "word: string")
        ...     word.insert(["bee", "ape", "cow"])
        ...     word.first(), word.last(), list(reversed(word)), word.scan("max:word")
        (('ape',), ('cow',), [('cow',), ('bee',), ('ape',)], 'cow')
        """
        return next(self.range_head(1), default)

    def last(self, default: Any = None) -> Any:
        """Return the record with the greatest key, or `default`.

        O(log n), or as reading all where texts are compared.
        """
        return next(reversed(self), default)

    def range_head(self, n: int) -> Iterator[tuple[Any, ...]]:
        """Yield the first n records."""
        words = next(self.words(rows=n), None)
        if words is not None:
            yield from self._tuples(words)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Stream to any program that reads Arrow: pandas, polars, DuckDB, pyarrow."""
        reader = pa.RecordBatchReader.from_batches(self.schema.arrow, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    def record_batch(self, words: np.ndarray) -> pa.RecordBatch:
        """Return stored words int64[C, n] as an Arrow record batch of the schema, at most 2 GiB of texts a column."""
        return pa.RecordBatch.from_arrays(self._arrays(words), schema=self.schema.arrow)

    def record_batches(self, words: np.ndarray) -> Iterator[pa.RecordBatch]:
        """As `record_batch`, split into more batches where texts exceed the limit."""
        arrays, n = self._arrays(words), words.shape[1]
        if n > 1 and [array.type for array in arrays] != self.schema.arrow.types:
            yield from self.record_batches(words[:, : n // 2])
            yield from self.record_batches(words[:, n // 2 :])
        else:
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema.arrow)

    def _tuples(self, words: np.ndarray) -> list[tuple[Any, ...]]:
        """Return stored words int64[C, n] as n records."""
        if self._computed:
            return list(zip(*(array.to_pylist() for array in self._arrays(words)), strict=True))
        typed = zip(self.schema.columns, self.schema.places, strict=True)
        values = (values_of(column.type, words[place], self._source.dictionary) for column, place in typed)
        return list(zip(*values, strict=True))

    def _arrays(self, words: np.ndarray) -> list[pa.Array]:
        computed = self._computed
        return [
            computed.values(self._source, words)
            if computed and place == computed.place
            else decode(column.type, words[place], self._source.dictionary)
            for column, place in zip(self.schema.columns, self.schema.places, strict=True)
        ]

    def _read_computed(self, words: np.ndarray, found: np.ndarray) -> dict[str, np.ndarray]:
        """Return the value columns of records int64[C, n] that were looked up, where `found`."""
        schema, out = self.schema, {}
        arrays = dict(zip(schema.names, self._arrays(words[:, found]), strict=True))
        for column in schema.stored[len(schema.key) :]:
            some = arrays[column.name].to_numpy(zero_copy_only=False)
            out[column.name] = np.full(len(found), "" if column.type.name == "string" else 0, some.dtype)
            out[column.name][found] = some
        return out

    def _stored_key(self, record: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the key of a record, without a computed column."""
        schema, place = self.schema, self.computed_place
        key = [name for name in schema.key if place is None or schema.names[place] != name]
        return tuple(record[schema.names.index(name)] for name in key)

    def _order(self) -> tuple[Tree, Any]:
        """Return the objects that determine the order of records; an edit replaces them."""
        return self.tree, self._source.dictionary.order if self._texts else None

    def _kept_in_order(self, pages: Pages, tree: Tree) -> bool:
        """Return whether the range is in key order in the tree, that is, whether its keys differ in no text."""
        return not self._texts or self._texts[-1] < len(self._text_range(pages, tree).part().group)

    @property
    def sorts_texts(self) -> bool:
        """Whether the key has texts, so that the tree's order differs from the keys' order."""
        return bool(self._texts)

    def key_order(self, words: np.ndarray) -> np.ndarray:
        """Return the places int64[n] that sort stored words int64[C, n], which are in tree order, by key."""
        return self._text_range(*self.view()).order_of(words)

    def _in_order(self, words: np.ndarray) -> np.ndarray:
        """Return stored words int64[C, n], which are in tree order, in key order."""
        return self._text_range(*self.view()).sorted(words) if self._texts else words

    def _inside(self, keys: np.ndarray) -> np.ndarray:
        """Return which keys int64[K, n] are in the range, bool[n]."""
        if self._texts:
            return self._text_range(*self.view()).inside(keys)
        rows = map(tuple, keys.T.tolist())
        return np.array([row >= self._lo and (not self._hi or row < self._hi) for row in rows], bool)

    def _bound(self, values: Any) -> Bound:
        row = values if isinstance(values, tuple) else (values,)
        if len(row) > len(self.schema.key):
            key = ", ".join(self.schema.key)
            raise SchemaError(f"{row!r} has more values than {self.name!r} has key columns ({key})")
        if not self._texts:
            return self._words_of(row)
        return tuple(
            text_of(column, value) if column.type.interned else word_without_texts(column, value)
            for column, value in zip(self.schema.stored, row, strict=False)
        )

    def _bound_at(self, words: tuple[int, ...]) -> Bound:
        """Return the key of stored words as a bound."""
        keys: list[int | bytes] = [*words[: len(self.schema.key)]]
        if self._texts:
            texts = self._source.dictionary.loaded(np.array([keys[place] for place in self._texts]))
            for place, text in zip(self._texts, texts, strict=True):
                keys[place] = text
        return tuple(keys)

    def _words_of(self, row: tuple[Any, ...]) -> tuple[int, ...]:
        """Return the words of a record or a prefix of one, in stored order: the key, then the values."""
        schema = self.schema
        if schema.plain and are_words(row):
            return row
        id_of = self._source.dictionary.id_of  # raises if the transaction has ended
        return tuple([word_of_value(*each, id_of) for each in zip(schema.stored, row, strict=False)])


def are_ints(row: tuple[Any, ...]) -> bool:
    """Return whether a tuple contains only int."""
    for value in row:  # noqa: SIM110
        if type(value) is not int:
            return False
    return True


def are_words(row: tuple[Any, ...]) -> bool:
    """Return whether a tuple contains only int of 64 bits; a loop, since a generator takes three times as long."""
    for value in row:  # noqa: SIM110
        if type(value) is not int or not WORD_MIN <= value <= WORD_MAX:
            return False
    return True
