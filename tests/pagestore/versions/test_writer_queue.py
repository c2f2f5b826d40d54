"""The queue of writers: dropped transactions, dead threads and moved files block nobody; a
refusal names the holder.
"""

import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import pagestore
from pagestore.errors import FormatError, LockedError, MovedError, RecoveryWarning, TransactionError
from pagestore.storage.file import EXCLUSIVE, SINCE_END, SINCE_LOCK, WRITER_LOCK, File
from pagestore.storage.meta import SLOT_SIZE, slot_of
from pagestore.versions import locks
from tests.support.waiting import joined, until


@pytest.fixture
def store(tmp_path):
    with pagestore.open(tmp_path / "s.pages", page_size=4096) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([1])
        yield store


def test_a_transaction_that_was_dropped_holds_up_nobody(store):
    txn = store.transaction()
    txn["r"].insert([2])
    list(txn["r"])
    del txn
    with store.transaction() as txn:
        txn["r"].insert([3])
    assert list(store.snapshot()["r"]) == [(1,), (3,)] and not store.check()


def test_a_thread_that_has_died_holds_up_nobody(store):
    left = []

    def begin():
        left.append(store.transaction())
        left[0]["r"].insert([2])
        list(left[0]["r"])

    thread = threading.Thread(target=begin)
    thread.start()
    joined(thread)
    with store.transaction() as txn:
        txn["r"].insert([3])
        with pytest.raises(TransactionError, match="begin anew"):
            left[0]["r"].insert([4])
            list(left[0]["r"])
        with pytest.raises(TransactionError, match="begin anew"):
            left[0].commit()
    assert list(store.snapshot()["r"]) == [(1,), (3,)] and not store.check()


def test_a_thread_that_is_taken_for_dead_keeps_its_turn(store, monkeypatch):
    """As by Python 3.11, where an exception of a signal's handler comes within `is_alive`."""
    refused: list[LockedError] = []

    def wait():
        try:
            store.transaction(timeout=0.2).rollback()
        except LockedError as error:
            refused.append(error)

    with monkeypatch.context() as patch, store.transaction() as txn:
        txn["r"].insert([2])
        patch.setattr(threading.Thread, "is_alive", lambda thread: False)
        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: refused)
    joined(thread)
    assert list(store.snapshot()["r"]) == [(1,), (2,)]


def test_a_thread_hands_its_transaction_over(store):
    begun = []
    thread = threading.Thread(target=lambda: begun.append(store.transaction()))
    thread.start()
    joined(thread)
    begun[0]["r"].insert([2])
    assert begun[0].commit() == 2


def test_who_waits_too_long_is_told_for_whom(store):
    with store.transaction():
        waited: list = []

        def wait():
            begun = time.monotonic()
            try:
                store.transaction(timeout=0.2)
            except LockedError as error:
                waited.extend([str(error), time.monotonic() - begun])

        thread = threading.Thread(target=wait)
        thread.start()
        joined(thread)
    assert "MainThread" in waited[0] and "since" in waited[0]
    assert 0.2 <= waited[1] < 5


@contextmanager
def waiting(store, write):
    """Threads that each call `write(number)` and came to the queue in the order of their
    numbers, behind this one.
    """
    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    with store.transaction():
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda: len(store._handle.writers.queue) == number + 2)  # noqa: B023 - it is called at once
        yield threads
    joined(*threads)


def test_who_comes_first_writes_first(store):
    """Also where each comes again as soon as it has written: it is then behind all that wait."""
    order = []

    def write(number):
        for _ in range(3):
            with store.transaction():
                order.append(number)
                if len(order) <= 16:  # all that write now come again
                    until(lambda: len(store._handle.writers.queue) == 8)

    with waiting(store, write):
        pass
    assert order == [*range(8)] * 3


def test_who_waits_no_longer_holds_up_nobody(store):
    """Those in the middle of the queue give up; those behind them move up, in their order."""
    order, given_up = [], []

    def write(number):
        try:
            with store.transaction(timeout=0.05 if number in (0, 3, 4) else None):
                order.append(number)
        except LockedError:
            given_up.append(number)

    with waiting(store, write):
        until(lambda: len(given_up) == 3)
    assert order == [1, 2, 5, 6, 7]


def test_waiting_collects_no_garbage_in_a_loop(store, monkeypatch):
    """Collecting costs as much as the process has objects: it is for a transaction that is open
    for long, and rare.
    """
    collections, begun = [], time.monotonic()
    monkeypatch.setattr(locks.gc, "collect", lambda: collections.append(time.monotonic()))

    def write(number):
        for row in range(20):
            with store.transaction() as txn:
                txn["r"].insert([100 * number + row + 2])
                time.sleep(0.002)

    with waiting(store, write):
        time.sleep(0.2)
    assert len(collections) <= (time.monotonic() - begun) / locks.LONG
    assert len(store.snapshot()["r"]) == 161


