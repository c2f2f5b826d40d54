"""The hand-written limit for triangles: sorted adjacency lists in memory, merged; no versions, no durability."""

from importlib.util import find_spec

import numpy as np

from pagestore.compiled import kernel


def can_compile() -> bool:
    """Is numba installed?  These kernels are part of no wheel."""
    return find_spec("numba") is not None


def adjacency(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row starts int64[n+1] and neighbours int32[m] of the sorted edges x < y, int64[2, m]."""
    vertices = int(edges.max()) + 1
    starts = np.zeros(vertices + 1, np.int64)
    np.cumsum(np.bincount(edges[0], minlength=vertices), out=starts[1:])
    return starts, edges[1].astype(np.int32)


def triangles(starts: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """All triangles x < y < z, int32[n, 3], in order."""
    out = np.empty((_triangles(starts, neighbours, np.empty((0, 3), np.int32)), 3), np.int32)
    _triangles(starts, neighbours, out)
    return out


class Adjacency:
    """A graph from which edges are deleted and to which they return, in place; `triangles` counts its triangles."""

    def __init__(self, edges: np.ndarray) -> None:
        both = np.concatenate([edges, edges[::-1]], axis=1)
        self._starts, self._neighbours = adjacency(both[:, np.lexsort(both[::-1])])
        self._lengths = np.diff(self._starts)
        self.found = np.empty((1 << 20, 3), np.int32)  # the triangles that the last change removed or added
        self.triangles = _triangles(*adjacency(edges), self.found[:0])

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """Delete edges and insert edges, each int64[2, n]."""
        graph = self._starts, self._neighbours, self._lengths
        self.triangles -= _change(*graph, gone[0], gone[1], False, self.found)
        self.triangles += _change(*graph, new[0], new[1], True, self.found)


@kernel
def _triangles(starts: np.ndarray, neighbours: np.ndarray, out: np.ndarray) -> int:
    """Count the triangles, and write them to `out` as long as it has room."""
    found = 0
    for x in range(len(starts) - 1):
        for edge in range(starts[x], starts[x + 1]):
            y = neighbours[edge]
            i, i_end, j, j_end = edge + 1, starts[x + 1], starts[y], starts[y + 1]
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
    starts: np.ndarray, neighbours: np.ndarray, lengths: np.ndarray,
    xs: np.ndarray, ys: np.ndarray, comes: bool, out: np.ndarray,
) -> int:  # fmt: skip
    """List and count the triangles of each edge; it is deleted before that, or inserted after it."""
    found = 0
    for edge in range(len(xs)):
        for end in range(2):
            if not comes:
                _take(starts, neighbours, lengths, (xs[edge], ys[edge])[end], (ys[edge], xs[edge])[end])
        x, y = xs[edge], ys[edge]
        i, i_end, j, j_end = starts[x], starts[x] + lengths[x], starts[y], starts[y] + lengths[y]
        while i < i_end and j < j_end:
            if neighbours[i] < neighbours[j]:
                i += 1
            elif neighbours[i] > neighbours[j]:
                j += 1
            else:
                z = neighbours[i]
                at = found % len(out)
                out[at, 0], out[at, 1], out[at, 2] = min(x, z), min(max(x, z), y), max(y, z)
                found += 1
                i += 1
                j += 1
        for end in range(2):
            if comes:
                _put(starts, neighbours, lengths, (xs[edge], ys[edge])[end], (ys[edge], xs[edge])[end])
    return found


@kernel
def _take(starts: np.ndarray, neighbours: np.ndarray, lengths: np.ndarray, x: int, y: int) -> None:
    first, end = starts[x], starts[x] + lengths[x]
    at = first + np.searchsorted(neighbours[first:end], y)
    for i in range(at, end - 1):
        neighbours[i] = neighbours[i + 1]
    lengths[x] -= 1


@kernel
def _put(starts: np.ndarray, neighbours: np.ndarray, lengths: np.ndarray, x: int, y: int) -> None:
    first, end = starts[x], starts[x] + lengths[x]
    at = first + np.searchsorted(neighbours[first:end], y)
    for i in range(end, at, -1):
        neighbours[i] = neighbours[i - 1]
    neighbours[at] = y
    lengths[x] += 1
