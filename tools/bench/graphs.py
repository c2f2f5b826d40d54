"""Graphs to measure with: edges x < y, int64[2, m], sorted."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq


def read_graph(file: Path) -> np.ndarray:
    """The edges in the columns x, y of a Parquet file; their order and direction do not matter, nor do repetitions."""
    table = pq.read_table(file, columns=["x", "y"])
    return _edges(np.stack([table["x"].to_numpy(), table["y"].to_numpy()]).astype(np.int64))


def skewed(vertices: int) -> np.ndarray:
    """A graph with hubs: about 14 edges a vertex, ends drawn with a heavy tail."""
    return _edges((vertices * np.random.default_rng(6).random((2, 20 * vertices)) ** 2).astype(np.int64))


def even(edges: int, degree: int = 20) -> np.ndarray:
    """A graph without hubs, of about `edges` edges; the degree of a vertex does not depend on the size."""
    return _edges(np.random.default_rng(8).integers(0, 2 * edges // degree, (2, edges)))


def _edges(ends: np.ndarray) -> np.ndarray:
    ends = np.sort(ends, axis=0)
    return np.unique(ends[:, ends[0] < ends[1]], axis=1)
