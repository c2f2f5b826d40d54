"""Texts as values of other types, as DuckDB reads them: for columns and for constants.

    whole("0x1F") = 31     number("1_0.5") = 10.5     day("2024/1/5")     moment("2024-01-05T10:00Z")     truth("Yes")

Each raises ValueError, or InvalidOperation, for a text that shows no value of its type. Digits are
those of ASCII.
"""

import json
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

EXACT = Context(prec=400)  # digits: more than a product has, or a float
BLANKS = " \t\n\v\f\r"
TRUTHS = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True), **dict.fromkeys(("false", "f", "no", "n",
    "0"), False),
}  # fmt: skip
_DIGITS = "[0-9]+(?:_[0-9]+)*"
_NUMBER = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_BASED = re.compile(r"0[xX][0-9a-fA-F]+(?:_[0-9a-fA-F]+)*|0[bB][01]+(?:_[01]+)*")
_NO_NUMBER = re.compile("[+-]?(?:nan|inf|infinity)", re.IGNORECASE)
_UUID = re.compile(
    r"[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){6}|\{[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{4}){6}\}"
)
_DATE = r"(\d+)([-/ \\])(\d\d?)\2(\d\d?)"
_CLOCK = r"(\d+):(\d\d?)(?::(?:(\d\d?)(?:\.(\d*))?)?)?"
_OFFSET = r"[+-]\d\d(?::?\d\d(?::?\d\d)?)?"
_DAY = re.compile(_DATE, re.ASCII)
_TIME = re.compile(rf"(\d+):(\d\d?)(?::(?:(\d\d?)(?:\.(\d*))?(?: ?(?:Z|{_OFFSET}))?)?)?", re.ASCII)
_MOMENT = re.compile(rf"\s*{_DATE}(?:[T\s]\s*{_CLOCK}(Z|{_OFFSET}| [\w/+-]+)?\s*)?", re.ASCII)


def whole(text: str) -> int:
    """Return a whole number; one with a fraction is rounded, halves away from zero."""
    if _BASED.fullmatch(text):
        return int(text, 0)
    return int(exact(text).quantize(Decimal(1), ROUND_HALF_UP, EXACT))


def exact(text: str) -> Decimal:
    """Return the decimal that a text shows."""
    text = text.strip(BLANKS)
    if not _NUMBER.fullmatch(text):
        raise ValueError
    return Decimal(text.replace("_", ""))


def number(text: str) -> float:
    """Return the float that a text shows, which may be `inf` or `nan`."""
    text = text.strip(BLANKS)
    if not _NUMBER.fullmatch(text) and not _NO_NUMBER.fullmatch(text):
        raise ValueError
    return float(text.replace("_", ""))


def truth(text: str) -> bool:
    """Return a truth value."""
    if (found := TRUTHS.get(text.lower())) is None:
        raise ValueError
    return found


def day(text: str) -> date:
    """Return a date; that of a moment, whatever its offset."""
    if text.strip(BLANKS).lower() == "epoch":
        return date(1970, 1, 1)
    found = _DAY.fullmatch(text.strip(BLANKS)) or _matched(text)[0]
    return _date(found)


def moment(text: str) -> datetime:
    """Return a moment without a zone: an offset or the name of a zone after it is not looked at."""
    return _moment(text)[0]


def zoned(text: str) -> datetime:
    """Return a moment in UTC; one without a zone is in UTC."""
    found, zone = _moment(text)
    if zone.startswith(" ") and zone[1:].upper() not in ("Z", "UTC"):
        if (place := _zones().get(zone[1:].lower())) is None:
            raise ValueError
        inside = found.replace(tzinfo=ZoneInfo(place))
        shifts = [inside.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1)]
        # of an hour that a zone has twice, the later one
        return (found - min(shifts)).replace(tzinfo=UTC)
    if zone[:1] in ("+", "-"):
        digits = zone[1:].replace(":", "").ljust(6, "0")
        hours, minutes, seconds = (int(digits[n : n + 2]) for n in (0, 2, 4))
        shift = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        found = found - shift if zone[0] == "+" else found + shift
    return found.replace(tzinfo=UTC)


def clock(text: str) -> time:
    """Return a time of day; that of a moment, whatever its offset."""
    if match := _TIME.fullmatch(text.strip(BLANKS)):
        after, hours = _clock(match.groups())
        if after:
            raise ValueError
        return hours
    return moment(text).time()


def identifier(text: str) -> str:
    """Return a UUID in its usual form."""
    if not _UUID.fullmatch(text):
        raise ValueError
    digits = re.sub("[{}-]", "", text).lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def json_text(text: str) -> str:
    """Return a text if it is JSON."""
    try:
        value = json.loads(text, parse_int=str, parse_float=str)
    except RecursionError:
        raise ValueError from None
    # one half of a surrogate pair has no form in UTF-8
    json.dumps(value, ensure_ascii=False).encode()
    return text


@lru_cache(1)
def _zones() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones()}


def _date(found: re.Match[str]) -> date:
    year, month, number = (int(found[place]) for place in (1, 3, 4))
    return date(year, month, number)


def _matched(text: str) -> tuple[re.Match[str], bool, time]:
    """Return the parts of a moment, whether its time is 24:00:00, and the time."""
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise ValueError
    after, hours = _clock(match.groups()[4:8]) if match[5] else (False, time())
    return match, after, hours


def _moment(text: str) -> tuple[datetime, str]:
    """Return a moment, and the offset or the name of a zone after it, as it is written."""
    if text.strip(BLANKS).lower() == "epoch":
        return datetime(1970, 1, 1), ""
    found, after, hours = _matched(text)
    return datetime.combine(_date(found), hours) + timedelta(days=after), found[9] or ""


def _clock(parts: tuple[str | None, ...]) -> tuple[bool, time]:
    """Return whether a time is 24:00:00, and the time of day; digits after those of microseconds
    are left out.
    """
    hour, minute, second = (int(part or 0) for part in parts[:3])
    micros = int((parts[3] or "").ljust(6, "0")[:6])
    after = hour == 24
    if after and (minute or second or micros):
        raise ValueError
    return after, time(0 if after else hour, minute, second, micros)
