"""Relations of 1,000 columns, through every door in and out; what is too wide says what to do."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from pagestore.errors import SchemaError
from pagestore.host import Schema
from pagestore_tools.cli.main import ivm as rules
from pagestore_tools.cli.main import pagestore as command

WIDTH, ROWS = 1000, 60
PAGE_SIZE = 65536
KINDS = "int64?", "string?", "float64?", "int64"
NAMES = ["id", *(f"c{i}" for i in range(1, WIDTH))]
TYPES = ["string", *(KINDS[i % 4] for i in range(1, WIDTH))]
SCHEMA = Schema.parse(", ".join(f"{n}: {t}" for n, t in zip(NAMES, TYPES, strict=True)), "id")


def value(chance: random.Random, kind: str) -> object:
    if kind.endswith("?") and chance.random() < 0.2:
        return None
    number = chance.randrange(10)
    return f"t{number}" if kind == "string?" else number / 4 if kind == "float64?" else number


def some_rows(seed: int, keys: range) -> dict[str, tuple]:
    chance = random.Random(seed)
    return {f"k{i:03}": (f"k{i:03}", *(value(chance, kind) for kind in TYPES[1:])) for i in keys}


def table_of(rows: dict[str, tuple]) -> pa.Table:
    return pa.table(
        [
            pa.array(c, t)
            for c, t in zip(zip(*rows.values(), strict=True), SCHEMA.arrow.types, strict=True)
        ],
        SCHEMA.arrow,
    )


def run(*words: object) -> None:
    assert command([*map(str, words), "--quiet"]) == 0


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple]]:
    """A store that `load` made, of whatever pages it chose, with one version more than that."""
    folder = tmp_path_factory.mktemp("wide")
    rows = some_rows(1, range(ROWS))
    pq.write_table(table_of(rows), folder / "first.parquet")
    run("load", folder / "s.pages", "wide", folder / "first.parquet", "--key", "id")
    more = {**some_rows(2, range(5, 8)), **some_rows(3, range(ROWS, ROWS + 3))}
    pyarrow.csv.write_csv(table_of(more), folder / "second.csv")
    run("load", folder / "s.pages", "wide", folder / "second.csv", "--upsert", "--nulls", "keep")
    kinds = dict(enumerate(TYPES))
    texts = {  # a CSV has no null of texts
        key: tuple("" if v is None and kinds[i] == "string?" else v for i, v in enumerate(row))
        for key, row in more.items()
    }
    return folder / "s.pages", {**rows, **texts}


def without_empty(row: tuple) -> tuple:
    """A row with nulls for empty texts, which a CSV does not tell apart."""
    return tuple(None if v == "" else v for v in row)


def same(found: list[tuple], rows: dict[str, tuple]) -> None:
    assert [*map(without_empty, found)] == [without_empty(rows[key]) for key in sorted(rows)]


def test_relations_arrow_and_diffs(loaded: tuple[Path, dict[str, tuple]]) -> None:
    file, rows = loaded
    with pagestore.open(file, mode="r") as store:
        assert store.page_size == PAGE_SIZE and store.check() == []
        relation = store.snapshot()["wide"]
        same([*relation], rows)
        same(list(zip(*relation.to_arrow().to_pydict().values(), strict=True)), rows)
        assert relation["k003"] == rows["k003"][1:]
        assert sum(batch.num_rows for batch in relation.batches()) == len(rows)
        kinds = store.diff(1, 2, "wide").read_all()["_change_type"].to_pylist()
        assert (kinds.count("insert"), kinds.count("delete")) == (6, 3)


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl", "arrow"])
def test_files(loaded: tuple[Path, dict[str, tuple]], form: str, tmp_path: Path) -> None:
    file, rows = loaded
    run("print", file, "wide", "-o", tmp_path / f"out.{form}")
    with (
        pagestore.open(tmp_path / "s.pages", page_size=PAGE_SIZE) as store,
        store.transaction() as txn,
    ):
        txn.create("wide", SCHEMA)
    run("load", tmp_path / "s.pages", "wide", tmp_path / f"out.{form}", "--append")
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        same([*store.snapshot()["wide"]], rows)


def test_dumps_make_stores_of_pages_that_are_large_enough(
    loaded: tuple[Path, dict[str, tuple]], tmp_path: Path
) -> None:
    file, rows = loaded
    run("dump", file, "-o", tmp_path / "dump", "--version", 1, "--version", 2)
    run("restore", tmp_path / "dump", tmp_path / "s.pages")
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert store.page_size == PAGE_SIZE and store.check() == []
        same([*store.snapshot()["wide"]], rows)


def test_random_edits(tmp_path: Path) -> None:
    chance, rows = random.Random(5), {}
    with pagestore.open(tmp_path / "s.pages", page_size=PAGE_SIZE, sync="off") as store:
        with store.transaction() as txn:
            txn.create("wide", SCHEMA, scans=["sum:c3", "count"])
        for seed in range(8):
            new = some_rows(
                seed, range(start := chance.randrange(60), start + chance.choice([1, 30]))
            )
            gone = chance.sample([*rows], min(len(rows), chance.choice([0, 1, 20])))
            with store.transaction() as txn:
                txn["wide"].set([*new.values()])
                txn["wide"].delete([(key,) for key in gone])
            rows = {key: row for key, row in {**rows, **new}.items() if key not in gone}
            assert [*store.snapshot()["wide"]] == [rows[key] for key in sorted(rows)]
        assert store.check() == []
        assert store.snapshot()["wide"].scan("sum:c3") == sum(row[3] for row in rows.values())


def test_rules_read_and_index_only_their_columns(
    loaded: tuple[Path, dict[str, tuple]], tmp_path: Path
) -> None:
    """q(e, k) by e needs an index with the key and one column; changes of others do not touch
    it.
    """
    file, rows = loaded
    rows = dict(rows)
    path = tmp_path / "s.pages"
    path.write_bytes(file.read_bytes())
    text = """
        q(e, k) <- wide:c997[k] = e.
        few(k, x, y) <- wide:c4[k] = x, wide:c999[k] = y.
        pairs(k, m) <- wide:c3[k] = x, wide:c995[m] = x, x = 3.
        total[e] = t <- agg<<t = sum(x)>> wide:c5[k] = e, wide:c3[k] = x.
        lacks(k) <- wide:c4[k] = 3, !wide:c8[k] = _.
    """
    with ivm.open(path) as ws:
        ws.install(text)

        def check() -> None:
            r = rows.values()
            assert {*ws["q"]} == {(w[997], w[0]) for w in r if w[997] is not None}
            assert {*ws["few"]} == {(w[0], w[4], w[999]) for w in r if w[4] is not None}
            assert {*ws["pairs"]} == {(v[0], w[0]) for v in r for w in r if v[3] == w[995] == 3}
            groups = {w[5] for w in r if w[5] is not None}
            assert {*ws["total"]} == {(e, sum(w[3] for w in r if w[5] == e)) for e in groups}
            assert {*ws["lacks"]} == {(w[0],) for w in r if w[4] == 3 and w[8] is None}

        check()
        snapshot = ws.store.snapshot()
        trees = {
            name: snapshot.tree(name)
            for name in snapshot._version.catalog.relations
            if name.startswith("$index:wide")
        }
        assert trees and all(tree.spec.columns <= 3 for tree in trees.values())
        chance = random.Random(4)
        for column in (2, 3, 4, 5, 8, 995, 997, 999):
            key = chance.choice([*rows])
            row = list(rows[key])
            row[column] = value(chance, TYPES[column])
            rows[key] = tuple(row)
            with ws.store.transaction() as txn:
                txn["wide"].set([rows[key]])
            check()
            now = ws.store.snapshot()
            if column == 2:  # no rule reads it
                assert all(now.tree(name).root == tree.root for name, tree in trees.items())
        assert ws.check() == []


def test_commands_on_rules(
    loaded: tuple[Path, dict[str, tuple]], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file, rows = loaded
    assert (
        rules(["query", str(file), "q(k) <- wide:c3[k] = 3, wide:c999[k] = 4.", "--format", "csv"])
        == 0
    )
    expected = [f'"{key}"' for key, row in sorted(rows.items()) if (row[3], row[999]) == (3, 4)]
    assert capsys.readouterr().out.splitlines()[1:] == expected
    assert rules(["declare", str(file)]) == 0
    assert capsys.readouterr().out.startswith("wide[id] = (c1, c2, c3")


def test_more_than_a_thousand_are_refused() -> None:
    with pytest.raises(
        SchemaError,
        match="a relation has 1 to 1000 columns, not 1001; leave some out, or give them",
    ):
        Schema.parse(", ".join(f"c{i}: int64" for i in range(1001)), "c0")


def test_a_store_of_small_pages_says_which_would_do(tmp_path: Path) -> None:
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        with pytest.raises(
            SchemaError, match="page_size: 65536 is enough, and pagestore restore --page-size"
        ) as raised:
            txn.create("wide", SCHEMA)
        assert raised.value.page_size == PAGE_SIZE
        txn.create("less", ", ".join(f"c{i}: int64" for i in range(150)), key="c0").insert(
            [tuple(range(150))]
        )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert store.check() == [] and store.snapshot()["less"][0] == tuple(range(1, 150))
