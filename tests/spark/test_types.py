"""Every type of Spark comes back as it was written, nulls included, or is refused by its
column's name.
"""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import ivm
import pagestore
from pagestore.values.types import Column, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's type: what it is in a column, what it is when it is read again, and values as SQL has
# them.
KEPT = {
    "tinyint": ("int64?", "bigint", "-128Y, 127Y, 0Y"),
    "smallint": ("int64?", "bigint", "-32768S, 32767S"),
    "int": ("int64?", "bigint", "-2147483648, 2147483647"),
    "bigint": ("int64?", "bigint", "-9223372036854775807L, 9223372036854775807L"),
    "float": ("float64?", "double",
    "float('1.5'), float('-3.4028235E38'), float('1.4E-45'), float('-Infinity')"),
    "double": ("float64?", "double",
    "1.5D, -1.7976931348623157E308D, 4.9E-324D, double('Infinity')"),
    "boolean": ("bool?", "boolean", "true, false"),
    "decimal(9,2)": ("decimal(9,2)?", "decimal(9,2)",
    "cast(-9999999.99 as decimal(9,2)), cast(0 as decimal(9,2))"),
    "decimal(18,0)": ("decimal(18,0)?", "decimal(18,0)",
    "cast(999999999999999999 as decimal(18,0))"),
    "decimal(18,18)": ("decimal(18,18)?", "decimal(18,18)",
    "cast(-0.000000000000000001 as decimal(18,18))"),
    "decimal(38,2)": ("decimal(38,2)?", "decimal(38,2)",
                      "cast('-123456789012345678901234567890123456.78' as decimal(38,2)), cast(5 "
                      "as decimal(38,2))"),
    "date": ("date?", "date", "date'0001-01-01', date'9999-12-31', date'1969-12-31'"),
    "time(6)": ("time?", "time(6)", "time'00:00:00', time'23:59:59.999999'"),
    "time(3)": ("time?", "time(6)", "cast(time'12:34:56.789' as time(3))"),
    "timestamp": ("timestamp(UTC)?", "timestamp",
                  "timestamp'0001-01-02 00:00:00+00:00', timestamp'9999-12-30 "
                  "23:59:59.999999+00:00'"),
    "timestamp_ntz": ("timestamp?", "timestamp_ntz",
                      "timestamp_ntz'0001-01-01 00:00:00', timestamp_ntz'9999-12-31 "
                      "23:59:59.999999'"),
    "interval day to second": ("duration?", "interval day to second",
                               "interval '-1 02:03:04.000005' day to second, interval '99999999' "
                               "day"),
    "interval hour": ("duration?", "interval day to second", "interval '5' hour"),
    "string": ("string?", "string",
    "'', 'ä', 'zwei\\n Zeilen', '\\0', 'a long text that is not inlined in a word'"),
    "char(4)": ("string?", "string", "cast('ab' as char(4))"),
    "varchar(4)": ("string?", "string", "cast('abcd' as varchar(4))"),
    "binary": ("bytes?", "binary", "X'', X'00ff80', X'00'"),
}  # fmt: skip
REFUSED = {
    "array<int>": ("array(1)", "explode"),
    "map<int,int>": ("map(1, 2)", "explode"),
    "struct<a:int>": ("named_struct('a', 1)", "select its fields as columns"),
    "variant": ("parse_json('1')", "variant_get"),
    "void": ("null", "cast it to the type that its values would have"),
    "interval year to month": ("interval '1-2' year to month", "cast it to a number of months"),
    "string collate UNICODE": ("collate('a', 'UNICODE')", "collate it UTF8_BINARY first"),
}
FAULTY = {  # values of types that are kept
    "double": ("double('NaN')", "column 'v'.*NaN"),
    "float": ("float('NaN')", "column 'v'.*NaN"),
    "bigint": ("-9223372036854775808L", "column 'v'.*-9223372036854775808"),
    "interval": (
        "make_dt_interval(-106751991, -4, 0, -54.775808)",
        "column 'v'.*-9223372036854775808",
    ),
    "date": ("date'-0001-01-01'", "column 'v'"),
    "timestamp": ("timestamp'+10000-01-01 00:00:00Z'", "column 'v'.*years 1 to 9999"),
    "timestamp_ntz": ("timestamp_ntz'+10000-01-01 00:00:00'", "column 'v'.*years 1 to 9999"),
}
VALUES: dict[str, Any] = {  # of every type of a column
    "int64": -(2**63) + 1, "uint64": 2**64 - 2, "float64": 1.5, "bool": True,
    "decimal(9,2)": Decimal("-1.25"),
    "date": date(1, 1, 1), "time": time(23, 59, 59, 999_999), "timestamp": datetime(9999, 12, 31,
    23, 59),
    "timestamp(Europe/Berlin)": datetime(2026, 7, 1, 12, tzinfo=UTC), "duration": timedelta(days=-1,
    microseconds=5),
    "string": "ä\0", "bytes": b"\xff\0",
}  # fmt: skip
# Parquet has no intervals, and Spark reads the number of microseconds
OTHERWISE = {"duration": -86_399_999_995}
KINDS = {  # of types, of which there are no values
    "AnsiIntervalType", "AnyTimeType", "AtomicType", "DatetimeType", "FractionalType",
    "IntegralType", "NumericType",
    "SpatialType",
}  # fmt: skip


