"""A relation as its users see it: names and types over a tree of words, and ranges of it.

Interval relations: which records' intervals hold a point, or overlap another interval (*Interval
trees*).

alpha...  a    b   gamma...         a, b are two adjacent key columns; a point has values for the alphas before them
"room 1"  900  1030  "Ada"          stab("room 1", 1000)           a <= 1000 <= b
"room 1"  1015 1200  "Bob"          overlaps("room 1", 1030, 1100)     a <= 1100 and 1030 <= b
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from pagestore.errors import CorruptionError, MissingError, SchemaError
from pagestore.pages.layout import Pages
from pagestore.pages.operators import COUNT, address_of
from pagestore.printable import printable
from pagestore.relations.frames import ROWS_SHOWN, html_table
from pagestore.relations.range import Keyed, Range, Source, are_ints, are_words
from pagestore.relations.rope import Rope
from pagestore.relations.texts import Bound, Words, end_of, fold_read
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.trees.compare import Complement
from pagestore.trees.folds import (
    RangeFold,
    Rows,
    count_rows,
    fold_many,
    overlaps_many,
    ranks,
    rows_of,
    select,
)
from pagestore.trees.read import count, get
from pagestore.trees.tree import Tree, naming_path, with_path
from pagestore.values.codec import NULL, encode, to_numpy, value_of_word
from pagestore.values.dictionary import TextFinder
from pagestore.values.row_formats import as_columns, key_columns, looked_up
from pagestore.values.scan_spec import (
    ScanSpec,
    concatenated,
    parse_scan,
    scan_names,
    value_of,
    values_of,
)
from pagestore.versions.catalog import Info

COUNT_ROWS = ((COUNT, 0),)
EDITS = {
    "insert", "set", "add", "delete", "delete_range", "delete_where", "update", "upsert",
    "append", "remove", "pop", "setdefault", "clear",
}  # what is looked for, in vain, where rows are only read  # fmt: skip
_ABSENT = {"string": "", "bytes": b"", "decimal": Decimal(0)}  # values of keys that are not found
BAG_ROWS = 1 << 16  # multiplicities that are added up at a time


class Relation(Keyed):
    """The records of a relation with lo <= key < hi, in key order; a relation is its own full
    range.

    Strings and bytes are in the order of their bytes, strings as UTF-8. Every read checks the pages
    that it touches and raises CorruptionError for a bad one.
    """

    def __init__(
        self,
        source: Source,
        info: Info,
        lo: Bound = (),
        hi: Bound = (),
        whole: Relation | None = None,
    ):
        super().__init__(source, info, lo, hi)
        # by text
        self._ready: dict[str, tuple[ScanSpec, RangeFold]] = {} if whole is None else whole._ready

    # says how many of the key's columns tell the rows apart, where a host knows that fewer do
    enough: Callable[[], int | None] | None = None

    if not TYPE_CHECKING:  # for which a name that does not exist is an error

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, for the name of an edit with how it is made."""
            if name in EDITS:
                hint = f"with store.transaction() as txn: txn[{self.name!r}].{name}(...)"
                raise AttributeError(
                    f"{self.name!r} is read here; edit it in a transaction: {hint}",
                    name=name,
                    obj=self,
                )
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )

    @cached_property
    def _plain(self) -> int:
        """The length of the key if records are int64 words in the schema's order, without hidden
        ones; else -1.
        """
        schema = None if self._computed else self.info.schema
        plain = (
            schema
            and schema.plain
            and schema.in_order
            and self.info.spec.columns == len(schema.columns)
        )
        return len(schema.key) if schema and plain else -1

    def range(self, lo: tuple[Any, ...] = (), hi: tuple[Any, ...] = ()) -> Relation:
        """Return the records with lo <= key < hi; both may be prefixes of a key, () is unbounded.
        O(1).

        Strings and bytes are in the order of their bytes. Raises SchemaError for more values than
        key columns, WordError for a value of another type.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     price = txn.create("price", "item: string, year: int64, p: int64", key=("item", "year"))
        ...     price.insert([("tea", 2012, 3), ("tea", 2013, 4), ("cake", 2013, 5)])
        ...     list(price.range(("tea", 2013), ("tea", 2020))), list(price.range(("a",), ("d",)))
        ([('tea', 2013, 4)], [('cake', 2013, 5)])
        """
        if (
            type(lo) is tuple is type(hi)
            and len(lo) <= self._plain >= len(hi)
            and are_words(lo + hi)
        ):
            low, high = lo, hi
        else:
            low, high = self._bound(lo), self._bound(hi)
        return self._within(low, high)

    def prefix(self, *values: Any) -> Relation:
        """Return the records whose keys begin with these values. O(1). Raises as `range`.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     ate = txn.create("ate", "person: string, meal: string")
        ...     ate.insert([("ada", "tea"), ("bob", "tea"), ("ada", "cake")])
        ...     list(ate.prefix("ada"))
        [('ada', 'cake'), ('ada', 'tea')]
        """
        bound = self._bound(values)
        return self._within(bound, end_of(bound))

    def starts_with(self, *values: Any) -> Relation:
        """Return the records whose keys begin with these values, the last of which is the beginning
        of a text. O(1).

        Raises as `range`, and SchemaError if the column of the last value has no texts.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     flight = txn.create("flight", "day: int64, code: string")
        ...     flight.insert([(1, "JFK-LAX"), (1, "JFK-SFO"), (1, "SFO-JFK"), (2, "JFK-BOS")])
        ...     list(flight.starts_with(1, "JFK"))
        [(1, 'JFK-LAX'), (1, 'JFK-SFO')]
        """
        *before, text = self._bound(values) or (0,)
        if not isinstance(text, bytes):
            raise SchemaError(
                f"{values!r}: the last value of {self.name!r} ({self.schema}) has to be one of a "
                f"text"
            )
        start = text.rstrip(b"\xff")
        behind = (*before, start[:-1] + bytes([start[-1] + 1])) if start else end_of(tuple(before))
        return self._within((*before, text), behind)

    def _within(self, low: Bound, high: Bound) -> Relation:
        if self._lo or self._hi:
            low, high = max(low, self._lo), min((b for b in (high, self._hi) if b), default=())
        return Relation(self._source, self.info, low, high, self)

    def __len__(self) -> int:
        """O(1) for a whole relation; O(log n) for a range with a "count" scan, and O(its leaves)
        without.

        O(its leaves) for a bag, too, whose rows count as often as it holds them."""
        if self.info.bag:
            pages, tree = self.view()
            return sum(
                int(batch.sum())
                for batch in self._read_batches(pages, tree, (tree.spec.keys,), BAG_ROWS)
            )
        if not self._lo and not self._hi:
            return self.tree.count
        pages, tree = self.view()
        with naming_path(pages, tree):
            stored = self._stored(pages, tree)
            if stored is None:
                return len(self._text_range(pages, tree))
            if rows_of(tree.spec, COUNT_ROWS):
                start, stop = _places(pages, tree, *stored)
                return stop - start
            return count(pages, tree, *stored)

    def __bool__(self) -> bool:
        return next(iter(self.words(rows=1)), None) is not None

    def __contains__(self, record: Any) -> bool:
        """Return whether a key, or a whole record, exists. O(log n)."""
        row = record if isinstance(record, tuple) else (record,)
        if len(row) == self._plain and are_ints(row):
            try:
                return self._find(row) is not None
            except OverflowError:
                pass  # values that do not fit raise below
        schema = self.schema
        keys = len(schema.key)
        if self._computed and len(row) == len(schema.columns):
            return any(row == record for record in self.prefix(*self._stored_key(row)))
        if len(row) == len(schema.columns):  # a record, in the schema's order
            row = tuple(row[schema.names.index(column.name)] for column in schema.stored)
        elif len(row) != keys:
            raise SchemaError(f"{row!r} is neither a key nor a record of {self.name!r} ({schema})")
        words = self._words_of(row)
        if len(words) == keys:
            return self._find(words) is not None
        values = self._find(words[:keys])
        return values is not None and values[: len(words) - keys] == words[keys:]

    def get(self, keys: Any, default: Any = None) -> Any:
        """Return the values of one key (a tuple, or a plain value): one value, or a tuple of
        several. O(log n).

        For a row of a bag, return how often it is there. Raises SchemaError if the values are not those of a key.
        """
        row = keys if isinstance(keys, tuple) else (keys,)
        if len(row) == self._plain and are_ints(row):
            try:
                values = self._find(row)
            except OverflowError:
                pass  # values that do not fit raise below
            else:
                return default if values is None else _alone(values)
        schema = self.schema
        if len(row) != len(schema.key):
            key = schema.key[: self.enough() if self.enough else None]
            if len(row) == len(key):
                return next((_alone(record[len(row) :]) for record in self.prefix(*row)), default)
            raise SchemaError(
                f"{row!r} is not a key of {self.name!r}; its key is ({', '.join(key)})"
            )
        words = self._find(self._words_of(row))
        if words is None:
            return default
        if self.info.bag:
            return words[0]
        # a host's hidden words come after these
        out: tuple[Any, ...] = words[: len(schema.columns) - len(row)]
        if self._computed:
            record = self._tuples(np.array([*self._words_of(row), *out], np.int64)[:, None])[0]
            out = tuple(
                record[schema.names.index(column.name)] for column in schema.stored[len(row) :]
            )
            return _alone(out)
        if not schema.integer_values or NULL in out:
            columns = schema.stored[len(row) :]
            out = tuple(
                value_of_word(c.type, w, self._source.dictionary)
                for c, w in zip(columns, out, strict=True)
            )
        return _alone(out)

    def _find(self, key: tuple[int, ...]) -> tuple[int, ...] | None:
        """Return the value words for the words of a key; None if it is missing, or out of range."""
        if (self._lo or self._hi) and not self._holds(key):
            return None
        finder = self._source.finder(self.info.name)
        try:
            return finder.find(key)
        except CorruptionError as error:
            raise with_path(error, finder.pages, finder.tree) from None

    def get_many(self, keys: Any) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Look up many keys: return found bool[n] and the value columns by name, 0 or "" where not
        found.

        `keys` is a list of tuples, a list of arrays, one column, or anything with
        `__arrow_c_stream__` and the key's column names. O(n log records), and less where they
        ascend.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     square = txn.create("square", "x: int64, y: int64", key="x")
        ...     square.insert([(x, x * x) for x in range(10)])
        ...     square.get_many([3, 30])
        (array([ True, False]), {'y': array([9, 0])})
        """
        words = np.stack(
            [
                encode(column, values, TextFinder(self._source.dictionary))
                for column, values in zip(
                    self.schema.stored, key_columns(keys, self.schema), strict=False
                )
            ]
        )
        found, values = self._look_up(words)
        if self._lo or self._hi:
            found &= self._inside(words)
        if self._computed:
            return found, self._read_computed(
                np.concatenate([words, values[: len(self.schema.columns) - len(words)]]), found
            )
        out = {}
        for column, column_words in zip(self.schema.stored[len(words) :], values, strict=False):
            if column.type.interned:
                some = to_numpy(column.type, column_words[found], self._source.dictionary)
                out[column.name] = np.full(len(found), _ABSENT[column.type.name], object)
                out[column.name][found] = some
            else:
                out[column.name] = to_numpy(
                    column.type, np.where(found, column_words, 0), self._source.dictionary
                )
        return found, out

    def _look_up(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Look up keys int64[K, n]: return (found bool[n], values int64[V, n])."""
        pages, tree = self.view()
        with naming_path(pages, tree):
            return get(pages, tree, keys, self._source.threads)

    def __getitem__(self, key: Any) -> Any:
        """The values of a key; KeyError if there is none. A slice `relation[lo:hi]` is a range."""
        if isinstance(key, slice):
            lo, hi = (
                b if isinstance(b, tuple) else () if b is None else (b,)
                for b in (key.start, key.stop)
            )
            return self.range(lo, hi)
        missing = object()
        value = self.get(key, missing)
        if value is missing:
            raise KeyError(key)
        return value

    def scan(self, text: str) -> Any:
        """Return the fold of the records: "count", "sum:col", "min:col", "max:col,other",
        "argmax:col,other", ...

        The relation must store the scan, by `create(scans=...)` or `add_scan`; only "concat:col" of
        a string column, which returns a `Rope`, needs none. Without records: 0 for counts, sums and
        checksums, the identity of a registered operator, otherwise None. O(log n). Raises
        SchemaError for an invalid scan, MissingError for one that the relation does not store.
        """
        if isinstance(text, str) and text.startswith("concat:"):
            return Rope(self, concatenated(text, self.schema))
        scan, words, full = self._fold(text)
        return value_of(scan, words, full, self._source.dictionary)

    def _fold(self, text: str) -> tuple[ScanSpec, list[int], bool]:
        """Return a scan of this range, its fold words, and whether there is a record."""
        source, known = self._source, self._ready.get(text)
        tree = source.tree(self.info.name)
        pages = source.pages
        if known is None or known[1].tree is not tree or known[1].pages is not pages:
            scan, rows = self._scan_of(text, tree)
            if rows is None:
                return scan, *fold_read(scan, self.schema, source.dictionary, self._all_words())
            known = self._ready[text] = scan, RangeFold(pages, tree, rows)
        scan, range_fold = known
        stored = self._stored(pages, tree)
        if stored is None:
            return scan, *fold_read(scan, self.schema, source.dictionary, self._all_words())
        return scan, *range_fold.fold(*stored)

    def scan_many(self, text: str, lo: Any = (), hi: Any = ()) -> pa.Array:
        """Return the folds of many intervals lo[i] <= key < hi[i], as an Arrow array; O(log n)
        each.

        Bounds are a list of tuples (keys, or prefixes of one length), a list of arrays, or one
        column; () is unbounded. An interval without records gives 0, an operator's identity or
        null. Raises as `scan` and `range`, and WordError naming the first interval whose sum does
        not fit 64 bits.
        """
        if self.bounded:
            raise SchemaError("scan_many brings its own bounds; call it on the whole relation")
        low, high = self._bounds(lo), self._bounds(hi)
        given = high if low is None else low
        if given is None:
            raise SchemaError("scan_many without bounds has no intervals; use scan")
        if high is not None and high.shape[1] != given.shape[1]:
            raise SchemaError(
                f"{given.shape[1]} lower and {high.shape[1]} upper bounds; scan_many takes them in "
                f"pairs"
            )
        none = np.zeros((0, given.shape[1]), np.int64)
        low, high = none if low is None else low, none if high is None else high
        pages, tree = self.view()
        scan, rows = self._scan_of(text, tree)
        bounded = [place for place in self._texts if place < max(len(low), len(high))]
        if rows is None or any(
            not np.array_equal(low[: place + 1], high[: place + 1]) for place in bounded
        ):
            return self._scan_each(text, lo, hi, given.shape[1])
        folds = fold_many(pages, tree, rows, low, high)
        return values_of(scan, folds.words, folds.full, self._source.dictionary)

    def _scan_each(self, text: str, lo: Any, hi: Any, n: int) -> pa.Array:
        """As `scan_many`, one by one, for intervals that are not contiguous in the tree."""
        bounds = [
            [()] * n if not len(side) else [*zip(*as_columns("bounds", side), strict=True)]
            for side in (lo, hi)
        ]
        folds = [
            self.range(*map(_plain_values, pair))._fold(text) for pair in zip(*bounds, strict=True)
        ]
        words = np.array([words for _, words, _ in folds], np.int64).reshape(n, -1).T
        return values_of(
            folds[0][0], words, np.array([full for _, _, full in folds]), self._source.dictionary
        )

    @property
    def scans(self) -> list[str]:
        """The names of the scans that the relation stores."""
        return scan_names(self.tree.spec.scans, self.schema)

    def rank(self, key: Any) -> int:
        """Return how many of the records are below a key (or a prefix of one), which need not
        exist. O(log n).

        Raises MissingError without a "count" scan. O(records) where the range is not contiguous in
        the tree.
        """
        pages, tree = self.view()
        if not self.info.bag:
            count_rows(tree)
        bound = self._bound(key)
        if self._texts or self.info.bag:
            behind = min((b for b in (bound, self._hi) if b), default=None)
            if behind is None or not bound:
                return 0
            return len(Relation(self._source, self.info, self._lo, behind, self))
        start, stop = _places(pages, tree, *(self._stored(pages, tree) or ((), ())))
        place = int(ranks(pages, tree, np.array(bound, np.int64)[:, None])[0]) if bound else 0
        return min(max(place, start), stop) - start

    def select(self, rank: int) -> tuple[Any, ...]:
        """Return the record with `rank` records before it, or -rank - 1 after it; `relation[key]`
        is by key. O(log n).

        O(records) if their keys differ in texts. Raises IndexError beyond the ends, MissingError
        without a "count" scan.
        """
        pages, tree = self.view()
        if not self.info.bag:
            count_rows(tree)
        stored = self._stored(pages, tree)
        in_tree = stored is not None and self._kept_in_order(pages, tree) and not self.info.bag
        words = np.empty((0, 0), np.int64) if in_tree else self._all_words()
        start, stop = _places(pages, tree, *stored) if stored and in_tree else (0, words.shape[1])
        place = index(rank) + (start if rank >= 0 else stop)
        if not start <= place < stop:
            raise IndexError(f"rank {rank} of {stop - start} records")
        record = select(pages, tree, np.array([place])) if in_tree else words[:, place : place + 1]
        return self._tuples(record)[0]

    def complement(self, part: Relation) -> Iterator[tuple[Any, ...]]:
        """Yield the records whose keys are not in `part`, a subset, in order; O((those + 1) log n)
        by "count" scans.

        `part` is a whole relation of the same store with the same key types. Raises SchemaError for
        others, MissingError without count scans, OrderError if the counts show that it is not a
        subset; `pagestore.trees.compare.subset` makes sure beforehand.
        """
        keys = len(self.schema.key)
        types = [[column.type for column in side.schema.stored[:keys]] for side in (self, part)]
        if types[0] != types[1] or len(part.schema.key) != keys or part.bounded:
            raise SchemaError(
                f"{part.name!r} ({part.schema}) is not a subset of {self.name!r} ({self.schema})"
            )
        pages, tree = self.view()
        missing: Iterable[np.ndarray] = Complement(
            pages, tree, *part.view(), *(self._stored(pages, tree) or ())
        )
        if self._texts:
            all_ = np.concatenate([np.empty((tree.spec.columns, 0), np.int64), *missing], axis=1)
            missing = [self._in_order(all_[:, self._inside(all_)])]
        for words in missing:
            yield from self._tuples(words)

    def stab(self, *point: Any) -> list[tuple[Any, ...]]:
        """Return the records (alpha..., a, b, ...) of an interval relation with a <= x <= b, for a
        point (alpha..., x).

        O((m + 1) log n) for m records. Raises as `stab_many`.
        """
        return self._tuples(self._in_order(overlapping_words(self, [point], 1)))

    def stab_many(self, points: Any) -> pa.RecordBatch:
        """Return the records that any of many points (alpha..., x) stabs, each once, in key order;
        one pass.

        `points` are a list of tuples, a list of arrays, or one column. Raises SchemaError,
        WordError.
        """
        return self.record_batch(
            self._in_order(overlapping_words(self, points, 1))[: len(self.schema.columns)]
        )

    def overlaps(self, *point: Any) -> list[tuple[Any, ...]]:
        """Return the records of an interval relation with a <= hi and lo <= b, for a point
        (alpha..., lo, hi).
        """
        return self._tuples(self._in_order(overlapping_words(self, [point], 2)))

    def _holds(self, key: tuple[int, ...]) -> bool:
        """Return whether the words of a key are in the range."""
        if self._texts:
            return bool(self._inside(np.array(key, np.int64)[:, None])[0])
        return key >= self._lo and (not self._hi or key < self._hi)

    def _scan_of(self, text: str, tree: Tree) -> tuple[ScanSpec, Rows | None]:
        """Return a scan and its place in the tree's folds; None if no tree can store it."""
        scan = parse_scan(text, self.schema)
        if self._computed and self.schema.stored[self._computed.place] in scan.columns:
            raise SchemaError(
                f"{text!r}: the values of {self.name!r} are computed when they are read; fold the "
                f"rows"
            )
        if not scan.carried or self.info.bag:
            return scan, None
        rows = rows_of(tree.spec, scan.rows)
        if rows is None:
            have = ", ".join(scan_names(tree.spec.scans, self.schema)) or "none"
            address_of(scan.rows[0][0])  # raises if even the operator is unknown
            raise MissingError(
                f"{self.name!r} has no scan {text!r}; it has {have}; txn.add_scan adds it, from "
                f"that commit on"
            )
        return scan, rows

    def _bounds(self, values: Any) -> np.ndarray | None:
        """Return words int64[m, n] of many bounds; None for ()."""
        if isinstance(values, tuple) and not values:
            return None
        columns = as_columns("bounds", values)
        if len(columns) > len(self.schema.key):
            raise SchemaError(
                f"bounds of {len(columns)} columns; the key of {self.name!r} has "
                f"{len(self.schema.key)}"
            )
        return looked_up("bounds", self.schema.stored, columns, self._source.dictionary)

    def _repr_html_(self) -> str:
        rows = [*self.range_head(ROWS_SHOWN)]
        head = [(column.name, str(column.type)) for column in self.schema.columns]
        return html_table(self.name, head, rows, len(self) - len(rows))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a relation with its snapshot, without the folds prepared in this process."""
        return Relation, (self._source, self.info, self._lo, self._hi)

    def __repr__(self) -> str:
        bounds = f" from {self._lo} to {self._hi or 'the end'}" if self._lo or self._hi else ""
        return printable(f"<relation {self.name} ({self.schema}){bounds}>")


def _places(pages: Pages, tree: Tree, lo: Words, hi: Words) -> tuple[int, int]:
    """Return the ranks in a whole tree of the first record from `lo` on and the end below `hi`."""
    start = int(ranks(pages, tree, np.array(lo)[:, None])[0]) if lo else 0
    stop = int(ranks(pages, tree, np.array(hi)[:, None])[0]) if hi else tree.count
    return start, max(start, stop)


def _plain_values(bound: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert the numpy and Arrow scalars of a bound to Python values."""
    return tuple(
        v.as_py() if isinstance(v, pa.Scalar) else v.item() if isinstance(v, np.generic) else v
        for v in bound
    )


