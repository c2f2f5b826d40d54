"""`ivm sql` and SQL in the shell: rows, files, exit codes and messages."""

import io
from pathlib import Path

import pytest

from pagestore_tools.cli.main import ivm


def run(*words: str) -> int:
    return ivm([*words])


def test_statements_make_a_file_and_print_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "shop.pages")
    assert (
        run(
            "sql",
            file,
            "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER); INSERT INTO t VALUES (1, 2), (3, "
            "NULL)",
        )
        == 0
    )
    assert run("sql", file, "SELECT k, a FROM t ORDER BY k DESC") == 0
    assert capsys.readouterr().out.splitlines()[-4:] == ["k     a", "3  NULL", "1     2", "2 rows"]
    assert run("sql", file, "SELECT a FROM t", "-o", str(tmp_path / "rows.csv")) == 0
    assert (tmp_path / "rows.csv").read_text().splitlines() == ['"a"', "", "2"]


def test_a_mistake_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "shop.pages")
    run("sql", file, "CREATE TABLE t (k INTEGER PRIMARY KEY)")
    assert run("sql", file, "SELECT kk FROM t") == 1
    assert "sql:1:8: no column kk is in these tables: did you mean k?" in capsys.readouterr().err


def test_the_shell_takes_sql(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "CREATE TABLE t (k INTEGER PRIMARY KEY);\nINSERT INTO t\nVALUES (7);\n"
    lines += "q(x) <- t(x), x > 6.\nSELECT k + 1 AS n FROM t;\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    assert run("shell", str(tmp_path / "shop.pages")) == 0
    out = capsys.readouterr().out
    assert "7" in out and "8" in out
