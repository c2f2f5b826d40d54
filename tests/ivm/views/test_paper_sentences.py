"""Each production of the paper's Figure 1, and each sentence of *Maintaining head predicates*, by a
test of its name.

Mirrors compare every state with the slow truth; the tests look at what is stored where the paper
says how.
"""

import math
from decimal import Decimal

import pytest

from ivm.errors import FunctionConflictError
from ivm.views.layouts import COUNT, FOLD, PLAIN, SUM, SUPPORT
from pagestore.host import read_batches

STORED = """a(x, y) -> int(x), int(y). b(y, z) -> int(y), int(z). c(x) -> int(x). f[x] = v -> int(x), int(v).
d[x, y, z] = s -> int(x), int(y), int(z), int(s). """


def words(mirror, name: str) -> list[tuple[int, ...]]:
    """The records of a tree, with hidden words."""
    with mirror.workspace.store.snapshot() as snap:
        return [
            tuple(map(int, row))
            for batch in read_batches(snap.pages, snap.tree(name))
            for row in batch.T
        ]


def layout(mirror, name: str):
    with mirror.workspace.store.snapshot() as snap:
        return mirror.workspace.rules_of(snap).layouts[name]


class TestFigure1:
    """The grammar of rules; users write it without quantifiers."""

    PRODUCTIONS = {
        "conj is one dform": "p(x) <- c(x).",
        "conj is several dforms": "p(x) <- a(x, y), b(y, z), c(z).",
        "conj has variables of its own": "p(x) <- c(x), !(a(x, y), b(y, z)).",
        "dform is an atom": "p(x) <- c(x).",
        "dform is a disjunction": "p(x) <- c(x), (a(x, _) ; b(_, x)).",
        "dform is a negation": "p(x) <- c(x), !a(x, x).",
        "atom is a relation": "p(x) <- a(x, _).",
        "atom is a function": "p(v) <- f[_] = v.",
        "disj has two conjunctions": "p(x) <- a(x, y), c(y) ; b(x, y), f[y] = _.",
        "disj has several conjunctions": "p(x) <- c(x) ; a(x, _) ; b(_, x) ; f[x] = _.",
        "negation is of an atom": "p(x) <- c(x), !f[x] = _.",
        "negation is of a conjunction": "p(x) <- c(x), !(a(x, y), c(y)).",
        "negation is of a disjunction": "p(x) <- c(x), !(a(x, y), c(y) ; f[x] = _).",
        "negation is of a negation": "p(x) <- c(x), !(a(x, y), !(b(y, z), c(z))).",
        "rule is for all values": "p(x, y) <- a(x, y), c(x), c(y).",
        "head is one atom": "p(x) <- a(x, y), b(y, _).",
        "head is several atoms": "p(x), q(x, y) <- a(x, y), c(y).",
        "head is a function": "p[x, y] = v <- a(x, y), f[y] = v.",
    }

    @pytest.mark.parametrize("production", PRODUCTIONS)
    def test_production(self, production, views):
        m = views(STORED + self.PRODUCTIONS[production])
        m.change([("a", (x, y), True) for x, y in ((1, 2), (2, 2), (2, 3), (3, 1), (4, 4))])
        m.change([("b", (y, z), True) for y, z in ((2, 3), (3, 3), (1, 4))])
        m.change([("c", (x,), True) for x in range(1, 7)])
        m.change([("f", (x, x % 3), True) for x in (2, 3, 5)])
        assert len(m.workspace["p"])
        m.change(
            [("c", (3,), False), ("a", (2, 2), False), ("f", (3, 1), True), ("b", (4, 1), True)]
        )
        m.change(
            [("a", (2, 2), True), ("c", (4,), False), ("f", (2, 2), False), ("b", (2, 3), False)]
        )
        assert m.workspace.check() == []

    def test_a_variable_of_the_body_belongs_to_the_smallest_conjunction_around_its_uses(
        self, views
    ):
        # exists y outside, exists z inside
        m = views(STORED + "p(x) <- c(x), !(a(x, y), !b(y, z)).")
        m.insert("c", (1,), (2,))
        m.insert("a", (1, 5), (2, 6))
        assert [*m.workspace["p"]] == []
        m.insert("b", (5, 0))
        assert [*m.workspace["p"]] == [(1,)]


