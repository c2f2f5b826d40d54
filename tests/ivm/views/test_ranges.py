"""Aggregates over ranges, and next and previous keys: what is maintained by ranges is what the
slow truth says.
"""

import random
import tempfile
from bisect import bisect_left, bisect_right
from contextlib import nullcontext
from datetime import date
from decimal import Decimal
from itertools import pairwise
from math import log2
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import (
    ArityError,
    DivergenceError,
    RangeError,
    RecursionRefusedError,
    RuleTypeError,
    SafetyError,
)
from ivm.rules.stored import saved_rules
from ivm.ways import ranges
from tests.ivm.test_random_programs import NUMBERS
from tests.ivm.views.test_aggregates import counted_folds
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.programs.generations import planning_of, planning_without
from tests.support.programs.range_programs import range_cases
from tests.support.strategies import DECLARATIONS, renumbered

relaxed = settings(max_examples=times(15), suppress_health_check=list(HealthCheck), deadline=None)
BASE = """a(x) -> int(x).  g(x, t) -> int(x), int(t).  m[x, t] = v -> int(x), int(t), int(v).
    o[x] = v -> int(x), int?(v).  w[t] = v -> float(t), float(v).  d[t] = v -> date(t), decimal(8, 2)(v)."""


def follow(case: tuple[str, list], loaded: bool, lasting: bool = True, **options: object) -> None:
    """Install before or after the first load, then edit, comparing each time.

    A store that lasts is opened again, and all that is kept passes its check.
    """
    text, (load, *transactions) = case
    with tempfile.TemporaryDirectory() if lasting else nullcontext() as folder:
        mirror = Mirror(Path(folder) / "store.pages" if folder else ":memory:", DECLARATIONS)
        if loaded:
            mirror.change(load)
        mirror.install("views", text.removeprefix(DECLARATIONS), **options)
        for edits in transactions if loaded else [load, *transactions]:
            mirror.change(edits)
        if lasting:
            mirror.reopen()
            if mirror.workspace.blocks.get("views"):  # else the truth refuses what it derives
                assert mirror.workspace.check() == []
                mirror.workspace.uninstall("views")
            mirror.workspace.uninstall("main", relations=True)
            assert list(mirror.workspace.store.snapshot()._version.catalog.relations) == []
        mirror.close()


# the records of ranges are read once for many points, here for any; and sought for each
HOW = st.sampled_from([{"SEEKS_MIN": 1, "HELD": 1 << 20}, {"SEEKS_MIN": 1 << 20}])


@relaxed
@given(range_cases(), st.booleans(), HOW)
def test_random_programs_over_ranges(case, loaded, how):
    with patch.multiple(ranges, **how):
        follow(case, loaded)


@settings(relaxed, max_examples=times(10))
@given(range_cases(sums=False), st.sampled_from(NUMBERS), HOW)
def test_ranges_at_the_ends_of_words(case, numbers, how):
    with patch.multiple(ranges, **how):
        follow(renumbered(case, numbers), False)


RUNNING = ("count()", "sum(v)", "avg(v)", "min(v)", "max(v)", "stddev(v)", "last(v, u)")


@pytest.mark.parametrize("fold", RUNNING)
def test_many_points_read_the_records_of_their_ranges_once(fold, tmp_path, monkeypatch):
    """When a view is filled, and when a row in front moves all that follow it in its group."""
    for name in ("fold_many", "first_from", "last_before"):
        monkeypatch.setattr(ranges, name, None)
    with ivm.open(tmp_path / "s.pages", threads=1, sync="off") as workspace:
        workspace.install(BASE, "main")
        rows = [(p, t, (p + t) * 7 % 31) for p in range(4) for t in range(600)]
        with workspace.transaction() as txn:
            txn.insert("m", rows)
        workspace.install(
            f"v[p, t] = r <- agg<<r = {fold}>> m[p, t] = _, m[p, u] = v, u <= t.", "v"
        )
        workspace.verify("v")
        workspace.exec("^m[1, 2] = 99.")
        workspace.verify("v")


def test_sums_beyond_a_word_are_added_up_in_the_tree(tmp_path):
    with ivm.open(tmp_path / "s.pages", threads=1) as workspace:
        workspace.install(BASE, "main")
        with workspace.transaction() as txn:
            txn.insert("m", [(0, t, 2**62 if t % 2 else -(2**62)) for t in range(600)])
        workspace.install("v[t] = r <- agg<<r = sum(v)>> m[_, t] = _, m[_, u] = v, u <= t.", "v")
        assert {row[-1] for row in workspace["v"]} == {0, -(2**62)}


