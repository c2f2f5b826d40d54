"""Lists and maps of rows become relations of their own, and follow the rows in every mode."""

import json
import random
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagestore
from pagestore_tools.cli import main
from pagestore_tools.loading import edit, opened

LINE = pa.struct(
    [("sku", pa.string()), ("pieces", pa.int32()), ("at", pa.struct([("x", pa.float32())]))]
)
SCHEMA = pa.schema(
    [("shop", pa.string()), ("id", pa.int16()), ("tags", pa.list_(pa.string())), ("lines",
    pa.large_list(LINE)),
     ("pair", pa.list_(pa.int64(), 2)), ("price", pa.map_(pa.string(), pa.decimal128(5, 2))),
     ("paid", pa.bool_())]
)  # fmt: skip


def some_row(chance: random.Random, shop: str, id_: int) -> dict:
    lines = [
        {
            "sku": chance.choice("abc"),
            "pieces": chance.randrange(9),
            "at": {"x": chance.randrange(4) / 2},
        }
        for _ in range(chance.randrange(4))
    ]
    return {
        "shop": shop,
        "id": id_,
        "tags": chance.choice([None, [], ["a"], ["b", "a", "b"]]),
        "lines": chance.choice([None, lines]),
        "pair": [chance.randrange(5), chance.randrange(5)],
        "price": chance.choice(
            [None, {}, {"net": pa.scalar(chance.randrange(99)).as_py(), "tax": 1}]
        ),
        "paid": chance.random() < 0.5,
    }


def run(*words: object) -> int:
    return main.pagestore([*map(str, words)])


def check(file: Path, truth: dict[tuple, dict]) -> None:
    """The relations hold the rows, and their elements and no others."""
    with pagestore.open(file, mode="r") as store:
        found = {name: sorted(relation) for name, relation in store.snapshot().items()}
        assert store.check() == []
    rows = truth.items()
    assert found["r"] == sorted((*key, row["paid"]) for key, row in rows)
    assert found["r:tags"] == sorted(
        (*key, i, one) for key, row in rows for i, one in enumerate(row["tags"] or [])
    )
    assert found["r:pair"] == sorted(
        (*key, i, one) for key, row in rows for i, one in enumerate(row["pair"])
    )
    assert found["r:lines"] == sorted(
        (*key, i, one["sku"], one["pieces"], one["at"]["x"])
        for key, row in rows
        for i, one in enumerate(row["lines"] or [])
    )
    assert found["r:price"] == sorted(
        (*key, name, one) for key, row in rows for name, one in dict(row["price"] or {}).items()
    )


def elements_of(truth: dict[tuple, dict]) -> dict[str, dict[tuple, object]]:
    """The rows of each relation of elements, by key."""

    def named(key: tuple, row: dict) -> Iterator[tuple[str, dict]]:
        for name in ("tags", "lines", "pair"):
            yield name, {(*key, i): one for i, one in enumerate(row[name] or [])}
        yield "price", {(*key, name): one for name, one in dict(row["price"] or {}).items()}

    found: dict[str, dict] = {name: {} for name in ("tags", "lines", "pair", "price")}
    for key, row in truth.items():
        for name, elements in named(key, row):
            found[name].update(elements)
    return found


def counts_of(mode: str, before: dict, after: dict, loaded: dict) -> dict[str, int]:
    """What a load has to report of a relation that was `before` and is `after`."""
    if mode in ("create", "replace"):
        return {"rows": len(loaded), "inserted": len(after), "changed": 0, "deleted": len(before)}
    changed = sum(before[key] != after[key] for key in before.keys() & after)
    return {
        "rows": 0 if mode == "delete" else len(loaded),
        "inserted": len(after.keys() - before),
        "changed": changed,
        "deleted": len(before.keys() - after),
    }


