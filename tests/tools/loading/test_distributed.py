"""A relation that tasks build: the same rows, counts and complaints as a load in one process, and
often the same bytes.

Tasks run here (tests/support/cluster.py), or on Spark.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from pagestore.trees.read import pages_of
from pagestore_tools.cli import main
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.dataset import Reading
from pagestore_tools.loading.distributed import _shared_out
from pagestore_tools.loading.files import Part
from pagestore_tools.loading.load import Report, Spread, load
from tests.spark.death import Death
from tests.support.cluster import HereCluster

TYPES = [
    ("x", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(9, 2)), ("f", pa.float64()), ("b",
    pa.binary()),
]  # fmt: skip
ROOT = Path(__file__).parents[3]
POINTS = int(os.environ.get("POINTS", "50"))  # kills of a campaign


def write(folder: Path, rows: list[tuple[Any, ...]], files: int) -> Path:
    """Rows as part files of Parquet."""
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(len(rows)), files)):
        columns = {
            name: pa.array([rows[i][c] for i in part], kind) for c, (name, kind) in enumerate(TYPES)
        }
        pq.write_table(pa.table(columns), folder / f"part-{number:05}.parquet")
    (folder / "_SUCCESS").touch()
    return folder


def random_rows(rng: random.Random, n: int, faulty: bool) -> list[tuple[Any, ...]]:
    """Rows over small domains; a row follows from its key, unless some are to be faulty."""
    rows = []
    for _ in range(n):
        x, s = rng.randint(0, n), rng.choice(["a", "b", "ü", "long" * 300, ""])
        odd = rng.randint(0, 1) if faulty and not rng.randint(0, n // 2) else 0
        seed = f"{x} {s}"
        rows.append(
            (
                x,
                s,
                Decimal(len(seed) + odd) / 100,
                None if x % 3 == 0 else x / 7,
                seed.encode() * (x % 2),
            )
        )
    return rows


def loaded(
    file: Path, folder: Path, key: list[str], spread: Spread | None, **more: Any
) -> tuple[Any, ...]:
    """What a load leaves: its report's counts or its complaint, the rows, and the bytes of the
    trees.
    """
    with pagestore.open(file, sync="off") as store:
        try:
            with store.transaction() as txn:
                report: Report | str = load(txn, "r", folder, key, spread=spread, **more)
        except DatasetError as error:
            assert store.version == 0 and store.check() == []
            return str(error), [], []
        assert isinstance(report, Report)
        assert store.check() == []
        relation, words = store.snapshot()["r"], store.snapshot().pages
        pages = words.words.reshape(-1, words.page_words)
        trees = [relation.tree]
        bytes_ = [pages[np.sort(pages_of(words, tree))].copy() for tree in trees if tree.root]
        counts = (
            report.rows,
            report.inserted,
            report.collapsed,
            report.dropped,
            str(relation.schema),
        )
        return counts, [*relation], bytes_


@pytest.mark.parametrize("seed", range(10))
def test_random_files_load_as_in_one_process(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    rows = random_rows(rng, rng.choice([0, 3, 60, 3000]), faulty=seed % 3 == 0)
    key = rng.choice([["x", "s"], ["s", "x"], ["x", "s", "d"]])
    if rng.randint(0, 1):
        rows.sort(key=lambda row: (row[0], row[1]))
    folder = write(tmp_path / "job", rows, rng.randint(1, 5))
    reading = Reading(nulls=rng.choice(["keep", "drop"]))
    here = loaded(tmp_path / "here.pages", folder, key, None, reading=reading)
    spread = Spread(HereCluster(rng.randint(1, 4)), tmp_path / "segments")
    there = loaded(tmp_path / "there.pages", folder, key, spread, reading=reading)
    assert there[:2] == here[:2]
    assert not (tmp_path / "segments").exists()


@pytest.mark.parametrize("key", [["x"], ["x", "d"]])
@pytest.mark.parametrize("tasks", [1, 3])
def test_numbers_in_order_need_no_sort(tmp_path: Path, key: list[str], tasks: int) -> None:
    rows = [(x, str(x % 50), Decimal(x) / 100, None, b"") for x in range(0, 40_000, 2)]
    folder = write(tmp_path / "job", rows, 4)
    here = loaded(tmp_path / "here.pages", folder, key, None)
    spread = Spread(HereCluster(tasks), tmp_path / "segments")
    there = loaded(tmp_path / "there.pages", folder, key, spread)
    assert there[:2] == here[:2]
    with pagestore.open(tmp_path / "again.pages", sync="off") as store, store.transaction() as txn:
        assert not load(txn, "r", folder, key, spread=spread).sorted


@pytest.mark.parametrize("key", [["x"], ["x", "d"]])
def test_decimals_of_more_digits_than_a_word_has(tmp_path: Path, key: list[str]) -> None:
    """Also where the column has more digits after the point than the files."""
    rows = [(x, "t", Decimal(x % 70 - 30) * 10**3, None, b"") for x in range(3000)]
    folder, found = write(tmp_path / "job", rows, 3), []
    for spread in (None, Spread(HereCluster(3), tmp_path / "segments")):
        with (
            pagestore.open(tmp_path / f"{len(found)}.pages", sync="off") as store,
            store.transaction() as txn,
        ):
            txn.create("r", "x: int64, d: decimal(38,9)", key)
            load(txn, "r", folder, (), "replace", Reading(columns=["x", "d"]), spread=spread)
            found.append([*txn["r"]])
    assert found[0] == found[1] == [(x, d) for x, _, d, _, _ in rows]


@pytest.mark.parametrize(
    ("kind", "key"), [("numbers", ["x"]), ("texts", ["x"]), ("keys", ["s", "x"])]
)
def test_one_task_builds_the_bytes_of_one_process(
    tmp_path: Path, kind: str, key: list[str]
) -> None:
    text = (lambda x: "t") if kind == "numbers" else (lambda x: f"t{x % 999}")
    rows = [(x, text(x), Decimal(x) / 100, x / 3, b"") for x in range(60_000)]
    folder = write(tmp_path / "job", rows, 1)
    contents = []
    for spread in (None, Spread(HereCluster(1), tmp_path / "segments")):
        with (
            pagestore.open(tmp_path / f"{len(contents)}.pages", sync="off") as store,
            store.transaction() as txn,
        ):
            load(txn, "r", folder, key, spread=spread)
            trees = [txn.tree("r"), *[txn._trees[number] for number in (1, 2)]]
            pages = txn.pages.words.reshape(-1, txn.pages.page_words)
            contents.append(
                [(tree, pages[np.sort(pages_of(txn.pages, tree))].copy()) for tree in trees]
            )
    for (tree, one), (other_tree, other) in zip(*contents, strict=True):
        assert tree == other_tree and np.array_equal(one, other)


def test_what_is_wrong_is_told_as_in_one_process(tmp_path: Path) -> None:
    rows: list[tuple[Any, ...]] = [
        (1, "a", None, float("nan"), b""),
        (2, None, Decimal(1), 1.0, None),
    ]
    folder = write(tmp_path / "job", [*rows, (None, "c", Decimal(2), float("nan"), b"")], 2)
    for key in (["x"], ["s"]):  # in order, and sorted
        spread = Spread(HereCluster(2), tmp_path / "segments")
        here, there = (loaded(tmp_path / "s.pages", folder, key, one) for one in (None, spread))
        assert here == there and "column f is NaN" in here[0] and "is null in row" in here[0]


def test_a_relation_keeps_its_scans_and_its_views_follow(tmp_path: Path) -> None:
    rows = [(x, "t", Decimal(x), None, b"") for x in range(5000)]
    folder, spread = write(tmp_path / "job", rows, 3), Spread(HereCluster(3), tmp_path / "segments")
    with ivm.open(tmp_path / "w.pages") as workspace:
        with workspace.store.transaction() as txn:
            txn.create("r", "x: int64, d: int64", ("x",), ["count", "sum:d"]).insert(
                [(1, 1), (2, 9)]
            )
        workspace.install(
            "total[] = t <- agg<<t = sum(d)>> r[_] = d. big(x) <- r[x] = d, d > 4990."
        )
        with workspace.store.transaction() as txn:
            reading = Reading(columns=["x", "d"], casts={"d": pagestore.host.Type.parse("int64")})
            report = load(txn, "r", folder, (), "replace", reading, spread=spread)
        assert (report.rows, report.deleted, set(report.views)) == (5000, 2, {"total", "big"})
        assert workspace["total"].to_arrow().column(0).to_pylist() == [sum(range(5000))]
        assert sorted(workspace["big"]) == [(x,) for x in range(4991, 5000)]
        assert workspace.store.snapshot()["r"].range((10,), (20,)).scan("sum:d") == sum(
            range(10, 20)
        )
        assert workspace.check() == [] and workspace.store.check() == []


def test_lists_are_loaded_beside_it(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    pq.write_table(pa.table({"x": [1, 2], "tags": [["a", "b"], []]}), folder / "part-0.parquet")
    with pagestore.open(":memory:") as store:
        with store.transaction() as txn:
            load(txn, "r", folder, ["x"], spread=Spread(HereCluster(2), tmp_path / "segments"))
        assert [*store.snapshot()["r"]] == [(1,), (2,)] and store.check() == []
        assert [*store.snapshot()["r:tags"]] == [(1, 0, "a"), (1, 1, "b")]


def test_files_without_types_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    with (
        pytest.raises(
            DatasetError, match="a.csv is csv, whose types are guessed.*pagestore prepare"
        ),
        pagestore.open(":memory:") as store,
        store.transaction() as txn,
    ):
        load(
            txn,
            "r",
            tmp_path / "a.csv",
            ["x"],
            spread=Spread(HereCluster(1), tmp_path / "segments"),
        )


def test_files_are_shared_out_in_order_and_evenly(tmp_path: Path) -> None:
    parts = []
    for number, size in enumerate([10, 10, 90, 10, 10, 10, 10]):
        (tmp_path / str(number)).write_bytes(bytes(size))
        parts.append(Part(tmp_path / str(number), "parquet", {}))
    shares = [[part.file.name for part in share] for share in _shared_out(parts, 3)]
    assert shares == [["0", "1"], ["2"], ["3", "4", "5", "6"]]
    assert [len(share) for share in _shared_out(parts, 1)] == [7]


# --- on Spark -----------------------------------------------------------------------------------


@pytest.fixture
def submitted(spark, monkeypatch: pytest.MonkeyPatch):
    """The command takes the session that exists, as under spark-submit."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "0")
    return spark


