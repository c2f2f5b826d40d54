"""A versioned storage engine in one file: ordered relations, snapshots, diffs, range folds.

import pagestore
with pagestore.open("graph.pages") as store:
    with store.transaction() as txn:
        txn.create("edge", "x: int64, y: int64").insert([(1, 2), (2, 3)])
    store.snapshot()["edge"].to_arrow()
"""

from . import kernels as kernels  # first: it says where compiled kernels are kept
from .dependants import register_host as register_host
from .errors import PagestoreError as PagestoreError
from .operators import register_operator as register_operator
from .relation import Relation as Relation
from .snapshot import Snapshot as Snapshot
from .store import Store as Store
from .store import open as open
from .transaction import Transaction as Transaction

__version__ = "0.2.0"  # the one place: pyproject.toml and ivm read it here
