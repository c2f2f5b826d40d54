"""The public surface: transactions, relations, versions; and the errors for bad input."""

import datetime as dt
import gc
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from decimal import Decimal
from itertools import count

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c

import pagestore
from pagestore.admin import check
from pagestore.admin import vacuum as compact
from pagestore.admin.tree_check import Violation
from pagestore.errors import (
    ClosedError,
    CorruptionError,
    EditError,
    ExistsError,
    FormatError,
    LockedError,
    MissingError,
    OrderError,
    ReadOnlyError,
    RetainedError,
    SchemaError,
    TransactionError,
    VersionError,
    WordError,
)
from pagestore.pages.layout import CRC, ID
from pagestore.relations import transaction
from pagestore.relations.transaction import EphemeralTransaction
from pagestore.storage.mapping import GROWTH_MIN
from pagestore.storage.meta import Meta, unpack
from pagestore.store import empty_store
from pagestore.trees.read import pages_of
from tests.support.file_systems import largest_file
from tests.support.waiting import joined


@pytest.fixture
def store(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("edge", "x: int64, y: int64").insert([(1, 2), (2, 3), (3, 1)])
            txn.create("price", "item: string, price: decimal(9,2)", key="item").insert(
                [("tea", Decimal("3.50"))]
            )
        yield store


# --- transactions -------------------------------------------------------------------------------


def test_a_transaction_reads_its_own_writes_and_others_do_not(store):
    before = store.snapshot()
    with store.transaction() as txn:
        txn["edge"].insert([(9, 9)])
        assert (9, 9) in txn["edge"]
        assert (9, 9) not in before["edge"]
        assert (9, 9) not in store.snapshot()["edge"]
    assert (9, 9) in store.snapshot()["edge"]
    assert (9, 9) not in before["edge"]


def test_rollback_leaves_nothing(store):
    with pytest.raises(ZeroDivisionError), store.transaction() as txn:
        txn.create("new", "s: string").insert([("a new text",)])
        txn["edge"].delete([(1, 2)])
        txn.properties["p"] = "q"
        _ = 1 / 0
    snapshot = store.snapshot()
    assert snapshot.version == 1
    assert "new" not in snapshot
    assert snapshot.properties == {}
    assert (1, 2) in snapshot["edge"]
    assert snapshot.encode("string", ["a new text"]).tolist() == [0]


def test_savepoints_nest(store):
    with store.transaction() as txn:
        txn["edge"].insert([(10, 10)])
        with txn.savepoint():
            txn["edge"].insert([(11, 11)])
            with pytest.raises(KeyError), txn.savepoint():
                txn["edge"].delete([(10, 10), (11, 11)])
                txn.drop("price")
                raise KeyError
            assert (11, 11) in txn["edge"]
    assert list(store.snapshot()["edge"])[-2:] == [(10, 10), (11, 11)]
    assert "price" in store.snapshot()
    assert store.check() == []


def test_edits_of_one_transaction_apply_in_order(store):
    with store.transaction() as txn:
        price = txn["price"]
        price.insert([("tea", Decimal("9.99"))])  # there already
        price.set([("coffee", Decimal("4"))])
        price["coffee"] = Decimal("5")
        price.insert([("cake", Decimal("1"))])
        del price["cake"]
    assert dict(store.snapshot()["price"]) == {"tea": Decimal("3.50"), "coffee": Decimal("5.00")}


def test_add_counts_up_and_down(store):
    with store.transaction() as txn:
        count = txn.create("count", "k: int64, n: int64", key="k")
        count.add([(1, 2), (2, 1), (1, 3)])
        count.add([(2, -1)])
        assert list(count) == [(1, 5)]
        count.add([(1, -6)])
        with pytest.raises(EditError):
            len(count)
        assert list(count) == [(1, 5)]


def test_adding_and_setting_take_turns(store):
    with store.transaction() as txn:
        count = txn.create("count", "k: int64, n: int64", key="k")
        count.set([(1, 5), (2, 2)])
        count.add([(1, 3)])
        count.add([(1, 1), (2, -2), (3, 9)])
        count.delete([(3,)])
        count.insert([(1, 0), (3, 1), (4, 1)])
        count.add([(3, 1)])
    assert list(store.snapshot()["count"]) == [(1, 9), (3, 2), (4, 1)]
    with store.transaction() as txn:
        txn["count"].set([(1, 50), (5, 5)])
        txn["count"].add([(1, -51)])
        with pytest.raises(EditError, match=r"key \(1,\).*below 0"):
            len(txn["count"])
        assert list(txn["count"]) == [(1, 9), (3, 2), (4, 1)]
    assert store.check() == []


def test_deleting_whole_records_spares_other_values(store):
    with store.transaction() as txn:
        txn["price"].delete([("tea", Decimal("9.00"))])
        assert len(txn["price"]) == 1
        txn["price"].delete([("tea", Decimal("3.50"))])
        assert len(txn["price"]) == 0


def test_threads_take_turns(store):
    def add(k):
        for i in range(20):
            with store.transaction() as txn:
                txn["edge"].insert([(100 + k, i)])

    threads = [threading.Thread(target=add, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    joined(*threads)
    assert len(store.snapshot()["edge"]) == 83
    assert store.version == 81
    assert store.check() == []


def test_a_compaction_leaves_the_pages_of_another_threads_transaction_alone(store, monkeypatch):
    """It began after the compaction had dropped versions, and holds pages when the compaction
    waits for it.
    """
    begin, vacuum = transaction.begin_transaction, compact._vacuum
    begun, waited_for = threading.Event(), threading.Event()

    def write():
        with store.transaction() as txn:
            for first in (0, 10_000):
                txn["edge"].insert([np.arange(first, first + 10_000), np.zeros(10_000, np.int64)])
                assert len(txn["edge"]) == first + 10_003
                begun.set()
                assert waited_for.wait(60)

    def begin_compacting(*args):
        if begun.is_set():
            waited_for.set()
            joined(writer)
            assert store.check() == []
        return begin(*args)

    def vacuum_before_another_writes(handle):
        vacuum(handle)
        # what the compaction frees then is at the front, where the other one goes on
        if next(vacuums) == 2:
            writer.start()
            assert begun.wait(60)

    vacuums, writer = count(1), threading.Thread(target=write)
    monkeypatch.setattr(compact, "begin_transaction", begin_compacting)
    monkeypatch.setattr(compact, "_vacuum", vacuum_before_another_writes)
    store.compact()
    assert store.check() == []
    assert len(list(store.snapshot()["edge"])) == 20_003


def test_bulk_streams_ascending_batches(store):
    with store.transaction() as txn:
        big = txn.create("big", "k: int64, v: float64", key="k")
        assert (
            big.bulk(
                [
                    {"k": np.arange(i, i + 1000), "v": np.arange(1000.0)}
                    for i in range(0, 50_000, 1000)
                ]
            )
            == 50_000
        )
        with pytest.raises(OrderError, match="record 2"):
            txn.create("bad", "k: int64").bulk([[1, 2], [2]])
        assert len(txn["bad"]) == 0
    assert store.snapshot()["big"][49_999] == 999.0
    assert store.check() == []


# --- relations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        [(7, 8), (8, 9)],
        [np.array([7, 8]), np.array([8, 9])],
        np.array([[7, 8], [8, 9]]),
        {"y": [8, 9], "x": [7, 8]},
        pa.table({"y": [8, 9], "x": [7, 8]}),
        pa.table({"x": pa.chunked_array([[7], [8]], pa.int32()), "y": [8, 9]}),
    ],
)
def test_rows_in_every_form(store, rows):
    with store.transaction() as txn:
        txn["edge"].insert(rows)
        assert list(txn["edge"].range((7,))) == [(7, 8), (8, 9)]
        txn["edge"].delete(rows)
        assert len(txn["edge"]) == 3


def test_many_keys_at_once(store):
    with store.transaction() as txn:
        txn["price"].set([("milk", Decimal("1")), ("rye", Decimal("2"))])
        txn.create("name", "id: int64, name: string, ok: bool", key="id").insert(
            [(1, "a", True), (3, "b", False)]
        )
        txn.create("single", "s: string").insert(["one", "two"])
    snapshot = store.snapshot()
    found, columns = snapshot["price"].get_many(["rye", "gold", "tea"])
    assert found.tolist() == [True, False, True]
    assert columns["price"].tolist() == [Decimal("2.00"), Decimal("0.00"), Decimal("3.50")]
    found, columns = snapshot["name"].get_many(np.array([3, 2, 1]))
    assert columns["name"].tolist() == ["b", "", "a"]
    assert columns["ok"].tolist() == [False, False, True]
    found, columns = snapshot["edge"].range((2,)).get_many([(1, 2), (2, 3), (2, 4)])
    assert (found.tolist(), columns) == ([False, True, False], {})
    assert snapshot["single"].get_many(pa.table({"s": ["two", "three"]}))[0].tolist() == [
        True,
        False,
    ]


def test_ranges(store):
    edge = store.snapshot()["edge"]
    assert list(edge.range((2,))) == [(2, 3), (3, 1)]
    assert list(edge.range((), (2,))) == [(1, 2)]
    assert list(edge.range((1,), (3,)).range((2,), (9,))) == [(2, 3)]
    assert len(edge.range((1, 3), (3, 1))) == 1
    assert list(edge[2:3]) == [(2, 3)]
    assert (2, 3) in edge.range((2,), (3,))
    assert (3, 1) not in edge.range((2,), (3,))
    assert not edge.range((5,), (9,))
    assert not edge.range((3,), (1,))


def test_every_type_comes_back(store):
    row = (
        1,
        2.5,
        True,
        dt.date(2020, 2, 29),
        dt.datetime(1969, 7, 20, 20, 17),
        Decimal("-12.340"),
        "héllo",
        b"\0\xff",
    )
    schema = (
        "i: int64, f: float64, b: bool, d: date, t: timestamp, n: decimal(7,3), s: string, y: bytes"
    )
    with store.transaction() as txn:
        txn.create("all", schema).insert([row])
    relation = store.snapshot()["all"]
    assert list(relation) == [row]
    assert row in relation
    assert relation.to_arrow().schema == relation.schema.arrow
    columns = relation.to_numpy()
    assert [columns[c].dtype.kind for c in "ifbdtnsy"] == list("ifbMMOOO")


def test_a_key_of_sixteen_columns(store):
    schema = ", ".join(f"c{i}: int64" for i in range(16))
    rows = [tuple((i >> b) & 1 for b in range(16)) for i in range(0, 65536, 97)]
    with store.transaction() as txn:
        txn.create("wide", schema).insert(rows)
    assert list(store.snapshot()["wide"]) == sorted(rows)
    assert list(store.snapshot()["wide"].range((1, 0, 1))) == [
        row for row in sorted(rows) if row >= (1, 0, 1)
    ]
    assert store.check() == []


def test_long_texts_and_empty_ones(store):
    texts = ["", "x", "y" * 6, "z" * 7, "a" * 1023, "b" * 1024, "ü" * 5000, "\0", "c" * 2_000_000]
    with store.transaction() as txn:
        txn.create("texts", "t: string, n: int64", key="t").insert(
            [(t, i) for i, t in enumerate(texts)]
        )
    relation = store.snapshot()["texts"]
    assert dict(relation) == {t: i for i, t in enumerate(texts)}
    assert [relation[t] for t in texts] == list(range(len(texts)))
    assert store.check() == []
    assert store.path.stat().st_size < 1_500_000  # long ones are compressed


def test_other_libraries_read_and_write_through_arrow(store):
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    edge = store.snapshot()["edge"]
    wanted = [(1, 2), (2, 3), (3, 1)]
    assert [tuple(row.values()) for row in pa.table(edge).to_pylist()] == wanted
    assert polars.DataFrame(edge).rows() == wanted
    assert duckdb.sql("select sum(x), sum(y) from edge").fetchall() == [(6, 6)]
    frame = pandas.DataFrame({"x": [5], "y": [6]})
    with store.transaction() as txn:
        txn["edge"].insert(frame)
        txn["edge"].insert(polars.DataFrame({"y": [7], "x": [6]}))
        txn["price"].insert(polars.DataFrame({"item": ["milk"], "price": [Decimal("1.25")]}))
    assert list(store.snapshot()["edge"].range((5,))) == [(5, 6), (6, 7)]
    assert store.snapshot()["price"]["milk"] == Decimal("1.25")


def test_html_escapes(store):
    with store.transaction() as txn:
        txn["price"].insert([("<b>", Decimal(1))])
    html = store.snapshot()["price"]._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


# --- versions -----------------------------------------------------------------------------------


def test_versions_by_number_tag_branch_and_time(store):
    times = [store.snapshot().timestamp]
    for k in range(3):
        with store.transaction(message=f"k={k}") as txn:
            txn["edge"].insert([(k, 100)])
        times.append(store.snapshot().timestamp)
    store.tag("first", 1)
    store.branch("side", 2)
    assert len(store.at("first")["edge"]) == 3
    assert store.at("side").version == 2
    assert store.at(times[2]).version == 3
    assert store.at(times[2] - dt.timedelta(microseconds=1)).version == 2
    assert [v.message for v in store.history(limit=2)] == ["k=2", "k=1"]
    with pytest.raises(VersionError, match="as old"):
        store.at(dt.datetime(1990, 1, 1))
    with pytest.raises(VersionError, match="not retained"):
        store.at(77)
    with pytest.raises(MissingError, match="'nope'"):
        store.at("nope")


def test_branches_are_written_apart(store):
    store.branch("what-if")
    assert store.history(branch="what-if") == []
    with store.transaction(branch="what-if") as txn:
        txn["edge"].insert([(50, 50)])
        txn["price"].set([("tea", Decimal("1")), ("only here", Decimal("2"))])
    with store.transaction() as txn:
        txn["edge"].delete([(1, 2)])
        txn["price"].insert([("only here", Decimal("2"))])
    assert store.branches == {"main": 3, "what-if": 2}
    rows = store.diff("main", "what-if", "edge").read_all().to_pylist()
    assert rows == [
        {"x": 1, "y": 2, "_change_type": "insert"},
        {"x": 50, "y": 50, "_change_type": "insert"},
    ]
    # tea goes and comes; the other is equal
    assert store.diff("main", "what-if", "price").read_all().num_rows == 2
    with pytest.raises(RetainedError, match="cannot be deleted"):
        store.delete_branch("main")
    store.delete_branch("what-if")
    assert store.branches == {"main": 3}
    assert store.check() == []


def test_a_vacuum_that_makes_the_file_longer_cuts_nothing(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store:
        assert store.vacuum().bytes_cut == 0


def test_vacuum_refuses_what_is_needed(store):
    for k in range(5):
        with store.transaction() as txn:
            txn["edge"].insert([(k, 100)])
    store.tag("kept", 2)
    with store.at(3), pytest.raises(RetainedError, match="snapshot"):
        store.vacuum(drop=[3])
    with pytest.raises(RetainedError, match="tag 'kept'"):
        store.vacuum(drop=[2])
    with pytest.raises(RetainedError, match="newest"):
        store.vacuum(drop=[6])
    assert store.vacuum(drop=[3], dry_run=True).dropped == (3,)
    assert store.vacuum(drop=[3]).dropped == (3,)
    with pytest.raises(VersionError):
        store.vacuum(drop=[3])


def test_a_catalog_in_the_place_of_another_is_told_apart(tmp_path):
    """Properties of one length, so that catalogs take each other's pages as versions come and
    go.
    """
    with pagestore.open(tmp_path / "s.pages", sync="off", retain=2) as store:
        reader = pagestore.open(store.path, mode="r")
        for n in range(100, 160):
            with store.transaction() as txn:
                txn.properties["n"] = str(n)
            for handle in (reader, store):
                store._handle._versions.clear()
                for info in handle.history()[:2]:
                    if info.version:
                        assert handle.at(info.version).properties == {"n": str(info.version + 99)}


def test_a_disk_with_little_left_is_used(tmp_path):
    """The disk has less room than a file of this size grows by, and yet versions can be made and
    dropped.
    """
    path, numbers = (
        tmp_path / "s.pages",
        np.random.default_rng(1).integers(1 << 62, size=(2, 500_000)),
    )
    with pagestore.open(path, page_size=4096) as store, store.transaction() as txn:
        txn.create("r", "x: int64, y: int64").insert([*numbers])
    size = path.stat().st_size  # nothing to spare is left in it
    assert size // 8 > 3 * GROWTH_MIN
    with pagestore.open(path) as store:
        with largest_file(size + 3 * GROWTH_MIN):
            with store.transaction() as txn:
                txn["r"].delete([*numbers[:, :20]])
            store.vacuum(keep_versions=1)
        assert not store.check()


def test_retention(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off", retain=3) as store:
        for k in range(10):
            with store.transaction() as txn:
                txn.create(f"r{k}", "x: int64")
        assert [v.version for v in store.history()] == [10, 9, 8]
        store.retain = "all"
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        assert store.retain == "all"


def test_properties_and_hidden_trees(store):
    with store.transaction() as txn:
        txn.properties["rules"] = "p(x) <- q(x)."
        txn.properties["blob"] = b"\0\1"
        txn.create_words("$index", keys=2, values=1)
        _, rows = txn.apply("$index", np.array([0, 0]), np.array([[2, 1], [5, 6], [7, 8]]))
        assert rows.tolist() == [[1, 2], [6, 5], [8, 7]]
    snapshot = store.snapshot()
    assert snapshot.properties == {"rules": "p(x) <- q(x).", "blob": b"\0\1"}
    assert list(snapshot) == ["edge", "price"]
    assert snapshot.tree("$index").count == 2
    assert [batch.tolist() for batch in snapshot["$index"].words()] == [[[1, 2], [6, 5], [8, 7]]]


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"SQLite format 3\0" * 1000, FormatError, "begins with b'SQLite f'"),
        (bytes(20_000), CorruptionError, "neither meta slot"),
        (empty_store(4096)[:9000], CorruptionError, "cut off"),
        (
            empty_store(4096).replace(b"pageSTR\0\4", b"pageSTR\0\5"),
            (FormatError, CorruptionError),
            "slot|format",
        ),
    ],
)
def test_files_that_are_no_store(tmp_path, content, error, words):
    path = tmp_path / "f.pages"
    path.write_bytes(content)
    for mode in ("r", "rw"):
        with pytest.raises(error, match=words):
            pagestore.open(path, mode=mode)
    assert path.read_bytes() == content


