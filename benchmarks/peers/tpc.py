"""The queries of TPC-H and TPC-DS as kept views, beside DuckDB: right or not, what it takes to
install them beside what the answer takes there, and to follow edits.

Tables and queries are made by DuckDB's own generators, which are packages of one version each:

    pip install duckdb==1.5.5 duckdb-extension-tpch==1.5.5 duckdb-extension-tpcds==1.5.5
"""

import argparse
import gc
import re
import shutil
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import duckdb

import ivm
from benchmarks import Command
from benchmarks.streams import bag, used

KEYS = {  # of several columns; others have their first one
    "lineitem": "l_orderkey, l_linenumber", "partsupp": "ps_partkey, ps_suppkey",
    "store_sales": "ss_item_sk, ss_ticket_number", "store_returns": "sr_item_sk, sr_ticket_number",
    "catalog_sales": "cs_item_sk, cs_order_number", "catalog_returns": "cr_item_sk, cr_order_number",
    "web_sales": "ws_item_sk, ws_order_number", "web_returns": "wr_item_sk, wr_order_number",
    "inventory": "inv_date_sk, inv_item_sk, inv_warehouse_sk",
}  # fmt: skip
EDITED = {"tpch": "lineitem", "tpcds": "store_sales"}
MAKERS = {"tpch": "dbgen", "tpcds": "dsdgen"}
EDITS = 6  # rows that go and come back
DUCK_LEAST = 0.1  # ms: the shortest answer that is divided by


class Measured(NamedTuple):
    """Milliseconds of processor time: installed, by DuckDB, the median of edits; and whether all
    answers were right.
    """

    installed: float
    duck: float
    edit: float
    right: bool

    @property
    def times(self) -> float:
        """How many times as long as DuckDB's answer installing takes."""
        return self.installed / max(self.duck, DUCK_LEAST)


def made(kind: str, scale: float) -> tuple[duckdb.DuckDBPyConnection, dict[str, str]]:
    """Return a DuckDB with the tables, and the queries by number. Raises SystemExit where the
    generator is not installed.
    """
    package = f"duckdb_extension_{kind}"
    if not (spec := find_spec(package)) or not spec.submodule_search_locations:
        sys.exit(f"{package} is not installed: {__doc__[__doc__.index('pip') :].strip()}")
    (extension,) = Path(spec.submodule_search_locations[0]).rglob("*.duckdb_extension")
    duck = duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 1})
    duck.execute(f"LOAD '{extension}'; CALL {MAKERS[kind]}(sf={scale})")
    queries = duck.execute(f"SELECT query_nr, query FROM {kind}_queries()").fetchall()
    return duck, {f"q{number}": text.strip().rstrip(";") for number, text in queries}


def stored(duck: duckdb.DuckDBPyConnection, base: Path) -> None:
    """Make a store with DuckDB's tables and their keys."""
    with ivm.open(base, sync="off") as workspace:
        for name, definition in tables(duck).items():
            workspace.sql(definition)
            workspace.insert(name, duck.execute(f"FROM {name}").to_arrow_table())


def tables(duck: duckdb.DuckDBPyConnection) -> dict[str, str]:
    """Return the statement that creates each table, with its key."""
    found = {}
    for name, text in duck.execute("SELECT table_name, sql FROM duckdb_tables()").fetchall():
        columns = re.sub(
            r",?\s*PRIMARY KEY\s*\([^)]*\)", "", text[text.index("(") + 1 : text.rindex(")")]
        )
        key = KEYS.get(name, columns.split()[0])
        found[name] = f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}))"
    return found


