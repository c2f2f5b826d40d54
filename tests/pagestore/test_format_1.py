"""Stores that a library of format 1 wrote are read, checked and written like any other."""

import json
import struct
from pathlib import Path

import pytest
import zstandard

import ivm
import pagestore
from pagestore.storage.meta import FORMAT, SLOT_SIZE
from pagestore.values.text_order import StoredOrder
from tests.support import struct_reader

FOLDER = Path(__file__).parents[2] / "fixtures" / "format-1"
STORES = ("deep", "history", "texts", "large", "views")


def unpacked(name: str) -> bytes:
    return zstandard.decompress((FOLDER / name).read_bytes())


def plain(row):
    return [value.hex() if isinstance(value, bytes) else value for value in row]


def content(store: pagestore.Store, versions: list[str] | None = None) -> dict[str, dict]:
    """The content of the stores, as the script that wrote them says."""
    found = {}
    for version in versions or [str(line.version) for line in store.history()]:
        with store.at(int(version)) as snapshot:
            found[version] = {name: in_one_order(map(plain, snapshot[name])) for name in snapshot}
    return found


def in_one_order(rows) -> list:
    """Rows by their text: they were written down in the order of the tree, which is not that of
    texts.
    """
    return sorted(rows, key=repr)


def formats(path: Path) -> list[int]:
    """What the two meta slots say."""
    data = path.read_bytes()
    return [struct.unpack_from("<I", data, at + 8)[0] for at in (0, SLOT_SIZE)]


@pytest.fixture(params=STORES)
def old(request, tmp_path):
    """The path of a store, and what it holds."""
    path = tmp_path / f"{request.param}.pages"
    path.write_bytes(unpacked(f"{request.param}.pages.zst"))
    expected = json.loads(unpacked(f"{request.param}.json.zst"))
    for relations in expected["versions"].values():
        relations |= {name: in_one_order(rows) for name, rows in relations.items()}
    return path, expected


def test_it_is_read_as_it_was_written(old):
    path, expected = old
    with pagestore.open(path, mode="r") as store:
        assert store.check() == []
        assert content(store) == expected["versions"]
        assert store.tags == expected["tags"]
        assert {name: store.snapshot(name).version for name in store.branches} == expected[
            "branches"
        ]
    assert formats(path) == [1, 1]


def test_its_texts_are_in_order_as_they_are_and_once_it_is_written(tmp_path):
    for name in ("texts", "views"):
        path = tmp_path / f"{name}.pages"
        path.write_bytes(unpacked(f"{name}.pages.zst"))
        for written in (False, True):
            with pagestore.open(path) as store:
                if written:
                    with store.transaction() as txn:
                        txn.create("fresh", "text: string").insert(["a", "z"])
                for line in store.history():
                    snapshot = store.at(line.version)
                    for relation in map(snapshot.__getitem__, snapshot):
                        keys = [
                            tuple(map(raw, row[: len(relation.schema.key)])) for row in relation
                        ]
                        assert (
                            not relation.sorts_texts
                            or not relation.schema.in_order
                            or keys == sorted(keys)
                        )
                assert (
                    store.check() == []
                    and isinstance(store.snapshot().dictionary.order, StoredOrder) == written
                )


def raw(value):
    return value.encode() if isinstance(value, str) else value


def test_opening_and_closing_it_does_not_change_what_it_is(old):
    path, _ = old
    with pagestore.open(path):
        pass
    assert formats(path) == [1, 1]


def test_the_first_commit_makes_it_a_store_of_this_format(old):
    path, expected = old
    with pagestore.open(path) as store:
        store.tag("now")
        # also the slot of the commit before, else an old library took that
        assert formats(path) == [FORMAT, FORMAT]
        assert content(store) == expected["versions"] and store.check() == []
    assert formats(path) == [FORMAT, FORMAT]


def test_the_reader_made_from_the_description_reads_both(old):
    path, expected = old
    newest = expected["versions"][str(expected["branches"]["main"])]
    for changed in (False, True):
        if changed:
            with pagestore.open(path) as store, store.transaction() as txn:
                txn.create("fresh", "x: int64").insert(range(9))
        found = struct_reader.relations(str(path))
        for name, rows in newest.items():
            wanted = [
                row
                for row in rows
                if not any(isinstance(value, str) and len(value) >= 1024 for value in row)
            ]
            assert in_one_order(
                plain(row) for row in found[name] if plain(row) in wanted
            ) == in_one_order(wanted)


def test_it_is_written_and_its_pages_get_births_as_they_are_written_anew(old):
    """Few and many edits of old pages and new ones side by side, by shifting and by decoding."""
    path, expected = old
    versions = [*expected["versions"]][::9]
    with pagestore.open(path, retain="all") as store:
        snapshot = store.snapshot()
        plain_ones = [
            n for n in snapshot if snapshot[n].info.spec.columns == len(snapshot[n].schema.columns)
        ]
        before = {name: {*snapshot[name]} for name in plain_ones if name not in ("edge", "name")}
        for part in range(4):
            with store.transaction() as txn:
                txn.declare_maintained()  # a host's trees are only trees here
                for name in before:
                    keys = txn[name].schema.key
                    gone = sorted(before[name])[part :: 40 if part < 3 else 2]
                    names = [column.name for column in txn[name].schema.columns]
                    txn[name].delete([tuple(row[names.index(key)] for key in keys) for row in gone])
                    before[name] -= {*gone}
            assert {name: {*store.snapshot()[name]} for name in before} == before
        assert store.check() == []
        assert content(store, versions) == {
            version: expected["versions"][version] for version in versions
        }
        store.retain = 1
        store.vacuum()
        store.compact()
        assert store.check() == []
        assert {name: {*store.snapshot()[name]} for name in before} == before


def test_folds_of_a_branch_and_differences_of_versions(tmp_path):
    path = tmp_path / "deep.pages"
    path.write_bytes(unpacked("deep.pages.zst"))
    with pagestore.open(path) as store:
        with store.transaction() as txn:
            txn["folded"].insert([(k, k) for k in range(0, 1 << 62, 1 << 55)])
        rows = sorted(store.snapshot()["folded"])
        folded = store.snapshot()["folded"]
        assert folded.scan("sum:v") == sum(v for _, v in rows) and folded.scan("count") == len(rows)
        assert folded.scan("max:v") == max(v for _, v in rows)
        assert [folded.rank(row[:1]) for row in rows[::97]] == [*range(0, len(rows), 97)]
        assert [folded.select(i) for i in range(0, len(rows), 97)] == rows[::97]
        changes = store.diff("loaded", store.version, "folded").read_all().to_pylist()
        old = {*map(tuple, store.at("loaded")["folded"])}
        assert {(c["k"], c["v"]) for c in changes if c["_change_type"] == "insert"} == {*rows} - old
        with store.transaction(branch="side") as txn:
            txn["plain"].insert([(100, 100)])
        assert (100, 100) in store.snapshot("side")["plain"] and (100, 100) not in store.snapshot()[
            "plain"
        ]


def test_views_are_maintained(tmp_path):
    path = tmp_path / "views.pages"
    path.write_bytes(unpacked("views.pages.zst"))
    with ivm.open(path) as workspace:
        for step in range(5):
            with workspace.transaction() as txn:
                txn.insert("edge", [(step, 7), (7, step + 20)])
                txn.delete("edge", list(workspace["edge"])[step : step + 3])
            for view in ("tri", "named", "out"):
                workspace.verify(view)
        assert workspace.store.check() == []
