"""Pitfalls of aggregates, functions and arithmetic, each a rule and a few edits."""

import pytest

import ivm
from ivm import errors

EDGE = "edge(x, y) -> int(x), int(y). "


class TestAggregates:
    def test_a_group_emptied_and_refilled(self, views):
        # d[x] = n <- agg<<n = count()>> edge(x, y).           s[x] = n <- agg<<n = sum(y)>> edge(x,
        # y).
        m = views(
            EDGE
            + "d[x] = n <- agg<<n = count()>> edge(x, y). s[x] = n <- agg<<n = sum(y)>> edge(x, y)."
        )
        m.insert("edge", (1, 5), (1, -5))
        assert list(m.workspace["s"]) == [(1, 0)]
        m.delete("edge", (1, 5), (1, -5))
        assert list(m.workspace["s"]) == []
        m.insert("edge", (1, 7))
        assert (list(m.workspace["d"]), list(m.workspace["s"])) == ([(1, 1)], [(1, 7)])
        m.change([("edge", (1, 7), False), ("edge", (1, 8), True)])
        assert list(m.workspace["s"]) == [(1, 8)]

    def test_anonymous_variables_are_counted(self, views):
        # d[x] = n <- agg<<n = count()>> edge(x, _).            n[0] = k <- agg<<k = count()>>
        # edge(_, _).
        m = views(
            EDGE
            + "d[x] = n <- agg<<n = count()>> edge(x, _). all[0] = k <- agg<<k = count()>> edge(_, "
            "_)."
        )
        m.insert("edge", (1, 2), (1, 3), (2, 3))
        assert list(m.workspace["d"]) == [(1, 2), (2, 1)]
        m.delete("edge", (1, 2))

    def test_the_same_value_from_two_keys_adds_twice(self, views):
        # t[0] = s <- agg<<s = sum(v)>> a[x] = v.
        m = views("a[x] = v -> int(x), int(v). t[0] = s <- agg<<s = sum(v)>> a[_] = v.")
        m.insert("a", (1, 10), (2, 10))
        assert list(m.workspace["t"]) == [(0, 20)]
        m.change([("a", (1, 11), True)])
        m.delete("a", (2, 10))

    def test_a_sum_over_a_function_whose_value_alone_changes(self, views):
        # total[p] = t <- agg<<t = sum(c)>> ate(p, m), calories[m] = c.
        m = views("""ate(p, m) -> string(p), string(m). calories[m] = c -> string(m), int(c).
                     total[p] = t <- agg<<t = sum(c)>> ate(p, m), calories[m] = c.""")
        m.change(
            [
                ("ate", ("ada", "tea"), True),
                ("ate", ("bob", "tea"), True),
                ("calories", ("tea", 5), True),
            ]
        )
        m.change([("calories", ("tea", 8), True)])
        assert sorted(m.workspace["total"]) == [("ada", 8), ("bob", 8)]

    def test_a_sum_beyond_64_bits_rolls_back(self, views):
        # t[0] = s <- agg<<s = sum(v)>> a[x] = v.
        m = views("a[x] = v -> int(x), int(v). t[0] = s <- agg<<s = sum(v)>> a[_] = v.")
        m.insert("a", (1, 2**62), (2, 2**62 - 1))
        version = m.workspace.store.version
        m.insert("a", (3, 1), (4, 1))
        assert m.workspace.store.version == version
        m.insert("a", (3, -5))

    def test_an_aggregate_over_a_disjunction(self, views):
        # d[x] = n <- agg<<n = count()>> (edge(x, y) ; edge(y, x)).
        m = views(EDGE + "d[x] = n <- agg<<n = count()>> (edge(x, y) ; edge(y, x)).")
        m.insert("edge", (1, 2), (2, 1), (1, 3))
        m.delete("edge", (2, 1))
        m.delete("edge", (1, 2))


