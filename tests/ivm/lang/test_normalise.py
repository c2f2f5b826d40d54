"""What rules mean once nothing is nested: the printed form of the result, rule by rule."""

import pytest

import ivm
from ivm.errors import ConstructError
from ivm.lang.ir import Atom, Compare, Negation, Var, show_rule, variables
from ivm.lang.program import ATOMS_MAX
from ivm.rules.compile import compile

DECLARATIONS = """
    q(x) -> int(x).  a(x) -> int(x).  edge(x, y) -> int(x), int(y).  r(x, y) -> int(x), int(y).
    f[x] = v -> int(x), int(v).  g[x] = v -> int(x), int(v).  price[i] = p -> string(i), decimal(p).
"""


def rules(text: str) -> list[str]:
    return [show_rule(rule) for rule in compile(DECLARATIONS + text).rules]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # function applications and terms inside arguments get names
        ("p[x] = f[x] + g[x].", "p[x] = _1 <- f[x] = _2, g[x] = _3, _1 = _2 + _3."),
        ("p(x) <- edge(x, x + 1).", "p(x) <- edge(x, _1), _1 = x + 1."),
        ("p(x) <- q(x), f[g[x]] > 3.", "p(x) <- q(x), g[x] = _2, f[_2] = _1, _1 > 3."),
        ("p(x) <- f[x] = g[x].", "p(x) <- f[x] = _1, g[x] = _1."),
        ("p(x) <- 3 = f[x].", "p(x) <- f[x] = 3."),
        ("p(x, 1) <- q(x).", "p(x, _1) <- q(x), _1 = 1."),
        # each `_` is a variable of its own, and no variable of the user's
        ("p(x) <- edge(x, _), r(_, _1).", "p(x) <- edge(x, _2), r(_3, _1)."),
        # a lone variable stands on the left
        ("p(x) <- q(x), 3 < x.", "p(x) <- q(x), x > 3."),
        ("p(x, y) <- q(x), x * 2 = y.", "p(x, y) <- q(x), y = x * 2."),
        # `,` binds closer than `;`; parentheses around a conjunction alone mean nothing
        ("p(x) <- q(x), a(x) ; a(x).", "p(x) <- q(x), a(x) ; a(x)."),
        ("p(x) <- (q(x), (a(x))).", "p(x) <- q(x), a(x)."),
        ("p(x) <- q(x), (a(x) ; edge(x, _)).", "p(x) <- q(x), a(x) ; q(x), edge(x, _1)."),
        # negation normal form
        ("p(x) <- q(x), !a(x).", "p(x) <- q(x), !a(x)."),
        ("p(x) <- q(x), !(edge(x, y), a(y)).", "p(x) <- q(x), !(edge(x, y), a(y))."),
        ("p(x) <- q(x), !(a(x) ; edge(x, _)).", "p(x) <- q(x), !a(x), !edge(x, _1)."),
        ("p(x) <- q(x), !!a(x).", "p(x) <- q(x), a(x)."),
        ("p(x) <- q(x), !(x < 3).", "p(x) <- q(x), x >= 3."),
        ("p(x) <- q(x), !(x < 3, x != 1).", "p(x) <- q(x), x >= 3 ; q(x), x = 1."),
        ("p(x) <- q(x), !(x = 3 ; x > 7).", "p(x) <- q(x), x != 3, x <= 7."),
        ("p(x) <- q(x), !f[x] = 3.", "p(x) <- q(x), !f[x] = 3."),
        ("p(x) <- q(x), !f[x] > 3.", "p(x) <- q(x), !(f[x] = _1, _1 > 3)."),
        ("p(x) <- q(x), !(edge(x, y), !a(y)).", "p(x) <- q(x), !(edge(x, y), !a(y))."),
        # literals take the type of their context
        ('p(i) <- price[i] > 3, i != "tea".', 'p(i) <- price[i] = _1, _1 > 3.00, i != "tea".'),
        ("p(i) <- price[i] * 2 > 1.5.", "p(i) <- price[i] = _1, _1 * 2 > 1.50."),
        ("p(i) <- price[i] > 1 + 2 * 1.5.", "p(i) <- price[i] = _1, _1 > 4.00."),
        ("p(x) <- q(x), x > 7 / -2 - 1.", "p(x) <- q(x), x > -4."),
        # negative numbers and unary minus
        ("p(x) <- q(x), x > -3.", "p(x) <- q(x), x > -3."),
        ("p(y) <- q(x), y = -x - -1.", "p(y) <- q(x), y = 0 - x - -1."),
        ("p(y) <- q(x), y = 2 * (x - (1 - x)).", "p(y) <- q(x), y = 2 * (x - (1 - x))."),
    ],
)
def test_one_rule(text, expected):
    assert rules(text) == [expected]


