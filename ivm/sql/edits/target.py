"""The table that a statement edits: what it has, and rows that are added, replaced and removed
in a transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from ivm.sql.answers import answer
from ivm.sql.catalog import Catalog
from ivm.sql.conversions import convert
from ivm.sql.dialects.read import DIALECT
from ivm.sql.edits.literals import Row, rows_of
from ivm.sql.errors import DuplicateError, SqlError, counted, nearest
from ivm.sql.functions.dialects import converts, given
from ivm.sql.literals import NoValueError, constant, converted, literal
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder, Column
from ivm.sql.session import Reader
from ivm.sql.tables import ALWAYS, default_node, default_value, is_lasting
from ivm.sql.terms import Lit, Typed, originated
from ivm.sql.types import BIGINT, BLOB, JSON, NULL, VARCHAR

if TYPE_CHECKING:
    from ivm.transaction import Transaction

INSERTED, UPDATED, DELETED = "INSERT", "UPDATE", "DELETE"
Places = tuple[int, ...]
Pair = tuple[Row, Row]


class Receiver:
    """A table that rows of queries are for, which may not exist yet: its name and `columns`."""

    def __init__(
        self,
        reader: Reader,
        catalog: Catalog,
        name: str,
        columns: list[Column],
        with_: exp.Expr | None = None,
    ) -> None:
        """`with_` is the WITH before the statement."""
        self.reader, self.catalog, self._with = reader, catalog, with_
        self.name, self.columns, self.dialect = name, columns, "duckdb"

    def rows(self, query: exp.Expr, types: Sequence[Column | None]) -> list[Row]:
        """Return the rows of a query, in its order if any, its columns converted to those given."""
        builder, query = Builder("sql"), self._with_names(query)
        queries = Queries(builder, self.catalog.schema())
        asked = queries.query(query, None, top=True)
        if len(asked.columns) != len(types):
            raise self.misfit(len(asked.columns), len(types), query)
        columns = []
        for (name, value), column in zip(asked.columns, types, strict=True):
            value = value._replace(nullable=builder.may_be_null(asked.body, value))
            if column is not None:
                value = self._of_column(value, column, builder, query)
            # as it is stored
            columns.append((name, value._replace(type=VARCHAR) if value.type.is_nested else value))
        names = [f"c{n}" for n in range(len(columns))]
        rows = asked._replace(columns=list(zip(names, (v for _, v in columns), strict=True)))
        table = answer(queries, rows, self.reader.ask).to_arrow()
        for place, column in enumerate(types):  # a BLOB that is computed is a text of its bytes
            if (
                column is not None
                and column.type == BLOB
                and pa.types.is_string(table.schema.field(place).type)
            ):
                table = table.set_column(place, names[place], table.column(place).cast(pa.binary()))
        return rows_of(table)

    def _of_column(self, value: Typed, column: Column, builder: Builder, query: exp.Expr) -> Typed:
        """Return a value as one of a column; `checked` looks at the range of whole numbers."""
        ranged = column.type.is_integer and column.type.range and not isinstance(value.term, Lit)
        type_ = BIGINT if ranged else column.type
        value = given(value, column.type, self.dialect, query)
        with self._naming(column, query):
            typed = convert(value, type_, query, tried=False if type_ == JSON else None)
        origin = exp.column(column.name)
        origin.meta["written"] = f"what is given for {self.name}.{column.name} ({column.type})"
        return typed._replace(term=originated(typed.term, origin))

    def _with_names(self, query: exp.Expr) -> exp.Expr:
        """Return a query that also knows the WITH before the statement."""
        if self._with is None:
            return query
        query, with_ = query.copy(), self._with.copy()
        inner = query.args.get("with_")
        with_.set(
            "expressions", [*with_.expressions, *(inner.expressions if inner is not None else ())]
        )
        query.set("with_", with_)
        return query

    def checked(self, rows: list[Row], node: exp.Expr) -> list[Row]:
        """Return rows.  Raises SqlError for a null where none may be, and for a whole number
        beyond the range of its column.
        """
        for place, column in enumerate(self.columns):
            if not column.nullable and any(row[place] is None for row in rows):
                raise SqlError(
                    f"{self.name}.{column.name} is NOT NULL, and a row has no value for it", node
                )
            if column.type.is_integer and column.type.range:
                least, most = map(int, column.type.range)
                for row in rows:
                    if row[place] is not None and not least <= row[place] <= most:
                        raise SqlError(
                            f"{self.name}.{column.name} is {column.type}, {least} to {most}: "
                            f"{row[place]} does not fit",
                            node,
                        )
        return rows

    @contextmanager
    def _naming(self, column: Column, node: exp.Expr) -> Iterator[None]:
        """Let the error of a constant that has no value in a column name this."""
        try:
            yield
        except NoValueError as error:
            raise NoValueError(f"{self.name}.{column.name}: {error.reason}", node) from None

    def misfit(self, values: int, columns: int, node: exp.Expr) -> SqlError:
        """Return the error of more or fewer values than columns."""
        return SqlError(
            f"{counted(values, 'value')} for {counted(columns, 'column')} of {self.name}", node
        )


class Target(Receiver):
    """A table, its `columns`, and its `keys`: the columns of each PRIMARY KEY and UNIQUE, by their
    positions.

    `key` has the positions of the primary key; a `bag` has none.  `changed` are the rows that
    RETURNING is about, by what was done: the new ones, or those that were deleted.
    """

    def __init__(
        self, txn: Transaction, reader: Reader, catalog: Catalog, table: exp.Expr, node: exp.Expr
    ) -> None:
        """`table` is edited by the statement `node`."""
        own, with_ = _found(catalog, table), node.args.get("with_") or node.args.get("with")
        super().__init__(reader, catalog, own, catalog.columns(own), with_)
        self.txn, self.bag = txn, catalog.weighs(own)
        self.dialect = node.meta.get(DIALECT, "duckdb")
        self.names = [c.name for c in self.columns]
        schema = catalog.source[own].info.schema
        # in its own order; of all columns in theirs, as the relation takes whole rows
        key = tuple(self.names.index(name) for name in schema.key)
        self.key: Places = (
            () if self.bag else (*sorted(key),) if len(key) == len(self.names) else key
        )
        unique = [
            tuple(sorted(map(self.names.index, names))) for names in catalog.unique_names(own)
        ]
        self.keys: list[Places] = [
            *dict.fromkeys([*[tuple(sorted(self.key))] * bool(self.key), *unique])
        ]
        self.changed: dict[str, list[Row]] = {INSERTED: [], UPDATED: [], DELETED: []}
        self._moment = datetime.now(UTC)
        self._numbers: dict[int, int] = {}  # the last that were given, by positions of columns
        self.alias, self._table = table.alias or table.name, table

    # -- what statements name

    def known(self, name: str, node: exp.Expr) -> int:
        """Return the position of a column.  Raises SqlError with the nearest name."""
        for place, column in enumerate(self.names):
            if column.lower() == name.lower():
                return place
        raise SqlError(f"{self.name} has no column {name}{nearest(name, self.names)}", node)

    def places(self, names: Sequence[exp.Expr], node: exp.Expr) -> list[int]:
        """Return the positions of a list of columns, all of them if it is empty.  Raises
        SqlError for a repetition.
        """
        places = [self.known(name.name, node) for name in names] or [*range(len(self.columns))]
        self._refuse_twice(places, node)
        return places

    def assignments(self, nodes: Sequence[exp.Expr]) -> dict[int, exp.Expr]:
        """Return what SET assigns, by positions of columns; a list has as many values."""
        assigned: list[tuple[int, exp.Expr]] = []
        for node in nodes:
            if not isinstance(node, exp.EQ):
                raise SqlError(f"SET {node.sql(dialect='duckdb')}: write SET column = value", node)
            columns, values = [node.this], [node.expression]
            if isinstance(node.this, exp.Tuple | exp.Paren):
                columns, values = _items(node.this), _items(node.expression)
                if len(columns) != len(values):
                    raise SqlError(
                        f"{counted(len(values), 'value')} for {counted(len(columns), 'column')}: a "
                        "subquery gives one value, so write one for each column",
                        node,
                    )
            for column, value in zip(columns, values, strict=True):
                if column.text("table") not in ("", self.alias):
                    raise SqlError(
                        f"SET changes columns of {self.alias}, not of {column.text('table')}",
                        column,
                    )
                place = self.known(column.name, column)
                assigned.append((place, self.assigned(value, place)))
        self._refuse_twice([place for place, _ in assigned], nodes[0])
        return dict(assigned)

    def _refuse_twice(self, places: Sequence[int], node: exp.Expr) -> None:
        if twice := [place for place, times in Counter(places).items() if times > 1]:
            raise SqlError(f"column {self.names[twice[0]]} is named twice", node)

    def assigned(self, node: exp.Expr, place: int) -> exp.Expr:
        """Return the value that a column gets; a constant of DEFAULT is a literal."""
        if not is_default(node):
            return node.copy()
        computed = self._computed(place)
        return literal(self.default(place, node)) if computed is None else computed

    def default(self, place: int, node: exp.Expr) -> Any:
        """Return the value of a column that is not named."""
        saved = self._saved(place)
        if saved and saved.get("identity"):
            return self._next_number(place)
        if (computed := self._computed(place)) is not None:
            return self.rows(exp.select(computed), [self.columns[place]])[0][0]
        text = saved["default"] if saved else None
        return default_value(text, self.columns[place].type, node, self._moment)

    def has_lasting_default(self, place: int) -> bool:
        """Return whether a column that is not named gets the same value in each row."""
        saved = self._saved(place) or {}
        return not saved.get("identity") and (
            not saved.get("default") or is_lasting(saved["default"])
        )

    def _computed(self, place: int) -> exp.Expr | None:
        """Return the expression of a DEFAULT that has to be computed; None for a constant."""
        saved = self._saved(place)
        if not saved or not saved["default"]:
            return None
        default = default_node(saved["default"], self._moment)
        computed = constant(default) is None or self.columns[place].type.is_nested
        return default if computed else None

    def _saved(self, place: int) -> dict[str, Any] | None:
        """Return what CREATE TABLE said of a column."""
        saved = self.catalog.tables.get(self.name, {}).get("columns", ())
        return next((c for c in saved if c["name"] == self.names[place]), None)

    def _next_number(self, place: int) -> int:
        """Return one more than the greatest number of a column; O(rows) unless it begins the key."""
        if place not in self._numbers:
            if self.key[:1] == (place,):
                with self.reader.relation(self.name) as relation:
                    last = relation.last()
                    most = last and last[place]
            else:
                column = exp.column(self.names[place], quoted=True)
                query = exp.select(exp.Max(this=column)).from_(exp.to_table(self.name, quoted=True))
                ((most,),) = self.rows(query, [self.columns[place]])
            self._numbers[place] = max(most or 0, 0)
        self._numbers[place] += 1
        return self._numbers[place]

    def refuse_numbers(self, places: Sequence[int], node: exp.Expr) -> None:
        """Raise SqlError if a statement gives values to a column that always gets numbers."""
        for place in places:
            if (saved := self._saved(place)) and saved.get("identity") == ALWAYS:
                raise SqlError(
                    f"{self.name}.{self.names[place]} is GENERATED ALWAYS: leave it out, or write "
                    "DEFAULT",
                    node,
                )

    def whole(self, row: Row, places: Sequence[int], node: exp.Expr) -> Row:
        """Return a row with the defaults of the columns that it does not give."""
        given = dict(zip(places, row, strict=True))
        return tuple(
            given[n] if n in given else self.default(n, node) for n in range(len(self.columns))
        )

    def takes(self, value: Typed, column: Column) -> bool:
        """Return whether a constant is one of a column as it is in DuckDB."""
        nested = column.type.is_nested and value.type != NULL
        return not nested and (self.dialect == "duckdb" or not converts(value, column.type))

    def constant(self, value: Typed, place: int, node: exp.Expr) -> Any:
        """Return the value of a constant in a column.  Raises SqlError if it has none there."""
        with self._naming(self.columns[place], node):
            literal = converted(value, self.columns[place].type, node).term
        assert isinstance(literal, Lit)
        return literal.value

    # -- queries

    def names_of(self, query: exp.Expr) -> list[str]:
        """Return the names of a query's columns."""
        rows = Queries(Builder("sql"), self.catalog.schema()).query(self._with_names(query))
        return [name for name, _ in rows.columns]

    def key_names(self) -> list[str]:
        """Return the names of the columns that tell rows apart."""
        return [self.names[place] for place in self.key] or self.names

    def own_columns(self) -> list[exp.Expr]:
        """Return the columns that tell rows apart, for a SELECT."""
        return [exp.column(name, self.alias, quoted=True) for name in self.key_names()]

    def table(self) -> exp.Expr:
        """Return the table as the statement names it, for a FROM."""
        return self._table.copy()

    def pairs(self, query: exp.Select, assigned: dict[int, exp.Expr]) -> list[Pair]:
        """Return whole rows before and after, one pair for each row of a query of this table."""
        columns = self.own_columns()
        query = query.select(*columns, *assigned.values(), append=False)
        rows = self.rows(query, [*(None for _ in columns), *(self.columns[p] for p in assigned)])
        there = {} if self.bag else self.existing([row[: len(columns)] for row in rows])
        pairs = []
        for row in rows:
            old = row[: len(columns)] if self.bag else there[row[: len(columns)]]
            new = [*old]
            for place, value in zip(assigned, row[len(columns) :], strict=True):
                new[place] = value
            pairs.append((old, tuple(new)))
        return pairs

    # -- rows that exist

    def key_of(self, row: Row) -> Row:
        """Return the values of the primary key of a row."""
        return tuple(row[place] for place in self.key)

    def existing(self, keys: list[Row]) -> dict[Row, Row]:
        """Return the rows that exist of some primary keys."""
        stored: dict[Row, Row] = {}
        with self.reader.relation(self.name) as relation:
            for key in dict.fromkeys(keys):
                rows = (
                    list(relation.prefix(*key))
                    if len(self.key) < len(self.names)
                    else [key] * (key in relation)
                )
                for row in rows:
                    stored[self.key_of(row)] = tuple(row)
        return stored

    def counts(self, rows: Collection[Row]) -> Counter[Row]:
        """Return how often some rows occur in a bag."""
        counts: Counter[Row] = Counter()
        with self.reader.relation(self.name) as relation:
            for row in dict.fromkeys(rows):
                counts[row] = relation.get(row if len(row) > 1 else row[0]) or 0
        return counts

    def met(self, key: Places, rows: list[Row]) -> list[bool]:
        """Return for each row whether the table has one with the same values of a key.

        O(rows * height) for the primary key, else O(rows + rows of the table).
        """
        if set(key) == set(self.key):
            there = self.existing([self.key_of(row) for row in rows])
            return [self.key_of(row) in there for row in rows]
        with self.reader.relation(self.name) as relation:
            schema = relation.schema
            given = relation.encode(
                [row for row in rows if None not in row_at(row, key)], add=False
            )
            places = [schema.places[schema.names.index(self.names[place])] for place in key]
            sought = {*_tuples(given[places])}
            held = {
                key
                for words in relation.words(tuple(places))
                for key in _tuples(words)
                if key in sought
            }
            keys = iter(_tuples(given[places]))
            return [None not in row_at(row, key) and next(keys) in held for row in rows]

    # -- edits

    def add(self, rows: list[Row], node: exp.Expr) -> int:
        """Add rows; return how many.  Raises SqlError for a null, or a primary key that exists."""
        self.checked(rows, node)
        if self.bag:
            self.txn.insert(self.name, rows)
        else:
            there, keys = (
                self.existing([self.key_of(row) for row in rows]),
                Counter(map(self.key_of, rows)),
            )
            for key, times in keys.items():
                if key in there or times > 1:
                    shown = ", ".join(
                        f"{self.names[p]} = {v!r}" for p, v in zip(self.key, key, strict=True)
                    )
                    has = "has a row with" if key in there else "would have two rows with"
                    already = " already" * (key in there)
                    raise DuplicateError(
                        f"{self.name} {has} {shown}{already}: INSERT ... ON CONFLICT DO NOTHING, "
                        f"or UPDATE it",
                        node,
                    )
            self.txn.set(self.name, rows)
        self.changed[INSERTED] += rows
        return len(rows)

    def add_table(self, table: pa.Table, node: exp.Expr) -> int:
        """Add the rows of an Arrow table, which has all columns, as `add` does; return how many.

        Only if one of them is refused, an error needs them as objects of Python.
        """
        if not self._may_add(table):
            return self.add(rows_of(table), node)
        (self.txn.insert if self.bag else self.txn.set)(self.name, table)
        return int(table.num_rows)

    def _may_add(self, table: pa.Table) -> bool:
        """Return whether `add` surely refuses no row of an Arrow table."""
        import pyarrow.compute as pc

        for column, values in zip(self.columns, table.columns, strict=True):
            if not column.nullable and values.null_count:
                return False
            if column.type.is_integer and column.type.range:
                (least, most), ends = map(int, column.type.range), pc.min_max(values).as_py()
                if ends["min"] is not None and not least <= ends["min"] <= ends["max"] <= most:
                    return False
        if self.bag:
            return True
        keys = table.select(self.key)
        if any(pa.types.is_floating(column.type) for column in keys.columns):  # -0.0 is 0.0
            return False
        if keys.group_by(keys.column_names).aggregate([]).num_rows < table.num_rows:
            return False
        with self.reader.relation(self.name) as relation:
            given = [keys.column(name) for name in relation.schema.key]
            return not len(relation) or not relation.get_many(given)[0].any()

    def remove(self, rows: list[Row], whole: bool = False) -> int:
        """Remove the rows that their key's columns, or all columns, name; return how many."""
        unique = [*dict.fromkeys(rows)]
        counts = self.counts(unique) if self.bag else Counter(unique)
        if whole or self.bag:
            self.changed[DELETED] += counts.elements()
        if unique:
            self.txn.delete(
                self.name,
                [*map(self.key_of, unique)] if whole and self.key else unique,
                every=self.bag,
            )
        return counts.total()

    def clear(self) -> int:
        """Remove all rows; return how many."""
        listed = self.own_columns()
        return self.remove(self.rows(exp.select(*listed).from_(self.table()), [None] * len(listed)))

    def replace(self, pairs: list[Pair], node: exp.Expr) -> int:
        """Replace rows by others; return how many.

        Raises SqlError for a null, for two rows in place of one, and for a primary key that exists.
        """
        news: dict[Row, Row] = {}
        for old, new in pairs:
            if news.setdefault(old, new) != new:
                raise SqlError(
                    f"several rows match one row of {self.name}, so that its new values are "
                    f"ambiguous",
                    node,
                )
        self.checked([*news.values()], node)
        if self.bag:
            counts = self.counts([*news])
            changed = [new for old, new in news.items() for _ in range(counts[old])]
            self.txn.delete(self.name, [*news], every=True)
            self.txn.insert(self.name, changed)
        else:
            changed = [*news.values()]
            self._replace_by_key({self.key_of(old): new for old, new in news.items()}, node)
        self.changed[UPDATED] += changed
        return len(changed)

    def _replace_by_key(self, olds: dict[Row, Row], node: exp.Expr) -> None:
        news = {self.key_of(new): new for new in olds.values()}
        if len(news) < len(olds):
            raise DuplicateError(f"two rows of {self.name} would have one key", node)
        moved = [key for key in olds if key not in news]
        entered = [key for key in news if key not in olds]
        if entered and (there := self.existing(entered)):
            key = next(iter(there))
            raise DuplicateError(f"{self.name} has a row with the key {key} already", node)
        if moved:
            self.txn.delete(self.name, moved)
        self.txn.set(self.name, [*news.values()])


def is_default(node: exp.Expr) -> bool:
    """Return whether a value is the word DEFAULT."""
    return (
        isinstance(node, exp.Var | exp.Column)
        and node.name.upper() == "DEFAULT"
        and not node.text("table")
    )


def row_at(row: Row, places: Places) -> Row:
    """Return some values of a row."""
    return tuple(row[place] for place in places)


def _items(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [node.unnest()]


def _tuples(words: Any) -> Iterator[Row]:
    return zip(*words.tolist(), strict=True)


def _found(catalog: Catalog, table: exp.Expr) -> str:
    """Return the table's name as it is stored. Raises SqlError if there is none, or a view."""
    stored = catalog.find(table.name)
    if stored is None and catalog.view(table.name) is None:
        raise SqlError(f"no table {table.name} exists{nearest(table.name, catalog.names())}", table)
    if stored is None or catalog.is_derived(stored):
        raise SqlError(f"{stored or table.name} is a view: edit the tables that it reads", table)
    return stored
