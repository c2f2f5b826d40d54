"""Lists, structs and maps as those of other types, as texts and as JSON: as constants and as
columns, equal to what DuckDB gives, and refused where it refuses.
"""

import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import duckdb
import pytest

import ivm
from ivm.errors import IvmError
from tests.support.sql.oracle import Both, rows_of

# of each value, the types that it is converted to
VALUES: dict[str, tuple[str, ...]] = {
    "LIST": (
        "[1, 300, NULL]", "[1.5, 2.5, -0.5]", "[0.1::DOUBLE, NULL, 1e300]", "['1', 'x', NULL, ' 7 ']",
        "[true, NULL]", "[DATE '2020-02-29']", "[TIMESTAMP '2020-01-01 10:00:00.5']", "[]", "[NULL]",
        "NULL::INTEGER[]", "['2020-01-01', 'true']", "[1::TINYINT]", "['a', 'b']",
    ),
    "NEST": ("[[1, 2], [], NULL, [NULL]]", "[['1', '']]", "[]"),
    "STRUCT": (
        "{'a': 1, 'b': 'x'}", "{'b': '2', 'a': 1.5}", "row(1, 'y')", "{'a': 300, 'b': NULL}",
        "{'A': 1, 'c': 2}", "NULL::STRUCT(a INTEGER, b VARCHAR)", "{'c': 1}", "row(1)",
    ),
    "STRUCTS": ("[{'a': 1, 'b': 'x'}, NULL, {'a': NULL, 'b': 'it''s'}]", "[{'a': [1, 2], 'b': 1}]"),
    "MAP": (
        "MAP {'a': 1, 'b': NULL}", "MAP {1: '2', 3: 'x'}", "MAP {1.2: 1, 1.4: 2}", "MAP {}",
        "NULL::MAP(VARCHAR, INTEGER)", "MAP {'1': [1, 2]}",
    ),
}  # fmt: skip
TYPES = {
    "LIST": (
        "TINYINT[]", "INTEGER[]", "HUGEINT[]", "DOUBLE[]", "FLOAT[]", "DECIMAL(5,2)[]", "DECIMAL(30,1)[]",
        "VARCHAR[]", "BOOLEAN[]", "DATE[]", "TIMESTAMP[]", "TIME[]", "ENUM('a', '1')[]", "VARCHAR", "JSON",
        "INTEGER", "INTEGER[][]",
    ),
    "NEST": ("DOUBLE[][]", "VARCHAR[]", "VARCHAR[][]", "INTEGER[]", "VARCHAR", "JSON"),
    "STRUCT": (
        "STRUCT(a DOUBLE, b VARCHAR)", "STRUCT(b VARCHAR, a TINYINT)", "STRUCT(a INTEGER)",
        "STRUCT(a VARCHAR, b INTEGER)", "VARCHAR", "JSON", "INTEGER",
    ),
    "STRUCTS": ("STRUCT(b VARCHAR, a VARCHAR)[]", "VARCHAR", "JSON", "STRUCT(a DOUBLE[])[]"),
    "MAP": (
        "MAP(VARCHAR, DOUBLE)", "MAP(INTEGER, INTEGER)", "MAP(VARCHAR, VARCHAR)", "VARCHAR", "JSON",
        "MAP(DOUBLE, DOUBLE[])", "INTEGER[]",
    ),
}  # fmt: skip
CASES = [
    (f"{cast}({{}} AS {type_})", value)
    for kind, values in VALUES.items()
    for type_, value, cast in product(TYPES[kind], values, ("CAST", "TRY_CAST"))
]
NAMED = ("is not converted to", "do not have the same fields", "a list of HUGEINT is not kept")
TEXTS = (
    "a b",
    "a,b",
    "null",
    "NULL",
    "",
    " x",
    "y ",
    "it's",
    'q"r',
    "[z]",
    "(",
    "{",
    "k=v",
    "a:b",
    "\\",
    "é",
    "1",
)
SHOWN = {
    "INTEGER[]": (
        "[1, 2]", " [ 1 , 2.6 ] ", "[]", "[ ]", "[1,]", "[1, x]", "[1, 2", "1, 2]", "[1] 2", "x", "",
        "[NULL, null, '7']", "[[1]]",
    ),
    "VARCHAR[]": (
        "[a, b c, \"d, e\", NULL, '', 'NULL']", "[a,,b]", "[,]", "['a'b]", "['a\\'b', \"x\\\\y\"]", "[a']",
        "[(a, b), {c: d}]", "[a]]",
        "[a}, 'q' ]", "[(]", "[a\\ b]",
    ),
    "INTEGER[][]": ("[[1, 2], [], NULL, [NULL]]", "[1]", "[[x]]"),
    "DECIMAL(5,2)[]": ("[1.005, -2]", "[1000]"),
    "DATE[]": ("[2024-02-29, '2024-1-5']", "[2024-02-30]"),
    "STRUCT(a INTEGER, b VARCHAR)": (
        "{a: 1, b: x}", "{'b': \"x, y\", \"a\": 2}", "{a: 1}", "{}", "{c: 1}", "{A: 1}", "{a: 1, a: 2}",
        "(1, x y)", "(1)", "(1,)", "()",
        "(1, 2, 3)", "{a: x}", "{a: 1, b: }", "{b: p:q}", "{a}", "{a: 1,}", "{b: {c: [1, 2]}}", "[1]", "x",
    ),
    "STRUCT(a INTEGER[], b STRUCT(c VARCHAR))[]": ("[{a: [1, 2], b: {c: x}}, {b: (y)}, NULL]",),
    "MAP(VARCHAR, INTEGER)": (
        "{k=1, l = 2}", "{'k'=1}", "{}", "{k: 1}", "{k=}", "{k=x}", "{k=1, k=2}", "{NULL=1}", "{a b=NULL}",
        "{=1}", "{k}", "k=1",
    ),
    "MAP(INTEGER, VARCHAR[])": ("{1=[a, b], 2=[]}", "{x=[]}"),
}  # fmt: skip
CALLS = [
    "map(k, l)", "map(l, k)", "map([1, 1], [2, 3])", "map([1], [1, 2])", "map(NULL, [1])", "map([], [])", "map()",
    "MAP {'a': 1, 'a': 2}", "MAP {id: l, 7: []}", "map_from_entries(e)", "map_entries(m)", "map_keys(m)",
    "map_values(m)", "map_contains(m, 'a')", "map_contains(m, NULL)", "map_contains_value(m, 3)",
    "map_extract(m, 'a')", "m['a']", "cardinality(m)", "map_concat(m, MAP {'a': 7, 'q': 8}, NULL)",
    "list_contains(l, 1.5)", "list_contains([2], 1.5)", "list_position(d, 1)", "list_append(l, 1.5)",
    "list_prepend(0.5, l)", "list_contains([], 1)", "list_sum(NULL)", "list_bool_and([id > 1, NULL])",
    "list_bool_or([id > 1, NULL])", "list_bool_and([])", "list_aggregate([true, false], 'bool_or')",
    "list_sort(list_distinct(l))", "list_sort(list_distinct([1, NULL, 2, 1, id]))", "len(list_distinct(k))",
    "list_sort(array_distinct(['b', 'a', 'b', k[1]]))", "list_distinct(NULL)", "list_distinct([[1], [1]])",
    "list_sort(list_intersect(l, [2, 1, 9]))", "list_intersect(d, [1])", "list_intersect(l, NULL)",
    "list_intersect(NULL, l)", "list_intersect([2], [2.0, 2.5])", "list_intersect(l, ['1'])",
    "list_where(l, [true, false, true])", "list_where(l, [id > 1, false])", "list_where(k, NULL)",
    "list_where(l, [NULL, true])", "list_where(l, [1, 0])", "list_where(l, [])", "list_where(e, [true])",
    "list_select(l, [2, 1, 1, 0, -1, 9])", "list_select(k, [id])", "list_select(l, NULL)", "list_select(l, [])",
    "list_select(l, [NULL])", "list_select(e, [1])", "list_resize(l, 3)", "list_resize(l, 3, 7)",
    "list_resize(l, 1, 0)", "list_resize(k, 3, 'x')", "list_resize(l, 3, 2.5)", "list_resize(l, NULL)",
    "list_resize(l, -1)", "list_resize(l, 2, 'x')", "list_resize(d, id, NULL)", "list_resize(e, 2)",
    "list_resize([], 2)", "list_resize([], 2, 3)", "list_zip(l, k)", "list_zip(l, k, d, true)", "list_zip(l)",
    "list_zip(l, k, id = 1)", "list_zip(e, [1, 2])", "list_zip(l, 1)", "list_zip(NULL, l)", "list_cat(l, d)",
    "l <@ [1, 2, 3]", "[7] <@ l", "l && [7, 1]", "l @> [1]",
    "list_sort(NULL)", "l = d", "l = [1, 2.0]",
    "coalesce(l, [1.5])", "CASE WHEN id = 1 THEN l ELSE d END", "list_concat(l, d)", "[l, d]", "to_json(e)",
    "to_json(s)", "to_json(m)", "json_object('l', l, 'm', m, 's', s, 'n', NULL)", "to_json([[1.5], NULL])",
    "upper(l)", "l LIKE '1%'", "concat('a', l)", "l || 'a'", "l::VARCHAR || m::VARCHAR || s::VARCHAR",
]  # fmt: skip
ROWS = """INSERT INTO t VALUES (1, [1, 2], ['a', 'b'], MAP {'a': 1, 'b': NULL}, [{'k': 'x', 'v': 1}], [1.0, 2.0],
 {'a b': 1, 'it''s': 'x'}), (2, NULL, NULL, NULL, NULL, NULL, NULL), (3, [], [], MAP {}, [], [], {'a b': NULL,
 'it''s': NULL}), (4, [7], ['null'], MAP {'z': 3}, [{'k': '', 'v': NULL}], [NULL], {'a b': 3, 'it''s': ''})"""
