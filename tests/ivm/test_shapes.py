"""Scans, stars, chains and the like: what is filled and maintained is what the slow truth and DuckDB say, each time."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pagestore
from tests.support.mirror import Mirror
from tests.support.programs.shapes import DECLARATIONS, RELATIONS, shapes

EXAMPLES = 40  # campaigns run thousands
relaxed = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
ways = st.sampled_from(["auto", "auto", "probe", "match"])


class Database:
    """The same relations in DuckDB."""

    def __init__(self) -> None:
        self.connection = pytest.importorskip("duckdb").connect(config={"threads": 1})
        for name, (width, _) in RELATIONS.items():
            self.connection.execute(f"create table {name} ({', '.join(f'c{i} bigint' for i in range(width))})")

    def change(self, edits: list) -> None:
        for name, row, inserted in edits:
            if inserted:
                self.connection.execute(f"insert into {name} values {row}")
            else:
                where = " and ".join(f"c{i} = {value}" for i, value in enumerate(row))
                self.connection.execute(f"delete from {name} where {where}")

    def rows(self, query: str) -> list[tuple]:
        return sorted(tuple(map(int, row)) for row in self.connection.execute(query).fetchall())


def follow(case: tuple, loaded: bool, maintenance: str) -> None:
    """Install before or after the first load, then edit, comparing each time; in the end check all that is kept."""
    rules, queries, transactions = case
    database = Database()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.pages"
        with pagestore.open(path, sync="off") as store, store.transaction() as txn:
            for name, (width, keys) in RELATIONS.items():
                columns = [f"c{i}" for i in range(width)]
                txn.create(name, ", ".join(f"{c}: int64" for c in columns), key=tuple(columns[:keys]))
        mirror = Mirror(path, DECLARATIONS)
        if not loaded:
            mirror.install("views", rules, maintenance=maintenance)
        for number, edits in enumerate(transactions):
            mirror.change(edits)
            database.change(edits)
            if loaded and not number:
                mirror.install("views", rules, maintenance=maintenance)
            for view, query in queries.items():
                rows = database.rows(query)
                assert sorted(mirror.workspace[view]) == rows, (view, query)
                assert sorted(tuple(row.values()) for row in asked(mirror, rules, view)) == rows, (view, query)
            if number == 2:
                mirror.reopen()
        assert mirror.workspace.check() == []
        mirror.close()


def asked(mirror: Mirror, rules: str, view: str) -> list[dict]:
    """The rows that a view's rule has as a query."""
    (rule,) = (line for line in rules.split("\n") if line.startswith(view))
    return mirror.workspace.query(f"q{rule}").to_arrow().to_pylist()


@relaxed
@given(shapes(atoms_max=1, rules_max=4), st.booleans(), ways)
def test_bodies_of_one_relation(case, loaded, maintenance):
    follow(case, loaded, maintenance)


@relaxed
@given(shapes(), st.booleans(), ways)
def test_joins(case, loaded, maintenance):
    follow(case, loaded, maintenance)


@pytest.mark.campaign
@settings(relaxed, max_examples=10_000)
@given(shapes(atoms_max=1, rules_max=4), st.booleans(), ways)
def test_campaign_of_bodies_of_one_relation(case, loaded, maintenance):
    follow(case, loaded, maintenance)


@pytest.mark.campaign
@settings(relaxed, max_examples=10_000)
@given(shapes(atoms_max=6), st.booleans(), ways)
def test_campaign_of_joins(case, loaded, maintenance):
    follow(case, loaded, maintenance)
