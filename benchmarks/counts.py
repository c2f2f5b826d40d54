"""Count operations over sizes, from 10^3 on, and draw them: of scan trees, reachability, and
views of triangles.
"""

import argparse
import tempfile
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import log2
from pathlib import Path

import numpy as np

import pagestore
from benchmarks.picture import Picture, Spread, spread
from pagestore.host import (
    COUNT,
    MAX,
    SET,
    Complement,
    Spec,
    Transaction,
    Tree,
    bulk,
    fold_many,
    interval_spec,
)
from pagestore.tooling import Rows, applications, apply, overlaps_counted
from pagestore_tools.bench.harness import workspace_with

from . import Command

SCANS = 300
UPDATES = 300
MISSING = 20
STEP = 3
TIMES = 15  # that edges go and come back
RULES = """
    edge(x, y) -> int(x), int(y).  start(x) -> int(x).
    reach(x) <- start(x).  reach(y) <- reach(x), edge(x, y).
"""
TRIANGLES = "edge(x, y) -> int(x), int(y). tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z)."
DEGREE = 8
Counts = Callable[[int, Path], Mapping[str, Spread]]


def _draw(counts: Counts, picture: Picture, options: argparse.Namespace) -> int:
    """Count for each size, print, and draw a line for each of the counts' titles."""
    sizes = [10**power for power in range(3, options.largest + 1)]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for n in sizes:
            found.append(counts(n, Path(folder)))
            print(
                f"{n:>10,}",
                "  ".join(f"{name} {value.middle:.1f};" for name, value in found[-1].items()),
            )
    lines = {name: [counts[name] for counts in found] for name in found[0]}
    options.out.write_text(picture.drawn(sizes, lines), encoding="utf-8")
    return 0


def _draw_all(options: argparse.Namespace) -> int:
    """Draw every picture of the documents into a folder."""
    for name, (counts, picture) in PICTURES.items():
        print(picture.title)
        _draw(counts, picture, argparse.Namespace(out=options.out / name, largest=options.largest))
    return 0


def of_trees(n: int, folder: Path) -> dict[str, Spread]:
    """Count each kind of operation, for trees with n records."""
    random, ids = np.random.default_rng(n), STEP * np.arange(n)
    with pagestore.open(folder / f"{n}.pages", sync="off") as store:
        txn = store.transaction()
        tree = bulk(
            txn.pager, Spec(90, 1, 1, ((MAX, 1),)), _blocks(ids, random.integers(0, 10**6, n))
        )
        ends = np.sort(random.integers(0, STEP * tree.count, (2, SCANS)), axis=0)
        each = (ends[:, i : i + 1] for i in range(SCANS))
        found = {
            "max of an interval: applications": spread(
                [fold_many(txn.pages, tree, Rows(0, 1), e[:1], e[1:]).applications for e in each]
            ),
            "one update: applications for each page written": spread([_update(txn, tree, random)]),
            "stab with one match: folds and records looked at": spread(_stab(txn, n, random)),
            "complement: probes for each missing record": spread([_complement(txn, ids, random)]),
            "2 log₂ n": spread([2 * log2(n)]),
        }
        txn.rollback()
    return found


def _update(txn: Transaction, tree: Tree, random: np.random.Generator) -> float:
    before = applications()
    for key in random.integers(0, tree.count, UPDATES).tolist():
        edit = np.array([[STEP * key], [int(random.integers(0, 10**6))]])
        tree, _, _ = apply(txn.pager, tree, np.array([SET]), edit)
    return (applications() - before) / (UPDATES * tree.height)


