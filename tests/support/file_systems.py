"""Paths on a cluster, where a name without a scheme is one of HDFS."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def hdfs_by_default(spark: "SparkSession") -> Iterator[None]:
    """Spark takes paths without a scheme for ones of a file system that is not there."""
    settings: Any = spark.sparkContext._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", "hdfs://127.0.0.1:9")
    try:
        yield
    finally:
        settings.set("fs.defaultFS", before)
