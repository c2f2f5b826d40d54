"""Orders of rows and equivalences: maintained, beside the slow truth of their rules and what
Python computes.
"""

from itertools import product
from random import Random

import pytest

import ivm
from ivm.errors import RecursionRefusedError, RuleError, RuleSyntaxError

DECLARED = "edge(x, y, c) -> int(x), int(y), int(c). p(x, y) -> int(x), int(y). f(x, y) -> int(x), int(y). "


def edits(random: Random, name: str, width: int, rows: set, most: int = 4) -> list:
    """Up to three edits of a relation of small numbers, which `rows` follows."""
    found = []
    for _ in range(random.randint(1, 3)):
        row = tuple(random.randint(1, most) for _ in range(width))
        found.append((name, row, row not in rows))
        rows ^= {row}
    return found


def kept(rows: set, makes_way) -> list:
    return sorted(a for a in rows if not any(a != b and makes_way(a, b) for b in rows))


def test_greatest_rows_of_orders_stay(views):
    mirror = views(
        DECLARED
        + "least(x, c) <- edge(x, _, c). least(x, c) <- edge(_, x, c). least(x, c) <= least(x, d) "
        "<- c > d. "
        "most(c, x) <- edge(x, _, c). most(c, x) <= most(d, x) <- d >= c. only(x) <- edge(x, _, "
        "_). "
        "only(x) <= only(y) <- y < x. "
        "front(x, y, c) <- edge(x, y, c). front(x, y, c) <= front(x, a, b) <- a <= y, b <= c. "
        "inner(x, y) <- p(x, y), x <= y. inner(a, b) <= inner(c, d) <- a <= c, d <= b. "
        "both(x, y) <- p(x, y). both(x, y) <= both(x, z) <- y > z. both(x, y) <= both(z, y) <- x > "
        "z."
    )
    random, edges, pairs = Random(3), set(), set()
    for _ in range(25):
        mirror.change([*edits(random, "edge", 3, edges), *edits(random, "p", 2, pairs)])
        rows = {
            name: [*mirror.workspace[name]]
            for name in ("least", "most", "only", "front", "inner", "both")
        }
        ends = {(x, c) for x, _, c in edges} | {(y, c) for _, y, c in edges}
        assert rows["least"] == kept(ends, lambda a, b: a[0] == b[0] and a[1] > b[1])
        assert rows["most"] == kept(
            {(c, x) for x, _, c in edges}, lambda a, b: a[1] == b[1] and a[0] < b[0]
        )
        assert rows["only"] == [(min(x for x, *_ in edges),)] if edges else rows["only"] == []
        assert rows["front"] == kept(
            edges, lambda a, b: a[0] == b[0] and b[1] <= a[1] and b[2] <= a[2]
        )
        inner = {(x, y) for x, y in pairs if x <= y}
        assert rows["inner"] == kept(inner, lambda a, b: a[0] <= b[0] and b[1] <= a[1])
        assert rows["both"] == kept(
            pairs, lambda a, b: (a[0] == b[0] and a[1] > b[1]) or (a[1] == b[1] and a[0] > b[0])
        )
    assert mirror.workspace.check() == []


def test_orders_of_recursive_views(views):
    mirror = views(
        DECLARED
        + "short(x, y, c) <- edge(x, y, c). short(x, y, c + d) <- short(x, z, c), edge(z, y, d). "
        "short(x, y, c) <= short(x, y, d) <- c > d. "
        "wide(x, y, c) <- edge(x, y, c). wide(x, y, w) <- wide(x, z, c), edge(z, y, d), w = min[c, "
        "d]. "
        "wide(x, y, c) <= wide(x, y, d) <- c < d. "
        "hull(x, y) <- p(x, y), x <= y. hull(min[a, c], max[b, d]) <- hull(a, b), hull(c, d), a <= "
        "d, c <= b. "
        "hull(a, b) <= hull(c, d) <- c <= a, b <= d. odd(x, c) <- short(x, x, c), c % 2 = 1."
    )
    random, edges, pairs = Random(4), set(), set()
    for _ in range(20):
        mirror.change([*edits(random, "edge", 3, edges), *edits(random, "p", 2, pairs, 9)])
        short, wide = best(edges, lambda a, b: a + b, min), best(edges, min, max)
        assert [*mirror.workspace["short"]] == short
        assert [*mirror.workspace["wide"]] == wide
        assert [*mirror.workspace["odd"]] == [(x, c) for x, y, c in short if x == y and c % 2]
        assert [*mirror.workspace["hull"]] == hulls({(x, y) for x, y in pairs if x <= y})
    assert mirror.workspace.check() == []


def best(edges: set, along, choose) -> list:
    """The best value of a path between each two nodes, by trying all lengths of paths."""
    found: dict = {}
    for x, y, c in edges:
        found[x, y] = choose(found.get((x, y), c), c)
    for _ in range(8):
        for (x, z), c in list(found.items()):
            for a, y, d in edges:
                if a == z:
                    value = along(c, d)
                    found[x, y] = choose(found.get((x, y), value), value)
    return sorted((*key, value) for key, value in found.items())


