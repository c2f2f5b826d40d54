"""Random queries of SQL as kept views under random edits, equal to DuckDB's answers after each
commit.
"""

import random
from collections import Counter
from pathlib import Path
from typing import Protocol

import duckdb
import pytest

import ivm
from ivm.sql.errors import SqlError
from tests.support.sql.framed import Windows
from tests.support.sql.joined import Joins
from tests.support.sql.oracle import Both
from tests.support.sql.queries import Generator
from tests.support.sql.recursions import Recursions


class Queries(Protocol):
    """What makes tables, edits and queries from a seed."""

    random: random.Random

    def schema(self) -> list[str]:
        """Return the CREATE TABLE statements."""

    def edit(self) -> str:
        """Return one INSERT, UPDATE or DELETE."""

    def query(self) -> str:
        """Return a query."""


def run(generator: Queries, folder: Path) -> Counter[str]:
    """Ask four queries and keep them under some edits; return what happened. Raises Differs."""
    done = Counter[str]()
    with ivm.open(folder / "w.pages", threads=1, sync="off") as workspace:
        both = Both(workspace)
        for statement in (*generator.schema(), *(generator.edit() for _ in range(6))):
            both.run(statement)
        for number in range(4):
            query = generator.query()
            try:
                both.duck.execute(query).fetchall()
            except duckdb.Error:
                continue
            try:
                both.ask(query)
                both.keep(f"v{number}", query)
                done["kept"] += 1
            except SqlError:
                done["refused"] += 1
        both.compare()
        for _ in range(5):
            with workspace.transaction() as txn:
                for edit in [generator.edit() for _ in range(generator.random.choice([1, 1, 3]))]:
                    both.duck.execute(edit)
                    txn.sql(edit)
            both.compare()
        assert not workspace.check()
    return done


KINDS = [Generator, Joins, Windows, Recursions]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_kept_views_are_duckdbs_answers(kind: type[Queries], seed: int, tmp_path: Path) -> None:
    done = run(kind(seed), tmp_path)
    assert done["kept"] and done["refused"] <= done["kept"]


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1000, 6000))
@pytest.mark.parametrize("kind", KINDS)
def test_many_kept_views_are_duckdbs_answers(
    kind: type[Queries], seed: int, tmp_path: Path
) -> None:
    run(kind(seed), tmp_path)
