"""Loading into a relation that exists: what each source and each mode does, and that views
follow.
"""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from pagestore.errors import ExistsError
from pagestore_tools.cli import main
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.dataset import Reading
from pagestore_tools.loading.load import load

COLUMNS = ("id", "town", "paid")
RULES = """
    paid[id] = p -> int(id), int(p).
    rich(id) <- paid[id] = p, p > 50.
    total[] = t <- agg<<t = sum(p)>> paid[_] = p.
"""


def write(path: Path, rows: list[tuple], columns: tuple[str, ...] = COLUMNS) -> Path:
    """Rows as a file of the format that its name says."""
    if path.suffix in (".csv", ".tsv"):
        with open(path, "w", newline="") as out:
            writer = csv.writer(out, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerows([columns, *rows])
    elif path.suffix == ".jsonl":
        path.write_text(
            "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
        )
    else:
        table = pa.table({name: [row[i] for row in rows] for i, name in enumerate(columns)})
        if path.suffix == ".parquet":
            pq.write_table(table, path)
        else:
            new = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
            with new(str(path), table.schema) as out:
                out.write_table(table)
    return path


def run(*words: object) -> int:
    return main.pagestore([*map(str, words)])


def rows_of(file: Path, relation: str = "r") -> list[tuple]:
    with pagestore.open(file, mode="r") as store:
        assert store.check() == []
        return sorted(store.snapshot()[relation])


@pytest.mark.parametrize("suffix", ["parquet", "csv", "tsv", "jsonl", "arrow", "arrows"])
def test_each_source_in_each_mode(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against a dict, which does the same."""
    file, chance, truth = tmp_path / "s.pages", random.Random(suffix), {}

    def some(keys: range) -> list[tuple]:
        return [
            (k, chance.choice(["Ulm", "São Paulo", "a,b\n", ""]), chance.randrange(99))
            for k in keys
        ]

    for number, (mode, rows) in enumerate(
        [
            ("create", some(range(50))),
            ("append", some(range(50, 80))),
            ("upsert", some(range(60, 100))),
            ("delete", [(k,) for k in range(10, 20)]),
            ("delete", [(k, *truth.get(k, ("", 0))) for k in range(5)]),  # filled below
            ("replace", some(range(90, 120))),
        ]
    ):
        if number == 4:
            rows = [(k, *truth[k]) for k in range(5)] + [(30, "elsewhere", -1)]
        path = write(tmp_path / f"{number}.{suffix}", rows, COLUMNS[: len(rows[0])])
        how = ["--key", "id"] if mode == "create" else [f"--{mode}"]
        assert run("load", file, "r", path, *how) == 0
        if mode == "replace":
            truth = {}
        for key, *values in rows:
            if mode != "delete":
                truth[key] = tuple(values)
            elif not values or truth.get(key) == tuple(values):
                del truth[key]
        assert rows_of(file) == sorted((k, *values) for k, values in truth.items())
        out = capsys.readouterr().out
        assert mode != "delete" or f"{10 if number == 3 else 5} deleted" in out


def test_appending_counts_what_is_there_and_refuses_other_values(tmp_path: Path, capsys) -> None:
    file = tmp_path / "s.pages"
    write(tmp_path / "a.csv", [(1, "Ulm", 5), (2, "Bonn", 6), (3, "Kiel", 7)])
    assert run("load", file, "r", tmp_path / "a.csv", "--key", "id") == 0
    write(tmp_path / "b.csv", [(2, "Bonn", 6), (4, "Jena", 1)])
    assert run("load", file, "r", tmp_path / "b.csv", "--append", "--json") == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (answer["mode"], answer["rows"], answer["inserted"]) == ("append", 2, 1)
    before = rows_of(file)
    write(tmp_path / "c.csv", [(i, "Rom", 0) for i in range(9)])
    assert run("load", file, "r", tmp_path / "c.csv", "--append") == 1
    said = capsys.readouterr().err
    assert (
        "key (id=1) has both (town=Ulm, paid=5) and (town=Rom, paid=0)" in said
        and "4 keys in all" in said
    )
    assert rows_of(file) == before


def test_what_is_there_is_not_loaded_over_unsaid(tmp_path: Path, capsys) -> None:
    file, path = tmp_path / "s.pages", write(tmp_path / "a.csv", [(1, "Ulm", 5)])
    assert run("load", file, "r", path) == 1
    assert (
        "the relation needs a key: name at least one of id, town, paid with --key"
        in capsys.readouterr().err
    )
    assert run("load", file, "r", path, "--delete") == 1
    assert "there is no relation 'r' to delete from; there is none" in capsys.readouterr().err
    # a nightly job makes it on the first night
    assert run("load", file, "r", path, "--append", "--key", "id") == 0
    assert run("load", file, "r", path, "--append", "--key", "id,town") == 1
    assert "the key of 'r' is id, not id,town: leave --key out" in capsys.readouterr().err
    assert run("load", file, "r", path) == 1
    assert "--append or --upsert" in capsys.readouterr().err
    with pagestore.open(file) as store, store.transaction() as txn, pytest.raises(ExistsError):
        load(txn, "r", path)


def test_columns_are_renamed_chosen_and_cast(tmp_path: Path, capsys) -> None:
    file = tmp_path / "s.pages"
    path = write(
        tmp_path / "a.csv", [("007", "1.50", "x"), ("8", "2", "y")], ("code", "price", "junk")
    )
    assert (
        run(
            "load",
            file,
            "r",
            path,
            "--rename",
            "code=id",
            "--columns",
            "price,id",
            "--cast",
            "price=decimal(9,2)",
            "--key",
            "id",
        )
        == 0
    )
    with pagestore.open(file, mode="r") as store:
        relation = store.snapshot()["r"]
        # zeros in front make a code
        assert str(relation.schema) == "price: decimal(9,2), id: string"
        assert sorted(str(price) for price, _ in relation) == ["1.50", "2.00"]
    assert run("load", file, "r", path, "--upsert") == 1
    said = capsys.readouterr().err
    assert "a column code, which 'r' has not" in said and "no column id, which 'r' has" in said
    for option, complaint in [
        (["--rename", "cod=id"], "has no column cod; it has code, price, junk"),
        (["--columns", "code,prize"], "has no column prize; it has code"),
        (["--cast", "kode=string"], "has no column kode; it has code, price, junk"),
        (["--key", "kode"], "no column kode for the key"),
    ]:
        assert (
            run(
                "load",
                file,
                "q",
                path,
                *(["--key", "code"] if "--key" not in option else []),
                *option,
            )
            == 1
        )
        assert complaint in capsys.readouterr().err


def test_a_csv_takes_the_types_of_the_relation(tmp_path: Path) -> None:
    file = tmp_path / "s.pages"
    with pagestore.open(file) as store, store.transaction() as txn:
        txn.create("r", "id: string, price: decimal(9,2), born: date", key="id")
    path = write(
        tmp_path / "a.csv", [(1, 2, "2013-01-31"), (2, 0.5, "2014-02-01")], ("id", "price", "born")
    )
    assert run("load", file, "r", path, "--append") == 0
    assert [(k, str(p), str(b)) for k, p, b in rows_of(file)] == [
        ("1", "2.00", "2013-01-31"),
        ("2", "0.50", "2014-02-01"),
    ]


def test_all_problems_of_all_files_are_told_at_once(tmp_path: Path, capsys) -> None:
    file = tmp_path / "s.pages"
    write(tmp_path / "a.csv", [(1, "x", 5), (2, "x", "five"), (3, "x", "six"), ("", "x", 1)])
    write(tmp_path / "b.csv", [(4, "y", 5), (5, "y", ""), (6, "y", ""), (7, "y", "", "more")])
    (tmp_path / "c.parquet").write_bytes(b"PAR1 cut short")
    sources = [tmp_path / name for name in ("a.csv", "b.csv", "c.parquet")]
    assert (
        run("load", file, "r", *sources, "--key", "id", "--cast", "paid=int64", "--nulls", "refuse")
        == 1
    )
    said = capsys.readouterr().err
    for part in [
        "problems, and nothing is loaded",
        "a.csv: column paid does not fit int64 in 2 rows, the first in line 3 ('five')",
        "b.csv: 4 values where the head has 3 columns",
        "b.csv: column paid is null in 2 rows, the first in line 3",
        "c.parquet is not a Parquet file, or was cut short",
    ]:
        assert part in said, said
    assert not file.exists()


def test_texts_that_look_like_numbers_keep_what_they_are(tmp_path: Path) -> None:
    """Zeros in front, digits beyond a float's, and bytes that are not text."""
    (tmp_path / "a.csv").write_text(
        "id,zip,card,big,share\n1,01234,4111111111111111222333,1234567890123456789,0.5\n"
    )
    assert run("load", tmp_path / "s.pages", "r", tmp_path / "a.csv", "--key", "id") == 0
    assert rows_of(tmp_path / "s.pages") == [
        (1, "01234", "4111111111111111222333", 1234567890123456789, 0.5)
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty: a CSV file has the names of its columns in the first line"),
        (
            b"id,name\n",
            "has no values, so nothing says of which types its columns are: say it with --cast "
            "id=TYPE",
        ),
        (b"id,id\n1,2\n", "has two columns id: name each in its first line"),
        (b"id,\n1,2\n", "has a column without a name"),
        (b"id,name\n1,2,\n", "3 values where the head has 2 columns in 1 row (1,2,)"),
        (b"id,name\n1,M\xfcller\n", r"column name is not UTF-8 in line 2 (b'M\xfcller'): say what"),
        (b"id,born\n1,2013-01-31\n2,31.1.2013\n", None),  # a text
    ],
)
def test_csv_files_as_people_have_them(
    content: bytes, says: str | None, tmp_path: Path, capsys
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert run("load", tmp_path / "s.pages", "r", tmp_path / "a.csv", "--key", "id") == (
        says is not None
    )
    assert says is None or says in capsys.readouterr().err


def test_what_is_left_out_may_be_wrong(tmp_path: Path, capsys) -> None:
    write(tmp_path / "a.csv", [(1, "Ulm", "five"), (2, "Bonn", 6)])
    words = [
        "load",
        tmp_path / "s.pages",
        "r",
        tmp_path / "a.csv",
        "--key",
        "id",
        "--cast",
        "paid=int64",
    ]
    assert run(*words, "--cast", "town=date") == 1
    said = capsys.readouterr().err
    assert (
        "column paid does not fit int64 in line 2 ('five')" in said
        and "column town does not fit date in 2 rows" in said
    )
    assert run(*words[:6], "--columns", "id,town") == 0 and rows_of(tmp_path / "s.pages") == [
        (1, "Ulm"),
        (2, "Bonn"),
    ]


@pytest.mark.parametrize("content", ["a;b\n1;x\n", "a\tb\n1\tx\n", "\ufeffa,b\r\n1,x\r\n"])
def test_csv_files_of_other_habits(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(content.encode())
    assert run("load", tmp_path / "s.pages", "r", tmp_path / "a.csv", "--key", "a") == 0
    assert rows_of(tmp_path / "s.pages") == [(1, "x")]


def test_json_as_a_list_and_in_which_columns_come_late(tmp_path: Path, capsys) -> None:
    (tmp_path / "a.json").write_text('[{"a": 1, "b": 2.5}, {"a": 2, "b": 3}]')
    (tmp_path / "b.json").write_text('{"a": 3}\n\n{"b": 1, "a": 4}\n')
    assert run("load", tmp_path / "s.pages", "r", tmp_path / "a.json", "--key", "a") == 0
    assert (
        run("load", tmp_path / "s.pages", "r", tmp_path / "b.json", "--append", "--nulls", "drop")
        == 0
    )
    assert rows_of(tmp_path / "s.pages") == [(1, 2.5), (2, 3.0), (4, 1.0)]
    (tmp_path / "c.json").write_text('{"a": 3}\n{"a":')
    assert run("load", tmp_path / "s.pages", "r", tmp_path / "c.json", "--append") == 1
    assert "c.json, line 2: no JSON: Expecting value" in capsys.readouterr().err


def test_foreign_files_of_a_folder_are_noted(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder / "a.csv", [(1, "Ulm", 5)])
    write(folder / "b.parquet", [(2, "Ulm", 5)])
    (folder / "readme.md").write_text("what this is")
    (folder / "noted").write_bytes((folder / "b.parquet").read_bytes())  # known by its first bytes
    assert run("load", tmp_path / "s.pages", "r", folder, "--key", "id") == 0
    assert (
        "note: " in (said := capsys.readouterr().err)
        and "1 file that is not a table, left out: readme.md" in said
    )
    assert [row[0] for row in rows_of(tmp_path / "s.pages")] == [1, 2]
    assert run("load", tmp_path / "s.pages", "r", folder / "*.csv", "--upsert") == 0
    assert run("load", tmp_path / "s.pages", "r", folder / "*.xls", "--upsert") == 1
    assert "no file matches this pattern" in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["append", "upsert", "replace", "delete"])
def test_views_follow_in_the_same_commit(mode: str, tmp_path: Path, capsys) -> None:
    file, chance = tmp_path / "s.pages", random.Random(mode)
    with ivm.open(file) as ws:
        ws.install(RULES, name="money")
        with ws.transaction() as txn:
            txn.insert("paid", [(i, chance.randrange(100)) for i in range(200)])
        version = ws.store.version
        stored = list(ws["paid"])
        names = tuple(ws["paid"].schema.names)
    rows = {
        "append": [(i, chance.randrange(100)) for i in range(200, 250)],
        "upsert": [(i, chance.randrange(100)) for i in range(150, 250)],
        "replace": [(i, chance.randrange(100)) for i in range(50, 90)],
        "delete": stored[::3],
    }[mode]
    assert run("load", file, "paid", write(tmp_path / "a.parquet", rows, names), f"--{mode}") == 0
    assert "; rich, total followed" in capsys.readouterr().out
    with ivm.open(file, mode="r") as ws:
        assert ws.store.version == version + 1
        paid = dict(iter(ws["paid"]))
        assert sorted(ws["rich"]) == sorted((k,) for k, p in paid.items() if p > 50)
        assert list(ws["total"]) == [(sum(paid.values()),)]
        assert ws.check() == []
    assert run("load", file, "rich", tmp_path / "a.parquet", "--append") == 1
    assert "'rich' is a view, which ivm keeps as it follows from paid" in capsys.readouterr().err


def test_rows_are_deleted_by_any_columns(tmp_path: Path, capsys) -> None:
    file, columns = tmp_path / "s.pages", ("who", "day", "paid")
    rows = [(who, day, 7) for who in ("ada", "bob", "eve") for day in range(4)]
    assert (
        run(
            "load",
            file,
            "r",
            write(tmp_path / "a.csv", rows, columns),
            "--key",
            "who,day",
            "--quiet",
        )
        == 0
    )
    gone = write(tmp_path / "b.csv", [("bob",), ("nobody",)], ("who",))
    assert run("load", file, "r", gone, "--delete") == 0
    assert "4 deleted" in capsys.readouterr().out
    assert rows_of(file) == [row for row in rows if row[0] != "bob"]
    assert (
        run(
            "load",
            file,
            "r",
            write(tmp_path / "c.csv", [(2, 7), (3, 8)], ("day", "paid")),
            "--delete",
        )
        == 0
    )
    assert "2 deleted" in capsys.readouterr().out
    assert rows_of(file) == [row for row in rows if row[0] != "bob" and row[1] != 2]
    assert run("load", file, "r", write(tmp_path / "d.csv", [("ada",)], ("whom",)), "--delete") == 1
    said = capsys.readouterr().err
    assert (
        said.count("\n") == 1
        and "a column whom, which 'r' has not; it has who, day, paid: if that is who" in said
    )


@pytest.mark.parametrize("mode", ["upsert", "append", "replace"])
def test_a_load_that_is_killed_leaves_nothing(mode: str, tmp_path: Path) -> None:
    """Nor half a view."""
    file, rows, files = tmp_path / "s.pages", 200_000, 3
    with ivm.open(file) as ws:
        ws.install(RULES + "+paid[0] = 60.", name="money")
        names = ws["paid"].schema.names
    for number in range(files):
        part = range(1 + number * rows, 1 + (number + 1) * rows)
        pq.write_table(
            pa.table([pa.array(part[::-1]), pa.array([70] * rows)], names),
            tmp_path / f"{number}.parquet",
        )
    words = [sys.executable, "-m", "pagestore", "load", str(file), "paid", f"--{mode}", "--quiet"]
    words += [str(tmp_path / f"{number}.parquet") for number in range(files)]
    whole = rows * files + (mode != "replace")
    for delay in (0.7, 1.2, 1.8):
        loading = subprocess.Popen(words, env={**os.environ})
        time.sleep(delay)
        loading.send_signal(signal.SIGKILL)
        loading.wait()
        with ivm.open(file, mode="r") as ws:
            count = len(ws["paid"])
            assert count in (1, whole) and len(ws["rich"]) == count
    assert subprocess.run(words).returncode == 0
    with ivm.open(file, mode="r") as ws:
        assert list(ws["total"]) == [(70 * rows * files + 60 * (mode != "replace"),)]
        assert ws.check() == [] and ws.store.check() == []


def test_drop_rename_truncate(tmp_path: Path, capsys) -> None:
    file, path = tmp_path / "s.pages", write(tmp_path / "a.csv", [(1, "Ulm", 5), (2, "Bonn", 6)])
    assert run("load", file, "r", path, "--key", "id", "--quiet") == 0
    assert run("rename", file, "r", "s") == 0 and rows_of(file, "s") == [
        (1, "Ulm", 5),
        (2, "Bonn", 6),
    ]
    assert run("rename", file, "r", "s") == 1
    assert run("truncate", file, "s", "--json") == 0
    assert run("load", file, "s", path, "--append", "--quiet") == 0
    assert run("load", file, "r", path, "--key", "id", "--quiet") == 0
    assert run("rename", file, "r", "s") == 1
    assert run("drop", file, "r", "none") == 1 and len(rows_of(file)) == 2  # all or none
    assert run("drop", file, "r", "s") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["r dropped: 2 rows", "s dropped: 2 rows"]
    with pagestore.open(file, mode="r") as store:
        assert list(store.snapshot()) == [] and store.check() == []


def test_what_views_read_is_neither_dropped_nor_renamed(tmp_path: Path, capsys) -> None:
    file = tmp_path / "s.pages"
    with ivm.open(file) as ws:
        ws.install(RULES + "+paid[1] = 99.", name="money")
    assert run("drop", file, "paid") == 1 and run("rename", file, "paid", "p") == 1
    assert (
        capsys.readouterr().err.count(
            "'paid' was dropped, renamed or given other columns than the rules of "
        )
        == 2
    )
    assert run("truncate", file, "paid") == 0
    with ivm.open(file, mode="r") as ws:
        assert list(ws["rich"]) == [] and ws.check() == []


def test_a_reading_is_checked_in_python_too(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [(1, "Ulm", 5)])
    with pagestore.open(tmp_path / "s.pages") as store:
        with pytest.raises(DatasetError, match="no column nr"), store.transaction() as txn:
            load(txn, "r", path, ["id"], reading=Reading(columns=["id", "nr"]))
        assert list(store.snapshot()) == []


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".arrow", ".arrows"])
def test_nulls_are_kept_by_each_mode(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A column of values lacks some, and views see the values that exist."""
    file, new = tmp_path / "s.pages", tmp_path / f"new{suffix}"

    def command(rows: list[tuple], *how: str) -> int:
        return run("load", file, "r", write(new, rows), *how)

    assert command([(1, "x", 60), (2, "y", None), (3, "z", 5)], "--key", "id") == 0
    with pagestore.open(file, mode="r") as store:
        assert str(store.snapshot()["r"].schema) == "id: int64, town: string, paid: int64?"
    with ivm.open(file) as ws:
        ws.install("rich(i) <- r(i, _, p), p > 50.", name="rich")
    assert command([(4, "w", None), (5, "v", 70)], "--append") == 0
    assert command([(1, "x", None), (2, "y", 90)], "--upsert") == 0
    truth = [(1, "x", None), (2, "y", 90), (3, "z", 5), (4, "w", None), (5, "v", 70)]
    assert rows_of(file) == truth and rows_of(file, "rich") == [(2,), (5,)]
    capsys.readouterr()
    assert command([(2, "y", None)], "--append") == 1
    assert (
        "key (id=2) has both (town=y, paid=90) and (town=y, paid=None)" in capsys.readouterr().err
    )
    assert command([(None, "y", 1), (7, "y", 1)], "--append") == 1
    first = {".csv": "line 2", ".jsonl": "line 1"}.get(suffix, "row 0")
    says = f"column id is null in {first}: a key is never null; fill them with --fill id=VALUE"
    assert says in capsys.readouterr().err
    assert command([(7, "y", None), (8, "y", 1)], "--upsert", "--nulls", "refuse") == 1
    assert f"column paid is null in {first}: nulls are refused" in capsys.readouterr().err
    assert rows_of(file) == truth
    assert command([(1, "x", None), (2, "y", None), (6, "y", 2)], "--delete") == 0
    assert rows_of(file) == truth[1:]
    assert command([(7, "y", None), (8, "y", 1)], "--append", "--nulls", "drop") == 0
    assert command([(9, "y", None), (10, "y", 1)], "--append", "--fill", "paid=55") == 0
    assert rows_of(file)[4:] == [(8, "y", 1), (9, "y", 55), (10, "y", 1)]
    assert rows_of(file, "rich") == [(2,), (5,), (9,)]
    assert command([(1, "x", None), (2, "y", 51)], "--replace") == 0
    assert (rows_of(file), rows_of(file, "rich")) == ([(1, "x", None), (2, "y", 51)], [(2,)])


def test_a_column_that_needs_values_stays_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.pages"
    assert run("load", file, "r", write(tmp_path / "a.parquet", [(1, "x", 60)]), "--key", "id") == 0
    assert (
        run(
            "load",
            file,
            "r",
            write(tmp_path / "b.parquet", [(2, "x", 1), (3, "x", None)]),
            "--append",
        )
        == 1
    )
    assert (
        "column paid is null in row 1: 'r' keeps no nulls there (paid: int64)"
        in capsys.readouterr().err
    )


def test_remedies_for_a_null_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the relation was made without nulls, and where the column's name has a space."""
    file, source = tmp_path / "s.pages", tmp_path / "a.csv"
    source.write_text("id,home town\n1,Ulm\n2,\n")
    words = "load", file, "r", source, "--key", "id"
    assert run(*words) == 0
    assert run(*words, "--replace", "--empty-is-null") == 1
    said = capsys.readouterr().err
    assert "unless it is dropped and loaded anew; fill them with --fill 'home town=VALUE'" in said
    assert run("drop", file, "r") == 0 and run(*words, "--empty-is-null") == 0
    assert rows_of(file) == [(1, "Ulm"), (2, None)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [("int", "int64"), ("BIGINT?", "int64?"), ("double", "float64"), ("text", "string")],
)
def test_casts_know_the_types_of_rules_and_sql(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,v\na,1\n")
    assert (
        run(
            "load",
            tmp_path / "s.pages",
            "r",
            tmp_path / "a.csv",
            "--key",
            "id",
            "--cast",
            f"v={name}",
        )
        == 0
    )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert str(store.snapshot()["r"].schema.columns[1].type) == kind


def test_an_empty_text_is_a_null_where_that_is_asked_for(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", [(1, "Ulm", 5), (2, "", 7)])
    assert run("load", tmp_path / "s.pages", "r", source, "--key", "id", "--empty-is-null") == 0
    assert rows_of(tmp_path / "s.pages") == [(1, "Ulm", 5), (2, None, 7)]
    more = write(tmp_path / "b.csv", [(1, "", 6), (3, "Bonn", 1)])
    assert run("load", tmp_path / "s.pages", "r", more, "--upsert", "--empty-is-null") == 0
    assert rows_of(tmp_path / "s.pages") == [(1, None, 6), (2, None, 7), (3, "Bonn", 1)]
    assert run("load", tmp_path / "s.pages", "r", more, "--upsert") == 0
    assert rows_of(tmp_path / "s.pages")[0] == (1, "", 6)
    keyed = write(tmp_path / "c.csv", [("", 1, 1)])
    assert (
        run(
            "load",
            tmp_path / "t.pages",
            "t",
            keyed,
            "--key",
            "id,town",
            "--cast",
            "id=string",
            "--empty-is-null",
        )
        == 1
    )


def test_an_edit_that_begins_with_a_minus_is_no_option(tmp_path: Path) -> None:
    source = write(tmp_path / "a.csv", [(1, "Ulm", 5), (2, "", 7)])
    assert run("load", tmp_path / "s.pages", "r", source, "--key", "id") == 0
    for text in ("-r[1].", "-`r`[2]."):
        assert main.ivm(["exec", str(tmp_path / "s.pages"), text]) == 0
    assert rows_of(tmp_path / "s.pages") == []


def test_empty_texts_of_csv_are_noted(tmp_path: Path, capsys) -> None:
    """Where they might be nulls."""
    path = write(tmp_path / "a.csv", [(1, "", 5), (2, "Bonn", 6), (3, "", 7)])
    assert run("load", tmp_path / "s.pages", "r", path, "--key", "id") == 0
    assert capsys.readouterr().err.splitlines()[-2] == (
        "note: column town has 2 empty texts: --empty-is-null takes such a one as a null"
    )
    assert run("load", tmp_path / "s.pages", "q", path, "--key", "id", "--empty-is-null") == 0
    assert run("load", tmp_path / "s.pages", "r", path, "--upsert") == 0  # whose town is never null
    assert "empty" not in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".arrow"])
@pytest.mark.parametrize("seed", range(4))
def test_an_upsert_makes_what_it_makes_of_an_empty_relation(
    seed: int, suffix: str, tmp_path: Path
) -> None:
    """Of two rows with one key the last counts, also on the first night."""
    chance = random.Random(seed)
    keys = [chance.randrange(50) for _ in range(20 + 20 * seed)] if seed else [*range(30)]
    rows = [(key, chance.choice("ab"), chance.randrange(3)) for key in keys]
    path = write(tmp_path / f"a{suffix}", rows)
    truth = sorted({row[0]: row for row in rows}.values())
    assert run("load", tmp_path / "new.pages", "r", path, "--key", "id", "--upsert") == 0
    assert rows_of(tmp_path / "new.pages") == truth
    with pagestore.open(tmp_path / "empty.pages") as store, store.transaction() as txn:
        txn.create("r", "id: int64, town: string, paid: int64", key="id")
    assert run("load", tmp_path / "empty.pages", "r", path, "--upsert") == 0
    assert rows_of(tmp_path / "empty.pages") == truth
