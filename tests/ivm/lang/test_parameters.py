"""A question with parameters answers as its text with the values in their places, and is compiled
once.
"""

from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import ivm
from ivm import question
from ivm.errors import IvmError, OptionError, RuleError
from tests.support.programs.amounts import times

RULES = """
    paid[who] = n -> string(who), int(n).   edge(x, y) -> int(x), int(y).
    due(d, p) -> date(d), decimal(8, 2)(p).  seen(t, b) -> datetime(t), bool(b).
    reach(x, y) <- edge(x, y).  reach(x, z) <- reach(x, y), edge(y, z).
    +due(#2024-01-01#, 2.50). +due(#2024-02-01#, 3.00). +seen(#2024-01-01 10:00#, true).
"""
TEXTS = [
    "q(n) <- paid[{text}] = n.",
    "q(w) <- paid[w] = n, n > {int}, w != {text}.",
    "q(w, m) <- paid[w] = n, m = n * {int} + {int}.",
    "q(y) <- reach({int}, y).",
    "q(x) <- reach(x, {int}).",
    "q() <- reach({int}, {int}).",
    "q(x, y) <- reach(x, y), x >= {int}, y < {int}.",
    "q(y) <- (edge({int}, y) ; edge(y, {int})).",
    "q(w) <- paid[w] = n, !reach({int}, n).",
    "q(w) <- paid[w] = n, !(edge(x, y), y > n, x > {int}).",
    "q(w, c) <- paid[w] = _, agg<<c = count()>> (edge(x, y), y > {int}).",
    "t[] = s <- agg<<s = sum(n * {int})>> paid[_] = n, n > {int}.",
    "h(x) <- edge(x, _), x > {int}. q(y) <- h(x), edge(x, y), y != {int}.",
    "r(x) <- edge({int}, x). r(y) <- r(x), edge(x, y). q(x) <- r(x), x != {int}.",
    "q(d, p) <- due(d, p), d >= {date}, p < {decimal}.",
    "q(t) <- seen(t, {bool}), t < {moment}.",
    "q(x) <- x = {int}.",
    "q(x) <- edge(x, _), x in ({int}, {int}).",
]
VALUES: dict[str, list[Any]] = {
    "int": [0, 1, 2, 3, -1], "text": ["ada", "bob", "zed", ""], "bool": [True, False],
    "date": [date(2024, 1, 1), date(2024, 1, 15)], "moment": [datetime(2024, 1, 1, 11)],
    "decimal": [Decimal("2.75"), Decimal("3.00")],
}  # fmt: skip


def written(value: Any) -> str:
    """Return a value as rules write it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, date):
        return f"#{value}#"
    return f'"{value}"' if isinstance(value, str) else str(value)


@pytest.mark.parametrize("seed", range(times(3)))
def test_parameters_are_as_the_values_in_their_places(seed: int, monkeypatch: Any) -> None:
    """Random questions between random edits, and rules that come, are compiled no more often than
    the rules change.
    """
    random, compiled = Random(seed), list[str]()
    own = question.with_block
    monkeypatch.setattr(
        question, "with_block", lambda *a, **k: compiled.append(str(a[0])) or own(*a, **k)
    )
    ws = ivm.open(":memory:")
    ws.install(RULES)
    texts, asked, changes = random.sample(TEXTS, 6), 0, 1
    for n in range(60):
        if random.random() < 0.3:
            x, y = random.choices(VALUES["int"], k=2)
            ws.exec(
                random.choice([f"+edge({x}, {y}).", f"-edge({x}, {y}).", f'^paid["ada"] = {y}.'])
            )
        if random.random() < 0.03:
            ws.install(f"more{n}(x) <- edge(x, x).", f"more{n}")
            changes += 1
        places, plain, values = "", "", dict[str, Any]()
        for part in random.choice(texts).split("{"):
            kind, brace, rest = part.rpartition("}")
            if brace:
                value = random.choice(VALUES[kind])
                values[f"p{len(values)}"] = value
                places, plain = f"{places}$p{len(values) - 1}", plain + written(value)
            places, plain = places + rest, plain + rest
        before = len(compiled)
        found = [*ws.query(places, values)]
        asked += len(compiled) - before
        assert sorted(found) == sorted(ws.query(plain)), (places, values)
        assert sorted(found) == sorted(ws.at().query(places, values))
    assert asked <= len(texts) * changes


def test_a_text_that_no_row_has_is_found_once_it_has() -> None:
    ws = ivm.open(":memory:")
    ws.install(RULES)
    for who in ("new", "newer"):
        for _ in range(3):
            assert not [*ws.query("q(n) <- paid[$who] = n.", {"who": who})]
        ws.exec(f'+paid["{who}"] = 3.')
        assert [*ws.query("q(n) <- paid[$who] = n.", {"who": who})] == [(3,)]
        assert [*ws.query(f'q(n) <- paid["{who}"] = n.')] == [(3,)]


@pytest.mark.parametrize(
    ("text", "values", "said"),
    [
        ("q(x) <- edge($a, x).", None, "query:1:14: $a has no value"),
        ("q(x) <- edge($a, x).", {"a": None}, "parameter a is null"),
        ("q(x) <- edge($a, x).", {"a": [1]}, "parameter a is [1]; it is a number"),
        ("q(x) <- edge($a, x).", {"a": 1 << 70}, "query:1:14: 1180591620717411303424"),
        ("q(x) <- edge($a, x).", {"a": "x"}, "$a is string elsewhere in the rule but int64"),
        ("q(x) <- edge($a, x).", {"a": 1, "b": 2}, "parameter b: the text has no $b"),
        ("q(x) <- edge($a, x).", [1], "parameters=[1]: it is a dict"),
        ("q(x) <- edge($a, x).", 100, "parameters=100: it is a dict"),
        ("q($a) <- edge($a, _).", {"a": 1}, "query:1:3: $a is not in the body of a rule"),
        ("edge(x, y) -> x < $a.", {"a": 1}, "query:1:19: $a is not in the body of a rule"),
    ],
)
def test_what_is_no_value_of_a_parameter_is_said(text: str, values: Any, said: str) -> None:
    ws = ivm.open(":memory:")
    ws.install(RULES)
    with pytest.raises((RuleError, OptionError)) as error:
        ws.query(text, values)
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["v(x) <- edge($a, x).", "+edge($a, 3).", "edge(x, y) -> x < $a."])
def test_what_is_kept_has_no_parameters(text: str) -> None:
    ws = ivm.open(":memory:")
    ws.install(RULES)
    with pytest.raises(IvmError, match=r"\$a has no value: only a question is given some"):
        ws.install(text, "other")
