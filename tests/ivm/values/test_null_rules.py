"""Rules in which variables may be null, beside the same in SQL: views under random edits against
DuckDB's answers.
"""

import random
from collections import Counter

import duckdb
import pytest

import ivm
import pagestore
from ivm.errors import AggregateError, RuleSyntaxError, RuleTypeError
from tests.support.programs.amounts import times

TABLES = {  # each with its columns and the values that they take
    "item": (
        "k: int64, x: int64?, s: string?, d: decimal(6,2)?",
        "k",
        (range(9), (1, 2, 3), ("", "a", "b"), (1, 2)),
    ),
    "pair": ("x: int64?, s: string?", None, ((1, 2, 3), ("", "a", "b"))),
    "edge": ("x: int64?, y: int64?", None, ((1, 2, 3, 4), (1, 2, 3, 4))),
    "whole": ("x: int64", None, ((-(2**63), 0, 1, 2),)),
}
VIEWS = {
    "every(x, s) <- item(_, x?, s?, _).": "SELECT DISTINCT x, s FROM item",
    "known(x) <- item(_, x, _, _).": "SELECT DISTINCT x FROM item WHERE x IS NOT NULL",
    "joined(k, s) <- item(k, x, _, _), pair(x, s?).": "SELECT DISTINCT k, p.s FROM item i JOIN "
                                                      "pair p ON i.x = p.x",
    "half_marked(k) <- item(k, x?, _, _), pair(x, _).": "SELECT DISTINCT k FROM item i JOIN pair p "
                                                        "ON i.x = p.x",
    "same_joined(k, s) <- item(k, x?, _, _), pair(x?, s?).":
        "SELECT DISTINCT k, p.s FROM item i JOIN pair p ON i.x IS NOT DISTINCT FROM p.x",
    "doubled(k, y) <- item(k, x?, _, _), y = x * 2 + 1.": "SELECT k, x * 2 + 1 FROM item",
    "shares(k, y) <- item(k, x?, _, d?), y = d / (x - 2), x != 2.": "SELECT k, d / (x - 2) FROM "
                                                                    "item WHERE x != 2",
    "shares_too(k, y) <- item(k, x?, _, d?), !item(k, 2, _, _), y = d / (x - 2).":
        "SELECT k, d / (x - 2) FROM item WHERE x IS DISTINCT FROM 2",
    "compared(k) <- item(k, x?, s?, _), x < 3, s != \"a\".": "SELECT k FROM item WHERE x < 3 AND s "
                                                             "!= 'a'",
    "ordered(k) <- item(k, _, s?, _), s < \"b\".": "SELECT k FROM item WHERE s < 'b'",
    "equal(k, y) <- item(k, x?, _, _), pair(y?, _), x = y.":
        "SELECT DISTINCT k, y FROM item, (SELECT x AS y FROM pair) WHERE x = y",
    "twice(x) <- edge(x?, x?).": "SELECT x FROM edge WHERE x IS NOT DISTINCT FROM y",
    "twice_equal(x) <- edge(x, x).": "SELECT x FROM edge WHERE x = y",
    "lacking(k) <- item(k, x?, _, _), !pair(x, _).":
        "SELECT k FROM item i WHERE NOT EXISTS (SELECT 1 FROM pair p WHERE p.x = i.x)",
    "lacking_same(k) <- item(k, x?, _, _), !pair(x?, _).":
        "SELECT k FROM item i WHERE NOT EXISTS (SELECT 1 FROM pair p WHERE p.x IS NOT DISTINCT "
        "FROM i.x)",
    "least(k) <- item(k, x?, _, _), !(pair(y, _), y < x).":
        "SELECT k FROM item i WHERE NOT EXISTS (SELECT 1 FROM pair p WHERE p.x < i.x)",
    "lacking_whole(x) <- pair(x?, _), !whole(x).":
        "SELECT DISTINCT x FROM pair WHERE NOT EXISTS (SELECT 1 FROM whole w WHERE w.x = pair.x)",
    "whole_joined(x) <- whole(x), pair(x?, _).": "SELECT DISTINCT w.x FROM whole w JOIN pair p ON "
                                                 "w.x = p.x",
    "lacking_pair(x) <- whole(x), !pair(x?, _).":
        "SELECT x FROM whole w WHERE NOT EXISTS (SELECT 1 FROM pair p WHERE p.x = w.x)",
    "either(x) <- item(_, x?, _, _) ; pair(x?, _).": "SELECT x FROM item UNION SELECT x FROM pair",
    "either_too(x, s) <- pair(x?, s?). either_too(x, s) <- item(_, x, s, _).":
        "SELECT x, s FROM pair UNION SELECT x, s FROM item WHERE x IS NOT NULL AND s IS NOT NULL",
    "value_of[k] = x <- item(k, x?, _, _).": "SELECT k, x FROM item",
    "having(k) <- value_of[k] = _.": "SELECT k FROM item WHERE x IS NOT NULL",
    "there(k) <- value_of[k] = _?.": "SELECT k FROM item",
    "copied(k, y) <- value_of[k] = x?, y = x.": "SELECT k, x FROM item",
    "lacking_value(k) <- item(k, _, _, _), !value_of[k] = _.": "SELECT k FROM item WHERE x IS NULL",
    "reread(s) <- every(x?, s?), x > 1.": "SELECT DISTINCT s FROM item WHERE x > 1",
    "sized[s] = n <- agg<<n = count()>> item(_, _, s?, _).": "SELECT s, count(*) FROM item GROUP "
                                                             "BY s",
    "n_x[s] = n, t_x[s] = t, h_x[s] = h, c_x[s] = c <- "
    "agg<<n = count(x), t = sum(x), h = max(x), c = count()>> item(_, x?, s?, _).": {
        "n_x": "SELECT s, count(x) FROM item GROUP BY s",
        "t_x": "SELECT s, sum(x) FROM item GROUP BY s",
        "h_x": "SELECT s, max(x) FROM item GROUP BY s",
        "c_x": "SELECT s, count(*) FROM item GROUP BY s",
    },
    "l_d[x] = n, a_d[x] = a, m_d[] = m <- agg<<n = min(d), a = avg(d), m = median(d)>> item(_, x?, "
    "_, d?).": {
        "l_d": "SELECT x, min(d) FROM item GROUP BY x",
        "a_d": "SELECT x, avg(d) FROM item GROUP BY x",
        "m_d": "SELECT median(d) FROM item HAVING count(*) > 0",
    },
    "distinct_s[] = n <- agg<<n = count_distinct(s)>> item(_, _, s?, _).":
        "SELECT count(DISTINCT s) FROM item HAVING count(*) > 0",
    "least_s[x] = s <- agg<<s = min(s2)>> item(_, x?, s2?, _).": "SELECT x, min(s) FROM item GROUP "
                                                                 "BY x",
    "total_x[] = t <- agg<<t = sum(x)>> item(_, x?, _, _).": "SELECT sum(x) FROM item HAVING "
                                                             "count(*) > 0",
    "spread[s] = v <- agg<<v = variance(x)>> item(_, x?, s?, _).": "SELECT s, var_samp(x) FROM "
                                                                   "item GROUP BY s",
    "latest[s] = k <- agg<<k = last(k2, k2)>> item(k2, _, s?, _).": "SELECT s, max(k) FROM item "
                                                                    "GROUP BY s",
    "greatest[s] = k <- agg<<k = argmax(k2, x, k2)>> item(k2, x?, s?, _).":
        "SELECT s, arg_max(k, x * 100 + k) FROM item GROUP BY s",
    "best[s, n] = x <- agg<<(n, x) = top(x2, 2)>> item(_, x2?, s?, _).":
        "SELECT s, n, x FROM (SELECT s, x, row_number() OVER (PARTITION BY s ORDER BY x DESC) AS n "
        "FROM item "
        "WHERE x IS NOT NULL) WHERE n < 3",
    "shared[x, s] = n <- agg<<n = sum(d)>> item(_, x?, _, d?), pair(x?, s?).":
        "SELECT i.x, p.s, sum(d) FROM item i JOIN pair p ON i.x IS NOT DISTINCT FROM p.x GROUP BY "
        "i.x, p.s",
    "running[k] = t <- agg<<t = sum(x)>> item(k, _, _, _), item(j, x?, _, _), j <= k.":
        "SELECT a.k, sum(b.x) FROM item a JOIN item b ON b.k <= a.k GROUP BY a.k",
    "before[x, k] = n <- agg<<n = count()>> item(k, x?, _, _), item(j, x?, _, _), j < k.":
        "SELECT a.x, a.k, count(*) FROM item a JOIN item b ON a.x IS NOT DISTINCT FROM b.x AND b.k "
        "< a.k GROUP BY ALL",
    "missing(k) <- item(k, x?, _, _), is_null[x] = true.": "SELECT k FROM item WHERE x IS NULL",
    "filled(k, y) <- item(k, x?, _, _), y = coalesce[x, 0].": "SELECT k, coalesce(x, 0) FROM item",
    "alike(k) <- item(k, x?, _, _), pair(y?, _), same[x, y] = true.":
        "SELECT DISTINCT k FROM item i JOIN pair p ON i.x IS NOT DISTINCT FROM p.x",
    "unlike(k) <- item(k, x?, _, _), !(pair(y?, _), same[x, y] = true).":
        "SELECT k FROM item i WHERE NOT EXISTS (SELECT 1 FROM pair p WHERE i.x IS NOT DISTINCT "
        "FROM p.x)",
    'cased(k, y) <- item(k, x?, s?, _), y = if[x < 2, s, "z"].':
        "SELECT k, CASE WHEN x < 2 THEN s ELSE 'z' END FROM item",
    "filled_more(k) <- item(k, x?, _, d?), coalesce[x, 2] + 1 > 2, coalesce[d, 0] != 1.":
        "SELECT k FROM item WHERE coalesce(x, 2) + 1 > 2 AND coalesce(d, 0) != 1",
    "raised(k, t) <- item(k, _, s?, _), t = string:upper[s].": "SELECT k, upper(s) FROM item",
    "filled_sum[s] = t <- agg<<t = sum(y)>> item(_, x?, s?, _), y = coalesce[x, 10].":
        "SELECT s, sum(coalesce(x, 10)) FROM item GROUP BY s",
    "either_true(k) <- item(k, x?, s?, _), or[x < 2, s = \"a\"] = true.": "SELECT k FROM item "
                                                                          "WHERE x < 2 OR s = 'a'",
    "counted[] = n <- agg<<n = count() else 0>> item(_, x, _, _), x > 2.": "SELECT count(*) FROM "
                                                                           "item WHERE x > 2",
    "summed[] = n, topmost[] = m <- agg<<n = sum(x) else null, m = max(s) else null>> "
    "item(_, x?, s?, _), edge(x?, _).": {
        "summed": "SELECT sum(i.x) FROM item i JOIN edge e ON i.x IS NOT DISTINCT FROM e.x",
        "topmost": "SELECT max(i.s) FROM item i JOIN edge e ON i.x IS NOT DISTINCT FROM e.x",
    },
    "first_text[] = n <- agg<<n = min(s) else null>> item(_, 3, s?, _).": "SELECT min(s) FROM item "
                                                                          "WHERE x = 3",
    "mean[] = n, paid[] = t <- agg<<n = avg(d) else null, t = sum(d) else null>> item(_, _, _, d?).": {
        "mean": "SELECT avg(d) FROM item", "paid": "SELECT sum(d) FROM item",
    },
    "fewest[] = n <- agg<<n = min(x) else 0>> item(_, x?, _, _).": "SELECT coalesce(min(x), 0) "
                                                                   "FROM item",
    "later[] = n <- agg<<n = count() else 0>> whole(x), whole(y), y > x.":
        "SELECT count(*) FROM whole a JOIN whole b ON b.x > a.x",
    "for_each[k] = n, for_sum[k] = t <- agg<<n = count(y) else 0, t = sum(y) else null for item(k, "
    "_, _, _)>> "
    "item(k, x, _, _), edge(x, y?).": {
        "for_each": "SELECT k, count(y) FROM item i LEFT JOIN edge e ON i.x = e.x GROUP BY k",
        "for_sum": "SELECT k, sum(y) FROM item i LEFT JOIN edge e ON i.x = e.x GROUP BY k",
    },
    "for_text[s] = n <- agg<<n = count() else 0 for item(_, _, s?, _) ; pair(_, s), s = \"a\">> "
    "pair(_, s?).":
        "SELECT s, (SELECT count(*) FROM pair p WHERE p.s IS NOT DISTINCT FROM i.s) FROM "
        "(SELECT s FROM item UNION SELECT s FROM pair WHERE s = 'a') i",
    "reach(x, y) <- edge(x?, y?). reach(x, z) <- reach(x?, y), edge(y, z?).":
        "WITH RECURSIVE r AS (SELECT x, y FROM edge UNION SELECT r.x, e.y FROM r JOIN edge e ON "
        "r.y = e.x) FROM r",
    "through(x, y) <- edge(x, y). through(x, z) <- through(x?, y?), edge(y?, z?).":
        "WITH RECURSIVE r AS (SELECT x, y FROM edge WHERE x IS NOT NULL AND y IS NOT NULL UNION "
        "SELECT r.x, e.y FROM r JOIN edge e ON r.y IS NOT DISTINCT FROM e.x) FROM r",
    "low[y] = m <- agg<<m = min(c)>> (item(_, y?, _, d?), c = d ; low[x] = c, edge(x, y?)).":
        "WITH RECURSIVE r AS (SELECT x AS y, d AS c FROM item WHERE d IS NOT NULL UNION "
        "SELECT e.y, r.c FROM r JOIN edge e ON r.y = e.x) SELECT y, min(c) FROM r GROUP BY y",
}  # fmt: skip


