"""Values of any kind at every place that takes one: taken, or refused by an error of this
library, never another.
"""

import datetime as dt
import decimal
import enum
import fractions
import uuid

import numpy as np
import pyarrow as pa
import pytest

import pagestore
from pagestore.errors import PagestoreError

pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")


class Kind(enum.IntEnum):
    A = 3


COLUMNS = (
    "int64",
    "float64",
    "decimal(9,2)",
    "bool",
    "date",
    "time",
    "timestamp",
    "timestamp(UTC)",
    "duration",
    "string",
    "bytes",
)
VALUES = [
    Kind.A,
    uuid.uuid4(),
    fractions.Fraction(1, 2),
    1j,
    object(),
    [1],
    {1: 2},
    np.ma.masked,
    np.array(5),
    np.array([1, 2]),
    decimal.Decimal("sNaN"),
    decimal.Decimal("Infinity"),
    float("nan"),
    pd.Period("2020"),
    pd.Interval(1, 2),
    pd.NaT,
    pd.NA,
    np.longdouble("1.1"),
    np.void(b"ab"),
    bytearray(b"x"),
    memoryview(b"y"),
    np.str_("a"),
    np.bytes_(b"a"),
    pa.scalar([1]),
    pa.scalar(None),
    10**400,
    -(10**400),
    "\ud800",
    dt.datetime.max,
    dt.date.min,
    dt.timedelta.max,
    dt.timedelta.min,
    dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14))),
    np.datetime64(2**62, "s"),
    np.timedelta64(2**62, "W"),
    np.timedelta64(5),
    type,
    ...,
    range(3),
    dt.time(1, tzinfo=dt.UTC),
]
ARRAYS = [
    np.ma.array([1, 2], mask=[0, 1]),
    pd.Series(pd.period_range("2020", periods=2)),
    pd.Series(pd.Categorical(["a", "b"])),
    pd.Series(pd.arrays.SparseArray([1, 0])),
    pd.Series([1, None], dtype="Int64"),
    pl.Series(["a", "b"], dtype=pl.Categorical),
    pl.Series([object(), object()], dtype=pl.Object),
    np.zeros((2, 2)),
    np.zeros(2, "c16"),
    np.zeros(2, "V4"),
    (1, 2),
    pd.Index([1, 2]),
    pd.date_range("2020", periods=2, tz="UTC"),
    pd.Series([True, None], dtype="boolean"),
    np.array(["a", "b"], "S1"),
    np.zeros(2, "M8[ps]"),
    range(2),
    pa.array([{"a": 1}] * 2),
]


@pytest.mark.parametrize("column", COLUMNS)
def test_only_errors_of_this_library(column):
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        values = txn.create("values", f"k: int64, x: {column}?", key="k")
        keys = txn.create("keys", f"x: {column}")
        uses = [
            lambda value: values.set([(1, value)]),
            lambda value: values.set([{"k": 1, "x": value}]),
            lambda value: values.set({"k": [1], "x": [value]}),
            lambda value: values.set({"k": [1], "x": pd.Series([value], dtype=object)}),
            lambda value: value in keys,
            lambda value: keys.get(value),
            lambda value: len(keys.range((value,))),
            lambda value: keys.delete([(value,)]),
        ]
        taken = 0
        for use, value in [(use, value) for use in uses for value in VALUES] + [
            (lambda array: values.set({"k": [1, 2], "x": array}), array) for array in ARRAYS
        ]:
            try:
                use(value)
                taken += 1
            except PagestoreError as error:
                assert "Traceback" not in str(error)
        assert taken and store.check() == []
