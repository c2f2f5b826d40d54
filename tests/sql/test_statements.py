"""Statements of SQL on a workspace: tables, edits, kept views, transactions, parameters."""

import re
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest

import ivm
from ivm.errors import IvmError, OptionError
from ivm.sql.errors import SqlError
from pagestore.errors import SchemaError, VersionError
from tests.support.calls import functions_called
from tests.support.sql.oracle import Both


@pytest.fixture
def ws(tmp_path: Path) -> Iterator[ivm.Workspace]:
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.sql(
            """CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER NOT NULL, b VARCHAR NOT NULL, d DECIMAL(12,2) NOT NULL);
               CREATE TABLE u (k INTEGER PRIMARY KEY, c INTEGER NOT NULL DEFAULT 7)"""
        )
        workspace.sql("INSERT INTO t VALUES (1, 2, 'x', 1.5), (2, 2, 'y', 2.5), (3, 5, 'x', 10)")
        workspace.sql("INSERT INTO u VALUES (1, 10), (3, 30), (7, 70)")
        yield workspace


def rows(workspace: ivm.Workspace, text: str, *parameters: object) -> list[tuple[object, ...]]:
    answer = workspace.sql(text, list(parameters) or None)
    assert answer is not None
    return list(answer)


PLACES: list[tuple[str, list[int]]] = [
    ("(SELECT id FROM t WHERE id = ? ORDER BY id LIMIT ?) UNION (SELECT id FROM t WHERE id = ? ORDER BY id LIMIT ?)"
     " ORDER BY id LIMIT ?", [2, 1, 3, 1, 2]),
    ("SELECT id FROM t WHERE id > ? ORDER BY id LIMIT ? OFFSET ?", [1, 2, 1]),
    ("WITH c AS (SELECT id FROM t WHERE id > ?) SELECT c.id + ? AS z FROM c JOIN t ON t.id = c.id AND t.a < ?"
     " WHERE c.id < ? GROUP BY c.id HAVING count(*) > ? ORDER BY z LIMIT ?", [1, 100, 40, 4, 0, 1]),
    ("SELECT CASE WHEN id = ? THEN ? ELSE ? END AS c FROM t WHERE id BETWEEN ? AND ? AND a IN (?, ?)",
     [2, 7, 8, 1, 3, 10, 20]),
    ("SELECT id FROM (SELECT id, a FROM t WHERE a > ? LIMIT ?) s WHERE id <> ?", [10, 4, 3]),
    ("SELECT sum(a) FILTER (WHERE id > ?) OVER (PARTITION BY id % ? ORDER BY id) AS s FROM t WHERE id < ?", [1, 2, 4]),
    ("DELETE FROM t WHERE id = ?; SELECT id FROM t WHERE id < ? LIMIT ?", [4, 3, 1]),
]  # fmt: skip


def test_places_of_parameters_are_counted_as_the_text_has_them() -> None:
    for dialect in ("duckdb", "postgres", "sqlite", "spark"):
        with ivm.open(":memory:") as ws:
            ws.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT)")
            ws.sql("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40)")
            for text, values in PLACES:
                written = text
                for value in values:
                    written = written.replace("?", str(value), 1)
                right = list(ws.sql(written, dialect=dialect))  # type: ignore[call-overload]
                for _ in range(4):  # from the third time on a plan is kept
                    found = list(ws.sql(text, values, dialect))  # type: ignore[call-overload]
                    assert found == right, (dialect, text)


def test_parameters_are_counted_over_all_statements(ws: ivm.Workspace) -> None:
    ws.sql("CREATE TABLE p (k INTEGER PRIMARY KEY, s VARCHAR)")
    assert rows(
        ws, "INSERT INTO p VALUES (?, ?); INSERT INTO p VALUES (?, 'b'); SELECT * FROM p", 1, "a", 2
    ) == [(1, "a"), (2, "b")]
    ws.sql("DELETE FROM p WHERE k = $2; DELETE FROM p WHERE s = $1", ["a", 2])
    assert rows(ws, "SELECT * FROM p") == []


def test_queries_join_group_and_order(ws: ivm.Workspace) -> None:
    assert rows(ws, "SELECT t.k, c FROM t JOIN u USING (k)") == [(1, 10), (3, 30)]
    assert rows(ws, "SELECT k FROM t ORDER BY d DESC") == [(3,), (2,), (1,)]
    found = rows(ws, "SELECT a, count(*), sum(d), min(b) FROM t GROUP BY a HAVING count(*) > 1")
    assert found == [(2, 2, Decimal("4.00"), "x")]
    assert rows(ws, "SELECT b FROM t") == [("x",), ("x",), ("y",)]
    assert rows(ws, "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)") == [(2,)]
    assert rows(ws, "SELECT k FROM t WHERE k = ?", 2) == [(2,)]
    answer = ws.sql("SELECT k FROM t WHERE b = :b AND k < :most", {"b": "x", "most": 2})
    assert answer is not None and list(answer) == [(1,)]


def test_a_kept_view_follows_edits(ws: ivm.Workspace) -> None:
    ws.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n, sum(d) AS s FROM t GROUP BY a "
        "HAVING count(*) > 1"
    )
    assert list(ws["v"]) == [(2, 2, Decimal("4.00"))]
    ws.sql("UPDATE t SET a = a + 3 WHERE k = 1")
    assert list(ws["v"]) == [(5, 2, Decimal("11.50"))]
    ws.sql("DELETE FROM t WHERE b = 'x' AND k IN (SELECT k FROM u WHERE c > 20)")
    assert list(ws["v"]) == []
    assert rows(ws, "DESCRIBE v")[2][:2] == ("s", "DECIMAL(38,2)")
    ws.sql("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k FROM t")
    assert list(ws["v"]) == [(1,), (2,)]
    ws.sql("DROP VIEW v")
    assert "v" not in ws


def test_an_expanded_view_is_read_by_a_kept_one(ws: ivm.Workspace) -> None:
    ws.sql(
        "CREATE VIEW e (key, twice) AS SELECT k, 2 * a FROM t; "
        "CREATE MATERIALIZED VIEW v AS SELECT DISTINCT twice FROM e"
    )
    assert rows(ws, "SELECT * FROM e WHERE key = 3") == [(3, 10)]
    assert rows(ws, "SELECT twice FROM v WHERE twice > 4") == [(10,)]
    assert rows(ws, "SHOW TABLES") == [("e",), ("t",), ("u",), ("v",)]


