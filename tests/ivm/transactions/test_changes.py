"""Those who watch a relation or a view, here or in another process, see each change once, in
order.
"""

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest

import ivm
import pagestore
from ivm.errors import UnknownViewError
from pagestore.errors import ClosedError, MissingError, SchemaError, VersionError
from tests.support.waiting import joined

CONTEXT = multiprocessing.get_context("fork")
RULES = """
edge(x, y) -> int(x), int(y).
two(x, z) <- edge(x, y), edge(y, z).
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "w.pages"
    with ivm.open(path, sync="off") as workspace:
        workspace.install(RULES)
        workspace.sql("CREATE TABLE t (a INTEGER, b VARCHAR)")
        workspace.sql("CREATE MATERIALIZED VIEW letters AS SELECT b FROM t WHERE a > 0")
    return path


def applied(rows, change):
    """Apply a change to a bag of rows; each erased row must be there."""
    rows = Counter(rows)
    for *row, kind in zip(*(column.to_pylist() for column in change.rows.columns), strict=True):
        rows[(*row,)] += 1 if kind == "insert" else -1
        assert rows[(*row,)] >= 0
    return +rows


def edit(workspace, random):
    with workspace.transaction() as txn:
        edges = [(random.randrange(6), random.randrange(6)) for _ in range(3)]
        (txn.insert if random.random() < 0.6 else txn.delete)("edge", edges)
    if random.random() < 0.3:
        workspace.sql(f"INSERT INTO t VALUES ({random.randrange(-1, 3)}, '{random.choice('ab')}')")
    if random.random() < 0.1:
        workspace.sql("DELETE FROM t WHERE a = 1")


def watch(path, name, since, seen, count):
    """Send each change, and wait for as many, or for ever."""
    with ivm.open(path, mode="r") as workspace, workspace.changes(name, since) as changes:
        for change in changes:
            seen.put((change.since, change.version, change.rows))
            count -= 1
            if not count:
                return


@pytest.mark.parametrize("name", ["edge", "two", "t", "letters"])
def test_changes_add_up_to_what_there_is(path, name):
    """Read in every way: after each commit, after several, from another handle."""
    random = Random(5)
    with ivm.open(path, sync="off", retain=5) as workspace, ivm.open(path, mode="r") as reader:
        watched = [workspace.changes(name), reader.changes(name), reader.changes(name)]
        rows, last = [Counter() for _ in watched], [workspace.store.version] * 3
        for step in range(60):
            edit(workspace, random)
            for i, changes in enumerate(watched):
                while (i < 2 or step % 20 == 19) and (change := changes.next(0)):
                    assert last[i] <= change.since < change.version
                    last[i], rows[i] = change.version, applied(rows[i], change)
                if i < 2 or step % 20 == 19:
                    assert rows[i] == Counter(workspace[name]), (step, i)
        assert rows[0]


# of two relations; with multiplicities, too; with lists; that are a bag
WIDE = "whole", "pairs", "lists", "equal"


def wide_views(workspace):
    names = [f"c{n}" for n in range(70)]
    workspace.sql(
        f"CREATE TABLE w (id INTEGER PRIMARY KEY, {', '.join(f'{n} INTEGER' for n in names)})"
    )
    workspace.sql("CREATE TABLE g (k INTEGER, x VARCHAR)")
    for name, query in zip(
        WIDE,
        [
            "SELECT * FROM w",
            "SELECT w.*, g.x FROM w JOIN g ON g.k = w.c1",
            "SELECT k, list(x ORDER BY x) AS xs FROM g GROUP BY k",
            "SELECT g.k, xs FROM g JOIN (SELECT k, list(x ORDER BY x) AS xs FROM g GROUP BY k) q "
            "ON q.k = g.k",
        ],
        strict=True,
    ):
        workspace.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def edit_wide(random):
    """Return a statement that changes a row of the wide table, or of the bag."""
    key, value = random.randrange(4), random.choice(["1", "2", "NULL"])
    return random.choice(
        [
            f"DELETE FROM w WHERE id = {key}",
            f"INSERT OR REPLACE INTO w VALUES ({key}, {', '.join([value] * 70)})",
            f"UPDATE w SET c{random.choice([0, 1, 30, 69])} = {value} WHERE id = {key}",
            f"INSERT INTO g VALUES ({value}, '{random.choice('ab')}')",
            f"INSERT INTO g VALUES ({value}, '{random.choice('ab')}')",
            "DELETE FROM g WHERE k = 2",
        ]
    )


def bag_of(rows):
    return Counter(tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in rows)


def hashable(change):
    """Return a change whose lists are tuples."""
    columns = [
        bag_of([row]).popitem()[0]
        for row in zip(*(c.to_pylist() for c in change.rows.columns), strict=True)
    ]
    return [(row[:-1], row[-1]) for row in columns]


def plus(rows, changes):
    rows = Counter(rows)
    for row, kind in changes:
        rows[row] += 1 if kind == "insert" else -1
        assert rows[row] >= 0
    return +rows


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2))
def test_views_in_several_relations_are_watched_previewed_and_subscribed_to(path, seed):
    random = Random(seed)
    with ivm.open(path, sync="off", retain=5) as workspace, ivm.open(path, mode="r") as reader:
        wide_views(workspace)
        told = {name: [] for name in WIDE}
        ends = [
            workspace.subscribe(
                name, lambda rows, name=name: told[name].append(pagestore.Change(0, 0, rows))
            )
            for name in WIDE
        ]
        watched = {name: (workspace.changes(name), reader.changes(name)) for name in WIDE}
        seen, most = {name: [Counter(), Counter()] for name in WIDE}, dict.fromkeys(WIDE, 0)
        for step in range(30):
            statement = edit_wide(random)
            preview = workspace.preview(lambda txn, statement=statement: txn.sql(statement))
            assert not any(":part" in name for name in preview.changes)
            before = {name: bag_of(workspace[name]) for name in WIDE}
            workspace.sql(statement) if step % 3 else preview.commit()
            for name in WIDE:
                now = bag_of(workspace[name])
                most[name] = max(most[name], now.total())
                changes = (
                    hashable(pagestore.Change(0, 0, preview.changes[name]))
                    if name in preview.changes
                    else []
                )
                assert plus(before[name], changes) == now
                assert not {row for row, kind in changes if kind == "insert"} & {
                    r for r, k in changes if k == "delete"
                }
                told_now = [one for change in told[name] for one in hashable(change)]
                assert told_now == changes, (name, step)
                told[name].clear()
                for place, changes in enumerate(watched[name]):
                    while (place == 0 or step % 10 == 9) and (change := changes.next(0)):
                        seen[name][place] = plus(seen[name][place], hashable(change))
                    if place == 0 or step % 10 == 9:
                        assert seen[name][place] == now, (name, place, step)
        assert all(most.values()), most
        for end in ends:
            end()


@pytest.mark.filterwarnings("ignore")
def test_a_wide_view_that_is_made_anew_or_dropped_ends_its_watchers(path):
    with ivm.open(path, sync="off", retain="all") as workspace:
        before = workspace.store.version
        wide_views(workspace)
        workspace.sql("INSERT INTO g VALUES (1, 'a')")
        with workspace.changes("lists", since=before) as changes:
            assert hashable(next(changes)) == [((1, ("a",)), "insert")]
        told, changes, other = [], workspace.changes("lists"), workspace.changes("pairs")
        workspace.subscribe("lists", told.append)
        other_query = "SELECT x, list(k ORDER BY k) AS ks FROM g GROUP BY x"
        workspace.sql(f"CREATE OR REPLACE MATERIALIZED VIEW lists AS {other_query}")
        workspace.sql("DROP MATERIALIZED VIEW pairs")
        workspace.sql("INSERT INTO g VALUES (1, 'a')")
        assert told == []
        with pytest.raises(SchemaError, match="made anew"):
            changes.next(5)
        with pytest.raises(MissingError):
            other.next(5)


QUERIES = {  # of each view, two queries that keep other rows by other means, with the same columns
    "set": ("SELECT DISTINCT k FROM g", "SELECT DISTINCT k FROM g WHERE x > 'a'"),
    "bag": ("SELECT k FROM g", "SELECT a.k FROM g a JOIN g b ON a.k = b.k"),
    "sums": ("SELECT k, sum(k) AS n FROM g GROUP BY k",
    "SELECT k, sum(k + 1) AS n FROM g WHERE k > 1 GROUP BY k"),
    "texts": ("SELECT k, string_agg(x, '-' ORDER BY x) AS t FROM g GROUP BY k",
              "SELECT k, string_agg(x, '' ORDER BY x) AS t FROM g GROUP BY k"),
    "lists": ("SELECT k, list(x ORDER BY x) AS l FROM g GROUP BY k",
              "SELECT k, list(x ORDER BY x DESC) AS l FROM g GROUP BY k"),
    "ends": ("SELECT k, max(x) AS t FROM g GROUP BY k",
    "SELECT DISTINCT k, x AS t FROM g WHERE x > 'a'"),
    "null": ("SELECT k, nullif(x, 'b') AS t FROM g", "SELECT k, coalesce(x, 'z') AS t FROM g"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUERIES)
def test_watchers_go_on_when_another_handle_replaces_a_view_by_one_of_the_same_columns(
    tmp_path, name
):
    path = tmp_path / "w.pages"
    with ivm.open(path, sync="off", retain="all") as workspace:
        workspace.sql(
            "CREATE TABLE g (k INTEGER, x VARCHAR); INSERT INTO g VALUES (1, 'a'), (1, 'b'), (2, "
            "'c')"
        )
        workspace.sql(f"CREATE MATERIALIZED VIEW v AS {QUERIES[name][0]}")
        seen = bag_of(workspace["v"])
        with workspace.changes("v") as changes:
            for number in range(6):
                with ivm.open(path, sync="off") as other:
                    if number % 2:
                        other.sql(f"INSERT INTO g VALUES ({number}, 'a'), (1, 'd')")
                    else:
                        other.sql(
                            f"CREATE OR REPLACE MATERIALIZED VIEW v AS "
                            f"{QUERIES[name][number // 2 % 2 == 0]}"
                        )
                while (change := changes.next(0)) is not None:
                    seen = plus(seen, hashable(change))
                assert seen == bag_of(workspace["v"])


def test_an_asynchronous_watcher_goes_on_when_another_process_installs_rules(path):
    text = "edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, z), x > 1."
    code = f"import ivm\nwith ivm.open({str(path)!r}) as ws: ws.install({text!r}, replace=True)"

    async def watched():
        with ivm.open(path, sync="off") as workspace:
            workspace.exec("+edge(1, 2). +edge(2, 3).")
            with workspace.changes("two") as changes:
                await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], check=True)
                return await asyncio.wait_for(anext(changes), 60)

    rows = asyncio.run(watched()).rows.to_pylist()
    assert rows == [
        {"x": 1, "z": 3, "_change_type": "delete"},
        {"x": 2, "z": 3, "_change_type": "insert"},
    ]


def test_a_slow_watcher_holds_one_version(path):
    with ivm.open(path, sync="off", retain=3) as workspace, workspace.changes("edge") as changes:
        for k in range(50):
            workspace.exec(f"+edge({k}, {k}).")
        assert len(workspace.store.history()) < 16
        found = [*iter(lambda: changes.next(0), None)]
        assert len(found) < 16 and sum(
            (applied({}, change) for change in found), Counter()
        ) == Counter(workspace["edge"])
        changes.close()
        assert changes.next() is None


def test_a_watcher_in_another_process_is_woken(path):
    seen = CONTEXT.SimpleQueue()
    with ivm.open(path, sync="off") as workspace:
        process = CONTEXT.Process(
            target=watch, args=(path, "two", workspace.store.version, seen, 30)
        )
        process.start()
        workspace.exec("+edge(0, 1).")
        delays = []
        for k in range(1, 31):
            time.sleep(0.01)
            version = workspace.exec(f"+edge({k}, {k + 1}).")
            committed = time.monotonic()
            since, seen_version, rows = seen.get()
            delays.append(time.monotonic() - committed)
            assert (since, seen_version) == (version - 1, version) and rows.num_rows == 1
        process.join(20)
        assert sorted(delays)[15] < 0.02, delays  # without other load it is a millisecond


def test_killed_and_resumed_watchers_see_each_change_once_in_order(path):
    """A watcher notes the version with what it has seen, and another one goes on from there."""
    random, rows = Random(3), Counter()
    with ivm.open(path, sync="off", retain="all") as workspace:
        at = first = workspace.store.version
        stop = threading.Event()

        def write():
            while not stop.is_set():
                edit(workspace, random)
                time.sleep(0.002)

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(5):
            seen = CONTEXT.SimpleQueue()
            process = CONTEXT.Process(target=watch, args=(path, "two", at, seen, 10**9))
            process.start()
            for _ in range(random.randrange(1, 10)):
                since, version, table = seen.get()
                assert at <= since < version
                at, rows = version, applied(rows, pagestore.Change(since, version, table))
            os.kill(process.pid, signal.SIGKILL)
            joined(process)
        stop.set()
        joined(writer)
        with workspace.changes("two", at) as rest:
            while change := rest.next(0):
                rows = applied(rows, change)
        assert rows == Counter(workspace["two"]) and at > first


def test_asynchronous_watchers(path):
    async def watching(changes, count):
        return [change async for change, _ in zip_async(changes, count)]

    async def zip_async(changes, count):
        for i in range(count):
            yield await anext(changes), i

    async def both(workspace):
        one, two = workspace.changes("edge"), workspace.changes("two")
        tasks = [asyncio.create_task(watching(one, 3)), asyncio.create_task(watching(two, 2))]
        for k in range(3):
            await asyncio.sleep(0.01)
            await asyncio.to_thread(workspace.exec, f"+edge({k}, {k + 1}).")
        found = await asyncio.wait_for(asyncio.gather(*tasks), 20)
        waiting = asyncio.create_task(watching(one, 1))
        await asyncio.sleep(0.05)
        one.close()
        with pytest.raises(StopAsyncIteration):
            await anext(one)
        with pytest.raises((RuntimeError, StopAsyncIteration)):  # the iteration has ended
            await asyncio.wait_for(waiting, 5)
        return found

    with ivm.open(path, sync="off") as workspace:
        edges, twos = asyncio.run(both(workspace))
    assert [change.rows.num_rows for change in edges] == [1, 1, 1]
    assert [change.version for change in twos] == [change.version for change in edges[1:]]


def test_what_cannot_be_watched_is_said(path):
    with ivm.open(path, sync="off", retain=1) as workspace:
        with pytest.raises(UnknownViewError):
            workspace.changes("none")
        with pytest.raises(MissingError, match="since=0"):
            workspace.store.changes("none")
        for k in range(12):
            workspace.exec(f"+edge({k}, 0).")
        with pytest.raises(VersionError, match="not retained"):
            workspace.changes("edge", since=5)
        changes = workspace.changes("letters")
        workspace.sql("DROP MATERIALIZED VIEW letters")
        with pytest.raises(MissingError):
            changes.next(5)
        edges = workspace.changes("edge")
    with pytest.raises(ClosedError):
        edges.next(5)


def test_a_waiting_thread_ends_when_it_is_closed(path):
    with ivm.open(path, sync="off") as workspace:
        changes, found = workspace.changes("edge"), []
        thread = threading.Thread(target=lambda: found.extend(changes))
        thread.start()
        time.sleep(0.05)
        began = time.monotonic()
        changes.close()
        joined(thread)
        # milliseconds on a machine with nothing else to do
        assert time.monotonic() - began < 5 and found == []


def descriptors():
    """How many descriptors wait for something: reports of writes, and a word from another
    thread.
    """
    ends = [os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if os.path.islink(fd)]
    return Counter(end for end in ends if end.startswith("anon_inode:"))


@pytest.mark.parametrize("way", ["close", "with", "thread", "task", "cancelled", "refused"])
def test_closing_gives_the_descriptors_back(path, way):
    """At once, though the watcher is still referred to; or as soon as nobody waits by them."""
    held = []

    async def waits(changes, cancels):
        waiting = asyncio.create_task(anext(changes))
        await asyncio.sleep(0.02)
        waiting.cancel() if cancels else changes.close()
        with pytest.raises(asyncio.CancelledError if cancels else StopAsyncIteration):
            await waiting
        changes.close()

    with ivm.open(path, sync="off") as workspace:
        asyncio.run(asyncio.sleep(0))  # what asyncio opens itself
        before = descriptors()
        for _ in range(3):
            if way == "refused":
                with pytest.raises(MissingError) as error:
                    workspace.store.changes("none")
                held.append(error)
                continue
            changes = workspace.changes("edge")
            held.append(changes)
            if way == "with":
                with changes:
                    assert changes.next(0) is None
            elif way == "thread":
                thread = threading.Thread(target=changes.next)
                thread.start()
                time.sleep(0.02)
                changes.close()
                thread.join(20)
                assert not thread.is_alive()
            elif way == "close":
                changes.close()
            else:
                asyncio.run(waits(changes, way == "cancelled"))
            assert changes.next(0) is None
            changes.close()
        assert descriptors() <= before


def test_a_watcher_in_a_forked_child(path):
    """It raises, and whatever the child does with it, the parent's watcher sleeps and is woken
    as before.
    """
    with ivm.open(path, sync="off") as workspace, workspace.changes("edge") as changes:
        child = os.fork()
        if not child:
            signal.alarm(20)
            said = []
            for way in (changes.next, lambda: asyncio.run(anext_of(changes))):
                try:
                    way()
                except Exception as error:
                    said.append(type(error).__name__)
            changes.close()
            os._exit(said != ["ForkError", "ForkError"])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert changes.next(0.2) is None
        assert changes._fruitless < 5  # it does not look again and again
        workspace.insert("edge", (1, 2))
        assert changes.next(20).rows.num_rows == 1


async def anext_of(changes):
    return await anext(changes)


@pytest.mark.parametrize("options", [[], ["--format", "jsonl"]])
def test_the_command_prints_changes(path, options):
    command = [
        sys.executable,
        "-m",
        "ivm",
        "watch",
        str(path),
        "two",
        "--since",
        "0",
        "--commits",
        "2",
        *options,
    ]
    with ivm.open(path, sync="off", retain="all") as workspace:
        first = workspace.exec("+edge(1, 2). +edge(2, 3).")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
            assert watcher.stdout
            lines = [watcher.stdout.readline() for _ in range(1 if options else 2)]
            second = workspace.exec("-edge(1, 2). +edge(3, 4).")
            lines += watcher.stdout.readlines()
            assert watcher.wait() == 0
    if options:
        assert [json.loads(line) for line in lines] == [
            {"version": first, "change": "+", "row": {"x": 1, "z": 3}},
            {"version": second, "change": "-", "row": {"x": 1, "z": 3}},
            {"version": second, "change": "+", "row": {"x": 2, "z": 4}},
        ]
    else:
        assert "".join(lines) == (
            f"version {first}: 1 new, 0 removed\n  + 1, 3\nversion {second}: 1 new, 1 removed\n  - "
            f"1, 3\n  + 2, 4\n"
        )


def test_commits_are_yielded_as_their_versions(path):
    with (
        ivm.open(path, mode="r") as reader,
        ivm.open(path) as writer,
        reader.store.commits() as commits,
    ):
        assert commits.next(timeout=0) is None
        made = [writer.exec("+edge(1, 2)."), writer.exec("+edge(2, 3).")]
        writer.store.tag("here")  # is no commit of the branch
        assert [next(commits), next(commits), commits.next(timeout=0)] == [*made, None]
        with writer.transaction() as txn:
            threading.Timer(0.05, lambda: commits.close()).start()
            assert [*commits] == []  # closing ends a waiting iteration
            txn.rollback()
        with reader.store.commits(since=made[0]) as later:
            assert next(later) == made[1]


def test_commits_of_another_process_wake_an_asynchronous_program(path):
    async def first():
        with ivm.open(path, mode="r") as reader, reader.store.commits() as commits:
            command = [sys.executable, "-m", "ivm", "exec", str(path), "+edge(1, 2)."]
            process = await asyncio.create_subprocess_exec(
                *command, stdout=asyncio.subprocess.DEVNULL
            )
            version = await anext(commits)
            await process.wait()
            return version, list(reader["edge"])

    with ivm.open(path, mode="r") as reader:
        before = reader.store.version
    assert asyncio.run(asyncio.wait_for(first(), 60)) == (before + 1, [(1, 2)])
