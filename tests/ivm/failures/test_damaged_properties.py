"""What a store says of its rules may be damaged: it is refused by name, or read as it is meant,
and the pages stay.
"""

import json
import random
import shutil
from pathlib import Path

import pytest

import ivm
import pagestore
from ivm.errors import IvmError
from pagestore.errors import PagestoreError

RULES = """
e(x, y) -> int(x), int(y). f[x] = y -> int(x), int(y).
p(x) <- e(x, y), e(y, _). n[x] = c <- agg<<c = count()>> e(x, _). r(x, y) <- e(x, y). r(x, z) <- r(x, y), e(y, z).
"""
ODD = [
    None,
    7,
    -1,
    "",
    "x",
    [],
    {},
    [[]],
    {"name": 1},
    2**70,
    "e(x) -> int(x).",
    True,
    [[["x"], []]],
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "w.pages"
    with ivm.open(path, sync="off") as ws:
        ws.install(RULES, maintenance="match")
        ws.exec("+e(1, 2). +e(2, 3).")
    return path


def places(value, path=()):
    """The ways to all parts of a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


def damaged(text: str, rng: random.Random) -> str:
    """A property with a part that is cut, or another value, or missing."""
    if rng.random() < 0.3:
        at = rng.randrange(len(text))
        return rng.choice(
            [text[:at], text[:at] + rng.choice('[]{}",:x7') + text[at + 1 :], "[" * 5000]
        )
    value = json.loads(text)
    *way, last = rng.choice([path for path in places(value) if path] or [("x",)])
    part = value
    for key in way:
        part = part[key]
    if rng.random() < 0.3 and last in (part if isinstance(part, dict) else range(len(part))):
        del part[last]
    elif isinstance(part, dict) or last in range(len(part)):
        part[last] = rng.choice(ODD)
    return json.dumps(value)


@pytest.mark.parametrize("name", ["ivm", "ivm.built", "pagestore.dependants"])
def test_damaged_properties_are_refused_by_name(name, whole, tmp_path):
    rng, path, refused = random.Random(name), tmp_path / "w.pages", 0
    for _ in range(25):
        shutil.copy(whole, path)
        with pagestore.open(path, sync="off") as store, store.transaction() as txn:
            txn.declare_maintained()
            txn.properties[name] = damaged(txn.properties[name], rng)
        for work in (read, write, edit):
            try:
                work(path)
            except (IvmError, PagestoreError) as error:
                refused += 1
                assert len(str(error)) > 20
        with pagestore.open(path, mode="r") as store:
            assert {(1, 2), (2, 3)} <= {*store.snapshot()["e"]} and store.check() == []
    assert refused > 8


def read(path):
    with ivm.open(path, mode="r") as ws:
        assert [row[0] for row in ws["n"]] == [1, 2]
        ws.query("q(x) <- e(x, _).")


def write(path):
    with ivm.open(path, sync="off") as ws:
        ws.exec("+e(3, 4).")


def edit(path):
    with pagestore.open(path, sync="off") as store, store.transaction() as txn:
        txn["e"].insert([(5, 5)])
