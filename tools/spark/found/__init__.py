"""The module that Spark looks for: top-level, `pyspark_*`, with a `DefaultSource` (pyproject.toml
gives it that name).

Each session searches the path for such modules when a format is first used, and imports them.
"""

from pagestore_tools.spark.source.source import PagestoreSource as DefaultSource

__all__ = ["DefaultSource"]
