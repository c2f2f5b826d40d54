"""Printing and parsing are inverse: a checked rule, printed and compiled again, is the same
rule.
"""

import json
from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivm import errors
from ivm.lang.ir import Const, show_constant, show_predicate, show_rule
from ivm.lang.parse import parse
from ivm.lang.program import Program
from ivm.lang.syntax_tree import Clause
from ivm.rules.compile import compile
from tests.support import naive
from tests.support.strategies import BASIC, FULL, cases, programs


def declarations(program: Program) -> str:
    return "\n".join(show_predicate(p) for p in program.predicates.values() if p.extensional)


def rules(program: Program) -> str:
    return "\n".join(map(show_rule, program.rules))


@given(programs(FULL))
def test_rules(text):
    program = compile(text)
    again = compile(f"{declarations(program)}\n{rules(program)}".replace("$", "_of_"))
    assert rules(again) == rules(program).replace("$", "_of_")
    assert [r.types for r in again.rules] == [r.types for r in program.rules]
    if "$" not in rules(program):
        assert (again.rules, again.predicates) == (program.rules, program.predicates)


@given(cases(BASIC))
def test_what_is_printed_means_the_same(case):
    text, transactions = case
    program = compile(text)
    again = compile(f"{declarations(program)}\n{rules(program)}".replace("$", "_of_"))
    state = naive.empty(program)
    for name, row, inserted in (edit for transaction in transactions for edit in transaction):
        naive.change(state[name], row, inserted)
    try:
        expected = naive.evaluate(program, state)
    except errors.FunctionConflictError:
        with pytest.raises(errors.FunctionConflictError):
            naive.evaluate(again, state)
    else:
        found = naive.evaluate(again, state)
        assert found == {name.replace("$", "_of_"): rows for name, rows in expected.items()}


VALUES = st.one_of(
    st.booleans().map(lambda v: Const(v, "bool")),
    st.integers(-(2**63), 2**63 - 1).map(lambda v: Const(v, "int64")),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda v: Const(v, "float64")),
    st.text().map(lambda v: Const(v, "string")),
    st.dates().map(lambda v: Const(v, "date")),
    st.datetimes().map(lambda v: Const(v, "timestamp")),
    st.integers(-(10**18) + 1, 10**18 - 1).map(
        lambda n: Const(Decimal(n).scaleb(-4), "decimal(18,4)")
    ),
)


@given(VALUES)
def test_constants(constant):
    text = show_constant(constant)
    [clause] = parse(f"p(x) <- q({text}).")
    assert isinstance(clause, Clause)
    assert clause.body.items[0].args == (constant,)


@given(st.text())
def test_any_string_is_a_literal_in_the_syntax_of_json(value):
    [clause] = parse(f"p(x) <- q({json.dumps(value)}).")
    assert clause.body.items[0].args[0].value == value


def test_str_is_the_text():
    # d[x] = n <- agg<<n = sum(y)>> edge(x, y), !(edge(y, z), z < 3), y != x * 2.
    declaration = "edge(x, y) -> int64(x), int64(y)."
    text = "d[x] = n <- agg<<n = sum(y)>> edge(x, y), !(edge(y, z), z < 3), y != x * 2."
    program = compile(declaration + text)
    [rule] = program.rules
    assert str(rule) == text
    assert [str(literal) for literal in rule.body[0]] == [
        "edge(x, y)",
        "!(edge(y, z), z < 3)",
        "y != x * 2",
    ]
    assert (str(rule.aggregate), str(rule.aggregate.result)) == ("n = sum(y)", "n")
    assert str(program.predicates["edge"]) == declaration


def test_moments():
    [clause] = parse(
        "p(x) <- q(#2013-01-31#, #2013-01-31 17:05:00#, #2013-01-31T17:05:00.000001#)."
    )
    assert [arg.value for arg in clause.body.items[0].args] == [
        date(2013, 1, 31),
        datetime(2013, 1, 31, 17, 5),
        datetime(2013, 1, 31, 17, 5, 0, 1),
    ]
