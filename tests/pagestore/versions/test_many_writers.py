"""Several processes write to one store: each transaction continues from those of the others, and
none starves.
"""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from random import Random

import pytest

import pagestore
from pagestore.errors import ClosedError, PoisonedError, VersionError
from pagestore.storage.meta import SLOT_SIZE
from pagestore.versions import handle as handles
from pagestore.versions import version_table
from pagestore.versions.committer import Committer
from pagestore.versions.handle import Handle
from pagestore.versions.recovery import newest_meta
from tests.support.waiting import joined

CONTEXT = multiprocessing.get_context("fork")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off") as store, store.transaction() as txn:
        txn.create("r", "writer: int64, k: int64, text: string", key=["writer", "k"])
    return path


def in_processes(count, target, *args):
    processes = [CONTEXT.Process(target=target, args=(i, *args)) for i in range(count)]
    for process in processes:
        process.start()
    return processes


def ended_well(processes):
    for process in processes:
        process.join(120)
        assert process.exitcode == 0


def insert(store, writer, k):
    """Add a row, whose text is new: texts get the next ids of the newest commit."""
    with store.transaction() as txn:
        txn["r"].insert([(writer, k, f"{writer}, {k}")])


def five_prepared(store):
    """Commit five prepared rows of a new relation `pairs`; return what prepared them."""
    with store.transaction() as txn:
        txn.create("pairs", "x: int64, y: int64")
    put = store.prepare("pairs")
    for k in range(5):
        put.insert(0, k)
        put.commit()
    return put


def write(writer, path, count, sync):
    with pagestore.open(path, sync=sync) as store:
        for k in range(count):
            insert(store, writer, k)
            assert (writer, k, f"{writer}, {k}") in store.snapshot()["r"]


@pytest.mark.parametrize("syncs", [("off", "off", "off"), ("full", "commit", "off")])
def test_each_transaction_continues_from_all_others(path, syncs):
    processes = [
        CONTEXT.Process(target=write, args=(i, path, 40, sync)) for i, sync in enumerate(syncs)
    ]
    for process in processes:
        process.start()
    ended_well(processes)
    with pagestore.open(path) as store:
        assert store.recovery is None  # the last to close left it clean
        rows = [(writer, k, f"{writer}, {k}") for writer in range(len(syncs)) for k in range(40)]
        assert [*store.snapshot()["r"]] == rows and store.version == 1 + len(rows)
        assert not store.check()


def test_two_handles_take_turns_in_everything(path):
    """What a handle keeps in memory is that of the newest commit: catalog, dictionary, tags,
    branches, free pages.
    """
    with pagestore.open(path, sync="off", retain=2) as one, pagestore.open(path, sync="off") as two:
        random = Random(7)
        for k in range(60):
            here, there = (one, two) if random.random() < 0.5 else (two, one)
            insert(here, k % 3, k)
            assert (
                there.snapshot()["r"][k % 3, k] == f"{k % 3}, {k}" and there.version == here.version
            )
            if k % 10 == 3:
                with here.transaction() as txn:
                    txn.create(f"r{k}", "x: string").insert([("new",), (f"text {k}",)])
                with there.transaction() as txn:
                    txn[f"r{k}"].insert([(f"text {k + 1}",)])
                assert len(here.snapshot()[f"r{k}"]) == 3
            if k % 10 == 5:
                here.tag(f"t{k}")
                assert there.tags == here.tags and f"t{k}" in there.tags
            if k % 10 == 7:
                there.untag(f"t{k - 2}")
                here.branch(f"b{k}")
                there.delete_branch(f"b{k}")
            if k % 20 == 9:
                there.vacuum(1)
            if k % 20 == 19:
                here.compact()
        assert two.retain == 2 and not one.check() and not two.check()
        assert sorted(k for _, k, _ in one.snapshot()["r"]) == [*range(60)]


def test_a_snapshot_keeps_its_version_from_being_dropped_by_others(path):
    with pagestore.open(path, sync="off", retain=1) as one, pagestore.open(path, sync="off") as two:
        insert(one, 0, 0)
        with one.snapshot() as old:
            for k in range(1, 30):
                insert(two, 0, k)
            two.vacuum(1)
            assert len(old["r"]) == 1 and one.check() == []
            assert old.version in {info.version for info in two.history()}
        assert old.version in two.vacuum(1).dropped


