"""Questions: answered in a sketch, which stores nothing, locks nothing and waits for nobody."""

import os
import threading

import pytest

import ivm
import pagestore
from ivm.errors import UnknownViewError
from ivm.rules import stored
from tests.support.waiting import joined

RULES = "edge(x, y) -> int(x), int(y). name[x] = n -> int(x), string(n). two(x, z) <- edge(x, y), edge(y, z)."


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "graph.pages"
    with ivm.open(file) as ws:
        ws.install(RULES, name="graph")
        ws.exec('+edge(1, 2). +edge(2, 3). +name[1] = "one".')
    return file


def test_a_workspace_for_reading_answers(file):
    content = file.read_bytes()
    with ivm.open(file, mode="r") as ws:
        assert list(ws.query("q(z) <- two(1, z).")) == [(3,)]
        # by an index that is not stored
        assert list(ws.query("q(y, x) <- edge(x, y), x < y.")) == [(2, 1), (3, 2)]
        assert list(ws.query('q(x, t) <- edge(x, _), !name[x] = "one", t = "new".')) == [(2, "new")]
        assert list(ws.query('q(x) <- name[x] = "never seen".')) == []
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ('string:like["b", "%a%"]', False),
        ('!string:like["b", "%a%"]', True),
        ("max[1, 2] = 2", True),
        ("band[3, 1] = 1", True),
        ("band[3, 1] = 2", False),
        ("3 % 2 = 1", True),
    ],
)
def test_a_condition_on_constants_alone_holds_or_not(file, condition, holds):
    with ivm.open(file, mode="r") as ws:
        assert list(ws.query(f"q(x) <- x = 1, {condition}.")) == [(1,)] * holds


def test_it_does_not_wait_for_the_writer(file):
    with ivm.open(file) as ws, ivm.open(file, mode="r") as reader:
        txn = ws.transaction()
        txn.insert("edge", [(3, 4)])
        assert list(ws.query("q(x) <- two(x, _).")) == [(1,)]
        assert list(reader.query("q(x) <- two(x, _).")) == [(1,)]
        txn.commit()
        assert list(ws.query("q(x) <- two(x, _).")) == [(1,), (2,)]
        assert list(reader.query("q(x) <- two(x, _).")) == [(1,), (2,)]


def test_a_past_version_answers_by_its_own_rules(file):
    with ivm.open(file) as ws:
        before = ws.store.version
        ws.uninstall("graph", relations=True)
        ws.install("edge(x) -> int(x). last(x) <- edge(x).", name="other")
        ws.exec("+edge(7).")
        with ws.at(before) as past:
            assert list(past.query("q(x, z) <- two(x, z).")) == [(1, 3)]
        assert list(ws.query("q(x) <- last(x).")) == [(7,)]


def test_a_reader_sees_rules_that_were_installed_since(file):
    with ivm.open(file) as ws, ivm.open(file, mode="r") as reader:
        with pytest.raises(UnknownViewError):
            reader["three"]
        ws.install("three(x, w) <- two(x, y), edge(y, w).", name="three")
        ws.exec("+edge(3, 4).")
        assert list(reader["three"]) == [(1, 4)]
        assert list(reader.query("q(w) <- three(_, w).")) == [(4,)]


def test_a_reader_knows_all_about_them(file):
    with ivm.open(file) as ws, ivm.open(file, mode="r") as reader:
        before = ws.store.version
        for name, text in (
            ("three", "three(x, w) <- two(x, y), edge(y, w)."),
            ("edits", "+edge(3, 4)."),
        ):
            ws.install(text, name=name, maintenance="match")
        assert (
            "three" in reader
            and list(reader) == list(ws)
            and dict(reader.predicates) == dict(ws.predicates)
        )
        assert reader.blocks == ws.blocks
        assert reader.stats("three")["rows"] == 1
        assert (
            reader.stats("three")["sensitivity_rows"] == ws.stats("three")["sensitivity_rows"] > 0
        )
        assert "order     [x, y, w]" in reader.explain("three")
        assert list(reader.evaluate("three")) == [(1, 4)]
        reader.verify("three")
        assert reader.trace("three") == ws.trace("three") != []
        assert reader.trace_distance("three", ws.store.version - 1, ws.store.version) > 0
        ws.uninstall("edits")
        ws.uninstall("three")
        assert "three" not in reader and "three" not in reader.blocks
        for ask in (reader.stats, reader.evaluate, reader.verify, reader.explain):
            with pytest.raises(UnknownViewError, match="there is edge, name, two"):
                ask("three")
        with pytest.raises(
            UnknownViewError, match=f"version {ws.store.version} has no view 'three'"
        ):
            reader.trace("three")
        # its rules are those of that version
        assert {one.plan for one in reader.trace("three", ws.store.version - 1)} == {0}
        with pytest.raises(UnknownViewError):
            reader.trace("three", before)


