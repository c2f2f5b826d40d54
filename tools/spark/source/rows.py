"""Select the columns of a relation to read, and convert their stored words to batches for Spark."""

import json
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pagestore.errors import MissingError, SchemaError
from pagestore.relations.relation import Relation
from pagestore.relations.snapshot import Snapshot
from pagestore.values.types import Column

from .options import Options
from .types import spark_batches


def relation_asked_for(snapshot: Snapshot, options: Options) -> Relation:
    """Return the relation or view that an option names. Raises MissingError, OptionsError."""
    known = ", ".join(sorted(snapshot)) or "none"
    name = options.required("relation", f"version {snapshot.version} has {known}")
    if name not in snapshot:
        raise MissingError(f"version {snapshot.version} has no relation {name!r}; it has {known}")
    return snapshot[name]


def columns_asked_for(relation: Relation, options: Options) -> list[Column]:
    """Return the columns that an option names, in its order; all without it. Raises SchemaError."""
    by_name = {column.name: column for column in relation.schema.columns}
    names = options.names("columns") or relation.schema.names
    for name in names:
        if name not in by_name or names.count(name) > 1:
            wrong = "is there twice" if name in by_name else "is not there"
            raise SchemaError(f"columns: {name!r} {wrong}; {relation.name!r} has {', '.join(by_name)}")
    return [by_name[name] for name in names]


def places_of(relation: Relation, names: Sequence[str]) -> list[int]:
    """Return the places of columns in a stored record."""
    schema = relation.schema
    return [schema.places[schema.names.index(name)] for name in names]


def batches_of(
    snapshot: Snapshot, columns: Sequence[Column], words: np.ndarray, schema: pa.Schema, more: Sequence[pa.Array] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield words int64[C, n] of columns as batches for Spark, followed by `more` columns. No batch if n is 0."""
    if words.shape[1]:
        arrays = [snapshot.decode(column.type, one) for column, one in zip(columns, words, strict=True)]
        yield from spark_batches([*arrays, *more], schema)


def key_bound(relation: Relation, options: Options, name: str) -> tuple[object, ...] | None:
    """Parse a bound of keys: a value of the first key column, or a JSON list of values; None if it is missing.

    Raises SchemaError for a value that does not fit its column.
    """
    given = options.text(name)
    if given is None:
        return None
    values = json.loads(given, parse_float=str, parse_int=str) if given.lstrip().startswith("[") else [given]
    key = relation.schema.stored[: len(relation.schema.key)]
    if len(values) > len(key):
        raise SchemaError(f"{name}={given!r} has more values than the key ({', '.join(relation.schema.key)})")
    return tuple(_value(column, value, name) for column, value in zip(key, values, strict=False))


def _value(column: Column, value: object, name: str) -> object:
    text = str(value).lower() if isinstance(value, bool) else value
    try:
        if column.type.name == "bytes":
            return bytes.fromhex(str(text))
        scalar = pa.scalar(text, pa.string())
        if column.type.name == "duration":
            scalar = scalar.cast(pa.int64())  # microseconds
        return scalar.cast(column.type.arrow).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise SchemaError(f"{name}: {value!r} is no {column.type}, as key column {column.name!r} is") from None
