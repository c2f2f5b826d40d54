"""Functions of texts over batches, by code points: each is computed once for each distinct combination of arguments.

    string:upper["ß"] = "ẞ"     string:regexp_full_match["ab", "a.*"] = true     match["a.*", "ab"] = true

Regular expressions are those of RE2, whose time is linear in the text.
"""

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ivm.plan.operands import Operands, Result, by_text, shown, text_of

if TYPE_CHECKING:
    import pyarrow as pa


def _by_columns(name: str) -> Callable[[Operands], Result]:
    """Return a function of one text that pyarrow.compute computes, for columns of texts."""

    def computed(x: Operands) -> Result:
        import pyarrow.compute as pc

        if not x.n:
            return np.zeros(0, np.int64), x.none()
        distinct, inverse = np.unique(x.words[0], return_inverse=True)
        found = getattr(pc, name)(x._replace(words=[distinct]).texts(0))
        return x.encode.words(x.gives, found)[inverse], x.none()

    return computed


def _by_pattern(compute: Callable[..., "pa.Array"], place: int, lenient: bool = False) -> Callable[[Operands], Result]:
    """Return a function that is computed for each distinct pattern, the argument in a place, over columns of texts.

    It fails where the pattern is not a regular expression, or, if it is `lenient`, is false.
    """

    def computed(x: Operands) -> Result:
        import pyarrow as pa

        words, fails = np.zeros(x.n, np.int64), x.none()
        constants = [place, *range(2, len(x.words))]
        keys = np.stack([x.words[n] for n in constants])
        patterns, inverse = np.unique(keys, axis=1, return_inverse=True)
        values = [x._replace(words=[row]).values(0) for row in patterns]
        for number, given in enumerate(zip(*values, strict=True)):
            which = inverse.reshape(-1) == number
            distinct, back = np.unique(x.words[1 - place][which], return_inverse=True)
            try:
                found = compute(x._replace(words=[distinct]).texts(0), *map(_text, given))
                words[which] = x.encode.words(x.gives, found)[back]
            except pa.ArrowInvalid:
                fails |= which
        return words, fails & (not lenient)

    return computed


def _text(value: Any) -> str:
    return text_of(value) if isinstance(value, bytes) else str(value)


def _finds(texts: "pa.Array", pattern: str) -> "pa.Array":
    import pyarrow.compute as pc

    return pc.match_substring_regex(texts, pattern)


def _matches(texts: "pa.Array", pattern: str) -> "pa.Array":
    _finds(texts[:1], pattern)  # which refuses `)(`
    return _finds(texts, rf"\A(?:{pattern})\z")


def _replaced(texts: "pa.Array", pattern: str, new: str) -> "pa.Array":
    import pyarrow.compute as pc

    return pc.replace_substring_regex(texts, pattern, new)


