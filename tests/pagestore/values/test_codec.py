"""Values become words that sort like the values, and come back; a value that does not fit is
refused by row.
"""

import datetime as dt
from decimal import Context, Decimal

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import pagestore
from pagestore.errors import SchemaError, WordError
from pagestore.host import KEYS_MAX
from pagestore.values.codec import bounds_of, decode, encode, to_numpy
from pagestore.values.types import Column, Schema, Type
from tests.support.programs.amounts import times

VALUES = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "date": st.dates(),
    "uint64": st.integers(0, 2**64 - 1),
    "time": st.times(),
    "timestamp": st.datetimes(),
    "timestamp(America/New_York)": st.datetimes(
        dt.datetime(2, 1, 1),
        dt.datetime(9998, 1, 1),
        timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=5))]),
    ),
    "duration": st.timedeltas(dt.timedelta(days=-(10**8)), dt.timedelta(days=10**8)),
    "decimal(9,3)": st.decimals(-999999, 999999, places=3),
}


@pytest.mark.parametrize("text", VALUES)
def test_order_and_values_survive(text):
    column = Column("x", Type.parse(text))

    @given(st.lists(VALUES[text], max_size=20))
    def check(values):
        words = encode(column, values, None)
        assert words.dtype == np.int64
        decoded = decode(column.type, words, None).to_pylist()
        if column.type.zone:  # where clocks are turned back, Python has no two zones' times equal
            decoded = [value.astimezone(dt.UTC) for value in decoded]
        assert decoded == [v + 0.0 if text == "float64" else v for v in values]
        in_order = [values[i] for i in np.argsort(words, kind="stable")]
        assert in_order == sorted(values)

    check()


LONG = st.integers(1 - 10**38, 10**38 - 1).map(lambda n: Decimal(n).scaleb(-3, Context(prec=40)))


@settings(max_examples=times(15))
@given(
    st.lists(
        st.one_of(st.none(), LONG, st.sampled_from([Decimal("0.000"), Decimal("-0.001")])),
        max_size=20,
    )
)
def test_long_decimals_survive_and_their_order_is_that_of_texts(values):
    """Also in a store, in a key that is nullable, in ranges of it, through Arrow and by single
    values.
    """
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        held = txn.create("x", "v: decimal(38,3)?, n: int64", key="v", keys_null=True)
        held.set([(value, i) for i, value in enumerate(values)])
        distinct = sorted({*values}, key=lambda v: (v is not None, v or 0))
        assert [v for v, _ in held] == distinct
        assert held.to_arrow()["v"].to_pylist() == distinct
        least = next((v for v in distinct if v is not None), None)
        if least is not None:
            assert [v for v, _ in held.range((least,), ())] == [
                v for v in distinct if v is not None
            ]
            assert held[(least,)] == max(i for i, v in enumerate(values) if v == least)
        with pytest.raises(WordError, match="36 digits before the point and decimal"):
            held.set([(Decimal(10) ** 35, 1)])


@pytest.mark.parametrize(
    ("text", "view"), [("string", pa.string_view()), ("bytes", pa.binary_view())]
)
def test_views_and_dictionaries_of_views(tmp_path, text, view):
    """Polars passes its texts and categories in these forms."""
    values = [b"a", b"", b"longer than twelve bytes", b"a"]
    column = (
        pa.array(values, pa.binary())
        .cast(pa.string() if text == "string" else pa.binary())
        .cast(view)
    )
    indices = pa.array([0, 1, 2, 0], pa.uint32())
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        for taken in (column, column.slice(1, 2), pa.DictionaryArray.from_arrays(indices, column)):
            words = txn.encode(text, pa.chunked_array([taken]))
            assert txn.decode(text, words).to_pylist() == taken.to_pylist()
        assert str(Schema.parse(pa.schema([("x", view)]))) == f"x: {text}"


@pytest.mark.parametrize("text", ["int64", "float64"])
def test_what_is_masked_is_no_value(text):
    masked = np.ma.array([1, 2, 3], mask=[False, True, False], dtype=text)
    with pytest.raises(WordError, match=r"'x', row 1: a null"):
        encode(Column("x", Type.parse(text)), masked, None)
    whole = np.ma.array([1, 2], dtype=text)
    assert len(encode(Column("x", Type.parse(text)), whole, None)) == 2


@pytest.mark.parametrize("text", VALUES)
def test_dictionaries_without_chunks_are_no_values(text):
    column = Column("x", Type.parse(text))
    none = pa.chunked_array([], pa.dictionary(pa.int32(), column.type.arrow))
    assert encode(column, none, None).tolist() == []


def test_any_word_is_an_integer():
    values = [-(2**63), 2**63 - 1] * 40
    assert encode(Column("x", Type.parse("int64")), values, None).tolist() == values


def test_minus_zero_is_zero():
    column = Column("x", Type.parse("float64"))
    assert encode(column, [-0.0], None) == encode(column, [0.0], None)


