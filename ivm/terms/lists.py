"""Functions of JSON, and of lists, which are texts: their values as JSON, without the brackets
around them.

    list:part['1,"a",null', 2, -1] = '"a",null'      list:length["1,2"] = 2      json:at['{"a": [1]}', "$.a"] = "[1]"

Structs are lists of their fields, and maps lists of pairs. Each function fails where it has no
value, also if its arguments are no such texts.
"""

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache, wraps
from itertools import zip_longest
from math import isfinite, prod
from statistics import median
from typing import Any

from ivm.terms.letters import split
from ivm.terms.operands import by_value, fitting, no_value
from pagestore.host import of_texts

VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|[^,]+')  # of a list without lists and objects in it
STEP = re.compile(r'\.("(?:[^"\\]|\\.)*"|[^.\[]+)|\[(-?\d+)\]')  # of a path
ODD = re.compile(r"""[][(){}\\,"'=:]""")  # that tells one value of a text of a list from the next
KINDS = {
    dict: "OBJECT", list: "ARRAY", str: "VARCHAR", bool: "BOOLEAN", float: "DOUBLE",
    type(None): "NULL",
}  # fmt: skip


def values_of(text: str) -> list[Any]:
    """Return the values of a list.  Raises ValueError, RecursionError."""
    values: list[Any] = json.loads(f"[{text}]", strict=False)
    return values


def shown_json(value: Any) -> str:
    """Return the JSON of a value."""
    found = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return found if _is_text(found) else json.dumps(value, separators=(",", ":"))


