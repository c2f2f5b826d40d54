"""Spark's functions and operators, as `spark.sql.ansi.enabled` and a session in UTC have them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from sqlglot import exp

from ivm.sql.dialects import spark_trees as trees
from ivm.sql.dialects.operators import (
    column_defined,
    decimal_digits,
    divided,
    like_called,
    like_with_backslash,
    shifted,
)
from ivm.sql.dialects.spark_queries import (
    KINDS,
    counted_or_null,
    grouping_column,
    grouping_id,
    groups,
    rows_of_calls,
)
from ivm.sql.dialects.table import Meaning, duckdb, table
from ivm.sql.types import KINDS as SQL_KINDS

SAME = """
now current_date curdate current_timestamp localtimestamp current_time localtime
    abs acos asin atan atan2 cbrt cos degrees exp radians sin tan sinh cosh tanh asinh acosh cot pi
    coalesce ifnull nullif greatest least
    md5 sha1
    count sum covar_pop covar_samp stddev stddev_pop stddev_samp variance var_pop var_samp
    bool_and bool_or bit_and bit_or bit_xor median approx_count_distinct any_value mode
    regr_count regr_avgx regr_avgy regr_intercept regr_r2 regr_sxx regr_sxy regr_syy
    row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value
    map_from_entries map_keys map_values flatten grouping
