"""Read a page's ScanTree back and compare it with a recomputation, in plain Python: for check and for tests.

The bytes are described in scan_tree.py; the operators in fold_operators.py. Nothing here shares code with
the kernels that write them.
"""

from collections.abc import Iterator
from functools import reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pagestore.pages.fold_operators import CARRY, CHECKSUM, COUNT, MAX, MIN, SUM, THEN, USER
from pagestore.pages.host_operators import operator
from pagestore.pages.layout import ENTRY_COUNT, SCAN

Scans = tuple[tuple[int, int], ...]
Fold = tuple[int, ...]


class ScanTree(NamedTuple):
    """Leaf j folds entries starts[j]..starts[j + 1]; nodes[k] is the fold of heap node k (nodes[0] is unused)."""

    starts: list[int]
    nodes: list[Fold]


def read_scan_tree(page: np.ndarray, scans: Scans, level: int) -> ScanTree | None:
    """Return the ScanTree of a page int64[W], or None. Raise ValueError for one that no kernel writes."""
    header = int(page[SCAN])
    depth, area = header & 255, header >> 8 & 0xFFFFFF
    if not depth:
        return None
    n, leaves = int(page[ENTRY_COUNT]), 1 << depth
    if leaves > n or not 0 < area < len(page):
        raise ValueError(f"a ScanTree of {leaves} leaves at word {area} over {n} entries")
    offsets = _column(page, area, leaves)
    starts = [n * j // leaves + offset for j, offset in enumerate(offsets)] + [n]
    sizes = [0] * leaves + [b - a for a, b in pairwise(starts)]
    for k in range(leaves - 1, 0, -1):
        sizes[k] = sizes[2 * k] + sizes[2 * k + 1]
    words = [
        sizes if op == COUNT and level == 0 else [0, *_column(page, area + 2 + 2 * f, 2 * leaves - 1)]
        for f, (op, _) in enumerate(scans)
    ]
    return ScanTree(starts, list(zip(*words, strict=True)))


def _column(page: np.ndarray, descriptor: int, n: int) -> list[int]:
    """Decode a narrow column, from one big integer."""
    base, place = int(page[descriptor]), int(page[descriptor + 1])
    offset, width = place >> 8, place & 255
    words = -(-n * width // 64)
    if width > 64 or offset + words > len(page) - 1:
        raise ValueError(f"a ScanTree column of {n} values, {width} bits each from word {offset}")
    bits = int.from_bytes(page[offset : offset + words].astype("<i8").tobytes(), "little")
    mask = (1 << width) - 1
    return [_signed(base + (bits >> i * width & mask)) for i in range(n)]


def scan_tree_faults(page: np.ndarray, scans: Scans, level: int, keys: int, columns: np.ndarray) -> Iterator[str]:
    """Yield what is wrong with a page's ScanTree, given the page's decoded columns int64[C, n]."""
    try:
        tree = read_scan_tree(page, scans, level)
    except ValueError as error:
        yield str(error)
        return
    if tree is None:
        return
    starts, leaves = tree.starts, len(tree.starts) - 1
    if starts[0] != 0 or any(a >= b for a, b in pairwise(starts)):
        yield f"its leaves start at {starts}"
        return
    sizes = [0] * leaves + [b - a for a, b in pairwise(starts)]
    truth: list[Fold] = [()] * leaves
    truth += [fold_of(scans, level, keys, columns[:, a:b]) for a, b in pairwise(starts)]
    for k in range(leaves - 1, 0, -1):
        sizes[k] = sizes[2 * k] + sizes[2 * k + 1]
        truth[k] = join(scans, truth[2 * k], truth[2 * k + 1])
    for k in range(1, 2 * leaves):
        if tree.nodes[k] != truth[k]:
            yield f"node {k} of its ScanTree says {tree.nodes[k]}, its entries fold to {truth[k]}"
    for k in range(1, leaves):
        a, b = sizes[2 * k], sizes[2 * k + 1]
        if max(a, b) > 2 * min(a, b):
            yield f"the children of node {k} of its ScanTree fold {a} and {b} entries"


def fold_of(scans: Scans, level: int, keys: int, columns: np.ndarray) -> Fold:
    """Fold all entries in columns int64[C, n], n > 0: records of a leaf, children of an index page."""
    out: list[int] = []
    for f, op, c, group in _groups(scans):
        if level:
            out += _join_many(op, columns[keys + 1 + f : keys + 1 + f + group].T.tolist())
        elif op == COUNT:
            out.append(columns.shape[1])
        elif op == CHECKSUM:
            out.append(_signed(sum(record_hashes(columns[:c]).tolist())))
        elif op == SUM:
            total = sum(columns[c].tolist())
            out += [_signed(total), total >> 64][:group]
        else:
            chosen = [scans[g][1] for g in range(f, f + group)]
            out += _join_many(op, columns[chosen].T.tolist())
    return tuple(out)


def join(scans: Scans, a: Fold, b: Fold) -> Fold:
    """Return a ⊕ b."""
    out: list[int] = []
    for f, op, _, group in _groups(scans):
        out += _join_many(op, [list(a[f : f + group]), list(b[f : f + group])])
    return tuple(out)


def record_hashes(columns: np.ndarray) -> np.ndarray:
    """Return the hash of each record, uint64[n]; a checksum is their sum."""
    h = np.zeros(columns.shape[1], np.uint64)
    for column in columns.view(np.uint64):
        h = _mixed(h ^ _mixed(column + np.uint64(7046029254386353131))) + np.uint64(1442695040888963407)
    return h


def _mixed(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


def _groups(scans: Scans) -> Iterator[tuple[int, int, int, int]]:
    """Yield (row, operator, column, number of rows) of each scan."""
    leaders = [f for f, (op, _) in enumerate(scans) if op not in (CARRY, THEN)]
    for f, after in zip(leaders, [*leaders[1:], len(scans)], strict=False):
        yield f, *scans[f], after - f


def _join_many(op: int, folds: list[list[int]]) -> list[int]:
    if op == MAX:
        return max(folds)
    if op == MIN:
        return min(folds)
    if op >= USER:
        function = operator(op).call
        return [reduce(function, (fold[0] for fold in folds))]
    if op == SUM and len(folds[0]) == 2:
        total = sum((fold[0] & (1 << 64) - 1) + (fold[1] << 64) for fold in folds)
        return [_signed(total), total >> 64]
    return [_signed(sum(fold[0] for fold in folds))]


def _signed(word: int) -> int:
    """Return a word's low 64 bits as a signed number."""
    return (word + (1 << 63) & (1 << 64) - 1) - (1 << 63)
