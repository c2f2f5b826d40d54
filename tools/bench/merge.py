"""The hand-written limit for triangles: adjacency lists in memory, merged; no versions, no durability."""

import numpy as np
from numba import njit


def adjacency(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row starts int64[n+1] and neighbours int32[m] of the sorted edges x < y, int64[2, m]."""
    vertices = int(edges.max()) + 1
    starts = np.zeros(vertices + 1, np.int64)
    np.cumsum(np.bincount(edges[0], minlength=vertices), out=starts[1:])
    return starts, edges[1].astype(np.int32)


def triangles(starts: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """All x < y < z with three edges, int32[n, 3], in order."""
    out = np.empty((_triangles(starts, neighbours, np.empty((0, 3), np.int32)), 3), np.int32)
    _triangles(starts, neighbours, out)
    return out


@njit(cache=True, nogil=True)
def _triangles(starts, neighbours, out):
    """Counts the triangles, and writes them where `out` has room."""
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
