"""Window functions by ranges: what an edit takes, counted, does not grow with the partition."""

from pathlib import Path

import pytest

import ivm
from ivm.plan.plan import Columns, Distinct, Scan
from ivm.ways.way import Context
from tests.support.sql.oracle import Both

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, p INTEGER, k INTEGER NOT NULL, d DATE, x INTEGER)"
OVER = "OVER (PARTITION BY p ORDER BY {})"
# functions of rows beside a row, or with keys near its own: an edit changes a few rows of these
FUNCTIONS = {
    "lag": f"lag(x) {OVER.format('k, id')}",
    "lead of the last": f"lead(x, 1, -id) {OVER.format('d DESC NULLS FIRST, k, id')}",
    "lag of a key that is unique": f"lag(d, -1) {OVER.format('id DESC')}",
    "lag of three": f"lag(x, 3, 7) {OVER.format('k, id')}",
    "lead of two, downward": f"lead(x, 2) {OVER.format('d DESC NULLS FIRST, k DESC, id DESC')}",
    "a frame of rows": f"sum(x) {OVER.format('k, id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING')}",
    "rows before": f"count(x) {OVER.format('k DESC, id ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING')}",
    "some rows after": "max(x) FILTER (x > 1) "
    + OVER.format("k, id ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING"),
    "the first": f"first_value(x) {OVER.format('k, d, id')}",
    "the last of all": f"last_value(x) {OVER.format('k, id RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING')}",
    "a frame of keys": f"sum(x) {OVER.format('k RANGE BETWEEN 15 PRECEDING AND 5 FOLLOWING')}",
    "a frame back": f"count(*) {OVER.format('k DESC RANGE BETWEEN CURRENT ROW AND 20 FOLLOWING')}",
    "a sum up to the last rows": f"max(x) {OVER.format('k DESC')}",
    "a rank": f"rank() {OVER.format('k DESC')}",
}
EDITS = (
    "INSERT INTO t VALUES (9001, 1, 25, '2020-01-02', 7)", "UPDATE t SET x = NULL WHERE id = 11",
    "UPDATE t SET k = 35, d = NULL WHERE id = 21", "DELETE FROM t WHERE id IN (1, 11)",
    "UPDATE t SET p = NULL WHERE id % 4 = 0", "DELETE FROM t WHERE p = 1",
)  # fmt: skip


def changed(workspace: ivm.Workspace) -> int:
    """Return how many rows the last transaction changed, helper views included."""
    with workspace.store.snapshot() as snap:
        names = ["v", *(name for name in snap if name.startswith("v:") and "$" not in name)]
    found = [workspace.stats(name) for name in names]
    return sum(one["inserted"] + one["erased"] for one in found)


FIRST = {  # the first rows of each partition
    "the first row": f"SELECT id, x FROM t QUALIFY row_number() {OVER.format('k DESC, id')} = 1",
    "a few": f"SELECT id, row_number() {OVER.format('k, id')} AS n FROM t QUALIFY x > 1 AND "
    f"row_number() {OVER.format('k, id')} < 4",
    "no row": f"SELECT id FROM t QUALIFY row_number() {OVER.format('k, id')} <= 0",
    "of a subquery": f"SELECT id FROM (SELECT *, row_number() {OVER.format('k, id')} AS n FROM t) WHERE n <= 3",
    "between": f"SELECT s.id, N FROM (SELECT *, row_number() {OVER.format('k, id')} AS n FROM t QUALIFY k > 3) s "
    "WHERE s.n BETWEEN 2 AND 3 AND x > 0",
    "of WITH": f"WITH r AS (SELECT p, id, row_number() {OVER.format('k DESC, id')} AS n FROM t) "
    "SELECT * FROM r WHERE n = 1",
    "by its name": f"SELECT id, row_number() {OVER.format('k, id')} AS n FROM t QUALIFY n < 3",
    "distinct on": "SELECT DISTINCT ON (p) p, id, x FROM t ORDER BY p, k DESC, id",
}
QUERIES = {what: f"SELECT id, {value} AS f FROM t" for what, value in FUNCTIONS.items()} | FIRST


@pytest.mark.parametrize("what", QUERIES)
def test_an_edit_changes_the_rows_that_read_it(what: str, tmp_path: Path) -> None:
    counts = []
    for size in (100, 800):
        with ivm.open(tmp_path / f"{size}.pages", threads=1, sync="off") as workspace:
            both = Both(workspace)
            both.run(TABLE)
            both.run(
                f"INSERT INTO t SELECT i, i % 2, i * 7 % {size} * 10, "
                f"DATE '2020-01-01' + CAST(i % 9 AS INTEGER), i % 5 FROM range({size}) t(i)"
            )
            both.keep("v", QUERIES[what])
            both.run(f"INSERT INTO t VALUES (9000, 1, {'1' if 'rank' in what else '403'}, NULL, 3)")
            counts.append(changed(workspace))
            for edit in EDITS if size == 100 else ():
                both.run(edit)
                both.compare()
    assert counts[1] <= counts[0] + 20


