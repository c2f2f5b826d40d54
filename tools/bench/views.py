"""`ivm bench`: joins from scratch, maintained views and first use, of this project and of others if installed."""

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # set before Polars is imported, so that each system has one thread

from . import joins, processes, upkeep
from . import run as shared
from .graphs import read_graph, skewed
from .measure import Row


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    shared.arguments(parser)
    parser.add_argument(
        "graph",
        metavar="PARQUET",
        type=Path,
        nargs="?",
        help="a graph as integer columns x, y, one row an edge; by default a random one with hubs",
    )


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit code."""
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
