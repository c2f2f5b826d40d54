"""Counts operations over sizes, from 10^3 on, and draws them.

python -m pagestore_tools.bench counts docs/scan-counts.svg --largest 7           scans, updates, stabs, complements
python -m pagestore_tools.bench recursion_counts docs/recursion-counts.svg --largest 6   maintained reachability
"""

import argparse
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import log2, log10
from pathlib import Path

import numpy as np

import ivm
import pagestore
from pagestore.host import COUNT, MAX, SET, Complement, Spec, Transaction, Tree, bulk, fold_many, interval_spec
from pagestore.tooling import Rows, applications, apply, overlaps_counted

SCANS = 300
UPDATES = 300
MISSING = 20
STEP = 3
TIMES = 15  # that edges go and come back
COLOURS = "#2f6db5", "#999999", "#c2571a", "#3a8f4d", "#8a4fa3"
RULES = """
    edge(x, y) -> int(x), int(y).  start(x) -> int(x).
    reach(x) <- start(x).  reach(y) <- reach(x), edge(x, y).
"""


@dataclass(frozen=True)
class Counted:
    """A command that counts for sizes up to `--largest`, and draws a line for each of the counts' titles."""

    counts: Callable[[int, Path], dict[str, float]]
    colours: tuple[str, ...]

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""
        parser.add_argument("out", type=Path, help="the picture, as SVG")
        parser.add_argument("--largest", type=int, default=6, help="the largest size, as a power of ten")

    def run(self, options: argparse.Namespace) -> int:
        """Count, print and draw."""
        sizes = [10**power for power in range(3, options.largest + 1)]
        found = []
        with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
            for n in sizes:
                found.append(self.counts(n, Path(folder)))
                print(f"{n:>10,}", "  ".join(f"{name} {value:.1f};" for name, value in found[-1].items()))
        lines = {name: [counts[name] for counts in found] for name in found[0]}
        options.out.write_text(picture(sizes, lines, self.colours), encoding="utf-8")
        return 0


def of_trees(n: int, folder: Path) -> dict[str, float]:
    """Count each kind of operation, for trees with n records."""
    random, ids = np.random.default_rng(n), STEP * np.arange(n)
    with pagestore.open(folder / f"{n}.pages", sync="off") as store:
        txn = store.transaction()
        tree = bulk(txn.pager, Spec(90, 1, 1, ((MAX, 1),)), _blocks(ids, random.integers(0, 10**6, n)))
        ends = np.sort(random.integers(0, STEP * tree.count, (2, SCANS)), axis=0)
        each = (ends[:, i : i + 1] for i in range(SCANS))
        found = {
            f"max of an interval: applications, the most of {SCANS}": max(
                fold_many(txn.pages, tree, Rows(0, 1), e[:1], e[1:]).applications for e in each
            ),
            "2 log₂ n": 2 * log2(n),
            "one update: applications for each page written": _update(txn, tree, random),
            "stab with one match: folds and records looked at": _stab(txn, n, random),
            "complement: probes for each missing record": _complement(txn, ids, random),
        }
        txn.rollback()
    return found


def _update(txn: Transaction, tree: Tree, random: np.random.Generator) -> float:
    before = applications()
    for key in random.integers(0, tree.count, UPDATES).tolist():
        edit = np.array([[STEP * key], [int(random.integers(0, 10**6))]])
        tree, _, _ = apply(txn.pager, tree, np.array([SET]), edit)
    return (applications() - before) / (UPDATES * tree.height)


