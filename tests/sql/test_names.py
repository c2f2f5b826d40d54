"""Names of columns without aliases are DuckDB's, for every function."""

import duckdb
import pytest

import ivm

CREATE = "CREATE TABLE t (a BIGINT, b BIGINT, s VARCHAR, d TIMESTAMP, f DOUBLE, o BOOLEAN)"
EXPRESSIONS = """
quantile_disc(a, 0.5); quantile_cont(a, 0.5); quantile(a, 0.5); percentile_cont(0.5) WITHIN GROUP (ORDER BY a);
max_by(a, b); min_by(a, b); arg_max(a,b); arg_min(a,b); listagg(s, ',' ORDER BY a); string_agg(s, ',' ORDER BY
a); group_concat(s, ',' ORDER BY a); sha256(s); md5(s); date_trunc('month', d); median(a); mode(a); stddev(a);
stddev_samp(a); stddev_pop(a); variance(a); var_samp(a); var_pop(a); list(a ORDER BY a); array_agg(a ORDER BY
a); first(a ORDER BY b); last(a ORDER BY b); any_value(a); bool_and(o); bool_or(o); bit_and(a); bit_or(a);
bit_xor(a); count_if(o); countif(o); approx_count_distinct(a); skewness(a); kurtosis(a); sem(a);
geometric_mean(f); geomean(f); fsum(f); favg(f); kahan_sum(f); covar_pop(f,f); covar_samp(f,f); corr(f,f);
regr_count(f,f); regr_slope(f,f); abs(a); ceil(f); ceiling(f); floor(f); round(f, 2); trunc(f); sign(f);
sqrt(f); cbrt(f); exp(f); ln(f); log(f); log2(f); log10(f); power(f, 2); pow(f,2); sin(f); atan2(f,f); pi();
degrees(f); radians(f); mod(a,b); a // b; a % b; a & b; a | b; ~a; a << 1; a >> 1; xor(a,b); length(s); len(s);
lower(s); lcase(s); upper(s); reverse(s); repeat(s,2); replace(s,'a','b'); translate(s,'a','b'); trim(s);
ltrim(s); rtrim(s); lpad(s,3,' '); rpad(s,3,' '); left(s,1); right(s,1); substring(s,1,2); substr(s,1,2);
s[1:3]; split_part(s,',',1); position('a' in s); strpos(s,'a'); instr(s,'a'); contains(s,'a');
starts_with(s,'a'); ends_with(s,'a'); concat(s,s); concat_ws(',',s,s); s || s; ascii(s); unicode(s); chr(65); s
LIKE 'a'; s ILIKE 'a'; s NOT LIKE 'a'; regexp_matches(s,'a'); regexp_full_match(s,'a');
regexp_replace(s,'a','b'); regexp_extract(s,'a'); extract(year from d); date_part('year', d); year(d); month(d);
day(d); hour(d); minute(d); second(d); quarter(d); week(d); dayofweek(d); isodow(d); dayofyear(d); monthname(d);
dayname(d); last_day(d); date_diff('day', d, d); datediff('day', d, d); strftime(d,'%Y'); make_date(2020,1,1);
epoch(d); epoch_ms(d); CASE WHEN a>1 THEN 2 ELSE 3 END; if(o,1,2); coalesce(a,b); ifnull(a,b); nullif(a,b);
greatest(a,b); least(a,b); a IS DISTINCT FROM b; a IS NOT DISTINCT FROM b; a BETWEEN 1 AND 2; a IN (1,2); a NOT
IN (1,2); CAST(a AS VARCHAR); a::VARCHAR; TRY_CAST(s AS INTEGER); typeof(a); NOT o; a IS NULL; -a; a <> b;
count(DISTINCT a); sum(a) FILTER (WHERE o); row_number() OVER (PARTITION BY a ORDER BY b); sum(a) OVER (ORDER BY
b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW); lag(a) OVER (ORDER BY b); avg(a); min(a); max(a); count(*);
count(a); DATE '2020-01-01'; d::DATE; date_sub('day',d,d); percentile_disc(0.25) WITHIN GROUP (ORDER BY a);
max_by(a + 1, lower(s)); regexp_extract(s, 'a', 1); max_by(a, b) OVER (PARTITION BY s); a + 1 & b; log(10, f);
mad(a); entropy(a); quantile_cont(a, [0.25, 0.5]); rank() OVER (ORDER BY abs(a) DESC NULLS LAST, abs(b), (a));
rank() OVER (ORDER BY abs(a) DESC, a DESC NULLS FIRST)
"""


@pytest.mark.filterwarnings("ignore::ivm.sql.errors.SqlWarning")
def test_columns_without_aliases_are_named_as_in_duckdb() -> None:
    expressions = [" ".join(one.split()) for one in EXPRESSIONS.split(";")]
    workspace, found, wanted = ivm.open(":memory:"), dict[str, str](), dict[str, str]()
    workspace.sql(CREATE)
    with duckdb.connect() as connection:
        connection.execute(CREATE)
        for one in expressions:
            description = workspace.sql(f"DESCRIBE SELECT {one} FROM t")
            assert description is not None
            found[one] = next(iter(description))[0]
            wanted[one] = connection.execute(f"SELECT {one} FROM t").description[0][0]
    assert found == wanted and len(found) > 170


@pytest.mark.parametrize(
    "query",
    [
        "SELECT GROUPING(g), grouping_id(g, a) FROM n GROUP BY CUBE (g, a)",
        "SELECT sum(a) OVER w, 1 + max(a) OVER v FROM n WINDOW w AS (PARTITION BY g), v AS (ORDER "
        "BY a DESC)",
        "PIVOT n ON a IN (-1, 1.50, NULL, 1e0) USING count(*), max(g) AS m",
        "PIVOT n ON a IN (-1 AS less, 2 AS two) USING count(*), max(g) AS m",
        "PIVOT (SELECT a > 1 AS z, g FROM n) ON z IN (true, false) USING sum(1 + 1), count(DISTINCT g)",
        "FROM n PIVOT (sum(a) AS z FOR g IN ('', ' ', 'w' AS a, 'O''x', '7'))",
    ],
)
def test_what_a_clause_says_is_in_names_as_in_duckdb(query: str) -> None:
    with ivm.open(":memory:") as workspace, duckdb.connect() as connection:
        for one in (workspace.sql, connection.execute):
            one("CREATE TABLE n (a INTEGER, g VARCHAR)")
        answer = workspace.sql(query)
        assert answer is not None
        assert answer.to_arrow().column_names == [
            one[0] for one in connection.execute(query).description
        ]
