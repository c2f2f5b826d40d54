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
    names["refresh_a_query"](spark, tmp_path)
    names["over_cells"](spark, tmp_path)
    spark.createDataFrame([(4, 5)], "x long, y long").write.parquet(str(tmp_path / "edges"))
    stream = spark.readStream.schema("x long, y long").parquet(str(tmp_path / "edges"))
    with names["Cells"].open(tmp_path / "cells", spark) as cells:
        query = names["stream_into_cells"](cells, stream, tmp_path / "point")
        query.processAllAvailable()
        query.stop()
        assert names["watch"](tmp_path / "cells", spark) == (0, 4)
