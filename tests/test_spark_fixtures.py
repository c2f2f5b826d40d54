"""The folders that Spark wrote become relations with the rows that Spark reads from them."""

import json
import re
from pathlib import Path

import pytest

import pagestore
from pagestore.__main__ import pagestore as command

FOLDER = Path(__file__).parents[1] / "fixtures" / "spark-parquet"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
OPTIONS = {  # of the jobs that need some
    "int96": ["--utc"],
    "moments": ["--utc"],
    "nulls": ["--nulls", "drop"],
    "partitions": ["--nulls", "drop"],
}
COMPLAINTS = {  # of the jobs that are refused
    "a_column_less": "has no column y, but",
    "not_a_number": "column y is NaN in row 2",
    "two_types": "column y is string, but it is int64 in|column y is int64, but it is string in",
    "two_values": r"key \(x=0\) has both \(y=0\) and \(y=1\)",
}
FLATTENED = {"nested", "arrays"}  # columns of structs and of lists
UNEQUAL = {"same_rows"}  # of which a relation keeps one each


def test_every_folder_is_tried() -> None:
    assert {
        path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0] not in "._"
    } == {*EXPECTED}
    assert {*OPTIONS, *COMPLAINTS, *UNEQUAL, *FLATTENED} <= {*EXPECTED}


@pytest.mark.parametrize("job", sorted(EXPECTED.keys() - COMPLAINTS.keys() - FLATTENED))
def test_what_becomes_a_relation(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "s.pages"
    assert (
        command(
            [
                "load",
                str(file),
                "r",
                str(FOLDER / job),
                "--key",
                "x",
                "--json",
                *OPTIONS.get(job, []),
            ]
        )
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    columns, rows = (
        EXPECTED[job]["columns"],
        [row for row in EXPECTED[job]["rows"] if "None" not in row],
    )
    with pagestore.open(file, mode="r") as store:
        relation = store.snapshot()["r"]
        names = [column.name for column in relation.schema.columns]
        found = [[str(row[names.index(name)]) for name in columns] for row in relation]
        assert store.check() == []
    if job in UNEQUAL:
        assert answer["collapsed"] == len(rows) - len(found) > 0
        rows = [list(row) for row in {*map(tuple, rows)}]
    assert sorted(found) == sorted(rows)
    assert bool(answer["notes"]) == (job == "half_done")


def test_the_columns_of_a_struct_become_columns(tmp_path: Path) -> None:
    assert (
        command(
            [
                "load",
                str(tmp_path / "s.pages"),
                "r",
                str(FOLDER / "nested"),
                "--key",
                "x",
                "--quiet",
            ]
        )
        == 0
    )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        relation = store.snapshot()["r"]
        assert (relation.schema.names, [*relation]) == (("x", "y:a"), [(0, 0), (1, 1)])


def test_the_elements_of_a_list_become_rows(tmp_path: Path) -> None:
    assert (
        command(
            [
                "load",
                str(tmp_path / "s.pages"),
                "r",
                str(FOLDER / "arrays"),
                "--key",
                "x",
                "--quiet",
            ]
        )
        == 0
    )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert [*store.snapshot()["r"]] == [(0,), (1,)]
        assert [*store.snapshot()["r:y"]] == [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)]


@pytest.mark.parametrize("job", ["int96", "moments"])
def test_the_zone_of_moments_is_kept_unless_it_is_taken_off(job: str, tmp_path: Path) -> None:
    for options, types in ([], ["timestamp(UTC)"]), (["--utc"], ["timestamp"]):
        file = tmp_path / f"s{len(options)}.pages"
        assert (
            command(["load", str(file), "r", str(FOLDER / job), "--key", "x", "--quiet", *options])
            == 0
        )
        with pagestore.open(file, mode="r") as store:
            assert [str(column.type) for column in store.snapshot()["r"].schema.columns][
                1:
            ] == types


@pytest.mark.parametrize("job", sorted(OPTIONS.keys() - {"int96", "moments"}))
def test_nulls_that_are_refused_are_told_with_the_remedy(
    job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "s.pages")
    assert command(["load", file, "r", str(FOLDER / job), "--key", "x", "--nulls", "refuse"]) == 1
    assert OPTIONS[job][0] in capsys.readouterr().err


@pytest.mark.parametrize("job", sorted(COMPLAINTS))
def test_what_is_refused(job: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["load", str(tmp_path / "s.pages"), "r", str(FOLDER / job), "--key", "x"]) == 1
    err = capsys.readouterr().err
    assert re.search(COMPLAINTS[job], err)
    assert (
        len(err.splitlines()) == 1 + ("--bad FILE" in err) and not (tmp_path / "s.pages").exists()
    )
