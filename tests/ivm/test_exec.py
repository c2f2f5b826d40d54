"""Edits as text, one transaction after the other, beside the slow truth: + - ^ on relations and
functions.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm import errors
from ivm.lang.ir import Const, Edit
from ivm.rules.compile import compile
from tests.support import naive
from tests.support.programs.amounts import times
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
    st.sampled_from(
        [
            "+e(y, x) <- e(x, y).",
            "-e(x, y) <- e(x, y), e(y, x).",
            "+e(x, x), -f[x] <- f[x] = v, v > 0.",
            "^f[x] = v + 1 <- f@previous[x] = v, v < 3.",
            "^f[x] = k <- n[x] = k.",
            "+f[x] = y <- e(x, y), !j(x, _).",
            "-f[x] = v <- j(_, v), f[x] = _.",
            "-e(x, 1) <- e(x, _) ; f[x] = _.",
            "+f[0] = m <- agg<<m = max(v)>> f[_] = v.",
        ]
    ),
)


@settings(max_examples=times(40), suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(EDITS, min_size=1, max_size=6).map(" ".join), min_size=1, max_size=6))
def test_exec_follows_the_truth(texts):
    program = compile(RULES)
    state = naive.empty(program)
    with (
        tempfile.TemporaryDirectory() as folder,
        ivm.open(Path(folder) / "store.pages", sync="off") as workspace,
    ):
        workspace.install(RULES)
        for text in texts:
            state = step(workspace, program, state, text)
            for name, rows in state.items():
                assert sorted(workspace[name]) == sorted(naive.rows_of(rows)), name


def step(workspace: ivm.Workspace, program, state: naive.State, text: str) -> naive.State:
    """One text for both; the state after it, or before it if both refuse."""
    after = {name: rows.copy() for name, rows in state.items()}
    try:
        naive.edit(program, after, given(program, state, text))
    except errors.FunctionConflictError:
        with pytest.raises(errors.FunctionConflictError):
            workspace.exec(text)
        return state
    workspace.exec(text)
    return naive.evaluate(program, after)


def given(program, state: naive.State, text: str) -> Iterator[Edit]:
    """The edits of a text, those from rules written out: they follow from the state before."""
    for edit in compile(text, program).edits:
        if isinstance(edit, Edit):
            yield edit
            continue
        query = compile(edit.query, program)
        whole = program.including(query)
        full = naive.evaluate(whole, {**naive.empty(whole), **state})
        is_function = program.predicates[edit.predicate].value is not None and len(edit.columns) > 1
        for row in naive.rows_of(full[query.answer]):
            args = [Const(value, "int64") for value in row]
            value = args.pop() if is_function else None
            yield Edit(edit.action, edit.predicate, (*args,), value)


def test_edits_from_rules_read_the_state_before(tmp_path):
    with ivm.open(tmp_path / "store.pages") as workspace:
        workspace.install(RULES + "o() -> . q[k] = (a, b) -> int(k), int(a), string(b).")
        workspace.exec(
            '+e(1, 2). +e(2, 3). +o() <- e(_, 4). +q[x] = (y, "new") <- e@previous(x, y).'
        )
        assert [[*workspace[name]] for name in "eoq"] == [[(1, 2), (2, 3)], [], []]
        workspace.exec(
            '-e(x, y) <- e(x, y). +e(y, x) <- e(x, y). +o() <- e(2, _). ^q[x] = (y, "new") <- e(x, '
            "y)."
        )
        assert [[*workspace[name]] for name in "eo"] == [[(2, 1), (3, 2)], [(True,)]]
        assert [*workspace["q"]] == [(1, 2, "new"), (2, 3, "new")]
        workspace.exec("-q[x] <- e(x, _). -o() <- e(_, _).")
        assert [[*workspace[name]] for name in "oq"] == [[], [(1, 2, "new")]]


def test_edits_from_rules_on_a_branch(tmp_path):
    told = []
    with ivm.open(tmp_path / "store.pages") as workspace:
        workspace.install(RULES + "+e(1, 2). +f[2] = 5.")
        workspace.store.branch("trial")
        workspace.exec("-e(x, y) <- e(x, y).")
        workspace.subscribe("j", told.append)
        version = workspace.exec("+e(y, x) <- e(x, y). +f[1] = 6.", branch="trial")
        assert version == workspace.store.branches["trial"]
        assert [*workspace.at("trial")["e"]] == [(1, 2), (2, 1)]
        assert [*workspace.at("trial")["j"]] == [(1, 5), (2, 6)]
        assert ([*workspace["e"]], told, workspace.check("trial")) == ([], [], [])


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("+j(x, y) <- e(x, y).", errors.RedefinitionError, "exec:1:2: j is a view"),
        (
            "+e(x, y) <- e(x, y), nope(y).",
            errors.UnknownPredicateError,
            "exec:1:22: nothing declares or derives nope",
        ),
        ("+e(x) <- e(x, _).", errors.ArityError, "exec:1:2: e takes 2 arguments, not 1"),
        ("+f[x] <- e(x, _).", errors.ArityError, "exec:1:2: f is a function: write f[x] = v"),
        ("^e(x, y) <- e(y, x).", errors.ArityError, "exec:1:1: ^ sets a function's value"),
        ("+e(x, z) <- e(x, _).", errors.SafetyError, "exec:1:7: z is not bound"),
        (
            "+e(x, 1.5) <- e(x, _).",
            errors.RuleTypeError,
            "exec:1:7: 1.5 is of type decimal(18,1), where int64 is wanted",
        ),
        ("^f[x] = y <- e(x, y).", errors.FunctionConflictError, "f[1] got two values, 2 and 3"),
    ],
)
def test_edits_from_rules_that_are_refused(tmp_path, text, error, says):
    with ivm.open(tmp_path / "store.pages") as workspace:
        workspace.install(RULES + "+e(1, 2). +e(1, 3).")
        version = workspace.store.version
        with pytest.raises(error) as caught:
            workspace.exec("+e(7, 7). " + text if error is errors.FunctionConflictError else text)
        assert says in str(caught.value)
        assert workspace.store.version == version
        with pytest.raises(
            errors.RuleSyntaxError, match="edits from rules are executed, not installed"
        ):
            workspace.install("+e(x, x) <- e(x, _).", "other")
        with pytest.raises(errors.RuleSyntaxError, match="only edits from rules read @previous"):
            workspace.install("late(x) <- e@previous(x, _).", "other")


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


@pytest.mark.parametrize(
    ("edit", "asserted"),
    [
        ("+a(x, 9) <- b(x).", [(1, 9), (5, 9)]),
        ("-a(x, y) <- b(x), y = 0.", []),
        ("-a(x, y) <- b(x), y = 7.", [(1, 0)]),
    ],
)
def test_rows_of_an_ordered_relation_are_edited_by_rules(edit, asserted):
    """The query of such an edit has a name that no rewriting of rules uses."""
    with ivm.open(":memory:") as ws:
        ws.install(
            "a(x, y) -> int(x), int(y). b(x) -> int(x). a(x, y) <- b(x), y = 5. a(x, y) <= a(x, z) "
            "<- z < y."
        )
        ws.exec("+b(1). +b(5). +a(1, 0).")
        ws.exec(edit)
        best = {
            x: min(y for k, y in [*asserted, (1, 5), (5, 5), *[(1, 0)] * ("+" in edit)] if k == x)
            for x in (1, 5)
        }
        assert list(ws["a"]) == sorted(best.items())
