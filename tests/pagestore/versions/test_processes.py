"""Readers and writers in processes of their own, killed at random: no wrong read, no lost
acknowledged commit.

Every version holds rows (k, n) for keys that depend on n alone, and n as a property, so any process
can tell a right read from a wrong one; now and then the writer cuts the file or writes it anew. It
appends a version to a file of its own before the next commit: that is what it was promised.
"""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pagestore
from pagestore.errors import ForkError, LockedError, VersionError
from tests.support.waiting import joined

KEYS = 500


def keys_of(n: int) -> list[int]:
    """The keys of a version's content."""
    return random.Random(n).sample(range(5 * KEYS), KEYS)


def write(path: str, sync: str, promises: str) -> None:
    """Commit for ever; note each acknowledged version."""
    with pagestore.open(path, sync=sync) as store, open(promises, "a") as notes:
        while True:
            with store.transaction() as txn:
                if "r" in txn:
                    txn["r"].delete(list(dict(txn["r"])))
                else:
                    txn.create("r", "k: int64, v: int64", key="k")
                txn["r"].insert([(k, txn.version) for k in keys_of(txn.version)])
                txn.properties["n"] = str(txn.version)
            notes.write(f"{store.version}\n")
            notes.flush()
            if store.version % 40 == 0:
                store.vacuum(keep_versions=2)
            elif store.version % 40 == 20:
                store.compact()


def read(path: str, wrong: str) -> None:
    """Read the newest and some older version for ever; note what is wrong."""
    store = pagestore.open(path, mode="r")
    while True:
        try:
            with store.snapshot() as newest:
                agree(newest, wrong)
                time.sleep(random.random() / 50)  # the writer goes on meanwhile
                agree(newest, wrong)
            with store.at(random.choice(store.history()).version) as older:
                agree(older, wrong)
        except VersionError:
            continue
        except Exception as error:  # anything else is a finding
            Path(wrong).write_text(f"{type(error).__name__}: {error}\n")
            raise


def agree(snapshot: pagestore.Snapshot, wrong: str) -> None:
    if snapshot.version == 0:
        return
    rows, n = sorted(snapshot["r"]), int(snapshot.properties["n"])
    if rows != [(k, n) for k in sorted(keys_of(n))]:
        Path(wrong).write_text(f"version {snapshot.version} reads {rows[:5]}...\n")
        raise SystemExit(1)


def start(action: str, *arguments: object) -> subprocess.Popen:
    here = str(Path(__file__).parent)
    code = f"import sys; sys.path.insert(0, {here!r}); import test_processes; test_processes.{action}(*sys.argv[1:])"
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)])


@pytest.mark.parametrize("sync", ["full", "off"])
@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.campaign)])
def test_kills_lose_nothing(tmp_path, seconds, sync):
    """Without syncs, too: the system keeps what a dead process has written."""
    path, promises = tmp_path / "s.pages", tmp_path / "promises"
    pagestore.open(path, page_size=4096).close()
    promises.touch()
    rng = random.Random(f"{seconds} {sync}")
    wrongs = [tmp_path / f"wrong{i}" for i in range(4)]
    readers = [start("read", path, wrong) for wrong in wrongs]
    writer = start("write", path, sync, promises)
    kills = 0
    try:
        writing(promises, 0)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(rng.uniform(0.2, 1.5))
            if rng.random() < 0.6:
                writer.send_signal(signal.SIGKILL)
                writer.wait()
                kills += 1
                before = promised(promises)
                writer = start("write", path, sync, promises)
                with pagestore.open(path, mode="r") as store:
                    assert store.version >= before[-1]
                writing(promises, len(before))
            else:
                i = rng.randrange(4)
                assert readers[i].poll() in (None, 1), "a reader died of more than a wrong read"
                readers[i].send_signal(signal.SIGKILL)
                readers[i].wait()
                readers[i] = start("read", path, wrongs[i])
    finally:
        for process in [writer, *readers]:
            process.kill()
            process.wait()
    assert not [wrong.read_text() for wrong in wrongs if wrong.exists()]
    with pagestore.open(path) as store:  # the dead hold no locks
        # one in flight, or a compaction's two
        assert 0 <= store.version - promised(promises)[-1] <= 3
        assert store.check() == []
        assert store.readers() == []
        with store.transaction() as txn:
            txn["r"].insert([(-1, -1)])
    assert kills


