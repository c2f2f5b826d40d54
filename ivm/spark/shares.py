"""Which cells hold which rows: shares of variables, where a row goes by its values, and the sizes
that decide.

    tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).    64 cells, n edges    shares 4 4 4, 3 n / 16 rows in a cell

Shares are integers whose product is at most the number of cells and whose cost is least. A cell
holds size / (product of the shares of its variables) rows of an atom. The search tries every vector
of integers, as Chu, Balazinska and Suciu do (*From Theory to Practice: Efficient Join Query
Evaluation in a Parallel Database System*, SIGMOD 2015), rather than round the real solution. The
cost of a vector is, in rows of one cell,

    the rows that the cell holds of all atoms, plus those of them that are sent there, plus the
    head's that it sends

A row goes to cells by its values' coordinates in the cube of shares (HyperCube shuffle). With the
shares 2 2 2 a row of the first edge has an x and a y: it goes to both cells (h(x), h(y), 0) and
(h(x), h(y), 1). An assignment of x, y and z has all three coordinates, so exactly one cell has the
rows of all three atoms for it.

A *hot* value of x, one that very many rows of an atom have, would overload the cells of one
coordinate. So the rows with it of one atom are spread along x by a hash of the whole row, and those
of other atoms go to every coordinate of x. An assignment is then found where the first atom's row
is: still in exactly one cell.
"""

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.lang.ir import Atom, Disjunct, Predicate, Var, atoms
from ivm.spark.changes import as_changes, schema_of

GOLDEN, MIX_1, MIX_2 = (
    np.uint64(k) for k in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
VARIABLES_MAX = 6  # that may have a share; further variables of a conjunction have none
HOT_FROM = 1000  # rows; a value that fewer have is not worth splitting
Hot = Mapping[tuple[str, int], frozenset[int]]  # hashes of the hot values of a relation's column


class Dimension(NamedTuple):
    """How a relation's rows are distributed along one dimension of the cube.

    The coordinate is the hash of `columns`, modulo `share`; without columns, a row goes to all
    coordinates. A row whose hash is in `hot` also goes to all, or if `spread`, to one, by the hash
    of all of its columns.
    """

    share: int
    columns: tuple[int, ...]
    hot: tuple[int, ...] = ()
    spread: bool = False


Distribution = tuple[Dimension, ...]  # no dimensions: all rows go to cell 0


class Shares(NamedTuple):
    """Shares by variable, each at least 2, in the order of the cube's dimensions, and cost."""

    of: dict[str, int]
    held: float  # rows of all atoms in a cell
    cost: float

    @property
    def cells(self) -> int:
        """The number of cells that get rows."""
        return prod(self.of.values())


def choose_shares(
    body: Disjunct,
    sizes: Mapping[str, float],
    cells: int,
    first: Sequence[str] = (),
    is_there: Callable[[Atom, dict[str, int]], bool] = lambda atom, shares: False,
    sent: Callable[[dict[str, int]], float] = lambda shares: 0.0,
    among: Collection[str] | None = None,
) -> Shares:
    """Return the shares of least cost; of equals, those with the most cells, then with larger
    shares of `first`.

    O(cells * (log cells)^variables). `is_there(atom, shares)` says whether an atom's rows are
    distributed that way already, `sent(shares)` how many rows of the head all cells send with these
    shares. If `among` is given, only these variables have shares.
    """
    held_of = [(atom, {v.name for v in atom.terms if isinstance(v, Var)}) for atom in atoms(body)]
    best: tuple[float, int, list[int]] | None = None
    chosen = Shares({}, 0.0, 0.0)
    names = _variables(body, first, among)
    for shares in _vectors(names, cells):
        used = prod(shares.values())
        held = received = 0.0
        for atom, own in held_of:
            rows = sizes[atom.predicate] / prod(
                share for name, share in shares.items() if name in own
            )
            held += rows
            received += 0 if is_there(atom, shares) else rows
        cost = held + received + sent(shares) / used
        rank = (cost, -used, [-shares.get(name, 1) for name in names])
        if best is None or rank < best:
            best, chosen = rank, Shares(shares, held, cost)
    return chosen


def distribution_of(
    atom: Atom, shares: Mapping[str, int], hot: Mapping[str, tuple[int, ...]], spread: set[str]
) -> Distribution:
    """Return the distribution of an atom's rows; `hot` has hot hashes of variables, `spread`
    those it spreads.
    """
    columns = {
        term.name: place
        for place, term in reversed([*enumerate(atom.terms)])
        if isinstance(term, Var)
    }
    return tuple(
        Dimension(
            share, (columns[name],), hot.get(name, ()), name in spread and bool(hot.get(name))
        )
        if name in columns
        else Dimension(share, ())
        for name, share in shares.items()
    )


def hot_of(
    body: Disjunct, shares: Mapping[str, int], sizes: Mapping[str, float], hot: Hot
) -> tuple[dict[str, tuple[int, ...]], dict[str, Atom]]:
    """Return the hot hashes of variables with shares, and for each the largest atom whose rows
    can be spread.
    """
    found: dict[str, tuple[int, ...]] = {}
    spreaders: dict[str, Atom] = {}
    for name in shares:
        hashes = {
            hash_
            for atom in atoms(body)
            for place, term in enumerate(atom.terms)
            if isinstance(term, Var) and term.name == name
            for hash_ in hot.get((atom.predicate, place), ())
        }
        able = [
            atom
            for atom in body
            if isinstance(atom, Atom) and Var(name) in atom.terms and len({*atom.terms}) > 1
        ]
        if hashes and able:
            found[name] = tuple(sorted(hashes))
            spreaders[name] = max(able, key=lambda atom: sizes[atom.predicate])
    return found, spreaders


def _variables(body: Disjunct, first: Sequence[str], among: Collection[str] | None) -> list[str]:
    """Return the variables that may have shares, those in most atoms first; each is in an atom
    that is not negated.
    """
    counts = dict.fromkeys(
        variables_of(body) if among is None else variables_of(body).intersection(among), 0
    )
    for atom in atoms(body):
        for name in counts.keys() & {v.name for v in atom.terms if isinstance(v, Var)}:
            counts[name] += 1
    places = {name: place for place, name in reversed([*enumerate(first)])}
    return sorted(counts, key=lambda name: (-counts[name], places.get(name, len(places))))[
        :VARIABLES_MAX
    ]


def variables_of(body: Disjunct) -> set[str]:
    """Return the variables of a conjunction's atoms, without those inside negations."""
    return {
        v.name for atom in body if isinstance(atom, Atom) for v in atom.terms if isinstance(v, Var)
    }


def _vectors(names: Sequence[str], cells: int) -> Iterator[dict[str, int]]:
    """Yield every choice of shares whose product is at most `cells`; shares of 1 are omitted."""
    if not names:
        yield {}
        return
    for share in range(1, cells + 1):
        for others in _vectors(names[1:], cells // share):
            yield ({names[0]: share} if share > 1 else {}) | others


# -- where a row goes


def whole(columns: Sequence[int], cells: int) -> Distribution:
    """Return the distribution that sends each row to one cell, by the hash of some columns."""
    return (Dimension(cells, tuple(columns)),) if cells > 1 and columns else ()


def replication(distribution: Distribution) -> int:
    """Return the number of cells that a row without hot values goes to."""
    return int(np.prod([d.share for d in distribution if not d.columns], dtype=np.int64))


def cells_of(table: pa.Table, distribution: Distribution) -> tuple[np.ndarray, np.ndarray]:
    """Return all pairs of a row and a cell that it goes to: (row int64[m], cell int64[m]); O(rows *
    replication).

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
        coordinate = (hashed % np.uint64(share)).astype(np.int64)[rows] if columns else place
        cells = cells * share + np.where(everywhere[rows], place, coordinate)
    return rows, cells


def route(
    table: pa.Table, distribution: Distribution, key: int | None = None
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the cells that get rows, with these, by cell; only the table's first `key` columns
    are the relation's.
    """
    rows, cells = cells_of(table if key is None else table.select(range(key)), distribution)
    order = np.argsort(cells, kind="stable")
    rows, cells = rows[order], cells[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts.tolist(), len(cells)][1:], strict=True):
        yield int(cells[start]), table.take(rows[start:end])


def hash_rows(table: pa.Table, columns: Sequence[int]) -> np.ndarray:
    """Hash columns of each row, uint64[n]: equally on every machine, for equal values of a type."""
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
        return np.asarray(
            words[coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64) + 1]
        )
    if pa.types.is_decimal(type_):
        scaled = np.frombuffer(array.buffers()[1], np.uint64)[2 * array.offset :][
            : 2 * len(array) : 2
        ]
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


