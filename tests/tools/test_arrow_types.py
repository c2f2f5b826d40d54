"""Every Arrow type at every door, `insert` and `load`: its values come back exactly, or are
refused by the column.
"""

from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagestore
from pagestore.errors import PagestoreError, SchemaError, WordError
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.dataset import Reading
from pagestore_tools.loading.load import load

DAY = 86_400_000
MOMENT = datetime(2013, 1, 31, 17, 5, 0, 250_000)
NANOSECONDS = pa.array([1_359_651_900_250_000_001], pa.timestamp("ns"))
UINT64 = pa.array([2**63 - 1, 0], pa.uint64())
EXACT = {
    "bool": pa.array([True, False]),
    **{
        str(t): pa.array([0, 7], t)
        for t in (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32())
    },
    "int64": pa.array([-(2**63), 2**63 - 1]),
    "uint64 that fits": UINT64,
    "halffloat": pa.array(np.array([0.5, 65504], np.float16)),
    "float": pa.array(np.array([0.1, 1e30], np.float32)),
    "double": pa.array([0.1, float("inf")]),
    "date32": pa.array([date(1, 1, 1), date(9999, 12, 31)]),
    "date64": pa.array([date(2013, 1, 31)], pa.date64()),
    **{
        f"timestamp[{u}]": pa.array([MOMENT.replace(microsecond=0)], pa.timestamp(u))
        for u in ("s", "ms", "us", "ns")
    },
    "microseconds": pa.array([MOMENT], pa.timestamp("us")),
    "decimal32": pa.array([Decimal("-1.25")], pa.decimal32(9, 2)),
    "decimal64": pa.array([Decimal("9" * 16 + ".99")], pa.decimal64(18, 2)),
    "decimal128": pa.array([Decimal("-" + "9" * 16 + ".99")], pa.decimal128(18, 2)),
    "decimal256": pa.array([Decimal("0.1")], pa.decimal256(3, 1)),
    "uint64": pa.array([2**64 - 1, 0], pa.uint64()),
    **{
        f"timestamp[{u}, zone]": pa.array([0, 10**6], pa.timestamp(u, "Europe/Berlin"))
        for u in ("s", "ms", "us")
    },
    "timestamp[ns, zone]": pa.array([0, 10**9], pa.timestamp("ns", "UTC")),
    "the first and the last moment in UTC": pa.array(
        [-62135596800000000, 253402300799999999], pa.timestamp("us", "UTC")
    ),
    "an offset for a zone": pa.array([5], pa.timestamp("us", "-03:30")),
    "dictionary of a zone": pa.array([0], pa.timestamp("us", "UTC")).dictionary_encode(),
    "time32": pa.array([1, 86399], pa.time32("s")),
    "time32[ms]": pa.array([86399999], pa.time32("ms")),
    "time64": pa.array([0, 86399999999], pa.time64("us")),
    "time64[ns]": pa.array([5000], pa.time64("ns")),
    **{f"duration[{u}]": pa.array([-(10**6), 0, 10**9], pa.duration(u)) for u in ("s", "ms", "us")},
    "string": pa.array(["", "a\0b", "\U0001f600"]),
    "large_string": pa.array(["a", "b"], pa.large_string()),
    "string_view": pa.array(["a", "longer than twelve bytes"], pa.string_view()),
    "binary": pa.array([b"", b"\0\xff"]),
    "large_binary": pa.array([b"a"], pa.large_binary()),
    "binary_view": pa.array([b"a", b"longer than twelve bytes"], pa.binary_view()),
    "dictionary of strings": pa.array(["b", "a", "b"]).dictionary_encode(),
    "dictionary of ints": pa.array([5, 2**40, 5]).dictionary_encode(),
    "dictionary of doubles": pa.array([0.25, 0.25]).dictionary_encode(),
    "dictionary of decimals": pa.array([Decimal("1.5")], pa.decimal128(3, 1)).dictionary_encode(),
    "a part of an array": pa.array([1.5, 2.5, 3.5]).slice(1),
}
REFUSED = {
    "double NaN": pa.array([0.5, float("nan")]),
    "a null": pa.array([1, None]),
    "date64 within a day": pa.Array.from_buffers(
        pa.date64(), 1, [None, pa.py_buffer(np.array([DAY + 5]))]
    ),
    "timestamp[ns] beyond microseconds": NANOSECONDS,
    "timestamp[us] beyond year 9999": pa.array([2**60], pa.timestamp("us")),
    "timestamp[ns, zone] beyond microseconds": NANOSECONDS.cast(pa.timestamp("ns", "UTC")),
    "a moment that is in year 10000 in its zone": pa.array(
        [253402300799000000], pa.timestamp("us", "Europe/Berlin")
    ),
    "a moment beyond year 9999": pa.array([253402300800000000], pa.timestamp("us", "UTC")),
    "time64[ns] beyond microseconds": pa.array([1], pa.time64("ns")),
    "time64 beyond a day": pa.array([86400000000], pa.time64("us")),
    "duration[ns] beyond microseconds": pa.array([1], pa.duration("ns")),
    "interval": pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
    "decimal256 of 40 digits": pa.array([Decimal(1)], pa.decimal256(40, 2)),
    "decimal with more digits after the point than it has": pa.array([None], pa.decimal128(2, 4)),
    "decimal with a negative scale": pa.array([Decimal(100)], pa.decimal128(5, -2)),
    "list": pa.array([[1]]),
    "struct": pa.array([{"a": 1}]),
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "null": pa.nulls(1),
    "run ends": pa.RunEndEncodedArray.from_arrays([2], [7]),
    "union": pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]
    ),
    "dictionary of a null": pa.array(["a", None]).dictionary_encode(),
}
NARROWER = [
    ("int64", pa.array([2**63], pa.uint64())),
    ("uint64", pa.array([-1])),
    ("uint64", pa.array([1.5])),
    ("time", [1]),
    ("time", pa.array([1])),
    ("time", pa.array([MOMENT])),
    ("duration", [1]),
    ("duration", pa.array([1])),
    ("timestamp(UTC)", [MOMENT]),
    ("timestamp(UTC)", pa.array([MOMENT])),
    ("timestamp(UTC)", pa.array([date(2013, 1, 31)])),
    ("int64", pa.array([1.5])),
    ("int64", pa.array([True])),
    ("int64", pa.array([Decimal("1.01")])),
    ("int64", pa.array(["1"])),
    ("int64", pa.array([MOMENT])),
    ("float64", pa.array([2**53 + 1])),
    ("float64", pa.array([Decimal("0.1")])),
    ("bool", pa.array([1])),
    ("date", pa.array([MOMENT])),
    ("date", pa.array([1])),
    ("date", [1]),
    ("timestamp", [1]),
    ("timestamp", pa.array([1])),
    ("timestamp", NANOSECONDS),
    ("timestamp", pa.array([0], pa.timestamp("us", "UTC"))),
    ("decimal(4,1)", pa.array([Decimal("1.25")])),
    ("decimal(4,1)", pa.array([Decimal("1234.5")])),
    ("decimal(4,1)", pa.array([1.25])),
    ("decimal(4,1)", pa.array([2000])),
    ("string", pa.array([b"a"])),
    ("string", pa.array([1])),
    ("bytes", pa.array(["a"])),
]


