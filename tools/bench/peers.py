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
    peer.register("given", pa.table(columns))
    peer.execute(f"create table {name} as select * from given")
    return peer
