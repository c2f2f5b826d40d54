"""From a text to plans: one list of passes, which begins with a text, with syntax trees or with
checked rules.
"""

from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import ivm
from ivm.engine.kernels.plans import LARGE
from ivm.errors import RuleTypeError, SafetyError, UnknownPredicateError
from ivm.lang.ir import Const, Var
from ivm.lang.parse import parse
from ivm.lang.program import Program
from ivm.lang.syntax_tree import And, Anonymous, Application, Clause, Operation
from ivm.plan import costs
from ivm.plan.planner import ONCE
from ivm.rules.compile import compile, with_block
from ivm.rules.installed import Options
from ivm.rules.relations import Relations, declaration_of, predicate_of
from pagestore.host import Column, Schema, Type
from tests.support.programs.amounts import times
from tests.walks import PASSES, import_order, walks
from tests.walks.gates import gates

TEXTS = [
    PASSES,
    "peak[d] = n <- agg<<n = max(v)>> sale(_, d, v), sale(_, e, _), e <= d, e > d - 7.",
    "q(y) <- reach(1, y). reach(x, y) <- edge(x, y). reach(x, z) <- reach(x, y), edge(y, z).",
    "a(n) <- sale:n[i] = n, sale:d[i] = d, edge(d, _). b(x, y) <- edge(x, _), edge:next[x] = y.",
]


@pytest.fixture(scope="module")
def ws(tmp_path_factory):
    with ivm.open(tmp_path_factory.mktemp("compile") / "s.pages", sync="off") as workspace:
        with workspace.store.transaction() as txn:
            txn.create("edge", "x: int64, y: int64").insert([(1, 2), (2, 3)])
            txn.create("sale", "i: int64, d: int64, n: int64", key="i").insert([(1, 2, 3)])
        yield workspace


def compiled(ws, program, maintenance="auto"):
    with ws.store.sketch() as sketch:
        return with_block(
            program,
            ws.rules_of(sketch),
            Relations(sketch),
            "rules",
            Options(maintenance=maintenance),
        )


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("maintenance", ["auto", "match", ONCE])
def test_trees_and_checked_rules_get_the_plans_of_their_text(ws, text, maintenance):
    with ws.store.snapshot() as snap:
        checked = compile(text, store=Relations(snap))
    of_text, of_trees = (
        compiled(ws, one, maintenance) for one in (text, Program(statements=parse(text)))
    )
    assert shape(of_trees) == shape(of_text)
    if maintenance != ONCE:
        assert shape(compiled(ws, checked, maintenance)) == shape(of_text)


def shape(installed):
    rules = [(rule.number, rule.definition, rule.orders, rule.span) for rule in installed.rules]
    return rules, installed.layouts, installed.program.predicates


def test_trees_need_no_places(ws):
    """Their faults are named without one."""
    edge = Application("edge", (Var("x"), Anonymous()), False)

    def view(*terms, **more):
        return Program(
            statements=(Clause((Application("p", terms, False),), And((edge, *more.values())), ()),)
        )

    (rule,) = compiled(ws, view(Var("x"))).rules
    assert str(rule.definition) == "p(x) <- edge(x, _1)."
    for program, kind, reason in (
        (view(Var("y")), SafetyError, "y is not bound: "),
        (
            view(Var("x"), other=Application("edgy", (Var("x"),), False)),
            UnknownPredicateError,
            "nothing declares or derives",
        ),
        (
            view(Var("x"), other=Operation("=", Var("x"), Const("a", "string"))),
            RuleTypeError,
            "int64 = string: ",
        ),
    ):
        with pytest.raises(kind, match=f"^{reason}"):
            compiled(ws, program)


names = st.text(
    st.characters(exclude_characters="`$\n\r", exclude_categories=["C", "Z"]),
    min_size=1,
    max_size=5,
)
types = st.sampled_from(
    ["int64", "string", "decimal(9,2)", "timestamp(Europe/Berlin)", "timestamp", "date", "bool"]
)


@settings(max_examples=times(100))
@given(
    st.lists(st.tuples(names, types), min_size=1, max_size=5, unique_by=lambda one: one[0]),
    st.data(),
    names,
)
def test_a_relation_is_what_its_declaration_says(columns, data, name):
    keys = data.draw(st.integers(1, len(columns)))
    optional = (
        data.draw(st.sets(st.integers(keys, len(columns) - 1))) if keys < len(columns) else set()
    )
    made = [Column(n, Type.parse(t + "?" * (i in optional))) for i, (n, t) in enumerate(columns)]
    schema = Schema(tuple(made), tuple(n for n, _ in columns[:keys]))
    text = declaration_of(name, schema)
    assert compile(text).predicates == {name: predicate_of(name, schema)}, text


@cache
def walked():
    """Taken in a process of its own: what other tests have left to be collected is no move."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(walks).result(), import_order()


def test_no_pass_calls_back_up_and_each_text_is_parsed_once():
    """Of a transaction only what a decorator and two registered functions call climbs, and the
    committer of a mode of sync.
    """
    found, above = walked()
    climbs = {name: walk.climbs(above) for name, walk in found.items()}
    assert climbs["a text to plans"] == climbs["a store to rules"] == []
    assert len(climbs["a delta to rows"]) <= 4
    asked = {name: walk.parses for name, walk in found.items()}
    # the parser keeps the statements of the text that an installation asks for again, and an opened
    # store has blocks that were compiled before
    names = ("text to plans", "text to rows", "store to rules")
    assert [asked[f"a {name}"] for name in names] == [1, 2, 0]


def test_the_measures_of_the_layout_hold():
    """Each is at most what it is to be, or was when it was last taken: see `python -m
    tests.walks`.
    """
    found, above = walked()
    beyond = [
        str(gate)
        for gate in gates({name: walk.measured(above) for name, walk in found.items()})
        if not gate.holds
    ]
    assert beyond == []


def test_what_the_kernel_and_python_call_a_large_change_is_one_number():
    assert costs.LARGE_FROM == LARGE
