"""Functions of texts over batches, by code points: each is computed once for each distinct
combination of arguments.

    string:upper["ß"] = "ẞ"     string:regexp_full_match["ab", "a.*"] = true     match["a.*", "ab"] = true

Regular expressions are those of RE2, whose time is linear in the text.
"""

import base64
import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from operator import ne
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np

from ivm.lang.functions import define
from ivm.lang.ir import Const, Term
from ivm.terms import operands
from ivm.terms.letters import letters, split
from pagestore.host import numbers_of, of_numbers, of_texts

if TYPE_CHECKING:
    import pyarrow as pa

# characters to which format fills up a value, and digits that it shows after a point
SIZE_MAX = 10_000
FILLED = 1 << 20  # characters, up to which a text is filled up without failing


def _by_columns(name: str) -> Callable[[operands.Operands], operands.Result]:
    """Return a function of one text that pyarrow.compute computes, for columns of texts."""

    def computed(x: operands.Operands) -> operands.Result:
        import pyarrow.compute as pc

        return x.encode.words(x.gives, getattr(pc, name)(x.texts(0))), x.none()

    return partial(operands.over_distinct, computed)


def _by_pattern(
    compute: Callable[..., "pa.Array"], place: int, lenient: bool = False
) -> Callable[[operands.Operands], operands.Result]:
    """Return a function that is computed for each distinct pattern, the argument in a place, over
    columns of texts.

    It fails where the pattern is not a regular expression, or, if it is `lenient`, is false.
    """

    def computed(x: operands.Operands) -> operands.Result:
        import pyarrow as pa

        words, fails = np.zeros(x.n, np.int64), x.none()
        constants = [place, *range(2, len(x.words))]
        patterns, places = operands.distinct_rows([x.words[n] for n in constants])
        values = [x._replace(words=[row]).values(0) for row in patterns]
        # those of each pattern, one after the other
        rows = np.argsort(places, kind="stable")
        parts = np.split(rows, np.cumsum(np.bincount(places))[:-1])
        for which, given in zip(parts, zip(*values, strict=True), strict=True):
            texts = x._replace(words=[x.words[1 - place][which]]).texts(0)
            try:
                words[which] = x.encode.words(x.gives, compute(texts, *map(_text, given)))
            except pa.ArrowInvalid:
                fails[which] = True
        return words, fails & (not lenient)

    return partial(operands.over_distinct, computed)


def _text(value: Any) -> str:
    return operands.text_of(value) if isinstance(value, bytes) else str(value)


def _finds(texts: "pa.Array", pattern: str) -> "pa.Array":
    import pyarrow.compute as pc

    return pc.match_substring_regex(texts, pattern)


def _matches(texts: "pa.Array", pattern: str) -> "pa.Array":
    _finds(texts[:1], pattern)  # which refuses `)(`
    return _finds(texts, rf"\A(?:{pattern})\z")


def _is_like(texts: "pa.Array", pattern: str, ignore_case: bool = False) -> "pa.Array":
    """Return where texts are like a pattern, in which `\\` is a letter as any other."""
    import pyarrow.compute as pc

    if not ignore_case and not {*"%_"} & {*pattern}:
        return pc.equal(texts, of_texts([pattern])[0])  # however long it is
    if "\\" in pattern:  # of which Arrow takes two where the rest is a prefix, an end or a part
        parts = ({"%": ".*", "_": "."}.get(one) or re.escape(one) for one in pattern)
        return _finds(texts, rf"\A(?{'i' * ignore_case}s:{''.join(parts)})\z")
    return pc.match_like(texts, pattern, ignore_case=ignore_case)


def _replaced(texts: "pa.Array", pattern: str, new: str) -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    long = numbers_of(pc.binary_length(texts).cast(pa.int64()), np.int64) > operands.LONG
    for text in texts.filter(of_numbers(pa.bool_(), long)):
        found = pc.count_substring_regex(text, pattern).as_py()
        most = len(text.as_py()) * (1 + new.count("\\"))  # which inserts parts of what is found
        operands.fitting(most + found * len(new))
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


def _substrings(texts: "pa.Array", start: int, length: int | None = None) -> "pa.Array | None":
    """Return parts of texts, as `_substring` does, if they are counted from the begin."""
    import pyarrow.compute as pc

    if start < 1 or (length is not None and length < 0):
        return None
    return pc.utf8_slice_codeunits(texts, start - 1, None if length is None else start - 1 + length)


def _of_arrow(name: str) -> Callable[..., "pa.Array"]:
    """Return a function of texts and a constant that pyarrow.compute computes."""

    def computed(texts: "pa.Array", constant: str = " ") -> "pa.Array":
        import pyarrow.compute as pc

        return getattr(pc, name)(texts, constant)

    return computed


def _right(text: str, count: int) -> str:
    return text[max(0, len(text) - count) :] if count >= 0 else text[-count:]


