"""What the commands print, for people and of errors, is as fixtures/golden has it (see the
README there).
"""

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from ivm.__main__ import ivm
from pagestore.__main__ import pagestore

FIXTURES = Path(__file__).parents[1] / "fixtures"
TRANSCRIPTS = sorted((FIXTURES / "golden").glob("*.txt"))
COMMANDS = {"pagestore": pagestore, "ivm": ivm}
DAMAGED = 3 * 4096 + 800


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the commands run in."""
    for name in ("store", "workspace"):
        packed = FIXTURES / "format-2" / f"{name}.pages.zst"
        (tmp_path / f"{name}.pages").write_bytes(zstandard.decompress(packed.read_bytes()))
    content = bytearray((tmp_path / "store.pages").read_bytes())
    content[DAMAGED] ^= 4
    (tmp_path / "damaged.pages").write_bytes(content)
    (tmp_path / "spark").symlink_to(FIXTURES / "spark-parquet")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")  # of usage messages
    return tmp_path


@pytest.fixture
def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[str], list[str]]:
    """Runs a command line; what it printed, as lines of a transcript."""

    def printed(line: str) -> list[str]:
        program, *words = shlex.split(line)
        try:
            code = COMMANDS[program](words)
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = (stable(text, folder) for text in capsys.readouterr())
        lines = [
            *out.splitlines(),
            *(f"! {text}" for text in err.splitlines()),
            *([f"[{code}]"] if code else []),
        ]
        return [f"    {text}".rstrip() for text in lines]

    return printed


def stable(text: str, folder: Path) -> str:
    """A text without what differs from machine to machine and from run to run: folders and
    seconds.
    """
    text = text.replace(f"{folder}/", "").replace(f"{folder.resolve()}/", "")
    return re.sub(r"\b\d+\.\d+ s\b", "0.0 s", text)


def transcript(text: str, run: Callable[[str], list[str]]) -> str:
    """The comments and commands of a transcript, with what the commands print now."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("#", "$ ")):
            lines += [line, *(run(line[2:]) if line[0] == "$" else [])]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_golden(file: Path, run: Callable[[str], list[str]]) -> None:
    expected = file.read_text()
    found = transcript(expected, run)
    assert found.count("$ ") > 0
    if os.environ.get("REWRITE_GOLDEN"):
        file.write_text(found)
    else:
        assert found.splitlines() == expected.splitlines()
