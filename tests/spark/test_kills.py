"""Drivers, and the Python processes of tasks, plans and commits, are killed at random points:
nothing is lost or twice.

A driver takes ten seconds to be there again; so the campaigns, of POINTS kills of each kind, are
under `-m campaign`. The default run kills Python processes of batches here, and of streams in
test_pipeline.py.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import pagestore

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'")

from tests.spark import pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
POINTS = int(os.environ.get("POINTS", "50"))  # kills of each kind
# seconds after which a campaign ends, whatever it has come to
LIMIT = float(os.environ.get("LIMIT", "inf"))
# one Python process, all of them, or the driver with everything below it
KINDS = "task", "workers", "driver"
PATIENCE = 300  # seconds


class Victim:
    """A driver in a process group of its own."""

    def __init__(self, mode: str, folder: Path) -> None:
        self.mode, self.folder = mode, folder
        path = folder / "path" / "pyspark_pagestore"
        if not path.exists():
            path.parent.mkdir()
            path.symlink_to(ROOT / "tools" / "spark" / "found")
        self.kills: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.start()

    def start(self) -> None:
        """Begin, or go on after the driver was killed."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.folder / "path"), str(ROOT)]),
        }
        with (self.folder / "output").open("a") as output:
            command = [sys.executable, "-m", "tests.spark.victim", self.mode, str(self.folder)]
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def kill(self, rng: Random, kind: str) -> None:
        """Kill the driver, or its Python processes, at a random moment, and wait until it has made
        progress again.

        A kill counts if it was one of the driver, or if something failed for it: some processes
        have no work.
        """
        end = time.monotonic() + PATIENCE
        time.sleep(rng.uniform(0, 2))
        self.expect_life(end)
        progress, failures = self.progress(), self.lines("failures")
        if kind == "driver":
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.start()
        else:
            while not pipeline.kill(self.chosen(rng, kind)):
                self.expect_life(end)
                time.sleep(rng.uniform(0, 0.02))
        # one may have been done already
        while self.progress() < progress + 2 and self.lines("failures") == failures:
            self.expect_life(end)
            time.sleep(0.02)
        self.wait(progress + 1)
        self.kills[kind] += 1
        self.counts[kind] += kind == "driver" or self.lines("failures") > failures
        print(kind, self.counts[kind], "of", self.kills[kind], flush=True)

    def wait(self, progress: int) -> None:
        """Wait until so many batches are written."""
        end = time.monotonic() + PATIENCE
        while self.progress() < progress:
            self.expect_life(end)
            time.sleep(0.02)

    def chosen(self, rng: Random, kind: str) -> list[int]:
        """One of the Python processes that work at the moment, or all of them."""
        one = kind == "task"
        states = pipeline.RUNNING if one else pipeline.ALIVE
        workers = [pid for java in self.java() for pid in pipeline.python_workers(java, states)]
        return rng.sample(workers, 1) if workers and one else workers

    def expect_life(self, end: float) -> None:
        """Raise AssertionError if the driver has ended, or takes too long."""
        assert time.monotonic() < end and self.process.poll() is None, (
            self.folder / "output"
        ).read_text()[-2000:]

    def progress(self) -> int:
        """How many batches are known to be written."""
        if self.mode == "stream":
            return pipeline.committed(self.folder)
        return self.lines("acknowledged")

    def lines(self, name: str) -> int:
        """How many lines a file has."""
        file = self.folder / name
        return len(file.read_text().splitlines()) if file.exists() else 0

    def java(self) -> list[int]:
        """The JVM, which is a child of the driver's Python."""
        return [
            int(pid)
            for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            .read_text()
            .split()
        ]

    def stop(self) -> str:
        """Let it end; what it said."""
        (self.folder / "stop").touch()
        assert self.process.wait(PATIENCE) == 0, (self.folder / "output").read_text()[-3000:]
        return (self.folder / "output").read_text()

    def end(self) -> None:
        """Leave no process behind."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def test_python_processes_of_batches(spark: "SparkSession", tmp_path: Path) -> None:
    """A session without retries: each batch is written again until it is there."""
    from tests.spark.victim import write_batch

    rng, java, kills, number = Random(1), pipeline.java_process(spark), 0, 0
    while kills < 3:
        with pipeline.Killer(java, rng, 0.4) as killer:
            while not write_batch(spark, tmp_path, number):
                pass
        kills += killer.killed
        number += 1
    verify_batches(tmp_path, number)


@pytest.mark.campaign
@pytest.mark.parametrize("mode", ["batch", "stream"])
def test_kills_at_random_points(tmp_path: Path, mode: str) -> None:
    rng = Random(f"{mode} 1")
    if mode == "stream":
        pipeline.create(tmp_path)
    victim = Victim(mode, tmp_path)
    try:
        victim.wait(1)
        end = time.monotonic() + LIMIT
        while (
            unfinished := [kind for kind in KINDS if victim.counts[kind] < POINTS]
        ) and time.monotonic() < end:
            victim.kill(rng, rng.choice(unfinished))
        said = victim.stop()
    finally:
        victim.end()
    print(
        victim.counts,
        "of",
        victim.kills,
        "kills hit work, in",
        victim.progress(),
        "batches;",
        said.splitlines()[-1],
    )
    if mode == "stream":
        assert "exact" in said.splitlines()[-1]
    else:
        verify_batches(tmp_path, victim.progress())


def verify_batches(folder: Path, acknowledged: int) -> None:
    """All batches that were acknowledged are there, each once."""
    from tests.spark.victim import ROWS

    with pagestore.open(folder / "batches.pages", timeout=60) as store:
        assert store.check() == []
        rows = Counter((batch, id_) for batch, id_, _ in store.snapshot()["r"])
    assert {*rows.values()} == {1}
    batches = Counter(batch for batch, _ in rows)
    assert batches == dict.fromkeys(range(len(batches)), ROWS)
    assert len(batches) == acknowledged
