"""Columns that may be null: random tables against lists of tuples, in every form that rows come
and go in.
"""

import io
import random
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import pagestore
from pagestore.errors import SchemaError, WordError
from pagestore.relations import texts
from pagestore.values.codec import NULL
from tests.support import struct_reader

TYPES = {
    "number": ("int64", lambda r: r.choice([0, -1, 5, 2**63 - 1, 1 - 2**63])),
    "ratio": ("float64", lambda r: r.choice([-float("inf"), -1.5, 0.0, 2.25, float("inf")])),
    "ok": ("bool", lambda r: r.random() < 0.5),
    "born": ("date", lambda r: date(1 + r.randrange(9999), 1, 1)),
    "at": (
        "timestamp",
        lambda r: datetime(2013, 1, 1 + r.randrange(28), microsecond=r.randrange(9)),
    ),
    "pay": ("decimal(18,2)", lambda r: Decimal(r.randrange(-(10**18) + 1, 10**18)) / 100),
    "email": ("string", lambda r: r.choice(["", "a", "é", "x" * 2000])),
    "raw": ("bytes", lambda r: r.choice([b"", b"\0", b"\xff"])),
}
SCHEMA = (
    "id: int64, "
    + ", ".join(f"{name}: {type_}?" for name, (type_, _) in TYPES.items())
    + ", n: int64"
)
NAMES = ["id", *TYPES, "n"]


def table(seed: int, n: int, share: float = 0.3) -> list[tuple]:
    """n rows of which a share of the values is null."""
    rng = random.Random(seed)
    return [
        (
            i,
            *(None if rng.random() < share else value(rng) for _, value in TYPES.values()),
            rng.randrange(9),
        )
        for i in range(n)
    ]


@pytest.fixture(params=[0, 0.3, 1])
def rows(request) -> list[tuple]:
    return table(7, 200, request.param)


@pytest.fixture
def store(tmp_path, rows):
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off", retain="all") as store:
        with store.transaction() as txn:
            txn.create("r", SCHEMA, key="id", scans=["count", "checksum", "sum:n"]).insert(rows)
        yield store


def test_rows_come_out_as_they_went_in(store, rows):
    relation = store.snapshot()["r"]
    assert list(relation) == rows
    assert [relation.get(row[0]) for row in rows] == [row[1:] for row in rows]
    assert all(row in relation for row in rows)
    assert (rows[0][0], *[None] * len(TYPES), 99) not in relation
    assert str(relation.schema) == SCHEMA and store.check() == []


def test_arrow_and_back(store, rows, tmp_path):
    relation = store.snapshot()["r"]
    arrow = relation.to_arrow()
    assert arrow.schema == relation.schema.arrow
    assert [field.name for field in arrow.schema if field.nullable] == [*TYPES]
    assert arrow.to_pylist() == [dict(zip(NAMES, row, strict=True)) for row in rows]
    with store.transaction() as txn:
        for name, form in (
            ("arrow", arrow),
            ("relation", relation),
            ("columns", [*zip(*rows, strict=True)]),
        ):
            copy = txn.create(name, SCHEMA, key="id")
            copy.insert(**{"columns" if name == "columns" else "rows": form})
            assert list(copy) == rows
    assert store.check() == []


def test_numpy(store, rows):
    columns = store.snapshot()["r"].to_numpy()
    for place, name in enumerate(NAMES):
        values, expected = columns[name], [row[place] for row in rows]
        if name in ("number", "ok"):
            assert np.ma.getmaskarray(values).tolist() == [value is None for value in expected]
            assert values.tolist() == expected
        elif name == "ratio":
            assert [None if np.isnan(value) else value for value in values.tolist()] == expected
        else:
            assert [None if value is None else value for value in values.tolist()] == expected
    found, values = store.snapshot()["r"].get_many([0, 1, 10**6])
    assert found.tolist() == [True, True, False]
    assert values["email"].tolist() == [rows[0][7], rows[1][7], ""]


def test_scans_skip_nulls(store, rows):
    relation = store.snapshot()["r"]
    for lo, hi in ((), ()), ((20,), (120,)), ((3,), (3,)):
        part = relation.range(lo, hi)
        some = [row for row in rows if (not lo or row[0] >= lo[0]) and (not hi or row[0] < hi[0])]
        for place, name in enumerate(NAMES):
            there = [row[place] for row in some if row[place] is not None]
            assert part.scan(f"count:{name}") == len(there)
            if name in ("number", "pay", "n"):
                assert part.scan(f"sum:{name}") == sum(there)
            if name not in ("id", "n", "ok"):
                raw = [
                    (value.encode(), value) if isinstance(value, str) else (value, value)
                    for value in there
                ]
                assert part.scan(f"min:{name}") == min(raw, default=(None, None))[1]
                assert part.scan(f"max:{name}") == max(raw, default=(None, None))[1]
        there = [(row[1], row[0]) for row in some if row[1] is not None]
        assert part.scan("argmax:number,id") == max(there, default=(None, None))[1]
        assert str(part.scan("concat:email")) == "".join(
            row[7] for row in some if row[7] is not None
        )
        assert part.scan("count") == len(some)
    assert relation.scan_many("count:email", [(0,), (50,)], [(50,), (60,)]).to_pylist() == [
        sum(row[7] is not None for row in rows[:50]),
        sum(row[7] is not None for row in rows[50:60]),
    ]
    for scan in ("sum:number", "max:born", "count:ok"):
        with (
            pytest.raises(SchemaError, match="have no stored scan: fold them without one"),
            store.transaction() as txn,
        ):
            txn.add_scan("r", scan)


