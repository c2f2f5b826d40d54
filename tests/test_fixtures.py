"""The stores of each format that was ever written are read, checked, changed, and their views
maintained.
"""

import json
import runpy
from pathlib import Path

import pytest
import zstandard

import ivm
import pagestore

FIXTURES = Path(__file__).parents[1] / "fixtures"
STORES = sorted(FIXTURES.glob("format-*/*.pages.zst"))
TOTAL_BYTES = 2 << 20


def unpacked(file: Path) -> bytes:
    return zstandard.decompress(file.read_bytes())


def in_one_order(content: dict) -> dict:
    """A content with its rows sorted as JSON: before format 3, texts were given in the order of
    their ids.
    """
    versions = {
        version: {name: sorted(rows, key=json.dumps) for name, rows in relations.items()}
        for version, relations in content["versions"].items()
    }
    return content | {"versions": versions}


@pytest.fixture(params=STORES, ids=lambda file: f"{file.parent.name}/{file.name.partition('.')[0]}")
def old(request, tmp_path):
    """A copy of a store, the content that its JSON has, and the function that lists a store's
    content like that.
    """
    packed = request.param
    path = tmp_path / packed.stem
    path.write_bytes(unpacked(packed))
    expected = json.loads(unpacked(packed.with_name(packed.name.replace(".pages.", ".json."))))
    return path, expected, runpy.run_path(str(packed.parent / "write.py"))["content"]


def test_it_holds_what_was_written(old):
    path, expected, content = old
    before = path.read_bytes()
    assert in_one_order(json.loads(json.dumps(content(path)))) == in_one_order(expected)
    with pagestore.open(path, mode="r") as store:
        assert store.check() == []
    assert path.read_bytes() == before


def test_it_takes_edits_and_keeps_its_past(old):
    path, expected, content = old
    with ivm.open(path, retain="all") as workspace:
        store = workspace.store
        assert workspace.check() == []
        views = [
            name for name, predicate in workspace.predicates.items() if not predicate.extensional
        ]
        stored = [name for name in store.snapshot() if name not in views and "$" not in name]
        relations = {name: list(store.snapshot()[name]) for name in stored}
        # two commits: the second meets pages of both
        for rows in (lambda old: old[::3], lambda old: old[1::3]):
            with store.transaction() as txn:
                for name, old_rows in relations.items():
                    keys = [
                        i
                        for i, column in enumerate(txn[name].schema.columns)
                        if column.name in txn[name].schema.key
                    ]
                    txn[name].delete([tuple(row[i] for i in keys) for row in rows(old_rows)])
        assert {name: list(store.snapshot()[name]) for name in relations} == {
            name: old_rows[2::3] for name, old_rows in relations.items()
        }
        for view in views:
            workspace.verify(view)
        assert store.check() == [] and workspace.check() == []
    found = in_one_order(json.loads(json.dumps(content(path))))["versions"]
    assert {version: found[version] for version in expected["versions"]} == in_one_order(expected)[
        "versions"
    ]


def test_each_folder_says_what_it_is_and_all_are_small():
    folders = [
        folder for folder in FIXTURES.iterdir() if folder.is_dir() and folder.name != "__pycache__"
    ]
    assert [folder.name for folder in folders if not (folder / "README.md").exists()] == []
    assert sum(file.stat().st_size for file in FIXTURES.rglob("*") if file.is_file()) < TOTAL_BYTES
