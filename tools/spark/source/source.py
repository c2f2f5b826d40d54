"""The data source that Spark finds by the name `pagestore` (../found)."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pagestore.errors import SchemaError

from .changes import FEED, ChangeFeedReader
from .options import READING, WRITING, Options, held, store_at, version_requested
from .read import RelationReader, columns_requested, key_bound, relation_requested
from .sentences import sentences_first
from .stream_read import RelationStreamReader
from .types import spark_schema
from .write import target_of

STORE = "the store's file, as in load(path)"


@sentences_first
class PagestoreSource(DataSource):
    """A relation or view of a store.

    Spark makes it with a DataFrame, calls `schema` and pickles it. So what is found then, above all
    the version, holds for all reads of this DataFrame.
    """

    _version: int | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "pagestore"

    def schema(self) -> StructType:
        """Return the columns that are read, and fix the version."""
        options = Options(self.options, READING)
        with store_at(options.required("path", STORE)) as store:
            self._version = version_requested(store, options)
            with held(store, self._version) as snapshot:
                relation = relation_requested(snapshot, options)
                for name in "keyFrom", "keyTo":
                    key_bound(relation, options, name)
                columns = columns_requested(relation, options)
        return StructType(
            [*spark_schema(columns), *(FEED if options.flag("readChangeFeed") else ())]
        )

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a batch read of rows, or of changes."""
        options, version = self._planned(schema)
        if options.flag("readChangeFeed"):
            return ChangeFeedReader(options, version, schema)
        return RelationReader(options, version, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a streaming read of insertions, or of changes."""
        options, _ = self._planned(schema)
        return RelationStreamReader(options, schema)

    def _planned(self, schema: StructType) -> tuple[Options, int]:
        """Return the options of a read, and its version. Raises SchemaError if the user gave
        another schema.
        """
        if self._version is None:  # the user gave a schema, so Spark did not call `schema`
            planned = self.schema()
            if planned != schema:
                remedy = "leave the schema out, and cast or rename columns of the DataFrame"
                raise SchemaError(
                    f"the columns are {planned.simpleString()}, not {schema.simpleString()}: {remedy}"
                )
        assert self._version is not None
        return Options(self.options, READING), self._version

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a batch write."""
        from .write import RelationWriter  # imports `ivm`, which reads do not need

        options = Options(self.options, WRITING)
        return RelationWriter(target_of(options, schema, overwrite), options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return a streaming write; `overwrite` is set in the output mode complete."""
        from .write import RelationStreamWriter

        options = Options(self.options, WRITING)
        options.exclusive("txnAppId", "checkpointLocation")
        return RelationStreamWriter(target_of(options, schema, overwrite))
