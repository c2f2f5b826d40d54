"""Texts that no version holds leave the dictionary; every other text, and every version, is as
it was.
"""

import io
import random
from pathlib import Path

import numpy as np
import pytest

import ivm
import pagestore
from pagestore.trees.kernels.node_buffer import INSERT
from pagestore.values import dictionary, dictionary_writer
from pagestore.values.text_order import PackedTexts, TextSearch

COLUMNS = "id: int64, name: string, note: bytes?"


def texts_of(store: pagestore.Store) -> set[bytes]:
    """The texts that the newest dictionary has: that of the newest version of all branches."""
    with store.at(max(entry.version for entry in store.history())) as snap:
        return {*snap.dictionary.loaded(snap.dictionary.ids())}


def held_by(store: pagestore.Store) -> set[bytes]:
    """The texts that records of retained versions have, read one by one."""
    found = set()
    for entry in store.history():
        with store.at(entry.version) as snap:
            for name in snap:
                for row in snap[name]:
                    found |= {
                        value.encode() if isinstance(value, str) else value
                        for value in row
                        if value is not None
                    }
    return {text for text in found if isinstance(text, bytes)}


def rows_of(store: pagestore.Store) -> dict[int, dict[str, list[tuple]]]:
    versions = {}
    for entry in store.history():
        with store.at(entry.version) as snap:
            versions[entry.version] = {name: list(snap[name]) for name in snap}
    return versions


def text(rng: random.Random) -> str:
    """A text that comes again, one that is long, or one that is new."""
    kind = rng.random()
    if kind < 0.5:
        return f"name {rng.randrange(12)}"
    if kind < 0.6:
        return f"{rng.randrange(6)} " * 700
    return f"{rng.random()}"


@pytest.fixture(params=["hashes", "one hash for many"])
def hashes(request, monkeypatch) -> None:
    """Also with hashes that are mostly the same, so that most texts stand behind others."""
    if request.param != "hashes":

        def crowded(texts: PackedTexts) -> np.ndarray:
            return np.diff(texts.offsets) % 3 << 40

        for module in dictionary, dictionary_writer:
            monkeypatch.setattr(module, "hashes_of", crowded)
        # its kernel has the hashes that texts really have
        monkeypatch.setattr(TextSearch, "id_of", lambda *_: None)


