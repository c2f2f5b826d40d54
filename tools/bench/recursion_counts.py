"""Counts what maintaining reachability takes for each row that is touched, over sizes and deltas, and draws it.

python -m pagestore_tools.bench.recursion_counts docs/recursion-counts.svg --largest 6
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

import ivm

from .counts import picture

RULES = """
    edge(x, y) -> int(x), int(y).  start(x) -> int(x).
    reach(x) <- start(x).  reach(y) <- reach(x), edge(x, y).
"""
TIMES = 15  # that edges go and come back
COLOURS = {1: "#2f6db5", 10: "#c2571a", 100: "#3a8f4d"}  # by the edges of a transaction


def counts(edges: int, folder: Path) -> dict[str, float]:
    """Operations for each row touched, for deltas of some sizes, of a random graph with two edges a vertex.

    A row is touched if it is examined, comes or goes; edges of the delta count, too.
    """
    random = np.random.default_rng(edges)
    rows = np.unique(random.integers(0, edges // 2, (2, edges)), axis=1)
    with ivm.open(folder / f"{edges}.pages", sync="off") as workspace:
        workspace.install(RULES)
        with workspace.transaction() as txn:
            txn.insert("start", [(np.bincount(rows[0]).argmax(),)])
            txn.insert("edge", rows)
        return {str(delta): _count(workspace, rows, delta, random) for delta in COLOURS}


def _count(workspace: ivm.Workspace, rows: np.ndarray, delta: int, random: np.random.Generator) -> float:
    operations = touched = 0
    for _ in range(TIMES):
        chosen = rows[:, random.choice(rows.shape[1], delta, replace=False)]
        for edit in ("delete", "insert"):
            with workspace.transaction() as txn:
                getattr(txn, edit)("edge", chosen)
            stats = workspace.stats("reach")
            operations += stats["operations"]
            touched += delta + stats["examined"] + stats["erased"] + stats["inserted"]
    return operations / touched


def main() -> None:
    """Count for sizes up to `--largest`, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--largest", type=int, default=6, help="the edges of the largest graph, as a power of ten")
    options = parser.parse_args()
    sizes = [10**power for power in range(3, options.largest + 1)]
    found = []
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        for edges in sizes:
            found.append(counts(edges, Path(folder)))
            print(f"{edges:>10,}", "  ".join(f"delta of {name}: {value:.1f}" for name, value in found[-1].items()))
    titles = {
        str(delta): f"edges there or back in a transaction: {delta}; operations for each row touched"
        for delta in COLOURS
    }
    colours = {str(delta): colour for delta, colour in COLOURS.items()}
    lines = {name: [counted[name] for counted in found] for name in titles}
    options.out.write_text(picture(sizes, lines, titles, colours), encoding="utf-8")


if __name__ == "__main__":
    main()
