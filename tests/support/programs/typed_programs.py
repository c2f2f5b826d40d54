"""Random programs over columns of every type, and edits with the values at which types end."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

ZONES = "Europe/Berlin", "America/New_York"
POOLS: dict[str, list[Any]] = {
    "int": [0, 1, 2, -1, 2**63 - 1, -(2**63) + 1],
    "uint64": [0, 1, 5, 2**63 - 1, 2**63, 2**64 - 1],
    "float": [0.0, 0.1, -0.1, 1e300, -1e-300, 2.5],
    "bool": [False, True],
    "date": [date(1970, 1, 1), date(1582, 10, 15), date(2024, 2, 29), date(9999, 12, 31)],
    "time": [time(0), time(12, 30), time(23, 59, 59, 999999)],
    "datetime": [datetime(1969, 12, 31, 23, 59, 59, 1), datetime(2024, 3, 31, 2, 30), datetime(9999,
    12, 31)],
    "duration": [timedelta(0), timedelta(microseconds=-1), timedelta(days=400), timedelta(hours=1)],
    "decimal(18, 2)": [Decimal("0.00"), Decimal("-0.01"), Decimal("9999999999999999.99"),
    Decimal("3.50")],
    "decimal(38, 2)": [Decimal("0.00"), Decimal("-0.01"), Decimal(10**36 - 1), Decimal("7.25")],
    "decimal(4, 4)": [Decimal("0.0000"), Decimal("-0.9999"), Decimal("0.0001")],
    "string": ["", "a", "ä", 'x "y"\n', "tea, shop", "z" * 40],
    "bytes": [b"", b"a", b"\xff\x00", b"tea"],
} | {
    f"`timestamp({zone})`": [
        datetime(2024, 10, 27, 0, 30, tzinfo=UTC).astimezone(ZoneInfo(zone)),
        datetime(2024, 10, 27, 1, 30, tzinfo=UTC).astimezone(ZoneInfo(zone)),
        datetime(1945, 5, 24, 2, tzinfo=UTC).astimezone(ZoneInfo(zone)),
    ]
    for zone in ZONES
}  # fmt: skip
NUMBERS = "int", "decimal(18, 2)", "decimal(4, 4)", "float"


def typed_case(seed: int, chosen: str = "") -> tuple[str, list[list[tuple[str, tuple, bool]]]]:
    """A program over two or three types, one of them the `chosen` one, and batches."""
    drawn = Random(seed)
    a, b, v = (drawn.choice([*POOLS]) for _ in "abv")
    a, v = chosen or a, drawn.choice([chosen or v, v])
    stored = {"p": (a, b), "q": (b, a), "f": (a, v), "g": (a, b, v)}
    mark = "" if v == "uint64" else "?"
    text = f"""p(x, y) -> {a}(x), {b}(y).  q(k, l) -> {b}(k), {a}(l).
        f[x] = v -> {a}(x), {v}{mark}(v).  g[x, y] = v -> {a}(x), {b}(y), {v}(v).\n"""
    text += "\n".join(drawn.sample(_rules(drawn, a, b, v), 6))

    def edit() -> tuple[str, tuple, bool]:
        name = drawn.choice([*stored])
        row = [drawn.choice(POOLS[type_]) for type_ in stored[name]]
        if name == "f" and mark and drawn.random() < 0.2:
            row[-1] = None
        return name, tuple(row), drawn.random() < 0.7

    return text, [[edit() for _ in range(size)] for size in (12, 4, 4)]


def _rules(drawn: Random, a: str, b: str, v: str) -> list[str]:
    """Rules that any types take, and those that theirs take."""
    rules = [
        "u(x) <- p(x, _).  u(l) <- q(_, l).  u(s) <- f[s] = _.  uu(r) <- u(r), !p(r, _).",
        "uf[x] = y <- f[x] = y.  uf[k] = l <- g[k, m] = l, p(k, m).",
        "h[x, one] = v <- g[x, one] = v, p(x, one).  hh(v) <- h[_, _] = v.  hk(x) <- h[x, _] = _.",
        "j(x, z) <- p(x, y), q(y, z).  jn[z] = n <- agg<<n = count()>> j(_, z).",
        "n(x, y) <- p(x, y), !q(y, _).",
        "w(v) <- f[_] = v.  w(k) <- g[_, _] = k.  wn[] = n <- agg<<n = count()>> w(_).",
        "m(x) <- p(x, _), !f[x] = _.",
        "c[x] = n <- agg<<n = count()>> p(x, _) ; q(_, x).",
        "d[y] = n <- agg<<n = count_distinct(v)>> g[_, y] = v.  e[v] = n <- agg<<n = count()>> "
        "g[_, _] = v.",
        "both(x, y), left(x) <- p(x, y), q(y, x).  right(y) <- both(_, y).",
        "k[y] = x <- q(y, x).",
        "same(x, y) <- g[x, y] = v, f[x] = v.  pairs(x, z) <- f[x] = v, f[z] = v.",
    ]
    if v != "bool":
        rules += [
            "lo[x] = s, hi[x] = t <- agg<<s = min(v), t = max(v)>> g[x, _] = v.  top1(v) <- hi[_] "
            "= v.",
            "most[] = s <- agg<<s = max(v)>> f[_] = v.  least[] = s <- agg<<s = min(v)>> (f[_] = v "
            "; g[_, _] = v).",
            "mid[y] = s <- agg<<s = quantile(v, 0.5)>> g[_, y] = v.",
            "three[n] = s <- agg<<(n, s) = top(v, 3)>> f[_] = v.",
            "chosen[y] = r <- agg<<r = argmax(x, v)>> g[x, y] = v.  early[] = r <- agg<<r = "
            "first(x, v)>> f[x] = v.",
            "below(x, z) <- f[x] = s, f[z] = t, s < t.",
        ]
    if v in NUMBERS:
        op = "total" if v == "float" else "sum"
        rules += [
            f"s[x] = t <- agg<<t = {op}(v)>> g[x, _] = v.  all[] = t <- agg<<t = {op}(v)>> f[_] = "
            f"v.",
            f"mean[y] = t <- agg<<t = avg(v)>> g[_, y] = v.  ss[t] = n <- agg<<n = count()>> sx[_] "
            f"= t.  "
            f"sx[y] = t <- agg<<t = {op}(v)>> g[_, y] = v, p(_, y).",
        ]
    if v == "int":
        rules.append(
            "plus(x, v) <- f[x] = v.  plus(z, v / 2) <- g[z, _] = v.  plus(z, t) <- p(z, _), f[z] "
            "= v, t = v - 1."
        )
    literal = _literal(v, drawn.choice(POOLS[v]))
    if literal:
        rules.append(
            f"lit(x) <- f[x] = {literal}.  lit(y) <- g[y, _] = {literal}.  nolit(x) <- p(x, _), "
            f"!f[x] = {literal}."
        )
        rules.append(f"made[x] = {literal} <- p(x, _).")
    return rules


def _literal(type_: str, value: Any) -> str | None:
    """A value as a rule has it; None for what no literal says."""
    if type_ in ("string", "int", "uint64", "bool", "float", "date"):
        from ivm.lang.ir import Const, show_constant

        return show_constant(Const(value, {"int": "int64", "float": "float64"}.get(type_, type_)))
    return None
