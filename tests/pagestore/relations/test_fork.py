"""Whatever came through a fork gives the rows that it had, or ForkError, while the parent writes
over their pages.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import ivm
import pagestore
from pagestore.errors import ClosedError, ForkError
from pagestore.storage.file import File
from tests.test_public_names import MEMBERS

N = 5000
TEXTS = [f"text {i % 50}" for i in range(N)]

RELATION: dict[str, Callable[[Any], Any]] = {  # one use of each public member of a relation
    "batches": lambda r: [batch.to_pylist() for batch in r.batches()],
    "bounded": lambda r: r.bounded,
    "complement": lambda r: list(r.complement(0, 20)),
    "computed_place": lambda r: r.computed_place,
    "cursor": lambda r: r.cursor().seek(70),
    "enough": lambda r: r.enough and r.enough(),
    "first": lambda r: r.first(3),
    "get": lambda r: r.get(7),
    "get_many": lambda r: r.get_many([[1, 2, 3]])[1]["v"].tolist(),
    "items": lambda r: list(r.items()),
    "key_order": lambda r: r.key_order(next(r.words())).tolist(),
    "keys": lambda r: list(r.keys()),
    "last": lambda r: r.last(3),
    "mapping": lambda r: dict(r.mapping()),
    "name": lambda r: r.name,
    "overlaps": lambda r: r.overlaps(1, 2),
    "prefix": lambda r: list(r.prefix(7)),
    "range": lambda r: list(r.range(5, 50)),
    "range_head": lambda r: list(r.range_head(7)),
    "rank": lambda r: r.rank(70),
    "record_batch": lambda r: r.record_batch(next(r.words())).to_pylist(),
    "record_batches": lambda r: [batch.to_pylist() for batch in r.record_batches(next(r.words()))],
    "scan": lambda r: r.scan("sum:v"),
    "scan_many": lambda r: r.scan_many("sum:v", [(5,)], [(50,)]).to_pylist(),
    "scans": lambda r: r.scans,
    "schema": lambda r: str(r.schema),
    "select": lambda r: r.select(9),
    "sorts_texts": lambda r: r.sorts_texts,
    "source": lambda r: len(r.source),
    "stab": lambda r: r.stab(1),
    "stab_many": lambda r: r.stab_many([(1,)]),
    "starts_with": lambda r: list(r.starts_with("1")),
    "to_arrow": lambda r: r.to_arrow().to_pylist(),
    "to_duckdb": lambda r: r.to_duckdb().fetchall(),
    "to_numpy": lambda r: {name: column.tolist() for name, column in r.to_numpy().items()},
    "to_pandas": lambda r: r.to_pandas().values.tolist(),
    "to_polars": lambda r: r.to_polars().rows(),
    "tree": lambda r: r.tree.count,
    "values": lambda r: list(r.values()),
    "view": lambda r: len(r.view()),
    "words": lambda r: [batch.tolist() for batch in r.words()],
    "words_where": lambda r: [
        batch.tolist() for batch in r.words_where(pc.field(r.schema.names[0]) >= 0)
    ],
}
SNAPSHOT: dict[str, Callable[[Any], Any]] = {
    "close": lambda s: None,
    "decode": lambda s: s.decode("string", next(s["r"].words())[2][:9]).to_pylist(),
    "encode": lambda s: s.encode("string", TEXTS[:9]).tolist(),
    "finder": lambda s: s.finder("r").find((7,)),
    "get": lambda s: list(s.get("r")),
    "items": lambda s: [(name, list(r)) for name, r in s.items()],
    "keys": lambda s: list(s.keys()),
    "message": lambda s: s.message,
    "pages": lambda s: len(s.pages),
    "properties": lambda s: s.properties,
    "remembered": lambda s: s.remembered(s.tree("r")),
    "threads": lambda s: s.threads,
    "timestamp": lambda s: s.timestamp,
    "tree": lambda s: s.tree("r").count,
    "values": lambda s: [list(r) for r in s.values()],
    "version": lambda s: s.version,
}
BEGUN: dict[str, Callable[[Any], Any]] = {  # iterators that have given something before the fork
    "rows": lambda s: iter(s["r"]),
    "batches": lambda s: s["r"].batches(rows=100),
    "items": lambda s: iter(s["r"].items()),
    "cursor": lambda s: iter(s["r"].cursor()),
    "texts": lambda s: iter(s["r"].scan("concat:t")),
    "sorted texts": lambda s: iter(s["q"]),
    "backward": lambda s: reversed(s["r"]),
}


def test_every_public_member_is_used() -> None:
    assert " ".join(RELATION) == " ".join(MEMBERS[pagestore.Relation].split())
    assert " ".join(SNAPSHOT) == " ".join(MEMBERS[pagestore.Snapshot].split())


def outcome(way: Callable[[], Any]) -> Any:
    try:
        return way()
    except Exception as error:
        return type(error).__name__


def in_a_child(ways: dict[str, Callable[[], Any]], between: Callable[[], None]) -> dict[str, str]:
    """What each way gives in a forked child, once the parent has done something; "as before" if
    that is the same.
    """
    before = {name: outcome(way) for name, way in ways.items()}
    go, went = os.pipe()
    back, said = os.pipe()
    child = os.fork()
    if not child:
        os.read(go, 1)
        found = {name: outcome(way) for name, way in ways.items()}
        told = {
            name: "as before" if one == before[name] else str(one)[:60]
            for name, one in found.items()
        }
        os.write(said, repr(told).encode())
        os._exit(0)
    os.close(said)
    between()
    os.write(went, b"x")
    with os.fdopen(back) as pipe:
        told = eval(pipe.read())
    os.close(go)
    os.close(went)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return told


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path):
    where = tmp_path / "s.pages" if request.param == "file" else ":memory:"
    with pagestore.open(where, page_size=4096, sync="off", retain=1, threads=1) as made:
        with made.transaction() as txn:
            scans = ["count", "sum:v"]
            txn.create("r", "k: int64, v: int64, t: string", key="k", scans=scans).insert(
                [range(N), [0] * N, TEXTS]
            )
            txn.create("q", "t: string, k: int64").insert([TEXTS, range(N)])
        yield made


def write_over(store: pagestore.Store) -> None:
    """Commit until every page of the first version was written again, at least once."""
    for i in range(1, 8):
        with store.transaction() as txn:
            txn["r"].set([range(N), [i] * N, [f"{i} {text}" for text in TEXTS]])
            txn["q"].delete(list(txn["q"]))
            txn["q"].insert([[f"{i} {text}" for text in TEXTS], range(i, N + i)])
        store.vacuum(keep_versions=1)


def test_a_snapshot_and_all_that_reads_it(store) -> None:
    held = [store.snapshot()]
    relation = held[0]["r"]
    ways = {f"relation.{name}": lambda use=use: use(relation) for name, use in RELATION.items()}
    ways |= {f"snapshot.{name}": lambda use=use: use(held[0]) for name, use in SNAPSHOT.items()}

    def between() -> None:
        held.pop().close()
        write_over(store)

    found = in_a_child(ways, between)
    assert {*found.values()} == {"as before", "ForkError"}, found
    for name in (
        "relation.get",
        "relation.to_arrow",
        "relation.scan",
        "relation.rank",
        "snapshot.finder",
    ):
        assert found[name] == "ForkError"


@pytest.mark.parametrize("name", BEGUN)
def test_an_iterator_that_had_begun(store, name) -> None:
    """It goes on with what it has read already."""
    held = [store.snapshot()]
    right = [str(one) for one in BEGUN[name](held[0])]
    begun = BEGUN[name](held[0])
    assert str(next(begun)) == right[0]

    def go_on() -> Any:
        at = 1
        try:
            for one in begun:
                if str(one) != right[at]:
                    return f"{one} for {right[at]}"
                at += 1
        except ForkError:
            return "ForkError"
        return "as before" if at == len(right) else "it ended too early"

    def between() -> None:
        held.pop().close()
        write_over(store)

    go, went = os.pipe()
    back, said = os.pipe()
    child = os.fork()
    if not child:
        os.read(go, 1)
        os.write(said, str(go_on()).encode())
        os._exit(0)
    between()
    os.write(went, b"x")
    os.waitpid(child, 0)
    assert os.read(back, 999).decode() in ("as before", "ForkError")
    for end in (go, went, back, said):
        os.close(end)


def test_a_difference_that_had_begun(tmp_path) -> None:
    with pagestore.open(
        tmp_path / "s.pages", page_size=4096, sync="off", retain="all", threads=1
    ) as store:
        for i in range(2):
            with store.transaction() as txn:
                relation = txn["r"] if i else txn.create("r", "k: int64, v: int64", key="k")
                relation.set([range(300_000), [i] * 300_000])
        stream = store.diff(1, 2, "r")
        stream.read_next_batch()
        child = os.fork()
        if not child:
            try:
                stream.read_all()
            except Exception as error:  # of pyarrow, which carries the message
                os._exit("through a fork" in str(error) or isinstance(error, ForkError))
            os._exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_transaction_a_sketch_and_a_workspace(tmp_path) -> None:
    with ivm.open(tmp_path / "w.pages", page_size=4096, retain=1, threads=1) as workspace:
        workspace.install("r(k, v) -> int(k), int(v). s(v, k) <- r(k, v).")
        with workspace.transaction() as txn:
            txn.insert("r", [(k, k) for k in range(N)])
        snapshot, sketch = workspace.at(workspace.store.version), workspace.store.sketch()
        ways = {
            "view": lambda: list(snapshot["s"]),
            "query": lambda: list(snapshot.query("_(v) <- s(v, 7).")),
            "ws.query": lambda: list(workspace.query("_(v) <- s(v, 7).")),
            "ws[...]": lambda: list(workspace["s"]),
            "sketch": lambda: list(sketch["r"]),
        }

        def between() -> None:
            snapshot.close()
            sketch.rollback()
            for i in range(6):
                with workspace.transaction() as txn:
                    txn.delete("r", list(workspace["r"]))
                    txn.insert("r", [(k, k + i) for k in range(N)])

        found = in_a_child(ways, between)
        assert {*found.values()} == {"ForkError"}, found
        txn = workspace.store.transaction()
        number = txn["r"]
        reads = {
            "rows": lambda: list(number),
            "get": lambda: number.get((1, 6)),
            "scan": lambda: number.to_arrow(),
        }
        assert {*in_a_child(reads, txn.rollback).values()} == {"ForkError"}


def test_what_outlives_its_store(tmp_path) -> None:
    """As after a fork, somebody else may write over the pages."""
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off", threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, t: string", key="k").insert([range(N), TEXTS])
        snapshot, closed, sketch = store.snapshot(), store.snapshot(), store.sketch()
        words, known = next(snapshot["r"].words()), snapshot["r"]
        assert known.get(7) == TEXTS[7] and closed["r"].get(7) == TEXTS[7]
        txn, dictionary = store.transaction(), closed.dictionary
        number = txn["r"]
        closed.close()
        with pytest.raises(ClosedError, match="the snapshot of version 1 is closed; take another"):
            dictionary.ids()
    for use in (
        lambda: known.get(7),
        lambda: snapshot.decode("string", words[1]),
        lambda: list(number),
        lambda: number.get(7),
        lambda: txn.decode("string", words[1]),
        lambda: list(sketch["r"]),
    ):
        with pytest.raises(ClosedError, match="was closed|is closed"):
            use()


def uses(workspace: ivm.Workspace) -> dict[str, Callable[[], Any]]:
    """Ways to use a workspace, and what was made of it, for which a thread may have to wait."""
    store, put = workspace.store, workspace.prepare("e")
    changes = workspace.changes("p")
    for i in range(5):
        workspace.insert("e", (i, i))
        put.insert(i, i + 1)
        put.commit()
    workspace.sql("INSERT INTO e VALUES (0, 9)")  # what it imports is not imported by each child
    begin = {"ws.transaction": workspace.transaction, "store.transaction": store.transaction}
    return {
        "ws.insert": lambda: workspace.insert("e", (7, 9)),
        "prepared": lambda: (put.insert(8, 9), put.commit()),
        **{name: lambda begin=begin: begin().rollback() for name, begin in begin.items()},
        "snapshot": lambda: len(store.snapshot()["e"]),
        "at": lambda: store.at(1).close(),
        "version": lambda: store.version,
        "tag": lambda: store.tag("a"),
        "branch": lambda: store.branch("a"),
        "sql": lambda: workspace.sql("INSERT INTO e VALUES (7, 9)"),
        "exec": lambda: workspace.exec("+e(7, 9)."),
        "query": lambda: workspace.query("_(x) <- p(x)."),
        "check": store.check,
        "changes": lambda: changes.next(0),
        "reopen": store.reopen,
        "vacuum": store.vacuum,
        "compact": store.compact,
        "backup": lambda: store.backup(os.devnull),
    }


LOCKS = {
    "committer": lambda handle: handle.committer.lock,
    "syncs": lambda handle: handle.committer.syncs.lock,
    "caches": lambda handle: handle._guard,
    "pins": lambda handle: handle.locks._guard,
    "queue": lambda handle: handle.writers._guard,
}


@contextmanager
def held_elsewhere(store: pagestore.Store, what: str) -> Iterator[None]:
    """Another thread holds a lock meanwhile, or has a transaction open, or is in the midst of a
    sync.
    """
    there, go = threading.Event(), threading.Event()

    def wait() -> None:
        there.set()
        go.wait(60)

    def hold() -> None:
        if what == "sync":
            file, thread = store._handle.file, threading.get_ident()
            file.fdatasync = lambda: (
                wait() if threading.get_ident() == thread else File.fdatasync(file)
            )
            with store.transaction() as txn:
                txn.create("another", "k: int64")
            del file.fdatasync
            return
        with store.transaction() if what == "transaction" else LOCKS[what](store._handle):
            wait()

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    assert there.wait(60)
    try:
        yield
    finally:
        go.set()
        thread.join(20)


@pytest.mark.parametrize("sync", ["full", "commit", "off"])
def test_no_use_in_a_child_waits_for_a_thread_of_the_parent(tmp_path, sync) -> None:
    with ivm.open(tmp_path / "s.pages", sync=sync, threads=1) as workspace:
        workspace.install("e(x, y) -> int(x), int(y). p(x) <- e(x, _).")
        ways = uses(workspace)
        for what in ["sync"] * (sync != "off") + ["transaction", *LOCKS]:
            with held_elsewhere(workspace.store, what):
                child = os.fork()
                if not child:
                    tried(ways, workspace)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, what
        workspace.insert("e", (7, 7))
        assert (7, 7) in workspace["e"] and (7, 9) not in workspace["e"] and not workspace.check()


def tried(ways: dict[str, Callable[[], Any]], workspace: ivm.Workspace) -> None:
    """Try each way in a forked child, and end it: with 0 if each raised ForkError, and closing
    nothing.
    """
    code, last = 1, ""
    try:
        for last, way in ways.items():
            signal.alarm(10)  # ends the process
            found = outcome(way)
            assert found == "ForkError", f"{last} gives {found}"
        workspace.close()
        code = 0
    except BaseException as error:
        print(last, repr(error), flush=True)
    os._exit(code)


@pytest.mark.parametrize("sync", ["full", "commit"])
def test_a_wait_in_which_a_signal_forks(tmp_path, sync) -> None:
    """Its handler returns in the child, too, whose wait then ends."""
    parent, children = os.getpid(), []
    with pagestore.open(tmp_path / "s.pages", sync=sync, threads=1) as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64")
        before = signal.signal(signal.SIGALRM, lambda *_: children.append(os.fork()))
        try:
            with ExitStack() as held:
                held.enter_context(held_elsewhere(store, "sync"))
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                threading.Timer(0.6, held.close).start()
                with store.transaction() as txn:
                    txn["r"].insert([(1,)])
            found = "it was committed"
        except Exception as error:
            found = type(error).__name__
        finally:
            if os.getpid() != parent:
                os._exit(found != "ForkError")
            signal.signal(signal.SIGALRM, before)
        end = time.monotonic() + 20
        while not (ended := os.waitpid(children[0], os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.01)
        if not ended[0]:
            os.kill(children[0], signal.SIGKILL)
        assert ended[0] and os.waitstatus_to_exitcode(ended[1]) == 0
        assert [*store.snapshot()["r"]] == [(1,)]


def test_there_is_no_other_kind_of_lock() -> None:
    """A lock that is kept in an object is made by `thread_lock`; others do not outlive the call
    that makes them.
    """
    for path in Path(pagestore.__file__).parent.rglob("*.py"):
        assert "RLock()" not in path.read_text() or path.name == "forks.py", path
