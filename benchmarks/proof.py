"""What docs/proof.md shows: operations against the distance of traces, milliseconds of an edit
against the data, and probing beside matching.

    operations <= C * granularity * (1 + distance) * log2(rows)

`python -m benchmarks proof docs` draws the pictures and prints the tables; `python -m benchmarks
churn GRAPH` tells whether the intervals of a graph's triangles stay as many while edges go and come.
"""

import argparse
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from math import log2
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

import ivm
from benchmarks import deltas, trees
from benchmarks.families import MADE, REAL, Family
from benchmarks.picture import Picture, Spread, spread
from pagestore_tools.bench.graphs import read_graph
from pagestore_tools.bench.harness import duckdb_with, timed, workspace_with
from pagestore_tools.rule_commands.trace_picture import picture

from . import Command

C = 4  # of the bound
CHANGES = 200  # of a family
Way = Literal["auto", "match", "probe"]
WAYS: dict[Way, str] = {
    "probe": "probed",
    "match": "matched",
    "auto": "auto: turned from probing to matching",
}
OUT = 1000  # edges of a graph that are out while others go and come
TENTHS = 10
FLAT = 1.3  # what the last tenth of many transactions may be of the first
TIMES = 15  # that an edge goes and comes back
DECLARED = """
    a(x) -> int(x).  e(x, y) -> int(x), int(y).  h(x, y) -> int(x), int(y).
    i(x, y, z) -> int(x), int(y), int(z).
"""
TRACED = {
    "triangle": "c(x, y, z) <- e(x, y), e(y, z), e(x, z).",
    "projection": "c(x, z) <- e(x, y), e(y, z).",
    "permuted": "c(x, y) <- e(x, z), e(y, z), a(z), x < y.",
    "negation": "c(x, y) <- e(x, y), !e(y, x), a(x).",
    "the paper's": "c(x, y) <- e(x, z), h(y, z), i(x, y, z), a(z).",
}


class Measured(NamedTuple):
    """One change of a matched rule: rows of the relations, distance of the traces, operations."""

    rows: int
    distance: int
    operations: int

    @property
    def bound(self) -> float:
        """The most operations that the claim allows."""
        return C * (1 + self.distance) * log2(self.rows)


