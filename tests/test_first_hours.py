"""What people try in their first hours: it does what they mean, or one line says what to do."""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime

import pytest

import ivm
import pagestore
from ivm.errors import IvmError, RuleSyntaxError, RuleTypeError
from pagestore.admin.backup import restore_backup
from pagestore.errors import FormatError, NoStoreError, SchemaError
from pagestore_tools.cli.main import ivm as ivm_command
from pagestore_tools.cli.main import pagestore as pagestore_command


@pytest.fixture
def store(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        txn.create("r", "x: int64").insert([(1,), (2,)])
    with pagestore.open(tmp_path / "s.pages") as store:
        yield store


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_copies_by_name(store, tmp_path, kind):
    for copy, read in (("backup", restore_backup), ("dump", None)):
        out = tmp_path / copy
        for _ in range(2):  # a file that exists is replaced
            getattr(store, copy)(kind(out))
        if read:
            read(tmp_path / "again.pages", [kind(out)])
            again = pagestore.open(tmp_path / "again.pages")
        else:
            again = pagestore.open(":memory:")
            again.restore(kind(out))
        with again:
            assert list(again.snapshot()["r"]) == [(1,), (2,)]
        with pytest.raises(FileExistsError, match="is the store itself"):
            getattr(store, copy)(kind(store.path))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_copy_that_fails_leaves_what_was_there(store, tmp_path):
    out = tmp_path / "copy"
    out.write_bytes(b"before")
    with pytest.raises(pagestore.PagestoreError):
        store.backup(out, since=17)
    assert out.read_bytes() == b"before"


def test_an_empty_file_becomes_a_store(tmp_path):
    with tempfile.NamedTemporaryFile(suffix=".pages") as file:
        with ivm.open(file.name) as ws:
            ws.install("p(x) -> int(x). +p(1).")
        with pagestore.open(file.name, mode="r") as store:
            assert list(store.snapshot()["p"]) == [(1,)]
    empty = tmp_path / "e.pages"
    empty.touch(mode=0o600)
    for how in ({"mode": "r"}, {"create": False}):
        with pytest.raises(FormatError, match="is not a store: it has 0 bytes"):
            pagestore.open(empty, **how)
    assert empty.stat().st_size == 0
    pagestore.open(empty).close()
    assert empty.stat().st_mode & 0o777 == 0o600 and os.listdir(tmp_path) == ["e.pages"]


def test_of_many_that_find_a_file_empty_one_makes_the_store(tmp_path):
    for turn in range(5):
        path = tmp_path / f"{turn}.pages"
        path.touch()

        def add(i, path=path):
            with pagestore.open(path, timeout=60, sync="off") as store, store.transaction() as txn:
                txn.create("r", "x: int64", if_not_exists=True).insert([(i,)])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add, range(4)))
        with pagestore.open(path, mode="r") as store:
            assert list(store.snapshot()["r"]) == [(0,), (1,), (2,), (3,)]


def test_what_is_not_there_is_said_without_numbers_of_errors(tmp_path, capsys):
    nothing, far = tmp_path / "nothing.pages", tmp_path / "no" / "s.pages"
    for how in ({"mode": "r"}, {"create": False}):
        with pytest.raises(
            NoStoreError, match="^there is no file .*nothing.pages: mend the path$"
        ) as told:
            pagestore.open(nothing, **how)
        assert isinstance(told.value, FileNotFoundError)
    with pytest.raises(
        NoStoreError, match=r"^there is no folder .*/no for .*/s.pages: make it first"
    ):
        ivm.open(far)
    for command, words in (
        (pagestore_command, ["print", nothing, "r"]),
        (ivm_command, ["install", far, nothing]),
        (ivm_command, ["query", nothing, "q(x) <- r(x)."]),
        (pagestore_command, ["fsck", tmp_path]),
    ):
        assert command([str(word) for word in words]) != 0
        assert "Errno" not in (said := capsys.readouterr().err) and str(tmp_path) in said


