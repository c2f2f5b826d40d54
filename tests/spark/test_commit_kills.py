"""A driver without Spark is killed at random points of its commits; started again, it applies every
job once.

Tasks are played here: what they do is to leave files, and to leave some more if they are killed and
tried again.
"""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pagestore

pytest.importorskip("pyspark")
ROOT = Path(__file__).parents[2]
JOBS, ROWS = 12, 400
DRIVER = f"""
import sys
from pathlib import Path
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType
from pagestore_tools.spark.source.write import Job
from pagestore_tools.spark.source.write import commit
from pagestore_tools.spark.source.options import WRITING, Options
from ivm.spark.staging import clear
from pagestore_tools.spark.source.write import target_of

path, done = Path(sys.argv[1]), Path(sys.argv[2])
schema = StructType([StructField("id", LongType(), False), StructField("name", StringType(), False)])
for number in range(int(done.read_text() or 0), {JOBS}):
    options = Options({{"path": str(path), "relation": "r", "key": "id", "operation": "upsert"}}, WRITING)
    target = target_of(options, schema, False)
    folder = target.staging / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for task in range(2):
        ids = list(range(number * {ROWS} + task, (number + 1) * {ROWS}, 2))
        batch = pa.record_batch({{"id": ids, "name": [f"row {{i}} of job {{number}}" for i in ids]}})
        for attempt in range(2):  # the first one was killed
            file = str(folder / f"{{task}}-{{attempt}}.arrow")
            with pa.ipc.new_file(file, batch.schema) as out:
                out.write_batch(batch)
        files.append(file)
    commit(target, Job("nightly", number), files)
    clear(folder)
    done.write_text(str(number + 1))
    print(number, flush=True)
"""


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(1, 17))]
)
def test_a_driver_that_is_killed_applies_each_job_once(tmp_path: Path, seed: int) -> None:
    """Three kills a seed, then a run to the end."""
    rng, path, done = random.Random(seed), tmp_path / "s.pages", tmp_path / "done"
    done.write_text("0")
    for kill in (True, True, True, False):
        command = [sys.executable, "-c", DRIVER, str(path), str(done)]
        driver = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True
        )
        if kill:
            assert driver.stdout is not None
            driver.stdout.readline()  # from here on it commits
            time.sleep(rng.random() * 0.15)
            driver.send_signal(signal.SIGKILL)
        _, error = driver.communicate(timeout=120)
        assert kill or driver.returncode == 0, error
    with pagestore.open(path, mode="r") as store:
        expected = [(i, f"row {i} of job {i // ROWS}") for i in range(JOBS * ROWS)]
        assert list(store.snapshot()["r"]) == expected
        assert store.version == JOBS and store.check() == []
    assert not [*tmp_path.glob("*.staged/*/*")]
