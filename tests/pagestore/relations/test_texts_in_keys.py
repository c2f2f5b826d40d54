"""Strings and bytes in keys: every call that relies on an order relies on the order of their
bytes.
"""

import itertools
import operator
import random

import numpy as np
import pyarrow as pa
import pytest

import pagestore
from pagestore.errors import SchemaError, WordError
from pagestore.relations import texts as text_keys

YEARS = range(2010, 2014)
# as they are given ids
ITEMS = ["tea", "cake", "zebra", "apple", "teas", "", "tea\0", "\U00010000", "é"]


def as_bytes(row):
    return tuple(value.encode() if isinstance(value, str) else value for value in row)


@pytest.fixture(params=["string", "bytes"])
def store(request, tmp_path):
    text = str if request.param == "string" else str.encode
    with pagestore.open(tmp_path / "store.pages", sync="off") as store:
        with store.transaction() as txn:
            price = txn.create(
                "price",
                f"shop: int64, item: {request.param}, year: int64",
                scans=["count", "checksum"],
            )
            price.insert(
                [(shop, text(item), year) for shop in (1, 2) for item in ITEMS for year in YEARS]
            )
            word = txn.create("word", f"item: {request.param}", scans="count")
            word.insert([(text(item),) for item in ITEMS])
        store.text = text
        yield store


def bounds(text):
    """Bounds of all kinds: texts that exist and others, at any place, or none."""
    for shop, item in itertools.product((0, 1, 2, 3), [*ITEMS, "nowhere", "tea\0\0", "tea\x7f"]):
        yield from [(shop, text(item)), (shop, text(item), 2011)]
    yield from [(), (1,), (2,), (-(2**63),), (2**63 - 1,)]