def random_facts(n: int) -> dict[str, list[np.ndarray]]:
    """Return n edges of a graph with eight a vertex, and half of the vertices."""
    random, vertices = np.random.default_rng(n), max(2, n // 8)
    e, h = (np.unique(random.integers(0, vertices, (2, n)), axis=1) for _ in range(2))
    i = np.unique([e[0], random.integers(0, vertices, e.shape[1]), e[1]], axis=1)
    chosen = random.choice(vertices, vertices // 2, replace=False)
    return {"e": [*e], "h": [*h], "i": [*i], "a": [chosen]}


def distances(n: int, rule: str, folder: Path) -> Iterator[Measured]:
    """Yield changes of 1, 2, 5, 10 ... edges, up to a hundredth of n, of a rule over n."""
    facts = random_facts(n)
    rows, random = sum(len(columns[0]) for columns in facts.values()), np.random.default_rng(n)
    with workspace_with(folder / f"{rule}-{n}.pages", DECLARED, facts) as workspace:
        workspace.install(TRACED[rule], "rule", maintenance="match")
        for size in (k * 10**power for power in range(5) for k in (1, 2, 5)):
            if size > n // 100:
                return
            before = workspace.store.version
            gone = random.choice(len(facts["e"][0]), size, replace=False)
            with workspace.transaction() as txn:
                txn.delete("e", [column[gone] for column in facts["e"]])
            found = workspace.trace_distance("c", before, workspace.store.version)
            yield Measured(rows, found, workspace.stats("c")["operations"])
            with workspace.transaction() as txn:
                txn.insert("e", [column[gone] for column in facts["e"]])


def slope(measured: Iterable[Measured]) -> float:
    """Return the power of (1 + distance) with which operations grow, fitted by least squares."""
    _, distances, operations = np.log(np.array([*measured]) + np.array([0, 1, 0])).T
    return float(np.polyfit(distances, operations, 1)[0])


def draw_distances(sizes: Sequence[int], folder: Path) -> str:
    """Return the picture of operations against distances; print the largest constants."""
    found = {rule: [m for n in sizes for m in distances(n, rule, folder)] for rule in TRACED}
    every = [one for some in found.values() for one in some]
    fitted, least = slope(every), min(one.rows for one in every)
    scale = np.exp(np.mean([np.log(m.operations / (1 + m.distance) ** fitted) for m in every]))
    print("\n| rule | changes | operations / (1 + distance) | of the bound, at most | slope |")
    print("|---|---|---|---|---|")
    for rule, some in found.items():
        ratios = [one.operations / (1 + one.distance) for one in some]
        most = max(one.operations / one.bound for one in some)
        print(
            f"| {rule} | {len(some)} | {min(ratios):.1f} to {max(ratios):.1f} | {most:.0%} | "
            f"{slope(some):.2f} |"
        )
    picture = Picture(
        "Maintenance costs what the trace changes",
        f"1 + distance of the traces; {sizes[0]:,} to {sizes[-1]:,} edges",
        "operations",
    )
    return picture.scattered(
        {rule: [(1 + m.distance, m.operations) for m in some] for rule, some in found.items()},
        {
            f"bound: {C} · (1 + distance) · log₂ n, for the smallest n": lambda x: (
                C * x * log2(least)
            ),
            f"fitted: {scale:.1f} · (1 + distance) ^ {fitted:.2f}": lambda x: scale * x**fitted,
        },
    )


KINDS = {  # of rules, with the same in SQL
    "join": (TRACED["triangle"], "select count(*) from e, e f, e g where e.y = f.x and e.x = g.x and f.y = g.y"),
    "projection": (TRACED["projection"], "select count(*) from (select distinct e.x, f.y from e, e f where e.y = f.x)"),
    "negation": (TRACED["negation"], "select count(*) from e semi join a on e.x = a.x "
        "where not exists (from e f where f.x = e.y and f.y = e.x)"),
    "aggregate": ("c[x] = n <- agg<<n = count()>> e(x, y), e(y, _z).",
        "select count(*) from (select e.x, count(*) from e, e f where e.y = f.x group by e.x)"),
    "recursion": ("c(x) <- s(x). c(y) <- c(x), e(x, y).",
        "with recursive c(x) as (select x from s union select e.y from c, e where c.x = e.x) select count(*) from c"),
}  # fmt: skip


def edits(n: int, kind: str, folder: Path, ways: Sequence[Way] = ("auto",)) -> dict[str, Spread]:
    """Measure a rule over n edges: milliseconds of one edge that goes or comes back, by ways of
    maintenance, and of evaluating anew, also by DuckDB where it is installed.
    """
    (rule, query), found = KINDS[kind], dict[str, Spread]()
    facts = random_facts(n)
    edges = np.array(facts["e"])
    facts |= {"s": [edges[0][:1]]}
    chosen = edges[:, np.random.default_rng(n).choice(edges.shape[1], TIMES, replace=False)]
    for way in ways:
        file = folder / f"{kind}-{way}-{n}.pages"
        with workspace_with(file, DECLARED + "s(x) -> int(x).", facts) as workspace:
            workspace.install(rule, "rule", maintenance=way)
            took = list[float]()
            for edge in chosen.T:
                for edit in ("delete", "insert"):
                    took.append(1000 * timed(partial(_edit, workspace, edit, "e", edge[:, None])))
            found[f"one edit, {way}"] = spread(took[2:])  # the first also loads kernels
            anew = [1000 * workspace.evaluate("c").seconds for _ in range(3)]
    found["evaluated anew"] = spread(anew)
    tables = {name: dict(zip("xyz", facts[name], strict=False)) for name in ("e", "a", "s")}
    if peer := duckdb_with(tables):
        took = [1000 * timed(lambda: peer.execute(query).fetchall()) for _ in range(3)]
        found["evaluated anew by DuckDB"] = spread(took)
    return found


def _edit(workspace: ivm.Workspace, edit: str, relation: str, columns: Iterable[Any]) -> None:
    """Insert or delete rows in one transaction."""
    with workspace.transaction() as txn:
        getattr(txn, edit)(relation, [*columns])


def draw_edits(sizes: Sequence[int], folder: Path) -> str:
    """Return the picture of milliseconds against data, of a join; print those of all kinds."""
    found = [edits(n, "join", folder, ("probe", "match")) for n in sizes]
    lines = {name: [one[name] for one in found] for name in found[0]}
    print(
        "\n| kind | edges | one edit, ms | anew, ms | anew by DuckDB, ms |\n|---|---|---|---|---|"
    )
    for kind in KINDS:
        for n in sizes[:: len(sizes) - 1 or 1]:
            cells = [f"{one.middle:.3g}" for one in edits(n, kind, folder).values()]
            print(f"| {kind} | {n:,} | {' | '.join(cells)} |")
    return EDITS.drawn(sizes, lines)


class Spent(NamedTuple):
    """What a way of maintenance took: milliseconds of processor time of installing and of all
    changes, operations of recording and of each change.
    """

    milliseconds: float
    recording: int
    changes: list[int]

    @property
    def operations(self) -> int:
        """All operations."""
        return self.recording + sum(self.changes)


def spent(family: Family, way: Way, count: int, file: Path) -> Spent:
    """Follow changes of a family in one way of maintenance: probe, match or auto."""
    changes = list[int]()
    with workspace_with(file, family.declared, family.facts, threads=1) as workspace:
        start = time.process_time()  # other programs on the machine do not count
        workspace.install(family.rule, "rule", maintenance=way)
        seconds = time.process_time() - start
        for change in islice(family.edits(), count):
            start = time.process_time()
            _edit(workspace, *change)
            seconds += time.process_time() - start
            changes.append(workspace.stats("q")["operations"])
        took = re.search(r"took +([\d,]+) operation", workspace.explain("q"))
        recorded = took and (way == "match" or workspace.stats("q")["sensitivity_rows"])
    operations = int(took[1].replace(",", "")) if took and recorded else 0
    return Spent(1000 * seconds, operations, changes)


def compared(
    families: Mapping[str, Family], folder: Path
) -> Iterator[tuple[str, dict[Way, Spent]]]:
    """Yield what each way took of each family, and print it as a row of a table."""
    for name, family in families.items():
        found = {way: spent(family, way, CHANGES, folder / f"{name}-{way}") for way in WAYS}
        cells = [name]
        for what in ("operations", "milliseconds"):
            probed, matched, auto = (getattr(one, what) for one in found.values())
            cells += [f"{probed:,.0f}", f"{matched:,.0f}", f"{auto:,.0f}"]
            cells.append(f"{auto / min(probed, matched):.2f}")
        print(f"| {' | '.join(cells)} |")
        yield name, found


def draw_celebrity(sizes: Sequence[int], folder: Path, data: Path | None) -> str:
    """Return the picture of a change of a celebrity over sizes; print what families took."""
    print(
        f"\n| {CHANGES} changes | probed: operations | matched | auto | auto / better "
        "| probed: ms | matched | auto | auto / better |\n|---|---|---|---|---|---|---|---|---|"
    )
    lines = dict[str, list[Spread]]()
    for n in sizes:
        made = {f"{name}, {n:,}": make(n) for name, make in MADE.items()}
        for name, found in compared(made, folder):
            if name.startswith("celebrity"):
                for way, one in found.items():
                    lines.setdefault(WAYS[way], []).append(spread(one.changes[-10:]))
    graphs = {file.stem: read_graph(file) for file in sorted((data or folder).glob("*.parquet"))}
    real = {
        f"{name} of {g}": make(edges) for g, edges in graphs.items() for name, make in REAL.items()
    }
    [*_] = compared(real, folder)
    return CELEBRITY.drawn(sizes, lines)


def draw_trace() -> str:
    """Return the picture of the paper's example: the operations of an intersection before and
    after 5 leaves A, 8 joins it, and 3 replaces 2 in B.
    """
    with ivm.open(":memory:") as workspace:
        workspace.install("A(x) -> int(x). B(x) -> int(x). C(x) <- A(x), B(x).")
        with workspace.transaction() as txn:
            txn.insert("A", [(x,) for x in (0, 2, 4, 5, 6)])
            txn.insert("B", [(x,) for x in (1, 2, 6, 7)])
        before = workspace.store.version
        workspace.exec("-A(5). +A(8). -B(2). +B(3).")
        return picture(workspace, "C", before)


def draw(options: argparse.Namespace) -> int:
    """Measure, print the tables, and draw the pictures into a folder."""
    sizes = [10**power for power in range(3, options.largest + 1)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pictures = {
            "proof-trace.svg": draw_trace(),
            "proof-scans.svg": trees.draw_scan_tree(),
            "proof-intervals.svg": trees.draw_interval_tree(),
            "proof-versions.svg": trees.draw_versions(),
            "proof-groups.svg": deltas.draw_aggregates([100, *sizes], folder),
            "proof-deltas.svg": deltas.draw_deltas([sizes[-1] // 100, sizes[-1]]),
            "proof-distance.svg": draw_distances(sizes[:3], folder),
            "proof-edit.svg": draw_edits(sizes, folder),
            "proof-celebrity.svg": draw_celebrity(sizes, folder, options.data),
        }
    deltas.print_cascades(sizes[-1])
    for file, text in pictures.items():
        (options.out / file).write_text(text, encoding="utf-8")
    return 0


def churned(
    edges: np.ndarray, transactions: int, workspace: ivm.Workspace
) -> Iterator[tuple[int, int]]:
    """Take a random edge out, or put one of those that are out back, in turns; after each
    transaction yield its operations and its nanoseconds of processor time.

    `edges` are int64[2, n]; the first OUT of them are out before.
    """
    random = np.random.default_rng(8)
    parts = [*range(OUT)], [*range(OUT, edges.shape[1])]  # the edges that are out, and the others
    for turn in range(transactions):
        here, there = parts if turn % 2 else parts[::-1]
        there.append(number := here.pop(int(random.integers(len(here)))))
        row = edges[:, number]
        began = time.process_time_ns()
        (workspace.insert if turn % 2 else workspace.delete)("edge", [*row[:, None]])
        spent = time.process_time_ns() - began
        yield workspace.stats("q")["operations"], spent


def churn(options: argparse.Namespace) -> int:
    """Print, for each tenth of the transactions, the intervals, the file and what one took; return
    1 if the last tenth has more intervals, bytes or operations than FLAT times the first's.
    """
    edges = read_graph(options.graph)
    edges = edges[:, np.random.default_rng(9).permutation(edges.shape[1])]
    family, count, rows = REAL["triangles"](edges), options.transactions // TENTHS, []
    with tempfile.TemporaryDirectory() as name:
        file, facts = Path(name) / "churn.pages", {"edge": [*edges[:, OUT:]]}
        with workspace_with(file, family.declared, facts) as workspace:
            workspace.install(family.rule, "rule", maintenance="match")
            print(
                f"{workspace.stats('q')['sensitivity_rows']:,} intervals of {facts['edge'][0].size:,} edges\n"
            )
            print("| transactions | intervals | file, bytes | operations | median, ms | mean, ms |")
            print("|---|---|---|---|---|---|")
            edits = churned(edges, count * TENTHS, workspace)
            for tenth in range(TENTHS):
                operations, spent = np.array([*islice(edits, count)]).T
                intervals = workspace.stats("q")["sensitivity_rows"]
                rows.append((intervals, file.stat().st_size, float(operations.mean())))
                told = f"{intervals:,} | {rows[-1][1]:,} | {rows[-1][2]:,.1f}"
                ms = f"{np.median(spent) / 1e6:.2f} | {spent.mean() / 1e6:.2f}"
                print(f"| {(tenth + 1) * count:,} | {told} | {ms} |", flush=True)
    return int(any(last > FLAT * first for first, last in zip(rows[0], rows[-1], strict=True)))


EDITS = Picture(
    "One edit of a view of triangles", "edges of the graph, eight a vertex",
    "milliseconds; median and quartiles", logarithmic=True,
)  # fmt: skip
CELEBRITY = Picture(
    "A celebrity becomes sponsored, whom no premium user follows", "followers",
    "operations of a change, once there were many; median and quartiles", logarithmic=True,
)  # fmt: skip
PROOF = Command(draw, {
    "out": {"type": Path, "help": "the folder of the pictures"},
    "--largest": {"type": int, "default": 6, "help": "the largest size, as a power of ten"},
    "--data": {"type": Path, "help": "a folder of graphs, as Parquet files with columns x and y"},
})  # fmt: skip
CHURN = Command(churn, {
    "graph": {"type": Path, "help": "a Parquet file with columns x and y"},
    "--transactions": {"type": int, "default": 100_000, "help": "that take an edge out or put one back"},
})  # fmt: skip
