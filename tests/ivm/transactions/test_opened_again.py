"""Views follow the first edits after a store was opened, by whatever way they come: rules are
compiled when something needs them.
"""

from collections.abc import Callable

import pytest

import ivm
from tests.support.simulator import compiled

pytestmark = compiled
ROWS = [(n, n % 3) for n in range(10, 16)]


def put(ws: ivm.Workspace) -> None:
    edge = ws.prepare("edge")
    for row in ROWS:
        edge.insert(*row)
        edge.commit()


def transaction(ws: ivm.Workspace) -> None:
    with ws.transaction() as txn:
        txn.insert("edge", ROWS)


def of_the_store(ws: ivm.Workspace) -> None:
    with ws.store.transaction() as txn:
        txn["edge"].insert(ROWS)


def through_inner(ws: ivm.Workspace) -> None:
    with ws.transaction() as txn:
        txn.inner["edge"].insert(ROWS)


def prepared_of_the_store(ws: ivm.Workspace) -> None:
    edge = ws.store.prepare("edge")
    for row in ROWS:
        edge.insert(*row)
        edge.commit()


def on_a_branch(ws: ivm.Workspace) -> None:
    ws.store.branch("trial")
    ws.on("trial").insert("edge", ROWS)
    ws.store.merge("trial")


def in_a_trial(ws: ivm.Workspace) -> None:
    with ws.what_if() as trial:
        trial.insert("edge", ROWS)
        assert len([*trial.changes("degree")]) == 3
    ws.insert("edge", ROWS)


def one_by_one(ws: ivm.Workspace) -> None:
    for row in ROWS:
        ws.insert("edge", [row])


def in_statements(ws: ivm.Workspace) -> None:
    for row in ROWS:
        ws.sql("INSERT INTO edge VALUES (?, ?)", row)


WAYS: dict[str, Callable[[ivm.Workspace], object]] = {
    "prepare": put,
    "insert": lambda ws: ws.insert("edge", ROWS),
    "insert, one by one": one_by_one,
    "exec": lambda ws: ws.exec("".join(f"+edge({x}, {y}). " for x, y in ROWS)),
    "sql": in_statements,
    "executemany": lambda ws: ws.prepare_sql("INSERT INTO edge VALUES (?, ?)").executemany(ROWS),
    "transaction": transaction,
    "inner": through_inner,
    "transaction of the store": of_the_store,
    "prepare of the store": prepared_of_the_store,
    "branch": on_a_branch,
    "what if": in_a_trial,
}


@pytest.mark.parametrize("way", WAYS)
def test_views_follow_the_first_edits(way, tmp_path):
    path = tmp_path / "s.pages"
    with ivm.open(path, threads=1) as ws:
        ws.sql("CREATE TABLE edge (x INT, y INT, PRIMARY KEY (x, y))")
        ws.sql("CREATE MATERIALIZED VIEW many AS SELECT y, count(*) AS n FROM edge GROUP BY y")
        ws.install("degree[y] = n <- agg<<n = count()>> edge(_, y).", name="degree")
        ws.install("busy(y) <- degree[y] = n, n > 1.", name="busy")
        ws.insert("edge", [(n, n % 3) for n in range(2)])
    with ivm.open(path, threads=1) as ws:
        WAYS[way](ws)
        assert [*ws["degree"]] == [*ws["many"]] == [(0, 3), (1, 3), (2, 2)]
        assert [*ws["busy"]] == [(0,), (1,), (2,)]
        assert ws.check() == []
