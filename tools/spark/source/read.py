"""A batch read of a relation as of one version, in ranges of its keys.

Cut a tree into key ranges of about the same size, by the separators in its index pages.

root     | 10 -> p | 40 -> q |          the first level from the top with enough entries; no leaf is read
         p | 10 | 20 | 30 |   q | 40 | 50 |
two parts                               (): 10, 20    30, 40, 50 :()

Select the columns of a relation to read, and convert their stored words to batches for Spark.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pagestore.errors import MissingError, SchemaError
from pagestore.host import Column, Relation, Snapshot, Tree, read_batches
from pagestore.tooling import Walk, naming_path, repeated

from .options import Options, held, snapshot_at, store_at
from .sentences import sentences_first
from .types import arrow_schema, spark_batches

ENTRIES_EACH = 8  # index entries per part, at least, if there are enough: subtrees differ in size


class KeyRange(NamedTuple):
    """The records of a tree with lo <= key < hi; bounds are key words, () is unbounded."""

    lo: tuple[int, ...] = ()
    hi: tuple[int, ...] = ()


def key_ranges(relation: Relation, walk: Walk, parts: int) -> list[KeyRange] | None:
    """Return at most `parts` ranges that together cover the relation, or range of one; fewer if it
    is small.

    None if the range is not contiguous in the tree, since its bounds are texts. O(index pages
    read).
    """
    stored = relation._stored(*relation.view())
    if stored is None:
        return None
    lo, hi = stored
    keys = _separators(walk, relation.tree, parts * ENTRIES_EACH)
    inside = [key for key in keys if (not lo or key[: len(lo)] > lo) and (not hi or key < hi)]
    cuts = [inside[len(inside) * part // parts] for part in range(1, parts)] if inside else []
    bounds = [lo, *dict.fromkeys(cuts), hi]
    return [KeyRange(*both) for both in pairwise(bounds)]


def _separators(walk: Walk, tree: Tree, enough: int) -> list[tuple[int, ...]]:
    """Return all separators but the first of the highest index level with `enough` entries."""
    if tree.height < 2:
        return []
    keys, pages = tree.spec.keys, [tree.root]
    for level in range(tree.height - 1, 0, -1):
        entries = np.concatenate([walk.columns(page)[: keys + 1] for page in pages], axis=1)
        if entries.shape[1] >= enough or level == 1:
            break
        pages = entries[keys].tolist()
    return [*map(tuple, entries[:keys, 1:].T.tolist())]


PARTITION_ROWS = 500_000  # of a partition, unless an option gives the number of partitions
PARTITIONS_MAX = 200
BATCH_ROWS = 16384


@dataclass
class Part(InputPartition):
    """A partition of a relation: a range of key words, or all that the options select."""

    range: KeyRange | None


@sentences_first
class RelationReader(DataSourceReader):
    """Reads a relation; every task opens the store at the same version."""

    def __init__(self, options: Options, version: int, schema: StructType) -> None:
        self._options, self._version, self._schema = options, version, schema
        self._path = options.required("path", "the store's file")

    def partitions(self) -> list[InputPartition]:
        """Return key ranges that together cover what is read."""
        with store_at(self._path) as store, held(store, self._version) as snapshot:
            number = self._options.number("numPartitions", least=1)
            return [*parts_of(self._relation(snapshot), Walk(store._handle.mapping), number)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, in batches."""
        assert isinstance(partition, Part)
        with snapshot_at(self._path, self._version) as snapshot:
            relation = self._relation(snapshot)
            columns = columns_requested(relation, self._options)
            schema = arrow_schema(self._schema)
            if relation.computed_place is not None:
                for words in words_of(relation, partition.range):
                    for batch in relation.record_batches(words):
                        yield from spark_batches(
                            [batch.column(column.name) for column in columns], schema
                        )
                return
            places = places_of(relation, [column.name for column in columns])
            for words in words_of(relation, partition.range, tuple(places)):
                yield from batches_of(snapshot, columns, words, schema)

    def _relation(self, snapshot: Snapshot) -> Relation:
        """Return the range of the relation that is read."""
        relation = relation_requested(snapshot, self._options)
        low = key_bound(relation, self._options, "keyFrom")
        high = key_bound(relation, self._options, "keyTo")
        return relation if low is None and high is None else relation.range(low or (), high or ())


