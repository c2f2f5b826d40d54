"""A crash at any point leaves the last acknowledged commit, or the one in flight; a failing disk
harms nothing.
"""

from contextlib import suppress
from itertools import islice
from random import Random

import pytest

from pagestore.errors import CorruptionError, FormatError, PagestoreError, PoisonedError
from pagestore.store import Store, empty_store
from pagestore.versions.handle import Handle
from tests.support.simulator import FALLBACK, SimulatedFile, crashes

# a crash may leave half a commit
pytestmark = pytest.mark.filterwarnings("ignore::pagestore.errors.RecoveryWarning")
Rows = list[tuple[int, int]]


def run_workload(store: Store, rng: Random, steps: int = 12, close: bool = True) -> dict[int, Rows]:
    """Commit random edits, with tags, branches and vacuums in between; returns the rows of each
    version.
    """
    versions: dict[int, Rows] = {0: []}
    rows: set[tuple[int, int]] = set()
    for step in range(steps):
        with store.transaction(f"step {step}") as txn:
            if not step:
                txn.create("r", "x: int64, y: int64")
                txn.create("names", "n: string")
            fresh = {(rng.randrange(50), rng.randrange(50)) for _ in range(rng.choice([1, 3, 300]))}
            gone = set(rng.sample(sorted(rows), len(rows) // 3))
            txn["r"].delete(sorted(gone))
            txn["r"].insert(sorted(fresh))
            txn["names"].insert([("x" * rng.choice([3, 2000]) + str(step),)])
            rows = rows - gone | fresh
            versions[txn.version] = sorted(rows)
        store._handle.file.mark(store.version)
        administer(store, step, versions)
    if close:
        store.close()
    return versions


def administer(store: Store, step: int, versions: dict[int, Rows]) -> None:
    """What the workload does beside its commits."""
    if step == 4:
        store.tag("four")
    elif step == 6:
        store.branch("b", "four")
        store.retain = 3
        with store.transaction(branch="b") as txn:
            txn["r"].insert([(-7, -7)])
            versions[txn.version] = [(-7, -7), *versions[store.at("four").version]]
    elif step == 8:
        store.delete_branch("b")
        store.untag("four")
    elif step == 9:
        store.vacuum(keep_versions=2)
    elif step == 10:
        for version in range(store.version + 1, store.version + 3):
            versions[version] = versions[store.version]
        store.compact()
        store._handle.file.mark(store.version)


@pytest.mark.parametrize("sync", ["full", "commit"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.campaign)])
def test_every_crash_leaves_an_acknowledged_commit(sync: str, seed: int, stride: int) -> None:
    """Of all images by default every eleventh, from another one on for each seed."""
    rng = Random(seed)
    start = empty_store(4096)
    file = SimulatedFile(start)
    versions = run_workload(Store(Handle(file, sync=sync)), rng)
    for done, image in islice(crashes(start, file.operations, rng), seed, None, stride):
        acknowledged, in_flight = file.acknowledged(done)
        store = Store(Handle(SimulatedFile(image)))
        assert acknowledged <= store.version <= in_flight, store.recovery
        _agrees(store, versions)
        assert [v for v in store.check() if v.invariant not in FALLBACK] == []
        _goes_on(store, versions[store.version])


@pytest.mark.parametrize("sync", ["full", "commit"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.campaign)])
def test_every_crash_leaves_an_acknowledged_commit_of_a_group(
    monkeypatch, sync: str, seed: int, stride: int
) -> None:
    """Commits wait for a common sync, and others are made while it is under way, as threads do."""
    rng = Random(seed)
    start = empty_store(4096)
    file = SimulatedFile(start)
    store = Store(Handle(file, sync=sync))
    store.retain = 3
    versions: dict[int, Rows] = {0: []}

    def commit() -> None:
        with store.transaction() as txn:
            relation = txn["r"] if "r" in txn else txn.create("r", "x: int64, y: int64")
            relation.insert([(txn.version, y) for y in range(rng.choice([1, 5, 200]))])
            if txn.version > 2:
                relation.delete([row for row in versions[txn.version - 1] if rng.random() < 0.3])
            versions[txn.version] = [*relation]
            if "names" not in txn:
                txn.create("names", "n: string")

    def with_others(fdatasync=file.fdatasync) -> None:
        for at in range(2):
            if rng.random() < 0.3:
                commit()
            if not at:
                fdatasync()

    with monkeypatch.context() as patch:
        patch.setattr(store._handle, "complete", lambda number: None)
        for _ in range(12):
            for _ in range(rng.randrange(1, 4)):
                commit()
            made = store.version
            patch.setattr(file, "fdatasync", with_others)
            store._handle.committer.flush()
            patch.setattr(file, "fdatasync", with_others.__defaults__[0])
            file.mark(made)
    newest = store.version
    for done, image in islice(crashes(start, file.operations, rng), seed, None, stride):
        found = Store(Handle(SimulatedFile(image)))
        assert file.acknowledged(done)[0] <= found.version <= newest, found.recovery
        for info in found.history():
            with found.at(info.version) as snapshot:
                assert info.version == 0 or list(snapshot["r"]) == versions[info.version]
        assert [v for v in found.check() if v.invariant not in FALLBACK] == []
        if found.version:
            _goes_on(found, versions[found.version])


