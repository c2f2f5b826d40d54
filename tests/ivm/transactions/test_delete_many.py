"""Rows deleted between two keys, or by a condition: in the store and under views, over the edits
of the transaction.
"""

import json
import operator
import random
from collections import Counter

import pyarrow.compute as pc
import pytest

import ivm
import pagestore
from ivm.errors import EditError
from pagestore.errors import SchemaError
from pagestore_tools.cli import main

TESTS = [operator.lt, operator.ge, operator.eq, operator.ne]
Row = tuple[str, int, int]
COLUMNS = "who: string, day: int64, cents: int64"


def some(rng: random.Random) -> list[Row]:
    found = {
        (rng.choice("abcd") * rng.randint(0, 2), rng.randint(0, 4)): rng.randint(0, 9)
        for _ in range(12)
    }
    return [(who, day, cents) for (who, day), cents in found.items()]


def bound(rng: random.Random) -> tuple:
    return (rng.choice(["", "a", "bb", "c"]), rng.randint(0, 4))[: rng.randint(0, 2)]


def keeps(row: Row, lo: tuple, hi: tuple) -> bool:
    return row[: len(lo)] < lo or (hi != () and row[: len(hi)] >= hi)


def edited(rng: random.Random, txn, name: str, rows: Counter, key: int) -> None:
    """Make one random edit in a transaction, and the same edit in a Counter of its rows."""
    action, test, value = (
        rng.choice(["set", "range", "where"]),
        rng.choice(TESTS),
        rng.randint(0, 9),
    )
    if action == "set":
        for row in (new := some(rng)):
            for other in [other for other in rows if key == 2 and other[:2] == row[:2]]:
                del rows[other]
            rows[row] += 1
        (txn.set if key == 2 else txn.insert)(name, new)
        return
    if action == "range":
        lo, hi = bound(rng), bound(rng)
        gone = {row for row in rows if not keeps(row, lo, hi)}
        count = txn.delete_range(name, lo, hi)
    else:
        gone = {row for row in rows if test(row[2], value) and row[0] != "bb"}
        count = txn.delete_where(name, test(pc.field("cents"), value) & (pc.field("who") != "bb"))
    assert count == sum(rows.pop(row) for row in gone)


@pytest.mark.parametrize("read", [True, False], ids=["under a view", "read by no rule"])
@pytest.mark.parametrize("bag", [True, False], ids=["bag", "keyed"])
@pytest.mark.parametrize("seed", range(6))
def test_equal_to_deleting_row_by_row(bag: bool, read: bool, seed: int) -> None:
    rng, rows, key = random.Random(seed), Counter[Row](), 3 if bag else 2
    with ivm.open(":memory:") as ws:
        with ws.store.transaction() as txn:
            txn.create("r", COLUMNS, bag=True) if bag else txn.create(
                "r", COLUMNS, key=("who", "day")
            )
        if read:
            ws.sql(
                "CREATE MATERIALIZED VIEW total AS SELECT who, sum(cents) AS cents, count(*) AS n "
                "FROM r GROUP BY who"
            )
        for _ in range(8):
            with ws.transaction() as txn:
                for _ in range(rng.randint(1, 3)):
                    edited(rng, txn, "r", rows, key)
            assert sorted(ws["r"]) == sorted(rows.elements())
            assert not ws.check()


def test_what_is_refused() -> None:
    with ivm.open(":memory:") as ws:
        ws.install("r(x, y) -> int(x), int(y). v(x) <- r(x, _).")
        ws.insert("r", [(1, 2)])
        for delete in ws.delete_range, lambda name: ws.delete_where(name, pc.field("x") > 0):
            with pytest.raises(EditError, match="v is a view"):
                delete("v")
        for condition in pc.field("z") > 0, pc.field("x") == "one", pc.field("x") + 1:
            with pytest.raises(SchemaError, match="is not a condition on 'r'"):
                ws.delete_where("r", condition)
        assert list(ws["r"]) == [(1, 2)]


def deleted(file: str, *words: str, code: int = 0) -> None:
    assert main.pagestore(["delete", file, "r", *words]) == code


def test_the_command(tmp_path, capsys) -> None:
    file = f"{tmp_path}/s.pages"
    with ivm.open(file) as ws:
        with ws.store.transaction() as txn:
            txn.create("r", COLUMNS, key=("who", "day")).insert(
                [(who, day, 10 * day) for who in "abc" for day in range(4)]
            )
            txn.create(
                "r:tags",
                "who: string, day: int64, position: int64, value: string",
                key=("who", "day", "position"),
            )
            txn["r:tags"].insert([(who, day, 0, "x") for who in "abc" for day in range(4)])
        ws.sql("CREATE MATERIALIZED VIEW days AS SELECT who, count(*) AS n FROM r GROUP BY who")
        before = ws.store.version
    deleted(file, "--where", "day >= 1", "--where", "who!=a", "--dry-run", "--json")
    assert json.loads(capsys.readouterr().out) == {"removed": 0, "found": 6, "version": before}
    deleted(file, "--where", "day >= 1", "--where", "who!=a")
    deleted(file, "--from", "a,2", "--to", "b")
    assert capsys.readouterr().out == "r: 6 rows removed\nr: 2 rows removed\n"
    with pagestore.open(file, mode="r") as store:
        snap = store.snapshot()
        assert (
            [row[:2] for row in snap["r"]]
            == [row[:2] for row in snap["r:tags"]]
            == [("a", 0), ("a", 1), ("b", 0), ("c", 0)]
        )
        assert list(snap["days"]) == [("a", 2), ("b", 1), ("c", 1)]
    for words, said in {
        ("--where", "day=x"): "'x' is not a value of column day (int64)",
        ("--where", "dag=1"): "no column 'dag'",
        ("--where", "day"): "'day' is not a condition",
        ("--to", "a,1,2"): "has 3 values, and the key is who,day",
    }.items():
        deleted(file, *words, code=1)
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        deleted(file)
