"""Files of CSV and JSON as people and programs write them: what each becomes, and by which words
it is refused.
"""

import datetime as dt
import gzip
import json
import random
import shlex
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

import pagestore
from pagestore.values.types import Column, Schema, Type
from pagestore_tools.cli import main
from pagestore_tools.loading import csv_files, json_files


def load(folder: Path, name: str, content: str | bytes, *words: str, schema: str = "") -> None:
    """Load a file into a relation, which is made before if it has a schema."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    file = folder / "s.pages"
    if schema and not file.exists():
        with pagestore.open(file) as store, store.transaction() as txn:
            names = [part.rpartition(": ") for part in schema.split(", ")]
            txn.create(
                "r",
                Schema(
                    tuple(Column(name, Type.parse(kind)) for name, _, kind in names), (names[0][0],)
                ),
            )
    how = (
        ()
        if {"--upsert", "--delete", "--replace"} & {*words}
        else ("--append",)
        if schema
        else ("--key", "id")
    )
    code = main.pagestore(["load", str(file), "r", str(folder / name), *how, *words, "--quiet"])
    if code:
        raise ValueError(code)


def rows(folder: Path, relation: str = "r") -> list[tuple]:
    with pagestore.open(folder / "s.pages", mode="r") as store:
        return sorted(store.snapshot()[relation])


def refused(capsys: pytest.CaptureFixture[str], *arguments, **more) -> str:
    with pytest.raises(ValueError, match="1"):
        load(*arguments, **more)
    return capsys.readouterr().err


# --- JSON ---------------------------------------------------------------------------------------

BERLIN = ZoneInfo("Europe/Berlin")
KEPT = [  # a column, a literal, and the value; a column without a type is that of a new relation
    ("string", '"2020-01-31"', "2020-01-31"),
    ("", '"2020-01-31"', "2020-01-31"),
    ("decimal(18,2)", "1234567890123456.78", Decimal("1234567890123456.78")),
    ("decimal(18,2)", '"12.50"', Decimal("12.50")),
    ("decimal(9,2)", "1.2e1", Decimal(12)),
    ("int64", "7.0", 7),
    ("int64", "9007199254740993", 9007199254740993),
    ("int64", "9.007199254740993e15", 9007199254740993),
    ("uint64", "18446744073709551614", 2**64 - 2),
    ("", "18446744073709551614", 2**64 - 2),
    ("", "0.1", 0.1),
    ("", "[true]", [True]),
    ("float64", "7", 7.0),
    ("date", '"2020-01-31"', dt.date(2020, 1, 31)),
    ("time", '"12:30:00.5"', dt.time(12, 30, 0, 500_000)),
    ("timestamp", '"2020-01-31T10:00"', dt.datetime(2020, 1, 31, 10)),
    (
        "timestamp(Europe/Berlin)",
        '"2020-01-31T10:00:00+02:00"',
        dt.datetime(2020, 1, 31, 9, tzinfo=BERLIN),
    ),
    ("duration", '"PT1H"', dt.timedelta(hours=1)),
    ("bytes", '"ab"', b"ab"),
    ("bool", "true", True),
]
REFUSED = [  # a column, a literal, and what is said of it
    ("int64", '"2020-01-31"',
    "column v has a text, which is not int64, in line 2 ('2020-01-31'): --cast v=int64"),
    ("int64", "true", "column v has a boolean, which is not int64, in line 2"),
    ("int64", "7.5", "column v does not fit int64 in line 2 ('7.5')"),
    ("bool", "7", "column v has a number, which is not bool, in line 2"),
    ("timestamp", "7",
    "column v has a number, which is not timestamp, in line 2 ('7'): write it as a text"),
    ("timestamp", '"2020-01-31T10:00:00+02:00"',
    "it has an offset, which the column has not: take it in UTC with"),
    ("timestamp(UTC)", '"2020-01-31T10:00:00"', "write it with its offset, such as"),
    ("timestamp", '"2020-01-31T10:00:00.1234567"', "with at most six digits of a second"),
    ("decimal(9,2)", "1.239",
    "('1.239'): it has 3 decimals and decimal(9,2) keeps 2: round it in the source"),
    ("decimal(9,2)", "12345678", "decimal(9,2) has 7 digits before the point"),
    ("float64", "9007199254740993", "column v does not fit float64 in line 2 ('9007199254740993')"),
    ("float64", "1e999", "column v does not fit float64 in line 2 ('1e999')"),
    ("string", "7",
    "column v has a number, which is not string, in line 2 ('7'): --cast v=string takes it as it is"),
    ("string", "[1]", "column v"),
    ("string", '"\\ud800"', "column v has half a surrogate pair in line 2"),
    ("", "1234567890123456.78", "give --cast v='decimal(18,2)', or string"),
    ("", "36893488147419103233", "column v has numbers that neither int64 nor float64"),
]  # fmt: skip


@pytest.mark.parametrize("form", ["lines", "list", "within"])
@pytest.mark.parametrize(("kind", "literal", "value"), KEPT)
def test_json_that_is_kept(
    form: str, kind: str, literal: str, value: object, tmp_path: Path
) -> None:
    if isinstance(value, list):
        value, kind = value[0], "list"
    column = "v:x" if form == "within" else "v"
    one = f'{{"x": {literal}}}' if form == "within" else literal
    text = f'{{"id": 1, "v": {one}}}\n'
    schema = f"id: int64, {column}: {kind}" if kind not in ("", "list") else ""
    load(tmp_path, "a.json", f"[{text}]" if form == "list" else text, schema=schema)
    if kind == "list":
        assert rows(tmp_path, f"r:{column}") == [(1, 0, value)]
    else:
        assert rows(tmp_path) == [(1, value)]


@pytest.mark.parametrize("way", ["relation", "cast", "upsert", "list"])
@pytest.mark.parametrize(("kind", "literal", "says"), REFUSED)
def test_json_that_is_refused(
    way: str, kind: str, literal: str, says: str, tmp_path: Path, capsys
) -> None:
    text = f'{{"id": 1, "v": null}},\n{{"id": 2, "v": {literal}}}\n'
    text = f"[{text}]" if way == "list" else text.replace("},\n", "}\n")
    if way == "cast" and kind and not says.startswith("column v has a text") and kind != "string":
        assert says in refused(capsys, tmp_path, "a.json", text, "--cast", f"v={kind}")
    else:
        schema = f"id: int64, v: {kind}?" if kind else ""
        assert says in refused(
            capsys,
            tmp_path,
            "a.json",
            text,
            *["--upsert"] * bool(way == "upsert" and kind),
            schema=schema,
        )
    assert not (tmp_path / "s.pages").exists() or rows(tmp_path) == []


def test_numbers_of_json_name_the_rows_that_they_name(tmp_path: Path) -> None:
    """Whole numbers beside floats, in each mode: 2^53 + 1 is not taken for its neighbour."""
    start = "".join(json.dumps({"id": 2**53 + i, "v": i}) + "\n" for i in range(3))
    load(tmp_path, "a.json", start)
    load(
        tmp_path, "b.json", f'{{"id": {2**53 + 1}, "v": 9}}\n{{"id": 7.0, "v": 9.0}}\n', "--upsert"
    )
    assert rows(tmp_path) == [(7, 9), (2**53, 0), (2**53 + 1, 9), (2**53 + 2, 2)]
    load(tmp_path, "c.json", f'{{"id": {2**53 + 1}}}\n{{"id": 7.0}}\n', "--delete")
    assert rows(tmp_path) == [(2**53, 0), (2**53 + 2, 2)]


def test_a_column_of_texts_and_numbers_is_taken_as_it_is_written(tmp_path: Path, capsys) -> None:
    text = '{"id": 1, "v": "a"}\n{"id": 2, "v": 7.50}\n{"id": 3, "v": true}\n{"id": 4}\n'
    said = refused(capsys, tmp_path, "a.json", text)
    assert "--cast v=string takes both as they are written" in said
    load(tmp_path, "a.json", text, "--cast", "v=string")
    assert rows(tmp_path) == [(1, "a"), (2, "7.50"), (3, "true"), (4, None)]


def test_days_on_which_lists_are_empty(tmp_path: Path, capsys) -> None:
    empty = '{"id": 2, "tags": []}\n{"id": 3, "tags": null}\n'
    assert "all its lists are empty" in refused(capsys, tmp_path, "a.json", empty)
    load(tmp_path, "a.json", empty, "--columns", "id")
    (tmp_path / "s.pages").unlink()
    load(tmp_path, "a.json", '{"id": 1, "tags": ["7"]}\n')
    load(tmp_path, "b.json", empty, "--upsert")
    load(tmp_path, "c.json", '{"id": 4, "tags": null}\n', "--upsert")
    assert rows(tmp_path) == [(1,), (2,), (3,), (4,)] and rows(tmp_path, "r:tags") == [(1, 0, "7")]
    said = refused(
        capsys,
        tmp_path,
        "d.json",
        '{"id": 5, "tags": []}\n{"id": 6, "tags": ["a", 8]}\n',
        "--upsert",
    )
    assert (
        "column tags has a number, which is not string, in line 2 ('8')" in said
        or "has a text where" in said
    )


def test_objects_that_are_null_on_a_day(tmp_path: Path) -> None:
    load(tmp_path, "a.json", '{"id": 1, "at": {"town": "Ulm", "no": 1.5}}\n{"id": 2, "at": null}\n')
    load(tmp_path, "b.json", '{"id": 3, "at": null}\n', "--upsert")
    assert rows(tmp_path) == [(1, "Ulm", 1.5), (2, None, None), (3, None, None)]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"id": 1}\n{"id":', "line 2: no JSON"),
        ('{"id": 1, "id": 2}\n', "line 1: no JSON: 'id' occurs twice in an object"),
        ('{"id": 1}\n[2]\n', "line 2: [2] is not an object"),
        ('[{"id": 1}\n{"id": 2}]', "line 2: no JSON: a comma is missing"),
        ('[{"id": 1},]', "line 1: no JSON"),
        (b'{"id": 1}\n{"id": "\xff"}\n', r"line 2: b'\xff' is not UTF-8"),
        ("", "has no rows, which would say what columns there are"),
    ],
)
def test_json_that_is_none(content: str | bytes, says: str, tmp_path: Path, capsys) -> None:
    assert says in refused(capsys, tmp_path, "a.json", content)


def test_json_in_other_encodings(tmp_path: Path) -> None:
    load(tmp_path, "a.json", '{"id": 1, "v": "ä"}\n'.encode("utf-16"))
    load(tmp_path, "b.json", '\ufeff[{"id": 2, "v": "ö"}]', "--upsert")
    assert rows(tmp_path) == [(1, "ä"), (2, "ö")]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_packed_files_that_are_damaged(form: str, tmp_path: Path, capsys) -> None:
    text = (
        "id,v\n" + "".join(f"{i},{i * i}\n" for i in range(3000))
        if form == "csv"
        else "".join(f'{{"id": {i}, "v": {i * i}}}\n' for i in range(3000))
    )
    packed = gzip.compress(text.encode())
    load(tmp_path, f"a.{form}.gz", packed)
    assert rows(tmp_path) == [(i, i * i) for i in range(3000)]
    (tmp_path / "s.pages").unlink()
    for content in (
        packed[:50] + b"xxxxxxxxx" + packed[59:],
        packed[: len(packed) // 2],
        b"no gzip",
        b"",
    ):
        said = refused(capsys, tmp_path, f"b.{form}.gz", content)
        assert "Traceback" not in said and f"b.{form}.gz" in said, said


# --- CSV ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "words", "expected"),
    [
        (
            "a.csv",
            "id,v\n1,0xFFFFFFFFFFFFFFFF\n2,0x00ff\n",
            (),
            [(1, "0xFFFFFFFFFFFFFFFF"), (2, "0x00ff")],
        ),
        ("a.csv", "id,v\n1,007\n2,8\n", (), [(1, "007"), (2, "8")]),
        ("a.csv", "id,v\n1,+49151\n", (), [(1, "+49151")]),
        ("a.csv", "id,v\n1,1234567890123456.78\n", (), [(1, "1234567890123456.78")]),
        ("a.csv", "id,v\n1,9007199254740993\n2,0.5\n", (), [(1, "9007199254740993"), (2, "0.5")]),
        ("a.csv", "id,v\n1,2020-01-31\n", (), [(1, dt.date(2020, 1, 31))]),
        ("a.csv", "id,v\n1,12:30\n", (), [(1, dt.time(12, 30))]),
        (
            "a.csv",
            "id,v\n1,2020-01-31T10:00:00.1234567\n",
            (),
            [(1, "2020-01-31T10:00:00.1234567")],
        ),
        ("a.csv", "id,v\n1,yes\n2,true\n", (), [(1, "yes"), (2, "true")]),
        ("a.csv", "\n\r\nid,v\n1,x\n\n2,y\n", (), [(1, "x"), (2, "y")]),
        ("a.csv", 'id,v\n1,5" pipe\n2,"a ""b""\nc"\n', (), [(1, '5" pipe'), (2, 'a "b"\nc')]),
        ("a.csv", 'id,v\n1,"a\n2,b\n', ("--quote", ""), [(1, '"a'), (2, "b")]),
        ("a.csv", "id,v\n1,'a,b'\n", ("--quote", "'"), [(1, "a,b")]),
        ("a.tsv", "id\tv\n1\ta,b,c\n", (), [(1, "a,b,c")]),
        ("a.csv", "id;v,w\n1;a,b,c\n", ("--delimiter", ";", "--rename", "v,w=v"), [(1, "a,b,c")]),
        ("a.csv", "id;v\n1;1,5\n2;-3\n", ("--decimal", ","), [(1, 1.5), (2, -3.0)]),
        (
            "a.csv",
            "id;v\n1;1,50\n",
            ("--decimal", ",", "--cast", "v=decimal(9,2)"),
            [(1, Decimal("1.50"))],
        ),
        ("a.csv", "id;v\n1;1.234\n2;1,5\n", ("--decimal", ","), [(1, "1.234"), (2, "1,5")]),
        ("a.csv", "id;v\n1;ä\n".encode("utf-16"), (), [(1, "ä")]),
        ("a.csv", "id;v\n1;ä\n".encode("utf-16-le"), ("--encoding", "utf-16-le"), [(1, "ä")]),
        (
            "a.csv",
            "id,ö\n1,ä\n".encode("latin-1"),
            ("--encoding", "latin-1", "--rename", "ö=v"),
            [(1, "ä")],
        ),
        ("a.csv", "\ufeffid,v\r\n1,x\r\n", (), [(1, "x")]),
        ("a.csv", "id,v\n1,-\n2,NA\n3,x\n", ("--null", "-"), [(1, None), (2, "NA"), (3, "x")]),
        ("a.csv", "id,v\n1,-\n2,3\n3,\n", ("--null", "-"), [(1, None), (2, 3), (3, None)]),
        ("a.csv", "1,x\n2,y\n", ("--no-header", "--rename", "column1=id"), [(1, "x"), (2, "y")]),
        (
            "a.csv",
            "id;v\n1;1.234\n2;1,5\n",
            ("--decimal", ",", "--thousands", "."),
            [(1, 1234.0), (2, 1.5)],
        ),
        (
            "a.csv",
            'id,v\n1,"1,234,567"\n2,-8\n3,\n',
            ("--thousands", ","),
            [(1, 1234567), (2, -8), (3, None)],
        ),
        ("a.csv", 'id,v\n1,"1,23"\n', ("--thousands", ","), [(1, "1,23")]),
        (
            "a.csv",
            "id,v\n1,31.1.2020\n2,2020-02-01\n3,\n",
            ("--date-format", "%d.%m.%Y"),
            [(1, dt.date(2020, 1, 31)), (2, dt.date(2020, 2, 1)), (3, None)],
        ),
        (
            "a.csv",
            "id,v\n1,1/31/20\n2,2 Feb 2020\n",
            ("--date-format", "%m/%d/%y", "--date-format", "%d %b %Y"),
            [(1, dt.date(2020, 1, 31)), (2, dt.date(2020, 2, 2))],
        ),
        (
            "a.csv",
            "id,v\n1,31.1.2020 7:05\n",
            ("--date-format", "%d.%m.%Y %H:%M"),
            [(1, dt.datetime(2020, 1, 31, 7, 5))],
        ),
        ("a.csv", "id,v\n1,31.2.2020\n", ("--date-format", "%d.%m.%Y"), [(1, "31.2.2020")]),
        (
            "a.jsonl",
            '{"id": 1, "v": "31.1.2020"}\n',
            ("--date-format", "%d.%m.%Y", "--cast", "v=date"),
            [(1, dt.date(2020, 1, 31))],
        ),
    ],
)
def test_csv_that_is_kept(
    name: str, content: str | bytes, words: tuple, expected: list, tmp_path: Path
) -> None:
    load(tmp_path, name, content, *words)
    assert rows(tmp_path) == expected


@pytest.mark.parametrize(
    ("schema", "content", "words", "says"),
    [
        (
            "id: int64, v: int64",
            "id,v\n1,0x00ff\n",
            (),
            "column v does not fit int64 in line 2 ('0x00ff')",
        ),
        (
            "id: int64, v: float64",
            "id,v\n\n1,0x1p3\n",
            (),
            "column v does not fit float64 in line 3 ('0x1p3')",
        ),
        (
            "id: int64, v: decimal(9,2)",
            'id,v\n1,"\n"\n2,1.239\n',
            (),
            "in 2 rows, the first in line 2",
        ),
        ("id: int64, v: date", "id,v\n1,31.1.2020\n", (), "write it as ISO does"),
        (
            "id: int64, v: date",
            "id,v\n1,1.2.2020\n2,31.2.2020\n",
            ("--date-format", "%d.%m.%Y"),
            "in line 3 ('31.2.2020')",
        ),
        ("", "id,v\n1,2\n", ("--thousands", ",", "--decimal", ","), "is the decimal mark, too"),
        (
            "id: int64, v: float64",
            "id;v\n1;1.5\n",
            ("--decimal", ","),
            "column v has a point where numbers are written",
        ),
        ("", 'id,v\n1,"a\n2,b\n3,c\n', (), "a.csv, line 2: a quote is not closed"),
        (
            "",
            'id,v\n1,"a\n2,b\n3,"c"\n',
            (),
            "a.csv, line 2: a quote is not closed, or a text follows it",
        ),
        ("", 'id,"v\n1,2\n', (), "a.csv, line 1: a quote is not closed"),
        (
            "",
            b"id,f\xfc\n1,2\n",
            (),
            r"line 1: b'\xfc' is not valid UTF-8: say what the file is written in",
        ),
        ("", b"id,v\n1,\xfc\n", (), r"column v is not UTF-8 in line 2 (b'\xfc'): say what"),
        ("", b"id,v\n1,a\n2,\xc3", ("--key", "id"), r": column v is not UTF-8 in line 3 (b'\xc3')"),
        ("", b'id,v\n1,a\n2,"\xc3', (), "a.csv, line 3: a quote is not closed"),
        ("", b"id,v\n1,2\n", ("--encoding", "utf-16"), "is not written in utf-16"),
        ("", "id,v\n1,2,3\n", (), "3 values where the head has 2 columns in 1 row (1,2,3)"),
        ("", "id,id\n1,2\n", (), "has two columns id: name each in its first line"),
    ],
)
def test_csv_that_is_refused(
    schema: str, content: str | bytes, words: tuple, says: str, tmp_path: Path, capsys
) -> None:
    assert says in refused(capsys, tmp_path, "a.csv", content, *words, schema=schema)
    assert not (tmp_path / "s.pages").exists() or rows(tmp_path) == []


@pytest.mark.parametrize("late", ["0012", "x", "1.5", "0xff", "99999999999999999999", ""])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_what_comes_late_counts_as_what_comes_first(
    form: str, late: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """A file of several blocks becomes what it becomes if the last rows come first, or is
    refused likewise.
    """
    monkeypatch.setattr(csv_files, "BLOCK", 256)
    monkeypatch.setattr(json_files, "BLOCK", 256)
    monkeypatch.setattr(json_files, "HEAD", 64)
    values = [*map(str, range(100)), late]
    found = []
    for number, some in enumerate([values, values[::-1]]):
        folder = tmp_path / str(number)
        folder.mkdir()
        if form == "csv":
            text = "id,v\n" + "".join(f"{row},{value}\n" for row, value in enumerate(some))
        else:
            plain = {*values[:100], "1.5", "9" * 20}
            literals = [value if value in plain else json.dumps(value or None) for value in some]
            text = "".join(f'{{"id": {row}, "v": {value}}}\n' for row, value in enumerate(literals))
        try:
            load(folder, f"a.{form}", text)
        except ValueError:
            found.append(
                [capsys.readouterr().err.partition("column v")[2].partition("where other")[0][:12]]
            )
            continue
        found.append(sorted(repr(row[1]) for row in rows(folder)))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (["31.01.2026", "1.2.2026"], "--date-format %d.%m.%Y"),
        (["1/31/26", "2/1/26"], "--date-format %m/%d/%y"),
        (["1/31/2026 9:30", "2/1/2026 10:00"], "--date-format '%m/%d/%Y %H:%M'"),
        (["31.1.2026 09:30:15"], "--date-format '%d.%m.%Y %H:%M:%S'"),
        (["1/31/26 9:30 PM", "2/1/26 10:00 AM"], "--date-format '%m/%d/%y %I:%M %p'"),
        (["1/2/2026"], "--date-format %d/%m/%Y or --date-format %m/%d/%Y"),
        (["12,50", "3"], "--decimal ,"),
        (["1.250,00", "3,5"], "--decimal , --thousands ."),
        (["1,250.00", "2,000", "3", "0.0"], "--thousands ,"),
        (["1,2", "a"], ""),
        (["ada", "bob"], ""),
    ],
)
def test_a_text_column_that_could_be_more_is_noted(
    values: list, options: str, tmp_path: Path, capsys
) -> None:
    """The note's options, the first where it names two, make values of the texts."""
    (tmp_path / "a.csv").write_text(
        "id;v\n" + "".join(f"{n};{value}\n" for n, value in enumerate(values))
    )
    command = ["load", str(tmp_path / "s.pages"), "r", str(tmp_path / "a.csv"), "--key", "id"]
    assert main.pagestore(command) == 0
    said = capsys.readouterr().err
    drop = shlex.join(["pagestore", "drop", command[1], "r"])
    assert said == (
        f"note: column v is kept as text: {options} reads values such as {values[0]!r}\n"
        f"note: to load with such an option, make the relation anew: `{drop}` first\n"
        if options
        else ""
    )
    if options:
        assert main.pagestore(shlex.split(drop)[1:]) == 0
        capsys.readouterr()
        assert main.pagestore([*command, *shlex.split(options.partition(" or ")[0])]) == 0
        assert (
            not any(isinstance(value, str) for _, value in rows(tmp_path))
            and "note" not in capsys.readouterr().err
        )


