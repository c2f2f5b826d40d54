"""Incrementally maintained views for Spark, which recomputes its own materialized views on each
run.

views = materialize(spark, "triangles", rules, sources={"edge": changes},
path="/data/triangles.pages")
views.read("tri")           the view as a DataFrame
views.changes("tri")        the rows inserted and deleted by this refresh, with `_change_type`
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import urlparse

import pyarrow as pa

import pagestore
from ivm.errors import OptionError, UnknownViewError
from ivm.lang.ir import Predicate
from ivm.names import is_made
from ivm.rules.compile import compile
from ivm.spark.changes import as_spark_has, difference, schema_of
from ivm.spark.executors import sentence_first, use_this_python
from ivm.spark.follow import AUTO, Incremental, OpenOptions, Refreshed, refresh
from ivm.spark.select import in_zone_of
from pagestore.errors import SchemaError
from pagestore.host import as_inserted, local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Views:
    """Views after a refresh. `version`, `new` and `recomputed` are Refreshed's."""

    def __init__(
        self, spark: "SparkSession", path: Path, predicates: Mapping[str, Predicate], did: Refreshed
    ) -> None:
        self._spark, self._path, self._predicates, self._did = spark, path, predicates, did
        self.version, self.new, self.recomputed = did.version, did.new, did.recomputed

    def read(self, name: str) -> "DataFrame":
        """Return a relation or view as of this refresh; a task reads it from the file when the
        DataFrame is used.

        Raises UnknownViewError.
        """
        return _reading_file(self._spark, str(self._path), self.version, self._known(name))

    def changes(self, name: str) -> "DataFrame":
        """Return this refresh's changes: the columns, `_change_type` insert or delete,
        `_commit_version`.

        All rows of a view that is new, or that new rules gave other columns, are insertions.
        Raises UnknownViewError, and VersionError if the version before is no longer retained.
        """
        table = changed_rows(self._path, self._known(name), self._did)
        return self._spark.createDataFrame(table.cast(as_spark_has(table.schema)))

    def _known(self, name: str) -> Predicate:
        if name not in self._predicates or is_made(name):
            raise UnknownViewError(f"nothing declares or derives {name}")
        return self._predicates[name]


def changed_rows(path: Path, predicate: Predicate, did: Refreshed) -> pa.Table:
    """Return a refresh's changes to a relation or view, with its version. Raises VersionError."""
    name = predicate.name
    with pagestore.open(path, mode="r") as store:
        before, now = store.at(did.before), store.at(did.version)[name]
        if name not in before or before[name].schema != now.schema:
            changes = as_inserted(now.to_arrow())
        else:
            try:
                changes = store.diff(did.before, did.version, name).read_all()
            except SchemaError:  # new rules rebuilt its tree
                changes = difference(before[name].to_arrow(), now.to_arrow())
    table = changes.cast(schema_of(predicate, changed=True))
    return table.append_column("_commit_version", pa.repeat(did.version, table.num_rows))


@sentence_first()
def materialize(
    spark: "SparkSession",
    name: str,
    rules: str,
    sources: Mapping[str, Any],
    path: str | Path | None = None,
    incremental: Incremental = AUTO,
    batch: int | None = None,
    query: str | None = None,
    **options: Unpack[OpenOptions],
) -> Views:
    """Bring the views of some rules up to date with tables of Spark, in one commit; the first call
    evaluates the rules.

    The rules may be SQL in Spark's dialect: CREATE VIEW, or a SELECT, which becomes the view
    `name`. `sources` has for each declared relation that may have changed one of:

        change rows     a DataFrame with the relation's columns and `_change_type`: insert, delete, update_preimage,
                        update_postimage. With `_commit_version`, rows that were applied before are
                        skipped
        a snapshot      a DataFrame without `_change_type`: all rows of the table, compared with the previous ones
        a Feed          a relation of a pagestore file: its changes since the last refresh are read

    The views are in one workspace file, `path`, or `name`.pages in Spark's warehouse. With
    incremental="strict", RecomputeError is raised rather than any view recomputed. `batch` is a
    rising number, as `foreachBatch` gives it; one that is done, of that `query` or of the same
    relations, is skipped. Sources pass through the driver; O(changes), for snapshots O(rows).
    What of a TIMESTAMP depends on the session's time zone is refused in a query unless that is UTC.
    Raises what `ivm.spark.follow.refresh` does, and OptionError for a warehouse that is not a local
    folder.
    """
    if path is not None:
        place = Path(local_path(path)).absolute()
    else:
        place = _warehouse(spark) / f"{name}.pages"
    use_this_python(spark)
    place.parent.mkdir(parents=True, exist_ok=True)
    tables = {
        relation: source.toArrow() if hasattr(source, "toArrow") else source
        for relation, source in sources.items()
    }
    with in_zone_of(spark):
        did = refresh(place, name, rules, tables, incremental, batch, query, **options)
    return Views(spark, place, compile(did.rules).predicates, did)


def _warehouse(spark: "SparkSession") -> Path:
    place = urlparse(str(spark.conf.get("spark.sql.warehouse.dir")))
    if place.scheme not in ("", "file"):
        raise OptionError(
            f"Spark's warehouse is in {place.scheme}, and views are in a local file: give path="
        )
    return Path(place.path)


def _reading_file(
    spark: "SparkSession", path: str, version: int, predicate: Predicate
) -> "DataFrame":
    """Return a relation of a store at a version, read by one task, batch by batch."""
    from pyspark.sql.pandas.types import from_arrow_schema

    schema, name = as_spark_has(schema_of(predicate)), predicate.name

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in batches:
            with sentence_first(), pagestore.open(path, mode="r") as store:
                for batch in store.at(version)[name].batches() if part.num_rows else ():
                    yield (
                        pa.Table.from_batches([batch]).cast(schema).combine_chunks().to_batches()[0]
                    )

    return spark.range(1, numPartitions=1).mapInArrow(run, from_arrow_schema(schema))
