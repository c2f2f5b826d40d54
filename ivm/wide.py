"""Views of SQL that are not one relation as it is: of too many columns, or with lists, structs and
intervals.

    v:part1  (key: 1, a: 2, ...)      v:part2  (key: 1, q: 7, ...)          read    (a: 2, ..., q: 7, ...)

If rows may be equal, the last column of each part, which has a name that nothing else has, is the
multiplicity.  Lists, structs and maps are stored as texts, their values as JSON without the
brackets, and intervals as microseconds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ivm.errors import IvmError
from ivm.names import CATALOG, MULTIPLICITY, is_helper, kept_views, wide_names
from pagestore.errors import MissingError, PagestoreError, SchemaError
from pagestore.host import (
    Column,
    Delta,
    EphemeralTransaction,
    Frames,
    Pages,
    Relation,
    Snapshot,
    Transaction,
    Tree,
    Type,
    as_inserted,
    changes_table,
    distinct,
    first_from,
    flags_of,
    numbers_of,
    of_numbers,
    of_texts,
    pages_of_both,
    printable,
    read_batches,
    typed,
    with_nulls,
)

if TYPE_CHECKING:
    import pyarrow as pa

# values for the parameters of a statement of SQL
Parameters = Sequence[Any] | Mapping[str, Any] | None
JSON = {bool: "bool", int: "int64", float: "float64", str: "string"}  # the types of its values
MOMENT = "TIMESTAMP WITH TIME ZONE"  # the type of SQL


class Wide(Frames):
    """The rows of a view whose columns are in several relations, after the same columns that
    identify a row.

    `types` are those of the columns, as SQL names them.
    """

    def __init__(
        self, name: str, relations: list[Relation], keys: int, weighs: bool, types: list[str]
    ) -> None:
        self.name, self.relations, self.keys, self.weighs = name, relations, keys, weighs
        self.types = types

    def __len__(self) -> int:
        first = self.relations[0]
        if self.weighs:
            return int(numbers_of(first.to_arrow().column(MULTIPLICITY), np.int64).sum())
        return len(first)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip(*(column.to_pylist() for column in self.to_arrow().columns), strict=True)

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table. O(rows)."""
        table = side_by_side(
            [relation.to_arrow() for relation in self.relations], self.keys, self.weighs
        )
        return as_shown(repeated(table) if self.weighs else table, self.types)

    @property
    def as_stored(self) -> Wide:
        """The same rows with lists, structs and maps as texts, and intervals as numbers."""
        return Wide(self.name, self.relations, self.keys, self.weighs, [])

    def changes(self, pages: Pages, before: Sequence[Tree]) -> pa.Table:
        """Return how the rows differ from those of older trees of its relations, as `Store.diff`
        does.

        `pages` has those of both.  O(changes log rows).
        """
        import pyarrow as pa

        now = [relation.tree for relation in self.relations]
        size = self.keys or len(self.relations[0].schema.columns) - self.weighs
        keys = _changed_keys(pages, before, now, size)
        old, new = (self._found(pages, trees, keys) for trees in (before, now))
        alike = [
            (a[:end] == b[:end]).all(axis=0)
            for a, b, end in zip(old.words, new.words, self._ends, strict=True)
        ]
        kept = np.minimum(old.counts, new.counts) * np.logical_and.reduce(alike)
        erased, inserted = (
            np.repeat(np.arange(len(kept)), side.counts - kept) for side in (old, new)
        )
        rows = pa.concat_tables([self._shown(old.words, erased), self._shown(new.words, inserted)])
        kinds = of_texts(["delete"] * len(erased) + ["insert"] * len(inserted))
        rows = rows.append_column(pa.field("_change_type", pa.string(), nullable=False), kinds)
        order = np.argsort(np.concatenate([erased, inserted]), kind="stable")
        return rows.take(of_numbers(pa.int64(), order))

    @property
    def _ends(self) -> list[int]:
        """For each relation, how many of its columns are before the multiplicity."""
        return [len(relation.schema.columns) - self.weighs for relation in self.relations]

    def _found(self, pages: Pages, trees: Sequence[Tree], keys: np.ndarray) -> _Found:
        """Return the rows with keys int64[K, n] in a version of the relations."""
        words, counts = list[np.ndarray](), np.ones(keys.shape[1], np.int64)
        for tree, end in zip(trees, self._ends, strict=True):
            found, records = first_from(pages, tree, keys)
            counts[~(found & (records[: len(keys)] == keys).all(axis=0))] = 0
            words.append(records[: end + self.weighs])
        return _Found(words, counts * words[0][-1] if self.weighs else counts)

    def _shown(self, words: Sequence[np.ndarray], places: np.ndarray) -> pa.Table:
        import pyarrow as pa

        tables = [
            pa.Table.from_batches(relation.record_batches(part[:, places]), relation.schema.arrow)
            for relation, part in zip(self.relations, words, strict=True)
        ]
        table = side_by_side(tables, self.keys, self.weighs)
        return as_shown(table.drop_columns([MULTIPLICITY]) if self.weighs else table, self.types)

    def __repr__(self) -> str:
        return printable(f"<view {self.name}: {len(self)} rows in {len(self.relations)} relations>")


