"""Changes as they come: each value arrives exactly or is refused, as everywhere; deletions,
kinds, columns, orders.
"""

import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import ivm
import pagestore
from ivm.errors import EditError
from ivm.lang.ir import Predicate
from ivm.rules.compile import compile
from ivm.spark import Cells, Feed
from ivm.spark.changes import as_changes
from ivm.spark.follow import refresh
from pagestore.errors import WordError

TYPES = {  # of a column, as rules say them
    "int64": "int", "float64": "float", "decimal(9,2)": "decimal(9,2)", "bool": "bool",
    "date": "date",
    "time": "time", "timestamp": "timestamp", "timestamp(UTC)": "`timestamp(UTC)`",
    "timestamp(Europe/Berlin)": "`timestamp(Europe/Berlin)`", "duration": "duration",
    "string": "string",
    "bytes": "bytes", "uint64": "uint64",
}  # fmt: skip
MEANS = [0, 86_400_000_000, 1_706_778_000_123_456, -1]  # microseconds
SOURCES: list[pa.Array] = [
    pa.array([0, 1, -7, 2**53 + 1, -(2**63) + 1, 99_999_999, None], pa.int64()),
    pa.array([0, 1, 127], pa.int8()),
    pa.array([7, 2**64 - 2], pa.uint64()),
    pa.array([0.0, 1.0, 0.5, 0.1, -7.25, 1e30, 2.0**53], pa.float64()),
    pa.array([1.5, 3.0], pa.float32()),
    pa.array([Decimal("1.25"), Decimal("7.00"), Decimal("1.239")], pa.decimal128(12, 3)),
    pa.array([True, False, None], pa.bool_()),
    pa.array(["7", "true", "2020-01-31", "2020-01-31 10:00:00+02:00", "ä", ""], pa.string()),
    pa.array(["7"], pa.large_string()),
    pa.array(["a", "b"]).dictionary_encode(),
    pa.array([b"7", b"\xff"], pa.binary()),
    pa.array([0, 18_000], pa.date32()),
    pa.array([0, 43_200_000_000], pa.time64("us")),
    pa.array([1, 1000], pa.time64("ns")),
    *(pa.array(MEANS, pa.timestamp("us", zone)) for zone in (None, "UTC", "America/New_York")),
    pa.array([0, 1, 1_000], pa.timestamp("ns")),
    pa.array([1_580_428_800], pa.timestamp("s")),
    pa.array([0, 5], pa.duration("us")),
    pa.array([[1]], pa.list_(pa.int64())),
    pa.nulls(1),
]


def predicate_of(type_: str) -> Predicate:
    nullable = "" if type_ == "uint64" else "?"
    return compile(f"r[k] = v -> int(k), {TYPES[type_]}{nullable}(v).").predicates["r"]


def outcome(attempt: Callable[[], list[Any]], error: type[Exception]) -> list[Any] | None:
    """The values, or None where they are refused."""
    try:
        return attempt()
    except error:
        return None


@pytest.mark.parametrize("type_", TYPES)
def test_a_value_goes_where_it_goes_at_every_door(type_: str) -> None:
    """One of each type's samples, into a column of each type: as `insert` of a relation takes or
    refuses it.
    """
    predicate, nullable = predicate_of(type_), "" if type_ == "uint64" else "?"
    taken = 0
    for samples in SOURCES:
        for sample in (samples.slice(place, 1) for place in range(len(samples))):
            table = pa.table({"k": [1], "v": sample})

            def inserted(table: pa.Table = table) -> list[Any]:
                with pagestore.open(":memory:") as store, store.transaction() as txn:
                    txn.create("r", f"k: int64, v: {type_}{nullable}", key="k").insert(table)
                    return txn["r"].to_arrow()["v"].to_pylist()

            def changed(table: pa.Table = table) -> list[Any]:
                return as_changes(table, predicate)["v"].to_pylist()

            wanted = outcome(inserted, WordError)
            assert outcome(changed, EditError) == wanted, (sample.type, sample)
            taken += wanted is not None
    assert 1 < taken < sum(map(len, SOURCES))


SILENT = [  # what was taken as something else
    ("int(v)", pa.array(["7"])),
    ("int(v)", pa.array([True])),
    ("int(v)", pa.array([7], pa.timestamp("us"))),
    ("string(v)", pa.array([7])),
    ("date(v)", pa.array([0], pa.timestamp("us", "America/New_York"))),
    ("date(v)", pa.array([1], pa.timestamp("us"))),
    ("bool(v)", pa.array([7])),
    ("`timestamp(UTC)`(v)", pa.array([7], pa.timestamp("us"))),
    ("timestamp(v)", pa.array(["2020-01-31"])),
]


@pytest.mark.parametrize(("type_", "values"), SILENT)
def test_no_type_passes_in_silence(type_: str, values: pa.Array, tmp_path: Path) -> None:
    """At any door of tables that are followed: snapshots, changes, cells."""
    rules, table = f"r[k] = v -> int(k), {type_}.", pa.table({"k": [1], "v": values})
    changes = table.append_column("_change_type", [["insert"]])
    for source in table, changes:
        with pytest.raises(EditError, match=r"^r: column 'v'(, row 0)?: "):
            refresh(tmp_path / "v.pages", "views", rules, {"r": source})
        cells = Cells.create(tmp_path / f"c{source.num_columns}", rules, 2, options={"threads": 1})
        with cells, pytest.raises(EditError, match=r"^r: column 'v'(, row 0)?: "):
            cells.apply(1, {"r": source})


