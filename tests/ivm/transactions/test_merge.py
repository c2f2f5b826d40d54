"""Merges of branches with views: these follow as they do any commit, and refuse what rules refuse."""

import random
from datetime import UTC, datetime
from typing import Any

import pytest

import ivm
from ivm.errors import ConstraintError
from pagestore.errors import MergeError
from tests.support.programs.amounts import times

RULES = """
    edge(x, y) -> int(x), int(y).  paid[who] = n -> string(who), int(n).
    reach(x, y) <- edge(x, y).  reach(x, z) <- reach(x, y), edge(y, z).
    total[] = t <- agg<<t = sum(n)>> paid[_] = n.
    last(y) <- edge(_, y), !edge(y, _).
"""


def test_views_follow_a_merge() -> None:
    """Random edits of two branches and merges both ways, each checked against its rules."""
    for seed in range(times(4)):
        chance = random.Random(seed)
        ws = ivm.open(":memory:")
        ws.install(RULES, "main")
        ws.store.branch("side")
        ws.on("side").install("busy[x] = n <- agg<<n = count()>> edge(x, _).", "busy")
        for _ in range(12):
            name = chance.choice(["main", "side"])
            with ws.transaction(branch=name) as txn:
                row = chance.randrange(6), chance.randrange(6)
                getattr(txn, chance.choice(["insert", "delete"]))("edge", [row])
                txn.set("paid", [(f"p{chance.randrange(3)}", chance.randrange(50))])
            if chance.random() < 0.4:
                into = chance.choice(["main", "side"])
                source = "side" if into == "main" else "main"
                tried = ws.store.merge(source, into, "larger", dry_run=True)
                with ws.at(branch=into) as before:
                    ws.store.merge(source, into, "larger")
                    with ws.at(branch=into) as after:
                        changed = {n: after.changes(n, before) for n in ("edge", "reach", "total")}
                for view, table in changed.items():
                    assert table is not None
                    if table.num_rows or view in tried.changes:
                        assert tried.changes[view] == table
            assert ws.check("main") == ws.check("side") == []
        assert "busy" not in ws and "busy" in ws.on("side")


def test_a_merge_maintains_and_does_not_evaluate() -> None:
    """With `strict` a view that were evaluated from scratch would be refused; subscribers hear."""
    ws = ivm.open(":memory:")
    ws.install(RULES, "main")
    ws.insert("edge", [(i, i + 1) for i in range(200)])
    ws.store.branch("side")
    ws.on("side").insert("edge", (300, 301))
    ws.insert("edge", (400, 401))
    heard: list[Any] = []
    ws.subscribe("reach", lambda table: heard.append(table.to_pylist()))
    ws.strict = True
    ws.store.merge("side")
    assert heard == [[{"x": 300, "y": 301, "_change_type": "insert"}]] and not ws.evaluated


def test_a_merge_keeps_constraints() -> None:
    """What each side may do, and both together may not, is refused with the first rows."""
    ws = ivm.open(":memory:")
    ws.install("seat[who] = s -> string(who), int(s). seat[a] = s, seat[b] = s -> a = b.")
    ws.store.branch("side")
    ws.insert("seat", ("ada", 7))
    ws.on("side").insert("seat", ("bob", 7))
    version = ws.store.version
    with pytest.raises(ConstraintError, match="7"):
        ws.store.merge("side")
    assert ws.store.version == version and [*ws["seat"]] == [("ada", 7)]
    ws.on("side").set("seat", ("bob", 8))
    ws.store.merge("side")
    assert [*ws["seat"]] == [("ada", 7), ("bob", 8)]


