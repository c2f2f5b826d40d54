"""What a new statement costs, and one beside many views that it does not read: functions of Python
called, as on any machine.
"""

from collections.abc import Iterator

import pytest

import ivm
from ivm.rules import stored
from tests.support.calls import functions_called

pytestmark = pytest.mark.usefixtures("unhurried")

TABLES = """
CREATE TABLE paid (id INT PRIMARY KEY, who TEXT NOT NULL, cents INT NOT NULL);
CREATE TABLE other (id INT PRIMARY KEY, who TEXT NOT NULL, cents INT NOT NULL);
CREATE TABLE person (who TEXT PRIMARY KEY, city TEXT NOT NULL);
INSERT INTO other VALUES (1, 'ada', 5), (2, 'bob', 7), (3, 'eve', 9);
INSERT INTO paid SELECT * FROM other;
INSERT INTO person VALUES ('ada', 'Rome'), ('bob', 'Oslo');
"""
VIEW = """
CREATE MATERIALIZED VIEW {} AS SELECT city, sum(cents) AS s, count(*) AS n, max(cents) AS most
FROM paid LEFT JOIN person USING (who) GROUP BY city
"""
# what costs the same beside any number of views, `{}` being another number each time
STATEMENTS = {
    "question": "SELECT * FROM v0 -- {}",
    "question of a table": "SELECT cents FROM other WHERE id = 2 -- {}",
    "question of rules": "q(x) <- other[x] = (_, {}).",
    "edit": "UPDATE other SET cents = cents + 1 WHERE id = 2 -- {}",
    "table": "CREATE TABLE new{} (id INT PRIMARY KEY)",
    "constraints": "CREATE TABLE checked{0} (id INT PRIMARY KEY, who TEXT REFERENCES person, "
    "n INT CHECK (n > {0}), UNIQUE (n))",
    "drop of constraints": "DROP TABLE checked{}",
    "view": "CREATE VIEW plain{} AS SELECT id FROM other",
    "kept view": VIEW.format("more{}"),
    "kept view again": f"CREATE OR REPLACE {VIEW.format('again').strip()[7:]} -- {{}}",
    "drop": "DROP MATERIALIZED VIEW more{}",
    "rules": "cheap{}(x) <- other[x] = (_, c), c < 7.",
}
NAMES = 10  # functions called for one view more, where names are listed


def measured(ws: ivm.Workspace, text: str, nth: int) -> int:
    """Return the functions of Python that a statement calls, once what it imports is imported."""
    if "<-" not in text:
        return len(functions_called(lambda: ws.sql(text.format(nth))))
    if text.startswith("q"):
        return len(functions_called(lambda: [*ws.query(text.format(nth))]))
    return len(functions_called(lambda: ws.install(text.format(nth), name=f"cheap{nth}")))


def test_a_statement_costs_the_same_beside_many_views() -> None:
    found = dict[str, list[int]]()
    with ivm.open(":memory:", threads=1) as ws:
        ws.sql(TABLES)
        for n in range(100):
            ws.sql(VIEW.format(f"v{n}"))
            if n in (0, 9, 99):
                for name, text in STATEMENTS.items():
                    found.setdefault(name, []).append(measured(ws, text, n))
        assert len(ws.check()) == 0
    for name, (_, few, many) in found.items():
        assert many <= 1.15 * few + 90 * NAMES, (name, found)


def test_opening_compiles_nothing(tmp_path) -> None:
    """What opening costs is a list of names: a hundredth of what compiling a view takes."""
    found = []
    for views in (2, 22):
        path = tmp_path / f"{views}.pages"
        with ivm.open(path, sync="off", threads=1) as ws:
            ws.sql(TABLES)
            for n in range(views):
                ws.sql(VIEW.format(f"v{n}"))
        found.append(len(functions_called(lambda path=path: ivm.open(path, threads=1).close())))
    few, many = found
    assert many - few <= 20 * 2_000, found


