"""No argument of a function or a clause is left out in silence: what the translation does not
read is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import duckdb
import pytest
from sqlglot import exp
from sqlglot.errors import SqlglotError

import ivm
from ivm.errors import IvmError
from ivm.sql.dialects.read import TABLES, _parsed, read, saved_query, to_save
from ivm.sql.dialects.table import translated
from ivm.sql.errors import SqlError
from ivm.sql.functions.known import CLAUSES, SAME
from ivm.sql.functions.scalar import _FAMILIES
from ivm.sql.queries.folds.kinds import _KINDS
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder
from ivm.sql.session import Reader
from ivm.sql.syntax import parsed
from tests.support.sql.calls import FORMS, OPERATORS
from tests.support.sql.dialect_cases import cases
from tests.support.sql.edges import SLOT
from tests.support.sql.side_by_side import DuckDB

TABLE = (
    "CREATE TABLE t (k INTEGER PRIMARY KEY, s VARCHAR, l INTEGER[], j JSON, d DATE, x "
    "TIMESTAMP, f DOUBLE, b BOOLEAN)"
)
IGNORED = """
    CAST(d AS VARCHAR FORMAT 'YYYY')   date_trunc('month', d, 'UTC')   lpad(s, 3, 'x', 4)   to_json(s, 1)
    s[1:4:2]   list_slice(s, 1, 4, 2)   l[:2:k]
    unnest(l, recursive := true)   unnest(l, max_depth := 2)   instr(s, 'b', 3)   locate('b', s, 3)
    json_extract(j, '$.a[*]')   json_extract(j, '$..c')   json_extract(j, '$.a[#-1')   json_extract(j, '$.a[0:1]')
    string_agg(DISTINCT s, ',' ORDER BY k)   list(DISTINCT s ORDER BY s, k)   round(f, 1, 2)
    regexp_extract(s, 'A', 0, 'i')   substring(s, 1, 2, 3)   len(s, 1)   split_part(s, 'b', 1, 2)   strftime(d, '%Y', 1)
    list_contains(l, 1, 2)   array_to_string(l, ',', 'x')   count(*, 1)   datediff('day', d, d, d)   md5(s, 1)
    date_add(d, INTERVAL 1 DAY, 1)   strptime('2024', '%Y', 3)   chr(65, 66)   list_aggregate(l, 'sum', 3)
    list_extract(l, 1, 2)   json_keys(j, '$.b', 3)   contains(s, 'a', 'b')   list_reverse(l, 1)   posexplode(l)
    s SIMILAR TO 'a' ESCAPE '!'   s GLOB 'a' ESCAPE '!'   coalesce(*COLUMNS('s'), 'a')
    list_position(l, 1, 2)   list_append(l, 1, 2)   json_valid(j, 1)   row_number(k) OVER ()
