"""The examples of docs/spark.md and docs/prepare.md are true, and the first names every option."""

import doctest
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pagestore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"
FILE = DOCS / "spark.md"
RAW = """time_hour,carrier,distance,month,updated,note,gate
2013-01-01T10:00:00Z,ua,n/k,1,1,NA,A1
2013-01-01T10:00:00Z,aa,100,1,1,NA,A1
2013-01-01T10:00:00Z,aa,120,1,2,late,NA
NA,aa,100,1,1,NA,A1
2013-12-01T10:00:00Z,aa,100,12,1,NA,A1
"""


def test_the_examples(spark: "SparkSession", tmp_path: Path) -> None:
    failed, tried = doctest.testfile(
        str(FILE), module_relative=False, globs={"spark": spark, "folder": str(tmp_path)}
    )
    spark.catalog.dropTempView("empty_shop")
    assert (failed, tried > 0) == (0, True)


def test_every_option_is_named() -> None:
    pytest.importorskip(
        "pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'"
    )
    from pagestore_tools.spark.source.options import READING, WRITING

    text = FILE.read_text()
    assert [
        name
        for name in {*READING, *WRITING} - {"path"}
        if f"`{name}`" not in text and f"{name}=" not in text
    ] == []


def test_the_page_on_preparing(
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from pagestore_tools.cli import main

    text = (DOCS / "prepare.md").read_text()
    [recipe], [code] = (
        re.findall(f"```{language}\n(.*?)```", text, re.DOTALL) for language in ("toml", "python")
    )
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "0")  # the session that exists
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(recipe)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "flights.csv").write_text(RAW)
    for line in re.findall(r"^    pagestore (.*)$", text, re.MULTILINE)[1:3]:  # after the synopsis
        assert main.pagestore(re.sub("[][]", "", line).split()) == 0, capsys.readouterr()
    [bad] = [
        line
        for file in (tmp_path / "OUT" / "flight.quarantine").glob("*.txt")
        for line in file.open()
    ]
    assert (
        json.loads(bad)["reasons"] == ["m does not fit int64"]
        and '{"reasons":["m does not fit int64"]' in text
    )
    with pagestore.open(tmp_path / "flights.pages", mode="r") as store:
        [row] = store.snapshot()["flight"]
        assert row[1:] == ("AA", 120, "late", "none")
    frame = spark.createDataFrame([(2, None), (1, "Ulm"), (1, "Ulm")], "id int, town string")
    names: dict[str, Any] = {"spark": spark, "out": tmp_path / "more", "frame": frame}
    exec(code, names)
    assert (names["report"].kept, names["report"].duplicates) == (2, 1)
