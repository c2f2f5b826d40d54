"""`ivm shell` at a terminal: a process with a pseudo-terminal, and keys."""

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ivm
import pagestore

pexpect = pytest.importorskip("pexpect")
RULES = """
edge(x, y) -> int(x), int(y).
tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
+edge(1, 2). +edge(2, 3). +edge(1, 3).
"""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")


class Terminal:
    """A shell in a pseudo-terminal of 100 columns; `say` types keys and waits for a text."""

    def __init__(self, folder: Path) -> None:
        environment = {
            **os.environ,
            "XDG_STATE_HOME": str(folder / "state"),
            "TERM": "xterm",
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        self.process = pexpect.spawn(
            sys.executable,
            ["-m", "ivm", "shell", str(folder / "s.pages")],
            encoding="utf-8",
            dimensions=(40, 100),
            timeout=60,
            env=environment,
            cwd=Path(__file__).parents[3],
        )
        self.process.expect("ivm>")

    def say(self, keys: str, *expected: str) -> str:
        self.process.send(keys)
        for text in expected:
            self.process.expect(text)
        return CONTROL.sub("", self.process.before)

    def end(self, keys: str) -> None:
        self.process.send(keys)
        self.process.expect(pexpect.EOF)
        self.process.close()
        assert self.process.exitstatus == 0


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install(RULES, "graph")
    started: list[Terminal] = []

    def make() -> Terminal:
        started.append(Terminal(tmp_path))
        return started[-1]

    yield make
    for one in started:
        one.process.close(force=True)


def is_free(path: Path) -> bool:
    """Whether another process can begin a transaction."""
    with pagestore.open(path, create=False) as store:
        try:
            store.transaction(timeout=0.5).rollback()
        except pagestore.PagestoreError:
            return False
    return True


def test_statements_run_and_an_idle_shell_holds_no_lock(
    start: Callable[[], Terminal], tmp_path: Path
) -> None:
    shell = start()
    shell.say("+edge(3, 4).\r", "version 2")
    assert is_free(tmp_path / "s.pages")
    shell.say("q(x) <- edge(x, 4).\r", "1 row")
    shell.say("SELECT count(*) AS n FROM edge;\r", "n\r\n4", "1 row")
    shell.say("tri\r", "1  2  3", "1 row")
    shell.say(".why tri(1, 2, 3)\r", "edge.2, 3.   since version 1")
    shell.say("BEGIN;\r", "ivm>")
    shell.say("INSERT INTO edge VALUES (7, 8);\r", "1 row")
    shell.say("edge\r", "4 rows")
    assert not is_free(tmp_path / "s.pages")
    shell.say("ROLLBACK;\r", "ivm>")
    shell.say("edge\r", "4 rows")  # the statement before is done
    assert is_free(tmp_path / "s.pages")
    shell.end("exit\r")


def test_a_statement_that_waits_for_its_end_says_so_and_is_cleared(
    start: Callable[[], Terminal],
) -> None:
    shell = start()
    shell.say("q(x) <-\r", "not ended yet: a rule ends with a full stop")
    shell.say("\x03", "ivm>")
    shell.say("q(y) <- edge(1, y),\redge(y, 3).\r", "y\r\n2", "1 row")
    shell.say("\x03", "ivm>")
    shell.say("help\r", "Ctrl-C clears the line")
    shell.end("quit\r")


def test_names_are_completed_and_history_is_kept(start: Callable[[], Terminal]) -> None:
    shell = start()
    shell.say("q(x) <- ed\t", "ge")
    shell.say("(x, 3).\r", "2 rows")
    shell.end("\x04")
    again = start()
    again.say("\x1b[A\r", "2 rows")
    again.end("\x04")


def test_names_that_are_no_words_are_completed_in_quotes(
    start: Callable[[], Terminal], tmp_path: Path
) -> None:
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.sql('CREATE TABLE "order line" (id BIGINT PRIMARY KEY, "unit price" BIGINT NOT NULL)')
        ws.sql(
            'CREATE MATERIALIZED VIEW v AS SELECT sum("unit price") AS s, max(id) AS m FROM "order '
            'line"'
        )
        ws.sql('INSERT INTO "order line" VALUES (1, 250)')
    shell = start()
    shell.say("SELECT un\t", '"unit price"')
    shell.say(' FROM "or\t', "der line")
    shell.say(";\r", "250", "1 row")
    shell.say("q(y) <- `order li\t", "ne`")
    shell.say("[_] = y.\r", "250", "1 row")
    shell.say(".print ord\t", "`order line`")
    shell.say("\r", "id +unit price", "1 row")
    shell.say('"order line"\r', "id +unit price", "1 row")
    shell.end("\x04")


def test_mistakes_older_versions_and_timing(start: Callable[[], Terminal]) -> None:
    shell = start()
    shell.say("+edge(9).\r", "edge takes 2 arguments")
    shell.say("+edge(3, 1).\r", "version 2")
    shell.say(".at 1\r", "reading version 1")
    shell.say("SELECT count(*) AS n FROM edge;\r", "n\r\n3")
    shell.say("+edge(4, 4).\r", "version 1, which does not change")
    shell.say(".at\r", "reading version 2, the newest")
    shell.say(".timing\r", "timing is on")
    shell.say("edge\r", r"\d\.\d\d\d s")
    shell.say(".nothing\r", "there is no .nothing; .help lists")
    shell.end("exit()\r")


def test_a_trace_of_two_versions(start: Callable[[], Terminal]) -> None:
    shell = start()
    shell.say("+edge(3, 4).\r", "version 2")
    shell.say("+edge(2, 4).\r", "version 3")
    shell.say(".trace tri 1 2\r", r"tri: \d+ of \d+ trace rows differ")
    shell.say(".trace tri 3\r", "tri: 0 of")  # the newest with itself
    shell.say(".at 2\r", "reading version 2")
    shell.say(".trace tri 2\r", "tri: 0 of")
    shell.say(".trace tri\r", r"tri: \d+ operations")
    shell.say(".trace\r", ".trace does not take 0 words")
    shell.end("\x04")


def test_ctrl_c_stops_a_statement_and_not_the_shell(
    start: Callable[[], Terminal], tmp_path: Path
) -> None:
    """The product of three relations of 3,000 rows would take minutes."""
    with ivm.open(tmp_path / "s.pages") as ws, ws.transaction() as txn:
        txn.insert("edge", [(n, n + 1) for n in range(100, 3100)])
    shell = start()
    for statement in (
        "n[] = c <- agg<<c = count()>> edge(x, _), edge(y, _), edge(z, _), x + y < z.",
        "+edge(4, 5).",
    ):
        shell.process.send(f"{statement}\r")
        if "agg" in statement:
            time.sleep(1.5)
            began = time.monotonic()
            shell.say("\x03", "stopped")
            # half a second on a machine with nothing else to do
            assert time.monotonic() - began < 5
    shell.process.expect("version 3")
    assert is_free(tmp_path / "s.pages")
    shell.end("\x04")
