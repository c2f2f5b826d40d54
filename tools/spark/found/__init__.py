"""What Spark looks for: a top-level module `pyspark_*` with a `DefaultSource` (pyproject.toml gives it that name).

Each session lists the modules on the path for such names when a format is first asked for, and imports them.
"""

from pagestore_tools.spark.source.source import PagestoreSource as DefaultSource

__all__ = ["DefaultSource"]