def name_of(text: str) -> str:
    return min(text.partition("(")[0], text.partition("[")[0], key=len)


class Beside:
    """The tables in a workspace and in DuckDB."""

    def __init__(self, path: str) -> None:
        self.sql = duckdb.connect()
        with pagestore.open(path) as store, store.transaction() as txn:
            for name, (schema, key, _) in TABLES.items():
                txn.create(name, schema, key=key, keys_null=True)
                columns = ((column.name, column.type) for column in txn[name].schema.columns)
                made = ", ".join(
                    f"{column} {SQL[type_.name].format(type_)}" for column, type_ in columns
                )
                self.sql.execute(f"CREATE TABLE {name} ({made})")
        self.ws = ivm.open(path, sync="off")
        self.expected = {}
        for text, sql in VIEWS.items():
            self.expected |= sql if isinstance(sql, dict) else {name_of(text): sql}

    def edit(self, rng: random.Random, rows: int, beside: bool) -> None:
        """Edit all tables in one transaction, of the workspace or of the store."""
        with (self.ws.store if beside else self.ws).transaction() as txn:
            for name, (schema, key, values) in TABLES.items():
                nullable = [column.endswith("?") for column in schema.split(", ")]
                for _ in range(rng.randint(0, rows)):
                    row = tuple(
                        None if null and rng.random() < 0.35 else rng.choice(some)
                        for null, some in zip(nullable, values, strict=True)
                    )
                    given = row[:1] if key else row
                    columns = [column.partition(":")[0] for column in schema.split(", ")][
                        : len(given)
                    ]
                    same = " AND ".join(f"{column} IS NOT DISTINCT FROM ?" for column in columns)
                    self.sql.execute(f"DELETE FROM {name} WHERE {same}", given)
                    how = "delete"
                    if rng.random() < 0.6:
                        how = "set" if key else "insert"
                        self.sql.execute(
                            f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row
                        )
                        given = row
                    getattr(txn[name], how)([given]) if beside else getattr(txn, how)(name, [given])

    def empty(self) -> None:
        """Delete all rows."""
        with self.ws.transaction() as txn:
            for name in TABLES:
                txn.delete(name, [*self.ws[name]])
                self.sql.execute(f"DELETE FROM {name}")

    def compare(self) -> None:
        for name, sql in self.expected.items():
            found, wanted = rounded(self.ws[name]), rounded(self.sql.execute(sql).fetchall())
            assert found == wanted, (name, found - wanted, wanted - found)


