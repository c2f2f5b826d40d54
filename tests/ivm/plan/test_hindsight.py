"""What a rule that chooses for itself has cost beside always probing and always matching, over
time: at no moment more than twice the better of the two.
"""

import re
from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest

from benchmarks.families import Edit, Family, celebrity, followed, junction, triangles
from benchmarks.proof import WAYS, Way
from ivm.engine.kernels.run import EXCESS_FREE
from ivm.engine.regret import Regret
from ivm.plan import costs
from ivm.workspace import Workspace
from pagestore_tools.bench import graphs
from pagestore_tools.bench.harness import workspace_with

# measured, in units of 30 ns (ivm/plan/costs.py)
INSTALLED = 100_000  # of a rule, for the calls of Python
TRANSACTION = 9_000  # of one row, beyond the operations of a rule
TIMES = 2


def recording(workspace: Workspace) -> float:
    """Return what the last recording of sensitivity indices cost, by its operations."""
    took = re.search(r"took +([\d,]+) operation", workspace.explain("q"))
    assert took is not None
    return costs.RECORDING * int(took[1].replace(",", ""))


def spent(
    family: Family, way: Way, edits: Iterable[Edit], file: Path, monkeypatch: pytest.MonkeyPatch
) -> np.ndarray:
    """Return what a rule has cost once it is installed and after each edit, float64[1 + edits].

    Counted are rows that are read, recording, joins by columns and indices that are built before
    the first probe, and the operations of probes and matches.
    """
    prepared, note = list[float](), Regret.prepared
    monkeypatch.setattr(
        Regret, "prepared", lambda self, rule, cost: (prepared.append(cost), note(self, rule, cost))
    )
    with workspace_with(file, family.declared, family.facts, threads=1) as workspace:
        workspace.install(family.rule, "rule", maintenance=way)
        reading = costs.READ * sum(len(columns[0]) for columns in family.facts.values())
        matches = workspace.stats("q")["sensitivity_rows"] > 0
        found = [INSTALLED + reading + matches * (reading + recording(workspace))]
        for edit, relation, columns in edits:
            prepared.clear()
            with workspace.transaction() as txn:
                getattr(txn, edit)(relation, columns)
            stats = workspace.stats("q")
            now, operations = stats["sensitivity_rows"] > 0, stats["operations"]
            cost = TRANSACTION + costs.PREPARED * sum(prepared) + (now > matches) * reading
            if now > matches:
                cost += recording(workspace)
            if matches:
                cost += costs.matching(1, operations, 2 * stats["matched"], 0)
            elif not any(prepared):
                cost += operations * (
                    costs.LONG_OPERATION if operations > EXCESS_FREE else costs.OPERATION
                )
            found.append(cost)
            matches = now
    return np.cumsum(found)


def streams() -> dict[str, tuple[Family, list[Edit]]]:
    """Return rules with edits, of which one way is the better, then the other, or both in turns."""
    large, some = celebrity(100_000), followed(100_000)
    hub, few = ([*islice(one.edits(), 150)] for one in (large, some))
    premium: list[Edit] = [
        (edit, "premium", [np.array([2 * k])]) for k in range(75) for edit in ("delete", "insert")
    ]
    small = junction(40_000)
    graph = triangles(graphs.even(20_000))
    return {
        "a hub": (large, hub * 2),
        "no hub": (some, few),
        "a hub until it turns": (large, hub[:26] + few),
        "then other relations": (large, hub[:26] + premium),
        "a hub at last": (large, few + hub),
        "in turns": (large, [*chain.from_iterable(zip(hub, few, strict=True))]),
        "in turns of ten": (
            large,
            [e for k in range(0, 100, 10) for e in hub[k : k + 10] + few[k : k + 10]],
        ),
        "a junction": (small, [*islice(small.edits(), 100)]),
        "triangles": (graph, [*islice(graph.edits(), 60)]),
    }


STREAMS = streams()


@pytest.mark.parametrize("stream", STREAMS)
def test_choosing_costs_at_most_twice_the_better_way_at_any_time(stream, tmp_path, monkeypatch):
    family, edits = STREAMS[stream]
    found = {way: spent(family, way, edits, tmp_path / way, monkeypatch) for way in WAYS}
    ratio = found["auto"] / np.minimum(found["probe"], found["match"])
    assert ratio.max() <= TIMES
