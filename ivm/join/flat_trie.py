"""Flat tries: the relations of a plan decoded into one array, level by level, for a full evaluation.

    edge    (1, 5) (1, 7) (4, 2)

    depth 0    keys      1  4         children  0  2  3      the keys below key i are those from children[i]
    depth 1    keys      5  7  2                             up to children[i + 1]

In `data` the positions in `children` count from the start of the array. Where the keys of depth 0 are dense, a table of
first keys follows: for each value from the least to the greatest key, the position of the first key >= it.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ivm.join.join import concatenated
from ivm.join.kernels import flat_layout, join_layout
from ivm.join.plan_arrays import Shape
from pagestore.host import Pages, Tree, read_batches

DECODED_PER_RECORD = 64  # records that are decoded in the time in which the paged join passes one record
RECORDS_MAX = 1 << 24  # of all tries together, so that they fit in memory together with the store's pages
TABLE_PER_KEY = 4  # the most entries per key in a table of first keys
PARTS_MAX = 62  # atoms joined at a level: a set of them is the bits of a word, without its sign


class Flat(NamedTuple):
    """Tries as arrays: data int64[n], and facts about each atom and depth, int64[A * D]."""

    data: np.ndarray
    place: np.ndarray  # int64[A * D, 3], see join/kernels/flat_join.py
    longest: np.ndarray  # the most keys below one key of the depth before
    low: np.ndarray  # the least key
    high: np.ndarray  # the greatest key

    def cuts(self, o: int, wanted: int, single_depth: bool) -> np.ndarray:
        """Return keys of place o that cut the next depth (or, at a `single_depth`, this one) into `wanted` parts."""
        first, n, children = self.place[o, : flat_layout.TABLE].tolist()
        parts = np.arange(1, wanted)
        if single_depth:
            places = n * parts // wanted
        else:
            ends = self.data[children + 1 : children + n + 1]
            places = np.searchsorted(ends, ends[-1] * parts // wanted, side="right")
        keys: np.ndarray = self.data[first + places]
        return keys


def is_flat_cheaper(shape: Shape, trees: Sequence[Tree]) -> bool:
    """Return whether flat tries can evaluate a plan, and faster than the paged join.  O(tries).

    Only the paged join evaluates plans with negated atoms, with values read at a binding, with a constant at level 0,
    or with a level that joins more than PARTS_MAX atoms.
    """
    tries = shape.parts[: shape.part_start[1], 0].tolist()
    held = shape.bounds[: shape.bound_start[1], 0]
    if len(shape.absent) or len(shape.reads) or (held == join_layout.EQ).any():
        return False
    parts = np.diff(shape.part_start)
    if parts.min() == 0 or parts.max() > PARTS_MAX:
        return False
    records = sum({tree.root: tree.count for tree in trees}.values())
    first = min(trees[t].count for t in tries)
    return bool(records <= min(RECORDS_MAX, DECODED_PER_RECORD * first))


def flatten(pages: Pages, shape: Shape, trees: Sequence[Tree]) -> Flat:
    """Decode the tries of a plan, each relation and depth once.  O(records)."""
    atoms, depths = shape.argument_level.shape
    place = np.zeros((atoms * depths, flat_layout.PLACE), np.int64)
    longest, low, high = (np.zeros(atoms * depths, np.int64) for _ in range(3))
    pieces: list[np.ndarray] = []
    start = 0
    of: dict[tuple[int, int], int] = {}
    for atom, (tree, depth) in enumerate(zip(trees, shape.depths.tolist(), strict=True)):
        here = slice(atom * depths, atom * depths + depth)
        twin = of.setdefault((tree.root, depth), atom)
        if twin != atom:
            there = slice(twin * depths, twin * depths + depth)
            for array in (place, longest, low, high):
                array[here] = array[there]
            continue
        siblings = 0
        for d, (keys, children) in enumerate(_levels(pages, tree, depth)):
            o = atom * depths + d
            if len(keys):
                low[o], high[o] = keys.min(), keys.max()
            longest[o] = siblings if d else len(keys)
            siblings = int(np.diff(children).max(initial=0))
            table = _table(keys, start, int(high[o]) - int(low[o]) + 1) if d == 0 < depth - 1 else None
            place[o] = start, len(keys), start + len(keys), 0, low[o]
            pieces += [keys, children]
            start += len(keys) + len(children)
            if table is not None:
                place[o, flat_layout.TABLE] = start
                pieces.append(table)
                start += len(table)
    return Flat(np.concatenate([*pieces, np.zeros(1, np.int64)]), place, longest, low, high)


def _levels(pages: Pages, tree: Tree, depth: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (keys, where the children of each key begin) for each depth; the last depth has no children."""
    batches = list(read_batches(pages, tree, columns=tuple(range(depth))))
    columns = concatenated(batches) if batches else np.empty((depth, 0), np.int64)
    n = columns.shape[1]
    shared = depth - (depth >= tree.spec.keys)  # the depths at which several records may share a key
    fresh = np.zeros(n, bool)
    fresh[:1] = True
    rows = []
    for column in columns[:shared]:
        fresh[1:] |= column[1:] != column[:-1]
        rows.append(np.flatnonzero(fresh))
    keys = [*(column[first] for column, first in zip(columns, rows, strict=False)), *columns[shared:]]
    children = [np.append(np.searchsorted(below, here), len(below)) for here, below in pairwise(rows)]
    children += [np.append(here, n) for here in rows[-1:] if shared < depth]
    return list(zip(keys, [*children, np.zeros(0, np.int64)], strict=True))


def _table(keys: np.ndarray, start: int, span: int) -> np.ndarray | None:
    """Return, for each value from the least to the greatest key, where the first key >= it is; keys[0] is at `start`.

    None if the table would have more than TABLE_PER_KEY entries per key.
    """
    if span > TABLE_PER_KEY * len(keys):
        return None
    return start + np.repeat(np.arange(len(keys)), np.diff(keys, prepend=keys[:1] - 1))


def level_span(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """Return the least key of the atoms joined at a level, and how many values lie from it to the greatest key."""
    low, high = level_bounds(flat, shape, level)
    return low, high - low + 1


def level_bounds(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """Return the least and the greatest key of the atoms joined at a level."""
    atoms, depths = shape.parts[shape.part_start[level] : shape.part_start[level + 1]].T
    places = atoms * shape.argument_level.shape[1] + depths
    return int(flat.low[places].min()), int(flat.high[places].max())
