"""Cases that other implementations got wrong, each against the slow truth after every step."""

import random

import pytest

import ivm
from ivm import errors
from ivm.join import evaluate
from ivm.ways import probe

EDGE = "edge(x, y) -> int(x), int(y). "


class TestSelfJoins:
    def test_retraction_counts_for_both_sides(self, views):
        # path(x, z) <- edge(x, y), edge(y, z).
        m = views(EDGE + "path(x, z) <- edge(x, y), edge(y, z).")
        m.insert("edge", (1, 1), (1, 2), (2, 1))
        m.delete("edge", (1, 1))
        m.delete("edge", (1, 2))
        m.delete("edge", (2, 1))
        assert len(m.workspace["path"]) == 0

    def test_the_same_row_on_all_three_sides(self, views):
        # tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
        m = views(EDGE + "tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).")
        m.insert("edge", (5, 5))
        assert list(m.workspace["tri"]) == [(5, 5, 5)]
        m.delete("edge", (5, 5))

    def test_inserts_and_deletes_on_both_sides_in_one_transaction(self, views):
        # path(x, z) <- edge(x, y), edge(y, z).
        m = views(EDGE + "path(x, z) <- edge(x, y), edge(y, z).")
        m.insert("edge", (1, 2), (2, 3), (3, 4))
        m.change(
            [
                ("edge", (1, 2), False),
                ("edge", (2, 3), False),
                ("edge", (0, 2), True),
                ("edge", (2, 9), True),
            ]
        )
        assert list(m.workspace["path"]) == [(0, 9)]

    def test_two_sides_in_two_relations_change_at_once(self, views):
        # j(x, z) <- a(x, y), b(y, z).
        m = views(
            "a(x, y) -> int(x), int(y). b(x, y) -> int(x), int(y). j(x, z) <- a(x, y), b(y, z)."
        )
        m.change([("a", (1, 2), True), ("b", (2, 3), True)])
        m.change(
            [("a", (1, 2), False), ("b", (2, 3), False), ("a", (1, 4), True), ("b", (4, 3), True)]
        )
        assert list(m.workspace["j"]) == [(1, 3)]
        m.change([("a", (1, 4), False), ("b", (4, 3), False)])


class TestNetting:
    TEXT = EDGE + "path(x, z) <- edge(x, y), edge(y, z). n[0] = k <- agg<<k = count()>> path(x, z)."

    def test_a_row_that_comes_and_goes_in_one_transaction(self, views):
        m = views(self.TEXT)
        m.insert("edge", (1, 2), (2, 3))
        m.change([("edge", (3, 4), True), ("edge", (3, 4), False)])
        m.change([("edge", (1, 2), False), ("edge", (1, 2), True)])
        m.change([("edge", (1, 2), False), ("edge", (1, 2), True), ("edge", (1, 2), False)])
        assert len(m.workspace["path"]) == 0

    def test_inserting_what_is_there_and_deleting_what_is_not(self, views):
        m = views(self.TEXT)
        m.insert("edge", (1, 2), (2, 3))
        m.insert("edge", (1, 2), (1, 2))
        m.delete("edge", (7, 7), (7, 7))
        m.change([])

    def test_a_value_set_to_what_it_was(self, views):
        # c[x] = z <- a[x] = u, b[x] = v, z = u + v.
        m = views(
            "a[x] = v -> int(x), int(v). b[x] = v -> int(x), int(v).c[x] = z <- a[x] = u, b[x] = "
            "v, z = u + v."
        )
        m.change([("a", (1, 10), True), ("b", (1, 20), True)])
        m.change([("a", (1, 10), True)])
        m.change([("a", (1, 11), True), ("a", (1, 10), True)])
        m.change([("a", (1, 11), True), ("b", (1, 19), True)])
        assert list(m.workspace["c"]) == [(1, 30)]

    @pytest.mark.parametrize(
        "rule", ["v(x) <- f[x] = y, y != 7.", "v(x), w(y) <- f[x] = y.", "v(x) <- f[x] > 1."]
    )
    def test_a_row_that_does_not_show_the_value_that_changes(self, views, rule):
        m = views("f[x] = v -> int(x), int(v). " + rule)
        m.insert("f", (3, 5))
        m.insert("f", (3, 4))
        m.insert("f", (3, 6))
        assert list(m.workspace["v"]) == [(3,)]


