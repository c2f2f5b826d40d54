"""The order of texts: ranks and keys against a sorted list, new texts in full gaps, and what
they cost.
"""

import random

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pagestore
from pagestore.values import dictionary, dictionary_writer, text_order
from pagestore.values import dictionary_writer as text_labels
from pagestore.values.text_order import (
    LABELS,
    ORDER,
    PLACES_KEPT,
    PackedTexts,
    SortedOrder,
    StoredOrder,
    TextOrder,
    merged_ranks,
    ranked,
)
from tests.support.programs.amounts import times


@pytest.fixture
def store(tmp_path):
    with pagestore.open(tmp_path / "store.pages", page_size=4096, sync="off") as store:
        with store.transaction() as txn:
            txn.create("word", "text: bytes")
        yield store


def interned(store, texts):
    with store.transaction() as txn:
        txn["word"].insert(list(texts))


def assert_right(order, texts):
    """An order says what a sorted list of its texts says."""
    texts = sorted(texts)
    assert order.count == len(texts)
    ids = order.slice(0, order.count)
    assert order._dictionary.loaded(ids) == texts
    assert (np.diff(order.keys(ids)) > 0).all()
    for start, stop in ((0, 1), (3, 3), (len(texts) // 2, len(texts)), (5, 2)):
        assert order._dictionary.loaded(order.slice(start, stop)) == texts[start:stop]
    places = np.arange(0, len(texts), 7)
    assert order._dictionary.loaded(order.ids(places)) == texts[::7]
    for text in [*texts[::5], b"", b"\0", b"\xff" * 9, *(text + b"\0" for text in texts[::9])]:
        expected = sum(other < text for other in texts)
        assert order.rank(text) == expected
        assert [*(order.keys(ids) < order.threshold(text))] == [other < text for other in texts]
    some = sorted({*texts[::3], *(text[:-1] for text in texts[::4]), b"zz"})
    assert order.ranks(PackedTexts.of(some)).tolist() == [
        sum(other < text for other in texts) for text in some
    ]


@pytest.mark.parametrize("at_once", [37, 1 << 16])
def test_an_order_is_that_of_a_sorted_list(store, at_once, monkeypatch):
    monkeypatch.setattr(text_order, "READ_AT_ONCE", at_once)
    seed = random.Random(1)
    texts = set()
    for n in (1, 1, 5, 400, 3, 900):
        new = {seed.randbytes(seed.choice([0, 1, 2, 3, 9, 1030])) for _ in range(n)} - texts
        interned(store, new)
        texts |= new
        assert_right(store.snapshot().dictionary.order, texts)
    assert store.check() == []


def test_an_order_is_sorted_where_none_is_kept(store):
    texts = {b"%d" % (n * n) for n in range(200)}
    interned(store, texts)
    with store.snapshot() as snapshot:
        kept = snapshot.dictionary
        assert isinstance(kept.order, StoredOrder)
        trees = {
            number: tree
            for number, tree in kept._trees.items()
            if number not in (ORDER.tree_id, LABELS.tree_id)
        }
        without = dictionary.Dictionary(kept._pages, trees, kept._mapping)
        assert isinstance(without.order, SortedOrder)
        assert_right(without.order, texts)
        nothing = dictionary.Dictionary(kept._pages, {}, kept._mapping)
        assert nothing.order.rank(b"a") == nothing.order.count == 0


def test_few_places_are_kept(store):
    interned(store, [b"%05d" % n for n in range(3000)])
    order = store.snapshot().dictionary.order
    for n in range(3000):
        assert order.rank(b"%05d" % n) == n
    assert len(order._kept) <= PLACES_KEPT + 16


@pytest.mark.parametrize("forwards", [True, False])
def test_a_gap_is_halved_until_nothing_is_between_and_room_is_made(store, forwards, monkeypatch):
    """Each text goes between the two before it: after 62 of them nothing is between."""
    moved = []
    make_room = text_labels.make_room

    def counted(order, left, ids, replace):
        make_room(
            order,
            left,
            ids,
            lambda before, after: (moved.append(before.shape[1]), replace(before, after)),
        )

    monkeypatch.setattr(dictionary_writer, "make_room", counted)
    low, texts = b"", [b"\xff"]
    interned(store, texts)
    for n in range(400):
        digit = b"\x40" if (n % 2) == forwards else b"\x80"
        text = low + b"\x60"
        texts.append(text)
        interned(store, [text])
        low = low + digit if digit < b"\x60" else text
    assert_right(store.snapshot().dictionary.order, texts)
    assert store.check() == []
    assert moved and sum(moved) < len(texts) * np.log2(len(texts)) ** 2
    assert list(store.snapshot()["word"]) == [(text,) for text in sorted(texts)]


def test_texts_in_ascending_or_descending_order_move_none(store, monkeypatch):
    monkeypatch.setattr(dictionary_writer, "make_room", None)
    for n in range(300):
        interned(store, [b"order-%08d" % (5000 + n), b"order-%08d" % (5000 - n)])
    assert store.check() == []


def test_many_texts_in_a_full_gap(store, monkeypatch):
    """Labels are one apart, and a gap takes more texts than the universe of their neighbours
    has.
    """
    monkeypatch.setattr(text_labels, "STRIDE", 1)
    interned(store, [b"a", b"c", b"e"])
    texts = {b"a", b"c", b"e"} | {
        b"%s%03d" % (letter, n) for letter in (b"a", b"c", b"e", b"A") for n in range(300)
    }
    interned(store, texts)
    assert_right(store.snapshot().dictionary.order, texts)
    assert store.check() == []


def test_labels_concern_no_row_and_no_other_version(store):
    """Where texts get other labels, no page of a relation is written, and older versions are
    read as before.
    """
    store.retain = "all"
    interned(store, [b"a", b"b"])
    before = store.version
    old = store.snapshot()["word"].tree.pointer
    with store.transaction() as txn:
        for n in range(200):
            txn.encode("bytes", [b"a" * n + b"b"])
            txn.dictionary.settle()
    assert store.snapshot()["word"].tree.pointer == old
    assert list(store.at(before)["word"]) == [(b"a",), (b"b",)]
    assert store.check() == []


def test_a_label_that_is_out_of_order_is_found(store):
    interned(store, [b"a", b"b", b"c"])
    with store.transaction() as txn:
        words = txn.dictionary
        order = words.order
        ids, labels = order.slice(0, 3), order.keys(order.slice(0, 3))
        words._relabel(np.stack([labels, ids]), np.stack([labels, ids[[1, 0, 2]]]))
    (violation,) = store.check()
    assert (
        violation.invariant == "dictionary"
        and "is not above the one that stands before it" in violation.fact
    )
    with store.transaction() as txn:
        txn.dictionary._apply(LABELS, np.array([[int(ids[0])], [5]]), 2)
    (violation,) = store.check()
    assert violation.fact == "the order of texts and their labels do not say the same"


class Numbers(TextOrder):
    """An order of 2^60 texts that nobody stores: that at rank r is r, as 8 bytes."""

    def __init__(self) -> None:
        super().__init__(1 << 60, self)

    def loaded(self, ids: np.ndarray) -> list[bytes]:
        return [int(rank).to_bytes(8, "big") for rank in ids]

    def id_of(self, text: bytes) -> int:
        return 0

    def ids(self, ranks: np.ndarray) -> np.ndarray:
        return ranks

    def _key_of(self, id_: int) -> None:
        return None


def test_a_search_takes_no_room_for_the_texts_between():
    order = Numbers()
    for rank in (0, 1, 12345678901234567, (1 << 60) - 1):
        assert order.rank(rank.to_bytes(8, "big")) == rank
        assert order.rank(rank.to_bytes(8, "big") + b"x") == rank + 1


@settings(max_examples=times(200))
@given(
    st.sets(
        st.one_of(
            st.binary(max_size=20),
            st.lists(
                st.sampled_from([b"a", b"\0", b"\xff", b"slyly ", b"12345678"]), max_size=12
            ).map(b"".join),
            st.integers(0, 3).map(lambda n: b"x" * 1500 + bytes(n)),
        ),
        max_size=60,
    ),
    st.randoms(),
)
def test_texts_are_ranked_as_python_does(texts, chance):
    """Of those that differ after a few bytes, after many, and by trailing zeros."""
    shuffled = sorted(texts)
    chance.shuffle(shuffled)
    packed = PackedTexts.of(shuffled)
    order = ranked(packed)
    assert [shuffled[i] for i in order.tolist()] == sorted(texts)
    known = PackedTexts.of(sorted(shuffled[::2]))
    below = [sum(other < text for other in shuffled[::2]) for text in sorted(texts)]
    assert merged_ranks(known, packed.at(order)).tolist() == below