def plain(array):
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return (
        sorted(array.to_pylist()) if array.type != pa.date64() else [date(2013, 1, 31)] * len(array)
    )


@pytest.fixture
def store(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        yield store


@pytest.mark.parametrize("kind", EXACT)
def test_what_comes_back_exactly(kind, store, tmp_path):
    rows = pa.table({"n": np.arange(len(EXACT[kind])), "x": EXACT[kind]})
    with store.transaction() as txn:
        txn.create("inserted", rows.schema, key="n").insert(rows)
        assert sorted(txn["inserted"].to_arrow()["x"].to_pylist()) == plain(EXACT[kind])
        try:
            pq.write_table(rows, tmp_path / "x.parquet")
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            return  # such a file there is none
        load(txn, "loaded", tmp_path / "x.parquet", ["n"])
        assert sorted(txn["loaded"].to_arrow()["x"].to_pylist()) == plain(EXACT[kind])


@pytest.mark.parametrize("kind", EXACT)
def test_each_type_in_each_mode(kind, store, tmp_path):
    """Of an Arrow file, which has every type."""
    values = EXACT[kind]
    rows = pa.table({"n": np.arange(len(values)), "x": values})
    path = tmp_path / "x.arrow"

    def loaded(table, mode):
        with pa.ipc.new_file(str(path), table.schema) as out:
            out.write_table(table)
        with store.transaction() as txn:
            load(txn, "r", path, ["n"], mode)
        return sorted(store.snapshot()["r"].to_arrow()["x"].to_pylist())

    assert loaded(rows, "create") == plain(values)
    assert loaded(rows, "append") == plain(values)
    if not str(values.type).endswith("_view"):  # of which Arrow takes nothing
        assert loaded(
            rows.set_column(1, "x", values.take(np.arange(len(rows))[::-1])), "upsert"
        ) == plain(values)
    assert loaded(rows, "upsert") == plain(values)
    assert loaded(rows.slice(0, 1), "delete") == plain(values.slice(1))
    assert loaded(rows, "replace") == plain(values)
    assert loaded(rows.select(["n"]), "delete") == [] and store.check() == []


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused(kind, store, tmp_path):
    rows = pa.table({"n": np.arange(len(REFUSED[kind])), "x": REFUSED[kind]})
    with pytest.raises((SchemaError, WordError), match="column 'x'"), store.transaction() as txn:
        txn.create("inserted", rows.schema, key="n").insert(rows)
    try:
        pq.write_table(rows, tmp_path / "x.parquet", store_schema=True)
        pq.read_schema(tmp_path / "x.parquet")
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, OSError, NotImplementedError):
        return
    if kind in ("date64 within a day", "struct", "list", "map"):
        return  # the first is written as days, columns and elements of the others are loaded
    with pytest.raises(PagestoreError, match="column '?x'?[ ,]"), store.transaction() as txn:
        load(txn, "loaded", tmp_path / "x.parquet", ["n"], reading=Reading(nulls="refuse"))


