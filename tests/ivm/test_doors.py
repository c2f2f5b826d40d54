"""Relations that views stand on, edited by every door there is: the views follow, or the door is closed by name."""

import io
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import ivm
import pagestore
from ivm.engine.installed import PROPERTY
from ivm.errors import FunctionConflictError, RangeError
from ivm.lang import compile
from pagestore.errors import DependantsError
from pagestore.trees.kernels.apply_layout import ERASE, INSERT
from pagestore.versions import dependants, hosts
from tests.support import naive

DECLARED = "e(x, y) -> int(x), int(y). f[x] = v -> int(x), int(v). only[] = t -> int(t). "
PROGRAMS = [
    DECLARED + "tri(x, y, z) <- e(x, y), e(y, z), e(x, z). n[x] = c <- agg<<c = count()>> tri(x, _, _). "
    "low[x] = m <- agg<<m = min(y)>> e(x, y). sink(y) <- e(_, y), !e(y, _).",
    DECLARED + "p(x) <- e(x, _). q(x, v) <- p(x), f[x] = v, !e(x, x). total[] = s <- agg<<s = sum(v)>> f[_] = v. "
    "top[] = m <- agg<<m = max(y)>> q(_, y). big(x) <- f[x] = v, only[] = t, v > t.",
    DECLARED + "two(x, z) <- e(x, y), e(y, z). d[x] = v <- two(x, _), f[x] = v. w(x) <- d[x] = _ ; e(3, x).",
]
VIEWS_OF = [["tri", "n", "low", "sink"], ["p", "q", "total", "top", "big"], ["two", "d", "w"]]
DOMAIN = st.integers(0, 3)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("e"), st.tuples(DOMAIN, DOMAIN), st.booleans()),
        st.tuples(st.just("f"), st.tuples(DOMAIN, DOMAIN), st.booleans()),
        st.tuples(st.just("only"), st.tuples(DOMAIN), st.booleans()),
    ),
    max_size=6,
)


@contextmanager
def without_host():
    """As in a process that has not imported ivm."""
    held = dict(hosts._hosts)
    hosts._hosts.clear()
    try:
        yield
    finally:
        hosts._hosts.update(held)