def test_a_newer_format_is_named(tmp_path):
    path = tmp_path / "f.pages"
    store = empty_store(4096)
    slot = unpack(store)
    path.write_bytes(store.replace(slot.pack(), slot._replace(format=9).pack()))
    with pytest.raises(FormatError, match="format 9"):
        pagestore.open(path)


def test_opening(tmp_path, store):
    with pytest.raises(FormatError, match="8192 bytes, not 4096"):
        store.close()
        pagestore.open(store.path, page_size=4096)
    for size in (5000, 0, 8192.0, "8192"):
        with pytest.raises(FormatError, match=f"page_size={size!r}: a power of two"):
            pagestore.open(tmp_path / "new.pages", page_size=size)
        assert not (tmp_path / "new.pages").exists()
    for threads in (0, -1, 1.5, "2"):
        with pytest.raises(ValueError, match=f"threads={threads!r}: a number of threads from 1 on"):
            pagestore.open(tmp_path / "new.pages", threads=threads)
        assert not (tmp_path / "new.pages").exists()
    with pytest.raises(FileNotFoundError):
        pagestore.open(tmp_path / "none.pages", mode="r")
    with pytest.raises(FileNotFoundError):
        pagestore.open(tmp_path / "none.pages", create=False)
    with pytest.raises(FileNotFoundError):
        pagestore.open(tmp_path / "no folder" / "none.pages")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.pages"]