def parts_of(relation: Relation, walk: Walk, number: int | None) -> Iterator[Part]:
    """Yield at most `number` partitions of a relation, or a number that fits its rows."""
    suggested = min(PARTITIONS_MAX, -(-relation.tree.count // PARTITION_ROWS))
    ranges = key_ranges(relation, walk, number or suggested)
    yield from map(Part, ranges or (None,))


def words_of(
    relation: Relation, part: KeyRange | None, places: tuple[int, ...] | None = None
) -> Iterator[np.ndarray]:
    """Yield stored words of some columns of a partition, or of the whole, int64[C, n], in the
    order of the tree.
    """
    if part is None:
        yield from relation.words(places, BATCH_ROWS)
        return
    pages, tree = relation.view()
    bag = relation.info.bag
    if bag:
        places = (*(range(tree.spec.keys) if places is None else places), tree.spec.keys)
    with naming_path(pages, tree):
        batches = read_batches(pages, tree, part.lo, part.hi, places, BATCH_ROWS)
        yield from repeated(batches, BATCH_ROWS) if bag else batches


def relation_requested(snapshot: Snapshot, options: Options) -> Relation:
    """Return the relation or view that an option names. Raises MissingError, OptionsError."""
    known = ", ".join(sorted(snapshot)) or "none"
    name = options.required("relation", f"version {snapshot.version} has {known}")
    if name not in snapshot:
        raise MissingError(f"version {snapshot.version} has no relation {name!r}; it has {known}")
    return snapshot[name]


def columns_requested(relation: Relation, options: Options) -> list[Column]:
    """Return the columns that an option names, in its order; all without it. Raises SchemaError."""
    by_name = {column.name: column for column in relation.schema.columns}
    names = options.names("columns") or relation.schema.names
    for name in names:
        if name not in by_name or names.count(name) > 1:
            wrong = "occurs twice" if name in by_name else "is not there"
            raise SchemaError(
                f"columns: {name!r} {wrong}; {relation.name!r} has {', '.join(by_name)}"
            )
    return [by_name[name] for name in names]


def places_of(relation: Relation, names: Sequence[str]) -> list[int]:
    """Return the places of columns in a stored record."""
    schema = relation.schema
    return [schema.places[schema.names.index(name)] for name in names]


def batches_of(
    snapshot: Snapshot,
    columns: Sequence[Column],
    words: np.ndarray,
    schema: pa.Schema,
    more: Sequence[pa.Array] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield words int64[C, n] of columns as batches for Spark, followed by `more` columns. No
    batch if n is 0.
    """
    if words.shape[1]:
        arrays = [
            snapshot.decode(column.type, word) for column, word in zip(columns, words, strict=True)
        ]
        yield from spark_batches([*arrays, *more], schema)


def key_bound(relation: Relation, options: Options, name: str) -> tuple[object, ...] | None:
    """Parse a bound of keys: a value of the first key column, or a JSON list of values; None if it
    is missing.

    Raises SchemaError for a value that does not fit its column.
    """
    given = options.text(name)
    if given is None:
        return None
    if given.lstrip().startswith("["):
        values = json.loads(given, parse_float=str, parse_int=str)
    else:
        values = [given]
    key = relation.schema.stored[: len(relation.schema.key)]
    if len(values) > len(key):
        raise SchemaError(
            f"{name}={given!r} has more values than the key ({', '.join(relation.schema.key)})"
        )
    return tuple(_value(column, value, name) for column, value in zip(key, values, strict=False))


def _value(column: Column, value: object, name: str) -> object:
    text = str(value).lower() if isinstance(value, bool) else value
    try:
        if column.type.name == "bytes":
            return bytes.fromhex(str(text))
        scalar = pa.scalar(text, pa.string())
        if column.type.name == "duration":
            scalar = scalar.cast(pa.int64())  # microseconds
        return scalar.cast(column.type.arrow).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise SchemaError(
            f"{name}: {value!r} is not a valid {column.type}, as key column {column.name!r} is"
        ) from None
