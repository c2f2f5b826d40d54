"""Edits that processes offer to the one that leads: they are made once, whoever dies or stops, and
whenever.
"""

import multiprocessing
import os
import signal
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import numpy as np
import pytest

import ivm
import pagestore
from pagestore.errors import PagestoreError
from pagestore.relations.turn import settle
from pagestore.trees.kernels.node_buffer import INSERT
from pagestore.versions import offers
from pagestore.versions.locks import Writer
from pagestore.versions.offers import OFFERED, PLACES, TAKEN, UNTIL, Offer, Offered, Offers
from pagestore.versions.series import Series
from tests.support.simulator import compiled
from tests.support.waiting import until

pytestmark = compiled
CONTEXT = multiprocessing.get_context("fork")
RULES = """
    r(w, k) -> int(w), int(k).
    of[w] = n <- agg<<n = count()>> r(w, _).
    both(k) <- r(0, k), r(1, k).
"""


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    yield
    for about in (path.stat() for path in tmp_path.glob("*.pages")):
        assert not [*offers.FOLDER.glob(f"*-{about.st_dev:x}-{about.st_ino:x}")]


def made(path):
    with (
        pagestore.open(path, sync="off", retain="all", threads=1) as store,
        store.transaction() as txn,
    ):
        txn.create("r", "w: int64, k: int64")
        txn.create("f", "k: int64, v: int64", key="k")
    return path


def opened(path):
    return pagestore.open(path, sync="commit", threads=1)


def leads(store, put, w=0, first=0):
    """Commit rows until the store leads; return the first number that is free."""
    for k in range(first, first + 20):
        put.insert(w, k)
        put.commit()
        if store._handle.committer.series and store._handle.committer.offers.place:
            return k + 1
    raise AssertionError("it does not lead")


@contextmanager
def waiting(*puts):
    """Threads that commit what is collected, once all have offered it; lists of what came of it."""
    came = [[] for _ in puts]

    def commit(put, found):
        try:
            found.append(put.commit())
        except PagestoreError as error:
            put.clear()
            found.append(error)

    threads = [
        threading.Thread(target=commit, args=given) for given in zip(puts, came, strict=True)
    ]
    for thread in threads:
        thread.start()
    until(lambda: sum(len(offered(put)) for put in puts) == len(puts))
    yield came
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def offered(put):
    own = put._handle.committer.offers
    return (
        [place for place in [own.place] if place and own._words[place, OFFERED] == own._number > 0]
        if own._words.size
        else []
    )


@pytest.fixture
def three(tmp_path, monkeypatch):
    """Three stores of one file; the first leads, for long, and the others have places."""
    monkeypatch.setattr(offers, "LEADS", 30.0)
    monkeypatch.setattr(Offers, "resume", lambda _: None)  # it is expected to go on in any case
    path = made(tmp_path / "s.pages")
    stores = [opened(path) for _ in range(3)]
    for store in stores:
        assert store._handle.committer.offers.open()
    yield stores
    for store in stores:
        store.close()


def test_what_processes_offer_is_in_one_commit_with_one_sync(three):
    one, two, other = three
    syncs, put = [], one.prepare("r")
    k = leads(one, put)
    puts = [two.prepare("r"), other.prepare("r")]
    for w, each in enumerate(puts, 1):
        each.insert(w, 7)
        each.insert(w, 8)
    for store in three:
        sync = store._handle.file.fdatasync
        store._handle.file.fdatasync = lambda sync=sync: (syncs.append(1), sync())
    with waiting(*puts) as came:
        put.insert(0, k)
        version = put.commit()
    assert came == [[version], [version]] and len(syncs) == 1
    for store in three:
        assert {(1, 7), (1, 8), (2, 7), (2, 8), (0, k)} <= {*store.snapshot()["r"]}
        assert store.version == version
    assert (1, 7) not in [*one.at(version - 1)["r"]]


def test_edits_of_one_key_are_not_in_one_commit(three):
    one, two, other = three
    put = one.prepare("f")
    leads(one, put)
    puts = [two.prepare("f"), other.prepare("f")]
    puts[0].set(100, 1)
    puts[1].set(100, 2)
    with waiting(*puts) as came:
        put.set(100, 0)
        mine = put.commit()
        for k in range(101, 400):
            if all(came):
                break
            put.set(k, 0)
            put.commit()
    (first,), (second,) = came
    assert len({mine, first, second}) == 3
    assert [*one.at(max(mine, first, second))["f"].range((100,), (101,))] == [
        (100, [0, 1, 2][[mine, first, second].index(max(mine, first, second))])
    ]