def test_a_store_is_made_beside_what_others_left(tmp_path):
    left = tmp_path / f".new.pages.{os.getpid()}.new"
    left.write_bytes(b"another's")
    pagestore.open(tmp_path / "new.pages").close()
    assert left.read_bytes() == b"another's"
    assert sorted(path.name for path in tmp_path.iterdir()) == [left.name, "new.pages"]


def test_threads_that_make_one_store(tmp_path):
    def make(n):
        together.wait()
        try:
            pagestore.open(tmp_path / f"{n}.pages").close()
        except LockedError:
            return "locked"  # the other one made it, and has it open
        return "made"

    together = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        for n in range(20):
            assert "made" in list(pool.map(make, [n] * 4))
    assert all(path.name.endswith("s") for path in tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder(tmp_path, store):
    store.close()
    os.chmod(tmp_path, 0o500)
    os.chmod(store.path, 0o400)
    try:
        with pytest.raises(PermissionError):
            pagestore.open(tmp_path / "new.pages")
        with pagestore.open(store.path, mode="r") as reader:
            assert len(reader.snapshot()["edge"]) == 3
    finally:
        os.chmod(tmp_path, 0o700)


def test_readers_cannot_write(store):
    with pagestore.open(store.path, mode="r") as reader:
        for change in (
            reader.transaction,
            lambda: reader.tag("t"),
            reader.vacuum,
            lambda: reader.branch("b"),
        ):
            with pytest.raises(ReadOnlyError, match='mode="rw"'):
                change()


def test_a_sketch_that_is_abandoned_holds_nothing(store):
    gc.collect()  # what other tests have left
    open_files = set(os.listdir("/proc/self/fd"))
    for end in (EphemeralTransaction.rollback, lambda sketch: None):
        sketch = store.sketch()
        sketch["edge"].insert([(8, 8)])
        end(sketch)
        del sketch
        gc.collect()
        assert set(os.listdir("/proc/self/fd")) == open_files
    assert not store._handle.locks.pins


def test_one_transaction_at_a_time(store):
    with store.transaction() as txn:
        with pytest.raises(TransactionError):
            store.transaction()
        with pytest.raises(TransactionError):
            store.tag("t")
        txn.rollback()
    with pytest.raises(ClosedError):
        txn["edge"].insert([(1, 1)])
    with pytest.raises(ClosedError):
        txn.commit()
    with store.transaction(), pagestore.open(store.path) as other:
        with pytest.raises(LockedError):
            other.transaction(timeout=0)
        with pytest.raises(LockedError):
            pagestore.open(store.path, exclusive=True)


def test_ended_things_say_so(store):
    snapshot = store.snapshot()
    edge = snapshot["edge"]
    assert (9, 9) not in edge
    snapshot.close()
    with pytest.raises(ClosedError, match="version 1 is closed"):
        list(edge)
    with pytest.raises(ClosedError, match="version 1 is closed"):
        edge.__contains__((9, 9))
    store.close()
    with pytest.raises(ClosedError, match="closed"):
        store.snapshot()


def test_names(store):
    with store.transaction() as txn:
        with pytest.raises(ExistsError, match="'edge'"):
            txn.create("edge", "x: int64")
        with pytest.raises(MissingError, match="there is edge, price"):
            txn["egde"].insert([(1, 2)])
        with pytest.raises(MissingError):
            txn.drop("nope")
        with pytest.raises(SchemaError):
            txn.create_words("index", 1)
    with pytest.raises(MissingError, match="'nope'"):
        store.snapshot()["nope"]
    store.tag("t")
    for name, error in (("t", ExistsError), ("12", SchemaError), ("", SchemaError)):
        with pytest.raises(error):
            store.tag(name)
    with pytest.raises(MissingError):
        store.untag("nope")
    with pytest.raises(ExistsError):
        store.branch("t")


STRAY = "caf\udce9"  # how a byte of a command line that is not UTF-8 comes in


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda store: store.tag(STRAY), "cannot be a tag"),
        (lambda store: store.tag(b"t"), "b't' cannot be a tag"),
        (lambda store: store.branch(STRAY), "cannot be a branch"),
        (lambda store: store.transaction(STRAY), "cannot be a message"),
        (lambda store: store.transaction(b"m"), "b'm' cannot be a message"),
        (lambda store: setattr(store, "retain", 2**64), "retain=18446744073709551616"),
        (lambda store: create(store, STRAY, "x: int64"), "cannot be a relation's name"),
        (lambda store: create(store, "r", f"{STRAY}: int64"), "cannot be a column's name"),
        (lambda store: set_property(store, "a", 1), "1 cannot be a value of property 'a'"),
        (lambda store: set_property(store, "a", STRAY), "cannot be a value of property 'a'"),
        (lambda store: set_property(store, 1, "a"), "1 cannot be a property's name"),
    ],
)
def test_a_name_that_cannot_be_written_leaves_the_store_as_it_was(store, change, words):
    before = store.history(), store.tags, store.branches, store.retain
    with pytest.raises(SchemaError, match=words):
        change(store)
    assert (store.history(), store.tags, store.branches, store.retain) == before
    with store.transaction("après") as txn:
        txn["edge"].insert([(7, 7)])
    store.tag("été")
    assert store.at("été").message == "après" and store.check() == []


