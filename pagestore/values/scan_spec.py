"""Scans (folds) as users name them: parsed to the scans of a tree, with results from fold words to
values.

count                 records                         max:price         greatest value
count:price           records whose price is not null
sum:price             exact sum                       max:price,item    greatest tuple
checksum              of whole records                argmax:price,item the item at the greatest price
gcd:x                 a registered operator           min:, argmin:     likewise
max:item              of texts, and every scan of a nullable column: computed from the records, not stored in a tree
concat:item           a rope of the texts, computed from the records, not stored in a tree (relations/rope.py)
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from pagestore.errors import SchemaError, WordError
from pagestore.pages.operators import (
    CARRY,
    CHECKSUM,
    COUNT,
    MAX,
    MIN,
    SUM,
    THEN,
    code_of,
    is_name,
    name_of,
    operator,
)
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.values.codec import decode
from pagestore.values.objects import with_nulls
from pagestore.values.types import WORD_DIGITS, Column, Interner, Schema, of_numbers

USE = 'use "count", "checksum", "sum:x", "max:x", "max:x,y", "argmax:x,y", "concat:x" or a registered operator'
ORDERED = {"min": MIN, "max": MAX, "argmin": MIN, "argmax": MAX}


class ScanSpec(NamedTuple):
    """A scan: its operator's name, its rows in a tree, its result's columns, and the number of fold
    words before them.

    `whole` says whether its value is the integer in the fold words, `carried` whether a tree can
    store it: no tree can compare texts or skip nulls.
    """

    operator: str
    rows: tuple[tuple[int, int], ...]
    columns: tuple[Column, ...] = ()
    skipped: int = 0
    whole: bool = False
    carried: bool = True


@lru_cache(256)
def parse_scan(text: str, schema: Schema) -> ScanSpec:
    """Parse a scan of a relation. Raises SchemaError for an invalid one."""
    if not isinstance(text, str):
        raise SchemaError(f"scan {text!r}: {USE}")
    name, _, rest = text.partition(":")
    columns = tuple(_column(text, part.strip(), schema) for part in rest.split(",")) if rest else ()
    places = [schema.stored.index(column) for column in columns]
    if name == "concat":
        raise SchemaError(
            f"scan {text!r}: texts are concatenated as they stand; no scan is carried, just scan a "
            f"range"
        )
    carried = not any(column.type.nullable for column in columns)
    if name == "count" and len(columns) < 2:
        return ScanSpec(name, ((COUNT, 0),), columns, whole=True, carried=carried)
    if name in ("count", "checksum"):
        if columns:
            raise SchemaError(f"scan {text!r}: a {name} is of whole records and names no column")
        return ScanSpec(name, ((CHECKSUM, len(schema.columns)),), whole=True)
    if (
        not columns
        or (name not in ORDERED and len(columns) > 1)
        or (name.startswith("arg") and len(columns) < 2)
    ):
        raise SchemaError(f"scan {text!r}: {USE}")
    if name in ORDERED:
        rows = ((ORDERED[name], places[0]), *((THEN, place) for place in places[1:]))
        skipped = int(name.startswith("arg"))
        whole = len(columns) == 1 and columns[0].type.name == "int64"
        compared = columns[:1] if skipped else columns
        carried = carried and not any(column.type.interned for column in compared)
        return ScanSpec(name, rows, columns[skipped:], skipped, whole, carried)
    if name == "sum":
        if columns[0].type.name not in ("int64", "decimal") or columns[0].type.wide:
            raise SchemaError(
                f"scan {text!r}: {columns[0].name} is a {columns[0].type}; a sum is of int64 or of "
                f"decimals of at most {WORD_DIGITS} digits, whose words add up"
            )
        whole = columns[0].type.name == "int64"
        return ScanSpec(
            name, ((SUM, places[0]), (CARRY, places[0])), columns, whole=whole, carried=carried
        )
    if not is_name(name):
        raise SchemaError(f"scan {text!r}: {USE}")
    return ScanSpec(name, ((code_of(name), places[0]),), columns, carried=carried)


def concatenated(text: str, schema: Schema) -> Column:
    """Return the column of a scan "concat:column". Raises SchemaError unless it has texts."""
    column = _column(text, text.removeprefix("concat:").strip(), schema)
    if column.type.name not in ("string", "bytes"):
        raise SchemaError(
            f"scan {text!r}: {column.name} is a {column.type}; strings and bytes are concatenated"
        )
    return column


def _column(text: str, name: str, schema: Schema) -> Column:
    for column in schema.stored:
        if column.name == name:
            return column
    raise SchemaError(
        f"scan {text!r}: there is no column {name!r}; there is {', '.join(schema.names)}"
    )


def scan_names(scans: tuple[tuple[int, int], ...], schema: Schema) -> list[str]:
    """Return the names of a tree's scans; an arg-max is named as the max of its tuple, unless
    texts rule that out.
    """
    names = {COUNT: "count", CHECKSUM: "checksum", SUM: "sum", MIN: "min", MAX: "max"}
    out: list[str] = []
    for op, c in scans:
        if op == THEN:
            out[-1] += f",{schema.stored[c].name}"
            if schema.stored[c].type.interned:
                out[-1] = f"arg{out[-1].removeprefix('arg')}"
        elif op in (COUNT, CHECKSUM):
            out.append(names[op])
        elif op != CARRY:
            out.append(f"{names.get(op) or name_of(op)}:{schema.stored[c].name}")
    return out


def values_of(scan: ScanSpec, words: np.ndarray, full: np.ndarray, interner: Interner) -> pa.Array:
    """Convert fold words int64[rows, n] to an Arrow array; without records: 0, an operator's
    identity, or null.

    A sum of int64 that does not fit raises WordError naming the interval; `scan` of that one alone
    returns it. Several columns make a struct.
    """
    words = np.where(full, words, 0)
    if scan.operator in ("count", "checksum"):
        return of_numbers(pa.int64(), words[0])
    if scan.operator == "sum":
        return _sums(scan.columns[0], words)
    if scan.operator not in ORDERED:
        identity = operator(scan.rows[0][0]).identity
        return decode(scan.columns[0].type, np.where(full, words[0], identity), interner)
    arrays = [
        decode(column.type, np.ascontiguousarray(words[scan.skipped + i]), interner)
        if full.all() or not column.type.interned
        else _texts(column, words[scan.skipped + i], full, interner)
        for i, column in enumerate(scan.columns)
    ]
    mask = of_numbers(pa.bool_(), ~full)
    if len(arrays) > 1:
        return pa.StructArray.from_arrays(
            arrays, [column.name for column in scan.columns], mask=mask
        )
    if full.all():
        return arrays[0]
    import pyarrow.compute as pc  # imported here: it takes as long to import as the rest of pyarrow

    return pc.if_else(mask, pa.scalar(None, arrays[0].type), arrays[0])


def _texts(column: Column, ids: np.ndarray, full: np.ndarray, interner: Interner) -> pa.Array:
    """Return the texts of ids[n], null where there was no record."""
    return with_nulls(decode(column.type, ids[full], interner), full)


def _sums(column: Column, words: np.ndarray) -> pa.Array:
    if column.type.name == "decimal":
        return of_numbers(pa.decimal128(38, column.type.scale), words.T)
    over = np.flatnonzero(words[0] >> 63 != words[1])
    if len(over):
        total = (int(words[1, over[0]]) << 64) + (int(words[0, over[0]]) & (1 << 64) - 1)
        raise WordError(
            f"interval {over[0]}: the sum of {column.name!r} is {total}, beyond 64 bits; use scan "
            f"for it"
        )
    return of_numbers(pa.int64(), words[0])


def value_of(scan: ScanSpec, words: list[int], full: bool, interner: Interner) -> Any:
    """As `values_of`, for one interval, as a Python value; sums of any size are exact."""
    if scan.whole:
        if len(words) == 2 and words[1] != words[0] >> 63:
            return (words[1] << 64) + (words[0] & (1 << 64) - 1)
        return words[0] if full or scan.operator not in ORDERED else None
    value = values_of(scan, np.array(words, np.int64)[:, None], np.array([full]), interner)[
        0
    ].as_py()
    return tuple(value.values()) if isinstance(value, dict) else value
