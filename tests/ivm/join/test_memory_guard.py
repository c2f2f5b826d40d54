"""Rows too many for memory: one error that names the rule, and nothing is lost."""

import errno
import os
import resource
import subprocess
import sys
from math import inf
from unittest.mock import Mock

import numpy as np
import pytest

import ivm
from ivm import installation, memory, question
from ivm.engine import choice, replan
from ivm.errors import LimitError, OptionError, RoomError
from ivm.memory import Limit
from ivm.plan import costs
from ivm.ways import pending as filling
from ivm.ways import tries

PAIRS = "(x, y) <- a(x), a(y)."
SCARCE = [Limit("the machine's memory", 1 << 40, 5 << 20)]
SMALL = [Limit("the machine's memory", 20 << 20, 1 << 40)]


@pytest.fixture
def ws(tmp_path, monkeypatch):
    with ivm.open(tmp_path / "a.pages", sync="off") as ws:
        ws.install("a(x) -> int(x).", name="base")
        with ws.transaction() as txn:
            txn.insert("a", [np.arange(1000)])
        monkeypatch.setattr(memory, "CHECK_BYTES", 1 << 20)
        yield ws


@pytest.mark.parametrize("threads", [1, 3])
def test_a_question_whose_answer_does_not_fit(ws, monkeypatch, threads):
    ws.threads = threads
    assert len(ws.query("q" + PAIRS)) == 1_000_000
    monkeypatch.setattr(memory, "limits", lambda: SCARCE)
    left = r"^query:1:1: making a table: 1,000,000 rows so far take 16.0 MB; 5.2 MB of the machine's memory are left"
    with pytest.raises(RoomError, match=left + ".*; ask for fewer rows"):
        ws.query("q" + PAIRS)
    assert len(ws.query("q(x, y) <- a(x), a(y), x < 100.")) == 100_000  # 1.6 MB
    assert list(ws.query("q[] = n <- agg<<n = count()>> a(x), a(y).")) == [(1_000_000,)]


def test_an_evaluation_takes_a_share_of_the_memory(ws, monkeypatch):
    """Also where nothing else limits it, and much is left; the user may allow more."""
    monkeypatch.setattr(memory, "limits", lambda: SMALL)
    with pytest.raises(
        RoomError, match=r"one evaluation may take 25 % of the machine's memory, 21.0 MB"
    ):
        ws.query("q" + PAIRS)
    monkeypatch.setenv("IVM_MEMORY_SHARE", "0.9")
    assert len(ws.query("q" + PAIRS)) == 1_000_000


def test_changes_that_do_not_fit(ws, monkeypatch):
    """One row may bring many, found by probes or by intervals."""
    for maintenance in ("match", "probe"):
        rule = f"on_{maintenance}(x) -> int(x). p_{maintenance}(x, y, z) <- a(x), a(y), on_{maintenance}(z)."
        ws.install(rule, name=maintenance, maintenance=maintenance)
    monkeypatch.setattr(memory, "limits", lambda: SCARCE)
    monkeypatch.setattr(costs, "FREE", inf)  # probing goes on, whatever it costs
    for maintenance in ("match", "probe"):
        with pytest.raises(
            RoomError, match=rf"^{maintenance}:1:2\d: finding rows: [\d,]+ rows so far"
        ):
            ws.exec(f"+on_{maintenance}(1).")
    monkeypatch.undo()
    ws.exec("+on_probe(1).")
    assert len(ws["p_probe"]) == 1_000_000 and not ws.check()


@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_a_view_that_does_not_fit_is_not_installed(ws, monkeypatch, maintenance):
    version = ws.store.version
    monkeypatch.setattr(memory, "limits", lambda: SCARCE)
    monkeypatch.setattr(filling, "RUNS_MAX", 1)  # nor do its runs
    with pytest.raises(RoomError, match="^pairs:1:1: (sorting rows|recording a trace): "):
        ws.install("pairs" + PAIRS, name="pairs", maintenance=maintenance)
    assert ws.store.version == version and "pairs" not in ws
    monkeypatch.undo()
    ws.install("pairs" + PAIRS, name="pairs", maintenance=maintenance)
    assert len(ws["pairs"]) == 1_000_000
    monkeypatch.setattr(memory, "CHECK_BYTES", 1 << 20)
    monkeypatch.setattr(memory, "limits", lambda: SCARCE)
    monkeypatch.setattr(filling, "RUNS_MAX", 1)
    with pytest.raises(RoomError, match="^pairs:1:1: "):
        ws.verify("pairs")
    monkeypatch.setattr(choice.Choice, "_propagating", lambda *_: inf)  # the view is evaluated anew
    monkeypatch.setattr(costs, "LARGE_FROM", 0)
    with pytest.raises(RoomError, match="^pairs:1:1: "), ws.transaction() as txn:
        txn.delete("a", [np.arange(100)])
    assert len(ws["a"]) == 1000
    monkeypatch.undo()
    with ws.transaction() as txn:
        txn.delete("a", [np.arange(100)])
    assert len(ws["pairs"]) == 900**2
    ws.verify("pairs")
    assert ws.store.check() == []


