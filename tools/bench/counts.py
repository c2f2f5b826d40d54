"""Counts operations over sizes, from 10^3 on, and draws them: of scan trees, and of maintained reachability."""

import argparse
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from math import log2, log10
from pathlib import Path

import numpy as np

import pagestore
from pagestore.host import COUNT, MAX, SET, Complement, Spec, Transaction, Tree, bulk, fold_many, interval_spec
from pagestore.tooling import Rows, applications, apply, overlaps_counted

from .harness import Command, workspace_with

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
WIDTH, HEIGHT, LEFT, TOP = 720, 380, 60, 20


def _draw(
    counts: Callable[[int, Path], dict[str, float]], colours: tuple[str, ...], options: argparse.Namespace
) -> int:
    """Count for each size, print, and draw a line for each of the counts' titles."""
    sizes = [10**power for power in range(3, options.largest + 1)]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            found.append(counts(n, Path(folder)))
            print(f"{n:>10,}", "  ".join(f"{name} {value:.1f};" for name, value in found[-1].items()))
    lines = {name: [counts[name] for counts in found] for name in found[0]}
    options.out.write_text(picture(sizes, lines, colours), encoding="utf-8")
    return 0


def picture(sizes: list[int], lines: dict[str, list[float]], colours: tuple[str, ...]) -> str:
    """Return the lines as SVG, over the logarithm of the sizes, which begin with 1,000."""
    most = max(map(max, lines.values())) * 1.1
    xs = [LEFT + (WIDTH - LEFT - 20) * (log10(n) - 3) / max(1, log10(sizes[-1]) - 3) for n in sizes]

    def y(value: float) -> float:
        return TOP + HEIGHT * (1 - value / most)

    def text(x: float, y: float, content: str, more: str = "text-anchor='middle'") -> str:
        return f"<text x='{x:.0f}' y='{y:.0f}' {more}>{content}</text>"

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT + 180}' "
        "font-family='sans-serif' font-size='13'><rect width='100%' height='100%' fill='white'/>"
    ]
    for value in range(0, int(most), 20 if most > 60 else 5):
        line = f"<line x1='{LEFT}' x2='{WIDTH - 20}' y1='{y(value):.0f}' y2='{y(value):.0f}' stroke='#dddddd'/>"
        parts.append(line + text(LEFT - 8, y(value) + 4, str(value), "text-anchor='end'"))
    parts += [text(x, TOP + HEIGHT + 18, f"10^{log10(n):.0f}") for x, n in zip(xs, sizes, strict=True)]
    for i, ((title, values), colour) in enumerate(zip(lines.items(), colours, strict=False)):
        points = " ".join(f"{x:.0f},{y(value):.0f}" for x, value in zip(xs, values, strict=True))
        parts.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2'/>")
        parts.append(text(LEFT, TOP + HEIGHT + 45 + 20 * i, title, f"fill='{colour}'"))
    return "\n".join([*parts, "</svg>\n"])


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
    return np.array_split(np.stack(columns), range(1 << 18, len(columns[0]), 1 << 18), axis=1)


def of_recursion(edges: int, folder: Path) -> dict[str, float]:
    """Count operations for each row touched, for deltas of some sizes, of a random graph with two edges a vertex.

    A row is touched if it is examined, comes or goes; edges of the delta count, too.
    """
    random = np.random.default_rng(edges)
    rows = np.unique(random.integers(0, edges // 2, (2, edges)), axis=1)
    found, start = {}, np.bincount(rows[0]).argmax()
    with workspace_with(folder / f"{edges}.pages", RULES, {"start": [(start,)], "edge": [*rows]}) as workspace:
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


FLAGS = {
    "out": {"type": Path, "help": "the picture, as SVG"},
    "--largest": {"type": int, "default": 6, "help": "the largest size, as a power of ten"},
}
TREES = Command(partial(_draw, of_trees, COLOURS), FLAGS)
RECURSION = Command(partial(_draw, of_recursion, (COLOURS[0], *COLOURS[2:])), FLAGS)