class TestProjectionFreeRules:
    def test_records_are_inserted_and_removed_with_assignments_of_the_body(self, views):
        m = views(STORED + "r(x, y, z) <- a(x, y), b(y, z).")
        assert layout(m, "r").kind == PLAIN
        m.insert("a", (1, 2))
        m.insert("b", (2, 3), (2, 4))
        assert words(m, "r") == [(1, 2, 3), (1, 2, 4)]
        m.delete("b", (2, 3))
        assert words(m, "r") == [(1, 2, 4)]


class TestRulesWithProjection:
    RULE = STORED + "s(x, y) <- a(x, y), b(y, z)."
    # no order of the variables ends with those of neither head
    COUNTED = STORED + "s(x, y), t(z) <- a(x, y), b(y, z)."

    def test_the_support_count_is_the_number_of_assignments(self, views):
        m = views(self.COUNTED)
        assert layout(m, "s").kind == SUPPORT
        m.insert("a", (1, 2))
        m.insert("b", (2, 3), (2, 4), (2, 5))
        assert words(m, "s") == [(1, 2, 3)]

    def test_an_insert_increments_and_an_erase_decrements(self, views):
        m = views(self.COUNTED)
        m.insert("a", (1, 2))
        counts = []
        for z in (3, 4):
            m.insert("b", (2, z))
            counts += words(m, "s")
        m.delete("b", (2, 3))
        assert [*counts, *words(m, "s")] == [(1, 2, 1), (1, 2, 2), (1, 2, 1)]

    def test_a_record_whose_count_is_zero_is_deleted(self, views):
        m = views(self.COUNTED)
        m.insert("a", (1, 2))
        m.insert("b", (2, 3))
        m.delete("b", (2, 3))
        assert words(m, "s") == []

    def test_a_function_has_its_value_and_the_count(self, views):
        m = views(STORED + "g[x] = v <- a(x, y), f[y] = v.")
        m.insert("f", (2, 7), (3, 7))
        m.insert("a", (1, 2), (1, 3))
        assert words(m, "g") == [(1, 7, 2)]

    def test_erasures_are_applied_first_so_that_values_do_not_conflict(self, views):
        m = views(STORED + "g[x] = v <- a(x, y), f[y] = v.")
        m.insert("f", (2, 7), (3, 8))
        m.insert("a", (1, 2))
        m.change([("a", (1, 3), True), ("a", (1, 2), False)])
        assert [*m.workspace["g"]] == [(1, 8)]
        with pytest.raises(FunctionConflictError):
            m.workspace.exec("+a(1, 2).")


class TestShortCircuitEvaluation:
    def test_no_count_is_kept_where_the_first_assignment_is_enough(self, views):
        m = views(TestRulesWithProjection.RULE)
        assert layout(m, "s").kind == PLAIN
        m.insert("a", (1, 2))
        m.insert("b", (2, 3), (2, 4))
        m.delete("b", (2, 3))
        assert words(m, "s") == [(1, 2)]
        m.delete("b", (2, 4))
        assert words(m, "s") == []

    def test_one_assignment_of_an_existential_variable_is_enough(self, views):
        """Where nothing ties z to the head, one row says that there is any: further rows of b
        change nothing else.
        """
        m = views(STORED + "s(x) <- c(x), b(_, z), z > 3.")
        m.insert("c", *((x,) for x in range(50)))
        m.insert("b", (1, 4))
        before = words(m, "s")
        m.insert("b", (1, 5))
        assert words(m, "s") == before
        m.delete("b", (1, 4))
        assert words(m, "s") == before