def _agrees(store: Store, versions: dict[int, Rows]) -> None:
    for info in store.history():
        with store.at(info.version) as snapshot:
            assert ("r" in snapshot) == (info.version > 0)
            if info.version:
                assert list(snapshot["r"]) == versions[info.version]
                assert len(list(snapshot["names"])) == len(snapshot["names"]) <= 12


def _goes_on(store: Store, rows: Rows) -> None:
    """Assert that the recovered store can be written to."""
    with store.transaction() as txn:
        if "r" not in txn:
            txn.create("r", "x: int64, y: int64")
        txn["r"].insert([(-1, -1)])
    assert list(store.snapshot()["r"]) == [(-1, -1), *rows]
    assert [v for v in store.check() if v.invariant not in FALLBACK] == []


def test_a_crash_in_recovery_loses_nothing() -> None:
    """Recovery writes what the newest commit wrote, and nothing else; it may crash, and so may
    the next commit.
    """
    rng = Random(7)
    start = empty_store(4096)
    file = SimulatedFile(start)
    versions = run_workload(Store(Handle(file)), rng, steps=5, close=False)
    for _, image in list(crashes(start, file.operations, rng))[::7]:
        again = SimulatedFile(image)
        store = Store(Handle(again))
        assert sum(operation.kind == "sync" for operation in again.operations) == 2 * (
            store.recovery is not None
        )
        assert again.content() == image
        before, count = store.version, len(store.history())
        with store.transaction() as txn:
            txn.create("extra", "x: int64").insert([1])
        for _, second in crashes(image, again.operations, rng, variants=2):
            found = Store(Handle(SimulatedFile(second)))
            assert found.version in (before, before + 1)
            assert len(found.history()) >= min(count, 3)
            _agrees_so_far(found, versions, before)


def _agrees_so_far(store: Store, versions: dict[int, Rows], upto: int) -> None:
    for info in store.history():
        if 0 < info.version <= upto:
            assert list(store.at(info.version)["r"]) == versions[info.version]


@pytest.mark.parametrize("stride", [5, pytest.param(1, marks=pytest.mark.campaign)])
@pytest.mark.parametrize(("first", "how"), [(1, "error"), (2, "full"), (3, "short")])
def test_the_nth_operation_fails(first: int, how: str, stride: int) -> None:
    """By default every fifth operation, another fifth for each kind of failure."""
    first = min(first, stride)
    start = empty_store(4096)
    probe = SimulatedFile(start)
    versions = run_workload(Store(Handle(probe)), Random(1))
    for n in range(first, probe.calls + 1, stride):
        file = SimulatedFile(start, fail={n: how})
        store = Store(Handle(file))
        with suppress(OSError, PagestoreError):
            run_workload(store, Random(1))
        acknowledged, _ = file.acknowledged(len(file.operations))
        if store._handle.committer.cause:
            with pytest.raises(PoisonedError):
                store.transaction()
        file.fail = {}
        store._handle.open = True  # the failure may have been in close
        store.reopen()
        assert store.version >= acknowledged
        _agrees(store, versions)
        assert [v for v in store.check() if v.invariant not in FALLBACK] == []


@pytest.mark.parametrize("stride", [509, pytest.param(1, marks=pytest.mark.campaign)])
def test_every_flipped_byte_is_an_exception_or_harmless(stride: int) -> None:
    rng = Random(3)
    file = SimulatedFile(empty_store(4096))
    versions = run_workload(Store(Handle(file)), rng, steps=4)
    content = file.content()
    wrong = 0
    for at in range(0, len(content), stride):
        image = bytearray(content)
        image[at] ^= 1 << rng.randrange(8)
        try:
            store = Store(Handle(SimulatedFile(bytes(image))))
            _agrees(store, versions)
        except (CorruptionError, FormatError):
            continue
        if store.version != max(versions):
            wrong += 1
            assert store.recovery is not None
            assert store.recovery.problems
    assert wrong == 0  # both slots are clean and the same: one flipped byte never goes back in time
