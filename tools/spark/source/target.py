"""The target of a write, and the operation on its existing rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql.types import DecimalType, StructField, StructType

from pagestore.errors import MissingError, SchemaError, WordError
from pagestore.storage.file import local_path
from pagestore.values.codec import encode
from pagestore.values.types import Column, Schema
from pagestore.versions.dependants import recorded_dependants
from pagestore.versions.settings import MAIN

from .opening import store_at
from .options import Options, OptionsError
from .types import arrow_schema, spark_type, stored_schema, stored_type

INSERT, UPSERT, DELETE, OVERWRITE = "insert", "upsert", "delete", "overwrite"
LOCK_TIMEOUT = 30.0  # seconds


@dataclass(frozen=True)
class Target:
    """A relation of a store, the operation on it, and the schema to create it with if it is missing."""

    path: str
    relation: str
    branch: str
    operation: str
    schema: Schema
    lock_timeout: float
    staging: Path


def target_of(options: Options, schema: StructType, overwrite: bool) -> Target:
    """Return the target that the options name; compare the DataFrame's columns with an existing relation.

    Raises OptionsError, SchemaError, MissingError.
    """
    path = options.required("path", "the store's file, as in save(path)")
    relation = options.required("relation", "the relation of the store that is written to")
    branch = options.text("branch", MAIN) or MAIN
    operation = options.one_of("operation", INSERT, (INSERT, UPSERT, DELETE))
    if overwrite and operation != INSERT:
        raise OptionsError(f"operation={operation} goes with the mode append, not with overwrite")
    there = _schema_there(path, relation, branch)
    timeout = LOCK_TIMEOUT if "lockTimeout" not in options else options.number("lockTimeout", float)
    staging = Path(local_path(options.text("stagingPath") or f"{path}.staged")).absolute()
    if there is not None:
        _compare(relation, there, schema, options.names("key"), operation)
    elif operation == DELETE:
        raise MissingError(f"{path} has no relation {relation!r} to delete from")
    wanted = there or stored_schema(schema, options.names("key"))
    return Target(path, relation, branch, OVERWRITE if overwrite else operation, wanted, timeout, staging)


def _schema_there(path: str, relation: str, branch: str) -> Schema | None:
    """Return the current schema of a relation; None if it, the store or the branch is missing.

    Raises SchemaError for a view.
    """
    if not Path(path).exists():
        return None
    with store_at(path) as store, store.snapshot(branch) as snapshot:
        for one in recorded_dependants(snapshot.properties).values():
            if relation in one.keeps:
                reads = ", ".join(name for name in one.reads if "$" not in name)
                raise SchemaError(f"{relation!r} is a view, which {one.host} keeps: write to {reads}, and it follows")
        return snapshot[relation].schema if relation in snapshot else None


def _compare(name: str, there: Schema, given: StructType, key: Sequence[str], operation: str) -> None:
    """Raise SchemaError if a DataFrame's columns do not fit those of the relation."""
    if key and key != there.key:
        raise SchemaError(
            f"the key of {name!r} is {','.join(there.key)}, not {','.join(key)}: leave the option key out"
        )
    columns = {column.name: column for column in there.columns}
    names = [field.name for field in given]
    only_keys = operation == DELETE and set(names) <= set(there.key)
    for missing in [one for one in (there.key if only_keys else there.names) if one not in names]:
        raise SchemaError(f"{name!r} has a column {missing!r} ({columns[missing].type}), and the DataFrame has not: "
                          f"{', '.join(names)}")  # fmt: skip
    for field in given:
        if field.name not in columns:
            raise SchemaError(
                f"the DataFrame has a column {field.name!r}, and {name!r} has not ({there}): drop it first"
            )
        _fits(field, columns[field.name])


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
        encode(column._replace(type=column.type._replace(nullable=True)), pa.array([], arrow), cast(Any, _NoTexts))
    except WordError:
        given, wanted = field.dataType.simpleString(), spark_type(column.type).simpleString()
        raise SchemaError(f"column {field.name!r} is {given}, and the relation's is {column.type}: "
                          f"cast it to {wanted}") from None  # fmt: skip