@settings(relaxed, max_examples=times(5))
@given(range_cases(), st.sampled_from(["match", "probe"]))
def test_other_maintenance_joins_rows(case, maintenance):
    follow(case, True, maintenance=maintenance)


@pytest.mark.campaign
@settings(relaxed, max_examples=10_000)
@given(range_cases(count_max=10, size_max=20), st.booleans(), st.integers(0, 3))
def test_campaign_of_ranges(case, loaded, kept):
    follow(case, loaded, kept == 0)


@pytest.mark.campaign
@settings(relaxed, max_examples=3_000)
@given(range_cases(count_max=10, sums=False), st.sampled_from(NUMBERS), st.integers(0, 3))
def test_campaign_of_ranges_at_the_ends_of_words(case, numbers, kept):
    follow(renumbered(case, numbers), False, kept == 0)


def rules_of(ws: ivm.Workspace) -> list:
    with ws.store.snapshot() as snap:
        return [rule for rule in ws.rules_of(snap).rules if rule.span]


SOME = [None, 1, 2, 3]
OTHER = [
    ("v[x] = y <- agg<<y = min(z)>> w[x] = _, w[z] = _, z > x.", "w", lambda r: (r.randrange(9) / 4,
    1.5)),
    ("v[x] = s <- agg<<s = sum(k)>> d[x] = _, d[t] = k, t <= x, t > x - 7.", "d",
     lambda r: (date(2013, 1, r.randrange(1, 29)), Decimal(r.randrange(999)) / 100)),
    ("v[x] = s <- agg<<s = avg(k)>> d[x] = _, d[t] = k, t <= x, t > x - 7.", "d",
     lambda r: (date(2013, 1, r.randrange(1, 29)), Decimal(r.randrange(999)) / 100)),
    ("v[x] = n <- agg<<n = avg(l)>> o[x] = k, o[y] = l, y < x.", "o",
     lambda r: (r.randrange(9), r.choice([None, 1, 2, 2**63 - 1, 2**63 - 2, 1 - 2**63]))),
    ("v[x] = n <- agg<<n = count()>> o[x] = k, o[_] = l, l <= k.", "o", lambda r: (r.randrange(9),
    r.choice(SOME))),
    ("v[x] = n <- agg<<n = max(l)>> o[x] = k, o[y] = l, y < x.", "o", lambda r: (r.randrange(9),
    r.choice(SOME))),
]  # fmt: skip


@pytest.mark.parametrize("rule, name, row", OTHER)
def test_floats_dates_decimals_and_nulls(rule, name, row, tmp_path):
    """Stores that are edited and stores that are filled at once agree, and so does the join of
    rows.
    """
    drawn = random.Random(4)
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install(BASE, "base")
        ws.install(rule, "ranges")
        ws.install(rule.replace("v[", "j["), "join", maintenance="probe")
        assert len(rules_of(ws)) == 1
        for _ in range(40):
            with ws.transaction() as txn:
                txn.set(name, [row(drawn)])
                txn.delete(name, [row(drawn)[:1]])
            assert list(ws["v"]) == list(ws["j"])
        assert len(ws["v"]) > 0
        assert list(ws.evaluate("v")) == list(ws["v"])
        assert ws.check() == []


# -- next and previous