@pytest.mark.parametrize(
    ("text", "values", "row"),
    [
        ("int64", [1, None], 1),
        ("int64", [1, 2**63], 1),
        ("int64", np.array([0.0, 1.5]), None),
        ("int64", [1, 1.5], 1),
        ("int64", [1, True], 1),
        ("int64", ["a"], 0),
        ("int64", np.array([1, 2**64 - 1], np.uint64), 1),
        ("float64", [0.0, float("nan")], 1),
        ("string", ["a", "\ud800"], 1),
        ("string", np.array(["a", "\ud800"]), 1),
        ("float64", np.array([0.0, np.nan]), 1),
        ("float64", pa.array([1.0, None]), 1),
        ("float64", np.array([0, 2**53 + 1]), 1),
        ("bool", [True, 2], 1),
        ("date", ["2020-01-01"], 0),
        ("date", [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)], 1),
        (
            "timestamp",
            [
                dt.datetime(2020, 1, 1),
                dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            ],
            1,
        ),
        ("date", np.array([0, 2932896, 2932897], "M8[D]"), 2),
        ("date", np.array([0, 2**31], "M8[D]"), 1),
        ("date", np.array([-719163], "M8[D]"), 0),
        ("date", pa.array([0, 2**31 - 1], pa.int32()).cast(pa.date32()), 1),
        ("timestamp", np.array([0, 2**62], "M8[us]"), 1),
        ("timestamp", np.array([0, 2**33], "M8[D]"), 1),
        ("timestamp", np.array(["2020"], "M8[Y]"), 0),
        ("date", np.array(["2020-01-01", "NaT"], "M8[D]"), 1),
        ("timestamp", pa.array([1000, 1_500], pa.timestamp("ns")), 1),
        ("decimal(4,2)", [Decimal("1.00"), Decimal("100.00")], 1),
        ("decimal(4,2)", [Decimal("1.001")], 0),
        ("decimal(4,2)", pa.array([Decimal("1"), Decimal("1000")]), 1),
        ("string", ["a", "half of a pair: \ud83d"], 1),
    ],
)
def test_what_does_not_fit_names_column_and_row(text, values, row):
    with pytest.raises(WordError) as caught:
        encode(Column("price", Type.parse(text)), values, None)
    assert "'price'" in str(caught.value)
    if row is not None:
        assert f"row {row}" in str(caught.value)


@pytest.mark.parametrize("zone", ["UTC", "Etc/UTC", "Europe/Berlin", "Pacific/Apia", "-03:30"])
def test_zoned_timestamps_are_those_that_python_has_in_their_zone(zone):
    ends, day = (
        [one.replace(tzinfo=dt.UTC) for one in (dt.datetime.min, dt.datetime.max)],
        dt.timedelta(days=1),
    )
    is_utc = "UTC" in zone
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        held = txn.create("r", f"z: timestamp({zone})")
        held.insert([(ends[0] + day,), (ends[1] - day,)])
        for end in ends:
            if not is_utc:
                with pytest.raises(WordError, match="is not in the years 1 to 9999"):
                    held.insert([(end,)])
            else:
                held.insert([(end,)])
        expected = sorted([ends[0] + day, ends[1] - day, *(ends if is_utc else ())])
        assert [z for (z,) in held] == expected == held.to_arrow()["z"].to_pylist()


def test_slices_of_arrow_arrays():
    array = pa.array([Decimal("1.10"), Decimal("-2.20"), Decimal("3.30")]).slice(1)
    assert encode(Column("x", Type.parse("decimal(5,2)")), array, None).tolist() == [-220, 330]
    assert encode(
        Column("x", Type.parse("bool")), pa.array([True, False, True]).slice(1), None
    ).tolist() == [0, 1]
    days = pa.array([dt.date(1970, 1, 2), dt.date(1970, 1, 3)]).slice(1)
    assert encode(Column("x", Type.parse("date")), days, None).tolist() == [2]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("x int64", None),
        ("x: int64, x: bool", None),
        ("x: int65", None),
        ("x: decimal(39,2)", None),
        ("x: int64", ["y"]),
        ("x: int64", ["x", "x"]),
        ("x: int64", []),
        (", ".join(f"c{i}: int64" for i in range(KEYS_MAX + 1)), None),
    ],
)
def test_schemas_that_make_no_sense(text, key):
    with pytest.raises(SchemaError):
        Schema.parse(text, key)


def test_schema_from_arrow():
    arrow = pa.schema(
        [("a", pa.int32()), ("b", pa.dictionary(pa.int8(), pa.string())), ("c", pa.float32())]
    )
    assert str(Schema.parse(arrow)) == "a: int64, b: string, c: float64"
    with pytest.raises(SchemaError, match="'l'"):
        Schema.parse(pa.schema([("l", pa.list_(pa.int8()))]))


@pytest.mark.parametrize(
    "kind", ["int64", "uint64", "duration", "time", "timestamp(Europe/Berlin)"]
)
def test_a_null_is_below_all_values_and_costs_one_value_at_most(kind):
    plain, nullable = Column("x", Type.parse(kind)), Column("x", Type.parse(kind + "?"))
    least, most = bounds_of(plain.type)
    values = decode(plain.type, np.array([least, least + 1, least // 2, most - 1, most]), None)
    for row, value in enumerate(values):
        given = pa.array([None, value, None], plain.type.arrow)
        try:
            words = encode(nullable, given, None)
        except WordError as error:
            assert (kind, row) in [
                ("int64", 0),
                ("duration", 0),
                ("uint64", 4),
            ] and "stands for a null" in str(error)
            continue
        assert words[0] == words[2] < words[1]
        assert decode(nullable.type, words, None).equals(given)
        assert decode(nullable.type, words[1:2], None)[0] == value
        assert str(to_numpy(nullable.type, words[1:2], None)[0]) == str(
            to_numpy(plain.type, encode(plain, given[1:2], None), None)[0]
        )
        assert len(to_numpy(nullable.type, words, None)) == 3
    assert Type.parse(str(nullable.type)) == nullable.type