"""
_M2 = "(avg(CAST(:x AS DOUBLE) * :x) - avg(CAST(:x AS DOUBLE)) * avg(CAST(:x AS DOUBLE)))"
_M3 = (
    "(avg(CAST(:x AS DOUBLE) * :x * :x) - 3 * avg(CAST(:x AS DOUBLE) * :x) * avg(CAST(:x AS "
    "DOUBLE)) + 2 * avg(CAST(:x AS DOUBLE)) * avg(CAST(:x AS DOUBLE)) * avg(CAST(:x AS DOUBLE)))"
)
_POSITIVE = "CASE WHEN {0} > 0 THEN {1} END"
_INSIDE = "CASE WHEN abs(:n) BETWEEN 1 AND len(:l) THEN list_extract(:l, :n) {} END"

CALLS: dict[str, Meaning] = {
    # nulls and choices
    "nvl(a, b)": "coalesce(:a, :b)",
    "nvl2(a, b, c)": "CASE WHEN :a IS NOT NULL THEN :b ELSE :c END",
    "isnull(x)": ":x IS NULL", "isnotnull(x)": ":x IS NOT NULL",
    "nanvl(x, y)": "CASE WHEN isnan(:x) THEN :y ELSE :x END",
    "zeroifnull(x)": "coalesce(:x, 0)", "nullifzero(x)": "nullif(:x, 0)",
    "equal_null(a, b)": ":a IS NOT DISTINCT FROM :b",
    "if|iff(c, a, b)": "CASE WHEN :c THEN :a ELSE :b END", "not(x)": "NOT :x",
    # casts
    **{f"{name}(x)": f"spark_cast(:x, '{type_}')" for name, type_ in (
        *((kind.spark, name) for name, kind in SQL_KINDS.items() if kind.spark),
        ("decimal", "DECIMAL(10,0)"),
    )},
    # numbers
    "ceil|ceiling(x)": "CAST(ceil(:x) AS BIGINT)", "floor(x)": "CAST(floor(:x) AS BIGINT)",
    "round(x)": "round(:x)",
    "round(x, n)": "by_type(:x, 'float', spark_round(:x, :n), round(:x, :n))",
    "bround(x)": "by_type(:x, 'integer', :x, CAST(spark_bround(:x, 0) AS BIGINT))",
    "bround(x, n)": lambda node: trees.half_even(*node.expressions),
    "rint(x)": "spark_bround(:x, 0)", "sign|signum(x)": "CAST(sign(:x) AS DOUBLE)",
    "sqrt(x)": "sqrt(:x)", "expm1(x)": "exp(:x) - 1",
    "ln|log(x)": _POSITIVE.format(":x", "ln(:x)"),
    "log(b, x)": "CASE WHEN :x > 0 AND :b > 0 THEN ln(:x) / ln(:b) END",
    "log10(x)": _POSITIVE.format(":x", "log10(:x)"),
    "log2(x)": _POSITIVE.format(":x", "log2(:x)"),
    "log1p(x)": _POSITIVE.format("1 + :x", "ln(1 + :x)"),
    "power|pow(x, y)": "power(:x, :y)", "mod(x, y)": trees.REMAINDER,
    "pmod(x, y)": "CASE WHEN :y = 0 THEN failing(:x % :y, 'remainder by zero') "
                  "WHEN :x % :y < 0 THEN (:x % :y + :y) % :y ELSE :x % :y END",
    "positive(x)": "by_type(:x, 'text', spark_cast(:x, 'DOUBLE'), :x)",
    "negative(x)": "-(:x)",
    "factorial(n)": "CASE WHEN :n BETWEEN 0 AND 20 THEN CAST(factorial(:n) AS BIGINT) END",
    "e()": "exp(1)", "sec(x)": "1 / cos(:x)", "csc(x)": "1 / sin(:x)",
    "hypot(x, y)": "sqrt(CAST(:x AS DOUBLE) * :x + CAST(:y AS DOUBLE) * :y)",
    "atanh(x)": "atanh(:x)", "bit_count(x)": "bit_count(CAST(:x AS BIGINT))",
    "bit_get|getbit(x, n)": "CASE WHEN :n BETWEEN 0 AND by_type(:x, 'bigint', 63, 'smallint', 15, "
                            "'tinyint', 7, 31) THEN CAST((:x >> :n) & 1 AS TINYINT) "
                            "ELSE CAST(failing(:n, 'no bit is at this place') AS TINYINT) END",
    "shiftleft(x, n)": "shift_left(:x, :n)",
    "shiftright(x, n)": ":x >> by_type(:x, 'bigint', :n & 63, :n & 31)",
    "shiftrightunsigned(x, n)": "by_type(:x, 'bigint', text_shift_right_unsigned(:x, :n), "
                                "CAST(text_shift_right_unsigned(CAST(spark_cast(:x, 'INTEGER') AS BIGINT) "
                                "& 4294967295, :n) AS INTEGER))",
    "width_bucket(x, a, b, n)": "CASE WHEN :x < :a THEN 0 WHEN :x >= :b THEN :n + 1 "
                                "ELSE CAST(floor((:x - :a) * :n / (:b - :a)) AS BIGINT) + 1 END",
    "isnan(x)": "coalesce(isnan(CAST(:x AS DOUBLE)), false)",
    "try_add(x, y)": "TRY(:x + :y)", "try_subtract(x, y)": "TRY(:x - :y)",
    "try_multiply(x, y)": "TRY(:x * :y)",
    "try_divide(x, y)": "CASE WHEN :y <> 0 THEN TRY(spark_divide(:x, :y)) END",
    "try_mod(x, y)": "CASE WHEN :y <> 0 THEN :x % :y END",
    # texts
    "concat(*a)": lambda node: trees.joined(node),
    "concat_ws(s, *a)": lambda node: trees.joined_with(node),
    "len|char_length|character_length(s)": "length(:s)", "octet_length(s)": "strlen(:s)",
    "bit_length(s)": "8 * strlen(:s)", "upper|ucase(s)": "spark_upper(:s)",
    "lower|lcase(s)": "lower(:s)", "ascii(s)": "ascii(:s)",
    "contains(s, p)": "contains(:s, spark_text(:p))", "length(s)": "length(:s)",
    "levenshtein(s, p)": "levenshtein(:s, spark_text(:p))",
    "initcap(s)": "spark_initcap(:s)",
    "substr|substring(s, a)": "spark_substring(:s, :a, 2147483647)",
    "substr|substring(s, a, n)": "spark_substring(:s, :a, :n)",
    "left(s, n)": "spark_substring(:s, 1, :n)",
    "right(s, n)": "CASE WHEN :n > 0 THEN spark_substring(:s, -(:n), :n) ELSE left(:s, 0) END",
    "substring_index(s, d, n)": "spark_substring_index(:s, :d, :n)",
    "split_part(s, d, n)": "CASE WHEN :n = 0 THEN failing(:s, 'split_part counts from 1') "
                           "ELSE split_part(:s, :d, :n) END",
    "split(s, p)": lambda node: trees.pieces(node),
    "trim|btrim(s)": "trim(:s)", "btrim(s, c)": "trim(:s, :c)", "ltrim(s)": "ltrim(:s)",
    "rtrim(s)": "rtrim(:s)", "ltrim(c, s)": "ltrim(:s, :c)", "rtrim(c, s)": "rtrim(:s, :c)",
    "lpad(s, n)": "spark_lpad(:s, :n, ' ')", "rpad(s, n)": "spark_rpad(:s, :n, ' ')",
    "lpad(s, n, c)": "spark_lpad(:s, :n, :c)", "rpad(s, n, c)": "spark_rpad(:s, :n, :c)",
    "repeat(s, n)": "repeat(:s, greatest(:n, 0))",
    "sequence(a, b, s)": lambda node: trees.sequence(*node.expressions),
    "reverse(x)": "by_type(:x, 'list', list_reverse(:x), reverse(spark_text(:x)))",
    "replace(s, a)": "replace(:s, :a, '')", "replace(s, a, b)": "replace(:s, :a, :b)",
    "translate(s, a, b)": "text_translate(:s, :a, :b)",
    "overlay(s, r, n)": "spark_concat(spark_substring(:s, 1, :n - 1), :r, "
                        "spark_substring(:s, :n + length(:r), 2147483647))",
    "overlay(s, r, n, m)": trees.OVERLAY, "instr(s, p)": "strpos(:s, spark_text(:p))",
    "locate|position(p, s)": "spark_locate(:s, spark_text(:p), 1)",
    "locate|position(p, s, n)": "spark_locate(:s, spark_text(:p), :n)",
    "startswith(s, p)": "starts_with(:s, spark_text(:p))",
    "endswith(s, p)": "ends_with(:s, spark_text(:p))",
    "chr|char(n)": "CASE WHEN :n < 0 THEN '' ELSE chr(:n % 256) END",
    "space(n)": "repeat(' ', greatest(:n, 0))",
    "find_in_set(s, l)": "CASE WHEN :s IS NULL OR :l IS NULL THEN NULL WHEN contains(:s, ',') THEN "
                         "0 ELSE coalesce(list_position(string_split(:l, ','), :s), 0) END",
    "format_string|printf(f, *a)": lambda node: trees.formatted(node),
    "format_number(x, n)": "spark_format_number(:x, :n)", "sha(s)": "sha1(:s)",
    "sha2(s, n)": lambda node: trees.hashed(node),
    "crc32(s)": "spark_crc32(:s)",
    "hex(x)": "by_type(:x, 'integer float decimal', text_digits(spark_cast(:x, 'BIGINT'), 16), "
              "hex(spark_text(:x)))",
    "bin(x)": "text_digits(:x, 2)",
    "conv(s, a, b)": "CASE WHEN trim(:s) <> '' THEN spark_conv(:s, :a, :b) END",
    "base64(s)": "to_base64(encode(:s))", "soundex(s)": "spark_soundex(:s)",
    "mask(s)": "spark_mask(:s)",
    "levenshtein(a, b, n)": "CASE WHEN levenshtein(:a, :b) > :n THEN -1 ELSE levenshtein(:a, :b) "
                            "END",
    "quote(s)": "spark_concat('''', replace(:s, '''', '\\'''), '''')",
    "url_encode(s)": "spark_url_encode(:s)", "url_decode(s)": "spark_url_decode(:s)",
    # patterns
    "regexp_replace(s, p, r)": lambda node: trees.replaced(node),
    "regexp_extract(s, p)": "regexp_extract(:s, :p, 1)",
    "regexp_extract(s, p, n)": "regexp_extract(:s, :p, :n)",
    "regexp_extract_all(s, p)": "regexp_extract_all(:s, :p, 1)",
    "regexp_extract_all(s, p, n)": "regexp_extract_all(:s, :p, :n)",
    "regexp_like|regexp|rlike(s, p)": "regexp_matches(:s, :p)",
    "regexp_count(s, p)": "len(regexp_extract_all(:s, :p))",
    "regexp_substr(s, p)": "CASE WHEN regexp_matches(:s, :p) THEN regexp_extract(:s, :p) END",
    "like(s, p)": partial(like_called, exp.Like),
    "ilike(s, p)": partial(like_called, exp.ILike),
    # parts of dates
    **{f"{name}(d)": f"CAST({part}({trees.DATE}) AS INTEGER)" for name, part in (
        ("year", "year"), ("quarter", "quarter"), ("month", "month"), ("day|dayofmonth", "day"),
        ("dayofyear", "dayofyear"), ("weekofyear", "week"),
    )},
    "dayofweek(d)": f"CAST(dayofweek({trees.DATE}) AS INTEGER) + 1",
    "weekday(d)": f"CAST(isodow({trees.DATE}) AS INTEGER) - 1",
    "dayname(d)": f"left(dayname({trees.DATE}), 3)",
    "monthname(d)": f"left(monthname({trees.DATE}), 3)",
    **{f"{name}(t)": f"CAST({name}({trees.MOMENT}) AS INTEGER)" for name in ("hour", "minute",
    "second")},
    "date_part|datepart(u, t)": lambda node: trees.part_of(node.expressions[0].name,
    node.expressions[1]),
    # dates that are moved
    "date_add|dateadd(d, n)": f"{trees.DATE} + :n", "date_sub(d, n)": f"{trees.DATE} - :n",
    "date_add|dateadd|timestampadd(u, n, t)": lambda node: trees.moved(*node.expressions),
    "datediff|date_diff(a, b)": "CAST(spark_cast(:a, 'DATE') - spark_cast(:b, 'DATE') AS INTEGER)",
    "datediff|date_diff|timestampdiff(u, a, b)": lambda node: trees.difference(*node.expressions),
    "add_months(d, n)": f"CAST({trees.DATE} + to_months(:n) AS DATE)",
    "months_between(a, b)": lambda node: trees.months_between(node),
    "months_between(a, b, r)": lambda node: trees.months_between(node),
    "last_day(d)": f"last_day({trees.DATE})",
    "next_day(d, w)": lambda node: trees.next_day(*node.expressions),
    "trunc(d, u)": lambda node: trees.truncated(node, trees.TRUNC, "DATE"),
    "date_trunc(u, t)": lambda node: trees.truncated(node, trees.DATE_TRUNC, "TIMESTAMPTZ"),
    # dates that are made, read and shown
    "make_date(y, m, d)": "spark_cast(spark_concat(lpad(CAST(:y AS VARCHAR), 4, '0'), '-', :m, "
                          "'-', :d), 'DATE')",
    "make_timestamp(y, m, d, h, i, t)": "CAST(make_timestamp(:y, :m, :d, :h, :i, :t) AS "
                                        "TIMESTAMPTZ)",
    "make_timestamp_ntz(y, m, d, h, i, t)": "make_timestamp(:y, :m, :d, :h, :i, :t)",
    "to_date(d)": trees.DATE,
    "to_date(s, f)": lambda node: trees.read(node, "DATE"),
    "try_to_date(t)": "try_spark_cast(:t, 'DATE')",
    "try_to_date(s, f)": lambda node: exp.Try(this=trees.read(node, "DATE")),
    "to_timestamp|to_timestamp_ltz(t)": "spark_cast(:t, 'TIMESTAMPTZ')",
    "to_timestamp_ntz(t)": "spark_cast(:t, 'TIMESTAMP')",
    "to_timestamp|to_timestamp_ltz(s, f)": lambda node: trees.read(node, "TIMESTAMPTZ"),
    "to_timestamp_ntz(s, f)": lambda node: trees.read(node, "TIMESTAMP"),
    "try_to_timestamp(t)": "try_spark_cast(:t, 'TIMESTAMPTZ')",
    "try_to_timestamp(s, f)": lambda node: exp.Try(this=trees.read(node, "TIMESTAMPTZ")),
    "unix_timestamp|to_unix_timestamp(t)": "by_type(:t, 'text date', "
                                           "spark_cast(spark_cast(:t, 'TIMESTAMPTZ'), 'BIGINT'), "
                                           "CAST(trunc(spark_cast(:t, 'DOUBLE')) AS BIGINT))",
    "unix_timestamp|to_unix_timestamp(s, f)": lambda node: duckdb("spark_cast(:t, 'BIGINT')",
                                                                  {"t": trees.read(node,
                                                                  "TIMESTAMPTZ")}),
    "from_unixtime(n)": "spark_date_format(CAST(spark_cast(spark_cast(:n, 'BIGINT'), 'TIMESTAMPTZ') AS TIMESTAMP), "
                        "'yyyy-MM-dd HH:mm:ss')",
    "from_unixtime(n, f)": lambda node: trees.shown(duckdb("spark_cast(spark_cast(:n, 'BIGINT'), 'TIMESTAMPTZ')",
    {"n": node.expressions[0]}),
                                               node.expressions[1]),
    "date_format(t, f)": lambda node: trees.shown(*node.expressions),
    "timestamp_seconds(n)": "spark_cast(:n, 'TIMESTAMPTZ')",
    "timestamp_millis(n)": "CAST(make_timestamp(:n * 1000) AS TIMESTAMPTZ)",
    "timestamp_micros(n)": "CAST(make_timestamp(:n) AS TIMESTAMPTZ)",
    "unix_seconds(t)": "CAST(floor(epoch_us(:t) / 1000000) AS BIGINT)",
    "unix_millis(t)": "CAST(floor(epoch_us(:t) / 1000) AS BIGINT)",
    "unix_micros(t)": "epoch_us(:t)",
    "unix_date(d)": "CAST(:d - DATE '1970-01-01' AS INTEGER)",
    "date_from_unix_date(n)": "DATE '1970-01-01' + :n",
    # lists, structs and maps
    "array(*x)": "list_value(*x)", "array()": "[]",
    "element_at(l, n)": "by_type(:l, 'map', :l[(:n)], "
                        + _INSIDE.format("ELSE failing(list_extract(:l, 1), 'no value is at this "
                                         "place')") + ")",
    "try_element_at(l, n)": "by_type(:l, 'map', :l[(:n)], " + _INSIDE.format("") + ")",
    "get(l, n)": "CASE WHEN :n BETWEEN 0 AND len(:l) - 1 THEN list_extract(:l, :n + 1) END",
    f"{'|'.join(KINDS)}(*l)": lambda node: node,  # see spark_queries.py
    "elt(n, *a)": lambda node: trees.chosen(node),
    "array_repeat(x, n)": "list_transform(range(greatest(:n, 0)), e -> :x)",
    "size|cardinality(l)": "by_type(:l, 'map', cardinality(:l), len(:l))",
    "array_size(l)": "len(:l)",
    "array_contains(l, x)": "CASE WHEN :x IS NULL THEN NULL WHEN list_contains(:l, :x) THEN true "
                            "WHEN len(:l) = list_count(:l) THEN false END",
    "array_position(l, x)": "CASE WHEN :l IS NOT NULL AND :x IS NOT NULL "
                            "THEN coalesce(list_position(:l, :x), 0) END",
    "array_max(l)": "list_max(:l)", "array_min(l)": "list_min(:l)",
    "array_join(l, s)": "array_to_string(:l, :s)",
    "array_join(l, s, r)": "array_to_string(list_transform(:l, e -> coalesce(spark_text(e), :r)), "
                           ":s)",
    "array_sort(l)": "list_sort(:l, 'ASC', 'NULLS LAST')",
    "sort_array(l)": "list_sort(:l, 'ASC', 'NULLS FIRST')",
    "sort_array(l, up)": lambda node: trees.in_order(*node.expressions),
    "array_append(l, x)": "list_append(:l, :x)",
    "array_prepend(l, x)": "list_prepend(:x, :l)",
    "array_remove(l, x)": "CASE WHEN :x IS NOT NULL "
                          "THEN list_filter(:l, e -> e IS DISTINCT FROM :x) END",
    "array_compact(l)": "list_filter(:l, e -> e IS NOT NULL)",
    "arrays_overlap(l, m)": "CASE WHEN NOT list_has_any(:l, :m) AND len(:l) > 0 AND len(:m) > 0 "
                            "AND list_count(:l) + list_count(:m) < len(:l) + len(:m) THEN NULL "
                            "ELSE list_has_any(:l, :m) END",
    "slice(l, a, n)": "CASE WHEN :a < 0 THEN list_slice(:l, len(:l) + :a + 1, len(:l) + :a + :n) "
                      "ELSE list_slice(:l, :a, :a + :n - 1) END",
    "sequence(a, b)": lambda node: trees.sequence(*node.expressions),
    "transform(l, f)": "list_transform(:l, :f)", "filter(l, f)": "list_filter(:l, :f)",
    "exists(l, f)": "CASE WHEN list_contains(list_transform(:l, :f), true) THEN true "
                    "WHEN list_count(list_transform(:l, :f)) = len(:l) THEN false END",
    "struct(*a)": lambda node: trees.struct(node),
    "named_struct(*a)": lambda node: trees.named_struct(node),
    "map(*a)": lambda node: trees.map_of(node),
    "map_from_arrays(k, v)": "map(:k, :v)",
    "map_contains_key(m, k)": "map_contains(:m, :k)",
    "get_json_object(j, p)": "TRY(json_extract_string(:j, :p))",
    "json_array_length(j)": "CASE WHEN json_type(:j) = 'ARRAY' THEN json_array_length(:j) END",
    "to_json(x)": "by_type(:x, 'struct', refused('to_json of a struct leaves out its nulls: "
                  "keep its fields'), to_json(:x))",
    "typeof(x)": lambda node: duckdb(trees.type_names("x"), {"x": node.expressions[0]}),
    # aggregates
    "avg|mean|try_avg(x)": "spark_average(sum(:x), count(:x))", "try_sum(x)": "sum(:x)",
    "count(a, *b)": lambda node: trees.counted(node),
    "min(x)": "min(:x)", "max(x)": "max(:x)",
    **{f"{name}(x, y)": f"nullif({name}(:x, :y), CAST('nan' AS DOUBLE))"
       for name in ("corr", "regr_slope")},
    "count_if(c)": "count(CASE WHEN :c THEN 1 END)", "std(x)": "stddev(:x)",
    "grouping_id()": grouping_id, "grouping_id(*x)": grouping_id,
    "every(x)": "bool_and(:x)", "some|any(x)": "bool_or(:x)",
    "skewness(x)": f"{_M3} / nullif({_M2} * sqrt(greatest({_M2}, 0)), 0)",
    "kurtosis(x)": "kurtosis_pop(:x)",
    "percentile(x, q)": "quantile_cont(CAST(:x AS DOUBLE), :q)",
    "percentile_approx|approx_percentile(x, q)": "quantile_disc(:x, :q)",
    "percentile_approx|approx_percentile(x, q, n)": "quantile_disc(:x, :q)",
    "percentile_cont(q)": "percentile_cont(:q)",
    "percentile_disc(q)": "percentile_disc(:q)",
    "first|first_value(*x)": lambda node: trees.end(node, "first"),
    "last|last_value(*x)": lambda node: trees.end(node, "last"),
    "max_by(x, y)": "list_extract(arg_max(list_value(:x), :y), 1)",
    "min_by(x, y)": "list_extract(arg_min(list_value(:x), :y), 1)",
    "collect_list|array_agg(x)": lambda node: trees.collected(node.expressions[0]),
    "collect_set(x)": trees.SET,
}  # fmt: skip

# a parameter `s` is a text: of a number or a moment, what a cast to STRING gives
CALLS |= {
    signature: re.sub(r":s\b", "spark_text(:s)", meaning)
    for signature, meaning in CALLS.items()
    if isinstance(meaning, str)
}

INSTEAD = {
    "rand|random|randn|randstr|uniform|uuid|shuffle|monotonically_increasing_id|spark_partition_id": "rows follow from "
    "what is stored, and not from chance or places",
    "hash|xxhash64": "its numbers are Spark's own; take md5(x) or sha2(x, 256)",
    "array_distinct|array_union|array_except|array_intersect": "explode the lists, and collect_set "
                                                               "what is wanted",
    "aggregate|reduce|forall|zip_with|transform_keys|transform_values|map_filter|map_zip_with": "explode the list, and "
    "aggregate its rows",
    "to_utc_timestamp|from_utc_timestamp|convert_timezone|current_timezone":
        "times are in UTC; other zones are for the program that shows them",
    "window|session_window|window_time": "write date_trunc, or floor of unix_seconds(ts) by the "
                                         "width",
    "approx_top_k|histogram_numeric|count_min_sketch|hll_sketch_agg": "count(*) with GROUP BY is "
                                                                      "exact, and kept",
    "from_json|schema_of_json|json_tuple": "write get_json_object(j, '$.a')",
    "to_number|to_char|to_varchar|try_to_number": "write CAST(x AS DECIMAL(p, s)), or "
                                                  "format_number(x, n)",
    "arrays_zip|map_concat|map_entries|array_insert|str_to_map": "explode the lists, and "
                                                                 "collect_list what is wanted",
    "decode": "write CASE x WHEN ... THEN ... END",
    "product": "Spark has no such function; write exp(sum(ln(x)))",
    "make_interval|make_dt_interval|make_ym_interval": "write INTERVAL '2' DAY, or d + n for days",
    "encode|unbase64|unhex|to_binary": "BINARY is not a text here; keep the text itself",
}  # fmt: skip


OPERATORS: dict[type[exp.Expr], Callable[..., exp.Expr | None]] = {
    exp.Select: rows_of_calls, exp.Group: groups, exp.Pivot: counted_or_null,
    exp.Column: grouping_column, exp.Cast: trees.cast,
    exp.TryCast: trees.cast, exp.Div: lambda node: divided("spark", node),
    exp.Add: trees.moved_or_not, exp.Sub: trees.moved_or_not, exp.Interval: trees.interval,
    exp.Extract: trees.extract, exp.Substring: trees.substring, exp.Bracket: trees.at_place,
    exp.DPipe: trees.strict, exp.Distinct: trees.distinct, exp.Like: like_with_backslash,
    exp.ILike: like_with_backslash, exp.Overlay: trees.overlay, exp.StrPosition: trees.position,
    exp.GroupConcat: trees.listed, exp.Any: trees.any_of, exp.JSONExtract: trees.no_json,
    exp.JSONExtractScalar: trees.no_json, exp.Ceil: trees.stepped, exp.BitwiseLeftShift: shifted,
    exp.Floor: trees.stepped, exp.Mod: trees.remainder, exp.Trim: trees.trimmed, exp.DataType: decimal_digits,
    exp.ColumnDef: column_defined,
}  # fmt: skip
TABLE = table("Spark", "spark", SAME, CALLS, OPERATORS, INSTEAD)