def test_neighbours_are_those_of_a_sorted_list(tmp_path):
    """Independent of what rules the literals stand for: `bisect` says what the next and the
    previous are.
    """
    drawn = random.Random(2)
    with ivm.open(tmp_path / "n.pages", sync="off") as ws:
        ws.install(f"""{BASE}
            nx(x, y) <- a(x), a:next[x] = y.            pv(x, y) <- a(x), a:previous[x] = y.
            ends(x) <- a(x), !a:next[x] = _.            behind(u, t, y) <- g(u, t), a:next[t] = y.
            nt(u, t, y) <- g(u, t), g:next[u, t] = y.   two(x, z) <- a(x), a:next[a:next[x]] = z.
            gap(x, y) <- a(x), a:next[x] = y, y - x > 3.""")
        xs, pairs = set(), set()
        for _ in range(60):
            with ws.transaction() as txn:
                for x in drawn.sample(range(30), 3):
                    (txn.delete if x in xs else txn.insert)("a", [(x,)])
                    xs ^= {x}
                pair = drawn.randrange(3), drawn.randrange(30)
                (txn.delete if pair in pairs else txn.insert)("g", [pair])
                pairs ^= {pair}
            ordered = sorted(xs)
            follows = {*pairwise(ordered)}
            assert {*ws["nx"]} == follows
            assert {*ws["pv"]} == {(y, x) for x, y in follows}
            assert {*ws["ends"]} == {(x,) for x in ordered[-1:]}
            assert {*ws["two"]} == {*zip(ordered, ordered[2:], strict=False)}
            assert {*ws["gap"]} == {(x, y) for x, y in follows if y - x > 3}
            assert {*ws["behind"]} == {
                (u, t, ordered[at])
                for u, t in pairs
                if (at := bisect_right(ordered, t)) < len(ordered)
            }
            assert {*ws["nt"]} == {
                (u, t, y) for (u, t), (v, y) in pairwise(sorted(pairs)) if u == v
            }


def test_sessions_by_gaps(tmp_path):
    """Visits of a user that are at most 30 apart belong to one session, which has the time of
    its first visit.
    """
    drawn = random.Random(8)
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install("""visit(u, t) -> int(u), int(t).
            begins(u, t) <- visit(u, t), !(visit:previous[u, t] = p, t - p <= 30).
            session[u, t] = s <- agg<<s = max(b)>> visit(u, t), begins(u, b), b <= t.
            length[u, s] = n <- agg<<n = count()>> session[u, _] = s.""")
        visits: set[tuple[int, int]] = set()
        for _ in range(50):
            changed = {(drawn.randrange(2), drawn.randrange(400)) for _ in range(2)}
            with ws.transaction() as txn:
                txn.delete("visit", [*changed & visits])
                txn.insert("visit", [*changed - visits])
            visits ^= changed
            sessions, before = {}, None
            for u, t in sorted(visits):
                joins = before is not None and before[0] == u and t - before[1] <= 30
                sessions[u, t] = sessions[before] if joins else t
                before = u, t
            assert {(u, t): s for u, t, s in ws["session"]} == sessions
        assert sum(n for *_, n in ws["length"]) == len(visits)
        assert ws.check() == []


@pytest.mark.parametrize(
    "rule, error, text",
    [
        (
            "p(x) <- a:next[x] = _.",
            SafetyError,
            "rules:1:16: x is not bound: a:next seeks from values that",
        ),
        (
            "p(x) <- a(x), a:next[x, x] = _.",
            ArityError,
            "rules:1:15: a:next takes 1 argument, which are the leading keys",
        ),
        (
            "p(x) <- g(x, _), g:next(x, _).",
            ArityError,
            "rules:1:18: g:next is a function: write g:next[x] = y",
        ),
        (
            "p(x) <- s(x), s:next[x] = _.",
            RuleTypeError,
            "rules:1:15: neighbours are found among numbers, dates and",
        ),
        (
            "p(x) <- a(x). p(y) <- p(x), a:next[x] = y.",
            RecursionRefusedError,
            "rules:1:29: p cannot seek from its own",
        ),
    ],
)
def test_what_neighbours_are_refused(rule, error, text, tmp_path):
    with ivm.open(":memory:") as ws:
        ws.install(f"{BASE} s(x) -> string(x).", "base")
        with pytest.raises(error) as caught:
            ws.install(rule, "rules")
        assert str(caught.value).startswith(text)


def test_columns_and_predicates_of_that_name_are_themselves(tmp_path):
    with ivm.open(":memory:") as ws:
        ws.install("""node[x] = (next, w) -> int(x), int(next), int(w).  p(x, y) <- node:next[x] = y.
            a(x) -> int(x).  a:next[x] = y <- a(x), y = x * 10.  q(x, y) <- a:next[x] = y.""")
        ws.exec("+node[1] = (5, 6). +a(1). +a(2).")
        assert list(ws["p"]) == [(1, 5)]
        assert list(ws["q"]) == [(1, 10), (2, 20)]


