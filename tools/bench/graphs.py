"""Graphs to measure with, edges x < y, int64[2, m], sorted; how they change; and the hand-written
limit for triangles.

The limit is sorted adjacency lists in memory, merged; no versions, no durability. Its kernels are
part of no wheel.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from pagestore.compiled import kernel

Change = tuple[np.ndarray, np.ndarray]  # edges gone, edges new: each int64[2, n]


def read_graph(file: Path) -> np.ndarray:
    """Return the edges in the columns x, y of a Parquet file, in any order and direction, and
    possibly repeated.
    """
    table = pq.read_table(file, columns=["x", "y"])
    return _edges(np.stack([table["x"].to_numpy(), table["y"].to_numpy()]).astype(np.int64))


def skewed(vertices: int) -> np.ndarray:
    """Return a graph with hubs: about 14 edges a vertex, ends drawn with a heavy tail."""
    return _edges(
        (vertices * np.random.default_rng(6).random((2, 20 * vertices)) ** 2).astype(np.int64)
    )


def even(edges: int, degree: int = 20) -> np.ndarray:
    """Return a graph without hubs, of about `edges` edges; the degree of a vertex does not
    depend on the size.
    """
    return _edges(np.random.default_rng(8).integers(0, 2 * edges // degree, (2, edges)))


def _edges(ends: np.ndarray) -> np.ndarray:
    ends = np.sort(ends, axis=0)
    return np.unique(ends[:, ends[0] < ends[1]], axis=1)


def changes(edges: np.ndarray, batch: int) -> Iterator[Change]:
    """Yield endless changes, the same each time, of one edge or at most `batch`.

    Changes of one edge alternately take an edge out and put it back; larger ones take out as many
    random edges as they put back of those taken out before.
    """
    random = np.random.default_rng(7)
    none = edges[:, :0]
    while True:
        order = random.permutation(edges.shape[1])
        if batch == 1:
            for i in order.tolist():
                yield edges[:, i : i + 1], none
                yield none, edges[:, i : i + 1]
            continue
        half = min(batch // 2, len(order) // 4)
        chunks = [edges[:, order[at : at + half]] for at in range(0, len(order) - half, half)]
        for new, gone in pairwise([none, *chunks, none]):
            yield gone, new


def adjacency(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return row starts int64[n+1] and neighbours int32[m] of sorted edges x < y, int64[2, m]."""
    vertices = int(edges.max()) + 1
    starts = np.zeros(vertices + 1, np.int64)
    np.cumsum(np.bincount(edges[0], minlength=vertices), out=starts[1:])
    return starts, edges[1].astype(np.int32)


def triangles(starts: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Return all triangles x < y < z, int32[n, 3], in order."""
    out = np.empty((_triangles(starts, neighbours, np.empty((0, 3), np.int32)), 3), np.int32)
    _triangles(starts, neighbours, out)
    return out


class Adjacency:
    """A graph from which edges are deleted and to which they return, in place; `triangles`
    counts its triangles.
    """

    def __init__(self, edges: np.ndarray) -> None:
        both = np.concatenate([edges, edges[::-1]], axis=1)
        starts, neighbours = adjacency(both[:, np.lexsort(both[::-1])])
        self._graph = starts, neighbours, np.diff(starts)
        # the triangles that the last change removed or added
        self.found = np.empty((1 << 20, 3), np.int32)
        self.triangles = _triangles(*adjacency(edges), self.found[:0])

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """Delete edges and insert edges, each int64[2, n]."""
        self.triangles -= _change(*self._graph, gone, False, self.found)
        self.triangles += _change(*self._graph, new, True, self.found)


@kernel
def _triangles(starts: np.ndarray, neighbours: np.ndarray, out: np.ndarray) -> int:
    """Count the triangles, and write them to `out` as long as it has room."""
    triangles = 0
    for x in range(len(starts) - 1):
        for edge in range(starts[x], starts[x + 1]):
            y = neighbours[edge]
            triangles = _merge(
                neighbours, x, y, edge + 1, starts[x + 1], starts[y], starts[y + 1], out, triangles
            )
    return triangles


@kernel
def _merge(
    neighbours: np.ndarray,
    x: int,
    y: int,
    i: int,
    i_end: int,
    j: int,
    j_end: int,
    out: np.ndarray,
    found: int,
) -> int:
    """Write x, y and each vertex in both ranges of neighbours, while there is room; return
    `found`, with them.
    """
    while i < i_end and j < j_end:
        if neighbours[i] < neighbours[j]:
            i += 1
        elif neighbours[i] > neighbours[j]:
            j += 1
        else:
            if found < len(out):
                out[found, 0], out[found, 1], out[found, 2] = x, y, neighbours[i]
            found += 1
            i += 1
            j += 1
    return found


@kernel
def _change(
    starts: np.ndarray,
    neighbours: np.ndarray,
    lengths: np.ndarray,
    edges: np.ndarray,
    comes: bool,
    out: np.ndarray,
) -> int:
    """List and count the triangles of each edge; it is deleted before, or inserted after it."""
    triangles = 0
    for edge in range(edges.shape[1]):
        x, y = edges[0, edge], edges[1, edge]
        if not comes:
            _move(starts, neighbours, lengths, x, y, comes)
            _move(starts, neighbours, lengths, y, x, comes)
        i, j = starts[x], starts[y]
        triangles = _merge(neighbours, x, y, i, i + lengths[x], j, j + lengths[y], out, triangles)
        if comes:
            _move(starts, neighbours, lengths, x, y, comes)
            _move(starts, neighbours, lengths, y, x, comes)
    return triangles


@kernel
def _move(
    starts: np.ndarray, neighbours: np.ndarray, lengths: np.ndarray, x: int, y: int, comes: bool
) -> None:
    """Insert y among the neighbours of x, or delete it."""
    first, end = starts[x], starts[x] + lengths[x]
    at = first + np.searchsorted(neighbours[first:end], y)
    if comes:
        for i in range(end, at, -1):
            neighbours[i] = neighbours[i - 1]
        neighbours[at] = y
        lengths[x] += 1
    else:
        for i in range(at, end - 1):
            neighbours[i] = neighbours[i + 1]
        lengths[x] -= 1
