"""t(x, y), !s(x, y) where s is a subset of t: always the slow truth's rows, and O(missing log n)
where it pays.
"""

import tempfile
from math import inf, log2
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm.engine import choice
from ivm.plan import costs
from ivm.rules.compile import compile, query
from ivm.ways import tries
from ivm.ways.tries import is_subset
from tests.support.mirror import Mirror
from tests.support.naive import evaluate as truth_of
from tests.support.programs.amounts import times

BASE = "t(x, y) -> int(x), int(y). bad(x, y) -> int(x), int(y). f[x] = v -> int(x), int(v). u(y) -> int(y)."
SUBSET = "s(x, y) <- t(x, y), !bad(x, y)."
PROGRAMS = [
    f"{SUBSET} r(x, y) <- t(x, y), !s(x, y).",
    f"{SUBSET} r(x, y, z) <- t(x, y), !s(x, y), t(y, z).",
    f"{SUBSET} r(z, y) <- u(z), t(z, x), t(x, y), !s(x, y).",
    f"{SUBSET} r(x) <- t(x, y), !s(x, y), u(y), x < y.",
    "s(x, y) <- t(x, y) ; bad(x, y). r(x, y) <- s(x, y), !t(x, y).",
    "s(x) <- f[x] = v, v > 1. r(x, v) <- f[x] = v, !s(x).",
    "r(x, y) <- t(x, y), !bad(x, y).",  # a subset now and then: only checksums tell
    "r(x) <- t(x, y), !bad(x, y), u(x).",
]
PAIRS = st.tuples(st.integers(0, 4), st.integers(0, 4))
EDITS = st.one_of(
    st.tuples(st.sampled_from(["t", "bad", "f"]), PAIRS, st.booleans()),
    st.tuples(st.just("u"), st.tuples(st.integers(0, 4)), st.booleans()),
)


def counted(workspace, *names):
    """Give relations and views the scans that complements want."""
    with workspace.store.transaction() as txn:
        for name in names:
            txn.add_scan(name, "count")
            txn.add_scan(name, "checksum")


