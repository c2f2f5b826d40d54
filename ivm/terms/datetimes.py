"""Functions of dates and timestamps over batches; a timestamp with a zone is taken in UTC."""

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import partial

import numpy as np

from ivm.lang.functions import define
from ivm.lang.ir import Const, Term
from ivm.terms.operands import DAY, Operands, Result, by_text, reading
from ivm.terms.readings import clock, day, moment, zoned
from pagestore.host import numbers_of, of_numbers


def _microseconds(x: Operands) -> np.ndarray:
    """Return the first argument, a date or a timestamp, in microseconds, int64[n]."""
    return x.words[0] * (DAY if x.types[0] == "date" else 1)


def _moments(x: Operands) -> np.ndarray:
    """Return the first argument as datetime64[us][n]."""
    return _microseconds(x).view("datetime64[us]")


MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
LONG_UNITS = ("millennium", "century", "decade", "isoyear")  # may begin before the year 1
SHORT_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
# the first moment that columns hold, as a word
FIRST = int(np.datetime64("0001-01-01", "us").view(np.int64))
UNITS = {"week": 7 * DAY, "day": DAY, "hour": DAY // 24, "minute": DAY // 1440, "second": 1_000_000}


def _part(name: str) -> Callable[[Operands], Result]:
    def part(x: Operands) -> Result:
        import pyarrow as pa
        import pyarrow.compute as pc

        moments = of_numbers(pa.timestamp("us"), _moments(x))
        if name == "weekday":  # 0 is Sunday
            found = pc.day_of_week(moments, count_from_zero=True, week_start=7)  # type: ignore[attr-defined,unused-ignore]
        elif name == "isoweekday":
            found = pc.day_of_week(moments, count_from_zero=False, week_start=1)  # type: ignore[attr-defined,unused-ignore]
        elif name == "epoch":
            return np.floor_divide(_moments(x).view(np.int64), 1_000_000), x.none()
        else:
            own = {"week": "iso_week", "yearday": "day_of_year"}.get(name, name)
            found = getattr(pc, own)(moments)
        return numbers_of(found.cast(pa.int64()), np.int64), x.none()

    return part


def _truncate(x: Operands) -> Result:
    units = x.values(1)
    found, fails = np.zeros(x.n, np.int64), x.none()
    moments = _moments(x)
    for unit in set(units):
        chosen = np.array([one == unit for one in units])
        words = _truncated(moments[chosen], unit)
        if words is None:
            fails |= chosen
        else:
            found[chosen] = words
    return found, fails | (found < FIRST)


def _truncated(moments: np.ndarray, unit: str) -> np.ndarray | None:
    short = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s"}.get(
        unit.lower()
    )
    if short:
        return moments.astype(f"datetime64[{short}]").astype("datetime64[us]").view(np.int64)
    if unit.lower() == "week":
        return _of_week(moments)
    if unit.lower() == "isoyear":  # begins with the week of 4 January
        thursday = (_of_week(moments) + 3 * DAY).view("datetime64[us]")
        return _of_week(
            thursday.astype("datetime64[Y]").astype("datetime64[us]") + np.timedelta64(3, "D")
        )
    if unit.lower() in MONTHS:
        months = MONTHS[unit.lower()]
        count = moments.astype("datetime64[M]").view(np.int64)
        first = count - (count + 1970 * 12) % months
        return first.view("datetime64[M]").astype("datetime64[us]").view(np.int64)
    return None


def _of_week(moments: np.ndarray) -> np.ndarray:
    """Return the beginnings of weeks, on Mondays, as words int64[n]; the epoch was a Thursday."""
    days = moments.astype("datetime64[D]").view(np.int64)
    found: np.ndarray = (days - (days + 3) % 7) * DAY
    return found


def _difference(x: Operands) -> Result:
    """Return how many beginnings of a unit lie after the first moment, up to the second."""
    sides = [_moments(x), _moments(x._replace(words=x.words[1:], types=x.types[1:]))]
    units = x.values(2)
    found, fails = np.zeros(x.n, np.int64), x.none()
    for unit in set(units):
        chosen = np.array([one == unit for one in units])
        counts = [_counted(side[chosen], unit.lower()) for side in sides]
        if counts[0] is None or counts[1] is None:
            fails |= chosen
        else:
            found[chosen] = counts[1] - counts[0]
    return found, fails


def _counted(moments: np.ndarray, unit: str) -> np.ndarray | None:
    """Return the number of units from 1970 to each moment, int64[n]; None for an unknown unit."""
    begun, months = _truncated(moments, unit), MONTHS.get(unit)
    if begun is not None and unit == "isoyear":
        return (begun + 3 * DAY).view("datetime64[us]").astype("datetime64[Y]").view(np.int64)
    if begun is None or months is None:
        return None if begun is None else begun // UNITS[unit]
    return np.floor_divide(
        begun.view("datetime64[us]").astype("datetime64[M]").view(np.int64), months
    )


