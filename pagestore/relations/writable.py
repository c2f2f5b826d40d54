"""A relation in a transaction: edits of rows in any form become edits of words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pagestore.errors import MissingError, PagestoreError, SchemaError, WordError
from pagestore.relations.bags import additions, removals
from pagestore.relations.range import WritableMapping
from pagestore.relations.relation import Relation, overlapping_words
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.sorting.tuples import sort_order
from pagestore.storage.invalidated import Invalidated
from pagestore.trees.kernels.node_buffer import ADD, ERASE, INSERT, SET
from pagestore.values.codec import encode, narrowed
from pagestore.values.dictionary import TextFinder
from pagestore.values.row_formats import (
    Misnamed,
    arrow_batches,
    given_rows,
    plain_rows,
    rows_as_columns,
)
from pagestore.versions.catalog import Info
from pagestore.versions.working_trees import WorkingTrees

if TYPE_CHECKING:
    import pyarrow.compute as pc


class WritableRelation(Relation):
    """A relation in a transaction. Edits are buffered in order; reads see them."""

    _source: WorkingTrees

    def follow(self, info: Info | None) -> bool:
        """Adopt the relation's current info; False if it was dropped or made anew."""
        if info is not None and info.spec.tree_id == self.info.spec.tree_id:
            self.info = info
            return True
        gone = f"relation {self.name!r} was dropped, or undone with a savepoint; ask the transaction for it again"
        self._source = cast(Any, Invalidated(MissingError, gone))
        return False

    def insert(self, rows: Any = None, *, columns: Any = None) -> None:
        """Add records; an existing key is left unchanged (`set` replaces its values).

        `rows` is a list of tuples, or of rows with names (dicts, dataclasses, sqlite3.Row), a dict
        of columns (numpy arrays, lists, Arrow arrays), or any Arrow object with the relation's
        column names, in any order: a table, a reader, a data set or its scanner, a frame of pandas
        or polars, a relation of DuckDB. Readers and scanners are read batch by batch. `columns` is
        a list of columns in the order of the schema. Raises SchemaError naming a missing or unknown
        column, WordError; then nothing of `rows` is added.

        >>> import numpy as np, pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     price = txn.create("price", "item: string, cents: int64", key=("item",))
        ...     price.insert([("tea", 350), ("cake", 500)])
        ...     price.insert([{"cents": 200, "item": "bun"}])
        ...     price.insert({"item": ["tea", "jam"], "cents": np.array([1, 300])})
        ...     list(price)
        [('bun', 200), ('cake', 500), ('jam', 300), ('tea', 350)]
        """
        self._edit(INSERT, given_rows(rows, columns))

    def set(self, rows: Any = None, *, columns: Any = None) -> None:
        """Add records, replacing the values of existing keys. Raises SchemaError for a bag."""
        if self.info.bag:
            raise SchemaError(
                f"{self.name!r} is a bag, which has no keys to set: insert and delete rows"
            )
        self._edit(SET, given_rows(rows, columns))

    def add(self, rows: Any = None, *, columns: Any = None) -> None:
        """Add to the value words; a record whose last value reaches 0 is removed. Int64 and decimal
        values only.

        Raises WordError, undoing the call, for a sum with more digits than its column. Raises
        EditError, when the edits are applied, for a last value that would fall below 0 or a sum
        beyond 64 bits.
        """
        values = self.schema.stored[len(self.schema.key) :]
        if self.info.bag:
            raise SchemaError(f"{self.name!r} is a bag: an insertion adds a row")
        for column in values:
            if (
                column.type.name not in ("int64", "decimal")
                or column.type.nullable
                or column.type.wide
            ):
                raise SchemaError(
                    f"column {column.name!r} is {column.type}; only int64 and short decimals add up"
                )
        rows = given_rows(rows, columns)
        if all(column.type.name == "int64" and not column.narrow for column in values):
            self._edit(ADD, rows)
            return
        words = self.encode(rows)
        with self._source.savepoint():
            _, changed = self._source.apply(self.name, np.full(words.shape[1], ADD), words)
            for column, sums in zip(values, changed[len(self.schema.key) :], strict=True):
                narrowed(column, sums)
                if (
                    column.type.name == "decimal"
                    and (np.abs(sums) >= 10**column.type.precision).any()
                ):
                    raise WordError(
                        f"column {column.name!r}: what is added up has more digits than "
                        f"{column.type}"
                    )

    def delete(self, rows: Any = None, *, columns: Any = None, every: bool = False) -> None:
        """Remove records: `rows` holds keys, or whole records, which are removed only if the values
        are the same.

        A bag loses one row for each that is given, or, with `every`, all that are equal to it.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     price = txn.create("price", "item: string, cents: int64", key=("item",))
        ...     price.insert([("tea", 350), ("cake", 500), ("bun", 200)])
        ...     price.delete([("tea",)])
        ...     price.delete([("cake", 1)])  # which has another value, and stays
        ...     list(price)
        [('bun', 200), ('cake', 500)]
        """
        words = self.encode(given_rows(rows, columns), keys_allowed=True, add=False)
        keys = len(self.schema.key)
        if self.info.bag:
            pages, tree = self.view()
            self._source.edit(self.info, *removals(pages, tree, words, every))
            return
        if len(words) > keys:
            found, values = self._look_up(words[:keys])
            words = words[:, found & (values == words[keys:]).all(axis=0)]
        else:
            words = np.concatenate(
                [words, np.zeros((len(self.schema.columns) - keys, words.shape[1]), np.int64)]
            )
        self._source.edit(self.info, np.full(words.shape[1], ERASE), words)

    def delete_range(self, lo: tuple[Any, ...] = (), hi: tuple[Any, ...] = ()) -> int:
        """Remove the records with lo <= key < hi, bounded as by `range`; return how many. O(removed
        * height).

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     sale = txn.create("sale", "day: int64, shop: string, cents: int64", key=("day", "shop"))
        ...     sale.insert([(1, "north", 500), (1, "south", 20), (2, "north", 70), (3, "south", 10)])
        ...     sale.delete_range((1, "o"), (3,)), list(sale)
        (2, [(1, 'north', 500), (3, 'south', 10)])
        """
        return self._delete(self.range(lo, hi).words())

    def delete_where(self, condition: pc.Expression) -> int:
        """Remove the records for which a condition is true; return how many. O(records + removed *
        height).

        Raises SchemaError for a condition that the relation's columns cannot have.

        >>> import pagestore, pyarrow.compute as pc
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     sale = txn.create("sale", "day: int64, shop: string, cents: int64", key=("day", "shop"))
        ...     sale.insert([(1, "north", 500), (1, "south", 20), (2, "north", 70)])
        ...     sale.delete_where((pc.field("shop") == "north") & (pc.field("cents") < 100)), list(sale)
        (1, [(1, 'north', 500), (1, 'south', 20)])
        """
        return self._delete(self.words_where(condition))

    def _delete(self, batches: Iterable[np.ndarray]) -> int:
        """Remove stored records, in parts int64[C, n]; return how many."""
        keys, width = len(self.schema.key), self.tree.spec.columns
        if self.info.bag:
            rows = np.concatenate([np.empty((width - 1, 0), np.int64), *batches], axis=1)
            self._source.edit(self.info, *removals(*self.view(), rows, True))
            return int(rows.shape[1])
        gone = np.concatenate(
            [np.empty((keys, 0), np.int64), *(words[:keys] for words in batches)], axis=1
        )
        rows = np.concatenate([gone, np.zeros((width - keys, gone.shape[1]), np.int64)])
        self._source.edit(self.info, np.full(rows.shape[1], ERASE), rows)
        return int(rows.shape[1])

    def remove_stabbed(self, points: Any) -> pa.RecordBatch:
        """Remove the records that any of many points (alpha..., x) stabs, and return them; see
        `stab_many`.

        They are in key order, so one pass finds them all and a second removes them all, O((m + 1)
        log n) each.
        """
        return self._remove(overlapping_words(self, points, 1))

    def remove_overlaps(self, points: Any) -> pa.RecordBatch:
        """Remove the records that any of many points (alpha..., lo, hi) overlaps; return them."""
        return self._remove(overlapping_words(self, points, 2))

    def _remove(self, words: np.ndarray) -> pa.RecordBatch:
        if words.shape[1]:
            self._source.apply(self.name, np.full(words.shape[1], ERASE), words)
        return self.record_batch(self._in_order(words)[: len(self.schema.columns)])

    def __setitem__(self, key: Any, values: Any) -> None:
        """Set the value of a key, or a tuple of its values."""
        self.set([self._record(key, values)])

    def _record(self, key: Any, values: Any) -> tuple[Any, ...]:
        """Return a record in the order of the columns. Raises SchemaError."""
        row = key if isinstance(key, tuple) else (key,)
        row += values if isinstance(values, tuple) else (values,)
        stored = [column.name for column in self.schema.stored]
        if len(row) != len(stored):
            raise SchemaError(f"{row!r} is not a record of {self.name!r} ({self.schema})")
        return tuple(row[stored.index(name)] for name in self.schema.names)

    def __delitem__(self, key: Any) -> None:
        self[key]  # raises KeyError if it does not exist
        row = key if isinstance(key, tuple) else (key,)
        self.delete({name: [value] for name, value in zip(self.schema.key, row, strict=True)})

    def update(self, other: Any = (), /, **named: Any) -> None:
        """Set values of many keys: a mapping, pairs, or names where the key is a text."""
        pairs = [*(other.items() if hasattr(other, "items") else other), *named.items()]
        rows = [self._record(key, values) for key, values in pairs]
        if rows:
            self.set(rows)

    def setdefault(self, key: Any, values: Any) -> Any:
        """Return the values of a key; if it does not exist, set it to these first."""
        if key not in self:
            self[key] = values
        return self[key]

    def pop(self, key: Any, *default: Any) -> Any:
        """Remove a key and return its values; if there is none, the default, or KeyError."""
        try:
            values = self[key]
        except KeyError:
            if default:
                return default[0]
            raise
        del self[key]
        return values

    def clear(self) -> None:
        """Remove all records. O(pages)."""
        self._source.truncate(self.name)

    def mapping(self) -> WritableMapping:
        """Return the relation as a MutableMapping from keys to values, see `Relation.mapping`."""
        return WritableMapping(self)

    def bulk(self, batches: Iterable[Any]) -> int:
        """Build the relation, which must be empty, from batches that ascend strictly by key;
        streams.

        With texts in the key, all batches are held in memory, and may be in any order. Returns the
        number of records. Raises OrderError naming the first record out of order.
        """
        if self.tree.count:
            raise SchemaError(
                f"{self.name!r} has {self.tree.count} records; bulk builds empty relations"
            )
        if self.info.bag:
            for batch in batches:
                self.insert(batch)
            return len(self)
        encoded = (self.encode(batch) for batch in batches)
        if self.sorts_texts:  # their order in the tree differs
            words = np.concatenate(
                [np.empty((self.info.spec.columns, 0), np.int64), *encoded], axis=1
            )
            encoded = (words[:, sort_order(words[: self.info.spec.keys])] for _ in (0,))
        return self._source.bulk(self.info, encoded)

    def encode(
        self, rows: Any, keys_allowed: bool = False, add: bool = True, first: int = 0
    ) -> np.ndarray:
        """Return the stored words int64[C, n] of rows in any of the forms that `insert` takes.

        Texts that are not in the dictionary are added if `add`, else become 0. Raises SchemaError
        or WordError with the problems of all columns; `first` is the number of the first row.
        """
        schema = self.info.schema or self.schema  # nobody writes a column that is computed
        if self.info.spec.columns != len(schema.columns) + self.info.bag:
            raise SchemaError(
                f"{self.name!r} has words of its host's own; change it through the host"
            )
        if schema.plain and (words := plain_rows(rows, schema)) is not None:
            return self._narrowed(words, first, add)
        columns, problems = schema.columns, list[PagestoreError]()
        try:
            values = rows_as_columns(rows, schema, keys_allowed)
        except Misnamed as error:
            columns = tuple(column for column in columns if column.name in error.columns)
            values, problems = [error.columns[column.name] for column in columns], [error]
        if not problems and len(values) != len(columns):
            columns = schema.stored[: len(schema.key)]
        out: dict[str, np.ndarray] = {}
        interner = (
            self._source.dictionary if add and not problems else TextFinder(self._source.dictionary)
        )
        for column, column_values in zip(columns, values, strict=True):
            try:
                out[column.name] = encode(column, column_values, interner, first)
            except WordError as error:
                problems.append(error)
        try:
            _refuse(problems, {name: len(words) for name, words in out.items()})
        finally:
            # a frame and an error that refer to each other would keep the transaction
            problems.clear()
        words = np.array([out[column.name] for column in schema.stored[: len(columns)]])
        return self._narrowed(words, first, add)

    def _narrowed(self, words: np.ndarray, first: int, add: bool) -> np.ndarray:
        """Return the words int64[C, n] of rows as narrow columns have them. Raises WordError for
        a value that one of them does not have, if `add`.
        """
        schema = self.info.schema or self.schema
        if schema.narrow:
            words = words.copy()  # they may be a caller's
            for place in schema.narrow:
                if place < len(words):
                    words[place] = narrowed(schema.stored[place], words[place], first, add)
        return words

    def _edit(self, action: int, rows: Any) -> None:
        batches = None if isinstance(rows, list) else arrow_batches(rows)
        if batches is None:
            self._edit_words(action, self.encode(rows))
            return
        first = 0
        with self._source.savepoint():  # if one row is refused, none is added
            for batch in batches:
                self._edit_words(action, self.encode(batch, first=first))
                first += len(batch)

    def _edit_words(self, action: int, words: np.ndarray) -> None:
        if self.info.bag:
            self._source.edit(self.info, *additions(words))
            return
        actions = np.empty(words.shape[1], np.int64)
        actions.fill(action)
        self._source.edit(self.info, actions, words)


def _refuse(problems: list[PagestoreError], lengths: dict[str, int]) -> None:
    """Raise the problems of some columns, if there are any; several in one error."""
    if len({*lengths.values()}) > 1:
        said = ", ".join(f"{name!r} {length}" for name, length in lengths.items())
        problems.append(
            SchemaError(
                f"columns of several lengths: {said}; all columns need the same number of rows"
            )
        )
    if len(problems) == 1:
        raise (
            problems[0] if not isinstance(problems[0], Misnamed) else SchemaError(str(problems[0]))
        ) from None
    if problems:
        kind = (
            SchemaError
            if any(isinstance(problem, SchemaError) for problem in problems)
            else WordError
        )
        raise kind(
            "\n  ".join([f"{len(problems)} problems, and nothing is changed:", *map(str, problems)])
        )
