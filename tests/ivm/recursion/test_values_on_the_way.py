"""The answer of a recursion decides, not the values on the way to it; where there is none, that
is said at once.
"""

import itertools
import random
from datetime import date, datetime
from decimal import Decimal

import pytest

import ivm
from ivm.errors import LimitError, RangeError
from ivm.ways.recursion import cycles, fixpoint

# a type: how it is declared, a value from which no step may be taken down (up), one in the middle,
# a step
TYPES = {
    "int": ("int", -(2**63), 2**63 - 1, 5, "1"),
    "decimal": (
        "decimal(18, 2)",
        -Decimal(10**18 - 1) / 100,
        Decimal(10**18 - 1) / 100,
        Decimal("0.50"),
        "0.01",
    ),
    "date": ("date", date.min, date.max, date(2020, 1, 1), "1"),
    "moment": ("datetime", datetime.min, datetime.max, datetime(2020, 1, 1), "1"),
}
ROWS = [("s", (1, None)), ("s", (2, 0)), ("e", (1, 3)), ("e", (2, 1)), ("e", (3, 4)), ("e", (4, 1))]


def program(type_: str, op: str, more: str = "") -> str:
    step = f"m {'+' if op == 'min' else '-'} {TYPES[type_][4]}"
    return f"""d[y] = r <- agg<<r = {op}(c)>> (s[y] = c ; d[x] = m, e(x, y), c = {step}{more}).
        k(x) <- d[x] = _.  n[] = c <- agg<<c = count()>> d[_] = _."""


def edits(type_: str, op: str) -> list[tuple[str, tuple]]:
    """A value at the end that goes nowhere, and another from which all values follow in the end."""
    _, least, greatest, middle, _ = TYPES[type_]
    values = {None: greatest if op == "min" else least, 0: middle}
    return [(name, (row[0], values[row[1]]) if name == "s" else row) for name, row in ROWS]


def workspace(type_: str) -> ivm.Workspace:
    ws = ivm.open(":memory:")
    ws.install(f"s[k] = c -> int(k), {TYPES[type_][0]}(c).  e(x, y) -> int(x), int(y).", "stored")
    return ws


def edit(ws: ivm.Workspace, rows: list[tuple[str, tuple]]) -> None:
    with ws.transaction() as txn:
        for name, row in rows:
            (txn.set if name == "s" else txn.insert)(name, [row])


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("flat", [False, True])
def test_values_that_a_better_one_replaces_may_overflow(monkeypatch, type_, op, flat):
    """Whatever the order of edits, all at once, or before the rules; what is refused is sent
    again with the next.
    """
    if flat:
        monkeypatch.setattr(fixpoint, "PAGED_SHARE", 1 << 40)
    found = set()
    for number, order in enumerate(
        itertools.islice(itertools.permutations(edits(type_, op)), 0, 720, 120)
    ):
        with workspace(type_) as ws:
            if number % 3 == 1:
                edit(ws, [*order])
            ws.install(program(type_, op))
            waiting = (
                [[*order]]
                if number % 3 == 0
                else [[one] for one in order]
                if number % 3 == 2
                else []
            )
            held: list = []
            for rows in waiting:
                held += rows
                try:
                    edit(ws, held)
                    held = []
                except RangeError:  # so far nothing replaces the value at the end
                    pass
            assert not held
            assert ws.check() == []
            ws.repair()
            found.add((*sorted(ws["d"]), *sorted(ws["k"]), *ws["n"]))
            asked = program(type_, op).partition("k(x)")[0].replace("d[", "q[")
            assert sorted(ws.query(f"{asked} a(x, c) <- q[x] = c.")) == sorted(ws["d"])
    assert len(found) == 1
    assert (4,) in next(iter(found))


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize("type_", TYPES)
def test_a_value_that_stays_and_overflows_is_refused_in_every_order(type_, op):
    rows = [one for one in edits(type_, op) if one[1] != (2, TYPES[type_][3])]
    for order in itertools.islice(itertools.permutations(rows), 0, 120, 40):
        with workspace(type_) as ws:
            ws.install(program(type_, op))
            with pytest.raises(RangeError):
                for row in order:
                    edit(ws, [row])
            assert ws.check() == []
        with workspace(type_) as ws:
            edit(ws, [*order])
            with pytest.raises(RangeError):
                ws.install(program(type_, op))


STORED = """s[k] = c -> int(k), {0}(c).  w[x, y] = k -> int(x), int(y), {1}(k).  e(x, y) -> int(x), int(y)."""
STEPS = {
    "one": "d[y] = r <- agg<<r = {0}(c)>> (s[y] = c ; d[x] = m, w[x, y] = k, c = m + k).",
    "two": """d[y] = r <- agg<<r = {0}(c)>> (s[y] = c ; g[x] = m, w[x, y] = k, c = m + k).
        g[y] = r <- agg<<r = {0}(c)>> d[y] = c.""",
    "both": """d[x, y] = r <- agg<<r = {0}(c)>> (w[x, y] = c ; d[x, z] = m, d[z, y] = k, c = m + k).""",
}
WEIGHTS = {
    "int": ("int", "int", "0", "{}"), "decimal": ("decimal(18,2)", "decimal(18,2)", "0.00",
    "{}.50"),
    "date": ("date", "int", "#2020-01-01#", "{}"), "float": ("float", "float", "0e0", "{}e0"),
}  # fmt: skip


CYCLES = [(step, "int", length) for step in STEPS for length in (1, 2, 12)]
CYCLES += [("one", type_, length) for type_ in ("decimal", "date", "float") for length in (1, 3)]


