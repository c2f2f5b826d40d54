"""Views of tables and cells given as SQL: kept under random changes, equal to DuckDB's; what is
refused.
"""

import random
import warnings
from collections import Counter
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import ivm
from ivm.errors import ConstructError, EditError, RecomputeError
from ivm.rules.compile import compile
from ivm.spark import Cells, Feed
from ivm.spark.follow import refresh
from ivm.spark.materialize import changed_rows
from ivm.sql.errors import SqlError, SqlWarning

TABLE = "CREATE TABLE sale (id BIGINT PRIMARY KEY, shop STRING, cents BIGINT);"
SETS = [
    "SELECT shop, sum(cents) AS s, count(*) AS n FROM sale GROUP BY shop",
    "SELECT count(*) AS n, max(cents) AS m FROM sale",
    "SELECT DISTINCT shop FROM sale WHERE cents > (SELECT avg(cents) FROM sale)",
    "SELECT a.id AS x, b.id AS y FROM sale a LEFT JOIN sale b ON a.shop = b.shop AND a.cents < "
    "b.cents",
    "SELECT id, rank() OVER (PARTITION BY shop ORDER BY cents NULLS LAST) AS r FROM sale",
    "SELECT id FROM sale WHERE shop NOT IN (SELECT shop FROM sale WHERE cents < 2)",
    "SELECT 1 AS x UNION SELECT cents FROM sale",
]
BAGS = [
    "SELECT shop FROM sale WHERE cents > 1",
    "SELECT shop, cents FROM sale UNION ALL SELECT shop, id FROM sale",
]
Row = tuple[int, str | None, int | None]


