"""Imports run one way: the contracts of pyproject.toml hold."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
cli = pytest.importorskip("importlinter.cli")


def test_import_contracts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert cli.lint_imports(cache_dir=None) == cli.EXIT_STATUS_SUCCESS


@pytest.mark.parametrize("package", ["ivm", "pagestore"])
def test_every_file_and_folder_is_on_a_layer(package: str) -> None:
    """So that what is new is put on one: the contracts are exhaustive, and here is what they say."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one.get("containers") == [package]]
    assert contract["exhaustive"]
    layers = {name.strip() for layer in contract["layers"] for name in re.split(r"[|:]", layer)}
    folder = ROOT / package
    files = {file.stem for file in folder.glob("[!_]*.py")}
    assert layers == files | {file.parent.name for file in folder.glob("*/__init__.py")}
