"""What a statement costs beside many views that it does not read: functions of Python called, as
on any machine.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import ivm
from tests.support.calls import functions_called

TABLES = """
CREATE TABLE paid (id INT PRIMARY KEY, who TEXT NOT NULL, cents INT NOT NULL);
CREATE TABLE other (id INT PRIMARY KEY, who TEXT NOT NULL, cents INT NOT NULL);
CREATE TABLE person (who TEXT PRIMARY KEY, city TEXT NOT NULL);
INSERT INTO other VALUES (1, 'ada', 5), (2, 'bob', 7), (3, 'eve', 9);
INSERT INTO paid SELECT * FROM other;
INSERT INTO person VALUES ('ada', 'Rome'), ('bob', 'Oslo');
"""
VIEW = """
CREATE MATERIALIZED VIEW {} AS SELECT city, sum(cents) AS s, count(*) AS n, max(cents) AS most
FROM paid LEFT JOIN person USING (who) GROUP BY city
"""
STATEMENTS = {
    "question": "SELECT * FROM v0",
    "question of a table": "SELECT cents FROM other WHERE id = 2",
    "edit": "UPDATE other SET cents = cents + 1 WHERE id = 2",
}


@contextmanager
def beside(views: int) -> Iterator[ivm.Workspace]:
    """Give a workspace with some views of one shape."""
    with ivm.open(":memory:", threads=1) as ws:
        ws.sql(TABLES)
        for n in range(views):
            ws.sql(VIEW.format(f"v{n}"))
        yield ws


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_costs_the_same_beside_many_views(statement: str) -> None:
    found = []
    for views in (1, 31):
        with beside(views) as ws:
            ws.sql(STATEMENTS[statement])  # what is cached is cached
            found.append(len(functions_called(lambda ws=ws: ws.sql(STATEMENTS[statement]))))
    few, many = found
    assert many <= 1.5 * few, found


def test_opening_costs_each_view_once(tmp_path) -> None:
    found = []
    for views in (8, 32):
        path = tmp_path / f"{views}.pages"
        with ivm.open(path, sync="off", threads=1) as ws:
            ws.sql(TABLES)
            for n in range(views):
                ws.sql(VIEW.format(f"v{n}"))
        found.append(len(functions_called(lambda path=path: ivm.open(path, threads=1).close())))
    few, many = found
    assert many <= 4.5 * few, found
