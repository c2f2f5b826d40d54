"""Columns of bytes, uint64, time, duration and timestamps with a zone in rules, views, edits and
at reopening.
"""

from datetime import datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import ivm
import pagestore
from ivm.errors import RuleTypeError

BERLIN = ZoneInfo("Europe/Berlin")
TYPES = "id: int64, b: bytes, u: uint64, t: time, d: duration, z: timestamp(Europe/Berlin), n: duration?"


def row(i: int) -> tuple:
    there = None if i % 4 == 0 else timedelta(seconds=i)
    raw = bytes([i % 3, 255]) if i % 2 else f"b{i}".encode()
    return (
        i,
        raw,
        2**64 - 1 - i if i % 2 else i,
        time(i, 5),
        timedelta(hours=i - 5),
        moment(i + 1),
        there,
    )


def moment(day: int) -> datetime:
    return datetime(2024, 3, day, 12, tzinfo=BERLIN)


@pytest.fixture
def ws(tmp_path: Path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        txn.create("m", TYPES, key="id").insert([row(i) for i in range(12)])
    with ivm.open(tmp_path / "s.pages") as workspace:
        yield workspace


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        ('m:b[i] = "b2"', lambda r: r[1] == b"b2"),
        ('m:b[i] = x, x < "b5"', lambda r: r[1] < b"b5"),
        ("m:u[i] = x, x > 18446744073709551610", lambda r: r[2] > 2**64 - 6),
        ("m:t[i] = x, x >= #05:00:00#", lambda r: r[3] >= time(5)),
        ("m:d[i] = x, x < 0", lambda r: r[4] < timedelta()),
        ("m:n[i] = 3000000", lambda r: r[6] == timedelta(seconds=3)),
        ("m:z[i] = #2024-03-05 12:00:00#", lambda r: r[5] == moment(5)),
        ("m:z[i] = x, x > #2024-03-10 12:00:00#", lambda r: r[5] > moment(10)),
    ],
)
def test_literals(ws: ivm.Workspace, body: str, holds) -> None:
    assert {*ws.query(f"q(i) <- {body}.")} == {(i,) for i in range(12) if holds(row(i))}


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("m:u[i] = -3", "-3 does not fit uint64"),
        ("m:u[i] = u, x = u + 1", "there is no uint64 . int64"),
        (
            "m:z[i] = x, x = #2024-03-31 02:30:00#",
            "the clocks of Europe/Berlin leave 2024-03-31 02:30:00 out",
        ),
        ('m:z[i] = x, x = "a"', "the sides of a comparison need one type"),
    ],
)
def test_what_no_value_is_like(ws: ivm.Workspace, body: str, match: str) -> None:
    with pytest.raises(RuleTypeError, match=match):
        ws.query(f"q(i) <- {body}.")


def test_views_follow_and_reopen(ws: ivm.Workspace) -> None:
    ws.install("""
        big[i] = u <- m:u[i] = u, u > 9223372036854775807.
        late(z, i) <- m:z[i] = z, z > #2024-03-06 00:00:00#.
        top[] = b <- agg<<b = max(x)>> m:b[_] = x.
        times[n] = k <- agg<<k = count()>> m:n[_] = n.
    """)
    rows = {i: row(i) for i in range(12)}
    changed = (
        3,
        b"zz",
        2**64 - 1,
        time(23),
        timedelta(microseconds=5),
        datetime(2030, 1, 1, tzinfo=BERLIN),
        None,
    )

    def check(workspace: ivm.Workspace) -> None:
        r = rows.values()
        assert {*workspace["big"]} == {(v[0], v[2]) for v in r if v[2] >= 2**63}
        assert {*workspace["late"]} == {(v[5], v[0]) for v in r if v[5] > moment(6).replace(hour=0)}
        assert [*workspace["top"]] == [(max(v[1] for v in r),)]
        counts = [v[6] for v in r if v[6] is not None]
        assert {*workspace["times"]} == {(n, counts.count(n)) for n in counts}
        assert workspace.check() == []

    check(ws)
    with ws.store.transaction() as txn:
        txn["m"].set([changed])
    rows[3] = changed
    check(ws)
    ws.exec('^m[4] = ("k", 7, #01:02:03#, 9, #2024-03-30 12:00:00#, 1000000).')
    rows[4] = (
        4,
        b"k",
        7,
        time(1, 2, 3),
        timedelta(microseconds=9),
        moment(30),
        timedelta(seconds=1),
    )
    check(ws)
    path = ws.store.path
    ws.close()
    with ivm.open(path) as again:
        check(again)
