"""The cells that a row goes to, by its values' coordinates in the cube (HyperCube shuffle).

    tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).        shares x: 2, y: 2, z: 2, so 8 cells

A row of the first edge has an x and a y: it goes to both cells (h(x), h(y), 0) and (h(x), h(y), 1). An assignment of
x, y and z has all three coordinates, so exactly one cell has the rows of all three atoms for it.

A *hot* value of x, one that very many rows of an atom have, would overload the cells of one coordinate. So the rows
with it of one atom are spread along x by a hash of the whole row, and those of other atoms go to every coordinate of
x. An assignment is then found where the first atom's row is: still in exactly one cell.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

GOLDEN, MIX_1, MIX_2 = (np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


class Dimension(NamedTuple):
    """How a relation's rows are distributed along one dimension of the cube.

    The coordinate is the hash of `columns`, modulo `share`; without columns, a row goes to all coordinates. A row
    whose hash is in `hot` also goes to all, or if `spread`, to one, by the hash of all of its columns.
    """

    share: int
    columns: tuple[int, ...]
    hot: tuple[int, ...] = ()
    spread: bool = False


Distribution = tuple[Dimension, ...]  # no dimensions: all rows go to cell 0


def whole(columns: Sequence[int], cells: int) -> Distribution:
    """Return the distribution that sends each row to one cell, by the hash of some columns."""
    return (Dimension(cells, tuple(columns)),) if cells > 1 and columns else ()


def replication(distribution: Distribution) -> int:
    """Return the number of cells that a row without hot values goes to."""
    return int(np.prod([d.share for d in distribution if not d.columns], dtype=np.int64))


def cells_of(table: pa.Table, distribution: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of a row and a cell that it goes to: (row int64[m], cell int64[m]); O(rows * replication).

    >>> edges = pa.table({"x": [1, 1, 2], "y": [2, 3, 3]})
    >>> rows, cells = cells_of(edges, (Dimension(2, (0,)), Dimension(2, ())))
    >>> rows.tolist(), cells.tolist()
    ([0, 0, 1, 1, 2, 2], [2, 3, 2, 3, 0, 1])
    """
    rows, cells = np.arange(table.num_rows), np.zeros(table.num_rows, np.int64)
    for share, columns, hot, spread in distribution:
        hashed = hash_rows(table, columns) if columns else np.empty(0, np.uint64)
        everywhere = np.full(table.num_rows, not columns)
        if hot:
            is_hot = np.isin(hashed, np.array(hot, np.uint64))
            if spread:
                hashed = np.where(is_hot, hash_rows(table, range(table.num_columns)), hashed)
            else:
                everywhere = is_hot
        copies = np.where(everywhere[rows], share, 1)
        ends = np.cumsum(copies)
        place = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - copies, copies)
        rows, cells = np.repeat(rows, copies), np.repeat(cells, copies)
        own = (hashed % np.uint64(share)).astype(np.int64)[rows] if columns else place
        cells = cells * share + np.where(everywhere[rows], place, own)
    return rows, cells


def route(table: pa.Table, distribution: Distribution, key: int | None = None) -> Iterator[tuple[int, pa.Table]]:
    """Yield the cells that get rows, with these, by cell; only the table's first `key` columns are the relation's."""
    rows, cells = cells_of(table if key is None else table.select(range(key)), distribution)
    order = np.argsort(cells, kind="stable")
    rows, cells = rows[order], cells[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts.tolist(), len(cells)][1:], strict=True):
        yield int(cells[start]), table.take(rows[start:end])


def hash_rows(table: pa.Table, columns: Sequence[int]) -> np.ndarray:
    """Hash some columns of each row, uint64[n]: equally on every machine, and for equal values of one type."""
    hashed = np.zeros(table.num_rows, np.uint64)
    for column in columns:
        hashed = _mix(hashed + _words(table.column(column)))
    return hashed


def hash_value(value: Any, type_: pa.DataType) -> int:
    """Return the hash of one value, as in the `hot` hashes of a dimension."""
    return int(hash_rows(pa.table([pa.array([value], type_)], names=["v"]), (0,))[0])


def _mix(words: np.ndarray) -> np.ndarray:
    """Apply the finalizer of splitmix64 to uint64[n]."""
    with np.errstate(over="ignore"):
        z = words + GOLDEN
        z = (z ^ (z >> np.uint64(30))) * MIX_1
        z = (z ^ (z >> np.uint64(27))) * MIX_2
        return np.asarray(z ^ (z >> np.uint64(31)))


def _words(column: pa.ChunkedArray) -> np.ndarray:
    """Return a word for each value, uint64[n]; 0 for null."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    type_ = array.type
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_large_string(type_):
        coded = array.dictionary_encode()
        texts = coded.dictionary.cast(pa.large_binary()).to_pylist()
        words = np.array([0, *(zlib.crc32(text) + 1 for text in texts)], np.uint64)
        return np.asarray(words[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1])
    if pa.types.is_decimal(type_):
        scaled = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset :][: 2 * len(array) : 2]
        return np.where(pc.is_valid(array).to_numpy(zero_copy_only=False), scaled, np.uint64(0))
    if pa.types.is_floating(type_):
        values = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.float64)
        return np.asarray((values + 0.0).view(np.uint64))
    if pa.types.is_boolean(type_):
        return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64))
    if pa.types.is_uint64(type_):
        return np.asarray(array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64))
    whole_type = pa.int32() if pa.types.is_date32(type_) else pa.int64()
    words = array.cast(whole_type).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return np.asarray(words.view(np.uint64))