TABLE = """CREATE TABLE t (id INTEGER PRIMARY KEY, l INTEGER[], k VARCHAR[], m MAP(VARCHAR, INTEGER),
 e STRUCT(k VARCHAR, v INTEGER)[], d DOUBLE[], s STRUCT("a b" INTEGER, "it's" VARCHAR))"""


@pytest.fixture
def both(tmp_path: Path) -> Iterator[Both]:
    """A workspace and a DuckDB, each with a table of lists, structs and maps."""
    with ivm.open(tmp_path / "t.pages", threads=1, sync="off") as workspace:
        found = Both(workspace)
        found.run(TABLE)
        found.run(ROWS)
        yield found


def _differs(both: Both, query: str) -> str:
    """Return how the answers to a query differ; empty where they do not, or both are refused, or
    the types of values have no conversion here, and DuckDB gives null for that under TRY_CAST.
    """
    expected = found = None
    try:
        expected = rows_of(both.duck.execute(query).to_arrow_table())
    except duckdb.Error as error:
        expected = f"refused: {error}"
    try:
        found = rows_of(both.workspace.sql(query).to_arrow())
    except ivm.IvmError as error:
        found = f"refused: {error}"
    named = isinstance(found, str) and any(one in found for one in NAMED)
    refused = isinstance(found, str) and (isinstance(expected, str) or named)
    return "" if refused or expected == found else f"{query}\n  {expected}\n  {found}"