class _Found(NamedTuple):
    """Rows by their keys: for each relation words int64[columns, n], and how often a row occurs,
    0 for none.
    """

    words: list[np.ndarray]
    counts: np.ndarray


def _changed_keys(
    pages: Pages, before: Sequence[Tree], now: Sequence[Tree], size: int
) -> np.ndarray:
    """Return the keys int64[size, n] of all records that differ, sorted; of views that were
    replaced all keys.
    """
    parts = [np.empty((size, 0), np.int64)]
    for old, new in zip(before, now, strict=True):
        if old.spec.columns == new.spec.columns:
            parts += [words[:size] for _, words in Delta(pages, old, new)]
        else:
            parts += [
                words
                for tree in (old, new)
                for words in read_batches(pages, tree, columns=tuple(range(size)))
            ]
    return distinct(np.concatenate(parts, axis=1))


def side_by_side(tables: list[pa.Table], keys: int, weighs: bool) -> pa.Table:
    """Return the columns of tables of the same rows, in the order of their first `keys` columns,
    without these.

    If they `weigh`, the last column of each is how often a row occurs, and so is that of the
    result.
    """
    last = [table.num_columns - weighs for table in tables]
    joined = tables[0].select(list(range(keys, last[0])))
    for table, end in zip(tables[1:], last[1:], strict=True):
        for place in range(keys, end):
            joined = joined.append_column(table.field(place), table.column(place))
    return joined.append_column(MULTIPLICITY, tables[0].column(last[0])) if weighs else joined


def read(source: Any, name: str) -> Any:
    """Return a snapshot's relation, or a view that is in several; None if there is none."""
    if name in source:
        relation = source[name]
        relation.enough = lambda: kept_views(source).get(name, {}).get("leading") or None
        return relation
    kept = kept_views(source).get(name, {})
    if not kept.get("wide"):
        return None
    types = [type_ for _, type_, _ in kept["columns"]]
    return Wide(name, [source[part] for part in kept["wide"]], kept["keys"], kept["weighs"], types)


def forget(txn: Any, name: str) -> None:
    """Remove a view from those that SQL lists, if it is one of them."""
    saved = json.loads(txn.properties.get(CATALOG) or "{}")
    if saved.get("kept", {}).pop(name, None) is not None:
        txn.properties[CATALOG] = json.dumps(saved)


def changes(old: Snapshot, new: Snapshot, name: str, as_stored: bool = False) -> pa.Table | None:
    """Return how a relation or view differs in a newer version, as `Store.diff` does; None if it is
    in neither.

    All its rows, if the older one does not have it.  Raises MissingError, SchemaError.
    """
    before, after = read(old, name), read(new, name)
    if before is None and after is None:
        return None
    if not isinstance(before, Wide) and not isinstance(after, Wide):
        return changes_table(old, new, name)
    if after is None:
        raise MissingError(f"there is no view {name!r} in version {new.version}")
    if before is None:
        return as_inserted((after.as_stored if as_stored else after).to_arrow())
    if not (isinstance(before, Wide) and isinstance(after, Wide)) or _form(before) != _form(after):
        raise SchemaError(
            f"{name!r} was made anew between version {old.version} and version {new.version}; "
            "read both versions instead"
        )
    if new.version < old.version:  # which has all texts
        return _turned(changes(new, old, name, as_stored))
    after = after.as_stored if as_stored else after
    return after.changes(pages_of_both(old, new), [relation.tree for relation in before.relations])


def _turned(table: pa.Table | None) -> pa.Table | None:
    """Return changes as those from the newer version to the older one."""

    if table is None:
        return None
    kinds = [
        "insert" if kind == "delete" else "delete"
        for kind in table.column("_change_type").to_pylist()
    ]
    return table.set_column(table.num_columns - 1, table.field("_change_type"), of_texts(kinds))


def _form(wide: Wide) -> list[Any]:
    return [wide.types, wide.keys, wide.weighs, *(relation.schema for relation in wide.relations)]


