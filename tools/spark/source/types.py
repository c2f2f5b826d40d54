"""Which type of Spark each type of a column is, and which column holds each type of Spark.

column            Spark                  Spark -> column
int64             bigint                 tinyint, smallint, int and bigint
uint64            decimal(20,0)          into an existing column
float64           double                 float and double, without NaN
bool              boolean                boolean
decimal(p,s)      decimal(p,s)           decimal(p,s), p <= 18
date              date                   date
time              time(6)                time
timestamp         timestamp_ntz          timestamp_ntz
timestamp(zone)   timestamp              timestamp, as timestamp(UTC)
duration          interval day to second an interval of days to seconds
string            string                 string, char and varchar of the collation UTF8_BINARY
bytes             binary                 binary
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema, to_arrow_type

from pagestore.errors import SchemaError
from pagestore.host import Column, Schema, Type
from pagestore.tooling import type_of_arrow

REMEDIES: dict[type[T.DataType], str] = {
    T.ArrayType: "make rows of its elements with explode, in a relation of their own, or text with "
    "to_json",
    T.MapType: "make rows of its entries with explode, in a relation of their own, or text with "
    "to_json",
    T.StructType: "select its fields as columns, or make text of it with to_json",
    T.VariantType: "take values out with variant_get, or make text of it with to_json",
    T.NullType: "cast it to the type that its values would have",
    T.YearMonthIntervalType: "cast it to a number of months",
    T.CalendarIntervalType: "cast it to string, or make an interval of days to seconds with "
    "make_dt_interval",
    T.SpatialType: "take its bytes with st_asbinary",
    T.UserDefinedType: "take the values out of which it is made as columns",
    T.DataType: "cast it to a type that a column has, such as string",
}


def spark_type(column_type: Type) -> T.DataType:
    """Return Spark's type for a column's."""
    if column_type.name == "uint64":
        return T.DecimalType(20, 0)
    return from_arrow_type(column_type.arrow, prefer_timestamp_ntz=True)


def spark_schema(columns: Iterable[Column]) -> T.StructType:
    """Return the Spark schema of columns."""
    return T.StructType(
        [T.StructField(c.name, spark_type(c.type), c.type.nullable) for c in columns]
    )


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects of batches."""
    return to_arrow_schema(schema, timezone="UTC")


def spark_batches(arrays: Sequence[pa.Array], schema: pa.Schema) -> Iterable[pa.RecordBatch]:
    """Yield decoded columns as batches for Spark, several if texts have more than 2 GiB."""
    rows = len(arrays[0])
    if rows > 1 and any(_exceeds(array) for array in arrays):
        for at, end in (0, rows // 2), (rows // 2, rows):
            yield from spark_batches([array.slice(at, end - at) for array in arrays], schema)
        return
    cast = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
    yield pa.RecordBatch.from_arrays(cast, schema=schema)


def _exceeds(array: pa.Array) -> bool:
    """Return whether texts exceed Spark's 32-bit offsets; only large ones have 64-bit offsets."""
    long = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    return bool(long and array.nbytes >= 2**31)


def stored_schema(schema: T.StructType, key: Sequence[str]) -> Schema:
    """Return the schema of a relation for a DataFrame's rows; value columns are nullable like the
    DataFrame's.

    Raises SchemaError, which names the column for an unsupported type.
    """
    names = [field.name for field in schema]
    for name in key:
        if name not in names:
            raise SchemaError(
                f"the key has a column {name!r}, and the DataFrame has not: {', '.join(names)}"
            )
    columns = [Column(field.name, stored_type(field)) for field in schema]
    keys = tuple(key) or tuple(names)
    nullable = {field.name for field in schema if field.nullable} - {*keys}
    columns = [Column(c.name, c.type._replace(nullable=c.name in nullable)) for c in columns]
    return Schema.parse(Schema(tuple(columns), keys))


def stored_type(field: T.StructField) -> Type:
    """Return the type of the column that holds a DataFrame's. Raises SchemaError with a remedy."""
    kind = field.dataType
    if isinstance(kind, T.StringType) and not kind.isUTF8BinaryCollation():
        remedy = "texts are compared by their bytes: collate it UTF8_BINARY first"
        raise SchemaError(f"column {field.name!r} is {kind.simpleString()}: {remedy}")
    stored = held(kind)
    if stored is None:
        raise SchemaError(
            f"column {field.name!r} is {kind.simpleString()}, which no column is: {_remedy(kind)}"
        )
    return stored


def held(kind: T.DataType) -> Type | None:
    """Return the type of the column that holds a type of Spark's, None if there is none."""
    if _remedy(kind) != REMEDIES[T.DataType]:
        return None
    plain = T.StringType() if isinstance(kind, T.CharType | T.VarcharType) else kind
    try:
        return type_of_arrow("", to_arrow_type(plain, timezone="UTC"))
    except (TypeError, SchemaError):
        return None


def _remedy(kind: T.DataType) -> str:
    return next(REMEDIES[class_] for class_ in type(kind).__mro__ if class_ in REMEDIES)