def test_every_type_both_ways(spark: "SparkSession", tmp_path: Path) -> None:
    """All in one DataFrame, since a write takes a second: a column for each type, a row for each
    value.
    """
    spark.conf.set("spark.sql.timeType.enabled", True)
    most = max(values.count(", ") for _, _, values in KEPT.values()) + 2
    columns = [f"array({values}, null) as `{name}`" for name, (_, _, values) in KEPT.items()]
    arrays = spark.sql(f"select {', '.join(columns)}")
    given = arrays.selectExpr(
        f"explode(sequence(0, {most})) as n", *(f"`{name}`" for name in KEPT)
    ).selectExpr("n", *(f"get(`{name}`, n) as `{name}`" for name in KEPT))
    given = given.coalesce(1).cache()
    given.write.format("pagestore").mode("append").options(relation="r", key="n").save(
        str(tmp_path / "s.pages")
    )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        stored = {column.name: str(column.type) for column in store.snapshot()["r"].schema.columns}
        assert store.check() == []
    assert stored == {"n": "int64", **{name: kind for name, (kind, _, _) in KEPT.items()}}
    found = spark.read.format("pagestore").option("relation", "r").load(str(tmp_path / "s.pages"))
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    assert types == {"n": "bigint", **{name: kind for name, (_, kind, _) in KEPT.items()}}
    wide = given.selectExpr(
        "cast(n as bigint) n", *(f"cast(`{name}` as {types[name]}) `{name}`" for name in KEPT)
    )
    texts = [
        f"cast(`{name}` as string) `{name}`" if name != "binary" else "hex(binary)"
        for name in wide.columns
    ]
    rows = [sorted(map(tuple, frame.selectExpr(*texts).collect())) for frame in (wide, found)]
    assert rows[0] == rows[1] and len(rows[0]) == most + 1
    given.unpersist()


def test_no_type_of_spark_is_forgotten() -> None:
    """Each is kept, or refused with a remedy of its own."""
    T = pytest.importorskip(
        "pyspark.sql.types", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'"
    )
    from pagestore.errors import SchemaError
    from pagestore_tools.spark.source.types import REMEDIES, stored_type

    made = {"ArrayType": (T.IntegerType(),), "MapType": (T.IntegerType(),) * 2, "CharType": (4,),
        "VarcharType": (4,),
            "GeometryType": (4326,), "GeographyType": (4326,)}  # fmt: skip
    stored = {
        T.ByteType: "int64", T.ShortType: "int64", T.IntegerType: "int64", T.LongType: "int64",
        T.FloatType: "float64", T.DoubleType: "float64", T.BooleanType: "bool", T.DateType: "date",
        T.TimeType: "time", T.TimestampNTZType: "timestamp", T.TimestampType: "timestamp(UTC)",
        T.DayTimeIntervalType: "duration", T.StringType: "string", T.CharType: "string",
        T.VarcharType: "string", T.BinaryType: "bytes", T.DecimalType: "decimal(10,0)",
    }  # fmt: skip
    types, left = [], [T.DataType]
    while left:
        types += (found := left.pop().__subclasses__())
        left += found
    for kind in types:
        if kind.__module__ != T.__name__ or kind.__name__ in KINDS or kind is T.StructField:
            continue
        field = T.StructField("v", kind(*made.get(kind.__name__, ())))
        if kind in stored:
            assert str(stored_type(field)) == stored[kind]
        else:
            with pytest.raises(
                SchemaError, match="column 'v' is .*, which no column is: "
            ) as refused:
                stored_type(field)
            assert REMEDIES[T.DataType] not in str(refused.value), kind


