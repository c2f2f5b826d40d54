"""A crash, or a disk that fails, while a kernel carries edits through all rules: no view is left behind its rules."""

from contextlib import suppress
from random import Random

import pytest

from ivm.engine.schedule import Schedule
from ivm.workspace import Workspace
from pagestore.errors import PagestoreError
from pagestore.store import Store, empty_store
from pagestore.versions.handle import Handle
from tests.support.simulator import FALLBACK, SimulatedFile, compiled, crashes

RULES = """edge(x, y) -> int(x), int(y).
    path(x, z) <- edge(x, y), edge(y, z).
    closed(x, y, z) <- path(x, z), edge(x, y), edge(y, z), edge(x, z).
"""
pytestmark = pytest.mark.filterwarnings("ignore::pagestore.errors.RecoveryWarning")  # a crash may leave half a commit


def run_workload(workspace, rng, steps=20):
    """Commits of a few edges each; the edges of each version."""
    workspace.install(RULES, maintenance="probe")
    versions, edges = {0: [], workspace.store.version: []}, set()
    workspace.store._handle.file.mark(workspace.store.version)
    for step in range(steps):
        fresh = {(rng.randrange(12), rng.randrange(12)) for _ in range(1 if step % 3 else 30)}
        gone = set(rng.sample(sorted(edges), len(edges) // 8))
        with workspace.transaction() as txn:
            txn.delete("edge", sorted(gone))
            txn.insert("edge", sorted(fresh))
        edges = edges - gone | fresh
        versions[workspace.store.version] = sorted(edges)
        workspace.store._handle.file.mark(workspace.store.version)
    return versions


def agrees(store, versions):
    workspace = Workspace(store)
    if workspace.predicates:
        assert list(workspace["edge"]) == versions[store.version]
        for view in "path", "closed":
            workspace.verify(view)
    assert [v for v in store.check() if v.invariant not in FALLBACK] == []


@compiled
@pytest.mark.parametrize("steps, variants", [(11, 2), pytest.param(20, 4, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("sync", ["full", "commit"])
def test_every_crash_leaves_views_that_agree(sync, steps, variants, monkeypatch):
    taken, run = [], Schedule.run
    monkeypatch.setattr(Schedule, "run", lambda *given: taken.append(run(*given)) or taken[-1])
    start, rng = empty_store(4096), Random(sync)
    file = SimulatedFile(start)
    versions = run_workload(Workspace(Store(Handle(file, sync=sync))), rng, steps)
    assert sum(n == 5 for n in taken) > 5, "few edits did not take their schedule in one call; this tests nothing"
    monkeypatch.undo()
    for done, image in crashes(start, file.operations, rng, variants):
        store = Store(Handle(SimulatedFile(image)))
        acknowledged, in_flight = file.acknowledged(done)
        assert acknowledged <= store.version <= in_flight, store.recovery
        agrees(store, versions)


@pytest.mark.parametrize("how", ["error", "short"])
def test_the_nth_operation_fails(how):
    start = empty_store(4096)
    file = SimulatedFile(start)
    versions = run_workload(Workspace(Store(Handle(file))), Random(1), steps=4)
    for n in range(1, file.calls + 1):
        file = SimulatedFile(start, fail={n: how})
        with suppress(OSError, PagestoreError):
            run_workload(Workspace(Store(Handle(file))), Random(1), steps=4)
        assert n in range(file.calls + 1)
        store = Store(Handle(SimulatedFile(file.content())))
        assert store.version >= file.acknowledged(len(file.operations))[0]
        agrees(store, versions)
