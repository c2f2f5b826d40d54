"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE in a transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ivm.sql.answers import answer
from ivm.sql.catalog import Catalog
from ivm.sql.conversions import convert
from ivm.sql.errors import SqlError, counted, nearest
from ivm.sql.literals import constant, converted
from ivm.sql.queries.clauses import Rows
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder, Column
from ivm.sql.session import Reader
from ivm.sql.tables import default_value
from ivm.sql.terms import Lit
from ivm.sql.types import VARCHAR

if TYPE_CHECKING:
    import pyarrow as pa

    from ivm.transaction import Transaction

Row = tuple[Any, ...]


class Edits:
    """The edits of one statement over a table."""

    def __init__(self, txn: Transaction, reader: Reader, catalog: Catalog, table: exp.Expr) -> None:
        self.txn, self.reader, self.catalog = txn, reader, catalog
        name = table.name
        own = catalog.find(name)
        if own is None:
            if catalog.view(name) is not None:
                raise SqlError(f"{name} is a view: edit the tables that it reads", table)
            raise SqlError(f"no table {name} exists{nearest(name, catalog.names())}", table)
        if own in catalog.kept or not _is_base(catalog, own):
            raise SqlError(f"{own} is a view: edit the tables that it reads", table)
        self.name, self.columns, self.bag = own, catalog.columns(own), catalog.weighs(own)
        self.names = [c.name for c in self.columns]
        schema = catalog.source[own].info.schema
        self.key = [] if self.bag else [self.names.index(k) for k in schema.key]
        self.changed: list[Row] = []  # the rows that RETURNING is about: new ones, or those deleted
        self.alias = table.alias or name

    # -- rows

    def rows(self, query: exp.Expr, types: Sequence[Column | None]) -> list[Row]:
        """Return the rows of a query, its columns converted to those of the table."""
        builder = Builder("sql")
        queries = Queries(builder, self.catalog.schema())
        found = queries.query(query)
        if len(found.columns) != len(types):
            raise SqlError(
                f"{counted(len(found.columns), 'value')} for {counted(len(types), 'column')} of {self.name}", query
            )
        columns = []
        for (name, value), column in zip(found.columns, types, strict=True):
            value = value._replace(nullable=builder.may_be_null(found.body, value))
            value = value if column is None else convert(value, column.type, query)
            columns.append((name, value._replace(type=VARCHAR) if value.type.is_nested else value))  # as it is stored
        names = [f"c{n}" for n in range(len(columns))]
        table = answer(queries, Rows(found.body, list(zip(names, (v for _, v in columns), strict=True))),
                       self.reader.ask).to_arrow()  # fmt: skip
        return rows_of(table)

    def known(self, name: str, node: exp.Expr) -> int:
        """Return the position of a column.  Raises SqlError with the nearest name."""
        for place, own in enumerate(self.names):
            if own.lower() == name.lower():
                return place
        raise SqlError(f"{self.name} has no column {name}{nearest(name, self.names)}", node)

    def checked(self, rows: list[Row], node: exp.Expr) -> list[Row]:
        """Return rows.  Raises SqlError for a null where none may be."""
        for place, column in enumerate(self.columns):
            if not column.nullable and any(row[place] is None for row in rows):
                raise SqlError(f"{self.name}.{column.name} is NOT NULL, and a row has no value for it", node)
        return rows

    def _default(self, place: int, node: exp.Expr) -> Any:
        saved = self.catalog.tables.get(self.name, {}).get("columns", ())
        own = next((c for c in saved if c["name"] == self.names[place]), None)
        return default_value(own and own.get("default"), self.columns[place].type, node)

    # -- statements

    def insert(self, node: exp.Insert, given_rows: list[Row] | None = None) -> int:
        """INSERT: return the number of rows, which are from a file if they are given."""
        target = node.this
        given = [c.name for c in target.expressions] if isinstance(target, exp.Schema) else []
        source = node.expression
        if node.args.get("by_name"):
            assert isinstance(source, exp.Select)
            given = [one.alias_or_name for one in source.selects]
        places = [self.known(name, node) for name in given] if given else [*range(len(self.columns))]
        listed: list[Row]
        if given_rows is not None:
            listed = given_rows
        elif source is None:
            listed = [tuple(self._default(n, node) for n in places)]
        elif isinstance(source, exp.Values):
            listed = self._values(source, places, bool(given))
        else:
            listed = self.rows(source, [self.columns[n] for n in places])
        rows = [self._whole(row, places, node) for row in listed]
        self._add(self.checked(rows, node), node)
        return len(rows)

    def _values(self, node: exp.Values, places: list[int], named: bool) -> list[Row]:
        """Return rows of VALUES: constants at once, other expressions by a query."""
        found: list[Row] = []
        for row in node.expressions:
            items = row.expressions if isinstance(row, exp.Tuple) else [row]
            if len(items) != len(places):
                raise SqlError(
                    f"{counted(len(items), 'value')} for {counted(len(places), 'column')} of {self.name}", row
                )
            found.append(tuple(self._value(item, place) for item, place in zip(items, places, strict=True)))
        return found

    def _value(self, node: exp.Expr, place: int) -> Any:
        if isinstance(node, exp.Var) and node.name.upper() == "DEFAULT":
            return self._default(place, node)
        column, inner = self.columns[place], node
        while isinstance(inner, exp.Paren):
            inner = inner.this
        value = constant(inner)
        if value is not None:
            term = converted(value, column.type, node).term
            assert isinstance(term, Lit)
            return term.value
        return self.rows(exp.select(node.copy()), [column])[0][0]

    def _whole(self, row: Row, places: list[int], node: exp.Expr) -> Row:
        if places == [*range(len(self.columns))]:
            return row
        given = dict(zip(places, row, strict=True))
        return tuple(given[n] if n in given else self._default(n, node) for n in range(len(self.columns)))

    def _add(self, rows: list[Row], node: exp.Insert) -> None:
        """Insert rows, as ON CONFLICT says where a key exists."""
        conflict = node.args.get("conflict")
        action = conflict.args["action"].name.upper() if conflict is not None else ""
        replace = (node.args.get("alternative") or "").upper() == "REPLACE" if node.args.get("alternative") else False
        ignore = bool(node.args.get("ignore")) or action == "DO NOTHING" or (
            bool(node.args.get("alternative")) and str(node.args["alternative"]).upper() == "IGNORE"
        )  # fmt: skip
        if self.bag:
            self.txn.insert(self.name, rows)
            self.changed += rows
            return
        fresh: dict[Row, Row] = {}
        there = self.existing([self.key_of(row) for row in rows])
        updated: list[tuple[Row, Row]] = []
        for row in rows:
            key = self.key_of(row)
            if key in there or key in fresh:
                if ignore:
                    continue
                if action == "DO UPDATE" and conflict is not None:
                    updated.append((fresh[key] if key in fresh else there[key], row))
                    continue
                if not replace:
                    shown = ", ".join(f"{self.names[p]} = {v!r}" for p, v in zip(self.key, key, strict=True))
                    raise SqlError(
                        f"{self.name} has a row with {shown} already: INSERT ... ON CONFLICT DO NOTHING, or UPDATE it",
                        node,
                    )
            fresh[key] = row
        self.txn.set(self.name, [*fresh.values()])
        self.changed += fresh.values()
        if updated and conflict is not None:
            self._update_conflicts(updated, conflict)

    def _update_conflicts(self, pairs: list[tuple[Row, Row]], conflict: exp.OnConflict) -> None:
        """ON CONFLICT DO UPDATE: set columns of rows from those that were refused."""
        for old, new in pairs:
            sources = {self.alias: old, "excluded": new}
            query = exp.select(*(one.expression.copy() for one in conflict.expressions))
            where = conflict.args.get("where")
            places = [self.known(one.this.name, one) for one in conflict.expressions]
            query = query.from_(self._constants(old, self.alias))
            query = query.join(self._constants(sources["excluded"], "excluded"), join_type="cross")
            if where is not None:
                query = query.where(where.this.copy())
            found = self.rows(query, [self.columns[p] for p in places])
            for values in found:
                row = [*old]
                for place, value in zip(places, values, strict=True):
                    row[place] = value
                self._replace([(old, tuple(row))], conflict)

    def _constants(self, row: Row, alias: str) -> exp.Expr:
        """Return a subquery of one row of constants."""
        items = [
            exp.alias_(
                exp.Cast(this=stored(value, c), to=exp.DataType.build(str(c.type), dialect="duckdb")),
                c.name,
                quoted=True,
            )
            for value, c in zip(row, self.columns, strict=True)
        ]
        return exp.Subquery(this=exp.select(*items), alias=exp.TableAlias(this=exp.to_identifier(alias)))

    def update(self, node: exp.Update) -> int:
        """UPDATE: return the number of rows."""
        places = [self.known(one.this.name, one) for one in node.expressions]
        values = [self._assigned(one.expression, place) for one, place in zip(node.expressions, places, strict=True)]
        own = [exp.column(name, self.alias, quoted=True) for name in self._told_apart()]
        query = exp.select(*own, *values).from_(node.this.copy())
        source = node.args.get("from_") or node.args.get("from")
        if source is not None:
            query = query.join(source.this.copy(), join_type="cross")
        if node.args.get("where"):
            query = query.where(node.args["where"].this.copy())
        found = self.rows(query, [*(None for _ in own), *(self.columns[p] for p in places)])
        pairs = self._pairs(found, places)
        self._replace(pairs, node)
        return len(pairs)

    def _told_apart(self) -> list[str]:
        """Return the names of the columns that tell rows apart."""
        return [self.names[place] for place in self.key] or self.names

    def _pairs(self, found: list[Row], places: list[int]) -> list[tuple[Row, Row]]:
        """Return whole rows before and after, given those that tell them apart with the new values."""
        width = len(self._told_apart())
        there = {} if self.bag else self.existing([row[:width] for row in found])
        pairs = []
        for row in found:
            old = row[:width] if self.bag else there[row[:width]]
            new = [*old]
            for place, value in zip(places, row[width:], strict=True):
                new[place] = value
            pairs.append((old, tuple(new)))
        return pairs

    def _assigned(self, node: exp.Expr, place: int) -> exp.Expr:
        if isinstance(node, exp.Var | exp.Column) and node.name.upper() == "DEFAULT":
            return literal(self._default(place, node))
        return node.copy()

    def _replace(self, pairs: list[tuple[Row, Row]], node: exp.Expr) -> None:
        """Replace rows by others."""
        self.changed += self.checked([new for _, new in pairs], node)
        if self.bag:
            self._replace_equal(pairs, node)
            return
        olds = {self.key_of(old): new for old, new in pairs}
        if len(olds) < len(pairs) and len({*pairs}) > len(olds):
            raise SqlError(f"several rows match one row of {self.name}, so that its new values are ambiguous", node)
        news = {self.key_of(new): new for new in olds.values()}
        if len(news) < len(olds):
            raise SqlError(f"two rows of {self.name} would have one key", node)
        moved = [key for key in olds if key not in news]
        entered = [key for key in news if key not in olds]
        if entered and (there := self.existing(entered)):
            raise SqlError(f"{self.name} has a row with the key {next(iter(there))} already", node)
        if moved:
            self.txn.delete(self.name, moved)
        self.txn.set(self.name, [*news.values()])

    def delete(self, node: exp.Delete) -> int:
        """DELETE: return the number of rows."""
        wanted = [*range(len(self.names))] if self.bag else self.key
        if node.args.get("returning"):
            wanted = [*range(len(self.names))]
        query = exp.select(*(exp.column(self.names[p], self.alias, quoted=True) for p in wanted)).from_(
            node.this.copy()
        )
        for one in node.args.get("using") or ():
            query = query.join(one.copy(), join_type="cross")
        if node.args.get("where"):
            query = query.where(node.args["where"].this.copy())
        found = [*dict.fromkeys(self.rows(query, [None] * len(wanted)))]
        counts = self._counts(found) if self.bag else Counter(found)
        self.changed += counts.elements()
        if found:
            whole = self.bag or len(wanted) == len(self.key)
            self.txn.delete(self.name, found if whole else [self.key_of(row) for row in found], every=self.bag)
        return counts.total()

    def returned(self, expressions: list[exp.Expr]) -> pa.Table:
        """Return what RETURNING says of the rows that changed."""
        types = [exp.DataType.build(str(c.type), dialect="duckdb") for c in self.columns]
        if self.changed:
            rows = exp.Values(
                expressions=[exp.Tuple(expressions=[*map(stored, row, self.columns)]) for row in self.changed],
                alias=exp.TableAlias(
                    this=exp.to_identifier("row_values"), columns=[*map(exp.to_identifier, _numbered(types))]
                ),
            )
            casts = (exp.alias_(exp.Cast(this=exp.column(n, "row_values"), to=t), name, quoted=True)
                     for n, t, name in zip(_numbered(types), types, self.names, strict=True))  # fmt: skip
            source: exp.Expr = exp.select(*casts).from_(rows)
        else:
            source = exp.select("*").from_(exp.to_table(self.name, quoted=True)).where(exp.false())
        alias = exp.TableAlias(this=exp.to_identifier(self.alias, quoted=True))
        query = exp.select(*(one.copy() for one in expressions)).from_(exp.Subquery(this=source, alias=alias))
        queries = Queries(Builder("sql"), self.catalog.schema())
        return answer(queries, queries.query(query), self.reader.ask).to_arrow()

    def truncate(self) -> int:
        """TRUNCATE: delete all rows."""
        return self.delete(exp.Delete(this=exp.to_table(self.name, quoted=True)))

    def merge(self, node: exp.Merge) -> int:
        """MERGE: the first WHEN that fits decides for each row; all read the state before."""
        source, on = node.args["using"], node.args["on"]
        pairs: list[tuple[Row, Row]] = []
        deleted: list[Row] = []
        added: list[Row] = []
        before: dict[bool, list[exp.Expr]] = {True: [], False: []}
        for when in node.args["whens"].expressions:
            matched, then, condition = bool(when.args["matched"]), when.args["then"], when.args.get("condition")
            if when.args.get("source"):
                raise SqlError("WHEN NOT MATCHED BY SOURCE is not evaluated: DELETE the rows in a statement", when)
            tests: list[exp.Expr] = [exp.Not(this=exp.Paren(this=_true(one))) for one in before[matched]]
            tests += [condition.copy()] if condition is not None else []
            before[matched].append(condition.copy() if condition is not None else exp.true())
            if matched and isinstance(then, exp.Update):
                pairs += self._merge_update(node, source, on, tests, then)
            elif matched:
                deleted += self._matched(source, on, tests, self._told_apart())
            else:
                added += self._merge_insert(source, on, tests, then)
        self._replace(pairs, node)
        if deleted:
            self.txn.delete(self.name, deleted, every=self.bag)
        if added:
            self._add(self.checked(added, node), exp.Insert())
        return len(pairs) + len(deleted) + len(added)

    def _target(self) -> exp.Table:
        table = exp.to_table(self.name, quoted=True)
        table.set("alias", exp.TableAlias(this=exp.to_identifier(self.alias)))
        return table

    def _matched(
        self, source: exp.Expr, on: exp.Expr, tests: list[exp.Expr], names: list[str],
        values: Sequence[exp.Expr] = (), types: Sequence[Column] = (),
    ) -> list[Row]:  # fmt: skip
        columns = [exp.column(name, self.alias, quoted=True) for name in names]
        query = exp.select(*columns, *values).from_(self._target()).join(source.copy(), on=on.copy())
        for one in tests:
            query = query.where(one)
        return self.rows(query, [*(None for _ in columns), *types])

    def _merge_update(
        self, node: exp.Merge, source: exp.Expr, on: exp.Expr, tests: list[exp.Expr], then: exp.Update
    ) -> list[tuple[Row, Row]]:
        places = [self.known(one.this.name, one) for one in then.expressions]
        values = [one.expression.copy() for one in then.expressions]
        return self._pairs(
            self._matched(source, on, tests, self._told_apart(), values, [self.columns[p] for p in places]), places
        )

    def _merge_insert(self, source: exp.Expr, on: exp.Expr, tests: list[exp.Expr], then: exp.Insert) -> list[Row]:
        given = [one.name for one in then.this.expressions] if then.this is not None else self.names
        places = [self.known(name, then) for name in given]
        values = [one.copy() for one in then.expression.expressions]
        inner = exp.select("1").from_(self._target()).where(on.copy())
        query = exp.select(*values).from_(source.copy()).where(exp.Not(this=exp.Exists(this=inner)))
        for one in tests:
            query = query.where(one)
        rows = self.rows(query, [self.columns[p] for p in places])
        return [self._whole(row, places, then) for row in rows]

    # -- tables without a key

    def _counts(self, rows: list[Row]) -> Counter[Row]:
        """Return how often some rows occur."""
        found: Counter[Row] = Counter()
        with self.reader.relation(self.name) as relation:
            for row in dict.fromkeys(rows):
                found[row] = relation.get(row if len(row) > 1 else row[0]) or 0
        return found

    def _replace_equal(self, pairs: list[tuple[Row, Row]], node: exp.Expr) -> None:
        """Replace all rows that equal one of the old ones."""
        news: dict[Row, Row] = {}
        for old, new in pairs:
            if news.setdefault(old, new) != new:
                raise SqlError(f"several rows match one row of {self.name}, so that its new values are ambiguous", node)
        counts = self._counts([*news])
        self.txn.delete(self.name, [*news], every=True)
        self.txn.insert(self.name, [new for old, new in news.items() for _ in range(counts[old])])

    # -- keys

    def key_of(self, row: Row) -> Row:
        """Return the values of the key of a row."""
        return tuple(row[place] for place in self.key)

    def existing(self, keys: list[Row]) -> dict[Row, Row]:
        """Return the rows that exist of some keys."""
        found: dict[Row, Row] = {}
        with self.reader.relation(self.name) as relation:
            for key in dict.fromkeys(keys):
                rows = list(relation.prefix(*key)) if len(self.key) < len(self.names) else [key] * (key in relation)
                for row in rows:
                    found[self.key_of(row)] = tuple(row)
        return found


