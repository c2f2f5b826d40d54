"""Folds of records that were read: of a range that is not contiguous in a tree, or of columns that a tree cannot fold.

min:item, max:item,price      texts are compared by their labels, which may change, so no tree stores such a scan
sum:price  in a range of texts      the records between two texts are scattered in the tree
"""

import numpy as np

from pagestore.pages.scan_tree_check import fold_of
from pagestore.values.codec import NULL
from pagestore.values.dictionary import Dictionary
from pagestore.values.scan_spec import ORDERED, ScanSpec
from pagestore.values.types import Schema


def fold_read(scan: ScanSpec, schema: Schema, dictionary: Dictionary, read: np.ndarray) -> tuple[list[int], bool]:
    """Return the fold words of stored words int64[C, n], in their order, and whether there are any; skips nulls."""
    if scan.operator not in ("count", "checksum") or scan.columns:
        folded = schema.stored.index(scan.columns[0]) if scan.operator == "count" else scan.rows[0][1]
        if schema.stored[folded].type.nullable:
            read = read[:, read[folded] != NULL]
    if not read.shape[1]:
        return [0] * len(scan.rows), False
    if scan.operator in ORDERED:
        return _extreme(scan, schema, dictionary, read), True
    return [*fold_of(scan.rows, 0, len(schema.key), read)], True


def _extreme(scan: ScanSpec, schema: Schema, dictionary: Dictionary, read: np.ndarray) -> list[int]:
    """Return the words of a min or max's columns, from the record that attains it."""
    places = [place for _, place in scan.rows]
    columns = [
        dictionary.order.keys(read[place]) if schema.stored[place].type.interned else read[place] for place in places
    ]
    order = np.lexsort(columns[::-1])
    words: list[int] = read[places, order[0 if scan.operator.endswith("min") else -1]].tolist()
    return words
