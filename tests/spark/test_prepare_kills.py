"""`prepare`, and the load of what it made, ended and killed at any point: what was there before, or
all that is new.

    python -m tests.spark.test_prepare_kills FOLDER        prepares and loads, over and over, until it is killed

Job after job writes two tables by turns to the same folder and the same relation, so half of one
would show.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

import pagestore

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'")

from pagestore_tools.loading.load import Spread, load
from pagestore_tools.loading.manifest import verified
from pagestore_tools.spark import prepare as prepare_module
from pagestore_tools.spark.prepare import prepare
from pagestore_tools.spark.recipe import Recipe, recipe_of
from pagestore_tools.spark.session import SparkCluster, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
POINTS = int(os.environ.get("POINTS", "50"))  # kills of a campaign
N = 3000
TABLES = [[(k, f"text {k}") for k in range(N) if k % 2 == odd] for odd in range(2)]


def recipe(folder: Path, odd: int) -> Recipe:
    """The rows of a CSV whose keys are odd, or not; some others are bad."""
    source = folder / "raw.csv"
    if not source.exists():
        lines = [f"{k},text {k}\n" for k in range(N)] + [f"x{k},text\n" for k in range(50)]
        source.with_suffix(".new").write_text("k,t\n" + "".join(lines))
        source.with_suffix(".new").rename(source)
    wanted = f"coalesce(try_cast(k as bigint) % 2, {odd}) = {odd}"
    options = {
        "source": str(source),
        "key": ["k"],
        "where": wanted,
        "columns": {"k": "int64", "t": "string"},
    }
    return recipe_of("r", options)


def job(spark: "SparkSession", folder: Path, odd: int) -> None:
    """Prepare a table and load it."""
    prepare(spark, recipe(folder, odd), folder / "out", overwrite=True)
    with pagestore.open(folder / "s.pages", timeout=60) as store, store.transaction() as txn:
        spread = Spread(SparkCluster(spark), folder / "segments")
        load(txn, "r", folder / "out" / "r", () if "r" in txn else ["k"], "replace", spread=spread)


def prepared(folder: Path) -> list[tuple]:
    """The rows of the prepared table, after its manifest was verified; none where there is no
    table.
    """
    made = folder / "out" / "r"
    if not made.exists():
        return []
    assert verified([made], lambda text: None) is not None
    assert len([*(folder / "out").glob("*.quarantine")]) == 1
    return [
        tuple(row.values())
        for file in sorted(made.glob("*.parquet"))
        for row in pq.read_table(file).to_pylist()
    ]


def stored(folder: Path) -> list[tuple]:
    """The rows of the store, which is checked."""
    with pagestore.open(folder / "s.pages", timeout=60) as store:
        assert store.check() == []
        snap = store.snapshot()
        return [*snap["r"]] if "r" in snap else []


STEPS = ["_count", "bad_rows", "unique", "write_sorted", "describe", "_move"]


def test_a_job_that_ends_anywhere_leaves_what_was_there(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(spark, recipe(tmp_path, 0), tmp_path / "out")
    before = sorted(path.relative_to(tmp_path) for path in (tmp_path / "out").rglob("*"))
    for step in STEPS:
        with monkeypatch.context() as patch:

            def end(*_: object) -> None:
                raise KeyboardInterrupt

            patch.setattr(prepare_module, step, end)
            if step == "describe":  # as a kill does, which removes nothing
                patch.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
            with pytest.raises(KeyboardInterrupt):
                prepare(spark, recipe(tmp_path, 1), tmp_path / "out", overwrite=True)
        assert prepared(tmp_path) == TABLES[0], step
        left = sorted(path.relative_to(tmp_path) for path in (tmp_path / "out").rglob("*"))
        assert (left == before) == (step != "describe"), step
    prepare(spark, recipe(tmp_path, 1), tmp_path / "out", overwrite=True)
    assert prepared(tmp_path) == TABLES[1] and not (tmp_path / "out" / ".making").exists()


@pytest.mark.campaign
def test_campaign_of_drivers(tmp_path: Path) -> None:
    rng, found = Random(1), []
    for _ in range(POINTS):
        command = [sys.executable, "-m", "tests.spark.test_prepare_kills", str(tmp_path)]
        driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)
        try:
            assert driver.stdout is not None
            driver.stdout.readline()
            time.sleep(rng.uniform(0, 10))
            assert driver.poll() is None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.communicate()
        found.append((prepared(tmp_path), stored(tmp_path)))
        assert all(rows in ([], *TABLES) for rows in found[-1])
    print(
        POINTS,
        "drivers killed;",
        sum(made != kept for made, kept in found),
        "between prepare and load",
    )
    with local_session("after") as spark:
        for odd in range(2):
            job(spark, tmp_path, odd)
            assert prepared(tmp_path) == stored(tmp_path) == TABLES[odd]
    assert not (tmp_path / "segments").exists() and not (tmp_path / "out" / ".making").exists()


@pytest.mark.campaign
@pytest.mark.parametrize("one", [True, False], ids=["task", "workers"])
def test_campaign_of_workers(spark: "SparkSession", tmp_path: Path, one: bool) -> None:
    """Tasks of `prepare` run in Java alone; those of the load have Python processes, which are
    killed.
    """
    from tests.spark.pipeline import Killer, java_process
    from tests.spark.victim import FAILED

    rng, struck, jobs, failed = Random(2), 0, 0, 0
    while struck < POINTS:
        jobs += 1
        with Killer(java_process(spark), rng, 3, one) as killer:
            try:
                job(spark, tmp_path, jobs % 2)
            except FAILED:
                failed += 1
        struck += killer.killed > 0
        assert prepared(tmp_path) == TABLES[jobs % 2]
        assert stored(tmp_path) in ([], *TABLES)
    print(struck, "kills in", jobs, "jobs, of which", failed, "failed")


if __name__ == "__main__":
    with local_session("prepare") as spark:
        print("ready", flush=True)
        turn = 0
        while True:
            job(spark, Path(sys.argv[1]), turn % 2)
            turn += 1