def promised(promises: Path) -> list[int]:
    """The versions that the writer was told are durable."""
    return [int(line) for line in promises.read_text().split()]


def writing(promises: Path, count: int) -> None:
    """Wait until the writer has been promised more than so many versions; kernels may have to
    compile first.
    """
    end = time.monotonic() + 120
    while len(promised(promises)) <= count:
        assert time.monotonic() < end, "the writer does not write"
        time.sleep(0.05)


def test_a_second_writer_beside_an_exclusive_one_is_refused(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path, exclusive=True):
        with pytest.raises(LockedError, match="being written"):
            pagestore.open(path)
        assert subprocess.run(
            [sys.executable, "-c", f"import pagestore; pagestore.open({str(path)!r})"],
            capture_output=True,
            check=False,
        ).returncode
    pagestore.open(path).close()


def test_readers_of_neighbouring_versions_are_seen(tmp_path):
    """The system shows bytes that one handle has locked side by side as one range."""
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off") as store:
        for _ in range(5):
            with store.transaction() as txn:
                txn.properties["n"] = str(txn.version)
        with pagestore.open(path, mode="r") as reader, reader.at(2), reader.at(3), reader.at(4):
            assert [(r.version, r.pid) for r in store.readers()] == [
                (n, os.getpid()) for n in (2, 3, 4)
            ]


def test_a_reader_in_another_process_keeps_its_version(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off", retain=2) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64").insert([1])
        reader = pagestore.open(path, mode="r")
        snapshot = reader.at(1)
        for k in range(2, 22):
            with store.transaction() as txn:
                txn["r"].insert([k])
        assert [entry.version for entry in store.history()][-1] == 1
        assert [(r.version, r.pid) for r in store.readers()] == [(1, os.getpid())]
        assert list(snapshot["r"]) == [(1,)]
        assert store.vacuum(keep_versions=1).kept[1] == "another process reads it"
        snapshot.close()
        assert store.vacuum(keep_versions=1).dropped == (1,)
        with pytest.raises(VersionError):
            reader.at(1)
        assert reader.version == 21
        reader.close()


def forked(store: pagestore.Store, queue) -> None:
    try:
        store.snapshot()
    except ForkError as error:
        queue.put(str(error))
    store.close()


def test_a_fork_is_noticed_and_does_no_harm(tmp_path):
    with pagestore.open(tmp_path / "s.pages", exclusive=True) as store:
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=forked, args=(store, queue))
        child.start()
        assert "came through a fork" in queue.get(timeout=20)
        joined(child)
        with pytest.raises(LockedError):  # the child's close did not drop the parent's lock
            pagestore.open(tmp_path / "s.pages")
        with store.transaction() as txn:
            txn.create("r", "k: int64")


def in_a_worker(store: pagestore.Store, snapshot: pagestore.Snapshot) -> tuple[int, list]:
    return store.version, list(snapshot["r"])


def test_handles_travel_to_other_processes(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64").insert([1, 2])
        with multiprocessing.get_context("spawn").Pool(1) as pool, store.snapshot() as snapshot:
            assert pool.apply(in_a_worker, (store, snapshot)) == (1, [(1,), (2,)])


CHECK_A_FILE_THAT_IS_CUT = """
import sys
import pagestore
from pagestore.admin.check import Check
with pagestore.open(sys.argv[1], retain=1) as store:
    for n in range(4):
        with store.transaction() as txn:
            if "r" not in txn:
                txn.create("r", "k: int64, text: string", key="k")
            txn["r"].set([(k, f"{n} of {k}") for k in range(5_000)])
    with pagestore.open(sys.argv[1], mode="r") as reader:
        check = Check(reader._handle)
        store.compact()
        assert any(violation.invariant in ("checksum", "record") for violation in check.run())
        assert reader.check() == []
"""


def test_a_check_of_a_file_that_is_cut_meanwhile(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CHECK_A_FILE_THAT_IS_CUT, str(tmp_path / "s.pages")]
    )
    assert done.returncode == 0
