"""Queries over the tables of TPC-C, kept under its kind of edits: equal to DuckDB's answers
after each commit.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ivm
from ivm.sql.errors import SqlError
from tests.support.sql.oracle import Both

TEXT = Path(__file__).with_name("tpcc.sql").read_text()
BATCH = 9  # queries that are kept in one workspace


def section(name: str) -> list[str]:
    """Return the statements of a part of the file."""
    part = TEXT.split(f"-- {name}\n")[1].split("\n-- ")[0]
    return [statement.strip() for statement in part.split(";\n") if statement.strip()]


QUERIES = section("queries")
REFUSED = {  # by what the message says
    "> INTERVAL 1 MONTH": "an interval of months is not compared",
    "COUNT(*), UNNEST(": "unnest in a select list is kept once, without groups",
}


BATCHES = [
    pytest.param(first, marks=[pytest.mark.campaign] * (first // BATCH % 6 != 0))
    for first in range(0, len(QUERIES), BATCH)
]


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    with ivm.open(tmp_path / "s.pages", threads=1) as workspace:
        pair = Both(workspace)
        for statement in (*section("schema"), *section("rows")):
            pair.run(statement)
        yield pair


@pytest.mark.parametrize("first", BATCHES)
def test_views_are_duckdbs_answers_after_each_edit(both: Both, first: int) -> None:
    for number, query in enumerate(QUERIES[first : first + BATCH]):
        reason = next((says for part, says in REFUSED.items() if part in query), None)
        if reason is not None:
            with pytest.raises(SqlError, match=reason):
                both.keep(f"v{number}", query)
            continue
        both.keep(f"v{number}", query)
        described = both.duck.execute(f"DESCRIBE {query}").fetchall()
        own = both.workspace.sql(f"DESCRIBE v{number}")
        assert own is not None and [row[:2] for row in own] == [row[:2] for row in described]
    both.compare()
    for edit in section("edits"):
        both.run(edit)
        both.compare()
    assert both.workspace.check() == []
