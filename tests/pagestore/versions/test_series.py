"""Series of small commits: what they store, what crashes and failures leave of them, and what
they take.
"""

import time
from contextlib import suppress
from datetime import date
from functools import partial
from itertools import islice
from random import Random
from threading import Thread

import numpy as np
import pytest

import pagestore
from pagestore.errors import PagestoreError
from pagestore.storage.file import File
from pagestore.storage.free_list import FreeList
from pagestore.storage.meta import Meta
from pagestore.store import Store, empty_store
from pagestore.versions.handle import Handle
from pagestore.versions.locks import WriterQueue
from pagestore.versions.recovery import read_slots
from pagestore.versions.series import Series
from tests.support.calls import calls_of, functions_called
from tests.support.programs.amounts import times
from tests.support.simulator import FALLBACK, SimulatedFile, compiled, crashes
from tests.support.waiting import joined

pytestmark = [
    compiled,
    pytest.mark.usefixtures("unhurried"),
    pytest.mark.filterwarnings("ignore::pagestore.errors.RecoveryWarning"),
]


class Model:
    """A store of a relation of pairs and a function, edited by prepared rows, and what it must
    hold.
    """

    def __init__(self, path, random):
        self.path, self.random = path, random
        self.pairs, self.function = set(), {}
        self.options = {"sync": random.choice(["off", "commit", "full"]), "threads": 1}
        retain = random.choice([1, 2, 3, 16, 40, 100, "all"])
        self.store = pagestore.open(
            path, page_size=random.choice([4096, 8192]), retain=retain, **self.options
        )
        with self.store.transaction() as txn:
            txn.create("pairs", "x: int64, y: int64", scans="count")
            txn.create("function", "k: int64, v: int64", key="k")
            txn.create("texts", "k: string, d: date, v: int64?, f: float64", key=("k", "d"))
        self.texts = {}
        self.held = []  # snapshots, with what they must show
        self._prepare()
        self.name, self.series = "pairs", 0

    def _prepare(self):
        self.puts = {name: self.store.prepare(name) for name in ("pairs", "function", "texts")}

    def put(self):
        """Commit some prepared rows."""
        if self.random.random() < 0.03:
            self.name = self.random.choice([*self.puts])
        put, before = self.puts[self.name], self.store._handle.committer.series
        if self.name == "texts":
            self._put_texts(put)
        for _ in [] if self.name == "texts" else range(self.random.choice([1, 1, 1, 2, 12, 13])):
            action, x, y = self.random.choice(["insert", "insert", "set", "delete"]), *self._row()
            if self.name == "pairs":
                getattr(put, action)(x, y)
                (self.pairs.discard if action == "delete" else self.pairs.add)((x, y))
            elif action == "delete":
                put.delete(x)
                self.function.pop(x, None)
            else:
                getattr(put, action)(x, y)
                self.function[x] = y if action == "set" else self.function.get(x, y)
        version = put.commit()
        self.series += before is not None and before is self.store._handle.committer.series
        assert version == self.store.version

    def _put_texts(self, put):
        """Prepare rows of texts, of which the store mostly knows all, and of nulls."""
        for _ in range(self.random.choice([1, 1, 1, 2])):
            action = self.random.choice(["insert", "insert", "set", "delete"])
            text = "é" * self.random.choice([0, 1, 40, 400]) + str(self.random.randrange(8))
            key = text, date(2024, 1, self.random.choice([1, 2]))
            values = self.random.choice([None, -1, 7]), self.random.choice([0.5, -2.0])
            if action == "delete":
                put.delete(*key)
                self.texts.pop(key, None)
            else:
                getattr(put, action)(*key, *values)
                self.texts[key] = values if action == "set" else self.texts.get(key, values)

    def _row(self):
        return self.random.randrange(200), self.random.randrange(50)

    def other(self):
        """Take one random step that commits no prepared rows: a transaction, a snapshot, a tag
        or the like.
        """
        match self.random.randrange(7):
            case 0:
                with self.store.transaction() as txn:
                    self.pairs.add(row := self._row())
                    txn["pairs"].insert([row])
            case 1:
                self.held.append(
                    (self.store.snapshot(), sorted(self.pairs), sorted(self.function.items()))
                )
            case 2:
                while self.held:
                    self.held.pop()[0].close()
            case 3:
                self.store.tag(f"t{self.store.version}-{self.random.random()}")
            case 4:
                for tag in self.store.tags:
                    self.store.untag(tag)
            case 5:
                self.store.reopen()
            case 6:
                self.held.clear()
                (
                    self.store.close
                    if self.random.random() < 0.5
                    else self.store._handle.file.close
                )()
                self.store = pagestore.open(
                    self.path, exclusive=self.random.random() < 0.3, **self.options
                )
                self._prepare()

    def verify(self):
        rows = [*self.store.snapshot()["texts"]]
        assert rows == sorted((*key, *values) for key, values in self.texts.items())
        now = self.store.snapshot(), sorted(self.pairs), sorted(self.function.items())
        for snapshot, pairs, function in (*self.held[-2:], now):
            assert [*snapshot["pairs"]] == pairs
            assert [*snapshot["function"]] == function


