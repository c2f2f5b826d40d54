"""A reader that knows docs/format.md and struct alone reads what the library wrote."""

import ast
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

import pagestore
from tests.support import struct_reader


@pytest.mark.parametrize("page_size", [4096, 8192, 65536])
def test_a_reader_made_from_the_description_alone(tmp_path, page_size):
    rng = np.random.default_rng(page_size)
    path = tmp_path / "s.pages"
    with pagestore.open(path, page_size=page_size, sync="off") as store:
        with store.transaction() as txn:
            txn.create("numbers", "a: int64, b: int64")
            txn["numbers"].insert(list(rng.integers(-(2**62), 2**62, (2, 3000))))
            txn.create("small", "k: int64, v: float64, w: bool", key="k")
            txn["small"].insert([(k, -k / 3, k % 3 == 0) for k in range(-500, 500)])
            txn.create("texts", "v: string, id: int64, d: date, b: bytes", key="id")
            txn["texts"].insert(
                [("é" * (i % 20), i, date(2020, 1, 1 + i % 28), bytes(i % 9)) for i in range(400)]
            )
            long = txn.create("long", "k: int64, v: decimal(38,2)?", key="k")
            long.insert([(k, Decimal(k) ** 9 if k % 5 else None) for k in range(-400, 400)])
            txn.create("empty", "x: int64")
            folded = txn.create(
                "folded", "k: int64, v: int64", key="k", scans=["sum:v", "count", "max:v,k"]
            )
            folded.insert([(k, k * k % 1009) for k in range(2000)])
            txn.create_words("$hidden", 2, 1)
        for i in range(30):
            with store.transaction() as txn:
                txn["numbers"].delete(list(txn["numbers"].range_head(20)))
                txn["texts"].set([("changed", i, date(1969, 12, 31), b"\0x")])
        store.tag("one", 20)
        content = {name: list(relation) for name, relation in store.snapshot().items()}
    found = struct_reader.relations(str(path))
    days = date(1970, 1, 1).toordinal()
    content["texts"] = [(v, i, d.toordinal() - days, b) for v, i, d, b in content["texts"]]
    content["long"] = [(k, v if v is None else int(v * 100)) for k, v in content["long"]]
    assert found == content


def test_the_reader_notices_damage(tmp_path):
    path = tmp_path / "s.pages"
    with pagestore.open(path) as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64").insert([1, 2, 3])
        root = store.snapshot()["r"].tree.root
    data = bytearray(path.read_bytes())
    data[root * 8192 + 100] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"page {root} is damaged"):
        struct_reader.relations(str(path))


def test_the_reader_uses_struct_alone():
    source = Path(struct_reader.__file__).read_text()
    imports = {
        line.split()[1] for line in source.splitlines() if line.startswith(("import ", "from "))
    }
    assert imports == {"struct", "sys", "collections.abc"}
    assert sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(source))) <= 170