def changed_in(txn: Transaction, name: str) -> pa.Table | None:
    """Return what a transaction has changed in a view of several relations; None if it is none,
    or was made anew.
    """
    wide = read(txn, name)
    if not isinstance(wide, Wide):
        return None
    before = [txn.base.catalog.relations.get(relation.name) for relation in wide.relations]
    trees = [txn.base.trees[info.spec.tree_id] for info in before if info]
    alike = [info and info.schema for info in before] == [
        relation.schema for relation in wide.relations
    ]
    return wide.changes(txn.pages, trees) if alike else None


def with_wide(sketch: EphemeralTransaction, changes: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Return what was changed, without helpers, and with views that are in several relations; of
    views made anew all rows.
    """
    kept = kept_views(sketch)
    changes_shown = {name: table for name, table in changes.items() if not is_helper(name, kept)}
    for name in wide_names(sketch):
        table = changed_in(sketch, name)
        changes_shown[name] = as_inserted(read(sketch, name).to_arrow()) if table is None else table
    return {name: table for name, table in changes_shown.items() if table.num_rows}


def statement_of(text: str) -> str | None:
    """Return the statement of SQL that the text of a block was made of; None if its author wrote
    rules.

    >>> statement_of('// "SELECT 1"\\nq(x) <- x = 1.'), statement_of("q(x) <- x = 1.")
    ('SELECT 1', None)
    """
    first = text.partition("\n")[0]
    return str(json.loads(first.removeprefix("// "))) if first.startswith('// "') else None


def is_encoded(type_: str) -> bool:
    """Return whether columns of a type of SQL are stored as something else: lists, structs, maps
    and intervals.
    """
    return type_ == "INTERVAL" or _is_nested(type_)


def _is_nested(type_: str) -> bool:
    return type_.endswith("[]") or type_.startswith(("STRUCT(", "TUPLE(", "MAP("))


UNREAD = ValueError, LookupError, TypeError  # of a text that is not the JSON of a list
TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|.", re.DOTALL)


def members(type_: str) -> list[tuple[str, str]]:
    """Return the names and types of the fields of a STRUCT, those of a TUPLE or a MAP, or the words
    of an ENUM.

    >>> members('STRUCT(a INTEGER, "b c" DECIMAL(8,2)[])'), members("MAP(VARCHAR, INTEGER)")
    ([('a', 'INTEGER'), ('b c', 'DECIMAL(8,2)[]')], [('', 'VARCHAR'), ('', 'INTEGER')])
    """
    kind, _, inner = type_.partition("(")
    parts, depth = [list[str]()], 0
    for token in TOKEN.findall(inner[:-1]):
        depth += (token == "(") - (token == ")")
        if token == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    if kind != "STRUCT":
        return [("", "".join(part).strip()) for part in parts]
    fields = []
    for part in parts:
        tokens = TOKEN.findall("".join(part).strip())
        if tokens[0].startswith('"'):
            fields.append((tokens[0][1:-1].replace('""', '"'), "".join(tokens[1:]).strip()))
        else:
            name, _, field_type = "".join(tokens).partition(" ")
            fields.append((name, field_type))
    return fields


def as_shown(table: pa.Table, types: Sequence[str]) -> pa.Table:
    """Return rows with the lists, structs, maps and intervals of columns, moments with UTC
    as zone, and constants of bytes.  O(rows).
    """
    import pyarrow as pa

    for place, type_ in enumerate(types):
        if is_encoded(type_):
            shown = _nested if _is_nested(type_) else _intervals
            table = table.set_column(
                place, table.field(place).name, shown(table.column(place), type_)
            )
        elif (
            plain := {MOMENT: pa.timestamp("us"), "BLOB": pa.string()}.get(type_)
        ) and plain == table.schema.types[place]:  # a constant: rules have no such ones
            kind = pa.timestamp("us", "UTC") if type_ == MOMENT else pa.binary()
            column = table.column(place).cast(kind)
            table = table.set_column(place, table.field(place).name, column)
    return table


def _nested(column: pa.ChunkedArray, type_: str) -> pa.Array:
    """Return the values of a column of texts, which are JSON without the brackets around it.

    Raises IvmError for a text that is none, as edits that are not SQL's can write it.
    """
    texts = column.to_pylist()
    try:
        return _read(texts, type_)
    except PagestoreError:  # a value beyond its type, in a list that SQL wrote
        raise
    except UNREAD:
        for text in texts:
            try:
                _read([text], type_)
            except UNREAD:
                raise IvmError(
                    f"the text {text!r} is no {type_}, and was not written by SQL: set it right "
                    "by an UPDATE, and write such a column by SQL"
                ) from None
        raise


def _read(texts: Sequence[str | None], type_: str) -> pa.Array:
    values = json.loads(f"[{','.join(f'[{text or str()}]' for text in texts)}]", strict=False)
    return _array(
        [None if text is None else value for text, value in zip(texts, values, strict=True)], type_
    )


def _ends(values: list[Any]) -> np.ndarray:
    """Return where each of several lists ends, all one after the other, int32[n + 1] from 0."""
    return np.cumsum([0, *(len(value or ()) for value in values)], dtype=np.int32)


def _plain(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values of JSON that are neither lists nor objects as an array of a type."""
    import pyarrow as pa

    kinds = {*map(type, values)} - {type(None)}
    if not kinds:
        return pa.nulls(len(values), kind)
    if pa.types.is_time(kind):
        return pa.array(
            [None if value is None else time.fromisoformat(value) for value in values], kind
        )
    name = "float64" if float in kinds or pa.types.is_floating(kind) else JSON[kinds.pop()]
    if pa.types.is_uint64(kind):
        name = "uint64"
    array = typed(Column("value", Type(name, nullable=True)), values)
    if pa.types.is_timestamp(kind) and kind.tz:  # in lists, moments have no zone written
        array = array.cast(pa.timestamp("us"))
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        if name == "string":
            raise
        raise IvmError(
            f"a list, struct or map has a number beyond its type, {kind}: CAST it AS BIGINT"
        ) from None


def _array(values: list[Any], type_: str) -> pa.Array:
    """Return values, as JSON has them, as an array of a type of SQL.  O(values)."""
    import pyarrow as pa

    if not _is_nested(type_):
        return _plain(values, _element(type_))
    missing = of_numbers(pa.bool_(), np.array([value is None for value in values], bool))
    if type_.endswith("[]"):
        offsets = of_numbers(pa.int32(), _ends(values))
        flat = [inner for value in values for inner in value or ()]
        return pa.ListArray.from_arrays(
            offsets, _array(flat, type_.removesuffix("[]")), mask=missing
        )
    kinds = members(type_)
    if type_.startswith("MAP("):
        pairs = [pair for value in values for pair in value or ()]
        if any(key is None for key, _ in pairs):
            raise IvmError(
                "a key of a map is null, which no map has: leave its row out, or write "
                "coalesce(key, ...)"
            )
        there = np.array([*(value is not None for value in values), True])
        offsets = with_nulls(of_numbers(pa.int32(), _ends(values)[there]), there)
        return pa.MapArray.from_arrays(
            offsets, *(_array([pair[n] for pair in pairs], kinds[n][1]) for n in (0, 1))
        )
    fields = [
        _array([None if value is None else value[n] for value in values], kind)
        for n, (_, kind) in enumerate(kinds)
    ]
    names = [name or f"element{n + 1}" for n, (name, _) in enumerate(kinds)]
    return pa.StructArray.from_arrays(fields, names, mask=missing)


def _element(type_: str) -> pa.DataType:
    import pyarrow as pa

    if type_.startswith("DECIMAL("):
        precision, scale = map(int, type_[8:-1].split(","))
        return pa.decimal128(precision, scale)
    if type_.startswith("ENUM("):
        return pa.string()
    named = {"VARCHAR": pa.string(), "UUID": pa.string(), "JSON": pa.string(),
        "BOOLEAN": pa.bool_(),
             "DATE": pa.date32(), "DOUBLE": pa.float64(), "FLOAT": pa.float32(),
             "TIMESTAMP": pa.timestamp("us"), MOMENT: pa.timestamp("us", "UTC"),
             "INTEGER": pa.int32(), "TIME": pa.time64("us")}  # fmt: skip
    return named.get(type_, pa.int64())


def _intervals(column: pa.ChunkedArray, _: str) -> pa.Array:
    """Return intervals of whole days and a rest, as the difference of two timestamps has them."""
    import pyarrow as pa

    days, day = column.combine_chunks(), 86_400_000_000
    there = flags_of(days.is_valid())
    micros = numbers_of(days, np.int64) * there
    rows = np.zeros(len(micros), [("months", "i4"), ("days", "i4"), ("nanoseconds", "i8")])
    rows["days"] = np.fix(micros / day)
    rows["nanoseconds"] = (micros - rows["days"] * np.int64(day)) * 1000
    bits = np.packbits(there, bitorder="little")
    buffers = [pa.py_buffer(bits), pa.py_buffer(rows)]
    return pa.Array.from_buffers(pa.month_day_nano_interval(), len(micros), buffers)


def repeated(table: pa.Table) -> pa.Table:
    """Return rows as often as their last column says, without it."""
    import pyarrow as pa

    counts = numbers_of(table.column(table.num_columns - 1), np.int64)
    places = np.repeat(np.arange(table.num_rows), counts)
    return table.select(list(range(table.num_columns - 1))).take(of_numbers(pa.int64(), places))
