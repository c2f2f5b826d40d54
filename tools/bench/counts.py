"""Counts the operations of scans, updates, stabs and complements, from 10^3 records on, and draws them.

python -m pagestore_tools.bench.counts docs/scan-counts.svg --largest 7
"""

import argparse
import tempfile
from collections.abc import Iterable
from math import log2, log10
from pathlib import Path

import numpy as np

import pagestore
from pagestore.pages.operators import COUNT, MAX
from pagestore.relations.transaction import Transaction
from pagestore.trees.build import bulk
from pagestore.trees.compare import Complement
from pagestore.trees.edit import apply
from pagestore.trees.folds import Rows, fold_many, interval_spec, overlaps_counted
from pagestore.trees.kernels.node_buffer import SET
from pagestore.trees.scratch import applications
from pagestore.trees.tree import Spec, Tree

SCANS = 300
UPDATES = 300
MISSING = 20
STEP = 3
TITLES = {
    "scan": "max of an interval: applications, the most of 300",
    "bound": "2 log₂ n",
    "update": "one update: applications for each page written",
    "stab": "stab with one match: folds and records looked at",
    "complement": "complement: probes for each missing record",
}
COLOURS = {"scan": "#2f6db5", "bound": "#999999", "update": "#c2571a", "stab": "#3a8f4d", "complement": "#8a4fa3"}


def counts(n: int, txn: Transaction) -> dict[str, float]:
    """The counts of each kind of operation, for trees with n records."""
    random = np.random.default_rng(n)
    ids = STEP * np.arange(n)
    tree = bulk(txn.pager, Spec(90, 1, 1, ((MAX, 1),)), _blocks(ids, random.integers(0, 10**6, n)))
    return {
        "scan": _scan(txn, tree, random),
        "bound": 2 * log2(n),
        "update": _update(txn, tree, random),
        "stab": _stab(txn, n, random),
        "complement": _complement(txn, ids, random),
    }


def _scan(txn: Transaction, tree: Tree, random: np.random.Generator) -> float:
    ends = np.sort(random.integers(0, STEP * tree.count, (2, SCANS)), axis=0)
    each = (ends[:, i : i + 1] for i in range(SCANS))
    return max(fold_many(txn.pages, tree, Rows(0, 1), e[:1], e[1:]).applications for e in each)


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


def picture(
    sizes: list[int], lines: dict[str, list[float]], titles: dict[str, str] = TITLES, colours: dict[str, str] = COLOURS
) -> str:
    """The lines as SVG, over the logarithm of the sizes, which begin with 1,000."""
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
    for i, (name, values) in enumerate(lines.items()):
        points = " ".join(f"{x(n):.0f},{y(v):.0f}" for n, v in zip(sizes, values, strict=True))
        parts.append(f"<polyline points='{points}' fill='none' stroke='{colours[name]}' stroke-width='2'/>")
        parts.append(f"<text x='{left}' y='{top + height + 45 + 20 * i}' fill='{colours[name]}'>{titles[name]}</text>")
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Count for sizes up to `--largest`, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--largest", type=int, default=6, help="the size of the largest trees, as a power of ten")
    options = parser.parse_args()
    sizes = [10**power for power in range(3, options.largest + 1)]
    found = []
    with tempfile.TemporaryDirectory() as folder, pagestore.open(folder + "/counts.pages", sync="off") as store:
        for n in sizes:
            txn = store.transaction()
            found.append(counts(n, txn))
            txn.rollback()
            print(f"{n:>10,}", "  ".join(f"{name} {value:.1f}" for name, value in found[-1].items()))
    options.out.write_text(picture(sizes, {name: [f[name] for f in found] for name in TITLES}), encoding="utf-8")


if __name__ == "__main__":
    main()