@pytest.mark.parametrize(("type_", "values"), NARROWER)
def test_what_a_column_of_another_type_refuses(type_, values, store):
    with pytest.raises(WordError, match="column 'x'"), store.transaction() as txn:
        txn.create("r", f"x: {type_}").insert(
            [values] if isinstance(values, list) else pa.table({"x": values})
        )


def test_a_zone_is_refused_with_the_cast_that_takes_it_off(store):
    zoned = pa.table({"x": pa.array([MOMENT], pa.timestamp("us", "UTC"))})
    says = r"keeps no zone: make it a timestamp\(UTC\), or take the time in UTC by .cast\(pa.timestamp\(\"us\"\)\)"
    with pytest.raises(WordError, match=says), store.transaction() as txn:
        txn.create("r", "x: timestamp").insert(zoned)
    with store.transaction() as txn:
        txn.create("r", "x: timestamp").insert(pa.table({"x": zoned["x"].cast(pa.timestamp("us"))}))
        assert list(txn["r"]) == [(MOMENT,)]


def test_columns_that_are_not_the_relations_are_refused(store):
    with store.transaction() as txn:
        relation = txn.create("r", "x: int64, y: int64", key="x")
        rows = pa.table({"y": [2], "x": [1], "z": [3]})
        for edit in (relation.insert, relation.delete, relation.set):
            with pytest.raises(
                SchemaError, match=r"the relation has no column 'z', which is left out first"
            ):
                edit(rows)
        with pytest.raises(SchemaError, match="column 'x' occurs twice"):
            relation.insert(pa.table([[1], [1], [2]], ["x", "x", "y"]))
        relation.insert(rows.select(["x", "y"]))
        assert list(relation) == [(1, 2)]


@pytest.mark.parametrize(
    ("folders", "says"),
    [("x=3", "has a column x, as its folder's name has"), ("d=1/d=2", "in two folders d=")],
)
def test_a_column_of_a_file_and_of_a_folder(folders, says, store, tmp_path):
    (tmp_path / "job" / folders).mkdir(parents=True)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "job" / folders / "part.parquet")
    with pytest.raises(DatasetError, match=says), store.transaction() as txn:
        load(txn, "r", tmp_path / "job", ["x"])
