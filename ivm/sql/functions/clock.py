"""The clock of kept views: `now()` and `current_date` in one mean a moment that moves.

    CREATE MATERIALIZED VIEW fresh AS SELECT id FROM event WHERE ts > now() - INTERVAL 1 HOUR

    sql:clock    2026-03-01 09:30:00+00        what now() is in a view
    sql:today    2026-03-01                    what current_date is, which changes once a day

Both are relations of one row, so views follow a move of the clock as they do any edit, and each
version has the moment that its views answer for.
"""

from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from ivm.errors import EditError
from ivm.names import CLOCK, TODAY, moment_of
from ivm.sql.conversions import convert
from ivm.sql.naming.names import called
from ivm.sql.rules import Body, Builder, Column, Table
from ivm.sql.terms import Typed
from ivm.sql.types import DATE, TIME, TIMESTAMP, TIMESTAMPTZ
from pagestore.host import Store

MOMENT = Table(CLOCK, (Column("moment", TIMESTAMPTZ, False),), ())
DAY = Table(TODAY, (Column("day", DATE, False),), ())
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
