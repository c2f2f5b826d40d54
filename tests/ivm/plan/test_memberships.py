"""`x in (...)` as a level of the join: the same rows as by comparisons, and operations for its values only."""

from random import Random

import pytest

import ivm

DECLARED = "e(x, y) -> int(x), int(y). s(n, x) -> string(n), int(x). f[x] = v -> int(x), decimal(8, 2)(v). "
PAIRS = [
    ("p(x, y) <- e(x, y), x in (1, 3, 9).", "q(x, y) <- e(x, y), (x = 1 ; x = 3 ; x = 9)."),
    ('p(n, x) <- s(n, x), n in ("a", "c", "z").', 'q(n, x) <- s(n, x), (n = "a" ; n = "c" ; n = "z").'),
    ("p(x, z) <- e(x, y), e(y, z), y in (0, 2, 2).", "q(x, z) <- e(x, y), e(y, z), (y = 0 ; y = 2)."),
    ("p(x) <- f[x] = v, x in (1, 2), v in (0.5, 1).", "q(x) <- f[x] = v, (x = 1 ; x = 2), (v = 0.5 ; v = 1)."),
    (
        "p[x] = n <- agg<<n = count()>> e(x, _), x in (1, 3).",
        "q[x] = n <- agg<<n = count()>> e(x, _), (x = 1 ; x = 3).",
    ),
    ("p(x) <- e(x, _), !(e(x, y), y in (1, 2)).", "q(x) <- e(x, _), !(e(x, y), (y = 1 ; y = 2))."),
    (
        "p(x) <- e(x, _), x in (1, 2). p(y) <- p(x), e(x, y), y in (0, 3).",
        "q(x) <- e(x, _), (x = 1 ; x = 2). q(y) <- q(x), e(x, y), (y = 0 ; y = 3).",
    ),
    (
        "p(x) <- e(x, _), x in (1, 2) ; s(_, x), x in (3, 0).",
        "q(x) <- e(x, _), 1 <= x <= 2 ; s(_, x), (x = 3 ; x = 0).",
    ),
]


@pytest.mark.parametrize(("written", "same"), PAIRS)
def test_a_membership_is_a_disjunction_of_equations(views, written, same):
    mirror, random, rows = views(DECLARED + written + " " + same), Random(written), set()
    for _ in range(15):
        edits = []
        for _ in range(random.choice((1, 3))):
            row = random.choice(
                (
                    ("e", random.randint(0, 3), random.randint(0, 3)),
                    ("s", random.choice("abc"), random.randint(0, 3)),
                )
            )
            edits.append((row[0], row[1:], row not in rows))
            rows ^= {row}
        mirror.change([*edits, ("f", (random.randint(0, 3), random.choice((0.5, 1))), True)])
        assert [*mirror.workspace["p"]] == [*mirror.workspace["q"]]
    assert mirror.workspace.check() == []


LARGE = [
    ("e(x, y), x in (5, 77)", [(5, 5), (77, 0)]),
    ('e(x, y), x in (5, 25000, 49999), t(n, x), n in ("n5", "n77", "none")', [(5, 5)]),
]


@pytest.mark.parametrize(("body", "rows"), LARGE)
def test_a_membership_takes_steps_for_its_values_only(body, rows):
    with ivm.open(":memory:") as workspace:
        workspace.install("e(x, y) -> int(x), int(y). t(n, x) -> string(n), int(x).")
        with workspace.transaction() as txn:
            txn.insert("e", [(x, x % 7) for x in range(50_000)])
            txn.insert("t", [(f"n{x}", x) for x in range(20_000)])
        workspace.install(f"q(x, y) <- {body}.", "view")
        assert [*workspace["q"]] == rows
        assert workspace.stats("q")["operations"] < 100
