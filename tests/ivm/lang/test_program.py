"""Programs are installed part by part: what a part adds, what depends on it, and in which order
rules run.
"""

import pytest

from ivm.errors import RecursionRefusedError, RuleTypeError, UninstallError
from ivm.lang.ir import show_rule
from ivm.lang.program import NOTHING, Program, in_order, readers
from ivm.rules.compile import compile

STORED = compile(
    "edge(x, y) -> int(x), int(y). cost[x] = c -> int(x), decimal(8, 2)(c).", source="stored"
)


def after(*texts: str) -> Program:
    program = NOTHING.including(STORED)
    for text in texts:
        program = program.including(compile(text, program))
    return program


def test_a_part_holds_what_it_adds():
    part = compile("path(x, z) <- edge(x, y), edge(y, z).", STORED)
    assert list(part.predicates) == ["path"]
    assert [show_rule(rule) for rule in part.rules] == ["path(x, z) <- edge(x, y), edge(y, z)."]


def test_rules_stand_behind_what_they_read_whatever_the_order_of_the_text():
    # d(x) <- c(x), b(x).   c(x) <- a(x).   b(x) <- a(x).   a(x) <- edge(x, _).
    program = after("d(x) <- c(x), b(x). c(x) <- a(x). b(x) <- a(x). a(x) <- edge(x, _).")
    done = {"edge", "cost"}
    for rule in program.rules:
        assert done.issuperset(rule.reads)
        done.update(rule.writes)
    assert in_order(program.rules) == program.rules


def test_all_rules_of_a_view_stand_before_its_readers():
    # r(x) <- u(x).   u(x) <- edge(x, _).   u(x) <- edge(_, x), e2(x).   e2(x) <- edge(x, x).
    program = after(
        "r(x) <- u(x). u(x) <- edge(x, _). u(x) <- edge(_, x), e2(x). e2(x) <- edge(x, x)."
    )
    assert [rule.writes for rule in program.rules][-1] == ("r",)


def test_columns_take_names_and_types_from_the_rules():
    # f[x] = c, g(x, x, 1, c) <- cost[x] = c.
    program = after("f[x] = c, g(x, x, 1, c) <- cost[x] = c.")
    f, g = program.predicates["f"], program.predicates["g"]
    assert (f.keys, f.value, f.columns) == (("int64",), "decimal(8,2)", ("x", "c"))
    assert (g.types, g.columns) == (
        ("int64", "int64", "int64", "decimal(8,2)"),
        ("x", "c2", "c3", "c"),
    )


def test_names_made_up_are_none_of_the_users():
    # f(c2, c2 + 1) <- edge(c2, _).      g(x + 1, c1) <- edge(x, c1).      h(x, c3, x, x, c5) <-
    # edge(x, c3), c5 = x.
    text = "f(c2, c2 + 1) <- edge(c2, _). g(x + 1, c1) <- edge(x, c1)."
    program = after(f"{text} h(x, c3, x, x, c5) <- edge(x, c3), c5 = x.")
    assert [program.predicates[name].columns for name in "fgh"] == [
        ("c2", "c3"),
        ("c2", "c1"),
        ("x", "c3", "c4", "c6", "c5"),
    ]


def test_a_literal_alone_takes_the_type_that_the_view_has():
    # p[x] = c <- cost[x] = c.      p[x] = 0 <- edge(x, x).
    program = after("p[x] = c <- cost[x] = c. p[x] = 0 <- edge(x, x).")
    assert [rule.types[rule.heads[0].value.name] for rule in program.rules] == ["decimal(8,2)"] * 2
    assert show_rule(program.rules[1]) == "p[x] = _1 <- edge(x, x), _1 = 0.00."


def test_a_column_of_decimals_has_the_digits_that_its_rules_need():
    program = after(
        "a(x) <- cost[_] = x. a(x) <- cost[_] = y, x = y + y. b(x) <- a(x). b(x) <- cost[_] = x."
    )
    assert program.predicates["a"].types == program.predicates["b"].types == ("decimal(18,2)",)
    with pytest.raises(RuleTypeError, match=r"is decimal\(18,2\) here, but decimal\(8,2\) by the"):
        compile("a(x) <- cost[_] = y, x = y + y.", after("a(x) <- cost[_] = x."))


def test_a_later_part_must_fit_an_earlier_view():
    program = after("p(x) <- edge(x, _).")
    with pytest.raises(
        RuleTypeError, match=r"rules:1:3: column x of p is decimal\(8,2\) here, but int64 by the"
    ):
        compile("p(c) <- cost[_] = c.", program)


def test_recursion_through_an_earlier_part_is_found():
    program = after("a(x) <- edge(x, _). b(x) <- cost[x] = _, !a(x).")
    with pytest.raises(RecursionRefusedError, match="b negates a, which reads b"):
        compile("a(x) <- b(x).", program)


class TestExcluding:
    def test_what_is_read_stays(self):
        program = after()
        paths = compile("path(x, z) <- edge(x, y), edge(y, z).", program)
        program = program.including(paths)
        loops = compile("loop(x) <- path(x, x). n[] = k <- agg<<k = count()>> path(_, _).", program)
        program = program.including(loops)
        with pytest.raises(UninstallError) as caught:
            program.excluding(paths)
        assert str(caught.value) == "path is read by loop, n: uninstall the readers first"
        with pytest.raises(UninstallError, match="edge is read by path"):
            program.excluding(STORED)
        assert program.excluding(loops).excluding(paths) == NOTHING.including(STORED)

    def test_a_view_stays_while_another_part_has_a_rule_for_it(self):
        program = after()
        first = compile("p(x) <- edge(x, _).", program)
        program = program.including(first)
        second = compile("p(x) <- edge(_, x).", program)
        program = program.including(second)
        program = program.including(compile("q(x) <- p(x).", program)).excluding(first)
        assert "p" in program.predicates
        assert readers(["p"], program.rules) == {"p": ("q",)}
        with pytest.raises(UninstallError, match="p is read by q"):
            program.excluding(second)


def test_a_program_is_deterministic():
    text = " ".join(f"v{n}(x) <- v{n // 2}(x), edge(x, _), v{n // 3}(x)." for n in range(30, 0, -1))
    text += " v0(x) <- edge(x, _)."
    assert after(text).rules == after(text).rules
