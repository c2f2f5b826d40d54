"""The examples of docs/spark.md run, one after the other, on one store."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()


def test_the_examples_of_the_page(spark: "SparkSession", tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(block, names)
    for example in "read", "write", "copy_changes":
        names[example](spark, tmp_path)
