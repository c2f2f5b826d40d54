"""Rules beside Spark: views of its tables, and views over more than one machine. pyspark is imported when it is used.

materialize     views of Spark's tables that follow the changes of these (materialize.py)
Cells           a program over HyperCube shards, a store for each cell (cells.py)
"""

from ivm.spark.cells import Cells
from ivm.spark.follow import Feed
from ivm.spark.materialize import Views, materialize

__all__ = ["Cells", "Feed", "Views", "materialize"]
