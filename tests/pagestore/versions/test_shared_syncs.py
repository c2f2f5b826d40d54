"""Handles of several processes share syncs: power cuts, kills, and what each of them shows and
waits for.

Here a handle has a thread of its own, and their file locks exclude each other as those of processes
do.

    python -m tests.pagestore.versions.test_shared_syncs SEED LIVES      judges power cuts, under the recorder
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from warnings import simplefilter

import pytest

import pagestore
from pagestore.errors import LockedError, PoisonedError
from pagestore.storage.file import SHARED, SHOWN_LOCK, UNLOCKED, File
from pagestore.storage.meta import SLOT_SIZE
from pagestore.versions import locks, shared_syncs
from pagestore.versions.offers import Offers
from pagestore.versions.recovery import newest_meta
from tests.support.calls import interrupted_at
from tests.support.simulator import FALLBACK
from tests.support.syscalls import COMPILER, built, events, mark, moments, run
from tests.support.waiting import joined

CONTEXT = multiprocessing.get_context("fork")
WRITERS = 5
PAGE_SIZE = 8192


def made(path, retain=16, **options):
    with (
        pagestore.open(path, sync="off", retain=retain, **options) as store,
        store.transaction() as txn,
    ):
        txn.create("r", "w: int64, k: int64")
    return path


def slow(store, seconds):
    """Make the syncs of a handle take long; return a list that gets an entry for each."""
    file, done = store._handle.file, []
    sync = file.fdatasync

    def fdatasync():
        time.sleep(seconds)
        sync()
        done.append(newest_meta(file).version)

    file.fdatasync = fdatasync
    return done


def write(store, writer, random, count, told):
    """Append numbers, prepared or not; now and then a transaction is rolled back."""
    numbers, put = iter(range(count)), store.prepare("r")
    for k in numbers:
        if random.random() < 0.2:
            txn = store.transaction()
            txn["r"].insert([(writer, -1)])
            txn.rollback()
        if random.random() < 0.5:
            put.insert(writer, k)
            put.commit()
        else:
            with store.transaction() as txn:
                txn["r"].insert([(writer, k)])
        told(writer, k)


def in_threads(stores, count, told, seed=0):
    failed = []

    def work(writer, store):
        try:
            write(store, writer, Random(f"{seed} {writer}"), count, told)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=at) for at in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failed


def rows(store, writers=WRITERS):
    """How many numbers each writer has, which are the first ones, in a store or a transaction."""
    found = [*(store.snapshot() if hasattr(store, "snapshot") else store)["r"]]
    counts = Counter(writer for writer, _ in found)
    assert found == [(writer, k) for writer in range(writers) for k in range(counts[writer])]
    return [counts[writer] for writer in range(writers)]


@pytest.mark.parametrize("retain", [1, 16, "all"])
def test_what_is_acknowledged_is_durable_and_syncs_are_shared(tmp_path, retain):
    path = made(tmp_path / "s.pages", retain)
    stores = [pagestore.open(path, sync="commit", threads=1) for _ in range(WRITERS)]
    readers = [pagestore.open(path, mode="r") for _ in stores]
    syncs, early = [slow(store, 0.03) for store in stores], []

    def told(writer, k):
        if (writer, k) not in readers[writer].snapshot()["r"]:
            early.append((writer, k))

    in_threads(stores, 20, told)
    assert not early
    # which drops versions with every commit
    assert sum(map(len, syncs)) < 0.9 * WRITERS * 20 or retain == 1
    assert rows(stores[0]) == [20] * WRITERS and not stores[1].check()
    for store in [*stores, *readers]:
        store.close()
    with pagestore.open(path) as store:
        assert store.recovery is None and not store.check()


@pytest.mark.parametrize("prepared", [False, True])
def test_a_commit_that_gets_its_slot_while_another_writer_looks_is_seen(
    tmp_path, monkeypatch, prepared
):
    """The slot is written, and the commit no longer shown, after the next writer has the lock,
    before it looks.
    """
    monkeypatch.setattr(locks, "LOOK_AGAIN", 0.0)  # no writer goes on, however fast it is
    path, go = made(tmp_path / "s.pages"), threading.Event()
    with (
        pagestore.open(path, sync="commit") as first,
        pagestore.open(path, sync="commit") as second,
    ):
        put = second.prepare("r")

        def commit(store, k):
            if prepared and store is second:
                put.insert(0, k)
                put.commit()
            else:
                with store.transaction() as txn:
                    txn["r"].insert([(0, k)])
            return store.version

        assert [commit(store, k) for k, store in enumerate([second, first, second, second])] == [
            2,
            3,
            4,
            5,
        ]
        shared, others = first._handle.committer.shared, second._handle.committer.shared
        complete, is_newest = shared.complete, others.is_newest
        shared.complete = lambda own: go.wait(30) and complete(own)
        showing = threading.Thread(target=commit, args=(first, 4))
        showing.start()
        end = time.monotonic() + 30
        while not shared.shows:
            assert time.monotonic() < end
            time.sleep(0.001)

        def looks(version):
            go.set()
            showing.join(30)
            return is_newest(version)

        others.is_newest = looks
        assert commit(second, 5) == 7
        assert rows(first, 1) == rows(second, 1) == [6] and not first.check()


@pytest.mark.parametrize("prepared", [False, True])
def test_a_process_alone_takes_few_locks_and_reads_nothing(tmp_path, monkeypatch, prepared):
    """A commit locks and unlocks, sees that nothing is shown, and says that it is durable."""
    monkeypatch.setattr(locks, "LOOK_AGAIN", 3600.0)
    monkeypatch.setattr(File, "fdatasync", lambda _: None)  # a short one
    path, calls = made(tmp_path / "s.pages"), Counter()
    with pagestore.open(path, sync="commit", threads=1) as store:
        put = store.prepare("r")

        def commit(k):
            if prepared:
                put.insert(0, k)
                put.commit()
            else:
                with store.transaction() as txn:
                    txn["r"].insert([(0, k)])

        for k in range(32):
            commit(k)
        for name in ("lock", "locked", "lock_when_free", "pread", "fdatasync"):
            method = getattr(File, name)

            def counted(*about, name=name, method=method):
                calls.update([name])
                return method(*about)

            monkeypatch.setattr(File, name, counted)
        for k in range(32, 96):
            commit(k)
        # versions go
        assert calls["fdatasync"] == calls["locked"] == 64 and 3 * 64 <= calls["lock"] <= 3.5 * 64
        assert not calls["lock_when_free"] and not calls["pread"]
        assert rows(store, 1) == [96]


def test_processes_make_several_commits_in_a_row(tmp_path, monkeypatch):
    """If syncs are short, and none commits for the others; then no more before these, who wait."""
    monkeypatch.setattr(Offers, "open", lambda _: False)
    path = made(tmp_path / "s.pages", "all")
    stores = [pagestore.open(path, sync="commit", threads=1) for _ in range(3)]
    for store in stores:
        store._handle.file.fdatasync = lambda: None
    in_threads(stores, 200, lambda writer, k: None)
    assert rows(stores[0], 3) == [200] * 3
    seen, who = [(-1, -1)] * 3, []
    for version in range(2, stores[0].version + 1):
        last = [
            [*stores[0].at(version)["r"].range((writer,), (writer + 1,))][-1:]
            for writer in range(3)
        ]
        now = [found[0] if found else (-1, -1) for found in last]
        who.append(next(writer for writer in range(3) if now[writer] != seen[writer]))
        seen = now
    runs = [len([*run]) for _, run in groupby(who)]
    assert len(runs) < 200, runs  # else each is a single one, or two
    first_done = min(
        max(at for at, writer in enumerate(who) if writer == other) for other in range(3)
    )
    assert max(len([*run]) for _, run in groupby(who[:first_done])) <= 3 * locks.IN_A_ROW
    for store in stores:
        store.close()


def shown(path, one=None, writer=0, count=1):
    """A handle whose commit is shown and has no slot yet, what lets it go on, and its thread."""
    one, go, reached = (
        one or pagestore.open(path, sync="commit", threads=1),
        threading.Event(),
        threading.Event(),
    )
    lock = one._handle._file_lock
    lock.is_awaited, lock.again = lambda: True, False
    complete = one._handle.committer.shared.complete

    def wait(own):
        reached.set()
        go.wait()
        complete(own)

    one._handle.committer.shared.complete = wait

    def commit():
        with suppress(OSError), one.transaction() as txn:
            txn["r"].insert([(writer, k) for k in range(count)])

    thread = threading.Thread(target=commit, daemon=True)
    thread.start()
    assert reached.wait(60) and one._handle.committer.shared.shows
    return one, go, thread


@pytest.mark.parametrize("end", ["commit", "rollback", "prepared", "tag"])
def test_a_commit_without_a_slot_is_built_upon(tmp_path, end):
    path = made(tmp_path / "s.pages")
    one, go, thread = shown(path)
    with (
        pagestore.open(path, sync="commit", threads=1) as two,
        pagestore.open(path, mode="r") as reader,
    ):
        assert len(reader.snapshot()["r"]) == 0
        txn = two.transaction()
        assert [*txn["r"]] == [(0, 0)]
        txn["r"].insert([(1, 0)])
        if end == "rollback":
            txn.rollback()
        else:
            txn.commit()
        if end == "prepared":
            put = two.prepare("r")
            for k in range(1, 9):
                put.insert(1, k)
                put.commit()
        if end == "tag":
            two.tag("here")
        expected = {"rollback": [1, 0], "prepared": [1, 9]}.get(end, [1, 1])
        # durable, though the first one has done nothing
        assert rows(reader, 2) == rows(two, 2) == expected
        go.set()
        joined(thread)
        assert rows(one, 2) == expected and not one.check() and not reader.check()
        one.close()


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("retain", [1, 2, 3, 5])
@pytest.mark.parametrize("sync", ["commit", "full", "off"])
def test_a_reader_never_waits_for_a_writer(tmp_path, sync, retain, prepared):
    """Before each write and sync there is a version that it can pin, also while several commits
    wait for their slot.
    """
    path = made(tmp_path / "s.pages", retain)
    with (
        pagestore.open(path, mode="r") as reader,
        pagestore.open(path, sync=sync, threads=1) as store,
    ):
        handle, looks = store._handle, 0
        shown_states = reader._handle.shown_states

        def states():
            nonlocal tries
            tries += 1
            assert tries < 5, "the reader finds no version"
            return shown_states()

        def looking(method):
            def wrapped(*given):
                nonlocal looks, tries
                tries, looks = 0, looks + 1
                with reader.snapshot() as snapshot:
                    assert len(snapshot["r"]) >= 0
                return method(*given)

            return wrapped

        tries, reader._handle.shown_states = 0, states
        handle.file.pwrite = looking(handle.file.pwrite)
        handle.file.fdatasync = looking(handle.file.fdatasync)
        lock = handle.locks.lock
        handle.locks.lock = lambda *given: (lock(*given), looking(int)())[0]
        put = store.prepare("r")
        for n in range(40):
            handle.complete = lambda _: None
            if prepared:
                put.insert(0, n)
                put.commit()
            else:
                with store.transaction() as txn:
                    txn["r"].insert([(0, n)])
            del handle.complete
            if n % 4 == 3:
                handle.complete(handle.committer.made)
        assert looks > 20 and len(store.history()) < 40


@pytest.mark.parametrize("builds", [False, True])
def test_a_commit_without_a_slot_whose_process_has_died(tmp_path, builds):
    """It never was, unless another process has built on it; the pages of neither are lost."""
    path = made(tmp_path / "s.pages")
    one, go, thread = shown(path)
    with pagestore.open(path, sync="commit", threads=1) as two:
        if builds:
            with two.transaction() as txn:
                txn["r"].insert([(1, 0)])
        dies(one)
        for k in range(builds, 30):
            with two.transaction() as txn:
                txn["r"].insert([(1, k)])
        assert rows(two, 2) == [builds, 30] and not two.check()
    with pagestore.open(path, mode="r") as store:
        assert rows(store, 2) == [builds, 30]
    bury(one, go, thread)


def dies(store):
    """Let what a handle shows go, as if its process had died."""
    store._handle.file.lock(UNLOCKED, SHOWN_LOCK, 1 << 60)


def bury(store, go, thread):
    """End the thread of a commit whose process is taken for dead."""
    store._handle.committer.give_up(OSError("the process has died"))
    go.set()
    joined(thread)


@pytest.mark.parametrize("count", [1, 300])
def test_a_commit_whose_process_dies_as_another_one_leads_to_it(tmp_path, count):
    """The next writer takes its pages, perhaps even for the record, before the slot is written."""
    path, last = made(tmp_path / "s.pages"), []
    one, go, thread = shown(path)
    dead = shown(path, pagestore.open(path, sync="commit", threads=1), 1)
    next_, shared = pagestore.open(path, sync="commit", threads=1), one._handle.committer.shared
    find = shared._shown_after

    def sleeps(version):
        found, shared._shown_after = find(version), find
        dies(dead[0])
        last.append(shown(path, next_, 2, count))
        return found

    shared._shown_after = sleeps
    go.set()
    joined(thread)
    last[0][1].set()
    joined(last[0][2])
    with pagestore.open(path, mode="r") as found:
        assert rows(found, 3) == rows(one, 3) == [1, 0, count] and not found.check()
    bury(*dead)


def test_a_claim_that_comes_too_late_is_not_built_upon(tmp_path):
    """Its commit may be damaged: a writer has missed it, and was rolled back."""
    path, seen = made(tmp_path / "s.pages"), []
    one, go, thread = shown(path)
    dead = shown(path, pagestore.open(path, sync="commit", threads=1), 1)
    file, next_ = one._handle.file, pagestore.open(path, sync="commit", threads=1)

    def look():
        with next_.transaction() as txn:
            seen.append(rows(txn, 3))

    looks = threading.Thread(target=look, daemon=True)

    def lock(kind, at, number=1):
        late = kind == SHARED and at >= SHOWN_LOCK and not looks.ident
        if late:
            dies(dead[0])
        locked = File.lock(file, kind, at, number)
        if late:
            looks.start()
            looks.join(0.3)
        return locked

    file.lock = lock
    go.set()
    joined(thread)
    joined(looks)
    assert seen == [[1, 0, 0]] and rows(one, 3) == [1, 0, 0] and not one.check()
    bury(*dead)


@pytest.mark.parametrize(("asks_first", "killed"), [(False, False), (True, False), (False, True)])
def test_a_sync_that_failed_before_the_file_was_opened(tmp_path, monkeypatch, asks_first, killed):
    """It took pages of a commit that was shown meanwhile, and only who had the file open is told
    by the system; perhaps whoever saw it fail was killed before it said so.
    """
    path = made(tmp_path / "s.pages")
    disk, file_size = path.read_bytes(), path.stat().st_size
    two = pagestore.open(path, sync="commit", threads=1)
    one, go, thread = shown(path)
    others, written = [], []

    def fail():
        del one._handle.file.fdatasync
        others.append(shown(path, two, 1))
        for name in ("pwrite", "wrote", "write_pages"):
            monkeypatch.setattr(File, name, recording(getattr(File, name), written))
        if killed:
            one._handle.file.pwrite = lambda data, at: None
        raise OSError(5, "simulated")

    one._handle.file.fdatasync = fail
    go.set()
    joined(thread)
    assert one._handle.committer.cause
    _, go, thread = others[0]
    if asks_first:
        go.set()
        joined(thread)
        assert two._handle.committer.cause  # nobody has written its pages again
    with pagestore.open(path, sync="commit", threads=1) as three:
        with three.transaction() as txn:
            txn["r"].insert([(2, 0)])
        go.set()
        joined(thread)
        assert asks_first or not two._handle.committer.cause
        content = path.read_bytes()
        image = bytearray(disk.ljust(len(content), bytes(1))[: max(file_size, len(content))])
        for at, count in written:
            image[at : at + count] = content[at : at + count]
        (tmp_path / "image.pages").write_bytes(image)
        with pagestore.open(tmp_path / "image.pages", mode="r") as found:
            assert [*found.snapshot()["r"]] == [*three.snapshot()["r"]] and not found.check()
        assert (2, 0) in three.snapshot()["r"] and ((1, 0) in three.snapshot()["r"]) != asks_first
    for store in (one, two):
        store.close()


def recording(method, written):
    """A method of a file that also notes the bytes that are written: where they begin, and how
    many.
    """

    def call(file, *arguments):
        if method.__name__ == "pwrite":
            written.append((arguments[1], memoryview(arguments[0]).nbytes))
        else:
            pages = arguments[0] if method.__name__ == "wrote" else arguments[1]
            written.extend((int(page) * PAGE_SIZE, PAGE_SIZE) for page in pages)
        return method(file, *arguments)

    return call


def test_a_commit_is_followed_again_after_an_interrupt(tmp_path):
    """Also if meanwhile that commit was lost, and another process made one of the same number."""
    for line in range(1, 100):
        path = made(tmp_path / f"{line}.pages")
        one, go, thread = shown(path)
        two, three = (pagestore.open(path, sync="commit", threads=1) for _ in range(2))
        with interrupted_at(line, "follow", "go_on") as came:
            two.transaction().rollback()
        dies(one)
        for writer, store in ((2, three), (1, two), (2, three)):
            with store.transaction() as txn:
                txn["r"].insert([(writer, rows(txn)[writer])])
        lost = rows(two, 3) == rows(three, 3) == [0, 1, 2]
        assert (lost and came) or rows(two, 3) == rows(three, 3) == [1, 1, 2], line
        assert not two.check()
        bury(one, go, thread)
        if not came:
            break
    assert 10 < line < 99


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("sync", ["commit", "full"])
def test_no_lock_is_left_by_an_interrupt(tmp_path, sync, before):
    """It comes at any call of the system for a lock, before that or after it; the handle then
    does nothing more.
    """
    for n in range(1, 100):
        path, calls = made(tmp_path / f"{n}.pages"), 0
        one, two = (pagestore.open(path, sync=sync, threads=1) for _ in range(2))
        file = one._handle.file
        one._handle._file_lock.is_awaited = lambda: True

        def lock(kind, at, count=1, file=file, n=n):
            nonlocal calls
            calls += 1
            if calls == n and before:
                raise KeyboardInterrupt
            locked = File.lock(file, kind, at, count)
            if calls == n:
                raise KeyboardInterrupt
            return locked

        file.lock = lock
        with suppress(KeyboardInterrupt), one.transaction() as txn:
            txn["r"].insert([(0, 0)])
        file.lock = partial(File.lock, file)
        others = threading.Thread(
            target=write, args=(two, 1, Random(n), 3, lambda *_: None), daemon=True
        )
        others.start()
        others.join(60)
        assert not others.is_alive(), f"others wait after call {n}"
        with suppress(PoisonedError), one.transaction() as txn:  # it knows, too, what it holds
            txn["r"].insert([(2, 0)])
        assert rows(two, 3)[1] == 3 and not two.check()
        if calls < n:
            break
    assert 5 < n < 99


def test_others_wait_until_nothing_is_shown(tmp_path, monkeypatch):
    path = made(tmp_path / "s.pages")
    one, go, thread = shown(path)
    with monkeypatch.context() as patch:
        patch.setattr(shared_syncs, "PATIENCE", 0.05)
        with pytest.raises(
            LockedError, match=rf"a commit that this process \({os.getpid()}\) does not finish"
        ):
            pagestore.open(path)
    threading.Timer(0.1, go.set).start()
    with pagestore.open(path) as two:  # sync="full"
        with two.transaction() as txn:
            txn["r"].insert([(1, 0)])
        assert rows(two, 2) == [1, 1]
        joined(thread)
        with one.transaction() as txn:
            txn["r"].insert([(0, 1)])
        assert not one._handle.committer.shared.shows and rows(two, 2) == [2, 1]
    one.close()


def test_a_slot_that_is_durable_is_not_overwritten(tmp_path):
    """Whatever the parity of the next one: it is copied into the other slot first."""
    path = made(tmp_path / "s.pages")
    with pagestore.open(path, sync="commit", threads=1) as store:
        committer, file = store._handle.committer, store._handle.file
        for k in range(12):
            before, written = newest_meta(file), []
            committer.next_sequence = before.sequence + 1 + k % 2

            def pwrite(data, offset, before=before, written=written):
                if offset < 2 * SLOT_SIZE:
                    other = file.pread(len(data), SLOT_SIZE - offset)
                    held = [bytes(data), other]
                    written.append(bytes(data))
                    assert any(meta.startswith(before.pack()[:92]) for meta in held) or before.clean
                File.pwrite(file, data, offset)

            file.pwrite = pwrite
            with store.transaction() as txn:
                txn["r"].insert([(0, k)])
            del file.pwrite
            assert (
                len(written) == 1 + k % 2
                and newest_meta(file).sequence == before.sequence + 1 + k % 2
            )
        assert rows(store, 1) == [12] and not store.check()


def keep_writing(writer, path, generation, folder, sync):
    with (
        pagestore.open(path, sync=sync, threads=1) as store,
        (folder / str(writer)).open("a", buffering=1) as said,
    ):
        # a snapshot lacks what the one before has shown as it was killed
        with store.transaction() as txn:
            first = rows(txn)[writer]
        put = store.prepare("r")
        for k in range(first, 10**9):
            if (k + generation) % 3:
                put.insert(writer, k)
                put.commit()
            else:
                with store.transaction() as txn:
                    txn["r"].insert([(writer, k)])
            said.write(f"{k}\n")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.campaign) for n in range(2, 40))]
)
def test_killed_processes_lose_nothing(tmp_path, seed):
    random, running = Random(seed), {}
    path = made(
        tmp_path / "s.pages",
        random.choice([1, 2, 16, "all"]),
        page_size=random.choice([4096, 8192]),
    )
    said = tmp_path / "said"
    said.mkdir()

    def start(writer, generation):
        sync = random.choice(["commit"] * 9 + ["full", "off"])
        running[writer] = CONTEXT.Process(
            target=keep_writing, args=(writer, path, generation, said, sync)
        )
        running[writer].start()

    for writer in range(WRITERS):
        start(writer, 0)
    for generation in range(1, 10):
        time.sleep(random.uniform(0.02, 0.25))
        for writer in random.sample(range(WRITERS), random.randint(1, WRITERS)):
            os.kill(running[writer].pid, signal.SIGKILL)
            joined(running[writer])
            assert running[writer].exitcode == -signal.SIGKILL
            start(writer, generation)
    for process in running.values():
        os.kill(process.pid, signal.SIGKILL)
        joined(process)
    with pagestore.open(path) as store:
        for writer, found in enumerate(rows(store)):
            acknowledged = said / str(writer)
            last = (
                int(acknowledged.read_text().split()[-1])
                if acknowledged.exists() and acknowledged.read_text()
                else -1
            )
            assert last < found
        assert not store.check() and store.version <= 1 + len(store.snapshot()["r"])


def live(path, seed):
    """Several handles append until they have done so a few times each, with slow syncs."""
    stores = [pagestore.open(path, sync="commit", threads=1) for _ in range(WRITERS)]
    for store in stores:
        slow(store, 0.001)
    in_threads(stores, 12, lambda writer, k: mark({"writer": writer, "k": k}), seed)


def judge(seed, lives):
    """Cut the power at many moments of some lives: all that was acknowledged is there, and
    nothing out of order.
    """
    simplefilter("ignore")
    images = 0
    for number in range(lives):
        random = Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory() as folder:
            path, log, image = (Path(folder, name) for name in ("s.pages", "log", "image"))
            made(path, random.choice([1, 2, 16, "all"]), page_size=4096)
            start = [path.read_bytes()]
            assert run(
                [path],
                log,
                lambda path=path, number=number: live(path, number),
                random.randrange(900),
            ) in (0, -9)
            happened = events(log)
            acknowledged = [[-1] * WRITERS]
            for event in happened:
                acknowledged.append([*acknowledged[-1]])
                if event.kind == "K" and "writer" in event.said:
                    acknowledged[-1][event.said["writer"]] = event.said["k"]
            for done, (content,) in moments(start, happened, random, 3, 150 / len(happened)):
                image.write_bytes(content)
                with pagestore.open(image, mode="rw" if images % 8 == 0 else "r") as store:
                    found = rows(store)
                    assert all(
                        last < n for last, n in zip(acknowledged[done], found, strict=True)
                    ), (number, done)
                    if images % 8 == 0:
                        with store.transaction() as txn:
                            txn["r"].insert([(WRITERS, 0)])
                        assert not [
                            fault for fault in store.check() if fault.invariant not in FALLBACK
                        ]
                images += 1
    print(images)


@pytest.mark.skipif(COMPILER is None, reason="recording system calls needs a C compiler (cc)")
@pytest.mark.parametrize("lives", [2, pytest.param(200, marks=pytest.mark.campaign)])
def test_power_cuts(lives):
    command = [sys.executable, "-m", "tests.pagestore.versions.test_shared_syncs", "1", str(lives)]
    environment = os.environ | {"LD_PRELOAD": built()}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=Path(__file__).parents[3], env=environment
    )
    assert not done.returncode, done.stderr[-3000:]
    assert int(done.stdout) > 50 * lives


if __name__ == "__main__":
    judge(int(sys.argv[1]), int(sys.argv[2]))