def _numbered(values: Sequence[object]) -> list[str]:
    return [f"c{n}" for n in range(len(values))]


def _is_base(catalog: Catalog, name: str) -> bool:
    predicate = catalog.predicates.get(name)
    return predicate is None or predicate.extensional


def _true(node: exp.Expr) -> exp.Expr:
    """Return a condition that is false where another is null."""
    return exp.Coalesce(this=node, expressions=[exp.false()])


def rows_of(table: pa.Table) -> list[Row]:
    """Return an Arrow table's rows as tuples."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []


def stored(value: Any, column: Column) -> exp.Expr:
    """Return a stored value as a literal of SQL; a list, a struct or a map is a text, and gets its brackets back."""
    return literal(f"[{value}]" if column.type.is_nested and value is not None else value)


def literal(value: Any) -> exp.Expr:
    """Return a value of Python as a literal of SQL."""
    if value is None:
        return exp.null()
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, int | float):
        return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))
    if isinstance(value, str):
        return exp.Literal.string(value)
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[literal(one) for one in value])
    if isinstance(value, dict):
        pairs = [exp.PropertyEQ(this=exp.to_identifier(key), expression=literal(one)) for key, one in value.items()]
        return exp.Struct(expressions=pairs)
    name = {"date": "DATE", "datetime": "TIMESTAMP", "time": "TIME"}.get(type(value).__name__)
    if isinstance(value, datetime) and value.tzinfo is not None:
        name = "TIMESTAMPTZ"
    if name:
        return exp.Cast(this=exp.Literal.string(str(value)), to=exp.DataType.build(name))
    return exp.Literal.number(f"{value:f}") if value >= 0 else exp.Neg(this=exp.Literal.number(f"{-value:f}"))