def _is_text(text: str) -> bool:
    """Return whether a text has a form in UTF-8: JSON may escape one half of a surrogate pair,
    which has none.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _list(values: list[Any]) -> str:
    return shown_json(values)[1:-1]


def _part(text: str, first: int, last: int) -> str:
    """Return the values of a list from a place to another, counted from 1, or backwards from -1."""
    plain = not ("[" in text or "{" in text) or not _is_valid(f"[{text}]")
    found = VALUE.findall(text) if plain else values_of(text)
    begin, end = (place + len(found) + 1 if place < 0 else place for place in (first, last))
    part = found[max(0, begin - 1) : max(0, end)]
    return ",".join(part) if plain else _list(part)


def _stepped(text: str, first: int, last: int, step: int) -> str:
    """Return each step-th of some values of a list, backwards if the step is negative."""
    begin, end = (last, first) if step < 0 else (first, last)
    values = values_of(_part(text, begin, end))
    return _list(values[::step]) if values else ""


def _position(text: str, value: str) -> int:
    return values_of(text).index(json.loads(value, strict=False)) + 1


def _number(value: Any) -> Any:
    """Return a number in a list: decimals are texts there."""
    return Decimal(value) if isinstance(value, str) else value


def _sorted(text: str, how: str) -> str:
    """Return a list in the order that `how` says: of "numbers" or others, "down", nulls "first"."""
    values = values_of(text)
    kept = [value for value in values if value is not None]
    kept.sort(key=_number if "numbers" in how else None, reverse="down" in how)
    nulls = [None] * (len(values) - len(kept))
    return _list(nulls + kept if "first" in how else kept + nulls)


def _folded(text: str, fold: str, kind: str) -> str:
    """Return a fold of the values of a list that are not null, as JSON; of "numbers" or others."""
    read: Callable[[Any], Any] = _number if kind == "numbers" else lambda value: value
    values = [read(one) for one in values_of(text) if one is not None]
    found = FOLDS[fold](values) if values else no_value()
    return shown_json(str(found) if isinstance(found, Decimal) else found)


FOLDS: dict[str, Callable[[list[Any]], Any]] = {
    "min": min, "max": max, "sum": sum, "first": lambda values: values[0],
    "last": lambda values: values[-1], "avg": lambda values: float(sum(values)) / len(values),
    "median": lambda values: float(median(values)),
    "product": lambda values: prod(map(float, values)),
}  # fmt: skip


def _joined(text: str, separator: str) -> str:
    values = [one for one in values_of(text) if one is not None]
    if text and not values:
        no_value()
    return separator.join(
        "true" if value is True else "false" if value is False else str(value) for value in values
    )


def _both(first: str, second: str) -> str:
    fitting(len(first) + len(second))
    return f"{first},{second}" if first and second else first or second


def _range(first: int, end: int, step: int) -> str:
    numbers = range(first, end, step)
    return ",".join(map(str, numbers)) if len(numbers) <= 1_000_000 else no_value()


def _split(text: str, separator: str) -> str:
    return _list(split(text, separator))


def _split_by(text: str, pattern: str) -> str:
    import pyarrow.compute as pc

    return _list(pc.split_pattern_regex(of_texts([text]), pattern)[0].as_py())


def _matches(text: str, pattern: str, group: int) -> str:
    """Return a group of each match, 0 to 8, where 0 is all of it.  RE2 puts it between marks."""
    if not 0 <= group <= 8:  # all of the pattern is a group as well, and RE2 inserts groups up to 9
        no_value()
    import pyarrow.compute as pc

    marked = pc.replace_substring_regex(of_texts([text]), f"({pattern})", f"\x01\\{group + 1}\x02")
    return _list(re.findall("\x01([^\x01\x02]*)\x02", marked[0].as_py()))


def _of_key(pairs: str, key: str) -> str:
    wanted = json.loads(key, strict=False)
    return (
        next((shown_json(value) for own, value in values_of(pairs) if own == wanted), None)
        or no_value()
    )


def _pairs(keys: str, values: str) -> str:
    """Return a map of keys, which are no nulls and each once, and as many values."""
    found = dict(zip(map(shown_json, values_of(keys)), values_of(values), strict=True))
    if "null" in found or len(found) < len(values_of(keys)):
        no_value()
    return _list([[json.loads(key), value] for key, value in found.items()])


def _overlaid(pairs: str, others: str) -> str:
    """Return a map with the pairs of another, whose values replace those of the same keys."""
    found = {shown_json(pair[0]): pair for pair in [*values_of(pairs), *values_of(others)]}
    return _list([*found.values()])


def _quoted(text: str) -> str:
    """Return a text as that of a list has it: in quotes where it may be read as something else."""
    if not (ODD.search(text) or text.strip(" \t\n\v\f\r") != text or text.lower() in ("", "null")):
        return text
    return "'" + re.sub(r"(['\\])", r"\\\1", text) + "'"


def json_of_number(value: Any) -> str:
    """Return the JSON of a value: a float in digits alone from a millionth to 21 digits before the
    point.
    """
    if not isinstance(value, float) or not isfinite(value):
        return shown_json(value)
    if value and not 1e-6 <= abs(value) < 1e21:
        return repr(value).replace("e-0", "e-").replace("e+", "e")
    text = f"{Decimal(repr(value)):f}"
    return text if "." in text else text + ".0"


def _column(pairs: str, place: int) -> str:
    found = values_of(pairs)
    if not all(isinstance(one, list) for one in found):
        no_value()
    return _list([pair[place] for pair in found])


_words = lru_cache(2)(values_of)  # of constants, whose places are asked for one after the other


def _word(words: str, place: int) -> Any:
    word = _words(words)[place] if 0 <= place < len(_words(words)) else None
    return word if isinstance(word, str) else no_value()


def _all_in(values: str, others: str, whole: bool) -> bool:
    own = values_of(values)
    found = [value in own for value in values_of(others) if value is not None]
    return all(found) if whole else any(found)


def _distinct(text: str) -> str:
    """Return the values that are not null, each where it is first."""
    return ",".join(
        dict.fromkeys(shown_json(value) for value in values_of(text) if value is not None)
    )


def _intersect(text: str, others: str) -> str:
    held = {shown_json(value) for value in values_of(others)}
    return _distinct(_list([value for value in values_of(text) if shown_json(value) in held]))


def _where(text: str, mask: str) -> str:
    """Return the values where a list of as many truth values says so, null beyond the last."""
    values, chosen = values_of(text), values_of(mask)
    if None in chosen:
        no_value()
    return _list(
        [values[n] if n < len(values) else None for n, value in enumerate(chosen) if value]
    )


def _select(text: str, places: str) -> str:
    """Return the values at places from 1; null beyond both ends."""
    values = values_of(text)
    return _list([values[n - 1] if 1 <= n <= len(values) else None for n in values_of(places)])


def _resized(text: str, size: int, more: str) -> str:
    values = values_of(text)
    if not 0 <= size <= 1_000_000:
        no_value()
    return _list(values[:size] + [json.loads(more, strict=False)] * (size - len(values)))


def _zipped(lists: str, shortest: int) -> str:
    """Return rows of the values at each place of some lists, to the end of the shortest or not."""
    rows = values_of(lists)
    return _list([*(zip(*rows, strict=False) if shortest else zip_longest(*rows))])


# -- JSON


def _at(text: str, path: str) -> Any:
    """Return the value at a path or a pointer in JSON.  Raises ValueError if it has none."""
    found = json.loads(text)
    for name, place in _steps(path):
        try:
            found = found[int(place)] if isinstance(found, list) and place else found[name]
        except (KeyError, IndexError, TypeError):
            return no_value()
    return found


def _steps(path: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the place, one of which may be empty, to which each step of a path or a
    pointer leads.

    >>> [*_steps('$.a."b c"[2]')], [*_steps("/a/2")]
    ([('a', ''), ('b c', ''), ('', '2')], [('a', ''), ('2', '2')])
    """
    if path.startswith("/"):
        for token in path[1:].split("/"):
            yield token.replace("~1", "/").replace("~0", "~"), token if token.isdecimal() else ""
        return
    for key, place in STEP.findall(path.removeprefix("$")):
        yield json.loads(key) if key.startswith('"') else key, place