class Doors(RuleBasedStateMachine):
    """A store with views, its workspace, and the truth of each branch."""

    @initialize(which=st.integers(0, len(PROGRAMS) - 1), maintenance=st.sampled_from(["match", "probe"]))
    def begin(self, which, maintenance):
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "s.pages"
        self.program, self.views = compile(PROGRAMS[which]), VIEWS_OF[which]
        self.ws = ivm.open(self.path, sync="off", retain="all")
        self.ws.install(PROGRAMS[which], maintenance=maintenance)
        self.states = {"main": naive.empty(self.program)}
        self.past = {self.ws.store.version: self.states["main"]}

    def teardown(self):
        if hasattr(self, "ws"):
            assert self.ws.store.check() == []
            self.ws.close()
            self.folder.cleanup()

    def expected(self, branch, edits):
        """The state after edits of a branch, or the error that they are."""
        state = {name: rows.copy() for name, rows in self.states[branch].items()}
        for name, row, inserted in edits:
            naive.change(state[name], row, inserted)
        try:
            return naive.evaluate(self.program, state)
        except (FunctionConflictError, RangeError) as error:
            return error

    @contextmanager
    def plain(self):
        """Another handle, which knows nothing of the workspace."""
        self.ws.close()
        try:
            with pagestore.open(self.path, sync="off") as store:
                yield store
        finally:
            self.ws = ivm.open(self.path, sync="off")

    def attempt(self, branch, edits, change):
        """A change by some door: as the truth says, or refused with nothing changed."""
        expected = self.expected(branch, edits)
        if isinstance(expected, Exception):
            with pytest.raises(type(expected)):
                change()
        else:
            change()
            self.states[branch] = expected

    @rule(edits=EDITS)
    def by_the_workspace(self, edits):
        def change():
            with self.ws.transaction() as txn:
                for name, row, inserted in edits:
                    keys = row[: len(self.program.predicates[name].keys)]
                    (txn.set if inserted else txn.delete)(name, [row if inserted else keys])

        self.attempt("main", edits, change)
        self.past[self.ws.store.version] = self.states["main"]

    @rule(edits=EDITS, words=st.booleans(), data=st.data())
    def by_the_store(self, edits, words, data):
        branch = data.draw(st.sampled_from([*self.states]))
        self.attempt(branch, edits, lambda: self.change(self.ws.store, branch, edits, words))

    @rule(edits=EDITS, words=st.booleans(), data=st.data())
    def by_another_handle(self, edits, words, data):
        branch = data.draw(st.sampled_from([*self.states]))
        with self.plain() as store:
            self.attempt(branch, edits, lambda: self.change(store, branch, edits, words))

    @rule(edits=EDITS, words=st.booleans(), data=st.data())
    def where_the_host_is_not_loaded(self, edits, words, data):
        branch = data.draw(st.sampled_from([*self.states]))
        state = self.expected(branch, edits)
        with self.plain() as store, without_host():
            try:
                self.change(store, branch, edits, words)
            except DependantsError as error:
                assert "not loaded" in str(error) and state != self.states[branch]
            else:
                assert state == self.states[branch]

    def change(self, store, branch, edits, words):
        with store.transaction(branch=branch) as txn:
            for name, row, inserted in edits:
                keys = row[: max(1, len(self.program.predicates[name].keys))]
                if name == "only":
                    for old in list(txn["only"]):
                        txn["only"].delete([old])
                    if inserted:
                        txn["only"].insert([row])
                elif words and name == "e":
                    txn.apply(name, np.array([INSERT if inserted else ERASE]), np.array([row], np.int64).T.copy())
                elif inserted:
                    txn[name].set([row])
                else:
                    txn[name].delete([keys])

    @rule(data=st.data(), loaded=st.booleans())
    def what_is_refused(self, data, loaded):
        """Dropping, making anew, and edits of what follows."""
        names = sorted(self.ws.store.snapshot()._version.catalog.relations)
        name = data.draw(st.sampled_from(names))
        branch = data.draw(st.sampled_from([*self.states]))
        how = data.draw(st.sampled_from(["drop", "anew", "edit"]))
        with self.plain() as store:
            if not loaded:
                with without_host():
                    self.refused(store, branch, name, how)
            else:
                self.refused(store, branch, name, how)

    def refused(self, store, branch, name, how):
        before = store.branches
        with store.snapshot(branch) as snap:
            tree = snap.tree(name)
        if name in ("e", "f", "only") and how == "edit":
            return
        with pytest.raises(DependantsError, match="nothing is changed"), store.transaction(branch=branch) as txn:
            if how == "edit":
                row = np.full((tree.spec.columns, 1), 77, np.int64)
                txn.apply(name, np.array([INSERT]), row)
            else:
                txn.drop(name)
            if how == "anew" and not name.startswith("$"):
                txn.create(name, "x: int64, y: int64")
        assert store.branches == before

    @rule(data=st.data(), another=st.booleans())
    def scans(self, data, another):
        """A scan comes to a relation or a view, or leaves it."""
        name = data.draw(st.sampled_from(["e", "f", "only", *self.views]))
        branch = data.draw(st.sampled_from([*self.states]))
        loaded = data.draw(st.booleans())

        def change(store):
            with store.transaction(branch=branch) as txn:
                if "count" in txn[name].scans:
                    txn.drop_scan(name, "count")
                else:
                    txn.add_scan(name, "count")

        if not another:
            change(self.ws.store)
            return
        with self.plain() as store:
            if loaded:
                change(store)
            else:
                with without_host():
                    change(store)

    @precondition(lambda self: len(self.states) < 4)
    @rule(data=st.data())
    def branch(self, data):
        version = data.draw(st.sampled_from(sorted(self.past)))
        name = f"b{len(self.states)}"
        self.ws.store.branch(name, version)
        self.states[name] = self.past[version]

    @rule()
    def compact(self):
        self.ws.store.compact()
        self.past = {self.ws.store.version: self.states["main"]}

    @rule()
    def reopen(self):
        self.ws.close()
        self.ws = ivm.open(self.path, sync="off")

    @invariant()
    def views_are_the_truth(self):
        if not hasattr(self, "ws"):
            return
        for branch, state in self.states.items():
            with self.ws.store.snapshot(branch) as snap:
                for name in ("e", "f", "only", *self.views):
                    assert sorted(snap[name]) == sorted(naive.rows_of(state[name])), (branch, name)
            assert self.ws.check(branch) == []
        for name in self.views:
            self.ws.verify(name)


