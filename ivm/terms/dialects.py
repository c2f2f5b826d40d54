"""Functions of Spark, PostgreSQL and SQLite that DuckDB has none for, by Python value by value."""

from __future__ import annotations

import hashlib
import math
import re
import zlib
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from ivm.terms.operands import by_value, no_value

EPOCH = datetime(1970, 1, 1)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November",
          "December")  # fmt: skip

# -- numbers as texts


def java_number(value: float) -> str:
    """Return a double as Java shows it.

    >>> [java_number(one) for one in (2.5, 1e7, 123456789.0, 0.0001, float("nan"), -float("inf"))]
    ['2.5', '1.0E7', '1.23456789E8', '1.0E-4', 'NaN', '-Infinity']
    """
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        shown = f"{Decimal(repr(value)):f}"
        return shown if "." in shown else f"{shown}.0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    return f"{'-' * sign}{first}.{''.join(rest) or '0'}E{len(rest) + int(exponent)}"


def sqlite_number(value: float) -> str:
    """Return a double as SQLite shows it, by 15 digits.

    >>> [sqlite_number(one) for one in (2.0, 1e15, 0.1 + 0.2, 1e-5)]
    ['2.0', '1.0e+15', '0.3', '1.0e-05']
    """
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    shown = f"{value:.15g}"
    head, mark, exponent = shown.partition("e")
    return f"{head if '.' in head else head + '.0'}{mark}{exponent}"


def sqlite_decimal(value: Decimal) -> str:
    """Return a number of a DECIMAL column as SQLite shows it, which keeps a whole one as such.

    >>> [sqlite_decimal(Decimal(one)) for one in ("2.50", "0.00")]
    ['2.5', '0']
    """
    return str(int(value)) if value == int(value) else sqlite_number(float(value))


def _grouped(value: Any, digits: int) -> str:
    """Return a number with commas between thousands, as format_number of Spark."""
    exact = value if isinstance(value, Decimal) else Decimal(repr(value))
    if digits < 0:
        no_value()
    return f"{exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN):,f}"


def _half_even(value: float, digits: int, rounding: str = ROUND_HALF_EVEN) -> float:
    if digits >= 0 and not abs(value) < 2**52:  # it has no fraction
        return value
    return float(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), rounding))


def _half_up(value: float, digits: int) -> float:
    return _half_even(value, digits, ROUND_HALF_UP)


# -- texts


def _substring(text: str, start: int, length: int) -> str:
    """Count from 1, or from the end; what begins before the text counts as part of it; 0 is 1."""
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(begin, 0) : max(begin + length, 0)]


def _sqlite_substring(text: str, start: int, length: int) -> str:
    """Count from 1, or from the end; a negative length takes what is before; place 0 is one
    before the text.
    """
    start = (start + 2**31) % 2**32 - 2**31  # of 32 bits
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else -1
    if length < 0:
        begin, length = begin + length, -length
    return text[max(begin, 0) : max(begin + length, 0)]


def _postgres_substring(text: str, start: int, length: int) -> str:
    """Count from 1; what is before the text counts as part of it."""
    return text[max(start - 1, 0) : max(start - 1 + length, 0)]


def _parts_before(text: str, separator: str, count: int) -> str:
    """substring_index: what is before so many separators, or after so many from the end."""
    if not separator or not count:
        return ""
    parts = text.split(separator)
    return separator.join(parts[:count] if count > 0 else parts[count:])


def _capital(text: str) -> str:
    """Spark's initcap: words are what blanks separate."""
    return " ".join(word[:1].title() + word[1:].lower() for word in text.split(" "))


def _capital_words(text: str) -> str:
    """PostgreSQL's initcap: words are letters and digits."""
    return re.sub(
        r"[^\W_]+", lambda found: _upper_letters(found[0][:1]) + found[0][1:].lower(), text
    )


def _upper_letters(text: str) -> str:
    """PostgreSQL's upper: a letter whose capital would be several stays as it is."""
    return "".join(one.upper() if len(one.upper()) == 1 else one for one in text)


def _translated(text: str, old: str, new: str) -> str:
    table = {ord(letter): new[n : n + 1] or None for n, letter in reversed([*enumerate(old)])}
    return text.translate(table)


