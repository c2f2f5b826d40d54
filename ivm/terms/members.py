"""What is computed of each value of a list: a term over `x`, a list of the value alone.

    list:each["1,null", '["list:length", "x"]'] = "1,1"

The term is JSON: a text is a variable, a list a function and its arguments, an object a constant.
"""

import json
from decimal import Decimal
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ivm.lang.functions import define, function_named
from ivm.lang.infer import typed
from ivm.lang.ir import Binary, Call, Const, Term, Var
from ivm.lang.types import DIGITS_MAX
from ivm.terms.evaluator import Batch, Evaluator
from ivm.terms.lists import shown_json, values_of
from ivm.terms.operands import Operands, Result, over_distinct

TYPES = {"x": "string"}


@lru_cache(256)
def _term(text: str) -> Term:
    return typed(_read(json.loads(text)), TYPES)[0]


def _read(node: Any) -> Term:
    if isinstance(node, str):
        return Var(node)
    if isinstance(node, dict):
        ((type_, value),) = node.items()
        if value is None or not type_.startswith("decimal"):
            return Const(value, type_)
        places = len(value.partition(".")[2])
        type_ = f"decimal({DIGITS_MAX},{places})" if places else "int64"
        return Const(Decimal(value) if places else int(value), type_)
    name, *rest = node
    args = tuple(map(_read, rest))
    return Binary(name, *args) if name in "+-*/" else Call(function_named(name) or name, args)


def _each(x: Operands) -> Result:
    """Return lists of what a term is of each value: no list where it fails for one of them."""
    words, fails, terms = np.zeros(x.n, np.int64), x.none(), x.values(1)
    for text in {*terms}:
        these = np.array([term == text for term in terms])
        words[these], fails[these] = _mapped(text, x.only(these))
    return words, fails


def _mapped(text: str, x: Operands) -> Result:
    lists, fails = [_split(one) for one in x.values(0)], x.none()
    ends = [*accumulate(len(values or ()) for values in lists)]
    parts = x.encode.words("string", [value for values in lists for value in values or ()])
    try:
        term = _term(text)
    except (ValueError, LookupError, TypeError):
        return np.zeros(x.n, np.int64), ~fails
    words, codes = Evaluator(TYPES, x.encode).words(term, Batch(len(parts), {"x": parts}, {}))
    bad = np.zeros(len(parts), bool) if codes is None else codes != 0
    found = x.encode.decode("string", np.where(bad, parts, words)).to_pylist()
    made = []
    for n, (first, end) in enumerate(pairwise([0, *ends])):
        fails[n] = lists[n] is None or bad[first:end].any()
        made.append("" if fails[n] else ",".join(found[first:end]))
    return x.encode.words("string", made), fails


def _split(text: str) -> list[str] | None:
    """Return each value of a list as JSON; None for another text."""
    try:
        return [*map(shown_json, values_of(text))]
    except (ValueError, RecursionError):
        return None


define("list:each", "string, string -> string?", partial(over_distinct, _each))