def _repeat(text: str, count: int) -> str:
    if len(text) * count > operands.LONGEST:
        operands.no_value()
    operands.fitting(len(text) * count)
    return text * max(0, count)


def _pad(text: str, count: int, filling: str, left: bool) -> str:
    if count <= len(text):
        return text[: max(0, count)]
    if not filling or count > operands.LONGEST:
        operands.no_value()
    operands.fitting(count)
    size = count - len(text)
    more = (filling * (size // len(filling) + 1))[:size]
    return more + text if left else text + more


def _replace(text: str, old: str, new: str) -> str:
    if not old:
        return text
    operands.fitting(len(text) + (len(new) - len(old)) * text.count(old) if len(new) > 1 else 0)
    return text.replace(old, new)


def _concat(*texts: str) -> str:
    operands.fitting(sum(map(len, texts)))
    return "".join(texts)


def _split_part(text: str, separator: str, number: int) -> str:
    """Return the part of a text with a number from 1, or from the end below 0; empty if it has
    no such part.
    """
    parts = split(text, separator)
    if number and -len(parts) <= number <= len(parts):
        return parts[number - 1 if number > 0 else number]
    return ""


def _part_from(text: str, start: int, count: int) -> str:
    """Return a part of a text as Souffle does, from 0 on; empty unless it begins inside."""
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
    return "".join(
        part[:1] if part in ("{{", "}}") else _marked(part, next(left)) if place % 2 else part
        for place, part in enumerate(parts)
    )


def _marked(mark: str, value: Any) -> str:
    if any(int(size[:10]) > SIZE_MAX for size in re.findall(r"\d+", mark)):
        operands.no_value()
    if mark == "{}":
        return operands.shown(value)
    return format(float(value) if isinstance(value, Decimal) else value, mark[2:-1])


def _reversed(text: str) -> str:
    return text[::-1] if text.isascii() else "".join(reversed(letters(text)))


def _without_accents(text: str) -> str:
    return "".join(
        letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter)
    )


def _distance(left: str, right: str, swaps: bool = False) -> int:
    """Return how many letters are to be put in, left out or replaced to make one text of another.

    If it `swaps`, two neighbours may also change places, at the cost of one.  O(letters * letters).
    """
    above: list[int] = [0] * (len(right) + 1)
    row: list[int] = [*range(len(right) + 1)]
    for n, letter in enumerate(left, 1):
        above, last, row = row, above, [n]
        for m, other in enumerate(right, 1):
            found = min(above[m] + 1, row[-1] + 1, above[m - 1] + (letter != other))
            if swaps and n > 1 and m > 1 and letter == right[m - 2] and left[n - 2] == other:
                found = min(found, last[m - 2] + 1)
            row.append(found)
    return row[-1]


def _elapsed(micros: int) -> str:
    """Return microseconds as SQL shows the time between two moments: `2 days 03:00:00.5`."""
    days, rest = divmod(abs(micros), 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    sign = "-" * (micros < 0)
    clock = (
        f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        + f".{fraction:06}".rstrip("0").rstrip(".")
    )
    date = f"{sign}{days} day{'s' * (days != 1)}" if days else ""
    return " ".join(one for one in (date, clock if rest or not days else "") if one)


def _hash(value: Any) -> int:
    return int.from_bytes(
        hashlib.blake2b(operands.shown(value).encode(), digest_size=8).digest(), "big", signed=True
    )


def _is_filled(args: Sequence[Term]) -> bool:
    """Return whether a text is filled up by one that is not empty, not to too many characters."""
    size, filling = args[1:]
    small = isinstance(size, Const) and isinstance(size.value, int) and size.value <= FILLED
    return small and isinstance(filling, Const) and bool(filling.value)


# fmt: off
operands.by_value("string:trim", "string, string? -> string", lambda text, letters=" ": text.strip(letters),
    _of_arrow("utf8_trim"), also="trim")
operands.by_value("string:ltrim", "string, string? -> string",
    lambda text, letters=" ": text.lstrip(letters), _of_arrow("utf8_ltrim"), also="ltrim")
operands.by_value("string:rtrim", "string, string? -> string",
    lambda text, letters=" ": text.rstrip(letters), _of_arrow("utf8_rtrim"), also="rtrim")
operands.by_value("string:concat", "string... -> string", _concat, also="concat cat")
operands.by_value("string:substring", "string, int64, int64? -> string", _substring, _substrings,
    also="substring", sql="substring substr")
operands.by_value("string:left", "string, int64 -> string", lambda text, count: text[:count],
    lambda texts, count: _substrings(texts, 1, count), sql="left")
operands.by_value("string:right", "string, int64 -> string", _right, sql="right")
operands.by_value("string:lpad", "string, int64, string -> string?",
    lambda text, count, filling: _pad(text, count, filling, True), sure=_is_filled)
operands.by_value("string:rpad", "string, int64, string -> string?",
    lambda text, count, filling: _pad(text, count, filling, False), sure=_is_filled)
operands.by_value("string:replace", "string, string, string -> string", _replace, also="replace",
    sql="replace")
operands.by_value("string:reverse", "string -> string", _reversed, also="reverse", sql="reverse")
operands.by_value("string:repeat", "string, int64 -> string?", _repeat, sql="repeat")
operands.by_value("string:position", "string, string -> int64", lambda text, part: text.find(part) + 1,
    also="position")
operands.by_value("string:starts_with", "string, string -> bool", str.startswith,
    _of_arrow("starts_with"), also="starts_with", sql="starts_with prefix")
operands.by_value("string:ends_with", "string, string -> bool", str.endswith, _of_arrow("ends_with"),
    also="ends_with", sql="ends_with suffix")
operands.by_value("string:contains", "string, string -> bool", lambda text, part: part in text,
    _of_arrow("match_substring"), also="contains", sql="contains")
operands.by_value("string:parts", "string, string -> int64",
    lambda text, separator: len(split(text, separator)))
operands.by_value("string:split_part", "string, string, int64 -> string", _split_part, also="split_part",
    sql="split_part")
operands.by_value("string:ord", "string -> int64?", lambda text: ord(text[:1] or operands.no_value()), also="ord")
operands.by_value("string:chr", "int64 -> string?", lambda code: chr(code).encode().decode(), also="chr",
    sql="chr")
operands.by_value("string:sha256", "string -> string",
    lambda text: hashlib.sha256(text.encode()).hexdigest(), also="sha256")
operands.by_value("string:md5", "string -> string",
    lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), also="md5",
    sql="md5")
operands.by_value("substr", "string, int64, int64 -> string", _part_from)
operands.by_value("string:format", "string, any?... -> string?", _formatted, also="format")
operands.by_value("hash", "any -> int64", _hash, also="string:hash")
operands.by_value("string:single", "float64 -> string", lambda value: str(float(str(np.float32(value)))))
operands.by_value("string:elapsed", "int64 -> string", _elapsed)
operands.by_value("string:bytes", "string -> int64", lambda text: len(text.encode()), sql="strlen")
operands.by_value("string:strip_accents", "string -> string", _without_accents, sql="strip_accents")
operands.by_value("string:hex", "string -> string", lambda text: text.encode().hex().upper())
operands.by_value("string:bits", "string -> string",
    lambda text: "".join(f"{byte:08b}" for byte in text.encode()))
operands.by_value("string:digits", "int64, int64 -> string?",
    lambda number, base: format(number % 2**64, {2: "b", 16: "X"}.get(base) or operands.no_value() ),
    sure=lambda args: isinstance(args[1], Const) and args[1].value in (2, 16), sql="text_digits")
operands.by_value("string:sha1", "string -> string",
    lambda text: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), sql="sha1")
