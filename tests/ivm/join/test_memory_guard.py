"""Rows too many for memory: one error that names the rule, and nothing is lost."""

import sys
from unittest.mock import Mock

import numpy as np
import pytest

import ivm
from ivm.engine import engine, fill, head_edits
from ivm.errors import RoomError
from ivm.join import memory_guard

PAIRS = "(x, y) <- a(x), a(y)."


@pytest.fixture
def ws(tmp_path, monkeypatch):
    with ivm.open(tmp_path / "a.pages", sync="off") as ws:
        ws.install("a(x) -> int(x).", name="base")
        with ws.transaction() as txn:
            txn.insert("a", [np.arange(1000)])
        monkeypatch.setattr(memory_guard, "CHECK_BYTES", 1 << 20)
        yield ws


@pytest.mark.parametrize("threads", [1, 3])
def test_a_question_whose_answer_does_not_fit(ws, monkeypatch, threads):
    ws.threads = threads
    assert len(ws.query("q" + PAIRS)) == 1_000_000
    monkeypatch.setattr(memory_guard, "memory_left", lambda: 5 << 20)
    with pytest.raises(RoomError, match=r"^query:1:1: 0\.0 GB of rows are found, and 0\.0 GB .* ask for less"):
        ws.query("q" + PAIRS)
    assert len(ws.query("q(x, y) <- a(x), a(y), x < 100.")) == 100_000  # 1.6 MB
    assert list(ws.query("q[] = n <- agg<<n = count()>> a(x), a(y).")) == [(1_000_000,)]


@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_a_view_that_does_not_fit_is_not_installed(ws, monkeypatch, maintenance):
    version = ws.store.version
    monkeypatch.setattr(memory_guard, "memory_left", lambda: 5 << 20)
    with pytest.raises(RoomError, match="^pairs:1:1: "):
        ws.install("pairs" + PAIRS, name="pairs", maintenance=maintenance)
    assert ws.store.version == version and "pairs" not in ws
    monkeypatch.undo()
    ws.install("pairs" + PAIRS, name="pairs", maintenance=maintenance)
    assert len(ws["pairs"]) == 1_000_000
    monkeypatch.setattr(memory_guard, "CHECK_BYTES", 1 << 20)
    monkeypatch.setattr(memory_guard, "memory_left", lambda: 5 << 20)
    with pytest.raises(RoomError, match="^pairs:1:1: "):
        ws.verify("pairs")
    monkeypatch.setattr(engine, "RELATION_SHARE_MAX", 0.0)  # both versions are evaluated
    monkeypatch.setattr(engine, "LARGE_FROM", 0)
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
        ("4:memory:/app", str(4 << 20), 7 << 20),
    ],
)
def test_what_is_left_of_the_machine_and_of_a_group(group, limit, left, tmp_path, monkeypatch):
    """The group, or the one that it is in, has taken 3 MiB, 1 of them of files that can be let go."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 9999 kB\nMemAvailable: 6144 kB\nHugePages_Total: 0\nSwapFree: 1024 kB\n")
    (proc / "self" / "cgroup").write_text(f"5:cpu:/app\n{group}\n")
    folder = groups / group.removesuffix("/one").rpartition("/")[2]
    folder.mkdir(parents=True)
    if limit is not None:
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text(f"{3 << 20}\n")
        (folder / "memory.stat").write_text(f"anon 17\ninactive_file {1 << 20}\n")
    monkeypatch.setattr(memory_guard, "PROC", proc)
    monkeypatch.setattr(memory_guard, "GROUPS", groups)
    assert memory_guard.memory_left() == left


def test_what_is_left_of_this_machine(tmp_path, monkeypatch):
    assert 1 << 20 < memory_guard.memory_left() < 1 << 50
    monkeypatch.setattr(memory_guard, "PROC", tmp_path)
    assert memory_guard.memory_left() == sys.maxsize  # it does not say


@pytest.mark.parametrize("many", [False, True])
def test_of_many_parts_each_is_added_up(many, tmp_path, monkeypatch):
    """Many bindings may be of few rows: what is kept of them is a row a part and key."""
    compose_rows = Mock(wraps=head_edits.compose_rows)
    monkeypatch.setattr(fill, "compose_rows", compose_rows)
    monkeypatch.setattr(head_edits, "PARTS_KEPT", 0 if many else 1000)
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