class TestSupport:
    def test_the_next_witness_lies_elsewhere(self, views):
        # s(x) <- edge(x, y), mark(y).
        m = views(EDGE + "mark(x) -> int(x). s(x) <- edge(x, y), mark(y).")
        m.insert("mark", (2,), (900,))
        m.insert("edge", (1, 2), (1, 900))
        m.delete("edge", (1, 2))
        assert list(m.workspace["s"]) == [(1,)]
        m.delete("mark", (900,))
        assert list(m.workspace["s"]) == []

    def test_two_paths_between_the_same_pair(self, views):
        # path(x, z) <- edge(x, y), edge(y, z).
        m = views(EDGE + "path(x, z) <- edge(x, y), edge(y, z).")
        m.insert("edge", (1, 2), (2, 9), (1, 3), (3, 9))
        m.delete("edge", (1, 2))
        assert list(m.workspace["path"]) == [(1, 9)]
        m.delete("edge", (3, 9))

    def test_a_row_derived_by_both_sides_of_a_disjunction(self, views):
        # p(x) <- a(x) ; b(x).
        m = views("a(x) -> int(x). b(x) -> int(x). p(x) <- a(x) ; b(x).")
        m.change([("a", (1,), True), ("b", (1,), True)])
        assert list(m.workspace["p"]) == [(1,)]
        m.delete("a", (1,))
        assert list(m.workspace["p"]) == [(1,)]
        m.change([("a", (1,), True), ("b", (1,), False)])
        assert list(m.workspace["p"]) == [(1,)]
        m.delete("a", (1,))
        assert list(m.workspace["p"]) == []

    def test_a_row_derived_by_two_rules_of_one_view(self, views):
        # p(x) <- a(x). p(x) <- edge(x, _).
        m = views(EDGE + "a(x) -> int(x). p(x) <- a(x). p(x) <- edge(x, _).")
        m.change([("a", (1,), True), ("edge", (1, 2), True), ("edge", (1, 3), True)])
        m.change([("a", (1,), False), ("edge", (1, 2), False)])
        assert list(m.workspace["p"]) == [(1,)]
        m.delete("edge", (1, 3))

    def test_a_swap_of_witnesses_leaves_the_view_alone(self, views):
        # s(x) <- edge(x, y).                                    t(x) <- s(x).
        m = views(EDGE + "s(x) <- edge(x, y). t(x) <- s(x).")
        m.insert("edge", (1, 2))
        told = []
        m.workspace.subscribe("t", told.append)
        m.change([("edge", (1, 2), False), ("edge", (1, 3), True)])
        assert told == []


class TestNegation:
    def test_what_is_refuted_comes_and_goes(self, views):
        # s(x) <- a(x), !b(x).
        m = views("a(x) -> int(x). b(x) -> int(x). s(x) <- a(x), !b(x).")
        m.insert("a", (1,), (2,))
        m.insert("b", (1,), (3,))
        m.delete("b", (1,))
        m.change([("a", (3,), True), ("b", (3,), False)])
        m.change([("a", (3,), False), ("b", (3,), True)])

    def test_a_refuted_projection(self, views):
        # sink(y) <- edge(_, y), !edge(y, _).
        m = views(EDGE + "sink(y) <- edge(_, y), !edge(y, _).")
        m.insert("edge", (1, 2), (2, 3), (2, 4))
        m.delete("edge", (2, 3))
        m.delete("edge", (2, 4))
        m.insert("edge", (2, 2))

    def test_a_refuted_conjunction_has_its_next_witness_elsewhere(self, views):
        # p(x) <- a(x), !(edge(x, y), b(y)).
        m = views(EDGE + "a(x) -> int(x). b(x) -> int(x). p(x) <- a(x), !(edge(x, y), b(y)).")
        m.change([("a", (1,), True), ("edge", (1, 2), True), ("edge", (1, 90), True)])
        m.change([("b", (2,), True), ("b", (90,), True)])
        m.delete("b", (2,))
        assert list(m.workspace["p"]) == []
        m.delete("edge", (1, 90))
        assert list(m.workspace["p"]) == [(1,)]


