"""The paper's worked examples, as they stand there."""

import numpy as np
import pytest

import ivm
from ivm import lang
from ivm.join.join import Join
from ivm.join.oracle import change_oracle
from ivm.join.plan_arrays import INT_MAX, INT_MIN
from ivm.maintenance.maintain import maintain
from ivm.maintenance.sensitivity import index_spec
from ivm.maintenance.surgery import Delta, surgeries
from ivm.plan.index import Index
from ivm.plan.plan import sensors_of
from ivm.plan.planner import Chosen, make_plans
from pagestore.trees.apply import apply
from pagestore.trees.delta import delta
from pagestore.trees.interval_index import interval_spec, stab_many
from pagestore.trees.kernels.apply_layout import ERASE, INSERT
from pagestore.trees.tree import Spec, Tree
from tests.support.memory import MemoryPager

END = INT_MAX


def tree_of(pager, spec, rows):
    rows = np.array(sorted(rows), np.int64).reshape(-1, spec.columns).T
    return apply(pager, Tree.empty(spec), np.zeros(rows.shape[1], np.int64), rows)[0]


def plan_of(text, order=None):
    program = lang.compile(text)
    stored = {name: len(p.types) for name, p in program.predicates.items()}
    return make_plans(
        program.rules[0],
        program.predicates,
        stored,
        lambda p, c: 1000.0,
        lambda const: const.value,
        [Chosen(order)] if order else (),
    )[0]


class TestUnaryJoin:
    """A = {0,2,4,5,6}, B = {1,2,6,7}; then 5 leaves A, 8 joins A, 2 leaves B, 3 joins B."""

    # C(x) <- A(x), B(x).
    PLAN = plan_of("A(x) -> int(x). B(x) -> int(x). C(x) <- A(x), B(x).")
    A_SENS = {(INT_MIN, 0), (1, 2), (2, 4), (6, 6), (6, END)}
    B_SENS = {(INT_MIN, 1), (2, 2), (4, 6)}

    @pytest.fixture
    def trees(self):
        """Old and new versions of A and B, and their deltas."""
        pager = MemoryPager()
        spec = Spec(1, 1, 0)
        old = [tree_of(pager, spec, [(x,) for x in xs]) for xs in ((0, 2, 4, 5, 6), (1, 2, 6, 7))]
        new = [
            apply(pager, old[0], np.array([ERASE, INSERT]), np.array([[5, 8]]))[0],
            apply(pager, old[1], np.array([ERASE, INSERT]), np.array([[2, 3]]))[0],
        ]
        return pager, old, new

    def record(self, pager, trees):
        """The join with every operation recorded; the plan itself drops both indices, which follow the order."""
        return Join(pager.pages, self.PLAN.shape, trees, sensors=sensors_of(self.PLAN, self.PLAN.trace_sensors)).all()

    def test_sensitivities(self, trees):
        pager, old, _ = trees
        bindings, (a, b) = self.record(pager, old)
        assert bindings.tolist() == [[2, 6]]
        assert set(map(tuple, a.T.tolist())) == self.A_SENS
        assert set(map(tuple, b.T.tolist())) == self.B_SENS

    def test_change_oracle_and_revised_sensitivities(self, trees):
        pager, old, new = trees
        _, rows = self.record(pager, old)
        kept, contributions = [], []
        for recorded, before, after in zip(rows, old, new, strict=True):
            index = tree_of(pager, interval_spec(9, 0, 0), recorded.T.tolist())
            _, changed = delta(pager.pages, before, after)
            hit = stab_many(pager.pages, index, changed)
            contributions.append((0, hit))
            kept.append(set(map(tuple, recorded.T.tolist())) - set(map(tuple, hit.T.tolist())))
        assert [c.T.tolist() for _, c in contributions] == [[[6, END]], [[2, 2]]]
        oracle = change_oracle(1, contributions)
        assert oracle.rows.tolist() == [[2, 6], [2, END]]
        sensors = sensors_of(self.PLAN, self.PLAN.trace_sensors)
        bindings, fresh = Join(pager.pages, self.PLAN.shape, new, sensors=sensors, regions=oracle).all()
        assert bindings.tolist() == [[6]]
        revised = [old_rows | set(map(tuple, r.T.tolist())) for old_rows, r in zip(kept, fresh, strict=True)]
        assert revised[0] == {(INT_MIN, 0), (1, 2), (2, 2), (2, 4), (6, 6), (6, 8)}
        assert revised[1] == {(INT_MIN, 1), (2, 3), (4, 6), (6, 6), (8, END)}

    def test_the_intersection_loses_2(self, trees):
        pager, old, new = trees
        tries = [t.index for t in self.PLAN.tries]
        deltas = {i: Delta(*delta(pager.pages, o, n)) for i, o, n in zip(tries, old, new, strict=True)}
        change = maintain(
            pager.pages,
            self.PLAN,
            dict(zip(tries, old, strict=True)),
            dict(zip(tries, new, strict=True)),
            deltas,
            [],
        )
        assert change.delta.actions.tolist() == [ERASE]
        assert change.delta.rows.tolist() == [[2]]


