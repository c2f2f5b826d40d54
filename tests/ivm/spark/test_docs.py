"""The examples of docs/cells.md run."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = (Path(__file__).parents[3] / "docs" / "cells.md").read_text()


def test_the_examples_of_the_page(spark: "SparkSession", tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL):
        exec(block, names)
    names["refresh_views"](spark, tmp_path)
    names["over_cells"](spark, tmp_path)
