"""`ivm bench`: joins from scratch, views maintained, and first use, by us and by others that are installed."""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # one thread for everybody, before Polars is imported

from . import joins, processes, upkeep
from . import run as shared
from .graphs import read_graph, skewed
from .measure import Row


def arguments(parser: argparse.ArgumentParser) -> None:
    shared.arguments(parser)
    parser.add_argument(
        "graph",
        metavar="PARQUET",
        type=Path,
        nargs="?",
        help="a graph as columns x, y of integers, one row an edge; without it, one with hubs is made up",
    )


def run(options: argparse.Namespace) -> int:
    edges = read_graph(options.graph) if options.graph else skewed(1_000 if options.quick else 7_000)
    about = f"{options.graph.stem if options.graph else 'a graph made up'}: {edges.shape[1]:,} edges"
    print(about, flush=True)
    with tempfile.TemporaryDirectory(prefix="ivm-bench-") as folder:
        return shared.bench("ivm bench", rows(edges, Path(folder), options.quick), options, about)


def rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """All rows of the benchmark."""
    yield from joins.rows(edges, folder, quick)
    yield from upkeep.rows(edges, folder, quick)
    yield from processes.rows(edges, folder, quick)