class TestTreeSurgery:
    """The two versions of A(x, y, z), and the surgeries of each depth."""

    OLD = [(0, 30, 80), (0, 30, 81), (1, 35, 60), (1, 35, 61), (3, 40, 90), (3, 50, 91), (3, 50, 92)]
    NEW = [(0, 30, 80), (1, 35, 60), (1, 35, 61), (3, 50, 91), (4, 60, 71)]

    def test_delta_and_surgeries_by_depth(self):
        pager = MemoryPager()
        old, new = (tree_of(pager, Spec(1, 3, 0), rows) for rows in (self.OLD, self.NEW))
        actions, rows = delta(pager.pages, old, new)
        assert actions.tolist() == [ERASE, ERASE, ERASE, INSERT]
        assert rows.T.tolist() == [[0, 30, 81], [3, 40, 90], [3, 50, 92], [4, 60, 71]]
        by_depth = [surgeries(pager.pages, Delta(actions, rows), old, new, d) for d in (1, 2, 3)]
        assert [s.rows[:, s.actions == ERASE].T.tolist() for s in by_depth] == [
            [],
            [[3, 40]],
            [[0, 30, 81], [3, 40, 90], [3, 50, 92]],
        ]
        assert [s.rows[:, s.actions == INSERT].T.tolist() for s in by_depth] == [[[4]], [[4, 60]], [[4, 60, 71]]]


class TestIntervalTree:
    INTERVALS = [
        (11, 100), (29, 47), (40, 42), (49, 82), (62, 78), (63, 73), (67, 72), (67, 78),
        (72, 87), (77, 96), (82, 94), (83, 99), (86, 98), (90, 93), (93, 100), (98, 107),
    ]  # fmt: skip

    def test_stab_at_80(self):
        pager = MemoryPager()
        index = tree_of(pager, interval_spec(1, 0, 0), self.INTERVALS)
        found = stab_many(pager.pages, index, np.array([[80]]))
        assert found.T.tolist() == [[11, 100], [49, 82], [72, 87], [77, 96]]


class TestPrimitive:
    def test_sum_of_two_functions(self, tmp_path):
        # C[x] = z <- A[x] = u, B[x] = v, z = u + v.
        a, b = {0: 0, 1: 10, 2: 0, 3: 30, 4: 0, 5: 0}, {0: 0, 1: 0, 2: 1, 3: 1, 4: 0, 5: 0}
        with ivm.open(tmp_path / "c.pages", sync="off") as ws:
            ws.install(
                "A[x] = u -> int(x), int(u). B[x] = v -> int(x), int(v). C[x] = z <- A[x] = u, B[x] = v, z = u + v."
            )
            with ws.transaction() as txn:
                txn.insert("A", list(a.items()))
                txn.insert("B", list(b.items()))
            assert dict(ws["C"]) == {0: 0, 1: 10, 2: 1, 3: 31, 4: 0, 5: 0}
            seen = []
            ws.subscribe("C", seen.append)
            with ws.transaction() as txn:
                txn.set("A", [(2, 20), (5, 50)])
            assert [tuple(row.values()) for row in seen[0].to_pylist()] == [
                (2, 1, "delete"), (2, 21, "insert"), (5, 0, "delete"), (5, 50, "insert"),
            ]  # fmt: skip


class TestSeveralArguments:
    """F(x, y) <- G(x, z), H(y, z), I(x, y, z), R(z) with key order [x, y, z]."""

    TEXT = (
        "G(x, z) -> int(x), int(z). H(y, z) -> int(y), int(z). I(x, y, z) -> int(x), int(y), int(z). R(z) -> int(z)."
        "F(x, y) <- G(x, z), H(y, z), I(x, y, z), R(z)."
    )

    def test_which_indices_there_are(self):
        plan = plan_of(self.TEXT, ["x", "y", "z"])
        name = {0: "G", 1: "H", 2: "I", 3: "R"}
        variable = {0: "x", 1: "y", 2: "z", -1: "[", -2: "]"}
        all_of_them = {(name[s.trie], plan.variables[s.level]) for s in plan.trace_sensors}
        assert all_of_them == {
            ("G", "x"), ("G", "z"), ("H", "y"), ("H", "z"), ("I", "x"), ("I", "y"), ("I", "z"), ("R", "z"),
        }  # fmt: skip
        kept = {(name[s.trie], plan.variables[s.level]): "".join(variable[c] for c in s.columns) for s in plan.sensors}
        assert kept == {
            ("G", "z"): "x[]y", ("H", "y"): "[]x", ("H", "z"): "y[]x", ("R", "z"): "[]xy",
        }  # fmt: skip

    def test_maintained_under_random_edits(self, tmp_path):
        rng = np.random.default_rng(5)
        arity = {"G": 2, "H": 2, "I": 3, "R": 1}
        with ivm.open(tmp_path / "f.pages", sync="off") as ws:
            ws.install(self.TEXT)
            for _ in range(40):
                with ws.transaction() as txn:
                    for name, n in arity.items():
                        rows = list(map(tuple, rng.integers(0, 4, (rng.integers(0, 9), n)).tolist()))
                        txn.insert(name, rows)
                        txn.delete(name, list(map(tuple, rng.integers(0, 4, (4, n)).tolist())))
                ws.verify("F")


def test_index_shapes_follow_the_general_form():
    """H_sens,z(y, [z1, z2], x): alpha before the interval, gamma behind it."""
    plan = plan_of(TestSeveralArguments.TEXT, ["x", "y", "z"])
    sensor = next(s for s in plan.sensors if s.trie == 1 and s.depth == 1)
    assert index_spec(sensor) == interval_spec(0, alphas=1, gammas=1)
    assert plan.tries[1].index == Index("H", (0, 1))