@pytest.fixture
def checkpoints(monkeypatch):
    """Let the list of free pages be written anew often; return a list with an entry for each
    time in a series.
    """
    written, write = [], Series._checkpoint
    monkeypatch.setattr(FreeList, "checkpoint_due", lambda self: self.changed() > 8)
    monkeypatch.setattr(Series, "_checkpoint", lambda series: written.append(1) or write(series))
    return written


@pytest.mark.parametrize("seed", range(times(3)))
def test_series_write_the_list_of_free_pages_anew(seed, checkpoints, tmp_path):
    model = Model(tmp_path / "s.pages", random := Random(seed))
    model.store.retain = random.choice([2, 3, 5])
    for step in range(200):
        model.put() if random.random() < 0.99 else model.other()
        if step % 40 == 0:
            model.verify()
            assert model.store.check() == []
    assert checkpoints
    model.store.close()
    with pagestore.open(model.path) as store:
        assert [*store.snapshot()["pairs"]] == sorted(model.pairs)
        assert store.check() == []


@pytest.mark.parametrize("seed", range(times(5)))
def test_series_store_what_transactions_do(seed, tmp_path):
    random = Random(seed)
    model = Model(tmp_path / "s.pages", random)
    for step in range(random.choice([60, 300])):
        if random.random() < 0.9:
            model.put()
        else:
            model.other()
        if step % 7 == 0:
            model.verify()
        if step % 50 == 0:
            assert model.store.check() == []
    model.verify()
    assert model.store.check() == []
    model.store.close()
    with pagestore.open(model.path) as store:
        assert [*store.snapshot()["pairs"]] == sorted(model.pairs)
        assert store.check() == []


@pytest.mark.parametrize("name", ["pairs", "function", "texts"])
def test_most_commits_of_prepared_rows_are_of_a_series(name, tmp_path):
    model = Model(tmp_path / "s.pages", Random(5))
    for _ in range(300):
        model.name = name
        model.put()
    assert model.series > 100
    model.verify()