def loaded(duck: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Print what `COPY` of each table from Parquet takes, into a table with its key, beside
    DuckDB's, and what the files take at the end: as they are, and ours compact, since it keeps
    the versions before each table as well.
    """
    own, peer, total = folder / "own.pages", folder / "peer.duckdb", [0.0, 0.0]
    print("| table | rows | COPY, ms | DuckDB's, ms | |\n|---|---|---|---|---|")
    with ivm.open(own, sync="off", threads=1) as workspace, duckdb.connect(peer) as other:
        other.execute("SET threads = 1")
        for name, definition in tables(duck).items():
            path = folder / f"{name}.parquet"
            ((rows,),) = duck.execute(f"COPY {name} TO '{path}'").fetchall()
            copied = f"COPY {name} FROM '{path}' (FORMAT parquet)"
            workspace.sql(definition)
            other.execute(definition)
            taken = [used(partial(run, copied)) for run in (workspace.sql, other.execute)]
            total = [sum(both) for both in zip(total, taken, strict=True)]
            print(loaded_row(name, rows, *taken), flush=True)
        print(loaded_row("all", "", *total))
        other.execute("CHECKPOINT")
    before, peers = size(own), size(peer)
    with ivm.open(own, sync="off") as workspace:
        workspace.store.compact()
    for name, bytes_ in ("with its history", before), ("compact", size(own)):
        print(f"\n{bytes_:.3g} MB {name} beside DuckDB's {peers:.3g}: {bytes_ / peers:.3g} ×")


def size(path: Path) -> float:
    """Return what a store's or DuckDB's files take, in MB."""
    return sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*")) / 1e6


def loaded_row(name: str, rows: int | str, own: float, peer: float) -> str:
    """Return a row of the table of loads."""
    return f"| {name} | {rows} | {own:.3g} | {peer:.3g} | {own / peer:.3g} × |"


def measured(duck: duckdb.DuckDBPyConnection, query: str, kind: str, base: Path) -> Measured:
    """Measure a query in a copy of a store. Raises ivm.IvmError if it is refused."""
    names = [column[0].lower() for column in duck.execute(query).description or ()]
    if len({*names}) < len(names):
        shown = ", ".join(f"c{n}" for n in range(len(names)))
        query = f"SELECT * FROM ({query}) AS answer({shown})"
    taken = median(used(lambda: duck.execute(query).fetchall()) for _ in range(3))
    right, edits, path = True, list[float](), base.with_name("copy.pages")
    shutil.copy(base, path)
    with ivm.open(path, sync="off", threads=1) as workspace:

        def same() -> bool:
            found = workspace["answer"].to_arrow().to_pylist()
            return bag(tuple(row.values()) for row in found) == bag(duck.execute(query).fetchall())

        gc.collect()
        gc.freeze()  # else a collection walks what DuckDB's answers have left
        installed = used(lambda: workspace.sql(f"CREATE MATERIALIZED VIEW answer AS {query}"))
        right = same()
        table = EDITED[kind]
        rows = duck.execute(f"FROM {table} ORDER BY hash({table}) LIMIT {EDITS}").to_arrow_table()
        for n in range(EDITS):
            row = rows.slice(n, 1)
            edits.append(used(partial(_edited, workspace, "delete", table, row)))
            if n == 0:
                least = f"(SELECT min(hash({table})) FROM {table})"
                duck.execute(f"BEGIN; DELETE FROM {table} WHERE hash({table}) = {least}")
                right = right and same()
                duck.execute("ROLLBACK")
            edits.append(used(partial(_edited, workspace, "insert", table, row)))
        right = right and same()
    return Measured(installed, taken, median(edits), right)


def _edited(workspace: ivm.Workspace, edit: str, table: str, row: Any) -> None:
    with workspace.transaction() as txn:
        getattr(txn, edit)(table, row)


def run(options: argparse.Namespace) -> int:
    """Print a row of a table for each query and one of all, or of loads; return 1 if an answer was
    wrong.
    """
    duck, queries = made(options.kind, options.scale)
    if options.load:
        with tempfile.TemporaryDirectory() as folder:
            loaded(duck, Path(folder))
        return 0
    found, refused = list[Measured](), 0
    print("| query | install, ms | DuckDB's answer, ms | | an edit, ms |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.pages"
        stored(duck, base)
        chosen = options.queries or [*queries]
        measured(duck, queries[chosen[0]], options.kind, base)  # what a process does once
        for name in chosen:
            try:
                one = measured(duck, queries[name], options.kind, base)
            except ivm.IvmError as error:
                print(f"| {name} | refused: {error} | | | |", flush=True)
                refused += 1
                continue
            found.append(one)
            wrong = "" if one.right else " **wrong**"
            print(
                f"| {name} | {one.installed:.3g} | {one.duck:.3g} | {one.times:.3g} × | {one.edit:.3g}{wrong} |",
                flush=True,
            )
    ratios = sorted(one.times for one in found)
    edits = sorted(one.edit for one in found)
    right = sum(one.right for one in found)
    print(
        f"\n{right} of {len(found) + refused} right, {refused} refused; "
        f"install: median {median(ratios):.3g} ×, worst {ratios[-1]:.3g} ×; "
        f"an edit: median {median(edits):.3g} ms, worst {edits[-1]:.3g} ms"
    )
    return int(right < len(found))


TPC = Command(run, {
    "kind": {"choices": [*MAKERS], "help": "the tables and their queries"},
    "--scale": {"type": float, "default": 0.01, "help": "of the generator; 1 is about a gigabyte"},
    "--queries": {"nargs": "*", "help": "some of them, as q3; all unless given"},
    "--load": {"action": "store_true", "help": "load the tables by COPY, and keep no query"},
})  # fmt: skip
