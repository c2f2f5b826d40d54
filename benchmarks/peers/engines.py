"""One engine that keeps views, over random histories, in a process of its own:

    PYTHON -m benchmarks.peers.engines NAME FIRST END        e.g. turso 0 1000

The interpreter is any in which the engine's package is installed; nothing of this project is
needed, but for `pagestore`. For each history it prints its kind and what came of it.
"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from benchmarks.peers.histories import SCHEMA, History, Row, history

VIEW = "kept"


def pagestore(one: History) -> Iterator[list[Row]]:
    """This project."""
    import ivm

    with ivm.open(":memory:", threads=1) as workspace:
        for statement in (*SCHEMA, f"CREATE MATERIALIZED VIEW {VIEW} AS {one.query}"):
            workspace.sql(statement)
        yield []
        for statements in one.statements:
            workspace.sql(";".join(["BEGIN", *statements, "COMMIT"]))
            found = workspace.sql(f"SELECT * FROM {VIEW}")
            assert found is not None
            yield [(*row.values(),) for row in found.to_arrow().to_pylist()]


def by_connection(
    connection: Any, one: History, view: str, renewal: tuple[str, ...] = ()
) -> Iterator[list[Row]]:
    """By a DB-API connection, with the statement that makes the view, and those that renew it."""
    cursor = connection.cursor()
    for statement in (*SCHEMA, f"CREATE {view} {VIEW} AS {one.query}"):
        cursor.execute(statement)
    yield []
    for statements in one.statements:
        for statement in ("BEGIN", *statements, *renewal, "COMMIT"):
            cursor.execute(statement.format(query=one.query))
        cursor.execute(f"SELECT * FROM {VIEW}")
        yield cursor.fetchall()


BY_HAND = (f"DELETE FROM {VIEW}", f"INSERT INTO {VIEW} {{query}}")


def turso(one: History) -> Iterator[list[Row]]:
    """Turso, whose views are experimental."""
    from turso import connect

    connection = connect(":memory:", experimental_features="views", isolation_level=None)
    return by_connection(connection, one, "MATERIALIZED VIEW")


def duckdb(one: History) -> Iterator[list[Row]]:
    """DuckDB, which computes the answer again."""
    from duckdb import connect

    return by_connection(connect(config={"threads": 1}), one, "TABLE", BY_HAND)


def doltlite(one: History) -> Iterator[list[Row]]:
    """DoltLite, which computes the answer again."""
    import doltlite as _dolt  # takes the place of the system's SQLite

    getattr(_dolt, "bootstrap", lambda: None)()
    import sqlite3

    return by_connection(sqlite3.connect(":memory:", isolation_level=None), one, "TABLE", BY_HAND)


def postgres(one: History) -> Iterator[list[Row]]:
    """On a server at PEER_POSTGRES, whose schema `public` is emptied."""
    from psycopg import connect

    with connect(os.environ["PEER_POSTGRES"], autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        yield from by_connection(
            connection, one, "MATERIALIZED VIEW", (f"REFRESH MATERIALIZED VIEW {VIEW}",)
        )


def pathway(one: History) -> Iterator[list[Row]]:
    """Pathway, by its SQL over a stream of changes."""
    import pathway as pw
    from pathway.internals.parse_graph import G

    G.clear()
    tables = {}
    for name, last in (("t", "v"), ("u", "w")):
        schema = pw.schema_builder(
            {
                "k": pw.column_definition(dtype=int, primary_key=True),
                "g": pw.column_definition(dtype=int | None),
                last: pw.column_definition(dtype=int | None),
            }
        )
        rows = [
            (*row, 2 * time + 2, sign)
            for time, changes in enumerate(one.changes)
            for row, sign in net(changes, name)
        ]
        tables[name] = pw.debug.table_from_rows(schema, rows, is_stream=True)
    read = {name: table for name, table in tables.items() if f" {name} " in one.query + " "}
    result = pw.sql(one.query, **read)
    heard: list[tuple[int, Row, int]] = []
    pw.io.subscribe(
        result,
        on_change=lambda key, row, time, is_addition: heard.append(
            (time, (*row.values(),), 1 if is_addition else -1)
        ),
    )
    yield []
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    for time in range(len(one.changes)):
        bag: Counter[Row] = Counter()
        for at, row, sign in heard:
            if at <= 2 * time + 2:
                bag[row] += sign
        yield [*bag.elements()]


def net(changes: list[tuple[str, Row, int]], name: str) -> list[tuple[Row, int]]:
    """Return what a transaction takes from a table and then adds."""
    count: Counter[Row] = Counter()
    for table, row, sign in changes:
        count[row] += sign if table == name else 0
    return sorted(((row, sign) for row, sign in count.items() if sign), key=lambda pair: pair[1])


ENGINES = {
    "pagestore": pagestore, "turso": turso, "postgres": postgres, "pathway": pathway, "duckdb": duckdb,
    "doltlite": doltlite,
}  # fmt: skip


def outcome(name: str, one: History) -> str:
    """Return `right`; `refused`, if the view cannot be made; `failed`, if a later edit or question
    is an error; or `wrong`.
    """
    versions = ENGINES[name](one)
    try:
        next(versions)
    except ImportError:
        raise
    except BaseException:  # a panic of another language is none of Exception
        return "refused"
    try:
        found = [Counter(map(tuple, rows)) for rows in versions]
    except BaseException:
        return "failed"
    return "right" if found == [*map(Counter, one.truth)] else "wrong"


if __name__ == "__main__":
    for seed in range(*map(int, sys.argv[2:4])):
        made = history(seed)
        print(f"{made.kind}: {outcome(sys.argv[1], made)}", flush=True)
