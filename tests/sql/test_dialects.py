"""Statements in the dialects of Spark, PostgreSQL and SQLite, beside what the real engines
answered.

`fixtures/dialects` has their answers, for which `python -m tests.support.sql.record_dialects` asks;
the campaign asks again.
"""

import json
import re
import warnings
from decimal import Decimal
from pathlib import Path
from zlib import crc32

import pytest
from sqlglot import exp

import ivm
from ivm.sql.dialects import release
from ivm.sql.dialects.read import TABLES
from ivm.sql.errors import ParserError, SqlError
from ivm.sql.statements import parse
from tests.support.sql import dialect_page
from tests.support.sql.check_dialect import alike, said, workspace
from tests.support.sql.dialect_cases import DIALECTS, FIXTURES, cases, differences, recorded
from tests.support.sql.engines import Missing, open_engine, plain
from tests.support.sql.record_dialects import asked

RANKS = ("equal", "refused", "differs")
EVERY = 8  # of which one is compared without the campaign
HERE = json.loads((FIXTURES / "here.json").read_text(encoding="utf-8"))


def in_sample(expression: str) -> bool:
    """Return whether an expression is compared without the campaign."""
    return crc32(expression.encode()) % EVERY == 0


def compare(path: Path, dialect: str, sample: bool) -> None:
    """Compare the product with the recorded answers of an engine."""
    answers, worse = recorded(dialect)["answers"], []
    made = workspace(str(path / "w.pages"), dialect)
    for one in cases(dialect):
        if sample and not in_sample(one.expression):
            continue
        found = said(made, dialect, one, answers[one.expression])
        allowed = (
            "differs"
            if (dialect, one.expression) in differences()
            else HERE[dialect][one.expression][0]
        )
        if found.verdict not in RANKS or RANKS.index(found.verdict) > RANKS.index(allowed):
            worse.append(f"{one.expression}: {found.verdict} {found.words}")
    made.close()
    assert not worse, "\n".join(worse)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_answers_as_its_engine_or_refuses(dialect, tmp_path):
    compare(tmp_path, dialect, sample=True)


@pytest.mark.campaign
@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_of_a_dialect(dialect, tmp_path):
    compare(tmp_path, dialect, sample=False)


@pytest.mark.campaign
@pytest.mark.parametrize("dialect", ["duckdb", *DIALECTS])
def test_the_engine_still_answers_so(dialect):
    try:
        with open_engine(dialect) as engine:
            answers = recorded(dialect)["answers"]
            changed = [
                one.expression
                for one in cases(dialect)
                if not alike(asked(one, engine.rows), answers[one.expression])
            ]
    except Missing as missing:
        pytest.skip(str(missing))
    assert not changed


def test_what_differs_is_named():
    found = {
        (dialect, one)
        for dialect in DIALECTS
        for one, (verdict, _) in HERE[dialect].items()
        if verdict not in RANKS[:2]
    }
    assert found <= {*differences()}


def test_the_page_for_users_is_current():
    shown = (Path(__file__).parents[2] / "docs" / "dialects.md").read_text(encoding="utf-8")
    assert shown == dialect_page.text(), "python -m tests.support.sql.record_dialects here"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_function_that_is_not_in_the_table_is_refused_by_its_name(dialect):
    with pytest.raises(
        SqlError, match=rf"frobnicate: this function is not evaluated in dialect '{dialect}'"
    ):
        parse("SELECT frobnicate(1)", dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_function_that_is_not_evaluated_says_what_to_write(dialect):
    for name, words in TABLES[dialect].instead.items():
        with pytest.raises(SqlError, match=re.escape(words)):
            parse(f"SELECT {name}(1)", dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_meaning_in_a_table_is_duckdbs(dialect):
    for name, forms in TABLES[dialect].meanings.items():
        for parameters, meaning in forms:
            if isinstance(meaning, str):
                count = len(parameters) + any(one.startswith("*") for one in parameters)
                given = ", ".join(f"x{n}" for n in range(count))
                parse(f"SELECT {name}({given})", dialect)


def test_a_column_has_the_name_of_the_statement(tmp_path):
    with ivm.open(str(tmp_path / "w.pages"), sync="off") as ws:
        found = ws.sql("SELECT nvl(1, 2), cast(2.7 as int)", dialect="spark").to_arrow()
    assert found.column_names == ["nvl(1, 2)", "CAST(2.7 AS INTEGER)"]


def test_a_kept_view_of_a_dialect_follows_edits(tmp_path):
    with ivm.open(str(tmp_path / "w.pages"), sync="off") as ws:
        ws.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, d DATE, n DECIMAL(8,2), s VARCHAR)")
        ws.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT dayofweek(d) AS w, avg(n) AS m, collect_list(s) "
            "AS l FROM t "
            "GROUP BY dayofweek(d)",
            dialect="spark",
        )
        ws.sql(
            "INSERT INTO t VALUES (1, '2024-02-04', 1, 'a'), (2, '2024-02-11', 2, NULL), (3, "
            "'2024-02-18', 2, 'b')"
        )
        assert ws.sql("SELECT * FROM v").to_arrow().to_pylist() == [
            {"w": 1, "m": Decimal("1.666667"), "l": ["a", "b"]}
        ]
        ws.sql("DELETE FROM t WHERE id = 3")
        assert ws.sql("SELECT * FROM v").to_arrow().to_pylist() == [
            {"w": 1, "m": Decimal("1.500000"), "l": ["a"]}
        ]
        ws.check()