RULES = """price[item] = p -> int(item), float(p). sold(item, day) -> int(item), date(day).
n[] = c <- agg<<c = count()>> price[_] = _."""


def rows(path: Path, name: str = "price") -> list[tuple[Any, ...]]:
    with ivm.open(path, mode="r") as workspace:
        return [*workspace[name]]


@pytest.mark.parametrize(
    "gone",
    [
        {"item": [1], "p": pa.array([None], pa.float64())},
        {"item": [1], "p": pa.nulls(1)},
        {"item": [1], "p": [9.0]},
        {"item": [1], "p": [float("nan")]},
        {"item": [1], "p": ["no number"]},
        {"item": [1]},
    ],
)
def test_a_deletion_goes_by_its_key(gone: dict[str, Any], tmp_path: Path) -> None:
    """Whatever it has for values; also beside insertions."""
    path = tmp_path / "v.pages"
    begin = pa.table({"item": [1, 2, 3], "p": [1.0, 2.0, 3.0]})
    refresh(path, "views", RULES, {"price": begin})
    refresh(path, "views", RULES, {"price": pa.table({**gone, "_change_type": ["delete"]})})
    assert rows(path) == [(2, 2.0), (3, 3.0)]
    with Cells.create(
        tmp_path / "c", RULES, 2, options={"threads": 1}, tables={"price": begin}
    ) as cells:
        cells.apply(1, {"price": pa.table({**gone, "_change_type": ["delete"]})})
        assert [*cells["price"]] == [(2, 2.0), (3, 3.0)]
    both = pa.table({"item": [2, 4], "p": [None, 4.0], "_change_type": ["delete", "insert"]})
    refresh(path, "views", RULES, {"price": both})
    assert rows(path) == [(3, 3.0), (4, 4.0)]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (
            {"item": [5], "p": [None], "_change_type": ["insert"]},
            "p, row 0: null, and the column is never null",
        ),
        (
            {"item": [None], "p": [5.0], "_change_type": ["delete"]},
            "price: column item, row 0: null",
        ),
        (
            {"item": [5, 6], "_change_type": ["delete", "insert"]},
            "price has the columns item, p; the changes have",
        ),
        ({"item": [5], "q": [5.0]}, "price has the columns item, p; the changes have item, q"),
        (
            {"item": [5], "p": [5.0], "_change_type": ["upsert"]},
            "_change_type is 'upsert', and not one of insert,",
        ),
        ({"item": [5], "p": [5.0], "_change_type": [None]}, "_change_type is null in 1 rows"),
        (
            {"item": [5], "p": [5.0], "_change_type": ["insert"], "_commit_version": ["7"]},
            "column '_commit_version'",
        ),
    ],
)
def test_what_changes_are_refused(table: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(EditError, match=says):
        refresh(tmp_path / "v.pages", "views", RULES, {"price": pa.table(table)})


def test_the_words_of_iceberg(tmp_path: Path) -> None:
    """A changelog's kinds, and its order of commits, which begins at 0 in each."""
    path = tmp_path / "v.pages"
    for number in range(2):
        log = pa.table(
            {
                "item": [1, 1, 1, 2, 2],
                "p": [1.0, 1.0, 2.0 + number, 5.0, 5.0],
                "_change_type": ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "INSERT", "DELETE"],
                "_change_ordinal": pa.array([0, 1, 1, 0, 1], pa.int32()),
                "_commit_snapshot_id": [7, 8, 8, 7, 8],
            }
        )
        refresh(path, "views", RULES, {"price": log})
        assert rows(path) == [(1, 2.0 + number)] and rows(path, "n") == [(1,)]
    with Cells.create(tmp_path / "c", RULES, 2, options={"threads": 1}) as cells:
        cells.apply(1, {"price": log})
        assert [*cells["price"]] == [(1, 3.0)]


def test_a_new_column_of_a_source_is_named_and_left_out(tmp_path: Path) -> None:
    """Of a table, of changes, of a feed that goes on, also in strict, and of cells."""
    path, source = tmp_path / "v.pages", tmp_path / "source.pages"
    with pagestore.open(source) as store, store.transaction() as txn:
        txn.create("sales", "item: int64, day: date", key=("item", "day"))
        txn["sales"].insert(pa.table({"item": [1], "day": pa.array([1], pa.date32())}))
    feed = Feed(str(source), "sales")
    refresh(path, "views", RULES, {"sold": feed})
    with pagestore.open(source) as store, store.transaction() as txn:
        txn.add_column("sales", "shop: string?", None)
        txn["sales"].insert([(2, pa.scalar(2, pa.date32()).as_py(), "Ulm")])
    wider = pa.table({"item": [1], "p": [1.0], "currency": ["EUR"]})
    for given in (
        {"sold": feed},
        {"price": wider},
        {"price": wider.append_column("_change_type", [["insert"]])},
    ):
        with pytest.warns(
            UserWarning, match="has no column (shop|currency), which is left out: declare it"
        ):
            refresh(path, "views", RULES, given, "strict")
    assert len(rows(path, "sold")) == 2 and rows(path) == [(1, 1.0)]
    with pytest.warns(UserWarning, match="price has no column currency"):
        Cells.create(
            tmp_path / "c", RULES, 2, options={"threads": 1}, tables={"price": wider}
        ).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refresh(path, "views", RULES, {"price": wider.drop_columns(["currency"])})
