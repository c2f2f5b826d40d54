"""The records that commits write, against records put together word by word."""

import errno
from array import array
from math import isqrt
from random import Random
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pagestore
from pagestore.errors import CorruptionError, PoisonedError
from pagestore.storage.file import CLOSED, stamped
from pagestore.storage.kernels.record import COMMIT, HEAD, WIDTHS, gather
from pagestore.storage.mapping import Mapping, Run, pages_of_run
from pagestore.storage.records import word_list
from pagestore.store import Store, empty_store
from pagestore.versions import commit_record
from pagestore.versions.commit_record import Commit
from pagestore.versions.handle import Handle
from tests.pagestore.storage.test_file import failing
from tests.support.file_systems import largest_file
from tests.support.programs.amounts import times
from tests.support.simulator import SimulatedFile, compiled

words = st.integers(-(1 << 63), (1 << 63) - 1)
NAMES = "roots", "system", "branches", "recent", "dead", "written", "added", "removed"


def lists(width):
    return st.lists(st.tuples(*[words] * width), max_size=6).map(lambda rows: word_list(*rows))


commits = st.builds(
    Commit,
    sequence=words,
    version=words,
    top=words,
    catalog=st.builds(Run, words, words),
    message=st.text(max_size=20),
    **{name: lists(width) for name, width in zip(NAMES, WIDTHS, strict=True)},
)