@pytest.mark.parametrize("timeout", [None, 0.1])
def test_a_transaction_that_a_cycle_keeps_holds_up_nobody(store, monkeypatch, timeout):
    """Its thread lives on. Only a collection finds it: of who has waited for long, or before one
    gives up.
    """
    begun, ended = threading.Event(), threading.Event()
    if timeout is None:
        monkeypatch.setattr(locks, "LONG", 0.1)

    def leave_behind():
        cycle = [store.transaction()]
        cycle.append(cycle)
        del cycle
        begun.set()
        ended.wait(60)

    gc.disable()
    thread = threading.Thread(target=leave_behind)
    try:
        thread.start()
        begun.wait(60)
        with store.transaction(timeout=timeout) as txn:
            txn["r"].insert([2])
    finally:
        gc.enable()
        ended.set()
        joined(thread)
    assert list(store.snapshot()["r"]) == [(1,), (2,)]


def test_a_second_transaction_of_a_thread_is_refused_at_once(store):
    """Also where others wait, for whom it would wait for ever."""
    with waiting(store, lambda number: store.transaction().rollback()):
        with pytest.raises(TransactionError, match="this thread has a transaction open"):
            store.transaction()
        with pytest.raises(TransactionError, match="a transaction is open"):
            store.reopen()


def test_a_process_that_writes_is_named(tmp_path):
    store = pagestore.open(tmp_path / "s.pages", exclusive=True)
    with pytest.raises(LockedError, match=rf"this process \({os.getpid()}\)"):
        pagestore.open(store.path)
    child = "import pagestore, sys; pagestore.open(sys.argv[1], timeout=float(sys.argv[2]))"
    command = [sys.executable, "-c", child, str(store.path)]
    done = subprocess.run([*command, "0"], capture_output=True, text=True)
    assert f"process {os.getpid()} (" in done.stderr and re.search(
        r"\), since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d; close that", done.stderr
    )
    with subprocess.Popen([*command, "60"]) as waiting:
        time.sleep(0.2)
        store.close()
        assert waiting.wait() == 0


