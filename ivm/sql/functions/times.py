"""Dates, times and intervals of SQL as terms of rules.

An interval is a term only inside a sum, a difference, a comparison or `extract`: `months[n]` and
`micros[n]` as it is written, `elapsed[n]` for the microseconds between two timestamps.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import TypeAlias

from sqlglot import exp

from ivm.sql.conversions import amount, call, convert, is_of_months
from ivm.sql.errors import SqlError
from ivm.sql.keywords import BEGUN, named_unit
from ivm.sql.literals import constant, converted
from ivm.sql.terms import Call, Lit, Term, Typed
from ivm.sql.types import (
    BIGINT,
    DATE,
    DATE_OF,
    DOUBLE,
    INTERVAL,
    NULL,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    common,
)

Value: TypeAlias = Callable[[exp.Expr], Typed]
EPOCH = datetime(1970, 1, 1)

MICROSECONDS = {
    "MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6,
    "HOUR": 3600 * 10**6, "DAY": 86400 * 10**6, "WEEK": 7 * 86400 * 10**6,
}  # fmt: skip
MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200, "MILLENNIUM": 12000}
PARTS = {
    "YEAR": "year", "MONTH": "month", "DAY": "day", "HOUR": "hour", "MINUTE": "minute",
    "SECOND": "second", "QUARTER": "quarter", "DOW": "weekday", "DAYOFWEEK": "weekday",
    "WEEKDAY": "weekday", "ISODOW": "isoweekday", "DOY": "yearday", "DAYOFYEAR": "yearday",
    "WEEK": "week", "WEEKOFYEAR": "week", "DAYOFMONTH": "day",
}  # fmt: skip
CLOCK = ("HOUR", "MINUTE", "SECOND")  # parts of a time, too
# at the end of an interval
CLOCK_TIME = re.compile(r"(-)?\b(\d+):(\d\d)(?::(\d\d(?:\.\d+)?))?\s*$")
AMOUNT = r"(-?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*"  # of a unit
MIXED = "months_micros"  # an interval of months and of microseconds
INTERVALS = {"months", "micros", "elapsed", MIXED}
_PART_NODES: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR", exp.Month: "MONTH", exp.Day: "DAY", exp.Hour: "HOUR", exp.Minute: "MINUTE",
    exp.Second: "SECOND", exp.Quarter: "QUARTER", exp.DayOfWeek: "DOW", exp.DayOfYear: "DOY",
    exp.Week: "WEEK", exp.DayOfMonth: "DAY", exp.WeekOfYear: "WEEK", exp.TimeToUnix: "EPOCH",
    exp.DayOfWeekIso: "ISODOW",
}  # fmt: skip


def _interval(node: exp.Expr, value: Value) -> Typed:
    unit = named_unit(node.args["unit"].name) if node.args.get("unit") else "DAY"
    inner, in_text = node.this, not node.args.get("unit") or node.args.get("fraction_in_string")
    if isinstance(inner, exp.Literal) and (in_text or "." not in inner.name):
        text = f"{inner.name} {unit}" if node.args.get("unit") else inner.name
        if found := _of_parts(text):
            return found
    if isinstance(inner, exp.Literal) and not node.args.get("unit"):
        number, _, unit = inner.this.partition(" ")
        inner, unit = exp.Literal.number(number), named_unit(unit)
    count = value(inner)
    if count.type == VARCHAR and isinstance(count.term, Lit):
        cut = Lit(str(count.term.value).partition(".")[0], "string")  # as in '1.5' HOUR
        count = converted(count._replace(term=cut), BIGINT, node)
    if not count.type.is_integer:
        raise SqlError("an interval has a whole number of units", node)
    if unit in MONTHS:
        return Typed(call("months", _times(count.term, MONTHS[unit])), INTERVAL, count.nullable)
    if unit in MICROSECONDS:
        term = call("micros", _times(count.term, MICROSECONDS[unit]))
        return Typed(term, INTERVAL, count.nullable)
    raise SqlError(f"intervals of {unit} are not known", node)


def _of_parts(text: str) -> Typed | None:
    """Return an interval of several parts, as `1 day 3 hours` or `1 month 04:05:06`; else None."""
    clock = CLOCK_TIME.search(text)
    rest = CLOCK_TIME.sub("", text)
    parts = re.findall(AMOUNT, rest)
    alone = len(parts) + (clock is not None) * 2 < 2 and "." not in rest
    if alone or re.sub(AMOUNT, "", rest).strip():
        return None
    months, micros = 0, 0 if clock is None else _of_clock(clock)
    for number, word in parts:
        unit = named_unit(word)
        if unit not in MONTHS and unit not in MICROSECONDS:
            raise SqlError(f"INTERVAL '{text}': intervals of {word} are not known")
        count, days = Fraction(number), 30 * MICROSECONDS["DAY"]
        months += (whole := int(count * MONTHS.get(unit, 0)))
        part_of_month = count * MONTHS.get(unit, 0) - whole
        micros += round(part_of_month * days + count * MICROSECONDS.get(unit, 0))
    if months and micros:
        return Typed(call(MIXED, Lit(months, "int64"), Lit(micros, "int64")), INTERVAL, False)
    found = call("months", Lit(months, "int64")) if months else call("micros", Lit(micros, "int64"))
    return Typed(found, INTERVAL, False)


def _of_clock(found: re.Match[str]) -> int:
    """Return the microseconds of a time like -04:05:06.5."""
    sign, hours, minutes, seconds = found.groups()
    whole = int(hours) * MICROSECONDS["HOUR"] + int(minutes) * MICROSECONDS["MINUTE"]
    whole += round(float(seconds or 0) * MICROSECONDS["SECOND"])
    return -whole if sign else whole


def constant_interval(node: exp.Interval) -> tuple[str, int]:
    """Return the unit of a constant interval, months or micros, and how many.  Raises SqlError."""

    def value(one: exp.Expr) -> Typed:
        found = constant(one)
        if found is None:
            raise SqlError("a constant interval is wanted", node)
        return found

    term = _interval(node, value).term
    if isinstance(term, Call) and term.name == MIXED:
        raise SqlError(
            "an interval of months and days is not constant in length: give one of either", node
        )
    assert isinstance(term, Call) and isinstance(term.args[0], Lit)
    return term.name, int(str(term.args[0].value))


def later(moment: datetime, unit: str, count: int) -> datetime:
    """Return a timestamp moved by months or microseconds."""
    if unit == "micros":
        return moment + timedelta(microseconds=count)
    year, month = divmod(moment.year * 12 + moment.month - 1 + count, 12)
    return moment.replace(
        year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1])
    )


def _times(term: Term, factor: int) -> Term:
    """Return an integer times a constant."""
    if isinstance(term, Lit) and isinstance(term.value, int):
        return Lit(term.value * factor, "int64")
    return term if factor == 1 else call("*", term, Lit(factor, "int64"))


def multiplied(left: Typed, right: Typed, node: exp.Expr) -> Typed:
    """Return an interval as many times as a whole number says."""
    if left.type != INTERVAL:
        left, right = right, left
    if not right.type.is_integer:
        raise SqlError("an interval is multiplied by a whole number", node)
    own, name = amount(left), left.term.name if isinstance(left.term, Call) else "elapsed"
    if name == MIXED:
        raise SqlError(
            "an interval of months and days is multiplied in two steps: months * n, and days * n",
            node,
        )
    whole = own.value if isinstance(own, Lit) and isinstance(own.value, int) else None
    term = _times(right.term, whole) if whole is not None else call("*", own, right.term)
    return Typed(call(name, term), INTERVAL, left.nullable or right.nullable)


def moved(operation: str, left: Typed, right: Typed, node: exp.Expr) -> Typed:
    """Return a date or a timestamp that is moved, or the time between two of them."""
    nullable = left.nullable or right.nullable
    if operation == "+" and (left.type == INTERVAL or right.type == DATE):
        left, right = right, left
    if right.type == INTERVAL and left.type in (DATE, TIMESTAMP, TIMESTAMPTZ):
        moment, count = convert(left, TIMESTAMP, node).term, amount(right)
        if isinstance(right.term, Call) and right.term.name == MIXED:
            for name, part_ in zip(("months", "micros"), right.term.args, strict=True):
                left = moved(
                    operation, left, Typed(call(name, part_), INTERVAL, right.nullable), node
                )
            return left
        if is_of_months(right):
            count = count if operation == "+" else call("-", Lit(0, "int64"), count)
            typed = Typed(call("datetime:add_months", moment, count), TIMESTAMP, nullable)
        else:
            typed = Typed(call(operation, moment, count), TIMESTAMP, nullable)
        return convert(typed, TIMESTAMPTZ, node) if left.type == TIMESTAMPTZ else typed
    if operation == "+" and (left.type, right.type) == (DATE, TIME):
        return _at_clock(left, right, node)
    if right.type == INTERVAL and left.type == TIME and not is_of_months(right):
        return Typed(
            call("time", call(operation, call("datetime", left.term), amount(right))),
            TIME,
            nullable,
        )
    if left.type == right.type == INTERVAL and not is_of_months(left) and not is_of_months(right):
        return Typed(
            call("elapsed", call(operation, amount(left), amount(right))), INTERVAL, nullable
        )
    if left.type == DATE and right.type.is_integer:
        return Typed(call(operation, left.term, right.term), DATE, nullable)
    if operation == "-" and left.type == right.type == DATE:
        return Typed(call("-", left.term, right.term), BIGINT, nullable)
    if operation == "-" and {left.type, right.type} <= {DATE, TIMESTAMP, TIMESTAMPTZ}:
        between = call(
            "-", convert(left, TIMESTAMP, node).term, convert(right, TIMESTAMP, node).term
        )
        return Typed(call("elapsed", between), INTERVAL, nullable)
    raise SqlError(
        f"`{operation}` of {left.type} and {right.type} is not evaluated: use date_diff, or an "
        f"INTERVAL",
        node,
    )


def _at_clock(day: Typed, clock: Typed, node: exp.Expr) -> Typed:
    since = _since_epoch(call("datetime", clock.term))
    term = call("+", convert(day, TIMESTAMP, node).term, since)
    return Typed(term, TIMESTAMP, day.nullable or clock.nullable)


def part(node: exp.Expr, value: Value) -> Typed:
    """Return a part of a date, of a timestamp or of the time between two."""
    if isinstance(node, exp.Extract):
        unit, inner = node.name.upper(), node.expression
    elif isinstance(node, exp.Anonymous):
        own = len(node.expressions) == 1  # decade(x)
        unit, inner = (node.name if own else node.expressions[0].name).upper(), node.expressions[-1]
    else:
        unit, inner = _PART_NODES[type(node)], node.this
    while isinstance(inner, exp.TsOrDsToDate | exp.TsOrDsToTimestamp):
        inner = inner.this
    unit = named_unit(unit)
    moment = value(inner)
    if moment.type == TIMESTAMPTZ:
        moment = convert(moment, TIMESTAMP, node)
    if moment.type == TIME and (unit == "EPOCH" or unit.endswith("SECOND")):
        moment = Typed(call("datetime", moment.term), TIMESTAMP, moment.nullable)
    if unit == "EPOCH" and moment.type in (DATE, TIMESTAMP):
        since = call("-", convert(moment, TIMESTAMP, node).term, Lit(EPOCH, "timestamp"))
        return Typed(_seconds(since), DOUBLE, moment.nullable)
    if moment.type == INTERVAL:
        return _part_of_interval(unit, moment, node)
    if unit in _DERIVED and moment.type in (DATE, TIMESTAMP):
        return Typed(_DERIVED[unit](convert(moment, TIMESTAMP, node).term), BIGINT, moment.nullable)
    if unit not in PARTS:
        raise SqlError(
            f"date_part knows no {unit}; there is {', '.join((*PARTS, *_DERIVED))}, EPOCH", node
        )
    if moment.type not in (DATE, TIMESTAMP) and (moment.type, unit in CLOCK) != (TIME, True):
        raise SqlError(f"a date or a timestamp has a {unit}, and this is {moment.type}", node)
    return Typed(call(f"datetime:{PARTS[unit]}", moment.term), BIGINT, moment.nullable)


def _isoyear(moment: Term) -> Term:
    """Return the year of a week: that of its Thursday."""
    to_thursday = call("-", Lit(4, "int64"), call("datetime:isoweekday", moment))
    return call("datetime:year", call("+", call(DATE_OF, moment), to_thursday))


def _of_year(divisor: int, before: int) -> Callable[[Term], Term]:
    def made(moment: Term) -> Term:
        year, shift = call("datetime:year", moment), Lit(before, "int64")
        return call("+", call("/", call("-", year, shift), Lit(divisor, "int64")), shift)

    return made


def _within_minute(divisor: int) -> Callable[[Term], Term]:
    def made(moment: Term) -> Term:
        return call("/", _rest(moment, Lit(60 * 10**6, "int64")), Lit(divisor, "int64"))

    return made


def _rest(moment: Term, size: Term) -> Term:
    """Return the microseconds of a moment after the last that is a multiple of a size."""
    return call("mod", call("+", call("mod", _since_epoch(moment), size), size), size)


def _since_epoch(moment: Term) -> Term:
    return call("-", moment, Lit(EPOCH, "timestamp"))


def _era(moment: Term) -> Term:
    return call(
        "least", call("greatest", call("datetime:year", moment), Lit(0, "int64")), Lit(1, "int64")
    )


_DERIVED: dict[str, Callable[[Term], Term]] = {
    "ERA": _era, "NANOSECOND": lambda moment: _times(_within_minute(1)(moment), 1000),
    "ISOYEAR": _isoyear, "DECADE": _of_year(10, 0), "CENTURY": _of_year(100, 1),
    "MILLENNIUM": _of_year(1000, 1),
    "MILLISECOND": _within_minute(1000), "MICROSECOND": _within_minute(1),
    "YEARWEEK": lambda moment: call("+", _times(_isoyear(moment), 100), call("datetime:week", moment)),
}  # fmt: skip


def _seconds(microseconds: Term) -> Term:
    return call("ratio", call("float", microseconds), Lit(1e6, "float64"))


def _part_of_interval(unit: str, moment: Typed, node: exp.Expr) -> Typed:
    """Return a part of the time between two timestamps: whole days, and what is left."""
    if isinstance(moment.term, Call) and moment.term.name == "aged" and unit in ("YEAR", "MONTH"):
        months, year = moment.term.args[0], Lit(12, "int64")
        return Typed(call("/" if unit == "YEAR" else "mod", months, year), BIGINT, moment.nullable)
    if isinstance(moment.term, Call) and moment.term.name != "elapsed":
        raise SqlError("parts of an interval are kept for the difference of two timestamps", node)
    whole = amount(moment)
    if unit == "EPOCH":
        return Typed(_seconds(whole), DOUBLE, moment.nullable)
    larger = {"DAY": None, "HOUR": "DAY", "MINUTE": "HOUR", "SECOND": "MINUTE"}
    if unit not in larger:
        raise SqlError(
            f"the time between two timestamps has no {unit}; there is {', '.join(larger)}, EPOCH",
            node,
        )
    above = larger[unit]
    rest = whole if above is None else call("mod", whole, Lit(MICROSECONDS[above], "int64"))
    return Typed(call("/", rest, Lit(MICROSECONDS[unit], "int64")), BIGINT, moment.nullable)


def _added(node: exp.Expr, value: Value) -> Typed:
    return value(exp.Add(this=node.this, expression=node.expression))


def _truncated(node: exp.Expr, value: Value) -> Typed:
    name, moment = node.args["unit"].name.upper(), value(node.this)
    unit = named_unit(name, BEGUN)
    if unit not in (*MONTHS, *MICROSECONDS, "ISOYEAR"):
        raise SqlError(f"date_trunc of {name} is not evaluated: a unit is as 'month'", node)
    own = convert(moment, TIMESTAMP, node) if moment.type in (TIMESTAMPTZ, VARCHAR) else moment
    term = call("datetime:truncate", own.term, Lit(unit.lower(), "string"))
    if unit in ("MILLISECOND", "MICROSECOND"):
        own = convert(own, TIMESTAMP, node)
        term = call("-", own.term, _rest(own.term, Lit(MICROSECONDS[unit], "int64")))
    return convert(
        Typed(term, TIMESTAMP, moment.nullable),
        TIMESTAMPTZ if moment.type == TIMESTAMPTZ else TIMESTAMP,
        node,
    )


def _difference(node: exp.Expr, value: Value) -> Typed:
    """date_diff: how many times a unit begins between two moments."""
    unit = named_unit(node.args["unit"].name, BEGUN) if node.args.get("unit") else "DAY"
    left, right = value(node.expression), value(node.this)
    nullable = left.nullable or right.nullable
    if unit in ("DAY", "WEEK"):
        days = call("-", convert(right, DATE, node).term, convert(left, DATE, node).term)
        return Typed(days if unit == "DAY" else call("/", days, Lit(7, "int64")), BIGINT, nullable)
    before, after = (convert(side, TIMESTAMP, node).term for side in (left, right))
    if unit in MONTHS:
        return Typed(call("-", _months(after, unit), _months(before, unit)), BIGINT, nullable)
    if unit not in MICROSECONDS:
        raise SqlError(f"date_diff of {unit} is not evaluated", node)
    if unit == "MILLISECOND":
        before, after = (
            value(exp.TimestampTrunc(this=one, unit=exp.Var(this=unit))).term
            for one in (node.expression, node.this)
        )
    elif unit != "MICROSECOND":
        before, after = (
            call("datetime:truncate", one, Lit(unit.lower(), "string")) for one in (before, after)
        )
    return Typed(
        call("/", call("-", after, before), Lit(MICROSECONDS[unit], "int64")), BIGINT, nullable
    )


def _months(moment: Term, unit: str) -> Term:
    """Return the number of months, or of longer units, since the year 0."""
    months = call("-", call("datetime:month", moment), Lit(1, "int64"))
    whole = call("+", call("*", call("datetime:year", moment), Lit(12, "int64")), months)
    return call("/", whole, Lit(MONTHS[unit], "int64"))


# -- texts, and dates from parts


def _formatted(node: exp.Expr, value: Value) -> Typed:
    """strftime, by codes that Python and DuckDB share; the format may come first, as in SQLite."""
    form, inner = node.args["format"], node.this
    if inner.is_string and not form.is_string:
        form, inner = inner, form
    if not isinstance(form, exp.Literal) or re.sub(
        "%-?[aAbBdHIjmMpSUwWyYf%]|%[GVu]", "", form.name
    ).count("%"):
        raise SqlError("strftime takes a constant format of %Y %m %d %H %M %S and the like", node)
    if not form.name:
        raise SqlError("strftime takes a format, and this is empty", node)
    while isinstance(inner, exp.TsOrDsToDate | exp.TsOrDsToTimestamp):
        inner = inner.this
    return _named(value(inner), form.name, node)


def _named(moment: Typed, form: str, node: exp.Expr) -> Typed:
    return Typed(
        call("datetime:format", _moment(moment, node).term, Lit(form, "string")),
        VARCHAR,
        moment.nullable,
    )


def _moment(moment: Typed, node: exp.Expr) -> Typed:
    if moment.type not in (DATE, TIMESTAMP):
        raise SqlError(f"a date or a timestamp is wanted, and this is {moment.type}", node)
    return moment


def _name_of(node: exp.Expr, value: Value) -> Typed:
    inner = node.this
    while isinstance(inner, exp.TsOrDsToDate | exp.TsOrDsToTimestamp):
        inner = inner.this
    return _named(value(inner), "%B" if isinstance(node, exp.Monthname) else "%A", node)


def _parsed(node: exp.Expr, value: Value) -> Typed:
    """strptime(s, format), try_strptime, and these with formats that are tried one by one."""
    tried = isinstance(node, exp.Anonymous)
    source, form = node.expressions if tried else (node.this, node.args["format"])
    text, forms = value(source), form.expressions if isinstance(form, exp.Array) else [form]
    if not forms or not all(isinstance(one, exp.Literal) for one in forms):
        raise SqlError("strptime takes a constant format", node)
    *before, last = (call("datetime:parse", text.term, Lit(one.name, "string")) for one in forms)
    terms = [*(call("try", one) for one in before), call("try", last) if tried else last]
    return Typed(call("coalesce", *terms), TIMESTAMP, tried or text.nullable)


def _last_day(node: exp.Expr, value: Value) -> Typed:
    moment = _moment(value(node.this), node)
    months = call("-", _months(moment.term, "MONTH"), Lit(EPOCH.year * 12, "int64"))
    # which keeps to the last day
    term = call("datetime:add_months", Lit(date(1970, 1, 31), DATE.store), months)
    return Typed(term, DATE, moment.nullable)


def _from_parts(node: exp.Expr, value: Value) -> Typed:
    """make_date."""
    parts = [
        value(one) if (one := node.args.get(key)) is not None else None
        for key in ("year", "month", "day")
    ]
    year, *others = (part for part in parts if part is not None)
    if not others and year.type.is_integer:
        return Typed(call("+", Lit(EPOCH.date(), DATE.store), year.term), DATE, year.nullable)
    if len(others) != 2:
        raise SqlError(
            "make_date takes a year, a month and a day, or the number of days since 1970", node
        )
    term = call("date:of_parts", *(convert(one, BIGINT, node).term for one in (year, *others)))
    return Typed(term, DATE, any(one.nullable for one in (year, *others)))


def _time_of_day(node: exp.Expr, value: Value, most: int) -> Typed:
    """Return the microseconds of an hour, a minute and a second, which may be 60."""
    hour, minute, second = (value(node.args[key]) for key in ("hour", "min", "sec"))
    term = call("int", call("*", convert(second, DOUBLE, node).term, Lit(1e6, "float64")))
    micros: Term = call("within", term, Lit(0, "int64"), Lit(MICROSECONDS["MINUTE"], "int64"))
    for one, unit, last in ((hour, "HOUR", 24), (minute, "MINUTE", 59)):
        count = call("within", convert(one, BIGINT, node).term, Lit(0, "int64"), Lit(last, "int64"))
        micros = call("+", micros, _times(count, MICROSECONDS[unit]))
    whole = call("within", micros, Lit(0, "int64"), Lit(most, "int64"))
    return Typed(whole, BIGINT, any(one.nullable for one in (hour, minute, second)))


def _moment_from_parts(node: exp.Expr, value: Value) -> Typed:
    """make_timestamp of six parts, or of microseconds."""
    if node.args.get("month") is None:
        since = value(node.args["year"])
        return Typed(call("+", Lit(EPOCH, "timestamp"), since.term), TIMESTAMP, since.nullable)
    day = _from_parts(node, value)
    clock = _time_of_day(node, value, MICROSECONDS["DAY"])
    term = call("+", convert(day, TIMESTAMP, node).term, clock.term)
    return Typed(term, TIMESTAMP, day.nullable or clock.nullable)


def _time_from_parts(node: exp.Expr, value: Value) -> Typed:
    """make_time."""
    clock = _time_of_day(node, value, MICROSECONDS["DAY"] - 1)
    return Typed(call("time", call("+", Lit(EPOCH, "timestamp"), clock.term)), TIME, clock.nullable)


def _nanoseconds(node: exp.Expr, value: Value) -> Typed:
    """epoch_ns of a date or a timestamp."""
    moment = convert(value(node.expressions[0]), TIMESTAMP, node)
    return Typed(_times(_since_epoch(moment.term), 1000), BIGINT, moment.nullable)


def _age(node: exp.Expr, value: Value) -> Typed:
    """Age of a moment at another, in whole months, whose years and months EXTRACT takes."""
    if len(node.expressions) != 2:
        raise SqlError(
            "age of one moment follows from a clock: give the other one, as in age(later, earlier)",
            node,
        )
    later, earlier = (value(item) for item in node.expressions)
    after, before = (convert(one, TIMESTAMP, node).term for one in (later, earlier))
    return Typed(
        call("aged", _months_between(after, before)), INTERVAL, later.nullable or earlier.nullable
    )


def _months_between(after: Term, before: Term) -> Term:
    forth, back = (_whole_months(*pair) for pair in ((after, before), (before, after)))
    return call("if", call("<", after, before), call("-", Lit(0, "int64"), back), forth)


def _whole_months(after: Term, before: Term) -> Term:
    def within(moment: Term) -> Term:
        return call("-", moment, call("datetime:truncate", moment, Lit("month", "string")))

    begun = call("-", _months(after, "MONTH"), _months(before, "MONTH"))
    return call(
        "-",
        begun,
        call("if", call("<", within(after), within(before)), Lit(1, "int64"), Lit(0, "int64")),
    )


def _in_zone(node: exp.Expr, value: Value) -> Typed:
    """AT TIME ZONE 'UTC': a moment of a time in UTC, or the time of a moment."""
    moment, zone = value(node.this), node.args["zone"]
    if zone.name.upper() not in ("UTC", "GMT", "ETC/UTC", "Z"):
        raise SqlError(
            "AT TIME ZONE knows 'UTC': other zones are for the program that shows the times", node
        )
    return convert(moment, TIMESTAMP if moment.type == TIMESTAMPTZ else TIMESTAMPTZ, node)


def _epoch(node: exp.Expr, value: Value) -> Typed:
    """epoch_ms and epoch_us of a date or a timestamp, and the moment that is so long after 1970."""
    named = isinstance(node, exp.Anonymous)
    scale = node.args["scale"].name if node.args.get("scale") else ""
    divisor = 1 if named or scale == "6" else 1000 if scale == "3" else 0
    moment = value(node.expressions[0] if named else node.this)
    if moment.type.is_number and (node.name if named else "") != "epoch_us":
        seconds = convert(moment, DOUBLE, node).term
        micros = (
            _times(moment.term, divisor)
            if divisor
            else call("int", call("*", seconds, Lit(1e6, "float64")))
        )
        typed = Typed(call("+", Lit(EPOCH, "timestamp"), micros), TIMESTAMP, moment.nullable)
        return typed if divisor else convert(typed, TIMESTAMPTZ, node)
    if moment.type == TIMESTAMPTZ:
        moment = convert(moment, TIMESTAMP, node)
    if not divisor or moment.type not in (DATE, TIMESTAMP):
        raise SqlError(
            f"a date, a timestamp or a number is wanted, and this is {moment.type}", node
        )
    whole = _since_epoch(convert(moment, TIMESTAMP, node).term)
    half = call(
        "if",
        call("<", whole, Lit(0, "int64")),
        Lit(-(divisor // 2), "int64"),
        Lit(divisor // 2, "int64"),
    )
    nearest = call("/", call("+", whole, half), Lit(divisor, "int64"))
    return Typed(whole if divisor == 1 else nearest, BIGINT, moment.nullable)


def _whole_units(node: exp.Expr, value: Value) -> Typed:
    """date_sub: how many whole units lie between two moments."""
    unit = named_unit(node.expressions[0].name, BEGUN)
    before, after = (value(item) for item in node.expressions[1:3])
    if unit in MONTHS:
        months = call(
            "datetime:whole_months",
            *(convert(one, TIMESTAMP, node).term for one in (before, after)),
        )
        nullable = before.nullable or after.nullable
        return Typed(call("/", months, Lit(MONTHS[unit], "int64")), BIGINT, nullable)
    if unit not in MICROSECONDS:
        raise SqlError(
            f"date_sub of {unit} is not evaluated: date_diff counts the beginnings of one", node
        )
    between = call("-", *(convert(side, TIMESTAMP, node).term for side in (after, before)))
    return Typed(
        call("/", between, Lit(MICROSECONDS[unit], "int64")),
        BIGINT,
        before.nullable or after.nullable,
    )


def _units(node: exp.Expr, value: Value) -> Typed:
    """to_days(n), to_months(n) and the like: intervals."""
    inner = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    unit = "DAY" if isinstance(node, exp.ToDays) else _SPANS[node.name.lower()]
    return _interval(exp.Interval(this=inner, unit=exp.Var(this=unit)), value)


def _bucket(node: exp.Expr, value: Value) -> Typed:
    """time_bucket: the beginning of the interval that a moment is in.  Intervals are counted from
    a Monday, 3 January 2000, or from the date or timestamp that stands third; an interval there
    moves their beginnings.
    """
    width, own = value(node.this), value(node.expression)
    moment = _in_utc(own, node)
    if not isinstance(width.term, Call) or width.term.name == MIXED:
        raise SqlError("time_bucket takes an interval of months, or one of days or less", node)
    first = datetime(2000, 1, 1 if is_of_months(width) else 3)
    origin = Typed(Lit(first, "timestamp"), TIMESTAMP, False)
    if (third := node.args.get("unit")) is None:
        return convert(_begun(moment, width, origin), own.type, node)
    # the parser takes a name for a unit
    given = value(exp.column(third.name) if isinstance(third, exp.Var) else third)
    if given.type == NULL:
        return Typed(Lit(None, own.type.store), own.type, True)
    if given.type == INTERVAL:
        before = convert(moved("-", moment, given, node), moment.type, node)
        found = moved("+", _begun(before, width, origin), given, node)
        return convert(found, own.type, node)
    origin = convert(_in_utc(given, node), TIMESTAMP, node)
    return convert(_begun(moment, width, origin), common(own.type, given.type) or own.type, node)


def _in_utc(moment: Typed, node: exp.Expr) -> Typed:
    """Return a date or a timestamp, that of a moment in UTC."""
    return _moment(convert(moment, TIMESTAMP, node) if moment.type == TIMESTAMPTZ else moment, node)


def _begun(moment: Typed, width: Typed, origin: Typed) -> Typed:
    """Return the timestamp at which an interval begins that has a moment."""
    size, nullable = amount(width), moment.nullable or origin.nullable
    if is_of_months(width):
        since = call("-", _months(moment.term, "MONTH"), _months(origin.term, "MONTH"))
        first = call("datetime:truncate", origin.term, Lit("month", "string"))
        whole = call("-", since, call("mod", call("+", call("mod", since, size), size), size))
        return Typed(call("datetime:add_months", first, whole), TIMESTAMP, nullable)
    own = convert(moment, TIMESTAMP, None).term
    since = call("-", own, origin.term)
    rest = call("mod", call("+", call("mod", since, size), size), size)
    return Typed(call("-", own, rest), TIMESTAMP, nullable)


FAMILIES: list[tuple[tuple[type[exp.Expr], ...], Callable[[exp.Expr, Value], Typed]]] = [
    ((exp.Interval,), _interval), ((exp.Extract, exp.TimeToUnix, *_PART_NODES), part),
    ((exp.DateAdd,), _added), ((exp.TimestampTrunc, exp.DateTrunc), _truncated),
    ((exp.DateDiff,), _difference), ((exp.TimeToStr,), _formatted),
    ((exp.Monthname, exp.Dayname), _name_of), ((exp.StrToTime,), _parsed),
    ((exp.LastDay,), _last_day), ((exp.DateFromParts,), _from_parts),
    ((exp.TimestampFromParts,), _moment_from_parts), ((exp.AtTimeZone,), _in_zone),
    ((exp.TimeFromParts,), _time_from_parts), ((exp.UnixToTime,), _epoch), ((exp.ToDays,), _units),
    ((exp.DateBin,), _bucket),
]  # fmt: skip
_SPANS = {
    "to_microseconds": "MICROSECOND", "to_milliseconds": "MILLISECOND", "to_seconds": "SECOND",
    "to_minutes": "MINUTE", "to_hours": "HOUR", "to_weeks": "WEEK", "to_months": "MONTH",
    "to_quarters": "QUARTER", "to_years": "YEAR", "to_decades": "DECADE",
    "to_centuries": "CENTURY", "to_millennia": "MILLENNIUM",
}  # fmt: skip
_MOMENT = ("year", "month", "day", "hour", "min", "sec")


def _zoned(node: exp.Expr, value: Value) -> Typed:
    """make_timestamptz, in UTC, or in a zone that stands last."""
    given = node.expressions
    moment = exp.TimestampFromParts(**dict(zip(_MOMENT, given[:6], strict=len(given) != 1)))
    if len(given) == 7:
        return _in_zone(exp.AtTimeZone(this=moment, zone=given[6]), value)
    return convert(_moment_from_parts(moment, value), TIMESTAMPTZ, node)


NAMED_PARTS = (
    "date_part datepart decade century millennium isoyear millisecond microsecond weekday era nanosecond "
    "yearweek"
)
NAMED: dict[str, Callable[[exp.Expr, Value], Typed]] = {
    **dict.fromkeys(NAMED_PARTS.split(), part), **dict.fromkeys(_SPANS, _units),
    **dict.fromkeys(("date_sub", "datesub"), _whole_units), "epoch_us": _epoch,
    "epoch_ns": _nanoseconds, "age": _age, "try_strptime": _parsed,
    "make_timestamptz": _zoned,
    "timezone": lambda node, value: _in_zone(exp.AtTimeZone(this=node.expressions[1],
        zone=node.expressions[0]), value),
}  # fmt: skip
