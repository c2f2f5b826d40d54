"""A versioned storage engine in one file: ordered relations, snapshots, diffs, range folds.

import pagestore
with pagestore.open("graph.pages") as store:
    with store.transaction() as txn:
        txn.create("edge", "x: int64, y: int64").insert([(1, 2), (2, 3)])
    store.snapshot()["edge"].to_arrow()
"""

import os
import sys
from importlib.util import find_spec

from pagestore.errors import PagestoreError as PagestoreError
from pagestore.pages.operators import register_operator as register_operator
from pagestore.relations.changes import Change as Change
from pagestore.relations.changes import Changes as Changes
from pagestore.relations.changes import Commits as Commits
from pagestore.relations.prepared import Prepared as Prepared
from pagestore.relations.relation import Relation as Relation
from pagestore.relations.snapshot import Snapshot as Snapshot
from pagestore.relations.transaction import Transaction as Transaction
from pagestore.runtime.reports import on_metric as on_metric
from pagestore.store import Store as Store
from pagestore.store import open as open
from pagestore.versions.hosts import register_host as register_host


def _name_python_to_spark() -> None:
    """Make Spark, if it is installed and not running yet, use this interpreter and not the first
    `python3` of PATH.
    """
    # by the user, spark-submit, a worker
    decided = {"PYSPARK_PYTHON", "PYSPARK_GATEWAY_PORT", "SPARK_PYTHON_RUNTIME"}
    if sys.executable and not decided & os.environ.keys() and find_spec("pyspark") is not None:
        os.environ["PYSPARK_PYTHON"] = sys.executable


_name_python_to_spark()
__version__ = "0.2.0"  # the only place: pyproject.toml and ivm read it here