def test_differences_dumps_and_copies(store, rows, tmp_path):
    other = [row for row in table(8, 230, 0.5) if row[0] % 3]
    with store.transaction() as txn:
        txn["r"].delete([(row[0],) for row in rows if row[0] % 3 == 0])
        txn["r"].set(other)
    before, after = {row[0]: row for row in rows}, {row[0]: row for row in other}
    expected = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            expected += [
                (*row, kind)
                for row, kind in ((before.get(key), "delete"), (after.get(key), "insert"))
                if row
            ]
    assert [
        tuple(change.values()) for change in store.diff(1, 2, "r").read_all().to_pylist()
    ] == expected
    out = io.BytesIO()
    store.dump(out, [1, 2])
    with pagestore.open(tmp_path / "copy.pages", sync="off", retain="all") as copy:
        copy.restore(io.BytesIO(out.getvalue()))
        assert list(copy.snapshot()["r"]) == other and list(copy.at(1)["r"]) == rows
        assert copy.check() == []
    store.compact()
    assert list(store.snapshot()["r"]) == other and store.check() == []


def test_whole_records_with_nulls_are_deleted(store, rows):
    with store.transaction() as txn:
        relation = txn["r"]
        relation.delete([rows[0], (*rows[1][:-1], 99)])
        assert list(relation) == rows[1:]
        relation[1] = rows[2][1:]
        assert relation[1] == rows[2][1:]


def test_what_may_not_be_null(store):
    with store.transaction() as txn:
        for schema, key in (
            ("x: int64?", None),
            ("x: string?, y: int64", "x"),
            ("x: int64, y: date?", ("x", "y")),
        ):
            with pytest.raises(
                SchemaError, match=r"a key is never null; leave the \? out, name .*keys_null=True"
            ):
                txn.create("wrong", schema, key=key)
        with pytest.raises(
            WordError, match=r"column 'n', row 0: a null, .*declare a value column as int64\?"
        ):
            txn["r"].insert([(1000, *[None] * (len(TYPES) + 1))])
        with pytest.raises(
            WordError, match=r"column 'number', row 1: -9223372036854775808 stands for a null"
        ):
            txn["r"].insert([(1000, 1, *[None] * 7, 1), (1001, -(2**63), *[None] * 7, 1)])
        with pytest.raises(SchemaError, match="column 'number' is int64"):
            txn["r"].add([(1, 1, *[None] * 7, 1)])
        with pytest.raises(WordError, match="a null"):
            txn["r"].get(None)
        with pytest.raises(SchemaError, match="is not a type"):
            txn.create("wrong", "x: int64, y: int64??", key="x")


def test_columns_without_a_null_take_the_space_that_they_took(tmp_path):
    sizes = []
    for mark in ("", "?"):
        with pagestore.open(tmp_path / f"s{mark}.pages", sync="off") as store:
            with store.transaction() as txn:
                relation = txn.create("r", f"id: int64, v: int64{mark}, w: float64{mark}", key="id")
                relation.insert(
                    [np.arange(50_000), np.arange(50_000) % 1000, np.arange(50_000) / 4]
                )
            sizes.append((tmp_path / f"s{mark}.pages").stat().st_size)
    assert sizes[0] == sizes[1]


def test_a_word_that_is_neither_a_value_nor_null_is_found(store):
    with store.transaction() as txn:
        words = np.full((len(NAMES), 1), NULL)
        words[0], words[NAMES.index("ok")] = 5000, 7
        txn.apply("r", np.array([0]), words)
    (violation,) = store.check()
    assert (
        violation.invariant == "values" and f"column {NAMES.index('ok')} of slot" in violation.fact
    )