@pytest.mark.parametrize("part", range(8))
def test_a_cast_of_a_list_gives_what_duckdb_gives(both: Both, part: int) -> None:
    differ = [_differs(both, f"SELECT {form.format(value)} AS v") for form, value in CASES[part::8]]
    assert [one for one in differ if one] == []


def test_a_cast_of_a_column_gives_what_duckdb_gives(both: Both) -> None:
    differ = []
    for number, (kind, values) in enumerate(VALUES.items()):
        of = TYPES[kind][0].replace("TINYINT", "INTEGER")
        both.run(f"CREATE TABLE c{number} (id INTEGER PRIMARY KEY, v {of})")
        for place, value in enumerate(values):
            try:
                both.run(f"INSERT INTO c{number} VALUES ({place}, {value})")
            except (duckdb.Error, ivm.IvmError):
                both.duck.execute(f"DELETE FROM c{number} WHERE id = {place}")
        for type_, cast in product(TYPES[kind], ("CAST", "TRY_CAST")):
            differ.append(_differs(both, f"SELECT id, {cast}(v AS {type_}) AS w FROM c{number}"))
        differ.append(_differs(both, f"SELECT * FROM c{number}"))
    assert [one for one in differ if one] == []


@pytest.mark.parametrize("type_", SHOWN)
def test_a_text_is_read_as_duckdb_reads_it(both: Both, type_: str) -> None:
    """As a constant, in a column, under TRY_CAST, and where a column of the type is given it."""
    both.run("CREATE TABLE shown (id INTEGER PRIMARY KEY, s VARCHAR)")
    both.run(f"CREATE TABLE given (id INTEGER PRIMARY KEY, v {type_})")
    differ, quoted = [], [one.replace("'", "''") for one in SHOWN[type_]]
    for place, text in enumerate(quoted):
        both.run(f"INSERT INTO shown VALUES ({place}, '{text}')")
        differ.append(_differs(both, f"SELECT TRY_CAST('{text}' AS {type_}) AS v"))
        differ.append(_differs(both, f"SELECT CAST('{text}' AS {type_}) AS v"))
        differ.append(
            _differs(both, f"SELECT CAST(s AS {type_}) AS v FROM shown WHERE id = {place}")
        )
        sides = [both.duck.execute, both.workspace.sql]
        if (
            differ[-1] == ""
            and len(
                {
                    _is_refused(side, f"INSERT INTO given VALUES ({place}, '{text}')")
                    for side in sides
                }
            )
            > 1
        ):
            differ.append(f"INSERT of {text}")
    differ.append(_differs(both, f"SELECT id, TRY_CAST(s AS {type_}) AS v FROM shown"))
    differ.append(_differs(both, "SELECT * FROM given"))
    assert [one for one in differ if one] == []