def test_a_relation_of_the_store_needs_no_declaration(tmp_path):
    with ivm.open(":memory:") as ws:
        with ws.store.transaction() as txn:
            txn.create("ev", "u: int64, t: int64, v: string", key=("u", "t")).insert(
                [(1, 4, "x"), (1, 9, "y")]
            )
        assert list(ws.query("q(t, n) <- ev[u, t] = _, ev:next[u, t] = n.")) == [(4, 9)]


def test_nulls_beside_a_key_do_not_hide_it(tmp_path):
    with ivm.open(":memory:") as ws:
        ws.install("""o[x] = v -> int(x), int?(v).   q[x] = (v, w) -> int(x), int?(v), int(w).
            a(x, y) <- o[x] = _, o:next[x] = y.   b(x, y) <- q[x] = (_, _), q:next[x] = y.""")
        with ws.transaction() as txn:
            txn.set("o", [(1, 5), (2, None), (3, 6)])
            txn.set("q", [(1, 5, 0), (2, None, 0), (3, 6, 0)])
        assert list(ws["a"]) == [(1, 3)]  # a function's row whose value is null is not there
        assert list(ws["b"]) == [(1, 2), (2, 3)]
        with ws.transaction() as txn:
            txn.set("o", [(2, 7)])
        assert list(ws["a"]) == [(1, 2), (2, 3)]


# -- what it costs