def test_statements_of_a_transaction_see_those_before(ws: ivm.Workspace) -> None:
    ws.sql("CREATE MATERIALIZED VIEW v AS SELECT k, c FROM u WHERE c > 5")
    with ws.transaction() as txn:
        txn.sql("UPDATE u SET c = c - 8")
        txn.sql("UPDATE u SET c = c - 1 WHERE c = 2")
        txn.sql("INSERT INTO u (k) VALUES (9)")
        assert list(txn.sql("SELECT * FROM u")) == [(1, 1), (3, 22), (7, 62), (9, 7)]
        assert list(txn.sql("SELECT c FROM v")) == [(7,), (22,), (62,)]
    version = ws.store.version
    ws.sql("BEGIN; DELETE FROM u; ROLLBACK")
    assert len(rows(ws, "SELECT * FROM u")) == 4
    ws.sql("BEGIN; DELETE FROM u WHERE c = 7; COMMIT")
    assert list(ws["v"]) == [(3, 22), (7, 62)]
    with ws.at(version) as before:
        assert list(before.sql("SELECT count(*) FROM u WHERE c = 7")) == [(1,)]


def test_keys_conflict_and_move(ws: ivm.Workspace) -> None:
    with pytest.raises(
        SqlError, match=r"u has a row with k = 1 already: INSERT ... ON CONFLICT DO NOTHING"
    ):
        ws.sql("INSERT INTO u VALUES (1, 11)")
    ws.sql("INSERT INTO u VALUES (1, 11), (2, 12) ON CONFLICT DO NOTHING")
    ws.sql("INSERT INTO u VALUES (3, 5) ON CONFLICT (k) DO UPDATE SET c = u.c + excluded.c")
    assert rows(ws, "SELECT * FROM u") == [(1, 10), (2, 12), (3, 35), (7, 70)]
    ws.sql("UPDATE u SET k = 3 - k WHERE k < 3")
    assert rows(ws, "SELECT * FROM u WHERE k < 3") == [(1, 12), (2, 10)]
    ws.sql(
        "MERGE INTO u USING t ON t.k = u.k WHEN MATCHED AND t.a = 5 THEN DELETE WHEN MATCHED THEN "
        "UPDATE SET c = t.a WHEN NOT MATCHED THEN INSERT (k, c) VALUES (t.k, 0)"
    )
    assert rows(ws, "SELECT * FROM u") == [(1, 2), (2, 2), (7, 70)]


# statements, and below each its message, indented
TABLE = Path(__file__).with_name("wrong.txt").read_text().rstrip()
WRONG = [part.split("\n", 1) for part in re.split(r"\n(?! )", TABLE)]


@pytest.mark.parametrize(("text", "message"), WRONG, ids=[text for text, _ in WRONG])
def test_wrong_statements_say_where_and_what(ws: ivm.Workspace, text: str, message: str) -> None:
    ws.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    with pytest.raises(SqlError) as caught:
        ws.sql(text)
    assert str(caught.value) == "\n".join(line[4:] for line in message.split("\n"))


BROKEN = [
    "SELECT k , sum ( a ) OVER ( PARTITION BY k ORDER BY a ) AS s FROM t WHERE a > 1 ORDER BY k "
    "LIMIT 3",
    "WITH w AS ( SELECT k , count ( * ) AS n FROM t GROUP BY k ) SELECT CASE WHEN n > 1 THEN 'x' "
    "ELSE 'y' END FROM w",
    "INSERT INTO t ( k , a ) VALUES ( 77 , 1 ) ON CONFLICT DO UPDATE SET a = 3",
    "UPDATE t SET a = a + 1 WHERE k = 3",
    "DELETE FROM t WHERE k = 4 RETURNING *",
    "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED THEN UPDATE SET a = 3",
    "MERGE INTO t USING u ON t.k = u.k WHEN NOT MATCHED THEN INSERT VALUES ( 1 , 2 )",
    "CREATE TABLE t1 ( k BIGINT PRIMARY KEY , v TEXT NOT NULL )",
    "CREATE MATERIALIZED VIEW mv AS SELECT k FROM t",
    "ALTER TABLE t RENAME COLUMN a TO b",
    "DROP VIEW IF EXISTS mv",
]


@pytest.mark.parametrize("text", BROKEN)
def test_broken_statements_are_refused_in_words(ws: ivm.Workspace, text: str) -> None:
    """A word is left out, doubled, cut short or exchanged, or the text ends there: it runs, or
    says what is wrong.
    """
    words, random = text.split(), Random(3)
    for place, word in enumerate(words):
        other = random.choice(random.choice(BROKEN).split())
        for now in [], [word, word], [word[:-1]], [other], [word, ";"]:
            broken = " ".join([*words[:place], *now, *words[place + 1 :] * (now != [word, ";"])])
            try:
                ws.sql(broken)
            except IvmError as error:
                said = str(error).replace(broken, "")
                assert not re.search(r"<class|Token|sqlglot|None|Attribute", said), said


def test_a_file_or_version_that_does_not_exist_is_named(ws: ivm.Workspace) -> None:
    with pytest.raises(SqlError, match="no file none.csv exists"):
        ws.sql("COPY t FROM 'none.csv'")
    with pytest.raises(VersionError, match="version 999 is not retained"):
        ws.sql("SELECT k FROM t FOR VERSION AS OF 999")


def test_rows_that_are_equal_are_kept_as_often(ws: ivm.Workspace) -> None:
    ws.sql(
        "CREATE TABLE h (a INTEGER, s VARCHAR); CREATE MATERIALIZED VIEW v AS SELECT a FROM h "
        "WHERE s IS NOT NULL"
    )
    ws.sql("INSERT INTO h VALUES (1, 'x'), (1, 'x'), (NULL, 'y'), (NULL, NULL), (1, 'z')")
    assert list(ws["v"]) == [(None,), (1,), (1,), (1,)] and len(ws["v"]) == 4
    assert rows(ws, "SELECT * FROM h ORDER BY a, s")[:3] == [(1, "x"), (1, "x"), (1, "z")]
    assert rows(ws, "UPDATE h SET a = 2 WHERE s = 'x'") == [(2,)]
    assert ws["v"].to_arrow().column("a").to_pylist() == [None, 1, 2, 2]
    ws.sql("DELETE FROM h WHERE a = 2")
    assert rows(ws, "SELECT a, count(*) FROM h GROUP BY a ORDER BY a NULLS FIRST") == [
        (None, 2),
        (1, 1),
    ]
    assert list(ws.query("q(a, n) <- v[a] = n.")) == [(1, 1)]


