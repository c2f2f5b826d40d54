"""Comparisons that the join seeks by: right at the ends of 64 bits, and never a product of what
they tie together.
"""

import itertools
import operator
import random

import numpy as np
import pytest

import ivm
from ivm.lang.ir import Binary, Compare, Const, Var
from ivm.plan.linear import linear, pinned
from pagestore.host import WORD_MAX, WORD_MIN

ENDS = [WORD_MIN, WORD_MIN + 1, -1, 0, 1, 2, 5, WORD_MAX - 1, WORD_MAX]
OPS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
TYPES = dict.fromkeys("xyzw", "int64")


def form(left, op, right, types=TYPES):
    return linear(Compare(op, left, right), types, lambda const: const.value)


def test_a_comparison_is_a_sum_of_few_variables():
    x, y, z, w = map(Var, "xyzw")
    five = Const(5, "int64")
    assert form(x, "=", Binary("+", y, Binary("-", five, z))) == (
        {"x": 1, "y": -1, "z": 1},
        "=",
        -5,
    )
    assert form(Binary("-", x, y), "<", Binary("-", x, five)) == ({"y": -1}, "<", 5)
    assert form(x, "<", x) is None  # nothing to seek
    assert form(Binary("*", x, five), "<", y) is None
    assert form(Binary("+", x, y), "<", z).seekable
    assert not form(Binary("+", x, x), "<", y).seekable
    assert not form(Binary("+", x, y), "<", Binary("+", z, w)).seekable
    assert not form(x, "<", Const(2**62, "int64")).seekable
    floats = dict.fromkeys("xyz", "float64")
    assert form(x, "<", y, floats) == ({"x": 1, "y": -1}, "<", 0)
    assert form(x, "<", Binary("+", y, z), floats) is None


def test_what_is_one_value_or_between_two_is_pinned():
    x, y, z = map(Var, "xyz")
    two = Const(2, "int64")
    within = [form(x, ">=", y), form(Binary("+", y, two), ">", x)]
    assert pinned(within) == [{"x", "y"}]
    assert pinned(within[:1]) == pinned([form(x, "!=", y)]) == []
    assert pinned([form(x, "=", Binary("+", y, z))]) == [{"x", "y", "z"}]


@pytest.mark.parametrize("maintenance", ["match", "probe"])
@pytest.mark.parametrize("seed", range(6))
def test_sums_are_compared_right_at_the_ends_of_64_bits(seed, maintenance, tmp_path):
    rng = random.Random(seed)
    literals = []
    for _ in range(rng.choice([1, 1, 2])):
        constant, signs = rng.choice([0, 1, 3, 2**61]), [rng.choice("+-") for _ in range(2)]
        op = rng.choice(["=", "=", *OPS])
        literals.append((op, signs, constant))
    shown = [f"x {op} 0 {s[0]} y {s[1]} z + {constant}" for op, s, constant in literals]

    def holds(x, y, z):
        values = (
            ([-y, y][s[0] == "+"] + [-z, z][s[1] == "+"] + constant, op)
            for op, s, constant in literals
        )
        return all(OPS[op](x, value) for value, op in values)

    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install("a(x) -> int(x). b(x) -> int(x). f[x] = y -> int(x), int(y).")
        ws.install(
            f"q(x, y, z) <- a(x), b(y), f[_] = z, {', '.join(shown)}.",
            name="q",
            maintenance=maintenance,
        )
        state = {name: set(rng.sample(ENDS, 6)) for name in "abf"}
        with ws.transaction() as txn:
            for name, values in state.items():
                txn.insert(name, [(v, v) if name == "f" else (v,) for v in values])
        for _ in range(12):
            expected = sorted(t for t in itertools.product(*state.values()) if holds(*t))
            assert sorted(ws["q"]) == expected
            assert (
                sorted(ws.query(f"p(x, y, z) <- a(x), b(y), f[_] = z, {', '.join(shown)}."))
                == expected
            )
            name, value = rng.choice("abf"), rng.choice(ENDS)
            with ws.transaction() as txn:
                if value in state[name]:
                    txn.delete(name, [(value,)])
                else:
                    txn.insert(name, [(value, value) if name == "f" else (value,)])
            state[name] ^= {value}


