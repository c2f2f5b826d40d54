"""Scans, ranks, complements and intervals of relations, as their users call them."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import reduce
from textwrap import dedent

import numpy as np
import pyarrow as pa
import pytest

import pagestore
from pagestore.errors import ExistsError, MissingError, SchemaError, WordError
from pagestore.pages.layout import SCAN
from pagestore.trees.read import pages_of

pagestore.register_operator("bitor", lambda a, b: a | b, 0)

SCHEMA = "region: int64, store: int64, item: string, price: decimal(12,2), n: int64"
SCANS = [
    "count",
    "sum:price",
    "max:price",
    "argmin:price,item",
    "sum:n",
    "min:n,price",
    "checksum",
    "bitor:n",
]


def sales(rows, seed=0):
    rng = np.random.default_rng(seed)
    regions, prices = (
        rng.integers(0, 50, rows).tolist(),
        rng.integers(-(10**8), 10**8, rows).tolist(),
    )
    numbers = rng.choice([2**62, -5, 17, 3], rows).tolist()
    return sorted(
        (region, i, f"item{p % 89}", Decimal(p) / 100, n)
        for i, (region, p, n) in enumerate(zip(regions, prices, numbers, strict=True))
    )


@pytest.fixture
def store(tmp_path):
    with pagestore.open(tmp_path / "sales.pages") as store:
        with store.transaction() as txn:
            txn.create("sales", SCHEMA, key=("region", "store"), scans=SCANS).insert(sales(4000))
        yield store


def expected(rows):
    """Each scan of some records, the slow way."""
    prices, numbers = [r[3] for r in rows], [r[4] for r in rows]
    return {
        "count": len(rows),
        "sum:price": sum(prices),
        "max:price": max(prices, default=None),
        "argmin:price,item": min(((r[3], r[2]) for r in rows), default=(None, None))[1],
        "sum:n": sum(numbers),
        "min:n,price": min(zip(numbers, prices, strict=True), default=None),
        "bitor:n": reduce(lambda a, b: a | b, numbers, 0),
    }


@pytest.mark.parametrize(
    "lo, hi", [((), ()), ((3,), (30,)), ((7, 200), (7, 900)), ((49,), ()), ((60,), ())]
)
def test_scans_of_ranges(store, lo, hi):
    rows = [r for r in sales(4000) if r[:2] >= lo and (not hi or r[:2] < hi)]
    part = store.snapshot()["sales"].range(lo, hi)
    assert {scan: part.scan(scan) for scan in expected(rows)} == expected(rows)
    assert len(part) == len(rows)


def test_threads_scan_one_relation(tmp_path):
    """Each thread has arrays of its own. Bounds of any form: reversed, at the bounds of a word,
    and beyond.
    """
    with pagestore.open(tmp_path / "s.pages") as store:
        with store.transaction() as txn:
            relation = txn.create("r", "k: int64, v: int64", key="k", scans=["sum:v", "min:v"])
            relation.insert([(k, 3 * k - 50) for k in range(5000)])
        relation = store.snapshot()["r"]
        bounds = np.random.default_rng(1).integers(-10, 5010, (2000, 2)).tolist()

        def wrong(thread):
            for lo, hi in bounds[thread::4]:
                values = [3 * k - 50 for k in range(max(lo, 0), min(hi, 5000))]
                part = relation.range((lo,), hi if thread % 2 else (hi,))
                yield (part.scan("sum:v"), part.scan("min:v")) != (
                    sum(values),
                    min(values, default=None),
                )

        with ThreadPoolExecutor(4) as threads:
            assert not any(threads.map(lambda thread: any(wrong(thread)), range(4)))
        word = 1 << 63
        assert relation.range((-word,), (word - 1,)).scan("sum:v") == relation.scan("sum:v")
        for beyond in (-word - 1, word, 1.5):
            with pytest.raises(WordError):
                relation.range((0,), (beyond,))


def test_scans_of_many_intervals(store):
    relation = store.snapshot()["sales"]
    lo, hi = [(3,), (9,), (70,)], [(5,), (40,), (71,)]
    parts = [[r for r in sales(4000) if a <= r[:1] < b] for a, b in zip(lo, hi, strict=True)]
    for scan in ("count", "sum:price", "max:price", "argmin:price,item", "bitor:n"):
        assert relation.scan_many(scan, lo, hi).to_pylist() == [
            expected(part)[scan] for part in parts
        ]
    least = relation.scan_many("min:n,price", lo, hi).to_pylist()
    assert [value and tuple(value.values()) for value in least] == [
        expected(p)["min:n,price"] for p in parts
    ]
    columns = relation.scan_many("count", [np.array([3, 9, 70])], [np.array([5, 40, 71])])
    assert columns.to_pylist() == [len(part) for part in parts]
    with pytest.raises(WordError, match=r"interval 0: the sum of 'n' is \d+, beyond 64 bits"):
        relation.scan_many("sum:n", lo, hi)


def test_ranks(store):
    relation, rows = store.snapshot()["sales"], sales(4000)
    part = relation.range((3,), (30,))
    inside = [r for r in rows if 3 <= r[0] < 30]
    assert [relation.select(i) for i in (0, 17, -1)] == [rows[0], rows[17], rows[-1]]
    assert [part.select(i) for i in (0, 17, -1)] == [inside[0], inside[17], inside[-1]]
    assert part.rank((5,)) == sum(r[0] < 5 for r in inside)
    assert [part.rank((1,)), part.rank((40,))] == [0, len(inside)]
    assert all(relation.rank(row[:2]) == i for i, row in enumerate(rows[:50]))
    with pytest.raises(IndexError, match="rank 4000 of 4000 records"):
        relation.select(4000)


def test_checksums_compare_versions(store):
    with store.transaction() as txn:
        txn["sales"].set([(5, 1, "x", Decimal(1), 1)])
    old, new = store.at(1)["sales"], store.at(2)["sales"]
    assert old.range((6,)).scan("checksum") == new.range((6,)).scan("checksum")
    assert old.range((5,), (6,)).scan("checksum") != new.range((5,), (6,)).scan("checksum")
    with store.transaction() as txn:
        txn["sales"].delete([(5, 1)])
    assert store.at(3)["sales"].scan("checksum") == old.scan("checksum")


def test_scans_come_and_go(store):
    with store.transaction() as txn:
        txn.add_scan("sales", "min:n")
        txn.drop_scan("sales", "bitor:n")
    relation = store.snapshot()["sales"]
    assert relation.range((9,), (12,)).scan("min:n") == -5
    assert relation.scans == [*SCANS[:-1], "min:n"]
    assert store.at(1)["sales"].scan("bitor:n") == 2**62 | -5 | 17 | 3
    assert list(relation) == sales(4000)
    assert pa.table(store.diff(1, 2, "sales")).num_rows == 0
    assert store.check() == []
    with pytest.raises(
        MissingError, match="'sales' has no scan 'bitor:n'; it has count, sum:price"
    ):
        relation.scan("bitor:n")
    with (
        pytest.raises(ExistsError, match="has the scan 'min:n' already"),
        store.transaction() as txn,
    ):
        txn.add_scan("sales", "min:n")


def test_scans_added_between_edits(tmp_path):
    """One transaction edits, adds a scan, and edits again; the version before lacks the scan,
    and its error says so.
    """
    row = (9, 1, "x", Decimal("-5"), 3)
    with pagestore.open(tmp_path / "s.pages") as store:
        with store.transaction() as txn:
            txn.create("sales", SCHEMA, key=("region", "store"), scans="sum:n").insert(sales(300))
        with store.transaction() as txn:
            txn["sales"].delete([r[:2] for r in sales(300)[:100]])
            txn.add_scan("sales", "sum:price")
            txn.add_scan("sales", "count")
            txn["sales"].insert([row])
            left = sorted([*sales(300)[100:], row])
            assert txn["sales"].scan("sum:price") == sum(r[3] for r in left)
        assert store.snapshot()["sales"].scan("sum:price") == sum(r[3] for r in left)
        assert store.snapshot()["sales"].select(-1) == left[-1]
        changes = pa.table(store.diff(1, 2, "sales"))
        assert sorted(changes["_change_type"].to_pylist()) == ["delete"] * 100 + ["insert"]
        old = store.at(1)["sales"]
        assert (old.scan("sum:n"), len(old)) == (sum(r[4] for r in sales(300)), 300)
        with pytest.raises(
            MissingError, match="no scan 'sum:price'; it has sum:n; txn.add_scan adds it, from that"
        ):
            old.scan("sum:price")
        with pytest.raises(MissingError, match="txn.add_scan adds one, from that commit on"):
            old.rank((3,))


def test_a_process_without_the_operator(tmp_path):
    """Calls that fold are refused with the operator's name; records can be read, and the scan
    dropped.
    """
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        relation = txn.create("r", "a: int64, b: int64", key="a", scans=["count", "bitor:b"])
        relation.insert([(i, i) for i in range(99)])
    script = """
        import sys, pagestore
        from pagestore.errors import MissingError
        with pagestore.open(sys.argv[1]) as store:
            def refused(act):
                try: act()
                except MissingError as error: print(error)
            def insert():
                with store.transaction() as txn: txn["r"].insert([(100, 1)])
            def scan(): store.snapshot()["r"].scan("bitor:b")
            refused(insert), refused(scan)
            print(store.snapshot()["r"].scans, len(list(store.snapshot()["r"])))
            with store.transaction() as txn: txn.drop_scan("r", "bitor:b")
            insert()
            print(store.snapshot()["r"].scan("count"), store.version)
    """
    run = subprocess.run(
        [sys.executable, "-c", dedent(script), tmp_path / "s.pages"],
        capture_output=True,
        text=True,
        check=True,
    )
    missing = "this process has no scan operator 'bitor'; call pagestore.register_operator first"
    assert run.stdout.splitlines() == [missing, missing, "['count', 'bitor:b'] 99", "100 3"]


def test_bounds_that_make_no_sense(store):
    relation = store.snapshot()["sales"]
    with pytest.raises(
        SchemaError, match="2 lower and 1 upper bounds; scan_many takes them in pairs"
    ):
        relation.scan_many("count", [(1,), (2,)], [(3,)])
    with pytest.raises(SchemaError, match="bounds in columns of 2, 1 values"):
        relation.scan_many("count", [np.array([1, 2]), np.array([3])])
    with pytest.raises(SchemaError, match="of several lengths"):
        relation.scan_many("count", [(1,), (2, 3)])
    with pytest.raises(TypeError, match="integer"):
        relation.select(2.5)
    assert relation.scan_many("count", [], []).to_pylist() == []


@pytest.mark.parametrize(
    "scan, error",
    [
        ("sum:q", "no column 'q'; there is region"),
        ("sum:item", "a sum is of int64 or of decimals of at most 18 digits"),
        ("sum", 'use "count"'),
        ("argmax:n", 'use "count"'),
        ("foo:n", "no scan operator 'foo'; call pagestore.register_operator"),
        ("Sum:n", "or a registered operator"),
        (None, "scan None: use"),
    ],
)
def test_scans_that_make_no_sense(store, scan, error):
    with pytest.raises((SchemaError, MissingError), match=error):
        store.snapshot()["sales"].scan(scan)
    with pytest.raises((SchemaError, MissingError), match=error), store.transaction() as txn:
        txn.create("other", SCHEMA, scans=[scan])


def test_operators_have_proper_names():
    with pytest.raises(SchemaError, match="2 to 7 letters"):
        pagestore.register_operator("bit_or", lambda a, b: a | b, 0)
    with pytest.raises(SchemaError, match="none of count"):
        pagestore.register_operator("sum", lambda a, b: a + b, 0)
    with pytest.raises(ExistsError, match="operator 'bitor' already"):
        pagestore.register_operator("bitor", lambda a, b: a | b, 0)


def test_check_finds_a_wrong_fold(store):
    """A node of a ScanTree is increased by one, under a corrected checksum."""
    import crc32c

    snap = store.snapshot()
    page_words = snap.pages.page_words
    leaf = int(pages_of(snap.pages, snap["sales"].tree)[1])
    snap.close()
    path = store.path
    store.close()
    words = np.fromfile(path, np.int64).reshape(-1, page_words)
    area = int(words[leaf, SCAN]) >> 8 & 0xFFFFFF
    assert area
    # the base of the nodes of sum:price, behind those of starts and count
    words[leaf, area + 4] += 1
    words[leaf, 0] = crc32c.crc32c(words[leaf, 1:].tobytes())
    words.tofile(path)
    with pagestore.open(path) as reopened:
        assert "scan tree" in {violation.invariant for violation in reopened.check()}


# --- complements --------------------------------------------------------------------------------


def test_complement_of_a_relation(store):
    rows = sales(4000)
    with store.transaction() as txn:
        seen = txn.create("seen", "r: int64, s: int64", scans=["count"])
        seen.insert([row[:2] for row in rows if row[1] % 97])
        assert list(txn["sales"].complement(seen)) == [row for row in rows if row[1] % 97 == 0]
    snap = store.snapshot()
    part = snap["sales"].range((10,), (20,))
    assert list(part.complement(snap["seen"])) == [
        r for r in rows if r[1] % 97 == 0 and 10 <= r[0] < 20
    ]
    with pytest.raises(SchemaError, match="is not a subset"):
        next(snap["seen"].complement(snap["seen"].range((1,))))


# --- intervals ----------------------------------------------------------------------------------


@pytest.fixture
def booked(tmp_path):
    rng = np.random.default_rng(5)
    rows = {
        (f"room {r}", a, a + d, i)
        for i, (r, a, d) in enumerate(
            zip(*(rng.integers(0, m, 3000).tolist() for m in (4, 1000, 30)), strict=True)
        )
    }
    schema = "room: string, a: int64, b: int64, who: int64"
    with pagestore.open(tmp_path / "rooms.pages") as store:
        with store.transaction() as txn:
            txn.create_intervals("booked", schema, ("a", "b"), scans=["count"]).insert(sorted(rows))
        yield store, rows


def test_stabs(booked):
    store, rows = booked
    relation = store.snapshot()["booked"]
    for room, x in [("room 1", 500), ("room 3", 0), ("room 9", 500)]:
        assert set(relation.stab(room, x)) == {
            r for r in rows if r[0] == room and r[1] <= x <= r[2]
        }
        near = {r for r in rows if r[0] == room and r[1] <= x + 20 and x <= r[2]}
        assert set(relation.overlaps(room, x, x + 20)) == near
    points = [("room 0", 10), ("room 0", 11), ("room 2", 700)]
    hit = {r for r in rows if any(r[0] == room and r[1] <= x <= r[2] for room, x in points)}
    found = relation.stab_many(points).to_pylist()
    assert {tuple(r.values()) for r in found} == hit and len(found) == len(hit)
    assert relation.stab_many([]).num_rows == 0


def test_stabbed_records_go_in_the_same_pass(booked):
    store, rows = booked
    with store.transaction() as txn:
        gone = txn["booked"].remove_stabbed([["room 1", 500], ["room 2", 20]]).to_pylist()
        later = txn["booked"].remove_overlaps([("room 0", 100, 300)]).to_pylist()
    gone = {tuple(r.values()) for r in gone + later}
    assert gone == {
        r
        for r in rows
        if (r[0] == "room 1" and r[1] <= 500 <= r[2])
        or (r[0] == "room 2" and r[1] <= 20 <= r[2])
        or (r[0] == "room 0" and r[1] <= 300 and r[2] >= 100)
    }
    assert set(store.snapshot()["booked"]) == rows - gone
    assert store.check() == []


def test_what_cannot_be_stabbed(booked, store):
    relation = booked[0].snapshot()["booked"]
    with pytest.raises(
        SchemaError, match=r"points of 1 values for 'booked'; a point is \(room, x\)"
    ):
        relation.stab(5)
    with pytest.raises(SchemaError, match=r"a point is \(room, lo, hi\)"):
        relation.overlaps("room 1", 5)
    with pytest.raises(SchemaError, match="holds no intervals"):
        store.snapshot()["sales"].stab(5)
    with pytest.raises(SchemaError, match="whole relation"):
        relation.prefix("room 1").stab("room 1", 5)
    with pytest.raises(
        SchemaError, match=r"points of 0 values for 'booked'; a point is \(room, x\)"
    ):
        relation.stab()
    with pytest.raises(SchemaError, match="points in columns of 2, 1 values"):
        relation.stab_many([np.array(["room 1", "room 2"]), np.array([5])])
    with pytest.raises(SchemaError, match="needs the max scan"), booked[0].transaction() as txn:
        txn.drop_scan("booked", "max:b")
    with (
        pytest.raises(
            SchemaError, match="ends of one type that is never null are wanted, not int64 and"
        ),
        store.transaction() as txn,
    ):
        txn.create_intervals("mixed", "a: int64, b: date", ("a", "b"))


def test_stabs_at_any_version(booked):
    store, rows = booked
    with store.transaction() as txn:
        txn["booked"].remove_stabbed([("room 1", 500)])
        txn["booked"].insert([("room 1", 500, 501, -1)])
        assert txn["booked"].stab("room 1", 500) == [("room 1", 500, 501, -1)]
    then = {r for r in rows if r[0] == "room 1" and r[1] <= 500 <= r[2]}
    assert set(store.at(1)["booked"].stab("room 1", 500)) == then
    assert store.at(2)["booked"].stab("room 1", 500) == [("room 1", 500, 501, -1)]
