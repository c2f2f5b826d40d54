"""Constraints: what violates one is refused in every way in which rows can change, and everything
else is let through.

The slow truth (tests/support/naive.py) refuses a state that violates a constraint, so mirrors
compare.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
import pagestore
from ivm.errors import ConstraintError, ConstructError, RuleError, UninstallError
from ivm.rules.compile import compile
from ivm.spark.layout import plan
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.strategies import FULL, Clause, edits, programs

GRAPH = "edge(x, y) -> int(x), int(y). vertex(x) -> int(x). "
BOTH = GRAPH + "edge(x, y) -> vertex(x), vertex(y). "


@pytest.fixture
def graph():
    with ivm.open(":memory:") as workspace:
        workspace.install(BOTH)
        workspace.exec("+vertex(1). +vertex(2). +edge(1, 2).")
        yield workspace


def refused(workspace: ivm.Workspace, *texts: str) -> ConstraintError:
    """The error of a transaction that is refused; nothing has changed then."""
    before, version = {name: [*workspace[name]] for name in workspace}, workspace.store.version
    with pytest.raises(ConstraintError) as caught:
        workspace.exec(" ".join(texts))
    assert {name: [*workspace[name]] for name in workspace} == before
    assert workspace.store.version == version
    return caught.value


# -- what holds


CASES = {  # a constraint, rows that it admits, rows that it refuses, what violates it
    "an atom": ("edge(x, _) -> vertex(x).", "+vertex(1). +edge(1, 9).", "+edge(2, 9).", [(2,)]),
    "two atoms": ("edge(x, y) -> vertex(x), vertex(y).", "+vertex(1). +edge(1, 1).", "+edge(1, 2).",
    [(1, 2)]),
    "either": ("edge(x, y) -> vertex(x) ; vertex(y).", "+vertex(1). +edge(1, 2).", "+edge(2, 3).",
    [(2, 3)]),
    "neither": ("edge(x, y) -> !vertex(x), !vertex(y).", "+edge(1, 2).", "+vertex(2).", [(1, 2)]),
    "nothing": ("edge(x, x) -> false.", "+edge(1, 2).", "+edge(1, 1).", [(1,)]),
    "a comparison": ("edge(x, y) -> x < y.", "+edge(1, 2).", "+edge(2, 2).", [(2, 2)]),
    "a chain": ("edge(x, y) -> 0 < x < y.", "+edge(1, 2).", "+edge(0, 2).", [(0, 2)]),
    "arithmetic": ("edge(x, y) -> y = x * 2.", "+edge(1, 2).", "+edge(2, 2).", [(2, 2)]),
    "a function of terms": ("edge(x, _) -> abs[x] < 3.", "+edge(-2, 2).", "+edge(-3, 2).", [(-3,)]),
    "a set": ("edge(x, _) -> x in (1, 2).", "+edge(1, 2).", "+edge(3, 2).", [(3,)]),
    "existence": ("vertex(x) -> edge(x, _).", "+vertex(1). +edge(1, 2).", "+vertex(2).", [(2,)]),
    "what exists together": (
        "vertex(x) -> edge(x, y), y > x.", "+vertex(1). +edge(1, 2).", "+vertex(2). +edge(2, 1).",
        [(2,)],
    ),
    "at most one": (
        "edge(x, y), edge(x, z) -> y = z.", "+edge(1, 2).", "+edge(1, 3).", [(1, 2, 3), (1, 3, 2)],
    ),
    "a disjunction to the left": ("edge(x, _) ; edge(_, x) -> vertex(x).",
    "+vertex(1). +edge(1, 1).", "+edge(1, 2).",
                                  [(2,)]),
    "a negation to the left": ("vertex(x), !edge(x, _) -> x > 5.", "+vertex(6).", "+vertex(1).",
    [(1,)]),
    "no variable": ("edge(_, _) -> vertex(_).", "+vertex(1). +edge(1, 2).", "-vertex(1).", [(0,)]),
    "a value": ("size[x] = n -> n > 0, vertex(x).", "+vertex(1). +size[1] = 5.", "^size[1] = 0.",
    [(1, 0)]),
    "a value in a term": ("size[x] > 5 -> vertex(x).", "+size[1] = 5.", "^size[1] = 6.", [(1,)]),
    "a view": ("reach(x, x) -> false.", "+edge(1, 2). +edge(2, 3).", "+edge(3, 1).", [(1,), (2,),
    (3,)]),
    "an aggregate": ("degree[x] = d -> d < 3.", "+edge(1, 2). +edge(1, 3).", "+edge(1, 4).", [(1,
    3)]),
}  # fmt: skip
VIEWS = """size[x] = n -> int(x), int(n). reach(x, y) <- edge(x, y). reach(x, z) <- reach(x, y), edge(y, z).
degree[x] = d <- agg<<d = count()>> edge(x, _). """


@pytest.mark.parametrize("case", CASES)
def test_a_constraint_refuses_what_violates_it(case):
    constraint, admitted, more, violating = CASES[case]
    with ivm.open(":memory:") as workspace:
        workspace.install(GRAPH + VIEWS + constraint)
        workspace.exec(admitted)
        error = refused(workspace, more)
        assert error.constraint == constraint
        assert error.count == len(violating)
        assert error.rows == violating[:3]
        assert workspace.violations() == {}
        assert workspace.check() == []
        workspace.uninstall("main")
        workspace.install(GRAPH + VIEWS)
        workspace.exec(more)
        assert [*workspace.query(constraint)] == violating
        with pytest.raises(ConstraintError):
            workspace.install(constraint, "later")
        assert list(workspace.blocks) == ["main"]


def test_the_error_says_which_tuples(graph):
    error = refused(graph, "+edge(1, 3). +edge(2, 4). +edge(5, 5). +edge(6, 7).")
    assert str(error) == (
        "main:1:52: `edge(x, y) -> vertex(x), vertex(y).` does not hold for x = 1, y = 3; x = 2, y "
        "= 4; x = 5, y = 5; "
        "and 1 more: nothing was changed"
    )
    assert (error.columns, error.rows, error.count) == (("x", "y"), [(1, 3), (2, 4), (5, 5)], 4)
    assert str(error.__reduce__()[0](*error.__reduce__()[1])) == str(error)


def test_what_counts_is_the_state_after_the_transaction(graph):
    graph.exec("+edge(3, 4). +vertex(4). +vertex(3).")
    graph.exec("-vertex(3). +vertex(5). -edge(3, 4). -vertex(4).")
    refused(graph, "-vertex(1).")
    graph.exec("-vertex(1). -edge(1, 2).")
    assert [*graph["vertex"]] == [(2,), (5,)]


def test_a_comparison_with_null_says_nothing():
    with ivm.open(":memory:") as workspace:
        workspace.install(
            "price[i] = p -> int(i), int?(p). price[_] = p? -> p > 0. price[_] = _ -> price[1] = _."
        )
        workspace.exec('+price[1] = 5. +price[2] = null["int"].')
        refused(workspace, "^price[2] = 0.")


def test_what_the_edits_of_a_text_mend_is_not_refused(graph):
    graph.install("vertex(x) -> x > 1. -edge(1, 2). -vertex(1).", "more")
    assert [*graph["vertex"]] == [(2,)]


# -- where rows change


def test_transactions_of_the_store_and_on_branches_are_held_to_it(graph):
    with pytest.raises(ConstraintError), graph.store.transaction() as txn:
        txn["vertex"].delete([(1,)])
    graph.store.branch("trial")
    with graph.store.transaction(branch="trial") as txn:
        txn["vertex"].insert([(9,)])
    with pytest.raises(ConstraintError), graph.store.transaction(branch="trial") as txn:
        txn["edge"].insert([(9, 10)])
    assert [*graph["vertex"]] == [(1,), (2,)]


def test_constraints_are_kept_by_a_store_that_is_opened_again(tmp_path):
    with ivm.open(tmp_path / "g.pages") as workspace:
        workspace.install(BOTH)
    with ivm.open(tmp_path / "g.pages") as workspace:
        assert workspace.constraints == ("edge(x, y) -> vertex(x), vertex(y).",)
        refused(workspace, "+edge(1, 2).")
    with pytest.raises(ConstraintError), pagestore.open(tmp_path / "g.pages").transaction() as txn:
        txn["edge"].insert([(1, 2)])


def test_a_block_with_constraints_is_replaced_and_uninstalled(graph):
    with pytest.raises(UninstallError, match="vertex is read by constraint"):
        graph.install("edge(x, y) -> vertex(x).", "more")
        graph.install("edge(x, y) -> int(x), int(y).", replace=True)
    graph.uninstall("more")
    views = {name for name in graph.store.snapshot() if name.startswith("constraint$")}
    tree = {name: graph.store.snapshot().tree(name).root for name in views}
    graph.install("edge(x, y) -> x < y. " + BOTH, replace=True)
    assert graph.constraints == ("edge(x, y) -> x < y.", "edge(x, y) -> vertex(x), vertex(y).")
    assert {name: graph.store.snapshot().tree(name).root for name in views} == tree
    refused(graph, "+edge(2, 1).")
    graph.install(GRAPH, replace=True)
    assert graph.constraints == ()
    graph.exec("+edge(2, 1). +edge(7, 8).")
    with pytest.raises(ConstraintError):
        graph.install(BOTH, replace=True)
    graph.uninstall("main", relations=True)
    assert [*graph.store.snapshot()] == []


def test_blocks_with_constraints_come_and_go_in_any_order(graph):
    for name in "abc":
        graph.install("edge(x, y) -> vertex(x).  vertex(x) -> x < 100.", name)
    graph.uninstall("a")
    graph.uninstall("main")
    assert len(graph.constraints) == 4
    refused(graph, "+vertex(100).")
    assert graph.check() == []


def test_what_was_violated_is_reported_and_may_be_removed(tmp_path):
    """A store whose rules are taken away, edited and given back is as no transaction leaves it."""
    with ivm.open(tmp_path / "g.pages") as workspace:
        workspace.install(BOTH)
        workspace.exec("+vertex(1). +vertex(2). +edge(1, 2).")
        saved = dict(workspace.store.snapshot().properties)
        workspace.uninstall("main")
        workspace.exec("-vertex(1). -vertex(2). +edge(3, 4).")
        with workspace.store.transaction() as txn:
            txn.properties.update({name: saved[name] for name in ("ivm", "ivm.built")})
    with ivm.open(tmp_path / "g.pages") as workspace:
        workspace.repair()
        assert [(text, [*rows]) for text, rows in workspace.violations().items()] == [
            ("edge(x, y) -> vertex(x), vertex(y).", [(1, 2), (3, 4)])
        ]
        assert [
            "does not hold for x = 1, y = 2; x = 3, y = 4" in str(found)
            for found in workspace.check()
        ] == [True]
        workspace.exec("-edge(1, 2).")
        with pytest.raises(ConstraintError):
            workspace.exec("-edge(3, 4). +edge(4, 3).")
        workspace.exec("+vertex(3). +vertex(4).")
        assert workspace.check() == []


# -- what is a declaration


def test_one_statement_declares_and_constrains():
    text = "edge(x, y) -> int(x), vertex(y), x < y. vertex(x) -> int(x)."
    with ivm.open(":memory:") as workspace:
        workspace.install(text)
        refused(workspace, "+edge(1, 2).")
        refused(workspace, "+vertex(2). +edge(3, 2).")
        workspace.exec("+vertex(2). +edge(1, 2).")


def test_a_column_has_the_type_of_what_it_is_in():
    text = 'f[a] = b -> city(a), city(b). city(c) -> town(c). town(t) -> string(t). g(a) -> town(a), a != "x".'
    program = compile(text)
    assert program.predicates["f"].types == ("string", "string")
    assert program.predicates["g"].types == ("string",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "edge(x, y) -> itn(x), int(y).",
            "1:15: itn is neither a type nor a predicate: did you mean int?",
        ),
        (
            "edge(x) -> text(x).",
            "1:12: text is neither a type nor a predicate: the types are int, uint64, float, bool,",
        ),
        ("edge(x, y) -> int(x), a < b.", "1:1: column y of edge has no type"),
        (
            "edge(x, y), edge(y, x) -> int(x).",
            "1:27: a type is declared for the columns of one relation",
        ),
        ("edge(x, y) -> .", "1:1: types or what has to hold is missing after `->`"),
        ("edge(x, y) -> int(x), int(y). edge(x, y) -> z < 3.", "1:45: z is not bound"),
        (
            "edge(x, y) -> int(x), int(y). edge(x, y) -> true.",
            "1:31: this constraint holds in any case",
        ),
        (
            "edge(x, y) -> int(x), int(y). edgy(x, y) -> edge(x, y).",
            "1:31: nothing declares or derives edgy",
        ),
        (
            "edge(x, y) -> int(x), int(y). edge(x, y) -> vertex(x, y).",
            "1:45: nothing declares or derives vertex",
        ),
        (
            "edge(x, y) -> int(x), int(y). p(x) <- edge(x, y), int?(y).",
            "1:51: a type is declared to the right of `->`",
        ),
    ],
)
def test_what_is_neither_is_refused(text, says):
    with pytest.raises(RuleError) as caught:
        compile(text)
    assert says in str(caught.value)


def test_facts_are_an_enumeration(views):
    """Their name is a type, whatever comes first; a new text may add to it."""
    text = (
        "wall(x, c) -> int(x), colour(c). likes[p] = g -> colour(p), grade(g). best(g) -> "
        "grade(g). "
        'colour("red"). grade(1). grade(2). n[c] = k <- agg<<k = count() else 0 for colour(c)>> '
        "wall(_, c)."
    )
    mirror = views(text + ' colour("blue").')
    for edit in (
        [("wall", (1, "red"), True), ("likes", ("blue", 2), True)],
        [("wall", (2, "green"), True)],
    ):
        mirror.change(edit)
    mirror.change([("best", (3,), True)])
    assert [*mirror.workspace["n"]] == [("blue", 0), ("red", 1)] and [
        *mirror.workspace["best"]
    ] == []


def test_an_enumeration_gets_and_loses_values():
    text = 'wall(x, c) -> int(x), colour(c). colour("red").'
    workspace = ivm.open(":memory:")
    workspace.install(text + ' colour("blue"). +wall(1, "blue").')
    with pytest.raises(ConstraintError, match="does not hold for x = 1, c = 'blue'"):
        workspace.install(text, replace=True)
    workspace.install(text + ' colour("green"). colour("blue").', replace=True)
    workspace.exec('+wall(2, "green").')
    assert [*workspace["wall"]] == [(1, "blue"), (2, "green")] and workspace.check() == []


def test_entities_are_the_values_of_their_reference_modes(views):
    mirror = views("""
        person(p), person:name(p : n) -> string(n). company(c), company:id(c : i) -> int(i).
        works(p, c) -> person(p), company(c).
        colleague(m, n) <- works(p, c), works(q, c), p != q, person:name(p : m), person:name(q : n).
        alone(i) <- company:id(c : i), !works(_, c).
    """)
    mirror.change(
        [("person", (name,), True) for name in ("ada", "bob")]
        + [("company", (c,), True) for c in (7, 9)]
    )
    mirror.change([("works", ("ada", 7), True), ("works", ("bob", 7), True)])
    workspace = mirror.workspace
    assert [*workspace["colleague"]] == [("ada", "bob"), ("bob", "ada")] and [
        *workspace["alone"]
    ] == [(9,)]
    mirror.change([("works", ("eve", 9), True)])  # refused
    mirror.change([("works", ("ada", 7), False), ("person", ("ada",), False)])
    assert [*workspace["colleague"]] == [] and [*workspace["person:name"]] == [("bob", "bob")]


def test_cells_refuse_constraints():
    with pytest.raises(ConstructError, match="1:52: cells keep no constraints"):
        plan(BOTH, 4)


# -- against the truth


@st.composite
def constrained(draw):
    """A program with one or two constraints, and transactions of few edits each, of which many
    are admitted.
    """
    text = draw(programs(FULL))
    shapes = {"a": (1, False), "e": (2, False), "r": (2, False), "f": (1, True), "v0": None}
    clause = Clause(draw, FULL, {name: shape for name, shape in shapes.items() if shape})
    for _ in range(clause.number(1, 2)):
        literals, bound = clause.conjunction()
        kinds = [clause.filter(bound), clause.negation(bound), clause.atom({}, [bound[0], "new"])]
        items = [clause.pick(kinds) for _ in range(clause.number(1, 2))]
        text += f"\n{', '.join(literals)} -> {clause.pick([', ', ' ; ']).join(items)}."
    return text, draw(
        st.lists(st.lists(edits(["a", "e", "r", "f"]), min_size=1, max_size=4), max_size=12)
    )


@settings(max_examples=times(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(constrained())
def test_random_constraints_follow_the_truth(case):
    text, transactions = case
    try:
        compile(text)
    except RuleError:  # a variable that only another alternative binds
        return
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "store.pages", text)
        for transaction in transactions:
            mirror.change(transaction)
        assert mirror.workspace.check() == []
        mirror.close()
