"""Texts of lists, structs and maps as DuckDB reads them, and JSON: their values, which are texts.

    list:read['[a, "b c", NULL]', '["LIST", null]', 0] = '"a","b c",null'
    list:read['{a: 1}', '["STRUCT", {"a": null, "b": null}]', 0] = '"1",null'

A shape is null for a text, or says of what there are values: LIST, MAP (keys and values) or STRUCT.
"""

import json
import re
from typing import Any

from ivm.terms.lists import by_form, shown_json
from ivm.terms.operands import no_value

WHITE = " \t\n\r\v\f"
TOKEN = re.compile(r"""[ \t-\r]+|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\\["']|.""", re.DOTALL)
CLOSES = {"[": "]", "{": "}", "(": ")"}


def _split(text: str, brackets: str, between: str = "") -> list[str | None]:
    """Return the texts between commas within brackets, None for NULL; keys and values in turn where
    a sign is `between` these.  Raises ValueError.
    """
    text = text.strip(WHITE)
    if len(text) < 2 or text[0] + text[-1] != brackets:
        raise ValueError
    inner, texts, end = text[1:-1].strip(WHITE), list[str | None](), between or ","
    inner = inner.removesuffix(",") if brackets == "()" else inner
    parts, open_, blanks, plain = list[str](), list[str](), "", True
    for token in [*TOKEN.findall(inner), ","] if inner else ():
        if token in ('"', "'") or (
            token == brackets[1] and not open_ and (end == "," or not (texts or parts))
        ):
            raise ValueError
        if not open_ and token == end:
            whole = "".join(parts)
            texts.append(None if plain and whole.upper() == "NULL" else whole)
            end = between if end == "," and between else ","
            parts, blanks, plain = [], "", True
        elif not open_ and token.isspace():
            blanks = token if parts else ""
        else:
            if open_[-1:] == [token]:
                open_.pop()
            elif token in CLOSES:
                open_.append(CLOSES[token])
            elif not open_ and token[0] in "\"'\\" and token != "\\":
                plain = False
                token = re.sub(r"\\(.)", r"\1", token if token[0] == "\\" else token[1:-1])
            parts += [blanks, token]
            blanks = ""
    if parts or open_:
        raise ValueError
    return texts


def _pairs(text: str, between: str) -> dict[str | None, str | None]:
    texts = _split(text, "{}", between)
    pairs = dict(zip(texts[::2], texts[1::2], strict=True))
    if None in pairs or len(pairs) * 2 < len(texts):
        raise ValueError
    return pairs


def _read(text: str | None, shape: Any, tried: bool) -> Any:
    if text is None or shape is None:
        return text
    try:
        return _values(text, shape, tried)
    except ValueError:
        return None if tried else no_value()


def _values(text: str, shape: Any, tried: bool) -> list[Any]:
    kind, of, *values = shape
    if kind == "LIST":
        return [_read(item, of, tried) for item in _split(text, "[]")]
    if kind == "MAP":
        return [
            [_read(k, of, tried), _read(v, values[0], tried)] for k, v in _pairs(text, "=").items()
        ]
    if text.lstrip(WHITE).startswith("("):
        of = dict(enumerate(of.values()))
    given: dict[Any, Any] = dict(enumerate(_split(text, "()"))) if 0 in of else _pairs(text, ":")
    if given.keys() - of.keys():
        raise ValueError
    return [_read(given.get(name), inner, tried) for name, inner in of.items()]


def _of_json(value: Any, shape: Any) -> Any:
    if value is None or shape is None:
        return value if value is None or isinstance(value, str) else shown_json(value)
    kind, of, *values = shape
    if isinstance(value, list) and kind == "LIST":
        return [_of_json(item, of) for item in value]
    if not isinstance(value, dict) or kind == "LIST":
        raise ValueError
    if kind == "MAP":
        return [[name, _of_json(item, values[0])] for name, item in value.items()]
    return [_of_json(value.get(name), inner) for name, inner in of.items()]


# fmt: off
by_form("list:read", "string, string, int64 -> string?",
    lambda text, shape, tried: shown_json(_values(text, json.loads(shape), bool(tried)))[1:-1])
by_form("list:of_json", "string, string -> string?",
    lambda text, shape: no_value() if text.strip(WHITE) == "null"
    else shown_json(_of_json(json.loads(text), json.loads(shape)))[1:-1])
# fmt: on