def test_bags_of_sql_are_those_of_the_store(ws: ivm.Workspace) -> None:
    ws.sql("CREATE TABLE h (a INTEGER, s VARCHAR); CREATE MATERIALIZED VIEW v AS SELECT a FROM h")
    before = ws.store.version
    ws.sql("INSERT INTO h VALUES (1, 'x'), (1, 'y'), (2, 'x')")
    assert ws["v"].info.bag and ws["h"].info.bag
    with ws.transaction() as txn:
        txn.insert("h", [(1, "x")])
        txn.delete("h", [(2, "x")])
    assert list(ws["v"]) == [(1,), (1,), (1,)]
    with ws.at(before) as old:
        assert list(old["v"]) == []
    assert ws.check() == []


def test_a_table_is_made_of_a_query(ws: ivm.Workspace) -> None:
    ws.sql("CREATE TABLE z AS SELECT a, b FROM t")
    assert rows(ws, "SELECT * FROM z ORDER BY a, b") == [(2, "x"), (2, "y"), (5, "x")]
    assert rows(ws, "DESCRIBE z")[0][:3] == ("a", "INTEGER", "YES")


def test_an_order_may_mix_directions_of_texts(ws: ivm.Workspace) -> None:
    ws.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT k, row_number() OVER (ORDER BY b DESC, k) AS r FROM t"
    )
    assert list(ws["v"]) == [(1, 2), (2, 1), (3, 3)]
    ws.sql("UPDATE t SET b = 'zz' WHERE k = 3")
    assert list(ws["v"]) == [(1, 3), (2, 2), (3, 1)]


def test_returning_says_what_changed(ws: ivm.Workspace) -> None:
    assert rows(ws, "INSERT INTO u VALUES (1, 5), (9, 90) ON CONFLICT DO NOTHING RETURNING *") == [
        (9, 90)
    ]
    assert rows(ws, "UPDATE u SET c = c + 1 WHERE k < 4 RETURNING k, c * 2 AS twice") == [
        (1, 22),
        (3, 62),
    ]
    assert rows(ws, "DELETE FROM u WHERE k = 9 RETURNING c") == [(90,)]
    assert rows(ws, "DELETE FROM u WHERE k = 9 RETURNING c") == []
    ws.sql("CREATE TABLE h (a INTEGER, s VARCHAR)")
    assert rows(ws, "INSERT INTO h VALUES (1, NULL), (1, NULL) RETURNING a") == [(1,), (1,)]
    assert rows(ws, "DELETE FROM h RETURNING *") == [(1, None), (1, None)]


def test_older_versions_are_read(ws: ivm.Workspace) -> None:
    ws.sql(
        "CREATE TABLE h (a INTEGER, s VARCHAR); CREATE MATERIALIZED VIEW v AS SELECT a, s FROM h"
    )
    first = ws.store.version
    ws.sql("INSERT INTO h VALUES (1, 'x'), (1, 'x'), (2, NULL)")
    second = ws.store.version
    ws.sql("DELETE FROM h WHERE a = 1; UPDATE u SET c = 0 WHERE k = 1")
    assert rows(ws, f"SELECT * FROM v FOR VERSION AS OF {second}") == [
        (1, "x"),
        (1, "x"),
        (2, None),
    ]
    assert rows(
        ws, f"SELECT o.c, u.c FROM u JOIN u AT (VERSION => {second}) o USING (k) WHERE o.c <> u.c"
    ) == [(10, 0)]
    changes = f"SELECT a, _change_type, count(*) FROM changes(v, {first}, {second}) GROUP BY a, _change_type"
    assert sorted(rows(ws, changes)) == [(1, "insert", 2), (2, "insert", 1)]
    gone = f"SELECT a, s, _change_type FROM changes(v, {second}, {ws.store.version})"
    assert rows(ws, gone) == [(1, "x", "delete"), (1, "x", "delete")]
    assert "sql_version_0" not in ws


def test_files_are_copied(ws: ivm.Workspace, tmp_path: Path) -> None:
    for name in ("t.csv", "t.parquet", "t.tsv"):
        before = rows(ws, "SELECT * FROM t")
        assert rows(ws, f"COPY (SELECT * FROM t) TO '{tmp_path / name}'") == [(3,)]
        ws.sql("DELETE FROM t")
        assert rows(ws, f"COPY t FROM '{tmp_path / name}'") == [(3,)]
        assert rows(ws, "SELECT * FROM t") == before
    (tmp_path / "h.txt").write_text("1;a\n2;\n")
    ws.sql("CREATE TABLE h (a INTEGER, s VARCHAR)")
    ws.sql(f"COPY h (a, s) FROM '{tmp_path / 'h.txt'}' (FORMAT csv, DELIMITER ';')")
    assert rows(ws, "SELECT * FROM h ORDER BY a") == [(1, "a"), (2, None)]
    with pytest.raises(SqlError, match="COPY has no option ROWS; there is format, header"):
        ws.sql(f"COPY h FROM '{tmp_path / 'h.txt'}' (ROWS)")


