"""The README's examples are true, and the lists of the other documents are complete."""

import datetime
import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from pagestore.admin import check
from pagestore_tools.cli import main

ROOT = Path(__file__).parents[1]


def test_examples_in_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new user pastes the blocks of shell commands first, since an example reads what they
    make.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{new_machine(tmp_path)}{os.pathsep}/usr/bin{os.pathsep}/bin")
    pytest.importorskip("pandas")
    beginning, _, rest = (ROOT / "README.md").read_text().partition("## Your own files")
    pasted = blocks(beginning)[:1] + blocks(rest.partition("\n## ")[0])
    done = subprocess.run(["bash", "-e"], input="".join(pasted), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (
        re.search(r"^bob +13.00$", done.stdout, re.MULTILINE)
        and 'paid["bob", #2026-01-06#] = 9.00' in done.stdout
    )
    failed, tried = doctest.testfile(
        str(ROOT / "README.md"), module_relative=False, globs={"Decimal": Decimal}
    )
    assert (failed, tried > 0) == (0, True)


def test_the_commands_of_branches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each, in this process: a line of shell is a command, and what is done if it fails."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/branches.md").read_text()
    for line in "".join(blocks(text)).splitlines():
        (program, *arguments), *otherwise = (shlex.split(part) for part in line.split("||"))
        if program == "cp":
            shutil.copy(*arguments)
            continue
        code = {"ivm": main.ivm, "pagestore": main.pagestore}[program](arguments)
        assert (code != 0) == bool(otherwise), line
    out, err = capsys.readouterr()
    assert "sale: 3 new, 0 removed\nturnover: 1 new, 1 removed\nnothing is stored" in out
    assert "conflicts in 1 row" in err
    assert re.search(r"^east +700 *\nnorth +400 *\nsouth +250 *\nwest +10 *\n", out, re.MULTILINE)


def blocks(text: str) -> list[str]:
    """Return the blocks of shell commands in a text."""
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def new_machine(folder: Path) -> Path:
    """A folder with a python3 whose virtual environment has the two commands, by this Python
    over these sources.
    """
    bin_, made = folder / "bin", folder / "made"
    bin_.mkdir(), made.mkdir()
    run = f"PYTHONPATH='{ROOT}' exec '{sys.executable}' -m"
    scripts = {bin_ / "python3": f"mkdir -p .venv && cp -r '{made}' .venv/bin",
        made / "pip": "exit 0",
               made / "activate": 'PATH="$PWD/.venv/bin:$PATH"', made / "ivm": f'{run} ivm "$@"',
               made / "pagestore": f'{run} pagestore "$@"'}  # fmt: skip
    for path, text in scripts.items():
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    return bin_


def test_examples_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    known = {"datetime": datetime, "Decimal": Decimal}
    failed, tried = doctest.testfile(
        str(ROOT / "docs" / "tutorial.md"), module_relative=False, globs=known
    )
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize("page", ["in-and-out", "answers", "how-to", "proof", "sql"])
def test_examples_of_a_page(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where they write
    failed, tried = doctest.testfile(str(ROOT / "docs" / f"{page}.md"), module_relative=False)
    assert (failed, tried > 0) == (0, True)


RUN_BY = {  # the pages with examples, each with the test that runs them
    "CONTRIBUTING.md": "",  # what developers run
    "README.md": "tests/test_readme.py",
    "docs/answers.md": "tests/test_readme.py",
    "docs/branches.md": "tests/test_readme.py",
    "docs/cells.md": "tests/ivm/spark/test_docs.py",
    "docs/coming-from/cozo.md": "tests/ivm/lang/test_docs.py",
    "docs/coming-from/ddlog.md": "tests/ivm/lang/test_docs.py",
    "docs/coming-from/duckdb.md": "tests/ivm/lang/test_docs.py",
    "docs/coming-from/logiql.md": "tests/ivm/lang/test_docs.py",
    "docs/coming-from/souffle.md": "tests/ivm/lang/test_docs.py",
    "docs/embedding.md": "tests/pagestore/test_embedding.py",
    "docs/how-to.md": "tests/test_readme.py",
    "docs/sql.md": "tests/test_readme.py",
    "docs/in-and-out.md": "tests/test_readme.py",
    "docs/index.md": "tests/test_readme.py",
    "docs/mcp.md": "",  # an agent's configuration
    "docs/performance.md": "",  # benchmarks of an hour
    "docs/prepare.md": "tests/spark/test_docs.py",
    "docs/proof.md": "tests/test_readme.py",
    "docs/reliability.md": "",  # campaigns of hours
    "docs/rules.md": "tests/ivm/lang/test_docs.py",
    "docs/spark.md": "tests/spark/test_docs.py",
    "docs/tutorial.md": "tests/test_readme.py",
    "docs/web-service.md": "tests/ivm/transactions/test_web_service.py",
}


def test_every_page_with_examples_has_a_test_that_runs_them() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    shown = {
        page for page in pages if re.search(r"^(```\w| *>>> )", page.read_text(), re.MULTILINE)
    }
    names = {str(page.relative_to(ROOT)) for page in shown if "decisions" not in page.parts}
    assert names - {"CHANGELOG.md"} == {*RUN_BY}
    for page, test in RUN_BY.items():
        stem = Path(page).parent.name if "coming-from" in page else Path(page).stem
        assert not test or stem in (ROOT / test).read_text(), page


def test_the_example_of_the_home_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/index.md").read_text(), re.DOTALL)
    names: dict = {}
    exec(program, names)
    with names["ws"] as ws:
        assert list(ws["total"]) == [("ada", 1250), ("bob", 300)]


ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()


def layers(package: str) -> dict[str, set[str]]:
    """The files that the architecture names for each layer of a package; `top` is the package
    itself.
    """
    part = ARCHITECTURE.partition(f"## {package}, from the bottom")[2].partition("\n## ")[0]
    items = re.findall(r"^- \*\*`?(\w+)/?`?\*\*(.*(?:\n  .*)*)", part, re.MULTILINE)
    return {layer: set(re.findall(r"`(\w+\.py)`", files)) for layer, files in items}


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
    """Each path in backticks is a file, within a package or from the root; what a question leads
    to stands in it.
    """
    paths = re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", ARCHITECTURE)
    assert len(paths) > 50
    tops = (ROOT, ROOT / "pagestore", ROOT / "ivm")
    assert [path for path in paths if not any((top / path).exists() for top in tops)] == []
    table = ARCHITECTURE.partition("## Where to look")[2].partition("\n## ")[0]
    questions = re.findall(r"^\| [^|]+\? \| `([\w/]+\.py)` \| ([^|]+) \|$", table, re.MULTILINE)
    assert len(questions) >= 9
    for path, answer in questions:
        for name in re.findall(r"`(\w+)`", answer):
            assert re.search(rf"(def|class) {name}\b", (ROOT / path).read_text()), (
                f"{path} has no {name}"
            )


@pytest.mark.parametrize(("document", "mark"), [("architecture.md", "**"), ("format.md", "*")])
def test_every_invariant_is_listed(document: str, mark: str) -> None:
    names = re.findall(r"^    (\w+(?: \w+)?)  +\w", check.__doc__ or "", re.MULTILINE)
    text = (ROOT / "docs" / document).read_text()
    assert len(names) == 15
    assert [name for name in names if f"{mark}{name}{mark}" not in text] == []