def test_ranges_are_in_the_order_of_texts(store):
    price = store.snapshot()["price"]
    rows = sorted(price, key=as_bytes)
    assert list(price) == rows == list(reversed(price))[::-1]
    assert price.to_arrow().to_pylist() == [
        dict(zip(("shop", "item", "year"), row, strict=True)) for row in rows
    ]
    checksums = {row: price.prefix(*row).scan("checksum") for row in rows}
    pairs = [*itertools.product([*bounds(store.text)], repeat=2)]
    for lo, hi in random.Random(2).sample(pairs, 400):
        low, high = as_bytes(lo), as_bytes(hi)
        some = [row for row in rows if as_bytes(row) >= low and (not hi or as_bytes(row) < high)]
        part = price.range(lo, hi)
        assert (
            list(part) == some
            and len(part) == part.scan("count") == len(some)
            and bool(part) == bool(some)
        )
        assert (part.first(), part.last()) == ((some[0], some[-1]) if some else (None, None))
        assert (part.scan("checksum") - sum(map(checksums.__getitem__, some))) % 2**64 == 0
        for row in some[:: len(some) // 3 + 1]:
            assert (
                row in part
                and part.rank(row) == some.index(row)
                and part.select(some.index(row)) == row
            )
        for row in rows[::17]:
            assert (row in part) == (row in some)
        found, _ = part.get_many([*rows])
        assert found.tolist() == [row in some for row in rows]
        assert list(part.range(lo).range((), hi)) == some


def test_scans_of_many_intervals(store):
    price, word, text = store.snapshot()["price"], store.snapshot()["word"], store.text
    names = sorted(map(text, ITEMS), key=lambda t: t if isinstance(t, bytes) else t.encode())
    lows, highs = names[:-1], names[1:]
    assert word.scan_many("count", lows, highs).to_pylist() == [1] * len(lows)
    assert word.scan_many("count", lows).to_pylist() == [*range(len(names), 1, -1)]
    assert word.scan_many("max:item", (), highs).to_pylist() == lows
    assert word.scan_many("max:item", pa.array(lows), np.array(highs, object)).to_pylist() == lows
    some = price.scan_many("count", [(1, low) for low in lows], [(2, high) for high in highs])
    each = [len(price.range((1, low), (2, high))) for low, high in zip(lows, highs, strict=True)]
    assert some.to_pylist() == each
    assert word.scan_many("min:item", [text("zzz")], [text("a")]).to_pylist() == [None]


def test_least_and_greatest_texts(store):
    price, text = store.snapshot()["price"], store.text
    least, greatest = text(""), text("\U00010000")
    assert (price.scan("min:item"), price.scan("max:item")) == (least, greatest)
    assert (
        price.scan("max:item,year") == (greatest, 2013) and price.scan("argmin:item,year") == 2010
    )
    assert price.prefix(1, text("tea")).scan("max:item") == text("tea")
    assert price.range((9,)).scan("max:item") is None
    with (
        pytest.raises(SchemaError, match="fold them without one, by scan"),
        store.transaction() as txn,
    ):
        txn.add_scan("price", "max:item")


def test_what_begins_with_a_text(store):
    price, word, text = store.snapshot()["price"], store.snapshot()["word"], store.text
    for start in ["", "t", "tea", "teas", "tea\0", "x", "\U00010000"]:
        expected = [row for row in word if row[0].startswith(text(start))]
        assert list(word.starts_with(text(start))) == expected
        assert [row[1:2] for row in price.starts_with(2, text(start)) if row[2] == 2012] == expected
    for wrong in ((), (1,), (1, text("tea"), 2012)):
        with pytest.raises(SchemaError, match="has to be one of a text"):
            price.starts_with(*wrong)
    with pytest.raises(WordError, match="'item', row 0: 3"):
        price.starts_with(1, 3)


def test_the_end_of_what_begins_with_the_greatest_bytes(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        pair = txn.create("pair", "n: int64, text: bytes")
        texts = [b"", b"\xff", b"\xff\xff", b"\xff\xff\x01", b"\xfe\xff", b"a\xff", b"b"]
        pair.insert([*itertools.product([2**63 - 1, 1], texts)])
        for n, start in itertools.product([2**63 - 1, 1], texts):
            assert list(pair.starts_with(n, start)) == [
                (n, t) for t in sorted(texts) if t.startswith(start)
            ]


def test_a_range_of_a_transaction_has_what_comes_later(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        word = txn.create("word", "word: string")
        part, prefix = word.range(("b",), ("d",)), word.starts_with("c")
        for name in ("e", "cc", "a", "c", "d", "b"):
            word.insert([name])
            assert list(part) == [(w,) for (w,) in sorted(word) if "b" <= w < "d"]
            assert list(prefix) == [(w,) for (w,) in sorted(word) if w[0] == "c"]


def test_what_shares_the_texts_is_one_piece_of_the_tree(store, monkeypatch):
    monkeypatch.setattr(text_keys.TextRange, "inside", None)
    price, text = store.snapshot()["price"], store.text
    rows = [*price]
    for shop, item in itertools.product((1, 2, 3), [*ITEMS, "nowhere"]):
        own = [row for row in rows if row[:2] == (shop, text(item))]
        part = price.prefix(shop, text(item))
        assert list(part) == own and len(part) == part.scan("count") == len(own)
        assert [part.select(i) for i in range(len(own))] == own
        for lo, hi in itertools.combinations([2009, *YEARS, 2099], 2):
            some = [row for row in own if lo <= row[2] < hi]
            assert list(price.range((shop, text(item), lo), (shop, text(item), hi))) == some
            assert (
                list(part.range((shop, text(item), lo)).range((), (shop, text(item), hi))) == some
            )
            both = [(shop, text(item), lo)], [(shop, text(item), hi)]
            assert price.scan_many("count", *both).to_pylist() == [len(some)]
            assert part.rank((shop, text(item), hi)) - part.rank((shop, text(item), lo)) == len(
                some
            )
    assert list(price.range((1,), (2,))) == list(price.prefix(1)) == [r for r in rows if r[0] == 1]
    assert price.rank((2,)) == len(rows) // 2
    assert list(price.range((1, text("tea")), (1, text("tea")))) == []
    assert list(price.prefix()) == rows


@pytest.mark.parametrize("schema", ["text: string, v: int64", "text: string, n: int64, v: int64"])
def test_large_relations_are_read_piece_by_piece(tmp_path, monkeypatch, schema):
    """Few of many texts are looked up; many are read in the order that the dictionary has."""
    monkeypatch.setattr(text_keys, "SORTED_AT_ONCE", 100)
    seed, key = (
        random.Random(3),
        schema.replace(": string", "").replace(": int64", "").split(", ")[:-1],
    )
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            relation = txn.create("r", schema, key=key)
            txn.encode("string", [f"other {n}" for n in range(500)])
            rows = {f"{seed.randrange(10**6):06}": n for n in range(3000)}
            whole = [
                (text, *([n % 7] if len(key) > 1 else []), n) for text, n in sorted(rows.items())
            ]
            relation.insert(seed.sample(whole, len(whole)))
        relation = store.snapshot()["r"]
        assert list(relation) == whole and list(relation.range_head(20)) == whole[:20]
        for lo, hi in [("5", "51"), ("0", "5"), ("999", "9999999"), ("3", "3")]:
            assert list(relation.range((lo,), (hi,))) == [row for row in whole if lo <= row[0] < hi]
            assert (
                list(relation.range((lo,)).range_head(3))
                == [row for row in whole if lo <= row[0]][:3]
            )
        assert [row for batch in relation.words(rows=70) for row in batch[-1].tolist()] == [
            row[-1] for row in whole
        ]


def test_complements_and_stabs_are_in_order(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        some, whole = (
            txn.create(name, "word: string", scans="count") for name in ("some", "whole")
        )
        names = [f"{n * n % 97:02}" for n in range(40)]
        whole.insert(names)
        some.insert(names[::3])
        left = sorted((name,) for name in {*names} - {*names[::3]})
        assert list(whole.complement(some)) == left
        assert list(whole.range(("2",), ("5",)).complement(some)) == [
            row for row in left if "2" <= row[0] < "5"
        ]
        booked = txn.create_intervals(
            "booked", "room: string, a: int64, b: int64, who: string", ("a", "b")
        )
        booked.insert(
            [("west", 1, 5, "Cy"), ("west", 1, 5, "Al"), ("east", 1, 9, "Bo"), ("east", 6, 9, "Di")]
        )
        assert booked.stab_many([("west", 3), ("east", 7)]).column(3).to_pylist() == [
            "Bo",
            "Di",
            "Al",
            "Cy",
        ]
        assert booked.overlaps("west", 2, 3) == [("west", 1, 5, "Al"), ("west", 1, 5, "Cy")]
        assert booked.remove_stabbed([("west", 3), ("east", 1)]).column(3).to_pylist() == [
            "Bo",
            "Al",
            "Cy",
        ]


def test_a_prefix_at_the_ends_of_words(tmp_path):
    ends = [-(2**63), -1, 0, 2**63 - 1]
    with pagestore.open(tmp_path / "ends.pages", sync="off") as store, store.transaction() as txn:
        pair = txn.create("pair", "x: int64, y: int64")
        pair.insert([*itertools.product(ends, ends)])
        for n in (0, 1, 2):
            for key in itertools.product(ends, repeat=n):
                expected = [row for row in pair if operator.eq(row[:n], key)]
                assert list(pair.prefix(*key)) == expected