@pytest.mark.parametrize(
    "query, expected",
    [
        ("SELECT id, w FROM t LATERAL VIEW explode(split(s, ',')) u AS w", [[1, "a"], [1, "b"]]),
        ("SELECT id, w FROM t LATERAL VIEW OUTER explode(l) u AS w", [[1, 5], [1, 6], [2, None]]),
        ("SELECT id, p, w FROM t LATERAL VIEW posexplode(l) u AS p, w", [[1, 0, 5], [1, 1, 6]]),
        ("SELECT col FROM t LATERAL VIEW explode(l)", [[5], [6]]),
        ("SELECT id, explode(l) AS w FROM t", [[1, 5], [1, 6]]),
        ("SELECT g, count(*) FROM t GROUP BY g WITH ROLLUP", [["p", 1], ["q", 1], [None, 2]]),
        ("SELECT count(*) FROM (SELECT g, s FROM t GROUP BY g, s WITH CUBE)", [[7]]),
        (
            "SELECT g, count_if(id > 1), collect_list(s), collect_set(g) FROM t GROUP BY g",
            [["p", 0, ["a,b"], ["p"]], ["q", 1, [], ["q"]]],
        ),
        (
            "SELECT id, date_sub(lead(d) OVER (ORDER BY d), 1) AS valid_to FROM t",
            [[1, "2024-02-28"], [2, None]],
        ),
    ],
)
def test_clauses_of_spark(query, expected, tmp_path):
    with ivm.open(str(tmp_path / "w.pages"), sync="off") as ws, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ws.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, g VARCHAR, s VARCHAR, d DATE, l INTEGER[])")
        ws.sql(
            "INSERT INTO t VALUES (1, 'p', 'a,b', '2024-01-31', [5, 6]), (2, 'q', NULL, "
            "'2024-02-29', NULL)"
        )
        found = [
            [plain(value) for value in row.values()]
            for row in ws.sql(query, dialect="spark").to_arrow().to_pylist()
        ]
        assert sorted(found, key=repr) == sorted(expected, key=repr)
        ws.sql(f"CREATE MATERIALIZED VIEW v AS {query}", dialect="spark")
        ws.check()


QUERIES = [*enumerate(one.expression for one in cases("spark") if one.queries == (one.expression,))]


def views_follow(path: Path, queries: list[tuple[int, str]]) -> None:
    """Keep queries as views, empty their table and fill it again, in pieces."""
    with workspace(str(path / "w.pages"), "spark") as ws, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = [(n, one) for n, one in queries if HERE["spark"][one][0] == "equal"]
        for n, one in kept:
            ws.sql(f"CREATE MATERIALIZED VIEW v{n} AS {one}", dialect="spark")
        ws.sql("CREATE TABLE copy AS SELECT * FROM t")
        for edit in ("DELETE FROM t WHERE id % 2 = 0", "UPDATE t SET g = 'a' WHERE id = 3",
                     "DELETE FROM t", "INSERT INTO t SELECT * FROM copy"):  # fmt: skip
            ws.sql(edit)
        ws.check()
        for n, one in kept:
            rows = [
                sorted(map(repr, ws.sql(text, dialect="spark").to_arrow().to_pylist()))
                for text in (f"SELECT * FROM v{n}", one)
            ]
            assert rows[0] == rows[1], one


def test_queries_of_spark_are_kept(tmp_path):
    views_follow(tmp_path, QUERIES[:: 2 * EVERY])


@pytest.mark.campaign
def test_all_queries_of_spark_are_kept(tmp_path):
    views_follow(tmp_path, QUERIES)