GRAPH = """
CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, CHECK (a >= 0));
CREATE TABLE u (id INT PRIMARY KEY, b TEXT UNIQUE);
INSERT INTO t VALUES (1, 1, 'x'), (2, 1, 'y'), (3, NULL, 'x');
INSERT INTO u VALUES (1, 'x'), (2, 'z');
CREATE MATERIALIZED VIEW v0 AS SELECT a, count(*) AS n, max(b) AS m FROM t GROUP BY a;
CREATE MATERIALIZED VIEW v1 AS SELECT m, sum(n) AS s FROM v0 GROUP BY m;
CREATE MATERIALIZED VIEW v2 AS SELECT u.b FROM u;
CREATE MATERIALIZED VIEW v3 AS SELECT t.id, u.id AS other FROM t LEFT JOIN u USING (b);
CREATE MATERIALIZED VIEW v4 AS SELECT * FROM v1 JOIN v3 ON s = id;
CREATE VIEW plain AS SELECT count(*) AS n FROM v3;
"""
COMPILED = {  # with those that a block uses
    "t": {"t:constraints"},
    "v0": {"t:constraints", "v0"},
    "v1": {"t:constraints", "v0", "v1"},
    "v2": {"u:constraints", "v2"},
    "v3": {"t:constraints", "u:constraints", "v3"},
    "v4": {"t:constraints", "u:constraints", "v0", "v1", "v3", "v4"},
    "plain": {"t:constraints", "u:constraints", "v3"},
    "t JOIN u USING (b)": {"t:constraints", "u:constraints"},
}
ALL = COMPILED["v4"] | {"v2", "v5"}


@pytest.fixture(autouse=True)
def without_kept_blocks(monkeypatch) -> None:
    """Let a store that is opened compile what it needs."""
    monkeypatch.setattr(stored, "kept", lambda *_: None)


def test_a_question_compiles_what_it_reads(tmp_path, monkeypatch) -> None:
    """In a store that was opened, and as one that has all rules compiled answers it."""
    path, own, compiled = tmp_path / "s.pages", stored.with_block, list[str]()
    monkeypatch.setattr(
        stored, "with_block", lambda *given: compiled.append(given[3]) or own(*given)
    )
    with ivm.open(path, sync="off", threads=1) as ws:
        ws.sql(GRAPH)
        ws.sql("UPDATE t SET b = 'z' WHERE id = 1")  # indices follow
        expected = {name: [*ws.sql(f"SELECT * FROM {name}")] for name in COMPILED}
    assert not compiled
    for name, blocks in COMPILED.items():
        with ivm.open(path, threads=1) as ws:
            assert not compiled, name
            assert [*ws.sql(f"SELECT * FROM {name}")] == expected[name], name
            assert {*compiled} <= blocks and len(compiled) == len({*compiled}), (name, compiled)
            assert name.startswith("t") or compiled
            assert [*ws.sql("SELECT count(*) FROM v2 JOIN v3 ON other = id")] == [(0,)]
            ws.sql("UPDATE t SET a = 5 WHERE id = 2; UPDATE t SET a = 1 WHERE id = 2")
            assert [*ws.sql(f"SELECT * FROM {name}")] == expected[name], name
            assert len(ws.check()) == 0 and len(compiled) == len({*compiled}) == 7
        compiled.clear()


def test_an_edit_compiles_what_follows_it(tmp_path, monkeypatch) -> None:
    """Plans that it makes anew are kept with those of rules that are not compiled."""
    path, own, compiled = tmp_path / "s.pages", stored.with_block, set[str]()
    monkeypatch.setattr(stored, "with_block", lambda *given: compiled.add(given[3]) or own(*given))
    with ivm.open(path, sync="off", threads=1) as ws:
        ws.sql(GRAPH + "CREATE TABLE w (id INT); CREATE MATERIALIZED VIEW v5 AS SELECT id FROM w")
        before = len(ws.blocks)
    rows = [(n, f"w{n}") for n in range(10, 2000)]
    for edit, blocks in (
        (lambda txn: txn.sql("INSERT INTO w VALUES (1)"), {"v5"}),
        (lambda txn: txn.sql("UPDATE u SET b = 'q' WHERE id = 2"), COMPILED["v4"] | {"v2"}),
        (lambda txn: txn.insert("u", rows), ALL),
        (lambda txn: txn.delete_range("u", (10,)), ALL),
    ):
        with ivm.open(path, threads=1) as ws:
            with ws.transaction() as txn:
                edit(txn)
            assert compiled <= blocks and compiled, compiled
            assert len(ws.check()) == 0 and len(ws.blocks) == before
        compiled.clear()


