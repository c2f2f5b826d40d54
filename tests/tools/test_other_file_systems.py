"""A path of another file system is refused by its name, wherever a store's path is given, and
nothing is made.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

import ivm
import pagestore
from ivm.spark import Cells, Feed, materialize
from ivm.spark.follow import refresh
from pagestore.admin.backup import restore_backup
from pagestore.errors import FormatError
from pagestore.salvage import open_damaged
from pagestore.storage.file import local_path
from pagestore_tools.cli import main

PATHS = [
    "s3a://bucket/v.pages", "s3://b/v.pages", "hdfs://node:9000/v.pages", "hdfs:/v.pages",
    "gs://b/v.pages",
    "dbfs:/v.pages", "abfss://c@account.dfs.core.windows.net/v.pages", "https://host/v.pages",
    Path("s3a://b/v.pages"),
]  # fmt: skip
RULES = "e(x, y) -> int(x), int(y). two(x, z) <- e(x, y), e(y, z)."
ROWS = pa.table({"x": [1], "y": [2]})

DOORS: dict[str, Callable[[Any], object]] = {
    "pagestore.open": pagestore.open,
    "pagestore.open to read": lambda path: pagestore.open(path, mode="r"),
    "ivm.open": ivm.open,
    "restore_backup": lambda path: restore_backup(path, []),
    "open_damaged": open_damaged,
    "refresh": lambda path: refresh(path, "v", RULES, {"e": ROWS}),
    "materialize": lambda path: materialize(Mock(), "v", RULES, {"e": ROWS}, path),
    "Feed": lambda path: refresh("here.pages", "v", RULES, {"e": Feed(path, "e")}),
    "Cells.create": lambda path: Cells.create(path, RULES, 2),
    "Cells.open": Cells.open,
}


def refused(path: object) -> str:
    scheme = str(path).partition(":")[0]
    return f"is on {scheme}, and a file of a mounted file system is wanted, since a store is mapped into memory: name"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_store_of_another_file_system_is_refused(folder, door, path):
    with pytest.raises(FormatError, match=refused(path)):
        DOORS[door](path)
    assert not [file for file in folder.iterdir() if file.name != "here.pages"]


def test_spark_sources_and_sinks_refuse_it_on_the_driver(folder):
    pytest.importorskip(
        "pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'"
    )
    from ivm.spark.sink import ViewsWriter
    from pagestore_tools.spark.source.options import READING, Options

    for path in map(str, PATHS):
        with pytest.raises(FormatError, match=refused(path)):
            Options({"path": path}, READING)
        with pytest.raises(FormatError, match=refused(path)):
            ViewsWriter(path, "v", RULES, "e", "auto")
    assert not [*folder.iterdir()]


@pytest.mark.parametrize(
    "command",
    [
        "pagestore info {}",
        "pagestore load {} r in.csv",
        "pagestore history {}",
        "pagestore drop {} r",
        "pagestore fsck {}",
        "pagestore fsck s.pages --salvage {}",
        "pagestore backup s.pages {}",
        "pagestore dump s.pages -o {}",
        "pagestore restore in.dump {}",
        "pagestore print s.pages r --output {}.csv",
        "pagestore compact {}",
        "ivm install {} rules.ivm",
        "ivm exec {} +e(1,2).",
        "ivm query {} q(x)<-e(x,_).",
        "ivm shell {}",
        "ivm print {}",
        "pagestore prepare {} in.csv --key x",
    ],
)
def test_commands_refuse_it(folder, capsys, command):
    with pagestore.open("s.pages") as store, store.transaction() as txn:
        txn.create("r", "x: int64").insert([1])
    Path("in.csv").write_text("x\n1\n")
    Path("rules.ivm").write_text(RULES)
    with pagestore.open("s.pages") as store, open("in.dump", "wb") as out:
        store.dump(out)
    before = {file.name for file in folder.iterdir()}
    program, *words = command.format("s3a://bucket/v.pages").split()
    assert getattr(main, program)(words) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{program} {words[0]}: s3a:/") and refused("s3a:") in line
    assert {file.name for file in folder.iterdir()} == before


def test_a_file_url_is_the_file(folder):
    for url in (f"file://{folder}/s.pages", f"file:{folder}/s.pages", f"FILE://{folder}/s.pages"):
        pagestore.open(url).close()
        assert local_path(url) == f"{folder}/s.pages" and (folder / "s.pages").exists()
    assert local_path("a:b.pages") == "a:b.pages"
    (folder / "s3a:").mkdir()  # who has such a folder names it in full
    pagestore.open(f"{folder}/s3a:/b.pages").close()
