"""Aggregates over ranges of every type: exact sums and what follows from them, texts, and
operators of users.
"""

import math
import random
from fractions import Fraction
from math import log2
from statistics import stdev

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import RangeError
from ivm.ways import ranges
from ivm.ways.states import least_of
from tests.ivm.views.test_aggregates import BASE, counted_folds, edits_of, follow, lastone
from tests.support.programs.amounts import times

__all__ = ["lastone"]  # a fixture, which registers operators
WEEK = "z <= y, z > y - 2"
BEHIND = "z > y"
PROGRAMS = [
    f"""t[x, y] = r, a[x, y] = q, v[x, y] = k <- agg<<r = total(v), q = avg(v), k = var_pop(v)>>
        n(x, y), w[x, z] = v, {WEEK}.""",
    f"t[y] = r, a[y] = q, v[y] = k <- agg<<r = total(v), q = avg(v), k = stddev(v)>> n(1, y), w[_, "
    f"z] = v, {BEHIND}.",
    f"""c[x, y] = r, a[x, y] = q, v[x, y] = k <- agg<<r = sum(v), q = avg(v), k = variance(v)>>
        n(x, y), m[x, z] = v, {WEEK}.""",
    """c[y] = r, a[y] = q, v[y] = k <- agg<<r = sum(v), q = avg(v), k = stddev_pop(v)>>
        b[2, y] = _, m[_, z] = v, z <= y.""",
    f"""c[x, y] = r, a[x, y] = q, v[x, y] = k <- agg<<r = sum(v), q = avg(v), k = stddev(v)>>
        n(x, y), p[x, z] = v, {BEHIND}.""",
    f"""lo[x, y] = r, hi[x, y] = q, f[x, y] = k, l[x, y] = u <-
        agg<<r = min(t), q = max(t), k = first(t, z), u = last(t, z)>> n(x, y), s[x, z] = t, {WEEK}.""",
    f"""lo[y] = r, hi[y] = q, f[y] = k, l[y] = u <-
        agg<<r = min(t), q = max(t), k = argmin(t, z), u = argmax(t, z)>> n(_, y), s[_, z] = t, {BEHIND}.""",
    "lo[x, y] = r, hi[] = q <- agg<<r = min(t), q = max(t)>> n(x, y), s[_, z] = t, z < y, y > 0.",
    f"o[x, y] = r, u[x, y] = k <- agg<<r = lastone(v), k = unite(v)>> n(x, y), m[x, z] = v, {WEEK}.",
    f"o[x, y] = r, u[y] = k <- agg<<r = lastone(v), k = unite(z)>> n(x, y), m[0, z] = v, {BEHIND}.",
    f"lo[x, y] = r, l[x, y] = k <- agg<<r = min(d), k = last(d, z)>> n(x, y), b[x, z] = d, {WEEK}.",
]
relaxed = settings(suppress_health_check=list(HealthCheck), deadline=None)


@pytest.mark.parametrize("program", PROGRAMS)
@settings(relaxed, max_examples=times(6))
@given(data=st.data())
def test_ranges_of_every_type_are_the_truth(program, data):
    follow(
        program,
        data.draw(st.lists(st.lists(edits_of(program), max_size=12), min_size=1, max_size=6)),
    )


@pytest.mark.campaign
@pytest.mark.parametrize("program", PROGRAMS)
@settings(relaxed, max_examples=600)
@given(data=st.data())
def test_campaign_of_ranges_of_every_type(program, data):
    """6,600 cases in all, every fourth of them in a file."""
    transactions = data.draw(
        st.lists(st.lists(edits_of(program), max_size=20), min_size=1, max_size=10)
    )
    follow(program, transactions, data.draw(st.integers(0, 3)) == 0)


