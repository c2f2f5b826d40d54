"""Imports run one way: the contracts of pyproject.toml hold."""

from pathlib import Path

import pytest

cli = pytest.importorskip("importlinter.cli")


def test_import_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[1])
    assert cli.lint_imports(cache_dir=None) == cli.EXIT_STATUS_SUCCESS
