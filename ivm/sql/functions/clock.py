"""The clock of kept views: `now()` and `current_date` in one mean a moment that moves.

    CREATE MATERIALIZED VIEW fresh AS SELECT id FROM event WHERE ts > now() - INTERVAL 1 HOUR

    sql:clock    2026-03-01 09:30:00+00        what now() is in a view
    sql:today    2026-03-01                    what current_date is, which changes once a day

Both are relations of one row, so views follow a move of the clock as they do any edit, and each
version has the moment that its views answer for. What is calculated from one of them alone, as the
midnight of today in `ts >= current_date`, is a helper view of one row, so that it bounds a range,
too, and changes only when its value does.
"""

from collections.abc import Iterable, Set
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeGuard

from sqlglot import exp

from ivm.errors import EditError
from ivm.lang.ir import MIRRORED
from ivm.names import CLOCK, TODAY, moment_of
from ivm.sql.conversions import convert
from ivm.sql.naming.names import called
from ivm.sql.rules import Body, Builder, Column, Table
from ivm.sql.terms import (
    Atom,
    Call,
    Define,
    Lit,
    Literal,
    Rule,
    Term,
    Test,
    Typed,
    Var,
    substitute,
    variables,
)
from ivm.sql.types import DATE, DATE_OF, TIME, TIMESTAMP, TIMESTAMPTZ
from pagestore.host import Store

MOMENT = Table(CLOCK, (Column("moment", TIMESTAMPTZ, False),), ())
DAY = Table(TODAY, (Column("day", DATE, False),), ())
# a moment's date compared with a day: the moment with the midnight before that day, or after it (1)
RANGES = {
    ">=": [(">=", 0)], ">": [(">=", 1)], "<": [("<", 0)], "<=": [("<", 1)],
    "=": [(">=", 0), ("<", 1)],
}  # fmt: skip
COLUMNS = {CLOCK: "moment: timestamp(UTC)", TODAY: "day: date"}
READS: dict[str, tuple[Any, ...]] = {  # the table, and the types that its moment is made one of
    "now current_timestamp currenttimestamp currenttimestampltz clock_timestamp "
    "statement_timestamp transaction_timestamp get_current_timestamp": (MOMENT,),
    "localtimestamp current_localtimestamp": (MOMENT, TIMESTAMP),
    "current_time currenttime localtime": (MOMENT, TIMESTAMP, TIME),
    "current_date currentdate curdate today": (DAY,),
}
_BY_NAME = {name: reads for names, reads in READS.items() for name in names.split()}


def read(node: exp.Expr, builder: Builder, body: Body) -> Typed | None:
    """Return the moment that a part of a kept view means, read in its body; None for any other."""
    reads = _BY_NAME.get(called(node) or "") if builder.may_read_clock else None
    if reads is None:
        return None
    table, *types = reads
    scanned = (row for known, row in body.scans if known is table)
    moment, builder.reads_clock = (next(scanned, None) or builder.scan(table, body))[0], True
    for type_ in types:
        moment = convert(moment, type_, node)
    return moment


def with_moments(rules: Iterable[Rule], builder: Builder) -> list[Rule]:
    """Return rules in which what is calculated from a clock alone is read from helper views."""
    helpers: dict[tuple[str, Term], str] = {}
    followed = [_beside(rule, builder, helpers) for rule in rules]
    moments = [
        Rule((Atom(name, (Var("m"),)),), (Atom(clock, (Var("c"),)), Define(Var("m"), term)))
        for (clock, term), name in helpers.items()
    ]
    return [*moments, *followed]


def _beside(rule: Rule, builder: Builder, helpers: dict[tuple[str, Term], str]) -> Rule:
    """Return a rule that reads what it calculates from a clock alone from helper views."""
    clocks = {v: x.name for x in rule.body if _is_clock(x) for v in variables(x)}
    read: dict[str, Term] = {}

    def apart(term: Term) -> Term:
        if not isinstance(term, Call) or clocks.keys().isdisjoint(variables(term)):
            return term
        name, *others = {*variables(term)}
        # others than moments bound no ranges
        if others or _is_shifted(term, clocks[name]) or not term.name.startswith("datetime"):
            return Call(term.name, tuple(map(apart, term.args)), term.origin)
        moment = clocks[name], substitute(term, {name: Var("c")})
        helper = helpers.get(moment) or helpers.setdefault(moment, builder.helper())
        return read.get(helper) or read.setdefault(helper, builder.variable(TIMESTAMP, False).term)

    ranged = [part for x in rule.body for part in _as_ranges(x, clocks.keys())]
    body = [replace(x, term=apart(x.term)) if isinstance(x, Test | Define) else x for x in ranged]
    readers: list[Literal | Term] = [arg for fold in rule.folds for arg in fold.args]
    readers += [*rule.heads, *(x for x in body if not _is_clock(x))]
    unread = {*clocks} - {*variables(*readers)}
    moments = (Atom(helper, (variable,)) for helper, variable in read.items())
    kept = (x for x in body if not (_is_clock(x) and unread & {*variables(x)}))
    return replace(rule, body=(*moments, *kept), required=rule.required - unread)


def _as_ranges(literal: Literal, clocks: Set[str]) -> list[Literal]:
    """Return a comparison of a moment's date with a clock as ones of the moment with midnights, and
    anything else as it is.
    """
    match literal:
        case Test(Call(op, (Call(name, (moment,)), day))) if name == DATE_OF:
            sides = RANGES.get(op)
        case Test(Call(op, (day, Call(name, (moment,))))) if name == DATE_OF:
            sides = RANGES.get(MIRRORED.get(op, op))
        case _:
            return [literal]
    names = {*variables(day)}
    if not sides or not names or not names <= clocks or not {*variables(moment)} - clocks:
        return [literal]
    days = day, Call("+", (day, Lit(1, "int64")))
    moment, *midnights = (Call("datetime", (each,)) for each in (moment, *days))
    return [Test(Call(side, (moment, midnights[later]))) for side, later in sides]


def _is_clock(literal: Literal) -> TypeGuard[Atom]:
    return isinstance(literal, Atom) and literal.name in COLUMNS


def _is_shifted(term: Term, clock: str) -> bool:
    """Return whether a term is a clock, perhaps shifted by a constant: it bounds ranges itself."""
    if not isinstance(term, Call):
        return True
    same = term.name in ("+", "-") or (clock == CLOCK and term.name in ("datetime", "datetime:utc"))
    return same and all(_is_shifted(arg, clock) for arg in term.args)


def tick(store: Store, moment: datetime | None, branch: str | None) -> int:
    """See Workspace.tick."""
    with store.snapshot(branch) as snap:
        if moment_of(snap) is None:
            return snap.version
    with store.transaction("tick", branch=branch) as txn:
        wind(txn, moment)
        return txn.commit()


def wind(txn: Any, moment: datetime | None = None) -> None:
    """Move the clock in a transaction of the store, to now or another moment; a version that has
    none gets one.

    Raises EditError for a moment without a zone.
    """
    if moment is not None and moment.tzinfo is None:
        raise EditError(f"tick({moment}): it has no zone: write datetime(..., tzinfo=timezone.utc)")
    moment = (moment or datetime.now(UTC)).astimezone(UTC)
    for table, value in ((MOMENT, moment), (DAY, moment.date())):
        if table.name not in txn:
            txn.create(table.name, COLUMNS[table.name])
        there = [*txn[table.name]]
        if there != [(value,)]:
            txn[table.name].delete(there)
            txn[table.name].insert([(value,)])