BODIES = [
    "a(x), b(y), y = x + 1",
    "f[x] = v, b(y), y = v + 1",
    "f[x] = v, g[y] = w, w = v",
    "f[x] = v, g[y] = w, v - w = 7",
    "f[x] = v, g[y] = w, v >= w - 2, v < w + 3",
    "f[x] = v, b(y), y = v + x",
    "a(x), f[x] = v, b(y), y = v - x + 3",
    "f[x] = v, g[y] = w, w = v, v != 3",
]


@pytest.mark.parametrize("maintenance", ["match", "probe"])
@pytest.mark.parametrize("body", BODIES)
def test_what_a_comparison_ties_together_is_no_product(body, maintenance, tmp_path):
    """Ten times the rows take ten times the operations, and a row the same few."""
    whole, one = [], []
    for n in (200, 2000):
        with ivm.open(tmp_path / f"{n}.pages", sync="off") as ws:
            ws.install(
                "a(x) -> int(x). b(x) -> int(x). f[x] = y -> int(x), int(y). g[x] = y -> int(x), "
                "int(y)."
            )
            keys = np.arange(n)
            with ws.transaction() as txn:
                txn.insert("a", [keys])
                txn.insert("b", [2 * keys])
                txn.insert("f", [keys, 3 * keys])
                txn.insert("g", [keys, 3 * keys + 1])
            ws.install(f"q(x, y) <- {body}.", name="q", maintenance=maintenance)
            whole.append(ws.stats("q")["operations"])
            ws.exec("-f[7]. -b(14). -a(5). -g[9].")
            one.append(ws.stats("q")["operations"])
            ws.verify("q")
    assert whole[1] <= 11 * whole[0]
    assert one[1] <= 2 * one[0] + 20


def test_two_that_nothing_ties_are_sought_by_what_both_come_to(tmp_path):
    """All pairs are asked for, but no third one is passed over for each."""
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install("a(x) -> int(x). b(x) -> int(x). c(x) -> int(x).")
        with ws.transaction() as txn:
            for name in "abc":
                txn.insert(name, [np.arange(50) * 10])
        ws.install("q(x, y, z) <- a(x), b(y), c(z), x + z = 120 - y.", name="q")
        assert len(ws["q"]) == 13 * 14 // 2
        assert ws.stats("q")["operations"] < 3 * 50 * 50
        ws.exec("-a(10).")
        assert ws.stats("q")["erased"] == 12
        assert ws.stats("q")["operations"] < 3 * 50
        ws.verify("q")


@pytest.mark.parametrize("type_", ["int", "string", "date", "decimal(30,2)", "float"])
def test_a_bound_of_null_is_explained(tmp_path, type_):
    with ivm.open(tmp_path / "n.pages", sync="off") as ws:
        ws.install(
            f"q[k] = (a, b) -> int(k), {type_}?(a), {type_}(b). v(k, j) <- q[k] = (a, _), q[j] = "
            f"(_, a)."
        )
        assert "  bound     a != null" in ws.explain("v").splitlines()


def test_a_sum_that_is_compared_fails_nowhere(tmp_path):
    """In the join, or behind it as here, where the value is read off."""
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install("f[x] = y -> int(x), int(y). q(x) <- f[x] = y, y + y > x + 1.")
        ws.exec(f"+f[1] = {WORD_MAX}. +f[2] = {WORD_MIN}. +f[3] = 2. +f[{WORD_MAX}] = {WORD_MAX}.")
        assert list(ws["q"]) == [(1,), (WORD_MAX,)]


def test_times_are_sought_as_words(tmp_path):
    """Connections of at least one and at most two hours: no flight is compared with every other
    one.
    """
    with ivm.open(tmp_path / "t.pages", sync="off") as ws:
        ws.install("""
            arrives[f] = t -> int(f), timestamp(t).
            leaves[f] = t -> int(f), timestamp(t).
            connection(f, g) <- arrives[f] = t, leaves[g] = u, u >= t + 3600000000, u <= t + 7200000000.
        """)
        hours = np.datetime64("2013-01-01T00:00:00", "us") + np.arange(2000) * np.timedelta64(
            1, "h"
        )
        with ws.transaction() as txn:
            txn.insert("arrives", [np.arange(2000), hours])
            txn.insert("leaves", [np.arange(2000), hours])
        assert len(ws["connection"]) == 1999 + 1998
        assert "bound     u >= t + 3600000000" in ws.explain("connection")
        ws.verify("connection")
        ws.exec("-arrives[5].")
        assert ws.stats("connection")["erased"] == 2
        assert ws.stats("connection")["operations"] < 30