def _substring(text: str, start: int, length: int | None = None) -> str:
    """Return a part of a text, counted from 1, or from its end if `start` is negative."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    if start == 0 and length is not None:
        length -= 1
    if length is None:
        return text[max(0, begin) :]
    if length < 0:
        begin, length = begin + length, -length
    return text[max(0, begin) : max(0, begin + length)]


def _right(text: str, count: int) -> str:
    return text[max(0, len(text) - count) :] if count >= 0 else text[-count:]


def _pad(text: str, count: int, filling: str, left: bool) -> str:
    if count <= len(text):
        return text[: max(0, count)]
    if not filling:
        raise ValueError
    more = (filling * count)[: count - len(text)]
    return more + text if left else text + more


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


@lru_cache(maxsize=256)
def _pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile("".join({"%": ".*", "_": "."}.get(c) or re.escape(c) for c in pattern), re.DOTALL | flags)


def _split_part(text: str, separator: str, number: int) -> str:
    """Return the part of a text with a number from 1, or from the end below 0; empty if it has fewer."""
    parts = text.split(separator) if separator else [text]
    if not number:
        raise ValueError
    return parts[number - 1 if number > 0 else number] if -len(parts) <= number <= len(parts) else ""


def _refused() -> str:
    raise ValueError


def _part_from(text: str, start: int, count: int) -> str:
    """Return a part of a text as Souffle does, counted from 0; empty where it does not begin inside."""
    return text[start : start + count] if start >= 0 and count > 0 else ""


def _formatted(template: str, *values: Any) -> str:
    """Return a text with each `{}` replaced by a value, and each `{:...}` by one in that format.

    Raises ValueError unless there are as many.
    """
    parts = re.split(r"(\{\{|\}\}|\{(?::[^{}]+)?\})", template)
    marks = [part for part in parts[1::2] if part not in ("{{", "}}")]
    if len(marks) != len(values) or any("{" in part or "}" in part for part in parts[::2]):
        raise ValueError
    left = iter(values)
    return "".join(part[:1] if part in ("{{", "}}") else _marked(part, next(left)) if place % 2 else part
                   for place, part in enumerate(parts))  # fmt: skip


def _marked(mark: str, value: Any) -> str:
    return shown(value) if mark == "{}" else format(float(value) if isinstance(value, Decimal) else value, mark[2:-1])


def _without_accents(text: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))


VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|[^,]+')  # of a list that is kept as JSON without brackets


def _part_of_list(values: str, first: int, last: int) -> str:
    """Return some values of a list, those from one place to another, counted from 1, or from -1 backwards."""
    found = VALUE.findall(values)
    begin, end = (place + len(found) + 1 if place < 0 else place for place in (first, last))
    return ",".join(found[max(0, begin - 1) : max(0, end)])


def _json(text: str, path: str) -> str:
    """Return the value at a path in JSON, a text as it is and others as JSON.  Raises ValueError if it has none."""
    found = json.loads(text)
    for key in re.findall(r'\.("(?:[^"\\]|\\.)*"|[^.\[]+)|\[(-?\d+)\]', path.removeprefix("$")):
        name = json.loads(key[0]) if key[0].startswith('"') else key[0]
        try:
            found = found[int(key[1])] if isinstance(found, list) and key[1] else found[name]
        except (KeyError, IndexError, TypeError):
            found = None
    if found is None:
        raise ValueError
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _hash(value: Any) -> int:
    return int.from_bytes(hashlib.blake2b(shown(value).encode(), digest_size=8).digest(), "big", signed=True)


CALLED: dict[str, Callable[..., Any]] = {
    "string:trim": lambda text, letters=" ": text.strip(letters),
    "string:ltrim": lambda text, letters=" ": text.lstrip(letters),
    "string:rtrim": lambda text, letters=" ": text.rstrip(letters),
    "string:concat": lambda *texts: "".join(texts),
    "string:substring": _substring,
    "string:left": lambda text, count: text[:count],
    "string:right": _right,
    "string:lpad": lambda text, count, filling: _pad(text, count, filling, True),
    "string:rpad": lambda text, count, filling: _pad(text, count, filling, False),
    "string:replace": _replace,
    "string:repeat": lambda text, count: text * max(0, count),
    "string:position": lambda text, part: text.find(part) + 1,
    "string:starts_with": str.startswith,
    "string:ends_with": str.endswith,
    "string:contains": lambda text, part: part in text,
    "string:like": lambda text, pattern: _pattern(pattern).fullmatch(text) is not None,
    "string:ilike": lambda text, pattern: _pattern(pattern, re.IGNORECASE).fullmatch(text) is not None,
    "string:parts": lambda text, separator: text.count(separator) + 1 if separator else 1,
    "string:split_part": _split_part,
    "string:ord": lambda text: ord(text[:1] or _refused()),
    "string:chr": lambda code: chr(code).encode().decode(),
    "string:sha256": lambda text: hashlib.sha256(text.encode()).hexdigest(),
    "string:md5": lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
    "substr": _part_from,
    "string:format": _formatted,
    "hash": _hash,
    "string:single": lambda value: str(
        float(str(np.float32(value)))
    ),  # as short as tells it from other floats of 32 bits
    "string:bytes": lambda text: len(text.encode()),
    "string:strip_accents": _without_accents,
    "string:json": _json,
    "list:part": _part_of_list,
}
TEXT_FUNCTIONS: dict[str, Callable[[Operands], Result]] = {
    **{name: partial(by_text, function) for name, function in CALLED.items()},
    "string:length": _by_columns("utf8_length"),
    "string:lower": _by_columns("utf8_lower"),
    "string:upper": _by_columns("utf8_upper"),
    "string:reverse": _by_columns("utf8_reverse"),
    "string:regexp_matches": _by_pattern(_finds, 1),
    "string:regexp_full_match": _by_pattern(_matches, 1),
    "string:regexp_replace": _by_pattern(_replaced, 1),
    "match": _by_pattern(_matches, 0, lenient=True),
}