def test_locks_of_dropped_versions_do_not_take_a_readers(path):
    """Versions on both sides of one that is read are dropped together."""
    with (
        pagestore.open(path, sync="off", retain="all") as one,
        pagestore.open(path, sync="off") as two,
    ):
        for k in range(8):
            insert(one, 0, k)
        with one.at(4) as old:
            one.vacuum(1)
            two.vacuum(1)
            assert len(old["r"]) == 3 and 4 in {info.version for info in two.history()}


def hold(_, path, seconds, held):
    with pagestore.open(path, sync="off") as store, store.transaction():
        held.set()
        time.sleep(seconds)


def join_queue(writer, path, rounds, times, opened=None):
    with pagestore.open(path, sync="off") as store:
        for _ in range(rounds):
            if opened:
                opened.set()
            asked = time.monotonic()
            with store.transaction() as txn:
                began = time.monotonic()
                txn["r"].set([(writer, 0, "")])
            times.put((writer, asked, began))


def test_nobody_starves(path):
    """Of four processes that write without pause, each is mostly served once while another one
    waits.
    """
    times = CONTEXT.Queue()
    processes = in_processes(4, join_queue, path, 100, times)
    seen = [times.get(timeout=60) for _ in range(400)]
    ended_well(processes)
    before = sorted(sum(asked < other < began for _, _, other in seen) for _, asked, began in seen)
    # a process may be interrupted between asking and joining the queue
    assert before[360] <= 6, before


def test_those_who_wait_do_so_in_order_and_past_the_dead(path):
    held = CONTEXT.Event()
    holder = CONTEXT.Process(target=hold, args=(0, path, 60, held))
    holder.start()
    assert held.wait(60)
    times, waiting = CONTEXT.Queue(), []
    for writer in range(4):
        opened = CONTEXT.Event()
        waiting += [CONTEXT.Process(target=join_queue, args=(writer, path, 1, times, opened))]
        waiting[-1].start()
        # a process may take long to start, but soon after this it is in the queue
        assert opened.wait(60)
        time.sleep(0.5)
    os.kill(waiting[1].pid, signal.SIGKILL)  # one in the midst of the queue
    os.kill(holder.pid, signal.SIGKILL)
    ended_well([waiting[0], *waiting[2:]])
    served = sorted((times.get(timeout=60) for _ in range(3)), key=lambda time: time[2])
    assert [writer for writer, _, _ in served] == [0, 2, 3]
    with pagestore.open(path) as store:
        assert not store.check()


def test_a_handle_is_passed_on_at_once(path):
    """The next process begins within a millisecond, mostly, of the end of the transaction
    before.
    """
    with pagestore.open(path, sync="off") as one, pagestore.open(path, sync="off") as two:
        gaps = []
        for _ in range(20):
            ready, began = threading.Event(), []

            def wait(ready=ready, began=began):
                ready.set()
                txn = two.transaction()
                began.append(time.monotonic())
                txn.rollback()

            txn = one.transaction()
            thread = threading.Thread(target=wait)
            thread.start()
            ready.wait()
            time.sleep(0.02)
            ended = time.monotonic()
            txn.rollback()
            joined(thread)
            gaps += [began[0] - ended]
        assert sorted(gaps)[5] < 1e-3  # nearly all of them on a machine with nothing else to do


def test_a_commit_that_a_dead_process_did_not_sync_is_made_durable_first(path, monkeypatch):
    """Its pages can be read, but the pages that it freed must not be written before it is on the
    disk.
    """
    done = []
    monkeypatch.setattr(
        handles, "make_durable", lambda mapping, state, *_: done.append(state.last_version)
    )
    with pagestore.open(path) as one:
        done.clear()
        insert(one, 0, 0)
        with pagestore.open(path) as two:
            insert(two, 1, 0)  # `one` is still open, and says that its commit is durable
            assert not done
        insert(one, 0, 1)  # `two` has been closed, and says nothing any more
        assert done == [3]
        with pagestore.open(path, sync="off") as two:
            insert(two, 1, 1)
            insert(one, 0, 2)
            assert done == [3, 5]


