"""The README's examples are true, and the lists of the other documents are complete."""

import doctest
import re
from pathlib import Path

import pytest

from pagestore.admin import check

ROOT = Path(__file__).parents[1]


def test_examples_in_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize("package", ["pagestore", "ivm"])
def test_every_file_stands_in_the_architecture(package: str) -> None:
    text = (ROOT / "docs/architecture.md").read_text().partition(f"## {package}, from the bottom")[2]
    named = set(re.findall(r"`([\w/]+(?:\.py|/))`", text.partition("\n## ")[0]))
    files = {path.name for path in (ROOT / package).glob("[!_]*.py")}
    folders = {f"{path.parent.name}/" for path in (ROOT / package).glob("*/__init__.py")}
    assert named == files | folders


@pytest.mark.parametrize(("document", "mark"), [("architecture.md", "**"), ("format.md", "*")])
def test_every_invariant_is_listed(document: str, mark: str) -> None:
    names = re.findall(r"^    (\w+(?: \w+)?)  +\w", check.__doc__ or "", re.MULTILINE)
    text = (ROOT / "docs" / document).read_text()
    assert len(names) == 14
    assert [name for name in names if f"{mark}{name}{mark}" not in text] == []