def test_tables_of_sql_are_merged() -> None:
    """New and altered tables come along; kept views stay on the branch that they were made on."""
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE t (a INT, b TEXT); INSERT INTO t VALUES (1, 'x')")
    ws.store.branch("side")
    side = ws.on("side")
    side.sql("CREATE TABLE u (n UTINYINT)")
    side.sql("INSERT INTO u VALUES (3); INSERT INTO t VALUES (2, 'y')")
    side.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
    ws.sql("INSERT INTO t VALUES (5, 'z')")
    ws.store.merge("side")
    assert [*(ws.sql("SELECT a FROM t ORDER BY a") or ())] == [(1,), (2,), (5,)]
    assert [*(ws.sql("SELECT n FROM u") or ())] == [(3,)] and "v" not in ws
    with pytest.raises(ivm.IvmError):
        ws.sql("INSERT INTO u VALUES (300)")
    ws.store.merge("main", into="side")
    assert [*side["v"]] == [(8,)]
    ws.store.revert(ws.store.version)
    assert [*(ws.sql("SELECT a FROM t ORDER BY a") or ())] == [(1,), (5,)]
    side.sql("UPDATE t SET b = 'q' WHERE a = 1")
    with pytest.raises(MergeError, match="dropped here"):
        ws.sql("DROP TABLE t")
        ws.store.merge("side")


def test_dry_runs_show_views_in_several_relations() -> None:
    """By their names and with their own types, as the merge then changes them, of every kind."""
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE t (a INT PRIMARY KEY, b INT, c TEXT); INSERT INTO t VALUES (1, 2, 'x')")
    for name, query in (
        ("lists", "SELECT b, list(c ORDER BY a) AS l FROM t GROUP BY b"),
        ("structs", "SELECT a, {'b': b, 'c': c} AS s FROM t"),
        ("equal", "SELECT [b] AS l FROM t"),
        ("joined", "SELECT b, string_agg(c, ',' ORDER BY a) AS l FROM t GROUP BY b"),
        ("many", f"SELECT {', '.join(f'a + {i} AS c{i}' for i in range(40))} FROM t"),
    ):
        ws.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    names = ["equal", "joined", "lists", "many", "structs", "t"]
    ws.store.branch("side")
    made, heard = list[int](), dict[str, Any]()
    for name in names[:-1]:
        ws.subscribe(name, lambda table, name=name: heard.update({name: table.to_pylist()}))
    for statement in ("INSERT INTO t VALUES (3, 2, 'y')", "ALTER TABLE t RENAME COLUMN b TO d"):
        ws.on("side").sql(statement)
        told = ws.store.merge("side", dry_run=True).changes
        with ws.at() as old:
            made.append(ws.store.merge("side").version)
            with ws.at() as new:
                if "INSERT" in statement:
                    assert told == {name: new.changes(name, old) for name in names}
        assert {name: told[name].to_pylist() for name in heard} == heard
        assert sorted(told) == (names if heard else [])
        heard.clear()
    ws.on("side").sql("DELETE FROM t WHERE a = 1")
    assert sorted(ws.store.merge("side", dry_run=True).changes) == names
    back = ws.store.revert(made[0], dry_run=True).changes
    assert sorted(back) == names and ws.check() == []


def test_clocks_stay_on_their_branch() -> None:
    """A merge of two branches whose clocks moved leaves the views with one."""
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE t (a INT, m TIMESTAMP)")
    ws.store.branch("side")
    for name in ("main", "side"):
        ws.on(name).sql("CREATE MATERIALIZED VIEW v AS SELECT a, now() AS n FROM t")
    ws.store.branch("third", "side")
    ws.tick(datetime(2030, 1, 1, tzinfo=UTC))
    ws.on("side").tick(datetime(2031, 1, 1, tzinfo=UTC))
    ws.on("side").sql("INSERT INTO t VALUES (1, now())")
    assert [*ws.store.merge("side", dry_run=True).changes] == ["t", "v"]
    ws.store.merge("side")
    assert [*(ws.sql("SELECT a, year(n) FROM v") or ())] == [(1, 2030)]
    ws.store.merge("main", "third")
    assert [*(ws.on("third").sql("SELECT a FROM v") or ())] == [(1,)]
    assert ws.check() == []