def test_constraints_of_tables_are_kept(ws: ivm.Workspace) -> None:
    ws.sql("""CREATE TABLE kind (k INTEGER PRIMARY KEY, n VARCHAR UNIQUE);
              CREATE TABLE item (id INTEGER PRIMARY KEY, price INTEGER CHECK (price >= 0), kind INTEGER REFERENCES kind,
                                 a INTEGER, b INTEGER, UNIQUE (a, b));
              CREATE TABLE loose (x INTEGER UNIQUE, y INTEGER, FOREIGN KEY (y) REFERENCES kind (k))""")
    ws.sql("INSERT INTO kind VALUES (1, 'x'), (2, NULL), (3, NULL)")
    ws.sql("INSERT INTO item VALUES (1, 5, 1, 1, 1), (2, NULL, NULL, NULL, 1), (3, 0, 2, NULL, 1)")
    ws.sql("INSERT INTO loose VALUES (1, 1), (NULL, 2), (NULL, 2), (2, NULL)")
    for statement, message in [
        (
            "UPDATE item SET price = -1 WHERE id = 1",
            "item: CHECK (price >= 0) does not hold for price = -1",
        ),
        (
            "INSERT INTO item VALUES (4, 1, 7, 5, 5)",
            "item: FOREIGN KEY (kind) REFERENCES kind does not hold for kind = 7",
        ),
        ("INSERT INTO item VALUES (4, 1, 1, 1, 1)", "item: UNIQUE (a, b) does not hold"),
        ("INSERT INTO kind VALUES (4, 'x')", "kind: UNIQUE (n) does not hold"),
        ("INSERT INTO loose VALUES (1, 1)", "loose: UNIQUE (x) does not hold for x = 1"),
        ("INSERT INTO loose VALUES (1, 3)", "loose: UNIQUE (x) does not hold for x = 1"),
        ("DELETE FROM kind WHERE k = 2", "REFERENCES kind"),
    ]:
        before = (
            rows(ws, "SELECT * FROM item"),
            rows(ws, "SELECT * FROM kind"),
            rows(ws, "SELECT * FROM loose"),
        )
        with pytest.raises(SqlError) as caught:
            ws.sql(statement)
        assert message in str(caught.value)
        assert before == (
            rows(ws, "SELECT * FROM item"),
            rows(ws, "SELECT * FROM kind"),
            rows(ws, "SELECT * FROM loose"),
        )
    with ws.transaction() as txn:  # only the state after it counts
        txn.sql("INSERT INTO item VALUES (4, 1, 9, 6, 6)")
        txn.sql("INSERT INTO kind VALUES (9, 'z')")
    ws.sql("ALTER TABLE item ADD COLUMN z VARCHAR; ALTER TABLE item RENAME COLUMN price TO cost")
    for row, message in [
        ("(5, -1, 1, 7, 7, 'z')", "item: CHECK (cost >= 0) does not hold"),
        ("(5, 1, 7, 7, 7, 'z')", "item: FOREIGN KEY (kind) REFERENCES kind does not hold"),
        ("(5, 1, 1, 1, 1, 'z')", "item: UNIQUE (a, b) does not hold"),
    ]:
        with pytest.raises(SqlError, match=re.escape(message)):
            ws.sql(f"INSERT INTO item VALUES {row}")
    ws.sql("DROP TABLE item; DROP TABLE loose; DROP TABLE kind")
    assert ws.constraints == ()


def test_columns_are_renamed_and_added(ws: ivm.Workspace) -> None:
    ws.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT k, c FROM u; ALTER TABLE u RENAME COLUMN c TO d; "
        "UPDATE u SET d = 1"
    )
    assert rows(ws, "SELECT d FROM u WHERE k = 3") == [(1,)] and list(ws["v"]) == [
        (1, 1),
        (3, 1),
        (7, 1),
    ]
    ws.sql(
        "CREATE TABLE h (a INTEGER); INSERT INTO h VALUES (1), (1); ALTER TABLE h ADD COLUMN b "
        "INTEGER DEFAULT 4"
    )
    assert rows(ws, "SELECT * FROM h") == [(1, 4), (1, 4)]
    ws.sql("ALTER TABLE h DROP COLUMN a")
    assert rows(ws, "SELECT * FROM h") == [(4,), (4,)]


def test_rows_that_many_columns_tell_apart(ws: ivm.Workspace) -> None:
    """A table without a key, its joins, groups and first rows have as many columns in a key as
    the table.
    """
    pytest.importorskip("duckdb")
    from tests.support.sql.oracle import Both

    both, names = Both(ws), [f"c{n}" for n in range(30)]
    both.run(f"CREATE TABLE wide ({', '.join(f'{n} INTEGER' for n in names)})")
    for row in (1, 1, 2, 3):
        both.run(f"INSERT INTO wide VALUES ({', '.join(str(row + n) for n in range(29))}, NULL)")
    both.keep("whole", "SELECT * FROM wide")
    both.keep("pairs", "SELECT x.*, y.c1 AS other FROM wide x JOIN wide y ON x.c0 = y.c1")
    both.keep(
        "first",
        "SELECT x.c0, x.c29, y.c5 FROM wide x LEFT JOIN wide y ON x.c0 = y.c1 ORDER BY ALL LIMIT 3",
    )
    both.keep("groups", f"SELECT {', '.join(names)}, count(*) AS n FROM wide GROUP BY ALL")
    both.compare()
    both.run("UPDATE wide SET c1 = 3, c29 = 4 WHERE c0 = 1")
    both.run("DELETE FROM wide WHERE c0 = 2")
    both.compare()
    row = next(iter(ws["wide"]))
    assert row in ws["wide"] and ws["wide"].get(row) == 2 and (*row[:-1], 5) not in ws["wide"]


def test_aggregates_that_depend_on_an_order_take_rows_by_their_keys(ws: ivm.Workspace) -> None:
    """DuckDB takes rows as it meets them, which is the order of keys while rows are added in
    that order.
    """
    pytest.importorskip("duckdb")
    from tests.support.sql.oracle import Both

    both = Both(ws)
    both.run("CREATE TABLE o (k INTEGER PRIMARY KEY, g INTEGER, a INTEGER, s VARCHAR, f DOUBLE)")
    both.run(
        """INSERT INTO o VALUES (1, 1, 5, 'x"y', 2), (2, 1, NULL, 'b\\c', 1), (3, 1, 5, NULL, 7), (4, 2, 0, 'q', 1)"""
    )
    folds = [
        "string_agg(s, '-')", "list(s)", "list(f)", "list(a = 5)", "first(a)", "last(s)",
        "any_value(s)", "mode(a)",
        "arg_max(k, a)", "arg_min(s, a)", "array_to_string(list(a), ',')", "skewness(f)",
        "kurtosis(f)",
    ]  # fmt: skip
    for n, fold in enumerate(folds):
        both.keep(f"g{n}", f"SELECT g, {fold} AS x FROM o GROUP BY g")
        both.keep(
            f"p{n}",
            f"SELECT k, {fold} OVER (PARTITION BY g) AS x FROM o"
            if "(list" not in fold
            else "FROM o",
        )
    both.compare()
    for edit in (
        "INSERT INTO o VALUES (5, 2, 9, 'z', 3), (6, 1, 7, 'x', 4)",
        "INSERT INTO o VALUES (7, 1, 7, NULL, 12.5)",
        "DELETE FROM o WHERE k IN (1, 4)",
        "DELETE FROM o WHERE g = 2",
    ):
        both.run(edit)
        both.compare()


