"""A batch read of a relation as of one version, in ranges of its keys."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pagestore.admin.tree_check import Walk
from pagestore.relations.relation import Relation
from pagestore.relations.snapshot import Snapshot
from pagestore.trees.page_path import naming_path
from pagestore.trees.reading import read_batches

from .key_ranges import KeyRange, key_ranges
from .opening import held, snapshot_at, store_at
from .options import Options
from .rows import batches_of, columns_asked_for, key_bound, places_of, relation_asked_for
from .sentences import sentences_first
from .types import arrow_schema, spark_batches

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
            wanted = self._options.number("numPartitions", least=1)
            return [*parts_of(self._relation(snapshot), Walk(store._handle.mapping), wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, in batches."""
        assert isinstance(partition, Part)
        with snapshot_at(self._path, self._version) as snapshot:
            relation = self._relation(snapshot)
            columns = columns_asked_for(relation, self._options)
            schema = arrow_schema(self._schema)
            if relation.computed_place is not None:
                for words in words_of(relation, partition.range):
                    for batch in relation.record_batches(words):
                        yield from spark_batches([batch.column(column.name) for column in columns], schema)
                return
            places = places_of(relation, [column.name for column in columns])
            for words in words_of(relation, partition.range, tuple(places)):
                yield from batches_of(snapshot, columns, words, schema)

    def _relation(self, snapshot: Snapshot) -> Relation:
        """Return the range of the relation that is read."""
        relation = relation_asked_for(snapshot, self._options)
        low = key_bound(relation, self._options, "keyFrom")
        high = key_bound(relation, self._options, "keyTo")
        return relation if low is None and high is None else relation.range(low or (), high or ())


def parts_of(relation: Relation, walk: Walk, wanted: int | None) -> Iterator[Part]:
    """Yield at most `wanted` partitions of a relation, or a number that fits its rows."""
    suggested = min(PARTITIONS_MAX, -(-relation.tree.count // PARTITION_ROWS))
    ranges = key_ranges(relation, walk, wanted or suggested)
    yield from map(Part, ranges or (None,))


def words_of(relation: Relation, part: KeyRange | None, places: tuple[int, ...] | None = None) -> Iterator[np.ndarray]:
    """Yield stored words of some columns of a partition, or of the whole, int64[C, n], in the order of the tree."""
    if part is None:
        yield from relation.words(places, BATCH_ROWS)
        return
    pages, tree = relation.view()
    with naming_path(pages, tree):
        yield from read_batches(pages, tree, part.lo, part.hi, places, BATCH_ROWS)