@pytest.mark.parametrize("program", PROGRAMS)
@settings(max_examples=times(13), suppress_health_check=list(HealthCheck))
@given(
    case=st.lists(st.lists(EDITS, max_size=25), min_size=1, max_size=4),
    maintenance=st.sampled_from(["match", "probe"]),
)
def test_every_evaluation_by_complement_is_the_truth(program, case, maintenance):
    """Complements wherever they can be, every delta a huge one; asked as a question, too."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(tries, "pays", lambda whole, part, passed: part <= whole)
        patch.setattr(choice.Choice, "_propagating", lambda *_: inf)
        patch.setattr(costs, "LARGE_FROM", 0)
        mirror = Mirror(Path(folder) / "store.pages", f"{BASE} {program}", maintenance=maintenance)
        names = ["t", "bad", "f", *(["s"] if "s" in mirror.workspace else [])]
        counted(mirror.workspace, *names)
        for edits in case:
            mirror.change(edits)
        question = program.rsplit(". ", 1)[-1].replace("r(", "q(", 1)
        part = query(question, mirror.program)
        rows = truth_of(mirror.program.including(part), mirror.state)["q"]
        assert sorted(mirror.workspace.query(question)) == sorted(rows)
        mirror.reopen()
        assert all(
            mirror.workspace[name].scan("count") == len(mirror.workspace[name]) for name in names
        )
        assert mirror.workspace.store.check() == []
        mirror.close()


def made(path, n, missing, scans=True):
    """A workspace with t of n rows and its subset s, all of them but some."""
    rng = np.random.default_rng(n + missing)
    x = np.arange(n)
    gone = rng.choice(n, missing, replace=False)
    ws = ivm.open(path, sync="off")
    ws.install(BASE, name="base")
    with ws.transaction() as txn:
        txn.insert("t", [x // 10, x])
        txn.insert("bad", [gone // 10, gone])
        txn.insert("u", [x])
    ws.install(SUBSET, name="subset")
    if scans:
        counted(ws, "t", "s", "bad")
    return ws, sorted((int(g) // 10, int(g)) for g in gone)


@pytest.mark.parametrize("n", [10**4, 10**5])
@pytest.mark.parametrize("missing", [0, 1, 5])
def test_operations_of_a_sparse_complement(n, missing, tmp_path):
    """O((missing + 1) log n) operations to install the view, and to evaluate both sides of a
    huge delta.
    """
    ws, gone = made(tmp_path / "c.pages", n, missing)
    with ws:
        ws.install("r(x, y) <- t(x, y), !s(x, y), u(y).", name="r", maintenance="probe")
        assert list(ws["r"]) == gone
        assert ws.stats("r")["operations"] <= 4 * (missing + 1) * log2(n)
        with ws.transaction() as txn:
            txn.delete("u", [np.arange(n // 2)])
        assert list(ws["r"]) == [row for row in gone if row[1] >= n // 2]
        assert ws.stats("r")["operations"] <= 8 * (missing + 1) * log2(n)
        ws.verify("r")


def test_without_scans_every_row_is_looked_at(tmp_path):
    ws, gone = made(tmp_path / "c.pages", 10**4, 5, scans=False)
    with ws:
        ws.install("r(x, y) <- t(x, y), !s(x, y).", maintenance="probe")
        assert list(ws["r"]) == gone
        assert ws.stats("r")["operations"] >= 10**4


def test_what_is_no_subset_is_looked_up(tmp_path):
    """As many rows as a subset would have, all but one of them in t: the checksums do not agree."""
    n = 10**4
    ws, _ = made(tmp_path / "c.pages", n, 0)
    with ws:
        x = np.arange(n - 3)
        with ws.transaction() as txn:
            txn.insert("bad", [x // 10, x])
        ws.install("r(x, y) <- t(x, y), !bad(x, y).", name="r", maintenance="probe")
        assert ws.stats("r")["operations"] <= 16 * log2(n)
        ws.uninstall("r")
        with ws.transaction() as txn:
            txn.delete("bad", [(17, 170)])
            txn.insert("bad", [(17, -1)])
        ws.install("r(x, y) <- t(x, y), !bad(x, y).", name="r", maintenance="probe")
        assert list(ws["r"]) == [(17, 170), (999, 9997), (999, 9998), (999, 9999)]
        assert ws.stats("r")["operations"] >= n


def test_explain_says_how_missing_rows_are_found(tmp_path):
    ws, _ = made(tmp_path / "c.pages", 10**4, 5)
    with ws:
        ws.install(
            "r(x, y) <- t(x, y), !s(x, y). few(x, y) <- u(x), t(x, y), !s(x, y). odd(x) <- u(x), "
            "!f[x] = 1.",
            name="r",
        )
        ws.install("other(x, y) <- t(x, y), !bad(x, y).", name="other")
        found = "5 of 10,000 rows of t are missing in s: these are found by counting, and the rest is not looked at"
        assert f"  lacking   t(x, y), !s(x, y): {found}" in ws.explain("r")
        assert "9,995 of 10,000 rows of t are missing in bad: passing over all" in ws.explain(
            "other"
        )
        assert "lacking" not in ws.explain("odd")
        with ws.transaction() as txn:
            txn.delete("u", [np.arange(100, 10**4)])
        assert "passing over all of them costs less than counting" in ws.explain("few")
        with ws.store.transaction() as txn:
            txn.drop_scan("bad", "checksum")
            txn.drop_scan("s", "count")
        assert (
            'the rules do not say that bad is a subset of t, and no "checksum" scans do'
            in ws.explain("other")
        )
        assert 'looked up: t and s do not both carry a "count" scan' in ws.explain("r")


@pytest.mark.parametrize(
    "rules, part, whole, known",
    [
        ("s(x, y) <- t(x, y), u(x).", "s", "t", True),
        ("s(x, y) <- t(x, y), u(x) ; t(x, y), u(y).", "s", "t", True),
        ("s(x, y) <- t(x, y), u(x) ; bad(x, y).", "s", "t", False),
        ("s(x, y) <- t(y, x).", "s", "t", False),
        ("s(x, y) <- t(x, y). s2(x, y) <- s(x, y), !bad(x, y).", "s2", "t", True),
        ("s(x, y) <- t(x, y), bad(x, y).", "t", "s", False),
        ("s(x, y) <- t(x, y) ; bad(x, y).", "bad", "s", True),
        ("s(x, y) <- t(x, y), x < y ; bad(x, y).", "t", "s", False),
        ("s(x, x2) <- t(x, x2). w(x, y) <- t(x, y), t(y, x). v(x, y) <- w(x, y).", "v", "s", True),
        ("s(x, y) <- t(x, z), y = z + 1.", "s", "t", False),
        ("s(x, y), w(y) <- t(x, y), u(y).", "w", "u", True),
        ("s[x] = n <- agg<<n = count()>> f[x] = v.", "s", "f", True),
    ],
)
def test_what_the_rules_say_of_subsets(rules, part, whole, known):
    program = compile(f"{BASE} {rules}")
    assert is_subset(program.rules, part, whole, 1 if whole in "uf" else 2) == known
