"""Convert texts to values of a type, exactly or not at all: those of CSV, and the numbers of JSON
as written.

    wanted       a text is                                     and is refused
    int64        7  -7  007  7.0  7e2                          7.5  0x1f  1_000
    float64      the nearest float  inf                        9007199254740993, which no float is;  1e999
    decimal      7  1.50  1.5e1                                1.239 in decimal(9,2)
    bool         true  false  1  0                             yes
    date         2020-01-31, also with its midnight            31.1.2020
    timestamp    2020-01-31 10:00[:00[.000000]], with a T      a seventh digit; an offset, unless a zone is wanted
    duration     2 days, 1:02:03.5  PT1H2M                     1h

A guessed type (`supposed`) takes a text only if it loses nothing as a value of the type: 007 is not
a number.
"""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SPAN = re.compile(r"(?:(-?\d{1,9}) days?,? ?)?(?:([-+]?)(\d{1,9}):(\d\d):(\d\d(?:\.\d{1,6})?))")
ISO_SPAN = re.compile(
    r"(-?)P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,6})?)S)?)?"
)
MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?(Z|[+-]\d\d(:?\d\d(:\d\d)?)?)"
)
DAY = re.compile(r"(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d\d)( \d{1,2}:\d\d(?::\d\d)?(?: [AP]M)?)?")
COMMA = re.compile(r"[-+]?(?:\d+|\d{1,3}([.' ])\d{3}(?:\1\d{3})*),\d+")
POINT = re.compile(r"[-+]?\d{1,3}(?:,\d{3})+(\.\d+)?")
IN_FRONT = r"^[+-]?0\d|^-0$|^\+"  # leading zeros and signs that a number would lose
FLOAT_DIGITS = 17  # that a float may need
PLACES_MAX = 400  # after the point, in a printed float
EXACT_FLOAT = 2.0**53  # beyond, not every whole number is a float


def typed(texts: pa.Array, kind: pa.DataType, supposed: bool = False) -> pa.Array:
    """Convert texts to values of a type. Raises pa.ArrowInvalid if one does not fit.

    >>> typed(pa.array([" 7", "7.0", "-007"]), pa.int64()).to_pylist()
    [7, 7, -7]
    """
    if pa.types.is_large_string(texts.type) or texts.type == pa.string_view():
        texts = texts.cast(pa.string())
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or not len(texts):
        return texts.cast(kind)
    texts = pc.utf8_trim_whitespace(texts)
    if supposed and _is_number(kind):
        _refuse(pc.match_substring_regex(texts, IN_FRONT), texts)
    if pa.types.is_integer(kind):
        return _integers(texts, kind, supposed)
    if pa.types.is_floating(kind):
        return _floats(texts, supposed)
    if supposed and pa.types.is_boolean(kind):
        _refuse(pc.match_substring_regex(texts, r"^\d"), texts)
    return _others(texts, kind)


