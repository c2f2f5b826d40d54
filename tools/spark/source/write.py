"""A batch write: tasks stage rows, and the driver commits them in one transaction.

Record in each version which jobs it has applied, so that none is applied twice.

{"edge": {"2f6b...": 17, ...}}      relation edge has batch 17 of this streaming query, and all before it

The target of a write, and the operation on its existing rows.

The driver's commit: the rows that tasks staged become one transaction, which also maintains views.

A streaming write: each micro-batch is one transaction, applied once, identified by query and batch
id.
"""

import json
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import DecimalType, StructField, StructType

import ivm  # noqa: F401 - maintains the views of workspaces
import pagestore
from ivm.spark.staging import (
    Staged,
    clear,
    clear_jobs,
    files_of,
    new_job,
    query_of,
    stage,
    staged_batches,
)
from pagestore.errors import LockedError, MissingError, SchemaError, WordError
from pagestore.host import (
    MAIN,
    Column,
    Schema,
    Transaction,
    WritableRelation,
    encode,
    external_sort,
    local_path,
    recorded_dependants,
)

from ...loading.edit import NO_KEY, append, delete, upsert
from ...loading.fill import Conflicts, Filled, fill, rising
from .options import Options, OptionsError, store_at
from .sentences import sentences_first
from .types import arrow_schema, spark_type, stored_schema, stored_type

PROPERTY = "pagestore.spark"
ONCE = "once:"  # prefix of the names of jobs with a single batch
ONCE_KEPT = 64  # jobs of this kind recorded per relation: Spark commits each right after its tasks


class Job(NamedTuple):
    """A batch of rows to apply once, numbered by the application or query that writes it."""

    application: str
    number: int


def is_applied(txn: Transaction, relation: str, job: Job) -> bool:
    """Return whether a relation has a job's rows, or those of a later job of its application."""
    return bool(_recorded(txn).get(relation, {}).get(job.application, -1) >= job.number)


def record_applied(txn: Transaction, relation: str, job: Job) -> None:
    """Record that a transaction applies a job to a relation."""
    recorded = _recorded(txn)
    jobs = recorded.setdefault(relation, {})
    jobs.pop(job.application, None)
    jobs[job.application] = job.number  # the newest is last
    for old in [name for name in jobs if name.startswith(ONCE)][:-ONCE_KEPT]:
        del jobs[old]
    txn.properties[PROPERTY] = json.dumps(recorded)


def _recorded(txn: Transaction) -> dict[str, dict[str, int]]:
    recorded: dict[str, dict[str, int]] = json.loads(txn.catalog.properties.get(PROPERTY, "{}"))
    return recorded


INSERT, UPSERT, DELETE, OVERWRITE = "insert", "upsert", "delete", "overwrite"
LOCK_TIMEOUT = 30.0  # seconds


@dataclass(frozen=True)
class Target:
    """A store's relation, the operation on it, and the schema to create it with."""

    path: str
    relation: str
    branch: str
    operation: str
    schema: Schema
    lock_timeout: float
    staging: Path


def target_of(options: Options, schema: StructType, overwrite: bool) -> Target:
    """Return the target that the options name; compare the DataFrame's columns with an existing
    relation.

    Raises OptionsError, SchemaError, MissingError.
    """
    path = options.required("path", "the store's file, as in save(path)")
    relation = options.required("relation", "the relation of the store that is written to")
    branch = options.text("branch", MAIN) or MAIN
    operation = options.one_of("operation", INSERT, (INSERT, UPSERT, DELETE))
    if overwrite and operation != INSERT:
        raise OptionsError(f"operation={operation} goes with the mode append, not with overwrite")
    there = _schema_there(path, relation, branch, operation)
    timeout = LOCK_TIMEOUT if "lockTimeout" not in options else options.number("lockTimeout", float)
    staging = Path(local_path(options.text("stagingPath") or f"{path}.staged")).absolute()
    if there is not None:
        _compare(relation, there, schema, options.names("key"), operation)
    elif operation == DELETE:
        raise MissingError(f"{path} has no relation {relation!r} to delete from")
    target = there or stored_schema(schema, options.names("key"))
    return Target(
        path, relation, branch, OVERWRITE if overwrite else operation, target, timeout, staging
    )


