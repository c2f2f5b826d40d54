"""Several processes edit one workspace: their transactions are serial, and views belong to what
they follow.
"""

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

import ivm
from tests.ivm.transactions.histories import Done, faults
from tests.support.waiting import joined

CONTEXT = multiprocessing.get_context("fork")
RULES = """
item[k, i] = v -> int(k), int(i), int(v).
size[k] = n <- agg<<n = count()>> item[k, i] = _.
total[] = n <- agg<<n = count()>> item[k, i] = _.
weight[k] = s <- agg<<s = sum(v)>> item[k, i] = v.
newest[k] = m <- agg<<m = max(v)>> item[k, i] = v.
pair(i, v, w) <- item[0, i] = v, item[1, i] = w.
full(k, i, v) <- item[k, i] = v, size[k] = n, i < n.
"""
LISTS = 5
THREADS = 3  # of a process whose commits are durable: they share syncs


def lists_of(relation, keys):
    return {k: [v for key, _, v in relation if key == k] for k in keys}


def read_all(source):
    """Return all lists, read where the views must be those that follow from them."""
    lists = lists_of(source["item"], range(LISTS))
    some = {k: values for k, values in lists.items() if values}
    assert dict(source["size"]) == {k: len(values) for k, values in some.items()}
    assert dict(source["weight"]) == {k: sum(values) for k, values in some.items()}
    assert dict(source["newest"]) == {k: max(values) for k, values in some.items()}
    assert [*source["total"]] == [(n,) for n in [sum(map(len, some.values()))] if n]
    assert [*source["pair"]] == [
        (i, v, w) for i, (v, w) in enumerate(zip(lists[0], lists[1], strict=False))
    ]
    assert [*source["full"]] == [
        (k, i, v) for k, values in some.items() for i, v in enumerate(values)
    ]
    return lists


def read_write(workspace, random, values):
    """Read some lists, or views that have them, and append to some, in one transaction; return
    what it read and did.
    """
    keys = random.sample(range(LISTS), 2)
    with workspace.transaction() as txn:
        source = txn.inner
        whole = (
            read_all(source) if random.random() < 0.5 else lists_of(source["full"], range(LISTS))
        )
        read, sizes = {k: whole[k] for k in keys}, dict(source["size"])
        appended = {
            k: [next(values) for _ in range(random.randrange(1, 3))]
            for k in keys[: random.randrange(3)]
        }
        for k, more in appended.items():
            txn.insert("item", [(k, sizes.get(k, 0) + i, v) for i, v in enumerate(more)])
    return appended, read


def only_read(workspace, random):
    """Read lists and views in one snapshot, in which they must agree, or one view alone."""
    with workspace.store.snapshot() as snap:
        return {}, read_all(snap) if random.random() < 0.5 else lists_of(snap["full"], range(LISTS))


def take_part(number, path, results, count):
    """Make `count` transactions in each thread; a process whose commits are durable has several."""
    sync = ("off", "commit", "full")[number % 3]
    try:
        with ivm.open(path, sync=sync) as workspace, ThreadPoolExecutor(THREADS) as pool:
            done = [
                pool.submit(work, workspace, number, n, results, count)
                for n in range(threads_of(number))
            ]
            for one in done:
                one.result()
    finally:
        results.put(None)


def threads_of(number):
    return THREADS if number % 3 else 1


def work(workspace, number, thread, results, count):
    random, first = Random(10 * number + thread), (10 * number + thread) * 10**6
    values = iter(range(first, first + 10**6))
    for _ in range(count):
        began = time.monotonic()
        if random.random() < 0.6:
            appended, read = read_write(workspace, random, values)
        else:
            appended, read = only_read(workspace, random)
        results.put(Done(began, time.monotonic(), appended, read))


def run(path, processes, count, killed=()):
    """Return the history that processes made, and the lists at its end."""
    results = [CONTEXT.SimpleQueue() for _ in range(processes)]
    running = [
        CONTEXT.Process(target=take_part, args=(n, path, results[n], count))
        for n in range(processes)
    ]
    for process in running:
        process.start()
    history = []
    for n, process in enumerate(running):
        if n in killed:
            time.sleep(0.4)
            process.kill()  # it may have ended
            joined(process)
            while not results[n].empty():
                history.append(results[n].get())
    for n, process in enumerate(running):
        if n not in killed:
            history += iter(results[n].get, None)
            process.join(60)
            assert process.exitcode == 0
    with ivm.open(path) as workspace:
        lists = lists_of(workspace["item"], range(LISTS))
        assert not workspace.check() and not workspace.store.check()
        assert read_all(workspace) == lists
    return [done for done in history if done], lists


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "w.pages"
    with ivm.open(path) as workspace:
        workspace.install(RULES)
    return path


def test_transactions_of_eight_processes_are_serial(path):
    history, lists = run(path, 8, 8)
    assert len(history) == 8 * sum(map(threads_of, range(8))) and sum(map(len, lists.values())) > 40
    assert [*faults(history, lists)] == []


def test_transactions_of_killed_processes_are_serial(path):
    history, lists = run(path, 6, 12, killed=(0, 2, 4))
    assert len(history) >= 12 * sum(map(threads_of, (1, 3, 5)))
    assert [*faults(history, lists)] == []


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(20))
def test_longer_histories_are_serial(path, seed):
    killed = Random(seed).sample(range(10), 5)
    history, lists = run(path, 10, 40, killed)
    assert len(history) >= 40 * sum(threads_of(n) for n in range(10) if n not in killed)
    assert [*faults(history, lists)] == []


def test_the_checker_of_histories_finds_faults():
    def found(*history, lists):
        return [*faults(history, lists)]

    first, second = Done(0, 1, {1: [10]}, {}), Done(2, 3, {1: [11]}, {1: [10]})
    assert found(first, second, lists={1: [10, 11]}) == []
    assert found(first, second, lists={1: [11]})  # a lost append
    assert found(first, second, lists={1: [11, 10]})  # no beginning of the list
    assert found(first, Done(2, 3, {}, {1: []}), lists={1: [10]})  # a read of what was before
    skewed = Done(0, 9, {1: [10]}, {2: []}), Done(0, 9, {2: [20]}, {1: []})
    assert found(*skewed, lists={1: [10], 2: [20]})  # neither has seen the other


def test_rules_that_another_process_installs_are_used(path):
    with ivm.open(path, sync="off") as one, ivm.open(path, sync="off") as two:
        two.install("big(k) <- size[k] = n, n > 2.", name="big")
        with one.transaction() as txn:
            txn.insert("item", [(1, i, i) for i in range(3)])
        assert [*two["big"]] == [*one["big"]] == [(1,)] and "big" in one
        one.uninstall("big")
        with two.transaction() as txn:
            txn.insert("item", [(2, i, i) for i in range(3)])
        assert (
            "big" not in two
            and dict(two["size"]) == {1: 3, 2: 3}
            and not one.check()
            and not two.check()
        )
        one.sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b VARCHAR)")
        two.sql("INSERT INTO t VALUES (1, 'x')")
        one.sql("INSERT INTO t VALUES (2, 'y')")
        assert [*two.sql("SELECT b FROM t ORDER BY a")] == [("x",), ("y",)]