def test_spark_reads_the_parquet_that_we_write(spark: "SparkSession", tmp_path: Path) -> None:
    """Every type of a column, with a null, as `pagestore print` writes it and as
    `format("pagestore")` reads it.
    """
    from pagestore_tools.cli import main

    spark.conf.set("spark.sql.timeType.enabled", True)
    columns = {"k": "int64", **{kind: f"{kind}?" for kind in VALUES}}
    schema = Schema(tuple(Column(name, Type.parse(kind)) for name, kind in columns.items()), ("k",))
    path, file = tmp_path / "s.pages", tmp_path / "r.parquet"
    with pagestore.open(path) as store, store.transaction() as txn:
        txn.create("r", schema, key="k").insert([(0, *VALUES.values()), (1, *[None] * len(VALUES))])
    assert main.pagestore(["print", str(path), "r", "--output", str(file)]) == 0
    [read, none] = spark.read.parquet(str(file)).orderBy("k").collect()
    assert none.asDict() == {"k": 1, **dict.fromkeys(VALUES)}
    [ours, _] = (
        spark.read.format("pagestore")
        .option("relation", "r")
        .load(str(path))
        .orderBy("k")
        .collect()
    )
    for kind in VALUES.keys() - OTHERWISE.keys():
        assert read[kind] == ours[kind], kind
    assert {kind: read[kind] for kind in OTHERWISE} == OTHERWISE


def test_columns_that_never_are_null_stay_so(spark: "SparkSession", tmp_path: Path) -> None:
    frame = spark.sql("select id, cast(id * 2 as decimal(20,0)) as u from range(3)")
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create("r", "id: int64, u: uint64", key="id").insert([(9, 2**64 - 1)])
    frame.write.format("pagestore").mode("append").option("relation", "r").save(
        str(tmp_path / "s.pages")
    )
    found = spark.read.format("pagestore").option("relation", "r").load(str(tmp_path / "s.pages"))
    assert [(field.dataType.simpleString(), field.nullable) for field in found.schema] == [
        ("bigint", False),
        ("decimal(20,0)", False),
    ]
    assert sorted((row.id, int(row.u)) for row in found.collect()) == [
        (0, 0),
        (1, 2),
        (2, 4),
        (9, 2**64 - 1),
    ]


def test_a_moment_keeps_the_zone_of_its_column(spark: "SparkSession", tmp_path: Path) -> None:
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create("r", "at: timestamp(Europe/Berlin)")
    frame = spark.sql("select timestamp'2026-07-01 12:00:00+00:00' as at")
    frame.write.format("pagestore").mode("append").option("relation", "r").save(
        str(tmp_path / "s.pages")
    )
    found = spark.read.format("pagestore").option("relation", "r").load(str(tmp_path / "s.pages"))
    assert found.collect() == frame.collect()
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        [(at,)] = store.snapshot()["r"]
        assert at.isoformat() == "2026-07-01T14:00:00+02:00"


@pytest.mark.parametrize("kind", REFUSED)
def test_what_no_column_is_is_refused_with_the_remedy(
    spark: "SparkSession", tmp_path: Path, kind: str
) -> None:
    value, remedy = REFUSED[kind]
    frame = spark.sql(f"select 1 as n, {value} as v")
    with pytest.raises(Exception, match=f"column 'v' is .*{remedy}"):
        frame.write.format("pagestore").mode("append").options(relation="r", key="n").save(
            str(tmp_path / "s.pages")
        )
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("kind", FAULTY)
def test_values_that_no_column_holds_are_refused(
    spark: "SparkSession", tmp_path: Path, kind: str
) -> None:
    value, message = FAULTY[kind]
    frame = spark.sql(f"select 1 as n, if(id < 5, {value}, null) as v from range(1)")
    with pytest.raises(Exception, match=message):
        frame.write.format("pagestore").mode("append").options(relation="r", key="n").save(
            str(tmp_path / "s.pages")
        )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert store.version == 0


def test_the_columns_of_a_table_of_sql_hold_the_values_of_their_types(
    spark: "SparkSession", tmp_path: Path
) -> None:
    file = tmp_path / "s.pages"
    with ivm.open(file) as ws:
        ws.sql("CREATE TABLE t (n BIGINT PRIMARY KEY, v TINYINT); CREATE TABLE f (v FLOAT)")

    def append(relation: str, query: str) -> None:
        frame = spark.sql(query).repartition(2)
        frame.write.format("pagestore").mode("append").option("relation", relation).save(str(file))

    append("t", "select 1L as n, 127 as v union all select 2L, -128")
    append("f", "select 0.1D as v")
    for relation, query, message in (
        ("t", "select 3L as n, 128 as v", "128 does not fit TINYINT; it holds -128 to 127"),
        ("f", "select 1e39D as v", r"1e\+39 does not fit FLOAT"),
    ):
        with pytest.raises(Exception, match=f"column 'v', row 0: {message}"):
            append(relation, query)
    with ivm.open(file) as ws:
        assert [*ws["t"]] == [(1, 127), (2, -128)] and ws.sql(
            "SELECT v = 0.1::FLOAT FROM f"
        ).to_arrow()[0][0].as_py()