def test_several_heads_share_their_body():
    # h(x), s(x, y) <- edge(x, y), x < y.
    assert rules("h(x), s(x, y) <- edge(x, y), x < y.") == ["h(x), s(x, y) <- edge(x, y), x < y."]


def test_a_variable_belongs_to_the_smallest_conjunction_around_its_uses():
    # p(x) <- q(x), !(edge(x, y), r(y, _)), (edge(x, z) ; a(x)).
    [rule] = compile(
        DECLARATIONS + "p(x) <- q(x), !(edge(x, y), r(y, _)), (edge(x, z) ; a(x))."
    ).rules
    first, second = rule.body
    negation = next(literal for literal in first if isinstance(literal, Negation))
    assert negation.exists == (Var("y"), Var("_1"))
    assert variables(*first) == (Var("x"), Var("z"))
    assert variables(*second) == (Var("x"),)


class TestAggregates:
    def test_a_conjunction_stays_one_rule(self):
        # d[x] = n <- agg<<n = count()>> edge(x, y), q(y).
        text = "d[x] = n <- agg<<n = count()>> edge(x, y), q(y)."
        assert rules(text) == [text]

    def test_the_argument_is_a_variable(self):
        # d[x] = n <- agg<<n = sum(f[y] + 1)>> edge(x, y).
        assert rules("d[x] = n <- agg<<n = sum(f[y] + 1)>> edge(x, y).") == [
            "d[x] = n <- agg<<n = sum(_1)>> edge(x, y), f[y] = _2, _1 = _2 + 1."
        ]

    def test_a_disjunction_is_counted_through_a_view_of_its_bindings(self):
        # d[x] = n <- agg<<n = count()>> (edge(x, y) ; r(x, y), edge(y, z)).     z is of one
        # disjunct
        assert rules("d[x] = n <- agg<<n = count()>> (edge(x, y) ; r(x, y), edge(y, z)).") == [
            "d$body(x, y) <- edge(x, y) ; r(x, y), edge(y, z).",
            "d[x] = n <- agg<<n = count()>> d$body(x?, y?).",
        ]

    def test_a_double_negation_keeps_its_variables_to_itself(self):
        # d[x] = n <- agg<<n = count()>> edge(x, y), !!r(y, _).
        assert rules("d[x] = n <- agg<<n = count()>> edge(x, y), !!r(y, _).") == [
            "d$body(x, y) <- edge(x, y), r(y, _1?).",
            "d[x] = n <- agg<<n = count()>> d$body(x?, y?).",
        ]


def test_reads_are_the_predicates_of_the_body_in_order():
    # c(x) <- f[x] = u, !a(u), !edge(x, w), f[u] = _.
    [rule] = compile(DECLARATIONS + "c(x) <- f[x] = u, !a(u), !edge(x, w), f[u] = _.").rules
    assert rule.reads == ("f", "a", "edge")


def test_places_are_kept_and_do_not_count():
    program = compile(DECLARATIONS + "p(x) <-\n  edge(x, y),\n  x < y.", source="graph.logic")
    [rule] = program.rules
    atom, comparison = rule.body[0]
    assert isinstance(atom, Atom)
    assert isinstance(comparison, Compare)
    assert (str(atom.where), str(comparison.where)) == ("graph.logic:5:3", "graph.logic:6:3")
    assert rule.text == "p(x) <-\n  edge(x, y),\n  x < y."
    assert atom == Atom("edge", (Var("x"), Var("y")))


def test_too_many_disjuncts_are_refused():
    options = ", ".join("(a(x) ; q(x))" for _ in range(7))
    with pytest.raises(
        ConstructError, match=r"rules:4:1: written out, this rule has more than 64 disjuncts"
    ):
        rules(f"p(x) <- {options}.")


@pytest.mark.parametrize("body", ["{}", "a(x0), !({})", "a(x0), (a(x0) ; {})"])
@pytest.mark.parametrize("atoms", [300, 1000])
def test_too_many_atoms_of_a_conjunction_are_refused_at_once(body, atoms):
    """At each way in; as many as are taken are answered in seconds."""
    rule = f"p(x0) <- {body.format(', '.join(f'e(x{n}, x{n + 1})' for n in range(atoms)))}."
    with ivm.open(":memory:") as workspace:
        workspace.install("e(x, y) -> int(x), int(y). a(x) -> int(x). +e(1, 1).", "stored")
        for take in workspace.install, workspace.query:
            with pytest.raises(
                ConstructError,
                match=r"1:1: written out, this rule has \d+ atoms in one .* 256 are the most",
            ):
                take(rule)
        chain = ", ".join(f"e(x{n}, x{n + 1})" for n in range(ATOMS_MAX))
        assert list(workspace.query(f"q(x0) <- {chain}.")) == [(1,)]