class TestViewsOnViews:
    def test_a_diamond_changes_on_both_sides_at_once(self, views):
        # l(x) <- edge(x, _). r(x) <- edge(_, x). b(x) <- l(x), r(x). n[0] = k <- agg<<k = count()>>
        # b(x).
        m = views(
            EDGE
            + "l(x) <- edge(x, _). r(x) <- edge(_, x). b(x) <- l(x), r(x).n[0] = k <- agg<<k = "
            "count()>> b(x)."
        )
        m.insert("edge", (1, 2), (2, 1))
        m.change([("edge", (1, 2), False), ("edge", (1, 3), True), ("edge", (3, 1), True)])
        m.delete("edge", (1, 3), (2, 1), (3, 1))

    def test_a_chain_of_twenty(self, views):
        # v0(x, y) <- edge(x, y).      v1(x, y) <- v0(y, x).      v2(x, y) <- v1(y, x).     ...
        chain = " ".join(f"v{i}(x, y) <- v{i - 1}(y, x)." for i in range(1, 20))
        m = views(EDGE + "v0(x, y) <- edge(x, y). " + chain)
        m.insert("edge", (1, 2))
        m.change([("edge", (1, 2), False), ("edge", (3, 4), True)])
        assert list(m.workspace["v19"]) == [(4, 3)]

    def test_rules_installed_over_data_that_is_there(self, views):
        # far(x, z) <- path(x, y), edge(y, z).
        m = views(EDGE + "path(x, z) <- edge(x, y), edge(y, z).")
        m.insert("edge", (1, 2), (2, 3), (3, 4))
        m.workspace.install("far(x, z) <- path(x, y), edge(y, z).", name="far")
        assert list(m.workspace["far"]) == [(1, 4)]
        m.insert("edge", (4, 5))
        assert sorted(m.workspace["far"]) == [(1, 4), (2, 5)]
        with pytest.raises(
            errors.UninstallError, match=r"path is read by far: uninstall the readers first"
        ):
            m.workspace.uninstall("main")
        m.workspace.uninstall("far")
        with pytest.raises(errors.UnknownViewError):
            m.workspace["far"]


class TestDegenerateBodies:
    @pytest.mark.parametrize(
        "rule",
        [
            "p(x) <- edge(x, x).",  # a repeated variable
            "p(x) <- edge(3, x).",  # a constant first
            "p(x) <- edge(x, 3).",  # a constant last
            "p(x) <- a(x), edge(1, 2).",  # an atom of constants only
            "p(x) <- a(x), edge(_, _).",  # an atom that only has to hold something
            "p(x) <- f[_] = x, edge(_, _), a(_).",
            "p(x) <- a(x), x = x, x + 1 != x.",  # a variable and itself
            "p[] = n <- agg<<n = count()>> edge(_, y), a(y).",  # no keys
            "p(x) <- a(x), !(edge(x, y), f[y] = x).",
            "p(x) <- a(x), !(edge(x, y), x < y, !a(y)).",
            "p(x) <- a(x), !edge(_, _).",
            "p(x) <- a(x), !(edge(y, z), !f[y] = z).",
            "p(x, s) <- a(x), s = x + 1, !edge(x, s).",  # a computed variable in a negation
            "p(x) <- f[x] = y, s = x * y, !a(s), !edge(s, _).",
            "p(x) <- f[x] = y, s = y + 1, !a(s).",
            "p(x, y) <- a(x), a(y), !f[x] = y.",
            "p(x) <- a(x), (edge(x, _) ; f[x] = 2, !edge(_, x)).",
            "p[x] = n <- agg<<n = sum(y - z)>> (edge(x, y), f[y] = z ; f[x] = y, z = 0).",
            "p(x, y) <- a(x), a(y).",  # a product
            "p(x, x) <- a(x).",  # a column twice
            "p(x, 7) <- a(x).",  # a constant in the head
            "p(x) <- a(x), edge(x, y), edge(x, z).",  # an existential twice
            "p(x, y) <- edge(x, y), x = y.",
            "p(x) <- edge(x, y), y = 3, x != 2.",
            "p(x, z) <- a(x), z = x * 2, a(z).",  # a computed key
            "p(x) <- f[x] = y, a(y).",  # a function's value as a key
            "p(x) <- f[x] = f[1].",
            "p(x) <- f[f[x]] = 2.",
        ],
    )
    def test_follows(self, views, rule):
        m = views(EDGE + "a(x) -> int(x). f[x] = v -> int(x), int(v). " + rule)
        m.change(
            [("a", (n,), True) for n in range(5)]
            + [("edge", (x, x * x % 5), True) for x in range(5)]
        )
        m.change([("f", (x, (x + 1) % 4), True) for x in range(5)])
        m.change([("edge", (1, 2), True), ("edge", (3, 3), True), ("edge", (2, 3), True)])
        m.change(
            [
                ("edge", (1, 2), False),
                ("edge", (1, 1), False),
                ("a", (2,), False),
                ("f", (3, 2), True),
            ]
        )
        m.change(
            [
                ("f", (1, 0), False),
                ("edge", (3, 3), False),
                ("edge", (4, 3), True),
                ("a", (8,), True),
            ]
        )
        m.change([(name, row, False) for name in ("a", "edge") for row in list(m.workspace[name])])

    def test_an_aggregate_over_no_variable_is_refused(self, views):
        with pytest.raises(
            errors.ConstructError,
            match=r"^main:1:31: this aggregates over no variable, .*; name one",
        ):
            views(EDGE + "n[] = c <- agg<<c = count()>> (edge(1, _) ; edge(_, 1)).")


