"""`load --bad`: rows that do not fit are put aside with line, column, value and reason, and all
others are loaded.
"""

import csv
import io
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import ivm
import pagestore
from pagestore_tools.cli import main
from pagestore_tools.loading import csv_files, json_files, opened

CASTS = ["--cast", "id=int64", "--cast", "day=date?", "--cast", "note=string?"]
GOOD = {"id": "int", "day": "date", "note": "text"}
BAD = {"id": ["x", "7.5", ""], "day": ["31.12.", "2020-02-30"], "note": []}


def made(rng: random.Random, count: int) -> list[tuple[dict, set[str]]]:
    """Return rows of texts, each with the columns whose values are bad."""
    found = []
    for number in range(count):
        row = {
            "id": str(number),
            "day": f"2020-01-{rng.randint(1, 28):02}",
            "note": rng.choice(["a", "b\nc", '"', ""]),
        }
        bad = {name for name in ("id", "day") if rng.random() < 0.1}
        found.append(({**row, **{name: rng.choice(BAD[name]) for name in sorted(bad)}}, bad))
    return found


def write(file: Path, rows: list[dict]) -> list[int]:
    """Write rows of texts in the format of the file's name; return the line or row in which each
    begins.
    """
    if file.suffix == ".csv":
        with file.open("w", newline="") as out:
            writer, lines = csv.DictWriter(out, [*GOOD], lineterminator="\n"), []
            writer.writeheader()
            for row in rows:
                lines.append(1 + file_lines(file, out))
                writer.writerow(row)
        return lines
    if file.suffix == ".jsonl":
        texts = [
            json.dumps({**row, "id": int(row["id"]) if row["id"].isdigit() else row["id"]})
            for row in rows
        ]
        file.write_text("\n\n".join(texts))
        return [*range(1, 2 * len(rows), 2)]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(dict.fromkeys(GOOD, pa.string()))), file)
    return [*range(len(rows))]


def file_lines(file: Path, out) -> int:
    out.flush()
    return file.read_text().count("\n")


def load(folder: Path, *words: str) -> int:
    return main.pagestore(["load", f"{folder}/s.pages", "r", *words])


def entries(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "bad.jsonl").read_text().splitlines()]


def columns(entry: dict) -> set[str]:
    return {entry["column"], *(one["column"] for one in entry.get("also", []))}


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("seed", range(4))
def test_exactly_the_bad_rows_are_put_aside(
    suffix: str, seed: int, tmp_path: Path, monkeypatch
) -> None:
    rng = random.Random(seed)
    for module in csv_files, json_files:  # so that files have several blocks and batches
        monkeypatch.setattr(module, "BLOCK", rng.choice([64, 512, 1 << 20]))
    monkeypatch.setattr(opened, "rows_of", lambda columns: 7)
    rows, lines = made(rng, 150), {}
    half = len(rows) // 2
    for name, part in ("a", rows[:half]), ("b", rows[half:]):
        file = tmp_path / f"{name}.{suffix}"
        lines[str(file)] = write(file, [row for row, _ in part])
    if rng.random() < 0.5:  # unsorted, so that the files are read twice
        lines = dict(reversed(lines.items()))
    assert load(tmp_path, *lines, "--key", "id", *CASTS, "--bad", f"{tmp_path}/bad.jsonl") == 0
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        stored = [(str(a), str(b), c) for a, b, c in store.snapshot()["r"]]
    assert stored == sorted(
        (tuple(row.values()) for row, bad in rows if not bad), key=lambda row: int(row[0])
    )
    wanted = {
        (file, line): (row, bad)
        for (file, starts), part in zip(
            sorted(lines.items()), (rows[:half], rows[half:]), strict=True
        )
        for line, (row, bad) in zip(starts, part, strict=True)
        if bad
    }
    found = {(one["file"], one.get("line", one.get("row"))): one for one in entries(tmp_path)}
    assert {place: columns(one) for place, one in found.items()} == {
        place: bad for place, (_, bad) in wanted.items()
    }
    for place, (row, _) in wanted.items():
        assert {name: str(value) for name, value in found[place]["values"].items()} == row
        assert found[place]["value"] == found[place]["values"][found[place]["column"]]


