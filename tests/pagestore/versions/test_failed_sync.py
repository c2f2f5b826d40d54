"""A sync fails, the program does what it is told, and the power is cut: what was shown and
acknowledged is there.

Of a failed sync nothing comes to the disk, and no later sync brings it there unless it is written
again.
"""

from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import pagestore
from pagestore.errors import PoisonedError
from pagestore.storage.meta import SLOT_SIZE
from pagestore.store import Store, empty_store
from pagestore.versions.handle import Handle
from tests.support.simulator import SimulatedFile, play

LAST = 4  # syncs of an operation, of which each fails in turn


def edit(store: Store) -> None:
    with store.transaction() as txn:
        txn["r"].set([(1, txn.version)])


def edit_all(store: Store) -> None:
    with store.transaction() as txn:
        txn["r"].set([(k, 9) for k in range(3000)])


def edit_nothing(store: Store) -> None:
    with store.transaction("nothing but a message") as txn:
        txn.properties["p"] = "1"


def on_a_branch(store: Store) -> None:
    with store.transaction(branch="side") as txn:
        txn["r"].set([(2, 7)])


def changing(change: Callable[[Any], Any]) -> Callable[[Store], None]:
    """The commit of a transaction that makes one change."""

    def commit(store: Store) -> None:
        with store.transaction() as txn:
            change(txn)

    return commit


OPERATIONS: dict[str, Callable[[Store], Any]] = {
    "edit": edit,
    "edit all": edit_all,
    "edit nothing": edit_nothing,
    "edit a branch": on_a_branch,
    "create": changing(lambda txn: txn.create("q", "k: int64")),
    "drop": changing(lambda txn: txn.drop("other")),
    "create and drop": changing(lambda txn: (txn.create("q", "k: int64"), txn.drop("q"))),
    "rename": changing(lambda txn: txn.rename("other", "another")),
    "truncate": changing(lambda txn: txn.truncate("other")),
    "delete": changing(lambda txn: txn["other"].delete([(1,)])),
    "add a column": changing(lambda txn: txn.add_column("other", "v: int64", 0)),
    "texts": changing(lambda txn: txn.create("t", "t: string").insert([("x" * 5000,), ("y",)])),
    "tag": lambda store: store.tag("new"),
    "untag": lambda store: store.untag("old"),
    "branch": lambda store: store.branch("b"),
    "delete a branch": lambda store: store.delete_branch("side"),
    "retain": lambda store: setattr(store, "retain", 2),
    "vacuum": lambda store: store.vacuum(keep_versions=1),
    "compact": lambda store: store.compact(),
    "reopen": lambda store: store.reopen(),
}


@pytest.fixture(scope="module")
def start() -> bytes:
    file = SimulatedFile(empty_store(4096))
    with closing(Store(Handle(file))) as store:
        for i in range(4):
            with store.transaction() as txn:
                relation = txn["r"] if i else txn.create("r", "k: int64, v: int64", key="k")
                relation.set([(k, i) for k in range(900)])
                if not i:
                    txn.create("other", "k: int64").insert([(1,), (2,)])
        store.tag("old")
        store.branch("side")
    return file.content()


def shown(store: Store) -> Any:
    """All that a store says of itself: versions, tags, and the rows of all versions."""
    history = [(info.version, info.message, info.branch, info.tags) for info in store.history()]
    rows = [
        {name: list(relation) for name, relation in store.at(info.version).items()}
        for info in store.history()
    ]
    return history, store.tags, store.branches, store.retain, rows


def after_a_power_cut(start: bytes, file: SimulatedFile) -> Store:
    """The store that the disk holds: what a sync covered that succeeded."""
    disk, pending = bytearray(start), []
    for operation in file.operations:
        if operation.kind == "sync":
            for written in pending:
                play(disk, written)
            pending = []
        elif operation.kind == "failed sync":
            pending = [written for written in pending if written.kind in ("grow", "cut")]
        else:
            pending.append(operation)
    return Store(Handle(SimulatedFile(bytes(disk))))


@pytest.mark.parametrize("sync", ["full", "commit"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_was_shown_after_it_is_there(start: bytes, name: str, sync: str) -> None:
    for which in range(1, LAST + 1):
        for later in (0, 1, 2):
            file = SimulatedFile(start)
            store = Store(Handle(file, sync=sync))
            file.fail_syncs = {file.syncs + which}
            with suppress(OSError, PoisonedError):
                OPERATIONS[name](store)
            with suppress(OSError):
                store.reopen()  # perhaps it is here that the sync fails
            file.fail_syncs = set()
            store.reopen()
            for _ in range(later):
                edit(store)
            found = after_a_power_cut(start, file)
            assert shown(found) == shown(store), f"sync {which} failed, {later} commits after"
            assert not found.check()


@pytest.mark.filterwarnings("ignore::pagestore.errors.RecoveryWarning")
@pytest.mark.parametrize("sync", ["full", "commit", "off"])
@pytest.mark.parametrize("killed", [False, True])
def test_nothing_is_built_on_commits_that_no_sync_covered(
    start: bytes, sync: str, killed: bool
) -> None:
    """Of a process that synced nothing the last sync failed, or the first of the process after
    it.
    """
    file = SimulatedFile(start)
    store = Store(Handle(file, sync="off"))
    for operation in (edit_all, edit, edit_nothing):
        operation(store)
    file.fail_syncs = {file.syncs + 1}
    if killed:
        store._handle.open = False
    else:
        with pytest.raises(OSError, match="simulated"):
            store.close()
    for again in range(3 if killed else 2):
        try:
            store = Store(Handle(file, sync=sync))
        except OSError:
            assert killed and not again
            continue
        edit(store)
        if sync == "off":
            store.close()
        else:
            store._handle.open = False
        right = shown(Store(Handle(SimulatedFile(file.content()))))
        found = after_a_power_cut(start, file)
        assert shown(found) == right and not found.check()


@pytest.mark.parametrize("sync", ["full", "commit", "off"])
def test_a_handle_that_failed_shows_the_commit_with_the_number_of_its_own(
    tmp_path: Path, sync: str
) -> None:
    """Its slot is not written, and another handle's commit has the same number, and the same page."""

    def pwrite(data: bytes, offset: int) -> None:
        if offset < 2 * SLOT_SIZE:
            raise OSError("simulated")
        write(data, offset)

    with (
        pagestore.open(tmp_path / "two.pages", sync=sync) as store,
        pagestore.open(tmp_path / "two.pages", sync=sync) as other,
    ):
        with other.transaction() as txn:
            txn.create("r", "k: int64, v: int64")
        with store.transaction() as txn:
            txn["r"].insert([(0, 0)])
        write, store._handle.file.pwrite = store._handle.file.pwrite, pwrite  # type: ignore[method-assign]
        with pytest.raises(OSError, match="simulated"), store.transaction() as txn:
            txn["r"].insert([(1, 1)])
        lost = store._handle.committer.state
        with other.transaction() as txn:
            txn["r"].insert([(2, 2)])
        assert other._handle.committer.state.place == lost.place
        history = other.history()
        assert store.history() == history
        with store.snapshot() as snapshot:
            assert [*snapshot["r"]] == [(0, 0), (2, 2)]
