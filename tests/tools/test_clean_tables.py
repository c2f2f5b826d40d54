"""Raw CSV to sorted Parquet: pyarrow and Spark keep the same rows, in the same order."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from pagestore_tools.loading.clean_tables import Counts, Table, write_sorted

RAW = """day,who,mph,left
2,b,10.5,NA
2,a,1.0,700
1,z,3.25,NA
2,a,1.0,700
3,NA,1.0,700
4,c,1048.0,700
9,d,2.0,700
"""
WIND = {"who": ("who", "string"), "day": ("day", "bigint"), "mph": ("mph", "double")}


def test_pyarrow_types_cleans_and_sorts(tmp_path: Path) -> None:
    _check(write_sorted, tmp_path)


def test_spark_types_cleans_and_sorts(spark, tmp_path: Path) -> None:
    from pagestore_tools.spark import pipeline

    _check(partial(pipeline.write_sorted, spark), tmp_path)


def _check(write: Callable[[Table, Path, Path], Counts], folder: Path) -> None:
    (folder / "raw.csv").write_text(RAW)
    table = Table("wind", "raw.csv", WIND, ("who", "day"), bounds={"mph": (0, 200), "day": (1, 4)})
    assert write(table, folder, folder) == Counts(raw=7, kept=3)
    rows = [tuple(row.values()) for row in pq.read_table(folder / "wind").to_pylist()]
    assert rows == [("a", 2, 1.0), ("b", 2, 10.5), ("z", 1, 3.25)]


def test_only_rows_that_lack_a_value(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(RAW)
    table = Table("stayed", "raw.csv", {"who": ("who", "string")}, ("who",), missing="left")
    assert write_sorted(table, tmp_path, tmp_path) == Counts(raw=7, kept=2)
    assert pq.read_table(tmp_path / "stayed")["who"].to_pylist() == ["b", "z"]