def rounded(rows) -> Counter:
    """Rows as a multiset; the last digit of a float is DuckDB's own."""
    return Counter(tuple(round(x, 9) if isinstance(x, float) else x for x in row) for row in rows)


SQL = {"int64": "BIGINT", "string": "VARCHAR", "decimal": "DECIMAL({0.precision}, {0.scale})"}


@pytest.mark.parametrize("maintenance", ["match", "probe", "auto"])
def test_views_are_what_sql_says(tmp_path, maintenance):
    rng = random.Random(maintenance)
    beside = Beside(str(tmp_path / "s.pages"))
    beside.edit(rng, 12, False)
    beside.ws.install("\n".join(VIEWS), maintenance=maintenance)
    beside.compare()
    for step in range(times(8)):
        beside.edit(rng, rng.choice([1, 2, 8]), bool(step % 2))
        beside.compare()
    for change in (beside.empty, lambda: beside.edit(rng, 8, False), beside.empty):
        change()
        beside.compare()
    assert beside.ws.check() == [] and beside.ws.store.check() == []
    beside.ws.repair()
    beside.compare()
    beside.ws.close()


def test_queries_are_what_sql_says(tmp_path):
    rng = random.Random(5)
    beside = Beside(str(tmp_path / "s.pages"))
    beside.edit(rng, 12, False)
    for text, sql in VIEWS.items():
        if "value_of" not in text and "every" not in text and isinstance(sql, str):
            found, wanted = (
                rounded(beside.ws.query(text)),
                rounded(beside.sql.execute(sql).fetchall()),
            )
            assert found == wanted, (text, found - wanted, wanted - found)
    beside.ws.close()