def test_a_join_of_rows_with_rows_keeps_no_pairs(tmp_path):
    """`min` over 8,000 rows joined with themselves: 32 million pairs, of which nothing is kept
    but a row each.
    """
    n = 8000
    keys = np.unique(np.random.default_rng(1).integers(0, 10**9, n))
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install(f"""{BASE} nx[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.
            n[] = c <- agg<<c = count()>> a(x), a(z), z > x.""")
        with ws.transaction() as txn:
            txn.insert("a", [keys])
        assert ws["nx"].to_arrow()["y"].to_pylist() == keys[1:].tolist()
        assert list(ws["n"]) == [(len(keys) * (len(keys) - 1) // 2,)]
        with ws.store.snapshot() as snap:
            trees = snap._version.catalog.relations
            assert sum(snap.tree(name).count for name in trees) <= 5 * len(keys)
        assert "the first record of its range, by a seek" in ws.explain("nx")
        assert "through" not in ws.explain("nx")  # a tree of its own is not kept either


@pytest.mark.parametrize(
    "rule, most",
    [
        ("v[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.", 2),
        ("v[x] = y <- agg<<y = max(z)>> a(x), a(z), z < x.", 2),
        ("v[x] = n <- agg<<n = count()>> a(x), a(z), z <= x, z > x - 7.", 8),
        ("v[x] = n <- agg<<n = max(k)>> a(x), g(z, k), z <= x, z > x - 7.", 8),
        ("v[x] = n <- agg<<n = count()>> a(x), a(z), z > x + 100000000.", 1),
    ],
)
def test_an_edit_looks_at_the_rows_that_it_moves(rule, most, tmp_path, monkeypatch):
    """Each row that may move is looked at once, and takes O(log n) applications of the operator."""
    for size in (500, 32_000):
        with ivm.open(tmp_path / f"{size}.pages", sync="off") as ws:
            ws.install(f"{BASE} {rule}")
            with ws.transaction() as txn:
                txn.insert("a", [np.arange(size)])
                txn.insert("g", [np.arange(size), np.arange(size)])
            with monkeypatch.context() as patch:
                applied = counted_folds(patch, ranges)
                for x in (0, size // 2, size - 1):
                    for sign in "-+":
                        applied.clear()
                        ws.exec(f"{sign}a({x}). {sign}g({x}, {x}).")
                        assert ws.stats("v")["operations"] <= most
                        assert sum(applied) <= 8 * most * log2(size)
            ws.verify("v")


def test_a_running_total_moves_the_rows_behind_an_edit():
    """However many are before it: its rows are what changes, and each is looked at once."""
    with ivm.open(":memory:") as ws:
        ws.install(f"{BASE} v[x] = s <- agg<<s = sum(k)>> a(x), g(z, k), z <= x.")
        with ws.transaction() as txn:
            txn.insert("a", [np.arange(5000)])
            txn.insert("g", [np.arange(5000), np.arange(5000) % 7])
        for behind in (0, 1, 9, 200, 4999):
            ws.exec(f"+g({4999 - behind}, 100).")
            assert ws.stats("v")["operations"] == behind + 1
            ws.exec(f"-g({4999 - behind}, 100).")
            assert ws.stats("v")["operations"] == behind + 1
        ws.verify("v")


def test_many_changes_at_once(tmp_path):
    """A change of more intervals than are read one by one looks at all points, as does one of
    all rows.
    """
    with ivm.open(tmp_path / "m.pages", sync="off") as ws:
        ws.install(f"""{BASE} v[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.
            c[x] = n <- agg<<n = count()>> a(x), a(z), z < x.""")
        with ws.transaction() as txn:
            txn.insert("a", [np.arange(0, 30_000, 3)])
        for name, keys in (
            ("insert", np.arange(1, 30_000, 30)),
            ("delete", np.arange(0, 30_000, 6)),
        ):
            with ws.transaction() as txn:
                getattr(txn, name)("a", [keys])
            keys = ws["a"].to_arrow()["x"].to_pylist()
            assert [tuple(row) for row in ws["v"]] == [*pairwise(keys)]
            assert [n for _, n in ws["c"]] == [*range(1, len(keys))]
        with ws.transaction() as txn:
            txn.delete("a", [(x,) for (x,) in ws["a"]])
        assert len(ws["v"]) == len(ws["c"]) == 0


def test_a_question_of_few_points_joins_them(tmp_path):
    """Helpers of all that is measured would cost more than the few ranges that are asked for."""
    with ivm.open(":memory:") as ws:
        ws.install(BASE)
        with ws.transaction() as txn:
            txn.insert("a", [(5,), (900,)])
            txn.insert("g", [np.arange(1000) % 7, np.arange(1000)])
        few = "q[x] = n <- agg<<n = count()>> a(x), g(_, t), t <= x, t > x - 7."
        many = "q[t] = n <- agg<<n = count()>> g(_, t), g(_, u), u <= t, u > t - 7."
        assert "range " not in ws.explain(few)
        assert "by a scan" in ws.explain(many)
        assert "by a scan" not in ws.explain(many.replace(", u <= t", ", u <= t, t = 40"))
        assert list(ws.query(few)) == [(5, 6), (900, 7)]
        assert sum(n for _, n in ws.query(many)) == 7 * 1000 - 21
        assert list(ws.query(many.replace(", u <= t", ", u <= t, t = 40"))) == [(40, 7)]
        assert "by a seek" in ws.explain("q(x, y) <- a(x), g:next[1, x] = y.")


# -- sums, and what is stored


@pytest.mark.parametrize("fold", ["count()", "sum(k)", "avg(k)", "min(k)", "max(z)", "last(k, z)"])
def test_points_that_are_there_several_times_count_so(fold, tmp_path):
    """Here g(0, 5) and g(1, 5) are one point twice: two assignments for each measured row."""
    mirror = Mirror(
        tmp_path / "s.pages", f"{BASE} v[t] = r <- agg<<r = {fold}>> g(_, t), m[_, z] = k, z <= t."
    )
    mirror.insert("m", (0, 3, 4), (1, 3, 5), (0, 9, 6))
    mirror.insert("g", (0, 5), (1, 5), (0, 2), (0, 9))
    mirror.delete("g", (0, 5))
    mirror.insert("m", (7, 4, -1))
    mirror.delete("g", (1, 5))
    mirror.close()


def test_a_sum_beyond_its_type_is_refused(tmp_path):
    with ivm.open(":memory:") as ws:
        ws.install(f"{BASE} v[x] = s <- agg<<s = sum(k)>> a(x), m[_, t] = k, t <= x.")
        ws.exec(f"+m[0, 1] = {2**62}. +m[0, 2] = {2**62 - 1}. +m[0, 3] = {-(2**62)}. +a(2).")
        assert list(ws["v"]) == [(2, 2**63 - 1)]
        with pytest.raises(
            RangeError, match=r"v\[2\]: the sum is 9223372036854775808, beyond int64"
        ):
            ws.exec("^m[0, 1] = 4611686018427387905.")
        ws.exec("-a(2). +a(3). ^m[0, 1] = 4611686018427387905.")  # what is between may be beyond it
        assert list(ws["v"]) == [(3, 2**62)]


def test_a_lost_scan_is_named_and_repaired(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install(f"{BASE} v[x] = s <- agg<<s = count()>> a(x), a(t), t < x.")
        ws.exec("+a(1). +a(2). +a(5).")
        ws.repair()
        assert ws.check() == []
        with ws.store.transaction() as txn:
            txn.drop_scan("v$folds0", "sum:folded$")
        with pytest.raises(
            DivergenceError, match=r"v\$folds0 has lost its scan sum:folded\$.*repair"
        ):
            ws.exec("+a(3).")
        ws.repair()
        ws.exec("+a(3).")
        assert list(ws["v"]) == [(2, 1), (3, 2), (5, 3)]


def test_rules_of_a_release_without_ranges_stay_joins(tmp_path):
    """What such a release stored for a rule is another tree, so the rule goes on as it was."""
    rule = f"{BASE} v[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x."
    with ivm.open(tmp_path / "old.pages", sync="off") as ws:
        ws.install(rule, maintenance="match")  # saved as such a release did
        ws.exec("+a(1). +a(4).")
        with ws.store.snapshot() as snap:
            assert planning_of(saved_rules(snap)) == planning_without("ranges")
    with ivm.open(tmp_path / "old.pages", sync="off") as ws:
        assert not rules_of(ws)
        ws.exec("+a(2).")
        assert list(ws["v"]) == [(1, 2), (2, 4)]
        ws.install("u[x] = y <- agg<<y = max(z)>> a(x), a(z), z < x.", "new")
        with ws.store.snapshot() as snap:
            saved = saved_rules(snap)
        assert planning_of(saved) == planning_without("levels")
    with ivm.open(tmp_path / "old.pages", sync="off") as ws:
        assert [rule.writes for rule in rules_of(ws)] == [("u",)]
        ws.exec("+a(3).")
        assert list(ws["v"]) == [(1, 2), (2, 3), (3, 4)]
        assert list(ws["u"]) == [(2, 1), (3, 2), (4, 3)]
        assert ws.check() == []


def test_ends_of_windows_by_bisection(tmp_path):
    """A running total and a window of seven days beside slices of a sorted list."""
    drawn = random.Random(6)
    with ivm.open(":memory:") as ws:
        ws.install(f"""{BASE}
            day(t) <- g(_, t).   running[t] = s <- agg<<s = sum(x)>> day(t), g(x, u), u <= t.
            week[t] = n <- agg<<n = count()>> day(t), g(_, u), u <= t, u > t - 7.""")
        rows = {(drawn.randrange(9), drawn.randrange(60)) for _ in range(80)}
        with ws.transaction() as txn:
            txn.insert("g", [*rows])
        days = sorted(t for _, t in rows)
        found = {t: bisect_right(days, t) - bisect_left(days, t - 6) for t in days}
        assert dict(ws["week"]) == found
        assert dict(ws["running"]) == {t: sum(x for x, u in rows if u <= t) for t in days}


@pytest.mark.parametrize(
    "op", ["last(z0, z)", "first(zb, z)", "last(zb, z)", "count()", "sum(zb)", "min(zb)", "max(z0)"]
)
@pytest.mark.parametrize(
    "points",
    ["[p0, p] = r: w[p0] = (p, _)", "[p0, q] = r: w[p0] = (p, q)", "[p0] = r: w[p0] = (_, p)"],
)
def test_ranges_over_a_function_of_several_values(points, op):
    """An index of such a function holds only the columns that it names; joins say what the rows
    are.
    """
    head, _, atom = points.partition(": ")
    rule = f"v{head} <- agg<<r = {op}>> {atom}, w[z0] = (z, zb), z <= p."
    draw = random.Random(f"{points} {op}")
    with ivm.open(":memory:") as ranged, ivm.open(":memory:") as joined:
        for ws, maintenance in ((ranged, "auto"), (joined, "probe")):
            ws.install(f"w[k] = (a, b) -> int(k), int(a), int(b). {rule}", maintenance=maintenance)
        assert "range" in ranged.explain("v")
        for _ in range(12):
            rows = [(draw.randrange(4), draw.randrange(4), draw.randrange(4)) for _ in range(3)]
            for ws in (ranged, joined):
                with ws.transaction() as txn:
                    txn.delete("w", [rows[0][:1]])
                    txn.set("w", rows[1:])
            assert sorted(ranged["v"]) == sorted(joined["v"])
        assert ranged.check() == []
