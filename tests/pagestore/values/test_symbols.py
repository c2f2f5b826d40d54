"""Packed texts are what they were, wherever they are read; what packs them is kept with the store."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import pagestore
from pagestore.errors import CorruptionError
from pagestore.trees.kernels.node_buffer import ERASE
from pagestore.values import dictionary_writer
from pagestore.values.kernels.text_lookup import LONG
from pagestore.values.kernels.text_symbols import ESCAPE, PACKED
from pagestore.values.symbols import NO_SYMBOLS, SYMBOLS, SymbolTable, sample_of, tables_in
from pagestore.values.text_order import PackedTexts
from tests.support import struct_reader
from tests.support.programs.amounts import times

WORDS = [
    b"",
    b"a",
    b"ab",
    b"\0",
    b"\xff",
    b"slyly ",
    b"requests",
    b"\0\0\0\0\0\0\0\0",
    "\u00e9".encode(),
]
BYTES = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=40).map(b"".join),
    st.binary(max_size=30),
    st.integers(LONG - 3, LONG + 1).map(lambda n: b"ab" * (n // 2) + b"c" * (n % 2)),
)


def sentences(n: int, seed: int = 1) -> list[str]:
    """Distinct texts of words that repeat."""
    rng = np.random.default_rng(seed)
    words = np.array(
        ["even", "the", "slyly", "ironic", "requests", "sleep", "across", "bold", "all"]
    )
    return [" ".join(words[some]) + f" {i}" for i, some in enumerate(rng.integers(0, 9, (n, 6)))]


def read(table: SymbolTable, words: np.ndarray) -> bytes:
    """A text by its parts, as the description of the format says."""
    raw = words.tobytes()
    length = int(words[0]) & 0xFFFF
    if not length & PACKED:
        return raw[2 : 2 + length]
    symbols = {
        (raw[2], int(record[1])): int(record[2]).to_bytes(8, "little", signed=True)[: record[3]]
        for record in table.records().T
    }
    return struct_reader.unpacked(
        raw[3:], raw[2], symbols | {(raw[2], code): b"" for code in range(len(symbols), ESCAPE)}
    )[: length & 0x7FFF]


@settings(max_examples=times(100))
@given(st.lists(BYTES, max_size=20), st.lists(BYTES, max_size=20))
def test_every_text_is_packed_by_every_table(known, texts):
    texts = [text for text in texts if len(text) < LONG]
    for table in NO_SYMBOLS, SymbolTable.for_texts(PackedTexts.of(known), 7):
        counts, words = table.pack(PackedTexts.of(texts))
        ends = np.cumsum(counts).tolist()
        parts = [words[end - count : end] for end, count in zip(ends, counts.tolist(), strict=True)]
        assert [read(table, part) for part in parts] == texts
        plain = [(len(text) + 9) // 8 for text in texts]
        assert all(count <= most for count, most in zip(counts.tolist(), plain, strict=True))


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(dictionary_writer, "PACKED_FROM", 1)
    monkeypatch.setattr(dictionary_writer, "TABLE_ROOM", 0)
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off") as store:
        yield store


def test_packed_texts_are_found_compared_and_read_like_others(store):
    dictionary = None

    @settings(max_examples=times(30), deadline=None)
    @given(st.lists(BYTES, max_size=30), st.lists(BYTES, max_size=6))
    def check(texts, others):
        nonlocal dictionary
        with store.transaction() as txn:
            words = txn.encode("bytes", texts).tolist()
            assert txn.decode("bytes", np.array(words, np.int64)).to_pylist() == texts
        dictionary = store.snapshot().dictionary
        everything = sorted(dictionary.loaded(dictionary.ids()))
        assert dictionary.loaded(dictionary.order.slice(0, len(everything))) == everything
        for text in [*texts, *others]:
            known = text in everything
            id_ = dictionary.id_of(text)
            assert (id_ > 0) == known and (not known or dictionary.text(id_) == text)
            assert dictionary.order.rank(text) == sum(other < text for other in everything)
        last = max(dictionary.ids().tolist(), default=0)
        lengths = dictionary.lengths(1, last + 1).tolist()
        assert lengths == [len(text) for text in dictionary.loaded(np.arange(1, last + 1))]

    check()
    assert dictionary._tree(SYMBOLS).count
    assert store.check() == []


def test_many_texts_take_fewer_words_and_are_read_by_the_description(tmp_path):
    texts = sentences(4000)
    path = tmp_path / "s.pages"
    with pagestore.open(path, sync="off") as store:
        with store.transaction() as txn:
            txn.create("r", "t: string", key="t").insert(columns=[texts[:3000]])
        trees = store.snapshot()._version.trees
        assert trees[1].count <= 0.4 * sum((len(text) + 9) // 8 for text in texts[:3000])
        assert 0 < trees[SYMBOLS.tree_id].count <= ESCAPE
        with store.transaction() as txn:  # much like what is known: no table is added
            txn["r"].insert(columns=[texts[3000:]])
        assert store.snapshot()._version.trees[SYMBOLS.tree_id] == trees[SYMBOLS.tree_id]
        assert store.check() == []
    assert sorted(row[0] for row in struct_reader.relations(str(path))["r"]) == sorted(texts)


def test_other_texts_get_a_table_of_their_own_and_each_is_read_by_its(store):
    batches = [
        sentences(500),
        [f"{n:032b}" for n in range(500)],
        [f"{n * n:05d}" for n in range(500)],
    ]
    for batch in batches:
        with store.transaction() as txn:
            txn.encode("string", batch)
    snapshot = store.snapshot()
    assert len(tables_in(snapshot.pages, snapshot._version.trees[SYMBOLS.tree_id])) > 512
    for batch in batches:
        words = snapshot.encode("string", batch)
        assert words.all() and snapshot.decode("string", words).to_pylist() == batch
    assert store.check() == []


def test_a_table_of_a_transaction_rolled_back_is_of_no_other(store):
    """The next table has the number, the page and the version of the one that went."""
    digits = [f"{n * n:040d}" for n in range(300)]
    for undone, kept in ((digits, sentences(300)), (sentences(300, 2), digits)):
        with pytest.raises(KeyError), store.transaction() as txn:
            words = txn.encode("string", undone)
            assert txn.decode("string", words).to_pylist() == undone
            assert txn.dictionary.order.rank(b"") == 0
            raise KeyError
        with store.transaction() as txn:
            with pytest.raises(KeyError), txn.savepoint():
                txn.encode("string", undone)
                raise KeyError
            words = txn.encode("string", kept)
            assert txn.decode("string", words).to_pylist() == kept
        assert store.snapshot().decode("string", words).to_pylist() == kept
    assert store.check() == []


def test_compaction_packs_what_came_by_few_at_a_time(tmp_path):
    texts = sentences(2000)
    with pagestore.open(tmp_path / "s.pages", sync="off", retain="all") as store:
        with store.transaction() as txn:
            txn.create("r", "t: string, n: int64", key="t")
        for at in range(0, 2000, 100):
            with store.transaction() as txn:
                txn["r"].insert([texts[at : at + 100], range(at, at + 100)])
        old, plain = store.snapshot(), store.snapshot()._version.trees[1].count
        assert not old._version.trees[SYMBOLS.tree_id].count
        old.close()
        store.compact()
        trees = store.snapshot()._version.trees
        assert trees[1].count < 0.5 * plain and trees[SYMBOLS.tree_id].count
        assert [*store.snapshot()["r"]] == sorted(zip(texts, range(2000), strict=True))
        store.compact()
        assert store.snapshot()._version.trees[1].count == trees[1].count
        with store.transaction() as txn:
            txn["r"].delete([(text, n) for n, text in enumerate(texts) if n % 2])
        store.vacuum(keep_versions=1)
        assert [*store.snapshot()["r"]] == sorted((t, n) for n, t in enumerate(texts) if not n % 2)
        assert len(store.snapshot().dictionary.ids()) == 1000
        assert store.check() == []


def test_a_table_that_is_damaged_is_named(store):
    with store.transaction() as txn:
        words = txn.encode("string", sentences(300))
    with store.transaction() as txn:
        lost = tables_in(txn.pages, txn._trees[SYMBOLS.tree_id])
        used = int(np.argmax(lost[256:512] > 1))
        record = np.array([[1], [used], [lost[used]], [lost[256 + used]]])
        txn.dictionary._apply(SYMBOLS, record, ERASE)
    snapshot = store.snapshot()
    with pytest.raises(CorruptionError, match="does not hold all parts of text"):
        snapshot.decode("string", words)
    assert any("a text does not read" in violation.fact for violation in store.check())


def test_a_sample_is_spread_over_all_texts():
    texts = PackedTexts.of([b"%08d" % n for n in range(100_000)])
    sample = sample_of(texts)
    assert sample.offsets[-1] < 1 << 16
    assert [int(sample.text(i)) for i in (0, len(sample) - 1)] == pytest.approx([0, 99_999], abs=50)