def _stab(txn: Transaction, n: int, random: np.random.Generator) -> float:
    """Stab short intervals and one long one that holds all points."""
    a = 2 * np.arange(n)
    b = a + 1
    b[n // 3] = 4 * n
    tree = bulk(txn.pager, interval_spec(91, 0, 0), _blocks(a, b))
    points = random.integers(n, 2 * n, 50) | 1
    looked = [overlaps_counted(txn.pages, tree, np.array([[x + 2 * n]] * 2), 64)[1] for x in points.tolist()]
    return float(np.mean(looked))


def _complement(txn: Transaction, ids: np.ndarray, random: np.random.Generator) -> float:
    spec = Spec(92, 1, 0, ((COUNT, 0),))
    part = np.delete(ids, random.choice(len(ids), MISSING, replace=False))
    whole, some = (bulk(txn.pager, spec, _blocks(rows)) for rows in (ids, part))
    complement = Complement(txn.pages, whole, txn.pages, some)
    assert sum(batch.shape[1] for batch in complement) == MISSING
    return complement.probes / MISSING


def _blocks(*columns: np.ndarray) -> Iterable[np.ndarray]:
    rows = 1 << 18
    return (np.stack([c[at : at + rows] for c in columns]) for at in range(0, len(columns[0]), rows))


def of_recursion(edges: int, folder: Path) -> dict[str, float]:
    """Count operations for each row touched, for deltas of some sizes, of a random graph with two edges a vertex.

    A row is touched if it is examined, comes or goes; edges of the delta count, too.
    """
    random = np.random.default_rng(edges)
    rows = np.unique(random.integers(0, edges // 2, (2, edges)), axis=1)
    found = {}
    with ivm.open(folder / f"{edges}.pages", sync="off") as workspace:
        workspace.install(RULES)
        with workspace.transaction() as txn:
            txn.insert("start", [(np.bincount(rows[0]).argmax(),)])
            txn.insert("edge", [*rows])
        for delta in (1, 10, 100):
            operations = touched = 0
            for _ in range(TIMES):
                chosen = rows[:, random.choice(rows.shape[1], delta, replace=False)]
                for edit in ("delete", "insert"):
                    with workspace.transaction() as txn:
                        getattr(txn, edit)("edge", [*chosen])
                    stats = workspace.stats("reach")
                    operations += stats["operations"]
                    touched += delta + stats["examined"] + stats["erased"] + stats["inserted"]
            name = f"edges there or back in a transaction: {delta}; operations for each row touched"
            found[name] = operations / touched
    return found


def picture(sizes: list[int], lines: dict[str, list[float]], colours: tuple[str, ...]) -> str:
    """Return the lines as SVG, over the logarithm of the sizes, which begin with 1,000."""
    width, height, left, top = 720, 380, 60, 20
    most = max(max(values) for values in lines.values()) * 1.1

    def x(n: float) -> float:
        return left + (width - left - 20) * (log10(n) - 3) / max(1, log10(sizes[-1]) - 3)

    def y(value: float) -> float:
        return top + height * (1 - value / most)

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height + 180}' "
        "font-family='sans-serif' font-size='13'><rect width='100%' height='100%' fill='white'/>"
    ]
    for value in range(0, int(most), 20 if most > 60 else 5):
        line = f"<line x1='{left}' x2='{width - 20}' y1='{y(value):.0f}' y2='{y(value):.0f}' stroke='#dddddd'/>"
        parts.append(f"{line}<text x='{left - 8}' y='{y(value) + 4:.0f}' text-anchor='end'>{value}</text>")
    for n in sizes:
        label = f"10^{round(np.log10(n))}"
        parts.append(f"<text x='{x(n):.0f}' y='{top + height + 18}' text-anchor='middle'>{label}</text>")
    for i, ((title, values), colour) in enumerate(zip(lines.items(), colours, strict=False)):
        points = " ".join(f"{x(n):.0f},{y(v):.0f}" for n, v in zip(sizes, values, strict=True))
        parts.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts.append(f"<text x='{left}' y='{top + height + 45 + 20 * i}' fill='{colour}'>{title}</text>")
    return "\n".join([*parts, "</svg>\n"])


TREES = Counted(of_trees, COLOURS)
RECURSION = Counted(of_recursion, (COLOURS[0], *COLOURS[2:]))
