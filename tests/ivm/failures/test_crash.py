"""A crash, or a disk that fails, while a kernel carries edits through all rules: no view is left
behind its rules.
"""

from contextlib import suppress
from itertools import islice
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
FULLY = 5  # every so many images all is checked
# a crash may leave half a commit
pytestmark = pytest.mark.filterwarnings("ignore::pagestore.errors.RecoveryWarning")


def run_workload(workspace, rng, steps=20, maintenance="probe"):
    """Commits of a few edges each, some of them prepared; the edges of each version."""
    workspace.install(RULES, maintenance=maintenance)
    versions, edges, put = {0: [], workspace.store.version: []}, set(), workspace.prepare("edge")
    workspace.store._handle.file.mark(workspace.store.version)
    for step in range(steps):
        fresh = {(rng.randrange(12), rng.randrange(12)) for _ in range(1 if step % 3 else 30)}
        gone = set(rng.sample(sorted(edges), len(edges) // 8))
        if step % 3:
            for edge in sorted(gone):
                put.delete(*edge)
            for edge in sorted(fresh):
                put.insert(*edge)
            put.commit()
        else:
            with workspace.transaction() as txn:
                txn.delete("edge", sorted(gone))
                txn.insert("edge", sorted(fresh))
        edges = edges - gone | fresh
        versions[workspace.store.version] = sorted(edges)
        workspace.store._handle.file.mark(workspace.store.version)
    return versions


def agrees(store, versions, fully=True):
    workspace = Workspace(store)
    if workspace.predicates:
        assert list(workspace["edge"]) == versions[store.version]
        for view in "path", "closed":
            workspace.verify(view)
        if fully:
            assert workspace.check() == [], "the sensitivity indices, too"
    assert [v for v in store.check() if v.invariant not in FALLBACK] == []


@compiled
@pytest.mark.parametrize(
    "steps, variants", [(11, 2), pytest.param(20, 4, marks=pytest.mark.campaign)]
)
@pytest.mark.parametrize("sync", ["full", "commit"])
@pytest.mark.parametrize("maintenance, stride", [("probe", 3), ("match", 7)])
def test_every_crash_leaves_views_that_agree(
    maintenance, stride, sync, steps, variants, monkeypatch
):
    """Of all images every `stride`th is looked at."""
    taken, run = [], Schedule.run
    monkeypatch.setattr(Schedule, "run", lambda *given: taken.append(run(*given)) or taken[-1])
    start, rng = empty_store(4096), Random(sync)
    file = SimulatedFile(start)
    versions = run_workload(Workspace(Store(Handle(file, sync=sync))), rng, steps, maintenance)
    assert sum(n == 5 for n in taken) > 5, (
        "few edits did not take their schedule in one call; this tests nothing"
    )
    monkeypatch.undo()
    for number, (done, image) in enumerate(
        islice(crashes(start, file.operations, rng, variants), 0, None, stride)
    ):
        store = Store(Handle(SimulatedFile(image)))
        acknowledged, in_flight = file.acknowledged(done)
        assert acknowledged <= store.version <= in_flight, store.recovery
        agrees(store, versions, fully=number % FULLY == 0)


@pytest.mark.parametrize("how", ["error", "short"])
@pytest.mark.parametrize("maintenance", ["probe", "match"])
def test_the_nth_operation_fails(maintenance, how):
    start = empty_store(4096)
    file = SimulatedFile(start)
    versions = run_workload(Workspace(Store(Handle(file))), Random(1), 4, maintenance)
    for n in range(1, file.calls + 1):
        file = SimulatedFile(start, fail={n: how})
        with suppress(OSError, PagestoreError):
            run_workload(Workspace(Store(Handle(file))), Random(1), 4, maintenance)
        assert n in range(file.calls + 1)
        store = Store(Handle(SimulatedFile(file.content())))
        assert store.version >= file.acknowledged(len(file.operations))[0]
        agrees(store, versions)
