"""Values of every type through rules: arithmetic, comparisons, literals and sums, beside the slow
truth.

    v[x] = w <- f[x] = a, g[x] = b, w = a op b.            p(x) <- f[x] = a, g[x] = b, a op b.

Values come from the whole range of their type, so that what does not fit is refused by both.
"""

import re
import tempfile
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import RangeError, RuleSyntaxError, RuleTypeError
from ivm.lang.ir import Const, show_constant
from ivm.rules.compile import compile
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times

relaxed = settings(max_examples=times(12), suppress_health_check=list(HealthCheck))

INT = st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1))
DATE = st.dates()
TIME = st.datetimes()
# -0.0 is stored as 0.0
FLOAT = st.floats(allow_nan=False, allow_infinity=False).map(lambda v: v + 0.0)


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda n: Decimal(n).scaleb(-scale))


def in_zone(value: datetime) -> datetime:
    return value.replace(tzinfo=timezone(timedelta(hours=2)))


TYPES: dict[str, tuple[str, st.SearchStrategy]] = {
    "int": ("int64", INT),
    "float": ("float64", FLOAT),
    "date": ("date", DATE),
    "datetime": ("timestamp", TIME),
    "decimal(9,2)": ("decimal(9,2)", decimals(9, 2)),
    "decimal(18,4)": ("decimal(18,4)", decimals(18, 4)),
    "string": ("string", st.text(max_size=3)),
    "bool": ("bool", st.booleans()),
    "bytes": ("bytes", st.text(max_size=3).map(str.encode)),
    "uint64": ("uint64", st.one_of(st.integers(0, 9), st.integers(0, 2**64 - 1))),
    "time": ("time", st.times()),
    "duration": ("duration", st.integers(-(2**50), 2**50).map(lambda n: timedelta(microseconds=n))),
    "`timestamp(+02:00)`": (
        "timestamp(+02:00)",
        st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1)).map(in_zone),
    ),
}
DAYS = st.one_of(st.integers(-1000, 1000), INT)


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


@pytest.mark.parametrize(
    ("type_", "value", "term", "says"),
    [
        ("date", "#9999-12-31#", "a + 1", "`a + 1` is day 2932897 from 1970-01-01, beyond date;"),
        ("date", "#0001-01-01#", "a - 1", "`a - 1` is day -719163 from 1970-01-01, beyond date;"),
        (
            "date",
            "#2013-01-01#",
            "a + 4294967296",
            "`a + 4294967296` is day 4294983002 from 1970-01-01, beyond date;",
        ),
        (
            "datetime",
            "#9999-12-31 23:59:59.999999#",
            "a + 1",
            "microsecond 253402300800000000 from 1970-01-01, beyond",
        ),
        (
            "decimal(9, 2)",
            "9999999.99",
            "a * 1000000000000",
            "is 9999999990000000000.00, beyond decimal(18,2);",
        ),
        ("int", "9223372036854775807", "a + 1", "`a + 1` is 9223372036854775808, beyond int64;"),
    ],
)
def test_what_a_type_does_not_hold_is_refused_as_a_value(type_, value, term, says):
    with (
        tempfile.TemporaryDirectory() as folder,
        ivm.open(Path(folder) / "store.pages", sync="off") as ws,
    ):
        ws.install(f"f(a) -> {type_}(a). v({term}) <- f(a).")
        with pytest.raises(
            RangeError, match=f"^main:1:\\d+: .*{re.escape(says)}.* exclude it with a comparison$"
        ):
            ws.exec(f"+f({value}).")
        assert (list(ws["f"]), list(ws["v"])) == ([], [])


@pytest.mark.parametrize("kind", TYPES)
def test_comparisons(kind):
    type_, values = TYPES[kind]
    ops = ["=", "!="] if kind in ("string", "bool") else ["=", "!=", "<", "<=", ">", ">="]

    @relaxed
    @given(
        st.lists(st.tuples(values, values), min_size=1, max_size=4), st.sampled_from(ops), values
    )
    def run(rows, op, constant):
        literal = show_constant(Const(constant, type_))
        rows = [*rows, (rows[0][0], rows[0][0]), (constant, rows[0][1])]
        rules = f"p(x) <- f[x] {op} g[x]. q(x) <- f[x] {op} {literal}. r(x) <- f[x] = a, g[y] = a, x != y."
        follow(functions(kind, kind) + rules, rows)

    run()