@pytest.mark.parametrize(
    ("group", "limit", "left"),
    [
        ("0::/", None, 7 << 20),
        ("0::/", "max", 7 << 20),
        ("0::/", str(1 << 40), 7 << 20),
        ("0::/", str(4 << 20), 2 << 20),
        ("0::/app", str(4 << 20), 2 << 20),
        ("0::/app/one", str(4 << 20), 2 << 20),
        ("4:memory:/", str(4 << 20), 2 << 20),
        ("4:memory:/app", str(4 << 20), 2 << 20),
        ("4:memory:/app/one", str(4 << 20), 2 << 20),
        ("4:cpu,memory:/app/one", str(4 << 20), 2 << 20),
        ("4:memory:/app", str((1 << 63) - 4096), 7 << 20),
        ("4:memory:/app", None, 7 << 20),
        ("4:cpu:/app", str(4 << 20), 7 << 20),
    ],
)
def test_what_is_left_of_the_machine_and_of_a_group(group, limit, left, tmp_path, monkeypatch):
    """The group, or the one that it is in, has taken 3 MiB, 1 of them of files that can be let
    go.
    """
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(
        "MemTotal: 9999 kB\nMemAvailable: 6144 kB\nHugePages_Total: 0\nSwapFree: 1024 kB\n"
    )
    (proc / "self" / "cgroup").write_text(f"5:cpu:/app\n{group}\n")
    # version 1 has a tree of its own for each controller
    first = ":memory" in group or "cpu" in group
    most, current, files = FILES[first]
    folder = (groups / "memory" if first else groups) / group.removesuffix("/one").rpartition("/")[
        2
    ]
    folder.mkdir(parents=True)
    if limit is not None:
        (folder / most).write_text(f"{limit}\n")
        (folder / current).write_text(f"{3 << 20}\n")
        (folder / "memory.stat").write_text(f"anon 17\n{files} {1 << 20}\n")
    monkeypatch.setattr(memory, "PROC", proc)
    monkeypatch.setattr(memory, "GROUPS", groups)
    assert memory.memory_left() == left