def test_lists_and_intervals_are_read_as_such(ws: ivm.Workspace) -> None:
    pytest.importorskip("duckdb")
    import pyarrow as pa

    from tests.support.sql.oracle import Both

    both = Both(ws)
    both.run("CREATE TABLE m (k INTEGER PRIMARY KEY, e TIMESTAMP, d DECIMAL(8,2))")
    both.run(
        "INSERT INTO m VALUES (1, '2020-01-01', 1.5), (2, '2019-12-31 23:59:59', NULL), (3, NULL, "
        "2)"
    )
    both.keep("v", "SELECT k, e - TIMESTAMP '2020-01-02 01:00:00' AS w FROM m")
    both.keep(
        "l", "SELECT list(e ORDER BY k) AS e, list(d ORDER BY k) AS d, max(e) - min(e) AS w FROM m"
    )
    both.keep("n", "SELECT list(e) AS e FROM m WHERE k > 5")
    both.compare()
    both.run("UPDATE m SET e = TIMESTAMP '2021-05-06 07:08:09.123456' WHERE k = 3")
    both.compare()
    assert ws["v"].to_arrow().schema.field("w").type == pa.month_day_nano_interval()
    assert ws["l"].to_arrow().schema.types[:2] == [
        pa.list_(pa.timestamp("us")),
        pa.list_(pa.decimal128(8, 2)),
    ]
    assert rows(ws, "DESCRIBE l")[1][:2] == ("d", "DECIMAL(8,2)[]")
    answer = ws.sql("SELECT w FROM v WHERE k = 1")
    assert answer is not None and answer.to_arrow().column("w").to_pylist() == [
        pa.MonthDayNano([0, -1, -3600 * 10**9])
    ]


@pytest.mark.parametrize(
    ("query", "cost"),
    [
        ("SELECT k, row_number() OVER (PARTITION BY a ORDER BY k) AS r FROM t", "window functions"),
        ("SELECT k FROM t ORDER BY d LIMIT 2", "LIMIT"),
        ("SELECT k FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY k) < 4", "window"),
        ("SELECT t.k, u.c FROM t ASOF JOIN u ON t.k >= u.k", "ASOF JOIN"),
        ("SELECT a, sum(d) FROM t LEFT JOIN u USING (k) GROUP BY a HAVING count(c) = 0", ""),
        ("SELECT a, string_agg(b, ',') FROM t GROUP BY a", ""),
        ("SELECT DISTINCT ON (a) a, k FROM t ORDER BY a, k", ""),
        ("SELECT k FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY k) = 1", ""),
    ],
)
def test_strict_refuses_what_costs_more_than_its_change(
    ws: ivm.Workspace, query: str, cost: str
) -> None:
    text = f"CREATE MATERIALIZED VIEW v AS {query}"
    if cost:
        with pytest.raises(
            SqlError, match=rf"^sql:1:\d+: v: {cost}.* incremental='strict' keeps no such view"
        ):
            ws.sql(text, incremental="strict")
        assert "v" not in ws
        with pytest.warns(UserWarning, match=f"v: {cost}"):
            ws.sql(text)
    else:
        ws.sql(text, incremental="strict")
    assert "v" in ws
    with pytest.raises(OptionError, match="it is 'auto' or 'strict'"):
        ws.sql("SELECT 1", incremental="none")


def test_a_query_of_fifty_lines_is_translated_in_few_steps(ws: ivm.Workspace) -> None:
    """Python calls do not depend on the machine: 20 ms are about 150,000 of them."""

    parts = "\n".join(
        f", p{n} AS (\n SELECT a, count(*) AS n,\n sum(d) AS s\n FROM t\n LEFT JOIN u USING (k)\n "
        f"WHERE c > {n}\n"
        " GROUP BY a)"
        for n in range(6)
    )
    joins = "\n".join(f"LEFT JOIN p{n} USING (a)" for n in range(6))
    text = f"EXPLAIN WITH q AS (SELECT a FROM t) {parts}\nSELECT q.a, p0.s, p5.n\nFROM q\n{joins}\nWHERE q.a > 1"
    assert text.count("\n") >= 50
    ws.sql(text)
    assert len(functions_called(lambda: ws.sql(text))) < 80_000


def test_integers_are_divided_and_nulls_ordered_as_the_dialect_says(ws: ivm.Workspace) -> None:
    ws.sql("CREATE TABLE q (k INTEGER PRIMARY KEY, a INTEGER, b INTEGER, f DOUBLE)")
    ws.sql("INSERT INTO q VALUES (1, 7, 2, 7), (2, -7, 2, 1), (3, 8, 2, 2), (4, NULL, 2, NULL)")
    found = {}
    for dialect in ("duckdb", "postgres", "sqlite", "spark"):
        query = "SELECT k, a / b AS q, f / b AS r FROM q"
        ws.sql(
            f"CREATE VIEW e{dialect} AS {query}; CREATE MATERIALIZED VIEW m{dialect} AS {query}",
            dialect=dialect,
        )
        kept = list(ws[f"m{dialect}"])
        assert rows(ws, f"SELECT * FROM e{dialect} ORDER BY k") == kept
        ordered = {}
        for way in ("", " DESC"):
            answer = ws.sql(f"SELECT k FROM q ORDER BY a{way}, k", dialect=dialect)
            assert answer is not None
            ordered[way] = [k for (k,) in answer].index(4)
        found[dialect] = [q for _, q, _ in kept], ordered[""], ordered[" DESC"]
        assert [r for _, _, r in kept] == [3.5, 0.5, 1.0, None]
    whole, exact = [3, -3, 4, None], [3.5, -3.5, 4.0, None]
    expected = {
        "duckdb": (exact, 3, 3),
        "postgres": (whole, 3, 0),
        "sqlite": (whole, 0, 3),
        "spark": (exact, 0, 3),
    }
    assert found == expected


def test_sums_of_decimals_of_a_word_raise_beyond_it_and_change_nothing(ws: ivm.Workspace) -> None:
    ws.sql("CREATE TABLE m (k INTEGER PRIMARY KEY, x DECIMAL(15,2) NOT NULL)")
    ws.sql("CREATE MATERIALIZED VIEW s AS SELECT sum(x) AS s, sum(x * 1000) AS t FROM m")
    most = Decimal("4999999999999.99")
    ws.sql("INSERT INTO m VALUES (1, ?), (2, ?)", [most, -most])
    ws.sql("DELETE FROM m WHERE k = 2")
    assert [*ws["s"]] == [(most, 1000 * most)]
    with pytest.raises(
        SqlError,
        match=r"s: SUM\(x \* 1000\) is 10000000000000000\.00, beyond DECIMAL\(18,2\): CAST what",
    ):
        ws.sql("INSERT INTO m VALUES (3, 5000000000000), (4, 0.01)")
    for _ in range(5):  # also where words of 64 bits would overflow several times
        with pytest.raises(SqlError, match=r"s: SUM\(.*\) is .*, beyond DECIMAL\(18,2\)"):
            ws.sql("INSERT INTO m SELECT 10 + i, 4999999999999.99 FROM generate_series(1, 99) t(i)")
    assert [*ws["s"]] == [(most, 1000 * most)] and len(ws["m"]) == 1


