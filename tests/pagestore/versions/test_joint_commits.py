"""Prepared edits of threads that wait: whoever has its turn commits them together with its own."""

import time
from contextlib import contextmanager
from random import Random
from threading import Thread

import pytest

import ivm
import pagestore
from pagestore.errors import PagestoreError
from pagestore.versions.locks import Writer, WriterQueue
from pagestore.versions.series import Series
from tests.support.simulator import compiled
from tests.support.waiting import joined

pytestmark = compiled
RULES = """
    edge(x, y) -> int(x), int(y).
    triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
    degree[x] = n <- agg<<n = count()>> edge(x, _).
"""


class Waiting:
    """A thread that commits edits, and what came of it."""

    def __init__(self, put, edits):
        self.put, self.edits = put, edits
        self.version = self.error = None
        self.thread = Thread(target=self._commit)

    def _commit(self):
        for action, row in self.edits:
            getattr(self.put, action)(*row)
        try:
            self.version = self.put.commit()
        except BaseException as error:
            self.error = error
            self.put.clear()


@contextmanager
def queued(store, waiting):
    """Let threads come in order while another has its turn: so they wait for it when that ends."""
    writers, first = store._handle.writers, Writer()
    writers.take(first)
    try:
        for place, one in enumerate(waiting, 2):
            one.thread.start()
            while len(writers.queue) < place:
                time.sleep(0.0005)
    finally:
        writers.give_back(first)
    yield
    for one in waiting:
        joined(one.thread)


def some_edits(random, columns):
    """One or two edits of few keys; now and then of a row that is refused."""
    edits = []
    for _ in range(random.choice([1, 1, 2])):
        action = random.choice(["insert", "insert", "set", "delete"])
        row = tuple(random.randrange(6) for _ in range(columns))
        if action == "delete" and random.random() < 0.5:
            row = row[:1] if columns == 2 else row
        edits.append((action, row if random.random() < 0.97 else (*row, 1)))
    return edits


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("key", [None, "x"])
def test_what_waits_is_committed_as_if_one_after_the_other(key, seed, tmp_path):
    """Outcomes and rows are those of a store in which each is a transaction."""
    random, commits, came = Random(f"{key} {seed}"), 0, 0
    sync = random.choice(["off", "commit"])
    with (
        pagestore.open(tmp_path / "a.pages", sync=sync, retain=100, threads=1) as one,
        pagestore.open(tmp_path / "b.pages", sync="off", threads=1) as two,
    ):
        for store in (one, two):
            with store.transaction() as txn:
                txn.create("r", "x: int64, y: int64", key=key)
        for step in range(25):
            warm, puts = one.prepare("r"), [one.prepare("r") for _ in range(random.randrange(2, 8))]
            for n in range(2):  # a series begins
                warm.set(100 + n, step)
                warm.commit()
                with two.transaction() as txn:
                    txn["r"].set([(100 + n, step)])
            made = one._handle.committer.made
            waiting = [Waiting(put, some_edits(random, 2)) for put in puts]
            with queued(one, waiting):
                pass
            commits, came = commits + one._handle.committer.made - made, came + len(waiting)
            for each in waiting:
                expected = None
                put = two.prepare("r")
                for action, row in each.edits:
                    getattr(put, action)(*row)
                try:
                    put.commit()
                except PagestoreError as error:
                    expected = error
                assert type(each.error) is type(expected), (each.edits, each.error, expected)
            assert {*one.snapshot()["r"]} == {*two.snapshot()["r"]}
        assert one.check() == []
    assert commits < 0.8 * came


def test_views_follow_a_joint_commit_as_one_change(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="commit", threads=1) as workspace:
        workspace.install(RULES)
        with workspace.transaction() as txn:
            txn.insert("edge", [(x, (7 * x + 1) % 20) for x in range(20)])
        puts = [workspace.prepare("edge") for _ in range(6)]
        for turn in range(3):
            for n, put in enumerate(puts):  # each knows the rules, and a series begins
                put.insert(100 + turn, n)
                put.commit()
        made, version = workspace.store._handle.committer.made, workspace.store.version
        waiting = [Waiting(put, [("insert", (n, (n + 1) % 6))]) for n, put in enumerate(puts)]
        with queued(workspace.store, waiting):
            pass
        assert [each.error for each in waiting] == [None] * 6
        assert workspace.store._handle.committer.made == made + 1
        assert {each.version for each in waiting} == {version + 1}
        assert workspace.check() == []


@pytest.mark.parametrize("where", ["before", "after"])
def test_an_interrupt_of_whoever_commits_for_others_loses_and_doubles_nothing(
    where, tmp_path, monkeypatch
):
    """It comes before the others are told that their rows were committed, or after that."""
    come, serve = [], WriterQueue.serve

    def interrupted(self, *given):
        if where == "after":
            serve(self, *given)
        if not come:
            come.append(given)
            raise KeyboardInterrupt

    with pagestore.open(tmp_path / "s.pages", threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64")
        warm = store.prepare("r")
        for n in range(3):
            warm.insert(n)
            warm.commit()
        adopted, adopt = [], Series._adopt
        monkeypatch.setattr(Series, "_adopt", lambda *given: adopted.append(1) or adopt(*given))
        monkeypatch.setattr(WriterQueue, "serve", interrupted)
        waiting = [Waiting(store.prepare("r"), [("insert", (10 + n,))]) for n in range(4)]
        with queued(store, waiting):
            pass
        leader, *others = waiting
        version = others[0].version
        assert isinstance(leader.error, KeyboardInterrupt)
        assert leader.error.__notes__ == [f"the transaction was committed, as version {version}"]
        assert {each.version for each in others} == {version} and len(adopted) == 1
        assert {x for (x,) in store.snapshot()["r"]} == {*range(3), *range(10, 14)}
        with store.transaction() as txn:  # no lock is left
            txn["r"].insert([(99,)])
