"""Expressions of each dialect, and what the real engine says of them, as `fixtures/dialects` keeps
it.

    expressions/spark.txt             for each row of the table `t`
    expressions/spark_groups.txt      for all rows, and for each group `g`
    expressions/spark_windows.txt     for each row, over others
    expressions/spark_queries.txt     whole queries: clauses that the dialect alone has
    expressions/postgres_edges.txt    with the edge values of each type (dialect_edges.py)
    expressions/common.txt            without a table, in each engine
    expressions/differences.txt       where the product gives another answer, and why: docs/dialects.md names these

`python -m tests.support.sql.record_dialects` asks the engines again.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.sql import dialect_edges

FOLDER = Path(__file__).parent / "expressions"
FIXTURES = Path(__file__).parents[3] / "fixtures" / "dialects"
DIALECTS = ("spark", "postgres", "sqlite")
KINDS = ("", "_groups", "_windows", "_queries")


class Case(NamedTuple):
    """An expression and the queries that ask for it: all that one query cannot answer is asked
    row by row.
    """

    expression: str
    queries: tuple[str, ...]
    one_by_one: tuple[str, ...] = ()


def cases(dialect: str) -> list[Case]:
    """Return the cases of a dialect, in the order of its files."""
    plain = [case(one, kind) for kind in KINDS for one in _lines(FOLDER / f"{dialect}{kind}.txt")]
    edges = _lines(FOLDER / f"{dialect}_edges.txt")
    return plain + [Case(*made) for form in edges for made in dialect_edges.forms(form)]


def common() -> list[str]:
    """Return the lines of the expressions that each engine is asked; a line `# ...` is the title
    of those below.
    """
    return (FOLDER / "common.txt").read_text(encoding="utf-8").splitlines()


def differences() -> dict[tuple[str, str], str]:
    """Return why the product gives another answer, by the dialect and the expression."""
    lines = (FOLDER / "differences.txt").read_text(encoding="utf-8").splitlines()
    return {
        (dialect, expression): why
        for dialect, expression, why in (one.split(" | ") for one in lines)
    }


def _lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [one for one in lines if one and not one.startswith("# ")]


def case(expression: str, kind: str = "") -> Case:
    """Return an expression with its queries."""
    if kind == "_queries":
        return Case(expression, (expression,))
    if kind == "_groups":
        return Case(
            expression,
            (f"SELECT {expression} AS v FROM t", f"SELECT g, {expression} AS v FROM t GROUP BY g"),
        )
    query = f"SELECT id, {expression} AS v FROM t"
    return Case(
        expression, (query,), tuple(f"{query} WHERE id = {n}" for n in range(1, 9)) * (not kind)
    )


def recorded(dialect: str) -> dict[str, Any]:
    """Return what an engine said: its `version`, and its `answers` by expression."""
    found: dict[str, Any] = json.loads((FIXTURES / f"{dialect}.json").read_text(encoding="utf-8"))
    return found
