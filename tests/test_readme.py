"""The README's examples are true, and the lists of the other documents are complete."""

import doctest
import re
import shlex
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ivm.__main__ import ivm
from pagestore.__main__ import pagestore
from pagestore.admin import check

ROOT = Path(__file__).parents[1]


SHOP = {  # the files of the new user's way
    "monday.csv": "customer,day,amount\nada,2026-01-05,12.50\nbob,2026-01-05,3.00\neve,2026-01-05,8.00\n",
    "tuesday.csv": "customer,day,amount\nada,2026-01-06,7.25\nbob,2026-01-06,9.00\n",
    "corrected.csv": "customer,day,amount\nbob,2026-01-05,4.00\n",
    "gone.csv": "customer\neve\n",
}


def test_examples_in_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of a new user's way run first, since an example reads what they make."""
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pandas")
    way = (ROOT / "README.md").read_text().partition("## Your own files")[2].partition("\n## ")[0]
    rules, commands = re.findall(r"^```(?:sh)?\n(.*?)^```$", way, re.MULTILINE | re.DOTALL)
    for name, text in {**SHOP, "shop.logiql": rules}.items():
        (tmp_path / name).write_text(text)
    for line in commands.splitlines():
        program, *words = shlex.split(line, comments=True)
        assert {"pagestore": pagestore, "ivm": ivm}[program](words) == 0, line
    assert pq.read_table("total.parquet").column_names == ["customer", "t"]
    failed, tried = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert (failed, tried > 0) == (0, True)


def test_examples_of_rows_in_and_out() -> None:
    failed, tried = doctest.testfile(str(ROOT / "docs" / "in-and-out.md"), module_relative=False)
    assert (failed, tried > 0) == (0, True)


def test_answers_to_old_questions() -> None:
    failed, tried = doctest.testfile(str(ROOT / "docs" / "answers.md"), module_relative=False)
    assert (failed, tried > 0) == (0, True)


ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()


def layers(package: str) -> dict[str, set[str]]:
    """The files that the architecture's table names for each layer of a package; `top` is the package itself."""
    rows = re.findall(r"^\| (.*?) \|(.*)$", ARCHITECTURE.partition(f"## {package}, from the bottom")[2], re.MULTILINE)
    end = next(i for i, (layer, _) in enumerate(rows) if layer == "top") + 1
    return {layer.strip("`/"): set(re.findall(r"`(\w+\.py)`", files)) for layer, files in rows[1:end]}


@pytest.mark.parametrize("package", ["pagestore", "ivm"])
def test_every_file_stands_in_the_architecture(package: str) -> None:
    folder = ROOT / package
    there = {
        layer.name: {file.name for file in layer.rglob("[!_]*.py")}
        for layer in folder.iterdir()
        if (layer / "__init__.py").exists()
    }
    there["top"] = {file.name for file in folder.glob("[!_]*.py")}
    assert layers(package) == there


def test_files_that_the_architecture_leads_to_are_there() -> None:
    """Each path in backticks is a file, within a package or from the root; what a question leads to stands in it."""
    paths = re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", ARCHITECTURE)
    assert len(paths) > 50
    tops = (ROOT, ROOT / "pagestore", ROOT / "ivm")
    assert [path for path in paths if not any((top / path).exists() for top in tops)] == []
    table = ARCHITECTURE.partition("## Where to look")[2].partition("\n## ")[0]
    questions = re.findall(r"^\| [^|]+\? \| `([\w/]+\.py)` \| ([^|]+) \|$", table, re.MULTILINE)
    assert len(questions) >= 9
    for path, answer in questions:
        for name in re.findall(r"`(\w+)`", answer):
            assert re.search(rf"(def|class) {name}\b", (ROOT / path).read_text()), f"{path} has no {name}"


@pytest.mark.parametrize(("document", "mark"), [("architecture.md", "**"), ("format.md", "*")])
def test_every_invariant_is_listed(document: str, mark: str) -> None:
    names = re.findall(r"^    (\w+(?: \w+)?)  +\w", check.__doc__ or "", re.MULTILINE)
    text = (ROOT / "docs" / document).read_text()
    assert len(names) == 15
    assert [name for name in names if f"{mark}{name}{mark}" not in text] == []
