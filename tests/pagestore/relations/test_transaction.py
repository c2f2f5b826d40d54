"""Transactions, and objects that outlive them: relations, ended transactions, transactions
carried through a fork.
"""

import os

import numpy as np
import pytest

import pagestore
from pagestore.errors import ClosedError, CorruptionError, ForkError, MissingError, SchemaError
from pagestore.host import SET
from pagestore.relations.transaction import EphemeralTransaction, Transaction
from pagestore.trees.build import bulk
from pagestore.trees.edit import EditQueue
from pagestore.trees.read import read_batches
from tests.support.calls import interrupted_at

ROWS = [(i, f"text {i % 50}") for i in range(3000)]
LATER = [(i, f"new {i}") for i in range(5000, 6000)]

USES = {
    "create": lambda txn: txn.create("more", "x: int64"),
    "create_intervals": lambda txn: txn.create_intervals("more", "a: int64, b: int64", ("a", "b")),
    "create_words": lambda txn: txn.create_words("$more", 1),
    "add_scan": lambda txn: txn.add_scan("number", "count"),
    "drop_scan": lambda txn: txn.drop_scan("number", "sum:y"),
    "drop": lambda txn: txn.drop("number"),
    "add_column": lambda txn: txn.add_column("number", "z: int64", 0),
    "drop_column": lambda txn: txn.drop_column("number", "y"),
    "rename_column": lambda txn: txn.rename_column("number", "y", "z"),
    "refuse_nulls": lambda txn: txn.refuse_nulls("number", ["y"]),
    "rename": lambda txn: txn.rename("number", "amount"),
    "truncate": lambda txn: txn.truncate("number"),
    "properties": lambda txn: txn.properties.update(a="b"),
    "pages": lambda txn: txn.pages,
    "threads": lambda txn: txn.threads,
    "version": lambda txn: txn.version,
    "tree": lambda txn: txn.tree("number"),
    "finder": lambda txn: txn.finder("number"),
    "edit": lambda txn: txn.edit(INFO["number"], np.zeros(1, np.int64), np.ones((2, 1), np.int64)),
    "apply": lambda txn: txn.apply("number", np.zeros(1, np.int64), np.ones((2, 1), np.int64)),
    "apply_indexed": lambda txn: txn.apply_indexed(
        ("number",), np.zeros((1, 2), np.int64), np.zeros(1, np.int64), np.ones((2, 1), np.int64)
    ),
    "edit_queues": lambda txn: txn.edit_queues(
        [EditQueue(("number",), np.zeros((1, 2), np.int64), 2)]
    ),
    "flush": lambda txn: txn.flush(None, None),
    "replace": lambda txn: txn.replace("number", None),
    "bulk": lambda txn: txn.bulk(INFO["empty"], [np.ones((2, 1), np.int64)]),
    "declare_maintained": lambda txn: txn.declare_maintained("me"),
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
            txn.create("number", "x: int64, y: int64", scans=["sum:y"]).insert(
                [(i, i) for i in range(1, 20_000)]
            )
            txn.create("text", "x: int64, t: string").insert(ROWS)
            txn.create("empty", "x: int64, y: int64")
        yield store
    KEPT.clear()


def test_all_that_is_public_is_tried():
    """Every public member of an ended transaction raises, except `catalog`, which only says what
    there was.
    """
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
    assert isinstance(sketch, EphemeralTransaction)
    relation = sketch["text"]
    sketch.rollback()
    with pytest.raises(ClosedError, match="begin another"):
        relation.insert(LATER)
    with pytest.raises(ClosedError, match="begin another"):
        list(relation)


def test_a_handle_follows_its_relation(store):
    """A relation's handle sees scans added and dropped; it does not become another relation of
    the same name.
    """
    with store.transaction() as txn:
        kept = txn["empty"]
        txn.add_scan("empty", "count")
        assert kept.bulk([[np.arange(9), np.arange(9)]]) == 9
        assert kept.scans == ["count"] and kept.rank((4,)) == 4
        txn.drop_scan("empty", "count")
        kept.insert([(10, 10)])
        assert len(kept) == 10
        txn.drop("empty")
        with pytest.raises(
            MissingError, match="'empty' was dropped, or undone with a savepoint; ask"
        ):
            kept.insert([(11, 11)])
        wide = txn.create("empty", "x: int64, y: int64, z: int64")
        for use in (
            lambda: kept.insert([(11, 11)]),
            lambda: list(kept),
            lambda: kept.get((11, 11)),
            lambda: len(kept),
        ):
            with pytest.raises(
                MissingError, match="'empty' was dropped, or undone with a savepoint; ask"
            ):
                use()
        wide.insert([(1, 2, 3)])
        assert txn["empty"] is wide
    assert not store.check() and list(store.snapshot()["empty"]) == [(1, 2, 3)]


def test_a_handle_of_what_was_undone(store):
    with store.transaction() as txn:
        with pytest.raises(ZeroDivisionError), txn.savepoint():
            undone = txn.create("more", "x: int64")
            undone.insert([(1,)])
            raise ZeroDivisionError
        with pytest.raises(
            MissingError, match="'more' was dropped, or undone with a savepoint; ask"
        ):
            undone.insert([(2,)])
    assert not store.check() and "more" not in store.snapshot()


def test_an_iterator_whose_snapshot_was_closed(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off", retain=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([np.arange(200_000)])
        with store.snapshot() as snapshot:
            rows = iter(snapshot["r"])
            next(rows)
        with pytest.raises(ClosedError, match="the snapshot of version 1 is closed; take another"):
            list(rows)
        kept = store.snapshot()
    with pytest.raises(ClosedError, match="is closed; open it again"):
        list(kept["r"])


def test_a_transaction_that_came_through_a_fork(store):
    """The child can neither write a page nor commit; the parent goes on."""
    txn = store.transaction()
    txn["number"].insert([(90_000, 0)])
    assert len(txn["number"]) == 20_000
    child = os.fork()
    if not child:
        refused = 0
        txn["number"].delete([(i, i) for i in range(9000)])  # only remembered
        for use in (lambda: len(txn["number"]), txn.commit):
            try:
                use()
            except ForkError:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    txn.commit()
    for i in range(6):
        with store.transaction() as later:
            later["number"].insert([(91_000 + i, 0)])
    assert not store.check() and len(store.snapshot()["number"]) == 20_006


def test_a_difference_both_ways_with_texts(tmp_path):
    """The older version does not know the younger one's texts, nor one branch those of the
    other.
    """
    with pagestore.open(tmp_path / "s.pages", sync="off", retain="all") as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64, t: string", key="x").insert([(1, "a")])
        store.branch("other")
        with store.transaction() as txn:
            txn["r"].set([(1, "b")])
        with store.transaction(branch="other") as txn:
            txn["r"].set([(1, "c")])

        def texts(a, b):
            return [
                (row["t"], row["_change_type"])
                for row in store.diff(a, b, "r").read_all().to_pylist()
            ]

        assert texts(1, 2) == [("a", "delete"), ("b", "insert")] and texts(2, 1) == [
            ("b", "delete"),
            ("a", "insert"),
        ]
        assert texts("main", "other") == [("b", "delete"), ("c", "insert")]
        assert texts("other", "main") == [("c", "delete"), ("b", "insert")]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_transaction_that_ends_inside_a_savepoint(store, end):
    rows = len(store.snapshot()["number"])
    with store.transaction() as txn, txn.savepoint(), txn.savepoint():
        txn["number"].insert([(-1, 1)])
        getattr(txn, end)()
    with pytest.raises(ZeroDivisionError) as raised, store.transaction() as txn, txn.savepoint():
        txn["number"].insert([(-2, 1)])
        getattr(txn, end)()
        raise ZeroDivisionError
    assert raised.value.__context__ is None
    assert len(store.snapshot()["number"]) == rows + 2 * (end == "commit")


def test_properties_that_were_taken_before_a_savepoint(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            properties = txn.properties
            properties["a"] = "1"
            with txn.savepoint():
                properties["b"] = "2"
            properties["c"] = "3"
            with pytest.raises(ZeroDivisionError), txn.savepoint():
                properties["d"] = "4"
                raise ZeroDivisionError
            properties["e"] = "5"
            with pytest.raises(ZeroDivisionError), txn.savepoint():
                txn.properties["f"] = "6"
                raise ZeroDivisionError
        assert store.snapshot().properties == {"a": "1", "b": "2", "c": "3", "e": "5"}
        with store.transaction() as txn, pytest.raises(ZeroDivisionError), txn.savepoint():
            txn.properties["g"] = "7"
            raise ZeroDivisionError
        assert store.snapshot().properties == {"a": "1", "b": "2", "c": "3", "e": "5"}


@pytest.mark.parametrize(
    "rows", [np.zeros((1, 3), np.int64), np.zeros((2, 2), np.int64), np.zeros((2, 3))]
)
def test_words_of_another_shape(store, rows):
    with (
        store.transaction() as txn,
        pytest.raises(SchemaError, match=r"'number' takes words int64\[2, 3\] here, not"),
    ):
        txn.apply("number", np.zeros(3, np.int64), rows)


def test_a_schema_with_another_key(store):
    with store.transaction() as txn:
        assert txn.create("keyed", txn["number"].schema, key="x").schema.key == ("x",)
        assert txn.create("same", txn["keyed"].schema).schema.key == ("x",)


def test_a_relation_has_no_hidden_name(store):
    with store.transaction() as txn:
        with pytest.raises(SchemaError, match=r"'\$x': a name with \$ in front is a hidden tree's"):
            txn.create("$x", "k: int64")
        txn.create_words("$x", 1)


@pytest.mark.parametrize("sync", ["commit", "full"])
def test_an_interrupt_of_a_commit_says_whether_it_was_made(tmp_path, sync):
    """At each line of it, as the first that a new handle makes, and as a later one."""
    made = 0
    for line in range(1, 100):
        path = tmp_path / f"{line}.pages"
        with pagestore.open(path, sync=sync, threads=1) as store:
            for before in range(2):
                with store.transaction() as txn:
                    if not before:
                        txn.create("r", "k: int64")
                    txn["r"].insert([(before,)])
        with pagestore.open(path, sync=sync, threads=1) as store:
            for row in (2, 3):
                version, rows = store.version, [*store.snapshot()["r"]]
                with interrupted_at(line, "commit") as came, store.transaction() as txn:
                    txn["r"].insert([(row,)])
                is_made = store.version > version
                notes = [f"the transaction was committed, as version {version + 1}"]
                if came:
                    assert getattr(came[0], "__notes__", []) == (notes if is_made else [])
                    made += is_made
                assert [*store.snapshot()["r"]] == ([*rows, (row,)] if is_made else rows)
                assert store._handle.committer.is_complete
            assert store.check() == []
        if not came:
            break
    assert 10 < line < 99 and made > 4


def test_a_tree_from_before_a_change_is_read_while_pages_are_kept(store):
    """Else its pages, which this transaction wrote and replaced, have other trees by then."""
    rows = np.stack([np.arange(300_000), np.arange(300_000)])
    scattered = rows[:, ::100] + np.array([[0], [1]])

    def read_after(txn: Transaction, name: str) -> np.ndarray:
        spec = txn.create_words(name, 1, 1).spec
        txn.replace(name, bulk(txn.pager, spec, [rows]))
        old = txn.tree(name)
        txn.apply(name, np.full(scattered.shape[1], SET, np.int8), scattered)
        for _ in range(4):
            bulk(txn.pager, spec, [rows])
        return np.concatenate([*read_batches(txn.pages, old)], axis=1)

    with store.transaction() as txn, txn.keeping_pages():
        assert np.array_equal(read_after(txn, "$kept"), rows)
    with pytest.raises(CorruptionError), store.transaction() as txn:
        read_after(txn, "$used again")
