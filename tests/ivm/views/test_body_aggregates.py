"""Aggregates in bodies: beside the same written with a view of each, maintained and from
scratch.
"""

from random import Random

import pytest

import ivm
from ivm.errors import RuleError

DECLARED = "edge(x, y) -> int(x), int(y). node(x) -> int(x). w[x] = v -> int(x), int?(v). "
PAIRS = [  # what is written, and the same with views of its own
    (
        "p(x, n) <- node(x), agg<<n = count()>> edge(x, _).",
        "f[x] = n <- agg<<n = count()>> edge(x, _). q(x, n) <- node(x), f[x] = n.",
    ),
    (
        "p(x, n, t) <- node(x), agg<<n = count() else 0, t = sum(y) else 0>> edge(x, y), n < 3.",
        "f[x] = n, g[x] = t <- agg<<n = count() else 0, t = sum(y) else 0 for node(x)>> edge(x, "
        "y). "
        "q(x, n, t) <- f[x] = n, g[x] = t, n < 3.",
    ),
    (
        "p(x, n) <- node(x), agg<<n = count() else 0>> (edge(_, y), y < x).",
        "f[x] = n <- agg<<n = count() else 0 for node(x)>> node(x), edge(_, y), y < x. q(x, n) <- "
        "f[x] = n.",
    ),
    (
        "p(x, n) <- node(x), agg<<n = count()>> (edge(z, y), y < x, node(z)).",
        "f[x] = n <- agg<<n = count()>> node(x), edge(z, y), y < x, node(z). q(x, n) <- f[x] = n.",
    ),
    (
        "p(x) <- node(x), !(agg<<n = count()>> edge(x, _), n > 1).",
        "f[x] = n <- agg<<n = count()>> edge(x, _). q(x) <- node(x), !(f[x] = n, n > 1).",
    ),
    (
        "p(x, l, h) <- node(x), agg<<l = min(z)>> edge(x, z), agg<<h = max(z)>> edge(z, x).",
        "f[x] = l <- agg<<l = min(z)>> edge(x, z). g[x] = h <- agg<<h = max(z)>> edge(z, x). "
        "q(x, l, h) <- node(x), f[x] = l, g[x] = h.",
    ),
    (
        "p(x, n) <- node(x), (x < 2, agg<<n = count()>> edge(x, _) ; x >= 2, agg<<n = sum(z)>> "
        "edge(z, x)).",
        "f[x] = n <- agg<<n = count()>> edge(x, _). g[x] = n <- agg<<n = sum(z)>> edge(z, x). "
        "q(x, n) <- node(x), x < 2, f[x] = n ; node(x), x >= 2, g[x] = n.",
    ),
    (
        "p(n) <- agg<<n = count()>> (node(x), agg<<m = count() else 0>> edge(x, _), m < 2).",
        "f[x] = m <- agg<<m = count() else 0 for node(x)>> edge(x, _). c[] = n <- agg<<n = "
        "count()>> f[_] = m, m < 2. "
        "q(n) <- c[] = n.",
    ),
    (
        "p(x, n, m) <- node(x), agg<<n = count() else 0>> edge(x, _), agg<<m = count() else 0>> "
        "(node(z), z < n).",
        "f[x] = n <- agg<<n = count() else 0 for node(x)>> edge(x, _). "
        "h(n) <- f[_] = n. g[n] = m <- agg<<m = count() else 0 for h(n)>> h(n), node(z), z < n. "
        "q(x, n, m) <- f[x] = n, g[n] = m.",
    ),
    (
        "p(x, m) <- w[x] = v, agg<<m = min(y)>> (edge(_, y), agg<<s = sum(z) else 0>> (edge(x, z), "
        "z <= y), "
        "t = s, 2 * t >= v).",
        "f[x, y] = s <- agg<<s = sum(z) else 0 for w[x] = _, edge(_, y)>> edge(x, z), edge(_, y), "
        "z <= y. "
        "g[x] = m <- agg<<m = min(y)>> w[x] = v, f[x, y] = s, 2 * s >= v. q(x, m) <- g[x] = m.",
    ),
    (
        "p(x, m) <- node(x), agg<<m = min(h)>> (node(x), agg<<h = max(n)>> (node(y), agg<<n = "
        "count() else 0>> "
        "edge(x, y))).",
        "f[x, y] = n <- agg<<n = count() else 0 for node(x), node(y)>> edge(x, y). "
        "g[x] = h <- agg<<h = max(n)>> f[x, _] = n. q(x, h) <- g[x] = h.",
    ),
    (
        "p(x, i, y) <- node(x), agg<<(i, y) = top(z, 2)>> edge(x, z).",
        "f[x, i] = y <- agg<<(i, y) = top(z, 2)>> edge(x, z). q(x, i, y) <- node(x), f[x, i] = y.",
    ),
    (
        "p(x, s) <- node(x), agg<<s = sum(v)>> (edge(x, y), w[y] = v?).",
        "f[x] = s <- agg<<s = sum(v)>> edge(x, y), w[y] = v?. q(x, s) <- node(x), f[x] = s?.",
    ),
    (
        "p(x, n, h) <- agg<<n = count(), h = max(y)>> edge(x, y).",
        "f[x] = n, g[x] = h <- agg<<n = count(), h = max(y)>> edge(x, y). q(x, n, h) <- f[x] = n, "
        "g[x] = h.",
    ),
    (
        "p[x] = t - n <- agg<<n = count(), t = sum(y)>> edge(x, y).",
        "f[x] = n, g[x] = t <- agg<<n = count(), t = sum(y)>> edge(x, y). q[x] = t - n <- f[x] = "
        "n, g[x] = t.",
    ),
    (
        "p(x) <- agg<<n = count() else 0>> node(_), edge(x, _), x < n.",
        "f[] = n <- agg<<n = count() else 0>> node(_). q(x) <- f[] = n, edge(x, _), x < n.",
    ),
]