def _padded(text: str, size: int, filling: str, left: bool) -> str:
    size = max(size, 0)
    if size > 1 << 20:
        no_value()
    more = (filling * (size // len(filling) + 1))[: max(size - len(text), 0)] if filling else ""
    return (more + text if left else text + more)[:size] if filling or len(text) > size else text


def _digits(text: str, old: int, new: int) -> str:
    """conv: a number of one base in another, as 64 bits, unsigned unless the base is negative."""
    match = re.match(r"\s*(-?)([0-9A-Za-z]*)", text)
    letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: abs(old)]
    if match is None or not (2 <= old <= 36 and 2 <= abs(new) <= 36):
        no_value()
    number = 0
    for letter in match[2].upper() if match else "":
        if letter not in letters:
            break
        number = number * old + letters.index(letter)
    number = -number if match and match[1] else number
    if abs(number) >= 2**64:
        no_value()
    number, shown = number if new < 0 else number % 2**64, ""
    sign, number = "-" * (number < 0), abs(number)
    while number:
        number, rest = divmod(number, abs(new))
        shown = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[rest] + shown
    return sign + (shown or "0")


def _soundex(text: str) -> str:
    codes = {
        letter: code
        for code, letters in enumerate(("BFPV", "CGJKQSXZ", "DT", "L", "MN", "R"), 1)
        for letter in letters
    }
    if not text or not (text[0].isascii() and text[0].isalpha()):
        return text
    last, found = codes.get(text[0].upper(), 0), text[0].upper()
    for letter in text[1:]:
        if not (letter.isascii() and letter.isalpha()):
            last = 0
            continue
        letter = letter.upper()
        code = codes.get(letter, 0)
        if code and code != last:
            found += str(code)
        last = last if letter in "HW" else code
    return (found + "000")[:4]


def _placed(text: str, part: str, start: int) -> int:
    return (text.find(part, start - 1) + 1 if part else 1) if start > 0 else 0


def _marked(form: str, *values: Any) -> str:
    """format_string: %s, %d and %f with flags, as Java has them where C has the same; further
    values are left out.
    """
    places = [
        found[0] for found in re.finditer(r"%(?:%|[^%A-Za-z]*[A-Za-z])", form) if found[0] != "%%"
    ]
    try:
        return form % values[: len(places)]
    except (TypeError, ValueError):  # too few values, or of other kinds
        return no_value()  # type: ignore[no-any-return]


def _hidden(text: str) -> str:
    """Mask of Spark: letters are X and x, digits n."""
    return "".join(
        "X" if one.isupper() else "x" if one.islower() else "n" if one.isdigit() else one
        for one in text
    )


# -- casts


def _spark_whole(text: str) -> int:
    return int(text) if re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) else no_value()


def _spark_float(text: str) -> float:
    shown = text.strip()
    plain = re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?", shown)
    if plain is None and shown.lower().lstrip("+-") not in ("nan", "inf", "infinity"):
        no_value()
    return float(shown.rstrip("dDfF") if plain else shown)


def _spark_date(text: str) -> date:
    """Read a date: a year, perhaps a month and a day; what follows a T or a blank is left out."""
    match = re.fullmatch(
        r"([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T ].*)?)?)?", text.strip()
    )
    return date(int(match[1]), int(match[2] or 1), int(match[3] or 1)) if match else no_value()


def _spark_moment(text: str) -> datetime:
    match = re.fullmatch(
        r"([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[T "
        r"](?:([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})"
        r"(?:\.([0-9]{0,9}))?)?)?(Z|UTC|GMT|[+-][0-9]{1,2}(?::?[0-9]{2})?)?)?)?)?",
        text.strip(),
    )
    if match is None:
        return no_value()  # type: ignore[no-any-return]
    year, month, day, hour, minute, second = (int(match[n] or (n < 4)) for n in range(1, 7))
    moment = datetime(
        year, month, day, hour, minute, second, int((match[7] or "").ljust(6, "0")[:6])
    )
    zone = match[8] or "Z"
    if zone[0] in "+-":
        hours, minutes = re.fullmatch(r"([0-9]{1,2}):?([0-9]{2})?", zone[1:]).groups()  # type: ignore[union-attr]
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
        moment += -offset if zone[0] == "+" else offset
    return moment


