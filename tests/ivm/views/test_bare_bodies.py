"""Bodies without a positive atom hold once or not at all, and are maintained where they negate."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import RangeError
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times

BASE = "q(x) -> int(x). edge(x, y) -> int(x), int(y). name[x] = s -> int(x), string(s). "
RULES = {
    "p(x) <- x = 3.": [(3,)],
    "p(x, y) <- x = 3, y = x + 1.": [(3, 4)],
    "p(x) <- x = 3, x > 4.": [],
    "p(x) <- x = 3 ; x = 3 ; x = 4.": [(3,), (4,)],
    'p[s] = d <- s = "a", d = 2.50.': [("a", pytest.approx(2.5))],
    "p(x), other(y) <- x = 3, y = x.": [(3,)],
    "p[] = n <- agg<<n = count()>> x = 3.": [(1,)],
    "p[x] = n <- agg<<n = sum(y)>> x = 3, (y = 4 ; y = 5).": [(3, 9)],
    "p(x) <- x = 1. p(y) <- p(x), y = x + 1, y < 4.": [(1,), (2,), (3,)],
}


@pytest.mark.parametrize(("text", "rows"), RULES.items())
def test_what_a_body_without_an_atom_compares_holds_once(text, rows, views):
    mirror = views(BASE + text)
    assert sorted(mirror.workspace["p"]) == rows
    assert mirror.workspace.check() == []
    assert mirror.workspace.explain("p")
    mirror.reopen()


@pytest.mark.parametrize(
    "text",
    [
        "p(x) <- x = 3, !q(x).",
        "p(x) <- x = 3 ; q(x).",
        "p(x) <- x = 3, !(edge(x, y), q(y)) ; x = 4, !edge(_, x), !q(x + 1).",
        "p[] = n <- agg<<n = count()>> (x = 1, !q(x) ; x = 2, !q(x)).",
        "p(x) <- x = 1, !q(x). p(y) <- p(x), edge(x, y).",
        'p(s) <- s = "a", !name[_] = s.',
    ],
)
def test_such_a_body_follows_what_it_negates(text, views):
    mirror = views(BASE + text)
    mirror.insert("q", (1,), (3,), (5,))
    mirror.insert("edge", (1, 2), (3, 3), (2, 4))
    mirror.insert("name", (1, "a"))
    mirror.delete("q", (1,), (3,))
    mirror.delete("name", (1, "a"))
    mirror.delete("edge", (3, 3), (1, 2))
    assert mirror.workspace.check() == []


def test_a_query_needs_no_atom():
    with ivm.open(":memory:") as workspace:
        assert [*workspace.query("q(x, y) <- x = 3, y = x + 1.")] == [(3, 4)]


def test_a_term_that_fails_in_such_a_body_is_an_error():
    with ivm.open(":memory:") as workspace, pytest.raises(RangeError):
        workspace.install("p(y) <- x = 9223372036854775807, y = x + 1.")


SMALL = st.integers(0, 4)
LITERALS = st.one_of(
    st.builds("x {} {}".format, st.sampled_from(["<", "!=", ">="]), SMALL),
    st.builds("y {} x".format, st.sampled_from(["<", "!=", ">=", "="])),
    st.sampled_from(
        [
            "!q(x)",
            "!edge(x, y)",
            "!edge(_, x)",
            "!(edge(x, z), q(z))",
            "!(edge(w, y), w < x)",
            "q(y)",
        ]
    ),
)
BODIES = st.builds(
    lambda x, plus, more: ", ".join([f"x = {x}", f"y = x + {plus}", *more]),
    SMALL,
    SMALL,
    st.lists(LITERALS, max_size=3, unique=True),
)
EDITS = st.one_of(
    st.tuples(st.just("q"), st.tuples(SMALL), st.booleans()),
    st.tuples(st.just("edge"), st.tuples(SMALL, SMALL), st.booleans()),
)


@settings(max_examples=times(13), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(BODIES, min_size=1, max_size=3), st.lists(st.lists(EDITS, max_size=6), max_size=3))
def test_random_bodies_of_comparisons_and_negations(bodies, transactions):
    text = BASE + " ".join(f"p(x, y) <- {body}." for body in bodies)
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "a.pages", text)
        for edits in transactions:
            mirror.change(edits)
        assert mirror.workspace.check() == []
        mirror.close()
