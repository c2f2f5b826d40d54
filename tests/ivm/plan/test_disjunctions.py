"""What aggregates read: conjunctions of disjunctions, the views of bodies that stay, and helpers
of computed keys.
"""

import pytest

import ivm
from ivm.lang.ir import variables
from ivm.plan.rewrite.aggregates import fold_bodies, separate_bodies
from ivm.plan.rewrite.helpers import lift_computed
from ivm.rules import compile as engine_compile
from ivm.rules.compile import compile
from ivm.rules.installed import PROPERTY
from tests.support.calls import functions_called
from tests.support.programs.generations import planning_of, planning_without

DECLARED = """
    r[i] = (a, b, v) -> int(i), int(a), int(b), int(v).  f[a] = x -> int(a), int(x).  g[b] = x -> int(b), int(x).
    h[b] = x -> int(b), int?(x).  e(x, y) -> int(x), int(y).
"""
BODY = "r[i] = (a, b, v)"
SEPARATED = {
    "f[a] = 3 ; e(a, b)": ["f[a] = 3", "e(a, b), !f[a] = 3"],
    "v < 5, e(a, b) ; v > 9, e(b, a)": ["v < 5, e(a, b)", "v > 9, e(b, a)"],
    "v <= 5, e(a, b) ; 5 <= v, e(b, a)": [
        "v <= 5, e(a, b)",
        "v >= 5, e(b, a), v > 5",
        "v >= 5, e(b, a), v <= 5, !e(a, b)",
    ],
    "v = 5, e(a, b) ; v != 5, e(b, a)": ["v = 5, e(a, b)", "v != 5, e(b, a)"],
    "v = 5, e(a, b) ; v > 2, e(b, a)": [
        "v = 5, e(a, b)",
        "v > 2, e(b, a), v != 5",
        "v > 2, e(b, a), v = 5, !e(a, b)",
    ],
    "!e(a, a) ; e(a, b)": ["!e(a, a)", "e(a, b), e(a, a)"],
    "f[a] = s, s < 3 ; g[b] = t": ["f[a] = s, s < 3", "g[b] = t, !(f[a] = s$or0, s$or0 < 3)"],
    "f[a] = s, s < 3 ; f[a] = t, g[b] = y, t > 7": ["f[a] = s, s < 3", "f[a] = t, g[b] = y, t > 7"],
    "f[a] = s, s < 3 ; f[a] = t, t > b": ["f[a] = s, s < 3", "f[a] = t, t > b, t >= 3"],
    "e(a, b) ; e(a, b), v > 3": ["e(a, b)"],
    "e(a, _) ; e(b, a)": None,  # a row of r has several rows of e
    "h[b] = y?, y != a ; e(a, b)": None,  # y may be null
    "v / a > 2 ; e(a, b)": None,  # division may fail
    # what is negated would have several rows for one of r
    "e(a, b), !(e(a, z), e(z, b)) ; e(b, a)": None,
    # too many conjunctions
    " ; ".join(f"e({x}, {y}), e({y}, i)" for x in "abv" for y in "abv"): None,
}


def rule_over(options: str) -> str:
    return f"n[a] = t <- agg<<t = sum(v)>> {BODY}, ({options})."


@pytest.mark.parametrize("options", SEPARATED)
def test_conjunctions_exclude_each_other(options):
    rules = separate_bodies(compile(DECLARED + rule_over(options))).rules
    if SEPARATED[options] is None:
        assert len(rules) == 2
        return
    (rule,) = rules
    body = f"r(i, a, b, v), {' ; r(i, a, b, v), '.join(SEPARATED[options])}"
    assert str(rule) == f"n[a] = t <- agg<<t = sum(v)>> {body}."


def test_a_view_of_users_stays():
    """Only the views that are made of an aggregate's body are left out."""
    rules = f"w(i, a, b, v) <- {BODY}, v < 3 ; {BODY}, v > 7.  n[a] = t <- agg<<t = sum(v)>> w(_, a, _, v)."
    program = compile(DECLARED + rules)
    assert fold_bodies(program).rules == separate_bodies(program).rules == program.rules
    with ivm.open(":memory:") as workspace:
        workspace.install(DECLARED + rules, "rules")
        workspace.exec("+r[1] = (2, 3, 1).  +r[2] = (2, 3, 5).  +r[3] = (2, 3, 9).")
        assert [*workspace["w"]] == [(1, 2, 3, 1), (3, 2, 3, 9)]
        assert [*workspace["n"]] == [(2, 10)]


