"""What clients say of rows by COPY ... FROM STDIN and of cursors, in texts."""

import csv
import io
import re
from collections.abc import Iterator

from ivm.dbapi import DataError, ProgrammingError

NAME = r"\"[^\"]+\"|[\w.]+"
WAY = re.IGNORECASE | re.DOTALL
COPY_OUT = re.compile(
    rf"\s*copy\s+(?:\((?P<query>.+)\)|(?P<table>{NAME}))\s+to\s+stdout\s*(?P<how>.*?)\s*;?\s*", WAY
)
COPY_IN = re.compile(
    rf"\s*copy\s+(?P<table>{NAME})\s*(?:\((?P<columns>[^)]*)\))?\s+from\s+stdin\s*(?P<how>.*?)\s*;?\s*",
    WAY,
)
DECLARE = re.compile(
    rf"\s*declare\s+(?P<name>{NAME})\s+(?:(?:binary|insensitive|asensitive|no\s+scroll|scroll)\s+)*"
    r"cursor\s+(?:(?P<hold>with|without)\s+hold\s+)?for\s+(?P<query>.+)",
    WAY,
)
FETCH = re.compile(
    r"\s*(?P<word>fetch|move)\s+(?:(?:next|(?:forward\s+)?(?P<count>all|\d+)|forward)\s+)?"
    rf"(?:(?:from|in)\s+)?(?P<name>{NAME})\s*;?\s*",
    WAY,
)
CLOSE = re.compile(rf"\s*close\s+(?P<name>{NAME})\s*;?\s*", WAY)
SIGNS = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\b": "\b", "\\f": "\f", "\\v": "\v"}
OPTION = re.compile(r"\b(delimiter|null)\s+(?:as\s+)?e?'((?:[^']|'')*)'", WAY)


def lines_of(data: bytes, how: str) -> Iterator[list[str | None]]:
    """Yield the lines of data of COPY, as text or CSV, a list of texts each.  Raises DataError, and
    ProgrammingError for another form.
    """
    if re.search(r"\bbinary\b", how, re.IGNORECASE):
        raise ProgrammingError("COPY FROM STDIN is text or CSV: leave out BINARY")
    is_csv, skips = (re.search(rf"\b{word}\b", how, re.IGNORECASE) for word in ("csv", "header"))
    said = {word.lower(): SIGNS.get(sign, sign) for word, sign in OPTION.findall(how)}
    apart, null = said.get("delimiter", "," if is_csv else "\t"), said.get("null")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DataError("COPY FROM STDIN: the data is not UTF-8") from None
    if is_csv:
        lines: Iterator[list[str | None]] = _of_csv(text, apart, null or "")
    else:
        lines = _of_text(text, apart, null or "\\N")
    if skips:
        next(lines, None)
    yield from lines


def _of_text(text: str, apart: str, null: str) -> Iterator[list[str | None]]:
    def plain(escape: re.Match[str]) -> str:
        return SIGNS.get(escape[0], escape[1])

    for line in text.removesuffix("\n").split("\n") if text else ():
        if line == "\\.":
            return
        parts = line.removesuffix("\r").split(apart)
        yield [None if part == null else re.sub(r"\\(.)", plain, part) for part in parts]


def _of_csv(text: str, apart: str, null: str) -> Iterator[list[str | None]]:
    # what is quoted is a text, also if empty: a mark tells the two apart
    marked = re.sub(r'(^|[\n{}])""(?=[\n\r{}]|$)'.format(*[re.escape(apart)] * 2), r'\1"\0"', text)
    try:
        for line in csv.reader(io.StringIO(marked, newline=""), delimiter=apart):
            if line:
                yield [None if part == null else part.replace("\0", "") for part in line]
    except (csv.Error, TypeError) as error:
        raise DataError(f"COPY FROM STDIN: {error}") from None
