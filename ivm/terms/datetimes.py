"""Functions of dates and timestamps over batches; a timestamp with a zone is taken in UTC."""

from collections.abc import Callable
from datetime import datetime

import numpy as np

from ivm.terms.operands import DAY, Operands, Result, by_text


def _moments(x: Operands) -> np.ndarray:
    """Return the first argument as datetime64[us][n]."""
    words = x.words[0] * DAY if x.types[0] == "date" else x.words[0]
    return words.view("datetime64[us]")


MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200}
UNITS = {"week": 7 * DAY, "day": DAY, "hour": DAY // 24, "minute": DAY // 1440, "second": 1_000_000}


def _part(name: str) -> Callable[[Operands], Result]:
    def part(x: Operands) -> Result:
        import pyarrow as pa
        import pyarrow.compute as pc

        moments = pa.array(_moments(x))
        if name == "weekday":  # 0 is Sunday
            found = pc.day_of_week(moments, count_from_zero=True, week_start=7)  # type: ignore[attr-defined,unused-ignore]
        elif name == "isoweekday":
            found = pc.day_of_week(moments, count_from_zero=False, week_start=1)  # type: ignore[attr-defined,unused-ignore]
        elif name == "epoch":
            return np.floor_divide(_moments(x).view(np.int64), 1_000_000), x.none()
        else:
            own = {"week": "iso_week", "yearday": "day_of_year"}.get(name, name)
            found = getattr(pc, own)(moments)
        return found.to_numpy(zero_copy_only=False).astype(np.int64), x.none()

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
    return found, fails


def _truncated(moments: np.ndarray, unit: str) -> np.ndarray | None:
    short = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s"}.get(unit.lower())
    if short:
        return moments.astype(f"datetime64[{short}]").astype("datetime64[us]").view(np.int64)
    if unit.lower() == "week":  # begins on Monday; the epoch was a Thursday
        days = moments.astype("datetime64[D]").view(np.int64)
        found: np.ndarray = (days - (days + 3) % 7) * DAY
        return found
    if unit.lower() in MONTHS:
        months = MONTHS[unit.lower()]
        count = moments.astype("datetime64[M]").view(np.int64)
        first = count - (count + 1970 * 12) % months
        return first.view("datetime64[M]").astype("datetime64[us]").view(np.int64)
    return None


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
    if begun is None or months is None:
        return None if begun is None else begun // UNITS[unit]
    return np.floor_divide(begun.view("datetime64[us]").astype("datetime64[M]").view(np.int64), months)


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


PARTS = (
    "year", "month", "day", "hour", "minute", "second", "quarter", "week", "weekday", "isoweekday", "yearday", "epoch",
)  # fmt: skip
TIME_FUNCTIONS: dict[str, Callable[[Operands], Result]] = {
    "datetime:truncate": _truncate,
    "datetime:difference": _difference,
    "datetime:add_months": _add_months,
    "datetime:format": lambda x: by_text(lambda moment, form: moment.strftime(form), x),
    "datetime:parse": lambda x: by_text(datetime.strptime, x),
    **{f"datetime:{name}": _part(name) for name in PARTS},
}
