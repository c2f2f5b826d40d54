"""A transaction that has ended: nothing that is kept of it may change what it made."""

import numpy as np
import pytest

import pagestore
from pagestore.errors import ClosedError
from pagestore.groups import Group
from pagestore.sketch import Sketch
from pagestore.transaction import Transaction

ROWS = [(i, f"text {i % 50}") for i in range(3000)]
LATER = [(i, f"new {i}") for i in range(5000, 6000)]

USES = {
    "create": lambda txn: txn.create("more", "x: int64"),
    "create_intervals": lambda txn: txn.create_intervals("more", "a: int64, b: int64", ("a", "b")),
    "create_words": lambda txn: txn.create_words("$more", 1),
    "add_scan": lambda txn: txn.add_scan("number", "count"),
    "drop_scan": lambda txn: txn.drop_scan("number", "sum:y"),
    "drop": lambda txn: txn.drop("number"),
    "properties": lambda txn: txn.properties.update(a="b"),
    "pages": lambda txn: txn.pages,
    "threads": lambda txn: txn.threads,
    "version": lambda txn: txn.version,
    "tree": lambda txn: txn.tree("number"),
    "finder": lambda txn: txn.finder("number"),
    "edit": lambda txn: txn.edit(INFO["number"], np.zeros(1, np.int64), np.ones((2, 1), np.int64)),
    "apply": lambda txn: txn.apply("number", np.zeros(1, np.int64), np.ones((2, 1), np.int64)),
    "apply_beside": lambda txn: txn.apply_beside(
        ("number",), np.zeros((1, 2), np.int64), np.zeros(1, np.int64), np.ones((2, 1), np.int64)
    ),
    "groups": lambda txn: txn.groups([Group(("number",), np.zeros((1, 2), np.int64), 2)]),
    "settle": lambda txn: txn.settle(None, lambda: 0),
    "replace": lambda txn: txn.replace("number", None),
    "bulk": lambda txn: txn.bulk(INFO["empty"], [np.ones((2, 1), np.int64)]),
    "encode": lambda txn: txn.encode("string", ["never seen"]),
    "decode": lambda txn: txn.decode("string", np.ones(1, np.int64)),
    "dictionary": lambda txn: txn.dictionary.intern(None),
    "savepoint": lambda txn: txn.savepoint().__enter__(),
    "commit": lambda txn: txn.commit(),
    "contains": lambda txn: "number" in txn,
    "iterate": lambda txn: list(txn),
    "relation": lambda txn: txn["number"],
    "get": lambda txn: KEPT["number"].get((1, "text 1")),
    "insert": lambda txn: KEPT["number"].insert([(1, 2)]),
    "new texts": lambda txn: KEPT["text"].insert(LATER),
    "delete": lambda txn: KEPT["text"].delete(ROWS),
    "read": lambda txn: list(KEPT["text"]),
}
INFO: dict = {}
KEPT: dict = {}


def ended(store, commit):
    """A transaction that has ended, some of whose relations are still at hand."""
    txn = store.transaction()
    KEPT.update((name, txn[name]) for name in ("number", "text", "empty"))
    INFO.update((name, relation.info) for name, relation in KEPT.items())
    txn["number"].insert([(0, 1)])
    txn["text"].insert([(7000, "one more")])
    if commit:
        txn.commit()
    else:
        txn.rollback()
    return txn


@pytest.fixture
def store(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("number", "x: int64, y: int64", scans=["sum:y"]).insert([(i, i) for i in range(1, 20_000)])
            txn.create("text", "x: int64, t: string").insert(ROWS)
            txn.create("empty", "x: int64, y: int64")
        yield store


def test_all_that_is_public_is_tried():
    """`catalog` only says what there was."""
    public = {name for name in vars(Transaction) if not name.startswith("_")}
    assert public - {"rollback", "catalog"} <= USES.keys()


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("commit", [True, False])
def test_what_has_ended_changes_nothing(store, commit, use):
    txn = ended(store, commit)
    rows = {name: list(relation) for name, relation in store.snapshot().items()}
    with pytest.raises(ClosedError, match="the transaction has ended; begin another"):
        USES[use](txn)
    txn.rollback()
    for i in range(6):
        with store.transaction() as later:
            later["number"].insert([(30_000 + i, 0)])
            later["text"].insert([(30_000 + i, f"later {i}")])
    assert not store.check()
    rows["number"] += [(30_000 + i, 0) for i in range(6)]
    rows["text"] += [(30_000 + i, f"later {i}") for i in range(6)]
    assert {name: list(relation) for name, relation in store.snapshot().items()} == rows


def test_a_sketch_that_has_ended(store):
    sketch = store.sketch()
    assert isinstance(sketch, Sketch)
    relation = sketch["text"]
    sketch.rollback()
    with pytest.raises(ClosedError, match="begin another"):
        relation.insert(LATER)
    with pytest.raises(ClosedError, match="begin another"):
        list(relation)