def table(rows: list[Row], **more: list[str]) -> pa.Table:
    ids, shops, cents = (
        (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    )
    columns = {"id": pa.array(ids, pa.int64()), "shop": pa.array(shops, pa.string())}
    return pa.table({**columns, "cents": pa.array(cents, pa.int64()), **more})


def changed(random_: random.Random, rows: dict[int, Row]) -> pa.Table:
    """Change some rows; return the changes."""
    gone = random_.sample(sorted(rows), min(len(rows), random_.randrange(4)))
    lost = [rows.pop(one) for one in gone]
    came = [
        (one, random_.choice(["a", "b", None]), random_.choice([1, 2, 3, None]))
        for one in random_.sample(range(9), 3)
        if one not in rows
    ]
    rows |= {row[0]: row for row in came}
    return table([*lost, *came], _change_type=["delete"] * len(lost) + ["insert"] * len(came))


def truth(query: str, rows: dict[int, Row]) -> Counter[tuple[object, ...]]:
    sale = table([*rows.values()])
    with duckdb.connect() as connection:
        connection.register("sale", sale)
        return Counter(connection.execute(query).fetchall())


@pytest.mark.filterwarnings("ignore::ivm.sql.errors.SqlWarning")
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("query", [*SETS, *BAGS])
def test_views_of_a_query_follow_random_changes(tmp_path: Path, query: str, keyed: bool) -> None:
    """Also where its table has no key, and null in all its columns; its changes make the rows
    before those after.
    """
    path, text, rows, random_ = (
        tmp_path / "v.pages",
        TABLE * keyed + query,
        dict[int, Row](),
        random.Random(query),
    )
    before = Counter[tuple[object, ...]]()
    for number in range(4):
        changes = changed(random_, rows)
        done = refresh(path, "v", text, {"SALE": changes}, "auto" if number == 0 else "strict")
        with ivm.open(path, mode="r") as workspace:
            now = Counter(tuple(row.values()) for row in workspace["v"].to_arrow().to_pylist())
        assert now == truth(query, rows)
        for row in changed_rows(path, compile(done.rules).predicates["v"], done).to_pylist():
            values = tuple(row.values())
            before[values[:-2]] += 1 if values[-2] == "insert" else -1
        assert +before == now and not -before


@pytest.mark.filterwarnings("ignore::ivm.sql.errors.SqlWarning")
@pytest.mark.parametrize("query", SETS)
def test_cells_of_a_query_follow_random_changes(tmp_path: Path, query: str) -> None:
    rows, random_ = dict[int, Row](), random.Random(query)
    with Cells.create(tmp_path / "c", TABLE + query, 3, options={"threads": 1}) as cells:
        for number in range(3):
            cells.apply(number, {"sale": changed(random_, rows)})
            assert Counter(cells["answer"]) == truth(query, rows)
        assert cells.check() == []


def test_cells_that_are_lost_have_the_relation_of_one_row_again(tmp_path: Path) -> None:
    query = "SELECT count(*) AS n FROM sale"
    sale = table([(n, "a", n) for n in range(9)])
    Cells.create(tmp_path / "c", query, 2, tables={"sale": sale}, options={"threads": 1}).close()
    for lost in sorted((tmp_path / "c").glob("*/*.pages")):
        lost.unlink()
        with Cells.rebuild(tmp_path / "c", tables={"sale": sale}) as cells:
            assert [*cells["answer"]] == [(9,)] and cells.check() == []


def test_several_views_read_each_other_and_another_query_replaces_them(tmp_path: Path) -> None:
    path = tmp_path / "v.pages"
    text = """CREATE VIEW total (shop, cents) AS SELECT shop, sum(cents) FROM Sale GROUP BY shop;
              CREATE MATERIALIZED VIEW best AS SELECT max(cents) AS cents FROM total"""
    refresh(path, "shops", text, {"sale": table([(1, "a", 2), (2, "a", 3), (3, None, 4)])})
    other = text.replace("max", "min")
    with pytest.raises(RecomputeError, match="the rules of shops are others"):
        refresh(path, "shops", other, {}, "strict")
    with ivm.open(path) as workspace:
        assert [*workspace["best"]] == [(5,)] and workspace.blocks["shops"].startswith(
            '// "CREATE VIEW total'
        )
        assert [*workspace.sql("SELECT cents FROM total WHERE shop IS NULL")] == [(4,)]
    refresh(path, "shops", other, {})
    with ivm.open(path) as workspace:
        assert [*workspace["best"]] == [(4,)]


def test_a_refresh_that_is_refused_leaves_no_relation(tmp_path: Path) -> None:
    path, wrong = tmp_path / "v.pages", pa.table({"id": [1], "_change_type": ["insert"]})
    with pytest.raises(ValueError, match="sale has the columns id, shop, cents"):
        refresh(
            path, "v", TABLE.replace("PRIMARY KEY", "") + "SELECT id FROM sale", {"sale": wrong}
        )
    with ivm.open(path) as workspace, workspace.store.snapshot() as snap:
        assert [*snap] == []


@pytest.mark.parametrize(
    "text, said",
    [
        ("SELECT shop FROM sales", "before the query: did you mean sale?"),
        (
            "SELECT shop FROM zebra",
            "exists: give its rows as a source, or write CREATE TABLE before the query; there",
        ),
        (
            f"SELECT id, {', '.join(f'cents + {n} AS c{n}' for n in range(70))} FROM sale",
            "v has lists, intervals, or too many columns",
        ),
        (
            "CREATE TABLE sale (id BIGINT CHECK (id > 0)); SELECT id FROM sale",
            "is not checked here: leave it out",
        ),
        (
            "CREATE VIEW sale AS SELECT 1 AS x",
            "sale is a table or view already: choose another name",
        ),
        (
            "CREATE TABLE sale (id BIGINT PRIMARY KEY)",
            "the text has no query: write SELECT, or CREATE VIEW name AS SELECT",
        ),
        (
            "SELECT id FROM sale; DELETE FROM sale",
            "DELETE makes no view: write SELECT, CREATE VIEW AS or CREATE TABLE",
        ),
        ("EXPLAIN SELECT id FROM sale; SELECT 1", "EXPLAIN"),
        (
            "SELECT id FROM sale",
            "sale has the row id = 1, shop = 'a', cents = 2 twice, and no key: add a column",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SqlError) as error:
        refresh(tmp_path / "v.pages", "v", text, {"sale": table([(1, "a", 2), (1, "a", 2)])})
    assert said in str(error.value)


def test_what_feeds_and_cells_refuse(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "s.pages") as store:
        store.sql("CREATE TABLE bag (x INTEGER)")
    with pytest.raises(
        EditError,
        match=r"bag of .* may have equal rows, and a feed is followed by its key: give it",
    ):
        refresh(
            tmp_path / "v.pages",
            "v",
            "SELECT x FROM bag",
            {"bag": Feed(str(tmp_path / "s.pages"), "bag")},
        )
    with pytest.raises(
        SqlError, match="answer may have equal rows, and cells keep sets: select a key too"
    ):
        Cells.create(tmp_path / "c", TABLE + BAGS[0], 2)
    with pytest.raises(
        ConstructError, match="reads itself, and recursion over cells is not supported"
    ):
        text = "WITH RECURSIVE r AS (SELECT id FROM sale UNION SELECT id + 1 FROM r WHERE id < 9) SELECT id FROM r"
        Cells.create(tmp_path / "d", TABLE + text, 2)


def test_what_an_edit_costs_is_a_warning(tmp_path: Path) -> None:
    with pytest.warns(SqlWarning, match="v: window functions: an edit numbers"):
        refresh(tmp_path / "v.pages", "v", TABLE + SETS[4], {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refresh(tmp_path / "v.pages", "v", TABLE + SETS[4], {})


COMPUTED = [
    "CASE WHEN v > 1 THEN v ELSE 0 END", "CASE WHEN v > 1 THEN v END", "if(v > 1, v, 0)",
    "coalesce(v, 0)",
    "v * 2 + 1", "CASE WHEN d > 1 THEN d ELSE 0 END", "nullif(v, 2)", "abs(v - 3)",
]  # fmt: skip
FOLDS = [
    "sum({}) AS a",
    "min({}) AS a, max({}) AS b",
    "count({}) AS a, avg({}) AS b",
    "count(DISTINCT {}) AS a",
]
ROWS = [
    (1, 1, 1, "1.50"), (2, 1, 5, "2.50"), (3, 2, 2, None), (4, 2, None, None), (5, None, 3, "0.25"),
    (6, 3, None, None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "first"),
    [
        ("k, ", 0),
        *(
            pytest.param(keys, n, marks=pytest.mark.campaign)
            for keys in ("k, ", "")
            for n in range(len(FOLDS))
        ),
    ],
)
def test_aggregates_of_computed_values_over_cells_are_duckdbs(
    keys: str, first: int, tmp_path: Path
) -> None:
    views = {}
    for n, value in enumerate(COMPUTED):
        fold = FOLDS[(n + first) % len(FOLDS)].format(value, value)
        views[f"w{n}"] = f"SELECT {keys}{fold} FROM t{' GROUP BY k' * bool(keys)}"
    duck = duckdb.connect()
    table = "CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT, v BIGINT, d DECIMAL(9,2))"
    duck.execute(table)
    text = "; ".join([table, *(f"CREATE VIEW {name} AS {query}" for name, query in views.items())])
    with Cells.create(tmp_path / "cells", text, 3) as cells:
        for number, (kind, some) in enumerate(
            [("insert", ROWS), ("delete", ROWS[1:3]), ("insert", ROWS[1:2])], 1
        ):
            ids, groups, numbers, decimals = zip(*some, strict=True)
            cells.apply(
                number,
                {
                    "t": pa.table(
                        {
                            "id": ids,
                            "k": groups,
                            "v": numbers,
                            "_change_type": [kind] * len(some),
                            "d": pa.array(
                                [one and Decimal(one) for one in decimals], pa.decimal128(9, 2)
                            ),
                        }
                    )
                },
            )
            act = (
                "INSERT INTO t VALUES (?, ?, ?, ?)"
                if kind == "insert"
                else "DELETE FROM t WHERE id = ?"
            )
            duck.executemany(act, [row if kind == "insert" else row[:1] for row in some])
            for name, query in views.items():
                assert sorted(cells[name], key=repr) == sorted(
                    duck.execute(query).fetchall(), key=repr
                ), query
        assert cells.check() == []
