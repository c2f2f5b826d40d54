"""A relation as a dict, against a dict; a cursor against a sorted list; columns that come and
go.
"""

import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, MutableMapping

import pytest

import pagestore
from pagestore.errors import ClosedError, DependantsError, SchemaError, WordError
from pagestore.relations import texts as text_keys

BEFORE, BEHIND = (float("-inf"),), (float("inf"),)


@pytest.fixture
def store():
    with pagestore.open(":memory:", page_size=4096) as store:
        yield store


@pytest.mark.parametrize(
    ("schema", "key", "make_key", "make_value"),
    [
        ("k: int64, v: int64", "k", int, int),
        ("v: float64, k: string", "k", lambda n: f"key {n}", float),
        (
            "a: int64, v: string, b: int64, w: bool",
            ("b", "a"),
            lambda n: (n // 7, n % 7),
            lambda n: (str(n), n > 9),
        ),
    ],
)
def test_random_calls_of_a_dict(store, schema, key, make_key, make_value) -> None:
    chance, truth = random.Random(schema), {}
    with store.transaction() as txn:
        relation = txn.create("r", schema, key=key)
        for step in range(400):
            k, v = make_key(chance.randrange(40)), make_value(chance.randrange(100))
            call = chance.choice(
                ["set", "pop", "setdefault", "update", "del", "get", "in", "pairs", "clear"]
            )
            if call == "set":
                relation[k] = truth[k] = v
            elif call == "pop":
                assert relation.pop(k, None) == truth.pop(k, None)
            elif call == "setdefault":
                assert relation.setdefault(k, v) == truth.setdefault(k, v)
            elif call == "update":
                more = {make_key(chance.randrange(40)): make_value(n) for n in range(5)}
                relation.update(more)
                truth.update(more)
            elif call == "del" and k in truth:
                del relation[k], truth[k]
            elif call == "pairs":
                relation.update([(k, v)])
                truth.update([(k, v)])
            elif call == "clear" and step % 3 == 0:
                relation.clear()
                truth.clear()
            assert relation.get(k) == truth.get(k) and (k in relation) == (k in truth)
        assert dict(relation.items()) == truth == dict(relation.mapping()) == dict(relation)
        assert dict(zip(relation.keys(), relation.values(), strict=True)) == truth
        for missing in (make_key(99), make_key(77)):
            with pytest.raises(KeyError):
                relation.pop(missing)


def test_a_mapping_is_what_wants_a_dict(store) -> None:
    with store.transaction() as txn:
        mapping = txn.create("r", "k: string, v: int64", key="k").mapping()
        assert isinstance(mapping, MutableMapping)
        mapping.update(tea=1, cake=2)
        assert (
            mapping == {"tea": 1, "cake": 2}
            and sorted(mapping) == ["cake", "tea"]
            and mapping.popitem()
        )
        mapping.clear()
        assert not mapping
        mapping["tea"] = 3
    read = store.snapshot()["r"].mapping()
    assert isinstance(read, Mapping) and not isinstance(read, MutableMapping) and read == {"tea": 3}


@pytest.mark.parametrize("seed", range(4))
def test_a_cursor_moves_forward_and_back(store, seed: int) -> None:
    chance = random.Random(seed)
    rows = sorted((x, y, x + y) for x in range(60) for y in range(30) if chance.random() < 0.8)
    with store.transaction() as txn:
        whole = txn.create("r", "x: int64, y: int64, s: int64", key=("x", "y"))
        whole.insert(rows)
        for relation in (whole, whole.range((7,), (50, 3))):
            truth = rows if relation is whole else [row for row in rows if (7,) <= row < (50, 3)]
            cursor, here = relation.cursor(), BEFORE
            for _ in range(600):
                call = chance.choice(
                    ["next"] * 5 + ["prev"] * 5 + ["seek", "first", "last", "edit"]
                )
                if call == "edit":
                    row = (chance.randrange(60), 40 + chance.randrange(9), 0)
                    if relation is whole and row not in truth:
                        whole.set([row])
                        insort(truth, row)
                    continue
                key = (chance.randrange(62), chance.randrange(32))[: chance.randint(1, 2)]
                place = {
                    "next": bisect_right(truth, here),
                    "prev": bisect_left(truth, here) - 1,
                    "first": 0,
                    "last": len(truth) - 1,
                    "seek": bisect_left(truth, max(key, relation._lo)),
                }[call]
                found = getattr(cursor, call)(*[key] * (call == "seek"))
                assert (
                    found == cursor.record == (truth[place] if 0 <= place < len(truth) else None)
                ), call
                here = found or (BEFORE if place < 0 else BEHIND)
        assert list(whole.cursor()) == rows
    snapshot = store.snapshot()
    cursor = snapshot["r"].cursor()
    assert cursor.first() == rows[0]
    snapshot.close()
    with pytest.raises(ClosedError):
        cursor.next()


def test_creating_what_is_there(store) -> None:
    with store.transaction() as txn:
        first = txn.create("r", "x: int64, y: string", key="x", if_not_exists=True)
        first.insert([(1, "a")])
        assert txn.create("r", "x: int64, y: string", key=["x"], if_not_exists=True) is first
        with pytest.raises(
            SchemaError, match="there is a relation 'r' with other columns or another key"
        ):
            txn.create("r", "x: int64, y: string", if_not_exists=True)


def test_columns_come_and_go(store) -> None:
    with store.transaction() as txn:
        txn.create(
            "r", "v: int64, k: int64, w: int64", key="k", scans=["count", "sum:w", "checksum"]
        ).insert([(1, 10, 5), (2, 20, 6)])
    with store.transaction() as txn:
        before = txn["r"]
        relation = txn.add_column("r", "town: string", "Ulm")
        assert relation.schema.names == ("v", "k", "w", "town") and next(iter(relation)) == (
            1,
            10,
            5,
            "Ulm",
        )
        with pytest.raises(pagestore.PagestoreError, match="ask the transaction for it again"):
            list(before)
        relation[30] = 3, 7, "Bonn"
        relation = txn.drop_column("r", "v")
        assert list(relation) == [(10, 5, "Ulm"), (20, 6, "Ulm"), (30, 7, "Bonn")]
        assert (
            relation.scan("sum:w") == 18
            and relation.scan("count") == 3
            and relation.range((15,)).scan("sum:w") == 13
        )
        for call, error in [
            (lambda: txn.drop_column("r", "k"), SchemaError),
            (lambda: txn.drop_column("r", "w"), SchemaError),  # it has a scan
            (lambda: txn.drop_column("r", "none"), SchemaError),
            (lambda: txn.add_column("r", "w: int64", 1), SchemaError),
            (lambda: txn.add_column("r", "z: int64", "text"), WordError),
        ]:
            with pytest.raises(error):
                call()
        assert len(txn["r"]) == 3
    assert store.check() == []
    assert list(store.at(1)["r"]) == [(1, 10, 5), (2, 20, 6)]
    with pytest.raises(SchemaError, match="made anew"):
        store.diff(1, 2, "r").read_all()


def test_a_column_of_what_a_view_reads_stays(store) -> None:
    import ivm

    with ivm.open(":memory:") as ws:
        ws.install("e[x] = y -> int(x), int(y). p(x) <- e[x] = _. +e[1] = 2.")
        with pytest.raises(DependantsError), ws.store.transaction() as txn:
            txn.drop_column("e", "y")
        assert list(ws["p"]) == [(1,)] and ws.check() == []


@pytest.mark.parametrize(
    "schema", ["k: string", "a: int64, k: string", "k: bytes, a: int64", "a: string, k: string"]
)
def test_texts_go_forward_and_back_in_their_order(store, schema) -> None:
    """A relation keyed by texts that came in any order, its ranges and a cursor, against a
    sorted list.
    """
    chance = random.Random(schema)
    names = [column.split(":")[0] for column in schema.split(", ")]

    def some() -> tuple:
        texts = "".join(chance.choices("ab\0é", k=chance.randrange(4)))
        text = texts.encode() if "bytes" in schema else texts
        value = {
            "k": text,
            "a": "xy"[chance.randrange(2)] if "a: string" in schema else chance.randrange(3),
        }
        return tuple(value[name] for name in names)

    def by(row: tuple) -> tuple:
        return tuple(value.encode() if isinstance(value, str) else value for value in row)

    with store.transaction() as txn:
        relation, truth = txn.create("r", schema), list[tuple]()
        for _ in range(30):
            relation.insert([some() for _ in range(3)])
            relation.delete([some()])
            rows = sorted(relation.to_arrow().to_pylist(), key=lambda row: by(tuple(row.values())))
            truth = [tuple(row.values()) for row in rows]
            low, high = sorted([some(), some()], key=by)
            for range_, within in [
                (relation, truth),
                (
                    relation.range(low, high),
                    [row for row in truth if by(low) <= by(row) < by(high)],
                ),
                (relation.prefix(*low[:1]), [row for row in truth if row[0] == low[0]]),
            ]:
                assert [*range_] == within and [*reversed(range_)] == within[::-1]
                assert (range_.first(), range_.last()) == (
                    (within or [None])[0],
                    (within or [None])[-1],
                )
                cursor, place, wanted = range_.cursor(), -1, some()
                cursor.seek(wanted)
                place = sum(by(row) < by(wanted) for row in within)
                for _ in range(8):
                    assert cursor.record == (within[place] if 0 <= place < len(within) else None)
                    step = chance.choice([1, 1, -1])
                    place = max(-1, min(len(within), place + step))
                    _ = cursor.next() if step > 0 else cursor.prev()


def test_a_cursor_sees_texts_that_come_while_it_moves(store) -> None:
    with store.transaction() as txn:
        relation = txn.create("r", "k: string, v: int64?", key="k")
        relation.insert([("b", 1), ("d", None)])
        cursor = relation.cursor()
        assert cursor.next() == ("b", 1)
        relation.insert([("a", 2), ("c", 3)])
        assert [cursor.next(), cursor.next(), cursor.next()] == [("c", 3), ("d", None), None]
        assert [*reversed(relation)] == [("d", None), ("c", 3), ("b", 1), ("a", 2)]
        assert dict(relation.items()) == {"a": 2, "b": 1, "c": 3, "d": None}


def test_texts_that_come_while_a_relation_is_read_move_nothing(store, monkeypatch) -> None:
    """Texts in front of, among and behind those that were read, forward and back."""
    monkeypatch.setattr(text_keys, "SORTED_AT_ONCE", 64)
    truth = [(f"key {n:04}",) for n in range(700)]
    with store.transaction() as txn:
        relation, other = txn.create("r", "k: string"), txn.create("other", "k: string")
        relation.insert(truth)
        for end, going in ((1, relation.batches(rows=100)), (-1, relation._words_backward(100))):
            found = []
            for step, batch in enumerate(going):
                rows = batch if end > 0 else relation.record_batch(batch)
                found += [*zip(*rows.to_pydict().values(), strict=True)]
                other.insert([(f"{where}{end}{step}",) for where in ("a", "key 0", "key 04", "z")])
            assert found == truth[::end]


def test_columns_are_renamed_without_a_page_changing(tmp_path):
    with pagestore.open(tmp_path / "r.pages") as store:
        with store.transaction() as txn:
            txn.create("r", "k: int64, s: string, v: int64", key="k", scans="sum:v").insert(
                [(1, "a", 5), (2, "b", 6)]
            )
        root = store.snapshot()["r"].tree.root
        with store.transaction() as txn:
            txn.rename_column("r", "v", "w")
            txn.rename_column("r", "k", "key")
            assert txn["r"].schema.names == ("key", "s", "w")
            for column, new in (("v", "x"), ("w", "s")):
                with pytest.raises(SchemaError):
                    txn.rename_column("r", column, new)
        with store.snapshot() as snap:
            assert snap["r"].tree.root == root and [*snap["r"].scans] == ["sum:w"]
            assert [*snap["r"].to_arrow().column_names] == ["key", "s", "w"] and [*snap["r"]] == [
                (1, "a", 5),
                (2, "b", 6),
            ]
        assert store.check() == []