"""
CLAUSED = [
    "SELECT * FROM t, t AS u USING SAMPLE 10%",
    "SELECT * FROM t FOR UPDATE",
    "SELECT k FROM t ORDER BY k WITH FILL",
    "SELECT * FROM unnest([1, 2], [3, 4])",
    "WITH RECURSIVE r AS (SELECT 1 AS a UNION SELECT a + 1 FROM r WHERE a < 3) CYCLE a SET x USING "
    "y SELECT * FROM r",
    "INSERT INTO t (k) VALUES (7) ON CONFLICT (k) WHERE k > 3 DO NOTHING",
    "UPDATE t SET s = 'z' WHERE k = 99 LIMIT 1",
    "DELETE FROM t WHERE k = 99 LIMIT 1",
    "TRUNCATE t RESTART IDENTITY",
    "CREATE TABLE r (a INTEGER REFERENCES t (k) ON DELETE CASCADE)",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS s VARCHAR",
    "ROLLBACK TO SAVEPOINT a",
    "SELECT * FROM t NATURAL JOIN (SELECT 1 AS z)",
    "SELECT k FROM t UNION ALL STRICT CORRESPONDING SELECT k FROM t",
    "WITH RECURSIVE r(a, b) USING KEY (a) AS (SELECT 1, 9 UNION SELECT a, b - 1 FROM r WHERE b > "
    "7) SELECT * FROM r",
    "SELECT count_if(DISTINCT b) FROM t",
    "SELECT DISTINCT ON (b) b, k FROM t ORDER BY ALL",
    "SELECT * FROM t GROUP BY ALL",
    "CREATE MATERIALIZED VIEW v AS SELECT k, 'abc'::BLOB AS z FROM t",
]
EVERY = """
    abs(k)   k + 1   k - 1   k * 2   k / 2   k // 2   k % 2   -k   CAST(k AS VARCHAR)   TRY_CAST(s AS INTEGER)
    coalesce(s, 'x')   nullif(k, 1)   greatest(k, 2)   least(k, 2)   CASE WHEN b THEN 1 ELSE 2 END   if(b, 1, 2)
    k IN (1, 2)   k BETWEEN 1 AND 2   s LIKE 'a%'   s ILIKE 'a%'   s GLOB 'a*'   s SIMILAR TO 'a.*'   s ~ 'a'
    regexp_matches(s, 'a')   regexp_replace(s, 'a', 'b')   regexp_extract(s, 'a')   regexp_extract_all(s, 'a')
    regexp_full_match(s, 'a')   lower(s)   upper(s)   length(s)   reverse(s)   md5(s)   starts_with(s, 'a')
    ends_with(s, 'a')   contains(s, 'a')   sha1(s)   sha256(s)   levenshtein(s, 'a')   left(s, 1)   right(s, 1)
    substring(s, 1, 2)   trim(s)   ltrim(s, 'a')   concat(s, 'a')   concat_ws(',', s, 'a')   s || 'a'   repeat(s, 2)
    split_part(s, ',', 1)   lpad(s, 3, 'x')   rpad(s, 3, 'x')   replace(s, 'a', 'b')   strpos(s, 'a')   ascii(s)
    unicode(s)   chr(65)   hex(s)   bit_length(s)   translate(s, 'a', 'b')   format('{}', s)   printf('%s', s)
    l[1]   l[1:2]   [k, 1]   list_sort(l)   list_min(l)   list_max(l)   list_contains(l, 1)   list_concat(l, l)
    list_append(l, 1)   list_prepend(1, l)   array_to_string(l, ',')   flatten([l])   range(k)   string_split(s, ',')
    len(l)   j -> 'a'   j ->> 'a'   json_extract(j, '$.a')   json_type(j)   json_keys(j)   json(s)   to_json(s)
    json_object('a', k)   json_array(k)   {'a': k}   {'a': k}.a   MAP {'a': k}['a']   map_keys(MAP {'a': k})
    l <@ [1]   year(d)   month(d)   day(d)   hour(x)   minute(x)   second(x)   quarter(d)   week(d)   dayofweek(d)
    isodow(d)   dayofyear(d)   dayname(d)   monthname(d)   last_day(d)   date_trunc('month', d)   date_diff('day', d, d)
    extract(year FROM d)   strftime(d, '%Y')   strptime(s, '%Y')   make_date(k, 1, 1)   epoch(x)   epoch_ms(x)
    time_bucket(INTERVAL '1 hour', x)   d + INTERVAL 1 DAY   to_timestamp(k)   x AT TIME ZONE 'UTC'   round(f, 1)
    floor(f)   ceil(f)   sqrt(f)   exp(f)   ln(f)   log10(f)   log2(f)   log(2, f)   sin(f)   atan2(f, f)   cbrt(f)
    pow(f, 2)   sign(f)   trunc(f)   degrees(f)   radians(f)   isnan(f)   isinf(f)   factorial(k)   k & 1   k | 1
    xor(k, 1)   ~k   k << 1   k >> 1   typeof(k)   TRY(k / 0)   b AND b   b OR b   NOT b   k IS NULL   s IS NOT NULL
    k IS NOT DISTINCT FROM 1   EXISTS (SELECT 1)   count(*)   count(k)   count(DISTINCT k)   sum(k)   avg(f)   min(k)
    max(k)   max(k, 2)   arg_max(s, k)   arg_min(s, k)   string_agg(s, ',' ORDER BY k)   list(k ORDER BY k)
    first(s ORDER BY k)   last(s ORDER BY k)   any_value(s)   mode(k)   median(f)   quantile_cont(f, 0.5)
    quantile_disc(k, 0.5)   stddev(f)   stddev_pop(f)   var_samp(f)   var_pop(f)   corr(f, k)   covar_pop(f, k)
    regr_slope(f, k)   bool_and(b)   bool_or(b)   bit_and(k)   bit_or(k)   bit_xor(k)   count_if(b)   mad(f)
    approx_count_distinct(k)   skewness(f)   kurtosis(f)   sum(k) FILTER (WHERE b)   histogram(k)   entropy(k)
    row_number() OVER (ORDER BY k)   rank() OVER (ORDER BY k)   dense_rank() OVER (ORDER BY k)   ntile(2) OVER ()
    percent_rank() OVER (ORDER BY k)   cume_dist() OVER (ORDER BY k)   lag(k) OVER (ORDER BY k)
    lead(k, 1, 0) OVER (ORDER BY k)   first_value(k) OVER (ORDER BY k)   nth_value(k, 2) OVER (ORDER BY k)
    sum(k) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)   last_value(k) OVER (ORDER BY k)
    k = 1   k <> 1   k < 1   k <= 1   k > 1   k >= 1   k IS DISTINCT FROM 1   k = ANY(l)   k = ALL (SELECT 1)
    approx_quantile(f, 0.5)   quantile(k, 0.5)   l @> l   l && l   list_filter(l, lambda y: y > 1)
    array_length(l)   list_transform(l, lambda y: y + 1)   bit_count(k)   cot(f)   pi()   covar_samp(f, k)
    stddev_samp(f)   regr_count(f, k)   to_base64(encode(s))   regr_avgx(f, k)   regr_avgy(f, k)
    regr_intercept(f, k)   regr_r2(f, k)   regr_sxx(f, k)   regr_sxy(f, k)   regr_syy(f, k)   current_date
    date_add(d, INTERVAL 1 DAY)   date_trunc('day', d)   dayofmonth(d)   weekofyear(d)   make_time(1, 2, 3)
    make_timestamp(2024, 1, 2, 3, 4, 5)   to_days(k)   s LIKE 'a!%' ESCAPE '!'   unnest(l)
    map_from_entries([{'a': s, 'b': k}])
    MAP([s], [k])   string_split_regex(s, 'a')   struct_extract({'a': k}, 'a')   MAP {'a': k} IS NULL   now()
    overlay(s PLACING 'x' FROM 1 FOR 2)   encode(s)   random()   uuid()   current_time   base64(s)   s COLLATE nocase
    date_trunc('day', CAST(x AS DATE))   CAST(s AS DATE)   CAST(s AS TIMESTAMP)
    generate_series(d, d, INTERVAL 1 DAY)   COLUMNS('k')   date(s)
