"""The benchmark's own arithmetic: turns, agreement, ratios, reports."""

import json
from pathlib import Path

import numpy as np
import pytest

from pagestore_tools.bench.measure import Disagreement, Result, Row, Side, measure
from pagestore_tools.bench.report import as_text, write


def test_sides_take_turns_after_one_untimed_run_each() -> None:
    calls: list[str] = []
    sides = [
        Side(name, lambda name=name: calls.append(name), lambda: calls.append("before")) for name in "ab"
    ]
    result = measure(Row("work", sides, rounds=2))
    assert [call for call in calls if call != "before"] == ["a", "b"] * 3
    assert calls.count("before") == 6
    assert {side: len(times) for side, times in result.times.items()} == {"a": 2, "b": 2}


def test_sides_that_disagree_are_not_timed() -> None:
    with pytest.raises(Disagreement, match="ours and theirs differ"):
        measure(Row("work", [Side("ours", lambda: 1), Side("theirs", lambda: 2)]))


def test_reports_hold_medians_and_ratios(tmp_path: Path) -> None:
    result = Result("work", "ms", {"ours": [1.0, 2.0, 9.0], "theirs": [3.0]}, {"ours": {"pages": 7}})
    assert "x 1.50" in as_text(result).splitlines()[2]
    data, page = write([result], "bench", tmp_path)
    assert json.loads(data.read_text())["rows"][0]["medians"] == {"ours": 2.0, "theirs": 3.0}
    assert page.read_text().count("<rect") == 2


def test_the_limit_lists_all_triangles(graph) -> None:
    from pagestore_tools.bench.merge import adjacency, triangles

    found = triangles(*adjacency(graph("ego-Facebook")))
    assert len(np.unique(found, axis=0)) == len(found) == 1_612_010
