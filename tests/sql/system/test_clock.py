"""now() and current_date in a kept view: views beside their truth as the clock moves, what a tick
costs, and what has no clock.
"""

import random
import time
from datetime import UTC, datetime, timedelta

import pytest

import ivm
from ivm.errors import EditError, IvmError
from pagestore_tools.bench.meter import Meter
from pagestore_tools.cli.main import ivm as command
from tests.support.programs.amounts import times

HOUR = timedelta(hours=1)
START = datetime(2100, 1, 1, tzinfo=UTC)
VIEWS = {  # a query, and whether it has a row at a moment
    "SELECT id FROM ev WHERE ts > now() - INTERVAL 1 HOUR AND ts <= now()":
        lambda ts, now: now - HOUR < ts <= now,
    "SELECT id FROM ev WHERE tz BETWEEN current_timestamp - INTERVAL 1 HOUR AND now()":
        lambda ts, now: now - HOUR <= ts <= now,
    "SELECT id FROM ev WHERE ts < localtimestamp": lambda ts, now: ts < now,
    "SELECT id FROM ev WHERE CAST(ts AS DATE) = current_date":
        lambda ts, now: ts.date() == now.date(),
    "SELECT id FROM ev WHERE CAST(tz AS DATE) BETWEEN current_date - 1 AND current_date":
        lambda ts, now: 0 <= (now.date() - ts.date()).days <= 1,
    "SELECT id FROM ev WHERE current_date > CAST(ts AS DATE) OR CAST(ts AS DATE) > current_date":
        lambda ts, now: ts.date() != now.date(),
    "SELECT id FROM ev WHERE CAST(ts AS DATE) NOT IN (current_date, current_date + 1)":
        lambda ts, now: not 0 <= (ts.date() - now.date()).days <= 1,
    "SELECT id FROM ev WHERE CAST(ts AS TIME) < current_time":
        lambda ts, now: ts.time() < now.time(),
    "SELECT max(id) AS id FROM ev WHERE ts > now() GROUP BY id": lambda ts, now: ts > now,
    "SELECT id FROM ev WHERE NOT EXISTS (SELECT 1 FROM ev e WHERE e.id = ev.id AND e.ts < now())":
        lambda ts, now: ts >= now,
    "SELECT id FROM (SELECT *, now() AS n FROM ev) WHERE n >= tz": lambda ts, now: now >= ts,
    "SELECT id FROM ev WHERE ts >= now() - INTERVAL 2 HOUR AND tz < now() + INTERVAL 1 MINUTE":
        lambda ts, now: now - 2 * HOUR <= ts < now + HOUR / 60,
    "SELECT id FROM ev JOIN ev AS e USING (id) WHERE ev.ts > now() AND e.tz < now() + INTERVAL 1 HOUR":
        lambda ts, now: now < ts < now + HOUR,
    "SELECT id FROM ev WHERE ts >= current_date - INTERVAL 1 DAY AND ts < current_date":
        lambda ts, now: now.date() - 24 * HOUR <= ts.date() < now.date(),
    "SELECT id FROM ev WHERE tz > date_trunc('hour', now()) AND ts < current_date + 1":
        lambda ts, now: ts > now.replace(minute=0) and ts.date() <= now.date(),
    "SELECT max(id) AS id FROM ev WHERE ts >= date_trunc('day', now()) + INTERVAL 90 MINUTE GROUP BY id":
        lambda ts, now: ts >= now.replace(hour=1, minute=30),
    "SELECT id FROM ev WHERE extract(hour FROM now()) < extract(hour FROM ts) AND tz < current_date":
        lambda ts, now: now.hour < ts.hour and ts.date() < now.date(),
    "SELECT id FROM ev WHERE ts < current_date OR tz >= date_trunc('day', now()) + INTERVAL 1 DAY":
        lambda ts, now: ts.date() != now.date(),
    "SELECT e.id FROM (SELECT *, date_trunc('day', now()) AS d FROM ev) e WHERE d = current_date AND ts > d":
        lambda ts, now: ts > now.replace(hour=0, minute=0),
}  # fmt: skip


def filled(events: dict[int, datetime], views: list[str]) -> ivm.Workspace:
    """A table of events, and kept views of it."""
    ws = ivm.open(":memory:")
    ws.store.retain = "all"
    ws.sql(
        "CREATE TABLE ev (id BIGINT PRIMARY KEY, ts TIMESTAMP NOT NULL, tz TIMESTAMPTZ NOT NULL)"
    )
    put(ws, events)
    for n, query in enumerate(views):
        ws.sql(f"CREATE MATERIALIZED VIEW v{n} AS {query}")
    return ws


def put(ws: ivm.Workspace, events: dict[int, datetime]) -> None:
    """Set events."""
    if events:
        ws.set("ev", [(id_, ts.replace(tzinfo=None), ts) for id_, ts in events.items()])


