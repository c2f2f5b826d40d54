"""FreeList: churn does not make the file grow, reclaim costs what it frees, a commit costs what
it writes.
"""

import random
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import pagestore
from pagestore.errors import VersionError
from pagestore.storage.free_list import FreeList
from pagestore.storage.mapping import Mapping
from pagestore.trees.compare import Delta
from pagestore.trees.read import pages_of
from pagestore.versions.committer import Committer
from tests.support.waiting import joined


def churn(store, rng, transactions, rows=100, keys=20_000):
    for _ in range(transactions):
        with store.transaction() as txn:
            columns = rng.integers(0, keys, (2, rows))
            txn["r"].set(list(columns))


@pytest.fixture
def store(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off", retain=10) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, v: int64", key="k").insert([(k, 0) for k in range(20_000)])
        yield store


@pytest.mark.parametrize("transactions", [1_000, pytest.param(10_000, marks=pytest.mark.campaign)])
def test_churn_stays_within_one_and_a_half_times_the_steady_size(store, transactions):
    rng = np.random.default_rng(1)
    churn(store, rng, 100)
    steady = store._handle.state.commit.top
    churn(store, rng, transactions)
    assert store._handle.state.commit.top <= 1.5 * steady
    assert store.path.stat().st_size <= 1.5 * steady * store.page_size + (1 << 18)
    assert 10 <= len(store.history()) < 10 + 10 // 2
    assert store.check() == []


@pytest.mark.parametrize(("retain", "batch"), [(1, 1), (3, 1), (10, 5), (16, 8), (40, 32)])
def test_versions_go_in_batches_on_every_branch(tmp_path, retain, batch):
    with pagestore.open(tmp_path / "s.pages", sync="off", retain=retain) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64")
        store.branch("b")
        most = {"main": 0, "b": 0}
        for step in range(2 * (retain + 3 * batch)):
            for branch in most:
                with store.transaction(branch=branch) as txn:
                    txn["r"].insert([step])
            for branch in most:
                versions = len(store.history(branch=branch))
                assert versions >= min(step + 1, retain)
                most[branch] = max(most[branch], versions)
        assert max(most.values()) <= retain + 2 * batch
        assert store.check() == []


def test_churn_beside_a_tag_and_a_reader_stays_bounded_too(store):
    rng = np.random.default_rng(2)
    store.tag("start")
    churn(store, rng, 50)
    pinned = store.snapshot()
    content = pinned["r"].to_arrow()
    churn(store, rng, 100)
    steady = store._handle.state.commit.top
    churn(store, rng, 500)
    assert store._handle.state.commit.top <= 1.5 * steady
    assert pinned["r"].to_arrow() == content
    pinned.close()
    store.untag("start")
    store.compact()
    assert store._handle.state.commit.top < steady / 2
    assert store.check() == []


def test_pages_of_a_rolled_back_transaction_are_reused(store):
    rng = np.random.default_rng(3)
    churn(store, rng, 20)
    top = store._handle.state.commit.top
    for _ in range(50):
        with pytest.raises(KeyError), store.transaction() as txn:
            txn["r"].set(list(rng.integers(0, 20_000, (2, 2_000))))
            len(txn["r"])
            raise KeyError
    churn(store, rng, 20)
    assert store._handle.state.commit.top <= 1.2 * top + 64
    assert store.check() == []