def _sqlite_prefix(text: str) -> str:
    """Return the number with which a text begins; 0 if with none."""
    match = re.match(r"[ \t\n\r\f\v]*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)", text)
    return match[1] if match else "0"


def _sqlite_whole(text: str) -> int:
    match = re.match(r"[ \t\n\r\f\v]*([+-]?[0-9]+)", text)
    return min(max(int(match[1]), -(2**63)), 2**63 - 1) if match else 0


def _truth(text: str) -> bool:
    """Read a truth value as PostgreSQL does: by the first letters of its words, without blanks
    around them.
    """
    word = text.strip(" \t\n\r\f\v").lower()
    for value, words in ((True, ("true", "yes", "on", "1")), (False, ("false", "no", "off", "0"))):
        if word and any(one.startswith(word) and (len(word) > 1 or one[0] != "o") for one in words):
            return value
    return no_value()  # type: ignore[no-any-return]


# -- dates


def _months_between(later: datetime, earlier: datetime, rounded: bool) -> float:
    """months_between of Spark: months, and the rest by months of 31 days."""
    months = (later.year - earlier.year) * 12 + later.month - earlier.month
    ends = all((one + timedelta(days=1)).day == 1 for one in (later, earlier))
    if later.day == earlier.day or ends:
        return float(months)
    rest, other = (one.hour * 3600 + one.minute * 60 + one.second for one in (later, earlier))
    found = months + ((later.day - earlier.day) * 86400 + rest - other) / (31 * 86400)
    return round(found, 8) if rounded else found


# a quoted text, equal letters, or other signs
JAVA = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
JAVA_LETTERS = {  # how many of each letter may follow each other
    "y": (1, 2, 4), "u": (1, 2, 4), "M": (1, 2, 3, 4), "L": (1, 2), "d": (1, 2), "D": (1, 3),
    "E": (1, 2, 3, 4),
    "a": (1,),
    "H": (1, 2), "h": (1, 2), "k": (1, 2), "K": (1, 2), "m": (1, 2), "s": (1, 2), "S": (1, 2, 3, 4,
    5, 6),
    "Q": (1, 2, 3, 4), "q": (1, 2),
}  # fmt: skip


def java_pieces(form: str) -> list[tuple[str, int, str]] | None:
    """Return the pieces of a pattern of Java: a letter and its count, or a plain text; None for one
    that is not known.

    >>> java_pieces("yyyy-M 'at' HH")
    [('y', 4, ''), ('', 0, '-'), ('M', 1, ''), ('', 0, ' at '), ('H', 2, '')]
    """
    pieces: list[tuple[str, int, str]] = []
    place = 0
    for found in JAVA.finditer(form):
        if found.start() != place:
            return None
        place = found.end()
        letter = found[2]
        if letter and len(found[0]) not in JAVA_LETTERS.get(letter, ()):
            return None
        plain = "" if letter else (found[1] or "").replace("''", "'") or found[0]
        plain = "'" if plain == "''" else plain
        if plain and pieces and not pieces[-1][0]:
            pieces[-1] = ("", 0, pieces[-1][2] + plain)
        else:
            pieces.append((letter, len(found[0]), "") if letter else ("", 0, plain))
    return pieces if place == len(form) else None


def _java_shown(moment: datetime, form: str) -> str:
    pieces = java_pieces(form)
    return "".join(
        plain or _java_part(moment, letter, count) for letter, count, plain in pieces or no_value()
    )


