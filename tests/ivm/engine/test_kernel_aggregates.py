"""Aggregates that a kernel follows, over numbers of all sizes: each view is compared with its
rules.

Small numbers stay in the kernel; what no word holds, sums of squares or quotients of long ones, is
left to Python.
"""

from decimal import Decimal

import numpy as np
import pytest
from numba import config

import ivm
from ivm.engine.schedule import Schedule
from tests.support.programs.amounts import times

DECLARATIONS = "whole(x, v) -> int(x), int(v). fee(x, v) -> int(x), decimal(9,2)(v). load(x, v) -> int(x), float(v).\n"
ORDERED = [
    "min(v)", "max(v)", "count_distinct(v)", "median(v)", "argmin(v, x)", "argmax(x, v)",
    "quantile(v, 0.75)",
    "quantile(v, 0)", "quantile_cont(v, 0.9)", "quantile_cont(v, 0.25)", "quantile_cont(v, 1)",
    "avg(v)",
]  # fmt: skip
SQUARED = ["variance(v)", "var_pop(v)"]
VALUES = {  # four small ones first
    "whole": (
        0,
        1,
        -1,
        3,
        10,
        2**31,
        -(2**31),
        2**32 - 1,
        -(2**33),
        2**52 + 1,
        2**62,
        2**63 - 1,
        -(2**63),
    ),
    "fee": (*(Decimal(n).scaleb(-2) for n in (0, 1, -1, 250, 9999, 2**29, -(2**29), 999_999_999)),),
    "load": (
        0.0,
        0.5,
        -0.25,
        3.0,
        0.1,
        1 / 3,
        1e-9,
        1e300,
        -1e300,
        5e-324,
        2.0**-1022,
        2.0**53,
        float("inf"),
    ),
}
CALLS = [
    *((name, call) for name in VALUES for call in ORDERED),
    *((name, call) for name in ("whole", "fee") for call in SQUARED),
    ("load", "total(v)"),
]


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_results_are_those_of_the_rules(name, call, tmp_path, monkeypatch):
    taken, run = [], Schedule.run

    def noted(self, *given):
        done = run(self, *given)
        taken.append(done == len(self.steps))
        return done

    monkeypatch.setattr(Schedule, "run", noted)
    workspace = ivm.open(tmp_path / "s.pages", sync="off", page_size=4096, threads=1)
    workspace.install(
        f"{DECLARATIONS}of[x] = n <- agg<<n = {call}>> {name}(x, v). all[] = n <- agg<<n = "
        f"{call}>> {name}(x, v)."
    )
    random, values = np.random.default_rng(len(call)), VALUES[name]
    for few in (values[:4], values):
        taken.clear()
        for _ in range(times(20)):
            rows = [(int(random.integers(4)), values[random.integers(len(few))]) for _ in range(3)]
            with workspace.transaction() as txn:
                txn.insert(name, rows[:2])
                txn.delete(name, rows[2:])
            workspace.verify("of")
            workspace.verify("all")
        assert all(taken) or few is values or config.DISABLE_JIT, "a kernel follows small numbers"
    assert workspace.store.check() == []
    workspace.close()
