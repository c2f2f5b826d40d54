"""A range of a relation: the records between two keys, as words, as Arrow and as numpy arrays.

What a relation reads from: a snapshot, or a transaction with its own edits.

A cursor: a position at a record of a range, or before or after all, that moves forward and back.

cursor.seek((2,))      the first record whose key is at least (2,)
cursor.next()          the next one; cursor.prev() the one before

A range of a relation with a dict's methods: keys and values, forward and back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from pagestore.errors import SchemaError
from pagestore.pages.layout import WORD_MAX, WORD_MIN, Pages
from pagestore.relations.bags import repeated
from pagestore.relations.frames import Frames
from pagestore.relations.texts import NO_TEXT, Bound, TextRange, Words
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.trees.read import RecordFinder, batch_rows, read, read_backward, read_batches
from pagestore.trees.tree import Tree, naming_path
from pagestore.values.codec import (
    NULL,
    decode,
    text_of,
    to_numpy,
    values_of,
    word_of_value,
    word_without_texts,
)
from pagestore.values.dictionary import Dictionary
from pagestore.values.types import Column, Schema
from pagestore.versions.catalog import Info
from pagestore.versions.hosts import Computed, computed_column

if TYPE_CHECKING:
    import pyarrow.compute as pc


class Source(Protocol):
    """A version's trees and texts, as relations use them."""

    @property
    def pages(self) -> Pages:
        """The page map, for kernels."""

    @property
    def dictionary(self) -> Dictionary:
        """The texts of the version."""

    @property
    def threads(self) -> int:
        """The number of threads that look many keys up."""

    def tree(self, name: str) -> Tree:
        """Return the tree of words of a relation."""

    def finder(self, name: str) -> RecordFinder:
        """Return a finder of single keys in a relation."""


TUPLES_ROWS = 4096  # records that are converted to tuples at a time