@pytest.mark.parametrize("program", PROGRAMS)
def test_they_are_evaluated_by_ranges(program):
    with ivm.open(":memory:") as ws:
        ws.install(f"{BASE} {program}")
        with ws.store.snapshot() as snap:
            rules = ws.rules_of(snap).rules
        derived = [
            name
            for name in ws.predicates
            if "$" not in name and not ws.predicates[name].extensional
        ]
        ranged = [name for rule in rules if rule.span for name in rule.writes]
        assert len(ranged) == len(derived)


def test_what_no_range_says_is_a_join():
    """A median has no fold, a total of points that exist twice counts them twice, this order is
    not of the key.
    """
    with ivm.open(":memory:") as ws:
        ws.install(f"""{BASE}
            md[x, y] = r <- agg<<r = median(v)>> n(x, y), m[x, z] = v, {WEEK}.
            to[y] = r <- agg<<r = total(v)>> n(_, y), w[_, z] = v, {WEEK}.
            op[y] = r <- agg<<r = lastone(v)>> b[1, y] = _, m[z, q] = v, q <= y.""")
        for name in ("md", "to", "op"):
            assert "  range " not in ws.explain(name)


@pytest.mark.parametrize("wide", [False, True])
def test_sums_of_windows_are_those_of_slices(wide):
    """Where 64 bits hold all parts, and where they do not: integers, and floats of all
    magnitudes, by sorted lists.
    """
    drawn = random.Random(wide)
    with ivm.open(":memory:") as ws:
        ws.install("""i[t] = v -> int(t), int(v).  f[t] = v -> int(t), float(v).
            si[t] = r, ai[t] = q, di[t] = k <- agg<<r = sum(v), q = avg(v), k = stddev(v)>>
                i[t] = _, i[u] = v, u <= t, u > t - 50.
            tf[t] = r <- agg<<r = total(v)>> f[t] = _, f[u] = v, u <= t, u > t - 50.""")
        ints, floats = {}, {}
        for _ in range(8):
            keys = drawn.sample(range(300), 60)
            for t in keys:
                ints[t] = (
                    drawn.randrange(-(2**63), 2**63) // 100 if wide else drawn.randrange(-9, 1000)
                )
                floats[t] = drawn.uniform(-1, 1) * 10.0 ** (drawn.uniform(-320, 300) if wide else 0)
            with ws.transaction() as txn:
                txn.set("i", [(t, ints[t]) for t in keys])
                txn.set("f", [(t, floats[t]) for t in keys])
        windows = {t: [ints[u] for u in ints if t - 50 < u <= t] for t in ints}
        assert dict(ws["si"]) == {t: sum(found) for t, found in windows.items()}
        assert dict(ws["ai"]) == {
            t: float(Fraction(sum(found), len(found))) for t, found in windows.items()
        }
        assert dict(ws["di"]) == {
            t: stdev(map(Fraction, found)) for t, found in windows.items() if len(found) > 1
        }
        sums = {t: math.fsum(floats[u] for u in floats if t - 50 < u <= t) for t in floats}
        assert dict(ws["tf"]) == sums
        assert ws.check() == []


def test_a_key_may_have_a_sum_that_no_word_holds():
    """The parts of a key are kept, so only the sum over a range has to fit, and its type says
    what fits.
    """
    with ivm.open(":memory:") as ws:
        ws.install(f"""{BASE} a(x) -> int(x).
            v[x] = r <- agg<<r = sum(k)>> a(x), m[_, t] = k, t <= x.
            d[x] = r <- agg<<r = sum(k)>> a(x), e[_, t] = k, t <= x.
            e[x, y] = k -> int(x), int(y), decimal(18, 0)(k).""")
        ws.exec(
            f"+m[0, 1] = {2**63 - 1}. +m[1, 1] = {2**63 - 1}. +m[2, 2] = {-(2**63) + 1}. +a(2)."
        )
        assert list(ws["v"]) == [(2, 2**63 - 1)]
        with pytest.raises(
            RangeError, match=r"v\[1\]: the sum is 18446744073709551614, beyond int64"
        ):
            ws.exec("+a(1).")
        ws.exec(f"+e[0, 1] = {10**18 - 1}. +e[1, 3] = 1.")
        with pytest.raises(
            RangeError, match=r"d\[3\]: the sum is 1000000000000000000, beyond decimal"
        ):
            ws.exec("+a(3). ^m[0, 1] = 0.")


