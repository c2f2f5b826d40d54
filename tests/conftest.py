"""What every test may rely on: shared graphs, and no deadline that a first compile would break."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import numpy as np
import pyarrow.parquet as pq
import pytest

from pagestore.runtime.kernel import TypedKernel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
GRAPHS = Path(os.environ.get("PAGESTORE_TEST_DATA", ROOT.parent / "shared" / "data"))

TypedKernel.checking = True  # kernels trust their callers; the tests do not
hypothesis.settings.register_profile("kernels", deadline=None)
hypothesis.settings.load_profile("kernels")


SLOW = ("test_plain_python.py", "test_without_spark.py", "test_bench.py", "test_crash.py", "test_processes.py")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow files first, so that no worker is left with one at the end; Spark's on one worker, in one session."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))
    items.sort(key=lambda item: SLOW.index(item.path.name) if item.path.name in SLOW else len(SLOW))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """One Spark session with two threads for all tests; skips where pyspark is not installed."""
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'")
    from pagestore_tools.spark.session import local_session

    folder = tmp_path_factory.mktemp("path")  # where Spark looks for sources, whatever is installed
    (folder / "pyspark_pagestore").symlink_to(ROOT / "tools" / "spark" / "found")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # compiled less well, and sooner
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])))
        with local_session("tests") as session:
            yield session


@pytest.fixture(scope="session")
def graph() -> Callable[[str], np.ndarray]:
    """`graph("wiki-Vote")` is its edges x < y, sorted, int64[2, n]; skips where the data is not at hand.

    The folder is ../shared/data beside the project, or the one that PAGESTORE_TEST_DATA names.
    """

    def edges(name: str) -> np.ndarray:
        file = GRAPHS / f"{name}.parquet"
        if not file.exists():
            pytest.skip(f"no {file}: set PAGESTORE_TEST_DATA to the folder of the graphs")
        table = pq.read_table(file)
        return np.stack([table["x"].to_numpy(), table["y"].to_numpy()])

    return edges