class Range(Frames):
    """The records of a relation with lo <= key < hi, in key order.

    Both bounds are prefixes of a key, () is unbounded; they are words, and bytes where the key has
    a text.
    """

    def __init__(self, source: Source, info: Info, lo: Bound = (), hi: Bound = ()):
        self._source, self.info = source, info
        self._lo, self._hi = lo, hi

    @property
    def _texts(self) -> tuple[int, ...]:
        """The places of the texts in the key."""
        schema = self.info.schema
        return schema.text_keys if schema else ()

    def _text_range(
        self, pages: Pages, tree: Tree, lo: Bound | None = None, hi: Bound | None = None
    ) -> TextRange:
        """Return the TextRange of this range, or with other bounds; the key must have texts."""
        lo, hi = self._lo if lo is None else lo, self._hi if hi is None else hi
        return TextRange(
            pages, tree, self._source.dictionary, self._texts, lo, hi, self._source.threads
        )

    def _stored(self, pages: Pages, tree: Tree) -> tuple[Words, Words] | None:
        """Return the bounds in words; None if what is between is not contiguous in the tree."""
        if self._texts:
            return self._text_range(pages, tree).stored()
        return cast(tuple[Words, Words], (self._lo, self._hi))

    @property
    def name(self) -> str:
        """The name of the relation."""
        return self.info.name

    @property
    def schema(self) -> Schema:
        """The schema of the relation. Raises SchemaError for a hidden tree of words."""
        if self.info.schema is None:
            raise SchemaError(f"{self.name!r} is a tree of raw words and has no schema")
        return self.info.schema if self._computed is None else self._read_as(self._computed)

    @cached_property
    def _computed(self) -> Computed | None:
        """The column whose values a host computes when they are read, if there is one."""
        return computed_column(self._source, self.info.name)

    @property
    def computed_place(self) -> int | None:
        """The place of that column among the columns, if there is one."""
        schema, computed = self.info.schema, self._computed
        return schema.places.index(computed.place) if computed and schema else None

    def _read_as(self, computed: Computed) -> Schema:
        """Return the schema of records as they are read, with the computed column's type."""
        schema, place = self.info.schema, self.computed_place
        assert schema is not None and place is not None
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
        """Return the page map and the tree, to call functions of trees; applying buffered edits
        may replace the map.
        """
        source = self._source
        tree = source.tree(self.info.name)
        return source.pages, tree

    def words(
        self, columns: tuple[int, ...] | None = None, rows: int | None = None
    ) -> Iterator[np.ndarray]:
        """Yield batches int64[columns, <= rows] of stored words in key order: the key columns, then
        the values.

        Without `rows`, a batch has 65,536 of them, or fewer of many columns."""
        pages, tree = self.view()
        if rows is None:
            rows = batch_rows(tree.spec.columns if columns is None else len(columns))
        if self.info.bag:
            columns = (*(range(tree.spec.keys) if columns is None else columns), tree.spec.keys)
        with naming_path(pages, tree):
            batches = self._read_batches(pages, tree, columns, rows)
            for batch in repeated(batches, rows) if self.info.bag else batches:
                yield batch
                _ = self._source.pages  # raises if it was closed: the pages may have been reused

    def words_where(self, condition: pc.Expression) -> Iterator[np.ndarray]:
        """Yield, as `words` does, the records for which a condition is true, such as
        `pc.field("year") < 2013`.

        O(records). Raises SchemaError for a condition that these columns cannot have.
        """
        for words in self.words():
            start = 0
            for batch in self.record_batches(words):
                yield words[:, start + self._places_where(batch, condition)]
                start += len(batch)

    def _places_where(self, batch: pa.RecordBatch, condition: pc.Expression) -> np.ndarray:
        """Return the rows of a batch where a condition is true, int64[n]. Raises SchemaError."""
        place = "_".join([*batch.schema.names, "place"])  # no column has this name
        try:
            table = pa.Table.from_batches([batch]).append_column(
                place, pa.array(np.arange(len(batch)))
            )
            return cast(np.ndarray, table.filter(condition)[place].to_numpy())
        except (pa.ArrowException, TypeError) as error:
            raise SchemaError(
                f"{condition} is not a condition on {self.name!r} ({self.schema}): {error}"
            ) from None

    def _words_backward(self, rows: int = TUPLES_ROWS) -> Iterator[np.ndarray]:
        """As `words`, the greatest key first; where the tree has the order of the keys, a batch
        is of one leaf.
        """
        pages, tree = self.view()
        with naming_path(pages, tree):
            batches = self._read_backward(pages, tree, rows)
            if self.info.bag:
                batches = repeated((batch[: tree.spec.keys + 1] for batch in batches), rows)
            for batch in batches:
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
        """Yield Arrow record batches of at most `rows` records (as `words`), in schema order."""
        for batch in self.words(rows=rows):
            yield from self.record_batches(batch)

    def to_arrow(self) -> pa.Table:
        """Return all records as an Arrow table, in the schema's column order."""
        words = self._all_words()
        return pa.Table.from_batches(
            self.record_batches(words) if words.shape[1] else (), self.schema.arrow
        )

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Return columns by name: of native dtypes, or objects: decimals, texts, bytes."""
        words = self._all_words()
        if self._computed:
            return dict(
                zip(
                    self.schema.names,
                    (array.to_numpy(False) for array in self._arrays(words)),
                    strict=True,
                )
            )
        return {
            column.name: to_numpy(column.type, words[place], self._source.dictionary)
            for column, place in zip(self.schema.columns, self.schema.places, strict=True)
        }

    def _all_words(self) -> np.ndarray:
        """Return the stored words of all records, int64[C, n]."""
        if self.info.bag:
            none = np.empty((self.info.spec.keys, 0), np.int64)
            return np.concatenate([none, *self.words()], axis=1)
        pages, tree = self.view()
        with naming_path(pages, tree):
            if self._texts:
                return self._text_range(pages, tree).read()
            return read(pages, tree, self._lo, self._hi)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield records as tuples, lazily, read in batches."""
        for words in self.words(rows=TUPLES_ROWS):
            yield from self._tuples(words)

    def __reversed__(self) -> Iterator[tuple[Any, ...]]:
        """Yield records as tuples, the last key first, lazily: by leaf, or as `batches` where
        texts are compared.
        """
        for words in self._words_backward():
            yield from self._tuples(words)

    def first(self, default: Any = None) -> Any:
        """Return the record with the least key, or `default` if there is none.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
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
        """Return stored words int64[C, n] as an Arrow record batch of the schema, at most 2 GiB
        of texts a column.
        """
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
        values = (
            values_of(column.type, words[place], self._source.dictionary) for column, place in typed
        )
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
            out[column.name] = np.full(
                len(found), "" if column.type.name == "string" else 0, some.dtype
            )
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
        """Return whether the range is in key order in the tree, that is, whether its keys differ
        in no text.
        """
        return not self._texts or self._texts[-1] < len(self._text_range(pages, tree).part().group)

    @property
    def sorts_texts(self) -> bool:
        """Whether the key has texts, so that the tree's order differs from the keys' order."""
        return bool(self._texts)

    def key_order(self, words: np.ndarray) -> np.ndarray:
        """Return the places int64[n] that sort stored words int64[C, n], in tree order, by key."""
        return self._text_range(*self.view()).order_of(words)

    def _in_order(self, words: np.ndarray) -> np.ndarray:
        """Return stored words int64[C, n], which are in tree order, in key order."""
        return self._text_range(*self.view()).sorted(words) if self._texts else words

    def _inside(self, keys: np.ndarray) -> np.ndarray:
        """Return which keys int64[K, n] are in the range, bool[n]."""
        if self._texts:
            return self._text_range(*self.view()).inside(keys)
        rows = map(tuple, keys.T.tolist())
        return np.array(
            [row >= self._lo and (not self._hi or row < self._hi) for row in rows], bool
        )

    def _bound(self, values: Any) -> Bound:
        row = values if isinstance(values, tuple) else (values,)
        if len(row) > len(self.schema.key):
            key = ", ".join(self.schema.key)
            raise SchemaError(f"{row!r} has more values than {self.name!r} has key columns ({key})")
        if not self._texts:
            return self._words_of(row)
        return tuple(
            _bound_of(column, value) for column, value in zip(self.schema.stored, row, strict=False)
        )

    def _bound_at(self, words: tuple[int, ...]) -> Bound:
        """Return the key of stored words as a bound."""
        keys: list[int | bytes] = [*words[: len(self.schema.key)]]
        places = [place for place in self._texts if keys[place] != NULL]
        if places:
            texts = self._source.dictionary.loaded(np.array([keys[place] for place in places]))
        else:
            texts = []
        for place in self._texts:
            keys[place] = NO_TEXT
        for place, text in zip(places, texts, strict=True):
            keys[place] = text
        return tuple(keys)

    def _words_of(self, row: tuple[Any, ...]) -> tuple[int, ...]:
        """Return the words of a record or a prefix, in stored order: key, then values."""
        schema = self.schema
        if schema.plain and are_words(row):
            return row
        id_of = self._source.dictionary.id_of  # raises if the transaction has ended
        return tuple(
            [word_of_value(*each, id_of) for each in zip(schema.stored, row, strict=False)]
        )


def _bound_of(column: Column, value: Any) -> int | bytes:
    """Return a value of a key as a bound has it."""
    if not column.type.interned:
        return word_without_texts(column, value)
    return NO_TEXT if value is None and column.type.nullable else text_of(column, value)


def are_ints(row: tuple[Any, ...]) -> bool:
    """Return whether a tuple contains only int."""
    for value in row:  # noqa: SIM110
        if type(value) is not int:
            return False
    return True


def are_words(row: tuple[Any, ...]) -> bool:
    """Return whether a tuple contains only int of 64 bits; a loop, since a generator takes three
    times as long.
    """
    for value in row:  # noqa: SIM110
        if type(value) is not int or not WORD_MIN <= value <= WORD_MAX:
            return False
    return True


STEP_ROWS = 64  # records that are read ahead at first
BEFORE, BEHIND = "before", "behind"


class Cursor:
    """A position in a range. It begins before the first record; a move returns the record that it
    reaches, or None.

    In a transaction it sees the edits made so far. Moves cost O(log n), and less in sequence;
    where texts are compared, as much as reading the range.

    >>> import pagestore
    >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
    ...     square = txn.create("square", "x: int64, y: int64", key="x")
    ...     square.insert([(x, x * x) for x in range(10)])
    ...     cursor = square.cursor()
    ...     cursor.seek(4), cursor.next(), cursor.prev(), cursor.prev(), cursor.last(), cursor.next(), cursor.prev()
    ((4, 16), (5, 25), (4, 16), (3, 9), (9, 81), None, (9, 81))
    """

    def __init__(self, within: Range) -> None:
        self._range = within
        # of the record that it is at, or BEFORE or BEHIND
        self._words: tuple[int, ...] | str = BEFORE
        self._ahead: Iterator[tuple[int, ...]] = iter(())
        self._going: Any = None  # the direction and the order of `_ahead`

    @property
    def record(self) -> tuple[Any, ...] | None:
        """The record at the cursor, as a tuple; None before the first and after the last."""
        if isinstance(self._words, str):
            return None
        columns = self._range.record_batch(np.array(self._words)[:, None]).columns
        return tuple(column[0].as_py() for column in columns)

    def first(self) -> tuple[Any, ...] | None:
        """Move to the first record."""
        self._words = BEFORE
        return self.next()

    def last(self) -> tuple[Any, ...] | None:
        """Move to the last record."""
        self._words = BEHIND
        return self.prev()

    def seek(self, key: Any) -> tuple[Any, ...] | None:
        """Move to the first record whose key is at least `key`, or a prefix of one. Raises
        SchemaError, WordError.
        """
        return self._move(1, self._forward(max(self._range._bound(key), self._range._lo)))

    def next(self) -> tuple[Any, ...] | None:
        """Move to the next record, or from the last one to the end."""
        if self._words == BEHIND:
            return None
        if not self._goes_on(1):
            here = None if isinstance(self._words, str) else self._words[: self._keys]
            ahead = self._forward(self._range._bound_at(here) if here else self._range._lo)
            self._ahead = (words for words in ahead if words[: self._keys] != here)
        return self._move(1, self._ahead)

    def prev(self) -> tuple[Any, ...] | None:
        """Move to the previous record, or from the first one to the start."""
        if self._words == BEFORE:
            return None
        if not self._goes_on(-1):
            words = self._words
            self._ahead = self._backward(
                self._range._hi if isinstance(words, str) else self._range._bound_at(words)
            )
        return self._move(-1, self._ahead)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the records from here on."""
        while (record := self.next()) is not None:
            yield record

    @property
    def _keys(self) -> int:
        return len(self._range.schema.key)

    def _goes_on(self, way: int) -> bool:
        """Return whether `_ahead` continues from here in this direction."""
        return not isinstance(self._words, str) and self._going == (way, self._range._order())

    def _move(self, way: int, ahead: Iterator[tuple[int, ...]]) -> tuple[Any, ...] | None:
        self._going, self._ahead = (way, self._range._order()), ahead
        self._words = next(ahead, BEHIND if way > 0 else BEFORE)
        _ = self._range.source.pages  # raises if it was closed: the pages may have been reused
        return self.record

    def _forward(self, lo: Bound) -> Iterator[tuple[int, ...]]:
        return self._rows(
            Range(self._range.source, self._range.info, lo, self._range._hi).words(rows=STEP_ROWS)
        )

    def _backward(self, hi: Bound) -> Iterator[tuple[int, ...]]:
        return self._rows(
            Range(self._range.source, self._range.info, self._range._lo, hi)._words_backward(
                STEP_ROWS
            )
        )

    def _rows(self, batches: Iterator[np.ndarray]) -> Iterator[tuple[int, ...]]:
        for batch in batches:
            yield from map(tuple, batch[: len(self._range.schema.columns)].T.tolist())


