"""Functions of users: over Arrow arrays, kept in views, missing in a process, and named by
explain.
"""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import ivm
from ivm.errors import OptionError, RangeError, RuleTypeError, UnregisteredError

DECLARED = "at[k] = (x, y, s) -> int(k), float?(x), float(y), string(s). "
RULES = (
    "far(k, d) <- at[k] = (x, y, _), d = user:norm[x, y], d > 1e0. "
    "short[s] = n <- agg<<n = count()>> at[_] = (_, _, t), s = first_letter[t]. known(k) <- at[k] "
    '= (_, _, "ab"). '
)


@pytest.fixture(autouse=True)
def registered() -> None:
    ivm.register_function(
        "user:norm",
        lambda x, y: pc.sqrt(pc.add(pc.multiply(x, x), pc.multiply(y, y))),
        "float, float -> float",
    )
    ivm.register_function(
        "first_letter", lambda s: pc.utf8_slice_codeunits(s, 0, 1), "string -> string"
    )
    ivm.register_function(
        "half", lambda n: [v // 2 if v % 2 == 0 else None for v in n.to_pylist()], "int -> int"
    )
    ivm.register_function("price", lambda d: d, "decimal(8, 2) -> decimal(8, 2)")


def test_views_of_users_functions_are_maintained(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.install(DECLARED + RULES)
        with workspace.transaction() as txn:
            txn.insert("at", [(1, 3.0, 4.0, "ab"), (2, None, 1.0, "äb"), (3, 0.5, 0.5, "")])
        assert list(workspace["far"]) == [(1, 5.0)]
        assert list(workspace["short"]) == [("", 1), ("a", 1), ("ä", 1)]
        workspace.exec('^at[3] = (0.0, 2.0, "az"). -at[1].')
        assert list(workspace["far"]) == [(3, 2.0)]
        assert list(workspace["short"]) == [("a", 1), ("ä", 1)]
        assert workspace.check() == []
        assert "calls     user:norm: float64, float64 -> float64\n" in workspace.explain("far")
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.exec('+at[9] = (6.0, 8.0, "é").')
        assert list(workspace["far"]) == [(3, 2.0), (9, 10.0)]


WITHOUT = """
import sys, ivm
from ivm.errors import UnregisteredError
with ivm.open(sys.argv[1]) as workspace:
    print(list(workspace["far"]), "has not registered" in workspace.explain("far"))
    workspace.exec('+unread(7).')
    for run in (lambda: workspace.exec('+at[5] = (1.0, 2.0, "x").'), lambda: list(workspace.query(
            "q(d) <- at[_] = (x, y, _), d = user:norm[x, y].")), workspace.check):
        try:
            run()
        except UnregisteredError as error:
            print(error)
    print(list(workspace["known"]))
    ivm.register_function("user:norm", lambda x, y: x, "float, float -> float")
    ivm.register_function("first_letter", lambda s: s, "string -> string")
    workspace.exec('+at[5] = (7.0, 2.0, "x").')
    print(list(workspace["far"]))
"""


def test_a_process_without_the_function_reads_and_refuses_to_evaluate(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "s.pages") as workspace:
        workspace.install(DECLARED + RULES + "unread(x) -> int(x).")
        workspace.exec('+at[1] = (3.0, 4.0, "ab").')
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, tmp_path / "s.pages"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, *refused, known, last = done.stdout.splitlines()
    assert first == "[(1, 5.0)] True"
    assert len(refused) == 3
    for line in refused:
        assert "which this process has not registered: call ivm.register_function('" in line
    assert known == "[(1,)]"
    assert last == "[(1, 5.0), (5, 7.0)]"


def test_a_null_or_another_number_of_results_fails() -> None:
    with ivm.open(":memory:") as workspace:
        workspace.install("n(x) -> int(x). +n(4). +n(6).")
        assert list(workspace.query("q(x, h) <- n(x), h = half[x].")) == [(4, 2), (6, 3)]
        assert list(workspace.query("q(h) <- n(x), h = half[x / 2], x < 5.")) == [(1,)]
        assert list(workspace.query("q(p) <- p = price[1.5].")) == [
            (pa.scalar("1.50").cast(pa.decimal128(8, 2)).as_py(),)
        ]
        with pytest.raises(RangeError, match=r"`half\[x / 2\]` has no value for some binding"):
            workspace.query("q(h) <- n(x), h = half[x / 2].")
        ivm.register_function("half", lambda n: [1], "int -> int")
        with pytest.raises(
            UnregisteredError, match="the function half returned 1 results for 2 arguments"
        ):
            workspace.query("q(h) <- n(x), h = half[x].")
        with pytest.raises(RuleTypeError, match="half takes 1 argument, not 2"):
            workspace.query("q(h) <- n(x), h = half[x, x].")
        with pytest.raises(RuleTypeError, match=r"x is int64, where string is wanted"):
            workspace.query("q(h) <- n(x), h = first_letter[x].")


@pytest.mark.parametrize(
    ("name", "signature", "says"),
    [
        ("abs", "int -> int", "there is a function 'abs' already; use another name"),
        ("upper", "string -> string", "there is a function 'upper' already; use another name"),
        (
            "half",
            "int -> float",
            "there is a function 'half' already: int64 -> int64; use another name",
        ),
        (
            "bad",
            "int",
            "a function has a name like geo:distance and a signature like float, float -> float",
        ),
        ("a b", "int -> int", "a function has a name like geo:distance"),
    ],
)
def test_bad_registrations_are_refused(name: str, signature: str, says: str) -> None:
    with pytest.raises(OptionError) as caught:
        ivm.register_function(name, abs, signature)
    assert says in str(caught.value)
    with pytest.raises(RuleTypeError, match="text is not a type"):
        ivm.register_function("bad", abs, "text -> int")


def test_a_text_may_declare_a_function() -> None:
    with ivm.open(":memory:") as workspace:
        workspace.install(
            'lang:function("half", "int -> int"). n(x) -> int(x). p(h) <- n(x), h = half[x]. +n(4).'
        )
        assert list(workspace["p"]) == [(2,)]
