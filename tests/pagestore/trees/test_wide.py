"""Records and folds as wide as pages can hold: they are right, and wider ones are refused."""

import numpy as np
import pytest

import pagestore
from pagestore.errors import SchemaError
from pagestore.pages.operators import MAX, SUM
from pagestore.trees.kernels.node_buffer import ERASE, INSERT, SET
from pagestore.trees.read import RecordFinder, read
from pagestore.trees.tree import Spec

SUMS = [f"sum:c{i}" for i in range(60)]
WORDS = (1 << 63) - 1


def scans(n):
    """Scans with `n` words of folds of any value."""
    return tuple((MAX, 0) for _ in range(n))


def widest(page_size, keys, folds):
    """The most values that still fit."""
    fitting = [v for v in range(255) if Spec(1, keys, v, scans(folds)).fits(page_size // 8)]
    return fitting[-1] if fitting else None


SHAPES = [
    (page_size, keys, folds)
    for page_size in (4096, 8192, 16384)
    for keys, folds in ((1, 0), (16, 0), (64, 0), (1, 1), (3, 20), (2, 40))
    if widest(page_size, keys, folds) is not None
]


@pytest.mark.parametrize(("page_size", "keys", "folds"), SHAPES)
def test_the_widest_records(tmp_path, page_size, keys, folds):
    random = np.random.default_rng(page_size + keys + folds)
    values = widest(page_size, keys, folds)
    rows = random.integers(-WORDS - 1, WORDS, (keys + values, 600))
    expected = {tuple(row[:keys]): tuple(row) for row in rows.T.tolist()}
    with pagestore.open(tmp_path / "s.pages", sync="off", page_size=page_size) as store:
        with store.transaction() as txn:
            txn.create_words("$wide", keys, values, scans(folds))
        for some in (rows[:, :400], rows[:, 400:500], rows[:, 500:501], rows[:, 501:]):
            with store.transaction() as txn:
                txn.apply("$wide", np.full(some.shape[1], INSERT), some)
            assert not store.check()
        gone, other = rows[:, 100:250], rows[:, 300:400].copy()
        other[keys:] = random.integers(-WORDS - 1, WORDS, (values, 100))
        with store.transaction() as txn:
            txn.apply("$wide", np.full(150, ERASE), gone)
            txn.apply("$wide", np.full(100, SET), other)
        for row in gone.T.tolist():
            del expected[tuple(row[:keys])]
        expected |= {tuple(row[:keys]): tuple(row) for row in other.T.tolist()}
        assert not store.check()
        snapshot = store.snapshot()
        found = read(snapshot.pages, snapshot.tree("$wide"))
        assert [*map(tuple, found.T.tolist())] == sorted(expected.values())
        finder = RecordFinder(snapshot.pages, snapshot.tree("$wide"))
        for row in rows.T.tolist()[::7]:
            there = expected.get(tuple(row[:keys]))
            assert finder.find(tuple(row[:keys])) == (there and there[keys:])


@pytest.mark.parametrize("columns", [40, 48, 56, 64])
@pytest.mark.parametrize("page_size", [4096, 8192, 16384, 65536])
def test_wide_relations_in_bulk(tmp_path, columns, page_size):
    """At the end, more pages wait than are written at once."""
    names = [f"c{i}" for i in range(columns)]
    rows = np.random.default_rng(columns).integers(-WORDS - 1, WORDS, (columns, 5000))
    rows[0] = np.arange(5000)
    with pagestore.open(tmp_path / "s.pages", sync="off", page_size=page_size) as store:
        with store.transaction() as txn:
            schema = ", ".join(f"{name}: int64" for name in names)
            assert txn.create("r", schema, key="c0").bulk([list(rows)]) == 5000
            txn.create("again", schema, key="c0").insert(list(rows[:, ::-1]))
        assert not store.check()
        for name in ("r", "again"):
            found = store.snapshot()[name].to_numpy()
            assert (np.stack([found[name] for name in names]) == rows).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda txn: txn.create_words("$x", 16, 2000),
        lambda txn: txn.create_words("$x", 1, 299),
        lambda txn: txn.create_words("$x", 1, 1, ((SUM, 0),) * 256),
        lambda txn: txn.create_words("$x", 1, -1),
        lambda txn: txn.create("x", "a: int64", hidden=600),
        lambda txn: txn.create("x", "a: int64, b: int64", hidden=-2),
        lambda txn: txn.create("x", ", ".join(f"c{i}: int64" for i in range(60)), scans=SUMS),
    ],
)
def test_what_no_page_could_hold(tmp_path, make):
    with (
        pagestore.open(tmp_path / "s.pages", sync="off", page_size=4096) as store,
        store.transaction() as txn,
    ):
        with pytest.raises(SchemaError):
            make(txn)
        txn.create("x", "a: int64").insert([(1,)])
    with pagestore.open(tmp_path / "s.pages") as store:
        assert not store.check() and list(store.snapshot()["x"]) == [(1,)]


def test_a_scan_too_many(tmp_path):
    columns = [f"c{i}" for i in range(64)]
    with (
        pagestore.open(tmp_path / "s.pages", sync="off", page_size=4096) as store,
        store.transaction() as txn,
    ):
        r = txn.create("r", ", ".join(f"{name}: int64" for name in columns), key="c0")
        r.insert([tuple(range(64))])
        with pytest.raises(
            SchemaError, match="take fewer scans or columns, or a store with a larger page_size"
        ):
            for name in columns[1:]:
                txn.add_scan("r", f"sum:{name}")
        assert list(r) == [tuple(range(64))]