def create(store, name, schema):
    with store.transaction() as txn:
        txn.create(name, schema)


def set_property(store, name, value):
    with store.transaction() as txn:
        txn["edge"].insert([(8, 8)])
        txn.properties[name] = value


def test_a_tag_takes_what_at_takes_and_hides_nothing(store):
    store.branch("side")
    for name, version in (
        ("a", "main"),
        ("b", "side"),
        ("c", store.snapshot().timestamp),
        ("d", "a"),
    ):
        store.tag(name, version)
        assert store.tags[name] == 1
    with pytest.raises(ExistsError, match="a branch 'main'"):
        store.tag("main")
    with pytest.raises(MissingError, match="'nope'"):
        store.tag("e", "nope")


def test_two_threads_do_not_give_one_tag_twice(store):
    def tag(name, version):
        together.wait()
        try:
            store.tag(name, version)
        except ExistsError:
            return 0
        return 1

    together = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        for n in range(50):
            assert sum(pool.map(tag, [f"t{n}"] * 2, (0, 1))) == 1


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_versions_that_cannot_be(store, mode):
    with nullcontext(store) if mode == "rw" else pagestore.open(store.path, mode="r") as handle:
        for version in (2, -1, 2**62, -(2**62), 2**70):
            with pytest.raises(VersionError, match=f"{version} is not retained; the newest is 1"):
                handle.at(version)


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ([(1, 2, 3)], SchemaError, "row 0 has 3 values"),
        ([(1, 2), (1,)], SchemaError, "row 1 has 1 values"),
        ([(1, None)], WordError, "'y', row 0: a null"),
        ([(1, 2), (1, "a")], WordError, "'y', row 1"),
        ([(1, 2), (1 << 70, 1)], WordError, "'x', row 1"),
        ([np.array([1, 2]), np.array([1])], SchemaError, "same number"),
        ({"x": [1]}, SchemaError, "column 'y' is missing"),
        (
            pa.table({"x": [1], "z": [1]}),
            SchemaError,
            "column 'y' is missing and the relation has no column 'z'",
        ),
        (
            np.array([[1, 2, 3], [1, 2, 3]]),
            SchemaError,
            "row 0 has 3 values; .* a list of columns is given by columns=",
        ),
    ],
)
def test_rows_that_do_not_fit(store, rows, error, words):
    with store.transaction() as txn:
        with pytest.raises(error, match=words):
            txn["edge"].insert(rows)
        assert len(txn["edge"]) == 3