@pytest.mark.parametrize("key", ["x", "s,x"])
def test_spark_builds_what_one_process_builds(submitted, tmp_path: Path, key: str, capsys) -> None:
    rng = random.Random(4)
    rows = sorted({row[0]: row for row in random_rows(rng, 4000, faulty=False)}.values())
    folder, contents = write(tmp_path / "job", rows, 3), []
    for options in ([], ["--spark"]):
        file = tmp_path / f"s{len(contents)}.pages"
        assert (
            main.pagestore(["load", str(file), "r", str(folder), "--key", key, "--json", *options])
            == 0
        )
        answer = json.loads(capsys.readouterr().out)
        assert answer["sorted"] == (key != "x") and not Path(f"{file}.segments").exists()
        with pagestore.open(file, mode="r") as store:
            assert store.check() == []
            contents.append((answer["rows"], [*store.snapshot()["r"]]))
    assert contents[0] == contents[1] and contents[0][0] == len(rows)


def test_what_spark_refuses(submitted, tmp_path: Path, capsys) -> None:
    folder = write(tmp_path / "job", [(1, "a", None, float("nan"), b"")], 1)
    file = tmp_path / "s.pages"
    for key, says in (("x", "column f is NaN"), ("s", "column f is NaN")):
        assert main.pagestore(["load", str(file), "r", str(folder), "--key", key, "--spark"]) == 1
        err = capsys.readouterr().err
        assert says in err and len(err.splitlines()) == 1 and not file.exists()
    assert (
        main.pagestore(["load", str(file), "r", str(folder), "--key", "x", "--spark", "--append"])
        == 1
    )
    assert "--spark builds a relation whole" in capsys.readouterr().err


