"""Values of one type into columns of another: exactly, or refused with the row and a remedy that
works.
"""

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given

from pagestore.errors import WordError
from pagestore.values import objects
from pagestore.values.codec import decode, encode
from pagestore.values.objects import from_objects
from pagestore.values.types import Column, Type

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.decimals(
        allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9
    ),
    st.integers(-(10**6), 10**6).map(lambda n: n / 8),
)


def there(type_: Type, number: object) -> bool:
    """Whether a type of numbers has just this one."""
    if number in (float("inf"), float("-inf")):
        return type_.name == "float64"
    exact = Fraction(number)  # type: ignore[arg-type]
    if type_.name == "float64":
        return abs(exact) < 2**1024 and Fraction(float(exact)) == exact
    if type_.name == "decimal":
        scaled = exact * 10**type_.scale
        return scaled.denominator == 1 and abs(scaled) < 10**type_.precision
    least, most = (0, 2**64 - 1) if type_.name == "uint64" else (-(2**63), 2**63 - 1)
    return exact.denominator == 1 and least <= exact <= most


@pytest.mark.parametrize(
    "text", ["int64", "uint64", "float64", "decimal(9,2)", "decimal(18,0)", "decimal(18,18)"]
)
@given(st.lists(NUMBERS, max_size=5))
def test_numbers_go_where_they_are_the_same(text, numbers):
    column = Column("x", Type.parse(text))
    good = [there(column.type, number) for number in numbers]
    if all(good):
        assert decode(column.type, encode(column, numbers, None), None).to_pylist() == numbers
    else:
        with pytest.raises(WordError, match=f"column 'x', row {good.index(False)}: "):
            encode(column, numbers, None)


@pytest.mark.parametrize(
    "text", ["int64", "uint64", "float64", "decimal(9,2)", "decimal(18,0)", "decimal(18,18)"]
)
@pytest.mark.parametrize(
    "kind", ["int8", "uint8", "int64", "uint64", "float16", "float32", "float64"]
)
@given(data=st.data())
def test_arrays_of_numbers_do_as_their_values(text, kind, data):
    some = (
        st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False)
        | st.integers(-(10**4), 10**4).map(lambda n: n / 8)
    )
    with np.errstate(all="ignore"):
        array = (
            np.array(data.draw(st.lists(some, min_size=1, max_size=5)), object)
            .astype(float)
            .astype(kind)
        )
    column, numbers = Column("x", Type.parse(text)), array.tolist()
    good = [there(column.type, number) for number in numbers]
    null = len(numbers) // 2
    for given_ in (
        array,
        pa.array(array),
        pa.array(array).dictionary_encode(),
        pa.chunked_array([array[:1], array[1:]]),
    ):
        if all(good):
            assert decode(column.type, encode(column, given_, None), None).to_pylist() == numbers
        else:
            with pytest.raises(WordError, match=f"column 'x', row {good.index(False)}: "):
                encode(column, given_, None)
    if not all(good) and null != good.index(False):  # a null before it does not move the row
        holed = pa.array(
            [None if i == null else value for i, value in enumerate(numbers)], pa.array(array).type
        )
        with pytest.raises(WordError, match=f"column 'x', row {good.index(False)}: "):
            encode(column._replace(type=column.type._replace(nullable=True)), holed, None)


FINE = pd.Timestamp("2020-01-31 10:00:00.000001500")
FINE_MOMENTS = [
    FINE, np.datetime64("2020-01-31T10:00:00.000001500"), pd.Timestamp(FINE, tz="UTC"),
    pa.scalar(1500, pa.timestamp("ns")), np.datetime64(1, "ps"),
]  # fmt: skip
FINE_LENGTHS = [pd.Timedelta(1500), np.timedelta64(1500, "ns"), pa.scalar(1500, pa.duration("ns"))]


@pytest.mark.parametrize("value", FINE_MOMENTS + FINE_LENGTHS)
def test_what_is_finer_than_microseconds_is_refused(value):
    kinds = ["duration"] if value in FINE_LENGTHS else ["timestamp", "timestamp(UTC)", "date"]
    for kind in kinds:
        with pytest.raises(WordError, match=r"row 1: .*finer than microseconds; cut or round it"):
            encode(Column("x", Type.parse(kind + "?")), [None, value], None)


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns", "25s"])
def test_moments_of_numpy_in_any_unit(unit):
    moments = np.array(["2020-01-31", "1969-12-31"], "M8[D]").astype(f"M8[{unit}]")
    lengths = np.array([3600, -86400], "m8[s]").astype(f"m8[{unit}]")
    for kind, values in (("timestamp", moments), ("duration", lengths)):
        column = Column("x", Type.parse(kind))
        expected = values.astype(f"{values.dtype.kind}8[us]").tolist()
        assert decode(column.type, encode(column, values, None), None).to_pylist() == expected
        assert decode(column.type, encode(column, list(values), None), None).to_pylist() == expected