@pytest.mark.parametrize(("written", "same"), PAIRS)
def test_an_aggregate_in_a_body_is_a_view_of_its_own(views, written, same):
    mirror, random, rows = views(DECLARED + written + " " + same), Random(written), set()
    for _ in range(12):
        edits = []
        for _ in range(random.choice((1, 4))):
            name = random.choice(("edge", "edge", "node", "w"))
            row = tuple(random.randint(0, 3) for _ in range(1 if name == "node" else 2))
            if name == "w":
                row = row[0], random.choice((None, row[1]))
                edits.append((name, row, True))
                continue
            edits.append((name, row, (name, row) not in rows))
            rows ^= {(name, row)}
        mirror.change(edits)
        assert sorted(mirror.workspace["p"], key=repr) == sorted(mirror.workspace["q"], key=repr)
    assert mirror.workspace.check() == []


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            "p(x, n) <- node(x), agg<<n = count()>> edge(x, n).",
            "1:21: n is the result of this aggregate",
        ),
        (
            "p(x, n) <- agg<<n = count()>> edge(x, _), n < 3.",
            "or put the aggregate after what it is not about",
        ),
        ("p(n) <- node(x), agg<<n = count() else 0>> edge(z, _), z < 3.", "z is not bound"),
        ("p(x, n) <- node(x), agg<<n = mean(y)>> edge(x, y).", "mean is not an aggregate"),
        (
            "p(x) <- node(x) ; agg<<n = count()>> p(x), edge(x, x), n < 3.",
            "recursion through count",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(rule, says):
    with ivm.open(":memory:") as workspace:
        workspace.install(DECLARED)
        with pytest.raises(RuleError) as caught:
            workspace.install(rule, "rule")
        assert says in str(caught.value)


def test_a_sum_is_of_nothing_where_a_part_that_is_unconnected_has_no_rows() -> None:
    most = 2**63 - 1
    with ivm.open(":memory:", threads=1) as ws:
        ws.sql("CREATE TABLE big (k INTEGER PRIMARY KEY, x BIGINT)")
        ws.sql("CREATE TABLE other (k INTEGER PRIMARY KEY)")
        ws.install("total[] = u <- agg<<u = sum(x)>> big[_] = x, other(_).", "totals")
        ws.sql(f"INSERT INTO big VALUES (1, {most}), (2, {most})")
        assert list(ws["total"]) == []
        with pytest.raises(ivm.IvmError, match="beyond"):
            ws.sql("INSERT INTO other VALUES (1)")
        ws.sql("DELETE FROM big WHERE k = 1")
        ws.sql("INSERT INTO other VALUES (1)")
        assert list(ws["total"]) == [(most,)]
        ws.sql("DELETE FROM other")
        ws.sql(f"INSERT INTO big VALUES (1, {most})")
        assert list(ws["total"]) == []
        assert ws.check() == []
