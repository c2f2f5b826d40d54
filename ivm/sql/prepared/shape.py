"""Texts of statements without the values in them, so that those that differ in these alone are one.

SELECT cents FROM total WHERE who = 'ada' AND n = ?
SELECT cents FROM total WHERE who = :given0 AND n = :given1      "ada", the first parameter

Of edits the values after a comma or a parenthesis are taken out, too: INSERT INTO t VALUES (1, 'a').
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

STATEMENT = re.compile(r"\s*(?:(?P<edit>insert|update|delete|merge)|select)\b", re.IGNORECASE)
# of questions, of edits
BEFORE_VALUES = {False: ("=", "<", ">", "between", "and"), True: ("=", "(", ",")}
TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<day>date\s*'[\d-]+')
    |(?P<moment>timestamp\s*'[\d :.-]+')
    |(?P<text>'(?:[^']|'')*')
    |(?P<number>\d+(?:\.\d+)?(?![\w.]))
    |\$(?P<numbered>\d+)
    |(?P<next>\?)
    |(?<!:):(?P<named>[^\W\d]\w*)
    |(?P<other>[^\W\d]\w*|"(?:[^"]|"")*"|`[^`]*`|::|->>?|=>|<<|>>|[\d.]+\w*|.)""",
    re.DOTALL | re.VERBOSE | re.IGNORECASE,
)
LENGTH_MOST = 4000  # of a text that is looked at
NAME = "given"  # of a value's place, before its number
UNREAD = ("\\", "$$")  # texts of which some dialects end elsewhere


class Given(NamedTuple):
    """Where a value comes from: a literal of the text, or the parameter of a name or number."""

    literal: Any = None
    parameter: int | str | None = None


class Shape(NamedTuple):
    """A text with a name in place of each value, and where these values come from."""

    text: str
    given: tuple[Given, ...]
    edits: bool
    counted: bool  # whether parameters are `?`, of which there are as many as values

    def values(self, parameters: Any) -> list[Any] | None:
        """Return the values of a statement; None if the parameters are not those of its text."""
        known = _by_name(parameters)
        places = {one.parameter for one in self.given} - {None}
        if known is None or not places <= known.keys():
            return None
        if self.counted and len(places) < len(known):
            return None
        return [
            one.literal if one.parameter is None else known[one.parameter] for one in self.given
        ]

    def all_values(self, parameters: list[Any]) -> list[Any] | None:
        """Return the values for each of many parameters; None as `values`."""
        places, types = [given.parameter for given in self.given], {*map(type, parameters)}
        plain = types == {dict} or types <= {list, tuple}
        if plain and None not in places and -1 not in places:
            whole = types != {dict} and {*map(len, parameters)} == {len(places)}
            if whole and places == [*range(len(places))]:
                return parameters
            if whole or not self.counted:
                try:
                    return [[row[place] for place in places] for row in parameters]
                except (LookupError, TypeError):
                    return None
        values = [*map(self.values, parameters)]
        return None if None in values else values


def _by_name(parameters: Any) -> dict[int | str, Any] | None:
    """Return parameters by number or name; None if they are not of the usual types."""
    if type(parameters) in (list, tuple):
        return dict(enumerate(parameters))
    return {} if parameters is None else parameters if type(parameters) is dict else None


def shape_of(text: str, with_moments: bool = True) -> Shape | None:
    """Return the shape of a text, perhaps without its dates and timestamps; None for one that is not
    looked at.
    """
    statement = STATEMENT.match(text)
    if len(text) > LENGTH_MOST or not statement or any(o in text for o in UNREAD):
        return None
    positions, edits = 0, statement["edit"] is not None
    parts, given, last = list[str](), list[Given](), ""
    for token in TOKEN.finditer(text):
        kind, word = token.lastgroup, token[0]
        value = None
        if kind == "next":
            value, positions = Given(parameter=positions), positions + 1
        elif kind == "named":
            value = Given(parameter=token[kind])
        elif kind == "numbered":
            value = Given(parameter=int(token[kind]) - 1)
        elif kind in LITERALS and last.lower() in BEFORE_VALUES[edits]:
            is_moment = kind in ("day", "moment")
            literal = LITERALS[kind](word) if with_moments or not is_moment else None
            value = None if literal is None else Given(literal)
        if value is not None:
            word = f":{NAME}{len(given)}"
            given.append(value)
        parts.append(word)
        last = last if kind == "space" else word
    return Shape("".join(parts), (*given,), edits, positions > 0)


def _text(word: str) -> str:
    return word[1:-1].replace("''", "'")


def _number(word: str) -> int | Decimal:
    return Decimal(word) if "." in word else int(word)


def _moment(kind: type[date], word: str) -> date | None:
    """Return DATE '2024-01-31' or TIMESTAMP '2024-01-31 12:00:00'; None if it is not written so."""
    (_, text, _) = word.split("'")
    try:
        moment = kind.fromisoformat(text)
    except ValueError:
        return None
    return moment if str(moment) == text else None


LITERALS: dict[str, Callable[[str], Any]] = {
    "text": _text, "number": _number, "day": partial(_moment, date),
    "moment": partial(_moment, datetime),
}  # fmt: skip


def number_of(name: str) -> int:
    """Return the number of a value by the name of its place."""
    return int(name[len(NAME) :])


PLAIN = {bool, int, float, str, bytes, Decimal, date, datetime, time, timedelta, type(None)}
LONG = 1 << 64  # Python does not write the digits of any integer


def written(values: Sequence[Any]) -> tuple[str, ...] | None:
    """Return values as Python writes them, which tells them apart; None if it does not tell all.

    >>> written([1, -0.0, "a"]), written([object()]), written([10**5000])
    (('1', '-0.0', "'a'"), None, None)
    """
    for value in values:
        if type(value) not in PLAIN or (type(value) is int and not -LONG < value < LONG):
            return None
    return tuple(map(repr, values))


def kinds(values: Sequence[Any]) -> tuple[type, ...]:
    """Return the types of values, by which a statement is translated."""
    return tuple(map(type, values))