def test_traces_of_other_rules_have_no_distance(file):
    with ivm.open(file) as ws:
        ws.install("v(x) <- edge(x, _).", name="v")
        old = ws.store.version
        ws.uninstall("v")
        ws.install("v(x) <- edge(x, y), edge(y, z), edge(z, _).", name="v")
        with pytest.raises(ivm.IvmError, match=f"v has other rules at {old} than at {old + 2}"):
            ws.trace_distance("v", old, ws.store.version)


def test_rules_that_came_later_are_compiled_once(file, monkeypatch):
    with ivm.open(file) as ws, ivm.open(file, mode="r") as reader:
        ws.install("three(x, w) <- two(x, y), edge(y, w).", name="three")
        loaded, own = [], stored.with_block
        monkeypatch.setattr(stored, "kept", lambda *_: None)
        monkeypatch.setattr(
            stored, "with_block", lambda *given: loaded.append(given[3]) or own(*given)
        )
        assert (
            "three" in reader
            and len(reader["three"]) == 0
            and len(reader.query("q(x) <- three(x, _).")) == 0
        )
        assert loaded == ["graph", "three"]


def test_an_earlier_version_says_what_it_has_not(file):
    with ivm.open(file) as ws:
        version = ws.store.version
        for of in (ws, ws.at(version)):
            with pytest.raises(UnknownViewError, match="no relation.* 'nope'.* edge, name, two"):
                of["nope"]
        ws.uninstall("graph")
        assert list(ws.at(version)["two"]) == [(1, 3)]


def test_an_answer_says_how_long_it_took(file):
    with ivm.open(file, mode="r") as ws:
        assert ws.query("q(z) <- two(1, z).").seconds > 0


def test_answers_are_of_one_version_while_others_write(file):
    stop, wrong = threading.Event(), []
    with ivm.open(file, sync="off") as ws, ivm.open(file, mode="r") as reader:

        def ask():
            while not stop.is_set():
                n, m = (len(reader.query(f"q(x) <- edge({k}, x).")) for k in (10, 10))
                wrong.extend([(n, m)] if n % 3 or n > m else [])

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for i in range(40):
            with ws.transaction() as txn:
                txn.insert("edge", [(10, 3 * i + j) for j in range(3)])
        stop.set()
        joined(*threads)
    assert not wrong


def test_a_query_that_fails_leaves_nothing_open(file):
    with ivm.open(file, mode="r") as ws:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            with pytest.raises(ivm.errors.RuleError):
                ws.query("q(x) <- nothing(x).")
        assert len(os.listdir("/proc/self/fd")) == before and not ws.store.readers()


class TestSketch:
    def test_it_is_a_transaction_without_a_commit(self, file):
        with pagestore.open(file, mode="r") as store, store.sketch() as sketch:
            edge = sketch["edge"]
            edge.insert([(i, i) for i in range(10, 5000)])
            edge.delete([(1, 2)])
            sketch.create("twice", "x: int64, y: string").insert([(1, "a"), (1, "b")])
            assert (
                len(edge) == 4991
                and (1, 2) not in edge
                and list(sketch["twice"]) == [(1, "a"), (1, "b")]
            )
            with pytest.raises(ZeroDivisionError), sketch.savepoint():
                edge.delete([(2, 3)])
                1 / 0  # noqa: B018
            assert (2, 3) in edge
            with pytest.raises(pagestore.errors.TransactionError, match="never committed"):
                sketch.commit()
            with store.snapshot() as snapshot:
                assert list(snapshot["edge"]) == [(1, 2), (2, 3)] and "twice" not in snapshot

    def test_its_version_stays_as_long_as_it_does(self, file):
        with pagestore.open(file, retain=1) as store, store.sketch() as sketch:
            version = sketch.base.version
            for i in range(5):
                with store.transaction() as txn:
                    txn["edge"].insert([(i, 100 + j) for j in range(1000)])
            assert version in [info.version for info in store.history()]
            assert len(sketch["edge"]) == 2
            sketch.rollback()
            with store.transaction() as txn:
                txn["edge"].insert([(9, 9)])
            assert version not in [info.version for info in store.history()]

    def test_what_it_writes_is_beside_the_store(self, file):
        size = file.stat().st_size
        with pagestore.open(file, mode="r") as store, store.sketch() as sketch:
            sketch["edge"].insert(columns=[list(range(10**5)), list(range(10**5))])
            assert len(sketch["edge"]) == 10**5 + 2 and file.stat().st_size == size


def test_a_workspace_says_what_it_is(tmp_path):
    with ivm.open(tmp_path / "s.pages") as ws:
        assert repr(ws) == f"<workspace of <store {tmp_path / 's.pages'}, version 0>>"
    assert "closed" in repr(ws)


def test_a_plan_of_sql_has_short_names(tmp_path):
    with ivm.open(":memory:") as ws:
        ws.sql(
            "CREATE TABLE t (k INTEGER PRIMARY KEY, x1 INTEGER); CREATE TABLE u (k INTEGER PRIMARY "
            "KEY, b INTEGER)"
        )
        ws.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT x1, sum(u.b) AS s FROM t JOIN u ON u.k = t.k "
            "GROUP BY x1 LIMIT 3"
        )
        text = ws.explain("v")
    assert "_x" not in text and " x2" in text