@pytest.mark.parametrize("kind", ["int", "decimal(9,2)", "decimal(18,4)"])
def test_sums(kind):
    # s[0] = t <- agg<<t = sum(a)>> f[_] = a.
    values = st.one_of(st.sampled_from([2**62, -(2**63)]), INT) if kind == "int" else TYPES[kind][1]

    @relaxed
    @given(st.lists(st.tuples(values, values), min_size=1, max_size=3))
    def run(rows):
        follow(functions(kind, kind) + "s[0] = t <- agg<<t = sum(a)>> f[_] = a.", rows)

    run()


@pytest.mark.parametrize("key", ["", "x"])
class TestSums:
    """Of a group whose partial sums do not fit, in whatever order they are added, or which does
    not fit itself.
    """

    @pytest.fixture
    def ws(self, key, tmp_path):
        # s[x] = t <- agg<<t = sum(v)>> f[x, _] = v.          d[x] = t <- agg<<t = sum(v)>> g[x, _]
        # = v.
        with ivm.open(tmp_path / "store.pages", sync="off") as ws:
            f, g = (
                "f[x, y] = v -> int(x), int(y), int(v).",
                "g[x, y] = v -> string(x), int(y), decimal(18, 2)(v).",
            )
            ws.install(f"{f} {g}", name="stored")
            ws.install(self.rules(key), name="sums")
            yield ws

    def rules(self, key: str, prefix: str = "") -> str:
        return "".join(
            f"{prefix}{name}[{key}] = t <- agg<<t = sum(v)>> {of}[{key or '_'}, _] = v. "
            for name, of in (("d", "g"), ("s", "f"))
        )

    def test_a_part_that_does_not_fit(self, ws, key):
        for y, sign in ((1, ""), (3, "-"), (2, "")):
            ws.exec(f"+f[7, {y}] = {sign}{2**62}.")
        ws.verify("s")
        ws.install(self.rules(key, "again_"), name="again")
        answer = ws.query(self.rules(key, "q_"))
        assert (
            list(answer)
            == list(ws["s"])
            == list(ws["again_s"])
            == [(7, 2**62) if key else (2**62,)]
        )

    def test_a_change_that_does_not_fit(self, ws, key):
        ws.exec(f"+f[7, 0] = -{2**62}. +f[8, 0] = 1.")
        ws.exec(f"+f[7, 1] = {2**62}. +f[7, 2] = {2**62}. -f[8, 0].")
        assert list(ws["s"]) == [(7, 2**62) if key else (2**62,)]
        ws.exec("-f[7, 0]. -f[7, 1]. -f[7, 2].")
        assert list(ws["s"]) == []

    def test_a_whole_that_does_not_fit(self, ws, key):
        says = rf"^\w*s\[{key and 7}\]: the sum is {2**63}, beyond int64; make its groups smaller, or use total"
        ws.exec(f"+f[7, 0] = {2**62}.")
        with pytest.raises(RangeError, match=says):
            ws.exec(f"+f[7, 1] = {2**62}.")
        with pytest.raises(RangeError, match=says):
            ws.exec(f"+f[7, 1] = {2**62}. +f[7, 2] = {2**62}. +f[7, 3] = -{2**62}.")
        ws.uninstall("sums")
        ws.exec(f"+f[7, 1] = {2**62}.")
        for ask in (ws.query, ws.install):
            with pytest.raises(RangeError, match=says):
                ask(self.rules(key, "q_"))

    def test_the_least_summand(self, ws, key):
        """It has no negative that could be added when it goes."""
        least, group = -(2**63), (7,) if key else ()
        for edits, total in (
            (f"+f[7, 0] = {least}.", least),
            (f"+f[7, 1] = {2**63 - 1}. +f[7, 2] = 3.", 2),
            (f"-f[7, 0]. -f[7, 1]. +f[7, 3] = {2**62}.", 2**62 + 3),
            (f"+f[7, 4] = {least}. +f[7, 5] = {least}. +f[7, 6] = {2**63 - 1}.", least + 2**62 + 2),
            (f"^f[7, 4] = 1. ^f[7, 2] = {least}.", least + 2**62),
            ("-f[7, 2]. -f[7, 5].", None),  # beyond
            ("-f[7, 2]. -f[7, 5]. -f[7, 6].", 2**62 + 1),
            (f"+f[7, 0] = {least}. +f[7, 1] = {least}.", None),
            ("-f[7, 3]. -f[7, 4].", ()),
        ):
            if total is None:
                with pytest.raises(RangeError, match="the sum is"):
                    ws.exec(edits)
                continue
            ws.exec(edits)
            assert list(ws["s"]) == ([(*group, total)] if total != () else [])
            ws.verify("s")
        assert list(ws.query(self.rules(key, "q_"))) == []

    def test_more_digits_than_a_decimal_has(self, ws, key):
        group = "'tea'" if key else ""
        says = (
            rf"^\w*d\[{group}\]: the sum is 18000000000000000.00, beyond decimal\(18,2\); make its"
        )
        ws.exec('+g["tea", 0] = 9000000000000000.00.')
        with pytest.raises(RangeError, match=says):
            ws.exec('+g["tea", 1] = 9000000000000000.00.')
        ws.uninstall("sums")
        ws.exec('+g["tea", 1] = 9000000000000000.00.')
        for ask in (ws.query, ws.install):
            with pytest.raises(RangeError, match=says):
                ask(self.rules(key, "q_"))