def test_what_is_no_row_is_put_aside_with_its_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,note\n1,"two\nlines"\n2,b,c\n3,caf\xe9\n4\n5,ok\n')
    bad = f"{tmp_path}/bad.jsonl"
    assert load(tmp_path, f"{tmp_path}/a.csv", "--key", "id", "--bad", bad) == 0
    assert [(one["line"], one["values"]) for one in entries(tmp_path)] == [
        (4, "2,b,c"),
        (5, {"id": "3", "note": "caf\\xe9"}),
        (6, "4"),
    ]
    (tmp_path / "b.jsonl").write_bytes(
        b'{"id": 6, "note": "x"}\n{"id": 7\n[1]\n{"note": "\xe9"}\n\n{"id": 8, "note": "y"}'
    )
    assert load(tmp_path, f"{tmp_path}/b.jsonl", "--append", "--bad", bad) == 0
    assert [(one["line"], one["reason"].split(":")[0]) for one in entries(tmp_path)] == [
        (2, "no JSON"),
        (3, "is not an object, which has the names of the columns"),
        (4, "is not UTF-8, as JSON is"),
    ]
    (tmp_path / "c.json").write_text('{\n"id": 9,\n"note" 7,\n"x": {"id": 1, "note": ""}\n}')
    # not a line that is bad
    assert load(tmp_path, f"{tmp_path}/c.json", "--append", "--bad", bad) == 1
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert [row[0] for row in store.snapshot()["r"]] == [1, 5, 6, 8]


def test_values_that_no_column_keeps(tmp_path: Path) -> None:
    day = pa.array([0, 0, 4_000_000_000], pa.timestamp("s"))
    table = pa.table(
        {"id": [1, 2, 3], "x": [1.5, float("nan"), None], "day": day.cast(pa.timestamp("ms"))}
    )
    beyond = pa.array([0, 0, 0, 400_000_000_000_000], pa.timestamp("ms"))
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(
        pa.table({"id": [4, None, 6, 7], "x": [0.5, 1.0, None, 1.0], "day": beyond}),
        tmp_path / "b.parquet",
    )
    files = [f"{tmp_path}/a.parquet", f"{tmp_path}/b.parquet"]
    assert (
        load(tmp_path, *files, "--key", "id", "--nulls", "refuse", "--bad", f"{tmp_path}/bad.jsonl")
        == 0
    )
    assert [
        (one["row"], one["column"], one["reason"].split(":")[0]) for one in entries(tmp_path)
    ] == [
        (1, "x", "is NaN"),
        (2, "x", "is null"),
        (1, "id", "is null"),
        (2, "x", "is null"),
        (3, "day", "is beyond timestamp, which has the years 1 to 9999"),
    ]
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert [row[0] for row in store.snapshot()["r"]] == [1, 4]


