"""A table of texts gives each text the id that was said when it came first, through growth and
when it is full.
"""

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import pagestore
from pagestore.values import dictionary_writer
from pagestore.values import dictionary_writer as text_table
from pagestore.values.dictionary_writer import TextTable
from pagestore.values.kernels.text_lookup import HALF, LONG, ODD
from pagestore.values.text_order import PackedTexts
from tests.support.programs.amounts import times


class Ids:
    """Gives ids to texts as a dictionary does, and says which texts were asked for."""

    def __init__(self, texts: list[bytes]) -> None:
        self.texts, self.known, self.asked = texts, dict[bytes, int](), list[bytes]()

    def __call__(self, places: np.ndarray) -> list[int]:
        """The ids of the texts at some places."""
        asked = [self.texts[place] for place in places.tolist()]
        assert len({*asked}) == len(asked)
        self.asked += asked
        return [self.known.setdefault(text, 100 + len(self.known)) for text in asked]


def found(table: TextTable, ids: Ids) -> list[int]:
    """What a table says of all texts, and at once of the same as a slice of an Arrow array."""
    ids_of = table.ids_of(PackedTexts.of(pa.array([b"before", *ids.texts, b"behind"])[1:-1]), ids)
    assert ids_of is not None
    return ids_of.tolist()


TEXTS = st.one_of(
    st.binary(max_size=20),
    st.integers(0, LONG - 1).map(lambda n: b"x" * n),
    st.sampled_from([b"", b"\0", b"a\0", b"a"]),
)


@settings(max_examples=times(100), deadline=None)
@given(st.lists(st.lists(TEXTS, max_size=80), min_size=1, max_size=4))
def test_texts_keep_their_ids(batches):
    table, ids = TextTable(), Ids([])
    for texts in batches:
        ids.texts = texts
        assert found(table, ids) == [ids.known[text] for text in texts]
    assert len(ids.asked) == len(ids.known)  # each once


@pytest.mark.parametrize(
    "limits", [{"FEWEST": 64, "SLOTS_MAX": 256}, {"FEWEST": 256, "WORDS_MAX": 1024}]
)
def test_a_full_table_begins_again(limits, monkeypatch):
    for name, value in limits.items():
        monkeypatch.setattr(text_table, name, value)
    rng = np.random.default_rng(1)
    texts = [b"%d " % n * (n % 40) for n in rng.integers(0, 600, 5000).tolist()]
    table, ids = TextTable(), Ids(texts)
    for _ in range(2):
        assert found(table, ids) == [ids.known[text] for text in texts]
    assert len(ids.asked) > 2 * len(ids.known)


def test_equal_hashes_are_told_apart():
    words = np.random.default_rng(3).permutation(1 << 20)[:200_000] * 7919
    mixed = (words ^ 8) * ODD
    tags = (mixed ^ mixed >> 29) * ODD >> 32 & HALF
    assert len(np.unique(tags)) < len(np.unique(words))
    texts = [word.tobytes() for word in words]
    table, ids = TextTable(), Ids(texts)
    for _ in range(2):
        assert found(table, ids) == [ids.known[text] for text in texts]


def test_a_long_text_is_left_to_others():
    texts = [b"short", b"x" * LONG]
    assert TextTable().ids_of(PackedTexts.of(texts), Ids(texts)) is None


def test_ids_that_were_taken_back_are_not_given(tmp_path, monkeypatch):
    """What a failed savepoint or call has entered is forgotten, so that no text gets an id that
    it does not have.
    """
    monkeypatch.setattr(dictionary_writer, "MANY", 1)
    with (
        pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off") as store,
        store.transaction() as txn,
    ):
        with pytest.raises(ZeroDivisionError), txn.savepoint():
            txn.encode("string", ["ape", "bee"])
            raise ZeroDivisionError
        words = txn.encode("string", ["cow", "ape", "bee", "cow"])
        assert txn.decode("string", words).to_pylist() == ["cow", "ape", "bee", "cow"]
        with monkeypatch.context() as broken:
            broken.setattr(
                dictionary_writer.DictionaryWriter, "_ids_of", lambda self, texts: 1 // 0
            )
            with pytest.raises(ZeroDivisionError):
                txn.encode("string", ["dog", "ape"])
        words = txn.encode("string", ["ape", "dog"])
        assert txn.decode("string", words).to_pylist() == ["ape", "dog"]