def test_keys_and_bounds_that_do_not_fit(store):
    edge = store.snapshot()["edge"]
    with pytest.raises(SchemaError, match="more values"):
        edge.range((1, 2, 3))
    with pytest.raises(WordError):
        edge.range(("a",))
    with pytest.raises(SchemaError, match="neither a key nor a record"):
        _ = (1, 2, 3) in edge
    with pytest.raises(KeyError):
        store.snapshot()["price"]["nothing"]
    assert "nothing" not in store.snapshot()["price"]


def test_a_relation_made_anew_has_no_diff(store):
    with store.transaction() as txn:
        txn.drop("edge")
        txn.create("edge", "x: int64, z: int64")
    with pytest.raises(SchemaError, match="made anew"):
        store.diff(1, 2, "edge")


def test_pickle_outside_its_process(store):
    path, version = pickle.loads(pickle.dumps(store.__reduce__()[1]))
    assert (path, version) == (str(store.path), 1)


def test_one_column_of_arrow_is_taken_as_it_is(store):
    with store.transaction() as txn:
        one = txn.create("one", "x: int64")
        one.insert(pa.array([1, 2]))
        one.insert(pa.chunked_array([[3], [4]]))
        two = txn.create("two", "x: int64, y: int64", key="x")
        two.insert([(x, x * x) for x in range(5)])
        assert two.get_many(pa.array([3, 7]))[0].tolist() == [True, False]
        two.delete(pa.array([0, 1]))
        assert (list(one), list(two)) == ([(1,), (2,), (3,), (4,)], [(2, 4), (3, 9), (4, 16)])
        with pytest.raises(SchemaError, match="one column for a relation of 2"):
            two.insert(pa.array([1]))
        with pytest.raises(SchemaError, match="column 'x' occurs twice"):
            two.insert(pa.table([[1], [2], [3]], names=["x", "x", "y"]))