def test_views_follow_the_clock_and_edits() -> None:
    """Each of them beside its truth after random ticks, back and forth, and random edits."""
    for seed in range(times(2)):
        chance = random.Random(seed)

        def moment(chance: random.Random = chance) -> datetime:
            return START + timedelta(minutes=20 * chance.randrange(200))

        events = {n: moment() for n in range(20)}
        ws = filled(events, [*VIEWS])
        answered: dict[int, datetime] = {}
        for _ in range(12):
            if chance.random() < 0.4:
                some = {chance.randrange(30): moment()}
                put(ws, some)
                events |= some
            now = moment()
            answered[ws.tick(now)] = now
            for n, holds in enumerate(VIEWS.values()):
                rows = {(id_,) for id_, ts in events.items() if holds(ts, now)}
                assert {*ws[f"v{n}"]} == rows, (seed, n, now)
        assert ws.check() == []
        for version, now in answered.items():
            with ws.at(version) as past:
                assert past.moment == now


def test_a_tick_costs_what_the_clock_passes() -> None:
    """The pages that it reads and writes, and its operations, are bounded by the rows that enter and
    leave, and not by those within a window, or by all.
    """
    costs = []
    for size in (16_000, 64_000):
        events = {n: START + timedelta(seconds=26 * n) for n in range(size)}
        ws = filled(events, [*VIEWS][:2])
        for n in range(4):  # the first ones choose how changes are followed
            ws.tick(START + (10 + n / 4) * HOUR)
        with Meter(ws.store) as meter:
            ws.tick(START + 11 * HOUR)
        costs.append(meter.counts["pages read"] + meter.counts["pages written"])
        assert len(ws["v0"]) == 139 and ws.stats("v0")["operations"] < 4 * 70
    assert costs[1] <= costs[0] + 8, costs


def test_midnight_costs_what_it_lets_in_and_out() -> None:
    """Views by what is calculated from a clock, as the midnight of today: of 20 days of events, a
    day enters, and a day leaves.
    """
    wheres = [
        "ts >= current_date - INTERVAL 7 DAY",
        "tz >= current_date - 7 AND tz < current_date + 1",
        "ts > date_trunc('day', now()) - INTERVAL 7 DAY",
        "current_date - 7 <= CAST(tz AS DATE)",
    ]
    start, size = START, 2000  # 100 a day
    events = {n: start + timedelta(days=20 * n / size) for n in range(size)}
    ws = filled(events, [f"SELECT id FROM ev WHERE {where}" for where in wheres])
    for day in range(8, 13):  # the first ones choose how changes are followed
        ws.tick(start + timedelta(days=day))
    ws.tick(start + timedelta(days=13))
    for n in range(len(wheres)):
        assert len(ws[f"v{n}"]) >= 700 and ws.stats(f"v{n}")["operations"] < 6 * 200
    before = [ws.stats(f"v{n}") for n in range(len(wheres))]
    ws.tick(start + timedelta(days=13, hours=5))
    assert before == [ws.stats(f"v{n}") for n in range(len(wheres))], "no view has another bound"


def test_where_there_is_a_clock() -> None:
    """A view that is kept has one, from when it is made; nothing else does."""
    ws = filled({}, [])
    version = ws.store.version
    assert ws.moment is None and ws.tick() == version == ws.store.version
    for text in (
        "CREATE VIEW p AS SELECT id FROM ev WHERE ts < now()",
        "ALTER TABLE ev ADD CONSTRAINT c CHECK (ts < now())",
        "CREATE MATERIALIZED VIEW p AS SELECT random() AS r FROM ev",
    ):
        with pytest.raises(IvmError, match="rows follow from what is stored"):
            ws.sql(text)
    for dialect, word in (
        ("duckdb", "today()"), ("postgres", "now()"), ("postgres", "current_date"),
        ("spark", "curdate()"), ("sqlite", "current_timestamp"),
    ):  # fmt: skip
        ws.sql(f"CREATE OR REPLACE MATERIALIZED VIEW p AS SELECT {word} AS x", dialect=dialect)
        assert abs(ws.moment - datetime.now(UTC)) < HOUR
    assert [*ws] == ["ev", "p"] and "sql:clock" not in str(ws.sql("SHOW TABLES"))
    with pytest.raises(EditError, match="it has no zone"):
        ws.tick(datetime(2100, 1, 1))
    ws.store.branch("trial")
    ws.on("trial").tick(START)
    assert ws.on("trial").moment == START != ws.moment


def test_a_command_moves_the_clock(tmp_path, capsys) -> None:
    """`ivm watch --tick` shows what enters as time passes."""
    path = str(tmp_path / "s.pages")
    soon = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=0.3)
    with ivm.open(path) as ws:
        ws.sql("CREATE TABLE due (id INT PRIMARY KEY, at TIMESTAMP NOT NULL)")
        ws.insert("due", (1, soon))
        ws.sql("CREATE MATERIALIZED VIEW late AS SELECT id FROM due WHERE at < now()")
    begun = time.monotonic()
    assert command(["watch", path, "late", "--tick", "0.1", "--commits", "1"]) == 0
    assert "1 new, 0 removed" in capsys.readouterr().out and time.monotonic() - begun < 60
    for words, said in (
        (["watch", path, "late", "--tick", "0"], "'0': give seconds, above 0 and up to 86,400"),
        (["serve", path, "--tick", "1", "--read-only"], "--tick commits"),
    ):
        with pytest.raises(SystemExit):
            command(words)
        assert said in capsys.readouterr().err
