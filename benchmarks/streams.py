"""Streams of events through kept SQL: the queries of Nexmark and of TPC-H as views, beside DuckDB,
which computes its answer anew.

    persons, auctions, bids  ──▶ 20 views     a batch is so many events, inserted in one transaction
    orders with their lines  ──▶ 22 views     half of a batch comes, and as many of the oldest go

Each value is computed from the number of its event, so a row that goes is the one that came, and
any part of a stream is made alone. The queries are in nexmark.sql and tpch.sql.
"""

import argparse
import math
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ivm

from . import Command

HERE = Path(__file__).parent
BATCHES = {1: 20, 100: 10, 10_000: 2, 100_000: 1}  # how many of each size
Tables = dict[str, pa.Table]
Edits = list[tuple[str, str, pa.Table]]  # insert or delete, a table, rows


class Stream(NamedTuple):
    """Tables, queries over them, rows after so many events, and the edits of events from the
    second number on, of the third size, after so many.
    """

    schema: str
    queries: Mapping[str, str]
    state: Callable[[int], Tables]
    batch: Callable[[int, int, int], Edits]


class Measured(NamedTuple):
    """Milliseconds of a query: installing, by DuckDB anew, for a batch of each size; and how many
    answers were wrong of those compared.
    """

    installed: float
    anew: float
    batches: dict[int, float]
    wrong: int
    compared: int


def queries_of(file: str) -> dict[str, str]:
    """Return the queries of a file by the names before them."""
    parts = re.split(r"^-- (q\d+): .*\n", (HERE / file).read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))


def draw(keys: np.ndarray, salt: int, below: int) -> np.ndarray:
    """Return numbers from 0 to before `below` that the keys and the salt decide, int64[n]."""
    x = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(
        salt * 0xBF58476D1CE4E5B9 % 2**64
    )
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return (x % np.uint64(below)).astype(np.int64)


def pick(keys: np.ndarray, salt: int, words: Sequence[str]) -> pa.Array:
    """Return a word for each key."""
    return pa.array(words).take(pa.array(draw(keys, salt, len(words))))


def joined(*parts: Any) -> pa.Array:
    """Return texts that consist of parts: arrays of texts or of numbers, and texts."""
    texts = [
        part
        if isinstance(part, str)
        else pc.cast(pa.array(part) if isinstance(part, np.ndarray) else part, pa.string())
        for part in parts
    ]
    return pc.binary_join_element_wise(*texts, "")


# Nexmark: of fifty events one is a person, three are auctions, 46 are bids

NEXMARK_SCHEMA = """
    CREATE TABLE person (id BIGINT PRIMARY KEY, name VARCHAR, email VARCHAR, city VARCHAR, state VARCHAR,
        date_time TIMESTAMP);
    CREATE TABLE auction (id BIGINT PRIMARY KEY, item_name VARCHAR, initial_bid BIGINT, reserve BIGINT,
        date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT);
    CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR,
        date_time TIMESTAMP, extra VARCHAR);
    CREATE TABLE side_input (key BIGINT PRIMARY KEY, value VARCHAR);
"""
STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]
CITIES = ["Phoenix", "Los Angeles", "Boise", "Portland", "Seattle", "Cheyenne"]
NAMES = ["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gina", "Hugo"]
CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
EVENTS_A_SECOND, BEGAN = 1000, 1_436_918_400_000_000  # microseconds