def run(examples, steps):
    checked = settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Doors, settings=checked)


def test_every_door():
    run(5, 10)


@pytest.mark.campaign
def test_every_door_at_length():
    run(400, 40)


# -- door by door

RULES = "e(x, y) -> int(x), int(y). p(x) <- e(x, _). c[x] = n <- agg<<n = count()>> e(x, _)."


@pytest.fixture
def ws(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as workspace:
        workspace.install(RULES)
        yield workspace


def clean(workspace):
    assert workspace.check() == [] and workspace.store.check() == []


def test_a_transaction_of_the_store_and_one_of_the_workspace(ws):
    with ws.store.transaction() as txn:
        txn["e"].insert([(1, 2), (1, 5)])
    with ws.transaction() as txn:
        txn.delete("e", [(1, 2)])
    assert list(ws["p"]) == [(1,)] and list(ws["c"]) == [(1, 1)]
    clean(ws)


def test_a_relation_that_was_there_before_its_rules(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create_intervals("e", "x: int64, y: int64", ("x", "y")).bulk([[(1, 2), (1, 5), (7, 9)]])
        txn.create("f", "x: int64, t: string", key="x").insert([(1, "one")])
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install(RULES + "f[x] = t -> int(x), string(t). named(t) <- p(x), f[x] = t.")
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        assert txn["e"].remove_stabbed([8]).num_rows == 1
        txn["f"][1] = "uno"
        txn["e"].insert([(3, 3)])
    with ivm.open(tmp_path / "s.pages") as ws:
        assert list(ws["p"]) == [(1,), (3,)] and list(ws["named"]) == [("uno",)]
        clean(ws)


def test_many_rows_at_once(ws):
    rows = [(x, y) for x in range(300) for y in range(20)]
    with ws.store.transaction() as txn:
        txn["e"].bulk([rows])
    assert len(ws["p"]) == 300 and set(ws["c"]) == {(x, 20) for x in range(300)}
    with ws.store.transaction() as txn:
        txn["e"].delete(rows[7:])
        txn.add_scan("e", "count")
    assert list(ws["c"]) == [(0, 7)] and ws["e"].scan("count") == 7
    clean(ws)


def test_subscribers_hear_of_it_and_books_are_kept(ws):
    heard, other = [], ivm.Workspace(ws.store)
    other.subscribe("c", lambda table: heard.append(("other", table.to_pylist())))
    ws.subscribe("c", lambda table: heard.append(("ws", table.to_pylist())))
    ws.store.branch("b")
    with ws.store.transaction(branch="b") as txn:
        txn["e"].insert([(7, 7)])
    assert heard == [] and list(ws.store.snapshot("b")["c"]) == [(7, 1)]
    with ws.store.transaction() as txn:
        txn["e"].insert([(1, 2)])
    change = [{"x": 1, "n": 1, "_change_type": "insert"}]
    assert sorted(heard) == [("other", change), ("ws", change)]
    assert ws.stats("c")["inserted"] == other.stats("c")["inserted"] == 1


def test_a_subscriber_that_fails_leaves_what_was_committed(ws):
    def fail(table):
        raise ZeroDivisionError

    ws.subscribe("p", fail)
    with pytest.raises(ZeroDivisionError), ws.store.transaction() as txn:
        txn["e"].insert([(1, 2)])
    assert list(ws["p"]) == [(1,)]
    with ws.transaction() as txn:
        txn.insert("e", [(1, 3)])
    clean(ws)


def test_rules_that_refuse_a_change_roll_it_back(tmp_path):
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install("f[x] = y -> int(x), int(y). one[] = t -> int(t). g[y] = x <- f[x] = y. k(t) <- one[] = t.")
        version = ws.store.version
        conflict = pytest.raises(FunctionConflictError, match=r"g\[5\] got two values, 1 and 2")
        with conflict, ws.store.transaction() as txn:
            txn["f"].insert([(1, 5), (2, 5)])
        conflict = pytest.raises(FunctionConflictError, match=r"one\[\] got two values, 3 and 4")
        with conflict, ws.store.transaction() as txn:
            txn["one"].insert([(3,), (4,)])
        assert ws.store.version == version and list(ws["f"]) == list(ws["one"]) == []
        with ws.store.transaction() as txn:
            txn["one"].insert([(3,)])
        with ws.store.transaction() as txn:
            txn["one"].delete([(3,)])
            txn["one"].insert([(4,)])
        assert list(ws["k"]) == [(4,)]
        clean(ws)


def test_old_versions_are_edited_by_their_own_rules(ws):
    with ws.transaction() as txn:
        txn.insert("e", [(1, 2)])
    old = ws.store.version
    ws.store.retain = "all"
    ws.install("q(y) <- e(_, y).", name="more")
    ws.store.branch("b", old)
    with ws.store.transaction(branch="b") as txn:
        txn["e"].insert([(3, 4)])
        txn.create("q", "x: int64").insert([(1,)])  # nobody's there
    assert list(ws.store.snapshot("b")["p"]) == [(1,), (3,)] and list(ws.store.snapshot("b")["q"]) == [(1,)]
    assert ws.check("b") == []
    clean(ws)
    ws.uninstall("more")
    ws.uninstall("main")
    with ws.store.transaction() as txn, without_host():
        txn.create("e", "x: string").insert([("free",)])


def script(text, *arguments):
    """What a process that has only pagestore prints."""
    run = subprocess.run([sys.executable, "-c", text, *map(str, arguments)], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_a_process_that_has_not_imported_ivm(ws):
    with ws.transaction() as txn:
        txn.insert("e", [(1, 2)])
    path = ws.store.path
    ws.close()
    out = script(
        """if True:
        import sys, pagestore
        with pagestore.open(sys.argv[1], sync="off") as store:
            for change in (lambda txn: txn["e"].insert([(3, 4)]), lambda txn: txn.drop("e"), lambda txn: txn.drop("c"),
                           lambda txn: txn["p"].insert([(3,)]), lambda txn: txn.add_scan("e", "count")):
                try:
                    with store.transaction() as txn:
                        change(txn)
                    print("committed")
                except pagestore.errors.DependantsError as error:
                    print(error)
            print(list(store.snapshot()["p"]), "ivm" in sys.modules, store.check())
        """,
        path,
    )
    edit, drop, drop_view, edit_view, scan, rows = out.splitlines()
    assert edit.startswith("e was changed, and what ivm keeps of it (c, p) could not follow, since ivm is not loaded")
    assert edit.endswith(
        "nothing is changed: `import ivm` first, and its views follow, or edit in ivm.open(path).transaction()"
    )
    assert drop.startswith("'e' was dropped, or made anew, and ivm stands on it (c, p); nothing is changed: `ivm unin")
    assert drop_view.startswith("'c' was dropped, or made anew, and it belongs to ivm")
    assert (
        edit_view
        == "'p' belongs to ivm, which keeps it as it follows from e; nothing is changed: edit that, and it will follow"
    )
    assert scan == "committed" and rows == "[(1,)] False []"


def test_a_process_that_imports_ivm_and_opens_no_workspace(ws):
    path = ws.store.path
    ws.close()
    script(
        """if True:
        import sys, ivm, pagestore
        with pagestore.open(sys.argv[1]) as store, store.transaction() as txn:
            txn["e"].insert([(3, 4)])
        """,
        path,
    )
    with ivm.open(path) as again:
        assert list(again["p"]) == [(3,)]
        clean(again)


# -- stores of before, copies and what is left of others


def forget(store, branch="main"):
    """As an earlier release has left it."""
    with store.transaction(branch=branch) as txn:
        txn.vouch()
        txn.properties.pop(dependants.PROPERTY)


def test_a_store_of_an_earlier_release_is_protected_once_it_is_opened(ws):
    path = ws.store.path
    ws.store.branch("b")
    for branch in ("main", "b"):
        forget(ws.store, branch)
    ws.close()
    with ivm.open(path, mode="r"):
        pass
    with ivm.open(path) as again:
        version = again.store.version
        assert all(dependants.PROPERTY in again.store.snapshot(branch).properties for branch in ("main", "b"))
        clean(again)
    with ivm.open(path) as again:
        assert again.store.version == version
    with pagestore.open(path) as store, without_host():
        for branch in ("main", "b"):
            with pytest.raises(DependantsError), store.transaction(branch=branch) as txn:
                txn["e"].insert([(3, 4)])


def test_a_store_of_an_earlier_release_that_no_workspace_has_opened(ws):
    path = ws.store.path
    forget(ws.store)
    ws.close()
    with pagestore.open(path) as store:
        with pytest.raises(DependantsError, match="'e' was dropped"), store.transaction() as txn:
            txn.drop("e")
        with store.transaction() as txn:
            txn["e"].insert([(3, 4)])
        assert list(store.snapshot()["p"]) == [(3,)] and dependants.PROPERTY in store.snapshot().properties
    with ivm.open(path) as again:
        clean(again)


def test_dumps_with_rules_and_of_relations_alone(ws, tmp_path):
    ws.store.retain = "all"
    ws.install("tri(x, y, z) <- e(x, y), e(y, z), e(x, z).", name="tri", maintenance="probe")
    for x in range(3):
        with ws.store.transaction() as txn:
            txn["e"].insert([(x, y) for y in range(x, 4)])
    whole, alone = io.BytesIO(), io.BytesIO()
    ws.store.dump(whole, [line.version for line in ws.store.history()])
    hidden = [n for n in ws.store.snapshot()._version.catalog.relations if n.startswith("$index")]
    assert hidden
    ws.store.dump(alone, relations=["e", *hidden])
    for file in (whole, alone):
        file.seek(0)
    with pagestore.open(tmp_path / "whole.pages", retain="all") as store, without_host():
        store.restore(whole)
    with ivm.open(tmp_path / "whole.pages") as copy:
        clean(copy)
        assert list(copy["tri"]) == list(ws["tri"])
        with copy.store.transaction() as txn:
            txn["e"].delete([(0, 2)])
        clean(copy)
    with pagestore.open(tmp_path / "alone.pages") as store:
        store.restore(alone)
        with store.transaction() as txn, without_host():
            txn["e"].delete([(0, 2)])  # the index, which nobody knows, stays behind
    with ivm.open(tmp_path / "alone.pages") as copy:
        copy.install("e(x, y) -> int(x), int(y).", name="declared")
        assert len(list(copy.query("q(x, y, z) <- e(x, y), e(y, z), e(x, z)."))) < len(ws["tri"])
        copy.install("tri(x, y, z) <- e(x, y), e(y, z), e(x, z).", maintenance="probe")
        clean(copy)
        with copy.transaction() as txn:
            txn.insert("e", [(0, 2)])
        assert list(copy["tri"]) == list(ws["tri"])


def test_rules_that_cannot_be_read_let_nothing_by(ws):
    with ws.store.transaction() as txn:
        txn.vouch()
        txn.properties[PROPERTY] = json.dumps({"planning": 0, "blocks": []})
    path = ws.store.path
    ws.close()
    with pagestore.open(path) as store:
        with pytest.raises(ivm.IvmError, match="another release installed rules"), store.transaction() as txn:
            txn["e"].insert([(1, 2)])
        assert list(store.snapshot()["e"]) == []


def test_nothing_is_left_behind(tmp_path):
    """The folder of the store holds the store."""
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.install(RULES)
        workspace.check()
        workspace.verify("p")
    assert os.listdir(tmp_path) == ["s.pages"]
