"""The benchmark's own arithmetic: turns, agreement, ratios, reports, limits."""

import gc
import importlib.util
import json
import shutil
from argparse import Namespace
from dataclasses import replace
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import ivm
from benchmarks import counts
from benchmarks.__main__ import WORKS, main
from benchmarks.rules import recursion
from pagestore_tools.bench import views
from pagestore_tools.bench.graphs import Adjacency, adjacency, changes, even, skewed, triangles
from pagestore_tools.bench.harness import (
    BAR,
    MANY,
    Disagreement,
    Result,
    Row,
    Side,
    as_text,
    measure,
    write,
)
from pagestore_tools.bench.meter import Meter
from pagestore_tools.cli.main import ivm as ivm_command
from pagestore_tools.cli.main import pagestore as pagestore_command


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), ([], 2), (["no such work"], 2)])
def test_every_benchmark_is_listed(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(words)
    out, err = capsys.readouterr()
    assert end.value.code == code and "Traceback" not in err
    assert all(name in (err if code else out) for name in WORKS) or not words


def test_sides_take_turns_after_one_untimed_run_each() -> None:
    calls: list[str] = []
    sides = [
        Side(name, lambda name=name: calls.append(name), lambda: calls.append("before"))
        for name in "ab"
    ]
    result = measure(Row("work", sides, rounds=2))
    assert [call for call in calls if call != "before"] == ["a", "b"] * 3
    assert calls.count("before") == 6
    assert {side: len(times) for side, times in result.times.items()} == {"a": 2, "b": 2}


def test_short_work_comes_in_stretches() -> None:
    calls: list[str] = []
    sides = [Side(name, lambda name=name: calls.append(name)) for name in "ab"]
    result = measure(Row("work", sides, rounds=5, stretch=3))
    assert "".join(calls) == "ab" + "aaaabbbb" + "aaabbb"
    assert {side: len(times) for side, times in result.times.items()} == {"a": 5, "b": 5}


def test_turns_look_for_garbage_among_what_is_new_and_leave_nothing_frozen() -> None:
    frozen: list[int] = []
    measure(
        Row(
            "work",
            [Side("a", lambda: None, lambda: frozen.append(gc.get_freeze_count()))],
            rounds=2,
        )
    )
    assert frozen[0] == 0 < min(frozen[1:]) and gc.get_freeze_count() == 0


def test_a_slow_side_of_others_runs_once(monkeypatch) -> None:
    monkeypatch.setattr("pagestore_tools.bench.harness.SLOW_SECONDS", -1.0)
    calls: list[str] = []
    sides = [Side(name, lambda name=name: calls.append(name[0])) for name in ("a", "b", "a, too")]
    result = measure(Row("work", sides, rounds=2))
    assert "".join(calls) == "aba" + "aaaa"
    assert {side: len(times) for side, times in result.times.items()} == {
        "a": 2,
        "b": 1,
        "a, too": 2,
    }


def test_what_a_side_tells_itself_is_not_timed() -> None:
    result = measure(Row("work", [Side("a", lambda: 7.0)], rounds=3, unit="MB", told=True))
    assert result.times == {"a": [7.0] * 3}


def test_things_are_counted_by_the_second() -> None:
    result = measure(
        Row("work", [Side("a", lambda: None)], rounds=1, scale=1e3, things=(10, "edges"))
    )
    assert result.counts["a"]["edges/s"] == round(10 / (result.median("a") / 1e3))


def test_sides_that_disagree_are_not_timed() -> None:
    with pytest.raises(Disagreement, match="ours and theirs differ"):
        measure(Row("work", [Side("ours", lambda: 1), Side("theirs", lambda: 2)]))


def test_reports_hold_medians_ratios_and_counts(tmp_path: Path) -> None:
    result = Result(
        "work", "ms", {"ours": [1.0, 2.0, 9.0], "theirs": [3.0]}, {"ours": {"pages": 7}}
    )
    assert as_text(result).splitlines()[1].split() == [
        "ours",
        "2.00",
        "ms",
        "x",
        "1.00",
        "1.00",
        "to",
        "9.00",
        BAR,
    ]
    assert as_text(result).splitlines()[2].strip() == "pages 7"
    assert as_text(result).splitlines()[3].split() == ["theirs", "3.00", "ms", "x", "1.50", 2 * BAR]
    data, page = write([result], "bench", tmp_path, "<a graph>")
    (row,) = json.loads(data.read_text())["rows"]
    assert row["medians"] == {"ours": 2.0, "theirs": 3.0}
    assert row["ratios"] == {"ours": 1.0, "theirs": 1.5}
    # one for the fastest, and 8 more for ten times as long
    assert page.read_text().count(BAR) == 1 + 2
    assert "&lt;a graph&gt;" in page.read_text()


def test_the_99th_percentile_needs_many_times() -> None:
    result = Result("work", "ms", {"many": [*map(float, range(101))], "few": [1.0] * (MANY - 1)})
    assert result.percentile("many") == 99.0
    assert result.percentile("few") is None
    assert "99 % within 99.0" in as_text(result)


def test_the_limit_lists_all_triangles(graph) -> None:
    found = triangles(*adjacency(graph("ego-Facebook")))
    assert len(np.unique(found, axis=0)) == len(found) == 1_612_010


@pytest.mark.parametrize("batch", [1, 100])
def test_changes_take_out_what_is_there_and_put_back_what_is_not(batch: int) -> None:
    edges = even(1000)
    there = {*zip(*edges.tolist(), strict=True)}
    for gone, new in islice(changes(edges, batch), 50):
        out, back = ({*zip(*part.tolist(), strict=True)} for part in (gone, new))
        assert out <= there
        assert not back & there
        assert len(out) + len(back) in ((1,) if batch == 1 else (50, 100))
        there = (there - out) | back


@pytest.mark.parametrize("batch", [1, 100])
def test_the_limit_follows_changes(batch: int) -> None:
    edges = skewed(150)
    limit = Adjacency(edges)
    there = {*zip(*edges.tolist(), strict=True)}
    for gone, new in islice(changes(edges, batch), 20):
        limit.change(gone, new)
        there = (there - {*zip(*gone.tolist(), strict=True)}) | {*zip(*new.tolist(), strict=True)}
        assert limit.triangles == len(triangles(*adjacency(np.array(sorted(there)).T)))


def test_a_meter_counts_what_happens_and_leaves_no_trace(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "m.pages", sync="full") as workspace:
        workspace.install("edge(x, y) -> int(x), int(y).")
        file = workspace.store._handle.file
        before = file.pwrite, file.write_pages, file.wrote, file.fdatasync
        with Meter(workspace.store) as meter, workspace.transaction() as txn:
            txn.insert("edge", [(1, 2)])
        assert meter.counts["syncs"] == 2
        assert meter.counts["pages written"] >= 2  # the leaf, and the commit's record
        assert meter.counts["bytes"] >= meter.counts["pages written"] * workspace.store.page_size
        assert meter.counts["kernel calls"] >= 1
        assert (file.pwrite, file.write_pages, file.wrote, file.fdatasync) == before
        with Meter(workspace.store) as meter:
            pass
        assert set(meter.counts.values()) == {0}


def short(row: Row) -> Row:
    return replace(row, rounds=1 if row.told else min(row.rounds, 2), stretch=1)


@pytest.fixture
def alone(monkeypatch) -> None:
    """As where none of the optional peers is installed, on small graphs and few keys, with two
    turns a side.
    """
    bench = "pagestore_tools.bench"
    monkeypatch.setattr(
        f"{bench}.harness.measure", lambda row, progress: measure(short(row), progress)
    )
    monkeypatch.setattr(
        f"{bench}.views.run", replace(views.WORK, graph=lambda vertices: skewed(vertices // 4)).run
    )
    monkeypatch.setattr(f"{bench}.views.even", lambda edges: even(edges // 10))
    monkeypatch.setattr(f"{bench}.upkeep.WARMING", 8)
    for name, number in (("KEYS", 5_000), ("SINGLES", 500), ("COUNTED", 2)):
        monkeypatch.setattr(f"{bench}.store.{name}", number)
    monkeypatch.setattr(f"{bench}.store.SUMS", 20)
    found, peers = importlib.util.find_spec, {"duckdb", "lmdb", "polars"}
    monkeypatch.setattr(
        "importlib.util.find_spec",
        lambda name, *more: None if name in peers else found(name, *more),
    )


@pytest.mark.parametrize(
    ("command", "rows", "counted"),
    [
        (
            ivm_command,
            15,
            {"operations", "pages read", "pages written", "bytes", "syncs", "kernel calls"},
        ),
        (pagestore_command, 11, {"bytes", "bytes/row", "writes", "syncs"}),
    ],
)
def test_the_quick_benchmark_measures_every_row(
    command, rows, counted, alone, tmp_path: Path, capsys
) -> None:
    assert command(["bench", "--quick", "--quiet", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    (data,) = tmp_path.glob("*.json")
    measured = json.loads(data.read_text())["rows"]
    assert len(measured) == rows
    for row in measured:
        assert row["row"] in said
        assert all(median > 0 for median in row["medians"].values())
    assert counted <= {name for row in measured for side in row["counts"].values() for name in side}
    assert data.with_suffix(".html").read_text().count(BAR) >= rows


def test_a_row_of_a_benchmark_needs_none_before_it(alone, capsys) -> None:
    assert ivm_command(["bench", "--quick", "--quiet", "--only", "first answer"]) == 0
    assert "kernels cached" in capsys.readouterr().out
    assert ivm_command(["bench", "--quick", "--quiet", "--only", "first answer", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["rows"]) == 1 and "edges" in found["about"] and found["machine"]["python"]


def test_recursive_programs_have_the_answers_of_their_peers(tmp_path) -> None:
    for row in recursion(tmp_path, Namespace(size=20, graph=skewed(30))):
        measure(replace(row, rounds=1))


@pytest.mark.parametrize(
    "work", ["aggregates", "files", "ranges", "scans", "shapes", "sql", "texts"]
)
def test_other_benchmarks_measure_a_few_rows(work: str, monkeypatch, capsys) -> None:
    monkeypatch.setattr(
        "pagestore_tools.bench.harness.measure", lambda row, progress: measure(short(row), progress)
    )
    assert main([work, "--rows", "500", "--quiet"]) == 0
    assert " x 1.00" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("work", "lines"),
    [("counts", 5), ("recursion_counts", 3), ("upkeep_counts", 3)],
    ids=lambda one: str(one),
)
def test_counts_are_drawn(work: str, lines: int, tmp_path: Path) -> None:
    assert main([work, str(tmp_path / "drawn.svg"), "--largest", "4"]) == 0
    text = (tmp_path / "drawn.svg").read_text()
    drawn = ElementTree.fromstring(text)
    kinds = [part.tag.partition("}")[2] for part in drawn]
    bands = sum(part.get("class", "").startswith("band") for part in drawn)
    assert (kinds.count("polyline"), bands, kinds.count("title")) == (lines, lines, 1)
    said = " ".join(part.text or "" for part in drawn)
    assert "operations" in said and "quartiles" in said and ("edges" in said or "records" in said)
    assert "@media (prefers-color-scheme: dark)" in text


def test_one_command_draws_every_picture_of_the_documents(tmp_path: Path) -> None:
    assert main(["pictures", str(tmp_path), "--largest", "3"]) == 0
    docs = Path(__file__).parents[3] / "docs"
    there = {file.name for file in docs.glob("*.svg") if not file.name.startswith("proof-")}
    assert {file.name for file in tmp_path.iterdir()} == there


def test_maintenance_does_not_grow_with_the_data(tmp_path: Path) -> None:
    """What the picture promises: one edge costs the same in ten times the data, which costs ten
    times as much anew.
    """
    small, large = (counts.of_upkeep(edges, tmp_path) for edges in (1000, 10_000))
    assert large["evaluated anew"].middle > 8 * small["evaluated anew"].middle
    assert large["maintained after one edge"].middle < 2 * small["maintained after one edge"].middle


def test_each_benchmark_tells_its_options(capsys) -> None:
    for work, (_, _, summary) in WORKS.items():
        with pytest.raises(SystemExit, match="0"):
            main([work, "--help"])
        assert summary in " ".join(capsys.readouterr().out.split())


@pytest.mark.skipif(shutil.which("cc") is None, reason="syncs of a given length need cc")
def test_writers_wait_for_syncs_of_the_length_that_is_said(monkeypatch, capsys) -> None:
    monkeypatch.setattr(
        "pagestore_tools.bench.harness.measure", lambda row, progress: measure(short(row), progress)
    )
    row = "durable rows of 8 threads, syncs of 1.0 ms"
    assert main(["small", "--quick", "--only", row, "--json", "--quiet"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["rows"]
    assert found["counts"].keys() >= {"pagestore", "pagestore, prepared", "SQLite"}
    for said in found["counts"].values():
        assert 1.0 <= said["p50 ms"] <= said["p99 ms"] <= said["p99.9 ms"]
    # threads share syncs
    assert found["medians"]["pagestore, prepared"] > 1100


def test_the_letters_of_a_text_are_typed(monkeypatch, capsys) -> None:
    monkeypatch.setattr(
        "pagestore_tools.bench.harness.measure", lambda row, progress: measure(short(row), progress)
    )
    assert main(["small", "--quick", "--only", "a keystroke", "--quiet"]) == 0
    assert "a keystroke in a text of 3,000 letters" in capsys.readouterr().out
