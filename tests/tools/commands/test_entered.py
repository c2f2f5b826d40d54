"""What is entered: SQL or rules, and where it ends."""

import io
from pathlib import Path

import pytest

from pagestore_tools.cli.entered import is_sql, is_whole, meant
from pagestore_tools.cli.main import ivm


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1;",
        "select\n1;",
        "SELECT 1; -- one",
        "SELECT ';' ;",
        "SELECT 'it''s';",
        "-- all\nSELECT 1;",
        "/* a; b */ SELECT 1;",
        "(SELECT 1) UNION SELECT 2;",
        "VALUES (1, 2), (3, 4);",
        "SELECT (1) AS a;",
        "SELECT(1);",
        "SELECT [1, 2];",
        "WITH a AS (SELECT 1) FROM a;",
        "SELECT '// not a comment';",
        "SELECT 7 // 2;",
        "COMMIT;",
        "SELECT '--';",
        'SELECT "a;b" FROM t;',
        "INSERT INTO t VALUES (1, 'a.');",
        "SELECT j -> '$.a' FROM t;",
        "SELECT (j -> 'a') FROM t;",
        "SELECT ((1) + 2) * 3;",
        "SELECT /* once */ 1 /* twice */;",
    ],
)
def test_sql_ends_with_a_semicolon(text: str) -> None:
    assert is_sql(text) and is_whole(text)
    end = text.rindex(";")
    assert not is_whole(text[:end])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'a;",
        "SELECT 'it''s;",
        'SELECT "a;',
        "SELECT 1 /* not;",
        "SELECT 1 -- not;",
        "SELECT 1.",
        "SELECT '--;",
        "SELECT 1; SELECT 2",
    ],
)
def test_sql_that_is_not_ended(text: str) -> None:
    assert is_sql(text) and not is_whole(text)


@pytest.mark.parametrize(
    "text",
    [
        "p(x) <- q(x).",
        "+edge(1, 2). -edge(3, 4).",
        "p(x) <- q(x). // note",
        "// note\np(x) <- q(x).",
        "values(1).",
        "show[x] = y <- f[x] = y.",
        "select(x), with(x) <- p(x).",
        "`order line`[x] = y <- p(x, y).",
        'p("a;") <- q(x).',
        '^price["tea"] = 3.50.',
        "select[x, y] = (a, b) <- p(x, y, a, b).",
        "p(x) -> int(x). /* end */",
        "with(x) -> int(x).",
        'p(x) <- q(x), s = "// no comment".',
    ],
)
def test_rules_end_with_a_full_stop(text: str) -> None:
    assert not is_sql(text) and is_whole(text) and meant(text) == ""


@pytest.mark.parametrize(
    "text", ["p(x) <- q(x);", "p(x) <- q(x) ;\n", "+edge(1, 2)", 'p("a.', "p(x) <- q(x) // ."]
)
def test_rules_that_are_not_ended(text: str) -> None:
    assert not is_sql(text) and not is_whole(text)


@pytest.mark.parametrize(
    "text, word",
    [
        ("selec 1;", "SELECT"),
        ("selec * FROM t;", "SELECT"),
        ("uppdate t set x = 1;", "UPDATE"),
        ("insrt into t values (1);", "INSERT"),
        ("creat table t (k int);", "CREATE"),
        ("comitt;", "COMMIT"),
        ("xyzzy 1;", ""),
    ],
)
def test_a_word_that_is_misspelt_ends_too(text: str, word: str) -> None:
    assert not is_sql(text) and is_whole(text) and meant(text) == word


def test_a_script_goes_on_after_what_is_misspelt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("selec 1;\nxyzzy 1;\n-- next\nSELECT 7 AS n; -- seven\n")
    )
    assert ivm(["shell", str(tmp_path / "s.pages")]) == 1
    said = capsys.readouterr()
    assert "did you mean SELECT?" in said.err and "xyzzy" in said.err and "7" in said.out