def plain(commit: Commit) -> list[int]:
    """As docs/format.md has it."""
    out = [
        COMMIT, commit.sequence, commit.version, commit.administrative, commit.parent,
        commit.branch, commit.timestamp,
        commit.last_version, commit.next_tree, commit.next_branch, commit.next_text, commit.top,
        commit.checksum,
        *commit.catalog, *commit.settings, *commit.checkpoint,
    ]  # fmt: skip
    for name, width in zip(NAMES, WIDTHS, strict=True):
        out += [len(getattr(commit, name)) // width, *getattr(commit, name)]
    text = commit.message.encode()
    return [*out, len(text), *array("q", text.ljust(-(-len(text) // 8) * 8, b"\0"))]


@settings(deadline=None)
@given(commits)
def test_a_record_is_its_words_one_behind_the_other(commit):
    assert commit.encode().tolist() == plain(commit)
    assert commit.length() == len(plain(commit))
    assert Commit.decode(np.array(plain(commit))) == commit


@settings(deadline=None)
@given(commits, st.data())
def test_a_record_longer_than_the_room_for_it_is_refused(commit, data):
    n = data.draw(st.integers(HEAD, commit.length() - 1))
    room = np.full(n + 8, 7)
    assert gather(np.frombuffer(commit.gather_arguments(), np.int64), room[:n]) == -1
    assert (room[n:] == 7).all()


@settings(deadline=None, max_examples=times(15))
@given(st.integers(0, 2000), st.integers(0, 600))
def test_what_is_laid_out_in_pages_is_read_back(n, more):
    record = word_list(range(n))
    file = SimulatedFile(bytes(9 * 4096))
    arena, ids = pages_of_run(Run(3, n + more), record, 5, COMMIT, 512)
    file.write_pages(arena, ids, 512)
    content = Mapping(file, 4096).read_run(Run(3, n + more))
    assert content.tolist() == [*record, *[0] * more]


def fill(store, random, relations=3):
    with store.transaction() as txn:
        for i in range(relations):
            txn.create(f"r{i}", "k: int64, v: int64", key="k").insert([(k, 0) for k in range(50)])
    for _ in range(40):
        with store.transaction("more") as txn:
            for i in random.sample(range(relations), min(3, relations)):
                txn[f"r{i}"].set(
                    [(random.randrange(5000), 1) for _ in range(random.choice([1, 30, 300]))]
                )
        yield


@pytest.mark.parametrize("sync", ["off", "commit"])
@pytest.mark.parametrize("relations", [3, 400])
def test_the_record_on_disk_is_what_the_commit_says(tmp_path, monkeypatch, sync, relations):
    """Written by a kernel or, where kernels may not write, by Python."""
    monkeypatch.setattr(SimulatedFile, "page_writer", CLOSED)
    simulated = Store(Handle(SimulatedFile(empty_store(4096)), sync=sync))
    with pagestore.open(tmp_path / "s.pages", sync=sync, page_size=4096) as stored:
        for store in stored, simulated:
            for _ in fill(store, Random(relations), relations):
                state = store._handle.state
                pages = pages_of_run(
                    state.run, state.commit.encode(), state.commit.version, COMMIT, 512
                )
                [(data, offset)] = stamped(*pages, 512)
                assert store._handle.file.pread(len(data), offset) == data
                about = store._handle.mapping, state.run, state.commit.version
                assert Commit.read_dead(*about) == Commit.read(*about).dead == state.commit.dead
                assert state.commit.dead
                with pytest.raises(CorruptionError, match="holds the record of version"):
                    Commit.read_dead(*about[:2], state.commit.version + 1)
            assert store.check() == []
        assert simulated._handle.state.commit.roots == stored._handle.state.commit.roots
        assert simulated._handle.state.commit.added == stored._handle.state.commit.added


def test_the_difference_stays_short(tmp_path):
    """Even where many pages are freed at once, and where pages are freed and used in turns."""
    random = np.random.default_rng(5)
    with pagestore.open(tmp_path / "s.pages", sync="off", page_size=4096, retain=3) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, v: int64", key="k").insert([(0, 0)])
        for _ in range(2):
            with store.transaction() as txn:
                big = txn.create("big", "k: int64, v: int64", key="k")
                big.insert([np.arange(400_000), random.integers(0, 1 << 60, 400_000)])
            for step in range(60):
                with store.transaction() as txn:
                    keys = random.integers(0, 400_000, 60 if step % 2 else 1)
                    txn["big"].set([keys, keys])
                    if step == 30:
                        txn.drop("big")
                        txn.create("big", "k: int64, v: int64", key="k").insert([(0, 0)])
                commit, space = store._handle.state.commit, store._handle.committer.pager.free_list
                most, took = 256 + 4 * isqrt(len(space)), len(commit.dead) // 3 + 64
                assert len(commit.added) + len(commit.removed) <= most + 3 * min(took, most)
            with store.transaction() as txn:
                txn.drop("big")
            assert len(space) > 800  # many pages were free at once


@pytest.mark.parametrize("what", ["full", "error"])
def test_a_record_that_is_not_written(tmp_path, monkeypatch, what):
    """Where the disk is full the handle goes on from the last commit; any other error poisons
    it.
    """
    store = pagestore.open(tmp_path / "s.pages", sync="commit")
    for _ in fill(store, Random(2)):
        pass
    version = store.version
    # or else a full disk is noticed in time
    store._handle.mapping.grow(store._handle.state.commit.top + 500)
    with largest_file(2 * store.page_size + 1000), monkeypatch.context() as patch:
        if what == "error":
            patch.setattr("pagestore.storage.file.os.pwrite", failing)
        with pytest.raises(OSError) as raised, store.transaction() as txn:
            txn.properties["changed"] = "yes"
    assert raised.value.errno == (errno.EIO if what == "error" else errno.EFBIG)
    if what == "error":
        with pytest.raises(PoisonedError):
            store.transaction()
        store.reopen()
    assert store.version == version
    with store.transaction() as txn:
        txn["r0"].set([(k, 2) for k in range(900)])
    assert store.check() == []
    store.close()


@compiled
def test_what_the_kernel_did_not_write_python_does(tmp_path, monkeypatch):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        commits = fill(store, Random(3))
        next(commits)
        write, short = commit_record.WRITE.call, []

        def nothing(_, *rest):
            short.append(write(CLOSED, *rest))
            return short[-1]

        monkeypatch.setattr(commit_record, "WRITE", SimpleNamespace(call=nothing))
        next(commits)
        assert short == [0]
        assert store.check() == []
        version = store.version
    with pagestore.open(tmp_path / "s.pages") as store:
        assert store.version == version