NUMBERED = "SELECT {}, row_number() OVER (PARTITION BY p ORDER BY k, d DESC, x, id) AS n FROM t"
AROUND = [  # {} is NUMBERED, which may have the limits around it or not
    "SELECT p, x FROM (SELECT *, row_number() OVER (PARTITION BY p ORDER BY k, d, id, x) AS x FROM t) WHERE x <= 1",
    "SELECT p, n FROM (SELECT p, x % 2 AS n, row_number() OVER (PARTITION BY p ORDER BY k) AS n FROM t) WHERE n <= 0",
    "SELECT p, sum(m) AS m FROM ({} QUALIFY n > 1) s(p, k, m) WHERE m <= 3 GROUP BY p",
    "SELECT id, row_number() OVER (PARTITION BY p ORDER BY k, d, x, id) AS k FROM t QUALIFY t.k <= 2",
    "SELECT id, row_number() OVER (PARTITION BY p ORDER BY k, d, x, id) AS k FROM t QUALIFY k <= 2",
    "SELECT p, k FROM ({}) WHERE n = 1",
    "SELECT k FROM ({}) s WHERE s.n < 3 AND (p > 0 OR n = 1)",
    "SELECT * FROM ({}) WHERE n BETWEEN 0 AND 2 AND k IS NOT NULL",
    "SELECT s.* FROM ({}) s WHERE n <= 2",
    "SELECT COLUMNS('[kn]') FROM ({}) WHERE n <= 2",
    "SELECT s.k, t.x FROM ({}) s JOIN t ON s.id = t.id WHERE n <= 2",
    "SELECT a, b FROM ({}) AS s(b, a) WHERE b <= 2",
    "SELECT p FROM ({}) WHERE n = 1 OR n = 3",
    "SELECT p FROM ({}) WHERE NOT n <= 1",
    "SELECT p, n FROM ({} ORDER BY id, k, p, x LIMIT 4) WHERE n <= 2",
    "WITH r AS ({}) SELECT k FROM r WHERE n <= 2",
    "WITH r AS ({}) SELECT k FROM r WHERE n <= 2 AND k IN (SELECT k FROM r WHERE n = 2)",
    "WITH r(a, n) AS (SELECT n, k FROM ({})) SELECT a FROM r WHERE n <= 3",
    "SELECT count(*) AS c FROM ({}) WHERE n = 1",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM ({}) s WHERE s.n = 1 AND s.k = t.k)",
    "SELECT p, sum(k) AS s FROM ({}) WHERE n <= 2 GROUP BY p",
]


@pytest.mark.filterwarnings("ignore::ivm.sql.errors.SqlWarning")
@pytest.mark.parametrize("query", AROUND)
def test_a_limit_of_row_numbers_moves_into_the_query_that_has_them(query: str) -> None:
    """Of rows that may be equal and have nulls, with all columns and with those that are named."""
    with ivm.open(":memory:", threads=1) as workspace:
        both = Both(workspace)
        both.run("CREATE TABLE t (id INTEGER, p INTEGER, k INTEGER, d DATE, x INTEGER)")
        both.run(
            "INSERT INTO t SELECT i % 9, nullif(i % 3, 2), nullif(i % 4, 1), "
            "DATE '2020-01-01' + CAST(i % 2 AS INTEGER), i % 2 FROM range(24) t(i)"
        )
        for n, columns in enumerate(("*", "p, k, id")):
            both.keep(f"v{n}", query.format(NUMBERED.format(columns)))
        for edit in EDITS:
            both.run(edit)
            both.compare()


def test_a_star_around_row_numbers_is_of_the_columns_that_are_named() -> None:
    """The helper views have no column that only `*` names, so that an edit writes less."""
    with ivm.open(":memory:", threads=1) as workspace:
        workspace.sql("CREATE TABLE t (a INTEGER, p INTEGER, k INTEGER, x TEXT, y TEXT)")
        numbered = "SELECT *, row_number() OVER (PARTITION BY p ORDER BY k) AS n FROM t"
        workspace.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a FROM ({numbered}) WHERE n = 1")
        with workspace.store.snapshot() as snap:
            widths = [len(snap[name].schema.columns) for name in snap if name.startswith("v:")]
        assert (
            max(widths) == 5
        )  # a, p, k, which of equal rows, and its number: x and y are not there


AT_PLACES = {  # that read the row of a number, which is computed
    "the last so far": f"last_value(x) {OVER.format('k, id')}",
    "the second": f"nth_value(x, 2) {OVER.format('k, id')}",
    "a place of its own": f"nth_value(x, id % 3 + 1) {OVER.format('k, id')}",
    "the first of all": "first_value(x) OVER (ORDER BY k, id)",
    "the last known": f"last_value(x IGNORE NULLS) {OVER.format('k, id')}",
}