@pytest.mark.parametrize("kind", ["int", "float", "date", "datetime", "decimal(18,4)"])
def test_the_order_of_a_key_column_is_the_order_of_its_values(kind):
    # up(a, b) <- k(a), k(b), a < b.
    _, values = TYPES[kind]

    @settings(relaxed, max_examples=times(5))
    @given(st.lists(values, min_size=2, max_size=5))
    def run(found):
        with mirror(f"k(a) -> {kind}(a). up(a, b) <- k(a), k(b), a < b.") as m:
            m.insert("k", *((value,) for value in found))
            m.delete("k", (found[0],))

    run()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("f(x) -> int[x](x).", "a type with a size is written as in int[32](x)"),
        ("f(x) -> decimal(x, 2)(x).", "a decimal type is written as in decimal(8, 2)(x)"),
        ("f(x) -> timestamp(UTC)(x).", "in backquotes, as in `timestamp(UTC)`(x)"),
        (
            "f(x) -> `timestamp(Europe/Berlin)`(x). g(x) <- f(x), x < #2013-03-31 02:30:00#.",
            "the clocks of Europe/Berlin leave 2013-03-31 02:30:00 out",
        ),
        (
            "f(x) -> `timestamp(Asia/Tokyo)`(x). g(x) <- f(x), x > #0001-01-01 00:00:00#.",
            "0001-01-01 00:00:00 in the time zone Asia/Tokyo: date value out of range",
        ),
        ("f(x) -> date(x). g(x) <- f(x), x < #2013-03-31 10:00:00#.", "a date is written #2013"),
        ("f(x) -> date(x). g(x) <- f(x), x < #2013#.", "write #2013-01-31# or #2013-01-31 17:05"),
        (
            "f(x) -> datetime(x). g(x) <- f(x), x < #2013-03-31 10:00:00.1234567#.",
            "is finer than microseconds: write at most six digits",
        ),
        (
            "f(x) -> duration(x). g(x) <- f(x), x < 99999999999999999999.",
            "99999999999999999999 microseconds are more than a duration holds",
        ),
        ("f(x) -> uint64(x). g(y) <- f(x), y = 1 / x.", "there is no int64 / uint64"),
    ],
)
def test_a_type_or_a_literal_that_is_wrong_is_refused_with_a_remedy(text, says):
    with pytest.raises((RuleSyntaxError, RuleTypeError), match=re.escape(says)):
        compile(text)


@pytest.mark.parametrize(
    "text",
    [
        "date(x). g(x) <- f(x), x < #2013-03-31 00:00:00#.",
        "datetime(x). g(x) <- f(x), x < #2013-03-31#.",
    ],
)
def test_midnight_and_its_day_are_literals_of_both_types(text):
    compile(f"f(x) -> {text}")


def test_a_zone_that_nobody_knows_is_refused_before_a_row_is_in_it(tmp_path):
    with ivm.open(tmp_path / "s.pages") as ws:
        with pytest.raises(RuleTypeError, match="rules:1:1: Nowhere/City is not a time zone"):
            ws.install("p(x) -> `timestamp(Nowhere/City)`(x).", name="rules")
        ws.install("p(x) -> `timestamp(+02:00)`(x).", name="rules")