class TestAggregations:
    def test_calories_consumed(self, views):
        m = views(
            "ate(p, m) -> string(p), string(m). calories[m] = c -> string(m), int(c). "
            "consumed[p] = t <- agg<<t = sum(c)>> ate(p, m), calories[m] = c."
        )
        m.insert("calories", ("tea", 2), ("cake", 400))
        m.insert("ate", ("ada", "tea"), ("ada", "cake"), ("bob", "tea"))
        assert [*m.workspace["consumed"]] == [("ada", 402), ("bob", 2)]

    def test_a_count_is_a_support_count_and_goes_at_zero(self, views):
        m = views(STORED + "outdegree[x] = n <- agg<<n = count()>> a(x, y).")
        assert layout(m, "outdegree").kind == COUNT
        m.insert("a", (1, 2), (1, 3), (2, 3))
        assert words(m, "outdegree") == [(1, 2), (2, 1)]
        m.delete("a", (1, 2), (2, 3))
        assert words(m, "outdegree") == [(1, 1)]

    def test_a_sum_adds_the_value_or_its_negative_and_goes_with_its_last_assignment(self, views):
        m = views(STORED + "t[x] = s <- agg<<s = sum(v)>> a(x, y), f[y] = v.")
        assert layout(m, "t").kind == SUM
        m.insert("f", (2, 5), (3, -5))
        m.insert("a", (1, 2), (1, 3))
        assert words(m, "t") == [(1, 0, 2)]  # a sum of 0 that two assignments contribute to
        m.delete("a", (1, 2))
        assert words(m, "t") == [(1, -5, 1)]
        m.delete("a", (1, 3))
        assert words(m, "t") == []

    def test_a_sum_of_fixed_precision_is_exact(self, views):
        m = views("p[i] = v -> int(i), decimal(9, 2)(v). t[] = s <- agg<<s = sum(v)>> p[_] = v.")
        for item, price in enumerate(("0.10", "0.20", "-0.30")):
            m.insert("p", (item, Decimal(price)))
        assert [str(s) for (s,) in m.workspace["t"]] == ["0.00"]

    def test_a_maximum_is_a_scan_of_an_intermediate_predicate(self, views):
        m = views(STORED + "top[x] = s <- agg<<s = max(v)>> d[x, y, z] = v.")
        found = layout(m, "top")
        assert found.kind == FOLD
        m.insert("d", (1, 1, 1, 9), (1, 1, 2, 4), (2, 1, 1, 3))
        assert len(words(m, found.fold.state.name)) == 3
        m.delete("d", (1, 1, 1, 9))
        assert [*m.workspace["top"]] == [(1, 4), (2, 3)]
        m.delete("d", (1, 1, 2, 4))
        assert [*m.workspace["top"]] == [(2, 3)]

    def test_levels_of_detail_share_the_intermediate_predicate(self, views):
        m = views(
            STORED + "one[x] = s, two[x, y] = t <- agg<<s = max(v), t = max(v)>> d[x, y, z] = v."
        )
        assert layout(m, "one").fold.state == layout(m, "two").fold.state
        m.insert("d", (1, 1, 1, 9), (1, 2, 1, 4))
        m.delete("d", (1, 1, 1, 9))
        assert ([*m.workspace["one"]], [*m.workspace["two"]]) == ([(1, 4)], [(1, 2, 4)])

    def test_a_concatenation_is_read_from_a_rope(self, views):
        m = views("w[n] = t -> int(n), string(t). all[] = s <- agg<<s = concat(t, n)>> w[n] = t.")
        m.insert("w", *((n, f"w{n}") for n in range(3)))
        m.delete("w", (1, "w1"))
        assert str(m.workspace.rope("all")) == "w0w2"

    def test_a_total_of_floats_is_the_rounded_exact_sum_whatever_came_before(self, views):
        m = views("g[x] = v -> int(x), float(v). t[] = s <- agg<<s = total(v)>> g[_] = v.")
        values = [1e300, 1e-300, -1e300, 0.1, 0.2, 0.3]
        for x, value in enumerate(values):
            m.insert("g", (x, value))
        m.delete("g", (0, 1e300), (2, -1e300))
        assert [*m.workspace["t"]] == [(math.fsum([1e-300, 0.1, 0.2, 0.3]),)]
