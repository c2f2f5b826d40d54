"""What a new statement takes to compile, counted in calls of Python, and that what makes it few
rules changes no answer.
"""

from pathlib import Path

import pytest

import ivm
from ivm.lang.ir import Compare, Var, literals_of
from ivm.sql.answers import understood
from ivm.sql.catalog import Catalog
from ivm.sql.dialects.read import read
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder
from tests.support.calls import functions_called
from tests.support.sql.oracle import Both

TABLES = (
    "CREATE TABLE t (k INTEGER PRIMARY KEY, g INTEGER, s VARCHAR, x INTEGER, y DOUBLE, "
    "z DECIMAL(9, 2), b BOOLEAN)",
    "CREATE TABLE u (g INTEGER PRIMARY KEY, name VARCHAR)",
    "INSERT INTO u SELECT i, if(i % 3 = 0, NULL, 'n' || i % 4) FROM range(6) r(i)",
    "INSERT INTO t SELECT i, if(i % 6 = 5, NULL, i % 6), if(i % 4 = 0, NULL, 's' || i % 3), "
    "if(i % 5 < 3, NULL, i), if(i % 3 = 0, NULL, i / 4), if(i % 7 > 2, NULL, i), i % 2 = 0 "
    "FROM range(60) r(i)",
)
EDITS = (
    "UPDATE t SET x = NULL WHERE g = 2", "DELETE FROM t WHERE g = 3", "UPDATE t SET x = 9, z = 1",
    "UPDATE t SET y = NULL, z = NULL WHERE g IS NULL", "DELETE FROM t WHERE k > 2",
    "INSERT INTO t VALUES (90, 3, NULL, NULL, NULL, NULL, NULL)", "DELETE FROM t",
)  # fmt: skip
FOLDS = (
    "sum(x) AS a, sum(y) AS b, sum(z) AS c, count(x) AS d, count(s) AS e, count(*) AS f, "
    "avg(x) AS h, min(z) AS i, sum(k) AS j, sum(x) FILTER (WHERE k > 9) AS l, sum(DISTINCT x) AS m"
)
# a query, and the most rules that it is
RULES = {
    f"SELECT g, {FOLDS} FROM t GROUP BY g": 15,
    "SELECT g, sum(x) AS a, sum(y) AS b, count(z) AS c, count(*) AS d FROM t GROUP BY g": 2,
    f"SELECT s, b, {FOLDS} FROM t LEFT JOIN u USING (g) GROUP BY s, b": 17,
    f"SELECT {FOLDS} FROM t WHERE k < 50": 35,
    "SELECT count(*) AS n, sum(u.g) AS s FROM t, u": 7,
}
# in the order of a LIMIT equal rows are told apart by their keys, whatever evaluates it
LIMITED = (
    "SELECT g, sum(x) AS a FROM t GROUP BY g ORDER BY a LIMIT 3",
    "SELECT g, sum(x) AS a FROM t GROUP BY g ORDER BY a DESC NULLS FIRST LIMIT 3 OFFSET 1",
    "SELECT sum(x) AS a, b, s FROM t GROUP BY s, b ORDER BY b DESC LIMIT 4",
    "SELECT DISTINCT s, b FROM t LIMIT 3",
    "SELECT DISTINCT s, b FROM t ORDER BY s DESC LIMIT 3 OFFSET 2",
    "SELECT g, count(*) AS n FROM t GROUP BY g LIMIT 0",
    "SELECT * FROM (SELECT g FROM t UNION SELECT k FROM t) q ORDER BY g DESC LIMIT 5",
    "WITH q AS (SELECT s, sum(x) AS a FROM t GROUP BY s) SELECT * FROM q ORDER BY a LIMIT 2",
    "SELECT g, count(*) AS n FROM t JOIN u USING (g) GROUP BY g ORDER BY n DESC OFFSET 2",
)


@pytest.fixture
def both(tmp_path: Path) -> Both:
    """A workspace and a DuckDB with two tables."""
    both = Both(ivm.open(tmp_path / "a.pages", threads=1, sync="off"))
    for statement in TABLES:
        both.run(statement)
    return both


