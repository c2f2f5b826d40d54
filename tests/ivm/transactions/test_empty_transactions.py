"""A transaction without edits makes no version, however it was begun, and whatever was asked in
it.
"""

from collections.abc import Callable

import pytest

import ivm
import pagestore

RULES = """
    edge(x, y) -> int(x), int(y).
    price[i] = p -> string(i), int(p).
    two(x, z) <- edge(x, y), edge(y, z).
    total[] = s <- agg<<s = sum(p)>> price[_] = p.
"""
Change = Callable[[ivm.Workspace], object]


def committed(begin, *edits: Callable) -> None:
    with begin as txn:
        for edit in edits:
            edit(txn)


NOTHING: dict[str, Change] = {
    "store": lambda ws: committed(ws.store.transaction()),
    "store, with a message": lambda ws: committed(ws.store.transaction("a mark")),
    "store, by hand": lambda ws: ws.store.transaction().commit(),
    "store, of a branch": lambda ws: committed(ws.store.transaction(branch="other")),
    "store, read": lambda ws: committed(
        ws.store.transaction(), lambda txn: list(txn["edge"]), lambda txn: [*txn]
    ),
    "store, properties read": lambda ws: committed(
        ws.store.transaction(), lambda txn: txn.properties.get("x")
    ),
    "store, no rows": lambda ws: committed(
        ws.store.transaction(), lambda txn: txn["edge"].insert([])
    ),
    "store, made and dropped": lambda ws: committed(
        ws.store.transaction(), lambda txn: txn.create("r", "x: int64"), lambda txn: txn.drop("r")
    ),
    "store, undone to a savepoint": lambda ws: committed(ws.store.transaction(), undone),
    "workspace": lambda ws: committed(ws.transaction()),
    "workspace, with a message": lambda ws: committed(ws.transaction("a mark")),
    "workspace, by hand": lambda ws: ws.transaction().commit(),
    "exec": lambda ws: ws.exec(""),
}
SAME: dict[str, Change] = {  # edits that leave every row as it was
    "store, a text that it lacks": lambda ws: committed(
        ws.store.transaction(), lambda txn: txn["price"].delete(["no such text"])
    ),
    "workspace, a row put and taken": lambda ws: committed(
        ws.transaction(),
        lambda txn: txn.insert("edge", [(7, 7)]),
        lambda txn: txn.delete("edge", [(7, 7)]),
    ),
    "store, a row that exists": lambda ws: committed(
        ws.store.transaction(), lambda txn: txn["edge"].insert([(1, 2)])
    ),
    "store, a row that is not there": lambda ws: committed(
        ws.store.transaction(), lambda txn: txn["edge"].delete([(7, 7)])
    ),
    "store, a text that it has": lambda ws: committed(
        ws.store.transaction(), lambda txn: txn["price"].set([("tea", 3)])
    ),
    "workspace, a row that exists": lambda ws: committed(
        ws.transaction(), lambda txn: txn.insert("edge", [(1, 2)])
    ),
    "workspace, a row that is not there": lambda ws: committed(
        ws.transaction(), lambda txn: txn.delete("edge", [(7, 7)])
    ),
    "exec, a row that exists": lambda ws: ws.exec('+edge(1, 2). ^price["tea"] = 3. -edge(7, 7).'),
}


def undone(txn: pagestore.Transaction) -> None:
    with pytest.raises(ZeroDivisionError), txn.savepoint():
        txn["edge"].insert([(8, 8)])
        raise ZeroDivisionError


@pytest.fixture
def workspace(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install(RULES)
        ws.exec('+edge(1, 2). +edge(2, 3). +price["tea"] = 3.')
        ws.store.branch("other")
        yield ws


@pytest.mark.parametrize("way", NOTHING)
def test_a_transaction_that_changes_nothing_makes_no_version(workspace, way):
    told: list = []
    workspace.subscribe("two", told.append)
    store = workspace.store
    before, history = store.version, [*store.history()]
    made = NOTHING[way](workspace)
    assert store.version == before and [*store.history()] == history
    assert made in (None, before) and not told
    # and the store goes on as if nothing had been
    assert workspace.exec("+edge(3, 4).") == before + 1
    assert [*workspace["two"]] == [(1, 3), (2, 4)] and not store.check() and not workspace.check()


def test_the_file_stays_as_it_is(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([1])
        before = path.read_bytes()
        for _ in range(3):
            assert store.transaction("nothing").commit() == 1
        assert path.read_bytes() == before


def test_what_is_no_row_is_a_change_too(tmp_path):
    """Properties, relations without rows, columns, and names."""
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        changes = (
            lambda txn: txn.create("r", "x: int64, y: int64", key="x"),
            lambda txn: txn.properties.update(seen="yes"),
            lambda txn: txn.add_column("r", "z: int64", 0),
            lambda txn: txn.rename("r", "s"),
            lambda txn: txn.add_scan("s", "count"),
            lambda txn: txn.drop("s"),
        )
        for number, change in enumerate(changes, 1):
            with store.transaction() as txn:
                change(txn)
            assert store.version == number


@pytest.mark.parametrize("way", SAME)
def test_edits_that_leave_every_row_as_it_was_make_a_version(workspace, way):
    told: list = []
    workspace.subscribe("two", told.append)
    before, rows = workspace.store.version, [*workspace["edge"]]
    SAME[way](workspace)
    assert workspace.store.version == before + 1 and not told
    assert [*workspace["edge"]] == rows and not workspace.store.check() and not workspace.check()