def _others(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return _decimals(texts, kind)
    if pa.types.is_duration(kind):
        return pa.array([None if text is None else _span(text) for text in texts.to_pylist()], kind)
    if pa.types.is_time(kind):  # Arrow casts texts to timestamps only
        return (
            pc.binary_join_element_wise("1970-01-01", texts, " ")
            .cast(pa.timestamp("us"))
            .cast(kind)
        )
    if pa.types.is_date(kind):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            return to_dates(texts.cast(pa.timestamp("us")))
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(kind) or kind.tz is None:
            raise
        return pa.array(
            [None if text is None else _moment(text) for text in texts.to_pylist()], kind
        )


def dated(texts: pa.Array, kind: pa.DataType, formats: Sequence[str]) -> pa.Array:
    """Write the dates and timestamps that are in one of `formats`, those of strptime, as ISO does;
    leave the others.

    >>> dated(pa.array(["31.1.2020", "2020-01-31", None]), pa.date32(), ["%d.%m.%Y"]).to_pylist()
    ['2020-01-31 00:00:00', '2020-01-31', None]
    """
    if not formats or not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return texts
    distinct = texts.cast(pa.string()).dictionary_encode()
    written = [_as_iso(text, formats) for text in distinct.dictionary.to_pylist()]
    return pa.array(written, pa.string()).take(distinct.indices)


def _as_iso(text: str, formats: Sequence[str]) -> str:
    for format_ in formats:
        try:
            return datetime.strptime(text.strip(), format_).isoformat(" ")
        except ValueError:
            pass
    return text


def ungrouped(texts: pa.Array, mark: str, decimal: str) -> pa.Array:
    """Remove the mark between groups of three digits from the texts that are numbers with it.

    >>> ungrouped(pa.array(["1.250,00", "1.25", None]), ".", ",").to_pylist()
    ['1250,00', '1.25', None]
    """
    group, point = re.escape(mark), re.escape(decimal)
    grouped = pc.match_substring_regex(
        texts, rf"^\s*[-+]?\d{{1,3}}({group}\d{{3}})+({point}\d*)?\s*$"
    )
    return pc.if_else(grouped, pc.replace_substring(texts, mark, ""), texts)


def option_for(texts: Sequence[str]) -> str:
    """Return the options of `pagestore load` that read texts as dates or numbers; empty if these
    are neither.

    >>> option_for(["31.1.2020", "1.2.2020"]), option_for(["1.250,00", "3,5", "7"]), option_for(["ada"])
    ('--date-format %d.%m.%Y', '--decimal , --thousands .', '')
    """
    days = [DAY.fullmatch(text.strip()) for text in texts]
    numbers = [text.strip() for text in texts if not text.strip().isdecimal()]
    if days and all(days):
        first, mark, second, year, clock = zip(
            *(day.groups("") for day in days if day), strict=True
        )
        y = "%Y" if len(year[0]) == 4 else "%y"
        time = _time_of(clock[0])
        ways = [f"%d{mark[0]}%m{mark[0]}{y}{time}", f"%m{mark[0]}%d{mark[0]}{y}{time}"]
        by_day = (
            max(map(int, second)) <= 12,
            max(map(int, first)) <= 12 and (mark[0] != "." or max(map(int, second)) > 12),
        )
        fitting = [way for way, fits in zip(ways, by_day, strict=True) if fits]
        return " or ".join(f"--date-format {repr(way) if ' ' in way else way}" for way in fitting)
    if numbers and all(commas := [COMMA.fullmatch(text) for text in numbers]):
        marks = {comma[1] for comma in commas if comma and comma[1]}
        return "--decimal ," + "".join(
            f" --thousands {mark if mark != ' ' else repr(mark)}" for mark in sorted(marks)
        )
    if numbers and all(POINT.fullmatch(text) or number_of(text) is not None for text in numbers):
        return "--thousands ,"
    return ""


def read_by(texts: Sequence[str], dates: Sequence[str], thousands: str, decimal: str) -> str:
    """Return which of the options given to a load reads texts as dates or numbers; empty if none
    does.

    >>> read_by(["31-Jan-20"], ["%d-%b-%y"], "", "."), read_by(["1,250"], [], ",", "."), read_by(["ada"], [], ",", ".")
    ('--date-format', '--thousands', '')
    """
    if texts and dates and all(_as_iso(text, dates) != text for text in texts):
        return "--date-format"
    if thousands:
        whole = ungrouped(pa.array(texts, pa.string()), thousands, decimal).to_pylist()
    else:
        whole = [*texts]
    if not texts or None in [number_of(text.strip().replace(decimal, ".")) for text in whole]:
        return ""
    if whole != [*texts]:
        return "--thousands"
    return "--decimal" if decimal != "." and any(decimal in text for text in texts) else ""


def _time_of(clock: str) -> str:
    """Return the format of a time of day that follows a day, such as ` 09:30` or ` 9:30:00 AM`;
    empty if none does.
    """
    if not clock:
        return ""
    half, seconds = clock.endswith("M"), clock.count(":") == 2
    return f" %{'I' if half else 'H'}:%M{':%S' * seconds}{' %p' * half}"


def to_dates(moments: pa.Array) -> pa.Array:
    """Convert midnights to dates. Raises pa.ArrowInvalid for any other time of day."""
    days = moments.cast(pa.date32())
    if pc.any(pc.not_equal(days.cast(moments.type), moments)).as_py():
        raise pa.ArrowInvalid("a time of day is not a date")
    return days


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _refuse(wrong: pa.Array, texts: pa.Array) -> None:
    place = pc.index(wrong, True).as_py()
    if place >= 0:
        raise pa.ArrowInvalid(f"{texts[place]} does not fit")


def _integers(texts: pa.Array, kind: pa.DataType, supposed: bool) -> pa.Array:
    if not _has_letter_x(texts):  # Arrow reads 0xFF as a number
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            pass
    if supposed:
        raise pa.ArrowInvalid("no whole numbers")
    try:
        return pa.array(
            [None if text is None else _whole(text) for text in texts.to_pylist()], kind
        )
    except OverflowError as error:
        raise pa.ArrowInvalid(str(error)) from None


def _has_letter_x(texts: pa.Array) -> bool:
    data = texts.buffers()[2]
    return data is not None and bool(((np.frombuffer(data, np.uint8) | 32) == ord("x")).any())


def _whole(text: str) -> int:
    number = number_of(text)
    if number is None or number.adjusted() > 30 or number != number.to_integral_value():
        raise pa.ArrowInvalid(f"{text} is not a whole number")
    return int(number)


def number_of(text: str) -> Decimal | None:
    """Parse a text as an exact number; return None if it is not one, or infinite.

    >>> number_of("1.50"), number_of("0x1f"), number_of("1_0"), number_of("nan")
    (Decimal('1.50'), None, None, None)
    """
    try:
        number = Decimal(text) if text.isascii() and "_" not in text else None
    except InvalidOperation:
        return None
    return number if number is not None and number.is_finite() else None


def _floats(texts: pa.Array, supposed: bool) -> pa.Array:
    floats = texts.cast(pa.float64())
    size = pc.abs(floats)
    odd = pc.or_(pc.greater_equal(size, EXACT_FLOAT), pc.equal(size, 0.0))
    if supposed:
        odd = pc.or_(odd, pc.greater(pc.binary_length(texts), FLOAT_DIGITS))
    for place in np.flatnonzero(odd.fill_null(False).to_numpy(zero_copy_only=False)):
        text = texts[int(place)].as_py()
        if not _is_float(text, floats[int(place)].as_py(), supposed):
            raise pa.ArrowInvalid(f"{text} is not a float")
    return floats


def _is_float(text: str, found: float, supposed: bool) -> bool:
    """Return whether a text may become the float it parses to: exactly if written whole, else as
    the nearest one.
    """
    number = number_of(text)
    if number is None:
        return text.lower().lstrip("+-")[:3] in ("inf", "nan")
    if found in (float("inf"), float("-inf")) or (found == 0) != (number == 0):
        return False  # it is beyond all floats, or nearer to 0 than any
    if number in (Decimal(found), Decimal(repr(found))):
        return True
    digits, places = len(number.as_tuple().digits), -int(number.as_tuple().exponent)
    if not supposed or digits <= FLOAT_DIGITS:
        return not text.lstrip("+-").isdigit() and (
            not supposed or number != number.to_integral_value()
        )
    # as numpy.savetxt writes it
    return 0 < places < PLACES_MAX and Decimal(f"{found:.{places}f}") == number


def _decimals(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        decimals = texts.cast(kind)
        decimals.validate(full=True)
    except pa.ArrowInvalid:  # perhaps for trailing zeros
        values = [None if text is None else number_of(text) for text in texts.to_pylist()]
        if values.count(None) > texts.null_count:
            raise
        decimals = pa.array(values, kind)
        decimals.validate(full=True)
    return decimals


def _span(text: str) -> timedelta:
    match, iso = SPAN.fullmatch(text), ISO_SPAN.fullmatch(text)
    if match:
        days, minus, *parts = match.groups("")
        hours, minutes, seconds = parts
    elif iso and text[-1] not in "PT":
        minus, days, hours, minutes, seconds = iso.groups("")
    else:
        raise pa.ArrowInvalid(f"{text} is not a duration")
    within = timedelta(
        hours=int(hours or 0),
        minutes=int(minutes or 0),
        microseconds=int(Decimal(seconds or 0) * 10**6),
    )
    if iso:
        within += timedelta(int(days or 0))
        return -within if minus else within
    return timedelta(int(days or 0)) + (-within if minus == "-" else within)


def _moment(text: str) -> datetime:
    """Parse a timestamp whose offset has seconds, as in 1890; Arrow parses the others."""
    if MOMENT.fullmatch(text):
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            pass
    raise pa.ArrowInvalid(f"{text} is not a moment with an offset")
