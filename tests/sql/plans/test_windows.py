"""Window functions by ranges: what an edit takes, counted, does not grow with the partition."""

from pathlib import Path

import pytest

import ivm
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


AT_PLACES = {  # that read the row of a number, which is computed
    "the last so far": f"last_value(x) {OVER.format('k, id')}",
    "the second": f"nth_value(x, 2) {OVER.format('k, id')}",
    "a place of its own": f"nth_value(x, id % 3 + 1) {OVER.format('k, id')}",
    "the first of all": "first_value(x) OVER (ORDER BY k, id)",
    "the last known": f"last_value(x IGNORE NULLS) {OVER.format('k, id')}",
}


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