@pytest.mark.parametrize("few", [0, 10_000])
@pytest.mark.parametrize("seed", range(3))
def test_each_mode(
    few: int,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Against a dict; batches are of a few rows, slices of larger ones. What is reported is what
    happened.
    """
    monkeypatch.setattr(opened, "BATCH_ROWS", 7)
    monkeypatch.setattr(edit, "FEW_KEYS", few)
    chance, truth, file = random.Random(seed), {}, tmp_path / "s.pages"
    for number, mode in enumerate(
        ["create", "append", "upsert", "delete", "upsert", "replace", "delete"]
    ):
        fresh = [(s, i) for s in "xy" for i in range(40) if mode != "append" or (s, i) not in truth]
        keys = chance.sample(fresh, 20)
        rows = [some_row(chance, *key) for key in keys]
        table = pa.Table.from_pylist(rows, SCHEMA)
        path = tmp_path / f"{number}.{chance.choice(['parquet', 'arrow'])}"
        table = table.select(["id", "shop"]) if mode == "delete" else table
        if path.suffix == ".parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(str(path), table.schema) as out:
                out.write_table(table)
        how = ["--key", "shop,id"] if mode == "create" else [f"--{mode}"]
        assert run("load", file, "r", path, "--json", *how) == 0
        report, before = json.loads(capsys.readouterr().out), elements_of(truth)
        if mode == "replace":
            truth = {}
        for key, row in zip(keys, rows, strict=True):
            if mode == "delete":
                truth.pop(key, None)
            else:
                truth[key] = row
        check(file, truth)
        after, loaded = elements_of(truth), elements_of(dict(zip(keys, rows, strict=True)))
        assert report["lists"] == {
            f"r:{name}": counts_of(mode, before[name], after[name], loaded[name]) for name in before
        }


def test_what_is_refused_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, chance = tmp_path / "s.pages", random.Random(1)
    rows = [some_row(chance, "x", i) for i in range(9)]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "a.parquet")
    assert run("load", file, "r", tmp_path / "a.parquet", "--key", "shop,id") == 0
    truth = {("x", i): row for i, row in enumerate(rows)}
    deep = pa.table({"shop": ["x"], "id": [1], "tags": [[["a"]]]})
    hollow = pa.table({"shop": ["z"], "id": [1], "tags": [["a", None]], "paid": [True]})
    for table, how, says in [
        (
            pa.Table.from_pylist(rows[:3], SCHEMA),
            "--append",
            "r:tags: 3 rows with a key that already exists",
        ),
        (
            pa.Table.from_pylist(rows[:3], SCHEMA).drop_columns(["tags"]),
            "--upsert",
            "no column tags for the lists r:tags",
        ),
        (
            pa.Table.from_pylist([rows[1], rows[1]], SCHEMA),
            "--upsert",
            "r:tags: a key comes twice, with two lists",
        ),
        (deep, "--key=shop,id", "column tags: value is of a type that a relation cannot hold"),
        (hollow, "--key=shop,id", "column tags: value is null in some elements"),
    ]:
        pq.write_table(table, tmp_path / "b.parquet")
        more = ["--nulls", "refuse"] if table is hollow else []
        assert (
            run("load", file, "q" if "key" in how else "r", tmp_path / "b.parquet", how, *more) == 1
        )
        assert says in capsys.readouterr().err
        check(file, truth)
    assert (
        run(
            "load",
            file,
            "q",
            tmp_path / "a.parquet",
            "--key",
            "shop,id",
            "--columns",
            "shop,id,paid",
        )
        == 0
    )
    with pagestore.open(file, mode="r") as store:
        assert "q:tags" not in store.snapshot() and len(store.snapshot()["q"]) == 9


def test_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"id": 1, "tags": ["a", "b"], "who": {"name": "Ada"}}\n{"id": 2, "late": 5}\n'
    )
    assert (
        run(
            "load",
            tmp_path / "s.pages",
            "r",
            tmp_path / "a.jsonl",
            "--key",
            "id",
            "--columns",
            "id,tags",
        )
        == 0
    )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert list(store.snapshot()["r:tags"]) == [(1, 0, "a"), (1, 1, "b")]


def test_lists_are_renamed_emptied_and_dropped_with_their_rows(tmp_path: Path) -> None:
    file = tmp_path / "s.pages"
    pq.write_table(pa.table({"id": [1, 2], "tags": [["a"], ["b", "c"]]}), tmp_path / "a.parquet")
    assert run("load", file, "r", tmp_path / "a.parquet", "--key", "id") == 0

    def found() -> dict[str, int]:
        with pagestore.open(file, mode="r") as store:
            return {name: len(relation) for name, relation in store.snapshot().items()}

    assert run("rename", file, "r", "s") == 0 and found() == {"s": 2, "s:tags": 3}
    assert run("truncate", file, "s") == 0 and found() == {"s": 0, "s:tags": 0}
    assert run("load", file, "s", tmp_path / "a.parquet", "--append") == 0 and found() == {
        "s": 2,
        "s:tags": 3,
    }
    assert run("drop", file, "s") == 0 and found() == {}


def test_elements_and_parts_of_structs_may_be_null(tmp_path: Path) -> None:
    lines = pa.list_(
        pa.struct([("sku", pa.string()), pa.field("pieces", pa.int64(), nullable=False)])
    )
    who = pa.struct([("name", pa.string()), ("age", pa.uint64())])
    table = pa.table(
        {
            "id": [1, 2, 3],
            "who": pa.array([{"name": "Ada", "age": 0}, {"name": None, "age": 7}, None], who),
            "tags": pa.array([["a", None], None, []], pa.list_(pa.string())),
            "prices": pa.array(
                [[("de", 1.5), ("fr", None)], None, []], pa.map_(pa.string(), pa.float64())
            ),
            "lines": pa.array(
                [[], [{"sku": None, "pieces": 2}, {"sku": "tea", "pieces": 1}], None], lines
            ),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    assert run("load", tmp_path / "s.pages", "r", tmp_path / "a.parquet", "--key", "id") == 0
    assert (
        run(
            "load",
            tmp_path / "s.pages",
            "d",
            tmp_path / "a.parquet",
            "--key",
            "id",
            "--nulls",
            "drop",
        )
        == 0
    )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        snap = store.snapshot()
        assert store.check() == []
        assert str(snap["r"].schema) == "id: int64, who:name: string?, who:age: uint64?"
        assert list(snap["r"]) == [(1, "Ada", 0), (2, None, 7), (3, None, None)]
        assert list(snap["r:tags"]) == [(1, 0, "a"), (1, 1, None)]
        assert list(snap["r:prices"]) == [(1, "de", 1.5), (1, "fr", None)]
        assert (
            str(snap["r:lines"].schema)
            == "id: int64, position: int64, sku: string?, pieces: int64?"
        )
        assert list(snap["r:lines"]) == [(2, 0, None, 2), (2, 1, "tea", 1)]
        assert [list(snap[name]) for name in ("d", "d:tags", "d:prices", "d:lines")] == [
            [(1, "Ada", 0)],
            [(1, 0, "a")],
            [(1, "de", 1.5)],
            [],
        ]


CAST = [  # a file's text, the casts, and the rows of its lists, or what is refused
    ('{"id": 1, "tags": [1, 2.50]}', ["tags:value=string"], ["1", "2.50"]),
    ('{"id": 1, "tags": [1.10, 2]}', ["tags:value=decimal(9,2)"], [Decimal("1.10"),
    Decimal("2.00")]),
    ('{"id": 1, "tags": [1, "a"]}', ["tags:value=string"], ["1", "a"]),
    ('{"id": 1, "tags": ["2020-01-31"]}', ["tags:value=date"], [date(2020, 1, 31)]),
    ('{"id": 1, "tags": []}\n{"id": 2, "tags": null}', ["tags:value=int64"], []),
    ('{"id": 1, "tags": null}', ["tags:value=int64"], []),
    ('{"id": 1, "tags": [{"a": 1, "b": "7"}, {"a": "x", "id": 5}]}',
     ["tags:a=string", "tags:b=int64", "tags:id=string"], [("1", 7, None), ("x", None, "5")]),
    ('{"id": 1, "tags": [1, "a"]}', [],
    "column tags has a text where .*: --cast tags:value=string takes both"),
    ('{"id": 1, "tags": []}', [], "say it with --cast tags:value=TYPE"),
    ('{"id": 1, "tags": [{"a": 1}]}', ["tags:b=string"],
    "no tags:b to cast; there is tags:a: mend --cast"),
    ('{"id": 1, "tags": [1]}', ["other:value=string"], "has no column other:value"),
    ('{"id": 1, "tags": ["a"]}', ["tags:value=int64"], "column tags: value .* int64"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "casts", "expected"), CAST)
def test_casts_name_elements_of_json(text, casts, expected, tmp_path, capsys):
    """Numbers stay as they are written."""
    source = tmp_path / "rows.json"
    source.write_text(text)
    assert cast_elements(source, casts, capsys, expected)


PARQUET = [
    (pa.array([[1, 2]]), ["tags:value=string"], ["1", "2"]),
    (pa.array([["1", "a"]]), ["tags:value=string"], ["1", "a"]),
    (pa.array([[]], pa.list_(pa.null())), ["tags:value=int64"], []),
    (
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
        ["tags:value=decimal(9,2)"],
        [Decimal("1.00")],
    ),
    (
        pa.array([[{"a": 1, "id": 2}]]),
        ["tags:a=decimal(9,2)", "tags:id=string"],
        [(Decimal("1.00"), "2")],
    ),
    (pa.array([["a"]]), ["tags:value=int64"], "column tags: value .* int64"),
    (pa.array([[{"a": 1}]]), ["tags:b=string"], "no tags:b to cast; there is tags:a: mend --cast"),
]


@pytest.mark.parametrize(("tags", "casts", "expected"), PARQUET)
def test_casts_name_elements_of_parquet(tags, casts, expected, tmp_path, capsys):
    pq.write_table(pa.table({"id": [1], "tags": tags}), source := tmp_path / "rows.parquet")
    assert cast_elements(source, casts, capsys, expected)


def cast_elements(source: Path, casts: list[str], capsys, expected: list | str) -> bool:
    """Whether a load has these elements of the column tags, or is refused with this sentence."""
    file = source.with_name("s.pages")
    code = run(
        "load",
        file,
        "r",
        source,
        "--key",
        "id",
        *(word for cast in casts for word in ("--cast", cast)),
    )
    said = capsys.readouterr().err
    if isinstance(expected, str):
        return code == 1 and re.search(expected, said) is not None
    assert code == 0, said
    with pagestore.open(file, mode="r") as store:
        found = [row[2:] for row in store.snapshot()["r:tags"]]
    return found == [one if isinstance(one, tuple) else (one,) for one in expected]