def test_rules_that_an_earlier_release_installed_keep_the_view_of_their_body(tmp_path, monkeypatch):
    path, text = tmp_path / "s.pages", rule_over("f[a] = s, s < 3 ; e(a, b)")
    monkeypatch.setattr(engine_compile, "separate_bodies", lambda program, known: program)
    with ivm.open(path, sync="off") as workspace:
        workspace.install(DECLARED, "base")
        workspace.install(text, "rules")
        assert (generation(workspace), kept(workspace)) == (planning_without("lean"), ["n$body"])
    monkeypatch.undo()
    edits = "+r[1] = (2, 3, 10).  +r[2] = (2, 4, 20).  +r[3] = (5, 4, 30).  +f[2] = 1.  +e(2, 3).  +e(5, 4)."
    with ivm.open(path, sync="off") as workspace:
        workspace.exec(edits)
        assert ([*workspace["n"]], kept(workspace), workspace.check()) == (
            [(2, 30), (5, 30)],
            ["n$body"],
            [],
        )
        workspace.install(text, "rules", replace=True)
        assert (generation(workspace), kept(workspace)) == (planning_without("partial"), ["n$not0"])
    with ivm.open(path, sync="off") as workspace:
        workspace.exec("-f[2].")
        assert ([*workspace["n"]], workspace.check()) == ([(2, 10), (5, 30)], [])
        assert "(2, 3, 10)" in str(workspace.why("n", (2, 10)))


def test_keys_that_cannot_fail_have_no_view_of_what_fails(tmp_path, monkeypatch):
    """Rules that an earlier release installed keep theirs, which then stays empty."""
    path, text = (
        tmp_path / "s.pages",
        f"n[g] = t <- agg<<t = count()>> {BODY}, g = v / 10, f[g] = _.",
    )
    lift = engine_compile.lift_computed
    monkeypatch.setattr(
        engine_compile, "lift_computed", lambda program, keyed, sure: lift(program, keyed, False)
    )
    with ivm.open(path, sync="off") as workspace:
        workspace.install(DECLARED, "base")
        workspace.install(text, "rules")
        assert (generation(workspace), len(kept(workspace))) == (planning_without("partial"), 3)
    monkeypatch.undo()
    with ivm.open(path, sync="off") as workspace:
        workspace.exec(
            "+r[1] = (2, 3, 10).  +r[2] = (2, 4, 19).  +r[3] = (5, 4, -30).  +f[1] = 1.  +f[-3] = "
            "1."
        )
        assert ([*workspace["n"]], len(kept(workspace)), workspace.check()) == (
            [(-3, 1), (1, 2)],
            3,
            [],
        )
        workspace.install(text, "rules", replace=True)
        assert (generation(workspace), kept(workspace)) == (
            planning_without("factored"),
            ["n$key0"],
        )
    with ivm.open(path, sync="off") as workspace:
        workspace.exec("-f[1].  -r[3].  +r[4] = (1, 1, -39).")
        assert ([*workspace["n"]], workspace.check()) == ([(-3, 1)], [])


@pytest.mark.parametrize("key", ["v / -1", "v / b", "v / 10 * 2", "b * v"])
def test_other_computed_keys_may_fail(key):
    with ivm.open(":memory:") as workspace:
        workspace.install(DECLARED, "base")
        workspace.install(f"n[g] = t <- agg<<t = count()>> {BODY}, g = {key}, f[g] = _.", "rules")
        assert any(name.endswith("$fails") for name in kept(workspace))


def generation(workspace: ivm.Workspace) -> int:
    with workspace.store.snapshot() as snap:
        return planning_of(snap.properties[PROPERTY])


def kept(workspace: ivm.Workspace) -> list[str]:
    """The helper views that are kept, and were made of the aggregate's rule."""
    with workspace.store.snapshot() as snap:
        return sorted(name for name in snap._version.catalog.relations if name.startswith("n$"))


