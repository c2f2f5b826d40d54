"""Every text has one id, even where hashes collide; after a rollback ids are given again."""

import hashlib

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import pagestore
from pagestore.errors import CorruptionError
from pagestore.trees.kernels.node_buffer import INSERT
from pagestore.values import dictionary, dictionary_writer
from pagestore.values.text_order import PackedTexts, hashes_of
from tests.support.programs.amounts import times


@pytest.fixture(params=[1, dictionary_writer.MANY], ids=["by a table", "by Arrow"])
def store(tmp_path, request, monkeypatch):
    monkeypatch.setattr(dictionary_writer, "MANY", request.param)
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off") as store:
        yield store


TEXTS = st.one_of(
    st.text(max_size=20),
    st.integers(0, 3000).map(lambda n: "x" * n),
    st.sampled_from(["", "\0", "a\0"]),
)


def test_ids_and_texts_are_each_others_inverse(store):
    ids: dict[str, int] = {}

    @settings(max_examples=times(30))
    @given(st.lists(TEXTS, max_size=30))
    def check(texts):
        with store.transaction() as txn:
            words = txn.encode("string", texts).tolist()
            assert txn.decode("string", np.array(words, np.int64)).to_pylist() == texts
        for text, word in zip(texts, words, strict=True):
            assert ids.setdefault(text, word) == word
        with store.snapshot() as snapshot:
            assert snapshot.encode("string", texts).tolist() == words
            assert snapshot.decode("string", np.array(words, np.int64)).to_pylist() == texts

    check()
    assert len(set(ids.values())) == len(ids)
    assert store.check() == []


def test_equal_hashes_are_told_apart(store, monkeypatch):
    texts = [f"text {n}" for n in reversed(range(200))]
    first = hashes_of(PackedTexts.of([text.encode() for text in texts[-3:]]))

    def weak(packed):
        """Three hashes for all texts: those of the three that come last."""
        sums = [sum(packed.text(i)) for i in range(len(packed))]
        own = {packed.text(i): i for i in range(len(packed))}
        places = first[np.array(sums, np.int64) % 3]
        for place, text in zip(first, texts[-3:], strict=True):
            if text.encode() in own:
                places[own[text.encode()]] = place
        return places

    for module in dictionary, dictionary_writer:
        monkeypatch.setattr(module, "hashes_of", weak)
    with store.transaction() as txn:
        words = txn.encode("string", texts[:120]).tolist()
    store._handle.known_texts().clear()
    with store.transaction() as txn:
        assert txn.encode("string", texts[:120]).tolist() == words
        words += txn.encode("string", texts[120:]).tolist()
    assert len(set(words)) == 200
    assert store.snapshot().decode("string", np.array(words)).to_pylist() == texts
    assert store.snapshot().encode("string", [*texts, "another"]).tolist() == [*words, 0]
    id_of = store.snapshot().dictionary.id_of  # its kernel has the hashes that texts really have
    assert [id_of(text.encode()) for text in texts[-3:]] == words[-3:]
    assert store.check() == []


def test_hashes_are_those_of_hashlib():
    rng = np.random.default_rng(1)
    texts = [rng.bytes(length) for length in [*range(400), 1023, 1024, 5000, 0]]
    wanted = [hashlib.blake2b(text, digest_size=8).digest() for text in texts]
    for some in texts, texts[::-1]:
        assert hashes_of(PackedTexts.of(some)).tobytes() == b"".join(
            wanted if some is texts else wanted[::-1]
        )
    assert hashes_of(PackedTexts.of(pa.array(texts)[7:])).tobytes() == b"".join(wanted[7:])


def test_texts_of_every_length_are_found_one_by_one_and_together(store):
    rng = np.random.default_rng(2)
    texts = [rng.bytes(length) for length in [*range(1, 100), *range(1015, 1032)]]
    # differ from a text in the length alone, or begin as it does
    shorter = [text[:-1] for text in texts[1:]]
    other = [text[:-1] + bytes([text[-1] ^ 1]) for text in texts]
    with store.transaction() as txn:
        words = txn.encode("bytes", [b"", *texts]).tolist()
    snapshot = store.snapshot()
    assert [snapshot.dictionary.id_of(text) for text in [b"", *texts]] == words
    assert [snapshot.dictionary.id_of(text) for text in shorter + other] == [0] * len(
        shorter + other
    )
    assert snapshot.encode("bytes", shorter + other).tolist() == [0] * len(shorter + other)
    assert snapshot.decode("bytes", np.array(words[::-1])).to_pylist() == [b"", *texts][::-1]