@pytest.mark.parametrize(
    ("query", "said", "remedied"),
    [
        (
            "SELECT sum(b) AS s FROM n",
            "SUM(b) is 9223372036854775808, beyond BIGINT",
            "SELECT sum(CAST(b AS HUGEINT)) AS s FROM n",
        ),
        (
            "SELECT k, sum(b) OVER (ORDER BY k) AS s FROM n",
            "SUM(b) OVER (ORDER BY k) is 9223372036854775808, beyond BIGINT",
            "SELECT k, sum(CAST(b AS HUGEINT)) OVER (ORDER BY k) AS s FROM n",
        ),
        (
            "SELECT k AS q, k + k, b + b, k * b FROM n",
            "b + b is 18446744073709551614, beyond BIGINT",
            "SELECT k, CAST(b AS HUGEINT) + b FROM n",
        ),
        (
            "SELECT k, b * b AS p FROM n",
            "b * b is 85070591730234615847396907784232501249, beyond BIGINT",
            "SELECT k, TRY(b * b) FROM n",
        ),
        (
            "SELECT k, d + d, d * d FROM n",
            "d * d has more than 38 digits",
            "SELECT k, CAST(d AS DOUBLE) * d FROM n",
        ),
        (
            "SELECT sum(d * d) FROM n",
            "d * d has more than 38 digits",
            "SELECT sum(TRY(d * d)) FROM n",
        ),
        (
            "SELECT k, CAST(t AS INTEGER) FROM n",
            "CAST(t AS INT) has no value in a row",
            "SELECT k, TRY_CAST(t AS INTEGER) FROM n",
        ),
    ],
)
def test_values_that_do_not_fit_are_said_in_words_of_sql(
    ws: ivm.Workspace, query: str, said: str, remedied: str
) -> None:
    """An edit, a view over rows and a query say it of the expression, and what they say to write
    works.
    """
    table = "CREATE TABLE n (k INTEGER PRIMARY KEY, b BIGINT NOT NULL, d DECIMAL(30,2) NOT NULL, t VARCHAR)"
    insert = "INSERT INTO n VALUES (1, 9223372036854775807, 9999999999999999999999999999.99, 'x')"
    ws.sql(f"{table}; INSERT INTO n VALUES (0, 1, 1, '1')")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ws.sql(f"CREATE MATERIALIZED VIEW kept AS {query}")
        for text, view in (
            (insert, "kept: "),
            (f"CREATE MATERIALIZED VIEW more AS {query}", "more: "),
            (query, ""),
        ):
            with pytest.raises(SqlError) as caught:
                ws.sql(text)
            assert f": {view}{said}: " in str(caught.value) and not re.search(
                r"_x\d|part\d|decimal:", str(caught.value)
            )
            if view == "kept: ":
                ws.sql(f"CREATE OR REPLACE MATERIALIZED VIEW kept AS {remedied}; {insert}")
    ws.verify("kept")


def test_a_view_is_replaced_by_one_whose_helpers_have_more_columns(ws: ivm.Workspace) -> None:
    """What is estimated for its recursion is not read from the helpers of the same names that
    go.
    """
    ws.sql("CREATE TABLE r (k INTEGER PRIMARY KEY, g INTEGER, a INTEGER)")
    ws.sql("INSERT INTO r VALUES (1, 1, 2), (2, 1, 3), (3, 2, 1)")
    with pytest.warns(UserWarning, match="window functions"):
        ws.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT k, rank() OVER (ORDER BY a DESC), avg(a) OVER "
            "(PARTITION BY g), "
            "lag(a, 1, 0) OVER (ORDER BY k) FROM r"
        )
    ws.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS WITH RECURSIVE p AS (SELECT k, a, g, 1 AS d FROM "
        "r UNION "
        "SELECT p.k, r.a, p.g, d + 1 FROM p JOIN r ON r.k = p.a WHERE d < 2) SELECT k, a, g, d "
        "FROM p"
    )
    assert sorted(ws["v"]) == [
        (1, 2, 1, 1),
        (1, 3, 1, 2),
        (2, 1, 1, 2),
        (2, 3, 1, 1),
        (3, 1, 2, 1),
        (3, 2, 2, 2),
    ]


def test_sums_of_long_decimals_are_exact(ws: ivm.Workspace) -> None:
    ws.sql(
        "CREATE TABLE m (k INTEGER PRIMARY KEY, x DECIMAL(18,2) NOT NULL, y HUGEINT, z "
        "DECIMAL(38,0))"
    )
    ws.sql("CREATE MATERIALIZED VIEW s AS SELECT sum(x) AS x, sum(y) AS y, sum(z) AS z FROM m")
    most, nines = Decimal("9999999999999999.99"), Decimal(10**38 - 1)
    ws.sql("INSERT INTO m SELECT i, ?, ?, 0 FROM generate_series(1, 1000) t(i)", [most, 2**80])
    assert [*ws["s"]] == [(1000 * most, 1000 * 2**80, 0)]
    ws.sql("UPDATE m SET x = -x, y = -y WHERE k > 1; UPDATE m SET z = ? WHERE k = 1", [nines])
    assert [*ws["s"]] == [(-998 * most, -998 * 2**80, nines)]
    with pytest.raises(
        SqlError, match=r"s: SUM\(z\) has more than 38 digits: CAST what it reads AS DOUBLE$"
    ):
        ws.sql("UPDATE m SET z = 1 WHERE k = 2")
    assert [*ws["s"]] == [(-998 * most, -998 * 2**80, nines)]
    assert ws["s"].to_arrow().schema.types == [
        pa.decimal128(38, 2),
        pa.decimal128(38, 0),
        pa.decimal128(38, 0),
    ]
    ws.verify("s")


