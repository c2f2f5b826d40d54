"""Facts, relations that are declared and derived, and predicates without columns: beside the
slow truth.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm.errors import (
    ConstructError,
    FunctionConflictError,
    RedefinitionError,
    RuleError,
    SafetyError,
    UninstallError,
)
from ivm.rules.compile import compile
from ivm.spark.layout import plan
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.strategies import DOMAIN, FULL, STORED, Clause, edits, programs

EDGE = "edge(x, y) -> int(x), int(y). "
CLOSED = EDGE + "edge(1, 2). edge(x, z) <- edge(x, y), edge(y, z). source(x) <- edge(x, _)."


def test_facts_are_rows_of_their_block(views):
    m = views('q(1, "a"). q(2, "b"), r(3). f["x"] = 3. f["y"] = 4. p(x, v) <- q(x, _), f[_] = v.')
    assert [*m.workspace["q"]] == [(1, "a"), (2, "b")]
    assert [*m.workspace["r"]] == [(3,)]
    assert [*m.workspace["f"]] == [("x", 3), ("y", 4)]
    assert len(m.workspace["p"]) == 4
    m.workspace.install('q(7, "c"). q(1, "a").', replace=True)
    assert [*m.workspace["q"]] == [(1, "a"), (7, "c")]
    assert m.workspace.check() == []
    m.workspace.uninstall("main")
    assert [*m.workspace] == []
    m.workspace.install("")
    m.program, m.state = compile(""), {}


def test_facts_take_the_types_of_what_they_are_facts_of(views):
    m = views(
        'price[i] = p -> string(i), decimal(8, 2)(p). price["tea"] = 3. when[1] = #2013-01-31#. '
        "when[2] = #2013-02-01#."
    )
    assert m.program.predicates["price"].value == "decimal(8,2)"
    assert [str(p) for _, p in m.workspace["price"]] == ["3.00"]
    assert m.program.predicates["when"].value == "date"


def test_a_thousand_facts_are_one_rule():
    text = "".join(f"p({n}, {n * n}). " for n in range(1000))
    with ivm.open(":memory:") as workspace:
        workspace.install(text)
        assert len(workspace.rules_of(workspace.store.snapshot()).rules) == 2
        assert [*workspace["p"]][-1] == (999, 998001)


def test_a_query_may_have_facts():
    with ivm.open(":memory:") as workspace:
        assert [*workspace.query("q(1, 2). q(2, 3). r(x, z) <- q(x, y), q(y, z).")] == [(1, 3)]


def test_facts_that_contradict_each_other_are_refused():
    with ivm.open(":memory:") as workspace:
        with pytest.raises(FunctionConflictError, match=r"^f\[1\] got two values, 2 and 3"):
            workspace.install("f[x] = y -> int(x), int(y). f[1] = 2. f[1] = 3.")
        workspace.install("f[x] = y -> int(x), int(y). f[1] = 2.")
        with pytest.raises(FunctionConflictError, match=r"^f\[1\] got two values, 2 and 3"):
            workspace.exec("+f[1] = 3.")
        workspace.exec("+f[1] = 2. +f[2] = 2.")
        assert [*workspace["f"]] == [(1, 2), (2, 2)]


def test_a_row_leaves_when_it_is_neither_asserted_nor_derived(views):
    m = views(CLOSED)
    m.insert("edge", (2, 3), (1, 3))
    assert [*m.workspace["edge"]] == [(1, 2), (1, 3), (2, 3)]
    m.delete("edge", (1, 3), (1, 2))
    assert [*m.workspace["edge"]] == [(1, 2), (1, 3), (2, 3)]
    m.delete("edge", (2, 3))
    assert [*m.workspace["edge"]] == [(1, 2)]
    m.insert("edge", (2, 1))
    m.reopen()
    assert len(m.workspace["edge"]) == 4
    assert m.workspace.check() == []


def test_all_rows_are_read_everywhere(tmp_path):
    told = []
    with ivm.open(tmp_path / "g.pages") as workspace:
        workspace.install(CLOSED)
        workspace.install("later(y) <- edge(_, y). edge(x, _) -> x < 5.", "later")
        workspace.subscribe("edge", told.append)
        workspace.exec("+edge(2, 3).")
        assert told[0].to_pydict()["_change_type"] == ["insert", "insert"]
        rows = [(1, 2), (1, 3), (2, 3)]
        assert [*workspace["edge"]] == rows == [*workspace.query("q(x, y) <- edge(x, y).")]
        assert (
            [*workspace.at(workspace.store.version)["edge"]]
            == rows
            == [*workspace.evaluate("edge")]
        )
        assert [*workspace["later"]] == [(2,), (3,)]
        assert [*workspace.sql("SELECT count(*) FROM edge")] == [(3,)]
        assert workspace.stats("edge")["rows"] == 3
        assert "a rank per row" in workspace.explain("edge")
        workspace.verify("edge")
        with workspace.store.transaction() as txn:
            txn["edge"].insert([(3, 4)])
        assert len(workspace["edge"]) == 6
        with pytest.raises(UninstallError, match="edge is read by"):
            workspace.uninstall("main")
        workspace.uninstall("later")
        assert workspace.uninstall("main").kept == {"edge": 2}


def test_rules_stay_with_the_declaration():
    with ivm.open(":memory:") as workspace:
        workspace.install(EDGE)
        with pytest.raises(
            RedefinitionError, match="edge is declared at main:1:1, in another text"
        ):
            workspace.install("edge(1, 2).", "other")
        with pytest.raises(RuleError, match="column x of edge is string here, but int64"):
            workspace.install(EDGE + 'edge("a", y) <- edge(_, y).', replace=True)
        with pytest.raises(ConstructError, match="f has several values"):
            workspace.install("f[x] = (y, z) -> int(x), int(y), int(z). f(1, 2, 3).", "f")


def test_a_nullable_column_keeps_its_nulls():
    with ivm.open(":memory:") as workspace:
        workspace.install("f[x] = v -> int(x), int?(v). f[1] = 2.")
        workspace.exec('+f[2] = null["int"].')
        assert [*workspace["f"]] == [(1, 2), (2, None)]


def test_predicates_without_columns(views):
    m = views(
        EDGE + "flag() -> . loop() <- edge(x, x). even() <- !loop(), flag(). p(x) <- edge(x, _), "
        "flag(), !loop()."
        "q(x) <- edge(x, _), (loop() ; flag[] = false). holds()."
    )
    m.insert("edge", (1, 2))
    assert [*m.workspace["p"]] == []
    m.workspace.exec("+flag().")
    assert [[*m.workspace[name]] for name in ("p", "even", "flag", "holds")] == [
        [(1,)],
        [(True,)],
        [(True,)],
        [(True,)],
    ]
    m.workspace.exec("+edge(3, 3).")
    assert [[*m.workspace[name]] for name in ("p", "q", "loop")] == [[], [(1,), (3,)], [(True,)]]
    m.workspace.exec("-edge(3, 3). -flag().")
    assert [[*m.workspace[name]] for name in ("p", "q", "loop", "flag")] == [[], [], [], []]
    assert m.workspace.check() == []


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (
            "p(x).",
            SafetyError,
            "1:1: x is not bound: a fact has constants only, and a rule has a body after `<-`",
        ),
        ("p(_).", SafetyError, "1:3: `_` in a head stands for no value"),
        (EDGE + "edge(1).", RuleError, "1:31: edge takes 2 arguments, not 1"),
        (EDGE + "edge[1] = 2.", RuleError, "1:31: edge is a relation: write edge(x, y)"),
        ('p(1). p("a").', RuleError, "1:3: 1 is of type int64, where string is wanted"),
    ],
)
def test_what_is_no_fact_is_refused(text, error, says):
    with pytest.raises(error) as caught:
        compile(text)
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["p(1).", EDGE + "b(x) -> int(x). edge(x, x) <- b(x)."])
def test_cells_refuse_them(text):
    with pytest.raises(ConstructError, match="cells d"):
        plan(text, 4)


@st.composite
def declared_and_derived(draw):
    """A program in which some stored predicates have facts and rules, and transactions over
    them.
    """
    text, made = draw(programs(FULL)), []
    shapes = {name: shape for name, shape in STORED.items() if name != "t"}
    for name in draw(st.lists(st.sampled_from(["a", "e", "r", "f"]), min_size=1, max_size=3)):
        clause, (columns, is_function) = Clause(draw, FULL, shapes), STORED[name]
        literals, bound = clause.conjunction()
        terms = [clause.pick([*bound, str(draw(DOMAIN))]) for _ in range(columns + is_function)]
        body = "" if clause.once_in(3) else f" <- {', '.join(literals)}"
        terms = terms if body else [str(draw(DOMAIN)) for _ in terms]
        head = (
            f"{name}[{', '.join(terms[:-1])}] = {terms[-1]}"
            if is_function
            else f"{name}({', '.join(terms)})"
        )
        made.append(f"{head}{body}.")
    small = st.lists(edits(["a", "e", "r", "f"]), min_size=1, max_size=5)
    return "\n".join([text, *made]), draw(st.lists(small, max_size=6))


@settings(max_examples=times(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(declared_and_derived())
def test_random_ones_follow_the_truth(case):
    text, transactions = case
    try:
        compile(text)
    except RuleError:  # through a negation or an aggregate, or without end
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            mirror = Mirror(Path(folder) / "store.pages", text)
        except (FunctionConflictError, ConstructError):
            return
        for transaction in transactions:
            mirror.change(transaction)
        assert mirror.workspace.check() == []
        mirror.close()
