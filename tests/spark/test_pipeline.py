"""Streams that are stopped, and whose Python processes are killed, go on by themselves, and all
is exact.
"""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.spark import pipeline
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

PATIENCE = 120  # seconds


def test_events_in_and_changes_out(spark: "SparkSession", tmp_path: Path) -> None:
    pipeline.create(tmp_path)
    queries = pipeline.start(spark, tmp_path)
    until(lambda: pipeline.committed(tmp_path) >= 2, PATIENCE)
    stop(queries)
    queries, done = pipeline.start(spark, tmp_path), pipeline.committed(tmp_path)
    until(lambda: pipeline.committed(tmp_path) > done, PATIENCE)
    # a local session tries no task twice, and ends a query that was working in one of them
    for _ in range(20):
        pipeline.kill(pipeline.python_workers(pipeline.java_process(spark)))
        if not all(query.isActive for query in queries):
            break
        time.sleep(0.3)
    assert not all(query.isActive for query in queries)
    stop(queries)
    queries, done = pipeline.start(spark, tmp_path), pipeline.committed(tmp_path)
    until(lambda: pipeline.committed(tmp_path) > done, PATIENCE)
    stop(queries)
    pipeline.finish(spark, tmp_path)
    assert pipeline.verify(spark, tmp_path) > 0


def stop(queries: "list[StreamingQuery]") -> None:
    """Stop queries, at whatever they are doing."""
    for query in queries:
        query.stop()