def test_a_long_churn_over_few_rows(views):
    # tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).        deg[x] = n <- agg<<n = count()>>
    # edge(x, y).
    m = views(
        EDGE
        + "tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z). deg[x] = n <- agg<<n = count()>> "
        "edge(x, y)."
    )
    draw = random.Random(7)
    for _ in range(150):
        m.change(
            [
                ("edge", (draw.randrange(5), draw.randrange(5)), draw.random() < 0.6)
                for _ in range(3)
            ]
        )


@pytest.mark.parametrize(
    "bound", ["y != 1", "y != x", "y < 2", "y >= x", "y = 1", "y = x + 1", "x != 0, y != 2"]
)
def test_bounds_hold_where_everything_is_recorded(bound, tmp_path):
    # v(x, y) <- a(x), b(y), y != 1.              in full, with a sensitivity index at y
    with ivm.open(tmp_path / "store.pages") as ws:
        ws.install(
            "a(x) -> int(x). b(x) -> int(x). +a(0). +a(1). +a(2). +b(0). +b(1). +b(2). +b(3).",
            name="base",
        )
        ws.install(f"v(x, y) <- a(x), b(y), {bound}.", maintenance="match")
        condition = bound.replace(", ", " and ").replace(" = ", " == ")
        assert list(ws["v"]) == [
            (x, y) for x in range(3) for y in range(4) if eval(condition, {"x": x, "y": y})
        ]
        ws.exec("+b(-1). -b(2).")
        ws.verify("v")


@pytest.mark.parametrize("over_pages", [False, True])
@pytest.mark.parametrize(
    "rule",
    [
        "v(z) <- g[_, z] = x, g[x, 0] = z, a(0).",
        "v(z) <- r(z, x), e(x, _), a(0).",
        "v(x) <- r(z, x), e(x, _), a(z).",
    ],
)
def test_branches_that_records_share_are_counted_once(rule, over_pages, tmp_path, monkeypatch):
    """They differ only behind the last column that is read, also where two slices are
    leapfrogged in their leaves.
    """
    if over_pages:
        monkeypatch.setattr(evaluate, "is_flat_cheaper", lambda *_: False)
    stored = "a(x) -> int(x). e(x, y) -> int(x), int(y). r(x, y) -> int(x), int(y). "
    stored += "g[x, y] = v -> int(x), int(y), int(v)."
    workspace = ivm.open(tmp_path / "s.pages", sync="off")
    workspace.install(stored, name="stored")
    with workspace.transaction() as txn:
        txn.insert("a", [(0,)])
        txn.insert("e", [(0, 0), (0, 1), (0, 2)])
        txn.insert("r", [(0, 0), (1, 0)])
        txn.insert("g", [(0, 0, 0), (1, 0, 0)])
    workspace.install(rule, name="view")
    assert len(workspace["v"]) > 0
    with workspace.transaction() as txn:
        txn.delete("a", [(0,)])
    assert list(workspace["v"]) == []
    workspace.close()


