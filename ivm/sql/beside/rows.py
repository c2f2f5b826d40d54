"""What a query reads beside the tables that rules follow: older versions and changes, samples,
chance, and the system's own relations.

Their rows are made relations for as long as the query is evaluated, and are asked as any others.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlglot
from sqlglot import exp

from ivm.names import BESIDE
from ivm.sql import files
from ivm.sql.beside import versions
from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError
from ivm.sql.rules import Column
from ivm.sql.session import Reader
from ivm.sql.system import relations
from ivm.sql.system.session import PER_ROW, UNIFORM
from ivm.sql.tables import create_bag
from ivm.sql.types import BIGINT, DOUBLE, INTERVAL, UUID
from pagestore.host import Column as Stored
from pagestore.host import Schema, Type, of_numbers, of_texts

if TYPE_CHECKING:
    import pyarrow as pa


def put_beside(reader: Reader, state: Any, node: exp.Expr) -> exp.Expr:
    """Return a query that reads relations of a transaction, which this makes, in place of what is
    beside the tables.
    """
    node, catalog, store = node.copy(), Catalog(state), reader.host.store
    for number, table in enumerate(list(node.find_all(exp.Table))):
        shown: list[Column]
        rows: Any
        key = 0  # how many columns, the first ones, tell the rows apart, if that is known
        if (version := versions.version_of(table)) is not None:
            shown, rows = versions.rows_of(store, catalog, table, version)
        elif versions.is_changes(table):
            shown, rows = versions.rows_of_changes(store, catalog, table)
        elif (file := files.named(table, catalog)) is not None:
            files.refuse_unless(reader.host.files_allowed, table)
            shown, rows = files.rows_of(file, node, table)
            table.set("this", exp.to_identifier(Path(file.path).stem, quoted=True))
        elif relations.is_system(table):
            shown, rows, key = relations.rows_of(catalog, table)
        elif table.args.get("sample") or table.meta.get(PER_ROW):
            shown, rows = _drawn(reader, state, catalog, table)
        else:
            continue
        name = f"{BESIDE}{number}"
        columns = [replace(c, type=BIGINT) if c.type == INTERVAL else c for c in shown]
        stored = (Stored(c.name, Type.parse(c.type.store + "?" * c.nullable)) for c in columns)
        if key:
            names = tuple(stored)
            state.create(name, Schema(names, tuple(c.name for c in names[:key])))
        else:
            create_bag(state, name, tuple(stored))
        state[name].insert(rows)
        catalog.tables[name] = {"columns": [{"name": c.name, "type": str(c.type)} for c in columns]}
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        table.replace(_reading(name, shown, alias, table.args.get("joins")))
    state.properties["ivm.sql"] = catalog.saved()
    return node


def _reading(
    name: str, columns: list[Column], alias: exp.TableAlias, joins: list[exp.Join] | None
) -> exp.Expr:
    """Return what reads a table in a query, whose intervals are stored as microseconds."""
    table = exp.to_table(name)
    if not any(c.type == INTERVAL for c in columns):
        return exp.Table(this=table.this, alias=alias, joins=joins)
    items = []
    for column in columns:
        shown = exp.column(column.name, quoted=True).sql(dialect="duckdb")
        text = f"make_timestamp({shown}) - make_timestamp(0)" if column.type == INTERVAL else shown
        items.append(
            exp.alias_(sqlglot.parse_one(text, dialect="duckdb"), column.name, quoted=True)
        )
    return exp.Subquery(this=exp.select(*items).from_(table), alias=alias, joins=joins)


def _drawn(
    reader: Reader, state: Any, catalog: Catalog, table: exp.Table
) -> tuple[list[Column], pa.Table]:
    """Return a sample of a table's rows, or all of them, with columns of what chance gives each."""
    import pyarrow as pa

    table_known = versions.known(catalog, table.name, table)
    reader.bring_up_to_date([table_known])
    columns, rows = versions.stored(catalog, state, table_known)
    if sample := table.args.get("sample"):
        places = np.array(_places(sample, rows.num_rows), np.int64)
        rows = rows.take(of_numbers(pa.int64(), places))
    for name, kind in table.meta.get(PER_ROW, ()):
        if uniform := kind in UNIFORM:
            drawn = of_numbers(pa.float64(), np.random.default_rng().random(rows.num_rows))
        else:
            drawn = of_texts([str(uuid.uuid4()) for _ in range(rows.num_rows)])
        rows = rows.append_column(name, drawn)
        columns = [*columns, Column(name, DOUBLE if uniform else UUID, False)]
    return columns, rows


def _places(node: exp.TableSample, count: int) -> list[int]:
    """Return which of so many rows a sample has, in their order.  Raises SqlError."""
    given = {key: value for key, value in node.args.items() if value}
    part, size = given.pop("percent", None), given.pop("size", None)
    given.pop("method", None)  # systems choose blocks or rows; rows are always right
    seed = given.pop("seed", None)
    number = part or size
    if given or not isinstance(number, exp.Literal) or number.is_string:
        raise SqlError("a sample is a number of ROWS or PERCENT that is written out", node)
    draw = random.Random(seed.name if seed else None)
    if size is not None:
        return sorted(draw.sample(range(count), min(int(size.name), count)))
    chance = float(part.name) / 100
    return [place for place in range(count) if draw.random() < chance]