def test_aggregates_of_the_same_rows_are_one_rule_and_right(both: Both) -> None:
    for n, (query, most) in enumerate(RULES.items()):
        with both.workspace.store.snapshot() as snap:
            queries = Queries(Builder("sql"), Catalog(snap).schema())
            (node,) = read(query)
            rules = understood(queries, queries.query(node, None, top=True)).finished.rules
        assert len(rules) <= most, query
        both.keep(f"v{n}", query)
        both.ask(query)
    for edit in EDITS:
        both.run(edit)
        both.compare()
        for query in RULES:
            both.ask(query)


def test_a_limit_is_the_same_when_it_is_asked_and_when_it_is_kept(both: Both) -> None:
    for n, query in enumerate(LIMITED):
        both.workspace.sql(f"CREATE MATERIALIZED VIEW v{n} AS {query}")
    for edit in ("UPDATE t SET k = k WHERE k = 1", *EDITS):
        both.run(edit)
        for n, query in enumerate(LIMITED):
            asked = both.workspace.sql(query).to_arrow().to_pylist()
            kept = both.workspace.sql(f"SELECT * FROM v{n}").to_arrow().to_pylist()
            assert len(asked) == len(both.duck.execute(query).fetchall()), query
            assert sorted(map(str, asked)) == sorted(map(str, kept)), (edit, query)


def test_a_new_statement_takes_few_calls_of_python(both: Both) -> None:
    shape = (
        "SELECT u.name, sum(x) AS a, sum(y) AS b, sum(z) AS c, count(*) AS n FROM t, u "
        "WHERE t.g = u.g AND x > {0} AND y < 12{0} GROUP BY u.name ORDER BY a DESC, name LIMIT 1{0}"
    )
    both.ask(shape.format(1))
    calls = len(functions_called(lambda: both.workspace.sql(shape.format(2))))
    assert calls <= 50_000


def test_calls_for_the_aggregates_of_a_query_grow_little_faster_than_they_do() -> None:
    """Each is an atom of the view's rule, whose variables are the groups: these are laid out once,
    and what may be null is found once for a rule.
    """

    def calls(aggregates: int) -> int:
        folds = ", ".join(f"sum(CASE WHEN x = {n} THEN x END)" for n in range(aggregates))
        names = ", ".join(f"c{n}" for n in range(aggregates))
        query = f"CREATE MATERIALIZED VIEW v(g, {names}) AS SELECT g, {folds} FROM r GROUP BY g"
        with ivm.open(":memory:", threads=1) as ws:
            ws.sql("CREATE TABLE r (g BIGINT, x BIGINT)")
            ws.sql("INSERT INTO r VALUES (1, 2), (3, 4)")
            return len(functions_called(lambda: ws.sql(query)))

    calls(2)
    assert calls(32) < 2.5 * calls(16)


def test_an_equation_with_a_subquery_joins_by_its_value(both: Both) -> None:
    """So the join seeks it, and compares no rows one by one."""
    for n, query in enumerate((
        "SELECT k, x FROM t WHERE x = (SELECT max(x) FROM t)",
        "SELECT k FROM t WHERE (SELECT max(g) FROM u) = g",
        "SELECT k FROM t WHERE x = (SELECT min(s.x) FROM t AS s WHERE s.g = t.g)",
    )):  # fmt: skip
        both.keep(f"v{n}", query)
        with both.workspace.store.snapshot() as snap:
            rules = [rule.definition for rule in both.workspace.rules_of(snap).rules]
        literals = literals_of(
            body for rule in rules if f"v{n}" in rule.writes for body in rule.body
        )
        compared = [x for x in literals if isinstance(x, Compare) and x.op == "="]
        assert not any(isinstance(x.left, Var) and isinstance(x.right, Var) for x in compared), (
            query
        )
    for edit in EDITS:
        both.run(edit)
        both.compare()