# --- killed -------------------------------------------------------------------------------------

DRIVER = """
import sys
from pathlib import Path
import pagestore
from pagestore_tools.loading.load import Spread, load
from tests.support.cluster import HereCluster
file, folder, key = sys.argv[1:]
print("ready", flush=True)
with pagestore.open(file) as store, store.transaction() as txn:
    load(txn, "r", folder, key.split(","), "replace", spread=Spread(HereCluster(3), Path(f"{file}.segments")))
print("done", flush=True)
"""


def _kill_drivers(tmp_path: Path, command: list[str], kills: int, longest: float) -> None:
    """Kill a load at random moments: the store has its old rows or the new ones, and the next
    load finds its way.
    """
    rng = random.Random(kills)
    old = [(x, "old", Decimal(x), None, b"") for x in range(50)]
    new = sorted({row[0]: row for row in random_rows(rng, 6000, faulty=False)}.values())
    first, second = write(tmp_path / "old", old, 1), write(tmp_path / "new", new, 3)
    file = tmp_path / "s.pages"
    struck = number = 0
    while struck < kills:
        number += 1
        words = [*command, str(file), str(second), ("x", "s,x")[number % 2]]
        file.unlink(missing_ok=True)
        with pagestore.open(file) as store, store.transaction() as txn:
            load(txn, "r", first, words[-1].split(","))
        driver = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, start_new_session=True)
        assert driver.stdout is not None
        driver.stdout.readline()
        time.sleep(rng.uniform(0, longest))
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        struck += b"done" not in driver.communicate()[0]  # else it had come to its end
        print("driver", struck, "of", number, flush=True)
        with pagestore.open(file) as store:
            assert store.check() == []
            found = sorted(row[0] for row in store.snapshot()["r"])
            assert found in ([row[0] for row in old], [row[0] for row in new])
        with pagestore.open(file) as store:
            with store.transaction() as txn:
                load(
                    txn,
                    "r",
                    second,
                    (),
                    "replace",
                    spread=Spread(HereCluster(2), Path(f"{file}.segments")),
                )
            assert len(store.snapshot()["r"]) == len(new) and store.check() == []
        assert not Path(f"{file}.segments").exists()
    print(struck, "drivers killed in", number, "loads")