def _java_part(moment: datetime, letter: str, count: int) -> str:
    quarter, half = (moment.month + 2) // 3, moment.hour % 12
    numbers = {"M": moment.month, "L": moment.month, "d": moment.day,
        "D": moment.timetuple().tm_yday, "H": moment.hour,
               "h": half or 12, "k": moment.hour or 24, "K": half, "m": moment.minute,
               "s": moment.second,
               "Q": quarter, "q": quarter}  # fmt: skip
    if letter in "yu":
        return f"{moment.year % 100:02d}" if count == 2 else f"{moment.year:0{count}d}"
    if letter == "S":
        return f"{moment.microsecond:06d}"[:count]
    if letter == "a":
        return "AM" if moment.hour < 12 else "PM"
    if letter == "E" or (letter == "M" and count > 2):
        name = DAYS[moment.weekday()] if letter == "E" else MONTHS[moment.month - 1]
        return name if count == 4 else name[:3]
    if letter == "Q" and count > 2:
        return (
            f"Q{quarter}" if count == 3 else f"{('1st', '2nd', '3rd', '4th')[quarter - 1]} quarter"
        )
    return f"{numbers[letter]:0{count}d}"


def _java_read(text: str, form: str) -> datetime:
    """Return the moment that a text has by a pattern of Java."""
    pieces, found, place = java_pieces(form) or no_value(), dict[str, int](), 0
    for n, (letter, count, plain) in enumerate(pieces):
        if plain:
            if not text.startswith(plain, place):
                no_value()
            place += len(plain)
            continue
        alone = n + 1 == len(pieces) or pieces[n + 1][2] != ""  # no number follows at once
        value, place = _java_value(text, place, letter, count, alone)
        found[letter] = value
    if place != len(text):
        no_value()
    hour = found.get("H", found.get("h", 0) % 12 + 12 * found.get("a", 0) if "h" in found else 0)
    year = found.get("y", found.get("u", 1970))
    minute, second, micro = (found.get(letter, 0) for letter in "msS")
    return datetime(year, found.get("M", 1), found.get("d", 1), hour, minute, second, micro)


def _java_value(text: str, place: int, letter: str, count: int, alone: bool) -> tuple[int, int]:
    """Return the value at a place of a text, and where it ends."""
    if letter in "EMa" and (letter in "Ea" or count > 2):
        names = ("AM", "PM") if letter == "a" else DAYS if letter == "E" else MONTHS
        for n, name in enumerate(names):
            shown = name if count == 4 or letter == "a" else name[:3]
            if text.startswith(shown, place):
                return n + (letter == "M"), place + len(shown)
        no_value()
    most = (
        count
        if not alone or letter == "S" or (letter in "yu" and count == 2)
        else max(count, 2 + 2 * (letter in "yu"))
    )
    least = count
    digits = re.compile(rf"[0-9]{{{least},{most}}}").match(text, place)
    if digits is None:
        no_value()
    number = int(digits[0]) if digits else 0
    if letter == "S":
        number = int((digits[0] if digits else "").ljust(6, "0"))
    if letter in "yu" and count == 2:
        number += 2000
    return number, place + len(digits[0] if digits else "")


NAMED = re.compile(
    r'"([^"]*)"|(FM)?(HH24|HH12|HH|MI|SS|MS|US|AM|PM|am|pm|YYYY|YYY|YY|Y|MONTH|Month|month|MON|Mon|mon'
    r'|MM|DAY|Day|day|DY|Dy|dy|DDD|DD|D|ID|IW|IYYY|WW|W|Q|CC|TZ)|([^A-Za-z"]+)'
)
NAMED_READ = ("YYYY", "YY", "MM", "MON", "Mon", "mon", "MONTH", "Month", "month", "DD", "HH24",
    "HH12", "HH", "MI",
              "SS",               "MS", "US", "AM", "PM", "am", "pm")  # fmt: skip


def named_pieces(form: str) -> list[tuple[str, bool, str]] | None:
    """Return the pieces of a pattern of PostgreSQL: a word and whether FM is before it, or a plain
    text.

    None for a pattern that is not known.


    >>> named_pieces('FMDD "of" Mon')
    [('DD', True, ''), ('', False, ' of '), ('Mon', False, '')]
    """
    pieces: list[tuple[str, bool, str]] = []
    place = 0
    for found in NAMED.finditer(form):
        if found.start() != place:
            return None
        place = found.end()
        plain = found[1] if found[1] is not None else found[4] or ""
        if not found[3] and pieces and not pieces[-1][0]:
            pieces[-1] = ("", False, pieces[-1][2] + plain)
        else:
            pieces.append((found[3] or "", found[2] is not None, plain))
    return pieces if place == len(form) else None