@pytest.mark.parametrize("seed", range(8))
def test_of_quotes_that_are_not_closed_only_their_lines_are_put_aside(
    seed: int, tmp_path: Path, monkeypatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(csv_files, "BLOCK", rng.choice([64, 1 << 20]))
    monkeypatch.setattr(opened, "rows_of", lambda columns: 7)
    if rng.random() < 0.5:
        (tmp_path / "first.csv").write_text("id,day,note\n1,2020-01-01,a\n,,\n")
        assert (
            load(tmp_path, f"{tmp_path}/first.csv", "--key", "id", *CASTS, "--bad", "/dev/null")
            == 0
        )
    torn, texts, starts, line = {}, ["id,day,note\n"], {}, 2
    rows = made(rng, 60)
    for number, (row, _) in enumerate(rows):
        kind = (
            rng.choice(['{id},{day},"no end', '{id},"{day}" x,a', '{id},{day},"no" end"'])
            if rng.random() < 0.1
            else ""
        )
        written = io.StringIO()
        csv.DictWriter(written, [*GOOD], lineterminator="\n").writerow(row)
        texts.append(f"{kind.format(**row)}\n" if kind else written.getvalue())
        starts[number] = line
        torn |= {number: texts[-1][:-1]} if kind else {}
        line += texts[-1].count("\n")
    (tmp_path / "a.csv").write_text("".join(texts), newline="")
    words = ["--replace"] if (tmp_path / "s.pages").exists() else ["--key", "id", *CASTS]
    assert load(tmp_path, f"{tmp_path}/a.csv", *words, "--bad", f"{tmp_path}/bad.jsonl") == 0
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        found = [tuple(map(str, row)) for row in store.snapshot()["r"]]
    good = [row for number, (row, bad) in enumerate(rows) if number not in torn and not bad]
    assert found == [tuple(row.values()) for row in good]
    wrong = {
        starts[number]: torn.get(number)
        for number, (_, bad) in enumerate(rows)
        if number in torn or bad
    }
    shown = {
        one["line"]: one["values"] if "column" not in one else None for one in entries(tmp_path)
    }
    assert shown == wrong


def test_views_follow_the_good_rows_and_the_report_counts_the_bad_ones(
    tmp_path: Path, capsys
) -> None:
    with ivm.open(tmp_path / "s.pages") as ws:
        ws.install("r(x, y) -> int(x), int(y). n[] = c <- agg<<c = count()>> r(_, _).")
    (tmp_path / "a.csv").write_text("x,y\n1,1\n2,two\n3,3\n")
    assert load(tmp_path, f"{tmp_path}/a.csv", "--append", "--bad", f"{tmp_path}/bad.jsonl") == 0
    assert "1 bad row put aside; n followed" in (said := capsys.readouterr().out)
    assert said.splitlines()[1].endswith("bad.jsonl: the bad rows, with the reasons")
    assert (
        load(tmp_path, f"{tmp_path}/a.csv", "--append", "--json", "--bad", f"{tmp_path}/bad.jsonl")
        == 0
    )
    assert json.loads(capsys.readouterr().out)["bad"] == 1
    (tmp_path / "a.csv").write_text("x,y\n2,2\n")
    assert load(tmp_path, f"{tmp_path}/a.csv", "--append", "--bad", f"{tmp_path}/bad.jsonl") == 0
    assert not entries(tmp_path)  # none is bad, and those of the last load are gone
    with ivm.open(tmp_path / "s.pages", mode="r") as ws:
        assert list(ws["n"]) == [(3,)]


def spoken(rows: list[tuple], held: dict) -> tuple[dict, list[int]]:
    """Return what a relation has of rows, keys first, and which of them differ from the first
    row of their key.
    """
    aside = []
    for number, (key, *values) in enumerate(rows):
        if held.setdefault(key, values) != values:
            aside.append(number)
    return held, aside


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("seed", range(6))
def test_later_rows_of_a_key_are_put_aside(
    suffix: str, seed: int, tmp_path: Path, monkeypatch
) -> None:
    rng, held = random.Random(seed), dict[str, list]()
    for module in csv_files, json_files:
        monkeypatch.setattr(module, "BLOCK", rng.choice([64, 1 << 20]))
    monkeypatch.setattr(opened, "rows_of", lambda columns: 7)
    for mode in "", "--append", "--append", "--replace":
        rows = [
            (str(rng.randrange(30)), f"2020-01-{rng.randint(1, 3):02}", "a")
            for _ in range(rng.choice([5, 40]))
        ]
        wrong = {number for number in range(len(rows)) if rng.random() < 0.1}
        rows = [
            (key, "31.12." if number in wrong else day, note)
            for number, (key, day, note) in enumerate(rows)
        ]
        file = tmp_path / f"a.{suffix}"
        lines = write(file, [dict(zip(GOOD, row, strict=True)) for row in rows])
        good = [number for number in range(len(rows)) if number not in wrong]
        held, later = spoken([rows[number] for number in good], {} if mode == "--replace" else held)
        words = [
            str(file),
            "--key",
            "id",
            *CASTS,
            *[mode] * bool(mode),
            "--bad",
            f"{tmp_path}/bad.jsonl",
        ]
        assert load(tmp_path, *words) == 0
        with pagestore.open(tmp_path / "s.pages", mode="r") as store:
            assert {str(a): [str(b), c] for a, b, c in store.snapshot()["r"]} == held
        found = [one.get("line", one.get("row")) for one in entries(tmp_path)]
        assert found == sorted(
            lines[number] for number in {*wrong, *(good[place] for place in later)}
        )


def test_the_entry_of_a_double_key_says_what_the_relation_has(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,v\n1,a\n2,b\n1,c\n1,a\n")
    assert load(tmp_path, f"{tmp_path}/a.csv", "--key", "id", "--bad", f"{tmp_path}/bad.jsonl") == 0
    assert entries(tmp_path) == [
        {
            "file": f"{tmp_path}/a.csv",
            "line": 4,
            "column": "id",
            "value": "1",
            "reason": "the key (id=1) has other values already, (v=a): mend the source, or take "
            "the last row of a key with "
            "--upsert",
            "values": {"id": "1", "v": "c"},
        }
    ]


def test_rows_go_aside_with_their_lists(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "tags": ["a"], "lines": [{"sku": "x", "pieces": 2}, {"sku": "y", "pieces": 3}]},
        {"id": 2, "tags": ["b"], "lines": [{"sku": "x", "pieces": "many"}]},
        {"id": "z", "tags": ["c"], "lines": [{"sku": "x", "pieces": 2}]},
        {"id": 4, "tags": [], "lines": None},
        {
            "id": 5,
            "tags": ["d", "e"],
            "lines": [{"sku": "x", "pieces": 1}, {"sku": "y", "pieces": "?"}],
        },
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = [
        "--key",
        "id",
        "--cast",
        "id=int64",
        "--cast",
        "lines:pieces=int64",
        "--bad",
        f"{tmp_path}/bad.jsonl",
    ]
    assert load(tmp_path, f"{tmp_path}/a.jsonl", *words) == 0
    assert [(one["line"], one["column"]) for one in entries(tmp_path)] == [
        (2, "lines:pieces"),
        (3, "id"),
        (5, "lines:pieces"),
    ]
    assert entries(tmp_path)[0]["value"] == lines[1]["lines"]
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        held = store.snapshot()
        assert [*held["r"]] == [(1,), (4,)]
        assert [*held["r:tags"]] == [(1, 0, "a")]
        assert [*held["r:lines"]] == [(1, 0, "x", 2), (1, 1, "y", 3)]


def test_a_load_whose_rows_are_bad_says_how_to_load_the_others(tmp_path: Path, capsys) -> None:
    (tmp_path / "a.csv").write_text("id,day,note\n1,2020-01-01,a\n2,no,b\n")
    assert load(tmp_path, f"{tmp_path}/a.csv", "--key", "id", *CASTS) == 1
    hint = "or load the other rows: --bad FILE puts bad ones aside, each with its reason"
    assert capsys.readouterr().err.endswith(f"  {hint}\n")
    # what is wrong is not in rows alone
    assert load(tmp_path, f"{tmp_path}/a.csv", "--key", "none", *CASTS) == 1
    assert "--bad" not in capsys.readouterr().err


def test_a_load_that_fails_leaves_no_file(tmp_path: Path, capsys) -> None:
    (tmp_path / "a.csv").write_text("id,v\n1,a\nx,c\n")
    words = [
        f"{tmp_path}/a.csv",
        "--key",
        "none",
        "--cast",
        "id=int64",
        "--bad",
        f"{tmp_path}/bad.jsonl",
    ]
    assert load(tmp_path, *words) == 1
    assert "no column none" in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.csv"]


@pytest.mark.parametrize("bad", [[150], [210, 399], [*range(20, 400, 50)]])
def test_rare_misfits_leave_a_column_its_type_with_a_note(
    bad: list[int], tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.setattr(csv_files, "BLOCK", 1024)
    lines = [f"{i},{'abc' if i in bad else i * 2},{i / 4 if i % 2 else i}" for i in range(400)]
    lines[0] = "0,,0"
    (tmp_path / "a.csv").write_text("\n".join(["id,n,x", *lines, ""]))
    rare = len(bad) <= 4
    assert load(tmp_path, f"{tmp_path}/a.csv", "--key", "id", "--bad", f"{tmp_path}/bad.jsonl") == 0
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        held = store.snapshot()["r"]
        assert str(held.schema) == f"id: int64, n: {'int64?' if rare else 'string'}, x: float64"
        assert len(held) == 400 - len(bad) * rare
    said = capsys.readouterr()
    note = f"column n is int64: the rows of {len(bad)} other value{'s' * (len(bad) > 1)}, such as 'abc', go aside"
    assert (note in said.out + said.err) == rare
    if rare:
        assert [one["values"]["id"] for one in entries(tmp_path)] == [str(i) for i in bad]


@pytest.mark.parametrize("listed", [False, True])
def test_columns_of_json_have_the_type_of_most_of_their_values(
    listed: bool, tmp_path: Path, capsys, monkeypatch
) -> None:
    rows = [{"id": i, "n": 2 * i, "of": {"x": i / 4}, "s": "a", "l": [i]} for i in range(200)]
    rows[50]["n"], rows[60]["of"]["x"], rows[70]["of"], rows[80]["s"] = "abc", "z", 7, 5
    rows[90]["n"] = True
    file = tmp_path / "a.json"
    file.write_text(json.dumps(rows) if listed else "\n".join(map(json.dumps, rows)))
    words = [str(file), "--key", "id", "--columns", "id,n,of:x,s"]
    assert load(tmp_path, *words) == 1
    capsys.readouterr()
    assert load(tmp_path, *words, "--bad", f"{tmp_path}/bad.jsonl") == 0
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        held = store.snapshot()["r"]
        assert str(held.schema) == "id: int64, n: int64, of:x: float64?, s: string"
        assert len(held) == 195
    said = capsys.readouterr()
    note = "column n has a number in most rows: the rows of 2 other values, such as 'abc', go aside"
    assert note in said.out + said.err
    found = [(one["values"]["id"], one["column"]) for one in entries(tmp_path)]
    assert found == [(50, "n"), (60, "of:x"), (70, "of"), (80, "s"), (90, "n")]
    file.write_text('{"id": 1, "n": 1}\n{"id": 2, "n": "a"}')  # as many of each
    (tmp_path / "other").mkdir()
    assert load(tmp_path / "other", str(file), "--key", "id", "--bad", f"{tmp_path}/b") == 1
    assert "column n has a text where other rows have a number" in capsys.readouterr().err


def test_nulls_are_no_values_among_which_misfits_are_rare(tmp_path: Path, capsys) -> None:
    lines = [f"{i},{'' if i % 10 else 'abc' if i == 50 else i}" for i in range(400)]
    (tmp_path / "a.csv").write_text("\n".join(["id,n", *lines, ""]))
    assert load(tmp_path, f"{tmp_path}/a.csv", "--key", "id", "--bad", f"{tmp_path}/bad.jsonl") == 0
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert str(store.snapshot()["r"].schema) == "id: int64, n: string"
