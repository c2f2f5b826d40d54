"""Events stream into a workspace with a view, whose changes stream out into Parquet; and whether
that is exact.

rate source  ──▶  event, by format("pagestore")  ──▶  view count  ──▶  its change feed, by Spark's Parquet sink

Every row says by a random text which attempt of a task made it, so that a batch that is applied
twice shows.
"""

import os
import signal
from collections import Counter
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import ivm
from tests.support.waiting import joined

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

ALIVE, RUNNING = "RSD", "R"  # states of a process
RULES = """
    event(n, group, attempt) -> int(n), int(group), string(attempt).
    size[group] = c <- agg<<c = count()>> event(n, group, attempt).
"""


def create(folder: Path) -> None:
    """An empty workspace; it keeps all versions, since streams are away for a while."""
    with ivm.open(folder / "events.pages", retain="all") as workspace:
        workspace.install(RULES)


def start(spark: "SparkSession", folder: Path) -> "list[StreamingQuery]":
    """Begin both streams, or go on with them."""
    store = str(folder / "events.pages")
    events = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", 40)
        .option("numPartitions", 2)
        .load()
    )
    events = events.selectExpr("value as n", "value % 7 as group", "uuid() as attempt")
    writer = events.writeStream.format("pagestore").options(
        path=store, relation="event", lockTimeout=60
    )
    changes = (
        spark.readStream.format("pagestore")
        .options(relation="size", readChangeFeed=True)
        .load(store)
    )
    out = changes.writeStream.format("parquet").option("path", str(folder / "changes"))
    return [
        writer.option("checkpointLocation", str(folder / "in")).start(),
        out.option("checkpointLocation", str(folder / "out")).start(),
    ]


def finish(spark: "SparkSession", folder: Path) -> None:
    """Read the changes that are left, once nothing is written any more."""
    store = str(folder / "events.pages")
    changes = (
        spark.readStream.format("pagestore")
        .options(relation="size", readChangeFeed=True)
        .load(store)
    )
    out = changes.writeStream.format("parquet").option("path", str(folder / "changes"))
    query = out.option("checkpointLocation", str(folder / "out")).trigger(availableNow=True).start()
    query.awaitTermination(120)


def committed(folder: Path) -> int:
    """How many batches a checkpoint says are done; it names the last hundred or so."""
    done = folder / "in" / "commits"
    numbers = (
        [int(path.name) for path in done.iterdir() if path.name.isdecimal()]
        if done.exists()
        else []
    )
    return max(numbers, default=-1) + 1


def verify(spark: "SparkSession", folder: Path) -> int:
    """Compare events, view and changes; how many events there are. Raises AssertionError."""
    with ivm.open(folder / "events.pages") as workspace:
        assert workspace.check() == [] and workspace.store.check() == []
        numbers = [n for n, _, _ in workspace["event"]]
        assert numbers == [*range(len(numbers))], (
            f"{Counter(numbers).most_common(3)} of {len(numbers)}"
        )
        view = {*workspace["size"]}
    assert view == {*Counter(n % 7 for n in numbers).items()}
    rows: Counter[tuple[int, int]] = Counter()
    # by the sink's own list of files
    for row in spark.read.parquet(str(folder / "changes")).collect():
        rows[row.group, row.c] += 1 if row._change_type == "insert" else -1
    assert {row for row, times in rows.items() if times} == view and {*rows.values()} <= {0, 1}
    return len(numbers)


def python_workers(spark_process: int, states: str = ALIVE) -> list[int]:
    """The Python processes in which a Spark process has tasks, plans and commits: children of
    daemons, its children.

    Spark itself does not go on at once where a daemon is killed. Of those in some states: R is
    running.
    """
    parents, found = {}, set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue  # it has ended
        if state != "Z":  # it was killed already
            parents[int(status.parent.name)] = int(parent)
        if state in states:
            found.add(int(status.parent.name))
    daemons = {pid for pid, parent in parents.items() if parent == spark_process}
    return [pid for pid, parent in parents.items() if parent in daemons and pid in found]


def kill(pids: list[int]) -> int:
    """Kill processes; how many were there."""
    killed = 0
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            killed += 1
        except ProcessLookupError:
            continue
    return killed


class Killer(Thread):
    """Kills one of a Spark process's Python processes, or all, at a random moment of the `with`
    block.

    Where there are none at the moment, the next one that starts is killed. `killed` says how many
    were.
    """

    def __init__(self, spark_process: int, rng: Random, longest: float, one: bool = True) -> None:
        super().__init__(daemon=True)
        self.spark_process, self.rng, self.one = spark_process, rng, one
        self.seconds, self.over, self.killed = rng.uniform(0, longest), Event(), 0

    def run(self) -> None:
        """See Killer."""
        self.over.wait(self.seconds)
        while not self.over.is_set() and not self.killed:
            workers = python_workers(self.spark_process)
            self.killed = kill(self.rng.sample(workers, 1) if self.one and workers else workers)
            self.over.wait(0.005)

    def __enter__(self) -> "Killer":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        joined(self)


def java_process(spark: "SparkSession") -> int:
    """The process of a session's JVM."""
    jvm: Any = spark.sparkContext._jvm
    return int(jvm.java.lang.ProcessHandle.current().pid())