@pytest.mark.parametrize("seed", range(6))
def test_random_edits_versions_branches_and_tags(hashes, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with pagestore.open(tmp_path / "s.pages", sync="off", retain=rng.choice([2, 5])) as store:
        with store.transaction() as txn:
            txn.create("person", COLUMNS, key="id")
            txn.create("word", "word: string")
        store.branch("side")
        for step in range(30):
            branch = rng.choice(["main", "main", "side"])
            with store.transaction(branch=branch) as txn:
                for _ in range(rng.randrange(6)):
                    note = rng.choice([None, text(rng).encode()])
                    txn["person"].set([(rng.randrange(15), text(rng), note)])
                    txn["word"].insert([text(rng)])
                txn["word"].delete([row for row in txn["word"] if rng.random() < 0.3])
            if rng.random() < 0.1:
                store.tag(f"tag {step}", store.version)
            if rng.random() < 0.3:
                if rng.random() < 0.3:
                    store.compact()
                else:
                    store.vacuum(keep_versions=rng.choice([None, 1, 3]))
                assert held_by(store) <= texts_of(store)
                before = rows_of(store)
                store.vacuum(keep_versions=1000)
                assert texts_of(store) == held_by(store)
                assert all(
                    rows == before[version]
                    for version, rows in rows_of(store).items()
                    if version in before
                )
                assert store.check() == []
        for tag in [*store.tags]:
            store.untag(tag)
        store.vacuum(keep_versions=1)
        assert texts_of(store) == held_by(store)
        with store.transaction() as txn:  # texts that left come back with other ids
            txn["word"].insert([f"name {n}" for n in range(12)])
        assert store.check() == []
        assert {f"name {n}" for n in range(12)} <= {row[0] for row in store.snapshot()["word"]}


def test_a_name_that_was_deleted_is_in_no_byte_of_the_file(tmp_path: Path) -> None:
    path, name, essay = tmp_path / "s.pages", "Ephraim Quill", "An essay by Ephraim Quill. " * 80
    with pagestore.open(path) as store:
        with store.transaction() as txn:
            txn.create("person", "id: int64, name: string, essay: string", key="id")
            txn["person"].insert(
                [(1, name, essay), (2, "Ann", "short"), (3, "Bob", "Another essay. " * 80)]
            )
        with store.transaction() as txn:
            txn["person"].delete([1])
        assert store.stat().texts == 6
        store.compact()
        assert (store.stat().texts, store.stat().texts_removed) == (4, 2)
        assert list(store.snapshot()["person"]) == [
            (2, "Ann", "short"),
            (3, "Bob", "Another essay. " * 80),
        ]
        assert store.check() == []
    assert name.encode()[1:] not in path.read_bytes()


def test_texts_that_come_and_go_take_bounded_space(tmp_path: Path) -> None:
    sizes = []
    with pagestore.open(tmp_path / "s.pages", sync="off", retain=2) as store:
        with store.transaction() as txn:
            txn.create("session", "token: string, user: int64", key="token")
        for day in range(12):
            with store.transaction() as txn:
                txn["session"].clear()
                txn["session"].insert(
                    [(f"{day:02} {n:06} and some more of the token", n) for n in range(2000)]
                )
            store.vacuum()
            sizes.append(store.stat().pages - store.stat().free)
        assert store.stat().texts <= 3 * 2000
    assert max(sizes[6:]) <= 1.1 * max(sizes[:6])


def test_another_process_forgets_the_ids_that_it_knew(tmp_path: Path) -> None:
    """Here another handle, after it has written: it took ids from its memory."""
    path = tmp_path / "s.pages"
    store = pagestore.open(path, sync="off")
    with store.transaction() as txn:
        txn.create("word", "word: string").insert(["ape", "bee"])
    with store.transaction() as txn:
        txn["word"].delete(["ape"])
    handle = store._handle
    assert handle.known_texts()[b"ape"] == 1
    store.vacuum(keep_versions=1)
    assert b"ape" not in handle.known_texts()
    with store.transaction() as txn:
        txn["word"].insert(["ape"])
    assert list(store.snapshot()["word"]) == [("ape",), ("bee",)]
    assert store.check() == []
    store.close()


def test_constants_of_rules_keep_their_texts(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "w.pages", sync="off") as ws:
        ws.install(
            'trip(a, b) -> string(a), string(b). home(b) <- trip("JFK", b), !trip(b, "LAX").',
            name="r",
        )
        with ws.transaction() as txn:
            txn.insert("trip", [("JFK", "SFO"), ("SFO", "LAX"), ("JFK", "BOS")])
        with ws.transaction() as txn:
            txn.delete("trip", [("JFK", "SFO"), ("SFO", "LAX"), ("JFK", "BOS")])
        assert ws.store.vacuum(keep_versions=1).texts_removed == 2
        assert texts_of(ws.store) == {b"JFK", b"LAX"}
        with ws.transaction() as txn:
            txn.insert("trip", [("JFK", "SFO"), ("SFO", "LAX"), ("JFK", "BOS")])
        assert list(ws["home"]) == [("BOS",)]
        ws.uninstall("r", relations=True)
        ws.store.vacuum(keep_versions=1)
        assert texts_of(ws.store) == set()
        ws.install(
            'trip(a, b) -> string(a), string(b). home(b) <- trip("JFK", b), !trip(b, "LAX").',
            name="r",
        )
        with ws.transaction() as txn:
            txn.insert("trip", [("JFK", "SFO"), ("SFO", "LAX"), ("JFK", "BOS")])
        assert list(ws["home"]) == [("BOS",)]
        assert ws.check() == [] == ws.store.check()


def test_texts_stay_where_their_host_is_not_loaded(tmp_path: Path, monkeypatch) -> None:
    from pagestore.versions import hosts

    with ivm.open(tmp_path / "w.pages", sync="off") as ws:
        ws.install('trip(a, b) -> string(a), string(b). home(b) <- trip("JFK", b).', name="r")
        monkeypatch.setattr(hosts, "_hosts", {})
        done = ws.store.vacuum(keep_versions=1)
        assert (done.texts_removed, done.texts_kept) == (
            0,
            "ivm is not loaded in this process, and may hold some of them",
        )


def test_words_that_belong_to_no_host_may_be_ids(tmp_path: Path) -> None:
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("word", "word: string").insert(["ape", "bee", "cow"])
            txn.create_words("$raw", 1)
            txn.apply("$raw", np.array([INSERT]), np.array([[2]]))
        with store.transaction() as txn:
            txn["word"].clear()
        store.vacuum(keep_versions=1)
        assert texts_of(store) == {b"bee"}


def test_a_dump_keeps_the_ids(tmp_path: Path) -> None:
    with pagestore.open(tmp_path / "s.pages", sync="off") as store:
        with store.transaction() as txn:
            txn.create("word", "word: string").insert(["ape", "bee", "c" * 2000, "dog", "elk"])
        with store.transaction() as txn:
            txn["word"].delete(["ape", "dog"])
        store.vacuum(keep_versions=1)
        out = io.BytesIO()
        store.dump(out)
        with pagestore.open(tmp_path / "other.pages", sync="off") as other:
            out.seek(0)
            other.restore(out)
            assert list(other.snapshot()["word"]) == [("bee",), ("c" * 2000,), ("elk",)]
            find = other.snapshot().dictionary.id_of
            assert [find(text) for text in (b"ape", b"bee", b"c" * 2000, b"dog", b"elk")] == [
                0,
                2,
                3,
                0,
                5,
            ]
            assert other.check() == []
            with other.transaction() as txn:
                txn["word"].insert(["ape"])
            assert other.check() == []
            assert other.stat().texts_removed == 2
