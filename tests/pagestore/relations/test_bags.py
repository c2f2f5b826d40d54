"""Relations that hold a row several times: random edits against lists, read in every form."""

import io
import random
from collections import Counter
from importlib.util import find_spec

import numpy as np
import pytest

import pagestore
from pagestore.errors import SchemaError
from pagestore.trees.kernels.node_buffer import SET
from tests.support import struct_reader

SCHEMA = "a: int64?, t: string?"
ROWS = [(a, t) for a in (None, 1, 2) for t in (None, "", "b", "a")]


def in_order(row: tuple) -> list:
    return [() if x is None else (x.encode() if isinstance(x, str) else x,) for x in row]


def check(relation, expected: Counter, rng: random.Random) -> None:
    rows = sorted(expected.elements(), key=in_order)
    assert (
        [*relation] == rows and [*reversed(relation)] == rows[::-1] and len(relation) == len(rows)
    )
    assert relation.to_arrow().to_pylist() == [{"a": a, "t": t} for a, t in rows]
    if find_spec("pandas"):
        frame = relation.to_pandas()
        assert [
            tuple(row) for row in frame.astype(object).where(frame.notna(), None).values
        ] == rows
    assert [key for key, _ in relation.items()] == rows and bool(relation) == bool(rows)
    assert sum(len(batch) for batch in relation.batches(rows=3)) == len(rows)
    assert all(len(batch) <= 3 for batch in relation.batches(rows=3))
    assert all(
        relation.get(row, 0) == expected[row] and (row in relation) == (expected[row] > 0)
        for row in ROWS
    )
    assert relation.first() == (rows[0] if rows else None) and relation.last() == (
        rows[-1] if rows else None
    )
    assert relation.scan("count") == len(rows) and relation.scan("count:a") == sum(
        a is not None for a, _ in rows
    )
    assert relation.scan("sum:a") == sum(a or 0 for a, _ in rows)
    low, high = sorted(rng.sample(ROWS, 2), key=in_order)
    some = [row for row in rows if in_order(low) <= in_order(row) < in_order(high)]
    assert [*relation.range(low, high)] == some and len(relation.range(low, high)) == len(some)
    assert [*relation.prefix(None)] == [row for row in rows if row[0] is None]
    assert relation.rank(low) == sum(in_order(row) < in_order(low) for row in rows)
    if rows:
        place = rng.randrange(len(rows))
        assert relation.select(place) == rows[place]


@pytest.mark.parametrize("seed", range(6))
def test_a_bag_holds_rows_several_times(tmp_path, seed):
    rng = random.Random(seed)
    expected: Counter = Counter()
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off", retain="all") as store:
        for round_ in range(5):
            before, version = expected.copy(), store.version
            with store.transaction() as txn:
                bag = txn.create("r", SCHEMA, bag=True, keys_null=True) if not round_ else txn["r"]
                for _ in range(rng.randint(1, 6)):
                    rows, how = (
                        rng.choices(ROWS, k=rng.randint(1, 8)),
                        rng.choice(["insert", "insert", "delete", "every"]),
                    )
                    if how == "insert":
                        bag.insert(rows)
                        expected.update(rows)
                    else:
                        bag.delete(rows, every=how == "every")
                        for row in rows:
                            expected[row] = max(0, expected[row] - 1) if how == "delete" else 0
                check(bag, expected, rng)
            expected = +expected
            check(store.snapshot()["r"], expected, rng)
            if round_:
                changes = Counter()
                for change in store.diff(version, store.version, "r").read_all().to_pylist():
                    row, kind = (change["a"], change["t"]), change["_change_type"]
                    changes[row] += 1 if kind == "insert" else -1
                assert {row: n for row, n in changes.items() if n} == {
                    row: expected[row] - before[row] for row in ROWS if expected[row] != before[row]
                }
        assert Counter(struct_reader.relations(str(tmp_path / "s.pages"))["r"]) == expected
        out = io.BytesIO()
        store.dump(out)
        with pagestore.open(tmp_path / "copy.pages", sync="off") as copy:
            copy.restore(io.BytesIO(out.getvalue()))
            check(copy.snapshot()["r"], expected, rng)
            assert copy.check() == []
        store.compact()
        check(store.snapshot()["r"], expected, rng)
        assert store.check() == []


def test_many_equal_rows_are_read_in_batches(tmp_path):
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        bag = txn.create("r", "x: int64", bag=True)
        for _ in range(20):
            bag.insert([(7,)] * 10_000 + [(8,)])
        assert len(bag) == 200_020 and max(map(len, bag.batches())) <= 1 << 16
        assert txn.tree("r").count == 2 and bag.scan("sum:x") == 1_400_160


def test_what_a_bag_is_not(tmp_path):
    with pagestore.open(":memory:") as store, store.transaction() as txn:
        for more in ({"key": "x"}, {"scans": "count"}, {"intervals": ("x", "y")}):
            with pytest.raises(
                SchemaError, match="a bag has neither a key nor scans nor intervals"
            ):
                txn.create("wrong", "x: int64, y: int64", bag=True, **more)
        bag = txn.create("r", "x: int64, y: int64", bag=True)
        for wrong in (
            lambda: bag.set([(1, 2)]),
            lambda: bag.add([(1, 2)]),
            lambda: txn.add_scan("r", "count"),
            bag.cursor,
        ):
            with pytest.raises(SchemaError, match="is a bag"):
                wrong()
        assert bag.bulk([[(1, 2), (1, 2)], [(0, 0)]]) == 3 and [*bag] == [(0, 0), (1, 2), (1, 2)]


def test_a_negative_multiplicity_is_found(tmp_path):
    with pagestore.open(":memory:") as store:
        with store.transaction() as txn:
            txn.create("r", "x: int64", bag=True).insert([(7,), (8,)])
        assert store.check() == []
        with store.transaction() as txn:
            txn.apply("r", np.array([SET]), np.array([[7], [-1]]))
        (found,) = store.check()
        assert found.invariant == "values" and "column 1 of slot 0 has the word -1" in str(found)