KEYED = {
    "n[x] = t <- agg<<t = sum(b)>> r[i] = (a, b, v), k = v * a, f[k] = x.": "n$key0(i, b, k)",
    "n[x] = t <- agg<<t = count()>> e(y, z), k = y * z, f[k] = x.": "n$key0(y, z, k)",
    "n[x] = t <- agg<<t = count()>> f[y] = z, k = y * z, f[k] = x.": "n$key0(y, k)",
    "n(x) <- r[i] = (a, b, v), k = v * a, f[k] = x.": "n$key0(k)",
}


@pytest.mark.parametrize("rule", KEYED)
def test_a_helper_of_computed_keys_lacks_what_its_keys_determine(rule):
    """An aggregate counts bindings, which the keys of functions tell apart."""
    program = compile(DECLARED + rule)
    lifted = lift_computed(program, program.predicates)
    assert str(lifted.rules[0].heads[0]) == KEYED[rule]
    assert lifted.lean == ("agg" in rule)
    wide = lift_computed(program, {})
    assert not wide.lean
    assert {*variables(*wide.rules[0].heads)} >= {*variables(*lifted.rules[0].heads)}


def choices(columns):
    return ", ".join(f"({c} < 10 ; {c} > 40)" for c in columns)


def test_any_of_each_choice_is_a_filter_for_each():
    """Written out these are 64 conjunctions, and so they would be 384 comparisons for each row."""
    (plan,) = plans_of(f"p(a) <- t(a, b, c, d, e, f), {choices('abcdef')}.")
    assert [*map(str, plan.filters)] == [f"({c} < 10 ; {c} > 40)" for c in "abcdef"]


@pytest.mark.parametrize(
    ("body", "filters"),
    [
        ("(a < 3 ; b < 3, c < 3)", ["(a < 3 ; b < 3, c < 3)"]),
        ("d = 1, (a < 3 ; a > 5, b < 3), (c < 3 ; c > 7)", None),
        ("(a < 3 ; a < 3), b > 1", ["a < 3", "b > 1"]),
        ("(a < 3 ; a < 3, b > 1)", ["a < 3"]),
        ("(a < 3, b < 3 ; a > 5, b > 5)", ["(a < 3, b < 3 ; a > 5, b > 5)"]),
    ],
)
def test_other_alternatives_are_one_filter(body, filters):
    (plan,) = plans_of(f"p(a, b, c, d, e, f) <- t(a, b, c, d, e, f), {body}.")
    found = [*map(str, plan.filters)]
    if filters is None:
        assert len(found) == 2 and found[0] == "d = 1" and found[1].count(";") == 3
    else:
        assert found == filters


def test_alternatives_that_read_other_columns_are_plans_of_their_own():
    """Each counts its own derivations of a row, as stores of earlier releases do."""
    assert len(plans_of("p(a) <- w[a] = (b, c), (b < 3 ; c > 3).")) == 2


def plans_of(rule):
    with ivm.open(":memory:") as ws:
        ws.install(COLUMNS, "base")
        ws.install(rule, "p")
        with ws.store.snapshot() as snap:
            return ws.rules_of(snap).rules[-1].plans


COLUMNS = """
    t(a, b, c, d, e, f) -> int(a), int(b), int(c), int(d), int(e), int(f).
    w[a] = (b, c) -> int(a), int(b), int(c).  s[a] = (b, c) -> int(a), int?(b), int?(c).
"""


def test_functions_called_for_alternatives_are_in_proportion_to_them():
    calls = {}
    with ivm.open(":memory:") as ws:
        ws.install(COLUMNS, "base")
        for n in (1, 2, 4, 6):  # the first install imports
            rule = f"p(a, b, c, d, e, f) <- t(a, b, c, d, e, f), {choices('abcdef'[:n])}."
            calls[2**n] = len(functions_called(lambda rule=rule, n=n: ws.install(rule, f"p{n}")))
            ws.uninstall(f"p{n}")
    assert calls[64] - calls[16] < 4.5 * (calls[16] - calls[4])
    assert calls[64] - calls[16] < 48 * 330
