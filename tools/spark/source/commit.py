"""The driver's commit: the rows that tasks staged become one transaction, which also maintains views."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
import pyarrow as pa

import ivm  # noqa: F401 - maintains the views of workspaces
import pagestore
from ivm.spark.staging import staged_batches
from pagestore.errors import LockedError, WordError
from pagestore.relations.transaction import Transaction
from pagestore.relations.writable import WritableRelation
from pagestore.store import Store

from ...loading.edit import append, delete, upsert
from ...loading.external_sort import sort
from ...loading.fill import Conflicts, Filled, fill, rising
from .applied import Job, is_applied, record_applied
from .target import DELETE, OVERWRITE, UPSERT, Target

MEMORY = 256 << 20  # bytes that a sort may hold before it writes temporary files
ONE_EACH = "keep one of them with dropDuplicates, or make a column that tells them apart part of the key"
NEW_VALUES = "keep one of them, or put the new values in place with operation=upsert"


def commit(target: Target, job: Job, files: Sequence[str]) -> None:
    """Apply staged rows in one transaction; do nothing if the job was applied before.

    Raises LockedError if another handle holds the write lock for longer than the target's timeout, DatasetError,
    WordError, and what hosts raise; then the store is unchanged.
    """
    message = f"spark: {target.operation} {target.relation}"
    with _opened(target) as store, store.transaction(message, target.branch) as txn:
        if is_applied(txn, target.relation, job):
            txn.rollback()
            return
        if target.relation not in txn:
            txn.create(target.relation, target.schema)
        _apply(txn, txn[target.relation], target.operation, files)
        record_applied(txn, target.relation, job)


@contextmanager
def _opened(target: Target) -> Iterator[Store]:
    try:
        store = pagestore.open(target.path, timeout=target.lock_timeout)
    except LockedError as error:
        raise LockedError(
            f"{error}; the rows are not written. Spark commits in a process of its own: close the store where it is "
            "open for writing, or wait for longer with lockTimeout=SECONDS"
        ) from None
    with store:
        yield store


def _apply(txn: Transaction, relation: WritableRelation, operation: str, files: Sequence[str]) -> None:
    """Apply the operation to a relation with staged rows."""
    words = partial(_words, relation, files, operation == DELETE)
    source = f"the DataFrame for {relation.name}"
    if operation == DELETE:
        delete(txn, relation, words())
    elif operation == OVERWRITE or not len(relation):
        txn.truncate(relation.name)
        fill(txn, relation, words, MEMORY, source, lambda rows: None, ONE_EACH)
    elif operation == UPSERT:
        ordered = sort(words(), len(relation.schema.key), MEMORY)
        conflicts = Conflicts()
        upsert(txn, relation, rising(ordered, len(relation.schema.key), Filled(), conflicts))
        conflicts.refuse(txn, relation, source, ONE_EACH)
    else:
        append(txn, relation, words(), source, NEW_VALUES)


def _words(relation: WritableRelation, files: Sequence[str], deleting: bool) -> Iterator[np.ndarray]:
    """Yield staged rows as words int64[C, n]; when deleting, rows may have only keys."""
    unsigned = [column.name for column in relation.schema.columns if column.type.name == "uint64"]
    for batch in staged_batches(files):
        for name in (name for name in unsigned if name in batch.schema.names):
            place = batch.schema.get_field_index(name)
            if pa.types.is_decimal(batch.schema.field(place).type):
                batch = batch.set_column(place, pa.field(name, pa.uint64()), _whole(name, batch.column(place)))
        yield relation.encode(batch, keys_allowed=deleting, add=not deleting)


def _whole(name: str, decimals: pa.Array) -> pa.Array:
    """Convert Spark's decimals to uint64. Raises WordError."""
    try:
        return decimals.cast(pa.uint64())
    except pa.ArrowInvalid as error:
        raise WordError(f"column {name!r}: a value does not fit uint64: {error}") from None
