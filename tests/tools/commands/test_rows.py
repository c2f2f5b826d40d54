"""Rows are printed and written in every format, with what they hold, and a terminal gets a few
of them, harmless.
"""

import io
import json
import os
import random
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.cells import cell_len

import ivm
import pagestore
from pagestore_tools.cli import answers, main

TEXTS = ["plain", "日本語", "a\x1b[31mred", "line\nend"]


@pytest.fixture
def file(tmp_path):
    path = str(tmp_path / "s.pages")
    with ivm.open(path) as ws:
        ws.install("paid[id] = p -> int(id), decimal(9,2)(p). says(id, t) -> int(id), string(t).")
        with ws.transaction() as txn:
            txn.insert("paid", [(i, Decimal(f"{i}.25")) for i in range(120)])
            txn.insert("says", list(enumerate(TEXTS)))
    return path


@pytest.fixture
def terminal(monkeypatch, capsys):
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda stream: True)


READERS = {
    "csv": pyarrow.csv.read_csv,
    "json": lambda path: pa.Table.from_pylist([*map(json.loads, path.read_text().splitlines())]),
    "parquet": pq.read_table,
    "arrow": lambda path: pa.ipc.open_file(path).read_all(),
}


@pytest.mark.parametrize("form", READERS)
@pytest.mark.parametrize(
    "words",
    [
        ("ivm", "print", "FILE", "paid"),
        ("ivm", "query", "FILE", "q[x] = p <- paid[x] = p."),
        ("pagestore", "print", "FILE", "paid"),
    ],
)
def test_rows_in_a_file(form, words, file, tmp_path, capsys):
    program, *rest = (file if word == "FILE" else word for word in words)
    out = tmp_path / f"out.{form}"
    assert getattr(main, program)([*rest, "-o", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: 120 rows\n"
    table = READERS[form](out)
    assert table.num_rows == 120 and len(table.column_names) == 2
    assert [float(value) for value in table.column(1).to_pylist()] == [i + 0.25 for i in range(120)]
    if form in ("parquet", "arrow"):
        assert table.schema.types == [pa.int64(), pa.decimal128(9, 2)]
    assert (
        getattr(main, program)(
            [*rest, "-o", str(tmp_path / "some"), "--format", form, "--limit", "7"]
        )
        == 0
    )
    assert READERS[form](tmp_path / "some").num_rows == 7


def test_formats_on_stdout(file, capsysbinary):
    assert main.ivm(["print", file, "says", "--format", "csv"]) == 0
    assert (
        capsysbinary.readouterr()
        .out.decode()
        .startswith('"id","t"\n0,"plain"\n1,"日本語"\n2,"a\x1b[31mred"')
    )
    assert main.ivm(["print", file, "paid", "--format", "arrow"]) == 0
    assert pa.ipc.open_stream(capsysbinary.readouterr().out).read_all().num_rows == 120
    assert main.pagestore(["print", file, "paid", "--format", "json", "--limit", "1"]) == 0
    assert json.loads(capsysbinary.readouterr().out) == {"id": 0, "p": "0.25"}


def test_a_terminal_gets_the_first_rows_and_no_control_characters(file, terminal, capsys):
    assert main.ivm(["print", file, "paid"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (
        len(lines) == 52
        and lines[-1] == "120 rows, 50 shown: --limit 120 shows all, -o FILE writes them"
    )
    assert main.ivm(["print", file, "paid", "--limit", "120"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "120 rows"
    assert main.pagestore(["print", file, "says", "--format", "csv"]) == 0
    assert "\x1b" not in (said := capsys.readouterr().out) and r"a\x1b[31mred" in said
    with pytest.raises(SystemExit, match="2"):
        main.ivm(["print", file, "paid", "--format", "parquet"])
    assert "parquet is not a text for a terminal" in capsys.readouterr().err


def test_wide_letters_take_two_places(file, capsys):
    assert main.ivm(["query", file, "q(t, i) <- says(i, t)."]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()[1:-1]}
    assert lines["日本語"].index("1") == lines["plain"].index("0") - 3


def test_decimals_are_to_the_right_and_nulls_are_those_of_the_language(tmp_path, capsys):
    path = str(tmp_path / "n.pages")
    with pagestore.open(path) as store:
        with store.transaction() as txn:
            txn.create("owed", "who: string, amount: decimal(9,2)?", key="who")
        with store.transaction() as txn:
            txn["owed"].insert([("ada", Decimal("12.50")), ("bob", None), ("eve", Decimal("7.25"))])
    for null, command in [
        ("null", (main.pagestore, "print", path, "owed")),
        ("null", (main.ivm, "print", path, "owed")),
        ("NULL", (main.ivm, "sql", path, "SELECT * FROM owed")),
    ]:
        run, *words = command
        assert run(words) == 0
        assert [line[-5:] for line in capsys.readouterr().out.splitlines()[1:4]] == [
            "12.50",
            f" {null}",
            " 7.25",
        ]
    assert main.pagestore(["diff", path, "1", "2", "owed"]) == 1
    assert "+ bob, null" in capsys.readouterr().out
    with ivm.open(path) as ws:
        ws.install("seen(w, a) <- owed[w] = a?.")
        ws.exec('+owed["zoe"] = null["decimal(9, 2)"].')
    assert main.ivm(["why", path, "seen", "--since", "3"]) == 0
    assert "+ zoe, null" in capsys.readouterr().out


def test_intervals_are_written_as_in_sql(tmp_path, capsys):
    path, out = str(tmp_path / "n.pages"), tmp_path / "out.csv"
    made = "CREATE TABLE t (k INTEGER PRIMARY KEY, a TIMESTAMP); INSERT INTO t VALUES (1, '2026-01-05 10:00:00'), "
    assert (
        main.ivm(["sql", path, f"{made}(2, '2026-01-05 09:00:00.5'), (3, '2026-01-07 11:00:00')"])
        == 0
    )
    asked = "SELECT k, a - TIMESTAMP '2026-01-05 10:00:00' AS gap FROM t ORDER BY k"
    capsys.readouterr()
    assert main.ivm(["sql", path, asked]) == 0
    wanted = ["00:00:00", "-00:59:59.5", "2 days 01:00:00"]
    assert [
        line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines()[1:4]
    ] == wanted
    assert main.ivm(["sql", path, asked, "--json"]) == 0
    assert [json.loads(line)["gap"] for line in capsys.readouterr().out.splitlines()] == wanted
    assert main.ivm(["sql", path, asked, "-o", str(out)]) == 0
    assert out.read_text().splitlines()[1:] == [f'{k},"{gap}"' for k, gap in enumerate(wanted, 1)]


def test_without_rows_and_without_a_name(file, tmp_path, capsys):
    for form in READERS:
        assert (
            main.ivm(
                ["query", file, "q(x) <- says(x, _), x > 9.", "-o", str(tmp_path / f"none.{form}")]
            )
            == 0
        )
    assert pq.read_table(tmp_path / "none.parquet").schema.names == ["x"]
    assert main.pagestore(["print", file]) == 0
    assert "says         4" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        main.ivm(["print", file, "paid", "-o", str(tmp_path / "out.xls")])
    assert "its name does not say the format" in capsys.readouterr().err
    assert main.ivm(["print", file, "paid", "-o", file, "--format", "csv"]) == 1
    assert "is the store itself" in capsys.readouterr().err


def test_a_file_that_fails_half_way_is_not_there(file, tmp_path, capsys, monkeypatch):
    from pagestore_tools.cli import rows

    def fails(out, reader, done):
        out.write(b"half")
        raise OSError("the disk is full")

    monkeypatch.setitem(rows.WRITERS, "csv", fails)
    assert main.ivm(["print", file, "paid", "-o", str(tmp_path / "out.csv")]) == 1
    assert "the disk is full" in capsys.readouterr().err and not (tmp_path / "out.csv").exists()


def test_types_that_csv_and_json_lack_become_texts(tmp_path, capsys):

    with pagestore.open(tmp_path / "t.pages") as store, store.transaction() as txn:
        txn.create("r", "b: bytes, l: duration, u: uint64, z: timestamp(UTC)").insert(
            [(b"\xff\x00", timedelta(days=-1), 2**64 - 1, datetime(2013, 1, 31, 17, tzinfo=UTC))]
        )
    for form, said in [
        ("csv", '"ff00","-1 day, 0:00:00",18446744073709551615,2013-01-31 17:00:00.000000Z'),
        (
            "json",
            '{"b": "ff00", "l": "-1 day, 0:00:00", "u": 18446744073709551615, "z": "2013-01-31 '
            '17:00:00+00:00"}',
        ),
    ]:
        assert (
            main.pagestore(
                ["print", str(tmp_path / "t.pages"), "r", "-o", str(tmp_path / f"r.{form}")]
            )
            == 0
        )
        assert (tmp_path / f"r.{form}").read_text().splitlines()[-1] == said


def test_parquet_has_dictionaries_of_what_repeats(tmp_path):
    """A dictionary of values that differ costs time and space; integers among these are written
    by differences.
    """
    rows = [(i, f"name {i}", f"town {i % 9}", i % 7) for i in range(2000)]
    with pagestore.open(tmp_path / "s.pages") as store, store.transaction() as txn:
        txn.create("who", "id: int64, name: string, town: string, kind: int64", key="id").insert(
            rows
        )
    main.pagestore(
        ["print", str(tmp_path / "s.pages"), "who", "-o", str(tmp_path / "who.parquet"), "--quiet"]
    )
    with pq.ParquetFile(tmp_path / "who.parquet") as file:
        group = file.metadata.row_group(0)
        encodings = {group.column(i).path_in_schema: group.column(i).encodings for i in range(4)}
        assert [tuple(row.values()) for row in file.read().to_pylist()] == rows
    dictionary = {name for name, used in encodings.items() if "RLE_DICTIONARY" in used}
    assert dictionary == {"town", "kind"} and "DELTA_BINARY_PACKED" in encodings["id"]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_table_on_a_narrow_terminal_breaks_between_words(width: int, monkeypatch) -> None:
    rng = random.Random(width)
    words = ["tea", "marmalade", "ginger", "biscuits", "long" * 30, "日本語"]
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr(answers, "get_terminal_size", lambda: os.terminal_size((width, 24)))
    rows = [
        (n, " ".join(rng.choices(words, k=rng.randint(1, 12))), rng.choice(words[:4]))
        for n in range(20)
    ]
    shown = answers.table(rows, ("number", "what it is", "kind"))
    assert max(map(cell_len, shown.splitlines())) <= width
    there = {word for line in shown.splitlines() for word in line.split()}
    known = {"number", "what", "it", "is", "kind", *words, *map(str, range(20))}
    cut = {
        word for word in there if word.endswith("…") and "longlong".startswith(word[:8].rstrip("…"))
    }
    assert {word for word in there - cut if word.isascii()} <= known  # Japanese has no spaces
    assert {"tea", "marmalade", "ginger", "biscuits"} <= there
    many = answers.table([(*range(30),)], [f"column{n}" for n in range(30)])
    assert many.splitlines()[:2] == ["column0   0", "column1   1"]
    numbers = answers.table(
        [(10**width_ + 7, "a text") for width_ in range(1, 19)], ("a long name of digits", "text")
    )
    # digits are not cut
    assert {str(10**width_ + 7) for width_ in range(1, 19)} <= {*numbers.split()}
    assert max(map(cell_len, numbers.splitlines())) <= width
    terminal.isatty = lambda: False
    # a pipe has lines of any width
    assert answers.table(rows, ("number", "what it is", "kind")).count("\n") == 20
