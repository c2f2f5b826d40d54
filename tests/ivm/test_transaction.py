"""A transaction of a workspace: what it leaves behind, and how it ends."""

import pytest

import ivm
from ivm.errors import FunctionConflictError
from pagestore.errors import ClosedError

RULES = """edge(x, y) -> int(x), int(y).  name[x] = n -> int(x), string(n).  word(w) -> string(w).
two(x, z) <- edge(x, y), edge(y, z)."""


@pytest.fixture
def ws(tmp_path):
    with ivm.open(tmp_path / "graph.pages", sync="off") as workspace:
        workspace.install(RULES)
        yield workspace


def test_it_may_end_inside_with(ws):
    with ws.transaction() as txn:
        txn.insert("edge", [(1, 2), (2, 3)])
        txn.commit()
    assert list(ws["two"]) == [(1, 3)]
    with ws.transaction() as txn:
        txn.insert("edge", [(3, 4)])
        txn.rollback()
    with ws.transaction() as txn:
        txn.insert("name", [(1, "one"), (1, "two")])
        with pytest.raises(FunctionConflictError):
            txn.commit()
    assert (len(ws["edge"]), len(ws["name"])) == (2, 0)


def test_what_comes_after_its_end_is_refused(ws):
    with ws.transaction() as txn:
        txn.insert("edge", [(1, 2)])
        version = txn.commit()
        for late in (txn.commit, lambda: txn.insert("edge", [(3, 4)]), lambda: txn.delete("edge", [(1, 2)])):
            with pytest.raises(ClosedError, match="the transaction has ended"):
                late()
    assert ws.store.version == version
