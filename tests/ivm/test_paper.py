"""The paper's worked examples, as they stand there."""

from decimal import Decimal

import numpy as np
import pytest

import ivm
from ivm.join.join import Join
from ivm.join.plan_arrays import change_oracle
from ivm.plan.plan import Index, sensors_of
from ivm.plan.planner import Chosen, make_plans
from ivm.rules.compile import compile
from ivm.views.delta import Delta, Transition, index_spec, surgeries
from ivm.ways.match import maintain
from pagestore.trees.compare import delta
from pagestore.trees.edit import apply
from pagestore.trees.folds import interval_spec, stab_many
from pagestore.trees.kernels.node_buffer import ERASE, INSERT
from pagestore.trees.tree import Spec, Tree
from tests.support.memory import MemoryPager
from tests.support.paper import example

ACTIONS = {"ERASE": ERASE, "INSERT": INSERT}


def tree_of(pager, spec, rows):
    rows = np.array(sorted(rows), np.int64).reshape(-1, spec.columns).T
    return apply(pager, Tree.empty(spec), np.zeros(rows.shape[1], np.int64), rows)[0]


def pairs(rows):
    """Rows of an example as a set."""
    return set(map(tuple, rows))


def changes(rows):
    """Changes of an example as kernels take them: actions and rows."""
    actions = [ACTIONS[action] for action, _ in rows]
    return np.array(actions), np.array([np.atleast_1d(row) for _, row in rows], np.int64).T


def plan_of(text, order=None):
    program = compile(text)
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
    """C(x) <- A(x), B(x), where 5 leaves A, 8 joins A, 2 leaves B and 3 joins B."""

    PAPER = example("unary_join")
    PLAN = plan_of(PAPER["rules"])

    @pytest.fixture
    def trees(self):
        """Old and new versions of A and B, and their deltas."""
        pager = MemoryPager()
        spec = Spec(1, 1, 0)
        old = [tree_of(pager, spec, [(x,) for x in self.PAPER["old"][name]]) for name in "AB"]
        edits = [changes(self.PAPER["changes"][name]) for name in "AB"]
        new = [apply(pager, tree, *edit)[0] for tree, edit in zip(old, edits, strict=True)]
        return pager, old, new

    def record(self, pager, trees):
        """The join with every operation recorded; the plan itself drops both indices, which
        follow the order.
        """
        return Join(
            pager.pages,
            self.PLAN.shape,
            trees,
            sensors=sensors_of(self.PLAN, self.PLAN.trace_sensors),
        ).all()

    def test_sensitivities(self, trees):
        pager, old, _ = trees
        bindings, (a, b) = self.record(pager, old)
        assert bindings.tolist() == [self.PAPER["old"]["C"]]
        assert pairs(a.T.tolist()) == pairs(self.PAPER["sensitivity"]["A"])
        assert pairs(b.T.tolist()) == pairs(self.PAPER["sensitivity"]["B"])

    def test_change_oracle_and_revised_sensitivities(self, trees):
        pager, old, new = trees
        _, rows = self.record(pager, old)
        kept, contributions = [], []
        for recorded, before, after in zip(rows, old, new, strict=True):
            index = tree_of(pager, interval_spec(9, 0, 0), recorded.T.tolist())
            _, changed = delta(pager.pages, before, after)
            hit = stab_many(pager.pages, index, changed)
            contributions.append((0, hit))
            kept.append(pairs(recorded.T.tolist()) - pairs(hit.T.tolist()))
        assert [c.T.tolist() for _, c in contributions] == [
            self.PAPER["contributions"][name] for name in "AB"
        ]
        oracle = change_oracle(1, contributions)
        assert oracle.rows.T.tolist() == self.PAPER["oracle"]
        sensors = sensors_of(self.PLAN, self.PLAN.trace_sensors)
        bindings, fresh = Join(
            pager.pages, self.PLAN.shape, new, sensors=sensors, regions=oracle
        ).all()
        assert bindings.tolist() == [self.PAPER["new"]["C"]]
        revised = [old_rows | pairs(r.T.tolist()) for old_rows, r in zip(kept, fresh, strict=True)]
        assert revised == [pairs(self.PAPER["revised_sensitivity"][name]) for name in "AB"]

    def test_the_intersection_loses_2(self, trees):
        pager, old, new = trees
        tries = [t.index for t in self.PLAN.tries]
        deltas = {
            i: Delta(*delta(pager.pages, o, n)) for i, o, n in zip(tries, old, new, strict=True)
        }
        change = maintain(
            pager.pages,
            self.PLAN,
            Transition(
                dict(zip(tries, old, strict=True)), dict(zip(tries, new, strict=True)), deltas
            ),
            [],
        )
        actions, rows = changes(self.PAPER["changes"]["C"])
        assert change.delta.actions.tolist() == actions.tolist()
        assert change.delta.rows.tolist() == rows.tolist()


