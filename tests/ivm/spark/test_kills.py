"""kill -9 of drivers, of Python workers and of tasks, at random points of batches over cells and of
refreshes.

Afterwards nothing is lost that was acknowledged, nothing occurs twice, and the next program finds
its way by itself.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import ivm
from ivm.spark import Cells, materialize
from ivm.spark.cell import Batch, Message
from ivm.spark.executors import Here, OnSpark, Stage
from ivm.spark.follow import PROGRESS
from tests.ivm.spark.driver import CELLS, RULES, table, views_after
from tests.spark.death import Death

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
BATCHES = 400  # more than a driver gets done before it is killed
POINTS = int(os.environ.get("POINTS", "50"))  # kills of a campaign


def run_and_kill(what: str, folder: Path, done: int, seconds: float, *how: str) -> int:
    """Start a driver, which sends the newest batch again, and kill it and all of its group some
    seconds after that.

    Returns the last batch that it told.
    """
    batches = max(1, done), max(1, done) + BATCHES
    command = [
        sys.executable,
        "-m",
        "tests.ivm.spark.driver",
        what,
        str(folder),
        *map(str, batches),
        *how,
    ]
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        assert child.stdout
        told = child.stdout.readline()
        time.sleep(seconds)
        assert child.poll() is None, f"the driver ended by itself, after {told}"
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        rest, _ = child.communicate()
    return int((told + rest).split()[-1])


def compare_cells(cells: Cells, told: int, before: int) -> None:
    """All batches that were told are there, or those of the program before, and at most the next
    one.
    """
    assert cells.done - max(told, before) in (0, 1)
    for name, rows in views_after(cells.done).items():
        assert [*cells[name]] == rows, name


def kill_drivers_over_cells(folder: Path, seeds: range, *how: str) -> None:
    done = halfway = 0
    for seed in seeds:
        # the first batch on Spark takes that long
        seconds = random.Random(seed).uniform(0, 8 if how else 1)
        told = run_and_kill("cells", folder, done, seconds, *how)
        halfway += any(folder.glob("pending/*"))
        with Cells.open(folder) as cells:
            compare_cells(cells, told, done)
            done = cells.done
        print("driver", seed - seeds.start + 1, flush=True)
    with Cells.open(folder) as cells:
        assert cells.check() == []
    print(
        len(seeds),
        "drivers killed at",
        done,
        "batches over cells,",
        halfway,
        "while one was on its way to cells",
    )


def kill_drivers_of_views(folder: Path, seeds: range, *how: str) -> None:
    done = 0
    for seed in seeds:
        seconds = random.Random(seed).uniform(0, 2 if how else 0.5)
        told = max(done, run_and_kill("views", folder, done, seconds, *how))
        with ivm.open(folder / "v.pages") as workspace:
            done = json.loads(workspace.store.snapshot().properties[PROGRESS])["batches"]["edge"]
            assert done - told in (0, 1)
            assert {name: sorted(workspace[name]) for name in workspace} == views_after(done)
            assert workspace.check() == []
        print("driver", seed - seeds.start + 1, flush=True)
    print(len(seeds), "drivers killed at", done, "refreshes")


def test_drivers_over_cells(tmp_path: Path) -> None:
    kill_drivers_over_cells(tmp_path / "c", range(2))


def test_drivers_of_refreshes(tmp_path: Path) -> None:
    kill_drivers_of_views(tmp_path, range(1))


class Killing(OnSpark):
    """Has a Python worker, or all of them, killed while one cell is at one stage."""

    def __init__(self, spark: "SparkSession", death: Death, cell: int, stage: int) -> None:
        super().__init__(spark)
        self.told = death, cell, stage

    def run(
        self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int
    ) -> list[Message]:
        death, victim, place = self.told
        chosen = stages[place % len(stages)]

        def deadly(batch: Batch, cell: int, messages: list[Message]) -> list[Message]:
            with death if cell == victim else nullcontext():
                return chosen(batch, cell, messages)

        return super().run(
            batch, [deadly if stage is chosen else stage for stage in stages], files, cells
        )


def is_of_a_kill(error: Exception) -> bool:
    """Is it how Spark, which tries no task of a local session again, says that a Python process
    died?
    """
    return any(
        words in str(error)
        for words in ("crashed", "exited unexpectedly", "Broken pipe", "Connection reset")
    )


def kill_workers(spark: "SparkSession", folder: Path, kills: int, everybody: bool) -> None:
    struck = seed = 0
    with Cells.create(folder / "c", RULES, CELLS, options={"threads": 1}) as cells:
        cells._spark = spark
        while struck < kills:
            seed += 1
            chance, number = random.Random(seed), max(1, cells.done + 1)
            death = Death(folder / f"m{seed}", chance.random() / 20, everybody)
            cells._run = Killing(spark, death, chance.randrange(CELLS), seed)
            try:
                cells.apply(number, {"edge": table(number)})
            except Exception as error:
                assert is_of_a_kill(error), error
            cells._run = OnSpark(spark)
            apply_again(cells, number)
            cells._run = Here()
            compare_cells(cells, number, number)
            struck += death.marker.exists()
        assert cells.check() == []
    print(struck, "kills in", seed, "batches over cells")


def apply_again(cells: Cells, number: int) -> None:
    """Apply a batch until it is there; Spark may hand out a worker that is dead already."""
    for _ in range(10):
        try:
            cells.apply(number, {"edge": table(number)})
            return
        except Exception as error:
            assert is_of_a_kill(error), error
    raise AssertionError(f"batch {number} is not applied")


def kill_workers_of_views(spark: "SparkSession", folder: Path, kills: int, everybody: bool) -> None:
    """The source of each refresh passes through a Python task that is killed."""
    struck = seed = 0
    while struck < kills:
        seed += 1
        death = Death(folder / f"m{seed}", random.Random(seed).random() / 8, everybody)
        source = spark.createDataFrame(table(seed))

        def deadly(batches: Iterator[pa.RecordBatch], death: Death = death) -> Any:
            for batch in batches:  # not in a task without rows, which is over at once
                with death:
                    time.sleep(0.1)
                    yield batch

        for frame in [source.mapInArrow(deadly, source.schema), *[source] * 10]:
            try:
                views = materialize(
                    spark, "views", RULES, {"edge": frame}, folder / "v.pages", batch=seed
                )
                break
            except Exception as error:
                assert is_of_a_kill(error), error
        with ivm.open(folder / "v.pages") as workspace:
            assert {name: sorted(workspace[name]) for name in workspace} == views_after(seed)
            assert workspace.check() == []
        assert not materialize(
            spark, "views", RULES, {"edge": source}, folder / "v.pages", batch=seed
        ).new
        assert views.version == 1 or views.changes("edge").count() <= 12
        struck += death.marker.exists()
    print(struck, "kills in", seed, "refreshes")


WORKERS = {"over cells": kill_workers, "of views": kill_workers_of_views}


@pytest.mark.parametrize("work", WORKERS)
def test_workers_and_their_tasks(spark: "SparkSession", tmp_path: Path, work: str) -> None:
    for everybody in (False, True):
        folder = tmp_path / str(everybody)
        folder.mkdir()
        WORKERS[work](spark, folder, 1, everybody)


@pytest.mark.campaign
def test_campaign_of_drivers(tmp_path: Path) -> None:
    kill_drivers_over_cells(tmp_path / "c", range(100, 100 + POINTS))
    kill_drivers_of_views(tmp_path, range(200, 200 + POINTS))


@pytest.mark.campaign
@pytest.mark.parametrize("everybody", [False, True], ids=["task", "workers"])
@pytest.mark.parametrize("work", WORKERS)
def test_campaign_of_workers(
    spark: "SparkSession", tmp_path: Path, work: str, everybody: bool
) -> None:
    WORKERS[work](spark, tmp_path, POINTS, everybody)


@pytest.mark.campaign
@pytest.mark.parametrize("what", [kill_drivers_over_cells, kill_drivers_of_views])
def test_campaign_of_drivers_of_spark(tmp_path: Path, what: Callable[..., None]) -> None:
    """Each with a machine of Java of its own."""
    what(tmp_path / "c", range(400, 400 + POINTS), "spark")