@pytest.mark.parametrize(
    "missing", [pd.NaT, pd.NA, None, np.datetime64("NaT"), pa.scalar(None, pa.date32())]
)
@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp(Europe/Berlin)", "int64"])
def test_what_libraries_have_for_a_null_is_one(kind, missing):
    column = Column("x", Type.parse(kind))
    assert (
        decode(
            column.type._replace(nullable=True),
            encode(
                column._replace(type=column.type._replace(nullable=True)), [missing, None], None
            ),
            None,
        ).to_pylist()
        == [None] * 2
    )
    with pytest.raises(WordError, match="row 0: a null"):
        encode(column, [missing], None)


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (
            "decimal(9,2)",
            0.1,
            r"0.1 is a float that no decimal\(9,2\) is exactly; give Decimal\('0.1'\)",
        ),
        (
            "decimal(9,2)",
            Decimal("1.239"),
            r"has 3 decimals and decimal\(9,2\) keeps 2; .*declare decimal\(10,3\)",
        ),
        ("decimal(9,2)", 10**7, r"has 8 digits before the point .* has 7; declare decimal\(10,2\)"),
        ("int64", "7", r"'7' is not a valid int64; convert the text, as by int"),
        ("int64", True, "True is not a valid int64"),
        ("string", 7, r"7 is not a valid string; convert it, as by str"),
        ("date", dt.datetime(2020, 1, 31, 5), r"take its .date\(\)"),
        ("timestamp", 7, "say what it counts"),
    ],
)
def test_the_remedy(kind, value, says):
    with pytest.raises(WordError, match=says):
        encode(Column("x", Type.parse(kind)), [value], None)


def test_remedies_work():
    for kind, value in (
        ("decimal(9,2)", Decimal("0.1")),
        ("decimal(10,3)", Decimal("1.239")),
        ("decimal(10,2)", 10**7),
    ):
        column = Column("x", Type.parse(kind))
        assert decode(column.type, encode(column, [value], None), None).to_pylist() == [value]


@pytest.mark.parametrize("digits", ["1E+120", "1E-120", "-1E+120"])
@pytest.mark.parametrize("kind", ["int64", "uint64", "decimal(9,2)"])
def test_decimals_of_any_size_are_refused_before_arrow_sees_them(kind, digits, monkeypatch):
    """These are harmless, and refused by Arrow, too: larger ones are to be refused as early."""
    seen, convert = [], objects._arrow
    monkeypatch.setattr(
        objects, "_arrow", lambda wanted, values: seen.extend(values) or convert(wanted, values)
    )
    with pytest.raises(WordError, match="row 0"):
        encode(Column("x", Type.parse(kind)), [Decimal(digits)], None)
    assert Decimal(digits) not in seen


def test_midnights_are_dates_and_dates_midnights():
    day, midnight = dt.date(2020, 1, 31), dt.datetime(2020, 1, 31)
    dates, moments = Column("x", Type.parse("date")), Column("x", Type.parse("timestamp"))
    arrays = [pa.array([midnight], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")]
    for given_ in (
        [midnight],
        [pd.Timestamp(midnight)],
        pd.Series([midnight]),
        np.array([midnight], "M8[ns]"),
        *arrays,
    ):
        assert decode(dates.type, encode(dates, given_, None), None).to_pylist() == [day]
    for given_ in ([day], pa.array([day]), pa.array([day], pa.date64()), np.array([day], "M8[D]")):
        assert decode(moments.type, encode(moments, given_, None), None).to_pylist() == [midnight]


def test_a_column_of_objects_of_pandas_is_read_as_its_values():
    whole = Column("x", Type.parse("decimal(9,2)?"))
    mixed = pd.Series([1, Decimal("2.50"), 3.5, float("nan"), None, pd.NA], dtype=object)
    assert decode(whole.type, encode(whole, mixed, None), None).to_pylist() == [
        1,
        Decimal("2.50"),
        3.5,
        None,
        None,
        None,
    ]
    zones = pd.Series(
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], dtype=object
    )
    with pytest.raises(WordError, match="row 1: .* has a zone"):
        encode(Column("x", Type.parse("timestamp")), zones, None)


ENDS = {  # values of each type, with the least and the greatest
    "int64": [0, -(2**63), 2**63 - 1],
    "uint64": [0, 2**64 - 1],
    "float64": [1.5, float("nan"), -0.0, float("inf"), 5e-324],
    "bool": [True, False],
    "date": [dt.date.min, dt.date.max, dt.date(2024, 2, 29)],
    "time": [dt.time.min, dt.time.max, dt.time(1, 2, 3, 4)],
    "timestamp": [dt.datetime.min, dt.datetime.max, dt.datetime(2024, 1, 1, 1, 2, 3, 4)],
    "timestamp(Europe/Berlin)": [
        dt.datetime.min.replace(tzinfo=dt.UTC),
        dt.datetime.max.replace(tzinfo=dt.UTC),
        dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))),  # in UTC it is in year 0
    ],
    "decimal(18,2)": [Decimal("1.5"), Decimal("-0.01"), 3, Decimal("9" * 16 + ".99"),
                      Decimal("1E+3"), Decimal("1.50000"), Decimal("0E-20"), Decimal("-0")],
    "decimal(38,4)": [Decimal(1), Decimal("9" * 34)],
    "string": ["", "a", "é\U0001d11e", "x" * 50],
    "bytes": [b"", b"\xff"],
}  # fmt: skip


@pytest.mark.parametrize("text", ENDS)
@given(st.data())
def test_a_few_values_become_what_arrow_makes_of_them(text, data):
    """A few values are converted without Arrow's own way from lists, which imports pandas."""
    type_ = Type.parse(text)
    values = data.draw(st.lists(st.sampled_from([None, *ENDS[text]]), max_size=5))
    expected = pa.array(values, type_.arrow, from_pandas=False)
    assert str(from_objects(type_, values)) == str(expected)  # NaN is not equal to itself
