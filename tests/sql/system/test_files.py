"""Files in FROM: questions, tables and edits read them; views and remote clients do not."""

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

import ivm
from ivm.errors import IvmError
from ivm.sql.errors import SqlError

COLUMNS = {
    "a": pa.array([1, 2, 3], pa.int32()), "b": pa.array(["x", None, "z"]),
    "c": pa.array([1.5, None, -2.5]), "d": pa.array([Decimal("1.25")] * 3, pa.decimal128(10, 2)),
    "e": pa.array([datetime(2024, 1, 1, 10)] * 3, pa.timestamp("ms")),
    "f": pa.array([date(2024, 1, 1)] * 3), "g": pa.array([b"x"] * 3), "h": [True, False, None],
    "u": pa.array([1 << 63] * 3, pa.uint64()), "s": pa.array(["p", "q", "p"]).dictionary_encode(),
    "y": pa.array([b"ab", None, b"cd"], pa.binary(2)),
    "w": pa.array([Decimal("1" * 30 + ".5")] * 3, pa.decimal128(38, 1)),
}  # fmt: skip
QUESTIONS = [
    "SELECT * FROM 'all.parquet'",
    "FROM 'few.csv'",
    "SELECT b, count(*) AS n, sum(a) AS s FROM read_parquet('all.parquet') GROUP BY b",
    "SELECT p.a, t.name FROM 'all.parquet' AS p JOIN t ON p.a = t.id WHERE p.c IS NOT NULL",
    "SELECT \"few\".a FROM 'few.csv' ORDER BY a DESC LIMIT 2",
    "SELECT * FROM read_csv('plain.csv', header = false, sep = ';')",
    "SELECT x.a, y.b FROM read_json_auto('list.json') x JOIN read_ndjson('lines.jsonl') y USING (a)",
    "WITH f AS (SELECT * FROM 'few.csv') SELECT max(a), min(b) FROM f",
    "SELECT name FROM t WHERE id IN (SELECT a FROM 'lines.jsonl')",
    "SELECT a FROM 'nested.parquet' EXCEPT SELECT id FROM t",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table = pa.table(COLUMNS)
    pyarrow.parquet.write_table(table, "all.parquet")
    pyarrow.parquet.write_table(
        table.select(["a"]).append_column("l", [[[1], [2], []]]), "nested.parquet"
    )
    Path("few.csv").write_text('a,b\n1,x\n2,\n3,"y, z"\n')
    Path("twice.csv").write_text("a,a\n1,2\n")
    Path("plain.csv").write_text("1;x\n2;y\n")
    Path("list.json").write_text(json.dumps([{"a": 1, "b": "x"}, {"a": 2}]))
    Path("lines.jsonl").write_text('{"a": 1, "b": "x"}\n{"a": 5, "b": null}\n')
    return tmp_path


@pytest.fixture
def ws() -> ivm.Workspace:
    found = ivm.open(":memory:")
    found.sql("CREATE TABLE t (id INT PRIMARY KEY, name TEXT); INSERT INTO t VALUES (1, 'one')")
    return found


def test_questions_about_files_are_answered_as_by_duckdb(folder: Path, ws: Any) -> None:
    other = duckdb.connect()
    other.execute("CREATE TABLE t (id INT, name TEXT); INSERT INTO t VALUES (1, 'one')")
    for text in QUESTIONS:
        for _ in range(3):  # also when it is asked again
            found = ws.sql(text)
        expected = [  # whose HUGEINT is a decimal here
            tuple(Decimal(v) if v == 1 << 63 else v for v in row)
            for row in other.execute(text).fetchall()
        ]
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), text
    Path("few.csv").write_text("a,b\n9,z\n")
    assert [*ws.sql("FROM 'few.csv'")] == [(9, "z")]


ALIKE = {  # what DuckDB reads as well, and into the same values
    "quotes.csv": 'a,b\n1,"x,y"\n2,"he said ""hi"""\n3,\n',
    "lines.csv": 'a,b\r\n1,"x\ny"\r\n\r\n2,z\r\n',
    "mark.csv": "\ufeffgr\u00f6\u00dfe,\u540d\n1,\u00df\n",
    "spaces.csv": "a, b\n1, x\n 2,y \n",
    "semicolons.csv": "a;b\n1;x,y\n",
    "tabs.csv": "a\tb\n1\tx\n",
    "bars.csv": "a|b\n1|x\n",
    "one.csv": "a\n1\n\n2\n",
    "postcodes.csv": "a,b\n1,007\n2,08\n",
    "plus.csv": "a,b\n1,+5\n2,5\n",
    "wide.csv": "a,b\n1,9223372036854775808\n2,-1\n",
    "hex.csv": "a,b\n1,0x1F\n2,5\n",
    "numbers.csv": "a,b\n1,1.50\n2,-.5\n3,1e5\n4,inf\n",
    "choices.csv": "a,b\n1,true\n2,f\n3,T\n",
    "days.csv": "a,b\n1,2024-01-02\n2,1969-12-31\n",
    "no day.csv": "a,b\n1,2024-02-30\n",
    "clock.csv": "a,b\n1,03:04:05\n2,23:59:59.5\n",
    "moments.csv": "a,b\n1,2024-01-02 03:04:05.123456\n2,2024-01-02 00:00:00\n",
    "zones.csv": "a,b\n1,2024-01-02T03:04:05Z\n2,2024-01-02 03:04:05+02\n",
    "mixed.csv": "a,b\n1,1\n2,x\n",
    "null.csv": "a,b\n1,\n2,\n",
    "days.json": '{"a": 1, "b": "2024-01-02"}\n{"a": 2, "b": "1969-12-31"}\n',
    "clock.json": '{"a": "03:04:05"}\n',
    "zones.json": '{"a": "2024-01-02T03:04:05Z"}\n',
    "wide.json": '{"a": 1, "b": 9223372036854775808}\n{"a": 2, "b": 1}\n',
    "wide list.json": '[{"a": 1}, {"a": 9223372036854775808}]',
    "later keys.json": '[{"a": 1}, {"b": "x"}]',
    "later floats.json": '[{"a": 1}, {"a": 1.5}]',
    "texts.json": '{"a": "5", "b": "true"}\n{"a": "x\\u00e9\\n", "b": null}\n',
}