@pytest.mark.parametrize(
    ("text", "error", "reason"),
    [
        ("p(x?) <- e(x, _).", RuleSyntaxError, "1:3: `.` marks an argument or a value of an atom"),
        ("p(x) <- e(x, y), y = x?.", RuleSyntaxError, "1:22: `.` marks an argument"),
        ("t[] = n <- agg<<n = sum(x?)>> e(x, _).", RuleSyntaxError, "1:25: `.` marks an argument"),
        (
            "t[x] = n <- agg<<n = count() else 0>> e(x, _).",
            AggregateError,
            "say of which groups there is one in any case",
        ),
        (
            "t[] = n <- agg<<n = count() else 0 for e(x, _)>> e(x, _).",
            AggregateError,
            "t has no keys, so it has no groups",
        ),
        (
            "t[x] = n <- agg<<n = count() for e(_, x)>> e(x, _).",
            AggregateError,
            "t has no `else`: leave `for` out",
        ),
        (
            "t[] = n <- agg<<n = count() else x>> e(x, _).",
            RuleSyntaxError,
            "`else` takes a constant, or null",
        ),
        (
            't[] = n <- agg<<n = sum(x) else "a">> e(x, _).',
            AggregateError,
            "a number, a date or null, and no text",
        ),
        (
            "t[] = n <- agg<<n = max(x) else null>> u(x).",
            RuleTypeError,
            "n of t is a uint64, which is never null in rules",
        ),
        (
            'p(x, y) <- e(x, _), y = null["uint64"].',
            RuleTypeError,
            "y of p is a uint64, which is never null in rules",
        ),
        ("t[] = n <- agg<<n = sum(x) else 1.5>> e(x, _).", RuleTypeError, "where int64 is wanted"),
        (
            "p(x?) -> int(x).",
            RuleTypeError,
            r"1:3: the question mark belongs to the type of x, as in int\?\(x\)",
        ),
        (
            "p(x) -> int?(x).",
            RuleTypeError,
            "x, as every column of a declared relation, is a key, and a key is never",
        ),
    ],
)
def test_misplaced_marks_are_refused(text, error, reason, tmp_path):
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install("e(x, y) -> int(x), int(y). u(x) -> uint64(x).", "stored")
        with pytest.raises(error, match=reason):
            ws.install(text)


