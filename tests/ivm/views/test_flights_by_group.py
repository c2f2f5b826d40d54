"""Flights of New York by carrier, origin, month and overall, which arrive day by day: what is kept
is DuckDB's answer.

Sums of floats are those of math.fsum, which DuckDB's are not.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import ivm
from tests.ivm.views.test_flights import days_of

DECLARATIONS = """flight(i, d, m, c, o, a, s) ->
        int(i), date(d), int(m), string(c), string(o), string(a), int(s).
    late[i] = x -> int(i), float(x).   tail[i] = t -> int(i), string(t).
"""
RULES = """flights_{g}[{k}] = n, miles_{g}[{k}] = t <- agg<<n = count(), t = sum(s)>> flight(i, d, m, c, o, a, s).
    mean_{g}[{k}] = e, worst_{g}[{k}] = w, best_{g}[{k}] = b, middle_{g}[{k}] = h <-
        agg<<e = avg(x), w = max(x), b = min(x), h = median(x)>> flight(i, d, m, c, o, a, s), late[i] = x.
    hours_{g}[{k}] = r <- agg<<r = total(y)>> flight(i, d, m, c, o, a, s), late[i] = x, y = x / 6e1.
    planes_{g}[{k}] = n, tails_{g}[{k}] = r <-
        agg<<n = count_distinct(t), r = concat(t, i, " ")>> flight(i, d, m, c, o, a, s), tail[i] = t.
    route_{g}[{and_k} to, by] = n <- agg<<n = count()>> flight(i, d, m, c, o, a, s), to = a, by = o.
    top_{g}[{and_k} p] = r <- agg<<(p, r) = top(to, n, to, by, 10)>> route_{g}[{and_k} to, by] = n.
    daily_{g}[{and_k} d] = n <- agg<<n = count()>> flight(i, d, m, c, o, a, s).
    week_{g}[{and_k} d] = n <- agg<<n = sum(f)>> daily_{g}[{and_k} d] = _, daily_{g}[{and_k} e] = f, e <= d, e > d - 7.
"""
GROUPS = {"carrier": "c", "origin": "o", "month": "m", "all": ""}
SQL = {
    "flights": "select {k} count(*) from flight {by}",
    "miles": "select {k} sum(s)::bigint from flight {by}",
    # sums of whole minutes are exact
    "mean": "select {k} sum(x) / count(*) from flight join late using (i) {by}",
    "worst": "select {k} max(x) from flight join late using (i) {by}",
    "best": "select {k} min(x) from flight join late using (i) {by}",
    "middle": "select {k} median(x) from flight join late using (i) {by}",
    "planes": "select {k} count(distinct t) from flight join tail using (i) {by}",
    "top": """select {k} p, a from (select {k} a, row_number() over ({part} order by count(*) desc, a desc, o desc) p
        from flight group by {k} a, o) where p <= 10""",
    "week": """select {k} d, sum(n) over ({part} order by d range between interval 6 days preceding and current row)
        ::bigint from (select {k} d, count(*) n from flight group by {k} d)""",
}
TEXTS = "select {k} string_agg(t, ' ' order by i) from flight join tail using (i) {by}"
HOURS = "select {k} list(x / 60.0) from flight join late using (i) {by}"


class Group(NamedTuple):
    """How flights are grouped: a name, and the variable or none."""

    name: str
    key: str

    @property
    def rules(self) -> str:
        and_k = f"{self.key}," if self.key else ""
        return RULES.format(g=self.name, k=self.key, and_k=and_k)

    def asked(self, peer: Any, question: str) -> dict:
        """What DuckDB answers, the last column by the others."""
        k = f"{self.key}," if self.key else ""
        by, part = (f"group by {self.key}", f"partition by {self.key}") if self.key else ("", "")
        found = peer.execute(question.format(k=k, by=by, part=part)).fetchall()
        return {row[:-1]: row[-1] for row in found}


def compare(ws: ivm.Workspace, peer: Any, group: Group) -> None:
    for name, question in SQL.items():
        kept = {tuple(row[:-1]): row[-1] for row in ws[f"{name}_{group.name}"]}
        assert kept == group.asked(peer, question), (name, group)
    hours = {key: math.fsum(found) for key, found in group.asked(peer, HOURS).items()}
    assert {tuple(row[:-1]): row[-1] for row in ws[f"hours_{group.name}"]} == hours
    for key, text in group.asked(peer, TEXTS).items():
        assert str(ws.rope(f"tails_{group.name}", *key)) == text


def follow(path: Path, days: int) -> None:
    """Each day's flights arrive, the latest three are taken back, and everything is compared."""
    duckdb = pytest.importorskip("duckdb")
    groups = [Group(*group) for group in GROUPS.items()]
    peer = duckdb.connect(config={"threads": 1})
    peer.execute(
        "create table flight (i bigint, d date, m bigint, c text, o text, a text, s bigint)"
    )
    peer.execute("create table late (i bigint, x double)")
    peer.execute("create table tail (i bigint, t text)")
    with ivm.open(path, sync="off") as ws:
        ws.install(DECLARATIONS + "".join(group.rules for group in groups))
        for _, arrived in days_of(days):
            rows = [(i, d, d.month, *others) for (i, d, *others), _, _ in arrived]
            late = sorted(
                ((row[0], x) for row, x, _ in arrived if x is not None), key=lambda one: one[1]
            )[:-3]
            tails = [(row[0], t) for row, _, t in arrived if t is not None]
            with ws.transaction() as txn:
                txn.insert("flight", rows)
                txn.set("late", [(row[0], x) for row, x, _ in arrived if x is not None])
                txn.set("tail", tails)
            with ws.transaction() as txn:
                txn.delete(
                    "late",
                    [
                        (row[0],)
                        for row, x, _ in arrived
                        if x is not None and (row[0], x) not in late
                    ],
                )
            for name, table, columns in (
                ("flight", rows, "idmcoas"),
                ("late", late, "ix"),
                ("tail", tails, "it"),
            ):
                peer.register(
                    "arrived",
                    pa.table(dict(zip(columns, map(list, zip(*table, strict=True)), strict=True))),
                )
                peer.execute(f"insert into {name} select * from arrived")
            for group in groups:
                compare(ws, peer, group)
        assert ws.check() == []


def test_flights_of_some_days_by_group(tmp_path):
    follow(tmp_path / "flights.pages", 4)


@pytest.mark.campaign
def test_campaign_of_flights_by_group(tmp_path):
    follow(tmp_path / "flights.pages", 365)
