"""Strings and bytes in keys have no order: calls that would rely on one are refused by name, all others are right."""

import itertools
import operator

import pytest

import pagestore
from pagestore.errors import SchemaError

YEARS = range(2010, 2014)
ITEMS = ["tea", "cake", "zebra", "apple"]  # as they are given ids


@pytest.fixture(params=["string", "bytes"])
def store(request, tmp_path):
    text = str if request.param == "string" else str.encode
    with pagestore.open(tmp_path / "store.pages", sync="off") as store:
        with store.transaction() as txn:
            price = txn.create("price", f"shop: int64, item: {request.param}, year: int64", scans="count")
            price.insert([(shop, text(item), year) for shop in (1, 2) for item in ITEMS for year in YEARS])
            word = txn.create("word", f"item: {request.param}", scans="count")
            word.insert([(text(item),) for item in ITEMS])
        store.text = text
        yield store


def test_what_would_be_in_the_order_of_texts_is_refused(store):
    price, word, text = store.snapshot()["price"], store.snapshot()["word"], store.text
    tea, cake = text("tea"), text("cake")
    for wrong in (
        lambda: word.range((cake,), (tea,)),
        lambda: word.range((cake,)),
        lambda: word.range((), (tea,)),
        lambda: word[cake:],
        lambda: word.rank(tea),
        lambda: word.select(0),
        lambda: word.scan_many("count", [cake], [tea]),
        lambda: word.scan_many("count", [cake]),
        lambda: price.range((1, cake), (2,)),
        lambda: price.range((1, cake), (2, cake)),
        lambda: price.range((1, cake), (1, tea)),
        lambda: price.range((1, cake, 2011)),
        lambda: price.range((1,), (2,)).range((1, cake), (1,)),
        lambda: price.prefix(1).range((1, cake)),
        lambda: price.prefix(1, tea).range((1, cake)),
        lambda: price.rank((1, tea)),
        lambda: price.prefix(1, cake).rank((1, tea)),
        lambda: price.prefix(1).select(3),
        lambda: price.scan_many("count", [(1, tea), (1, tea)], [(1, tea), (1, cake)]),
        lambda: price.scan_many("count", [(1, tea)], [(2, tea)]),
    ):
        with pytest.raises(SchemaError, match=r"^'item' of '(price|word)' is a (string|bytes), .*prefix\(\.\.\.\)"):
            wrong()


def test_what_shares_the_texts_is_as_it_should_be(store):
    price, text = store.snapshot()["price"], store.text
    rows = [*price]
    for shop, item in itertools.product((1, 2, 3), [*ITEMS, "nowhere"]):
        own = sorted(row for row in rows if row[:2] == (shop, text(item)))
        part = price.prefix(shop, text(item))
        assert list(part) == own and len(part) == part.scan("count") == len(own)
        assert [part.select(i) for i in range(len(own))] == own
        for lo, hi in itertools.combinations([2009, *YEARS, 2099], 2):
            some = [row for row in own if lo <= row[2] < hi]
            assert list(price.range((shop, text(item), lo), (shop, text(item), hi))) == some
            assert list(part.range((shop, text(item), lo)).range((), (shop, text(item), hi))) == some
            bounds = [(shop, text(item), lo)], [(shop, text(item), hi)]
            assert price.scan_many("count", *bounds).to_pylist() == [len(some)]
            assert part.rank((shop, text(item), hi)) - part.rank((shop, text(item), lo)) == len(some)
    assert sorted(price.range((1,), (2,))) == sorted(price.prefix(1)) == sorted(r for r in rows if r[0] == 1)
    assert price.rank((2,)) == len(rows) // 2
    assert list(price.range((1, text("tea")), (1, text("tea")))) == []
    assert sorted(price.prefix()) == sorted(rows)


def test_a_prefix_at_the_ends_of_words(tmp_path):
    ends = [-(2**63), -1, 0, 2**63 - 1]
    with pagestore.open(tmp_path / "ends.pages", sync="off") as store, store.transaction() as txn:
        pair = txn.create("pair", "x: int64, y: int64")
        pair.insert([*itertools.product(ends, ends)])
        for n in (0, 1, 2):
            for key in itertools.product(ends, repeat=n):
                expected = [row for row in pair if operator.eq(row[:n], key)]
                assert list(pair.prefix(*key)) == expected