@pytest.mark.parametrize(
    ("value", "options"),
    [
        ("31.01.2026", ["--date-format", "%d.%m.%Y"]),
        ("31-Jan-26", ["--date-format", "%d-%b-%y"]),
        ("1,250", ["--thousands", ","]),
        ("0,0", ["--decimal", ","]),
        ("12,50", ["--decimal", ","]),
        ("ada", ["--decimal", ",", "--thousands", ".", "--date-format", "%d.%m.%Y"]),
    ],
)
@pytest.mark.parametrize("mode", ["--replace", "--append", "--upsert"])
def test_options_that_a_text_of_the_relation_leaves_unused_are_noted(
    value: str, options: list, mode: str, tmp_path: Path, capsys
) -> None:
    (tmp_path / "a.csv").write_text(f"id;v;w\n1;{value};x\n")
    command = ["load", str(tmp_path / "s.pages"), "r", str(tmp_path / "a.csv")]
    assert main.pagestore([*command, "--key", "id"]) == 0
    capsys.readouterr()
    assert main.pagestore([*command, mode, *options]) == 0
    said = capsys.readouterr().err
    noted = (
        f"note: column v stays text, as the relation has it, though {options[0]} is given: to "
        f"give it another type, "
    )
    assert said == ("" if value == "ada" else f"{noted}drop the relation and load it anew\n")
    assert main.pagestore([*command, mode, *options, "--cast", "v=string", "--quiet"]) == 0
    assert not capsys.readouterr().err


def test_quotes_that_are_not_closed_are_found_wherever_they_are(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    """A quote is taken away somewhere: the file is refused, or has as many rows as before."""
    monkeypatch.setattr(csv_files, "BLOCK", 512)
    chance = random.Random(1)
    lines = [f'{i},"a{i}, b","c{i}"' if i % 3 else f"{i},d,e" for i in range(40)]
    whole = "id,v,w\n" + "\n".join(lines) + "\n"
    places = [place for place, letter in enumerate(whole) if letter == '"']
    for place in chance.sample(places, 25):
        (tmp_path / "s.pages").unlink(missing_ok=True)
        try:
            load(tmp_path, "a.csv", whole[:place] + whole[place + 1 :])
        except ValueError:
            said = capsys.readouterr().err
        else:  # it was the first of a text without a delimiter
            assert len(rows(tmp_path)) == len(lines)
            continue
        assert "a quote is not closed" in said or "values where the head has 3 columns" in said, (
            said
        )