def _add_months(x: Operands) -> Result:
    moments, more = _moments(x), x.words[1]
    month = moments.astype("datetime64[M]")
    day = (moments.astype("datetime64[D]") - month.astype("datetime64[D]")).view(np.int64)
    time = moments.view(np.int64) - moments.astype("datetime64[D]").view(np.int64) * DAY
    fails = np.abs(more) > 120_000
    later = (month.view(np.int64) + np.where(fails, 0, more)).view("datetime64[M]")
    length = ((later + 1).astype("datetime64[D]") - later.astype("datetime64[D]")).view(np.int64)
    days = later.astype("datetime64[D]").view(np.int64) + np.minimum(day, length - 1)
    fails |= (later < np.datetime64("0001-01")) | (later > np.datetime64("9999-12"))
    return (days if x.types[0] == "date" else days * DAY + time), fails


def _whole_months(x: Operands) -> Result:
    """Return how many whole months lie between two moments, below 0 if the second is first.

    The last day of a month ends a whole month that began on a later day: 31 January to 29 February
    is one.
    """
    first, second = _moments(x), _moments(x._replace(words=x.words[1:], types=x.types[1:]))
    before, after = np.minimum(first, second), np.maximum(first, second)
    months, days, times = zip(*(_in_month(side) for side in (before, after)), strict=True)
    following = (months[1] + 1).view("datetime64[M]").astype("datetime64[D]")
    is_last = after.astype("datetime64[D]") + 1 == following
    day = np.where(is_last, np.minimum(days[0], days[1]), days[0])
    found = months[1] - months[0] - ((days[1] < day) | ((days[1] == day) & (times[1] < times[0])))
    return np.where(first > second, -found, found), x.none()


def _in_month(moments: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the months since 1970, the days since they began, and the time of day in
    microseconds, each int64[n].
    """
    months, days = moments.astype("datetime64[M]"), moments.astype("datetime64[D]")
    since = (days - months.astype("datetime64[D]")).view(np.int64)
    return months.view(np.int64), since, moments.view(np.int64) - days.view(np.int64) * DAY


def _date(x: Operands) -> Result:
    """Return the date of a year, a month and a day, if there is such a date."""
    year, month, day = x.words
    fails = (year < 1) | (year > 9999) | (month < 1) | (month > 12)
    first = (np.where(fails, 0, (year - 1970) * 12 + month - 1)).view("datetime64[M]")
    begin = first.astype("datetime64[D]").view(np.int64)
    end = (first + 1).astype("datetime64[D]").view(np.int64)
    fails |= (day < 1) | (day > end - begin)
    return begin + np.where(fails, 0, day - 1), fails


def _formatted(moment: date, form: str) -> str:
    """Return a moment in a format, whose years have four digits even before the year 1000."""
    years = {"%Y": moment.year, "%G": moment.isocalendar()[0]}
    return moment.strftime(
        _CODE.sub(lambda code: f"{years[code[0]]:04}" if code[0] in years else code[0], form)
    )


_CODE = re.compile("%-?.", re.DOTALL)


def _of_known_unit(args: Sequence[Term]) -> bool:
    known = (*LONG_UNITS, *SHORT_UNITS)
    return isinstance(args[-1], Const) and str(args[-1].value).lower() in known


def _begins_in_time(args: Sequence[Term]) -> bool:
    """Return whether a unit of every moment begins in the year 1 or later, as those of more than
    a year may not.
    """
    return isinstance(args[-1], Const) and str(args[-1].value).lower() in SHORT_UNITS


# fmt: off
define("date", "any -> date?",
    reading(day, lambda x: (_microseconds(x) // DAY, x.none())), also="datetime:date")
define("datetime", "any -> timestamp?", reading(moment, lambda x: (_microseconds(x), x.none())))
define("time", "any -> time?", reading(clock, lambda x: (x.words[0] % DAY, x.none())))
define("datetime:utc", "timestamp -> timestamp(UTC)", lambda x: (x.words[0], x.none()))
define("datetime:zoned", "string -> timestamp(UTC)?", partial(by_text, zoned))
define("datetime:truncate", "moment, string -> timestamp?", _truncate, sure=_begins_in_time)
define("datetime:difference", "moment, moment, string -> int64?", _difference, sure=_of_known_unit)
define("datetime:add_months", "moment, int64 -> moment?", _add_months)
define("datetime:format", "moment, string -> string", lambda x: by_text(_formatted, x))
define("datetime:whole_months", "moment, moment -> int64", _whole_months)
define("date:of_parts", "int64, int64, int64 -> date?", _date)
define("datetime:parse", "string, string -> timestamp?", lambda x: by_text(datetime.strptime, x))
for _name in ("year", "month", "day", "quarter", "week", "weekday", "isoweekday", "yearday", "epoch"):
    define(f"datetime:{_name}", "moment -> int64", _part(_name))
for _name in ("hour", "minute", "second"):
    define(f"datetime:{_name}", "clock -> int64", _part(_name))
# fmt: on
