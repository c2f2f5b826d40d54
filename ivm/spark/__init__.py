"""Rules next to Spark: views of its tables, and views over several machines. pyspark is imported on
first use.

materialize     views of Spark's tables that follow the changes of these (materialize.py)
Cells           a program over HyperCube shards, one store per cell (cells.py)
"""

from ivm.spark.cells import Cells
from ivm.spark.follow import Feed
from ivm.spark.materialize import Views, materialize

__all__ = ["Cells", "Feed", "Views", "materialize"]
