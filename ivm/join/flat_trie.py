"""TODO: ivm/join/flat_trie.py."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ivm.join.join import joined
from ivm.join.kernels import flat_layout, join_layout
from ivm.join.plan_arrays import Shape
from pagestore.host import Pages, Tree, read_batches

DECODED_PER_RECORD = 64  # records decoded in the time that leapfrogging takes to pass one
RECORDS_MAX = 1 << 24  # all tries together; beyond, memory would not be what a paged store promises
DENSE = 4  # times as many numbers as there are keys may a table of first keys have
PARTS_MAX = 62  # of a level: sets of them are the bits of a word, without its sign


class Flat(NamedTuple):
    """Tries as arrays: data int64[n], and for each atom and depth, int64[A * D], what the fields say."""

    data: np.ndarray
    place: np.ndarray  # int64[A * D, 3], see join/kernels/flat_join.py
    longest: np.ndarray  # the longest slice of siblings
    low: np.ndarray  # the least key
    high: np.ndarray  # the greatest key

    def cuts(self, o: int, wanted: int, alone: bool) -> np.ndarray:
        """The keys at a depth that cut what is below them, or the keys where they are `alone`, into equal parts."""
        first, n, children = self.place[o, : flat_layout.TABLE].tolist()
        keys, parts = self.data[first : first + n], np.arange(1, wanted)
        if alone:
            return keys[n * parts // wanted]
        ends = self.data[children + 1 : children + n + 1]
        return keys[np.searchsorted(ends, ends[-1] * parts // wanted, side="right")]


def pays(shape: Shape, trees: Sequence[Tree]) -> bool:
    """Is a plan one that flat tries can evaluate, and would the join pass through a good part of them?

    Negated atoms, values read at a binding and levels of more than PARTS_MAX parts are left to the paged join.
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
    return records <= min(RECORDS_MAX, DECODED_PER_RECORD * first)


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
    """(keys, where the children of each begin) at each depth; the last depth has no children."""
    batches = list(read_batches(pages, tree, columns=tuple(range(depth))))
    columns = joined(batches) if batches else np.empty((depth, 0), np.int64)
    n = columns.shape[1]
    shared = depth - (depth >= tree.spec.keys)  # the depths at which records may share a key
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
    """Where the first key is that is not below the least of a first column and 0, 1, 2, ... more, up to the greatest.

    None where that would be mostly holes.
    """
    if span > DENSE * len(keys):
        return None
    return start + np.repeat(np.arange(len(keys)), np.diff(keys, prepend=keys[:1] - 1))


def _range(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """The least key of a level's parts, and how many there are from it to the greatest."""
    low, high = _keys(flat, shape, level)
    return low, high - low + 1


def _keys(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """The least key of a level's parts, and the greatest."""
    atoms, depths = shape.parts[shape.part_start[level] : shape.part_start[level + 1]].T
    places = atoms * shape.argument_level.shape[1] + depths
    return int(flat.low[places].min()), int(flat.high[places].max())