def test_a_small_commit_writes_few_pages_and_syncs_twice(tmp_path):
    counts = {"pwrite": 0, "fdatasync": 0}
    for sync, syncs in (("full", 2), ("commit", 1), ("off", 0)):
        with pagestore.open(tmp_path / f"{sync}.pages", sync=sync) as store:
            with store.transaction() as txn:
                txn.create("r", "k: int64, v: int64", key="k").insert(
                    [(k, 0) for k in range(50_000)]
                )
            for _ in range(40):  # into the steady state, with versions dropped
                with store.transaction() as txn:
                    txn["r"].set([(77, 1)])
            file = store._handle.file
            pwrite, write_pages, fdatasync = file.pwrite, file.write_pages, file.fdatasync
            wrote = file.wrote

            def counted(data, offset, pwrite=pwrite, store=store):
                counts["pwrite"] += max(1, memoryview(data).nbytes // store.page_size)
                pwrite(data, offset)

            def counted_pages(arena, ids, page_words, write_pages=write_pages):
                counts["pwrite"] += len(ids)
                write_pages(arena, ids, page_words)

            def counted_by_kernel(ids):
                counts["pwrite"] += len(ids)

            def counted_sync(fdatasync=fdatasync):
                counts["fdatasync"] += 1
                fdatasync()

            file.pwrite, file.write_pages, file.fdatasync = counted, counted_pages, counted_sync
            file.wrote = counted_by_kernel
            counts.update(pwrite=0, fdatasync=0)
            with store.transaction() as txn:
                txn["r"].set([(77, 2)])
                height = txn["r"].tree.height
            # the path, the record, the meta slot
            assert counts == {"pwrite": height + 2, "fdatasync": syncs}
            file.pwrite, file.write_pages, file.fdatasync, file.wrote = (
                pwrite,
                write_pages,
                fdatasync,
                wrote,
            )


def test_a_diff_reads_what_differs(store):
    rng = np.random.default_rng(4)
    churn(store, rng, 3, rows=5)
    version = store.version
    with store.at(version) as new, store.at(version - 1) as old:
        changes = Delta(new.pages, old.tree("r"), new.tree("r"))
        rows = sum(len(actions) for actions, _ in changes)
        assert 0 < rows <= 10
        assert changes.pages_read <= 2 * rows * new.tree("r").height
        same = Delta(new.pages, new.tree("r"), new.tree("r"))
        assert list(same) == []
        assert same.pages_read == 0


def test_dropping_a_version_reads_no_page_that_stays(store):
    """The cost of a commit does not depend on how large the store is."""
    rng = np.random.default_rng(5)
    churn(store, rng, 20, rows=2)
    reads = 0
    pread = store._handle.file.pread

    def counted(count, offset):
        nonlocal reads
        reads += 1
        return pread(count, offset)

    store._handle.file.pread = counted
    churn(store, rng, 20, rows=2)
    assert reads == 0  # the dead lists of recent versions are in memory; nothing else is looked at


def test_many_versions_move_to_the_history_tree(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off", retain="all") as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64")
        for k in range(200):
            with store.transaction() as txn:
                txn["r"].insert([k])
        assert len(store.history()) == 202
        assert store._handle.state.versions.tree.count > 100
        for version in (1, 50, 137, 201):
            with store.at(version) as snapshot:
                assert len(snapshot["r"]) == version - 1
        assert store.vacuum(drop=range(3, 150)).dropped == tuple(range(3, 150))
        assert store.check() == []
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert [info.version for info in store.history()][-4:] == [150, 2, 1, 0]
        assert len(store.at(2)["r"]) == 1


def test_many_retained_versions_go_in_batches(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off", retain=100) as store:
        for k in range(300):
            with store.transaction() as txn:
                txn["r"].insert([k]) if k else txn.create("r", "k: int64")
            assert min(k + 2, 100) <= len(store.history(branch="main")) <= 100 + 2 * 32
        assert store.check() == []


def test_threads_never_read_a_version_that_is_being_dropped(tmp_path):
    """Readers take the newest version while the writer drops all but one, as fast as both can."""
    with pagestore.open(tmp_path / "s.pages", sync="off", retain=1) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, v: int64", key="k").insert([(k, 1) for k in range(300)])
        wrong, end = [], threading.Event()

        def read():
            while not end.is_set():
                try:
                    with store.at(random.choice([v.version for v in store.history()])) as snapshot:
                        values = (
                            set(snapshot["r"].to_numpy()["v"].tolist()) if snapshot.version else {0}
                        )
                        if values != {snapshot.version}:
                            wrong.append((snapshot.version, values))
                except VersionError:
                    continue
                except Exception as error:
                    wrong.append(error)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for _ in range(400):
            with store.transaction() as txn:
                txn["r"].set([(k, txn.version) for k in range(300)])
        end.set()
        joined(*readers)
        assert wrong == []


def test_a_damaged_dead_list_stops_its_reclaim_and_nothing_else(store):
    rng = np.random.default_rng(6)
    churn(store, rng, 12, rows=3)
    entry = store._handle.state.versions.recent[1]
    store._handle.committer._dead.clear()
    store._handle.file.pwrite(b"\xff" * 8, entry.page * store.page_size + 100)
    churn(store, rng, 12, rows=3)
    versions = [info.version for info in store._handle.state.versions.recent]
    assert entry.version in versions
    assert len(versions) <= 10 + 5  # with the versions before and behind it, and a batch
    violations = store.check()
    assert entry.page in {violation.page for violation in violations}
    # what it alone reached
    assert {v.invariant for v in violations if v.page != entry.page} <= {"page audit"}


@pytest.mark.campaign
def test_twenty_million_records_load_in_bounded_memory(tmp_path):
    """Memory of the process itself, the mapped file not counted."""

    def anonymous() -> int:
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+)", status)[1]) << 10

    before, most = anonymous(), 0

    def batches():
        nonlocal most
        for first in range(0, 20_000_000, 500_000):
            most = max(most, anonymous())
            yield {
                "k": np.arange(first, first + 500_000) * 7,
                "v": rng.integers(0, 1 << 40, 500_000),
            }

    rng = np.random.default_rng(7)
    with pagestore.open(tmp_path / "big.pages") as store:
        with store.transaction() as txn:
            assert txn.create("r", "k: int64, v: int64", key="k").bulk(batches()) == 20_000_000
        with store.transaction() as txn:
            for _ in range(20):
                txn["r"].set([rng.integers(0, 140_000_000, 100_000), np.zeros(100_000, np.int64)])
            len(txn["r"])
            most = max(most, anonymous())
    assert most - before < 1 << 30


@pytest.mark.parametrize("relations", range(1, 40, 3))
def test_the_file_holds_every_page_below_the_committed_top(tmp_path, relations):
    """Pages allocated in advance count, so that a close or a crash right after any commit leaves
    a file that opens.
    """
    path = tmp_path / "store.pages"
    with pagestore.open(path, sync="off") as store:
        for round_ in range(3):
            with store.transaction() as txn:
                for i in range(relations):
                    txn.create(f"r{round_}.{i}", "x: int64").insert([(i,)])
                    # is built anew, with pages allocated in plenty
                    txn.add_scan(f"r{round_}.{i}", "count")
            assert path.stat().st_size >= store._handle.state.commit.top * store.page_size


def test_pages_of_the_checkpoint_that_are_behind_the_end():
    """The file was longer when the checkpoint was made: allocated pages at its end were returned
    since.
    """
    before = FreeList(30)
    before.take_back(before.allocate(5000))
    extents = before.checkpoint(np.zeros(0, np.int64))
    allocated = before.allocate(5000)
    assert before.retract(allocated[5:]) == 4995 and before.top == 35
    added, removed = before.difference()
    assert max(removed) == 5029
    free = np.concatenate([np.arange(first, first + n) for first, n in extents.tolist()])
    after = FreeList(before.top, free, added, removed)
    assert after.difference() == (added, removed) and len(after) == 5
    assert after.allocate(40).tolist() == list(range(30, 70)) and after.top == 70
    assert min(after.difference()[1]) == 70


@pytest.mark.parametrize("retain", [2, 40, 100])
def test_a_commit_asks_for_all_its_room_at_once(tmp_path, monkeypatch, retain):
    """Otherwise a disk that fills up half-way through a commit would poison the handle."""
    asked: list[list[int]] = []
    publish, room, grow = Committer._publish, Committer._room, Mapping.grow

    def published(committer, *given):
        asked.append([])
        return publish(committer, *given)

    def roomy(committer, *given):
        pages = room(committer, *given)
        asked[-1].append(committer.pager.free_list.top + pages)
        return pages

    def grown(mapping, top, spare=0):
        if asked:
            asked[-1].append(top)
        grow(mapping, top, spare)

    rng = random.Random(retain)
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off", retain=retain) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, v: int64", key="k").insert([(k, k) for k in range(30_000)])
        monkeypatch.setattr(Committer, "_publish", published)
        monkeypatch.setattr(Committer, "_room", roomy)
        monkeypatch.setattr(Mapping, "grow", grown)
        for n in range(150):
            if n % 9 == 8:
                store.tag(f"t{n}")
            if n % 60 == 59:
                for tag in [*store.tags][::2]:
                    store.untag(tag)
            with store.transaction() as txn:
                txn["r"].set(
                    [(rng.randrange(30_000), n) for _ in range(rng.choice([49, 100, 400]))]
                )
        store.vacuum(keep_versions=1)
    assert len(asked) > 170  # every commit: none is short, with that many rows
    assert all(max(tops) == tops[0] for tops in asked if len(tops) > 1)


def test_what_is_compact_stays_as_small(tmp_path):
    rng = np.random.default_rng(4)
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off") as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, v: int64", key="k").insert(
                [rng.permutation(1 << 20)[:200_000], rng.integers(0, 1 << 40, 200_000)]
            )
        live = len(pages_of(store.snapshot().pages, store.snapshot()["r"].tree))
        for _ in range(3):
            store.compact()
            assert store._handle.state.commit.top <= live + 32
        assert store.check() == []
