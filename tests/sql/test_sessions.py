"""BEGIN opens a transaction of one thread or task: others wait for it, do not see it, and cannot
end it.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ivm
from ivm.answer import Answer
from ivm.lang.program import Program
from ivm.sql.errors import SqlError
from ivm.sql.session import Reader
from pagestore.errors import TransactionError
from tests.support.waiting import joined


@pytest.fixture
def ws() -> Iterator[ivm.Workspace]:
    with ivm.open(":memory:", threads=1) as workspace:
        workspace.sql("CREATE TABLE t (k INTEGER PRIMARY KEY)")
        workspace.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
        yield workspace


def rows(ws: ivm.Workspace) -> list[int]:
    return [k for (k,) in ws.sql("SELECT k FROM t ORDER BY k") or ()]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
@pytest.mark.parametrize(
    "edit",
    [
        lambda ws: ws.sql("INSERT INTO t VALUES (2)"),
        lambda ws: ws.sql("BEGIN; INSERT INTO t VALUES (2); COMMIT"),
        lambda ws: ws.insert("t", (2,)),
        lambda ws: ws.exec("+t(2)."),
    ],
)
def test_another_thread_waits_and_sees_nothing(
    ws: ivm.Workspace, edit: Callable[[ivm.Workspace], Any], end: str
) -> None:
    ws.sql("BEGIN; INSERT INTO t VALUES (1)")
    with ThreadPoolExecutor(1) as other:
        assert other.submit(rows, ws).result() == []
        assert list(other.submit(ws.sql, "SELECT n FROM n").result() or ()) == [(0,)]
        assert not other.submit(lambda: ws.in_sql_transaction).result() and ws.in_sql_transaction
        for word in ("COMMIT", "ROLLBACK"):
            with pytest.raises(SqlError, match="no transaction has begun"):
                other.submit(ws.sql, word).result()
        waiting = other.submit(edit, ws)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)
        assert rows(ws) == [1]
        ws.sql(end)
        waiting.result(30)
    assert rows(ws) == [1] * (end == "COMMIT") + [2]
    assert list(ws["n"]) == [(len(rows(ws)),)]


def test_each_of_many_threads_has_its_own(ws: ivm.Workspace) -> None:
    def transfer(number: int) -> None:
        ws.sql("BEGIN")
        before = len(rows(ws))
        ws.sql("INSERT INTO t VALUES (?)", [number])
        assert len(rows(ws)) == before + 1
        ws.sql("ROLLBACK" if number % 3 == 0 else "COMMIT")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(transfer, range(48)))
    assert rows(ws) == [number for number in range(48) if number % 3]


def test_a_thread_that_ends_is_rolled_back(ws: ivm.Workspace) -> None:
    thread = threading.Thread(target=ws.sql, args=["BEGIN; INSERT INTO t VALUES (1)"])
    thread.start()
    joined(thread)
    ws.sql("INSERT INTO t VALUES (2)")
    assert rows(ws) == [2]


def test_a_task_has_its_own_and_another_is_refused(ws: ivm.Workspace) -> None:
    async def holder(begun: asyncio.Event, done: asyncio.Event) -> None:
        ws.sql("BEGIN; INSERT INTO t VALUES (1)")
        begun.set()
        await done.wait()
        assert rows(ws) == [1]
        ws.sql("COMMIT")

    async def main() -> None:
        begun, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(holder(begun, done))
        await begun.wait()
        assert rows(ws) == [] and not ws.in_sql_transaction
        for text, error in (
            ("COMMIT", SqlError),
            ("INSERT INTO t VALUES (2)", TransactionError),
            ("BEGIN", TransactionError),
        ):
            with pytest.raises(error, match=r"no transaction has begun|wait in asyncio\.to_thread"):
                ws.sql(text)
        waiting = asyncio.create_task(asyncio.to_thread(ws.sql, "INSERT INTO t VALUES (3)"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        done.set()
        await asyncio.gather(task, waiting)

    asyncio.run(main())
    assert rows(ws) == [1, 3]


@pytest.mark.parametrize("how", ["returns", "fails", "cancelled", "first"])
def test_a_task_that_ends_is_rolled_back(ws: ivm.Workspace, how: str) -> None:
    async def forgetful() -> None:
        ws.sql("BEGIN; INSERT INTO t VALUES (1)")
        if how == "fails":
            raise ValueError
        if how == "cancelled":
            await asyncio.sleep(60)

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(forgetful())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
        ws.sql("INSERT INTO t VALUES (2)")
        return task

    # a task that is kept ends as well
    kept = asyncio.run(forgetful() if how == "first" else main())
    if how == "first":
        ws.sql("INSERT INTO t VALUES (2)")
    assert rows(ws) == [2] and (kept is None or kept.done())


def test_a_statement_that_fails_leaves_its_transaction_as_it_was(ws: ivm.Workspace) -> None:
    ws.sql(
        "CREATE TABLE a (k INTEGER PRIMARY KEY, v INTEGER NOT NULL); INSERT INTO a VALUES (1, 0)"
    )
    ws.sql(
        "CREATE TABLE b (k INTEGER PRIMARY KEY, v INTEGER); INSERT INTO b VALUES (1, 5), (2, NULL)"
    )
    ws.sql("BEGIN; INSERT INTO a VALUES (3, 3)")
    with pytest.raises(SqlError, match="NOT NULL"):
        ws.sql(
            "MERGE INTO a USING b ON a.k = b.k WHEN MATCHED THEN UPDATE SET v = b.v "
            "WHEN NOT MATCHED THEN INSERT VALUES (b.k, b.v)"
        )
    assert list(ws.sql("SELECT * FROM a ORDER BY k") or ()) == [(1, 0), (3, 3)]
    ws.sql("COMMIT")
    assert list(ws["a"]) == [(1, 0), (3, 3)]


MANY = ", ".join(f"a + {n} AS c{n}" for n in range(70))  # columns that no one relation has


@pytest.mark.parametrize("at", [False, True])
@pytest.mark.parametrize("asked", [1, 2])
@pytest.mark.parametrize(
    ("before", "meanwhile", "question"),
    [
        ("(a INT, b INT)", "DROP TABLE r; CREATE TABLE r (b INT, a INT)", "SELECT a FROM r"),
        ("(a INT, b INT)", "DROP TABLE r", "SELECT a FROM r"),
        ("(a INT, b INT)", "INSERT INTO r VALUES (3, 4)", "SELECT a FROM r, (SELECT 1)"),
        ("(k INT PRIMARY KEY, a INT)", "UPDATE r SET a = 5", f"SELECT k, {MANY} FROM r"),
        ("(k INT PRIMARY KEY, a INT)", "DELETE FROM r", f"SELECT k, {MANY} FROM r"),
        (
            "(k INT, a INT)",
            "DELETE FROM r; INSERT INTO r VALUES (8, 9)",
            f"SELECT k, {MANY} FROM r",
        ),
    ],
)
def test_a_question_reads_one_version_whatever_is_committed_meanwhile(
    ws: ivm.Workspace,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    meanwhile: str,
    question: str,
    asked: int,
    at: bool,
) -> None:
    """A commit comes before a question's first part is evaluated, or its second."""
    ws.sql(f"CREATE TABLE r {before}; INSERT INTO r VALUES (1, 2)")
    expected, ask, meant = list(ws.sql(question) or ()), Reader.ask, []

    def after_a_commit(reader: Reader, program: Program, *given: Any) -> Answer:
        meant.append(program)
        if len(meant) == asked:
            with monkeypatch.context() as plain:
                plain.setattr(Reader, "ask", ask)
                ws.sql(meanwhile)
        return ask(reader, program, *given)

    monkeypatch.setattr(Reader, "ask", after_a_commit)
    state = ws.at(ws.store.version) if at else ws
    assert list(state.sql(question) or ()) == expected != []
    assert len(meant) == (2 if MANY in question else 1)


