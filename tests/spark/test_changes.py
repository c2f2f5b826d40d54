"""A change feed is what commits changed, in Spark's words; tested against the difference of sets
of rows.
"""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import ivm
import pagestore
from pagestore_tools.spark.source.changes import (
    AFTER,
    BEFORE,
    DELETED,
    INSERTED,
    KINDS,
    kinds_of_changes,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]
RULES = """
    edge(x, y) -> int(x), int(y).
    two(x, z) <- edge(x, y), edge(y, z).
    degree[x] = d <- agg<<d = count()>> edge(x, y).
"""


def difference(old: set[Row], new: set[Row], keys: int, updates: bool) -> set[tuple[Row, int]]:
    """Slow truth: rows with their kinds."""
    gone, come = old - new, new - old
    both = {row[:keys] for row in gone} & {row[:keys] for row in come} if updates else set()
    return {(row, BEFORE if row[:keys] in both else DELETED) for row in gone} | {
        (row, AFTER if row[:keys] in both else INSERTED) for row in come
    }


def changed(
    old: pagestore.Snapshot, new: pagestore.Snapshot, name: str, updates: bool
) -> list[tuple[Row, int]]:
    """The changes that a feed tells of; all columns are whole numbers."""
    return [
        (tuple(row), kind)
        for kinds, words in kinds_of_changes(old, new, name, updates)
        for kind, row in zip(kinds.tolist(), words.T.tolist(), strict=True)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_changes_of_relations_and_views_between_any_versions(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    with ivm.open(tmp_path / "s.pages", page_size=4096, retain="all") as workspace:
        workspace.install(RULES)
        for _ in range(8):
            with workspace.transaction() as txn:
                txn.insert(
                    "edge",
                    [(rng.randrange(40), rng.randrange(40)) for _ in range(rng.choice([5, 400]))],
                )
                txn.delete(
                    "edge",
                    [(rng.randrange(40), rng.randrange(40)) for _ in range(rng.choice([5, 400]))],
                )
        store = workspace.store
        for _ in range(20):
            with store.at(rng.randrange(1, 10)) as old, store.at(rng.randrange(1, 10)) as new:
                for name, keys in ("edge", 2), ("two", 2), ("degree", 1):
                    for updates in False, True:
                        found = changed(old, new, name, updates)
                        assert len(found) == len({*found})
                        assert {*found} == difference({*old[name]}, {*new[name]}, keys, updates)
                    table = store.diff(int(old.version), int(new.version), name).read_all()
                    assert Counter(map(tuple, map(dict.values, table.to_pylist()))) == Counter(
                        (*row, KINDS[kind].as_py())
                        for row, kind in difference({*old[name]}, {*new[name]}, keys, False)
                    )


def test_a_relation_that_is_made_and_dropped(tmp_path: Path) -> None:
    with pagestore.open(tmp_path / "s.pages") as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([1, 2])
        with store.transaction() as txn:
            txn.drop("r")
        with store.at(0) as none, store.at(1) as some, store.at(2) as again:
            assert changed(none, some, "r", True) == [((1,), INSERTED), ((2,), INSERTED)]
            assert changed(some, again, "r", True) == [((1,), DELETED), ((2,), DELETED)]


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Versions 1 to 5 of prices; version 4 is of a branch."""
    path = tmp_path_factory.mktemp("changes") / "s.pages"
    with pagestore.open(path, retain="all") as store:
        with store.transaction() as txn:
            txn.create("price", "item: string, price: decimal(9,2)?", key="item").insert(
                [("tea", 3), ("milk", None)]
            )
        with store.transaction() as txn:
            txn["price"].set([("tea", 4)])
        with store.transaction() as txn:
            txn["price"].delete(["milk"])
        store.branch("sale")
        with store.transaction(branch="sale") as txn:
            txn["price"].set([("tea", 1)])
        with store.transaction() as txn:
            txn["price"].set([("tea", 5), ("salt", 1)])
    return path


def feed(spark: "SparkSession", path: Path, **options: Any) -> "DataFrame":
    reader = spark.read.format("pagestore").options(
        relation="price", readChangeFeed=True, **options
    )
    return reader.load(str(path))


def told(frame: "DataFrame") -> list[str]:
    """A line for each change."""
    return sorted(
        f"{row._commit_version} {row._change_type} {row.item} "
        f"{None if row.price is None else int(row.price)}"
        for row in frame.collect()
    )


FIRST = ["1 insert milk None", "1 insert tea 3"]
SECOND = ["2 delete tea 3", "2 insert tea 4"]
THIRD = ["3 delete milk None"]
FIFTH = ["5 delete tea 4", "5 insert salt 1", "5 insert tea 5"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"startingVersion": 0}, [*FIRST, *SECOND, *THIRD, *FIFTH]),
        ({"startingVersion": 2, "endingVersion": 3}, [*SECOND, *THIRD]),
        ({"startingVersion": 1, "startingBoundInclusive": False, "endingVersion": 2}, SECOND),
        (
            {"startingVersion": 2, "endingVersion": 5, "endingBoundInclusive": False},
            [*SECOND, *THIRD],
        ),
        ({"startingVersion": 6}, []),
        ({"startingVersion": 4, "branch": "sale"}, ["4 delete tea 4", "4 insert tea 1"]),
        (
            {"startingVersion": 2, "computeUpdates": True, "endingVersion": 3},
            ["2 update_postimage tea 4", "2 update_preimage tea 3", *THIRD],
        ),
        (
            {"startingVersion": 2, "deduplicationMode": "netChanges"},
            ["5 delete milk None", "5 delete tea 3", "5 insert salt 1", "5 insert tea 5"],
        ),
    ],
)
def test_bounds_and_modes(
    spark: "SparkSession", prices: Path, options: dict[str, Any], expected: list[str]
) -> None:
    assert told(feed(spark, prices, **options)) == expected


def test_times_of_commits(spark: "SparkSession", prices: Path) -> None:
    with pagestore.open(prices, mode="r") as store:
        times = {info.version: info.timestamp for info in store.history()}
    bounds = {"startingTimestamp": times[2].isoformat(), "endingTimestamp": times[3].isoformat()}
    frame = feed(spark, prices, **bounds)
    assert told(frame) == [*SECOND, *THIRD]
    assert {row._commit_timestamp.replace(tzinfo=times[2].tzinfo) for row in frame.collect()} == {
        times[2],
        times[3],
    }
    assert told(feed(spark, prices, **bounds, startingBoundInclusive=False)) == THIRD
    later = (times[5] + timedelta(days=1)).isoformat()
    assert told(feed(spark, prices, startingTimestamp=later)) == []


def test_columns_and_parts(spark: "SparkSession", prices: Path) -> None:
    frame = feed(spark, prices, startingVersion=1, columns="item", numPartitions=4)
    assert frame.columns == ["item", "_change_type", "_commit_version", "_commit_timestamp"]
    assert frame.rdd.getNumPartitions() == 4 and frame.count() == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "begins at startingVersion, or at startingTimestamp"),
        ({"startingVersion": 9}, "startingVersion=9: the newest version of branch 'main' is 5"),
        (
            {"startingVersion": 1, "deduplicationMode": "all"},
            "one of none, dropCarryovers, netChanges",
        ),
        ({"startingVersion": 1, "startingTimestamp": "2026-01-01"}, "exclude each other"),
    ],
)
def test_what_is_refused(
    spark: "SparkSession", prices: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        feed(spark, prices, **options).count()


def test_changes_that_are_not_known_are_an_error(spark: "SparkSession", tmp_path: Path) -> None:
    with pagestore.open(tmp_path / "s.pages", retain="all") as store:
        for version in range(1, 6):
            with store.transaction() as txn:
                txn.create("price", "item: string, price: int64", key="item", if_not_exists=True)
                txn["price"].set([("tea", version)])
        store.vacuum(drop=[0, 1, 3])
        with store.transaction() as txn:
            txn.add_column("price", "note: string", "none")
    with pytest.raises(Exception, match="what version 3 changed is not known.*netChanges"):
        feed(spark, tmp_path / "s.pages", startingVersion=3, endingVersion=5).count()
    with pytest.raises(
        Exception, match="what version 2 changed is not known.*version 1.*no longer retained"
    ):
        feed(spark, tmp_path / "s.pages", startingVersion=2, endingVersion=2).count()
    with pytest.raises(Exception, match="'price' was made anew in version 6"):
        feed(spark, tmp_path / "s.pages", startingVersion=6).count()
