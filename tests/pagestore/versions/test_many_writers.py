"""Several processes write to one store: each transaction continues from those of the others, and none starves."""

import multiprocessing
import os
import signal
import threading
import time
from random import Random

import pytest

import pagestore
from pagestore.errors import PoisonedError
from pagestore.versions import handle as handles
from pagestore.versions.recovery import newest_meta

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


def write(writer, path, count, sync):
    with pagestore.open(path, sync=sync) as store:
        for k in range(count):
            insert(store, writer, k)
            assert (writer, k, f"{writer}, {k}") in store.snapshot()["r"]


@pytest.mark.parametrize("syncs", [("off", "off", "off"), ("full", "commit", "off")])
def test_each_transaction_continues_from_all_others(path, syncs):
    processes = [CONTEXT.Process(target=write, args=(i, path, 40, sync)) for i, sync in enumerate(syncs)]
    for process in processes:
        process.start()
    ended_well(processes)
    with pagestore.open(path) as store:
        assert store.recovery is None  # the last to close left it clean
        rows = [(writer, k, f"{writer}, {k}") for writer in range(len(syncs)) for k in range(40)]
        assert [*store.snapshot()["r"]] == rows and store.version == 1 + len(rows)
        assert not store.check()


def test_two_handles_take_turns_in_everything(path):
    """What a handle keeps in memory is that of the newest commit: catalog, dictionary, tags, branches, free pages."""
    with pagestore.open(path, sync="off", retain=2) as one, pagestore.open(path, sync="off") as two:
        random = Random(7)
        for k in range(60):
            here, there = (one, two) if random.random() < 0.5 else (two, one)
            insert(here, k % 3, k)
            assert there.snapshot()["r"][k % 3, k] == f"{k % 3}, {k}" and there.version == here.version
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
    with pagestore.open(path, sync="off", retain="all") as one, pagestore.open(path, sync="off") as two:
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


def join_queue(writer, path, rounds, times):
    with pagestore.open(path, sync="off") as store:
        for _ in range(rounds):
            with store.transaction() as txn:
                txn["r"].set([(writer, 0, "")])
            times.put((writer, time.monotonic()))


def test_nobody_starves(path):
    """Each of four processes that write without pause is served between any 40 transactions of the others."""
    times = CONTEXT.Queue()
    processes = in_processes(4, join_queue, path, 100, times)
    seen = sorted((times.get(timeout=60) for _ in range(400)), key=lambda one: one[1])
    ended_well(processes)
    order = [writer for writer, _ in seen]
    last = {writer: 400 - order[::-1].index(writer) for writer in range(4)}
    first = max(order.index(writer) for writer in range(4))
    middle = order[first : min(last.values())]
    assert all(len({*middle[at : at + 40]}) == 4 for at in range(len(middle) - 40))


def test_those_who_wait_do_so_in_order_and_past_the_dead(path):
    held = CONTEXT.Event()
    holder = CONTEXT.Process(target=hold, args=(0, path, 60, held))
    holder.start()
    assert held.wait(20)
    times, waiting = CONTEXT.Queue(), []
    for writer in range(4):
        waiting += [CONTEXT.Process(target=join_queue, args=(writer, path, 1, times))]
        waiting[-1].start()
        time.sleep(0.5)
    os.kill(waiting[1].pid, signal.SIGKILL)  # one in the midst of the queue
    os.kill(holder.pid, signal.SIGKILL)
    ended_well([waiting[0], *waiting[2:]])
    assert [times.get(timeout=5)[0] for _ in range(3)] == [0, 2, 3]
    with pagestore.open(path) as store:
        assert not store.check()


def test_a_handle_is_passed_on_at_once(path):
    """The next process begins within a millisecond, mostly, of the end of the transaction before."""
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
            thread.join()
            gaps += [began[0] - ended]
        assert sorted(gaps)[10] < 1e-3


def test_a_commit_that_a_dead_process_did_not_sync_is_made_durable_first(path, monkeypatch):
    """Its pages can be read, but the pages that it freed must not be written before it is on the disk."""
    done = []
    monkeypatch.setattr(handles, "make_durable", lambda mapping, state, *_: done.append(state.last_version))
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
    with pagestore.open(path, sync=sync) as store, (promises / str(writer)).open("a", buffering=1) as said:
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
        process.join()
    with pagestore.open(path) as store:
        rows = [*store.snapshot()["r"]]
        for writer in range(4):
            found = [k for of, k, _ in rows if of == writer]
            said = len((promises / str(writer)).read_text().split())
            assert found == [*range(len(found))] and said <= len(found) <= said + 1
        assert len(rows) > 40 and not store.check()