@pytest.mark.parametrize(
    ("statement", "meanwhile", "refused"),
    [
        (statement, meanwhile, refused)
        for statement in (
            "CREATE MATERIALIZED VIEW v AS SELECT a FROM r",
            "CREATE OR REPLACE MATERIALIZED VIEW n AS SELECT sum(a) AS n FROM r",
        )
        for meanwhile, refused in (
            ("DROP TABLE r; CREATE TABLE r (b INT, a INT)", True),
            ("INSERT INTO r VALUES (3, 4); CREATE TABLE other (a INT)", False),
        )
    ],
)
def test_rules_are_not_installed_over_a_table_that_has_changed_meanwhile(
    ws: ivm.Workspace,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    meanwhile: str,
    refused: bool,
) -> None:
    """A commit comes after a statement is made rules, and before these are installed."""
    ws.sql("CREATE TABLE r (a INT, b INT); INSERT INTO r VALUES (1, 2)")
    blocks = ivm.Workspace._blocks

    def after_a_commit(*given: Any) -> Any:
        with monkeypatch.context() as plain:
            plain.setattr(ivm.Workspace, "_blocks", blocks)
            ws.sql(meanwhile)
        return blocks(*given)

    with monkeypatch.context() as patched:
        patched.setattr(ivm.Workspace, "_blocks", after_a_commit)
        if refused:
            with pytest.raises(SqlError, match="r has changed meanwhile: run the statement again"):
                ws.sql(statement)
        else:
            ws.sql(statement)
    if refused:
        ws.sql(statement)
    assert ws.check() == []
