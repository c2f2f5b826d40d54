"""The type of an operation, and of one of several alternatives, for numbers of each type: DuckDB's,
in which a number that is written without a type takes that of the other one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import duckdb

import ivm

TABLE = """CREATE TABLE s (k INTEGER PRIMARY KEY, a TINYINT, b UBIGINT, h HUGEINT, u USMALLINT,
    g BIGINT, f FLOAT, d DECIMAL(5, 2))"""
COLUMNS = ("a", "b", "h", "u", "k", "g", "f", "d")
TYPES = ("TINYINT", "UBIGINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT")
BARE = ("1", "300", "-1", "(1 + 1)", "5000000000", "1.5", "NULL")
NUMBERS = (*BARE, *COLUMNS, *(f"1::{name}" for name in TYPES))
OPERATIONS = (
    "{} + {}", "{} - {}", "{} * {}", "{} % {}", "{} // {}", "{} & {}", "{} << {}", "coalesce({}, {})",
    "greatest({}, {})", "CASE WHEN k = 2 THEN {} ELSE {} END", "if(k = 2, {}, {})", "[{}, {}]",
)  # fmt: skip


def test_types_of_operations_are_those_of_duckdb() -> None:
    """Where both have one; what DuckDB calls "NULL" is the null of the other side here."""
    peer, different = duckdb.connect(), dict[str, tuple[Any, Any]]()
    with ivm.open(":memory:") as ws:
        for run in (ws.sql, peer.execute):
            run(TABLE)
            run("INSERT INTO s VALUES (1, 1, 1, 1, 1, 1, 1, 1)")
        for left, right in product(NUMBERS, repeat=2):
            terms = [f"typeof({operation.format(left, right)})" for operation in OPERATIONS]
            own = _found(lambda text: next(iter(ws.sql(text))), terms)
            theirs = _found(lambda text: peer.execute(text).fetchone(), terms)
            for term, *both in zip(terms, own, theirs, strict=True):
                if None not in both and '"NULL"' not in str(both[1]) and both[0] != both[1]:
                    different[term] = both[0], both[1]
    assert different.keys() == {f"typeof({op.format('NULL', 'NULL')})" for op in OPERATIONS[:7]}


def _found(run: Callable[[str], Any], terms: list[str]) -> list[str | None]:
    """Return the value of each term, None of one that is refused."""
    try:
        return [*run(f"SELECT {', '.join(terms)} FROM s")]
    except (ivm.IvmError, duckdb.Error):
        return [None] if len(terms) == 1 else [_found(run, [term])[0] for term in terms]