def _named_shown(moment: datetime, form: str) -> str:
    return "".join(
        _named_part(moment, word, bare) if word else plain
        for word, bare, plain in named_pieces(form) or no_value()
    )


def _named_part(moment: datetime, word: str, bare: bool) -> str:
    upper, (iso_year, iso_week, iso_day) = word.upper(), moment.isocalendar()
    if upper in ("MONTH", "MON", "DAY", "DY"):
        name = MONTHS[moment.month - 1] if upper[0] == "M" else DAYS[moment.weekday()]
        name = name[:3] if upper in ("MON", "DY") else name
        shown = name.upper() if word.isupper() else name.lower() if word.islower() else name
        return shown if bare or upper in ("MON", "DY") else shown.ljust(9)
    if upper in ("AM", "PM"):
        shown = "AM" if moment.hour < 12 else "PM"
        return shown if word.isupper() else shown.lower()
    year, micro, half = moment.year, moment.microsecond, moment.hour % 12 or 12
    year_day = moment.timetuple().tm_yday
    value, width = {
        "HH24": (moment.hour, 2), "HH12": (half, 2), "HH": (half, 2), "MI": (moment.minute, 2),
        "SS": (moment.second, 2), "MS": (micro // 1000, 3), "US": (micro, 6), "YYYY": (year, 4),
        "YYY": (year % 1000, 3), "YY": (year % 100, 2), "Y": (year % 10, 1), "MM": (moment.month, 2),
        "DDD": (year_day, 3), "DD": (moment.day, 2), "D": (moment.isoweekday() % 7 + 1, 1),
        "ID": (iso_day, 1), "IW": (iso_week, 2), "IYYY": (iso_year, 4),
        "WW": ((year_day - 1) // 7 + 1, 2), "W": ((moment.day - 1) // 7 + 1, 1),
        "Q": ((moment.month + 2) // 3, 1), "CC": ((year + 99) // 100, 2),
    }[upper]  # fmt: skip
    return str(value) if bare else f"{value:0{width}d}"


def _named_read(text: str, form: str) -> datetime:
    """Return the moment that a text has by a pattern of PostgreSQL, in which signs between words
    stand for any.
    """
    found, place, pieces = dict[str, int](), 0, named_pieces(form) or no_value()
    for n, (word, _, plain) in enumerate(pieces):
        if not word:
            skipped = re.compile(
                r"[^0-9A-Za-z+-]*[-+]?" if not plain.strip("-+") else r"[^0-9A-Za-z]*"
            ).match(text, place)
            place = skipped.end() if skipped else place
            continue
        place += len(text[place:]) - len(text[place:].lstrip())
        upper = word.upper()
        key = {
            "HH24": "hour", "HH12": "half", "HH": "half", "MI": "minute", "SS": "second",
            "MS": "milli", "US": "micro", "YYYY": "year", "YY": "year", "MM": "month",
            "MON": "month", "MONTH": "month", "DD": "day", "AM": "pm", "PM": "pm",
        }[upper]  # fmt: skip
        if upper in ("MON", "MONTH", "AM", "PM"):
            names = ("AM", "PM") if key == "pm" else MONTHS
            of = [name.upper()[: 3 if upper == "MON" else None] for name in names]
            at = next((k for k, name in enumerate(of) if text[place:].upper().startswith(name)), -1)
            if at < 0:
                no_value()
            found[key], place = at + (key == "month"), place + len(of[at])
            continue
        width = {"YYYY": 4, "MS": 3, "US": 6}.get(upper, 2)
        alone = n + 1 == len(pieces) or not pieces[n + 1][0]
        digits = re.compile(rf"[0-9]{{1,{width if not alone or upper != 'YYYY' else 7}}}").match(
            text, place
        )
        number = int(digits[0]) if digits else no_value()
        if upper == "YY":
            number += 2000 if number < 70 else 1900
        found[key], place = number, digits.end() if digits else place
    hour = found.get("hour", found.get("half", 0) % 12 + 12 * found.get("pm", 0))
    micro = found.get("micro", found.get("milli", 0) * 1000)
    year, month, day = (found.get(name, 1) for name in ("year", "month", "day"))
    return datetime(year, month, day, hour, found.get("minute", 0), found.get("second", 0), micro)


SQLITE_MODIFIER = re.compile(
    r"\s*([+-]?[0-9]+(?:\.[0-9]+)?) (second|minute|hour|day|month|year)s?\s*|start of "
    r"(day|month|year)|weekday ([0-6])",
    re.IGNORECASE,
)
SQLITE_MOMENT = re.compile(
    r"(?=.)(?:([0-9]{4})-([0-9]{2})-([0-9]{2}))?(?:(?:^|[T ]+)([0-9]{2}):([0-9]{2})"
    r"(?::([0-9]{2})(?:\.([0-9]+))?)?\s*(?:Z|([+-])([0-9]{2}):([0-9]{2}))?)?\s*"
)
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
BEGIN = datetime(1, 1, 1)


def _sqlite_moment(text: str) -> datetime:
    """Read a moment as SQLite does: a date or moment, a time on 1 January 2000, or a Julian day."""
    if NUMBER.fullmatch(text.strip()):
        return _since(BEGIN, float(text) - 1721425.5)
    found = SQLITE_MOMENT.fullmatch(text) or no_value()
    year, month, day = (int(found[n] or usual) for n, usual in ((1, 2000), (2, 1), (3, 1)))
    hour, minute, second = (int(found[n] or 0) for n in (4, 5, 6))
    first = datetime(year, month, 1, hour, minute, second, int((found[7] or "").ljust(6, "0")[:6]))
    east = timedelta(hours=int(found[9] or 0), minutes=int(found[10] or 0))
    moved = first + timedelta(days=day - 1) + (east if found[8] == "-" else -east)
    return moved if 1 <= day <= 31 and int(found[9] or 0) < 15 else no_value()


def _since(begin: datetime, days: float) -> datetime:
    """Return the moment so many days after another, by milliseconds."""
    number = int(days * 86400000 + (0.5 if days > 0 else -0.5))
    if not (moment := begin + timedelta(milliseconds=number)) >= BEGIN:
        no_value()
    return moment


def _sqlite_modified(moment: datetime, modifier: str) -> datetime:
    found = SQLITE_MODIFIER.fullmatch(modifier.strip()) or no_value()
    if found[3]:
        start = {"hour": 0, "minute": 0, "second": 0, "microsecond": 0}
        more = {"day": {}, "month": {"day": 1}, "year": {"day": 1, "month": 1}}[found[3].lower()]
        return moment.replace(**start, **more)  # type: ignore[arg-type]
    if found[4]:
        return moment + timedelta(days=(int(found[4]) - moment.isoweekday() % 7) % 7)
    number, unit = Decimal(found[1]), found[2].lower()
    if unit in ("month", "year"):
        if number != int(number):
            no_value()
        year, month = divmod(
            moment.year * 12 + moment.month - 1 + int(number) * (12 if unit == "year" else 1), 12
        )
        return moment.replace(year=year, month=month + 1, day=1) + timedelta(days=moment.day - 1)
    return moment + timedelta(**{f"{unit}s": float(number)})


def _sqlite_date(text: str, form: str, *modifiers: str) -> str:
    first, *rest = modifiers or ("",)
    seconds = first.strip().lower() == "unixepoch"
    moment = _since(EPOCH, float(text) / 86400) if seconds else _sqlite_moment(text)
    for modifier in rest if seconds else modifiers:
        moment = _sqlite_modified(moment, modifier)
    julian = (moment - EPOCH) / timedelta(days=1) + 2440587.5
    plain = not modifiers and re.match(r"[0-9]{4}-[^Z+]*$", text) and text.count("-") == 2
    raw = {} if not plain else {"m": text.strip()[5:7], "d": text.strip()[8:10]}  # 2024-02-30 stays
    codes = {"d": f"{moment.day:02d}", "f": f"{moment.second + moment.microsecond / 1e6:06.3f}",
             "H": f"{moment.hour:02d}",
             "j": f"{moment.timetuple().tm_yday:03d}", "J": f"{julian:.16g}",
             "m": f"{moment.month:02d}",
             "M": f"{moment.minute:02d}", "s": str((moment - EPOCH) // timedelta(seconds=1)),
             "S": f"{moment.second:02d}", "w": str(moment.isoweekday() % 7),
             "Y": f"{moment.year:04d}", "%": "%",
             "W": moment.strftime("%W"), "F": moment.date().isoformat(),
             "T": moment.time().isoformat("seconds"),
             "R": moment.strftime("%H:%M")} | raw  # fmt: skip
    return re.sub("%(.)", lambda found: codes.get(found[1]) or no_value(), form, flags=re.DOTALL)


# fmt: off
by_value("spark:number", "float64 -> string?", java_number)
by_value("sqlite:number", "float64 -> string?", sqlite_number)
by_value("sqlite:decimal", "number -> string?", sqlite_decimal)
by_value("spark:upper", "string -> string?", str.upper)
by_value("postgres:upper", "string -> string?", _upper_letters)
by_value("sqlite:upper", "string -> string?",
    lambda text: re.sub("[a-z]+", lambda found: found[0].upper(), text))
by_value("sqlite:lower", "string -> string?",
    lambda text: re.sub("[A-Z]+", lambda found: found[0].lower(), text))
by_value("spark:format_number", "number, int64 -> string?", _grouped)
by_value("spark:bround", "float64, int64 -> float64?", _half_even)
by_value("spark:round", "float64, int64 -> float64?", _half_up)
by_value("spark:substring", "string, int64, int64 -> string?", _substring)
by_value("postgres:substring", "string, int64, int64 -> string?", _postgres_substring)
by_value("sqlite:substring", "string, int64, int64 -> string?", _sqlite_substring)
by_value("spark:substring_index", "string, string, int64 -> string?", _parts_before)
by_value("spark:initcap", "string -> string?", _capital)
by_value("postgres:initcap", "string -> string?", _capital_words)
by_value("text:translate", "string, string, string -> string?", _translated)
by_value("spark:lpad", "string, int64, string -> string?",
    lambda text, size, filling: _padded(text, size, filling, True))
by_value("spark:rpad", "string, int64, string -> string?",
    lambda text, size, filling: _padded(text, size, filling, False))
by_value("spark:conv", "string, int64, int64 -> string?", _digits)
by_value("spark:soundex", "string -> string?", _soundex)
by_value("spark:locate", "string, string, int64 -> int64?", _placed, sql="spark_locate -> INTEGER")
by_value("spark:format", "string, any?... -> string?", _marked)
by_value("spark:mask", "string -> string?", _hidden)
by_value("spark:crc32", "string -> int64?", lambda text: zlib.crc32(text.encode()))
by_value("spark:sha512", "string -> string?",
    lambda text: hashlib.sha512(text.encode()).hexdigest())
by_value("spark:sha384", "string -> string?",
    lambda text: hashlib.sha384(text.encode()).hexdigest())
by_value("spark:sha224", "string -> string?",
    lambda text: hashlib.sha224(text.encode()).hexdigest())
by_value("spark:url_encode", "string -> string?",
    lambda text: quote_plus(text, safe="*-._").replace("~", "%7E"))
by_value("spark:url_decode", "string -> string?", unquote_plus)
by_value("spark:whole", "string -> int64?", _spark_whole)
by_value("spark:float", "string -> float64?", _spark_float)
by_value("spark:date", "string -> date?", _spark_date)
by_value("spark:moment", "string -> timestamp?", _spark_moment)
by_value("sqlite:whole", "string -> int64?", _sqlite_whole)
by_value("sqlite:real", "string -> float64?", lambda text: float(_sqlite_prefix(text)))
by_value("postgres:truth", "string -> bool?", _truth)
by_value("spark:months_between", "timestamp, timestamp, bool -> float64?", _months_between)
by_value("spark:date_format", "timestamp, string -> string?", _java_shown)
by_value("spark:read_moment", "string, string -> timestamp?", _java_read)
by_value("postgres:to_char", "timestamp, string -> string?", _named_shown)
by_value("postgres:read_moment", "string, string -> timestamp?", _named_read)
by_value("sqlite:date", "string, string?... -> string?", _sqlite_date)
# fmt: on