def test_a_series_of_two_commits_at_a_time_is_not_begun_again_and_again(tmp_path, monkeypatch):
    begun, initialise = [], Series.__init__
    monkeypatch.setattr(Series, "__init__", lambda *given: begun.append(1) or initialise(*given))
    with pagestore.open(tmp_path / "s.pages", sync="off", threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64")
        put = store.prepare("r")
        for n in range(200):
            put.insert(n)
            put.commit()
            if n % 2:
                with store.transaction() as txn:
                    txn["r"].insert([(-n,)])
    assert 0 < len(begun) < 20


def test_a_prepared_row_takes_sixteen_functions_of_python(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off", threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64, y: int64")
        put, found = store.prepare("r"), []
        for n in range(300):
            put.insert(n * 7919 % 100_003, n)
            found.append(len(functions_called(put.commit)))
    assert np.median(found[20:]) <= 16
    assert max(found[20:]) <= 70, "of one that drops versions"


@pytest.mark.parametrize(("sync", "most"), [("off", 40), ("full", 84), ("commit", 103)])
def test_a_prepared_row_takes_few_calls_of_python_and_c(tmp_path, sync, most):
    with pagestore.open(tmp_path / "s.pages", sync=sync, threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64, y: int64")
        put, found = store.prepare("r"), []

        def row(n):
            put.insert(n * 7919 % 100_003, n)
            put.commit()

        for n in range(200):
            found.append(calls_of(partial(row, n)))
    assert np.median(found[50:]) <= most


def test_others_see_each_commit_of_a_series_at_once(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off") as one, pagestore.open(path, sync="off") as two:
        with one.transaction() as txn:
            txn.create("r", "x: int64")
        puts = [(store, store.prepare("r")) for store in (one, two)]
        random, rows, series = Random(1), [], 0
        for n in range(300):
            store, put = puts[n // 20 % 2] if n < 200 else random.choice(puts)
            put.insert(n)
            put.commit()
            rows.append((n,))
            series += store._handle.committer.series is not None
            if n % 9 == 0:
                assert [*one.snapshot()["r"]] == [*two.snapshot()["r"]] == rows
        assert series > 100
        assert one.check() == []


def test_a_commit_that_no_series_can_make_waits_for_its_turn_once(tmp_path, monkeypatch):
    """Two processes that commit by turns: neither can go on with a series."""
    path, taken, take = tmp_path / "s.pages", [], WriterQueue.take
    with pagestore.open(path, sync="off") as one, pagestore.open(path, sync="off") as two:
        with one.transaction() as txn:
            txn.create("r", "x: int64, y: int64")
        puts = [store.prepare("r") for store in (one, two)]
        monkeypatch.setattr(WriterQueue, "take", lambda *given: taken.append(1) or take(*given))
        for n in range(40):
            put = puts[n % 2]
            put.insert(n, n)
            put.commit()
            assert len(taken) == n + 1
        put.insert(1, "no integer")
        with pytest.raises(PagestoreError):
            put.commit()
        for store in (one, two):
            with store.transaction() as txn:
                txn["r"].insert([(-1, int(store is two))])
        assert len([*one.snapshot()["r"]]) == 42
        assert one.check() == []


def prepared(file, sync):
    """A store in a file, with a relation, and what puts rows into it."""
    store = Store(Handle(file, sync=sync))
    store.retain = 3
    with store.transaction() as txn:
        txn.create("r", "x: int64, y: int64")
    return store, store.prepare("r")


@pytest.mark.parametrize("sync", ["full", "commit"])
@pytest.mark.parametrize("group", [1, 3])
def test_every_crash_of_a_series_that_writes_free_pages_anew(sync, group, checkpoints, monkeypatch):
    test_every_crash_leaves_an_acknowledged_commit(sync, group, monkeypatch)
    assert checkpoints or group > 1, "others leave it to a transaction"


@pytest.mark.parametrize("sync", ["full", "commit"])
@pytest.mark.parametrize("group", [1, 3])
def test_every_crash_leaves_an_acknowledged_commit(sync, group, monkeypatch):
    """Some commits wait for a common sync, as those of threads do; each fourth image is read."""
    random, start = Random(group), empty_store(4096)
    file = SimulatedFile(start)
    store, put = prepared(file, sync)
    rows, versions, in_series = set(), {1: []}, 0
    with monkeypatch.context() as patch:
        patch.setattr(store._handle, "complete", lambda number: None)
        for step in range(40):
            for _ in range(random.choice([1, 1, 3])):
                row = random.randrange(60), random.randrange(60)
                rows.add(row)
                put.insert(*row)
            if rows and random.random() < 0.5:
                put.delete(*(gone := random.choice(sorted(rows))))
                rows.discard(gone)
            version = put.commit()
            versions[version] = sorted(rows)
            in_series += store._handle.committer.series is not None
            if step % group == 0:
                store._handle.committer.flush()
                file.mark(version)
    assert in_series > 20
    for done, image in islice(crashes(start, file.operations, random), group, None, 4):
        found = Store(Handle(SimulatedFile(image)))
        assert file.acknowledged(done)[0] <= found.version
        for info in found.history():
            if info.version:
                assert [*found.at(info.version)["r"]] == versions[info.version]
        assert [v for v in found.check() if v.invariant not in FALLBACK] == []


@pytest.mark.parametrize("sync", ["off", "commit"])
@pytest.mark.parametrize("how", ["error", "full", "short"])
def test_the_nth_operation_fails(how, sync):
    """What was acknowledged stays, whatever fails, also in a kernel; afterwards the store can be
    written to.
    """
    start = empty_store(4096)
    for n in range(8, 90, 3):
        file = SimulatedFile(start)
        store, put = prepared(file, sync)
        file.fail = {file.calls + n: how}
        done = set()
        for x in range(40):
            put.clear()
            put.insert(x, n)
            if file.calls + 1 in file.fail and store._handle.committer.series:
                store._handle.committer.series._writer = file.page_writer
                store._handle.committer.series._accounts = None
            with suppress(OSError, PagestoreError):
                put.commit()
                done.add((x, n))
        file.fail = {}
        store.reopen()
        found = {*store.snapshot()["r"]}
        assert done <= found and len(found) <= len(done) + 1
        assert [v for v in store.check() if v.invariant not in FALLBACK] == []
        put.clear()
        put.insert(-1, -1)
        put.commit()
        assert {*store.snapshot()["r"]} == found | {(-1, -1)}


@pytest.mark.parametrize("threads", [1, 8])
def test_threads_share_syncs(threads, tmp_path, monkeypatch):
    """With eight threads about eight commits share a sync: each waits for those that will soon
    commit, too.
    """
    syncs, each, made, adopt = 0, 15, [], Series._adopt

    def slow():
        nonlocal syncs
        syncs += 1
        time.sleep(0.01)

    with pagestore.open(tmp_path / "s.pages", sync="commit", threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64, y: int64")

        def work(thread):
            put = store.prepare("r")
            for n in range(each):
                put.insert(thread, n)
                put.commit()

        with monkeypatch.context() as patch:
            patch.setattr(store._handle.file, "fdatasync", slow)
            patch.setattr(Series, "_adopt", lambda *given: made.append(1) or adopt(*given))
            running = [Thread(target=work, args=(thread,)) for thread in range(threads)]
            for thread in running:
                thread.start()
            joined(*running)
        assert [*store.snapshot()["r"]] == [
            (thread, n) for thread in range(threads) for n in range(each)
        ]
        assert store.check() == []
    assert each - 1 <= len(made) <= max(0.9 * threads, 1) * each, "rows that wait are one commit"
    assert threads * each / syncs >= 0.6 * threads
    assert syncs >= each, "a thread waits for its own"


@compiled
@pytest.mark.parametrize(("owner", "method"), [(WriterQueue, "give_back"), (Handle, "complete")])
@pytest.mark.parametrize("way", ["series", "transaction"])
def test_what_an_interrupt_leaves_shown_is_durable(way, owner, method, tmp_path, monkeypatch):
    """The interrupt comes once the commit is made, before the sync that makes it durable."""
    with pagestore.open(tmp_path / "s.pages", page_size=4096, threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64")
        put, called, come = store.prepare("r"), getattr(owner, method), []
        for x in range(3):
            put.insert(x)
            put.commit()
        committer = store._handle.committer
        assert committer.series and committer.is_complete

        def interrupted(self, *given):
            if not come and not committer.is_complete:
                come.append(given)
                if method == "give_back":
                    called(self, *given)
                raise KeyboardInterrupt
            return called(self, *given)

        monkeypatch.setattr(owner, method, interrupted)
        version = store.version
        with pytest.raises(KeyboardInterrupt) as error:
            if way == "series":
                put.insert(7)
                put.commit()
            else:
                with store.transaction() as txn:
                    txn["r"].insert([(7,)])
        assert error.value.__notes__ == [f"the transaction was committed, as version {version + 1}"]
        assert come and store.version == version + 1 and committer.is_complete
        with store.transaction() as txn:  # no lock is left
            txn["r"].insert([(8,)])


@compiled
def test_a_series_follows_a_cut_after_which_an_interrupt_came(tmp_path, monkeypatch):
    """Its commits say how long the file is at least, and the file is as long."""
    truncate = File.truncate

    def interrupted(self, size):
        truncate(self, size)
        raise KeyboardInterrupt

    with pagestore.open(tmp_path / "s.pages", page_size=4096, threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64", key="x")
            txn.create("names", "n: string")
        for n in range(3):
            with store.transaction() as txn:
                txn["names"].insert([(f"name {n} {at} " * 300,) for at in range(20)])
        with store.transaction() as txn:
            txn["names"].delete([*txn["names"]])
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(File, "truncate", interrupted)
            store.vacuum(keep_versions=1)
        put = store.prepare("r")
        for x in range(9):
            put.insert(x)
            put.commit()
        assert store._handle.committer.series
        top = store._handle.committer.pager.free_list.top
        assert store._handle.file.size() >= top * 4096
    with pagestore.open(tmp_path / "s.pages") as store:
        assert [*store.snapshot()["r"]] == [(x,) for x in range(9)] and store.check() == []


def test_a_series_that_has_made_no_commit_yet_says_nothing_of_the_one_before(tmp_path, monkeypatch):
    """Another thread may sync that one just then."""
    commit, seen = Series.commit, []

    def and_another_thread_syncs(series, edits, waiting, joint):
        commit(series, edits, waiting, joint)
        if not joint.number:  # a new text, which a transaction must add
            series._committer._complete()
            seen.append(read_slots(series._committer.mapping.file))

    monkeypatch.setattr(Series, "commit", and_another_thread_syncs)
    with pagestore.open(tmp_path / "s.pages", sync="commit", threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "t: string, k: int64")
        put = store.prepare("r")
        for k, text in enumerate("abcdde"):
            put.insert(text, k)
            put.commit()
        assert seen and all(isinstance(slot, Meta) for slots in seen for slot in slots)
        newest = [max(slot.sequence for slot in slots) for slots in seen]
        assert newest == sorted({*newest}) and store.check() == []
        assert [*store.snapshot()["r"]] == [(text, k) for k, text in enumerate("abcdde")]