def test_products_of_sums_with_many_digits_after_the_point_are_exact(ws: ivm.Workspace) -> None:
    """Those of 38 digits by type, of which a word holds too few before the point; as DuckDB's."""
    other = duckdb.connect(config={"threads": 1})
    for engine in (ws.sql, other.execute):
        engine(
            "CREATE TABLE m (k INTEGER PRIMARY KEY, g INTEGER, x DECIMAL(15,2), r DECIMAL(18,9))"
        )
        engine(
            "INSERT INTO m SELECT i, i % 3, 9999999999.99 - i, i * 1.000000001 "
            "FROM generate_series(1, 300) t(i)"
        )
    exact = "sum(x) * 0.0001000000"
    queries = [
        f"SELECT g, {exact} AS p, -({exact}) AS n, round({exact}, 3) AS r, {exact} + 1 AS more, "
        f"CAST({exact} AS DECIMAL(18,4)) AS cut, CAST({exact} AS VARCHAR) AS t FROM m GROUP BY g",
        f"SELECT g FROM m GROUP BY g HAVING sum(x) > (SELECT {exact} FROM m)",
        f"SELECT g, sum(x) > 300000 * ({exact}) AS b, coalesce({exact}, 0) AS c FROM m GROUP BY g",
        "SELECT k, r * r AS p, 0.000000001 * r * k AS q FROM m",
    ]
    for n, query in enumerate(queries):
        ws.sql(f"CREATE MATERIALIZED VIEW v{n} AS {query}")
    for edit in ("SELECT 1", "UPDATE m SET x = -x WHERE k = 7", "DELETE FROM m WHERE g = 1"):
        ws.sql(edit)
        other.execute(edit)
        for n, query in enumerate(queries):
            expected = sorted(other.execute(query).fetchall())
            assert sorted(rows(ws, f"SELECT * FROM v{n}")) == expected == sorted(rows(ws, query))


def test_decimals_of_38_digits(ws: ivm.Workspace, tmp_path: Path) -> None:
    """Literals, parameters, texts, files and defaults are exact, or refused with their place."""
    ws.sql(
        "CREATE TABLE w (k INTEGER PRIMARY KEY, x DECIMAL(38,1), h HUGEINT DEFAULT "
        "99999999999999999999)"
    )
    ws.sql(
        "INSERT INTO w VALUES (1, 1234567890123456789012345678901234567.84, -1), (2, '-1e30', NULL)"
    )
    ws.sql("INSERT INTO w (k, x) VALUES (3, ?)", [Decimal("12345678901234567890.1")])
    expected = [
        (1, Decimal("1234567890123456789012345678901234567.8"), -1), (2, -Decimal(10**30), None),
        (3, Decimal("12345678901234567890.1"), 99999999999999999999),
    ]  # fmt: skip
    assert rows(ws, "SELECT * FROM w ORDER BY k") == expected
    for file in ("w.csv", "w.parquet"):
        ws.sql(f"COPY w TO '{tmp_path / file}'; DELETE FROM w; COPY w FROM '{tmp_path / file}'")
        assert rows(ws, "SELECT * FROM w ORDER BY k") == expected
    with pytest.raises(ValueError, match="is not a value of type DECIMAL"):
        ws.sql("INSERT INTO w VALUES (4, 12345678901234567890123456789012345678.5, 0)")
    with pytest.raises(SqlError, match="integers have at most 38 digits"):
        ws.sql(f"INSERT INTO w VALUES (4, 0, {10**38})")
    with pytest.raises(SqlError, match="DECIMAL\\(39\\) has too many digits: at most 38"):
        ws.sql("CREATE TABLE wide (k INTEGER PRIMARY KEY, x DECIMAL(39,20))")
    with pytest.raises(SqlError, match="more than 38 digits after the point: CAST one of them"):
        ws.sql("SELECT CAST(1 AS DECIMAL(38,20)) * CAST(1 AS DECIMAL(38,20))")


def test_moments_with_a_zone_are_those_in_utc(ws: ivm.Workspace) -> None:
    """As parameters, texts and constants; as DuckDB has them where its TimeZone is UTC."""
    nine = datetime(2024, 1, 2, 9, tzinfo=UTC)
    zoned = nine.astimezone(timezone(timedelta(hours=3)))
    ws.sql("CREATE TABLE z (k INTEGER PRIMARY KEY, t TIMESTAMP, z TIMESTAMPTZ)")
    ws.sql(
        "INSERT INTO z VALUES (1, ?, ?), (2, '2024-01-02 09:00', '2024-01-02 10:00+01')",
        [zoned, zoned],
    )
    ws.sql("INSERT INTO z VALUES (3, :t, :t); UPDATE z SET z = :t WHERE k = 3", {"t": zoned})
    assert rows(ws, "SELECT DISTINCT t, z FROM z") == [(nine.replace(tzinfo=None), nine)]
    for test in ("t >= ?", "z = ?", "t IN (?)", "? <= z", "t BETWEEN ? AND '2024-01-02 09:00'"):
        assert len(rows(ws, f"SELECT k FROM z WHERE {test}", zoned)) == 3
        assert not rows(ws, f"SELECT k FROM z WHERE NOT {test}", zoned)
    assert rows(ws, "SELECT ? AS x", zoned) == [(nine,)]
    assert (
        rows(ws, "SELECT k FROM z WHERE z > ?", zoned)
        == rows(ws, "SELECT k FROM z WHERE t < ?", zoned)
        == []
    )


@pytest.mark.parametrize(
    "query", ["SELECT a FROM t WHERE b > 1", "SELECT a, list(b) AS l FROM t GROUP BY a"]
)
def test_a_view_that_is_uninstalled_may_be_created_again(query):
    with ivm.open(":memory:") as ws:
        ws.sql("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER); INSERT INTO t VALUES (1, 2)")
        ws.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        ws.uninstall("v")
        with pytest.raises(SqlError, match="v"):
            ws.sql("SELECT * FROM v")
        ws.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        assert len(ws["v"]) == 1


READERS = [
    "SELECT x, sum(h) s FROM t GROUP BY x", "SELECT t.k, u.x FROM t JOIN u USING (k)",
    "SELECT u.k, t.h FROM u LEFT JOIN t ON t.k = u.k",
    "SELECT k FROM u WHERE k NOT IN (SELECT k FROM t)",
    "SELECT k, h FROM t ORDER BY h DESC, k LIMIT 1", "SELECT x FROM t UNION SELECT k FROM t",
    "SELECT k, sum(h) OVER (PARTITION BY x ORDER BY k) s FROM t",
    "SELECT count(*) c FROM t WHERE x = 2",
    "WITH RECURSIVE r(a) AS (SELECT k FROM t WHERE k = 1 UNION SELECT t.x FROM t, r WHERE t.k = "
    "r.a) SELECT a FROM r",
]  # fmt: skip
BAG = "k INTEGER, x INTEGER, h INTEGER"


