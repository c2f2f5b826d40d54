"""The README's examples are true."""

import doctest
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def test_examples_in_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(README), module_relative=False)
    assert (failed, tried > 0) == (0, True)
