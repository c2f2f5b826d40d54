"""The demo's view over cells, and the counts of cells against what their shares predict."""

from datetime import datetime
from pathlib import Path

import ivm
from benchmarks.cells import count, on_paper
from pagestore_tools.demo.narrator import Narrator
from pagestore_tools.demo.with_spark import over_cells


def test_a_view_over_four_cells_is_that_of_one_store(tmp_path: Path) -> None:
    with ivm.open(":memory:") as workspace:
        workspace.install("""
            flight(t, c, n, p, o, d, m) -> datetime(t), string(c), int(n), string(p), string(o), string(d), int(m).
            maker[p] = name -> string(p), string(name).""")
        with workspace.transaction() as txn:
            txn.insert(
                "flight",
                [
                    (datetime(2013, 1, 1, h), "c", h, "abc"[h % 3], "o", "xy"[h % 2], h)
                    for h in range(20)
                ],
            )
            txn.insert("maker", [("a", "A"), ("b", "B")])
        flights = workspace["flight"].to_arrow()
        gone = flights.slice(0, 5)
        changes = {"flight": gone.append_column("_change_type", [["delete"] * gone.num_rows])}
        assert over_cells(workspace, changes, tmp_path / "c", None, Narrator("demo", quiet=True))


def test_what_cells_hold_is_what_shares_predict(tmp_path: Path) -> None:
    (cells, shares, *counts), _ = count(3000, 8, tmp_path / "c")
    assert (cells, shares) == ("8", "2 2 2")
    predicted, most, _, mean, busiest = (int(one.replace(",", "")) for one in counts)
    assert most < 1.1 * predicted and busiest < 1.2 * mean
    assert on_paper(10**11, 32768, 22.0)[:3] == ("1e+11", "32,768", "32 32 32")