class Keyed(Range):
    """Keys and values of a range.

    A key or value of one column is that value, of several columns a tuple, of none ().
    """

    def keys(self) -> Iterator[Any]:
        """Yield the keys in order, lazily.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     price = txn.create("price", "item: string, year: int64, p: int64", key="item")
        ...     price["tea"] = 2013, 4
        ...     list(price.keys()), list(price.values()), dict(price.items()), price["tea"]
        (['tea'], [(2013, 4)], {'tea': (2013, 4)}, (2013, 4))
        """
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        """Yield the values, in the order of the keys, lazily."""
        return (value for _, value in self.items())

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield (key, value) of each record in key order, lazily, read in batches."""
        for batch in self.batches():
            yield from self._items_of(batch)

    def _items_of(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, Any]]:
        names, key = self.schema.names, self.schema.key
        columns = {
            name: column.to_pylist() for name, column in zip(names, batch.columns, strict=True)
        }
        values = [column.name for column in self.schema.stored[len(key) :]]
        return zip(
            _joined(columns, key, len(batch)), _joined(columns, values, len(batch)), strict=True
        )

    def cursor(self) -> Cursor:
        """Return a cursor, which moves forward and back. Raises SchemaError for a bag."""
        if self.info.bag:
            raise SchemaError(
                f"{self.name!r} is a bag, whose rows have no places of their own: iterate over it"
            )
        return Cursor(self)

    def mapping(self) -> RelationMapping:
        """Return the range as a Mapping from keys to values; for a relation in a transaction, as a
        MutableMapping.

        A relation itself iterates over its records, a dict over its keys: use this where a dict is
        expected.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     square = txn.create("square", "x: int64, y: int64", key="x").mapping()
        ...     square.update({x: x * x for x in range(4)})
        ...     square.pop(3), list(square), square == {0: 0, 1: 1, 2: 4}
        (9, [0, 1, 2], True)
        """
        return RelationMapping(self)


class RelationMapping(Mapping[Any, Any]):
    """A relation as a mapping from keys to values."""

    def __init__(self, relation: Any) -> None:
        self.relation = relation

    def __getitem__(self, key: Any) -> Any:
        return self.relation[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.relation.keys())

    def __len__(self) -> int:
        return len(self.relation)

    def __repr__(self) -> str:
        return f"<mapping of {self.relation!r}>"


class WritableMapping(RelationMapping, MutableMapping[Any, Any]):
    """A relation of a transaction as a mapping from keys to values."""

    def __setitem__(self, key: Any, value: Any) -> None:
        self.relation[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.relation[key]

    def clear(self) -> None:
        """Remove all records. O(pages)."""
        self.relation.clear()


def _joined(columns: Mapping[str, list[Any]], names: Any, rows: int) -> Any:
    """Return one value a row: that of one column, or a tuple of several."""
    if len(names) == 1:
        return columns[names[0]]
    return zip(*(columns[name] for name in names), strict=True) if names else [()] * rows
