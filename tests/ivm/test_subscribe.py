"""Subscribers hear of each commit that changed their view, until either of the two is gone."""

import pytest

import ivm
from pagestore.errors import ReadOnlyError

EDGES = "edge(x, y) -> int(x), int(y). "
TWO = "two(x, z) <- edge(x, y), edge(y, z)."


@pytest.fixture
def ws(tmp_path):
    with ivm.open(tmp_path / "graph.pages", sync="off") as workspace:
        workspace.install(EDGES, name="edges")
        workspace.install(TWO, name="two")
        yield workspace


def test_a_view_that_is_uninstalled_takes_its_subscriptions_along(ws):
    told, told_anew = [], []
    end = ws.subscribe("two", told.append)
    ws.subscribe("two", told.append)()
    ws.uninstall("two")
    ws.exec("+edge(1, 2). +edge(2, 3).")
    ws.install(TWO, name="two")
    ws.subscribe("two", told_anew.append)
    end()
    end()
    ws.exec("+edge(3, 4).")
    assert told == []
    assert [table.to_pylist() for table in told_anew] == [[{"x": 2, "z": 4, "_change_type": "insert"}]]


def test_a_subscription_ends_alone(ws):
    """Of two with the same function, and however often it is ended."""
    told = []
    end = ws.subscribe("two", told.append)
    ws.subscribe("two", told.append)
    end()
    end()
    ws.exec("+edge(1, 2). +edge(2, 3).")
    assert len(told) == 1


def test_a_subscriber_that_fails_keeps_none_from_hearing(ws):
    told = []

    def fail(table):
        told.append("failed")
        raise ZeroDivisionError(f"of {table.num_rows}")

    ws.subscribe("two", fail)
    ws.subscribe("two", lambda table: told.append("two"))
    ws.subscribe("edge", lambda table: told.append("edge"))
    ws.subscribe("edge", fail)
    version = ws.store.version
    with pytest.raises(ZeroDivisionError, match="of 1") as caught:
        ws.exec("+edge(1, 2). +edge(2, 3).")
    assert sorted(told) == ["edge", "failed", "failed", "two"]
    assert caught.value.__notes__ == ["raised by a subscriber of two: what it was told of is committed, and stays"]
    assert ws.store.version == version + 1
    assert list(ws["two"]) == [(1, 3)]


def test_a_subscriber_may_uninstall_what_others_hear_of(ws):
    told = []
    ws.subscribe("edge", lambda table: ws.uninstall("two"))
    ws.subscribe("two", told.append)
    ws.exec("+edge(1, 2). +edge(2, 3).")
    assert len(told) == 1


def test_an_installed_text_with_edits_changes_views_too(ws):
    told = {"edge": [], "two": []}
    for name, tables in told.items():
        ws.subscribe(name, tables.append)
    ws.install("+edge(1, 2). +edge(2, 3). three(x) <- two(x, _).", name="more")
    rows = {name: [row for table in tables for row in table.to_pylist()] for name, tables in told.items()}
    assert rows == {
        "edge": [{"x": x, "y": x + 1, "_change_type": "insert"} for x in (1, 2)],
        "two": [{"x": 1, "z": 3, "_change_type": "insert"}],
    }
    ws.install("four(x) <- two(x, _).", name="no edits")
    assert [len(tables) for tables in told.values()] == [1, 1]


def test_who_only_reads_cannot_hear(ws):
    with ivm.open(ws.store.path, mode="r") as reader, pytest.raises(ReadOnlyError, match=r"store\.diff"):
        reader.subscribe("two", print)