def overlapping_words(relation: Range, points: Any, ends: int) -> np.ndarray:
    """Return stored words int64[C, m] of the records that any of the points meets, each once, in
    key order.

    A point is (alpha..., x), or with ends=2 (alpha..., lo, hi); points are a list of them, or
    arrays, one a column. Raises SchemaError for a relation without intervals or for points of
    another length, WordError for values of another type.
    """
    schema, intervals = relation.schema, relation.info.intervals
    if intervals is None:
        raise SchemaError(
            f"{relation.name!r} holds no intervals; make it with txn.create_intervals"
        )
    if relation.bounded:
        raise SchemaError("a stab looks at the whole relation; call it there")
    alphas = [column.name for column in schema.stored].index(intervals[0])
    if not len(points):
        return np.empty((len(schema.columns), 0), np.int64)
    columns = as_columns("points", points)
    stored = [*schema.stored[:alphas], *[schema.stored[alphas]] * ends]
    if len(columns) != len(stored):
        names = ", ".join(column.name for column in schema.stored[:alphas])
        point = ", ".join(filter(None, (names, "x" if ends == 1 else "lo, hi")))
        raise SchemaError(
            f"points of {len(columns)} values for {relation.name!r}; a point is ({point})"
        )
    words = looked_up("points", stored, columns, relation.source.dictionary)
    pages, tree = relation.view()
    return overlaps_many(pages, tree, words if ends == 2 else np.concatenate([words, words[-1:]]))


def _alone(values: tuple[Any, ...]) -> Any:
    """Return the value of a row that has one, and all values of another one."""
    return values[0] if len(values) == 1 else values
