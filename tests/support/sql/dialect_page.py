"""The page `docs/dialects.md`, from what the engines and the product said (see
dialect_cases.py).
"""

from __future__ import annotations

import json
from typing import Any

from ivm.sql.dialects.read import TABLES
from tests.support.sql.dialect_cases import DIALECTS, FIXTURES, common, differences, recorded

ENGINES = {"duckdb": "DuckDB", "sqlite": "SQLite", "spark": "Spark", "postgres": "PostgreSQL"}
HEAD = """# Where DuckDB, SQLite, Spark and PostgreSQL differ, and what is done here

`ws.sql(text, dialect="spark")` answers as Spark does, and so for `sqlite` and `postgres`: each dialect has a table of
its functions, operators and casts, and a function that is not in it is refused by its name. This page is generated
from the tests: {versions} were asked the expressions below, and their
answers are compared with the product's at each run of the suite. Spark is asked with `spark.sql.ansi.enabled`, as it
is by default, and all sessions are in UTC, as times are here.

**What is everywhere here as in DuckDB**: the names and the types of results (the `avg` of integers is a `DOUBLE`, and
a comparison is a `BOOLEAN` also in SQLite), which types a function takes (where another engine refuses one, it may be
taken here), texts compared by code points, columns of one type also in SQLite (a `DECIMAL` divides as one, though its
whole values are `INTEGER` there), moments from the year 1 to 9999,
`NUMERIC` without digits in `CREATE TABLE` as `DECIMAL(18,3)`, and PostgreSQL's `avg` of numbers as a `DOUBLE`, which a
cast to an integer rounds to the even of two. Tables have no NaN: what gives NaN is an error of the transaction,
and null with `TRY`.

## The same expression in each

A cell is the engine's own answer, and the product's in that dialect. *refused* after it means that the product does
not evaluate it in this dialect and says so, *differs* that it gives another answer; *error* means that the engine
refuses it. In the lists of PostgreSQL below, `{{int4}}` in an expression stands for each edge value of that type, in
columns and as constants.

"""


def text() -> str:
    """Return the page."""
    found = {name: recorded(name) for name in ENGINES}
    here = json.loads((FIXTURES / "here.json").read_text(encoding="utf-8"))
    versions = ", ".join(one["version"] for one in found.values())
    parts = [HEAD.format(versions=versions), _table(found, here["common"])]
    for name in DIALECTS:
        parts.append(_dialect(name, here[name]))
    return "".join(parts).rstrip("\n") + "\n"


def _table(found: dict[str, Any], here: dict[str, dict[str, str]]) -> str:
    lines = list[str]()
    for line in common():
        if line.startswith("# "):
            lines += [
                "",
                f"### {line[2:]}",
                "",
                f"| | {' | '.join(ENGINES.values())} |",
                "|---" * (len(ENGINES) + 1) + "|",
            ]
            continue
        cells = [_cell(found[name]["common"][line], here[line][name]) for name in ENGINES]
        lines.append(f"| {_code(line)} | {' | '.join(cells)} |")
    return "\n".join(lines[1:]) + "\n"


def _cell(answer: Any, verdict: str) -> str:
    if isinstance(answer, dict):
        return "error"
    shown = _code(_value(answer[0][0]))
    return shown if verdict == "equal" else f"{shown} *{verdict}*"


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "NULL" if value is None else str(value).lower()
    # NaN and infinities, as the fixtures have them
    if isinstance(value, str) and value.startswith("float "):
        return value.removeprefix("float ")
    return repr(value) if isinstance(value, str) else str(value)


def _code(shown: str) -> str:
    return f"`{shown}`".replace("|", "\\|") if shown else ""


def _dialect(name: str, here: dict[str, list[str]]) -> str:
    own = TABLES[name]
    equal = sum(verdict == "equal" for verdict, _ in here.values())
    refused = [(one, words) for one, (verdict, words) in here.items() if verdict == "refused"]
    others = [(one, why) for (dialect, one), why in differences().items() if dialect == name]
    lines = ["", f"## {own.name}", "",
             f"Of {len(here)} expressions over a table of edge values, {equal} are equal to "
             f"{own.name}'s, "
             f"{len(refused)} are refused, and {len(others)} differ as said here.", "",
             f"**Functions**: {', '.join(f'`{one}`' for one in own.names())}.", ""]  # fmt: skip
    if others:
        lines += [
            "| differs | |",
            "|---|---|",
            *(f"| {_code(one)} | {why} |" for one, why in others),
            "",
        ]
    lines += [
        "| refused | by these words |",
        "|---|---|",
        *(f"| {_code(one)} | {_plain(words)} |" for one, words in refused),
    ]
    return "\n".join(lines) + "\n"


def _plain(words: str) -> str:
    """Return the words of an error without its place."""
    shown = words.partition("sql:")[2].lstrip("0123456789: ").split("\n")[0]
    return shown.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")
