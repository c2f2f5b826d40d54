"""Branches in SQL: begun, read, compared, merged and dropped by statements."""

import pytest

import ivm
from ivm.errors import IvmError


def rows(ws: ivm.Workspace, text: str) -> list[tuple[object, ...]]:
    """The rows of a query."""
    return [*(ws.sql(text) or ())]


def test_branches_by_statements() -> None:
    """Each statement does what the store's method does."""
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT); INSERT INTO t VALUES (1, 10), (2, 20)")
    ws.sql("CREATE MATERIALIZED VIEW s AS SELECT sum(b) AS total FROM t")
    ws.sql('CREATE BRANCH trial; create branch "other one" from trial')
    ws.on("trial").sql("UPDATE t SET b = 15 WHERE a = 1; INSERT INTO t VALUES (3, 30)")
    assert rows(ws, "SELECT a, b FROM t AT (BRANCH => 'trial') ORDER BY a") == [
        (1, 15),
        (2, 20),
        (3, 30),
    ]
    assert rows(ws, "SELECT total FROM s AT (BRANCH => 'trial')") == [(65,)]
    assert rows(ws, "SELECT total, _change_type FROM changes(s, 'main', 'trial') ORDER BY 1") == [
        (30, "delete"), (65, "insert"),
    ]  # fmt: skip
    ws.sql("UPDATE t SET b = 11 WHERE a = 1")
    with pytest.raises(
        IvmError, match=r"conflicts in 1 row, and nothing is changed: t\[1\] was 10"
    ):
        ws.sql("MERGE BRANCH trial INTO main")
    ws.sql("MERGE BRANCH trial INTO main ON CONFLICT sum")
    assert rows(ws, "SELECT total FROM s") == [(66,)]
    ws.sql("MERGE BRANCH trial INTO 'other one'")
    assert rows(ws, "SELECT total FROM s AT (BRANCH => 'other one')") == [(65,)]
    ws.sql("DROP BRANCH 'other one'")
    ws.sql("UPDATE t SET b = 5 WHERE a = 2; rebase branch trial ONTO main ON CONFLICT ours")
    assert rows(ws, "SELECT total FROM s AT (BRANCH => 'trial')") == [(51,)]
    ws.sql("DROP BRANCH trial")
    assert [*ws.store.branches] == ["main"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE BRANCH main", "there is a branch or tag 'main' already"),
        ("CREATE BRANCH a INTO main", "write CREATE BRANCH a FROM b"),
        ("CREATE BRANCH a ON CONFLICT ours", "write CREATE BRANCH a FROM b"),
        ("DROP BRANCH a", "there is no branch 'a'; there is main"),
        ("DROP BRANCH main FROM x", "write CREATE BRANCH a FROM b"),
        ("MERGE BRANCH main", "name another branch"),
        ("MERGE BRANCH none INTO main", "there is no branch 'none'"),
        ("MERGE BRANCH main FROM main", "write CREATE BRANCH a FROM b"),
        (
            "CREATE BRANCH a; MERGE BRANCH a INTO main ON CONFLICT mine",
            "it is one of ours, theirs, larger, sum",
        ),
        ("REBASE BRANCH main ONTO main", "is on itself already"),
        ("REBASE BRANCH main INTO main", "write CREATE BRANCH a FROM b"),
        ("REBASE BRANCH", "REBASE does not go on like this"),
        ("MERGE BRANCH", "MERGE does not go on like this"),
        ("BEGIN; CREATE BRANCH a", "CREATE is a commit of its own"),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    """One clear sentence for each."""
    with pytest.raises(IvmError, match=said):
        ivm.open(":memory:").sql(text)