def test_a_relation_is_pickled_without_what_stands_ready_for_scans(store):
    with store.transaction() as txn:
        txn.add_scan("edge", "count")
    relation = store.snapshot()["edge"].range((1,), (3,))
    assert relation.scan("count") == 2
    again = pickle.loads(pickle.dumps(relation))
    assert (again.scan("count"), list(again)) == (relation.scan("count"), list(relation))


def test_a_transaction_is_not_pickled(store):
    with store.transaction() as txn:
        for held in (txn, txn["edge"]):
            with pytest.raises(TransactionError, match="stays in its process"):
                pickle.dumps(held)


def test_a_reader_stays_at_the_commit_that_recovery_found(tmp_path):
    """With sync="commit" a power cut may leave old pages behind a new slot; each of them has its
    checksum.
    """
    path, size, images = tmp_path / "s.pages", 4096, []
    with pagestore.open(path, page_size=size, sync="commit", retain=2) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, v: int64", key="k").insert([(k, 0) for k in range(5000)])
        for version in range(2, 12):
            with store.transaction() as txn:
                txn["r"].set([(k, version) for k in range(0, 5000, 700)])
            images.append(path.read_bytes())
    before, after = images[-2:]
    torn = [
        at
        for at in range(2 * size, len(before), size)
        if before[at : at + size] != after[at : at + size]
    ]
    assert len(torn) > 5
    for at in torn:
        path.write_bytes(after[:at] + before[at : at + size] + after[at + size :])
        with pagestore.open(path, mode="r") as reader:
            assert (reader.version, reader.recovery.version) == (10, 10)
            assert set(reader.snapshot()["r"].to_numpy()["v"].tolist()) == {0, 10}
            with pagestore.open(path, sync="commit") as store:
                assert store.version == 10
                with store.transaction() as txn:
                    txn["r"].set([(k, 99) for k in range(0, 5000, 700)])
                assert reader.version == store.version == 11
                assert set(reader.snapshot()["r"].to_numpy()["v"].tolist()) == {0, 99}


