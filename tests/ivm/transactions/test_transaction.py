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
        for late in (
            txn.commit,
            lambda: txn.insert("edge", [(3, 4)]),
            lambda: txn.delete("edge", [(1, 2)]),
        ):
            with pytest.raises(ClosedError, match="the transaction has ended"):
                late()
    assert ws.store.version == version


def test_one_whose_store_was_closed_is_lost(tmp_path):
    with ivm.open(tmp_path / "graph.pages", sync="off") as ws:
        ws.install(RULES)
        txn = ws.transaction()
        txn.insert("edge", [(1, 2), (2, 3)])
    with pytest.raises(
        ClosedError, match="was closed, and what was not committed is lost; open it again"
    ):
        txn.commit()
    with ivm.open(tmp_path / "graph.pages", sync="off") as ws:
        assert len(ws["edge"]) == 0


def texts(ws) -> int:
    """How many texts the store's dictionary has."""
    with ws.store.snapshot() as snap:
        return int(snap.dictionary.ids().max(initial=0))


def test_deletions_of_unknown_texts_are_edits_of_nothing(ws):
    """And leave no texts in the dictionary, which nothing would take out again."""
    ws.install(
        """named(x, n) <- edge(x, _), name[x] = n.  known(n) <- name[_] = n, word(n).
    lone(w) <- word(w), !known(w).  words[] = n <- agg<<n = count()>> word(_).  first[] = w -> string(w).""",
        "more",
    )
    ws.exec(
        '+edge(1, 2). +name[1] = "one". +name[2] = "two". +word("one"). +word("ten"). +first[] = '
        '"one".'
    )
    before, rows = texts(ws), {name: list(ws[name]) for name in ws}
    with ws.transaction() as txn:
        txn.delete("word", [("never",), ("seen",)])
        txn.delete("word", [(f"number {i}",) for i in range(1000)])
        txn.delete("name", [(1, "never"), (2, "seen")])
        txn.delete("first", [("never",)])
    ws.exec('-word("nor this"). -name[1] = "nor this". -first[] = "nor this".')
    assert (texts(ws), {name: list(ws[name]) for name in ws}) == (before, rows)
    for view in ("named", "known", "lone", "words"):
        ws.verify(view)
    assert ws.store.check() == []


def test_a_text_of_the_same_transaction_is_known(ws):
    with ws.transaction() as txn:
        txn.delete("word", [("early",)])
        txn.insert("word", [("early",), ("late",)])
        txn.delete("word", [("late",)])
        txn.insert("name", [(1, "late"), (2, "late")])
        txn.delete("name", [(1, "late"), (2, "early")])
    assert (list(ws["word"]), list(ws["name"])) == ([("early",)], [(2, "late")])
    ws.exec('+word("a"). -word("a"). -word("b"). +word("b"). -name[2] = "late".')
    assert (sorted(ws["word"]), list(ws["name"])) == ([("b",), ("early",)], [])


def test_one_that_was_dropped_holds_up_nobody(ws):
    txn = ws.transaction()
    txn.insert("edge", [(1, 2)])
    del txn
    ws.exec("+edge(2, 3).")
    assert list(ws["edge"]) == [(2, 3)]