@pytest.mark.parametrize("dialect", ["duckdb", *DIALECTS])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t WHERE x IS NOT NULL",
        "SELECT count(*) FILTER (WHERE x IS NOT NULL) FROM t",
        "SELECT x IS NOT NULL FROM t",
        "SELECT CASE WHEN x IS NOT NULL THEN 1 END FROM t",
        "SELECT * FROM t WHERE NOT x IS NULL",
        "SELECT * FROM t WHERE x NOT LIKE 1",
        "SELECT * FROM t WHERE x NOT IN (1)",
    ],
)
def test_negated_conditions_are_read_in_every_dialect(query, dialect, tmp_path):
    with ivm.open(str(tmp_path / "w.pages"), sync="off") as ws, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ws.sql("CREATE TABLE t (id INTEGER PRIMARY KEY, x VARCHAR)")
        ws.sql("INSERT INTO t VALUES (1, '2'), (2, NULL)")
        assert len(
            ws.sql(query.replace(" 1", " '1'").replace("(1)", "('1')"), dialect=dialect)
        ) in (1, 2)


def test_a_parser_whose_trees_are_others_is_refused(monkeypatch):
    release.refuse_other_parsers()
    monkeypatch.setattr(exp.Drop, "arg_types", {"this": True})
    with pytest.raises(
        ParserError, match=r"sqlglot \S+ has no Drop.cascade, .*: pip install 'sqlglot>=30.25,<31'"
    ):
        release.refuse_other_parsers()


def test_what_the_parser_of_another_dialect_does_not_expect_is_no_raw_error() -> None:
    with ivm.open(":memory:", threads=1) as ws, pytest.raises(SqlError, match="cannot be read"):
        ws.sql("""SELECT datetime("" 'now')""", dialect="sqlite")


def test_a_compiled_parser_is_refused(monkeypatch):
    monkeypatch.setattr(
        release.parser, "__file__", "sqlglot/parser.cpython-311-x86_64-linux-gnu.so"
    )
    with pytest.raises(ParserError, match="cannot be extended: pip uninstall sqlglotc"):
        release.refuse_other_parsers()


def test_the_releases_of_the_parser_are_those_that_are_declared():
    declared = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'"{release.RELEASES}"' in declared


def test_a_constant_quotient_by_zero_that_is_tried_is_null() -> None:
    query = "SELECT try_divide(1, 0) AS a, try_divide(1.5, 0) AS b, try_mod(1, 0) AS c"
    with ivm.open(":memory:", threads=1) as ws:
        assert [*(ws.sql(query, dialect="spark") or ())] == [(None, None, None)]


def test_json_of_a_struct_is_refused_since_spark_leaves_its_nulls_out() -> None:
    with ivm.open(":memory:", threads=1) as ws, pytest.raises(ivm.IvmError, match="keep its field"):
        ws.sql("SELECT to_json(named_struct('a', 1, 'b', NULL)) AS v", dialect="spark")


def test_postgres_knows_no_line_through_points_that_do_not_vary() -> None:
    with ivm.open(":memory:") as ws:
        ws.sql("CREATE TABLE t (id INT PRIMARY KEY, x DOUBLE, y DOUBLE)")
        ws.sql("INSERT INTO t VALUES (1, 1, 2), (2, 1, 3)")
        query = (
            "SELECT corr(y, x), corr(x, y), regr_slope(y, x), regr_intercept(y, x), "
            "regr_r2(y, x), regr_r2(x, y), initcap('ßa'), upper('ß') FROM t"
        )
        (row,) = ws.sql(query, dialect="postgres")
        assert row == (None, None, None, None, None, 1.0, "ßa", "ß")


def test_the_decade_of_a_year_before_10_is_an_error_and_not_a_raw_one() -> None:
    with ivm.open(":memory:") as ws:
        for dialect in ("duckdb", "postgres"):
            with pytest.raises(SqlError, match="has no value"):
                ws.sql("SELECT date_trunc('decade', DATE '0009-01-01')", dialect=dialect)


@pytest.mark.parametrize(
    "query, expected",
    [
        ("SELECT cast(x AS string), concat('a', x) FROM t", ("0.1", "a0.1")),
        ("SELECT round(1e300), round(double('Infinity'))", (1e300, float("inf"))),
    ],
)
def test_floats_of_32_bits_and_large_ones_of_spark(query, expected, tmp_path) -> None:
    with ivm.open(":memory:") as ws:
        ws.sql("CREATE TABLE t (id INT PRIMARY KEY, x REAL)")
        ws.sql("INSERT INTO t VALUES (1, 0.1)")
        assert [*(ws.sql(query, dialect="spark") or ())] == [expected]