def _text_at(text: str, path: str) -> str:
    """Return the value at a path in JSON, a text as it is and others as JSON.  Raises ValueError
    if it is null.
    """
    found = _at(text, path)
    return (
        found if isinstance(found, str) else no_value() if found is None else json_of_number(found)
    )


def _kind_at(text: str, path: str) -> str:
    found = _at(text, path)
    if isinstance(found, int) and not isinstance(found, bool):
        return "DOUBLE" if not -(2**63) <= found < 2**64 else "UBIGINT" if found >= 0 else "BIGINT"
    return KINDS[type(found)]


def _length_at(text: str, path: str) -> int:
    found = _at(text, path)
    return len(found) if isinstance(found, list) else 0


def _keys_at(text: str, path: str) -> str:
    found = _at(text, path)
    return _list([*found] if isinstance(found, dict) else [])


def _is_valid(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _failing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that also raises ValueError for arguments of a form it does not take."""

    @wraps(function)
    def called(*arguments: Any) -> Any:
        try:
            found = function(*arguments)
        except (LookupError, TypeError, RecursionError) as error:
            raise ValueError from error
        return found if not isinstance(found, str) or _is_text(found) else no_value()

    return called


def by_form(name: str, signature: str, function: Callable[..., Any]) -> None:
    """Define a function of values that fails, too, where an argument has another form."""
    by_value(name, signature, _failing(function))


# fmt: off
by_form("list:part", "string, int64, int64 -> string", _part)
by_form("list:steps", "string, int64, int64, int64 -> string?", _stepped)
by_form("list:length", "string -> int64?", lambda text: len(values_of(text)))
by_form("list:count", "string -> int64?",
    lambda text: sum(one is not None for one in values_of(text)))
by_form("list:unique", "string -> int64?",
    lambda text: len({shown_json(one) for one in values_of(text) if one is not None}))
by_form("list:position", "string, string -> int64?", _position)
by_form("list:contains", "string, string -> bool?",
    lambda text, value: json.loads(value, strict=False) in values_of(text))
by_form("list:any_in", "string, string -> bool?",
    lambda values, others: _all_in(values, others, False))
by_form("list:all_in", "string, string -> bool?",
    lambda values, others: _all_in(values, others, True))
by_form("list:distinct", "string -> string?", _distinct)
by_form("list:intersect", "string, string -> string?", _intersect)
by_form("list:where", "string, string -> string?", _where)
by_form("list:select", "string, string -> string?", _select)
by_form("list:resize", "string, int64, string -> string?", _resized)
by_form("list:zip", "string, int64 -> string?", _zipped)
by_form("list:sort", "string, string -> string?", _sorted)
by_form("list:reverse", "string -> string?", lambda text: _list(values_of(text)[::-1]))
by_form("list:fold", "string, string, string -> string?", _folded)
by_form("list:joined", "string, string -> string?", _joined)
by_form("list:concat", "string, string -> string", _both)
by_form("list:range", "int64, int64, int64 -> string?", _range)
by_form("list:split", "string, string -> string", _split)
by_form("list:split_by", "string, string -> string?", _split_by)
by_form("list:matches", "string, string, int64 -> string?", _matches)
by_form("list:of_key", "string, string -> string?", _of_key)
by_form("list:column", "string, int64 -> string?", _column)
by_form("list:pairs", "string, string -> string?", _pairs)
by_form("list:overlaid", "string, string -> string?", _overlaid)
by_form("list:flat", "string -> string?",
    lambda text: _list([value for one in values_of(text) for value in one or ()]))
by_form("string:word", "string, int64 -> string?", _word)
by_form("text:json_of_text", "string -> string", shown_json)
by_form("text:json_of_float", "float64 -> string", json_of_number)
by_form("string:quoted", "string -> string", _quoted)
by_form("string:place", "string, string -> int64?", lambda words, word: _words(words).index(word))
by_form("string:json", "string, string -> string?", _text_at)
by_form("json:at", "string, string -> string?", lambda text, path: json_of_number(_at(text, path)))
by_form("json:kind", "string, string -> string?", _kind_at)
by_form("json:length", "string, string -> int64?", _length_at)
by_form("json:keys", "string, string -> string?", _keys_at)
by_form("json:valid", "string -> bool", _is_valid)
# fmt: on
