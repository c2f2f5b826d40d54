"""Edits as text, one transaction after the other, beside the slow truth: + - ^ on relations and functions."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.engine.compile import compile
from tests.support import naive
from tests.support.strategies import DOMAIN

RULES = """e(x, y) -> int(x), int(y).  f[x] = v -> int(x), int(v).
j(x, v) <- e(x, y), f[y] = v.  n[x] = k <- agg<<k = count()>> e(x, _)."""

PAIR = st.tuples(DOMAIN, DOMAIN)
EDITS = st.one_of(
    PAIR.map(lambda p: f"+e({p[0]}, {p[1]})."),
    PAIR.map(lambda p: f"-e({p[0]}, {p[1]})."),
    PAIR.map(lambda p: f"+f[{p[0]}] = {p[1]}."),
    PAIR.map(lambda p: f"^f[{p[0]}] = {p[1]}."),
    PAIR.map(lambda p: f"-f[{p[0]}] = {p[1]}."),
    DOMAIN.map(lambda x: f"-f[{x}]."),
    DOMAIN.map(lambda x: f"-f[{x}] = _."),
)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(EDITS, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=6))
def test_exec_follows_the_truth(texts):
    program = compile(RULES)
    state = naive.empty(program)
    with tempfile.TemporaryDirectory() as folder, ivm.open(Path(folder) / "store.pages", sync="off") as workspace:
        workspace.install(RULES)
        for text in texts:
            state = step(workspace, program, state, text)
            for name, rows in state.items():
                assert sorted(workspace[name]) == sorted(naive.rows_of(rows)), name


def step(workspace: ivm.Workspace, program, state: naive.State, text: str) -> naive.State:
    """One text for both; the state after it, or before it if both refuse."""
    after = {name: rows.copy() for name, rows in state.items()}
    try:
        naive.edit(program, after, compile(text, program).edits)
    except errors.FunctionConflictError:
        with pytest.raises(errors.FunctionConflictError):
            workspace.exec(text)
        return state
    workspace.exec(text)
    return naive.evaluate(program, after)


def test_a_function_keeps_a_value_that_is_not_the_one_deleted(tmp_path):
    with ivm.open(tmp_path / "store.pages") as workspace:
        workspace.install("l[] = v -> int(v). f[x] = v -> int(x), int(v). +l[] = 3. +f[1] = 3.")
        for value, left in ((9, ([(3,)], [(1, 3)])), (3, ([], []))):
            with workspace.transaction() as txn:
                txn.delete("l", [(value,)])
                txn.delete("f", [(1, value)])
            assert (list(workspace["l"]), list(workspace["f"])) == left


def test_a_function_without_keys_is_deleted_by_its_empty_key(tmp_path):
    with ivm.open(tmp_path / "store.pages") as workspace:
        workspace.install("l[] = v -> int(v). m(v) <- l[] = v. +l[] = 3.")
        with workspace.transaction() as txn:
            txn.delete("l", [()])
        assert (list(workspace["l"]), list(workspace["m"])) == ([], [])
        with workspace.transaction() as txn:
            txn.insert("l", [(4,)])
            txn.delete("l", [()])
            txn.insert("l", [(5,)])
        assert list(workspace["m"]) == [(5,)]


def test_what_exec_refuses(tmp_path):
    with ivm.open(tmp_path / "store.pages") as workspace:
        workspace.install(RULES)
        for text in ("v(x) <- e(x, _).", "z(x) -> int(x)."):
            with pytest.raises(errors.EditError, match="exec runs edits only"):
                workspace.exec(text)
        with pytest.raises(errors.RedefinitionError, match="exec:1:2: j is a view"):
            workspace.exec("+j(1, 2).")
        version = workspace.store.version
        with pytest.raises(errors.UnknownPredicateError):
            workspace.exec("+e(1, 2). +nothing(3).")
        assert (workspace.store.version, list(workspace["e"])) == (version, [])
