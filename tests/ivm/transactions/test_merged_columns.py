"""Merges of branches that changed columns, constraints and indices, each as an engine whose branches
are merged row by row has it: merged, or refused by name.
"""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import ivm
import pagestore
from ivm.errors import IvmError
from pagestore.errors import PagestoreError
from tests.support.programs.amounts import times

BASE = (
    "CREATE TABLE t (k INT PRIMARY KEY, a TEXT, b TEXT); INSERT INTO t VALUES (1, 'a1', 'b1'), "
    "(2, 'a2', 'b2')"
)
ADD, DROP = "ALTER TABLE t ADD COLUMN", "ALTER TABLE t DROP COLUMN b"
RENAME = "ALTER TABLE t RENAME COLUMN b TO c"
LESS, UNIQUE = "ALTER TABLE t ADD CONSTRAINT c CHECK (k < 9)", "CREATE UNIQUE INDEX ib ON t (b)"
T = "SELECT * FROM t ORDER BY k"
CASES: tuple[tuple[str, str, str, str, Any], ...] = (
    # what they changed, what we changed, a question, its answer or what the refusal says
    ("a column and rows there", f"{ADD} d TEXT; INSERT INTO t VALUES (3, 'a3', 'b3', 'd3')", "",
     T, [(1, "a1", "b1", None), (2, "a2", "b2", None), (3, "a3", "b3", "d3")]),
    ("a quoted name", f"{ADD} \"odd\"\"name\" INT DEFAULT 4", "INSERT INTO t VALUES (3, 'a3', 'b3')",
     'SELECT k, "odd""name" FROM t ORDER BY k', [(1, 4), (2, 4), (3, 4)]),
    ("a column on each side", f"{ADD} d INT; UPDATE t SET d = 5", f"{ADD} e TEXT DEFAULT 'q'",
     T, [(1, "a1", "b1", "q", 5), (2, "a2", "b2", "q", 5)]),
    ("a column on each side, an edit and a deletion there",
     f"UPDATE t SET a = 'n' WHERE k = 1; DELETE FROM t WHERE k = 2; {ADD} c INT DEFAULT 1", f"{ADD} d INT DEFAULT 2",
     T, [(1, "n", "b1", 2, 1)]),
    ("the same column, other values", f"{ADD} d INT; UPDATE t SET d = 5", f"{ADD} d INT; UPDATE t SET d = 6",
     T, r"conflicts in 2 rows, and nothing is changed: t\[1\]"),
    ("the same column, values for other rows", f"{ADD} d INT; UPDATE t SET d = 5 WHERE k = 1",
     f"{ADD} d INT; UPDATE t SET d = 6 WHERE k = 2", T, [(1, "a1", "b1", 5), (2, "a2", "b2", 6)]),
    ("the same column", f"{ADD} d INT", f"{ADD} d INT", "SELECT count(d) FROM t", [(0,)]),
    ("the same column, another type", f"{ADD} d INT", f"{ADD} d TEXT", T, "both changed the column 'd'"),
    ("a column there, rows here", f"{ADD} d INT DEFAULT 4; UPDATE t SET d = 9 WHERE k = 1",
     "INSERT INTO t VALUES (3, 'a3', 'b3'); UPDATE t SET a = 'n' WHERE k = 1",
     T, [(1, "n", "b1", 9), (2, "a2", "b2", 4), (3, "a3", "b3", 4)]),
    ("a column here, rows there", "INSERT INTO t VALUES (3, 'a3', 'b3'); DELETE FROM t WHERE k = 2",
     f"{ADD} d INT NOT NULL DEFAULT 4", T, [(1, "a1", "b1", 4), (3, "a3", "b3", 4)]),
    ("dropped here, rows there", "INSERT INTO t VALUES (3, 'a3', 'b3'); UPDATE t SET a = 'n' WHERE k = 1", DROP,
     T, [(1, "n"), (2, "a2"), (3, "a3")]),
    ("dropped there, rows here", DROP, "INSERT INTO t VALUES (3, 'a3', 'b3')",
     T, [(1, "a1"), (2, "a2"), (3, "a3")]),
    ("dropped here, added there", f"{ADD} d INT DEFAULT 4; UPDATE t SET a = 'n' WHERE k = 2", DROP,
     T, [(1, "a1", 4), (2, "n", 4)]),
    ("dropped on both", DROP, f"{DROP}; INSERT INTO t VALUES (3, 'a3')", T, [(1, "a1"), (2, "a2"), (3, "a3")]),
    ("renamed there, rows here", RENAME, "INSERT INTO t VALUES (3, 'a3', 'b3')",
     "SELECT c FROM t ORDER BY k", [("b1",), ("b2",), ("b3",)]),
    ("renamed here, another one dropped there", "ALTER TABLE t DROP COLUMN a; INSERT INTO t VALUES (3, 'b3')", RENAME,
     "SELECT k, c FROM t ORDER BY k", [(1, "b1"), (2, "b2"), (3, "b3")]),
    ("renamed there, another one added here", f"{RENAME}; INSERT INTO t VALUES (3, 'a3', 'b3')",
     f"{ADD} d INT DEFAULT 4", T, [(1, "a1", "b1", 4), (2, "a2", "b2", 4), (3, "a3", "b3", 4)]),
    ("renamed there, dropped here", RENAME, DROP, T, "both changed the column 'b'"),
    ("one renamed there, another one here", RENAME,
     "ALTER TABLE t RENAME COLUMN a TO d; INSERT INTO t VALUES (3, 'a3', 'b3')", "SELECT k, d, c FROM t ORDER BY k",
     [(1, "a1", "b1"), (2, "a2", "b2"), (3, "a3", "b3")]),
    ("renamed and another one added there, rows here", f"{RENAME}; {ADD} d INT", "INSERT INTO t VALUES (3, 'a3', 'b3')",
     T, "'b' was dropped or is 'c' now"),
    ("renamed to two names", RENAME, "ALTER TABLE t RENAME COLUMN b TO d", T, r"has the columns .*give both the same"),
    ("the table dropped here, rows there", "INSERT INTO t VALUES (3, 'a3', 'b3')", "DROP TABLE t",
     T, "relation 't' was dropped here"),
    ("tables of their own", "CREATE TABLE u (x INT); INSERT INTO u VALUES (1)", f"{ADD} d INT",
     "SELECT x, d FROM u, t WHERE k = 1", [(1, None)]),
    ("an index on each side", "CREATE INDEX ia ON t (a)", "CREATE INDEX ib ON t (b)",
     "DROP INDEX ia; DROP INDEX ib; SELECT count(*) FROM t", [(2,)]),
    ("a constraint there, rows here that it forbids", UNIQUE, "INSERT INTO t VALUES (3, 'x', 'b1')",
     T, r"t: UNIQUE \(b\) does not hold for .*b = 'b1'"),
    ("constraints on both sides", LESS, UNIQUE,
     "INSERT INTO t VALUES (9, 'x', 'y')", r"CHECK \(k < 9\) does not hold for k = 9"),
    ("constraints on both sides, the other one", LESS, UNIQUE,
     "INSERT INTO t VALUES (8, 'x', 'b1')", r"UNIQUE \(b\) does not hold for"),
    ("a constraint and a column", f"{LESS}; {ADD} d INT DEFAULT 4", f"{ADD} e INT DEFAULT 5",
     "INSERT INTO t VALUES (9, 'y', 'b', 1, 2)", r"CHECK \(k < 9\) does not hold for k = 9"),
    ("a table with a reference", "CREATE TABLE u (x INT REFERENCES t); INSERT INTO u VALUES (2)",
     "DELETE FROM t WHERE k = 2", T, "u: .*REFERENCES .*does not hold for x = 2"),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_both_sides_changed_a_table(case: tuple[str, str, str, str, Any]) -> None:
    """The merge and its dry run do as the table says, and views follow."""
    _, theirs, ours, question, wanted = case
    ws = ivm.open(":memory:")
    ws.sql(BASE)
    if "DROP TABLE" not in ours:
        ws.sql("CREATE MATERIALIZED VIEW keys AS SELECT count(*) AS n, max(k) AS m FROM t")
    ws.store.branch("side")
    for on, text in ((ws.on("side"), theirs), (ws, ours)):
        for statement in filter(str.strip, text.split(";")):
            on.sql(statement)
    version = ws.store.version

    def merged() -> list[Any]:
        ws.store.merge("side", dry_run=True)
        assert ws.store.version == version
        ws.store.merge("side")
        assert ws.store.check() == [] and ws.check() == []
        return [*(ws.sql(question) or ())]

    if isinstance(wanted, list):
        assert merged() == wanted
        before = ws.store.version
        assert ws.store.merge("side").version == before
        ws.store.revert(before)
        assert ws.check() == []
    else:
        with pytest.raises((PagestoreError, IvmError), match=wanted):
            merged()
        assert ws.store.version == version or question.startswith("INSERT")


def test_a_version_with_a_column_is_picked_and_taken_back() -> None:
    """A cherry-pick brings the column with its values, a revert takes both away."""
    ws = ivm.open(":memory:")
    ws.sql(BASE)
    ws.store.branch("side")
    ws.on("side").sql(f"{ADD} d INT DEFAULT 4")
    ws.sql("INSERT INTO t VALUES (3, 'a3', 'b3')")
    picked = ws.store.cherry_pick(ws.store.branches["side"]).version
    ws.sql("UPDATE t SET d = 7 WHERE k = 3")
    assert [*(ws.sql("SELECT k, d FROM t ORDER BY k") or ())] == [(1, 4), (2, 4), (3, 7)]
    ws.sql("INSERT INTO t VALUES (4, 'a4', 'b4', 8)")
    ws.store.revert(picked)
    assert [*(ws.sql(T) or ())][-1] == (4, "a4", "b4") and ws.check() == []


def test_a_pull_brings_columns_and_constraints(tmp_path: Path) -> None:
    """To a branch that is here, and to one that begins with it."""
    with ivm.open(tmp_path / "shop.pages") as ws:
        ws.sql(BASE)
        shutil.copy(tmp_path / "shop.pages", tmp_path / "laptop.pages")
        with ivm.open(tmp_path / "laptop.pages") as laptop:
            for statement in (LESS, f"{ADD} d INT DEFAULT 4", "CREATE TABLE u (x INT UNIQUE)"):
                laptop.sql(statement)
            ws.sql("INSERT INTO t VALUES (3, 'a3', 'b3')")
            ws.store.pull(laptop.store)
            ws.store.pull(laptop.store, into="new")
        assert [*(ws.sql("SELECT k, d FROM t ORDER BY k") or ())] == [(1, 4), (2, 4), (3, 4)]
        for branch in ("main", "new"):
            for statement in (
                "INSERT INTO t VALUES (9, 'x', 'y', 1)",
                "INSERT INTO u VALUES (1), (1)",
            ):
                with pytest.raises(IvmError, match="does not hold for"):
                    ws.on(branch).sql(statement)
        assert ws.check() == ws.on("new").check() == ws.store.check() == []


def test_columns_that_take_no_nulls_any_more() -> None:
    """Refuse a merge if rows of the other side have nulls there."""
    for side, other in (("main", "side"), ("side", "main")):
        store = pagestore.open(":memory:")
        with store.transaction() as txn:
            txn.create("r", "k: int64, v: int64?", key="k").insert([(1, 1)])
        store.branch("side")
        with store.transaction(branch=side) as txn:
            txn.refuse_nulls("r", ["v"])
        with store.transaction(branch=other) as txn:
            txn["r"].insert([(2, None)])
        with pytest.raises(PagestoreError, match="is null somewhere"):
            store.merge("side")
        with store.transaction(branch=other) as txn:
            txn["r"].set([(2, 2)])
        store.merge("side")
        assert str(store.snapshot()["r"].schema) == "k: int64, v: int64" and store.check() == []


def test_columns_without_a_default() -> None:
    """Rows that the other side inserted need a value for a column that takes no nulls."""
    store = pagestore.open(":memory:")
    with store.transaction() as txn:
        txn.create("r", "k: int64, v: int64", key="k").insert([(1, 1)])
    store.branch("side")
    with store.transaction(branch="side") as txn:
        txn.add_column("r", "d: int64", 5)
    with store.transaction() as txn:
        txn["r"].set([(1, 2)])
    store.merge("side")
    assert [*store.snapshot()["r"]] == [(1, 2, 5)]
    with store.transaction(branch="side") as txn:
        txn.add_column("r", "e: int64", 6)
    with store.transaction() as txn:
        txn["r"].insert([(3, 3, 3)])
    with pytest.raises(PagestoreError, match="new rows have no value for 'e'"):
        store.merge("side")
    with store.transaction() as txn:
        txn.add_column("r", "e: int64", 6)
    store.merge("side")
    assert [*store.snapshot()["r"]] == [(1, 2, 5, 6), (3, 3, 3, 6)] and store.check() == []


class Side:
    """A branch whose table is changed, and a model of it: columns by the names that they began
    with, and rows of the keys that are its own, which are even or odd.
    """

    def __init__(self, ws: ivm.Workspace, odd: int) -> None:
        self.ws, self.odd, self.renames = ws, odd, odd == 1
        self.names = {name: name for name in "abc"}  # a stays what it is
        self.added: dict[str, int] = {}  # with their defaults
        self.rows = {k: {"a": k, "b": k, "c": k} for k in range(odd, 8, 2)}
        self.checks: set[str] = set()

    def step(self, chance: random.Random) -> None:
        """Make one change. Of columns, one side adds or drops some, the other also renames."""
        action, both = chance.randrange(10), [*self.names, *self.added]
        key, column = chance.randrange(self.odd, 12, 2), chance.choice(both)
        shown = self.names.get(column, column)
        if action == 0 and not self.renames:
            name = f"n{self.odd}{len(self.added)}{chance.randrange(99)}"
            if name not in self.added:
                self.added[name] = chance.randrange(9)
                self.ws.sql(f"{ADD} {name} INT DEFAULT {self.added[name]}")
                for row in self.rows.values():
                    row[name] = self.added[name]
        elif action in (1, 9) and column in "bc" and not self.renames:
            self.ws.sql(f"ALTER TABLE t DROP COLUMN {shown}")
            del self.names[column]
            for row in self.rows.values():
                del row[column]
        elif action in (1, 9) and column in "bc" and self.renames:
            self.names[column] = f"{column}{chance.randrange(99)}"
            self.ws.sql(f"ALTER TABLE t RENAME COLUMN {shown} TO {self.names[column]}")
        elif action == 2:
            check = f"k < {chance.randrange(20, 30)}"
            if check not in self.checks:
                self.checks.add(check)
                self.ws.sql(f"ALTER TABLE t ADD CONSTRAINT c{check[4:]} CHECK ({check})")
        elif action == 3:
            self.ws.sql(f"DELETE FROM t WHERE k = {key}")
            self.rows.pop(key, None)
        elif action <= 5 and key not in self.rows:
            self.rows[key] = {"a": key} | dict.fromkeys(both[1:], 7)
            named = ", ".join(["k", *(self.names.get(one, one) for one in both)])
            values = ", ".join(map(str, [key, *(self.rows[key][one] for one in both)]))
            self.ws.sql(f"INSERT INTO t ({named}) VALUES ({values})")
        elif key in self.rows:
            self.rows[key][column] = chance.randrange(99)
            self.ws.sql(f"UPDATE t SET {shown} = {self.rows[key][column]} WHERE k = {key}")


def merge_at_random(seed: int) -> str:
    """Change a table on two branches, merge them, and return what it came to."""
    chance, ws = random.Random(seed), ivm.open(":memory:")
    ws.sql("CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT, c INT)")
    ws.sql(f"INSERT INTO t VALUES {', '.join(f'({k}, {k}, {k}, {k})' for k in range(8))}")
    ws.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(a) AS s FROM t")
    ws.store.branch("side")
    odd = chance.randrange(2)
    sides = ours, theirs = Side(ws, odd), Side(ws.on("side"), 1 - odd)
    for _ in range(chance.randrange(2, 14)):
        chance.choice(sides).step(chance)
    dropped = {c for side in sides for c in "bc" if c not in side.names}
    renamed = {c for side in sides for c, name in side.names.items() if name != c}
    if dropped & renamed or (dropped and (ours.added or theirs.added)):
        # a side that drops a column and adds one may have renamed it
        with pytest.raises(PagestoreError, match="both changed the column|was dropped or is"):
            ws.store.merge("side")
        return "refused"
    told = ws.store.merge("side", dry_run=True)
    assert told.conflicts == () and ws.store.merge("side").conflicts == ()
    kept = [c for c in "abc" if c in ours.names and c in theirs.names]
    wanted = {}
    for side, other in ((ours, theirs), (theirs, ours)):
        for key, row in side.rows.items():
            both = row | other.added
            names = {c: next((s.names[c] for s in sides if s.names[c] != c), c) for c in kept}
            wanted[key] = {"k": key} | {
                names.get(c, c): both[c] for c in [*kept, *side.added, *other.added]
            }
    found = ws.sql("SELECT * FROM t")
    assert found is not None
    assert {row["k"]: row for row in found.to_arrow().to_pylist()} == wanted, seed
    [(n, s)] = ws.sql("SELECT n, s FROM v") or ()
    assert (n, s or 0) == (len(wanted), sum(row["a"] for row in wanted.values())), seed
    checks = ours.checks | theirs.checks
    if checks:
        with pytest.raises(IvmError, match="CHECK .* does not hold"):
            ws.sql(f"INSERT INTO t (k) VALUES ({min(int(check[4:]) for check in checks)})")
    assert ws.check() == ws.store.check() == []
    return "merged"


def test_random_changes_of_columns_and_constraints() -> None:
    """Each merge has the columns, rows and constraints of both sides, and its view."""
    assert "merged" in {merge_at_random(seed) for seed in range(times(8))}


@pytest.mark.campaign
def test_many_random_changes_of_columns_and_constraints() -> None:
    """Two thousand of them."""
    assert {merge_at_random(seed) for seed in range(2000)} == {"refused", "merged"}
