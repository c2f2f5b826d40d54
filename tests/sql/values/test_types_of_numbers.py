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


VALUES = {
    "DECIMAL(4,2)": "1.25", "DECIMAL(9,0)": "7", "DECIMAL(9,4)": "7.0010", "DECIMAL(18,9)": "7.000000001",
    "DECIMAL(18,18)": "0.5", "DECIMAL(38,0)": "7", "DECIMAL(38,10)": "7.0000000001",
    "DECIMAL(38,37)": "1.25", "TINYINT": "7", "BIGINT": "7", "HUGEINT": "7", "FLOAT": "7.1", "DOUBLE": "7.25",
}  # fmt: skip
EXACTLY = ("{} = {}", "{} < {}", "{} IS DISTINCT FROM {}", "{} % {}", "typeof({} % {})")
TEXTS = ("{}::VARCHAR", "-{} || 'x'", "[{}]::VARCHAR", "concat({}, 'x')")


def test_decimals_compare_leave_remainders_and_are_shown_as_duckdb_does() -> None:
    """All digits count, whichever type has more of them before and after the point; of columns,
    and of constants.
    """
    peer, different = duckdb.connect(), dict[str, tuple[Any, Any]]()
    columns = {type_: f"c{n}" for n, type_ in enumerate(VALUES)}
    given = {**columns, **{f"{type_}!": f"{value}::{type_}" for type_, value in VALUES.items()}}
    terms = [
        operation.format(left, right)
        for operation in EXACTLY
        for (one, left), (other, right) in product(given.items(), repeat=2)
        if "c" in (left[0], right[0])
    ]
    terms += [text.format(one) for text in TEXTS for type_, one in given.items() if "D" in type_]
    with ivm.open(":memory:") as ws:
        for run in (ws.sql, peer.execute):
            declared = ", ".join(f"{name} {type_}" for type_, name in columns.items())
            run(f"CREATE TABLE s (id INTEGER PRIMARY KEY, {declared})")
            run(f"INSERT INTO s VALUES (1, {', '.join(VALUES.values())})")
        own = _found(lambda text: next(iter(ws.sql(text))), terms)
        theirs = _found(lambda text: peer.execute(text).fetchone(), terms)
    for term, *both in zip(terms, own, theirs, strict=True):
        if both[0] != both[1] and None not in both:
            different[term] = both[0], both[1]
    assert not different
    assert own.count(None) <= theirs.count(None)
