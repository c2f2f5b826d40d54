"""Statements within one transaction do what the same statements do one by one, under every kind
of view.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow.compute as pc
import pytest

import ivm
from ivm.errors import FunctionConflictError
from tests.support.programs.amounts import times

TABLES = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER, y INTEGER)",
    "CREATE TABLE u (k INTEGER PRIMARY KEY)",
    "CREATE TABLE s (k INTEGER, v VARCHAR)",
    "CREATE TABLE w (a INTEGER PRIMARY KEY, b INTEGER UNIQUE CHECK (b < 3), "
    "k INTEGER REFERENCES u(k))",
)
VIEWS = {  # of each, other indices, helper views and states are kept
    "v_join": "SELECT a.id, b.id AS k FROM t a JOIN t b ON a.x = b.y",
    "v_sum": "SELECT y, sum(x) AS x, count(*) AS n FROM t GROUP BY y",
    "v_ends": "SELECT x, min(y) AS low, max(id) AS high FROM t GROUP BY x",
    "v_total": "SELECT sum(x) AS x, avg(y) AS y FROM t",
    "v_distinct": "SELECT y, count(DISTINCT x) AS n FROM t GROUP BY y",
    "v_rank": "SELECT id, rank() OVER (PARTITION BY y ORDER BY x) AS r FROM t",
    "v_running": "SELECT id, sum(x) OVER (ORDER BY y, id) AS x FROM t",
    "v_moving": "SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS "
                "x FROM t",
    "v_range": "SELECT a.id, sum(b.id) AS n FROM t a JOIN t b ON b.x < a.x GROUP BY a.id",
    "v_full": "SELECT t.id, u.k FROM t FULL JOIN u ON t.x = u.k",
    "v_missing": "SELECT k FROM u WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.x = u.k)",
    "v_either": "SELECT x AS k FROM t UNION ALL SELECT k FROM s",
    "v_both": "SELECT x AS k FROM t INTERSECT SELECT k FROM u",
    "v_first": "SELECT id, x FROM t ORDER BY x, id LIMIT 2",
    "v_texts": "SELECT k, string_agg(v, ',' ORDER BY v) AS v FROM s GROUP BY k",
    "v_bag": "SELECT s.v, t.y FROM s JOIN t ON s.k = t.x",
    "v_reached": "WITH RECURSIVE r(a, b) AS (SELECT x, y FROM t UNION SELECT r.a, t.y FROM r JOIN "
                 "t ON r.b = t.x) "
               "SELECT a, b FROM r",
    "v_nearest": "SELECT t.id, u.k FROM t ASOF JOIN u ON t.x >= u.k",
    "v_unique": "SELECT w.a, t.id FROM w LEFT JOIN t ON w.b = t.x",
}  # fmt: skip
OVER_VIEWS = {  # each reads views that are kept
    "w_join": "SELECT a.y AS k, b.high FROM v_sum a JOIN v_ends b ON a.x = b.x",
    "w_sum": "SELECT k, sum(id) AS n FROM v_join GROUP BY k",
    "w_rank": "SELECT y, row_number() OVER (ORDER BY n DESC, y) AS r FROM v_sum",
    "w_missing": "SELECT a FROM v_reached WHERE b NOT IN (SELECT k FROM u)",
    "w_reached": "WITH RECURSIVE r(k) AS (SELECT id FROM v_join UNION SELECT v.k FROM r JOIN v_join v "
                 "ON r.k = v.id) SELECT k FROM r",
}  # fmt: skip
BENEATH = {
    "w_join": ["v_sum", "v_ends"],
    "w_sum": ["v_join"],
    "w_rank": ["v_sum"],
    "w_missing": ["v_reached"],
    "w_reached": ["v_join"],
}
QUERIES = VIEWS | OVER_VIEWS
RULES = """
least[y] = m <- agg<<m = min(x)>> t[_] = (x, y).
above(i, j) <- t[i] = (x, _), t[j] = (y, _), x < y.
t[_] = (x, y) -> x < 1000.
"""
NUMBERS = range(-1, 4)


class Statements:
    """Makes statements from a seed, some by the methods of a transaction."""

    def __init__(self, seed: int, views: list[str]) -> None:
        self.random, self.views = Random(seed), views

    def one(self) -> str | tuple[str, str, Any]:
        """Return a text of SQL, or the name of a method with its arguments."""
        some, number = self.random.choice, self.random.choice(NUMBERS)
        inner, column = self.inner(), some("xy")
        row = (self.random.randrange(6), some(NUMBERS), some([None, *NUMBERS]))
        shown = str(row).replace("None", "NULL")
        return some(
            [
                f"INSERT OR IGNORE INTO t VALUES {shown}",
                f"INSERT INTO t VALUES {shown}",
                f"INSERT OR IGNORE INTO u SELECT x FROM t WHERE {column} = {number}",
                f"INSERT INTO s SELECT x, 'a' || id FROM t WHERE {column} IN ({inner})",
                f"UPDATE t SET {column} = {number} WHERE {some('xy')} IN ({inner})",
                f"UPDATE t SET x = x + 1 WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.{column})",
                f"UPDATE t SET y = {number}",
                f"UPDATE s SET k = {number} WHERE k NOT IN ({inner})",
                f"DELETE FROM t WHERE {column} IN ({inner})",
                f"DELETE FROM u WHERE k = {number}",
                f"DELETE FROM s WHERE k IN ({inner})",
                f"MERGE INTO t USING u ON t.x = u.k WHEN MATCHED THEN UPDATE SET y = {number} "
                "WHEN NOT MATCHED THEN INSERT VALUES (u.k + 10, u.k, NULL)",
                f"SELECT * FROM t WHERE {column} IN ({inner})",
                f"SELECT a.id, b.v FROM t a JOIN s b ON a.{column} = b.k",
                "SELECT x, count(*) FROM t GROUP BY x",
                f"SELECT * FROM {some(self.views)}",
                f"SELECT t.id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.{column})",
                f"INSERT INTO t VALUES {shown} ON CONFLICT (id) DO UPDATE SET x = t.x + excluded.x",
                f"INSERT OR REPLACE INTO t VALUES {shown}",
                f"INSERT OR IGNORE INTO w SELECT id, {column}, x FROM t",
                "INSERT INTO w SELECT id, y, x FROM t WHERE x IN (SELECT k FROM u) RETURNING a, b",
                f"UPDATE w SET b = {number} WHERE k IN ({inner})",
                f"DELETE FROM w WHERE b IN ({inner}) RETURNING *",
                "DELETE FROM w",
                f"UPDATE t SET x = s.k FROM s WHERE s.k = t.{column} AND s.v = 'a' RETURNING id, x",
                ("set", "t", [row]),
                ("insert", "t", [row]),
                ("delete", "t", [row[:1]]),
                ("insert", "s", [(number, "b"), (number, "c")]),
                ("delete", "s", [(number, "b")]),
                ("delete_range", "t", (number,), (number + 2,)),
                ("delete_where", "t", pc.field("x") == number),
                ("sql", "SELECT x, y FROM t WHERE id = ?", [row[0]]),
                ("sql", "UPDATE t SET x = x + 1, y = ? WHERE id = ?", [number, row[0]]),
                ("sql", "DELETE FROM t WHERE id = ?", [row[0]]),
                ("sql", "INSERT INTO t VALUES (?, ?, ?)", [*row]),
                ("sql", "SELECT a FROM w WHERE b = ?", [number]),
                ("sql", "SELECT count(*) FROM s WHERE k = ?", [number]),
            ]
        )

    def inner(self) -> str:
        """Return a query of one column, of a table or of a view."""
        column, number = self.random.choice("xy"), self.random.choice(NUMBERS)
        return self.random.choice(
            [
                "SELECT k FROM u",
                "SELECT k FROM s",
                f"SELECT {column} FROM t WHERE id > {number}",
                f"SELECT a.{column} FROM t a JOIN u ON a.x = u.k",
                f"SELECT {number}",
                "SELECT max(x) FROM t",
                *(f"SELECT * FROM ({shown_of(view)})" for view in self.views),
            ]
        )


def shown_of(view: str) -> str:
    """Return a query of a number of each row of a view."""
    named = {"y": "v_sum v_distinct v_bag w_rank least", "a": "v_reached v_unique w_missing"} | {
        "x": "v_ends v_total",
        "k": "v_missing v_either v_both v_texts w_join w_sum w_reached",
        "i": "above",
    }
    column = next((column for column, views in named.items() if view in views.split()), "id")
    return f"SELECT {column} FROM {view}"


def made(views: list[str]) -> ivm.Workspace:
    """Return a workspace with some rows and views."""
    workspace = ivm.open(":memory:", threads=1)
    for text in TABLES:
        workspace.sql(text)
    workspace.sql("INSERT INTO t VALUES (1, 0, 1), (2, 1, 2), (3, 1, NULL), (4, 2, 0)")
    workspace.sql(
        "INSERT INTO u VALUES (1), (3); INSERT INTO s VALUES (1, 'a'), (1, 'a'), (2, 'b')"
    )
    for view in views:
        if view in QUERIES:
            workspace.sql(f"CREATE MATERIALIZED VIEW {view} AS {QUERIES[view]}")
    workspace.install(RULES, name="rules")
    return workspace


def outcome(target: Any, one: str | tuple[str, str, Any]) -> Any:
    """Return what a statement says, as rows or as an error."""
    method, *arguments = ("sql", one) if isinstance(one, str) else one
    try:
        said = getattr(target, method)(*arguments)
        return Counter(said or ()) if method in ("sql", "execute") else None
    except ivm.IvmError as error:
        return error


def is_late(said: Any) -> bool:
    """Return whether a statement fails alone, and within a transaction only the commit would."""
    return isinstance(said, FunctionConflictError) or "does not hold" in str(said)


def agree(said: Any, wanted: Any) -> bool:
    """Return whether a statement says in a transaction what it says alone."""
    if isinstance(wanted, Exception):
        return type(said) is type(wanted) and str(said) == str(wanted)
    return bool(said == wanted)


def all_agree(target: Any, statements: list[Any], expected: list[Any]) -> None:
    """Run statements, which say what they said alone."""
    for one, wanted in zip(statements, expected, strict=True):
        said = outcome(target, one)
        assert agree(said, wanted), (one, said, wanted)


def within_brackets(workspace: ivm.Workspace, statements: list[Any], expected: list[Any]) -> None:
    """Run statements between BEGIN and COMMIT, and after each two that a savepoint undoes."""
    workspace.sql("BEGIN")
    for one, wanted in zip(statements, expected, strict=True):
        all_agree(workspace, [one], [wanted])
        workspace.sql("SAVEPOINT a; DELETE FROM t WHERE x > 0; UPDATE u SET k = k + 7")
        workspace.sql("ROLLBACK TO SAVEPOINT a")
    workspace.sql("COMMIT")


def within_with(workspace: ivm.Workspace, statements: list[Any], expected: list[Any]) -> None:
    """Run statements in a transaction of Python."""
    with workspace.transaction() as txn:
        all_agree(txn, statements, expected)


def within_preview(workspace: ivm.Workspace, statements: list[Any], expected: list[Any]) -> None:
    """Preview statements, then commit them."""
    workspace.preview(lambda txn: all_agree(txn, statements, expected)).commit()


def within_trial(workspace: ivm.Workspace, statements: list[Any], expected: list[Any]) -> None:
    """Try statements while views are read between them, then run them."""
    with workspace.what_if() as trial:
        for one, wanted in zip(statements, expected, strict=True):
            all_agree(trial, [one], [wanted])
            assert len([*trial["least"]]) <= len([*trial["t"]])
    within_with(workspace, statements, expected)


def within_prepared(workspace: ivm.Workspace, statements: list[Any], expected: list[Any]) -> None:
    """Run statements that are prepared by hand."""
    with workspace.transaction() as txn:
        for one, wanted in zip(statements, expected, strict=True):
            prepared = workspace.prepare_sql(one if isinstance(one, str) else one[1], inside=txn)
            all_agree(
                prepared, [("execute", *one[2:]) if one[0] == "sql" else ("execute",)], [wanted]
            )


BY_TEXT = within_brackets, within_prepared  # these run no methods
DOORS = *BY_TEXT, within_with, within_preview, within_trial


def run(
    seed: int, within: Callable[[ivm.Workspace, list[Any], list[Any]], None], transactions: int = 3
) -> None:
    """Run random statements one by one, then in transactions, and compare what they say and
    leave.
    """
    random = Random(seed)
    some = [*random.sample(sorted(VIEWS), 4), *random.sample(sorted(OVER_VIEWS), 1)]
    views = [*dict.fromkeys([*BENEATH[some[-1]], *some]), "least", "above"]
    generator = Statements(seed, views)
    with made(views) as alone, made(views) as together:
        for _ in range(transactions):
            statements = [generator.one() for _ in range(random.randint(2, 6))]
            if within in BY_TEXT:
                statements = [one for one in statements if isinstance(one, str) or one[0] == "sql"]
            expected = [(one, outcome(alone, one)) for one in statements]
            expected = [(one, wanted) for one, wanted in expected if not is_late(wanted)]
            within(together, [one for one, _ in expected], [wanted for _, wanted in expected])
            for name in ("t", "u", "s", "w", *views):
                assert Counter(alone.sql(f"SELECT * FROM {name}") or ()) == Counter(
                    together.sql(f"SELECT * FROM {name}") or ()
                ), (name, statements)
        assert not together.check()


@pytest.mark.filterwarnings("ignore::ivm.sql.errors.SqlWarning")
@pytest.mark.parametrize("within", DOORS)
@pytest.mark.parametrize("seed", range(times(1)))
def test_statements_of_one_transaction_are_those_statements_one_by_one(
    seed: int, within: Callable[[ivm.Workspace, list[Any], list[Any]], None]
) -> None:
    run(seed, within)


@pytest.mark.campaign
@pytest.mark.filterwarnings("ignore::ivm.sql.errors.SqlWarning")
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_many_transactions_are_their_statements_one_by_one(seed: int) -> None:
    run(seed, Random(seed).choice(DOORS), transactions=30)
