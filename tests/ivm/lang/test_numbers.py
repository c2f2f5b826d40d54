"""`range` and `string:split` as relations: in every direction, maintained, beside Python's range
and split.
"""

from decimal import Decimal
from random import Random

import pytest

import ivm
from ivm.errors import ArityError, RangeError, SafetyError
from ivm.lang.rewrite import numbers

DECLARED = "a(x) -> int(x). b(x, y) -> int(x), int(y). s[k] = t -> int(k), string(t). "


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists of up to 64 numbers by 8, which the slow truth can join."""
    for name, value in {"DIGIT": 2, "UNITS": 8, "LISTED_MAX": 64}.items():
        monkeypatch.setattr(numbers, name, value)


def test_a_range_follows_its_ends(views, few):
    mirror = views(
        DECLARED
        + "up(x, i) <- a(x), range(0, x, i). between(x, y, i) <- b(x, y), i = range[x, y]. "
        "steps(x, i) <- a(x), range(x, -9, -4, i). some(x) <- a(x), range(2, 11, 3, x). "
        "chained(x, y) <- y = range[z, z + 3], z = v * 4, v = x, x = range[0, 4]. "
        "lacking(x, i) <- a(x), range(0, x, i), !b(i, _). full(x) <- a(x), !(range(0, x, i), !b(i, "
        "_)). "
        "n[x] = c <- agg<<c = count()>> a(x), range(0, x, _). "
        "either(x, i) <- a(x), (range(0, x, i) ; range(x, 0, i)). "
        "reached(x) <- a(x). reached(y) <- reached(x), range(x + 1, x + 3, y), y < 12."
    )
    mirror.insert("a", (3,), (12,), (-2,), (5,))
    mirror.insert("b", (0, 3), (2, 2), (1, 40))
    mirror.change(
        [("a", (12,), False), ("a", (8,), True), ("b", (2, 2), False), ("b", (2, 7), True)]
    )
    rows = {
        name: [*mirror.workspace[name]] for name in ("up", "between", "steps", "some", "full", "n")
    }
    assert rows["up"] == [(x, i) for x in (-2, 3, 5, 8) for i in range(x)]
    assert rows["between"] == [(x, y, i) for x, y in ((0, 3), (1, 40), (2, 7)) for i in range(x, y)]
    assert rows["steps"] == [(x, i) for x in (-2, 3, 5, 8) for i in sorted(range(x, -9, -4))]
    assert rows["some"] == [(5,), (8,)]
    assert rows["full"] == [(-2,), (3,)]
    assert rows["n"] == [(3, 3), (5, 5), (8, 8)]
    assert mirror.workspace.check() == []


def test_random_ranges_are_those_of_python(views, few):
    random = Random(5)
    mirror = views(
        DECLARED
        + "r(x, y, i) <- b(x, y), range(x, y, 2, i). back(x, y, i) <- b(x, y), range(y, x, -3, i)."
    )
    rows = set()
    for _ in range(12):
        row = random.randint(-20, 20), random.randint(-20, 20)
        mirror.change([("b", row, row not in rows)])
        rows ^= {row}
        assert [*mirror.workspace["r"]] == sorted(
            (x, y, i) for x, y in rows for i in range(x, y, 2)
        )
        assert [*mirror.workspace["back"]] == sorted(
            (x, y, i) for x, y in rows for i in range(y, x, -3)
        )


def test_fractions_and_unsigned_numbers_are_listed(views, few):
    mirror = views(
        "f(x, y) -> float(x), float(y). d(x, y) -> decimal(8,2)(x), decimal(8,2)(y). u(x) -> "
        "uint64(x). "
        "halves(x, y, i) <- f(x, y), range(x, y, 0.5, i). down(x, y, i) <- f(x, y), i = range[y, "
        "x, -0.1]. "
        "whole(x, y) <- f(x, y), range(-2, y, x). third(x, y) <- f(x, y), range(0, 2, 0.1, x). "
        "cents(x, y, i) <- d(x, y), range(x, y, 0.25, i). euros(x, y) <- d(x, y), range(1, 5, y). "
        "tenths(x) <- range(0, 1, 0.25, x). "
        "few(x, i) <- u(x), range(0, x, i). every(x) <- u(x), range(1, 9, 2, x)."
    )
    mirror.insert(
        "f", (0.0, 2.0), (0.1, 0.7), (1.0, 1.0), (3.0, -0.3), (1e16, 1e16 + 4), (0.3, 2.5)
    )
    mirror.insert("d", (Decimal("0.25"), Decimal("1.50")), (Decimal("1.00"), Decimal("3.00")))
    mirror.insert("u", (0,), (3,), (7,))
    mirror.delete("f", (0.1, 0.7))
    mirror.insert("f", (-0.0, 1.75))
    rows = {
        name: [*mirror.workspace[name]]
        for name in ("halves", "cents", "euros", "few", "every", "third")
    }
    assert [i for x, _, i in rows["halves"] if x == 0.3] == [0.3, 0.8, 1.3, 1.8, 2.3]
    assert [i for x, _, i in rows["cents"] if x < 1] == [Decimal("0.25") * n for n in range(1, 6)]
    assert [*mirror.workspace["tenths"]] == [(Decimal("0.25") * n,) for n in range(4)]
    assert rows["euros"] == [(Decimal(1), Decimal(3))]
    assert rows["few"] == [
        (3, 0),
        (3, 1),
        (3, 2),
        (7, 0),
        (7, 1),
        (7, 2),
        (7, 3),
        (7, 4),
        (7, 5),
        (7, 6),
    ]
    assert [*mirror.workspace.query("q(x, i) <- few(x, i), u(i).")] == [(3, 0), (7, 0), (7, 3)]
    assert rows["every"] == [(3,), (7,)]
    assert 0.3 not in [x for x, _ in rows["third"]]  # 3 * 0.1 is not 0.3
    assert mirror.workspace.check() == []


def test_days_are_listed_as_numbers_are():
    with ivm.open(":memory:") as workspace:
        workspace.install("stay(d, e) -> date(d), date(e). night(x) <- stay(d, e), range(d, e, x).")
        workspace.exec("+stay(#2020-02-28#, #2020-03-01#).")
        assert [str(day) for (day,) in workspace["night"]] == ["2020-02-28", "2020-02-29"]


TEXTS = ["", "a", "a,b", ",", "é,,𝄞", "a,b,c,d,e,f,g,h,i"]


def test_a_split_has_the_parts_of_a_text(views, few):
    mirror = views(
        DECLARED
        + 'part(k, i, p) <- s[k] = t, string:split(t, ",", i, p). second(k, p) <- s[k] = t, '
        'split(t, ",", 2, p). '
        'at(k, i) <- s[k] = t, split(t, ",", i, "b"). whole(k, p) <- s[k] = t, split(t, "", _, p). '
        'same(k) <- s[k] = t, a(i), string:split(t, ",", i, t).'
    )
    mirror.insert("a", (1,))
    mirror.insert("s", *enumerate(TEXTS))
    parts = [(k, i, p) for k, t in enumerate(TEXTS) for i, p in enumerate(t.split(","), start=1)]
    assert [*mirror.workspace["part"]] == parts
    assert [*mirror.workspace["second"]] == [(k, p) for k, i, p in parts if i == 2]
    assert [*mirror.workspace["at"]] == [(2, 2), (5, 2)]
    assert [*mirror.workspace["same"]] == [(0,), (1,)]
    mirror.delete("s", (2, "a,b"))
    mirror.insert("s", (1, "x,b"))
    assert mirror.workspace.check() == []


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        (
            "range(0, n, x)",
            SafetyError,
            "n is not bound, which range needs: without an end it would list numbers",
        ),
        ("a(x), range(_, x, y), y = 3", SafetyError, "`_` is not bound, which range needs"),
        ("range(0, x)", ArityError, "range takes 3 or 4 arguments: write range(from, to, x)"),
        (
            'split("a", ",", x)',
            ArityError,
            "split takes 4 arguments: write string:split(s, separator, i, part)",
        ),
        (
            "range(0, 20000000, x)",
            RangeError,
            "a range has more than 16,777,216 numbers, or a step of 0",
        ),
        (
            "range(0, 9, 0, x)",
            RangeError,
            "a range has more than 16,777,216 numbers, or a step of 0",
        ),
        (
            "a(x), range(0, 9, 0, x)",
            RangeError,
            "a range has more than 16,777,216 numbers, or a step of 0",
        ),
    ],
)
def test_lists_without_an_end_are_refused(body, error, says):
    with ivm.open(":memory:") as workspace:
        workspace.install("a(x) -> int(x). +a(1).")
        with pytest.raises(error) as caught:
            list(workspace.query(f"q(x) <- {body}."))
        assert says in str(caught.value)


def test_a_long_range_fails_only_where_a_binding_needs_it():
    with ivm.open(":memory:") as workspace:
        workspace.install(
            DECLARED + "p(x, i) <- b(x, y), range(x, y, i), x != 7. +b(7, 30000000). +b(1, 3)."
        )
        assert [*workspace["p"]] == [(1, 1), (1, 2)]


def test_a_predicate_of_the_name_takes_precedence():
    with ivm.open(":memory:") as workspace:
        workspace.install(
            "range(x, y, z) -> int(x), int(y), int(z). p(z) <- range(1, 5, z). +range(1, 5, 77)."
        )
        assert [*workspace["p"]] == [(77,)]


def test_a_long_range_takes_steps_for_its_own_numbers_only():
    with ivm.open(":memory:") as workspace:
        assert [*workspace.query("n[] = c <- agg<<c = count()>> range(0, 1000000, _).")] == [
            (1_000_000,)
        ]
        assert [*workspace.query("q(x) <- range(0, 9000000, x), x in (5, 8999999, 9000000).")] == [
            (5,),
            (8999999,),
        ]