def test_any_of_an_array_in_postgres_is_sought_where_it_chooses_rows() -> None:
    with ivm.open(":memory:") as ws:
        ws.sql("CREATE TABLE t (id INT PRIMARY KEY, l INT[])")
        ws.sql("INSERT INTO t VALUES (1, [1, 2]), (2, NULL), (3, [NULL])")
        for condition, chosen in (
            ("id = ANY(l)", [(1,)]),
            ("NOT id = ANY(l)", []),
            ("(id = ANY(l)) IS NULL", [(2,), (3,)]),
            ("id <> ALL(l) OR id = 3", [(3,)]),
            ("id = ANY(ARRAY[1, 3])", [(1,), (3,)]),
        ):
            rows = ws.sql(f"SELECT id FROM t WHERE {condition} ORDER BY id", dialect="postgres")
            assert [*(rows or ())] == chosen, condition


def test_an_error_shows_a_cast_as_it_was_written() -> None:
    with ivm.open(":memory:") as ws, pytest.raises(SqlError, match=r"CAST\('x' AS INT\)"):
        ws.sql("SELECT ln(CAST('x' AS integer))", dialect="postgres")


def test_no_refusal_names_functions_that_only_the_translation_has() -> None:
    messages = json.dumps(HERE)
    assert not re.findall(r"(?:SPARK|POSTGRES|SQLITE)_[A-Z]+\(|FAILING\(", messages)


@pytest.mark.parametrize(
    "dialect, query, says",
    [
        ("postgres", "SELECT id::intFROM t", "no type intFROM exists"),
        ("sqlite", "SELECT CAST(id AS foo) FROM t", "no type foo exists"),
        ("postgres", "SELECT id::x[] FROM t", "no type x"),
        ("postgres", "SELECT trunc(id, 'Q') FROM t", "trunc takes a constant number of digits"),
        ("spark", "SELECT ceil(id, 'a') FROM t", "ceil takes a constant number of digits"),
        ("spark", "SELECT pos FROM t LATERAL VIEW . posexplode(l) u", "what gives rows is explode"),
        ("spark", "SELECT bround(id, 'a') FROM t", "bround takes a constant number of digits"),
    ],
)
def test_what_a_dialect_does_not_know_is_an_error_of_its_own(dialect, query, says):
    with ivm.open(":memory:") as ws:
        ws.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        with pytest.raises(SqlError, match=says):
            ws.sql(query, dialect=dialect)


def test_an_aggregate_within_a_group_is_named_in_every_dialect():
    with ivm.open(":memory:") as ws:
        ws.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        for dialect in ("duckdb", "postgres"):
            for call, name in (
                ("mode()", "mode() WITHIN GROUP ( ORDER BY id)"),
                ("percentile_cont(0.5)", "quantile_cont(0.5 ORDER BY id)"),
            ):
                query = f"SELECT {call} WITHIN GROUP (ORDER BY id) FROM t"
                found = ws.sql(query, dialect=dialect).to_arrow().column_names
                assert found[0].replace('"', "") == name, dialect


def test_a_map_of_keys_that_are_computed_is_read_within_a_call():
    with ivm.open(":memory:") as ws:
        query = "SELECT map_contains_key(map(upper('a'), 1), 'A') AS v"
        assert [*ws.sql(query, dialect="spark")] == [(True,)]


@pytest.mark.parametrize("type_", ["CHAR(3)", "CHARACTER(3)", "CHAR", "NCHAR(2)", "CHAR(3)[]"])
@pytest.mark.parametrize(
    "form",
    ["CREATE TABLE c (k INT, x {})", "ALTER TABLE t ADD COLUMN extra {}", "SELECT s::{} FROM t"],
)
def test_texts_that_are_filled_with_blanks_are_refused_by_name(type_, form, tmp_path):
    """DuckDB's and SQLite's CHAR(n) are texts as any other."""
    made = workspace(str(tmp_path / "w.pages"), "postgres")
    with pytest.raises(SqlError, match=r"CHAR\(n\) fills texts with blanks .*: write varchar\(n\)"):
        made.sql(form.format(type_), dialect="postgres")
    if "CHAR(3)[]" not in form.format(type_) and "TABLE" in form:
        made.sql(form.format(type_), dialect="sqlite")
    made.close()