def test_infinite_summands_of_a_range():
    with ivm.open(":memory:") as ws:
        ws.install(
            "f[t] = v -> int(t), float(v). v[t] = r <- agg<<r = total(v)>> f[t] = _, f[u] = v, u "
            "<= t."
        )
        with ws.transaction() as txn:
            txn.set("f", [(1, 1.0), (2, math.inf), (3, -5.0)])
        assert list(ws["v"]) == [(1, 1.0), (2, math.inf), (3, math.inf)]
        with (
            pytest.raises(RangeError, match=r"^v: a total of inf and -inf is not a number"),
            ws.transaction() as txn,
        ):
            txn.set("f", [(4, -math.inf)])
        assert len(ws["v"]) == 3


# -- what it costs


@pytest.mark.parametrize(
    "rule, places",
    [
        ("v[x] = r <- agg<<r = sum(v)>> i[x] = _, i[z] = v, z <= x, z > x - 7.", 1),
        ("v[x] = r <- agg<<r = variance(v)>> i[x] = _, i[z] = v, z <= x, z > x - 7.", 3),
        ("v[x] = r <- agg<<r = total(v)>> f[x] = _, f[z] = v, z <= x, z > x - 7.", 3),
    ],
)
def test_an_edit_folds_each_place_of_the_rows_that_it_moves(rule, places, monkeypatch):
    for size in (500, 32_000):
        with ivm.open(":memory:") as ws:
            ws.install(f"i[t] = v -> int(t), int(v).  f[t] = v -> int(t), float(v). {rule}")
            with ws.transaction() as txn:
                txn.set("i", [np.arange(size), np.arange(size) % 1000])
                txn.set("f", [np.arange(size), np.arange(size) / 7])
            with monkeypatch.context() as patch:
                applied = counted_folds(patch, ranges)
                for x in (0, size // 2, size - 1):
                    applied.clear()
                    ws.exec(f"^i[{x}] = 5000. ^f[{x}] = 0.7.")
                    assert ws.stats("v")["operations"] <= 7
                    assert 0 < sum(applied) <= 8 * 7 * places * log2(size)
            ws.verify("v")


def test_an_edit_reads_the_texts_of_the_ranges_that_it_moves(monkeypatch):
    read, select = [], ranges.select

    def counted(pages, tree, ranks):
        read.append(len(ranks))
        return select(pages, tree, ranks)

    monkeypatch.setattr(ranges, "select", counted)
    with ivm.open(":memory:") as ws:
        ws.install(
            "s[t] = v -> int(t), string(v). v[x] = r <- agg<<r = min(v)>> s[x] = _, s[z] = v, z <= "
            "x, z > x - 7."
        )
        texts = {t: f"{t * 7919 % 3001}" for t in range(3000)}
        with ws.transaction() as txn:
            txn.set("s", [*texts.items()])
        for t in (0, 1500, 2999):
            read.clear()
            texts[t] = ""
            ws.exec(f'^s[{t}] = "".')
            assert 0 < sum(read) <= 13
        assert dict(ws["v"]) == {
            t: min(texts[u] for u in range(max(0, t - 6), t + 1)) for t in texts
        }


def test_the_least_of_ranges():
    drawn = np.random.default_rng(4)
    words = drawn.integers(0, 50, 400)
    start = drawn.integers(0, 400, 1000)
    stop = drawn.integers(start + 1, 401)
    least = least_of(words, start, stop)
    assert ((start <= least) & (least < stop)).all()
    assert words[least].tolist() == [
        min(words[a:b]) for a, b in zip(start.tolist(), stop.tolist(), strict=True)
    ]