def test_a_check_leaves_out_what_a_writer_moves_meanwhile(store, monkeypatch):
    places = iter(range(100))

    def run(check):
        with store.transaction() as txn:
            txn["edge"].insert([(9, next(places))])
        return [
            Violation("checksum", 7, (), "damaged"),
            Violation("page audit", next(places), (), "moved"),
        ]

    monkeypatch.setattr("pagestore.admin.check.Check.run", run)
    with pagestore.open(store.path, mode="r") as reader:
        assert [violation.fact for violation in reader.check()] == ["damaged"]


def test_figures_are_had_beside_a_writer_that_reuses_pages(tmp_path, monkeypatch):
    writer = pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off", retain=2)
    with writer.transaction() as txn:
        txn.create("r", "k: int64, v: int64", key=("k",)).insert(
            [(k, k * k) for k in range(100_000)]
        )

    def churn_and_move():
        for version in range(60):
            with writer.transaction() as txn:
                txn["r"].set([(k, version) for k in range(version, 100_000, 37)])
            if version == 30:
                writer.compact()

    def free_pages(store):
        if not moved:
            moved.append(True)
            churn_and_move()
        return check.free_pages(store)

    churn_and_move()
    moved: list[bool] = []
    monkeypatch.setattr("pagestore.admin.stat.free_pages", free_pages)
    with writer, pagestore.open(writer.path, mode="r") as reader:
        assert reader.stat().pages == writer._handle.state.commit.top and moved


def test_one_bad_slot_after_a_clean_close_is_reported(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path) as store, store.transaction() as txn:
        txn.create("r", "x: int64").insert([1])
    for slot in (0, 4096):
        data = bytearray(path.read_bytes())
        data[slot + 20] ^= 1
        copy = tmp_path / f"{slot}.pages"
        copy.write_bytes(data)
        with pagestore.open(copy, mode="r") as damaged:
            assert damaged.version == 1
            assert "does not read" in str(damaged.recovery)
            assert [v.invariant for v in damaged.check()] == ["meta slots"]


def test_a_bad_page_is_named_with_its_tree_and_the_way_to_it(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off") as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64, y: int64").insert([(n * n, n) for n in range(20_000)])
        tree = store.snapshot().tree("r")
        leaf = int(pages_of(store.snapshot().pages, tree)[7])
    data = bytearray(path.read_bytes())
    data[leaf * 8192 + 4000] ^= 64
    path.write_bytes(data)
    with pagestore.open(path, mode="r") as store:
        for read in (
            list,
            lambda r: r.to_arrow(),
            lambda r: r.get_many([(n * n, n) for n in range(20_000)]),
        ):
            with pytest.raises(CorruptionError) as caught:
                read(store.snapshot()["r"])
            assert (caught.value.page, caught.value.tree, caught.value.path) == (
                leaf,
                16,
                (tree.root, leaf),
            )


def test_meta_round_trip():
    meta = Meta(8192, bytes(range(16)), 5, 4, 10, 300, 77, False)
    assert len(meta.pack()) == 96


@pytest.mark.parametrize("bad", [1 << 63, -(1 << 63) - 1, 1.5, "1", None])
def test_one_key_of_another_type_or_size_is_refused(tmp_path, bad):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("t", "x: int64, y: int64", key="x").insert([(1, 2)])
        relation = store.snapshot()["t"]
        assert 1 in relation and relation.get(1) == 2 and relation.get(-1) is None
        for ask in (relation.get, relation.__contains__):
            with pytest.raises(WordError):
                ask(bad)