def test_a_failed_sync_leaves_the_commit_to_others(path, monkeypatch):
    with pagestore.open(path) as one, pagestore.open(path) as two:
        insert(one, 0, 0)

        def fail():
            raise OSError(5, "simulated")

        with monkeypatch.context() as patch:
            patch.setattr(one._handle.file, "fdatasync", fail)
            with pytest.raises(OSError, match="simulated"):
                insert(one, 0, 1)
        with pytest.raises(PoisonedError):
            insert(one, 0, 2)
        insert(two, 1, 0)
        one.reopen()
        insert(one, 0, 3)
        assert not two.check() and {(0, 3, "0, 3"), (1, 0, "1, 0")} <= {*two.snapshot()["r"]}


def test_a_reader_sees_what_others_committed_before_this_process_may_write(path, monkeypatch):
    """A thread has just got the writer's lock, and does not continue from the newest commit yet."""
    with pagestore.open(path, sync="off") as one, pagestore.open(path, sync="off") as two:
        insert(two, 1, 0)
        insert(one, 0, 0)
        follow, seen = two._handle._follow, []

        def read_then_follow():
            seen.append([*two.snapshot()["r"]])
            follow()

        monkeypatch.setattr(two._handle, "_follow", read_then_follow)
        with two.transaction() as txn:
            assert seen == [[*one.snapshot()["r"]]] == [[*txn["r"]]]


def write_and_read(writer, path, acknowledged, sync):
    """Commit in one thread, and take snapshots in two, which show what was acknowledged before
    by any process.
    """
    with pagestore.open(path, sync=sync) as store, ThreadPoolExecutor(3) as pool:
        insert(store, writer, 0)
        acknowledged[writer] = 1
        end = time.monotonic() + 0.5

        def commit():
            while time.monotonic() < end:
                insert(store, writer, acknowledged[writer])
                acknowledged[writer] += 1

        def read():
            last = 0
            while time.monotonic() < end:
                expected = [*acknowledged]
                with store.snapshot() as snap:
                    assert snap.version >= last and all(
                        (i, n - 1) in snap["r"] for i, n in enumerate(expected) if n
                    )
                    last = snap.version

        for work in [pool.submit(commit), pool.submit(read), pool.submit(read)]:
            work.result()


@pytest.mark.parametrize(
    "slow",
    [(Handle, "_follow"), (Handle, "_adopt"), (Handle, "pin"), (Committer, "_complete")],
    ids=str,
)
def test_a_snapshot_shows_all_that_was_acknowledged_before(path, monkeypatch, slow):
    """Whatever a thread was about to do when others went on."""
    original = getattr(*slow)

    def slowly(*args):
        time.sleep(0.003)
        return original(*args)

    monkeypatch.setattr(*slow, slowly)
    acknowledged = CONTEXT.Array("q", 3, lock=False)
    processes = [
        CONTEXT.Process(target=write_and_read, args=(i, path, acknowledged, sync))
        for i, sync in enumerate(["off", "commit", "full"])
    ]
    for process in processes:
        process.start()
    ended_well(processes)
    assert min(acknowledged) > 1


@pytest.mark.parametrize("sync", ["full", "commit"])
@pytest.mark.parametrize("prepared", [False, True])
def test_nobody_sees_a_commit_before_all_do(path, monkeypatch, sync, prepared):
    """Else one who sees it, and then another one who does not, could be in no serial order."""
    with pagestore.open(path, sync=sync) as one, pagestore.open(path, mode="r") as two:
        put, reached, go = one.prepare("r"), threading.Event(), threading.Event()
        for k in range(8):
            put.insert(0, k, "")
            put.commit()
        write, commits, changes = one._handle.file.pwrite, one.commits(), one.changes("r")

        def pwrite(data, offset):
            if offset <= SLOT_SIZE:
                reached.set()
                go.wait(60)
            write(data, offset)

        def commit():
            if prepared:
                put.insert(0, 8, "")
                put.commit()
            else:
                insert(one, 0, 8)

        monkeypatch.setattr(one._handle.file, "pwrite", pwrite)
        thread = threading.Thread(target=commit)
        thread.start()
        assert reached.wait(60)
        assert len(one.snapshot()["r"]) == len(two.snapshot()["r"]) == 8
        assert one.version == two.version and commits.next(0) is changes.next(0) is None
        go.set()
        joined(thread)
        assert (
            commits.next(20) == one.version == two.version and changes.next(20).rows.num_rows == 1
        )
        commits.close()
        changes.close()
        assert len(one.snapshot()["r"]) == len(two.snapshot()["r"]) == 9