def _is_refused(run: Callable[[str], object], statement: str) -> bool:
    try:
        run(statement)
    except (duckdb.Error, ivm.IvmError):
        return True
    return False


def test_functions_of_lists_and_maps_give_what_duckdb_gives(both: Both) -> None:
    differ = [_differs(both, f"SELECT id, {one} AS v FROM t WHERE id < 4") for one in CALLS]
    assert [one for one in differ if one] == []


def test_texts_within_the_text_of_a_list_are_in_quotes_where_duckdb_writes_them(both: Both) -> None:
    shown = [one.replace("'", "''") for one in TEXTS]
    differ = [
        _differs(
            both,
            f"SELECT ['{one}']::VARCHAR, {{'f': '{one}'}}::VARCHAR, MAP {{'{one}': 1}}::VARCHAR",
        )
        for one in shown
    ]
    assert [one for one in differ if one] == []


def test_kept_casts_and_maps_follow_edits_of_lists(both: Both) -> None:
    casts = ["l::DOUBLE[]", "l::VARCHAR", "TRY_CAST(k AS INTEGER[])", "m::MAP(VARCHAR, DOUBLE)", "s::VARCHAR",
             "map(k, d)", "map_from_entries(e)", "to_json(e)", "d::INTEGER[]"]  # fmt: skip
    both.keep(
        "v", f"SELECT id, {', '.join(f'{one} AS c{n}' for n, one in enumerate(casts))} FROM t"
    )
    both.compare()
    for edit in (
        "UPDATE t SET l = [3.0, 4.5], d = [1, 2], m = MAP {'q': 2.5}, s = row(9, 'z') WHERE id = 2",
        "UPDATE t SET k = ['7', '8'], e = [{'k': 'n', 'v': 1.5}, {'k': 'm', 'v': 2}] WHERE id < 3",
        "INSERT INTO t (id, l, d) VALUES (9, ['5'], [1, 2])",
        "INSERT INTO t SELECT id + 10, d, k, m, e, l, s FROM t WHERE id <> 3",
        "DELETE FROM t WHERE id IN (1, 11)",
    ):
        both.run(edit)
        both.compare()


@pytest.mark.parametrize(
    "edit", ["INSERT INTO t (id, l) VALUES (9, [3000000000])", "UPDATE t SET l = ['x']"]
)
def test_a_list_with_a_value_beyond_its_type_is_refused_wholly(both: Both, edit: str) -> None:
    with pytest.raises(ivm.IvmError, match=r"t\.l \(INTEGER\[\]\) has no value"):
        both.workspace.sql(edit)
    both.ask("SELECT * FROM t")


@pytest.mark.parametrize(
    "place", ["CREATE TABLE f (l INTEGER[3])", "SELECT CAST(l AS INTEGER[3]) FROM t"]
)
def test_a_list_of_a_fixed_length_is_refused(both: Both, place: str) -> None:
    """DuckDB refuses lists of another length there."""
    with pytest.raises(ivm.IvmError, match=r"INT\[3\]"):
        both.workspace.sql(place)