def _schema_there(path: str, relation: str, branch: str, operation: str) -> Schema | None:
    """Return the current schema of a relation; None if it, the store or the branch is missing.

    Raises SchemaError for a view, and for `upsert` into a bag.
    """
    if not Path(path).exists():
        return None
    with store_at(path) as store, store.snapshot(branch) as snapshot:
        for derived in recorded_dependants(snapshot.properties).values():
            if relation in derived.keeps:
                reads = ", ".join(name for name in derived.reads if "$" not in name)
                raise SchemaError(
                    f"{relation!r} is a view, which {derived.host} keeps: write to {reads}, and it "
                    f"follows"
                )
        if relation not in snapshot:
            return None
        if operation == UPSERT and snapshot[relation].info.bag:
            raise SchemaError(
                f"{relation!r} {NO_KEY}: append rows, or delete some and append others"
            )
        return snapshot[relation].schema


def _compare(
    name: str, there: Schema, given: StructType, key: Sequence[str], operation: str
) -> None:
    """Raise SchemaError if a DataFrame's columns do not fit those of the relation."""
    if key and key != there.key:
        raise SchemaError(
            f"the key of {name!r} is {','.join(there.key)}, not {','.join(key)}: leave the option "
            f"key out"
        )
    columns = {column.name: column for column in there.columns}
    names = [field.name for field in given]
    only_keys = operation == DELETE and set(names) <= set(there.key)
    for missing in [one for one in (there.key if only_keys else there.names) if one not in names]:
        raise SchemaError(
            f"{name!r} has a column {missing!r} ({columns[missing].type}), and the DataFrame has "
            f"not: "
            f'{", ".join(names)}; add it, as in withColumnRenamed("...", "{missing}")'
        )
    for field in given:
        if field.name not in columns:
            raise SchemaError(
                f"the DataFrame has a column {field.name!r}, and {name!r} has not ({there}): leave "
                f"it out, as in "
                f'drop("{field.name}"), or add it to the relation first, as in '
                f'txn.add_column("{name}", "{field.name}: {_nullable(field)}")'
            )
        _fits(field, columns[field.name])


def _nullable(field: StructField) -> str:
    """Return the type of a new column that takes a DataFrame's column and nulls."""
    try:
        return f"{str(stored_type(field)).removesuffix('?')}?"
    except SchemaError:
        return "..."


class _NoTexts:
    """A stub of a dictionary, for columns without values."""

    @staticmethod
    def intern(texts: pa.Array) -> np.ndarray:
        """Return zeros; there are no texts."""
        return np.zeros(len(texts), np.int64)


def _fits(field: StructField, column: Column) -> None:
    """Raise SchemaError if a column accepts no values of a DataFrame's type."""
    is_whole = isinstance(field.dataType, DecimalType) and field.dataType.scale == 0
    if column.type.name == "uint64" and is_whole:
        return
    stored_type(field)
    [arrow] = arrow_schema(StructType([field])).types
    try:
        encode(
            column._replace(type=column.type._replace(nullable=True)),
            pa.array([], arrow),
            cast(Any, _NoTexts),
        )
    except WordError:
        given, stored = field.dataType.simpleString(), spark_type(column.type).simpleString()
        raise SchemaError(
            f"column {field.name!r} is {given}, and the relation's is {column.type}: "
            f"cast it to {stored}"
        ) from None


