"""Subscribers hear of each commit that changed their view, until either of the two is gone."""

import threading

import pytest

import ivm
from ivm import subscriptions, transaction
from pagestore.errors import ReadOnlyError
from tests.support.waiting import joined

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
    assert [table.to_pylist() for table in told_anew] == [
        [{"x": 2, "z": 4, "_change_type": "insert"}]
    ]


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
    assert caught.value.__notes__ == [
        "raised by a subscriber of two: the changes that it received are committed, and stay"
    ]
    assert ws.store.version == version + 1
    assert list(ws["two"]) == [(1, 3)]


def test_a_subscriber_may_uninstall_what_others_hear_of(ws):
    told = []
    ws.subscribe("edge", lambda table: ws.uninstall("two"))
    ws.subscribe("two", told.append)
    ws.exec("+edge(1, 2). +edge(2, 3).")
    assert len(told) == 1


def test_a_subscription_that_another_thread_ends_while_its_table_is_made(ws, monkeypatch):
    """The commit is told of no error, and who hears still hears."""
    told = []
    ws.subscribe("edge", told.append)
    end, made = ws.subscribe("two", told.append), subscriptions.changes

    def ended_meanwhile(*args):
        end()
        return made(*args)

    monkeypatch.setattr(transaction, "changes", ended_meanwhile)
    ws.exec("+edge(1, 2). +edge(2, 3).")
    assert [table.column_names for table in told] == [["x", "y", "_change_type"]]


def test_subscriptions_come_and_go_beside_commits(ws):
    """Iterating over them, and one that takes the place of the last."""
    failures, done = [], threading.Event()

    def come_and_go():
        try:
            while not done.is_set():
                ws.subscribe("two", lambda table: None)()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for x in range(200):
            told = []
            end = ws.subscribe("two", told.append)
            ws.exec(f"+edge({x}, {x + 1}). +edge({x + 1}, {-1 - x}).")
            end()
            assert len(told) == 1
    finally:
        done.set()
        joined(*threads)
    assert not failures


def test_an_installed_text_with_edits_changes_views_too(ws):
    told = {"edge": [], "two": []}
    for name, tables in told.items():
        ws.subscribe(name, tables.append)
    ws.install("+edge(1, 2). +edge(2, 3). three(x) <- two(x, _).", name="more")
    rows = {
        name: [row for table in tables for row in table.to_pylist()]
        for name, tables in told.items()
    }
    assert rows == {
        "edge": [{"x": x, "y": x + 1, "_change_type": "insert"} for x in (1, 2)],
        "two": [{"x": 1, "z": 3, "_change_type": "insert"}],
    }
    ws.install("four(x) <- two(x, _).", name="no edits")
    assert [len(tables) for tables in told.values()] == [1, 1]


def test_who_only_reads_cannot_hear(ws):
    with (
        ivm.open(ws.store.path, mode="r") as reader,
        pytest.raises(ReadOnlyError, match=r"store\.diff"),
    ):
        reader.subscribe("two", print)


@pytest.mark.parametrize("maintenance", ["auto", "match", "probe"])
@pytest.mark.parametrize(
    ("op", "values"), [("min", (5, 4)), ("min", (4, 5)), ("max", (4, 5)), ("max", (5, 4))]
)
def test_a_value_of_a_recursion_that_changes_leaves_its_key_as_it_was(
    tmp_path, op, values, maintenance
):
    """Who reads the keys alone hears nothing, and of the function first what goes, then what
    comes.
    """
    with ivm.open(tmp_path / "d.pages", sync="off") as ws:
        ws.install(
            f"""s[k] = c -> int(k), int(c).  e(x, y) -> int(x), int(y).
            d[y] = r <- agg<<r = {op}(c)>> (s[y] = c ; d[x] = c, e(x, y)).
            p(x) <- d[x] = _.  n(x) <- e(x, _), !(d[x] = _).  j(x, y) <- d[x] = _, e(x, y).""",
            maintenance=maintenance,
        )
        ws.exec(f"+s[1] = {values[0]}. +e(1, 2).")
        told = {name: [] for name in "dpnj"}
        for name, tables in told.items():
            ws.subscribe(name, tables.append)
        ws.exec(f"^s[1] = {values[1]}.")
        assert [sorted(ws[name]) for name in "pnj"] == [[(1,), (2,)], [], [(1, 2)]]
        assert [told[name] for name in "pnj"] == [[], [], []]
        (table,) = told["d"]
        assert [tuple(row.values()) for row in table.to_pylist()] == [
            (1, values[0], "delete"),
            (1, values[1], "insert"),
            (2, values[0], "delete"),
            (2, values[1], "insert"),
        ]
