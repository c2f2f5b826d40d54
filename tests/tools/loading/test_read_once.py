"""Files without types are read once, and again where a later block contradicts the first; all is
as it should be.
"""

import json
import random
from pathlib import Path

import pyarrow.json
import pytest

import pagestore
from pagestore.errors import SchemaError, WordError
from pagestore_tools.loading import json_files
from pagestore_tools.loading.load import load

CASES = {  # later rows, and the columns that there are then
    "nothing new": ({"x": 5, "s": "b"}, "id: int64, x: int64, s: string"),
    "a float": ({"x": 1.5, "s": "b"}, "id: int64, x: float64, s: string"),
    "a null": ({"x": None, "s": "b"}, "id: int64, x: int64?, s: string"),
    "lacking": ({"x": 1}, "id: int64, x: int64, s: string?"),
    "one more": ({"x": 1, "s": "b", "more": True}, "id: int64, x: int64, s: string, more: bool?"),
    "the least number": ({"x": -(2**63), "s": "b"}, "id: int64, x: int64, s: string"),
}


@pytest.mark.parametrize("case", CASES)
def test_later_blocks_of_json(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "HEAD", 64)
    monkeypatch.setattr(json_files, "BLOCK", 512)
    later, schema = CASES[case]
    rows = [{"id": i, "x": i, "s": "a"} for i in range(100)] + [
        {"id": i, **later} for i in range(100, 110)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    parsed = []
    read_json = pyarrow.json.read_json
    monkeypatch.setattr(
        pyarrow.json,
        "read_json",
        lambda *args, **more: parsed.append(1) or read_json(*args, **more),
    )
    blocks = len([*json_files.blocks_of(tmp_path / "a.jsonl")])
    assert blocks > 3
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        load(txn, "r", tmp_path / "a.jsonl", ["id"])
        assert str(txn["r"].schema) == schema
        names = [part.split(":")[0] for part in schema.split(", ")]
        assert list(txn["r"]) == [tuple(row.get(name) for name in names) for row in rows]
    if case in ("nothing new", "a null"):
        assert len(parsed) == blocks


def test_a_file_of_one_block_is_parsed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = []
    read_json = pyarrow.json.read_json
    monkeypatch.setattr(
        pyarrow.json,
        "read_json",
        lambda *args, **more: parsed.append(1) or read_json(*args, **more),
    )
    (tmp_path / "a.json").write_text(json.dumps([{"id": i, "tags": ["a"] * i} for i in range(5)]))
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        load(txn, "r", tmp_path / "a.json", ["id"])
        assert len(txn["r:tags"]) == 10
    assert len(parsed) == 1


@pytest.mark.parametrize("seed", range(3))
def test_csv_and_its_nulls(seed: int, tmp_path: Path) -> None:
    """Columns are nullable that have nulls, and no others."""
    chance = random.Random(seed)
    lacking = {name for name in "abc" if chance.random() < 0.5}
    rows = [
        [
            i,
            *(
                None if n in lacking and chance.random() < 0.2 else chance.randrange(99)
                for n in "abc"
            ),
        ]
        for i in range(200)
    ]
    lacking = {
        name for place, name in enumerate("abc", 1) if any(row[place] is None for row in rows)
    }
    lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
    (tmp_path / "a.csv").write_text("\n".join(["id,a,b,c", *lines, ""]))
    with pagestore.open(":memory:") as store:
        with store.transaction() as txn:
            load(txn, "r", tmp_path / "a.csv", ["id"])
        relation = store.snapshot()["r"]
        assert {c.name for c in relation.schema.columns if c.type.nullable} == lacking
        assert list(relation) == [tuple(row) for row in rows]
        assert store.check() == []


def test_refusing_nulls() -> None:
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        held = txn.create("r", "x: int64, a: int64?, b: string?, c: uint64?", key="x")
        held.insert([(1, 2, "a", 3), (2, 5, None, 4)])
        with pytest.raises(WordError, match="a column of a, b of 'r' is null somewhere"):
            txn.refuse_nulls("r", ["a", "b"])
        with pytest.raises(SchemaError, match="column 'c' of 'r' is uint64"):
            txn.refuse_nulls("r", ["c"])
        txn.refuse_nulls("r", ["a"])
        assert str(held.schema) == "x: int64, a: int64, b: string?, c: uint64?"
        with pytest.raises(WordError):
            held.insert([(3, None, "a", 1)])
        assert list(held) == [(1, 2, "a", 3), (2, 5, None, 4)]
