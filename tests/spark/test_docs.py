"""The examples of docs/spark.md are true, and it names every option."""

import doctest
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_examples(spark: "SparkSession", tmp_path: Path) -> None:
    failed, tried = doctest.testfile(str(FILE), module_relative=False, globs={"spark": spark, "folder": str(tmp_path)})
    spark.catalog.dropTempView("empty_shop")
    assert (failed, tried > 0) == (0, True)


def test_every_option_is_named() -> None:
    pytest.importorskip("pyspark", reason="Spark is not installed: pip install 'pagestore-ivm[spark]'")
    from pagestore_tools.spark.source.options import READING, WRITING

    text = FILE.read_text()
    assert [
        name for name in {*READING, *WRITING} - {"path"} if f"`{name}`" not in text and f"{name}=" not in text
    ] == []