def test_a_branch_whose_versions_were_all_that_is_recent_may_go(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off", retain="all") as store:
        store.branch("other")
        for i in range(100):
            with store.transaction(branch="other") as txn:
                (txn["r"] if i else txn.create("r", "x: int64")).insert([(i,)])
        store.delete_branch("other")
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([(1,)])
        assert not store.check()
        assert [info.version for info in store.history()] == [store.version, 0]


def test_reopening_forgets_texts_that_are_not_on_disk(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off") as store:
        with store.transaction() as txn:
            txn.create("r", "x: string").insert([("first",)])
        before = path.read_bytes()
        with store.transaction() as txn:
            txn["r"].insert([("lost",)])
        with path.open("r+b") as file:
            file.write(before)  # as a disk leaves it that never wrote the commit
        store.reopen()
        with store.transaction() as txn:
            txn["r"].insert([("other",), ("lost",)])
        assert list(store.snapshot()["r"]) == [("first",), ("lost",), ("other",)]
        assert not store.check()


def test_a_key_is_in_its_own_order_and_a_record_in_the_schemas(tmp_path):
    """All columns are the key, in another order than the schema's."""
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        r = txn.create("r", "x: int64, y: int64", key=("y", "x"), scans="count")
        r.insert([(1, 2), (3, 4)])
        r[6, 5] = ()
        assert list(r) == [(1, 2), (3, 4), (5, 6)]
        assert [(x, y) in r for x, y in r] == [True, True, True] and (2, 1) not in r
        assert (
            [r.get((y, x)) for x, y in r] == [(), (), ()]
            and r.get((1, 2)) is None
            and r[6, 5] == ()
        )
        assert r.get_many([(2, 1), (1, 2)])[0].tolist() == [True, False]
        assert list(r.range((2, 1), (2, 9))) == list(r.range((2,), (3,))) == [(1, 2)]
        assert r.rank((4, 3)) == r.rank((4,)) == 1
        assert r.scan_many("count", [(2, 0), (4, 0)], [(2, 9), (9, 9)]).to_pylist() == [1, 2]
        del r[6, 5]
        with pytest.raises(KeyError):
            del r[1, 2]
        r.delete({"y": [4], "x": [3]})
        assert list(r) == [(1, 2)]
        r.delete([(1, 2)])
        assert not len(r)


def test_looking_for_a_text_does_not_keep_it(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create_intervals("booked", "room: string, a: int64, b: int64", ("a", "b")).insert(
                [("x", 1, 2)]
            )
        with store.transaction() as txn:
            assert (
                txn["booked"].stab("never seen", 1)
                == []
                == txn["booked"].overlaps("nor this", 1, 2)
            )
            assert not txn.dictionary.added


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (None, "None is not a list of rows"),
        (5, "5 is not a list of rows"),
        ([(2, 1), 1], r"row 1 is 1; a record is a tuple \(x: int64, y: int64\)"),
        ([(2, 1), {3, 4}], r"row 1 is \{3, 4\}; a record is a tuple"),
    ],
)
def test_what_is_no_list_of_rows(tmp_path, rows, says):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        relation = txn.create("r", "x: int64, y: int64")
        for use in (relation.insert, relation.delete, relation.get_many):
            with pytest.raises(SchemaError, match=says):
                use(rows)


def test_arrays_of_the_other_byte_order(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        relation = txn.create("r", "x: int64, y: float64, z: timestamp")
        columns = [np.arange(3), np.arange(3) / 2, np.arange(3).view("M8[us]")]
        relation.insert([column.astype(column.dtype.newbyteorder()) for column in columns])
        found = relation.to_numpy()
        assert all(
            (found[name] == column).all() for name, column in zip("xyz", columns, strict=True)
        )


def test_decimals_that_add_up_to_more_digits(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            price = txn.create("price", "x: int64, p: decimal(3, 2), n: int64", key="x")
            price.insert([(1, Decimal("9.50"), 1), (2, Decimal("-9.00"), 1)])
            price.add([(1, Decimal("0.49"), 1)])
            for row in ((1, Decimal("0.01"), 1), (2, Decimal("-1.00"), 1)):
                with pytest.raises(
                    WordError, match=r"'p': what is added up has more digits than decimal\(3,2\)"
                ):
                    price.add([(3, Decimal("1.00"), 5), row])
        assert list(store.snapshot()["price"]) == [
            (1, Decimal("9.99"), 2),
            (2, Decimal("-9.00"), 1),
        ]
        assert not store.check()


def test_times_and_limits_that_are_none_are_refused(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store:
        assert store.at(dt.datetime.max).version == 0
        with pytest.raises(VersionError, match="0001-01-01 00:00:00 is out of the range"):
            store.at(dt.datetime.min)
        with pytest.raises(VersionError, match="None is not a version; give a number"):
            store.at(None)
        with pytest.raises(ValueError, match="limit=-1: give a number of versions"):
            store.history(-1)


@pytest.mark.parametrize(
    "ask",
    [
        lambda store, edge: list(edge),
        lambda store, edge: edge.to_numpy(),
        lambda store, edge: (19_999, 139_993) in edge,
        lambda store, edge: edge.range((19_999,)).scan("count"),
        lambda store, edge: edge.select(20_000),
        lambda store, edge: edge.get_many([[19_999, 139_993]]),
        lambda store, edge: store.diff(1, 2, "edge").read_all(),
    ],
)
def test_a_page_of_another_level_is_none(tmp_path, ask):
    """A lost write leaves an older page that is whole and has the right number."""
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off") as store:
        with store.transaction() as txn:
            edge = txn.create("edge", "x: int64, y: int64", scans=["count"])
            edge.insert([(n, 7 * n) for n in range(20_000)])
        with store.transaction() as txn:
            txn["edge"].insert([(19_999, 0)])
        snapshot = store.snapshot()
        tree, words = (
            snapshot.tree("edge"),
            snapshot.pages.words.reshape(-1, snapshot.pages.page_words),
        )
        root, leaf = tree.root, int(pages_of(snapshot.pages, tree)[-1])
        page = words[root].copy()
        page[ID] = leaf
        page[CRC] = crc32c(page[1:].data)
        snapshot.close()
    with open(path, "r+b") as file:
        file.seek(leaf * page.nbytes)
        file.write(page)
    with pagestore.open(path, mode="r") as store, store.snapshot() as snapshot:
        with pytest.raises(CorruptionError, match=f"page {leaf}"):
            ask(store, snapshot["edge"])
        assert {violation.invariant for violation in store.check()} >= {"shape"}


def test_a_history_names_the_version_whose_record_is_lost(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        for n in range(3):
            with store.transaction() as txn:
                (txn["r"] if n else txn.create("r", "k: int64")).insert([n])
        entry = store._handle.entry(2)
        store._handle.file.pwrite(b"\xff" * 8, entry.page * store.page_size + 100)
        with pytest.raises(
            CorruptionError,
            match=f"^page {entry.page}: it holds the record of version 2, which does",
        ):
            store.history()
        assert [info.version for info in store.history(1)] == [3]
