"""The demo's tables: pyarrow and Spark keep the same rows, in the same order, and count the
same.
"""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from pagestore_tools.demo.flights import Choice, Table, prepare, table
from pagestore_tools.loading.manifest import read_manifest, verify

RAW = """day,who,mph,left
2,b,10.5,NA
2,a,1.0,700
1,z,3.25,NA
2,a,1.0,700
3,NA,1.0,700
4,c,1048.0,700
9,d,2.0,700
"""
EARLY = Choice("try_cast(day as int) <= 4", pc.field("day") <= 4, ("day",))
COLUMNS = {"who": ("who", "string"), "day": ("day", "int64"), "mph": ("mph", "float64")}
WIND = table("wind", "raw.csv", ("who", "day"), EARLY, ("0", "200"), **COLUMNS)
COUNTS = {
    "raw": 7,
    "unwanted": 1,
    "dropped": 1,
    "quarantined": 1,
    "duplicates": 1,
    "conflicts": 0,
    "kept": 3,
}


def raw_rows(folder: Path, table: Table) -> list[tuple]:
    return [tuple(row.values()) for row in pq.read_table(folder / table.name).to_pylist()]


def test_pyarrow_and_spark_make_the_same_table(spark, tmp_path: Path) -> None:
    from pagestore_tools.spark import prepare as with_spark

    (tmp_path / "raw.csv").write_text(RAW)
    for out, report in (
        ("arrow", prepare(WIND, tmp_path, tmp_path / "arrow")),
        ("spark", with_spark.prepare(spark, WIND.within(tmp_path), tmp_path / "spark")),
    ):
        assert COUNTS.items() <= asdict(report).items()
        assert raw_rows(tmp_path / out, WIND) == [("a", 2, 1.0), ("b", 2, 10.5), ("z", 1, 3.25)]
        manifest = read_manifest(tmp_path / out / "wind")
        assert manifest is not None and manifest.key == ("who", "day")
        verify(tmp_path / out / "wind", manifest)


def test_only_rows_that_lack_a_value(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(RAW)
    lacking = Choice("left is null", pc.field("left").is_null(), ("left",))
    stayed = table("stayed", "raw.csv", ("who",), lacking, who=("who", "string"))
    assert prepare(stayed, tmp_path, tmp_path).kept == 2
    assert raw_rows(tmp_path, stayed) == [("b",), ("z",)]


def test_the_demo_begins_where_spark_is_not_installed() -> None:
    script = (
        "import pagestore, sys; sys.modules['pyspark'] = None; import pagestore_tools.demo.demo"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