"""
# of the tables, kinds of nodes that no text of DuckDB makes in each release of the parser
NO_TEXT = {exp.BitwiseCount, exp.RegexpILike}
CALL = re.compile(r"(\w+)\((.*)\)$")
WORDED = re.compile(r" (FROM|IN|AS|BY|PLACING) |DISTINCT|COUNT\(|::")
OF = {  # a column of each kind of the tables of functions
    **dict.fromkeys(("int", "integer", "count", "any"), "k"),
    **dict.fromkeys(("text", "word"), "s"), **dict.fromkeys(("number", "float"), "f"),
    **dict.fromkeys(("timestamp", "moment", "zoned"), "x"), "time": "CAST(x AS TIME)", "date": "d",
    "truth": "b", "json": "j", "list": "l", "numbers": "l",
}  # fmt: skip
MADE = {  # flags that no text sets like this
    "If.false", "Trim.position", "ArraySort.asc", "UnixToTime.scale", "Max.expressions",
    "Bracket.offset", "Array.bracket_notation", "Array.struct_name_inheritance",
    "Array.value_constructor", "JSONExtract.only_json_types",
    "JSONExtractScalar.only_json_types",
}  # fmt: skip


def each(texts: str) -> list[str]:
    """Return texts that at least three blanks separate."""
    return re.split(r"\s{3,}", texts.strip())


@pytest.fixture(scope="module")
def ws() -> Iterator[ivm.Workspace]:
    with ivm.open(":memory:", threads=1) as own:
        own.sql(TABLE)
        yield own


@pytest.mark.parametrize(
    "text", [*(f"SELECT {one} AS v FROM t" for one in each(IGNORED)), *CLAUSED]
)
def test_an_argument_that_would_be_ignored_is_refused(ws: ivm.Workspace, text: str) -> None:
    with pytest.raises(SqlError):
        ws.sql(text)


def test_whatever_else_a_node_is_given_is_read_or_refused(ws: ivm.Workspace) -> None:
    """Of every function and operator, each argument that the parser knows and the text does not
    give is put in.
    """
    ignored = []
    with Reader(ws).catalog() as catalog:

        def translate(node: exp.Expr) -> str:
            queries = Queries(Builder("sql"), catalog.schema())
            return f"{queries.query(node, None, top=True)} {queries.builder.rules}"

        for text in each(EVERY):
            (whole,) = parsed(f"SELECT {text} AS v FROM t", "duckdb")
            try:
                plain = translate(whole.copy())
            except SqlError:  # refused as it is
                continue
            for place, node in enumerate(whole.copy().walk()):
                for key in _absent(node):
                    copy = whole.copy()
                    [*copy.walk()][place].set(key, exp.column("no_such_column"))
                    try:
                        if translate(copy) != plain:
                            continue
                    except (SqlError, LookupError, AttributeError, TypeError):
                        # no tree that a parser makes
                        continue
                    if (name := f"{type(node).__name__}.{key}") not in MADE:
                        ignored.append((text, name))
    assert not ignored


def test_every_node_that_is_translated_is_among_these() -> None:
    tables = [kind for kinds, _ in (*_FAMILIES, *_KINDS) for kind in kinds]
    seen = set[type[exp.Expr]]()
    for text in each(EVERY):
        (whole,) = parsed(f"SELECT {text} AS v FROM t", "duckdb")
        seen |= {type(node) for node in whole.walk()}
    assert {kind for kind in tables if kind not in seen} <= NO_TEXT


@pytest.mark.parametrize("dialect", TABLES)
def test_whatever_else_an_operator_of_a_dialect_is_given_is_read_or_refused(dialect: str) -> None:
    """Each kind of node that the table of a dialect translates, with each argument that it lacks."""
    table, ignored = TABLES[dialect], list[str]()
    wholes = [_parsed(one.queries[0], dialect)[0] for one in cases(dialect)]
    first: dict[tuple[type[exp.Expr], str], tuple[exp.Expr, int]] = {}
    for whole in wholes:
        for place, node in enumerate(whole.walk()):
            for key in _absent(node) if type(node) in table.operators else ():
                first.setdefault((type(node), key), (whole, place))
    for (kind, key), (whole, place) in first.items():
        copy = whole.copy()
        [*copy.walk()][place].set(key, exp.column("no_such_column"))
        try:
            if translated(copy, table) == translated(whole.copy(), table):
                ignored.append(f"{kind.__name__}.{key}")
        except (SqlError, LookupError, AttributeError, TypeError):
            continue
    assert first
    assert {*ignored} <= MADE


def test_a_function_takes_as_many_arguments_as_duckdbs(ws: ivm.Workspace) -> None:
    """Of every function, calls with fewer arguments, and with one and two more."""
    duck, taken = DuckDB().connection, []
    duck.execute(TABLE)
    with Reader(ws).catalog() as catalog:
        for call in dict.fromkeys(_calls()):
            query = f"SELECT {call} AS v FROM t"
            try:
                duck.execute(query)
            except duckdb.Error:
                try:
                    (node,) = parsed(query, "duckdb")
                    Queries(Builder("sql"), catalog.schema()).query(node, None, top=True)
                    ws.sql(query)
                    taken.append(call)
                except (IvmError, SqlglotError):
                    pass
    assert set(taken) <= {"json_keys(j, k)"}


def test_a_view_that_is_expanded_is_its_query(ws: ivm.Workspace) -> None:
    """Its text is read again with all that the first reading found: names, places, precedence."""
    other, forms = [], [SLOT.sub(lambda slot: OF[slot[1]], form) for form in OPERATORS]
    with Reader(ws).catalog() as catalog:
        for text in [*each(EVERY), *forms, "string_split(s, ',')[k]", "s[k]", "[1, 2][k]"]:
            (node,) = read(f"CREATE VIEW v AS SELECT {text} FROM t")
            found = []
            for query in (node.expression, saved_query(to_save(node))):
                queries = Queries(Builder("sql"), catalog.schema())
                with suppress(SqlError):
                    found.append(f"{queries.query(query, None, top=True)} {queries.builder.rules}")
            if found and len({*found}) != len(found) - 1:
                other.append(text)
    assert not other


def test_a_view_keeps_the_text_of_its_own_statement() -> None:
    with ivm.open(":memory:", threads=1) as own:
        own.sql(
            "CREATE TABLE l (k INTEGER PRIMARY KEY, l INTEGER[]); INSERT INTO l VALUES (2, [5, 6]);"
            " -- a remark; and no statement\n; CREATE VIEW a AS SELECT l[k], 2 AS z FROM l -- yes\n"
            "; /* ; */ CREATE VIEW b AS SELECT l[1] + ? AS z FROM l;;",
            [2],
        )
        own.sql("CREATE VIEW c AS SELECT array(1, 2)[0], nvl(1, 2)", dialect="spark")
        own.sql("CREATE TYPE mood AS ENUM ('x', 'y'); CREATE VIEW d AS SELECT 'y'::mood AS m")
        own.sql("CREATE VIEW e AS PIVOT l ON k IN (1, 2) USING count(*)")
        shown = {name: own.sql(f"FROM {name}") for name in "abcde"}
        assert [[*(answer or ())] for answer in shown.values()] == [
            [(6, 2)],
            [(7,)],
            [(1, 1)],
            [("y",)],
            [([5, 6], 0, 1)],
        ]
        with pytest.raises(SqlError, match="write values in place of parameters"):
            own.sql("CREATE VIEW f AS SELECT l[?] FROM l", [2])


def _calls() -> Iterator[str]:
    """Yield the calls of the tables of functions, with every number of arguments."""
    forms = [SLOT.sub(lambda slot: OF[slot[1]], form) for forms in FORMS.values() for form in forms]
    for form in [*forms, *each(EVERY)]:
        if (found := CALL.match(form)) and not WORDED.search(form):
            given = re.findall(r"(?:\[.*?\]|\{.*?\}|\(.*?\)|'[^']*'|[^,([{'])+", found[2])
            for number in range(len(given) + 3):
                more = ["k"] * (number - len(given))
                yield f"{found[1]}({', '.join([*map(str.strip, given[:number]), *more])})"


def _absent(node: exp.Expr) -> list[str]:
    """Return the names of the arguments that a function or an operator may have and has not."""
    if type(node) in CLAUSES:
        return []
    said = SAME.get(type(node), set())
    return [key for key in node.arg_types if not node.args.get(key) and key not in said]
