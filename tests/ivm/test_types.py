"""Values of every type through rules: arithmetic, comparisons, literals and sums, beside the slow truth.

    v[x] = w <- f[x] = a, g[x] = b, w = a op b.            p(x) <- f[x] = a, g[x] = b, a op b.

Values come from the whole range of their type, so that what does not fit is refused by both.
"""

import tempfile
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ivm.lang.rule import Const
from ivm.lang.show import show_constant
from tests.mirror import Mirror

relaxed = settings(max_examples=30, suppress_health_check=list(HealthCheck))

INT = st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1))
DATE = st.dates(date(1000, 1, 1), date(3000, 1, 1))
TIME = st.datetimes(datetime(1000, 1, 1), datetime(3000, 1, 1))
FLOAT = st.floats(allow_nan=False, allow_infinity=False).map(lambda v: v + 0.0)  # -0.0 is stored as 0.0


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda n: Decimal(n).scaleb(-scale))


TYPES: dict[str, tuple[str, st.SearchStrategy]] = {
    "int": ("int64", INT),
    "float": ("float64", FLOAT),
    "date": ("date", DATE),
    "datetime": ("timestamp", TIME),
    "decimal(9,2)": ("decimal(9,2)", decimals(9, 2)),
    "decimal(18,4)": ("decimal(18,4)", decimals(18, 4)),
    "string": ("string", st.text(max_size=3)),
    "bool": ("bool", st.booleans()),
}
DAYS = st.integers(-1000, 1000)


@contextmanager
def mirror(text: str):
    with tempfile.TemporaryDirectory() as folder:
        made = Mirror(Path(folder) / "store.pages", text)
        yield made
        made.reopen()
        made.close()


def functions(left: str, right: str) -> str:
    return f"f[x] = a -> int(x), {left}(a). g[x] = b -> int(x), {right}(b). "


def follow(text: str, rows: list[tuple]) -> None:
    """Insert pairs, replace them by one another, delete them."""
    with mirror(text) as m:
        for x, (a, b) in enumerate(rows):
            m.change([("f", (x, a), True), ("g", (x, b), True)])
        for x, (a, _) in enumerate(reversed(rows)):
            m.insert("f", (x, a))
        m.delete("f", *((x, None) for x in range(len(rows))))


@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
@pytest.mark.parametrize("left, right", [("int", "int"), ("float", "float")])
def test_numbers(op, left, right):
    check_arithmetic(op, left, right, TYPES[left][1], TYPES[right][1])


@pytest.mark.parametrize(
    ("op", "left", "right"),
    [
        ("+", "decimal(9,2)", "decimal(9,2)"),
        ("-", "decimal(18,4)", "decimal(18,4)"),
        ("*", "decimal(9,2)", "decimal(18,4)"),
        ("*", "decimal(9,2)", "int"),
        ("*", "int", "decimal(18,4)"),
        ("-", "date", "date"),
        ("-", "datetime", "datetime"),
    ],
)
def test_decimals_and_moments(op, left, right):
    check_arithmetic(op, left, right, TYPES[left][1], TYPES[right][1])


@pytest.mark.parametrize(
    "op, left, right", [("+", "date", "int"), ("-", "date", "int"), ("+", "int", "datetime")]
)
def test_moments_and_ints(op, left, right):
    values = {"int": DAYS, "date": DATE, "datetime": TIME}
    check_arithmetic(op, left, right, values[left], values[right])


def check_arithmetic(
    op: str, left: str, right: str, lefts: st.SearchStrategy, rights: st.SearchStrategy
) -> None:
    @relaxed
    @given(st.lists(st.tuples(lefts, rights), min_size=1, max_size=4))
    def run(rows):
        follow(functions(left, right) + f"v[x] = w <- f[x] = a, g[x] = b, w = a {op} b.", rows)

    run()


@pytest.mark.parametrize("kind", TYPES)
def test_comparisons(kind):
    type_, values = TYPES[kind]
    ops = ["=", "!="] if kind in ("string", "bool") else ["=", "!=", "<", "<=", ">", ">="]

    @relaxed
    @given(st.lists(st.tuples(values, values), min_size=1, max_size=4), st.sampled_from(ops), values)
    def run(rows, op, constant):
        literal = show_constant(Const(constant, type_))
        rows = [*rows, (rows[0][0], rows[0][0]), (constant, rows[0][1])]
        rules = f"p(x) <- f[x] {op} g[x]. q(x) <- f[x] {op} {literal}. r(x) <- f[x] = a, g[y] = a, x != y."
        follow(functions(kind, kind) + rules, rows)

    run()


@pytest.mark.parametrize("kind", ["int", "decimal(9,2)", "decimal(18,4)"])
def test_sums(kind):
    # s[0] = t <- agg<<t = sum(a)>> f[_] = a.
    values = st.integers(-(2**61), 2**61) if kind == "int" else TYPES[kind][1]

    @relaxed
    @given(st.lists(st.tuples(values, values), min_size=1, max_size=3))
    def run(rows):
        follow(functions(kind, kind) + "s[0] = t <- agg<<t = sum(a)>> f[_] = a.", rows)

    run()


@pytest.mark.parametrize("kind", ["int", "float", "date", "datetime", "decimal(18,4)"])
def test_the_order_of_a_key_column_is_the_order_of_its_values(kind):
    # up(a, b) <- k(a), k(b), a < b.
    _, values = TYPES[kind]

    @settings(relaxed, max_examples=10)
    @given(st.lists(values, min_size=2, max_size=5))
    def run(found):
        with mirror(f"k(a) -> {kind}(a). up(a, b) <- k(a), k(b), a < b.") as m:
            m.insert("k", *((value,) for value in found))
            m.delete("k", (found[0],))

    run()
