"""Edits as text of relations that the store has, whether rules read them or not."""

from pathlib import Path

import pytest

import ivm
import pagestore
from ivm.errors import ArityError, FunctionConflictError, UnknownPredicateError

READ = "a(x) <- customer:age[_] = x. b(x) <- edge(x, _). c(x) <- price[_] = x."


@pytest.fixture(params=[False, True], ids=["no rule reads them", "rules read them"])
def ws(tmp_path: Path, request: pytest.FixtureRequest):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        txn.create("customer", "id: int64, name: string, email: string?, age: int64", key="id")
        txn["customer"].insert([(1, "ada", None, 3), (2, "bob", "b@x", 4)])
        txn.create("price", "item: string, p: decimal(8,2)", key="item").insert([("tea", 3)])
        txn.create("edge", "x: int64, y: int64").insert([(1, 2)])
    with ivm.open(tmp_path / "s.pages") as workspace:
        if request.param:
            workspace.install(READ)
        yield workspace
        assert workspace.check() == [] and workspace.store.check() == []


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("+edge(3, 4). -edge(1, 2).", "edge", [(3, 4)]),
        ('^price["tea"] = 4.50.', "price", [("tea", 4.5)]),
        ('-price["tea"] = 1.00.', "price", [("tea", 3)]),  # another value: it stays
        ('-price["tea"].', "price", []),
        ('-price["tea"]. +price["tea"] = 5.00.', "price", [("tea", 5)]),
        ('^customer[2] = ("z", "y", 5).', "customer", [(1, "ada", None, 3), (2, "z", "y", 5)]),
        ('-customer[1] = _. -customer(2, "no", "no", 4).', "customer", [(2, "bob", "b@x", 4)]),
        ('-customer(2, "bob", "b@x", 4).', "customer", [(1, "ada", None, 3)]),
        (
            '-customer[1]. -customer[2]. +customer[7] = ("eve", "e@x", 9).',
            "customer",
            [(7, "eve", "e@x", 9)],
        ),
    ],
)
def test_edits(ws: ivm.Workspace, text: str, name: str, expected: list[tuple]) -> None:
    before = ws.store.version
    assert ws.exec(text) in (before, before + 1)
    assert [*ws.store.snapshot()[name]] == expected


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ('+price["tea"] = 5.00.', FunctionConflictError, "got two values"),
        ('+customer[2] = ("bob", "c@x", 4).', FunctionConflictError, "'b@x', 4.* and .*'c@x', 4"),
        (
            "^customer:age[2] = 7.",
            ArityError,
            "is one column of customer, which is edited by whole rows",
        ),
        ("^edge(1, 2).", ArityError, "sets a function's value"),
        ('+customer(4, "a").', ArityError, "takes 4 arguments, not 2"),
        ("+nothing(3).", UnknownPredicateError, "nothing declares"),
    ],
)
def test_errors_change_nothing(
    ws: ivm.Workspace, text: str, error: type[Exception], match: str
) -> None:
    before = ws.store.version
    with pytest.raises(error, match=match):
        ws.exec(text)
    assert ws.store.version == before


def test_rows(ws: ivm.Workspace) -> None:
    with ws.transaction() as txn:
        txn.insert("edge", [(5, 6)])
        txn.delete("edge", [(1, 2)])
        txn.set("customer", [(1, "ada", "a@x", 5)])
        txn.delete("customer", [(2,)])
    assert [*ws.store.snapshot()["edge"]] == [(5, 6)]
    assert [*ws.store.snapshot()["customer"]] == [(1, "ada", "a@x", 5)]