@pytest.mark.parametrize("go_on", ["read", "write", "prepare", "close"])
@pytest.mark.parametrize("count", range(1, 8))
def test_a_series_ends_where_others_have_reused_the_pages_of_its_record(path, go_on, count):
    """The handle has not read its newest commit, whose record may be gone."""
    with pagestore.open(path, sync="off", retain=1) as one, pagestore.open(path, sync="off") as two:
        put = five_prepared(one)
        assert one._handle.committer.series
        for k in range(count):
            insert(two, 1, k)
        if go_on == "write":
            insert(one, 0, 0)
        elif go_on == "prepare":
            put.insert(0, 5)
            put.commit()
        elif go_on == "close":
            one.close()
        else:
            assert [*one.snapshot()["pairs"]] == [(0, k) for k in range(5)]
        found = two.snapshot()
        assert [*found["pairs"]] == [(0, k) for k in range(5 + (go_on == "prepare"))]
        assert len([*found["r"]]) == count + (go_on == "write") and not two.check()


def test_versions_that_lie_where_another_handle_made_the_file_longer_are_dropped(path):
    """The handle's free pages are to be read anew: until then it knows only how many pages there
    were.
    """
    with pagestore.open(path, sync="off") as one, pagestore.open(path, sync="off") as two:
        five_prepared(one)
        for k in range(60):
            with two.transaction() as txn:
                txn["pairs"].insert([(2, 1000 * k + n) for n in range(1000)])
        assert one.vacuum(keep_versions=1).dropped
        assert len([*one.snapshot()["pairs"]]) == 60_005 and not one.check()


@pytest.mark.parametrize("sync", ["full", "commit"])
def test_nobody_reads_a_commit_whose_sync_failed_once_others_reuse_its_pages(
    path, monkeypatch, sync
):
    with pagestore.open(path, sync=sync) as one, pagestore.open(path, sync="off") as two:
        insert(one, 0, 0)
        kept, lost = one.snapshot(), []

        def fail(*_):
            assert len(one.snapshot()["r"]) == 1
            lost.append(one.at(3))
            raise OSError(5, "simulated")

        with monkeypatch.context() as patch:
            patch.setattr(one._handle.committer, "_sync_slot", fail)
            with pytest.raises(OSError, match="simulated"):
                insert(one, 0, 1)
        assert one.version == two.version == 2
        for k in range(3):
            insert(two, 1, k)
            assert [*one.snapshot()["r"]] == [*two.snapshot()["r"]] and len(kept["r"]) == 1
        with pytest.raises(ClosedError, match="version 3 shows a commit that failed; take another"):
            list(lost[0]["r"])
        one.reopen()
        insert(one, 0, 1)
        assert len(two.snapshot()["r"]) == 5 and not two.check()


def test_the_last_one_to_close_leaves_the_store_clean(path):
    one, two = pagestore.open(path), pagestore.open(path)
    insert(one, 0, 0)
    one.close()
    assert not newest_meta(two._handle.file).clean
    two.close()
    with pagestore.open(path, mode="r") as store:
        assert store.recovery is None and store._handle.meta.clean


def test_opening_does_not_wait_for_a_transaction(path):
    with pagestore.open(path, sync="off") as one:
        txn = one.transaction()
        txn["r"].insert([(0, 0, "0, 0")])
        with pagestore.open(path, sync="off") as two:
            assert two.recovery is None and two.version == 1
            txn.commit()
            assert two.version == 2
            insert(two, 1, 0)
            assert len(one.snapshot()["r"]) == 2


def write_and_promise(writer, path, promises, sync):
    with (
        pagestore.open(path, sync=sync) as store,
        (promises / str(writer)).open("a", buffering=1) as said,
    ):
        for k in range(10**9):
            insert(store, writer, k)
            said.write(f"{k}\n")


def test_killed_writers_lose_nothing(path, tmp_path):
    random, promises = Random(1), tmp_path / "promises"
    promises.mkdir()
    processes = [
        CONTEXT.Process(target=write_and_promise, args=(i, path, promises, sync))
        for i, sync in enumerate(["off", "full", "commit", "off"])
    ]
    for process in processes:
        process.start()
    for process in random.sample(processes, 4):
        time.sleep(0.7)
        os.kill(process.pid, signal.SIGKILL)
        joined(process)
    with pagestore.open(path) as store:
        rows = [*store.snapshot()["r"]]
        for writer in range(4):
            found = [k for of, k, _ in rows if of == writer]
            said = len((promises / str(writer)).read_text().split())
            assert found == [*range(len(found))] and said <= len(found) <= said + 1
        assert len(rows) > 40 and not store.check()


