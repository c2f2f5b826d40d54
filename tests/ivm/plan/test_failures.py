"""Arithmetic that fails: refused where all the rest of a body holds, wherever the arithmetic is
evaluated.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import ConstructError, RangeError, RuleTypeError
from ivm.rules.compile import compile
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.strategies import DECLARATIONS, FAILING, cases

FACTS = (
    "a(x) -> int(x). b(x) -> int(x). on(x) -> int(x). f(x) -> int(x). d[q] = x -> int(q), int(x). "
    "e(x, y) -> int(x), int(y). "
)
LARGE = 2**62


@pytest.fixture
def ws(tmp_path):
    with ivm.open(tmp_path / "store.pages", sync="off") as ws:
        ws.install(FACTS, name="facts")
        yield ws


@pytest.mark.parametrize("maintenance", ["match", "probe"])
@pytest.mark.parametrize(
    ("body", "fine", "refused"),
    [
        ("a(x), x != 0, !(d[q] = x, b(10 / x))", "+d[1] = 0. +a(0). +b(1)", ""),
        ("!(d[q] = x, b(10 / x)), x != 0, a(x)", "+d[1] = 0. +a(0). +b(1)", ""),
        ("a(x), !(d[q] = x, b(10 / x))", "+d[1] = 0. +b(1). +a(5)", "+a(0)"),
        ("a(x), !(d[q] = x, b(10 / x))", "+a(0). +b(1). +d[2] = 0. -b(1)", "+b(3)"),
        ("a(x), !on(x), !(d[q] = x, b(10 / x))", "+a(0). +on(0). +b(1). +d[2] = 0", "-on(0)"),
        # one is enough to say no
        ("a(x), !(e(x, y), b(10 / y))", "+a(1). +e(1, 0). +e(1, 2). +b(5)", "-e(1, 2)"),
        ("a(x), !(b(y), !(f(z), z / y = 1))", "+a(1). +b(0). +b(2)", "+f(2)"),
        ("a(x), !(b(y), y > 5, !(f(z), z / y = 1))", "+a(1). +b(0). +b(2). +f(2)", ""),
        (
            "a(x), !(d[q] = x, b(10 / x)), !(d[r] = x, f(x + 1))",
            "+d[1] = 0. +a(0). +b(1). +f(1)",
            "-f(1)",
        ),
        ("on(1), f(x), f(y), 1 / y = y", "+f(0)", "+on(1)"),
        ("on(1), f(x), f(y), y != 0, 1 / y = y", "+f(0). +on(1). +f(1)", ""),
        ("a(x), x < 1000, !(d[q] = x, b(x * x))", f"+d[1] = {LARGE}. +a({LARGE}). +b(4)", ""),
        ("a(x), !(d[q] = x, b(x * x))", f"+d[1] = {LARGE}. +b(4)", f"+a({LARGE})"),
        ("a(x), b(10 / x)", "+a(0)", "+b(1)"),
        ("a(x), b(10 / x), f(x + 1)", "+a(0). +b(1). +f(2)", "+f(1)"),
        ("a(x), b(10 / x), !on(x)", "+a(0). +b(1). +on(0)", "-on(0)"),
        ("a(x), e(12 / x, y), e(8 / y, z), z > 2", "+a(0). +e(3, 0). +e(1, 2). +a(4)", "+e(7, 9)"),
        # a sum is compared
        ("a(x), e(x, y), b(x + y)", f"+a({2**63 - 1}). +e({2**63 - 1}, 1). +b({-(2**63)})", ""),
        ("a(x), x + 10 / y > 0, b(y)", "+b(0)", "+a(1)"),
        ("a(x), (x != 0, 10 / x = 5 ; b(x))", "+a(0). +b(0)", ""),
        # each literal stands beside the other
        ("a(x), 10 / x = 5, 10 / (x - 1) > 100", "+a(0). +a(2)", ""),
        ("a(x), s = 10 / x, !e(x, s), x > 0", "+a(0). +e(0, 0)", ""),
        (
            "a(x), b(u), t = 10 / u, !on(u), s = x + 1, !e(x, s)",
            "+b(0). +on(0). +a(1). +e(1, 2)",
            "-on(0). -e(1, 2)",
        ),
    ],
)
def test_what_fails_is_refused_where_all_else_holds(body, fine, refused, maintenance, ws):
    ws.install(f"p(x) <- {body}.", name="p", maintenance=maintenance)
    ws.exec(f"{fine}.")
    before = {name: list(ws[name]) for name in ws.predicates}
    assert list(ws.query(f"q(x) <- {body}.")) == before["p"]
    if refused:
        with pytest.raises(RangeError, match=r"^p:1:\d+: .*; exclude it with a comparison$"):
            ws.exec(f"{refused}.")
    assert {name: list(ws[name]) for name in ws.predicates} == before
    ws.uninstall("p")
    if refused:
        ws.exec(f"{refused}.")
        for ask in (ws.query, ws.install):
            with pytest.raises(RangeError):
                ask(f"q(x) <- {body}.")


@pytest.mark.parametrize("term", ["x / 0", "x / (3 - 3)", "x * 2 / 0", "1 / 0"])
def test_a_division_by_a_literal_zero_is_refused_at_once(term):
    with pytest.raises(RuleTypeError, match=r"^rules:1:\d+: `.* / 0` divides by zero"):
        compile(FACTS + f"p(x) <- a(x), x > {term}.")


def test_an_aggregate_over_what_fails_elsewhere(ws):
    ws.install(
        "n[x] = c <- agg<<c = sum(y)>> e(x, y), y != 0, !(b(y), on(6 / y)), f(12 / y).", name="n"
    )
    ws.exec("+e(1, 0). +e(1, 4). +b(0). +f(3).")
    assert list(ws["n"]) == [(1, 4)]
    ws.exec("+on(1). +e(2, 4). +e(2, 0). +e(2, 6).")
    assert list(ws["n"]) == [(1, 4), (2, 4)]
    ws.verify("n")


def follow(case, loaded, maintenance):
    """Install, then edit, or the other way round; comparing each time, whatever was refused."""
    text, transactions = case
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "store.pages", DECLARATIONS)
        if loaded:
            mirror.change(transactions[0])
        try:
            mirror.install("views", text.removeprefix(DECLARATIONS), maintenance=maintenance)
        except ConstructError:
            reject()
        for edits in transactions[loaded:]:
            mirror.change(edits)
        mirror.reopen()
        for name, predicate in mirror.workspace.predicates.items():
            if not predicate.extensional:
                mirror.workspace.verify(name)
        assert mirror.workspace.store.check() == []
        mirror.close()


@settings(max_examples=times(8), suppress_health_check=list(HealthCheck), deadline=None)
@given(cases(FAILING), st.booleans(), st.sampled_from(["match", "probe"]))
def test_random_programs(case, loaded, maintenance):
    follow(case, loaded, maintenance)


@pytest.mark.campaign
@settings(max_examples=3000, suppress_health_check=list(HealthCheck), deadline=None)
@given(cases(FAILING, count_max=10), st.booleans(), st.sampled_from(["match", "probe", "auto"]))
def test_campaign(case, loaded, maintenance):
    follow(case, loaded, maintenance)
