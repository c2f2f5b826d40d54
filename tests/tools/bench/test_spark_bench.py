"""The benchmarks of Spark measure what they say: views that are equal, loads of the same rows, counted costs."""

from pathlib import Path

import pytest

import pagestore

pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'")

from pagestore_tools.bench import cell_costs, loads, refresh


def test_refreshed_views_are_those_that_spark_computes(spark, tmp_path: Path) -> None:
    tables = refresh.Tables(tmp_path, 4000)
    assert refresh.refreshed(spark, tables, strict=False) == 0
    tables.change()
    assert refresh.refreshed(spark, tables, strict=True) > 0
    refresh.recomputed(spark, tables)
    counts = refresh.compare(tables)
    assert counts["line"] == 2400 and counts["tri"] > 0


def test_both_load_the_same_rows(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    loads.write(tmp_path / "rows", 1000, 3)
    loads.ours(tmp_path / "rows", tmp_path / "s.pages")
    loads.theirs(tmp_path / "rows", tmp_path / "s.duckdb")
    with pagestore.open(tmp_path / "s.pages", mode="r") as store, duckdb.connect(str(tmp_path / "s.duckdb")) as other:
        assert [*store.snapshot()["r"]] == other.execute("select * from r order by a, b").fetchall()


def test_what_a_change_sends_and_cells_keep(tmp_path: Path) -> None:
    edges = cell_costs.random_edges(3000)
    found = {mode: cell_costs.costs(tmp_path / mode, edges, 4, mode) for mode in cell_costs.MODES}
    assert found["probe"].sensitivity_rows == 0 < found["match"].sensitivity_rows
    assert found["probe"].rows == found["match"].rows
    copies = found["probe"].rows / edges.num_rows  # a change goes home, and from there to all that hold the row
    assert 0.8 * copies < found["probe"].rows_sent < 1.2 * copies
