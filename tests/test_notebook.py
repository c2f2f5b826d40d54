"""The notebook: it runs from beginning to end, reacts, and asks what the tutorial asks."""

import ast
import os
import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "dashboard.py"
marimo = pytest.importorskip("marimo", reason="the notebook is one of marimo")


def squeezed(text: str) -> str:
    """A text with one space for any number."""
    return " ".join(text.split())


def of_the_tutorial() -> dict[str, tuple[str, str]]:
    """The questions of the tutorial, each in SQL and in rules."""
    found = {}
    text = (ROOT / "docs" / "tutorial.md").read_text()
    for title, body in re.findall(
        r"^### \d+\. (.*?)\n(.*?)(?=^###? )", text, re.MULTILINE | re.DOTALL
    ):
        lines = [line[4:] for line in body.splitlines() if line.startswith((">>> ", "... "))]
        call = ast.parse("\n".join(lines)).body[0].value
        found[title] = tuple(squeezed(ast.literal_eval(argument)) for argument in call.args)
    return found


def test_it_asks_what_the_tutorial_asks() -> None:
    cell = re.search(r"asked = (\{.*?^    \})", NOTEBOOK.read_text(), re.MULTILINE | re.DOTALL)
    asked = {title: tuple(map(squeezed, pair)) for title, pair in ast.literal_eval(cell[1]).items()}
    assert len(asked) == 12
    assert asked == of_the_tutorial()


def test_it_runs_as_a_script(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(NOTEBOOK)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "12 questions, the same in SQL and in rules; good: Ada, Bob, Cem" in done.stdout
    assert 'good("Bob") is in version' in done.stdout
    assert not [*tmp_path.iterdir()]


def test_it_reacts_to_what_is_edited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the mugs Bob is not good, and it says what is missing."""
    spec = spec_from_file_location("dashboard", NOTEBOOK)
    notebook = module_from_spec(spec)
    spec.loader.exec_module(notebook)
    slider = marimo.ui.slider
    monkeypatch.setattr(
        marimo.ui, "slider", lambda *ends, value, label: slider(*ends, value=0, label=label)
    )
    _, defined = notebook.app.run()
    assert defined["good"] == ["Ada", "Cem"]
    assert defined["why"].startswith('good("Bob") is not in version')