SCHEMA = """
CREATE TABLE customer (ckey INT PRIMARY KEY, segment TEXT, nation INT);
CREATE TABLE orders (okey INT PRIMARY KEY, ckey INT, day DATE, priority INT);
CREATE TABLE item (okey INT, line INT, part INT, price DECIMAL(12, 2), off DECIMAL(12, 2),
    shipped DATE, PRIMARY KEY (okey, line));
CREATE TABLE part (part INT PRIMARY KEY, brand TEXT, size INT);
INSERT INTO customer VALUES (1, 'a', 1), (2, 'b', 2);
INSERT INTO orders VALUES (1, 1, DATE '2024-01-05', 0), (2, 2, DATE '2024-01-06', 1);
INSERT INTO item VALUES (1, 1, 1, 5.00, 0.10, DATE '2024-02-05'), (2, 1, 1, 6.00, 0.20, NULL);
INSERT INTO part VALUES (1, 'q', 3);
"""
JOINED = "item JOIN orders USING (okey) JOIN customer USING (ckey) JOIN part USING (part)"
AT_MOST = {
    "SELECT sum(price * off) FROM item WHERE shipped >= DATE '2024-01-01' AND off < 0.3": 35_000,
    "SELECT okey, sum(price * (1 - off)) AS r, day FROM item JOIN orders USING (okey)"
    " JOIN customer USING (ckey) WHERE segment = 'a' AND day < DATE '2024-03-15'"
    " GROUP BY okey, day ORDER BY r DESC LIMIT 10": 95_000,
    f"SELECT brand, count(*), avg(price) FROM {JOINED} WHERE nation = 1 GROUP BY brand": 35_000,
    "SELECT ckey FROM customer WHERE NOT EXISTS (SELECT 1 FROM orders WHERE orders.ckey ="
    " customer.ckey AND priority > 0) AND nation IN (1, 2)": 15_000,
}  # fmt: skip


# -- the compile of a new statement


@pytest.fixture(scope="module")
def ws() -> Iterator[ivm.Workspace]:
    with ivm.open(":memory:", threads=1) as own:
        own.sql(SCHEMA)
        for statement in AT_MOST:
            own.sql(statement)  # what is imported is imported
        yield own


def calls(ws: ivm.Workspace, statement: str) -> int:
    return len(functions_called(lambda: ws.sql(statement)))


@pytest.mark.parametrize("statement", AT_MOST)
def test_a_new_statement_calls_few_functions(ws: ivm.Workspace, statement: str) -> None:
    assert calls(ws, f"/* new */ {statement}") <= AT_MOST[statement]


def test_aggregates_of_one_body_share_the_search_for_its_order(ws: ivm.Workspace) -> None:
    def searches(count: int) -> int:
        sums = (f"sum(price * {n})" for n in range(2, 2 + count))
        text = f"SELECT nation, {', '.join(sums)} FROM {JOINED} GROUP BY nation"
        called = functions_called(lambda: ws.sql(text))
        return sum(code.co_name == "_candidates" for code in called)

    assert searches(6) - searches(2) <= 4 * 4  # of 6 more rules each, 4 read helpers of their own


@pytest.mark.parametrize("column", ["cents", "who"])
def test_constants_of_in_cost_what_the_parser_takes(column: str) -> None:
    """Each takes a part of the parser's calls besides, and many cost as much each as few."""
    written = str if column == "cents" else "'{}'".format
    called = []
    with ivm.open(":memory:", threads=1) as ws:
        ws.sql(TABLES)
        for least in (0, 1_000, 1_000, 3_000):
            listed = ", ".join(map(written, range(least + 1_000)))
            text = f"SELECT count(*) FROM other WHERE {column} IN ({listed})"
            called.append(len(functions_called(lambda text=text: ws.sql(text))))
    assert called[3] - called[2] <= 2_000 * 170, called
