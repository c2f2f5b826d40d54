"""Random operations against sorted dicts per version; every invariant, the page audit among them,
after each step.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

import pagestore
from pagestore.errors import ExistsError, MissingError, RetainedError, SchemaError, VersionError
from tests.support.programs.amounts import times

Model = dict[str, dict[tuple[int, int], int]]  # relation -> key -> value

KEYS = st.tuples(st.integers(0, 9), st.integers(-3, 40))
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(-5, 5)),
        st.tuples(st.just("insert"), KEYS, st.integers(-5, 5)),
        st.tuples(st.just("delete"), KEYS, st.just(0)),
        st.tuples(st.just("many"), KEYS, st.integers(1, 300)),
    ),
    max_size=6,
)
NAMES = st.sampled_from(["r", "s"])


def text(n: int) -> str:
    """Relation "s" has texts where "r" has numbers: short, empty and long ones."""
    return ("", "a", "name", "longer name", "é" * 400, "x" * 3000)[n % 6] + (
        str(n) if n > 5 else ""
    )


def row_of(name: str, key: tuple[int, int], value: int) -> tuple:
    return (text(key[0]) if name == "s" else key[0], key[1], value)


class Undo(Exception):
    """Raised inside a transaction or savepoint to leave it."""


class StoreMachine(RuleBasedStateMachine):
    branches = Bundle("branches")
    tags = Bundle("tags")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "store.pages"
        self.store = pagestore.open(self.path, page_size=4096, sync="off", retain=4)
        self.models: dict[int, Model] = {0: {}}  # every version ever made
        self.notes: dict[int, str] = {}
        self.heads = {"main": 0}
        self.origins: dict[str, int] = {}
        self.tagged: dict[str, int] = {}
        self.pinned: list[pagestore.Snapshot] = []

    def teardown(self) -> None:
        for snapshot in self.pinned:
            snapshot.close()
        self.store.close()
        self.folder.cleanup()

    @initialize(target=branches)
    def main(self) -> str:
        return "main"

    @contextmanager
    def editing(self, branch: str) -> Iterator[tuple[pagestore.Transaction, Model]]:
        """A transaction and the model that it makes."""
        model = {name: dict(rows) for name, rows in self.models[self.heads[branch]].items()}
        with self.store.transaction(branch=branch) as txn:
            yield txn, model
            # of one length: catalogs take each other's places
            txn.properties["note"] = f"{txn.version:04d}"
        self.heads[branch] = max(self.store.branches.values())
        assert self.heads[branch] == self.store.branches[branch]
        self.models[self.heads[branch]] = model
        self.notes[self.heads[branch]] = f"{self.heads[branch]:04d}"

    def edit(self, txn: pagestore.Transaction, model: Model, name: str, edits: list) -> None:
        if name not in model:
            txn.create(
                name,
                f"a: {'string' if name == 's' else 'int64'}, b: int64, v: int64",
                key=("a", "b"),
            )
            model[name] = {}
        rows = model[name]
        for action, key, value in edits:
            if action == "set":
                txn[name].set([row_of(name, key, value)])
                rows[key] = value
            elif action == "insert":
                txn[name].insert([row_of(name, key, value)])
                rows.setdefault(key, value)
            elif action == "delete":
                txn[name].delete([row_of(name, key, 0)[:2]])
                rows.pop(key, None)
            else:
                txn[name].set([row_of(name, (key[0], key[1] + 50 * i), i) for i in range(value)])
                rows.update({(key[0], key[1] + 50 * i): i for i in range(value)})

    @rule(branch=branches, name=NAMES, edits=EDITS)
    def commit(self, branch: str, name: str, edits: list) -> None:
        if branch in self.heads:
            with self.editing(branch) as (txn, model):
                self.edit(txn, model, name, edits)
                assert sorted(txn[name]) == sorted(
                    row_of(name, *row) for row in model[name].items()
                )

    @rule(branch=branches, edits=EDITS, undone=EDITS, name=NAMES)
    def savepoint(self, branch: str, edits: list, undone: list, name: str) -> None:
        if branch not in self.heads:
            return
        with self.editing(branch) as (txn, model):
            self.edit(txn, model, "r", edits)
            with pytest.raises(Undo), txn.savepoint():
                lost = {key: dict(rows) for key, rows in model.items()}
                self.edit(txn, lost, name, undone)
                with txn.savepoint():
                    self.edit(txn, lost, "r", undone[:2])
                raise Undo
            with txn.savepoint():
                self.edit(txn, model, name, edits[:2])

    @rule(branch=branches, edits=EDITS)
    def rollback(self, branch: str, edits: list) -> None:
        if branch in self.heads:
            with pytest.raises(Undo), self.store.transaction(branch=branch) as txn:
                self.edit(txn, {name: {} for name in self.models[self.heads[branch]]}, "r", edits)
                len(txn["r"])
                raise Undo

    @rule(branch=branches, name=NAMES)
    def drop(self, branch: str, name: str) -> None:
        if branch in self.heads and name in self.models[self.heads[branch]]:
            with self.editing(branch) as (txn, model):
                txn.drop(name)
                del model[name]

    @rule(target=branches, name=st.sampled_from(["what-if", "other"]), source=branches)
    def fork(self, name: str, source: str):
        if source not in self.heads:
            return multiple()
        if name in self.heads:
            with pytest.raises(ExistsError):
                self.store.branch(name, source)
            return multiple()
        self.store.branch(name, source)
        self.heads[name] = self.origins[name] = self.heads[source]
        return name

    @rule(name=branches)
    def delete_branch(self, name: str) -> None:
        if name not in self.heads:
            return
        try:
            self.store.delete_branch(name)
        except RetainedError:
            needed = (
                {s.version for s in self.pinned}
                | {*self.tagged.values()}
                | {*self.origins.values()}
            )
            assert name == "main" or needed
        else:
            del self.heads[name]
            del self.origins[name]

    @rule(name=st.sampled_from("xyz"), branch=branches)
    def tag(self, name: str, branch: str) -> None:
        if name in self.tagged:
            self.store.untag(name)
            del self.tagged[name]
        elif branch in self.heads:
            self.store.tag(name, self.heads[branch])
            self.tagged[name] = self.heads[branch]

    @rule(branch=branches)
    def pin(self, branch: str) -> None:
        if branch in self.heads:
            self.pinned.append(self.store.snapshot(branch))

    @rule()
    def unpin(self) -> None:
        if self.pinned:
            self.pinned.pop(0).close()

    @rule(keep=st.integers(1, 5))
    def vacuum(self, keep: int) -> None:
        planned = self.store.vacuum(keep_versions=keep, dry_run=True)
        done = self.store.vacuum(keep_versions=keep)
        if not done.texts_removed:
            assert (planned.dropped, planned.kept) == (done.dropped, done.kept)
            return
        # then a version without the texts takes over
        assert planned.dropped == done.dropped[: len(planned.dropped)]
        for branch, version in self.store.branches.items():
            if version != self.heads[branch]:
                self.models[version] = self.models[self.heads[branch]]
                self.notes[version] = self.notes.get(self.heads[branch], "")
                self.heads[branch] = version

    @rule()
    def compact(self) -> None:
        self.store.compact()
        for branch, version in self.store.branches.items():
            self.models[version] = self.models[self.heads[branch]]
            self.notes[version] = self.notes.get(self.heads[branch], "")
            self.heads[branch] = version
        for version in range(max(self.store.branches.values())):
            self.models.setdefault(version, {})  # made by the first pass and dropped by the second

    @rule(a=st.integers(0, 30), b=st.integers(0, 30))
    def diff(self, a: int, b: int) -> None:
        versions = [info.version for info in self.store.history()]
        a, b = versions[a % len(versions)], versions[b % len(versions)]
        old, new = (self.models[v].get("r") for v in (a, b))
        if old is None or new is None:
            with pytest.raises(MissingError):
                self.store.diff(a, b, "r")
            return
        try:
            rows = self.store.diff(a, b, "r").read_all().to_pylist()
        except SchemaError as error:
            assert "made anew" in str(error)
            return
        patched = dict(old)
        for row in rows:
            key, value = (row["a"], row["b"]), row["v"]
            if row["_change_type"] == "delete":
                assert patched.pop(key) == value
            else:
                patched[key] = value
        assert patched == new

    @rule()
    def reopen(self) -> None:
        for snapshot in self.pinned:
            snapshot.close()
        self.pinned.clear()
        self.store.close()
        self.store = pagestore.open(self.path, sync="off")
        assert self.store.recovery is None

    @invariant()
    def versions_are_what_they_were(self) -> None:
        retained = {info.version for info in self.store.history()}
        assert set(self.heads.values()) | set(self.tagged.values()) <= retained
        for snapshot in self.pinned:
            self.agree(snapshot)
        for version in (max(retained), min(retained)):
            with self.store.at(version) as snapshot:
                self.agree(snapshot)
        for version in set(self.models) - retained:
            with pytest.raises(VersionError):
                self.store.at(version)

    def agree(self, snapshot: pagestore.Snapshot) -> None:
        model = self.models[snapshot.version]
        assert set(snapshot) == set(model)
        assert snapshot.properties.get("note", "") == self.notes.get(snapshot.version, "")
        for name, rows in model.items():
            relation = snapshot[name]
            assert len(relation) == len(rows)
            found, wanted = list(relation), sorted(row_of(name, *row) for row in rows.items())
            assert (sorted(found) if name == "s" else found) == wanted

    @invariant()
    def nothing_is_violated(self) -> None:
        assert self.store.check() == []


StoreMachine.TestCase.settings = settings(
    max_examples=times(20), stateful_step_count=25, deadline=None
)
test_random_operations = StoreMachine.TestCase