def moments(events: np.ndarray, later: Any = 0) -> pa.Array:
    """Return when events happen."""
    return pa.array(BEGAN + events * (1_000_000 // EVENTS_A_SECOND) + later).cast(
        pa.timestamp("us")
    )


def recent(events: np.ndarray, salt: int, each: int) -> np.ndarray:
    """Return what an event refers to, of which there are `each` in fifty events: half of the time
    one of the hundred latest, otherwise any that came before.
    """
    there = np.maximum(1, (events // 50) * each)
    near = np.maximum(0, there - 1 - draw(events, salt, 100))
    return np.where(draw(events, salt + 1, 2) == 0, near, draw(events, salt + 2, 1 << 40) % there)


def nexmark_rows(first: int, end: int) -> Tables:
    """Return the rows of events `first` to before `end`."""
    events = np.arange(first, end)
    turn = events % 50
    p, a, b = events[turn == 0], events[(turn > 0) & (turn < 4)], events[turn >= 4]
    person = {
        "id": p // 50, "name": pick(p, 1, NAMES), "email": joined(pick(p, 1, NAMES), p, "@example.org"),
        "city": pick(p, 2, CITIES), "state": pick(p, 3, STATES), "date_time": moments(p),
    }  # fmt: skip
    price = 100 + draw(a, 4, 10_000)
    auction = {
        "id": a // 50 * 3 + a % 50 - 1, "item_name": joined("item ", draw(a, 5, 1000)), "initial_bid": price,
        "reserve": price + draw(a, 6, 10_000), "date_time": moments(a),
        "expires": moments(a, 1_000_000 + draw(a, 7, 20_000_000)), "seller": recent(a, 8, 1),
        "category": 10 + draw(a, 11, 5),
    }  # fmt: skip
    numbered = joined("channel-", draw(b, 13, 10_000))
    of_four = pa.array(draw(b, 14, 2) == 0)
    channel = pc.if_else(of_four, pick(b, 15, CHANNELS), numbered)
    query = pc.if_else(of_four, "", joined("&channel_id=", draw(b, 13, 10_000)))
    bid = {
        "auction": recent(b, 16, 3), "bidder": recent(b, 19, 1),
        "price": (10 ** (draw(b, 22, 6000) / 1000 + 2)).astype(np.int64), "channel": channel,
        "url": joined("https://example.org/", draw(b, 23, 30), "/", draw(b, 24, 30), "/item.htm?query=1", query),
        "date_time": moments(b), "extra": joined(pick(b, 25, ["abc", "ccc", "xyz"]), draw(b, 26, 100)),
    }  # fmt: skip
    return {"person": pa.table(person), "auction": pa.table(auction), "bid": pa.table(bid)}


def nexmark_state(n: int) -> Tables:
    """Return the tables after n events, and one that a query joins with bids."""
    keys = np.arange(100)
    return {
        **nexmark_rows(0, n),
        "side_input": pa.table({"key": keys, "value": joined("value ", keys)}),
    }


def nexmark_batch(_state: int, first: int, size: int) -> Edits:
    """Return the edits of events: rows only come."""
    return [
        ("insert", name, rows)
        for name, rows in nexmark_rows(first, first + size).items()
        if len(rows)
    ]


# TPC-H: an event is an order with its lines that comes, or one that goes

TPCH_SCHEMA = """
    CREATE TABLE region (r_regionkey BIGINT PRIMARY KEY, r_name VARCHAR);
    CREATE TABLE nation (n_nationkey BIGINT PRIMARY KEY, n_name VARCHAR, n_regionkey BIGINT);
    CREATE TABLE supplier (s_suppkey BIGINT PRIMARY KEY, s_name VARCHAR, s_nationkey BIGINT,
        s_acctbal DECIMAL(15, 2), s_comment VARCHAR);
    CREATE TABLE customer (c_custkey BIGINT PRIMARY KEY, c_name VARCHAR, c_nationkey BIGINT, c_phone VARCHAR,
        c_acctbal DECIMAL(15, 2), c_mktsegment VARCHAR);
    CREATE TABLE part (p_partkey BIGINT PRIMARY KEY, p_name VARCHAR, p_mfgr VARCHAR, p_brand VARCHAR,
        p_type VARCHAR, p_size BIGINT, p_container VARCHAR);
    CREATE TABLE partsupp (ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty BIGINT,
        ps_supplycost DECIMAL(15, 2), PRIMARY KEY (ps_partkey, ps_suppkey));
    CREATE TABLE orders (o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT, o_orderstatus VARCHAR,
        o_totalprice DECIMAL(15, 2), o_orderdate DATE, o_orderpriority VARCHAR, o_shippriority BIGINT,
        o_comment VARCHAR);
    CREATE TABLE lineitem (l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber BIGINT,
        l_quantity DECIMAL(15, 2), l_extendedprice DECIMAL(15, 2), l_discount DECIMAL(15, 2), l_tax DECIMAL(15, 2),
        l_returnflag VARCHAR, l_linestatus VARCHAR, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE,
        l_shipinstruct VARCHAR, l_shipmode VARCHAR, PRIMARY KEY (l_orderkey, l_linenumber));
"""
NATIONS = """ALGERIA 0,ARGENTINA 1,BRAZIL 1,CANADA 1,EGYPT 4,ETHIOPIA 0,FRANCE 3,GERMANY 3,INDIA 2,INDONESIA 2,
IRAN 4,IRAQ 4,JAPAN 2,JORDAN 4,KENYA 0,MOROCCO 0,MOZAMBIQUE 0,PERU 1,CHINA 2,ROMANIA 3,SAUDI ARABIA 4,VIETNAM 2,
RUSSIA 3,UNITED KINGDOM 3,UNITED STATES 1""".replace("\n", "").split(",")
REGIONS = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"]
COLOURS = ["almond", "azure", "blue", "coral", "forest", "green", "ivory", "khaki", "lemon", "linen",
    "maroon", "navy", "olive", "peach", "pink"]  # fmt: skip
TYPES = [f"{a} {b} {c}" for a in ["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"]
    for b in ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"]
    for c in ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"]]  # fmt: skip
CONTAINERS = [
    f"{a} {b}"
    for a in ["SM", "LG", "MED", "JUMBO", "WRAP"]
    for b in ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"]
]
PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB", "AIR REG"]
INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
FIRST_DAY, DAYS, TODAY = 8035, 2406, 9298  # 1992-01-01, how many days have orders, 1995-06-17


def cents(values: np.ndarray) -> pa.Array:
    """Return decimals with two digits after the point."""
    whole = pa.array(values).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar(Decimal("0.01"), pa.decimal128(3, 2))).cast(
        pa.decimal128(15, 2)
    )


def days(values: np.ndarray) -> pa.Array:
    """Return dates from days since 1970."""
    return pa.array(values.astype(np.int32)).cast(pa.date32())


def sizes(n: int) -> tuple[int, int, int]:
    """Return how many customers, parts and suppliers there are for n orders."""
    return max(10, n // 10), max(10, n * 2 // 15), max(10, n // 150)


def tpch_rows(n: int, first: int, end: int) -> Tables:
    """Return orders `first` to before `end`, with their lines; the first n are the state."""
    (customers, parts, suppliers), o = sizes(n), np.arange(first, end)
    date, lines = FIRST_DAY + draw(o, 1, DAYS), 1 + draw(o, 2, 7)
    order = np.repeat(o, lines)
    number = np.arange(len(order)) - np.repeat(np.cumsum(lines) - lines, lines)
    line = order * 8 + number
    shipped = np.repeat(date, lines) + 1 + draw(line, 3, 121)
    received = shipped + 1 + draw(line, 4, 30)
    part, quantity = draw(line, 5, parts), 1 + draw(line, 6, 50)
    price = quantity * (90_000 + part % 20_001)
    total = np.bincount(order - first, price, minlength=len(o)).astype(np.int64)
    state = np.where(date < TODAY - 121, 0, np.where(date > TODAY, 1, 2))
    orders = {
        "o_orderkey": o, "o_custkey": draw(o, 7, customers) // 3 * 3,
        "o_orderstatus": pa.array(["F", "O", "P"]).take(state),
        "o_totalprice": cents(total), "o_orderdate": days(date), "o_orderpriority": pick(o, 8, PRIORITIES),
        "o_shippriority": o * 0,
        "o_comment": pick(o, 9, ["none", "special wrapped requests", "ironic deposits", "quick accounts"]),
    }  # fmt: skip
    returned = np.where(received <= TODAY, draw(line, 10, 2), 2)
    lineitem = {
        "l_orderkey": order, "l_partkey": part,
        "l_suppkey": (part + draw(line, 11, 4) * (suppliers // 4 + 1)) % suppliers,
        "l_linenumber": number, "l_quantity": cents(100 * quantity), "l_extendedprice": cents(price),
        "l_discount": cents(draw(line, 12, 11)), "l_tax": cents(draw(line, 13, 9)),
        "l_returnflag": pa.array(["R", "A", "N"]).take(returned),
        "l_linestatus": pa.array(["F", "O"]).take((shipped > TODAY).astype(np.int64)),
        "l_shipdate": days(shipped), "l_commitdate": days(np.repeat(date, lines) + 30 + draw(line, 14, 61)),
        "l_receiptdate": days(received), "l_shipinstruct": pick(line, 15, INSTRUCTIONS),
        "l_shipmode": pick(line, 16, MODES),
    }  # fmt: skip
    return {"orders": pa.table(orders), "lineitem": pa.table(lineitem)}


def tpch_state(n: int) -> Tables:
    """Return the tables with n orders."""
    customers, parts, suppliers = sizes(n)
    c, p, s = np.arange(customers), np.arange(parts), np.arange(suppliers)
    named = [text.rsplit(" ", 1) for text in NATIONS]
    each, fourth = np.repeat(p, 4), np.tile(np.arange(4), parts)
    nation = draw(c, 21, 25)
    found = {
        "region": {"r_regionkey": np.arange(5), "r_name": REGIONS},
        "nation": {"n_nationkey": np.arange(25), "n_name": [name for name, _ in named],
            "n_regionkey": [int(region) for _, region in named]},
        "supplier": {"s_suppkey": s, "s_name": joined("Supplier#", s), "s_nationkey": draw(s, 22, 25),
            "s_acctbal": cents(draw(s, 23, 1_100_000) - 100_000),
            "s_comment": pick(s, 24, ["fine"] * 20 + ["Customer some Complaints"])},
        "customer": {"c_custkey": c, "c_name": joined("Customer#", c), "c_nationkey": nation,
            "c_phone": joined(nation + 10, "-", draw(c, 25, 1000)),
            "c_acctbal": cents(draw(c, 26, 1_100_000) - 100_000), "c_mktsegment": pick(c, 27, SEGMENTS)},
        "part": {"p_partkey": p, "p_name": joined(pick(p, 28, COLOURS), " ", pick(p, 29, COLOURS)),
            "p_mfgr": joined("Manufacturer#", 1 + draw(p, 30, 5)),
            "p_brand": joined("Brand#", 1 + draw(p, 30, 5), 1 + draw(p, 31, 5)), "p_type": pick(p, 32, TYPES),
            "p_size": 1 + draw(p, 33, 50), "p_container": pick(p, 34, CONTAINERS)},
        "partsupp": {"ps_partkey": each, "ps_suppkey": (each + fourth * (suppliers // 4 + 1)) % suppliers,
            "ps_availqty": 1 + draw(each * 4 + fourth, 35, 9999),
            "ps_supplycost": cents(100 + draw(each * 4 + fourth, 36, 99_901))},
    }  # fmt: skip
    return {**{name: pa.table(columns) for name, columns in found.items()}, **tpch_rows(n, 0, n)}


def tpch_batch(n: int, first: int, size: int) -> Edits:
    """Events are in turns an order that comes and the oldest that goes."""
    start, end = first - n, first - n + size
    coming = tpch_rows(n, n + (start + 1) // 2, n + (end + 1) // 2)
    going = tpch_rows(n, start // 2, end // 2)
    edits = [("insert", name, rows) for name, rows in coming.items()]
    edits += [("delete", name, rows) for name, rows in going.items()]
    return [edit for edit in edits if len(edit[2])]


STREAMS = {
    "nexmark": Stream(NEXMARK_SCHEMA, queries_of("nexmark.sql"), nexmark_state, nexmark_batch),
    "tpch": Stream(TPCH_SCHEMA, queries_of("tpch.sql"), tpch_state, tpch_batch),
}


class Peer:
    """DuckDB with the same tables, of one thread."""

    def __init__(self, stream: Stream, state: Tables) -> None:
        import duckdb

        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute(stream.schema)
        self.edit([("insert", name, rows) for name, rows in state.items()])

    def edit(self, edits: Edits) -> None:
        """Insert rows, and delete those with the same first column."""
        for edit, name, rows in edits:
            self._connection.register("given", rows)
            key = rows.column_names[0]
            where = f"WHERE {key} IN (SELECT {key} FROM given)"
            self._connection.execute(
                f"INSERT INTO {name} FROM given"
                if edit == "insert"
                else f"DELETE FROM {name} {where}"
            )
            self._connection.unregister("given")

    def answer(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, computed anew."""
        return self._connection.execute(query).fetchall()


def bag(rows: Iterable[Sequence[Any]]) -> Counter[tuple[str, ...]]:
    """Return how often each row is there, with numbers to seven digits."""
    return Counter(tuple(map(_plain, row)) for row in rows)


def _plain(value: Any) -> str:
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return f"{float(value):.7g}" if not math.isnan(value) else "nan"
    return value.isoformat() if isinstance(value, datetime) else str(value)


def stored(stream: Stream, state: Tables, file: Path) -> None:
    """Write a file with the tables and their rows."""
    with ivm.open(file, sync="off") as workspace:
        for statement in filter(str.strip, stream.schema.split(";")):
            workspace.sql(statement)
        with workspace.transaction() as txn:
            for name, rows in state.items():
                txn.insert(name, rows)


def measured(
    stream: Stream, query: str, n: int, base: Path, batches: Mapping[int, int]
) -> Measured:
    """Keep a query over a copy of the file, and let batches follow."""
    file = base.with_name("copy.pages")
    shutil.copy(base, file)
    peer, at, found, wrong = Peer(stream, stream.state(n)), n, dict[int, float](), 0
    with closing(ivm.open(file, sync="off", threads=1)) as workspace:
        installed = used(lambda: workspace.sql(f"CREATE MATERIALIZED VIEW answer AS {query}"))
        for size, count in batches.items():
            took = list[float]()
            for _ in range(count):
                edits = stream.batch(n, at, size)
                took.append(used(partial(_follow, workspace, edits)))
                peer.edit(edits)
                at += size
            found[size] = median(took)
            ours = (row.values() for row in workspace["answer"].to_arrow().to_pylist())
            wrong += bag(map(tuple, ours)) != bag(peer.answer(query))
        anew = used(lambda: peer.answer(query))
    return Measured(installed, anew, found, wrong, len(batches))


def used(work: Callable[[], object]) -> float:
    """Return the milliseconds of processor time that work takes; other programs do not count."""
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start)


def _follow(workspace: ivm.Workspace, edits: Edits) -> None:
    with workspace.transaction() as txn:
        for edit, name, rows in edits:
            getattr(txn, edit)(name, rows)


def run(options: argparse.Namespace) -> int:
    """Print a row of a table for each query; return 1 if an answer was wrong."""
    stream, wrong = STREAMS[options.stream], 0
    chosen = options.queries or stream.queries
    sizes = {size: count for size, count in BATCHES.items() if size <= options.batch}
    heads = " | ".join(f"batch of {size:,}, ms" for size in sizes)
    print(
        f"| query, {options.size:,} events | install, ms | {heads} | events/s | anew by DuckDB, ms | wrong |"
    )
    print("|---|---|" + "---|" * (len(sizes) + 3))
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base.pages"
        stored(stream, stream.state(options.size), base)
        for name in chosen:
            one = measured(stream, stream.queries[name], options.size, base, sizes)
            most = max(one.batches)
            cells = [f"{milliseconds:.3g}" for milliseconds in one.batches.values()]
            print(
                f"| {name} | {one.installed:.3g} | {' | '.join(cells)} | {1000 * most / one.batches[most]:,.0f} "
                f"| {one.anew:.3g} | {one.wrong} of {one.compared} |",
                flush=True,
            )
            wrong += one.wrong
    return int(wrong > 0)


STREAMING = Command(run, {
    "stream": {"choices": [*STREAMS], "help": "the queries and their events"},
    "--size": {"type": int, "default": 100_000, "help": "events before the first batch"},
    "--batch": {"type": int, "default": 100_000, "help": "the largest batch, in events"},
    "--queries": {"nargs": "*", "help": "some of them, as q3; all unless given"},
})  # fmt: skip