class TestTreeSurgery:
    """The two versions of A(x, y, z), and the surgeries of each depth."""

    PAPER = example("tree_surgery")

    def test_delta_and_surgeries_by_depth(self):
        pager = MemoryPager()
        old, new = (
            tree_of(pager, Spec(1, 3, 0), map(tuple, self.PAPER[which])) for which in ("old", "new")
        )
        actions, rows = delta(pager.pages, old, new)
        expected_actions, expected_rows = changes(self.PAPER["delta"])
        assert (
            actions.tolist() == expected_actions.tolist()
            and rows.tolist() == expected_rows.tolist()
        )
        for depth in (1, 2, 3):
            found = surgeries(pager.pages, Delta(actions, rows), old, new, depth)
            wanted = [
                (ACTIONS[action], branch)
                for action, branch in self.PAPER["surgeries"]
                if len(branch) == depth
            ]
            assert sorted(
                zip(found.actions.tolist(), found.rows.T.tolist(), strict=True)
            ) == sorted(wanted)


class TestIntervalTree:
    PAPER = example("interval_tree")

    def test_stab_at_80(self):
        pager = MemoryPager()
        index = tree_of(pager, interval_spec(1, 0, 0), map(tuple, self.PAPER["intervals"]))
        found = stab_many(pager.pages, index, np.array([[self.PAPER["point"]]]))
        assert found.T.tolist() == self.PAPER["holding"]


class TestExtremes:
    def test_greatest_sales_of_a_region(self, tmp_path):
        paper = example("sales")
        maxsales = [(region, Decimal(total)) for region, total in paper["maxsales"]]
        with ivm.open(tmp_path / "s.pages", sync="off") as ws:
            ws.install(paper["rules"])
            with ws.transaction() as txn:
                txn.insert("sales", [(*key, Decimal(total)) for *key, total in paper["sales"]])
            assert list(ws["maxsales"]) == maxsales
            with ws.store.transaction() as txn:
                txn.add_scan("sales", "max:t")
            for region, greatest in maxsales:
                assert ws["sales"].prefix(region).scan("max:t") == greatest


class TestPrimitive:
    def test_sum_of_two_functions(self, tmp_path):
        paper = example("sum")
        with ivm.open(tmp_path / "c.pages", sync="off") as ws:
            ws.install(paper["rules"])
            with ws.transaction() as txn:
                txn.insert("A", list(map(tuple, paper["A"])))
                txn.insert("B", list(map(tuple, paper["B"])))
            assert list(ws["C"]) == list(map(tuple, paper["C"]))
            seen = []
            ws.subscribe("C", seen.append)
            with ws.transaction() as txn:
                txn.set("A", list(map(tuple, paper["changed_A"])))
            assert [[*row.values()] for row in seen[0].to_pylist()] == paper["difference"]


class TestSeveralArguments:
    """F(x, y) <- G(x, z), H(y, z), I(x, y, z), R(z) with key order [x, y, z]."""

    PAPER = example("several_arguments")
    TEXT = PAPER["rules"]

    def test_which_indices_there_are(self):
        plan = plan_of(self.TEXT, self.PAPER["order"])
        name = {0: "G", 1: "H", 2: "I", 3: "R"}
        variable = {0: "x", 1: "y", 2: "z", -1: "[", -2: "]"}
        all_of_them = {f"{name[s.trie]} {plan.variables[s.level]}" for s in plan.trace_sensors}
        assert sorted(all_of_them) == self.PAPER["indices"]
        kept = {
            f"{name[s.trie]} {plan.variables[s.level]}": "".join(variable[c] for c in s.columns)
            for s in plan.sensors
        }
        assert kept == self.PAPER["kept"]

    def test_maintained_under_random_edits(self, tmp_path):
        rng = np.random.default_rng(5)
        arity = {"G": 2, "H": 2, "I": 3, "R": 1}
        with ivm.open(tmp_path / "f.pages", sync="off") as ws:
            ws.install(self.TEXT)
            for _ in range(40):
                with ws.transaction() as txn:
                    for name, n in arity.items():
                        rows = list(
                            map(tuple, rng.integers(0, 4, (rng.integers(0, 9), n)).tolist())
                        )
                        txn.insert(name, rows)
                        txn.delete(name, list(map(tuple, rng.integers(0, 4, (4, n)).tolist())))
                ws.verify("F")


def test_index_shapes_follow_the_general_form():
    """H_sens,z(y, [z1, z2], x): alpha before the interval, gamma behind it."""
    plan = plan_of(TestSeveralArguments.TEXT, ["x", "y", "z"])
    sensor = next(s for s in plan.sensors if s.trie == 1 and s.depth == 1)
    assert index_spec(sensor) == interval_spec(0, alphas=1, gammas=1)
    assert plan.tries[1].index == Index("H", (0, 1))