# -- sizes


class Sizes(NamedTuple):
    """Row counts by relation, and hashes of hot values by relation and column."""

    sizes: dict[str, float]
    hot: Hot


def measure(tables: Mapping[str, Any], predicates: Mapping[str, Predicate], cells: int) -> Sizes:
    """Measure tables or DataFrames, by relation. A value is hot if it has more rows than a
    cell's fair share.
    """
    sizes: dict[str, float] = {}
    hot: dict[tuple[str, int], frozenset[int]] = {}
    for name, table in tables.items():
        schema = schema_of(predicates[name])
        if hasattr(table, "mapInArrow"):
            sizes[name] = max(1, table.count())
            counted = [
                _frequent_in_frame(table, column, limit(sizes[name], cells))
                for column in schema.names
            ]
        else:
            rows = as_changes(table, predicates[name])
            sizes[name] = max(1, rows.num_rows)
            counted = [
                [value for value, n in counts(rows[c]) if n > limit(sizes[name], cells)]
                for c in schema.names
            ]
        for place, values in enumerate(counted) if len(schema) > 1 else ():
            if values:
                hot[name, place] = frozenset(
                    hash_value(value, schema.field(place).type) for value in values
                )
    return Sizes(sizes, hot)


def limit(rows: float, cells: int) -> float:
    """Return how many rows a value may have without being hot."""
    return max(HOT_FROM, rows / cells)


def counts(column: pa.ChunkedArray) -> list[tuple[Any, int]]:
    """Return the values and how many rows have each."""
    counted = pc.value_counts(column)
    return list(
        zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(), strict=True)
    )


def _frequent_in_frame(frame: Any, column: str, least: float) -> list[Any]:
    from pyspark.sql import functions as F

    counted = (
        frame.groupBy(column).agg(F.count("*").alias("n of rows")).where(F.col("n of rows") > least)
    )
    return [row[0] for row in counted.where(F.col(column).isNotNull()).collect()]