def test_a_value_that_changes_goes_in_one_thread_and_comes_in_another(tmp_path, monkeypatch):
    """Whoever is first: the branch f[x] is gone and there again, and what it binds is as it was."""
    shares = probe._shares
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(probe, "SHARE", 1)
    monkeypatch.setattr(probe, "_shares", lambda *given: shares(*given)[::-1])
    monkeypatch.setattr(probe, "together", lambda tasks: [task() for task in tasks])
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.install(
            """
            f[x] = v -> int(x), int(v).
            a(x) -> int(x).
            p(x, y) <- f[x] = _, a(y), x <= y, y < x + 3.
            q(x, y) <- f[x] = _, f[y] = _, x <= y, y < x + 3.
        """,
            maintenance="probe",
        )
        with ws.transaction() as txn:
            txn.insert("f", [(x, 0) for x in range(1000)])
            txn.insert("a", [(x,) for x in range(1000)])
        pairs = [(x, y) for x in range(1000) for y in range(x, min(x + 3, 1000))]
        assert list(ws["p"]) == list(ws["q"]) == pairs
        with ws.transaction() as txn:
            txn.set("f", [(x, 1) for x in range(0, 1000, 20)])
        assert list(ws["p"]) == list(ws["q"]) == pairs
        with ws.transaction() as txn:
            txn.set("f", [(x, 2) for x in range(5, 1000, 20)])
            txn.delete("f", [(400,), (401,), (405,)])
        ws.verify("p")
        ws.verify("q")


def test_helper_views_are_no_names_of_a_workspace(tmp_path):
    """They are not listed, nor named in errors, nor suggested for a name that is not there."""
    text = """e(x, y) -> int(x), int(y). d[y] = n <- agg<<n = min(c)>> (e(1, y), c = 0 ; d[x] = m, e(x, y), c = m + 1).
        p(x) <- e(x, _), !(e(x, y), e(y, _)). s(x) <- e(x, _), e(y, z), y < z."""
    with ivm.open(tmp_path / "w.pages") as workspace:
        workspace.install(text)
        with workspace.store.snapshot() as snap:
            helpers = {name for name in workspace.rules_of(snap).program.predicates if "$" in name}
        names = ["d", "e", "p", "s"]
        assert helpers and sorted(workspace) == sorted(workspace.predicates) == names
        assert not any(name in workspace for name in helpers)
        workspace.install("a(x) <- e(x, _). b(x) <- a(x), !(e(x, y), a(y)). c(x) <- p(x).", "more")
        with pytest.raises(errors.UninstallError, match=r"p is read by c: uninstall"):
            workspace.uninstall("main")
        with pytest.raises(
            errors.UnknownPredicateError, match=r"nothing declares or derives p_not0: (?!.*\$)"
        ):
            workspace.query("q(x) <- p_not0(x).")


def test_a_workspace_lists_what_users_made(tmp_path):
    """Also relations that no rule declares, and views of SQL in several relations, whose parts
    it leaves out.
    """
    with ivm.open(tmp_path / "w.pages") as workspace:
        with workspace.store.transaction() as txn:
            txn.create("loaded", "x: int64", key="x").insert([(1,), (2,)])
        workspace.sql("CREATE TABLE r (id BIGINT PRIMARY KEY, c BIGINT NOT NULL)")
        workspace.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT c, count(*) AS n, max(id) AS m FROM r GROUP BY c"
        )
        columns = ", ".join(f"id + {n} AS c{n}" for n in range(80))
        workspace.sql(f"CREATE MATERIALIZED VIEW wide AS SELECT {columns} FROM r")
        assert sorted(workspace) == ["loaded", "r", "v", "wide"] and all(
            name in workspace for name in [*workspace]
        )
        assert sorted(workspace.predicates) == ["r", "v"] and "v:part1" not in workspace
        assert (
            workspace.explain("loaded")
            == "loaded is a relation, not a view: transactions edit its 2 rows."
        )
        assert workspace.stats("loaded")["rows"] == 2 and workspace.stats("wide")["rows"] == 0
        for ask in (
            workspace.stats,
            workspace.explain,
            workspace.evaluate,
            workspace.verify,
            workspace.__getitem__,
        ):
            with pytest.raises(
                errors.UnknownViewError,
                match="^there is no relation or view 'vv'; there is loaded, r, v, wide$",
            ):
                ask("vv")
        with pytest.raises(errors.UnknownViewError, match="no rule reads or declares loaded"):
            workspace.verify("loaded")
        with pytest.raises(
            errors.UnknownViewError, match="each of which this takes: wide:part1, wide:part2"
        ):
            workspace.verify("wide")
        workspace.verify("wide:part2")