FILES = {
    False: ("memory.max", "memory.current", "inactive_file"),
    True: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def test_what_is_left_of_this_machine(tmp_path, monkeypatch):
    assert 1 << 20 < memory.memory_left() < 1 << 50
    monkeypatch.setattr(memory, "PROC", tmp_path)
    assert memory.memory_left() == memory.UNLIMITED  # it does not say


@pytest.mark.parametrize("kind", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
def test_what_is_left_by_a_limit_of_the_process(monkeypatch, kind):
    monkeypatch.setattr(
        resource,
        "getrlimit",
        lambda asked: (1 << 36 if asked == kind else resource.RLIM_INFINITY, -1),
    )
    limit = [*memory.limits()][-1]
    assert (
        limit.whose.endswith("allows") and limit.whole == 1 << 36 and 0 < limit.left < limit.whole
    )
    assert memory.memory_left() <= limit.left


REFUSED = r"""
import os, re, resource, sys
import numpy as np
import ivm
from ivm import installation, question

def attempts():
    yield "a question", lambda: ws.query("q(y, x) <- a(x), a(y), x + y > 0.")
    yield "a sum", lambda: ws.query("q[x] = s <- agg<<s = sum(v)>> a(x), a(y), v = x * y + x.")
    yield "a median", lambda: ws.query("q[x] = s <- agg<<s = median(v)>> a(x), a(y), v = x * y.")
    yield "recursion", lambda: ws.query("t(x, y) <- a(x), a(y). t(x, z) <- t(x, y), t(y, z).")
    yield "a view", lambda: ws.install("q(x, y) <- a(x), a(y).", name="q")
    yield "a view with a trace", lambda: ws.install("q(x, y) <- a(x), a(y), x + y > 1.", name="q", maintenance="match")
    yield "a change", lambda: ws.exec("+on(1).")
    yield "rows of a view", lambda: ws.evaluate("p")

def attempt(name, do, room):
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + room,) * 2)
    try:
        do()
        return "done"
    except ivm.errors.RoomError as error:
        told = re.match(r"((query|[pq]):1:\d+: |p: |)[a-z ]+: .*\d rows so far.*; ask for fewer rows", str(error))
        return "RoomError" if told else str(error)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"

ws = ivm.open(sys.argv[1], sync="off", threads=2)
ws.install("a(x) -> int(x). on(x) -> int(x).", name="base")
with ws.transaction() as txn:
    txn.insert("a", [np.arange(1000)])
ws.install("p(x, y) <- a(x), a(y), on(z).", name="p", maintenance="probe")
path = ws.store.path
ws.close()
for name, _ in attempts():
    for room in (20, 60, 100, 160, 250):
        if os.fork() == 0:
            copy = f"{path}.{os.getpid()}"
            open(copy, "wb").write(open(path, "rb").read())
            ws = ivm.open(copy, sync="off", threads=2)
            ws.query("q(x) <- a(x), x < 3.")
            if name == "rows of a view":
                ws.exec("+on(1).")
            print(f"{name}, {room} MB: {attempt(name, dict(attempts())[name], room << 20)}", flush=True)
            os._exit(0)
        os.wait()
"""


def test_memory_that_the_system_refuses(tmp_path):
    """At any step, under a limit of any size: done, or an error that says where, at which step,
    and how many rows.
    """
    command = [sys.executable, "-c", REFUSED, str(tmp_path / "a.pages")]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "IVM_MEMORY_SHARE": "1"}
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 40, done.stderr
    assert {line.partition(": ")[2] for line in lines} == {"done", "RoomError"}, done.stdout


@pytest.mark.parametrize("many", [False, True])
def test_of_many_parts_each_is_added_up(many, tmp_path, monkeypatch):
    """Many bindings may be of few rows: what is kept of them is a row a part and key."""
    compose_rows = Mock(wraps=filling.compose_rows)
    monkeypatch.setattr(filling, "compose_rows", compose_rows)
    monkeypatch.setattr(tries, "PARTS_KEPT", 0 if many else 1000)
    pairs = np.unique(np.random.default_rng(12).integers(0, 200, (2, 30_000)), axis=1)
    with ivm.open(tmp_path / "a.pages", sync="off", threads=2) as ws:
        ws.install("e(x, y) -> int(x), int(y).", name="base")
        with ws.transaction() as txn:
            txn.insert("e", list(pairs))
        rule = "n[y] = k <- agg<<k = sum(v)>> e(x, y), e(y, z), v = x + z."
        ws.install(rule, name="rule", maintenance="match")
        (call,) = compose_rows.call_args_list
        rows = sum(rows.shape[1] for _, rows in call.args[2])
        into, out = (np.bincount(column, minlength=200) for column in pairs[::-1])
        before, behind = (np.bincount(y, other, minlength=200) for y, other in (pairs[::-1], pairs))
        assert list(ws["n"]) == [*enumerate(out * before + into * behind)]
        assert rows <= 200 * len(call.args[2]) if many else rows == (into * out).sum()


def test_a_workspace_that_may_take_little(ws, tmp_path, monkeypatch):
    """`memory` bounds questions, transactions and checks, and no view; a smaller answer is no
    error.
    """
    monkeypatch.undo()
    path = ws.store.path
    ws.install("on(x) -> int(x). p(x, y, z) <- a(x), a(y), on(z).", name="p", maintenance="probe")
    ws.close()
    allowed = r"[\d,]+ rows so far take [\d.]+ MB; one evaluation may take 2.0 MB \(memory=2000000 when it was opened\)"
    answer = r"rows so far of \S+ take [\d.]+ MB in temporary files; one evaluation may take 8.0 MB there"
    with ivm.open(path, sync="off", memory=2_000_000) as small:
        for said, doing in (
            (answer, lambda: small.query("q" + PAIRS)),
            (answer, lambda: small.sql("select a.x, b.x as y from a, a b")),
            (allowed, lambda: small.exec("+on(1).")),
        ):
            with pytest.raises(LimitError, match=said) as raised:
                doing()
            assert isinstance(raised.value, RoomError)
        small.install("q" + PAIRS, name="q")  # by sorted runs
        assert len(small["q"]) == 1_000_000
        assert len(small.query("few(x, y) <- a(x), a(y), x < 50.")) == 50_000
        with pytest.raises(RoomError, match=allowed), small.store.transaction() as txn:
            txn["on"].insert([(1,)])
    with ivm.open(path, sync="off", memory=1 << 30) as ample:
        ample.exec("+on(1).")
        assert len(ample["p"]) == 1_000_000
    with pytest.raises(OptionError, match="memory=0: it is a whole number of bytes"):
        ivm.open(path, memory=0)


def test_memory_that_is_refused_anywhere(ws, monkeypatch):
    """Whichever part of an install, a transaction or a query asks for it, also to map the file."""
    ws.install("p(x) <- a(x), x > 3.", name="kept")
    version = ws.store.version
    mapping = OSError(errno.ENOMEM, "Cannot allocate memory")
    for error, why in (
        (MemoryError(), "memory;"),
        (mapping, r"memory to map the store's file: .*ulimit -v"),
    ):
        refused = Mock(side_effect=error)
        with monkeypatch.context() as patched:
            patched.setattr(installation, "refuse_violations", refused)
            with pytest.raises(RoomError, match=rf"evaluating rules: the system refused {why}"):
                ws.install("q(x) <- a(x).", name="q")
        with monkeypatch.context() as patched:
            patched.setattr(replan.Replan, "follow_sizes", refused)
            with pytest.raises(RoomError, match=rf"the system refused {why}"):
                ws.exec("+a(5000).")
        with monkeypatch.context() as patched:
            patched.setattr(question, "within_memory", refused)
            with pytest.raises(RoomError, match=rf"the system refused {why}"):
                ws.query("q(x) <- a(x).")
        assert refused.call_count == 3
    assert ws.store.version == version
    ws.exec("+a(5000).")
    assert len(ws["p"]) == 997 and ws.check() == []
