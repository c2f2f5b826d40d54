"""`x in (...)` as a level of the join: the same rows as by comparisons, and operations for its
values only.
"""

from random import Random

import pytest

import ivm
from ivm.plan import key_ranges
from ivm.plan.rewrite import memberships
from ivm.ways.way import Context

DECLARED = "e(x, y) -> int(x), int(y). s(n, x) -> string(n), int(x). f[x] = v -> int(x), decimal(8, 2)(v). "
PAIRS = [
    ("p(x, y) <- e(x, y), x in (1, 3, 9).", "q(x, y) <- e(x, y), (x = 1 ; x = 3 ; x = 9)."),
    (
        'p(n, x) <- s(n, x), n in ("a", "c", "z").',
        'q(n, x) <- s(n, x), (n = "a" ; n = "c" ; n = "z").',
    ),
    (
        "p(x, z) <- e(x, y), e(y, z), y in (0, 2, 2).",
        "q(x, z) <- e(x, y), e(y, z), (y = 0 ; y = 2).",
    ),
    (
        "p(x) <- f[x] = v, x in (1, 2), v in (0.5, 1).",
        "q(x) <- f[x] = v, (x = 1 ; x = 2), (v = 0.5 ; v = 1).",
    ),
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


TEXTS = ["", "a", "ab", "aé", "a%b", "a_", "ba", "b\\", "é", "éa", "𝄞", "\ud7ff", "z"]
CONDITIONS = [
    'n >= "a", n < "b"', 'n > "a"', '"ab" <= n', 'n <= "é", n > "a%"', 'starts_with[n, "a"]',
    'string:like[n, "a_%"]',
    'string:like[n, "é%"]', 'string:like[n, "a\\\\%%"]', 'starts_with[n, ""], n < "b"',
    'n > "b", n < "a"',
    'n > "a", n < "z", n > "ab", n < "é"', '!(n < "b")', "n < 1 + 1", 'n = "a", n < "b"',
]  # fmt: skip


def rows_of(workspace, query):
    try:
        return [*workspace.query(query)]
    except ivm.errors.RuleError as error:
        return str(error)


@pytest.mark.parametrize(
    "body", ["s(n, x)", "s(n, x), t(_, n)", "t(x, n), s(n, _)", "s(n, x), m = n + n", "v[n] = x?"]
)
def test_ranges_of_texts_are_sought_as_they_are_filtered(monkeypatch, body):
    with ivm.open(":memory:") as workspace:
        workspace.install(
            "s(n, x) -> string(n), int(x). t(x, n) -> int(x), string(n). v[x] = n -> string(x), "
            "string?(n). "
            "w(n, x) <- s(n, x), x > 4."
        )
        with workspace.transaction() as txn:
            txn.insert("s", [(n, x) for x, n in enumerate(TEXTS[:10])])
            txn.insert("t", [(x, n) for x, n in enumerate(TEXTS[3:])])
            txn.insert("v", [(n, None if x % 3 else n) for x, n in enumerate(TEXTS)])
        for condition in CONDITIONS:
            for held in ("n", "m") if "m =" in body else ("n",):
                query = f"q(n) <- {body}, {condition.replace('n ', held + ' ').replace('[n', '[' + held)}."
                seek_texts_from(monkeypatch, 1 << 40)
                filtered = rows_of(workspace, query)
                seek_texts_from(monkeypatch, 0.1)
                assert rows_of(workspace, query) == filtered
                if not isinstance(filtered, str):
                    workspace.replace("kept", query.replace("q(", "kept("))
                    assert [*workspace["kept"]] == filtered


def seek_texts_from(monkeypatch, share: float) -> None:
    """Seek texts in relations that have so many rows for each of them."""
    monkeypatch.setattr(memberships, "SHARE", share)
    monkeypatch.setattr(key_ranges, "SHARE", share)
    monkeypatch.setattr(key_ranges, "SEEK_ROWS", share)


SOUGHT = [
    't(n, x), n >= "n0123", n < "n01235"', 't(n, x), starts_with[n, "n0123"]',
    't(n, x), string:like[n, "n012_3%"]',
    't(n, x), "n01999" < n', 't(n, x), n < "n000009", u(n)', 'big(n, x), n <= "n000900"',
]  # fmt: skip


@pytest.mark.parametrize("body", SOUGHT)
def test_a_range_of_texts_takes_steps_for_its_texts_only(monkeypatch, body):
    counted = []
    monkeypatch.setattr(
        Context, "note_operations", lambda self, rule, operations: counted.append(operations)
    )
    with ivm.open(":memory:") as workspace:
        workspace.install(
            "t(n, x) -> string(n), int(x). u(n) -> string(n). big(n, x) <- t(n, x), x >= 900."
        )
        with workspace.transaction() as txn:
            txn.insert("t", [(f"n{x:06}", x) for x in range(20_000)])
            txn.insert("u", [(f"n{x:06}",) for x in range(0, 20_000, 10)])
        counted.clear()
        found = [*workspace.query(f"q(n, x) <- {body}.")]
        sought = sum(counted)
        counted.clear()
        if "u(n)" not in body:
            workspace.install(f"kept(n, x) <- {body}.", "kept")
            assert [*workspace["kept"]] == found and sum(counted) < 5_000
            counted.clear()
        seek_texts_from(monkeypatch, 1 << 40)
        assert [*workspace.query(f"q(n, x) <- {body}.")] == found
    assert found and sought < 5_000
    # the rows of t are sought by those of u that are left
    assert sum(counted) > 5_000 or "u(n)" in body