def slowed(store, monkeypatch, error=None, seconds=0.02):
    """Make syncs slow; return a list with the newest version in a slot when each of them had
    ended.
    """
    file, ended, sync = store._handle.file, [], type(store._handle.file).fdatasync

    def fdatasync():
        version = newest_meta(file).version
        time.sleep(seconds)
        sync(file)
        if error and len(ended) > 3:
            raise error
        ended.append(version)

    monkeypatch.setattr(file, "fdatasync", fdatasync)
    return ended


@pytest.mark.parametrize("sync", ["full", "commit"])
def test_threads_share_syncs(path, monkeypatch, sync):
    """Each commit returns when a sync has covered it, and waits for one more at most; other
    processes are let in.
    """
    with pagestore.open(path, sync=sync) as store, pagestore.open(path, sync="off") as other:
        ended, waited = slowed(store, monkeypatch), []

        def write(writer):
            for k in range(6):
                txn = store.transaction()
                txn["r"].insert([(writer, k, f"{writer}, {k}")])
                before = len(ended)
                version = txn.commit()
                assert ended[-1] >= version and newest_meta(store._handle.file).version >= version
                waited.append(len(ended) - before)

        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
        for thread in threads:
            thread.start()
        for k in range(3):
            time.sleep(0.03)
            insert(other, 8, k)
        joined(*threads)
        syncs = 2 if sync == "full" else 1
        # for 48 commits, and 3 of others in between
        assert len(ended) < 38 * syncs and ended == sorted(ended)
        # they count syncs until they are scheduled, too
        assert len(waited) == 48 and sorted(waited)[24] <= 3 * syncs
        assert len(store.snapshot()["r"]) == 51 and not store.check() and not other.check()


def test_a_failed_sync_fails_all_commits_that_wait_for_it(path, monkeypatch):
    with pagestore.open(path, sync="commit") as store:
        acknowledged, failed = [], []
        with monkeypatch.context() as patch:
            slowed(store, patch, OSError(5, "simulated"))

            def write(writer):
                for k in range(5):
                    try:
                        insert(store, writer, k)
                        acknowledged.append((writer, k))
                    except (OSError, PoisonedError) as error:
                        failed.append(error)

            threads = [threading.Thread(target=write, args=(writer,)) for writer in range(6)]
            for thread in threads:
                thread.start()
            joined(*threads)
        assert (
            len(acknowledged) + len(failed) == 30 and acknowledged and "simulated" in str(failed[0])
        )
        store.reopen()
        assert {*acknowledged} <= {(writer, k) for writer, k, _ in store.snapshot()["r"]}
        insert(store, 7, 0)
        assert not store.check()


@pytest.mark.parametrize("ask", ["one", "all", "none"])
def test_a_table_of_versions_whose_pages_are_reused_while_it_is_read(path, ask, monkeypatch):
    """Nothing pins the table: it is read again, as a later commit has it."""
    with (
        pagestore.open(path, sync="off", retain=70) as one,
        pagestore.open(path, sync="off") as two,
    ):
        for k in range(150):
            insert(one, 0, k)
        oldest, asked = one.history()[-1].version, []
        with one.at(oldest) as held, pagestore.open(path, sync="off") as late:
            assert oldest < late._handle.state.versions.recent[0].version

            def overtaken(read):
                def slow(*args):
                    if not asked:
                        asked.append(1)
                        for k in range(400):
                            insert(two, 1, k)
                    return read(*args)

                return slow

            for name in ("get", "read_batches"):
                monkeypatch.setattr(version_table, name, overtaken(getattr(version_table, name)))
            if ask == "one":
                with late.at(oldest) as found:
                    assert [*found["r"]] == [*held["r"]]
            elif ask == "all":
                kept = [info.version for info in late.history()]
                assert kept == sorted({*kept}, reverse=True) and kept[-1] == oldest
            else:
                with pytest.raises(VersionError, match="no retained version is as old"):
                    late.at(datetime(1990, 1, 1))
            assert asked and not late.check()
