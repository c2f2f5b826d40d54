"""Small commits, whose record the kernel writes that makes the edits, against those that are two
calls.
"""

import fcntl
from random import Random

import numpy as np
import pytest

import pagestore
from pagestore.storage.free_list import FreeList
from pagestore.versions import committer as committers
from pagestore.versions import locks as locking
from pagestore.versions.commit_record import free_pages_of
from pagestore.versions.kernel_commit import KernelCommit
from pagestore_tools.bench.meter import Meter
from tests.support.simulator import compiled


def edited(path, sync, steps=250, seed=1):
    """Edit two relations at random; return what a store then holds, and how many pages it has."""
    random = Random(seed)
    with pagestore.open(path, sync=sync, page_size=4096, threads=1) as store:
        with store.transaction() as txn:
            txn.create("edge", "x: int64, y: int64", scans="count")
            txn.create("mark", "k: int64, text: string", key="k")
        for step in range(steps):
            with store.transaction(branch="main", message="m" * random.randrange(3)) as txn:
                for _ in range(random.choice([1, 1, 1, 2, 30])):
                    row = random.randrange(60), random.randrange(60)
                    getattr(txn["edge"], random.choice(["insert", "delete"]))([row])
                if step % 5 == 0:
                    txn["mark"].set([(step % 40, random.choice(["same", f"text {step}"]))])
            if step % 25 == 0:
                store.tag(f"t{step}")
        assert store.check() == []
        commit = store._handle.state.commit
        return (
            [*store.snapshot()["edge"]],
            [*store.snapshot()["mark"]],
            commit.top,
            len(commit.added),
        )


@pytest.fixture
def completed(monkeypatch):
    """The short commits of the test."""
    found = []
    complete = KernelCommit.complete

    def noted(self):
        found.append(self)
        return complete(self)

    monkeypatch.setattr(KernelCommit, "complete", noted)
    return found


@compiled
@pytest.mark.parametrize("sync", ["off", "commit", "full"])
def test_short_commits_store_what_others_do(sync, tmp_path, completed, monkeypatch):
    short = edited(tmp_path / "short.pages", sync)
    assert len(completed) > 40
    completed.clear()
    monkeypatch.setattr(committers, "lay_out", lambda *_: None)
    assert edited(tmp_path / "other.pages", sync) == short
    assert not completed


@compiled
def test_a_record_that_is_not_wanted_is_discarded(tmp_path, completed, monkeypatch):
    short = edited(tmp_path / "short.pages", "off")
    completed.clear()
    monkeypatch.setattr(KernelCommit, "is_of", lambda *_: False)
    assert edited(tmp_path / "other.pages", "off")[:2] == short[:2]
    assert not completed


@compiled
def test_a_small_transaction_is_one_call_of_a_kernel_and_two_of_the_system_for_its_lock(
    tmp_path, monkeypatch
):
    asked, control = [], fcntl.fcntl
    monkeypatch.setattr(fcntl, "fcntl", lambda *given: asked.append(given) or control(*given))
    # or a busy machine asks each time whether others wait
    monkeypatch.setattr(locking, "LOOK_AGAIN", 3600.0)
    with pagestore.open(tmp_path / "s.pages", sync="off", threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64")
        locks, calls = [], []
        for n in range(60):
            with Meter(store) as meter, store.transaction() as txn:
                txn["r"].insert([n])
            asked.clear()
            with store.transaction() as txn:
                txn["r"].insert([-n])
            locks.append(len(asked))
            calls.append(meter.counts["kernel calls"])
    assert np.median(calls) == 1
    assert np.median(locks) == 2, "those that drop versions look for readers, too"


def test_free_pages_follow_commits_of_other_handles_without_reading_them_anew(
    tmp_path, monkeypatch
):
    read, random = [], Random(3)
    monkeypatch.setattr(
        committers, "free_pages_of", lambda *given: read.append(given) or free_pages_of(*given)
    )
    path = tmp_path / "s.pages"
    with (
        pagestore.open(path, sync="off", page_size=4096) as one,
        pagestore.open(path, sync="off") as other,
    ):
        with one.transaction() as txn:
            txn.create("r", "x: int64, y: int64").insert([(x, x) for x in range(5000)])
        for step in range(200):
            store = random.choice([one, other])
            with store.transaction() as txn:
                txn["r"].insert(
                    [(random.randrange(5000), step) for _ in range(random.choice([1, 5, 60]))]
                )
            if step == 20:
                read.clear()
            committer = store._handle.committer
            commit, space = committer.state.commit, committer.pager.free_list
            anew = FreeList(
                commit.top, free_pages_of(committer.mapping, commit), commit.added, commit.removed
            )
            mine = space.is_free(np.arange(commit.top)) | np.isin(
                np.arange(commit.top), [*space.pending, *committer.pager.allocated()]
            )
            assert (mine == anew.is_free(np.arange(commit.top))).all()
            assert sorted(space.difference()[0]) == sorted(commit.added)
        assert one.check() == []
        checkpoints = {given[1].checkpoint for given in read}
        assert len(read) <= 2 * len(checkpoints), "once for each checkpoint and handle"
        assert len(read) < 20
