"""File systems as they should not be: a disk that is full, and a cluster where a name without a
scheme is of HDFS.
"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Limit the size of files, as a full disk does: a write after the limit fails, one across it
    is short.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


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
