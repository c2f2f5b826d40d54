"""Spark's Python processes: which interpreter they use, and how they report an error.

`import pagestore` sets PYSPARK_PYTHON, unless it is set. This file has what remains to be done for a session that began
before.

    Failed to create Python data source instance: Traceback ... 40 lines ... MissingError: version 2 has no ...
    Failed to create Python data source instance: pagestore.errors.MissingError: version 2 has no ...
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ivm.errors import IvmError
from pagestore.errors import PagestoreError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HIDE = "SPARK_HIDE_TRACEBACK"  # Spark's worker reads it when it reports an error, after which it ends
IN_WORKER = "SPARK_PYTHON_RUNTIME"  # set by Spark in its workers
UNNAMED = "python3"  # Spark's default interpreter


def use_this_python(spark: "SparkSession") -> None:
    """Make a local session that began before PYSPARK_PYTHON was set run its tasks in this interpreter."""
    with suppress(AttributeError):  # Spark Connect has no context
        context: Any = spark.sparkContext
        if context.pythonExec == UNNAMED and context.master.startswith("local"):
            context.pythonExec = sys.executable


@contextmanager
def sentence_first() -> Iterator[None]:
    """In a worker, make Spark report our errors by their message, without the traceback."""
    try:
        yield
    except Exception as error:
        ours = isinstance(error, PagestoreError | IvmError) or (isinstance(error, OSError) and error.errno is None)
        if ours and IN_WORKER in os.environ:
            os.environ[HIDE] = "1"
        raise