def test_a_stopped_process_is_said_to_be(tmp_path):
    path = tmp_path / "s.pages"
    child = """if True:
        import pagestore, sys
        txn = pagestore.open(sys.argv[1]).transaction()
        print('open', flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", child, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout and holder.stdout.readline() == b"open\n"
        os.kill(holder.pid, signal.SIGSTOP)
        try:
            time.sleep(0.1)
            with pytest.raises(LockedError, match=f"process {holder.pid} .*stopped now"):
                pagestore.open(path, exclusive=True)
            with pagestore.open(path) as store:
                with pytest.raises(
                    LockedError, match=f"process {holder.pid} .*stopped now.*; wait longer"
                ):
                    store.transaction(timeout=0.1)
                os.kill(holder.pid, signal.SIGKILL)
                store.transaction(timeout=10).rollback()  # the lock of a dead process passes on
        finally:
            os.kill(holder.pid, signal.SIGKILL)


@pytest.mark.parametrize("year", [1901, 1969, 1970, 2262, 9999, 12_000])
def test_a_clock_that_is_set_wrong(tmp_path, monkeypatch, year):
    """Stores are made, written and locked, and read again when the clock is right."""
    seconds = (year - 1970) * 31_556_952
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: float(seconds))
        patch.setattr(time, "time_ns", lambda: seconds * 10**9)
        store = pagestore.open(tmp_path / "s.pages", exclusive=True)
        for k in range(3):
            with store.transaction() as txn:
                (txn["r"] if k else txn.create("r", "k: int64")).insert([(k,)])
                # as the error of another thread says it
                assert "since" in str(store._handle.writers.holder)
    with pytest.raises(
        LockedError, match=r"this process \(\d+\)(, since [\d :-]{19})?; close that"
    ):
        pagestore.open(tmp_path / "s.pages")
    store.close()
    with pagestore.open(tmp_path / "s.pages") as store:
        assert [info.version for info in store.history()] == [3, 2, 1, 0]
        with store.transaction() as txn:
            txn["r"].insert([(3,)])
        assert len(store.snapshot()["r"]) == 4 and not store.check()


@pytest.mark.parametrize("byte", [-1, 0, 253_402_300_799, SINCE_END - 1])
def test_a_lock_that_says_no_time(tmp_path, byte):
    """An earlier release took any byte where its clock was set before 1970 or beyond 9999."""
    pagestore.open(tmp_path / "s.pages").close()
    file = File(tmp_path / "s.pages", writable=True)
    assert file.lock(EXCLUSIVE, WRITER_LOCK)
    if byte >= 0:
        assert file.lock(EXCLUSIVE, SINCE_LOCK + byte)
    with pytest.raises(LockedError, match="is being written by this process"):
        pagestore.open(tmp_path / "s.pages", exclusive=True)
    file.close()


def test_a_forked_child_does_not_keep_a_dead_writers_lock(tmp_path):
    path = tmp_path / "s.pages"
    child = """if True:
        import os, pagestore, sys, time
        store = pagestore.open(sys.argv[1])
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([1])
        snapshot = store.snapshot()
        child = os.fork()
        if child:
            print(child, flush=True)
            os._exit(0)
        time.sleep(60)
    """
    command = [sys.executable, "-W", "ignore", "-c", child, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        grandchild = int(parent.stdout.readline())
        parent.wait()
        try:
            # The child lets go as soon as it runs, which may be after its parent has ended.
            with pagestore.open(path, timeout=10) as store, store.transaction() as txn:
                txn["r"].insert([2])
        finally:
            os.kill(grandchild, signal.SIGKILL)


@pytest.mark.parametrize("how", ["deleted", "replaced", "moved"])
def test_a_file_that_is_not_in_its_place_is_not_written_to(store, how):
    if how == "replaced":
        other = store.path.with_suffix(".other")
        other.write_bytes(store.path.read_bytes())
        other.replace(store.path)
    elif how == "moved":
        store.path.rename(store.path.with_suffix(".moved"))
    else:
        store.path.unlink()
    with pytest.raises(MovedError, match=f"{store.path} was deleted, moved or replaced"):
        store.transaction()
    with pytest.raises(MovedError):
        store.tag("t")
    assert list(store.snapshot()["r"]) == [(1,)]


def test_what_is_no_file_is_refused_at_once(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for mode in ("r", "rw"):
        with pytest.raises(FormatError, match="is not a store: it is not a file but a fifo"):
            pagestore.open(fifo, mode=mode)
    with pytest.raises(FormatError, match="character device"):
        pagestore.open("/dev/null", mode="r")
    with pytest.raises(IsADirectoryError):
        pagestore.open(tmp_path)


def test_a_store_that_was_dropped_is_closed(tmp_path):
    store = pagestore.open(tmp_path / "s.pages")
    del store
    gc.collect()
    with pagestore.open(tmp_path / "s.pages") as store:
        assert store.recovery is None


@pytest.mark.parametrize("writing", [False, True])
def test_a_closed_store_holds_no_room_of_a_removed_file(writing, tmp_path):
    """Only a transaction that is open, and may write in another thread, keeps the map until it
    ends.
    """
    path = tmp_path / "mapped.pages"
    store = pagestore.open(path)
    with store.transaction() as txn:
        txn.create("r", "x: int64").insert([1])
    found = store.snapshot()["r"].to_arrow()
    txn = store.transaction() if writing else None
    assert is_mapped(path)
    store.close()
    assert is_mapped(path) == writing
    del txn, store
    gc.collect()
    assert found.to_pylist() == [{"x": 1}] and not is_mapped(path)


def is_mapped(path):
    return str(path) in Path("/proc/self/maps").read_text()


def test_a_store_that_was_only_read_is_not_synced(tmp_path, monkeypatch):
    path = tmp_path / "s.pages"
    with pagestore.open(path) as store, store.transaction() as txn:
        txn.create("r", "x: int64").insert([1])
    before = path.read_bytes()
    monkeypatch.setattr(File, "fdatasync", lambda file: pytest.fail("a sync"))
    with pagestore.open(path) as store:
        assert list(store.snapshot()["r"]) == [(1,)]
        with store.transaction() as txn:
            txn["r"].insert(range(9000))
            txn.rollback()
    assert path.read_bytes()[: 2 * store.page_size] == before[: 2 * store.page_size]
    assert path.stat().st_size == len(before)
    monkeypatch.undo()
    with pagestore.open(path) as store:
        assert store.recovery is None and not store.check()


@pytest.mark.parametrize("commits", [1, 2])
def test_a_damaged_slot_takes_nothing_back(tmp_path, commits):
    """Also where the other slot still says that the store was closed."""
    path = tmp_path / "s.pages"
    pagestore.open(path).close()
    store = pagestore.open(path)
    for n in range(commits):
        with store.transaction() as txn:
            txn.create(f"r{n}", "x: int64").insert([n])
    newest = SLOT_SIZE * slot_of(store._handle.state.sequence)
    image = bytearray(path.read_bytes())
    store.close()
    image[newest + 20] ^= 1
    path.write_bytes(image)
    with (
        pytest.warns(RecoveryWarning, match="was found in the file"),
        pagestore.open(path) as again,
    ):
        assert again.version == commits and list(again.snapshot()[f"r{commits - 1}"]) == [
            (commits - 1,)
        ]
    with pagestore.open(path) as mended:
        assert mended.recovery is None and not mended.check()
