"""kill -9 of drivers, of Python workers and of tasks, at random points of batches over cells and of refreshes.

Afterwards nothing is lost that was acknowledged, nothing is there twice, and the next program finds its way by itself.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ivm
from ivm.spark import Cells
from ivm.spark.cell import Batch, Message
from ivm.spark.executors import OnSpark, Stage
from ivm.spark.follow import PROGRESS
from tests.ivm.spark.driver import CELLS, RULES, table, views_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
BATCHES = 400  # more than a driver gets done before it is killed


def run_and_kill(what: str, folder: Path, seconds: float, *how: str) -> int:
    """Start a driver, kill it and all of its group some seconds after its first batch; returns the last one it told."""
    command = [sys.executable, "-m", "tests.ivm.spark.driver", what, str(folder), str(BATCHES), *how]
    child = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    try:
        assert child.stdout
        told = child.stdout.readline()
        time.sleep(seconds)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        rest, _ = child.communicate()
    return int((told + rest).split()[-1])


def compare_cells(cells: Cells, told: int, before: int) -> None:
    """All batches that were told are there, or those of the program before, and at most the next one."""
    assert cells.done - max(told, before) in (0, 1)
    for name, rows in views_after(cells.done).items():
        assert [*cells[name]] == rows, name


def kill_drivers_over_cells(folder: Path, seeds: range, *how: str) -> None:
    done = 0
    for seed in seeds:
        told = run_and_kill("cells", folder, random.Random(seed).random(), *how)
        with Cells.open(folder) as cells:
            compare_cells(cells, told, done)
            done = cells.done
    with Cells.open(folder) as cells:
        assert cells.check() == []


def kill_drivers_of_views(folder: Path, seeds: range) -> None:
    done = 0
    for seed in seeds:
        told = max(done, run_and_kill("views", folder, random.Random(seed).random() / 2))
        with ivm.open(folder / "v.pages") as workspace:
            done = json.loads(workspace.store.snapshot().properties[PROGRESS])["batches"]["edge"]
            assert done - told in (0, 1)
            assert {name: sorted(workspace[name]) for name in workspace} == views_after(done)
            assert workspace.check() == []


def test_drivers_over_cells(tmp_path: Path) -> None:
    kill_drivers_over_cells(tmp_path / "c", range(3))


def test_drivers_of_refreshes(tmp_path: Path) -> None:
    kill_drivers_of_views(tmp_path, range(2))


class Killing(OnSpark):
    """Has a Python worker kill itself some time after one of its tasks began, once; the marker says that it did."""

    def __init__(self, spark: "SparkSession", marker: Path, seconds: float, cell: int, stage: int) -> None:
        super().__init__(spark)
        self.told = str(marker), seconds, cell, stage

    def run(self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int) -> list[Message]:
        marker, seconds, victim, place = self.told
        chosen = stages[place % len(stages)]

        def deadly(batch: Batch, cell: int, messages: list[Message]) -> list[Message]:
            import os
            import threading

            if cell == victim and not os.path.exists(marker):
                open(marker, "w").close()
                threading.Timer(seconds, os.kill, (os.getpid(), 9)).start()
            return chosen(batch, cell, messages)

        return super().run(batch, [deadly if stage is chosen else stage for stage in stages], files, cells)


def kill_workers(spark: "SparkSession", folder: Path, seeds: range) -> None:
    with Cells.create(folder / "c", RULES, CELLS, options={"threads": 1}) as cells:
        cells._spark = spark
        for seed in seeds:
            chance, number = random.Random(seed), cells.done + 1
            number = max(1, number)
            cells._run = Killing(spark, folder / f"m{seed}", chance.random() / 10, chance.randrange(CELLS), seed)
            try:
                cells.apply(number, {"edge": table(number)})
            except Exception as error:  # of Spark, which tries no task of a local session again
                assert "crashed" in str(error) or "exited unexpectedly" in str(error), error
            cells._run = OnSpark(spark)
            cells.apply(number, {"edge": table(number)})
            compare_cells(cells, number, number)
        assert cells.check() == []


def test_workers_and_their_tasks(spark: "SparkSession", tmp_path: Path) -> None:
    kill_workers(spark, tmp_path, range(2))


@pytest.mark.campaign
def test_campaign_of_drivers(tmp_path: Path) -> None:
    kill_drivers_over_cells(tmp_path / "c", range(100, 150))
    kill_drivers_of_views(tmp_path, range(200, 250))


@pytest.mark.campaign
def test_campaign_of_workers(spark: "SparkSession", tmp_path: Path) -> None:
    kill_workers(spark, tmp_path, range(300, 350))


@pytest.mark.campaign
def test_campaign_of_drivers_of_spark(tmp_path: Path) -> None:
    """Each with a machine of Java of its own: run it alone."""
    kill_drivers_over_cells(tmp_path / "c", range(400, 410), "spark")
