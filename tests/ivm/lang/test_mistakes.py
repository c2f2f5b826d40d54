"""A table of bad programs with their messages (mistakes.txt), and that all mistakes of a text are
told, each once.

`UPDATE_GOLDEN=1 pytest tests/ivm/lang/test_mistakes.py` writes the table anew: read each message as
a new user would.
"""

import os
import pickle
import re
from pathlib import Path

import pytest

import ivm
from ivm.errors import RuleError, RuleSyntaxError
from ivm.rules.compile import compile

TABLE = Path(__file__).with_name("mistakes.txt")
KNOWN = """edge(x, y) -> int(x), int(y). name(x, n) -> int(x), string(n). price[i] = p -> string(i), decimal(8, 2)(p).
born[n] = d -> string(n), date(d). twice(x) <- edge(x, x)."""
ENTRIES = re.findall(r"^(\S.*)\n((?:  .*\n)+)", TABLE.read_text(), flags=re.MULTILINE)


def said_of(program: str) -> str:
    """Return the messages that a program is refused with, indented."""
    with pytest.raises(RuleError) as caught:
        compile(program, compile(KNOWN, source="known"), "text", hinting=True)
    return "".join(f"  {line}\n" for line in str(caught.value).split("\n"))


@pytest.mark.parametrize(("program", "message"), ENTRIES, ids=[program for program, _ in ENTRIES])
def test_a_bad_program_has_its_message(program, message):
    assert said_of(program) == message or os.environ.get("UPDATE_GOLDEN")


def test_the_table_is_written_as_it_is_read():
    table = "".join(f"{program}\n{message}" for program, message in ENTRIES)
    assert len(ENTRIES) >= 100
    assert len({program for program, _ in ENTRIES}) == len(ENTRIES)
    if os.environ.get("UPDATE_GOLDEN"):
        TABLE.write_text("".join(f"{program}\n{said_of(program)}" for program, _ in ENTRIES))
    else:
        assert TABLE.read_text() == table


MANY = """edge(x, y) -> int(x), int(y).
p(x) <- edge(x, y), , q(x).
s(x) <- p(x).
t(x) <- nothing(x), edge(x, "a. b").   // the second is told once the first is mended
u(x) <- edge(x, _), y < x.
w(x) <- edge(x, 1.5).
select x from edge.
// a comment. with points
/* and. more */ +edge(1, "x"). z(x) <- t(x), u(x).
f[x] = y <- edge(x, y) and edge(y, x)."""


def test_all_mistakes_are_told_each_once():
    with ivm.open(":memory:") as workspace, pytest.raises(RuleError) as caught:
        workspace.install(MANY)
    error = caught.value
    assert [(e.where.line, e.where.column) for e in (error, *error.others)] == [
        (2, 21),
        (4, 9),
        (5, 21),
        (6, 17),
        (7, 1),
        (9, 26),
        (10, 24),
    ]
    assert str(error).count("main:") == 7
    assert isinstance(error, RuleSyntaxError)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert "  p(x) <- edge(x, y), , q(x).\n" in str(error)


def test_what_follows_from_a_mistake_is_none():
    """Nothing derives q once its rule is left out, and nothing declares edge."""
    for text in (
        "edge(x) -> int(x), . q(x) <- edge(x). r(x) <- q(x).",
        "e(x) -> int(x). q(x) <- e(x, x). r(x) <- q(x).",
    ):
        with ivm.open(":memory:") as workspace, pytest.raises(RuleError) as caught:
            workspace.install(text)
        assert caught.value.others == ()


def test_many_mistakes_are_not_all_told():
    with ivm.open(":memory:") as workspace, pytest.raises(RuleError) as caught:
        workspace.install("".join(f"p{n}(x) <- q{n}(x).\n" for n in range(100)))
    assert len(caught.value.others) == 19
