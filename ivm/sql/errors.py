"""Errors of SQL: a sentence with the line and the column of the statement."""

from difflib import get_close_matches
from re import fullmatch
from typing import Any

from sqlglot import exp

from ivm.errors import IvmError, Where

WORD = r"\w+(\.\w+)*"  # what needs no quotes as a name


class SqlError(IvmError, ValueError):
    """A statement that is wrong, or that is not evaluated."""

    def __init__(self, reason: str, node: Any = None) -> None:
        """`node` is the wrong part of the statement; its place becomes part of the message."""
        self.reason, self.place = reason, place_of(node)
        super().__init__(
            f"sql:{self.place[0]}:{self.place[1]}: {reason}" if self.place else f"sql: {reason}"
        )


class SqlSyntaxError(SqlError):
    """A text that does not parse: `lines` are the sentence, then the line with a caret below it."""

    def __init__(self, reason: str, place: tuple[int, int], text: str) -> None:
        """`text` is the line of the place, or empty."""
        super().__init__(reason)
        self.place = place
        where = Where("sql", *place)
        self.lines = where.with_caret(f"{where}: {reason}", text)
        self.args = ("\n  ".join(self.lines),)


class DuplicateError(SqlError):
    """A row with the key of another would be stored."""


class ParserError(IvmError, ImportError):
    """The installed parser of SQL is not one that is read here: install the release that it says."""


class SqlWarning(UserWarning):
    """What a statement asks for and is not done, or what keeping it costs."""


def place_of(node: Any) -> tuple[int, int] | None:
    """Return the line and column where a part of a statement begins; None if that is not known."""
    if node is None or isinstance(node, str):
        return None
    places = [
        (part.meta["line"], max(1, part.meta["col"] - (part.meta["end"] - part.meta["start"])))
        for part in node.walk()
        if "line" in part.meta
    ]
    return min(places, default=None)


def written(node: Any, dialect: str = "duckdb") -> str:
    """Return an expression as its statement has it, or as a dialect would write it."""
    shown = node.transform(
        lambda part: exp.Var(this=part.meta["written"]) if "written" in part.meta else part
    )
    return str(shown.sql(dialect=dialect))


def nearest(name: str, known: Any) -> str:
    """Return `: did you mean x?`, or a list of what exists; names that are no words are quoted."""
    lower = {
        one.lower(): one if fullmatch(WORD, one) else f'"{one}"' for one in dict.fromkeys(known)
    }
    names = list(lower.values())
    if close := get_close_matches(name.lower(), list(lower), 1, 0.6):
        return f": did you mean {lower[close[0]]}?"
    return f"; there is {', '.join(names[:12])}" if names else ""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "column"), counted(2, "value")
    ('1 column', '2 values')
    """
    return f"{number} {noun}{'s' * (number != 1)}"
