"""The benchmarks of Spark measure what they say: views that are equal, loads of the same rows,
counted costs.
"""

from pathlib import Path

import pytest

import pagestore

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'")

from benchmarks import cells, files, refresh


def test_refreshed_views_are_those_that_spark_computes(spark, tmp_path: Path) -> None:
    tables = refresh.Tables(tmp_path, 4000)
    assert refresh.refreshed(spark, tables, strict=False) == 0
    tables.change(spark)
    assert refresh.refreshed(spark, tables, strict=True) > 0
    assert all(refresh.recomputed(spark, tables, name) > 0 for name in refresh.SQL)
    counts = refresh.compare(tables)
    assert counts["line"] == 2400 and counts["tri"] > 0


def test_both_load_the_same_rows(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    files.write_ascending(tmp_path / "rows", 1000, 3)
    assert [
        side.run() for side in files.loads(tmp_path / "s.pages", tmp_path / "rows", ["a", "b"])
    ] == [1000, 1000]
    with (
        pagestore.open(tmp_path / "s.pages", mode="r") as store,
        duckdb.connect(str(tmp_path / "s.duckdb")) as other,
    ):
        assert [*store.snapshot()["r"]] == other.execute("select * from r order by a, b").fetchall()


def test_what_a_change_sends_and_cells_keep(tmp_path: Path) -> None:
    edges = cells.random_edges(3000, 16)
    found = {mode: cells.costs(tmp_path / mode, edges, 4, mode) for mode in cells.MODES}
    assert found["probe"].sensitivity_rows == 0 < found["match"].sensitivity_rows
    assert found["probe"].rows == found["match"].rows
    # a change goes home, and from there to all that hold the row
    copies = found["probe"].rows / edges.num_rows
    assert 0.8 * copies < found["probe"].rows_sent < 1.2 * copies