def test_columns_of_views_say_whether_they_may_be_null(tmp_path):
    beside = Beside(str(tmp_path / "s.pages"))
    beside.ws.install("\n".join(VIEWS))
    schemas = {
        name: str(beside.ws[name].schema)
        for name in ("every", "known", "joined", "t_x", "c_x", "reach", "through")
    }
    assert schemas == {
        "every": "x: int64?, s: string?",
        "known": "x: int64",
        "joined": "k: int64, s: string?",
        "t_x": "s: string?, t: int64?",
        "c_x": "s: string?, c: int64",
        "reach": "x: int64?, y: int64?",
        "through": "x: int64, y: int64?",
    }
    assert str(beside.ws.predicates["t_x"]) == "t_x[s] = t -> string?(s), int64?(t)."
    beside.ws.close()


def test_an_underscore_before_alternatives_may_be_null() -> None:
    with ivm.open(":memory:") as ws:
        ws.install("t[k] = (a, b) -> int(k), int?(a), int(b).")
        with ws.transaction() as txn:
            txn.insert("t", [(1, None, 5), (2, 3, 6)])
        assert list(ws.query("q(k) <- t[k] = (_, b), (b = 5 ; b = 6).")) == [(1,), (2,)]
        assert list(ws.query("q[] = n <- agg<<n = count()>> t[_] = (_, b), (b = 5 ; b = 6).")) == [
            (2,)
        ]


@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_functions_of_texts_skip_rows_without_one(maintenance: str) -> None:
    with ivm.open(":memory:") as workspace:
        workspace.install("o[x] = v -> int(x), string?(v).", "stored")
        workspace.install(
            'v(a, x) <- o[x?] = a, starts_with[a, "a"].', "read", maintenance=maintenance
        )
        workspace.exec('+o[1] = null["string"]. +o[2] = "ab".')
        assert [*workspace["v"]] == [("ab", 2)]
        assert [*workspace.query('q(x) <- o[x?] = a, starts_with[a, "a"].')] == [(2,)]
        assert workspace.check() == []