class TestFunctions:
    def test_erase_comes_before_insert(self, views):
        # f[x] = y <- edge(x, y).
        m = views(EDGE + "f[x] = y <- edge(x, y).")
        m.insert("edge", (1, 2))
        m.change([("edge", (1, 3), True), ("edge", (1, 2), False)])
        assert list(m.workspace["f"]) == [(1, 3)]

    def test_a_conflict_rolls_everything_back(self, views):
        # f[x] = y <- edge(x, y).                   g(y) <- f[x] = y.
        m = views(EDGE + "f[x] = y <- edge(x, y). g(y) <- f[x] = y.")
        m.insert("edge", (1, 2))
        version = m.workspace.store.version
        with (
            pytest.raises(errors.FunctionConflictError) as caught,
            m.workspace.transaction() as txn,
        ):
            txn.insert("edge", [(1, 3), (5, 6)])
        assert (caught.value.predicate, caught.value.key) == ("f", (1,))
        assert set(caught.value.values) == {2, 3}
        assert m.workspace.store.version == version
        m.compare()
        m.insert("edge", (5, 6))

    @pytest.mark.parametrize("key", [(), (2**63 - 1,), (-(2**63), 2**63 - 1)])
    def test_a_conflict_at_the_end_of_all_keys(self, views, key):
        # f[] = v <- a(v).                          f[x, y] = v <- a(x, y, v).
        names = [*"xyz"][: len(key)]
        columns = ", ".join(f"int({name})" for name in (*names, "v"))
        of_all = ", ".join((*names, "v"))
        m = views(f"a({of_all}) -> {columns}. f[{', '.join(names)}] = v <- a({of_all}).")
        m.insert("a", (*key, 1))
        with pytest.raises(errors.FunctionConflictError) as caught:
            m.workspace.exec(f"+a({', '.join(map(str, (*key, 2)))}).")
        assert (caught.value.key, caught.value.values) == (key, (1, 2))
        m.insert("a", (*key, 2))

    def test_a_conflict_between_two_rules(self, views):
        # f[x] = 1 <- a(x). f[x] = 2 <- b(x).
        m = views("a(x) -> int(x). b(x) -> int(x). f[x] = 1 <- a(x). f[x] = 2 <- b(x).")
        m.insert("a", (1,))
        m.insert("b", (1,))
        m.change([("a", (1,), False), ("b", (1,), True)])
        assert list(m.workspace["f"]) == [(1, 2)]


class TestGuards:
    """What would fail is evaluated behind every comparison that can be, in whatever order they
    are written.
    """

    @pytest.mark.parametrize(
        "body",
        [
            "y != 0, z = 10 / y",
            "z = 10 / y, y != 0",
            "10 / y = z, 10 / y > 0, y != 0",
            "w = y - 3, w != -3, z = 10 / (w + 3)",
            "z = 10 / (w + 3), w = y - 3, w != 0 - 3",
            # a filter that might overflow, but does not divide
            "z = 10 / y, w = y + 1, w * 2 != 2",
            "z = 10 / y, w = y / 2, w + y != 0",  # a division that cannot fail
            "h = 20 / y, z = h / 2, w = y, w != 0",
            "z = 10 / y, y < 9223372036854775807, y + 1 > 1",
        ],
    )
    def test_a_comparison_guards_a_division(self, body, tmp_path):
        with ivm.open(tmp_path / "store.pages", sync="off") as ws:
            ws.install("f[x] = y -> int(x), int(y). +f[1] = 0. +f[2] = 5.", name="f")
            ws.install(f"p(x, z) <- f[x] = y, {body}.", name="p")
            assert list(ws["p"]) == [(2, 2)]
            ws.exec("+f[3] = 0. +f[4] = 2. ^f[2] = 0. ^f[1] = 10.")
            assert list(ws["p"]) == [(1, 1), (4, 5)]
            ws.verify("p")

    def test_what_no_comparison_excludes_is_refused(self, views):
        m = views("f[x] = y -> int(x), int(y). p(x, z) <- f[x] = y, z = 10 / y, z != 0.")
        with pytest.raises(
            errors.RangeError, match="division by zero in `10 / y`; exclude it with a comparison"
        ):
            m.workspace.exec("+f[1] = 0.")