@pytest.mark.parametrize(
    "text",
    ["e\u0301x", "\u0301e", "\U0001f1e9\U0001f1ea", "\U0001f469\u200d\U0001f467", "\r\n", ""],
)
def test_a_text_is_split_into_code_points(both: Both, text: str) -> None:
    both.ask(f"SELECT string_split('{text}', ''), split_part('{text}', '', 1), reverse('{text}')")


NUMBERS = (
    "1.50::DECIMAL(5,2)", "2::DECIMAL(5,2)", "-0.00001::DECIMAL(5,5)", "0.00000010::DECIMAL(15,8)",
    "0.00000010::DECIMAL(16,8)", "99999999999999.99::DECIMAL(18,2)", "7::DECIMAL(18,0)",
    "12345678901234567890.50::DECIMAL(38,2)", "0.5::DECIMAL(38,38)", "0.00001::FLOAT", "0.1::FLOAT",
    "1e-6::DOUBLE", "1e-7::DOUBLE", "1.5e-10::DOUBLE", "1e16::DOUBLE", "1e20::DOUBLE", "1e21::DOUBLE",
    "0::DOUBLE", "'inf'::DOUBLE", "'nan'::DOUBLE", "1", "true", "NULL::DOUBLE", "DATE '2024-01-01'",
    "TIMESTAMP '2024-01-01 10:00:00'", "'a' || chr(10)", "chr(9) || '\"\\'", "chr(8) || chr(12) || chr(13)",
)  # fmt: skip
WAYS = (
    "to_json({})", "to_json([{}])", "to_json({{'a': {}}})", "json_object('a', {})", "json_array({})",
    "CAST({} AS JSON)", "CAST([{}] AS JSON)", "to_json(MAP {{'a': {}}})", "[{}][1]", "[{0}] = [{0}]",
    "list_contains([{0}], {0})", "{{'a': {}}}.a",
)  # fmt: skip


@pytest.mark.parametrize("value", NUMBERS)
def test_json_has_values_as_duckdb_writes_them(both: Both, value: str) -> None:
    """Numbers by their digits, and texts whose letters JSON escapes."""
    ways = [way for way in WAYS if "chr" not in value or way != "CAST({} AS JSON)"]
    terms = ", ".join(f"{way.format(f'({value})')} AS c{n}" for n, way in enumerate(ways))
    both.ask(f"SELECT {terms}")


def test_a_text_with_a_line_end_is_one_value_of_lists(both: Both) -> None:
    both.run("CREATE TABLE lines (id INTEGER PRIMARY KEY, s VARCHAR)")
    both.run("INSERT INTO lines VALUES (1, 'a' || chr(10) || ',b'), (2, chr(9) || ',\"')")
    for term in (
        "string_split(s, ',') = [split_part(s, ',', 1), split_part(s, ',', 2)]", "[s][1] = s",
        "{'a': s}.a = s", "MAP {s: 1}[s]", "json_object(s, s)", "to_json({'a': s}) ->> 'a' = s",
    ):  # fmt: skip
        both.ask(f"SELECT id, {term} AS r FROM lines ORDER BY id")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", "INTEGER[]"),
        ("[1]", "INTEGER[]"),
        ("1,[2]", "INTEGER[][]"),
        ('{"a": 1}', "VARCHAR[]"),
        ('"x"', "TIME[]"),
        ('"x"', "DATE[]"),
        ("", "STRUCT(x INTEGER)"),
        ("1", "MAP(VARCHAR, INTEGER)"),
    ],
)
@pytest.mark.parametrize("asked", ["SELECT b FROM t", "SELECT * FROM v"])
def test_a_text_that_is_no_list_is_said(text: str, kind: str, asked: str) -> None:
    """Edits that are not SQL's store texts as they are."""
    with ivm.open(":memory:") as ws:
        ws.sql(f"CREATE TABLE t (a INTEGER PRIMARY KEY, b {kind})")
        ws.sql("CREATE MATERIALIZED VIEW v AS SELECT b FROM t")
        ws.insert("t", [(1, None), (2, text)])
        with pytest.raises(IvmError, match=re.escape(f"the text {text!r} is no {kind}, and was")):
            ws.sql(asked)
        ws.sql("UPDATE t SET b = NULL WHERE a = 2")
        assert [*ws.sql(asked)] == [(None,), (None,)]
