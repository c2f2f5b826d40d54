"""A folder with a manifest: it is loaded as that says, and any file that is not as listed is one
clear error.
"""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pagestore
from pagestore.values.types import Type
from pagestore_tools.cli import main
from pagestore_tools.loading.casts import DatasetError
from pagestore_tools.loading.manifest import NAME, read_manifest, write_manifest

TYPES = {"x": "int64", "y": "string", "t": "timestamp(Europe/Berlin)", "z": "int64?"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "job"
    path.mkdir()
    for number, rows in enumerate(([1, 2], [], [5])):
        columns = {
            "x": pa.array(rows, pa.int64()),
            "y": pa.array([str(x) for x in rows], pa.string()),
            "t": pa.array(rows, pa.timestamp("us", "UTC")),
            "z": pa.array(rows, pa.int64()),
        }
        pq.write_table(pa.table(columns), path / f"part-{number:05}.parquet")
    (path / "_SUCCESS").touch()
    write_manifest(path, "r", ["x", "y"], {name: Type.parse(kind) for name, kind in TYPES.items()})
    return path


def load(tmp_path: Path, folder: Path, *options: str) -> int:
    return main.pagestore(
        ["load", str(tmp_path / "s.pages"), "r", str(folder), "--quiet", *options]
    )


def test_the_manifest_says_what_is_in_the_folder(folder: Path) -> None:
    manifest = read_manifest(folder)
    assert manifest is not None and (manifest.rows, manifest.key) == (3, ("x", "y"))
    assert [(file.rows, file.first, file.last) for file in manifest.files] == [
        (2, [1, "1"], [2, "2"]),
        (0, None, None),
        (1, [5, "5"], [5, "5"]),
    ]


def test_key_types_and_nulls_come_from_the_manifest(folder: Path, tmp_path: Path) -> None:
    assert load(tmp_path, folder) == 0
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        schema = store.snapshot()["r"].schema
        assert {column.name: str(column.type) for column in schema.columns} == TYPES
        assert schema.key == ("x", "y") and store.check() == []


def test_options_say_otherwise(folder: Path, tmp_path: Path) -> None:
    assert (
        load(tmp_path, folder, "--key", "k", "--rename", "x=k", "--columns", "k,t,z", "--utc") == 0
    )
    with pagestore.open(tmp_path / "s.pages", mode="r") as store:
        assert str(store.snapshot()["r"].schema) == "k: int64, t: timestamp, z: int64?"


def _change(folder: Path) -> None:
    file = folder / "part-00000.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _cut(folder: Path) -> None:
    file = folder / "part-00002.parquet"
    file.write_bytes(file.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (_change, "part-00000.parquet was changed: its checksum differs"),
        (_cut, "part-00002.parquet has .* bytes instead of"),
        (lambda folder: (folder / "part-00001.parquet").unlink(), "part-00001.parquet is missing"),
        (lambda folder: (folder / "more.csv").write_text("x\n1\n"), "more.csv is not listed"),
        (
            lambda folder: (folder / NAME).write_text("{}"),
            r"_manifest.json is not a manifest \(KeyError",
        ),
        (lambda folder: (folder / NAME).write_text("{"), "_manifest.json is not a manifest"),
        (
            lambda folder: (folder / NAME).write_text(
                (folder / NAME).read_text().replace('"rows": 2', '"rows": 9')
            ),
            "rows do not add up",
        ),
        (
            lambda folder: (folder / NAME).write_text(json.dumps({"manifest": 2})),
            "is of version 2, and this release reads 1",
        ),
    ],
)
def test_what_is_not_as_listed_is_one_error(
    spoil, says, folder: Path, tmp_path: Path, capsys
) -> None:
    spoil(folder)
    assert load(tmp_path, folder) == 1
    err = capsys.readouterr().err
    assert re.search(says, err), err
    assert len(err.splitlines()) == 1 and not (tmp_path / "s.pages").exists()


def test_all_faults_are_told_but_few_are_shown(folder: Path) -> None:
    from pagestore_tools.loading.manifest import verify

    manifest = read_manifest(folder)
    for file in folder.glob("*.parquet"):
        file.rename(file.with_suffix(".pq"))
    with pytest.raises(
        DatasetError, match="part-00000.parquet is missing;.*; 3 more: prepare it again"
    ):
        verify(folder, manifest)
