"""Interval relations: which records' intervals hold a point, or overlap another interval (*Interval trees*).

alpha...  a    b   gamma...         a, b are two neighbouring key columns; a point brings the alphas before them
"room 1"  900  1030  "Ada"          stab("room 1", 1000)           a <= 1000 <= b
"room 1"  1015 1200  "Bob"          overlaps("room 1", 1030, 1100)     a <= 1100 and 1030 <= b
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import SchemaError
from .interval import overlaps_many
from .words import encode

if TYPE_CHECKING:
    from .relation import Relation


def met(relation: "Relation", points: Any, ends: int) -> np.ndarray:
    """Stored words int64[C, m] of the records that one of the points meets, each once, in key order.

    A point is (alpha..., x), or with ends=2 (alpha..., lo, hi); points are a list of them, or a list of columns.
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
    columns = _columns(points)
    wanted = [*schema.stored[:alphas], *[schema.stored[alphas]] * ends]
    if len(columns) != len(wanted):
        names = ", ".join(column.name for column in schema.stored[:alphas])
        point = ", ".join(filter(None, (names, "x" if ends == 1 else "lo, hi")))
        raise SchemaError(f"points of {len(columns)} values for {relation.name!r}; a point is ({point})")
    dictionary = relation.source.dictionary
    words = [encode(column, values, dictionary) for column, values in zip(wanted, columns, strict=False)]
    if len({len(column) for column in words}) > 1:
        raise SchemaError(f"points in columns of {', '.join(str(len(column)) for column in words)} values")
    if ends == 1:
        words.append(words[-1])
    pages, tree = relation.view()
    return overlaps_many(pages, tree, np.stack(words))


def _columns(points: Any) -> Sequence[Any]:
    """Points in rows or in columns, as columns; a flat list is one column."""
    if isinstance(points, np.ndarray) and points.ndim == 2:
        return list(points)
    if isinstance(points[0], tuple):
        if len(set(map(len, points))) > 1:
            raise SchemaError("points of several lengths")
        return list(zip(*points, strict=True))
    if not hasattr(points[0], "__len__") or isinstance(points[0], str | bytes):
        return [points]
    return points