def test_what_is_refused_is_the_error_of_the_one_that_offers_it(three):
    one, two, other = three
    put = one.prepare("r")
    k = leads(one, put)
    puts = [two.prepare("r"), other.prepare("r")]
    puts[0].insert(1, 2, 3)
    puts[1].insert(1, 2)
    with waiting(*puts) as came:
        put.insert(0, k)
        put.commit()
        one._handle.committer.offers._until = one._handle.committer.offers._view[UNTIL] = 0
    assert isinstance(came[0][0], PagestoreError) and isinstance(came[1][0], int)
    assert (1, 2) in [*one.snapshot()["r"]]


def test_a_commit_that_cannot_be_made_leaves_offers_to_their_processes(three, monkeypatch):
    one, two, _ = three
    put, other = one.prepare("r"), two.prepare("r")
    k = leads(one, put)
    other.insert(1, 1)
    with waiting(other) as came:
        monkeypatch.setattr(one._handle.committer.series, "_call", lambda *_: None)
        put.insert(0, k)
        mine = put.commit()
        one._handle.committer.offers._until = one._handle.committer.offers._view[UNTIL] = 0
    assert came[0][0] > mine
    assert [*one.snapshot()["r"]].count((1, 1)) == 1


def test_damaged_memory_misleads_nobody(three):
    one = three[0]
    put = one.prepare("r")
    k = leads(one, put)
    words, random = one._handle.committer.offers._words, np.random.default_rng(7)
    random_words = random.integers(-(1 << 62), 1 << 62, words.shape)
    for n in range(20):
        words[:] = random_words if n % 2 else 0
        words[1:, OFFERED], words[1:, TAKEN] = n, 0
        for w, store in enumerate(three):
            each = store.prepare("r")
            each.insert(w, k + n)
            each.commit()
    with_all = {*one.snapshot()["r"]}
    assert {(w, k + n) for w in range(3) for n in range(20)} <= with_all
    assert len(with_all) == k + 60


STEPS = ["before it is taken", "taken", "recorded", "durable", "said"]


def dies(path, step, at):
    """Lead until something is offered for the `at`th time; then die at a step."""
    store = opened(path)
    put, seen, own = store.prepare("r"), [0], store._handle.committer.offers

    def die_at(this, offered):
        if offered and step == this and (this != STEPS[0] or not seen[0]):
            seen[0] += 1
        if seen[0] >= at and step == this and offered:
            os.kill(os.getpid(), signal.SIGKILL)

    of, take, has_made, adopt = own.of, own.take, own.made, Series._adopt

    def offered_of(*given):
        found = of(*given)
        if found:
            seen[0] += step == STEPS[0]
            if step == STEPS[0] and seen[0] >= at:
                os.kill(os.getpid(), signal.SIGKILL)
        return found

    def taken(found, *given):
        take(found, *given)
        die_at("taken", found)

    def adopted(series, made, joint):
        adopt(series, made, joint)
        die_at("recorded", joint.offered)

    def said(found):
        die_at("durable", found)
        has_made(found)
        die_at("said", found)

    own.of, own.take, own.made, Series._adopt = offered_of, taken, said, adopted
    for k in range(10**6):
        put.insert(0, k)
        put.commit()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("at", [1, 3])
@pytest.mark.parametrize("step", STEPS)
def test_edits_are_made_once_if_the_process_that_leads_dies(tmp_path, monkeypatch, step, at):
    monkeypatch.setattr(Offers, "resume", lambda _: None)
    path = made(tmp_path / "s.pages")
    leader = CONTEXT.Process(target=dies, args=(path, step, at))
    leader.start()
    with opened(path) as store:
        put, found = store.prepare("r"), []
        assert store._handle.committer.offers.open()
        store._handle.committer.offers.lead = lambda: None

        def is_over():
            put.insert(1, len(found))
            found.append(put.commit())
            return not leader.is_alive()

        until(is_over)
        assert leader.exitcode == -signal.SIGKILL
        put.insert(1, len(found))
        found.append(put.commit())
        assert found == sorted({*found})
        assert [k for w, k in store.snapshot()["r"] if w] == [*range(len(found))]
        for k, version in [*enumerate(found)][-20:]:
            assert (1, k) in [*store.at(version)["r"]]
            assert (1, k) not in [*store.at(version - 1)["r"]]
        assert not store.check()


