"""The queries of a stream kept by another engine, in a process of its own:

    PYTHON -m benchmarks.peers.streamed ENGINE FOLDER        e.g. turso /tmp/q3

The folder has what `benchmarks/peers/streams.py` writes there: `stream.pickle` with a schema, a query,
rows of tables and batches of rows that come. Written into `answer.pickle` are milliseconds of
processor time of keeping the query and of each batch, or of all, and the rows at the end. The interpreter is
any in which the engine's package is installed; nothing of this project is needed.
"""

import pickle
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Rows = list[tuple[Any, ...]]
Given = tuple[str, str, dict[str, Rows], list[dict[str, Rows]]]  # the last two by table


def turso(given: Given) -> Iterator[Rows]:
    """Turso, whose views are experimental, and whose moments are texts."""
    from turso import connect

    schema, query, state, batches = given
    connection = connect(":memory:", experimental_features="views", isolation_level=None)
    cursor = connection.cursor()

    def insert(rows: dict[str, Rows]) -> None:
        for name, some in rows.items():
            places = ", ".join("?" * len(some[0]))
            for at in range(0, len(some), 1000):  # more in one transaction end it
                cursor.execute("BEGIN")
                part = [*map(_plain, some[at : at + 1000])]
                cursor.executemany(f"INSERT INTO {name} VALUES ({places})", part)
                cursor.execute("COMMIT")

    for statement in filter(str.strip, schema.split(";")):
        cursor.execute(statement)
    insert(state)
    yield []
    cursor.execute(f"CREATE MATERIALIZED VIEW answer AS {query}")
    yield []
    for rows in batches:
        insert(rows)
        yield cursor.execute("SELECT * FROM answer").fetchall() if rows is batches[-1] else []


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*(one.isoformat() if hasattr(one, "isoformat") else one for one in row),)


def duckdb(given: Given) -> Iterator[Rows]:
    """DuckDB, which computes the answer at the end."""
    from duckdb import connect

    schema, query, state, batches = given
    connection = connect(config={"threads": 1})
    connection.execute(schema)
    yield []
    for rows in (state, *batches):
        for name, some in rows.items():
            places = ", ".join("?" * len(some[0]))
            connection.executemany(f"INSERT INTO {name} VALUES ({places})", some)
        yield connection.execute(query).fetchall() if rows is batches[-1] else []


TYPES = {"BIGINT": "int", "VARCHAR": "str", "TIMESTAMP": "moment"}


def pathway(given: Given) -> Iterator[Rows]:
    """Pathway, by its SQL; the state is what comes at the first time, each batch at one of its own."""
    import pathway as pw

    # `id` is what Pathway calls the pointer to a row
    schema, query = (re.sub(r"\bid\b", "own_id", text) for text in given[:2])
    state, batches = given[2:]
    types = {"int": int, "str": str, "moment": pw.DateTimeNaive}
    tables = dict[str, Any]()
    for name, columns in re.findall(r"CREATE TABLE (\w+) \((.*?)\);", schema, flags=re.S):
        named = [re.match(r"(\w+) (\w+)", one.strip()) for one in columns.split(",")]
        kinds = {one[1]: types[TYPES[one[2]]] for one in named if one}
        rows = [
            (*row, 2 * n + 2, 1)
            for n, some in enumerate([state, *batches])
            for row in some.get(name, [])
        ]
        made = pw.schema_builder({c: pw.column_definition(dtype=t) for c, t in kinds.items()})
        tables[name] = pw.debug.table_from_rows(made, rows, is_stream=True)
    read = {name: one for name, one in tables.items() if re.search(rf"\b{name}\b", query)}
    kept: Counter[tuple[Any, ...]] = Counter()

    pw.io.subscribe(
        pw.sql(query, **read),
        on_change=lambda key, row, time, is_addition: kept.update(
            {(*row.values(),): 1 if is_addition else -1}
        ),
    )
    yield []
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    yield [*kept.elements()]


ENGINES = {"turso": turso, "pathway": pathway, "duckdb": duckdb}


def main(engine: str, folder: Path) -> None:
    """Keep the query; write what came of it."""
    steps = ENGINES[engine](pickle.loads((folder / "stream.pickle").read_bytes()))
    took, rows, outcome = list[float](), list[Any](), "kept"
    try:
        next(steps)
        while True:
            start = time.process_time()
            rows = next(steps)
            took.append(1000 * (time.process_time() - start))
    except StopIteration:
        pass
    except ImportError:
        outcome = "not installed"
    except BaseException:  # a panic of another language is none of Exception
        outcome = "failed" if took else "refused"
    plain = [_plain(row) for row in rows] if outcome == "kept" else []
    done = {"outcome": outcome, "took": took, "rows": plain}
    (folder / "answer.pickle").write_bytes(pickle.dumps(done))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