@pytest.mark.parametrize("op", ["min", "max"])
@pytest.mark.parametrize(("step", "type_", "length"), CYCLES)
def test_a_cycle_that_makes_its_own_values_better_is_named(monkeypatch, step, type_, op, length):
    """By an edit, an install and a question; one that adds up to nothing passes, and leaves all
    as it was.
    """
    value, weight, start, number = WEIGHTS[type_]
    better, worse = (-1, 1) if op == "min" else (1, -1)
    rows = [f"+w[{i}, {i + 1}] = {number.format(worse)}." for i in range(1, length)]
    tail = f"+w[{length}, 90] = {number.format(worse)}. +w[90, 91] = {number.format(worse)}. +s[1] = {start}."
    rules, says = (
        STEPS[step].format(op),
        r"along their own derivation: d\[1[^;]*\] = .* and then [dg]\[",
    )
    if length == 1:
        says = r"along their own derivation: [dg]\[1[^;]*\] = .* and then [dg]\[1"
    if length > 2 or step == "both":
        says = r"along their own derivation: [dg]\[\d+[^;]*\] = .* and then [dg]\[\d"
    none = number.format(0).replace(".50", ".00")
    sums = none if length == 1 else number.format(better * (length - 1))
    if type_ == "decimal" and length > 1:
        sums = f"{better * (length - 1) * Decimal('1.50'):.2f}"
    cycle = number.format(better * length)
    if type_ == "decimal":
        cycle = f"{better * length * 2:.2f}"
    monkeypatch.setattr(fixpoint, "ROUNDS_FIRST", 4)
    with ivm.open(":memory:") as ws:
        ws.install(STORED.format(value, weight), "stored")
        ws.exec(f"{' '.join(rows)} {tail}")
        ws.install(rules, rounds_max=6_000)
        ws.exec(f"+w[{length}, 1] = {sums}.")
        before = sorted(ws["d"])
        with pytest.raises(LimitError, match=says):
            ws.exec(f"^w[{length}, 1] = {cycle}.")
        assert (sorted(ws["d"]), ws.check()) == (before, [])
        ws.uninstall("main")
        ws.exec(f"^w[{length}, 1] = {cycle}.")
        with pytest.raises(LimitError, match=says):
            ws.install(rules, rounds_max=6_000)
        columns = "_, c" if step == "both" else "c"
        with pytest.raises(LimitError, match=says):
            ws.query(
                f"{rules} q(x) <- d[x, _] = _."
                if columns == "_, c"
                else f"{rules} q(x) <- d[x] = _.",
                rounds_max=6_000,
            )


@pytest.mark.parametrize("seed", range(20))
def test_better_values_without_such_a_cycle_pass(seed):
    """Weights below zero that potentials make of weights which are not, so that no cycle adds up
    to less than zero.
    """
    draw = random.Random(seed)
    potential = [draw.randrange(-50, 50) for _ in range(12)]
    rows = {(draw.randrange(12), draw.randrange(12)): draw.choice((0, 0, 1, 5)) for _ in range(40)}
    with ivm.open(":memory:") as ws:
        ws.install(STORED.format("int", "int") + STEPS["one"].format("min"))
        ws.exec("+s[0] = 0.")
        with ws.transaction() as txn:
            txn.set("w", [(x, y, k + potential[y] - potential[x]) for (x, y), k in rows.items()])
        truth = {0: 0}
        for _ in range(12):
            for (x, y), k in rows.items():
                if x in truth:
                    truth[y] = min(
                        truth.get(y, 1 << 40), truth[x] + k + potential[y] - potential[x]
                    )
        assert dict(ws["d"]) == truth
        assert ws.check() == []


def test_what_brings_values_to_rest_is_no_endless_cycle(tmp_path):
    """A quotient, a bound that another conjunction takes, and floats that swallow what is added."""
    with ivm.open(":memory:") as ws:
        ws.install(STORED.format("int", "int"))
        ws.exec("+s[1] = 1000000. +e(1, 2). +e(2, 1). +w[1, 1] = 40.")
        ws.install(
            "d[y] = r <- agg<<r = min(c)>> (s[y] = c ; d[x] = m, e(x, y), c = m / 2).", "halves"
        )
        assert sorted(ws["d"]) == [(1, 0), (2, 0)]
        ws.install(
            """f[y] = r <- agg<<r = min(c)>> (e(y, _), c = 900 ; g[y] = m, w[1, 1] = k, (c = m, m >= k ; c = k, m < k)).
            g[y] = r <- agg<<r = min(c)>> (f[x] = m, e(x, y), c = m - 3).""",
            "bounded",
        )
        assert sorted(ws["f"]) == [(1, 40), (2, 40)]
    with ivm.open(":memory:") as ws:
        ws.install(STORED.format("float", "float") + STEPS["one"].format("min"))
        ws.exec("+s[1] = 1e0. +w[1, 2] = 1e16. +w[2, 1] = -1e16.")
        assert dict(ws["d"])[1] == 0.0


def test_a_trail_of_many_facts_keeps_its_last_rounds(monkeypatch):
    monkeypatch.setattr(cycles, "FACTS_MAX", 8)
    with ivm.open(":memory:") as ws:
        ws.install(STORED.format("int", "int") + STEPS["one"].format("min"))
        with pytest.raises(LimitError, match="along their own derivation"):
            ws.exec(
                "+s[1] = 0. +w[1, 2] = 1. +w[2, 1] = -3. +w[1, 4] = 0. +w[4, 5] = 1. +w[5, 6] = 1."
            )