@sentences_first
class RelationWriter(DataSourceArrowWriter):
    """Writes a DataFrame; Spark makes one, and copies it to tasks and to the driver's commit."""

    def __init__(self, target: Target, options: Options) -> None:
        self._target = target
        self._folder = new_job(target.staging)
        self._job = job_of(options) or Job(ONCE + self._folder.name, 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage a task's rows."""
        return stage(iterator, self._folder)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Apply the rows that the tasks staged, exactly once however often it is called."""

        try:
            commit(self._target, self._job, files_of(messages))
        finally:
            clear(self._folder)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Delete the rows that the tasks staged."""
        clear(self._folder)


def job_of(options: Options) -> Job | None:
    """Return the job named by the options, like those of Delta, or None. Raises OptionsError if
    only one is given.
    """
    application, number = options.text("txnAppId"), options.number("txnVersion")
    if (application is None) != (number is None):
        raise OptionsError(
            "txnAppId and txnVersion go together: they say which write this is, and of which job"
        )
    return None if application is None else Job(application, number)


MEMORY = 256 << 20  # bytes that a sort may hold before it writes temporary files
ONE_EACH = (
    "keep one of them with dropDuplicates, or make a column that tells them apart part of the key"
)
NEW_VALUES = "keep one of them, or put the new values in place with operation=upsert"


def commit(target: Target, job: Job, files: Sequence[str]) -> None:
    """Apply staged rows in one transaction; do nothing if the job was applied before.

    Raises LockedError if another handle holds the write lock for longer than the target's timeout,
    DatasetError, WordError, and what hosts raise; then the store is unchanged.
    """
    message = f"spark: {target.operation} {target.relation}"
    with _opened(target, message) as txn:
        if is_applied(txn, target.relation, job):
            txn.rollback()
            return
        if target.relation not in txn:
            txn.create(target.relation, target.schema)
        _apply(txn, txn[target.relation], target.operation, files)
        record_applied(txn, target.relation, job)


@contextmanager
def _opened(target: Target, message: str) -> Iterator[Transaction]:
    """Open the store, and begin a transaction."""
    with ExitStack() as opened:
        try:
            store = opened.enter_context(pagestore.open(target.path, timeout=target.lock_timeout))
            txn = store.transaction(message, target.branch, timeout=target.lock_timeout)
        except LockedError as error:
            raise LockedError(
                f"{error}; the rows are not written. Spark commits in a process of its own: end "
                "the transaction there, or wait for longer with lockTimeout=SECONDS"
            ) from None
        yield opened.enter_context(txn)


def _apply(
    txn: Transaction, relation: WritableRelation, operation: str, files: Sequence[str]
) -> None:
    """Apply the operation to a relation with staged rows."""
    words = partial(_words, relation, files, operation == DELETE)
    source = f"the DataFrame for {relation.name}"
    if operation == DELETE:
        delete(txn, relation, words())
    elif operation == OVERWRITE or not len(relation):
        txn.truncate(relation.name)
        fill(txn, relation, words, MEMORY, source, lambda rows: None, ONE_EACH)
    elif operation == UPSERT:
        ordered = external_sort(words(), len(relation.schema.key), MEMORY)
        conflicts = Conflicts()
        upsert(txn, relation, rising(ordered, len(relation.schema.key), Filled(), conflicts))
        conflicts.refuse(txn, relation, source, ONE_EACH)
    else:
        append(txn, relation, words(), source, NEW_VALUES)


def _words(
    relation: WritableRelation, files: Sequence[str], deleting: bool
) -> Generator[np.ndarray, None, None]:
    """Yield staged rows as words int64[C, n]; when deleting, rows may have only keys."""
    unsigned = [column.name for column in relation.schema.columns if column.type.name == "uint64"]
    for batch in staged_batches(files):
        for name in (name for name in unsigned if name in batch.schema.names):
            place = batch.schema.get_field_index(name)
            if pa.types.is_decimal(batch.schema.field(place).type):
                batch = batch.set_column(
                    place, pa.field(name, pa.uint64()), _whole(name, batch.column(place))
                )
        yield relation.encode(batch, keys_allowed=deleting, add=not deleting)


def _whole(name: str, decimals: pa.Array) -> pa.Array:
    """Convert Spark's decimals to uint64. Raises WordError."""
    try:
        return decimals.cast(pa.uint64())
    except pa.ArrowInvalid as error:
        raise WordError(f"column {name!r}: a value does not fit uint64: {error}") from None


@sentences_first
class RelationStreamWriter(DataSourceStreamArrowWriter):
    """Writes micro-batches; Spark makes a new one for each batch's tasks, and its commit."""

    def __init__(self, target: Target) -> None:
        self._target, self._folder = target, new_job(target.staging)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage a task's rows."""
        return stage(iterator, self._folder)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Apply the rows that the tasks staged, unless the query did so before it was restarted."""

        try:
            commit(self._target, Job(_query(messages), batchId), files_of(messages))
        finally:
            clear_jobs(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Delete the files that tasks reported; `clear` deletes others after a week."""
        clear_jobs(messages)


def _query(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return the id of the query that tasks belong to, which a checkpoint keeps."""
    if (query := query_of(messages)) is None:
        raise OptionsError(
            "no task of the batch said which streaming query it belongs to: give a "
            "checkpointLocation"
        )
    return query