def test_a_byte_order_mark_before_rules(tmp_path):
    rules = tmp_path / "rules.logiql"
    rules.write_bytes("\ufeffp(x) -> int(x). +p(1).".encode())
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install("\ufeffq(x) -> int(x). +q(2).", name="other")
        assert list(ws.query("\ufeffq2(x) <- q(x).")) == [(2,)]
    assert ivm_command(["install", str(tmp_path / "s.pages"), str(rules)]) == 0
    with ivm.open(tmp_path / "s.pages") as ws:
        assert list(ws["p"]) == [(1,)] and list(ws["q"]) == [(2,)]


@pytest.mark.parametrize(
    "literal",
    ["#2013-01-31 17:05:00.1234567#", "#17:05:00.0000001#", "#2013-01-31T17:05:00,123456789#"],
)
def test_literals_finer_than_microseconds(literal):
    with ivm.open(":memory:") as ws:
        ws.install("t(x) -> datetime(x). c(x) -> time(x).")
        for text in (f"q(x) <- t(x), x < {literal}.", f"q(x) <- c(x), x < {literal}."):
            with pytest.raises(
                RuleSyntaxError,
                match="is finer than microseconds: write at most six digits of a second",
            ):
                ws.query(text)
        ws.exec("+t(#2013-01-31 17:05:00.123456000#).")
        assert list(ws["t"]) == [(datetime(2013, 1, 31, 17, 5, 0, 123456),)]


def test_literals_of_dates_are_their_midnights():
    with ivm.open(":memory:") as ws:
        ws.install(
            "t(x) -> datetime(x). d(x) -> date(x). "
            "+t(#2013-01-31#). +t(#2013-01-31 17:05:00#). +d(#2013-01-31 00:00:00#)."
        )
        assert list(ws.query("q(x) <- t(x), x <= #2013-01-31#.")) == [(datetime(2013, 1, 31),)]
        assert list(ws.query("q(x) <- d(x), x >= #2013-01-31 00:00:00#.")) == [(date(2013, 1, 31),)]
        for text in (
            "q(x) <- d(x), x >= #2013-01-31 00:00:01#.",
            "q(x) <- t(x), x >= 1.",
            'q(x) <- t(x), x >= "a".',
        ):
            with pytest.raises(RuleTypeError):
                ws.query(text)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda ws: ws["total"].insert([("x", 1)]),
            "edit it in a transaction: with store.transaction() as txn",
        ),
        (lambda ws: ws["total"].nothing, "'Relation' object has no attribute 'nothing'"),
        (
            lambda ws: ws.sql("SELECT * FROM paid WHERE id = ?", 1),
            "1 is not a list of parameters: write [1]",
        ),
        (
            lambda ws: ws.sql("SELECT * FROM paid WHERE who = ?", "a"),
            "'a' is not a list of parameters: write ['a']",
        ),
        (
            lambda ws: ws.store.transaction().create("e", ["x", "y"]),
            "columns are given as a text, 'x: int64, y: string?'",
        ),
        (
            lambda ws: ws.why("total"),
            "total is all of a view: name a row, total(who, cents), _ being any value",
        ),
        (
            lambda ws: ws.exec("+paid[2] = 5."),
            "paid is a function of several values: write paid[id] = (who, cents)",
        ),
        (
            lambda ws: ws.query("q(x) <- paid(x)."),
            "paid takes 3 arguments, not 1: paid[id] = (who, cents)",
        ),
    ],
)
def test_wrong_calls_say_what_to_call(call, said, tmp_path):
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.sql("CREATE TABLE paid (id INT PRIMARY KEY, who TEXT NOT NULL, cents INT NOT NULL)")
        ws.sql(
            "CREATE MATERIALIZED VIEW total AS SELECT who, sum(cents) AS cents FROM paid GROUP BY "
            "who"
        )
        with pytest.raises((AttributeError, IvmError, SchemaError)) as error:
            call(ws)
        assert said in str(error.value)