def test_a_null_of_arrow_without_a_type(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        relation = txn.create("r", "x: int64, s: string?", key="x")
        relation.insert(pa.table({"x": [1, 2], "s": pa.nulls(2)}))
        assert list(relation) == [(1, None), (2, None)]


KEYS = {
    "a": ("int64?", [None, -1, 0, 3]),
    "t": ("string?", [None, "", "a", "b", "é"]),
    "d": ("date?", [None, date(1, 1, 1), date(2020, 1, 1)]),
    "f": ("float64?", [None, -1.5, 0.0]),
    "b": ("bytes?", [None, b"", b"\xff"]),
}


def in_order(row: tuple) -> list:
    """What sorts rows as a relation does: nulls first, texts by their UTF-8."""
    return [() if x is None else (x.encode() if isinstance(x, str) else x,) for x in row]


@pytest.mark.parametrize("seed", range(12))
def test_null_is_a_value_of_a_key(tmp_path, monkeypatch, seed):
    """Random edits of relations whose key columns may be null, read in every order and range,
    against a dict.
    """
    # so that both ways to read texts in order are used
    monkeypatch.setattr(texts, "SORTED_AT_ONCE", seed % 2 * 10**6)
    rng = random.Random(seed)
    names = rng.sample([*KEYS], rng.randint(1, 3))
    schema = ", ".join(f"{name}: {KEYS[name][0]}" for name in names)
    expected: dict[tuple, int | None] = {}
    with pagestore.open(tmp_path / "s.pages", page_size=4096, sync="off", retain="all") as store:
        for round_ in range(4):
            with store.transaction() as txn:
                if not round_:
                    txn.create(
                        "r", f"{schema}, v: int64?", key=names, keys_null=True, scans=["count"]
                    )
                relation = txn["r"]
                keys = [tuple(rng.choice(KEYS[name][1]) for name in names) for _ in range(25)]
                for key in keys:
                    if rng.random() < 0.6:
                        expected[key] = rng.choice([None, 1, 2])
                        relation.set([(*key, expected[key])])
                    else:
                        expected.pop(key, None)
                        relation.delete([key])
                check_reads(relation, expected, names, rng)
        check_reads(store.snapshot()["r"], expected, names, rng)
        assert struct_reader.relations(str(tmp_path / "s.pages"))["r"] == stored_order(
            store.snapshot()["r"]
        )
        out = io.BytesIO()
        store.dump(out)
        with pagestore.open(tmp_path / "copy.pages", sync="off") as copy:
            copy.restore(io.BytesIO(out.getvalue()))
            assert [*copy.snapshot()["r"]] == [*store.snapshot()["r"]] and copy.check() == []
        assert store.check() == []


def stored_order(relation) -> list[tuple]:
    """The rows in the order of their words, dates as days."""
    words = np.concatenate([*relation.words()], axis=1)
    rows = relation._tuples(words.take(np.lexsort(words[: len(relation.schema.key)][::-1]), axis=1))
    return [
        tuple((x - date(1970, 1, 1)).days if isinstance(x, date) else x for x in row)
        for row in rows
    ]


def check_reads(relation, expected: dict, names: list[str], rng: random.Random) -> None:
    rows = [(*key, expected[key]) for key in sorted(expected, key=in_order)]
    assert (
        [*relation] == rows and [*reversed(relation)] == rows[::-1] and len(relation) == len(rows)
    )
    assert relation.to_arrow().to_pylist() == [
        dict(zip((*names, "v"), row, strict=True)) for row in rows
    ]
    assert all(relation.get(row[:-1], "none") == row[-1] for row in rows)
    lo, hi = (
        tuple(rng.choice(KEYS[name][1]) for name in names[: rng.randint(0, len(names))])
        for _ in range(2)
    )
    inside = [
        row
        for row in rows
        if in_order(row)[: len(lo)] >= in_order(lo)
        and (not hi or in_order(row)[: len(hi)] < in_order(hi))
    ]
    part = relation.range(lo, hi)
    assert [*part] == inside and len(part) == len(inside), (lo, hi)
    assert [*reversed(part)] == inside[::-1] and part.scan("count") == len(inside)
    starts = [row for row in rows if row[: len(lo)] == lo]
    assert [*relation.prefix(*lo)] == starts and [*relation.prefix(*lo).range(lo, hi)] == [
        row for row in starts if row in inside
    ]
    cursor = relation.cursor()
    assert [cursor.next() for _ in rows] == rows and [cursor.prev() for _ in rows[1:]] == rows[
        -2::-1
    ]


def test_a_key_that_may_be_null_is_asked_for(tmp_path):
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        with pytest.raises(SchemaError, match="a key is never null; .* or give keys_null=True"):
            txn.create("r", "x: int64?")
        with pytest.raises(SchemaError, match="ends of one type that is never null"):
            txn.create("i", "a: int64?, b: int64?", intervals=("a", "b"), keys_null=True)
        made = txn.create("r", "x: int64?", keys_null=True)
        made.insert([(None,), (3,), (None,)])
        assert [*made] == [(None,), (3,)] and (None,) in made
        with pytest.raises(WordError, match="stands for a null"):
            made.insert([(-(2**63),)])
        assert [*txn.add_column("r", "v: int64", 7)] == [(None, 7), (3, 7)]
        with pytest.raises(WordError, match="null somewhere"):
            txn.refuse_nulls("r", ["x"])