def hulls(intervals: set) -> list:
    """The unions of intervals that meet."""
    found: list = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


def classes(pairs: set) -> set:
    """All pairs of the least equivalence that has some pairs."""
    leader: dict = {}
    for x, y in pairs:
        members = {x, y, *(a for a in leader if leader[a] in (leader.get(x), leader.get(y)))}
        leader |= dict.fromkeys(members, min(members))
    return {(x, y) for x, y in product(leader, leader) if leader[x] == leader[y]}


def test_equivalences(views):
    mirror = views(
        DECLARED + "same(x, y) <- p(x, y). same(x, y) <- f(y, x), x < 3. lang:equivalence(same). "
        "alike(x, y) <- p(x, y). alike(x, y) <- alike(a, b), f(a, x), f(b, y). "
        "lang:equivalence(alike). "
        "apart(x, y) <- p(x, _), p(y, _), !same(x, y). n[x] = c <- agg<<c = count()>> same(x, _)."
    )
    random, pairs, others = Random(5), set(), set()
    for _ in range(20):
        mirror.change([*edits(random, "p", 2, pairs, 7), *edits(random, "f", 2, others, 7)])
        same = classes(pairs | {(x, y) for y, x in others if x < 3})
        assert {*mirror.workspace["same"]} == same
        alike = classes(pairs)
        while (
            more := classes(
                alike | {(x, y) for a, x in others for b, y in others if (a, b) in alike}
            )
            - alike
        ):
            alike |= more
        assert {*mirror.workspace["alike"]} == alike
    assert mirror.workspace.check() == []


def test_rows_of_transactions_are_closed_and_ordered_like_those_that_follow(views):
    mirror = views(
        DECLARED + "same(x, y) -> int(x), int(y). same(x, y) <- f(x, y). lang:equivalence(same). "
        "alone(x, y) -> int(x), int(y). lang:equivalence(alone). "
        "far(x, y) -> int(x), int(y). far(x, y) <- far(a, y), f(a, x). lang:equivalence(far). "
        "best(x, c) -> int(x), int(c). best(x, c) <- p(x, c). best(x, c) <= best(x, d) <- c > d. "
        "front(x, c) -> int(x), int(c). front(x, c) <= front(y, d) <- x <= y, c >= d. "
        "n[x] = c <- agg<<c = count()>> same(x, _). m[] = x <- agg<<x = max(c)>> best(_, c)."
    )
    random, rows = (
        Random(7),
        {name: set() for name in ("f", "p", "same", "alone", "far", "best", "front")},
    )
    for _ in range(25):
        mirror.change([one for name, own in rows.items() for one in edits(random, name, 2, own, 6)])
        found = {name: {*mirror.workspace[name]} for name in ("same", "alone", "best", "front")}
        assert found["same"] == classes(rows["same"] | rows["f"])
        assert found["alone"] == classes(rows["alone"])
        assert sorted(found["best"]) == kept(
            rows["best"] | rows["p"], lambda a, b: a[0] == b[0] and a[1] > b[1]
        )
        assert sorted(found["front"]) == kept(
            rows["front"], lambda a, b: a[0] <= b[0] and a[1] >= b[1]
        )
    assert mirror.workspace.check() == []


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (
            "r(x, y) <= r(x, z) <- y > z.",
            RuleSyntaxError,
            "r needs rules in this text, each with one head",
        ),
        (
            "r(x, y) <- p(x, y). r(x, y) <= s(x, z) <- y > z.",
            RuleSyntaxError,
            "an order compares rows of one view",
        ),
        (
            "r(x, y) <- p(x, y). r(x, y) < r(x, z) <- y > z.",
            RuleSyntaxError,
            "is written p(x, y) <= p(x, z) <- ...",
        ),
        (
            "r(x, y) <- p(x, y). r(x, y) <= r(x, y) <- x > 1.",
            RuleSyntaxError,
            "compares two rows by columns that differ",
        ),
        ("r(x, y) <- p(x, y). lang:equivalence(s).", RuleSyntaxError, "s needs rules in this text"),
        (
            "r(x) <- p(x, _). lang:equivalence(r).",
            RuleSyntaxError,
            "an equivalence has two columns: write r(x, y)",
        ),
        (
            "lang:equivalence(3).",
            RuleSyntaxError,
            "takes the name of a view, as in lang:equivalence(v).",
        ),
        (
            "r(x, y) <- p(x, y). r(x, 9 - y) <- r(x, y), p(x, _). r(x, y) <= r(x, z) <- y > z.",
            RecursionRefusedError,
            "recursion through min must be monotone, and r is not known to be",
        ),
    ],
)
def test_what_is_no_order_is_refused(text, error, says):
    with ivm.open(":memory:") as workspace:
        workspace.install(DECLARED)
        with pytest.raises(RuleError) as caught:
            workspace.install(text, "text")
        assert isinstance(caught.value, error)
        assert says in str(caught.value)
