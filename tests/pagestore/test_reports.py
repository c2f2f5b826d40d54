"""Loggers and metrics: what commits, waits and recoveries report, and that nothing is measured
while nobody asks.
"""

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
import pagestore
from pagestore.relations import commit_report
from pagestore.runtime import reports
from tests.support.calls import functions_called
from tests.support.waiting import joined

pytestmark = pytest.mark.usefixtures("unhurried")

HOLDS = """
import pagestore, sys
txn = pagestore.open(sys.argv[1]).transaction()
print("has it", flush=True)
sys.stdin.read()
"""
CRASHES = """
import os, pagestore, sys
store = pagestore.open(sys.argv[1])
txn = store.transaction()
txn.create("r", "x: int64")
txn.commit()
os._exit(1)
"""


@pytest.fixture
def metrics() -> Iterator[list[tuple]]:
    found: list[tuple] = []
    before = pagestore.on_metric(lambda *metric: found.append(metric))
    yield found
    pagestore.on_metric(before)


def named(metrics: list[tuple], name: str) -> list[tuple]:
    return [(value, attributes) for found, value, attributes in metrics if found == name]


@pytest.mark.parametrize(("sync", "syncs"), [("full", 2), ("commit", 1), ("off", 0)])
def test_a_commit_reports_rows_views_seconds_and_syncs(
    sync: str, syncs: int, tmp_path: Path, caplog, metrics
) -> None:
    file = tmp_path / "a.pages"
    with ivm.open(file, sync=sync) as ws:
        ws.install("edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z).", "two")
        ws.install("p[] = n <- agg<<n = count()>> edge(_, _).", "p")
        ws.insert("edge", [(1, 2), (2, 3)])
        metrics.clear()
        with caplog.at_level(logging.DEBUG, "pagestore.commit"):
            began = time.perf_counter()
            version = ws.insert("edge", [(3, 4), (1, 2)])
            took = time.perf_counter() - began
    record = next(record for record in caplog.records if record.name == "pagestore.commit")
    assert (record.rows, record.views, record.syncs) == ({"edge": 1}, {"two": 1, "p": 2}, syncs)
    assert (record.version, record.path) == (version, str(file))
    assert 0 < record.seconds < took
    assert record.getMessage().startswith(
        f"version {version} of {file}: edge 1; views: two 1, p 2; "
    )
    common = {"db.system.name": "pagestore", "db.namespace": str(file)}
    [(seconds, attributes)] = named(metrics, "db.client.operation.duration")
    assert seconds == record.seconds
    assert attributes == {**common, "db.operation.name": "COMMIT"}
    assert [value for value, _ in named(metrics, "pagestore.commit.syncs")] == [syncs]
    counts = named(metrics, "pagestore.commit.rows")
    assert {(a["db.collection.name"], a["pagestore.view"], value) for value, a in counts} == {
        ("edge", "false", 1),
        ("two", "true", 1),
        ("p", "true", 2),
    }


def test_an_update_is_a_deletion_and_an_insertion_and_a_load_is_counted(
    tmp_path: Path, metrics
) -> None:
    with pagestore.open(tmp_path / "a.pages", sync="off") as store:
        for rows in [(n, n) for n in range(100_000)], [(7, 8), (9, 9)]:
            with store.transaction() as txn:
                (txn["r"] if "r" in txn else txn.create("r", "k: int64, v: int64", key=("k",))).set(
                    rows
                )
        with store.transaction():
            pass  # makes no version
    assert [value for value, _ in named(metrics, "pagestore.commit.rows")] == [100_000, 2]


def test_a_wait_is_reported_with_whom(tmp_path: Path, caplog, metrics) -> None:
    caplog.set_level(logging.DEBUG, "pagestore.lock")
    with pagestore.open(tmp_path / "a.pages", sync="off") as store:
        txn = store.transaction()
        other = threading.Thread(target=lambda: store.transaction().rollback())
        other.start()
        time.sleep(0.05)
        txn.rollback()
        joined(other)
        command = [sys.executable, "-c", HOLDS, str(tmp_path / "a.pages")]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout and process.stdin
            process.stdout.readline()
            ending = threading.Timer(0.05, process.stdin.close)
            ending.start()
            store.transaction().rollback()
            joined(ending)
        assert [
            len(value) for value in (caplog.records, named(metrics, "pagestore.lock.wait_time"))
        ] == [2, 2]
    first, second = caplog.records
    assert "thread 'MainThread'" in first.getMessage()
    assert f"process {process.pid}" in second.getMessage()
    assert all(record.seconds >= 0.04 for record in caplog.records)


def test_a_store_that_was_not_closed_is_reported(tmp_path: Path, caplog, metrics) -> None:
    file = str(tmp_path / "a.pages")
    subprocess.run([sys.executable, "-c", CRASHES, file], check=False)
    with caplog.at_level(logging.INFO, "pagestore.recovery"), pagestore.open(file):
        pass
    with caplog.at_level(logging.INFO, "pagestore.recovery"), pagestore.open(file):
        pass  # closed cleanly before
    assert [record.getMessage() for record in caplog.records] == [
        f"{file}: version 1: was not closed; nothing acknowledged is missing"
    ]
    assert [
        (value, a["pagestore.damaged"]) for value, a in named(metrics, "pagestore.recovery")
    ] == [(1, "false")]


def test_an_error_of_the_function_for_metrics_does_not_touch_the_commit(
    tmp_path: Path, caplog
) -> None:
    def fail(name: str, value: float, attributes: object) -> None:
        raise RuntimeError("no collector")

    before = pagestore.on_metric(fail)
    try:
        with pagestore.open(tmp_path / "a.pages", sync="off") as store, store.transaction() as txn:
            txn.create("r", "x: int64").insert([(1,)])
    finally:
        pagestore.on_metric(before)
    assert "the function for metrics failed for db.client.operation.duration" in caplog.text
    with pagestore.open(tmp_path / "a.pages") as store:
        assert list(store.snapshot()["r"]) == [(1,)]


def test_unwatched_a_commit_makes_one_call_more(tmp_path: Path) -> None:
    """All that is asked is whether the logger is enabled, which it remembers."""
    here = {reports.__file__, commit_report.__file__, logging.__file__}
    with pagestore.open(tmp_path / "a.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64")
        with store.transaction() as txn:
            txn["r"].insert([(1,)])
            called = functions_called(txn.commit)
    assert [code.co_name for code in called if code.co_filename in here] == ["isEnabledFor"]