@pytest.mark.parametrize("way", ["prepared", "transaction", "edits of a kernel"])
def test_no_version_has_the_time_that_a_dead_process_said_for_it(three, monkeypatch, way):
    """Its time tells those who offered something that they are in it; where clocks are behind, each
    process would go on by a microsecond.
    """
    one, two, other = three
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    own, put = two._handle.committer.offers, other.prepare("r")
    for k in range(9):
        with other.transaction() as txn:  # reads what is newest
            state = other._handle.state
            txn.rollback()
        said = state.last_version + 1, state.commit.timestamp + 1
        assert own.put(Offer(None, "r", [(INSERT, (1, k))], lambda: True))
        one._handle.committer.offers.take([Offered(own.place, own._number, [])], *said)
        if way == "prepared":
            for n in range(2):  # the second is of a series
                put.insert(n, k)
                put.commit()
        else:
            with other.transaction() as txn:
                txn["r"].insert([(0, k)])
                if way == "transaction":
                    txn["f"].set([(k, k)])
        assert own.taken() == said
        entries = {v.version: round(v.timestamp.timestamp() * 1e6) for v in other.history()}
        assert entries[said[0]] > said[1]
        with two._handle.writing():
            writer = Writer(Offer(None, "r", [], lambda: True))
            writer.shown = True
            settle(two._handle, writer)
            assert not writer.joint.number


def test_an_interrupted_commit_knows_whether_it_was_made(three, monkeypatch):
    one, two, _ = three
    put, other = one.prepare("r"), two.prepare("r")
    k, own, slept = leads(one, put), two._handle.committer.offers, []

    def interrupted(seconds):
        """Interrupt the first wait, or the first after another process has taken the offer."""
        slept.append(seconds)
        if len(slept) == 1 and interrupts == "offered":
            raise KeyboardInterrupt
        if own.taken() and not own.version():
            raise KeyboardInterrupt

    own.sleep = interrupted
    for interrupts in ("offered", "taken"):
        slept.clear()
        other.insert(1, k)
        found = []

        def commit(found=found):
            with suppress(KeyboardInterrupt):
                found.append(other.commit())

        made_known = one._handle.committer.offers.made
        one._handle.committer.offers.made = lambda _: time.sleep(0.2)
        thread = threading.Thread(target=commit)
        thread.start()
        if interrupts == "taken":
            until(lambda: offered(other))
            put.insert(0, k)
            put.commit()
        thread.join(60)
        one._handle.committer.offers.made = made_known
        there = (1, k) in [*one.snapshot()["r"]]
        assert there == (interrupts == "taken")
        other.clear()
        k = leads(one, put, 0, k + 1)


def writes(path, w, seconds, said, rules):
    options = {"sync": "commit", "threads": 1}
    random, end = Random(w), time.monotonic() + seconds
    with (
        ivm.open(path, **options) if rules else pagestore.open(path, **options) as store,
        said.open("a", buffering=1) as out,
    ):
        put = store.prepare("r")
        for k in range(10**6):
            put.insert(w, k)
            if random.random() < 0.1:
                put.delete(w, k - 2)
            out.write(f"{k} {put.commit()}\n")
            if time.monotonic() > end:
                return
            if random.random() < 0.02:
                time.sleep(random.random() / 100)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("rules", [False, True])
def test_processes_that_write_at_once_share_commits_and_views_follow(tmp_path, rules, monkeypatch):
    monkeypatch.setattr(Offers, "resume", lambda _: None)
    path, count = tmp_path / "s.pages", 6
    if rules:
        with ivm.open(path, retain="all") as workspace:
            workspace.install(RULES)
    else:
        made(path)
    said = [tmp_path / str(w) for w in range(count)]
    processes = [
        CONTEXT.Process(target=writes, args=(path, w, 1.5, said[w], rules)) for w in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    told = [[[*map(int, line.split())] for line in each.read_text().splitlines()] for each in said]
    with ivm.open(path) if rules else pagestore.open(path) as store:
        assert not store.check()
        newest = max(version for each in told for _, version in each)
        assert newest < sum(map(len, told)), "some share a commit"
        for each in told:
            versions = [version for _, version in each]
            assert versions == sorted({*versions})
    if not rules:
        with pagestore.open(path) as store:
            for w, each in enumerate(told):
                for k, version in Random(w).sample(each, min(10, len(each))):
                    assert (w, k) in [*store.at(version)["r"].range((w,), (w + 1,))]


def test_places_are_bounded_and_given_up(tmp_path):
    path = made(tmp_path / "s.pages")
    with opened(path) as store:
        all_ = [Offers(store._handle.file) for _ in range(PLACES + 1)]
        assert [each.open() for each in all_] == [True] * PLACES + [False]
        all_[5].close()
        again = Offers(store._handle.file)
        assert again.open() and again.place == 6
        for each in (*all_, again):
            each.close()


def test_memory_that_others_may_write_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(offers, "FOLDER", tmp_path)
    path = made(tmp_path / "s.pages")
    with opened(path) as store:
        own = Offers(store._handle.file)
        Path(own._path).write_bytes(b"")
        own._path.chmod(0o666)
        assert not own.open()
        own._path.unlink()
        monkeypatch.setattr(offers, "FOLDER", tmp_path / "missing")
        assert not Offers(store._handle.file).open()
