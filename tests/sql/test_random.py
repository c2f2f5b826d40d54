"""Random queries of SQL as kept views under random edits, equal to DuckDB's answers after each commit."""

from collections import Counter
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.sql.errors import SqlError
from tests.support.sql.oracle import Both
from tests.support.sql.queries import Features, Generator


def run(seed: int, folder: Path, features: Features) -> Counter[str]:
    """Keep four queries under some edits; return what happened. Raises Differs."""
    generator, done = Generator(seed, features), Counter[str]()
    with ivm.open(folder / f"{seed}.pages", threads=1) as workspace:
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
    return done + generator.used


@pytest.mark.parametrize("seed", range(8))
def test_kept_views_are_duckdbs_answers(seed: int, tmp_path: Path) -> None:
    done = run(seed, tmp_path, Features())
    assert done["kept"] and done["refused"] <= done["kept"]


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1000, 6000))
def test_many_kept_views_are_duckdbs_answers(seed: int, tmp_path: Path) -> None:
    run(seed, tmp_path, Features())