def test_a_driver_that_is_killed_leaves_the_store_as_it_was(tmp_path: Path) -> None:
    _kill_drivers(tmp_path, [sys.executable, "-c", DRIVER], 4, 0.6)


@pytest.mark.campaign
def test_campaign_of_drivers(tmp_path: Path) -> None:
    _kill_drivers(tmp_path, [sys.executable, "-c", DRIVER], POINTS, 0.8)


SPARK_DRIVER = """
import sys
from pathlib import Path
import pagestore
from pagestore_tools.loading.load import Spread, load
from pagestore_tools.spark.session import SparkCluster
from pagestore_tools.spark.session import local_session
file, folder, key = sys.argv[1:]
with local_session("load") as spark:
    print("ready", flush=True)
    with pagestore.open(file) as store, store.transaction() as txn:
        load(txn, "r", folder, key.split(","), "replace", spread=Spread(SparkCluster(spark), Path(f"{file}.segments")))
    print("done", flush=True)
"""


@pytest.mark.campaign
def test_campaign_of_drivers_on_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    _kill_drivers(tmp_path, [sys.executable, "-c", SPARK_DRIVER], POINTS, 5)


class Deadly:
    """A cluster of which a Python worker is killed, or all of them, at a random moment of one of
    its kinds of work.
    """

    def __init__(self, spark: Any, death: Death, work: str) -> None:
        from pagestore_tools.spark.session import SparkCluster

        self.cluster, self.death, self.work, self.passes = SparkCluster(spark), death, work, 0
        self.parallelism = self.cluster.parallelism

    def each(self, task: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        self.passes += 1
        return self.cluster.each(
            self._deadly(task, "texts" if self.passes == 1 else "build"), arguments
        )

    def ranges(
        self, words: Any, arguments: Sequence[Any], columns: int, keys: int, build: Any
    ) -> list[Any]:
        def dying(argument: Any, death: Death = self.death) -> Iterator[np.ndarray]:
            with death:
                yield from words(argument)

        words_ = dying if self.work == "words" else words
        return self.cluster.ranges(words_, arguments, columns, keys, self._deadly(build, "build"))

    def _deadly(self, task: Callable[[Any], Any], work: str) -> Callable[[Any], Any]:
        def dying(argument: Any, death: Death = self.death) -> Any:
            with death:
                return task(argument)

        return dying if work == self.work else task


def _kill_workers(spark, tmp_path: Path, kills: int, everybody: bool) -> None:
    from pagestore_tools.spark.session import SparkCluster

    rng, number = random.Random(kills), 0
    rows = sorted({row[0]: row for row in random_rows(rng, 6000, faulty=False)}.values())
    folder = write(tmp_path / "job", rows, 3)
    while len(struck := [file.suffix for file in tmp_path.glob("*.killed.*")]) < kills:
        number += 1
        work = rng.choice(["texts", "words", "build"])
        key = ["s", "x"] if work == "words" else rng.choice([["x"], ["s", "x"]])
        death = Death(tmp_path / f"{number}.killed.{work}", rng.uniform(0, 0.02), everybody)
        with pagestore.open(tmp_path / f"{number}.pages") as store:
            _loads_or_leaves(
                store, folder, key, Spread(Deadly(spark, death, work), tmp_path / "segments")
            )
            for _ in range(10):  # Spark may hand out a worker that is dead already
                if _loads_or_leaves(
                    store, folder, key, Spread(SparkCluster(spark), tmp_path / "segments")
                ):
                    break
            assert len(store.snapshot()["r"]) == len(rows)
    print(len(struck), "kills in", number, "loads:", Counter(struck))


def _loads_or_leaves(store: pagestore.Store, folder: Path, key: list[str], spread: Spread) -> bool:
    """Whether a load came through; if not, the store is as it was."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    before = store.version
    try:
        with store.transaction() as txn:
            load(txn, "r", folder, () if "r" in txn else key, "replace", spread=spread)
    except (Py4JError, PySparkException):
        assert store.version == before
    assert store.check() == [] and not spread.folder.exists()
    return store.version > before


def test_workers_that_are_killed_leave_the_store_as_it_was(spark, tmp_path: Path) -> None:
    _kill_workers(spark, tmp_path, 2, everybody=True)


@pytest.mark.campaign
@pytest.mark.parametrize("everybody", [False, True], ids=["task", "workers"])
def test_campaign_of_workers(spark, tmp_path: Path, everybody: bool) -> None:
    _kill_workers(spark, tmp_path, POINTS, everybody)