PLACES = [1, 2, 7, 8, 9_000]
FRAMES = [
    "", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::ivm.sql.errors.SqlWarning")
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("partition", ["PARTITION BY p", "PARTITION BY x", ""])
def test_a_row_at_a_constant_place_is_as_in_duckdb(partition: str, frame: str) -> None:
    """Where partitions have fewer rows, the frame ends before it, or its value is null."""
    with ivm.open(":memory:", threads=1) as workspace:
        both = Both(workspace)
        both.run(TABLE)
        both.run(
            "INSERT INTO t SELECT i, nullif(i % 4, 3), i * 7 % 40, NULL, nullif(i % 5, 2) "
            "FROM range(30) t(i)"
        )
        over = f"OVER ({partition} ORDER BY k, id {frame})"
        columns = ", ".join(f"nth_value(x, {n}) {over} AS n{n}" for n in PLACES)
        both.keep("v", f"SELECT id, {columns} FROM t")
        for edit in EDITS:
            both.compare()
            both.run(edit)
        both.compare()


@pytest.mark.parametrize("what", [*FUNCTIONS, *AT_PLACES])
def test_a_view_of_a_window_takes_operations_as_its_table_has_rows(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However large the partition is, also where the keys of its order may be null."""
    counted = list[int]()
    monkeypatch.setattr(Context, "note_operations", lambda _self, _rule, n: counted.append(n))
    found = []
    for size in (200, 1600):
        with ivm.open(tmp_path / f"{size}.pages", threads=1, sync="off") as workspace:
            workspace.sql(TABLE.replace(" NOT NULL", ""))
            workspace.sql(
                f"INSERT INTO t SELECT i, 1, i * 7 % {size} * 10, "
                f"DATE '2020-01-01' + CAST(i % 9 AS INTEGER), i % 5 FROM range({size}) t(i)"
            )
            counted.clear()
            value = (FUNCTIONS | AT_PLACES)[what]
            workspace.sql(f"CREATE MATERIALIZED VIEW v AS SELECT id, {value} AS f FROM t")
            found.append(sum(counted))
    assert 0 < found[1] <= 16 * found[0]


BOUNDS = [
    ("UNBOUNDED PRECEDING", "1 PRECEDING"), ("2 PRECEDING", "1 PRECEDING"),
    ("1 FOLLOWING", "UNBOUNDED FOLLOWING"), ("1 FOLLOWING", "2 FOLLOWING"),
]  # fmt: skip


@pytest.mark.parametrize("nulls", ["FIRST", "LAST"])
@pytest.mark.parametrize(("direction", "exclude"), [("ASC", ""), ("DESC", "EXCLUDE GROUP")])
def test_a_frame_without_keys_has_the_nulls_that_lie_there(
    direction: str, exclude: str, nulls: str
) -> None:
    """One that begins after all keys and has no end, or ends before them and has no beginning."""
    with ivm.open(":memory:", threads=1) as workspace:
        both = Both(workspace)
        both.run("CREATE TABLE t (id INTEGER PRIMARY KEY, p INTEGER, k INTEGER)")
        both.run("INSERT INTO t VALUES (1, 1, 2), (2, 1, NULL), (3, 1, 4), (4, 1, NULL), (5, 2, 2)")
        over = f"PARTITION BY p ORDER BY k {direction} NULLS {nulls}"
        for start, end in BOUNDS:
            frame = f"RANGE BETWEEN {start} AND {end} {exclude}"
            both.ask(f"SELECT id, sum(id) OVER ({over} {frame}) AS s FROM t")


KEPT = {  # views that are kept for a function of rows told apart by `id`, and by the order itself
    "lag(x) OVER (PARTITION BY p ORDER BY k)": (2, 2),
    "lead(x) OVER w - lag(k) OVER w": (5, 5),
    "first_value(x) OVER (PARTITION BY p ORDER BY k)": (2, 2),
    "sum(x) OVER (PARTITION BY p ORDER BY k)": (3, 3),
    "count(*) OVER (PARTITION BY p ORDER BY k DESC)": (3, 3),
    "rank() OVER (PARTITION BY p ORDER BY x)": (4, 5),
    "sum(x) OVER (PARTITION BY p ORDER BY k ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)": (3, 3),
}


@pytest.mark.parametrize("key", ["id", "p, k"])
@pytest.mark.parametrize("value", KEPT)
def test_a_window_takes_few_views_joined_by_columns(value: str, key: str, tmp_path: Path) -> None:
    """A row that its own frame has is not looked for, and one that a column tells apart is
    looked up by that alone.
    """
    with ivm.open(tmp_path / "w.pages", threads=1, sync="off") as workspace:
        both = Both(workspace)
        columns = (f"{name} INTEGER NOT NULL" for name in ("id", "p", "k", "x"))
        both.run(f"CREATE TABLE t ({', '.join(columns)}, PRIMARY KEY ({key}))")
        both.run("INSERT INTO t SELECT i, i % 5, i // 5, i * 7 % 31 FROM range(3000) t(i)")
        both.keep("v", f"SELECT id, {value} AS f FROM t WINDOW w AS (PARTITION BY p ORDER BY k)")
        both.compare()
        rules = workspace._rules_now().rules
        assert {type(plan.way) for rule in rules for plan in rule.plans} <= {
            Scan,
            Distinct,
            Columns,
        }
        helpers = [name for rule in rules for name in rule.writes if name.startswith("v:")]
        assert len({*helpers}) == KEPT[value][key != "id"]