def test_a_rollback_takes_its_texts_along(store):
    with pytest.raises(KeyError), store.transaction() as txn:
        txn.encode("string", ["lost", "gone " * 1000])
        raise KeyError
    with store.transaction() as txn:
        with pytest.raises(KeyError), txn.savepoint():
            undone = txn.encode("string", ["undone"])
            raise KeyError
        kept = txn.encode("string", ["kept"])
        assert kept == undone  # the id was free again
    assert store.snapshot().decode("string", kept).to_pylist() == ["kept"]
    assert store.snapshot().encode("string", ["lost", "undone", "kept"]).tolist() == [0, 0, *kept]


def test_looking_up_and_deleting_add_no_texts(store):
    with store.transaction() as txn:
        names = txn.create("names", "name: string, n: int64", key="name")
        names.insert([("there", 1)])
        before = txn.dictionary.next_id
        assert ("missing", 1) not in names
        assert names.get("gone") is None
        assert names.get_many(["never", "there"])[0].tolist() == [False, True]
        names.delete([("nowhere",), ("there",)])
        assert len(names) == 0
        assert txn.dictionary.next_id == before


def test_branches_share_ids(store):
    store.branch("side")
    with store.transaction(branch="side") as txn:
        side = txn.encode("string", ["both", "side only"])
    with store.transaction() as txn:
        main = txn.encode("string", ["main only", "both"])
    assert main[1] == side[0]
    assert len({*main, *side}) == 3
    store.delete_branch("side")
    with store.transaction() as txn:
        assert txn.encode("string", ["side only"]) == side[1]
    assert store.check() == []


def test_a_text_that_is_missing_is_an_error_of_the_store(store):
    with store.transaction() as txn:
        txn.create("r", "n: int64, name: string", key=("n",))
        # as where the page of text 77 is an older one
        txn.apply("r", np.array([INSERT]), np.array([[1], [77]]))
    with pytest.raises(CorruptionError, match="no text of id 77; .*pagestore fsck"):
        list(store.snapshot()["r"])


def test_arrow_dictionaries_and_bytes(store):
    with store.transaction() as txn:
        words = txn.encode("string", pa.array(["a", "b", "a"]).dictionary_encode())
        assert txn.encode("bytes", [b"a", b"\xff\0", b"b"]).tolist()[::2] == [words[0], words[1]]
        assert txn.decode("bytes", words).to_pylist() == [b"a", b"b", b"a"]


def test_more_texts_than_one_array_holds(store, monkeypatch):
    """Arrow counts the bytes of an array in 31 bits; rows come in more batches then."""
    monkeypatch.setattr("pagestore.values.dictionary.BYTES_MAX", 1000)
    texts = ["x" * 300, "y" * 1500, "z" * 400, "", "w"]
    rows = [(i, texts[i % 5]) for i in range(100)]
    with store.transaction() as txn:
        txn.create("long", "x: int64, t: string").insert(rows)
    with store.snapshot() as snapshot:
        r = snapshot["long"]
        wide = [batch.num_rows for batch in r.batches()]
        assert len(wide) > 20 and sum(wide) == 100
        assert list(r) == rows == list(zip(*r.to_arrow().to_pydict().values(), strict=True))
        assert r.to_numpy()["t"].tolist() == [text for _, text in rows]
        assert r.get_many(rows)[0].all()
        assert snapshot.decode("string", snapshot.encode("string", texts)).to_pylist() == texts


def test_bytes_stand_among_strings(store):
    """Many ids that lie close together are read at once, with those of bytes among them, which
    can be no strings.
    """
    rows = [(f"text {i}", b"\xff" + bytes([i])) for i in range(100)]
    with store.transaction() as txn:
        txn.create("r", "name: string, raw: bytes", key="name")
        for row in rows:
            txn["r"].insert([row])
    assert sorted(store.snapshot()["r"]) == sorted(rows)
