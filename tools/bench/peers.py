"""Other systems that hold the same rows as ours, where they are installed."""

from typing import Any

import numpy as np
import pyarrow as pa


def duckdb_with(name: str, **columns: np.ndarray | pa.Array) -> Any:
    """A connection to DuckDB, of one thread, that holds a table; None where DuckDB is not installed."""
    try:
        import duckdb
    except ImportError:
        return None
    peer = duckdb.connect(config={"threads": 1})
    add_table(peer, name, **columns)
    return peer


def add_table(peer: Any, name: str, **columns: np.ndarray | pa.Array) -> None:
    """Let DuckDB hold one more table."""
    peer.register("given", pa.table(columns))
    peer.execute(f"create table {name} as select * from given")