def _stab(txn: Transaction, n: int, random: np.random.Generator) -> list[float]:
    """Stab short intervals and one long one that holds all points."""
    a = 2 * np.arange(n)
    b = a + 1
    b[n // 3] = 4 * n
    tree = bulk(txn.pager, interval_spec(91, 0, 0), _blocks(a, b))
    points = random.integers(n, 2 * n, 50) | 1
    return [
        overlaps_counted(txn.pages, tree, np.array([[x + 2 * n]] * 2), 64)[1]
        for x in points.tolist()
    ]


def _complement(txn: Transaction, ids: np.ndarray, random: np.random.Generator) -> float:
    spec = Spec(92, 1, 0, ((COUNT, 0),))
    part = np.delete(ids, random.choice(len(ids), MISSING, replace=False))
    whole, some = (bulk(txn.pager, spec, _blocks(rows)) for rows in (ids, part))
    complement = Complement(txn.pages, whole, txn.pages, some)
    assert sum(batch.shape[1] for batch in complement) == MISSING
    return complement.probes / MISSING


def _blocks(*columns: np.ndarray) -> Iterable[np.ndarray]:
    return np.array_split(np.stack(columns), range(1 << 18, len(columns[0]), 1 << 18), axis=1)


def of_recursion(edges: int, folder: Path) -> dict[str, Spread]:
    """Count operations for each row touched, for deltas of some sizes, of a random graph with two
    edges a vertex.

    A row is touched if it is examined, comes or goes; edges of the delta count, too.
    """
    random = np.random.default_rng(edges)
    rows = np.unique(random.integers(0, edges // 2, (2, edges)), axis=1)
    found, start = {}, np.bincount(rows[0]).argmax()
    with workspace_with(
        folder / f"{edges}.pages", RULES, {"start": [(start,)], "edge": [*rows]}
    ) as workspace:
        for delta in (1, 10, 100):
            each = []
            for _ in range(TIMES):
                operations = touched = 0
                chosen = rows[:, random.choice(rows.shape[1], delta, replace=False)]
                for edit in ("delete", "insert"):
                    with workspace.transaction() as txn:
                        getattr(txn, edit)("edge", [*chosen])
                    stats = workspace.stats("reach")
                    operations += stats["operations"]
                    touched += delta + stats["examined"] + stats["erased"] + stats["inserted"]
                each.append(operations / touched)
            found[f"{delta} edges deleted and inserted again" if delta > 1 else "one edge"] = (
                spread(each)
            )
    return found


def of_upkeep(edges: int, folder: Path) -> dict[str, Spread]:
    """Count operations of a view of triangles of a random graph: evaluated, and after edges go
    and come back.
    """
    random = np.random.default_rng(edges)
    rows = np.unique(random.integers(0, max(2, edges // DEGREE), (2, edges)), axis=1)
    declared, _, rule = TRIANGLES.partition("tri")
    with workspace_with(folder / f"{edges}.upkeep", declared, {"edge": [*rows]}) as workspace:
        workspace.install("tri" + rule, "triangles")
        found = {"evaluated anew": spread([workspace.stats("tri")["operations"]])}
        for delta in (100, 1):
            each = []
            for _ in range(TIMES):
                chosen = rows[:, random.choice(rows.shape[1], delta, replace=False)]
                for edit in ("delete", "insert"):
                    with workspace.transaction() as txn:
                        getattr(txn, edit)("edge", [*chosen])
                    each.append(workspace.stats("tri")["operations"])
            found[
                f"maintained after {delta} edges" if delta > 1 else "maintained after one edge"
            ] = spread(each)
    return found


FLAGS = {
    "out": {"type": Path, "help": "the picture, as SVG"},
    "--largest": {"type": int, "default": 6, "help": "the largest size, as a power of ten"},
}
PICTURES: dict[str, tuple[Counts, Picture]] = {
    "scan-counts.svg": (
        of_trees, Picture("Folds of a tree, counted", "records in the tree",
        "operations; median and quartiles"),
    ),
    "recursion-counts.svg": (
        of_recursion,
        Picture("Maintained reachability: the cost follows the rows touched",
        "edges of the graph, two a vertex",
                "operations for each row touched; median and quartiles"),
    ),
    "upkeep-counts.svg": (
        of_upkeep,
        Picture("An edit costs what it changes, not what is stored",
        f"edges of the graph, {DEGREE} a vertex",
                "operations of the join for a view of triangles; median and quartiles",
                logarithmic=True),
    ),
}  # fmt: skip
TREES, RECURSION, UPKEEP = (Command(partial(_draw, *PICTURES[name]), FLAGS) for name in PICTURES)
ALL = Command(_draw_all, {**FLAGS, "out": {"type": Path, "help": "the folder of the documents"}})
