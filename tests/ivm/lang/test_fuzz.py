"""Whatever the text, there is a program or one RuleError with a place in it; no other exception,
ever.
"""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ivm.errors import RuleError
from ivm.lang.program import Program
from ivm.rules.compile import compile, query
from tests.support.programs.amounts import times
from tests.support.strategies import DECLARATIONS, FULL, programs

WORDS = r"""a e r t f g v0 x y z _ ( ) [ ] , ; . ! = != < <= > >= + - * / ^ <- -> agg<< >> count sum total 1
2.50 3e5 -7 "s" "\ud800" #2013-01-31# #x# true int float decimal string // /* */ : @ 9999999999999999999 1e999
123456789012345678901234567890.5"""
TOKENS = st.sampled_from(WORDS.split())
KNOWN = compile(DECLARATIONS)


def is_program_or_error(text: str) -> None:
    for entry in (compile, query):
        try:
            program = entry(text, KNOWN)
        except RuleError as error:
            lines = text.split("\n")
            assert 1 <= error.where.line <= len(lines)
            assert 1 <= error.where.column <= len(lines[error.where.line - 1]) + 1
            assert str(error).count("\n") in (0, 2)  # a syntax error shows its line and a caret
        else:
            assert isinstance(program, Program)


@settings(max_examples=times(200))
@given(st.lists(TOKENS, max_size=25).map(" ".join))
@example("")
@example("p(x) <- a(x), x = -9223372036854775809.")
@example("p(x) <- a(x), e(0, 0) <= a(0).")
@example("a(x), e(0, 0) <= a(0) -> a(x).")
@example("p(x) <- a(x), !(e(0, 0) <= a(0) ; a(x)).")
@example("p(x) <- " + "(" * 500 + "a(x)" + ")" * 500 + ".")
@example("p(x) <- a(x), y = " + "-" * 500 + "x.")
@example("p(x) <- " + "!" * 500 + "a(x).")
@example("p(y) <- a(x), y = " + " + ".join(["x"] * 500) + ".")
@example(" ".join(f"v{n + 1}(x) <- v{n}(x)." for n in range(1500)) + " v0(x) <- a(x).")
def test_tokens(text):
    is_program_or_error(text)


@given(st.text(max_size=60))
def test_text(text):
    is_program_or_error(text)


@given(programs(FULL), st.data())
def test_a_program_with_one_token_changed(text, data):
    words = text.removeprefix(DECLARATIONS).split(" ")
    words[data.draw(st.integers(0, len(words) - 1))] = data.draw(TOKENS)
    is_program_or_error(" ".join(words))