KEYED = "k INTEGER PRIMARY KEY CHECK (k > 0), x INTEGER, h INTEGER"


@pytest.mark.parametrize(
    ("columns", "column"),
    [(KEYED, "y INTEGER DEFAULT 5"), (KEYED, "y VARCHAR DEFAULT 'h(k, t['"), (BAG, "y INTEGER")],
)
def test_a_table_gets_a_column_and_loses_it_under_every_kind_of_view(
    columns: str, column: str, tmp_path: Path
) -> None:
    """Views follow, also in a later process; new statements read the column; a table without a
    key is refused.
    """
    duck = duckdb.connect(config={"threads": 1})
    with ivm.open(tmp_path / "s.pages") as ws, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in (
            f"CREATE TABLE t ({columns})",
            "CREATE TABLE u (k INTEGER PRIMARY KEY, x INTEGER)",
            "INSERT INTO t VALUES (1, 2, 3), (2, 1, 5)",
            "INSERT INTO u VALUES (1, 2), (3, 4)",
        ):
            ws.sql(text), duck.execute(text)
        for number, query in enumerate(READERS):
            ws.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        if columns == BAG:
            with pytest.raises(
                SqlError, match=r"t would change under v0, v1, .*: DROP them, ALTER the table"
            ):
                ws.sql(f"ALTER TABLE t ADD COLUMN {column}")
            return
        ws.sql(f"ALTER TABLE t ADD COLUMN {column}")
        duck.execute(f"ALTER TABLE t ADD COLUMN {column}")
    name = column.split(" ")[0]
    with ivm.open(tmp_path / "s.pages") as ws:
        for text in (
            "INSERT INTO t VALUES (7, 1, 9, NULL)",
            "UPDATE t SET h = 11 WHERE k = 1",
            "DELETE FROM t WHERE k = 2",
        ):
            ws.sql(text), duck.execute(text)
        ws.sql("CREATE MATERIALIZED VIEW later AS SELECT * FROM t")
        assert (
            rows(ws, "SELECT * FROM later ORDER BY k")
            == duck.execute("SELECT * FROM t ORDER BY k").fetchall()
        )
        ws.sql("DROP VIEW later")
        ws.sql(f"ALTER TABLE t DROP COLUMN {name}; INSERT INTO t VALUES (3, 1, 4)")
        duck.execute("INSERT INTO t VALUES (3, 1, 4, NULL)")
        for number, query in enumerate(READERS):
            assert sorted(rows(ws, f"SELECT * FROM v{number}"), key=repr) == sorted(
                duck.execute(query).fetchall(), key=repr
            )
        assert ws.check() == []
        with pytest.raises(SqlError, match="t would change under"):
            ws.sql("ALTER TABLE t DROP COLUMN h")


KEYS = {  # what follows from a query: the values of a key, and the rest of its row
    "SELECT who, sum(p) AS total FROM t GROUP BY who": ("ada", 7),
    "SELECT who, sum(p), count(*) FROM t GROUP BY who HAVING sum(p) > 1": ("ada", (7, 2)),
    "SELECT who, city, sum(p) FROM t JOIN u USING (who) GROUP BY who, city": ("ada", ("Ulm", 7)),
    "SELECT id, p + 1, city FROM t LEFT JOIN u USING (who)": (3, (10, None)),
    "SELECT DISTINCT ON (who) who, p FROM t ORDER BY who, p DESC": ("ada", 5),
    "SELECT t.who, id, p FROM t JOIN u USING (who)": (("ada", 1), 2),
    "SELECT who FROM u": ("ada", ()),
    "SELECT who, total + 1 FROM v0": ("ada", 8),
    "SELECT u.who, total, city FROM u JOIN v0 USING (who)": ("ada", (7, "Ulm")),
}


def test_the_key_of_a_view_is_the_smallest_that_follows(tmp_path):
    with warnings.catch_warnings(), ivm.open(tmp_path / "s.pages") as ws:
        warnings.simplefilter("ignore")  # what DISTINCT ON costs
        ws.sql("CREATE TABLE t (id INT PRIMARY KEY, who TEXT NOT NULL, p INT)")
        ws.sql("CREATE TABLE u (who TEXT PRIMARY KEY, city TEXT)")
        ws.sql("INSERT INTO t VALUES (1, 'ada', 2), (2, 'ada', 5), (3, 'bob', 9)")
        ws.sql("INSERT INTO u VALUES ('ada', 'Ulm')")
        for number, (query, (key, rest)) in enumerate(KEYS.items()):
            ws.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
            assert ws[f"v{number}"].get(key) == ws.at()[f"v{number}"].get(key) == rest, query
            assert ws[f"v{number}"].get(("zoe", 9) if isinstance(key, tuple) else key * 2) is None
        with pytest.raises(SchemaError, match=r"its key is \(who\)"):
            ws["v0"].get(("ada", 1, 2))
        ws.sql("UPDATE t SET p = 3 WHERE id = 1")
        assert ws["v0"].get("ada") == 8


WINDOWS = [
    "row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(2)", "lag(3)", "lead(3, 1, 7)",
    "first_value(3)", "last_value(3)", "nth_value(3, 2)", "sum(3)", "count(*)",
]  # fmt: skip


def test_windows_of_the_only_row_of_a_query(tmp_path: Path) -> None:
    """Of queries without a table, of totals and of subqueries, beside DuckDB."""
    with warnings.catch_warnings(), ivm.open(tmp_path / "s.pages") as ws:
        both = Both(ws)
        warnings.simplefilter("ignore")  # what windows cost
        both.run("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        both.run("INSERT INTO t VALUES (1), (2)")
        for number, one in enumerate(WINDOWS):
            over = ("", "ORDER BY 1", "PARTITION BY 1 ORDER BY 'a' ROWS 1 PRECEDING")[number % 3]
            value = f"{one} OVER ({over}) AS w"
            both.ask(f"SELECT {value}")
            both.ask(f"SELECT {value} WHERE false")
            both.ask(f"SELECT k, (SELECT {value} WHERE t.k > 1) AS v FROM t")
            both.keep(f"v{number}", f"SELECT count(*) AS n, {value} FROM t")
        both.run("INSERT INTO t VALUES (3)")
        both.compare()