class TestExtremes:
    def test_the_least_and_the_greatest_word(self, views):
        # path(x, z) <- edge(x, y), edge(y, z).               up(x, y) <- edge(x, y), x < y.
        low, high = -(2**63), 2**63 - 1
        m = views(EDGE + "path(x, z) <- edge(x, y), edge(y, z). up(x, y) <- edge(x, y), x < y.")
        m.insert("edge", (low, high), (high, low), (low, low), (high, high), (0, low), (0, high))
        m.delete("edge", (low, low), (0, high))
        m.delete("edge", (high, high), (low, high))

    def test_every_type_joins(self, views):
        from datetime import date, datetime
        from decimal import Decimal

        # j(a, b, c, d, e, f, g) <- l(a, b, c, d, e, f, g), r(g, f, e, d, c, b, a).
        types = "int(a), float(b), bool(c), date(d), datetime(e), decimal(8, 2)(f), string(g)"
        m = views(
            f"l(a, b, c, d, e, f, g) -> {types}. r(g, f, e, d, c, b, a) -> {types}."
            "j(a, b, c, d, e, f, g) <- l(a, b, c, d, e, f, g), r(g, f, e, d, c, b, a)."
        )
        rows = [
            (
                1,
                2.5,
                True,
                date(2013, 1, 31),
                datetime(2013, 1, 31, 17, 5),
                Decimal("-3.50"),
                "tea",
            ),
            (-1, -1e300, False, date(1900, 1, 1), datetime(1900, 1, 1), Decimal("0.00"), "åß"),
        ]
        m.insert("l", *rows)
        m.insert("r", *(row[::-1] for row in rows))
        assert len(m.workspace["j"]) == 2
        m.delete("r", rows[0][::-1])

    def test_a_hub_is_maintained_in_steps_of_its_changes_not_of_its_degree(self, views):
        # tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
        m = views(EDGE)
        m.workspace.install("tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).", name="tri")
        with m.workspace.transaction() as txn:
            txn.insert("edge", [(0, n) for n in range(1, 5000)])
        with m.workspace.transaction() as txn:
            txn.insert("edge", [(4000, 4001)])
        assert list(m.workspace["tri"]) == [(0, 4000, 4001)]
        assert m.workspace.stats("tri")["operations"] < 500
        m.insert("edge", *((0, n) for n in range(1, 5000)), (4000, 4001))


def test_a_declared_function_without_keys_is_there_after_reopening(tmp_path):
    # limit[] = n -> int(n).        above(x, y) <- edge(x, y), limit[] = n, y > n.
    with ivm.open(tmp_path / "store.pages") as ws:
        ws.install(
            EDGE
            + "limit[] = n -> int(n). above(x, y) <- edge(x, y), limit[] = n, y > n. +limit[] = 3."
        )
        ws.exec("+edge(1, 2). +edge(1, 5).")
    with ivm.open(tmp_path / "store.pages") as ws:
        assert list(ws["above"]) == [(1, 5)]
        ws.exec("^limit[] = 1.")
        assert (list(ws["above"]), list(ws["limit"])) == ([(1, 2), (1, 5)], [(1,)])
        with pytest.raises(errors.FunctionConflictError):
            ws.exec("+limit[] = 2.")


COLUMNS = [f"c{i}" for i in range(65)]


ALL = ", ".join(COLUMNS)


MOST = ", ".join(COLUMNS[:64])


WIDE = f"r({MOST}) -> {', '.join(f'int({c})' for c in COLUMNS[:64])}. e(x, y) -> int(x), int(y). "


WIDE_F = f"f[{MOST}] = v -> {', '.join(f'int({c})' for c in COLUMNS[:64])}, int(v). "


@pytest.mark.parametrize(
    "text",
    [
        f"wide({ALL}) -> {', '.join(f'int({c})' for c in COLUMNS)}.",
        f"m({MOST}, x) <- r({MOST}), x = 1.",
        f"m[{MOST}] = n <- agg<<n = min(v)>> f[{MOST}] = v.",
        f"m[{MOST}] = v <- f[{MOST}] = v.",
    ],
)
def test_more_columns_than_tell_rows_apart(text, tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off") as workspace:
        workspace.install(WIDE + WIDE_F, name="stored")
        with pytest.raises(
            errors.ConstructError, match=r"^main:1:1: .* has 6[56] columns to tell its rows apart"
        ):
            workspace.install(text)
        assert "m" not in workspace and workspace.store.version == 1