operands.by_value("string:base64", "string -> string", lambda text: base64.b64encode(text.encode()).decode())
operands.by_value("string:url_encode", "string -> string", lambda text: quote(text, safe="-_.~"),
    sql="url_encode")
operands.by_value("string:url_decode", "string -> string", unquote, sql="url_decode")
operands.by_value("string:levenshtein", "string, string -> int64", _distance, sql="levenshtein editdist3")
operands.by_value("string:damerau_levenshtein", "string, string -> int64",
    lambda a, b: _distance(a, b, swaps=True), sql="damerau_levenshtein")
operands.by_value("string:hamming", "string, string -> int64?",
    lambda a, b: sum(map(ne, a, b)) if 0 < len(a) == len(b) else operands.no_value(),
    sql="hamming mismatches")
operands.by_value("string:jaccard", "string, string -> float64?",
    lambda a, b: len({*a} & {*b}) / len({*a} | {*b}) if a and b else operands.no_value(), sql="jaccard")
define("string:length", "string -> int64", _by_columns("utf8_length"), also="length strlen")
define("string:lower", "string -> string", _by_columns("utf8_lower"), also="lower",
    sql="lower lcase")
define("string:upper", "string -> string", _by_columns("utf8_upper"), also="upper",
    sql="upper ucase")
define("string:like", "string, string -> bool", _by_pattern(_is_like, 1), also="like")
define("string:ilike", "string, string -> bool",
    _by_pattern(partial(_is_like, ignore_case=True), 1), also="ilike")
define("string:regexp_matches", "string, string -> bool?", _by_pattern(_finds, 1),
    also="regexp_matches")
define("string:regexp_full_match", "string, string -> bool?", _by_pattern(_matches, 1),
    also="regexp_full_match")
define("string:regexp_replace", "string, string, string -> string?", _by_pattern(_replaced, 1),
    also="regexp_replace")
define("match", "string, string -> bool", _by_pattern(_matches, 0, lenient=True))
# fmt: on
