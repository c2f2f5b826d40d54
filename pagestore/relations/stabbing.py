"""Interval relations: which records' intervals hold a point, or overlap another interval (*Interval trees*).

alpha...  a    b   gamma...         a, b are two adjacent key columns; a point has values for the alphas before them
"room 1"  900  1030  "Ada"          stab("room 1", 1000)           a <= 1000 <= b
"room 1"  1015 1200  "Bob"          overlaps("room 1", 1030, 1100)     a <= 1100 and 1030 <= b
"""

from typing import Any

import numpy as np

from pagestore.errors import SchemaError
from pagestore.relations.range import Range
from pagestore.trees.interval_index import overlaps_many
from pagestore.values.row_formats import as_columns, looked_up


def overlapping_words(relation: Range, points: Any, ends: int) -> np.ndarray:
    """Return stored words int64[C, m] of the records that any of the points meets, each once, in key order.

    A point is (alpha..., x), or with ends=2 (alpha..., lo, hi); points are a list of them, or arrays, one a column.
    Raises SchemaError for a relation without intervals or for points of another length, WordError for values
    of another type.
    """
    schema, intervals = relation.schema, relation.info.intervals
    if intervals is None:
        raise SchemaError(f"{relation.name!r} holds no intervals; make it with txn.create_intervals")
    if relation.bounded:
        raise SchemaError("a stab looks at the whole relation; call it there")
    alphas = [column.name for column in schema.stored].index(intervals[0])
    if not len(points):
        return np.empty((len(schema.columns), 0), np.int64)
    columns = as_columns("points", points)
    wanted = [*schema.stored[:alphas], *[schema.stored[alphas]] * ends]
    if len(columns) != len(wanted):
        names = ", ".join(column.name for column in schema.stored[:alphas])
        point = ", ".join(filter(None, (names, "x" if ends == 1 else "lo, hi")))
        raise SchemaError(f"points of {len(columns)} values for {relation.name!r}; a point is ({point})")
    words = looked_up("points", wanted, columns, relation.source.dictionary)
    pages, tree = relation.view()
    return overlaps_many(pages, tree, words if ends == 2 else np.concatenate([words, words[-1:]]))