@pytest.mark.parametrize("name", ALIKE)
def test_a_file_is_read_into_the_values_that_duckdb_reads(
    tmp_path: Path, ws: Any, name: str
) -> None:
    (tmp_path / name).write_bytes(ALIKE[name].encode())
    text = f"SELECT * FROM '{tmp_path / name}'"
    other = duckdb.connect()
    other.execute("SET timezone = 'UTC'")
    expected = other.execute(text).to_arrow_table()
    found = ws.sql(text).to_arrow()
    assert found.column_names == expected.column_names

    def values(table: pa.Table) -> list[str]:
        return sorted(
            repr([int(v) if type(v) is Decimal else v for v in row.values()])
            for row in table.to_pylist()
        )

    assert values(found) == values(expected)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("INSERT INTO t SELECT * FROM 'few.csv' ON CONFLICT DO NOTHING", 3),
        ("INSERT INTO t SELECT a + 10, b FROM 'few.csv'", 4),
        ("INSERT INTO t (id) SELECT a FROM 'all.parquet' WHERE a > 1", 3),
        ("INSERT INTO t BY NAME SELECT a + 5 AS id, b AS name FROM 'few.csv'", 4),
        ("INSERT OR REPLACE INTO t SELECT * FROM 'few.csv' RETURNING id", 3),
        ("INSERT INTO t WITH f AS (FROM 'few.csv') SELECT a + 9, b FROM f", 4),
        ("DELETE FROM t; INSERT INTO t SELECT * FROM 'few.csv'", 3),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_edits_take_the_rows_of_files(
    folder: Path, ws: Any, text: str, rows: int, inside: bool
) -> None:
    if inside:
        with ws.transaction() as txn:
            txn.sql(text)
    else:
        ws.sql(text)
    assert len(ws["t"]) == rows


def test_a_table_is_made_of_a_file_and_followed(folder: Path, ws: Any) -> None:
    ws.sql("CREATE TABLE u AS SELECT * FROM 'all.parquet'")
    ws.sql("CREATE MATERIALIZED VIEW v AS SELECT s, sum(d) AS d FROM u GROUP BY s")
    assert sorted(ws.sql("SELECT * FROM v")) == [("p", Decimal("2.50")), ("q", Decimal("1.25"))]
    assert repr([*ws.sql("SELECT * FROM u")]) == repr([*ws.sql("SELECT * FROM 'all.parquet'")])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("CREATE VIEW v AS SELECT * FROM 'few.csv'", "CREATE TABLE t AS SELECT * FROM 'few.csv'"),
        ("CREATE MATERIALIZED VIEW v AS FROM read_parquet('all.parquet')", "a view follows tables"),
        ("SELECT * FROM 'none.csv'", "no file none.csv exists"),
        ("COPY t FROM 'none.csv'", "no file none.csv exists"),
        ("SELECT * FROM 'nested.parquet'", "column l is list"),
        ("SELECT * FROM 's3://bucket/a.parquet'", "not a file of this machine"),
        ("SELECT * FROM read_csv('few.csv', quotes = 1)", "read_csv has no option QUOTES"),
        ("SELECT * FROM read_csv('few.csv', true)", "options by name"),
        ("SELECT * FROM read_parquet(['a', 'b'])", "takes one file, as a text"),
        (
            "SELECT * FROM 'twice.csv'",
            "column a occurs twice: read_csv('twice.csv', header = false)",
        ),
        ("SELECT * FROM read_parquet('few.csv')", "few.csv: "),
        ("SELECT * FROM read_json('few.csv')", "few.csv: "),
        ("INSERT INTO t SELECT * FROM 'all.parquet'", "has 12 columns, and 2 are wanted"),
        ("INSERT INTO t SELECT b, b FROM 'few.csv' WHERE b = 'x'", "few.csv: "),
        ("UPDATE t SET name = (SELECT min(b) FROM 'few.csv')", "INSERT the rows of few.csv first"),
        ("DELETE FROM t WHERE id IN (SELECT a FROM 'few.csv')", "INSERT the rows of few.csv"),
    ],
)
def test_what_is_no_question_about_a_file_is_said(
    folder: Path, ws: Any, text: str, said: str
) -> None:
    with pytest.raises(SqlError) as error:
        ws.sql(text)
    assert said in str(error.value) and str(error.value).count("sql:1") == 1


def test_statements_read_and_write_files_only_where_they_may(folder: Path, ws: Any) -> None:
    ws.store.branch("side")
    ws.files_allowed = False
    for text in (
        "FROM 'few.csv'",
        "SELECT * FROM t, read_json('list.json')",
        "INSERT INTO t SELECT * FROM 'few.csv'",
        "CREATE TABLE u AS SELECT * FROM 'few.csv'",
        "COPY t FROM 'few.csv'",
        "COPY (SELECT 1) TO 'out.csv'",
    ):
        for run in (ws.sql, ws.at().sql, ws.on("side").sql):
            with pytest.raises(IvmError, match="files here|older version"):
                run(text)
        with ws.transaction() as txn, pytest.raises(IvmError):
            txn.sql(text)
    assert not Path("out.csv").exists() and [*ws.sql("SELECT id FROM t")] == [(1,)]
