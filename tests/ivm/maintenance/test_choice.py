"""Changes are followed or their views evaluated anew, whichever takes less: counted, for batches
of all sizes.
"""

import re
from math import inf

import numpy as np
import pyarrow as pa
import pytest

import ivm
from benchmarks.shapes import DECLARED, SHAPES, tables
from ivm.engine.choice import Choice
from ivm.memory import Budget
from ivm.plan.costs import JOINED, READ
from ivm.plan.plan import Columns
from ivm.ways.way import Context
from pagestore_tools.bench.harness import workspace_with
from pagestore_tools.bench.meter import Meter
from tests.support.calls import calls_of

SIZE = 20_000
MOST = 1.2  # times the work of the better way
MOST_OF_FEW = 2.0  # the same for up to 64 rows: a share of so few tells less
SLACK = 30_000  # of work: a millisecond, in which probing tells what it will cost
# the work of a call of Python, and of a page that is written; an operation of 30 ns is 1
CALL, PAGE = 10, 300
MORE = {
    "chain": ("q[] = n <- agg<<n = count()>> e(a, b), e(b, c), e(c, d), e(d, f), e(f, _).", "e"),
    "4-cycles": ("q[] = n <- agg<<n = count()>> e(a, b), e(b, c), e(c, d), e(d, a).", "e"),
    "links": ("q(x, y) <- e(p, x), e(p, y), x != y.", "e"),
    "sales": ("q(i, r, v) <- sale[i] = (s, v), store[s] = r.", "sale"),
    "sales of a store": ("q(i, r, v) <- sale[i] = (s, v), store[s] = r.", "store"),
    "projected": ("q(a, b) <- fact[_] = (a, b, _, _).", "fact"),
}
TAKEN = (
    "star", "star, a dimension", "orders of a segment", "listed with a dimension",
    "distinct ends of 2-paths",
    "3-paths counted", "triangles", "unequal values", "starts within ends",
)  # fmt: skip
BATCHES = 1, 10, 50, 100, 0.01, 0.1, 0.5  # rows, or shares of a relation
WAYS = "follow", "anew", "chosen"


class Counting:
    """Counts the work of transactions that take one of the WAYS."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.way, self.budgets, self.work = "chosen", list[Budget](), 0.0
        better, instead, note = Choice.is_better_anew, Choice.instead, Context.note_operations
        init = Budget.__init__

        def begun(budget, *given):
            init(budget, *given)
            self.budgets.append(budget)

        def noted(context, rule, operations):
            joined = any(
                len(plan.tries) > 1 and not isinstance(plan.way, Columns) for plan in rule.plans
            )
            self.work += (JOINED if joined else READ) * operations
            note(context, rule, operations)

        def is_better(choice, step):
            if self.way == "chosen":
                return better(choice, step)
            changed = any(trie.index in choice._context.deltas for trie in step.plan.tries)
            return self.way == "anew" and changed and choice.may_recompute(step.rule)

        monkeypatch.setattr(Budget, "__init__", begun)
        monkeypatch.setattr(Context, "note_operations", noted)
        monkeypatch.setattr(Choice, "is_better_anew", is_better)
        monkeypatch.setattr(
            Choice, "instead", lambda *args: inf if self.way == "follow" else instead(*args)
        )

    def of(self, workspace, kind, name, rows) -> float:
        """Return the work of a transaction."""
        self.budgets.clear()
        self.work = 0.0

        def edit() -> None:
            with workspace.transaction() as txn:
                getattr(txn, kind)(name, rows)

        with Meter(workspace.store) as meter:
            calls = calls_of(edit)
        spent = sum(budget.spent for budget in self.budgets)
        return self.work + spent + CALL * calls + PAGE * meter.counts["pages written"]


@pytest.mark.parametrize("shape", [*TAKEN, *MORE])
def test_a_batch_takes_little_more_than_the_better_way(shape, tmp_path, monkeypatch):
    rules, changed = MORE.get(shape) or (SHAPES[shape].rules, SHAPES[shape].changed)
    given = {name: pa.table(columns) for name, columns in tables(SIZE).items()}
    counting, work = Counting(monkeypatch), dict[tuple, float]()
    drawn = np.random.default_rng(3).permutation(len(given[changed]))
    for way in WAYS:
        with workspace_with(tmp_path / f"{way}.pages", DECLARED, given, threads=1) as workspace:
            workspace.install(rules, "shape")
            counting.way = way
            for batch in BATCHES:
                n = batch if batch >= 1 else int(batch * len(drawn))
                rows = given[changed].take(np.sort(drawn[:n]))
                for kind in 2 * ("delete", "insert"):
                    work[way, n, kind] = counting.of(workspace, kind, changed, rows)
            workspace.verify("q")
    slower = {
        (n, kind): (chosen, work["follow", n, kind], work["anew", n, kind])
        for (way, n, kind), chosen in work.items()
        if way == "chosen"
        and chosen
        > (MOST if n > 64 else MOST_OF_FEW) * min(work[other, n, kind] for other in WAYS[:2])
        + SLACK
    }
    assert not slower, f"work of what was chosen, of following, and of evaluating anew: {slower}"


def test_explain_says_what_is_compared(tmp_path, monkeypatch):
    """Of a view, the cost of evaluating it anew is that which a large batch is weighed against."""
    weighed, evaluating = [], Choice.evaluating
    monkeypatch.setattr(
        Choice, "evaluating", lambda *given: weighed.append(evaluating(*given)) or weighed[-1]
    )
    declared = "e(x, y) -> int(x), int(y). v(x, z) <- e(x, y), e(y, z)."
    with ivm.open(tmp_path / "s.pages", sync="off", threads=1) as workspace:
        workspace.install(declared)
        with workspace.transaction() as txn:
            txn.insert("e", np.arange(4000).reshape(-1, 2) // 3)
        (said,) = re.findall(r"costs .* ([\d,]+) to evaluate anew", workspace.explain("v"))
        weighed.clear()
        with workspace.transaction() as txn:
            txn.insert("e", np.arange(1400, 2200).reshape(-1, 2))
    assert weighed and abs(weighed[0] / float(said.replace(",", "")) - 1) < 0.2
