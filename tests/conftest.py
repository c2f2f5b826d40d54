"""What every test may rely on: shared graphs, and no deadline that a first compile would break."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pyarrow.parquet as pq
import pytest

from pagestore.runtime.kernel import TypedKernel
from pagestore.versions import committer, locks
from tests.support.programs.amounts import TIMES, times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
GRAPHS = Path(os.environ.get("PAGESTORE_TEST_DATA", ROOT.parent / "shared" / "data"))

TypedKernel.checking = True  # kernels trust their callers; the tests do not
hypothesis.settings.register_profile("kernels", deadline=None, max_examples=times(50))
hypothesis.settings.load_profile("kernels")


def pytest_configure(config: pytest.Config) -> None:
    """Keep bytecode in a folder of its own where Python may not write it: tests start many
    processes.
    """
    if sys.dont_write_bytecode and "PYTHONPYCACHEPREFIX" not in os.environ:
        folder = tempfile.mkdtemp(prefix="bytecode-")
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        os.environ["PYTHONPYCACHEPREFIX"] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


SLOW = (
    "test_plain_python.py",
    "test_without_spark.py",
    "test_bench.py",
    "test_crash.py",
    "test_processes.py",
)


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow files first, then Spark's on one worker, in one session: so no worker is left
    with one at the end.  What is asked to try more than the suite does
    may take as long as it does.
    """
    for item in items:
        if item.get_closest_marker("campaign") or TIMES > 1:
            item.add_marker(pytest.mark.timeout(0))
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))

    def place(item: pytest.Item) -> int:
        if item.path.name in SLOW:
            return SLOW.index(item.path.name)
        return len(SLOW) + (item.get_closest_marker("xdist_group") is None)

    items.sort(key=place)


DAEMON = """
import sys
if "pyspark.daemon" in sys.orig_argv:  # once, and not in each process that it forks
    import ivm, pyspark.worker
    from pagestore_tools.spark.source import source, write
"""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One Spark session with two threads for all tests; skips where pyspark is not installed."""
    pytest.importorskip(
        "pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'"
    )
    from pagestore_tools.spark.session import local_session

    folder = tmp_path_factory.mktemp("path")  # where Spark looks for sources, whatever is installed
    (folder / "pyspark_pagestore").symlink_to(ROOT / "tools" / "spark" / "found")
    (folder / "sitecustomize.py").write_text(DAEMON)
    with pytest.MonkeyPatch.context() as patch:
        # compiled less well, and sooner
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")
        patch.setenv(
            "PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        )
        with local_session("tests") as session:
            yield session


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep handles from looking again for others after a while, which slow machines would do and
    others not: what tests count is the same on each machine.
    """
    for module in (committer, locks):
        monkeypatch.setattr(module, "LOOK_AGAIN", 3600.0)


@pytest.fixture(scope="session")
def graph() -> Callable[[str], np.ndarray]:
    """`graph("wiki-Vote")` is its edges x < y, sorted, int64[2, n]; skips where the data is not at
    hand.

    The folder is ../shared/data beside the project, or the one that PAGESTORE_TEST_DATA names.
    """

    def edges(name: str) -> np.ndarray:
        file = GRAPHS / f"{name}.parquet"
        if not file.exists():
            pytest.skip(f"no {file}: set PAGESTORE_TEST_DATA to the folder of the graphs")
        table = pq.read_table(file)
        return np.stack([table["x"].to_numpy(), table["y"].to_numpy()])

    return edges
