"""Relations that views depend on, edited in every way and order: the views follow, or the edit
is refused.
"""

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
from ivm.errors import FunctionConflictError, RangeError
from ivm.lang.ir import atoms
from ivm.rules.compile import compile
from pagestore.errors import DependantsError
from pagestore.trees.kernels.node_buffer import ERASE, INSERT
from tests.support import naive
from tests.support.hosts import without_host

DECLARED = "e(x, y) -> int(x), int(y). f[x] = v -> int(x), int(v). only[] = t -> int(t). "


PROGRAMS = [
    DECLARED
    + "tri(x, y, z) <- e(x, y), e(y, z), e(x, z). n[x] = c <- agg<<c = count()>> tri(x, _, _). "
    "low[x] = m <- agg<<m = min(y)>> e(x, y). sink(y) <- e(_, y), !e(y, _).",
    DECLARED
    + "p(x) <- e(x, _). q(x, v) <- p(x), f[x] = v, !e(x, x). total[] = s <- agg<<s = sum(v)>> f[_] "
    "= v. "
    "top[] = m <- agg<<m = max(y)>> q(_, y). big(x) <- f[x] = v, only[] = t, v > t.",
    DECLARED
    + "two(x, z) <- e(x, y), e(y, z). d[x] = v <- two(x, _), f[x] = v. w(x) <- d[x] = _ ; e(3, x).",
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


class Doors(RuleBasedStateMachine):
    """A store with views, its workspace, and the truth of each branch."""

    @initialize(
        which=st.integers(0, len(PROGRAMS) - 1), maintenance=st.sampled_from(["match", "probe"])
    )
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
                    txn.apply(
                        name,
                        np.array([INSERT if inserted else ERASE]),
                        np.array([row], np.int64).T.copy(),
                    )
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
        read = {
            atom.predicate
            for rule in self.program.rules
            for body in rule.body
            for atom in atoms(body)
        }
        if name in ("e", "f", "only") and (how == "edit" or name not in read):
            return
        if (name, how) == ("e", "anew"):  # it gets the same columns, and its views follow
            return
        with (
            pytest.raises(DependantsError, match="nothing is changed"),
            store.transaction(branch=branch) as txn,
        ):
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
    checked = settings(
        max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(Doors, settings=checked)


def test_every_door():
    run(5, 10)


@pytest.mark.campaign
def test_every_door_at_length():
    run(400, 40)
