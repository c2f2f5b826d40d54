"""What the product says of the cases of a dialect, beside what the real engine said."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import ivm
from ivm.errors import IvmError
from tests.support.sql.dialect_cases import DIALECTS, Case, cases, common, recorded
from tests.support.sql.engines import create, insert, plain

TYPES = {
    "spark": {"TIMESTAMP": "TIMESTAMPTZ"},
    "postgres": {},
    "sqlite": {"DATE": "VARCHAR", "TIMESTAMP": "VARCHAR"},
}


class Said(NamedTuple):
    """The product's answer to a case: `equal`, `refused` with its words, or `differs` with both
    answers.
    """

    verdict: str
    words: str = ""


def workspace(path: str, dialect: str) -> ivm.Workspace:
    """Return a workspace with the table `t`."""
    made = ivm.open(path, sync="off")
    made.sql(create(TYPES[dialect]).replace("id INTEGER", "id INTEGER PRIMARY KEY"))
    made.sql(insert())
    return made


def said(made: ivm.Workspace, dialect: str, one: Case, expected: list[Any]) -> Said:
    """Compare the product with the engine, query by query."""
    queries = (
        one.queries
        if len(expected) == len(one.queries)
        and not (one.one_by_one and isinstance(expected[0], dict))
        else one.one_by_one[: len(expected)]
    )
    if one.one_by_one and len(expected) == 1 and isinstance(expected[0], dict):
        queries = one.one_by_one[:1]
    refused = ""
    for query, wanted in zip(queries, expected, strict=True):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows = made.sql(query, dialect=dialect).to_arrow().to_pylist()
            found = sorted(([plain(value) for value in row.values()] for row in rows), key=repr)
        except IvmError as error:
            if not isinstance(wanted, dict):
                refused = refused or str(error)
            continue
        except Exception as error:
            return Said("crash", f"{type(error).__name__} {error}"[:300])
        near = 1e-6 if "float4}" in one.expression or "as real" in one.expression else 1e-8
        if isinstance(wanted, dict) or not alike(found, wanted, near):
            return Said("differs", f"{found} for {wanted}"[:600])
    return Said("refused", refused) if refused else Said("equal")


def alike(found: Any, wanted: Any, near: float = 1e-8) -> bool:
    """Return whether two plain values are equal, floats by nine digits, or as `near` says."""
    if isinstance(found, list) and isinstance(wanted, list):
        pairs = zip(found, wanted, strict=False)
        return len(found) == len(wanted) and all(alike(*pair, near) for pair in pairs)
    if isinstance(found, dict) and isinstance(wanted, dict):
        return [*found] == [*wanted] and all(alike(found[key], wanted[key], near) for key in found)
    if isinstance(found, bool) and wanted in (0, 1):  # of SQLite
        return found == wanted
    numbers = [
        isinstance(one, int | float) and not isinstance(one, bool) for one in (found, wanted)
    ]
    if all(numbers):
        return found == wanted or abs(found - wanted) <= near * max(abs(found), abs(wanted))
    return type(found) is type(wanted) and found == wanted


def all_said(path: str, dialect: str) -> dict[str, Said]:
    """Return the product's answers to all cases of a dialect."""
    answers, made = recorded(dialect)["answers"], workspace(path, dialect)
    try:
        return {
            one.expression: said(made, dialect, one, answers[one.expression])
            for one in cases(dialect)
        }
    finally:
        made.close()


def in_common(path: str) -> dict[str, dict[str, str]]:
    """Return the product's verdict on each expression that all engines are asked, by the
    dialect.
    """
    made = workspace(path, "postgres")
    try:
        return {
            one: {
                name: said(
                    made, name, Case(one, (f"SELECT {one} AS v",)), [recorded(name)["common"][one]]
                ).verdict
                for name in ("duckdb", *DIALECTS)
            }
            for one in common()
            if one[:1] != "#"
        }
    finally:
        made.close()


if __name__ == "__main__":
    import sys
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        found = all_said(f"{folder}/w.pages", sys.argv[1])
    for expression, one in found.items():
        if one.verdict != "equal" and (len(sys.argv) < 3 or one.verdict == sys.argv[2]):
            print(one.verdict, "|", expression, "|", one.words)
    print(
        {
            v: sum(one.verdict == v for one in found.values())
            for v in ("equal", "refused", "differs", "crash")
        }
    )
